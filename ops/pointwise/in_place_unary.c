/* ops/pointwise/in_place_unary.c - pointwise functions that change their first argument, as tables.
 *
 * If nothing is recorded, the loop runs on the argument itself. Otherwise the out-of-place function
 * is applied to a copy of the old values, which its gradient may need, and the result is copied to
 * the argument. Autograd records the function and the copy. */
#include "autograd/in_place.h"
#include "ops/ops_internal.h"
#include "ops/pointwise/promotion.h"

void br__pass_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    (void)node;
    dx[0] = dy;
}

static bool recorded(const br_tensor *a, const br_tensor *b)
{
    return br_grad_enabled() && (br_requires_grad(a) || br_requires_grad(b));
}

/* Sets a to y, which was computed from a copy of a, records this, and ends the scope. */
static br_tensor *overwrite(const br_op *op, br_scope *scope, br_tensor *a, br_tensor *y)
{
    if (y && !br__same_shape(a, y))
        br_fail(BR_ERROR_SHAPE, op->name,
                "a %s does not match the result's shape %s: the other operands must broadcast to "
                "the shape of a",
                br__shape(a), br__shape(y));
    if (y && !br_failed() && br__before_change(op->name, "a", a, BR_INPUTS(y))) {
        br__copy(a, y);
        br_record_in_place(op, a, BR_INPUTS(y), NULL, 0);
    }
    return br__composed(scope, a);
}

br_tensor *br__overwrite_mixed(const br_op *op, br__binary_function *function, br_tensor *a,
                               br_tensor *b)
{
    BR_OP(op->name);
    if (!br__can_store_result(op->name, a, b) || !br__broadcasts_to(op->name, "b", b, a))
        return NULL;
    br_scope *scope = br_scope_begin();
    return overwrite(op, scope, a, function(br_clone(a), b));
}

/* Returns t, or a copy if it shares storage with a. */
static br_tensor *apart(br_tensor *t, const br_tensor *a)
{
    return t && br_shares_storage(t, a) ? br_clone(t) : t;
}

/* ---- Unary functions ------------------------------------------------------------------------- */

static br_tensor *unary(const br_op *op, br_tensor *(*function)(br_tensor *), br_pointwise kernel,
                        br_tensor *a)
{
    BR_OP(op->name);
    if (!br__required(op->name, "a", a) || !br__has_kernel(op->name, "a", a, kernel))
        return NULL;
    if (recorded(a, NULL)) {
        br_scope *scope = br_scope_begin();
        return overwrite(op, scope, a, function(br_clone(a)));
    }
    if (!br__before_change(op->name, "a", a, BR_INPUTS(a)))
        return NULL;
    br__pointwise(kernel, 2, (const br_tensor *[]){ a, a }, NULL);
    return a;
}

/* clang-format off */
#define FUNCTIONS(ROW) \
    ROW(br_neg_, br_neg, neg)                                                     \
    ROW(br_abs_, br_abs, abs)                                                     \
    ROW(br_sign_, br_sign, sign)                                                  \
    ROW(br_floor_, br_floor, floor)                                               \
    ROW(br_ceil_, br_ceil, ceil)                                                  \
    ROW(br_round_, br_round, round)                                               \
    ROW(br_trunc_, br_trunc, trunc)                                               \
    ROW(br_exp_, br_exp, exp)                                                     \
    ROW(br_exp2_, br_exp2, exp2)                                                  \
    ROW(br_expm1_, br_expm1, expm1)                                               \
    ROW(br_log_, br_log, log)                                                     \
    ROW(br_log2_, br_log2, log2)                                                  \
    ROW(br_log10_, br_log10, log10)                                               \
    ROW(br_log1p_, br_log1p, log1p)                                               \
    ROW(br_sqrt_, br_sqrt, sqrt)                                                  \
    ROW(br_rsqrt_, br_rsqrt, rsqrt)                                               \
    ROW(br_reciprocal_, br_reciprocal, reciprocal)                                \
    ROW(br_square_, br_square, square)                                            \
    ROW(br_sin_, br_sin, sin)                                                     \
    ROW(br_cos_, br_cos, cos)                                                     \
    ROW(br_sinc_, br_sinc, sinc)                                                  \
    ROW(br_tan_, br_tan, tan)                                                     \
    ROW(br_asin_, br_asin, asin)                                                  \
    ROW(br_acos_, br_acos, acos)                                                  \
    ROW(br_atan_, br_atan, atan)                                                  \
    ROW(br_sinh_, br_sinh, sinh)                                                  \
    ROW(br_cosh_, br_cosh, cosh)                                                  \
    ROW(br_tanh_, br_tanh, tanh)                                                  \
    ROW(br_asinh_, br_asinh, asinh)                                               \
    ROW(br_acosh_, br_acosh, acosh)                                               \
    ROW(br_atanh_, br_atanh, atanh)                                               \
    ROW(br_erf_, br_erf, erf)                                                     \
    ROW(br_erfc_, br_erfc, erfc)                                                  \
    ROW(br_sigmoid_, br_sigmoid, sigmoid)                                         \
    ROW(br_relu_, br_relu, relu)                                                  \
    ROW(br_silu_, br_silu, silu)
