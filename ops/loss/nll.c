/* ops/loss/nll.c - nll_loss, and cross_entropy in all its variants, composed of recorded
 * operations. The fused cross_entropy (ops/loss/cross_entropy.c) supports neither probabilities as
 * targets nor gradients of weights. */
#include "ops/autocast.h"
#include "ops/index/index_internal.h"
#include "ops/loss/class_loss.h"
#include "ops/loss/loss_internal.h"
#include "ops/scaling.h"

#include <inttypes.h>
#include <string.h>

BR_DEFINE_DEFAULTS(br_cross_entropy)

/* ---- Checks ---------------------------------------------------------------------------------- */

bool br__check_reduction(const char *op, br_reduction reduction)
{
    if (reduction != BR_REDUCTION_MEAN && reduction != BR_REDUCTION_SUM &&
        reduction != BR_REDUCTION_NONE)
        br_fail(BR_ERROR_ARGUMENT, op, "reduction is %d, must be mean, sum or none",
                (int)reduction);
    return !br_failed();
}

static bool check_weight(const char *op, const br_tensor *input, const br_tensor *weight)
{
    if (!weight)
        return true;
    int64_t classes = input->sizes[br__class_dim(input)];
    if (br__compatible(op, "input", input, "weight", weight) &&
        (weight->ndim != 1 || weight->sizes[0] != classes))
        br_fail(BR_ERROR_SHAPE, op, "weight %s for input %s: must have one element for each class",
                br__shape(weight), br__shape(input));
    return !br_failed();
}

bool br__check_label_smoothing(const char *op, double s)
{
    if (!(s >= 0 && s <= 1))
        br_fail(BR_ERROR_ARGUMENT, op, "label_smoothing is %g, must be in 0 .. 1", s);
    return !br_failed();
}

bool br__check_class_options(const char *op, const br_tensor *input,
                             const br_cross_entropy_options *options)
{
    return br__check_label_smoothing(op, options->label_smoothing) &&
           check_weight(op, input, options->weight);
}

br_tensor *br__unless_left_out(br_tensor *x, br_tensor *factor)
{
    if (br__finite(x))
        return x;
    br_tensor *left_out = br_logical_and(br_eq_scalar(factor, 0), br_logical_not(br_isfinite(x)));
    return br_masked_fill(x, left_out, 0);
}

/* ---- Parts ----------------------------------------------------------------------------------- */

/* The targets' indices, 0 where they are ignored, and the weights of their classes (1 without
 * weights), also 0 where they are ignored. */
typedef struct chosen {
    br_tensor *index, *weight;
} chosen;

static chosen choose(br_tensor *input, br_tensor *target, const br_cross_entropy_options *o)
{
    br_tensor *ignored = br__equals_integer(target, o->ignore_index);
    chosen c = { br_masked_fill(target, ignored, 0), NULL };
    if (o->weight)
        c.weight = br_take(o->weight, c.index);
    else if (target)
        c.weight = br_new_ones(input, br_ndim(target), br_sizes(target), br_dtype_of(input));
    c.weight = br_masked_fill(c.weight, ignored, 0);
    return c;
}

/* The mean divides by the sum of the weights. */
static br_tensor *reduced(br_tensor *losses, br_tensor *weight, br_reduction reduction)
{
    if (reduction == BR_REDUCTION_NONE)
        return losses;
    br_tensor *sum = br_sum(losses);
    return reduction == BR_REDUCTION_SUM ? sum : br_div(sum, br_sum(weight));
}

/* Returns -weight * log p of the targets, not reduced. */
static br_tensor *picked(br_tensor *log_p, const chosen *c)
{
    int64_t dim = br__class_dim(log_p);
    br_tensor *own = br_squeeze(br_gather(log_p, dim, br_unsqueeze(c->index, dim)), dim);
    return br_neg(br_mul(br__unless_left_out(own, c->weight), c->weight));
}

/* ---- nll_loss -------------------------------------------------------------------------------- */

br_tensor *br_nll_loss(br_tensor *input, br_tensor *target, const br_cross_entropy_options *options)
{
    static const char op[] = "nll_loss";
    BR_OP(op);
    BR_AUTOCAST(br_nll_loss(RAISE(input), RAISE(target), options))
    BR_IF_BYTE_TARGET(target, br_nll_loss(input, target, options))
    options = BR_OPTIONS_OF(op, br_cross_entropy, options);
    br_reduction reduction = options->reduction;
    if (!br__check_targets(op, input, target, options->ignore_index) ||
        !br__check_reduction(op, reduction) || !check_weight(op, input, options->weight))
        return NULL;
    if (options->label_smoothing != 0)
        return br_fail(BR_ERROR_ARGUMENT, op,
                       "label_smoothing must be 0: only cross_entropy supports it");
    br_scope *scope = br_scope_begin();
    chosen c = choose(input, target, options);
    return br__composed(scope, reduced(picked(input, &c), c.weight, reduction));
}

