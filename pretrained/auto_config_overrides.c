/* pretrained/auto_config_overrides.c - the names of a key, and values that replace those of a
 * config.json. */
#include "io/json.h"
#include "nn/nn_internal.h"
#include "pretrained/auto_config_internal.h"

#include <string.h>

static const char op[] = "auto_config";

const char *br__config_own_name(const br_auto_config *config, const char *key)
{
    for (const br_config_alias *s = br__config_keys_of(config)->aliases; s && s->name; s++)
        if (strcmp(s->name, key) == 0)
            return s->key;
    return key;
}

/* Removes the value of a key from the file, under each of its names. */
static void forget(br_auto_config *config, const char *key)
{
    const char *own = br__config_own_name(config, key);
    json_object_del(config->file, own);
    for (const br_config_alias *s = br__config_keys_of(config)->aliases; s && s->name; s++)
        if (strcmp(s->key, own) == 0)
            json_object_del(config->file, s->name);
}

bool br__config_override(br_auto_config *config, const char *overrides)
{
    if (!overrides)
        return true;
    json_error_t error = { 0 };
    json_t *object = br__json_parse(op, "overrides", overrides, strlen(overrides), &error), *value;
    const char *key;
    if (!object && !br_failed())
        br_fail(BR_ERROR_ARGUMENT, op, "overrides is not JSON: line %d, column %d: %s", error.line,
                error.column, br_printable(error.text));
    else if (object && !json_is_object(object))
        br_fail(BR_ERROR_ARGUMENT, op, "overrides is not a JSON object");
    json_object_foreach(object, key, value)
    {
        forget(config, key);
        if (json_object_set(config->file, key, value) != 0)
            br_fail(BR_ERROR_MEMORY, op, "cannot allocate memory for %s", br_printable(key));
    }
    json_decref(object);
    return !br_failed();
}
