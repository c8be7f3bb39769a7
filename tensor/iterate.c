/* tensor/iterate.c - loops over strided operands that broadcast, and copies.
 *
 * The operands' shapes are brought to the output's; dimensions that every operand walks as if they
 * were one are merged, so that the loop over one dimension, which does the work, is as long as can
 * be. The rest is an odometer. Large loops are cut into pieces of a fixed number of elements. */
#include "tensor/tensor_internal.h"

#include <string.h>

typedef struct plan {
    int n, ndim;
    int64_t sizes[BR_MAX_DIMS];                    /* innermost first */
    int64_t strides[BR_MAX_DIMS][BR_MAX_OPERANDS]; /* bytes */
    char *data[BR_MAX_OPERANDS];
    int64_t numel;
    br_loop loop;
    const void *params;
    int64_t rows_per_task, pieces_per_row, piece; /* how br__parallel() cuts it */
} plan;

/* Appends output dimension d, innermost first, merging it with the one before where possible. */
static void add_dim(plan *p, const br_tensor *const *operands, int d)
{
    const br_tensor *out = operands[0];
    int64_t size = out->sizes[d], strides[BR_MAX_OPERANDS];
    if (size == 1)
        return;
    bool merge = p->ndim > 0;
    for (int k = 0; k < p->n; k++) {
        const br_tensor *t = operands[k];
        int own = d - (out->ndim - t->ndim);
        strides[k] =
            own < 0 || t->sizes[own] == 1 ? 0 : t->strides[own] * (int64_t)br__dtype_size(t->dtype);
        if (merge && strides[k] != p->strides[p->ndim - 1][k] * p->sizes[p->ndim - 1])
            merge = false;
    }
    if (merge) {
        p->sizes[p->ndim - 1] *= size;
        return;
    }
    p->sizes[p->ndim] = size;
    memcpy(p->strides[p->ndim], strides, sizeof strides);
    p->ndim++;
}

/* Runs rows first .. last-1 of the plan, a row being one run of the innermost dimension, elements
 * from .. from+count-1 of each. */
static void run_rows(const plan *p, int64_t first, int64_t last, int64_t from, int64_t count)
{
    int64_t index[BR_MAX_DIMS] = { 0 };
    char *data[BR_MAX_OPERANDS];
    int64_t rest = first;
    for (int k = 0; k < p->n; k++)
        data[k] = p->data[k] + from * p->strides[0][k];
    for (int d = 1; d < p->ndim; d++) {
        index[d] = rest % p->sizes[d];
        rest /= p->sizes[d];
        for (int k = 0; k < p->n; k++)
            data[k] += index[d] * p->strides[d][k];
    }
    for (int64_t row = first; row < last; row++) {
        p->loop(count, data, p->strides[0], p->params);
        for (int d = 1; d < p->ndim; d++) {
            for (int k = 0; k < p->n; k++)
                data[k] += p->strides[d][k];
            if (++index[d] < p->sizes[d])
                break;
            for (int k = 0; k < p->n; k++)
                data[k] -= p->sizes[d] * p->strides[d][k];
            index[d] = 0;
        }
    }
}

static void run_task(void *context, int64_t i)
{
    const plan *p = context;
    int64_t rows = p->numel / p->sizes[0];
    if (p->pieces_per_row > 1) {
        int64_t row = i / p->pieces_per_row, from = i % p->pieces_per_row * p->piece;
        int64_t count = p->sizes[0] - from < p->piece ? p->sizes[0] - from : p->piece;
        run_rows(p, row, row + 1, from, count);
        return;
    }
    int64_t first = i * p->rows_per_task;
    int64_t last = first + p->rows_per_task < rows ? first + p->rows_per_task : rows;
    run_rows(p, first, last, 0, p->sizes[0]);
}

/* The loop over few elements that lie one behind the other in every operand, or are one, needs no
 * plan; false where it is not so simple. */
static bool run_simple(int n, const br_tensor *const *operands, br_loop loop, const void *params,
                       int64_t grain)
{
    char *data[BR_MAX_OPERANDS];
    int64_t strides[BR_MAX_OPERANDS], numel = operands[0]->numel;
    for (int k = 0; k < n; k++) {
        const br_tensor *t = operands[k];
        if (!t->contiguous || (t->numel != numel && t->numel != 1))
            return false;
        data[k] = t->data;
        strides[k] = t->numel == 1 ? 0 : (int64_t)br__dtype_size(t->dtype);
    }
    if (numel > 2 * grain)
        return false;
    loop(numel, data, strides, params);
    return true;
}

int64_t br__even_part(int64_t n, int64_t most, int64_t unit)
{
    int64_t part = most;
    if (n > most) {
        const int64_t pairs = (n - 1) / (2 * most) + 1;
        part = (n - 1) / (2 * pairs) + 1;
    }
    return (part + unit - 1) & -unit;
}

