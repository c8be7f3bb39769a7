/* ops/loss/fine_tuning.c - losses of fine-tuning: contrastive, preference, distillation. All are
 * composed of recorded operations. */
#include "ops/autocast.h"
#include "ops/loss/loss_internal.h"

#include <math.h>

BR_DEFINE_DEFAULTS(br_dpo)

/* ---- Contrastive ----------------------------------------------------------------------------- */

br_tensor *br_info_nce_loss(br_tensor *anchors, br_tensor *candidates, double scale)
{
    static const char op[] = "info_nce_loss";
    BR_OP(op);
    BR_AUTOCAST(br_info_nce_loss(RAISE(anchors), RAISE(candidates), scale))
    if (!br__floating(op, "anchors", anchors) ||
        !br__compatible(op, "anchors", anchors, "candidates", candidates))
        return NULL;
    if (anchors->ndim != 2 || candidates->ndim != 2 || anchors->sizes[1] != candidates->sizes[1] ||
        candidates->sizes[0] < anchors->sizes[0])
        return br_fail(BR_ERROR_SHAPE, op,
                       "anchors %s and candidates %s: must be [n, d] and [m, d], with m >= n: "
                       "candidate i belongs to anchor i",
                       br__shape(anchors), br__shape(candidates));
    br_scope *scope = br_scope_begin();
    const br_rounding rounding = BR_WIDEN(&anchors, &candidates);
    br_tensor *scores =
        br_matmul(br_normalize(anchors, 2, 1, 1e-12), br_t(br_normalize(candidates, 2, 1, 1e-12)));
    br_tensor *own = br_arange(0, (double)anchors->sizes[0], 1, BR_I64);
    br_tensor *losses = br_cross_entropy(br_mul_scalar(scores, scale), own, NULL);
    return br__composed(scope, br__narrowed(rounding, losses));
}

/* ---- Preference ------------------------------------------------------------------------------ */

static bool check_dpo(const char *op, const br_dpo_options *o)
{
    if (!(o->beta > 0) || !isfinite(o->beta))
        return br_fail(BR_ERROR_ARGUMENT, op, "beta is %g, must be positive", o->beta);
    if (!(o->label_smoothing >= 0 && o->label_smoothing < 0.5))
        return br_fail(BR_ERROR_ARGUMENT, op, "label_smoothing is %g, must be in 0 .. 0.5",
                       o->label_smoothing);
    if ((unsigned)o->loss_type > BR_DPO_IPO)
        return br_fail(BR_ERROR_ARGUMENT, op,
                       "loss_type is %d, must be BR_DPO_SIGMOID, BR_DPO_HINGE or BR_DPO_IPO",
                       (int)o->loss_type);
    return true;
}

/* Returns the loss of each pair, for the differences of its two log-ratios. */
static br_tensor *dpo_losses(br_tensor *delta, const br_dpo_options *o)
{
    br_tensor *scaled = br_mul_scalar(delta, o->beta), *losses;
    switch (o->loss_type) {
    case BR_DPO_HINGE:
        return br_relu(br_rsub_scalar(scaled, 1));
    case BR_DPO_IPO:
        return br_pow_scalar(br_sub_scalar(delta, 1 / (2 * o->beta)), 2);
    default:
        losses = br_mul_scalar(br_logsigmoid(scaled), -(1 - o->label_smoothing));
        if (o->label_smoothing == 0)
            return losses;
        return br_add(losses, br_mul_scalar(br_logsigmoid(br_neg(scaled)), -o->label_smoothing));
    }
}

br_tensor *br_dpo_loss(br_tensor *chosen, br_tensor *rejected, br_tensor *ref_chosen,
                       br_tensor *ref_rejected, const br_dpo_options *options)
{
    static const char op[] = "dpo_loss";
    BR_OP(op);
    BR_AUTOCAST(br_dpo_loss(RAISE(chosen), RAISE(rejected), RAISE(ref_chosen), RAISE(ref_rejected),
                            options))
    options = BR_OPTIONS_OF(op, br_dpo, options);
    if (!check_dpo(op, options) ||
        !br__check_broadcastable(op, "chosen", chosen, "rejected", rejected) ||
        !br__check_broadcastable(op, "chosen", chosen, "ref_chosen", ref_chosen) ||
        !br__check_broadcastable(op, "chosen", chosen, "ref_rejected", ref_rejected))
        return NULL;
    br_scope *scope = br_scope_begin();
    const br_rounding rounding = BR_WIDEN(&chosen, &rejected, &ref_chosen, &ref_rejected);
    br_tensor *delta = br_sub(br_sub(chosen, ref_chosen), br_sub(rejected, ref_rejected));
    return br__finish_loss(op, scope, rounding, dpo_losses(delta, options), options->reduction);
}

/* ---- Distillation ---------------------------------------------------------------------------- */

br_tensor *br_distillation_loss(br_tensor *student, br_tensor *teacher, double temperature)
{
    static const char op[] = "distillation_loss";
    BR_OP(op);
    BR_AUTOCAST(br_distillation_loss(RAISE(student), RAISE(teacher), temperature))
    if (!br__floating(op, "student", student) ||
        !br__compatible(op, "student", student, "teacher", teacher))
        return NULL;
    if (student->ndim == 0 || !br__same_shape(student, teacher))
        return br_fail(BR_ERROR_SHAPE, op,
                       "student %s and teacher %s: must have the same shape [..., classes]",
                       br__shape(student), br__shape(teacher));
    if (!(temperature > 0) || !isfinite(temperature))
        return br_fail(BR_ERROR_ARGUMENT, op, "temperature is %g, must be positive", temperature);
    br_scope *scope = br_scope_begin();
    const br_rounding rounding = BR_WIDEN(&student, &teacher);
    br_tensor *own = br_log_softmax(br_div_scalar(student, temperature), -1);
    br_tensor *wanted = br_log_softmax(br_div_scalar(teacher, temperature), -1);
    br_tensor *each = br_kl_div(own, wanted, BR_REDUCTION_NONE, true);
    br_tensor *rows = br_mean(br_sum_dim(each, BR_DIMS(-1), false));
    return br__composed(scope,
                        br__narrowed(rounding, br_mul_scalar(rows, temperature * temperature)));
}
