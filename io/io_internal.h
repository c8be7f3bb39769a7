/* io/io_internal.h - shared by the files of io/: UTF-8 checks, an arena, opening and replacing
 * files, the bytes of open files, the dtypes of the safetensors format, and a file's checked
 * header. */
#ifndef BR_IO_INTERNAL_H
#define BR_IO_INTERNAL_H

#include "tensor/tensor_internal.h"

#include <brasa/io.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#    error "requires a little-endian machine: safetensors files are little-endian and read in place"
#endif

/* ---- Text ------------------------------------------------------------------------------------ */

bool br__is_utf8(const char *text, size_t n);

/* ---- Arena: many small blocks that are freed together ---------------------------------------- */

typedef struct br_arena {
    struct br_arena_chunk *chunk;
    size_t used;
} br_arena;

/* Returns `size` bytes aligned to 8 bytes, or NULL and an error if allocation fails. A zeroed
 * struct is an empty arena. */
void *br__arena_alloc(br_arena *arena, size_t size);
/* Copies n bytes and appends a NUL. */
char *br__arena_text(br_arena *arena, const char *text, size_t n);
/* Concatenates two texts. */
char *br__arena_join(br_arena *arena, const char *a, const char *b);
void br__arena_free(br_arena *arena);

/* ---- Files ----------------------------------------------------------------------------------- */

/* Opens a regular file for reading. Returns its descriptor, or -1 and an error. Never blocks on a
 * FIFO or device. */
int br__open_file(const char *op, const char *path, uint64_t *size);
/* Reads exactly n bytes from `offset`. */
bool br__read_file(const char *op, const char *path, int fd, void *out, size_t n, uint64_t offset);

/* Reads a whole file and appends a NUL. The caller frees the text with br_free(). Returns NULL and
 * an error on failure, or if the file is larger than `limit` bytes. */
char *br__read_text(const char *op, const char *path, uint64_t limit, size_t *length);

/* Makes a directory and its parents, unless they exist. Calls `note`, unless it is NULL, with each
 * that was made; it takes ownership of the path, and returns false on failure. Returns false and an
 * error on failure. */
bool br__make_directory(const char *op, const char *path, bool (*note)(void *context, char *path),
                        void *context);

/* A temporary file beside `path` that is renamed to `path` when it is complete. */
typedef struct br_replacement {
    const char *op;
    char *path, *temporary;
    int fd, directory;
} br_replacement;

/* Each returns false and an error on failure. The temporary file is then removed, and an existing
 * file at `path` is unchanged. */
bool br__replace_begin(br_replacement *r, const char *op, const char *path);
bool br__replace_write(br_replacement *r, const void *data, size_t n);
/* Syncs the temporary file to disk, which br__replace_commit() also does. A program that replaces
 * several files calls this for each of them first, so that a full disk is found before the first
 * file is replaced. */
bool br__replace_sync(br_replacement *r);
bool br__replace_commit(br_replacement *r);
/* Removes the temporary file. May be called after a failure. */
void br__replace_abandon(br_replacement *r);

/* ---- The bytes of an open file --------------------------------------------------------------- */

/* The file's bytes in memory. The open file and each tensor that views them hold a reference. */
typedef struct br_mapping {
    atomic_int refs;
    char *base;
    size_t bytes;
    br_extent *extent;
    bool copied; /* read into an allocated block instead of mapped */
} br_mapping;

/* Maps the file of `size` bytes, or copies its bytes from `offset` to the end into memory. There
 * must be at least one byte. Stores the address of the byte at `offset` in *data. Returns a mapping
 * with one reference, or NULL and an error. */
br_mapping *br__mapping_new(const char *op, const char *path, int fd, uint64_t offset,
                            uint64_t size, bool copy, char **data);
/* Drops a reference. NULL is ignored. Takes a void pointer as br_borrow() requires. */
void br__mapping_release(void *mapping);
/* Returns a tensor that views the bytes at `data` and holds a reference, or a copy of them if they
 * are not aligned for the dtype. There must be at least one element. */
br_tensor *br__mapping_tensor(br_mapping *mapping, int ndim, const int64_t *sizes, br_dtype dtype,
                              char *data);

/* ---- The format ------------------------------------------------------------------------------ */

enum { BR_HEADER_MAX = 100 * 1000 * 1000 }; /* bytes: the format's own limit */

typedef struct br_file_dtype {
    const char *name;
    unsigned bits;
} br_file_dtype;

/* Returns the format's dtype; the dtypes lie in the order in which a writer stores tensors. */
const br_file_dtype *br__file_dtype_of(br_dtype dtype);
/* Returns false if Brasa has no such dtype. */
bool br__dtype_from_file(const br_file_dtype *stored, br_dtype *dtype);

typedef struct br_file_entry {
    const char *name;
    const br_file_dtype *dtype;
    const int64_t *sizes;
    int ndim;
    int64_t numel;
    uint64_t begin, end; /* bytes from the start of the data */
} br_file_entry;

typedef struct br_header {
    br_arena arena;         /* names, sizes, metadata */
    br_file_entry *entries; /* sorted by offset; they fill the data without gaps or overlap */
    size_t n_entries;
    int64_t entry_capacity;
    const br_file_entry **by_name;
    br_metadata *metadata; /* sorted by key */
    size_t n_metadata;
    int64_t metadata_capacity;
} br_header;

/* Reads and checks the n bytes of a header that is followed by `data_bytes` bytes of data. The
 * caller zeroes *header before the call and frees it afterwards, also on failure. */
bool br__header_read(br_header *header, const char *path, const char *text, size_t n,
                     uint64_t data_bytes);
void br__header_free(br_header *header);
/* Return NULL, without an error, if there is no such tensor or key. */
const br_file_entry *br__header_find(const br_header *header, const char *name);
const char *br__header_metadata(const br_header *header, const char *key);

/* Begins a replacement of the file at `path`, with the arguments and checks of
 * br_safetensors_save(), and writes it completely. The caller commits it. */
bool br__safetensors_write(br_replacement *file, const char *path, const br_named_list *tensors,
                           int64_t n_metadata, const br_metadata *metadata);

/* Returns t if it is contiguous, else a contiguous copy in the innermost scope; NULL on error. */
const br_tensor *br__dense(const char *op, const br_tensor *t);

/* ---- An open file ---------------------------------------------------------------------------- */

struct br_safetensors {
    char *path;
    uint64_t bytes; /* the whole file */
    br_header header;
    br_mapping *mapping; /* NULL if there is no data */
    const char *data;
};

/* Returns the tensor of an entry, with the same errors as br_safetensors_get(). */
br_tensor *br__entry_tensor(br_safetensors *file, const br_file_entry *entry);

#endif
