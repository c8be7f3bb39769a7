/* backends/cpu/gemm/matmul.c - products of tensors.
 *
 * Operands are multiplied without copying, whatever their strides; batches broadcast with strides
 * of 0. If the rows of a batch are evenly spaced and the other operand has no batch, the batch is
 * treated as one tall matrix. */
#include "backends/cpu/gemm/gemm.h"
#include "backends/cpu/gemm/gemm_kernels.h"
#include "backends/cpu/gemm/gemm_quantized.h"
#include "backends/cpu/gemm/matmul_internal.h"
#include "backends/cpu/pointwise/for_each.h"
#include "tensor/denormal.h"
#include "tensor/min_max.h"

/* ---- Tensors as batches of matrices ---------------------------------------------------------- */

/* A matrix operand: its last two dimensions, and the batch before them. */
typedef struct matrices {
    const br_tensor *t;
    int64_t rows, columns, row, column; /* sizes and strides */
    int batch_ndim;                     /* the batch is t's first dimensions */
} matrices;

static matrices matrices_of(const br_tensor *t, bool transposed)
{
    const int row = t->ndim - (transposed ? 1 : 2), column = t->ndim - (transposed ? 2 : 1);
    return (matrices){
        t, t->sizes[row], t->sizes[column], t->strides[row], t->strides[column], t->ndim - 2
    };
}

/* Return a vector as a matrix of one row, or of one column. */
static matrices row_of(const br_tensor *t)
{
    return (matrices){ t, 1, t->sizes[0], 0, t->strides[0], 0 };
}

static matrices column_of(const br_tensor *t)
{
    return (matrices){ t, t->sizes[0], 1, t->strides[0], 0, 0 };
}

/* Returns the operand's stride along dimension d of a batch of `ndim` dimensions that it broadcasts
 * to. */
static int64_t batch_stride(const matrices *m, int ndim, int d)
{
    int own = d - (ndim - m->batch_ndim);
    return own < 0 || m->t->sizes[own] == 1 ? 0 : m->t->strides[own];
}

/* Sets the batch dimensions of a product. Dimensions of size 1 are left out. If the second operand
 * has no batch, rows that are evenly spaced across matrices become rows of one matrix. */
static void set_batch(br_gemm *g, const matrices *a, const matrices *b, int ndim,
                      const int64_t *sizes)
{
    int64_t c_strides[BR_MAX_DIMS], c_step = g->m * g->n;
    for (int d = ndim - 1; d >= 0; c_step *= sizes[d--])
        c_strides[d] = c_step;
    bool folding = true;
    for (int d = ndim - 1; d >= 0; d--) {
        int64_t a_step = batch_stride(a, ndim, d), b_step = batch_stride(b, ndim, d);
        if (sizes[d] == 1)
            continue;
        if (g->m == 1)
            g->a_row = a_step;
        folding = folding && b_step == 0 && a_step == g->m * g->a_row;
        if (folding) {
            g->m *= sizes[d];
            continue;
        }
        int i = g->batch_ndim++;
        g->batch_sizes[i] = sizes[d];
        g->a_batch[i] = a_step;
        g->b_batch[i] = b_step;
        g->c_batch[i] = c_strides[d];
    }
}

/* ---- Dot products ---------------------------------------------------------------------------- */

/* A long dot product is split into at most MAX_PIECES pieces, which threads share and whose sums
 * are added in order. The split depends only on the length, so the result does not depend on the
 * number of threads. */
enum { MAX_PIECES = 32 };

typedef struct dot_job {
    void (*dots)(const br_gemm_block *block);
    const char *a, *b;
    int64_t length, piece, size, sum_size;
    char *sums;
} dot_job;

static void dot_piece(void *context, int64_t i)
{
    const dot_job *job = context;
    int64_t first = i * job->piece, rest = job->length - first;
    job->dots(&(br_gemm_block){ .m = 1,
                                .n = 1,
                                .k = br__min(rest, job->piece),
                                .a = job->a + first * job->size,
                                .a_col = 1,
                                .b = job->b + first * job->size,
                                .b_row = 1,
                                .c = job->sums + i * job->sum_size });
}

static bool is_long_dot(const br_matmul_tensors *w)
{
    const br_tensor *a = w->a, *b = w->b;
    return a->ndim == 1 && b->ndim == 1 && a->contiguous && b->contiguous && !w->accumulate &&
           a->numel >= 2 * BR_GRAIN;
}

static void long_dot(const br_matmul_tensors *w)
{
    const br_tensor *a = w->a, *b = w->b, *c = w->c;
    const br_dtype computed = br__computed(a->dtype);
    _Alignas(double) char sums[MAX_PIECES * sizeof(double)]; /* of the dtype `computed` */
    dot_job job = { .dots = br__gemm_kernels_of(a->dtype)->gemm_dots,
                    .a = a->data,
                    .b = b->data,
                    .length = a->numel,
                    .size = (int64_t)br__dtype_size(a->dtype),
                    .sum_size = (int64_t)br__dtype_size(computed),
                    .sums = sums };
    const int64_t max_length = (a->numel + MAX_PIECES - 1) / MAX_PIECES;
    job.piece = br__piece_size(a->numel, br__max(max_length, BR_GRAIN), BR_PIECE_UNIT);
    int64_t pieces = (job.length + job.piece - 1) / job.piece;
    const br_float_mode before = br__flush_denormals();
    br__parallel(pieces, dot_piece, &job);
    br__restore_denormals(before);
    double sum = 0;
    for (int64_t i = 0; i < pieces; i++)
        sum += br__get(computed, job.sums + i * job.sum_size);
    br__put(c->dtype, c->data, br__rounded(computed, sum));
}

/* ---- The entry ------------------------------------------------------------------------------- */

bool br__cpu_matmul(const br_matmul_tensors *w)
{
    if (is_long_dot(w)) {
        long_dot(w);
        return true;
    }
    const matrices a = w->a->ndim == 1 ? row_of(w->a) : matrices_of(w->a, w->a_transposed);
    const matrices b = w->b->ndim == 1 ? column_of(w->b) : matrices_of(w->b, w->b_transposed);
    br_gemm g = { .dtype = w->c->dtype,
                  .m = a.rows,
                  .n = b.columns,
                  .k = a.columns,
                  .a = w->a->data,
                  .b = w->b->data,
                  .c = w->c->data,
                  .a_row = a.row,
                  .a_col = a.column,
                  .b_row = b.row,
                  .b_col = b.column,
                  .c_row = b.columns,
                  .bias = w->bias && w->bias->contiguous ? w->bias->data : NULL,
                  .accumulate = w->accumulate };
    /* If the bias is not contiguous, it is copied to the result, and the product is added there. */
    if (w->bias && !g.bias) {
        br__cpu_pointwise(BR_POINTWISE(copy), 2, (const br_tensor *[]){ w->c, w->bias }, NULL);
        g.accumulate = true;
    }
    const int batch_ndim = br__max(a.batch_ndim, b.batch_ndim);
    set_batch(&g, &a, &b, batch_ndim, w->c->sizes);
    return w->b->dtype != g.dtype ? br__gemm_quantized(&g, w->b) : br__gemm(&g);
}
