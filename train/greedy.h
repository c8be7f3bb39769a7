/* train/greedy.h - greedy decoding: appends the most likely id at each step. */
#ifndef BRASA_TRAIN_GREEDY_H
#define BRASA_TRAIN_GREEDY_H

#include <brasa/brasa.h>

/* Returns logits [B, T, V] for ids i64 [B, T]; only the last position is used. */
typedef br_tensor *(*greedy_logits_fn)(void *context, br_tensor *ids);

/* Decodes greedily from the id `first`. Returns ids i64 [batch, length] in the innermost scope,
 * NULL on error. Of equal logits, the one with the smallest id is taken. */
br_tensor *greedy_decode(greedy_logits_fn logits, void *context, int64_t batch, int64_t first,
                         int64_t length);

#endif
