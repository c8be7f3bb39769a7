/* pretrained/auto_model_ties.c - gives a tied weight a tensor of its own. */
#include "nn/nn_internal.h"
#include "pretrained/auto_model_internal.h"

#include <brasa/pretrained.h>

#include <string.h>

static const char op[] = "auto_model";

/* Returns the field of a module that contains the parameter, or NULL if its class is never tied. */
static br_tensor **field_of(br_module *module, const char *name)
{
    const char *class = br_module_class(module);
    if (strcmp(class, "Linear") == 0) {
        br_linear *linear = (br_linear *)module;
        return strcmp(name, "weight") == 0 ? &linear->weight : &linear->bias;
    }
    return strcmp(class, "Embedding") == 0 ? &((br_embedding *)module)->weight : NULL;
}

br_tensor *br__untie(br_module *module, const char *path, const char *name, const br_tensor *tied)
{
    module = *path ? br_module_find(module, path) : module;
    br_tensor **field = module ? field_of(module, name) : NULL;
    if (!field)
        return br_fail(BR_ERROR_STATE, op, "cannot untie %s.%s", path, name);
    br_scope *scope = br_scope_begin();
    br_tensor *own = br_new_empty(tied, tied->ndim, tied->sizes, tied->dtype);
    if (own && (own = br_module_replace_parameter(module, name, own)))
        *field = own;
    br_scope_end(scope);
    return own;
}
