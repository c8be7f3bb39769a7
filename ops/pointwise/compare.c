/* ops/pointwise/compare.c - comparisons, selection by a mask, and dtype conversion. */
#include "ops/all_elements.h"
#include "ops/ops_internal.h"
#include "ops/pointwise/promotion.h"
#include "tensor/min_max.h"

#include <math.h>
#include <string.h>

/* ---- Comparisons ----------------------------------------------------------------------------- */

br_tensor *br_eq(br_tensor *a, br_tensor *b)
{
    return br__mixed(a, b) ? br__promoted("eq", br_eq, a, b)
                           : br__comparison("eq", BR_POINTWISE(eq), a, b);
}

br_tensor *br_ne(br_tensor *a, br_tensor *b)
{
    return br__mixed(a, b) ? br__promoted("ne", br_ne, a, b)
                           : br__comparison("ne", BR_POINTWISE(ne), a, b);
}

br_tensor *br_lt(br_tensor *a, br_tensor *b)
{
    return br__mixed(a, b) ? br__promoted("lt", br_lt, a, b)
                           : br__comparison("lt", BR_POINTWISE(lt), a, b);
}

br_tensor *br_le(br_tensor *a, br_tensor *b)
{
    return br__mixed(a, b) ? br__promoted("le", br_le, a, b)
                           : br__comparison("le", BR_POINTWISE(le), a, b);
}

br_tensor *br_gt(br_tensor *a, br_tensor *b)
{
    return br__mixed(a, b) ? br__promoted("gt", br_gt, a, b)
                           : br__comparison("gt", BR_POINTWISE(gt), a, b);
}

br_tensor *br_ge(br_tensor *a, br_tensor *b)
{
    return br__mixed(a, b) ? br__promoted("ge", br_ge, a, b)
                           : br__comparison("ge", BR_POINTWISE(ge), a, b);
}

br_tensor *br_eq_scalar(br_tensor *a, double s)
{
    return br__comparison_scalar("eq_scalar", BR_POINTWISE(eq), a, s);
}

br_tensor *br_ne_scalar(br_tensor *a, double s)
{
    return br__comparison_scalar("ne_scalar", BR_POINTWISE(ne), a, s);
}

br_tensor *br_lt_scalar(br_tensor *a, double s)
{
    return br__comparison_scalar("lt_scalar", BR_POINTWISE(lt), a, s);
}

br_tensor *br_le_scalar(br_tensor *a, double s)
{
    return br__comparison_scalar("le_scalar", BR_POINTWISE(le), a, s);
}

br_tensor *br_gt_scalar(br_tensor *a, double s)
{
    return br__comparison_scalar("gt_scalar", BR_POINTWISE(gt), a, s);
}

br_tensor *br_ge_scalar(br_tensor *a, double s)
{
    return br__comparison_scalar("ge_scalar", BR_POINTWISE(ge), a, s);
}

/* ---- Logic ----------------------------------------------------------------------------------- */

/* Applies a logical kernel to the operands converted to bool. */
static br_tensor *logic(const char *op, br_pointwise kernel, br_tensor *a, br_tensor *b)
{
    if (!br__same_device(op, "a", a, "b", b))
        return NULL;
    br_scope *scope = br_no_grad_begin();
    return br__composed(scope, br__binary(op, kernel, br_to(a, BR_BOOL), br_to(b, BR_BOOL)));
}

br_tensor *br_logical_and(br_tensor *a, br_tensor *b)
{
    BR_OP("logical_and");
    return logic("logical_and", BR_POINTWISE(logical_and), a, b);
}

br_tensor *br_logical_or(br_tensor *a, br_tensor *b)
{
    BR_OP("logical_or");
    return logic("logical_or", BR_POINTWISE(logical_or), a, b);
}

br_tensor *br_logical_xor(br_tensor *a, br_tensor *b)
{
    BR_OP("logical_xor");
    return logic("logical_xor", BR_POINTWISE(logical_xor), a, b);
}

