/* optim/optim_internal.h - internals shared by all optimizers. */
#ifndef BR_OPTIM_INTERNAL_H
#define BR_OPTIM_INTERNAL_H

#include "nn/nn_internal.h"

#include <brasa/optim.h>
#include <stddef.h>

/* ---- Optimizers ------------------------------------------------------------------------------ */

/* A parameter and its state. */
typedef struct br_slot {
    char *name; /* unique in the optimizer */
    br_tensor *param;
    br_tensor *state[BR_OPTIM_MAX_STATES]; /* NULL: not created */
    /* The parameter's dtype and backend when its state was created. */
    br_dtype state_dtype;
    const br_backend *state_backend;
    uint64_t version; /* of the parameter after the last step, for BR_HALF_MASTER */
    int group;
    bool stepped; /* the state is in use: a step was made or a state loaded */
} br_slot;

/* The data of one slot in a step. */
typedef struct br_task {
    br_optim_work work;
    br_slot *slot;
} br_task;

typedef struct br_group {
    void *options;     /* of the kind's type */
    bool scheduled;    /* a scheduler has been created, so initial_lr is set */
    double initial_lr; /* the rate before the first scheduler */
} br_group;

/* The number of tensors in the thread, which tells a loop that frees none: see watch_growth(). */
typedef struct br_growth {
    size_t tensors, start_tensors; /* at the last step, and before the first of `steps` */
    int steps;                     /* consecutive steps that each found more than the step before */
} br_growth;

struct br_optim {
    const br_optim_kind *kind;
    br_half_update half_update;
    /* The kind's states; with BR_HALF_MASTER, then the f32 copies of parameters. */
    br_optim_state states[BR_OPTIM_MAX_STATES];
    int n_states;
    uint64_t seed;  /* of the step, for BR_HALF_STOCHASTIC */
    void *defaults; /* options of new groups */
    br_group *groups;
    br_slot *slots;
    /* These four have room for every slot, so that a step need not grow them. */
    br_task *tasks;
    br_update *updates;
    br_loop_span *spans;
    char *args; /* args_stride bytes for each task */
    size_t args_stride;
    int64_t n_groups, group_capacity, n_slots, slot_capacity, task_capacity, update_capacity,
        span_capacity, args_capacity;
    br_growth growth, growth_in_scope; /* of all steps, and of steps in the same scope */
    uint64_t last_scope;               /* serial number of the scope of the last step, or 0 */
};

/* Returns a contiguous copy in the innermost scope. */
br_tensor *br__dense_copy(const char *op, const br_tensor *t);
/* Returns the option at an offset: the learning rate or the momentum. */
static inline double *br__option(void *options, size_t offset)
{
    return (double *)(void *)((char *)options + offset);
}
double *br__group_lr(const br_optim *optim, int64_t group);
size_t br__options_size(const br_optim_kind *kind);
/* Check an option; `op` begins the error message. */
bool br__not_negative(const char *op, const char *name, double value);
bool br__in_unit_interval(const char *op, const char *name, double value); /* in [0, 1) */
/* Checks the options that Adam and its relatives share. */
bool br__good_adam(const char *op, double beta1, double beta2, double eps, double weight_decay);
/* Creates the states of the slot that the options need and that are missing. Sets fresh[i] if it
 * has created state i. */
bool br__slot_prepare(const br_optim *optim, br_slot *slot, bool *fresh);
/* Drops the states that br__slot_prepare() has created, because what needed them has failed. */
void br__slot_drop(br_slot *slot, const bool *fresh);
/* Returns true if the group's options need state i. */
bool br__slot_needs(const br_optim *optim, const br_slot *slot, int i);
void br__slot_clear(br_slot *slot);
/* ---- Options in state dicts (optim/group_state.c) -------------------------------------------- */

/* Adds the options of all groups to a state dict, which holds its tensors. */
bool br__add_group_options(const br_optim *optim, br_named_list *state);
/* Returns true if the name is that of an option, not of the state of a parameter. */
bool br__is_group_option(const char *name);
/* Returns true if the state dict holds options. */
bool br__has_group_options(const br_named_list *state);
/* Returns the groups with the options of a state dict that holds them. Returns NULL and sets an
 * error if they do not match. */
br_group *br__read_group_options(const br_optim *optim, const br_named_list *state);
/* Exchanges the options and initial rates of the optimizer with those of `groups`. */
void br__swap_group_options(br_optim *optim, br_group *groups);
void br__free_groups(br_group *groups, int64_t n);

/* ---- Gradients (optim/clip.c) ---------------------------------------------------------------- */

/* Multiplies the gradients of the parameters by `factor`. *finite tells whether all elements were
 * finite before. Returns false and an error on failure. */
bool br__scale_gradients(const char *op, const br_named_list *parameters, double factor,
                         bool *finite);

/* ---- Schedulers ------------------------------------------------------------------------------ */

/* Load a scheduler in two steps. br__scheduler_match() returns the state's tensors in the order
 * that br__scheduler_restore() needs; it returns NULL and sets an error if they do not match.
 * br__scheduler_restore() cannot fail. */
br_named_list *br__scheduler_match(const br_scheduler *s, const br_named_list *state);
void br__scheduler_restore(br_scheduler *s, const br_named_list *matched);
/* Sets the optimizer's rates and momentum to those of the scheduler's epoch. Checkpoints need it
 * that were saved without the options of the groups. */
void br__scheduler_set_rates(br_scheduler *s);

#endif
