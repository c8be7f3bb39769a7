/* models/auto_config_internal.h - an open config.json, and what is known of each type of model. */
#ifndef BR_AUTO_CONFIG_INTERNAL_H
#define BR_AUTO_CONFIG_INTERNAL_H

#include <brasa/models/auto_config.h>
#include <jansson.h>

/* The value of a key that a file lacks, as JSON. "=other" is the value of another key, which stands
 * for null, too. */
typedef struct br_config_default {
    const char *key, *json;
} br_config_default;

/* A name under which a key is known besides its own. */
typedef struct br_config_spelling {
    const char *name, *key;
} br_config_spelling;

/* A type of model; the lists end with a row of NULLs. */
typedef struct br_config_type {
    const char *model_type;
    const br_config_default *defaults;
    const br_config_spelling *spellings;
} br_config_type;

/* What holds for every type, known or not, unless its own list says otherwise. */
extern const br_config_default br__config_defaults[];
/* The type of that name; one without defaults and spellings if it is unknown or NULL. */
const br_config_type *br__config_type(const char *model_type);

struct br_auto_config {
    char *path; /* of the file */
    uint64_t bytes;
    const br_config_type *type;
    json_t *file;     /* the file's object */
    json_t *defaults; /* what holds instead of keys that are not in it */
};

#endif
