/* ops/kernels/reduce.h - sums and maxima of floats; part of variant.c.
 *
 * Sums add at most eight values in the type itself before they go on in double, so that their error
 * does not grow with the length. The order of additions depends on the shape alone. */
#ifndef BR_KERNELS_REDUCE_H
#define BR_KERNELS_REDUCE_H

#include "ops/kernels/kernels.h"
#include "ops/kernels/loops.h"

#include <math.h>
#include <string.h>

/* Vectors of one size for all instruction sets, so that all add in the same order; the compiler
 * makes them of what there is. Functions take them by address: by value they would have another
 * calling convention with each instruction set. */
typedef real lanes __attribute__((vector_size(64)));
typedef real lanes_at __attribute__((vector_size(64), aligned(sizeof(real)), may_alias));

enum { LANES = sizeof(lanes) / sizeof(real) };

typedef double wide_lanes __attribute__((vector_size(LANES * sizeof(double))));

ALWAYS_INLINE void load_lanes(lanes *v, const real *x)
{
    *v = *(const lanes_at *)x;
}

ALWAYS_INLINE const real *element(const br_fold *f, int64_t row, int64_t column)
{
    return (const real *)(const void *)(f->x + row * f->row_stride + column * f->column_stride);
}

/* ---- Sum ------------------------------------------------------------------------------------- */

/* Fewer elements than a vector has. */
ALWAYS_INLINE double sum_few(const real *x, int64_t n)
{
    double sum = 0;
    int64_t i = 0;
    for (; i + 4 <= n; i += 4)
        sum += (double)((x[i] + x[i + 1]) + (x[i + 2] + x[i + 3]));
    for (; i < n; i++)
        sum += (double)x[i];
    return sum;
}

/* a + b, of two vectors that lie behind each other. */
ALWAYS_INLINE void load_pair(lanes *sum, const real *x)
{
    lanes next;
    load_lanes(sum, x);
    load_lanes(&next, x + LANES);
    *sum += next;
}

FOR_SPEED static void sum_run(const real *x, int64_t n, br_accumulator *value)
{
    if (n < LANES) {
        value->f += sum_few(x, n);
        return;
    }
    lanes a, b, c, d;
    wide_lanes sum = { 0 };
    int64_t i = 0;
    for (; i + 8 * LANES <= n; i += 8 * LANES) {
        load_pair(&a, x + i);
        load_pair(&b, x + i + 2 * LANES);
        load_pair(&c, x + i + 4 * LANES);
        load_pair(&d, x + i + 6 * LANES);
        sum += __builtin_convertvector((a + b) + (c + d), wide_lanes);
    }
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        load_pair(&a, x + i);
        sum += __builtin_convertvector(a, wide_lanes);
    }
    if (i + LANES <= n) {
        load_lanes(&a, x + i);
        sum += __builtin_convertvector(a, wide_lanes);
        i += LANES;
    }
    double lane[LANES];
    memcpy(lane, &sum, sizeof lane);
    UNROLLED
    for (int width = LANES / 2; width > 0; width /= 2) {
        UNROLLED
        for (int k = 0; k < width; k++)
            lane[k] += lane[k + width];
    }
    value->f += lane[0] + sum_few(x + i, n - i);
}

/* Adds `count` rows, 1, 2, 4 or 8, whose columns lie side by side. */
ALWAYS_INLINE void add_rows(const br_fold *f, int64_t row, int count)
{
    const real *x[8];
    for (int k = 0; k < 8; k++)
        x[k] = element(f, row + (k < count ? k : 0), 0);
    br_accumulator *value = f->value;
    FOR_EVERY(j, f->columns, {
        real sum = x[0][j];
        if (count > 1)
            sum += x[1][j];
        if (count > 2)
            sum += x[2][j] + x[3][j];
        if (count > 4)
            sum += (x[4][j] + x[5][j]) + (x[6][j] + x[7][j]);
        value[j].f += (double)sum;
    })
}

