/* backends/cpu/norm/softmax.h - softmax, log softmax and their gradients; part of variant.c.
 *
 *     y = exp(x - max) / sum of exp(x - max)      dx = y (dy - sum of y dy)
 *     y = x - max - log(sum of exp(x - max))      dx = dy - exp(y) sum of dy
 *
 * over each row. The maximum is subtracted so that no exponential overflows. There are three passes
 * over a row: the maximum; the exponentials (softmax stores them in y) and their sum; and the
 * result. Sums are of the element type within blocks along a row, and of doubles otherwise. A row's
 * results depend on no other row.
 *
 * Contiguous rows are vectorized along the row. Interleaved rows, as in a softmax over a dimension
 * before the last, are vectorized across up to TILE rows. Short contiguous rows do not fill
 * vectors, so they are transposed into the interleaved layout. */
#ifndef BR_KERNELS_SOFTMAX_H
#define BR_KERNELS_SOFTMAX_H

#include "backends/cpu/math.h"
#include "backends/cpu/norm/norm_kernels.h"
#include "backends/cpu/reduce/reduce.h"
#include "backends/cpu/shape/transpose.h"

/* TILE: maximum number of interleaved rows. SHORT_ROW: rows up to this length are transposed.
 * BLOCK: elements of a block along a row, 4 KiB, so that a block stays in the L1 cache. */
enum { TILE = BR_SOFTMAX_TILE, SHORT_ROW = 48, BLOCK = 64 * LANES };

/* ---- Along a row ----------------------------------------------------------------------------- */

/* Returns the size of the block at i, at most BLOCK. Sums within a block are of the element type;
 * blocks are added in double. */
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

/* Computes y = exp(x - shift) for whole vectors, and adds it to *sum. */
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

/* Computes the same for up to BLOCK elements, and returns their sum. The tail is padded to a
 * vector, since one exponential costs as much as a vector of them. */
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

/* Returns the sum of exp(x - shift) over a row. */
static double exp_sum(const real *x, int64_t n, real shift)
{
    real e[BLOCK];
    double sum = 0;
    for (int64_t i = 0; i < n; i += BLOCK)
        sum += exp_block(x + i, block_at(i, n), shift, e);
    return sum;
}

/* Recomputes the results of a row that exp_negative() flushed to 0 because they are denormal.
 * exp_gradual(), which computes them, takes 1.5 times as long. Denormal results are rare and too
 * small to change a sum, so they are computed afterwards, and only in rows that may have them. */
static void add_denormals_to_row(const real *restrict x, real *restrict y, int64_t n, real max,
                                 real scale)
{
    bool found = false;
    for (int64_t i = 0; i < n && !found; i += BLOCK) {
        const int64_t count = block_at(i, n);
        unsigned flags = 0;
        FOR_EACH(real, k, count, flags |= is_denormal_exp(x[i + k] - max);)
        found = flags;
    }
    for (int64_t i = 0; found && i < n; i++)
        if (is_denormal_exp(x[i] - max))
            y[i] = exp_gradual(x[i] - max) * scale;
}

/* Updates the largest and the smallest element of each lane. Ignores NaN. */
ALWAYS_INLINE void take_extremes(const real *x, vec *running_max, vec *running_min)
{
    real *max = (real *)running_max, *min = (real *)running_min;
    INDEPENDENT
    for (int k = 0; k < VECTOR; k++) {
        max[k] = x[k] > max[k] ? x[k] : max[k];
        min[k] = x[k] < min[k] ? x[k] : min[k];
    }
}

/* Returns the largest of n > SHORT_ROW elements and stores the smallest. Ignores NaN, which reaches
 * the sum of the exponentials. The last two vectors may overlap the ones before. */
static real extremes_of_row(const real *x, int64_t n, real *smallest)
{
    vec max = (vec){ 0 } - (real)INFINITY, odd_most = max, min = -max, odd_least = min;
    for (int64_t i = 0; i < n; i += 2 * VECTOR) {
        const real *from = x + (i + 2 * VECTOR <= n ? i : n - 2 * VECTOR);
        take_extremes(from, &max, &min);
        take_extremes(from + VECTOR, &odd_most, &odd_least);
    }
    const real even = largest_lane(max), odd = largest_lane(odd_most);
    const real even_min = -largest_lane(-min), other_min = -largest_lane(-odd_least);
    *smallest = even_min < other_min ? even_min : other_min;
    return even > odd ? even : odd;
}

