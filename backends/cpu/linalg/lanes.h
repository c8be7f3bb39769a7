/* backends/cpu/linalg/lanes.h - factorizations of small matrices and triangular systems; part of
 * variant.c.
 *
 * LAPACK works by calls of BLAS, each of which takes longer than the whole work of a matrix of ten
 * rows. Here, the matrices of a batch are computed VECTOR at a time, one in each lane of a vector.
 * Matrices are stored by columns: element (i, j) of those with m rows is the vector a[i + j * m]. A
 * batch of one takes as long as VECTOR matrices, and still less than by LAPACK. */
#ifndef BR_LANES_H
#define BR_LANES_H

#include "backends/cpu/linalg/linalg_kernels.h"
#include "tensor/min_max.h"

typedef struct lane_group {
    _Alignas(VECTOR_BYTES) real at[VECTOR];
} lane_group;

#define EACH_LANE \
    INDEPENDENT   \
    for (int l = 0; l < VECTOR; l++)

/* x -= y factor, for n elements. */
static inline void subtract_lanes(int n, lane_group *x, const lane_group *y, lane_group factor)
{
    for (int i = 0; i < n; i++)
        EACH_LANE x[i].at[l] -= y[i].at[l] * factor.at[l];
}

static inline void divide_lanes(int n, lane_group *x, lane_group divisor)
{
    for (int i = 0; i < n; i++)
        EACH_LANE x[i].at[l] /= divisor.at[l];
}

/* Replaces the lower triangles of a [n, n] by their Cholesky factors. Sets info to 0, or the order
 * of the first leading minor that is not positive. */
static void cholesky_lanes(int n, lane_group *a, lane_group *info)
{
    for (int j = 0; j < n; j++) {
        lane_group *column = a + j * n;
        for (int k = 0; k < j; k++)
            subtract_lanes(n - j, column + j, a + k * n + j, a[k * n + j]);
        EACH_LANE
        {
            const real minor = column[j].at[l],
                       first = info->at[l] == 0 ? (real)(j + 1) : info->at[l];
            info->at[l] = minor > 0 ? info->at[l] : first;
            column[j].at[l] = real_sqrt(minor);
        }
        divide_lanes(n - j - 1, column + j + 1, column[j]);
    }
}

/* Exchanges x and y in the lane_group where row is i. */
static inline void exchange_lanes(lane_group *x, lane_group *y, const lane_group *row, int i)
{
    EACH_LANE
    {
        const real first = x->at[l], second = y->at[l];
        const bool exchanged = row->at[l] == (real)i;
        x->at[l] = exchanged ? second : first;
        y->at[l] = exchanged ? first : second;
    }
}

/* Returns whether row is i in any lane. */
static inline bool has_row(const lane_group *row, int i)
{
    int any = 0;
    EACH_LANE any |= row->at[l] == (real)i;
    return any != 0;
}

/* Replaces a [m, n] by its factors L and U. Row j is exchanged with row pivots[j] - 1, which has
 * the largest element of column j. Sets info to 0, or the first j + 1 for which U[j, j] is 0. */
static void lu_lanes(int m, int n, lane_group *a, lane_group *pivots, lane_group *info)
{
    for (int j = 0; j < m && j < n; j++) {
        lane_group *column = a + j * m, best, row, divisor;
        EACH_LANE
        {
            best.at[l] = REAL(fabs)(column[j].at[l]);
            row.at[l] = (real)j;
        }
        for (int i = j + 1; i < m; i++)
            EACH_LANE
            {
                const real size = REAL(fabs)(column[i].at[l]), largest = best.at[l];
                best.at[l] = size > largest ? size : largest;
                row.at[l] = size > largest ? (real)i : row.at[l];
            }
        for (int i = j + 1; i < m; i++)
            for (int c = 0; has_row(&row, i) && c < n; c++)
                exchange_lanes(&a[c * m + j], &a[c * m + i], &row, i);
        EACH_LANE
        {
            const real first = info->at[l] == 0 ? (real)(j + 1) : info->at[l];
            pivots[j].at[l] = row.at[l] + 1;
            info->at[l] = best.at[l] == 0 ? first : info->at[l];
            divisor.at[l] = best.at[l] == 0 ? 1 : column[j].at[l]; /* the column is 0 */
        }
        divide_lanes(m - j - 1, column + j + 1, divisor);
        for (int c = j + 1; c < n; c++)
            subtract_lanes(m - j - 1, a + c * m + j + 1, column + j + 1, a[c * m + j]);
    }
}

