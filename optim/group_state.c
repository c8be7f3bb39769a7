/* optim/group_state.c - the options of an optimizer's groups as named tensors.
 *
 * As in PyTorch, a state dict holds each group's options: "param_groups.0.lr" and so on, and the
 * initial rate if a scheduler has stored it. State dicts of older versions hold none. */
#include "optim/optim_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define GROUPS "param_groups."

enum { LR_OFFSET = sizeof(size_t) }; /* lr follows struct_size */

static const char op[] = "optim_load_state_dict";

/* ---- One option ------------------------------------------------------------------------------ */

/* Stores option i of the kind in *option. Returns false if there is none. */
static bool option_at(const br_optim_kind *kind, int i, br_optim_option *option)
{
    const size_t size = sizeof(double);
    *option = (br_optim_option){ 0 };
    if (i == 0)
        *option = (br_optim_option){ "lr", BR_F64, LR_OFFSET, size };
    else if (kind->options)
        *option = kind->options[i - 1];
    else if (i == 1 && kind->momentum)
        *option = (br_optim_option){ "momentum", BR_F64, kind->momentum, size };
    return option->name != NULL;
}

/* Returns the number of doubles of an array, or -1 for a single value. */
static int64_t length_of(const br_optim_option *option)
{
    int64_t n = (int64_t)(option->size / sizeof(double));
    return br__is_floating(option->dtype) && n > 1 ? n : -1;
}

static br_tensor *to_tensor(const br_optim_option *option, const char *field)
{
    int64_t n = length_of(option), integer;
    int number;
    if (option->dtype != BR_I64 || option->size == sizeof integer)
        return br_from_data(n > 0, &n, option->dtype, field);
    memcpy(&number, field, sizeof number);
    integer = number;
    return br_from_data(BR_SCALAR, BR_I64, &integer);
}

static void from_tensor(const br_optim_option *option, const br_tensor *t, void *field)
{
    if (!t)
        return;
    int number = option->dtype == BR_I64 ? (int)br_item_i64(t) : 0;
    if (option->dtype == BR_I64 && option->size == sizeof number)
        memcpy(field, &number, sizeof number);
    else
        br_copy_out(t, field, option->size);
}

static bool fits(const br_optim_option *option, const br_tensor *t)
{
    int64_t n = length_of(option);
    return t->dtype == option->dtype && t->ndim == (n > 0) && (n < 0 || t->sizes[0] == n);
}

/* ---- Saving ---------------------------------------------------------------------------------- */

static bool add(br_named_list *state, int64_t g, const br_optim_option *option, const void *field)
{
    char *name = br_format(GROUPS "%" PRId64 ".%s", g, option->name);
    br_tensor *t = name ? to_tensor(option, field) : NULL;
    bool ok = t && br__named_list_add(state, name, t);
    br_free(name);
    return ok;
}

static const br_optim_option initial_lr = { "initial_lr", BR_F64, 0, sizeof(double) };

bool br__add_group_options(const br_optim *optim, br_named_list *state)
{
    br_scope *scope = br_no_grad_begin();
    bool ok = scope != NULL;
    for (int64_t g = 0; ok && g < optim->n_groups; g++) {
        const br_group *group = &optim->groups[g];
        br_optim_option option;
        for (int i = 0; ok && option_at(optim->kind, i, &option); i++)
            ok = add(state, g, &option, (const char *)group->options + option.offset);
        if (ok && group->scheduled)
            ok = add(state, g, &initial_lr, &group->initial_lr);
    }
    br_scope_end(scope);
    return ok;
}

/* ---- Loading --------------------------------------------------------------------------------- */

/* An option is named "param_groups.", digits, a dot, and the name of a field without dots. The
 * state of a parameter "param_groups.0.weight" has more dots. */
bool br__is_group_option(const char *name)
{
    size_t prefix = strlen(GROUPS);
    if (!name || strncmp(name, GROUPS, prefix) != 0)
        return false;
    size_t digits = strspn(name + prefix, "0123456789");
    const char *dot = name + prefix + digits;
    return digits > 0 && *dot == '.' && !strchr(dot + 1, '.');
}

