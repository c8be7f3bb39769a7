/* ops/reduce/cummax_logcumsumexp.c - cumulative maxima, minima, and logarithms of sums. */
#include "ops/index/index_internal.h"
#include "ops/pointwise/widen.h"
#include "ops/reduce/reduce_internal.h"

/* ---- cummax, cummin -------------------------------------------------------------------------- */

/* Returns the extremes of elements 0 .. i along dim, and their positions in *index. */
static br_tensor *running(const char *op, br_tensor *x, int64_t dim, br_scan_kind kind,
                          br_tensor **index)
{
    const br_backend *backend = BR_BACKEND(op, x, scan);
    br_scope *scope = br_no_grad_begin();
    br_tensor *wide = br_to(x, x->dtype == BR_BOOL ? BR_I64 : br__computed(x->dtype));
    br_tensor *dense = backend && wide ? br_contiguous(wide) : NULL;
    br_tensor *values = dense ? br__new_like(op, dense, dense->dtype) : NULL;
    *index = values ? br__new_like(op, dense, BR_I64) : NULL;
    BR_TRAFFIC(*index, values, dense);
    if (*index && dense->numel > 0)
        backend->scan(*index, dense, &(br_scan_work){ (int)dim, false, kind, values });
    values = br_to(values, x->dtype);
    br_scope_return(scope, *index);
    br_scope_return(scope, values);
    br_scope_end(scope);
    return br_failed() ? NULL : values;
}

/* Gather would return the same values for the positions, so its gradient is used. */
static br_tensor *running_extreme(const char *op, br_tensor *x, int64_t dim, br_scan_kind kind,
                                  br_tensor **indices)
{
    BR_OP(op);
    if (indices)
        *indices = NULL;
    if (!br__required(op, "x", x) || !br__wrap_dim(op, "dim", x, &dim))
        return NULL;
    br_scope *scope = br_scope_begin();
    br_tensor *line = x->ndim == 0 ? br_reshape(x, BR_SHAPE(1)) : x, *index = NULL;
    br_tensor *y = line ? running(op, line, dim, kind, &index) : NULL;
    y = y ? br__as_gathered(y, line, dim, index) : NULL;
    if (x->ndim == 0) {
        y = br_reshape(y, BR_SCALAR);
        index = br_reshape(index, BR_SCALAR);
    }
    if (indices)
        *indices = y ? br_scope_return(scope, index) : NULL;
    return br__composed(scope, y);
}

br_tensor *br_cummax(br_tensor *x, int64_t dim, br_tensor **indices)
{
    return running_extreme("cummax", x, dim, BR_SCAN_ARGMAX, indices);
}

br_tensor *br_cummin(br_tensor *x, int64_t dim, br_tensor **indices)
{
    return running_extreme("cummin", x, dim, BR_SCAN_ARGMIN, indices);
}

/* ---- logcumsumexp ---------------------------------------------------------------------------- */

static br_tensor *logcumsumexp(br_tensor *x, int64_t dim, bool reverse);

/* Returns sum over j >= i of dy_j exp(x_i - y_j) for the positive dy. The sum is computed from its
 * logarithm, which does not overflow. The other dy add nothing: their logarithm is a small number,
 * because the second gradient of -infinity would be NaN. */
static br_tensor *part_of_gradient(br_tensor *x, br_tensor *y, br_tensor *dy,
                                   const br_scan_work *work)
{
    br_tensor *nothing = br_le_scalar(dy, 0);
    br_tensor *log = br_log(br_masked_fill(dy, nothing, 1));
    log = br_masked_fill(log, nothing, -1e38);
    br_tensor *sum = logcumsumexp(br_sub(log, y), work->dim, !work->reverse);
    return br_exp(br_add(sum, x));
}

static void logcumsumexp_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    const br_scan_work *work = br_params(node);
    br_tensor *x = br_saved(node, 0), *y = br_saved(node, 1);
    BR_WIDEN(&x, &y, &dy);
    dx[0] = br_sub(part_of_gradient(x, y, dy, work), part_of_gradient(x, y, br_neg(dy), work));
}

static br_tensor *logcumsumexp(br_tensor *x, int64_t dim, bool reverse)
{
    static const br_op op = { "logcumsumexp", logcumsumexp_backward, false };
    return br__scan(
        &op, x, &(br_scan_work){ .dim = (int)dim, .reverse = reverse, .kind = BR_SCAN_LOGSUMEXP });
}

br_tensor *br_logcumsumexp(br_tensor *x, int64_t dim)
{
    if (!br__floating("logcumsumexp", "x", x) || !br__wrap_dim("logcumsumexp", "dim", x, &dim))
        return NULL;
    return logcumsumexp(x, dim, false);
}
