/* optim/state.c - an optimizer's state as named tensors. */
#include "optim/optim_internal.h"

#include <string.h>

br_named_list *br_optim_state_dict(br_optim *optim)
{
    if (!br__required("optim_state_dict", "optim", optim))
        return NULL;
    br_named_list *list = br__named_list_new(true);
    br__text name = { 0 };
    bool ok = list != NULL;
    for (int64_t k = 0; ok && k < optim->n_slots; k++) {
        const br_slot *slot = &optim->slots[k];
        for (int i = 0; ok && slot->stepped && i < optim->n_states; i++) {
            if (!slot->state[i])
                continue;
            br__text_truncate(&name, 0);
            ok = br__text_add(&name, "%s.%s", slot->name, optim->states[i].name) &&
                 br__named_list_add(list, name.data, slot->state[i]);
        }
    }
    br_free(name.data);
    if (ok && br__add_group_options(optim, list))
        return list;
    br_named_list_free(list);
    return NULL;
}

/* ---- Loading --------------------------------------------------------------------------------- */

/* What is loaded for one slot. */
typedef struct arrival {
    br_tensor *found[BR_OPTIM_MAX_STATES]; /* NULL: the list does not have this state */
    bool fresh[BR_OPTIM_MAX_STATES];       /* the slot's state was created to be loaded */
} arrival;

typedef struct loading {
    br_optim *optim;
    arrival *arrivals; /* of each slot */
    int64_t next;      /* likely slot of the next name */
} loading;

/* Finds the slot and state of "<parameter>.<state>". */
static bool locate(loading *l, const char *name, int64_t *slot, int *state)
{
    const br_optim *optim = l->optim;
    const char *dot = strrchr(name, '.');
    size_t length = dot ? (size_t)(dot - name) : 0;
    for (int64_t k = 0; dot && k < optim->n_slots; k++) {
        int64_t s = (l->next + k) % optim->n_slots;
        const char *param = optim->slots[s].name;
        if (strncmp(param, name, length) != 0 || param[length] != '\0')
            continue;
        for (int i = 0; i < optim->n_states; i++) {
            if (strcmp(optim->states[i].name, dot + 1) == 0) {
                l->next = *slot = s;
                *state = i;
                return true;
            }
        }
    }
    return false;
}

/* Creates a state that the options do not need, but that earlier options did. Its shape is known
 * only if it is the parameter's. An optimizer with `minimize` has states of any shape, which its
 * next step checks. */
static br_tensor *make_unneeded(loading *l, int64_t k, int i, const br_tensor *found)
{
    br_slot *slot = &l->optim->slots[k];
    br_scope *scope = br_no_grad_begin();
    slot->state[i] = br_retain(l->optim->kind->minimize ? br_new_zeros(slot->param, found->ndim,
                                                                       found->sizes, found->dtype)
                                                        : br_zeros_like(slot->param));
    br_scope_end(scope);
    l->arrivals[k].fresh[i] = slot->state[i] != NULL;
    return slot->state[i];
}

/* Returns true if t has the shape and dtype of the existing state and, if the state is a counter,
 * is not negative. */
static bool fits(const br_optim *optim, int64_t slot, int state, const br_tensor *t)
{
    const br_tensor *own = optim->slots[slot].state[state];
    return br__same_shape(t, own) && t->dtype == own->dtype &&
           (optim->states[state].make != br_optim_counter || br_item_i64(t) >= 0);
}

static void refuse(const br_tensor *own, const br_named_tensor *item)
{
    const br_tensor *t = item->tensor;
    br_fail(BR_ERROR_SHAPE, "optim_load_state_dict", "%s is %s %s, must be %s %s%s",
            br_printable(item->name), br__shape(t), br_dtype_name(t->dtype), br__shape(own),
            br_dtype_name(own->dtype), own->dtype == BR_I64 ? " and not negative" : "");
}

