/* ops/norm/channel_norm.c - batch, group and instance norm.
 *
 * x is viewed as [batch, channels, inner]. One set of statistics covers `group` adjacent channels,
 * of one item of the batch or, in batch norm, of all items. The operation saves x, weight, mean and
 * rstd = 1 / sqrt(variance + eps), which have one element for each channel of each set. */
#include "autograd/in_place.h"
#include "ops/composed_internal.h"
#include "ops/pointwise/widen.h"
#include "ops/scaling.h"

#include <inttypes.h>
#include <math.h>

enum { X, WEIGHT, BIAS }; /* inputs; the first two are saved under the same numbers */
enum { SAVED_MEAN = 2, SAVED_RSTD = 3 };

typedef struct settings {
    int64_t group;
    bool across;   /* statistics cover the whole batch */
    bool computed; /* statistics come from x; else they are given, and the gradient treats them as
                      constants */
    double eps;
} settings;
_Static_assert(sizeof(settings) <= BR_COMPOSED_PARAMS, "composed_internal.h");

/* ---- Gradient -------------------------------------------------------------------------------- */

/* Computes the norm of x and weight by plain operations; the bias does not affect their gradients.
 * Statistics that were given are inputs 2 and 3. */
static void compose(br_tensor *const *inputs, const void *params, br_tensor **outputs)
{
    const settings *p = params;
    br_tensor *x = inputs[X], *weight = inputs[WEIGHT];
    const int64_t batch = br_size(x, 0), channels = br_size(x, 1), groups = channels / p->group;
    const int64_t items = batch * channels, inner = items > 0 ? br_numel(x) / items : 0;
    br_tensor *seen = br_reshape(x, BR_SHAPE(batch, groups, p->group, inner));
    br_tensor *y;
    if (p->computed) {
        int64_t dims[] = { 2, 3, 0 };
        int n = p->across ? 3 : 2;
        br_tensor *scale = br__scale_of_large("norm_backward", seen, p->across ? 0xd : 0xc);
        if (scale)
            seen = br_div(seen, scale);
        br_tensor *centred = br_sub(seen, br_mean_dim(seen, n, dims, true));
        br_tensor *variance = br_mean_dim(br_mul(centred, centred), n, dims, true);
        y = br_mul(centred, br_rsqrt(br__add_scaled_eps(variance, p->eps, scale)));
    } else {
        const int64_t sizes[] = { groups, 1, 1 };
        y = br_mul(br_sub(seen, br_reshape(inputs[SAVED_MEAN], 3, sizes)),
                   br_reshape(inputs[SAVED_RSTD], 3, sizes));
    }
    if (weight)
        y = br_mul(y, br_reshape(weight, BR_SHAPE(groups, p->group, 1)));
    outputs[0] = br_reshape(y, br_ndim(x), br_sizes(x));
}

/* Returns false if the backend cannot represent the gradient's coefficients, such as rstd^3 times a
 * sum. */
static bool fused_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    static const char op[] = "norm_backward";
    const settings *p = br_params(node);
    br_tensor *x = br_contiguous(br_saved(node, X)), *weight = br_saved(node, WEIGHT);
    br_tensor *mean = br_saved(node, SAVED_MEAN), *rstd = br_saved(node, SAVED_RSTD);
    dy = br_contiguous(dy);
    weight = weight ? br_contiguous(weight) : NULL;
    const br_backend *backend = br_failed() ? NULL : BR_BACKEND(op, x, channel_norm_grad);
    if (!backend || !backend->channel_norm_fits(rstd))
        return !backend;
    const br_dtype dtype = br__computed(x->dtype); /* autograd rounds it to that of the weight */
    for (int i = X; i <= BIAS; i++)
        if (br_needs_input_grad(node, i))
            dx[i] = i == X ? br_empty_like(x) : br__new_on(op, x, BR_SHAPE(x->sizes[1]), dtype);
    if (br_failed())
        return true;
    BR_TRAFFIC(x, dy, mean);
    if (dx[X])
        BR_TRAFFIC(dx[X], p->computed ? x : NULL, dy);
    backend->channel_norm_grad(op, &(br_channel_norm_work){ .group = p->group,
                                                            .across = p->across,
                                                            .computed = p->computed,
                                                            .eps = p->eps,
                                                            .x = x,
                                                            .weight = weight,
                                                            .mean = mean,
                                                            .rstd = rstd,
                                                            .dy = dy,
                                                            .dx = dx[X],
                                                            .dweight = dx[WEIGHT],
                                                            .dbias = dx[BIAS] });
    return true;
}

