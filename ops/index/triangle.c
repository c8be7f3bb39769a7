/* ops/index/triangle.c - tril and triu: matrices without the elements above or below a diagonal. */
#include "ops/index/index_internal.h"
#include "ops/ops_internal.h"

typedef struct triangle {
    int64_t diagonal;
    bool upper;
} triangle;

static br_tensor *cut_triangle(const br_op *op, br_tensor *x, const triangle *t)
{
    BR_OP(op->name);
    if (!br__required(op->name, "x", x))
        return NULL;
    if (x->ndim < 2)
        return br_fail(BR_ERROR_SHAPE, op->name, "x %s must have at least two dimensions",
                       br__shape(x));
    const br_backend *backend = BR_BACKEND(op->name, x, triangle);
    br_tensor *y = backend ? br__new_on(op->name, x, x->ndim, x->sizes, x->dtype) : NULL;
    if (y && y->numel > 0) {
        br__copy(y, x);
        backend->triangle(y, t->diagonal, t->upper);
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
