/* backends/cpu/gemm/gemm_wide.h - products with few rows of A or with a small B, which read B in
 * place; part of variant.c and gemm_stored.c.
 *
 * A single row of A, or a few rows if the numbers of B have 16 bits, are multiplied by B row by
 * row. In f32 and f64 several rows form tiles of at most WIDE_ROWS rows and four vectors, which
 * need fewer loads per product than the tiles of gemm_tile.h and read longer runs of B. If B is in
 * the cache, they do not prefetch, because any overhead is noticeable in batches of small products.
 * An element of C is the same sum in the same order as in gemm_tile.h. */
#ifndef BR_KERNELS_GEMM_WIDE_H
#define BR_KERNELS_GEMM_WIDE_H

#include "backends/cpu/gemm/gemm_numbers.h"
#include "backends/cpu/gemm/gemm_tile.h"

/* Returns the vector to store to C: the sums, plus the old C and the bias if there are any. */
ALWAYS_INLINE vec finished(const br_gemm_block *g, const real *c, const real *bias, vec sum)
{
    if (g->accumulate)
        sum = *(const vec_at *)c + sum;
    if (bias)
        sum += *(const vec_at *)bias;
    return sum;
}

/* Returns whether k is so small that writing C takes most of the time, and C, with more than 512
 * KiB, does not stay in the L2 cache. */
static bool few_steps(const br_gemm_block *g)
{
    return MASKS && g->k <= 8 && g->m * g->n > (512 << 10) / (int64_t)sizeof(real);
}

/* ---- Row by row ------------------------------------------------------------------------------ */

/* Rows of B that are read together, and columns of a run, times the rows of A, whose sums (8 KiB
 * for f32) stay in the L1 cache. */
enum { ROW_STEP = 8, ROW_COLUMNS = 2048 };

/* sum[i, j] += a[i, 0] b[0, j] + a[i, 1] b[1, j] + ..., added in this order. `rows`, which is 1 or
 * 2, and `steps` are constants after inlining. */
ALWAYS_INLINE void add_b_rows(int rows, int steps, const br_gemm_block *g, const real *a,
                              const stored_real *b, int64_t vectors, vec *sum, prefetch *next)
{
    vec x[2][ROW_STEP];
    UNROLLED
    for (int p = 0; p < rows * steps; p++)
        x[p / steps][p % steps] = (vec){ 0 } + a[p / steps * g->a_row + p % steps * g->a_col];
    for (int64_t j = 0; j < vectors; j++) {
        if (sizeof(stored_real) < sizeof(real) && steps == ROW_STEP)
            prefetch_lines(next, (int)(ROW_STEP * VECTOR * sizeof(stored_real) / 64));
        vec v[2] = { sum[j], rows > 1 ? sum[vectors + j] : sum[j] };
        UNROLLED
        for (int p = 0; p < steps; p++) {
            const stored_real *at = b + p * g->b_row + j * VECTOR;
            const vec row = load_numbers(at);
            UNROLLED
            for (int i = 0; i < rows; i++)
                v[i] += x[i][p] * row;
        }
        UNROLLED
        for (int i = 0; i < rows; i++)
            sum[i * vectors + j] = v[i];
    }
}

/* Does the same for all rows of A. Rows of 16-bit numbers are too short for the processor's own
 * prefetching, so the next rows are prefetched. */
ALWAYS_INLINE void add_b_rows_to_all(int steps, const br_gemm_block *g, const real *a,
                                     const stored_real *b, int64_t vectors, vec *sum)
{
    const int64_t size = sizeof *b;
    const br_strided_rows rows = { .at = (const char *)(b + steps * g->b_row),
                                   .bytes = vectors * VECTOR * size,
                                   .step = g->b_row * size };
    prefetch next = prefetch_runs(&rows, 0, steps);
    int64_t i = 0;
    for (; i + 2 <= g->m; i += 2)
        add_b_rows(2, steps, g, a + i * g->a_row, b, vectors, sum + i * vectors, &next);
    if (i < g->m)
        add_b_rows(1, steps, g, a + i * g->a_row, b, vectors, sum + i * vectors, &next);
}

/* Multiplies a few rows of A by the columns of B that fill whole vectors. Returns the number of
 * columns. Reads ROW_STEP rows of B at a time, in runs of up to ROW_COLUMNS / m columns, once for
 * two rows of A. */
