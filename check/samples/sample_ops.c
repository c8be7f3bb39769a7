/* check/samples/sample_ops.c - expands the rows of sample_ops.def to functions and to a table. */
#include "check/samples/sample_ops.h"

#include <math.h>

/* Argument number i of the row's signature. */
#define T(i)   a[i].tensor
#define TS(i)  a[i].count, a[i].tensors
#define I(i)   a[i].integer
#define IS(i)  a[i].count, a[i].ints
#define F(i)   a[i].number
#define B(i)   (a[i].integer != 0)
#define STR(i) a[i].text
/* A dimension, BR_ALL for None; a list of dimensions, all of them for None or an empty list. */
#define DIM(i)  (a[i].given ? a[i].integer : BR_ALL)
#define DIMS(i) (a[i].count ? a[i].count : all_dims(T(0), &a[i])), a[i].ints
/* Tensor i, converted to dtype argument d if that is given. */
#define AS(i, d) (a[d].given ? br_to(T(i), a[d].dtype) : T(i))
/* The dimensions of matrices: the last two unless others are given. */
#define MATRIX_DIMS(i) 2, (a[i].count == 2 ? a[i].ints : last_dims(T(0), (a[i].integer = 2, &a[i])))
/* The result, converted to dtype argument d if that is given. */
#define INTO(d, expression) (a[d].given ? br_to(expression, a[d].dtype) : (expression))
/* LINE: tensor i, with shape [1] if it has no dimensions. FULL: number s as a tensor with the shape
 * of tensor i and the dtype of tensor 0. */
#define LINE(i)    (br_ndim(T(i)) ? T(i) : br_reshape(T(i), BR_SHAPE(1)))
#define FULL(i, s) br_full(br_ndim(T(i)), br_sizes(T(i)), F(s), br_dtype_of(T(0)))
/* Number s, or what stands for None. */
#define OR_NONE(s) (a[s].given ? F(s) : BR_NONE_F64)
/* An integer, or what stands for None. */
#define INT_OR_NONE(i) (a[i].given ? I(i) : BR_NONE)
/* A norm of a Fourier transform; tensor i as a complex one. */
#define NORM(i)    (br_fft_norm) I(i)
#define COMPLEX(i) br_complex(T(i), NULL)
/* Number s as a 0-d tensor of the dtype of tensor 0. */
#define NUMBER(s) br_scalar(F(s), br_dtype_of(T(0)))
/* An additional result. */
#define OUT(i)   &out[i]
#define CLONE(i) br_clone(T(i))
/* A call that writes all results to `out` itself. */
#define ALL(call) (call, out[0])
/* A list of one or two numbers as a pair; zeros for an empty list. */
#define PAIR(i) BR_PAIR(a[i].ints[0], a[i].ints[a[i].count > 1])
/* Item n of a list of sizes; None is the size of dimension dim of tensor 0. */
#define SIZE(i, n, dim)                                             \
    (a[i].count == 0          ? -1 /* an empty list has no sizes */ \
     : a[i].ints[n] == BR_ALL ? br_size(T(0), dim)                  \
                              : a[i].ints[n])

/* A list of one or three numbers as a triple; zeros for an empty list. */
#define TRIPLE(i) \
    BR_TRIPLE(a[i].ints[0], a[i].ints[a[i].count > 1 ? 1 : 0], a[i].ints[a[i].count > 1 ? 2 : 0])
#define CONV3D(padding_, same_)                                                            \
    BR_OPTIONS(br_conv3d, .stride = TRIPLE(3), .padding = padding_, .dilation = TRIPLE(5), \
               .groups = I(6), .same = same_)

/* Options of convolutions and pooling; their arguments have the same positions. */
#define CONV(padding_, same_)                                                        \
    BR_OPTIONS(br_conv, .stride = PAIR(3), .padding = padding_, .dilation = PAIR(5), \
               .groups = I(6), .same = same_)
