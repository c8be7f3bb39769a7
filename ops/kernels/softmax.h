/* ops/kernels/softmax.h - softmax, its logarithm, and their gradients; part of variant.c.
 *
 * A row that lies in one run is worked along. Where rows lie side by side, as in a softmax over a
 * dimension before the last, up to TILE of them are worked at once; short rows are brought into
 * that form, since along them there is too little for a vector. */
#ifndef BR_KERNELS_SOFTMAX_H
#define BR_KERNELS_SOFTMAX_H

#include "ops/kernels/math.h"
#include "ops/kernels/reduce.h"
#include "ops/kernels/transpose.h"

enum { TILE = BR_SOFTMAX_TILE, SHORT_ROW = 48, BLOCK = 64 * LANES };

/* ---- Along a row ----------------------------------------------------------------------------- */

/* Blocks are of at most BLOCK elements: within them sums are of the type itself, beyond in double.
 */
ALWAYS_INLINE int64_t block_at(int64_t i, int64_t n)
{
    return n - i < BLOCK ? n - i : BLOCK;
}

static double sum_block_of_products(const real *a, const real *b, int64_t n)
{
    const int64_t whole = n & -VECTOR;
    vec sum = load_part(a + whole, n - whole) * load_part(b + whole, n - whole);
    for (int64_t i = 0; i < whole; i += VECTOR)
        sum += *(const vec_at *)(a + i) * *(const vec_at *)(b + i);
    return (double)sum_of_lanes(sum);
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

/* y = exp(x - shift) for whole vectors; adds to sum. */
static __attribute__((noinline)) void exp_vectors(const real *x, int64_t n, real shift, real *y,
                                                  vec *sum)
{
    vec total = *sum;
    for (int64_t i = 0; i < n; i += VECTOR) {
        FOR_VECTORS(real, k, VECTOR, y[i + k] = exp_negative(x[i + k] - shift);)
        total += *(const vec_at *)(y + i);
    }
    *sum = total;
}

/* The same for any number up to BLOCK; returns the sum. What does not fill a vector is computed as
 * one that is filled up: an exponential costs as much as a vector of them. */
static double exp_block(const real *x, int64_t n, real shift, real *y)
{
    vec sum = { 0 }, last, rest = { 0 };
    const int64_t whole = n & -VECTOR;
    exp_vectors(x, whole, shift, y, &sum);
    if (n > whole) {
        last = load_part(x + whole, n - whole);
        exp_vectors((real *)&last, VECTOR, shift, (real *)&last, &rest);
        store_part(y + whole, last, n - whole);
        sum += load_part((real *)&last, n - whole);
    }
    return (double)sum_of_lanes(sum);
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
    real most = max_run(x, n, 1);
    double sum = 0;
    for (int64_t i = 0; i < n; i += BLOCK)
        sum += exp_block(x + i, block_at(i, n), most, y + i);
    real scale = (real)(1 / sum);
    FOR_EACH(real, i, n, y[i] *= scale;)
}

static void log_softmax_row(const real *restrict x, real *restrict y, int64_t n)
{
    real most = max_run(x, n, 1), log_sum = (real)log(exp_sum(x, n, most));
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
    real e[BLOCK], sum = (real)sum_of_row(dy, n);
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int64_t count = block_at(i, n);
        exp_block(y + i, count, 0, e);
        FOR_EACH(real, k, count, dx[i + k] = dy[i + k] - e[k] * sum;)
    }
}

/* ---- Across rows side by side ---------------------------------------------------------------- */

/* Loops over the rows side by side, of which x, y and dx may be the same memory; their number fills
 * whole vectors. */

static void exp_across(const real *x, const real *most, real *e, int64_t rows)
{
    FOR_VECTORS(real, j, rows, e[j] = exp_negative(x[j] - most[j]);)
}

/* Adds x, or x w where there is a w. */
static void add_across(const real *x, const real *w, double *sum, int64_t rows)
{
    if (w)
        FOR_VECTORS(real, j, rows, sum[j] += (double)(x[j] * w[j]);)
    else
        FOR_VECTORS(real, j, rows, sum[j] += (double)x[j];)
}

