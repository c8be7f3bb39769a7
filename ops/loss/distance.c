/* ops/loss/distance.c - losses and distances of elements or vectors: mse, l1, smooth_l1, huber,
 * binary cross entropy, kl_div, cosine_similarity, pairwise_distance.
 *
 * binary_cross_entropy, smooth_l1_loss and huber_loss are operations whose gradients are composed
 * of recorded operations; the others are themselves composed of them. Gradients of any order
 * therefore exist. */
#include "ops/autocast.h"
#include "ops/loss/loss_internal.h"
#include "ops/pointwise/promotion.h"

#include <math.h>

/* ---- Checks and reduction -------------------------------------------------------------------- */

bool br__check_numbers(const char *op, const char *a_name, const br_tensor *a, const char *b_name,
                       const br_tensor *b)
{
    int ndim;
    int64_t sizes[BR_MAX_DIMS];
    return br__is_number(op, a_name, a) && br__compatible(op, a_name, a, b_name, b) &&
           br__broadcast_named(op, a_name, a, b_name, b, &ndim, sizes);
}

bool br__check_broadcastable(const char *op, const char *a_name, const br_tensor *a,
                             const char *b_name, const br_tensor *b)
{
    return br__floating(op, a_name, a) && br__check_numbers(op, a_name, a, b_name, b);
}

static br_tensor *reduced(const char *op, br_tensor *losses, br_reduction reduction)
{
    switch (reduction) {
    case BR_REDUCTION_MEAN:
        return br_mean(losses);
    case BR_REDUCTION_SUM:
        return br_sum(losses);
    case BR_REDUCTION_NONE:
        return losses;
    case BR_REDUCTION_BATCHMEAN:
        break;
    }
    return br_fail(BR_ERROR_ARGUMENT, op, "reduction is %d, must be mean, sum or none",
                   (int)reduction);
}

br_tensor *br__finish_loss(const char *op, br_scope *scope, br_rounding rounding, br_tensor *losses,
                           br_reduction reduction)
{
    return br__composed(scope, br__narrowed(rounding, reduced(op, losses, reduction)));
}

/* Warns of a target that is broadcast, as PyTorch does. A target [n] for an input [n, 1] gives the
 * mean of n^2 losses, which is rarely intended. */
static void warn_of_broadcast(const char *op, const br_tensor *input, const br_tensor *target)
{
    if (br__same_shape(input, target))
        return;
    br_raise(BR_WARNING,
             "%s: target %s has another shape than input %s, so they are broadcast: give both the "
             "same shape",
             op, br__shape(target), br__shape(input));
}

/* Returns factor * x, and 0 where the factor is 0. */
static br_tensor *weighted(br_tensor *x, br_tensor *factor)
{
    return br_mul(factor, br__unless_left_out(x, factor));
}

enum { INPUT, TARGET };

/* ---- Elementwise losses ---------------------------------------------------------------------- */

br_tensor *br_mse_loss(br_tensor *input, br_tensor *target, br_reduction reduction)
{
    BR_OP("mse_loss");
    BR_AUTOCAST(br_mse_loss(RAISE(input), RAISE(target), reduction))
    BR_IF_PROMOTED(input, target, br_mse_loss(input, target, reduction))
    if (!br__check_broadcastable("mse_loss", "input", input, "target", target))
        return NULL;
    warn_of_broadcast("mse_loss", input, target);
    br_scope *scope = br_scope_begin();
    const br_rounding rounding = BR_WIDEN(&input, &target);
    return br__finish_loss("mse_loss", scope, rounding, br_pow_scalar(br_sub(input, target), 2),
                           reduction);
}

