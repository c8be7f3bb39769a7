/* ops/kernels/sort.h - sorting lines of elements by radix, stably. */
#ifndef BR_KERNELS_SORT_H
#define BR_KERNELS_SORT_H

#include <stdbool.h>
#include <stdint.h>

/* An element as an integer of the same order, and where it stood. */
typedef struct br_sort_entry {
    uint64_t key;
    int64_t index;
} br_sort_entry;

/* How a type is sorted: its keys, of which the lowest `bytes` bytes count. NaN is the largest of
 * all; 0 and -0 are equal. */
typedef struct br_sort_type {
    void (*keys)(int64_t n, const char *x, int64_t stride, br_sort_entry *to); /* stride in bytes */
    int bytes;
    uint64_t nan; /* the key of NaN, which nothing else has; 0 where there is none */
} br_sort_type;
extern const br_sort_type br__sort_f32, br__sort_f64, br__sort_i64, br__sort_bool;

/* The entries in order: they are in `entries` or in `spare`, which it returns. Equal ones keep
 * theirs. */
br_sort_entry *br__sort(int64_t n, br_sort_entry *entries, br_sort_entry *spare, int bytes,
                        bool descending);

/* Writes into `order` the places of n rows of `width` keys in order, by the first key in which rows
 * differ; equal rows keep theirs. `spare` is as large. */
void br__sort_rows(int64_t n, int64_t width, const br_sort_entry *keys, int64_t *order,
                   int64_t *spare);

#endif
