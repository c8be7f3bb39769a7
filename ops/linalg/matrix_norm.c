/* ops/linalg/matrix_norm.c - norms and condition numbers of matrices. */
#include "ops/linalg/linalg_internal.h"
#include "tensor/min_max.h"

#include <math.h>

/* Returns the largest or the smallest sum of absolute values along dim `sum`, which go along dim
 * `other`. Both dimensions are kept. */
static br_tensor *extreme_sum(br_tensor *a, int64_t sum, int64_t other, bool largest)
{
    br_tensor *sums = br_sum_dim(br_abs(a), BR_DIMS(sum), true);
    return largest ? br_amax(sums, BR_DIMS(other), true) : br_amin(sums, BR_DIMS(other), true);
}

/* Returns a norm of the singular values of the matrices in two dimensions, which are kept. */
static br_tensor *spectral_norm(const char *op, br_tensor *a, br_matrix_norm ord, int64_t rows,
                                int64_t columns)
{
    br_tensor *matrices = br_movedim(a, BR_DIMS(rows, columns), BR_DIMS(-2, -1));
    if (!matrices || !br__matrices(op, "a", matrices))
        return NULL;
    br_tensor *s = br__svdvals(op, matrices);
    br_tensor *y = ord == BR_MATRIX_NORM_NUC ? br_sum_dim(s, BR_DIMS(-1), false)
                   : ord == BR_MATRIX_NORM_2 ? br_amax(s, BR_DIMS(-1), false)
                                             : br_amin(s, BR_DIMS(-1), false);
    return br_unsqueeze(br_unsqueeze(y, br__min(rows, columns)), br__max(rows, columns));
}

static br_tensor *norm_of(const char *op, br_tensor *a, br_matrix_norm ord, int64_t rows,
                          int64_t columns)
{
    switch (ord) {
    case BR_MATRIX_NORM_FRO:
        return br_norm_dim(a, 2, BR_DIMS(rows, columns), true);
    case BR_MATRIX_NORM_INF:
    case BR_MATRIX_NORM_NEG_INF:
        return extreme_sum(a, columns, rows, ord == BR_MATRIX_NORM_INF);
    case BR_MATRIX_NORM_1:
    case BR_MATRIX_NORM_NEG_1:
        return extreme_sum(a, rows, columns, ord == BR_MATRIX_NORM_1);
    default:
        return spectral_norm(op, a, ord, rows, columns);
    }
}

static bool check_order(const char *op, br_matrix_norm ord)
{
    if ((unsigned)ord > BR_MATRIX_NORM_NEG_2)
        br_fail(BR_ERROR_ARGUMENT, op, "ord is %d, must be one of br_matrix_norm, 0 .. %d",
                (int)ord, (int)BR_MATRIX_NORM_NEG_2);
    return !br_failed();
}

br_tensor *br_linalg_matrix_norm(br_tensor *a, br_matrix_norm ord, int ndims, const int64_t *dims,
                                 bool keepdim)
{
    static const char op[] = "linalg_matrix_norm";
    BR_OP(op);
    if (!br__floating(op, "a", a) || !check_order(op, ord))
        return NULL;
    if (a->ndim < 2)
        return br_fail(BR_ERROR_SHAPE, op, "a %s must have at least 2 dimensions", br__shape(a));
    if (ndims != 2 || !dims)
        return br_fail(BR_ERROR_ARGUMENT, op, "there are %d dims, must be 2: rows and columns",
                       ndims);
    int64_t rows = dims[0], columns = dims[1];
    if (!br__wrap_dim(op, "dims", a, &rows) || !br__wrap_dim(op, "dims", a, &columns))
        return NULL;
    if (rows == columns)
        return br_fail(BR_ERROR_ARGUMENT, op, "dims has dimension %d twice", (int)rows);
    br_scope *scope = br_scope_begin();
    br_tensor *y = norm_of(op, a, ord, rows, columns);
    return br__composed(scope, keepdim ? y : br_squeeze_dims(y, BR_DIMS(rows, columns)));
}

/* Returns the norm of a times the norm of its inverse; infinity for singular matrices, which are
 * replaced by the identity. */
static br_tensor *product_of_norms(const char *op, br_tensor *a, br_matrix_norm ord)
{
    br_tensor *singular = br__is_singular(op, a);
    br_tensor *places = br__per_matrix(singular);
    br_tensor *regular = singular ? br_where(places, br__identity_like(a), a) : NULL;
    br_tensor *inverse = br_linalg_inv(regular);
    br_tensor *product = br_mul(br_linalg_matrix_norm(a, ord, BR_DIMS(-2, -1), false),
                                br_linalg_matrix_norm(inverse, ord, BR_DIMS(-2, -1), false));
    return br_masked_fill(product, singular, INFINITY);
}

br_tensor *br_linalg_cond(br_tensor *a, br_matrix_norm ord)
{
    static const char op[] = "linalg_cond";
    BR_OP(op);
    const bool by_values = ord == BR_MATRIX_NORM_2 || ord == BR_MATRIX_NORM_NEG_2;
    if (!check_order(op, ord) || !(by_values ? br__matrices(op, "a", a) : br__square(op, "a", a)))
        return NULL;
    br_scope *scope = br_scope_begin();
    if (a->numel == 0)
        return br__composed(scope, br_sum_dim(a, BR_DIMS(-2, -1), false));
    if (!by_values)
        return br__composed(scope, product_of_norms(op, a, ord));
    br_tensor *s = br__svdvals(op, a), *largest = br_select(s, -1, 0);
    br_tensor *smallest = br_select(s, -1, -1);
    return br__composed(scope, ord == BR_MATRIX_NORM_2 ? br_div(largest, smallest)
                                                       : br_div(smallest, largest));
}
