/* tests/counted.h - an allocator that counts blocks, and fails on request. */
#ifndef BR_TESTS_COUNTED_H
#define BR_TESTS_COUNTED_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

static struct {
    int64_t left, blocks; /* `left` allocations succeed; then one fails, and all later ones, */
    bool alone;           /* or only that one */
    bool failed;
} counted;

static inline void *counted_allocate(void *context, size_t size, size_t alignment)
{
    (void)context;
    bool fails = counted.alone ? counted.left == 0 : counted.left <= 0;
    counted.left--;
    counted.failed |= fails;
    void *block;
    if (fails || posix_memalign(&block, alignment < 16 ? 16 : alignment, size) != 0)
        return NULL;
    counted.blocks++;
    return block;
}

static inline void counted_deallocate(void *context, void *block)
{
    (void)context;
    counted.blocks--;
    free(block);
}

#endif
