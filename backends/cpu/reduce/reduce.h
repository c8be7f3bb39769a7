/* backends/cpu/reduce/reduce.h - sums, products, maxima and minima of floats; part of variant.c.
 *
 * A kernel folds rows into one accumulator for each column; kernels.h describes br_fold. If the
 * rows are contiguous along a column, a column is reduced in vector lanes, which are combined at
 * the end. If the columns are contiguous, loops are vectorized across them. Otherwise one element
 * is processed at a time. Sums are blocked: at most eight values are added in the element type
 * before the sum continues in double, so that the error does not grow with the length. The order of
 * additions depends on the shape and strides only, not on threads or the instruction set. Maxima
 * and minima propagate NaN, and of equal elements the first one gives the index. */
#ifndef BR_KERNELS_REDUCE_H
#define BR_KERNELS_REDUCE_H

#include "backends/cpu/gemm/gemm_pack.h"
#include "backends/cpu/pointwise/loops.h"
#include "backends/cpu/reduce/reduce_kernels.h"

#include <math.h>
#include <string.h>

/* Sums use LANES lanes for all instruction sets, so that all add in the same order. With narrower
 * vectors, these lanes span several vectors. */
enum { LANES = 64 / sizeof(real), PARTS = LANES / VECTOR };

/* A vector of doubles, and as many elements in memory. WIDES such vectors hold all lanes of a sum.
 */
typedef double wide __attribute__((vector_size(VECTOR_BYTES)));

typedef real half_at
    __attribute__((vector_size(VECTOR_BYTES / 2), aligned(sizeof(real)), may_alias));

enum { WIDE = VECTOR_BYTES / sizeof(double), WIDES = LANES / WIDE };

ALWAYS_INLINE const real *element(const br_fold *f, int64_t row, int64_t column)
{
    return (const real *)(const void *)(f->x + row * f->row_stride + column * f->column_stride);
}

ALWAYS_INLINE real sum_of_lanes(vec v)
{
#if defined(__AVX512F__)
    return BY_TYPE(_mm512_reduce_add_ps((__m512)v), _mm512_reduce_add_pd((__m512d)v));
#else
    real sum = v[0];
    for (int k = 1; k < VECTOR; k++)
        sum += v[k];
    return sum;
#endif
}

ALWAYS_INLINE real largest_lane(vec v)
{
#if defined(__AVX512F__)
    return BY_TYPE(_mm512_reduce_max_ps((__m512)v), _mm512_reduce_max_pd((__m512d)v));
#else
    real max_value = v[0];
    for (int k = 1; k < VECTOR; k++)
        max_value = v[k] > max_value ? v[k] : max_value;
    return max_value;
#endif
}

/* ---- Sum ------------------------------------------------------------------------------------- */

/* Sums fewer than LANES elements. */
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

ALWAYS_INLINE vec sum_of_two(const real *x)
{
    return *(const vec_at *)x + *(const vec_at *)(x + LANES);
}

/* Loads as many elements as a vector of doubles has. Intrinsics are used because the compiler would
 * convert generic vectors in smaller pieces. */
ALWAYS_INLINE wide load_wide(const real *x)
{
#if defined(BR_KERNEL_F64)
    return *(const vec_at *)x;
#elif defined(__AVX512F__)
    return (wide)_mm512_cvtps_pd((__m256) * (const half_at *)x);
#elif defined(__AVX__)
    return (wide)_mm256_cvtps_pd((__m128) * (const half_at *)x);
#else
    return __builtin_convertvector(*(const half_at *)x, wide);
#endif
}

/* Converts the lanes of a vector to double and adds each to its own sum. */
ALWAYS_INLINE void add_widened(wide *sum, vec v)
{
    real part[VECTOR];
    *(vec_at *)part = v;
    UNROLLED
    for (int i = 0; i < WIDES / PARTS; i++)
        sum[i] += load_wide(part + i * WIDE);
}

