/* chat/values.c - the values of templates, with Python's rules for truth, equality and order. */
#include "chat/jinja.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

const char *br__jinja_type(jinja_value v)
{
    static const char *const forms[] = { "list", "tuple", "range", "view of a dict", "generator" };
    static const char *const kinds[] = {
        [JINJA_ABSENT] = "absent",
        [JINJA_UNDEFINED] = "Undefined",
        [JINJA_NULL] = "NoneType",
        [JINJA_BOOL] = "bool",
        [JINJA_INT] = "int",
        [JINJA_FLOAT] = "float",
        [JINJA_STRING] = "str",
        [JINJA_MARKUP] = "Markup",
        [JINJA_DICT] = "dict",
        [JINJA_LOOP] = "loop",
        [JINJA_NAMESPACE] = "namespace",
        [JINJA_MACRO] = "macro",
        [JINJA_METHOD] = "method",
    };
    return v.kind == JINJA_SEQUENCE ? forms[v.sequence->form] : kinds[v.kind];
}

int64_t br__jinja_integer(jinja_value v)
{
    return v.kind == JINJA_BOOL ? v.truth : v.integer;
}

static bool refuse_type(jinja_run *run, const char *what, const char *needed, jinja_value v)
{
    return br__jinja_check_defined(run, v) &&
           br__jinja_fail(&run->place, "%s needs %s, not a '%s'", what, needed, br__jinja_type(v));
}

bool br__jinja_read_integer(jinja_run *run, const char *what, jinja_value v, int64_t absent,
                            int64_t *value)
{
    *value = v.kind == JINJA_ABSENT ? absent : br__jinja_integer(v);
    return v.kind == JINJA_ABSENT || v.kind == JINJA_INT || v.kind == JINJA_BOOL ||
           refuse_type(run, what, "an int", v);
}

bool br__jinja_check_text(jinja_run *run, const char *what, jinja_value v)
{
    return v.kind == JINJA_STRING || refuse_type(run, what, "a string", v);
}

bool br__jinja_check_number(jinja_run *run, const char *what, jinja_value v)
{
    return jinja_is_number(v) || refuse_type(run, what, "a number", v);
}

bool br__jinja_option(jinja_value v, bool absent)
{
    return v.kind == JINJA_ABSENT ? absent : br__jinja_truth(v);
}

double br__jinja_number(jinja_value v)
{
    return v.kind == JINJA_FLOAT ? v.real : (double)br__jinja_integer(v);
}

bool br__jinja_truth(jinja_value v)
{
    switch (v.kind) {
    case JINJA_ABSENT:
    case JINJA_UNDEFINED:
    case JINJA_NULL:
        return false;
    case JINJA_BOOL:
        return v.truth;
    case JINJA_INT:
        return v.integer != 0;
    case JINJA_FLOAT:
        return v.real != 0;
    case JINJA_STRING:
    case JINJA_MARKUP:
        return v.text.n > 0;
    case JINJA_SEQUENCE:
        return v.sequence->n > 0 || v.sequence->form == JINJA_GENERATOR;
    case JINJA_DICT:
        return v.dict->n > 0;
    default:
        return true;
    }
}

/* ---- Equality and order ---------------------------------------------------------------------- */

/* A long double holds any int64_t and any double. */
static long double exact(jinja_value v)
{
    return v.kind == JINJA_FLOAT ? (long double)v.real : (long double)br__jinja_integer(v);
}

static bool sequences_equal(const jinja_sequence *a, const jinja_sequence *b)
{
    if (a == b)
        return true;
    if (a->form != b->form || a->form == JINJA_GENERATOR || a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++) {
        if (!br__jinja_equal(a->items[i], b->items[i]))
            return false;
    }
    return true;
}

static bool dicts_equal(const jinja_dict *a, const jinja_dict *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++) {
        const jinja_value *other = br__jinja_find(b, a->pairs[i].key);
        if (!other || !br__jinja_equal(a->pairs[i].value, *other))
            return false;
    }
    return true;
}

bool br__jinja_equal(jinja_value a, jinja_value b)
{
    if (jinja_is_number(a) && jinja_is_number(b))
        return exact(a) == exact(b);
    if (jinja_is_text(a) && jinja_is_text(b))
        return jinja_text_equal(a.text, b.text);
    if (a.kind != b.kind)
        return false;
    switch (a.kind) {
    case JINJA_SEQUENCE:
        return sequences_equal(a.sequence, b.sequence);
    case JINJA_DICT:
        return dicts_equal(a.dict, b.dict);
    case JINJA_NAMESPACE:
        return a.dict == b.dict;
    case JINJA_LOOP:
        return a.loop == b.loop;
    case JINJA_MACRO:
        return a.macro == b.macro;
    case JINJA_METHOD:
        return a.method == b.method;
    default:
        return true;
    }
}

