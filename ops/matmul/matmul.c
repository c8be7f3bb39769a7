/* ops/matmul/matmul.c - matrix products and linear layers.
 *
 * With C = A B the gradients are dA = dC B^T and dB = A^T dC: an operand is saved only if the
 * gradient of the other operand is needed. */
#include "ops/autocast.h"
#include "ops/pointwise/widen.h"
#include "ops/quantized.h"
#include "tensor/min_max.h"

#include <brasa/ops.h>
#include <inttypes.h>
#include <string.h>

/* ---- The work -------------------------------------------------------------------------------- */

/* Returns the number of elements of an operand. Dimensions of the batch that are expanded count
 * once. */
static int64_t distinct_elements(const br_tensor *t)
{
    int64_t n = 1;
    for (int d = 0; d < t->ndim; d++)
        n *= d < t->ndim - 2 && t->strides[d] == 0 ? 1 : t->sizes[d];
    return n;
}

static void count_work(const br_matmul_tensors *w)
{
    const int64_t inner = w->a->sizes[w->a->ndim - (w->a_transposed ? 2 : 1)];
    const bool quantized = br__is_quantized(w->b);
    const int64_t elements = distinct_elements(w->a) + (quantized ? 0 : distinct_elements(w->b)) +
                             w->c->numel * (w->accumulate ? 2 : 1) + (w->bias ? w->bias->numel : 0);
    br__thread.events->work(2 * w->c->numel * inner,
                            elements * (int64_t)br__dtype_size(w->c->dtype) +
                                (quantized ? (int64_t)br__tensor_bytes(w->b) : 0));
}

static bool multiply(const br_backend *backend, const br_matmul_tensors *work)
{
    if (BR_PROFILING)
        count_work(work);
    return backend->matmul(work);
}

/* ---- Checks ---------------------------------------------------------------------------------- */

