/* pretrained/auto_config_internal.h - an open config.json. */
#ifndef BR_AUTO_CONFIG_INTERNAL_H
#define BR_AUTO_CONFIG_INTERNAL_H

#include <brasa/pretrained/family.h>
#include <jansson.h>

/* The keys of every model_type, known or not; only known ones have limits. The lists of a family
 * take precedence. */
extern const br_config_keys br__common_keys;

struct br_auto_config {
    char *path;                    /* path of the file */
    const br_model_family *family; /* of its model_type; NULL: unknown */
    json_t *file;                  /* the file's object */
    json_t *defaults;              /* values of keys that are not in the file */
};

/* Returns the configuration of a text, for br_auto_config_free(), or NULL and an error. Errors name
 * the file `path`. */
br_auto_config *br__config_parse(const char *path, const char *text);

/* Returns the keys of the configuration's family, or empty lists if it is unknown. */
const br_config_keys *br__config_keys_of(const br_auto_config *config);
/* Returns the own name of a key in the configuration's family, which may be a synonym. */
const char *br__config_own_name(const br_auto_config *config, const char *key);
/* Replaces the file's values by those of a JSON object, under each of their names. NULL replaces
 * nothing. Returns false and an error on failure. */
bool br__config_override(br_auto_config *config, const char *overrides);
/* Calls `visit` with every key of the file that is not null and not in its family's lists. Such a
 * key may change a model's numbers. Stops and returns false when `visit` returns false. */
bool br__config_each_unknown(const br_auto_config *config, bool (*visit)(void *, const char *key),
                             void *context);

#endif