static bool order_sequences(jinja_run *run, const char *operator, const jinja_sequence * a,
                            const jinja_sequence *b, int *order)
{
    for (size_t i = 0; i < a->n && i < b->n; i++) {
        if (!br__jinja_equal(a->items[i], b->items[i]))
            return br__jinja_order(run, operator, a->items[i], b->items[i], order);
    }
    *order = (a->n > b->n) - (a->n < b->n);
    return true;
}

bool br__jinja_order(jinja_run *run, const char *operator, jinja_value a, jinja_value b, int *order)
{
    if (jinja_is_number(a) && jinja_is_number(b)) {
        long double x = exact(a), y = exact(b);
        *order = isnan(x) || isnan(y) ? 2 : (x > y) - (x < y);
        return true;
    }
    if (a.kind == JINJA_STRING && b.kind == JINJA_STRING) {
        /* The order of UTF-8's bytes is the order of the code points. */
        size_t n = a.text.n < b.text.n ? a.text.n : b.text.n;
        int bytes = n > 0 ? memcmp(a.text.data, b.text.data, n) : 0;
        *order =
            bytes != 0 ? (bytes > 0) - (bytes < 0) : (a.text.n > b.text.n) - (a.text.n < b.text.n);
        return true;
    }
    if (a.kind == JINJA_SEQUENCE && b.kind == JINJA_SEQUENCE &&
        a.sequence->form == b.sequence->form && a.sequence->form <= JINJA_TUPLE)
        return br__jinja_enter(run) &&
               order_sequences(run, operator, a.sequence, b.sequence, order) && run->depth-- > 0;
    return br__jinja_check_defined(run, a) && br__jinja_check_defined(run, b) &&
           br__jinja_fail(&run->place, "'%s' does not compare '%s' and '%s'", operator,
                          br__jinja_type(a), br__jinja_type(b));
}

/* ---- New values ------------------------------------------------------------------------------ */

bool br__jinja_copy(jinja_run *run, const char *data, size_t n, jinja_value *out)
{
    char *copy = br__jinja_alloc(run, n + 1);
    if (!copy)
        return false;
    if (n > 0)
        memcpy(copy, data, n);
    *out = jinja_string((jinja_text){ copy, n });
    return true;
}

static char *append_bytes(char *to, jinja_text text)
{
    if (text.n > 0)
        memcpy(to, text.data, text.n);
    return to + text.n;
}

bool br__jinja_join_all(jinja_run *run, const jinja_sequence *strings, jinja_text separator,
                        jinja_value *out)
{
    size_t n = 0;
    for (size_t i = 0; i < strings->n; i++)
        n += strings->items[i].text.n + (i > 0 ? separator.n : 0);
    char *joined = br__jinja_alloc(run, n + 1), *to = joined;
    if (!joined)
        return false;
    for (size_t i = 0; i < strings->n; i++) {
        if (i > 0)
            to = append_bytes(to, separator);
        to = append_bytes(to, strings->items[i].text);
    }
    *out = jinja_string((jinja_text){ joined, n });
    return true;
}

bool br__jinja_join(jinja_run *run, jinja_text a, jinja_text b, jinja_value *out)
{
    jinja_value strings[] = { jinja_string(a), jinja_string(b) };
    return br__jinja_join_all(run, &(jinja_sequence){ .n = 2, .items = strings }, JINJA_TEXT(""),
                              out);
}

/* Returns room for one more element, or NULL. */
static void *grow(jinja_run *run, void *items, size_t n, size_t *capacity, size_t size)
{
    if (n < *capacity)
        return items;
    size_t more = *capacity > 0 ? 2 * *capacity : 4;
    void *grown = br__jinja_alloc(run, more * size);
    if (!grown)
        return NULL;
    if (n > 0)
        memcpy(grown, items, n * size);
    *capacity = more;
    return grown;
}

bool br__jinja_new_sequence(jinja_run *run, jinja_form form, jinja_value *out)
{
    jinja_sequence *sequence = br__jinja_alloc(run, sizeof *sequence);
    if (!sequence)
        return false;
    *sequence = (jinja_sequence){ .form = form };
    *out = (jinja_value){ JINJA_SEQUENCE, { .sequence = sequence } };
    return true;
}

