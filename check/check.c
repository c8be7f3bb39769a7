/* check/check.c - checks a golden-1 file: reads its metadata, loads its parameters into the module,
 * runs it, and compares the results.
 *
 * Every failure becomes the thread's pending error, so one check at the end is enough. */
#include "check/check_internal.h"
#include "io/json.h"
#include "nn/nn_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char op[] = "check";

/* ---- Metadata -------------------------------------------------------------------------------- */

static const char *metadata(br_check *check, const char *key)
{
    const char *value = br_safetensors_metadata(check->file, key);
    if (!value)
        br_fail(BR_ERROR_FORMAT, op, "the file's metadata has no '%s'", key);
    return value;
}

/* Returns the JSON value of a key, which must have the given type; an empty one if there is no such
 * key. */
static json_t *metadata_json(br_check *check, const char *key, json_type type)
{
    const char *text = br_safetensors_metadata(check->file, key);
    if (!text)
        return type == JSON_OBJECT ? json_object() : json_array();
    json_error_t error = { .text = "" };
    json_t *json = br__json_parse("golden", key, text, strlen(text), &error);
    if (!json)
        br_fail(BR_ERROR_FORMAT, op, "metadata '%s': %s", key, error.text);
    else if (json_typeof(json) != type)
        br_fail(BR_ERROR_FORMAT, op, "metadata '%s' must be a JSON %s", key,
                type == JSON_OBJECT ? "object" : "array");
    return json;
}

static double metadata_number(br_check *check, const char *key)
{
    const char *text = metadata(check, key);
    char *end = NULL;
    double value = text ? strtod(text, &end) : 0;
    if (text && (end == text || *end || !(value >= 0) || isinf(value)))
        br_fail(BR_ERROR_FORMAT, op, "metadata '%s' is '%s', must be a finite number >= 0", key,
                text);
    return value;
}

/* Gets the integer of a metadata key; returns false if there is no such key, or on error. */
static bool metadata_integer(br_check *check, const char *key, int64_t *value)
{
    const char *text = br_safetensors_metadata(check->file, key);
    char *end = NULL;
    if (text)
        *value = strtoll(text, &end, 10);
    if (text && (end == text || *end))
        br_fail(BR_ERROR_FORMAT, op, "metadata '%s' is '%s', must be an integer", key, text);
    return text && !br_failed();
}

