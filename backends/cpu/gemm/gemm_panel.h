/* backends/cpu/gemm/gemm_panel.h - multiplies A by one packed panel of B, tile by tile; part of
 * variant.c and gemm_bf16.c. */
#ifndef BR_KERNELS_GEMM_PANEL_H
#define BR_KERNELS_GEMM_PANEL_H

#include "backends/cpu/gemm/gemm_tile.h"

/* Prefetches the rows of C that the tile itself does not prefetch because k is too small. It is
 * always inlined, since compilers remove calls to a function that only prefetches. */
ALWAYS_INLINE void prefetch_tile(const br_gemm_block *g, int64_t rows, const tile_out *out)
{
    for (int64_t i = (g->k + STEPS - 1) / STEPS; i < rows; i++) {
        __builtin_prefetch(out->c + i * out->c_row, 1);
        __builtin_prefetch(out->c + i * out->c_row + VECTOR, 1);
    }
}

/* Multiplies A by a panel of B. `places` lists the columns of C if they are not contiguous,
 * otherwise it is NULL. Prefetches next[0], then next[1]. */
static void multiply_panel(const br_gemm_block *g, const real *b, int64_t b_row, tile_out out,
                           const int64_t *places, prefetch next[2])
{
    const int vectors = out.columns > VECTOR ? 2 : 1;
    const bool edge = !MASKS && out.columns % VECTOR != 0;
    const bool packed = g->a_row == 1 && g->a_col == TILE_ROWS && b_row == TILE_COLUMNS &&
                        out.columns == TILE_COLUMNS;
    _Alignas(64) real sums[TILE_ROWS * TILE_COLUMNS];
    const tile_out aside = { .c = sums, .c_row = TILE_COLUMNS, .columns = vectors * VECTOR };
    const real *a = g->a;
    for (int64_t left = g->m, rows; left > 0; left -= rows) {
        const tile_height *height = height_within(left);
        rows = height->rows;
        tile_fn *multiply =
            packed && rows == TILE_ROWS ? tile_packed : height->by_vectors[vectors - 1];
        if (g->exceeds_l2)
            prefetch_tile(g, rows, &out);
        multiply(g->k, a, g->a_row, g->a_col, b, b_row, edge || places ? &aside : &out,
                 &next[next->runs == 0]);
        if (places)
            put_listed(&out, rows, sums, places);
        else if (edge)
            store_sums_at_edge(&out, rows, sums);
        out.c += rows * out.c_row;
        a += rows == TILE_ROWS ? g->a_tile : rows * g->a_row;
    }
}

#endif
