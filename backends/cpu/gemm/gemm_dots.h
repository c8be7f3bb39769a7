/* backends/cpu/gemm/gemm_dots.h - matrix products by dot products of contiguous rows of A and
 * contiguous columns of B, without packing, for few rows or few columns; part of variant.c and
 * gemm_stored.c.
 *
 * Blocks of DOT_ROWS x DOT_COLUMNS accumulators, one vector each, stay in registers during the loop
 * over k. An element of C is the same sum in the same order in any product with several rows; a
 * product with a single row adds in another order. */
#ifndef BR_KERNELS_GEMM_DOTS_H
#define BR_KERNELS_GEMM_DOTS_H

#include "backends/cpu/gemm/gemm_numbers.h"
#include "backends/cpu/gemm/gemm_shuffle.h"
#include "backends/cpu/gemm/gemm_tile.h"

/* Rows and columns of a register block, and the measured thresholds of dot_length and dot_square in
 * br_gemm_kernels. */
#if defined(__AVX512F__)
enum { DOT_ROWS = 5, DOT_COLUMNS = 5, DOT_LENGTH = 16, DOT_SQUARE = 10 };
#elif defined(__AVX__)
enum { DOT_ROWS = 3, DOT_COLUMNS = 4, DOT_LENGTH = 32, DOT_SQUARE = 0 };
#else
enum { DOT_ROWS = 2, DOT_COLUMNS = VECTOR < 4 ? VECTOR : 4, DOT_LENGTH = 16, DOT_SQUARE = 10 };
#endif
/* DOT_RUN is the maximum number of products summed in vectors before the lanes are added up. The
 * limit keeps the rounding error of long sums small. */
enum { DOTS = DOT_ROWS * DOT_COLUMNS, DOT_RUN = 4096 };
/* A matrix B with more elements than this does not fit in the L1 cache. */
enum { LARGE_B = (64 << 10) / sizeof(stored_real) }; /* 64 KiB */

/* Vectors that hold the horizontal sums of a block. */
enum { DOT_VECTORS = (DOTS + VECTOR - 1) / VECTOR };

/* The starts of the rows and columns of a block. At the edges of C, the last row or column is
 * repeated. */
typedef struct dot_block {
    const stored_real *row[DOT_ROWS], *column[DOT_COLUMNS];
} dot_block;

/* The destination of a block's sums. They are stored to C if `c` is not NULL, and otherwise added
 * to `sum`. */
typedef struct dot_sums {
    vec sum[DOT_VECTORS];
    real *c;
    int64_t c_row, rows, columns; /* with `c`: rows and columns of the block inside C */
} dot_sums;

/* Stores row i of a block's sums, which are consecutive lanes, if the row is inside C. The sums of
 * a row may be in two vectors, from which a shuffle takes them. This is a macro, because the lanes
 * of a shuffle must be constant expressions. With AVX-512 and f32, STORE_ROW(3, lanes, to) is
 *
 *     if (3 < to->rows) // sums 15 .. 19: lane 15 of lanes[0], then lanes 0 .. 3 of lanes[1]
 *         store_part(to->c + 3 * to->c_row,
 *                    __builtin_shufflevector(lanes[0], lanes[1], 15, 16, ..., 30), to->columns);
 */
#define STORE_ROW(i, lanes, to)                                                                   \
    if ((i) < DOT_ROWS && (i) < (to)->rows)                                                       \
        store_part((to)->c + (i) * (to)->c_row,                                                   \
                   __builtin_shufflevector((lanes)[(i)*DOT_COLUMNS / VECTOR],                     \
                                           (lanes)[((i)*DOT_COLUMNS + DOT_COLUMNS - 1) / VECTOR], \
                                           FROM((i)*DOT_COLUMNS % VECTOR)),                       \
                   (to)->columns);

/* Loads `count` elements, or a whole vector if `count` is larger. */
ALWAYS_INLINE vec load_up_to(const stored_real *from, int64_t count)
{
    if (count >= VECTOR)
        return load_numbers(from);
    return load_part_of_numbers(from, count);
}

