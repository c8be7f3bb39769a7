/* nn/unused_parameters.c - reports parameters without a gradient, and leaves that are not
 * parameters of the module. */
#include "autograd/tape.h"
#include "nn/nn_internal.h"

typedef struct search {
    const br_named_list *parameters;
    br_named_list *foreign; /* each such leaf once, under an empty name */
} search;

static bool has(const br_named_list *list, const br_tensor *t)
{
    for (int64_t i = 0; i < list->count; i++)
        if (list->items[i].tensor == t)
            return true;
    return false;
}

static void visit_leaf(br_tensor *leaf, void *context)
{
    search *s = context;
    if (!has(s->parameters, leaf) && !has(s->foreign, leaf))
        br__named_list_add(s->foreign, "", leaf);
}

static void write_report(const search *s, br_unused_report *report, br__text *text)
{
    for (int64_t i = 0; i < s->parameters->count; i++) {
        const br_named_tensor *p = &s->parameters->items[i];
        if (!br_requires_grad(p->tensor) || br_grad_of(p->tensor))
            continue;
        report->without_grad++;
        br__text_add(text, "parameter %s %s has no gradient\n", p->name, br__shape(p->tensor));
    }
    report->foreign_leaves = s->foreign->count;
    for (int64_t i = 0; i < s->foreign->count; i++)
        br__text_add(text, "leaf %s requires grad, but is not a parameter of the module\n",
                     br__shape(s->foreign->items[i].tensor));
}

bool br_report_unused(br_module *module, br_tensor *output, br_unused_report *report)
{
    if (report)
        *report = (br_unused_report){ 0 };
    if (!br__required("report_unused", "report", report) ||
        !br__required("report_unused", "output", output))
        return false;
    br__text text = { 0 };
    search s = { .parameters = br__collect("report_unused", module, 0),
                 .foreign = br__named_list_new(false) };
    if (s.parameters && s.foreign && br__visit_leaves(output, visit_leaf, &s))
        write_report(&s, report, &text);
    br_named_list_free((br_named_list *)s.parameters);
    br_named_list_free(s.foreign);
    report->text = br__text_take(&text);
    if (!br_failed())
        return true;
    br_unused_report_clear(report);
    return false;
}

void br_unused_report_clear(br_unused_report *report)
{
    if (!report)
        return;
    br_free(report->text);
    *report = (br_unused_report){ 0 };
}
