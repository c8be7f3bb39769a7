/* ops/pointwise/bitwise.c - operations on the bits of integers, and on bools. */
#include "ops/pointwise/promotion.h"

/* Fails if t is floating-point, or, for shifts, bool. */
static bool has_bits(const char *op, const char *name, const br_tensor *t, bool shifts)
{
    if (!br__required(op, name, t))
        return false;
    if (br_is_floating(t) || (shifts && t->dtype == BR_BOOL))
        br_fail(BR_ERROR_DTYPE, op, "%s %s is %s, must be an integer dtype%s", name, br__shape(t),
                br_dtype_name(t->dtype), shifts ? "" : " or bool");
    return !br_failed();
}

/* Results have no gradient, so nothing is recorded. */
#define DEFINE_BITWISE(name, kernel, shifts)                                      \
    br_tensor *br_##name(br_tensor *a, br_tensor *b)                              \
    {                                                                             \
        BR_OP(#name);                                                             \
        if (!has_bits(#name, "a", a, shifts) || !has_bits(#name, "b", b, shifts)) \
            return NULL;                                                          \
        return br__mixed(a, b) ? br__promoted(#name, br_##name, a, b)             \
                               : br__binary(#name, BR_POINTWISE(kernel), a, b);   \
    }

DEFINE_BITWISE(bitwise_and, bitwise_and, false)
DEFINE_BITWISE(bitwise_or, bitwise_or, false)
DEFINE_BITWISE(bitwise_xor, bitwise_xor, false)
DEFINE_BITWISE(bitwise_left_shift, left_shift, true)
DEFINE_BITWISE(bitwise_right_shift, right_shift, true)

br_tensor *br_bitwise_not(br_tensor *x)
{
    static const char op[] = "bitwise_not";
    BR_OP(op);
    return has_bits(op, "x", x, false) ? br__unary(op, BR_POINTWISE(bitwise_not), x) : NULL;
}
