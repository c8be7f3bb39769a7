/* ops/kernels/softmax.h - softmax, its logarithm, and their gradients; part of variant.c.
 *
 * A row that lies in one run is worked along. Where rows lie side by side, as in a softmax over a
 * dimension before the last, up to TILE of them are worked at once; short rows are brought into
 * that form, since along them there is too little for a vector. */
#ifndef BR_KERNELS_SOFTMAX_H
#define BR_KERNELS_SOFTMAX_H

#include "ops/kernels/math.h"
#include "ops/kernels/reduce.h"

/* Made for every width (hints.h), since rows side by side may be few. What -O2 makes of these loops
 * takes a tenth to a fifth longer there; in f64, which is for checks, and without AVX the size
 * counts. */
#if defined(__GNUC__) && !defined(__clang__)
#    pragma GCC push_options
#    pragma GCC optimize("vect-cost-model=dynamic")
#    if defined(__AVX__) && !defined(BR_KERNEL_F64)
#        pragma GCC optimize("O3")
#    endif
#endif

enum { TILE = BR_SOFTMAX_TILE, SHORT_ROW = 48, BLOCK = 64 * LANES, EXP_RUN = 16 };

/* ---- Along a row ----------------------------------------------------------------------------- */

/* Blocks are of at most BLOCK elements: within them sums are of the type itself, beyond in double.
 */
ALWAYS_INLINE int64_t block_at(int64_t i, int64_t n)
{
    return n - i < BLOCK ? n - i : BLOCK;
}

static double sum_block_of_products(const real *a, const real *b, int64_t n)
{
    real sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return (double)sum;
}

static double sum_of_products(const real *a, const real *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i += BLOCK)
        sum += sum_block_of_products(a + i, b + i, block_at(i, n));
    return sum;
}

static double sum_of_row(const real *x, int64_t n)
{
    br_accumulator sum = { .f = 0 };
    sum_run(x, n, &sum);
    return sum.f;
}

/* NaN is passed over: the sum of exponentials finds it. */
ALWAYS_INLINE real largest_of_run(const real *x, int64_t n)
{
    real most = -(real)INFINITY;
#pragma omp simd reduction(max : most)
    for (int64_t i = 0; i < n; i++)
        most = x[i] > most ? x[i] : most;
    return most;
}

/* What is left of whole runs is done as one that overlaps the one before. */
static real largest_of(const real *x, int64_t n)
{
    if (n < EXP_RUN)
        return largest_of_run(x, n);
    real most = largest_of_run(x, n / EXP_RUN * EXP_RUN);
    real last = largest_of_run(x + n - EXP_RUN, EXP_RUN);
    return last > most ? last : most;
}

/* To be compiled for any n: for few elements the compiler would spell a loop out instead of making
 * vectors of it. */
#ifdef __clang__
#    define FOR_ANY_N __attribute__((noinline))
#else
#    define FOR_ANY_N __attribute__((noinline, noclone))
#endif

/* y = exp(x - shift) for n rounded down to whole runs; returns the sum. */
FOR_ANY_N static real exp_vectors(const real *restrict x, int64_t n, real shift, real *restrict y)
{
    real sum = 0;
    n &= ~(int64_t)(EXP_RUN - 1);
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        y[i] = exp_negative(x[i] - shift);
        sum += y[i];
    }
    return sum;
}

/* The sum of the last `count` of a run. */
ALWAYS_INLINE real sum_of_last(const real *y, int64_t count)
{
    static const real kept[2 * EXP_RUN] = {
        [EXP_RUN] = 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1
    };
    real sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < EXP_RUN; i++)
        sum += y[i] * kept[count + i];
    return sum;
}

/* The same for any number up to BLOCK. What is left of whole runs is done as one that overlaps
 * the one before: element by element an exponential costs as much as a vector of them. */
