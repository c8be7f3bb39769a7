/* ops/quantized.c - weights of BR_QUANTIZED: checks and conversion. */
#include "ops/quantized.h"

#include <brasa/ops.h>

bool br__fits_weight(const char *op, const char *x_name, const br_tensor *x,
                     const char *weight_name, const br_tensor *weight)
{
    if (!br__is_quantized_weight(weight))
        return br__compatible(op, x_name, x, weight_name, weight);
    if (!br__required(op, x_name, x) || !br__required_any(op, weight_name, weight))
        return false;
    if (x->dtype != br__computed(weight->dtype))
        br_fail(BR_ERROR_DTYPE, op,
                "%s %s is %s and %s %s is quantized (%s): %s must be %s (convert it with br_to())",
                x_name, br__shape(x), br_dtype_name(x->dtype), weight_name, br__shape(weight),
                br__block_info(weight)->name, x_name, br_dtype_name(br__computed(weight->dtype)));
    else if (br__backend_of(x) != br__backend_of(weight))
        br_fail(BR_ERROR_ARGUMENT, op,
                "%s %s is on %s and %s %s, which is quantized (%s), is on %s: operands must be on "
                "one device, and quantized weights are in the host's memory only",
                x_name, br__shape(x), br__backend_of(x)->name, weight_name, br__shape(weight),
                br__block_info(weight)->name, br__backend_of(weight)->name);
    else if (weight->ndim != 2)
        br_fail(BR_ERROR_SHAPE, op, "%s %s is quantized (%s) and must be a matrix", weight_name,
                br__shape(weight), br__block_info(weight)->name);
    return !br__failed();
}

br_tensor *br__dequantized(br_tensor *weight)
{
    return br__is_quantized_weight(weight) ? br_to(weight, br__computed(weight->dtype)) : weight;
}
