/* ops/kernels/gemm_dots.h - a row times a matrix whose columns lie in one piece each: dot products,
 * bound by memory; part of variant.c, after gemm_tile.h. */
#ifndef BR_KERNELS_GEMM_DOTS_H
#define BR_KERNELS_GEMM_DOTS_H

#include "ops/kernels/gemm_tile.h"

/* Columns side by side, and the products summed in vectors before they are put together, which
 * keeps the error of long sums small. */
enum { DOTS = 4, DOT_RUN = 4096 };

static real sum_of(vec v)
{
    real lanes[VECTOR];
    *(vec_at *)lanes = v;
    for (int width = VECTOR / 2; width > 0; width /= 2)
        for (int i = 0; i < width; i++)
            lanes[i] += lanes[i + width];
    return lanes[0];
}

/* sum[j] += x . column j, over k <= DOT_RUN products. */
ALWAYS_INLINE void add_dots(int columns, int64_t k, const real *x, const real *b, int64_t b_col,
                            real *sum)
{
    vec lanes[DOTS];
    UNROLLED
    for (int j = 0; j < columns; j++)
        lanes[j] = (vec){ 0 };
    int64_t p = 0;
    for (; p + VECTOR <= k; p += VECTOR) {
        UNROLLED
        for (int j = 0; j < columns; j++)
            lanes[j] += *(const vec_at *)(x + p) * *(const vec_at *)(b + j * b_col + p);
    }
    for (int j = 0; j < columns; j++) {
        real rest = 0;
        for (int64_t q = p; q < k; q++)
            rest += x[q] * b[j * b_col + q];
        sum[j] += sum_of(lanes[j]) + rest;
    }
}

ALWAYS_INLINE void dot_columns(int columns, const br_gemm_block *g, int64_t j)
{
    const real *x = g->a, *b = (const real *)g->b + j * g->b_col;
    real sum[DOTS] = { 0 };
    for (int64_t k = 0; k < g->k; k += DOT_RUN)
        add_dots(columns, g->k - k < DOT_RUN ? g->k - k : DOT_RUN, x + k, b + k, g->b_col, sum);
    real *c = (real *)g->c + j;
    for (int i = 0; i < columns; i++) {
        if (g->bias)
            sum[i] += ((const real *)g->bias)[j + i];
        c[i] = g->accumulate ? c[i] + sum[i] : sum[i];
    }
}

static void gemm_dots(const br_gemm_block *g)
{
    int64_t j = 0;
    for (; j + DOTS <= g->n; j += DOTS)
        dot_columns(DOTS, g, j);
    for (; j < g->n; j++)
        dot_columns(1, g, j);
}

#endif
