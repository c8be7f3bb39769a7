/* ops/index.c - looking up by index: index_select, gather, embedding; and tril, triu.
 *
 * The three lookups are one loop over the result, the operand and the index, each with its strides:
 * the operand's along the dimension is 0, and the index moves it on. The adjoint adds along that
 * dimension in the index's order, and threads share the other dimensions, so that no two of them
 * meet and the sums do not depend on their number. */
#include "ops/kernels/index.h"
#include "ops/index_internal.h"
#include "ops/ops_internal.h"

#include <inttypes.h>
#include <string.h>

/* ---- Checks ---------------------------------------------------------------------------------- */

/* Index of the first element outside 0 .. size-1, or -1. */
static int64_t first_outside(const int64_t *index, int64_t n, int64_t size)
{
    for (int64_t i = 0; i < n; i++)
        if ((uint64_t)index[i] >= (uint64_t)size)
            return i;
    return -1;
}

const char *br__position(const br_tensor *t, int64_t i)
{
    int64_t position[BR_MAX_DIMS];
    for (int d = t->ndim - 1; d >= 0; d--) {
        position[d] = i % t->sizes[d];
        i /= t->sizes[d];
    }
    return br__shape_of(t->ndim, position);
}

bool br__check_index(const char *op, br_tensor *index, int64_t size)
{
    br_scope *scope = br_scope_begin();
    br_tensor *dense = br_contiguous(index);
    const int64_t *values = dense ? (const int64_t *)(const void *)dense->data : NULL;
    int64_t bad = dense ? first_outside(values, dense->numel, size) : -1;
    if (bad >= 0)
        br__fail(BR_ERROR_INDEX, op, "index %" PRId64 " at position %s is outside 0 .. %" PRId64,
                 values[bad], br__position(index, bad), size - 1);
    br_scope_end(scope);
    return !br_failed();
}

/* ---- The lookup and its adjoint -------------------------------------------------------------- */

/* A header of t's for the loops, in which the index's dimensions, where it chooses slices, are one:
 * of x's number of dimensions. t is dense then. */
static br_tensor chosen_window(const br_tensor *t, const br_tensor *index, const br_choice *c,
                               int ndim, const int64_t *sizes)
{
    br_tensor w = br__window(t);
    if (!c->slices)
        return w;
    w.ndim = ndim;
    memcpy(w.sizes, sizes, (size_t)ndim * sizeof *sizes);
    w.sizes[c->dim] = index->numel;
    br__default_strides(ndim, w.sizes, w.strides);
    return w;
}

/* The index, dense, in the shape of the result's window. */
static br_tensor index_window(const br_tensor *index, const br_choice *c, const br_tensor *like)
{
    br_tensor w = br__window(index);
    if (!c->slices)
        return w;
    w.ndim = like->ndim;
    memcpy(w.sizes, like->sizes, sizeof w.sizes);
    memset(w.strides, 0, sizeof w.strides);
    w.strides[c->dim] = 1;
    return w;
}

static void look_up(const br_tensor *y, const br_tensor *x, const br_tensor *index,
                    const br_choice *c)
{
    br_tensor to = chosen_window(y, index, c, x->ndim, x->sizes);
    br_tensor by = index_window(index, c, &to), from = br__window(x);
    size_t size = br_dtype_size(x->dtype);
    int64_t stride = x->strides[c->dim] * (int64_t)size;
    memcpy(from.sizes, to.sizes, sizeof from.sizes);
    from.strides[c->dim] = 0; /* seen as one slice: the others are counted here */
    BR_TRAFFIC(y);
    br__for_each(3, (const br_tensor *[]){ &to, &from, &by }, br__gather_loop(size), &stride);
}

typedef struct scatter_job {
    br_tensor x, y, index; /* windows with size 1 along the dimension */
    int cut;               /* the dimension whose pieces are the tasks */
    int64_t piece;
    br_loop loop;
    br_scatter work;
} scatter_job;

