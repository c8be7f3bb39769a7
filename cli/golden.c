/* cli/golden.c - checks a golden-1 file: reads its metadata, builds and runs the model that it
 * names, and compares the results.
 *
 * Every failure becomes the thread's pending error, so one check at the end is enough. */
#include "cli/cli.h"
#include "cli/golden_run.h"
#include "io/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const golden_model *const tables[] = {
    golden_anatomy_models, golden_architecture_models, golden_bert_models,
    golden_nn_models,      golden_vanilla_models,
};

static const golden_model *find_model(const char *name)
{
    char names[2048] = "";
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        for (const golden_model *model = tables[i]; model->name; model++) {
            if (strcmp(model->name, name) == 0)
                return model;
            cli_list(names, sizeof names, model->name);
        }
    br_raise(BR_ERROR_ARGUMENT, "unknown model '%s', must be one of %s%s", name, names,
             cli_suggestion(name, names));
    return NULL;
}

/* ---- Metadata -------------------------------------------------------------------------------- */

static const char *metadata(golden_run *run, const char *key)
{
    const char *value = br_safetensors_metadata(run->file, key);
    if (!value)
        br_raise(BR_ERROR_FORMAT, "the file's metadata has no '%s'", key);
    return value;
}

/* Returns the JSON value of a key, which must have the given type; an empty one if there is no such
 * key. */
static json_t *metadata_json(golden_run *run, const char *key, json_type type)
{
    const char *text = br_safetensors_metadata(run->file, key);
    if (!text)
        return type == JSON_OBJECT ? json_object() : json_array();
    json_error_t error = { .text = "" };
    json_t *json = br__json_parse("golden", key, text, strlen(text), &error);
    if (!json)
        br_raise(BR_ERROR_FORMAT, "metadata '%s': %s", key, error.text);
    else if (json_typeof(json) != type)
        br_raise(BR_ERROR_FORMAT, "metadata '%s' must be a JSON %s", key,
                 type == JSON_OBJECT ? "object" : "array");
    return json;
}

static double metadata_number(golden_run *run, const char *key)
{
    const char *text = metadata(run, key);
    char *end = NULL;
    double value = text ? strtod(text, &end) : 0;
    if (text && (end == text || *end || !(value >= 0) || isinf(value)))
        br_raise(BR_ERROR_FORMAT, "metadata '%s' is '%s', must be a finite number >= 0", key, text);
    return value;
}

/* Gets the integer of a metadata key; returns false if there is no such key, or on error. */
static bool metadata_integer(golden_run *run, const char *key, int64_t *value)
{
    const char *text = br_safetensors_metadata(run->file, key);
    char *end = NULL;
    if (text)
        *value = strtoll(text, &end, 10);
    if (text && (end == text || *end))
        br_raise(BR_ERROR_FORMAT, "metadata '%s' is '%s', must be an integer", key, text);
    return text && !br_failed();
}

static void read_metadata(golden_run *run)
{
    const char *format = metadata(run, "format"), *mode = metadata(run, "mode");
    const char *name = metadata(run, "model");
    if (br_failed())
        return;
    if (strcmp(format, "golden-1") != 0)
        br_raise(BR_ERROR_FORMAT, "the file's format is '%s', must be 'golden-1'", format);
    if (strcmp(mode, "eval") != 0 && strcmp(mode, "train") != 0)
        br_raise(BR_ERROR_FORMAT, "the file's mode is '%s', must be 'eval' or 'train'", mode);
    run->training = strcmp(mode, "train") == 0;
    run->model = find_model(name);
    run->loss = golden_find_loss(metadata(run, "loss"));
    run->config = metadata_json(run, "config", JSON_OBJECT);
    run->tol = metadata_json(run, "tol", JSON_OBJECT);
    run->init = metadata_json(run, "init", JSON_OBJECT);
    run->optimizer = metadata_json(run, "optimizer", JSON_OBJECT);
    run->loss_of = metadata_json(run, "loss_of", JSON_ARRAY);
    run->no_grad = metadata_json(run, "no_grad", JSON_ARRAY);
    run->noise = metadata_json(run, "noise", JSON_ARRAY);
    run->rtol = metadata_number(run, "rtol");
    run->atol = metadata_number(run, "atol");
    run->fresh_random = metadata_integer(run, "fresh_seed", &run->fresh_seed);
    metadata_integer(run, "ignore_index", &run->ignore_index);
    run->trajectory = br_safetensors_has(run->file, "losses");
}

