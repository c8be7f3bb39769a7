/* backends/cpu/gemm/gemm_pack.h - packing for matrix products; part of variant.c.
 *
 * A is packed by tiles: for each k, the elements of the rows of a tile are contiguous. B is packed
 * into panels as wide as a tile. */
#ifndef BR_KERNELS_GEMM_PACK_H
#define BR_KERNELS_GEMM_PACK_H

#include "backends/cpu/gemm/gemm_shuffle.h"

/* to[p * width + w] = from[w * step + p] for w, p in 0 .. 3: a 4 x 4 transpose. */
ALWAYS_INLINE void pack_quads(real *to, int64_t width, const real *from, int64_t step)
{
    quad r0 = *(const quad_at *)from, r1 = *(const quad_at *)(from + step);
    quad r2 = *(const quad_at *)(from + 2 * step), r3 = *(const quad_at *)(from + 3 * step);
    quad low01 = __builtin_shufflevector(r0, r1, 0, 4, 1, 5);
    quad low23 = __builtin_shufflevector(r2, r3, 0, 4, 1, 5);
    quad high01 = __builtin_shufflevector(r0, r1, 2, 6, 3, 7);
    quad high23 = __builtin_shufflevector(r2, r3, 2, 6, 3, 7);
    *(quad_at *)to = __builtin_shufflevector(low01, low23, 0, 1, 4, 5);
    *(quad_at *)(to + width) = __builtin_shufflevector(low01, low23, 2, 3, 6, 7);
    *(quad_at *)(to + 2 * width) = __builtin_shufflevector(high01, high23, 0, 1, 4, 5);
    *(quad_at *)(to + 3 * width) = __builtin_shufflevector(high01, high23, 2, 3, 6, 7);
}

/* to[p * width + w] = from[w * step + p] for w < count, p < k, both at least 4. Each cache line of
 * a row is used completely before the next one is read. Remainders are covered by blocks that
 * overlap earlier ones. */
ALWAYS_INLINE void pack_transposed(real *to, int64_t width, int64_t count, int64_t k,
                                   const real *from, int64_t step)
{
    for (int64_t line = 0; line < k; line += LINE) {
        int64_t end = k - line < LINE ? k : line + LINE;
        for (int64_t i = 0; i < count; i += 4) {
            int64_t w = i + 4 <= count ? i : count - 4;
            for (int64_t j = line; j < end; j += 4) {
                int64_t p = j + 4 <= k ? j : k - 4;
                pack_quads(to + p * width + w, width, from + w * step + p, step);
            }
        }
    }
}

/* to[p * width + w] = from[w * step + p] for w < count, p < k, where k is at least VECTOR. Squares
 * of VECTOR x VECTOR elements are transposed in registers. Columns of `to` up to the next multiple
 * of VECTOR become copies of the last column. */
ALWAYS_INLINE void pack_squares(real *to, int64_t width, int64_t count, int64_t k, const real *from,
                                int64_t step)
{
    for (int64_t w = 0; w < count; w += VECTOR) {
        const real *row[VECTOR];
        UNROLLED
        for (int i = 0; i < VECTOR; i++)
            row[i] = from + (w + i < count ? w + i : count - 1) * step;
        for (int64_t q = 0; q < k; q += VECTOR) {
            int64_t p = q + VECTOR <= k ? q : k - VECTOR;
            vec v[QUADS][QUAD];
            UNROLLED
            for (int i = 0; i < QUAD; i++) {
                UNROLLED
                for (int g = 0; g < QUADS; g++)
                    v[g][i] = load_groups(row + i, p + g * QUAD);
            }
            UNROLLED
            for (int g = 0; g < QUADS; g++) {
                transpose_groups(v[g]);
                UNROLLED
                for (int i = 0; i < QUAD; i++)
                    *(vec_at *)(to + (p + g * QUAD + i) * width + w) = v[g][i];
            }
        }
    }
}

/* to[p * width + w] = from[w * step + p * k_step] for w < count, p < k. `width` is a constant after
 * inlining. */
ALWAYS_INLINE void pack(real *to, int width, int64_t count, int64_t k, const real *from,
                        int64_t step, int64_t k_step)
{
    if (step == 1 && count == width) {
        for (int64_t p = 0; p < k; p++)
            memcpy(to + p * width, from + p * k_step, (size_t)width * sizeof(real));
    } else if (step == 1) {
        for (int64_t p = 0; p < k; p++)
            for (int64_t w = 0; w < count; w++)
                to[p * width + w] = from[p * k_step + w];
    } else if (k_step == 1 && count >= 4 && k >= 4) {
        pack_transposed(to, width, count, k, from, step);
    } else {
        for (int64_t p = 0; p < k; p++)
            for (int64_t w = 0; w < count; w++)
                to[p * width + w] = from[w * step + p * k_step];
    }
}

/* Packs whole tiles of a matrix A with contiguous columns. Several tiles are packed together, so
 * that longer runs of A are read. */
static void pack_columns(real *to, int64_t m, int64_t k, const real *a, int64_t a_col)
{
    enum { GROUP = 8 * TILE_ROWS, PREFETCH_DISTANCE = 8 };
    for (int64_t group = 0; group < m; group += GROUP) {
        int64_t end = m - group < GROUP ? m : group + GROUP;
        for (int64_t p = 0; p < k; p++) {
            for (int64_t i = group; i < end && p + PREFETCH_DISTANCE < k; i += LINE)
                __builtin_prefetch(a + (p + PREFETCH_DISTANCE) * a_col + i);
            for (int64_t i = group; i < end; i += TILE_ROWS)
                memcpy(to + i * k + p * TILE_ROWS, a + p * a_col + i, TILE_ROWS * sizeof(real));
        }
    }
}

/* Packs A [m, k] by tiles: element (i, p) of a tile is at p * TILE_ROWS + i. */
static void gemm_pack(void *to, int64_t m, int64_t k, const void *a, int64_t a_row, int64_t a_col)
{
    const int64_t whole = a_row == 1 ? m / TILE_ROWS * TILE_ROWS : 0;
    pack_columns(to, whole, k, a, a_col);
    for (int64_t i = whole; i < m; i += TILE_ROWS)
        pack((real *)to + i * k, TILE_ROWS, m - i < TILE_ROWS ? m - i : TILE_ROWS, k,
             (const real *)a + i * a_row, a_row, a_col);
}

/* Packs columns of B [k, count] into a panel. The columns that pad the last vector are initialized,
 * too, unless masked loads skip them. */
static void pack_panel(real *to, int64_t count, int64_t k, const real *b, int64_t b_row,
                       int64_t b_col)
{
    if (b_row == 1 && k >= VECTOR && count >= 4) {
        pack_squares(to, TILE_COLUMNS, count, k, b, b_col);
        return;
    }
    if (count % VECTOR != 0 && (count > VECTOR || !MASKS))
        for (int64_t p = 0; p < k; p++)
            *(vec *)(to + p * TILE_COLUMNS + count / VECTOR * VECTOR) = (vec){ 0 };
    pack(to, TILE_COLUMNS, count, k, b, b_col, b_row);
}

#endif
