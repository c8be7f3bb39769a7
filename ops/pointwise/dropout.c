/* ops/pointwise/dropout.c - dropout. The operation saves one bit for each element for its gradient:
 * 0 if it is dropped. */
#include "ops/pointwise/dropout_internal.h"
#include "ops/shape/view_internal.h"

/* ---- Bits ------------------------------------------------------------------------------------ */

br_tensor *br__dropout_bits(const char *op, const br_tensor *x, int64_t n, double p)
{
    const int64_t words = (n + 63) / 64;
    br_tensor *t = br__new_on(op, x, BR_SHAPE(words + 1), BR_I64);
    const br_backend *backend = t ? BR_BACKEND(op, t, dropout_bits) : NULL;
    if (!backend)
        return NULL;
    backend->dropout_bits(t, n, p);
    return t;
}

double br__dropout_scale(br_dtype dtype, double p)
{
    return br__rounded(dtype, 1 / br__rounded(dtype, 1 - p));
}

/* ---- Elements -------------------------------------------------------------------------------- */

/* Parameters of the gradient. Bits are numbered in the input's memory order. */
typedef struct settings {
    double scale;
    int order[BR_MAX_DIMS];
} settings;

void br__drop(const br_tensor *y, const br_tensor *x, const br_tensor *bits, double scale)
{
    const br_backend *backend = BR_BACKEND("dropout", x, dropout);
    BR_TRAFFIC(y, x);
    if (backend)
        backend->dropout(y, x, bits, scale);
}

static br_tensor *dropped(br_tensor *x, br_tensor *bits, const settings *s);

/* Drops the same elements of dy. */
static void dropout_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    br_tensor *bits = br_saved(node, 0);
    if (bits)
        dx[0] = dropped(dy, bits, br_params(node));
}

static const br_op dropout_op = { .name = "dropout", .backward = dropout_backward };

static br_tensor *dropped(br_tensor *x, br_tensor *bits, const settings *s)
{
    br_tensor *y = br__new_reordered("dropout", x, x->ndim, x->sizes, x->dtype, s->order);
    if (!y)
        return NULL;
    br_scope *scope = br_scope_begin();
    const br_tensor ordered = br__reordered(x, s->order);
    br_tensor *dense = NULL;
    if (!ordered.contiguous && (dense = br__new_on("dropout", x, x->ndim, ordered.sizes, x->dtype)))
        br__copy(dense, &ordered);
    if (!br_failed())
        br__drop(y, dense ? dense : &ordered, bits, s->scale);
    br_scope_end(scope);
    br_node *node = br_record(&dropout_op, y, BR_INPUTS(x), s, sizeof *s);
    br_save(node, 0, bits);
    return br_failed() ? NULL : y;
}

br_tensor *br_f_dropout(br_tensor *x, double p, bool training)
{
    BR_OP("dropout");
    if (!br__floating("dropout", "x", x))
        return NULL;
    if (!(p >= 0 && p <= 1))
        return br_fail(BR_ERROR_ARGUMENT, "dropout", "p is %g, must be in 0 .. 1", p);
    if (!training || p == 0 || x->numel == 0)
        return x;
    /* With p = 1 no random numbers are generated, as in PyTorch. */
    settings s = { .scale = p == 1 ? 0 : br__dropout_scale(x->dtype, p) };
    br__memory_order(x, s.order);
    br_scope *scope = br_scope_begin();
    br_tensor *bits = p == 1 ? br_new_zeros(x, BR_SHAPE((x->numel + 63) / 64 + 1), BR_I64)
                             : br__dropout_bits("dropout", x, x->numel, p);
    br_tensor *y = bits ? br_scope_return(scope, dropped(x, bits, &s)) : NULL;
    br_scope_end(scope);
    return y;
}
