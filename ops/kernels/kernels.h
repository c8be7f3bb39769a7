/* ops/kernels/kernels.h - the table of kernels.
 *
 * variant.c fills one table for each instruction set and f32, and one for f64, of which AVX2 has
 * a part of its own; products have theirs for each of both. br__kernels() gives the best that this
 * processor runs. integer.c has two more, for i64 and bool, in which what makes no sense for the
 * type is NULL. Kernels work on plain memory of that type, run in the caller's thread, and check
 * nothing. Pointwise ones are loops for br__for_each(); others take rows of contiguous memory, so
 * that callers share rows among threads.
 */
#ifndef BR_KERNELS_H
#define BR_KERNELS_H

#include "tensor/loop.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* ---- Pointwise, kernels/pointwise.h ---------------------------------------------------------- */

/* One line a kernel: its name, and an element of its result in terms of the operand x, or of a and
 * b. The same list makes the table's fields, the loops and the table's entries. Results are of the
 * operands' type, those of COMPARE are bool. PARAM(i) is number i of the loop's parameters,
 * doubles, as that type; i64's clamp has its own. */
/* clang-format off */

/* What the compiler makes vectors of; ARITHMETIC has forms for a scalar, too. In a gradient a is dy,
 * and b the output, from gelu on x. */
#define BR_PLAIN_KERNELS(UNARY, BINARY, ARITHMETIC, COMPARE)        \
    UNARY(copy, x)                                                  \
    UNARY(neg, -x)                                                  \
    UNARY(abs, x < 0 ? -x : x + 0)                                  \
    UNARY(relu, x < 0 ? 0 : x)                                      \
    UNARY(reciprocal, 1 / x)                                        \
    UNARY(square, x *x)                                             \
    ARITHMETIC(add, a + b)                                          \
    ARITHMETIC(sub, a - b)                                          \
    ARITHMETIC(mul, a * b)                                          \
    ARITHMETIC(div, a / b)                                          \
    BINARY(relu_grad, b <= 0 ? 0 : a)                               \
    COMPARE(eq, a == b)                                             \
    COMPARE(lt, a < b)                                              \
    COMPARE(le, a <= b)

/* For f32 made for whole vectors alone, with functions of our own; for f64 one element at a time, by
 * libm's. */
#define BR_WHOLE_KERNELS(UNARY, BINARY)                                  \
    UNARY(floor, real_floor(x))                                          \
    UNARY(ceil, real_ceil(x))                                            \
    UNARY(round, real_round(x))                                          \
    UNARY(trunc, REAL(trunc)(x))                                         \
    UNARY(sign, (real)((x > 0) - (x < 0)))                               \
    UNARY(rsqrt, 1 / real_sqrt(x))                                       \
    UNARY(clamp, real_minimum(real_maximum(x, PARAM(0)), PARAM(1)))      \
    UNARY(leaky_relu, x > 0 ? x : x * PARAM(0))                          \
    UNARY(softsign, x / (1 + REAL(fabs)(x)))                             \
    UNARY(erf, real_erf(x))                                              \
    UNARY(tanh, real_tanh(x))                                            \
    UNARY(sigmoid, real_sigmoid(x))                                      \
    UNARY(gelu_erf, gelu_erf(x))                                         \
    UNARY(gelu_tanh, gelu_tanh(x))                                       \
    UNARY(silu, silu(x))                                                 \
    UNARY(elu, elu(x, PARAM(0)))                                         \
    UNARY(softplus, softplus(x, PARAM(0), PARAM(1)))                     \
    BINARY(maximum, real_maximum(a, b))                                  \
    BINARY(minimum, real_minimum(a, b))                                  \
    BINARY(clamp_grad, inside(b, PARAM(0), PARAM(1)) ? a : 0)            \
    BINARY(leaky_relu_grad, b > 0 ? a : a * PARAM(0))                    \
    BINARY(tanh_grad, a * (1 - b * b))                                   \
    BINARY(sigmoid_grad, a * (1 - b) * b)                                \
    BINARY(gelu_erf_grad, a * gelu_erf_slope(b))                         \
    BINARY(gelu_tanh_grad, a * gelu_tanh_slope(b))                       \
    BINARY(silu_grad, a * silu_slope(b))                                 \
    BINARY(elu_grad, a * elu_slope(b, PARAM(0)))                         \
    BINARY(softplus_grad, a * softplus_slope(b, PARAM(0), PARAM(1)))

