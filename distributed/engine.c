/* distributed/engine.c - the progress thread, and how it waits.
 *
 * Transports such as MPI move data only inside calls of their functions. So that communication goes
 * on while the program computes, a thread of its own makes these calls. It takes jobs from a queue,
 * starts messages, and tests them until they are complete. Between two tests it sleeps, for longer
 * and longer, because a thread that waits actively would take a core from the computation. */
#include "distributed/watch.h"
#include "tensor/min_max.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
    SPINS = 64,             /* tests without a pause */
    SHORTEST_SLEEP = 20000, /* nanoseconds */
    LONGEST_SLEEP = 200000,
};
static const double LOOK_EVERY = 0.2; /* seconds between looks for ranks that died */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t queued = PTHREAD_COND_INITIALIZER, finished = PTHREAD_COND_INITIALIZER;
static br_dist_job *first, *last;
static pthread_t thread;
static bool running, ending;

/* Read by signal handlers: threads of the program that wait for a job, and what it waits for. */
static atomic_int waiting_threads, awaited_rank;
static _Atomic(const char *) waiting_op; /* NULL: nothing */

/* ---- Waiting --------------------------------------------------------------------------------- */

/* Returns true and sets the job's error if a rank is lost. */
static bool is_lost(br_dist_job *job)
{
    const char *reason = br__dist_lost();
    if (reason)
        br__dist_job_fail(job, "%s", reason);
    return reason != NULL;
}

/* Looks for processes of the group on this machine that do not exist any more. The watch finds them
 * earlier, unless it is off, or unless children of the rank have kept its connection open. */
static void look_for_processes(const br_dist_group *g)
{
    for (int r = 0; r < g->size; r++) {
        const br_dist_process *p = &br__dist.processes[g->world[r]];
        if (p->here && kill(p->process, 0) != 0 && errno == ESRCH && !br__dist_wait_for_loss(1))
            br__dist_lose_process(g->world[r]);
    }
}

static void pause_between_tests(int tests)
{
    if (tests < SPINS) {
        sched_yield();
        return;
    }
    long sleep = (long)SHORTEST_SLEEP * (tests - SPINS + 1);
    struct timespec time = { 0, br__min(sleep, LONGEST_SLEEP) };
    nanosleep(&time, NULL);
}

/* ---- Messages -------------------------------------------------------------------------------- */

br_dist_exchange br__dist_exchange(br_dist_job *job, const br_dist_group *g)
{
    return (br_dist_exchange){ .job = job, .g = g, .channel = BR_DIST_COLLECTIVES };
}

static void add(br_dist_exchange *x, int rank, bool sends, void *data, size_t bytes)
{
    if (bytes > 0)
        x->g->transfers[x->n++] = (br_dist_transfer){
            .peer = x->g->world[rank], .sends = sends, .data = data, .bytes = bytes
        };
}

void br__dist_send_to(br_dist_exchange *x, int rank, const void *data, size_t bytes)
{
    add(x, rank, true, (void *)data, bytes);
}

void br__dist_recv_from(br_dist_exchange *x, int rank, void *data, size_t bytes)
{
    add(x, rank, false, data, bytes);
}

/* Sets the job's error after the transport failed. That a rank died explains most failures, but the
 * watch may learn of it later than the transport. */
static bool fail_transfer(br_dist_exchange *x, const br_dist_transfer *t, const char *error)
{
    br__dist_wait_for_loss(br__dist_watch_limit());
    look_for_processes(x->g);
    if (is_lost(x->job))
        return false;
    return br__dist_job_fail(x->job, "cannot %s rank %d: %s", t->sends ? "send to" : "receive from",
                             t->peer, error);
}

/* Starts the next piece of a transfer. */
static bool start(br_dist_exchange *x, br_dist_transfer *t)
{
    br_comm *comm = &br__dist.comm;
    char error[BR_COMM_TEXT] = "";
    t->piece = br__min(t->bytes, comm->max_bytes);
    if (t->sends)
        t->request = comm->start_send(comm, t->peer, x->channel, t->data, t->piece, error);
    else
        t->request = comm->start_recv(comm, t->peer, x->channel, t->data, t->piece, error);
    return t->request || fail_transfer(x, t, error);
}

/* Looks at a transfer. Its bytes become 0 when it is complete. */
static bool advance(br_dist_exchange *x, br_dist_transfer *t)
{
    char error[BR_COMM_TEXT] = "";
    br_comm_status status = br__dist.comm.test(&br__dist.comm, t->request, error);
    if (status == BR_COMM_PENDING)
        return true;
    t->request = NULL;
    if (status == BR_COMM_FAILED)
        return fail_transfer(x, t, error);
    t->data += t->piece;
    t->bytes -= t->piece;
    return t->bytes == 0 || start(x, t);
}

/* Tests all transfers. Stores a rank whose message did not arrive, or that did not receive one; -1
 * if all are complete. */
static bool advance_all(br_dist_exchange *x, int *awaited)
{
    *awaited = -1;
    for (int i = 0; i < x->n; i++) {
        br_dist_transfer *t = &x->g->transfers[i];
        if (t->bytes > 0 && !advance(x, t))
            return false;
        if (t->bytes > 0 && *awaited < 0)
            *awaited = t->peer;
    }
    return true;
}

