/* io/gguf.c - opens GGUF files and returns their tensors.
 *
 * The whole file is mapped privately. As for safetensors files (io/safetensors.c), a mapped file
 * must not be changed while it is open or one of its tensors is live. */
#include "io/gguf_internal.h"

#include <brasa/ops.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

BR_DEFINE_DEFAULTS(br_gguf)

static const char op[] = "gguf";

/* ---- Opening --------------------------------------------------------------------------------- */

static bool load(br_gguf *file, int fd, uint64_t size, bool copy)
{
    if (size == 0)
        return br__fail_file(BR_ERROR_FORMAT, op, file->path, "is not a GGUF file: it is empty");
    char *data;
    file->mapping = br__mapping_new(op, file->path, fd, 0, size, copy, &data);
    if (!file->mapping)
        return false;
    file->base = (const unsigned char *)data;
    file->bytes = (size_t)size;
    return br__gguf_read(file);
}

br_gguf *br_gguf_open(const char *path, const br_gguf_options *options)
{
    if (!br__required(op, "path", path))
        return NULL;
    const br_gguf_options *o = BR_OPTIONS_OF("gguf", br_gguf, options);
    uint64_t size;
    int fd = br__open_file(op, path, &size);
    if (fd < 0)
        return NULL;
    br_gguf *file = BR_NEW(br_gguf);
    bool ok = file && (file->path = br_strdup(path)) && load(file, fd, size, o->copy);
    close(fd);
    if (ok)
        return file;
    br_gguf_close(file);
    return NULL;
}

void br_gguf_close(br_gguf *file)
{
    if (!BR_END("gguf_close", file))
        return;
    br__mapping_release(file->mapping);
    br__arena_free(&file->arena);
    br_free(file->path);
    BR_FREE(file);
}

int br_gguf_version(const br_gguf *file)
{
    return BR_LIVE(op, file) ? (int)file->version : -1;
}

bool br_gguf_is_file(const char *path)
{
    struct stat st;
    if (!br__required(op, "path", path))
        return false;
    bool exists = stat(path, &st) == 0;
    size_t n = strlen(path), suffix = strlen(".gguf");
    if (n > suffix && strcmp(path + n - suffix, ".gguf") == 0)
        return !(exists && S_ISDIR(st.st_mode));
    /* Opening a pipe would wait for its writer. */
    FILE *file = exists && S_ISREG(st.st_mode) ? fopen(path, "rb") : NULL;
    char magic[4] = "";
    bool is = file && fread(magic, 1, sizeof magic, file) == sizeof magic &&
              memcmp(magic, "GGUF", sizeof magic) == 0;
    if (file)
        fclose(file);
    return is;
}

/* ---- The list of tensors --------------------------------------------------------------------- */

int64_t br_gguf_count(const br_gguf *file)
{
    return BR_LIVE(op, file) ? (int64_t)file->n_tensors : -1;
}

/* Returns tensor i, or NULL and an error. */
static const br_gguf_tensor *tensor_at(const br_gguf *file, int64_t i)
{
    if (!br__required(op, "file", file))
        return NULL;
    if (i >= 0 && i < (int64_t)file->n_tensors)
        return &file->tensors[i];
    return br__fail_file(BR_ERROR_INDEX, op, file->path,
                         "tensor index %" PRId64 " is out of range: the file has %zu tensors", i,
                         file->n_tensors);
}

const char *br_gguf_name(const br_gguf *file, int64_t i)
{
    const br_gguf_tensor *t = tensor_at(file, i);
    return t ? t->name : NULL;
}

const char *br_gguf_type(const br_gguf *file, int64_t i)
{
    const br_gguf_tensor *t = tensor_at(file, i);
    return t ? t->type->name : NULL;
}

int br_gguf_shape(const br_gguf *file, int64_t i, const int64_t **sizes)
{
    const br_gguf_tensor *t = tensor_at(file, i);
    if (sizes)
        *sizes = t ? t->sizes : NULL;
    return t ? t->ndim : -1;
}