/* The smallest element shows whether any result can be denormal. */
static void softmax_row(const real *restrict x, real *restrict y, int64_t n)
{
    real min, max = extremes_of_row(x, n, &min);
    double sum = 0;
    for (int64_t i = 0; i < n; i += BLOCK)
        sum += exp_block(x + i, block_at(i, n), max, y + i);
    real scale = (real)(1 / sum);
    FOR_EACH(real, i, n, y[i] *= scale;)
    if (min - max < EXP_NORMAL)
        add_denormals_to_row(x, y, n, max, scale);
}

/* y = x - max - log(sum of exp(x - max)) */
static void log_softmax_row(const real *restrict x, real *restrict y, int64_t n)
{
    real max = max_run(x, n, 1), log_sum = (real)log(exp_sum(x, n, max));
    FOR_EACH(real, i, n, y[i] = x[i] - max - log_sum;)
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

/* ---- Interleaved rows ------------------------------------------------------------------------ */

/* Loops across interleaved rows. x, y and dx may be the same memory; the number of rows is a
 * multiple of the vector length. */

static void exp_across(const real *x, const real *max, real *e, int64_t rows)
{
    FOR_VECTORS(real, j, rows, e[j] = exp_negative(x[j] - max[j]);)
}

/* Adds x, or x w if w is not NULL, to the sums. */
static void add_across(const real *x, const real *w, double *sum, int64_t rows)
{
    if (w)
        FOR_VECTORS(real, j, rows, sum[j] += (double)(x[j] * w[j]);)
    else
        FOR_VECTORS(real, j, rows, sum[j] += (double)x[j];)
}

/* NaN may be ignored here, since it reaches the sum of the exponentials. */
static void larger_across(const real *x, real *max, int64_t rows)
{
    FOR_VECTORS(real, j, rows, max[j] = x[j] > max[j] ? x[j] : max[j];)
}

/* Returns the number of rows, rounded up to whole vectors. */
static int64_t whole_vectors(int64_t rows)
{
    return (rows + VECTOR - 1) & -VECTOR;
}

static int64_t vector_at(int64_t j, int64_t rows)
{
    return rows - j < VECTOR ? rows - j : VECTOR;
}

/* Describes interleaved rows that may have to be padded to whole vectors, and holds one padded
 * copy. */
typedef struct interleaved_rows {
    int64_t rows, whole;
    real copy[TILE];
} interleaved_rows;

static interleaved_rows describe_rows(int64_t rows)
{
    return (interleaved_rows){ .rows = rows, .whole = whole_vectors(rows) };
}

static __attribute__((noinline)) const real *copy_in(interleaved_rows *b, const real *x)
{
    for (int64_t j = 0; j < b->rows; j += VECTOR)
        *(vec_at *)(b->copy + j) = load_part(x + j, vector_at(j, b->rows));
    return b->copy;
}

static __attribute__((noinline)) void copy_out(const interleaved_rows *b, real *y)
{
    for (int64_t j = 0; j < b->rows; j += VECTOR)
        store_part(y + j, *(const vec_at *)(b->copy + j), vector_at(j, b->rows));
}

/* A step is one element of all interleaved rows. load_step() returns the step at x, padded to whole
 * vectors; results are written to what begin_step() returns, and end_step() then copies them to y.
 * Nothing is copied if the rows are whole vectors. */
ALWAYS_INLINE const real *load_step(interleaved_rows *b, const real *x)
{
    return b->rows == b->whole ? x : copy_in(b, x);
}

ALWAYS_INLINE real *begin_step(interleaved_rows *b, real *y)
{
    return b->rows == b->whole ? y : b->copy;
}

ALWAYS_INLINE void end_step(const interleaved_rows *b, real *y)
{
    if (b->rows != b->whole)
        copy_out(b, y);
}

/* Returns how many rows to prefetch: all if the interleaved rows take more than LONG_STRIP bytes,
 * otherwise none. They are prefetched PREFETCH_DISTANCE elements early, since hardware prefetchers
 * do not handle such strides. */
enum { PREFETCH_DISTANCE = 8, LONG_STRIP = 128 << 10 };
static int64_t rows_to_prefetch(int64_t n, int64_t rows)
{
    return n * rows * (int64_t)sizeof(real) > LONG_STRIP ? rows : 0;
}

static void prefetch_across(const real *x, int64_t rows)
{
    for (int64_t j = 0; j < rows; j += LINE)
        __builtin_prefetch(x + j);
}

/* Does the work of add_denormals_to_row() for interleaved rows. The exponential of the largest
 * element is 1, so the result at that element is the scale of its row. */
static void add_denormals_across(const real *x, real *y, int64_t n, int64_t rows, int64_t step)
{
    real max[TILE], scale[TILE];
    unsigned found[TILE] = { 0 }, any = 0;
    const int64_t end = n * step;
    for (int64_t j = 0; j < rows; j++)
        max[j] = -(real)INFINITY;
    for (int64_t k = 0; k < end; k += step)
        FOR_EACH(real, j, rows, {
            const bool is_larger = x[k + j] > max[j];
            scale[j] = is_larger ? y[k + j] : scale[j];
            max[j] = is_larger ? x[k + j] : max[j];
        })
    for (int64_t k = 0; k < end; k += step)
        FOR_EACH(real, j, rows, found[j] |= is_denormal_exp(x[k + j] - max[j]);)
    for (int64_t j = 0; j < rows; j++)
        any |= found[j];
    for (int64_t k = 0; any && k < end; k += step)
        for (int64_t j = 0; j < rows; j++)
            if (is_denormal_exp(x[k + j] - max[j]))
                y[k + j] = exp_gradual(x[k + j] - max[j]) * scale[j];
}

/* 0 in lanes where a comparison is false, -1 where it is true. */
typedef BY_TYPE(int32_t, int64_t) lane_flags __attribute__((vector_size(VECTOR_BYTES)));

ALWAYS_INLINE bool any_lane(lane_flags flags)
{
    uint64_t words[sizeof flags / sizeof(uint64_t)], any = 0;
    memcpy(words, &flags, sizeof words);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        any |= words[i];
    return any != 0;
}

/* Computes softmax or log softmax of at most TILE interleaved rows. Element i of row j is x[i *
 * step + j], and likewise in y. Returns whether any probability is 0. The loops over k are the
 * three passes: maxima, exponentials and their sums, results. log softmax stores no exponentials,
 * and reads x again in the last pass. */
static bool softmax_across(const real *x, real *y, int64_t n, int64_t rows, int64_t step,
                           bool log_of)
{
    real max[TILE], e[TILE], last[TILE];
    double sum[TILE] = { 0 };
    lane_flags zeros = { 0 };
    interleaved_rows b = describe_rows(rows);
    const int64_t end = n * step, prefetched = rows_to_prefetch(n, rows);
    FOR_VECTORS(real, j, b.whole, max[j] = -(real)INFINITY;)
    for (int64_t k = 0; k < end; k += step) {
        prefetch_across(x + k + PREFETCH_DISTANCE * step, prefetched);
        larger_across(load_step(&b, x + k), max, b.whole);
    }
    for (int64_t k = 0; k < end; k += step) {
        const real *from = load_step(&b, x + k);
        real *to = log_of ? e : begin_step(&b, y + k);
        prefetch_across(x + k + PREFETCH_DISTANCE * step, prefetched);
        if (!log_of)
            prefetch_across(y + k + PREFETCH_DISTANCE * step, prefetched);
        exp_across(from, max, to, b.whole);
        add_across(to, NULL, sum, b.whole);
        if (!log_of)
            end_step(&b, y + k);
    }
    for (int64_t j = 0; j < b.whole; j++)
        last[j] = log_of ? (real)log(sum[j]) : (real)(1 / sum[j]);
    for (int64_t j = b.rows; j < b.whole; j++)
        last[j] = (real)NAN; /* what fills a vector must not look like a result of 0 */
    for (int64_t k = 0; k < end; k += step) {
        const real *from = load_step(&b, (log_of ? x : y) + k);
        real *to = begin_step(&b, y + k);
        prefetch_across(y + k + PREFETCH_DISTANCE * step, prefetched);
        if (log_of)
            FOR_VECTORS(real, j, b.whole, to[j] = from[j] - max[j] - last[j];)
        else
            for (int64_t j = 0; j < b.whole; j += VECTOR) {
                const vec p = *(const vec_at *)(from + j) * *(const vec_at *)(last + j);
                *(vec_at *)(to + j) = p;
                zeros |= (lane_flags)(p == (vec){ 0 });
            }
        end_step(&b, y + k);
    }
    return any_lane(zeros);
}

/* dx = dy - exp(y) sum of dy for log softmax, else y (dy - sum of y dy) */
static void softmax_grad_across(const real *y, const real *dy, real *dx, int64_t n, int64_t rows,
                                int64_t step, bool log_of)
{
    double total[TILE] = { 0 };
    real sum[TILE];
    interleaved_rows of_y = describe_rows(rows), of_dy = of_y;
    const int64_t end = n * step, whole = of_y.whole, prefetched = rows_to_prefetch(n, rows);
    for (int64_t k = 0; k < end; k += step) {
        prefetch_across(dy + k + PREFETCH_DISTANCE * step, prefetched);
        prefetch_across(y + k + PREFETCH_DISTANCE * step, prefetched);
        add_across(load_step(&of_dy, dy + k), log_of ? NULL : load_step(&of_y, y + k), total,
                   whole);
    }
    FOR_VECTORS(real, j, whole, sum[j] = (real)total[j];)
    for (int64_t k = 0; k < end; k += step) {
        const real *p = load_step(&of_y, y + k), *d = load_step(&of_dy, dy + k);
        real *to = begin_step(&of_y, dx + k);
        prefetch_across(dx + k + PREFETCH_DISTANCE * step, prefetched);
        if (log_of)
            FOR_VECTORS(real, j, whole, to[j] = d[j] - exp_negative(p[j]) * sum[j];)
        else
            FOR_VECTORS(real, j, whole, to[j] = p[j] * (d[j] - sum[j]);)
        end_step(&of_y, dx + k);
    }
}

/* Transposes short contiguous rows into whole vectors of interleaved rows, TILE apart. */
static void to_tile(const real *x, real *tile, int64_t n, int64_t rows)
{
    for (int64_t i = 0; i < n && rows % VECTOR != 0; i++)
        *(vec_at *)(tile + i * TILE + (rows & -VECTOR)) = (vec){ 0 };
    transpose(tile, TILE, x, n, 1, n, rows);
}

/* ---- Entries of the table -------------------------------------------------------------------- */

/* Returns how many interleaved rows to process next: whole vectors first, then the remaining rows,
 * which must be copied and padded. */
static int64_t rows_at_once(int64_t rows)
{
    return rows < VECTOR ? rows : rows & -VECTOR;
}

static void softmax_kernel(const br_softmax_work *w)
{
    const real *x = w->x;
    real *y = w->out, tile[SHORT_ROW * TILE], copy[SHORT_ROW * TILE];
    if (w->step != 1 && w->n > 1) {
        for (int64_t j = 0, rows; j < w->rows; j += rows) {
            rows = rows_at_once(w->rows - j);
            if (softmax_across(x + j, y + j, w->n, rows, w->step, w->log_of))
                add_denormals_across(x + j, y + j, w->n, rows, w->step);
        }
    } else if (w->n <= SHORT_ROW) {
        for (int64_t j = 0; j < w->rows; j += TILE) {
            int64_t rows = w->rows - j < TILE ? w->rows - j : TILE;
            to_tile(x + j * w->n, tile, w->n, rows);
            if (softmax_across(tile, tile, w->n, whole_vectors(rows), TILE, w->log_of)) {
                to_tile(x + j * w->n, copy, w->n, rows);
                add_denormals_across(copy, tile, w->n, rows, TILE);
            }
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
