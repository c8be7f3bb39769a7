/* tests/allocations.c - replaces the C library's allocator with one that fails on request. */
#include "tests/allocations.h"

#include "tests/support.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#if defined __SANITIZE_ADDRESS__ || !defined __GLIBC__
#    define REPLACED false
#elif defined __has_feature
#    if __has_feature(address_sanitizer)
#        define REPLACED false
#    endif
#endif
#ifndef REPLACED
#    define REPLACED true
#endif

static _Atomic int64_t left = -1, live;
static atomic_bool on, all_later, any_failed;

bool allocations_can_fail(void)
{
    return REPLACED;
}

void allocations_begin(int64_t n, bool all)
{
    left = n;
    all_later = all;
    any_failed = false;
    live = 0;
    on = true;
}

int64_t allocations_end(bool *failed)
{
    on = false;
    *failed = any_failed;
    return live;
}

/* ---- Replaced functions ---------------------------------------------------------------------- */

#if REPLACED

#    pragma GCC visibility push(default) /* so that shared libraries call them too */

/* glibc exports its own functions under these names for programs that replace malloc(). */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *block);

/* Returns true if this allocation must fail. */
static bool fails(void)
{
    if (!on)
        return false;
    int64_t n = left--;
    bool fail = n == 0 || (n < 0 && all_later);
    if (fail) {
        any_failed = true;
        errno = ENOMEM;
    } else {
        live++;
    }
    return fail;
}

void *malloc(size_t size)
{
    return fails() ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    return fails() ? NULL : __libc_calloc(n, size);
}

void free(void *block)
{
    if (on && block)
        live--;
    __libc_free(block);
}

void *realloc(void *block, size_t size)
{
    if (fails())
        return NULL;
    if (on && block)
        live--;
    return __libc_realloc(block, size);
}

void *memalign(size_t alignment, size_t size)
{
    return fails() ? NULL : __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return memalign(alignment, size);
}

int posix_memalign(void **block, size_t alignment, size_t size)
{
    *block = memalign(alignment, size);
    return *block ? 0 : ENOMEM;
}

#    pragma GCC visibility pop

#endif

/* ---- Failing each allocation in turn --------------------------------------------------------- */

/* Passes every request of Brasa on to the C library, which bypasses Brasa's arena. */
static void *allocate(void *context, size_t size, size_t alignment)
{
    void *block;
    (void)context;
    return posix_memalign(&block, alignment < 16 ? 16 : alignment, size) == 0 ? block : NULL;
}

static void deallocate(void *context, void *block)
{
    (void)context;
    free(block);
}

/* Runs the task once. Returns false if no allocation failed. */
static bool run(allocations_task task, const char *name, int64_t n, bool all, uint64_t right)
{
    uint64_t digest = 0;
    bool failed;
    allocations_begin(n, all);
    bool ok = task(&digest);
    br_error code = br_error_code();
    bool reported = br_failed() && *br_error_message();
    char message[300];
    snprintf(message, sizeof message, "%s", br_error_message());
    br_clear_error();
    br_thread_cleanup();
    int64_t more = allocations_end(&failed);
    const char *kind = all ? "and later ones" : "alone";
    cr_assert(ok || failed, "%s: %s", name, message);
    cr_assert(!ok || digest == right, "%s: wrong values when allocation %lld %s fails", name,
              (long long)n, kind);
    cr_assert(ok != reported, "%s: no error reported when allocation %lld %s fails", name,
              (long long)n, kind);
    cr_assert(ok || code == BR_ERROR_MEMORY, "%s: wrong error when allocation %lld %s fails: %s",
              name, (long long)n, kind, message);
    cr_assert_eq(more, 0, "%s: %lld blocks leak when allocation %lld %s fails: %s", name,
                 (long long)more, (long long)n, kind, message);
    return failed;
}

void allocations_fail_in_turn(allocations_task task, const char *name)
{
    uint64_t right = 0, again = 0;
    br_set_cache_limit(0);
    cr_assert(br_set_allocator(&(br_allocator){ allocate, deallocate, NULL }));
    cr_assert(task(&right) && task(&again), "%s: %s", name, br_error_message());
    check_fails(br_zeros(BR_SHAPE(-1), BR_F32), "-1"); /* allocates the message buffer */
    cr_assert(right == again && right != 0, "%s reads nothing, or differs between runs", name);
    br_thread_cleanup();
    for (int all = 0; all < 2; all++)
        for (int64_t n = 0; run(task, name, n, all, right); n++)
            cr_assert(n < 20000, "%s still fails after %lld allocations", name, (long long)n);
    cr_assert(br_set_allocator(NULL));
}