/* clang-format on */

#define DEFINE_FUNCTION(public_name, function, name)                     \
    br_tensor *public_name(br_tensor *a)                                 \
    {                                                                    \
        static const br_op op = { #name "_", br__pass_backward, false }; \
        return unary(&op, function, BR_POINTWISE(name), a);              \
    }
FUNCTIONS(DEFINE_FUNCTION)

static br_tensor *gelu_erf(br_tensor *x)
{
    return br_gelu(x, BR_GELU_ERF);
}

static br_tensor *gelu_tanh(br_tensor *x)
{
    return br_gelu(x, BR_GELU_TANH);
}

br_tensor *br_gelu_(br_tensor *a, br_gelu_approximate approximate)
{
    static const br_op op = { "gelu_", br__pass_backward, false };
    switch (approximate) {
    case BR_GELU_ERF:
        return unary(&op, gelu_erf, BR_POINTWISE(gelu_erf), a);
    case BR_GELU_TANH:
        return unary(&op, gelu_tanh, BR_POINTWISE(gelu_tanh), a);
    }
    return br_fail(BR_ERROR_ARGUMENT, op.name,
                   "approximate is %d, must be BR_GELU_ERF or BR_GELU_TANH", (int)approximate);
}

/* ---- Binary functions ------------------------------------------------------------------------ */

static br_tensor *binary(const br_op *op, br_tensor *(*function)(br_tensor *, br_tensor *),
                         br_pointwise kernel, br_tensor *a, br_tensor *b)
{
    BR_OP(op->name);
    if (br__mixed(a, b))
        return br__overwrite_mixed(op, function, a, b);
    if (!br__compatible(op->name, "a", a, "b", b) || !br__broadcasts_to(op->name, "b", b, a))
        return NULL;
    if (!br__has_kernel(op->name, "a", a, kernel) || !br__check_divisor(op->name, kernel, a, b))
        return NULL;
    br_scope *scope = br_scope_begin();
    b = apart(b, a);
    if (recorded(a, b))
        return overwrite(op, scope, a, function(br_clone(a), b));
    if (b && br__before_change(op->name, "a", a, BR_INPUTS(a, b)))
        br__pointwise(kernel, 3, (const br_tensor *[]){ a, a, b }, NULL);
    return br__composed(scope, a);
}

/* clang-format off */
#define FUNCTIONS_2(ROW) \
    ROW(br_div_, br_div, div)                                                     \
    ROW(br_pow_, br_pow, pow)                                                     \
    ROW(br_atan2_, br_atan2, atan2)                                               \
    ROW(br_hypot_, br_hypot, hypot)                                               \
    ROW(br_fmod_, br_fmod, fmod)                                                  \
    ROW(br_remainder_, br_remainder, remainder)                                   \
    ROW(br_floor_divide_, br_floor_divide, floor_divide)                          \
    ROW(br_xlogy_, br_xlogy, xlogy)
/* clang-format on */

#define DEFINE_FUNCTION_2(public_name, function, name)                   \
    br_tensor *public_name(br_tensor *a, br_tensor *b)                   \
    {                                                                    \
        static const br_op op = { #name "_", br__pass_backward, false }; \
        return binary(&op, function, BR_POINTWISE(name), a, b);          \
    }
FUNCTIONS_2(DEFINE_FUNCTION_2)

/* ---- Other functions ------------------------------------------------------------------------- */

/* Returns a, or a copy if the operation may be recorded: its gradient may need the old values. */
static br_tensor *before(br_tensor *a)
{
    return br_grad_enabled() ? br_clone(a) : a;
}

br_tensor *br_pow_scalar_(br_tensor *a, double s)
{
    static const br_op op = { "pow_scalar_", br__pass_backward, false };
    BR_OP(op.name);
    if (!br__floating(op.name, "a", a))
        return NULL;
    br_scope *scope = br_scope_begin();
    return overwrite(&op, scope, a, br_pow_scalar(before(a), s));
}

br_tensor *br_clamp_(br_tensor *a, double min, double max)
{
    static const br_op op = { "clamp_", br__pass_backward, false };
    BR_OP(op.name);
    if (!br__required(op.name, "a", a) || !br__has_kernel(op.name, "a", a, BR_POINTWISE(clamp)))
        return NULL;
    br_scope *scope = br_scope_begin();
    return overwrite(&op, scope, a, br_clamp(before(a), min, max));
}

br_tensor *br_lerp_(br_tensor *a, br_tensor *end, br_tensor *weight)
{
    static const br_op op = { "lerp_", br__pass_backward, false };
    BR_OP(op.name);
    if (!br__floating(op.name, "a", a) || !br__compatible(op.name, "a", a, "end", end) ||
        !br__compatible(op.name, "a", a, "weight", weight) ||
        !br__broadcasts_to(op.name, "end", end, a) ||
        !br__broadcasts_to(op.name, "weight", weight, a))
        return NULL;
    br_scope *scope = br_scope_begin();
    return overwrite(&op, scope, a, br_lerp(before(a), apart(end, a), apart(weight, a)));
}

/* Checks the operands of addcmul_ and addcdiv_. */
static bool three(const char *op, br_tensor *a, br_tensor *tensor1, br_tensor *tensor2)
{
    return br__same_device(op, "a", a, "tensor1", tensor1) &&
           br__same_device(op, "a", a, "tensor2", tensor2) &&
           (a->dtype == tensor1->dtype || br__can_store_result(op, a, tensor1)) &&
           (a->dtype == tensor2->dtype || br__can_store_result(op, a, tensor2)) &&
           br__has_kernel(op, "a", a, BR_POINTWISE(mul)) &&
           br__broadcasts_to(op, "tensor1", tensor1, a) &&
           br__broadcasts_to(op, "tensor2", tensor2, a);
}

br_tensor *br_addcmul_(br_tensor *a, br_tensor *tensor1, br_tensor *tensor2, double value)
{
    static const br_op op = { "addcmul_", br__pass_backward, false };
    BR_OP(op.name);
    if (!three(op.name, a, tensor1, tensor2))
        return NULL;
    br_scope *scope = br_scope_begin();
    tensor1 = apart(tensor1, a);
    return overwrite(&op, scope, a, br_addcmul(before(a), tensor1, apart(tensor2, a), value));
}

br_tensor *br_addcdiv_(br_tensor *a, br_tensor *tensor1, br_tensor *tensor2, double value)
{
    static const br_op op = { "addcdiv_", br__pass_backward, false };
    BR_OP(op.name);
    if (!br__floating(op.name, "a", a) || !three(op.name, a, tensor1, tensor2))
        return NULL;
    br_scope *scope = br_scope_begin();
    tensor1 = apart(tensor1, a);
    return overwrite(&op, scope, a, br_addcdiv(before(a), tensor1, apart(tensor2, a), value));
}
