/* cli/info_gguf.c - `brasa info` for a GGUF file: its architecture, metadata and tensors. */
#include "cli/info.h"

#include <brasa/pretrained.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 4 }; /* elements of an array that the plain output shows */

typedef struct facts {
    br_gguf *file;
    const char *path;
    int64_t count;
    int64_t elements, bytes; /* of all tensors */
    char class[64];          /* that the file can be loaded as; "": none */
    char reason[1024];       /* why it cannot be loaded */
} facts;

/* Finds the class by reading the metadata as a configuration. */
static void find_class(facts *f)
{
    br_auto_config *config = br_auto_config_load(f->path);
    const char *name = config ? br_auto_config_list_string(config, "architectures", 0) : NULL;
    snprintf(f->class, sizeof f->class, "%s", name ? name : "");
    if (!name)
        snprintf(f->reason, sizeof f->reason, "%s", br_error_message());
    br_clear_error();
    br_auto_config_free(config);
}

static bool collect(facts *f, const char *path)
{
    *f = (facts){ .path = path, .file = br_gguf_open(path, NULL) };
    if (!f->file)
        return false;
    f->count = br_gguf_count(f->file);
    for (int64_t i = 0; i < f->count; i++) {
        f->elements += info_gguf_elements(f->file, i);
        f->bytes += (int64_t)br_gguf_bytes(f->file, i);
    }
    find_class(f);
    return true;
}

/* ---- Values as JSON -------------------------------------------------------------------------- */

/* Returns a string of n bytes. A string that is not UTF-8 is escaped and shortened, and a string
 * with a NUL ends there. */
static json_t *string_value(const char *text, size_t n)
{
    n = strnlen(text, n);
    json_t *string = json_stringn(text, n);
    if (string)
        return string;
    char *copy = br_format("%.*s", n < INT_MAX ? (int)n : INT_MAX, text);
    string = copy ? json_string(br_printable(copy)) : NULL;
    br_free(copy);
    return string;
}

/* Returns element i of an array, or the value of a key if i is -1. JSON has no NaN and no infinity:
 * they are null. */
static json_t *json_value(const br_gguf *f, const char *key, const char *type, int64_t i)
{
    bool one = i < 0;
    if (strcmp(type, "string") == 0) {
        size_t n = 0;
        const char *text = one ? br_gguf_string(f, key, &n) : br_gguf_list_string(f, key, i, &n);
        return text ? string_value(text, n) : NULL;
    }
    if (strcmp(type, "bool") == 0)
        return json_boolean(one ? br_gguf_bool(f, key) : br_gguf_list_bool(f, key, i));
    bool is_float = strncmp(type, "float", strlen("float")) == 0;
    if (!is_float) {
        int64_t integer = one ? br_gguf_integer(f, key) : br_gguf_list_integer(f, key, i);
        if (!br_failed())
            return json_integer(integer);
        br_clear_error(); /* a uint64 that jansson's integers do not represent */
    }
    double x = one ? br_gguf_number(f, key) : br_gguf_list_number(f, key, i);
    json_t *number = json_real(x);
    return number ? number : json_null();
}

/* Returns the value of a key; of an array, at most `most` elements. */
static json_t *value_of(const br_gguf *file, const char *key, int64_t most)
{
    const char *type = br_gguf_metadata_type(file, key);
    if (strcmp(type, "array") != 0)
        return json_value(file, key, type, -1);
    json_t *array = json_array();
    int64_t n = br_gguf_list_size(file, key);
    type = br_gguf_list_type(file, key);
    for (int64_t i = 0; array && i < n && i < most; i++)
        if (json_array_append_new(array, json_value(file, key, type, i)) != 0) {
            json_decref(array);
            return NULL;
        }
    return array;
}

/* ---- Plain output ---------------------------------------------------------------------------- */

static void fail_memory(void)
{
    br_raise(BR_ERROR_MEMORY, "info: cannot allocate memory for the values");
}

/* Prints a string as it is, and other values as JSON. */
static void print_value(const br_gguf *file, const char *key)
{
    json_t *value = value_of(file, key, SHOWN);
    char *text = value && !json_is_string(value)
                     ? json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(7))
                     : NULL;
    if (json_is_string(value))
        info_value(json_string_value(value));
    else if (text)
        info_value(text);
    else
        fail_memory();
    if (json_is_array(value) && br_gguf_list_size(file, key) > SHOWN)
        printf(" (%" PRId64 " elements)", br_gguf_list_size(file, key));
    free(text);
    json_decref(value);
}

static void print_metadata(const br_gguf *file)
{
    int width = 0;
    int64_t n = br_gguf_metadata_count(file);
    for (int64_t i = 0; i < n; i++)
        width = info_widen(width, br_printable(br_gguf_metadata_key(file, i)));
    printf(n > 0 ? "Metadata\n" : "");
    for (int64_t i = 0; i < n && !br_failed(); i++) {
        const char *key = br_gguf_metadata_key(file, i);
        printf("  ");
        info_padded(br_printable(key), width);
        printf("  %-7s  ", br_gguf_metadata_type(file, key));
        print_value(file, key);
        printf("\n");
    }
    printf(n > 0 ? "\n" : "");
}

