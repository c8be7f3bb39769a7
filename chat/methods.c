/* chat/methods.c - attributes and elements of values, and the methods of dicts, lists and loops. */
#include "chat/jinja.h"

#define METHOD(name)                                                         \
    static bool name(jinja_run *run, jinja_value self, const jinja_value *a, \
                     const jinja_arguments *all, jinja_value *out)

/* ---- Dicts, lists, loops --------------------------------------------------------------------- */

METHOD(dict_items)
{
    (void)a, (void)all;
    return br__jinja_pairs(run, self.dict, JINJA_VIEW, out);
}

METHOD(dict_keys)
{
    (void)a, (void)all;
    bool ok = br__jinja_iterate(run, self, out);
    if (ok)
        out->sequence->form = JINJA_VIEW;
    return ok;
}

METHOD(dict_values)
{
    (void)a, (void)all;
    if (!br__jinja_new_sequence(run, JINJA_VIEW, out))
        return false;
    for (size_t i = 0; i < self.dict->n; i++) {
        if (!br__jinja_append(run, out->sequence, self.dict->pairs[i].value))
            return false;
    }
    return true;
}

METHOD(dict_get)
{
    (void)all;
    if (!br__jinja_check_key(run, a[0]))
        return false;
    const jinja_value *found = br__jinja_find(self.dict, a[0]);
    *out = found ? *found : a[1].kind == JINJA_ABSENT ? (jinja_value){ JINJA_NULL, { 0 } } : a[1];
    return true;
}

METHOD(dict_copy)
{
    (void)a, (void)all;
    *out = br__jinja_new_dict(run);
    for (size_t i = 0; out->dict && i < self.dict->n; i++) {
        if (!br__jinja_put(run, out->dict, self.dict->pairs[i].key, self.dict->pairs[i].value))
            return false;
    }
    return out->dict != NULL;
}

static const jinja_callable dict_methods[] = {
    { "copy", dict_copy, 0, "" },     { "get", dict_get, 1, "key default" },
    { "items", dict_items, 0, "" },   { "keys", dict_keys, 0, "" },
    { "values", dict_values, 0, "" }, { NULL },
};

METHOD(list_count)
{
    (void)run, (void)all;
    int64_t n = 0;
    for (size_t i = 0; i < self.sequence->n; i++)
        n += br__jinja_equal(self.sequence->items[i], a[0]);
    *out = jinja_int(n);
    return true;
}

METHOD(list_index)
{
    (void)all;
    for (size_t i = 0; i < self.sequence->n; i++) {
        *out = jinja_int((int64_t)i);
        if (br__jinja_equal(self.sequence->items[i], a[0]))
            return true;
    }
    return br__jinja_fail(&run->place, "index() does not find the value in the list");
}

static const jinja_callable list_methods[] = {
    { "count", list_count, 1, "value" },
    { "index", list_index, 1, "value" },
    { NULL },
};

METHOD(loop_cycle)
{
    (void)a;
    if (all->n == 0)
        return br__jinja_fail(&run->place, "loop.cycle() needs a value");
    *out = all->values[self.loop->index % all->n];
    return true;
}

/* Returns whether the arguments differ from those of the last call. */
METHOD(loop_changed)
{
    (void)a;
    jinja_value values;
    if (!br__jinja_new_sequence(run, JINJA_TUPLE, &values))
        return false;
    for (size_t i = 0; i < all->n; i++) {
        if (!br__jinja_append(run, values.sequence, all->values[i]))
            return false;
    }
    *out = jinja_bool(!br__jinja_equal(self.loop->changed, values));
    self.loop->changed = values;
    return true;
}

static const jinja_callable loop_methods[] = {
    { "changed", loop_changed, 0, "*" },
    { "cycle", loop_cycle, 0, "*" },
    { NULL },
};

/* ---- Attributes and elements ----------------------------------------------------------------- */

/* Methods that Python's types have and templates may not call or Brasa does not have: a template
 * that uses one is refused, where another name would be undefined. */
static const char text_refused[] =
    " casefold center encode expandtabs format format_map isalnum isascii isidentifier islower "
    "isnumeric isprintable istitle isupper ljust maketrans rindex rjust swapcase translate zfill ";
static const char dict_refused[] = " clear fromkeys pop popitem setdefault update ";
static const char list_refused[] = " append clear copy extend insert pop remove reverse sort ";

