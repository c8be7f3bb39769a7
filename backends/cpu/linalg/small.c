/* backends/cpu/linalg/small.c - factorizations and systems of small matrices. LAPACK works by calls
 * of BLAS, each of which takes longer than the whole work of a matrix of ten rows. */
#include "backends/cpu/linalg/linalg.h"
#include "tensor/tensor_internal.h"

#include <math.h>

#define REAL      float
#define NAME(x)   x##_f32
#define ROOT      sqrtf
#define MAGNITUDE fabsf
#include "backends/cpu/linalg/small_routines.h"

#define REAL      double
#define NAME(x)   x##_f64
#define ROOT      sqrt
#define MAGNITUDE fabs
#include "backends/cpu/linalg/small_routines.h"

bool br__linalg_is_small(const br_linalg_work *work)
{
    enum { MOST = 32 }; /* larger matrices are worth the products of blocks that LAPACK makes */
    return work->routine <= BR_LINALG_TRIANGULAR_SOLVE && work->m <= MOST && work->n <= MOST;
}

int br__linalg_small(const br_linalg_work *work, void *a, void *b, int *pivots)
{
    return work->a->dtype == BR_F32 ? run_f32(work, a, b, pivots) : run_f64(work, a, b, pivots);
}
