/* ops/matmul/matmul.c - matrix products and linear layers.
 *
 * Operands are multiplied without copying, whatever their strides; batches broadcast with strides
 * of 0. If the rows of a batch are evenly spaced and the other operand has no batch, the batch is
 * treated as one tall matrix. With C = A B the gradients are dA = dC B^T and dB = A^T dC: an
 * operand is saved only if the other one's gradient is needed. */
#include "backends/cpu/gemm/gemm.h"
#include "backends/cpu/kernels.h"
#include "ops/ops_internal.h"
#include "tensor/denormal.h"

#include <brasa/ops.h>
#include <inttypes.h>
#include <string.h>

/* ---- Tensors as batches of matrices ---------------------------------------------------------- */

/* A matrix operand: its last two dimensions, and the batch before them. */
typedef struct matrices {
    const br_tensor *t;
    int64_t rows, columns, row, column; /* sizes and strides */
    int batch_ndim;                     /* the batch is t's first dimensions */
} matrices;

static matrices matrices_of(const br_tensor *t)
{
    int last = t->ndim - 1;
    return (matrices){
        t, t->sizes[last - 1], t->sizes[last], t->strides[last - 1], t->strides[last], last - 1
    };
}

/* Returns a vector as a matrix of one row. */
static matrices row_of(const br_tensor *t)
{
    return (matrices){ t, 1, t->sizes[0], 0, t->strides[0], 0 };
}

static matrices transposed(matrices m)
{
    return (matrices){ m.t, m.columns, m.rows, m.column, m.row, m.batch_ndim };
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

/* Reports the work to the profiler. An operand that is broadcast over the batch is counted once. */
static void count_work(const br_gemm *g)
{
    int64_t a = g->m * g->k, b = g->k * g->n, c = g->m * g->n, products = 1;
    for (int i = 0; i < g->batch_ndim; i++) {
        products *= g->batch_sizes[i];
        a *= g->a_batch[i] ? g->batch_sizes[i] : 1;
        b *= g->b_batch[i] ? g->batch_sizes[i] : 1;
    }
    c *= products * (g->accumulate ? 2 : 1);
    int64_t size = (int64_t)br__dtype_size(g->dtype), bias = g->bias ? g->n : 0;
    br__thread.events->work(2 * g->m * g->n * g->k * products, (a + b + c + bias) * size);
}

/* Computes out = a b + bias, or adds a b to out. The rows of `out` are contiguous, and its first
 * sizes are those of the batch. */
static bool multiply(br_tensor *out, const matrices *a, const matrices *b, const br_tensor *bias,
                     int batch_ndim, bool accumulate)
{
    br_gemm g = { .dtype = out->dtype,
                  .m = a->rows,
                  .n = b->columns,
                  .k = a->columns,
                  .a = a->t->data,
                  .b = b->t->data,
                  .c = out->data,
                  .a_row = a->row,
                  .a_col = a->column,
                  .b_row = b->row,
                  .b_col = b->column,
                  .c_row = b->columns,
                  .bias = bias && bias->contiguous ? bias->data : NULL,
                  .accumulate = accumulate };
    /* If the bias is not contiguous, it is copied to the result, and the product is added there. */
    if (bias && !g.bias) {
        br__copy(out, bias);
        g.accumulate = true;
    }
    set_batch(&g, a, b, batch_ndim, out->sizes);
    if (BR_PROFILING)
        count_work(&g);
    return br__gemm(&g);
}

bool br__mm_into(br_tensor *out, const br_tensor *a, const br_tensor *b, const br_tensor *bias,
                 bool accumulate)
{
    BR_OP("mm");
    if (br__failed())
        return false;
    matrices left = matrices_of(a), right = matrices_of(b);
    return multiply(out, &left, &right, bias, 0, accumulate);
}

/* ---- Checks ---------------------------------------------------------------------------------- */

static bool check_operands(const char *op, const char *a_name, br_tensor *a, const char *b_name,
                           br_tensor *b)
{
    return br__required(op, a_name, a) && br__required(op, b_name, b) &&
           br__floating(op, a_name, a) && br__floating(op, b_name, b) &&
           br__same_dtype(op, a_name, a, b_name, b);
}

static bool check_ndim(const char *op, const char *name, const br_tensor *t, int ndim)
{
    if (t->ndim == ndim)
        return true;
    br_fail(BR_ERROR_SHAPE, op, "%s %s must have %d dimensions", name, br__shape(t), ndim);
    return false;
}

static bool check_inner(const char *op, const br_tensor *a, int64_t a_inner, const br_tensor *b,
                        int64_t b_inner)
{
    if (a_inner == b_inner)
        return true;
    br_fail(BR_ERROR_SHAPE, op, "a %s x b %s: inner sizes %" PRId64 " and %" PRId64 " differ",
            br__shape(a), br__shape(b), a_inner, b_inner);
    return false;
}

/* ---- mm, bmm, matmul ------------------------------------------------------------------------- */

/* Returns t as one matrix whose rows lie along the last dimension. */
static br_tensor *as_matrix(br_tensor *t)
{
    int64_t rows = 1;
    for (int d = 0; d < br_ndim(t) - 1; d++)
        rows *= br_size(t, d);
    return br_reshape(t, BR_SHAPE(rows, br_size(t, -1)));
}

/* The gradient of [.., n, k] x [.., k, m]. A vector is treated as one row if it is the first
 * operand and as one column if it is the second; the result does not have that dimension of size
 * 1. */
static void product_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    br_tensor *a = br_saved(node, 0), *b = br_saved(node, 1);
    int a_ndim, b_ndim;
    br_input_sizes(node, 0, &a_ndim);
    br_input_sizes(node, 1, &b_ndim);
    if (a_ndim == 1 && b_ndim == 1) { /* a dot product */
        if (br_needs_input_grad(node, 0))
            dx[0] = br_mul(dy, b);
        if (br_needs_input_grad(node, 1))
            dx[1] = br_mul(dy, a);
        return;
    }
    if (b_ndim == 1)
        dy = br_unsqueeze(dy, -1);
    if (a_ndim == 1)
        dy = br_unsqueeze(dy, -2);
    if (br_needs_input_grad(node, 0)) {
        br_tensor *b_t = b_ndim == 1 ? br_unsqueeze(b, 0) : br_transpose(b, -1, -2);
        dx[0] = br_matmul(dy, b_t);
        if (a_ndim == 1)
            dx[0] = br_squeeze(dx[0], -2);
    }
    if (!br_needs_input_grad(node, 1))
        return;
    /* one product instead of a batch of products that are summed */
    if (b_ndim <= 2 && a_ndim > 2) {
        a = as_matrix(a);
        dy = as_matrix(dy);
    }
    br_tensor *a_t = a_ndim == 1 ? br_unsqueeze(a, -1) : br_transpose(a, -1, -2);
    dx[1] = br_matmul(a_t, dy);
    if (b_ndim == 1)
        dx[1] = br_squeeze(dx[1], -1);
}

