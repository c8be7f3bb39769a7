/* ops/pointwise/apply.c - pointwise operations: check the operands, allocate the result, run the
 * loop. Functions described by a table row are recorded here; others by the callers. */
#include "autograd/tape.h"
#include "ops/all_elements.h"
#include "ops/ops_internal.h"
#include "ops/pointwise/promotion.h"
#include "ops/pointwise/widen.h"

#include <math.h>
#include <string.h>

/* ---- Kernels by dtype ------------------------------------------------------------------------ */

/* Fails with a message that lists the dtypes that the kernel supports, and returns NULL. */
static __attribute__((cold)) void *refuse_dtype(const char *op, const char *name,
                                                const br_tensor *t, br_pointwise kernel)
{
    const br_backend *backend = br__backend_of(t);
    char names[64] = "";
    for (br_dtype d = 0; d < BR_DTYPES; d++) {
        if (!backend->has_pointwise(kernel, d))
            continue;
        strcat(names, names[0] ? ", " : "");
        strcat(names, br_dtype_name(d));
    }
    if (!names[0])
        return br_fail(BR_ERROR_STATE, op,
                       "has no kernel for any dtype on %s: its row must be in BR_PLAIN_KERNELS, "
                       "BR_WHOLE_KERNELS, BR_ORDINARY_KERNELS or BR_LIBM_KERNELS "
                       "(backends/pointwise.h)",
                       backend->name);
    return br_fail(BR_ERROR_DTYPE, op, "%s %s is %s, must be one of: %s (use br_to() to convert)",
                   name, br__shape(t), br_dtype_name(t->dtype), names);
}

bool br__has_kernel(const char *op, const char *name, const br_tensor *t, br_pointwise kernel)
{
    if (br__backend_of(t)->has_pointwise(kernel, t->dtype))
        return true;
    refuse_dtype(op, name, t, kernel);
    return false;
}

/* ---- Scalars as operands --------------------------------------------------------------------- */

/* Sets the error of a value that the dtype cannot represent. If only its size is wrong, the message
 * names the dtypes that reach it. */
static bool refuse_value(const char *op, double value, br_dtype dtype)
{
    char names[64] = "";
    for (br_dtype d = 0; d < BR_DTYPES && br__is_floating(dtype) && isfinite(value); d++) {
        if (!br__is_floating(d) || fabs(value) > br__largest(d))
            continue;
        strcat(names, names[0] ? ", " : "");
        strcat(names, br_dtype_name(d));
    }
    if (!names[0])
        return br_fail(BR_ERROR_DTYPE, op, "%g cannot be represented as %s", value,
                       br_dtype_name(dtype));
    return br_fail(BR_ERROR_DTYPE, op,
                   "%g cannot be represented as %s, whose largest number is %g: use a smaller "
                   "number, or one of: %s",
                   value, br_dtype_name(dtype), br__largest(dtype), names);
}

/* Sets *s to the value as the dtype represents it, and fails unless this is allowed. */
static bool set_operand(const char *op, double value, br_dtype dtype, bool allowed,
                        br_scalar_operand *s)
{
    if (BR_ANOMALY)
        br__tape.nonfinite_op = isfinite(value) ? NULL : op;
    br__host_number(&s->tensor, dtype, &s->value);
    br__put(dtype, &s->value, value);
    return allowed || refuse_value(op, value, dtype);
}

bool br__scalar_operand(const char *op, double value, br_dtype dtype, br_scalar_operand *s)
{
    return set_operand(op, value, dtype, br__represents(dtype, value), s);
}

bool br__element_operand(const char *op, double value, br_dtype dtype, br_scalar_operand *s)
{
    return set_operand(op, value, dtype, br__holds(dtype, value), s);
}

/* ---- Pointwise operations -------------------------------------------------------------------- */

br_tensor *br__unary(const char *op, br_pointwise kernel, br_tensor *x)
{
    if (!br__required(op, "x", x))
        return NULL;
    br_tensor *y = br__new_like(op, x, x->dtype);
    if (!y || br__pointwise(kernel, 2, (const br_tensor *[]){ y, x }, NULL))
        return y;
    return refuse_dtype(op, "x", x, kernel);
}

/* Allocates a tensor of the shape that a and b broadcast to. A scalar operand is on no device, but
 * a or b is a tensor. */
