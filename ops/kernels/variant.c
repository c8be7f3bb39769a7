/* ops/kernels/variant.c - every float kernel, for one instruction set and one floating type.
 *
 * CMake compiles this file once for each combination; BR_KERNEL_TABLE names the table it fills, and
 * BR_KERNEL_F64 makes the type double. The families are plain C that the compiler vectorises. */
#include "ops/kernels/kernels.h"

#ifdef BR_KERNEL_F64
typedef double real;
#else
typedef float real;
#endif

extern const br_kernels BR_KERNEL_TABLE;
