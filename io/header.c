/* io/header.c - reads the header of a safetensors file and checks it against every rule of the
 * format.
 *
 * A header is one JSON object. Its members are "__metadata__" and one entry for each tensor. The
 * text may be hostile and 100 MB long, so it is never decoded as a whole: the object is walked
 * here, without recursion, and jansson decodes one key, one metadata value, or one entry at a time.
 * MAX_ENTRY bounds the memory for that, and MAX_DEPTH an entry's nesting. All other memory is
 * proportional to the length of the text.
 *
 * docs/safetensors.md lists what is accepted and refused, and where this reader is stricter than
 * the reference reader. */
#include "io/io_internal.h"
#include "io/json.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ENTRY = 1 << 20, MAX_DEPTH = 16 };

/* ---- Dtypes ---------------------------------------------------------------------------------- */

/* In the order in which the reference writer stores tensors. */
static const br_file_dtype dtypes[] = {
    { "U64", 64 },        { "I64", 64 },    { "F64", 64 },    { "C64", 64 },
    { "F32", 32 },        { "U32", 32 },    { "I32", 32 },    { "BF16", 16 },
    { "F16", 16 },        { "U16", 16 },    { "I16", 16 },    { "F8_E5M2FNUZ", 8 },
    { "F8_E4M3FNUZ", 8 }, { "F8_E8M0", 8 }, { "F8_E4M3", 8 }, { "F8_E5M2", 8 },
    { "I8", 8 },          { "U8", 8 },      { "F6_E3M2", 6 }, { "F6_E2M3", 6 },
    { "F4", 4 },          { "BOOL", 8 },
};

/* Returns NULL if the format has no dtype of that name. */
static const br_file_dtype *dtype_named(const char *name)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (strcmp(dtypes[i].name, name) == 0)
            return &dtypes[i];
    return NULL;
}

const br_file_dtype *br__file_dtype_of(br_dtype dtype)
{
    return dtype_named(br__dtypes[dtype].stored_name);
}

bool br__dtype_from_file(const br_file_dtype *stored, br_dtype *dtype)
{
    for (*dtype = 0; *dtype < BR_DTYPES; (*dtype)++)
        if (strcmp(br__dtypes[*dtype].stored_name, stored->name) == 0)
            return true;
    return false;
}

/* ---- Walking the text ------------------------------------------------------------------------ */

typedef struct reader {
    br_header *header;
    const char *path;
    const char *start, *p, *end;
    bool has_metadata;
    const char *tensor; /* the tensor named in errors, or NULL */
} reader;

BR_PRINTF(2, 3)
static bool refuse(const reader *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    br__refuse_part("safetensors", r->path, "tensor", r->tensor, format, args);
    va_end(args);
    return false;
}

static bool next_is(reader *r, char c)
{
    while (r->p < r->end && (*r->p == ' ' || *r->p == '\t' || *r->p == '\n' || *r->p == '\r'))
        r->p++;
    return r->p < r->end && *r->p == c;
}

static bool expect(reader *r, char c)
{
    if (!next_is(r, c))
        return refuse(r, "header: expected '%c' at byte %td", c, r->p - r->start);
    r->p++;
    return true;
}

/* Returns the end of the string that begins at p, or NULL if it does not end. jansson checks the
 * contents later. */
static const char *string_end(const char *p, const char *end)
{
    for (p++; p < end; p++) {
        if (*p == '"')
            return p + 1;
        if (*p == '\\')
            p++;
    }
    return NULL;
}

/* Decodes the JSON value in the n bytes at p. */
static json_t *decode(const reader *r, const char *p, size_t n, const char *what)
{
    json_error_t error = { 0 };
    json_t *value = br__json_parse("safetensors", r->path, p, n, &error);
    if (!value && !br__failed())
        refuse(r, "header: %s at byte %td: %s", what, p - r->start, br_printable(error.text));
    return value;
}

