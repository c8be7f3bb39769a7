/* ops/matmul/tensordot_kron.c - products composed of others: addr, cross, tensordot, kron. */
#include "ops/dims.h"
#include "ops/pointwise/widen.h"
#include "tensor/min_max.h"

#include <inttypes.h>
#include <math.h>

/* ---- addr ------------------------------------------------------------------------------------ */

/* Returns factor t; a bool is kept or becomes false. */
static br_tensor *times(br_tensor *t, double factor)
{
    if (br_dtype_of(t) == BR_BOOL)
        return factor != 0 ? t : br_zeros_like(t);
    if (!br_is_floating(t))
        factor = trunc(factor);
    return factor == 1 ? t : br_mul_scalar(t, factor);
}

/* With beta = 0, input is ignored, even if it is NaN. */
br_tensor *br_addr(br_tensor *input, br_tensor *vec1, br_tensor *vec2, double beta, double alpha)
{
    BR_OP("addr");
    if (!br__compatible("addr", "vec1", vec1, "vec2", vec2) ||
        !br__compatible("addr", "input", input, "vec1", vec1))
        return NULL;
    bool fits = vec1->ndim == 1 && vec2->ndim == 1 && input->ndim <= 2;
    for (int i = 1; fits && i <= input->ndim; i++) {
        const int64_t size = input->sizes[input->ndim - i];
        fits = size == 1 || size == (i == 1 ? vec2 : vec1)->sizes[0];
    }
    if (!fits)
        return br_fail(BR_ERROR_SHAPE, "addr",
                       "input %s must broadcast to [n, m] for vec1 %s and vec2 %s, which must be "
                       "[n] and [m]",
                       br__shape(input), br__shape(vec1), br__shape(vec2));
    br_scope *scope = br_scope_begin();
    const br_rounding rounding = BR_WIDEN(&input, &vec1, &vec2);
    br_tensor *zero = beta == 0 ? br_new_ones(input, BR_SCALAR, BR_BOOL) : NULL;
    br_tensor *kept = zero ? br_masked_fill(input, zero, 0) : times(input, beta);
    br_tensor *y = br_add(kept, times(br_outer(vec1, vec2), alpha));
    return br__composed(scope, br__narrowed(rounding, y));
}

/* ---- cross ----------------------------------------------------------------------------------- */

/* Returns the first dimension of size 3, or -1. */
static int64_t dim_of_three(const br_tensor *x)
{
    for (int i = 0; i < x->ndim; i++)
        if (x->sizes[i] == 3)
            return i;
    return -1;
}

/* Returns a[i] b[j] - a[j] b[i] along dim. */
static br_tensor *minor_of(br_tensor *a, br_tensor *b, int64_t dim, int64_t i, int64_t j)
{
    return br_sub(br_mul(br_select(a, dim, i), br_select(b, dim, j)),
                  br_mul(br_select(a, dim, j), br_select(b, dim, i)));
}

br_tensor *br_cross(br_tensor *a, br_tensor *b, int64_t dim)
{
    BR_OP("cross");
    br_tensor both = { .ndim = 0 };
    if (!br__is_number("cross", "a", a) || !br__compatible("cross", "a", a, "b", b) ||
        !br__broadcast_named("cross", "a", a, "b", b, &both.ndim, both.sizes))
        return NULL;
    if (a->ndim != b->ndim)
        return br_fail(BR_ERROR_SHAPE, "cross",
                       "a %s and b %s must have the same number of "
                       "dimensions",
                       br__shape(a), br__shape(b));
    if (dim == BR_ALL)
        dim = dim_of_three(a);
    if (both.ndim == 0 || (dim != -1 && !br__wrap_dim("cross", "dim", &both, &dim)))
        return br_fail(BR_ERROR_SHAPE, "cross", "a %s and b %s must have a dimension of size 3",
                       br__shape(a), br__shape(b));
    dim += dim < 0 ? both.ndim : 0;
    if (a->sizes[dim] != 3 || b->sizes[dim] != 3)
        return br_fail(BR_ERROR_SHAPE, "cross",
                       "a %s and b %s have sizes %" PRId64 " and %" PRId64 " in dimension %" PRId64
                       ", must be 3",
                       br__shape(a), br__shape(b), a->sizes[dim], b->sizes[dim], dim);
    br_scope *scope = br_scope_begin();
    const br_rounding rounding = BR_WIDEN(&a, &b);
    br_tensor *y = br_stack(
        BR_INPUTS(minor_of(a, b, dim, 1, 2), minor_of(a, b, dim, 2, 0), minor_of(a, b, dim, 0, 1)),
        dim);
    return br__composed(scope, br__narrowed(rounding, y));
}

/* ---- tensordot ------------------------------------------------------------------------------- */

/* A tensor whose dimensions are ordered for a product. */
typedef struct factor {
    br_tensor *matrix;                  /* the free dimensions as one, and the summed ones */
    int64_t summed, sizes[BR_MAX_DIMS]; /* sizes of the free dimensions */
    int n;
} factor;

/* Lists the free dimensions of t, and returns t as a matrix: [free, summed], or [summed, free] if
 * the summed dimensions come first. */
