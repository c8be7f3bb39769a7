/* ops/kernels/gemm/gemm_bf16.c - products of f32 matrices that are rounded to bf16, for processors
 * with AVX512-BF16.
 *
 * Operands are rounded while they are packed (gemm_pack_bf16.h). The micro-kernel is that of f32
 * (gemm_tile.h), in which each lane holds a pair of bf16 numbers: VDPBF16PS adds the products of
 * two pairs to a sum in f32, first that of the numbers with odd k and then that of the numbers with
 * even k; each addition rounds. So a step along k does twice the work of one in f32, and a k-block
 * of the same bytes has twice the length. VDPBF16PS and the rounding: Intel 64 and IA-32
 * Architectures Software Developer's Manual, volume 2. */
typedef float real; /* or a pair of bf16 numbers */
#define BR_KERNEL_BF16

#include "ops/kernels/gemm/gemm_block_bf16.h"
#include "ops/kernels/gemm/gemm_panel.h"

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
    multiply_panels(g, panel, NULL, multiply_packed);
}

extern const br_gemm_kernels br__gemm_avx512_bf16;

const br_gemm_kernels br__gemm_avx512_bf16 = {
    .unit = "avx512_bf16",
    .gemm_rows = TILE_ROWS,
    .gemm_columns = TILE_COLUMNS,
    .gemm_depth = 2 * BR_GEMM_K,
    .gemm_depth_unit = 8,
    .packed_size = sizeof(real) / 2,
    .only_packed = true,
    .gemm_block = gemm_block,
    .gemm_pack = pack_tiles,
};