static void free_run(golden_run *run)
{
    json_t *values[] = { run->config,  run->tol,     run->init, run->optimizer,
                         run->loss_of, run->no_grad, run->noise };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        json_decref(values[i]);
    br_optim_free(run->optim);
    br_module_free(run->module);
    br_safetensors_close(run->file);
}

/* Returns whether an array of strings contains `name`. */
static bool listed(const json_t *array, const char *name)
{
    size_t i;
    json_t *item;
    json_array_foreach(array, i, item)
    {
        if (json_is_string(item) && strcmp(json_string_value(item), name) == 0)
            return true;
    }
    return false;
}

/* ---- Comparing ------------------------------------------------------------------------------- */

static void note(golden_run *run, const char *name, double excess)
{
    golden_result *result = run->result;
    if (!*result->where || excess > result->excess) {
        result->excess = excess;
        snprintf(result->where, sizeof result->where, "%s", name);
    }
}

/* Returns the largest |got - want| / (atol + rtol |want|). Equal values count as 0, NaN as
 * infinity. */
static double largest_excess(const double *got, const double *want, int64_t n, double rtol,
                             double atol)
{
    double largest = 0;
    for (int64_t i = 0; i < n; i++) {
        if (got[i] == want[i])
            continue;
        double excess = fabs(got[i] - want[i]) / (atol + rtol * fabs(want[i]));
        if (!(excess <= largest))
            largest = isnan(excess) ? INFINITY : excess;
    }
    return largest;
}

/* Integers and booleans must be equal; the tolerance applies to floating-point numbers only. */
static void compare_within(golden_run *run, const char *name, br_tensor *got, br_tensor *want,
                           double rtol, double atol)
{
    if (!got || !want)
        return;
    char a[128], b[128];
    if (!br_same_shape(got, want) || br_dtype_of(got) != br_dtype_of(want)) {
        br_raise(BR_ERROR_SHAPE, "%s is %s %s in Brasa, but %s %s in the file", name,
                 br_dtype_name(br_dtype_of(got)), br_shape_string(got, a, sizeof a),
                 br_dtype_name(br_dtype_of(want)), br_shape_string(want, b, sizeof b));
        return;
    }
    br_scope *scope = br_no_grad_begin();
    bool floating = br_is_floating(want);
    const double *x = br_data_f64(br_contiguous(br_to(got, BR_F64)));
    const double *y = br_data_f64(br_contiguous(br_to(want, BR_F64)));
    if (x && y)
        note(run, name,
             largest_excess(x, y, br_numel(want), floating ? rtol : 0, floating ? atol : 0));
    br_scope_end(scope);
}

void golden_compare(golden_run *run, const char *name, br_tensor *got)
{
    const json_t *tol = json_object_get(run->tol, name);
    if (tol && !json_is_number(tol))
        br_raise(BR_ERROR_FORMAT, "metadata 'tol': '%s' is not a number", name);
    compare_within(run, name, got, br_safetensors_get(run->file, name), run->rtol,
                   tol ? json_number_value(tol) : run->atol);
}

void golden_compare_random(golden_run *run, const char *name, br_tensor *got)
{
    char label[256];
    snprintf(label, sizeof label, "%.200s as initialized", name);
    compare_within(run, label, got, br_safetensors_get(run->file, name), 5e-7, 5e-7);
}

/* ---- Parameters ------------------------------------------------------------------------------ */

static const char *after_prefix(const char *name, const char *prefix)
{
    size_t n = strlen(prefix);
    return strncmp(name, prefix, n) == 0 ? name + n : NULL;
}

/* Lists the file's tensors whose names begin with `prefix`, without the prefix in their names. The
 * tensors belong to the innermost scope; the caller frees list->items. */
static bool file_tensors(golden_run *run, const char *prefix, br_named_list *list)
{
    int64_t count = br_safetensors_count(run->file);
    *list = (br_named_list){ .items = calloc((size_t)count + 1, sizeof *list->items) };
    for (int64_t i = 0; list->items && i < count; i++) {
        const char *name = br_safetensors_name(run->file, i), *rest = after_prefix(name, prefix);
        if (rest)
            list->items[list->count++] =
                (br_named_tensor){ rest, br_safetensors_get(run->file, name) };
    }
    if (!list->items)
        br_raise(BR_ERROR_MEMORY, "cannot allocate memory for a list of %lld tensors",
                 (long long)count);
    return !br_failed();
}

