/* backends/cpu/attention/attention_kernels.h - the table of kernels for attention,
 * attention_forward.h and attention_backward.h. */
#ifndef BR_ATTENTION_KERNELS_H
#define BR_ATTENTION_KERNELS_H

#include "backends/cpu/pointwise/dropout_kernels.h"

enum {
    BR_ATTENTION_BLOCK = 128,   /* queries, and keys, per block */
    BR_ATTENTION_QUERIES = 256, /* maximum queries of one call */
};

/* Element (i, j) is at i * row + j * column, in elements. */
typedef struct br_strided {
    void *at;
    int64_t row, column;
} br_strided;

struct br_attention_work;
/* Widens rows first .. first + n - 1, from column `from` on, of an operand of the work's storage
 * dtype to f32 numbers [n, columns]. */
typedef void br_widen_rows(const struct br_attention_work *w, const br_strided *x, int64_t first,
                           int64_t n, int64_t from, int64_t columns, float *to);

/* Attention of one head, out = dropout(softmax(scale query key^T + mask)) value, and its gradients.
 */
typedef struct br_attention_work {
    int64_t queries, keys, width,
        value_width; /* query [queries, width], value [keys, value_width] */
    double scale;
    bool causal; /* query i attends to keys j <= i only */
    bool mask_is_bool;
    br_dropout_work dropout; /* of the scores of all heads; one more word must be readable */
    int64_t first_bit;       /* key j of query i has bit first_bit + i * keys + j */
    br_strided query, key, value;
    br_strided mask; /* its `at` may be NULL */
    br_strided out;  /* contiguous within rows; so are the gradients below */
    br_strided sums; /* for each query [top, 1 / sum], contiguous: the largest score, and the sum of
                        exp(score - top); [inf, 0] if the query attends to no key */
    br_strided dout; /* any strides */
    br_strided dquery, dkey, dvalue, dmask; /* any `at` may be NULL */
    /* NULL: all operands have the dtype of the kernels. Otherwise query, key, value, mask, out and
     * dout have a storage dtype of 2 bytes; narrow() rounds n numbers to it. */
    int stored;
    br_widen_rows *widen;
    void (*narrow)(int64_t n, void *to, const void *from);
    bool writes; /* overwrite gradients instead of adding to them; only if one call covers all
                    queries and keys */
    void *scratch;
} br_attention_work;

typedef struct br_attention_kernels {
    /* Returns the bytes of scratch memory, aligned to 64, that the two kernels below need. */
    int64_t (*scratch)(const br_attention_work *w, bool gradients);
    /* Computes out and sums of queries first .. end - 1, at most BR_ATTENTION_QUERIES. `first` must
     * be a multiple of BR_ATTENTION_BLOCK. */
    void (*forward)(const br_attention_work *w, int64_t first, int64_t end);
    /* Adds the contributions of queries first .. end - 1 with keys key .. key_end - 1 to the
     * gradients. */
    void (*backward)(const br_attention_work *w, int64_t first, int64_t end, int64_t key,
                     int64_t key_end);
} br_attention_kernels;

/* Returns the table for attention of precision "medium"; NULL if no unit of this processor makes it
 * faster. */
const br_attention_kernels *br__attention_bf16_kernels(void);

#endif
