/* backends/cpu/linalg/linalg_kernels.h - the work of the kernel for small matrices. */
#ifndef BR_LINALG_KERNELS_H
#define BR_LINALG_KERNELS_H

#include "backends/linalg.h"

/* The most rows and columns of its matrices. Larger ones are worth the products of blocks that
 * LAPACK makes. */
enum { BR_LINALG_SMALL = 32 };

/* br_linalg_work for the routines up to BR_LINALG_TRIANGULAR_SOLVE. */
typedef struct br_small_linalg {
    br_linalg_routine routine;
    int64_t batch, m, n, k;
    void *a, *b; /* b may be NULL */
    bool upper, unit;
    int32_t *pivots; /* may be NULL */
    int64_t *info;   /* may be NULL */
} br_small_linalg;

#endif
