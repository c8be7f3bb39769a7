/* tensor/objects.c - small blocks of known size, kept by each thread for reuse, and the counters of
 * what is alive.
 *
 * Tensors, storages with few elements, nodes and scopes come from here: a thread takes and gives
 * back what it keeps without a lock, an atomic instruction or a call of the allocator. Counters are
 * a thread's own, too, and summed when somebody asks. A block may be given back by another thread
 * than took it.
 *
 * A program's own allocator, and the address sanitizer, see every block: then there is no room to
 * keep any. */
#include "tensor/tensor_internal.h"

#include <pthread.h>

enum { KEPT = 1024 }; /* objects of a size, at most */

_Thread_local br_objects br__objects;

#ifdef __SANITIZE_ADDRESS__
enum { WANTED = false };
#else
enum { WANTED = true };
#endif
static atomic_bool keeping = WANTED, limited;

/* ---- All threads ----------------------------------------------------------------------------- */

static struct {
    pthread_mutex_t lock;
    br_objects *first;
    int64_t tensors, bytes; /* of threads that have ended: one may free what another made */
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
    br__objects_flush();
    br__rare_free();
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

void br__live(int64_t *tensors, int64_t *bytes)
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

void br__watch_peak(void)
{
    pthread_mutex_lock(&all.lock);
    for (br_objects *o = all.first; o; o = o->next)
        store(&o->high, load(&o->bytes));
    pthread_mutex_unlock(&all.lock);
}

void br__count_slowly(int64_t tensors, int64_t bytes)
{
    br_objects *o = &br__objects;
    if (!br__list_thread()) { /* then an ended thread's counters take it */
        pthread_mutex_lock(&all.lock);
        all.tensors += tensors;
        all.bytes += bytes;
        pthread_mutex_unlock(&all.lock);
        return;
    }
    int64_t now = load(&o->bytes) + bytes;
    store(&o->tensors, load(&o->tensors) + tensors);
    store(&o->bytes, now);
    if (now > load(&o->high)) {
        store(&o->high, now);
        br__note_peak();
    }
}

/* ---- Objects --------------------------------------------------------------------------------- */

bool br__keeps_objects(void)
{
    return atomic_load_explicit(&keeping, memory_order_relaxed);
}

bool br__inline_storage(void)
{
    return br__keeps_objects() && !atomic_load_explicit(&limited, memory_order_relaxed);
}

void br__limit_objects(bool limit)
{
    atomic_store(&limited, limit);
}

void br__keep_objects(bool keep)
{
    atomic_store(&keeping, keep && WANTED);
}

void *br__object_alloc_new(size_t size)
{
    return br__malloc_aligned((br__object_class(size) + 1) * BR_LINE,
                              br__keeps_objects() ? BR_LINE : 0);
}

/* A class that keeps nothing and has no room is one that was not used so far: it gets room now. */
void br__object_free_last(void *object, size_t size)
{
    br_objects *o = &br__objects;
    size_t class = br__object_class(size);
    if (class >= BR_OBJECT_CLASSES || o->kept[class] || !br__keeps_objects() ||
        !br__list_thread()) {
        br_free(object);
        return;
    }
    o->room[class] = KEPT;
    br__object_free(object, size);
}

void br__objects_flush(void)
{
    br_objects *o = &br__objects;
    for (int i = 0; i < BR_OBJECT_CLASSES; i++) {
        while (o->kept[i]) {
            void *object = o->kept[i];
            o->kept[i] = *(void **)object;
            br_free(object);
        }
        o->room[i] = 0;
    }
}