static bool is_listed(const char *names, jinja_text name)
{
    for (const char *p = names; *p; p++) {
        size_t n = strcspn(p, " ");
        if (n == name.n && memcmp(p, name.data, n) == 0)
            return true;
        p += n;
        if (!*p)
            break;
    }
    return false;
}

/* Sets *out to the method; it stays absent if the type has none of this name. */
static bool find_method(jinja_run *run, jinja_value v, jinja_text name, jinja_value *out)
{
    bool is_list = v.kind == JINJA_SEQUENCE && v.sequence->form <= JINJA_TUPLE;
    const jinja_callable *methods = v.kind == JINJA_STRING ? br__jinja_text_methods
                                    : v.kind == JINJA_DICT ? dict_methods
                                    : v.kind == JINJA_LOOP ? loop_methods
                                    : is_list              ? list_methods
                                                           : NULL;
    const char *refused = v.kind == JINJA_STRING ? text_refused
                          : v.kind == JINJA_DICT ? dict_refused
                          : is_list              ? list_refused
                                                 : "";
    *out = (jinja_value){ 0 };
    for (const jinja_callable *m = methods; m && m->name; m++) {
        if (!jinja_text_is(name, m->name))
            continue;
        jinja_method *method = br__jinja_alloc(run, sizeof *method);
        if (!method)
            return false;
        *method = (jinja_method){ v, m };
        *out = (jinja_value){ JINJA_METHOD, { .method = method } };
        return true;
    }
    if (!is_listed(refused, name))
        return true;
    return br__jinja_fail(&run->place, "the method %.*s() of a '%s' is not supported", (int)name.n,
                          name.data, br__jinja_type(v));
}

static jinja_value neighbor(jinja_run *run, const jinja_loop *loop, bool next)
{
    if (next ? loop->index + 1 < loop->items->n : loop->index > 0)
        return loop->items->items[next ? loop->index + 1 : loop->index - 1];
    return br__jinja_undefined(run, "there is no %s item", next ? "next" : "previous");
}

/* Sets *out to a field of `loop`; it stays absent if there is none of this name. */
static void find_loop_field(jinja_run *run, const jinja_loop *loop, jinja_text name,
                            jinja_value *out)
{
    int64_t index = (int64_t)loop->index, n = (int64_t)loop->items->n;
    const struct {
        const char *name;
        int64_t value;
    } fields[] = {
        { "index", index + 1 },         { "index0", index },
        { "revindex", n - index },      { "length", n },
        { "revindex0", n - index - 1 }, { "depth", loop->depth + 1 },
        { "depth0", loop->depth },
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (jinja_text_is(name, fields[i].name))
            *out = jinja_int(fields[i].value);
    }
    if (jinja_text_is(name, "first") || jinja_text_is(name, "last"))
        *out = jinja_bool(index == (jinja_text_is(name, "first") ? 0 : n - 1));
    if (jinja_text_is(name, "previtem") || jinja_text_is(name, "nextitem"))
        *out = neighbor(run, loop, jinja_text_is(name, "nextitem"));
}

/* Sets *out to a method or field; it stays absent if there is none. */
static bool find_attribute(jinja_run *run, jinja_value v, jinja_text name, jinja_value *out)
{
    if (!find_method(run, v, name, out))
        return false;
    if (out->kind == JINJA_ABSENT && v.kind == JINJA_LOOP)
        find_loop_field(run, v.loop, name, out);
    if (out->kind == JINJA_ABSENT && name.n > 0 && *name.data == '_') {
        *out = br__jinja_undefined(run, "access to attribute '%.*s' of a '%s' is unsafe",
                                   (int)name.n, name.data, br__jinja_type(v));
        return out->kind != JINJA_ABSENT;
    }
    return true;
}

/* Sets *out to an element; it stays absent if there is none. */
static void find_element(jinja_value v, jinja_value index, jinja_value *out)
{
    bool is_dict = v.kind == JINJA_DICT || v.kind == JINJA_NAMESPACE;
    const jinja_value *found = is_dict ? br__jinja_find(v.dict, index) : NULL;
    if (found)
        *out = *found;
    if (index.kind != JINJA_INT && index.kind != JINJA_BOOL)
        return;
    int64_t at = br__jinja_integer(index), n = 0;
    if (jinja_is_text(v))
        n = (int64_t)br__jinja_count_chars(v.text);
    else if (v.kind == JINJA_SEQUENCE && v.sequence->form <= JINJA_RANGE)
        n = (int64_t)v.sequence->n;
    at += at < 0 ? n : 0;
    if (at < 0 || at >= n)
        return;
    *out = jinja_is_text(v) ? jinja_string(br__jinja_chars(v.text, (size_t)at, 1))
                            : v.sequence->items[at];
    if (v.kind == JINJA_MARKUP)
        out->kind = JINJA_MARKUP;
}

