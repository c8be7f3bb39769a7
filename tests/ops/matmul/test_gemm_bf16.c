/* tests/ops/matmul/test_gemm_bf16.c - compares the kernels of products in bf16 with three plain
 * loops, for all small sizes and all layouts. Matrix products use them only for larger sizes. */
#include "tests/ops/matmul/bf16_products.h"
#include "tests/ops/matmul/bf16_units.h"

static void gemm_bf16_end(void)
{
    next_unit(UNITS);
    check_end();
}

TestSuite(gemm_bf16, .init = check_begin, .fini = gemm_bf16_end);

/* Each combination of sizes gets one of the combinations of layouts, bias and accumulation, in an
 * order that combines each of these with each remainder of the sizes. */
static void check_sizes(const br_gemm_kernels *kernels, bool is_split, int64_t largest,
                        int64_t step)
{
    uint32_t order = 0;
    for (int64_t m = 1; m <= largest; m += step)
        for (int64_t n = 1; n <= largest; n += step)
            for (int64_t k = 1; k <= largest; k += step, order = order * 1664525 + 1013904223)
                check_product(kernels, &(product){ .m = m,
                                                   .n = n,
                                                   .k = k,
                                                   .of_a = (layout)(order >> 20 & 3),
                                                   .of_b = (layout)(order >> 22 & 3),
                                                   .bias = order >> 24 & 1,
                                                   .accumulate = order >> 25 & 1,
                                                   .is_split = is_split });
}

/* Beyond two blocks of C along each dimension. The step is odd, so that all remainders of the sizes
 * by the sizes of tiles occur. */
Test(gemm_bf16, small_sizes)
{
    need_unit(check_end);
    FOR_EACH_UNIT(unit)
    {
        if (unit == UNIT_AVX512_BF16)
            check_sizes(br__gemm_bf16_kernels(BR_MATMUL_MEDIUM), false, 40, 1);
        else
            check_sizes(br__gemm_bf16_kernels(BR_MATMUL_MEDIUM), false, MAX_SIZE, 3);
    }
}

Test(gemm_bf16, small_sizes_of_split_operands)
{
    need_unit(check_end);
    FOR_EACH_UNIT(unit)
    {
        if (br__gemm_bf16_kernels(BR_MATMUL_HIGH))
            check_sizes(br__gemm_bf16_kernels(BR_MATMUL_HIGH), true, MAX_SIZE, 3);
    }
}

/* Up to a whole k-block, with all layouts. */
static void check_depths(const br_gemm_kernels *kernels, bool is_split)
{
    const int depths[] = {
        63, 64, 65, 255, 303, 304, kernels->gemm_depth - 1, kernels->gemm_depth
    };
    for (size_t d = 0; d < sizeof depths / sizeof *depths; d++)
        for (int how = 0; how < LAYOUTS * LAYOUTS && depths[d] <= kernels->gemm_depth; how++)
            check_product(kernels, &(product){ .m = 25,
                                               .n = 39,
                                               .k = depths[d],
                                               .of_a = (layout)(how / LAYOUTS),
                                               .of_b = (layout)(how % LAYOUTS),
                                               .bias = true,
                                               .is_split = is_split });
}

Test(gemm_bf16, long_sums)
{
    need_unit(check_end);
    FOR_EACH_UNIT(unit)
    {
        check_depths(br__gemm_bf16_kernels(BR_MATMUL_MEDIUM), false);
        if (br__gemm_bf16_kernels(BR_MATMUL_HIGH))
            check_depths(br__gemm_bf16_kernels(BR_MATMUL_HIGH), true);
    }
}
