/* backends/cpu/isa/gemm_amx_high.c - products of f32 matrices of precision "high", for processors
 * with AMX.
 *
 * Each operand is split into two bf16 numbers, the nearest one and the remainder
 * (gemm_pack_bf16.h). Three products of these are added:
 *
 *     A B  ~  remainder(A) nearest(B) + nearest(A) remainder(B) + nearest(A) nearest(B)
 *
 * The product of both remainders is left out: like the error of a remainder, it is at most about
 * 2^-16 of a term. The smallest products are added first. Where a number of A or B is infinite or
 * NaN, sums of products of remainders may be infinite or NaN, too, also if the product is not: 0
 * times infinity. Such sums count as 0, because the product of the nearest numbers has the right
 * value. */
typedef float real; /* or a pair of bf16 numbers */

#include "backends/cpu/gemm/gemm_amx_tiles.h"

#include <math.h>

/* Both parts of an operand. */
typedef struct parts {
    const real *nearest, *rest;
} parts;

/* Returns a mask of the lanes that are neither infinite nor NaN. */
static __mmask16 finite_lanes(vec x)
{
    return _mm512_cmp_ps_mask(_mm512_abs_ps((__m512)x), _mm512_set1_ps(INFINITY), _CMP_LT_OQ);
}

/* Prepares the sums of products of remainders for the third product: those that are infinite or NaN
 * become 0, and C, or 0, and the bias are added. */
static void begin_products(real *sums, int64_t rows, const tile_out *out, const int64_t *places)
{
    for (int64_t j = 0; j < out->columns; j += VECTOR) {
        const int64_t count = at_most(out->columns - j, VECTOR);
        const vec bias = out->bias ? load_part(out->bias + j, count) : (vec){ 0 };
        for (int64_t i = 0; i < rows; i++) {
            vec *sum = (vec *)(sums + i * TILE_COLUMNS + j);
            *sum = (vec)_mm512_maskz_mov_ps(finite_lanes(*sum), (__m512)*sum) + bias;
            if (out->accumulate && !places)
                *sum += load_part(out->c + i * out->c_row + j, count);
        }
    }
}

/* Multiplies at most BLOCK_ROWS rows of A by a panel. */
static void multiply_rows(int64_t rows, int64_t k, parts a, parts panel, const tile_out *out,
                          const int64_t *places, prefetch *next)
{
    tiles_fn *const multiply = tiles_for(rows, out->columns);
    const int64_t steps = steps_in(k);
    _Alignas(64) real block[BLOCK_ROWS * TILE_COLUMNS];
    const sums_at zero = { NULL, 0 }, aside = { block, PANEL_BYTES };
    const sums_at c = { out->c, out->c_row * (int64_t)sizeof(real) };
    const bool whole = is_whole(rows, out, places);
    finish_stores();
    multiply(steps, a.rest, panel.nearest, zero, aside, next);
    multiply(steps, a.nearest, panel.rest, aside, aside, next);
    begin_products(block, rows, out, places);
    finish_stores();
    multiply(steps, a.nearest, panel.nearest, aside, whole ? c : aside, next);
    if (places)
        put_listed(out, rows, block, places);
    else if (!whole)
        put_sums(out, rows, block);
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

/* Both parts of a packed panel: the remainders follow the nearest numbers. */
enum { PART = MAX_SPLIT_DEPTH / 2 * TILE_COLUMNS };

/* Returns the number of pairs in a packed part of A [m, k]. The remainders follow the nearest
 * numbers. */
static int64_t pairs_in_part(int64_t m, int64_t k)
{
    return (m + AMX_ROWS - 1) / AMX_ROWS * steps_in(k) * TILE_PAIRS;
}

static void multiply_packed(const br_gemm_block *g, real *panel, tile_out out,
                            const int64_t *places, prefetch next[2])
{
    const parts b = { panel, panel + PART };
    parts a = { g->a, (const real *)g->a + pairs_in_part(g->m, g->k) };
    complete_panel(panel, g->k);
    complete_panel(panel + PART, g->k);
    for (int64_t i = 0; i < g->m; i += BLOCK_ROWS) {
        multiply_rows(at_most(g->m - i, BLOCK_ROWS), g->k, a, b, &out, places,
                      &next[next->runs == 0]);
        out.c += BLOCK_ROWS * out.c_row;
        a.nearest += 2 * steps_in(g->k) * TILE_PAIRS;
        a.rest += 2 * steps_in(g->k) * TILE_PAIRS;
    }
}

/* Configures and releases the tiles, as in gemm_amx.c. */
static void gemm_block(const br_gemm_block *g)
{
    _Alignas(64) real panel[2 * PART];
    _tile_loadconfig(&full_tiles);
    multiply_panels(NEAREST, g, panel, panel + PART, multiply_packed);
    _tile_release();
}

static void gemm_pack(void *to, int64_t m, int64_t k, const void *a, int64_t a_row, int64_t a_col)
{
    pack_rows_of_tiles(NEAREST, to, m, k, a, a_row, a_col);
    pack_rows_of_tiles(REMAINDER, (real *)to + pairs_in_part(m, k), m, k, a, a_row, a_col);
}

extern const br_gemm_kernels BR_GEMM_SPLIT_TABLE;

const br_gemm_kernels BR_GEMM_SPLIT_TABLE = {
    .unit = "amx",
    .gemm_rows = BLOCK_ROWS,
    .gemm_columns = TILE_COLUMNS,
    .gemm_depth = MAX_SPLIT_DEPTH,
    .gemm_depth_unit = AMX_DEPTH,
    .packed_size = sizeof(real),
    .only_packed = true,
    .gemm_block = gemm_block,
    .gemm_pack = gemm_pack,
    .peak_loop = peak_loop,
    .peak_flops = PEAK_FLOPS / 3.0, /* three products of bf16 numbers are one */
};
