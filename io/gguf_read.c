/* io/gguf_read.c - reads the header, the metadata and the list of tensors of a GGUF file, and
 * checks them.
 *
 * The file may be hostile. Each number is read only if its bytes are there, and a count is compared
 * with the bytes that are left before anything is allocated for it: so memory stays proportional to
 * the size of the file. docs/gguf.md lists what is refused. */
#include "io/gguf_internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

typedef struct reader {
    br_gguf *file;
    const unsigned char *p, *end;
    const char *part, *name; /* "metadata" or "tensor", and its name; or NULL */
} reader;

BR_PRINTF(2, 3)
static bool refuse(const reader *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    br__refuse_part("gguf", r->file->path, r->part, r->name, format, args);
    va_end(args);
    return false;
}

/* ---- Numbers and strings --------------------------------------------------------------------- */

static uint64_t left(const reader *r)
{
    return (uint64_t)(r->end - r->p);
}

static bool read_bytes(reader *r, void *to, size_t n, const char *what)
{
    if (left(r) < n)
        return refuse(r, "%s needs %zu bytes at byte %td, but the file has %" PRIu64 " more", what,
                      n, r->p - r->file->base, left(r));
    memcpy(to, r->p, n);
    r->p += n;
    return true;
}

static bool read_u32(reader *r, uint32_t *value, const char *what)
{
    return read_bytes(r, value, sizeof *value, what);
}

static bool read_u64(reader *r, uint64_t *value, const char *what)
{
    return read_bytes(r, value, sizeof *value, what);
}

/* Reads a number of items, each of which needs at least `least` bytes. */
static bool read_count(reader *r, uint64_t *count, uint64_t least, const char *what)
{
    if (!read_u64(r, count, what))
        return false;
    return *count <= left(r) / least ||
           refuse(r,
                  "%s is %" PRIu64 ", but the %" PRIu64 " bytes that follow have room for at most "
                  "%" PRIu64,
                  what, *count, left(r), left(r) / least);
}

/* Reads the length of a string, and checks that its bytes are there. */
static bool read_length(reader *r, uint64_t *n, const char *what)
{
    if (!read_u64(r, n, what))
        return false;
    return *n <= left(r) || refuse(r, "%s is %" PRIu64 ", but the file has %" PRIu64 " more bytes",
                                   what, *n, left(r));
}

/* Reads the name of a key or tensor: a C string in UTF-8. */
static const char *read_name(reader *r, uint64_t i)
{
    char what[64];
    snprintf(what, sizeof what, "%s %" PRIu64 ": the length of its name", r->part, i);
    uint64_t n;
    if (!read_length(r, &n, what))
        return NULL;
    const char *text = (const char *)r->p;
    bool ok = true;
    if (n == 0 || n > BR_GGUF_MAX_NAME)
        ok = refuse(r, "%s is %" PRIu64 ", must be in 1 .. %d", what, n, BR_GGUF_MAX_NAME);
    else if (memchr(text, 0, n))
        ok = refuse(r, "%s %" PRIu64 ": its name contains NUL", r->part, i);
    else if (!br__is_utf8(text, n))
        ok = refuse(r, "%s %" PRIu64 ": its name is not UTF-8", r->part, i);
    r->p += n;
    return ok ? br__arena_text(&r->file->arena, text, n) : NULL;
}

/* Returns a zeroed array of n items in the arena; at least one byte. */
static void *new_array(reader *r, uint64_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes))
        return br_fail(BR_ERROR_MEMORY, "gguf", "cannot allocate %" PRIu64 " items", n);
    void *items = br__arena_alloc(&r->file->arena, bytes + 1);
    if (items)
        memset(items, 0, bytes + 1);
    return items;
}

/* ---- Metadata -------------------------------------------------------------------------------- */

static bool read_type(reader *r, br_gguf_value *type, const char *what)
{
    uint32_t number = 0;
    if (!read_u32(r, &number, what))
        return false;
    *type = (br_gguf_value)number;
    return number < BR_GGUF_VALUES ||
           refuse(r, "%s is %" PRIu32 ", but the types of the format are 0 to %d", what, number,
                  BR_GGUF_VALUES - 1);
}

static bool check_bools(const reader *r, const br_gguf_entry *e)
{
    for (uint64_t i = 0; i < e->n; i++)
        if (e->data[i] > 1)
            return refuse(r, "bool %" PRIu64 " is %d, must be 0 or 1", i, e->data[i]);
    return true;
}