/* Replaces b [n] by the solution of a triangle of a [n, n], whose diagonal counts as ones if
 * `unit`. */
static void triangular_solve_lanes(int n, const lane_group *a, lane_group *b, bool upper, bool unit)
{
    for (int t = 0; t < n; t++) {
        const int j = upper ? n - 1 - t : t, first = upper ? 0 : j + 1;
        if (!unit)
            divide_lanes(1, b + j, a[j * n + j]);
        subtract_lanes(upper ? j : n - j - 1, b + first, a + j * n + first, b[j]);
    }
}

/* Loads n elements of `count` matrices, `step` elements apart. The other lane_group repeat the last
 * one. */
static void load_lanes(int n, lane_group *to, const real *from, int64_t step, int64_t count)
{
    for (int64_t l = 0; l < VECTOR; l++)
        for (int i = 0; i < n; i++)
            to[i].at[l] = from[br__min(l, count - 1) * step + i];
}

/* Stores n elements of the matrices whose info is 0, or of all if info is NULL. */
static void store_lanes(int n, const lane_group *from, real *to, int64_t step, int64_t count,
                        const lane_group *info)
{
    for (int64_t l = 0; l < count; l++)
        for (int i = 0; i < n && !(info && info->at[l] != 0); i++)
            to[l * step + i] = from[i].at[l];
}

/* Solves a x = b for the columns of b, given the factors or the triangle a. */
static void solve_lanes(const br_small_linalg *w, const lane_group *a, const lane_group *pivots,
                        const lane_group *info, real *b, int64_t count)
{
    const bool by_factors = w->routine == BR_LINALG_SOLVE;
    const int n = (int)w->n;
    lane_group x[BR_LINALG_SMALL];
    for (int64_t c = 0; c < w->k; c++) {
        load_lanes(n, x, b + c * n, w->k * n, count);
        for (int j = 0; by_factors && j < n; j++)
            for (int i = j + 1; i < n; i++) {
                const lane_group row = pivots[j];
                exchange_lanes(&x[j], &x[i], &row, i + 1);
            }
        if (by_factors)
            triangular_solve_lanes(n, a, x, false, true);
        triangular_solve_lanes(n, a, x, by_factors || w->upper, !by_factors && w->unit);
        store_lanes(n, x, b + c * n, w->k * n, count, info);
    }
}

/* Does the work for the matrices begin .. end - 1, as LAPACK does it. */
static void small_linalg(const br_small_linalg *w, int64_t begin, int64_t end)
{
    lane_group a[BR_LINALG_SMALL * BR_LINALG_SMALL], pivots[BR_LINALG_SMALL];
    const int m = (int)w->m, n = (int)w->n, ranks = br__min(m, n);
    for (int64_t first = begin; first < end; first += VECTOR) {
        const int64_t count = br__min(end - first, VECTOR);
        real *matrices = (real *)w->a + first * m * n;
        lane_group info = { { 0 } };
        load_lanes(m * n, a, matrices, m * n, count);
        if (w->routine == BR_LINALG_CHOLESKY)
            cholesky_lanes(n, a, &info);
        else if (w->routine != BR_LINALG_TRIANGULAR_SOLVE)
            lu_lanes(m, n, a, pivots, &info);
        if (w->b)
            solve_lanes(w, a, pivots, &info, (real *)w->b + first * n * w->k, count);
        if (w->routine != BR_LINALG_TRIANGULAR_SOLVE)
            store_lanes(m * n, a, matrices, m * n, count, NULL);
        for (int64_t l = 0; l < count; l++) {
            for (int j = 0; w->pivots && j < ranks; j++)
                w->pivots[(first + l) * ranks + j] = (int32_t)pivots[j].at[l];
            if (w->info)
                w->info[first + l] = (int64_t)info.at[l];
        }
    }
}

#endif
