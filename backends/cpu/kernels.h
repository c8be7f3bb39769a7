/* backends/cpu/kernels.h - tables of kernels.
 *
 * variant.c is compiled once for each instruction set and type. Each of these builds has a table of
 * kernels and one of matrix products. br__kernels_of() returns the best table that this processor
 * supports. integer.c has tables for i64 and bool, in which operations that are not
 * defined for the type are NULL.
 *
 * Kernels work on plain memory of the table's type, run in the caller's thread, and do not check
 * their arguments. Pointwise kernels are loops for br__run_loop(). Others process rows of
 * contiguous memory, so that callers can divide the rows among threads. */
#ifndef BR_KERNELS_H
#define BR_KERNELS_H

#include "backends/cpu/gemm/gemm_precision.h"
#include "backends/optim.h"
#include "backends/pointwise.h"
#include "backends/recurrent.h"
#include "backends/reduce.h"
#include "tensor/dtype.h"
#include "tensor/loop.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* ---- Reductions, reduce/reduce.h ------------------------------------------------------------- */

/* The accumulator of a reduction: f for f32 and f64, i for i64 and bool. */
typedef union br_accumulator {
    double f;
    int64_t i;
} br_accumulator;

/* Work for a reduction kernel: element i of column j is at x + i * row_stride + j * column_stride
 * (bytes), and is accumulated in value[j]. Rows are processed in order. */
typedef struct br_fold {
    const char *x;
    int64_t rows, columns;
    int64_t row_stride, column_stride;
    br_accumulator *value;
    int64_t *index;    /* argmax: the row of value[j] */
    int64_t first_row; /* argmax: the index of row 0 */
    bool streamed;     /* x is larger than the caches, and other rows follow these */
} br_fold;

typedef void (*br_reduce)(const br_fold *fold);
/* Stores v[j] / by as element j * step of the result, for j < n. Integers are not divided. */
typedef void (*br_store_results)(void *out, const br_accumulator *v, int64_t n, int64_t step,
                                 double by);

/* ---- Matrix products, gemm/gemm_block.h and gemm_dots.h -------------------------------------- */

enum { BR_GEMM_K = 304 }; /* maximum size of a k-block in f32 and f64 */

/* `runs` runs of `bytes` contiguous bytes, `step` bytes apart. */
typedef struct br_strided_rows {
    const char *at;
    int64_t bytes, step, runs;
} br_strided_rows;

/* A block of a product: C = A B + bias, or C += A B + bias, with k <= gemm_depth. Strides are in
 * elements; the columns of C and of the bias are contiguous. Rows of A are in groups of gemm_rows,
 * a_tile elements apart, so that A may be packed. gemm.h explains the lists. */
typedef struct br_gemm_block {
    int64_t m, n, k;
    const void *a;
    int64_t a_tile, a_row, a_col;
    const void *b;
    int64_t b_row, b_col;
    void *c;
    int64_t c_row;
    const void *bias;                              /* or NULL */
    const int64_t *b_rows, *b_columns, *c_columns; /* or NULL */
    bool accumulate, exceeds_l2;                   /* exceeds_l2: C is not in the L2 cache */
    br_strided_rows next;                          /* the next block of A, to be prefetched */
    /* Number of columns that threads have taken; each takes the next panel from here. NULL: the
     * caller computes all of them. */
    atomic_int_fast64_t *next_column;
} br_gemm_block;

/* Matrix products have their own table, since they are built for more variants than the other
 * kernels. */
typedef struct br_gemm_kernels {
    const char *unit;            /* the unit for bf16; NULL in the tables for f32 and f64 */
    int gemm_rows, gemm_columns; /* of a tile */
    int gemm_depth;              /* maximum size of a k-block */
    int gemm_depth_unit;         /* k-blocks other than the last are multiples of this */
    int packed_size;             /* bytes of an element of packed A */
    bool only_packed;            /* gemm_block needs packed A, and there are no dot products */
    bool gemm_by_blis;           /* BLIS may have better kernels for large products */
    void (*gemm_block)(const br_gemm_block *block);
    /* Dot products are used if k is at least dot_length times the smaller of m and n, or if m and n
     * are at most dot_square; gemm.c has further conditions. */
    int dot_rows, dot_length, dot_square;
    /* Computes a block by dot products, dot_rows rows at a time. a_col and b_row must be 1, k may
     * have any size, and a_tile is ignored. */
    void (*gemm_dots)(const br_gemm_block *block);
    /* Packs A [m, k] as gemm_block reads it. In f32 and f64 these are groups of gemm_rows rows:
     * element (i, p) of a group is at p * gemm_rows + i. `to` must be aligned to 64 bytes and have
     * room for m rounded up to whole groups, and for k rounded up to a multiple of
     * gemm_depth_unit. */
    void (*gemm_pack)(void *to, int64_t m, int64_t k, const void *a, int64_t a_row, int64_t a_col);
    /* For br_measure_peak(), in the tables for bf16: n steps of the unit's instructions on
     * registers only, each of which has as many FLOPs as a product with `peak_flops`. Returns a
     * number that depends on all of them. */
    double (*peak_loop)(int64_t n);
    double peak_flops;
} br_gemm_kernels;

