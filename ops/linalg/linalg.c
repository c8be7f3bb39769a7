/* ops/linalg/linalg.c - checks and calls of the backend that the operations of linear algebra
 * share. */
#include "ops/linalg/linalg_internal.h"
#include "tensor/min_max.h"

#include <inttypes.h>
#include <limits.h>

bool br__matrices(const char *op, const char *name, const br_tensor *t)
{
    if (!br__f32_or_f64(op, name, t))
        return false;
    if (t->ndim < 2)
        br_fail(BR_ERROR_SHAPE, op, "%s %s must be a matrix or a batch of matrices [*, m, n]", name,
                br__shape(t));
    else if (br__max(t->sizes[t->ndim - 1], t->sizes[t->ndim - 2]) > INT_MAX)
        br_fail(BR_ERROR_SHAPE, op, "%s %s must have at most %d rows and columns", name,
                br__shape(t), INT_MAX);
    return !br_failed();
}

bool br__are_square(const char *op, const char *name, const br_tensor *t)
{
    if (t->ndim >= 2 && t->sizes[t->ndim - 1] == t->sizes[t->ndim - 2])
        return true;
    return br_fail(BR_ERROR_SHAPE, op, "%s %s must have square matrices in its last two dimensions",
                   name, br__shape(t));
}

bool br__square(const char *op, const char *name, const br_tensor *t)
{
    return br__f32_or_f64(op, name, t) && br__are_square(op, name, t) && br__matrices(op, name, t);
}

br_tensor *br__by_columns(br_tensor *x)
{
    return br_clone(br__mt(x));
}

br_tensor *br__linalg_zeros(const char *op, const br_tensor *a, int ndim, const int64_t *sizes,
                            br_dtype dtype)
{
    return br_zero_(br__new_on(op, a, ndim, sizes, dtype));
}

bool br__linalg_begin(const char *op, br_tensor *a, br_tensor *b, br_linalg_work *work)
{
    if (!a || br__failed())
        return false;
    const br_linalg_routine routine = work->routine;
    const int batch = a->ndim - 2;
    int64_t sizes[BR_MAX_DIMS]; /* of a vector for each matrix */
    work->a = a;
    work->b = b;
    work->m = a->sizes[batch + 1];
    work->n = a->sizes[batch];
    work->k = b ? b->sizes[batch] : 0;
    work->batch = 1;
    for (int i = 0; i < batch; i++)
        work->batch *= sizes[i] = a->sizes[i];
    sizes[batch] = br__min(work->m, work->n);
    if (routine != BR_LINALG_TRIANGULAR_SOLVE)
        work->info = br__linalg_zeros(op, a, batch, sizes, BR_I64);
    if (routine == BR_LINALG_LU || routine == BR_LINALG_SOLVE)
        work->pivots = br__linalg_zeros(op, a, batch + 1, sizes, BR_I32);
    if (!work->values && routine >= BR_LINALG_QR && routine != BR_LINALG_GELS &&
        routine != BR_LINALG_GELSY)
        work->values = br__linalg_zeros(op, a, batch + 1, sizes, a->dtype);
    if (routine > BR_LINALG_GELS)
        work->rank = br__linalg_zeros(op, a, batch, sizes, BR_I64);
    return !br_failed();
}

bool br__linalg_run(const char *op, const br_linalg_work *work)
{
    const br_backend *backend = BR_BACKEND(op, work->a, linalg);
    if (!backend || work->a->numel == 0 || (work->b && work->b->numel == 0))
        return backend;
    BR_TRAFFIC(work->a, work->b);
    return backend->linalg(op, work);
}

bool br__linalg_succeeded(const char *op, const br_tensor *a, const br_tensor *info,
                          const char *what)
{
    const int64_t *host = info->numel > 0 ? br__host_i64(info) : NULL;
    for (int64_t i = 0; host && i < info->numel; i++)
        if (host[i] != 0)
            return br_fail(BR_ERROR_ARGUMENT, op, "matrix %" PRId64 " of a %s %s %" PRId64, i,
                           br__shape(a), what, host[i]);
    return !br_failed();
}

bool br__linalg_finite(const char *op, const char *name, br_tensor *t)
{
    if (!t || t->numel == 0)
        return !br_failed();
    br_tensor *all = br_all_dim(br_isfinite(t), BR_DIMS(-2, -1), false);
    br_tensor *bad = br_logical_not(all);
    const int64_t *host = bad && bad->numel > 0 ? br__host_i64(br_to(bad, BR_I64)) : NULL;
    for (int64_t i = 0; host && i < bad->numel; i++)
        if (host[i])
            return br_fail(BR_ERROR_ARGUMENT, op,
                           "matrix %" PRId64 " of %s %s contains NaN or infinity", i, name,
                           br__shape(t));
    return !br_failed();
}

br_tensor *br__eye_like(const br_tensor *x, int64_t rows, int64_t columns)
{
    return br_to_device(br_eye(rows, columns, x->dtype), br_device_of(x));
}

br_tensor *br__identity_like(const br_tensor *x)
{
    if (br_failed())
        return NULL;
    return br__eye_like(x, x->sizes[x->ndim - 1], x->sizes[x->ndim - 1]);
}

void br__matrix_sizes(const br_tensor *a, int64_t rows, int64_t columns, int64_t *sizes)
{
    memcpy(sizes, a->sizes, (size_t)a->ndim * sizeof *sizes);
    sizes[a->ndim - 2] = rows;
    sizes[a->ndim - 1] = columns;
}
