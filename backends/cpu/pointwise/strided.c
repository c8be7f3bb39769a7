/* backends/cpu/pointwise/strided.c - loops over strided operands with broadcasting.
 *
 * The operands are broadcast to the output's shape. Dimensions that every operand can treat as one
 * are coalesced, so that the innermost loop, which does the work, is as long as possible. The outer
 * dimensions are iterated with an index per dimension. Large loops are split into pieces of a fixed
 * number of elements. */
#include "backends/cpu/pointwise/for_each.h"
#include "tensor/min_max.h"

#include <string.h>

typedef struct plan {
    int n, ndim;
    int64_t sizes[BR_MAX_DIMS];                    /* innermost first */
    int64_t strides[BR_MAX_DIMS][BR_MAX_OPERANDS]; /* bytes; 0 for missing operands */
    char *data[BR_MAX_OPERANDS];
    int64_t numel;
    br_loop loop;
    const void *params;
    int64_t rows_per_task, pieces_per_row, piece; /* how the loop is split for br__parallel() */
} plan;

/* Appends output dimension d, innermost first, coalescing it with the previous one where
 * possible. */
static void add_dim(plan *p, const br_tensor *const *operands, int d)
{
    const br_tensor *out = operands[0];
    int64_t size = out->sizes[d], strides[BR_MAX_OPERANDS] = { 0 };
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

/* Advances the operands by `by` steps in one dimension. Missing operands are advanced by 0, which
 * is faster than a loop over those present. */
static inline void advance(char **data, const int64_t *strides, int64_t by)
{
    _Static_assert(BR_MAX_OPERANDS == 4, "operands are spelled out");
    data[0] += by * strides[0];
    data[1] += by * strides[1];
    data[2] += by * strides[2];
    data[3] += by * strides[3];
}

/* Advances the outer dimensions after the last row along dimension 1. */
static void carry(const plan *p, int64_t *index, char **data)
{
    for (int d = 1; d < p->ndim; d++) {
        if (index[d] < p->sizes[d]) {
            advance(data, p->strides[d], 1);
            return;
        }
        index[d] = 0;
        advance(data, p->strides[d], 1 - p->sizes[d]);
        index[d + 1]++;
    }
}

/* Runs rows first .. last-1 of the plan, elements from .. from+count-1 of each. A row is one pass
 * over the innermost dimension. */
static void run_rows(const plan *p, int64_t first, int64_t last, int64_t from, int64_t count)
{
    int64_t index[BR_MAX_DIMS + 1] = { 0 };
    char *data[BR_MAX_OPERANDS];
    memcpy(data, p->data, sizeof data);
    advance(data, p->strides[0], from);
    int64_t rest = first;
    for (int d = 1; rest > 0 && d < p->ndim; d++) {
        index[d] = rest % p->sizes[d];
        rest /= p->sizes[d];
        advance(data, p->strides[d], index[d]);
    }
    for (int64_t row = first; row < last; row++) {
        p->loop(count, data, p->strides[0], p->params);
        if (++index[1] < p->sizes[1])
            advance(data, p->strides[1], 1);
        else
            carry(p, index, data);
    }
}

static void run_task(void *context, int64_t i)
{
    const plan *p = context;
    int64_t rows = p->numel / p->sizes[0];
    if (p->pieces_per_row > 1) {
        int64_t row = i / p->pieces_per_row, from = i % p->pieces_per_row * p->piece;
        int64_t count = br__min(p->sizes[0] - from, p->piece);
        run_rows(p, row, row + 1, from, count);
        return;
    }
    int64_t first = i * p->rows_per_task;
    int64_t last = br__min(first + p->rows_per_task, rows);
    run_rows(p, first, last, 0, p->sizes[0]);
}

void br__run_strided_loop(int n_operands, const br_tensor *const *operands, br_loop loop,
                          const void *params, int64_t grain)
{
    const br_tensor *out = operands[0];
    if (out->numel == 0)
        return;
    plan p; /* set field by field, since few of the many strides are used */
    p.n = n_operands;
    p.ndim = 0;
    p.sizes[1] = 1; /* in case there is no such dimension */
    p.numel = out->numel;
    p.loop = loop;
    p.params = params;
    for (int k = 0; k < BR_MAX_OPERANDS; k++)
        p.data[k] = operands[k < n_operands ? k : 0]->data;
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
        p.piece = br__piece_size(p.sizes[0], grain, BR_PIECE_UNIT);
        p.pieces_per_row = (p.sizes[0] + p.piece - 1) / p.piece;
        br__parallel(rows * p.pieces_per_row, run_task, &p);
        return;
    }
    p.rows_per_task = br__piece_size(rows, p.sizes[0] < grain ? grain / p.sizes[0] : 1, 1);
    br__parallel((rows + p.rows_per_task - 1) / p.rows_per_task, run_task, &p);
}
