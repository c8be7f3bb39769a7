/* backends/cpu/integer_matmul.h - products of matrices of i64. */
#ifndef BR_CPU_INTEGER_MATMUL_H
#define BR_CPU_INTEGER_MATMUL_H

#include "backends/backend.h"

/* The entry matmul of br_backend for operands of i64. */
bool br__cpu_integer_matmul(const br_matmul_tensors *work);

#endif