br_tensor *br_logical_not(br_tensor *a)
{
    BR_OP("logical_not");
    if (!br__required("logical_not", "x", a))
        return NULL;
    br_scope *scope = br_no_grad_begin();
    return br__composed(scope,
                        br__unary("logical_not", BR_POINTWISE(logical_not), br_to(a, BR_BOOL)));
}

/* ---- isnan, isinf, isfinite, isclose --------------------------------------------------------- */

/* Only NaN is not equal to itself, so the result is false for all integers. */
br_tensor *br_isnan(br_tensor *x)
{
    return br__required("isnan", "x", x) ? br__comparison("isnan", BR_POINTWISE(ne), x, x) : NULL;
}

/* Compares |x| with infinity. Integers are compared with themselves by the kernel `integers`, as
 * all of them are finite. */
static br_tensor *against_infinity(const char *op, br_tensor *x, br_pointwise integers,
                                   br_tensor *(*compare)(br_tensor *magnitude, double infinity))
{
    BR_OP(op);
    if (!br__required(op, "x", x))
        return NULL;
    if (!br_is_floating(x))
        return br__comparison(op, integers, x, x);
    br_scope *scope = br_no_grad_begin();
    return br__composed(scope, compare(br_abs(x), INFINITY));
}

br_tensor *br_isinf(br_tensor *x)
{
    return against_infinity("isinf", x, BR_POINTWISE(ne), br_eq_scalar);
}

br_tensor *br_isfinite(br_tensor *x)
{
    return against_infinity("isfinite", x, BR_POINTWISE(eq), br_lt_scalar);
}

br_tensor *br_isclose(br_tensor *a, br_tensor *b, double rtol, double atol, bool equal_nan)
{
    BR_OP("isclose");
    if (!br__compatible("isclose", "a", a, "b", b))
        return NULL;
    if (!(rtol >= 0 && atol >= 0))
        return br_fail(BR_ERROR_ARGUMENT, "isclose", "rtol %g and atol %g must be at least 0", rtol,
                       atol);
    int ndim;
    int64_t sizes[BR_MAX_DIMS];
    br_pointwise kernel = a->dtype == BR_BOOL ? BR_POINTWISE(eq) : BR_POINTWISE(close);
    br_tensor *y = br__broadcast("isclose", a, b, &ndim, sizes)
                       ? br__new_on("isclose", a, ndim, sizes, BR_BOOL)
                       : NULL;
    if (y)
        br__pointwise(kernel, 3, (const br_tensor *[]){ y, a, b }, (const double[]){ rtol, atol });
    if (!y || !equal_nan || !br_is_floating(a))
        return y;
    br_scope *scope = br_scope_begin();
    return br__composed(scope, br_logical_or(y, br_logical_and(br_isnan(a), br_isnan(b))));
}

/* ---- Selection by a mask --------------------------------------------------------------------- */

static void where_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    br_tensor *condition = br_saved(node, 0);
    if (br_needs_input_grad(node, 1))
        dx[1] = br_where(condition, dy, br_new_zeros(dy, BR_SCALAR, br_dtype_of(dy)));
    if (br_needs_input_grad(node, 2))
        dx[2] = br_masked_fill(dy, condition, 0);
}

static const br_op where_op = { "where", where_backward, false };

/* Broadcasts the shape of a and b with the condition's. */
static bool broadcast_condition(const br_tensor *condition, int *ndim, int64_t *sizes)
{
    br_tensor choice = { .ndim = *ndim };
    memcpy(choice.sizes, sizes, (size_t)*ndim * sizeof *sizes);
    const br_tensor *pair[] = { condition, &choice };
    int n = br__max(condition->ndim, choice.ndim);
    for (int i = 0; i < n; i++) {
        int64_t size = 1;
        for (int k = 0; k < 2; k++) {
            int own = i - (n - pair[k]->ndim);
            int64_t s = own < 0 ? 1 : pair[k]->sizes[own];
            if (s != 1 && size != 1 && s != size) {
                br_fail(BR_ERROR_SHAPE, "where",
                        "condition %s does not broadcast with %s, the shape of a and b: starting "
                        "from the last dimension, sizes must be equal or 1",
                        br__shape(condition), br__shape(&choice));
                return false;
            }
            size = s == 1 ? size : s;
        }
        sizes[i] = size;
    }
    *ndim = n;
    return true;
}

