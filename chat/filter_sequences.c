/* chat/filter_sequences.c - Jinja's filters of sequences and dicts, as in "x | join(', ')". */
#include "chat/jinja.h"

#define FILTER(name)                                                      \
    static bool name(jinja_run *run, jinja_value v, const jinja_value *a, \
                     const jinja_arguments *all, jinja_value *out)

/* ---- Sequences ------------------------------------------------------------------------------- */

FILTER(length)
{
    (void)a, (void)all;
    int64_t n = 0;
    if (!br__jinja_length(run, v, &n))
        return false;
    *out = jinja_int(n);
    return true;
}

FILTER(as_list)
{
    (void)a, (void)all;
    return br__jinja_iterate(run, v, out);
}

static bool end_item(jinja_run *run, jinja_value v, bool last, jinja_value *out)
{
    jinja_value items;
    if (!br__jinja_iterate(run, v, &items))
        return false;
    size_t n = items.sequence->n;
    *out = n > 0 ? items.sequence->items[last ? n - 1 : 0]
                 : br__jinja_undefined(run, "there is no %s item, the sequence is empty",
                                       last ? "last" : "first");
    return out->kind != JINJA_ABSENT;
}

FILTER(first)
{
    (void)a, (void)all;
    return end_item(run, v, false, out);
}

FILTER(last)
{
    (void)a, (void)all;
    return end_item(run, v, true, out);
}

FILTER(reverse)
{
    (void)a, (void)all;
    jinja_value items;
    static const jinja_value backwards[3] = { { 0 }, { 0 }, { JINJA_INT, { .integer = -1 } } };
    if (v.kind == JINJA_STRING)
        return br__jinja_slice(run, v, backwards, out);
    if (!br__jinja_iterate(run, v, &items) || !br__jinja_slice(run, items, backwards, out))
        return false;
    out->sequence->form = JINJA_GENERATOR;
    return true;
}

bool br__jinja_attribute_of(jinja_run *run, jinja_value item, jinja_value path, jinja_value absent,
                            jinja_value *out)
{
    *out = item;
    if (path.kind == JINJA_INT)
        return br__jinja_item(run, item, path, out);
    if (!br__jinja_check_text(run, "an attribute", path))
        return false;
    jinja_text rest = path.text;
    for (;;) {
        size_t n = 0;
        while (n < rest.n && rest.data[n] != '.')
            n++;
        jinja_text name = { rest.data, n };
        int64_t index = 0;
        bool is_index = n > 0 && n < 10;
        for (size_t i = 0; i < n && is_index; i++) {
            is_index = name.data[i] >= '0' && name.data[i] <= '9';
            index = index * 10 + (name.data[i] - '0');
        }
        if (!br__jinja_item(run, *out, is_index ? jinja_int(index) : jinja_string(name), out))
            return false;
        if (out->kind == JINJA_UNDEFINED && jinja_is_given(absent))
            *out = absent;
        if (n == rest.n)
            return true;
        rest = (jinja_text){ rest.data + n + 1, rest.n - n - 1 };
    }
}

FILTER(join)
{
    (void)all;
    jinja_value items;
    jinja_text separator = JINJA_TEXT(""), text;
    bool by_attribute = jinja_is_given(a[1]);
    if (!br__jinja_iterate(run, v, &items) ||
        (a[0].kind != JINJA_ABSENT && !br__jinja_str(run, a[0], &separator)))
        return false;
    for (size_t i = 0; i < items.sequence->n; i++) {
        jinja_value *item = &items.sequence->items[i];
        if ((by_attribute && !br__jinja_attribute_of(run, *item, a[1], (jinja_value){ 0 }, item)) ||
            !br__jinja_str(run, *item, &text))
            return false;
        *item = jinja_string(text);
    }
    return br__jinja_join_all(run, items.sequence, separator, out);
}

FILTER(sum)
{
    (void)all;
    jinja_value items;
    *out = a[1].kind == JINJA_ABSENT ? jinja_int(0) : a[1];
    if (!br__jinja_iterate(run, v, &items))
        return false;
    for (size_t i = 0; i < items.sequence->n; i++) {
        jinja_value item = items.sequence->items[i];
        if (jinja_is_given(a[0]) &&
            !br__jinja_attribute_of(run, item, a[0], (jinja_value){ 0 }, &item))
            return false;
        if (!br__jinja_check_number(run, "sum", item) || !br__jinja_check_number(run, "sum", *out))
            return false;
        if (item.kind == JINJA_FLOAT || out->kind == JINJA_FLOAT)
            *out = jinja_real(br__jinja_number(*out) + br__jinja_number(item));
        else if (__builtin_add_overflow(br__jinja_integer(*out), br__jinja_integer(item),
                                        &out->integer))
            return br__jinja_fail(&run->place, "the sum does not fit in 64 bits");
        else
            out->kind = JINJA_INT;
    }
    return true;
}

