/* ops/loss/likelihood.c - negative log likelihoods of Poisson and normal distributions, and margins
 * of several classes. */
#include "ops/index/index_internal.h"
#include "ops/loss/loss_internal.h"
#include "ops/pointwise/promotion.h"

#include <inttypes.h>
#include <math.h>

/* ---- poisson_nll_loss ------------------------------------------------------------------------ */

/* Returns Stirling's approximation of log(t!): t log t - t + log(2 pi t) / 2; 0 for t <= 1. */
static br_tensor *log_factorial(br_tensor *target)
{
    br_tensor *small = br_le_scalar(target, 1);
    br_tensor *t = br_masked_fill(br__as_floating(target), small, 1);
    br_tensor *log_t = br_log(t);
    br_tensor *root = br_mul_scalar(br_log(br_mul_scalar(t, 2 * M_PI)), 0.5);
    return br_masked_fill(br_add(br_sub(br_mul(t, log_t), t), root), small, 0);
}

br_tensor *br_poisson_nll_loss(br_tensor *input, br_tensor *target, bool log_input, bool full,
                               double eps, br_reduction reduction)
{
    static const char op[] = "poisson_nll_loss";
    BR_OP(op);
    BR_IF_PROMOTED(input, target,
                   br_poisson_nll_loss(input, target, log_input, full, eps, reduction))
    if (!br__check_numbers(op, "input", input, "target", target))
        return NULL;
    if (!br_is_floating(input)) { /* sums of terms that cancel are rounded once */
        br_scope *scope = br_scope_begin();
        br_tensor *y = br_poisson_nll_loss(br_to(input, BR_F64), br_to(target, BR_F64), log_input,
                                           full, eps, reduction);
        return br__composed(scope, br_to(y, br__default_dtype(BR_KIND_FLOATING)));
    }
    br_scope *scope = br_scope_begin();
    const br_rounding rounding = BR_WIDEN(&input, &target);
    br_tensor *losses;
    if (log_input)
        losses = br_sub(br_exp(input), br_mul(target, input));
    else
        losses = br_sub(input, br_mul(target, br_log(br_add_scalar(input, eps))));
    if (full)
        losses = br_add(losses, log_factorial(target));
    return br__finish_loss(op, scope, rounding, losses, reduction);
}

/* ---- gaussian_nll_loss ----------------------------------------------------------------------- */

static void pass_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    (void)node;
    dx[0] = dy;
}

/* Returns max(x, least); the gradient passes also where x is smaller, as in PyTorch. */
static br_tensor *at_least(br_tensor *x, double least)
{
    static const br_op op = { "gaussian_nll_loss", pass_backward, false };
    br_scope *scope = br_no_grad_begin();
    br_tensor *y = br__composed(scope, br_clamp(x, least, INFINITY));
    br_record(&op, y, BR_INPUTS(x), NULL, 0);
    return y;
}

/* Returns var with a last dimension of size 1 if it lacks the last one of the input. */
static br_tensor *with_last(br_tensor *var, const br_tensor *input)
{
    bool lacks = var->ndim == input->ndim - 1;
    for (int d = 0; lacks && d < var->ndim; d++)
        lacks = var->sizes[d] == input->sizes[d];
    return lacks ? br_unsqueeze(var, -1) : var;
}

static bool is_variance(const char *op, br_tensor *var)
{
    br_scope *scope = br_no_grad_begin();
    if (br_item(br_any(br_lt_scalar(var, 0))) != 0 && !br_failed())
        br_fail(BR_ERROR_ARGUMENT, op, "var %s has elements below 0", br__shape(var));
    br_scope_end(scope);
    return !br_failed();
}

br_tensor *br_gaussian_nll_loss(br_tensor *input, br_tensor *target, br_tensor *var, bool full,
                                double eps, br_reduction reduction)
{
    static const char op[] = "gaussian_nll_loss";
    BR_OP(op);
    if (!br__check_broadcastable(op, "input", input, "target", target) ||
        !br__compatible(op, "input", input, "var", var) || !is_variance(op, var))
        return NULL;
    br_scope *scope = br_scope_begin();
    br_tensor *own = with_last(var, input);
    int ndim;
    int64_t sizes[BR_MAX_DIMS];
    if (!own || !br__broadcast_named(op, "input", input, "var", own, &ndim, sizes))
        return br__composed(scope, NULL);
    const br_rounding rounding = BR_WIDEN(&input, &target, &own);
    own = at_least(own, eps);
    br_tensor *distance = br_square(br_sub(input, target));
    br_tensor *losses = br_mul_scalar(br_add(br_log(own), br_div(distance, own)), 0.5);
    if (full)
        losses = br_add_scalar(losses, 0.5 * log(2 * M_PI));
    return br__finish_loss(op, scope, rounding, losses, reduction);
}

