/* backends/cpu/hints.h - hints to the compiler about loops and functions of kernels, and the loops
 * that most kernels consist of.
 *
 * Kernels are plain C loops that the compiler vectorizes. FOR_VECTORS runs over whole vectors,
 * FOR_EACH over any number of elements (whole vectors, then one element at a time), and FOR_EVERY
 * likewise with a vectorized tail. They are macros, because C has no way to pass a loop's body to a
 * function: the body reads and writes the caller's variables. The body comes last, in braces if it
 * has several statements. */
#ifndef BR_KERNELS_HINTS_H
#define BR_KERNELS_HINTS_H

/* INDEPENDENT: the iterations of the loop are independent, so the compiler may omit its overlap
 * check, which would fail for in-place operations. */
#if defined(__clang__)
#    pragma clang diagnostic ignored "-Wpass-failed" /* libm's f64 functions stay scalar */
#    define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
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

/* for (int64_t i = 0; i < n; i++) body, with independent iterations, where n is a multiple of the
 * vector length of the type. The inner loop is exactly one vector, so that the compiler generates
 * no copies of the loop for remainders and alignment. FOR_VECTORS(float, k, n, y[k] = x[k] * a;) is
 * with AVX-512
 *
 *     for (int64_t first_k = 0; first_k < n; first_k += 16)
 *         for (int lane = 0; lane < 16; lane++) {      // becomes one vector instruction
 *             const int64_t k = first_k + lane;
 *             y[k] = x[k] * a;
 *         }
 */
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

/* FOR_VECTORS for any n: whole vectors, then the tail one element at a time. FOR_EACH(float, k, n,
 * y[k] = x[k] * a;) is
 *
 *     const int64_t whole_k = n & -16;
 *     FOR_VECTORS(float, k, whole_k, y[k] = x[k] * a;)
 *     for (int64_t k = whole_k; k < n; k++)
 *         y[k] = x[k] * a;
 */
#define FOR_EACH(type, i, n, ...)                                                         \
    {                                                                                     \
        const int64_t count_of_##i = (n);                                                 \
        const int64_t whole_##i = count_of_##i & -(int64_t)(VECTOR_BYTES / sizeof(type)); \
        FOR_VECTORS(type, i, whole_##i, __VA_ARGS__)                                      \
        for (int64_t i = whole_##i; i < count_of_##i; i++)                                \
            __VA_ARGS__                                                                   \
    }

/* The same with a vectorized tail. The function must be marked EVERY_WIDTH. For loops whose tail is
 * expensive, or in which one vector of bytes corresponds to several vectors of floats. */
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

/* For functions whose constant arguments must become constants in their code, and for those that
 * are called inside of vectorized loops. */
#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* UNROLLED: unrolls a short loop completely, so that its arrays can be kept in registers. ROLLED:
 * prevents unrolling, so that only a few load instructions access memory, in small steps that
 * hardware prefetchers recognize. Without it, a sum of 40 MB takes 1.13 times as long (AMD Zen 4).
 * FOUR_AT_ONCE: repeats the body of a loop of one vector four times. The time of so short a loop
 * depends on its address by half. */
#if defined(__clang__)
#    define UNROLLED     _Pragma("clang loop unroll(full)")
#    define ROLLED       _Pragma("clang loop unroll(disable)")
#    define FOUR_AT_ONCE _Pragma("clang loop unroll_count(4)")
#else
#    define UNROLLED     _Pragma("GCC unroll 16")
#    define ROLLED       _Pragma("GCC unroll 1")
#    define FOUR_AT_ONCE _Pragma("GCC unroll 4")
#endif

#endif
