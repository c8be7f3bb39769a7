/* ops/kernels/gemm_wide.h - few rows of A, or a small B, which is read as it lies; part of
 * variant.c.
 *
 * A single row takes B row by row. A few make tiles of at most WIDE_ROWS rows and four vectors,
 * which load less for each product than those of gemm_tile.h and read B by longer runs; they ask
 * for no memory, since what else a tile does counts in batches of small products. An element of C
 * is the same sum in the same order as in those. */
#ifndef BR_KERNELS_GEMM_WIDE_H
#define BR_KERNELS_GEMM_WIDE_H

#include "ops/kernels/gemm_tile.h"

/* What C will be where a vector of sums goes. */
ALWAYS_INLINE vec finished(const br_gemm_block *g, const real *c, const real *bias, vec sum)
{
    if (g->accumulate)
        sum = *(const vec_at *)c + sum;
    if (bias)
        sum += *(const vec_at *)bias;
    return sum;
}

/* Sums so short that writing C takes longer, and a C that the second-level cache does not hold. */
static bool few_steps(const br_gemm_block *g)
{
    return MASKS && g->k <= 8 && g->m * g->n > (512 << 10) / (int64_t)sizeof(real);
}

/* ---- One row --------------------------------------------------------------------------------- */

enum { ROW_STEP = 8, ROW_COLUMNS = 2048 };

/* sum[j] += a[0] b[0, j] + a[1] b[1, j] + ..., one after the other. `steps` is a constant after
 * inlining. */
ALWAYS_INLINE void add_b_rows(int steps, const br_gemm_block *g, const real *a, const real *b,
                              int64_t vectors, vec *sum)
{
    vec x[ROW_STEP];
    UNROLLED
    for (int p = 0; p < steps; p++)
        x[p] = (vec){ 0 } + a[p * g->a_col];
    for (int64_t j = 0; j < vectors; j++) {
        vec v = sum[j];
        UNROLLED
        for (int p = 0; p < steps; p++)
            v += x[p] * *(const vec_at *)(b + p * g->b_row + j * VECTOR);
        sum[j] = v;
    }
}

/* One row of A times the columns of B that fill vectors; returns their number. Each row of B is
 * read in one go, some at a time. */
static int64_t gemm_row(const br_gemm_block *g)
{
    vec sum[ROW_COLUMNS / VECTOR];
    const int64_t columns = g->n / VECTOR * VECTOR;
    for (int64_t from = 0; from < columns; from += ROW_COLUMNS) {
        const int64_t left = (columns - from) / VECTOR;
        const int64_t vectors = left < ROW_COLUMNS / VECTOR ? left : ROW_COLUMNS / VECTOR;
        const real *a = g->a, *b = (const real *)g->b + from;
        memset(sum, 0, (size_t)vectors * sizeof *sum);
        int64_t k = g->k;
        for (; k >= ROW_STEP; k -= ROW_STEP, a += ROW_STEP * g->a_col, b += ROW_STEP * g->b_row)
            add_b_rows(ROW_STEP, g, a, b, vectors, sum);
        for (; k > 0; k--, a += g->a_col, b += g->b_row)
            add_b_rows(1, g, a, b, vectors, sum);
        real *c = (real *)g->c + from;
        const real *bias = bias_from(g, from);
        for (int64_t j = 0; j < vectors; j++, c += VECTOR)
            *(vec_at *)c = finished(g, c, bias ? bias + j * VECTOR : NULL, sum[j]);
    }
    return columns;
}

/* ---- Few rows, or a small B ------------------------------------------------------------------ */

#if defined(__AVX512F__) && !defined(BR_KERNEL_SMALL)

enum {
    WIDE_ROWS = 6,
    WIDE_VECTORS = 4,
    WIDE_COLUMNS = WIDE_VECTORS * VECTOR,
    FAR_STEPS = 32, /* along k that are made at a time where B lies in memory */
    FAR_SUMS = 96,  /* rows of tiles that are kept meanwhile */
};

/* What a tile of a B that lies in memory has beside its place: where the sums come from, if not
 * from 0, and where they go, if not to C; and what is asked for, as many lines as are read. */
