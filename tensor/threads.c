/* tensor/threads.c - the number of threads, and parallel loops of independent tasks.
 *
 * A loop's tasks are dealt out in even ranges, one for each worker of a pool and one for the
 * caller; who has done its own takes of the others'. So a thread meets the memory that it wrote or
 * read in the loop before, which its own cache may still hold. A worker that comes late, since its
 * processor is busy with something else, finds the tasks done and nobody waiting for it: a loop
 * costs no more than what is left of the slowest task, also on a machine with other work to do.
 * Idle workers look for work for a millisecond or two, giving way to whoever else wants to run,
 * then sleep: the small operations between large ones must not put them to bed, since waking takes
 * longer than those.
 *
 * One loop runs at a time. A loop inside a task, or beside one of another thread, runs in its
 * caller's thread alone. */
#include "tensor/denormal.h"
#include "tensor/tensor_internal.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

enum {
    MOST_THREADS = 1024, /* more than any machine has use for */
    LOOKS = 2000,        /* of one that waits, before it gives way to others between looks */
    LAST_LOOK = 6000,    /* of an idle worker, before it sleeps: after a millisecond or two */
};

/* ---- The setting ----------------------------------------------------------------------------- */

/* 0: not set. A documented process-wide setting. */
static atomic_int num_threads;

static int available_processors(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    int n = CPU_COUNT(&set);
    return n < MOST_THREADS ? n : MOST_THREADS;
}

void br_set_num_threads(int n)
{
    if (n < 1 || n > MOST_THREADS) {
        br__fail(BR_ERROR_ARGUMENT, "set_num_threads", "%d threads, must be 1 .. %d", n,
                 MOST_THREADS);
        return;
    }
    atomic_store(&num_threads, n);
}

int br_get_num_threads(void)
{
    int n = atomic_load(&num_threads);
    if (n == 0) {
        n = available_processors();
        atomic_store(&num_threads, n);
    }
    return n;
}

/* ---- Denormal numbers ------------------------------------------------------------------------ */

bool br_set_flush_denormal(bool flush)
{
    const br_float_mode mode = br__float_mode() & ~(br_float_mode)BR_FLUSH_BITS;
    br__set_float_mode(flush ? mode | BR_FLUSH_BITS : mode);
    return BR_CAN_FLUSH;
}

/* ---- The pool -------------------------------------------------------------------------------- */

/* What the workers do. Written only while none is inside. */
typedef struct loop {
    void (*task)(void *context, int64_t i);
    void *context;
    int64_t n;
    int threads;        /* the caller and workers 1 .. threads-1 take part */
    br_float_mode mode; /* the caller's, so that it does not matter who runs a task */
} loop;

/* A thread's range of the tasks, in a cache line of its own. */
typedef struct range {
    _Alignas(64) atomic_int_fast64_t next; /* the first task nobody has taken */
    int64_t end;
} range;

static struct {
    pthread_mutex_t caller; /* held by the thread whose loop runs */
    pthread_mutex_t lock;   /* for sleeping */
    pthread_cond_t wake;
    int waker; /* the processor of who woke the sleepers last; under `lock` */
    pthread_t threads[MOST_THREADS];
    int workers; /* that were started; under `caller` */
    loop loop;
    range ranges[MOST_THREADS];
    atomic_uint_fast64_t round; /* raised for every loop */
    atomic_bool open;           /* workers may look at the loop */
    atomic_int inside;          /* workers that do */
    atomic_int sleepers;
    atomic_bool stopping;
} pool = { .caller = PTHREAD_MUTEX_INITIALIZER,
           .lock = PTHREAD_MUTEX_INITIALIZER,
           .wake = PTHREAD_COND_INITIALIZER };

static _Thread_local bool in_task;

