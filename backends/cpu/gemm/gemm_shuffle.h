/* backends/cpu/gemm/gemm_shuffle.h - rearranges the lanes of vectors: transposes squares, and adds
 * up the lanes of many vectors at once; part of variant.c.
 *
 * A shuffle makes a vector of lanes of two vectors a and b. A list says where each lane comes from:
 * the numbers 0 .. VECTOR - 1 are the lanes of a, and VECTOR .. 2 VECTOR - 1 those of b. For
 * vectors of 8 f32, whose groups of 16 bytes are separated by a bar, the lists give:
 *
 *     EVEN_LANES    a0 b0 a2 b2 | a4 b4 a6 b6      ODD_LANES     a1 b1 a3 b3 | a5 b5 a7 b7
 *     EVEN_PAIRS    a0 a1 b0 b1 | a4 a5 b4 b5      ODD_PAIRS     a2 a3 b2 b3 | a6 a7 b6 b7
 *     LOW_HALVES    a0 b0 a1 b1 | a4 b4 a5 b5      HIGH_HALVES   a2 b2 a3 b3 | a6 b6 a7 b7
 *     EVEN_GROUPS   a0 a1 a2 a3 | b0 b1 b2 b3      ODD_GROUPS    a4 a5 a6 a7 | b4 b5 b6 b7
 *
 * FROM(s) takes consecutive lanes of a and b, beginning with lane s of a. Processors shuffle inside
 * groups of 16 bytes, or whole groups, faster than single lanes across groups. */
#ifndef BR_KERNELS_GEMM_SHUFFLE_H
#define BR_KERNELS_GEMM_SHUFFLE_H

#include "backends/cpu/gemm/gemm_kernels.h"
#include "backends/cpu/vector.h"

/* clang-format off */
#define FROM_2(s)  (s), (s) + 1
#define FROM_4(s)  FROM_2(s), FROM_2((s) + 2)
#define FROM_8(s)  FROM_4(s), FROM_4((s) + 4)
#define FROM_16(s) FROM_8(s), FROM_8((s) + 8)
#if defined(__AVX512F__) && !defined(BR_KERNEL_F64) /* 16 lanes of f32 */
#    define EVEN_LANES  0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30
#    define ODD_LANES   1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31
#    define EVEN_PAIRS  0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29
#    define ODD_PAIRS   2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31
#    define LOW_HALVES  0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29
#    define HIGH_HALVES 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31
#    define EVEN_GROUPS 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27
#    define ODD_GROUPS  4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31
#    define FROM        FROM_16
#elif defined(__AVX512F__) /* 8 lanes of f64 */
#    define EVEN_LANES  0, 8, 2, 10, 4, 12, 6, 14
#    define ODD_LANES   1, 9, 3, 11, 5, 13, 7, 15
#    define EVEN_PAIRS  0, 1, 8, 9, 4, 5, 12, 13
#    define ODD_PAIRS   2, 3, 10, 11, 6, 7, 14, 15
#    define LOW_HALVES  EVEN_LANES
#    define HIGH_HALVES ODD_LANES
#    define EVEN_GROUPS 0, 1, 4, 5, 8, 9, 12, 13
#    define ODD_GROUPS  2, 3, 6, 7, 10, 11, 14, 15
#    define FROM        FROM_8
#elif defined(__AVX__) && !defined(BR_KERNEL_F64) /* 8 lanes of f32 */
#    define EVEN_LANES  0, 8, 2, 10, 4, 12, 6, 14
#    define ODD_LANES   1, 9, 3, 11, 5, 13, 7, 15
#    define EVEN_PAIRS  0, 1, 8, 9, 4, 5, 12, 13
#    define ODD_PAIRS   2, 3, 10, 11, 6, 7, 14, 15
#    define LOW_HALVES  0, 8, 1, 9, 4, 12, 5, 13
#    define HIGH_HALVES 2, 10, 3, 11, 6, 14, 7, 15
#    define EVEN_GROUPS 0, 1, 2, 3, 8, 9, 10, 11
#    define ODD_GROUPS  4, 5, 6, 7, 12, 13, 14, 15
#    define FROM        FROM_8
#elif defined(__AVX__) /* 4 lanes of f64 */
#    define EVEN_LANES  0, 4, 2, 6
#    define ODD_LANES   1, 5, 3, 7
#    define EVEN_PAIRS  0, 1, 4, 5
#    define ODD_PAIRS   2, 3, 6, 7
#    define LOW_HALVES  EVEN_LANES
#    define HIGH_HALVES ODD_LANES
#    define EVEN_GROUPS 0, 1, 4, 5
#    define ODD_GROUPS  2, 3, 6, 7
#    define FROM        FROM_4
#elif !defined(BR_KERNEL_F64) /* 4 lanes of f32 */
#    define EVEN_LANES  0, 4, 2, 6
#    define ODD_LANES   1, 5, 3, 7
#    define EVEN_PAIRS  0, 1, 4, 5
#    define ODD_PAIRS   2, 3, 6, 7
#    define LOW_HALVES  0, 4, 1, 5
#    define HIGH_HALVES 2, 6, 3, 7
#    define EVEN_GROUPS EVEN_LANES /* not used */
#    define ODD_GROUPS  EVEN_LANES /* not used */
#    define FROM        FROM_4
#else /* 2 lanes of f64 */
#    define EVEN_LANES  0, 2
#    define ODD_LANES   1, 3
#    define EVEN_PAIRS  EVEN_LANES /* not used */
#    define ODD_PAIRS   EVEN_LANES /* not used */
#    define LOW_HALVES  EVEN_LANES
#    define HIGH_HALVES ODD_LANES
#    define EVEN_GROUPS EVEN_LANES /* not used */
#    define ODD_GROUPS  EVEN_LANES /* not used */
#    define FROM        FROM_2
#endif
/* clang-format on */

