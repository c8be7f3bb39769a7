/* backends/cpu/index/triangle.c - matrices without the elements above or below a diagonal. */
#include "backends/cpu/index/index_internal.h"
#include "tensor/min_max.h"

#include <string.h>

typedef struct triangle_job {
    char *data; /* contiguous matrices */
    int64_t rows, columns, total_rows, rows_per_task;
    size_t size;
    int64_t diagonal;
    bool upper;
} triangle_job;

/* Sets the elements outside the triangle to 0: columns from .. to - 1 of each row. */
static void clear_rows(void *context, int64_t task)
{
    const triangle_job *job = context;
    int64_t last = (task + 1) * job->rows_per_task;
    for (int64_t row = task * job->rows_per_task; row < last && row < job->total_rows; row++) {
        int64_t i = row % job->rows, from = 0, to = job->columns, edge;
        /* The first column above the diagonal for tril, the first on or above it for triu. */
        if (__builtin_add_overflow(i + !job->upper, job->diagonal, &edge))
            edge = INT64_MAX;
        edge = edge < 0 ? 0 : br__min(edge, to);
        *(job->upper ? &to : &from) = edge;
        memset(job->data + (size_t)(row * job->columns + from) * job->size, 0,
               (size_t)(to - from) * job->size);
    }
}

void br__cpu_triangle(const br_tensor *y, int64_t diagonal, bool upper)
{
    const int64_t columns = y->sizes[y->ndim - 1];
    triangle_job job = { .data = y->data,
                         .rows = y->sizes[y->ndim - 2],
                         .columns = columns,
                         .total_rows = y->numel / columns,
                         .rows_per_task = BR_GRAIN / columns + 1,
                         .size = br__dtype_size(y->dtype),
                         .diagonal = diagonal,
                         .upper = upper };
    br__parallel((job.total_rows - 1) / job.rows_per_task + 1, clear_rows, &job);
}
