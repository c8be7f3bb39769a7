/* cli/pretrained.c - see pretrained.h. */
#include "cli/pretrained.h"

#include <stdlib.h>
#include <string.h>

const void *pretrained_family(const char *dir, const void *families, int n, size_t size,
                              const char *what)
{
    br_auto_config *config = br_auto_config_load(dir);
    const char *type = config ? br_auto_config_model_type(config) : NULL;
    const char *found = NULL;
    for (int i = 0; type && !found && i < n; i++) {
        const char *family = (const char *)families + (size_t)i * size;
        if (strcmp(((const model_family *)family)->model_type, type) == 0)
            found = family;
    }
    if (config && !found)
        br_raise(BR_ERROR_ARGUMENT, "%s: a model of type %s cannot be %s",
                 br_auto_config_path(config), type ? type : "(none)", what);
    br_auto_config_free(config);
    return found;
}

bool pretrained_ends(const char *dir, br_generate_options *o)
{
    br_auto_config *config = br_auto_config_load(dir);
    bool there = config && br_auto_config_has(config, "eos_token_id");
    int64_t n = there ? br_auto_config_list_size(config, "eos_token_id") : 0;
    int64_t *ids = n > 0 ? calloc((size_t)n, sizeof *ids) : NULL;
    for (int64_t i = 0; ids && i < n; i++)
        ids[i] = br_auto_config_list_integer(config, "eos_token_id", i);
    if (n > 0 && !ids)
        br_raise(BR_ERROR_MEMORY, "no memory for eos_token_id");
    br_auto_config_free(config);
    o->eos_token_ids = ids;
    o->n_eos = n > 0 ? n : 0;
    return !br_failed();
}
