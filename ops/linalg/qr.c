/* ops/linalg/qr.c - the QR decomposition. */
#include "ops/linalg/linalg_internal.h"
#include "tensor/min_max.h"

/* For a matrix with at least as many rows as columns, da = (dq + q (t + t^T)) r^-T, where t is the
 * lower triangle of r dr^T - dq^T q, with half of its diagonal (S. Walter, L. Lehmann, "Algorithmic
 * differentiation of linear algebra functions", 2012). A wide matrix is [x y]: q and the left part
 * of r are the decomposition of x, and the right part of r is q^T y. */
static void qr_backward(br_node *node, br_tensor *dq, br_tensor **dx)
{
    const br_qr_mode mode = *(const br_qr_mode *)br_params(node);
    br_tensor *q = br_saved(node, 0), *r = br_saved(node, 1), *dr = br_output_grad(node, 1);
    if (!q || !r)
        return;
    const int64_t m = r->sizes[r->ndim - 2], n = r->sizes[r->ndim - 1];
    if (mode == BR_QR_R || (mode == BR_QR_COMPLETE && m > n)) {
        br_fail(BR_ERROR_ARGUMENT, "linalg_qr",
                mode == BR_QR_R ? "has no gradient with BR_QR_R, which computes no q: use "
                                  "BR_QR_REDUCED"
                                : "has no gradient with BR_QR_COMPLETE for matrices with more rows "
                                  "than columns: use BR_QR_REDUCED");
        return;
    }
    br_tensor *right = NULL; /* the gradient of y */
    if (n > m) {
        br_tensor *r2 = br_narrow(r, -1, m, n - m);
        br_tensor *dr2 = dr ? br_narrow(dr, -1, m, n - m) : br_zeros_like(r2);
        dq = br__plus(dq, br_matmul(q, br_matmul(r2, br__mt(dr2))));
        dr = dr ? br__columns(dr, m) : NULL;
        right = br_matmul(q, dr2);
        r = br__columns(r, m);
    }
    br_tensor *s = br__plus(dr ? br_matmul(r, br__mt(dr)) : NULL,
                            dq ? br_neg(br_matmul(br__mt(dq), q)) : NULL);
    br_tensor *symmetric = br_add(br_tril(s, 0), br__mt(br_tril(s, -1)));
    br_tensor *left = br_linalg_solve_triangular(br__mt(r), br__plus(dq, br_matmul(q, symmetric)),
                                                 false, false, false);
    dx[0] = right ? br_cat(BR_INPUTS(left, right), -1) : left;
}

static const br_op qr_op = { "linalg_qr", qr_backward, false };

/* Returns the first `count` columns of Q from the result of BR_LINALG_QR. */
static br_tensor *q_of(const char *op, br_tensor *columns, const br_tensor *factors, int64_t count)
{
    br_linalg_work work = { .routine = BR_LINALG_QR_Q, .values = factors };
    const int batch = columns->ndim - 2;
    const int64_t n = columns->sizes[batch];
    int64_t sizes[BR_MAX_DIMS];
    br_tensor *q = br_clone(br__rows(columns, br__min(n, count)));
    br__matrix_sizes(columns, count - n, columns->sizes[batch + 1], sizes);
    if (count > n)
        q = br_cat(BR_INPUTS(q, br_new_zeros(columns, batch + 2, sizes, columns->dtype)), -2);
    return br__linalg_begin(op, q, NULL, &work) && br__linalg_run(op, &work) ? br_clone(br__mt(q))
                                                                             : NULL;
}

static br_tensor *factorize(const char *op, br_tensor *a, br_qr_mode mode, br_tensor **r)
{
    br_linalg_work work = { .routine = BR_LINALG_QR };
    br_tensor *columns = br__by_columns(a);
    if (!br__linalg_begin(op, columns, NULL, &work) || !br__linalg_run(op, &work))
        return NULL;
    const int64_t rows = mode == BR_QR_COMPLETE ? work.m : br__min(work.m, work.n);
    *r = br_triu(br__rows(br__mt(columns), rows), 0);
    if (mode == BR_QR_R)
        return br_new_zeros(a, BR_SHAPE(0), a->dtype);
    return q_of(op, columns, work.values, rows);
}

br_tensor *br_linalg_qr(br_tensor *a, br_qr_mode mode, br_tensor **r)
{
    static const char op[] = "linalg_qr";
    BR_OP(op);
    br_tensor *upper = NULL;
    if (r)
        *r = NULL;
    if (!br__matrices(op, "a", a))
        return NULL;
    if ((unsigned)mode > BR_QR_R)
        return br_fail(BR_ERROR_ARGUMENT, op,
                       "mode is %d, must be BR_QR_REDUCED, BR_QR_COMPLETE or BR_QR_R", (int)mode);
    br_scope *scope = br_no_grad_begin();
    br_tensor *q = br_scope_return(scope, factorize(op, a, mode, &upper));
    upper = br_scope_return(scope, q ? upper : NULL);
    br_scope_end(scope);
    br_node *node = br_record(&qr_op, q, BR_INPUTS(a), &mode, sizeof mode);
    if (node)
        br_record_output(node, upper);
    br_save(node, 0, q);
    br_save(node, 1, upper);
    if (r)
        *r = upper;
    return br_failed() ? NULL : q;
}

/* ---- householder_product --------------------------------------------------------------------- */

/* The product of all I - tau[i] v_i v_i^T is I - v t v^T, where the inverse of t is diag(1 / tau)
 * and the strictly upper triangle of v^T v (R. Schreiber, C. Van Loan, "A storage-efficient WY
 * representation for products of Householder transformations", 1989). Multiplying by diag(tau)
 * avoids to divide by tau, which may be 0. */
static br_tensor *householder_product(br_tensor *a, br_tensor *tau, int64_t n)
{
    const int64_t m = a->sizes[a->ndim - 2], k = tau->sizes[tau->ndim - 1];
    br_tensor *one = br__eye_like(a, m, br__max(n, k));
    br_tensor *v = br_add(br_tril(br__columns(a, k), -1), br__columns(one, k));
    br_tensor *vt = br__mt(v), *scale = br_unsqueeze(tau, -1);
    br_tensor *t = br_triu(br_mul(scale, br_matmul(vt, v)), 1);
    br_tensor *right =
        br_linalg_solve_triangular(t, br_mul(scale, br__columns(vt, n)), true, true, true);
    return br_sub(br__columns(one, n), br_matmul(v, right));
}

br_tensor *br_linalg_householder_product(br_tensor *a, br_tensor *tau)
{
    static const char op[] = "linalg_householder_product";
    BR_OP(op);
    if (!br__matrices(op, "a", a) || !br__compatible(op, "a", a, "tau", tau))
        return NULL;
    const int batch = a->ndim - 2;
    const int64_t m = a->sizes[batch], n = a->sizes[batch + 1];
    bool fits = m >= n && tau->ndim == batch + 1 && tau->sizes[batch] <= n;
    for (int i = 0; fits && i < batch; i++)
        fits = tau->sizes[i] == a->sizes[i];
    if (!fits)
        return br_fail(BR_ERROR_SHAPE, op,
                       "a %s and tau %s must be [*, m, n] and [*, k], m >= n >= k", br__shape(a),
                       br__shape(tau));
    br_scope *scope = br_scope_begin();
    return br__composed(scope, householder_product(a, tau, n));
}