static double exp_block(const real *restrict x, int64_t n, real shift, real *restrict y)
{
    real sum = exp_vectors(x, n, shift, y);
    if (n >= EXP_RUN && n % EXP_RUN != 0) {
        exp_vectors(x + n - EXP_RUN, EXP_RUN, shift, y + n - EXP_RUN);
        sum += sum_of_last(y + n - EXP_RUN, n % EXP_RUN);
    }
    for (int64_t i = 0; n < EXP_RUN && i < n; i++) {
        y[i] = exp_negative(x[i] - shift);
        sum += y[i];
    }
    return (double)sum;
}

/* The sum of exp(x - shift) over a row. */
static double exp_sum(const real *x, int64_t n, real shift)
{
    real e[BLOCK];
    double sum = 0;
    for (int64_t i = 0; i < n; i += BLOCK)
        sum += exp_block(x + i, block_at(i, n), shift, e);
    return sum;
}

static void softmax_row(const real *restrict x, real *restrict y, int64_t n)
{
    real most = largest_of(x, n);
    double sum = 0;
    for (int64_t i = 0; i < n; i += BLOCK)
        sum += exp_block(x + i, block_at(i, n), most, y + i);
    real scale = (real)(1 / sum);
    FOR_EACH(real, i, n, y[i] *= scale;)
}

static void log_softmax_row(const real *restrict x, real *restrict y, int64_t n)
{
    real most = largest_of(x, n), log_sum = (real)log(exp_sum(x, n, most));
    FOR_EACH(real, i, n, y[i] = x[i] - most - log_sum;)
}

/* dx = y (dy - sum of y dy) */
static void softmax_grad_row(const real *restrict y, const real *restrict dy, real *restrict dx,
                             int64_t n)
{
    real sum = (real)sum_of_products(y, dy, n);
    FOR_EACH(real, i, n, dx[i] = y[i] * (dy[i] - sum);)
}

/* dx = dy - exp(y) sum of dy */
static void log_softmax_grad_row(const real *restrict y, const real *restrict dy, real *restrict dx,
                                 int64_t n)
{
    real sum = (real)sum_of_row(dy, n);
    FOR_EVERY(i, n, dx[i] = dy[i] - exp_negative(y[i]) * sum;)
}

/* ---- Across rows side by side ---------------------------------------------------------------- */

/* Loops over the rows side by side, of which x, y and dx may be the same memory. */

/* e = exp(x - most), and its sum goes to sum. */
static void exp_across(const real *x, const real *most, real *e, double *sum, int64_t rows)
{
    FOR_EVERY(j, rows, {
        e[j] = exp_negative(x[j] - most[j]);
        sum[j] += (double)e[j];
    })
}

static void larger_across(const real *x, real *most, int64_t rows)
{
    FOR_EVERY(j, rows, most[j] = larger(most[j], x[j]);)
}

static void minus_across(const real *x, const real *b, real *y, int64_t rows)
{
    FOR_EVERY(j, rows, y[j] = x[j] - b[j];)
}

static void times_across(const real *b, real *y, int64_t rows)
{
    FOR_EVERY(j, rows, y[j] *= b[j];)
}

/* Element i of row j is x[i * step + j], and the same of y; rows is at most TILE. */
FOR_ANY_N static void softmax_across(const real *x, real *y, int64_t n, int64_t rows, int64_t step,
                                     bool log_of)
{
    real most[TILE], e[TILE], last[TILE];
    double sum[TILE] = { 0 };
    const int64_t end = n * step;
    FOR_EVERY(j, rows, most[j] = -(real)INFINITY;)
    for (int64_t k = 0; k < end; k += step)
        larger_across(x + k, most, rows);
    for (int64_t k = 0; k < end; k += step) {
        exp_across(x + k, most, log_of ? e : y + k, sum, rows);
        if (log_of)
            minus_across(x + k, most, y + k, rows);
    }
    for (int64_t j = 0; j < rows; j++)
        last[j] = log_of ? (real)log(sum[j]) : (real)(1 / sum[j]);
    for (int64_t k = 0; k < end; k += step) {
        if (log_of)
            minus_across(y + k, last, y + k, rows);
        else
            times_across(last, y + k, rows);
    }
}

