/* metrics/bleu_internal.h - the tokens of texts for BLEU. */
#ifndef BR_METRICS_BLEU_INTERNAL_H
#define BR_METRICS_BLEU_INTERNAL_H

#include "tensor/tensor_internal.h"

#include <brasa/metrics.h>

/* Bytes that grow. A zeroed struct is empty. */
typedef struct br_bleu_bytes {
    char *data;
    int64_t n, capacity;
} br_bleu_bytes;

/* Splits a text into tokens as sacrebleu's tokenizers do, and appends each token and a NUL to
 * *tokens. Returns the number of tokens, or -1 and an error if memory runs out. */
int64_t br__bleu_tokenize(const char *text, br_bleu_tokenize tokenize, bool lowercase,
                          br_bleu_bytes *tokens);

#endif
