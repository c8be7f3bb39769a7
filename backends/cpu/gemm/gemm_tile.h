/* backends/cpu/gemm/gemm_tile.h - the micro-kernels of matrix products; part of variant.c.
 *
 * C is computed in tiles of at most TILE_ROWS rows and two vectors, whose accumulators stay in
 * registers while the micro-kernel loops over k. Each step loads two vectors of B and one scalar of
 * each row of A. B comes from a panel of at most BR_GEMM_K x TILE_COLUMNS elements, which stays in
 * the L1 cache while all rows of the block use it.
 *
 * An element of C is the sum of the same products in the same order, wherever it is in a tile and
 * wherever the tile is in C. So results do not depend on how C is divided into blocks. */
#ifndef BR_KERNELS_GEMM_TILE_H
#define BR_KERNELS_GEMM_TILE_H

#include "backends/cpu/gemm/gemm_operands.h"

/* ---- Tiles ----------------------------------------------------------------------------------- */

/* `rows` and `vectors` are constants after inlining. */
ALWAYS_INLINE void store_sums_of_tile(const tile_out *out, int rows, int vectors, vec (*sum)[2])
{
    const tile_out to = *out; /* a copy, so that stores to C cannot change it */
    const vec_mask whole = mask_of(VECTOR), last = mask_of(to.columns - (vectors - 1) * VECTOR);
    if (to.accumulate) {
        UNROLLED
        for (int i = 0; i < rows; i++) {
            const real *c = to.c + i * to.c_row;
            sum[i][0] = load_masked(c, vectors == 1 ? last : whole) + sum[i][0];
            if (vectors > 1)
                sum[i][1] = load_masked(c + VECTOR, last) + sum[i][1];
        }
    }
    if (to.bias) {
        const vec b0 = load_masked(to.bias, vectors == 1 ? last : whole);
        const vec b1 = vectors == 1 ? b0 : load_masked(to.bias + VECTOR, last);
        UNROLLED
        for (int i = 0; i < rows; i++) {
            sum[i][0] += b0;
            sum[i][1] += b1;
        }
    }
    UNROLLED
    for (int i = 0; i < rows; i++) {
        real *c = to.c + i * to.c_row;
        store_masked(c, sum[i][0], vectors == 1 ? last : whole);
        if (vectors > 1)
            store_masked(c + VECTOR, sum[i][1], last);
    }
}

/* Stores sums from memory to C, where the columns do not fill whole vectors. */
static void store_sums_at_edge(const tile_out *out, int64_t rows, const real *sums)
{
    for (int64_t i = 0; i < rows; i++, sums += TILE_COLUMNS) {
        for (int64_t j = 0; j < out->columns; j += VECTOR) {
            real *c = out->c + i * out->c_row + j;
            int64_t count = out->columns - j < VECTOR ? out->columns - j : VECTOR;
            vec v = *(const vec_at *)(sums + j);
            if (out->accumulate)
                v = load_part(c, count) + v;
            if (out->bias)
                v += load_part(out->bias + j, count);
            store_part(c, v, count);
        }
    }
}

#if defined(BR_KERNEL_BF16)
/* Adds two products to each sum: those of the pairs of bf16 numbers in `x` and in a lane of `b`. */
ALWAYS_INLINE vec multiply_add(vec sum, real x, vec b)
{
    return (vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)_mm512_set1_ps(x), (__m512bh)b);
}
#else
ALWAYS_INLINE vec multiply_add(vec sum, real x, vec b)
{
    return sum + x * b;
}
#endif

/* Does one step along k: adds the product of a column of A and a row of B. Only every third row of
 * A has a pointer; the two rows after it are addressed relative to it. */
ALWAYS_INLINE void add_step(int rows, int vectors, const real *const *a_at, int64_t a_row,
                            const real *b, vec_mask columns, vec (*sum)[2])
{
    vec b0, b1 = { 0 };
    if (vectors == 1) {
        b0 = load_masked(b, columns);
    } else {
        b0 = *(const vec_at *)b;
        b1 = *(const vec_at *)(b + VECTOR);
    }
    UNROLLED
    for (int i = 0; i < rows; i++) {
        real x = a_at[i / 3][i % 3 * a_row];
        sum[i][0] = multiply_add(sum[i][0], x, b0);
        if (vectors > 1)
            sum[i][1] = multiply_add(sum[i][1], x, b1);
    }
}

ALWAYS_INLINE void advance(const real **a_at, int64_t by)
{
    UNROLLED
    for (int i = 0; i < TILE_ROWS / 3; i++)
        a_at[i] += by;
}

/* Prefetches one row of the tile of C for every STEPS steps of k. It does so in the last steps,
 * because rows that are a multiple of 4 KiB apart would evict each other from the L1 cache. */
