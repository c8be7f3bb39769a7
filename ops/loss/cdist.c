/* ops/loss/cdist.c - p-norms of differences: dist, and all pairs of rows (cdist, pdist). */
#include "ops/loss/loss_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

br_tensor *br_dist(br_tensor *x1, br_tensor *x2, double p)
{
    BR_OP("dist");
    int ndim;
    int64_t sizes[BR_MAX_DIMS];
    if (!br__check_broadcastable("dist", "x1", x1, "x2", x2) ||
        !br__broadcast_named("dist", "x1", x1, "x2", x2, &ndim, sizes))
        return NULL;
    br_scope *scope = br_scope_begin();
    const br_rounding rounding = BR_WIDEN(&x1, &x2);
    return br__composed(scope, br__narrowed(rounding, br_norm(br_sub(x1, x2), p)));
}

/* Checks that t is floating-point and has at least two dimensions. */
static bool has_rows(const char *op, const char *name, const br_tensor *t, double p)
{
    if (!br__floating(op, name, t))
        return false;
    if (t->ndim < 2)
        br_fail(BR_ERROR_SHAPE, op, "%s %s must have at least 2 dimensions", name, br__shape(t));
    else if (!(p >= 0))
        br_fail(BR_ERROR_ARGUMENT, op, "p is %g, must be at least 0", p);
    return !br_failed();
}

/* The gradient of the largest difference goes to all elements of that size, undivided. The gradient
 * of a norm is divided among them. */
static void largest_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    br_tensor *x = br_saved(node, 0), *y = br_unsqueeze(br_saved(node, 1), -1);
    br_tensor *chosen = br_to(br_eq(br_abs(x), y), br_dtype_of(x));
    dx[0] = br_mul(br_mul(br_sign(x), chosen), br_unsqueeze(dy, -1));
}

static br_tensor *largest(br_tensor *difference)
{
    static const br_op op = { "cdist", largest_backward, false };
    br_scope *scope = br_no_grad_begin();
    br_tensor *y = br__composed(scope, br_amax(br_abs(difference), BR_DIMS(-1), false));
    br_node *node = br_record(&op, y, BR_INPUTS(difference), NULL, 0);
    br_save(node, 0, difference);
    br_save(node, 1, y);
    return y;
}

/* Returns the p-norm along the last dimension; 0 if that has no elements. */
static br_tensor *row_norms(br_tensor *difference, double p)
{
    if (difference && difference->sizes[difference->ndim - 1] == 0)
        return br_sum_dim(difference, BR_DIMS(-1), false);
    return isinf(p) ? largest(difference) : br_norm_dim(difference, p, BR_DIMS(-1), false);
}

/* ---- Euclidean distances by a product -------------------------------------------------------- */

/* Each distance is the square root of |a|^2 + |b|^2 - 2 a b, by one product of matrices:
 * [-2 a, |a|^2, 1] and [b, 1, |b|^2]. As in PyTorch, this is done for more than 25 rows. */
enum { ROWS_FOR_PRODUCT = 25 };

static br_tensor *squares(br_tensor *x)
{
    return br_sum_dim(br_mul(x, x), BR_DIMS(-1), true);
}

static br_tensor *distances_by_product(br_tensor *x1, br_tensor *x2)
{
    br_tensor *a = squares(x1), *b = squares(x2);
    br_tensor *left = br_cat(BR_INPUTS(br_mul_scalar(x1, -2), a, br_ones_like(a)), -1);
    br_tensor *right = br_cat(BR_INPUTS(x2, br_ones_like(b), b), -1);
    br_tensor *square = br_matmul(left, br_transpose(right, -2, -1));
    return br_sqrt(br_clamp(square, 0, INFINITY));
}

/* dx1 = sum over j of (x1_i - x2_j) dy_ij / y_ij, and the same for x2; 0 where the distance is 0.
 */
static void euclidean_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    br_tensor *x1 = br_saved(node, 0), *x2 = br_saved(node, 1), *y = br_saved(node, 2);
    br_tensor *ratio = br_masked_fill(br_div(dy, y), br_eq_scalar(y, 0), 0);
    br_tensor *back = br_transpose(ratio, -2, -1);
    if (br_needs_input_grad(node, 0))
        dx[0] = br_sub(br_mul(x1, br_sum_dim(ratio, BR_DIMS(-1), true)), br_matmul(ratio, x2));
    if (br_needs_input_grad(node, 1))
        dx[1] = br_sub(br_mul(x2, br_sum_dim(back, BR_DIMS(-1), true)), br_matmul(back, x1));
}