/* Compares the constructor's random initial values with the file's parameters. */
static void check_drawn(golden_run *run)
{
    br_named_list *state = run->module ? br_state_dict(run->module) : NULL;
    for (int64_t i = 0; state && i < state->count; i++) {
        char name[256];
        snprintf(name, sizeof name, "param/%s", state->items[i].name);
        golden_compare_random(run, name, state->items[i].tensor);
    }
    br_named_list_free(state);
}

static void load_parameters(golden_run *run)
{
    br_scope *scope = br_scope_begin();
    br_named_list params;
    if (file_tensors(run, "param/", &params)) {
        if (run->module)
            br_load_state_dict(run->module, &params, true, NULL);
        else if (params.count > 0)
            br_raise(BR_ERROR_FORMAT, "%s has no parameters, but the file has '%s'",
                     run->model->name, params.items[0].name);
    }
    free(params.items);
    br_scope_end(scope);
}

static void build(golden_run *run)
{
    json_t *seed = json_object_get(run->init, "manual_seed");
    if (seed && !json_is_integer(seed))
        br_raise(BR_ERROR_FORMAT, "metadata 'init': 'manual_seed' is not an integer");
    else if (seed)
        br_manual_seed((uint64_t)json_integer_value(seed));
    if (run->model->build && !br_failed())
        run->module = run->model->build(run);
    if (seed)
        check_drawn(run);
    load_parameters(run);
    if (run->module)
        br_train(run->module, run->training);
}

/* ---- One pass -------------------------------------------------------------------------------- */

/* Runs the model on the file's inputs and returns the loss; NULL if the file has none. */
static br_tensor *forward(golden_run *run)
{
    run->n_inputs = run->n_outputs = 0;
    run->n_fresh = 0;
    if (br_failed())
        return NULL;
    run->model->forward(run, run->module);
    char name[96];
    snprintf(name, sizeof name, "%s%d/linear.weight", run->fresh_prefix, run->n_fresh);
    if (!br_failed() && br_safetensors_has(run->file, name))
        br_raise(BR_ERROR_STATE, "the file has '%s', but forward created only %d such layers", name,
                 run->n_fresh);
    return br_failed() ? NULL : run->loss(run);
}

static br_tensor *find_output(golden_run *run, const char *name)
{
    for (int i = 0; i < run->n_outputs; i++)
        if (strcmp(run->outputs[i].name, name) == 0)
            return run->outputs[i].tensor;
    br_raise(BR_ERROR_FORMAT, "%s has no output '%s'", run->model->name, name);
    return NULL;
}

br_tensor *golden_get_output(golden_run *run, const char *name)
{
    return br_failed() ? NULL : find_output(run, name);
}

static void check_outputs(golden_run *run)
{
    for (int64_t i = 0; i < br_safetensors_count(run->file) && !br_failed(); i++) {
        const char *name = br_safetensors_name(run->file, i),
                   *output = after_prefix(name, "output/");
        if (output)
            golden_compare(run, name, find_output(run, output));
    }
}

/* Compares a gradient; fails if only one of PyTorch and Brasa has it. */
static void check_gradient(golden_run *run, const char *name, br_tensor *leaf, bool expected)
{
    br_tensor *grad = br_grad_of(leaf);
    if (grad && !expected)
        br_raise(BR_ERROR_STATE, "%s is listed in 'no_grad', but has a gradient in Brasa", name);
    else if (!grad && expected)
        br_raise(BR_ERROR_STATE, "%s has no gradient in Brasa", name);
    else if (expected)
        golden_compare(run, name, grad);
}

