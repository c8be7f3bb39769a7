/* ops/kernels/half.h - 16-bit floats as f32, each value exactly.
 *
 * `in` holds n elements in the machine's byte order, aligned in any way. Infinities stay what they
 * are, and a NaN keeps its sign and the bits of its payload; F16's are made quiet, as processors do
 * it. */
#ifndef BR_KERNELS_HALF_H
#define BR_KERNELS_HALF_H

#include <stdint.h>

void br__f32_from_f16(float *out, const char *in, int64_t n);
void br__f32_from_bf16(float *out, const char *in, int64_t n);

#endif
