/* backends/cpu/gemm/gemm_choice.c - chooses how a matrix product is computed, and its kernels. */
#include "backends/cpu/gemm/gemm_choice.h"
#include "tensor/min_max.h"

/* Work in multiplications; measured. */
static const double BLIS_WORK = 1 << 18;
static const double BF16_WORK = 1 << 16; /* below this, f32 is faster than bf16 */
enum {
    MAX_DOT_ROWS = 12,      /* maximum rows or columns of C computed by dot products */
    DOT_SQUARE_LENGTH = 48, /* minimum k if C has both few rows and few columns */
    BF16_ROWS = 6,          /* minimum rows of a product in bf16 */
};

/* Returns whether to use dot products, which need contiguous rows of A and contiguous columns of B.
 * They are best for a single row. With few rows or few columns they avoid packing B and half-empty
 * tiles, which pays if k is large enough to outweigh the horizontal sums. */
static bool should_use_dots(const br_gemm_kernels *kernels, const br_gemm *g)
{
    const int64_t fewer = br__min(g->m, g->n), many = br__max(g->m, g->n);
    return g->a_col == 1 && g->b_row == 1 && !g->b_rows &&
           (g->m == 1 || (fewer <= MAX_DOT_ROWS && g->k >= kernels->dot_length * fewer) ||
            (many <= kernels->dot_square && g->k >= DOT_SQUARE_LENGTH));
}

/* Returns whether a matrix with these strides can be passed to BLIS, which rejects zero strides and
 * overlapping rows, and is slow if neither stride is 1. */
static bool plain(int64_t rows, int64_t columns, int64_t row, int64_t col)
{
    return (col == 1 && row >= columns) || (row == 1 && col >= rows);
}

static bool should_use_blis(const br_gemm_kernels *kernels, const br_gemm *g)
{
    return kernels->gemm_by_blis && !g->b_rows && br__gemm_work(g) >= BLIS_WORK &&
           plain(g->m, g->k, g->a_row, g->a_col) && plain(g->k, g->n, g->b_row, g->b_col);
}

/* Returns the kernels that compute the product from bf16 numbers, if the precision allows it, a
 * unit of the processor is faster, and the product is large enough to outweigh rounding and
 * packing; otherwise `exact`. The choice depends on sizes only, so that results do not depend on
 * the number of threads. */
static const br_gemm_kernels *kernels_for(const br_gemm *g, br_matmul_precision precision,
                                          const br_gemm_kernels *exact)
{
    if (g->m < BF16_ROWS || br__gemm_work(g) < BF16_WORK)
        return exact;
    const br_gemm_kernels *bf16 = br__gemm_bf16_kernels(precision);
    if (bf16 && br__is_stored(g->dtype))
        bf16 = bf16->of_stored;
    return bf16 ? bf16 : exact;
}

br_gemm_choice br__gemm_choice(const br_gemm *g)
{
    const br_matmul_precision precision = br__matmul_precision_of(g->dtype);
    const br_gemm_kernels *kernels = br__gemm_kernels_of(g->dtype);
    if (should_use_dots(kernels, g))
        return (br_gemm_choice){ kernels, BR_GEMM_DOTS };
    if (should_use_blis(kernels, g))
        return (br_gemm_choice){ kernels, BR_GEMM_BLIS };
    return (br_gemm_choice){ kernels_for(g, precision, kernels), BR_GEMM_TILES };
}
