/* backends/cpu/gemm/gemm_blis.c - matrix products by BLIS (Van Zee and van de Geijn, 2015).
 *
 * With AVX2 and FMA, or with AVX-512, our own kernels reach the peak of the machine. Other
 * processors use BLIS, which has optimized kernels for many of them. Each call runs in the caller's
 * thread only. BLIS aborts the process if an argument is invalid, so callers check sizes and
 * strides first. */
#include "backends/cpu/gemm/gemm.h"

#include <blis.h>

void br__gemm_blis(const br_gemm *g)
{
    rntm_t runtime;
    bli_rntm_init(&runtime);
    bli_rntm_set_num_threads(1, &runtime);
    bli_rntm_disable_l3_sup(&runtime); /* its sums would depend on how C is partitioned */
    if (g->dtype == BR_F64) {
        double one = 1, beta = g->accumulate ? 1 : 0;
        bli_dgemm_ex(BLIS_NO_TRANSPOSE, BLIS_NO_TRANSPOSE, g->m, g->n, g->k, &one, (double *)g->a,
                     g->a_row, g->a_col, (double *)g->b, g->b_row, g->b_col, &beta, g->c, g->c_row,
                     1, NULL, &runtime);
    } else {
        float one = 1, beta = g->accumulate ? 1 : 0;
        bli_sgemm_ex(BLIS_NO_TRANSPOSE, BLIS_NO_TRANSPOSE, g->m, g->n, g->k, &one, (float *)g->a,
                     g->a_row, g->a_col, (float *)g->b, g->b_row, g->b_col, &beta, g->c, g->c_row,
                     1, NULL, &runtime);
    }
}
