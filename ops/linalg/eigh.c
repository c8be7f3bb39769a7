/* ops/linalg/eigh.c - eigenvalues and eigenvectors of symmetric matrices. */
#include "ops/linalg/linalg_internal.h"

/* da = v (diag(dl) + s) v^T, s[i][j] = t[i][j] / (l[j] - l[i]), where t is the skew-symmetric part
 * of v^T dv (M. B. Giles, "An extended collection of matrix derivative results for forward and
 * reverse mode algorithmic differentiation", 2008). */
static void eigh_backward(br_node *node, br_tensor *dl, br_tensor **dx)
{
    br_tensor *l = br_saved(node, 0), *v = br_saved(node, 1), *dv = br_output_grad(node, 1);
    if (!dv) {
        dx[0] = br_matmul(br_mul(v, br_unsqueeze(dl, -2)), br__mt(v));
        return;
    }
    br_tensor *gaps = br_sub(br_unsqueeze(l, -2), br_unsqueeze(l, -1));
    br_tensor *t = br_mul_scalar(br__skew(br_matmul(br__mt(v), dv)), 0.5);
    br_tensor *s = br_div(t, br_add(gaps, br__identity_like(v)));
    if (dl)
        s = br_add(s, br_diag_embed(dl, 0, -2, -1));
    dx[0] = br_matmul(v, br_matmul(s, br__mt(v)));
}

static const br_op eigh_op = { "linalg_eigh", eigh_backward, false };

/* Returns the eigenvalues, and the eigenvectors in *vectors if there are to be any. */
static br_tensor *eigenvalues(const char *op, br_tensor *a, bool upper, bool has_vectors,
                              br_tensor **vectors)
{
    br_linalg_work work = { .routine = BR_LINALG_EIGEN, .upper = upper, .vectors = has_vectors };
    br_tensor *columns = br__by_columns(upper ? br_triu(a, 0) : br_tril(a, 0));
    if (!br__linalg_finite(op, upper ? "the upper triangle of a" : "the lower triangle of a",
                           columns) ||
        !br__linalg_begin(op, columns, NULL, &work) || !br__linalg_run(op, &work) ||
        !br__linalg_succeeded(
            op, a, work.info,
            "has eigenvalues for which LAPACK's iteration did not converge, info"))
        return NULL;
    if (has_vectors)
        *vectors = br_clone(br__mt(columns));
    return (br_tensor *)work.values;
}

/* Computes and records eigenvalues and, if there are to be any, eigenvectors. */
static br_tensor *decompose(const char *op, br_tensor *a, bool upper, bool has_vectors,
                            br_tensor **vectors)
{
    br_scope *scope = br_no_grad_begin();
    br_tensor *v = NULL;
    br_tensor *l = br_scope_return(scope, eigenvalues(op, a, upper, has_vectors, &v));
    v = br_scope_return(scope, l ? v : NULL);
    br_scope_end(scope);
    br_node *node = has_vectors ? br_record(&eigh_op, l, BR_INPUTS(a), NULL, 0) : NULL;
    if (node)
        br_record_output(node, v);
    br_save(node, 0, l);
    br_save(node, 1, v);
    *vectors = v;
    return br_failed() ? NULL : l;
}

br_tensor *br__eigh(const char *op, br_tensor *a, bool upper, br_tensor **vectors)
{
    br_scope *scope = br_scope_begin();
    br_tensor *v;
    const bool has_vectors = vectors || br__needs_gradient(a);
    br_tensor *l = decompose(op, a, upper, has_vectors, &v);
    if (vectors)
        *vectors = br_scope_return(scope, l ? v : NULL);
    return br__composed(scope, l);
}

br_tensor *br_linalg_eigh(br_tensor *a, bool upper, br_tensor **vectors)
{
    static const char op[] = "linalg_eigh";
    BR_OP(op);
    if (vectors)
        *vectors = NULL;
    return br__square(op, "a", a) ? br__eigh(op, a, upper, vectors) : NULL;
}

br_tensor *br_linalg_eigvalsh(br_tensor *a, bool upper)
{
    static const char op[] = "linalg_eigvalsh";
    BR_OP(op);
    return br__square(op, "a", a) ? br__eigh(op, a, upper, NULL) : NULL;
}
