/* tests/tensor/test_threads.c - parallel loops, worker threads, denormal numbers, and what the end
 * of a thread frees. */
#include "tensor/tensor_internal.h"
#include "tests/memory.h"
#include "tests/support.h"

#include <brasa/brasa.h>
#include <dirent.h>
#include <float.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

TestSuite(threads, .init = check_begin, .fini = check_end);

enum { TASKS = 1000 };

typedef struct counts {
    atomic_int done[TASKS];
} counts;

static void count(void *context, int64_t i)
{
    atomic_fetch_add(&((counts *)context)->done[i], 1);
}

static bool each_once(counts *c)
{
    for (int i = 0; i < TASKS; i++)
        if (atomic_load(&c->done[i]) != 1)
            return false;
    return true;
}

static bool runs_each_once(void)
{
    counts c = { 0 };
    br__parallel(TASKS, count, &c);
    return each_once(&c);
}

Test(threads, every_task_runs_once)
{
    for (int threads = 1; threads <= 8; threads++) {
        br_set_num_threads(threads);
        for (int round = 0; round < 200; round++)
            cr_assert(runs_each_once(), "%d threads, round %d", threads, round);
    }
}

typedef struct signals {
    pthread_t caller;
    atomic_int tasks,
        unblocked; /* tasks of workers, and those among them that SIGTERM can interrupt */
} signals;

static void look_at_signals(void *context, int64_t i)
{
    (void)i;
    signals *s = context;
    sigset_t blocked;
    pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    if (pthread_equal(pthread_self(), s->caller))
        return;
    atomic_fetch_add(&s->tasks, 1);
    atomic_fetch_add(&s->unblocked, !sigismember(&blocked, SIGTERM));
    sched_yield();
}

/* A signal handler of the program must run in a thread of the program. The thread that starts the
 * workers keeps its signals. */
Test(threads, workers_receive_no_signals)
{
    signals s = { .caller = pthread_self() };
    sigset_t before, after;
    sigemptyset(&before);
    sigaddset(&before, SIGUSR1);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    br_set_num_threads(4);
    for (int round = 0; round < 10000 && atomic_load(&s.tasks) == 0; round++)
        br__parallel(TASKS, look_at_signals, &s);
    cr_assert_gt(atomic_load(&s.tasks), 0);
    cr_assert_eq(atomic_load(&s.unblocked), 0);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    cr_assert(sigismember(&after, SIGUSR1) && !sigismember(&after, SIGTERM));
}

static void nested(void *context, int64_t i)
{
    (void)i;
    if (!runs_each_once())
        atomic_store((atomic_bool *)context, false);
}

Test(threads, loops_inside_tasks)
{
    atomic_bool ok = true;
    br_set_num_threads(3);
    br__parallel(20, nested, &ok);
    cr_assert(atomic_load(&ok));
}

static void *loop_often(void *ok)
{
    for (int round = 0; round < 200; round++)
        if (!runs_each_once())
            atomic_store((atomic_bool *)ok, false);
    br_thread_cleanup();
    return NULL;
}

Test(threads, loops_of_several_threads)
{
    pthread_t threads[4];
    atomic_bool ok = true;
    br_set_num_threads(3);
    for (int i = 0; i < 4; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, loop_often, &ok), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    cr_assert(atomic_load(&ok));
}

/* ---- Workers --------------------------------------------------------------------------------- */

/* A loop with one task per thread. Each task waits until all have begun, so every task runs on a
 * different thread, however busy the machine is. */
typedef struct meeting {
    int threads;
    atomic_int there;
    atomic_bool failed;  /* a task timed out, or its check was false */
    bool (*check)(void); /* run by each thread; may be NULL */
    _Atomic(pthread_t) who[TASKS];
} meeting;

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void meet(void *context, int64_t i)
{
    meeting *m = context;
    double end = seconds() + 10;
    atomic_store(&m->who[i], pthread_self());
    atomic_fetch_add(&m->there, 1);
    while (atomic_load(&m->there) < m->threads && seconds() < end && !atomic_load(&m->failed))
        usleep(100);
    if (atomic_load(&m->there) < m->threads || (m->check && !m->check()))
        atomic_store(&m->failed, true);
}