/* Keeps where the numbers or bools of an entry are. Their count has been compared with the bytes
 * that are left. */
static bool read_numbers(reader *r, br_gguf_entry *e)
{
    e->data = r->p;
    r->p += e->n * br__gguf_value_size(e->type);
    return e->type != BR_GGUF_BOOL || check_bools(r, e);
}

static bool read_strings(reader *r, br_gguf_entry *e)
{
    uint64_t *strings = new_array(r, e->n, sizeof *strings);
    if (!strings)
        return false;
    e->strings = strings;
    for (uint64_t i = 0; i < e->n; i++) {
        char what[64];
        snprintf(what, sizeof what, "the length of string %" PRIu64, i);
        uint64_t n;
        strings[i] = (uint64_t)(r->p - r->file->base);
        if (!read_length(r, &n, what))
            return false;
        r->p += n;
    }
    return true;
}

static bool read_array(reader *r, br_gguf_entry *e)
{
    e->is_array = true;
    if (!read_type(r, &e->type, "the type of the elements"))
        return false;
    if (e->type == BR_GGUF_ARRAY)
        return refuse(r, "the elements are arrays, must be numbers, bools or strings");
    bool strings = e->type == BR_GGUF_STRING;
    uint64_t least = strings ? sizeof(uint64_t) : br__gguf_value_size(e->type);
    if (!read_count(r, &e->n, least, "the number of elements"))
        return false;
    return strings ? read_strings(r, e) : read_numbers(r, e);
}

static bool read_string(reader *r, br_gguf_entry *e)
{
    uint64_t n;
    if (!read_length(r, &n, "the length of the string"))
        return false;
    e->text = br__arena_text(&r->file->arena, (const char *)r->p, n);
    e->length = n;
    r->p += n;
    return e->text != NULL;
}

static bool read_number(reader *r, br_gguf_entry *e)
{
    size_t size = br__gguf_value_size(e->type);
    if (left(r) < size)
        return refuse(r, "the value needs %zu bytes, but the file has %" PRIu64 " more", size,
                      left(r));
    return read_numbers(r, e);
}

static bool read_value(reader *r, br_gguf_entry *e)
{
    e->n = 1;
    if (!read_type(r, &e->type, "the type of the value"))
        return false;
    if (e->type == BR_GGUF_ARRAY)
        return read_array(r, e);
    return e->type == BR_GGUF_STRING ? read_string(r, e) : read_number(r, e);
}

static bool read_metadata(reader *r)
{
    br_gguf *f = r->file;
    f->entries = new_array(r, f->n_entries, sizeof *f->entries);
    bool ok = f->entries;
    for (size_t i = 0; ok && i < f->n_entries; i++) {
        br_gguf_entry *e = &f->entries[i];
        r->part = "metadata";
        e->key = r->name = read_name(r, i);
        ok = e->key && read_value(r, e);
        r->name = NULL;
    }
    return ok;
}

/* ---- Tensors --------------------------------------------------------------------------------- */

/* Reads the sizes into PyTorch's order and computes the number of elements. The product of the
 * sizes other than 0 must not overflow even if the tensor is empty, because its strides must be
 * representable. */
static bool read_sizes(reader *r, br_gguf_tensor *t)
{
    uint32_t ndim;
    if (!read_u32(r, &ndim, "the number of dimensions"))
        return false;
    if (ndim > BR_GGUF_MAX_DIMS)
        return refuse(r, "it has %" PRIu32 " dimensions, but at most %d are allowed", ndim,
                      BR_GGUF_MAX_DIMS);
    int64_t product = 1;
    bool empty = false, overflow = false;
    t->ndim = (int)ndim;
    for (int d = t->ndim - 1; d >= 0; d--) {
        uint64_t size = 0;
        if (!read_u64(r, &size, "a dimension"))
            return false;
        t->sizes[d] = (int64_t)size;
        empty |= size == 0;
        overflow |= size > INT64_MAX ||
                    (size > 0 && __builtin_mul_overflow(product, (int64_t)size, &product));
    }
    t->numel = empty ? 0 : product;
    /* No type needs more than 8 bytes for an element. */
    return (!overflow && product <= INT64_MAX / 8) ||
           refuse(r, "its dimensions have more elements than can be addressed");
}

