/* backends/cpu/shape/copy_tiles.c - copies in tiles, for transposes. */
#include "backends/cpu/shape/copy.h"

#include <string.h>
#if defined(__SSE2__)
#    include <emmintrin.h>
#endif

enum { TILE = 16, LINE = 64 /* bytes */, STRIP_BYTES = 2048 };

typedef struct tile_strides {
    int64_t dst, src; /* strides in bytes: between rows of dst, and between columns of src */
    bool past;        /* tiles are whole cache lines, written with non-temporal stores */
    int64_t down;     /* number of adjacent tiles in a strip, along src's rows */
} tile_strides;

/* Transpose squares as wide as a vector: row i of `to` is column i of `from`, which is part of a
 * tile. */
typedef uint32_t quad __attribute__((vector_size(16)));
typedef uint32_t quad_at __attribute__((vector_size(16), aligned(4), may_alias));

static inline void turn_4(const uint32_t *from, char *to, int64_t step)
{
    const quad_at *r0 = (const void *)from, *r1 = (const void *)(from + TILE);
    const quad_at *r2 = (const void *)(from + 2 * TILE), *r3 = (const void *)(from + 3 * TILE);
    const quad low01 = __builtin_shufflevector(*r0, *r1, 0, 4, 1, 5);
    const quad low23 = __builtin_shufflevector(*r2, *r3, 0, 4, 1, 5);
    const quad high01 = __builtin_shufflevector(*r0, *r1, 2, 6, 3, 7);
    const quad high23 = __builtin_shufflevector(*r2, *r3, 2, 6, 3, 7);
    *(quad_at *)(void *)to = __builtin_shufflevector(low01, low23, 0, 1, 4, 5);
    *(quad_at *)(void *)(to + step) = __builtin_shufflevector(low01, low23, 2, 3, 6, 7);
    *(quad_at *)(void *)(to + 2 * step) = __builtin_shufflevector(high01, high23, 0, 1, 4, 5);
    *(quad_at *)(void *)(to + 3 * step) = __builtin_shufflevector(high01, high23, 2, 3, 6, 7);
}

typedef uint64_t pair_at __attribute__((vector_size(16), aligned(8), may_alias));

static inline void turn_8(const uint64_t *from, char *to, int64_t step)
{
    const pair_at *r0 = (const void *)from, *r1 = (const void *)(from + TILE);
    *(pair_at *)(void *)to = __builtin_shufflevector(*r0, *r1, 0, 2);
    *(pair_at *)(void *)(to + step) = __builtin_shufflevector(*r0, *r1, 1, 3);
}

#if defined(__SSE2__)
enum { HAS_STREAMING_STORES = true };

/* Writes whole cache lines with non-temporal stores. */
static inline void streaming_store(char *to, const char *from, size_t bytes)
{
    for (size_t k = 0; k < bytes; k += sizeof(__m128i))
        _mm_stream_si128((void *)(to + k), _mm_loadu_si128((const void *)(from + k)));
}

/* Makes non-temporal stores visible to all processors. */
static void streaming_fence(void)
{
    _mm_sfence();
}
#else
enum { HAS_STREAMING_STORES = false };

/* Never called, since HAS_STREAMING_STORES is false. */
static inline void streaming_store(char *to, const char *from, size_t bytes)
{
    memcpy(to, from, bytes);
}

static void streaming_fence(void)
{
}
#endif

/* Tiles and strips. A tile is read completely before it is written, because cache lines that are
 * far apart can evict each other. The rows of dst in a strip may begin anywhere in a cache line.
 * They are written in whole cache lines with non-temporal stores: each write combines the end of
 * the previous tile's part of a row with the beginning of the current tile's. */
#define TILE_LOOPS(size, type, turn)                                                              \
    static void turn_tile_##size(const char *from, int64_t from_step, char *to, int64_t to_step)  \
    {                                                                                             \
        enum { SIDE = 16 / sizeof(type) };                                                        \
        _Alignas(16) type columns[TILE][TILE];                                                    \
        for (int k = 0; k < TILE; k++)                                                            \
            memcpy(columns[k], from + k * from_step, sizeof *columns);                            \
        for (int i = 0; i < TILE; i += SIDE)                                                      \
            for (int k = 0; k < TILE; k += SIDE)                                                  \
                turn(&columns[k][i], to + i * to_step + k * (int64_t)sizeof(type), to_step);      \
    }                                                                                             \
                                                                                                  \
    static void tiles_##size(int64_t n, char *const *data, const int64_t *s, const void *params)  \
    {                                                                                             \
        const tile_strides *stride = params;                                                      \
        for (int64_t t = 0; t < n; t++) {                                                         \
            _Alignas(16) type rows[TILE][TILE];                                                   \
            char *to = data[0] + t * s[0], *from = data[1] + t * s[1];                            \
            if (!stride->past) {                                                                  \
                turn_tile_##size(from, stride->src, to, stride->dst);                             \
                continue;                                                                         \
            }                                                                                     \
            turn_tile_##size(from, stride->src, (char *)rows, sizeof *rows);                      \
            for (int i = 0; i < TILE; i++)                                                        \
                streaming_store(to + i * stride->dst, (const char *)rows[i], sizeof *rows);       \
        }                                                                                         \
        if (stride->past)                                                                         \
            streaming_fence();                                                                    \
    }                                                                                             \
                                                                                                  \
    static void strips_##size(int64_t n, char *const *data, const int64_t *s, const void *params) \
    {                                                                                             \
        const tile_strides *stride = params;                                                      \
        _Alignas(16) type rows[STRIP_BYTES / sizeof(type)][2][TILE];                              \
        for (int64_t t = 0; t <= n; t++)                                                          \
            for (int64_t i = 0; i < stride->down * TILE; i++) {                                   \
                const char *from = data[1] + t * s[1] + i * (int64_t)sizeof(type);                \
                char *to = data[0] + t * s[0] + i * stride->dst;                                  \
                const size_t first = -(uintptr_t)to % LINE;                                       \
                if (i % TILE == 0)                                                                \
                    turn_tile_##size(from, stride->src, (char *)rows[i][1], sizeof *rows);        \
                if (t > 0)                                                                        \
                    streaming_store(to - sizeof **rows + first, (const char *)rows[i] + first,    \
                                    sizeof **rows);                                               \
                memcpy(rows[i][0], rows[i][1], sizeof **rows);                                    \
            }                                                                                     \
        streaming_fence();                                                                        \
    }
