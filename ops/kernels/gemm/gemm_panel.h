/* ops/kernels/gemm/gemm_panel.h - multiplies A by one packed panel of B, tile by tile, and handles
 * operands whose elements are listed; part of variant.c and gemm_bf16.c. */
#ifndef BR_KERNELS_GEMM_PANEL_H
#define BR_KERNELS_GEMM_PANEL_H

#include "ops/kernels/gemm/gemm_tile.h"

/* ---- Listed elements ------------------------------------------------------------------------- */

/* Runs of at most VECTOR listed columns that are adjacent in B: run r begins at from[r] in B and at
 * column at[r] of the panel. */
typedef struct column_runs {
    int64_t count, from[TILE_COLUMNS], at[TILE_COLUMNS];
} column_runs;

static void find_runs(column_runs *runs, int64_t count, const int64_t *columns)
{
    int64_t n = 0;
    for (int64_t w = 0; w < count; w++)
        if (n == 0 || w - runs->at[n - 1] == VECTOR || columns[w] != columns[w - 1] + 1) {
            runs->from[n] = columns[w];
            runs->at[n++] = w;
        }
    runs->count = n;
}

/* Packs the listed rows of B, and `count` columns in runs, into a panel. Runs are copied as whole
 * vectors. Excess elements are overwritten by the next columns or the next row, so the panel needs
 * room for one more vector at its end. */
static void pack_runs(real *to, int64_t count, int64_t k, const real *b, const int64_t *rows,
                      const column_runs *runs)
{
    const int64_t last = (count - 1) / VECTOR * VECTOR;
    for (int64_t p = 0; p < k && count < TILE_COLUMNS; p++)
        *(vec *)(to + p * TILE_COLUMNS + last) = (vec){ 0 };
    for (int64_t p = 0; p < k; p++, to += TILE_COLUMNS) {
        const real *row = b + rows[p];
        *(vec_at *)(to + runs->at[0]) = *(const vec_at *)(row + runs->from[0]);
        for (int64_t r = 1; r < runs->count; r++)
            *(vec_at *)(to + runs->at[r]) = *(const vec_at *)(row + runs->from[r]);
    }
}

/* Stores a tile of sums to the listed columns of C. */
static void put_listed(const tile_out *out, int64_t rows, const real *sums, const int64_t *columns)
{
    for (int64_t i = 0; i < rows; i++, sums += TILE_COLUMNS) {
        real *c = out->c + i * out->c_row;
        if (out->accumulate) {
            INDEPENDENT
            for (int64_t j = 0; j < out->columns; j++)
                c[columns[j]] += sums[j];
        } else {
            INDEPENDENT
            for (int64_t j = 0; j < out->columns; j++)
                c[columns[j]] = sums[j];
        }
    }
}

/* ---- Panels ---------------------------------------------------------------------------------- */

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

/* Returns the first column of the next panel: j, or, if several threads share the block, the first
 * column that no thread has taken. */
static int64_t claim_panel(const br_gemm_block *g, int64_t j)
{
    return g->next_column
               ? atomic_fetch_add_explicit(g->next_column, TILE_COLUMNS, memory_order_relaxed)
               : j;
}

#endif