void br__linger(int i)
{
    if (i >= LOOKS) {
        sched_yield();
        return;
    }
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

static void deal_out(void)
{
    const int64_t share = pool.loop.n / pool.loop.threads, more = pool.loop.n % pool.loop.threads;
    int64_t first = 0;
    for (int t = 0; t < pool.loop.threads; t++) {
        atomic_store_explicit(&pool.ranges[t].next, first, memory_order_relaxed);
        first += share + (t < more);
        pool.ranges[t].end = first;
    }
}

/* Thread number `own` takes its own range's, then those of the threads after it. */
static void take_tasks(int own)
{
    in_task = true;
    for (int k = 0; k < pool.loop.threads; k++) {
        range *r = &pool.ranges[(own + k) % pool.loop.threads];
        for (int64_t i; (i = atomic_fetch_add(&r->next, 1)) < r->end;)
            pool.loop.task(pool.loop.context, i);
    }
    in_task = false;
}

/* A worker says that it is inside before it looks whether it may be; the caller shuts the door
 * before it looks whether somebody is inside. So one of them sees the other. */
static void help(int worker)
{
    atomic_fetch_add(&pool.inside, 1);
    if (atomic_load(&pool.open) && worker < pool.loop.threads) {
        br__set_float_mode(pool.loop.mode);
        take_tasks(worker);
    }
    atomic_fetch_sub(&pool.inside, 1);
}

/* Systems wake a thread where its waker runs, at times, though other processors are idle, and take
 * some 10 ms to see that two share one; it moves to wherever else it may run. */
static void leave(int processor)
{
    cpu_set_t all, others;
    if (processor < 0 || sched_getcpu() != processor ||
        sched_getaffinity(0, sizeof all, &all) != 0 || CPU_COUNT(&all) < 2)
        return;
    others = all;
    CPU_CLR((size_t)processor, &others);
    if (sched_setaffinity(0, sizeof others, &others) == 0)
        sched_setaffinity(0, sizeof all, &all);
}

/* Waits for a round other than `seen` and returns its number. */
static uint64_t wait_for_round(uint64_t seen)
{
    for (int i = 0; i < LAST_LOOK; i++) {
        uint64_t round = atomic_load(&pool.round);
        if (round != seen)
            return round;
        br__linger(i);
    }
    pthread_mutex_lock(&pool.lock);
    atomic_fetch_add(&pool.sleepers, 1);
    while (atomic_load(&pool.round) == seen && !atomic_load(&pool.stopping))
        pthread_cond_wait(&pool.wake, &pool.lock);
    atomic_fetch_sub(&pool.sleepers, 1);
    const int waker = pool.waker;
    pthread_mutex_unlock(&pool.lock);
    leave(waker);
    return atomic_load(&pool.round);
}

static void *work(void *number)
{
    int worker = (int)(intptr_t)number;
    uint64_t round = 0;
    while (!atomic_load(&pool.stopping)) {
        round = wait_for_round(round);
        help(worker);
    }
    return NULL;
}

static void wake_sleepers(void)
{
    if (atomic_load(&pool.sleepers) == 0)
        return;
    pthread_mutex_lock(&pool.lock);
    pool.waker = sched_getcpu();
    pthread_cond_broadcast(&pool.wake);
    pthread_mutex_unlock(&pool.lock);
}

/* A forked child has none of the workers, and locks that may be held by threads it has not. */
static void forget_workers(void)
{
    pthread_mutex_init(&pool.caller, NULL);
    pthread_mutex_init(&pool.lock, NULL);
    pthread_cond_init(&pool.wake, NULL);
    pool.workers = 0;
    atomic_store(&pool.open, false);
    atomic_store(&pool.inside, 0);
    atomic_store(&pool.sleepers, 0);
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, forget_workers);
}

/* Starts workers up to the number wanted; fewer if the system gives no more. Signals are for the
 * program's own threads. */
static void start_workers(int wanted)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (pool.workers >= wanted)
        return;
    pthread_once(&once, watch_forks);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (pool.workers < wanted && pthread_create(&pool.threads[pool.workers], NULL, work,
                                                   (void *)(intptr_t)(pool.workers + 1)) == 0)
        pool.workers++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* The library may be unloaded: its code must not run any more then. */
__attribute__((destructor)) static void stop_workers(void)
{
    atomic_store(&pool.stopping, true);
    wake_sleepers();
    for (int i = 0; i < pool.workers; i++)
        pthread_join(pool.threads[i], NULL);
    pool.workers = 0;
}

static void run_shared(const loop *l)
{
    pool.loop = *l;
    deal_out();
    atomic_store(&pool.open, true);
    atomic_fetch_add(&pool.round, 1);
    wake_sleepers();
    take_tasks(0);
    atomic_store(&pool.open, false);
    for (int i = 0; atomic_load(&pool.inside) > 0; i++)
        br__linger(i);
}

static void run(int64_t n, void (*task)(void *context, int64_t i), void *context)
{
    int64_t threads = n > 1 && !in_task ? br_get_num_threads() : 1;
    if (threads > n)
        threads = n;
    if (threads > 1 && pthread_mutex_trylock(&pool.caller) == 0) {
        start_workers((int)threads - 1);
        run_shared(&(loop){ task, context, n, (int)threads, br__float_mode() });
        pthread_mutex_unlock(&pool.caller);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        task(context, i);
}

void br__work_alone(void)
{
    in_task = true;
}

/* Tasks are no events of a profile: who runs them is chance. */
void br__parallel(int64_t n, void (*task)(void *context, int64_t i), void *context)
{
    struct br_profile *profile = br__thread.profile;
    br__thread.profile = NULL;
    run(n, task, context);
    br__thread.profile = profile;
}
