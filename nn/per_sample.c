/* nn/per_sample.c - gradients of single samples: hooks keep the input and the result of each call
 * of a layer, one backward pass gives the gradients of the results, and per_sample_rules.c computes
 * the gradients of the parameters. */
#include "nn/per_sample.h"

#include "autograd/tape.h"

#include <inttypes.h>
#include <string.h>

BR_DEFINE_DEFAULTS(br_per_sample)

static const char op[] = "per_sample_grad";

/* A layer with a rule. */
typedef struct layer {
    br_module_state *state;
    const br_sample_rule *rule;
    uint64_t pre_hook, hook;
    br_tensor *input; /* of the call that runs */
    struct run *run;
} layer;

/* One call; x and its result y are owned. */
typedef struct seen_call {
    const layer *layer;
    br_tensor *x, *y;
    uint64_t x_version, y_version;
} seen_call;

/* A parameter that requires grad. */
typedef struct parameter {
    const char *name;
    br_tensor *tensor, *grad; /* grad [batch, ...]; NULL until a call contributes */
    int64_t calls, uses;      /* of layers that have it, and in the graph */
} parameter;

typedef struct run {
    int64_t batch;
    double scale; /* of the gradients of the results */
    layer *layers;
    int64_t n_layers, layer_capacity;
    seen_call *calls;
    int64_t n_calls, call_capacity;
    br_named_list *names;
    parameter *parameters;
} run;

/* ---- Calls of layers ------------------------------------------------------------------------- */

static br_tensor *keep_input(br_module *module, br_tensor *x, void *context)
{
    (void)module;
    ((layer *)context)->input = x;
    return NULL;
}

enum { PATH = 256 };

/* Returns the path of a layer in its model, for messages. */
static const char *path_of(const layer *l, char *path)
{
    return br_module_path(l->state->module, path, PATH) && *path ? path : "the module";
}

static br_tensor *keep_call(br_module *module, br_tensor *y, void *context)
{
    (void)module;
    layer *l = context;
    run *r = l->run;
    br_tensor *x = l->input;
    char path[PATH];
    l->input = NULL;
    if (!x)
        return br_fail(BR_ERROR_STATE, op, "%s, a %s, was entered without its input",
                       path_of(l, path), l->rule->class_name);
    if (x->ndim < l->rule->min_dims || x->sizes[0] != r->batch)
        return br_fail(BR_ERROR_SHAPE, op,
                       "the input of %s, a %s, is %s, must have at least %d dimensions, of which "
                       "the first is the batch of %" PRId64,
                       path_of(l, path), l->rule->class_name, br__shape(x), l->rule->min_dims,
                       r->batch);
    seen_call *grown = br__grow(r->calls, &r->call_capacity, r->n_calls, sizeof *r->calls);
    if (!grown)
        return NULL;
    r->calls = grown;
    r->calls[r->n_calls++] = (seen_call){ .layer = l,
                                          .x = br_retain(x),
                                          .y = br_retain(y),
                                          .x_version = br_tensor_version(x),
                                          .y_version = br_tensor_version(y) };
    return NULL;
}

static bool is_trained(const br_module_state *state)
{
    for (int64_t i = 0; i < state->n_entries; i++)
        if (state->entries[i].kind == BR_ENTRY_PARAMETER && state->entries[i].tensor &&
            br_requires_grad(state->entries[i].tensor))
            return true;
    return false;
}

static void add_layer(br_module *module, void *context)
{
    run *r = context;
    br_module_state *state = module->state;
    const br_sample_rule *rule = br__sample_rule(state);
    if (br_failed())
        return;
    if (strncmp(state->class_name, "BatchNorm", 9) == 0 && state->training) {
        br_fail(BR_ERROR_ARGUMENT, op,
                "%s mixes the samples of a batch in training mode, so that they have no gradients "
                "of their own: use GroupNorm, or br_eval()",
                state->class_name);
        return;
    }
    if (!rule || !is_trained(state))
        return;
    layer *grown = br__grow(r->layers, &r->layer_capacity, r->n_layers, sizeof *r->layers);
    if (!grown)
        return;
    r->layers = grown;
    r->layers[r->n_layers++] = (layer){ .state = state, .rule = rule, .run = r };
}

