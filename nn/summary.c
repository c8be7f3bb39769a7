/* nn/summary.c - a module tree as text:
 *
 *     BERT                                                       87,012
 *       embedding: BertEmbedding                                  9,216
 *         tok_embed: Embedding                                    8,960
 *           weight  f32 [70, 128]                                 8,960
 *       ...
 *     Parameters: 87,012, of which 78,052 trainable; 0.3 MiB
 *
 * A tied tensor's size is shown only where the tensor first appears, and the totals count it once.
 */
#include "nn/nn_internal.h"
#include "tensor/min_max.h"

#include <string.h>

enum { NUMBER_COLUMN = 64 };

typedef struct summary {
    br__text text;
    const br_named_list *all; /* all names, tied ones included, in the order of the lines */
    int64_t next;             /* index of the next line's tensor in `all` */
} summary;

/* Writes n with commas between thousands at the end of `buffer`. */
static const char *grouped(int64_t n, char buffer[32])
{
    char *p = buffer + 31;
    *p = '\0';
    for (int digits = 0; n > 0 || digits == 0; digits++, n /= 10) {
        if (digits > 0 && digits % 3 == 0)
            *--p = ',';
        *--p = (char)('0' + n % 10);
    }
    return p;
}

/* Ends the line that began at `start` with a number that is right-aligned in a fixed column. */
static bool end_line(summary *s, size_t start, int64_t number)
{
    char buffer[32];
    const char *digits = grouped(number, buffer);
    int width = (int)(s->text.length - start), pad = NUMBER_COLUMN - width - (int)strlen(digits);
    return br__text_add(&s->text, "%*s%s\n", br__max(pad, 1), "", digits);
}

/* Returns the index of the first item that has item i's tensor. */
static int64_t first_of(const br_named_list *list, int64_t i)
{
    int64_t k = 0;
    while (list->items[k].tensor != list->items[i].tensor)
        k++;
    return k;
}

static bool add_entry(summary *s, const br_entry *entry, int depth)
{
    size_t start = s->text.length;
    const br_tensor *t = entry->tensor;
    int64_t i = s->next++, first = first_of(s->all, i);
    bool frozen = br_is_floating(t) && !br_requires_grad(t);
    const char *kind = entry->kind != BR_ENTRY_PARAMETER ? " (buffer)" : frozen ? " (frozen)" : "";
    if (!br__text_add(&s->text, "%*s%s  %s %s%s", 2 * depth, "", entry->name,
                      br_dtype_name(t->dtype), br__shape(t), kind))
        return false;
    if (first < i)
        return br__text_add(&s->text, " = %s\n", s->all->items[first].name);
    return entry->kind == BR_ENTRY_PARAMETER ? end_line(s, start, t->numel)
                                             : br__text_add(&s->text, "\n");
}

static bool add_entries(summary *s, const br_module_state *state, br_entry_kind kind, int depth)
{
    for (int64_t i = 0; i < state->n_entries; i++)
        if (state->entries[i].kind == kind && !add_entry(s, &state->entries[i], depth))
            return false;
    return true;
}

/* Adds the module's line, the lines of its tensors in the order of br__collect(), and its children.
 */
static bool add_module(summary *s, const br_module_state *state, int depth)
{
    size_t start = s->text.length;
    bool named = depth > 0;
    int64_t count = br_count_parameters(state->module, false);
    if (count < 0 ||
        !br__text_add(&s->text, "%*s%s%s%s", 2 * depth, "", named ? state->name : "",
                      named ? ": " : "", state->class_name) ||
        !end_line(s, start, count))
        return false;
    for (int kind = BR_ENTRY_PARAMETER; kind <= BR_ENTRY_NONPERSISTENT; kind++)
        if (!add_entries(s, state, (br_entry_kind)kind, depth + 1))
            return false;
    for (int64_t i = 0; i < state->n_children; i++)
        if (!add_module(s, state->children[i], depth + 1))
            return false;
    return true;
}

static bool add_totals(summary *s)
{
    int64_t total = 0, trainable = 0, bytes = 0;
    for (int64_t i = 0; i < s->all->count; i++) {
        const br_tensor *t = s->all->items[i].tensor;
        if (first_of(s->all, i) < i)
            continue;
        total += t->numel;
        trainable += br_requires_grad(t) ? t->numel : 0;
        bytes += t->numel * (int64_t)br_dtype_size(t->dtype);
    }
    char a[32], b[32];
    return br__text_add(&s->text, "Parameters: %s, of which %s trainable; %.1f MiB\n",
                        grouped(total, a), grouped(trainable, b), (double)bytes / 0x1p20);
}

char *br_summary(br_module *module)
{
    int everything = BR_COLLECT_ALIASES | BR_COLLECT_BUFFERS | BR_COLLECT_NONPERSISTENT;
    br_named_list *all = br__collect("summary", module, everything);
    br_named_list *parameters = all ? br_parameters(module) : NULL;
    summary s = { .all = all };
    bool ok = parameters && add_module(&s, module->state, 0);
    s.all = parameters;
    ok = ok && add_totals(&s);
    br_named_list_free(all);
    br_named_list_free(parameters);
    if (ok)
        return br__text_take(&s.text);
    br_free(s.text.data);
    return NULL;
}