static factor as_matrix(br_tensor *t, int n, const int64_t *dims, bool summed_first)
{
    factor f = { .summed = 1 };
    int64_t order[BR_MAX_DIMS], first = summed_first ? 0 : t->ndim - n, free = 1;
    int place = summed_first ? n : 0;
    unsigned bits = 0;
    for (int i = 0; i < n; i++) {
        order[first + i] = dims[i];
        bits |= 1u << dims[i];
        f.summed *= t->sizes[dims[i]];
    }
    for (int d = 0; d < t->ndim; d++) {
        if (bits >> d & 1)
            continue;
        order[place++] = d;
        f.sizes[f.n++] = t->sizes[d];
        free *= t->sizes[d];
    }
    br_tensor *moved = br_permute(t, t->ndim, order);
    f.matrix = summed_first ? br_reshape(moved, BR_SHAPE(f.summed, free))
                            : br_reshape(moved, BR_SHAPE(free, f.summed));
    return f;
}

/* Makes the dimensions of both lists not negative, and checks that they fit. */
static bool check_pairs(const char *op, br_tensor **a, br_tensor **b, int n, int64_t *a_dims,
                        int64_t *b_dims)
{
    for (int i = 0; i < n; i++) {
        if (!br__wrap_dim(op, "a_dims", *a, &a_dims[i]) ||
            !br__wrap_dim(op, "b_dims", *b, &b_dims[i]))
            return false;
        const int64_t ka = (*a)->sizes[a_dims[i]], kb = (*b)->sizes[b_dims[i]];
        if (ka == kb)
            continue;
        if (ka != 1 && kb != 1) {
            br_fail(BR_ERROR_SHAPE, op,
                    "dimension %" PRId64 " of a %s and %" PRId64 " of b %s have sizes %" PRId64
                    " and %" PRId64 ", must be equal",
                    a_dims[i], br__shape(*a), b_dims[i], br__shape(*b), ka, kb);
            return false;
        }
        br_tensor **larger = ka == 1 ? b : a;    /* is summed: the other one broadcasts */
        const br_dtype dtype = (*larger)->dtype; /* a sum of integers is i64 */
        *larger = br_to(br_sum_dim(*larger, BR_DIMS(ka == 1 ? b_dims[i] : a_dims[i]), true), dtype);
        if (br_failed())
            return false;
    }
    return true;
}

br_tensor *br_tensordot(br_tensor *a, br_tensor *b, int na, const int64_t *a_dims, int nb,
                        const int64_t *b_dims)
{
    static const char op[] = "tensordot";
    BR_OP(op);
    unsigned bits;
    int64_t from_a[BR_MAX_DIMS], from_b[BR_MAX_DIMS];
    if (!br__is_number(op, "a", a) || !br__compatible(op, "a", a, "b", b))
        return NULL;
    if (na != nb || na < 0 || na > br__min(a->ndim, b->ndim))
        return br_fail(BR_ERROR_ARGUMENT, op,
                       "%d dims of a %s and %d of b %s: must be pairs of dimensions", na,
                       br__shape(a), nb, br__shape(b));
    if (na > 0 && (!br__dims_to_bits(op, a, na, a_dims, &bits) ||
                   !br__dims_to_bits(op, b, nb, b_dims, &bits)))
        return NULL;
    for (int i = 0; i < na; i++) {
        from_a[i] = a_dims[i];
        from_b[i] = b_dims[i];
    }
    br_scope *scope = br_scope_begin();
    if (!check_pairs(op, &a, &b, na, from_a, from_b))
        return br__composed(scope, NULL);
    factor left = as_matrix(a, na, from_a, false), right = as_matrix(b, nb, from_b, true);
    if (left.n + right.n > BR_MAX_DIMS)
        br_fail(BR_ERROR_SHAPE, op,
                "the product of %s and %s has %d dimensions, must be at most %d", br__shape(a),
                br__shape(b), left.n + right.n, BR_MAX_DIMS);
    for (int i = 0; i < right.n && !br_failed(); i++)
        left.sizes[left.n++] = right.sizes[i];
    int64_t numel;
    if (br_failed() || !br__check_sizes(op, left.n, left.sizes, a->dtype, &numel))
        return br__composed(scope, NULL);
    return br__composed(scope, br_reshape(br_mm(left.matrix, right.matrix), left.n, left.sizes));
}

/* ---- kron ------------------------------------------------------------------------------------ */

/* With sizes [n] and [m], the product is a[:, None] b[None, :] as [n m]. A tensor
 * with fewer dimensions gets further ones of size 1 in front. */
br_tensor *br_kron(br_tensor *a, br_tensor *b)
{
    BR_OP("kron");
    if (!br__compatible("kron", "a", a, "b", b))
        return NULL;
    const int n = br__max(a->ndim, b->ndim);
    if (2 * n > BR_MAX_DIMS)
        return br_fail(BR_ERROR_SHAPE, "kron", "a %s and b %s must have at most %d dimensions",
                       br__shape(a), br__shape(b), BR_MAX_DIMS / 2);
    int64_t a_sizes[BR_MAX_DIMS], b_sizes[BR_MAX_DIMS], sizes[BR_MAX_DIMS];
    for (int i = 0; i < n; i++) {
        const int ia = i - (n - a->ndim), ib = i - (n - b->ndim);
        a_sizes[2 * i] = ia < 0 ? 1 : a->sizes[ia];
        b_sizes[2 * i + 1] = ib < 0 ? 1 : b->sizes[ib];
        a_sizes[2 * i + 1] = b_sizes[2 * i] = 1;
        if (__builtin_mul_overflow(a_sizes[2 * i], b_sizes[2 * i + 1], &sizes[i]))
            return br_fail(BR_ERROR_SHAPE, "kron", "the product of a %s and b %s is too large",
                           br__shape(a), br__shape(b));
    }
    br_scope *scope = br_scope_begin();
    br_tensor *y = br_mul(br_reshape(a, 2 * n, a_sizes), br_reshape(b, 2 * n, b_sizes));
    return br__composed(scope, br_reshape(y, n, sizes));
}
