/* pretrained/auto_model_internal.h - the classes of models, a folder's weight files, and the
 * writing of a folder. */
#ifndef BR_AUTO_MODEL_INTERNAL_H
#define BR_AUTO_MODEL_INTERNAL_H

#include "io/io_internal.h"
#include "io/json.h"
#include "pretrained/family_internal.h"

/* ---- Classes --------------------------------------------------------------------------------- */

/* Returns the family of the configuration's model_type, or NULL and an error. */
const br_model_family *br__model_family(const br_auto_config *config);
/* Returns the requested class, or the first of the configuration's architectures if `requested` is
 * NULL, or the base model if there are none. Returns NULL and an error if the family has no such
 * class. */
const br_model_class *br__model_class(const br_auto_config *config, const br_model_family *family,
                                      const char *requested);
/* Checks the number of layers. In a hostile configuration it could be so large that making the
 * layers exhausts memory before their weights are found to be missing. Therefore a model of many
 * layers must have at least one tensor for each. `subject` begins the message's second half: "the
 * weight files have". */
bool br__check_layers(const char *operation, const br_auto_config *config,
                      const br_model_family *family, int64_t n_tensors, const char *subject);
/* Makes a module whose weights are not initialized. */
br_module *br__make_model(const br_model_class *class, const br_auto_config *config);

/* Replaces a tied parameter of the module at `path` by a new tensor, which it returns, or NULL and
 * an error. */
br_tensor *br__untie(br_module *module, const char *path, const char *name, const br_tensor *tied);

/* ---- Names of weights ------------------------------------------------------------------------ */

/* Returns a key of a file with the parts renamed that the map renames. The caller frees it with
 * br_free(). Returns NULL and an error if allocation fails. */
char *br__key_to_name(const br_key_map *map, const char *key);
/* Returns the list `own` of a module's weights with the keys that files have for them, in the same
 * order. With no_prefix the keys do not have the map's prefix. Returns NULL and an error if
 * allocation fails. */
br_named_list *br__file_keys(const br_key_map *map, bool no_prefix, const br_named_list *own);
/* Returns true if files may have the key, but no weight for it. */
bool br__is_ignored(const br_key_map *map, const char *key);
/* Returns true if the weight of that name stays in f32 in a model of f16. */
bool br__is_kept_in_f32(const br_model_family *family, const char *name);
/* Returns true if files have the transpose of the weight. */
bool br__is_transposed(const br_key_map *map, const br_named_tensor *own);
/* Return true if a weight of that name belongs to the pooler; to a head. */
bool br__is_pooler(const br_model_family *family, const char *name);
bool br__is_head(const br_model_family *family, const char *name);
/* Returns the prefix of the base model's names in a model with a head, "" if there is none. */
const char *br__prefix(const br_model_family *family);
bool br__begins_with(const char *text, const char *start);
/* Returns the length of `text` without its suffix `end`, or -1 if it does not end with it. */
int br__before_end(const char *text, const char *end);

/* ---- Weight files ---------------------------------------------------------------------------- */

/* A tensor of a file: a safetensors file, or a GGUF file. */
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
        br_gguf *gguf; /* instead of `file` */
    } * shards;
    int64_t n_keys;
    br_weight_key *keys; /* sorted by name, without duplicates */
    int64_t n_absent, absent_capacity;
    br_absent_key *absent;
} br_weight_files;

/* Opens the folder's model.safetensors, or all files listed by its index; or the file `dir`, if it
 * is a GGUF file. On failure, returns false and an error, and there is nothing to free. */
bool br__weight_files_open(br_weight_files *files, const char *dir, bool copy);
void br__weight_files_close(br_weight_files *files);
/* Returns the path of a key's file, escaped for a message. */
const char *br__weight_path(const br_weight_files *files, const br_weight_key *key);
/* Returns true if the weights are in a GGUF file. */
bool br__weights_are_gguf(const br_weight_files *files);
/* Return a tensor's number of dimensions, with the sizes in *sizes, and its type in the file:
 * "F32", "Q4_K". */
int br__weight_shape(const br_weight_files *files, const br_weight_key *key, const int64_t **sizes);
const char *br__weight_type(const br_weight_files *files, const br_weight_key *key);
/* Returns true if the values of the tensor are floating-point numbers of a type that Brasa reads.
 */
bool br__weight_is_floating(const br_weight_files *files, const br_weight_key *key);
/* Returns true if the tensor is quantized, in blocks of a type that Brasa reads. */
bool br__weight_is_quantized(const br_weight_files *files, const br_weight_key *key);
/* Returns the tensor with a floating-point dtype, or a quantized one with BR_QUANTIZED, owned by
 * the innermost scope, or NULL and an error. */
br_tensor *br__weight_get(const br_weight_files *files, const br_weight_key *key, br_dtype dtype);
/* Returns a path in a folder, without parts that are ".". Returns NULL without an error if the
 * value is no valid path: not a string, absolute, or with ".." or an empty part. Returns NULL and
 * an error if allocation fails. The caller frees the path with br_free(). */
char *br__inner_path(const json_t *value);

/* ---- Writing a folder ------------------------------------------------------------------------ */

/* Files that are written beside the old ones and replace them together, in the order in which they
 * were added. */
typedef struct br_folder_writer {
    const char *op, *dir;
    br_replacement *files;
    int64_t n_files, file_capacity;
    char **made; /* the directories that did not exist, parents first */
    int64_t n_made, made_capacity;
} br_folder_writer;

/* Each returns false and an error on failure. The caller then calls br__writer_end(). */
/* Creates the folder and its parents where they are missing. */
bool br__writer_begin(br_folder_writer *w, const char *op, const char *dir);
bool br__writer_add_text(br_folder_writer *w, const char *name, const char *text);
bool br__writer_add_weights(br_folder_writer *w, const char *name, const br_named_list *weights);
/* Adds copies of the files in the folder `from`/`sub` whose names match one of the patterns of
 * fnmatch(), to the subfolder `sub`. The last pattern is NULL. It is no error if there is no such
 * folder. `sub` is "" for the folder itself. */
bool br__writer_add_copies(br_folder_writer *w, const char *from, const char *sub,
                           const char *const *patterns);
/* Replaces the files. */
bool br__writer_commit(br_folder_writer *w);
/* Frees the writer. Removes what was not committed, and the directories that were made for it. */
void br__writer_end(br_folder_writer *w);

#endif
