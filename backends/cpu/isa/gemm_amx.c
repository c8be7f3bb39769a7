/* backends/cpu/isa/gemm_amx.c - products of bf16 matrices, and of f32 matrices that are rounded to
 * bf16, for processors with AMX (gemm_amx_tiles.h). */
typedef float real; /* or a pair of bf16 numbers */

#include "backends/cpu/gemm/gemm_amx_tiles.h"

/* Sets a block of sums to C, or to 0, plus the bias. Columns outside C become 0. */
static void first_sums(real *sums, int64_t rows, const tile_out *out)
{
    for (int64_t j = 0; j < out->columns; j += VECTOR) {
        const int64_t count = at_most(out->columns - j, VECTOR);
        const vec bias = out->bias ? load_part(out->bias + j, count) : (vec){ 0 };
        for (int64_t i = 0; i < rows; i++) {
            const real *c = out->c + i * out->c_row + j;
            *(vec *)(sums + i * TILE_COLUMNS + j) =
                out->accumulate ? load_part(c, count) + bias : bias;
        }
    }
}

/* Multiplies at most BLOCK_ROWS rows of A by a panel. Tiles begin with C and the bias, and are
 * loaded from C and stored to it directly if it has all their rows and columns. */
static void multiply_rows(int64_t rows, int64_t k, const real *a, const real *panel,
                          const tile_out *out, const int64_t *places, prefetch *next)
{
    _Alignas(64) real block[BLOCK_ROWS * TILE_COLUMNS];
    const sums_at aside = { block, PANEL_BYTES };
    const sums_at c = { out->c, out->c_row * (int64_t)sizeof(real) };
    const bool whole = is_whole(rows, out, places);
    sums_at from = { NULL, 0 };
    if (!places && (out->bias || (out->accumulate && !whole))) {
        first_sums(block, rows, out);
        from = aside;
    } else if (!places && out->accumulate) {
        from = c;
    }
    finish_stores();
    tiles_for(rows, out->columns)(steps_in(k), a, panel, from, whole ? c : aside, next);
    if (places)
        put_listed(out, rows, block, places);
    else if (!whole)
        put_sums(out, rows, block);
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

static void multiply_packed(const br_gemm_block *g, real *panel, tile_out out,
                            const int64_t *places, prefetch next[2])
{
    complete_panel(panel, g->k);
    const real *a = g->a;
    for (int64_t i = 0; i < g->m; i += BLOCK_ROWS) {
        multiply_rows(at_most(g->m - i, BLOCK_ROWS), g->k, a, panel, &out, places,
                      &next[next->runs == 0]);
        out.c += BLOCK_ROWS * out.c_row;
        a += 2 * steps_in(g->k) * TILE_PAIRS;
    }
}

/* Configures the tiles of this thread and releases them, so that the system saves no tiles when it
 * interrupts anything but a product. */
ALWAYS_INLINE void multiply_block(bf16_part which, const br_gemm_block *g)
{
    _Alignas(64) real panel[MAX_DEPTH / 2 * TILE_COLUMNS];
    _tile_loadconfig(&full_tiles);
    multiply_panels(which, g, panel, NULL, multiply_packed);
    _tile_release();
}

static void gemm_block(const br_gemm_block *g)
{
    multiply_block(NEAREST, g);
}

static void gemm_block_stored(const br_gemm_block *g)
{
    multiply_block(STORED, g);
}

static void gemm_pack(void *to, int64_t m, int64_t k, const void *a, int64_t a_row, int64_t a_col)
{
    pack_rows_of_tiles(NEAREST, to, m, k, a, a_row, a_col);
}

static void gemm_pack_stored(void *to, int64_t m, int64_t k, const void *a, int64_t a_row,
                             int64_t a_col)
{
    pack_rows_of_tiles(STORED, to, m, k, a, a_row, a_col);
}

extern const br_gemm_kernels BR_GEMM_TABLE;

#define TABLE(block, pack, stored)                                                              \
    {                                                                                           \
        .unit = "amx", .gemm_rows = BLOCK_ROWS, .gemm_columns = TILE_COLUMNS,                   \
        .gemm_depth = MAX_DEPTH, .gemm_depth_unit = AMX_DEPTH, .packed_size = sizeof(real) / 2, \
        .only_packed = true, .gemm_block = (block), .gemm_pack = (pack), .of_stored = (stored), \
        .peak_loop = peak_loop, .peak_flops = PEAK_FLOPS,                                       \
    }

static const br_gemm_kernels of_stored = TABLE(gemm_block_stored, gemm_pack_stored, NULL);
const br_gemm_kernels BR_GEMM_TABLE = TABLE(gemm_block, gemm_pack, &of_stored);