/* Decodes the string at p into the arena. */
static char *read_string(reader *r, const char *what)
{
    if (!next_is(r, '"')) {
        refuse(r, "header: expected %s as a string at byte %td", what, r->p - r->start);
        return NULL;
    }
    const char *end = string_end(r->p, r->end);
    if (!end) {
        refuse(r, "header: %s at byte %td does not end", what, r->p - r->start);
        return NULL;
    }
    json_t *value = decode(r, r->p, (size_t)(end - r->p), what);
    if (!value)
        return NULL;
    r->p = end;
    char *text =
        br__arena_text(&r->header->arena, json_string_value(value), json_string_length(value));
    json_decref(value);
    return text;
}

/* Calls `member` for each member of the object at p, with p just after the colon. */
static bool read_members(reader *r, bool (*member)(reader *r, const char *key))
{
    if (!expect(r, '{'))
        return false;
    if (next_is(r, '}'))
        return expect(r, '}');
    for (;;) {
        const char *key = read_string(r, "a name");
        if (!key || !expect(r, ':') || !member(r, key))
            return false;
        if (!next_is(r, ','))
            return expect(r, '}');
        r->p++;
    }
}

static bool read_metadata(reader *r, const char *key)
{
    br_header *h = r->header;
    if (!next_is(r, '"'))
        return refuse(r, "metadata \"%s\": the value must be a string", br_printable(key));
    const char *value = read_string(r, "a metadata value");
    if (!value)
        return false;
    br_metadata *all =
        br__grow(h->metadata, &h->metadata_capacity, (int64_t)h->n_metadata, sizeof *all);
    if (!all)
        return false;
    h->metadata = all;
    all[h->n_metadata++] = (br_metadata){ key, value };
    return true;
}

/* ---- An entry -------------------------------------------------------------------------------- */

/* Returns the end of the object at p, or NULL and an error if it exceeds MAX_ENTRY or MAX_DEPTH. */
static const char *object_end(const reader *r, const char *name)
{
    int depth = 0;
    const char *end = r->end - r->p > MAX_ENTRY ? r->p + MAX_ENTRY : r->end;
    for (const char *p = r->p; p && p < end;) {
        if (*p == '"') {
            p = string_end(p, end);
            continue;
        }
        depth += (*p == '{' || *p == '[') - (*p == '}' || *p == ']');
        p++;
        if (depth == 0)
            return p;
        if (depth > MAX_DEPTH) {
            refuse(r, "tensor \"%s\": its entry is nested deeper than %d levels",
                   br_printable(name), MAX_DEPTH);
            return NULL;
        }
    }
    if (end < r->end)
        refuse(r, "tensor \"%s\": its entry is longer than %d bytes", br_printable(name),
               MAX_ENTRY);
    else
        refuse(r, "tensor \"%s\": its entry does not end", br_printable(name));
    return NULL;
}

/* Checks that `value` is an array of non-negative integers. */
static bool check_integers(const reader *r, const char *field, const json_t *value)
{
    if (!value)
        return refuse(r, "\"%s\" is missing", field);
    if (!json_is_array(value))
        return refuse(r, "\"%s\" must be an array of integers", field);
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *item = json_array_get(value, i);
        if (!json_is_integer(item))
            return refuse(r, "element %zu of \"%s\" is not an integer", i, field);
        if (json_integer_value(item) < 0)
            return refuse(r,
                          "element %zu of \"%s\" is %" JSON_INTEGER_FORMAT ", must not be negative",
                          i, field, json_integer_value(item));
    }
    return true;
}

static bool read_dtype(const reader *r, br_file_entry *e, const json_t *value)
{
    if (!value)
        return refuse(r, "\"dtype\" is missing");
    if (!json_is_string(value))
        return refuse(r, "\"dtype\" must be a string");
    e->dtype = dtype_named(json_string_value(value));
    return e->dtype || refuse(r, "\"%s\" is not a dtype of the safetensors format",
                              br_printable(json_string_value(value)));
}

/* Reads the shape and computes the number of elements. The product of the sizes other than 0 must
 * not overflow even if the tensor is empty, because its strides must be representable. */
