/* pretrained/pooling.h - how the hidden states of a text's tokens become one embedding. */
#ifndef BR_POOLING_H
#define BR_POOLING_H

#include <brasa/pretrained/sentence_transformer.h>

/* Returns [n, hidden_size] for states [n, length, hidden_size], on their device, and a mask f32 [n,
 * length] in the host's memory, which is 0 for tokens that are not pooled. */
br_tensor *br__pool(br_pooling mode, br_tensor *states, br_tensor *mask);
/* Writes one text's embedding to out[size], for states [n, size] in the host's memory and the mask
 * of its n tokens. `weights` has room for n numbers. */
void br__pool_text(br_pooling mode, int64_t n, int64_t size, const float *states, const float *mask,
                   float *weights, float *out);
/* Returns x [n, size] with rows of length 1. */
br_tensor *br__normalize_rows(br_tensor *x);

#endif
