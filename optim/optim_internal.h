/* optim/optim_internal.h - what optimizers of every kind share, and what a kind adds. */
#ifndef BR_OPTIM_INTERNAL_H
#define BR_OPTIM_INTERNAL_H

#include "nn/nn_internal.h"
#include "ops/kernels/kernels.h"

#include <brasa/optim.h>

/* ---- One loop over many tensors -------------------------------------------------------------- */

/* A model has hundreds of tensors, most of them small. Laid end to end they are cut into pieces of
 * BR_GRAIN elements, which one parallel loop takes: a piece is part of a tensor or several. */
typedef struct br_span {
    int64_t start; /* in the row of all; set by br__lay_out() */
    int64_t numel;
} br_span;

/* Sets the starts; returns the number of pieces. */
int64_t br__lay_out(int64_t n, br_span *spans);
/* Calls run for elements from .. from + count - 1 of `item`, for all items, in pieces. */
typedef void (*br_piece_fn)(void *context, int64_t piece, int64_t item, int64_t from,
                            int64_t count);
void br__over_spans(int64_t n, const br_span *spans, br_piece_fn run, void *context);

/* ---- Optimizers ------------------------------------------------------------------------------ */

typedef union br_optim_options {
    double lr; /* every kind's options begin with it */
    br_adam_options adam;
    br_sgd_options sgd;
    br_rmsprop_options rmsprop;
    br_adagrad_options adagrad;
    br_muon_options muon;
} br_optim_options;

enum { BR_MAX_STATES = 4 };

/* A parameter and its state. */
typedef struct br_slot {
    char *name; /* unique in the optimizer */
    br_tensor *param;
    br_tensor *state[BR_MAX_STATES]; /* NULL: not made */
    int group;
    bool stepped; /* state is in use: a step was made or state loaded */
} br_slot;

/* A slot's part in a step. */
typedef struct br_job {
    br_slot *slot;
    const br_kernels *kernels;
    br_tensor *param, *grad; /* without gaps: the slot's own or copies */
    br_tensor *direction;    /* Muon's: what is taken from the parameter */
    union {
        br_adam_args adam;
        br_sgd_args sgd;
        br_rmsprop_args rmsprop;
        br_adagrad_args adagrad;
        br_muon_args muon;
    } args;
} br_job;

typedef struct br_optim_kind {
    const char *name;
    /* Fills *options from what the user gave (NULL: defaults) and checks it. */
    bool (*resolve)(br_optim_options *options, const void *given);
    int n_states;
    const char *state_names[BR_MAX_STATES];
    /* True if parameters of a group keep state number i; false: it stays NULL. */
    bool (*has_state)(const br_optim_options *options, int i);
    /* The momentum, or what stands for it, of a group's options. NULL: there is none. */
    double *(*momentum)(br_optim_options *options);
    bool (*is_counter)(int i); /* state i is one i64, not of the parameter's shape */
    /* What state i is filled with when it is made. NULL: 0. */
    double (*initial)(const br_optim_options *options, int i);
    /* Refuses a parameter that the kind cannot optimize. NULL: it takes all. */
    bool (*takes)(const br_named_tensor *parameter);
    /* Works out job->args for the slot's next step, changing no state; may fail. */
    bool (*prepare)(br_job *job, const br_optim_options *options);
    /* Updates elements of one job. */
    void (*update)(const br_job *job, int64_t from, int64_t count);
    /* Called for each job when all are updated. */
    void (*finish)(br_job *job);
} br_optim_kind;

typedef struct br_group {
    br_optim_options options;
    bool scheduled;    /* a scheduler was made: */
    double initial_lr; /* the rate before the first one */
} br_group;

struct br_optim {
    const br_optim_kind *kind;
    br_optim_options defaults;
    br_group *groups;
    br_slot *slots;
    br_job *jobs; /* room for every slot, so that a step allocates nothing */
    br_span *spans;
    int64_t n_groups, group_room, n_slots, slot_room, job_room, span_room;
};

br_optim *br__optim_new(const br_optim_kind *kind, const br_named_list *parameters,
                        const void *options);
/* The same for the parameters of a module. */
br_optim *br__optim_for(const br_optim_kind *kind, br_module *module, const void *options);
/* Checks an option; `op` begins the message. */
bool br__not_negative(const char *op, const char *name, double value);
bool br__in_unit(const char *op, const char *name, double value); /* 0 .. 1, without 1 */
/* For kinds without counters, whose steps end with the update. */
bool br__no_counter(int i);
void br__nothing_to_finish(br_job *job);
/* Makes the slot's state as far as it is missing, zeroed. */
bool br__slot_prepare(const br_optim *optim, br_slot *slot);
void br__slot_clear(br_slot *slot);

/* Loading a scheduler in two steps. The first gives the state's tensors in the order that the
 * second wants, or NULL and an error if they do not fit; the second cannot fail. */
br_named_list *br__scheduler_match(const br_scheduler *s, const br_named_list *state);
void br__scheduler_restore(br_scheduler *s, const br_named_list *matched);

/* Element `from` of a tensor without gaps; NULL without one. */
static inline void *br__element(const br_tensor *t, int64_t from)
{
    if (!t)
        return NULL;
    return t->data + from * (int64_t)br_dtype_size(t->dtype);
}

#endif
