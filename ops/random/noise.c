/* ops/random/noise.c - noise that layers add while they are trained. */
#include "ops/ops_internal.h"
#include "ops/random/random_ops.h"
#include "tensor/device.h"
#include "tensor/host.h"
#include "tensor/random_internal.h"

#include <math.h>

/* ---- Gumbel-softmax -------------------------------------------------------------------------- */

/* Returns numbers of the standard Gumbel distribution: -log(e), e exponential. */
static br_tensor *gumbel_like(const br_tensor *x)
{
    br_scope *scope = br_no_grad_begin();
    br_tensor *e = br__new_exponential("gumbel_softmax", x, false);
    return br__composed(scope, e ? br_neg(br_log(e)) : NULL);
}

/* Returns y - detach(y) + one_hot(largest element of y): the value of the one-hot vector and the
 * gradient of y. */
static br_tensor *straight_through(br_tensor *y, int64_t dim)
{
    br_scope *scope = br_no_grad_begin();
    br_tensor *one_hot = br_scatter_scalar(br_new_zeros(y, br_ndim(y), br_sizes(y), br_dtype_of(y)),
                                           dim, br_argmax(y, dim, true), 1);
    br_tensor *step = br__composed(scope, br_sub(one_hot, y));
    return br_add(step, y);
}

br_tensor *br_gumbel_softmax(br_tensor *logits, double tau, bool hard, int64_t dim)
{
    BR_OP("gumbel_softmax");
    if (!br__floating("gumbel_softmax", "logits", logits))
        return NULL;
    if (!(tau > 0))
        return br_fail(BR_ERROR_ARGUMENT, "gumbel_softmax", "tau is %g, must be greater than 0",
                       tau);
    br_scope *scope = br_scope_begin();
    br_tensor *noise = gumbel_like(logits);
    br_tensor *y = noise ? br_softmax(br_div_scalar(br_add(logits, noise), tau), dim) : NULL;
    return br__composed(scope, y && hard && y->numel > 0 ? straight_through(y, dim) : y);
}

/* ---- Randomized leaky ReLU ------------------------------------------------------------------- */

/* Saved: 0 the slope of each element. */
static void rrelu_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    br_tensor *slopes = br_saved(node, 0);
    dx[0] = slopes ? br_mul(dy, slopes) : NULL;
}

static const br_op rrelu_op = { "rrelu", rrelu_backward, false };

/* Replaces each number by a random slope in [lower, upper) unless it is positive or NaN; these get
 * the slope 1. A slope takes two words of the generator. */
static void draw_slopes(double *x, int64_t n, double lower, double upper)
{
    for (int64_t i = 0; i < n; i++) {
        const double r = x[i] <= 0 ? br_random_double() * (upper - lower) + lower : 1;
        x[i] = x[i] <= 0 && r == upper ? lower : r;
    }
}

/* Returns the slopes of x's elements, in the dtype in which operations compute; the bounds are
 * rounded to it. PyTorch goes through x row by row, whatever its layout is. */
static br_tensor *slopes_of(const br_tensor *x, double lower, double upper)
{
    double *numbers;
    br_tensor *host = br__new_host_f64("rrelu", x->ndim, x->sizes, &numbers);
    br_tensor *slopes = br__new_on("rrelu", x, x->ndim, x->sizes, br__computed(x->dtype));
    if (!host || !slopes || !br__transfer("rrelu", host, x))
        return NULL;
    draw_slopes(numbers, host->numel, br__rounded(slopes->dtype, lower),
                br__rounded(slopes->dtype, upper));
    return br__transfer("rrelu", slopes, host) ? slopes : NULL;
}

static br_tensor *rrelu_in_training(br_tensor *x, double lower, double upper)
{
    br_scope *outer = br_scope_begin(), *scope = br_no_grad_begin();
    br_tensor *slopes = slopes_of(x, lower, upper);
    br_tensor *y = slopes ? br_to(br_mul(x, slopes), x->dtype) : NULL;
    br_tensor *saved = slopes ? br_to(slopes, x->dtype) : NULL;
    saved = br_scope_return(scope, saved);
    y = br_scope_return(scope, y);
    br_scope_end(scope);
    br_node *node = br_record(&rrelu_op, y, BR_INPUTS(x), NULL, 0);
    br_save(node, 0, saved);
    return br__composed(outer, y);
}

br_tensor *br_f_rrelu(br_tensor *x, double lower, double upper, bool training)
{
    BR_OP("rrelu");
    if (!br__floating("rrelu", "x", x))
        return NULL;
    if (!(isfinite(lower) && isfinite(upper) && lower <= upper))
        return br_fail(BR_ERROR_ARGUMENT, "rrelu",
                       "lower is %g and upper is %g: both must be finite, and lower at most upper",
                       lower, upper);
    if (training)
        return rrelu_in_training(x, lower, upper);
    br_scope *scope = br_scope_begin();
    return br__composed(scope, br_leaky_relu(x, (lower + upper) / 2));
}