static int64_t gemm_rows(const br_gemm_block *g)
{
    vec sums[ROW_COLUMNS / VECTOR];
    const int64_t columns = g->n / VECTOR * VECTOR, longest = ROW_COLUMNS / VECTOR / g->m;
    const int64_t runs = (columns / VECTOR + longest - 1) / longest;
    const int64_t run = runs > 0 ? (columns / VECTOR + runs - 1) / runs : 1;
    for (int64_t from = 0; from < columns; from += run * VECTOR) {
        const int64_t left = (columns - from) / VECTOR, vectors = left < run ? left : run;
        const real *a = g->a;
        const stored_real *b = (const stored_real *)g->b + from;
        memset(sums, 0, (size_t)(g->m * vectors) * sizeof *sums);
        int64_t k = g->k;
        for (; k >= ROW_STEP; k -= ROW_STEP, a += ROW_STEP * g->a_col, b += ROW_STEP * g->b_row)
            add_b_rows_to_all(ROW_STEP, g, a, b, vectors, sums);
        for (; k > 0; k--, a += g->a_col, b += g->b_row)
            add_b_rows_to_all(1, g, a, b, vectors, sums);
        const real *bias = bias_from(g, from);
        for (int64_t i = 0; i < g->m; i++) {
            real *c = (real *)g->c + i * g->c_row + from;
            for (int64_t j = 0; j < vectors; j++, c += VECTOR)
                *(vec_at *)c =
                    finished(g, c, bias ? bias + j * VECTOR : NULL, sums[i * vectors + j]);
        }
    }
    return columns;
}

/* ---- Few rows, or a small B ------------------------------------------------------------------ */

/* These tiles are tuned for f32. */
#if defined(__AVX512F__) && !defined(BR_KERNEL_F64)

enum {
    WIDE_ROWS = 6,
    WIDE_VECTORS = 4,
    WIDE_COLUMNS = WIDE_VECTORS * VECTOR,
    STREAMED_STEPS = 32, /* steps of k at a time if B comes from memory */
    STREAMED_SUMS = 96,  /* rows of partial sums that are kept between k-blocks */
};

/* Further arguments of a tile whose B comes from memory: the size of its k-block, the initial sums
 * (NULL: 0), the destination of the sums (NULL: C), and a prefetch that fetches as many lines as
 * the tile reads. */
typedef struct streamed_block {
    int64_t k;
    vec (*from)[WIDE_VECTORS], (*to)[WIDE_VECTORS];
    prefetch *next;
} streamed_block;

/* `rows` and whether `part` is NULL are constants after inlining. With `stream`, C is written by
 * streaming stores. */
ALWAYS_INLINE void wide_tile(int rows, const br_gemm_block *g, const real *a, const real *b,
                             real *c, const real *bias, bool stream, const streamed_block *part)
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

/* Define the functions wide_tile_N() and streamed_tile_N(), in which the number of rows is a
 * constant, so that the sums are in registers. WIDE_TILE(3) is
 *
 *     static void wide_tile_3(g, a, b, c, bias, stream)
 *     {
 *         wide_tile(3, g, a, b, c, bias, stream, NULL);
 *     }
 */
#    define WIDE_TILE(rows)                                                                \
        static void wide_tile_##rows(const br_gemm_block *g, const real *a, const real *b, \
                                     real *c, const real *bias, bool stream)               \
        {                                                                                  \
            wide_tile(rows, g, a, b, c, bias, stream, NULL);                               \
        }
#    define STREAMED_TILE(rows)                                                                 \
        static void streamed_tile_##rows(const br_gemm_block *g, const real *a, const real *b,  \
                                         real *c, const real *bias, const streamed_block *part) \
        {                                                                                       \
            wide_tile(rows, g, a, b, c, bias, false, part);                                     \
        }
WIDE_TILE(1)
WIDE_TILE(2)
WIDE_TILE(3)
WIDE_TILE(4)
WIDE_TILE(5)
WIDE_TILE(6)
STREAMED_TILE(1)
STREAMED_TILE(3)
STREAMED_TILE(5)

typedef void wide_tile_fn(const br_gemm_block *g, const real *a, const real *b, real *c,
                          const real *bias, bool stream);
typedef void streamed_tile_fn(const br_gemm_block *g, const real *a, const real *b, real *c,
                              const real *bias, const streamed_block *part);
static wide_tile_fn *const wide_tiles[WIDE_ROWS] = { wide_tile_1, wide_tile_2, wide_tile_3,
                                                     wide_tile_4, wide_tile_5, wide_tile_6 };

/* The heights of tiles if B comes from memory. A few heights suffice, since reading B takes longer
 * than the arithmetic. */