/* Writes the shape as "[2, 3]". A GGUF tensor has at most 4 dimensions. */
static const char *shape_text(const br_gguf *file, int64_t i, char text[128])
{
    const int64_t *sizes;
    int n = br_gguf_shape(file, i, &sizes);
    size_t used = (size_t)snprintf(text, 128, "[");
    for (int d = 0; d < n; d++)
        used += (size_t)snprintf(text + used, 128 - used, d ? ", %" PRId64 : "%" PRId64, sizes[d]);
    snprintf(text + used, 128 - used, "]");
    return text;
}

static void print_tensors(const facts *f)
{
    int name = (int)strlen("Name"), shape = (int)strlen("Shape");
    char text[128];
    for (int64_t i = 0; i < f->count; i++) {
        name = info_widen(name, br_printable(br_gguf_name(f->file, i)));
        shape = info_widen(shape, shape_text(f->file, i, text));
    }
    if (f->count > 0)
        printf("  %-*s  %-7s  %-*s  %14s  %14s\n", name, "Name", "Type", shape, "Shape", "Elements",
               "Bytes");
    for (int64_t i = 0; i < f->count; i++) {
        printf("  ");
        info_padded(br_printable(br_gguf_name(f->file, i)), name);
        printf("  %-7s  ", br_gguf_type(f->file, i));
        info_padded(shape_text(f->file, i, text), shape);
        printf("  %14" PRId64 "  %14zu\n", info_gguf_elements(f->file, i),
               br_gguf_bytes(f->file, i));
    }
    printf(f->count > 0 ? "\n" : "");
}

/* Returns general.architecture, or NULL if the file has no such string. */
static const char *architecture_of(const br_gguf *file)
{
    static const char key[] = "general.architecture";
    const char *type = br_gguf_metadata_type(file, key);
    return type && strcmp(type, "string") == 0 ? br_gguf_string(file, key, NULL) : NULL;
}

static void print_facts(const facts *f)
{
    char size[32];
    const char *architecture = architecture_of(f->file);
    printf("%s: ", br_printable(f->path));
    printf("GGUF version %d, ", br_gguf_version(f->file));
    printf("%s%s", architecture ? "architecture " : "no architecture",
           architecture ? br_printable(architecture) : "");
    printf(", %s\n\n", info_size((double)info_file_size(f->path), size, sizeof size));
    print_metadata(f->file);
    print_tensors(f);
    printf("%" PRId64 " tensor%s, %" PRId64 " elements, %s\n", f->count, f->count == 1 ? "" : "s",
           f->elements, info_size((double)f->bytes, size, sizeof size));
    if (*f->class)
        printf("--model loads it as %s\n", f->class);
    else
        printf("--model cannot load it: %s\n", f->reason);
}

/* ---- JSON output ----------------------------------------------------------------------------- */

static json_t *tensor_object(const br_gguf *file, int64_t i)
{
    const int64_t *sizes;
    int n = br_gguf_shape(file, i, &sizes);
    json_t *shape = json_array();
    for (int d = 0; d < n; d++)
        json_array_append_new(shape, json_integer(sizes[d]));
    return json_pack("{s:s, s:s, s:o, s:I, s:I}", "name", br_gguf_name(file, i), "type",
                     br_gguf_type(file, i), "shape", shape, "elements",
                     (json_int_t)info_gguf_elements(file, i), "bytes",
                     (json_int_t)br_gguf_bytes(file, i));
}

static json_t *facts_object(const facts *f)
{
    json_t *metadata = json_object(), *tensors = json_array();
    bool ok = metadata && tensors;
    for (int64_t i = 0; ok && i < br_gguf_metadata_count(f->file); i++) {
        const char *key = br_gguf_metadata_key(f->file, i);
        ok = json_object_set_new(metadata, key, value_of(f->file, key, INT64_MAX)) == 0;
    }
    for (int64_t i = 0; ok && i < f->count; i++)
        ok = json_array_append_new(tensors, tensor_object(f->file, i)) == 0;
    const char *architecture = architecture_of(f->file);
    json_t *object = json_pack(
        "{s:o, s:I, s:i, s:o*, s:o, s:o, s:I, s:I, s:s?, s:o*}", "path", info_text_object(f->path),
        "bytes", (json_int_t)info_file_size(f->path), "gguf_version", br_gguf_version(f->file),
        "architecture", architecture ? info_text_object(architecture) : NULL, "metadata", metadata,
        "tensors", tensors, "elements", (json_int_t)f->elements, "tensor_bytes",
        (json_int_t)f->bytes, "class", *f->class ? f->class : NULL, "reason",
        *f->class ? NULL : info_text_object(f->reason));
    if (ok)
        return object;
    json_decref(object);
    return NULL;
}

static void print_json(const facts *f)
{
    json_t *object = facts_object(f);
    if (!object || json_dumpf(object, stdout, JSON_COMPACT | JSON_REAL_PRECISION(17)) != 0)
        br_raise(BR_ERROR_MEMORY, "info: cannot write the JSON object");
    printf("\n");
    json_decref(object);
}

/* ---------------------------------------------------------------------------------------------- */

void info_gguf(const char *path, bool json)
{
    facts f;
    if (collect(&f, path)) {
        if (json)
            print_json(&f);
        else
            print_facts(&f);
    }
    br_gguf_close(f.file);
}