static void check_gradients(golden_run *run)
{
    br_named_list *params = run->module ? br_parameters(run->module) : NULL;
    char name[256];
    int64_t found = 0, recorded = 0;
    for (int64_t i = 0; params && i < params->count && !br_failed(); i++) {
        snprintf(name, sizeof name, "grad/%s", params->items[i].name);
        found += br_safetensors_has(run->file, name);
        check_gradient(run, name, params->items[i].tensor,
                       !listed(run->no_grad, params->items[i].name));
    }
    for (int64_t i = 0; i < br_safetensors_count(run->file); i++)
        recorded += after_prefix(br_safetensors_name(run->file, i), "grad/") != NULL;
    if (!br_failed() && found != recorded)
        br_raise(BR_ERROR_FORMAT, "the file has gradients of parameters that %s does not have",
                 run->model->name);
    for (int i = 0; i < run->n_inputs && !br_failed(); i++) {
        snprintf(name, sizeof name, "grad_input/%s", run->inputs[i].name);
        check_gradient(run, name, run->inputs[i].tensor, br_safetensors_has(run->file, name));
    }
    br_named_list_free(params);
}

static void check_pass(golden_run *run)
{
    snprintf(run->fresh_prefix, sizeof run->fresh_prefix, "fresh/");
    br_tensor *loss = forward(run);
    check_outputs(run);
    if (!loss || br_failed())
        return;
    golden_compare(run, "loss", loss);
    if (br_backward(loss))
        check_gradients(run);
}

/* ---- Training -------------------------------------------------------------------------------- */

static double option(const json_t *optimizer, const char *name)
{
    return json_number_value(json_object_get(optimizer, name));
}

static br_optim *make_optimizer(golden_run *run)
{
    const json_t *o = run->optimizer, *betas = json_object_get(o, "betas");
    const char *name = json_string_value(json_object_get(o, "name"));
    if (!run->module || !name || strcmp(name, "Adam") != 0 ||
        json_is_true(json_object_get(o, "amsgrad"))) {
        br_raise(BR_ERROR_FORMAT,
                 "a training file must have a model, and Adam without amsgrad as the optimizer");
        return NULL;
    }
    return br_adam(run->module,
                   BR_OPTIONS(br_adam, .lr = option(o, "lr"),
                              .beta1 = json_number_value(json_array_get(betas, 0)),
                              .beta2 = json_number_value(json_array_get(betas, 1)),
                              .eps = option(o, "eps"), .weight_decay = option(o, "weight_decay")));
}

/* Runs one training step; returns the loss before the update. */
static double train_step(golden_run *run, int64_t step)
{
    br_scope *scope = br_scope_begin();
    snprintf(run->fresh_prefix, sizeof run->fresh_prefix, "fresh/%lld/", (long long)step);
    br_optim_zero_grad(run->optim);
    br_tensor *loss = forward(run);
    if (!loss && !br_failed())
        br_raise(BR_ERROR_FORMAT, "a training file must have a loss");
    br_backward(loss);
    br_optim_step(run->optim);
    double value = br_item(loss);
    br_scope_end(scope);
    return value;
}

static void check_training(golden_run *run)
{
    br_tensor *want = br_safetensors_get(run->file, "losses");
    int64_t steps = br_numel(want);
    br_tensor *losses = br_zeros(BR_SHAPE(steps), BR_F32);
    run->optim = make_optimizer(run);
    for (int64_t i = 0; i < steps && !br_failed(); i++) {
        double loss = train_step(run, i);
        if (!br_failed())
            br_data_f32(losses)[i] = (float)loss;
    }
    golden_compare(run, "losses", losses);
    br_named_list *params = br_failed() ? NULL : br_parameters(run->module);
    for (int64_t i = 0; params && i < params->count && !br_failed(); i++) {
        char name[256];
        snprintf(name, sizeof name, "after/%s", params->items[i].name);
        if (!listed(run->noise, params->items[i].name))
            golden_compare(run, name, params->items[i].tensor);
    }
    br_named_list_free(params);
}

/* ---- A file ---------------------------------------------------------------------------------- */

bool golden_check(const char *path, golden_result *result)
{
    *result = (golden_result){ 0 };
    golden_run run = { .result = result };
    br_scope *scope = br_scope_begin();
    run.file = br_safetensors_open(path, NULL);
    if (run.file)
        read_metadata(&run);
    if (!br_failed())
        build(&run);
    if (run.fresh_random)
        br_manual_seed((uint64_t)run.fresh_seed);
    if (!br_failed() && run.trajectory)
        check_training(&run);
    else if (!br_failed())
        check_pass(&run);
    br_scope_end(scope);
    free_run(&run);
    return !br_failed();
}
