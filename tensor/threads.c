/* tensor/threads.c - the number of threads, and parallel loops of independent tasks. */
#include "tensor/tensor_internal.h"

#include <omp.h>
#include <sched.h>

/* More would be refused by the system, and the OpenMP library would then end the process. */
enum { MAX_THREADS = 1024 };

/* 0: not set. A documented process-wide setting. */
static atomic_int num_threads;

static int available_processors(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return CPU_COUNT(&set);
    return omp_get_num_procs();
}

void br_set_num_threads(int n)
{
    if (n < 1 || n > MAX_THREADS) {
        br__fail(BR_ERROR_ARGUMENT, "set_num_threads", "%d threads, must be 1 .. %d", n,
                 MAX_THREADS);
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

void br__parallel(int64_t n, void (*task)(void *context, int64_t i), void *context)
{
    int threads = n > 1 && !omp_in_parallel() ? br_get_num_threads() : 1;
    if (threads > n)
        threads = (int)n;
    if (threads <= 1) {
        for (int64_t i = 0; i < n; i++)
            task(context, i);
        return;
    }
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < n; i++)
        task(context, i);
}