/* Adds the hooks. The layers stay where they are from now on. */
static bool begin(run *r, br_module *module)
{
    br_module_apply(module, add_layer, r);
    for (int64_t i = 0; i < r->n_layers && !br_failed(); i++) {
        layer *l = &r->layers[i];
        br_module *m = l->state->module;
        l->pre_hook = br_module_register_forward_pre_hook(m, keep_input, l);
        l->hook = br__register_result_hook(m, keep_call, l);
    }
    return !br_failed();
}

static void end_hooks(run *r)
{
    for (int64_t i = 0; i < r->n_layers; i++) {
        br_module *m = r->layers[i].state->module;
        if (r->layers[i].pre_hook)
            br_module_remove_hook(m, r->layers[i].pre_hook);
        if (r->layers[i].hook)
            br_module_remove_hook(m, r->layers[i].hook);
    }
}

static void end(run *r)
{
    for (int64_t i = 0; i < r->n_calls; i++) {
        br_release(r->calls[i].x);
        br_release(r->calls[i].y);
    }
    br_free(r->calls);
    br_free(r->layers);
    br_free(r->parameters);
    br_named_list_free(r->names);
}

/* ---- Parameters ------------------------------------------------------------------------------ */

static bool list_parameters(run *r, br_module *module)
{
    r->names = br__collect(op, module, 0);
    r->parameters = r->names ? br_calloc((size_t)r->names->count + 1, sizeof *r->parameters) : NULL;
    if (!r->parameters)
        return false;
    for (int64_t i = 0; i < r->names->count; i++)
        r->parameters[i] =
            (parameter){ .name = r->names->items[i].name, .tensor = r->names->items[i].tensor };
    return true;
}

static parameter *find_parameter(const run *r, const br_tensor *t)
{
    for (int64_t i = 0; i < r->names->count; i++)
        if (r->parameters[i].tensor == t)
            return &r->parameters[i];
    return NULL;
}

static void count_use(br_tensor *leaf, void *context)
{
    parameter *p = find_parameter(context, leaf);
    if (p)
        p->uses++;
}

/* Checks that only calls of layers with rules use the parameters, and that no call's input or
 * result was changed since. */
static bool check_calls(run *r, br_tensor *loss)
{
    char path[PATH];
    for (int64_t i = 0; i < r->n_calls; i++) {
        const seen_call *c = &r->calls[i];
        const br_module_state *state = c->layer->state;
        if (br_tensor_version(c->x) != c->x_version || br_tensor_version(c->y) != c->y_version)
            return br_fail(BR_ERROR_STATE, op,
                           "the input or the result of %s, a %s, was changed in place",
                           path_of(c->layer, path), state->class_name);
        for (int64_t k = 0; k < state->n_entries; k++) {
            parameter *p = find_parameter(r, state->entries[k].tensor);
            if (p)
                p->calls++;
        }
    }
    if (!br__visit_leaves(loss, count_use, r))
        return false;
    for (int64_t i = 0; i < r->names->count; i++) {
        const parameter *p = &r->parameters[i];
        if (p->uses > p->calls)
            return br_fail(BR_ERROR_ARGUMENT, op,
                           "%s is used %" PRId64 " times, but only %" PRId64
                           " times by a layer of a class that is supported: freeze it with "
                           "br_module_requires_grad(), or use such a layer",
                           p->name, p->uses, p->calls);
    }
    return true;
}

/* ---- Gradients ------------------------------------------------------------------------------- */

static void add_gradients(run *r, const seen_call *c, br_tensor *dy)
{
    /* Under autocast, x may have another dtype than the result. */
    br_tensor *x = br_detach(c->x);
    br_sample_call call = { .layer = c->layer->state,
                            .rule = c->layer->rule,
                            .x = br_is_floating(x) ? br_to(x, dy->dtype) : x,
                            .dy = r->scale == 1 ? dy : br_mul_scalar(dy, r->scale) };
    for (int64_t i = 0; i < call.layer->n_entries && !br_failed(); i++) {
        parameter *p = find_parameter(r, call.layer->entries[i].tensor);
        if (!p || !br_requires_grad(p->tensor))
            continue;
        br_tensor *grad = br_to(br__sample_grad(&call, &call.layer->entries[i]), p->tensor->dtype);
        p->grad = p->grad ? br_add(p->grad, grad) : grad;
    }
}