static void norm_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    const settings *p = br_params(node);
    if (!br_grad_enabled() && fused_backward(node, dy, dx))
        return;
    br_tensor *given[] = { br_saved(node, X), br_saved(node, WEIGHT), br_saved(node, SAVED_MEAN),
                           br_saved(node, SAVED_RSTD) };
    br__composed_backward(node, compose, p->computed ? 2 : 4, given, 1, &dy, p, sizeof *p, dx);
    int64_t dims[BR_MAX_DIMS] = { 0 };
    for (int d = 1; d + 1 < dy->ndim; d++)
        dims[d] = d + 1;
    if (br_needs_input_grad(node, BIAS))
        dx[BIAS] = br_sum_dim(dy, dy->ndim - 1, dims, false);
}

/* ---- Forward --------------------------------------------------------------------------------- */

static bool check_channels(const char *op, const char *name, const br_tensor *x, const br_tensor *t)
{
    if (!t)
        return !br_failed();
    if (!br__fits_norm(op, x, name, t))
        return false;
    if (t->ndim == 1 && t->sizes[0] == x->sizes[1])
        return true;
    br_fail(BR_ERROR_SHAPE, op,
            "%s %s must have shape [%" PRId64 "], the number of channels of x %s", name,
            br__shape(t), x->sizes[1], br__shape(x));
    return false;
}

static bool check(const char *op, const br_tensor *x, const br_tensor *weight,
                  const br_tensor *bias)
{
    if (!br__floating(op, "x", x))
        return false;
    if (x->ndim < 2) {
        br_fail(BR_ERROR_SHAPE, op, "x %s must have at least 2 dimensions: batch, channels",
                br__shape(x));
        return false;
    }
    return check_channels(op, "weight", x, weight) && check_channels(op, "bias", x, bias);
}

/* Checks the running statistics, which are required unless the statistics are computed from x. */
static bool check_running(const char *op, const br_tensor *x, const br_tensor *mean,
                          const br_tensor *var, bool computed)
{
    return check_channels(op, "running_mean", x, mean) &&
           check_channels(op, "running_var", x, var) &&
           (computed ||
            (br__required(op, "running_mean", mean) && br__required(op, "running_var", var)));
}

static const char *const running_names[] = { "running_mean", "running_var" };

/* Checks that the running statistics may change, and stores copies of them, which the kernel
 * changes. The copies are moved out of the scope. */
static bool copy_running(const char *op, br_scope *scope, br_tensor *const *running,
                         br_tensor **copies)
{
    for (int k = 0; k < 2; k++) /* first both checks: a refused tensor leaves the other as it is */
        if (running[k] && !br__can_change(op, running_names[k], running[k], BR_INPUTS(running[k])))
            return false;
    for (int k = 0; k < 2; k++)
        copies[k] = running[k] ? br_scope_return(scope, br_clone(running[k])) : NULL;
    return !br_failed();
}

/* Replaces the running statistics by the changed copies. Nothing can fail any more. */
static void store_running(const char *op, br_tensor *const *running, br_tensor *const *copies)
{
    for (int k = 0; k < 2; k++)
        if (running[k] && copies[k] &&
            br__before_change(op, running_names[k], running[k], BR_INPUTS(running[k])))
            br__transfer(op, running[k], copies[k]);
}

/* Computes the norm; the arguments have been checked. `running` has two entries, which may be
 * NULL. */
