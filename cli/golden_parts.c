/* cli/golden_parts.c - reads a golden-1 file for the models and the losses. */
#include "cli/cli.h"
#include "cli/golden_run.h"

#include <string.h>

/* ---- For models ------------------------------------------------------------------------------ */

static void config_lacks(const char *kind, const char *name, const json_t *value)
{
    if (value)
        br_raise(BR_ERROR_FORMAT, "metadata 'config': '%s' is not %s", name, kind);
    else
        br_raise(BR_ERROR_FORMAT, "metadata 'config': '%s' is missing", name);
}

int64_t golden_size(golden_run *run, const char *name)
{
    const json_t *value = json_object_get(run->config, name);
    if (json_is_integer(value))
        return json_integer_value(value);
    config_lacks("an integer", name, value);
    return -1;
}

int64_t golden_size_or(golden_run *run, const char *name, int64_t otherwise)
{
    return json_object_get(run->config, name) ? golden_size(run, name) : otherwise;
}

double golden_number(golden_run *run, const char *name)
{
    const json_t *value = json_object_get(run->config, name);
    if (!json_is_number(value))
        config_lacks("a number", name, value);
    return json_number_value(value);
}

bool golden_option(golden_run *run, const char *name, bool otherwise)
{
    const json_t *value = json_object_get(run->config, name);
    if (value && !json_is_boolean(value))
        br_raise(BR_ERROR_FORMAT, "metadata 'config': '%s' must be true or false", name);
    return value ? json_is_true(value) : otherwise;
}

static void keep(br_named_tensor *list, int *n, const char *name, br_tensor *t)
{
    if (*n == GOLDEN_MAX_NAMES)
        br_raise(BR_ERROR_STATE, "more than %d inputs or outputs", GOLDEN_MAX_NAMES);
    else
        list[(*n)++] = (br_named_tensor){ name, t };
}

/* Returns the file's tensor <folder>/<name>; NULL without an error if it has none. */
static br_tensor *find(golden_run *run, const char *folder, const char *name)
{
    char full[256];
    snprintf(full, sizeof full, "%s/%s", folder, name);
    return br_safetensors_has(run->file, full) ? br_safetensors_get(run->file, full) : NULL;
}

br_tensor *golden_input(golden_run *run, const char *name)
{
    for (int i = 0; i < run->n_inputs; i++)
        if (strcmp(run->inputs[i].name, name) == 0)
            return run->inputs[i].tensor;
    br_tensor *t = find(run, run->trajectory ? "batch" : "input", name);
    char grad[256];
    snprintf(grad, sizeof grad, "grad_input/%s", name);
    if (t && br_safetensors_has(run->file, grad))
        br_set_requires_grad(t, true);
    if (t)
        keep(run->inputs, &run->n_inputs, name, t);
    return t;
}

void golden_output(golden_run *run, const char *name, br_tensor *t)
{
    if (t)
        keep(run->outputs, &run->n_outputs, name, t);
}

static void load_fresh(golden_run *run, const char *layer, const char *part, br_tensor *t)
{
    char name[128];
    snprintf(name, sizeof name, "%s%d/%s.%s", run->fresh_prefix, run->n_fresh, layer, part);
    if (run->fresh_random)
        golden_compare_random(run, name, t);
    br_scope *scope = br_no_grad_begin();
    br_copy_(t, br_safetensors_get(run->file, name));
    br_scope_end(scope);
}

void golden_fresh(void *context, br_linear *linear, br_layer_norm *norm)
{
    golden_run *run = context;
    load_fresh(run, "linear", "weight", linear->weight);
    load_fresh(run, "linear", "bias", linear->bias);
    load_fresh(run, "layernorm", "weight", norm->weight);
    load_fresh(run, "layernorm", "bias", norm->bias);
    run->n_fresh++;
}

/* ---- Losses ---------------------------------------------------------------------------------- */

