/* optim/scheduler_state.c - a scheduler's state as named tensors.
 *
 * One traversal visits every field of a scheduler and its children under the field's name; a
 * callback saves or checks the field. Loading uses the checked tensors in the same order. */
#include "optim/scheduler_internal.h"

#include <inttypes.h>

/* One field: an integer, or n doubles. A single value has 0 dimensions. */
typedef struct field {
    const char *name;
    br_dtype dtype;
    int ndim;
    int64_t n;
    void *values;
} field;

enum { MAX_FIELDS = 3 + BR_SCHEDULER_VALUES };

static int fields_of(const br_scheduler *s, field *fields)
{
    int n = 0;
    fields[n++] = (field){ "last_epoch", BR_I64, 0, 1, (void *)&s->last_epoch };
    fields[n++] = (field){ "base_lrs", BR_F64, 1, s->n_groups, s->base_lrs };
    fields[n++] = (field){ "last_lrs", BR_F64, 1, s->n_groups, s->last_lrs };
    for (int i = 0; i < BR_SCHEDULER_VALUES && s->kind->value_names[i]; i++)
        fields[n++] = (field){ s->kind->value_names[i], BR_F64, 0, 1, (void *)&s->values[i] };
    return n;
}

/* A traversal of all fields with their names; names of child i begin with "i.". */
typedef struct walk {
    const br_named_list *source;
    br_named_list *result;
    br__text name;
    bool (*visit)(struct walk *w, const field *f);
} walk;

static bool over_fields(walk *w, const br_scheduler *s)
{
    field fields[MAX_FIELDS];
    size_t prefix = w->name.length;
    int n = fields_of(s, fields);
    for (int i = 0; i < n; i++) {
        br__text_truncate(&w->name, prefix);
        if (!br__text_add(&w->name, "%s", fields[i].name) || !w->visit(w, &fields[i]))
            return false;
    }
    for (int i = 0; i < s->n_children; i++) {
        br__text_truncate(&w->name, prefix);
        if (!br__text_add(&w->name, "%d.", i) || !over_fields(w, s->children[i]))
            return false;
    }
    return true;
}

/* Returns the list that the traversal makes, or NULL on error. */
static br_named_list *walk_over(walk *w, const br_scheduler *s)
{
    bool ok = w->result && over_fields(w, s);
    br_free(w->name.data);
    if (ok)
        return w->result;
    br_named_list_free(w->result);
    return NULL;
}

/* ---- Saving ---------------------------------------------------------------------------------- */

static bool add_field(walk *w, const field *f)
{
    br_tensor *t = br_from_data(f->ndim, &f->n, f->dtype, f->values);
    return t && br__named_list_add(w->result, w->name.data, t);
}

br_named_list *br_scheduler_state_dict(const br_scheduler *scheduler)
{
    if (!br__scheduler_usable("scheduler_state_dict", scheduler))
        return NULL;
    br_scope *scope = br_scope_begin();
    walk w = { .result = scope ? br__named_list_new(true) : NULL, .visit = add_field };
    br_named_list *state = walk_over(&w, scheduler);
    br_scope_end(scope);
    return state;
}

/* ---- Loading --------------------------------------------------------------------------------- */

static const char op[] = "scheduler_load_state_dict";

static bool match_field(walk *w, const field *f)
{
    br_tensor *t = br_named_list_get(w->source, w->name.data);
    if (!t)
        br_fail(BR_ERROR_ARGUMENT, op, "%s is missing", w->name.data);
    else if (t->dtype != f->dtype || t->ndim != f->ndim || t->numel != f->n)
        br_fail(BR_ERROR_SHAPE, op, "%s is %s %s, must have %" PRId64 " elements of %s",
                w->name.data, br_dtype_name(t->dtype), br__shape(t), f->n, br_dtype_name(f->dtype));
    else if (f->dtype == BR_I64 && br_item_i64(t) < -1)
        br_fail(BR_ERROR_ARGUMENT, op, "%s is %" PRId64 ", must be at least -1", w->name.data,
                br_item_i64(t));
    return !br_failed() && br__named_list_add(w->result, w->name.data, t);
}

br_named_list *br__scheduler_match(const br_scheduler *s, const br_named_list *state)
{
    if (!br__scheduler_usable(op, s) || !br__required(op, "state", state))
        return NULL;
    walk w = { .source = state, .result = br__named_list_new(false), .visit = match_field };
    br_named_list *matched = walk_over(&w, s);
    if (matched && matched->count != state->count) {
        br_fail(BR_ERROR_ARGUMENT, op,
                "the state has %" PRId64 " tensors, but this %s has %" PRId64, state->count,
                s->kind->name, matched->count);
        br_named_list_free(matched);
        return NULL;
    }
    return matched;
}

static void copy_field(const field *f, const br_tensor *t)
{
    if (f->dtype == BR_I64)
        *(int64_t *)f->values = br_item_i64(t);
    for (int64_t i = 0; br__is_floating(f->dtype) && i < f->n; i++)
        ((double *)f->values)[i] = br_at(t, f->ndim, &i);
}

/* Restores the fields and returns the first item that it did not use. */
static const br_named_tensor *restore(br_scheduler *s, const br_named_tensor *items)
{
    field fields[MAX_FIELDS];
    int n = fields_of(s, fields);
    for (int i = 0; i < n; i++)
        copy_field(&fields[i], items++->tensor);
    for (int i = 0; i < s->n_children; i++)
        items = restore(s->children[i], items);
    return items;
}

static void apply(br_scheduler *s)
{
    for (int i = 0; i < s->n_children; i++)
        apply(s->children[i]);
    if (s->kind->apply && s->last_epoch >= 0)
        s->kind->apply(s);
}

void br__scheduler_restore(br_scheduler *s, const br_named_list *matched)
{
    restore(s, matched->items);
}

void br__scheduler_set_rates(br_scheduler *s)
{
    for (int g = 0; g < s->n_groups; g++)
        *br__group_lr(s->optim, g) = s->last_lrs[g];
    apply(s);
}

bool br_scheduler_load_state_dict(br_scheduler *scheduler, const br_named_list *state)
{
    br_named_list *matched = br__scheduler_match(scheduler, state);
    if (matched)
        br__scheduler_restore(scheduler, matched);
    br_named_list_free(matched);
    return matched != NULL;
}
