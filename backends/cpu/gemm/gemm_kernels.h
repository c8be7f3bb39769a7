/* backends/cpu/gemm/gemm_kernels.h - the tables of kernels for matrix products, gemm_block.h and
 * gemm_dots.h. */
#ifndef BR_GEMM_KERNELS_H
#define BR_GEMM_KERNELS_H

#include "backends/matmul_precision.h"
#include "tensor/dtype.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { BR_GEMM_K = 304 }; /* maximum size of a k-block in f32 and f64 */

/* `runs` runs of `bytes` contiguous bytes, `step` bytes apart. */
typedef struct br_strided_rows {
    const char *at;
    int64_t bytes, step, runs;
} br_strided_rows;

/* A block of a product: C = A B + bias, or C += A B + bias, with k <= gemm_depth. Strides are in
 * elements; the columns of C and of the bias are contiguous. Rows of A are in groups of gemm_rows,
 * a_tile elements apart, so that A may be packed. gemm.h explains the lists. */
typedef struct br_gemm_block {
    int64_t m, n, k;
    const void *a;
    int64_t a_tile, a_row, a_col;
    const void *b;
    int64_t b_row, b_col;
    void *c;
    int64_t c_row;
    const void *bias;                              /* or NULL */
    const int64_t *b_rows, *b_columns, *c_columns; /* or NULL */
    bool accumulate, exceeds_l2;                   /* exceeds_l2: C is not in the L2 cache */
    bool is_part; /* the product has more rows than the block may have: a block of one row must have
                     the sums that it would have beside other rows */
    br_strided_rows next; /* the next block of A, to be prefetched */
    /* Number of columns that threads have taken; each takes the next panel from here. NULL: the
     * caller computes all of them. */
    atomic_int_fast64_t *next_column;
} br_gemm_block;

/* Matrix products have their own table, since they are built for more variants than the other
 * kernels. */
typedef struct br_gemm_kernels {
    const char *unit;            /* the unit for bf16; NULL in the tables for f32 and f64 */
    int gemm_rows, gemm_columns; /* of a tile */
    int gemm_depth;              /* maximum size of a k-block */
    int gemm_depth_unit;         /* k-blocks other than the last are multiples of this */
    int packed_size;             /* bytes of an element of packed A */
    bool only_packed;            /* gemm_block needs packed A, and there are no dot products */
    int unshared_rows;           /* blocks of so few rows must not be shared by threads */
    bool gemm_by_blis;           /* BLIS may have better kernels for large products */
    void (*gemm_block)(const br_gemm_block *block);
    /* Dot products are used if k is at least dot_length times the smaller of m and n, or if m and n
     * are at most dot_square; gemm.c has further conditions. */
    int dot_rows, dot_length, dot_square;
    /* Computes a block by dot products, dot_rows rows at a time. a_col and b_row must be 1, k may
     * have any size, and a_tile is ignored. */
    void (*gemm_dots)(const br_gemm_block *block);
    /* Packs A [m, k] as gemm_block reads it. In f32 and f64 these are groups of gemm_rows rows:
     * element (i, p) of a group is at p * gemm_rows + i. `to` must be aligned to 64 bytes and have
     * room for m rounded up to whole groups, and for k rounded up to a multiple of
     * gemm_depth_unit. */
    void (*gemm_pack)(void *to, int64_t m, int64_t k, const void *a, int64_t a_row, int64_t a_col);
    /* In the tables for bf16 of precision "medium": the same for operands that are bf16 in memory.
     */
    const struct br_gemm_kernels *of_stored;
    /* For br_measure_peak(), in the tables for bf16: n steps of the unit's instructions on
     * registers only, each of which has as many FLOPs as a product with `peak_flops`. Returns a
     * number that depends on all of them. */
    double (*peak_loop)(int64_t n);
    double peak_flops;
} br_gemm_kernels;

/* Returns the table of a dtype, or NULL for integers and bool. */
const br_gemm_kernels *br__gemm_kernels_of(br_dtype dtype);
/* Returns the table for f32 products whose operands are rounded to bf16 ("medium") or split into
 * two bf16 numbers ("high"); NULL for "highest", and if no unit of this processor makes them faster
 * than products in f32. */
const br_gemm_kernels *br__gemm_bf16_kernels(br_matmul_precision precision);
/* For tests: products of precision "medium" and "high" use these tables from now on, or those of
 * the variant where a table is NULL. */
void br__force_bf16_kernels(const br_gemm_kernels *medium, const br_gemm_kernels *high);

#endif
