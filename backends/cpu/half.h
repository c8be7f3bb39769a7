/* backends/cpu/half.h - exact conversion of 16-bit floats to f32.
 *
 * `in` holds n elements in native byte order, at any alignment. Infinities stay infinities. A NaN
 * keeps its sign and payload; a signaling NaN of F16 becomes quiet, as with the processor's
 * conversion instructions. */
#ifndef BR_KERNELS_HALF_H
#define BR_KERNELS_HALF_H

#include <stdint.h>

void br__f32_from_f16(float *out, const char *in, int64_t n);
void br__f32_from_bf16(float *out, const char *in, int64_t n);

#endif