/* ---- multi_margin_loss, multilabel_soft_margin_loss ------------------------------------------ */

static bool check_margin(const char *op, const br_tensor *input, br_tensor *target, int64_t p,
                         const br_tensor *weight)
{
    if (!br__floating(op, "input", input) ||
        !br__same_device(op, "input", input, "target", target) ||
        !br__has_dtype(op, "target", target, BR_I64) ||
        (weight && !br__compatible(op, "input", input, "weight", weight)))
        return false;
    const int64_t rows = input->ndim == 2 ? input->sizes[0] : 1;
    const int64_t classes = input->ndim == 0 ? 1 : input->sizes[input->ndim - 1];
    if (input->ndim > 2 || classes == 0 || target->ndim > 1 || target->numel != rows)
        br_fail(BR_ERROR_SHAPE, op, "input %s and target %s: must be [n, c] and [n], or [c] and []",
                br__shape(input), br__shape(target));
    else if (p != 1 && p != 2)
        br_fail(BR_ERROR_ARGUMENT, op, "p is %" PRId64 ", must be 1 or 2", p);
    else if (weight && (weight->ndim != 1 || weight->sizes[0] != classes))
        br_fail(BR_ERROR_SHAPE, op, "weight %s must have shape [%" PRId64 "] for input %s",
                br__shape(weight), classes, br__shape(input));
    return !br_failed() &&
           br__check_index(op, target, input, input->ndim == 0 ? 0 : input->ndim - 1);
}

br_tensor *br_multi_margin_loss(br_tensor *input, br_tensor *target, int64_t p, double margin,
                                br_tensor *weight, br_reduction reduction)
{
    static const char op[] = "multi_margin_loss";
    BR_OP(op);
    if (!br__check_reduction(op, reduction) || !check_margin(op, input, target, p, weight))
        return NULL;
    const int64_t classes = input->ndim == 0 ? 1 : input->sizes[input->ndim - 1];
    const bool single = input->ndim < 2 && target->ndim == 0;
    br_scope *scope = br_scope_begin();
    const br_rounding rounding = BR_WIDEN(&input, &weight);
    br_tensor *x = br_reshape(input, BR_SHAPE(target->numel, classes));
    br_tensor *class = br_reshape(target, BR_SHAPE(target->numel, 1));
    br_tensor *above = br_add_scalar(br_sub(x, br_gather(x, 1, class)), margin);
    above = br_clamp(above, 0, INFINITY);
    if (p == 2)
        above = br_mul(above, above);
    if (weight)
        above =
            br_mul(above, br_unsqueeze(br_index_select(weight, 0, br_flatten(class, 0, -1)), 1));
    br_tensor *losses = br_sum_dim(br_scatter_scalar(above, 1, class, 0), BR_DIMS(1), false);
    losses = br_div_scalar(losses, (double)classes);
    if (single)
        losses = br_reshape(losses, BR_SCALAR);
    return br__finish_loss(op, scope, rounding, losses, reduction);
}

br_tensor *br_multilabel_soft_margin_loss(br_tensor *input, br_tensor *target, br_tensor *weight,
                                          br_reduction reduction)
{
    static const char op[] = "multilabel_soft_margin_loss";
    BR_OP(op);
    if (!br__check_broadcastable(op, "input", input, "target", target) ||
        (weight && !br__check_broadcastable(op, "input", input, "weight", weight)))
        return NULL;
    if (input->ndim < 1 || !br__same_shape(input, target) || input->sizes[input->ndim - 1] == 0)
        return br_fail(BR_ERROR_SHAPE, op,
                       "input %s and target %s: must be [*, c] with the same sizes and c > 0",
                       br__shape(input), br__shape(target));
    br_scope *scope = br_scope_begin();
    const br_rounding rounding = BR_WIDEN(&input, &target, &weight);
    br_tensor *losses =
        br_neg(br_add(br_mul(target, br_logsigmoid(input)),
                      br_mul(br_rsub_scalar(target, 1), br_logsigmoid(br_neg(input)))));
    if (weight)
        losses = br_mul(losses, weight);
    const double classes = (double)br_size(input, -1);
    losses = br_div_scalar(br_sum_dim(losses, BR_DIMS(-1), false), classes);
    return br__finish_loss(op, scope, rounding, losses, reduction);
}
