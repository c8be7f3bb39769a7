/* ops/linalg/solve.c - systems of linear equations, and inverses.
 *
 * The gradients are those of M. B. Giles, "An extended collection of matrix derivative results for
 * forward and reverse mode algorithmic differentiation" (2008), written with operations, so that
 * they have gradients themselves. */
#include "ops/linalg/linalg_internal.h"
#include "tensor/min_max.h"

#include <string.h>

static const char singular[] =
    "is singular: its LU factorization has a 0 on the diagonal of U in row";

/* ---- Batches --------------------------------------------------------------------------------- */

bool br__join_batches(const char *op, br_tensor **a, br_tensor **b)
{
    int64_t sizes[2][BR_MAX_DIMS];
    br_tensor *t[2] = { *a, *b };
    const int ndim = br__max(t[0]->ndim, t[1]->ndim);
    for (int i = 0; i < ndim - 2; i++) {
        const int in_a = i - (ndim - t[0]->ndim), in_b = i - (ndim - t[1]->ndim);
        const int64_t p = in_a < 0 ? 1 : t[0]->sizes[in_a], q = in_b < 0 ? 1 : t[1]->sizes[in_b];
        if (p != q && p != 1 && q != 1)
            return br_fail(BR_ERROR_SHAPE, op, "the batches of a %s and b %s do not broadcast",
                           br__shape(t[0]), br__shape(t[1]));
        sizes[0][i] = sizes[1][i] = p == 1 ? q : p;
    }
    for (int i = 0; i < 2; i++) {
        sizes[i][ndim - 2] = t[i]->sizes[t[i]->ndim - 2];
        sizes[i][ndim - 1] = t[i]->sizes[t[i]->ndim - 1];
    }
    *a = br_expand(t[0], ndim, sizes[0]);
    *b = br_expand(t[1], ndim, sizes[1]);
    return !br_failed();
}

bool br__is_vector(const br_tensor *a, const br_tensor *b)
{
    return b->ndim == 1 || (b->ndim == a->ndim - 1 &&
                            memcmp(b->sizes, a->sizes, (size_t)b->ndim * sizeof *b->sizes) == 0);
}

/* Checks a and b, whose batches it joins. */
static bool check_system(const char *op, br_tensor **a, br_tensor **b, bool left)
{
    const br_tensor *m = *a, *r = *b;
    if (r->ndim < 2 || r->sizes[r->ndim - (left ? 2 : 1)] != m->sizes[m->ndim - 1])
        return br_fail(BR_ERROR_SHAPE, op, "b %s must be %s for a %s", br__shape(r),
                       left ? "[*, n, k]" : "[*, k, n]", br__shape(m));
    return br__join_batches(op, a, b);
}

/* ---- solve ----------------------------------------------------------------------------------- */

/* da = -db x^T, db = a^-T dx */
static void solve_backward(br_node *node, br_tensor *dx, br_tensor **gradients)
{
    br_tensor *a = br_saved(node, 0), *x = br_saved(node, 1);
    gradients[1] = br_linalg_solve(br__mt(a), dx, true);
    if (br_needs_input_grad(node, 0))
        gradients[0] = br_neg(br_matmul(gradients[1], br__mt(x)));
}

static const br_op solve_op = { "linalg_solve", solve_backward, false };

/* Returns a^-1 b for matrices with the same batch. */
static br_tensor *solution(const char *op, br_tensor *a, br_tensor *b)
{
    br_linalg_work work = { .routine = BR_LINALG_SOLVE };
    br_tensor *factors = br__by_columns(a), *x = br__by_columns(b);
    return br__linalg_begin(op, factors, x, &work) && br__linalg_run(op, &work) &&
                   br__linalg_succeeded(op, a, work.info, singular)
               ? br_clone(br__mt(x))
               : NULL;
}

static br_tensor *solve(br_tensor *a, br_tensor *b)
{
    br_scope *scope = br_no_grad_begin();
    br_tensor *x = br_scope_return(scope, solution("linalg_solve", a, b));
    br_scope_end(scope);
    br_node *node = br_record(&solve_op, x, BR_INPUTS(a, b), NULL, 0);
    br_save(node, 0, a);
    br_save(node, 1, x);
    return x;
}

