/* pretrained/auto_model_internal.h - a folder's weight files. */
#ifndef BR_AUTO_MODEL_INTERNAL_H
#define BR_AUTO_MODEL_INTERNAL_H

#include <brasa/io.h>

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
