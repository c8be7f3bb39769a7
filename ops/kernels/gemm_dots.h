/* ops/kernels/gemm_dots.h - few rows times a matrix whose columns lie in one piece each, or many
 * rows times few columns: dot products, read as they lie; part of variant.c, after gemm_tile.h.
 *
 * Blocks of DOT_ROWS x DOT_COLUMNS sums stay in registers, a vector each, while they run along k.
 * An element of C is the same sum in the same order in whichever block it stands. */
#ifndef BR_KERNELS_GEMM_DOTS_H
#define BR_KERNELS_GEMM_DOTS_H

#include "ops/kernels/gemm_tile.h"

/* Rows and columns of a block; where dot products pay (kernels.h), measured. */
#if defined(BR_KERNEL_SMALL)
enum { DOT_ROWS = 1, DOT_COLUMNS = VECTOR < 4 ? VECTOR : 4, DOT_LENGTH = 64, DOT_SQUARE = 0 };
#elif defined(__AVX512F__)
enum { DOT_ROWS = 5, DOT_COLUMNS = 5, DOT_LENGTH = 16, DOT_SQUARE = 10 };
#elif defined(__AVX__)
enum { DOT_ROWS = 3, DOT_COLUMNS = 4, DOT_LENGTH = 32, DOT_SQUARE = 0 };
#else
enum { DOT_ROWS = 2, DOT_COLUMNS = VECTOR < 4 ? VECTOR : 4, DOT_LENGTH = 16, DOT_SQUARE = 10 };
#endif
/* The products summed in vectors before they are put together, which keeps the error of long sums
 * small. */
enum { DOTS = DOT_ROWS * DOT_COLUMNS, DOT_RUN = 4096 };
/* Elements of a B that the first-level cache does not hold. */
enum { LARGE_B = (64 << 10) / sizeof(real) };

/* Whether sums of several rows can go straight from registers to C, which spares small products a
 * tenth of their time; f64 does without, for size. */
enum { STRAIGHT = sizeof(real) == sizeof(float) };
/* Vectors that the sums of a block are put together in. */
enum { DOT_VECTORS = (DOTS + VECTOR - 1) / VECTOR };

/* Halves the vectors: lane t of the result is KEPT + MOVED, lanes of a or, from VECTOR on, of b.
 * First within groups of 16 bytes, then by whole groups: other shuffles take longer. */
#define GROUP    (16 / (int)sizeof(real))
#define OF(b, t) ((b) ? VECTOR + (t) : (t))
#define IN_GROUP(w, t) \
    OF((t) / (w) % 2, (t) / GROUP * GROUP + (t) % GROUP / (2 * (w)) * (w) + (t) % (w))
