/* tests/train/rank_runs.h - training runs by several forked ranks, and comparisons of two runs. */
#ifndef BRASA_TESTS_TRAIN_RANK_RUNS_H
#define BRASA_TESTS_TRAIN_RANK_RUNS_H

#include "train/train.h"

enum { MAX_ASSIGNMENTS = 12 };

typedef struct run {
    const char *recipe, *data;
    const char *settings[MAX_ASSIGNMENTS]; /* "KEY=VALUE", ends with NULL */
    int ranks;                             /* 1: one process, without a transport */
    bool resume;
    const char *fails_on_rank_1; /* a setting that only rank 1 has; NULL: none */
    const char *fails_on_rank_2;
    const char *out_on_rank_1;     /* a directory of its own; NULL: that of the other ranks */
    const char *kernels_on_rank_1; /* for br__force_kernels(); NULL: those of the other ranks */
    const recipe *modified;        /* a changed copy of the recipe; NULL: none */
    double watch_limit;            /* 0: the default */
    int asked_to_stop;             /* 1 + the rank that is asked to stop after a step; 0: none */
} run;

/* Returns the path of a file in $OUT. Valid for four calls. */
const char *in_directory(const char *name);
/* Trains in processes of their own; returns the exit status of the last that failed, or 0. A rank
 * that fails appends "rank R, status S: ERROR" to $OUT/errors. The exit status of a rank is
 * RANK_DIED if another one has died, otherwise the outcome. */
enum { RANK_DIED = 75 };
int train_ranks(const run *r, const char *out);
/* Checks that the checkpoints in two directories have the same tensors and generators, bit by bit.
 */
void check_same(const char *name, const char *a, const char *b);
/* Checks that both runs logged the same losses, at the same steps. */
void check_same_losses(const char *name, const char *a, const char *b);

#endif
