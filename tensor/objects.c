/* tensor/objects.c - small blocks of known size, cached by each thread, and the counters of live
 * tensors and bytes.
 *
 * Tensors, storages with few elements, autograd nodes and scopes are allocated here: a thread
 * allocates and frees cached objects without a lock, an atomic instruction or a call of the
 * allocator. Counters are per thread, too, and are summed when they are read. A block may be freed
 * by a thread other than the one that allocated it.
 *
 * Nothing is cached with a program's own allocator or AddressSanitizer, which must see every
 * block. */
#include "tensor/tensor_internal.h"

#include <pthread.h>

enum { KEPT = 1024 }; /* maximum number of cached objects of each size, and of ended tensors */

_Thread_local br_objects br__objects;

#ifdef __SANITIZE_ADDRESS__
enum { WANTED = false };
#else
enum { WANTED = true };
#endif
static atomic_bool caching = WANTED, limited;

/* ---- All threads ----------------------------------------------------------------------------- */

static struct {
    pthread_mutex_t lock;
    br_objects *first;
    int64_t tensors, bytes; /* of ended threads; can be nonzero, as threads free others' tensors */
} all = { .lock = PTHREAD_MUTEX_INITIALIZER };

static int64_t load(const atomic_int_fast64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static void store(atomic_int_fast64_t *counter, int64_t value)
{
    atomic_store_explicit(counter, value, memory_order_relaxed);
}

static void end_thread(void *context)
{
    br_objects *o = context;
    br_thread_cleanup();
    br__thread_cold_free();
    pthread_mutex_lock(&all.lock);
    all.tensors += load(&o->tensors);
    all.bytes += load(&o->bytes);
    *o->link = o->next;
    if (o->next)
        o->next->link = o->link;
    pthread_mutex_unlock(&all.lock);
    *o = (br_objects){ .listed = false };
}

static pthread_key_t key;
static bool has_key;

static void make_key(void)
{
    has_key = pthread_key_create(&key, end_thread) == 0;
}

bool br__list_thread(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    br_objects *o = &br__objects;
    if (o->listed)
        return true;
    pthread_once(&once, make_key);
    if (!has_key || pthread_setspecific(key, o) != 0)
        return false;
    pthread_mutex_lock(&all.lock);
    o->next = all.first;
    o->link = &all.first;
    if (o->next)
        o->next->link = &o->next;
    all.first = o;
    pthread_mutex_unlock(&all.lock);
    o->listed = true;
    return true;
}

void br__live_totals(int64_t *tensors, int64_t *bytes)
{
    pthread_mutex_lock(&all.lock);
    *tensors = all.tensors;
    *bytes = all.bytes;
    for (const br_objects *o = all.first; o; o = o->next) {
        *tensors += load(&o->tensors);
        *bytes += load(&o->bytes);
    }
    pthread_mutex_unlock(&all.lock);
}

void br__watch_for_peak(void)
{
    pthread_mutex_lock(&all.lock);
    for (br_objects *o = all.first; o; o = o->next)
        store(&o->high_water, load(&o->bytes));
    pthread_mutex_unlock(&all.lock);
}

void br__count_slow(int64_t tensors, int64_t bytes)
{
    br_objects *o = &br__objects;
    if (!br__list_thread()) { /* counted with the ended threads instead */
        pthread_mutex_lock(&all.lock);
        all.tensors += tensors;
        all.bytes += bytes;
        pthread_mutex_unlock(&all.lock);
        return;
    }
    int64_t now = load(&o->bytes) + bytes;
    store(&o->tensors, load(&o->tensors) + tensors);
    store(&o->bytes, now);
    if (now > load(&o->high_water)) {
        store(&o->high_water, now);
        br__record_peak();
    }
}

/* ---- Objects --------------------------------------------------------------------------------- */

bool br__caches_objects(void)
{
    return atomic_load_explicit(&caching, memory_order_relaxed);
}

bool br__inline_storage(void)
{
    return br__caches_objects() && !atomic_load_explicit(&limited, memory_order_relaxed);
}

void br__limit_objects(bool limit)
{
    atomic_store(&limited, limit);
}

void br__cache_objects(bool keep)
{
    atomic_store(&caching, keep && WANTED);
}

void *br__object_alloc_slow(size_t size)
{
    return br__malloc_aligned((br__object_class(size) + 1) * BR_LINE,
                              br__caches_objects() ? BR_LINE : 0);
}

/* If a class has no cached object and no room, it has not been used yet, and gets its room here. */
void br__object_free_slow(void *object, size_t size)
{
    br_objects *o = &br__objects;
    size_t class = br__object_class(size);
    if (class >= BR_OBJECT_CLASSES || o->free_list[class] || !br__caches_objects() ||
        !br__list_thread()) {
        br_free(object);
        return;
    }
    o->free_slots[class] = KEPT;
    br__object_free(object, size);
}

br_tensor *br__tensor_object_alloc(void)
{
    br_objects *o = &br__objects;
    if (o->n_ended <= BR_SET_ASIDE)
        return br__object_alloc(sizeof(br_tensor));
    br_tensor *oldest = o->oldest_ended;
    o->oldest_ended = oldest->base;
    o->n_ended--;
    /* The next object has not been used for a while. */
    char *next = (char *)o->oldest_ended;
    __builtin_prefetch(next, 1);
    __builtin_prefetch(next + BR_LINE, 1);
    __builtin_prefetch(next + 2 * BR_LINE, 1);
    return oldest;
}

/* Frees the object if the queue is full or if objects are not cached; otherwise begins the
 * queue. */
static __attribute__((noinline)) void free_unless_queued(br_tensor *t)
{
    br_objects *o = &br__objects;
    if (br__debug) {
        br__debug_quarantine_tensor(t);
    } else if (o->n_ended > 0 || !br__caches_objects() || !br__list_thread()) {
        br__object_free(t, sizeof *t);
    } else {
        o->oldest_ended = o->newest_ended = t;
        o->n_ended = 1;
    }
}

void br__tensor_object_free(br_tensor *t)
{
    br_objects *o = &br__objects;
    if (o->n_ended == 0 || o->n_ended == KEPT) {
        free_unless_queued(t);
        return;
    }
    o->newest_ended->base = t;
    o->newest_ended = t;
    o->n_ended++;
}

void br__objects_flush(void)
{
    br_objects *o = &br__objects;
    for (; o->n_ended > 0; o->n_ended--) {
        br_tensor *oldest = o->oldest_ended;
        o->oldest_ended = oldest->base;
        br_free(oldest);
    }
    for (int i = 0; i < BR_OBJECT_CLASSES; i++) {
        while (o->free_list[i]) {
            void *object = o->free_list[i];
            o->free_list[i] = *(void **)object;
            br_free(object);
        }
        o->free_slots[i] = 0;
    }
}