/* The value that an item is sorted by. */
static bool sort_key(jinja_run *run, jinja_value item, jinja_value attribute, bool exact,
                     jinja_value *out)
{
    *out = item;
    if (jinja_is_given(attribute) &&
        !br__jinja_attribute_of(run, item, attribute, (jinja_value){ 0 }, out))
        return false;
    return exact || out->kind != JINJA_STRING ||
           br__jinja_change_case(run, out->text, JINJA_LOWER, out);
}

/* Sorts a list by insertion, which keeps equal items in order. `equals` allows keys that are equal
 * and have no order, such as None: Jinja's sort wraps its keys in lists. */
static bool sort_items(jinja_run *run, jinja_sequence *s, jinja_value attribute, bool exact,
                       bool reverse, bool equals)
{
    jinja_value keys;
    if (!br__jinja_new_sequence(run, JINJA_LIST, &keys))
        return false;
    for (size_t i = 0; i < s->n; i++) {
        jinja_value key, item = s->items[i];
        size_t j = i;
        if (!sort_key(run, item, attribute, exact, &key) ||
            !br__jinja_append(run, keys.sequence, key))
            return false;
        for (jinja_value *k = keys.sequence->items; j > 0; j--) {
            int order = 0;
            bool same = equals && br__jinja_equal(key, k[j - 1]);
            if (!br__jinja_count_step(run) ||
                (!same && !br__jinja_order(run, "<", key, k[j - 1], &order)))
                return false;
            if (order == 2 || (reverse ? order <= 0 : order >= 0))
                break;
            k[j] = k[j - 1];
            s->items[j] = s->items[j - 1];
        }
        keys.sequence->items[j] = key;
        s->items[j] = item;
    }
    return true;
}

FILTER(sort)
{
    (void)all;
    return br__jinja_iterate(run, v, out) &&
           sort_items(run, out->sequence, a[2], br__jinja_option(a[1], false),
                      br__jinja_option(a[0], false), true);
}

FILTER(dict_sort)
{
    (void)all;
    bool by_value = a[1].kind == JINJA_STRING && jinja_text_is(a[1].text, "value");
    if (v.kind != JINJA_DICT)
        return br__jinja_check_defined(run, v) &&
               br__jinja_fail(&run->place, "dictsort needs a dict, not a '%s'", br__jinja_type(v));
    return br__jinja_pairs(run, v.dict, JINJA_LIST, out) &&
           sort_items(run, out->sequence, jinja_int(by_value), br__jinja_option(a[0], false),
                      br__jinja_option(a[2], false), false);
}

static bool extreme(jinja_run *run, jinja_value v, const jinja_value *a, bool greatest,
                    jinja_value *out)
{
    jinja_value items, best, key;
    if (!br__jinja_iterate(run, v, &items))
        return false;
    *out = br__jinja_undefined(run, "there is no item, the sequence is empty");
    for (size_t i = 0; i < items.sequence->n; i++) {
        int order = 1;
        jinja_value item = items.sequence->items[i];
        if (!sort_key(run, item, a[1], br__jinja_option(a[0], false), &key) ||
            (i > 0 && !br__jinja_order(run, greatest ? ">" : "<", key, best, &order)))
            return false;
        if (i > 0 && (order == 2 || (greatest ? order <= 0 : order >= 0)))
            continue;
        best = key;
        *out = item;
    }
    return out->kind != JINJA_ABSENT;
}

FILTER(least)
{
    (void)all;
    return extreme(run, v, a, false, out);
}

FILTER(greatest)
{
    (void)all;
    return extreme(run, v, a, true, out);
}

