/* tests/failing.h - making allocations fail: from the n-th on none succeeds. */
#ifndef BR_TESTS_FAILING_H
#define BR_TESTS_FAILING_H

#include "tests/support.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>

static atomic_long failing_left, failing_alive;

static void *failing_allocate(void *context, size_t size, size_t alignment)
{
    (void)context;
    if (atomic_fetch_sub(&failing_left, 1) <= 0)
        return NULL;
    void *block = NULL;
    if (posix_memalign(&block, alignment < sizeof(void *) ? sizeof(void *) : alignment, size) == 0)
        atomic_fetch_add(&failing_alive, 1);
    return block;
}

static void failing_deallocate(void *context, void *block)
{
    (void)context;
    atomic_fetch_sub(&failing_alive, 1);
    free(block);
}

/* Runs `work` again and again, each time with one allocation more that succeeds, until it no longer
 * fails. It cleans up after itself and leaves the error pending; what fails must be memory, and
 * nothing may stay allocated. */
static inline void check_every_allocation(void (*work)(void))
{
    const br_allocator failing = { failing_allocate, failing_deallocate, NULL };
    for (long n = 0;; n++) {
        cr_assert_lt(n, 100000, "it fails forever");
        atomic_store(&failing_left, LONG_MAX);
        cr_assert(br_set_allocator(&failing), "%s", br_error_message());
        atomic_store(&failing_left, n);
        work();
        atomic_store(&failing_left, LONG_MAX);
        bool failed = br_failed();
        cr_assert(!failed || br_error_code() == BR_ERROR_MEMORY, "at %ld: %s", n,
                  br_error_message());
        br_clear_error();
        cr_assert(br_set_allocator(NULL), "at %ld: %s", n, br_error_message());
        cr_assert_eq(atomic_load(&failing_alive), 0, "at %ld: %ld blocks leaked", n,
                     atomic_load(&failing_alive));
        if (!failed)
            return;
    }
}

#endif
