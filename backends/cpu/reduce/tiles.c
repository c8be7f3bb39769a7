/* backends/cpu/reduce/tiles.c - reductions (sum, mean, max, ...) over any dimensions.
 *
 * The kept dimensions of x are processed in tiles of columns; the rows along the reduced dimensions
 * are folded into a tile's accumulators. Both groups of dimensions are sorted by stride and merged
 * where they are contiguous, so that memory is read in order. If there are few tiles, the rows are
 * split into pieces, which are reduced separately and then merged. Tiles and pieces depend only on
 * x's shape and strides, so the results do not depend on the number of threads. */
#include "backends/cpu/hints.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/pointwise/widened.h"
#include "backends/cpu/reduce/reduce_internal.h"
#include "tensor/min_max.h"

#include <math.h>
#include <string.h>

enum {
    TILE = 1024,
    ENOUGH = 32,   /* enough tasks to keep the threads busy */
    MIN_ROWS = 64, /* minimum rows of a piece, because merging reads its accumulators again */
    RUN = 8,       /* rows that the kernels process at once */
};

typedef struct axis {
    int64_t size, stride, out_stride; /* strides of x in bytes, of the result in elements */
} axis;

typedef struct axes {
    int n;
    int64_t count;          /* product of the sizes */
    axis axis[BR_MAX_DIMS]; /* innermost first */
} axes;

typedef struct plan {
    const br_tensor *x;
    br_reduce kernel, merge; /* for elements of x, and for accumulators */
    const br_reducer *reducer;
    br_accumulator start;
    axes kept, folded;
    int64_t tile;         /* columns of a tile; the last tile of a row may have fewer */
    int64_t tiles_across; /* tiles along kept.axis[0] */
    int64_t n_tiles, tiles_per_task;
    int64_t n_pieces, piece; /* rows of a piece */
    bool streamed;           /* x is larger than the last-level cache */
    br_accumulator *values;  /* of the pieces: [n_tiles][n_pieces][tile] */
    int64_t *indices;
} plan;

/* ---- The plan -------------------------------------------------------------------------------- */

/* Inserts an axis in ascending order of stride; axes with stride 0 (broadcast) come last. */
static void add_axis(axes *list, axis a)
{
    int i = list->n++;
    for (; i > 0 && a.stride != 0; i--) {
        if (list->axis[i - 1].stride != 0 && list->axis[i - 1].stride <= a.stride)
            break;
        list->axis[i] = list->axis[i - 1];
    }
    list->axis[i] = a;
    list->count *= a.size;
}

static void merge_axes(axes *list)
{
    int n = 0;
    for (int i = 0; i < list->n; i++) {
        axis a = list->axis[i], *inner = n > 0 ? &list->axis[n - 1] : NULL;
        if (inner && a.stride == inner->stride * inner->size &&
            a.out_stride == inner->out_stride * inner->size)
            inner->size *= a.size;
        else
            list->axis[n++] = a;
    }
    list->n = n;
    if (n == 0)
        list->axis[list->n++] = (axis){ 1, 0, 0 };
}

static void split_dims(plan *p, unsigned dims)
{
    int64_t out_stride = 1;
    p->kept.count = p->folded.count = 1;
    for (int d = p->x->ndim - 1; d >= 0; d--) {
        axis a = { p->x->sizes[d], p->x->strides[d] * (int64_t)br_dtype_size(p->x->dtype), 0 };
        bool folded = dims >> d & 1;
        if (!folded) {
            a.out_stride = out_stride;
            out_stride *= a.size;
        }
        if (a.size != 1)
            add_axis(folded ? &p->folded : &p->kept, a);
    }
    merge_axes(&p->kept);
    merge_axes(&p->folded);
}

static void cut(plan *p)
{
    int64_t across = p->kept.axis[0].size, rows = p->folded.count;
    bool rows_are_dense = p->folded.axis[0].stride == (int64_t)br_dtype_size(p->x->dtype);
    p->tile = br__min(across, TILE);
    if (rows_are_dense && p->tile * rows > BR_GRAIN)
        p->tile = rows < BR_GRAIN ? BR_GRAIN / rows : 1;
    p->tiles_across = (across + p->tile - 1) / p->tile;
    p->n_tiles = p->kept.count / across * p->tiles_across;
    p->n_pieces = 1;
    p->piece = rows;
    p->tiles_per_task = 1;
    if (p->tile * rows < BR_GRAIN) {
        p->tiles_per_task =
            br__piece_size(p->n_tiles, BR_GRAIN / (p->tile * (rows > 0 ? rows : 1)), 1);
    } else if (p->n_tiles < ENOUGH && p->tile * rows >= 2 * BR_GRAIN) {
        int64_t worth = (rows - 1) / (ENOUGH / p->n_tiles) + 1;
        worth = br__max(worth, BR_GRAIN / p->tile);
        p->piece = br__piece_size(rows, br__max(worth, MIN_ROWS), RUN);
        p->n_pieces = (rows + p->piece - 1) / p->piece;
    }
}

