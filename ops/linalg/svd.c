/* ops/linalg/svd.c - the singular value decomposition. */
#include "ops/linalg/linalg_internal.h"
#include "tensor/min_max.h"

/* Returns (x - x^T) / e, e[i][j] = s[j]^2 - s[i]^2. */
static br_tensor *by_gaps(br_tensor *x, br_tensor *s)
{
    br_tensor *row = br_unsqueeze(s, -2), *column = br_unsqueeze(s, -1);
    br_tensor *gaps = br_mul(br_sub(row, column), br_add(row, column));
    return br_div(br__skew(x), br_add(gaps, br__identity_like(x)));
}

/* The gradient of a has a part in the space of the singular vectors, u t vh, and parts outside of
 * it if a is tall or wide (J. Townsend, "Differentiating the singular value decomposition",
 * 2016). */
static void svd_backward(br_node *node, br_tensor *du, br_tensor **dx)
{
    br_tensor *u = br_saved(node, 0), *s = br_saved(node, 1), *vh = br_saved(node, 2);
    br_tensor *ds = br_output_grad(node, 1), *dvh = br_output_grad(node, 2);
    if (!u || !s || !vh)
        return;
    const int64_t k = s->sizes[s->ndim - 1];
    const bool is_tall = u->sizes[u->ndim - 2] > k, is_wide = vh->sizes[vh->ndim - 1] > k;
    u = br__columns(u, k);
    vh = br__rows(vh, k);
    br_tensor *row = br_unsqueeze(s, -2), *column = br_unsqueeze(s, -1);
    if (!du && !dvh) {
        dx[0] = br_matmul(br_mul(u, br_unsqueeze(ds, -2)), vh);
        return;
    }
    br_tensor *t = ds ? br_diag_embed(ds, 0, -2, -1) : NULL, *outside = NULL;
    if (du) {
        du = br__columns(du, k);
        br_tensor *product = br_matmul(br__mt(u), du);
        t = br__plus(t, br_mul(by_gaps(product, s), row));
        if (is_tall)
            outside = br_matmul(br_div(br_sub(du, br_matmul(u, product)), row), vh);
    }
    if (dvh) {
        dvh = br__rows(dvh, k);
        br_tensor *product = br_matmul(dvh, br__mt(vh));
        t = br__plus(t, br_mul(by_gaps(br__mt(product), s), column));
        if (is_wide)
            outside = br_matmul(u, br_div(br_sub(dvh, br_matmul(product, vh)), column));
    }
    dx[0] = br__plus(br_matmul(u, br_matmul(t, vh)), outside);
}

static const br_op svd_op = { "linalg_svd", svd_backward, false };

/* Returns memory for singular vectors of a, [*, n, m]: the identity, which is the result for empty
 * matrices. */
static br_tensor *vectors_of(br_tensor *a, int64_t n, int64_t m)
{
    int64_t sizes[BR_MAX_DIMS];
    br__matrix_sizes(a, n, m, sizes);
    return br_clone(br_expand(br__eye_like(a, n, m), a->ndim, sizes));
}

static bool decompose(const char *op, br_tensor *a, bool full, bool has_vectors, br_singular *p)
{
    br_linalg_work work = { .routine = BR_LINALG_SVD };
    br_tensor *columns = br__by_columns(a), *u = NULL, *vt = NULL;
    if (!br__linalg_finite(op, "a", a) || !br__linalg_begin(op, columns, NULL, &work))
        return false;
    const int64_t k = br__min(work.m, work.n);
    if (has_vectors) {
        work.u = u = vectors_of(a, full ? work.m : k, work.m);
        work.vt = vt = vectors_of(a, work.n, full ? work.n : k);
    }
    if (br_failed() || !br__linalg_run(op, &work) ||
        !br__linalg_succeeded(op, a, work.info,
                              "has singular values for which LAPACK's iteration did not converge, "
                              "info"))
        return false;
    p->s = (br_tensor *)work.values;
    p->u = u ? br_clone(br__mt(u)) : NULL;
    p->vh = vt ? br_clone(br__mt(vt)) : NULL;
    return !br_failed();
}

bool br__svd(const char *op, br_tensor *a, bool full, bool has_vectors, br_singular *p)
{
    *p = (br_singular){ NULL };
    br_scope *scope = br_no_grad_begin();
    const bool ok = decompose(op, a, full, has_vectors, p);
    p->u = br_scope_return(scope, ok ? p->u : NULL);
    p->s = br_scope_return(scope, ok ? p->s : NULL);
    p->vh = br_scope_return(scope, ok ? p->vh : NULL);
    br_scope_end(scope);
    br_node *node = has_vectors ? br_record(&svd_op, p->u, BR_INPUTS(a), NULL, 0) : NULL;
    if (node) {
        br_record_output(node, p->s);
        br_record_output(node, p->vh);
    }
    br_save(node, 0, p->u);
    br_save(node, 1, p->s);
    br_save(node, 2, p->vh);
    return !br_failed();
}

br_tensor *br_linalg_svd(br_tensor *a, bool full_matrices, br_tensor **s, br_tensor **vh)
{
    BR_OP("linalg_svd");
    br_singular p = { NULL };
    const bool ok =
        br__matrices("linalg_svd", "a", a) && br__svd("linalg_svd", a, full_matrices, true, &p);
    if (s)
        *s = ok ? p.s : NULL;
    if (vh)
        *vh = ok ? p.vh : NULL;
    return ok ? p.u : NULL;
}

br_tensor *br__svdvals(const char *op, br_tensor *a)
{
    br_scope *scope = br_scope_begin();
    br_singular p;
    return br__composed(scope, br__svd(op, a, false, br__needs_gradient(a), &p) ? p.s : NULL);
}

br_tensor *br_linalg_svdvals(br_tensor *a)
{
    static const char op[] = "linalg_svdvals";
    BR_OP(op);
    return br__matrices(op, "a", a) ? br__svdvals(op, a) : NULL;
}
