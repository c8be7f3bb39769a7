/* models/auto_model_internal.h - the tables of model types and classes for br_auto_model_load(),
 * and a folder's weight files. */
#ifndef BR_AUTO_MODEL_INTERNAL_H
#define BR_AUTO_MODEL_INTERNAL_H

#include <brasa/io.h>
#include <brasa/models/auto_config.h>
#include <brasa/models/auto_model.h>

/* ---- Classes --------------------------------------------------------------------------------- */

/* A class of transformers. */
typedef struct br_model_class {
    const char *name;
    /* Makes the module. Its weights are not initialized under br__skip_init(). */
    void *(*make)(const br_auto_config *config);
} br_model_class;

/* A model_type. */
typedef struct br_model_family {
    const char *model_type;
    const char *prefix;            /* of the base model's keys in a model with a head: "bert." */
    const br_model_class *classes; /* the base model first; the last has no name */
    const char *const *heads;      /* prefixes of keys that may be missing; the last is NULL */
    const char *const *ignored;    /* suffixes of unused keys of old files; the last is NULL */
    /* Initializes a weight that is missing in the files. */
    bool (*init)(const br_auto_config *config, const char *key, br_tensor *weight);
} br_model_family;

extern const br_model_family br__hf_bert_family, br__gpt2_family, br__t5_family;

/* ---- Files (models/auto_model_files.c) ------------------------------------------------------- */

/* A tensor of a file. */
typedef struct br_weight_key {
    const char *name; /* owned by the file */
    int shard;
    int64_t index; /* in the file */
} br_weight_key;

/* A key that the index lists in a shard that does not have it. */
typedef struct br_absent_key {
    char *name;
    int shard;
} br_absent_key;

typedef struct br_weight_files {
    char *index; /* path of the index, or NULL if there is only one file */
    int64_t n_shards, shard_capacity;
    struct br_weight_shard {
        char *path;
        br_safetensors *file;
    } * shards;
    int64_t n_keys;
    br_weight_key *keys; /* sorted by name, without duplicates */
    int64_t n_absent, absent_capacity;
    br_absent_key *absent;
} br_weight_files;

/* Opens the folder's model.safetensors, or all files listed by its index. On failure, returns false
 * and an error, and there is nothing to free. */
bool br__weight_files_open(br_weight_files *files, const char *dir, bool copy);
void br__weight_files_close(br_weight_files *files);
/* Returns the path of a key's file, escaped for a message. */
const char *br__weight_path(const br_weight_files *files, const br_weight_key *key);

#endif