/* ---- Transposing ----------------------------------------------------------------------------- */

/* QUAD is the number of lanes loaded from one row when squares are transposed. Loading these groups
 * directly into place saves half of the shuffles. */
enum { QUAD = VECTOR < 4 ? VECTOR : 4, QUADS = VECTOR / QUAD };

/* Returns a vector whose group g comes from row[g * QUAD] + p. */
ALWAYS_INLINE vec load_groups(const real *const *row, int64_t p)
{
#if defined(__AVX512F__) && !defined(BR_KERNEL_F64)
    __m512 v = _mm512_broadcast_f32x4(_mm_loadu_ps(row[0] + p));
    v = _mm512_mask_broadcast_f32x4(v, 0x00f0, _mm_loadu_ps(row[4] + p));
    v = _mm512_mask_broadcast_f32x4(v, 0x0f00, _mm_loadu_ps(row[8] + p));
    return (vec)_mm512_mask_broadcast_f32x4(v, 0xf000, _mm_loadu_ps(row[12] + p));
#elif defined(__AVX512F__)
    __m512d v = _mm512_broadcast_f64x4(_mm256_loadu_pd(row[0] + p));
    return (vec)_mm512_mask_broadcast_f64x4(v, 0xf0, _mm256_loadu_pd(row[4] + p));
#elif defined(__AVX__) && !defined(BR_KERNEL_F64)
    const quad low = *(const quad_at *)(row[0] + p), high = *(const quad_at *)(row[4] + p);
    return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7);
#else
    return *(const vec_at *)(row[0] + p);
#endif
}

/* Exchanges lanes of two rows that are `w` rows apart: the odd blocks of w lanes of the first with
 * the even blocks of the second. */
ALWAYS_INLINE void exchange(int w, vec *row)
{
    const vec a = row[0], b = row[w];
    row[0] = w == 1 ? __builtin_shufflevector(a, b, EVEN_LANES)
                    : __builtin_shufflevector(a, b, EVEN_PAIRS);
    row[w] = w == 1 ? __builtin_shufflevector(a, b, ODD_LANES)
                    : __builtin_shufflevector(a, b, ODD_PAIRS);
}

/* Transposes the squares of QUAD x QUAD lanes that the groups of QUAD vectors form. */
ALWAYS_INLINE void transpose_groups(vec row[QUAD])
{
    UNROLLED
    for (int w = QUAD / 2; w > 0; w /= 2) {
        UNROLLED
        for (int i = 0; i < QUAD; i++)
            if (!(i & w))
                exchange(w, row + i);
    }
}

/* ---- Adding up lanes ------------------------------------------------------------------------- */

/* Each lane of a and b is the sum of w lanes. Returns a vector of sums of 2 w lanes, those of a and
 * those of b, which the fastest shuffles bring together. */
ALWAYS_INLINE vec add_neighbours(int w, vec a, vec b)
{
    const int group = 16 / (int)sizeof(real); /* lanes of a group */
    if (w >= group)
        return __builtin_shufflevector(a, b, EVEN_GROUPS) +
               __builtin_shufflevector(a, b, ODD_GROUPS);
    if (w == 1)
        return __builtin_shufflevector(a, b, LOW_HALVES) +
               __builtin_shufflevector(a, b, HIGH_HALVES);
    return __builtin_shufflevector(a, b, EVEN_PAIRS) + __builtin_shufflevector(a, b, ODD_PAIRS);
}

/* Makes one vector out of each two of n vectors, in place. */
ALWAYS_INLINE void halve(int w, int n, vec *row)
{
    UNROLLED
    for (int i = 0; i < n; i += 2)
        row[i / 2] = add_neighbours(w, row[i], row[i + 1 < n ? i + 1 : i]);
}

/* Replaces n vectors by the sums of their lanes: lane i of the first vectors becomes the sum of the
 * lanes of row[i]. */
ALWAYS_INLINE void add_lanes(int n, vec *row)
{
    halve(1, n, row);
    if (VECTOR > 2)
        halve(2, (n + 1) / 2, row);
    if (VECTOR > 4)
        halve(4, (n + 3) / 4, row);
    if (VECTOR > 8)
        halve(8, (n + 7) / 8, row);
}

#endif
