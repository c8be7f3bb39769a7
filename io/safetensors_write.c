/* io/safetensors_write.c - writes safetensors files.
 *
 * Tensors are written in the order of the reference writer: by dtype, the strictest alignment
 * first, then by name. Because the header is padded to 8 bytes, this order aligns every tensor. It
 * also makes files of the same tensors byte-identical. All checks are done and the header is
 * complete before the file is created. */
#include "io/io_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char op[] = "safetensors";

/* ---- Checks ---------------------------------------------------------------------------------- */

static bool check_text(const char *what, int64_t i, const char *text)
{
    if (!text)
        br_fail(BR_ERROR_ARGUMENT, op, "%s %" PRId64 " is NULL", what, i);
    else if (!br__is_utf8(text, strlen(text)))
        br_fail(BR_ERROR_ARGUMENT, op, "%s \"%s\" is not UTF-8", what, br_printable(text));
    return !br_failed();
}

static bool check_tensor(const br_named_tensor *item, int64_t i)
{
    if (!check_text("the name of tensor", i, item->name))
        return false;
    if (!*item->name)
        br_fail(BR_ERROR_ARGUMENT, op, "the name of tensor %" PRId64 " is empty", i);
    else if (strcmp(item->name, "__metadata__") == 0)
        br_fail(BR_ERROR_ARGUMENT, op, "tensor name \"__metadata__\" is reserved");
    else if (!item->tensor)
        br_fail(BR_ERROR_ARGUMENT, op, "tensor \"%s\" is NULL", br_printable(item->name));
    else
        br__required(op, item->name, item->tensor); /* it may have been freed */
    return !br_failed();
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const br_named_tensor *)a)->name, ((const br_named_tensor *)b)->name);
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const br_metadata *)a)->key, ((const br_metadata *)b)->key);
}

static int by_rank_and_name(const void *a, const void *b)
{
    const br_named_tensor *x = a, *y = b;
    const br_file_dtype *first = br__file_dtype_of(x->tensor->dtype);
    const br_file_dtype *second = br__file_dtype_of(y->tensor->dtype);
    return first == second ? strcmp(x->name, y->name) : first < second ? -1 : 1;
}

/* Checks the tensors and returns a sorted copy of the list, which the caller frees. */
static br_named_tensor *sort_tensors(const br_named_list *list)
{
    size_t n = (size_t)list->count;
    for (size_t i = 0; i < n; i++)
        if (!check_tensor(&list->items[i], (int64_t)i))
            return NULL;
    br_named_tensor *items = br_calloc(n, sizeof *items);
    if (!items || n == 0)
        return items;
    memcpy(items, list->items, n * sizeof *items);
    qsort(items, n, sizeof *items, by_name);
    for (size_t i = 1; i < n; i++) {
        if (strcmp(items[i - 1].name, items[i].name) == 0) {
            br_fail(BR_ERROR_ARGUMENT, op, "two tensors are named \"%s\"",
                    br_printable(items[i].name));
            br_free(items);
            return NULL;
        }
    }
    qsort(items, n, sizeof *items, by_rank_and_name);
    return items;
}

static bool check_metadata(int64_t n, const br_metadata *metadata)
{
    for (int64_t i = 0; i < n; i++)
        if (!check_text("the key of metadata", i, metadata[i].key) ||
            !check_text("the value of metadata", i, metadata[i].value))
            return false;
    if (n < 2)
        return true;
    br_metadata *sorted = br_calloc((size_t)n, sizeof *sorted);
    if (!sorted)
        return false;
    memcpy(sorted, metadata, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, by_key);
    for (int64_t i = 1; i < n && !br_failed(); i++)
        if (strcmp(sorted[i - 1].key, sorted[i].key) == 0)
            br_fail(BR_ERROR_ARGUMENT, op, "metadata \"%s\" is given twice",
                    br_printable(sorted[i].key));
    br_free(sorted);
    return !br_failed();
}

/* ---- The header ------------------------------------------------------------------------------ */

typedef struct buffer {
    char *text;
    size_t n, capacity;
} buffer;

static bool append(buffer *b, const char *text, size_t n)
{
    if (b->capacity - b->n < n) {
        size_t capacity = 2 * b->capacity + n + 256;
        char *grown = br__realloc(b->text, b->n, capacity);
        if (!grown)
            return false;
        b->text = grown;
        b->capacity = capacity;
    }
    memcpy(b->text + b->n, text, n);
    b->n += n;
    return true;
}

static bool append_text(buffer *b, const char *text)
{
    return append(b, text, strlen(text));
}

static bool append_escape(buffer *b, char c)
{
    static const char known[] = "\b\t\n\f\r\"\\", letters[] = "btnfr\"\\";
    const char *place = strchr(known, c);
    char escape[12];
    if (place)
        snprintf(escape, sizeof escape, "\\%c", letters[place - known]);
    else
        snprintf(escape, sizeof escape, "\\u%04x", (unsigned)c);
    return append_text(b, escape);
}

/* Appends a JSON string, escaped like the reference writer's. */
static bool append_string(buffer *b, const char *text)
{
    bool ok = append_text(b, "\"");
    while (ok && *text) {
        size_t plain = 0;
        while ((unsigned char)text[plain] >= ' ' && text[plain] != '"' && text[plain] != '\\')
            plain++;
        ok = append(b, text, plain);
        text += plain;
        if (ok && *text)
            ok = append_escape(b, *text++);
    }
    return ok && append_text(b, "\"");
}