/* Adds the products of each row and each column to `lanes`, for `count` elements from k on. `count`
 * is at most VECTOR. */
ALWAYS_INLINE void add_products(int rows, int columns, const dot_block *at, int64_t k,
                                int64_t count, vec *lanes)
{
    vec a[DOT_ROWS];
    UNROLLED
    for (int i = 0; i < rows; i++)
        a[i] = load_up_to(at->row[i] + k, count);
    UNROLLED
    for (int j = 0; j < columns; j++) {
        const vec b = load_up_to(at->column[j] + k, count);
        UNROLLED
        for (int i = 0; i < rows; i++)
            lanes[i * columns + j] += a[i] * b;
    }
}

/* Computes the dot product of row i and column j, over products k .. k + count - 1, as sum i *
 * columns + j. `count` is at most DOT_RUN. Unused lanes after the last sum are overwritten, too.
 * `rows`, `columns` and `two_chains` are constants after inlining. If a product has a single row,
 * each dot product uses two accumulators, since one chain of dependent additions would take longer
 * than reading memory. */
ALWAYS_INLINE void add_dots(int rows, int columns, bool two_chains, const dot_block *at, int64_t k,
                            int64_t count, dot_sums *to)
{
    const int64_t step = two_chains ? 2 * VECTOR : VECTOR;
    vec lanes[DOTS], odd[DOT_COLUMNS];
    UNROLLED
    for (int j = 0; j < columns; j++) {
        odd[j] = (vec){ 0 };
        UNROLLED
        for (int i = 0; i < rows; i++)
            lanes[i * columns + j] = (vec){ 0 };
    }
    const int64_t end = k + count;
    for (; k + step <= end; k += step) {
        add_products(rows, columns, at, k, VECTOR, lanes);
        if (two_chains)
            add_products(1, columns, at, k + VECTOR, VECTOR, odd);
    }
    if (two_chains && k + VECTOR <= end) {
        add_products(1, columns, at, k, VECTOR, lanes);
        k += VECTOR;
    }
    if (k < end)
        add_products(rows, columns, at, k, end - k, lanes);
    if (two_chains) {
        UNROLLED
        for (int j = 0; j < columns; j++)
            lanes[j] += odd[j];
    }
    add_lanes(rows * columns, lanes);
    if (rows > 1 && to->c) {
        STORE_ROW(0, lanes, to)
        STORE_ROW(1, lanes, to)
        STORE_ROW(2, lanes, to)
        STORE_ROW(3, lanes, to)
        STORE_ROW(4, lanes, to)
        return;
    }
    UNROLLED
    for (int i = 0; i * VECTOR < rows * columns; i++)
        to->sum[i] += lanes[i];
}

typedef void dots_fn(const dot_block *at, int64_t k, int64_t count, dot_sums *to);

/* Computes one dot product, with the same result as a block of several columns. */
static void dot_1(const dot_block *at, int64_t k, int64_t count, dot_sums *to)
{
    add_dots(1, 1, true, at, k, count, to);
}

static void dots_1(const dot_block *at, int64_t k, int64_t count, dot_sums *to)
{
    add_dots(1, DOT_COLUMNS, true, at, k, count, to);
}

/* Computes the last row of a product with several rows, with the same sums as in a whole block. */
static void dots_last(const dot_block *at, int64_t k, int64_t count, dot_sums *to)
{
    add_dots(1, DOT_COLUMNS, false, at, k, count, to);
}

static void dots_all(const dot_block *at, int64_t k, int64_t count, dot_sums *to)
{
    add_dots(DOT_ROWS, DOT_COLUMNS, false, at, k, count, to);
}

/* Stores the sums of row i to columns j, j + apart, ... of C. If `column_step` is 1, it is a
 * constant after inlining. */
