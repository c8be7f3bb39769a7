/* tensor/denormal.h - the floating-point mode that flushes denormal numbers to 0.
 *
 * Arithmetic with denormal numbers, below 1.2e-38 in f32, is many times slower than with others,
 * and gradients of nearly one-hot attention are full of them. */
#ifndef BR_DENORMAL_H
#define BR_DENORMAL_H

#include <stdbool.h>

/* The thread's floating-point mode. BR_FLUSH_BITS flush denormal operands and results to 0. */
#if defined(__SSE2__)
typedef unsigned br_float_mode;
enum { BR_FLUSH_BITS = 0x8040, BR_CAN_FLUSH = true };
static inline br_float_mode br__float_mode(void)
{
    return __builtin_ia32_stmxcsr();
}
static inline void br__set_float_mode(br_float_mode mode)
{
    __builtin_ia32_ldmxcsr(mode);
}
#elif defined(__aarch64__)
#    include <stdint.h>
typedef uint64_t br_float_mode;
enum { BR_FLUSH_BITS = 1 << 24, BR_CAN_FLUSH = true };
static inline br_float_mode br__float_mode(void)
{
    br_float_mode mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
}
static inline void br__set_float_mode(br_float_mode mode)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(mode));
}
#else
typedef unsigned br_float_mode;
enum { BR_FLUSH_BITS = 0, BR_CAN_FLUSH = false };
static inline br_float_mode br__float_mode(void)
{
    return 0;
}
static inline void br__set_float_mode(br_float_mode mode)
{
    (void)mode;
}
#endif

/* Flushes denormal numbers to 0 from here on. Returns the previous mode for
 * br__restore_denormals(). */
static inline br_float_mode br__flush_denormals(void)
{
    const br_float_mode before = br__float_mode();
    if ((before & BR_FLUSH_BITS) != BR_FLUSH_BITS)
        br__set_float_mode(before | BR_FLUSH_BITS);
    return before;
}

/* Restores the mode that br__flush_denormals() returned. */
static inline void br__restore_denormals(br_float_mode before)
{
    if ((before & BR_FLUSH_BITS) != BR_FLUSH_BITS)
        br__set_float_mode(before);
}

#endif
