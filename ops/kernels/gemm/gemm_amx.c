/* ops/kernels/gemm/gemm_amx.c - products of f32 matrices that are rounded to bf16, for processors
 * with AMX.
 *
 * AMX has eight tiles of 16 rows of 64 bytes. TDPBF16PS multiplies a tile of A, 16 rows of 32
 * numbers, by a tile of B, and adds the product to a tile of 16 x 16 sums in f32. A row of a tile
 * of B is a row of pairs that are adjacent along k, so the panels of gemm_pack_bf16.h consist of
 * such tiles already. A is packed tile by tile. Four tiles of sums are computed together from two
 * tiles of A and two of B, so that each tile that is loaded is used twice.
 *
 * TDPBF16PS adds the 16 products of the numbers with even k and those of the numbers with odd k,
 * each in ascending order and beginning with 0, then both sums, and adds the result to the tile.
 * Each addition rounds to nearest, ties to even; denormal numbers are flushed to 0. See Intel 64
 * and IA-32 Architectures Software Developer's Manual, volumes 1 (chapter 18) and 2. */
typedef float real; /* or a pair of bf16 numbers */

#include "ops/kernels/gemm/gemm_block_bf16.h"

/* The size of a tile, in numbers: 32 numbers of A or B, or 16 sums, are a row. */
enum {
    AMX_ROWS = 16,
    AMX_DEPTH = 2 * VECTOR,
    ROW_BYTES = 64,
    TILE_PAIRS = AMX_ROWS * VECTOR,
};

/* A block of C has two by two tiles, and a panel of B has two columns of tiles. */
enum { BLOCK_ROWS = 2 * AMX_ROWS, PANEL_BYTES = TILE_COLUMNS * sizeof(real) };

/* Maximum size of a k-block. The panel of B and the rows of A that it meets then take 24 KiB each,
 * which fit into an L1 cache of 48 KiB. */
enum { MAX_DEPTH = 384 };

/* Names of the tiles. They are macros because GCC makes register names of them. */
#define C00 0
#define C01 1
#define C10 2
#define C11 3
#define A0  4
#define A1  5
#define B0  6
#define B1  7

