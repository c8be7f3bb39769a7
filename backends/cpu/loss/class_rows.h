/* backends/cpu/loss/class_rows.h - cross entropy of rows of class scores, on plain memory.
 * backends/loss.h has the formula. lse itself is never computed, because it would be rounded to the
 * precision of the largest score. For its gradient each row keeps three sums: the largest score m,
 * exp(x_t - m), and the sum of exp(x - m) over the other classes. */
#ifndef BR_CLASS_ROWS_H
#define BR_CLASS_ROWS_H

#include "backends/cpu/kernels.h"
#include "tensor/tensor_internal.h"

/* Rows to work on. All memory is contiguous. The scores and their gradient may have a storage dtype
 * if there are at most BR_LONGEST_ROW classes. */
typedef struct br_class_rows {
    const br_kernels *kernels;
    br_class_loss s;
    int64_t rows, classes;
    br_dtype dtype, scores; /* of all other floats, and of the scores and their gradient */
    const char *x;          /* scores [rows, classes] */
    const int64_t *target;
    const char *weight; /* class weights; NULL: 1 */
    char *losses;       /* one for each row, not reduced */
    char *sums;         /* BR_CLASS_SUMS for each row */
    const char *dy;     /* gradient of the loss; NULL: none */
    bool dy_of_rows;    /* dy has a value for each row, not one for all */
    char *dx;           /* gradient of the scores; may be x */
} br_class_rows;

/* Returns rows of scores. Pointers of absent tensors are NULL. */
br_class_rows br__class_rows(const br_class_loss *s, int64_t classes,
                             const br_cross_entropy_tensors *t);
/* Returns rows first .. first + n - 1 of these. The scores, their gradient and the sums belong to
 * the part: they are not advanced. */
br_class_rows br__class_rows_part(const br_class_rows *r, int64_t first, int64_t n);
/* Computes counted and weight_sum of the rows and of *loss. */
void br__class_rows_weigh(br_class_rows *r, br_class_loss *loss);
/* Computes losses and sums from x. */
void br__class_rows_losses(const br_class_rows *r);
/* Computes dx from x, sums and dy. */
void br__class_rows_gradient(const br_class_rows *r);
/* Stores the sum or the mean of the losses, which are added in order. */
void br__class_rows_reduce(const br_class_rows *r, const br_tensor *reduced);

#endif
