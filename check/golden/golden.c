/* check/golden/golden.c - finds the row for the model that a golden-1 file names, and checks the
 * file. */
#include "check/golden/golden.h"

#include "check/check_internal.h"
#include "common/text.h"

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
            names_add(names, sizeof names, model->name);
        }
    br_raise(BR_ERROR_ARGUMENT, "unknown model '%s'%s; must be one of %s", name,
             names_suggestion(name, names), names); /* last, because the list may be truncated */
    return NULL;
}

bool golden_check(const char *path, br_check_mode mode, br_check_result *result)
{
    br_check *check = br_check_open(path);
    const golden_model *model = check ? find_model(br_check_model(check)) : NULL;
    void *module = NULL;
    if (model && br_check_seed(check) && model->build)
        module = model->build(check);
    if (model)
        br__check_compute_in(check, mode);
    bool ok = model && !br_failed() && br_check_run(check, module, model->forward, result);
    br_module_free(module);
    br_check_close(check);
    return ok;
}
