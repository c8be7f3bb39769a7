/* optim/scheduler_internal.h - what learning rate schedulers of every kind share, and what a kind
 * adds. */
#ifndef BR_SCHEDULER_INTERNAL_H
#define BR_SCHEDULER_INTERNAL_H

#include "optim/optim_internal.h"

enum { BR_SCHEDULER_VALUES = 3, BR_MAX_PHASES = 3 };

/* Where a phase of the one-cycle policy ends, and its rates and momenta. */
typedef struct br_phase {
    double end_step;
    int start, end; /* of br_one_cycle_point */
    int start_momentum, end_momentum;
} br_phase;

/* What a kind adds to a scheduler's state. */
typedef struct br_scheduler_kind {
    const char *name;
    /* The rate of a group in epoch last_epoch after the rate `lr`: PyTorch's get_lr(). NULL: the
     * kind has a step of its own. */
    double (*rate)(const br_scheduler *s, int group, double lr);
    /* The same from the first rate alone, for where a sequence enters. NULL: `rate` will do. */
    double (*closed_rate)(const br_scheduler *s, int group);
    /* Called when last_epoch grew, before `rate`. May be NULL. */
    void (*advance)(br_scheduler *s);
    /* Called when the rates are set. May be NULL. */
    void (*apply)(br_scheduler *s);
    /* Replaces the whole step. NULL: there is none. */
    bool (*step)(br_scheduler *s);
    const char *value_names[BR_SCHEDULER_VALUES]; /* of state beyond epoch and rates */
} br_scheduler_kind;

struct br_scheduler {
    const br_scheduler_kind *kind;
    br_optim *optim;
    int n_groups;
    int64_t last_epoch;
    bool initial;                       /* the first rates are being set */
    double *base_lrs, *last_lrs;        /* of each group */
    double *rates;                      /* room for the next ones */
    double values[BR_SCHEDULER_VALUES]; /* state of the kind */
    int64_t *milestones;                /* in order */
    double *owned;                      /* an array of the kind's own */
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

/* A scheduler whose groups have their first rates as base_lrs; NULL and an error. */
br_scheduler *br__scheduler_new(const br_scheduler_kind *kind, br_optim *optim);
/* Sets the first rates; frees the scheduler and gives NULL if an error is pending. */
br_scheduler *br__scheduler_begin(br_scheduler *s);
/* Copies n milestones, which must be in order, and at least 0. */
bool br__scheduler_milestones(br_scheduler *s, int n, const int64_t *milestones);
/* How many milestones are at or before the epoch. */
int br__scheduler_passed(const br_scheduler *s, int64_t epoch);
/* Goes to the next epoch, or to epoch 0 with `enter`, and sets its rates. */
bool br__scheduler_move(br_scheduler *s, bool enter);
/* Checks that a scheduler can be stepped. */
bool br__scheduler_usable(const char *op, const br_scheduler *s);
/* Makes the optimizer's rates, which some step set, the last ones. */
void br__scheduler_take_rates(br_scheduler *s);

#endif
