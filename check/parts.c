/* check/parts.c - what the forward function and the losses read from a golden-1 file. */
#include "check/check_internal.h"

#include <brasa/models/bert.h>
#include <string.h>

static const char op[] = "check";

/* ---- For the module and its forward ---------------------------------------------------------- */

static json_t *config_value(const br_check *check, const char *name)
{
    if (!br__required(op, "check", check) || !br__required(op, "name", name))
        return NULL;
    return json_object_get(check->config, name);
}

static void config_lacks(const char *kind, const char *name, const json_t *value)
{
    if (value)
        br_fail(BR_ERROR_FORMAT, op, "metadata 'config': '%s' is not %s", name, kind);
    else
        br_fail(BR_ERROR_FORMAT, op, "metadata 'config': '%s' is missing", name);
}

int64_t br_check_size(br_check *check, const char *name)
{
    const json_t *value = config_value(check, name);
    if (json_is_integer(value))
        return json_integer_value(value);
    config_lacks("an integer", name, value);
    return -1;
}

int64_t br_check_size_or(br_check *check, const char *name, int64_t otherwise)
{
    return config_value(check, name) ? br_check_size(check, name) : otherwise;
}

double br_check_number(br_check *check, const char *name)
{
    const json_t *value = config_value(check, name);
    if (!json_is_number(value))
        config_lacks("a number", name, value);
    return json_number_value(value);
}

bool br_check_option(br_check *check, const char *name, bool otherwise)
{
    const json_t *value = config_value(check, name);
    if (value && !json_is_boolean(value))
        br_fail(BR_ERROR_FORMAT, op, "metadata 'config': '%s' must be true or false", name);
    return !br_failed() && (value ? json_is_true(value) : otherwise);
}

static void keep(br_named_tensor *list, int *n, const char *name, br_tensor *t)
{
    if (*n == BR_CHECK_MAX_NAMES)
        br_fail(BR_ERROR_STATE, op, "more than %d inputs or outputs", BR_CHECK_MAX_NAMES);
    else
        list[(*n)++] = (br_named_tensor){ name, t };
}

/* Returns the file's tensor <folder>/<name> on the default device, in the dtype of the check; NULL
 * without an error if the file has none. */
static br_tensor *find(br_check *check, const char *folder, const char *name)
{
    char full[256];
    snprintf(full, sizeof full, "%s/%s", folder, name);
    if (!br_safetensors_has(check->file, full))
        return NULL;
    br_tensor *t = br_to_device(br_safetensors_get(check->file, full), br_get_default_device());
    return t && br_is_floating(t) && check->mode.converts ? br_to(t, check->mode.dtype) : t;
}

br_tensor *br_check_input(br_check *check, const char *name)
{
    if (!br__required(op, "check", check) || !br__required(op, "name", name))
        return NULL;
    for (int i = 0; i < check->n_inputs; i++)
        if (strcmp(check->inputs[i].name, name) == 0)
            return check->inputs[i].tensor;
    br_tensor *t = find(check, check->trajectory ? "batch" : "input", name);
    char grad[256];
    snprintf(grad, sizeof grad, "grad_input/%s", name);
    if (t && br_safetensors_has(check->file, grad))
        br_set_requires_grad(t, true);
    if (t)
        keep(check->inputs, &check->n_inputs, name, t);
    return t;
}

void br_check_output(br_check *check, const char *name, br_tensor *t)
{
    if (br__required(op, "check", check) && br__required(op, "name", name) && BR_LIVE(op, t))
        keep(check->outputs, &check->n_outputs, name, t);
}

br_tensor *br__check_get_output(br_check *check, const char *name)
{
    if (br_failed())
        return NULL;
    for (int i = 0; i < check->n_outputs; i++)
        if (strcmp(check->outputs[i].name, name) == 0)
            return check->outputs[i].tensor;
    br_fail(BR_ERROR_FORMAT, op, "forward has no output '%s', which the file has", name);
    return NULL;
}

static void load_fresh(br_check *check, const char *layer, const char *part, br_tensor *t)
{
    char name[128];
    snprintf(name, sizeof name, "%s%d/%s.%s", check->fresh_prefix, check->n_fresh, layer, part);
    if (check->fresh_random)
        br__check_compare_random(check, name, t);
    br_scope *scope = br_no_grad_begin();
    br_copy_(t, br_safetensors_get(check->file, name));
    br_scope_end(scope);
}

