/* backends/cpu/pointwise/halves.h - converts contiguous f32 numbers to bf16 and f16, and back; part
 * of variant.c. tensor/half.h has the conversions of one number. */
#ifndef BR_KERNELS_HALVES_H
#define BR_KERNELS_HALVES_H

#include "backends/cpu/hints.h"
#include "tensor/half.h"

/* Defines a function that converts n numbers. */
#define CONVERT_HALVES(name, from_type, to_type, convert)                     \
    static void name(int64_t n, void *restrict to, const void *restrict from) \
    {                                                                         \
        to_type *restrict out = to;                                           \
        const from_type *restrict in = from;                                  \
        FOR_EACH(float, i, n, out[i] = convert(in[i]);)                       \
    }

CONVERT_HALVES(widen_bf16, uint16_t, float, br__from_bf16)
CONVERT_HALVES(widen_f16, uint16_t, float, br__from_f16)
CONVERT_HALVES(narrow_bf16, float, uint16_t, br__bf16)
CONVERT_HALVES(narrow_f16, float, uint16_t, br__f16)

#endif
