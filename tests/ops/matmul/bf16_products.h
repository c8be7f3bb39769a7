/* tests/ops/matmul/bf16_products.h - calls of a kernel of products in bf16, and the comparison with
 * three plain loops. */
#ifndef BR_TESTS_BF16_PRODUCTS_H
#define BR_TESTS_BF16_PRODUCTS_H

#include "backends/cpu/gemm/gemm_kernels.h"
#include "tests/ops/matmul/bf16_rounding.h"
#include "tests/support.h"

#include <sys/mman.h>

enum { MAX_SIZE = 70, GAP = 3 };

/* ---- Operands -------------------------------------------------------------------------------- */

typedef enum layout { DENSE, TRANSPOSED, STRIDED, ROW_GAPS, LAYOUTS } layout;

/* The three matrices of a product. */
typedef enum operand { OF_A, OF_B, OF_C, OPERANDS } operand;

/* Returns memory for `count` numbers of a matrix. The page after them cannot be read or written. It
 * is the same memory in each call, and is not freed. */
static inline float *guarded_memory(operand of, int64_t count)
{
    enum { BYTES = 1 << 20, GUARD = 1 << 16 };
    static char *memory[OPERANDS];
    if (!memory[of]) {
        memory[of] =
            mmap(NULL, BYTES + GUARD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        cr_assert(memory[of] != MAP_FAILED);
        cr_assert(mprotect(memory[of] + BYTES, GUARD, PROT_NONE) == 0);
    }
    cr_assert(count * (int64_t)sizeof(float) <= BYTES);
    return (float *)(memory[of] + BYTES) - count;
}

/* A matrix in memory that is otherwise filled with NaN, so that reading a wrong element shows in
 * the result. */
typedef struct matrix {
    float *memory;
    int64_t row, column; /* strides */
    double *rounded;     /* [rows, columns]: the nearest bf16 numbers */
    double *rest;        /* the bf16 numbers nearest to the remainders */
} matrix;

/* Returns a number from -1 to 1; the sequence is always the same. */
static inline float next_value(void)
{
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (float)(int32_t)(state >> 32) / 2147483648.f;
}

static inline matrix random_matrix(operand of, int64_t rows, int64_t columns, layout how)
{
    matrix m = { .row = columns, .column = 1 };
    if (how == TRANSPOSED)
        m.row = 1, m.column = rows;
    else if (how == STRIDED)
        m.row = GAP * columns + 1, m.column = GAP;
    else if (how == ROW_GAPS)
        m.row = columns + GAP;
    const int64_t size = (rows - 1) * m.row + (columns - 1) * m.column + 1;
    m.memory = guarded_memory(of, size);
    m.rounded = malloc((size_t)(rows * columns) * sizeof *m.rounded);
    m.rest = malloc((size_t)(rows * columns) * sizeof *m.rest);
    cr_assert(m.rounded && m.rest);
    for (int64_t i = 0; i < size; i++)
        m.memory[i] = NAN;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            const float x = next_value();
            m.memory[i * m.row + j * m.column] = x;
            m.rounded[i * columns + j] = (double)nearest_bf16(x);
            m.rest[i * columns + j] = (double)nearest_bf16(x - nearest_bf16(x));
        }
    return m;
}

static inline void matrix_free(matrix *m)
{
    free(m->rounded);
    free(m->rest);
}

/* ---- The kernel ------------------------------------------------------------------------------ */

typedef struct product {
    int64_t m, n, k;
    layout of_a, of_b;
    bool bias, accumulate;
    bool is_split; /* precision "high" */
} product;

/* Computes the product by one call of the kernel. C has GAP more numbers between its rows. */
static inline void multiply(const br_gemm_kernels *kernels, const product *p, const matrix *a,
                            const matrix *b, const float *bias, float *c)
{
    const int64_t rows = (p->m + kernels->gemm_rows - 1) / kernels->gemm_rows * kernels->gemm_rows;
    const int64_t unit = kernels->gemm_depth_unit, depth = (p->k + unit - 1) / unit * unit;
    const size_t bytes = (size_t)(rows * depth * kernels->packed_size);
    void *packed = aligned_alloc(64, (bytes + 63) / 64 * 64);
    cr_assert(packed);
    kernels->gemm_pack(packed, p->m, p->k, a->memory, a->row, a->column);
    kernels->gemm_block(&(br_gemm_block){ .m = p->m,
                                          .n = p->n,
                                          .k = p->k,
                                          .a = packed,
                                          .b = b->memory,
                                          .b_row = b->row,
                                          .b_col = b->column,
                                          .c = c,
                                          .c_row = p->n + GAP,
                                          .bias = p->bias ? bias : NULL,
                                          .accumulate = p->accumulate });
    free(packed);
}

/* Products of bf16 numbers are exact in f32. Each of the k additions, or of the 3 k of precision
 * "high", and those of C and of the bias, rounds by at most half a unit in the last place of a sum
 * below sum |a b|. Operands that are rounded wrongly, or not at all, exceed this. */
static inline void check_product(const br_gemm_kernels *kernels, const product *p)
{
    matrix a = random_matrix(OF_A, p->m, p->k, p->of_a);
    matrix b = random_matrix(OF_B, p->k, p->n, p->of_b);
    const int64_t c_row = p->n + GAP;
    float *c = guarded_memory(OF_C, p->m * c_row - GAP), bias[MAX_SIZE];
    cr_assert(p->n <= MAX_SIZE);
    for (int64_t j = 0; j < p->n; j++)
        bias[j] = next_value();
    for (int64_t i = 0; i < p->m * c_row - GAP; i++)
        c[i] = (float)i;
    multiply(kernels, p, &a, &b, bias, c);
    for (int64_t i = 0; i < p->m * c_row - GAP; i++) {
        const int64_t row = i / c_row, j = i % c_row;
        double want = p->accumulate || j >= p->n ? (double)i : 0, magnitude = fabs(want);
        for (int64_t q = 0; j < p->n && q < p->k; q++) {
            const int64_t at_a = row * p->k + q, at_b = q * p->n + j;
            const double terms[] = { a.rounded[at_a] * b.rounded[at_b],
                                     a.rounded[at_a] * b.rest[at_b],
                                     a.rest[at_a] * b.rounded[at_b] };
            for (int t = 0; t < (p->is_split ? 3 : 1); t++) {
                want += terms[t];
                magnitude += fabs(terms[t]);
            }
        }
        if (j < p->n && p->bias) {
            want += (double)bias[j];
            magnitude += fabs((double)bias[j]);
        }
        const double additions = (double)(p->is_split ? 3 * p->k + 3 : p->k + 2);
        const double bound = j < p->n ? additions * FLT_EPSILON / 2 * magnitude : 0;
        cr_assert(fabs((double)c[i] - want) <= bound,
                  "m %lld n %lld k %lld layouts %d %d bias %d accumulate %d: [%lld][%lld] is %.9g, "
                  "expected %.9g",
                  (long long)p->m, (long long)p->n, (long long)p->k, (int)p->of_a, (int)p->of_b,
                  p->bias, p->accumulate, (long long)row, (long long)j, (double)c[i], want);
    }
    matrix_free(&a);
    matrix_free(&b);
}

#endif
