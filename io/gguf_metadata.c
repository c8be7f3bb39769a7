/* io/gguf_metadata.c - the metadata of an open GGUF file. */
#include "io/gguf_internal.h"

#include <inttypes.h>
#include <string.h>

static const char op[] = "gguf";

/* ---- Keys ------------------------------------------------------------------------------------ */

int64_t br_gguf_metadata_count(const br_gguf *file)
{
    return BR_LIVE(op, file) ? (int64_t)file->n_entries : -1;
}

const char *br_gguf_metadata_key(const br_gguf *file, int64_t i)
{
    if (!br__required(op, "file", file))
        return NULL;
    if (i >= 0 && i < (int64_t)file->n_entries)
        return file->entries[i].key;
    return br__fail_file(BR_ERROR_INDEX, op, file->path,
                         "metadata index %" PRId64 " is out of range: the file has %zu keys", i,
                         file->n_entries);
}

static const char *type_of(const br_gguf_entry *e)
{
    return br__gguf_value_name(e->is_array ? BR_GGUF_ARRAY : e->type);
}

const char *br_gguf_metadata_type(const br_gguf *file, const char *key)
{
    const br_gguf_entry *e = BR_LIVE(op, file) && key ? br__gguf_entry(file, key) : NULL;
    return e ? type_of(e) : NULL;
}

/* Returns the entry of a key, or NULL and an error. */
static const br_gguf_entry *find(const br_gguf *file, const char *key)
{
    if (!br__required(op, "file", file) || !br__required(op, "key", key))
        return NULL;
    const br_gguf_entry *e = br__gguf_entry(file, key);
    return e ? e
             : br__fail_file(BR_ERROR_ARGUMENT, op, file->path, "the file has no metadata \"%s\"",
                             br_printable(key));
}

static const br_gguf_entry *fail_type(const br_gguf *file, const br_gguf_entry *e,
                                      const char *expected)
{
    return br__fail_file(BR_ERROR_DTYPE, op, file->path, "metadata \"%s\" is %s%s, expected %s",
                         br_printable(e->key), e->is_array ? "an array of type " : "of type ",
                         br__gguf_value_name(e->type), expected);
}

/* Returns the entry of a key that is an array, or NULL and an error. */
static const br_gguf_entry *find_list(const br_gguf *file, const char *key)
{
    const br_gguf_entry *e = find(file, key);
    return !e || e->is_array ? e : fail_type(file, e, "an array");
}

/* Returns the entry of a key that is an array with an element i. */
static const br_gguf_entry *find_element(const br_gguf *file, const char *key, int64_t i)
{
    const br_gguf_entry *e = find_list(file, key);
    if (!e || (i >= 0 && (uint64_t)i < e->n))
        return e;
    return br__fail_file(BR_ERROR_INDEX, op, file->path,
                         "metadata \"%s\": index %" PRId64
                         " is out of range: the array has %" PRIu64 " elements",
                         br_printable(key), i, e->n);
}

/* Returns the entry of a key that is no array. */
static const br_gguf_entry *find_value(const br_gguf *file, const char *key, const char *expected)
{
    const br_gguf_entry *e = find(file, key);
    return !e || !e->is_array ? e : fail_type(file, e, expected);
}

/* ---- Numbers --------------------------------------------------------------------------------- */

/* Returns element i of an entry of integers that are at most 32 bits wide, or signed. */
static int64_t signed_at(const br_gguf_entry *e, uint64_t i)
{
    const unsigned char *p = e->data + i * br__gguf_value_size(e->type);
    union {
        int8_t i8;
        uint16_t u16;
        int16_t i16;
        uint32_t u32;
        int32_t i32;
        int64_t i64;
    } v;
    memcpy(&v, p, br__gguf_value_size(e->type));
    switch (e->type) {
    case BR_GGUF_INT8:
        return v.i8;
    case BR_GGUF_UINT16:
        return v.u16;
    case BR_GGUF_INT16:
        return v.i16;
    case BR_GGUF_UINT32:
        return v.u32;
    case BR_GGUF_INT32:
        return v.i32;
    case BR_GGUF_INT64:
        return v.i64;
    default:
        return *p; /* uint8 and bool */
    }
}

static uint64_t unsigned_at(const br_gguf_entry *e, uint64_t i)
{
    uint64_t value;
    memcpy(&value, e->data + i * sizeof value, sizeof value);
    return value;
}

