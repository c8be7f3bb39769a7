/* tests/ops/matmul/amx_emulation.c - see amx_emulation.h. The instructions follow the Intel 64 and
 * IA-32 Architectures Software Developer's Manual, volume 2. */
#ifdef __x86_64__
#    include "tests/ops/matmul/amx_emulation.h"

#    include "tensor/denormal.h"

#    include <math.h>
#    include <stdarg.h>
#    include <stdatomic.h>
#    include <stdio.h>
#    include <stdlib.h>
#    include <string.h>

enum { PAIRS = MAX_ROW_BYTES / 4 };

/* A tile; columns and rows beyond its size are 0. */
typedef union tile {
    char bytes[MAX_TILE_ROWS][MAX_ROW_BYTES];
    float sums[MAX_TILE_ROWS][PAIRS];
    uint32_t pairs[MAX_TILE_ROWS][PAIRS];
} tile;

static _Thread_local struct thread_tiles {
    bool configured;
    emulated_configuration configuration;
    tile tiles[EMULATED_TILES];
} own;

static atomic_int_fast64_t configurations, releases;

/* Ends the test's process with a message. */
static __attribute__((noreturn, format(printf, 1, 2))) void fault(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("emulation of AMX: ", stderr);
    vfprintf(stderr, format, args);
    fputs("\n", stderr);
    va_end(args);
    abort();
}

static void require(bool valid, const char *instruction, const char *rule)
{
    if (!valid)
        fault("%s: %s", instruction, rule);
}

/* ---- Configuration --------------------------------------------------------------------------- */

void emulated_loadconfig(const void *configuration)
{
    const uint8_t *bytes = configuration;
    emulated_configuration c = { .palette = bytes[0], .start_row = bytes[1] };
    require(!own.configured, "ldtilecfg", "the previous configuration was not released");
    require(c.palette == 1, "ldtilecfg", "the palette must be 1");
    for (int i = 2; i < 16; i++)
        require(bytes[i] == 0, "ldtilecfg", "reserved bytes must be 0");
    for (int i = 0; i < 16; i++) {
        uint16_t row_bytes;
        memcpy(&row_bytes, bytes + 16 + 2 * i, sizeof row_bytes);
        const uint8_t rows = bytes[48 + i];
        require(rows <= MAX_TILE_ROWS && row_bytes <= MAX_ROW_BYTES, "ldtilecfg",
                "a tile is too large");
        require((rows == 0) == (row_bytes == 0), "ldtilecfg",
                "a tile has rows without bytes, or bytes without rows");
        require(i < EMULATED_TILES || rows == 0, "ldtilecfg", "there are eight tiles");
        if (i < EMULATED_TILES) {
            c.row_bytes[i] = row_bytes;
            c.rows[i] = rows;
        }
    }
    memset(&own, 0, sizeof own);
    own.configuration = c;
    own.configured = true;
    atomic_fetch_add(&configurations, 1);
}

void emulated_release(void)
{
    require(own.configured, "tilerelease", "there is no configuration");
    memset(own.tiles, 0, sizeof own.tiles);
    own.configured = false;
    atomic_fetch_add(&releases, 1);
}

emulated_configuration emulated_last_configuration(void)
{
    return own.configuration;
}

bool emulated_is_configured(void)
{
    return own.configured;
}

int64_t emulated_configurations(void)
{
    return atomic_load(&configurations);
}

int64_t emulated_releases(void)
{
    return atomic_load(&releases);
}

/* Returns the tile, and in *rows and *bytes its size. */
static tile *get_tile(const char *instruction, int t, int *rows, int *bytes)
{
    require(own.configured, instruction, "the tiles are not configured");
    require(t >= 0 && t < EMULATED_TILES && own.configuration.rows[t] > 0, instruction,
            "the tile does not exist");
    *rows = own.configuration.rows[t];
    *bytes = own.configuration.row_bytes[t];
    return &own.tiles[t];
}

/* ---- Loads and stores ------------------------------------------------------------------------ */

void emulated_zero(int t)
{
    int rows, bytes;
    memset(get_tile("tilezero", t, &rows, &bytes), 0, sizeof(tile));
}

void emulated_loadd(int t, const void *base, int64_t stride)
{
    int rows, bytes;
    tile *to = get_tile("tileloadd", t, &rows, &bytes);
    memset(to, 0, sizeof *to);
    for (int i = 0; i < rows; i++)
        memcpy(to->bytes[i], (const char *)base + i * stride, (size_t)bytes);
}

void emulated_stored(int t, void *base, int64_t stride)
{
    int rows, bytes;
    const tile *from = get_tile("tilestored", t, &rows, &bytes);
    for (int i = 0; i < rows; i++)
        memcpy((char *)base + i * stride, from->bytes[i], (size_t)bytes);
}

/* ---- Products -------------------------------------------------------------------------------- */

/* Returns the bf16 number with even k, or that with odd k, of a pair. */
static inline float number_of(uint32_t pair, bool odd)
{
    const uint32_t bits = odd ? pair & 0xffff0000 : pair << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Adds the product of `rows` rows and `pairs` pairs to `to`. The mode of the processor must flush
 * denormal numbers. */
static __attribute__((noinline, target("avx2,fma"))) void multiply(tile *to, const tile *a,
                                                                   const tile *b, int rows,
                                                                   int pairs)
{
    for (int i = 0; i < rows; i++) {
        float even[PAIRS] = { 0 }, odd[PAIRS] = { 0 };
        for (int p = 0; p < pairs; p++) {
            const float a_even = number_of(a->pairs[i][p], false);
            const float a_odd = number_of(a->pairs[i][p], true);
            for (int j = 0; j < PAIRS; j++)
                even[j] = fmaf(a_even, number_of(b->pairs[p][j], false), even[j]);
            for (int j = 0; j < PAIRS; j++)
                odd[j] = fmaf(a_odd, number_of(b->pairs[p][j], true), odd[j]);
        }
        for (int j = 0; j < PAIRS; j++)
            to->sums[i][j] += even[j] + odd[j];
    }
}

void emulated_dpbf16ps(int sums, int a, int b)
{
    static const char name[] = "tdpbf16ps";
    int rows, columns, a_rows, a_bytes, b_rows, b_bytes;
    tile *to = get_tile(name, sums, &rows, &columns);
    const tile *left = get_tile(name, a, &a_rows, &a_bytes);
    const tile *right = get_tile(name, b, &b_rows, &b_bytes);
    require(sums != a && sums != b && a != b, name, "the tiles must be distinct");
    require(columns % 4 == 0 && a_bytes % 4 == 0, name, "rows must consist of whole pairs");
    require(rows == a_rows && columns == b_bytes && a_bytes / 4 == b_rows, name,
            "the sizes of the tiles do not match");
    const br_float_mode before = br__flush_denormals();
    multiply(to, left, right, rows, a_bytes / 4);
    br__restore_denormals(before);
}
#endif
