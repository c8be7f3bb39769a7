/* backends/cpu/attention/operands_bf16.h - the operands of the products in attention, rounded to
 * bf16; part of attention_bf16.c. operands.h has the same functions for f32 and f64.
 *
 * Both operands are packed into pairs of bf16 numbers that are adjacent along k (gemm_pack_bf16.h).
 */
#ifndef BR_KERNELS_ATTENTION_OPERANDS_H
#define BR_KERNELS_ATTENTION_OPERANDS_H

#include "backends/cpu/attention/attention_kernels.h"
#include "backends/cpu/gemm/gemm_pack_bf16.h"
#include "backends/cpu/gemm/gemm_panel.h"
#include "backends/cpu/norm/softmax.h"

/* A left operand in tiles: pair p of row i of a tile is at p * TILE_ROWS + i. */
typedef struct left_operand {
    const real *at;
    int64_t k, row, col, tile; /* in pairs */
} left_operand;

/* Returns the elements of memory that prepare_left() needs. */
static int64_t left_elements(int64_t m, int64_t k)
{
    return (m + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS * pairs_in(k);
}

/* Packs the operand A [m, k] into `space`. */
static left_operand prepare_left(real *space, int64_t m, int64_t k, const real *a, int64_t row,
                                 int64_t col)
{
    pack_tiles(NEAREST, space, m, k, a, row, col);
    return (left_operand){
        .at = space, .k = pairs_in(k), .row = 1, .col = TILE_ROWS, .tile = TILE_ROWS * pairs_in(k)
    };
}

/* Returns the number of rows of a panel for a product over k elements. */
static int64_t panel_rows(int64_t k)
{
    return pairs_in(k);
}

/* Packs scale * B, with B [k, n], into consecutive panels. Unless scale is 1, COPIED_ROWS rows at a
 * time are scaled in f32 first. */
static void pack_panels(real *to, int64_t k, int64_t n, const real *b, int64_t b_row, int64_t b_col,
                        real scale)
{
    _Alignas(64) real copy[COPIED_ROWS * TILE_COLUMNS] = { 0 };
    for (int64_t j = 0; j < n; j += TILE_COLUMNS, to += pairs_in(k) * TILE_COLUMNS) {
        const int64_t count = at_most(n - j, TILE_COLUMNS);
        if (scale == 1)
            pack_panel_pairs(NEAREST, to, count, k, b + j * b_col, b_row, b_col);
        for (int64_t p = 0; scale != 1 && p < k; p += COPIED_ROWS) {
            const int64_t rows = at_most(k - p, COPIED_ROWS);
            transpose(copy, TILE_COLUMNS, b + p * b_row + j * b_col, b_col, b_row, rows, count);
            FOR_VECTORS(real, i, rows * TILE_COLUMNS, copy[i] *= scale;)
            pack_rows(NEAREST, to + p / 2 * TILE_COLUMNS, TILE_COLUMNS, count, rows, copy,
                      TILE_COLUMNS);
        }
    }
}

/* Returns the dot product of rows i of dO and O [n, width]. dO is not rounded. */
static real dot_of_outputs(const br_strided *dout, int64_t i, const real *panels, int64_t n,
                           int64_t width, const real *out, real scale)
{
    (void)panels, (void)n;
    const real *row = (const real *)dout->at + i * dout->row;
    real copy[TILE_COLUMNS], sum = 0;
    for (int64_t d = 0; d < width; d += TILE_COLUMNS) {
        const int64_t count = at_most(width - d, TILE_COLUMNS);
        for (int64_t c = 0; c < count; c++)
            copy[c] = row[(d + c) * dout->column];
        sum += (real)sum_block_of_products(copy, out + d, count);
    }
    return scale == 0 ? 0 : sum;
}

#endif