/* libm's for both. */
#define BR_LIBM_KERNELS(UNARY, BINARY)            \
    UNARY(sin, real_sin(x))                       \
    UNARY(cos, real_cos(x))                       \
    UNARY(exp2, REAL(exp2)(x))                    \
    UNARY(expm1, REAL(expm1)(x))                  \
    UNARY(log2, REAL(log2)(x))                    \
    UNARY(log10, REAL(log10)(x))                  \
    UNARY(log1p, REAL(log1p)(x))                  \
    UNARY(tan, REAL(tan)(x))                      \
    UNARY(asin, REAL(asin)(x))                    \
    UNARY(acos, REAL(acos)(x))                    \
    UNARY(atan, REAL(atan)(x))                    \
    UNARY(sinh, REAL(sinh)(x))                    \
    UNARY(cosh, REAL(cosh)(x))                    \
    UNARY(asinh, REAL(asinh)(x))                  \
    UNARY(acosh, REAL(acosh)(x))                  \
    UNARY(atanh, REAL(atanh)(x))                  \
    UNARY(erfc, REAL(erfc)(x))                    \
    BINARY(atan2, REAL(atan2)(a, b))              \
    BINARY(hypot, REAL(hypot)(a, b))              \
    BINARY(fmod, REAL(fmod)(a, b))                \
    BINARY(remainder, real_remainder(a, b))       \
    BINARY(floor_divide, real_floor_divide(a, b)) \
    BINARY(trunc_divide, REAL(trunc)(a / b))      \
    BINARY(logaddexp, logaddexp(a, b))            \
    BINARY(xlogy, a == 0 && b == b ? 0 : a * REAL(log)(b))

#define BR_POINTWISE_KERNELS(UNARY, BINARY, COMPARE) \
    BR_PLAIN_KERNELS(UNARY, BINARY, BINARY, COMPARE) \
    BR_WHOLE_KERNELS(UNARY, BINARY)                 \
    BR_LIBM_KERNELS(UNARY, BINARY)
/* clang-format on */

#define BR_LOOP_FIELD(name, expression) br_loop name;

/* ---- Reductions, kernels/reduce.h ---------------------------------------------------------- */

/* What a reduction has come to: f for f32 and f64, i for i64 and bool. */
typedef union br_accumulator {
    double f;
    int64_t i;
} br_accumulator;

/* Work for a reduction kernel: element i of column j lies at x + i * row_stride + j * column_stride
 * (bytes), and is folded into value[j]. Rows are folded in their order. */
typedef struct br_fold {
    const char *x;
    int64_t rows, columns;
    int64_t row_stride, column_stride;
    br_accumulator *value;
    int64_t *index;    /* argmax: the row of value[j] */
    int64_t first_row; /* argmax: what row 0 counts as */
    bool far;          /* x is more than the caches keep, and other rows follow these */
} br_fold;

typedef void (*br_reduce)(const br_fold *fold);

/* ---- Optimizers and norms, kernels/optim.h --------------------------------------------------- */

typedef struct br_adam_args {
    double beta1, beta2, eps, weight_decay;
    double keep;      /* what the parameter is multiplied by first: decoupled decay */
    double step_size; /* lr / (1 - beta1^t) */
    double root;      /* sqrt(1 - beta2^t) */
    bool maximize;
} br_adam_args;

typedef struct br_sgd_args {
    double lr, momentum, dampening, weight_decay;
    bool nesterov, maximize;
    bool first; /* the buffer holds nothing yet */
} br_sgd_args;

typedef struct br_rmsprop_args {
    double lr, alpha, eps, weight_decay, momentum;
    bool maximize;
} br_rmsprop_args;

typedef struct br_adagrad_args {
    double lr, eps, weight_decay;
    bool maximize;
} br_adagrad_args;

typedef struct br_muon_args {
    double keep, step_size; /* parameter and direction are multiplied by them */
    double weight;          /* of the gradient in the momentum */
} br_muon_args;

/* ---- Matrix products, kernels/gemm_block.h and gemm_dots.h ----------------------------------- */

enum { BR_GEMM_K = 304 }; /* the most that are summed in one go */

/* Memory in `runs` runs of `bytes` bytes, `step` bytes apart. */
typedef struct br_runs {
    const char *at;
    int64_t bytes, step, runs;
} br_runs;

/* C = A B + bias, or that added to C, with k <= BR_GEMM_K. Strides are in elements; C's and the
 * bias's columns lie side by side. Rows of A come in groups of gemm_rows, a_tile apart, so that A
 * may be packed. Lists are those of gemm.h. */
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
    bool accumulate, far;                          /* far: C is not in the second-level cache */
    br_runs next; /* what A will be the next time, asked for meanwhile */
    /* Columns that were begun, by whichever thread: each takes the next panel from here. NULL: the
     * caller does all. */
    atomic_int_fast64_t *taken;
} br_gemm_block;

