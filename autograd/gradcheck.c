/* autograd/gradcheck.c - compares gradients with central differences. */
#include "autograd/tape.h"

#include <math.h>
#include <string.h>

BR_DEFINE_DEFAULTS(br_gradcheck)

typedef struct check {
    br_function f;
    void *context;
    int n_inputs;
    br_tensor *const *inputs;
    const char *const *names; /* of the inputs, for messages; may be NULL */
    br_gradcheck_options options;
    br_rng_state rng; /* state at the start of every evaluation, so that f may use random numbers */
    br_tensor *weights;  /* of the elements of f's result */
    char *weight_values; /* their elements in the host's memory */
} check;

/* Returns the input's name, or "input 2" in `buffer`. */
static const char *label(const check *c, int input, char *buffer, size_t size)
{
    if (c->names && c->names[input])
        return br_printable(c->names[input]);
    snprintf(buffer, size, "input %d", input);
    return buffer;
}

enum { LABEL = 32 };

/* Calls f with the generator in the state that it had when the check began. */
static br_tensor *evaluate(const check *c)
{
    br_set_rng_state(&c->rng);
    br_tensor *y = br_failed() ? NULL : c->f(c->inputs, c->n_inputs, c->context);
    if (!y && !br_failed())
        br_fail(BR_ERROR_ARGUMENT, "gradcheck", "the function returned NULL");
    return y;
}

