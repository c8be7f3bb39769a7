/* chat/filters.c - finds Jinja's filters, and the filter that applies another one to items. */
#include "chat/jinja.h"

/* Sets *value to the argument of this name, which stays absent if there is none. */
static void find_named(const jinja_arguments *all, const char *name, jinja_value *value)
{
    for (size_t i = 0; i < all->n_named; i++) {
        if (jinja_text_is(all->named[i].key.text, name))
            *value = all->named[i].value;
    }
}

/* Gives an attribute of each item, or what a filter gives for it. */
static bool map(jinja_run *run, jinja_value v, const jinja_value *a, const jinja_arguments *all,
                jinja_value *out)
{
    (void)a;
    jinja_value items, attribute = { 0 }, absent = { 0 };
    find_named(all, "attribute", &attribute);
    find_named(all, "default", &absent);
    if (attribute.kind == JINJA_ABSENT && all->n == 0)
        return br__jinja_fail(&run->place, "map needs a filter or attribute=");
    if (attribute.kind == JINJA_ABSENT && !br__jinja_check_text(run, "map", all->values[0]))
        return false;
    jinja_arguments rest = { all->n - (all->n > 0), all->n_named, all->values + (all->n > 0),
                             all->named };
    if (!br__jinja_begin_generator(run, v, &items, out))
        return false;
    for (size_t i = 0; i < items.sequence->n; i++) {
        jinja_value item = items.sequence->items[i];
        bool ok = br__jinja_enter(run) && br__jinja_count_step(run);
        if (ok && attribute.kind != JINJA_ABSENT)
            ok = br__jinja_attribute_of(run, item, attribute, absent, &item);
        else if (ok)
            ok = br__jinja_filter(run, all->values[0].text, item, &rest, &item);
        if (!ok || !br__jinja_append(run, out->sequence, item))
            return false;
        run->depth--;
    }
    return true;
}

static const jinja_callable map_filter = { "map", map, 0, "*" };

static const jinja_callable *find(const jinja_callable *filters, jinja_text name)
{
    while (filters->name && !jinja_text_is(name, filters->name))
        filters++;
    return filters->name ? filters : NULL;
}

bool br__jinja_filter(jinja_run *run, jinja_text name, jinja_value v,
                      const jinja_arguments *arguments, jinja_value *out)
{
    const jinja_callable *filter =
        jinja_text_is(name, "map") ? &map_filter : find(br__jinja_text_filters, name);
    if (!filter)
        filter = find(br__jinja_sequence_filters, name);
    if (filter)
        return br__jinja_apply(run, "filter", filter, v, arguments, out);
    return br__jinja_fail(&run->place, "the filter '%.*s' is not supported", (int)name.n,
                          name.data);
}