static br_tensor *new_result(const char *op, const br_tensor *a, const br_tensor *b, br_dtype dtype)
{
    int ndim;
    int64_t sizes[BR_MAX_DIMS];
    const br_tensor *tensor = a->storage ? a : b;
    if (br__same_shape(a, b))
        return br__new_like(op, tensor, dtype);
    return br__broadcast(op, a, b, &ndim, sizes) ? br__new_on(op, tensor, ndim, sizes, dtype)
                                                 : NULL;
}

/* Returns kernel(a, b) as `dtype`. The caller has compared the dtypes of a and b. */
static br_tensor *apply(const char *op, br_pointwise kernel, const br_tensor *a, const br_tensor *b,
                        br_dtype dtype, const double *params)
{
    br_tensor *y = new_result(op, a, b, dtype);
    if (!y || br__pointwise(kernel, 3, (const br_tensor *[]){ y, a, b }, params))
        return y;
    return refuse_dtype(op, "a", a->storage ? a : b, kernel); /* the other one may be a scalar */
}

br_tensor *br__binary(const char *op, br_pointwise kernel, br_tensor *a, br_tensor *b)
{
    return br__binary_with(op, kernel, a, b, NULL);
}

br_tensor *br__binary_with(const char *op, br_pointwise kernel, br_tensor *a, br_tensor *b,
                           const double *params)
{
    return br__compatible(op, "a", a, "b", b) ? apply(op, kernel, a, b, a->dtype, params) : NULL;
}

br_tensor *br__ternary(const char *op, br_pointwise kernel, const br_tensor *const x[3],
                       const char *const names[4], const double *params)
{
    br_tensor both = { .dtype = x[0]->dtype, .storage = x[0]->storage };
    int ndim;
    int64_t sizes[BR_MAX_DIMS];
    if (!br__broadcast_named(op, names[0], x[0], names[1], x[1], &both.ndim, both.sizes) ||
        !br__broadcast_named(op, names[2], &both, names[3], x[2], &ndim, sizes))
        return NULL;
    br_tensor *y = br__new_on(op, x[0], ndim, sizes, x[0]->dtype);
    if (y)
        br__pointwise(kernel, 4, (const br_tensor *[]){ y, x[0], x[1], x[2] }, params);
    return y;
}

br_tensor *br__comparison(const char *op, br_pointwise kernel, br_tensor *a, br_tensor *b)
{
    BR_OP(op);
    return br__compatible(op, "a", a, "b", b) ? apply(op, kernel, a, b, BR_BOOL, NULL) : NULL;
}

br_tensor *br__binary_scalar(const char *op, br_pointwise kernel, br_tensor *a, double s,
                             bool reversed)
{
    br_scalar_operand scalar;
    if (!br__required(op, "a", a))
        return NULL;
    const br_dtype dtype = br__scalar_result(a->dtype, s);
    BR_IF_CONVERTED(dtype != a->dtype, br__binary_scalar(op, kernel, br_to(a, dtype), s, reversed))
    if (!br__scalar_operand(op, s, br__computed(dtype), &scalar))
        return NULL;
    return reversed ? apply(op, kernel, &scalar.tensor, a, dtype, NULL)
                    : apply(op, kernel, a, &scalar.tensor, dtype, NULL);
}

br_tensor *br__comparison_scalar(const char *op, br_pointwise kernel, br_tensor *a, double s)
{
    BR_OP(op);
    br_scalar_operand scalar;
    if (!br__required(op, "a", a))
        return NULL;
    const br_dtype dtype = br__scalar_result(a->dtype, s);
    BR_IF_CONVERTED(dtype != a->dtype, br__comparison_scalar(op, kernel, br_to(a, dtype), s))
    /* A float is rounded to the elements' dtype, so that an element equals the number that it was
     * made from. An integer may be larger than all elements. */
    const bool rounds = br__is_floating(dtype);
    if (!br__scalar_operand(op, s, rounds ? dtype : br__computed(dtype), &scalar))
        return NULL;
    return apply(op, kernel, a, &scalar.tensor, BR_BOOL, NULL);
}