/* Adds `runs` consecutive runs of LANES elements each; `runs` is 1, 2 or 8. */
ALWAYS_INLINE void add_runs(wide *sum, const real *x, int runs)
{
    vec part[PARTS];
    UNROLLED
    for (int p = 0; p < PARTS; p++)
        part[p] = runs == 1 ? (vec)(*(const vec_at *)(x + p * VECTOR)) : sum_of_two(x + p * VECTOR);
    ROLLED
    for (int run = 2; run < runs; run += 2) {
        UNROLLED
        for (int p = 0; p < PARTS; p++)
            part[p] += sum_of_two(x + run * LANES + p * VECTOR);
    }
    UNROLLED
    for (int p = 0; p < PARTS; p++)
        add_widened(sum + p * WIDES / PARTS, part[p]);
}

/* Returns the sum of all lanes. Repeatedly adds the upper half to the lower half. */
ALWAYS_INLINE double sum_of_wides(wide *sum)
{
    UNROLLED
    for (int count = WIDES / 2; count > 0; count /= 2) {
        UNROLLED
        for (int i = 0; i < count; i++)
            sum[i] += sum[i + count];
    }
    double lane[WIDE];
    memcpy(lane, sum, sizeof lane);
    UNROLLED
    for (int count = WIDE / 2; count > 0; count /= 2) {
        UNROLLED
        for (int i = 0; i < count; i++)
            lane[i] += lane[i + count];
    }
    return lane[0];
}

/* Adds the sum of n contiguous elements: groups of 8, then 2, then 1 times LANES, then the rest. */
static void sum_run(const real *x, int64_t n, br_accumulator *value)
{
    if (n < LANES) {
        value->f += sum_few(x, n);
        return;
    }
    wide sum[WIDES];
    UNROLLED
    for (int i = 0; i < WIDES; i++)
        sum[i] = (wide){ 0 };
    int64_t i = 0;
    for (; i + 8 * LANES <= n; i += 8 * LANES)
        add_runs(sum, x + i, 8);
    for (; i + 2 * LANES <= n; i += 2 * LANES)
        add_runs(sum, x + i, 2);
    if (i + LANES <= n) {
        add_runs(sum, x + i, 1);
        i += LANES;
    }
    value->f += sum_of_wides(sum) + sum_few(x + i, n - i);
}

/* Adds `count` rows with contiguous columns; `count` is 1, 2, 4 or 8. */
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

/* Adds all rows with contiguous columns: eight at a time, then the rest as 4 + 2 + 1. */
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

/* Runs a kernel of contiguous columns on groups of eight rows. Reading several rows from memory at
 * once is half as fast as reading one row after another (AMD Zen 4). So each group is reduced in
 * parts of the columns, and each part prefetches one whole row of the next group. */
static void fold_streamed_rows(const br_fold *f, br_reduce kernel)
{
    for (int64_t i = 0; i < f->rows; i += 8) {
        br_fold part = *f;
        part.rows = f->rows - i < 8 ? f->rows - i : 8;
        part.columns = ((f->columns - 1) / part.rows + LANES) & -LANES;
        for (int64_t j = 0, row = i + 8; j < f->columns; j += part.columns, row++) {
            for (int64_t prefetched = 0; prefetched < f->columns; prefetched += LINE)
                __builtin_prefetch(element(f, row, prefetched), 0, 2);
            part.x = (const char *)element(f, i, j);
            part.value = f->value + j;
            if (part.columns > f->columns - j)
                part.columns = f->columns - j;
            kernel(&part);
        }
    }
}

/* Reduces contiguous columns. */
ALWAYS_INLINE void fold_rows(const br_fold *f, br_reduce kernel)
{
    if (f->streamed)
        fold_streamed_rows(f, kernel);
    else
        kernel(f);
}

/* Chooses the loop by the direction in which x is contiguous. */
static void sum_fold(const br_fold *f)
{
    if (f->row_stride == sizeof(real)) {
        for (int64_t j = 0; j < f->columns; j++)
            sum_run(element(f, 0, j), f->rows, &f->value[j]);
    } else if (f->column_stride == sizeof(real)) {
        fold_rows(f, sum_rows);
    } else {
        for (int64_t j = 0; j < f->columns; j++)
            for (int64_t i = 0; i < f->rows; i++)
                f->value[j].f += (double)*element(f, i, j);
    }
}

