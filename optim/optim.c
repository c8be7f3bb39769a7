/* optim/optim.c - code shared by all optimizers: options and groups of parameters. The step is in
 * step.c. */
#include "optim/optim_internal.h"
#include "tensor/min_max.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

bool br__not_negative(const char *op, const char *name, double value)
{
    if (!(value >= 0))
        br_fail(BR_ERROR_ARGUMENT, op, "%s is %g, must not be negative", name, value);
    return !br_failed();
}

bool br__in_unit_interval(const char *op, const char *name, double value)
{
    if (!(value >= 0 && value < 1))
        br_fail(BR_ERROR_ARGUMENT, op, "%s is %g, must be in [0, 1)", name, value);
    return !br_failed();
}

bool br__good_adam(const char *op, double beta1, double beta2, double eps, double weight_decay)
{
    return br__in_unit_interval(op, "beta1", beta1) && br__in_unit_interval(op, "beta2", beta2) &&
           br__not_negative(op, "eps", eps) && br__not_negative(op, "weight_decay", weight_decay);
}

/* ---- Lifetime -------------------------------------------------------------------------------- */

/* The first fields of every kind's options. */
typedef struct any_options {
    size_t struct_size;
    double lr;
} any_options;

size_t br__options_size(const br_optim_kind *kind)
{
    return *(const size_t *)kind->defaults;
}

void br__free_groups(br_group *groups, int64_t n)
{
    for (int64_t g = 0; groups && g < n; g++)
        br_free(groups[g].options);
    br_free(groups);
}

double *br__group_lr(const br_optim *optim, int64_t group)
{
    return br__option(optim->groups[group].options, offsetof(any_options, lr));
}

static bool good_kind(const br_optim_kind *kind)
{
    const char *op = "optim_new";
    if (!br__required(op, "kind", kind) || !br__required(op, "kind->name", kind->name) ||
        !br__required(kind->name, "kind->defaults", kind->defaults))
        return false;
    if (br__options_size(kind) < sizeof(any_options))
        br_fail(BR_ERROR_ARGUMENT, kind->name,
                "the defaults have struct_size %zu: they must begin with struct_size, set to their "
                "size, and lr",
                br__options_size(kind));
    else if (!kind->describe && !kind->minimize && !kind->step == !kind->update)
        br_fail(BR_ERROR_ARGUMENT, kind->name, "the kind has %s, but must have exactly one of them",
                kind->step ? "both step and update" : "neither step nor update");
    return !br_failed();
}

/* Returns a checked copy of the options, or of `defaults` if none are given. */
static void *copy_options(const br_optim_kind *kind, const void *given, const void *defaults)
{
    const char *name = kind->options_name ? kind->options_name : kind->name;
    size_t size = br__options_size(kind);
    const void *options = br_options_of(kind->name, name, given, defaults, size);
    void *copy = br_failed() ? NULL : br_malloc(size);
    if (!copy)
        return NULL;
    memcpy(copy, options, size);
    if (br__not_negative(kind->name, "lr", *br__option(copy, offsetof(any_options, lr))) &&
        (!kind->check || kind->check(copy)))
        return copy;
    br_free(copy);
    return NULL;
}

br_optim *br_optim_new(const br_optim_kind *kind, const br_named_list *parameters,
                       const void *options)
{
    if (br_failed() || !good_kind(kind) || (parameters && !BR_LIVE("optim_new", parameters)))
        return NULL;
    if (parameters && parameters->count == 0)
        return br_fail(BR_ERROR_ARGUMENT, kind->name,
                       "the list of parameters is empty: pass parameters, or NULL to add them with "
                       "br_optim_add_group()");
    br_optim *optim = BR_NEW(br_optim);
    if (!optim)
        return NULL;
    optim->kind = kind;
    size_t align = sizeof(max_align_t);
    optim->args_stride = (kind->args_size + align - 1) / align * align;
    while (optim->n_states < BR_OPTIM_MAX_STATES && kind->states[optim->n_states].name) {
        optim->states[optim->n_states] = kind->states[optim->n_states];
        optim->n_states++;
    }
    optim->defaults = copy_options(kind, options, kind->defaults);
    if (optim->defaults && (!parameters || br_optim_add_group(optim, parameters, NULL) >= 0))
        return optim;
    br_optim_free(optim);
    return NULL;
}

