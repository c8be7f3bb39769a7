/* metrics/perplexity.c - how well a language model predicts a text. */
#include "metrics/checks.h"

br_tensor *br_perplexity(br_tensor *logits, br_tensor *targets, int64_t ignore_index)
{
    static const char op[] = "perplexity";
    if (!br__floating(op, "logits", logits) || !br__required_classes(op, "targets", targets))
        return NULL;
    bool fits = logits->ndim == targets->ndim + 1;
    for (int i = 0; i < targets->ndim && fits; i++)
        fits = logits->sizes[i] == targets->sizes[i];
    if (!fits)
        return br_fail(BR_ERROR_SHAPE, op,
                       "logits %s and targets %s: must be [..., classes] and [...]",
                       br__shape(logits), br__shape(targets));
    br_scope *scope = br_no_grad_begin();
    br_tensor *rows = br_reshape(br_to(logits, BR_F64),
                                 BR_SHAPE(targets->numel, logits->sizes[logits->ndim - 1]));
    /* BR_NONE is no class, so that no target equals it. */
    br_tensor *loss = br_cross_entropy(rows, br_reshape(targets, BR_SHAPE(-1)),
                                       BR_OPTIONS(br_cross_entropy, .ignore_index = ignore_index));
    return br__composed(scope, br_exp(loss));
}
