/* autograd/functional.c - derivatives of a function at a point, like torch.autograd.functional: the
 * Jacobian, the Hessian, and products with them.
 *
 * The function is called once, on new leaves that share the inputs' memory, so that no existing
 * gradients are changed. Jv takes two backward passes. The first computes uJ, the gradient with
 * respect to x for an output gradient u, which is linear in u. The second computes the gradient of
 * the dot product of uJ and v with respect to u, which is Jv. */
#include "autograd/tape.h"
#include "tensor/min_max.h"

#include <string.h>

BR_DEFINE_DEFAULTS(br_functional)

typedef struct problem {
    const char *op;
    int n;
    br_tensor *const *inputs;
    br_tensor **x; /* arguments of the function */
    br_tensor *y;
    bool create_graph;
    br_scope *scope; /* scope of the computation */
} problem;

/* ---- Beginning and end ----------------------------------------------------------------------- */

/* Returns the argument for an input: the input itself if the result must be differentiable with
 * respect to it, else a leaf that shares its memory. Inputs that are not floating-point (indices,
 * masks) are passed unchanged. */
static br_tensor *own_leaf(const problem *p, br_tensor *input)
{
    if (!br__required(p->op, "input", input))
        return NULL;
    if (!br_is_floating(input) || (p->create_graph && br_requires_grad(input)))
        return input;
    return br_set_requires_grad(br_detach(input), true);
}

static bool check(const problem *p, br_function f)
{
    if (br_failed())
        return false;
    if (!f || p->n <= 0 || !p->inputs)
        br_fail(BR_ERROR_ARGUMENT, p->op, "a function and at least one input are required");
    return !br_failed();
}

/* Calls f and returns true if there is a result y. The caller must call end() in either case. */
static bool begin(problem *p, br_function f, void *context)
{
    if (!check(p, f))
        return false;
    p->x = br_calloc((size_t)p->n, sizeof *p->x);
    p->scope = p->x ? br_enable_grad_begin() : NULL;
    for (int i = 0; i < p->n && p->scope && !br_failed(); i++)
        p->x[i] = own_leaf(p, p->inputs[i]);
    p->y = p->scope && !br_failed() ? f(p->x, p->n, context) : NULL;
    if (!p->y && !br_failed())
        br_fail(BR_ERROR_ARGUMENT, p->op, "the function returned NULL");
    return !br_failed() && br__floating(p->op, "the function's result", p->y);
}

/* Moves a result to the caller's scope. */
static br_tensor *return_tensor(const problem *p, br_tensor *t)
{
    if (t && !p->create_graph)
        t = br_detach(t);
    return br_failed() ? NULL : br_scope_return(p->scope, t);
}

/* Returns y. After an error, returns NULL and sets all `results` to NULL. */
static br_tensor *end(problem *p, int n_results, br_tensor **results)
{
    br_tensor *y = p->scope ? return_tensor(p, p->y) : NULL;
    for (int i = 0; i < n_results && results && br_failed(); i++)
        results[i] = NULL;
    br_scope_end(p->scope);
    br_free(p->x);
    return br_failed() ? NULL : y;
}

static void clear(int n, br_tensor **results)
{
    for (int i = 0; i < n && results; i++)
        results[i] = NULL;
}

/* ---- Gradients ------------------------------------------------------------------------------- */

/* Computes the gradients of sum(outputs * v) with respect to the floating-point inputs. Outputs
 * that do not require grad are skipped; if none remains, the gradients are zeros. */
static bool gradients(const problem *p, int n_outputs, br_tensor *const *outputs,
                      br_tensor *const *v, bool create_graph, br_tensor **grads)
{
    size_t n = (size_t)br__max(p->n, n_outputs);
    br_tensor **by = br_calloc(4 * n, sizeof *by), **found = by + n, **of = found + n,
              **with = of + n;
    int n_by = 0, n_of = 0;
    if (!by)
        return false;
    for (int i = 0; i < p->n; i++)
        if (br_requires_grad(p->x[i]))
            by[n_by++] = p->x[i];
    for (int k = 0; k < n_outputs; k++)
        if (br_requires_grad(outputs[k])) {
            of[n_of] = outputs[k];
            with[n_of++] = v ? v[k] : NULL;
        }
    const br_grad_options *o = BR_OPTIONS(br_grad, .gradients = with, .retain_graph = true,
                                          .create_graph = create_graph, .materialize_grads = true);
    if (n_by > 0 && n_of > 0)
        br_grad(n_of, of, n_by, by, found, o);
    for (int i = 0, k = 0; i < p->n && !br_failed(); i++) {
        grads[i] = NULL;
        if (br_requires_grad(p->x[i]))
            grads[i] = n_of > 0 ? found[k++] : br_zeros_like(p->x[i]);
    }
    br_free(by);
    return !br_failed();
}

