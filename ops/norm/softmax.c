/* ops/norm/softmax.c - softmax and log_softmax over any dimension. Both save only their output. */
#include "ops/shape/view_internal.h"

/* Computes the softmax of x or, given dy, the gradient from the softmax x. Returns a new tensor. */
static br_tensor *apply(const char *op, br_tensor *x, br_tensor *dy, int64_t dim, bool log_of)
{
    const br_backend *backend = x ? BR_BACKEND(op, x, softmax) : NULL;
    if (!backend)
        return NULL;
    br_tensor *out = br__new_like(op, x, x->dtype);
    br_scope *scope = br_no_grad_begin();
    br_tensor *dense = br_contiguous(x), *dense_dy = dy ? br_contiguous(dy) : NULL;
    if (!br__failed() && out->numel > 0) {
        BR_TRAFFIC(out, dense, dense_dy);
        if (dy)
            backend->softmax_grad(out, dense, dense_dy, dim, log_of);
        else
            backend->softmax(out, dense, dim, log_of);
    }
    br_scope_end(scope);
    return br_failed() ? NULL : out;
}

static br_tensor *recorded(const br_op *op, br_tensor *x, int64_t dim, bool log_of)
{
    BR_OP(op->name);
    if (!br__floating(op->name, "x", x) || !br__wrap_dim(op->name, "dim", x, &dim))
        return NULL;
    br_tensor *y = apply(op->name, x, NULL, dim, log_of);
    br_save(br_record(op, y, BR_INPUTS(x), &dim, sizeof dim), 0, y);
    return br_failed() ? NULL : y;
}

/* dx = y (dy - sum of y dy) */
static void softmax_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    int64_t dim = *(const int64_t *)br_params(node);
    br_tensor *y = br_saved(node, 0);
    if (!br_grad_enabled())
        dx[0] = apply("softmax", y, dy, dim, false);
    else
        dx[0] = br_mul(y, br_sub(dy, br_sum_dim(br_mul(y, dy), BR_DIMS(dim), true)));
}

static const br_op softmax_op = { .name = "softmax", .backward = softmax_backward };

br_tensor *br_softmax(br_tensor *x, int64_t dim)
{
    return recorded(&softmax_op, x, dim, false);
}

/* dx = dy - exp(y) sum of dy */
static void log_softmax_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    int64_t dim = *(const int64_t *)br_params(node);
    br_tensor *y = br_saved(node, 0);
    if (!br_grad_enabled())
        dx[0] = apply("log_softmax", y, dy, dim, true);
    else
        dx[0] = br_sub(dy, br_mul(br_exp(y), br_sum_dim(dy, BR_DIMS(dim), true)));
}

static const br_op log_softmax_op = { .name = "log_softmax", .backward = log_softmax_backward };

br_tensor *br_log_softmax(br_tensor *x, int64_t dim)
{
    return recorded(&log_softmax_op, x, dim, true);
}
