/* tensor/memory.h - allocation: small blocks, a thread's cached objects, and storage blocks. */
#ifndef BR_TENSOR_MEMORY_H
#define BR_TENSOR_MEMORY_H

#include <brasa/tensor.h>
#include <stdatomic.h>

enum { BR_HUGE_PAGE = 2 << 20 }; /* bytes; huge pages are requested for blocks aligned to this */

/* Allocate and free with the user's allocator, or the system's. */
void *br__allocate(size_t size, size_t alignment);
void br__deallocate(void *block);
/* Same as realloc(), for a block of br_malloc(). */
void *br__realloc(void *block, size_t old_size, size_t size);
/* Returns the array, grown if necessary so that it has room for more than `count` items; it may
 * have moved. An empty array gets room for `first` items. Returns NULL and records an error on
 * failure; the old array is then unchanged. */
void *br__grow_from(int64_t first, void *items, int64_t *capacity, int64_t count, size_t item_size);
static inline void *br__grow(void *items, int64_t *capacity, int64_t count, size_t item_size)
{
    return br__grow_from(4, items, capacity, count, item_size);
}
/* Same as br_malloc() with an alignment; 0 means one that suits any object. Free it with
 * br_free(). */
void *br__malloc_aligned(size_t size, size_t alignment);

/* ---- Objects --------------------------------------------------------------------------------- */

/* A thread's cache of objects and its counters (tensor/objects.c). Every operation allocates and
 * frees objects: they have at most BR_MAX_OBJECT bytes, rounded up to whole cache lines, and are
 * cached here for reuse. */
enum { BR_MAX_OBJECT = 1024, BR_LINE = 64, BR_OBJECT_CLASSES = BR_MAX_OBJECT / BR_LINE };
typedef struct br_objects {
    void *free_list[BR_OBJECT_CLASSES]; /* free lists: each object begins with a pointer to the next
                                         */
    int free_slots[BR_OBJECT_CLASSES];  /* number of objects that still fit */
    /* Objects of ended tensors, a queue linked by their `base`. */
    br_tensor *oldest_ended, *newest_ended;
    int n_ended;
    /* Live tensors, bytes of inline storage, and the highest number of bytes for which a peak was
     * recorded. Only the owning thread writes them. */
    atomic_int_fast64_t tensors, bytes, high_water;
    bool listed;                     /* is in the list of all threads */
    struct br_objects *next, **link; /* links of that list, protected by its lock */
} br_objects;
extern _Thread_local br_objects br__objects;

static inline size_t br__object_class(size_t size)
{
    return (size + BR_LINE - 1) / BR_LINE - 1;
}

/* The slow paths: no cached object, and no room to cache one. */
void *br__object_alloc_slow(size_t size);
void br__object_free_slow(void *object, size_t size);

/* Returns a block of `size` bytes; pass the same size when it is freed. Returns NULL and records an
 * error on failure. */
static inline void *br__object_alloc(size_t size)
{
    size_t class = br__object_class(size);
    void *object = class < BR_OBJECT_CLASSES ? br__objects.free_list[class] : NULL;
    if (!object)
        return br__object_alloc_slow(size);
    br__objects.free_list[class] = *(void **)object;
    br__objects.free_slots[class]++;
    return object;
}

static inline void br__object_free(void *object, size_t size)
{
    size_t class = br__object_class(size);
    if (class >= BR_OBJECT_CLASSES || br__objects.free_slots[class] == 0) {
        br__object_free_slow(object, size);
        return;
    }
    *(void **)object = br__objects.free_list[class];
    br__objects.free_list[class] = object;
    br__objects.free_slots[class]--;
}

/* Allocate and free the object of a tensor. The object that was freed first is reused first, and
 * the last BR_SET_ASIDE of a thread are not reused, so that their marks identify stale pointers. */
enum { BR_SET_ASIDE = 64 };
br_tensor *br__tensor_object_alloc(void);
void br__tensor_object_free(br_tensor *t);
/* Frees this thread's cached objects. */
void br__objects_flush(void);
/* Registers this thread for cleanup when it ends. Returns false if that is not possible. */
bool br__list_thread(void);
/* Set and return whether threads cache objects. They never do with a program's own allocator or
 * with AddressSanitizer. */
void br__cache_objects(bool keep);
bool br__caches_objects(void);
/* Sets whether there is a memory limit. It is checked only when a block is allocated, so elements
 * are not stored inline while there is one. */
void br__limit_objects(bool limit);
/* Returns whether a small tensor's elements may be stored inline, in its storage object. */
bool br__inline_storage(void);

/* Adds to the thread's counters. br__count_slow() handles the rare cases: a new thread or a new
 * peak. */
void br__count_slow(int64_t tensors, int64_t bytes);
static inline void br__count(int64_t tensors, int64_t bytes)
{
    br_objects *o = &br__objects;
    int64_t now = atomic_load_explicit(&o->bytes, memory_order_relaxed) + bytes;
    if (!o->listed || now > atomic_load_explicit(&o->high_water, memory_order_relaxed)) {
        br__count_slow(tensors, bytes);
        return;
    }
    atomic_store_explicit(&o->bytes, now, memory_order_relaxed);
    tensors += atomic_load_explicit(&o->tensors, memory_order_relaxed);
    atomic_store_explicit(&o->tensors, tensors, memory_order_relaxed);
}
/* Returns the sums over all threads. */
void br__live_totals(int64_t *tensors, int64_t *bytes);
/* Makes every thread check for a new peak the next time its bytes increase. */
void br__watch_for_peak(void);
void br__record_peak(void);

/* ---- Storage blocks -------------------------------------------------------------------------- */

/* Allocate and free storage blocks, which are cached and counted. They are aligned to 64 bytes;
 * blocks of 2 MiB and more that come from the allocator, not from the arena, are aligned to 2 MiB.
 * Pass *extent to br__block_free(). */
void *br__block_alloc(const char *op, size_t bytes, br_extent **extent);
void br__block_free(void *block, size_t bytes, br_extent *extent);
/* Returns the actual size of the block in bytes. */
size_t br__block_size(size_t bytes, const br_extent *extent);

#endif
