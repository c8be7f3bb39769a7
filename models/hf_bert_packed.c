/* models/hf_bert_packed.c - batches without padding: texts that follow each other in one row. */
#include "models/hf_bert_internal.h"
#include "models/packed.h"

#include <inttypes.h>

/* ---- Where the texts begin ------------------------------------------------------------------- */

/* Checks what a packed batch excludes. */
static bool good_packed_options(const br_hf_bert *self, const br_hf_bert_options *o)
{
    const char *found = NULL, *mend = "";
    if (o->attention_mask)
        found = "attention_mask", mend = ": a packed batch has no padding";
    else if (o->attentions)
        found = "attentions", mend = ": give each text a row of its own";
    else if (br_recorder_is_open())
        found = "an open recorder", mend = ": give each text a row of its own";
    else if (br_is_training(br_base(self)) && self->config.attention_probs_dropout_prob > 0)
        found = "dropout of the attention", mend = ": call br_eval(), or make the model without it";
    if (found)
        br_fail(BR_ERROR_ARGUMENT, "hf_bert", "cu_seqlens cannot be combined with %s%s", found,
                mend);
    return !found;
}

br_tensor *zoo_hf_bert_starts(const br_hf_bert *self, const br_tensor *ids,
                              const br_hf_bert_options *o)
{
    if (!o->cu_seqlens || br_error_pending() || !good_packed_options(self, o))
        return NULL;
    return zoo_packed_starts("hf_bert", ids, o->cu_seqlens);
}

/* ---- Positions ------------------------------------------------------------------------------- */

/* Replaces the ids of one text by their positions, and returns the number of tokens that are
 * counted. */
static int64_t set_positions(const br_hf_bert_embeddings *self, int64_t n, int64_t *ids)
{
    const int64_t padding = self->padding_position;
    int64_t next = padding + 1;
    for (int64_t i = 0; i < n; i++)
        ids[i] = padding >= 0 && ids[i] == padding ? padding : next++;
    return next - padding - 1;
}

/* Replaces the ids of n texts by their positions. */
static bool fill_positions(const br_hf_bert_embeddings *self, int64_t n, const int64_t *at,
                           int64_t *ids)
{
    const int64_t limit = self->max_position_embeddings - 1 - self->padding_position;
    for (int64_t i = 0; i < n; i++) {
        const int64_t length = at[i + 1] - at[i];
        const int64_t counted = set_positions(self, length, ids + at[i]);
        if (counted > limit)
            return br_fail(BR_ERROR_SHAPE, "hf_bert",
                           "text %" PRId64 " of a packed batch has %" PRId64
                           " tokens, more than the model's %" PRId64 " positions",
                           i, counted, limit);
    }
    return !br_error_pending();
}

br_tensor *zoo_hf_bert_packed_positions(const br_hf_bert_embeddings *self, br_tensor *ids,
                                        br_tensor *starts)
{
    int64_t *at = zoo_copy_elements(starts), *positions = zoo_copy_elements(ids);
    br_tensor *result = NULL;
    if (at && positions && fill_positions(self, br_numel(starts) - 1, at, positions))
        result =
            br_to_device(br_from_i64(BR_SHAPE(1, br_size(ids, 1)), positions), br_device_of(ids));
    br_free(at);
    br_free(positions);
    return result;
}
