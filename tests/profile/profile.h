/* tests/profile/profile.h - shared by the tests of profiles: a small model, and finding events. */
#ifndef BR_TESTS_PROFILE_H
#define BR_TESTS_PROFILE_H

#include "tests/support.h"

#include <brasa/brasa.h>

enum { ROWS = 6, IN = 4, HIDDEN = 8, OUT = 3 };

typedef struct mlp {
    br_module base;
    br_linear *in, *out;
} mlp;

static inline br_tensor *mlp_forward(mlp *self, br_tensor *x)
{
    br_enter(self);
    x = br_gelu(br_linear_forward(self->in, x), BR_GELU_ERF);
    return br_leave(self, br_linear_forward(self->out, x));
}

static inline mlp *mlp_new(void)
{
    mlp *self = br_module_new(mlp);
    self->in = br_child(self, "in", br_linear_new(IN, HIDDEN, true));
    self->out = br_child(self, "out", br_linear_new(HIDDEN, OUT, false));
    return self;
}

/* Runs a training step; the input does not require grad. */
static inline bool train_step(mlp *model, br_optim *optim)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_ones(BR_SHAPE(ROWS, IN), BR_F32);
    br_optim_zero_grad(optim);
    br_backward(br_sum(mlp_forward(model, x)));
    bool ok = br_optim_step(optim);
    br_scope_end(scope);
    return ok;
}

static inline br_profile *profile_steps(int steps)
{
    mlp *model = mlp_new();
    br_optim *optim = br_adam(br_base(model), NULL);
    train_step(model, optim);
    br_profile *profile = br_profile_begin();
    for (int i = 0; i < steps; i++)
        train_step(model, optim);
    bool ended = profile && br_profile_end(profile);
    br_optim_free(optim);
    br_module_free(br_base(model));
    if (ended)
        return profile;
    br_profile_free(profile);
    return NULL;
}

/* Returns the event number `nth` (from 0) with that name, phase and module; NULL if there are
 * fewer. */
static inline const br_profile_event *find(const br_profile *p, const char *name,
                                           br_profile_phase phase, const char *module, int nth)
{
    for (int64_t i = 0; i < br_profile_count(p); i++) {
        const br_profile_event *e = br_profile_event_at(p, i);
        if (strcmp(e->name, name) == 0 && e->phase == phase && strcmp(e->module, module) == 0 &&
            nth-- == 0)
            return e;
    }
    return NULL;
}

#endif
