/* backends/cpu/shape/cat.c - concatenation. */
#include "backends/cpu/shape/copy.h"
#include "tensor/min_max.h"

#include <string.h>

/* A concatenation of contiguous tensors, row by row: each tensor's part of a row is contiguous in
 * both the tensor and the result. */
typedef struct rows_job {
    const br_tensor *y;
    br_tensor *const *tensors;
    int n;
    int dim;
    int64_t after; /* bytes per index of dimension dim */
    int64_t rows, rows_per_task;
} rows_job;

enum { SHORTEST = 16, SHORT = 128, LONGEST = BR_GRAIN }; /* bytes of a tensor's part of a row */

static void copy_short(char *to, const char *from, int64_t bytes)
{
    for (int64_t i = 0; i < bytes - SHORTEST; i += SHORTEST)
        memcpy(to + i, from + i, SHORTEST);
    memcpy(to + bytes - SHORTEST, from + bytes - SHORTEST, SHORTEST);
}

/* Copies rows [first, last) of tensor t. `to` is where its part of the first row begins. */
static void copy_rows(const rows_job *j, const br_tensor *t, int64_t first, int64_t last, char *to)
{
    int64_t bytes = t->sizes[j->dim] * j->after, stride = j->y->sizes[j->dim] * j->after;
    const char *from = t->data + first * bytes;
    for (; first < last; first++, from += bytes, to += stride) {
        if (bytes <= SHORT)
            copy_short(to, from, bytes);
        else
            br__copy_bytes(to, from, bytes);
    }
}

/* Works on a few rows at a time, which stay in the L1 cache until all tensors have been copied to
 * them. */
static void cat_rows(void *context, int64_t task)
{
    enum { NEAR = 1 << 14 };
    const rows_job *j = context;
    int64_t row_bytes = j->y->sizes[j->dim] * j->after;
    int64_t step = NEAR > row_bytes ? NEAR / row_bytes : 1;
    int64_t first = task * j->rows_per_task, last = first + j->rows_per_task;
    last = br__min(last, j->rows);
    for (; first < last; first += step) {
        char *to = j->y->data + first * row_bytes;
        for (int i = 0; i < j->n; i++) {
            copy_rows(j, j->tensors[i], first, br__min(first + step, last), to);
            to += j->tensors[i]->sizes[j->dim] * j->after;
        }
    }
}

/* Concatenates row by row. Does nothing and returns false if there is only one
 * row, if a tensor is not contiguous, or if a tensor's part of a row is too short, or so long that
 * it is better copied in parallel by itself. */
bool br__cpu_cat(const br_tensor *y, int n, br_tensor *const *tensors, int64_t dim)
{
    rows_job j = { .y = y, .tensors = tensors, .n = n, .dim = (int)dim, .rows = 1 };
    for (int64_t d = 0; d < dim; d++)
        j.rows *= y->sizes[d];
    if (y->numel == 0 || j.rows == 1)
        return false;
    int64_t row = y->numel / j.rows;
    j.after = row / y->sizes[dim] * (int64_t)br__dtype_size(y->dtype);
    for (int i = 0; i < n; i++) {
        int64_t bytes = tensors[i]->ndim == y->ndim ? tensors[i]->sizes[dim] * j.after : 0;
        if (!tensors[i]->contiguous || bytes < SHORTEST || bytes > LONGEST)
            return false;
    }
    j.rows_per_task = br__piece_size(j.rows, BR_GRAIN / row + 1, 1);
    br__parallel((j.rows + j.rows_per_task - 1) / j.rows_per_task, cat_rows, &j);
    return true;
}