/* ---- Convolutions, conv/depthwise.h ---------------------------------------------------------- */

/* Position (y, x) of a result is at y * to_row + x * to_step. Tap t multiplies element y * row_step
 * + x + at[t] of the padded plane by element which[t] of the kernel. 64 more bytes must be readable
 * after the last element used of a plane. */
typedef struct br_depthwise {
    int64_t rows, columns, row_step;
    int64_t taps;
    const int64_t *at, *which;
    int64_t to_first, to_row, to_step; /* the result begins `to_first` elements into its plane */
    bool accumulate;
} br_depthwise;

/* ---- Rows, norm/softmax.h, layer_norm.h, norm_channels.h, dropout.h, loss.h ------------------ */

/* Work for softmax: element i of row j is x[i * step + j * (step == 1 ? n : 1)], and likewise in
 * the other arrays. With step 1 the rows are contiguous, one after another; otherwise at most
 * BR_SOFTMAX_TILE rows are interleaved. */
enum { BR_SOFTMAX_TILE = 64 };
typedef struct br_softmax_work {
    int64_t n, rows, step;
    bool log_of;   /* log softmax */
    const void *x; /* in the gradient: the result of softmax */
    const void *dy;
    void *out;
} br_softmax_work;

/* Work for layer norm of consecutive rows of n elements. If `mean` is NULL, this is RMS norm: the
 * mean counts as 0. */
typedef struct br_layer_norm_work {
    int64_t n, rows;
    double eps;
    const void *x, *weight, *bias, *dy; /* weight and bias may be NULL */
    void *y, *mean, *rstd;      /* one value per row: mean (or NULL), 1 / sqrt(variance + eps) */
    void *dx, *dweight, *dbias; /* any may be NULL; the last two are accumulated */
} br_layer_norm_work;

/* Work for norms over consecutive channels of `inner` contiguous elements each. mean, scale, slope
 * and shift have one value per channel, of the same type as the elements. first and second have one
 * double per channel. */
typedef struct br_channel_work {
    int64_t channels, inner;
    int64_t count; /* elements per channel that the moments already include */
    const void *x, *dy;
    void *out;
    const void *mean, *scale, *slope, *shift;
    double *first, *second; /* accumulated: mean and sum of squared deviations, or the sums of dy
                               and of dy (x - mean) */
} br_channel_work;

/* Work for a step of `rows` sequences (recurrent/recurrent.h); all arrays are contiguous rows. gi
 * and gh are the parts of the gates that depend on the input and on the previous state; h and c are
 * the previous state. */
typedef struct br_recurrent_work {
    br_recurrent_kind kind;
    int64_t rows, size;
    const void *gi, *gh, *h, *c;
    void *out, *c_out, *kept; /* the new state, and saved values; the gradient reads them */
    void *dh, *dc; /* gradients of the new state; dc (LSTM) and dh (GRU) are overwritten by those of
                      the previous state, without the part through gh */
    void *dgi, *dgh; /* dgh is for a GRU only; for others it equals dgi */
} br_recurrent_work;

/* Dropout: element i is dropped if bit i is 0, and multiplied by `scale` otherwise. */
typedef struct br_dropout_work {
    const uint64_t *bits; /* the lowest bit is the first element's; NULL: nothing is dropped */
    double scale;
} br_dropout_work;

/* ---- Attention, attention/attention_forward.h, attention_backward.h -------------------------- */

enum {
    BR_ATTENTION_BLOCK = 128,   /* queries, and keys, per block */
    BR_ATTENTION_QUERIES = 256, /* maximum queries of one call */
};

/* Element (i, j) is at i * row + j * column, in elements. */
typedef struct br_strided {
    void *at;
    int64_t row, column;
} br_strided;

/* Attention of one head, out = dropout(softmax(scale query key^T + mask)) value, and its gradients.
 */