static const struct {
    int64_t rows;
    streamed_tile_fn *multiply;
} streamed_tiles[] = { { 5, streamed_tile_5 }, { 3, streamed_tile_3 }, { 1, streamed_tile_1 } };

static int64_t minimum(int64_t n, int64_t limit)
{
    return n < limit ? n : limit;
}

/* Multiplies A by whole tiles of columns from j on, where B comes from memory. Returns the number
 * of columns. Several adjacent tiles advance along k together, so that B is read and prefetched in
 * runs that span all of them. */
static int64_t multiply_streamed(const br_gemm_block *g, int64_t j)
{
    vec sums[STREAMED_SUMS][WIDE_VECTORS];
    const int64_t tiles = minimum((g->n - j) / WIDE_COLUMNS, STREAMED_SUMS / g->m);
    for (int64_t p = 0, steps; p < g->k; p += steps) {
        steps = minimum(g->k - p, STREAMED_STEPS);
        const int64_t left = g->k - p - steps;
        const real *b = (const real *)g->b + p * g->b_row + j;
        const br_strided_rows rest = { .at = (const char *)(b + steps * g->b_row),
                                       .bytes = tiles * WIDE_COLUMNS * (int64_t)sizeof(real),
                                       .step = g->b_row * (int64_t)sizeof(real) };
        prefetch next = prefetch_runs(&rest, 0, minimum(left, STREAMED_STEPS)), none = { 0 };
        for (int64_t t = 0; t < tiles; t++)
            for (int64_t i = 0, h = 0; i < g->m; i += streamed_tiles[h].rows) {
                while (streamed_tiles[h].rows > g->m - i)
                    h++;
                const int64_t at = j + t * WIDE_COLUMNS;
                vec(*sum)[WIDE_VECTORS] = sums + t * g->m + i;
                const streamed_block part = { steps, p > 0 ? sum : NULL, left > 0 ? sum : NULL,
                                              i == 0 ? &next : &none };
                streamed_tiles[h].multiply(g, (const real *)g->a + i * g->a_row + p * g->a_col,
                                           b + t * WIDE_COLUMNS, (real *)g->c + i * g->c_row + at,
                                           bias_from(g, at), &part);
            }
    }
    return tiles * WIDE_COLUMNS;
}

/* Computes rows i .. end - 1 of the tiles at column j. */
static void multiply_wide(const br_gemm_block *g, int64_t i, int64_t end, int64_t j, int64_t height,
                          bool stream)
{
    const real *a = (const real *)g->a + i * g->a_row, *b = (const real *)g->b + j;
    const real *bias = bias_from(g, j);
    real *c = (real *)g->c + i * g->c_row + j;
    for (int64_t rows; i < end; i += rows) {
        rows = minimum(end - i, height);
        wide_tiles[rows - 1](g, a, b, c, bias, stream);
        a += rows * g->a_row;
        c += rows * g->c_row;
    }
}

/* Computes C in groups of rows. Used if writing C takes most of the time. Streaming stores neither
 * read C first nor evict other data from the caches. */
static void multiply_by_rows_of_c(const br_gemm_block *g, int64_t columns, int64_t height)
{
    const bool stream =
        !g->accumulate && ((uintptr_t)g->c | (uintptr_t)g->c_row * sizeof(real)) % 64 == 0;
    for (int64_t i = 0; i < g->m; i += height)
        for (int64_t j = 0; j < columns; j += WIDE_COLUMNS)
            multiply_wide(g, i, minimum(g->m, i + height), j, height, stream);
    _mm_sfence();
}

/* Multiplies A by the columns of B that fill whole tiles. Returns the number of columns. */
static int64_t gemm_wide(const br_gemm_block *g)
{
    if (g->a_tile != TILE_ROWS * g->a_row) /* A is packed for other tiles */
        return 0;
    /* Rows are divided evenly, because the speed of tiles with few rows is limited by the latency
     * of their accumulators. */
    const int64_t tiles = (g->m + WIDE_ROWS - 1) / WIDE_ROWS, height = (g->m + tiles - 1) / tiles;
    const int64_t columns = g->n / WIDE_COLUMNS * WIDE_COLUMNS;
    int64_t j = 0;
    if (few_steps(g)) {
        multiply_by_rows_of_c(g, columns, height);
        return columns;
    }
    if (g->exceeds_l2 && g->m <= 2 * TILE_ROWS && g->k > STREAMED_STEPS)
        while (j < columns)
            j += multiply_streamed(g, j);
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
