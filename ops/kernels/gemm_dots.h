/* ops/kernels/gemm_dots.h - few rows times a matrix whose columns lie in one piece each, or many
 * rows times few columns: dot products, read as they lie; part of variant.c, after gemm_tile.h.
 *
 * Blocks of DOT_ROWS x DOT_COLUMNS sums stay in registers, a vector each, while they run along k.
 * An element of C is the same sum in the same order in whichever block it stands. */
#ifndef BR_KERNELS_GEMM_DOTS_H
#define BR_KERNELS_GEMM_DOTS_H

#include "ops/kernels/gemm_tile.h"

#if defined(__AVX512F__)
enum { DOT_ROWS = 4 };
#else
enum { DOT_ROWS = 2 };
#endif
/* Columns side by side, and the products summed in vectors before they are put together, which
 * keeps the error of long sums small. */
enum { DOT_COLUMNS = 4, DOTS = DOT_ROWS * DOT_COLUMNS, DOT_RUN = 4096 };

/* Lane i of the result is the sum of the lanes of row[i]: a transpose whose rows are added as they
 * come to be. */
#define FOLD(lanes, w, row)                                                                      \
    UNROLLED                                                                                     \
    for (int low = 0; low < (w); low++)                                                          \
        row[low] = __builtin_shufflevector(row[low], row[low + (w)], INDEX_##lanes(LOW, w, 0)) + \
                   __builtin_shufflevector(row[low], row[low + (w)], INDEX_##lanes(HIGH, w, 0));
#define FOLD_2(row)  FOLD(2, 1, row)
#define FOLD_4(row)  FOLD(4, 2, row) FOLD(4, 1, row)
#define FOLD_8(row)  FOLD(8, 4, row) FOLD(8, 2, row) FOLD(8, 1, row)
#define FOLD_16(row) FOLD(16, 8, row) FOLD(16, 4, row) FOLD(16, 2, row) FOLD(16, 1, row)
#if defined(__AVX512F__)
#    define FOLD_ALL BY_TYPE(FOLD_16, FOLD_8)
#elif defined(__AVX__)
#    define FOLD_ALL BY_TYPE(FOLD_8, FOLD_4)
#else
#    define FOLD_ALL BY_TYPE(FOLD_4, FOLD_2)
#endif

/* Where the rows and the columns of a block begin; beyond the last one that one is taken again. */
typedef struct dot_block {
    const real *row[DOT_ROWS], *column[DOT_COLUMNS];
} dot_block;

ALWAYS_INLINE vec load_at_most(const real *from, int64_t count)
{
    if (count >= VECTOR)
        return *(const vec_at *)from;
    return load_part(from, count);
}

/* `count` elements, a vector or less, of each row by each column, from k on. */
ALWAYS_INLINE void add_products(int rows, int columns, const dot_block *at, int64_t k,
                                int64_t count, vec *lanes)
{
    vec b[DOT_COLUMNS];
    UNROLLED
    for (int j = 0; j < columns; j++)
        b[j] = load_at_most(at->column[j] + k, count);
    UNROLLED
    for (int i = 0; i < rows; i++) {
        const vec a = load_at_most(at->row[i] + k, count);
        UNROLLED
        for (int j = 0; j < columns; j++)
            lanes[i * DOT_COLUMNS + j] += a * b[j];
    }
}

/* sum[i * DOT_COLUMNS + j] += row i . column j, over products k .. k + count - 1, count being at
 * most DOT_RUN. `rows` and `columns` are constants after inlining; one row has two sums of vectors
 * for each of its own, since additions that wait for each other take longer than memory. */
ALWAYS_INLINE void add_dots(int rows, int columns, const dot_block *at, int64_t k, int64_t count,
                            real *sum)
{
    enum { SUMS = (int)DOTS < (int)VECTOR ? (int)VECTOR : (int)DOTS };
    const int64_t step = rows == 1 ? 2 * VECTOR : VECTOR;
    vec lanes[SUMS], odd[DOT_COLUMNS];
    UNROLLED
    for (int i = 0; i < SUMS; i++)
        lanes[i] = (vec){ 0 };
    UNROLLED
    for (int j = 0; j < DOT_COLUMNS; j++)
        odd[j] = (vec){ 0 };
    const int64_t end = k + count;
    for (; k + step <= end; k += step) {
        add_products(rows, columns, at, k, VECTOR, lanes);
        if (rows == 1)
            add_products(1, columns, at, k + VECTOR, VECTOR, odd);
    }
    if (rows == 1 && k + VECTOR <= end) {
        add_products(1, columns, at, k, VECTOR, lanes);
        k += VECTOR;
    }
    if (k < end)
        add_products(rows, columns, at, k, end - k, lanes);
    if (rows == 1)
        UNROLLED
    for (int j = 0; j < DOT_COLUMNS; j++)
        lanes[j] += odd[j];
    UNROLLED
    for (int i = 0; i < rows * DOT_COLUMNS; i += VECTOR) {
        vec *row = lanes + i;
        FOLD_ALL(row)
        for (int lane = 0; lane < VECTOR && i + lane < rows * DOT_COLUMNS; lane++)
            sum[i + lane] += row[0][lane];
    }
}

typedef void dots_fn(const dot_block *at, int64_t k, int64_t count, real *sum);

/* What a row by one column gives is what it gives among others. */
static void dot_1(const dot_block *at, int64_t k, int64_t count, real *sum)
{
    add_dots(1, 1, at, k, count, sum);
}

static void dots_1(const dot_block *at, int64_t k, int64_t count, real *sum)
{
    add_dots(1, DOT_COLUMNS, at, k, count, sum);
}

static void dots_all(const dot_block *at, int64_t k, int64_t count, real *sum)
{
    add_dots(DOT_ROWS, DOT_COLUMNS, at, k, count, sum);
}

/* Sums of a row of a block go to C. */
ALWAYS_INLINE void store_sums(const br_gemm_block *g, int64_t i, int64_t j, const real *sum,
                              int64_t columns)
{
    const real *bias = (const real *)g->bias + j;
    real *to = (real *)g->c + i * g->c_row + j;
    if (columns == DOT_COLUMNS) {
        quad v = *(const quad_at *)sum;
        if (g->bias)
            v += *(const quad_at *)bias;
        if (g->accumulate)
            v += *(quad_at *)to;
        *(quad_at *)to = v;
        return;
    }
    for (int64_t c = 0; c < columns; c++) {
        const real v = g->bias ? sum[c] + bias[c] : sum[c];
        to[c] = g->accumulate ? to[c] + v : v;
    }
}

/* Rows of C from i on, columns from j on. */
static void multiply_dots(const br_gemm_block *g, int64_t i, int64_t j)
{
    const int64_t rows = g->m - i < DOT_ROWS ? g->m - i : DOT_ROWS;
    const int64_t columns = g->n - j < DOT_COLUMNS ? g->n - j : DOT_COLUMNS;
    const real *row = (const real *)g->a + i * g->a_row;
    const real *column = (const real *)g->b + j * g->b_col;
    dot_block at;
    UNROLLED
    for (int r = 0; r < DOT_ROWS; r++, row += r < rows ? g->a_row : 0)
        at.row[r] = row;
    UNROLLED
    for (int c = 0; c < DOT_COLUMNS; c++, column += c < columns ? g->b_col : 0)
        at.column[c] = column;
    real sum[DOTS] = { 0 };
    dots_fn *dots = rows > 1 ? dots_all : columns > 1 ? dots_1 : dot_1;
    for (int64_t k = 0; k < g->k; k += DOT_RUN)
        dots(&at, k, g->k - k < DOT_RUN ? g->k - k : DOT_RUN, sum);
    for (int64_t r = 0; r < rows; r++)
        store_sums(g, i + r, j, sum + r * DOT_COLUMNS, columns);
}

/* What there is less of is walked inside, so that it stays in the caches. */
static void gemm_dots(const br_gemm_block *g)
{
    if (g->m <= g->n) {
        for (int64_t j = 0; j < g->n; j += DOT_COLUMNS)
            for (int64_t i = 0; i < g->m; i += DOT_ROWS)
                multiply_dots(g, i, j);
    } else {
        for (int64_t i = 0; i < g->m; i += DOT_ROWS)
            for (int64_t j = 0; j < g->n; j += DOT_COLUMNS)
                multiply_dots(g, i, j);
    }
}

#endif
