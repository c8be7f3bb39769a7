/* ops/linalg/pinv.c - pseudoinverses, and ranks of matrices. */
#include "ops/linalg/linalg_internal.h"
#include "tensor/min_max.h"

double br__linalg_rtol(const br_tensor *a)
{
    const int64_t size = br__max(a->sizes[a->ndim - 1], a->sizes[a->ndim - 2]);
    return (double)size * br__epsilon(a->dtype);
}

/* Returns max(atol, rtol * the largest of s) with a last dimension of size 1, or NULL with an
 * error; s are the singular values of a. */
static br_tensor *tolerance(const char *op, br_tensor *a, br_tensor *s, br_tensor *atol,
                            br_tensor *rtol)
{
    if (!s)
        return NULL;
    br_tensor *largest = s->sizes[s->ndim - 1] > 0 ? br_amax(s, BR_DIMS(-1), false)
                                                   : br_sum_dim(s, BR_DIMS(-1), false);
    if (!largest || (atol && !br__broadcasts_to(op, "atol", atol, largest)) ||
        (rtol && !br__broadcasts_to(op, "rtol", rtol, largest)))
        return NULL;
    atol = atol ? br_to(atol, a->dtype) : NULL;
    br_tensor *relative;
    if (rtol)
        relative = br_mul(largest, br_to(rtol, a->dtype));
    else
        relative = br_mul_scalar(largest, br__linalg_rtol(a));
    if (atol && !rtol)
        relative = br_masked_fill(relative, br_gt_scalar(atol, 0), 0);
    return br_unsqueeze(atol ? br_maximum(atol, relative) : relative, -1);
}

/* ---- pinv ------------------------------------------------------------------------------------ */

/* G. H. Golub, V. Pereyra, "The differentiation of pseudo-inverses and nonlinear least squares
 * problems whose variables separate" (1973). The products of the smaller of the two sizes come
 * first. */
br_tensor *br__pinv_gradient(br_tensor *a, br_tensor *y, br_tensor *dy)
{
    br_tensor *g = br__mt(dy), *yt = br__mt(y);
    if (!a || !y || br_failed())
        return NULL;
    if (a->sizes[a->ndim - 2] <= a->sizes[a->ndim - 1]) {
        br_tensor *k = br_matmul(g, y), *kyt = br_matmul(k, yt);
        br_tensor *inside = br_add(br_neg(br__mt(br_matmul(y, k))), kyt);
        br_tensor *projected = br_matmul(br_matmul(a, y), kyt);
        br_tensor *outside = br_matmul(br_matmul(yt, y), br_sub(g, br_matmul(k, a)));
        return br_add(br_sub(inside, projected), outside);
    }
    br_tensor *k = br_matmul(y, g), *ytk = br_matmul(yt, k);
    br_tensor *inside = br_add(br_neg(br__mt(br_matmul(k, y))), ytk);
    br_tensor *projected = br_matmul(br_matmul(ytk, y), a);
    br_tensor *outside = br_matmul(br_sub(g, br_matmul(a, k)), br_matmul(y, yt));
    return br_add(br_sub(inside, projected), outside);
}

static void pinv_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    dx[0] = br__pinv_gradient(br_saved(node, 0), br_saved(node, 1), dy);
}

static const br_op pinv_op = { "linalg_pinv", pinv_backward, false };

/* a = left diag(s) right^T gives right diag(1 / s) left^T, with 0 instead of the inverses of small
 * numbers. */
static br_tensor *pseudoinverse(const char *op, br_tensor *a, br_tensor *atol, br_tensor *rtol,
                                bool hermitian)
{
    br_tensor *left, *s, *right;
    if (hermitian) {
        s = br__eigh(op, a, false, &left);
        right = left;
    } else {
        br_singular p;
        if (!br__svd(op, a, false, true, &p))
            return NULL;
        left = p.u;
        s = p.s;
        right = br__mt(p.vh);
    }
    if (br_failed())
        return NULL;
    br_tensor *size = br_abs(s), *limit = tolerance(op, a, size, atol, rtol);
    br_tensor *inverse = br_masked_fill(br_reciprocal(s), br_le(size, limit), 0);
    return br_matmul(br_mul(right, br_unsqueeze(inverse, -2)), br__mt(left));
}

/* Checks the arguments that pinv and matrix_rank share. */
static bool check(const char *op, const br_tensor *a, const br_tensor *atol, const br_tensor *rtol,
                  bool hermitian)
{
    return (!atol || br__required(op, "atol", atol)) && (!rtol || br__required(op, "rtol", rtol)) &&
           (hermitian ? br__square(op, "a", a) : br__matrices(op, "a", a));
}

br_tensor *br_linalg_pinv(br_tensor *a, br_tensor *atol, br_tensor *rtol, bool hermitian)
{
    static const char op[] = "linalg_pinv";
    BR_OP(op);
    if (!check(op, a, atol, rtol, hermitian))
        return NULL;
    br_scope *scope = br_no_grad_begin();
    br_tensor *y = br_scope_return(scope, pseudoinverse(op, a, atol, rtol, hermitian));
    br_scope_end(scope);
    br_node *node = br_record(&pinv_op, y, BR_INPUTS(a), NULL, 0);
    br_save(node, 0, a);
    br_save(node, 1, y);
    return y;
}

/* ---- matrix_rank ----------------------------------------------------------------------------- */

br_tensor *br_linalg_matrix_rank(br_tensor *a, br_tensor *atol, br_tensor *rtol, bool hermitian)
{
    static const char op[] = "linalg_matrix_rank";
    BR_OP(op);
    if (!check(op, a, atol, rtol, hermitian))
        return NULL;
    br_scope *scope = br_no_grad_begin();
    br_tensor *s = hermitian ? br_abs(br__eigh(op, a, false, NULL)) : br__svdvals(op, a);
    br_tensor *limit = tolerance(op, a, s, atol, rtol);
    return br__composed(scope, limit ? br_sum_dim(br_gt(s, limit), BR_DIMS(-1), false) : NULL);
}