br_tensor *br_l1_loss(br_tensor *input, br_tensor *target, br_reduction reduction)
{
    BR_OP("l1_loss");
    BR_AUTOCAST(br_l1_loss(RAISE(input), RAISE(target), reduction))
    BR_IF_PROMOTED(input, target, br_l1_loss(input, target, reduction))
    if (!br__check_broadcastable("l1_loss", "input", input, "target", target))
        return NULL;
    warn_of_broadcast("l1_loss", input, target);
    br_scope *scope = br_scope_begin();
    const br_rounding rounding = BR_WIDEN(&input, &target);
    return br__finish_loss("l1_loss", scope, rounding, br_abs(br_sub(input, target)), reduction);
}

/* Smooth L1 and Huber loss of a difference d. The loss is quadratic for |d| < bound, and continues
 * with the slope that it has there:
 *
 *     smooth L1    d^2 / (2 bound)     or    |d| - bound / 2
 *     Huber        d^2 / 2             or    bound (|d| - bound / 2) */
typedef struct bend {
    double bound;
    bool huber;
} bend;

static const char smooth_l1_loss[] = "smooth_l1_loss", huber_loss[] = "huber_loss";

/* The slope is d / bound or sign(d) for smooth L1, and bound times that for Huber. Its derivative
 * is 0 where |d| = bound, as in PyTorch. */
static br_tensor *composed_slope(br_tensor *d, const bend *b)
{
    br_tensor *flat = b->huber ? d : br_div_scalar(d, b->bound), *steep = br_sign(d);
    if (b->huber)
        steep = br_mul_scalar(steep, b->bound);
    return br_where(br_ge_scalar(br_abs(d), b->bound), steep, flat);
}

static void bend_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    const bend *b = br_params(node);
    const char *op = b->huber ? huber_loss : smooth_l1_loss;
    const br_pointwise kernel =
        b->huber ? BR_POINTWISE(huber_slope) : BR_POINTWISE(smooth_l1_slope);
    br_tensor *input = br_saved(node, INPUT), *target = br_saved(node, TARGET);
    br_tensor *slope = br_grad_enabled() ? composed_slope(br_sub(input, target), b)
                                         : br__binary_with(op, kernel, input, target, &b->bound);
    dx[INPUT] = br_mul(dy, slope);
    if (br_needs_input_grad(node, TARGET))
        dx[TARGET] = br_neg(dx[INPUT]);
}

static const br_op smooth_l1_op = { smooth_l1_loss, bend_backward, false };
static const br_op huber_op = { huber_loss, bend_backward, false };

static br_tensor *bend_loss(br_tensor *input, br_tensor *target, const bend *b)
{
    const br_op *op = b->huber ? &huber_op : &smooth_l1_op;
    BR_IF_PROMOTED(input, target, bend_loss(input, target, b))
    const br_pointwise kernel = b->huber ? BR_POINTWISE(huber) : BR_POINTWISE(smooth_l1);
    br_tensor *y = br__binary_with(op->name, kernel, input, target, &b->bound);
    br_node *node = br_record(op, y, BR_INPUTS(input, target), b, sizeof *b);
    br_save(node, INPUT, input);
    br_save(node, TARGET, target);
    return y;
}

br_tensor *br_smooth_l1_loss(br_tensor *input, br_tensor *target, br_reduction reduction,
                             double beta)
{
    const char *op = smooth_l1_op.name;
    BR_OP(op);
    BR_AUTOCAST(br_smooth_l1_loss(RAISE(input), RAISE(target), reduction, beta))
    if (!br__check_broadcastable(op, "input", input, "target", target))
        return NULL;
    warn_of_broadcast(op, input, target);
    if (!(beta >= 0 && beta < INFINITY))
        return br_fail(BR_ERROR_ARGUMENT, op, "beta is %g, must be finite and at least 0", beta);
    br_scope *scope = br_scope_begin();
    const br_rounding rounding = BR_WIDEN(&input, &target);
    br_tensor *losses =
        beta > 0 ? bend_loss(input, target, &(bend){ beta, false }) : br_abs(br_sub(input, target));
    return br__finish_loss(op, scope, rounding, losses, reduction);
}