/* ---- Reducing -------------------------------------------------------------------------------- */

/* Not inlined, since small reductions would pay for the large buffers on the stack. */
#define WITH_BUFFER __attribute__((noinline))

/* Widens rows of a storage dtype, a few at a time, in a buffer that stays in the L1 cache. */
WITH_BUFFER static void run_widened(br_reduce kernel, br_dtype dtype, const br_fold *f)
{
    const int64_t size = (int64_t)br__dtype_size(br__computed(dtype));
    const int64_t at_once = br__max(TILE / f->columns, 1);
    for (int64_t i = 0, n; i < f->rows; i += n) {
        br_element wide[TILE];
        n = br__min(f->rows - i, at_once);
        for (int64_t j = 0; f->columns > 1 && j < n; j++)
            br__widen(dtype, (char *)wide + j * f->columns * size, f->columns,
                      f->x + (i + j) * f->row_stride, f->column_stride);
        if (f->columns == 1)
            br__widen(dtype, wide, n, f->x + i * f->row_stride, f->row_stride);
        br_fold block = *f;
        block.x = (const char *)wide;
        block.rows = n;
        block.row_stride = f->columns * size;
        block.column_stride = size;
        block.first_row = f->first_row + i;
        kernel(&block);
    }
}

/* Runs the kernel of the dtype in which x's is computed. */
static void run_kernel(br_reduce kernel, br_dtype dtype, const br_fold *f)
{
    if (br__is_stored(dtype))
        run_widened(kernel, dtype, f);
    else
        kernel(f);
}

/* Reduces rows from .. to - 1 of a tile whose first element is at x. */
static void fold_rows(const plan *p, const char *x, int64_t columns, int64_t from, int64_t to,
                      br_accumulator *values, int64_t *indices)
{
    const axis *inner = &p->folded.axis[0];
    const int64_t first = p->start.i; /* a local copy, because stores to `values` cannot alias it */
    if (first == 0)
        memset(values, 0, (size_t)columns * sizeof *values);
    for (int64_t j = 0; first != 0 && j < columns; j++)
        values[j].i = first;
    for (int64_t j = 0; p->reducer->indices && j < columns; j++)
        indices[j] = from;
    for (int64_t i = from; i < to;) {
        int64_t place = i % inner->size, rest = i / inner->size;
        const char *start = x + place * inner->stride;
        for (int d = 1; d < p->folded.n; d++) {
            start += rest % p->folded.axis[d].size * p->folded.axis[d].stride;
            rest /= p->folded.axis[d].size;
        }
        int64_t rows = br__min(inner->size - place, to - i);
        run_kernel(p->kernel, p->x->dtype,
                   &(br_fold){ .x = start,
                               .rows = rows,
                               .columns = columns,
                               .row_stride = inner->stride,
                               .column_stride = p->kept.axis[0].stride,
                               .value = values,
                               .index = indices,
                               .first_row = i,
                               .streamed = p->streamed });
        i += rows;
    }
}

/* Computes where a tile begins in x (bytes) and in the result (elements). Returns its number of
 * columns. */
static int64_t locate(const plan *p, int64_t tile, int64_t *offset, int64_t *out)
{
    const axis *across = &p->kept.axis[0];
    int64_t first = tile % p->tiles_across * p->tile, rest = tile / p->tiles_across;
    *offset = first * across->stride;
    *out = first * across->out_stride;
    for (int d = 1; d < p->kept.n; d++) {
        int64_t i = rest % p->kept.axis[d].size;
        rest /= p->kept.axis[d].size;
        *offset += i * p->kept.axis[d].stride;
        *out += i * p->kept.axis[d].out_stride;
    }
    return br__min(across->size - first, p->tile);
}

/* ---- Results --------------------------------------------------------------------------------- */

/* Rounds results to a storage dtype. */
WITH_BUFFER static void store_narrowed(const br_reducer *reducer, const br_accumulator *v,
                                       int64_t n, char *to, int64_t step)
{
    const br_dtype dtype = reducer->values->dtype;
    br_element wide[TILE];
    br__kernels_of(br__computed(dtype))->store_results(wide, v, n, 1, reducer->divisor);
    br__narrow(dtype, to, step * (int64_t)br__dtype_size(dtype), wide, n);
}

/* Stores n results from element `at` on, `step` elements apart. */
static void store_values(const br_reducer *reducer, const br_accumulator *v, int64_t n, int64_t at,
                         int64_t step)
{
    const br_tensor *out = reducer->values;
    char *data = out->data + at * (int64_t)br__dtype_size(out->dtype);
    if (br__is_stored(out->dtype))
        store_narrowed(reducer, v, n, data, step);
    else
        br__kernels_of(out->dtype)->store_results(data, v, n, step, reducer->divisor);
}

static void store(const plan *p, const br_accumulator *values, const int64_t *indices, int64_t n,
                  int64_t at)
{
    if (p->reducer->values)
        store_values(p->reducer, values, n, at, p->kept.axis[0].out_stride);
    if (!p->reducer->indices)
        return;
    int64_t *out = (int64_t *)(void *)p->reducer->indices->data + at;
    for (int64_t j = 0; j < n; j++)
        out[j * p->kept.axis[0].out_stride] = indices[j];
}