ALWAYS_INLINE void store_sums(const br_gemm_block *g, int64_t i, int64_t j, const real *sum,
                              int64_t columns, int64_t column_step)
{
    real *to = (real *)g->c + i * g->c_row + j;
    if (column_step > 1) {
        for (int64_t c = 0; c < columns; c++, j += column_step, to += column_step) {
            const real v = g->bias ? sum[c] + ((const real *)g->bias)[j] : sum[c];
            *to = g->accumulate ? v + *to : v;
        }
        return;
    }
    vec v = load_part(sum, columns);
    if (g->bias)
        v += load_part((const real *)g->bias + j, columns);
    if (g->accumulate)
        v += load_part(to, columns);
    store_part(to, v, columns);
}

/* Computes a block of C: up to DOT_ROWS rows from row i on, and columns j, j + apart, ... */
ALWAYS_INLINE void multiply_dots(const br_gemm_block *g, int64_t i, int64_t j, int64_t columns,
                                 int64_t column_step)
{
    const int64_t rows = g->m - i < DOT_ROWS ? g->m - i : DOT_ROWS;
    const stored_real *row = (const stored_real *)g->a + i * g->a_row;
    const stored_real *column = (const stored_real *)g->b + j * g->b_col;
    dot_block at;
    UNROLLED
    for (int r = 0; r < DOT_ROWS; r++, row += r < rows ? g->a_row : 0)
        at.row[r] = row;
    UNROLLED
    for (int c = 0; c < DOT_COLUMNS; c++, column += c < columns ? column_step * g->b_col : 0)
        at.column[c] = column;
    dot_sums to;
    if (rows > 1 && column_step == 1 && g->k <= DOT_RUN && !g->bias && !g->accumulate) {
        to.c = (real *)g->c + i * g->c_row + j;
        to.c_row = g->c_row;
        to.rows = rows;
        to.columns = columns;
        dots_all(&at, 0, g->k, &to);
        return;
    }
    to = (dot_sums){ .c = NULL };
    dots_fn *dots = rows > 1 ? dots_all : g->is_part ? dots_last : columns > 1 ? dots_1 : dot_1;
    for (int64_t k = 0; k < g->k; k += DOT_RUN)
        dots(&at, k, g->k - k < DOT_RUN ? g->k - k : DOT_RUN, &to);
    for (int64_t r = 0; r < rows; r++)
        store_sums(g, i + r, j, (const real *)to.sum + r * DOT_COLUMNS, columns, column_step);
}

static void dots_adjacent(const br_gemm_block *g, int64_t i, int64_t j)
{
    multiply_dots(g, i, j, g->n - j < DOT_COLUMNS ? g->n - j : DOT_COLUMNS, 1);
}

static void dots_strided(const br_gemm_block *g, int64_t i, int64_t j, int64_t column_step)
{
    multiply_dots(g, i, j, DOT_COLUMNS, column_step);
}

/* The inner loop runs over the rows or the columns, whichever are fewer, so that they stay in the
 * caches. If B is large, a block takes columns that are far apart. Over all blocks, each of these
 * streams then reads its part of B sequentially. Memory bandwidth is twice that of streams that are
 * close to each other (AMD Zen 4: 24 GB/s instead of 11). */
static void gemm_dots(const br_gemm_block *g)
{
    if (g->m > g->n) {
        for (int64_t i = 0; i < g->m; i += DOT_ROWS)
            for (int64_t j = 0; j < g->n; j += DOT_COLUMNS)
                dots_adjacent(g, i, j);
        return;
    }
    const int64_t column_step = g->n * g->k > LARGE_B ? g->n / DOT_COLUMNS : 0;
    for (int64_t j = 0; j < column_step; j++)
        for (int64_t i = 0; i < g->m; i += DOT_ROWS)
            dots_strided(g, i, j, column_step);
    for (int64_t j = column_step * DOT_COLUMNS; j < g->n; j += DOT_COLUMNS)
        for (int64_t i = 0; i < g->m; i += DOT_ROWS)
            dots_adjacent(g, i, j);
}

#endif
