/* check/samples/sample_args.c - parses signatures and reads arguments according to them. */
#include "check/samples/sample_args.h"
#include "tensor/dtype.h"

#include <stdlib.h>
#include <string.h>

/* One parameter of a signature: parts of its text. */
typedef struct parameter {
    br_text type, name, otherwise; /* otherwise: the default; its data is NULL if there is none */
} parameter;

typedef struct binding {
    sample_tensor make;
    void *context;
    sample_mismatch *mismatch;
} binding;

#define PIECE(text) (int)(text).length, (text).data

static bool is(br_text text, const char *word)
{
    return (size_t)text.length == strlen(word) && memcmp(text.data, word, strlen(word)) == 0;
}

static bool mismatch(binding *b, const parameter *p, const char *what)
{
    snprintf(b->mismatch->reason, sizeof b->mismatch->reason, "%.*s %s", PIECE(p->name), what);
    return false;
}

/* ---- Signatures ------------------------------------------------------------------------------ */

static br_text piece(const char *begin, const char *end)
{
    return (br_text){ begin, end - begin };
}

/* Gets the next parameter and moves *at past it; returns false at the end. */
static bool next_parameter(const char **at, parameter *p)
{
    if (!**at)
        return false;
    const char *end = strstr(*at, ", ");
    const char *stop = end ? end : *at + strlen(*at);
    const char *space = memchr(*at, ' ', (size_t)(stop - *at));
    const char *equals = memchr(space, '=', (size_t)(stop - space));
    p->type = piece(*at, space);
    p->name = piece(space + 1, equals ? equals : stop);
    p->otherwise = equals ? piece(equals + 1, stop) : (br_text){ 0 };
    *at = end ? end + 2 : stop;
    return true;
}

/* Returns a default as a JSON value, as it would be recorded; NULL if memory runs out. */
static json_t *default_value(br_text text)
{
    if (is(text, "None"))
        return json_null();
    if (is(text, "True") || is(text, "False"))
        return json_boolean(*text.data == 'T');
    if (is(text, "inf") || is(text, "-inf"))
        return json_pack("{s:s#}", "float", text.data, (int)text.length);
    json_t *number = json_loadb(text.data, (size_t)text.length, JSON_DECODE_ANY, NULL);
    return number ? number : json_stringn(text.data, (size_t)text.length);
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* JSON has neither infinities nor NaN, so records contain, for example, {"float": "-inf"}. */
static bool read_number(const json_t *value, double *number)
{
    const char *text = json_string_value(json_object_get(value, "float"));
    if (json_is_boolean(value))
        *number = json_is_true(value);
    else if (json_is_number(value))
        *number = json_number_value(value);
    else if (text)
        *number = strtod(text, NULL);
    else
        return false;
    return true;
}

/* A complex tensor is recorded as its parts, and marked. */
static bool read_tensor(binding *b, const json_t *value, bool is_complex, br_tensor **tensor)
{
    if (!json_object_get(value, "tensor") ||
        json_is_true(json_object_get(value, "complex")) != is_complex)
        return false;
    *tensor = b->make(b->context, value);
    return true;
}

static bool read_ints(const json_t *value, sample_arg *out)
{
    bool one = json_is_integer(value);
    size_t n = one ? 1 : json_array_size(value);
    if (!(one || json_is_array(value)) || n > SAMPLE_ITEMS)
        return false;
    for (size_t i = 0; i < n; i++) {
        const json_t *item = one ? value : json_array_get(value, i);
        if (!json_is_integer(item) && !json_is_null(item))
            return false;
        out->ints[i] = json_is_null(item) ? BR_ALL : json_integer_value(item);
    }
    out->count = (int)n;
    return true;
}

/* Reads a list of lists as one list of all items. */
static bool read_int_lists(const json_t *value, sample_arg *out)
{
    sample_arg list;
    bool ok = json_array_size(value) > 0;
    out->count = 0;
    for (size_t i = 0; ok && i < json_array_size(value); i++) {
        const json_t *item = json_array_get(value, i);
        ok = json_is_array(item) && read_ints(item, &list) &&
             out->count + list.count <= SAMPLE_ITEMS;
        for (int k = 0; ok && k < list.count; k++)
            out->ints[out->count++] = list.ints[k];
    }
    return ok;
}

static bool read_tensors(binding *b, const json_t *value, sample_arg *out)
{
    size_t n = json_array_size(value);
    if (!json_is_array(value) || n > SAMPLE_ITEMS)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!read_tensor(b, json_array_get(value, i), false, &out->tensors[i]))
            return false;
    out->count = (int)n;
    return true;
}