ALWAYS_INLINE void prefetch_row(int rows, int64_t left, const tile_out *out)
{
    const int64_t row = (left - 1) / STEPS;
    if (row >= rows)
        return;
    __builtin_prefetch(out->c + row * out->c_row, 1);
    __builtin_prefetch(out->c + row * out->c_row + VECTOR, 1);
}

/* The micro-kernel: multiplies rows of A by a panel of B. `rows`, `vectors` and `unroll` are
 * constants after inlining. Every STEPS steps of k it prefetches a few cache lines of C and of the
 * memory that `next` describes. If steps are unrolled, as for packed A, it also prefetches A for
 * the next tile. */
ALWAYS_INLINE void tile(int rows, int vectors, int unroll, int64_t k, const real *a, int64_t a_row,
                        int64_t a_col, const real *b, int64_t b_row, const tile_out *out,
                        prefetch *next)
{
    const vec_mask columns = mask_of(vectors == 1 ? out->columns : VECTOR);
    vec sum[TILE_ROWS][2];
    UNROLLED
    for (int i = 0; i < rows; i++)
        sum[i][0] = sum[i][1] = (vec){ 0 };
    const real *a_at[TILE_ROWS / 3];
    UNROLLED
    for (int i = 0; i < TILE_ROWS / 3; i++)
        a_at[i] = a + 3 * i * a_row;
    for (int64_t left = k; left > 0; left -= STEPS) {
        prefetch_lines(next, 1);
        prefetch_lines(next, 1);
        prefetch_row(rows, left, out);
        int64_t p = left < STEPS ? left : STEPS;
        for (; unroll > 1 && p >= unroll; p -= unroll, b += unroll * b_row) {
            for (int i = 0; i < unroll * a_col; i += LINE)
                __builtin_prefetch(a_at[0] + k * a_col + i, 0, 2);
            UNROLLED
            for (int u = 0; u < unroll; u++) {
                add_step(rows, vectors, a_at, a_row, b + u * b_row, columns, sum);
                advance(a_at, a_col);
            }
        }
        for (; p > 0; p--, b += b_row) {
            add_step(rows, vectors, a_at, a_row, b, columns, sum);
            advance(a_at, a_col);
        }
    }
    store_sums_of_tile(out, rows, vectors, sum);
}

typedef void tile_fn(int64_t k, const real *a, int64_t a_row, int64_t a_col, const real *b,
                     int64_t b_row, const tile_out *out, prefetch *next);

/* EACH_HEIGHT lists the heights of tiles. EACH_COUNT lists the height of the next tile for each
 * number of remaining rows, 1 .. TILE_ROWS. */
/* clang-format off */
#if defined(__AVX512F__)
#    define EACH_HEIGHT(TILE) TILE(1) TILE(2) TILE(3) TILE(4) TILE(6) TILE(8) TILE(12)
#    define EACH_COUNT(TILE) TILE(1) TILE(2) TILE(3) TILE(4) TILE(3) TILE(6) \
                             TILE(4) TILE(8) TILE(6) TILE(6) TILE(8) TILE(12)
#else
#    define EACH_HEIGHT(TILE) TILE(1) TILE(2) TILE(3) TILE(4) TILE(5) TILE(6)
#    define EACH_COUNT(TILE) EACH_HEIGHT(TILE)
#endif
/* clang-format on */

#define TILE_FUNCTION(rows, vectors)                                                            \
    static void tile_##rows##x##vectors(int64_t k, const real *a, int64_t a_row, int64_t a_col, \
                                        const real *b, int64_t b_row, const tile_out *out,      \
                                        prefetch *next)                                         \
    {                                                                                           \
        tile(rows, vectors, 1, k, a, a_row, a_col, b, b_row, out, next);                        \
    }
#define TILE_FUNCTIONS(rows) TILE_FUNCTION(rows, 1) TILE_FUNCTION(rows, 2)
#define TILE_ENTRY(rows)     { rows, { tile_##rows##x1, tile_##rows##x2 } },

EACH_HEIGHT(TILE_FUNCTIONS)

/* A full tile of packed A, whose strides are compile-time constants. */
enum { PACKED_UNROLL = 4 };
static void tile_packed(int64_t k, const real *a, int64_t a_row, int64_t a_col, const real *b,
                        int64_t b_row, const tile_out *out, prefetch *next)
{
    (void)a_row, (void)a_col, (void)b_row;
    tile(TILE_ROWS, 2, PACKED_UNROLL, k, a, 1, TILE_ROWS, b, TILE_COLUMNS, out, next);
}

typedef struct tile_height {
    int64_t rows;
    tile_fn *by_vectors[2];
} tile_height;
static const tile_height heights[TILE_ROWS] = { EACH_COUNT(TILE_ENTRY) };

/* Returns the height of the next tile if `rows` rows are left. */
static const tile_height *height_within(int64_t rows)
{
    return &heights[(rows < TILE_ROWS ? rows : TILE_ROWS) - 1];
}

#endif