/* br__for_each() with `grain` elements for a task. */
static void for_each(int n_operands, const br_tensor *const *operands, br_loop loop,
                     const void *params, int64_t grain)
{
    const br_tensor *out = operands[0];
    if (out->numel == 0 || run_simple(n_operands, operands, loop, params, grain))
        return;
    plan p; /* field by field: strides are many, and few are used */
    p.n = n_operands;
    p.ndim = 0;
    p.numel = out->numel;
    p.loop = loop;
    p.params = params;
    for (int k = 0; k < n_operands; k++)
        p.data[k] = operands[k]->data;
    for (int d = out->ndim - 1; d >= 0; d--)
        add_dim(&p, operands, d);
    if (p.ndim == 0) {
        p.ndim = 1;
        p.sizes[0] = 1;
        memset(p.strides[0], 0, sizeof p.strides[0]);
    }
    int64_t rows = p.numel / p.sizes[0];
    if (p.numel <= 2 * grain) {
        run_rows(&p, 0, rows, 0, p.sizes[0]);
        return;
    }
    p.pieces_per_row = 1;
    if (p.sizes[0] >= 2 * grain) {
        p.piece = br__even_part(p.sizes[0], grain, BR_PIECE_UNIT);
        p.pieces_per_row = (p.sizes[0] + p.piece - 1) / p.piece;
        br__parallel(rows * p.pieces_per_row, run_task, &p);
        return;
    }
    p.rows_per_task = br__even_part(rows, p.sizes[0] < grain ? grain / p.sizes[0] : 1, 1);
    br__parallel((rows + p.rows_per_task - 1) / p.rows_per_task, run_task, &p);
}

void br__for_each(int n_operands, const br_tensor *const *operands, br_loop loop,
                  const void *params)
{
    if (BR_PROFILING)
        br__event_traffic(n_operands, operands);
    for_each(n_operands, operands, loop, params, BR_GRAIN);
}

/* ---- Windows --------------------------------------------------------------------------------- */

void br__window_slice(br_tensor *window, int dim, int64_t start, int64_t length, int64_t step)
{
    window->data += start * window->strides[dim] * (int64_t)br__dtype_size(window->dtype);
    window->numel = length;
    for (int i = 0; i < window->ndim; i++)
        window->numel *= i == dim ? 1 : window->sizes[i];
    window->sizes[dim] = length;
    /* One element has no neighbour, and then step may be too large to multiply. */
    if (length > 1)
        window->strides[dim] *= step;
    window->contiguous = false;
}

/* ---- Copies ---------------------------------------------------------------------------------- */

static void copy_bytes_1(int64_t n, char *const *data, const int64_t *s, const void *params)
{
    (void)params;
    for (int64_t i = 0; i < n; i++)
        data[0][i * s[0]] = data[1][i * s[1]];
}