static br_tensor *norm(const br_op *op, const settings *s, br_tensor *x, br_tensor *weight,
                       br_tensor *bias, br_tensor *const *running, double momentum)
{
    const br_backend *backend = BR_BACKEND(op->name, x, channel_norm);
    if (!backend)
        return NULL;
    const int64_t coefficients[] = { s->across ? 1 : x->sizes[0], x->sizes[1] };
    br_tensor *y = br__new_on(op->name, x, x->ndim, x->sizes, x->dtype);
    br_scope *scope = br_scope_begin();
    br_tensor *mean = br__new_on(op->name, x, 2, coefficients, br__computed(x->dtype));
    br_tensor *rstd = br__new_on(op->name, x, 2, coefficients, br__computed(x->dtype));
    br_scope *unrecorded = br_no_grad_begin();
    br_tensor *dense = br_contiguous(x), *dense_weight = weight ? br_contiguous(weight) : NULL;
    br_tensor *dense_bias = bias ? br_contiguous(bias) : NULL;
    br_tensor *copies[2] = { running[0], running[1] };
    bool ok = !br_failed() && x->numel > 0;
    if (ok && (!s->computed || copy_running(op->name, unrecorded, running, copies))) {
        if (s->computed)
            BR_TRAFFIC(x);
        BR_TRAFFIC(y, x, mean, rstd);
        backend->channel_norm(op->name, &(br_channel_norm_work){ .group = s->group,
                                                                 .across = s->across,
                                                                 .computed = s->computed,
                                                                 .eps = s->eps,
                                                                 .momentum = momentum,
                                                                 .x = dense,
                                                                 .weight = dense_weight,
                                                                 .bias = dense_bias,
                                                                 .running_mean = copies[0],
                                                                 .running_var = copies[1],
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
    if (ok && s->computed && !br_failed()) {
        br_scope *uncounted = br_no_grad_begin();
        store_running(op->name, running, copies);
        br_scope_end(uncounted);
    }
    br_scope_end(scope);
    return br_failed() ? NULL : y;
}

static const br_op batch_norm_op = { .name = "batch_norm", .backward = norm_backward };

br_tensor *br_f_batch_norm(br_tensor *x, br_tensor *running_mean, br_tensor *running_var,
                           br_tensor *weight, br_tensor *bias, bool training, double momentum,
                           double eps)
{
    const char *op = "batch_norm";
    BR_OP(op);
    if (!check(op, x, weight, bias) || !check_running(op, x, running_mean, running_var, training))
        return NULL;
    if (training && x->sizes[1] > 0 && x->numel == x->sizes[1])
        return br_fail(BR_ERROR_SHAPE, op,
                       "x %s has only one value per channel, but training requires more",
                       br__shape(x));
    if (training && !(eps > 0))
        return br_fail(BR_ERROR_ARGUMENT, op, "eps is %g, must be positive in training", eps);
    settings s = { .group = 1, .across = true, .computed = training, .eps = eps };
    return norm(&batch_norm_op, &s, x, weight, bias, (br_tensor *[]){ running_mean, running_var },
                momentum);
}

static const br_op group_norm_op = { .name = "group_norm", .backward = norm_backward };
static const br_op instance_norm_op = { .name = "instance_norm", .backward = norm_backward };

br_tensor *br_f_group_norm(br_tensor *x, int64_t num_groups, br_tensor *weight, br_tensor *bias,
                           double eps)
{
    const char *op = group_norm_op.name;
    BR_OP(op);
    if (!check(op, x, weight, bias))
        return NULL;
    if (num_groups < 1 || x->sizes[1] % num_groups != 0)
        return br_fail(BR_ERROR_SHAPE, op,
                       "num_groups is %" PRId64 ", must be at least 1 and divide the %" PRId64
                       " channels of x %s",
                       num_groups, x->sizes[1], br__shape(x));
    settings s = { .group = x->sizes[1] / num_groups, .computed = true, .eps = eps };
    return norm(&group_norm_op, &s, x, weight, bias, (br_tensor *[]){ NULL, NULL }, 0);
}

br_tensor *br_f_instance_norm(br_tensor *x, br_tensor *running_mean, br_tensor *running_var,
                              br_tensor *weight, br_tensor *bias, bool use_input_stats,
                              double momentum, double eps)
{
    const char *op = instance_norm_op.name;
    BR_OP(op);
    if (!check(op, x, weight, bias) ||
        !check_running(op, x, running_mean, running_var, use_input_stats))
        return NULL;
    if (x->ndim < 3 || (use_input_stats && x->numel > 0 && x->numel == x->sizes[0] * x->sizes[1]))
        return br_fail(BR_ERROR_SHAPE, op,
                       "x %s must have more than one spatial element in the dimensions after "
                       "batch and channels",
                       br__shape(x));
    settings s = {
        .group = 1, .across = !use_input_stats, .computed = use_input_stats, .eps = eps
    };
    return norm(&instance_norm_op, &s, x, weight, bias,
                (br_tensor *[]){ running_mean, running_var }, momentum);
}