/* Runs a loop with one task per thread. Returns true if every task ran on a different thread (the
 * caller or a worker) and the check was true on all of them. */
static bool threads_meet(int threads, bool (*check)(void))
{
    meeting m = { .threads = threads, .check = check };
    br_set_num_threads(threads);
    br__parallel(threads, meet, &m);
    for (int i = 0; i < threads; i++)
        for (int k = 0; k < i; k++)
            if (pthread_equal(m.who[i], m.who[k]))
                return false;
    return !atomic_load(&m.failed);
}

Test(threads, workers_take_part)
{
    for (int threads = 2; threads <= 8; threads++)
        cr_assert(threads_meet(threads, NULL), "%d threads", threads);
}

/* Returns the number of this process's threads whose CPU affinity differs from that of the caller.
 */
static int bound_threads(void)
{
    cpu_set_t mine, its;
    int all = 0, bound = 0;
    sched_getaffinity(0, sizeof mine, &mine);
    DIR *tasks = opendir("/proc/self/task");
    cr_assert(tasks);
    for (struct dirent *entry; (entry = readdir(tasks));) {
        if (entry->d_name[0] == '.')
            continue;
        all++;
        bound += sched_getaffinity(atoi(entry->d_name), sizeof its, &its) == 0 &&
                 !CPU_EQUAL(&mine, &its);
    }
    closedir(tasks);
    cr_assert_geq(all, 2);
    return bound;
}

/* A worker that wakes up on the caller's processor moves away from it by briefly restricting its
 * CPU affinity to the other processors. On a busy machine this can take long. */
Test(threads, woken_workers_keep_their_cpu_affinity)
{
    for (int round = 0; round < 10; round++) {
        cr_assert(threads_meet(2, NULL));
        double end = seconds() + 10;
        while (bound_threads() > 0 && seconds() < end)
            usleep(1000);
        cr_assert_eq(bound_threads(), 0, "round %d", round);
        usleep(10000); /* workers spin for a millisecond or two, then sleep */
    }
}

/* A forked child has none of its parent's workers, and starts its own. */
Test(threads, a_forked_child)
{
    cr_assert(threads_meet(3, NULL));
    pid_t child = fork();
    if (child == 0)
        _exit(threads_meet(3, NULL) && runs_each_once() ? 0 : 1);
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    cr_assert(threads_meet(3, NULL));
}

Test(threads, num_threads_out_of_range)
{
    int before = br_get_num_threads();
    br_set_num_threads(0);
    cr_assert(strstr(br_error_message(), "set_num_threads: n is 0, must be 1 .. 1024"));
    br_clear_error();
    cr_assert_eq(br_get_num_threads(), before);
}

/* ---- Denormal numbers ------------------------------------------------------------------------ */

enum { LARGE = 1 << 18 }; /* enough elements for many tasks */

/* Returns the sum of LARGE elements of FLT_MIN / 2 each, a denormal number. It is 0 if denormal
 * numbers are flushed. */
static double sum_of_halves(void)
{
    br_scope *scope = br_scope_begin();
    br_tensor *least = br_full(BR_SHAPE(LARGE), (double)FLT_MIN, BR_F32);
    double sum = br_item(br_sum(br_to(br_mul_scalar(least, 0.5), BR_F64)));
    br_scope_end(scope);
    return sum;
}

static bool halves_are_kept(void)
{
    volatile float least = FLT_MIN, half = least * 0.5f;
    return half > 0;
}

static bool halves_are_flushed(void)
{
    return !halves_are_kept();
}