/* Computes the gradients of the results in one pass, then the gradients of the parameters. */
static bool differentiate(run *r, br_tensor *loss)
{
    const size_t n = (size_t)r->n_calls;
    br_tensor **y = br_malloc((2 * n + 1) * sizeof *y);
    if (!y)
        return false;
    for (size_t i = 0; i < n; i++)
        y[i] = r->calls[i].y;
    if (n > 0)
        br_grad(1, &loss, (int)n, y, y + n, BR_OPTIONS(br_grad, .allow_unused = true));
    br_scope *scope = br_no_grad_begin();
    for (size_t i = 0; i < n && !br_failed(); i++)
        if (y[n + i])
            add_gradients(r, &r->calls[i], y[n + i]);
    for (int64_t i = 0; i < r->names->count; i++)
        r->parameters[i].grad = br_scope_return(scope, r->parameters[i].grad);
    br_scope_end(scope);
    br_free(y);
    return !br_failed();
}

static br_named_list *list_gradients(const run *r)
{
    br_named_list *list = br__named_list_new(true);
    bool ok = list != NULL;
    for (int64_t i = 0; ok && i < r->names->count; i++)
        if (r->parameters[i].grad)
            ok = br__named_list_add(list, r->parameters[i].name, r->parameters[i].grad);
    if (ok)
        return list;
    br_named_list_free(list);
    return NULL;
}

/* Finds the size of the batch. Returns false and an error if there is none. */
static bool find_batch(run *r, const br_per_sample_options *o, int n_inputs,
                       br_tensor *const *inputs)
{
    const bool given = o->batch_size != BR_NONE;
    const br_tensor *first = !given && n_inputs > 0 && inputs ? inputs[0] : NULL;
    if (o->loss_reduction != BR_REDUCTION_SUM && o->loss_reduction != BR_REDUCTION_MEAN)
        return br_fail(BR_ERROR_ARGUMENT, op,
                       "loss_reduction is %d, must be BR_REDUCTION_SUM or BR_REDUCTION_MEAN",
                       (int)o->loss_reduction);
    if (!given && (!first || !br__required_any(op, "inputs[0]", first) || first->ndim == 0))
        return !br_failed() && br_fail(BR_ERROR_ARGUMENT, op,
                                       "the first input has no first dimension: set batch_size");
    r->batch = given ? o->batch_size : first->sizes[0];
    r->scale = o->loss_reduction == BR_REDUCTION_MEAN ? (double)r->batch : 1;
    if (r->batch < 1)
        return br_fail(BR_ERROR_ARGUMENT, op, "batch_size is %" PRId64 ", must be at least 1",
                       r->batch);
    return true;
}

br_named_list *br_per_sample_grad(br_module *module, br_function f, void *context, int n_inputs,
                                  br_tensor *const *inputs, const br_per_sample_options *options)
{
    const br_per_sample_options *o = BR_OPTIONS_OF(op, br_per_sample, options);
    run r = { 0 };
    if (br_failed() || !br_module_is_usable(op, module))
        return NULL;
    if (!f)
        return br_fail(BR_ERROR_ARGUMENT, op, "f is NULL, but it is required");
    if (!find_batch(&r, o, n_inputs, inputs))
        return NULL;
    br_scope *scope = br_enable_grad_begin();
    br_tensor *loss = NULL;
    if (scope && list_parameters(&r, module) && begin(&r, module))
        loss = f(inputs, n_inputs, context);
    end_hooks(&r);
    if (loss && !br_failed() && loss->numel != 1)
        br_fail(BR_ERROR_SHAPE, op, "the loss is %s, must have one element", br__shape(loss));
    br_named_list *list = NULL;
    if (br__required(op, "the result of f", loss) && check_calls(&r, loss) &&
        differentiate(&r, loss))
        list = list_gradients(&r);
    end(&r);
    br_scope_end(scope);
    return list;
}
