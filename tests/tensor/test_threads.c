/* tests/tensor/test_threads.c - parallel loops: every task once, whoever runs it. */
#include "tensor/tensor_internal.h"
#include "tests/support.h"

#include <brasa/brasa.h>
#include <dirent.h>
#include <float.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>
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

/* A child has none of its parent's workers, and can have its own. */
static void nap(void *context, int64_t i)
{
    (void)context;
    (void)i;
    usleep(3000);
}

/* Threads of the process, of which as many may run wherever this one may. */
static int threads_of_process(int *free_ones)
{
    cpu_set_t mine, its;
    int all = 0;
    sched_getaffinity(0, sizeof mine, &mine);
    DIR *tasks = opendir("/proc/self/task");
    cr_assert(tasks);
    *free_ones = 0;
    for (struct dirent *entry; (entry = readdir(tasks));) {
        if (entry->d_name[0] == '.')
            continue;
        all++;
        *free_ones +=
            sched_getaffinity(atoi(entry->d_name), sizeof its, &its) == 0 && CPU_EQUAL(&mine, &its);
    }
    closedir(tasks);
    return all;
}

/* Workers that sleep between loops go elsewhere if they wake at the caller's processor. */
Test(threads, woken_workers_are_bound_to_no_processor)
{
    br_set_num_threads(2);
    for (int round = 0; round < 10; round++) {
        br__parallel(2, nap, NULL);
        usleep(10000); /* workers are awake for a millisecond or two */
        int free_ones, all = threads_of_process(&free_ones);
        cr_assert(all >= 2 && free_ones == all, "round %d: %d of %d", round, free_ones, all);
    }
}

Test(threads, a_forked_child)
{
    br_set_num_threads(3);
    cr_assert(runs_each_once());
    pid_t child = fork();
    if (child == 0)
        _exit(runs_each_once() ? 0 : 1);
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    cr_assert(runs_each_once());
}

Test(threads, numbers_out_of_range)
{
    int before = br_get_num_threads();
    br_set_num_threads(0);
    cr_assert(strstr(br_error_message(), "set_num_threads: 0 threads, must be 1 .. 1024"));
    br_clear_error();
    cr_assert_eq(br_get_num_threads(), before);
}

/* ---- Denormal numbers ------------------------------------------------------------------------ */

enum { LARGE = 1 << 18 }; /* elements: many tasks */

/* The sum of a half of FLT_MIN as often as LARGE, which no thread may take for 0. */
static double sum_of_halves(void)
{
    br_scope *scope = br_scope_begin();
    br_tensor *least = br_full(BR_SHAPE(LARGE), (double)FLT_MIN, BR_F32);
    double sum = br_item(br_sum(br_to(br_mul_scalar(least, 0.5), BR_F64)));
    br_scope_end(scope);
    return sum;
}

Test(threads, denormal_numbers_are_flushed_where_asked_for)
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

/* The largest element of a [n, 8] x [8, n] of elements of the given sizes. */
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