static void read_metadata(br_check *check)
{
    const char *format = metadata(check, "format"), *mode = metadata(check, "mode");
    metadata(check, "model");
    if (br_failed())
        return;
    if (strcmp(format, "golden-1") != 0)
        br_fail(BR_ERROR_FORMAT, op, "the file's format is '%s', must be 'golden-1'", format);
    if (strcmp(mode, "eval") != 0 && strcmp(mode, "train") != 0)
        br_fail(BR_ERROR_FORMAT, op, "the file's mode is '%s', must be 'eval' or 'train'", mode);
    check->training = strcmp(mode, "train") == 0;
    check->loss = br__check_find_loss(metadata(check, "loss"));
    check->config = metadata_json(check, "config", JSON_OBJECT);
    check->tol = metadata_json(check, "tol", JSON_OBJECT);
    check->init = metadata_json(check, "init", JSON_OBJECT);
    check->optimizer = metadata_json(check, "optimizer", JSON_OBJECT);
    check->loss_of = metadata_json(check, "loss_of", JSON_ARRAY);
    check->no_grad = metadata_json(check, "no_grad", JSON_ARRAY);
    check->noise = metadata_json(check, "noise", JSON_ARRAY);
    check->rtol = metadata_number(check, "rtol");
    check->atol = metadata_number(check, "atol");
    check->fresh_random = metadata_integer(check, "fresh_seed", &check->fresh_seed);
    metadata_integer(check, "ignore_index", &check->ignore_index);
    check->trajectory = br_safetensors_has(check->file, "losses");
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

/* ---- Parameters ------------------------------------------------------------------------------ */

static const char *after_prefix(const char *name, const char *prefix)
{
    size_t n = strlen(prefix);
    return strncmp(name, prefix, n) == 0 ? name + n : NULL;
}

/* Lists the file's tensors whose names begin with `prefix`, without the prefix in their names. The
 * tensors belong to the innermost scope; the caller frees list->items. */
static bool file_tensors(br_check *check, const char *prefix, br_named_list *list)
{
    int64_t count = br_safetensors_count(check->file);
    *list = (br_named_list){ .items = br_calloc((size_t)count + 1, sizeof *list->items) };
    for (int64_t i = 0; list->items && i < count; i++) {
        const char *name = br_safetensors_name(check->file, i), *rest = after_prefix(name, prefix);
        if (rest)
            list->items[list->count++] =
                (br_named_tensor){ rest, br_safetensors_get(check->file, name) };
    }
    if (!list->items)
        br_fail(BR_ERROR_MEMORY, op, "cannot allocate memory for a list of %lld tensors",
                (long long)count);
    return !br_failed();
}

/* Compares the constructor's random initial values with the file's parameters. */
static void check_drawn(br_check *check)
{
    br_named_list *state = check->module ? br_state_dict(check->module) : NULL;
    for (int64_t i = 0; state && i < state->count; i++) {
        char name[256];
        snprintf(name, sizeof name, "param/%s", state->items[i].name);
        br__check_compare_random(check, name, state->items[i].tensor);
    }
    br_named_list_free(state);
}

static void load_parameters(br_check *check)
{
    br_scope *scope = br_scope_begin();
    br_named_list params;
    if (file_tensors(check, "param/", &params)) {
        if (check->module)
            br_load_state_dict(check->module, &params, true, NULL);
        else if (params.count > 0)
            br_fail(BR_ERROR_FORMAT, op, "the module is NULL, but the file has the parameter '%s'",
                    params.items[0].name);
    }
    br_free(params.items);
    br_scope_end(scope);
}

/* ---- Intermediate results -------------------------------------------------------------------- */

static br_tensor *compare_tap(br_module *module, br_tensor *t, void *context)
{
    (void)module;
    br_check_tap *tap = context;
    if (!tap->seen)
        br__check_compare(tap->check, tap->name, t);
    tap->seen = true;
    return NULL;
}

static bool add_tap(br_check *check, const char *name)
{
    br_check_tap *tap = &check->taps[check->n_taps];
    br_module *module = check->module ? br_module_find(check->module, name + strlen("tap/")) : NULL;
    if (!module) {
        br_fail(BR_ERROR_FORMAT, op, "the module is NULL, but the file has '%s'", name);
        return false;
    }
    *tap = (br_check_tap){ .check = check, .name = name, .module = module };
    tap->hook = br_module_register_forward_hook(module, compare_tap, tap);
    check->n_taps += tap->hook != 0;
    return tap->hook != 0;
}

/* Adds a forward hook to each module whose result is recorded. */
static void add_taps(br_check *check)
{
    int64_t count = br_safetensors_count(check->file);
    check->taps = br_calloc((size_t)count + 1, sizeof *check->taps);
    for (int64_t i = 0; check->taps && i < count; i++) {
        const char *name = br_safetensors_name(check->file, i);
        if (after_prefix(name, "tap/") && !add_tap(check, name))
            return;
    }
}

static void remove_taps(br_check *check)
{
    for (int64_t i = 0; i < check->n_taps; i++) {
        br_check_tap *tap = &check->taps[i];
        br_module_remove_hook(tap->module, tap->hook);
        if (!tap->seen && !br_failed())
            br_fail(BR_ERROR_FORMAT, op, "the file has '%s', but forward did not run that module",
                    tap->name);
    }
    check->n_taps = 0;
    br_free(check->taps);
    check->taps = NULL;
}

/* ---- One pass -------------------------------------------------------------------------------- */

/* Runs the model on the file's inputs and returns the loss; NULL if the file has none. */
static br_tensor *forward(br_check *check)
{
    check->n_inputs = check->n_outputs = 0;
    check->n_fresh = 0;
    if (br_failed())
        return NULL;
    br_autocast *cast = br_autocast_begin(check->mode.amp ? BR_BF16 : BR_F32);
    check->forward(check, check->module);
    br_tensor *loss = br_failed() ? NULL : check->loss(check);
    br_autocast_end(cast);
    char name[96];
    snprintf(name, sizeof name, "%s%d/linear.weight", check->fresh_prefix, check->n_fresh);
    if (!br_failed() && br_safetensors_has(check->file, name))
        br_fail(BR_ERROR_STATE, op, "the file has '%s', but forward created only %d such layers",
                name, check->n_fresh);
    return loss;
}

static void check_outputs(br_check *check)
{
    for (int64_t i = 0; i < br_safetensors_count(check->file) && !br_failed(); i++) {
        const char *name = br_safetensors_name(check->file, i),
                   *output = after_prefix(name, "output/");
        if (output)
            br__check_compare(check, name, br__check_get_output(check, output));
    }
}

/* Compares a gradient; fails if only one of PyTorch and Brasa has it. */
static void check_gradient(br_check *check, const char *name, br_tensor *leaf, bool expected)
{
    br_tensor *grad = br_grad_of(leaf);
    if (grad && !expected)
        br_fail(BR_ERROR_STATE, op, "%s is listed in 'no_grad', but has a gradient in Brasa", name);
    else if (!grad && expected)
        br_fail(BR_ERROR_STATE, op, "%s has no gradient in Brasa", name);
    else if (expected)
        br__check_compare(check, name, grad);
}

static void check_gradients(br_check *check)
{
    br_named_list *params = check->module ? br_parameters(check->module) : NULL;
    char name[256];
    int64_t found = 0, recorded = 0;
    for (int64_t i = params ? params->count - 1 : -1; i >= 0 && !br_failed(); i--) {
        snprintf(name, sizeof name, "grad/%s", params->items[i].name);
        found += br_safetensors_has(check->file, name);
        check_gradient(check, name, params->items[i].tensor,
                       !listed(check->no_grad, params->items[i].name));
    }
    for (int64_t i = 0; i < br_safetensors_count(check->file); i++)
        recorded += after_prefix(br_safetensors_name(check->file, i), "grad/") != NULL;
    if (!br_failed() && found != recorded)
        br_fail(BR_ERROR_FORMAT, op,
                "the file has gradients of parameters that the module does not have");
    for (int i = 0; i < check->n_inputs && !br_failed(); i++) {
        snprintf(name, sizeof name, "grad_input/%s", check->inputs[i].name);
        check_gradient(check, name, check->inputs[i].tensor, br_safetensors_has(check->file, name));
    }
    br_named_list_free(params);
}

static void check_pass(br_check *check)
{
    snprintf(check->fresh_prefix, sizeof check->fresh_prefix, "fresh/");
    add_taps(check);
    br_tensor *loss = forward(check);
    remove_taps(check);
    check_outputs(check);
    if (!loss || br_failed())
        return;
    br__check_compare(check, "loss", loss);
    if (br_backward(loss))
        check_gradients(check);
}

/* ---- Training -------------------------------------------------------------------------------- */

static double option(const json_t *optimizer, const char *name)
{
    return json_number_value(json_object_get(optimizer, name));
}

static br_optim *make_optimizer(br_check *check)
{
    const json_t *o = check->optimizer, *betas = json_object_get(o, "betas");
    const char *name = json_string_value(json_object_get(o, "name"));
    if (!check->module || !name || strcmp(name, "Adam") != 0 ||
        json_is_true(json_object_get(o, "amsgrad"))) {
        br_fail(BR_ERROR_FORMAT, op,
                "a training file must have a model, and Adam without amsgrad as the optimizer");
        return NULL;
    }
    br_optim *adam =
        br_adam(check->module,
                BR_OPTIONS(br_adam, .lr = option(o, "lr"),
                           .beta1 = json_number_value(json_array_get(betas, 0)),
                           .beta2 = json_number_value(json_array_get(betas, 1)),
                           .eps = option(o, "eps"), .weight_decay = option(o, "weight_decay")));
    if (adam && check->mode.converts && br_dtype_size(check->mode.dtype) == 2)
        br_optim_set_half_update(adam, BR_HALF_MASTER);
    return adam;
}

/* Runs one training step; returns the loss before the update. */
static double train_step(br_check *check, int64_t step)
{
    br_scope *scope = br_scope_begin();
    snprintf(check->fresh_prefix, sizeof check->fresh_prefix, "fresh/%lld/", (long long)step);
    br_optim_zero_grad(check->optim);
    br_tensor *loss = forward(check);
    if (!loss && !br_failed())
        br_fail(BR_ERROR_FORMAT, op, "a training file must have a loss");
    br_backward(loss);
    br_optim_step(check->optim);
    double value = br_item(loss);
    br_scope_end(scope);
    return value;
}

static void check_training(br_check *check)
{
    br_tensor *want = br_safetensors_get(check->file, "losses");
    int64_t steps = br_numel(want);
    br_tensor *losses = br_new_zeros(want, BR_SHAPE(steps), BR_F32);
    check->optim = make_optimizer(check);
    for (int64_t i = 0; i < steps && !br_failed(); i++) {
        double loss = train_step(check, i);
        if (!br_failed())
            br_data_f32(losses)[i] = (float)loss;
    }
    br__check_compare(check, "losses", losses);
    br_named_list *params = br_failed() ? NULL : br_parameters(check->module);
    for (int64_t i = 0; params && i < params->count && !br_failed(); i++) {
        char name[256];
        snprintf(name, sizeof name, "after/%s", params->items[i].name);
        if (!listed(check->noise, params->items[i].name))
            br__check_compare(check, name, params->items[i].tensor);
    }
    br_named_list_free(params);
}

/* ---- A file ---------------------------------------------------------------------------------- */

br_check *br_check_open(const char *path)
{
    if (!br__required(op, "path", path))
        return NULL;
    br_check *check = BR_NEW(br_check);
    if (!check)
        return NULL;
    br_scope *scope = br_scope_begin();
    check->file = br_safetensors_open(path, NULL);
    if (check->file)
        read_metadata(check);
    br_scope_end(scope);
    if (!br_failed())
        return check;
    br_check_close(check);
    return NULL;
}

void br_check_close(br_check *check)
{
    if (!BR_END("check_close", check))
        return;
    json_t *values[] = { check->config,  check->tol,     check->init, check->optimizer,
                         check->loss_of, check->no_grad, check->noise };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        json_decref(values[i]);
    br_safetensors_close(check->file);
    BR_FREE(check);
}

bool br_check_seed(br_check *check)
{
    if (!br__required(op, "check", check))
        return false;
    json_t *seed = json_object_get(check->init, "manual_seed");
    if (!seed)
        return true;
    if (!json_is_integer(seed)) {
        br_fail(BR_ERROR_FORMAT, op, "metadata 'init': 'manual_seed' is not an integer");
        return false;
    }
    br_manual_seed((uint64_t)json_integer_value(seed));
    check->seeded = true;
    return true;
}

void br__check_compute_in(br_check *check, br_check_mode mode)
{
    check->mode = mode;
}

bool br_check_run(br_check *check, void *module, br_check_forward_fn forward_of,
                  br_check_result *result)
{
    if (!br__required(op, "check", check) || !br__required(op, "result", result) ||
        (module && !br_module_is_usable(op, module)))
        return false;
    if (!forward_of) {
        br_fail(BR_ERROR_ARGUMENT, op, "forward is NULL, but it is required");
        return false;
    }
    *result = (br_check_result){ 0 };
    check->module = module;
    check->forward = forward_of;
    check->result = result;
    br_scope *scope = br_scope_begin();
    if (check->seeded)
        check_drawn(check);
    load_parameters(check);
    if (module && check->mode.converts)
        br_module_to(module, check->mode.dtype);
    if (module)
        br_train(module, check->training);
    if (check->fresh_random)
        br_manual_seed((uint64_t)check->fresh_seed);
    if (!br_failed() && check->trajectory)
        check_training(check);
    else if (!br_failed())
        check_pass(check);
    br_optim_free(check->optim);
    check->optim = NULL;
    br_scope_end(scope);
    return !br_failed();
}

bool br_check_file(const char *path, void *module, br_check_forward_fn forward_of,
                   br_check_result *result)
{
    br_check *check = br_check_open(path);
    bool ok = check && br_check_run(check, module, forward_of, result);
    br_check_close(check);
    return ok;
}

const char *br_check_model(const br_check *check)
{
    return br__required(op, "check", check) ? br_safetensors_metadata(check->file, "model") : NULL;
}
