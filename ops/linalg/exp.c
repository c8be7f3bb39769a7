/* ops/linalg/exp.c - exponentials and powers of matrices, and products of several matrices. For
 * bf16 and f16 they compute in f32, and round once. */
#include "ops/linalg/linalg_internal.h"
#include "ops/pointwise/widen.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/* ---- matrix_exp ------------------------------------------------------------------------------ */

/* Taylor polynomials p of degree q * blocks. If the 1-norm of a matrix a is at most `norm`, p(a) is
 * the exponential of a matrix that differs from a by at most the rounding of the dtype: `norm` is
 * the largest x with |c_1| + |c_2| x + |c_3| x^2 + .. <= 2^-24 or 2^-53, where c are the
 * coefficients of log(exp(-x) p(x)) (P. Bader, S. Blanes, F. Casas, "Computing the matrix
 * exponential with an optimized Taylor polynomial approximation", 2019). */
typedef struct taylor {
    int q, blocks;
    double norm[2]; /* f32, f64 */
} taylor;

static const taylor polynomials[] = {
    { 1, 1, { 1.1920928e-07, 2.2204460e-16 } }, { 2, 1, { 5.9788589e-04, 2.5809568e-08 } },
    { 2, 2, { 5.1166193e-02, 3.3971688e-04 } }, { 3, 3, { 7.7951133e-01, 8.9577602e-02 } },
    { 4, 4, { 2.4782808e+00, 7.8028742e-01 } },
};
enum { POLYNOMIALS = sizeof polynomials / sizeof *polynomials };

/* Returns the polynomial by M. S. Paterson and L. J. Stockmeyer's scheme (1973): Horner's scheme in
 * a^q, whose coefficients are polynomials of a. It takes q + blocks - 2 products. */
static br_tensor *evaluate(const taylor *p, br_tensor *a)
{
    br_tensor *power[5] = { br__identity_like(a), a }, *y = NULL;
    for (int i = 2; i <= p->q; i++)
        power[i] = br_matmul(power[i - 1], a);
    for (int block = p->blocks - 1; block >= 0; block--) {
        br_tensor *sum = NULL;
        /* The last block has the term of a^q itself. */
        for (int i = p->q - (block < p->blocks - 1); i >= 0; i--)
            sum = br__plus(br_mul_scalar(power[i], 1 / tgamma(block * p->q + i + 1)), sum);
        y = br__plus(y ? br_matmul(power[p->q], y) : NULL, sum);
    }
    return y;
}

/* Scales matrices by powers of 2 if their norms, [*], are large, and squares the results. */
static br_tensor *scaled_exponential(br_tensor *a, br_tensor *norm)
{
    const taylor *last = &polynomials[POLYNOMIALS - 1];
    const int f64 = !br__is_narrow(a->dtype);
    const double largest = norm ? br_item(br_max(norm)) : 0;
    for (int i = 0; i < POLYNOMIALS; i++)
        if (largest <= polynomials[i].norm[f64])
            return evaluate(&polynomials[i], a);
    br_tensor *times = br_ceil(br_log2(br_div_scalar(norm, last->norm[f64])));
    times = br__per_matrix(br_clamp(times, 0, INFINITY));
    br_tensor *y = evaluate(last, br_mul(a, br_exp2(br_neg(times))));
    const double most = br_item(br_max(times));
    for (int i = 0; i < most && !br_failed(); i++)
        y = br_where(br_gt_scalar(times, i), br_matmul(y, y), y);
    return y;
}

/* The exponential of a matrix with NaN or infinity is NaN. */
static br_tensor *exponential(br_tensor *a)
{
    br_tensor *norm = br_amax(br_sum_dim(br_abs(a), BR_DIMS(-2), false), BR_DIMS(-1), false);
    br_tensor *bad = br_logical_not(br_isfinite(norm));
    br_tensor *y = scaled_exponential(a, br_masked_fill(norm, bad, 0));
    return br_masked_fill(y, br__per_matrix(bad), NAN);
}

