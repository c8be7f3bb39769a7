/* optim/clip.c - clipping gradients by their total norm or by value.
 *
 * Each piece of elements has its own partial result, and the partial results of a tensor are added
 * in order, so that its norm does not depend on the number of threads. The total norm depends only
 * on the norms of the tensors, so that processes which hold some of them each can compute it, too.
 */
#include "backends/cpu/kernels.h"
#include "backends/cpu/optim/spans.h"
#include "optim/optim_internal.h"

#include <math.h>

typedef struct clipping {
    const char *op;
    int64_t n;
    br_tensor **grads; /* dense[i] is grads[i], or a contiguous copy */
    br_tensor **dense;
    br_loop_span *spans;
    double *partial; /* of each piece */
    double order;    /* of the norm, as in torch.linalg.vector_norm */
    double unit;     /* elements are divided by this before their powers are added */
    double scale;
    double limits[2]; /* of br_clip_grad_value_() */
} clipping;

/* ---- Norms ----------------------------------------------------------------------------------- */

/* Returns what x contributes to a norm: norms of order INFINITY and -INFINITY are the largest and
 * the smallest absolute value, that of order 0 is the number of elements that are not 0, and others
 * are (sum |x|^order)^(1/order). */
static double term(double x, double order)
{
    if (order == 2)
        return x * x;
    if (order == 0)
        return x != 0;
    return order == 1 || isinf(order) ? fabs(x) : pow(fabs(x), order);
}

static double neutral(const clipping *c)
{
    return c->order == -(double)INFINITY ? (double)INFINITY : 0;
}

/* Adds the term x to the total; NaN stays. */
static void fold(const clipping *c, double *total, double x)
{
    if (!isinf(c->order))
        *total += x;
    else if (!isnan(*total) && !(c->order > 0 ? x <= *total : x >= *total))
        *total = x;
}

static double root(const clipping *c, double total)
{
    if (c->order == 2)
        return sqrt(total);
    return c->order == 0 || c->order == 1 || isinf(c->order) ? total : pow(total, 1 / c->order);
}

static void fold_piece(void *context, int64_t piece, int64_t item, int64_t from, int64_t count)
{
    const clipping *c = context;
    const br_tensor *t = c->dense[item];
    const br_kernels *kernels = br__kernels_of(t->dtype);
    const void *values = br__element(t, from);
    if (c->unit == 1 && (c->order == 2 || c->order == (double)INFINITY)) {
        c->partial[piece] =
            (c->order == 2 ? kernels->sum_squares : kernels->max_abs)(count, values);
        return;
    }
    double total = neutral(c);
    for (int64_t i = 0; i < count; i++) {
        double x = br__get(t->dtype, br__element(t, from + i));
        fold(c, &total, term(x / c->unit, c->order));
    }
    c->partial[piece] = total;
}

static double norm_of(const clipping *c, int64_t item)
{
    double total = neutral(c);
    int64_t first = c->spans[item].start / BR_GRAIN;
    int64_t last = first + (c->spans[item].numel + BR_GRAIN - 1) / BR_GRAIN;
    for (int64_t i = first; i < last; i++)
        fold(c, &total, c->partial[i]);
    return root(c, total);
}

static double norm_in_units(clipping *c, double order, double unit)
{
    c->order = order;
    c->unit = unit;
    double total = c->n > 0 ? neutral(c) : 0;
    br__for_each_span(c->n, c->spans, fold_piece, c);
    for (int64_t i = 0; i < c->n; i++)
        fold(c, &total, term(norm_of(c, i), c->order));
    return root(c, total);
}

/* Returns the norm of the tensors' norms, 0 if there are none. If powers in double overflow or
 * underflow, as the squares of f64 numbers beyond 1e154 do, the largest element is the unit. */
static double total_norm(clipping *c, bool error_if_nonfinite)
{
    double order = c->order, norm = norm_in_units(c, order, 1);
    if (order > 0 && !isinf(order) && (isinf(norm) || norm < 1e-150)) {
        double largest = norm_in_units(c, (double)INFINITY, 1);
        if (largest > 0 && !isinf(largest))
            norm = largest * norm_in_units(c, order, largest);
        c->order = order;
    }
    if (error_if_nonfinite && !isfinite(norm))
        br_fail(BR_ERROR_ARGUMENT, c->op,
                "the total norm of the gradients is %g (norm_type %g): a gradient is not finite; "
                "pass false for error_if_nonfinite to scale by it anyway",
                norm, c->order);
    return norm;
}

/* ---- Changing gradients ---------------------------------------------------------------------- */

static void scale_piece(void *context, int64_t piece, int64_t item, int64_t from, int64_t count)
{
    const clipping *c = context;
    const br_tensor *t = c->dense[item];
    char *values = br__element(t, from);
    int64_t size = (int64_t)br_dtype_size(t->dtype);
    _Alignas(double) char scale[sizeof(double)];
    br__put(t->dtype, scale, c->scale);
    (void)piece;
    br__kernels_of(t->dtype)->pointwise[BR_POINTWISE(mul)](
        count, (char *[]){ values, values, scale }, (int64_t[]){ size, size, 0 }, NULL);
}

static void clamp_piece(void *context, int64_t piece, int64_t item, int64_t from, int64_t count)
{
    const clipping *c = context;
    const br_tensor *t = c->dense[item];
    char *values = br__element(t, from);
    int64_t size = (int64_t)br_dtype_size(t->dtype);
    (void)piece;
    br__kernels_of(t->dtype)->pointwise[BR_POINTWISE(clamp)](count, (char *[]){ values, values },
                                                             (int64_t[]){ size, size }, c->limits);
}

