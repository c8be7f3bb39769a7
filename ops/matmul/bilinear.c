/* ops/matmul/bilinear.c - bilinear forms of two vectors. */
#include "ops/autocast.h"
#include "ops/pointwise/widen.h"

br_tensor *br_f_bilinear(br_tensor *x1, br_tensor *x2, br_tensor *weight, br_tensor *bias)
{
    static const char op[] = "bilinear";
    BR_OP(op);
    BR_AUTOCAST(br_f_bilinear(LOWER(x1), LOWER(x2), LOWER(weight), LOWER(bias)))
    if (!br__is_number(op, "x1", x1) || !br__compatible(op, "x1", x1, "x2", x2) ||
        !br__compatible(op, "x1", x1, "weight", weight) ||
        (bias && !br__compatible(op, "x1", x1, "bias", bias)))
        return NULL;
    bool fits = weight->ndim == 3 && x1->ndim == x2->ndim && x1->ndim > 0;
    for (int d = 0; fits && d < x1->ndim - 1; d++)
        fits = x1->sizes[d] == x2->sizes[d];
    if (!fits || x1->sizes[x1->ndim - 1] != weight->sizes[1] ||
        x2->sizes[x2->ndim - 1] != weight->sizes[2])
        return br_fail(BR_ERROR_SHAPE, op,
                       "x1 %s, x2 %s and weight %s: must be [*, n], [*, m] and [o, n, m]",
                       br__shape(x1), br__shape(x2), br__shape(weight));
    if (bias && (bias->ndim != 1 || bias->sizes[0] != weight->sizes[0]))
        return br_fail(BR_ERROR_SHAPE, op, "bias %s must be [o] for weight %s of shape [o, n, m]",
                       br__shape(bias), br__shape(weight));
    br_scope *scope = br_scope_begin();
    const br_rounding rounding = BR_WIDEN(&x1, &x2, &weight, &bias);
    br_tensor *y = br_einsum("...i,oij,...j->...o", BR_INPUTS(x1, weight, x2));
    return br__composed(scope, br__narrowed(rounding, bias ? br_add(y, bias) : y));
}
