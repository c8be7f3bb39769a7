/* models/attention.c - the attention of the pretrained models: with stored probabilities, or fused.
 */
#include "models/models_internal.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>

br_tensor *zoo_split_heads(br_tensor *x, int64_t heads)
{
    if (br_error_pending())
        return NULL;
    int64_t batch = br_size(x, 0), tokens = br_size(x, 1), d = br_size(x, 2) / heads;
    return br_transpose(br_view(x, BR_SHAPE(batch, tokens, heads, d)), 1, 2);
}

/* Computes the context and stores the probabilities in *weights. */
static br_tensor *attend_storing_weights(br_tensor *q, br_tensor *k, br_tensor *v,
                                         const zoo_attention *a, br_tensor **weights)
{
    if (br_error_pending())
        return NULL;
    double scale = a->scale != 0 ? a->scale : 1 / sqrt((double)br_size(q, -1));
    br_tensor *visible = a->visible;
    if (a->is_causal)
        visible = zoo_visible_past(q, 0, br_size(q, -2));
    br_tensor *hidden = visible ? br_logical_not(visible) : NULL;
    br_tensor *scores = br_mul_scalar(br_matmul(q, br_transpose(k, -1, -2)), scale);
    if (a->bias)
        scores = br_add(scores, a->bias);
    if (visible)
        scores = br_masked_fill(scores, hidden, -FLT_MAX);
    br_tensor *p = br_softmax(scores, -1);
    if (visible) /* changes only rows in which all keys are hidden */
        p = br_masked_fill(p, hidden, 0);
    *weights = br_tap_attention(q, k, p, a->is_cross);
    return br_matmul(br_f_dropout(p, a->dropout_p, a->dropout_p > 0), v);
}

br_tensor *zoo_attend(br_tensor *q, br_tensor *k, br_tensor *v, const zoo_attention *a)
{
    br_tensor *context, *weights = NULL;
    if (a->weights || br_recorder_is_open())
        context = attend_storing_weights(q, k, v, a, &weights);
    else
        context = br_scaled_dot_product_attention(
            q, k, v, a->bias ? a->bias : a->visible,
            BR_OPTIONS(br_attention, .dropout_p = a->dropout_p, .is_causal = a->is_causal,
                       .scale = a->scale != 0 ? a->scale : BR_NONE_F64));
    if (a->weights)
        *a->weights = weights;
    return br_flatten(br_transpose(context, 1, 2), 2, 3);
}

br_tensor *zoo_visible_keys(const char *model, const char *name, br_tensor *mask, int64_t batch,
                            int64_t keys)
{
    if (!mask || !br_require_tensor(model, name, mask))
        return NULL;
    if (br_ndim(mask) != 2 || br_size(mask, 0) != batch || br_size(mask, 1) != keys)
        return br_fail(BR_ERROR_SHAPE, model, "%s %s must be [%" PRId64 ", %" PRId64 "]", name,
                       br_shape_text(mask), batch, keys);
    br_tensor *visible = br_dtype_of(mask) == BR_BOOL ? mask : br_ne_scalar(mask, 0);
    return br_unsqueeze(br_unsqueeze(visible, 1), 1);
}

br_tensor *zoo_visible_past(const br_tensor *like, int64_t past, int64_t n)
{
    return br_tril(br_new_ones(like, BR_SHAPE(n, past + n), BR_BOOL), past);
}
