/* pretrained/auto_config_internal.h - an open config.json, and tables of the keys of each model
 * type.
 */
#ifndef BR_AUTO_CONFIG_INTERNAL_H
#define BR_AUTO_CONFIG_INTERNAL_H

#include <brasa/pretrained/auto_config.h>
#include <jansson.h>

/* The default of a key, as JSON. "=other" means the value of another key. After "|", the default
 * also replaces null. */
typedef struct br_config_default {
    const char *key, *json;
} br_config_default;

/* A synonym of a key. */
typedef struct br_config_alias {
    const char *name, *key;
} br_config_alias;

/* A key that changes a model's numbers, and its only supported value, as JSON. null counts as a
 * missing key, unless it is refused. */
typedef struct br_config_limit {
    const char *key, *json;
    bool refuses_null;
} br_config_limit;

/* A model type. The lists end with a row of NULLs. */
typedef struct br_config_type {
    const char *model_type;
    const br_config_default *defaults;
    const br_config_alias *aliases;
    const br_config_limit *limits;
    const char *const *harmless; /* other keys, which do not change numbers */
} br_config_type;

/* Defaults for every model type, known or not. A type's own list takes precedence. */
extern const br_config_default br__config_defaults[];
/* Limits and harmless keys for every known type, in addition to its own lists. */
extern const br_config_limit br__config_limits[];
extern const char *const br__config_harmless[];
/* Returns the type of that name, or one with empty lists if the name is unknown or NULL. */
const br_config_type *br__config_type(const char *model_type);

struct br_auto_config {
    char *path; /* path of the file */
    const br_config_type *type;
    json_t *file;     /* the file's object */
    json_t *defaults; /* values of keys that are not in the file */
};

/* Returns the configuration of a text, for br_auto_config_free(), or NULL and an error. Errors name
 * the file `path`. */
br_auto_config *br__config_parse(const char *path, const char *text);

/* Calls `visit` with every key of the file that is not null and not in its type's lists. Such a key
 * may change a model's numbers. Stops and returns false when `visit` returns false. */
bool br__config_each_unknown(const br_auto_config *config, bool (*visit)(void *, const char *key),
                             void *context);

#endif