static bool append_metadata(buffer *b, int64_t n, const br_metadata *metadata)
{
    if (n == 0)
        return true;
    bool ok = append_text(b, "\"__metadata__\":{");
    for (int64_t i = 0; ok && i < n; i++)
        ok = (i == 0 || append_text(b, ",")) && append_string(b, metadata[i].key) &&
             append_text(b, ":") && append_string(b, metadata[i].value);
    return ok && append_text(b, "}");
}

static bool append_entry(buffer *b, const br_named_tensor *item, uint64_t begin, uint64_t end)
{
    const br_tensor *t = item->tensor;
    char text[128 + 21 * BR_MAX_DIMS];
    size_t n = (size_t)snprintf(text, sizeof text, ":{\"dtype\":\"%s\",\"shape\":[",
                                br__file_dtype_of(t->dtype)->name);
    for (int i = 0; i < t->ndim; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, i ? ",%" PRId64 : "%" PRId64, t->sizes[i]);
    snprintf(text + n, sizeof text - n, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", begin,
             end);
    return append_string(b, item->name) && append_text(b, text);
}

static bool append_entries(buffer *b, size_t n, const br_named_tensor *items, bool first)
{
    int64_t end = 0;
    for (size_t i = 0; i < n; i++) {
        const br_tensor *t = items[i].tensor;
        int64_t begin = end; /* one tensor's bytes fit an int64_t; the sum of several may not */
        if (__builtin_add_overflow(end, t->numel * (int64_t)br_dtype_size(t->dtype), &end)) {
            br_fail(BR_ERROR_SHAPE, op, "tensor \"%s\" %s exceeds the largest possible file size",
                    br_printable(items[i].name), br__shape(t));
            return false;
        }
        if ((!(first && i == 0) && !append_text(b, ",")) ||
            !append_entry(b, &items[i], (uint64_t)begin, (uint64_t)end))
            return false;
    }
    return true;
}

/* Builds the length field and the padded header. */
static bool make_header(buffer *b, size_t n, const br_named_tensor *items, int64_t n_metadata,
                        const br_metadata *metadata)
{
    if (!append_text(b, "01234567{") || !append_metadata(b, n_metadata, metadata) ||
        !append_entries(b, n, items, n_metadata == 0) || !append_text(b, "}") ||
        !append_text(b, "       "))
        return false;
    b->n = b->n / 8 * 8;
    uint64_t length = b->n - 8;
    if (length > BR_HEADER_MAX) {
        br_fail(BR_ERROR_ARGUMENT, op,
                "the header would have %" PRIu64 " bytes, more than the format's limit of %d",
                length, BR_HEADER_MAX);
        return false;
    }
    for (int i = 0; i < 8; i++)
        b->text[i] = (char)(length >> 8 * i & 0xff);
    return true;
}

/* ---- Writing --------------------------------------------------------------------------------- */

const br_tensor *br__dense(const char *operation, const br_tensor *t)
{
    if (t->contiguous && br__is_on_host(t))
        return t;
    br_tensor *dense = br__new_on_host(operation, t->ndim, t->sizes, t->dtype);
    return dense && br__transfer(operation, dense, t) ? dense : NULL;
}

static bool write_tensor(br_replacement *file, const br_tensor *t)
{
    br_scope *scope = br_scope_begin();
    const br_tensor *dense = scope ? br__dense(op, t) : NULL;
    bool ok =
        dense && br__replace_write(file, dense->data, (size_t)t->numel * br_dtype_size(t->dtype));
    br_scope_end(scope);
    return ok;
}

static bool write_file(br_replacement *file, const char *path, const buffer *header, size_t n,
                       const br_named_tensor *items)
{
    if (!br__replace_begin(file, op, path))
        return false;
    bool ok = br__replace_write(file, header->text, header->n);
    for (size_t i = 0; ok && i < n; i++)
        ok = write_tensor(file, items[i].tensor);
    if (!ok)
        br__replace_abandon(file);
    return ok;
}

bool br__safetensors_write(br_replacement *file, const char *path, const br_named_list *tensors,
                           int64_t n_metadata, const br_metadata *metadata)
{
    if (!br__required(op, "path", path) || !br__required(op, "tensors", tensors) ||
        (n_metadata > 0 && !br__required(op, "metadata", metadata)))
        return false;
    if (n_metadata < 0) {
        br_fail(BR_ERROR_ARGUMENT, op, "n_metadata is %" PRId64 ", must not be negative",
                n_metadata);
        return false;
    }
    if (!check_metadata(n_metadata, metadata))
        return false;
    br_named_tensor *items = sort_tensors(tensors);
    buffer header = { 0 };
    bool ok = items && make_header(&header, (size_t)tensors->count, items, n_metadata, metadata) &&
              write_file(file, path, &header, (size_t)tensors->count, items);
    br_free(header.text);
    br_free(items);
    return ok;
}

bool br_safetensors_save(const char *path, const br_named_list *tensors, int64_t n_metadata,
                         const br_metadata *metadata)
{
    br_replacement file;
    return br__safetensors_write(&file, path, tensors, n_metadata, metadata) &&
           br__replace_commit(&file);
}
