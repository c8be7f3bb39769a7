/* ops/kernels/gemm/gemm_bf16.c - products of f32 matrices that are rounded to bf16, for processors
 * with AVX512-BF16.
 *
 * Operands are rounded while they are packed (gemm_pack_bf16.h). The micro-kernel is that of f32
 * (gemm_tile.h), in which each lane holds a pair of bf16 numbers: VDPBF16PS adds the products of
 * two pairs to a sum in f32. So a step along k does twice the work of one in f32, and a k-block of
 * the same bytes has twice the length. VDPBF16PS and the rounding: Intel 64 and IA-32 Architectures
 * Software Developer's Manual, volume 2. */
typedef float real; /* or a pair of bf16 numbers */
#define BR_KERNEL_BF16

#include "ops/kernels/gemm/gemm_pack_bf16.h"
#include "ops/kernels/gemm/gemm_panel.h"

/* Multiplies packed A by one k-block of B, panel by panel. */
static void gemm_block(const br_gemm_block *g)
{
    _Alignas(64) real panel[BR_GEMM_K * TILE_COLUMNS];
    br_gemm_block packed = *g; /* A in pairs */
    packed.k = pairs_in(g->k);
    packed.a_row = 1;
    packed.a_col = TILE_ROWS;
    packed.a_tile = TILE_ROWS * packed.k;
    for (int64_t j = 0, columns; (j = claim_panel(g, j)) < g->n; j += columns) {
        columns = at_most(g->n - j, TILE_COLUMNS);
        const int64_t *places = g->b_rows ? g->c_columns + j : NULL;
        const real *b = (const real *)g->b + (places ? 0 : j * g->b_col);
        tile_out out = { .c = (real *)g->c + (places ? 0 : j),
                         .c_row = g->c_row,
                         .columns = columns,
                         .bias = bias_from(g, j),
                         .accumulate = g->accumulate };
        prefetch next[] = {
            { 0 },
            prefetch_runs(&g->next, g->next.runs * j / g->n, g->next.runs * (j + columns) / g->n),
        };
        if (places) {
            pack_listed(panel, columns, g->k, b, g->b_rows, g->b_columns + j);
        } else {
            next[0] = prefetch_panel(g, b + columns * g->b_col,
                                     at_most(g->n - j - columns, TILE_COLUMNS));
            pack_panel_pairs(panel, columns, g->k, b, g->b_row, g->b_col);
        }
        multiply_panel(&packed, panel, TILE_COLUMNS, out, places, next);
    }
}

extern const br_gemm_kernels br__gemm_avx512_bf16;

const br_gemm_kernels br__gemm_avx512_bf16 = {
    .gemm_rows = TILE_ROWS,
    .gemm_columns = TILE_COLUMNS,
    .gemm_depth = 2 * BR_GEMM_K,
    .packed_size = sizeof(real) / 2,
    .only_packed = true,
    .gemm_block = gemm_block,
    .gemm_pack = gemm_pack_pairs,
};
