/* tests/viz/attention_texts.h - what the tests of attention views and figures share: texts of the
 * tokens a, b, ..., weights, and counting the parts of a file. */
#ifndef BR_TESTS_VIZ_ATTENTION_TEXTS_H
#define BR_TESTS_VIZ_ATTENTION_TEXTS_H

#include "tests/memory.h"

#include <brasa/brasa.h>

static const char *const words[] = { "a", "b", "c", "d", "e", "f", "g", "h" };

static inline br_attention *text_of(int64_t n)
{
    return br_attention_new(&(br_attention_text){ .n_tokens = n, .tokens = words });
}

static inline br_attention *pair_of(int64_t n, int64_t m)
{
    return br_attention_new(&(br_attention_text){
        .n_tokens = n, .tokens = words, .n_decoder_tokens = m, .decoder_tokens = words });
}

static inline br_tensor *weights(int64_t heads, int64_t rows, int64_t columns)
{
    return br_softmax(br_randn(BR_SHAPE(1, heads, rows, columns), BR_F32), -1);
}

static inline bool add_one(br_attention *a, br_tensor *w, br_tensor *q, br_tensor *k)
{
    return br_attention_add(a, BR_ATTENTION_SELF, "x", w, q, k);
}

static inline int count(const char *text, const char *part)
{
    int n = 0;
    for (; (text = strstr(text, part)); text += strlen(part))
        n++;
    return n;
}

#endif