void br__check_fresh(void *context, br_linear *linear, br_layer_norm *norm)
{
    br_check *check = context;
    load_fresh(check, "linear", "weight", linear->weight);
    load_fresh(check, "linear", "bias", linear->bias);
    load_fresh(check, "layernorm", "weight", norm->weight);
    load_fresh(check, "layernorm", "bias", norm->bias);
    check->n_fresh++;
}

/* ---- Losses ---------------------------------------------------------------------------------- */

static br_tensor *label(br_check *check, const char *name)
{
    br_tensor *t = find(check, check->trajectory ? "batch" : "label", name);
    if (!t)
        br_fail(BR_ERROR_FORMAT, op, "the file has no target '%s'", name);
    return t;
}

/* Returns the sum of term() over the outputs in `loss_of`. */
static br_tensor *sum_of(br_check *check, br_tensor *(*term)(br_check *, const char *, br_tensor *))
{
    br_tensor *sum = NULL;
    size_t i;
    json_t *item;
    json_array_foreach(check->loss_of, i, item)
    {
        const char *name = json_is_string(item) ? json_string_value(item) : "";
        br_tensor *next = term(check, name, br__check_get_output(check, name));
        sum = sum ? br_add(sum, next) : next;
    }
    if (!sum)
        br_fail(BR_ERROR_FORMAT, op, "metadata 'loss_of' names no output");
    return sum;
}

static br_tensor *half_square(br_check *check, const char *name, br_tensor *output)
{
    (void)check, (void)name;
    return br_mul_scalar(br_mean(br_mul(output, output)), 0.5);
}

static br_tensor *weighted(br_check *check, const char *name, br_tensor *output)
{
    br_tensor *weights = find(check, "cotangent", name);
    if (!weights)
        br_fail(BR_ERROR_FORMAT, op, "the file has no 'cotangent/%s'", name);
    return br_mean(br_mul(output, weights));
}

static br_tensor *half_mean_square(br_check *check)
{
    return sum_of(check, half_square);
}

static br_tensor *weighted_mean(br_check *check)
{
    return sum_of(check, weighted);
}

/* Cross entropy over all rows of the output [..., classes]. */
static br_tensor *rows_cross_entropy(br_check *check, const char *target,
                                     const br_cross_entropy_options *options)
{
    br_tensor *output = br__check_get_output(check, "0");
    return br_cross_entropy(br_reshape(output, BR_SHAPE(-1, br_size(output, -1))),
                            br_reshape(label(check, target), BR_SHAPE(-1)), options);
}

static br_tensor *cross_entropy(br_check *check)
{
    return rows_cross_entropy(check, "target_y", NULL);
}

static br_tensor *cross_entropy_ignore(br_check *check)
{
    return rows_cross_entropy(check, "labels",
                              BR_OPTIONS(br_cross_entropy, .ignore_index = check->ignore_index));
}

static br_tensor *bert_mlm_nsp(br_check *check)
{
    br_tensor *lm, *clsf;
    br_tensor *loss = br_bert_loss(
        br__check_get_output(check, "logits_lm"), br__check_get_output(check, "logits_clsf"),
        label(check, "masked_tokens"), label(check, "isNext"), &lm, &clsf);
    if (br_safetensors_has(check->file, "loss_lm"))
        br__check_compare(check, "loss_lm", lm);
    if (br_safetensors_has(check->file, "loss_clsf"))
        br__check_compare(check, "loss_clsf", clsf);
    return loss;
}

static br_tensor *none(br_check *check)
{
    (void)check;
    return NULL;
}

br_check_loss br__check_find_loss(const char *name)
{
    static const struct {
        const char *name;
        br_check_loss loss;
    } losses[] = {
        { "half_mean_square", half_mean_square }, { "weighted_mean", weighted_mean },
        { "cross_entropy", cross_entropy },       { "cross_entropy_ignore", cross_entropy_ignore },
        { "bert_mlm_nsp", bert_mlm_nsp },         { "none", none },
    };
    for (size_t i = 0; name && i < sizeof losses / sizeof *losses; i++)
        if (strcmp(losses[i].name, name) == 0)
            return losses[i].loss;
    if (name)
        br_fail(BR_ERROR_FORMAT, op,
                "unknown loss '%s', must be one of half_mean_square, weighted_mean, "
                "cross_entropy, cross_entropy_ignore, bert_mlm_nsp, none",
                name);
    return NULL;
}