static void larger_across(const real *x, real *most, int64_t rows)
{
    FOR_VECTORS(real, j, rows, most[j] = larger(most[j], x[j]);)
}

static int64_t whole_vectors(int64_t rows)
{
    return (rows + VECTOR - 1) & -VECTOR;
}

static int64_t vector_at(int64_t j, int64_t rows)
{
    return rows - j < VECTOR ? rows - j : VECTOR;
}

/* What is to become whole vectors, and where it is put to be so. */
typedef struct beside {
    int64_t rows, whole;
    real copy[TILE];
} beside;

static beside rows_beside(int64_t rows)
{
    return (beside){ .rows = rows, .whole = whole_vectors(rows) };
}

static __attribute__((noinline)) const real *copy_in(beside *b, const real *x)
{
    for (int64_t j = 0; j < b->rows; j += VECTOR)
        *(vec_at *)(b->copy + j) = load_part(x + j, vector_at(j, b->rows));
    return b->copy;
}

static __attribute__((noinline)) void copy_out(const beside *b, real *y)
{
    for (int64_t j = 0; j < b->rows; j += VECTOR)
        store_part(y + j, *(const vec_at *)(b->copy + j), vector_at(j, b->rows));
}

ALWAYS_INLINE const real *load_step(beside *b, const real *x)
{
    return b->rows == b->whole ? x : copy_in(b, x);
}

ALWAYS_INLINE real *begin_step(beside *b, real *y)
{
    return b->rows == b->whole ? y : b->copy;
}

ALWAYS_INLINE void end_step(const beside *b, real *y)
{
    if (b->rows != b->whole)
        copy_out(b, y);
}

/* Of long rows side by side what comes AHEAD elements later is asked for, since no processor sees
 * that far: of how many of the rows. */
enum { AHEAD = 8, LONG_STRIP = 128 << 10 };
static int64_t rows_ahead(int64_t n, int64_t rows)
{
    return n * rows * (int64_t)sizeof(real) > LONG_STRIP ? rows : 0;
}

static void ask_across(const real *x, int64_t rows)
{
    for (int64_t j = 0; j < rows; j += LINE)
        __builtin_prefetch(x + j);
}

/* Element i of row j is x[i * step + j], and the same of y; rows is at most TILE. */
static void softmax_across(const real *x, real *y, int64_t n, int64_t rows, int64_t step,
                           bool log_of)
{
    real most[TILE], e[TILE], last[TILE];
    double sum[TILE] = { 0 };
    beside b = rows_beside(rows);
    const int64_t end = n * step, ahead = rows_ahead(n, rows);
    FOR_VECTORS(real, j, b.whole, most[j] = -(real)INFINITY;)
    for (int64_t k = 0; k < end; k += step) {
        ask_across(x + k + AHEAD * step, ahead);
        larger_across(load_step(&b, x + k), most, b.whole);
    }
    for (int64_t k = 0; k < end; k += step) {
        const real *from = load_step(&b, x + k);
        real *to = log_of ? e : begin_step(&b, y + k);
        ask_across(x + k + AHEAD * step, ahead);
        if (!log_of)
            ask_across(y + k + AHEAD * step, ahead);
        exp_across(from, most, to, b.whole);
        add_across(to, NULL, sum, b.whole);
        if (!log_of)
            end_step(&b, y + k);
    }
    for (int64_t j = 0; j < b.whole; j++)
        last[j] = log_of ? (real)log(sum[j]) : (real)(1 / sum[j]);
    for (int64_t k = 0; k < end; k += step) {
        const real *from = load_step(&b, (log_of ? x : y) + k);
        real *to = begin_step(&b, y + k);
        ask_across(y + k + AHEAD * step, ahead);
        if (log_of)
            FOR_VECTORS(real, j, b.whole, to[j] = from[j] - most[j] - last[j];)
        else
            FOR_VECTORS(real, j, b.whole, to[j] = from[j] * last[j];)
        end_step(&b, y + k);
    }
}

