/* optim/grad_scaler.c - the scale of losses for mixed precision in f16, Micikevicius et al., 2018
 * (arXiv 1710.03740, section 3.2), with the rules of torch.amp.GradScaler. */
#include "optim/optim_internal.h"

#include <inttypes.h>
#include <math.h>

BR_DEFINE_DEFAULTS(br_grad_scaler)

/* What has happened to an optimizer since the last br_grad_scaler_update(). */
typedef struct turn {
    const br_optim *optim;
    bool finite;  /* its gradients were finite when they were divided */
    bool stepped; /* br_grad_scaler_step() was called */
} turn;

struct br_grad_scaler {
    br_grad_scaler_options o;
    float scale;     /* PyTorch's is an f32 tensor */
    int64_t tracker; /* steps without an infinity since the scale has changed */
    turn *turns;
    int64_t n_turns, capacity;
};

/* ---- Lifetime -------------------------------------------------------------------------------- */

static bool good_scale(const char *op, const char *name, double scale)
{
    return (scale > 0 && isfinite((float)scale)) ||
           br_fail(BR_ERROR_ARGUMENT, op, "%s is %g, must be positive and finite", name, scale);
}

/* Checks the options but init_scale. */
static bool good_options(const char *op, const br_grad_scaler_options *o)
{
    if (!(o->growth_factor > 1))
        br_fail(BR_ERROR_ARGUMENT, op, "growth_factor is %g, must be greater than 1",
                o->growth_factor);
    else if (!(o->backoff_factor > 0 && o->backoff_factor < 1))
        br_fail(BR_ERROR_ARGUMENT, op, "backoff_factor is %g, must be between 0 and 1",
                o->backoff_factor);
    else if (o->growth_interval < 1)
        br_fail(BR_ERROR_ARGUMENT, op, "growth_interval is %" PRId64 ", must be at least 1",
                o->growth_interval);
    return !br_failed();
}

br_grad_scaler *br_grad_scaler_new(const br_grad_scaler_options *options)
{
    const char *op = "grad_scaler_new";
    const br_grad_scaler_options *o = BR_OPTIONS_OF(op, br_grad_scaler, options);
    bool good = !br_failed() && good_scale(op, "init_scale", o->init_scale) && good_options(op, o);
    br_grad_scaler *scaler = good ? BR_NEW(br_grad_scaler) : NULL;
    if (!scaler)
        return NULL;
    scaler->o = *o;
    scaler->scale = o->enabled ? (float)o->init_scale : 1;
    return scaler;
}

void br_grad_scaler_free(br_grad_scaler *scaler)
{
    if (!BR_END("grad_scaler_free", scaler))
        return;
    br_free(scaler->turns);
    BR_FREE(scaler);
}

/* ---- Steps ----------------------------------------------------------------------------------- */

br_tensor *br_grad_scaler_scale(br_grad_scaler *scaler, br_tensor *loss)
{
    const char *op = "grad_scaler_scale";
    if (!br__required(op, "scaler", scaler) || !br__floating(op, "loss", loss))
        return NULL;
    return scaler->o.enabled ? br_mul_scalar(loss, (double)scaler->scale) : loss;
}

static turn *turn_of(br_grad_scaler *scaler, const br_optim *optim)
{
    for (int64_t i = 0; i < scaler->n_turns; i++)
        if (scaler->turns[i].optim == optim)
            return &scaler->turns[i];
    return NULL;
}

/* Checks that there are gradients, and that none is f16. */
static bool good_gradients(const char *op, const br_named_list *parameters)
{
    bool any = false;
    for (int64_t i = 0; i < parameters->count; i++) {
        const br_tensor *grad = br_grad_of(parameters->items[i].tensor);
        any |= grad != NULL;
        if (grad && br__largest(grad->dtype) < 1e5)
            return br_fail(BR_ERROR_DTYPE, op,
                           "the gradient of %s is %s, which cannot be divided without loss: keep "
                           "the parameters in f32 and compute in a region of mixed precision",
                           parameters->items[i].name, br_dtype_name(grad->dtype));
    }
    return any || br_fail(BR_ERROR_STATE, op,
                          "no parameter of the optimizer has a gradient: call br_backward() first");
}

/* Divides the gradients and begins the optimizer's turn. Returns NULL and an error on failure. */
static turn *begin_turn(const char *op, br_grad_scaler *scaler, br_optim *optim)
{
    turn *turns = br__grow(scaler->turns, &scaler->capacity, scaler->n_turns, sizeof *turns);
    if (!turns)
        return NULL;
    scaler->turns = turns;
    turn t = { .optim = optim };
    br_named_list *parameters = br_optim_group_parameters(optim, -1);
    bool ok =
        parameters && good_gradients(op, parameters) &&
        br__scale_gradients(op, parameters, (double)(float)(1 / (double)scaler->scale), &t.finite);
    br_named_list_free(parameters);
    if (!ok)
        return NULL;
    turns[scaler->n_turns] = t;
    return &turns[scaler->n_turns++];
}

bool br_grad_scaler_unscale_(br_grad_scaler *scaler, br_optim *optim)
{
    const char *op = "grad_scaler_unscale_";
    if (!br__required(op, "scaler", scaler) || !br__required(op, "optim", optim))
        return false;
    if (!scaler->o.enabled)
        return true;
    if (turn_of(scaler, optim))
        return br_fail(BR_ERROR_STATE, op,
                       "the optimizer's gradients are divided already: call "
                       "br_grad_scaler_update() after its step");
    return begin_turn(op, scaler, optim) != NULL;
}