TILE_LOOPS(4, uint32_t, turn_4)
TILE_LOOPS(8, uint64_t, turn_8)

/* Returns the last dimension with stride 1 and at least a tile's size, or -1. */
static int dense_dim(const br_tensor *t)
{
    int d = t->ndim - 1;
    while (d >= 0 && (t->strides[d] != 1 || t->sizes[d] < TILE))
        d--;
    return d;
}

/* Copies the given ranges of columns and rows. */
static void copy_part(const br_tensor *dst, const br_tensor *src, int column, int64_t first_column,
                      int64_t columns, int row, int64_t first_row, int64_t rows)
{
    br_tensor to = br__window(dst), from = br__window(src);
    br__window_slice(&to, column, first_column, columns, 1);
    br__window_slice(&from, column, first_column, columns, 1);
    br__window_slice(&to, row, first_row, rows, 1);
    br__window_slice(&from, row, first_row, rows, 1);
    if (to.numel > 0)
        br__copy(&to, &from);
}

/* Returns whether every row of dst begins at the start of a cache line. */
static bool in_lines(const br_tensor *dst, int column)
{
    const int64_t size = (int64_t)br__dtype_size(dst->dtype);
    bool lines = (uintptr_t)dst->data % LINE == 0;
    for (int d = 0; d < dst->ndim; d++)
        lines = lines && (d == column || dst->strides[d] * size % LINE == 0);
    return lines;
}

static void swap_dims(br_tensor *window, int a, int b)
{
    const int64_t size = window->sizes[a], stride = window->strides[a];
    window->sizes[a] = window->sizes[b];
    window->strides[a] = window->strides[b];
    window->sizes[b] = size;
    window->strides[b] = stride;
}

/* Copies in tiles over dst's dense dimension `column` and src's dense dimension `row`, then copies
 * the rest, which does not fill whole tiles. Small tensors are copied along dst's rows. Tensors
 * larger than the caches are written with non-temporal stores, along rows or parts of rows of src.
 * This order is the fastest, because reading is fastest along contiguous memory, and the order of
 * non-temporal stores of whole cache lines does not matter. A strip does not write the columns of
 * its first tile, so it writes one tile fewer than it reads. */
static void copy_tiles(const br_tensor *dst, const br_tensor *src, int column, int row)
{
    enum { LONG = 16 * TILE };
    static const br_loop loops[2][2] = { { tiles_4, tiles_8 }, { strips_4, strips_8 } };
    const int64_t size = (int64_t)br__dtype_size(dst->dtype);
    const int64_t columns = dst->sizes[column], rows = dst->sizes[row];
    const bool streaming = HAS_STREAMING_STORES && dst->numel * size >= BR_STREAMING_BYTES;
    const bool lines = streaming && in_lines(dst, column),
               strips = streaming && !lines && columns >= LONG;
    const int64_t max_tiles = strips ? STRIP_BYTES / size / TILE : 1; /* tiles per strip */
    const int64_t n = (rows / TILE + max_tiles - 1) / max_tiles, down = rows / TILE / n;
    const int64_t across = columns / TILE - strips;
    const tile_strides stride = { dst->strides[row] * size, src->strides[column] * size, lines,
                                  down };
    br_tensor to = br__window(dst), from = br__window(src);
    br__window_slice(&to, column, 0, across, TILE);
    br__window_slice(&from, column, 0, across, TILE);
    br__window_slice(&to, row, 0, n, down * TILE);
    br__window_slice(&from, row, 0, n, down * TILE);
    const int last = strips ? dst->ndim - 1 : lines ? row : column;
    swap_dims(&to, column, last);
    swap_dims(&from, column, last);
    BR_WORK(0, 2 * size * across * n * down * (dst->numel / (columns * rows)) * TILE * TILE);
    br__run_strided_loop(2, (const br_tensor *[]){ &to, &from }, loops[strips][size == 8], &stride,
                         BR_GRAIN / (TILE * TILE));
    const int64_t done_columns = across * TILE, done_rows = n * down * TILE;
    copy_part(dst, src, column, 0, strips ? TILE : 0, row, 0, done_rows);
    copy_part(dst, src, column, done_columns, columns - done_columns, row, 0, rows);
    copy_part(dst, src, column, 0, done_columns, row, done_rows, rows - done_rows);
}

static bool same_sizes(const br_tensor *a, const br_tensor *b)
{
    return a->ndim == b->ndim &&
           memcmp(a->sizes, b->sizes, (size_t)a->ndim * sizeof *a->sizes) == 0;
}

bool br__copy_tiles(const br_tensor *dst, const br_tensor *src)
{
    const int column = dense_dim(dst), row = dense_dim(src);
    if (column < 0 || row < 0 || column == row || dst->dtype != src->dtype ||
        br__dtype_size(dst->dtype) < 4 || !same_sizes(dst, src))
        return false;
    copy_tiles(dst, src, column, row);
    return true;
}
