/* backends/cpu/gemm/gemm_block.h - multiplies A by one k-block of B, tile by tile; part of
 * variant.c.
 *
 * B is packed panel by panel unless it can be read in place. In that case wide tiles (gemm_wide.h)
 * come first, and panels cover the remaining columns. */
#ifndef BR_KERNELS_GEMM_BLOCK_H
#define BR_KERNELS_GEMM_BLOCK_H

#include "backends/cpu/gemm/gemm_pack.h"
#include "backends/cpu/gemm/gemm_panel.h"
#include "backends/cpu/gemm/gemm_wide.h"

/* Packs listed elements of B into `panel` and multiplies A by it. */
static void multiply_listed(const br_gemm_block *g, int64_t j, real *panel)
{
    const int64_t *places = g->c_columns + j;
    tile_out out = { .c = g->c,
                     .c_row = g->c_row,
                     .columns = g->n - j < TILE_COLUMNS ? g->n - j : TILE_COLUMNS,
                     .accumulate = g->accumulate };
    prefetch next[] = {
        { 0 },
        prefetch_runs(&g->next, g->next.runs * j / g->n, g->next.runs * (j + out.columns) / g->n),
    };
    column_runs runs;
    find_runs(&runs, out.columns, g->b_columns + j);
    pack_runs(panel, out.columns, g->k, g->b, g->b_rows, &runs);
    if (places[out.columns - 1] - places[0] == out.columns - 1) {
        out.c += places[0];
        places = NULL;
    }
    multiply_panel(g, panel, TILE_COLUMNS, out, places, next);
}

/* Maximum number of elements for B to stay in the L1 cache. */
enum { SMALL_B = (32 << 10) / sizeof(real) };

/* Returns the number of columns of the panel at column j. If B is read in place, the number is a
 * multiple of VECTOR or, with masks, less than VECTOR. */
static int64_t panel_columns(const br_gemm_block *g, int64_t j, bool in_place)
{
    int64_t left = g->n - j;
    if (left >= TILE_COLUMNS)
        return TILE_COLUMNS;
    return in_place && left > VECTOR ? VECTOR : left;
}

/* Multiplies A by the panels of columns j .. end - 1. */
static void multiply_columns(const br_gemm_block *g, int64_t j, int64_t end, bool in_place,
                             real *panel)
{
    for (int64_t columns; j < end; j += columns) {
        columns = panel_columns(g, j, in_place);
        tile_out out = { .c = (real *)g->c + j,
                         .c_row = g->c_row,
                         .columns = columns,
                         .bias = bias_from(g, j),
                         .accumulate = g->accumulate };
        const real *b = (const real *)g->b + j * g->b_col;
        const int64_t left = g->n - j - columns;
        prefetch next[] = {
            prefetch_panel(g, b + columns * g->b_col, left < TILE_COLUMNS ? left : TILE_COLUMNS,
                           sizeof(real)),
            prefetch_runs(&g->next, g->next.runs * j / g->n, g->next.runs * (j + columns) / g->n),
        };
        if (in_place) {
            multiply_panel(g, b, g->b_row, out, NULL, next);
        } else {
            pack_panel(panel, columns, g->k, b, g->b_row, g->b_col);
            multiply_panel(g, panel, TILE_COLUMNS, out, NULL, next);
        }
    }
}

static void gemm_block(const br_gemm_block *g)
{
    _Alignas(64) real panel[BR_GEMM_K * TILE_COLUMNS + VECTOR];
    /* If B's rows can be loaded in place, packing B does not pay if A has few rows, or if B stays
     * in the L1 cache. */
    const bool small = g->m <= 2 * TILE_ROWS || g->k * g->n <= SMALL_B;
    const bool by_rows = g->b_col == 1 && !g->b_rows;
    const bool in_place = by_rows && (small || few_steps(g)) && (MASKS || g->n % VECTOR == 0);
    int64_t j = 0, end;
    if (by_rows && g->m == 1 && g->k * g->n > SMALL_B)
        j = gemm_rows(g);
    else if (in_place)
        j = gemm_wide(g);
    for (; (j = claim_panel(g, j)) < g->n; j = end) {
        end = j + TILE_COLUMNS < g->n ? j + TILE_COLUMNS : g->n;
        if (g->b_rows)
            multiply_listed(g, j, panel);
        else
            multiply_columns(g, j, end, in_place, panel);
    }
}

#endif
