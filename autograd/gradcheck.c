/* autograd/gradcheck.c - gradients against central differences. */
#include "autograd/tape.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct check {
    br_function f;
    void *context;
    int n_inputs;
    br_tensor *const *inputs;
    br_gradcheck_options options;
    br_rng_state rng; /* every evaluation starts from it, so that f may draw */
    br_tensor *weights;
} check;

/* Calls f with the generator as it was when the check began. */
static br_tensor *evaluate(const check *c)
{
    br_set_rng_state(&c->rng);
    br_tensor *y = br_failed() ? NULL : c->f(c->inputs, c->n_inputs, c->context);
    if (!y && !br_failed())
        br__fail(BR_ERROR_ARGUMENT, "gradcheck", "the function returned NULL");
    return y;
}

/* Random weights in [-1, 1] of y's shape, from a generator of their own (splitmix64). */
static br_tensor *draw_weights(const br_tensor *y, uint64_t seed)
{
    br_tensor *w = br__new("gradcheck", y->ndim, y->sizes, y->dtype);
    for (int64_t i = 0; w && i < w->numel; i++) {
        uint64_t z = seed + (uint64_t)(i + 1) * UINT64_C(0x9e3779b97f4a7c15);
        z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
        double u = (double)((z ^ (z >> 31)) >> 11) * 0x1p-52 - 1;
        if (w->dtype == BR_F64)
            ((double *)(void *)w->data)[i] = u;
        else
            ((float *)(void *)w->data)[i] = (float)u;
    }
    return w;
}

/* sum(f(inputs) * weights). Recorded, since f may itself take gradients. */
static double weighted_sum(const check *c)
{
    br_scope *scope = br_scope_begin();
    br_tensor *y = evaluate(c);
    double sum = 0;
    if (y && !br_same_shape(y, c->weights)) {
        br__fail(BR_ERROR_SHAPE, "gradcheck", "the function returned shapes %s and %s",
                 br__shape(c->weights), br__shape(y));
        y = NULL;
    }
    size_t bytes = y ? (size_t)y->numel * sizeof(double) : 0;
    double *values = y ? br__malloc(bytes) : NULL;
    if (values && y->dtype == BR_F64) {
        br_copy_out(y, values, bytes);
        for (int64_t i = 0; i < y->numel; i++)
            sum += values[i] * ((double *)(void *)c->weights->data)[i];
    } else if (values) {
        float *narrow = (float *)(void *)values;
        br_copy_out(y, narrow, bytes / 2);
        for (int64_t i = 0; i < y->numel; i++)
            sum += (double)narrow[i] * (double)((float *)(void *)c->weights->data)[i];
    }
    br_free(values);
    br_scope_end(scope);
    return br_failed() ? NAN : sum;
}

/* Sets an element and gives what it really became. */
static double set_element(const br_tensor *t, char *p, double value)
{
    if (t->dtype == BR_F64)
        return *(double *)(void *)p = value;
    *(float *)(void *)p = (float)value;
    return (double)*(float *)(void *)p;
}

static double get_element(const br_tensor *t, const char *p)
{
    return t->dtype == BR_F64 ? *(const double *)(const void *)p
                              : (double)*(const float *)(const void *)p;
}

/* Compares one element's gradient with the central difference. */
static bool check_element(const check *c, int input, const br_tensor *grad, const int64_t *index)
{
    const br_tensor *x = c->inputs[input];
    char *p = x->data;
    for (int d = 0; d < x->ndim; d++)
        p += index[d] * x->strides[d] * (int64_t)br_dtype_size(x->dtype);
    double value = get_element(x, p);
    double above = set_element(x, p, value + c->options.eps), high = weighted_sum(c);
    double below = set_element(x, p, value - c->options.eps), low = weighted_sum(c);
    set_element(x, p, value);
    if (br_failed())
        return false;
    double want = (high - low) / (above - below);
    double got = grad ? br_at(grad, x->ndim, index) : 0;
    double difference = fabs(got - want);
    if (difference <= c->options.atol + c->options.rtol * fabs(want))
        return true;
    br__fail(BR_ERROR_STATE, "gradcheck",
             "input %d, element %s: gradient %.10g, central difference %.10g, they differ by %.3g "
             "where %.3g + %.3g |difference| is allowed",
             input, br__shape_of(x->ndim, index), got, want, difference, c->options.atol,
             c->options.rtol);
    return false;
}

