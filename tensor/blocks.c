/* tensor/blocks.c - storage blocks, the cache of free blocks, and memory counters.
 *
 * Freed storage is cached for reuse, so that a training step in steady state makes no system calls
 * for memory and touches no new pages. Small sizes are rounded up to size classes, four per
 * doubling; large ones to pages (tensor/extents.c). */
#include "tensor/extents.h"

#include <pthread.h>
#include <string.h>
#ifdef __SANITIZE_ADDRESS__
#    include <sanitizer/asan_interface.h>
#endif

enum { PAGE = 4096, ALIGNMENT = 64, SMALL = 1 << 16, CLASSES = 64 };

/* ---- Counters and the cache ------------------------------------------------------------------ */

typedef struct free_block {
    struct free_block *next;
} free_block;

static struct {
    pthread_mutex_t lock;
    free_block *small[CLASSES];
    int64_t live, peak, cached; /* cached: small blocks only */
    size_t memory_limit, cache_limit;
} pool = { .lock = PTHREAD_MUTEX_INITIALIZER, .cache_limit = SIZE_MAX };

/* Returns the index of the size class for a small size, and stores the block size of the class in
 * *capacity. */
static int size_class(size_t bytes, size_t *capacity)
{
    size_t units = (bytes + ALIGNMENT - 1) / ALIGNMENT;
    if (units <= 4) {
        units = units ? units : 1;
        *capacity = units * ALIGNMENT;
        return (int)units - 1;
    }
    int log = 63 - __builtin_clzll((unsigned long long)(units - 1));
    size_t step = (size_t)1 << (log - 2);
    size_t steps = (units - 1 - ((size_t)1 << log)) / step + 1;
    *capacity = (((size_t)1 << log) + steps * step) * ALIGNMENT;
    return 4 * (log - 1) + (int)steps - 1;
}

