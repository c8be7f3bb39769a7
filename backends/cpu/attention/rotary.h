/* backends/cpu/attention/rotary.h - rotation of pairs of elements, for rotary position embeddings.
 */
#ifndef BR_KERNELS_ROTARY_H
#define BR_KERNELS_ROTARY_H

#include "tensor/dtype.h"
#include "tensor/loop.h"

/* Loops for br__for_each() over (y, x, cos, sin), where y and x are the first elements of pairs:
 * (y1, y2) = (x1 cos - x2 sin, x2 cos + x1 sin). params are two int64_t: the bytes from the first
 * to the second element in y and in x. */
extern const br_loop br__rotate[BR_DTYPES];

#endif
