/* ops/linalg/cholesky.c - the Cholesky factorization, and systems that it solves. */
#include "ops/linalg/linalg_internal.h"

/* da = L^-T s L^-1, where s is symmetric: the lower triangle of L^T dL, and half of its diagonal
 * (I. Murray, "Differentiation of the Cholesky decomposition", 2016), times 1/2 for each of the two
 * triangles of a. */
static void cholesky_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    br_tensor *l = br_saved(node, 0);
    br_tensor *lower = br_tril(br_matmul(br__mt(l), dy), 0);
    br_tensor *s = br_mul_scalar(br_add(lower, br__mt(br_tril(lower, -1))), 0.5);
    br_tensor *left = br_linalg_solve_triangular(br__mt(l), s, true, true, false);
    dx[0] = br_linalg_solve_triangular(l, left, false, false, false);
}

static const br_op cholesky_op = { "linalg_cholesky", cholesky_backward, false };

static br_tensor *lower_factor(br_tensor *a)
{
    static const char op[] = "linalg_cholesky";
    br_linalg_work work = { .routine = BR_LINALG_CHOLESKY };
    br_scope *scope = br_no_grad_begin();
    br_tensor *columns = br__by_columns(a);
    const bool ok =
        br__linalg_begin(op, columns, NULL, &work) && br__linalg_run(op, &work) &&
        br__linalg_succeeded(op, a, work.info,
                             "is not positive definite: not its leading minor of order");
    br_tensor *l = br_scope_return(scope, ok ? br_tril(br__mt(columns), 0) : NULL);
    br_scope_end(scope);
    br_save(br_record(&cholesky_op, l, BR_INPUTS(a), NULL, 0), 0, l);
    return l;
}

br_tensor *br_linalg_cholesky(br_tensor *a, bool upper)
{
    BR_OP("linalg_cholesky");
    if (!br__square("linalg_cholesky", "a", a))
        return NULL;
    br_scope *scope = br_scope_begin();
    return br__composed(scope,
                        upper ? br_contiguous(br__mt(lower_factor(br__mt(a)))) : lower_factor(a));
}

br_tensor *br_cholesky_solve(br_tensor *b, br_tensor *factor, bool upper)
{
    static const char op[] = "cholesky_solve";
    BR_OP(op);
    if (!br__square(op, "factor", factor) || !br__compatible(op, "b", b, "factor", factor))
        return NULL;
    if (b->ndim < 2 || b->sizes[b->ndim - 2] != factor->sizes[factor->ndim - 1])
        return br_fail(BR_ERROR_SHAPE, op, "b %s must be [*, n, k] for the factor %s", br__shape(b),
                       br__shape(factor));
    br_scope *scope = br_scope_begin();
    br_tensor *l = upper ? br__mt(factor) : factor;
    br_tensor *y = br_linalg_solve_triangular(l, b, false, true, false);
    return br__composed(scope, br_linalg_solve_triangular(br__mt(l), y, true, true, false));
}