static bool read_tensor_type(reader *r, br_gguf_tensor *t)
{
    uint32_t number = 0;
    if (!read_u32(r, &number, "the type"))
        return false;
    t->type = br__gguf_kind(number);
    if (!t->type)
        return refuse(r, "its type is %" PRIu32 ", which is not a type of the format", number);
    int64_t contiguous = t->ndim > 0 ? t->sizes[t->ndim - 1] : 1;
    if (contiguous % t->type->block != 0)
        return refuse(r, "its contiguous dimension is %" PRId64 ", must be a multiple of %u for %s",
                      contiguous, t->type->block, t->type->name);
    t->bytes = (uint64_t)t->numel / t->type->block * t->type->bytes;
    return true;
}

static bool read_tensors(reader *r)
{
    br_gguf *f = r->file;
    f->tensors = new_array(r, f->n_tensors, sizeof *f->tensors);
    bool ok = f->tensors;
    for (size_t i = 0; ok && i < f->n_tensors; i++) {
        br_gguf_tensor *t = &f->tensors[i];
        r->part = "tensor";
        t->name = r->name = read_name(r, i);
        ok = t->name && read_sizes(r, t) && read_tensor_type(r, t) &&
             read_u64(r, &t->begin, "the offset");
        r->name = NULL;
    }
    return ok;
}

/* ---- Checks of the whole file ---------------------------------------------------------------- */

static int by_key(const void *a, const void *b)
{
    return strcmp((*(const br_gguf_entry *const *)a)->key, (*(const br_gguf_entry *const *)b)->key);
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const br_gguf_tensor *const *)a)->name,
                  (*(const br_gguf_tensor *const *)b)->name);
}