#define TRANSPOSED_CONV                                                                   \
    BR_OPTIONS(br_conv, .stride = PAIR(3), .padding = PAIR(4), .output_padding = PAIR(5), \
               .groups = I(6), .dilation = PAIR(7))
#define MAX_POOL                                                                       \
    BR_OPTIONS(br_pool, .kernel_size = PAIR(1), .stride = PAIR(2), .padding = PAIR(3), \
               .dilation = PAIR(4), .ceil_mode = B(5))
#define AVG_POOL                                                                       \
    BR_OPTIONS(br_pool, .kernel_size = PAIR(1), .stride = PAIR(2), .padding = PAIR(3), \
               .ceil_mode = B(4), .count_include_pad = B(5), .divisor_override = I(6))

/* Options of short-time Fourier transforms. */
#define STFT(complex)                                                                             \
    BR_OPTIONS(br_stft, .hop_length = INT_OR_NONE(2), .win_length = INT_OR_NONE(3),               \
               .window = T(4), .center = B(5), .pad_mode = (br_pad_mode)I(6), .normalized = B(7), \
               .onesided = INT_OR_NONE(8), .align_to_window = B(10), .complex_input = complex)
#define ISTFT                                                                                  \
    BR_OPTIONS(br_istft, .hop_length = INT_OR_NONE(2), .win_length = INT_OR_NONE(3),           \
               .window = T(4), .center = B(5), .normalized = B(6), .onesided = INT_OR_NONE(7), \
               .length = INT_OR_NONE(8), .return_complex = B(9))

static int all_dims(const br_tensor *x, sample_arg *a)
{
    for (int i = 0; i < br_ndim(x); i++)
        a->ints[i] = i;
    return br_ndim(x);
}

/* Write the last dimensions of x, or the first ones, to the list of an integer that is their
 * number.
 */
static const int64_t *last_dims(const br_tensor *x, sample_arg *a)
{
    for (int64_t i = 0; i < a->integer; i++)
        a->ints[i] = br_ndim(x) - a->integer + i;
    return a->ints;
}

static const int64_t *first_dims(sample_arg *a)
{
    int64_t *dims = a->ints + SAMPLE_ITEMS / 2;
    for (int64_t i = 0; i < a->integer; i++)
        dims[i] = i;
    return dims;
}

/* Returns options with the size or the scale factor of arguments 1 and 2, until the next call. */
static const br_interpolate_options *resizing(sample_arg *a, br_interpolate_mode mode,
                                              bool align_corners, bool recompute, bool antialias)
{
    static _Thread_local br_interpolate_options o;
    o = *BR_OPTIONS(br_interpolate, .mode = mode, .align_corners = align_corners,
                    .recompute_scale_factor = recompute, .antialias = antialias);
    for (int i = 0; i < br_ndim(T(0)) - 2 && i < 3; i++) {
        if (a[1].given)
            o.size[i] = a[1].ints[a[1].count > 1 ? i : 0];
        else
            o.scale_factor[i] = F(2);
    }
    return &o;
}

/* Returns the output size of argument 5, or that of the pool, in the list of argument 0. */
static const int64_t *unpooled(sample_arg *a, int dims)
{
    int64_t *size = a[0].ints;
    for (int i = 0; i < dims; i++) {
        const int k = a[2].count > 1 ? i : 0, p = a[4].count > 1 ? i : 0;
        const int64_t kernel = a[2].ints[k];
        const int64_t stride = a[3].given ? a[3].ints[a[3].count > 1 ? i : 0] : kernel;
        size[i] = a[5].given ? a[5].ints[a[5].count - dims + i]
                             : (br_size(T(0), i - dims) - 1) * stride - 2 * a[4].ints[p] + kernel;
    }
    return size;
}

static br_tensor *from_bool(bool value)
{
    return br_failed() ? NULL : br_from_bool(BR_SCALAR, &value);
}

/* Returns whether a list contains 0, which no default does. */
static bool any_zero(const sample_arg *a)
{
    for (int i = 0; i < a->count; i++)
        if (a->ints[i] == 0)
            return true;
    return false;
}

