/* ops/index/triangle.c - tril and triu: matrices without the elements above or below a diagonal. */
#include "ops/index/index_internal.h"
#include "ops/ops_internal.h"

#include <string.h>

typedef struct triangle {
    int64_t diagonal;
    bool upper;
} triangle;

typedef struct triangle_job {
    char *data; /* contiguous matrices */
    int64_t rows, columns, total_rows, rows_per_task;
    size_t size;
    triangle t;
} triangle_job;

/* Sets the elements outside the triangle to 0: columns from .. to - 1 of each row. */
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
        return br_fail(BR_ERROR_SHAPE, op->name, "x %s must have at least two dimensions",
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
