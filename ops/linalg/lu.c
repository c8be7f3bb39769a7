/* ops/linalg/lu.c - the LU factorization with partial pivoting, and systems that it solves. */
#include "ops/linalg/linalg_internal.h"
#include "tensor/min_max.h"

#include <inttypes.h>

/* ---- Permutations ---------------------------------------------------------------------------- */

/* Applies the exchanges of rows to 0 .. m - 1. Returns false if a pivot is not a row. */
static bool exchange(int64_t *rows, int64_t m, const int64_t *pivots, int64_t k)
{
    for (int64_t i = 0; i < m; i++)
        rows[i] = i;
    for (int64_t i = 0; i < k; i++) {
        const int64_t other = pivots[i] - 1;
        if (other < 0 || other >= m)
            return false;
        const int64_t row = rows[i];
        rows[i] = rows[other];
        rows[other] = row;
    }
    return true;
}

/* Returns the permutation matrices p [*, m, m] of pivots [*, k]: row p[i] of a, of m rows, is row i
 * of l u. */
static br_tensor *permutation(const char *op, br_tensor *pivots, int64_t m, const br_tensor *like)
{
    int64_t sizes[BR_MAX_DIMS];
    br_tensor *wide = br_to(pivots, BR_I64);
    const int64_t *host = wide && wide->numel > 0 ? br__host_i64(wide) : NULL;
    if (br_failed())
        return NULL;
    const int last = wide->ndim - 1;
    const int64_t k = wide->sizes[last];
    int64_t batch = 1;
    for (int i = 0; i < last; i++)
        batch *= sizes[i] = wide->sizes[i];
    sizes[last] = m;
    int64_t *rows = br_malloc((size_t)(batch * m) * sizeof *rows);
    if (!rows)
        return NULL;
    for (int64_t i = 0; i < batch; i++)
        if (!exchange(rows + i * m, m, host + i * k, k)) {
            br_free(rows);
            return br_fail(BR_ERROR_ARGUMENT, op,
                           "pivots of matrix %" PRId64 " must be in 1 .. %" PRId64, i, m);
        }
    br_tensor *index = br_to_device(br_from_i64(last + 1, sizes, rows), br_device_of(like));
    br_free(rows);
    br_tensor *row = br_new_arange(index, 0, (double)m, 1, BR_I64);
    return br_to(br_eq(br_unsqueeze(row, -1), br_unsqueeze(index, -2)), like->dtype);
}

/* ---- The factorization ----------------------------------------------------------------------- */

br_tensor *br__lu_by_columns(const char *op, br_tensor *a, br_linalg_work *work)
{
    *work = (br_linalg_work){ .routine = BR_LINALG_LU };
    br_tensor *columns = br__by_columns(a);
    return br__linalg_begin(op, columns, NULL, work) && br__linalg_run(op, work) ? columns : NULL;
}

br_tensor *br__is_singular(const char *op, br_tensor *a)
{
    br_linalg_work work;
    return br__lu_by_columns(op, a, &work) ? br_ne_scalar((br_tensor *)work.info, 0) : NULL;
}

/* ---- lu_factor ------------------------------------------------------------------------------- */

/* Returns b / u for an upper triangle, and l^-T b for the lower triangle with ones. */
static br_tensor *divided(br_tensor *b, br_tensor *u)
{
    return br_linalg_solve_triangular(br__mt(u), b, false, false, false);
}

static br_tensor *solved(br_tensor *l, br_tensor *b)
{
    return br_linalg_solve_triangular(br__mt(l), b, true, true, true);
}

/* For square matrices, da = p l^-T (lower(l^T dl) + upper(du u^T)) u^-T, where lower() has no
 * diagonal. The rows of a tall l below the square are rows of a / u, and the columns of a wide u
 * right of the square are columns of l^-1 a (F. de Hoog, R. Anderssen, M. Lukas, "Differentiation
 * of matrix functionals using triangular factorization", 2011). */
static void lu_factor_backward(br_node *node, br_tensor *dlu, br_tensor **dx)
{
    br_tensor *lu = br_saved(node, 0), *pivots = br_saved(node, 1), *more = NULL;
    if (!lu || !dlu)
        return;
    const int64_t m = lu->sizes[lu->ndim - 2], n = lu->sizes[lu->ndim - 1], k = br__min(m, n);
    br_tensor *square = br__rows(br__columns(lu, k), k);
    br_tensor *l = br_add(br_tril(square, -1), br__identity_like(square));
    br_tensor *u = br_triu(square, 0);
    br_tensor *d = br__rows(br__columns(dlu, k), k);
    br_tensor *dl = br_tril(d, -1), *du = br_triu(d, 0);
    if (n > k) {
        more = solved(l, br_narrow(dlu, -1, k, n - k));
        dl = br_sub(dl, br_matmul(more, br__mt(br_narrow(lu, -1, k, n - k))));
    }
    if (m > k) {
        more = divided(br_narrow(dlu, -2, k, m - k), u);
        du = br_sub(du, br_matmul(br__mt(br_narrow(lu, -2, k, m - k)), more));
    }
    br_tensor *inner =
        br_add(br_tril(br_matmul(br__mt(l), dl), -1), br_triu(br_matmul(du, br__mt(u)), 0));
    br_tensor *da = divided(solved(l, inner), u);
    if (more)
        da = br_cat(BR_INPUTS(da, more), n > k ? -1 : -2);
    dx[0] = br_matmul(permutation("linalg_lu_factor", pivots, m, lu), da);
}

