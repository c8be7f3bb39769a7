/* backends/cpu/vector.h - vectors of this variant, and loading and storing parts of them;
 * part of variant.c.
 *
 * `vec` is a vector of VECTOR elements of the type `real`, as wide as the processor's registers;
 * vec_at is the same at any address. Arithmetic is written with GCC's and clang's operators for
 * vectors. A part of a vector is loaded and stored with a mask (AVX-512), or in pieces of 1, 2, 4,
 * ... elements, so that no memory outside the part is touched. */
#ifndef BR_KERNELS_VECTOR_H
#define BR_KERNELS_VECTOR_H

#include "backends/cpu/hints.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__AVX__)
#    include <immintrin.h>
#endif

#if defined(__AVX512F__)
enum { TILE_ROWS = 12, STEPS = 16 };
#else
enum { TILE_ROWS = 6, STEPS = 32 };
#endif
enum {
    VECTOR = VECTOR_BYTES / sizeof(real),
    TILE_COLUMNS = 2 * VECTOR,
    LINE = 64 / sizeof(real), /* elements per cache line */
};

#ifdef BR_KERNEL_F64
#    define BY_TYPE(f32, f64) f64
#else
#    define BY_TYPE(f32, f64) f32
#endif
typedef real vec __attribute__((vector_size(VECTOR_BYTES)));
typedef real vec_at __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(real)), may_alias));
typedef real quad __attribute__((vector_size(4 * sizeof(real))));
typedef real quad_at
    __attribute__((vector_size(4 * sizeof(real)), aligned(sizeof(real)), may_alias));

/* ---- Partial vectors ------------------------------------------------------------------------- */

/* A mask selects the lanes to load and store; other lanes read as 0. Without hardware masks all
 * lanes are loaded and stored. */
#if defined(__AVX512F__)
enum { MASKS = true };
typedef BY_TYPE(__mmask16, __mmask8) vec_mask;

static inline vec_mask mask_of(int64_t count)
{
    return (vec_mask)((1u << count) - 1);
}

static inline vec load_masked(const real *from, vec_mask mask)
{
    return BY_TYPE((vec)_mm512_maskz_loadu_ps(mask, from), (vec)_mm512_maskz_loadu_pd(mask, from));
}

static inline void store_masked(real *to, vec v, vec_mask mask)
{
    BY_TYPE(_mm512_mask_storeu_ps(to, mask, (__m512)v),
            _mm512_mask_storeu_pd(to, mask, (__m512d)v));
}

/* Loads or stores the first `count` elements of a vector; other lanes read as 0. */
static inline vec load_part(const real *from, int64_t count)
{
    return load_masked(from, mask_of(count));
}

static inline void store_part(real *to, vec v, int64_t count)
{
    store_masked(to, v, mask_of(count));
}
#else
enum { MASKS = false };
typedef char vec_mask;

static inline vec_mask mask_of(int64_t count)
{
    (void)count;
    return 0;
}

static inline vec load_masked(const real *from, vec_mask mask)
{
    (void)mask;
    return *(const vec_at *)from;
}

static inline void store_masked(real *to, vec v, vec_mask mask)
{
    (void)mask;
    *(vec_at *)to = v;
}

/* Copies pieces whose sizes are powers of 2 and known to the compiler. */
ALWAYS_INLINE void copy_part(real *to, const real *from, int64_t count)
{
    UNROLLED
    for (int width = VECTOR; width > 0; width /= 2) {
        if (!(count & width))
            continue;
        __builtin_memcpy(to, from, (size_t)width * sizeof(real));
        to += width;
        from += width;
    }
}

/* Loads or stores the first `count` elements of a vector; other lanes read as 0. */
static inline vec load_part(const real *from, int64_t count)
{
    vec v = { 0 };
    copy_part((real *)&v, from, count);
    return v;
}

static inline void store_part(real *to, vec v, int64_t count)
{
    copy_part(to, (const real *)&v, count);
}
#endif

#endif
