/* ops/kernels/gemm_tile.h - the inner part of matrix products; part of variant.c.
 *
 * C is computed in tiles of at most TILE_ROWS rows and two vectors, whose sums stay in registers
 * while the tile runs along k: each step loads two vectors of B and one scalar of each row of A. B
 * comes from a panel of at most BR_GEMM_K x TILE_COLUMNS elements, which the first-level cache
 * holds while all rows of the block use it.
 *
 * An element of C is the sum of the same products in the same order wherever it stands in a tile
 * and wherever the tile stands in C: how C is cut into blocks cannot change a result. */
#ifndef BR_KERNELS_GEMM_TILE_H
#define BR_KERNELS_GEMM_TILE_H

#include "ops/kernels/hints.h"
#include "ops/kernels/kernels.h"

#include <stddef.h>
#if defined(__AVX512F__)
#    include <immintrin.h>
#endif

#if defined(__AVX512F__)
enum { VECTOR_BYTES = 64, TILE_ROWS = 12, STEPS = 16 };
#elif defined(__AVX__)
enum { VECTOR_BYTES = 32, TILE_ROWS = 6, STEPS = 32 };
#else
enum { VECTOR_BYTES = 16, TILE_ROWS = 6, STEPS = 32 };
#endif
enum {
    VECTOR = VECTOR_BYTES / sizeof(real),
    TILE_COLUMNS = 2 * VECTOR,
    LINE = 64 / sizeof(real), /* elements of a cache line */
};

#ifdef BR_KERNEL_F64
#    define BY_TYPE(f32, f64) f64
#else
#    define BY_TYPE(f32, f64) f32
#endif
#if defined(__AVX512F__)
#    define TRANSPOSE BY_TYPE(EXCHANGE_16, EXCHANGE_8)
#elif defined(__AVX__)
#    define TRANSPOSE BY_TYPE(EXCHANGE_8, EXCHANGE_4)
#else
#    define TRANSPOSE BY_TYPE(EXCHANGE_4, EXCHANGE_2)
#endif

typedef real vec __attribute__((vector_size(VECTOR_BYTES)));
typedef real vec_at __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(real)), may_alias));
typedef real quad __attribute__((vector_size(4 * sizeof(real))));
typedef real quad_at
    __attribute__((vector_size(4 * sizeof(real)), aligned(sizeof(real)), may_alias));

/* ---- Parts of vectors ------------------------------------------------------------------------ */

/* Lanes that are loaded and stored; others read as 0. Without masks all are. */
#if defined(__AVX512F__)
enum { MASKS = true };
typedef BY_TYPE(__mmask16, __mmask8) vec_mask;

static inline vec_mask mask_of(int64_t count)
{
    return (vec_mask)((1u << count) - 1);
}

static inline vec load_masked(const real *from, vec_mask mask)
{
    return BY_TYPE((vec)_mm512_maskz_loadu_ps(mask, from), (vec)_mm512_maskz_loadu_pd(mask, from));
}

static inline void store_masked(real *to, vec v, vec_mask mask)
{
    BY_TYPE(_mm512_mask_storeu_ps(to, mask, (__m512)v),
            _mm512_mask_storeu_pd(to, mask, (__m512d)v));
}

/* The first `count` elements of a vector, from memory and to it; others read as 0. */
static inline vec load_part(const real *from, int64_t count)
{
    return load_masked(from, mask_of(count));
}

static inline void store_part(real *to, vec v, int64_t count)
{
    store_masked(to, v, mask_of(count));
}
#else
enum { MASKS = false };
typedef char vec_mask;

static inline vec_mask mask_of(int64_t count)
{
    (void)count;
    return 0;
}

static inline vec load_masked(const real *from, vec_mask mask)
{
    (void)mask;
    return *(const vec_at *)from;
}

static inline void store_masked(real *to, vec v, vec_mask mask)
{
    (void)mask;
    *(vec_at *)to = v;
}

/* By pieces of sizes that the compiler knows. */
ALWAYS_INLINE void copy_part(real *to, const real *from, int64_t count)
{
    UNROLLED
    for (int width = VECTOR; width > 0; width /= 2) {
        if (!(count & width))
            continue;
        __builtin_memcpy(to, from, (size_t)width * sizeof(real));
        to += width;
        from += width;
    }
}

/* The first `count` elements of a vector, from memory and to it; others read as 0. */
static inline vec load_part(const real *from, int64_t count)
{
    vec v = { 0 };
    copy_part((real *)&v, from, count);
    return v;
}

