/* nn/lora_options.c - the options of an adapter: their checks, and copies that the model keeps. */
#include "nn/lora_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

BR_DEFINE_DEFAULTS(br_lora)

static const char op[] = "lora_add";

/* ---- Copies of options ----------------------------------------------------------------------- */

static void free_names(int64_t n, const char *const *names)
{
    for (int64_t i = 0; names && i < n; i++)
        br_free((char *)names[i]);
    br_free((const char **)names);
}

static void free_patterns(int64_t n, const br_lora_pattern *patterns)
{
    for (int64_t i = 0; patterns && i < n; i++)
        br_free((char *)patterns[i].name);
    br_free((br_lora_pattern *)patterns);
}

void br__lora_options_free(br_lora_options *o)
{
    br_free((char *)o->adapter_name);
    free_names(o->n_target_modules, o->target_modules);
    free_names(o->n_exclude_modules, o->exclude_modules);
    free_names(o->n_modules_to_save, o->modules_to_save);
    free_patterns(o->n_rank_pattern, o->rank_pattern);
    free_patterns(o->n_alpha_pattern, o->alpha_pattern);
    br_free((int64_t *)o->layers_to_transform);
}

/* Returns a copy of n names, NULL if n is 0. */
static const char *const *copy_names(int64_t n, const char *const *names)
{
    const char **copy = n > 0 ? br_calloc((size_t)n, sizeof *copy) : NULL;
    for (int64_t i = 0; copy && i < n; i++)
        copy[i] = br_strdup(names[i]);
    return copy;
}

static const br_lora_pattern *copy_patterns(int64_t n, const br_lora_pattern *patterns)
{
    br_lora_pattern *copy = n > 0 ? br_calloc((size_t)n, sizeof *copy) : NULL;
    for (int64_t i = 0; copy && i < n; i++)
        copy[i] = (br_lora_pattern){ br_strdup(patterns[i].name), patterns[i].value };
    return copy;
}

void br__lora_options_own(br_lora_options *o)
{
    o->adapter_name = br_strdup(o->adapter_name);
    o->target_modules = copy_names(o->n_target_modules, o->target_modules);
    o->exclude_modules = copy_names(o->n_exclude_modules, o->exclude_modules);
    o->modules_to_save = copy_names(o->n_modules_to_save, o->modules_to_save);
    o->rank_pattern = copy_patterns(o->n_rank_pattern, o->rank_pattern);
    o->alpha_pattern = copy_patterns(o->n_alpha_pattern, o->alpha_pattern);
    int64_t n = o->n_layers_to_transform, *layers = NULL;
    if (n > 0 && (layers = br_calloc((size_t)n, sizeof *layers)))
        memcpy(layers, o->layers_to_transform, (size_t)n * sizeof *layers);
    o->layers_to_transform = layers;
}

/* ---- Checks of options ----------------------------------------------------------------------- */

static bool good_names(const char *field, int64_t n, const char *const *names)
{
    if (n < 0)
        br_fail(BR_ERROR_ARGUMENT, op, "n_%s is %" PRId64 ", must not be negative", field, n);
    else if (n > 0)
        br__required(op, field, names);
    for (int64_t i = 0; i < n && !br_failed(); i++)
        br__required_item(op, field, (int)i, names[i]);
    return !br_failed();
}

static bool good_patterns(const char *field, int64_t n, const br_lora_pattern *patterns,
                          double least)
{
    if (n < 0)
        br_fail(BR_ERROR_ARGUMENT, op, "n_%s is %" PRId64 ", must not be negative", field, n);
    else if (n > 0)
        br__required(op, field, patterns);
    for (int64_t i = 0; i < n && !br_failed(); i++)
        if (br__required_item(op, field, (int)i, patterns[i].name) &&
            !(patterns[i].value >= least && patterns[i].value < 1e9))
            br_fail(BR_ERROR_ARGUMENT, op, "%s[%" PRId64 "].value is %g, must be at least %g",
                    field, i, patterns[i].value, least);
    return !br_failed();
}

static bool good_lists(const br_lora_options *o)
{
    if (!good_names("target_modules", o->n_target_modules, o->target_modules) ||
        !good_names("exclude_modules", o->n_exclude_modules, o->exclude_modules) ||
        !good_names("modules_to_save", o->n_modules_to_save, o->modules_to_save) ||
        !good_patterns("rank_pattern", o->n_rank_pattern, o->rank_pattern, 1) ||
        !good_patterns("alpha_pattern", o->n_alpha_pattern, o->alpha_pattern, -1e9))
        return false;
    if (o->n_layers_to_transform < 0)
        br_fail(BR_ERROR_ARGUMENT, op, "n_layers_to_transform is %" PRId64 ", must not be negative",
                o->n_layers_to_transform);
    else if (o->n_layers_to_transform > 0)
        br__required(op, "layers_to_transform", o->layers_to_transform);
    return !br_failed();
}

static bool good_values(const br_lora_options *o)
{
    if (!br__required(op, "adapter_name", o->adapter_name))
        return false;
    if (!*o->adapter_name || strchr(o->adapter_name, '.'))
        br_fail(BR_ERROR_ARGUMENT, op,
                "adapter_name is '%s', must be a name without dots: it is a part of the names of "
                "parameters",
                br_printable(o->adapter_name));
    else if (o->r < 1)
        br_fail(BR_ERROR_ARGUMENT, op, "r is %" PRId64 ", must be at least 1", o->r);
    else if (!isfinite(o->lora_alpha))
        br_fail(BR_ERROR_ARGUMENT, op, "lora_alpha is %g, must be finite", o->lora_alpha);
    else if (!(o->lora_dropout >= 0 && o->lora_dropout < 1))
        br_fail(BR_ERROR_ARGUMENT, op, "lora_dropout is %g, must be at least 0 and less than 1",
                o->lora_dropout);
    else if ((unsigned)o->bias > BR_LORA_BIAS_LORA_ONLY)
        br_fail(BR_ERROR_ARGUMENT, op, "bias is %d, must be one of br_lora_bias", (int)o->bias);
    else if ((unsigned)o->init_lora_weights > BR_LORA_INIT_GAUSSIAN)
        br_fail(BR_ERROR_ARGUMENT, op, "init_lora_weights is %d, must be one of br_lora_init",
                (int)o->init_lora_weights);
    return !br_failed();
}

bool br__lora_good_options(const br_lora_options *o)
{
    return good_values(o) && good_lists(o);
}