static void change_all(clipping *c, br_piece_fn change)
{
    br__for_each_span(c->n, c->spans, change, c);
    for (int64_t i = 0; i < c->n; i++) {
        BR_TRAFFIC(c->dense[i], c->dense[i]);
        if (c->dense[i] != c->grads[i])
            br__copy(c->grads[i], c->dense[i]);
        br__changed_by(c->grads[i], c->op);
    }
}

/* ---- Setting up ------------------------------------------------------------------------------ */

static bool add(clipping *c, br_tensor *grad)
{
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

/* Adds a parameter's gradient unless it is already in the list: tied parameters count once. */
static bool add_gradient(clipping *c, br_tensor *grad)
{
    for (int64_t i = 0; i < c->n; i++)
        if (c->grads[i] == grad)
            return true;
    return add(c, grad);
}

static bool reserve(clipping *c, size_t count)
{
    c->grads = br_calloc(count, sizeof(br_tensor *));
    c->dense = br_calloc(count, sizeof(br_tensor *));
    c->spans = br_calloc(count, sizeof *c->spans);
    return c->grads && c->dense && c->spans;
}

/* Gives each tensor pieces of its own. */
static bool lay_out(clipping *c)
{
    int64_t n_pieces = 0;
    for (int64_t i = 0; i < c->n; i++) {
        c->spans[i].start = n_pieces * BR_GRAIN;
        n_pieces += (c->spans[i].numel + BR_GRAIN - 1) / BR_GRAIN;
    }
    c->partial = br_calloc((size_t)n_pieces, sizeof *c->partial);
    return c->partial != NULL;
}

static bool set_up(clipping *c, const br_named_list *parameters)
{
    if (!reserve(c, (size_t)parameters->count))
        return false;
    for (int64_t i = 0; i < parameters->count; i++) {
        br_tensor *parameter = parameters->items[i].tensor;
        if (!br__required_item(c->op, "parameters", (int)i, parameter))
            return false;
        br_tensor *grad = br_grad_of(parameter);
        if (grad && !add_gradient(c, grad))
            return false;
    }
    return lay_out(c);
}

static void tear_down(clipping *c)
{
    br_free(c->grads);
    br_free(c->dense);
    br_free(c->spans);
    br_free(c->partial);
}

static bool good_norm_type(const char *op, double norm_type)
{
    if (isnan(norm_type))
        br_fail(BR_ERROR_ARGUMENT, op, "norm_type is %g, must be a number", norm_type);
    return !br_failed();
}

static bool good_arguments(const br_named_list *parameters, double max_norm, double norm_type)
{
    const char *op = "clip_grad_norm_";
    if (!br__required(op, "parameters", parameters))
        return false;
    if (!(max_norm >= 0))
        br_fail(BR_ERROR_ARGUMENT, op, "max_norm is %g, must not be negative", max_norm);
    return !br_failed() && good_norm_type(op, norm_type);
}

double br_get_total_norm(int n, br_tensor *const *tensors, double norm_type,
                         bool error_if_nonfinite)
{
    const char *op = "get_total_norm";
    clipping c = { .op = op, .order = norm_type };
    if (n < 0)
        br_fail(BR_ERROR_ARGUMENT, op, "n is %d, must not be negative", n);
    if (!good_norm_type(op, norm_type) || (n > 0 && !br__required(op, "tensors", tensors)))
        return -1;
    double norm = -1;
    br_scope *scope = br_scope_begin();
    bool ok = scope && reserve(&c, (size_t)n);
    for (int i = 0; ok && i < n; i++)
        ok = br__floating(op, "a tensor", tensors[i]) && add(&c, tensors[i]);
    if (ok && lay_out(&c))
        norm = total_norm(&c, error_if_nonfinite);
    tear_down(&c);
    br_scope_end(scope);
    return br_failed() ? -1 : norm;
}

/* Multiplies by max_norm / (norm + 1e-6) if that is below 1, or NaN, as PyTorch does. */
double br_clip_grad_norm_(const br_named_list *parameters, double max_norm, double norm_type,
                          bool error_if_nonfinite)
{
    if (!good_arguments(parameters, max_norm, norm_type))
        return -1;
    BR_EVENT(br__thread.events->optimizer("clip_grad_norm_"));
    clipping c = { .op = "clip_grad_norm_", .order = norm_type };
    double norm = -1;
    br_scope *scope = br_scope_begin();
    if (scope && set_up(&c, parameters)) {
        norm = total_norm(&c, error_if_nonfinite);
        c.scale = max_norm / (norm + 1e-6);
        if (!br_failed() && !(c.scale >= 1))
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
        return br_fail(BR_ERROR_ARGUMENT, c.op, "clip_value is %g, must not be negative",
                       clip_value);
    BR_EVENT(br__thread.events->optimizer("clip_grad_value_"));
    br_scope *scope = br_scope_begin();
    if (scope && set_up(&c, parameters))
        change_all(&c, clamp_piece);
    tear_down(&c);
    br_scope_end(scope);
    return !br_failed();
}

double br_module_clip_grad_norm_(br_module *module, double max_norm, double norm_type,
                                 bool error_if_nonfinite)
{
    br_named_list *parameters = br__collect("clip_grad_norm_", module, 0);
    double norm =
        parameters ? br_clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite) : -1;
    br_named_list_free(parameters);
    return norm;
}

bool br_module_clip_grad_value_(br_module *module, double clip_value)
{
    br_named_list *parameters = br__collect("clip_grad_value_", module, 0);
    bool ok = parameters && br_clip_grad_value_(parameters, clip_value);
    br_named_list_free(parameters);
    return ok;
}