/* Reads one index for each of the first dimensions: a tensor, or NULL for a full slice (`:`). */
static bool read_indices(binding *b, const json_t *value, sample_arg *out)
{
    bool one = json_is_object(value);
    size_t n = one ? 1 : json_array_size(value);
    if (n == 0 || n > SAMPLE_ITEMS)
        return false;
    for (size_t i = 0; i < n; i++) {
        const json_t *item = one ? value : json_array_get(value, i);
        if (!json_is_true(json_object_get(item, "whole")) &&
            !read_tensor(b, item, false, &out->tensors[i]))
            return false;
    }
    out->count = (int)n;
    return true;
}

static bool read_dtype(const json_t *value, br_dtype *dtype)
{
    const char *name = json_string_value(json_object_get(value, "dtype"));
    for (int i = 0; name && i < BR_DTYPES; i++)
        if (strcmp(name, br__dtypes[i].torch_name) == 0) {
            *dtype = (br_dtype)i;
            return true;
        }
    return false;
}

/* Gets the index of a word, or of a value in JSON's notation, among the words in braces. */
static bool read_choice(br_text words, const json_t *value, int64_t *number)
{
    const char *word = json_string_value(value);
    char *text = word ? NULL : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    size_t n = word ? strlen(word) : text ? strlen(text) : 0;
    bool found = false;
    *number = -1;
    for (const char *at = words.data; n > 0 && !found && *at != '}'; (*number)++) {
        size_t length = strcspn(++at, "|}");
        found = length == n && memcmp(at, word ? word : text, n) == 0;
        at += length;
    }
    free(text);
    return found;
}

static bool is_default(br_text text, const json_t *value)
{
    json_t *only = default_value(text);
    double a, b;
    bool equal =
        json_equal(only, value) || (read_number(only, &a) && read_number(value, &b) && a == b);
    json_decref(only);
    return equal;
}

/* Reads the value as the parameter's type. */
static bool read_typed(binding *b, const parameter *p, const json_t *value, sample_arg *out)
{
    br_text type = p->type;
    if (is(type, "Tensor"))
        return read_tensor(b, value, false, &out->tensor);
    if (is(type, "Complex"))
        return read_tensor(b, value, true, &out->tensor);
    if (is(type, "Index"))
        return read_tensor(b, value, false, &out->tensor) &&
               br__is_kind(br_dtype_of(out->tensor), BR_KIND_INTEGER);
    if (is(type, "Tensor[]"))
        return read_tensors(b, value, out);
    if (is(type, "Index[]"))
        return read_indices(b, value, out);
    if (is(type, "str"))
        return (out->text = json_string_value(value)) != NULL;
    if (is(type, "int")) {
        out->integer = json_integer_value(value);
        return json_is_integer(value);
    }
    if (is(type, "int[]"))
        return read_ints(value, out);
    if (is(type, "int[][]"))
        return read_int_lists(value, out);
    if (is(type, "float"))
        return read_number(value, &out->number);
    if (is(type, "bool")) {
        out->integer = json_is_true(value);
        return json_is_boolean(value);
    }
    if (is(type, "dtype"))
        return read_dtype(value, &out->dtype);
    return *type.data == '{' && read_choice(type, value, &out->integer);
}