bool br__jinja_append(jinja_run *run, jinja_sequence *s, jinja_value item)
{
    jinja_value *items = grow(run, s->items, s->n, &s->capacity, sizeof *items);
    if (!items)
        return false;
    s->items = items;
    s->items[s->n++] = item;
    return true;
}

jinja_value br__jinja_new_dict(jinja_run *run)
{
    jinja_dict *dict = br__jinja_alloc(run, sizeof *dict);
    if (!dict)
        return (jinja_value){ 0 };
    *dict = (jinja_dict){ 0 };
    return (jinja_value){ JINJA_DICT, { .dict = dict } };
}

const jinja_value *br__jinja_find(const jinja_dict *dict, jinja_value key)
{
    for (size_t i = 0; i < dict->n; i++) {
        if (br__jinja_equal(dict->pairs[i].key, key))
            return &dict->pairs[i].value;
    }
    return NULL;
}

const jinja_value *br__jinja_find_text(const jinja_dict *dict, const char *key)
{
    return br__jinja_find(dict, jinja_string(jinja_text_of(key)));
}

bool br__jinja_check_key(jinja_run *run, jinja_value v)
{
    bool ok = v.kind != JINJA_DICT && (v.kind != JINJA_SEQUENCE || v.sequence->form != JINJA_LIST);
    for (size_t i = 0; ok && v.kind == JINJA_SEQUENCE && i < v.sequence->n; i++) {
        if (!br__jinja_check_key(run, v.sequence->items[i]))
            return false;
    }
    return ok || br__jinja_fail(&run->place, "a '%s' cannot be a key", br__jinja_type(v));
}

static bool append_pair(jinja_run *run, jinja_dict *dict, jinja_value key, jinja_value value)
{
    jinja_pair *pairs = grow(run, dict->pairs, dict->n, &dict->capacity, sizeof *pairs);
    if (!pairs)
        return false;
    dict->pairs = pairs;
    dict->pairs[dict->n++] = (jinja_pair){ key, value };
    return true;
}

bool br__jinja_put(jinja_run *run, jinja_dict *dict, jinja_value key, jinja_value value)
{
    if (!br__jinja_check_key(run, key))
        return false;
    for (size_t i = 0; i < dict->n; i++) {
        if (br__jinja_equal(dict->pairs[i].key, key)) {
            dict->pairs[i].value = value;
            return true;
        }
    }
    return append_pair(run, dict, key, value);
}

