/* tests/tensor/allocator.h - an allocator that counts, and fails on request. */
#ifndef BR_TESTS_TENSOR_ALLOCATOR_H
#define BR_TESTS_TENSOR_ALLOCATOR_H

#include "tests/support.h"

#include <stdlib.h>

typedef struct counter {
    int64_t alive, calls, large;
    int64_t fail_at; /* number of the call that fails, counted from 1; 0: none */
    bool all_after;  /* all calls after it fail, too */
    bool misaligned;
} counter;

static inline void *count_allocate(void *context, size_t size, size_t alignment)
{
    counter *c = context;
    c->calls++;
    c->large += size > 1 << 16;
    if (c->fail_at > 0 && (c->calls == c->fail_at || (c->all_after && c->calls > c->fail_at)))
        return NULL;
    void *block = aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
    if (block)
        c->alive++;
    return block;
}

static inline void count_deallocate(void *context, void *block)
{
    counter *c = context;
    cr_assert_not_null(block);
    c->alive--;
    free(block);
}

static inline bool install(counter *c)
{
    return br_set_allocator(&(br_allocator){ count_allocate, count_deallocate, c });
}

static inline void uninstall(counter *c)
{
    br_thread_cleanup();
    cr_assert(br_set_allocator(NULL), "%s", br_error_message());
    cr_assert_eq(c->alive, 0, "%lld blocks leaked", (long long)c->alive);
}

#endif
