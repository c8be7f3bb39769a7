/* backends/cpu/reduce/sort.h - stable radix sort of lines of elements. */
#ifndef BR_KERNELS_SORT_H
#define BR_KERNELS_SORT_H

#include "tensor/dtype.h"

#include <stdbool.h>
#include <stdint.h>

/* An element mapped to an unsigned integer that sorts in the same order, and its original index. */
typedef struct br_sort_entry {
    uint64_t key;
    int64_t index;
} br_sort_entry;

/* Describes how to sort a type: `keys` computes the keys, whose lowest `bytes` bytes are
 * significant. NaN is the largest value; 0 and -0 are equal. */
typedef struct br_sort_type {
    void (*keys)(int64_t n, const char *x, int64_t stride, br_sort_entry *to); /* stride in bytes */
    int bytes;
    uint64_t nan; /* the key of NaN, which no other value has; 0 if the type has no NaN */
} br_sort_type;
extern const br_sort_type br__sort_types[BR_DTYPES];

/* Sorts the entries stably. Returns `entries` or `spare`, whichever contains the result. */
br_sort_entry *br__sort(int64_t n, br_sort_entry *entries, br_sort_entry *spare, int bytes,
                        bool descending);

/* Makes entries[0 .. count - 1] the first `count` >= 1 of n entries, sorted as by br__sort(); the
 * others are lost. Their indices must ascend. Faster than br__sort() for a small part of n. */
void br__sort_first(int64_t n, br_sort_entry *entries, int64_t count, bool descending);

/* Writes the indices of n rows of `width` keys to `order` in lexicographic order of the rows. The
 * sort is stable. `spare` must be as large as `order`. */
void br__sort_rows(int64_t n, int64_t width, const br_sort_entry *keys, int64_t *order,
                   int64_t *spare);

#endif