/* Returns the i-th number in [-1, 1] of a separate generator (splitmix64). */
static double random_number(uint64_t seed, int64_t i)
{
    uint64_t z = seed + (uint64_t)(i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-52 - 1;
}

/* Makes random weights in [-1, 1], of y's shape. Returns false with an error if memory runs out. */
static bool make_weights(check *c, const br_tensor *y)
{
    const int64_t size = (int64_t)br__dtype_size(y->dtype);
    c->weight_values = br_malloc((size_t)(y->numel * size));
    for (int64_t i = 0; c->weight_values && i < y->numel; i++)
        br__put(y->dtype, c->weight_values + i * size, random_number(c->options.seed, i));
    if (c->weight_values)
        c->weights = br__placed("gradcheck", br__backend_of(y),
                                br_from_data(y->ndim, y->sizes, y->dtype, c->weight_values));
    return c->weights != NULL;
}

/* Computes sum(f(inputs) * weights). Recording is on, since f may itself compute gradients. */
static double weighted_sum(const check *c)
{
    br_scope *scope = br_scope_begin();
    br_tensor *y = evaluate(c);
    double sum = 0;
    if (y && !br__same_shape(y, c->weights)) {
        br_fail(BR_ERROR_SHAPE, "gradcheck",
                "the function returned shape %s at first, but %s later", br__shape(c->weights),
                br__shape(y));
        y = NULL;
    }
    const size_t size = y ? br__dtype_size(y->dtype) : 0, bytes = y ? (size_t)y->numel * size : 0;
    char *values = y ? br_malloc(bytes) : NULL;
    if (values && br_copy_out(y, values, bytes))
        for (size_t at = 0; at < bytes; at += size)
            sum += br__get(y->dtype, values + at) * br__get(y->dtype, c->weight_values + at);
    br_free(values);
    br_scope_end(scope);
    return br_failed() ? NAN : sum;
}

/* Sets an element and returns its value after rounding to the dtype. */
static double set_element(const br_tensor *x, const int64_t *index, double value)
{
    int64_t offset = 0;
    for (int d = 0; d < x->ndim; d++)
        offset += index[d] * x->strides[d];
    const br_tensor element = br__window_element(x, offset);
    br__set_number(&element, value);
    return br__rounded(x->dtype, value);
}

/* Moves `index` to the next element of x; after the last, it is all zeros again. */
static void step_index(const br_tensor *x, int64_t *index)
{
    for (int d = x->ndim - 1; d >= 0 && ++index[d] == x->sizes[d]; d--)
        index[d] = 0;
}

static bool is_close(const check *c, double got, double want)
{
    return fabs(got - want) <= c->options.atol + c->options.rtol * fabs(want);
}

/* The differences of the weighted sum when one element changes by eps. */
typedef struct differences {
    double central, left, right;
} differences;

/* Computes the central difference, and with `sides` the one-sided ones. Restores the element. */
static differences differences_of(const check *c, const br_tensor *x, const int64_t *index,
                                  double eps, bool sides)
{
    if (br_failed()) /* the element is not known */
        return (differences){ NAN, NAN, NAN };
    double value = br_at(x, x->ndim, index);
    double above = set_element(x, index, value + eps), high = weighted_sum(c);
    double below = set_element(x, index, value - eps), low = weighted_sum(c);
    set_element(x, index, value);
    differences d = { .central = (high - low) / (above - below) };
    if (sides) {
        double middle = weighted_sum(c);
        d.left = (middle - low) / (value - below);
        d.right = (high - middle) / (above - value);
    }
    return d;
}

/* Writes a hint if the function, rather than its gradient, explains the mismatch: with a smaller
 * eps there is none, or the gradient lies between one-sided differences that disagree, as at a kink
 * like that of relu() at 0. */
static const char *hint(const check *c, const br_tensor *x, const int64_t *index, double got,
                        char *text, size_t size)
{
    double smaller = c->options.eps / 100;
    differences d = differences_of(c, x, index, c->options.eps, true);
    text[0] = '\0';
    if (!br__is_narrow(x->dtype) &&
        is_close(c, got, differences_of(c, x, index, smaller, false).central))
        snprintf(text, size,
                 "; with eps = %.3g they agree, so the function may have a kink or be strongly "
                 "curved within %.3g of this element: use a smaller eps or another input",
                 smaller, c->options.eps);
    else if (!is_close(c, d.left, d.right) && fmin(d.left, d.right) - c->options.atol <= got &&
             got <= fmax(d.left, d.right) + c->options.atol)
        snprintf(text, size,
                 "; the differences from below (%.10g) and from above (%.10g) disagree, so the "
                 "function may have a kink here, where it has no derivative: use another input",
                 d.left, d.right);
    return text;
}

/* A mismatch is a warning if the options say so, so that the program can go on. */
static br_error severity(const check *c)
{
    return c->options.raise_exception ? BR_ERROR_STATE : BR_WARNING;
}

/* Compares one element's gradient with the central difference. */
static bool check_element(const check *c, int input, const br_tensor *grad, const int64_t *index)
{
    const br_tensor *x = c->inputs[input];
    double want = differences_of(c, x, index, c->options.eps, false).central;
    if (br_failed())
        return false;
    double got = grad ? br_at(grad, x->ndim, index) : 0;
    if (is_close(c, got, want))
        return true;
    char text[LABEL], advice[320];
    hint(c, x, index, got, advice, sizeof advice);
    br_fail(severity(c), "gradcheck",
            "%s, element %s: gradient %.10g and central difference %.10g differ by %.3g, but at "
            "most %.3g + %.3g * |central difference| is allowed%s",
            label(c, input, text, sizeof text), br__shape_of(x->ndim, index), got, want,
            fabs(got - want), c->options.atol, c->options.rtol, advice);
    return false;
}

static bool check_input(const check *c, int input, const br_tensor *grad)
{
    const br_tensor *x = c->inputs[input];
    int64_t index[BR_MAX_DIMS] = { 0 };
    for (int64_t i = 0; i < x->numel; i++) {
        if (!check_element(c, input, grad, index))
            return false;
        step_index(x, index);
    }
    return true;
}

/* ---- The fast mode --------------------------------------------------------------------------- */

/* Sets every element of x to its value in `values` plus eps times its direction. Returns the sum of
 * the gradient times the steps that were made, which rounding may have changed. */
static double move(const br_tensor *x, const br_tensor *grad, const double *values,
                   const double *direction, double eps)
{
    int64_t index[BR_MAX_DIMS] = { 0 };
    double sum = 0;
    for (int64_t i = 0; i < x->numel; i++) {
        double at = set_element(x, index, values[i] + eps * direction[i]);
        sum += grad ? (at - values[i]) * br_at(grad, x->ndim, index) : 0;
        step_index(x, index);
    }
    return sum;
}

/* Fills `values` with the elements of x, and `direction` with a random vector of length 1. Returns
 * the sum of its absolute values. */
static double choose_direction(const check *c, const br_tensor *x, double *values,
                               double *direction)
{
    int64_t index[BR_MAX_DIMS] = { 0 };
    double squares = 0, sum = 0;
    for (int64_t i = 0; i < x->numel; i++) {
        values[i] = br_at(x, x->ndim, index);
        direction[i] = random_number(~c->options.seed, i);
        squares += direction[i] * direction[i];
        sum += fabs(direction[i]);
        step_index(x, index);
    }
    double length = squares > 0 ? sqrt(squares) : 1;
    for (int64_t i = 0; i < x->numel; i++)
        direction[i] /= length;
    return sum / length;
}

/* Compares the derivative of the weighted sum along one random direction of the input. The absolute
 * tolerance is that of an element times the sum of the direction's absolute values, as errors of
 * elements may add up. If the derivatives differ, compares the elements to name one that does. */
static bool check_direction(const check *c, int input, const br_tensor *grad)
{
    const br_tensor *x = c->inputs[input];
    double *values = br_malloc(2 * (size_t)x->numel * sizeof *values);
    if (!values || x->numel == 0) {
        br_free(values);
        return !br_failed();
    }
    double *direction = values + x->numel, eps = c->options.eps;
    double sum = choose_direction(c, x, values, direction);
    double up = move(x, grad, values, direction, eps), high = weighted_sum(c);
    double down = move(x, grad, values, direction, -eps), low = weighted_sum(c);
    move(x, NULL, values, direction, 0);
    br_free(values);
    double got = (up - down) / (2 * eps), want = (high - low) / (2 * eps);
    double difference = fabs(got - want);
    if (br_failed() || difference <= c->options.atol * sum + c->options.rtol * fabs(want))
        return !br_failed();
    if (!check_input(c, input, grad))
        return false;
    char text[LABEL];
    br_fail(severity(c), "gradcheck",
            "%s: along a random direction, gradient %.10g and central difference %.10g differ by "
            "%.3g, but at most %.3g + %.3g * |central difference| is allowed",
            label(c, input, text, sizeof text), got, want, difference, c->options.atol * sum,
            c->options.rtol);
    return false;
}

/* ---- The check ------------------------------------------------------------------------------- */

static bool check_inputs(const check *c)
{
    if (!c->f || c->n_inputs <= 0 || !c->inputs) {
        br_fail(BR_ERROR_ARGUMENT, "gradcheck", "a function and at least one input are required");
        return false;
    }
    for (int i = 0; i < c->n_inputs; i++) {
        const br_tensor *x = c->inputs[i];
        char text[LABEL];
        if (!br_requires_grad(x))
            continue;
        if (!br_is_leaf(x)) {
            br_fail(BR_ERROR_ARGUMENT, "gradcheck", "%s %s must be a leaf",
                    label(c, i, text, sizeof text), br__shape(x));
            return false;
        }
        if (br__is_narrow(x->dtype) && !c->options.allow_f32) {
            br_fail(BR_ERROR_DTYPE, "gradcheck",
                    "%s %s is f32, whose rounding hides wrong gradients: use f64, or set "
                    "allow_f32 with a larger eps and tolerances",
                    label(c, i, text, sizeof text), br__shape(x));
            return false;
        }
    }
    return true;
}

/* Computes the gradients by autograd. The entries for inputs that do not require grad, or that the
 * result does not depend on, stay NULL. */
static bool tape_gradients(check *c, br_tensor **grads, br_tensor **requested)
{
    br_tensor *y = evaluate(c);
    if (!y || !br__floating("gradcheck", "the function's result", y))
        return false;
    int n = 0;
    for (int i = 0; i < c->n_inputs; i++)
        if (br_requires_grad(c->inputs[i]))
            requested[n++] = c->inputs[i];
    if (!make_weights(c, y) || n == 0 || !br_requires_grad(y))
        return !br_failed();
    if (!br_grad(1, &y, n, requested, grads,
                 BR_OPTIONS(br_grad, .gradients = &c->weights, .allow_unused = true)))
        return false;
    for (int i = c->n_inputs - 1, k = n - 1; i >= 0; i--) /* move to the input's index */
        grads[i] = br_requires_grad(c->inputs[i]) ? grads[k--] : NULL;
    return true;
}

bool br_gradcheck(br_function f, void *context, int n_inputs, br_tensor *const *inputs,
                  const br_gradcheck_options *options)
{
    return br__gradcheck(f, context, n_inputs, inputs, NULL, options);
}

bool br__gradcheck(br_function f, void *context, int n_inputs, br_tensor *const *inputs,
                   const char *const *names, const br_gradcheck_options *options)
{
    if (br_failed())
        return false;
    check c = {
        .f = f, .context = context, .n_inputs = n_inputs, .inputs = inputs, .names = names
    };
    c.options = *BR_OPTIONS_OF("gradcheck", br_gradcheck, options);
    if (!check_inputs(&c))
        return false;
    br_get_rng_state(&c.rng);
    br_tensor **grads = br_calloc(2 * (size_t)n_inputs, sizeof *grads);
    if (!grads)
        return false;
    br_scope *scope = br_enable_grad_begin();
    bool ok = tape_gradients(&c, grads, grads + n_inputs);
    for (int i = 0; ok && i < n_inputs; i++)
        if (br_requires_grad(inputs[i]))
            ok = c.options.fast_mode ? check_direction(&c, i, grads[i])
                                     : check_input(&c, i, grads[i]);
    br_scope_end(scope);
    br_free(c.weight_values);
    br_free(grads);
    return ok && !br_failed();
}