typedef struct far_part {
    int64_t k;
    vec (*from)[WIDE_VECTORS], (*to)[WIDE_VECTORS];
    prefetch *next;
} far_part;

/* `rows` and whether `part` is NULL are constants after inlining. With `stream` C goes past the
 * caches. */
ALWAYS_INLINE void wide_tile(int rows, const br_gemm_block *g, const real *a, const real *b,
                             real *c, const real *bias, bool stream, const far_part *part)
{
    const int64_t a_row = g->a_row, a_col = g->a_col, b_row = g->b_row, c_row = g->c_row;
    vec sum[WIDE_ROWS][WIDE_VECTORS];
    UNROLLED
    for (int i = 0; i < rows; i++) {
        UNROLLED
        for (int v = 0; v < WIDE_VECTORS; v++)
            sum[i][v] = part && part->from ? part->from[i][v] : (vec){ 0 };
    }
    const real *a_at[] = { a, a + 3 * a_row };
    for (int64_t k = part ? part->k : g->k; k > 0; k--, b += b_row) {
        vec row[WIDE_VECTORS];
        UNROLLED
        for (int v = 0; v < WIDE_VECTORS; v++)
            row[v] = *(const vec_at *)(b + v * VECTOR);
        if (part)
            prefetch_lines(part->next, WIDE_VECTORS);
        UNROLLED
        for (int i = 0; i < rows; i++) {
            const real x = a_at[i / 3][i % 3 * a_row];
            UNROLLED
            for (int v = 0; v < WIDE_VECTORS; v++)
                sum[i][v] += x * row[v];
        }
        a_at[0] += a_col;
        a_at[1] += a_col;
    }
    UNROLLED
    for (int i = 0; i < rows; i++, c += c_row) {
        UNROLLED
        for (int v = 0; v < WIDE_VECTORS; v++) {
            real *to = c + v * VECTOR;
            const vec done = finished(g, to, bias ? bias + v * VECTOR : NULL, sum[i][v]);
            if (part && part->to)
                part->to[i][v] = sum[i][v];
            else if (!part && stream)
                _mm512_stream_ps(to, (__m512)done);
            else
                *(vec_at *)to = done;
        }
    }
}

#    define WIDE_TILE(rows)                                                                \
        static void wide_tile_##rows(const br_gemm_block *g, const real *a, const real *b, \
                                     real *c, const real *bias, bool stream)               \
        {                                                                                  \
            wide_tile(rows, g, a, b, c, bias, stream, NULL);                               \
        }
#    define FAR_TILE(rows)                                                                         \
        static void far_tile_##rows(const br_gemm_block *g, const real *a, const real *b, real *c, \
                                    const real *bias, const far_part *part)                        \
        {                                                                                          \
            wide_tile(rows, g, a, b, c, bias, false, part);                                        \
        }
WIDE_TILE(1)
WIDE_TILE(2)
WIDE_TILE(3)
WIDE_TILE(4)
WIDE_TILE(5)
WIDE_TILE(6)
FAR_TILE(1)
FAR_TILE(3)
FAR_TILE(5)

typedef void wide_tile_fn(const br_gemm_block *g, const real *a, const real *b, real *c,
                          const real *bias, bool stream);
typedef void far_tile_fn(const br_gemm_block *g, const real *a, const real *b, real *c,
                         const real *bias, const far_part *part);
static wide_tile_fn *const wide_tiles[WIDE_ROWS] = { wide_tile_1, wide_tile_2, wide_tile_3,
                                                     wide_tile_4, wide_tile_5, wide_tile_6 };

/* Of these heights rows are made up where B lies in memory, which takes longer than its sums. */
static const struct {
    int64_t rows;
    far_tile_fn *multiply;
} far_tiles[] = { { 5, far_tile_5 }, { 3, far_tile_3 }, { 1, far_tile_1 } };

static int64_t at_most(int64_t n, int64_t most)
{
    return n < most ? n : most;
}

/* Whole tiles of columns from j on of a B that lies in memory: some side by side go down it
 * together, so that it is read by rows as long as they are, and asked for in that order. Returns
 * how many columns they are. */
