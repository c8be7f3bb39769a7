/* optim/scheduler_internal.h - internals shared by all learning rate schedulers, and the interface
 * of their kinds. */
#ifndef BR_SCHEDULER_INTERNAL_H
#define BR_SCHEDULER_INTERNAL_H

#include "optim/optim_internal.h"

enum { BR_SCHEDULER_VALUES = 3, BR_MAX_PHASES = 3 };

/* A phase of the one-cycle policy: its end, its learning rates and its momenta. */
typedef struct br_phase {
    double end_step;
    int start, end; /* INITIAL_LR and so on, see one_cycle.c */
    int start_momentum, end_momentum;
} br_phase;

/* A kind of scheduler. */
typedef struct br_scheduler_kind {
    const char *name;
    /* Returns a group's rate in epoch last_epoch, given the previous rate `lr`: PyTorch's get_lr().
     * NULL: the kind has its own `step`. */
    double (*rate)(const br_scheduler *s, int group, double lr);
    /* Like `rate`, but computes the rate from the initial rate alone. Used when a sequence switches
     * to this scheduler. NULL: `rate` is used. */
    double (*closed_rate)(const br_scheduler *s, int group);
    /* Called after last_epoch has increased, before `rate`. May be NULL. */
    void (*advance)(br_scheduler *s);
    /* Called after the rates are set. May be NULL. */
    void (*apply)(br_scheduler *s);
    /* Replaces the whole step. May be NULL. */
    bool (*step)(br_scheduler *s);
    /* Names of the kind's `values` in state dicts. */
    const char *value_names[BR_SCHEDULER_VALUES];
} br_scheduler_kind;

struct br_scheduler {
    const br_scheduler_kind *kind;
    br_optim *optim;
    int n_groups;
    int64_t last_epoch;
    bool initial;                       /* the initial rates are being set */
    double *base_lrs, *last_lrs;        /* of each group */
    double *rates;                      /* buffer for the next rates */
    double values[BR_SCHEDULER_VALUES]; /* state of the kind */
    int64_t *milestones;                /* in ascending order */
    double *owned;                      /* an array that belongs to the kind */
    int n_milestones, n_children;
    br_scheduler **children;
    union {
        struct {
            int64_t step_size;
            double gamma;
        } step;
        struct {
            double start, end;
            int64_t total_iters;
        } linear;
        struct {
            int64_t t_max, t_mult;
            double eta_min;
        } cosine;
        struct {
            br_lr_lambda function;
            void *context;
        } lambda;
        struct {
            br_one_cycle_options options;
            br_phase phases[BR_MAX_PHASES];
            int n_phases;
        } one_cycle;
        br_plateau_options plateau;
    } args;
};

/* Creates a scheduler whose base_lrs are the groups' initial rates. Returns NULL and sets an error
 * on failure. */
br_scheduler *br__scheduler_new(const br_scheduler_kind *kind, br_optim *optim);
/* Sets the initial rates. If an error is pending, frees the scheduler and returns NULL. */
br_scheduler *br__scheduler_begin(br_scheduler *s);
/* Copies n milestones, which must be in ascending order and at least 0. */
bool br__scheduler_milestones(br_scheduler *s, int n, const int64_t *milestones);
/* Returns how many milestones are at or before the epoch. */
int br__scheduler_passed(const br_scheduler *s, int64_t epoch);
/* Advances to the next epoch, or with `enter` to epoch 0, and sets the epoch's rates. */
bool br__scheduler_advance(br_scheduler *s, bool enter);
/* Returns true if the scheduler can be used. Otherwise returns false and sets an error. */
bool br__scheduler_usable(const char *op, const br_scheduler *s);
/* Copies the optimizer's rates, which some step has set, to last_lrs. */
void br__scheduler_copy_rates(br_scheduler *s);

#endif
