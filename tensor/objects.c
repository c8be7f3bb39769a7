/* tensor/objects.c - small blocks of known size, kept by each thread for reuse, and the counters of
 * what is alive.
 *
 * Tensors, storages with few elements, nodes and scopes come from here: a thread takes and gives
 * back what it keeps without a lock, an atomic instruction or a call of the allocator. Counters are
 * a thread's own, too, and summed when somebody asks. A block may be given back by another thread
 * than took it.
 *
 * A program's own allocator, and the address sanitizer, see every block: then nothing is kept. */
#include "tensor/tensor_internal.h"

#include <pthread.h>

/* Sizes are rounded to whole cache lines; a thread keeps so many blocks of a size. */
enum { LINE = 64, CLASSES = BR_MAX_OBJECT / LINE, KEPT = 1024 };

typedef struct kept_object {
    struct kept_object *next;
} kept_object;

typedef struct objects {
    struct objects *next, **link; /* in the list of all threads' */
    br_counters *counters;
    kept_object *kept[CLASSES];
    int count[CLASSES];
} objects;

_Thread_local br_counters br__counters;
static _Thread_local objects mine;

#ifdef __SANITIZE_ADDRESS__
enum { WANTED = false };
#else
enum { WANTED = true };
#endif
static atomic_bool keeping = WANTED, limited;

/* ---- All threads ----------------------------------------------------------------------------- */

static struct {
    pthread_mutex_t lock;
    objects *first;
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

static void end_thread(void *unused)
{
    (void)unused;
    br__objects_flush();
    pthread_mutex_lock(&all.lock);
    all.tensors += load(&br__counters.tensors);
    all.bytes += load(&br__counters.bytes);
    *mine.link = mine.next;
    if (mine.next)
        mine.next->link = mine.link;
    pthread_mutex_unlock(&all.lock);
    mine = (objects){ 0 };
    br__counters = (br_counters){ 0 };
}

static pthread_key_t key;
static bool has_key;

static void make_key(void)
{
    has_key = pthread_key_create(&key, end_thread) == 0;
}

/* Puts this thread into the list. Where its end could not be told it keeps nothing: what it counts
 * goes to the ended threads' at once. */
static bool begin_thread(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_key);
    if (!has_key || pthread_setspecific(key, &mine) != 0)
        return false;
    pthread_mutex_lock(&all.lock);
    mine.counters = &br__counters;
    mine.next = all.first;
    mine.link = &all.first;
    if (mine.next)
        mine.next->link = &mine.next;
    all.first = &mine;
    pthread_mutex_unlock(&all.lock);
    br__counters.listed = true;
    return true;
}

static bool is_listed(void)
{
    return br__counters.listed || begin_thread();
}

void br__live(int64_t *tensors, int64_t *bytes)
{
    pthread_mutex_lock(&all.lock);
    *tensors = all.tensors;
    *bytes = all.bytes;
    for (const objects *o = all.first; o; o = o->next) {
        *tensors += load(&o->counters->tensors);
        *bytes += load(&o->counters->bytes);
    }
    pthread_mutex_unlock(&all.lock);
}

void br__watch_peak(void)
{
    pthread_mutex_lock(&all.lock);
    for (objects *o = all.first; o; o = o->next)
        store(&o->counters->high, load(&o->counters->bytes));
    pthread_mutex_unlock(&all.lock);
}

/* ---- Counting -------------------------------------------------------------------------------- */

void br__count_slowly(int64_t tensors, int64_t bytes)
{
    if (!is_listed()) {
        pthread_mutex_lock(&all.lock);
        all.tensors += tensors;
        all.bytes += bytes;
        pthread_mutex_unlock(&all.lock);
        return;
    }
    br_counters *c = &br__counters;
    int64_t now = load(&c->bytes) + bytes;
    store(&c->tensors, load(&c->tensors) + tensors);
    store(&c->bytes, now);
    if (now > load(&c->high)) {
        store(&c->high, now);
        br__note_peak();
    }
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

static size_t class_of(size_t size)
{
    return (size + LINE - 1) / LINE - 1;
}

static bool keeps(void)
{
    return atomic_load_explicit(&keeping, memory_order_relaxed);
}

bool br__inline_storage(void)
{
    return keeps() && !atomic_load_explicit(&limited, memory_order_relaxed);
}

void br__limit_objects(bool limit)
{
    atomic_store(&limited, limit);
}

void br__keep_objects(bool keep)
{
    atomic_store(&keeping, keep && WANTED);
}

void *br__object_alloc(size_t size)
{
    size_t class = class_of(size);
    kept_object *object = class < CLASSES ? mine.kept[class] : NULL;
    if (!object)
        return br__malloc_aligned((class + 1) * LINE, keeps() ? LINE : 0);
    mine.kept[class] = object->next;
    mine.count[class]--;
    return object;
}

void br__object_free(void *object, size_t size)
{
    size_t class = class_of(size);
    if (class >= CLASSES || mine.count[class] == KEPT || !keeps() || !is_listed()) {
        br_free(object);
        return;
    }
    ((kept_object *)object)->next = mine.kept[class];
    mine.kept[class] = object;
    mine.count[class]++;
}

void br__objects_flush(void)
{
    for (int i = 0; i < CLASSES; i++) {
        while (mine.kept[i]) {
            kept_object *object = mine.kept[i];
            mine.kept[i] = object->next;
            br_free(object);
        }
        mine.count[i] = 0;
    }
}
