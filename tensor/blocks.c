/* tensor/blocks.c - blocks of storage, a cache of those that are free, and its counters.
 *
 * Freed storage is kept for reuse, so that a training step in its steady state asks the system for
 * nothing and touches no fresh pages. Small sizes are rounded to classes, four to a doubling, large
 * ones to pages (tensor/extents.c). */
#include "tensor/extents.h"

#include <pthread.h>
#include <string.h>

enum { PAGE = 4096, ALIGNMENT = 64, SMALL = 1 << 16, CLASSES = 64 };

/* ---- Counters and the cache ------------------------------------------------------------------ */

typedef struct free_block {
    struct free_block *next;
} free_block;

static struct {
    pthread_mutex_t lock;
    free_block *small[CLASSES];
    int64_t live, peak, cached; /* cached: of small ones */
    size_t memory_limit, cache_limit;
} pool = { .lock = PTHREAD_MUTEX_INITIALIZER, .cache_limit = SIZE_MAX };

/* Index of the class of a small size, and the class's capacity. */
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

/* Gives what is kept back; under the lock. */
static void empty_kept(void)
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

/* All that is alive, small tensors included. */
static int64_t live_bytes(void)
{
    int64_t tensors, bytes;
    br__live(&tensors, &bytes);
    return pool.live + bytes;
}

/* Under the lock. */
static void note_peak(void)
{
    int64_t live = live_bytes();
    if (live <= pool.peak)
        return;
    pool.peak = live;
    br__watch_peak();
}

void br__note_peak(void)
{
    pthread_mutex_lock(&pool.lock);
    note_peak();
    pthread_mutex_unlock(&pool.lock);
}

/* A kept block for the request, or NULL; under the lock. */
static void *take_kept(size_t bytes, br_extent **extent)
{
    if (bytes > SMALL) {
        *extent = br__extent_take(page_size(bytes));
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

/* A block of the system's or the allocator's; under the lock, which is open while the allocator
 * takes its time. */
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
        return br__fail(BR_ERROR_MEMORY, op,
                        "%zu bytes would exceed the memory limit: %lld of %lld are in use", bytes,
                        live, limit);
    }
    pool.live += (int64_t)bytes;
    void *block = take_kept(bytes, extent);
    if (!block)
        block = fresh_block(bytes, extent);
    if (!block) {
        empty_kept();
        block = fresh_block(bytes, extent);
    }
    if (block)
        note_peak();
    else
        pool.live -= (int64_t)bytes;
    pthread_mutex_unlock(&pool.lock);
    return block ? block
                 : br__fail(BR_ERROR_MEMORY, op, "%zu bytes of memory are not to be had", bytes);
}

/* Keeps a small block for reuse; returned is what there is no room for, or NULL. */
static void *give_small(void *block, size_t bytes)
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

/* Keeps a large block; returned is what the allocator has to take back, or NULL. */
static void *give_large(br_extent *extent)
{
    size_t small = (size_t)pool.cached, limit = pool.cache_limit;
    return br__extent_give(extent, limit > small ? limit - small : 0);
}

void br__block_free(void *block, size_t bytes, br_extent *extent)
{
    pthread_mutex_lock(&pool.lock);
    pool.live -= (int64_t)bytes;
    void *unkept = extent ? give_large(extent) : give_small(block, bytes);
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
    empty_kept();
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
    br__watch_peak();
    pthread_mutex_unlock(&pool.lock);
}
