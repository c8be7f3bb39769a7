/* ops/attention/rotary.c - rotary embeddings: rotates pairs of a vector's elements by angles that
 * depend on the position. This takes one pass over x. The gradient is the rotation by the opposite
 * angles. */
#include "ops/ops_internal.h"

static br_tensor *part(br_tensor *t, bool interleaved, int64_t which)
{
    int64_t pairs = br_size(t, -1) / 2;
    return interleaved ? br_slice(t, -1, which, BR_ALL, 2) : br_narrow(t, -1, which * pairs, pairs);
}

/* Saved values: x (if the gradient of cos or sin is needed), cos, sin. dcos = x1 dy1 + x2 dy2, dsin
 * = x1 dy2 - x2 dy1. */
static void rotary_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    bool interleaved = *(const bool *)br_params(node);
    br_tensor *cos = br_saved(node, 1), *sin = br_saved(node, 2);
    if (br_needs_input_grad(node, 0))
        dx[0] = br_f_rotary_embedding(dy, cos, br_neg(sin), interleaved);
    if (!br_needs_input_grad(node, 1) && !br_needs_input_grad(node, 2))
        return;
    br_tensor *x = br_saved(node, 0);
    br_tensor *x1 = part(x, interleaved, 0), *x2 = part(x, interleaved, 1);
    br_tensor *dy1 = part(dy, interleaved, 0), *dy2 = part(dy, interleaved, 1);
    if (br_needs_input_grad(node, 1))
        dx[1] = br_add(br_mul(x1, dy1), br_mul(x2, dy2));
    if (br_needs_input_grad(node, 2))
        dx[2] = br_sub(br_mul(x1, dy2), br_mul(x2, dy1));
}

static const br_op rotary_op = { .name = "rotary_embedding", .backward = rotary_backward };

static bool check(const br_tensor *x, const br_tensor *cos, const br_tensor *sin)
{
    const char *op = rotary_op.name;
    if (!br__floating(op, "x", x) || !br__compatible(op, "x", x, "cos", cos) ||
        !br__compatible(op, "x", x, "sin", sin))
        return false;
    int64_t size = x->ndim > 0 ? x->sizes[x->ndim - 1] : 1;
    if (size % 2 != 0) {
        br_fail(BR_ERROR_SHAPE, op, "x %s must have a last dimension of even size", br__shape(x));
        return false;
    }
    br_tensor pairs = br__window(x);
    br__window_slice(&pairs, x->ndim - 1, 0, size / 2, 1);
    return br__broadcasts_to(op, "cos", cos, &pairs) && br__broadcasts_to(op, "sin", sin, &pairs);
}

/* Converts the operands to one dtype. Under autocast, x may be bf16 and the angles f32. */
static void promote(br_tensor **x, br_tensor **cos, br_tensor **sin)
{
    const char *op = rotary_op.name;
    if (br_failed() || !br__required(op, "x", *x) || !br__required(op, "cos", *cos) ||
        !br__required(op, "sin", *sin) || !br_is_floating(*cos) || !br_is_floating(*sin))
        return;
    br_dtype dtype = br_promote_types((*x)->dtype, br_promote_types((*cos)->dtype, (*sin)->dtype));
    *x = br_to(*x, dtype);
    *cos = br_to(*cos, dtype);
    *sin = br_to(*sin, dtype);
}

br_tensor *br_f_rotary_embedding(br_tensor *x, br_tensor *cos, br_tensor *sin, bool interleaved)
{
    promote(&x, &cos, &sin);
    BR_OP(rotary_op.name);
    if (!check(x, cos, sin))
        return NULL;
    const br_backend *backend = BR_BACKEND(rotary_op.name, x, rotate);
    br_tensor *y = backend ? br__new_on(rotary_op.name, x, x->ndim, x->sizes, x->dtype) : NULL;
    if (!y)
        return NULL;
    BR_TRAFFIC(y, x, cos, sin);
    backend->rotate(y, x, cos, sin, interleaved);
    br_node *node =
        br_record(&rotary_op, y, BR_INPUTS(x, cos, sin), &interleaved, sizeof interleaved);
    if (br_needs_input_grad(node, 1) || br_needs_input_grad(node, 2))
        br_save(node, 0, x);
    br_save(node, 1, cos);
    br_save(node, 2, sin);
    return br_failed() ? NULL : y;
}