Test(threads, workers_have_the_callers_float_mode)
{
    for (int round = 0; round < 3; round++) {
        cr_assert(threads_meet(3, halves_are_kept));
        cr_assert(br_set_flush_denormal(true));
        cr_assert(threads_meet(3, halves_are_flushed));
        cr_assert(br_set_flush_denormal(false));
    }
    cr_assert(threads_meet(3, halves_are_kept));
}

Test(threads, denormal_numbers_are_flushed_on_request)
{
    for (int threads = 1; threads <= 3; threads++) {
        br_set_num_threads(threads);
        cr_assert_eq(sum_of_halves(), LARGE * (0.5 * (double)FLT_MIN));
        cr_assert(br_set_flush_denormal(true));
        cr_assert_eq(sum_of_halves(), 0.0, "%d threads", threads);
        cr_assert(br_set_flush_denormal(false));
        cr_assert_eq(sum_of_halves(), LARGE * (0.5 * (double)FLT_MIN), "%d threads", threads);
    }
}

/* Returns the largest element of the product of an [n, 8] matrix filled with a and an [8, n] matrix
 * filled with b. */
static double largest_product(int64_t n, double a, double b)
{
    br_scope *scope = br_scope_begin();
    br_tensor *left = br_full(BR_SHAPE(n, 8), a, BR_F32);
    br_tensor *right = br_full(BR_SHAPE(8, n), b, BR_F32);
    double most = br_item(br_to(br_max(br_mm(left, right)), BR_F64));
    br_scope_end(scope);
    return most;
}

Test(threads, products_flush_denormal_numbers_and_nothing_after_them_does)
{
    const double denormal = 0.5 * (double)FLT_MIN;
    for (int64_t n = 1; n <= 512; n *= 8) {
        cr_assert_eq(largest_product(n, denormal, 1e3), 0.0, "operands");
        cr_assert_eq(largest_product(n, 1e-20, 1e-20), 0.0, "results");
        cr_assert_float_eq(largest_product(n, 1e-15, 1e-15), 8e-30, 1e-35);
    }
    cr_assert_eq(sum_of_halves(), LARGE * denormal);
}

/* ---- The end of a thread --------------------------------------------------------------------- */

static void *leaves_all_open(void *kept)
{
    br_ones(BR_SHAPE(1000), BR_F32);
    br_scope_begin();
    *(br_tensor **)kept = br_retain(br_ones(BR_SHAPE(1000), BR_F32));
    br_scope_begin();
    br_backward(br_sum(br_set_requires_grad(br_ones(BR_SHAPE(3), BR_F32), true)));
    return NULL;
}

/* A thread that ends without br_thread_cleanup() frees all of its tensors that are not retained. */
Test(threads, the_end_of_a_thread_frees_its_tensors)
{
    int64_t tensors = br_live_tensors(), bytes = br_live_bytes();
    br_tensor *kept = NULL;
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, leaves_all_open, &kept), 0);
    pthread_join(thread, NULL);
    cr_assert_eq(br_live_tensors(), tensors + 1);
    cr_assert_eq(br_data_f32(kept)[999], 1);
    br_release(kept);
    cr_assert_eq(br_live_bytes(), bytes);
}

static void *opens_scopes(void *unused)
{
    (void)unused;
    br_scope_begin();
    br_scope_end(br_scope_begin());
    br_ones(BR_SHAPE(2), BR_F32);
    return NULL;
}

/* The thread's internal blocks, such as its stack of tensors, are freed, too. */
Test(threads, the_end_of_a_thread_frees_its_internal_blocks)
{
    br_set_cache_limit(0);
    cr_assert(br_set_allocator(&(br_allocator){ counted_allocate, counted_deallocate, NULL }));
    counted.left = INT64_MAX;
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, opens_scopes, NULL), 0);
    pthread_join(thread, NULL);
    cr_assert_eq(counted_blocks(), 0);
    cr_assert(br_set_allocator(NULL));
}
