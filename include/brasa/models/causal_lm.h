/* brasa/models/causal_lm.h - the loss of language models that predict the next token. */
#ifndef BRASA_MODELS_CAUSAL_LM_H
#define BRASA_MODELS_CAUSAL_LM_H

#include <brasa/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Computes the mean cross entropy of logits [B, S, V] against the next labels, i64 [B, S]: the
 * logits at 0 .. S-2 against the labels at 1 .. S-1. Labels of -100 are ignored. */
BR_API br_tensor *br_causal_lm_loss(br_tensor *logits, br_tensor *labels);

#ifdef __cplusplus
}
#endif
#endif
