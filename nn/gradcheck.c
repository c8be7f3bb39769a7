/* nn/gradcheck.c - compares the gradients of a module with central differences. */
#include "autograd/tape.h"
#include "nn/nn_internal.h"

#include <limits.h>

typedef struct checked {
    br_module *module;
    br_function f;
    void *context;
    int n_inputs;
} checked;

/* Runs the module on its inputs. Does not pass on its parameters, which follow the inputs in the
 * list. */
static br_tensor *run(br_tensor *const *inputs, int n, void *context)
{
    const checked *c = context;
    (void)n;
    return c->f ? c->f(inputs, c->n_inputs, c->context) : br_forward(c->module, inputs[0]);
}

static bool check_all(checked *c, br_tensor *const *inputs, const br_named_list *parameters,
                      const br_gradcheck_options *options)
{
    size_t n = (size_t)c->n_inputs + (size_t)parameters->count;
    br_tensor **all = br_malloc(n * sizeof *all);
    const char **names = br_calloc(n, sizeof *names);
    for (int i = 0; all && i < c->n_inputs; i++)
        all[i] = inputs[i];
    for (int64_t i = 0; all && names && i < parameters->count; i++) {
        all[c->n_inputs + i] = parameters->items[i].tensor;
        names[c->n_inputs + i] = parameters->items[i].name;
    }
    bool ok = all && names && br__gradcheck(run, c, (int)n, all, names, options);
    br_free(all);
    br_free(names);
    return ok;
}

bool br_module_gradcheck(br_module *module, br_function f, void *context, int n_inputs,
                         br_tensor *const *inputs, const br_gradcheck_options *options)
{
    const char *op = "module_gradcheck";
    br_named_list *parameters = br__collect(op, module, 0);
    if (!parameters)
        return false;
    checked c = { module, f, context, n_inputs };
    bool ok = false;
    if (n_inputs < 0 || parameters->count > INT_MAX - n_inputs)
        br_fail(BR_ERROR_ARGUMENT, op, "n_inputs is %d, must not be negative", n_inputs);
    else if (!f && n_inputs != 1)
        br_fail(BR_ERROR_ARGUMENT, op, "got %d inputs, but br_forward() takes one: pass a function",
                n_inputs);
    else if (n_inputs == 0 || br__required(op, "inputs", inputs))
        ok = check_all(&c, inputs, parameters, options);
    br_named_list_free(parameters);
    return ok;
}
