/* optim/state.c - an optimizer's state as named tensors. */
#include "optim/optim_internal.h"

#include <string.h>

br_named_list *br_optim_state_dict(br_optim *optim)
{
    if (!br__required("optim_state_dict", "optim", optim))
        return NULL;
    br_named_list *list = br__named_list_new(false);
    br_text name = { 0 };
    bool ok = list != NULL;
    for (int64_t k = 0; ok && k < optim->n_slots; k++) {
        const br_slot *slot = &optim->slots[k];
        for (int i = 0; ok && slot->stepped && i < optim->kind->n_states; i++) {
            if (!slot->state[i])
                continue;
            br__text_cut(&name, 0);
            ok = br__text_add(&name, "%s.%s", slot->name, optim->kind->state_names[i]) &&
                 br__named_list_add(list, name.data, slot->state[i]);
        }
    }
    br_free(name.data);
    if (ok)
        return list;
    br_named_list_free(list);
    return NULL;
}

/* ---- Loading --------------------------------------------------------------------------------- */

/* For each slot and each of its states the tensor to load, NULL for none. */
typedef struct loading {
    br_optim *optim;
    br_tensor *(*found)[BR_MAX_STATES];
    int64_t next; /* where the slot of the next name is likely to be */
} loading;

/* Finds slot and state of "<parameter>.<state>". */
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
        for (int i = 0; i < optim->kind->n_states; i++) {
            if (strcmp(optim->kind->state_names[i], dot + 1) == 0 &&
                optim->kind->has_state(&optim->groups[optim->slots[s].group].options, i)) {
                l->next = *slot = s;
                *state = i;
                return true;
            }
        }
    }
    return false;
}

static bool fits(const br_optim *optim, int64_t slot, int state, const br_tensor *t)
{
    const br_tensor *p = optim->slots[slot].param;
    if (optim->kind->is_counter(state))
        return t->ndim == 0 && t->dtype == BR_I64 && br_item_i64(t) >= 0;
    return br_same_shape(t, p) && t->dtype == p->dtype;
}

static bool take(loading *l, const br_named_tensor *item)
{
    const char *op = "optim_load_state_dict";
    int64_t slot;
    int state;
    if (!item->name || !item->tensor)
        br__fail(BR_ERROR_ARGUMENT, op, "an item has no %s", item->name ? "tensor" : "name");
    else if (!locate(l, item->name, &slot, &state))
        br__fail(BR_ERROR_ARGUMENT, op, "%s keeps no state named %s", l->optim->kind->name,
                 br__printable(item->name));
    else if (l->found[slot][state])
        br__fail(BR_ERROR_ARGUMENT, op, "%s is there twice", br__printable(item->name));
    else if (!fits(l->optim, slot, state, item->tensor))
        br__fail(BR_ERROR_SHAPE, op, "%s %s of %s does not fit its parameter %s of %s",
                 br__printable(item->name), br__shape(item->tensor),
                 br_dtype_name(item->tensor->dtype), br__shape(l->optim->slots[slot].param),
                 br_dtype_name(l->optim->slots[slot].param->dtype));
    else
        l->found[slot][state] = item->tensor;
    return !br_failed();
}

static bool has_any(const loading *l, int64_t slot)
{
    for (int i = 0; i < l->optim->kind->n_states; i++)
        if (l->found[slot][i])
            return true;
    return false;
}

/* A parameter's state is whole or absent. Makes room for what will be copied. */
static bool check_whole(const loading *l, int64_t k)
{
    br_optim *optim = l->optim;
    br_slot *slot = &optim->slots[k];
    if (!has_any(l, k))
        return true;
    for (int i = 0; i < optim->kind->n_states; i++) {
        if (l->found[k][i] || !optim->kind->has_state(&optim->groups[slot->group].options, i))
            continue;
        br__fail(BR_ERROR_ARGUMENT, "optim_load_state_dict", "%s.%s is missing", slot->name,
                 optim->kind->state_names[i]);
        return false;
    }
    return br__slot_prepare(optim, slot);
}

static void copy_state(const loading *l, int64_t k)
{
    br_slot *slot = &l->optim->slots[k];
    if (!has_any(l, k)) {
        br__slot_clear(slot);
        return;
    }
    for (int i = 0; i < l->optim->kind->n_states; i++)
        if (l->found[k][i])
            br__copy(slot->state[i], l->found[k][i]);
    slot->stepped = true;
}

static bool load(loading *l, const br_named_list *state)
{
    for (int64_t i = 0; i < state->count; i++)
        if (!take(l, &state->items[i]))
            return false;
    for (int64_t k = 0; k < l->optim->n_slots; k++)
        if (!check_whole(l, k))
            return false;
    for (int64_t k = 0; k < l->optim->n_slots; k++)
        copy_state(l, k);
    return true;
}

bool br_optim_load_state_dict(br_optim *optim, const br_named_list *state)
{
    if (!br__required("optim_load_state_dict", "optim", optim) ||
        !br__required("optim_load_state_dict", "state", state))
        return false;
    loading l = { .optim = optim, .found = br__calloc((size_t)optim->n_slots, sizeof *l.found) };
    bool ok = l.found && load(&l, state);
    br_free(l.found);
    return ok;
}
