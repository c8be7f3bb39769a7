/* ops/kernels/reduce_min.h - minima and products of floats; part of variant.c. */
#ifndef BR_KERNELS_REDUCE_MIN_H
#define BR_KERNELS_REDUCE_MIN_H

#include "ops/kernels/math.h"
#include "ops/kernels/reduce.h"

/* ---- Minimum --------------------------------------------------------------------------------- */

static real min_run(const real *x, int64_t n)
{
    real least[2 * LANES], result = (real)INFINITY;
    int64_t i = 0;
    for (int k = 0; k < 2 * LANES; k++)
        least[k] = result;
    for (; i + 2 * LANES <= n; i += 2 * LANES)
        for (int k = 0; k < 2 * LANES; k++)
            least[k] = real_minimum(least[k], x[i + k]);
    for (int k = 0; k < 2 * LANES; k++)
        result = real_minimum(result, least[k]);
    for (; i < n; i++)
        result = real_minimum(result, x[i]);
    return result;
}

static void min_fold(const br_fold *f)
{
    br_accumulator *value = f->value;
    if (f->row_stride == sizeof(real)) {
        for (int64_t j = 0; j < f->columns; j++)
            value[j].f = (double)real_minimum((real)value[j].f, min_run(element(f, 0, j), f->rows));
        return;
    }
    const int64_t step = f->column_stride / (int64_t)sizeof(real);
    for (int64_t i = 0; i < f->rows; i++) {
        const real *x = element(f, i, 0);
        INDEPENDENT
        for (int64_t j = 0; j < f->columns; j++)
            value[j].f = (double)real_minimum((real)value[j].f, x[j * step]);
    }
}

/* True if b takes the place of a that was there before: it is smaller, or the first NaN. */
static inline bool undercuts(real b, real a)
{
    return b < a || (b != b && a == a);
}

/* Only the block that turns out to hold the minimum is searched for its place. */
static void argmin_run(const real *x, int64_t n, int64_t first, br_accumulator *value,
                       int64_t *index)
{
    enum { SEARCHED = 16 * LANES };
    int64_t found = -1;
    for (int64_t i = 0; i < n; i += SEARCHED) {
        real least = min_run(x + i, n - i < SEARCHED ? n - i : SEARCHED);
        if (undercuts(least, (real)value->f)) {
            value->f = (double)least;
            found = i;
        }
    }
    if (found < 0)
        return;
    const real least = (real)value->f;
    while (x[found] != least && !(x[found] != x[found]))
        found++;
    *index = first + found;
}

static void argmin_fold(const br_fold *f)
{
    if (f->row_stride == sizeof(real)) {
        for (int64_t j = 0; j < f->columns; j++)
            argmin_run(element(f, 0, j), f->rows, f->first_row, &f->value[j], &f->index[j]);
        return;
    }
    const int64_t step = f->column_stride / (int64_t)sizeof(real);
    for (int64_t i = 0; i < f->rows; i++) {
        const real *x = element(f, i, 0);
        INDEPENDENT
        for (int64_t j = 0; j < f->columns; j++) {
            bool take = undercuts(x[j * step], (real)f->value[j].f);
            f->value[j].f = take ? (double)x[j * step] : f->value[j].f;
            f->index[j] = take ? f->first_row + i : f->index[j];
        }
    }
}

/* ---- Product --------------------------------------------------------------------------------- */

static void prod_fold(const br_fold *f)
{
    const int64_t step = f->column_stride / (int64_t)sizeof(real);
    for (int64_t i = 0; i < f->rows; i++) {
        const real *x = element(f, i, 0);
        INDEPENDENT
        for (int64_t j = 0; j < f->columns; j++)
            f->value[j].f *= (double)x[j * step];
    }
}

#endif
