/* backends/matmul_precision.h - the precision of products of f32 matrices. */
#ifndef BR_MATMUL_PRECISION_H
#define BR_MATMUL_PRECISION_H

#include "tensor/dtype.h"

/* A setting of the process: br_set_float32_matmul_precision(). */
typedef enum br_matmul_precision {
    BR_MATMUL_HIGHEST,
    BR_MATMUL_HIGH,
    BR_MATMUL_MEDIUM,
    BR_MATMUL_PRECISIONS
} br_matmul_precision;

/* Leaves an error pending if BRASA_FLOAT32_MATMUL_PRECISION has a wrong value. */
br_matmul_precision br__matmul_precision(void);
/* Returns the precision of products of a dtype: the setting for f32, "medium" for bf16, since
 * rounding to bf16 changes nothing, and "highest" for others. */
br_matmul_precision br__matmul_precision_of(br_dtype dtype);
/* In this thread, until the next call, products of f32 round their operands to bf16 if `rounds`,
 * where a unit of the processor makes that faster; otherwise they follow the setting. Returns what
 * was in force before. */
bool br__round_to_bf16(bool rounds);
/* Returns the name of the unit of the processor that computes products of a precision; "f32" if
 * they have the highest. */
const char *br__matmul_unit(br_matmul_precision precision);

#endif
