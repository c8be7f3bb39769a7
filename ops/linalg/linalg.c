/* ops/linalg/linalg.c - checks and calls of the backend that the operations of linear algebra
 * share. */
#include "ops/linalg/linalg_internal.h"
#include "tensor/min_max.h"

#include <inttypes.h>
#include <limits.h>

bool br__linalg_dtype(const char *op, const char *name, const br_tensor *t)
{
    if (!br__floating(op, name, t))
        return false;
    if (br__is_stored(t->dtype))
        br_fail(BR_ERROR_DTYPE, op, "%s has dtype %s, must be f32 or f64: convert it by br_to()",
                name, br__dtypes[t->dtype].name);
    return !br_failed();
}

bool br__square(const char *op, const char *name, const br_tensor *t)
{
    if (!br__linalg_dtype(op, name, t))
        return false;
    const int64_t n = t->ndim < 2 ? -1 : t->sizes[t->ndim - 1];
    if (n < 0 || n != t->sizes[t->ndim - 2])
        br_fail(BR_ERROR_SHAPE, op, "%s %s must have square matrices in its last two dimensions",
                name, br__shape(t));
    else if (n > INT_MAX)
        br_fail(BR_ERROR_SHAPE, op, "%s %s must have at most %d rows", name, br__shape(t), INT_MAX);
    return !br_failed();
}

br_tensor *br__by_columns(br_tensor *x)
{
    return br_clone(br__mt(x));
}

bool br__linalg_begin(br_tensor *a, br_tensor *b, br_linalg_work *work)
{
    if (!a || br__failed())
        return false;
    work->a = a;
    work->b = b;
    work->n = a->sizes[a->ndim - 1];
    work->k = b ? b->sizes[b->ndim - 2] : 0;
    work->batch = 1;
    for (int i = 0; i < a->ndim - 2; i++)
        work->batch *= a->sizes[i];
    if (work->routine != BR_LINALG_TRIANGULAR_SOLVE)
        work->info = br_new_zeros(a, a->ndim - 2, a->sizes, BR_I64);
    if (work->routine == BR_LINALG_LU || work->routine == BR_LINALG_SOLVE)
        work->pivots = br_new_zeros(a, a->ndim - 1, a->sizes, BR_I32);
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