static bool check_operands(const char *op, const char *a_name, br_tensor *a, const char *b_name,
                           br_tensor *b)
{
    return br__required(op, a_name, a) && br__required(op, b_name, b) &&
           br__is_number(op, a_name, a) && br__is_number(op, b_name, b) &&
           br__compatible(op, a_name, a, b_name, b);
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

/* Converts the operands of a gradient of bf16 or f16 to f32 if it has more matrices than input i,
 * because autograd then sums the matrices, and each would be rounded. */
static void widen_if_summed(const br_node *node, int i, br_tensor **dy, br_tensor **other)
{
    int ndim;
    int64_t own = 1, all = 1;
    const int64_t *sizes = br_input_sizes(node, i, &ndim);
    for (int d = 0; d < ndim - 2; d++)
        own *= sizes[d];
    for (int d = 0; d < br_ndim(*dy) - 2; d++)
        all *= br_size(*dy, d);
    if (own != all)
        BR_WIDEN(dy, other);
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
        br_tensor *b_t = b_ndim == 1 ? br_unsqueeze(b, 0) : br_transpose(b, -1, -2), *wide = dy;
        widen_if_summed(node, 0, &wide, &b_t);
        dx[0] = br_matmul(wide, b_t);
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
    widen_if_summed(node, 1, &dy, &a_t);
    dx[1] = br_matmul(a_t, dy);
    if (b_ndim == 1)
        dx[1] = br_squeeze(dx[1], -1);
}

/* ---- Products -------------------------------------------------------------------------------- */

static const br_op mm_op = { .name = "mm", .backward = product_backward };
static const br_op bmm_op = { .name = "bmm", .backward = product_backward };
static const br_op matmul_op = { .name = "matmul", .backward = product_backward };

/* Multiplies operands that have been checked, into a new tensor of the given sizes. */
static br_tensor *product(const br_op *op, br_tensor *a, br_tensor *b, int ndim,
                          const int64_t *sizes)
{
    const br_backend *backend = BR_BACKEND(op->name, a, matmul);
    br_tensor *c = backend ? br__new_on(op->name, a, ndim, sizes, a->dtype) : NULL;
    if (!c || !multiply(backend, &(br_matmul_tensors){ .a = a, .b = b, .c = c }))
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
    BR_AUTOCAST(br_mm(LOWER(a), LOWER(b)))
    if (!check_operands("mm", "a", a, "b", b) || !check_ndim("mm", "a", a, 2) ||
        !check_ndim("mm", "b", b, 2) || !check_inner("mm", a, a->sizes[1], b, b->sizes[0]))
        return NULL;
    return product(&mm_op, a, b, BR_SHAPE(a->sizes[0], b->sizes[1]));
}

br_tensor *br_bmm(br_tensor *a, br_tensor *b)
{
    BR_OP("bmm");
    BR_AUTOCAST(br_bmm(LOWER(a), LOWER(b)))
    if (!check_operands("bmm", "a", a, "b", b) || !check_ndim("bmm", "a", a, 3) ||
        !check_ndim("bmm", "b", b, 3))
        return NULL;
    if (a->sizes[0] != b->sizes[0])
        return br_fail(BR_ERROR_SHAPE, "bmm",
                       "a %s x b %s: batch sizes %" PRId64 " and %" PRId64 " differ", br__shape(a),
                       br__shape(b), a->sizes[0], b->sizes[0]);
    if (!check_inner("bmm", a, a->sizes[2], b, b->sizes[1]))
        return NULL;
    return product(&bmm_op, a, b, BR_SHAPE(a->sizes[0], a->sizes[1], b->sizes[2]));
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
    BR_AUTOCAST(br_matmul(LOWER(a), LOWER(b)))
    if (!check_operands("matmul", "a", a, "b", b))
        return NULL;
    if (a->ndim == 0 || b->ndim == 0)
        return br_fail(BR_ERROR_SHAPE, "matmul", "a %s x b %s: both must have at least 1 dimension",
                       br__shape(a), br__shape(b));
    int64_t sizes[BR_MAX_DIMS];
    int ndim = br__max(a->ndim, b->ndim) - 2;
    if (ndim < 0)
        ndim = 0;
    if (!check_inner("matmul", a, a->sizes[a->ndim - 1], b,
                     b->sizes[b->ndim > 1 ? b->ndim - 2 : 0]) ||
        !broadcast_batch(a, b, ndim, sizes))
        return NULL;
    if (a->ndim > 1)
        sizes[ndim++] = a->sizes[a->ndim - 2];
    if (b->ndim > 1)
        sizes[ndim++] = b->sizes[b->ndim - 1];
    return product(&matmul_op, a, b, ndim, sizes);
}

/* ---- Linear ---------------------------------------------------------------------------------- */

/* Returns a contiguous tensor as a matrix of `rows` rows: t itself, or a window in *window. */
static const br_tensor *rows_of(const br_tensor *t, int64_t rows, br_tensor *window)
{
    if (t->ndim == 2)
        return t;
    const int64_t columns = t->sizes[t->ndim - 1];
    *window = br__window(t);
    br__window_reshape(window, 2, (const int64_t[]){ rows, columns },
                       (const int64_t[]){ columns, 1 });
    return window;
}

/* Returns a^T b over all rows of both. If nothing is recorded and both are contiguous, no views are
 * created. */
static br_tensor *weight_gradient(br_tensor *a, br_tensor *b)
{
    BR_OP("weight_gradient");
    if (!a || !b || br_grad_enabled() || !a->contiguous || !b->contiguous || b->ndim == 0)
        return br_mm(br_t(as_matrix(a)), as_matrix(b));
    int64_t m = a->sizes[a->ndim - 1], n = b->sizes[b->ndim - 1], rows = m > 0 ? a->numel / m : 0;
    const br_backend *backend = BR_BACKEND("linear", b, matmul);
    br_tensor *dw = backend ? br__new_on("linear", b, BR_SHAPE(m, n), b->dtype) : NULL;
    br_tensor of_a, of_b;
    const br_matmul_tensors work = {
        .a = rows_of(a, rows, &of_a), .b = rows_of(b, rows, &of_b), .c = dw, .a_transposed = true
    };
    return dw && multiply(backend, &work) ? dw : NULL;
}

/* Returns dy w of a quantized weight, which the backend dequantizes a part at a time. If the
 * gradient is itself recorded, it is a product with the whole weight in floats. */
static br_tensor *input_gradient(br_tensor *dy, br_tensor *weight)
{
    if (!br__is_quantized_weight(weight) || br_grad_enabled())
        return br_matmul(dy, br__dequantized(weight));
    BR_OP("matmul");
    dy = br_contiguous(dy);
    if (!br__fits_weight("linear", "dy", dy, "weight", weight))
        return NULL;
    int64_t sizes[BR_MAX_DIMS];
    memcpy(sizes, dy->sizes, sizeof sizes);
    sizes[dy->ndim - 1] = weight->sizes[1];
    const br_backend *backend = BR_BACKEND("linear", dy, matmul);
    br_tensor *dx = backend ? br__new_on("linear", dy, dy->ndim, sizes, dy->dtype) : NULL;
    const br_matmul_tensors work = { .a = dy, .b = weight, .c = dx };
    return dx && multiply(backend, &work) ? dx : NULL;
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
        dx[0] = input_gradient(dy, br_saved(node, 1));
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
    const bool quantized = br__is_quantized_weight(weight);
    if (quantized ? !br__fits_weight(op, "x", x, "weight", weight)
                  : !check_operands(op, "x", x, "weight", weight))
        return false;
    if (!check_ndim(op, "weight", weight, 2))
        return false;
    if (bias && !br__compatible(op, "x", x, "bias", bias))
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
    BR_AUTOCAST(br__is_quantized_weight(weight) ? br_f_linear(RAISE(x), weight, RAISE(bias))
                                                : br_f_linear(LOWER(x), LOWER(weight), LOWER(bias)))
    if (x && weight && weight->ndim == 1)
        return linear_to_one(x, weight, bias);
    if (!check_linear(x, weight, bias))
        return NULL;
    int64_t sizes[BR_MAX_DIMS];
    memcpy(sizes, x->sizes, sizeof sizes);
    sizes[x->ndim - 1] = weight->sizes[0];
    const br_backend *backend = BR_BACKEND(linear_op.name, x, matmul);
    br_tensor *y = backend ? br__new_on(linear_op.name, x, x->ndim, sizes, x->dtype) : NULL;
    const br_matmul_tensors work = {
        .a = x, .b = weight, .bias = bias, .c = y, .b_transposed = true
    };
    if (!y || !multiply(backend, &work))
        return NULL;
    linear_params params = { .by_columns = weight->strides[0] == 1 && weight->strides[1] != 1 };
    br_node *node = br_record(&linear_op, y, BR_INPUTS(x, weight, bias), &params, sizeof params);
    if (br_needs_input_grad(node, 1))
        br_save(node, 0, x);
    if (br_needs_input_grad(node, 0))
        br_save(node, 1, weight);
    return br__failed() ? NULL : y;
}