/* ---- Sum without NaN ------------------------------------------------------------------------- */

/* Copies n elements at this distance, with 0 in place of NaN. */
ALWAYS_INLINE void copy_numbers(real *buffer, const char *from, int64_t stride, int64_t n)
{
    const real *x = (const real *)(const void *)from;
    if (stride == sizeof(real)) {
        FOR_EACH(real, i, n, buffer[i] = x[i] == x[i] ? x[i] : 0;)
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        const real y = *(const real *)(const void *)(from + i * stride);
        buffer[i] = y == y ? y : 0;
    }
}

/* Sums copies of a few elements, which stay in the nearest cache, as sum_fold() does. */
static void nansum_fold(const br_fold *f)
{
    enum { ROWS = 8, COLUMNS = 8 * LANES, ALL = ROWS * COLUMNS }; /* of the buffer */
    real buffer[ALL];
    if (f->row_stride == sizeof(real)) {
        for (int64_t j = 0; j < f->columns; j++)
            for (int64_t i = 0; i < f->rows; i += ALL) {
                const int64_t n = f->rows - i < ALL ? f->rows - i : ALL;
                copy_numbers(buffer, (const char *)element(f, i, j), sizeof(real), n);
                sum_run(buffer, n, &f->value[j]);
            }
        return;
    }
    br_fold part = *f;
    part.x = (const char *)buffer;
    part.row_stride = COLUMNS * sizeof(real);
    part.column_stride = sizeof(real);
    for (int64_t i = 0; i < f->rows; i += ROWS) {
        part.rows = f->rows - i < ROWS ? f->rows - i : ROWS;
        for (int64_t j = 0; j < f->columns; j += COLUMNS) {
            part.columns = f->columns - j < COLUMNS ? f->columns - j : COLUMNS;
            part.value = f->value + j;
            for (int64_t k = 0; k < part.rows; k++)
                copy_numbers(buffer + k * COLUMNS, (const char *)element(f, i + k, j),
                             f->column_stride, part.columns);
            sum_rows(&part);
        }
    }
}

/* ---- Product --------------------------------------------------------------------------------- */

/* Returns the product of n contiguous elements. Partial products do not wait for each other. */
static double product_run(const real *x, int64_t n)
{
    enum { CHAINS = 32, VECTORS = CHAINS / WIDE };
    wide part[VECTORS];
    UNROLLED
    for (int p = 0; p < VECTORS; p++)
        part[p] = (wide){ 0 } + 1;
    const int64_t whole = n & -CHAINS;
    for (int64_t i = 0; i < whole; i += CHAINS) {
        UNROLLED
        for (int p = 0; p < VECTORS; p++)
            part[p] *= load_wide(x + i + p * WIDE);
    }
    double chain[CHAINS], rest = 1;
    memcpy(chain, part, sizeof chain);
    for (int count = CHAINS / 2; count > 0; count /= 2)
        for (int k = 0; k < count; k++)
            chain[k] *= chain[k + count];
    for (int64_t i = whole; i < n; i++)
        rest *= (double)x[i];
    return chain[0] * rest;
}

/* Does the same for a column of any stride. */
static double column_product(const br_fold *f)
{
    enum { CHAINS = 8 };
    double parts[CHAINS] = { 1, 1, 1, 1, 1, 1, 1, 1 };
    const int64_t whole = f->rows & -CHAINS;
    for (int64_t i = 0; i < whole; i += CHAINS)
        for (int k = 0; k < CHAINS; k++)
            parts[k] *= (double)*element(f, i + k, 0);
    for (int64_t i = whole; i < f->rows; i++)
        parts[0] *= (double)*element(f, i, 0);
    return ((parts[0] * parts[1]) * (parts[2] * parts[3])) *
           ((parts[4] * parts[5]) * (parts[6] * parts[7]));
}