br_tensor *br__equals_integer(br_tensor *t, int64_t value)
{
    static const char op[] = "eq_scalar";
    BR_OP(op);
    br_scalar_operand scalar;
    if (!br__has_dtype(op, "a", t, BR_I64) || !br__scalar_operand(op, 0, BR_I64, &scalar))
        return NULL;
    scalar.value.i64 = value;
    return apply(op, BR_POINTWISE(eq), t, &scalar.tensor, BR_BOOL, NULL);
}

bool br__broadcasts_to(const char *op, const char *b_name, const br_tensor *b, const br_tensor *a)
{
    if (br__backend_of(a) != br__backend_of(b))
        return br__compare_operands(op, b_name, b, "a", a, false);
    bool fits = b->ndim <= a->ndim;
    for (int i = 1; fits && i <= b->ndim; i++) {
        int64_t size = b->sizes[b->ndim - i];
        fits = size == 1 || size == a->sizes[a->ndim - i];
    }
    if (!fits)
        br_fail(BR_ERROR_SHAPE, op,
                "%s %s does not broadcast to %s: starting from the last dimension, each size must "
                "be equal or 1",
                b_name, br__shape(b), br__shape(a));
    return fits;
}

/* ---- Composed operations --------------------------------------------------------------------- */

br_tensor *br__composed(br_scope *scope, br_tensor *y)
{
    if (scope)
        br_scope_return(scope, y);
    br_scope_end(scope);
    if (y && BR_PROFILING)
        br__thread.events->result(y);
    return br__failed() ? NULL : y;
}

/* ---- Functions described by a table row ------------------------------------------------------ */

/* Returns whether a function of integers or bool has no kernel for them, but one for floats: the
 * results are then f32, as in PyTorch. */
static bool computes_floats(br_pointwise kernel, const br_tensor *t)
{
    return t && t->mark == BR_MARK_LIVE && !br__failed() && !br__is_floating(t->dtype) &&
           !br__backend_of(t)->has_pointwise(kernel, t->dtype) &&
           !br__backend_of(t)->has_pointwise(kernel, BR_I64) &&
           br__backend_of(t)->has_pointwise(kernel, BR_F32);
}

br_tensor *br__apply_function(const br__function *f, br_tensor *x)
{
    BR_OP(f->op.name);
    BR_IF_CONVERTED(computes_floats(f->kernel, x), br__apply_function(f, br__as_floating(x)))
    br_tensor *y = br__unary(f->op.name, f->kernel, x);
    br_node *node = br_record(&f->op, y, BR_INPUTS(x), NULL, 0);
    if (f->keeps != BR_SAVES_NOTHING)
        br_save(node, 0, f->keeps == BR_SAVES_X ? x : y);
    return y;
}

static bool is_division(br_pointwise kernel)
{
    return kernel == BR_POINTWISE(fmod) || kernel == BR_POINTWISE(remainder) ||
           kernel == BR_POINTWISE(floor_divide) || kernel == BR_POINTWISE(trunc_divide);
}

bool br__check_divisor(const char *op, br_pointwise kernel, br_tensor *a, br_tensor *b)
{
    if (!a || !b || !br__is_kind(b->dtype, BR_KIND_INTEGER) || a->numel == 0 ||
        !is_division(kernel))
        return !br_failed();
    br_scope *scope = br_no_grad_begin();
    br_tensor *nonzero = br__comparison_scalar("ne_scalar", BR_POINTWISE(ne), b, 0);
    if (!br__all_true(nonzero) && !br_failed())
        br_fail(BR_ERROR_ARGUMENT, op, "b %s contains 0: integer division by zero", br__shape(b));
    br_scope_end(scope);
    return !br_failed();
}

br_tensor *br__apply_function_2(const br__function_2 *f, br_tensor *a, br_tensor *b)
{
    BR_OP(f->op.name);
    BR_IF_CONVERTED(computes_floats(f->kernel, a) && br__compatible(f->op.name, "a", a, "b", b),
                    br__apply_function_2(f, br__as_floating(a), br__as_floating(b)))
    if (!br__check_divisor(f->op.name, f->kernel, a, b))
        return NULL;
    br_tensor *y = br__binary(f->op.name, f->kernel, a, b);
    br_node *node = br_record(&f->op, y, BR_INPUTS(a, b), NULL, 0);
    br_save(node, 0, a);
    br_save(node, 1, b);
    return y;
}