/* The operand of LDTILECFG. */
typedef struct tile_configuration {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_configuration;
_Static_assert(sizeof(tile_configuration) == 64, "LDTILECFG reads 64 bytes");

/* All tiles are of full size. Where k ends, operands are completed by zeros. */
static const tile_configuration full_tiles = {
    .palette = 1,
    .row_bytes = { ROW_BYTES, ROW_BYTES, ROW_BYTES, ROW_BYTES, ROW_BYTES, ROW_BYTES, ROW_BYTES,
                   ROW_BYTES },
    .rows = { AMX_ROWS, AMX_ROWS, AMX_ROWS, AMX_ROWS, AMX_ROWS, AMX_ROWS, AMX_ROWS, AMX_ROWS },
};

/* Returns the number of tiles that k numbers take. */
static inline int64_t steps_in(int64_t k)
{
    return (k + AMX_DEPTH - 1) / AMX_DEPTH;
}

/* ---- Packing A ------------------------------------------------------------------------------- */

/* to[w * VECTOR + p] = from[p * VECTOR + w]: transposes a tile of pairs. */
static void transpose_tile(real *to, const real *from)
{
    const real *row[VECTOR];
    UNROLLED
    for (int p = 0; p < VECTOR; p++)
        row[p] = from + p * VECTOR;
    for (int w = 0; w < VECTOR; w += QUAD, to += QUAD * VECTOR) {
        vec v[QUAD];
        UNROLLED
        for (int i = 0; i < QUAD; i++)
            v[i] = load_groups(row + i, w);
        transpose_groups(v);
        UNROLLED
        for (int i = 0; i < QUAD; i++)
            *(vec *)(to + i * VECTOR) = v[i];
    }
}

/* Packs at most AMX_ROWS rows of k <= AMX_DEPTH numbers of A into a tile, and completes them by 0.
 * The other rows may have any numbers: their sums are not stored. */
static void pack_tile(real *to, int64_t rows, int64_t k, const real *a, int64_t a_row,
                      int64_t a_col)
{
    if (a_col == 1) {
        const int64_t low = at_most(k, VECTOR);
        for (int64_t i = 0; i < rows; i++, a += a_row)
            *(vec *)(to + i * VECTOR) = round_lanes(load_part(a, low), load_part(a + low, k - low));
        return;
    }
    _Alignas(64) real columns[TILE_PAIRS]; /* pair p of row i is at p * AMX_ROWS + i */
    const int64_t pairs = pairs_in(k);
    pack_strided(columns, AMX_ROWS, rows, k, a, a_row, a_col);
    memset(columns + pairs * AMX_ROWS, 0, (size_t)((VECTOR - pairs) * ROW_BYTES));
    transpose_tile(to, columns);
}

/* Packs A [m, k]: the tiles of the first AMX_ROWS rows, in ascending order of k, then those of the
 * next rows. */
static void gemm_pack(void *to, int64_t m, int64_t k, const void *a, int64_t a_row, int64_t a_col)
{
    real *tile = to;
    for (int64_t i = 0; i < m; i += AMX_ROWS)
        for (int64_t p = 0; p < k; p += AMX_DEPTH, tile += TILE_PAIRS)
            pack_tile(tile, at_most(m - i, AMX_ROWS), at_most(k - p, AMX_DEPTH),
                      (const real *)a + i * a_row + p * a_col, a_row, a_col);
}

/* ---- The micro-kernel ------------------------------------------------------------------------ */

/* A matrix of f32 numbers in memory. */
typedef struct sums_at {
    real *at;
    int64_t row_bytes;
} sums_at;

/* Returns the address of a tile's sums. */
static inline real *tile_at(sums_at c, int row, int column)
{
    return (real *)((char *)c.at + row * AMX_ROWS * c.row_bytes) + column * VECTOR;
}

/* Sets the tiles of sums to those in memory, or to 0 if there are none. */
ALWAYS_INLINE void begin_sums(int rows, int columns, sums_at from)
{
    if (!from.at) {
        _tile_zero(C00);
        _tile_zero(C01);
        _tile_zero(C10);
        _tile_zero(C11);
        return;
    }
    _tile_loadd(C00, tile_at(from, 0, 0), from.row_bytes);
    if (columns > 1)
        _tile_loadd(C01, tile_at(from, 0, 1), from.row_bytes);
    if (rows > 1)
        _tile_loadd(C10, tile_at(from, 1, 0), from.row_bytes);
    if (rows > 1 && columns > 1)
        _tile_loadd(C11, tile_at(from, 1, 1), from.row_bytes);
}

ALWAYS_INLINE void end_sums(int rows, int columns, sums_at to)
{
    _tile_stored(C00, tile_at(to, 0, 0), to.row_bytes);
    if (columns > 1)
        _tile_stored(C01, tile_at(to, 0, 1), to.row_bytes);
    if (rows > 1)
        _tile_stored(C10, tile_at(to, 1, 0), to.row_bytes);
    if (rows > 1 && columns > 1)
        _tile_stored(C11, tile_at(to, 1, 1), to.row_bytes);
}

/* Multiplies `rows` rows of tiles of A by `columns` columns of tiles of a panel, each 1 or 2, and
 * adds the product to `from`. `rows` and `columns` are constants after inlining. */
ALWAYS_INLINE void multiply_tiles(int rows, int columns, int64_t steps, const real *a,
                                  const real *panel, sums_at from, sums_at to, prefetch *next)
{
    enum { LINES = 4 }; /* prefetched per step */
    const real *lower = a + steps * TILE_PAIRS;
    begin_sums(rows, columns, from);
    for (int64_t s = 0; s < steps; s++) {
        _tile_loadd(B0, panel, PANEL_BYTES);
        if (columns > 1)
            _tile_loadd(B1, panel + VECTOR, PANEL_BYTES);
        _tile_loadd(A0, a, ROW_BYTES);
        _tile_dpbf16ps(C00, A0, B0);
        if (columns > 1)
            _tile_dpbf16ps(C01, A0, B1);
        if (rows > 1) {
            _tile_loadd(A1, lower, ROW_BYTES);
            _tile_dpbf16ps(C10, A1, B0);
        }
        if (rows > 1 && columns > 1)
            _tile_dpbf16ps(C11, A1, B1);
        UNROLLED
        for (int i = 0; i < LINES; i++)
            prefetch_lines(next, 1);
        a += TILE_PAIRS;
        lower += TILE_PAIRS;
        panel += AMX_ROWS * TILE_COLUMNS;
    }
    end_sums(rows, columns, to);
}

typedef void tiles_fn(int64_t steps, const real *a, const real *panel, sums_at from, sums_at to,
                      prefetch *next);

#define TILES_FUNCTION(rows, columns)                                                     \
    static void tiles_##rows##x##columns(int64_t steps, const real *a, const real *panel, \
                                         sums_at from, sums_at to, prefetch *next)        \
    {                                                                                     \
        multiply_tiles(rows, columns, steps, a, panel, from, to, next);                   \
    }