/* The gradient is the upper right block of the exponential of [[a^T, dy], [0, a^T]] (N. J. Higham,
 * "Functions of matrices", 2008, section 3.2). */
static void matrix_exp_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    br_tensor *at = br__mt(br_saved(node, 0));
    if (!at)
        return;
    const int64_t n = at->sizes[at->ndim - 1];
    br_tensor *above = br_cat(BR_INPUTS(at, dy), -1);
    br_tensor *below = br_cat(BR_INPUTS(br_zeros_like(at), at), -1);
    br_tensor *y = br_linalg_matrix_exp(br_cat(BR_INPUTS(above, below), -2));
    dx[0] = br_narrow(br__rows(y, n), -1, n, n);
}

static const br_op matrix_exp_op = { "linalg_matrix_exp", matrix_exp_backward, false };

br_tensor *br_linalg_matrix_exp(br_tensor *a)
{
    BR_OP("linalg_matrix_exp");
    BR_IF_CONVERTED(br__is_half(a), br_to(br_linalg_matrix_exp(br_to(a, BR_F32)), a->dtype))
    if (!br__square("linalg_matrix_exp", "a", a))
        return NULL;
    br_scope *scope = br_no_grad_begin();
    br_tensor *y = br_scope_return(scope, a->numel > 0 ? exponential(a) : br_clone(a));
    br_scope_end(scope);
    br_save(br_record(&matrix_exp_op, y, BR_INPUTS(a), NULL, 0), 0, a);
    return y;
}

/* ---- matrix_power ---------------------------------------------------------------------------- */

/* Fails if t is bool, which has no products. */
static bool has_numbers(const char *op, const char *name, const br_tensor *t)
{
    if (br__required(op, name, t) && t->dtype == BR_BOOL)
        br_fail(BR_ERROR_DTYPE, op, "%s %s is bool, must have numbers: convert it by br_to()", name,
                br__shape(t));
    return !br_failed();
}

br_tensor *br_linalg_matrix_power(br_tensor *a, int64_t n)
{
    static const char op[] = "linalg_matrix_power";
    BR_OP(op);
    BR_IF_CONVERTED(n >= 0 && br__is_half(a),
                    br_to(br_linalg_matrix_power(br_to(a, BR_F32), n), a->dtype))
    if (!has_numbers(op, "a", a) || !br__are_square(op, "a", a) ||
        (n < 0 && !br__f32_or_f64(op, "a", a)))
        return NULL;
    br_scope *scope = br_scope_begin();
    uint64_t rest = n < 0 ? -(uint64_t)n : (uint64_t)n;
    br_tensor *y = NULL, *square = n < 0 ? br_linalg_inv(a) : a;
    if (n == 0) /* a has the gradient 0 */
        y = br_add(br_masked_fill(a, br_ge_scalar(br_zeros_like(a), 0), 0), br__identity_like(a));
    for (; rest > 0 && !br_failed(); rest >>= 1) {
        if (rest & 1)
            y = y ? br_matmul(y, square) : square;
        if (rest > 1)
            square = br_matmul(square, square);
    }
    return br__composed(scope, y == a ? br_clone(a) : y);
}

/* ---- multi_dot ------------------------------------------------------------------------------- */

/* The chain of matrices i .. j - 1 is divided at split[i][j]. */
typedef struct chain {
    br_tensor *const *matrices;
    int n;
    int *split;
} chain;

static br_tensor *product(const chain *c, int i, int j)
{
    if (j == i + 1)
        return c->matrices[i];
    const int at = c->split[i * (c->n + 1) + j];
    return br_matmul(product(c, i, at), product(c, at, j));
}

/* Finds the splits with the fewest multiplications (T. H. Cormen et al., "Introduction to
 * algorithms", chapter 15.2). sizes[i] are the rows of matrix i; cost has room for (n + 1)^2. */
