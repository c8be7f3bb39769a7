/* ops/pointwise/bitwise.c - operations on the bits of integers, and on bools; divisors and
 * multiples of integers. */
#include "ops/pointwise/promotion.h"

/* Fails if t is floating-point or, unless `bools` are allowed, bool. */
static bool is_whole(const char *op, const char *name, const br_tensor *t, bool bools)
{
    if (!br__required(op, name, t))
        return false;
    if (br_is_floating(t) || (!bools && t->dtype == BR_BOOL))
        br_fail(BR_ERROR_DTYPE, op, "%s %s is %s, must be an integer dtype%s", name, br__shape(t),
                br_dtype_name(t->dtype), bools ? " or bool" : "");
    return !br_failed();
}

/* Results have no gradient, so nothing is recorded. A bool is converted to the dtype of an
 * integer. */
#define DEFINE_OF_INTEGERS(name, kernel, bools)                                                   \
    br_tensor *br_##name(br_tensor *a, br_tensor *b)                                              \
    {                                                                                             \
        BR_OP(#name);                                                                             \
        const bool mixed = br__mixed(a, b);                                                       \
        if (!is_whole(#name, "a", a, bools || mixed) || !is_whole(#name, "b", b, bools || mixed)) \
            return NULL;                                                                          \
        return mixed ? br__promoted(#name, br_##name, a, b)                                       \
                     : br__binary(#name, BR_POINTWISE(kernel), a, b);                             \
    }

DEFINE_OF_INTEGERS(bitwise_and, bitwise_and, true)
DEFINE_OF_INTEGERS(bitwise_or, bitwise_or, true)
DEFINE_OF_INTEGERS(bitwise_xor, bitwise_xor, true)
DEFINE_OF_INTEGERS(bitwise_left_shift, left_shift, false)
DEFINE_OF_INTEGERS(bitwise_right_shift, right_shift, false)
DEFINE_OF_INTEGERS(gcd, gcd, false)
DEFINE_OF_INTEGERS(lcm, lcm, false)

br_tensor *br_bitwise_not(br_tensor *x)
{
    static const char op[] = "bitwise_not";
    BR_OP(op);
    return is_whole(op, "x", x, true) ? br__unary(op, BR_POINTWISE(bitwise_not), x) : NULL;
}