/* Checks that v has t's shape and dtype. */
static bool fits(const char *op, const char *name, const br_tensor *v, const char *of,
                 const br_tensor *t)
{
    if (!br__required(op, name, v))
        return false;
    if (br__same_shape(v, t) && v->dtype == t->dtype)
        return br__same_device(op, name, v, of, t);
    br_fail(BR_ERROR_SHAPE, op, "%s is %s %s, but must be %s %s like %s", name, br__shape(v),
            br_dtype_name(v->dtype), br__shape(t), br_dtype_name(t->dtype), of);
    return false;
}

/* Checks that there is one matching v for each floating-point input. */
static bool fit_inputs(const problem *p, br_tensor *const *v)
{
    if (!br__required(p->op, "v", v))
        return false;
    for (int i = 0; i < p->n; i++)
        if (br_requires_grad(p->x[i]) && !fits(p->op, "v", v[i], "its input", p->x[i]))
            return false;
    return true;
}

/* Computes the gradients of y, which must have one element, and records the computation. */
static bool gradient_of_scalar(const problem *p, br_tensor **grads)
{
    if (p->y->numel != 1) {
        br_fail(BR_ERROR_SHAPE, p->op, "the function returned shape %s, expected one element",
                br__shape(p->y));
        return false;
    }
    return gradients(p, 1, &p->y, NULL, true, grads);
}

static problem pose(const char *op, int n, br_tensor *const *inputs,
                    const br_functional_options *options)
{
    return (problem){ .op = op,
                      .n = n,
                      .inputs = inputs,
                      .create_graph = BR_OPTIONS_OF(op, br_functional, options)->create_graph };
}

/* ---- Products -------------------------------------------------------------------------------- */

br_tensor *br_vjp(br_function f, void *context, int n, br_tensor *const *inputs, br_tensor *v,
                  br_tensor **products, const br_functional_options *options)
{
    problem p = pose("vjp", n, inputs, options);
    clear(n, products);
    bool ok = begin(&p, f, context);
    if (ok && (v || p.y->numel != 1))
        ok = fits(p.op, "v", v, "the function's result", p.y);
    if (ok && gradients(&p, 1, &p.y, &v, p.create_graph, products))
        for (int i = 0; i < n; i++)
            products[i] = return_tensor(&p, products[i]);
    return end(&p, n, products);
}

/* Computes the gradient with respect to u of the recorded grads, weighted by v. */
static br_tensor *along(const problem *p, br_tensor *u, br_tensor *const *grads,
                        br_tensor *const *v)
{
    br_tensor **of = br_calloc(2 * (size_t)p->n, sizeof *of), **with = of + p->n;
    br_tensor *product = NULL;
    int n_of = 0;
    if (!of)
        return NULL;
    for (int i = 0; i < p->n; i++)
        if (grads[i] && br_requires_grad(grads[i])) {
            of[n_of] = grads[i];
            with[n_of++] = v[i];
        }
    const br_grad_options *o = BR_OPTIONS(
        br_grad, .gradients = with, .create_graph = p->create_graph, .materialize_grads = true);
    if (n_of > 0)
        br_grad(n_of, of, 1, &u, &product, o);
    else
        product = br_zeros_like(u);
    br_free(of);
    return br_failed() ? NULL : product;
}

br_tensor *br_jvp(br_function f, void *context, int n, br_tensor *const *inputs,
                  br_tensor *const *v, br_tensor **product, const br_functional_options *options)
{
    problem p = pose("jvp", n, inputs, options);
    clear(1, product);
    bool ok = begin(&p, f, context) && fit_inputs(&p, v);
    br_tensor **grads = ok ? br_calloc((size_t)n, sizeof *grads) : NULL;
    br_tensor *u = grads ? br_set_requires_grad(br_zeros_like(p.y), true) : NULL;
    if (u && gradients(&p, 1, &p.y, &u, true, grads))
        *product = return_tensor(&p, along(&p, u, grads, v));
    br_free(grads);
    return end(&p, 1, product);
}

br_tensor *br_hvp(br_function f, void *context, int n, br_tensor *const *inputs,
                  br_tensor *const *v, br_tensor **products, const br_functional_options *options)
{
    problem p = pose("hvp", n, inputs, options);
    clear(n, products);
    bool ok = begin(&p, f, context) && fit_inputs(&p, v);
    br_tensor **grads = ok ? br_calloc((size_t)n, sizeof *grads) : NULL;
    if (grads && gradient_of_scalar(&p, grads) &&
        gradients(&p, n, grads, v, p.create_graph, products))
        for (int i = 0; i < n; i++)
            products[i] = return_tensor(&p, products[i]);
    br_free(grads);
    return end(&p, n, products);
}