/* ---- Dot products ---------------------------------------------------------------------------- */

/* A long dot product is split into at most MAX_PIECES pieces, which threads share and whose sums
 * are added in order. The split depends only on the length, so the result does not depend on the
 * number of threads. */
enum { MAX_PIECES = 32 };

typedef struct dot_job {
    void (*dots)(const br_gemm_block *block);
    const char *a, *b;
    int64_t length, piece, size;
    char *sums;
} dot_job;

static void dot_piece(void *context, int64_t i)
{
    const dot_job *job = context;
    int64_t first = i * job->piece, rest = job->length - first;
    job->dots(&(br_gemm_block){ .m = 1,
                                .n = 1,
                                .k = rest < job->piece ? rest : job->piece,
                                .a = job->a + first * job->size,
                                .a_col = 1,
                                .b = job->b + first * job->size,
                                .b_row = 1,
                                .c = job->sums + i * job->size });
}

static bool is_long_dot(const br_tensor *a, const br_tensor *b)
{
    return a->ndim == 1 && b->ndim == 1 && a->contiguous && b->contiguous &&
           a->numel >= 2 * BR_GRAIN;
}

static void long_dot(const br_tensor *c, const br_tensor *a, const br_tensor *b)
{
    _Alignas(double) char sums[MAX_PIECES * sizeof(double)]; /* of the operands' dtype */
    dot_job job = { .dots = br__gemm_kernels_of(a->dtype)->gemm_dots,
                    .a = a->data,
                    .b = b->data,
                    .length = a->numel,
                    .size = (int64_t)br_dtype_size(a->dtype),
                    .sums = sums };
    const int64_t max_length = (a->numel + MAX_PIECES - 1) / MAX_PIECES;
    job.piece =
        br__piece_size(a->numel, max_length > BR_GRAIN ? max_length : BR_GRAIN, BR_PIECE_UNIT);
    int64_t pieces = (job.length + job.piece - 1) / job.piece;
    BR_WORK(2 * job.length, (2 * job.length + 1) * job.size);
    const br_float_mode before = br__flush_denormals();
    br__parallel(pieces, dot_piece, &job);
    br__restore_denormals(before);
    double sum = 0;
    for (int64_t i = 0; i < pieces; i++)
        sum += br__get(a->dtype, job.sums + i * job.size);
    br__put(c->dtype, c->data, sum);
}

/* ---- Products -------------------------------------------------------------------------------- */

