/* metrics/bleu_internal.h - the tokens of texts for BLEU. */
#ifndef BR_METRICS_BLEU_INTERNAL_H
#define BR_METRICS_BLEU_INTERNAL_H

#include "tensor/growing_text.h"
#include "tensor/tensor_internal.h"

#include <brasa/metrics.h>

/* Splits a text into tokens as sacrebleu's tokenizers do, and appends each token and a NUL to
 * *tokens. Returns the number of tokens, or -1 and an error if memory runs out. */
int64_t br__bleu_tokenize(const char *text, br_bleu_tokenize tokenize, bool lowercase,
                          br__text *tokens);

#endif