static bool is_float(br_gguf_value type)
{
    return type == BR_GGUF_FLOAT32 || type == BR_GGUF_FLOAT64;
}

static bool is_integer(br_gguf_value type)
{
    return type != BR_GGUF_BOOL && type != BR_GGUF_STRING && !is_float(type);
}

static int64_t integer_at(const br_gguf *file, const br_gguf_entry *e, uint64_t i)
{
    if (!e)
        return 0;
    if (!is_integer(e->type)) {
        fail_type(file, e, "an integer");
        return 0;
    }
    if (e->type != BR_GGUF_UINT64)
        return signed_at(e, i);
    uint64_t value = unsigned_at(e, i);
    if (value <= INT64_MAX)
        return (int64_t)value;
    br__fail_file(BR_ERROR_ARGUMENT, op, file->path,
                  "metadata \"%s\" has the value %" PRIu64 ", which int64_t does not represent",
                  br_printable(e->key), value);
    return 0;
}

static double number_at(const br_gguf *file, const br_gguf_entry *e, uint64_t i)
{
    float single;
    double number;
    if (e && e->type == BR_GGUF_FLOAT32) {
        memcpy(&single, e->data + i * sizeof single, sizeof single);
        return (double)single;
    }
    if (e && e->type == BR_GGUF_FLOAT64) {
        memcpy(&number, e->data + i * sizeof number, sizeof number);
        return number;
    }
    if (e && e->type == BR_GGUF_UINT64)
        return (double)unsigned_at(e, i);
    if (e && !is_integer(e->type)) {
        fail_type(file, e, "a number");
        return 0;
    }
    return e ? (double)signed_at(e, i) : 0;
}

static bool bool_at(const br_gguf *file, const br_gguf_entry *e, uint64_t i)
{
    if (e && e->type == BR_GGUF_BOOL)
        return e->data[i] != 0;
    if (e)
        fail_type(file, e, "a bool");
    return false;
}

/* ---- Values ---------------------------------------------------------------------------------- */

int64_t br_gguf_integer(const br_gguf *file, const char *key)
{
    return integer_at(file, find_value(file, key, "an integer"), 0);
}

double br_gguf_number(const br_gguf *file, const char *key)
{
    return number_at(file, find_value(file, key, "a number"), 0);
}

bool br_gguf_bool(const br_gguf *file, const char *key)
{
    return bool_at(file, find_value(file, key, "a bool"), 0);
}

const char *br_gguf_string(const br_gguf *file, const char *key, size_t *length)
{
    const br_gguf_entry *e = find_value(file, key, "a string");
    if (e && e->type != BR_GGUF_STRING)
        e = fail_type(file, e, "a string");
    if (length)
        *length = e ? e->length : 0;
    return e ? e->text : NULL;
}

/* ---- Arrays ---------------------------------------------------------------------------------- */

const char *br_gguf_list_type(const br_gguf *file, const char *key)
{
    const br_gguf_entry *e = find_list(file, key);
    return e ? br__gguf_value_name(e->type) : NULL;
}

int64_t br_gguf_list_size(const br_gguf *file, const char *key)
{
    const br_gguf_entry *e = find_list(file, key);
    return e ? (int64_t)e->n : -1;
}

int64_t br_gguf_list_integer(const br_gguf *file, const char *key, int64_t i)
{
    return integer_at(file, find_element(file, key, i), (uint64_t)i);
}

double br_gguf_list_number(const br_gguf *file, const char *key, int64_t i)
{
    return number_at(file, find_element(file, key, i), (uint64_t)i);
}

bool br_gguf_list_bool(const br_gguf *file, const char *key, int64_t i)
{
    return bool_at(file, find_element(file, key, i), (uint64_t)i);
}

const char *br_gguf_list_string(const br_gguf *file, const char *key, int64_t i, size_t *length)
{
    if (!br__required(op, "length", length))
        return NULL;
    *length = 0;
    const br_gguf_entry *e = find_element(file, key, i);
    if (e && e->type != BR_GGUF_STRING)
        e = fail_type(file, e, "a string");
    if (!e)
        return NULL;
    const unsigned char *p = file->base + e->strings[i];
    uint64_t n;
    memcpy(&n, p, sizeof n);
    *length = (size_t)n;
    return (const char *)p + sizeof n;
}
