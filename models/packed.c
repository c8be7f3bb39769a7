/* models/packed.c - packed batches: where the texts begin, their positions, and the attention of
 * decoders. */
#include "models/packed.h"

#include <inttypes.h>
#include <math.h>

static const br_device host = { .type = BR_CPU };

/* ---- Where the texts begin ------------------------------------------------------------------- */

int64_t *zoo_copy_elements(const br_tensor *t)
{
    const size_t n = br_error_pending() ? 0 : (size_t)br_numel(t);
    int64_t *elements = br_error_pending() ? NULL : br_calloc(n, sizeof *elements);
    if (!elements || br_copy_out(t, elements, n * sizeof *elements))
        return elements;
    br_free(elements);
    return NULL;
}

static bool good_starts(const char *model, int64_t n, const int64_t *at, int64_t tokens)
{
    if (at[0] != 0 || at[n - 1] != tokens)
        return br_fail(BR_ERROR_ARGUMENT, model,
                       "cu_seqlens begins with %" PRId64 " and ends with %" PRId64
                       ", must begin with 0 and end with the number of tokens, which is %" PRId64,
                       at[0], at[n - 1], tokens);
    for (int64_t i = 1; i < n; i++)
        if (at[i] <= at[i - 1])
            return br_fail(BR_ERROR_ARGUMENT, model,
                           "cu_seqlens[%" PRId64 "] is %" PRId64 ", must be greater than %" PRId64
                           " before it: each text has at least one token",
                           i, at[i], at[i - 1]);
    return true;
}

br_tensor *zoo_packed_starts(const char *model, const br_tensor *ids, br_tensor *cu_seqlens)
{
    if (!cu_seqlens || br_error_pending() || !br_require_tensor(model, "input_ids", ids) ||
        !br_require_tensor(model, "cu_seqlens", cu_seqlens))
        return NULL;
    if (br_dtype_of(cu_seqlens) != BR_I64 || br_ndim(cu_seqlens) != 1 || br_numel(cu_seqlens) < 2)
        return br_fail(BR_ERROR_SHAPE, model,
                       "cu_seqlens is %s %s, must be i64 [B + 1] for B texts, at least one",
                       br_dtype_name(br_dtype_of(cu_seqlens)), br_shape_text(cu_seqlens));
    if (br_ndim(ids) != 2 || br_size(ids, 0) != 1)
        return br_fail(BR_ERROR_SHAPE, model,
                       "input_ids %s must be [1, tokens]: with cu_seqlens, texts follow each other",
                       br_shape_text(ids));
    br_tensor *starts = br_to_device(cu_seqlens, host);
    int64_t *at = zoo_copy_elements(starts);
    const bool good = at && good_starts(model, br_numel(starts), at, br_size(ids, 1));
    br_free(at);
    return good ? starts : NULL;
}

/* ---- Decoders -------------------------------------------------------------------------------- */

br_tensor *zoo_decoder_starts(const char *model, const br_tensor *ids, br_tensor *cu_seqlens,
                              const zoo_unpacked *others)
{
    if (!cu_seqlens || br_error_pending())
        return NULL;
    const char *found = others->attention_mask ? "attention_mask: a packed batch has no padding"
                        : others->position_ids ? "position_ids: each text begins at 0"
                        : others->cache        ? "a cache: give each text a row of its own"
                        : others->attentions   ? "attentions: give each text a row of its own"
                        : br_recorder_is_open()
                            ? "an open recorder: give each text a row of its own"
                            : NULL;
    if (found)
        return br_fail(BR_ERROR_ARGUMENT, model, "cu_seqlens cannot be combined with %s", found);
    return zoo_packed_starts(model, ids, cu_seqlens);
}

/* Returns the number of tokens of the longest of n texts. */
static int64_t longest_of(int64_t n, const int64_t *at)
{
    int64_t longest = 0;
    for (int64_t i = 0; i < n; i++)
        longest = at[i + 1] - at[i] > longest ? at[i + 1] - at[i] : longest;
    return longest;
}

