/* io/io_internal.h - what the files of io/ share: checking text, an arena, opening and
 * replacing files, the dtypes of the safetensors format, and a file's checked header. */
#ifndef BR_IO_INTERNAL_H
#define BR_IO_INTERNAL_H

#include "tensor/tensor_internal.h"

#include <brasa/io.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#    error "safetensors files are little-endian and are read in place: so must the machine be"
#endif

/* ---- Text ------------------------------------------------------------------------------------ */

bool br__is_utf8(const char *text, size_t n);

/* ---- Arena: many small blocks that are freed together ---------------------------------------- */

typedef struct br_arena {
    struct br_arena_chunk *chunk;
    size_t used;
} br_arena;

/* Aligned to 8 bytes; NULL and a pending error if memory fails. A zeroed struct is an empty arena.
 */
void *br__arena_alloc(br_arena *arena, size_t size);
/* A copy of n bytes with a NUL behind them. */
char *br__arena_text(br_arena *arena, const char *text, size_t n);
/* The two texts one after the other. */
char *br__arena_join(br_arena *arena, const char *a, const char *b);
void br__arena_free(br_arena *arena);

/* ---- Files ----------------------------------------------------------------------------------- */

/* Opens a regular file for reading, never waiting for one that is none; its descriptor, or -1 and
 * an error. */
int br__open_file(const char *op, const char *path, uint64_t *size);
/* Reads exactly n bytes from `offset`. */
bool br__read_file(const char *op, const char *path, int fd, void *out, size_t n, uint64_t offset);

/* The whole file as text with a NUL behind it, for br_free(); NULL and an error, also for a file of
 * more than `limit` bytes. */
char *br__read_text(const char *op, const char *path, uint64_t limit, size_t *length);

/* A new file beside `path` that takes its name when it is complete. */
typedef struct br_replacement {
    const char *op;
    char *path, *temporary;
    int fd, directory;
} br_replacement;

/* Each false and an error on failure, with nothing left behind; the file under `path`, if there is
 * one, is then as it was. */
bool br__replace_begin(br_replacement *r, const char *op, const char *path);
bool br__replace_write(br_replacement *r, const void *data, size_t n);
bool br__replace_commit(br_replacement *r);
/* Gives the new file up; harmless after a failure. */
void br__replace_abandon(br_replacement *r);

/* ---- The format ------------------------------------------------------------------------------ */

enum { BR_HEADER_MAX = 100 * 1000 * 1000 }; /* bytes: the format's own limit */

typedef struct br_file_dtype {
    const char *name;
    unsigned bits;
    int dtype; /* br_dtype, or -1 if Brasa has none */
    /* Of a dtype that is read as F32: n elements of it as such. */
    void (*to_f32)(float *out, const char *in, int64_t n);
} br_file_dtype;

const br_file_dtype *br__file_dtype_of(br_dtype dtype);

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
    br_file_entry *entries; /* in the order of the data, which they fill without holes or overlap */
    size_t n_entries;
    int64_t entry_room;
    const br_file_entry **by_name;
    br_metadata *metadata; /* by key */
    size_t n_metadata;
    int64_t metadata_room;
} br_header;

/* Reads and checks the n bytes of a header that `data_bytes` bytes of data follow. The caller frees
 * *header in any case; zeroed before. */
bool br__header_read(br_header *header, const char *path, const char *text, size_t n,
                     uint64_t data_bytes);
void br__header_free(br_header *header);
/* NULL if there is none. */
const br_file_entry *br__header_find(const br_header *header, const char *name);
const char *br__header_metadata(const br_header *header, const char *key);

/* t, or a contiguous copy of it in the innermost scope; NULL on error. */
const br_tensor *br__dense(const char *op, const br_tensor *t);

/* ---- An open file ---------------------------------------------------------------------------- */

/* The file's bytes in memory, held by the open file and by each tensor that is a view of them. */
typedef struct br_mapping {
    atomic_int refs;
    char *base;
    size_t bytes;
    br_extent *extent;
    bool copied; /* read into a block of ours */
} br_mapping;

struct br_safetensors {
    char *path;
    uint64_t bytes; /* the whole file */
    br_header header;
    br_mapping *mapping; /* NULL if there is no data */
    const char *data;
};

/* The tensor of an entry; NULL and an error as br_safetensors_get(). */
br_tensor *br__entry_tensor(br_safetensors *file, const br_file_entry *entry);

#endif