static void scatter_piece(void *context, int64_t i)
{
    const scatter_job *job = context;
    br_tensor x = job->x, y = job->y, index = job->index;
    int64_t start = i * job->piece, rest = y.sizes[job->cut] - start;
    int64_t length = rest < job->piece ? rest : job->piece;
    br__window_slice(&x, job->cut, start, length, 1);
    br__window_slice(&y, job->cut, start, length, 1);
    br__window_slice(&index, job->cut, start, length, 1);
    br__for_each(3, (const br_tensor *[]){ &x, &y, &index }, job->loop, &job->work);
}

/* Adds y to x where the index says; every task takes a piece of the largest other dimension, in
 * whole cache lines. */
static void scatter_add(const br_tensor *x, const br_tensor *y, const br_tensor *index,
                        const br_choice *c)
{
    enum { CACHE_LINE = 64 };
    int64_t size = (int64_t)br_dtype_size(x->dtype);
    scatter_job job = { .y = chosen_window(y, index, c, x->ndim, x->sizes),
                        .cut = -1,
                        .loop = x->dtype == BR_F64 ? br__scatter_add_f64 : br__scatter_add_f32 };
    job.index = index_window(index, c, &job.y);
    job.x = br__window(x);
    memcpy(job.x.sizes, job.y.sizes, sizeof job.x.sizes);
    job.work =
        (br_scatter){ job.y.sizes[c->dim], x->strides[c->dim] * size, job.y.strides[c->dim] * size,
                      job.index.strides[c->dim] * (int64_t)sizeof(int64_t), c->skip };
    for (int i = 0; i < x->ndim; i++)
        if (i != c->dim && (job.cut < 0 || job.y.sizes[i] > job.y.sizes[job.cut]))
            job.cut = i;
    int64_t tasks = job.y.numel / BR_GRAIN + 1;
    br__window_slice(&job.x, c->dim, 0, 1, 1);
    br__window_slice(&job.y, c->dim, 0, 1, 1);
    br__window_slice(&job.index, c->dim, 0, 1, 1);
    BR_TRAFFIC(y, y, y, index); /* x is read and written where y is added */
    if (job.cut < 0) {          /* one dimension: one line */
        br__for_each(3, (const br_tensor *[]){ &job.x, &job.y, &job.index }, job.loop, &job.work);
        return;
    }
    int64_t n = job.y.sizes[job.cut], line = CACHE_LINE / size;
    job.piece = ((n + tasks - 1) / tasks + line - 1) / line * line;
    br__parallel((n + job.piece - 1) / job.piece, scatter_piece, &job);
}

static void lookup_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    int ndim;
    const int64_t *sizes = br_input_sizes(node, 0, &ndim);
    dx[0] = br__index_add(dy, br_saved(node, 0), br_params(node), ndim, sizes);
}

/* What `index`, all of it in range, chooses of x, in a result of the given sizes. Keeps the index.
 */
static br_tensor *lookup(const br_op *op, br_tensor *x, br_tensor *index, const br_choice *c,
                         int ndim, const int64_t *sizes)
{
    br_tensor *y = br__new(op->name, ndim, sizes, x->dtype);
    br_scope *scope = br_scope_begin();
    br_tensor *by = br_contiguous(index);
    if (y && by && y->numel > 0)
        look_up(y, x, by, c);
    br_save(br_record(op, y, BR_INPUTS(x), c, sizeof *c), 0, by);
    br_scope_end(scope);
    return br_failed() ? NULL : y;
}

static const br_op lookup_again_op = { .name = "index_add_backward", .backward = lookup_backward };

static void index_add_backward(br_node *node, br_tensor *ddx, br_tensor **ddy)
{
    const br_choice *c = br_params(node);
    br_tensor *index = br_saved(node, 0);
    int ndim;
    const int64_t *sizes = br_input_sizes(node, 0, &ndim);
    if (!index)
        return;
    ddy[0] = lookup(&lookup_again_op, ddx, index, c, ndim, sizes);
    if (c->skip >= 0) {
        br_tensor *skipped = br_eq_scalar(index, (double)c->skip);
        for (int i = index->ndim; i < ndim; i++)
            skipped = br_unsqueeze(skipped, -1);
        ddy[0] = br_masked_fill(ddy[0], skipped, 0);
    }
}