/* ---- Tasks ----------------------------------------------------------------------------------- */

static void run_tiles(void *context, int64_t task)
{
    const plan *p = context;
    br_accumulator values[TILE];
    int64_t indices[TILE], first = task * p->tiles_per_task;
    for (int64_t tile = first; tile < first + p->tiles_per_task && tile < p->n_tiles; tile++) {
        int64_t offset, at, columns = locate(p, tile, &offset, &at);
        fold_rows(p, p->x->data + offset, columns, 0, p->folded.count, values, indices);
        store(p, values, indices, columns, at);
    }
}

static void run_piece(void *context, int64_t task)
{
    const plan *p = context;
    int64_t offset, at, columns = locate(p, task / p->n_pieces, &offset, &at);
    int64_t from = task % p->n_pieces * p->piece;
    int64_t to = br__min(from + p->piece, p->folded.count);
    fold_rows(p, p->x->data + offset, columns, from, to, p->values + task * p->tile,
              p->indices + task * p->tile);
}

static void merge_pieces(void *context, int64_t tile)
{
    const plan *p = context;
    br_accumulator values[TILE];
    int64_t indices[TILE], offset, at, columns = locate(p, tile, &offset, &at);
    int64_t first = tile * p->n_pieces * p->tile;
    for (int64_t j = 0; j < columns; j++) {
        values[j] = p->start;
        indices[j] = 0;
    }
    p->merge(&(br_fold){ .x = (const char *)(p->values + first),
                         .rows = p->n_pieces,
                         .columns = columns,
                         .row_stride = p->tile * (int64_t)sizeof *values,
                         .column_stride = sizeof *values,
                         .value = values,
                         .index = indices });
    if (p->reducer->indices) /* replace a piece's index by the index that the piece found */
        for (int64_t j = 0; j < columns; j++)
            indices[j] = p->indices[first + indices[j] * p->tile + j];
    store(p, values, indices, columns, at);
}

static bool run_in_pieces(const char *op, plan *p)
{
    size_t n = (size_t)(p->n_tiles * p->n_pieces * p->tile);
    br_extent *extent;
    size_t bytes = n * (sizeof *p->values + sizeof *p->indices);
    char *block = br__block_alloc(op, bytes, &extent);
    if (!block)
        return false;
    p->values = (br_accumulator *)(void *)block;
    p->indices = (int64_t *)(void *)(block + n * sizeof *p->values);
    br__parallel(p->n_tiles * p->n_pieces, run_piece, p);
    br__parallel(p->n_tiles, merge_pieces, p);
    br__block_free(block, bytes, extent);
    return true;
}

/* Reduces all elements of a small contiguous tensor, which needs no plan. */
static void fold_all(const br_tensor *x, br_reduce kernel, br_accumulator start,
                     const br_reducer *reducer)
{
    br_accumulator value = start;
    int64_t index = 0;
    run_kernel(kernel, x->dtype,
               &(br_fold){ .x = x->data,
                           .rows = x->numel,
                           .columns = 1,
                           .row_stride = (int64_t)br__dtype_size(x->dtype),
                           .value = &value,
                           .index = &index });
    if (reducer->values)
        store_values(reducer, &value, 1, 0, 0);
    if (reducer->indices)
        *(int64_t *)(void *)reducer->indices->data = index;
}

bool br__cpu_reduce(const char *op, const br_tensor *x, unsigned dims, const br_reducer *reducer)
{
    bool floating = br__is_floating(x->dtype);
    br_reduce kernel = br__kernels_of(br__computed(x->dtype))->reduce[reducer->kind];
    br_accumulator start = { .f = reducer->start };
    if (!floating)
        start.i = isinf(reducer->start) ? (reducer->start < 0 ? INT64_MIN : INT64_MAX)
                                        : (int64_t)reducer->start;
    if (x->contiguous && x->numel < BR_GRAIN && dims == (1u << x->ndim) - 1) {
        fold_all(x, kernel, start, reducer);
        return true;
    }
    plan p = { .x = x, .reducer = reducer, .kernel = kernel, .start = start };
    p.streamed = x->numel * (int64_t)br__dtype_size(x->dtype) >= BR_STREAMING_BYTES;
    /* A partial sum is NaN if it has infinities of both signs. */
    const br_fold_kind merged = reducer->kind == BR_FOLD(nansum) ? BR_FOLD(sum) : reducer->kind;
    p.merge = br__kernels_of(floating ? BR_F64 : BR_I64)->reduce[merged];
    split_dims(&p, dims);
    if (p.kept.count == 0)
        return true;
    cut(&p);
    if (p.n_pieces > 1)
        return run_in_pieces(op, &p);
    br__parallel((p.n_tiles + p.tiles_per_task - 1) / p.tiles_per_task, run_tiles, &p);
    return true;
}