br_optim *br_optim_for(const br_optim_kind *kind, br_module *module, const void *options)
{
    if (br_failed() || !good_kind(kind))
        return NULL;
    br_named_list *parameters = br__collect(kind->name, module, 0);
    if (parameters && parameters->count == 0)
        br_fail(BR_ERROR_ARGUMENT, kind->name,
                "module %s has no parameters: its constructor must register each parameter with "
                "br_parameter() and each module with br_child()",
                br_module_class(module));
    br_optim *optim = br_failed() ? NULL : br_optim_new(kind, parameters, options);
    br_named_list_free(parameters);
    return optim;
}

void br__slot_clear(br_slot *slot)
{
    for (int i = 0; i < BR_OPTIM_MAX_STATES; i++) {
        br_release(slot->state[i]);
        slot->state[i] = NULL;
    }
    slot->stepped = false;
}

static void free_slots_from(br_optim *optim, int64_t first)
{
    while (optim->n_slots > first) {
        br_slot *slot = &optim->slots[--optim->n_slots];
        br__slot_clear(slot);
        br_release(slot->param);
        br_free(slot->name);
    }
}

void br_optim_free(br_optim *optim)
{
    if (!BR_END("optim_free", optim))
        return;
    free_slots_from(optim, 0);
    br_free(optim->slots);
    br_free(optim->tasks);
    br_free(optim->updates);
    br_free(optim->spans);
    br_free(optim->args);
    br__free_groups(optim->groups, optim->n_groups);
    br_free(optim->defaults);
    BR_FREE(optim);
}

/* ---- Groups ---------------------------------------------------------------------------------- */

static bool name_taken(const br_optim *optim, const char *name)
{
    for (int64_t i = 0; i < optim->n_slots; i++)
        if (strcmp(optim->slots[i].name, name) == 0)
            return true;
    return false;
}

/* Returns a copy of the name, with "#1", "#2", ... appended if it is taken: parameters of two
 * modules may have the same name. */
static char *unique_name(const br_optim *optim, const char *name)
{
    char *unique = br_strdup(name);
    for (int n = 1; unique && name_taken(optim, unique); n++) {
        br_free(unique);
        unique = br_format("%s#%d", name, n);
    }
    return unique;
}

static bool good_parameter(const br_optim *optim, const br_named_tensor *p)
{
    const char *op = optim->kind->name;
    if (!p->name || !p->tensor) {
        br_fail(BR_ERROR_ARGUMENT, op, "a parameter in the list has no %s",
                p->name ? "tensor" : "name");
        return false;
    }
    if (!br__required_any(op, p->name, p->tensor))
        return false;
    if (!br_is_leaf(p->tensor)) {
        br_fail(BR_ERROR_ARGUMENT, op, "%s %s was computed by %s: only leaves can be optimized",
                p->name, br__shape(p->tensor), br_op_name(p->tensor));
        return false;
    }
    for (int64_t i = 0; i < optim->n_slots; i++) {
        if (optim->slots[i].param != p->tensor)
            continue;
        br_fail(BR_ERROR_ARGUMENT, op, "%s is already in the optimizer, as %s of group %d", p->name,
                optim->slots[i].name, optim->slots[i].group);
        return false;
    }
    return !optim->kind->supports || optim->kind->supports(p);
}

/* Makes room for item `count` of one of the optimizer's arrays. */
static bool reserve(void *array, int64_t *capacity, int64_t count, size_t size)
{
    void *grown, *now;
    memcpy(&now, array, sizeof now);
    if (!(grown = br__grow(now, capacity, count, size)))
        return false;
    memcpy(array, &grown, sizeof grown);
    return true;
}

/* Makes room for one more slot and its task. */
static bool reserve_slot(br_optim *o)
{
    int64_t n = o->n_slots;
    return reserve(&o->slots, &o->slot_capacity, n, sizeof *o->slots) &&
           reserve(&o->tasks, &o->task_capacity, n, sizeof *o->tasks) &&
           reserve(&o->updates, &o->update_capacity, n, sizeof *o->updates) &&
           reserve(&o->spans, &o->span_capacity, n, sizeof *o->spans) &&
           (o->args_stride == 0 || reserve(&o->args, &o->args_capacity, n, o->args_stride));
}

