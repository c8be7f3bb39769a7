/* cli/sample_ops.c - the rows of sample_ops.def as functions and as a table. */
#include "cli/sample_ops.h"

#include <math.h>

/* Argument number i of the row's signature. */
#define T(i)   a[i].tensor
#define TS(i)  a[i].count, a[i].tensors
#define I(i)   a[i].integer
#define IS(i)  a[i].count, a[i].ints
#define F(i)   a[i].number
#define B(i)   (a[i].integer != 0)
#define STR(i) a[i].text
/* A dimension, or all of them where it is None; a list of them, where empty is all, too. */
#define DIM(i)  (a[i].given ? a[i].integer : BR_ALL)
#define DIMS(i) (a[i].count ? a[i].count : all_dims(T(0), &a[i])), a[i].ints
/* Tensor i in the dtype that argument d asks for. */
#define AS(i, d) (a[d].given ? br_to(T(i), a[d].dtype) : T(i))
/* The result, in the dtype that argument d asks for. */
#define INTO(d, expression) (a[d].given ? br_to(expression, a[d].dtype) : (expression))
/* Tensor i, with a dimension where it has none; and number s as a tensor like it, of tensor 0's
 * dtype. */
#define LINE(i)    (br_ndim(T(i)) ? T(i) : br_reshape(T(i), BR_SHAPE(1)))
#define FULL(i, s) br_full(br_ndim(T(i)), br_sizes(T(i)), F(s), br_dtype_of(T(0)))
/* A result behind the first. */
#define OUT(i)   &out[i]
#define CLONE(i) br_clone(T(i))
/* What a call writes into `out` itself. */
#define ALL(call) (call, out[0])
/* A list of one or two, or of none, which is zeros. */
#define PAIR(i)                                 \
    {                                           \
        a[i].ints[0], a[i].ints[a[i].count > 1] \
    }
/* Number n of a list of sizes, in which None is the size of dimension dim of tensor 0. */
#define SIZE(i, n, dim) (a[i].ints[n] == BR_ALL ? br_size(T(0), dim) : a[i].ints[n])

/* The options of convolutions and pooling, whose arguments are in the same places. */
#define CONV(padding_, same_)                                                                      \
    (br_conv_options)                                                                              \
    {                                                                                              \
        .stride = PAIR(3), .padding = padding_, .dilation = PAIR(5), .groups = I(6), .same = same_ \
    }
#define TRANSPOSED_CONV                                                                   \
    (br_conv_options)                                                                     \
    {                                                                                     \
        .stride = PAIR(3), .padding = PAIR(4), .output_padding = PAIR(5), .groups = I(6), \
        .dilation = PAIR(7)                                                               \
    }
#define MAX_POOL                                                                            \
    (br_pool_options)                                                                       \
    {                                                                                       \
        .kernel_size = PAIR(1), .stride = PAIR(2), .padding = PAIR(3), .dilation = PAIR(4), \
        .ceil_mode = B(5)                                                                   \
    }
#define AVG_POOL                                                                          \
    (br_pool_options)                                                                     \
    {                                                                                     \
        .kernel_size = PAIR(1), .stride = PAIR(2), .padding = PAIR(3), .ceil_mode = B(4), \
        .exclude_pad = !B(5), .divisor_override = I(6)                                    \
    }

static int all_dims(const br_tensor *x, sample_arg *a)
{
    for (int i = 0; i < br_ndim(x); i++)
        a->ints[i] = i;
    return br_ndim(x);
}

static br_tensor *truth(bool value)
{
    return br_failed() ? NULL : br_from_bool(BR_SCALAR, &value);
}

/* True for a list with a 0 in it that was given, not left to its default. */
static bool any_zero(const sample_arg *a)
{
    for (int i = 0; i < a->count; i++)
        if (a->ints[i] == 0)
            return true;
    return false;
}

/* Each row becomes a function ... */
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
#include "cli/sample_ops.def"
#undef OP
#undef OP_WITH
#undef LEFT_OUT

/* ... and an entry. */
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
#include "cli/sample_ops.def"
};

const int num_sample_ops = (int)(sizeof sample_ops / sizeof *sample_ops);
