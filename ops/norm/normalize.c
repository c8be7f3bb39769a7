/* ops/norm/normalize.c - division by a norm: normalize, local_response_norm. */
#include "ops/pointwise/widen.h"

#include <inttypes.h>
#include <math.h>

br_tensor *br_softmin(br_tensor *x, int64_t dim)
{
    BR_OP("softmin");
    if (!br__floating("softmin", "x", x))
        return NULL;
    br_scope *scope = br_scope_begin();
    return br__composed(scope, br_softmax(br_neg(x), dim));
}

br_tensor *br_normalize(br_tensor *x, double p, int64_t dim, double eps)
{
    static const char op[] = "normalize";
    BR_OP(op);
    if (!br__floating(op, "x", x) || !br__wrap_dim(op, "dim", x, &dim))
        return NULL;
    if (x->numel == 0)
        return br__composed(NULL, br_clone(x));
    br_scope *scope = br_scope_begin();
    const br_rounding rounding = BR_WIDEN(&x);
    br_tensor *length = br_clamp(br_norm_dim(x, p, BR_DIMS(dim), true), eps, INFINITY);
    return br__composed(scope, br__narrowed(rounding, br_div(x, length)));
}

/* The mean over neighbouring channels is that of a pool along dimension 1. */
br_tensor *br_f_local_response_norm(br_tensor *x, int64_t size, double alpha, double beta, double k)
{
    static const char op[] = "local_response_norm";
    BR_OP(op);
    if (!br__floating(op, "x", x))
        return NULL;
    if (x->ndim < 3)
        return br_fail(BR_ERROR_SHAPE, op, "x %s must have at least 3 dimensions", br__shape(x));
    if (size < 1)
        return br_fail(BR_ERROR_ARGUMENT, op, "size is %" PRId64 ", must be at least 1", size);
    br_scope *scope = br_scope_begin();
    if (x->numel == 0)
        return br__composed(scope, br_clone(x));
    const br_rounding rounding = BR_WIDEN(&x);
    const int64_t n = br_size(x, 0), c = br_size(x, 1);
    br_tensor *square = br_reshape(br_mul(x, x), BR_SHAPE(n, c, -1));
    square = br_pad(square, BR_DIMS(0, 0, size / 2, (size - 1) / 2), BR_PAD_CONSTANT, 0);
    br_tensor *mean = br_f_avg_pool2d(
        br_unsqueeze(square, 1),
        BR_OPTIONS(br_pool, .kernel_size = BR_PAIR(size, 1), .stride = BR_PAIR(1, 1)));
    mean = mean ? br_reshape(mean, br_ndim(x), br_sizes(x)) : NULL;
    br_tensor *divisor = br_pow_scalar(br_add_scalar(br_mul_scalar(mean, alpha), k), beta);
    return br__composed(scope, br__narrowed(rounding, br_div(x, divisor)));
}
