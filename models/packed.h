/* models/packed.h - packed batches: texts that follow each other in one row, without padding. */
#ifndef BR_MODELS_PACKED_H
#define BR_MODELS_PACKED_H

#include "models/models_internal.h"

/* Checks cu_seqlens, i64 [B + 1]: text i has the tokens cu_seqlens[i] .. cu_seqlens[i + 1] - 1, at
 * least one, of ids [1, tokens]. Returns it in the host's memory; NULL, with or without an error,
 * if it is NULL. */
br_tensor *zoo_packed_starts(const char *model, const br_tensor *ids, br_tensor *cu_seqlens);
/* Returns the elements of an i64 tensor, for br_free(), or NULL and an error. */
int64_t *zoo_copy_elements(const br_tensor *t);
/* Returns the positions of the tokens in their texts, i64 [1, tokens], on the device of the ids.
 * Fails if a text has more than `limit` tokens; 0: no limit. */
br_tensor *zoo_packed_positions(const char *model, const br_tensor *ids, br_tensor *starts,
                                int64_t limit);
/* Computes br_rope() of positions [.., tokens] for each text alone, since its length changes the
 * rates of some types. `starts` may be NULL: br_rope() of all positions. */
bool zoo_rope_of_texts(br_tensor *positions, br_tensor *starts, int64_t dim, br_dtype dtype,
                       const br_rope_options *rope, br_tensor **cos, br_tensor **sin);
/* What cannot be combined with cu_seqlens. */
typedef struct zoo_unpacked {
    const void *attention_mask, *position_ids, *cache, *attentions;
} zoo_unpacked;
/* Returns zoo_packed_starts() after these checks. */
br_tensor *zoo_unpadded_starts(const char *model, const br_tensor *ids, br_tensor *cu_seqlens,
                               const zoo_unpacked *others);
/* Returns the number of tokens of the longest text. */
int64_t zoo_longest_text(const br_tensor *starts);
/* Returns the attention of each text to itself, as zoo_attend() for the texts one by one: [1,
 * tokens, heads d], for query, key and value [1, heads, tokens, d]. The visible keys and the bias
 * of `all` are those of the longest text, L tokens: [.., L, L]. A shorter text has their first rows
 * and columns; one of at most `unmasked` tokens sees all keys, or all before if `is_causal`. */
br_tensor *zoo_attend_texts(br_tensor *const qkv[3], const zoo_attention *all, br_tensor *starts,
                            int64_t unmasked);
/* Returns the rows of the texts' first tokens, [B, size], of states [B, S, size], or [1, tokens,
 * size] if `starts` is not NULL. */
br_tensor *zoo_first_tokens(br_tensor *x, br_tensor *starts);
/* Appends rows to the B rows of a packed batch, so that the products of a head do not depend on B;
 * and removes them. Without `starts` they return x. */
br_tensor *zoo_enough_rows(br_tensor *x, br_tensor *starts);
br_tensor *zoo_own_rows(br_tensor *x, br_tensor *starts);

#endif
