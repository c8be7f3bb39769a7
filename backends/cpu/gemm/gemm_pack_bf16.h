/* backends/cpu/gemm/gemm_pack_bf16.h - packs operands of f32 numbers, which are rounded to bf16,
 * and of bf16 numbers; part of gemm_bf16.c, gemm_amx.c, gemm_amx_high.c and attention_bf16.c.
 *
 * Packed operands consist of pairs of bf16 numbers that are adjacent along k, (2 p, 2 p + 1). A
 * pair has 32 bits, so it takes the place of one f32 number in the layouts of gemm_pack.h, and
 * moves through the same shuffles. If k is odd, the last pair is completed by 0. */
#ifndef BR_KERNELS_GEMM_PACK_BF16_H
#define BR_KERNELS_GEMM_PACK_BF16_H

#include "backends/cpu/gemm/gemm_operands.h"
#include "backends/cpu/gemm/gemm_shuffle.h"

/* Returns the number of pairs in k numbers. */
static inline int64_t pairs_in(int64_t k)
{
    return (k + 1) / 2;
}

static inline int64_t at_most(int64_t n, int64_t limit)
{
    return n < limit ? n : limit;
}

/* What a packed number is. An f32 number x can be split into two bf16 numbers, whose sum has at
 * least 16 significant bits: the number NEAREST to x, and the number nearest to the REMAINDER.
 * STORED: the operand consists of bf16 numbers, which are packed as they are. A bf16_part is a
 * constant after inlining in all functions, and decides the size of the operand's numbers. */
typedef enum bf16_part { NEAREST, REMAINDER, STORED } bf16_part;

/* Returns the bytes of a number of the operand. */
ALWAYS_INLINE int64_t number_bytes(bf16_part which)
{
    return which == STORED ? (int64_t)sizeof(uint16_t) : (int64_t)sizeof(real);
}

/* Returns the address of number i of an operand. */
ALWAYS_INLINE const void *number_at(bf16_part which, const void *operand, int64_t i)
{
    return (const char *)operand + i * number_bytes(which);
}

/* Returns x minus the nearest bf16 number, which is exact; infinite or NaN where that number is. */
ALWAYS_INLINE vec remainder_of(vec x)
{
    const __m256i nearest = (__m256i)_mm512_cvtneps_pbh((__m512)x);
    return x - (vec)_mm512_slli_epi32(_mm512_cvtepu16_epi32(nearest), 16);
}

/* Returns that part of the lanes of `low` and then of `high`, as bf16 numbers. */
ALWAYS_INLINE vec round_lanes(bf16_part which, vec low, vec high)
{
    if (which == REMAINDER) {
        low = remainder_of(low);
        high = remainder_of(high);
    }
    return (vec)_mm512_cvtne2ps_pbh((__m512)high, (__m512)low);
}

/* Returns the numbers at `low` whose lanes are in the mask `of_low`, and then the numbers at
 * `high`, as bf16 numbers; other lanes are 0. */
ALWAYS_INLINE vec load_lanes(bf16_part which, const void *low, vec_mask of_low, const void *high,
                             vec_mask of_high)
{
    if (which == STORED)
        return (vec)_mm512_inserti64x4(
            _mm512_castsi256_si512(_mm256_maskz_loadu_epi16(of_low, low)),
            _mm256_maskz_loadu_epi16(of_high, high), 1);
    return round_lanes(which, load_masked(low, of_low), load_masked(high, of_high));
}

/* ---- Rows of contiguous elements ------------------------------------------------------------- */

/* Returns a vector of pairs: lane w is (even[w], odd[w]). Lanes that are not in the masks are 0. */
ALWAYS_INLINE vec pair_rows(bf16_part which, const void *even, vec_mask of_even, const void *odd,
                            vec_mask of_odd)
{
    const __m512i order =
        _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                         21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return (vec)_mm512_permutexvar_epi16(order,
                                         (__m512i)load_lanes(which, even, of_even, odd, of_odd));
}

/* to[p * width + w] = pair (from[2 p * k_step + w], from[(2 p + 1) * k_step + w]) for w < count.
 * The other columns of `to` become 0. `width` is a constant after inlining. */
ALWAYS_INLINE void pack_rows(bf16_part which, real *to, int width, int64_t count, int64_t k,
                             const void *from, int64_t k_step)
{
    for (int64_t p = 0; p < k; p += 2, to += width) {
        const bool has_odd = p + 1 < k;
        const void *even = number_at(which, from, p * k_step);
        const void *odd = number_at(which, even, has_odd ? k_step : 0);
        UNROLLED
        for (int w = 0; w < width; w += VECTOR) {
            const int64_t left = at_most(count - w, VECTOR);
            const vec_mask lanes = mask_of(left > 0 ? left : 0);
            const vec pairs = pair_rows(which, number_at(which, even, w), lanes,
                                        number_at(which, odd, w), has_odd ? lanes : mask_of(0));
            store_masked(to + w, pairs, mask_of(width - w < VECTOR ? width - w : VECTOR));
        }
    }
}

