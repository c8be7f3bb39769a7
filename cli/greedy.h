/* cli/greedy.h - greedy decoding: the likeliest id, again and again. */
#ifndef BRASA_CLI_GREEDY_H
#define BRASA_CLI_GREEDY_H

#include <brasa/brasa.h>

/* Logits [B, T, V] for ids i64 [B, T], of which the last position counts. */
typedef br_tensor *(*greedy_logits_fn)(void *context, br_tensor *ids);

/* Ids i64 [batch, length], of the innermost scope: `first`, and then at each step the id with the
 * greatest logit, the first of equal ones. NULL on error. */
br_tensor *greedy_decode(greedy_logits_fn logits, void *context, int64_t batch, int64_t first,
                         int64_t length);

#endif
