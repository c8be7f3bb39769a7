/* ops/kernels/hints.h - what kernels tell the compiler about loops and functions. */
#ifndef BR_KERNELS_HINTS_H
#define BR_KERNELS_HINTS_H

/* No iteration depends on another: spares the compiler the check, which in-place use would fail. */
#if defined(__clang__)
#    pragma clang diagnostic ignored "-Wpass-failed" /* f64 functions of libm stay scalar */
#    define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#    define INDEPENDENT _Pragma("GCC ivdep")
#endif

#define ALWAYS_INLINE static inline __attribute__((always_inline))
/* Loops of few iterations that are spelled out, so that what they work on can be registers. */
#if defined(__clang__)
#    define UNROLLED _Pragma("clang loop unroll(full)")
#else
#    define UNROLLED _Pragma("GCC unroll 16")
#endif

#endif
