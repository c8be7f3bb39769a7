/* backends/cpu/quantized/dequantize.c - converts rows of quantized tensors to a floating-point
 * dtype. */
#include "backends/cpu/kernels.h"
#include "backends/cpu/pointwise/widened.h"
#include "backends/cpu/quantized/quantized.h"
#include "tensor/min_max.h"
#include "tensor/tensor_internal.h"

enum { TASK_ELEMENTS = 1 << 14 }; /* of a task; converting them takes a few microseconds */

typedef void br_dequantize(int64_t n, float *to, const unsigned char *from);

static const unsigned char *row_at(const br_tensor *x, int64_t i)
{
    return (const unsigned char *)x->data +
           i * br__row_bytes(br__block_info(x), x->sizes[x->ndim - 1]);
}

/* ---- Rows in f32 ----------------------------------------------------------------------------- */

void br__dequantize_rows(const br_tensor *x, int64_t first, int64_t n, float *to)
{
    const int64_t columns = x->sizes[x->ndim - 1];
    if (!br__is_quantized(x)) {
        br__widen(x->dtype, to, n * columns, br__element(x, first * columns),
                  (int64_t)br__dtype_size(x->dtype));
        return;
    }
    const int64_t blocks = n * columns / br__block_info(x)->elements;
    br__kernels_of(BR_F32)->dequantize[x->block_type](blocks, to, row_at(x, first));
}

typedef struct rows_job {
    const br_tensor *x;
    int64_t first, n, step; /* rows; those of a task */
    float *to;
} rows_job;

static void run_rows(void *context, int64_t task)
{
    const rows_job *j = context;
    const int64_t i = task * j->step;
    br__dequantize_rows(j->x, j->first + i, br__min(j->step, j->n - i),
                        j->to + i * j->x->sizes[j->x->ndim - 1]);
}

static int64_t rows_of_task(int64_t columns)
{
    return br__max(TASK_ELEMENTS / columns, 1);
}

void br__dequantize_rows_shared(const br_tensor *x, int64_t first, int64_t n, float *to)
{
    rows_job j = { x, first, n, rows_of_task(x->sizes[x->ndim - 1]), to };
    br__parallel((n + j.step - 1) / j.step, run_rows, &j);
}

/* ---- Rows in any dtype ----------------------------------------------------------------------- */

typedef struct job {
    const br_tensor *y, *x;
    br_dequantize *dequantize;
    const int64_t *rows; /* or NULL */
    int64_t columns, n_rows, step;
} job;

/* Converts blocks one at a time, so that no row in f32 exists. */
static void convert_row(const job *j, char *to, const unsigned char *from)
{
    const br_dtype_info *info = &br__dtypes[j->y->dtype];
    const br_block_info *type = br__block_info(j->x);
    float block[BR_LARGEST_BLOCK];
    double wide[BR_LARGEST_BLOCK];
    for (int64_t i = 0; i < j->columns; i += type->elements, from += type->bytes) {
        j->dequantize(1, block, from);
        for (int k = 0; k < type->elements; k++)
            wide[k] = (double)block[k];
        info->store(to + i * (int64_t)info->size, (int64_t)info->size, wide, type->elements);
    }
}

static void run_task(void *context, int64_t task)
{
    const job *j = context;
    const int64_t blocks = j->columns / br__block_info(j->x)->elements;
    const int64_t end = br__min((task + 1) * j->step, j->n_rows);
    for (int64_t i = task * j->step; i < end; i++) {
        const unsigned char *from = row_at(j->x, j->rows ? j->rows[i] : i);
        void *to = br__element(j->y, i * j->columns);
        if (j->y->dtype == BR_F32)
            j->dequantize(blocks, to, from);
        else
            convert_row(j, to, from);
    }
}

void br__cpu_dequantize(const br_tensor *y, const br_tensor *x, const br_tensor *rows)
{
    if (y->numel == 0)
        return;
    job j = { .y = y,
              .x = x,
              .dequantize = br__kernels_of(BR_F32)->dequantize[x->block_type],
              .rows = rows ? (const int64_t *)(const void *)rows->data : NULL,
              .columns = x->sizes[x->ndim - 1] };
    j.n_rows = y->numel / j.columns;
    j.step = rows_of_task(j.columns);
    br__parallel((j.n_rows + j.step - 1) / j.step, run_task, &j);
}