static bool match_item(loading *l, const br_named_tensor *item)
{
    const char *op = "optim_load_state_dict";
    int64_t slot;
    int state;
    if (!item->name || !item->tensor)
        br_fail(BR_ERROR_ARGUMENT, op, "an item of the state has no %s",
                item->name ? "tensor" : "name");
    else if (!locate(l, item->name, &slot, &state))
        br_fail(BR_ERROR_ARGUMENT, op, "%s has no state named %s", l->optim->kind->name,
                br_printable(item->name));
    else if (l->arrivals[slot].found[state])
        br_fail(BR_ERROR_ARGUMENT, op, "%s is in the state twice", br_printable(item->name));
    else if (!l->optim->slots[slot].state[state] && !make_unneeded(l, slot, state, item->tensor))
        return false;
    else if (!fits(l->optim, slot, state, item->tensor))
        refuse(l->optim->slots[slot].state[state], item);
    else
        l->arrivals[slot].found[state] = item->tensor;
    return !br_failed();
}

static bool has_any(const loading *l, int64_t k)
{
    for (int i = 0; i < l->optim->n_states; i++)
        if (l->arrivals[k].found[i])
            return true;
    return false;
}

/* Checks that a parameter's state is complete or absent. */
static bool check_whole(const loading *l, int64_t k)
{
    const br_optim *optim = l->optim;
    const br_slot *slot = &optim->slots[k];
    if (!has_any(l, k))
        return true;
    for (int i = 0; i < optim->n_states; i++) {
        if (l->arrivals[k].found[i] || !slot->state[i] || !br__slot_needs(optim, slot, i))
            continue;
        br_fail(BR_ERROR_ARGUMENT, "optim_load_state_dict", "%s.%s is missing", slot->name,
                optim->states[i].name);
        return false;
    }
    return !br_failed();
}

static void copy_state(const loading *l, int64_t k)
{
    br_slot *slot = &l->optim->slots[k];
    if (!has_any(l, k)) {
        br__slot_clear(slot);
        return;
    }
    for (int i = 0; i < l->optim->n_states; i++) {
        if (l->arrivals[k].found[i]) {
            br__transfer("optim_load_state_dict", slot->state[i], l->arrivals[k].found[i]);
        } else {
            br_release(slot->state[i]);
            slot->state[i] = NULL;
        }
    }
    slot->version = br_tensor_version(slot->param);
    slot->stepped = true;
}

/* Creates missing states first, so that the loaded states can be compared with them. */
static bool match(loading *l, const br_named_list *state)
{
    for (int64_t k = 0; k < l->optim->n_slots; k++)
        if (!br__slot_prepare(l->optim, &l->optim->slots[k], l->arrivals[k].fresh))
            return false;
    for (int64_t i = 0; i < state->count; i++)
        if (!br__is_group_option(state->items[i].name) && !match_item(l, &state->items[i]))
            return false;
    for (int64_t k = 0; k < l->optim->n_slots; k++)
        if (!check_whole(l, k))
            return false;
    return true;
}

/* Loads the state of the parameters. On failure, drops what match() has created. */
static bool load(br_optim *optim, const br_named_list *state)
{
    loading l = { .optim = optim,
                  .arrivals = br_calloc((size_t)optim->n_slots, sizeof *l.arrivals) };
    bool ok = l.arrivals && match(&l, state);
    for (int64_t k = 0; l.arrivals && k < optim->n_slots; k++) {
        if (ok)
            copy_state(&l, k);
        else
            br__slot_drop(&optim->slots[k], l.arrivals[k].fresh);
    }
    br_free(l.arrivals);
    return ok;
}

/* The options are loaded first, since they decide which states there are. */
bool br_optim_load_state_dict(br_optim *optim, const br_named_list *state)
{
    if (!br__required("optim_load_state_dict", "optim", optim) ||
        !br__required("optim_load_state_dict", "state", state))
        return false;
    if (!br__has_group_options(state))
        return load(optim, state);
    br_group *groups = br__read_group_options(optim, state);
    if (!groups)
        return false;
    br__swap_group_options(optim, groups);
    bool ok = load(optim, state);
    if (!ok)
        br__swap_group_options(optim, groups);
    br__free_groups(groups, optim->n_groups);
    return ok;
}
