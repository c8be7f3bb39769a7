/* brasa/io.h - safetensors files and checkpoints.
 *
 * Reading maps the file: tensors of an open file are views of the mapping and keep it alive. A file
 * is never changed in place: writers make a new one beside it and rename it over the old one only
 * when it is complete and on disk. Files are little-endian, as the format demands. */
#ifndef BRASA_IO_H
#define BRASA_IO_H

#include <brasa/optim.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- safetensors ----------------------------------------------------------------------------- */

typedef struct br_safetensors br_safetensors;

typedef struct br_safetensors_options {
    size_t max_header_bytes; /* 0: 100,000,000, the format's own limit */
    bool copy;               /* read into memory instead of mapping: safe if the file may change */
} br_safetensors_options;

/* Opens and checks a file whole: header, offsets without holes or overlap, shapes against sizes.
 * Anything else is BR_ERROR_FORMAT with file, tensor and rule, before any memory of a size taken
 * from the file is allocated. `options` may be NULL. */
BR_API br_safetensors *br_safetensors_open(const char *path, const br_safetensors_options *options);
/* Tensors taken from it stay valid. NULL is ignored. */
BR_API void br_safetensors_close(br_safetensors *file);
BR_API int64_t br_safetensors_count(const br_safetensors *file);
/* Names in the order of the file's data. */
BR_API const char *br_safetensors_name(const br_safetensors *file, int64_t i);
/* The file's name of its dtype ("F32", "BF16"), its shape, and the bytes it takes. */
BR_API const char *br_safetensors_dtype(const br_safetensors *file, int64_t i);
BR_API int br_safetensors_shape(const br_safetensors *file, int64_t i, const int64_t **sizes);
BR_API size_t br_safetensors_bytes(const br_safetensors *file, int64_t i);
/* True if the file has that tensor. */
BR_API bool br_safetensors_has(const br_safetensors *file, const char *name);
/* The tensor of that name, of the innermost scope: F32, F64, I64, BOOL; F16 and BF16 are copied, as
 * F32. NULL and an error for a name the file lacks or a dtype that Brasa does not have. */
BR_API br_tensor *br_safetensors_get(br_safetensors *file, const char *name);
/* Metadata: number, i-th key in the order of strcmp(); value of a key or NULL (no error). */
BR_API int64_t br_safetensors_metadata_count(const br_safetensors *file);
BR_API const char *br_safetensors_metadata_key(const br_safetensors *file, int64_t i);
BR_API const char *br_safetensors_metadata(const br_safetensors *file, const char *key);
/* Every tensor, in a list for br_load_state_dict() that keeps them alive. */
BR_API br_named_list *br_safetensors_all(br_safetensors *file);

typedef struct br_metadata {
    const char *key, *value;
} br_metadata;
/* Writes tensors of any layout under their names; tied tensors are written once under each name. */
BR_API bool br_safetensors_save(const char *path, const br_named_list *tensors, int64_t n_metadata,
                                const br_metadata *metadata);

/* Writes the module's state dict with each tied tensor once, under the first of its names in the
 * order of strcmp(); metadata gives that for each other name, as safetensors' save_model() does. */
BR_API bool br_model_save(const char *path, br_module *model, int64_t n_metadata,
                          const br_metadata *metadata);
/* br_load_state_dict() from such a file: a name that it lacks is not missing if the module has the
 * same tensor under another, which it has. */
BR_API bool br_model_load(const char *path, br_module *model, bool strict, br_load_report *report);

/* ---- Checkpoints ----------------------------------------------------------------------------- */

/* A checkpoint is a safetensors file: "model/<name>", "optim/<name>", "scheduler/<name>", and
 * metadata with the step, the generator's state, and an XXH3 checksum of each tensor, so that a
 * flipped bit is named. */
typedef struct br_checkpoint {
    br_module *model;        /* may be NULL */
    br_optim *optim;         /* may be NULL */
    br_scheduler *scheduler; /* may be NULL */
    int64_t step;
    bool rng;           /* save, restore the generator of this thread */
    int64_t n_metadata; /* more metadata to save; ignored by loading */
    const br_metadata *metadata;
} br_checkpoint;

BR_API bool br_checkpoint_save(const char *path, const br_checkpoint *checkpoint);
/* Checks the whole file first; on any error model, optimizer, scheduler and generator stay as they
 * were. Sets checkpoint->step. */
BR_API bool br_checkpoint_load(const char *path, br_checkpoint *checkpoint);
/* Checks every checksum; false and an error that names the tensors that are off. A file without
 * checksums is an error too. */
BR_API bool br_checkpoint_verify(br_safetensors *file);

#ifdef __cplusplus
}
#endif
#endif