EVERY_WIDTH static void sum_rows(const br_fold *f)
{
    int64_t i = 0;
    for (; i + 8 <= f->rows; i += 8)
        add_rows(f, i, 8);
    if (f->rows & 4)
        add_rows(f, i, 4);
    i += f->rows & 4;
    if (f->rows & 2)
        add_rows(f, i, 2);
    i += f->rows & 2;
    if (f->rows & 1)
        add_rows(f, i, 1);
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
ALWAYS_INLINE real larger(real a, real b)
{
    return b > a || b != b ? b : a;
}

/* Lanes are an array here: comparisons of vectors wider than the processor's are made one element
 * at a time. */
ALWAYS_INLINE real max_of_lanes(const real *x, int64_t n)
{
    real lane[2 * LANES];
    for (int k = 0; k < 2 * LANES; k++)
        lane[k] = x[k];
    for (int64_t i = 2 * LANES; i < n; i += 2 * LANES) {
        INDEPENDENT
        for (int k = 0; k < 2 * LANES; k++)
            lane[k] = larger(lane[k], x[i + k]);
    }
    real most = lane[0];
    for (int k = 1; k < 2 * LANES; k++)
        most = larger(most, lane[k]);
    return most;
}

static real max_run(const real *x, int64_t n)
{
    const int64_t whole = n & -(2 * LANES);
    real most = whole > 0 ? max_of_lanes(x, whole) : -(real)INFINITY;
    for (int64_t i = whole; i < n; i++)
        most = larger(most, x[i]);
    return most;
}

/* True if b takes the place of a that was there before: it is larger, or the first NaN. */
ALWAYS_INLINE bool exceeds(real b, real a)
{
    return b > a || (b != b && a == a);
}

/* ---- Maximum and minimum alike --------------------------------------------------------------- */

/* What tells one from the other; constants after inlining. */
typedef real extreme_of_two(real a, real b);
typedef real extreme_of_run(const real *x, int64_t n);
typedef bool takes_place(real b, real a);

/* One row of columns that are `step` elements apart. */
ALWAYS_INLINE void extreme_row(const real *x, int64_t step, int64_t columns, br_accumulator *value,
                               extreme_of_two of_two)
{
    FOR_EACH(real, j, columns, value[j].f = (double)of_two((real)value[j].f, x[j * step]);)
}

ALWAYS_INLINE void extreme_fold(const br_fold *f, extreme_of_two of_two, extreme_of_run of_run)
{
    if (f->row_stride == sizeof(real)) {
        for (int64_t j = 0; j < f->columns; j++)
            f->value[j].f = (double)of_two((real)f->value[j].f, of_run(element(f, 0, j), f->rows));
    } else if (f->column_stride == sizeof(real)) {
        for (int64_t i = 0; i < f->rows; i++)
            extreme_row(element(f, i, 0), 1, f->columns, f->value, of_two);
    } else {
        const int64_t step = f->column_stride / (int64_t)sizeof(real);
        for (int64_t i = 0; i < f->rows; i++)
            extreme_row(element(f, i, 0), step, f->columns, f->value, of_two);
    }
}

/* Only the block that turns out to hold the extreme is searched for its place. */
ALWAYS_INLINE void place_in_run(const real *x, int64_t n, int64_t first, br_accumulator *value,
                                int64_t *index, extreme_of_run of_run, takes_place takes)
{
    enum { SEARCHED = 16 * LANES };
    int64_t found = -1;
    for (int64_t i = 0; i < n; i += SEARCHED) {
        real extreme = of_run(x + i, n - i < SEARCHED ? n - i : SEARCHED);
        if (takes(extreme, (real)value->f)) {
            value->f = (double)extreme;
            found = i;
        }
    }
    if (found < 0)
        return;
    const real extreme = (real)value->f;
    while (x[found] != extreme && !(x[found] != x[found]))
        found++;
    *index = first + found;
}

ALWAYS_INLINE void place_one(real candidate, int64_t row, br_accumulator *value, int64_t *index,
                             takes_place takes)
{
    const bool take = takes(candidate, (real)value->f);
    value->f = take ? (double)candidate : value->f;
    *index = take ? row : *index;
}

/* One row of columns that are `step` elements apart. */
ALWAYS_INLINE void place_in_row(const real *x, int64_t step, int64_t columns, int64_t row,
                                br_accumulator *value, int64_t *index, takes_place takes)
{
    FOR_EACH(real, j, columns, place_one(x[j * step], row, &value[j], &index[j], takes);)
}

ALWAYS_INLINE void place_fold(const br_fold *f, extreme_of_run of_run, takes_place takes)
{
    if (f->row_stride == sizeof(real)) {
        for (int64_t j = 0; j < f->columns; j++)
            place_in_run(element(f, 0, j), f->rows, f->first_row, &f->value[j], &f->index[j],
                         of_run, takes);
    } else if (f->column_stride == sizeof(real)) {
        for (int64_t i = 0; i < f->rows; i++)
            place_in_row(element(f, i, 0), 1, f->columns, f->first_row + i, f->value, f->index,
                         takes);
    } else {
        const int64_t step = f->column_stride / (int64_t)sizeof(real);
        for (int64_t i = 0; i < f->rows; i++)
            place_in_row(element(f, i, 0), step, f->columns, f->first_row + i, f->value, f->index,
                         takes);
    }
}

static void max_fold(const br_fold *f)
{
    extreme_fold(f, larger, max_run);
}

static void argmax_fold(const br_fold *f)
{
    place_fold(f, max_run, exceeds);
}

#endif
