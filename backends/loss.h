/* backends/loss.h - work of losses. */
#ifndef BR_BACKEND_LOSS_H
#define BR_BACKEND_LOSS_H

#include <brasa/tensor.h>

/* Cross entropy of rows of class scores. With class weights w and a fraction s of each target (the
 * label smoothing) spread over all C classes, the loss of a row x with target t is
 *
 *     a (lse - x_t) + b (W lse - sum over c of w_c x_c)
 *     a = (1 - s) w_t,  b = s / C,  W = sum of w,  lse = log sum exp(x)
 *
 * Its gradient with respect to x_c is (a + b W) p_c - b w_c, minus a for c = t, with p =
 * softmax(x). The loss and the gradient of an ignored target are 0. */
typedef struct br_class_loss {
    int64_t ignore;    /* targets with this value are ignored */
    double smoothing;  /* s */
    bool mean;         /* the sum of the losses is divided by `counted` */
    double counted;    /* sum of the weights of targets that are not ignored */
    double weight_sum; /* W */
} br_class_loss;

enum { BR_CLASS_SUMS = 3 }; /* numbers that the gradient needs of each row */

/* All tensors are contiguous. Those that are not i64 have the dtype of the scores. */
typedef struct br_cross_entropy_tensors {
    const br_tensor *scores;       /* [..., classes] */
    const br_tensor *target;       /* i64, for each row a class, or the value to ignore */
    const br_tensor *class_weight; /* [classes]; NULL: 1 */
    const br_tensor *losses;       /* one for each row */
    const br_tensor *reduced;      /* [], the sum or mean of the losses; or NULL */
    const br_tensor *sums;         /* [rows, BR_CLASS_SUMS], for the gradient */
    const br_tensor *dy;           /* gradient of `reduced`, or one for each row */
    const br_tensor *dscores;
} br_cross_entropy_tensors;

/* The same for the scores input weight^T + bias, of which a backend keeps only a chunk of rows. The
 * input, the weight and the bias have any strides. */
typedef struct br_linear_cross_entropy_tensors {
    int64_t chunk;           /* rows */
    br_dtype rounds_to;      /* products may round f32 operands to this dtype */
    const br_tensor *input;  /* [rows, in_features] */
    const br_tensor *weight; /* [classes, in_features] */
    const br_tensor *bias;   /* [classes], or NULL */
    const br_tensor *target; /* as above */
    const br_tensor *class_weight;
    const br_tensor *losses;
    const br_tensor *reduced;
    const br_tensor *dy;                       /* NULL: gradients are not computed */
    const br_tensor *dinput, *dweight, *dbias; /* any may be NULL */
} br_linear_cross_entropy_tensors;

#endif