static const br_op mm_op = { .name = "mm", .backward = product_backward };
static const br_op bmm_op = { .name = "bmm", .backward = product_backward };
static const br_op matmul_op = { .name = "matmul", .backward = product_backward };

/* Multiplies operands that have been checked, into a new tensor of the given sizes. */
static br_tensor *product(const br_op *op, br_tensor *a, br_tensor *b, int ndim,
                          const int64_t *sizes, int batch_ndim)
{
    matrices left = a->ndim == 1 ? row_of(a) : matrices_of(a);
    matrices right = b->ndim == 1 ? transposed(row_of(b)) : matrices_of(b);
    br_tensor *c = br__new(op->name, ndim, sizes, a->dtype);
    if (c && is_long_dot(a, b))
        long_dot(c, a, b);
    else if (!c || !multiply(c, &left, &right, NULL, batch_ndim, false))
        return NULL;
    br_node *node = br_record(op, c, BR_INPUTS(a, b), NULL, 0);
    if (br_needs_input_grad(node, 1))
        br_save(node, 0, a);
    if (br_needs_input_grad(node, 0))
        br_save(node, 1, b);
    return br__failed() ? NULL : c;
}

br_tensor *br_mm(br_tensor *a, br_tensor *b)
{
    BR_OP("mm");
    if (!check_operands("mm", "a", a, "b", b) || !check_ndim("mm", "a", a, 2) ||
        !check_ndim("mm", "b", b, 2) || !check_inner("mm", a, a->sizes[1], b, b->sizes[0]))
        return NULL;
    return product(&mm_op, a, b, BR_SHAPE(a->sizes[0], b->sizes[1]), 0);
}

br_tensor *br_bmm(br_tensor *a, br_tensor *b)
{
    BR_OP("bmm");
    if (!check_operands("bmm", "a", a, "b", b) || !check_ndim("bmm", "a", a, 3) ||
        !check_ndim("bmm", "b", b, 3))
        return NULL;
    if (a->sizes[0] != b->sizes[0])
        return br_fail(BR_ERROR_SHAPE, "bmm",
                       "a %s x b %s: batch sizes %" PRId64 " and %" PRId64 " differ", br__shape(a),
                       br__shape(b), a->sizes[0], b->sizes[0]);
    if (!check_inner("bmm", a, a->sizes[2], b, b->sizes[1]))
        return NULL;
    return product(&bmm_op, a, b, BR_SHAPE(a->sizes[0], a->sizes[1], b->sizes[2]), 1);
}

/* Computes the sizes that the batches of a and b broadcast to. */
static bool broadcast_batch(const br_tensor *a, const br_tensor *b, int ndim, int64_t *sizes)
{
    for (int from_end = 1; from_end <= ndim; from_end++) {
        int i = a->ndim - 2 - from_end, j = b->ndim - 2 - from_end;
        int64_t of_a = i < 0 ? 1 : a->sizes[i], of_b = j < 0 ? 1 : b->sizes[j];
        if (of_a != of_b && of_a != 1 && of_b != 1) {
            br_fail(BR_ERROR_SHAPE, "matmul",
                    "a %s x b %s: batch sizes %" PRId64 " and %" PRId64 " differ and neither is 1",
                    br__shape(a), br__shape(b), of_a, of_b);
            return false;
        }
        sizes[ndim - from_end] = of_a == 1 ? of_b : of_a;
    }
    return true;
}

br_tensor *br_matmul(br_tensor *a, br_tensor *b)
{
    BR_OP("matmul");
    if (!check_operands("matmul", "a", a, "b", b))
        return NULL;
    if (a->ndim == 0 || b->ndim == 0)
        return br_fail(BR_ERROR_SHAPE, "matmul", "a %s x b %s: both must have at least 1 dimension",
                       br__shape(a), br__shape(b));
    int64_t sizes[BR_MAX_DIMS];
    int ndim = (a->ndim > b->ndim ? a->ndim : b->ndim) - 2;
    if (ndim < 0)
        ndim = 0;
    if (!check_inner("matmul", a, a->sizes[a->ndim - 1], b,
                     b->sizes[b->ndim > 1 ? b->ndim - 2 : 0]) ||
        !broadcast_batch(a, b, ndim, sizes))
        return NULL;
    int batch_ndim = ndim;
    if (a->ndim > 1)
        sizes[ndim++] = a->sizes[a->ndim - 2];
    if (b->ndim > 1)
        sizes[ndim++] = b->sizes[b->ndim - 1];
    return product(&matmul_op, a, b, ndim, sizes, batch_ndim);
}

/* ---- Linear ---------------------------------------------------------------------------------- */

/* Returns a^T b over all rows of both. If nothing is recorded and both are contiguous, no views are
 * created. */
