/* brasa/io.h - safetensors files, checkpoints, and GGUF files (brasa/io/gguf.h).
 *
 * Reading maps the file. The tensors of an open file are views of the mapping and keep it alive. A
 * file is never changed in place: writers create a new file beside it and rename it over the old
 * one when it is complete and synced to disk. Files are little-endian, as the format requires. */
#ifndef BRASA_IO_H
#define BRASA_IO_H

#include <brasa/io/gguf.h>
#include <brasa/optim.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- safetensors ----------------------------------------------------------------------------- */

typedef struct br_safetensors br_safetensors;

typedef struct br_safetensors_options {
    size_t struct_size;
    size_t max_header_bytes; /* at most 100,000,000, the format's own limit */
    bool copy; /* read the data into memory instead of mapping it; safe if the file may change */
} br_safetensors_options;
#define br_safetensors_default_fields \
    .struct_size = sizeof(br_safetensors_options), .max_header_bytes = 100000000
BR_API br_safetensors_options br_safetensors_defaults(void);

/* Opens a file and checks it completely: the header, offsets without gaps or overlap, and shapes
 * against byte counts. An invalid file is BR_ERROR_FORMAT; the message names the file, the tensor
 * and the broken rule. Sizes read from the file are checked before anything of that size is
 * allocated. Returns a file for br_safetensors_close(), or NULL. `options` may be NULL. */
BR_API br_safetensors *br_safetensors_open(const char *path, const br_safetensors_options *options);
/* Closes the file. Its tensors stay valid. NULL is ignored. */
BR_API void br_safetensors_close(br_safetensors *file);
/* Returns the number of tensors, or -1 if `file` is NULL. */
BR_API int64_t br_safetensors_count(const br_safetensors *file);
/* Returns the name of tensor i, in the order of the file's data, or NULL and an error if there is
 * none. The name is valid until the file is closed. */
BR_API const char *br_safetensors_name(const br_safetensors *file, int64_t i);
/* Return the dtype of tensor i as the file names it ("F32", "BF16"), its number of dimensions (with
 * the sizes in *sizes), and the number of its bytes in the file. */
BR_API const char *br_safetensors_dtype(const br_safetensors *file, int64_t i);
BR_API int br_safetensors_shape(const br_safetensors *file, int64_t i, const int64_t **sizes);
BR_API size_t br_safetensors_bytes(const br_safetensors *file, int64_t i);
/* Returns true if the file has a tensor of that name. */
BR_API bool br_safetensors_has(const br_safetensors *file, const char *name);
/* Returns the tensor of that name, owned by the innermost scope. It keeps its dtype.
 * Returns NULL and an error if the file has no such tensor, or if Brasa does not have its dtype. */
BR_API br_tensor *br_safetensors_get(br_safetensors *file, const char *name);
/* Return the number of metadata entries; the i-th key in the order of strcmp(); and the value of a
 * key, or NULL without an error if there is none. */
BR_API int64_t br_safetensors_metadata_count(const br_safetensors *file);
BR_API const char *br_safetensors_metadata_key(const br_safetensors *file, int64_t i);
BR_API const char *br_safetensors_metadata(const br_safetensors *file, const char *key);
/* Returns all tensors in a list for br_load_state_dict(). The list keeps them alive until
 * br_named_list_free(). */
BR_API br_named_list *br_safetensors_all(br_safetensors *file);

typedef struct br_metadata {
    const char *key, *value;
} br_metadata;
/* Writes tensors of any layout under their names. A tensor that is in the list under several names
 * is written once for each name. `metadata` may be NULL if n_metadata is 0. Returns false and an
 * error on failure; an existing file is then unchanged. */
BR_API bool br_safetensors_save(const char *path, const br_named_list *tensors, int64_t n_metadata,
                                const br_metadata *metadata);

/* Writes the module's state dict with each tied tensor once, under the first of its names in the
 * order of strcmp(). Metadata maps each other name to that name, as in the Python package
 * safetensors' save_model(). */
BR_API bool br_model_save(const char *path, br_module *model, int64_t n_metadata,
                          const br_metadata *metadata);
/* Loads such a file as br_load_state_dict() does. A name that the file lacks does not count as
 * missing if the file has another name of the same tensor of the module. */
BR_API bool br_model_load(const char *path, br_module *model, bool strict, br_load_report *report);

/* ---- Checkpoints ----------------------------------------------------------------------------- */

/* A checkpoint is a safetensors file with tensors "model/<name>", "optim/<name>" and
 * "scheduler/<name>". Its metadata holds the step, the random generator's state, and an XXH3
 * checksum of each tensor, so that corruption is detected and the damaged tensor is named. */
typedef struct br_checkpoint {
    br_module *model;        /* may be NULL */
    br_optim *optim;         /* may be NULL */
    br_scheduler *scheduler; /* may be NULL */
    int64_t step;
    bool rng;            /* save or restore this thread's random generator */
    bool trainable_only; /* of the model, only the parameters that require grad */
    int64_t n_metadata;  /* additional metadata to save; ignored when loading */
    const br_metadata *metadata;
} br_checkpoint;

/* Saves the parts that are not NULL. Metadata keys must not begin with "brasa.". Returns false and
 * an error on failure; an existing file is then unchanged. */
BR_API bool br_checkpoint_save(const char *path, const br_checkpoint *checkpoint);
/* Loads the parts that are not NULL and sets checkpoint->step. Fails if the file was saved without
 * one of them. Checks the whole file first: on any error the model, optimizer, scheduler and
 * generator stay unchanged. */
BR_API bool br_checkpoint_load(const char *path, br_checkpoint *checkpoint);
/* Verifies every checksum. Returns false and an error that names the damaged tensors. A file
 * without checksums is also an error. */
BR_API bool br_checkpoint_verify(br_safetensors *file);

#ifdef __cplusplus
}
#endif
#endif