static bool read_shape(const reader *r, br_file_entry *e, const json_t *value)
{
    if (!check_integers(r, "shape", value))
        return false;
    size_t n = json_array_size(value);
    int64_t *sizes = br__arena_alloc(&r->header->arena, n * sizeof *sizes);
    if (!sizes)
        return false;
    int64_t product = 1;
    bool empty = false, overflow = false;
    for (size_t i = 0; i < n; i++) {
        sizes[i] = json_integer_value(json_array_get(value, i));
        empty |= sizes[i] == 0;
        overflow |= sizes[i] > 0 && __builtin_mul_overflow(product, sizes[i], &product);
    }
    int64_t bits;
    if (overflow || __builtin_mul_overflow(product, (int64_t)e->dtype->bits, &bits))
        return refuse(r, "its shape has more elements than can be addressed");
    e->sizes = sizes;
    e->ndim = (int)n;
    e->numel = empty ? 0 : product;
    return true;
}

static bool read_offsets(const reader *r, br_file_entry *e, const json_t *value)
{
    if (!check_integers(r, "data_offsets", value))
        return false;
    if (json_array_size(value) != 2)
        return refuse(r, "\"data_offsets\" has %zu elements, expected 2", json_array_size(value));
    e->begin = (uint64_t)json_integer_value(json_array_get(value, 0));
    e->end = (uint64_t)json_integer_value(json_array_get(value, 1));
    if (e->begin > e->end)
        return refuse(r, "its data begins at byte %" PRIu64 ", after its end at %" PRIu64, e->begin,
                      e->end);
    uint64_t bits = (uint64_t)e->numel * e->dtype->bits;
    if (bits % 8 != 0)
        return refuse(r, "%" PRId64 " elements of %s do not fill whole bytes", e->numel,
                      e->dtype->name);
    if (bits / 8 != e->end - e->begin)
        return refuse(r,
                      "%" PRId64 " elements of %s take %" PRIu64
                      " bytes, but \"data_offsets\" span %" PRIu64,
                      e->numel, e->dtype->name, bits / 8, e->end - e->begin);
    return true;
}

static bool read_fields(const reader *r, br_file_entry *e, const json_t *object)
{
    return read_dtype(r, e, json_object_get(object, "dtype")) &&
           read_shape(r, e, json_object_get(object, "shape")) &&
           read_offsets(r, e, json_object_get(object, "data_offsets"));
}

static bool read_entry(reader *r, const char *name)
{
    br_header *h = r->header;
    if (!*name)
        return refuse(r, "header: a tensor's name is empty");
    if (!next_is(r, '{'))
        return refuse(r, "tensor \"%s\": its entry must be an object", br_printable(name));
    const char *end = object_end(r, name);
    json_t *object = end ? decode(r, r->p, (size_t)(end - r->p), "a tensor's entry") : NULL;
    if (!object)
        return false;
    r->p = end;
    br_file_entry e = { .name = name };
    r->tensor = name;
    bool ok = read_fields(r, &e, object);
    r->tensor = NULL;
    json_decref(object);
    if (!ok)
        return false;
    br_file_entry *all =
        br__grow(h->entries, &h->entry_capacity, (int64_t)h->n_entries, sizeof *all);
    if (!all)
        return false;
    h->entries = all;
    all[h->n_entries++] = e;
    return true;
}

static bool read_top(reader *r, const char *key)
{
    if (strcmp(key, "__metadata__") != 0)
        return read_entry(r, key);
    if (r->has_metadata)
        return refuse(r, "header: \"__metadata__\" appears twice");
    r->has_metadata = true;
    if (!next_is(r, '{'))
        return refuse(r, "header: \"__metadata__\" must be an object of strings");
    return read_members(r, read_metadata);
}

/* ---- Checks of the whole header -------------------------------------------------------------- */

