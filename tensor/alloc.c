/* tensor/alloc.c - where memory comes from: the user's allocator, and over it a cache of blocks.
 *
 * Freed storage is kept for reuse, so that a training step in its steady state asks the system for
 * nothing and touches no fresh pages. Small sizes are rounded to classes, four to a doubling; large
 * ones to pages, and a kept block serves a request that it exceeds by at most an eighth. */
#include "tensor/tensor_internal.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096, ALIGNMENT = 64, SMALL = 1 << 16, CLASSES = 64 };
static const size_t HUGE_PAGE = (size_t)2 << 20;

/* ---- The user's allocator -------------------------------------------------------------------- */

static void *system_allocate(void *context, size_t size, size_t alignment)
{
    (void)context;
    if (alignment <= _Alignof(max_align_t))
        return malloc(size);
    void *block;
    if (posix_memalign(&block, alignment, size) != 0)
        return NULL;
    if (alignment >= HUGE_PAGE)
        madvise(block, size, MADV_HUGEPAGE); /* a wish: failure changes nothing but speed */
    return block;
}

static void system_deallocate(void *context, void *block)
{
    (void)context;
    free(block);
}

static const br_allocator system_allocator = { system_allocate, system_deallocate, NULL };
static br_allocator allocator = { system_allocate, system_deallocate, NULL };

/* ---- Counters and the cache ------------------------------------------------------------------ */

typedef struct free_block {
    struct free_block *next;
} free_block;

typedef struct large_block {
    size_t capacity;
    void *block;
} large_block;

static struct {
    pthread_mutex_t lock;
    free_block *small[CLASSES];
    large_block *large; /* by capacity, ascending */
    size_t n_large, room;
    int64_t live, peak, cached;
    size_t memory_limit, cache_limit;
} pool = { .lock = PTHREAD_MUTEX_INITIALIZER, .cache_limit = SIZE_MAX };

static atomic_int_fast64_t small_blocks; /* br__malloc blocks alive, for br_set_allocator */

bool br_set_allocator(const br_allocator *a)
{
    if (br_failed())
        return false;
    if (a && (!a->allocate || !a->deallocate)) {
        br__fail(BR_ERROR_ARGUMENT, "set_allocator", "both functions are required");
        return false;
    }
    if (br_live_tensors() > 0) {
        br__fail(BR_ERROR_STATE, "set_allocator",
                 "%lld tensors are alive, and would be freed by another allocator than made them",
                 (long long)br_live_tensors());
        return false;
    }
    if (br__thread.scope) {
        br__fail(BR_ERROR_STATE, "set_allocator", "a scope is open");
        return false;
    }
    br_thread_cleanup();
    br_empty_cache();
    if (atomic_load(&small_blocks) > 0) {
        br__fail(BR_ERROR_STATE, "set_allocator",
                 "%lld blocks of modules, lists or strings are still held",
                 (long long)atomic_load(&small_blocks));
        return false;
    }
    allocator = a ? *a : system_allocator;
    br__keep_objects(!a);
    return true;
}

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