/* Products are accumulated in double, row by row. */
static void prod_fold(const br_fold *f)
{
    enum { LONG = 64 }; /* shorter columns overflow as in PyTorch, which multiplies in order */
    const bool dense = f->row_stride == sizeof(real);
    if (f->rows >= LONG && (dense || f->columns == 1)) {
        for (int64_t j = 0; j < f->columns; j++)
            f->value[j].f *= dense ? product_run(element(f, 0, j), f->rows) : column_product(f);
        return;
    }
    for (int64_t i = 0; i < f->rows; i++) {
        const real *x = element(f, i, 0);
        if (f->column_stride == sizeof(real))
            FOR_EACH(real, j, f->columns, f->value[j].f *= (double)x[j];)
        else
            for (int64_t j = 0; j < f->columns; j++)
                f->value[j].f *= (double)*element(f, i, j);
    }
}

/* ---- Maximum and minimum --------------------------------------------------------------------- */

/* The minimum is computed as the maximum of the negated elements: these functions compute the
 * maximum of sign * x, with a sign of 1 or -1. */

/* Returns the larger of a and b, or a if they are equal; NaN counts as largest. */
ALWAYS_INLINE real larger(real a, real b)
{
    const real max_value = b > a ? b : a;
    return b != b ? b : max_value;
}

/* Updates the largest values so far with a vector. NaN is recorded separately, in *running_nan. */
ALWAYS_INLINE void take_vector(const real *x, real sign, vec *running_max, vec *running_nan)
{
    real *max_value = (real *)running_max, *nans = (real *)running_nan;
    INDEPENDENT
    for (int k = 0; k < VECTOR; k++) {
        const real v = sign * x[k];
        max_value[k] = v > max_value[k] ? v : max_value[k];
        nans[k] = v != v ? v : nans[k];
    }
}

/* Returns the maximum of at least two vectors. The last two vectors may overlap earlier elements to
 * cover the tail. */
static real max_of_vectors(const real *x, int64_t n, real sign)
{
    vec max_value = (vec){ 0 } - (real)INFINITY, odd = max_value, nans = { 0 };
    for (int64_t i = 0; i < n; i += 2 * VECTOR) {
        const real *from = x + (i + 2 * VECTOR <= n ? i : n - 2 * VECTOR);
        take_vector(from, sign, &max_value, &nans);
        take_vector(from + VECTOR, sign, &odd, &nans);
    }
    const real any = sum_of_lanes(nans), even = largest_lane(max_value), other = largest_lane(odd);
    return any != any ? any : even > other ? even : other;
}

/* Returns the maximum of sign * x over n contiguous elements; NaN counts as largest. */
static real max_run(const real *x, int64_t n, real sign)
{
    if (n >= 2 * VECTOR)
        return max_of_vectors(x, n, sign);
    real max_value = -(real)INFINITY;
    for (int64_t i = 0; i < n; i++)
        max_value = larger(max_value, sign * x[i]);
    return max_value;
}

/* Updates the maximum or minimum so far with x. */
ALWAYS_INLINE void take_larger(real x, real sign, br_accumulator *value)
{
    const bool replaces = sign * x > sign * (real)value->f || x != x;
    value->f = replaces ? (double)x : value->f;
}

/* Takes eight rows with contiguous columns at a time, which loads and stores the values so far once
 * for all of them, then the rest one by one. */
ALWAYS_INLINE void extreme_rows(const br_fold *f, real sign)
{
    br_accumulator *value = f->value;
    int64_t i = 0;
    for (; i + 8 <= f->rows; i += 8) {
        const real *x[8];
        for (int k = 0; k < 8; k++)
            x[k] = element(f, i + k, 0);
        FOR_EVERY(j, f->columns, {
            const real a = larger(sign * x[0][j], sign * x[1][j]);
            const real b = larger(sign * x[2][j], sign * x[3][j]);
            const real c = larger(sign * x[4][j], sign * x[5][j]);
            const real d = larger(sign * x[6][j], sign * x[7][j]);
            take_larger(sign * larger(larger(a, b), larger(c, d)), sign, &value[j]);
        })
    }
    for (; i < f->rows; i++) {
        const real *x = element(f, i, 0);
        FOR_EVERY(j, f->columns, take_larger(x[j], sign, &value[j]);)
    }
}