static int by_offset(const void *a, const void *b)
{
    const br_gguf_tensor *x = *(const br_gguf_tensor *const *)a,
                         *y = *(const br_gguf_tensor *const *)b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static bool index_keys(reader *r)
{
    br_gguf *f = r->file;
    f->by_key = new_array(r, f->n_entries, sizeof *f->by_key);
    if (!f->by_key)
        return false;
    for (size_t i = 0; i < f->n_entries; i++)
        f->by_key[i] = &f->entries[i];
    qsort(f->by_key, f->n_entries, sizeof *f->by_key, by_key);
    for (size_t i = 1; i < f->n_entries; i++)
        if (strcmp(f->by_key[i - 1]->key, f->by_key[i]->key) == 0)
            return refuse(r, "metadata \"%s\" appears twice", br_printable(f->by_key[i]->key));
    return true;
}

static bool index_tensors(reader *r)
{
    br_gguf *f = r->file;
    f->by_name = new_array(r, f->n_tensors, sizeof *f->by_name);
    if (!f->by_name)
        return false;
    for (size_t i = 0; i < f->n_tensors; i++)
        f->by_name[i] = &f->tensors[i];
    qsort(f->by_name, f->n_tensors, sizeof *f->by_name, by_name);
    for (size_t i = 1; i < f->n_tensors; i++)
        if (strcmp(f->by_name[i - 1]->name, f->by_name[i]->name) == 0)
            return refuse(r, "tensor \"%s\" appears twice", br_printable(f->by_name[i]->name));
    return true;
}

static bool read_alignment(reader *r, uint32_t *alignment)
{
    *alignment = BR_GGUF_ALIGNMENT;
    const br_gguf_entry *e = br__gguf_entry(r->file, "general.alignment");
    if (!e)
        return true;
    if (e->is_array || e->type != BR_GGUF_UINT32)
        return refuse(r, "metadata \"general.alignment\": the type is %s, must be uint32",
                      e->is_array ? "array" : br__gguf_value_name(e->type));
    memcpy(alignment, e->data, sizeof *alignment);
    return (*alignment != 0 && (*alignment & (*alignment - 1)) == 0) ||
           refuse(r,
                  "metadata \"general.alignment\": the value is %" PRIu32
                  ", must be a power of two",
                  *alignment);
}

static bool check_place(reader *r, const br_gguf_tensor *t, uint32_t alignment, uint64_t data_bytes)
{
    r->part = "tensor";
    r->name = t->name;
    bool ok = true;
    if (t->begin % alignment != 0)
        ok = refuse(r, "its offset is %" PRIu64 ", must be a multiple of the alignment of %" PRIu32,
                    t->begin, alignment);
    else if (t->begin > data_bytes || t->bytes > data_bytes - t->begin)
        ok = refuse(r,
                    "its %" PRIu64 " bytes begin at byte %" PRIu64
                    " of the data, but the file has %" PRIu64 " bytes of data",
                    t->bytes, t->begin, data_bytes);
    r->name = NULL;
    return ok;
}

static bool check_overlap(reader *r)
{
    br_gguf *f = r->file;
    const br_gguf_tensor **all = new_array(r, f->n_tensors, sizeof *all), *before = NULL;
    if (!all)
        return false;
    for (size_t i = 0; i < f->n_tensors; i++)
        all[i] = &f->tensors[i];
    qsort(all, f->n_tensors, sizeof *all, by_offset);
    for (size_t i = 0; i < f->n_tensors; i++) {
        if (all[i]->bytes == 0)
            continue;
        if (before && all[i]->begin < before->begin + before->bytes)
            return refuse(r,
                          "tensors \"%s\" and \"%s\" overlap: the second begins at byte %" PRIu64
                          " of the data, the first ends at %" PRIu64,
                          br_printable(before->name), br_printable(all[i]->name), all[i]->begin,
                          before->begin + before->bytes);
        before = all[i];
    }
    return true;
}

/* Finds the start of the data, and checks the place of each tensor. */
static bool check_data(reader *r)
{
    br_gguf *f = r->file;
    uint32_t alignment;
    if (!read_alignment(r, &alignment))
        return false;
    uint64_t start = (uint64_t)(r->p - f->base);
    start = (start + alignment - 1) / alignment * alignment;
    uint64_t data_bytes = start < f->bytes ? f->bytes - start : 0;
    for (size_t i = 0; i < f->n_tensors; i++)
        if (!check_place(r, &f->tensors[i], alignment, data_bytes))
            return false;
    f->data = data_bytes > 0 ? (char *)f->base + start : NULL;
    return check_overlap(r);
}

/* ---- The file -------------------------------------------------------------------------------- */

static bool check_version(reader *r)
{
    uint32_t version = r->file->version;
    if (version == 2 || version == 3)
        return true;
    if ((version & 0xffff) == 0)
        return refuse(r, "is a big-endian GGUF file, but only little-endian files are supported");
    return refuse(r, "is a GGUF file of version %" PRIu32 ", must be 2 or 3", version);
}

static bool read_header(reader *r)
{
    enum { LEAST_ENTRY = 8 + 1 + 4 + 1, LEAST_TENSOR = 8 + 1 + 4 + 4 + 8 }; /* bytes */
    char magic[4];
    uint64_t tensors, entries;
    if (left(r) < sizeof magic || memcmp(r->p, "GGUF", sizeof magic) != 0)
        return refuse(r, "is not a GGUF file: it does not begin with \"GGUF\"");
    if (!read_bytes(r, magic, sizeof magic, "the header") ||
        !read_u32(r, &r->file->version, "the version") || !check_version(r) ||
        !read_u64(r, &tensors, "the number of tensors") ||
        !read_count(r, &entries, LEAST_ENTRY, "the number of keys"))
        return false;
    if (tensors > left(r) / LEAST_TENSOR)
        return refuse(r,
                      "the number of tensors is %" PRIu64 ", but the %" PRIu64
                      " bytes that follow have room for at most %" PRIu64,
                      tensors, left(r), left(r) / LEAST_TENSOR);
    r->file->n_tensors = (size_t)tensors;
    r->file->n_entries = (size_t)entries;
    return true;
}

bool br__gguf_read(br_gguf *file)
{
    reader r = { .file = file, .p = file->base, .end = file->base + file->bytes };
    return read_header(&r) && read_metadata(&r) && index_keys(&r) && read_tensors(&r) &&
           index_tensors(&r) && check_data(&r);
}

const br_gguf_entry *br__gguf_entry(const br_gguf *file, const char *key)
{
    const br_gguf_entry wanted = { .key = key }, *p = &wanted;
    const br_gguf_entry **found =
        bsearch(&p, file->by_key, file->n_entries, sizeof(br_gguf_entry *), by_key);
    return found ? *found : NULL;
}

const br_gguf_tensor *br__gguf_tensor(const br_gguf *file, const char *name)
{
    const br_gguf_tensor wanted = { .name = name }, *p = &wanted;
    const br_gguf_tensor **found =
        bsearch(&p, file->by_name, file->n_tensors, sizeof(br_gguf_tensor *), by_name);
    return found ? *found : NULL;
}
