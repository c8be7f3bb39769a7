/* ops/kernels/hints.h - what kernels tell the compiler about loops and functions. */
#ifndef BR_KERNELS_HINTS_H
#define BR_KERNELS_HINTS_H

/* No iteration depends on another: spares the compiler the check, which in-place use would fail. */
#if defined(__clang__)
#    pragma clang diagnostic ignored "-Wpass-failed" /* f64 functions of libm stay scalar */
#    define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__OPTIMIZE_SIZE__)
#    define INDEPENDENT _Pragma("omp simd") /* vector code whatever its size */
#else
#    define INDEPENDENT _Pragma("GCC ivdep")
#endif

#if defined(__AVX512F__)
enum { VECTOR_BYTES = 64 };
#elif defined(__AVX__)
enum { VECTOR_BYTES = 32 };
#else
enum { VECTOR_BYTES = 16 };
#endif

/* for (int64_t i = 0; i < n; i++) body, of which no iteration depends on another, and n fills whole
 * vectors of the type. The compiler makes vector code of what is sure to fill vectors, and of
 * nothing else: other widths and starts would be copies of the loop. */
#define FOR_VECTORS(type, i, n, ...)                                          \
    {                                                                         \
        enum { PER_VECTOR = VECTOR_BYTES / sizeof(type) };                    \
        for (int64_t first_##i = 0; first_##i < (n); first_##i += PER_VECTOR) \
            INDEPENDENT                                                       \
        for (int lane = 0; lane < PER_VECTOR; lane++) {                       \
            const int64_t i = first_##i + lane;                               \
            __VA_ARGS__                                                       \
        }                                                                     \
    }

/* The same for any n: as many as fill vectors, then the rest one at a time. */
#define FOR_EACH(type, i, n, ...)                                                         \
    {                                                                                     \
        const int64_t count_of_##i = (n);                                                 \
        const int64_t whole_##i = count_of_##i & -(int64_t)(VECTOR_BYTES / sizeof(type)); \
        FOR_VECTORS(type, i, whole_##i, __VA_ARGS__)                                      \
        for (int64_t i = whole_##i; i < count_of_##i; i++)                                \
            __VA_ARGS__                                                                   \
    }

/* The same for vectors that are not filled, too, in functions that are made for EVERY_WIDTH: where
 * a rest is dear, or where a vector of bytes is several of floats. */
#if defined(__clang__)
#    define EVERY_WIDTH
#else
#    define EVERY_WIDTH __attribute__((optimize("vect-cost-model=dynamic")))
#endif
#define FOR_EVERY(i, n, ...)                       \
    {                                              \
        const int64_t count_of_##i = (n);          \
        INDEPENDENT                                \
        for (int64_t i = 0; i < count_of_##i; i++) \
            __VA_ARGS__                            \
    }

/* A function that is worth its code in builds for size as well: what is in vectors of several
 * registers is moved through memory there. */
#if defined(__OPTIMIZE_SIZE__) && !defined(__clang__)
#    define FOR_SPEED __attribute__((optimize("O2")))
#else
#    define FOR_SPEED
#endif

/* A function whose vectors are of 32 bytes at most: two of them for one of 64 are as many bytes,
 * and where three streams come from the third-level cache, at rows that begin anywhere in a cache
 * line, 5 percent faster (AMD's Zen 4). */
#if defined(__AVX512F__) && !defined(__clang__)
#    define HALF_WIDTH __attribute__((target("prefer-vector-width=256")))
#else
#    define HALF_WIDTH
#endif

#define ALWAYS_INLINE static inline __attribute__((always_inline))
/* Loops of few iterations that are spelled out, so that what they work on can be registers; and
 * loops that stay loops, so that few instructions read memory, in small steps: by these processors
 * see what to ask for ahead. A sum of 40 MB that is spelled out takes 1.13 times as long (AMD's Zen
 * 4). */
#if defined(__clang__)
#    define UNROLLED _Pragma("clang loop unroll(full)")
#    define ROLLED   _Pragma("clang loop unroll(disable)")
#else
#    define UNROLLED _Pragma("GCC unroll 16")
#    define ROLLED   _Pragma("GCC unroll 1")
#endif

#endif