static br_tensor *weight_gradient(br_tensor *a, br_tensor *b)
{
    BR_OP("weight_gradient");
    if (!a || !b || br_grad_enabled() || !a->contiguous || !b->contiguous || b->ndim == 0)
        return br_mm(br_t(as_matrix(a)), as_matrix(b));
    int64_t m = a->sizes[a->ndim - 1], n = b->sizes[b->ndim - 1], rows = m > 0 ? a->numel / m : 0;
    br_tensor *dw = br__new("linear", BR_SHAPE(m, n), b->dtype);
    matrices left = { a, m, rows, 1, m, 0 }, right = { b, rows, n, n, 1, 0 };
    return dw && multiply(dw, &left, &right, NULL, 0, false) ? dw : NULL;
}

typedef struct linear_params {
    bool by_columns; /* the weight is the transpose of a row-major matrix */
} linear_params;

/* y = x w^T + bias. dx = dy w, dw = dy^T x in the memory layout of w, and dbias = dy, which
 * autograd sums to the shape of bias. */
static void linear_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    const linear_params *p = br_params(node);
    if (br_needs_input_grad(node, 0))
        dx[0] = br_matmul(dy, br_saved(node, 1));
    if (br_needs_input_grad(node, 1))
        dx[1] = p->by_columns ? br_t(weight_gradient(br_saved(node, 0), dy))
                              : weight_gradient(dy, br_saved(node, 0));
    if (br_needs_input_grad(node, 2))
        dx[2] = dy;
}

static const br_op linear_op = { .name = "linear", .backward = linear_backward };

static bool check_linear(br_tensor *x, br_tensor *weight, br_tensor *bias)
{
    const char *op = linear_op.name;
    if (!check_operands(op, "x", x, "weight", weight) || !check_ndim(op, "weight", weight, 2))
        return false;
    if (bias && !br__same_dtype(op, "x", x, "bias", bias))
        return false;
    if (x->ndim == 0 || x->sizes[x->ndim - 1] != weight->sizes[1]) {
        br_fail(BR_ERROR_SHAPE, op,
                "x %s must have a last dimension of size %" PRId64 " for weight %s", br__shape(x),
                weight->sizes[1], br__shape(weight));
        return false;
    }
    if (bias && (bias->ndim != 1 || bias->sizes[0] != weight->sizes[0])) {
        br_fail(BR_ERROR_SHAPE, op,
                "bias %s must have shape [%" PRId64 "], one element for each output of weight %s",
                br__shape(bias), weight->sizes[0], br__shape(weight));
        return false;
    }
    return true;
}

/* Handles a weight of shape [in]: there is one output, and the result has no dimension for it. */
static br_tensor *linear_to_one(br_tensor *x, br_tensor *weight, br_tensor *bias)
{
    if (x->ndim == 0 || x->sizes[x->ndim - 1] != weight->sizes[0])
        return br_fail(BR_ERROR_SHAPE, linear_op.name,
                       "x %s must have a last dimension of size %" PRId64 " for weight %s",
                       br__shape(x), weight->sizes[0], br__shape(weight));
    if (bias && bias->ndim != 0)
        return br_fail(BR_ERROR_SHAPE, linear_op.name,
                       "bias %s must have no dimensions, because weight %s has one",
                       br__shape(bias), br__shape(weight));
    br_scope *scope = br_scope_begin();
    br_tensor *rows = br_unsqueeze(weight, 0), *one = bias ? br_unsqueeze(bias, 0) : NULL;
    return br__composed(scope, br_squeeze(br_f_linear(x, rows, one), -1));
}

br_tensor *br_f_linear(br_tensor *x, br_tensor *weight, br_tensor *bias)
{
    BR_OP("linear");
    if (x && weight && weight->ndim == 1)
        return linear_to_one(x, weight, bias);
    if (!check_linear(x, weight, bias))
        return NULL;
    int64_t sizes[BR_MAX_DIMS];
    memcpy(sizes, x->sizes, sizeof sizes);
    sizes[x->ndim - 1] = weight->sizes[0];
    br_tensor *y = br__new(linear_op.name, x->ndim, sizes, x->dtype);
    if (!y)
        return NULL;
    matrices rows = x->ndim == 1 ? row_of(x) : matrices_of(x);
    matrices columns = transposed(matrices_of(weight));
    if (!multiply(y, &rows, &columns, bias, x->ndim > 2 ? x->ndim - 2 : 0, false))
        return NULL;
    linear_params params = { .by_columns = weight->strides[0] == 1 && weight->strides[1] != 1 };
    br_node *node = br_record(&linear_op, y, BR_INPUTS(x, weight, bias), &params, sizeof params);
    if (br_needs_input_grad(node, 1))
        br_save(node, 0, x);
    if (br_needs_input_grad(node, 0))
        br_save(node, 1, weight);
    return br__failed() ? NULL : y;
}