static inline void store_part(real *to, vec v, int64_t count)
{
    copy_part(to, (const real *)&v, count);
}
#endif

/* ---- Packing --------------------------------------------------------------------------------- */

/* to[p * width + w] = from[w * step + p] for w, p of 0 .. 3: a 4 x 4 transpose. */
ALWAYS_INLINE void pack_quads(real *to, int64_t width, const real *from, int64_t step)
{
    quad r0 = *(const quad_at *)from, r1 = *(const quad_at *)(from + step);
    quad r2 = *(const quad_at *)(from + 2 * step), r3 = *(const quad_at *)(from + 3 * step);
    quad low01 = __builtin_shufflevector(r0, r1, 0, 4, 1, 5);
    quad low23 = __builtin_shufflevector(r2, r3, 0, 4, 1, 5);
    quad high01 = __builtin_shufflevector(r0, r1, 2, 6, 3, 7);
    quad high23 = __builtin_shufflevector(r2, r3, 2, 6, 3, 7);
    *(quad_at *)to = __builtin_shufflevector(low01, low23, 0, 1, 4, 5);
    *(quad_at *)(to + width) = __builtin_shufflevector(low01, low23, 2, 3, 6, 7);
    *(quad_at *)(to + 2 * width) = __builtin_shufflevector(high01, high23, 0, 1, 4, 5);
    *(quad_at *)(to + 3 * width) = __builtin_shufflevector(high01, high23, 2, 3, 6, 7);
}

/* to[p * width + w] = from[w * step + p] for w < count, p < k, both at least 4. Whole cache lines
 * of a row are used up before the next is touched; what is left over at the end is done by going
 * back. */
ALWAYS_INLINE void pack_transposed(real *to, int64_t width, int64_t count, int64_t k,
                                   const real *from, int64_t step)
{
    for (int64_t line = 0; line < k; line += LINE) {
        int64_t end = k - line < LINE ? k : line + LINE;
        for (int64_t i = 0; i < count; i += 4) {
            int64_t w = i + 4 <= count ? i : count - 4;
            for (int64_t j = line; j < end; j += 4) {
                int64_t p = j + 4 <= k ? j : k - 4;
                pack_quads(to + p * width + w, width, from + w * step + p, step);
            }
        }
    }
}

