/* pretrained/auto_model_class.c - the classes of models, by the names of transformers. */
#include "nn/nn_internal.h"
#include "pretrained/auto_config_internal.h"
#include "pretrained/auto_model_internal.h"

#include <brasa/pretrained.h>

#include <inttypes.h>
#include <string.h>

static const char op[] = "auto_model";

/* ---- Every class ----------------------------------------------------------------------------- */

const char *br_auto_model_class(int i)
{
    const br_model_family *family;
    for (int f = 0; i >= 0 && (family = br_model_family_at(f)); f++)
        for (const br_model_class *c = family->classes; c->name; c++)
            if (i-- == 0)
                return c->name;
    return NULL;
}

/* ---- The class of a folder ------------------------------------------------------------------- */

const br_model_family *br__model_family(const br_auto_config *config)
{
    if (config->family)
        return config->family;
    const char *type = br_auto_config_model_type(config);
    char *known = br__known_types(type, NULL);
    if (known)
        br_fail(BR_ERROR_FORMAT, op, "%s: model_type is %s%s%s, must be one of %s",
                br_printable(br_auto_config_path(config)), type ? "\"" : "",
                type ? br_printable(type) : "missing", type ? "\"" : "", known);
    br_free(known);
    return NULL;
}

/* Returns the class of that name, or NULL and an error that lists the known classes. */
static const br_model_class *class_named(const br_auto_config *config,
                                         const br_model_family *family, const char *name,
                                         const char *source)
{
    br__text known = { 0 };
    for (const br_model_class *c = family->classes; c->name; c++) {
        if (strcmp(c->name, name) == 0) {
            br_free(known.data);
            return c;
        }
        br__text_add(&known, "%s%s", c == family->classes ? "" : ", ", c->name);
    }
    if (known.data && !br_failed())
        br_fail(BR_ERROR_ARGUMENT, op, "%s: %s is \"%s\", must be one of %s",
                br_printable(br_auto_config_path(config)), source, br_printable(name), known.data);
    br_free(known.data);
    return NULL;
}

const br_model_class *br__model_class(const br_auto_config *config, const br_model_family *family,
                                      const char *requested)
{
    if (requested)
        return class_named(config, family, requested, "class_name");
    int64_t n = br_auto_config_list_size(config, "architectures");
    if (n <= 0)
        return n == 0 ? family->classes : NULL;
    const char *name = br_auto_config_list_string(config, "architectures", 0);
    return name ? class_named(config, family, name, "architectures[0]") : NULL;
}

/* ---- Modules --------------------------------------------------------------------------------- */

static bool check_number(const char *operation, const br_auto_config *config, const char *key,
                         int64_t n_tensors, const char *subject)
{
    enum { MANY = 1024 };
    int64_t layers = br_auto_config_size(config, key);
    if (!br_failed() && layers > MANY && layers > n_tensors)
        br_fail(BR_ERROR_FORMAT, operation,
                "%s: %s is %" PRId64 ", but %s only %" PRId64 " tensors",
                br_printable(br_auto_config_path(config)), key, layers, subject, n_tensors);
    return !br_failed();
}

bool br__check_layers(const char *operation, const br_auto_config *config,
                      const br_model_family *family, int64_t n_tensors, const char *subject)
{
    for (const char *const *key = family->layers; key && *key; key++)
        if (!check_number(operation, config, *key, n_tensors, subject))
            return false;
    return true;
}

br_module *br__make_model(const br_model_class *class, const br_auto_config *config)
{
    bool before = br_skip_init(true);
    br_module *module = class->make(config);
    br_skip_init(before);
    return module;
}

void *br_auto_model_new(const br_auto_config *config, const char *class_name)
{
    static const char each[] = "auto_model_new";
    if (!br__required(each, "config", config))
        return NULL;
    const br_model_family *family = br__model_family(config);
    const br_model_class *class = family ? br__model_class(config, family, class_name) : NULL;
    br_module *module = class ? br__make_model(class, config) : NULL;
    br_named_list *list = module ? br_parameters(module) : NULL;
    bool ok = list != NULL;
    for (int64_t i = 0; ok && i < list->count; i++)
        ok = family->init(config, list->items[i].name, list->items[i].tensor);
    br_named_list_free(list);
    if (ok && !br_failed())
        return module;
    br_module_free(module);
    return NULL;
}
