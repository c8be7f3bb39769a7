/* ops/kernels/rotary.h - pairs of numbers turned by angles. */
#ifndef BR_KERNELS_ROTARY_H
#define BR_KERNELS_ROTARY_H

#include "tensor/loop.h"

/* Loops for br__for_each() over (y, x, cos, sin) of the pairs' first numbers; params are two
 * int64_t, the bytes to the second one in y and in x: (y1, y2) = (x1 cos - x2 sin, x2 cos + x1
 * sin). */
extern const br_loop br__rotate_f32, br__rotate_f64;

#endif