br_tensor *br_where(br_tensor *condition, br_tensor *a, br_tensor *b)
{
    BR_OP("where");
    /* u8 is an old dtype of masks, which PyTorch still accepts. */
    BR_IF_CONVERTED(condition && condition->mark == BR_MARK_LIVE && condition->dtype == BR_U8,
                    br_where(br_to(condition, BR_BOOL), a, b))
    BR_IF_PROMOTED(a, b, br_where(condition, a, b))
    int ndim;
    int64_t sizes[BR_MAX_DIMS];
    if (!br__has_dtype("where", "condition", condition, BR_BOOL) ||
        !br__compatible("where", "a", a, "b", b) ||
        !br__same_device("where", "condition", condition, "a", a) ||
        !br__broadcast("where", a, b, &ndim, sizes) ||
        !broadcast_condition(condition, &ndim, sizes))
        return NULL;
    br_tensor *y = br__new_on("where", a, ndim, sizes, a->dtype);
    if (!y)
        return NULL;
    br__pointwise(BR_POINTWISE(where), 4, (const br_tensor *[]){ y, condition, a, b }, NULL);
    br_node *node = br_record(&where_op, y, BR_INPUTS(condition, a, b), NULL, 0);
    br_save(node, 0, condition);
    return y;
}

void br__masked_fill_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    dx[0] = br_masked_fill(dy, br_saved(node, 0), 0);
}

static const br_op masked_fill_op = { "masked_fill", br__masked_fill_backward, false };

br_tensor *br_masked_fill_tensor(br_tensor *x, br_tensor *mask, br_tensor *value)
{
    static const char op[] = "masked_fill_tensor";
    BR_OP(op);
    int ndim;
    int64_t sizes[BR_MAX_DIMS];
    if (!br__required(op, "x", x) || !br__has_dtype(op, "mask", mask, BR_BOOL) ||
        !br__same_device(op, "x", x, "value", value) ||
        !br__broadcast_named(op, "x", x, "mask", mask, &ndim, sizes))
        return NULL;
    if (value->ndim != 0)
        return br_fail(BR_ERROR_SHAPE, op, "value %s must have no dimensions", br__shape(value));
    return br__composed(NULL, br_where(mask, br_to(value, x->dtype), x));
}

br_tensor *br_masked_fill(br_tensor *x, br_tensor *mask, double value)
{
    BR_OP("masked_fill");
    static const char op[] = "masked_fill";
    br_scalar_operand scalar;
    int ndim;
    int64_t sizes[BR_MAX_DIMS];
    if (!br__required(op, "x", x) || !br__has_dtype(op, "mask", mask, BR_BOOL) ||
        !br__broadcast_named(op, "x", x, "mask", mask, &ndim, sizes) ||
        !br__element_operand(op, value, x->dtype, &scalar))
        return NULL;
    br_tensor *y = br__new_on(op, x, ndim, sizes, x->dtype);
    if (!y)
        return NULL;
    br__pointwise(BR_POINTWISE(where), 4, (const br_tensor *[]){ y, mask, &scalar.tensor, x },
                  NULL);
    br_node *node = br_record(&masked_fill_op, y, BR_INPUTS(x), NULL, 0);
    br_save(node, 0, mask);
    return y;
}

/* ---- Conversion ------------------------------------------------------------------------------ */

static void to_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    dx[0] = br_to(dy, *(const br_dtype *)br_params(node));
}

static const br_op to_op = { "to", to_backward, false };

