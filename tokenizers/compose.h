/* tokenizers/compose.h - Unicode's normalization form C, with offsets in the original text. */
#ifndef BR_COMPOSE_H
#define BR_COMPOSE_H

#include "tokenizers/tokenizer_internal.h"

/* Returns whether all code points of p .. end-1 are in ranges that NFC leaves as they are. */
bool br__is_composed(const char *p, const char *end);
/* Normalizes `from` to NFC and appends the result to `to`. A code point that was composed has the
 * offsets of its first part, as in `tokenizers`. Returns false if allocation fails. */
bool br__compose(const br_char_list *from, br_char_list *to);

#endif