br_tensor *br_huber_loss(br_tensor *input, br_tensor *target, br_reduction reduction, double delta)
{
    const char *op = huber_op.name;
    BR_OP(op);
    BR_AUTOCAST(br_huber_loss(RAISE(input), RAISE(target), reduction, delta))
    if (!br__check_broadcastable(op, "input", input, "target", target))
        return NULL;
    warn_of_broadcast(op, input, target);
    if (!(delta > 0 && delta < INFINITY))
        return br_fail(BR_ERROR_ARGUMENT, op, "delta is %g, must be finite and larger than 0",
                       delta);
    br_scope *scope = br_scope_begin();
    const br_rounding rounding = BR_WIDEN(&input, &target);
    br_tensor *losses = bend_loss(input, target, &(bend){ delta, true });
    return br__finish_loss(op, scope, rounding, losses, reduction);
}

/* ---- Losses of probabilities ----------------------------------------------------------------- */

/* The loss is -(w t log s + (1 - t) log(1 - s)) with s = sigmoid(x) and pos_weight w. Each
 * logarithm is computed by softplus: -log s = softplus(-x) and -log(1 - s) = softplus(x). This
 * avoids cancellation where s is close to 0 or 1, also in the gradient. */
static br_tensor *weighted_logistic_loss(br_tensor *x, br_tensor *t, br_tensor *w)
{
    br_tensor *hit = weighted(br_softplus(br_neg(x), 1, INFINITY), t);
    br_tensor *miss = weighted(br_softplus(x, 1, INFINITY), br_rsub_scalar(t, 1));
    return br_add(weighted(hit, w), miss);
}

static const char with_logits[] = "binary_cross_entropy_with_logits";

/* dx = dy ((1 - t) s - t (1 - s)), dt = -dy x. */
static void logistic_loss_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    br_tensor *x = br_saved(node, INPUT), *t = br_saved(node, TARGET);
    if (br_needs_input_grad(node, INPUT)) {
        br_tensor *slope = br_grad_enabled()
                               ? br_sub(br_mul(br_rsub_scalar(t, 1), br__logistic(x)),
                                        br_mul(t, br__logistic(br_neg(x))))
                               : br__binary(with_logits, BR_POINTWISE(logistic_loss_slope), x, t);
        dx[INPUT] = br_mul(dy, slope);
    }
    if (br_needs_input_grad(node, TARGET))
        dx[TARGET] = br_neg(br_mul(dy, x));
}

static const br_op logistic_loss_op = { with_logits, logistic_loss_backward, false };

/* The same without a pos_weight, in one pass. */
static br_tensor *logistic_loss(br_tensor *x, br_tensor *t)
{
    BR_IF_PROMOTED(x, t, logistic_loss(x, t))
    br_tensor *y = br__binary(logistic_loss_op.name, BR_POINTWISE(logistic_loss), x, t);
    br_node *node = br_record(&logistic_loss_op, y, BR_INPUTS(x, t), NULL, 0);
    br_save(node, INPUT, x);
    br_save(node, TARGET, t);
    return y;
}

br_tensor *br_binary_cross_entropy_with_logits(br_tensor *input, br_tensor *target,
                                               br_tensor *weight, br_reduction reduction,
                                               br_tensor *pos_weight)
{
    const char *op = logistic_loss_op.name;
    BR_OP(op);
    BR_AUTOCAST(br_binary_cross_entropy_with_logits(RAISE(input), RAISE(target), RAISE(weight),
                                                    reduction, RAISE(pos_weight)))
    if (!br__check_broadcastable(op, "input", input, "target", target))
        return NULL;
    if (!br__same_shape(input, target))
        return br_fail(BR_ERROR_SHAPE, op, "input %s and target %s: shapes must be equal",
                       br__shape(input), br__shape(target));
    if ((weight && !br__check_broadcastable(op, "input", input, "weight", weight)) ||
        (pos_weight && !br__check_broadcastable(op, "input", input, "pos_weight", pos_weight)))
        return NULL;
    br_scope *scope = br_scope_begin();
    const br_rounding rounding = BR_WIDEN(&input, &target, &weight, &pos_weight);
    br_tensor *losses = pos_weight ? weighted_logistic_loss(input, target, pos_weight)
                                   : logistic_loss(input, target);
    if (weight)
        losses = weighted(losses, weight);
    return br__finish_loss(op, scope, rounding, losses, reduction);
}

