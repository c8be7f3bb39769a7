/* ops/linalg/det.c - determinants, from the LU factorization. */
#include "ops/linalg/linalg_internal.h"

#include <math.h>

/* Returns the diagonal of U, and in *sign the sign of the permutation: each exchange of two rows
 * changes it. */
static br_tensor *diagonal_of_u(const char *op, br_tensor *a, br_tensor **sign)
{
    br_linalg_work work;
    br_tensor *factors = br__lu_by_columns(op, a, &work);
    if (!factors)
        return NULL;
    br_tensor *pivots = br_to((br_tensor *)work.pivots, BR_I64);
    br_tensor *rows = br_new_arange(pivots, 1, (double)work.n + 1, 1, BR_I64);
    br_tensor *exchanged = br_to(br_ne(pivots, rows), a->dtype);
    *sign = br_prod_dim(br_rsub_scalar(br_mul_scalar(exchanged, 2), 1), -1, false);
    return br_diagonal(factors, 0, -2, -1);
}

/* Returns a^-T times a number for each matrix. */
static br_tensor *scaled_inverse(br_tensor *a, br_tensor *factor)
{
    return br_mul(br__mt(br_linalg_inv(a)), br__per_matrix(factor));
}

/* ---- det ------------------------------------------------------------------------------------- */

/* Returns whether each matrix has a number on the diagonal of U that may be a rounded 0. */
static br_tensor *nearly_singular(br_tensor *a, br_tensor *u)
{
    br_tensor *size = br_abs(u);
    br_tensor *limit = br_mul_scalar(br_amax(size, BR_DIMS(-1), false), br__linalg_rtol(a));
    return br_le(br_amin(size, BR_DIMS(-1), false), limit);
}

/* Returns the transposed adjugates of matrices u diag(s) vh: det(u) det(vh) u diag(p) vh, where
 * p[i] is the product of the other singular values (N. J. Higham, "What is the adjugate of a
 * matrix?", 2020). They have no inverse in them. The signs are constant. */
static br_tensor *cofactors(br_tensor *a)
{
    br_tensor *s, *vh, *u = br_linalg_svd(a, false, &s, &vh);
    br_scope *scope = br_no_grad_begin();
    br_tensor *sign = br_scope_return(scope, br_mul(br_linalg_det(u), br_linalg_det(vh)));
    br_tensor *self = br_scope_return(scope, br_gt_scalar(br__identity_like(a), 0));
    br_scope_end(scope);
    br_tensor *others = br_masked_fill(br_expand_as(br_unsqueeze(s, -2), a), self, 1);
    br_tensor *factors = br_mul(br_prod_dim(others, -1, false), br_unsqueeze(sign, -1));
    return br_matmul(br_mul(u, br_unsqueeze(factors, -2)), vh);
}

/* Returns diagonal matrices with the singular values 1, 2, .. in place of those of a. */
static br_tensor *unlike_values(br_tensor *a)
{
    const int64_t n = a->sizes[a->ndim - 1];
    return br_diag_embed(br_new_arange(a, 1, (double)n + 1, 1, a->dtype), 0, -2, -1);
}

/* da = dy det(a) a^-T (Jacobi's formula), computed from the cofactors of singular matrices. Each
 * formula gets other matrices where it does not count, so that no gradient of it is NaN. */
static void det_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    br_tensor *a = br_saved(node, 0), *singular = br_saved(node, 2);
    br_tensor *factor = br_mul(dy, br_saved(node, 1));
    if (!singular || br_item(br_any(singular)) == 0) {
        dx[0] = scaled_inverse(a, factor);
        return;
    }
    br_tensor *places = br__per_matrix(singular);
    br_tensor *regular = br_where(places, br__identity_like(a), a);
    br_tensor *others = br_where(places, a, unlike_values(a));
    dx[0] = br_where(places, br_mul(cofactors(others), br__per_matrix(dy)),
                     scaled_inverse(regular, factor));
}

br_tensor *br_linalg_det(br_tensor *a)
{
    static const br_op det_op = { "linalg_det", det_backward, false };
    BR_OP("linalg_det");
    if (!br__square("linalg_det", "a", a))
        return NULL;
    const bool has_gradient = a->numel > 0 && br__needs_gradient(a);
    br_scope *scope = br_no_grad_begin();
    br_tensor *sign, *u = diagonal_of_u("linalg_det", a, &sign);
    br_tensor *y = br_scope_return(scope, u ? br_mul(br_prod_dim(u, -1, false), sign) : NULL);
    br_tensor *singular = br_scope_return(scope, y && has_gradient ? nearly_singular(a, u) : NULL);
    br_scope_end(scope);
    br_node *node = br_record(&det_op, y, BR_INPUTS(a), NULL, 0);
    br_save(node, 0, a);
    br_save(node, 1, y);
    br_save(node, 2, singular);
    return y;
}

/* ---- slogdet, logdet ------------------------------------------------------------------------- */

/* da = dy a^-T; the sign is constant. */
static void slogdet_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    if (dy)
        dx[0] = scaled_inverse(br_saved(node, 0), dy);
}

static br_tensor *log_of_det(const char *op, br_tensor *a, br_tensor **sign)
{
    static const br_op slogdet_op = { "linalg_slogdet", slogdet_backward, false };
    br_scope *scope = br_no_grad_begin();
    br_tensor *s, *u = diagonal_of_u(op, a, &s);
    *sign = br_scope_return(scope, u ? br_mul(s, br_prod_dim(br_sign(u), -1, false)) : NULL);
    br_tensor *y =
        br_scope_return(scope, u ? br_sum_dim(br_log(br_abs(u)), BR_DIMS(-1), false) : NULL);
    br_scope_end(scope);
    br_node *node = br_record(&slogdet_op, y, BR_INPUTS(a), NULL, 0);
    br_save(node, 0, a);
    if (node)
        br_record_output(node, *sign);
    return y;
}

br_tensor *br_linalg_slogdet(br_tensor *a, br_tensor **sign)
{
    BR_OP("linalg_slogdet");
    if (sign)
        *sign = NULL;
    br_tensor *s;
    if (!br__square("linalg_slogdet", "a", a))
        return NULL;
    br_tensor *y = log_of_det("linalg_slogdet", a, &s);
    if (sign)
        *sign = y ? s : NULL;
    return y;
}

br_tensor *br_logdet(br_tensor *a)
{
    BR_OP("logdet");
    if (!br__square("logdet", "a", a))
        return NULL;
    br_scope *scope = br_scope_begin();
    br_tensor *sign, *y = log_of_det("logdet", a, &sign);
    return br__composed(scope, y ? br_masked_fill(y, br_lt_scalar(sign, 0), NAN) : NULL);
}