static bool add_slot(br_optim *optim, const br_named_tensor *p)
{
    if (!good_parameter(optim, p) || !reserve_slot(optim))
        return false;
    char *name = unique_name(optim, p->name);
    if (!name)
        return false;
    optim->slots[optim->n_slots++] =
        (br_slot){ .name = name, .param = br_retain(p->tensor), .group = (int)optim->n_groups };
    return true;
}

int br_optim_add_group(br_optim *optim, const br_named_list *parameters, const void *options)
{
    if (!br__required("optim_add_group", "optim", optim) ||
        !br__required(optim->kind->name, "parameters", parameters))
        return -1;
    if (optim->kind->minimize && optim->n_groups > 0) {
        br_fail(BR_ERROR_STATE, optim->kind->name,
                "the optimizer has a group already, and can have only one: put all parameters "
                "into it");
        return -1;
    }
    if (!reserve(&optim->groups, &optim->group_capacity, optim->n_groups, sizeof *optim->groups))
        return -1;
    void *copy = copy_options(optim->kind, options, optim->defaults);
    if (!copy)
        return -1;
    int64_t before = optim->n_slots;
    for (int64_t i = 0; i < parameters->count; i++) {
        if (!add_slot(optim, &parameters->items[i])) {
            free_slots_from(optim, before);
            br_free(copy);
            return -1;
        }
    }
    optim->groups[optim->n_groups] = (br_group){ .options = copy };
    return (int)optim->n_groups++;
}

int br_optim_num_groups(const br_optim *optim)
{
    return BR_LIVE("optim_num_groups", optim) ? (int)optim->n_groups : 0;
}

static bool good_group(const char *op, const br_optim *optim, int group)
{
    if (!br__required(op, "optim", optim))
        return false;
    if (group < -1 || group >= optim->n_groups)
        br_fail(BR_ERROR_INDEX, op, "group %d is out of range for %d groups (-1 means all)", group,
                (int)optim->n_groups);
    return !br_failed();
}

void br_optim_set_lr(br_optim *optim, int group, double lr)
{
    if (!good_group("optim_set_lr", optim, group) || !br__not_negative("optim_set_lr", "lr", lr))
        return;
    if (group >= 0) {
        *br__group_lr(optim, group) = lr;
        return;
    }
    *br__option(optim->defaults, offsetof(any_options, lr)) = lr;
    for (int64_t i = 0; i < optim->n_groups; i++)
        *br__group_lr(optim, i) = lr;
}

double br_optim_get_lr(const br_optim *optim, int group)
{
    if (!good_group("optim_get_lr", optim, group))
        return NAN;
    if (optim->n_groups == 0)
        return *br__option(optim->defaults, offsetof(any_options, lr));
    return *br__group_lr(optim, br__max(group, 0));
}

const void *br_optim_group_options(const br_optim *optim, int group)
{
    if (!good_group("optim_group_options", optim, group))
        return NULL;
    return group < 0 ? optim->defaults : optim->groups[group].options;
}

bool br_optim_set_group_options(br_optim *optim, int group, const void *options)
{
    const char *op = "optim_set_group_options";
    if (!good_group(op, optim, group) || !br__required(op, "options", options))
        return false;
    void *copy = copy_options(optim->kind, options, NULL);
    void **place = group < 0 ? &optim->defaults : &optim->groups[group].options;
    if (!copy)
        return false;
    memcpy(*place, copy, br__options_size(optim->kind));
    br_free(copy);
    return true;
}

const br_optim_kind *br_optim_kind_of(const br_optim *optim)
{
    return br__required("optim_kind_of", "optim", optim) ? optim->kind : NULL;
}

br_named_list *br_optim_group_parameters(const br_optim *optim, int group)
{
    if (!good_group("optim_group_parameters", optim, group))
        return NULL;
    br_named_list *list = br__named_list_new(false);
    bool ok = list != NULL;
    for (int64_t i = 0; ok && i < optim->n_slots; i++)
        if (group < 0 || optim->slots[i].group == group)
            ok = br__named_list_add(list, optim->slots[i].name, optim->slots[i].param);
    if (ok)
        return list;
    br_named_list_free(list);
    return NULL;
}
