/* backends/cpu/shape/transpose.h - transposes rows into columns; part of variant.c. */
#ifndef BR_KERNELS_TRANSPOSE_H
#define BR_KERNELS_TRANSPOSE_H

#include "backends/cpu/gemm/gemm_pack.h"

/* to[i * to_step + j] = from[j * row + i * column] for i < n, j < rows. Uses the register
 * transposes of gemm_pack.h. Not inlined into its callers, since pack() is long. */
static __attribute__((noinline)) void transpose(real *to, int64_t to_step, const real *from,
                                                int64_t row, int64_t column, int64_t n,
                                                int64_t rows)
{
    pack(to, (int)to_step, rows, n, from, row, column);
}

#endif
