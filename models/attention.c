/* models/attention.c - the attention of the pretrained models, with stored probabilities or fused;
 * masks, and buckets of relative positions. */
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

/* Repeats each key head for the heads that share it. */
static br_tensor *repeat_heads(br_tensor *t, int64_t heads)
{
    if (br_error_pending() || br_size(t, 1) == heads)
        return t;
    return br_repeat_interleave_scalar(t, heads / br_size(t, 1), 1);
}

static br_tensor *cap(br_tensor *scores, double softcap)
{
    return softcap == 0 ? scores : br_mul_scalar(br_tanh(br_div_scalar(scores, softcap)), softcap);
}

/* Returns a score that hides a key. Both types of 2 bytes represent 65504. */
static double lowest(const br_tensor *scores)
{
    return br_error_pending() || br_dtype_size(br_dtype_of(scores)) > 2 ? -FLT_MAX : -65504;
}

/* Computes the context and stores the probabilities in *weights. */
static br_tensor *attend_storing_weights(br_tensor *q, br_tensor *k, br_tensor *v,
                                         const zoo_attention *a, br_tensor **weights)
{
    if (br_error_pending())
        return NULL;
    double scale = a->scale != 0 ? a->scale : 1 / sqrt((double)br_size(q, -1));
    k = repeat_heads(k, br_size(q, 1));
    v = repeat_heads(v, br_size(q, 1));
    br_tensor *visible = a->visible;
    if (a->is_causal)
        visible = zoo_visible_past(q, 0, br_size(q, -2));
    br_tensor *hidden = visible ? br_logical_not(visible) : NULL;
    br_tensor *scores = br_mul_scalar(br_matmul(q, br_transpose(k, -1, -2)), scale);
    scores = cap(scores, a->softcap);
    if (a->bias)
        scores = br_add(scores, a->bias);
    if (visible)
        scores = br_masked_fill(scores, hidden, lowest(scores));
    br_tensor *p = br_softmax(scores, -1);
    if (visible) /* changes only rows in which all keys are hidden */
        p = br_masked_fill(p, hidden, 0);
    *weights = br_tap_attention(q, k, p, a->is_cross);
    return br_matmul(br_f_dropout(p, a->dropout_p, a->dropout_p > 0), v);
}

br_tensor *zoo_attend(br_tensor *q, br_tensor *k, br_tensor *v, const zoo_attention *a)
{
    br_tensor *context, *weights = NULL;
    if (br_error_pending())
        return NULL;
    if (a->weights || a->softcap != 0 || br_recorder_is_open())
        context = attend_storing_weights(q, k, v, a, &weights);
    else
        context = br_scaled_dot_product_attention(
            q, k, v, a->bias ? a->bias : a->visible,
            BR_OPTIONS(br_attention, .dropout_p = a->dropout_p, .is_causal = a->is_causal,
                       .scale = a->scale != 0 ? a->scale : BR_NONE_F64,
                       .enable_gqa = br_size(q, 1) != br_size(k, 1)));
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

/* ---- Buckets of relative positions ----------------------------------------------------------- */

/* Returns the bucket of a distance. The first half of the n buckets cover one distance each, the
 * others growing ranges. Computes in floats like transformers, because rounding decides at the
 * boundaries. */
static int64_t bucket(int64_t distance, int64_t n, int64_t max_distance)
{
    int64_t exact = n / 2;
    if (distance < exact)
        return distance;
    float ratio = logf((float)distance / (float)exact) /
                  (float)log((double)max_distance / (double)exact) * (float)(n - exact);
    int64_t b = exact + (int64_t)ratio;
    return b < n ? b : n - 1;
}

/* Returns the buckets of the distances 0 .. max_distance: i64 [max_distance + 1]. */
static br_tensor *bucket_table(int64_t n, int64_t max_distance)
{
    int64_t *buckets = br_calloc((size_t)max_distance + 1, sizeof *buckets);
    if (!buckets)
        return NULL;
    for (int64_t i = 0; i <= max_distance; i++)
        buckets[i] = bucket(i, n, max_distance);
    br_tensor *table = br_from_i64(BR_SHAPE(max_distance + 1), buckets);
    br_free(buckets);
    return table;
}

br_tensor *zoo_relative_buckets(const br_tensor *like, int64_t n_buckets, int64_t max_distance,
                                bool both_directions, zoo_span span)
{
    int64_t each = both_directions ? n_buckets / 2 : n_buckets;
    br_tensor *query =
        br_new_arange(like, (double)span.past, (double)(span.past + span.n), 1, BR_I64);
    br_tensor *key = br_new_arange(like, 0, (double)span.keys, 1, BR_I64);
    br_tensor *offset = br_sub(br_unsqueeze(key, 0), br_unsqueeze(query, 1));
    br_tensor *distance =
        br_clamp(both_directions ? br_abs(offset) : br_neg(offset), 0, (double)max_distance);
    br_tensor *table = br_to_device(bucket_table(each, max_distance), br_device_of(like));
    br_tensor *flat = br_index_select(table, 0, br_reshape(distance, BR_SHAPE(-1)));
    br_tensor *buckets = br_reshape(flat, BR_SHAPE(span.n, span.keys));
    if (!both_directions)
        return buckets;
    return br_add(buckets, br_mul_scalar(br_to(br_gt_scalar(offset, 0), BR_I64), (double)each));
}