static bool none_found(jinja_run *run, jinja_value v, jinja_value index, jinja_value *out)
{
    jinja_text text;
    const char *type = v.kind == JINJA_DICT ? "dict object" : br__jinja_type(v);
    if (index.kind == JINJA_STRING) {
        *out = br__jinja_undefined(run, "'%s' has no attribute '%.*s'", type, (int)index.text.n,
                                   index.text.data);
        return out->kind != JINJA_ABSENT;
    }
    if (!br__jinja_repr(run, index, &text))
        return false;
    *out = br__jinja_undefined(run, "%s has no element %.*s", type, (int)text.n, text.data);
    return out->kind != JINJA_ABSENT;
}

bool br__jinja_attribute(jinja_run *run, jinja_value v, jinja_text name, jinja_value *out)
{
    if (!br__jinja_check_defined(run, v) || !find_attribute(run, v, name, out))
        return false;
    if (out->kind == JINJA_ABSENT)
        find_element(v, jinja_string(name), out);
    return out->kind != JINJA_ABSENT || none_found(run, v, jinja_string(name), out);
}

bool br__jinja_item(jinja_run *run, jinja_value v, jinja_value index, jinja_value *out)
{
    *out = (jinja_value){ 0 };
    if (!br__jinja_check_defined(run, v))
        return false;
    find_element(v, index, out);
    if (out->kind == JINJA_ABSENT && index.kind == JINJA_STRING &&
        !find_attribute(run, v, index.text, out))
        return false;
    return out->kind != JINJA_ABSENT || none_found(run, v, index, out);
}

/* ---- Slices ---------------------------------------------------------------------------------- */

static bool read_bound(jinja_run *run, jinja_value v, int64_t *bound, bool *given)
{
    *given = jinja_is_given(v);
    return !*given || br__jinja_read_integer(run, "a slice", v, 0, bound);
}

static int64_t limit(int64_t bound, int64_t n, int64_t low, int64_t high)
{
    bound += bound < 0 ? n : 0;
    return bound < low ? low : bound > high ? high : bound;
}

/* Computes Python's slice.indices(n). */
static bool find_range(jinja_run *run, const jinja_value parts[3], int64_t n, int64_t *begin,
                       int64_t *end, int64_t *step)
{
    bool has_begin, has_end, has_step;
    *step = 1;
    if (!read_bound(run, parts[0], begin, &has_begin) ||
        !read_bound(run, parts[1], end, &has_end) || !read_bound(run, parts[2], step, &has_step))
        return false;
    if (*step == 0)
        return br__jinja_fail(&run->place, "the step of a slice is 0");
    int64_t low = *step < 0 ? -1 : 0, high = *step < 0 ? n - 1 : n;
    *begin = has_begin ? limit(*begin, n, low, high) : *step < 0 ? high : low;
    *end = has_end ? limit(*end, n, low, high) : *step < 0 ? low : high;
    return true;
}

bool br__jinja_slice(jinja_run *run, jinja_value v, const jinja_value parts[3], jinja_value *out)
{
    bool is_text = v.kind == JINJA_STRING;
    jinja_value items, kept;
    int64_t begin = 0, end = 0, step;
    if (!br__jinja_check_defined(run, v))
        return false;
    if (!is_text && (v.kind != JINJA_SEQUENCE || v.sequence->form > JINJA_RANGE))
        return br__jinja_fail(&run->place, "a '%s' has no slices", br__jinja_type(v));
    if (!br__jinja_iterate(run, v, &items) ||
        !find_range(run, parts, (int64_t)items.sequence->n, &begin, &end, &step) ||
        !br__jinja_new_sequence(run, is_text ? JINJA_LIST : v.sequence->form, &kept))
        return false;
    for (int64_t i = begin; step > 0 ? i < end : i > end;) {
        if (!br__jinja_append(run, kept.sequence, items.sequence->items[i]))
            return false;
        if (__builtin_add_overflow(i, step, &i))
            break;
    }
    *out = kept;
    return !is_text || br__jinja_join_all(run, kept.sequence, JINJA_TEXT(""), out);
}