TILES_FUNCTION(1, 1)
TILES_FUNCTION(1, 2)
TILES_FUNCTION(2, 1)
TILES_FUNCTION(2, 2)

/* ---- Edges, bias and listed columns ---------------------------------------------------------- */

/* Makes all stores to memory happen before the tile instructions that follow: GCC does not know
 * that these read memory. */
ALWAYS_INLINE void finish_stores(void)
{
    __asm__ volatile("" : : : "memory");
}

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

/* Stores a block of sums to C. */
static void put_sums(const tile_out *out, int64_t rows, const real *sums)
{
    for (int64_t j = 0; j < out->columns; j += VECTOR)
        for (int64_t i = 0; i < rows; i++)
            store_part(out->c + i * out->c_row + j, *(const vec *)(sums + i * TILE_COLUMNS + j),
                       at_most(out->columns - j, VECTOR));
}

/* Multiplies at most BLOCK_ROWS rows of A by a panel. Tiles begin with C and the bias, and are
 * loaded from C and stored to it directly if it has all their rows and columns. */
static void multiply_rows(int64_t rows, int64_t k, const real *a, const real *panel,
                          const tile_out *out, const int64_t *places, prefetch *next)
{
    static tiles_fn *const multiply[2][2] = { { tiles_1x1, tiles_1x2 }, { tiles_2x1, tiles_2x2 } };
    _Alignas(64) real block[BLOCK_ROWS * TILE_COLUMNS];
    const sums_at aside = { block, PANEL_BYTES };
    const sums_at c = { out->c, out->c_row * (int64_t)sizeof(real) };
    const bool whole = rows % AMX_ROWS == 0 && out->columns % VECTOR == 0 && !places;
    sums_at from = { NULL, 0 };
    if (!places && (out->bias || (out->accumulate && !whole))) {
        first_sums(block, rows, out);
        from = aside;
    } else if (!places && out->accumulate) {
        from = c;
    }
    finish_stores();
    multiply[rows > AMX_ROWS][out->columns > VECTOR](steps_in(k), a, panel, from, whole ? c : aside,
                                                     next);
    if (places)
        put_listed(out, rows, block, places);
    else if (!whole)
        put_sums(out, rows, block);
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

static void multiply_packed(const br_gemm_block *g, real *panel, tile_out out,
                            const int64_t *places, prefetch next[2])
{
    const int64_t pairs = pairs_in(g->k), all = steps_in(g->k) * AMX_ROWS;
    memset(panel + pairs * TILE_COLUMNS, 0, (size_t)((all - pairs) * PANEL_BYTES));
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
static void gemm_block(const br_gemm_block *g)
{
    _Alignas(64) real panel[MAX_DEPTH / 2 * TILE_COLUMNS];
    _tile_loadconfig(&full_tiles);
    multiply_panels(g, panel, multiply_packed);
    _tile_release();
}

extern const br_gemm_kernels BR_GEMM_TABLE;

const br_gemm_kernels BR_GEMM_TABLE = {
    .unit = "amx",
    .gemm_rows = BLOCK_ROWS,
    .gemm_columns = TILE_COLUMNS,
    .gemm_depth = MAX_DEPTH,
    .gemm_depth_unit = AMX_DEPTH,
    .packed_size = sizeof(real) / 2,
    .only_packed = true,
    .gemm_block = gemm_block,
    .gemm_pack = gemm_pack,
};
