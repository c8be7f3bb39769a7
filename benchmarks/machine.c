/* benchmarks/machine.c - what this machine can do at most: multiply-adds and memory bandwidth. */
#include "benchmarks/bench.h"

#include <omp.h>
#include <stdlib.h>

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
        for (int j = 0; j < CHAINS; j++)                                        \
            a[j] = c * (real)j;                                                 \
        for (int64_t i = 0; i < n; i++)                                         \
            for (int j = 0; j < CHAINS; j++)                                    \
                a[j] = a[j] * b + c;                                            \
        for (int j = 1; j < CHAINS; j++)                                        \
            a[0] += a[j];                                                       \
        return (double)a[0][0];                                                 \
    }
#if defined(__x86_64__)
FMA_LOOP(fma_avx512_f32, "avx512f,fma,prefer-vector-width=512", float, 16)
FMA_LOOP(fma_avx512_f64, "avx512f,fma,prefer-vector-width=512", double, 8)
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
    if (__builtin_cpu_supports("avx512f")) {
        *lanes = f32 ? 16 : 8;
        return f32 ? fma_avx512_f32 : fma_avx512_f64;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        *lanes = f32 ? 8 : 4;
        return f32 ? fma_avx2_f32 : fma_avx2_f64;
    }
    *lanes = f32 ? 4 : 2;
    return f32 ? fma_sse_f32 : fma_sse_f64;
}

double bench_peak_gflops(int threads, br_dtype dtype)
{
    static double known[2];
    double *peak = &known[dtype == BR_F64];
    if (*peak > 0)
        return *peak;
    const int64_t n = 4000000;
    int lanes;
    fma_loop loop = choose_loop(dtype, &lanes);
    for (int round = 0; round < 5; round++) {
        double sink = 0, start = bench_now();
#pragma omp parallel num_threads(threads) reduction(+ : sink)
        sink += loop(n);
        double seconds = bench_now() - start;
        double gflops = 2.0 * CHAINS * lanes * (double)n * threads / seconds * 1e-9;
        if (gflops > *peak && sink > -1)
            *peak = gflops;
    }
    return *peak;
}

double bench_bandwidth(int threads)
{
    static double known;
    if (known > 0)
        return known;
    const int64_t n = (int64_t)1 << 25; /* three arrays of 128 MiB: far beyond any cache's share */
    float *a = malloc((size_t)n * sizeof *a), *b = malloc((size_t)n * sizeof *b),
          *c = malloc((size_t)n * sizeof *c);
    for (int round = 0; a && b && c && round < 5; round++) {
        double start = bench_now();
#pragma omp parallel for num_threads(threads) schedule(static)
        for (int64_t i = 0; i < n; i++) {
            if (round == 0) /* each thread touches its own pages first */
                b[i] = c[i] = 1;
            a[i] = b[i] + 0.5f * c[i];
        }
        double gbps = 3e-9 * (double)n * sizeof *a / (bench_now() - start);
        if (round > 0 && gbps > known)
            known = gbps;
    }
    free(a);
    free(b);
    free(c);
    return known;
}