static br_tensor *label(golden_run *run, const char *name)
{
    br_tensor *t = find(run, run->trajectory ? "batch" : "label", name);
    if (!t)
        br_raise(BR_ERROR_FORMAT, "the file has no target '%s'", name);
    return t;
}

/* Returns the sum of term() over the outputs in `loss_of`. */
static br_tensor *sum_of(golden_run *run,
                         br_tensor *(*term)(golden_run *, const char *, br_tensor *))
{
    br_tensor *sum = NULL;
    size_t i;
    json_t *item;
    json_array_foreach(run->loss_of, i, item)
    {
        const char *name = json_is_string(item) ? json_string_value(item) : "";
        br_tensor *next = term(run, name, golden_get_output(run, name));
        sum = sum ? br_add(sum, next) : next;
    }
    if (!sum)
        br_raise(BR_ERROR_FORMAT, "metadata 'loss_of' names no output");
    return sum;
}

static br_tensor *half_square(golden_run *run, const char *name, br_tensor *output)
{
    (void)run, (void)name;
    return br_mul_scalar(br_mean(br_mul(output, output)), 0.5);
}

static br_tensor *weighted(golden_run *run, const char *name, br_tensor *output)
{
    br_tensor *weights = find(run, "cotangent", name);
    if (!weights)
        br_raise(BR_ERROR_FORMAT, "the file has no 'cotangent/%s'", name);
    return br_mean(br_mul(output, weights));
}

static br_tensor *half_mean_square(golden_run *run)
{
    return sum_of(run, half_square);
}

static br_tensor *weighted_mean(golden_run *run)
{
    return sum_of(run, weighted);
}

/* Cross entropy over all rows of the output [..., classes]. */
static br_tensor *rows_cross_entropy(golden_run *run, const char *target,
                                     const br_cross_entropy_options *options)
{
    br_tensor *output = golden_get_output(run, "0");
    return br_cross_entropy(br_reshape(output, BR_SHAPE(-1, br_size(output, -1))),
                            br_reshape(label(run, target), BR_SHAPE(-1)), options);
}

static br_tensor *cross_entropy(golden_run *run)
{
    return rows_cross_entropy(run, "target_y", NULL);
}

static br_tensor *cross_entropy_ignore(golden_run *run)
{
    return rows_cross_entropy(run, "labels",
                              BR_OPTIONS(br_cross_entropy, .ignore_index = run->ignore_index));
}

static br_tensor *bert_mlm_nsp(golden_run *run)
{
    br_tensor *lm, *clsf;
    br_tensor *loss =
        br_bert_loss(golden_get_output(run, "logits_lm"), golden_get_output(run, "logits_clsf"),
                     label(run, "masked_tokens"), label(run, "isNext"), &lm, &clsf);
    if (br_safetensors_has(run->file, "loss_lm"))
        golden_compare(run, "loss_lm", lm);
    if (br_safetensors_has(run->file, "loss_clsf"))
        golden_compare(run, "loss_clsf", clsf);
    return loss;
}

static br_tensor *none(golden_run *run)
{
    (void)run;
    return NULL;
}

golden_loss golden_find_loss(const char *name)
{
    static const struct {
        const char *name;
        golden_loss loss;
    } losses[] = {
        { "half_mean_square", half_mean_square }, { "weighted_mean", weighted_mean },
        { "cross_entropy", cross_entropy },       { "cross_entropy_ignore", cross_entropy_ignore },
        { "bert_mlm_nsp", bert_mlm_nsp },         { "none", none },
    };
    char names[256] = "";
    for (size_t i = 0; name && i < sizeof losses / sizeof *losses; i++) {
        if (strcmp(losses[i].name, name) == 0)
            return losses[i].loss;
        cli_list(names, sizeof names, losses[i].name);
    }
    if (name)
        br_raise(BR_ERROR_FORMAT, "unknown loss '%s', must be one of %s%s", name, names,
                 cli_suggestion(name, names));
    return NULL;
}