/* Returns log p, but at least -100, as in PyTorch. */
static br_tensor *bounded_log(br_tensor *p)
{
    return br_clamp(br_log(p), -100, INFINITY);
}

/* dinput = dy (x - t) / (x (1 - x)), finite where x is 0 or 1; dtarget = dy (log(1-x) - log x). */
static void bce_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    br_tensor *x = br_saved(node, INPUT), *t = br_saved(node, TARGET);
    if (br_needs_input_grad(node, INPUT)) {
        br_tensor *spread = br_clamp(br_mul(br_rsub_scalar(x, 1), x), 1e-12, INFINITY);
        dx[INPUT] = br_mul(dy, br_div(br_sub(x, t), spread));
    }
    if (br_needs_input_grad(node, TARGET))
        dx[TARGET] = br_mul(dy, br_sub(bounded_log(br_rsub_scalar(x, 1)), bounded_log(x)));
}

static const br_op bce_op = { "binary_cross_entropy", bce_backward, false };

/* Computes -(t log x + (1 - t) log(1 - x)), recorded as one operation. */
static br_tensor *bce(br_tensor *x, br_tensor *t)
{
    br_scope *scope = br_no_grad_begin();
    br_tensor *hit = br_mul(t, bounded_log(x));
    br_tensor *miss = br_mul(br_rsub_scalar(t, 1), bounded_log(br_rsub_scalar(x, 1)));
    br_tensor *y = br__composed(scope, br_neg(br_add(hit, miss)));
    br_node *node = br_record(&bce_op, y, BR_INPUTS(x, t), NULL, 0);
    br_save(node, INPUT, x);
    br_save(node, TARGET, t);
    return y;
}

static bool are_probabilities(const char *op, const char *name, br_tensor *x)
{
    br_scope *scope = br_no_grad_begin();
    br_tensor *inside = br_logical_and(br_ge_scalar(x, 0), br_le_scalar(x, 1));
    if (br_item(br_all(inside)) != 1 && !br_failed())
        br_fail(BR_ERROR_ARGUMENT, op, "%s %s has elements outside 0 .. 1", name, br__shape(x));
    br_scope_end(scope);
    return !br_failed();
}

br_tensor *br_binary_cross_entropy(br_tensor *input, br_tensor *target, br_tensor *weight,
                                   br_reduction reduction)
{
    static const char op[] = "binary_cross_entropy";
    BR_OP(op);
    BR_AUTOCAST(br_binary_cross_entropy(RAISE(input), RAISE(target), RAISE(weight), reduction))
    if (!br__check_broadcastable(op, "input", input, "target", target) ||
        (weight && !br__check_broadcastable(op, "input", input, "weight", weight)))
        return NULL;
    if (!br__same_shape(input, target))
        return br_fail(BR_ERROR_SHAPE, op, "input %s and target %s: shapes must be equal",
                       br__shape(input), br__shape(target));
    if (!are_probabilities(op, "input", input) || !are_probabilities(op, "target", target))
        return NULL;
    br_scope *scope = br_scope_begin();
    const br_rounding rounding = BR_WIDEN(&input, &target, &weight);
    br_tensor *losses = bce(input, target);
    return br__finish_loss(op, scope, rounding, weight ? weighted(losses, weight) : losses,
                           reduction);
}

