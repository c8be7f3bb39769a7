/* nn/init_matrix.c - structured initial values as in torch.nn.init (sparse, Dirac, orthogonal), and
 * the recommended gains. */
#include "autograd/in_place.h"
#include "nn/nn_internal.h"
#include "tensor/min_max.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

double br_init_calculate_gain(const char *nonlinearity, double param)
{
    static const struct {
        const char *name;
        double gain;
    } gains[] = {
        { "linear", 1 },
        { "sigmoid", 1 },
        { "tanh", 5.0 / 3 },
        { "selu", 0.75 },
    };
    const char *name = nonlinearity ? nonlinearity : "";
    for (size_t i = 0; i < sizeof gains / sizeof *gains; i++)
        if (strcmp(gains[i].name, name) == 0)
            return gains[i].gain;
    if (strcmp(name, "relu") == 0)
        return sqrt(2);
    if (strcmp(name, "leaky_relu") == 0)
        return sqrt(2 / (1 + param * param));
    br_fail(BR_ERROR_ARGUMENT, "init_calculate_gain",
            "nonlinearity is '%s', must be linear, sigmoid, tanh, relu, leaky_relu or selu",
            br_printable(name));
    return NAN;
}

static bool has_dims(const char *op, const br_tensor *t, int min_dims, int max_dims)
{
    if (!br__floating(op, "t", t))
        return false;
    if (t->ndim < min_dims || t->ndim > max_dims)
        br_fail(BR_ERROR_SHAPE, op, "t %s must have %d to %d dimensions", br__shape(t), min_dims,
                max_dims);
    return !br_failed();
}

/* ---- Sparse ---------------------------------------------------------------------------------- */

/* Copies the values to t. Nothing has changed t before, so an initialization that fails leaves t as
 * it was. */
static br_tensor *store(const char *op, br_tensor *t, br_tensor *values)
{
    return !br_failed() && br__before_change(op, "t", t, BR_INPUTS(t)) &&
                   br__transfer(op, t, values)
               ? t
               : NULL;
}

static void clear_rows(br_tensor *column, int64_t n)
{
    br_scope *scope = br_scope_begin();
    br_tensor *permutation = column ? br_randperm(column->sizes[0]) : NULL;
    const int64_t *rows = permutation ? br__host_i64(permutation) : NULL;
    for (int64_t i = 0; rows && i < n && !br_failed(); i++)
        br_zero_(br_select(column, 0, rows[i]));
    br_scope_end(scope);
}

br_tensor *br_init_sparse_(br_tensor *t, double sparsity, double std)
{
    const char *op = "init_sparse_";
    if (!has_dims(op, t, 2, 2))
        return NULL;
    if (!(sparsity >= 0 && sparsity <= 1))
        return br_fail(BR_ERROR_ARGUMENT, op, "sparsity is %g, must be in 0 .. 1", sparsity);
    int64_t n = (int64_t)ceil(sparsity * (double)t->sizes[0]);
    br_scope *scope = br_no_grad_begin();
    br_tensor *values = br_normal_(br_empty_like(t), 0, std);
    for (int64_t j = 0; t->numel > 0 && j < t->sizes[1] && !br_failed(); j++)
        clear_rows(br_select(values, 1, j), n);
    store(op, t, values);
    br_scope_end(scope);
    return br_failed() ? NULL : t;
}

/* ---- Dirac ----------------------------------------------------------------------------------- */

/* Sets t[out][in][middle] to 1. */
static void set_middle(br_tensor *t, int64_t out, int64_t in)
{
    br_scope *scope = br_scope_begin();
    br_tensor *at = br_select(br_select(t, 0, out), 0, in);
    while (at && at->ndim > 0)
        at = br_select(at, 0, at->sizes[0] / 2);
    br_fill_(at, 1);
    br_scope_end(scope);
}

br_tensor *br_init_dirac_(br_tensor *t, int64_t groups)
{
    const char *op = "init_dirac_";
    if (!has_dims(op, t, 3, 5))
        return NULL;
    if (groups < 1 || t->sizes[0] % groups != 0)
        return br_fail(BR_ERROR_ARGUMENT, op,
                       "groups is %" PRId64 ", must divide the first size of t %s", groups,
                       br__shape(t));
    int64_t outputs = t->sizes[0] / groups;
    int64_t n = t->numel == 0 ? 0 : br__min(outputs, t->sizes[1]);
    br_scope *scope = br_no_grad_begin();
    br_tensor *values = br_zeros_like(t);
    for (int64_t i = 0; i < groups * n && !br_failed(); i++)
        set_middle(values, i / n * outputs + i % n, i % n);
    store(op, t, values);
    br_scope_end(scope);
    return br_failed() ? NULL : t;
}

/* ---- Orthogonal ------------------------------------------------------------------------------ */

static double dot(int64_t n, const double *a, const double *b)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* Orthonormalizes the rows by Gram-Schmidt, which gives the Q of the QR decomposition whose R has a
 * positive diagonal. Subtracts each projection twice: the second time removes the rounding error of
 * the first. */
static void orthonormalize(int64_t rows, int64_t columns, double *a)
{
    for (int64_t i = 0; i < rows; i++) {
        double *row = a + i * columns;
        for (int64_t k = 0; k < 2 * i; k++) {
            const double *other = a + k % i * columns;
            double share = dot(columns, row, other);
            for (int64_t j = 0; j < columns; j++)
                row[j] -= share * other[j];
        }
        double length = sqrt(dot(columns, row, row));
        for (int64_t j = 0; j < columns && length > 0; j++)
            row[j] /= length;
    }
}

/* Returns an f64 matrix with the rows orthonormalized, computed in the host's memory. */
static br_tensor *orthonormal(const br_tensor *matrix)
{
    size_t bytes = (size_t)matrix->numel * sizeof(double);
    double *rows = br_malloc(bytes);
    br_tensor *result = NULL;
    if (rows && br_copy_out(matrix, rows, bytes)) {
        orthonormalize(matrix->sizes[0], matrix->sizes[1], rows);
        result = br__placed("init_orthogonal_", br__backend_of(matrix),
                            br_from_f64(2, matrix->sizes, rows));
    }
    br_free(rows);
    return result;
}

br_tensor *br_init_orthogonal_(br_tensor *t, double gain)
{
    if (!has_dims("init_orthogonal_", t, 2, BR_MAX_DIMS) || t->numel == 0)
        return br_failed() ? NULL : t;
    br_scope *scope = br_no_grad_begin();
    int64_t rows = t->sizes[0], columns = t->numel / rows;
    br_tensor *random = br_randn(BR_SHAPE(rows, columns), t->dtype);
    bool tall = rows >= columns;
    br_tensor *work = br_to(tall ? br_t(random) : random, BR_F64);
    work = work ? orthonormal(work) : NULL;
    if (work) {
        br_mul_scalar_(work, gain);
        work = br_contiguous(tall ? br_t(work) : work);
        br_copy_(t, br_reshape(work, t->ndim, t->sizes));
    }
    br_scope_end(scope);
    return br_failed() ? NULL : t;
}
