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

/* Runs the task with allocation n failing. Returns true if no allocation failed. */
static inline bool fail_at(int64_t n, bool (*task)(void), const char *name)
{
    const char *how = counted.alone ? "alone" : "with all later ones";
    counted.left = n;
    counted.failed = false;
    bool ok = task();
    cr_assert(ok != counted.failed || (ok && counted.alone), "%s, allocation %lld %s: %s", name,
              (long long)n, how, br_error_message());
    cr_assert_eq(br_error_code(), ok ? BR_OK : BR_ERROR_MEMORY, "%s", br_error_message());
    br_clear_error();
    br_thread_cleanup();
    cr_assert_eq(counted_blocks(), 0, "%s, allocation %lld %s: %lld blocks leaked", name,
                 (long long)n, how, (long long)counted.blocks);
    cr_assert(n < 20000, "%s still fails after %lld allocations", name, (long long)n);
    return !counted.failed;
}

/* Runs the task with allocation 0, 1, ... failing, first with all later ones and then alone, until
 * no allocation fails. Until then the task must fail with BR_ERROR_MEMORY; if the allocation fails
 * alone, the task may also succeed without it. Every run must free all blocks that it allocated. */
static inline void fail_in_turn(bool (*task)(void), const char *name)
{
    br_set_cache_limit(0);
    cr_assert(br_set_allocator(&(br_allocator){ counted_allocate, counted_deallocate, NULL }));
    for (int alone = 0; alone < 2; alone++) {
        counted.alone = alone;
        for (int64_t n = 0; !fail_at(n, task, name);)
            n++;
    }
    counted.alone = false;
    cr_assert(br_set_allocator(NULL));
}

#endif
