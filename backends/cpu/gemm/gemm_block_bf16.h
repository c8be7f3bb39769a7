/* backends/cpu/gemm/gemm_block_bf16.h - cuts a block of B into panels of bf16 numbers, for any unit
 * that multiplies them; part of gemm_bf16.c, gemm_amx.c and gemm_amx_high.c. */
#ifndef BR_KERNELS_GEMM_BLOCK_BF16_H
#define BR_KERNELS_GEMM_BLOCK_BF16_H

#include "backends/cpu/gemm/gemm_pack_bf16.h"

/* Multiplies packed A by one packed panel of B. `places` lists the columns of C if they are not
 * contiguous, otherwise it is NULL. Prefetches next[0], then next[1]. */
typedef void multiply_fn(const br_gemm_block *g, real *panel, tile_out out, const int64_t *places,
                         prefetch next[2]);

/* Packs columns j .. j + columns - 1 of B. */
ALWAYS_INLINE void pack_columns(bf16_part which, real *panel, const br_gemm_block *g, int64_t j,
                                int64_t columns)
{
    if (which != STORED && g->b_rows)
        pack_listed(which, panel, columns, g->k, g->b, g->b_rows, g->b_columns + j);
    else
        pack_panel_pairs(which, panel, columns, g->k, number_at(which, g->b, j * g->b_col),
                         g->b_row, g->b_col);
}

/* Packs one panel of B after the other into `panel`, and its remainders into `rest` unless that is
 * NULL, and multiplies A by each of them. `which` is NEAREST or STORED. */
ALWAYS_INLINE void multiply_panels(bf16_part which, const br_gemm_block *g, real *panel, real *rest,
                                   multiply_fn *multiply)
{
    for (int64_t j = 0, columns; (j = claim_panel(g, j)) < g->n; j += columns) {
        columns = at_most(g->n - j, TILE_COLUMNS);
        const int64_t *places = g->b_rows ? g->c_columns + j : NULL;
        const tile_out out = { .c = (real *)g->c + (places ? 0 : j),
                               .c_row = g->c_row,
                               .columns = columns,
                               .bias = bias_from(g, j),
                               .accumulate = g->accumulate };
        prefetch next[] = {
            { 0 },
            prefetch_runs(&g->next, g->next.runs * j / g->n, g->next.runs * (j + columns) / g->n),
        };
        if (!places)
            next[0] =
                prefetch_panel(g, number_at(which, g->b, (j + columns) * g->b_col),
                               at_most(g->n - j - columns, TILE_COLUMNS), number_bytes(which));
        pack_columns(which, panel, g, j, columns);
        if (rest)
            pack_columns(REMAINDER, rest, g, j, columns);
        multiply(g, panel, out, places, next);
    }
}

#endif