/* ---- cross_entropy --------------------------------------------------------------------------- */

/* Label smoothing: (1 - s) times the loss of the target, plus s times the mean over all classes.
 * The second term is also weighted, and it is 0 for ignored targets. */
static br_tensor *smoothed(br_tensor *log_p, const chosen *c, br_tensor *ignored,
                           const br_cross_entropy_options *o)
{
    int64_t dim = br__class_dim(log_p);
    double s = o->label_smoothing, classes = (double)br_size(log_p, dim);
    br_tensor *weight = o->weight ? br__along_classes(o->weight, log_p) : NULL;
    br_tensor *all = weight ? br_mul(br__unless_left_out(log_p, weight), weight) : log_p;
    all = br_masked_fill(br_neg(br_sum_dim(all, BR_DIMS(dim), false)), ignored, 0);
    all = br_mul_scalar(all, s / classes);
    return s == 1 ? all : br_add(br_mul_scalar(picked(log_p, c), 1 - s), all);
}

static br_tensor *of_indices(br_tensor *input, br_tensor *target, const br_cross_entropy_options *o)
{
    br_tensor *log_p = br_log_softmax(input, br__class_dim(input));
    chosen c = choose(input, target, o);
    if (br_failed())
        return NULL;
    br_tensor *losses = o->label_smoothing > 0
                            ? smoothed(log_p, &c, br__equals_integer(target, o->ignore_index), o)
                            : picked(log_p, &c);
    return reduced(losses, c.weight, o->reduction);
}

/* Computes the loss for targets that are probabilities. The mean is over all dimensions except the
 * classes. */
static br_tensor *of_probabilities(br_tensor *input, br_tensor *target,
                                   const br_cross_entropy_options *o)
{
    int64_t dim = br__class_dim(input), classes = input->sizes[dim];
    double s = o->label_smoothing;
    br_reduction reduction = o->reduction;
    br_tensor *log_p = br_log_softmax(input, dim);
    if (s > 0)
        target = br_add_scalar(br_mul_scalar(target, 1 - s), s / (double)classes);
    br_tensor *terms = br_mul(br__unless_left_out(log_p, target), target);
    if (o->weight) {
        br_tensor *weight = br__along_classes(o->weight, input);
        terms = br_mul(br__unless_left_out(terms, weight), weight);
    }
    br_tensor *losses = br_neg(br_sum_dim(terms, BR_DIMS(dim), false));
    if (reduction == BR_REDUCTION_NONE)
        return losses;
    return reduction == BR_REDUCTION_SUM ? br_sum(losses) : br_mean(losses);
}

br_tensor *br__cross_entropy_composed(br_tensor *input, br_tensor *target,
                                      const br_cross_entropy_options *options)
{
    static const char op[] = "cross_entropy";
    bool probabilities = br_is_floating(target);
    if (probabilities) {
        if (!br__compatible(op, "input", input, "target", target))
            return NULL;
        if (target->ndim == input->ndim - 1) /* probably class indices of a wrong dtype */
            return br_fail(BR_ERROR_DTYPE, op,
                           "target %s is %s, must be i64 or u8 (convert it with br_to()), or "
                           "probabilities of shape %s",
                           br__shape(target), br_dtype_name(target->dtype), br__shape(input));
        if (!br__same_shape(input, target) || input->ndim == 0)
            return br_fail(
                BR_ERROR_SHAPE, op,
                "input %s and target %s: a floating-point target holds probabilities and must have "
                "the input's shape; convert class indices with br_to(target, BR_I64)",
                br__shape(input), br__shape(target));
        if (options->ignore_index >= 0)
            return br_fail(BR_ERROR_ARGUMENT, op,
                           "ignore_index is %" PRId64 ", but the target holds probabilities, of "
                           "which none can be ignored: leave ignore_index out",
                           options->ignore_index);
    } else if (!br__check_targets(op, input, target, options->ignore_index)) {
        return NULL;
    }
    if (!br__floating(op, "input", input) || !br__check_class_options(op, input, options))
        return NULL;
    br_scope *scope = br_scope_begin();
    return br__composed(scope,
                        (probabilities ? of_probabilities : of_indices)(input, target, options));
}