/* The loss is t (log t - x), where x is the logarithm of a probability. It is 0 where t = 0. */
br_tensor *br_kl_div(br_tensor *input, br_tensor *target, br_reduction reduction, bool log_target)
{
    BR_OP("kl_div");
    BR_AUTOCAST(br_kl_div(RAISE(input), RAISE(target), reduction, log_target))
    if (!br__check_broadcastable("kl_div", "input", input, "target", target))
        return NULL;
    if (reduction == BR_REDUCTION_MEAN)
        br_raise(BR_WARNING, "kl_div: the reduction mean divides by the number of elements; "
                             "batchmean gives the Kullback-Leibler divergence");
    br_scope *scope = br_scope_begin();
    const br_rounding rounding = BR_WIDEN(&input, &target);
    br_tensor *losses;
    if (log_target) {
        losses = weighted(br_sub(target, input), br_exp(target));
    } else {
        br_tensor *entropy = br_mul(target, br_log(target));
        entropy = br_masked_fill(entropy, br_eq_scalar(target, 0), 0);
        losses = br_sub(entropy, weighted(input, target));
    }
    if (reduction != BR_REDUCTION_BATCHMEAN)
        return br__finish_loss("kl_div", scope, rounding, losses, reduction);
    double batch = input->ndim > 0 ? (double)input->sizes[0] : 1;
    return br__composed(scope, br__narrowed(rounding, br_div_scalar(br_sum(losses), batch)));
}

/* ---- Similarity and distance of vectors ------------------------------------------------------ */

/* Returns max(|x|, eps), where |x| is the 2-norm along dim, which keeps size 1; the gradient is 0
 * below eps. */
static br_tensor *length(br_tensor *x, int64_t dim, double eps)
{
    return br_clamp(br_norm_dim(x, 2, BR_DIMS(dim), true), eps, INFINITY);
}

br_tensor *br_cosine_similarity(br_tensor *x1, br_tensor *x2, int64_t dim, double eps)
{
    static const char op[] = "cosine_similarity";
    BR_OP(op);
    BR_IF_PROMOTED(x1, x2, br_cosine_similarity(x1, x2, dim, eps))
    if (!br__check_broadcastable(op, "x1", x1, "x2", x2))
        return NULL;
    int ndim;
    br_tensor both = { .dtype = x1->dtype };
    br__broadcast_named(op, "x1", x1, "x2", x2, &ndim, both.sizes);
    both.ndim = ndim;
    if (!br__wrap_dim(op, "dim", &both, &dim))
        return NULL;
    br_scope *scope = br_scope_begin();
    const br_rounding rounding = BR_WIDEN(&x1, &x2);
    br_tensor *a = br_expand(x1, ndim, both.sizes), *b = br_expand(x2, ndim, both.sizes);
    /* Each vector is divided by its own length, as in PyTorch: a product of lengths could
     * underflow. */
    br_tensor *y = br_mul(br_div(a, length(a, dim, eps)), br_div(b, length(b, dim, eps)));
    y = br_sum_dim(y, BR_DIMS(dim), false);
    return br__finish_loss(op, scope, rounding, y, BR_REDUCTION_NONE);
}

br_tensor *br_pairwise_distance(br_tensor *x1, br_tensor *x2, double p, double eps, bool keepdim)
{
    static const char op[] = "pairwise_distance";
    BR_OP(op);
    BR_IF_PROMOTED(x1, x2, br_pairwise_distance(x1, x2, p, eps, keepdim))
    if (!br__check_numbers(op, "x1", x1, "x2", x2))
        return NULL;
    br_scope *scope = br_scope_begin();
    const br_rounding rounding = BR_WIDEN(&x1, &x2);
    br_tensor *difference = br_add_scalar(br__as_floating(br_sub(x1, x2)), eps);
    br_tensor *y = br_norm_dim(difference, p, BR_DIMS(-1), keepdim);
    return br__composed(scope, br__narrowed(rounding, y));
}