static void divide(const chain *c, const int64_t *sizes, double *cost)
{
    const int width = c->n + 1;
    for (int length = 1; length <= c->n; length++) {
        for (int i = 0; i + length <= c->n; i++) {
            const int j = i + length;
            double *best = &cost[i * width + j];
            *best = length == 1 ? 0 : INFINITY;
            for (int at = i + 1; at < j; at++) {
                const double sum = cost[i * width + at] + cost[at * width + j] +
                                   (double)sizes[i] * (double)sizes[at] * (double)sizes[j];
                if (sum < *best) {
                    *best = sum;
                    c->split[i * width + j] = at;
                }
            }
        }
    }
}

/* Checks tensor i and returns it as a matrix. */
static br_tensor *matrix_at(const char *op, int n, br_tensor *const *tensors, int i)
{
    br_tensor *t = tensors[i];
    if (!has_numbers(op, "a tensor", t) ||
        !br__compatible(op, "tensor 0", tensors[0], "a tensor", t))
        return NULL;
    if (br__is_half(t))
        t = br_to(t, BR_F32);
    if (t && t->ndim == 1 && i == 0)
        return br_unsqueeze(t, 0);
    if (t && t->ndim == 1 && i == n - 1)
        return br_unsqueeze(t, 1);
    if (t && t->ndim != 2)
        return br_fail(BR_ERROR_SHAPE, op, "tensor %d %s must have 2 dimensions%s", i, br__shape(t),
                       i == 0 || i == n - 1 ? ", or 1" : "");
    return t;
}

static br_tensor *multi_dot(const char *op, int n, br_tensor *const *tensors, br_tensor **matrices,
                            int64_t *sizes, double *cost, int *split)
{
    for (int i = 0; i < n; i++) {
        br_tensor *t = matrices[i] = matrix_at(op, n, tensors, i);
        if (!t)
            return NULL;
        if (i > 0 && t->sizes[0] != sizes[i])
            return br_fail(BR_ERROR_SHAPE, op,
                           "tensor %d %s must have %" PRId64 " rows, the columns of tensor %d %s",
                           i, br__shape(tensors[i]), sizes[i], i - 1, br__shape(tensors[i - 1]));
        sizes[i] = t->sizes[0];
        sizes[i + 1] = t->sizes[1];
    }
    const chain c = { matrices, n, split };
    divide(&c, sizes, cost);
    br_tensor *y = product(&c, 0, n);
    if (tensors[n - 1]->ndim == 1)
        y = br_squeeze(y, 1);
    if (tensors[0]->ndim == 1)
        y = br_squeeze(y, 0);
    return br__is_half(tensors[0]) ? br_to(y, tensors[0]->dtype) : y;
}

br_tensor *br_linalg_multi_dot(int n, br_tensor *const *tensors)
{
    static const char op[] = "linalg_multi_dot";
    BR_OP(op);
    if (n < 2 || !tensors)
        return br_fail(BR_ERROR_ARGUMENT, op, "there are %d tensors, must be at least 2", n);
    if (n > 1000)
        return br_fail(BR_ERROR_ARGUMENT, op, "there are %d tensors, must be at most 1000", n);
    const size_t pairs = (size_t)(n + 1) * (size_t)(n + 1);
    double *cost = br_malloc(pairs * (sizeof(double) + sizeof(int)));
    br_tensor **matrices = br_malloc((size_t)(n + 1) * (sizeof *matrices + sizeof(int64_t)));
    br_scope *scope = br_scope_begin();
    br_tensor *y = NULL;
    if (cost && matrices)
        y = multi_dot(op, n, tensors, matrices, (int64_t *)(void *)(matrices + n + 1), cost,
                      (int *)(void *)(cost + pairs));
    br_free(matrices);
    br_free(cost);
    return br__composed(scope, y);
}