static void copy_bytes_4(int64_t n, char *const *data, const int64_t *s, const void *params)
{
    (void)params;
    if (s[0] == 4 && s[1] == 4) {
        memcpy(data[0], data[1], (size_t)n * 4);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        *(uint32_t *)(void *)(data[0] + i * s[0]) = *(const uint32_t *)(void *)(data[1] + i * s[1]);
}

static void copy_bytes_8(int64_t n, char *const *data, const int64_t *s, const void *params)
{
    (void)params;
    if (s[0] == 8 && s[1] == 8) {
        memcpy(data[0], data[1], (size_t)n * 8);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        *(uint64_t *)(void *)(data[0] + i * s[0]) = *(const uint64_t *)(void *)(data[1] + i * s[1]);
}

/* A float out of the integers' range has no integer: it becomes the smallest one, as x86 has it. */
static int64_t to_i64(double x)
{
    return x >= -0x1p63 && x < 0x1p63 ? (int64_t)x : INT64_MIN;
}

#define CONVERT_LOOP(name, from, to, expression)                                         \
    static void name(int64_t n, char *const *data, const int64_t *s, const void *params) \
    {                                                                                    \
        (void)params;                                                                    \
        if (s[0] == sizeof(to) && s[1] == sizeof(from)) {                                \
            const from *restrict in = (const void *)data[1];                             \
            to *restrict out = (void *)data[0];                                          \
            for (int64_t i = 0; i < n; i++) {                                            \
                from x = in[i];                                                          \
                out[i] = expression;                                                     \
            }                                                                            \
            return;                                                                      \
        }                                                                                \
        for (int64_t i = 0; i < n; i++) {                                                \
            from x = *(const from *)(void *)(data[1] + i * s[1]);                        \
            *(to *)(void *)(data[0] + i * s[0]) = expression;                            \
        }                                                                                \
    }
CONVERT_LOOP(f32_to_f64, float, double, (double)x)
CONVERT_LOOP(f32_to_i64, float, int64_t, to_i64((double)x))
CONVERT_LOOP(f32_to_bool, float, bool, x != 0)
CONVERT_LOOP(f64_to_f32, double, float, (float)x)
CONVERT_LOOP(f64_to_i64, double, int64_t, to_i64(x))
CONVERT_LOOP(f64_to_bool, double, bool, x != 0)
CONVERT_LOOP(i64_to_f32, int64_t, float, (float)x)
CONVERT_LOOP(i64_to_f64, int64_t, double, (double)x)
CONVERT_LOOP(i64_to_bool, int64_t, bool, x != 0)
CONVERT_LOOP(bool_to_f32, bool, float, (float)x)
CONVERT_LOOP(bool_to_f64, bool, double, (double)x)
CONVERT_LOOP(bool_to_i64, bool, int64_t, (int64_t)x)

static const br_loop copy_loops[4][4] = {
    /* [from][to] */
    [BR_F32] = { copy_bytes_4, f32_to_f64, f32_to_i64, f32_to_bool },
    [BR_F64] = { f64_to_f32, copy_bytes_8, f64_to_i64, f64_to_bool },
    [BR_I64] = { i64_to_f32, i64_to_f64, copy_bytes_8, i64_to_bool },
    [BR_BOOL] = { bool_to_f32, bool_to_f64, bool_to_i64, copy_bytes_1 },
};

/* ---- Transposed copies ----------------------------------------------------------------------- */

/* Where dst is dense along one dimension and src along another, rows of one are columns of the
 * other: they are copied in square tiles, so that each cache line is read and written once. */
enum { TILE = 16 };

typedef struct tile_strides {
    int64_t dst, src; /* bytes from row to row of a tile, and from column to column */
} tile_strides;

/* For tiles: row i of dst is column i of src. */
#define TILE_LOOP(name, type)                                                            \
    static void name(int64_t n, char *const *data, const int64_t *s, const void *params) \
    {                                                                                    \
        const tile_strides *stride = params;                                             \
        for (int64_t t = 0; t < n; t++) {                                                \
            type columns[TILE][TILE], row[TILE];                                         \
            for (int k = 0; k < TILE; k++)                                               \
                memcpy(columns[k], data[1] + t * s[1] + k * stride->src, sizeof row);    \
            for (int i = 0; i < TILE; i++) {                                             \
                for (int k = 0; k < TILE; k++)                                           \
                    row[k] = columns[k][i];                                              \
                memcpy(data[0] + t * s[0] + i * stride->dst, row, sizeof row);           \
            }                                                                            \
        }                                                                                \
    }
TILE_LOOP(transpose_4, uint32_t)
TILE_LOOP(transpose_8, uint64_t)

/* The last dimension with stride 1 and at least a tile's size, or -1. */
static int dense_dim(const br_tensor *t)
{
    int d = t->ndim - 1;
    while (d >= 0 && (t->strides[d] != 1 || t->sizes[d] < TILE))
        d--;
    return d;
}

/* Copies some columns of some rows. */
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

/* Copies in tiles over dst's dense dimension `column` and src's, `row`; then what is left of whole
 * tiles. */
static void copy_tiles(const br_tensor *dst, const br_tensor *src, int column, int row)
{
    int64_t size = (int64_t)br__dtype_size(dst->dtype);
    int64_t columns = dst->sizes[column], rows = dst->sizes[row];
    tile_strides stride = { dst->strides[row] * size, src->strides[column] * size };
    br_tensor to = br__window(dst), from = br__window(src);
    br__window_slice(&to, column, 0, columns / TILE, TILE);
    br__window_slice(&from, column, 0, columns / TILE, TILE);
    br__window_slice(&to, row, 0, rows / TILE, TILE);
    br__window_slice(&from, row, 0, rows / TILE, TILE);
    BR_WORK(0, 2 * size * (columns / TILE) * (rows / TILE) * (dst->numel / (columns * rows)) *
                   TILE * TILE);
    for_each(2, (const br_tensor *[]){ &to, &from }, size == 4 ? transpose_4 : transpose_8, &stride,
             BR_GRAIN / (TILE * TILE));
    int64_t whole_columns = columns / TILE * TILE, whole_rows = rows / TILE * TILE;
    copy_part(dst, src, column, whole_columns, columns - whole_columns, row, 0, rows);
    copy_part(dst, src, column, 0, whole_columns, row, whole_rows, rows - whole_rows);
}

static bool same_sizes(const br_tensor *a, const br_tensor *b)
{
    return a->ndim == b->ndim &&
           memcmp(a->sizes, b->sizes, (size_t)a->ndim * sizeof *a->sizes) == 0;
}

void br__copy(const br_tensor *dst, const br_tensor *src)
{
    int column = dense_dim(dst), row = dense_dim(src);
    if (column >= 0 && row >= 0 && column != row && dst->dtype == src->dtype &&
        br__dtype_size(dst->dtype) >= 4 && same_sizes(dst, src))
        copy_tiles(dst, src, column, row);
    else
        br__for_each(2, (const br_tensor *[]){ dst, src }, copy_loops[src->dtype][dst->dtype],
                     NULL);
}
