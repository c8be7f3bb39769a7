/* ops/kernels/reduce.h - sums and maxima of floats; part of variant.c.
 *
 * Sums add at most BLOCK / LANES values in the type itself before they go on in double, so that
 * their error does not grow with the length. The order of additions depends on the shape alone. */
#ifndef BR_KERNELS_REDUCE_H
#define BR_KERNELS_REDUCE_H

#include "ops/kernels/kernels.h"

/* LANES partial results side by side are what the compiler makes vectors of. */
enum { LANES = 64, BLOCK = 16 * LANES };

static inline const real *element(const br_fold *f, int64_t row, int64_t column)
{
    return (const real *)(const void *)(f->x + row * f->row_stride + column * f->column_stride);
}

/* ---- Sum ------------------------------------------------------------------------------------- */

/* Of at most BLOCK elements. */
static double sum_block(const real *x, int64_t n)
{
    real lane[LANES] = { 0 };
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++)
            lane[k] += x[i + k];
    for (int k = 0; k < n - i; k++)
        lane[k] += x[i + k];
    for (int width = LANES / 2; width > 0; width /= 2)
        for (int k = 0; k < width; k++)
            lane[k] += lane[k + width];
    return (double)lane[0];
}

static void sum_run(const real *x, int64_t n, br_accumulator *value)
{
    for (int64_t i = 0; i < n; i += BLOCK)
        value->f += sum_block(x + i, n - i < BLOCK ? n - i : BLOCK);
}

/* Columns side by side: eight rows at a time. */
static void sum_rows(const br_fold *f)
{
    int64_t i = 0;
    for (; i + 8 <= f->rows; i += 8) {
        const real *x0 = element(f, i, 0), *x1 = element(f, i + 1, 0), *x2 = element(f, i + 2, 0),
                   *x3 = element(f, i + 3, 0), *x4 = element(f, i + 4, 0),
                   *x5 = element(f, i + 5, 0), *x6 = element(f, i + 6, 0),
                   *x7 = element(f, i + 7, 0);
        for (int64_t j = 0; j < f->columns; j++)
            f->value[j].f +=
                (double)(((x0[j] + x1[j]) + (x2[j] + x3[j])) + ((x4[j] + x5[j]) + (x6[j] + x7[j])));
    }
    for (; i < f->rows; i++) {
        const real *x = element(f, i, 0);
        for (int64_t j = 0; j < f->columns; j++)
            f->value[j].f += (double)x[j];
    }
}

static void sum_fold(const br_fold *f)
{
    if (f->row_stride == sizeof(real)) {
        for (int64_t j = 0; j < f->columns; j++)
            sum_run(element(f, 0, j), f->rows, &f->value[j]);
    } else if (f->column_stride == sizeof(real)) {
        sum_rows(f);
    } else {
        for (int64_t j = 0; j < f->columns; j++)
            for (int64_t i = 0; i < f->rows; i++)
                f->value[j].f += (double)*element(f, i, j);
    }
}

/* ---- Maximum --------------------------------------------------------------------------------- */

/* The larger of two, NaN being larger than all; the first of equal ones. */
static inline real larger(real a, real b)
{
    return b > a || b != b ? b : a;
}

static real max_run(const real *x, int64_t n)
{
    real lane[LANES];
    for (int k = 0; k < LANES; k++)
        lane[k] = -(real)INFINITY;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++)
            lane[k] = larger(lane[k], x[i + k]);
    for (int k = 0; k < n - i; k++)
        lane[k] = larger(lane[k], x[i + k]);
    for (int width = LANES / 2; width > 0; width /= 2)
        for (int k = 0; k < width; k++)
            lane[k] = larger(lane[k], lane[k + width]);
    return lane[0];
}

static void max_fold(const br_fold *f)
{
    if (f->row_stride == sizeof(real)) {
        for (int64_t j = 0; j < f->columns; j++)
            f->value[j].f = (double)larger((real)f->value[j].f, max_run(element(f, 0, j), f->rows));
        return;
    }
    for (int64_t i = 0; i < f->rows; i++) {
        if (f->column_stride == sizeof(real)) {
            const real *x = element(f, i, 0);
            for (int64_t j = 0; j < f->columns; j++)
                f->value[j].f = (double)larger((real)f->value[j].f, x[j]);
        } else {
            for (int64_t j = 0; j < f->columns; j++)
                f->value[j].f = (double)larger((real)f->value[j].f, *element(f, i, j));
        }
    }
}

/* True if b takes the place of a that was there before: it is larger, or the first NaN. */
static inline bool exceeds(real b, real a)
{
    return b > a || (b != b && a == a);
}

static void argmax_run(const real *x, int64_t n, int64_t first, br_accumulator *value,
                       int64_t *index)
{
    real most = max_run(x, n);
    if (!exceeds(most, (real)value->f))
        return;
    value->f = (double)most;
    int64_t i = 0;
    while (x[i] != most && !(x[i] != x[i]))
        i++;
    *index = first + i;
}

static void argmax_fold(const br_fold *f)
{
    if (f->row_stride == sizeof(real)) {
        for (int64_t j = 0; j < f->columns; j++)
            argmax_run(element(f, 0, j), f->rows, f->first_row, &f->value[j], &f->index[j]);
        return;
    }
    for (int64_t i = 0; i < f->rows; i++)
        for (int64_t j = 0; j < f->columns; j++) {
            real x = *element(f, i, j);
            bool take = exceeds(x, (real)f->value[j].f);
            f->value[j].f = take ? (double)x : f->value[j].f;
            f->index[j] = take ? f->first_row + i : f->index[j];
        }
}

#endif
