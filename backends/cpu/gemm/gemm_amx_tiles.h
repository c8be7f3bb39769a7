/* backends/cpu/gemm/gemm_amx_tiles.h - tiles of AMX: packing A, and the micro-kernel; part of
 * gemm_amx.c and gemm_amx_high.c.
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
#ifndef BR_KERNELS_GEMM_AMX_TILES_H
#define BR_KERNELS_GEMM_AMX_TILES_H

#include "backends/cpu/gemm/gemm_block_bf16.h"

/* The size of a tile, in numbers: 32 numbers of A or B, or 16 sums, are a row. */
enum {
    AMX_ROWS = 16,
    AMX_DEPTH = 2 * VECTOR,
    ROW_BYTES = 64,
    TILE_PAIRS = AMX_ROWS * VECTOR,
};

/* A block of C has two by two tiles, and a panel of B has two columns of tiles. */
enum { BLOCK_ROWS = 2 * AMX_ROWS, PANEL_BYTES = TILE_COLUMNS * sizeof(real) };

/* Maximum size of a k-block, and of one whose operands have two parts. The panel of B and the rows
 * of A that it meets then take 24 KiB each, which fit into an L1 cache of 48 KiB. */
enum { MAX_DEPTH = 384, MAX_SPLIT_DEPTH = MAX_DEPTH / 2 };

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
ALWAYS_INLINE void pack_tile(bf16_part which, real *to, int64_t rows, int64_t k, const void *a,
                             int64_t a_row, int64_t a_col)
{
    if (a_col == 1) {
        const int64_t low = at_most(k, VECTOR);
        for (int64_t i = 0; i < rows; i++, a = number_at(which, a, a_row))
            *(vec *)(to + i * VECTOR) =
                load_lanes(which, a, mask_of(low), number_at(which, a, low), mask_of(k - low));
        return;
    }
    _Alignas(64) real columns[TILE_PAIRS]; /* pair p of row i is at p * AMX_ROWS + i */
    const int64_t pairs = pairs_in(k);
    pack_strided(which, columns, AMX_ROWS, rows, k, a, a_row, a_col);
    memset(columns + pairs * AMX_ROWS, 0, (size_t)((VECTOR - pairs) * ROW_BYTES));
    transpose_tile(to, columns);
}

/* Packs A [m, k]: the tiles of the first AMX_ROWS rows, in ascending order of k, then those of the
 * next rows. */
ALWAYS_INLINE void pack_rows_of_tiles(bf16_part which, real *tile, int64_t m, int64_t k,
                                      const void *a, int64_t a_row, int64_t a_col)
{
    for (int64_t i = 0; i < m; i += AMX_ROWS)
        for (int64_t p = 0; p < k; p += AMX_DEPTH, tile += TILE_PAIRS)
            pack_tile(which, tile, at_most(m - i, AMX_ROWS), at_most(k - p, AMX_DEPTH),
                      number_at(which, a, i * a_row + p * a_col), a_row, a_col);
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

/* Returns the function for a block of at most BLOCK_ROWS rows and a panel of at most TILE_COLUMNS
 * columns. */
static inline tiles_fn *tiles_for(int64_t rows, int64_t columns)
{
    static tiles_fn *const multiply[2][2] = { { tiles_1x1, tiles_1x2 }, { tiles_2x1, tiles_2x2 } };
    return multiply[rows > AMX_ROWS][columns > VECTOR];
}

/* The FLOPs of four TDPBF16PS. */
enum { PEAK_FLOPS = 4 * 2 * AMX_ROWS * VECTOR * AMX_DEPTH };

/* Multiplies the same tiles n times: four products are independent, like those of the
 * micro-kernel. */
static double peak_loop(int64_t n)
{
    _Alignas(64) real sums[TILE_PAIRS];
    _tile_loadconfig(&full_tiles);
    begin_sums(2, 2, (sums_at){ NULL, 0 });
    _tile_zero(A0);
    _tile_zero(A1);
    _tile_zero(B0);
    _tile_zero(B1);
    for (int64_t i = 0; i < n; i++) {
        _tile_dpbf16ps(C00, A0, B0);
        _tile_dpbf16ps(C01, A0, B1);
        _tile_dpbf16ps(C10, A1, B0);
        _tile_dpbf16ps(C11, A1, B1);
    }
    _tile_stored(C00, sums, ROW_BYTES);
    _tile_release();
    return (double)sums[0];
}

/* ---- Blocks of C ----------------------------------------------------------------------------- */

/* Makes all stores to memory happen before the tile instructions that follow: GCC does not know
 * that these read memory. */
ALWAYS_INLINE void finish_stores(void)
{
    __asm__ volatile("" : : : "memory");
}

/* Returns whether tiles can be loaded from C and stored to it: if they have all their rows and
 * columns there. */
static inline bool is_whole(int64_t rows, const tile_out *out, const int64_t *places)
{
    return rows % AMX_ROWS == 0 && out->columns % VECTOR == 0 && !places;
}

/* Stores a block of sums to C. */
static void put_sums(const tile_out *out, int64_t rows, const real *sums)
{
    for (int64_t j = 0; j < out->columns; j += VECTOR)
        for (int64_t i = 0; i < rows; i++)
            store_part(out->c + i * out->c_row + j, *(const vec *)(sums + i * TILE_COLUMNS + j),
                       at_most(out->columns - j, VECTOR));
}

/* Completes the numbers of a packed panel by zeros, up to whole tiles. */
static inline void complete_panel(real *panel, int64_t k)
{
    const int64_t pairs = pairs_in(k), all = steps_in(k) * AMX_ROWS;
    memset(panel + pairs * TILE_COLUMNS, 0, (size_t)((all - pairs) * PANEL_BYTES));
}

#endif