/* Returns a quantized tensor in a floating-point dtype. */
static br_tensor *dequantized(const br_tensor *x, br_dtype dtype)
{
    if (!br__is_floating(dtype))
        return br_fail(BR_ERROR_DTYPE, "to",
                       "x %s is quantized (%s) and cannot be converted to %s: dtype must be a "
                       "floating-point dtype",
                       br__shape(x), br__block_info(x)->name, br_dtype_name(dtype));
    const br_backend *backend = BR_BACKEND("to", x, dequantize);
    br_tensor *y = backend ? br__new_on("to", x, x->ndim, x->sizes, dtype) : NULL;
    BR_TRAFFIC(y);
    if (y)
        backend->dequantize(y, x, NULL);
    return y;
}

br_tensor *br_to(br_tensor *x, br_dtype dtype)
{
    BR_OP("to");
    if (!br__required_any("to", "x", x))
        return NULL;
    if (x->dtype == dtype)
        return x;
    if (br__is_quantized(x))
        return dequantized(x, dtype);
    br_tensor *y = br__new_on("to", x, x->ndim, x->sizes, dtype);
    if (y)
        br__copy(y, x);
    br_record(&to_op, y, BR_INPUTS(x), &x->dtype, sizeof x->dtype);
    return y;
}

static void to_device_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    dx[0] = br_to_device(dy, *(const br_device *)br_params(node));
}

static const br_op to_device_op = { "to_device", to_device_backward, false };

br_tensor *br_to_device(br_tensor *x, br_device device)
{
    static const char op[] = "to_device";
    BR_OP(op);
    const br_backend *backend = br__required_any(op, "x", x) ? br__find_backend(op, device) : NULL;
    if (!backend)
        return NULL;
    const br_device from = br__backend_of(x)->device;
    if (backend == br__backend_of(x))
        return x;
    if (!br__required(op, "x", x)) /* refuses a quantized tensor */
        return NULL;
    br_tensor *y = br__new_at(op, backend, x->ndim, x->sizes, x->dtype);
    if (!y || !br__transfer(op, y, x))
        return NULL;
    br_record(&to_device_op, y, BR_INPUTS(x), &from, sizeof from);
    return y;
}

/* ---- Equality -------------------------------------------------------------------------------- */

/* Returns true if kernel(a, b) is true for all elements; shapes and dtypes are equal. */
static bool holds(const char *op, br_pointwise kernel, const br_tensor *a, const br_tensor *b,
                  const void *params)
{
    br_scope *scope = br__has_kernel(op, "a", a, kernel) ? br_scope_begin() : NULL;
    br_tensor *equal = scope ? br__new_like(op, a, BR_BOOL) : NULL;
    if (equal)
        br__pointwise(kernel, 3, (const br_tensor *[]){ equal, a, b }, params);
    bool all = equal && br__all_true(equal);
    br_scope_end(scope);
    return all;
}

bool br_equal(br_tensor *a, br_tensor *b)
{
    if (!br__required("equal", "a", a) || !br__required("equal", "b", b) || a->dtype != b->dtype ||
        !br__same_shape(a, b) || !br__same_device("equal", "a", a, "b", b))
        return false;
    return holds("equal", BR_POINTWISE(eq), a, b, NULL);
}

bool br_allclose(br_tensor *a, br_tensor *b, double rtol, double atol)
{
    if (!br__required("allclose", "a", a) || !br__required("allclose", "b", b))
        return false;
    if (!(rtol >= 0 && atol >= 0)) {
        br_fail(BR_ERROR_ARGUMENT, "allclose", "rtol %g and atol %g must be at least 0", rtol,
                atol);
        return false;
    }
    if (a->dtype != b->dtype || !br__same_shape(a, b) ||
        !br__same_device("allclose", "a", a, "b", b))
        return false;
    return holds("allclose", BR_POINTWISE(close), a, b, (const double[]){ rtol, atol });
}