static size_t page_size(size_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

static int64_t cached_bytes(void)
{
    return pool.cached + br__extents_cached();
}

/* Frees all cached memory. The lock must be held. */
static void empty_cached(void)
{
    for (int i = 0; i < CLASSES; i++)
        while (pool.small[i]) {
            free_block *block = pool.small[i];
            pool.small[i] = block->next;
            br__deallocate(block);
        }
    pool.cached = 0;
    br__extents_empty();
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

/* Returns all live bytes, including small tensors. */
static int64_t live_bytes(void)
{
    int64_t tensors, bytes;
    br__live_totals(&tensors, &bytes);
    return pool.live + bytes;
}

/* The lock must be held. */
static void note_peak(void)
{
    int64_t live = live_bytes();
    if (live <= pool.peak)
        return;
    pool.peak = live;
    br__watch_for_peak();
}

void br__record_peak(void)
{
    pthread_mutex_lock(&pool.lock);
    note_peak();
    pthread_mutex_unlock(&pool.lock);
}

/* Under AddressSanitizer, poisons the bytes of a block beyond the requested size. Otherwise
 * AddressSanitizer would not report an access to them, because they are part of the allocated
 * block. */
#ifdef __SANITIZE_ADDRESS__
static void guard(void *block, size_t bytes, const br_extent *extent)
{
    ASAN_POISON_MEMORY_REGION((char *)block + bytes, br__block_size(bytes, extent) - bytes);
}

static void unguard(void *block, size_t bytes, const br_extent *extent)
{
    ASAN_UNPOISON_MEMORY_REGION((char *)block + bytes, br__block_size(bytes, extent) - bytes);
}
#else
#    define guard(block, bytes, extent)   ((void)0)
#    define unguard(block, bytes, extent) ((void)0)
#endif

/* Returns a cached block for the request, or NULL. The lock must be held. */
static void *reuse_cached(size_t bytes, br_extent **extent)
{
    if (bytes > SMALL) {
        *extent = br__extent_reuse(page_size(bytes));
        return *extent ? (*extent)->data : NULL;
    }
    size_t capacity;
    int class = size_class(bytes, &capacity);
    free_block *block = pool.small[class];
    if (!block)
        return NULL;
    pool.small[class] = block->next;
    pool.cached -= (int64_t)capacity;
    return block;
}

/* Returns a new block from the system or the allocator. The lock must be held; it is released while
 * the allocator runs. */
static void *fresh_block(size_t bytes, br_extent **extent)
{
    size_t capacity, alignment = ALIGNMENT;
    if (bytes <= SMALL)
        size_class(bytes, &capacity);
    else {
        capacity = page_size(bytes);
        if ((*extent = br__extent_grow(capacity)))
            return (*extent)->data;
        if (!(*extent = br__extent_new(capacity)))
            return NULL;
        if (capacity >= BR_HUGE_PAGE)
            alignment = BR_HUGE_PAGE;
    }
    pthread_mutex_unlock(&pool.lock);
    void *block = br__allocate(capacity, alignment);
    pthread_mutex_lock(&pool.lock);
    if (*extent)
        (*extent)->data = block;
    if (*extent && !block)
        br__extent_end(*extent);
    return block;
}

void *br__block_alloc(const char *op, size_t bytes, br_extent **extent)
{
    *extent = NULL;
    pthread_mutex_lock(&pool.lock);
    if (pool.memory_limit && (size_t)live_bytes() + bytes > pool.memory_limit) {
        long long live = (long long)live_bytes(), limit = (long long)pool.memory_limit;
        pthread_mutex_unlock(&pool.lock);
        return br_fail(BR_ERROR_MEMORY, op,
                       "allocating %zu bytes would exceed the memory limit: %lld of %lld bytes "
                       "are in use",
                       bytes, live, limit);
    }
    pool.live += (int64_t)bytes;
    void *block = reuse_cached(bytes, extent);
    if (!block)
        block = fresh_block(bytes, extent);
    if (!block) {
        empty_cached();
        block = fresh_block(bytes, extent);
    }
    if (block)
        note_peak();
    else
        pool.live -= (int64_t)bytes;
    pthread_mutex_unlock(&pool.lock);
    if (block)
        guard(block, bytes, *extent);
    return block ? block : br_fail(BR_ERROR_MEMORY, op, "cannot allocate %zu bytes", bytes);
}

/* Caches a small block. Returns NULL, or the block if the cache limit does not allow that. */
static void *cache_small(void *block, size_t bytes)
{
    size_t capacity;
    int class = size_class(bytes, &capacity);
    if ((size_t)cached_bytes() + capacity > pool.cache_limit)
        return block;
    ((free_block *)block)->next = pool.small[class];
    pool.small[class] = block;
    pool.cached += (int64_t)capacity;
    return NULL;
}

/* Caches a large block. Returns NULL, or a block that the caller must return to the allocator. */
static void *cache_large(br_extent *extent)
{
    size_t small = (size_t)pool.cached, limit = pool.cache_limit;
    return br__extent_release(extent, limit > small ? limit - small : 0);
}

void br__block_free(void *block, size_t bytes, br_extent *extent)
{
    unguard(block, bytes, extent);
    pthread_mutex_lock(&pool.lock);
    pool.live -= (int64_t)bytes;
    void *unkept = extent ? cache_large(extent) : cache_small(block, bytes);
    pthread_mutex_unlock(&pool.lock);
    if (unkept)
        br__deallocate(unkept);
}

size_t br__block_size(size_t bytes, const br_extent *extent)
{
    size_t capacity = extent ? extent->size : 0;
    if (!extent)
        size_class(bytes, &capacity);
    return capacity;
}

void br_empty_cache(void)
{
    br__objects_flush();
    pthread_mutex_lock(&pool.lock);
    empty_cached();
    pthread_mutex_unlock(&pool.lock);
}

void br_set_memory_limit(size_t bytes)
{
    pthread_mutex_lock(&pool.lock);
    pool.memory_limit = bytes;
    br__limit_objects(bytes > 0);
    pthread_mutex_unlock(&pool.lock);
}

void br_set_cache_limit(size_t bytes)
{
    pthread_mutex_lock(&pool.lock);
    pool.cache_limit = bytes;
    bool shrink = (size_t)cached_bytes() > bytes;
    pthread_mutex_unlock(&pool.lock);
    if (shrink)
        br_empty_cache();
}

static int64_t read_counter(int64_t (*counter)(void))
{
    pthread_mutex_lock(&pool.lock);
    int64_t value = counter();
    pthread_mutex_unlock(&pool.lock);
    return value;
}

int64_t br_live_bytes(void)
{
    return read_counter(live_bytes);
}

static int64_t peak_bytes(void)
{
    return pool.peak;
}

int64_t br_peak_bytes(void)
{
    return read_counter(peak_bytes);
}

int64_t br_cached_bytes(void)
{
    return read_counter(cached_bytes);
}

void br_reset_peak_bytes(void)
{
    pthread_mutex_lock(&pool.lock);
    pool.peak = live_bytes();
    br__watch_for_peak();
    pthread_mutex_unlock(&pool.lock);
}