jinja_value br__jinja_undefined(jinja_run *run, const char *format, ...)
{
    char message[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    jinja_value value = { 0 };
    if (!br__jinja_copy(run, message, strlen(message), &value))
        return (jinja_value){ 0 };
    value.kind = JINJA_UNDEFINED;
    return value;
}

bool br__jinja_check_defined(jinja_run *run, jinja_value v)
{
    return v.kind != JINJA_UNDEFINED ||
           br__jinja_fail(&run->place, "%.*s", (int)v.text.n, v.text.data);
}

/* ---- Iteration ------------------------------------------------------------------------------- */

static bool append_chars(jinja_run *run, jinja_text text, jinja_sequence *to)
{
    for (const char *p = text.data, *end = p + text.n; p < end;) {
        const char *begin = p;
        br__jinja_next_char(&p);
        if (!br__jinja_append(run, to, jinja_string((jinja_text){ begin, (size_t)(p - begin) })))
            return false;
    }
    return true;
}

static bool append_items(jinja_run *run, jinja_sequence *from, jinja_sequence *to)
{
    for (size_t i = 0; i < from->n; i++) {
        if (!br__jinja_append(run, to, from->items[i]))
            return false;
    }
    if (from->form == JINJA_GENERATOR)
        from->n = 0;
    return true;
}

bool br__jinja_iterate(jinja_run *run, jinja_value v, jinja_value *out)
{
    if (!br__jinja_new_sequence(run, JINJA_LIST, out))
        return false;
    switch (v.kind) {
    case JINJA_UNDEFINED:
        return true;
    case JINJA_STRING:
        return append_chars(run, v.text, out->sequence);
    case JINJA_SEQUENCE:
        return append_items(run, v.sequence, out->sequence);
    case JINJA_DICT:
        for (size_t i = 0; i < v.dict->n; i++) {
            if (!br__jinja_append(run, out->sequence, v.dict->pairs[i].key))
                return false;
        }
        return true;
    default:
        return br__jinja_fail(&run->place, "a '%s' has no items", br__jinja_type(v));
    }
}

bool br__jinja_begin_generator(jinja_run *run, jinja_value v, jinja_value *items,
                               jinja_value *generator)
{
    return br__jinja_new_sequence(run, JINJA_GENERATOR, generator) &&
           (br__jinja_truth(v) ? br__jinja_iterate(run, v, items)
                               : br__jinja_new_sequence(run, JINJA_LIST, items));
}

bool br__jinja_pairs(jinja_run *run, const jinja_dict *dict, jinja_form form, jinja_value *out)
{
    if (!br__jinja_new_sequence(run, form, out))
        return false;
    for (size_t i = 0; i < dict->n; i++) {
        jinja_value pair;
        if (!br__jinja_new_sequence(run, JINJA_TUPLE, &pair) ||
            !br__jinja_append(run, pair.sequence, dict->pairs[i].key) ||
            !br__jinja_append(run, pair.sequence, dict->pairs[i].value) ||
            !br__jinja_append(run, out->sequence, pair))
            return false;
    }
    return true;
}

bool br__jinja_length(jinja_run *run, jinja_value v, int64_t *length)
{
    switch (v.kind) {
    case JINJA_UNDEFINED:
        *length = 0;
        return true;
    case JINJA_STRING:
    case JINJA_MARKUP:
        *length = (int64_t)br__jinja_count_chars(v.text);
        return true;
    case JINJA_DICT:
        *length = (int64_t)v.dict->n;
        return true;
    case JINJA_LOOP:
        *length = (int64_t)v.loop->items->n;
        return true;
    default:
        break;
    }
    if (v.kind != JINJA_SEQUENCE || v.sequence->form == JINJA_GENERATOR)
        return br__jinja_fail(&run->place, "a '%s' has no length", br__jinja_type(v));
    *length = (int64_t)v.sequence->n;
    return true;
}

bool br__jinja_contains(jinja_run *run, jinja_value a, jinja_value b, bool *contains)
{
    *contains = false;
    switch (b.kind) {
    case JINJA_UNDEFINED:
        return true;
    case JINJA_DICT:
        *contains = br__jinja_find(b.dict, a) != NULL;
        return br__jinja_check_key(run, a);
    case JINJA_STRING:
        if (a.kind != JINJA_STRING)
            return br__jinja_check_defined(run, a) &&
                   br__jinja_fail(&run->place, "'in' a string needs a string, not a '%s'",
                                  br__jinja_type(a));
        *contains = br__jinja_find_part(b.text, a.text, 0) != SIZE_MAX;
        return true;
    case JINJA_SEQUENCE:
        break;
    default:
        return br__jinja_fail(&run->place, "a '%s' has no items", br__jinja_type(b));
    }
    jinja_value items;
    if (!br__jinja_iterate(run, b, &items))
        return false;
    for (size_t i = 0; i < items.sequence->n && !*contains; i++)
        *contains = br__jinja_equal(items.sequence->items[i], a);
    return true;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static bool from_array(jinja_run *run, const json_t *json, jinja_value *out)
{
    if (!br__jinja_new_sequence(run, JINJA_LIST, out))
        return false;
    for (size_t i = 0; i < json_array_size(json); i++) {
        jinja_value item;
        if (!br__jinja_from_json(run, json_array_get(json, i), &item) ||
            !br__jinja_append(run, out->sequence, item))
            return false;
    }
    return true;
}

static bool from_object(jinja_run *run, const json_t *json, jinja_value *out)
{
    const char *name;
    json_t *member;
    *out = br__jinja_new_dict(run);
    if (!out->dict)
        return false;
    json_object_foreach((json_t *)json, name, member)
    {
        jinja_value key, value;
        /* The keys of an object differ, so none is looked for. */
        if (!br__jinja_copy(run, name, strlen(name), &key) ||
            !br__jinja_from_json(run, member, &value) || !append_pair(run, out->dict, key, value))
            return false;
    }
    return true;
}

bool br__jinja_from_json(jinja_run *run, const json_t *json, jinja_value *out)
{
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        return from_object(run, json, out);
    case JSON_ARRAY:
        return from_array(run, json, out);
    case JSON_STRING:
        return br__jinja_copy(run, json_string_value(json), json_string_length(json), out);
    case JSON_INTEGER:
        *out = jinja_int(json_integer_value(json));
        return true;
    case JSON_REAL:
        *out = jinja_real(json_real_value(json));
        return true;
    case JSON_NULL:
        *out = (jinja_value){ JINJA_NULL, { 0 } };
        return true;
    default:
        *out = jinja_bool(json_is_true(json));
        return true;
    }
}
