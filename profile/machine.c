/* profile/machine.c - what this machine can do at most: multiply-adds and memory bandwidth. */
#include "ops/kernels/hints.h"
#include "tensor/cpu.h"
#include "tensor/tensor_internal.h"

#include <brasa/profile.h>
#include <time.h>

/* Chains of multiply-adds, enough of them to hide the latency, with nothing but registers. One
 * function for each instruction set and type; the vectors are the compiler's. */
#define CHAINS 12
#define FMA_LOOP(name, target_, real, lanes)                                    \
    __attribute__((target(target_), noinline)) static double name(int64_t n)    \
    {                                                                           \
        typedef real vector __attribute__((vector_size(sizeof(real) * lanes))); \
        vector a[CHAINS], b, c;                                                 \
        for (int i = 0; i < lanes; i++) {                                       \
            b[i] = (real)0.999;                                                 \
            c[i] = (real)0.001;                                                 \
        }                                                                       \
        UNROLLED                                                                \
        for (int j = 0; j < CHAINS; j++)                                        \
            a[j] = c * (real)j;                                                 \
        for (int64_t i = 0; i < n; i++) {                                       \
            UNROLLED                                                            \
            for (int j = 0; j < CHAINS; j++)                                    \
                a[j] = a[j] * b + c;                                            \
        }                                                                       \
        UNROLLED                                                                \
        for (int j = 1; j < CHAINS; j++)                                        \
            a[0] += a[j];                                                       \
        return (double)a[0][0];                                                 \
    }
#if defined(__x86_64__)
FMA_LOOP(fma_avx512_f32, "avx512f,fma", float, 16)
FMA_LOOP(fma_avx512_f64, "avx512f,fma", double, 8)
FMA_LOOP(fma_avx2_f32, "avx2,fma", float, 8)
FMA_LOOP(fma_avx2_f64, "avx2,fma", double, 4)
FMA_LOOP(fma_sse_f32, "sse2", float, 4)
FMA_LOOP(fma_sse_f64, "sse2", double, 2)
#endif

typedef double (*fma_loop)(int64_t n);

/* The widest loop this processor runs, and its lanes. */
static fma_loop choose_loop(br_dtype dtype, int *lanes)
{
    bool f32 = dtype == BR_F32;
    if (br__cpu() >= BR_CPU_AVX512) {
        *lanes = f32 ? 16 : 8;
        return f32 ? fma_avx512_f32 : fma_avx512_f64;
    }
    if (br__cpu() >= BR_CPU_AVX2) {
        *lanes = f32 ? 8 : 4;
        return f32 ? fma_avx2_f32 : fma_avx2_f64;
    }
    *lanes = f32 ? 4 : 2;
    return f32 ? fma_sse_f32 : fma_sse_f64;
}

/* The least time of many short rounds counts: one of them runs undisturbed even where other
 * programs run. */
enum { ROUNDS = 64, MOST = 1024, WINDOWS = 16 };

/* What the threads do in a round. */
typedef struct work {
    int round;
    int64_t n; /* of multiply-adds or elements, for each thread */
    fma_loop loop;
    double results[MOST]; /* kept, so that the work is not left out */
    float *a, *b, *c;
    int threads;
} work;

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double least_time(work *w, void (*task)(void *context, int64_t i))
{
    double least = 0;
    for (w->round = 0; w->round < ROUNDS; w->round++) {
        double start = seconds();
        br__parallel(w->threads, task, w);
        double time = seconds() - start;
        least = w->round == 0 || time < least ? time : least;
    }
    return least;
}

/* ---- Multiply-adds --------------------------------------------------------------------------- */

static void fma_task(void *context, int64_t i)
{
    work *w = context;
    w->results[i] = w->loop(w->n);
}

static double measure_flops(int threads, br_dtype dtype)
{
    int lanes;
    work w = { .n = 1000000, .threads = threads };
    w.loop = choose_loop(dtype, &lanes);
    double time = least_time(&w, fma_task);
    return 2.0 * CHAINS * lanes * (double)w.n * threads / time;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* What a thread has of a window is whole vectors of these. */
typedef float quad __attribute__((vector_size(16)));
enum { QUAD = sizeof(quad) / sizeof(float) };

/* Each round is about the next window, which no cache holds any more. */
static void triad_task(void *context, int64_t i)
{
    const work *w = context;
    int64_t start = (w->round % WINDOWS * w->threads + i) * w->n;
    quad *a = (quad *)(w->a + start), *b = (quad *)(w->b + start), *c = (quad *)(w->c + start);
    for (int64_t k = 0; k < w->n / QUAD; k++)
        a[k] = b[k] + 0.5f * c[k];
}

static void touch_task(void *context, int64_t i)
{
    const work *w = context;
    int64_t n = w->n * WINDOWS;
    for (int64_t k = i * n; k < (i + 1) * n; k++)
        w->a[k] = w->b[k] = w->c[k] = 1;
}

/* Three arrays of 128 MiB: far beyond any cache's share. 0 and an error if there is no memory. */
static double measure_bytes(int threads)
{
    const int64_t n = ((int64_t)1 << 25) / WINDOWS / threads / QUAD * QUAD;
    const int64_t all = n * WINDOWS * threads;
    size_t bytes = 3 * (size_t)all * sizeof(float);
    br_extent *extent;
    float *block = br__block_alloc("measure_peak", bytes, &extent);
    if (!block)
        return 0;
    work w = { .n = n, .a = block, .b = block + all, .c = block + 2 * all, .threads = threads };
    br__parallel(threads, touch_task, &w);
    double time = least_time(&w, triad_task);
    br__block_free(block, bytes, extent);
    return (double)bytes / WINDOWS / time;
}

bool br_measure_peak(br_dtype dtype, br_peak *peak)
{
    if (!br__required("measure_peak", "peak", peak))
        return false;
    if (dtype != BR_F32 && dtype != BR_F64)
        return br__fail(BR_ERROR_ARGUMENT, "measure_peak", "dtype must be f32 or f64");
    int threads = br_get_num_threads();
    *peak = (br_peak){ measure_flops(threads, dtype), measure_bytes(threads) };
    return !br_failed();
}
