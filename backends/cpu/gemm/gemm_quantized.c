/* backends/cpu/gemm/gemm_quantized.c - matrix products whose B is a quantized matrix: the rows of a
 * weight [out, in].
 *
 * A few rows of the weight, a slab, are dequantized to f32 and multiplied by the kernels for f32,
 * then the next slab uses the same memory. If B is the transposed weight, a slab is a range of
 * columns of C. If B is the weight itself, a slab is one k-block, whose product is added to C. An
 * element of C is therefore the same sum as with a dequantized weight (docs/design.md, "Matrix
 * products"), to the bit; only products by BLIS are divided in another way. */
#include "backends/cpu/gemm/gemm_quantized.h"
#include "backends/cpu/gemm/gemm_choice.h"
#include "backends/cpu/quantized/quantized.h"
#include "tensor/denormal.h"
#include "tensor/min_max.h"

enum {
    DOT_SLAB = 1 << 12,  /* elements of a slab for dot products, which stays in the L1 cache */
    DOT_ROWS = 8,        /* minimum rows of such a slab */
    TILE_SLAB = 1 << 18, /* elements of a slab for tiles */
    /* Minimum rows of a slab for tiles. Half as many, which the shortest slab may have, are too
     * many for dot products (gemm_choice.c), so that a slab is multiplied by tiles, like the whole.
     */
    TILE_ROWS = 32,
    LINE_BYTES = 64,
};
static const double SERIAL_WORK = 3 << 16; /* as in gemm.c */

typedef struct job {
    const br_gemm *g;
    const br_tensor *b;
    int64_t slabs; /* of nearly equal sizes */
    int64_t rows;  /* of the largest slab */
    int64_t teams; /* tasks that share the slabs */
    float *memory; /* for a slab of each team */
    int64_t slab_elements;
} job;

static int64_t ratio(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Allocates memory for a slab of each team, runs the job, and frees the memory. */
static bool with_memory(job *j, bool (*run)(const job *j))
{
    br_extent *extent;
    j->slab_elements = ratio(j->rows * j->b->sizes[1], LINE_BYTES) * LINE_BYTES;
    const size_t bytes = (size_t)(j->teams * j->slab_elements) * sizeof(float);
    j->memory = br__block_alloc("gemm", bytes, &extent);
    if (!j->memory)
        return false;
    const bool ok = run(j);
    br__block_free(j->memory, bytes, extent);
    return ok;
}

/* ---- B is the transposed weight -------------------------------------------------------------- */

/* Returns the first row of a slab. */
static int64_t slab_start(const job *j, int64_t slab)
{
    return j->g->n * slab / j->slabs;
}

/* Returns the product whose B is a slab. */
static br_gemm slab_product(const job *j, int64_t slab, const float *rows)
{
    br_gemm g = *j->g;
    const int64_t first = slab_start(j, slab);
    g.n = slab_start(j, slab + 1) - first;
    g.b = rows;
    g.c = (float *)g.c + first;
    if (g.bias)
        g.bias = (const float *)g.bias + first;
    return g;
}

/* Multiplies by dot products, without the further steps of br__gemm(), which would take longer than
 * the product. */
static void multiply_by_dots(const br_gemm *g)
{
    const br_gemm_block block = { .m = g->m,
                                  .n = g->n,
                                  .k = g->k,
                                  .a = g->a,
                                  .a_row = g->a_row,
                                  .b = g->b,
                                  .b_col = g->b_col,
                                  .c = g->c,
                                  .c_row = g->c_row,
                                  .bias = g->bias,
                                  .accumulate = g->accumulate,
                                  .is_part = g->m > 1 };
    br__gemm_kernels_of(g->dtype)->gemm_dots(&block);
}

/* Computes a team's share of the slabs. */
static void run_team(void *context, int64_t team)
{
    const job *j = context;
    float *rows = j->memory + team * j->slab_elements;
    const int64_t end = j->slabs * (team + 1) / j->teams;
    for (int64_t slab = j->slabs * team / j->teams; slab < end; slab++) {
        const br_gemm g = slab_product(j, slab, rows);
        br__dequantize_rows(j->b, slab_start(j, slab), g.n, rows);
        multiply_by_dots(&g);
    }
}

static bool run_teams(const job *j)
{
    const br_float_mode before = br__flush_denormals();
    br__parallel(j->teams, run_team, (void *)j);
    br__restore_denormals(before);
    return true;
}

/* Multiplies one slab after the other; threads share each slab. */
static bool run_slabs(const job *j)
{
    bool ok = true;
    for (int64_t slab = 0; ok && slab < j->slabs; slab++) {
        const br_gemm g = slab_product(j, slab, j->memory);
        br__dequantize_rows_shared(j->b, slab_start(j, slab), g.n, j->memory);
        ok = br__gemm(&g);
    }
    return ok;
}

static bool multiply_by_transposed(job *j)
{
    const br_gemm *g = j->g;
    const bool dots = g->batch_ndim == 0 && g->n > 1 && br__gemm_choice(g).way == BR_GEMM_DOTS;
    j->slabs = ratio(g->n, dots ? br__max(DOT_SLAB / g->k, DOT_ROWS)
                                : br__max(TILE_SLAB / g->k, TILE_ROWS));
    j->rows = ratio(g->n, j->slabs);
    if (dots && br__gemm_work(g) >= SERIAL_WORK)
        j->teams = br__min(br_get_num_threads(), j->slabs);
    return with_memory(j, dots ? run_teams : run_slabs);
}

/* ---- B is the weight ------------------------------------------------------------------------- */

static bool run_k_blocks(const job *j)
{
    br_gemm g = *j->g;
    bool ok = true;
    g.b = j->memory;
    for (int64_t first = 0; ok && first < j->g->k; first += j->rows) {
        g.k = br__min(j->rows, j->g->k - first);
        g.a = (const float *)j->g->a + first * j->g->a_col;
        br__dequantize_rows_shared(j->b, first, g.k, j->memory);
        ok = br__gemm(&g);
        g.accumulate = true;
        g.bias = NULL;
    }
    return ok;
}

static bool multiply_by_rows(job *j)
{
    j->rows = br__gemm_k_block(br__gemm_choice(j->g).kernels, j->g->k);
    return with_memory(j, run_k_blocks);
}

bool br__gemm_quantized(const br_gemm *g, const br_tensor *b)
{
    job j = { .g = g, .b = b, .teams = 1 };
    if (b->numel == 0 || g->m == 0)
        return br__gemm(g); /* no element of B is read */
    return g->b_row == 1 ? multiply_by_transposed(&j) : multiply_by_rows(&j);
}