static bool check_input(const check *c, int input, const br_tensor *grad)
{
    const br_tensor *x = c->inputs[input];
    int64_t index[BR_MAX_DIMS] = { 0 };
    for (int64_t i = 0; i < x->numel; i++) {
        if (!check_element(c, input, grad, index))
            return false;
        for (int d = x->ndim - 1; d >= 0 && ++index[d] == x->sizes[d]; d--)
            index[d] = 0;
    }
    return true;
}

static bool check_inputs(const check *c)
{
    if (!c->f || c->n_inputs <= 0 || !c->inputs) {
        br__fail(BR_ERROR_ARGUMENT, "gradcheck", "a function and at least one input are required");
        return false;
    }
    for (int i = 0; i < c->n_inputs; i++) {
        const br_tensor *x = c->inputs[i];
        if (!br_requires_grad(x))
            continue;
        if (!br_is_leaf(x)) {
            br__fail(BR_ERROR_ARGUMENT, "gradcheck", "input %d %s must be a leaf", i, br__shape(x));
            return false;
        }
        if (x->dtype == BR_F32 && !c->options.allow_f32) {
            br__fail(BR_ERROR_DTYPE, "gradcheck",
                     "input %d %s is f32, whose rounding hides wrong gradients: use f64, or set "
                     "allow_f32 with a larger eps and tolerances",
                     i, br__shape(x));
            return false;
        }
    }
    return true;
}

/* The gradients by the tape; those of inputs that ask for none, or on which nothing depends, stay
 * NULL. */
static bool tape_gradients(check *c, br_tensor **grads, br_tensor **wanted)
{
    br_tensor *y = evaluate(c);
    if (!y || !br__floating("gradcheck", "the function's result", y))
        return false;
    c->weights = draw_weights(y, c->options.seed);
    int n = 0;
    for (int i = 0; i < c->n_inputs; i++)
        if (br_requires_grad(c->inputs[i]))
            wanted[n++] = c->inputs[i];
    if (!c->weights || n == 0 || !br_requires_grad(y))
        return !br_failed();
    br_grad_options options = { .gradients = &c->weights, .allow_unused = true };
    if (!br_grad(1, &y, n, wanted, grads, &options))
        return false;
    for (int i = c->n_inputs - 1, k = n - 1; i >= 0; i--) /* from the wanted to their places */
        grads[i] = br_requires_grad(c->inputs[i]) ? grads[k--] : NULL;
    return true;
}

bool br_gradcheck(br_function f, void *context, int n_inputs, br_tensor *const *inputs,
                  const br_gradcheck_options *options)
{
    if (br_failed())
        return false;
    check c = { .f = f, .context = context, .n_inputs = n_inputs, .inputs = inputs };
    if (options)
        c.options = *options;
    if (!(c.options.eps > 0))
        c.options.eps = 1e-6;
    if (!(c.options.atol > 0))
        c.options.atol = 1e-7;
    if (!(c.options.rtol > 0))
        c.options.rtol = 1e-5;
    if (!check_inputs(&c))
        return false;
    br_get_rng_state(&c.rng);
    br_tensor **grads = br__calloc(2 * (size_t)n_inputs, sizeof *grads);
    if (!grads)
        return false;
    br_scope *scope = br_enable_grad_begin();
    bool ok = tape_gradients(&c, grads, grads + n_inputs);
    for (int i = 0; ok && i < n_inputs; i++)
        if (br_requires_grad(inputs[i]))
            ok = check_input(&c, i, grads[i]);
    br_scope_end(scope);
    br_free(grads);
    return ok && !br_failed();
}
