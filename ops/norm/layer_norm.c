/* ops/norm/layer_norm.c - layer norm, and RMS norm, which is the same without a mean. The operation
 * saves x, weight, and for each row the mean and rstd = 1 / sqrt(variance + eps). */
#include "ops/ops_internal.h"
#include "ops/pointwise/promotion.h"
#include "ops/pointwise/widen.h"
#include "ops/scaling.h"
#include "ops/shape/view_internal.h"

#include <float.h>
#include <math.h>

enum { X, WEIGHT, BIAS }; /* inputs; the first two are saved under the same numbers */
enum { SAVED_MEAN = 2, SAVED_RSTD = 3 };

typedef struct settings {
    int ndims; /* number of normalised dimensions */
    double eps;
    bool centred; /* subtract the mean: layer norm, not RMS norm */
} settings;

/* ---- Gradient -------------------------------------------------------------------------------- */

static void fused_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    static const char op[] = "layer_norm";
    br_tensor *x = br_contiguous(br_saved(node, X)), *weight = br_saved(node, WEIGHT);
    br_tensor *mean = br_saved(node, SAVED_MEAN), *rstd = br_saved(node, SAVED_RSTD);
    dy = br_contiguous(dy);
    if (weight)
        weight = br_contiguous(weight);
    const br_backend *backend = br_failed() ? NULL : BR_BACKEND(op, x, layer_norm_grad);
    if (!backend)
        return;
    const settings *s = br_params(node);
    const int64_t *sizes = x->sizes + x->ndim - s->ndims;
    const br_dtype dtype = br__computed(x->dtype); /* autograd rounds it to that of the weight */
    for (int i = X; i <= BIAS; i++)
        if (br_needs_input_grad(node, i))
            dx[i] = i == X ? br_empty_like(x) : br__new_on(op, x, s->ndims, sizes, dtype);
    if (br_failed())
        return;
    BR_TRAFFIC(x, dy, mean, rstd, weight, dx[X], dx[WEIGHT], dx[BIAS]);
    backend->layer_norm_grad(op, &(br_layer_norm_tensors){ .x = x,
                                                           .weight = weight,
                                                           .mean = mean,
                                                           .rstd = rstd,
                                                           .dy = dy,
                                                           .dx = dx[X],
                                                           .dweight = dx[WEIGHT],
                                                           .dbias = dx[BIAS] });
}

/* Computes the gradient by recorded operations. If squares of x could overflow, x is divided by a
 * scale, which does not change xhat and divides dx. */
static void composed_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    const settings *s = br_params(node);
    br_tensor *x = br_saved(node, X), *weight = br_saved(node, WEIGHT);
    int64_t dims[BR_MAX_DIMS];
    unsigned bits = 0;
    if (br_failed())
        return;
    for (int i = 0; i < s->ndims; i++) {
        dims[i] = i - s->ndims;
        bits |= 1u << (br_ndim(x) + dims[i]);
    }
    br_tensor *scale = br__scale_of_large("layer_norm", x, bits);
    if (scale)
        x = br_div(x, scale);
    br_tensor *centred = s->centred ? br_sub(x, br_mean_dim(x, s->ndims, dims, true)) : x;
    br_tensor *variance = br_mean_dim(br_mul(centred, centred), s->ndims, dims, true);
    br_tensor *rstd = br_pow_scalar(br__add_scaled_eps(variance, s->eps, scale), -0.5);
    br_tensor *xhat = br_mul(centred, rstd);
    if (br_needs_input_grad(node, X)) {
        br_tensor *g = weight ? br_mul(dy, weight) : dy;
        br_tensor *mean_gx = br_mean_dim(br_mul(g, xhat), s->ndims, dims, true);
        if (s->centred)
            g = br_sub(g, br_mean_dim(g, s->ndims, dims, true));
        dx[X] = br_mul(rstd, br_sub(g, br_mul(xhat, mean_gx)));
        if (scale)
            dx[X] = br_div(dx[X], scale);
    }
    if (br_needs_input_grad(node, WEIGHT))
        dx[WEIGHT] = br_mul(dy, xhat);
    dx[BIAS] = dy;
}

static void layer_norm_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    (br_grad_enabled() ? composed_backward : fused_backward)(node, dy, dx);
}

/* ---- Forward --------------------------------------------------------------------------------- */

