/* tensor/threads.c - the number of threads, and parallel loops of independent tasks.
 *
 * The tasks of a loop are divided into equal ranges, one for each worker of a pool and one for the
 * caller; a thread that has finished its range steals tasks from the others. A thread thus accesses
 * the memory that it accessed in the previous loop, which may still be in its cache. A worker that
 * starts late because its processor is busy finds the tasks done and no thread waiting for it: a
 * loop never waits for more than the rest of its slowest task, even on a loaded machine. Idle
 * workers spin for a millisecond or two, yielding to other threads, and then sleep: they must stay
 * awake during the small operations between large ones, because such an operation takes less time
 * than waking a thread.
 *
 * One loop runs at a time. A loop inside a task, or one started while another thread's loop is
 * running, runs serially in its own thread. */
#include "tensor/denormal.h"
#include "tensor/min_max.h"
#include "tensor/tensor_internal.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

enum {
    MAX_THREADS = 1024, /* more than any machine can use */
    SPIN_LIMIT = 2000,  /* iterations of a wait loop before it yields between checks */
    IDLE_SPINS = 6000,  /* iterations of an idle worker before it sleeps: one to two milliseconds */
};

/* ---- The setting ----------------------------------------------------------------------------- */

/* 0: not set. This setting is process-wide, as documented. */
static atomic_int num_threads;
static atomic_bool chosen; /* br_set_num_threads() was called */

static int available_processors(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    int n = CPU_COUNT(&set);
    return br__min(n, MAX_THREADS);
}

void br_set_num_threads(int n)
{
    if (n < 1 || n > MAX_THREADS) {
        br_fail(BR_ERROR_ARGUMENT, "set_num_threads", "n is %d, must be 1 .. %d", n, MAX_THREADS);
        return;
    }
    atomic_store(&num_threads, n);
    atomic_store(&chosen, true);
}

void br__limit_threads(int limit)
{
    const int n = available_processors();
    if (!atomic_load(&chosen))
        atomic_store(&num_threads, n < limit ? n : limit > 0 ? limit : 1);
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

/* The current loop. Written only while no worker is inside. */
typedef struct loop {
    void (*task)(void *context, int64_t i);
    void *context;
    int64_t n;
    int threads;        /* the caller and workers 1 .. threads-1 participate */
    br_float_mode mode; /* that of the caller, so that every thread computes the same */
} loop;

/* A thread's range of tasks, in a cache line of its own. */
typedef struct range {
    _Alignas(64) atomic_int_fast64_t next; /* the first task that no thread has taken */
    int64_t end;
} range;

static struct {
    pthread_mutex_t caller; /* held by the thread whose loop is running */
    pthread_mutex_t lock;   /* for sleeping */
    pthread_cond_t wake;
    int waker_cpu; /* processor of the last thread that woke the sleepers; protected by `lock` */
    pthread_t threads[MAX_THREADS];
    int workers; /* number of started workers; protected by `caller` */
    loop loop;
    range ranges[MAX_THREADS];
    atomic_uint_fast64_t round; /* incremented for every loop */
    atomic_bool open;           /* workers may access the loop */
    atomic_int inside;          /* number of workers that access it */
    atomic_int sleepers;
    atomic_bool stopping;
} pool = { .caller = PTHREAD_MUTEX_INITIALIZER,
           .lock = PTHREAD_MUTEX_INITIALIZER,
           .wake = PTHREAD_COND_INITIALIZER };

static _Thread_local bool in_task;

void br__spin_pause(int i)
{
    if (i >= SPIN_LIMIT) {
        sched_yield();
        return;
    }
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

static void assign_tasks(void)
{
    const int64_t share = pool.loop.n / pool.loop.threads, more = pool.loop.n % pool.loop.threads;
    int64_t first = 0;
    for (int t = 0; t < pool.loop.threads; t++) {
        atomic_store_explicit(&pool.ranges[t].next, first, memory_order_relaxed);
        first += share + (t < more);
        pool.ranges[t].end = first;
    }
}

/* Runs the tasks of range `own`, then steals those of the following ranges. */
static void run_tasks(int own)
{
    in_task = true;
    for (int k = 0; k < pool.loop.threads; k++) {
        range *r = &pool.ranges[(own + k) % pool.loop.threads];
        for (int64_t i; (i = atomic_fetch_add(&r->next, 1)) < r->end;)
            pool.loop.task(pool.loop.context, i);
    }
    in_task = false;
}

/* A worker increments `inside` before it checks `open`; the caller clears `open` before it checks
 * `inside`. So at least one of them sees the other's write. */
static void help(int worker)
{
    atomic_fetch_add(&pool.inside, 1);
    if (atomic_load(&pool.open) && worker < pool.loop.threads) {
        br__set_float_mode(pool.loop.mode);
        run_tasks(worker);
    }
    atomic_fetch_sub(&pool.inside, 1);
}

/* Moves the calling thread off a processor. The system sometimes wakes a thread on its waker's
 * processor although others are idle, and takes some 10 ms to move one of the two away. */
static void move_off_processor(int processor)
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
    for (int i = 0; i < IDLE_SPINS; i++) {
        uint64_t round = atomic_load(&pool.round);
        if (round != seen)
            return round;
        br__spin_pause(i);
    }
    pthread_mutex_lock(&pool.lock);
    atomic_fetch_add(&pool.sleepers, 1);
    while (atomic_load(&pool.round) == seen && !atomic_load(&pool.stopping))
        pthread_cond_wait(&pool.wake, &pool.lock);
    atomic_fetch_sub(&pool.sleepers, 1);
    const int waker_cpu = pool.waker_cpu;
    pthread_mutex_unlock(&pool.lock);
    move_off_processor(waker_cpu);
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

static void wake_idle_workers(void)
{
    if (atomic_load(&pool.sleepers) == 0)
        return;
    pthread_mutex_lock(&pool.lock);
    pool.waker_cpu = sched_getcpu();
    pthread_cond_broadcast(&pool.wake);
    pthread_mutex_unlock(&pool.lock);
}

/* A forked child has no workers, and its copies of the locks may be held by threads that it does
 * not have. */
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

/* Starts workers until there are `wanted`, or fewer if the system allows no more. All signals are
 * blocked in them: the program's own threads handle signals. */
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

/* The library may be unloaded: no worker may run its code after that. */
__attribute__((destructor)) static void stop_workers(void)
{
    atomic_store(&pool.stopping, true);
    wake_idle_workers();
    for (int i = 0; i < pool.workers; i++)
        pthread_join(pool.threads[i], NULL);
    pool.workers = 0;
}

static void run_shared(const loop *l)
{
    pool.loop = *l;
    assign_tasks();
    atomic_store(&pool.open, true);
    atomic_fetch_add(&pool.round, 1);
    wake_idle_workers();
    run_tasks(0);
    atomic_store(&pool.open, false);
    for (int i = 0; atomic_load(&pool.inside) > 0; i++)
        br__spin_pause(i);
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

void br__run_loops_serially(void)
{
    in_task = true;
}

/* Profiling is off inside tasks, because any thread may run any of them. */
void br__parallel(int64_t n, void (*task)(void *context, int64_t i), void *context)
{
    const br_event_functions *events = br__thread.events;
    br__thread.events = NULL;
    run(n, task, context);
    br__thread.events = events;
}

int64_t br__piece_size(int64_t n, int64_t max_size, int64_t unit)
{
    int64_t part = max_size;
    if (n > max_size) {
        const int64_t pairs = (n - 1) / (2 * max_size) + 1;
        part = (n - 1) / (2 * pairs) + 1;
    }
    return (part + unit - 1) & -unit;
}