static void count_positions(int64_t n, const int64_t *at, int64_t *positions)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = at[i]; j < at[i + 1]; j++)
            positions[j] = j - at[i];
}

br_tensor *zoo_packed_positions(const char *model, const br_tensor *ids, br_tensor *starts,
                                int64_t limit)
{
    if (br_error_pending())
        return NULL;
    int64_t tokens = br_size(ids, 1);
    int64_t *at = zoo_copy_elements(starts);
    int64_t *positions = at ? br_calloc((size_t)tokens, sizeof *positions) : NULL;
    br_tensor *result = NULL;
    int64_t n = br_numel(starts) - 1, longest = positions ? longest_of(n, at) : 0;
    if (positions)
        count_positions(n, at, positions);
    if (limit > 0 && longest > limit)
        br_fail(BR_ERROR_SHAPE, model,
                "a text of a packed batch has %" PRId64 " tokens, more than the model's %" PRId64
                " positions",
                longest, limit);
    else if (positions)
        result = br_to_device(br_from_i64(BR_SHAPE(1, tokens), positions), br_device_of(ids));
    br_free(at);
    br_free(positions);
    return result;
}

/* ---- Attention ------------------------------------------------------------------------------- */

/* Returns [T, heads, d] for [1, heads, T, d]. */
static br_tensor *by_token(br_tensor *x)
{
    return br_transpose(br_squeeze(x, 0), 0, 1);
}

/* Returns the attention of all texts in one operation. */
static br_tensor *attend_fused(br_tensor *q, br_tensor *k, br_tensor *v, const zoo_attention *a,
                               br_tensor *starts)
{
    br_tensor *context = br_varlen_attn(by_token(q), by_token(k), by_token(v), starts, NULL,
                                        BR_OPTIONS(br_varlen_attn, .is_causal = true,
                                                   .scale = a->scale != 0 ? a->scale : BR_NONE_F64,
                                                   .enable_gqa = br_size(q, 1) != br_size(k, 1)));
    return br_unsqueeze(br_flatten(context, 1, 2), 0);
}

/* Returns the attention of one text, the n tokens from `first` on. */
static br_tensor *attend_one(br_tensor *const qkv[3], const zoo_attention *all, int64_t first,
                             int64_t n, int64_t window)
{
    zoo_attention a = { .scale = all->scale, .softcap = all->softcap, .dropout_p = all->dropout_p };
    a.is_causal = window == 0 || n <= window;
    if (!a.is_causal)
        a.visible = br_triu(zoo_visible_past(qkv[0], 0, n), 1 - window);
    return zoo_attend(br_narrow(qkv[0], 2, first, n), br_narrow(qkv[1], 2, first, n),
                      br_narrow(qkv[2], 2, first, n), &a);
}

static br_tensor *attend_each(br_tensor *const qkv[3], const zoo_attention *a, int64_t n,
                              const int64_t *at, int64_t window)
{
    br_tensor **parts = br_calloc((size_t)n, sizeof *parts), *context = NULL;
    for (int64_t i = 0; parts && i < n; i++)
        parts[i] = attend_one(qkv, a, at[i], at[i + 1] - at[i], window);
    if (parts)
        context = br_cat((int)n, parts, 1);
    br_free(parts);
    return context;
}

br_tensor *zoo_attend_packed(br_tensor *query, br_tensor *key, br_tensor *value,
                             const zoo_attention *a, br_tensor *starts, int64_t window)
{
    int64_t *at = br_error_pending() ? NULL : zoo_copy_elements(starts);
    if (!at)
        return NULL;
    int64_t n = br_numel(starts) - 1;
    bool fused =
        a->softcap == 0 && a->dropout_p == 0 && (window == 0 || longest_of(n, at) <= window);
    br_tensor *context = fused
                             ? attend_fused(query, key, value, a, starts)
                             : attend_each((br_tensor *[]){ query, key, value }, a, n, at, window);
    br_free(at);
    return context;
}
