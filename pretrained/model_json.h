/* pretrained/model_json.h - small JSON files beside a model's config.json. */
#ifndef BR_MODEL_JSON_H
#define BR_MODEL_JSON_H

#include <brasa/tensor.h>
#include <jansson.h>

/* A JSON file of a folder. `value` is NULL if the file does not exist. */
typedef struct br_model_json {
    const char *op; /* begins the messages of errors */
    char *path;
    json_t *value;
} br_model_json;

/* Sets the error "PATH: ..." and returns false. */
bool br__model_json_refuse(const br_model_json *f, const char *format, ...) BR_PRINTF(2, 3);
/* Sets the error that a key has an invalid value, and returns false. `must` tells what is valid. */
bool br__model_json_refuse_value(const br_model_json *f, const char *key, const json_t *value,
                                 const char *must);
/* Reads DIR/NAME. Returns true without a value if the file does not exist and is not required. Call
 * br__model_json_close() in any case. */
bool br__model_json_open_any(const char *op, br_model_json *f, const char *dir, const char *name,
                             bool required);
/* The same, but the file must contain a value of this type, a list or an object. */
bool br__model_json_open(const char *op, br_model_json *f, const char *dir, const char *name,
                         json_type type, bool required);
/* Checks that the file, if it exists, contains a value of this type. */
bool br__model_json_check_type(const br_model_json *f, json_type type);
void br__model_json_close(br_model_json *f);
/* Returns the value of a key; NULL if it is missing or null. */
json_t *br__model_json_get(const br_model_json *f, const char *key);
/* Sets *flag to the value of the key if there is one. */
bool br__model_json_flag(const br_model_json *f, const char *key, bool *flag);

#endif
