/* ops/dropout.c - dropout. No mask is kept: whether an element falls is computed from its number
 * and a key drawn once, and computed again in the gradient. */
#include "ops/kernels/kernels.h"
#include "ops/view_internal.h"

#include <string.h>

typedef struct job {
    br_dropout_work d;
    void (*kernel)(int64_t n, int64_t first, const br_dropout_work *d, const void *x, void *y);
    const char *x;
    char *y;
    int64_t numel, size;
} job;

static void run_task(void *context, int64_t i)
{
    const job *j = context;
    int64_t first = i * BR_GRAIN, rest = j->numel - first, offset = first * j->size;
    j->kernel(rest < BR_GRAIN ? rest : BR_GRAIN, first, &j->d, j->x + offset, j->y + offset);
}

static void drop(const br_tensor *y, const br_tensor *x, const br_dropout_work *d)
{
    job j = { *d,       br__kernels(x->dtype == BR_F64)->dropout, x->data, y->data,
              y->numel, (int64_t)br_dtype_size(x->dtype) };
    BR_TRAFFIC(y, x);
    br__parallel((y->numel + BR_GRAIN - 1) / BR_GRAIN, run_task, &j);
}

static br_tensor *dropped(br_tensor *x, const br_dropout_work *d);

/* The same elements fall. */
static void dropout_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    dx[0] = dropped(dy, br_params(node));
}

static const br_op dropout_op = { .name = "dropout", .backward = dropout_backward };

/* A scale of 0 makes every element 0, whatever it was. */
static br_tensor *dropped(br_tensor *x, const br_dropout_work *d)
{
    br_tensor *y = br__new("dropout", x->ndim, x->sizes, x->dtype);
    br_scope *scope = br_no_grad_begin();
    br_tensor *dense = br_contiguous(x);
    if (y && d->scale == 0)
        memset(y->data, 0, y->storage->bytes);
    else if (y && dense)
        drop(y, dense, d);
    br_scope_end(scope);
    return br__recorded(&dropout_op, y, x, d, sizeof *d);
}

br_tensor *br_f_dropout(br_tensor *x, double p, bool training)
{
    BR_OP("dropout");
    if (!br__floating("dropout", "x", x))
        return NULL;
    if (!(p >= 0 && p <= 1))
        return br__fail(BR_ERROR_ARGUMENT, "dropout", "p is %g, must be in 0 .. 1", p);
    if (!training || p == 0)
        return x;
    br_dropout_work d = { 0 };
    if (p < 1)
        d = (br_dropout_work){ br_random_u64(), (uint32_t)(p * 0x1p32), 1 / (1 - p) };
    return dropped(x, &d);
}
