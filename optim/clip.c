/* optim/clip.c - clipping gradients by their total norm or by value.
 *
 * The total norm depends only on the norms of the tensors, so that processes which hold some of the
 * tensors each can compute it, too. */
#include "optim/optim_internal.h"

#include <math.h>

typedef struct clipping {
    const char *op;
    int64_t n;
    br_tensor **grads; /* dense[i] is grads[i], or a contiguous copy */
    const br_tensor **dense;
    br_loop_span *spans;
    double *norms;
} clipping;

/* ---- Norms ----------------------------------------------------------------------------------- */

static double norm_in_units(const clipping *c, double order, double unit)
{
    const br_vector_norm norm = { order, unit };
    if (!br__norms(c->op, c->n, c->dense, c->spans, norm, c->norms))
        return NAN;
    double total = c->n > 0 ? br__norm_neutral(order) : 0;
    for (int64_t i = 0; i < c->n; i++)
        br__norm_fold(order, &total, br__norm_term(order, c->norms[i]));
    return br__norm_root(order, total);
}

/* Returns the norm of the tensors' norms, 0 if there are none. If powers in double overflow or
 * underflow, as the squares of f64 numbers beyond 1e154 do, the largest element is the unit. */
static double total_norm(const clipping *c, double order, bool error_if_nonfinite)
{
    double norm = norm_in_units(c, order, 1);
    if (order > 0 && !isinf(order) && (isinf(norm) || norm < 1e-150)) {
        double largest = norm_in_units(c, (double)INFINITY, 1);
        if (largest > 0 && !isinf(largest))
            norm = largest * norm_in_units(c, order, largest);
    }
    if (error_if_nonfinite && !isfinite(norm) && !br_failed())
        br_fail(BR_ERROR_ARGUMENT, c->op,
                "the total norm of the gradients is %g (norm_type %g): a gradient is not finite; "
                "pass false for error_if_nonfinite to scale by it anyway",
                norm, order);
    return norm;
}

/* ---- Changing gradients ---------------------------------------------------------------------- */

/* Applies a kernel to all gradients (br__pointwise_each()). */
static void change_all(const clipping *c, br_pointwise kernel, const double *scalar,
                       const void *params)
{
    if (!br__pointwise_each(c->op, kernel, c->n, c->dense, c->spans, scalar, params))
        return;
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
    br_tensor *dense = grad->contiguous ? grad : br__dense_copy(c->op, grad);
    if (!dense)
        return false;
    BR_TRAFFIC(dense);
    c->grads[c->n] = grad;
    c->dense[c->n++] = dense;
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
    c->norms = br_calloc(count, sizeof *c->norms);
    return c->grads && c->dense && c->spans && c->norms;
}

static bool set_up(clipping *c, const br_named_list *parameters)
{
    if (!reserve(c, (size_t)parameters->count))
        return false;
    for (int64_t i = 0; i < parameters->count; i++) {
        br_tensor *parameter = parameters->items[i].tensor;
        if (br__is_quantized_weight(parameter)) /* it has no gradient */
            continue;
        if (!br__required_item(c->op, "parameters", (int)i, parameter))
            return false;
        br_tensor *grad = br_grad_of(parameter);
        if (grad && !add_gradient(c, grad))
            return false;
    }
    return true;
}

static void tear_down(clipping *c)
{
    br_free(c->grads);
    br_free(c->dense);
    br_free(c->spans);
    br_free(c->norms);
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
    clipping c = { .op = op };
    if (n < 0)
        br_fail(BR_ERROR_ARGUMENT, op, "n is %d, must not be negative", n);
    if (!good_norm_type(op, norm_type) || (n > 0 && !br__required(op, "tensors", tensors)))
        return -1;
    double norm = -1;
    br_scope *scope = br_scope_begin();
    bool ok = scope && reserve(&c, (size_t)n);
    for (int i = 0; ok && i < n; i++)
        ok = br__floating(op, "a tensor", tensors[i]) && add(&c, tensors[i]);
    if (ok)
        norm = total_norm(&c, norm_type, error_if_nonfinite);
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
    clipping c = { .op = "clip_grad_norm_" };
    double norm = -1;
    br_scope *scope = br_scope_begin();
    if (scope && set_up(&c, parameters)) {
        norm = total_norm(&c, norm_type, error_if_nonfinite);
        const double scale = max_norm / (norm + 1e-6);
        if (!br_failed() && !(scale >= 1))
            change_all(&c, BR_POINTWISE(mul), &scale, NULL);
    }
    tear_down(&c);
    br_scope_end(scope);
    return br_failed() ? -1 : norm;
}

bool br__scale_gradients(const char *op, const br_named_list *parameters, double factor,
                         bool *finite)
{
    clipping c = { .op = op };
    br_scope *scope = br_scope_begin();
    if (scope && set_up(&c, parameters)) {
        *finite = isfinite(norm_in_units(&c, (double)INFINITY, 1));
        if (!br_failed())
            change_all(&c, BR_POINTWISE(mul), &factor, NULL);
    }
    tear_down(&c);
    br_scope_end(scope);
    return !br_failed();
}

bool br_clip_grad_value_(const br_named_list *parameters, double clip_value)
{
    clipping c = { .op = "clip_grad_value_" };
    const double limits[] = { -clip_value, clip_value };
    if (!br__required(c.op, "parameters", parameters))
        return false;
    if (!(clip_value >= 0))
        return br_fail(BR_ERROR_ARGUMENT, c.op, "clip_value is %g, must not be negative",
                       clip_value);
    BR_EVENT(br__thread.events->optimizer("clip_grad_value_"));
    br_scope *scope = br_scope_begin();
    if (scope && set_up(&c, parameters))
        change_all(&c, BR_POINTWISE(clamp), NULL, limits);
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
