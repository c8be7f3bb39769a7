/* models/auto_model_internal.h - what br_auto_model_load() knows of a type of model and its
 * classes, and the files of a folder that hold the weights. */
#ifndef BR_AUTO_MODEL_INTERNAL_H
#define BR_AUTO_MODEL_INTERNAL_H

#include <brasa/io.h>
#include <brasa/models/auto_config.h>
#include <brasa/models/auto_model.h>

/* ---- Classes --------------------------------------------------------------------------------- */

/* A class of transformers. */
typedef struct br_model_class {
    const char *name;
    /* The module; its weights are drawn as br__skip_init() says. */
    void *(*make)(const br_auto_config *config);
} br_model_class;

/* A model_type. */
typedef struct br_model_family {
    const char *model_type;
    const char *prefix;            /* of the base model's keys in a model with a head: "bert." */
    const br_model_class *classes; /* the base model first; the last has no name */
    const char *const *heads;      /* beginnings of keys that may be missing; the last is NULL */
    const char *const *ignored;    /* ends of keys that old files have for no use; likewise */
    /* Gives a new weight its first value. */
    bool (*init)(const br_auto_config *config, const char *key, br_tensor *weight);
} br_model_family;

extern const br_model_family br__hf_bert_family, br__gpt2_family, br__t5_family;

/* ---- Files (models/auto_model_files.c) ------------------------------------------------------- */

/* A tensor of a file. */
typedef struct br_weight_key {
    const char *name; /* of the file */
    int shard;
    int64_t index; /* in the file */
} br_weight_key;

typedef struct br_weight_files {
    int64_t n_shards, shard_room;
    struct br_weight_shard {
        char *path;
        br_safetensors *file;
    } * shards;
    int64_t n_keys;
    br_weight_key *keys; /* by name; no name twice */
} br_weight_files;

/* Opens model.safetensors of the folder, or all that its index lists. False and an error, with
 * nothing to free. */
bool br__weight_files_open(br_weight_files *files, const char *dir, bool copy);
void br__weight_files_close(br_weight_files *files);
/* The path of a key's file, fit for a message. */
const char *br__weight_path(const br_weight_files *files, const br_weight_key *key);

#endif
