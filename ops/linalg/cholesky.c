/* ops/linalg/cholesky.c - the Cholesky factorization, systems that it solves, and inverses. */
#include "ops/all_elements.h"
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

/* Returns the factor. Unless *info is wanted, matrices that are not positive definite are an
 * error. */
static br_tensor *lower_factor(const char *op, br_tensor *a, bool check_errors, br_tensor **info)
{
    br_linalg_work work = { .routine = BR_LINALG_CHOLESKY };
    br_scope *scope = br_no_grad_begin();
    br_tensor *columns = br__by_columns(a);
    const bool ok =
        br__linalg_begin(op, columns, NULL, &work) && br__linalg_run(op, &work) &&
        (!check_errors ||
         br__linalg_succeeded(op, a, work.info,
                              "is not positive definite: not its leading minor of order"));
    br_tensor *l = br_scope_return(scope, ok ? br_tril(br__mt(columns), 0) : NULL);
    if (info)
        *info = br_scope_return(scope, ok ? br_to((br_tensor *)work.info, BR_I32) : NULL);
    br_scope_end(scope);
    br_save(br_record(&cholesky_op, l, BR_INPUTS(a), NULL, 0), 0, l);
    return l;
}

static br_tensor *factor(const char *op, br_tensor *a, bool upper, bool check_errors,
                         br_tensor **info)
{
    BR_OP(op);
    if (info)
        *info = NULL;
    if (!br__square(op, "a", a))
        return NULL;
    br_scope *scope = br_scope_begin();
    br_tensor *l = lower_factor(op, upper ? br__mt(a) : a, check_errors, info);
    if (info)
        br_scope_return(scope, *info);
    return br__composed(scope, upper && l ? br_contiguous(br__mt(l)) : l);
}

br_tensor *br_linalg_cholesky(br_tensor *a, bool upper)
{
    return factor("linalg_cholesky", a, upper, true, NULL);
}

br_tensor *br_linalg_cholesky_ex(br_tensor *a, bool upper, bool check_errors, br_tensor **info)
{
    return factor("linalg_cholesky_ex", a, upper, check_errors, info);
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

br_tensor *br_cholesky_inverse(br_tensor *factor, bool upper)
{
    static const char op[] = "cholesky_inverse";
    BR_OP(op);
    if (!br__square(op, "factor", factor))
        return NULL;
    br_scope *scope = br_scope_begin(), *unrecorded = br_no_grad_begin();
    if (br__any_true(br_eq_scalar(br_diagonal(factor, 0, -2, -1), 0)))
        br_fail(BR_ERROR_ARGUMENT, op,
                "factor %s has a 0 on its diagonal: the matrix has no inverse", br__shape(factor));
    br_scope_end(unrecorded);
    return br__composed(scope, br_cholesky_solve(br__identity_like(factor), factor, upper));
}