bool br_grad_scaler_step(br_grad_scaler *scaler, br_optim *optim, bool *skipped)
{
    const char *op = "grad_scaler_step";
    if (skipped)
        *skipped = false;
    if (!br__required(op, "scaler", scaler) || !br__required(op, "optim", optim))
        return false;
    if (!scaler->o.enabled)
        return br_optim_step(optim);
    turn *t = turn_of(scaler, optim);
    if (t && t->stepped)
        return br_fail(BR_ERROR_STATE, op,
                       "the optimizer has made its step already: call br_grad_scaler_update() "
                       "after it");
    if (!t)
        t = begin_turn(op, scaler, optim);
    if (!t || (t->finite && !br_optim_step(optim)))
        return false;
    t->stepped = true;
    if (skipped)
        *skipped = !t->finite;
    return true;
}

bool br_grad_scaler_update(br_grad_scaler *scaler)
{
    const char *op = "grad_scaler_update";
    if (!br__required(op, "scaler", scaler))
        return false;
    if (!scaler->o.enabled)
        return true;
    if (scaler->n_turns == 0)
        return br_fail(BR_ERROR_STATE, op,
                       "no gradients were divided since the last update: call "
                       "br_grad_scaler_step() first");
    bool finite = true;
    for (int64_t i = 0; i < scaler->n_turns; i++)
        finite = finite && scaler->turns[i].finite;
    scaler->n_turns = 0;
    if (!finite) {
        scaler->scale = (float)((double)scaler->scale * scaler->o.backoff_factor);
        scaler->tracker = 0;
    } else if (++scaler->tracker == scaler->o.growth_interval) {
        const float grown = (float)((double)scaler->scale * scaler->o.growth_factor);
        scaler->scale = isfinite(grown) ? grown : scaler->scale;
        scaler->tracker = 0;
    }
    return true;
}

double br_grad_scaler_get_scale(const br_grad_scaler *scaler)
{
    return br__required("grad_scaler_get_scale", "scaler", scaler) ? (double)scaler->scale : 0;
}

bool br_grad_scaler_set_scale(br_grad_scaler *scaler, double scale)
{
    const char *op = "grad_scaler_set_scale";
    if (!br__required(op, "scaler", scaler) || !good_scale(op, "scale", scale))
        return false;
    if (scaler->o.enabled)
        scaler->scale = (float)scale;
    return true;
}

/* ---- State ----------------------------------------------------------------------------------- */

enum { SCALE, GROWTH_FACTOR, BACKOFF_FACTOR, GROWTH_INTERVAL, GROWTH_TRACKER, VALUES };
static const struct {
    const char *name;
    br_dtype dtype;
} values[VALUES] = {
    [SCALE] = { "scale", BR_F64 },
    [GROWTH_FACTOR] = { "growth_factor", BR_F64 },
    [BACKOFF_FACTOR] = { "backoff_factor", BR_F64 },
    [GROWTH_INTERVAL] = { "growth_interval", BR_I64 },
    [GROWTH_TRACKER] = { "_growth_tracker", BR_I64 },
};

br_named_list *br_grad_scaler_state_dict(const br_grad_scaler *scaler)
{
    if (!br__required("grad_scaler_state_dict", "scaler", scaler))
        return NULL;
    const br_grad_scaler_options *o = &scaler->o;
    const double now[VALUES] = { (double)scaler->scale, o->growth_factor, o->backoff_factor,
                                 (double)o->growth_interval, (double)scaler->tracker };
    br_named_list *list = br__named_list_new(true);
    br_scope *scope = br_no_grad_begin();
    bool ok = list && scope;
    for (int i = 0; ok && o->enabled && i < VALUES; i++) {
        br_tensor *t = br_scalar(now[i], values[i].dtype);
        ok = t && br__named_list_add(list, values[i].name, t);
    }
    br_scope_end(scope);
    if (ok)
        return list;
    br_named_list_free(list);
    return NULL;
}

/* Reads the values of a state. Returns false and an error if one is missing or of another kind. */
static bool read_values(const char *op, const br_named_list *state, double now[VALUES])
{
    for (int i = 0; i < VALUES; i++) {
        const br_tensor *t = br_named_list_get(state, values[i].name);
        if (!t)
            return br_fail(BR_ERROR_ARGUMENT, op, "%s is missing", values[i].name);
        if (t->numel != 1 || t->dtype != values[i].dtype)
            return br_fail(BR_ERROR_SHAPE, op, "%s is %s %s, must be one %s", values[i].name,
                           br__shape(t), br_dtype_name(t->dtype), br_dtype_name(values[i].dtype));
        now[i] = br_item((br_tensor *)t);
    }
    if (state->count != VALUES)
        return br_fail(BR_ERROR_ARGUMENT, op,
                       "the state has %" PRId64 " tensors, but a scaler has %d", state->count,
                       VALUES);
    return !br_failed();
}

bool br_grad_scaler_load_state_dict(br_grad_scaler *scaler, const br_named_list *state)
{
    const char *op = "grad_scaler_load_state_dict";
    double now[VALUES];
    if (!br__required(op, "scaler", scaler) || !br__required(op, "state", state))
        return false;
    if (!scaler->o.enabled)
        return true;
    if (!read_values(op, state, now))
        return false;
    br_grad_scaler_options o = scaler->o;
    o.growth_factor = now[GROWTH_FACTOR];
    o.backoff_factor = now[BACKOFF_FACTOR];
    o.growth_interval = (int64_t)now[GROWTH_INTERVAL];
    if (!good_scale(op, "scale", now[SCALE]) || !good_options(op, &o))
        return false;
    if (now[GROWTH_TRACKER] < 0)
        return br_fail(BR_ERROR_ARGUMENT, op, "_growth_tracker is %g, must not be negative",
                       now[GROWTH_TRACKER]);
    scaler->o = o;
    scaler->scale = (float)now[SCALE];
    scaler->tracker = (int64_t)now[GROWTH_TRACKER];
    return true;
}
