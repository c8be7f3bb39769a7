/* data/prefetcher.c - worker threads that prefetch batches.
 *
 * The threads take batch numbers from one counter, which grows by `stride`, at most `n_slots`
 * batches ahead of those handed out. They store batch b in slot b / stride % n_slots. The batches
 * and their order therefore do not depend on the number of threads. A batch's error is stored in
 * its slot and reported when that batch is requested. */
#include "data/data_internal.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static const char op[] = "loader";

/* A finished batch, or its error. */
typedef struct slot {
    bool done;
    br_error error;
    char message[BR_MESSAGE_SIZE];
    br_tensor *fields[BR_MAX_FIELDS]; /* each retained once */
} slot;

struct br_prefetcher {
    br_make_fn make;
    const void *context;
    int n_fields;
    pthread_mutex_t lock; /* protects everything below */
    pthread_cond_t work;  /* there may be something to do */
    pthread_cond_t done;  /* a batch is done, or no thread is busy */
    int64_t next, next_out,
        end;        /* batch numbers: next to make, next to hand out, one past the last */
    int64_t stride; /* from one batch to the next */
    uint64_t seed;
    int busy; /* threads that are making a batch */
    bool ending;
    int64_t n_slots;
    slot *slots;
    int n_threads;
    pthread_t *threads;
};

static slot *slot_of(br_prefetcher *r, int64_t batch)
{
    return &r->slots[batch / r->stride % r->n_slots];
}

static void empty(const br_prefetcher *r, slot *s)
{
    for (int k = 0; k < r->n_fields; k++)
        br_release(s->fields[k]);
    *s = (slot){ 0 };
}

/* ---- The threads ----------------------------------------------------------------------------- */

static void make_batch(const br_prefetcher *r, int64_t batch, uint64_t seed, slot *s)
{
    *s = (slot){ .done = true };
    br_scope *scope = br_scope_begin();
    if (scope) {
        br_manual_seed(seed + (uint64_t)batch);
        r->make(r->context, batch, s->fields);
    }
    s->error = br_error_code();
    snprintf(s->message, sizeof s->message, "%s", br_error_message());
    for (int k = 0; k < r->n_fields && !s->error; k++)
        br_retain(s->fields[k]);
    br_clear_error();
    br_scope_end(scope);
}

/* Waits for a batch number and makes that batch. Returns false if the thread must end. */
static bool make_next(br_prefetcher *r, slot *made)
{
    while (!r->ending && !(r->next < r->end && r->next < r->next_out + r->n_slots * r->stride))
        pthread_cond_wait(&r->work, &r->lock);
    if (r->ending)
        return false;
    int64_t batch = r->next;
    r->next += r->stride;
    uint64_t seed = r->seed;
    r->busy++;
    pthread_mutex_unlock(&r->lock);
    make_batch(r, batch, seed, made);
    pthread_mutex_lock(&r->lock);
    r->busy--;
    *slot_of(r, batch) = *made;
    pthread_cond_broadcast(&r->done);
    return true;
}

static void *run(void *context)
{
    br_prefetcher *r = context;
    slot made;
    br__run_loops_serially();
    pthread_mutex_lock(&r->lock);
    while (make_next(r, &made))
        ;
    pthread_mutex_unlock(&r->lock);
    br_thread_cleanup();
    return NULL;
}

/* Blocks all signals in the workers, so that the program's own threads handle them. If only some
 * threads can be started, those are used: the batches do not depend on their number. */
static void start_threads(br_prefetcher *r, int count)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (r->n_threads < count && pthread_create(&r->threads[r->n_threads], NULL, run, r) == 0)
        r->n_threads++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (r->n_threads == 0)
        br_fail(BR_ERROR_MEMORY, op, "cannot start a worker thread");
}

/* ---- The loader's interface ------------------------------------------------------------------ */

br_prefetcher *br__prefetcher_new(int threads, int64_t max_batches, int n_fields, br_make_fn make,
                                  const void *context)
{
    br_prefetcher *r = br_calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->make = make;
    r->context = context;
    r->n_fields = n_fields;
    r->n_slots = max_batches;
    r->stride = 1;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->work, NULL);
    pthread_cond_init(&r->done, NULL);
    r->slots = br_calloc((size_t)max_batches, sizeof *r->slots);
    r->threads = br_calloc((size_t)threads, sizeof *r->threads);
    if (r->slots && r->threads)
        start_threads(r, threads);
    if (!br_failed())
        return r;
    br__prefetcher_free(r);
    return NULL;
}

void br__prefetcher_stop(br_prefetcher *r)
{
    pthread_mutex_lock(&r->lock);
    r->end = r->next;
    while (r->busy > 0)
        pthread_cond_wait(&r->done, &r->lock);
    for (int64_t i = 0; r->slots && i < r->n_slots; i++)
        empty(r, &r->slots[i]);
    pthread_mutex_unlock(&r->lock);
}

void br__prefetcher_start(br_prefetcher *r, int64_t first, int64_t end, int64_t stride,
                          uint64_t seed)
{
    br__prefetcher_stop(r);
    pthread_mutex_lock(&r->lock);
    r->next = r->next_out = first;
    r->end = end;
    r->stride = stride;
    r->seed = seed;
    pthread_cond_broadcast(&r->work);
    pthread_mutex_unlock(&r->lock);
}

/* Moves the batch's tensors to this thread's innermost scope. */
static bool return_batch(const br_prefetcher *r, slot *s, br_tensor **fields)
{
    if (s->error) {
        br__set_error(s->error, s->message);
        return false;
    }
    int owned = 0;
    while (owned < r->n_fields && br__scope_add(s->fields[owned]))
        owned++;
    for (int k = 0; k < owned; k++) {
        fields[k] = owned == r->n_fields ? s->fields[k] : NULL;
        s->fields[k] = NULL;
    }
    empty(r, s);
    return owned == r->n_fields;
}

bool br__prefetcher_next(br_prefetcher *r, br_tensor **fields)
{
    pthread_mutex_lock(&r->lock);
    slot *place = slot_of(r, r->next_out), s;
    while (!place->done)
        pthread_cond_wait(&r->done, &r->lock);
    s = *place;
    *place = (slot){ 0 };
    r->next_out += r->stride;
    pthread_cond_broadcast(&r->work);
    pthread_mutex_unlock(&r->lock);
    return return_batch(r, &s, fields);
}

void br__prefetcher_free(br_prefetcher *r)
{
    if (!r)
        return;
    br__prefetcher_stop(r);
    pthread_mutex_lock(&r->lock);
    r->ending = true;
    pthread_cond_broadcast(&r->work);
    pthread_mutex_unlock(&r->lock);
    for (int i = 0; i < r->n_threads; i++)
        pthread_join(r->threads[i], NULL);
    pthread_cond_destroy(&r->done);
    pthread_cond_destroy(&r->work);
    pthread_mutex_destroy(&r->lock);
    br_free(r->threads);
    br_free(r->slots);
    br_free(r);
}