/* dx = dy - exp(y) sum of dy for log softmax, else y (dy - sum of y dy) */
static void softmax_grad_across(const real *y, const real *dy, real *dx, int64_t n, int64_t rows,
                                int64_t step, bool log_of)
{
    double total[TILE] = { 0 };
    real sum[TILE];
    beside of_y = rows_beside(rows), of_dy = of_y;
    const int64_t end = n * step, whole = of_y.whole, ahead = rows_ahead(n, rows);
    for (int64_t k = 0; k < end; k += step) {
        ask_across(dy + k + AHEAD * step, ahead);
        ask_across(y + k + AHEAD * step, ahead);
        add_across(load_step(&of_dy, dy + k), log_of ? NULL : load_step(&of_y, y + k), total,
                   whole);
    }
    FOR_VECTORS(real, j, whole, sum[j] = (real)total[j];)
    for (int64_t k = 0; k < end; k += step) {
        const real *p = load_step(&of_y, y + k), *d = load_step(&of_dy, dy + k);
        real *to = begin_step(&of_y, dx + k);
        ask_across(dx + k + AHEAD * step, ahead);
        if (log_of)
            FOR_VECTORS(real, j, whole, to[j] = d[j] - exp_negative(p[j]) * sum[j];)
        else
            FOR_VECTORS(real, j, whole, to[j] = p[j] * (d[j] - sum[j]);)
        end_step(&of_y, dx + k);
    }
}

/* Short rows, each in one run, to rows side by side, TILE apart, that fill whole vectors. */
static void to_tile(const real *x, real *tile, int64_t n, int64_t rows)
{
    for (int64_t i = 0; i < n && rows % VECTOR != 0; i++)
        *(vec_at *)(tile + i * TILE + (rows & -VECTOR)) = (vec){ 0 };
    transpose(tile, TILE, x, n, 1, n, rows);
}

/* ---- The table's entries --------------------------------------------------------------------- */

/* Of rows side by side: whole vectors, then those that are left and must be copied to fill one. */
static int64_t rows_at_once(int64_t rows)
{
    return rows < VECTOR ? rows : rows & -VECTOR;
}

static void softmax_kernel(const br_softmax_work *w)
{
    const real *x = w->x;
    real *y = w->out, tile[SHORT_ROW * TILE];
    if (w->step != 1 && w->n > 1) {
        for (int64_t j = 0, rows; j < w->rows; j += rows) {
            rows = rows_at_once(w->rows - j);
            softmax_across(x + j, y + j, w->n, rows, w->step, w->log_of);
        }
    } else if (w->n <= SHORT_ROW) {
        for (int64_t j = 0; j < w->rows; j += TILE) {
            int64_t rows = w->rows - j < TILE ? w->rows - j : TILE;
            to_tile(x + j * w->n, tile, w->n, rows);
            softmax_across(tile, tile, w->n, whole_vectors(rows), TILE, w->log_of);
            transpose(y + j * w->n, w->n, tile, TILE, 1, rows, w->n);
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
        for (int64_t j = 0, rows; j < w->rows; j += rows) {
            rows = rows_at_once(w->rows - j);
            softmax_grad_across(y + j, dy + j, dx + j, w->n, rows, w->step, w->log_of);
        }
    } else if (w->n <= SHORT_ROW) {
        for (int64_t j = 0; j < w->rows; j += TILE) {
            int64_t rows = w->rows - j < TILE ? w->rows - j : TILE;
            to_tile(y + j * w->n, tile[0], w->n, rows);
            to_tile(dy + j * w->n, tile[1], w->n, rows);
            softmax_grad_across(tile[0], tile[1], tile[1], w->n, whole_vectors(rows), TILE,
                                w->log_of);
            transpose(dx + j * w->n, w->n, tile[1], TILE, 1, rows, w->n);
        }
    } else {
        for (int64_t j = 0; j < w->rows; j++)
            (w->log_of ? log_softmax_grad_row : softmax_grad_row)(y + j * w->n, dy + j * w->n,
                                                                  dx + j * w->n, w->n);
    }
}

#endif