static int by_offsets(const void *a, const void *b)
{
    const br_file_entry *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end)
        return x->end < y->end ? -1 : 1;
    return strcmp(x->name, y->name);
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const br_file_entry *const *)a)->name,
                  (*(const br_file_entry *const *)b)->name);
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const br_metadata *)a)->key, ((const br_metadata *)b)->key);
}

/* Sorts entries and metadata for look-up, and fails on duplicates. */
static bool index_names(const reader *r)
{
    br_header *h = r->header;
    h->by_name = br_malloc(h->n_entries * sizeof *h->by_name);
    if (!h->by_name)
        return false;
    if (h->n_entries > 0)
        qsort(h->entries, h->n_entries, sizeof *h->entries, by_offsets);
    for (size_t i = 0; i < h->n_entries; i++)
        h->by_name[i] = &h->entries[i];
    qsort(h->by_name, h->n_entries, sizeof *h->by_name, by_name);
    for (size_t i = 1; i < h->n_entries; i++)
        if (strcmp(h->by_name[i - 1]->name, h->by_name[i]->name) == 0)
            return refuse(r, "tensor \"%s\" appears twice in the header",
                          br_printable(h->by_name[i]->name));
    if (h->n_metadata > 0)
        qsort(h->metadata, h->n_metadata, sizeof *h->metadata, by_key);
    for (size_t i = 1; i < h->n_metadata; i++)
        if (strcmp(h->metadata[i - 1].key, h->metadata[i].key) == 0)
            return refuse(r, "metadata \"%s\" appears twice in the header",
                          br_printable(h->metadata[i].key));
    return true;
}

/* Checks that the tensors fill the data exactly: each must begin where the previous one ends. */
static bool check_offsets(const reader *r, uint64_t data_bytes)
{
    uint64_t end = 0;
    for (size_t i = 0; i < r->header->n_entries; i++) {
        const br_file_entry *e = &r->header->entries[i];
        if (e->begin > end)
            return refuse(r,
                          "bytes %" PRIu64 " to %" PRIu64
                          " of the data, before tensor \"%s\", belong to no tensor",
                          end, e->begin, br_printable(e->name));
        if (e->begin < end)
            return refuse(r,
                          "tensors \"%s\" and \"%s\" overlap: the second begins at byte %" PRIu64
                          ", the first ends at %" PRIu64,
                          br_printable(e[-1].name), br_printable(e->name), e->begin, end);
        end = e->end;
    }
    if (end != data_bytes)
        return refuse(
            r, "the tensors take %" PRIu64 " bytes, but the file has %" PRIu64 " bytes of data",
            end, data_bytes);
    return true;
}

bool br__header_read(br_header *header, const char *path, const char *text, size_t n,
                     uint64_t data_bytes)
{
    reader r = { .header = header, .path = path, .start = text, .p = text, .end = text + n };
    if (n == 0 || text[0] != '{')
        return refuse(&r, "the header does not begin with '{'");
    if (!read_members(&r, read_top))
        return false;
    while (r.p < r.end && *r.p == ' ')
        r.p++;
    if (r.p < r.end)
        return refuse(&r, "header: something other than spaces follows the object, at byte %td",
                      r.p - r.start);
    return index_names(&r) && check_offsets(&r, data_bytes);
}

void br__header_free(br_header *header)
{
    br_free(header->entries);
    br_free(header->by_name);
    br_free(header->metadata);
    br__arena_free(&header->arena);
    *header = (br_header){ 0 };
}

const br_file_entry *br__header_find(const br_header *header, const char *name)
{
    const br_file_entry key = { .name = name }, *p = &key;
    const br_file_entry **found =
        bsearch(&p, header->by_name, header->n_entries, sizeof p, by_name);
    return found ? *found : NULL;
}

const char *br__header_metadata(const br_header *header, const char *key)
{
    if (header->n_metadata == 0)
        return NULL;
    const br_metadata wanted = { key, NULL };
    const br_metadata *found =
        bsearch(&wanted, header->metadata, header->n_metadata, sizeof wanted, by_key);
    return found ? found->value : NULL;
}
