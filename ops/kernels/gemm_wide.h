/* ops/kernels/gemm_wide.h - few rows of A, or a small B, which is read as it lies; part of
 * variant.c.
 *
 * A single row takes B row by row. A few make tiles of at most WIDE_ROWS rows and four vectors,
 * which load less for each product than those of gemm_tile.h and read B by longer runs; they ask
 * for no memory, since what else a tile does counts in batches of small products. An element of C
 * is the same sum in the same order as in those. */
#ifndef BR_KERNELS_GEMM_WIDE_H
#define BR_KERNELS_GEMM_WIDE_H

#include "ops/kernels/gemm_pack.h"

/* A vector of sums goes to C. */
ALWAYS_INLINE void put_sum(const br_gemm_block *g, vec_at *to, const real *bias, vec sum)
{
    if (g->accumulate)
        sum = *to + sum;
    if (bias)
        sum += *(const vec_at *)bias;
    *to = sum;
}

/* ---- One row --------------------------------------------------------------------------------- */

enum { ROW_STEP = 8, ROW_COLUMNS = 2048 };

/* sum[j] += a[0] b[0, j] + a[1] b[1, j] + ..., one after the other. `steps` is a constant after
 * inlining. */
ALWAYS_INLINE void add_b_rows(int steps, const br_gemm_block *g, const real *a, const real *b,
                              int64_t vectors, vec *sum)
{
    vec x[ROW_STEP];
    UNROLLED
    for (int p = 0; p < steps; p++)
        x[p] = (vec){ 0 } + a[p * g->a_col];
    for (int64_t j = 0; j < vectors; j++) {
        vec v = sum[j];
        UNROLLED
        for (int p = 0; p < steps; p++)
            v += x[p] * *(const vec_at *)(b + p * g->b_row + j * VECTOR);
        sum[j] = v;
    }
}

/* One row of A times the columns of B that fill vectors; returns their number. Each row of B is
 * read in one go, some at a time. */
static int64_t gemm_row(const br_gemm_block *g)
{
    vec sum[ROW_COLUMNS / VECTOR];
    const int64_t columns = g->n / VECTOR * VECTOR;
    for (int64_t from = 0; from < columns; from += ROW_COLUMNS) {
        const int64_t left = (columns - from) / VECTOR;
        const int64_t vectors = left < ROW_COLUMNS / VECTOR ? left : ROW_COLUMNS / VECTOR;
        const real *a = g->a, *b = (const real *)g->b + from;
        memset(sum, 0, (size_t)vectors * sizeof *sum);
        int64_t k = g->k;
        for (; k >= ROW_STEP; k -= ROW_STEP, a += ROW_STEP * g->a_col, b += ROW_STEP * g->b_row)
            add_b_rows(ROW_STEP, g, a, b, vectors, sum);
        for (; k > 0; k--, a += g->a_col, b += g->b_row)
            add_b_rows(1, g, a, b, vectors, sum);
        real *c = (real *)g->c + from;
        const real *bias = bias_from(g, from);
        for (int64_t j = 0; j < vectors; j++, c += VECTOR)
            put_sum(g, (vec_at *)c, bias ? bias + j * VECTOR : NULL, sum[j]);
    }
    return columns;
}

/* ---- Few rows, or a small B ------------------------------------------------------------------ */

#if defined(__AVX512F__) && !defined(BR_KERNEL_SMALL)

enum {
    WIDE_ROWS = 6,
    WIDE_VECTORS = 4,
    WIDE_COLUMNS = WIDE_VECTORS * VECTOR,
    FEW_ROWS = 3, /* wait for memory: B's lines are asked for, so many steps AHEAD */
    AHEAD = 8,
};

/* `rows` is a constant after inlining. */
ALWAYS_INLINE void wide_tile(int rows, const br_gemm_block *g, const real *a, const real *b,
                             real *c, const real *bias)
{
    const int64_t a_row = g->a_row, a_col = g->a_col, b_row = g->b_row, c_row = g->c_row;
    vec sum[WIDE_ROWS][WIDE_VECTORS];
    UNROLLED
    for (int i = 0; i < rows; i++) {
        UNROLLED
        for (int v = 0; v < WIDE_VECTORS; v++)
            sum[i][v] = (vec){ 0 };
    }
    const real *a_at[] = { a, a + 3 * a_row };
    for (int64_t k = g->k; k > 0; k--, b += b_row) {
        vec row[WIDE_VECTORS];
        UNROLLED
        for (int v = 0; v < WIDE_VECTORS; v++)
            row[v] = *(const vec_at *)(b + v * VECTOR);
        UNROLLED
        for (int v = 0; rows <= FEW_ROWS && v < WIDE_VECTORS; v++)
            __builtin_prefetch(b + AHEAD * b_row + v * VECTOR);
        UNROLLED
        for (int i = 0; i < rows; i++) {
            const real x = a_at[i / 3][i % 3 * a_row];
            UNROLLED
            for (int v = 0; v < WIDE_VECTORS; v++)
                sum[i][v] += x * row[v];
        }
        a_at[0] += a_col;
        a_at[1] += a_col;
    }
    UNROLLED
    for (int i = 0; i < rows; i++, c += c_row) {
        UNROLLED
        for (int v = 0; v < WIDE_VECTORS; v++)
            put_sum(g, (vec_at *)(c + v * VECTOR), bias ? bias + v * VECTOR : NULL, sum[i][v]);
    }
}

#    define WIDE_TILE(rows)                                                                \
        static void wide_tile_##rows(const br_gemm_block *g, const real *a, const real *b, \
                                     real *c, const real *bias)                            \
        {                                                                                  \
            wide_tile(rows, g, a, b, c, bias);                                             \
        }
WIDE_TILE(1)
WIDE_TILE(2)
WIDE_TILE(3)
WIDE_TILE(4)
WIDE_TILE(5)
WIDE_TILE(6)

typedef void wide_tile_fn(const br_gemm_block *g, const real *a, const real *b, real *c,
                          const real *bias);
static wide_tile_fn *const wide_tiles[WIDE_ROWS] = { wide_tile_1, wide_tile_2, wide_tile_3,
                                                     wide_tile_4, wide_tile_5, wide_tile_6 };

/* The columns that whole tiles have; returns their number. */
static int64_t gemm_wide(const br_gemm_block *g)
{
    if (g->a_tile != TILE_ROWS * g->a_row) /* A is packed for other tiles */
        return 0;
    /* Rows are shared evenly: tiles of few rows wait for their own sums. */
    const int64_t tiles = (g->m + WIDE_ROWS - 1) / WIDE_ROWS, step = (g->m + tiles - 1) / tiles;
    int64_t j = 0;
    for (; j + WIDE_COLUMNS <= g->n; j += WIDE_COLUMNS) {
        const real *a = g->a, *b = (const real *)g->b + j;
        const real *bias = bias_from(g, j);
        real *c = (real *)g->c + j;
        for (int64_t i = 0, rows; i < g->m; i += rows) {
            rows = g->m - i < step ? g->m - i : step;
            wide_tiles[rows - 1](g, a, b, c, bias);
            a += rows * g->a_row;
            c += rows * g->c_row;
        }
    }
    return j;
}

#else

static int64_t gemm_wide(const br_gemm_block *g)
{
    (void)g;
    return 0;
}

#endif

#endif