typedef struct br_attention_work {
    int64_t queries, keys, width,
        value_width; /* query [queries, width], value [keys, value_width] */
    double scale;
    bool causal; /* query i attends to keys j <= i only */
    bool mask_is_bool;
    br_dropout_work dropout; /* of the scores of all heads; one more word must be readable */
    int64_t first_bit;       /* key j of query i has bit first_bit + i * keys + j */
    br_strided query, key, value;
    br_strided mask; /* its `at` may be NULL */
    br_strided out;  /* contiguous within rows; so are the gradients below */
    br_strided sums; /* for each query [top, 1 / sum], contiguous: the largest score, and the sum of
                        exp(score - top); [inf, 0] if the query attends to no key */
    br_strided dout; /* any strides */
    br_strided dquery, dkey, dvalue, dmask; /* any `at` may be NULL */
    bool writes; /* overwrite gradients instead of adding to them; only if one call covers all
                    queries and keys */
    void *scratch;
} br_attention_work;

typedef struct br_attention_kernels {
    /* Returns the bytes of scratch memory, aligned to 64, that the two kernels below need. */
    int64_t (*scratch)(const br_attention_work *w, bool gradients);
    /* Computes out and sums of queries first .. end - 1, at most BR_ATTENTION_QUERIES. `first` must
     * be a multiple of BR_ATTENTION_BLOCK. */
    void (*forward)(const br_attention_work *w, int64_t first, int64_t end);
    /* Adds the contributions of queries first .. end - 1 with keys key .. key_end - 1 to the
     * gradients. */
    void (*backward)(const br_attention_work *w, int64_t first, int64_t end, int64_t key,
                     int64_t key_end);
} br_attention_kernels;

/* ---- The table ------------------------------------------------------------------------------- */

/* For a row of logits x with maximum `row_max`: exp(x - row_max) at the target (`own`), and its sum
 * over the other classes (`rest`). */
typedef struct br_cross_entropy_sums {
    double row_max, own, rest;
} br_cross_entropy_sums;

/* Terms of the gradient of a row of cross entropy; see cross_entropy_grad below. */
typedef struct br_cross_entropy_row {
    double row_max, own_exp, rest; /* the sums */
    double own, shared, spread;
    int64_t target;
} br_cross_entropy_row;

typedef struct br_kernels {
    const char *name; /* "avx512", "avx2", "baseline"; "i64", "bool" */

    br_loop pointwise[BR_POINTWISES]; /* NULL: not defined for the type */

    br_reduce reduce[BR_FOLDS]; /* infinite initial values are INT64_MIN and INT64_MAX in i64 */
    br_store_results store_results;

    /* n contiguous elements. Buffers that an option does not need are NULL: buffer without
     * momentum, max_sq without amsgrad, grad_avg if RMSprop is not centered. */
    void (*adam)(int64_t n, void *param, const void *grad, void *exp_avg, void *exp_avg_sq,
                 void *max_sq, const br_adam_args *args);
    void (*sgd)(int64_t n, void *param, const void *grad, void *buffer, const br_sgd_args *args);
    void (*rmsprop)(int64_t n, void *param, const void *grad, void *square_avg, void *grad_avg,
                    void *buffer, const br_rmsprop_args *args);
    void (*adagrad)(int64_t n, void *param, const void *grad, void *sum,
                    const br_adagrad_args *args);
    void (*muon)(int64_t n, void *param, const void *grad, const void *direction, void *buffer,
                 const br_muon_args *args);
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
/* Return the tables of a dtype. br__gemm_kernels_of() returns NULL for integers and bool. */
const br_kernels *br__kernels_of(br_dtype dtype);
const br_gemm_kernels *br__gemm_kernels_of(br_dtype dtype);
/* Returns the table for f32 products whose operands are rounded to bf16 ("medium") or split into
 * two bf16 numbers ("high"); NULL for "highest", and if no unit of this processor makes them faster
 * than products in f32. */
const br_gemm_kernels *br__gemm_bf16_kernels(br_matmul_precision precision);
/* The same for attention of precision "medium". */
const br_attention_kernels *br__attention_bf16_kernels(void);

/* For tests: selects the variant of that name from now on, or the best one if `name` is NULL.
 * Returns false if it cannot be used here. */
bool br__force_kernels(const char *name);
/* For tests: products of precision "medium" and "high" use these tables from now on, or those of
 * the variant where a table is NULL. */
void br__force_bf16_kernels(const br_gemm_kernels *medium, const br_gemm_kernels *high);

#endif
