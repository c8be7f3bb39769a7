/* models/packed.c - packed batches: where the texts begin, the positions of their tokens, the
 * attention of each text to itself, and the rows of their first tokens. */
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

/* Products of fewer rows than this may sum in another order (backends/cpu/gemm/gemm_choice.c). With
 * more rows, the result of a row does not depend on the number of rows. */
enum { ENOUGH_ROWS = 16 };

br_tensor *zoo_unpadded_starts(const char *model, const br_tensor *ids, br_tensor *cu_seqlens,
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

/* Computes the tables of n texts, which begin at the positions `at`, and joins them. */
static bool join_ropes(br_tensor *positions, int64_t n, const int64_t *at, int64_t dim,
                       br_dtype dtype, const br_rope_options *rope, br_tensor **cos,
                       br_tensor **sin)
{
    br_tensor **cosines = br_calloc((size_t)n, sizeof *cosines);
    br_tensor **sines = br_calloc((size_t)n, sizeof *sines);
    for (int64_t i = 0; cosines && sines && i < n && !br_error_pending(); i++)
        br_rope(br_narrow(positions, -1, at[i], at[i + 1] - at[i]), dim, dtype, rope, &cosines[i],
                &sines[i]);
    *cos = br_error_pending() ? NULL : br_cat((int)n, cosines, -2);
    *sin = br_error_pending() ? NULL : br_cat((int)n, sines, -2);
    br_free(cosines);
    br_free(sines);
    return !br_error_pending();
}

bool zoo_rope_of_texts(br_tensor *positions, br_tensor *starts, int64_t dim, br_dtype dtype,
                       const br_rope_options *rope, br_tensor **cos, br_tensor **sin)
{
    if (!starts || (rope->type != BR_ROPE_DYNAMIC && rope->type != BR_ROPE_LONGROPE))
        return br_rope(positions, dim, dtype, rope, cos, sin);
    int64_t *at = br_error_pending() ? NULL : zoo_copy_elements(starts);
    const bool ok =
        at && join_ropes(positions, br_numel(starts) - 1, at, dim, dtype, rope, cos, sin);
    br_free(at);
    return ok;
}

/* ---- Attention ------------------------------------------------------------------------------- */

/* Returns [T, heads, d] for [1, heads, T, d]. */
static br_tensor *by_token(br_tensor *x)
{
    return br_transpose(br_squeeze(x, 0), 0, 1);
}

/* Returns the attention of all texts in one operation. */
static br_tensor *attend_fused(br_tensor *const qkv[3], const zoo_attention *a, br_tensor *starts)
{
    br_tensor *context =
        br_varlen_attn(by_token(qkv[0]), by_token(qkv[1]), by_token(qkv[2]), starts, NULL,
                       BR_OPTIONS(br_varlen_attn, .is_causal = a->is_causal,
                                  .scale = a->scale != 0 ? a->scale : BR_NONE_F64,
                                  .enable_gqa = br_size(qkv[0], 1) != br_size(qkv[1], 1)));
    return br_unsqueeze(br_flatten(context, 1, 2), 0);
}

/* Returns the first n rows and columns of a mask; NULL for NULL. */
static br_tensor *corner(br_tensor *mask, int64_t n)
{
    return mask ? br_narrow(br_narrow(mask, -2, 0, n), -1, 0, n) : NULL;
}

/* Returns the attention of one text, the n tokens from `first` on. */
static br_tensor *attend_one(br_tensor *const qkv[3], const zoo_attention *all, int64_t unmasked,
                             int64_t first, int64_t n)
{
    zoo_attention a = *all;
    a.visible = n > unmasked ? corner(all->visible, n) : NULL;
    a.is_causal = all->is_causal && !a.visible;
    a.bias = corner(all->bias, n);
    return zoo_attend(br_narrow(qkv[0], 2, first, n), br_narrow(qkv[1], 2, first, n),
                      br_narrow(qkv[2], 2, first, n), &a);
}

static br_tensor *attend_each(br_tensor *const qkv[3], const zoo_attention *all, int64_t unmasked,
                              int64_t n, const int64_t *at)
{
    br_tensor **parts = br_calloc((size_t)n, sizeof *parts), *context = NULL;
    for (int64_t i = 0; parts && i < n; i++)
        parts[i] = attend_one(qkv, all, unmasked, at[i], at[i + 1] - at[i]);
    if (parts)
        context = br_cat((int)n, parts, 1);
    br_free(parts);
    return context;
}

br_tensor *zoo_attend_texts(br_tensor *const qkv[3], const zoo_attention *all, br_tensor *starts,
                            int64_t unmasked)
{
    int64_t *at = br_error_pending() ? NULL : zoo_copy_elements(starts);
    if (!at)
        return NULL;
    const int64_t n = br_numel(starts) - 1;
    const bool masked = all->visible && longest_of(n, at) > unmasked;
    const bool fused = !masked && !all->bias && all->softcap == 0 && all->dropout_p == 0;
    br_tensor *context =
        fused ? attend_fused(qkv, all, starts) : attend_each(qkv, all, unmasked, n, at);
    br_free(at);
    return context;
}

int64_t zoo_longest_text(const br_tensor *starts)
{
    int64_t *at = br_error_pending() ? NULL : zoo_copy_elements(starts);
    const int64_t longest = at ? longest_of(br_numel(starts) - 1, at) : 0;
    br_free(at);
    return longest;
}

/* ---- Rows of texts --------------------------------------------------------------------------- */

br_tensor *zoo_first_tokens(br_tensor *x, br_tensor *starts)
{
    if (!starts || br_error_pending())
        return br_select(x, 1, 0);
    br_tensor *first = br_narrow(starts, 0, 0, br_numel(starts) - 1);
    return br_index_select(br_select(x, 0, 0), 0, br_to_device(first, br_device_of(x)));
}

br_tensor *zoo_enough_rows(br_tensor *x, br_tensor *starts)
{
    if (!starts || br_error_pending() || br_size(x, 0) >= ENOUGH_ROWS)
        return x;
    br_tensor *rest =
        br_new_zeros(x, BR_SHAPE(ENOUGH_ROWS - br_size(x, 0), br_size(x, 1)), br_dtype_of(x));
    return br_cat(2, (br_tensor *[]){ x, rest }, 0);
}

br_tensor *zoo_own_rows(br_tensor *x, br_tensor *starts)
{
    return !starts || br_error_pending() ? x : br_narrow(x, 0, 0, br_numel(starts) - 1);
}