static const br_op lu_factor_op = { "linalg_lu_factor", lu_factor_backward, false };

/* Returns the factors of a, which may be singular unless `is_regular`. */
static br_tensor *factorize(const char *op, br_tensor *a, bool is_regular, br_tensor **pivots)
{
    br_linalg_work work;
    br_scope *scope = br_no_grad_begin();
    br_tensor *columns = br__lu_by_columns(op, a, &work);
    const bool ok =
        columns &&
        (!is_regular || br__linalg_succeeded(op, a, work.info,
                                             "is singular: U has a 0 on its diagonal, so that "
                                             "br_linalg_lu_solve() would divide by 0, in row"));
    br_tensor *lu = br_scope_return(scope, ok ? br_clone(br__mt(columns)) : NULL);
    *pivots = br_scope_return(scope, ok ? (br_tensor *)work.pivots : NULL);
    br_scope_end(scope);
    br_node *node = br_record(&lu_factor_op, lu, BR_INPUTS(a), NULL, 0);
    br_save(node, 0, lu);
    br_save(node, 1, *pivots);
    return br_failed() ? NULL : lu;
}

br_tensor *br_linalg_lu_factor(br_tensor *a, br_tensor **pivots)
{
    BR_OP("linalg_lu_factor");
    br_tensor *p = NULL;
    if (pivots)
        *pivots = NULL;
    if (!br__matrices("linalg_lu_factor", "a", a))
        return NULL;
    br_tensor *lu = factorize("linalg_lu_factor", a, true, &p);
    if (pivots)
        *pivots = lu ? p : NULL;
    return lu;
}

/* ---- lu -------------------------------------------------------------------------------------- */

br_tensor *br_linalg_lu(br_tensor *a, br_tensor **l, br_tensor **u)
{
    static const char op[] = "linalg_lu";
    BR_OP(op);
    if (l)
        *l = NULL;
    if (u)
        *u = NULL;
    if (!br__matrices(op, "a", a))
        return NULL;
    br_scope *scope = br_scope_begin();
    const int64_t m = a->sizes[a->ndim - 2], k = br__min(m, a->sizes[a->ndim - 1]);
    br_tensor *pivots, *lu = factorize(op, a, false, &pivots);
    br_tensor *one = br__eye_like(a, m, k);
    br_tensor *p = lu ? permutation(op, pivots, m, lu) : NULL;
    br_tensor *lower = br_add(br_tril(br__columns(lu, k), -1), one);
    br_tensor *upper = br_triu(br__rows(lu, k), 0);
    if (l)
        *l = br_scope_return(scope, lower);
    if (u)
        *u = br_scope_return(scope, upper);
    return br__composed(scope, p);
}

/* ---- lu_solve -------------------------------------------------------------------------------- */

/* Returns a^-1 b, or a^-T b if `adjoint`. */
static br_tensor *solve(br_tensor *lu, br_tensor *p, br_tensor *b, bool adjoint)
{
    if (!adjoint) {
        br_tensor *y = br_linalg_solve_triangular(lu, br_matmul(br__mt(p), b), false, true, true);
        return br_linalg_solve_triangular(lu, y, true, true, false);
    }
    br_tensor *y = br_linalg_solve_triangular(br__mt(lu), b, false, true, false);
    return br_matmul(p, br_linalg_solve_triangular(br__mt(lu), y, true, true, true));
}

br_tensor *br_linalg_lu_solve(br_tensor *lu, br_tensor *pivots, br_tensor *b, bool left,
                              bool adjoint)
{
    static const char op[] = "linalg_lu_solve";
    BR_OP(op);
    if (!br__square(op, "lu", lu) || !br__compatible(op, "lu", lu, "b", b) ||
        !br__required(op, "pivots", pivots))
        return NULL;
    const int64_t n = lu->sizes[lu->ndim - 1];
    if (!br__is_kind(pivots->dtype, BR_KIND_INTEGER))
        return br_fail(
            BR_ERROR_DTYPE, op,
            "pivots has dtype %s, must be i32, as br_linalg_lu_factor() returns them, or "
            "another integer dtype",
            br_dtype_name(pivots->dtype));
    if (pivots->ndim != lu->ndim - 1 ||
        memcmp(pivots->sizes, lu->sizes, (size_t)pivots->ndim * sizeof *lu->sizes) != 0)
        return br_fail(BR_ERROR_SHAPE, op,
                       "pivots %s must have the shape of lu %s without the "
                       "last dimension",
                       br__shape(pivots), br__shape(lu));
    if (b->ndim < 2 || b->sizes[b->ndim - (left ? 2 : 1)] != n)
        return br_fail(BR_ERROR_SHAPE, op, "b %s must be %s for lu %s", br__shape(b),
                       left ? "[*, n, k]" : "[*, k, n]", br__shape(lu));
    br_scope *scope = br_scope_begin();
    br_tensor *p = permutation(op, pivots, n, lu);
    br_tensor *x = left ? solve(lu, p, b, adjoint) : br__mt(solve(lu, p, br__mt(b), !adjoint));
    return br__composed(scope, left ? x : br_contiguous(x));
}
