/* models/hf_bert_packed.c - batches without padding: texts that follow each other in one row. */
#include "models/hf_bert_internal.h"

#include <inttypes.h>

/* Products of fewer rows than this may sum in another order (backends/cpu/gemm/gemm_choice.c). With
 * more rows, the result of a row does not depend on the number of rows. */
enum { ENOUGH_ROWS = 16 };

static const br_device host = { .type = BR_CPU };

/* ---- Where the texts begin ------------------------------------------------------------------- */

/* Returns the elements of an i64 tensor, for br_free(). */
static int64_t *copy_elements(const br_tensor *t)
{
    const size_t n = br_error_pending() ? 0 : (size_t)br_numel(t);
    int64_t *elements = br_error_pending() ? NULL : br_calloc(n, sizeof *elements);
    if (!elements || br_copy_out(t, elements, n * sizeof *elements))
        return elements;
    br_free(elements);
    return NULL;
}

static bool good_starts(int64_t n, const int64_t *at, int64_t tokens)
{
    if (at[0] != 0 || at[n - 1] != tokens)
        return br_fail(BR_ERROR_ARGUMENT, "hf_bert",
                       "cu_seqlens begins with %" PRId64 " and ends with %" PRId64
                       ", must begin with 0 and end with the number of tokens, which is %" PRId64,
                       at[0], at[n - 1], tokens);
    for (int64_t i = 1; i < n; i++)
        if (at[i] <= at[i - 1])
            return br_fail(BR_ERROR_ARGUMENT, "hf_bert",
                           "cu_seqlens[%" PRId64 "] is %" PRId64 ", must be greater than %" PRId64
                           " before it: each text has at least one token",
                           i, at[i], at[i - 1]);
    return true;
}

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
    else if (self->encoder->relative_attention_bias)
        found = "relative positions (model type mpnet)", mend = ": give each text a row of its own";
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
    br_tensor *given = o->cu_seqlens;
    if (!given || br_error_pending() || !br_require_tensor("hf_bert", "input_ids", ids) ||
        !br_require_tensor("hf_bert", "cu_seqlens", given) || !good_packed_options(self, o))
        return NULL;
    if (br_dtype_of(given) != BR_I64 || br_ndim(given) != 1 || br_numel(given) < 2)
        return br_fail(BR_ERROR_SHAPE, "hf_bert",
                       "cu_seqlens is %s %s, must be i64 [B + 1] for B texts, at least one",
                       br_dtype_name(br_dtype_of(given)), br_shape_text(given));
    if (br_ndim(ids) != 2 || br_size(ids, 0) != 1)
        return br_fail(BR_ERROR_SHAPE, "hf_bert",
                       "input_ids %s must be [1, tokens]: with cu_seqlens, texts follow each other",
                       br_shape_text(ids));
    br_tensor *starts = br_to_device(given, host);
    int64_t *at = copy_elements(starts);
    const bool good = at && good_starts(br_numel(starts), at, br_size(ids, 1));
    br_free(at);
    return good ? starts : NULL;
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
    int64_t *at = copy_elements(starts), *positions = copy_elements(ids);
    br_tensor *result = NULL;
    if (at && positions && fill_positions(self, br_numel(starts) - 1, at, positions))
        result =
            br_to_device(br_from_i64(BR_SHAPE(1, br_size(ids, 1)), positions), br_device_of(ids));
    br_free(at);
    br_free(positions);
    return result;
}

/* ---- Rows of texts --------------------------------------------------------------------------- */

br_tensor *zoo_hf_bert_first_tokens(br_tensor *x, br_tensor *starts)
{
    if (!starts || br_error_pending())
        return br_select(x, 1, 0);
    br_tensor *first = br_narrow(starts, 0, 0, br_numel(starts) - 1);
    return br_index_select(br_select(x, 0, 0), 0, br_to_device(first, br_device_of(x)));
}

br_tensor *zoo_hf_bert_enough_rows(br_tensor *x, br_tensor *starts)
{
    if (!starts || br_error_pending() || br_size(x, 0) >= ENOUGH_ROWS)
        return x;
    br_tensor *rest =
        br_new_zeros(x, BR_SHAPE(ENOUGH_ROWS - br_size(x, 0), br_size(x, 1)), br_dtype_of(x));
    return br_cat(2, (br_tensor *[]){ x, rest }, 0);
}

br_tensor *zoo_hf_bert_own_rows(br_tensor *x, br_tensor *starts)
{
    return !starts || br_error_pending() ? x : br_narrow(x, 0, 0, br_numel(starts) - 1);
}
