/* io/gguf_internal.h - shared by the files of the GGUF reader: the types of tensors and metadata,
 * and an open file. */
#ifndef BR_GGUF_INTERNAL_H
#define BR_GGUF_INTERNAL_H

#include "io/io_internal.h"

enum {
    BR_GGUF_MAX_DIMS = 4,
    BR_GGUF_MAX_NAME = 65535, /* bytes of a key or a tensor's name */
    BR_GGUF_ALIGNMENT = 32,   /* if the file does not have general.alignment */
};

/* ---- Types of tensors ------------------------------------------------------------------------ */

/* The elements of a tensor are stored in blocks. The numbers of F32, F16 and so on are blocks of
 * one element. */
typedef struct br_gguf_kind {
    const char *name;
    unsigned block; /* elements of a block */
    unsigned bytes; /* bytes of a block */
} br_gguf_kind;

/* Returns NULL if the format has no type of that number. */
const br_gguf_kind *br__gguf_kind(uint32_t number);

/* Finds the type of the blocks of a quantized tensor that Brasa supports. Returns false without an
 * error for numbers and for other types. */
static inline bool br__gguf_block_type(const br_gguf_kind *kind, br_block_type *type)
{
    return br__block_type_named(kind->name, type);
}

/* ---- Types of metadata ----------------------------------------------------------------------- */

/* The numbers of the format. */
typedef enum br_gguf_value {
    BR_GGUF_UINT8,
    BR_GGUF_INT8,
    BR_GGUF_UINT16,
    BR_GGUF_INT16,
    BR_GGUF_UINT32,
    BR_GGUF_INT32,
    BR_GGUF_FLOAT32,
    BR_GGUF_BOOL,
    BR_GGUF_STRING,
    BR_GGUF_ARRAY,
    BR_GGUF_UINT64,
    BR_GGUF_INT64,
    BR_GGUF_FLOAT64,
    BR_GGUF_VALUES
} br_gguf_value;

/* Returns the type's name, such as "uint32". */
const char *br__gguf_value_name(br_gguf_value type);
/* Returns the bytes of a value; 0 for strings and arrays. */
size_t br__gguf_value_size(br_gguf_value type);

/* ---- An open file ---------------------------------------------------------------------------- */

/* A key and its value. A value that is no array is kept as an array of one. */
typedef struct br_gguf_entry {
    const char *key;
    bool is_array;
    br_gguf_value type; /* of the elements */
    uint64_t n;
    const unsigned char *data; /* numbers and bools, in the file's bytes; not aligned */
    const char *text;          /* of a string that is no element of an array, with a NUL */
    size_t length;
    const uint64_t *strings; /* of an array of strings: where each begins in the file's bytes */
} br_gguf_entry;

typedef struct br_gguf_tensor {
    const char *name;
    const br_gguf_kind *type;
    int ndim;
    int64_t sizes[BR_GGUF_MAX_DIMS]; /* PyTorch's order */
    int64_t numel;
    uint64_t begin, bytes; /* from the start of the data */
} br_gguf_tensor;

struct br_gguf {
    char *path;
    br_mapping *mapping;
    const unsigned char *base; /* the whole file */
    size_t bytes;
    char *data; /* of the tensors; NULL if there are none */
    uint32_t version;
    br_arena arena; /* names, keys, strings, arrays */
    br_gguf_entry *entries;
    const br_gguf_entry **by_key;
    size_t n_entries;
    br_gguf_tensor *tensors;
    const br_gguf_tensor **by_name;
    size_t n_tensors;
};

/* Reads and checks file->base. Returns false and an error if the file is invalid. The caller frees
 * the arena in both cases; everything that this function allocates is in the arena. */
bool br__gguf_read(br_gguf *file);
/* Return NULL, without an error, if there is no such key or tensor. */
const br_gguf_entry *br__gguf_entry(const br_gguf *file, const char *key);
const br_gguf_tensor *br__gguf_tensor(const br_gguf *file, const char *name);

#endif
