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
/* What a decoder cannot combine with cu_seqlens. */
typedef struct zoo_unpacked {
    const void *attention_mask, *position_ids, *cache, *attentions;
} zoo_unpacked;
/* Returns zoo_packed_starts() for a decoder, after these checks. */
br_tensor *zoo_decoder_starts(const char *model, const br_tensor *ids, br_tensor *cu_seqlens,
                              const zoo_unpacked *others);
/* Returns the causal attention of each text to itself, as zoo_attend() for the texts one by one:
 * [1, tokens, heads d]. A token attends to the last `window` tokens; 0: to all before it. Of `a`,
 * only scale, softcap and dropout_p are used. */
br_tensor *zoo_attend_packed(br_tensor *query, br_tensor *key, br_tensor *value,
                             const zoo_attention *a, br_tensor *starts, int64_t window);

#endif
