/* ops/pointwise/widen.c - conversions at the start and end of an operation. */
#include "ops/pointwise/widen.h"
#include "tensor/loop.h"

br_rounding br__widen_operands(size_t n, br_tensor **const *operands)
{
    br_tensor *given[BR_MAX_OPERANDS];
    int count = 0;
    bool any = false;
    for (size_t i = 0; i < n; i++)
        any |= br__is_half(*operands[i]);
    if (!any || br__failed())
        return (br_rounding){ .any = false };
    for (size_t i = 0; i < n; i++)
        if (*operands[i])
            given[count++] = *operands[i];
    const br_dtype dtype = br_result_type(count, given);
    if (!br__is_stored(dtype))
        return (br_rounding){ .any = false };
    for (size_t i = 0; i < n; i++)
        if (br__is_half(*operands[i]))
            *operands[i] = br_to(*operands[i], br__computed(dtype));
    return (br_rounding){ true, dtype };
}

br_tensor *br__narrowed(br_rounding rounding, br_tensor *y)
{
    return rounding.any && y ? br_to(y, rounding.dtype) : y;
}

br_tensor *br__as_floating(br_tensor *t)
{
    return t && !br_is_floating(t) ? br_to(t, br__default_dtype(BR_KIND_FLOATING)) : t;
}

bool br__is_number(const char *op, const char *name, const br_tensor *t)
{
    if (!br__required(op, name, t))
        return false;
    if (!br__is_kind(t->dtype, BR_KIND_BOOL))
        return true;
    br_fail(BR_ERROR_DTYPE, op, "%s %s is bool, must be a floating-point or integer dtype", name,
            br__shape(t));
    return false;
}

bool br__fits_norm(const char *op, const br_tensor *x, const char *name, const br_tensor *t)
{
    return t && t->mark == BR_MARK_LIVE && t->dtype == br__computed(x->dtype)
               ? br__same_device(op, "x", x, name, t)
               : br__compatible(op, "x", x, name, t);
}

bool br__is_short_index(const br_tensor *index)
{
    return br__is_whole(index) && index->dtype != BR_I64 &&
           (index->dtype == BR_I32 || index->numel == 0);
}
