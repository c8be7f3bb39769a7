/* optim/clip.c - clipping gradients by their total norm, or each element.
 *
 * Each piece of elements has a partial result of its own, and these are added in their order: the
 * norm does not depend on the number of threads. */
#include "optim/optim_internal.h"

#include <math.h>

typedef struct clipping {
    const char *op;
    int64_t n;
    br_tensor **grads; /* dense[i] is grads[i], or a copy without gaps */
    br_tensor **dense;
    br_span *spans;
    int64_t n_pieces;
    double *partial;
    bool infinity; /* the norm is the largest absolute value */
    double scale;
    double limits[2]; /* of an element */
} clipping;

static void fold_piece(void *context, int64_t piece, int64_t item, int64_t from, int64_t count)
{
    const clipping *c = context;
    const br_tensor *t = c->dense[item];
    const br_kernels *kernels = br__kernels(t->dtype == BR_F64);
    const void *values = br__element(t, from);
    if (!c->infinity) {
        c->partial[piece] += kernels->sum_squares(count, values);
        return;
    }
    double most = kernels->max_abs(count, values);
    if (!(most <= c->partial[piece]) && !isnan(c->partial[piece]))
        c->partial[piece] = most;
}

static double total_norm(const clipping *c)
{
    double total = 0;
    for (int64_t i = 0; i < c->n_pieces; i++) {
        double x = c->partial[i];
        if (!c->infinity)
            total += x;
        else if (!(x <= total) && !isnan(total))
            total = x;
    }
    return c->infinity ? total : sqrt(total);
}

static void scale_piece(void *context, int64_t piece, int64_t item, int64_t from, int64_t count)
{
    const clipping *c = context;
    const br_tensor *t = c->dense[item];
    char *values = br__element(t, from);
    int64_t size = (int64_t)br_dtype_size(t->dtype);
    float scale_f32 = (float)c->scale;
    char *scale = t->dtype == BR_F64 ? (char *)(uintptr_t)&c->scale : (char *)&scale_f32;
    (void)piece;
    br__kernels(t->dtype == BR_F64)
        ->mul(count, (char *[]){ values, values, scale }, (int64_t[]){ size, size, 0 }, NULL);
}

static void clamp_piece(void *context, int64_t piece, int64_t item, int64_t from, int64_t count)
{
    const clipping *c = context;
    const br_tensor *t = c->dense[item];
    char *values = br__element(t, from);
    int64_t size = (int64_t)br_dtype_size(t->dtype);
    (void)piece;
    br__kernels(t->dtype == BR_F64)
        ->clamp(count, (char *[]){ values, values }, (int64_t[]){ size, size }, c->limits);
}

static void change_all(clipping *c, br_piece_fn change)
{
    br__over_spans(c->n, c->spans, change, c);
    for (int64_t i = 0; i < c->n; i++) {
        BR_TRAFFIC(c->dense[i], c->dense[i]);
        if (c->dense[i] != c->grads[i])
            br__copy(c->grads[i], c->dense[i]);
        c->grads[i]->storage->writer = c->op;
        br_bump_version(c->grads[i]);
    }
}

/* ---- Setting up ------------------------------------------------------------------------------ */

/* Adds a parameter's gradient unless it is there already: tied parameters count once. */
static bool add_gradient(clipping *c, br_tensor *grad)
{
    for (int64_t i = 0; i < c->n; i++)
        if (c->grads[i] == grad)
            return true;
    br_tensor *dense = grad;
    if (!grad->contiguous) {
        dense = br__new(c->op, grad->ndim, grad->sizes, grad->dtype);
        if (!dense)
            return false;
        br__copy(dense, grad);
    }
    BR_TRAFFIC(dense);
    c->grads[c->n] = grad;
    c->dense[c->n] = dense;
    c->spans[c->n++].numel = grad->numel;
    return true;
}

static bool set_up(clipping *c, const br_named_list *parameters)
{
    size_t count = (size_t)parameters->count;
    c->grads = br__calloc(count, sizeof(br_tensor *));
    c->dense = br__calloc(count, sizeof(br_tensor *));
    c->spans = br__calloc(count, sizeof *c->spans);
    if (!c->grads || !c->dense || !c->spans)
        return false;
    for (int64_t i = 0; i < parameters->count; i++) {
        br_tensor *grad = br_grad_of(parameters->items[i].tensor);
        if (grad && !add_gradient(c, grad))
            return false;
    }
    c->n_pieces = br__lay_out(c->n, c->spans);
    c->partial = br__calloc((size_t)c->n_pieces, sizeof *c->partial);
    return c->partial != NULL;
}

static void tear_down(clipping *c)
{
    br_free(c->grads);
    br_free(c->dense);
    br_free(c->spans);
    br_free(c->partial);
}

static bool good_arguments(const br_named_list *parameters, double max_norm, double norm_type)
{
    const char *op = "clip_grad_norm_";
    if (!br__required(op, "parameters", parameters))
        return false;
    if (!(max_norm >= 0))
        br__fail(BR_ERROR_ARGUMENT, op, "max_norm is %g, must not be negative", max_norm);
    else if (norm_type != 2 && norm_type != (double)INFINITY)
        br__fail(BR_ERROR_ARGUMENT, op, "norm_type is %g, must be 2 or INFINITY", norm_type);
    return !br_failed();
}

double br_clip_grad_norm_(const br_named_list *parameters, double max_norm, double norm_type)
{
    if (!good_arguments(parameters, max_norm, norm_type))
        return -1;
    BR_EVENT(br__event_optimizer("clip_grad_norm_"));
    clipping c = { .op = "clip_grad_norm_", .infinity = norm_type != 2 };
    double norm = -1;
    br_scope *scope = br_scope_begin();
    if (scope && set_up(&c, parameters)) {
        br__over_spans(c.n, c.spans, fold_piece, &c);
        norm = total_norm(&c);
        c.scale = max_norm / (norm + 1e-6);
        if (!isfinite(norm))
            br__fail(BR_ERROR_ARGUMENT, "clip_grad_norm_",
                     "the norm of the gradients is %g: one of them is not finite", norm);
        else if (c.scale < 1)
            change_all(&c, scale_piece);
    }
    tear_down(&c);
    br_scope_end(scope);
    return br_failed() ? -1 : norm;
}

bool br_clip_grad_value_(const br_named_list *parameters, double clip_value)
{
    clipping c = { .op = "clip_grad_value_", .limits = { -clip_value, clip_value } };
    if (!br__required(c.op, "parameters", parameters))
        return false;
    if (!(clip_value >= 0))
        return br__fail(BR_ERROR_ARGUMENT, c.op, "clip_value is %g, must not be negative",
                        clip_value);
    BR_EVENT(br__event_optimizer("clip_grad_value_"));
    br_scope *scope = br_scope_begin();
    if (scope && set_up(&c, parameters))
        change_all(&c, clamp_piece);
    tear_down(&c);
    br_scope_end(scope);
    return !br_failed();
}