/* Adds dy, or y dy where there is a y. */
static void add_across(const real *y, const real *dy, double *total, int64_t rows)
{
    if (y) {
        FOR_EVERY(j, rows, total[j] += (double)(y[j] * dy[j]);)
    } else {
        FOR_EVERY(j, rows, total[j] += (double)dy[j];)
    }
}

/* dx = dy - exp(y) sum of dy for log softmax, else y (dy - sum of y dy) */
FOR_ANY_N static void softmax_grad_across(const real *y, const real *dy, real *dx, int64_t n,
                                          int64_t rows, int64_t step, bool log_of)
{
    double total[TILE] = { 0 };
    real sum[TILE];
    const int64_t end = n * step;
    for (int64_t k = 0; k < end; k += step)
        add_across(log_of ? NULL : y + k, dy + k, total, rows);
    FOR_EVERY(j, rows, sum[j] = (real)total[j];)
    for (int64_t k = 0; k < end; k += step) {
        if (log_of) {
            FOR_EVERY(j, rows, dx[k + j] = dy[k + j] - exp_negative(y[k + j]) * sum[j];)
        } else {
            FOR_EVERY(j, rows, dx[k + j] = y[k + j] * (dy[k + j] - sum[j]);)
        }
    }
}

/* Short rows, each in one run, to rows side by side, TILE apart, and back. */
static void to_tile(const real *x, real *tile, int64_t n, int64_t rows)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < rows; j++)
            tile[i * TILE + j] = x[j * n + i];
}

static void from_tile(const real *tile, real *x, int64_t n, int64_t rows)
{
    for (int64_t j = 0; j < rows; j++)
        for (int64_t i = 0; i < n; i++)
            x[j * n + i] = tile[i * TILE + j];
}

/* ---- The table's entries --------------------------------------------------------------------- */

static void softmax_kernel(const br_softmax_work *w)
{
    const real *x = w->x;
    real *y = w->out, tile[SHORT_ROW * TILE];
    if (w->step != 1 && w->n > 1) {
        softmax_across(x, y, w->n, w->rows, w->step, w->log_of);
    } else if (w->n <= SHORT_ROW) {
        for (int64_t j = 0; j < w->rows; j += TILE) {
            int64_t rows = w->rows - j < TILE ? w->rows - j : TILE;
            to_tile(x + j * w->n, tile, w->n, rows);
            softmax_across(tile, tile, w->n, rows, TILE, w->log_of);
            from_tile(tile, y + j * w->n, w->n, rows);
        }
    } else {
        for (int64_t j = 0; j < w->rows; j++)
            (w->log_of ? log_softmax_row : softmax_row)(x + j * w->n, y + j * w->n, w->n);
    }
}

static void softmax_grad_kernel(const br_softmax_work *w)
{
    const real *y = w->x, *dy = w->dy;
    real *dx = w->out, tile[2][SHORT_ROW * TILE];
    if (w->step != 1 && w->n > 1) {
        softmax_grad_across(y, dy, dx, w->n, w->rows, w->step, w->log_of);
    } else if (w->n <= SHORT_ROW) {
        for (int64_t j = 0; j < w->rows; j += TILE) {
            int64_t rows = w->rows - j < TILE ? w->rows - j : TILE;
            to_tile(y + j * w->n, tile[0], w->n, rows);
            to_tile(dy + j * w->n, tile[1], w->n, rows);
            softmax_grad_across(tile[0], tile[1], tile[1], w->n, rows, TILE, w->log_of);
            from_tile(tile[1], dx + j * w->n, w->n, rows);
        }
    } else {
        for (int64_t j = 0; j < w->rows; j++)
            (w->log_of ? log_softmax_grad_row : softmax_grad_row)(y + j * w->n, dy + j * w->n,
                                                                  dx + j * w->n, w->n);
    }
}

#if defined(__GNUC__) && !defined(__clang__)
#    pragma GCC pop_options
#endif

#endif
