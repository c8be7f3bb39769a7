/* tensor/alloc.c - the user's allocator, and the small blocks allocated directly with it: modules,
 * lists and strings. Tensor storage is allocated through the cache in tensor/blocks.c. */
#include "tensor/min_max.h"
#include "tensor/tensor_internal.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- The user's allocator -------------------------------------------------------------------- */

static void *system_allocate(void *context, size_t size, size_t alignment)
{
    (void)context;
    if (alignment <= _Alignof(max_align_t))
        return malloc(size);
    void *block;
    if (posix_memalign(&block, alignment, size) != 0)
        return NULL;
    if (alignment >= BR_HUGE_PAGE)
        madvise(block, size, MADV_HUGEPAGE); /* only a hint: a failure affects only speed */
    return block;
}

static void system_deallocate(void *context, void *block)
{
    (void)context;
    free(block);
}

static const br_allocator system_allocator = { system_allocate, system_deallocate, NULL };
static br_allocator allocator = { system_allocate, system_deallocate, NULL };

void *br__allocate(size_t size, size_t alignment)
{
    return allocator.allocate(allocator.context, size, alignment);
}

void br__deallocate(void *block)
{
    allocator.deallocate(allocator.context, block);
}

static atomic_int_fast64_t small_blocks; /* live br_malloc() blocks, for br_set_allocator() */

bool br_set_allocator(const br_allocator *a)
{
    if (br_failed())
        return false;
    if (a && (!a->allocate || !a->deallocate)) {
        br_fail(BR_ERROR_ARGUMENT, "set_allocator", "allocate and deallocate are both required");
        return false;
    }
    if (br_live_tensors() > 0) {
        br_fail(BR_ERROR_STATE, "set_allocator",
                "%lld live tensors would be freed by the wrong allocator: free them first",
                (long long)br_live_tensors());
        return false;
    }
    if (br__thread.scope) {
        br_fail(BR_ERROR_STATE, "set_allocator", "a scope is open: call br_scope_end() first");
        return false;
    }
    br_thread_cleanup();
    br_empty_cache();
    br__handles_flush();
    br__debug_empty_quarantine();
    if (atomic_load(&small_blocks) > 0) {
        br_fail(BR_ERROR_STATE, "set_allocator",
                "%lld blocks of modules, lists or strings are still allocated: free them first",
                (long long)atomic_load(&small_blocks));
        return false;
    }
    allocator = a ? *a : system_allocator;
    br__cache_objects(!a);
    return true;
}

/* ---- Small blocks ---------------------------------------------------------------------------- */

void *br__malloc_aligned(size_t size, size_t alignment)
{
    void *block = br__allocate(size ? size : 1, alignment ? alignment : _Alignof(max_align_t));
    if (!block)
        return br_fail(BR_ERROR_MEMORY, NULL, "cannot allocate %zu bytes", size);
    atomic_fetch_add(&small_blocks, 1);
    return block;
}

void *br_malloc(size_t size)
{
    return br__malloc_aligned(size, 0);
}

void *br_calloc(size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        return br_fail(BR_ERROR_MEMORY, NULL, "cannot allocate %zu x %zu bytes: size overflow",
                       count, size);
    void *block = br_malloc(bytes);
    if (block)
        memset(block, 0, bytes);
    return block;
}

void *br__realloc(void *block, size_t old_size, size_t size)
{
    void *grown = br_malloc(size);
    if (!grown)
        return NULL;
    if (block)
        memcpy(grown, block, br__min(old_size, size));
    br_free(block);
    return grown;
}

void *br__grow_from(int64_t first, void *items, int64_t *capacity, int64_t count, size_t item_size)
{
    if (count < *capacity)
        return items;
    int64_t more = *capacity ? 2 * *capacity : first;
    void *grown = br__realloc(items, (size_t)*capacity * item_size, (size_t)more * item_size);
    if (grown)
        *capacity = more;
    return grown;
}

void br_free(void *block)
{
    if (!block)
        return;
    atomic_fetch_sub(&small_blocks, 1);
    br__deallocate(block);
}

char *br_strdup(const char *text)
{
    if (!text)
        return br_fail(BR_ERROR_ARGUMENT, "strdup", "text is NULL, but it is required");
    size_t n = strlen(text) + 1;
    char *copy = br_malloc(n);
    return copy ? memcpy(copy, text, n) : NULL;
}

char *br_format(const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = n < 0 ? br_fail(BR_ERROR_ARGUMENT, "format", "cannot format the text")
                       : br_malloc((size_t)n + 1);
    if (text)
        vsnprintf(text, (size_t)n + 1, format, again);
    va_end(again);
    return text;
}