#define BY_GROUPS(t) OF((t) >= VECTOR / 2, (t) % (VECTOR / 2) / GROUP * 2 * GROUP + (t) % GROUP)
#define KEPT(w, t)   ((w) < GROUP ? IN_GROUP(w, t) : BY_GROUPS(t))
#define MOVED(w, t)  (KEPT(w, t) + ((w) < GROUP ? GROUP / 2 : GROUP))
#define FOLD(lanes, w, count, row)                                                  \
    UNROLLED                                                                        \
    for (int i = 0; i < ((count) + (w)-1) / (w); i += 2) {                          \
        const vec a = row[i], b = row[i + 1 < ((count) + (w)-1) / (w) ? i + 1 : i]; \
        row[i / 2] = __builtin_shufflevector(a, b, INDEX_##lanes(KEPT, w, 0)) +     \
                     __builtin_shufflevector(a, b, INDEX_##lanes(MOVED, w, 0));     \
    }
#define FOLD_2(count, row) FOLD(2, 1, count, row)
#define FOLD_4(count, row) FOLD(4, 1, count, row) FOLD(4, 2, count, row)
#define FOLD_8(count, row) FOLD(8, 1, count, row) FOLD(8, 2, count, row) FOLD(8, 4, count, row)
#define FOLD_16(count, row) \
    FOLD(16, 1, count, row) FOLD(16, 2, count, row) FOLD(16, 4, count, row) FOLD(16, 8, count, row)
/* Lane i of the first vectors is the sum of the lanes of row[i]. */
#if defined(__AVX512F__)
#    define FOLD_ALL  BY_TYPE(FOLD_16, FOLD_8)
#    define INDEX_ALL BY_TYPE(INDEX_16, INDEX_8)
#elif defined(__AVX__)
#    define FOLD_ALL  BY_TYPE(FOLD_8, FOLD_4)
#    define INDEX_ALL BY_TYPE(INDEX_8, INDEX_4)
#else
#    define FOLD_ALL  BY_TYPE(FOLD_4, FOLD_2)
#    define INDEX_ALL BY_TYPE(INDEX_4, INDEX_2)
#endif

/* Where the rows and the columns of a block begin; beyond the last one that one is taken again. */
typedef struct dot_block {
    const real *row[DOT_ROWS], *column[DOT_COLUMNS];
} dot_block;

/* Where its sums go: to C, if `c` is not NULL, else they are added to `sum`. */
typedef struct dot_sums {
    vec sum[DOT_VECTORS];
    real *c;
    int64_t c_row, rows, columns; /* with `c`: of the block, those that C has */
} dot_sums;

/* Row i of a block's sums, which lie one behind the other, if C has it. */
#define BEHIND(lane, t) ((lane) + (t))
#define STORE_ROW(i, lanes, to)                                                                   \
    if ((i) < DOT_ROWS && (i) < (to)->rows)                                                       \
        store_part((to)->c + (i) * (to)->c_row,                                                   \
                   __builtin_shufflevector((lanes)[(i)*DOT_COLUMNS / VECTOR],                     \
                                           (lanes)[((i)*DOT_COLUMNS + DOT_COLUMNS - 1) / VECTOR], \
                                           INDEX_ALL(BEHIND, (i)*DOT_COLUMNS % VECTOR, 0)),       \
                   (to)->columns);

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
    vec a[DOT_ROWS];
    UNROLLED
    for (int i = 0; i < rows; i++)
        a[i] = load_at_most(at->row[i] + k, count);
    UNROLLED
    for (int j = 0; j < columns; j++) {
        const vec b = load_at_most(at->column[j] + k, count);
        UNROLLED
        for (int i = 0; i < rows; i++)
            lanes[i * columns + j] += a[i] * b;
    }
}

/* Sum i * columns + j is row i . column j, over products k .. k + count - 1, count being at most
 * DOT_RUN; what is behind the last sum in its vector changes too. `rows` and `columns` are
 * constants after inlining; one row has two sums of vectors for each of its own, since additions
 * that wait for each other take longer than memory. */
ALWAYS_INLINE void add_dots(int rows, int columns, const dot_block *at, int64_t k, int64_t count,
                            dot_sums *to)
{
    const int64_t step = rows == 1 ? 2 * VECTOR : VECTOR;
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
        if (rows == 1)
            add_products(1, columns, at, k + VECTOR, VECTOR, odd);
    }
    if (rows == 1 && k + VECTOR <= end) {
        add_products(1, columns, at, k, VECTOR, lanes);
        k += VECTOR;
    }
    if (k < end)
        add_products(rows, columns, at, k, end - k, lanes);
    if (rows == 1) {
        UNROLLED
        for (int j = 0; j < columns; j++)
            lanes[j] += odd[j];
    }
    FOLD_ALL(rows * columns, lanes)
    if (STRAIGHT && rows > 1 && to->c) {
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

/* What a row by one column gives is what it gives among others. */
static void dot_1(const dot_block *at, int64_t k, int64_t count, dot_sums *to)
{
    add_dots(1, 1, at, k, count, to);
}

static void dots_1(const dot_block *at, int64_t k, int64_t count, dot_sums *to)
{
    add_dots(1, DOT_COLUMNS, at, k, count, to);
}

static void dots_all(const dot_block *at, int64_t k, int64_t count, dot_sums *to)
{
    add_dots(DOT_ROWS, DOT_COLUMNS, at, k, count, to);
}

/* Sums of row i go to C. Columns are `apart`; 1 is known when it is inlined. */
ALWAYS_INLINE void store_sums(const br_gemm_block *g, int64_t i, int64_t j, const real *sum,
                              int64_t columns, int64_t apart)
{
    real *to = (real *)g->c + i * g->c_row + j;
    if (apart > 1) {
        for (int64_t c = 0; c < columns; c++, j += apart, to += apart) {
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

/* Rows of C from i on, columns j, j + apart, ... */
ALWAYS_INLINE void multiply_dots(const br_gemm_block *g, int64_t i, int64_t j, int64_t columns,
                                 int64_t apart)
{
    const int64_t rows = g->m - i < DOT_ROWS ? g->m - i : DOT_ROWS;
    const real *row = (const real *)g->a + i * g->a_row;
    const real *column = (const real *)g->b + j * g->b_col;
    dot_block at;
    UNROLLED
    for (int r = 0; r < DOT_ROWS; r++, row += r < rows ? g->a_row : 0)
        at.row[r] = row;
    UNROLLED
    for (int c = 0; c < DOT_COLUMNS; c++, column += c < columns ? apart * g->b_col : 0)
        at.column[c] = column;
    dot_sums to;
    if (STRAIGHT && rows > 1 && apart == 1 && g->k <= DOT_RUN && !g->bias && !g->accumulate) {
        to.c = (real *)g->c + i * g->c_row + j;
        to.c_row = g->c_row;
        to.rows = rows;
        to.columns = columns;
        dots_all(&at, 0, g->k, &to);
        return;
    }
    to = (dot_sums){ .c = NULL };
    dots_fn *dots = rows > 1 ? dots_all : columns > 1 ? dots_1 : dot_1;
    for (int64_t k = 0; k < g->k; k += DOT_RUN)
        dots(&at, k, g->k - k < DOT_RUN ? g->k - k : DOT_RUN, &to);
    for (int64_t r = 0; r < rows; r++)
        store_sums(g, i + r, j, (const real *)to.sum + r * DOT_COLUMNS, columns, apart);
}

static void dots_beside(const br_gemm_block *g, int64_t i, int64_t j)
{
    multiply_dots(g, i, j, g->n - j < DOT_COLUMNS ? g->n - j : DOT_COLUMNS, 1);
}

static void dots_apart(const br_gemm_block *g, int64_t i, int64_t j, int64_t apart)
{
    multiply_dots(g, i, j, DOT_COLUMNS, apart);
}

/* What there is less of is walked inside, so that it stays in the caches. Columns of a large B are
 * taken from far apart: each is read in one go to where the next one begins, and memory gives twice
 * as much so as where processors see several that are close to each other (AMD's Zen 4: 24 GB/s
 * for 11). */
static void gemm_dots(const br_gemm_block *g)
{
    if (g->m > g->n) {
        for (int64_t i = 0; i < g->m; i += DOT_ROWS)
            for (int64_t j = 0; j < g->n; j += DOT_COLUMNS)
                dots_beside(g, i, j);
        return;
    }
    const int64_t apart = g->n * g->k > LARGE_B ? g->n / DOT_COLUMNS : 0;
    for (int64_t j = 0; j < apart; j++)
        for (int64_t i = 0; i < g->m; i += DOT_ROWS)
            dots_apart(g, i, j, apart);
    for (int64_t j = apart * DOT_COLUMNS; j < g->n; j += DOT_COLUMNS)
        for (int64_t i = 0; i < g->m; i += DOT_ROWS)
            dots_beside(g, i, j);
}

#endif