/* ---- Matrices -------------------------------------------------------------------------------- */

/* Returns zeros of t's shape with a 1 as element number k. */
static br_tensor *unit(const br_tensor *t, int64_t k)
{
    br_tensor *v = br_zeros_like(t);
    if (v) {
        const br_tensor element = br__window_element(v, k);
        br__set_number(&element, 1);
    }
    return v;
}

/* Computes the shape of y followed by that of x. */
static bool joint_shape(const problem *p, const br_tensor *y, const br_tensor *x, int *ndim,
                        int64_t *sizes)
{
    *ndim = y->ndim + x->ndim;
    if (*ndim > BR_MAX_DIMS) {
        br_fail(
            BR_ERROR_SHAPE, p->op,
            "the derivative of %s with respect to %s would have %d dimensions, but at most %d are "
            "supported",
            br__shape(y), br__shape(x), *ndim, BR_MAX_DIMS);
        return false;
    }
    memcpy(sizes, y->sizes, (size_t)y->ndim * sizeof *sizes);
    memcpy(sizes + y->ndim, x->sizes, (size_t)x->ndim * sizeof *sizes);
    return true;
}

/* Builds jacobians[i], the Jacobian of y with respect to x[i], from its rows. Row k for input i is
 * rows[i * y->numel + k]. */
static void stack_rows(const problem *p, const br_tensor *y, br_tensor **rows,
                       br_tensor **jacobians)
{
    for (int i = 0; i < p->n && !br_failed(); i++) {
        int64_t sizes[BR_MAX_DIMS];
        int ndim;
        if (!br_requires_grad(p->x[i]) || !joint_shape(p, y, p->x[i], &ndim, sizes))
            continue;
        br_tensor *matrix = y->numel > 0 ? br__grad_ops.stack((int)y->numel, rows + i * y->numel, 0)
                                         : br_new_zeros(y, ndim, sizes, p->x[i]->dtype);
        jacobians[i] = matrix ? br__grad_ops.reshape(matrix, ndim, sizes) : NULL;
    }
}

/* Computes the Jacobians of y. The entries for inputs that are not floating-point stay NULL. */
static bool jacobian_of(const problem *p, br_tensor *y, br_tensor **jacobians)
{
    size_t n = (size_t)p->n, count = (size_t)y->numel;
    if (y->numel > INT32_MAX) {
        br_fail(BR_ERROR_SHAPE, p->op,
                "%s has too many elements: a Jacobian can have at most 2147483647 rows",
                br__shape(y));
        return false;
    }
    br_tensor **grads = br_calloc(n * (count + 1), sizeof *grads), **rows = grads + n;
    if (!grads)
        return false;
    for (size_t k = 0; k < count && !br_failed(); k++) {
        br_tensor *v = unit(y, (int64_t)k);
        if (!v || !gradients(p, 1, &y, &v, p->create_graph, grads))
            break;
        for (size_t i = 0; i < n; i++)
            rows[i * count + k] = grads[i];
    }
    if (!br_failed())
        stack_rows(p, y, rows, jacobians);
    br_free(grads);
    return !br_failed();
}

br_tensor *br_jacobian(br_function f, void *context, int n, br_tensor *const *inputs,
                       br_tensor **jacobians, const br_functional_options *options)
{
    problem p = pose("jacobian", n, inputs, options);
    clear(n, jacobians);
    if (begin(&p, f, context) && jacobian_of(&p, p.y, jacobians))
        for (int i = 0; i < n; i++)
            jacobians[i] = return_tensor(&p, jacobians[i]);
    return end(&p, n, jacobians);
}

br_tensor *br_hessian(br_function f, void *context, int n, br_tensor *const *inputs,
                      br_tensor **hessians, const br_functional_options *options)
{
    problem p = pose("hessian", n, inputs, options);
    clear(n > 0 ? n * n : 0, hessians);
    bool ok = begin(&p, f, context);
    br_tensor **grads = ok ? br_calloc((size_t)n, sizeof *grads) : NULL;
    ok = grads && gradient_of_scalar(&p, grads);
    for (int i = 0; i < n && ok; i++)
        ok = !grads[i] || jacobian_of(&p, grads[i], hessians + i * n);
    for (int i = 0; i < n * n && ok; i++)
        hessians[i] = return_tensor(&p, hessians[i]);
    br_free(grads);
    return end(&p, n > 0 ? n * n : 0, hessians);
}
