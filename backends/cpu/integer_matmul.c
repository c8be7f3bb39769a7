/* backends/cpu/integer_matmul.c - products of matrices of i64. Like PyTorch's, they wrap around and
 * have no fast kernels: each thread computes rows of the result. */
#include "backends/cpu/integer_matmul.h"
#include "backends/cpu/pointwise/for_each.h"
#include "tensor/min_max.h"

/* A product of matrices [m, k] and [k, n]. Strides are in elements. */
typedef struct product {
    const br_matmul_tensors *work;
    int batch_ndim; /* of the result, whose first dimensions are the batch */
    int64_t m, n, k;
    int64_t a_row, a_column, b_row, b_column;
    int64_t rows_per_task;
} product;

/* Sets the sizes and strides of a matrix, or of a vector as a matrix of one row or column. */
static void set_sizes(product *p)
{
    const br_matmul_tensors *w = p->work;
    const br_tensor *a = w->a, *b = w->b;
    const int a_last = a->ndim - 1, b_last = b->ndim - 1;
    const int a_inner = a_last - (w->a_transposed ? 1 : 0);
    const int b_inner = b->ndim == 1 ? 0 : b_last - (w->b_transposed ? 0 : 1);
    const bool a_is_row = a->ndim == 1, b_is_column = b->ndim == 1;
    const int a_outer = 2 * a_last - 1 - a_inner, b_outer = 2 * b_last - 1 - b_inner;
    p->k = a->sizes[a_is_row ? 0 : a_inner];
    p->a_column = a->strides[a_is_row ? 0 : a_inner];
    p->b_row = b->strides[b_inner];
    p->m = a_is_row ? 1 : a->sizes[a_outer];
    p->a_row = a_is_row ? 0 : a->strides[a_outer];
    p->n = b_is_column ? 1 : b->sizes[b_outer];
    p->b_column = b_is_column ? 0 : b->strides[b_outer];
    p->batch_ndim = w->c->ndim - !a_is_row - !b_is_column;
}

/* Returns the first element of the matrix of t that belongs to item i of the result's batch. */
static const int64_t *matrix_of(const product *p, const br_tensor *t, int64_t i)
{
    const int own_ndim = br__max(t->ndim - 2, 0);
    int64_t at = 0;
    for (int d = p->batch_ndim - 1; d >= 0; d--) {
        const int64_t size = p->work->c->sizes[d], position = i % size;
        const int own = d - (p->batch_ndim - own_ndim);
        i /= size;
        if (own >= 0 && t->sizes[own] != 1)
            at += position * t->strides[own];
    }
    return (const int64_t *)(const void *)t->data + at;
}

/* Adds row `i` of a matrix times the other matrix to a row of the result. */
static void add_row(const product *p, uint64_t *c, const int64_t *a, const int64_t *b)
{
    for (int64_t l = 0; l < p->k; l++) {
        const uint64_t factor = (uint64_t)a[l * p->a_column];
        const int64_t *row = b + l * p->b_row;
        for (int64_t j = 0; j < p->n; j++)
            c[j] += factor * (uint64_t)row[j * p->b_column];
    }
}

static void set_row(const product *p, uint64_t *c)
{
    const br_tensor *bias = p->work->bias;
    for (int64_t j = 0; j < p->n; j++)
        c[j] = bias ? ((const uint64_t *)(const void *)bias->data)[j * bias->strides[0]] : 0;
}

static void rows(void *context, int64_t task)
{
    const product *p = context;
    const br_matmul_tensors *w = p->work;
    const int64_t first = task * p->rows_per_task, all = p->n > 0 ? w->c->numel / p->n : 0;
    const int64_t end = br__min(first + p->rows_per_task, all);
    for (int64_t i = first; i < end; i++) {
        uint64_t *c = (uint64_t *)(void *)w->c->data + i * p->n;
        if (!w->accumulate)
            set_row(p, c);
        add_row(p, c, matrix_of(p, w->a, i / p->m) + i % p->m * p->a_row,
                matrix_of(p, w->b, i / p->m));
    }
}

bool br__cpu_integer_matmul(const br_matmul_tensors *work)
{
    product p = { .work = work };
    set_sizes(&p);
    if (work->c->numel == 0)
        return true;
    const int64_t row_work = br__max(p.n * br__max(p.k, 1), 1);
    p.rows_per_task = br__max(BR_GRAIN / row_work, 1);
    const int64_t all = work->c->numel / p.n;
    br__parallel((all + p.rows_per_task - 1) / p.rows_per_task, rows, &p);
    return true;
}
