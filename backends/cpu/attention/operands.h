/* backends/cpu/attention/operands.h - the operands of the products in attention, in f32 and f64;
 * part of variant.c. operands_bf16.h has the same functions for products in bf16.
 *
 * A right operand [k, n] is packed into panels of TILE_COLUMNS columns. A left operand is read
 * where it is. */
#ifndef BR_KERNELS_ATTENTION_OPERANDS_H
#define BR_KERNELS_ATTENTION_OPERANDS_H

#include "backends/cpu/attention/attention_kernels.h"
#include "backends/cpu/gemm/gemm_block.h"
#include "backends/cpu/norm/softmax.h"

/* A left operand: element (i, p) is at i * row + p * col, a tile of rows at `tile` times its
 * number.
 */
typedef struct left_operand {
    const real *at;
    int64_t k, row, col, tile;
} left_operand;

/* Returns the elements of memory that prepare_left() needs. */
static int64_t left_elements(int64_t m, int64_t k)
{
    (void)m, (void)k;
    return 0;
}

/* Returns the operand A [m, k]. */
static left_operand prepare_left(real *space, int64_t m, int64_t k, const real *a, int64_t row,
                                 int64_t col)
{
    (void)space, (void)m;
    return (left_operand){ .at = a, .k = k, .row = row, .col = col, .tile = TILE_ROWS * row };
}

/* Returns the number of rows of a panel for a product over k elements. */
static int64_t panel_rows(int64_t k)
{
    return k;
}

/* Packs scale * B, with B [k, n], into consecutive panels. The last panel is padded as in
 * pack_panel(). */
static void pack_panels(real *to, int64_t k, int64_t n, const real *b, int64_t b_row, int64_t b_col,
                        real scale)
{
    for (int64_t j = 0; j < n; j += TILE_COLUMNS, to += k * TILE_COLUMNS) {
        int64_t count = n - j < TILE_COLUMNS ? n - j : TILE_COLUMNS;
        pack_panel(to, count, k, b + j * b_col, b_row, b_col);
        for (int64_t p = 0; scale != 1 && p < k; p++)
            for (int64_t v = 0; v < count; v += VECTOR)
                *(vec *)(to + p * TILE_COLUMNS + v) *= scale;
    }
}

/* Returns the dot product of rows i of dO and O [n, width], given scale * dO in panels of its
 * columns. */
static real dot_of_outputs(const br_strided *dout, int64_t i, const real *panels, int64_t n,
                           int64_t width, const real *out, real scale)
{
    (void)dout;
    real sum = 0;
    for (int64_t d = 0; d < width; d += TILE_COLUMNS)
        sum += (real)sum_block_of_products(panels + d * n + i * TILE_COLUMNS, out + d,
                                           width - d < TILE_COLUMNS ? width - d : TILE_COLUMNS);
    return scale == 0 ? 0 : sum / scale;
}

#endif
