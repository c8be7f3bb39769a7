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
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        INDEPENDENT
        for (int k = 0; k < 2 * LANES; k++)
            least[k] = real_minimum(least[k], x[i + k]);
    }
    for (int k = 0; k < 2 * LANES; k++)
        result = real_minimum(result, least[k]);
    for (; i < n; i++)
        result = real_minimum(result, x[i]);
    return result;
}

/* True if b takes the place of a that was there before: it is smaller, or the first NaN. */
ALWAYS_INLINE bool undercuts(real b, real a)
{
    return b < a || (b != b && a == a);
}

static void min_fold(const br_fold *f)
{
    extreme_fold(f, real_minimum, min_run);
}

static void argmin_fold(const br_fold *f)
{
    place_fold(f, min_run, undercuts);
}

/* ---- Product --------------------------------------------------------------------------------- */

static void prod_fold(const br_fold *f)
{
    const int64_t step = f->column_stride / (int64_t)sizeof(real);
    for (int64_t i = 0; i < f->rows; i++) {
        const real *x = element(f, i, 0);
        FOR_EACH(real, j, f->columns, f->value[j].f *= (double)x[j * step];)
    }
}

#endif