/* Tests the transfers until all are complete. */
static bool wait_for_all(br_dist_exchange *x)
{
    double begun = br__dist_seconds(), looked = begun;
    for (int tests = 0, awaited;; tests++) {
        if (!advance_all(x, &awaited))
            return false;
        if (awaited < 0)
            return true;
        if (is_lost(x->job))
            return false;
        pause_between_tests(tests);
        if (tests < SPINS)
            continue;
        atomic_store(&awaited_rank, awaited);
        atomic_store(&waiting_op, x->job->op);
        double now = br__dist_seconds();
        if (br__dist.timeout > 0 && now - begun > br__dist.timeout)
            return br__dist_job_fail(x->job, "%s: no answer from rank %d for %g seconds",
                                     x->job->op, awaited, br__dist.timeout);
        if (now - looked > LOOK_EVERY) {
            looked = now;
            look_for_processes(x->g);
        }
    }
}

bool br__dist_complete(br_dist_exchange *x)
{
    bool ok = true;
    for (int i = 0; ok && i < x->n; i++)
        ok = start(x, &x->g->transfers[i]);
    ok = ok && wait_for_all(x);
    atomic_store(&waiting_op, NULL);
    for (int i = 0; !ok && i < x->n; i++)
        if (x->g->transfers[i].request)
            br__dist.comm.abandon(&br__dist.comm, x->g->transfers[i].request);
    x->n = 0;
    return ok;
}

bool br__dist_gather_bytes(br_dist_job *job, const br_dist_group *g, void *all, size_t bytes)
{
    br_dist_exchange x = br__dist_exchange(job, g);
    for (int i = 1; i < g->size; i++) {
        int to = (g->rank + i) % g->size, from = (g->rank + g->size - i) % g->size;
        br__dist_recv_from(&x, from, (char *)all + (size_t)from * bytes, bytes);
        br__dist_send_to(&x, to, (char *)all + (size_t)g->rank * bytes, bytes);
    }
    return br__dist_complete(&x);
}

/* ---- The queue ------------------------------------------------------------------------------- */

/* Runs a job, unless an earlier one failed: the ranks may have stopped at different places then. */
static void run(br_dist_job *job)
{
    job->begun = br__dist_nanoseconds();
    if (br__dist.broken)
        br__dist_job_fail(job, "an earlier communication failed: %s", br__dist.reason);
    else if (!is_lost(job))
        job->run(job);
    if (job->failed && !job->in_step && !br__dist.broken) {
        br__dist.broken = true;
        memcpy(br__dist.reason, job->error, sizeof br__dist.reason);
    }
    job->ended = br__dist_nanoseconds();
}

static void *work(void *unused)
{
    pthread_mutex_lock(&lock);
    while (!ending || first) {
        if (!first) {
            pthread_cond_wait(&queued, &lock);
            continue;
        }
        br_dist_job *job = first;
        first = job->next;
        pthread_mutex_unlock(&lock);
        run(job);
        pthread_mutex_lock(&lock);
        job->done = true;
        pthread_cond_broadcast(&finished);
    }
    pthread_mutex_unlock(&lock);
    br_thread_cleanup();
    return unused;
}

bool br__dist_start_thread(void)
{
    sigset_t all, before;
    ending = false;
    /* Signals are the program's: its own threads handle them. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int status = pthread_create(&thread, NULL, work, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    running = status == 0;
    if (!running)
        br_raise(BR_ERROR_STATE, "dist_init: cannot start the progress thread: %s",
                 strerror(status));
    return running;
}

void br__dist_stop_thread(void)
{
    if (!running)
        return;
    pthread_mutex_lock(&lock);
    ending = true;
    pthread_cond_broadcast(&queued);
    pthread_mutex_unlock(&lock);
    pthread_join(thread, NULL);
    running = false;
}

void br__dist_start(br_dist_job *job)
{
    job->next = NULL;
    job->done = job->failed = job->in_step = false;
    if (!running) {
        atomic_fetch_add(&waiting_threads, 1);
        run(job);
        atomic_fetch_sub(&waiting_threads, 1);
        job->done = true;
        return;
    }
    pthread_mutex_lock(&lock);
    if (first)
        last->next = job;
    else
        first = job;
    last = job;
    pthread_cond_broadcast(&queued);
    pthread_mutex_unlock(&lock);
}

bool br__dist_join(br_dist_job *job)
{
    atomic_fetch_add(&waiting_threads, 1);
    pthread_mutex_lock(&lock);
    while (!job->done)
        pthread_cond_wait(&finished, &lock);
    pthread_mutex_unlock(&lock);
    atomic_fetch_sub(&waiting_threads, 1);
    return !job->failed;
}

const char *br_dist_waits_in(int *rank)
{
    const char *op = atomic_load(&waiting_op);
    if (rank)
        *rank = atomic_load(&awaited_rank);
    return atomic_load(&waiting_threads) > 0 ? op : NULL;
}

bool br__dist_wait(br_dist_job *job)
{
    if (br__dist_join(job))
        return true;
    if (!br_failed())
        br_raise(BR_ERROR_STATE, "%s", job->error);
    return false;
}