/* Describes a value that does not match the type, for a message. */
static const char *described(const json_t *value, const br_tensor *tensor, char *buffer,
                             size_t size)
{
    const char *other = json_string_value(json_object_get(value, "other"));
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    other = other ? other : json_string_value(json_object_get(value, "dtype"));
    if (tensor)
        snprintf(buffer, size, "a tensor of %s", br_dtype_name(br_dtype_of(tensor)));
    else if (json_object_get(value, "tensor"))
        snprintf(buffer, size, "a tensor");
    else
        snprintf(buffer, size, "%.60s",
                 other                  ? other
                 : json_is_array(value) ? "a list"
                 : text                 ? text
                                        : "?");
    free(text);
    return buffer;
}

static bool read_value(binding *b, const parameter *p, const json_t *value, sample_arg *out)
{
    bool only = is(p->type, "only"), absent = json_is_null(value);
    char what[80], text[128];
    if (only ? is_default(p->otherwise, value) : absent && p->otherwise.data)
        return true;
    out->given = !absent;
    if (!only && read_typed(b, p, value, out))
        return true;
    snprintf(text, sizeof text, "is %s, expected %.*s",
             described(value, out->tensor, what, sizeof what),
             PIECE(only ? p->otherwise : p->type));
    return mismatch(b, p, text);
}

/* ---- Calls ----------------------------------------------------------------------------------- */

/* Returns the positional arguments from number i on as one list, as in x.reshape(2, 3); NULL if
 * there is only one, or if the parameter is not a list of integers. */
static json_t *rest_as_list(const parameter *p, const json_t *args, size_t i)
{
    size_t n = json_array_size(args);
    if (!is(p->type, "int[]") || i + 1 >= n)
        return NULL;
    json_t *list = json_array();
    for (; i < n; i++)
        json_array_append(list, json_array_get(args, i));
    return list;
}

static bool read_argument(binding *b, const parameter *p, const json_t *given, sample_arg *out)
{
    if (given && !(json_is_null(given) && p->otherwise.data))
        return read_value(b, p, given, out);
    if (!p->otherwise.data)
        return mismatch(b, p, "is missing");
    json_t *value = default_value(p->otherwise);
    bool good = read_value(b, p, value, out);
    json_decref(value);
    return good;
}

/* Checks that every keyword argument is a parameter of the signature. */
static bool no_others(binding *b, const char *signature, const json_t *kwargs)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)kwargs, key, value)
    {
        parameter p;
        bool found = false;
        for (const char *at = signature; !found && next_parameter(&at, &p);)
            found = is(p.name, key);
        if (!found) {
            snprintf(b->mismatch->reason, sizeof b->mismatch->reason, "%.60s is not supported",
                     key);
            return false;
        }
    }
    return true;
}

/* Reads parameters until one does not fit. *taken is the number of positional arguments used. */
static bool read_all(binding *b, const char *signature, const json_t *args, const json_t *kwargs,
                     sample_arg *out, size_t *taken)
{
    parameter p;
    size_t i = 0, n = json_array_size(args);
    bool good = true;
    for (const char *at = signature; good && next_parameter(&at, &p); i++) {
        char name[64];
        snprintf(name, sizeof name, "%.*s", PIECE(p.name));
        json_t *rest = *at ? NULL : rest_as_list(&p, args, i);
        const json_t *given = i < n ? json_array_get(args, i) : json_object_get(kwargs, name);
        b->mismatch->position = (int)i;
        good = i < SAMPLE_ARGS && read_argument(b, &p, rest ? rest : given, &out[i]);
        if (rest)
            n = i + 1;
        json_decref(rest);
    }
    *taken = i + json_array_size(args) - n;
    return good;
}

bool sample_bind(const char *signature, const json_t *args, const json_t *kwargs,
                 sample_tensor make, void *context, sample_arg *out, sample_mismatch *why)
{
    binding b = { make, context, why };
    size_t n = json_array_size(args), taken;
    *why = (sample_mismatch){ 0 };
    memset(out, 0, SAMPLE_ARGS * sizeof *out);
    if (!read_all(&b, signature, args, kwargs, out, &taken))
        return false;
    if (n > taken) {
        snprintf(why->reason, sizeof why->reason, "%zu positional arguments are not supported", n);
        return false;
    }
    return no_others(&b, signature, kwargs);
}