static const br_op index_add_op = { .name = "index_add", .backward = index_add_backward };

br_tensor *br__index_add(br_tensor *dy, br_tensor *index, const br_choice *choice, int ndim,
                         const int64_t *sizes)
{
    BR_OP(index_add_op.name);
    if (!dy || !index)
        return NULL;
    br_tensor *x = br_zeros(ndim, sizes, dy->dtype);
    br_scope *scope = br_scope_begin();
    br_tensor *dense = br_contiguous(dy), *by = br_contiguous(index);
    if (x && dense && by && dense->numel > 0)
        scatter_add(x, dense, by, choice);
    br_save(br_record(&index_add_op, x, BR_INPUTS(dy), choice, sizeof *choice), 0, by);
    br_scope_end(scope);
    return br_failed() ? NULL : x;
}

/* ---- The operations -------------------------------------------------------------------------- */

static const br_op index_select_op = { .name = "index_select", .backward = lookup_backward };

/* t as a line, if it is 0-d: what is looked up in it, or by it, is as in one. */
static br_tensor *line(br_tensor *t)
{
    return t && t->ndim == 0 ? br_unsqueeze(t, 0) : t;
}

static bool any_is_0d(const br_tensor *x, const br_tensor *index)
{
    return x && index && (x->ndim == 0 || index->ndim == 0);
}

br_tensor *br_index_select(br_tensor *x, int64_t dim, br_tensor *index)
{
    BR_OP("index_select");
    if (any_is_0d(x, index)) {
        if (x->ndim == 0 && index->numel != 1)
            return br__fail(BR_ERROR_SHAPE, "index_select",
                            "index %s must have one element, as x [] has no dimension",
                            br__shape(index));
        br_scope *scope = br_scope_begin();
        br_tensor *y = br_index_select(line(x), dim, line(index));
        return br__composed(scope, x->ndim == 0 ? br_reshape(y, BR_SCALAR) : y);
    }
    if (!br__cut_dim("index_select", x, &dim) ||
        !br__has_dtype("index_select", "index", index, BR_I64))
        return NULL;
    if (index->ndim != 1)
        return br__fail(BR_ERROR_SHAPE, "index_select", "index %s must have one dimension",
                        br__shape(index));
    if (!br__check_index("index_select", index, x->sizes[dim]))
        return NULL;
    int64_t sizes[BR_MAX_DIMS];
    memcpy(sizes, x->sizes, sizeof sizes);
    sizes[dim] = index->numel;
    return lookup(&index_select_op, x, index, &(br_choice){ (int)dim, true, -1 }, x->ndim, sizes);
}

static const br_op gather_op = { .name = "gather", .backward = lookup_backward };

br_tensor *br_gather(br_tensor *x, int64_t dim, br_tensor *index)
{
    BR_OP("gather");
    if (any_is_0d(x, index)) {
        br_scope *scope = br_scope_begin();
        br_tensor *y = br_gather(line(x), dim, line(index));
        return br__composed(scope, br_reshape(y, index->ndim, index->sizes));
    }
    if (!br__cut_dim("gather", x, &dim) || !br__has_dtype("gather", "index", index, BR_I64))
        return NULL;
    bool fits = index->ndim == x->ndim;
    for (int i = 0; fits && i < x->ndim; i++)
        fits = i == dim || index->sizes[i] <= x->sizes[i];
    if (!fits)
        return br__fail(BR_ERROR_SHAPE, "gather",
                        "index %s for x %s: must have as many dimensions, and sizes no larger but "
                        "for dimension %" PRId64,
                        br__shape(index), br__shape(x), dim);
    if (!br__check_index("gather", index, x->sizes[dim]))
        return NULL;
    return lookup(&gather_op, x, index, &(br_choice){ (int)dim, false, -1 }, index->ndim,
                  index->sizes);
}

static const br_op embedding_op = { .name = "embedding", .backward = lookup_backward };