static int64_t multiply_far(const br_gemm_block *g, int64_t j)
{
    vec sums[FAR_SUMS][WIDE_VECTORS];
    const int64_t tiles = at_most((g->n - j) / WIDE_COLUMNS, FAR_SUMS / g->m);
    for (int64_t p = 0, steps; p < g->k; p += steps) {
        steps = at_most(g->k - p, FAR_STEPS);
        const int64_t left = g->k - p - steps;
        const real *b = (const real *)g->b + p * g->b_row + j;
        const br_runs rest = { .at = (const char *)(b + steps * g->b_row),
                               .bytes = tiles * WIDE_COLUMNS * (int64_t)sizeof(real),
                               .step = g->b_row * (int64_t)sizeof(real) };
        prefetch next = prefetch_runs(&rest, 0, at_most(left, FAR_STEPS)), none = { 0 };
        for (int64_t t = 0; t < tiles; t++)
            for (int64_t i = 0, h = 0; i < g->m; i += far_tiles[h].rows) {
                while (far_tiles[h].rows > g->m - i)
                    h++;
                const int64_t at = j + t * WIDE_COLUMNS;
                vec(*sum)[WIDE_VECTORS] = sums + t * g->m + i;
                const far_part part = { steps, p > 0 ? sum : NULL, left > 0 ? sum : NULL,
                                        i == 0 ? &next : &none };
                far_tiles[h].multiply(g, (const real *)g->a + i * g->a_row + p * g->a_col,
                                      b + t * WIDE_COLUMNS, (real *)g->c + i * g->c_row + at,
                                      bias_from(g, at), &part);
            }
    }
    return tiles * WIDE_COLUMNS;
}

/* Rows i .. end - 1 of the tiles in column j. */
static void multiply_wide(const br_gemm_block *g, int64_t i, int64_t end, int64_t j, int64_t height,
                          bool stream)
{
    const real *a = (const real *)g->a + i * g->a_row, *b = (const real *)g->b + j;
    const real *bias = bias_from(g, j);
    real *c = (real *)g->c + i * g->c_row + j;
    for (int64_t rows; i < end; i += rows) {
        rows = at_most(end - i, height);
        wide_tiles[rows - 1](g, a, b, c, bias, stream);
        a += rows * g->a_row;
        c += rows * g->c_row;
    }
}

/* Where writing C takes longest: by rows of it. What nobody reads soon need not be read first, nor
 * take others' place in the caches. */
static void multiply_by_rows_of_c(const br_gemm_block *g, int64_t columns, int64_t height)
{
    const bool stream =
        !g->accumulate && ((uintptr_t)g->c | (uintptr_t)g->c_row * sizeof(real)) % 64 == 0;
    for (int64_t i = 0; i < g->m; i += height)
        for (int64_t j = 0; j < columns; j += WIDE_COLUMNS)
            multiply_wide(g, i, at_most(g->m, i + height), j, height, stream);
    _mm_sfence();
}

/* The columns that whole tiles have; returns their number. */
static int64_t gemm_wide(const br_gemm_block *g)
{
    if (g->a_tile != TILE_ROWS * g->a_row) /* A is packed for other tiles */
        return 0;
    /* Rows are shared evenly: tiles of few rows wait for their own sums. */
    const int64_t tiles = (g->m + WIDE_ROWS - 1) / WIDE_ROWS, height = (g->m + tiles - 1) / tiles;
    const int64_t columns = g->n / WIDE_COLUMNS * WIDE_COLUMNS;
    int64_t j = 0;
    if (few_steps(g)) {
        multiply_by_rows_of_c(g, columns, height);
        return columns;
    }
    if (g->far && g->m <= 2 * TILE_ROWS && g->k > FAR_STEPS)
        while (j < columns)
            j += multiply_far(g, j);
    for (; j < columns; j += WIDE_COLUMNS)
        multiply_wide(g, 0, g->m, j, height, false);
    return columns;
}

#else

static int64_t gemm_wide(const br_gemm_block *g)
{
    (void)g;
    return 0;
}

#endif

#endif