static int64_t count_options(const br_named_list *state)
{
    int64_t n = 0;
    for (int64_t i = 0; i < state->count; i++)
        n += br__is_group_option(state->items[i].name);
    return n;
}

bool br__has_group_options(const br_named_list *state)
{
    return count_options(state) > 0;
}

/* Options of a state dict that are being read. */
typedef struct reading {
    const char *kind;
    const br_named_list *state;
    int64_t group;
    int64_t used; /* options that have been found */
} reading;

static void refuse(const char *name, const br_optim_option *option, const br_tensor *t)
{
    int64_t n = length_of(option);
    br_fail(BR_ERROR_SHAPE, op, "%s is %s %s, must be %s %s", name, br__shape(t),
            br_dtype_name(t->dtype), br__shape_of(n > 0, &n), br_dtype_name(option->dtype));
}

/* Copies an option of the state dict to the field. Returns whether the state dict has it. */
static bool read(reading *r, const br_optim_option *option, void *field)
{
    char *name = br_format(GROUPS "%" PRId64 ".%s", r->group, option->name);
    br_tensor *t = name ? br_named_list_get(r->state, name) : NULL;
    if (t && fits(option, t))
        from_tensor(option, br_contiguous(t), field);
    else if (t)
        refuse(name, option, t);
    else if (name && option != &initial_lr)
        br_fail(BR_ERROR_ARGUMENT, op, "%s is missing, but %s has this option", name, r->kind);
    br_free(name);
    r->used += t != NULL;
    return t && !br_failed();
}

/* Reads the options of group r->group. The kind checks them. */
static bool read_group(reading *r, const br_optim *optim, br_group *to)
{
    const br_optim_kind *kind = optim->kind;
    size_t size = br__options_size(kind);
    if (!(to->options = br_malloc(size)))
        return false;
    memcpy(to->options, optim->groups[r->group].options, size);
    br_optim_option option;
    for (int i = 0; option_at(kind, i, &option); i++)
        if (!read(r, &option, (char *)to->options + option.offset))
            return false;
    to->scheduled = read(r, &initial_lr, &to->initial_lr);
    double lr = *br__option(to->options, LR_OFFSET);
    if (!br_failed() && (isnan(lr) || isnan(to->initial_lr)))
        br_fail(BR_ERROR_ARGUMENT, op, "the learning rate of group %" PRId64 " is NaN", r->group);
    return !br_failed() && (!kind->check || kind->check(to->options));
}

static bool read_all(const br_optim *optim, const br_named_list *state, br_group *groups)
{
    reading r = { .kind = optim->kind->name, .state = state };
    for (; r.group < optim->n_groups; r.group++)
        if (!read_group(&r, optim, &groups[r.group]))
            return false;
    int64_t count = count_options(state);
    if (r.used != count)
        br_fail(BR_ERROR_ARGUMENT, op,
                "the state has %" PRId64 " options \"" GROUPS "*\", but this %s with %" PRId64
                " groups has %" PRId64 ": create it with the groups that it was saved with",
                count, optim->kind->name, optim->n_groups, r.used);
    return !br_failed();
}

br_group *br__read_group_options(const br_optim *optim, const br_named_list *state)
{
    br_group *groups = br_calloc((size_t)optim->n_groups, sizeof *groups);
    br_scope *scope = groups ? br_no_grad_begin() : NULL;
    bool ok = scope && read_all(optim, state, groups);
    br_scope_end(scope);
    if (ok)
        return groups;
    br__free_groups(groups, optim->n_groups);
    return NULL;
}

static void swap_bytes(char *a, char *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char kept = a[i];
        a[i] = b[i];
        b[i] = kept;
    }
}

/* The options keep their address, which br_optim_group_options() has returned. */
void br__swap_group_options(br_optim *optim, br_group *groups)
{
    for (int64_t g = 0; g < optim->n_groups; g++) {
        br_group *own = &optim->groups[g], kept = *own;
        swap_bytes(own->options, groups[g].options, br__options_size(optim->kind));
        own->scheduled = groups[g].scheduled;
        own->initial_lr = groups[g].initial_lr;
        groups[g].scheduled = kept.scheduled;
        groups[g].initial_lr = kept.initial_lr;
    }
}