FILTER(unique)
{
    (void)all;
    jinja_value items, keys, key;
    bool known = false;
    if (!br__jinja_iterate(run, v, &items) || !br__jinja_new_sequence(run, JINJA_LIST, &keys) ||
        !br__jinja_new_sequence(run, JINJA_GENERATOR, out))
        return false;
    for (size_t i = 0; i < items.sequence->n; i++) {
        jinja_value item = items.sequence->items[i];
        if (!br__jinja_count_step(run) ||
            !sort_key(run, item, a[1], br__jinja_option(a[0], false), &key) ||
            !br__jinja_check_key(run, key) || !br__jinja_contains(run, key, keys, &known))
            return false;
        if (!known && (!br__jinja_append(run, keys.sequence, key) ||
                       !br__jinja_append(run, out->sequence, item)))
            return false;
    }
    return true;
}

FILTER(dict_items)
{
    (void)a, (void)all;
    if (v.kind != JINJA_DICT && v.kind != JINJA_UNDEFINED)
        return br__jinja_fail(&run->place, "items needs a dict, not a '%s'", br__jinja_type(v));
    return v.kind == JINJA_DICT ? br__jinja_pairs(run, v.dict, JINJA_GENERATOR, out)
                                : br__jinja_new_sequence(run, JINJA_GENERATOR, out);
}

/* ---- Choosing and mapping -------------------------------------------------------------------- */

FILTER(use_default)
{
    (void)run, (void)all;
    bool replaces =
        v.kind == JINJA_UNDEFINED || (br__jinja_option(a[1], false) && !br__jinja_truth(v));
    *out = !replaces ? v : a[0].kind == JINJA_ABSENT ? jinja_string(JINJA_TEXT("")) : a[0];
    return true;
}

/* Keeps the items whose value, or attribute, passes a test, or fails it. */
static bool choose(jinja_run *run, const char *what, jinja_value v, const jinja_arguments *all,
                   bool by_attribute, bool passing, jinja_value *out)
{
    jinja_value items;
    size_t used = by_attribute;
    if (all->n < used)
        return br__jinja_fail(&run->place, "%s needs the name of an attribute", what);
    bool has_test = all->n > used;
    if (has_test && !br__jinja_check_text(run, "the name of a test", all->values[used]))
        return false;
    used += has_test;
    jinja_arguments rest = { all->n - used, all->n_named, all->values + used, all->named };
    if (!br__jinja_begin_generator(run, v, &items, out))
        return false;
    for (size_t i = 0; i < items.sequence->n; i++) {
        jinja_value item = items.sequence->items[i], tested = item;
        if (!br__jinja_count_step(run) ||
            (by_attribute &&
             !br__jinja_attribute_of(run, item, all->values[0], (jinja_value){ 0 }, &tested)))
            return false;
        bool holds = br__jinja_truth(tested);
        if (has_test && !br__jinja_test(run, all->values[used - 1].text, tested, &rest, &holds))
            return false;
        if (holds == passing && !br__jinja_append(run, out->sequence, item))
            return false;
    }
    return true;
}

FILTER(select_items)
{
    (void)a;
    return choose(run, "select", v, all, false, true, out);
}

FILTER(reject_items)
{
    (void)a;
    return choose(run, "reject", v, all, false, false, out);
}

FILTER(select_attribute)
{
    (void)a;
    return choose(run, "selectattr", v, all, true, true, out);
}

FILTER(reject_attribute)
{
    (void)a;
    return choose(run, "rejectattr", v, all, true, false, out);
}

/* ---- The table ------------------------------------------------------------------------------- */

const jinja_callable br__jinja_sequence_filters[] = {
    { "count", length, 0, "" },
    { "d", use_default, 0, "default_value boolean" },
    { "default", use_default, 0, "default_value boolean" },
    { "dictsort", dict_sort, 0, "case_sensitive by reverse" },
    { "first", first, 0, "" },
    { "items", dict_items, 0, "" },
    { "join", join, 0, "d attribute" },
    { "last", last, 0, "" },
    { "length", length, 0, "" },
    { "list", as_list, 0, "" },
    { "max", greatest, 0, "case_sensitive attribute" },
    { "min", least, 0, "case_sensitive attribute" },
    { "reject", reject_items, 0, "*" },
    { "rejectattr", reject_attribute, 0, "*" },
    { "reverse", reverse, 0, "" },
    { "select", select_items, 0, "*" },
    { "selectattr", select_attribute, 0, "*" },
    { "sort", sort, 0, "reverse case_sensitive attribute" },
    { "sum", sum, 0, "attribute start" },
    { "unique", unique, 0, "case_sensitive attribute" },
    { NULL },
};
