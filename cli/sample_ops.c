/* cli/sample_ops.c - the rows of sample_ops.def as functions and as a table. */
#include "cli/sample_ops.h"

#include <math.h>

/* Argument number i of the row's signature. */
#define T(i)     a[i].tensor
#define TS(i)    a[i].count, a[i].tensors
#define I(i)     a[i].integer
#define IS(i)    a[i].count, a[i].ints
#define F(i)     a[i].number
#define B(i)     (a[i].integer != 0)
#define GIVEN(i) a[i].given
/* A dimension, or all of them where it is None; a list of them, where empty is all, too. */
#define DIM(i)  (a[i].given ? a[i].integer : BR_ALL)
#define DIMS(i) (a[i].count ? a[i].count : all_dims(T(0), &a[i])), a[i].ints
/* Tensor i in the dtype that argument d asks for. */
#define AS(i, d) (a[d].given ? br_to(T(i), a[d].dtype) : T(i))
/* The result, in the dtype that argument d asks for. */
#define INTO(d, expression) (a[d].given ? br_to(expression, a[d].dtype) : (expression))
/* A result behind the first. */
#define OUT(i)   &out[i]
#define CLONE(i) br_clone(T(i))

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

/* Each row becomes a function ... */
#define CALL_NAME(line) call_at_line_##line
#define CALL(line)      CALL_NAME(line)
#define OP(name, signature, expression)                          \
    static void CALL(__LINE__)(sample_arg * a, br_tensor * *out) \
    {                                                            \
        (void)a;                                                 \
        out[0] = expression;                                     \
    }
#define OP_WITH(name, signature, expression, ...) OP(name, signature, expression)
#include "cli/sample_ops.def"
#undef OP
#undef OP_WITH

/* ... and an entry. */
#define OP(name_, signature_, expression_) \
    { .name = name_, .signature = signature_, .expression = #expression_, .call = CALL(__LINE__) },
#define OP_WITH(name_, signature_, expression_, ...) \
    { .name = name_,                                 \
      .signature = signature_,                       \
      .expression = #expression_,                    \
      .call = CALL(__LINE__),                        \
      __VA_ARGS__ },
const sample_op sample_ops[] = {
#include "cli/sample_ops.def"
};

const int num_sample_ops = (int)(sizeof sample_ops / sizeof *sample_ops);
