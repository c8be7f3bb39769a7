/* ops/linalg/tensors.c - tensors as matrices: inverses and solutions for products over several
 * dimensions, and Vandermonde matrices. */
#include "ops/linalg/linalg_internal.h"

#include <inttypes.h>

static int64_t product(int n, const int64_t *sizes)
{
    int64_t p = 1;
    for (int i = 0; i < n; i++)
        p *= sizes[i];
    return p;
}

br_tensor *br_linalg_tensorinv(br_tensor *a, int64_t ind)
{
    static const char op[] = "linalg_tensorinv";
    BR_OP(op);
    if (!br__f32_or_f64(op, "a", a))
        return NULL;
    if (ind < 1 || ind > a->ndim)
        return br_fail(BR_ERROR_ARGUMENT, op, "ind is %" PRId64 ", must be in 1 .. %d for a %s",
                       ind, a->ndim, br__shape(a));
    const int rows = (int)ind, columns = a->ndim - rows;
    const int64_t n = product(rows, a->sizes);
    if (n != product(columns, a->sizes + rows))
        return br_fail(BR_ERROR_SHAPE, op,
                       "a %s must have as many elements in its first %d dimensions, %" PRId64
                       ", as in the others",
                       br__shape(a), rows, n);
    int64_t sizes[BR_MAX_DIMS];
    for (int i = 0; i < a->ndim; i++)
        sizes[i] = a->sizes[i < columns ? rows + i : i - columns];
    br_scope *scope = br_scope_begin();
    br_tensor *inverse = br_linalg_inv(br_reshape(a, BR_SHAPE(n, n)));
    return br__composed(scope, br_reshape(inverse, a->ndim, sizes));
}

br_tensor *br_linalg_tensorsolve(br_tensor *a, br_tensor *b, int ndims, const int64_t *dims)
{
    static const char op[] = "linalg_tensorsolve";
    BR_OP(op);
    if (!br__f32_or_f64(op, "a", a) || !br__compatible(op, "a", a, "b", b))
        return NULL;
    int64_t last[BR_MAX_DIMS];
    if (ndims < 0 || ndims > a->ndim || (ndims > 0 && !dims))
        return br_fail(BR_ERROR_ARGUMENT, op, "there are %d dims, must be 0 .. %d for a %s", ndims,
                       a->ndim, br__shape(a));
    for (int i = 0; i < ndims; i++)
        last[i] = i - ndims;
    br_scope *scope = br_scope_begin();
    br_tensor *m = ndims > 0 ? br_movedim(a, ndims, dims, ndims, last) : a;
    const int rows = b->ndim;
    if (!m)
        return br__composed(scope, NULL);
    if (rows > m->ndim || product(m->ndim - rows, m->sizes + rows) != b->numel ||
        product(rows, m->sizes) != b->numel) {
        br_fail(BR_ERROR_SHAPE, op,
                "a %s, after moving dims, must have %" PRId64
                " elements, those of b %s, in its first %d dimensions, and in the others",
                br__shape(m), b->numel, br__shape(b), rows);
        return br__composed(scope, NULL);
    }
    br_tensor *matrix = br_reshape(m, BR_SHAPE(b->numel, b->numel));
    br_tensor *x = br_linalg_solve(matrix, br_reshape(b, BR_SHAPE(b->numel)), true);
    return br__composed(scope, br_reshape(x, m->ndim - rows, m->sizes + rows));
}

br_tensor *br_linalg_vander(br_tensor *x, int64_t n)
{
    static const char op[] = "linalg_vander";
    BR_OP(op);
    if (!br__required(op, "x", x))
        return NULL;
    const int64_t length = x->ndim > 0 ? x->sizes[x->ndim - 1] : 1;
    if (n == 0)
        n = length;
    if (n < 2)
        return br_fail(BR_ERROR_ARGUMENT, op,
                       "n is %" PRId64 ", must be at least 2; 0 is the last size of x %s", n,
                       br__shape(x));
    if (x->ndim == BR_MAX_DIMS)
        return br_fail(BR_ERROR_SHAPE, op, "x %s has too many dimensions for another one",
                       br__shape(x));
    br_scope *scope = br_scope_begin();
    br_tensor *column = br_unsqueeze(x->ndim > 0 ? x : br_reshape(x, BR_SHAPE(1)), -1);
    if (!column)
        return br__composed(scope, NULL);
    int64_t sizes[BR_MAX_DIMS], count;
    for (int i = 0; i < column->ndim; i++)
        sizes[i] = column->sizes[i];
    sizes[column->ndim - 1] = n;
    if (!br__check_sizes(op, column->ndim, sizes, x->dtype, &count))
        return br__composed(scope, NULL);
    /* Not a cumulative product, whose gradient divides by x. Integers are i64. */
    br_tensor *base = br__is_floating(x->dtype) ? column : br_to(column, BR_I64);
    br_tensor *y = br_pow(base, br_new_arange(x, 0, (double)n, 1, base ? base->dtype : x->dtype));
    return br__composed(scope, y);
}