/* First kept large block of at least `capacity` bytes. */
static size_t find_large(size_t capacity)
{
    size_t lo = 0, hi = pool.n_large;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (pool.large[mid].capacity < capacity)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* A kept block for the request, or NULL; under the lock. */
static void *take_kept(size_t *capacity, int class)
{
    if (class >= 0) {
        free_block *block = pool.small[class];
        if (block)
            pool.small[class] = block->next;
        return block;
    }
    size_t i = find_large(*capacity);
    if (i == pool.n_large || pool.large[i].capacity > *capacity + *capacity / 8)
        return NULL;
    void *block = pool.large[i].block;
    *capacity = pool.large[i].capacity;
    pool.n_large--;
    memmove(&pool.large[i], &pool.large[i + 1], (pool.n_large - i) * sizeof *pool.large);
    return block;
}

/* Makes room for one more large block; under the lock. */
static bool reserve_large(void)
{
    if (pool.n_large < pool.room)
        return true;
    size_t room = pool.room ? 2 * pool.room : 64;
    large_block *large =
        allocator.allocate(allocator.context, room * sizeof *large, _Alignof(max_align_t));
    if (!large)
        return false;
    if (pool.large) {
        memcpy(large, pool.large, pool.n_large * sizeof *large);
        allocator.deallocate(allocator.context, pool.large);
    }
    pool.large = large;
    pool.room = room;
    return true;
}

/* Keeps a block for reuse; false if it cannot be kept. Under the lock. */
static bool keep(void *block, size_t capacity)
{
    if ((size_t)pool.cached + capacity > pool.cache_limit)
        return false;
    if (capacity <= SMALL) {
        size_t same;
        int class = size_class(capacity, &same);
        ((free_block *)block)->next = pool.small[class];
        pool.small[class] = block;
        return true;
    }
    if (!reserve_large())
        return false;
    size_t i = find_large(capacity);
    memmove(&pool.large[i + 1], &pool.large[i], (pool.n_large - i) * sizeof *pool.large);
    pool.large[i] = (large_block){ capacity, block };
    pool.n_large++;
    return true;
}

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

/* A new block; if there is none, kept ones go back first. */
static void *fresh_block(size_t capacity)
{
    size_t alignment = capacity >= HUGE_PAGE ? HUGE_PAGE : ALIGNMENT;
    void *block = allocator.allocate(allocator.context, capacity, alignment);
    if (block)
        return block;
    br_empty_cache();
    return allocator.allocate(allocator.context, capacity, alignment);
}

void *br__block_alloc(const char *op, size_t bytes, size_t *capacity)
{
    int class = -1;
    if (bytes <= SMALL)
        class = size_class(bytes, capacity);
    else
        *capacity = (bytes + PAGE - 1) / PAGE * PAGE;

    pthread_mutex_lock(&pool.lock);
    if (pool.memory_limit && (size_t)live_bytes() + bytes > pool.memory_limit) {
        long long live = (long long)live_bytes(), limit = (long long)pool.memory_limit;
        pthread_mutex_unlock(&pool.lock);
        return br__fail(BR_ERROR_MEMORY, op,
                        "%zu bytes would exceed the memory limit: %lld of %lld are in use", bytes,
                        live, limit);
    }
    pool.live += (int64_t)bytes;
    void *block = take_kept(capacity, class);
    if (block) {
        pool.cached -= (int64_t)*capacity;
        note_peak();
    }
    pthread_mutex_unlock(&pool.lock);
    if (block)
        return block;

    block = fresh_block(*capacity); /* unlocked: the system may take its time */
    pthread_mutex_lock(&pool.lock);
    if (block)
        note_peak();
    else
        pool.live -= (int64_t)bytes;
    pthread_mutex_unlock(&pool.lock);
    return block ? block
                 : br__fail(BR_ERROR_MEMORY, op, "%zu bytes of memory are not to be had", bytes);
}

void br__block_free(void *block, size_t bytes, size_t capacity)
{
    pthread_mutex_lock(&pool.lock);
    pool.live -= (int64_t)bytes;
    bool kept = keep(block, capacity);
    if (kept)
        pool.cached += (int64_t)capacity;
    pthread_mutex_unlock(&pool.lock);
    if (!kept)
        allocator.deallocate(allocator.context, block);
}

void br_empty_cache(void)
{
    br__objects_flush();
    pthread_mutex_lock(&pool.lock);
    for (int i = 0; i < CLASSES; i++) {
        while (pool.small[i]) {
            free_block *block = pool.small[i];
            pool.small[i] = block->next;
            allocator.deallocate(allocator.context, block);
        }
    }
    for (size_t i = 0; i < pool.n_large; i++)
        allocator.deallocate(allocator.context, pool.large[i].block);
    if (pool.large)
        allocator.deallocate(allocator.context, pool.large);
    pool.large = NULL;
    pool.n_large = pool.room = 0;
    pool.cached = 0;
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

/* ---- Small blocks ---------------------------------------------------------------------------- */

void *br__malloc_aligned(size_t size, size_t alignment)
{
    void *block = allocator.allocate(allocator.context, size ? size : 1,
                                     alignment ? alignment : _Alignof(max_align_t));
    if (!block)
        return br__fail(BR_ERROR_MEMORY, NULL, "%zu bytes of memory are not to be had", size);
    atomic_fetch_add(&small_blocks, 1);
    return block;
}

void *br__malloc(size_t size)
{
    return br__malloc_aligned(size, 0);
}

void *br__calloc(size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        return br__fail(BR_ERROR_MEMORY, NULL, "%zu x %zu bytes overflow", count, size);
    void *block = br__malloc(bytes);
    if (block)
        memset(block, 0, bytes);
    return block;
}

void *br__realloc(void *block, size_t old_size, size_t size)
{
    void *grown = br__malloc(size);
    if (!grown)
        return NULL;
    if (block)
        memcpy(grown, block, old_size < size ? old_size : size);
    br_free(block);
    return grown;
}

void br_free(void *block)
{
    if (!block)
        return;
    atomic_fetch_sub(&small_blocks, 1);
    allocator.deallocate(allocator.context, block);
}

char *br__strdup(const char *text)
{
    size_t n = strlen(text) + 1;
    char *copy = br__malloc(n);
    return copy ? memcpy(copy, text, n) : NULL;
}

char *br__format(const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = n < 0 ? br__fail(BR_ERROR_ARGUMENT, "format", "the text cannot be written")
                       : br__malloc((size_t)n + 1);
    if (text)
        vsnprintf(text, (size_t)n + 1, format, again);
    va_end(again);
    return text;
}
