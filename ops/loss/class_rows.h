/* ops/loss/class_rows.h - cross entropy of rows of class scores, as used by cross_entropy and
 * linear_cross_entropy. With class weights w and a fraction s of each target (the label smoothing)
 * spread over all C classes, the loss of a row x with target t is
 *
 *     a (lse - x_t) + b (W lse - sum over c of w_c x_c)
 *     a = (1 - s) w_t,  b = s / C,  W = sum of w,  lse = log sum exp(x)
 *
 * Its gradient with respect to x_c is (a + b W) p_c - b w_c, minus a for c = t, with p =
 * softmax(x). lse itself is never computed, because it would be rounded to the precision of the
 * largest score. For its gradient each row keeps three sums: the largest score m, exp(x_t - m), and
 * the sum of exp(x - m) over the other classes. */
#ifndef BR_CLASS_ROWS_H
#define BR_CLASS_ROWS_H

#include "ops/loss/loss_internal.h"

enum { BR_CLASS_SUMS = 3 };

typedef struct br_class_loss {
    br_reduction reduction;
    int64_t ignore;
    double counted;    /* sum of the weights of targets that are not ignored */
    double smoothing;  /* s */
    double weight_sum; /* W */
} br_class_loss;

/* Rows to work on. All memory is contiguous, and all floats have the dtype of the scores. */
typedef struct br_class_rows {
    const br_kernels *kernels;
    br_class_loss s;
    int64_t rows, classes;
    br_dtype dtype;
    const char *x; /* scores [rows, classes] */
    const int64_t *target;
    const char *weight; /* class weights; NULL: 1 */
    char *losses;       /* one for each row, not reduced */
    char *sums;         /* BR_CLASS_SUMS for each row */
    const char *dy;     /* gradient of the loss: one value, or one for each row */
    char *dx;           /* gradient of the scores; may be x */
} br_class_rows;

/* Returns rows without scores and results. target is i64 and contiguous; weight is contiguous, or
 * NULL. */
br_class_rows br__class_rows(br_dtype dtype, int64_t classes, const br_tensor *target,
                             const br_tensor *weight, const br_class_loss *s);
/* Returns rows first .. first + n - 1 of these. The scores, their gradient and the sums belong to
 * the part: they are not advanced. */
br_class_rows br__class_rows_part(const br_class_rows *r, int64_t first, int64_t n);
/* Computes counted and weight_sum. */
void br__class_rows_weigh(br_class_rows *r);
/* Computes losses and sums from x. */
void br__class_rows_losses(const br_class_rows *r);
/* Computes dx from x, sums and dy. */
void br__class_rows_gradient(const br_class_rows *r);
/* Returns a new tensor with the sum or the mean of the losses, or NULL and an error. */
br_tensor *br__class_rows_reduced(const char *op, const br_class_rows *r);

/* Returns true if every element of a contiguous target is a class or ignored; fails otherwise. */
bool br__good_targets(const char *op, const br_tensor *target, int64_t classes, int64_t ignore);
/* Computes the gradient of the scores [n, c, d1, ...], or [c], by recorded operations. */
br_tensor *br__class_gradient_composed(const br_class_loss *s, br_tensor *scores, br_tensor *target,
                                       br_tensor *weight, br_tensor *dy);

#endif