EVERY_WIDTH static void max_rows(const br_fold *f)
{
    extreme_rows(f, 1);
}

EVERY_WIDTH static void min_rows(const br_fold *f)
{
    extreme_rows(f, -1);
}

static void extreme_fold(const br_fold *f, real sign)
{
    if (f->row_stride == sizeof(real)) {
        for (int64_t j = 0; j < f->columns; j++)
            take_larger(sign * max_run(element(f, 0, j), f->rows, sign), sign, &f->value[j]);
    } else if (f->column_stride == sizeof(real)) {
        fold_rows(f, sign > 0 ? max_rows : min_rows);
    } else {
        for (int64_t i = 0; i < f->rows; i++)
            for (int64_t j = 0; j < f->columns; j++)
                take_larger(*element(f, i, j), sign, &f->value[j]);
    }
}

static void max_fold(const br_fold *f)
{
    extreme_fold(f, 1);
}

static void min_fold(const br_fold *f)
{
    extreme_fold(f, -1);
}

/* ---- Argmax and argmin ----------------------------------------------------------------------- */

/* Returns whether b replaces an earlier a: it is larger, or the first NaN. */
ALWAYS_INLINE bool exceeds(real b, real a)
{
    return b > a || (b != b && a == a);
}

/* First finds the block with the maximum, then searches only that block for the index. */
static void place_in_run(const real *x, int64_t n, int64_t first, real sign, br_accumulator *value,
                         int64_t *index)
{
    enum { SEARCHED = 16 * LANES }; /* elements of a block */
    real max_value = sign * (real)value->f;
    int64_t found = -1;
    for (int64_t i = 0; i < n; i += SEARCHED) {
        const real extreme = max_run(x + i, n - i < SEARCHED ? n - i : SEARCHED, sign);
        if (exceeds(extreme, max_value)) {
            max_value = extreme;
            found = i;
        }
    }
    if (found < 0)
        return;
    while (sign * x[found] != max_value && x[found] == x[found])
        found++;
    value->f = (double)x[found];
    *index = first + found;
}

ALWAYS_INLINE void take_place(real x, real sign, int64_t row, br_accumulator *value, int64_t *index)
{
    const bool replaces = exceeds(sign * x, sign * (real)value->f);
    value->f = replaces ? (double)x : value->f;
    *index = replaces ? row : *index;
}

static void place_fold(const br_fold *f, real sign)
{
    if (f->row_stride == sizeof(real)) {
        for (int64_t j = 0; j < f->columns; j++)
            place_in_run(element(f, 0, j), f->rows, f->first_row, sign, &f->value[j], &f->index[j]);
        return;
    }
    for (int64_t i = 0; i < f->rows; i++) {
        const real *x = element(f, i, 0);
        const int64_t row = f->first_row + i;
        if (f->column_stride == sizeof(real))
            FOR_EACH(real, j, f->columns, take_place(x[j], sign, row, &f->value[j], &f->index[j]);)
        else
            for (int64_t j = 0; j < f->columns; j++)
                take_place(*element(f, i, j), sign, row, &f->value[j], &f->index[j]);
    }
}

static void argmax_fold(const br_fold *f)
{
    place_fold(f, 1);
}

static void argmin_fold(const br_fold *f)
{
    place_fold(f, -1);
}

/* Most results are contiguous and not divided. That case has its own loop, because a division takes
 * longer than the rest. */
EVERY_WIDTH static void store_results(void *out, const br_accumulator *v, int64_t n, int64_t step,
                                      double by)
{
    real *to = out;
    if (step == 1 && by == 1)
        for (int64_t j = 0; j < n; j++)
            to[j] = (real)v[j].f;
    else
        for (int64_t j = 0; j < n; j++)
            to[j * step] = (real)(v[j].f / by);
}

#endif