size_t br_gguf_bytes(const br_gguf *file, int64_t i)
{
    const br_gguf_tensor *t = tensor_at(file, i);
    return t ? (size_t)t->bytes : 0;
}

bool br_gguf_has(const br_gguf *file, const char *name)
{
    return BR_LIVE(op, file) && name && br__gguf_tensor(file, name);
}

/* ---- Tensors --------------------------------------------------------------------------------- */

/* Returns the blocks of the file, a view of the mapping, as a tensor of BR_QUANTIZED. */
static br_tensor *blocks(const br_gguf *file, const br_gguf_tensor *t, br_block_type type)
{
    const int64_t columns = t->sizes[t->ndim - 1];
    const int64_t sizes[] = { columns > 0 ? t->numel / columns : 0,
                              br__row_bytes(&br__block_types[type], columns) };
    br_tensor *bytes =
        t->numel == 0 ? br__new_on_host(op, 2, sizes, BR_U8)
                      : br__mapping_tensor(file->mapping, 2, sizes, BR_U8, file->data + t->begin);
    return br__as_quantized(bytes, type, t->ndim, t->sizes);
}

/* Returns the blocks, or their numbers in a floating-point dtype. */
static br_tensor *quantized(const br_gguf *file, const br_gguf_tensor *t, br_block_type type,
                            br_dtype dtype)
{
    br_scope *scope = br_scope_begin();
    br_tensor *y = br_scope_return(scope, br_to(blocks(file, t, type), dtype));
    br_scope_end(scope);
    return y;
}

/* Returns a tensor of numbers with the dtype of the file. */
static br_tensor *stored(const br_gguf *file, const br_gguf_tensor *t, br_dtype dtype)
{
    if (t->numel == 0)
        return br__new_on_host(op, t->ndim, t->sizes, dtype);
    return br__mapping_tensor(file->mapping, t->ndim, t->sizes, dtype, file->data + t->begin);
}

static br_tensor *converted(const br_gguf *file, const br_gguf_tensor *t, br_dtype from,
                            br_dtype dtype)
{
    br_scope *scope = br_scope_begin();
    br_tensor *y = br_scope_return(scope, br_to(stored(file, t, from), dtype));
    br_scope_end(scope);
    return y;
}

static br_tensor *fail_dtype(const br_gguf *file, const br_gguf_tensor *t, br_dtype dtype)
{
    return br__fail_file(
        BR_ERROR_DTYPE, op, file->path,
        "tensor \"%s\" has type %s, which cannot be converted to %s: dtype must be "
        "a floating-point dtype%s",
        br_printable(t->name), t->type->name, br_dtype_name(dtype),
        br__gguf_block_type(t->type, &(br_block_type){ 0 }) ? " or quantized"
                                                            : " or the tensor's own");
}

br_tensor *br_gguf_get(br_gguf *file, const char *name, br_dtype dtype)
{
    if (!br__required(op, "file", file) || !br__required(op, "name", name))
        return NULL;
    const br_gguf_tensor *t = br__gguf_tensor(file, name);
    if (!t)
        return br__fail_file(BR_ERROR_ARGUMENT, op, file->path, "the file has no tensor \"%s\"",
                             br_printable(name));
    br_dtype from;
    br_block_type type = 0;
    bool is_number = br__dtype_from_file(&(br_file_dtype){ t->type->name, 0 }, &from);
    if (!is_number && !br__gguf_block_type(t->type, &type))
        return br__fail_file(BR_ERROR_DTYPE, op, file->path,
                             "tensor \"%s\" has type %s, which Brasa does not support",
                             br_printable(name), t->type->name);
    if (is_number && dtype == from)
        return stored(file, t, from);
    if (!br__is_kind(dtype, BR_KIND_FLOATING) && (is_number || dtype != BR_QUANTIZED))
        return fail_dtype(file, t, dtype);
    return is_number ? converted(file, t, from, dtype) : quantized(file, t, type, dtype);
}
