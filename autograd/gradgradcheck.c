/* autograd/gradgradcheck.c - compares gradients of gradients with central differences. */
#include "autograd/tape.h"
#include "tensor/random_internal.h"

/* The gradient of f with respect to one input, as a function of f's inputs followed by the gradient
 * of f's result. */
typedef struct derivative {
    br_function f;
    void *context;
    int input;
} derivative;

static br_tensor *gradient(br_tensor *const *inputs, int n, void *context)
{
    const derivative *d = context;
    br_tensor *y = d->f(inputs, n - 1, d->context), *grad = NULL;
    br_tensor *v = inputs[n - 1];
    const br_grad_options *o =
        BR_OPTIONS(br_grad, .gradients = &v, .create_graph = true, .materialize_grads = true);
    if (y && !br_requires_grad(y)) /* the result does not depend on the inputs */
        return br_zeros_like(inputs[d->input]);
    return y && br_grad(1, &y, 1, &inputs[d->input], &grad, o) ? grad : NULL;
}

/* Returns the function's result, whose shape the caller needs. Restores the generator's state, so
 * that the check uses the same random numbers. */
static br_tensor *result_of(br_function f, void *context, int n, br_tensor *const *inputs)
{
    br_rng_state state;
    br_get_rng_state(&state);
    br_tensor *y = f(inputs, n, context);
    if (!y && !br_failed())
        br_fail(BR_ERROR_ARGUMENT, "gradgradcheck", "the function returned NULL");
    br_set_rng_state(&state);
    return br_failed() ? NULL : y;
}

/* Returns a random gradient in [-1, 1] that requires grad. */
static br_tensor *random_like(const br_tensor *y, uint64_t seed)
{
    br_rng_state state;
    br_get_rng_state(&state);
    br_manual_seed(seed);
    br_tensor *v = br__uniform_(br_empty_like(y), -1, 1);
    br_set_rng_state(&state);
    return v ? br_set_requires_grad(v, true) : NULL;
}

static bool check_all(derivative *d, int n, br_tensor *const *inputs, br_tensor *v,
                      const br_gradcheck_options *options)
{
    br_tensor **all = br_calloc((size_t)n + 1, sizeof *all);
    if (!all)
        return false;
    for (int i = 0; i < n; i++)
        all[i] = inputs[i];
    all[n] = v;
    bool ok = true;
    for (int i = 0; i < n && ok; i++) {
        d->input = i;
        if (br_requires_grad(inputs[i]))
            ok = br_gradcheck(gradient, d, n + 1, all, options);
    }
    br_free(all);
    return ok;
}

bool br_gradgradcheck(br_function f, void *context, int n_inputs, br_tensor *const *inputs,
                      const br_gradcheck_options *options)
{
    if (br_failed())
        return false;
    if (!f || n_inputs <= 0 || !inputs) {
        br_fail(BR_ERROR_ARGUMENT, "gradgradcheck",
                "a function and at least one input are required");
        return false;
    }
    options = BR_OPTIONS_OF("gradgradcheck", br_gradcheck, options);
    derivative d = { .f = f, .context = context };
    br_scope *scope = br_enable_grad_begin();
    bool ok = true;
    br_tensor *y = result_of(f, context, n_inputs, inputs);
    if (y && br__floating("gradgradcheck", "the function's result", y) && br_requires_grad(y)) {
        br_tensor *v = random_like(y, options->seed);
        ok = v && check_all(&d, n_inputs, inputs, v, options);
    }
    br_scope_end(scope);
    return ok && !br_failed();
}