/* PyTorch's `ord` of a matrix as a number. */
static br_matrix_norm norm_order(double ord)
{
    return ord == INFINITY    ? BR_MATRIX_NORM_INF
           : ord == -INFINITY ? BR_MATRIX_NORM_NEG_INF
           : ord == 1         ? BR_MATRIX_NORM_1
           : ord == -1        ? BR_MATRIX_NORM_NEG_1
           : ord == 2         ? BR_MATRIX_NORM_2
           : ord == -2        ? BR_MATRIX_NORM_NEG_2
                              : (br_matrix_norm)-1;
}

/* Replaces result i by its absolute values: the signs of eigenvectors and singular vectors are
 * undefined. Returns the first result. */
static br_tensor *signless(br_tensor *first, int i, br_tensor **out)
{
    out[i] = br_failed() ? NULL : br_abs(out[i]);
    return first;
}

/* Writes f of each tensor to the results. */
static void each(br_tensor *f(br_tensor *x), int n, br_tensor *const *tensors, br_tensor **out)
{
    for (int i = 0; i < n; i++)
        out[i] = f(tensors[i]);
}

/* Splits x into a number of parts, which is 0-d, or at indices. */
static void split_by(br_tensor *x, br_tensor *where, int64_t dim, br_tensor **out)
{
    int64_t indices[SAMPLE_ITEMS];
    br_copy_out(br_to(where, BR_I64), indices, (size_t)br_numel(where) * sizeof *indices);
    if (br_ndim(where) == 0)
        br_tensor_split(x, indices[0], dim, SAMPLE_OUTPUTS, out);
    else
        br_tensor_split_indices(x, (int)br_numel(where), indices, dim, out);
}

/* Leaves only the vectors of u and vh that a matrix determines, without their signs. */
static br_tensor *reduced(br_tensor *u, br_tensor **out)
{
    if (br_failed())
        return NULL;
    const int64_t k = br_size(out[1], -1);
    out[2] = br_abs(br_narrow(out[2], -2, 0, k));
    return br_abs(br_narrow(u, -1, 0, k));
}

static br_tensor *transposed(br_tensor *first, int i, br_tensor **out)
{
    out[i] = br_failed() ? NULL : br_transpose(out[i], -2, -1);
    return first;
}

/* Expands each row to a function ... */
#define ROW_NAME(line) row_at_line_##line
#define ROW(line)      ROW_NAME(line)
#define OP(name, signature, expression)                         \
    static void ROW(__LINE__)(sample_arg * a, br_tensor * *out) \
    {                                                           \
        (void)a;                                                \
        out[0] = expression;                                    \
    }
#define OP_WITH(name, signature, expression, ...) OP(name, signature, expression)
#define LEFT_OUT(name, signature, condition, reason) \
    static bool ROW(__LINE__)(sample_arg * a)        \
    {                                                \
        (void)a;                                     \
        return condition;                            \
    }
#include "check/samples/sample_ops.def"
#undef OP
#undef OP_WITH
#undef LEFT_OUT

/* ... and to an entry of the table. */
#define OP(name_, signature_, expression_) \
    { .name = name_, .signature = signature_, .expression = #expression_, .call = ROW(__LINE__) },
#define OP_WITH(name_, signature_, expression_, ...) \
    { .name = name_,                                 \
      .signature = signature_,                       \
      .expression = #expression_,                    \
      .call = ROW(__LINE__),                         \
      __VA_ARGS__ },
#define LEFT_OUT(name_, signature_, condition, reason) \
    { .name = name_,                                   \
      .signature = signature_,                         \
      .expression = "",                                \
      .left_out = reason,                              \
      .left_out_if = ROW(__LINE__) },
const sample_op sample_ops[] = {
#include "check/samples/sample_ops.def"
};

const int num_sample_ops = (int)(sizeof sample_ops / sizeof *sample_ops);
