/* io/safetensors.c - opens safetensors files and reads their tensors.
 *
 * The header is read into memory and checked completely (io/header.c). The data is mapped
 * privately, so writes to a tensor never reach the file. A mapped file must not be changed while
 * any of its tensors is live: the tensors would change, and reading a truncated part ends the
 * process with SIGBUS. Replacing the file by rename, as all writers here do, is safe. For all other
 * cases there is the option `copy`. A br_safetensors is immutable, so threads may share it. */
#include "io/io_internal.h"
#include "nn/nn_internal.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

BR_DEFINE_DEFAULTS(br_safetensors)

static const char op[] = "safetensors";

/* Maps or copies the file's data, which begins at `offset`, into memory. */
static bool load_data(br_safetensors *file, int fd, uint64_t offset, uint64_t size, bool copy)
{
    if (offset == size)
        return true;
    char *data;
    file->mapping = br__mapping_new(op, file->path, fd, offset, size, copy, &data);
    if (!file->mapping)
        return false;
    file->data = data;
    return true;
}

/* ---- Opening --------------------------------------------------------------------------------- */

/* Recognizes the file types that are often mistaken for safetensors by their first 8 bytes. Returns
 * a description for the error message, or "". */
static const char *other_kind(const unsigned char *bytes)
{
    static const struct {
        const char *bytes;
        const char *name;
    } kinds[] = {
        { "PK\x03\x04", " but a zip archive, as written by torch.save" },
        { "\x80\x02", " but a pickle, as written by old versions of torch.save" },
        { "GGUF", " but a GGUF file" },
        { "version ", " but text, possibly a Git LFS pointer" },
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (memcmp(bytes, kinds[i].bytes, strlen(kinds[i].bytes)) == 0)
            return kinds[i].name;
    return "";
}

/* Checks the header's length against the limit and the file's size, before anything of that length
 * is allocated. */
static bool check_length(const char *path, uint64_t n, uint64_t available, uint64_t limit)
{
    if (n > limit)
        br__fail_file(BR_ERROR_FORMAT, op, path,
                      "the header has %" PRIu64 " bytes, more than the limit of %" PRIu64, n,
                      limit);
    else if (n > available)
        br__fail_file(BR_ERROR_FORMAT, op, path,
                      "the header has %" PRIu64 " bytes, but only %" PRIu64
                      " bytes follow its length field",
                      n, available);
    else if (n == 0)
        br__fail_file(BR_ERROR_FORMAT, op, path, "the header is empty");
    return !br_failed();
}

/* Reads the header's length and checks it against the file's. */
static bool read_length(const char *path, int fd, uint64_t size, uint64_t limit, uint64_t *length)
{
    unsigned char bytes[9] = { 0 }; /* the length, and the header's first byte */
    if (!br__read_file(op, path, fd, bytes, size < sizeof bytes ? (size_t)size : sizeof bytes, 0))
        return false;
    if (bytes[8] != '{') {
        br__fail_file(BR_ERROR_FORMAT, op, path, "is not a safetensors file%s: %s",
                      other_kind(bytes),
                      size < sizeof bytes ? "it is too short for a header"
                                          : "its header at byte 8 does not begin with '{'");
        return false;
    }
    *length = 0;
    for (int i = 7; i >= 0; i--)
        *length = *length << 8 | bytes[i];
    return check_length(path, *length, size - 8, limit);
}

static bool read_header(br_safetensors *file, int fd, uint64_t size, uint64_t length)
{
    char *text = br_malloc((size_t)length);
    bool ok = text && br__read_file(op, file->path, fd, text, (size_t)length, 8) &&
              br__header_read(&file->header, file->path, text, (size_t)length, size - 8 - length);
    br_free(text);
    return ok;
}

br_safetensors *br_safetensors_open(const char *path, const br_safetensors_options *options)
{
    if (!br__required(op, "path", path))
        return NULL;
    const br_safetensors_options *o = BR_OPTIONS_OF("safetensors", br_safetensors, options);
    size_t limit = o->max_header_bytes;
    uint64_t size, length;
    int fd = br__open_file(op, path, &size);
    if (fd < 0)
        return NULL;
    br_safetensors *file = BR_NEW(br_safetensors);
    bool ok = file && (file->path = br_strdup(path)) &&
              read_length(path, fd, size, limit, &length) && read_header(file, fd, size, length) &&
              load_data(file, fd, 8 + length, size, o->copy);
    close(fd);
    if (ok) {
        file->bytes = size;
        return file;
    }
    br_safetensors_close(file);
    return NULL;
}

void br_safetensors_close(br_safetensors *file)
{
    if (!BR_END("safetensors_close", file))
        return;
    br__mapping_release(file->mapping);
    br__header_free(&file->header);
    br_free(file->path);
    BR_FREE(file);
}

/* ---- Contents -------------------------------------------------------------------------------- */

int64_t br_safetensors_count(const br_safetensors *file)
{
    return BR_LIVE(op, file) ? (int64_t)file->header.n_entries : -1;
}

/* Returns entry i, or NULL and an error. */
static const br_file_entry *entry_at(const br_safetensors *file, int64_t i)
{
    if (!file)
        return br_failed() ? NULL
                           : br_fail(BR_ERROR_ARGUMENT, op, "file is NULL, but it is required");
    if (!BR_LIVE(op, file))
        return NULL;
    if (i >= 0 && i < (int64_t)file->header.n_entries)
        return &file->header.entries[i];
    return br__fail_file(BR_ERROR_INDEX, op, file->path,
                         "tensor index %" PRId64 " is out of range: the file has %zu tensors", i,
                         file->header.n_entries);
}

const char *br_safetensors_name(const br_safetensors *file, int64_t i)
{
    const br_file_entry *e = entry_at(file, i);
    return e ? e->name : NULL;
}

const char *br_safetensors_dtype(const br_safetensors *file, int64_t i)
{
    const br_file_entry *e = entry_at(file, i);
    return e ? e->dtype->name : NULL;
}

int br_safetensors_shape(const br_safetensors *file, int64_t i, const int64_t **sizes)
{
    const br_file_entry *e = entry_at(file, i);
    if (sizes)
        *sizes = e ? e->sizes : NULL;
    return e ? e->ndim : -1;
}

size_t br_safetensors_bytes(const br_safetensors *file, int64_t i)
{
    const br_file_entry *e = entry_at(file, i);
    return e ? (size_t)(e->end - e->begin) : 0;
}

bool br_safetensors_has(const br_safetensors *file, const char *name)
{
    return BR_LIVE(op, file) && name && br__header_find(&file->header, name);
}

int64_t br_safetensors_metadata_count(const br_safetensors *file)
{
    return BR_LIVE(op, file) ? (int64_t)file->header.n_metadata : -1;
}

const char *br_safetensors_metadata_key(const br_safetensors *file, int64_t i)
{
    if (!BR_LIVE(op, file))
        return NULL;
    if (i >= 0 && i < (int64_t)file->header.n_metadata)
        return file->header.metadata[i].key;
    return br__fail_file(BR_ERROR_INDEX, op, file->path,
                         "metadata index %" PRId64
                         " is out of range: the file has %zu metadata entries",
                         i, file->header.n_metadata);
}

const char *br_safetensors_metadata(const br_safetensors *file, const char *key)
{
    return BR_LIVE(op, file) && key ? br__header_metadata(&file->header, key) : NULL;
}

/* ---- Tensors --------------------------------------------------------------------------------- */

/* Returns true if all bytes are valid bools (0 or 1). A file may contain any byte. */
static bool are_bools(const char *data, int64_t n)
{
    unsigned char bits = 0;
    for (int64_t i = 0; i < n; i++)
        bits |= (unsigned char)data[i];
    return bits <= 1;
}

br_tensor *br__entry_tensor(br_safetensors *file, const br_file_entry *e)
{
    br_dtype dtype;
    if (!br__dtype_from_file(e->dtype, &dtype))
        return br__fail_file(BR_ERROR_DTYPE, op, file->path,
                             "tensor \"%s\" has dtype %s, which Brasa does not support",
                             br_printable(e->name), e->dtype->name);
    if (e->ndim > BR_MAX_DIMS)
        return br__fail_file(BR_ERROR_SHAPE, op, file->path,
                             "tensor \"%s\" has %d dimensions, but at most %d are supported",
                             br_printable(e->name), e->ndim, BR_MAX_DIMS);
    if (e->numel == 0)
        return br__new_on_host(op, e->ndim, e->sizes, dtype);
    char *data = (char *)file->data + e->begin;
    if (br__is_kind(dtype, BR_KIND_BOOL) && !are_bools(data, e->numel))
        return br_from_data(e->ndim, e->sizes, dtype, data);
    return br__mapping_tensor(file->mapping, e->ndim, e->sizes, dtype, data);
}

br_tensor *br_safetensors_get(br_safetensors *file, const char *name)
{
    if (!br__required(op, "file", file) || !br__required(op, "name", name))
        return NULL;
    const br_file_entry *e = br__header_find(&file->header, name);
    if (!e)
        return br__fail_file(BR_ERROR_ARGUMENT, op, file->path, "the file has no tensor \"%s\"",
                             br_printable(name));
    return br__entry_tensor(file, e);
}

br_named_list *br_safetensors_all(br_safetensors *file)
{
    if (!br__required(op, "file", file))
        return NULL;
    br_named_list *list = br__named_list_new(true);
    br_scope *scope = list ? br_scope_begin() : NULL;
    bool ok = scope != NULL;
    for (size_t i = 0; ok && i < file->header.n_entries; i++) {
        br_tensor *t = br__entry_tensor(file, &file->header.entries[i]);
        ok = t && br__named_list_add(list, file->header.entries[i].name, t);
    }
    br_scope_end(scope);
    if (ok)
        return list;
    br_named_list_free(list);
    return NULL;
}