static bool check_affine(const char *op, const char *name, const br_tensor *x, const br_tensor *t,
                         int ndims, const int64_t *sizes)
{
    if (!t)
        return !br_failed();
    if (!br__fits_norm(op, x, name, t))
        return false;
    bool same = t->ndim == ndims;
    for (int i = 0; same && i < ndims; i++)
        same = t->sizes[i] == sizes[i];
    if (!same)
        br_fail(BR_ERROR_SHAPE, op, "%s %s must have the normalised shape %s of x %s", name,
                br__shape(t), br__shape_of(ndims, sizes), br__shape(x));
    return same;
}

static bool check(const char *op, const br_tensor *x, int ndims, const int64_t *sizes,
                  const br_tensor *weight, const br_tensor *bias)
{
    if (!br__floating(op, "x", x))
        return false;
    bool ends = ndims >= 1 && ndims <= x->ndim && sizes;
    for (int i = 0; ends && i < ndims; i++)
        ends = sizes[i] == x->sizes[x->ndim - ndims + i];
    if (!ends) {
        br_fail(BR_ERROR_SHAPE, op, "x %s must end with the normalised shape %s", br__shape(x),
                br__shape_of(ndims, sizes));
        return false;
    }
    return check_affine(op, "weight", x, weight, ndims, sizes) &&
           check_affine(op, "bias", x, bias, ndims, sizes);
}

/* Computes the norm; the arguments have been checked. */
static br_tensor *norm(const br_op *op, br_tensor *x, br_tensor *weight, br_tensor *bias,
                       const settings *s)
{
    const br_backend *backend = BR_BACKEND(op->name, x, layer_norm);
    if (!backend)
        return NULL;
    br_tensor *y = br__new_on(op->name, x, x->ndim, x->sizes, x->dtype);
    br_scope *scope = br_scope_begin();
    br_tensor *rstd = br__new_on(op->name, x, x->ndim - s->ndims, x->sizes, br__computed(x->dtype));
    br_tensor *mean = rstd && s->centred ? br_empty_like(rstd) : NULL;
    br_scope *unrecorded = br_no_grad_begin();
    br_tensor *dense = br_contiguous(x), *dense_weight = weight ? br_contiguous(weight) : NULL;
    br_tensor *dense_bias = bias ? br_contiguous(bias) : NULL;
    if (!br_failed() && y->numel > 0) {
        BR_TRAFFIC(y, dense, dense_weight, dense_bias, mean, rstd);
        backend->layer_norm(&(br_layer_norm_tensors){ .eps = s->eps,
                                                      .x = dense,
                                                      .weight = dense_weight,
                                                      .bias = dense_bias,
                                                      .y = y,
                                                      .mean = mean,
                                                      .rstd = rstd });
    }
    br_scope_end(unrecorded);
    br_node *node = br_record(op, y, BR_INPUTS(x, weight, bias), s, sizeof *s);
    br_save(node, X, x);
    br_save(node, WEIGHT, weight);
    br_save(node, SAVED_MEAN, mean);
    br_save(node, SAVED_RSTD, rstd);
    br_scope_end(scope);
    return br_failed() ? NULL : y;
}

static const br_op layer_norm_op = { .name = "layer_norm", .backward = layer_norm_backward };

br_tensor *br_f_layer_norm(br_tensor *x, int ndims, const int64_t *sizes, br_tensor *weight,
                           br_tensor *bias, double eps)
{
    BR_OP("layer_norm");
    if (!check("layer_norm", x, ndims, sizes, weight, bias))
        return NULL;
    return norm(&layer_norm_op, x, weight, bias, &(settings){ ndims, eps, true });
}

static const br_op rms_norm_op = { .name = "rms_norm", .backward = layer_norm_backward };

br_tensor *br_f_rms_norm(br_tensor *x, int ndims, const int64_t *sizes, br_tensor *weight,
                         double eps)
{
    BR_OP("rms_norm");
    /* PyTorch accepts a weight of any floating-point dtype here, but not in layer_norm. */
    BR_IF_CONVERTED(br__mixed(x, weight) && br__is_floating(weight->dtype) &&
                        weight->dtype != br__computed(x->dtype),
                    br_f_rms_norm(x, ndims, sizes, br_to(weight, br__computed(x->dtype)), eps))
    if (!check("rms_norm", x, ndims, sizes, weight, NULL))
        return NULL;
    if (isnan(eps))
        eps = br__epsilon(x->dtype);
    return norm(&rms_norm_op, x, weight, NULL, &(settings){ ndims, eps, false });
}