/* Exchanges the odd blocks of w lanes of a with the even ones of b. */
#define LOW(w, t)  ((t) / (w) % 2 == 0 ? (t) : VECTOR + (t) - (w))
#define HIGH(w, t) ((t) / (w) % 2 == 0 ? (t) + (w) : VECTOR + (t))
/* clang-format off */
#define INDEX_2(PART, w, t)  PART(w, t), PART(w, (t) + 1)
#define INDEX_4(PART, w, t)  INDEX_2(PART, w, t), INDEX_2(PART, w, (t) + 2)
#define INDEX_8(PART, w, t)  INDEX_4(PART, w, t), INDEX_4(PART, w, (t) + 4)
#define INDEX_16(PART, w, t) INDEX_8(PART, w, t), INDEX_8(PART, w, (t) + 8)
/* clang-format on */
#define EXCHANGE(lanes, w, row)                                                \
    UNROLLED                                                                   \
    for (int i = 0; i < (lanes); i++) {                                        \
        if (i & (w))                                                           \
            continue;                                                          \
        vec a = row[i], b = row[i + (w)];                                      \
        row[i] = __builtin_shufflevector(a, b, INDEX_##lanes(LOW, w, 0));      \
        row[i + w] = __builtin_shufflevector(a, b, INDEX_##lanes(HIGH, w, 0)); \
    }
#define EXCHANGE_2(row) EXCHANGE(2, 1, row)
#define EXCHANGE_4(row) EXCHANGE(4, 2, row) EXCHANGE(4, 1, row)
#define EXCHANGE_8(row) EXCHANGE(8, 4, row) EXCHANGE(8, 2, row) EXCHANGE(8, 1, row)
#define EXCHANGE_16(row) \
    EXCHANGE(16, 8, row) EXCHANGE(16, 4, row) EXCHANGE(16, 2, row) EXCHANGE(16, 1, row)

/* to[p * width + w] = from[w * step + p] for w < count, p < k, where k is at least VECTOR; squares
 * of vectors are transposed in registers. Columns of `to` up to the next multiple of VECTOR get
 * copies of the last one. */
ALWAYS_INLINE void pack_squares(real *to, int64_t width, int64_t count, int64_t k, const real *from,
                                int64_t step)
{
    for (int64_t w = 0; w < count; w += VECTOR) {
        for (int64_t q = 0; q < k; q += VECTOR) {
            int64_t p = q + VECTOR <= k ? q : k - VECTOR;
            vec row[VECTOR];
            UNROLLED
            for (int i = 0; i < VECTOR; i++)
                row[i] = *(const vec_at *)(from + (w + i < count ? w + i : count - 1) * step + p);
            TRANSPOSE(row)
            UNROLLED
            for (int i = 0; i < VECTOR; i++)
                *(vec_at *)(to + (p + i) * width + w) = row[i];
        }
    }
}

/* to[p * width + w] = from[w * step + p * k_step] for w < count, p < k. `width` is a constant after
 * inlining. */
ALWAYS_INLINE void pack(real *to, int width, int64_t count, int64_t k, const real *from,
                        int64_t step, int64_t k_step)
{
    if (step == 1 && count == width) {
        for (int64_t p = 0; p < k; p++)
            for (int w = 0; w < width; w++)
                to[p * width + w] = from[p * k_step + w];
    } else if (step == 1) {
        for (int64_t p = 0; p < k; p++)
            for (int64_t w = 0; w < count; w++)
                to[p * width + w] = from[p * k_step + w];
    } else if (k_step == 1 && count >= 4 && k >= 4) {
        pack_transposed(to, width, count, k, from, step);
    } else {
        for (int64_t p = 0; p < k; p++)
            for (int64_t w = 0; w < count; w++)
                to[p * width + w] = from[w * step + p * k_step];
    }
}

/* Whole tiles of A whose columns lie in one piece each: several at a time, to read longer runs. */
static void pack_columns(real *to, int64_t m, int64_t k, const real *a, int64_t a_col)
{
    enum { GROUP = 8 * TILE_ROWS, AHEAD = 8 };
    for (int64_t group = 0; group < m; group += GROUP) {
        int64_t end = m - group < GROUP ? m : group + GROUP;
        for (int64_t p = 0; p < k; p++) {
            for (int64_t i = group; i < end && p + AHEAD < k; i += LINE)
                __builtin_prefetch(a + (p + AHEAD) * a_col + i);
            for (int64_t i = group; i < end; i += TILE_ROWS)
                for (int64_t q = 0; q < TILE_ROWS; q++)
                    to[i * k + p * TILE_ROWS + q] = a[p * a_col + i + q];
        }
    }
}

/* Lays A [m, k] out by tiles: element (i, p) of a tile stands at p * TILE_ROWS + i. */
static void gemm_pack(void *to, int64_t m, int64_t k, const void *a, int64_t a_row, int64_t a_col)
{
    const int64_t whole = a_row == 1 ? m / TILE_ROWS * TILE_ROWS : 0;
    pack_columns(to, whole, k, a, a_col);
    for (int64_t i = whole; i < m; i += TILE_ROWS)
        pack((real *)to + i * k, TILE_ROWS, m - i < TILE_ROWS ? m - i : TILE_ROWS, k,
             (const real *)a + i * a_row, a_row, a_col);
}

/* Columns of B [k, count] as a panel; up to a whole vector there is something to be multiplied,
 * too, where it is not masked. */
static void pack_panel(real *to, int64_t count, int64_t k, const real *b, int64_t b_row,
                       int64_t b_col)
{
    if (b_row == 1 && k >= VECTOR && count >= 4) {
        pack_squares(to, TILE_COLUMNS, count, k, b, b_col);
        return;
    }
    if (count % VECTOR != 0 && (count > VECTOR || !MASKS))
        for (int64_t p = 0; p < k; p++)
            *(vec *)(to + p * TILE_COLUMNS + count / VECTOR * VECTOR) = (vec){ 0 };
    pack(to, TILE_COLUMNS, count, k, b, b_col, b_row);
}

/* ---- Memory that will be wanted soon --------------------------------------------------------- */

/* Runs of `bytes` bytes, `step` bytes apart, of which a line at a time is asked for. */
typedef struct prefetch {
    const char *at, *end; /* in the present run */
    int64_t bytes, step, runs;
} prefetch;

ALWAYS_INLINE void prefetch_line(prefetch *p)
{
    if (p->runs == 0)
        return;
    __builtin_prefetch(p->at, 0, 2);
    p->at += 64;
    if (p->at >= p->end) {
        p->end += p->step;
        p->at = p->end - p->bytes;
        p->runs--;
    }
}

/* What pack() reads for a panel of B. */
static prefetch prefetch_panel(const br_gemm_block *g, const real *b, int64_t columns)
{
    bool by_rows = g->b_col == 1;
    int64_t length = by_rows ? columns : g->k, step = by_rows ? g->b_row : g->b_col;
    int64_t bytes = length * (int64_t)sizeof(real);
    return (prefetch){ .at = (const char *)b,
                       .end = (const char *)b + bytes,
                       .bytes = bytes,
                       .step = step * (int64_t)sizeof(real),
                       .runs = columns <= 0 ? 0
                               : by_rows    ? g->k
                                            : columns };
}

/* ---- Tiles ----------------------------------------------------------------------------------- */

/* Where the sums of a tile go: whole vectors, or with masks any number of columns. */
typedef struct tile_out {
    real *c;
    int64_t c_row, columns;
    const real *bias; /* of the tile's first column, or NULL */
    bool accumulate;
} tile_out;

/* `rows` and `vectors` are constants after inlining. */
ALWAYS_INLINE void store_sums_of_tile(const tile_out *out, int rows, int vectors, vec (*sum)[2])
{
    const tile_out to = *out; /* a copy that the stores to C cannot change */
    const vec_mask whole = mask_of(VECTOR), last = mask_of(to.columns - (vectors - 1) * VECTOR);
    if (to.accumulate) {
        UNROLLED
        for (int i = 0; i < rows; i++) {
            const real *c = to.c + i * to.c_row;
            sum[i][0] = load_masked(c, vectors == 1 ? last : whole) + sum[i][0];
            if (vectors > 1)
                sum[i][1] = load_masked(c + VECTOR, last) + sum[i][1];
        }
    }
    if (to.bias) {
        const vec b0 = load_masked(to.bias, vectors == 1 ? last : whole);
        const vec b1 = vectors == 1 ? b0 : load_masked(to.bias + VECTOR, last);
        UNROLLED
        for (int i = 0; i < rows; i++) {
            sum[i][0] += b0;
            sum[i][1] += b1;
        }
    }
    UNROLLED
    for (int i = 0; i < rows; i++) {
        real *c = to.c + i * to.c_row;
        store_masked(c, sum[i][0], vectors == 1 ? last : whole);
        if (vectors > 1)
            store_masked(c + VECTOR, sum[i][1], last);
    }
}

/* The same for columns that do not fill their vectors, of sums that lie in memory. */
static void store_sums_at_edge(const tile_out *out, int64_t rows, const real *sums)
{
    for (int64_t i = 0; i < rows; i++, sums += TILE_COLUMNS) {
        for (int64_t j = 0; j < out->columns; j += VECTOR) {
            real *c = out->c + i * out->c_row + j;
            int64_t count = out->columns - j < VECTOR ? out->columns - j : VECTOR;
            vec v = *(const vec_at *)(sums + j);
            if (out->accumulate)
                v = load_part(c, count) + v;
            if (out->bias)
                v += load_part(out->bias + j, count);
            store_part(c, v, count);
        }
    }
}

/* Rows of A times a panel of B. `rows` and `vectors` are constants after inlining. Between runs of
 * STEPS steps of k a few lines of memory are asked for, so that they come in unnoticed: C's own,
 * which are wanted at the end of the tile, and what `next` names. */
ALWAYS_INLINE void tile(int rows, int vectors, int64_t k, const real *a, int64_t a_row,
                        int64_t a_col, const real *b, int64_t b_row, const tile_out *out,
                        prefetch *next)
{
    const vec_mask columns = mask_of(vectors == 1 ? out->columns : VECTOR);
    vec sum[TILE_ROWS][2];
    UNROLLED
    for (int i = 0; i < rows; i++)
        sum[i][0] = sum[i][1] = (vec){ 0 };
    const real *a_at[TILE_ROWS / 3]; /* every third row: the others are one or two a_row away */
    UNROLLED
    for (int i = 0; i < TILE_ROWS / 3; i++)
        a_at[i] = a + 3 * i * a_row;
    for (int64_t left = k, row = 0; left > 0; left -= STEPS, row++) {
        prefetch_line(next);
        prefetch_line(next);
        if (row < rows) {
            __builtin_prefetch(out->c + row * out->c_row, 1);
            __builtin_prefetch(out->c + row * out->c_row + VECTOR, 1);
        }
        for (int64_t p = left < STEPS ? left : STEPS; p > 0; p--, b += b_row) {
            vec b0, b1 = { 0 };
            if (vectors == 1) {
                b0 = load_masked(b, columns);
            } else {
                b0 = *(const vec_at *)b;
                b1 = *(const vec_at *)(b + VECTOR);
            }
            UNROLLED
            for (int i = 0; i < rows; i++) {
                real x = a_at[i / 3][i % 3 * a_row];
                sum[i][0] += x * b0;
                if (vectors > 1)
                    sum[i][1] += x * b1;
            }
            UNROLLED
            for (int i = 0; i < TILE_ROWS / 3; i++)
                a_at[i] += a_col;
        }
    }
    store_sums_of_tile(out, rows, vectors, sum);
}

typedef void tile_fn(int64_t k, const real *a, int64_t a_row, int64_t a_col, const real *b,
                     int64_t b_row, const tile_out *out, prefetch *next);

/* clang-format off */
#define EACH_HEIGHT_TO_6(TILE)  TILE(1) TILE(2) TILE(3) TILE(4) TILE(5) TILE(6)
#define EACH_HEIGHT_TO_12(TILE) EACH_HEIGHT_TO_6(TILE) TILE(7) TILE(8) TILE(9) TILE(10) TILE(11) TILE(12)
/* clang-format on */
#if defined(__AVX512F__)
#    define EACH_HEIGHT EACH_HEIGHT_TO_12
#else
#    define EACH_HEIGHT EACH_HEIGHT_TO_6
#endif

#define TILE_FUNCTION(rows, vectors)                                                            \
    static void tile_##rows##x##vectors(int64_t k, const real *a, int64_t a_row, int64_t a_col, \
                                        const real *b, int64_t b_row, const tile_out *out,      \
                                        prefetch *next)                                         \
    {                                                                                           \
        tile(rows, vectors, k, a, a_row, a_col, b, b_row, out, next);                           \
    }
#define TILE_FUNCTIONS(rows) TILE_FUNCTION(rows, 1) TILE_FUNCTION(rows, 2)
#define TILE_ENTRY(rows)     { tile_##rows##x1, tile_##rows##x2 },

EACH_HEIGHT(TILE_FUNCTIONS)
static tile_fn *const tiles[TILE_ROWS][2] = { EACH_HEIGHT(TILE_ENTRY) };

/* ---- Blocks ---------------------------------------------------------------------------------- */

static void multiply_panel(const br_gemm_block *g, const real *b, int64_t b_row, tile_out out,
                           prefetch *next)
{
    const int vectors = out.columns > VECTOR ? 2 : 1;
    const bool edge = !MASKS && out.columns % VECTOR != 0;
    _Alignas(64) real sums[TILE_ROWS * TILE_COLUMNS];
    const tile_out aside = { .c = sums, .c_row = TILE_COLUMNS, .columns = vectors * VECTOR };
    const real *a = g->a;
    for (int64_t i = 0; i < g->m; i += TILE_ROWS, a += g->a_tile) {
        int64_t rows = g->m - i < TILE_ROWS ? g->m - i : TILE_ROWS;
        tiles[rows - 1][vectors - 1](g->k, a, g->a_row, g->a_col, b, b_row, edge ? &aside : &out,
                                     next);
        if (edge)
            store_sums_at_edge(&out, rows, sums);
        out.c += rows * out.c_row;
    }
}

/* Columns of the panel at column j: where B's rows are loaded as they lie, whole vectors or, with
 * masks, less than one. */
static int64_t panel_columns(const br_gemm_block *g, int64_t j, bool in_place)
{
    int64_t left = g->n - j;
    if (left >= TILE_COLUMNS)
        return TILE_COLUMNS;
    return in_place && left > VECTOR ? VECTOR : left;
}

static void gemm_block(const br_gemm_block *g)
{
    _Alignas(64) real panel[BR_GEMM_K * TILE_COLUMNS];
    /* Few rows do not earn the copy, if B's rows can be loaded as they are. */
    const bool in_place = g->b_col == 1 && g->m <= 2 * TILE_ROWS && (MASKS || g->n % VECTOR == 0);
    for (int64_t j = 0, columns; j < g->n; j += columns) {
        columns = panel_columns(g, j, in_place);
        tile_out out = { .c = (real *)g->c + j,
                         .c_row = g->c_row,
                         .columns = columns,
                         .bias = g->bias ? (const real *)g->bias + j : NULL,
                         .accumulate = g->accumulate };
        const real *b = (const real *)g->b + j * g->b_col;
        const int64_t left = g->n - j - columns;
        prefetch next =
            prefetch_panel(g, b + columns * g->b_col, left < TILE_COLUMNS ? left : TILE_COLUMNS);
        if (in_place) {
            multiply_panel(g, b, g->b_row, out, &next);
        } else {
            pack_panel(panel, columns, g->k, b, g->b_row, g->b_col);
            multiply_panel(g, panel, TILE_COLUMNS, out, &next);
        }
    }
}

#endif
