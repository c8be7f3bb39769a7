/* ops/dims.c - dimensions in the arguments of operations, and the sizes that a reduction leaves. */
#include "ops/dims.h"

#include <inttypes.h>

bool br__wrap_dim_nonscalar(const char *op, const br_tensor *x, int64_t *dim)
{
    if (!br__required(op, "x", x))
        return false;
    if (x->ndim == 0)
        br_fail(BR_ERROR_SHAPE, op, "x [] has no dimensions, must have at least one");
    return x->ndim > 0 && br__wrap_dim(op, "dim", x, dim);
}

bool br__dims_to_bits(const char *op, const br_tensor *x, int n, const int64_t *dims,
                      unsigned *bits)
{
    if (n < 0 || (n > 0 && !dims)) {
        br_fail(BR_ERROR_ARGUMENT, op, "ndims is %d and dims is %s: expected a list of dimensions",
                n, dims ? "not NULL" : "NULL");
        return false;
    }
    *bits = n == 0 ? (1u << x->ndim) - 1 : 0;
    for (int i = 0; i < n; i++) {
        int64_t dim = dims[i];
        if (!br__wrap_dim(op, "dims", x, &dim))
            return false;
        if (*bits >> dim & 1) {
            br_fail(BR_ERROR_ARGUMENT, op, "dimension %" PRId64 " of x %s is given twice", dim,
                    br__shape(x));
            return false;
        }
        *bits |= 1u << dim;
    }
    return true;
}

int br__reduced_sizes(int ndim, const int64_t *sizes, unsigned bits, bool keepdim, int64_t *out)
{
    int n = 0;
    for (int d = 0; d < ndim; d++) {
        if (!(bits >> d & 1))
            out[n++] = sizes[d];
        else if (keepdim)
            out[n++] = 1;
    }
    return n;
}

int64_t br__reduced_count(int ndim, const int64_t *sizes, unsigned bits)
{
    int64_t count = 1;
    for (int d = 0; d < ndim; d++)
        count *= bits >> d & 1 ? sizes[d] : 1;
    return count;
}

br_tensor *br__reduced(const char *op, const br_tensor *x, unsigned bits, bool keepdim,
                       br_dtype dtype)
{
    int64_t sizes[BR_MAX_DIMS];
    int n = br__reduced_sizes(x->ndim, x->sizes, bits, keepdim, sizes);
    return br__new_on(op, x, n, sizes, dtype);
}
