/* tests/shim/counted.c - gives tests in Python an allocator that fails on request. */
#include "tests/counted.h"

#include <brasa/tensor.h>

const br_allocator *counted_allocator(void);
void counted_begin(int64_t n, bool alone);
int64_t counted_end(bool *failed);
int64_t counted_blocks(void);

const br_allocator *counted_allocator(void)
{
    static const br_allocator allocator = { counted_allocate, counted_deallocate, NULL };
    counted.left = INT64_MAX;
    return &allocator;
}

/* Makes allocation number n fail, counted from 0, and unless `alone` is set all later ones. */
void counted_begin(int64_t n, bool alone)
{
    counted.left = n;
    counted.alone = alone;
    counted.failed = false;
}

/* Returns what is left of n, and sets *failed if an allocation failed. No later one will fail. */
int64_t counted_end(bool *failed)
{
    int64_t left = counted.left;
    *failed = counted.failed;
    counted.left = INT64_MAX;
    return left;
}

int64_t counted_blocks(void)
{
    return counted.blocks;
}
