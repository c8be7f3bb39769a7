/* models/causal_lm.c - what language models that predict the next token share: the loss, and
 * positions. */
#include "models/models_internal.h"

#include <brasa/models/causal_lm.h>
#include <inttypes.h>
#include <math.h>

/* ---- Loss ------------------------------------------------------------------------------------ */

/* Returns the targets of all positions, i64 [B S]: the next label, and -100 at the last position.
 */
static br_tensor *next_labels(br_tensor *labels)
{
    br_tensor *none = br_new_full(labels, BR_SHAPE(br_size(labels, 0), 1), -100, BR_I64);
    br_tensor *next = br_cat(BR_INPUTS(br_slice(labels, 1, 1, BR_ALL, 1), none), 1);
    return br_reshape(next, BR_SHAPE(-1));
}

static bool good_label_dtype(const char *name, const br_tensor *labels)
{
    if (br_dtype_of(labels) != BR_I64)
        br_fail(BR_ERROR_DTYPE, name, "labels %s are %s, must be i64", br_shape_text(labels),
                br_dtype_name(br_dtype_of(labels)));
    return !br_error_pending();
}

br_tensor *br_causal_lm_loss(br_tensor *logits, br_tensor *labels)
{
    static const char name[] = "causal_lm_loss";
    if (!br_require_tensor(name, "logits", logits) || !br_require_tensor(name, "labels", labels))
        return NULL;
    if (br_ndim(logits) != 3 || br_ndim(labels) != 2 || br_size(labels, 0) != br_size(logits, 0) ||
        br_size(labels, 1) != br_size(logits, 1))
        return br_fail(BR_ERROR_SHAPE, name, "logits %s must be [B, S, V], and labels %s [B, S]",
                       br_shape_text(logits), br_shape_text(labels));
    if (!good_label_dtype(name, labels))
        return NULL;
    br_scope *scope = br_scope_begin();
    br_tensor *loss = br_cross_entropy(br_flatten(logits, 0, 1), next_labels(labels), NULL);
    br_scope_return(scope, loss);
    br_scope_end(scope);
    return loss;
}

/* Returns the weight of the layer, or its value if it is parametrized. */
static br_tensor *weight_of(br_linear *layer)
{
    return br_is_parametrized(br_base(layer), "weight")
               ? br_parametrized_value(br_base(layer), "weight")
               : layer->weight;
}

/* Removes the rows whose targets do not count, because their logits are not needed: those of
 * prompts and of padding. Keeps all rows if most count, or none. */
static void keep_counted(br_tensor **rows, br_tensor **targets)
{
    br_tensor *places = br_reshape(br_nonzero(br_ne_scalar(*targets, -100)), BR_SHAPE(-1));
    if (br_error_pending())
        return;
    int64_t n = br_size(places, 0), all = br_size(*targets, 0);
    if (n == 0 || 4 * n > 3 * all)
        return;
    *rows = br_index_select(*rows, 0, places);
    *targets = br_index_select(*targets, 0, places);
}

br_tensor *zoo_chunked_lm_loss(const char *name, br_tensor *x, br_linear *head, br_tensor *labels)
{
    if (!br_error_pending() && br_require_tensor(name, "labels", labels) &&
        (br_ndim(labels) != 2 || br_size(labels, 0) != br_size(x, 0) ||
         br_size(labels, 1) != br_size(x, 1)))
        br_fail(BR_ERROR_SHAPE, name,
                "labels %s must have the shape of input_ids, [%" PRId64 ", %" PRId64 "]",
                br_shape_text(labels), br_size(x, 0), br_size(x, 1));
    if (br_error_pending() || !good_label_dtype(name, labels))
        return NULL;
    br_tensor *rows = br_flatten(x, 0, 1), *targets = next_labels(labels);
    keep_counted(&rows, &targets);
    if (br_lora_is_adapted(br_base(head))) /* an adapter adds to the layer's results */
        return br_cross_entropy(br_linear_forward(head, rows), targets, NULL);
    return br_linear_cross_entropy(rows, weight_of(head), targets,
                                   BR_OPTIONS(br_linear_cross_entropy, .chunked = true));
}

/* ---- Positions ------------------------------------------------------------------------------- */

br_tensor *zoo_positions(const char *model, const br_tensor *ids, br_tensor *given,
                         const br_cache *cache)
{
    int64_t past = br_cache_length(cache), n = br_size(ids, 1);
    if (!given)
        return br_unsqueeze(br_new_arange(ids, (double)past, (double)(past + n), 1, BR_I64), 0);
    if (br_ndim(given) == 2 && br_size(given, 1) == n &&
        (br_size(given, 0) == 1 || br_size(given, 0) == br_size(ids, 0)))
        return given;
    return br_fail(BR_ERROR_SHAPE, model,
                   "position_ids %s must be [%" PRId64 ", %" PRId64 "] or [1, %" PRId64 "]",
                   br_shape_text(given), br_size(ids, 0), n, n);
}

br_tensor *zoo_masked_positions(br_tensor *mask, int64_t n)
{
    br_tensor *count = br_sub_scalar(br_cumsum(br_to(br_ne_scalar(mask, 0), BR_I64), 1), 1);
    return br_clamp(br_slice(count, 1, -n, BR_ALL, 1), 0, INFINITY);
}