br_tensor *br_f_embedding(br_tensor *weight, br_tensor *index, int64_t padding_idx)
{
    BR_OP("embedding");
    if (!br__required("embedding", "weight", weight) ||
        !br__has_dtype("embedding", "index", index, BR_I64))
        return NULL;
    if (weight->ndim != 2)
        return br__fail(BR_ERROR_SHAPE, "embedding", "weight %s must have two dimensions",
                        br__shape(weight));
    int64_t rows = weight->sizes[0];
    if (padding_idx < -1 || padding_idx >= rows)
        return br__fail(BR_ERROR_INDEX, "embedding",
                        "padding_idx %" PRId64 " is outside 0 .. %" PRId64
                        " (the rows of weight %s); -1 is no row",
                        padding_idx, rows - 1, br__shape(weight));
    if (!br__check_index("embedding", index, rows))
        return NULL;
    int64_t sizes[BR_MAX_DIMS + 1];
    memcpy(sizes, index->sizes, sizeof index->sizes);
    sizes[index->ndim] = weight->sizes[1];
    return lookup(&embedding_op, weight, index, &(br_choice){ 0, true, padding_idx },
                  index->ndim + 1, sizes);
}

/* ---- Triangles ------------------------------------------------------------------------------- */

typedef struct triangle {
    int64_t diagonal;
    bool upper;
} triangle;

typedef struct triangle_job {
    char *data; /* matrices one after the other */
    int64_t rows, columns, total_rows, rows_per_task;
    size_t size;
    triangle t;
} triangle_job;

/* Clears what lies outside the triangle: columns from .. to-1 of each row. */
static void clear_rows(void *context, int64_t task)
{
    const triangle_job *job = context;
    int64_t last = (task + 1) * job->rows_per_task;
    for (int64_t row = task * job->rows_per_task; row < last && row < job->total_rows; row++) {
        int64_t i = row % job->rows, from = 0, to = job->columns, edge;
        /* The first column above the diagonal for tril, the first on or above it for triu. */
        if (__builtin_add_overflow(i + !job->t.upper, job->t.diagonal, &edge))
            edge = INT64_MAX;
        edge = edge < 0 ? 0 : edge > to ? to : edge;
        *(job->t.upper ? &to : &from) = edge;
        memset(job->data + (size_t)(row * job->columns + from) * job->size, 0,
               (size_t)(to - from) * job->size);
    }
}

static br_tensor *cut_triangle(const br_op *op, br_tensor *x, const triangle *t)
{
    BR_OP(op->name);
    if (!br__required(op->name, "x", x))
        return NULL;
    if (x->ndim < 2)
        return br__fail(BR_ERROR_SHAPE, op->name, "x %s must have at least two dimensions",
                        br__shape(x));
    br_tensor *y = br__new(op->name, x->ndim, x->sizes, x->dtype);
    if (y && y->numel > 0) {
        br__copy(y, x);
        int64_t columns = y->sizes[y->ndim - 1];
        triangle_job job = { y->data,
                             y->sizes[y->ndim - 2],
                             columns,
                             y->numel / columns,
                             BR_GRAIN / columns + 1,
                             br_dtype_size(y->dtype),
                             *t };
        br__parallel((job.total_rows - 1) / job.rows_per_task + 1, clear_rows, &job);
    }
    return br__recorded(op, y, x, t, sizeof *t);
}

static void triangle_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    const triangle *t = br_params(node);
    dx[0] = t->upper ? br_triu(dy, t->diagonal) : br_tril(dy, t->diagonal);
}

static const br_op tril_op = { .name = "tril", .backward = triangle_backward };
static const br_op triu_op = { .name = "triu", .backward = triangle_backward };

br_tensor *br_tril(br_tensor *x, int64_t diagonal)
{
    return cut_triangle(&tril_op, x, &(triangle){ diagonal, false });
}

br_tensor *br_triu(br_tensor *x, int64_t diagonal)
{
    return cut_triangle(&triu_op, x, &(triangle){ diagonal, true });
}
