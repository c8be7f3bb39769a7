/* tests/tensor/test_threads.c - parallel loops: every task once, whoever runs it. */
#include "tensor/tensor_internal.h"
#include "tests/support.h"

#include <pthread.h>
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
