/* tensor/min_max.h - the smaller and the larger of two integers. */
#ifndef BR_MIN_MAX_H
#define BR_MIN_MAX_H

#include <stddef.h>
#include <stdint.h>

#define BR_DEFINE_MIN_MAX(type, suffix)                 \
    static inline type br__min_##suffix(type a, type b) \
    {                                                   \
        return a < b ? a : b;                           \
    }                                                   \
    static inline type br__max_##suffix(type a, type b) \
    {                                                   \
        return a > b ? a : b;                           \
    }
BR_DEFINE_MIN_MAX(int, int)
BR_DEFINE_MIN_MAX(int64_t, i64)
BR_DEFINE_MIN_MAX(size_t, size)
#undef BR_DEFINE_MIN_MAX

/* The type of the result is the one that C gives to the sum of a and b: int, int64_t or size_t.
 * Numbers of other types, such as floating-point ones, do not compile: NaN would need a decision.
 */
#define br__min(a, b) \
    _Generic((a) + (b), int : br__min_int, int64_t : br__min_i64, size_t : br__min_size)(a, b)
#define br__max(a, b) \
    _Generic((a) + (b), int : br__max_int, int64_t : br__max_i64, size_t : br__max_size)(a, b)

#endif