/* ---- Columns of contiguous elements ---------------------------------------------------------- */

/* Numbers in a quad of pairs, and in a vector of pairs. */
enum { QUAD_NUMBERS = 2 * QUAD, VECTOR_NUMBERS = 2 * VECTOR };

/* Returns the first `count` numbers at `from`, of at most QUAD_NUMBERS; the others are 0. */
ALWAYS_INLINE __m256 load_quad(const real *from, int64_t count)
{
    const __mmask8 lanes = (__mmask8)((1u << (count > 0 ? count : 0)) - 1);
    return count >= QUAD_NUMBERS ? _mm256_loadu_ps(from) : _mm256_maskz_loadu_ps(lanes, from);
}

/* Returns a vector whose quad g has the pairs of the first `count` bf16 numbers at row[g * QUAD],
 * from number p on. */
ALWAYS_INLINE vec load_stored_pairs(const void *const *row, int64_t p, int64_t count)
{
    const __mmask8 numbers = (__mmask8)((1u << at_most(count, QUAD_NUMBERS)) - 1);
    __m512i v = _mm512_setzero_si512();
    UNROLLED
    for (int g = 0; g < QUADS; g++) {
        const void *from = number_at(STORED, row[g * QUAD], p);
        const __m128i pairs =
            count >= QUAD_NUMBERS ? _mm_loadu_si128(from) : _mm_maskz_loadu_epi16(numbers, from);
        v = _mm512_mask_broadcast_i32x4(v, (__mmask16)(0xf << g * QUAD), pairs);
    }
    return (vec)v;
}

/* Returns a vector whose quad g has the pairs of the first `count` numbers at row[g * QUAD], from
 * number p on. */
ALWAYS_INLINE vec load_pairs(bf16_part which, const void *const *row, int64_t p, int64_t count)
{
    if (which == STORED)
        return load_stored_pairs(row, p, count);
    __m512 half[2];
    UNROLLED
    for (int h = 0; h < 2; h++) {
        const real *low = row[2 * h * QUAD], *high = row[(2 * h + 1) * QUAD];
        half[h] = _mm512_insertf32x8(_mm512_castps256_ps512(load_quad(low + p, count)),
                                     load_quad(high + p, count), 1);
    }
    return round_lanes(which, (vec)half[0], (vec)half[1]);
}

/* Packs VECTOR_NUMBERS numbers of each of VECTOR rows, or, unless `whole`, the first `count` of
 * them. */
ALWAYS_INLINE void pack_square(bf16_part which, real *to, int width, vec_mask lanes,
                               const void *const *row, bool whole, int64_t count)
{
    UNROLLED
    for (int g = 0; g < QUADS; g++) {
        const int64_t left = count - g * QUAD_NUMBERS;
        if (!whole && left <= 0)
            return;
        vec v[QUAD];
        UNROLLED
        for (int i = 0; i < QUAD; i++)
            v[i] = load_pairs(which, row + i, g * QUAD_NUMBERS,
                              whole ? QUAD_NUMBERS : at_most(left, QUAD_NUMBERS));
        transpose_groups(v);
        UNROLLED
        for (int i = 0; i < QUAD; i++, to += width)
            if (whole || 2 * i < left)
                store_masked(to, v[i], lanes);
    }
}

/* to[p * width + w] = pair (from[w * step + 2 p], from[w * step + 2 p + 1]) for w < count. The
 * other columns of `to` become copies of the last one, or stay as they are. `width` is a constant
 * after inlining. */
ALWAYS_INLINE void pack_column_pairs(bf16_part which, real *to, int width, int64_t count, int64_t k,
                                     const void *from, int64_t step)
{
    for (int64_t w = 0; w < count; w += VECTOR) {
        const vec_mask lanes = mask_of(at_most(width - w, VECTOR));
        const void *row[VECTOR];
        UNROLLED
        for (int i = 0; i < VECTOR; i++)
            row[i] = number_at(which, from, at_most(w + i, count - 1) * step);
        int64_t p = 0;
        for (; p + VECTOR_NUMBERS <= k; p += VECTOR_NUMBERS) {
            pack_square(which, to + p / 2 * width + w, width, lanes, row, true, VECTOR_NUMBERS);
            UNROLLED
            for (int i = 0; i < VECTOR; i++)
                row[i] = number_at(which, row[i], VECTOR_NUMBERS);
        }
        if (p < k)
            pack_square(which, to + p / 2 * width + w, width, lanes, row, false, k - p);
    }
}

