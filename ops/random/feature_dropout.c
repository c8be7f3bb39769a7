/* ops/random/feature_dropout.c - dropout of whole channels, and alpha dropout. Each multiplies x by
 * a tensor of noise that is 0 where x is dropped. */
#include "ops/ops_internal.h"
#include "ops/pointwise/dropout_internal.h"

#include <math.h>

/* Fails unless x is floating-point with at least min_dims dimensions and p is a probability. */
static bool possible(const char *op, const br_tensor *x, double p, int min_dims)
{
    if (!br__floating(op, "x", x))
        return false;
    if (!(p >= 0 && p <= 1))
        br_fail(BR_ERROR_ARGUMENT, op, "p is %g, must be in 0 .. 1", p);
    else if (x->ndim < min_dims)
        br_fail(BR_ERROR_SHAPE, op, "x %s must have at least %d dimensions: [batch, channels, ...]",
                br__shape(x), min_dims);
    return !br_failed();
}

/* Returns 1 with probability 1 - p and else 0, 0 < p < 1, times `scale`: for each element of x, in
 * its memory order, or for each channel. */
static br_tensor *noise_for(const char *op, const br_tensor *x, bool channels, double p,
                            double scale)
{
    int64_t sizes[BR_MAX_DIMS];
    int order[BR_MAX_DIMS];
    for (int i = 0; i < x->ndim; i++) {
        sizes[i] = channels && i > 1 ? 1 : x->sizes[i];
        order[i] = i;
    }
    if (!channels)
        br__memory_order(x, order);
    br_tensor *noise = br__new_reordered(op, x, x->ndim, sizes, x->dtype, order);
    br_tensor *bits = noise ? br__dropout_bits(op, x, noise->numel, p) : NULL;
    if (!bits)
        return NULL;
    const br_tensor ordered = br__reordered(noise, order);
    br_tensor *ones = br_new_full(x, ordered.ndim, ordered.sizes, 1, x->dtype);
    if (ones)
        br__drop(&ordered, ones, bits, scale);
    return br_failed() ? NULL : noise;
}

/* Drops channels, and multiplies the others by 1 / (1 - p). */
static br_tensor *drop_channels(const char *op, br_tensor *x, double p, bool training)
{
    if (!possible(op, x, p, 2))
        return NULL;
    if (!training || p == 0 || x->numel == 0)
        return x;
    br_scope *scope = br_scope_begin();
    if (p == 1)
        return br__composed(scope, br_mul_scalar(x, 0));
    br_tensor *noise = noise_for(op, x, true, p, br__dropout_scale(x->dtype, p));
    return br__composed(scope, noise ? br_mul(x, noise) : NULL);
}

/* Calls drop_channels() with a batch of one. */
static br_tensor *drop_without_batch(const char *op, br_tensor *x, double p, bool training)
{
    br_scope *scope = br_scope_begin();
    br_tensor *y = drop_channels(op, br_unsqueeze(x, 0), p, training);
    return br__composed(scope, y ? br_squeeze(y, 0) : NULL);
}

br_tensor *br_f_dropout1d(br_tensor *x, double p, bool training)
{
    BR_OP("dropout1d");
    if (!br__required("dropout1d", "x", x))
        return NULL;
    if (x->ndim != 2 && x->ndim != 3)
        return br_fail(BR_ERROR_SHAPE, "dropout1d",
                       "x %s must have shape [channels, length] or [batch, channels, length]",
                       br__shape(x));
    return (x->ndim == 2 ? drop_without_batch : drop_channels)("dropout1d", x, p, training);
}

br_tensor *br_f_dropout2d(br_tensor *x, double p, bool training)
{
    BR_OP("dropout2d");
    return drop_channels("dropout2d", x, p, training);
}

br_tensor *br_f_dropout3d(br_tensor *x, double p, bool training)
{
    BR_OP("dropout3d");
    if (!br__required("dropout3d", "x", x))
        return NULL;
    return (x->ndim == 5 ? drop_channels : drop_without_batch)("dropout3d", x, p, training);
}

/* ---- Alpha dropout --------------------------------------------------------------------------- */

/* The limit of SELU at -infinity is -scale * alpha, as PyTorch rounds it. */
static const double SELU_LIMIT = 1.7580993408473766;

/* Returns a (noise x + limit (noise - 1) + limit p): a keeps the variance, and the last term the
 * mean. The roundings are those of PyTorch. */
static br_tensor *drop_to_limit(const char *op, br_tensor *x, bool channels, double p)
{
    const double a = 1 / sqrt((SELU_LIMIT * SELU_LIMIT * p + 1) * (1 - p));
    br_scope *inner = br_no_grad_begin();
    br_tensor *noise = noise_for(op, x, channels, p, 1), *shift = NULL, *factor = NULL;
    if (noise) {
        shift = br_add_scalar(br_mul_scalar(br_add_scalar(noise, -1), SELU_LIMIT * a),
                              SELU_LIMIT * a * p);
        factor = br_mul_scalar(noise, a);
    }
    shift = br_scope_return(inner, shift);
    factor = br_scope_return(inner, factor);
    br_scope_end(inner);
    return shift && factor ? br_add(br_mul(x, factor), shift) : NULL;
}

static br_tensor *alpha_dropout(const char *op, br_tensor *x, bool channels, double p,
                                bool training)
{
    if (!possible(op, x, p, 0))
        return NULL;
    if (!training || p == 0 || x->numel == 0)
        return x;
    if (channels && !possible(op, x, p, 2))
        return NULL;
    br_scope *scope = br_scope_begin();
    return br__composed(scope, p == 1 ? br_mul_scalar(x, 0) : drop_to_limit(op, x, channels, p));
}

br_tensor *br_f_alpha_dropout(br_tensor *x, double p, bool training)
{
    BR_OP("alpha_dropout");
    return alpha_dropout("alpha_dropout", x, false, p, training);
}

br_tensor *br_f_feature_alpha_dropout(br_tensor *x, double p, bool training)
{
    BR_OP("feature_alpha_dropout");
    return alpha_dropout("feature_alpha_dropout", x, true, p, training);
}
