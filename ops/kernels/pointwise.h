/* ops/kernels/pointwise.h - the float loops of BR_POINTWISE_KERNELS; part of variant.c. */
#ifndef BR_KERNELS_POINTWISE_H
#define BR_KERNELS_POINTWISE_H

#include "ops/kernels/loops.h"
#include "ops/kernels/math.h"

#define PARAM(i) ((real)((const double *)params)[i])

#define REAL_UNARY(name, expression)   UNARY_LOOP(name##_loop, real, expression)
#define REAL_BINARY(name, expression)  BINARY_LOOP(name##_loop, real, real, expression)
#define REAL_COMPARE(name, expression) BINARY_LOOP(name##_loop, real, bool, expression)

BR_POINTWISE_KERNELS(REAL_UNARY, REAL_BINARY, REAL_COMPARE)
WHERE_LOOP(where_loop, real)
TERNARY_LOOP(lerp_loop, real, real_lerp(a, b, c))

#define LOOP_ENTRY(name, expression) .name = name##_loop,

#endif