/* ---- Operands with any strides --------------------------------------------------------------- */

/* Numbers along k that are first copied to rows of contiguous elements. */
enum { COPIED_ROWS = 16 };

/* Packs a group whose k numbers are not contiguous: if `step` is not 1, by way of a copy.
 * `width` is a constant after inlining. */
ALWAYS_INLINE void pack_strided(bf16_part which, real *to, int width, int64_t count, int64_t k,
                                const void *from, int64_t step, int64_t k_step)
{
    if (step == 1) {
        pack_rows(which, to, width, count, k, from, k_step);
        return;
    }
    _Alignas(real) char copy[COPIED_ROWS * TILE_COLUMNS * sizeof(real)];
    const int64_t size = number_bytes(which);
    for (int64_t p = 0; p < k; p += COPIED_ROWS) {
        const int64_t rows = at_most(k - p, COPIED_ROWS);
        for (int64_t q = 0; q < rows; q++)
            for (int64_t w = 0; w < count; w++)
                memcpy(copy + (q * TILE_COLUMNS + w) * size,
                       number_at(which, from, w * step + (p + q) * k_step), (size_t)size);
        pack_rows(which, to + p / 2 * width, width, count, rows, copy, TILE_COLUMNS);
    }
}

/* Packs a group of `count` rows of A or columns of B, `step` apart. `width` is a constant after
 * inlining. */
ALWAYS_INLINE void pack_group(bf16_part which, real *to, int width, int64_t count, int64_t k,
                              const void *from, int64_t step, int64_t k_step)
{
    if (step == 1 && count == width)
        pack_rows(which, to, width, width, k, from, k_step);
    else if (k_step == 1 && step != 1)
        pack_column_pairs(which, to, width, count, k, from, step);
    else
        pack_strided(which, to, width, count, k, from, step, k_step);
}

/* Packs A [m, k] for the micro-kernel of gemm_tile.h: pair p of row i of a tile is at p * TILE_ROWS
 * + i. */
ALWAYS_INLINE void pack_tiles(bf16_part which, real *to, int64_t m, int64_t k, const void *a,
                              int64_t a_row, int64_t a_col)
{
    for (int64_t i = 0; i < m; i += TILE_ROWS)
        pack_group(which, to + i * pairs_in(k), TILE_ROWS, at_most(m - i, TILE_ROWS), k,
                   number_at(which, a, i * a_row), a_row, a_col);
}

/* Packs columns of B [k, count] into a panel: pair p of column w is at p * TILE_COLUMNS + w. */
ALWAYS_INLINE void pack_panel_pairs(bf16_part which, real *to, int64_t count, int64_t k,
                                    const void *b, int64_t b_row, int64_t b_col)
{
    pack_group(which, to, TILE_COLUMNS, count, k, b, b_col, b_row);
}

/* Does the same for whole vectors of listed rows of f32 numbers. */
ALWAYS_INLINE void pack_listed_vectors(bf16_part which, real *to, int64_t k, const real *b,
                                       const int64_t *rows, const column_runs *runs)
{
    for (int64_t p = 0; p < k; p += 2) {
        UNROLLED
        for (int v = 0; v < TILE_COLUMNS / VECTOR; v++, to += VECTOR) {
            const real *even = b + rows[p] + runs->from[v];
            const real *odd = b + rows[p + 1 < k ? p + 1 : p] + runs->from[v];
            *(vec *)to =
                pair_rows(which, even, mask_of(VECTOR), odd, mask_of(p + 1 < k ? VECTOR : 0));
        }
    }
}

/* Does the same for any listed rows and columns of f32 numbers. */
ALWAYS_INLINE void pack_listed(bf16_part which, real *to, int64_t count, int64_t k, const real *b,
                               const int64_t *rows, const int64_t *columns)
{
    column_runs runs;
    find_runs(&runs, count, columns);
    if (count == TILE_COLUMNS && runs.count == TILE_COLUMNS / VECTOR) {
        pack_listed_vectors(which, to, k, b, rows, &runs);
        return;
    }
    _Alignas(64) real copy[COPIED_ROWS * TILE_COLUMNS + VECTOR];
    for (int64_t p = 0; p < k; p += COPIED_ROWS) {
        const int64_t numbers = at_most(k - p, COPIED_ROWS);
        pack_runs(copy, count, numbers, b, rows + p, &runs);
        pack_rows(which, to + p / 2 * TILE_COLUMNS, TILE_COLUMNS, count, numbers, copy,
                  TILE_COLUMNS);
    }
}

#endif
