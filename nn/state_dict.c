/* nn/state_dict.c - loading a state dict: first compares everything, then copies. */
#include "nn/nn_internal.h"

struct br_loading {
    br_named_list *own;
    const br_named_list *source;
    int64_t *matches; /* for each own tensor, its index in source, or -1 */
    bool *used;       /* source tensors that have a counterpart */
    br__text missing, unexpected, mismatched;
    br_load_report report;
};

static bool add_name(br__text *text, const char *name)
{
    return br__text_add(text, "%s%s", text->length > 0 ? ", " : "", name);
}

static bool add_mismatch(br__text *text, const char *name, const br_tensor *own,
                         const br_tensor *source)
{
    return add_name(text, name) &&
           br__text_add(text, " (module %s %s, source %s %s)", br__shape(own),
                        br_dtype_name(own->dtype), br__shape(source), br_dtype_name(source->dtype));
}

/* Sorts the names of both sides into matched, missing, unexpected and mismatched. */
static bool compare(br_loading *l)
{
    int64_t next = 0;
    for (int64_t i = 0; i < l->own->count; i++) {
        const br_named_tensor *own = &l->own->items[i];
        int64_t k = br__named_list_find(l->source, own->name, next);
        l->matches[i] = -1;
        if (k < 0) {
            l->report.missing++;
            if (!add_name(&l->missing, own->name))
                return false;
            continue;
        }
        next = k + 1;
        l->used[k] = true;
        const br_tensor *t = l->source->items[k].tensor;
        if (br__same_shape(own->tensor, t) && own->tensor->dtype == t->dtype) {
            l->report.matched++;
            l->matches[i] = k;
            continue;
        }
        l->report.mismatched++;
        if (!add_mismatch(&l->mismatched, own->name, own->tensor, t))
            return false;
    }
    for (int64_t k = 0; k < l->source->count; k++) {
        if (l->used[k])
            continue;
        l->report.unexpected++;
        if (!add_name(&l->unexpected, l->source->items[k].name))
            return false;
    }
    return true;
}

void br__loading_apply(const br_loading *l)
{
    for (int64_t i = 0; i < l->own->count; i++) {
        if (l->matches[i] < 0)
            continue;
        br_tensor *own = l->own->items[i].tensor;
        br__copy(own, l->source->items[l->matches[i]].tensor);
        br__changed_by(own, "load_state_dict");
    }
}

/* Appends "2 missing: a, b" to a message. Escapes the names and truncates a long list; the report
 * has all names unchanged. */
static bool add_part(br__text *message, const char *what, int64_t count, const char *names)
{
    return count == 0 || br__text_add(message, "%s%lld %s: %s", message->length > 0 ? "; " : "",
                                      (long long)count, what, br_printable(names ? names : ""));
}

static void refuse(const br_load_report *r, const char *path)
{
    static const char rule[] = "with strict, source and module must have the same tensors: ";
    br__text message = { 0 };
    bool ok =
        add_part(&message, "missing", r->missing, r->missing_names) &&
        add_part(&message, "unexpected", r->unexpected, r->unexpected_names) &&
        add_part(&message, "mismatched in shape or dtype", r->mismatched, r->mismatched_names);
    if (ok && path)
        br__fail_file(BR_ERROR_ARGUMENT, "load_state_dict", path, "%s%s", rule, message.data);
    else if (ok)
        br_fail(BR_ERROR_ARGUMENT, "load_state_dict", "%s%s", rule, message.data);
    br_free(message.data);
}

static bool find_matches(br_loading *l, const char *path, bool strict)
{
    l->matches = br_malloc((size_t)l->own->count * sizeof *l->matches);
    l->used = br_calloc((size_t)l->source->count, sizeof *l->used);
    bool ok = l->matches && l->used && compare(l);
    br_load_report *r = &l->report;
    r->missing_names = br__text_take(&l->missing);
    r->unexpected_names = br__text_take(&l->unexpected);
    r->mismatched_names = br__text_take(&l->mismatched);
    if (ok && strict && r->missing + r->unexpected + r->mismatched > 0)
        refuse(r, path);
    return ok && !br_failed();
}

static bool good_source(const br_named_list *source)
{
    if (!br__required("load_state_dict", "source", source))
        return false;
    for (int64_t i = 0; i < source->count; i++)
        if (!source->items[i].name || !source->items[i].tensor)
            br_fail(BR_ERROR_ARGUMENT, "load_state_dict", "item %lld of source has no %s",
                    (long long)i, source->items[i].name ? "tensor" : "name");
    return !br_failed();
}

br_loading *br__loading_begin(br_module *module, const br_named_list *source, const char *path,
                              bool strict, br_load_report *report)
{
    if (report)
        *report = (br_load_report){ 0 };
    if (!good_source(source))
        return NULL;
    br_loading *l = br_calloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->source = source;
    l->own = br__collect("load_state_dict", module, BR_COLLECT_BUFFERS | BR_COLLECT_ALIASES);
    bool ok = l->own && find_matches(l, path, strict);
    if (report) {
        *report = l->report;
        l->report = (br_load_report){ 0 };
    }
    if (ok)
        return l;
    br__loading_end(l);
    return NULL;
}

void br__loading_end(br_loading *l)
{
    if (!l)
        return;
    br_free(l->matches);
    br_free(l->used);
    br_named_list_free(l->own);
    br_load_report_clear(&l->report);
    br_free(l);
}

bool br_load_state_dict(br_module *module, const br_named_list *source, bool strict,
                        br_load_report *report)
{
    br_loading *l = br__loading_begin(module, source, NULL, strict, report);
    if (l)
        br__loading_apply(l);
    br__loading_end(l);
    return l != NULL;
}

void br_load_report_clear(br_load_report *report)
{
    if (!report)
        return;
    br_free(report->missing_names);
    br_free(report->unexpected_names);
    br_free(report->mismatched_names);
    *report = (br_load_report){ 0 };
}
