/* ops/linalg/lstsq.c - least squares. */
#include "ops/linalg/linalg_internal.h"
#include "tensor/min_max.h"

#include <math.h>

/* The solution is y b, where y is the pseudoinverse of a, and the residuals are the sums of
 * (a x - b)^2 over the rows; since x minimizes them, x counts as constant in their gradient. */
static void lstsq_backward(br_node *node, br_tensor *dx, br_tensor **gradients)
{
    br_tensor *a = br_saved(node, 0), *b = br_saved(node, 1), *x = br_saved(node, 2);
    const bool has_residuals = *(const bool *)br_params(node);
    br_tensor *dr = has_residuals ? br_output_grad(node, 1) : NULL, *da = NULL, *db = NULL;
    if (dx) {
        br_tensor *y = br_linalg_pinv(a, NULL, NULL, false);
        if (br_needs_input_grad(node, 0))
            da = br__pinv_gradient(a, y, br_matmul(dx, br__mt(b)));
        db = br_matmul(br__mt(y), dx);
    }
    if (dr) {
        br_tensor *difference = br_sub(br_matmul(a, x), b);
        br_tensor *ddifference = br_mul(difference, br_mul_scalar(br_unsqueeze(dr, -2), 2));
        da = br__plus(da, br_matmul(ddifference, br__mt(x)));
        db = br__plus(db, br_neg(ddifference));
    }
    gradients[0] = da;
    gradients[1] = db;
}

static const br_op lstsq_op = { "linalg_lstsq", lstsq_backward, false };

typedef struct results {
    br_tensor *x, *residuals, *rank, *values;
    bool has_residuals; /* otherwise they are an empty tensor */
} results;

/* Returns the rows of b stored by columns, followed by zeros up to `rows` rows. */
static br_tensor *with_rows(const char *op, br_tensor *b, int64_t rows)
{
    int64_t sizes[BR_MAX_DIMS];
    const int last = b->ndim - 1;
    br__matrix_sizes(b, b->sizes[last], rows, sizes);
    br_tensor *columns = br__linalg_zeros(op, b, b->ndim, sizes, b->dtype);
    br_copy_(br__columns(columns, b->sizes[last - 1]), br__mt(b));
    return columns;
}

static bool is_full(const br_tensor *rank, int64_t n)
{
    return !rank || br_item(br_all(br_eq_scalar((br_tensor *)rank, (double)n))) != 0;
}

/* Solves for matrices with the same batch. */
static bool least_squares(const char *op, br_tensor *a, br_tensor *b, br_linalg_work *work,
                          results *r)
{
    const int64_t m = a->sizes[a->ndim - 2], n = a->sizes[a->ndim - 1];
    br_tensor *columns = br__by_columns(a), *x = with_rows(op, b, br__max(m, n));
    if (!br__linalg_finite(op, "a", a) || !br__linalg_finite(op, "b", b) ||
        !br__linalg_begin(op, columns, x, work) || !br__linalg_run(op, work) ||
        !br__linalg_succeeded(op, a, work->info,
                              work->routine == BR_LINALG_GELS
                                  ? "has not full rank, which driver GELS needs: its "
                                    "factorization has a 0 in row"
                                  : "has singular values for which LAPACK's iteration did not "
                                    "converge, info"))
        return false;
    br_tensor *none = br_new_zeros(a, BR_SHAPE(0), a->dtype);
    r->x = br_clone(br__mt(br__columns(x, n)));
    r->values = work->values ? (br_tensor *)work->values : none;
    r->rank = work->rank ? (br_tensor *)work->rank : br_to(none, BR_I64);
    r->residuals = none;
    r->has_residuals = m > n && work->routine != BR_LINALG_GELSY && is_full(work->rank, n);
    if (r->has_residuals)
        r->residuals = br_sum_dim(br_square(br_narrow(x, -1, n, m - n)), BR_DIMS(-1), false);
    return !br_failed();
}

static bool solve(const char *op, br_tensor *a, br_tensor *b, br_linalg_work *work, results *r)
{
    br_scope *scope = br_no_grad_begin();
    const bool ok = least_squares(op, a, b, work, r);
    r->x = br_scope_return(scope, ok ? r->x : NULL);
    r->residuals = br_scope_return(scope, ok ? r->residuals : NULL);
    r->rank = br_scope_return(scope, ok ? r->rank : NULL);
    r->values = br_scope_return(scope, ok ? r->values : NULL);
    br_scope_end(scope);
    br_node *node =
        br_record(&lstsq_op, r->x, BR_INPUTS(a, b), &r->has_residuals, sizeof r->has_residuals);
    if (node)
        br_record_output(node, r->residuals);
    br_save(node, 0, a);
    br_save(node, 1, b);
    br_save(node, 2, r->x);
    return !br_failed();
}

static bool check_arguments(const char *op, const br_tensor *a, const br_tensor *b, bool is_vector,
                            br_lstsq_driver driver)
{
    if ((unsigned)driver > BR_LSTSQ_GELSS)
        return br_fail(BR_ERROR_ARGUMENT, op,
                       "driver is %d, must be BR_LSTSQ_GELSY, BR_LSTSQ_GELS, BR_LSTSQ_GELSD or "
                       "BR_LSTSQ_GELSS",
                       (int)driver);
    const int rows = b->ndim - (is_vector ? 1 : 2);
    if (rows < 0 || b->sizes[rows] != a->sizes[a->ndim - 2])
        br_fail(BR_ERROR_SHAPE, op, "b %s must be [*, m, k] or [*, m] for a %s", br__shape(b),
                br__shape(a));
    return !br_failed();
}

br_tensor *br_linalg_lstsq(br_tensor *a, br_tensor *b, double rcond, br_lstsq_driver driver,
                           br_tensor **residuals, br_tensor **rank, br_tensor **singular_values)
{
    static const char op[] = "linalg_lstsq";
    static const br_linalg_routine routines[] = { BR_LINALG_GELSY, BR_LINALG_GELS, BR_LINALG_GELSD,
                                                  BR_LINALG_GELSS };
    br_tensor **out[] = { residuals, rank, singular_values };
    for (int i = 0; i < 3; i++)
        if (out[i])
            *out[i] = NULL;
    BR_OP(op);
    if (!br__matrices(op, "a", a) || !br__compatible(op, "a", a, "b", b))
        return NULL;
    const bool is_vector = br__is_vector(a, b);
    if (!check_arguments(op, a, b, is_vector, driver))
        return NULL;
    br_scope *scope = br_scope_begin();
    results r = { NULL };
    if (is_vector)
        b = br_unsqueeze(b, -1);
    bool ok = b && br__join_batches(op, &a, &b);
    if (ok) {
        br_linalg_work work = { .routine = routines[driver],
                                .rcond = isnan(rcond) ? br__linalg_rtol(a) : rcond };
        ok = solve(op, a, b, &work, &r);
    }
    br_tensor *all[] = { r.residuals, r.rank, r.values };
    for (int i = 0; i < 3; i++)
        if (out[i] && ok)
            *out[i] = br_scope_return(scope, all[i]);
    br_tensor *x = ok && is_vector ? br_squeeze(r.x, -1) : r.x;
    return br__composed(scope, ok ? x : NULL);
}
