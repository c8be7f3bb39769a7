/* tensor/blocks.c - a cache of storage blocks over the user's allocator, and its counters.
 *
 * Freed storage is kept for reuse, so that a training step in its steady state asks the system for
 * nothing and touches no fresh pages. Small sizes are rounded to classes, four to a doubling. Large
 * ones are rounded to pages and come from the smallest kept extent that is large enough; one that
 * exceeds the request by more than an eighth is cut, and its parts join again when they are free.
 * Sizes that change from step to step so live in the memory that the largest of them took. */
#include "tensor/tensor_internal.h"

#include <pthread.h>
#include <string.h>

enum { PAGE = 4096, ALIGNMENT = 64, SMALL = 1 << 16, CLASSES = 64 };

/* ---- Counters and the cache ------------------------------------------------------------------ */

typedef struct free_block {
    struct free_block *next;
} free_block;

/* A part of a large block of the allocator's, alive or kept; together they cover it. */
struct br_extent {
    char *data;
    size_t size;
    br_extent *before, *after; /* its neighbours in the block */
    bool kept;
};

static struct {
    pthread_mutex_t lock;
    free_block *small[CLASSES];
    br_extent **kept; /* large ones, by size, ascending; has room for all extents there are */
    size_t n_kept, n_extents, room;
    br_extent *spare; /* structs to be used again, chained by `after` */
    int64_t live, peak, cached;
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

/* ---- Large blocks; all under the lock -------------------------------------------------------- */

static size_t page_size(size_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

/* Makes room among the kept for one more extent. */
static bool reserve(void)
{
    if (pool.n_extents < pool.room)
        return true;
    size_t room = pool.room ? 2 * pool.room : 64;
    br_extent **kept = br__allocate(room * sizeof(br_extent *), _Alignof(max_align_t));
    if (!kept)
        return false;
    if (pool.kept) {
        memcpy(kept, pool.kept, pool.n_kept * sizeof *kept);
        br__deallocate(pool.kept);
    }
    pool.kept = kept;
    pool.room = room;
    return true;
}

/* An extent that is not kept; NULL if there is no memory for it. */
static br_extent *new_extent(char *data, size_t size)
{
    br_extent *extent = pool.spare;
    if (!reserve() || (!extent && !(extent = br__allocate(sizeof *extent, _Alignof(br_extent)))))
        return NULL;
    if (extent == pool.spare)
        pool.spare = extent->after;
    *extent = (br_extent){ .data = data, .size = size };
    pool.n_extents++;
    return extent;
}

static void end_extent(br_extent *extent)
{
    extent->after = pool.spare;
    pool.spare = extent;
    pool.n_extents--;
}

/* Gives back what notes extents, as far as there are none. */
static void end_notes(void)
{
    while (pool.spare) {
        br_extent *extent = pool.spare;
        pool.spare = extent->after;
        br__deallocate(extent);
    }
    if (pool.n_extents == 0 && pool.kept) {
        br__deallocate(pool.kept);
        pool.kept = NULL;
        pool.room = 0;
    }
}

/* The place of the first kept extent of at least `size` bytes. */
static size_t find_kept(size_t size)
{
    size_t lo = 0, hi = pool.n_kept;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (pool.kept[mid]->size < size)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static void keep(br_extent *extent)
{
    size_t i = find_kept(extent->size);
    memmove(&pool.kept[i + 1], &pool.kept[i], (pool.n_kept - i) * sizeof(br_extent *));
    pool.kept[i] = extent;
    pool.n_kept++;
    pool.cached += (int64_t)extent->size;
    extent->kept = true;
}

static void unkeep(br_extent *extent)
{
    size_t i = find_kept(extent->size);
    while (pool.kept[i] != extent)
        i++;
    pool.n_kept--;
    memmove(&pool.kept[i], &pool.kept[i + 1], (pool.n_kept - i) * sizeof(br_extent *));
    pool.cached -= (int64_t)extent->size;
    extent->kept = false;
}

/* Cuts what exceeds `size` off and keeps it; without memory to note that the extent stays whole. */
static void cut(br_extent *extent, size_t size)
{
    br_extent *rest = new_extent(extent->data + size, extent->size - size);
    if (!rest)
        return;
    rest->before = extent;
    rest->after = extent->after;
    if (rest->after)
        rest->after->before = rest;
    extent->after = rest;
    extent->size = size;
    keep(rest);
}

/* A kept extent for the request, or NULL. */
static br_extent *take_extent(size_t size)
{
    size_t i = find_kept(size);
    if (i == pool.n_kept)
        return NULL;
    br_extent *extent = pool.kept[i];
    unkeep(extent);
    if (extent->size > size + size / 8)
        cut(extent, size);
    return extent;
}

/* Joins an extent with the one behind it, which ends. */
static void join(br_extent *extent)
{
    br_extent *rest = extent->after;
    extent->size += rest->size;
    extent->after = rest->after;
    if (extent->after)
        extent->after->before = extent;
    end_extent(rest);
}

/* Keeps an extent with its free neighbours for reuse. A whole block that is too much goes back:
 * returned is what the caller has to deallocate, or NULL. */
static void *give_extent(br_extent *extent)
{
    if (extent->after && extent->after->kept) {
        unkeep(extent->after);
        join(extent);
    }
    if (extent->before && extent->before->kept) {
        extent = extent->before;
        unkeep(extent);
        join(extent);
    }
    bool whole = !extent->before && !extent->after;
    if (!whole || (size_t)pool.cached + extent->size <= pool.cache_limit) {
        keep(extent);
        return NULL;
    }
    void *block = extent->data;
    end_extent(extent);
    if (pool.n_extents == 0)
        end_notes();
    return block;
}

/* Gives what is kept back, but for parts of blocks of which others are in use. */
static void empty_kept(void)
{
    for (int i = 0; i < CLASSES; i++)
        while (pool.small[i]) {
            free_block *block = pool.small[i];
            pool.small[i] = block->next;
            br__deallocate(block);
        }
    size_t n = pool.n_kept;
    pool.n_kept = 0;
    pool.cached = 0;
    for (size_t i = 0; i < n; i++) {
        br_extent *extent = pool.kept[i];
        if (extent->before || extent->after) {
            pool.kept[pool.n_kept++] = extent;
            pool.cached += (int64_t)extent->size;
        } else {
            br__deallocate(extent->data);
            end_extent(extent);
        }
    }
    end_notes();
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
        *extent = take_extent(page_size(bytes));
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

/* A block of the allocator's; under the lock, which is open while the system takes its time. */
static void *fresh_block(size_t bytes, br_extent **extent)
{
    size_t capacity;
    if (bytes <= SMALL)
        size_class(bytes, &capacity);
    else if (!(*extent = new_extent(NULL, capacity = page_size(bytes))))
        return NULL;
    pthread_mutex_unlock(&pool.lock);
    void *block = br__allocate(capacity, capacity >= BR_HUGE_PAGE ? BR_HUGE_PAGE : ALIGNMENT);
    pthread_mutex_lock(&pool.lock);
    if (*extent)
        (*extent)->data = block;
    if (*extent && !block) {
        end_extent(*extent);
        if (pool.n_extents == 0)
            end_notes();
    }
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
    if ((size_t)pool.cached + capacity > pool.cache_limit)
        return block;
    ((free_block *)block)->next = pool.small[class];
    pool.small[class] = block;
    pool.cached += (int64_t)capacity;
    return NULL;
}

void br__block_free(void *block, size_t bytes, br_extent *extent)
{
    pthread_mutex_lock(&pool.lock);
    pool.live -= (int64_t)bytes;
    void *unkept = extent ? give_extent(extent) : give_small(block, bytes);
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
    bool shrink = (size_t)pool.cached > bytes;
    pthread_mutex_unlock(&pool.lock);
    if (shrink)
        br_empty_cache();
}

static int64_t read_counter(const int64_t *counter)
{
    pthread_mutex_lock(&pool.lock);
    int64_t value = *counter;
    pthread_mutex_unlock(&pool.lock);
    return value;
}

int64_t br_live_bytes(void)
{
    pthread_mutex_lock(&pool.lock);
    int64_t live = live_bytes();
    pthread_mutex_unlock(&pool.lock);
    return live;
}

int64_t br_peak_bytes(void)
{
    return read_counter(&pool.peak);
}

int64_t br_cached_bytes(void)
{
    return read_counter(&pool.cached);
}

void br_reset_peak_bytes(void)
{
    pthread_mutex_lock(&pool.lock);
    pool.peak = live_bytes();
    br__watch_peak();
    pthread_mutex_unlock(&pool.lock);
}