br_tensor *br_linalg_solve(br_tensor *a, br_tensor *b, bool left)
{
    static const char op[] = "linalg_solve";
    BR_OP(op);
    if (!br__square(op, "a", a) || !br__compatible(op, "a", a, "b", b))
        return NULL;
    br_scope *scope = br_scope_begin();
    const bool is_vector = br__is_vector(a, b);
    if (b->ndim == 1 && b->sizes[0] != a->sizes[a->ndim - 1]) {
        br_fail(BR_ERROR_SHAPE, op, "b %s must be [n] or [*, n, k] for a %s", br__shape(b),
                br__shape(a));
        return br__composed(scope, NULL);
    }
    if (is_vector)
        b = br_unsqueeze(b, -1);
    if (!b || !check_system(op, &a, &b, left || is_vector))
        return br__composed(scope, NULL);
    br_tensor *x = left ? solve(a, b) : solve(br__mt(a), is_vector ? b : br__mt(b));
    if (!left && !is_vector)
        x = br_contiguous(br__mt(x));
    if (is_vector)
        x = br_squeeze(x, -1);
    return br__composed(scope, x);
}

/* ---- inv ------------------------------------------------------------------------------------- */

/* da = -y^T dy y^T */
static void inv_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    br_tensor *transposed = br__mt(br_saved(node, 0));
    dx[0] = br_neg(br_matmul(transposed, br_matmul(dy, transposed)));
}

br_tensor *br_linalg_inv(br_tensor *a)
{
    static const br_op inv_op = { "linalg_inv", inv_backward, false };
    BR_OP("linalg_inv");
    if (!br__square("linalg_inv", "a", a))
        return NULL;
    br_scope *scope = br_no_grad_begin();
    br_tensor *y =
        br_scope_return(scope, solution("linalg_inv", a, br_expand_as(br__identity_like(a), a)));
    br_scope_end(scope);
    br_save(br_record(&inv_op, y, BR_INPUTS(a), NULL, 0), 0, y);
    return y;
}

/* ---- solve_triangular ------------------------------------------------------------------------ */

typedef struct triangle {
    bool upper, unit;
} triangle;

static br_tensor *solve_triangle(br_tensor *a, br_tensor *b, triangle t);

/* As for solve; elements of a that are not read have the gradient 0. */
static void solve_triangular_backward(br_node *node, br_tensor *dx, br_tensor **gradients)
{
    const triangle *t = br_params(node);
    br_tensor *a = br_saved(node, 0), *x = br_saved(node, 1);
    gradients[1] = solve_triangle(br__mt(a), dx, (triangle){ !t->upper, t->unit });
    if (!br_needs_input_grad(node, 0))
        return;
    br_tensor *da = br_neg(br_matmul(gradients[1], br__mt(x)));
    gradients[0] = t->upper ? br_triu(da, t->unit) : br_tril(da, -(int64_t)t->unit);
}

static const br_op solve_triangular_op = { "linalg_solve_triangular", solve_triangular_backward,
                                           false };

static br_tensor *solve_triangle(br_tensor *a, br_tensor *b, triangle t)
{
    static const char op[] = "linalg_solve_triangular";
    br_linalg_work work = { .routine = BR_LINALG_TRIANGULAR_SOLVE,
                            .upper = t.upper,
                            .unit = t.unit };
    br_scope *scope = br_no_grad_begin();
    br_tensor *matrix = br_contiguous(br__mt(a)), *columns = br__by_columns(b);
    const bool ok = br__linalg_begin(op, matrix, columns, &work) && br__linalg_run(op, &work);
    br_tensor *x = br_scope_return(scope, ok ? br_clone(br__mt(columns)) : NULL);
    br_scope_end(scope);
    br_node *node = br_record(&solve_triangular_op, x, BR_INPUTS(a, b), &t, sizeof t);
    br_save(node, 0, a);
    br_save(node, 1, x);
    return x;
}

br_tensor *br_linalg_solve_triangular(br_tensor *a, br_tensor *b, bool upper, bool left,
                                      bool unitriangular)
{
    static const char op[] = "linalg_solve_triangular";
    BR_OP(op);
    if (!br__square(op, "a", a) || !br__compatible(op, "a", a, "b", b))
        return NULL;
    br_scope *scope = br_scope_begin();
    if (!check_system(op, &a, &b, left))
        return br__composed(scope, NULL);
    if (left)
        return br__composed(scope, solve_triangle(a, b, (triangle){ upper, unitriangular }));
    br_tensor *x = solve_triangle(br__mt(a), br__mt(b), (triangle){ !upper, unitriangular });
    return br__composed(scope, br_contiguous(br__mt(x)));
}
