/* tests/memory.h - makes memory run out at every allocation of a task in turn. */
#ifndef BR_TESTS_MEMORY_H
#define BR_TESTS_MEMORY_H

#include "tensor/debug.h"
#include "tests/counted.h"
#include "tests/support.h"

/* Returns the number of allocated blocks; the blocks that the debug mode keeps do not count. */
static inline int64_t counted_blocks(void)
{
    if (br__debug)
        br__debug_empty_quarantine();
    return counted.blocks;
}

/* Runs the task with a budget of n allocations, for n = 0, 1, ... until it succeeds. Until then it
 * must fail with BR_ERROR_MEMORY, and every run must free all blocks that it allocated. */
static inline void fail_in_turn(bool (*task)(void), const char *name)
{
    br_set_cache_limit(0);
    cr_assert(br_set_allocator(&(br_allocator){ counted_allocate, counted_deallocate, NULL }));
    for (int64_t n = 0, done = 0; !done; n++) {
        counted.left = n;
        counted.failed = false;
        bool ok = task();
        done = !counted.failed;
        cr_assert_eq(ok, done, "%s, %lld allocations: %s", name, (long long)n, br_error_message());
        cr_assert_eq(br_error_code(), done ? BR_OK : BR_ERROR_MEMORY, "%s", br_error_message());
        br_clear_error();
        br_thread_cleanup();
        cr_assert_eq(counted_blocks(), 0, "%s, %lld allocations: %lld blocks leaked", name,
                     (long long)n, (long long)counted.blocks);
        cr_assert(n < 20000, "%s still fails after %lld allocations", name, (long long)n);
    }
    cr_assert(br_set_allocator(NULL));
}

#endif
