/* io/json_write.c - writes a JSON value as text. jansson writes all reals of a value with the same
 * number of digits, which would turn a 0.1 in a file into 0.10000000000000001. */
#include "io/io_internal.h"
#include "io/json.h"
#include "nn/nn_internal.h"

typedef struct writer {
    const char *op, *path; /* for errors */
    br__text text;
} writer;

static bool fail_memory(const writer *w)
{
    if (!br__failed())
        br__fail_file(BR_ERROR_MEMORY, w->op, w->path, "cannot allocate memory for the JSON text");
    return false;
}

/* Appends a value that is not an object or array. */
static bool add_scalar(writer *w, const json_t *value, size_t flags)
{
    flags |= JSON_ENCODE_ANY;
    size_t n = json_dumpb(value, NULL, 0, flags);
    char *text = n > 0 && n < INT32_MAX ? br_malloc(n) : NULL;
    bool ok = text && json_dumpb(value, text, n, flags) == n &&
              br__text_add(&w->text, "%.*s", (int)n, text);
    br_free(text);
    return ok || fail_memory(w);
}

/* Appends a real with the fewest digits that give the same number when the text is read. */
static bool add_real(writer *w, const json_t *value)
{
    size_t start = w->text.length;
    for (size_t digits = 15; digits <= 17; digits++) {
        if (!add_scalar(w, value, JSON_REAL_PRECISION(digits)))
            return false;
        json_error_t error;
        json_t *read =
            br__json_parse(w->op, w->path, w->text.data + start, w->text.length - start, &error);
        bool same = json_equal(read, value);
        json_decref(read);
        if (same || !read || digits == 17)
            break;
        br__text_truncate(&w->text, start);
    }
    return !br__failed();
}

static bool add_value(writer *w, const json_t *value, int depth);

/* Begins the line of an element: a comma after the element before it, and the indentation. */
static bool begin_line(writer *w, bool first, int depth)
{
    return br__text_add(&w->text, "%s\n%*s", first ? "" : ",", 2 * depth, "");
}

static bool add_array(writer *w, const json_t *value, int depth)
{
    size_t n = json_array_size(value);
    bool ok = br__text_add(&w->text, "[");
    for (size_t i = 0; ok && i < n; i++)
        ok = begin_line(w, i == 0, depth + 1) && add_value(w, json_array_get(value, i), depth + 1);
    return ok && (n == 0 || begin_line(w, true, depth)) && br__text_add(&w->text, "]");
}

static bool add_key(writer *w, const char *key)
{
    json_t *name = json_string(key);
    bool ok = name ? add_scalar(w, name, 0) && br__text_add(&w->text, ": ") : fail_memory(w);
    json_decref(name);
    return ok;
}

static bool add_object(writer *w, const json_t *value, int depth)
{
    const char *key;
    json_t *member;
    bool first = true;
    if (!br__text_add(&w->text, "{"))
        return false;
    json_object_foreach((json_t *)value, key, member)
    {
        if (!begin_line(w, first, depth + 1) || !add_key(w, key) ||
            !add_value(w, member, depth + 1))
            return false;
        first = false;
    }
    return (first || begin_line(w, true, depth)) && br__text_add(&w->text, "}");
}

static bool add_value(writer *w, const json_t *value, int depth)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return add_object(w, value, depth);
    case JSON_ARRAY:
        return add_array(w, value, depth);
    case JSON_REAL:
        return add_real(w, value);
    default:
        return add_scalar(w, value, 0);
    }
}

char *br__json_text(const char *op, const char *path, const json_t *value)
{
    writer w = { .op = op, .path = path };
    if (add_value(&w, value, 0))
        return br__text_take(&w.text);
    br_free(w.text.data);
    return NULL;
}
