/* data/read_ahead.c - threads that make batches before they are asked for.
 *
 * Threads take the numbers of batches from one counter, at most `n_slots` ahead of what was handed
 * out, and put each batch where its number says; so batches come in their order, and are the same,
 * whatever the number of threads. A batch's error waits in its place for whoever asks for it. */
#include "data/data_internal.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static const char op[] = "loader";

/* A batch that was made, or why not. */
typedef struct slot {
    bool done;
    br_error error;
    char message[BR_MESSAGE_SIZE];
    br_tensor *fields[BR_MAX_FIELDS]; /* each held once */
} slot;

struct br_read_ahead {
    br_make_fn make;
    const void *context;
    int n_fields;
    pthread_mutex_t lock;     /* of all that follows */
    pthread_cond_t work;      /* there may be something to do */
    pthread_cond_t done;      /* a batch is done, or nobody is at work */
    int64_t next, taken, end; /* batches: to be made, to be handed out, behind the last */
    uint64_t seed;
    int busy; /* threads that make a batch */
    bool ending;
    int64_t n_slots;
    slot *slots;
    int n_threads;
    pthread_t *threads;
};

static slot *slot_of(br_read_ahead *r, int64_t batch)
{
    return &r->slots[batch % r->n_slots];
}

static void empty(const br_read_ahead *r, slot *s)
{
    for (int k = 0; k < r->n_fields; k++)
        br_release(s->fields[k]);
    *s = (slot){ 0 };
}

/* ---- The threads ----------------------------------------------------------------------------- */

static void make_batch(const br_read_ahead *r, int64_t batch, uint64_t seed, slot *s)
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

/* Takes a number when there is one, and makes its batch; false at the end. */
static bool make_next(br_read_ahead *r, slot *made)
{
    while (!r->ending && !(r->next < r->end && r->next < r->taken + r->n_slots))
        pthread_cond_wait(&r->work, &r->lock);
    if (r->ending)
        return false;
    int64_t batch = r->next++;
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
    br_read_ahead *r = context;
    slot made;
    br__work_alone();
    pthread_mutex_lock(&r->lock);
    while (make_next(r, &made))
        ;
    pthread_mutex_unlock(&r->lock);
    br_thread_cleanup();
    return NULL;
}

/* Signals are for the program's own threads. Fewer threads than wanted make the same batches. */
static void start_threads(br_read_ahead *r, int wanted)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (r->n_threads < wanted && pthread_create(&r->threads[r->n_threads], NULL, run, r) == 0)
        r->n_threads++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (r->n_threads == 0)
        br__fail(BR_ERROR_MEMORY, op, "no thread can be started to read ahead");
}

/* ---- What the loader calls ------------------------------------------------------------------- */

br_read_ahead *br__read_ahead_new(int threads, int64_t ahead, int n_fields, br_make_fn make,
                                  const void *context)
{
    br_read_ahead *r = br__calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->make = make;
    r->context = context;
    r->n_fields = n_fields;
    r->n_slots = ahead;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->work, NULL);
    pthread_cond_init(&r->done, NULL);
    r->slots = br__calloc((size_t)ahead, sizeof *r->slots);
    r->threads = br__calloc((size_t)threads, sizeof *r->threads);
    if (r->slots && r->threads)
        start_threads(r, threads);
    if (!br_failed())
        return r;
    br__read_ahead_free(r);
    return NULL;
}

void br__read_ahead_stop(br_read_ahead *r)
{
    pthread_mutex_lock(&r->lock);
    r->end = r->next;
    while (r->busy > 0)
        pthread_cond_wait(&r->done, &r->lock);
    for (int64_t i = 0; r->slots && i < r->n_slots; i++)
        empty(r, &r->slots[i]);
    pthread_mutex_unlock(&r->lock);
}

void br__read_ahead_start(br_read_ahead *r, int64_t first, int64_t end, uint64_t seed)
{
    br__read_ahead_stop(r);
    pthread_mutex_lock(&r->lock);
    r->next = r->taken = first;
    r->end = end;
    r->seed = seed;
    pthread_cond_broadcast(&r->work);
    pthread_mutex_unlock(&r->lock);
}

/* Gives the batch's tensors to this thread's innermost scope. */
static bool hand_out(const br_read_ahead *r, slot *s, br_tensor **fields)
{
    if (s->error) {
        br_raise_text(s->error, s->message);
        return false;
    }
    int owned = 0;
    while (owned < r->n_fields && br__own(s->fields[owned]))
        owned++;
    for (int k = 0; k < owned; k++) {
        fields[k] = owned == r->n_fields ? s->fields[k] : NULL;
        s->fields[k] = NULL;
    }
    empty(r, s);
    return owned == r->n_fields;
}

bool br__read_ahead_next(br_read_ahead *r, br_tensor **fields)
{
    pthread_mutex_lock(&r->lock);
    slot *place = slot_of(r, r->taken), s;
    while (!place->done)
        pthread_cond_wait(&r->done, &r->lock);
    s = *place;
    *place = (slot){ 0 };
    r->taken++;
    pthread_cond_broadcast(&r->work);
    pthread_mutex_unlock(&r->lock);
    return hand_out(r, &s, fields);
}

void br__read_ahead_free(br_read_ahead *r)
{
    if (!r)
        return;
    br__read_ahead_stop(r);
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