static const br_op euclidean_op = { "cdist", euclidean_backward, false };

/* The leading dimensions of x1 and x2 are equal. */
static br_tensor *euclidean(br_tensor *x1, br_tensor *x2)
{
    br_scope *scope = br_no_grad_begin();
    br_tensor *y = br__composed(scope, distances_by_product(x1, x2));
    br_node *node = br_record(&euclidean_op, y, BR_INPUTS(x1, x2), NULL, 0);
    br_save(node, 0, x1);
    br_save(node, 1, x2);
    br_save(node, 2, y);
    return y;
}

/* ---- cdist, pdist ---------------------------------------------------------------------------- */

/* Expands the leading dimensions of both tensors to their common shape, and checks that of the
 * result. */
static bool expand_batches(const char *op, br_tensor **x1, br_tensor **x2)
{
    br_tensor a = { .ndim = (*x1)->ndim - 2 }, b = { .ndim = (*x2)->ndim - 2 };
    int64_t sizes[BR_MAX_DIMS];
    int ndim;
    memcpy(a.sizes, (*x1)->sizes, sizeof a.sizes);
    memcpy(b.sizes, (*x2)->sizes, sizeof b.sizes);
    if (!br__broadcast_named(op, "the batch of x1", &a, "of x2", &b, &ndim, sizes))
        return false;
    int64_t numel;
    sizes[ndim] = (*x1)->sizes[(*x1)->ndim - 2];
    sizes[ndim + 1] = (*x2)->sizes[(*x2)->ndim - 2];
    if (!br__check_sizes(op, ndim + 2, sizes, (*x1)->dtype, &numel))
        return false;
    br_tensor **both[] = { x1, x2 };
    for (int i = 0; i < 2; i++) {
        const br_tensor *t = *both[i];
        sizes[ndim] = t->sizes[t->ndim - 2];
        sizes[ndim + 1] = t->sizes[t->ndim - 1];
        *both[i] = br_expand(*both[i], ndim + 2, sizes);
    }
    return !br_failed();
}

br_tensor *br_cdist(br_tensor *x1, br_tensor *x2, double p)
{
    BR_OP("cdist");
    if (!has_rows("cdist", "x1", x1, p) || !has_rows("cdist", "x2", x2, p) ||
        !br__compatible("cdist", "x1", x1, "x2", x2))
        return NULL;
    if (x1->sizes[x1->ndim - 1] != x2->sizes[x2->ndim - 1])
        return br_fail(BR_ERROR_SHAPE, "cdist", "x1 %s and x2 %s must have the same last size",
                       br__shape(x1), br__shape(x2));
    br_scope *scope = br_scope_begin();
    const br_rounding rounding = BR_WIDEN(&x1, &x2);
    if (!x1 || !x2 || !expand_batches("cdist", &x1, &x2))
        return br__composed(scope, NULL);
    const int64_t n = br_size(x1, -2), m = br_size(x2, -2);
    if (p == 2 && (n > ROWS_FOR_PRODUCT || m > ROWS_FOR_PRODUCT))
        return br__composed(scope, br__narrowed(rounding, euclidean(x1, x2)));
    br_tensor *difference = br_sub(br_unsqueeze(x1, -2), br_unsqueeze(x2, -3));
    return br__composed(scope, br__narrowed(rounding, row_norms(difference, p)));
}

br_tensor *br_pdist(br_tensor *x, double p)
{
    BR_OP("pdist");
    if (!has_rows("pdist", "x", x, p))
        return NULL;
    if (x->ndim != 2)
        return br_fail(BR_ERROR_SHAPE, "pdist", "x %s must have 2 dimensions", br__shape(x));
    if (x->sizes[0] >= INT64_C(1) << 31)
        return br_fail(BR_ERROR_SHAPE, "pdist", "x %s must have fewer than 2^31 rows",
                       br__shape(x));
    br_scope *scope = br_scope_begin();
    const br_rounding rounding = BR_WIDEN(&x);
    if (!x)
        return br__composed(scope, NULL);
    br_tensor *pairs = br_triu_indices(x->sizes[0], x->sizes[0], 1);
    br_tensor *difference = br_sub(br_index_select(x, 0, br_select(pairs, 0, 0)),
                                   br_index_select(x, 0, br_select(pairs, 0, 1)));
    return br__composed(scope, br__narrowed(rounding, row_norms(difference, p)));
}
