/* backends/cpu/peak.c - loops that keep the units for multiply-adds busy, see backends/peak.h. */
#include "backends/peak.h"
#include "backends/cpu/gemm/gemm_kernels.h"
#include "backends/cpu/hints.h"
#include "tensor/cpu.h"

/* Defines a loop of independent chains of multiply-adds, enough to hide their latency, in registers
 * only. There is one function for each instruction set and type, written with the compiler's vector
 * types. */
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

/* Returns the widest loop of multiply-adds that this processor supports. */
static br_peak_loop widest_loop(br_dtype dtype)
{
    static const struct {
        br_cpu cpu;
        int bytes; /* of a vector */
        double (*by_dtype[BR_DTYPES])(int64_t n);
    } loops[] = {
        { BR_CPU_AVX512, 64, { [BR_F32] = fma_avx512_f32, [BR_F64] = fma_avx512_f64 } },
        { BR_CPU_AVX2, 32, { [BR_F32] = fma_avx2_f32, [BR_F64] = fma_avx2_f64 } },
        { BR_CPU_BASELINE, 16, { [BR_F32] = fma_sse_f32, [BR_F64] = fma_sse_f64 } },
    };
    int i = 0;
    while (br__cpu() < loops[i].cpu)
        i++;
    const int lanes = loops[i].bytes / (int)br_dtype_size(dtype);
    return (br_peak_loop){ loops[i].by_dtype[dtype], 2.0 * CHAINS * lanes };
}

br_peak_loop br__peak_loop(br_dtype dtype)
{
    const br_matmul_precision precision = br__matmul_precision_of(dtype);
    const br_gemm_kernels *bf16 = br__gemm_bf16_kernels(precision);
    return bf16 ? (br_peak_loop){ bf16->peak_loop, bf16->peak_flops } : widest_loop(dtype);
}
