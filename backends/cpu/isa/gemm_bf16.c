/* backends/cpu/isa/gemm_bf16.c - products of bf16 matrices, and of f32 matrices that are rounded to
 * bf16, for processors with AVX512-BF16.
 *
 * f32 operands are rounded while they are packed (gemm_pack_bf16.h). The micro-kernel is that of
 * f32 (gemm_tile.h), in which each lane holds a pair of bf16 numbers: VDPBF16PS adds the products
 * of two pairs to a sum in f32: first the product of the numbers with odd k, then the product of
 * the numbers with even k. Each addition rounds. So a step along k does twice the work of one in
 * f32, and a k-block of the same bytes has twice the length. VDPBF16PS and the rounding: Intel 64
 * and IA-32 Architectures Software Developer's Manual, volume 2. */
typedef float real; /* or a pair of bf16 numbers */
#define BR_KERNEL_BF16

#include "backends/cpu/gemm/gemm_block_bf16.h"
#include "backends/cpu/gemm/gemm_panel.h"

static void multiply_packed(const br_gemm_block *g, real *panel, tile_out out,
                            const int64_t *places, prefetch next[2])
{
    br_gemm_block packed = *g; /* A in pairs */
    packed.k = pairs_in(g->k);
    packed.a_row = 1;
    packed.a_col = TILE_ROWS;
    packed.a_tile = TILE_ROWS * packed.k;
    multiply_panel(&packed, panel, TILE_COLUMNS, out, places, next);
}

static void gemm_block(const br_gemm_block *g)
{
    _Alignas(64) real panel[BR_GEMM_K * TILE_COLUMNS];
    multiply_panels(NEAREST, g, panel, NULL, multiply_packed);
}

static void gemm_block_stored(const br_gemm_block *g)
{
    _Alignas(64) real panel[BR_GEMM_K * TILE_COLUMNS];
    multiply_panels(STORED, g, panel, NULL, multiply_packed);
}

static void gemm_pack(void *to, int64_t m, int64_t k, const void *a, int64_t a_row, int64_t a_col)
{
    pack_tiles(NEAREST, to, m, k, a, a_row, a_col);
}

static void gemm_pack_stored(void *to, int64_t m, int64_t k, const void *a, int64_t a_row,
                             int64_t a_col)
{
    pack_tiles(STORED, to, m, k, a, a_row, a_col);
}

/* Independent sums, enough to hide the latency of VDPBF16PS. */
enum { CHAINS = 12 };

static double peak_loop(int64_t n)
{
    vec sums[CHAINS] = { { 0 } };
    const vec a = (vec){ 0 } + 0.999f, b = (vec){ 0 } + 0.001f; /* as pairs of bf16 numbers */
    for (int64_t i = 0; i < n; i++) {
        UNROLLED
        for (int j = 0; j < CHAINS; j++)
            sums[j] = (vec)_mm512_dpbf16_ps((__m512)sums[j], (__m512bh)a, (__m512bh)b);
    }
    UNROLLED
    for (int j = 1; j < CHAINS; j++)
        sums[0] += sums[j];
    return (double)sums[0][0];
}

extern const br_gemm_kernels br__gemm_avx512_bf16;

#define TABLE(block, pack, stored)                                                              \
    {                                                                                           \
        .unit = "avx512_bf16", .gemm_rows = TILE_ROWS, .gemm_columns = TILE_COLUMNS,            \
        .gemm_depth = 2 * BR_GEMM_K, .gemm_depth_unit = 8, .packed_size = sizeof(real) / 2,     \
        .only_packed = true, .gemm_block = (block), .gemm_pack = (pack), .of_stored = (stored), \
        .peak_loop = peak_loop, .peak_flops = 2 * CHAINS * 2 * VECTOR,                          \
    }

static const br_gemm_kernels of_stored = TABLE(gemm_block_stored, gemm_pack_stored, NULL);
const br_gemm_kernels br__gemm_avx512_bf16 = TABLE(gemm_block, gemm_pack, &of_stored);