/* A table of their own: it is worth more builds than the rest is. */
typedef struct br_gemm_kernels {
    int gemm_rows, gemm_columns; /* of a tile */
    bool gemm_by_blis;           /* BLIS may have better kernels for large products */
    void (*gemm_block)(const br_gemm_block *block);
    /* Dot products are the better where sums have dot_length products for each row, or column, that
     * there is of C, whichever are fewer; or where there are at most dot_square of both. */
    int dot_rows, dot_length, dot_square;
    /* The same for a_col = 1, b_row = 1 and any k, without a_tile, by blocks of dot_rows rows. */
    void (*gemm_dots)(const br_gemm_block *block);
    /* Packs A [m, k] into groups of gemm_rows rows: element (i, p) of a group at p * gemm_rows + i.
     * `to` has room for m rounded up to whole groups. */
    void (*gemm_pack)(void *to, int64_t m, int64_t k, const void *a, int64_t a_row, int64_t a_col);
} br_gemm_kernels;

/* ---- Convolutions, kernels/depthwise.h ------------------------------------------------------- */

/* Position (y, x) of a result stands at y to_row + x to_step; tap t meets there element
 * y row_step + x + at[t] of a padded plane, and is element which[t] of the kernel. Planes can be
 * read 64 bytes beyond what is met. */
typedef struct br_depthwise {
    int64_t rows, columns, row_step;
    int64_t taps;
    const int64_t *at, *which;
    int64_t to_first, to_row, to_step; /* the result begins `to_first` elements into its plane */
    bool accumulate;
} br_depthwise;

/* ---- Rows, kernels/softmax.h, layer_norm.h, norm_channels.h, dropout.h, loss.h
 * -------------------------------- */

/* Work for softmax: element i of row j is x[i * step + j * (step == 1 ? n : 1)], and the same of
 * all others. With step 1 rows lie behind each other; else BR_SOFTMAX_TILE at most side by side. */
enum { BR_SOFTMAX_TILE = 64 };
typedef struct br_softmax_work {
    int64_t n, rows, step;
    bool log_of;   /* log softmax */
    const void *x; /* in the gradient: softmax's result */
    const void *dy;
    void *out;
} br_softmax_work;

/* Work for layer norm: rows of n elements behind each other. Without a mean it is the norm by the
 * root of the mean square: the mean counts as 0. */
typedef struct br_layer_norm_work {
    int64_t n, rows;
    double eps;
    const void *x, *weight, *bias, *dy; /* weight and bias may be NULL */
    void *y, *mean, *rstd;              /* one mean, or NULL, one 1 / sqrt(variance + eps) a row */
    void *dx, *dweight, *dbias;         /* any may be NULL; the last two are added to */
} br_layer_norm_work;

/* Work for norms of channels: `inner` elements of each behind each other, channel after channel.
 * What comes one to a channel: mean, scale, slope and shift of the elements' type, and sums. */
typedef struct br_channel_work {
    int64_t channels, inner;
    int64_t count; /* elements of each channel that the moments hold already */
    const void *x, *dy;
    void *out;
    const void *mean, *scale, *slope, *shift;
    double *first,
        *second; /* added to: mean and squares from it, or the sums of dy, dy (x - mean) */
} br_channel_work;

/* Recurrent cells, kernels/recurrent.h. */
typedef enum br_recurrent_kind { BR_RNN_TANH, BR_RNN_RELU, BR_LSTM, BR_GRU } br_recurrent_kind;

/* A step's gates, and what of a step its gradient wants, as multiples of the state's size. */
static inline int64_t br__gates_of(br_recurrent_kind kind)
{
    return kind == BR_LSTM ? 4 : kind == BR_GRU ? 3 : 1;
}
static inline int64_t br__kept_of(br_recurrent_kind kind)
{
    return kind == BR_LSTM || kind == BR_GRU ? 4 : 0;
}

/* Work for a step of `rows` sequences; all are rows without gaps. gi and gh are the parts of the
 * gates that come of the input and of the state before, h and c that state. */
typedef struct br_recurrent_work {
    br_recurrent_kind kind;
    int64_t rows, size;
    const void *gi, *gh, *h, *c;
    void *out, *c_out, *kept; /* the state behind, and what is kept; the gradient reads them */
    void *dh, *dc;            /* by the state behind; afterwards what does not pass through gh */
    void *dgi, *dgh;          /* dgh of the GRU alone: of the others it is dgi */
} br_recurrent_work;

typedef struct br_dropout_work {
    uint64_t key;
    uint32_t threshold; /* an element falls if its 32 random bits are below */
    double scale;       /* of those that stay */
} br_dropout_work;

/* ---- Attention, kernels/attention_forward.h, attention_backward.h ---------------------------- */

enum {
    BR_ATTENTION_BLOCK = 128,   /* queries, and keys, that are worked on at a time */
    BR_ATTENTION_QUERIES = 256, /* at most, that go over the keys together */
};

/* Element (i, j) lies at i * row + j * column, in elements. */
typedef struct br_strided {
    void *at;
    int64_t row, column;
} br_strided;

