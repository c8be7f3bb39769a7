/* backends/cpu/isa/gemm_stored.c - products of bf16 or f16 matrices in f32, for one instruction set
 * and one of these dtypes, which BR_NUMBERS_BF16 or BR_NUMBERS_F16 names.
 *
 * Operands are widened while they are packed, or as a dot product or a product of one row reads
 * them. C and the bias are f32. The micro-kernels, the sizes of tiles and of k-blocks and the order
 * of sums are those of f32, so an element of C has the bits that widened operands give. */
typedef float real;

/* The headers have more functions than these products use. */
#pragma GCC diagnostic ignored "-Wunused-function"

#include "backends/cpu/gemm/gemm_dots.h"
#include "backends/cpu/gemm/gemm_pack_stored.h"
#include "backends/cpu/gemm/gemm_panel.h"
#include "backends/cpu/gemm/gemm_wide.h"

/* Maximum rows of A for which B is read in place. */
enum { ROWS_IN_PLACE = 5 };

static void gemm_block(const br_gemm_block *g)
{
    _Alignas(64) real panel[BR_GEMM_K * TILE_COLUMNS + VECTOR];
    int64_t j = g->b_col == 1 && g->m <= ROWS_IN_PLACE && !g->next_column ? gemm_rows(g) : 0;
    for (int64_t columns; (j = claim_panel(g, j)) < g->n; j += columns) {
        columns = g->n - j < TILE_COLUMNS ? g->n - j : TILE_COLUMNS;
        const int64_t left = g->n - j - columns;
        const stored_real *b = (const stored_real *)g->b + j * g->b_col;
        prefetch next[] = {
            prefetch_panel(g, b + columns * g->b_col, left < TILE_COLUMNS ? left : TILE_COLUMNS,
                           sizeof(stored_real)),
            prefetch_runs(&g->next, g->next.runs * j / g->n, g->next.runs * (j + columns) / g->n),
        };
        const tile_out out = { .c = (real *)g->c + j,
                               .c_row = g->c_row,
                               .columns = columns,
                               .bias = bias_from(g, j),
                               .accumulate = g->accumulate };
        pack_panel_stored(panel, columns, g->k, b, g->b_row, g->b_col);
        multiply_panel(g, panel, TILE_COLUMNS, out, NULL, next);
    }
}

extern const br_gemm_kernels BR_GEMM_TABLE;

const br_gemm_kernels BR_GEMM_TABLE = {
    .gemm_rows = TILE_ROWS,
    .gemm_columns = TILE_COLUMNS,
    .gemm_depth = BR_GEMM_K,
    .gemm_depth_unit = 8,
    .packed_size = sizeof(real),
    .only_packed = true,
    .unshared_rows = ROWS_IN_PLACE,
    .dot_rows = DOT_ROWS,
    .dot_length = DOT_LENGTH,
    .dot_square = DOT_SQUARE,
    .gemm_block = gemm_block,
    .gemm_dots = gemm_dots,
    .gemm_pack = gemm_pack_stored,
};
