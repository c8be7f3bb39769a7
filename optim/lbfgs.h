/* optim/lbfgs.h - a step of L-BFGS, for lbfgs*.c and strong_wolfe.c. */
#ifndef BR_OPTIM_LBFGS_H
#define BR_OPTIM_LBFGS_H

#include "optim/optim_internal.h"

/* The states. D is the last direction, and PREV_GRAD the gradient where it began. Row i of OLD_DIRS
 * has a change of the gradient, and row i of OLD_STPS the change of the position. */
enum { D, PREV_GRAD, OLD_DIRS, OLD_STPS, SEARCH };
/* The numbers of SEARCH: T is the last step size, H_DIAG the scale of the first approximation of
 * the inverse Hessian. COUNT rows of the history are in use; FIRST is the oldest. From RO on there
 * is a number for each row: 1 / (change of the gradient times change of the position). */
enum { N_ITER, FUNC_EVALS, T, H_DIAG, COUNT, FIRST, RO };

typedef struct lbfgs {
    br_optim *optim;
    const br_lbfgs_options *options;
    br_closure closure;
    void *context;
    br_tensor **parts; /* room for a vector of each parameter */
    double *numbers;   /* those of SEARCH, then scratch memory for each row of the history */
    br_tensor *grad;   /* at the current position */
    double loss;       /* likewise; it decreases, also if the program maximizes */
    int64_t evaluations;
} lbfgs;

/* A step size and the loss, the gradient and the slope, their product with the direction, there. */
typedef struct line_point {
    double t, loss, slope;
    br_tensor *grad;
} line_point;

/* Returns a vector of the parameters or, if `gradients`, of their gradients. */
br_tensor *br__lbfgs_gather(const lbfgs *s, bool gradients);
/* Sets the parameters to from + t direction. */
void br__lbfgs_move(const lbfgs *s, br_tensor *from, br_tensor *direction, double t);
/* Computes the loss and, in *grad, the gradient. */
double br__lbfgs_evaluate(lbfgs *s, br_tensor **grad);
double br__lbfgs_dot(br_tensor *a, br_tensor *b);
/* Returns a point that satisfies the strong Wolfe conditions, or the best one after at most
 * `most` iterations. `t` is the first step size. The parameters are at the last trial afterwards.
 */
line_point br__strong_wolfe(lbfgs *s, br_tensor *from, br_tensor *direction,
                            const line_point *start, double t, int64_t most);

#endif
