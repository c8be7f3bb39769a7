/* nn/state_dict.c - loading a state dict: first compares everything, then copies. */
#include "nn/match.h"
#include "nn/nn_internal.h"

struct br_loading {
    br_named_list *own;
    const br_named_list *source;
    br__match match;
    bool *fits; /* for each own tensor: it has a counterpart of its shape and dtype */
    br__names missing, unexpected, mismatched;
    br_load_report report;
};

static const br_tensor *source_of(const br_loading *l, int64_t i)
{
    int64_t k = l->match.source_of[i];
    return k < 0 ? NULL : l->source->items[k].tensor;
}

static bool add_mismatch(br_loading *l, int64_t i)
{
    const br_tensor *own = l->own->items[i].tensor, *source = source_of(l, i);
    return br__names_add(&l->mismatched, l->own->items[i].name) &&
           br__text_add(&l->mismatched.text, " (module %s %s, source %s %s)", br__shape(own),
                        br_dtype_name(own->dtype), br__shape(source), br_dtype_name(source->dtype));
}

/* Finds the own tensor of the same name. */
static bool find_own(void *context, const br__match *m, int64_t k, int64_t *own)
{
    const br_loading *l = context;
    *own = br__match_find(m, l->source->items[k].name);
    return true;
}

/* Sorts the names of both sides into matched, missing, unexpected and mismatched. */
static bool compare(br_loading *l)
{
    for (int64_t i = 0; i < l->own->count; i++) {
        const br_tensor *own = l->own->items[i].tensor, *t = source_of(l, i);
        if (t && (br__is_quantized(own) || br__is_quantized(t)))
            return br__required("load_state_dict", l->own->items[i].name,
                                br__is_quantized(own) ? own : t);
        l->fits[i] = t && br__same_shape(own, t) && own->dtype == t->dtype;
        l->report.matched += l->fits[i];
        if (!l->fits[i] &&
            !(t ? add_mismatch(l, i) : br__names_add(&l->missing, l->own->items[i].name)))
            return false;
    }
    for (int64_t k = 0; k < l->source->count; k++)
        if (!br__match_uses(&l->match, k) &&
            !br__names_add(&l->unexpected, l->source->items[k].name))
            return false;
    return true;
}

void br__loading_apply(const br_loading *l)
{
    for (int64_t i = 0; i < l->own->count; i++) {
        if (!l->fits[i])
            continue;
        br_tensor *own = l->own->items[i].tensor;
        if (!br__transfer("load_state_dict", own, source_of(l, i)))
            return;
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

static bool find_matches(br_loading *l, const char *path, br__load_mode mode)
{
    l->fits = br_calloc((size_t)l->own->count, sizeof *l->fits);
    bool ok = l->fits && br__match_begin(&l->match, l->own, l->source->count, find_own, l);
    if (ok && mode.ties)
        br__match_share_ties(&l->match);
    ok = ok && compare(l);
    br_load_report *r = &l->report;
    br__names_take(&l->missing, &r->missing, &r->missing_names);
    br__names_take(&l->unexpected, &r->unexpected, &r->unexpected_names);
    br__names_take(&l->mismatched, &r->mismatched, &r->mismatched_names);
    if (ok && mode.strict && r->missing + r->unexpected + r->mismatched > 0)
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
                              br__load_mode mode, br_load_report *report)
{
    if (report)
        *report = (br_load_report){ 0 };
    if (!good_source(source))
        return NULL;
    br_loading *l = br_calloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->source = source;
    l->own = br__collect("load_state_dict", module,
                         BR_COLLECT_BUFFERS | BR_COLLECT_ALIASES |
                             (mode.trainable ? BR_COLLECT_TRAINABLE : 0));
    bool ok = l->own && find_matches(l, path, mode);
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
    br__match_end(&l->match);
    br_free(l->fits);
    br_named_list_free(l->own);
    br_load_report_clear(&l->report);
    br_free(l);
}

bool br_load_state_dict(br_module *module, const br_named_list *source, bool strict,
                        br_load_report *report)
{
    br_loading *l =
        br__loading_begin(module, source, NULL, (br__load_mode){ .strict = strict }, report);
    if (l)
        br__loading_apply(l);
    br__loading_end(l);
    return l && !br_failed();
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