/* One head's attention: out = dropout(softmax(scale query key^T + mask)) value, and its
 * gradients. */
typedef struct br_attention_work {
    int64_t queries, keys, width,
        value_width; /* query [queries, width], value [keys, value_width] */
    double scale;
    bool causal; /* keys beyond the query's own number do not take part */
    bool mask_is_bool;
    br_dropout_work dropout; /* its scale is 1 if nothing falls */
    uint64_t first_draw;     /* key j of query i falls by half of draw number
                                first_draw + i ceil(keys / 2) + j / 2 */
    br_strided query, key, value;
    br_strided mask; /* its `at` may be NULL */
    br_strided out;  /* rows without gaps inside; so are the gradients below */
    br_strided lse;  /* log of the sum of exponentials, a column; inf where no key takes part */
    br_strided dout; /* any strides */
    br_strided dquery, dkey, dvalue, dmask; /* any `at` may be NULL */
    bool writes; /* gradients are written, not added to: for one call with all queries and keys */
    void *scratch;
} br_attention_work;

/* ---- The table ------------------------------------------------------------------------------- */

/* What the gradient of a row of cross entropy is made of. */
typedef struct br_cross_entropy_row {
    double log_sum, all, own, spread;
    int64_t target;
} br_cross_entropy_row;

typedef struct br_kernels {
    const char *name; /* "avx512", "avx2", "baseline"; "i64", "bool" */

    BR_POINTWISE_KERNELS(BR_LOOP_FIELD, BR_LOOP_FIELD, BR_LOOP_FIELD)
    br_loop ne, gt, ge;          /* made of those above */
    br_loop close;               /* |a - b| <= atol + rtol |b|; the parameters are rtol and atol */
    br_loop logsigmoid, mish;    /* made of others */
    br_loop exp, log, pow, sqrt; /* kernels/exp_log.h */
    br_loop where;               /* out = condition ? a : b; that is bool */
    br_loop lerp;                /* out between start and end by a weight */
    br_loop logical_and, logical_or, logical_xor, logical_not; /* bool only */

    br_reduce sum;         /* from value 0 */
    br_reduce max;         /* from value -inf or INT64_MIN; NaN counts as largest */
    br_reduce argmax;      /* the same, with the first row that has it in index */
    br_reduce min, argmin; /* the same, from inf or INT64_MAX; NaN counts as smallest */
    br_reduce prod;        /* from value 1 */

    /* n elements without gaps; what an option does without is NULL: buffer without momentum, max_sq
     * without amsgrad, grad_avg where RMSprop is not centered. */
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
    double (*max_abs)(int64_t n, const void *values); /* NaN if there is one */

    /* The result is what the kernel meets in the plane, or that is added to it. */
    void (*depthwise)(const br_depthwise *w, const void *plane, const void *kernel, void *result);
    /* Adds the kernel's gradient, from the result's, to sums: 64 bytes for each tap and for 4 more;
     * and these to the kernel, unless it is NULL. They are 0 then. to_step is 1. */
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
    /* Elements first .. first + n - 1 of a tensor; `first` is even. */
    void (*dropout)(int64_t n, int64_t first, const br_dropout_work *d, const void *x, void *y);
    /* Bytes of scratch, aligned to 64, that the two below want. */
    int64_t (*attention_scratch)(const br_attention_work *w, bool gradients);
    /* For queries first .. end - 1, at most BR_ATTENTION_QUERIES: their rows of out and
     * lse. `first` is a multiple of BR_ATTENTION_BLOCK. */
    void (*attention)(const br_attention_work *w, int64_t first, int64_t end);
    /* What queries first .. end - 1 and keys key .. key_end - 1 have to do with each other. `key`
     * is even. */
    void (*attention_grad)(const br_attention_work *w, int64_t first, int64_t end, int64_t key,
                           int64_t key_end);
    /* Over a row of class scores x, with the classes' weights w, 1 where it is NULL:
     * dx = all exp(x - log_sum) - spread w - own onehot(target). */
    double (*log_sum_exp)(int64_t n, const void *x);
    double (*dot)(int64_t n, const void *x, const void *w);
    void (*cross_entropy_grad)(int64_t n, const void *x, const void *w,
                               const br_cross_entropy_row *r, void *dx);
} br_kernels;

/* The kernels for f32 (is_double false) or f64. */
const br_kernels *br__kernels(bool is_double);
const br_gemm_kernels *br__gemm_kernels(bool is_double);
extern const br_kernels br__kernels_i64, br__kernels_bool;

/* `where` of any elements of 8 bytes. */
void br__where_8(int64_t n, char *const *data, const int64_t *strides, const void *params);

/* For tests: makes br__kernels() give the variant of that name from now on; NULL: the best again.
 * False if this processor does not run it. */
bool br__force_kernels(const char *name);

#endif
