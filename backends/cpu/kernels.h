/* backends/cpu/kernels.h - tables of kernels.
 *
 * variant.c is compiled once for each instruction set and type. Each of these builds has a table of
 * kernels and one of matrix products (gemm/gemm_kernels.h). br__kernels_of() returns the best table
 * that this processor supports. integer.c has tables for i64 and bool, in which operations that are
 * not defined for the type are NULL.
 *
 * Kernels work on plain memory of the table's type, run in the caller's thread, and do not check
 * their arguments. Pointwise kernels are loops for br__run_loop(). Others process rows of
 * contiguous memory, so that callers can divide the rows among threads. */
#ifndef BR_KERNELS_H
#define BR_KERNELS_H

#include "backends/cpu/attention/attention_kernels.h"
#include "backends/cpu/conv/depthwise_kernels.h"
#include "backends/cpu/linalg/linalg_kernels.h"
#include "backends/cpu/loss/loss_kernels.h"
#include "backends/cpu/norm/norm_kernels.h"
#include "backends/cpu/recurrent/recurrent_kernels.h"
#include "backends/cpu/reduce/reduce_kernels.h"
#include "backends/optim.h"
#include "backends/pointwise.h"
#include "backends/reduce.h"
#include "tensor/block_types.h"
#include "tensor/dtype.h"
#include "tensor/loop.h"

typedef struct br_kernels {
    const char *name; /* "avx512", "avx2", "baseline"; "i64", "bool" */

    br_loop pointwise[BR_POINTWISES]; /* NULL: not defined for the type */

    br_reduce reduce[BR_FOLDS]; /* infinite initial values are INT64_MIN and INT64_MAX in i64 */
    br_store_results store_results;

    /* The updates of optimizers, for n contiguous elements, by rule. `state` has the rule's states,
     * NULL for those that the options do not need. */
    void (*update[BR_UPDATE_HOST])(int64_t n, void *param, const void *grad, void *const *state,
                                   const br_update_args *args);
    double (*sum_squares)(int64_t n, const void *values);
    double (*max_abs)(int64_t n, const void *values); /* NaN if any value is NaN */

    /* Writes the convolution of the plane with the kernel to the result, or adds it if `accumulate`
     * is true. */
    void (*depthwise)(const br_depthwise *w, const void *plane, const void *kernel, void *result);
    /* Adds the gradient with respect to the kernel to `sums`, given that of the result; `sums` has
     * 64 bytes for each tap and for 4 more taps. If `kernel` is not NULL, then adds the sums to
     * `kernel` and resets them to 0. to_step must be 1. */
    void (*depthwise_weight)(const br_depthwise *w, const void *plane, const void *result,
                             void *sums, void *kernel);

    /* In the table for f32, for the dtypes bf16 and f16: convert n contiguous numbers to f32, and
     * back. */
    void (*widen[BR_DTYPES])(int64_t n, void *to, const void *from);
    void (*narrow[BR_DTYPES])(int64_t n, void *to, const void *from);
    /* In the table for f32: dequantize n blocks of a type. */
    void (*dequantize[BR_N_BLOCK_TYPES])(int64_t n, float *to, const unsigned char *from);

    void (*softmax)(const br_softmax_work *work);
    void (*softmax_grad)(const br_softmax_work *work);
    void (*layer_norm)(const br_layer_norm_work *work);
    void (*layer_norm_grad)(const br_layer_norm_work *work);
    void (*recurrent_step)(const br_recurrent_work *work);
    void (*recurrent_step_grad)(const br_recurrent_work *work);
    void (*channel_moments)(const br_channel_work *work);
    void (*channel_norm)(const br_channel_work *work); /* out = (x - mean) scale + shift */
    void (*channel_products)(const br_channel_work *work);
    void (*channel_norm_grad)(const br_channel_work *work);
    void (*dropout)(int64_t n, const br_dropout_work *d, const void *x, void *y);
    /* Generates the bits of elements first .. first + n - 1 with a counter-based generator. A bit
     * is 0 with probability threshold / 2^32. `first` must be a multiple of 64; the last word is
     * completed. */
    void (*dropout_bits)(int64_t n, int64_t first, uint64_t key, uint32_t threshold,
                         uint64_t *bits);
    /* Does the work for the matrices begin .. end - 1. */
    void (*small_linalg)(const br_small_linalg *work, int64_t begin, int64_t end);
    br_attention_kernels attention;
    /* Kernels over a row of logits x, with class weights w (NULL: all 1). They compute the sums and
     *
     *     dx = (own + shared) softmax(x) - spread w - own onehot(target)
     *
     * where dx may be x. */
    void (*cross_entropy_sums)(int64_t n, const void *x, int64_t target,
                               br_cross_entropy_sums *sums);
    double (*shifted_dot)(int64_t n, const void *x, const void *w, double shift);
    void (*cross_entropy_grad)(int64_t n, const void *x, const void *w,
                               const br_cross_entropy_row *r, void *dx);
} br_kernels;
/* The entry of a pointwise kernel in a table: POINTWISE(add) = add_loop, */
#define POINTWISE(name) .pointwise[BR_POINTWISE(name)]

/* The tables of integers and bool, which are the same for every instruction set (integer.c). */
extern const br_kernels br__kernels_i64, br__kernels_bool;

/* Returns the table of a dtype. */
const br_kernels *br__kernels_of(br_dtype dtype);

/* For tests: selects the variant of that name from now on, or the best one if `name` is NULL.
 * Returns false if it cannot be used here. */
bool br__force_kernels(const char *name);

#endif
