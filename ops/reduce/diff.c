/* ops/reduce/diff.c - differences of neighbours along a dimension. */
#include "ops/pointwise/widen.h"
#include "ops/reduce/reduce_internal.h"

#include <inttypes.h>

/* Checks that a tensor can be joined to x along dim. */
static bool can_join(const char *op, const br_tensor *x, const char *name, const br_tensor *t,
                     int64_t dim)
{
    if (!br__compatible(op, "x", x, name, t))
        return false;
    bool fits = t->ndim == x->ndim;
    for (int d = 0; fits && d < x->ndim; d++)
        fits = d == dim || t->sizes[d] == x->sizes[d];
    if (!fits)
        br_fail(BR_ERROR_SHAPE, op,
                "%s %s for x %s: sizes must be equal except in dimension %" PRId64, name,
                br__shape(t), br__shape(x), dim);
    return fits;
}

static br_tensor *joined(br_tensor *x, br_tensor *prepend, br_tensor *append, int64_t dim)
{
    if (prepend && append)
        return br_cat(BR_INPUTS(prepend, x, append), dim);
    return prepend  ? br_cat(BR_INPUTS(prepend, x), dim)
           : append ? br_cat(BR_INPUTS(x, append), dim)
                    : x;
}

br_tensor *br_diff(br_tensor *x, int64_t n, int64_t dim, br_tensor *prepend, br_tensor *append)
{
    BR_OP("diff");
    if (!br__wrap_dim_nonscalar("diff", x, &dim) ||
        (prepend && !can_join("diff", x, "prepend", prepend, dim)) ||
        (append && !can_join("diff", x, "append", append, dim)))
        return NULL;
    if (n < 0)
        return br_fail(BR_ERROR_ARGUMENT, "diff", "n is %" PRId64 ", must be at least 0", n);
    br_scope *scope = br_scope_begin();
    const br_rounding rounding = BR_WIDEN(&x, &prepend, &append);
    br_tensor *y = n == 0 ? br_clone(x) : joined(x, prepend, append, dim);
    for (int64_t i = 0; y && i < n && br_size(y, dim) > 0; i++) {
        const int64_t length = br_size(y, dim) - 1;
        br_tensor *later = br_narrow(y, dim, 1, length), *earlier = br_narrow(y, dim, 0, length);
        y = br_dtype_of(y) == BR_BOOL ? br_ne(later, earlier) : br_sub(later, earlier);
    }
    return br__composed(scope, br__narrowed(rounding, y));
}
