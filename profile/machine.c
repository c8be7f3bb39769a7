/* profile/machine.c - measures the machine's limits: multiply-adds and memory bandwidth. */
#include "backends/peak.h"
#include "tensor/tensor_internal.h"

#include <brasa/profile.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- Rounds ---------------------------------------------------------------------------------- */

/* A round is a fraction of a millisecond of work for every thread, started together. Each thread
 * measures its own CPU time, because that excludes the time of other programs. The rates of all
 * threads are added. Most rounds are alike, even on a loaded machine: the result is the rate of the
 * median round, or of a somewhat faster one. */
enum { MAX_THREADS = 1024, WINDOWS = 64, ROUNDS = 64 };

/* The work of the threads in a round. */
typedef struct work {
    int64_t round;
    int64_t n; /* steps of the loop or elements per thread */
    double (*loop)(int64_t n);
    double results[MAX_THREADS]; /* stored so that the compiler cannot remove the work */
    float *a, *b, *c;
    int threads;
    void (*task)(struct work *w, int64_t i);
    _Atomic int there;         /* number of threads that are ready */
    double times[MAX_THREADS]; /* each thread's CPU time in the round */
} work;

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Waits for the other threads, but only for a short time: if all tasks run in one thread, there are
 * none. */
static void begin_together(work *w)
{
    static const double patience = 0.002;
    double start = seconds(CLOCK_MONOTONIC);
    atomic_fetch_add(&w->there, 1);
    while (atomic_load(&w->there) < w->threads && seconds(CLOCK_MONOTONIC) - start < patience)
        continue;
}

static void timed_task(void *context, int64_t i)
{
    work *w = context;
    begin_together(w);
    double start = seconds(CLOCK_THREAD_CPUTIME_ID);
    w->task(w, i);
    w->times[i] = seconds(CLOCK_THREAD_CPUTIME_ID) - start;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Returns how many tasks all threads together run per second, in the round at the given
 * quantile. */
static double rate_of(work *w, double quantile)
{
    double rates[ROUNDS];
    for (w->round = 0; w->round < ROUNDS; w->round++) {
        atomic_store(&w->there, 0);
        br__parallel(w->threads, timed_task, w);
        rates[w->round] = 0;
        for (int i = 0; i < w->threads; i++)
            rates[w->round] += 1 / w->times[i];
    }
    qsort(rates, ROUNDS, sizeof *rates, compare_doubles);
    return rates[(int)(quantile * ROUNDS)];
}

/* ---- Multiply-adds --------------------------------------------------------------------------- */

static void fma_task(work *w, int64_t i)
{
    w->results[i] = w->loop(w->n);
}

static double measure_flops(int threads, br_dtype dtype)
{
    const br_peak_loop loop = br__peak_loop(dtype);
    work w = { .n = 100000, .loop = loop.run, .threads = threads, .task = fma_task };
    return loop.flops * (double)w.n * rate_of(&w, 0.75);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* A thread's part of a window consists of whole vectors of this type. */
typedef float quad __attribute__((vector_size(16)));
enum { QUAD = sizeof(quad) / sizeof(float) };

/* Each round uses the next window, which no cache holds any more. */
static void triad_task(work *w, int64_t i)
{
    int64_t start = (w->round % WINDOWS * w->threads + i) * w->n;
    quad *a = (quad *)(w->a + start), *b = (quad *)(w->b + start), *c = (quad *)(w->c + start);
    for (int64_t k = 0; k < w->n / QUAD; k++)
        a[k] = b[k] + 0.5f * c[k];
}

/* Maps a thread's part of the memory by writing to it. */
static void touch_task(void *context, int64_t i)
{
    const work *w = context;
    int64_t n = w->n * WINDOWS;
    float *const arrays[] = { w->a, w->b, w->c };
    for (int k = 0; k < 3; k++)
        memset(arrays[k] + i * n, 0x3f, (size_t)n * sizeof(float)); /* numbers near 0.75 */
}

/* Uses three arrays of 128 MiB, much larger than any cache. Returns 0 and an error if there is no
 * memory. */
static double measure_bytes(int threads)
{
    const int64_t n = ((int64_t)1 << 25) / WINDOWS / threads / QUAD * QUAD;
    const int64_t all = n * WINDOWS * threads;
    size_t bytes = 3 * (size_t)all * sizeof(float);
    br_extent *extent;
    float *block = br__block_alloc("measure_peak", bytes, &extent);
    if (!block)
        return 0;
    work w = { .n = n,
               .a = block,
               .b = block + all,
               .c = block + 2 * all,
               .threads = threads,
               .task = triad_task };
    br__parallel(threads, touch_task, &w);
    double rate = rate_of(&w, 0.5);
    br__block_free(block, bytes, extent);
    return (double)bytes / WINDOWS / threads * rate;
}

bool br_measure_peak(br_dtype dtype, br_peak *peak)
{
    if (!br__required("measure_peak", "peak", peak))
        return false;
    if (!br__is_floating(dtype) || br__is_stored(dtype))
        return br_fail(BR_ERROR_ARGUMENT, "measure_peak", "dtype is %s, must be f32 or f64",
                       br_dtype_name(dtype));
    int threads = br_get_num_threads();
    *peak = (br_peak){ measure_flops(threads, dtype), measure_bytes(threads) };
    return !br_failed();
}
