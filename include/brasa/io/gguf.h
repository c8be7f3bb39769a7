/* brasa/io/gguf.h - GGUF files, the format of llama.cpp: metadata, and tensors that may be
 * quantized.
 *
 *     br_gguf *file = br_gguf_open("model.gguf", NULL);
 *     const char *architecture = br_gguf_string(file, "general.architecture", NULL);
 *     br_tensor *w = br_gguf_get(file, "token_embd.weight", BR_F32);
 *     br_gguf_close(file);
 *
 * Reading maps the file, as in brasa/io.h. docs/gguf.md lists the types and what is refused. */
#ifndef BRASA_IO_GGUF_H
#define BRASA_IO_GGUF_H

#include <brasa/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An open file is immutable, so threads may share it. */
typedef struct br_gguf br_gguf;

typedef struct br_gguf_options {
    size_t struct_size;
    bool copy; /* read the file into memory instead of mapping it; safe if the file may change */
} br_gguf_options;
#define br_gguf_default_fields .struct_size = sizeof(br_gguf_options)
BR_API br_gguf_options br_gguf_defaults(void);

/* Opens a file of version 2 or 3 and checks it completely, except for the values of the tensors. An
 * invalid file is BR_ERROR_FORMAT; the message names the file, the key or the tensor, and the
 * broken rule. Sizes read from the file are checked before anything of that size is allocated.
 * Returns a file for br_gguf_close(), or NULL. `options` may be NULL. */
BR_API br_gguf *br_gguf_open(const char *path, const br_gguf_options *options);
/* Returns true if `path` ends in ".gguf" and is no folder, or if it is a regular file that begins
 * with "GGUF". The file need not exist in the first case: opening it then tells why. */
BR_API bool br_gguf_is_file(const char *path);
/* Closes the file. Its tensors stay valid. NULL is ignored. */
BR_API void br_gguf_close(br_gguf *file);
/* Returns the version of the format, or -1 if `file` is NULL. */
BR_API int br_gguf_version(const br_gguf *file);

/* ---- Tensors --------------------------------------------------------------------------------- */

/* Returns the number of tensors, or -1 if `file` is NULL. */
BR_API int64_t br_gguf_count(const br_gguf *file);
/* Returns the name of tensor i, in the order of the file's list, or NULL and an error if there is
 * none. The name is valid until the file is closed. */
BR_API const char *br_gguf_name(const br_gguf *file, int64_t i);
/* Return the type of tensor i as the format names it ("F32", "Q4_K"), its number of dimensions
 * (with the sizes in *sizes), and the number of its bytes in the file. The sizes are in PyTorch's
 * order: the last dimension is contiguous. */
BR_API const char *br_gguf_type(const br_gguf *file, int64_t i);
BR_API int br_gguf_shape(const br_gguf *file, int64_t i, const int64_t **sizes);
BR_API size_t br_gguf_bytes(const br_gguf *file, int64_t i);
/* Returns true if the file has a tensor of that name. */
BR_API bool br_gguf_has(const br_gguf *file, const char *name);
/* Returns the tensor of that name with this dtype, owned by the innermost scope. A tensor that the
 * file stores with this dtype is a view of the file's memory; for a quantized tensor this dtype is
 * BR_QUANTIZED. Any other tensor is converted to a new tensor; `dtype` must then be a
 * floating-point dtype. Blocks of a quantized type are dequantized in f32 and then rounded to the
 * dtype. Returns NULL and an error if the file has no such tensor, or if Brasa does not support its
 * type. */
BR_API br_tensor *br_gguf_get(br_gguf *file, const char *name, br_dtype dtype);

/* ---- Metadata -------------------------------------------------------------------------------- */

/* Return the number of keys, or -1 if `file` is NULL; and the i-th key, in the order of the file.
 */
BR_API int64_t br_gguf_metadata_count(const br_gguf *file);
BR_API const char *br_gguf_metadata_key(const br_gguf *file, int64_t i);
/* Returns the type of a key's value: "uint8", "int8", "uint16", "int16", "uint32", "int32",
 * "float32", "bool", "string", "array", "uint64", "int64" or "float64". Returns NULL without an
 * error if the file has no such key. */
BR_API const char *br_gguf_metadata_type(const br_gguf *file, const char *key);
/* Return a value. It is an error if the file has no such key, or if its value has another type.
 * br_gguf_integer() accepts integers of any size that fit in int64_t, and br_gguf_number() integers
 * and floating-point numbers. On error they return 0 or false. */
BR_API int64_t br_gguf_integer(const br_gguf *file, const char *key);
BR_API double br_gguf_number(const br_gguf *file, const char *key);
BR_API bool br_gguf_bool(const br_gguf *file, const char *key);
/* Returns a string, valid until the file is closed, or NULL and an error. A NUL follows it. Its
 * length in bytes is stored in *length, which may be NULL. The bytes may be any, also NULs. */
BR_API const char *br_gguf_string(const br_gguf *file, const char *key, size_t *length);

/* Return the type of an array's elements, or NULL and an error; and the number of elements, or -1
 * and an error. */
BR_API const char *br_gguf_list_type(const br_gguf *file, const char *key);
BR_API int64_t br_gguf_list_size(const br_gguf *file, const char *key);
/* Return element i of an array. The errors are those of the functions for values, and an index that
 * is out of range. */
BR_API int64_t br_gguf_list_integer(const br_gguf *file, const char *key, int64_t i);
BR_API double br_gguf_list_number(const br_gguf *file, const char *key, int64_t i);
BR_API bool br_gguf_list_bool(const br_gguf *file, const char *key, int64_t i);
/* Returns the first byte of a string in the file's memory, valid until the file is closed, or NULL
 * and an error. NO NUL FOLLOWS IT: its length in bytes is stored in *length, which is required. */
BR_API const char *br_gguf_list_string(const br_gguf *file, const char *key, int64_t i,
                                       size_t *length);

#ifdef __cplusplus
}
#endif
#endif
