/* optim/sequential_lr.c - SequentialLR: one scheduler after another. */
#include "optim/scheduler_internal.h"

#include <inttypes.h>

static bool step_child(br_scheduler *s)
{
    int64_t epoch = s->last_epoch + 1;
    int i = br__scheduler_passed(s, epoch);
    bool enter = i > 0 && s->milestones[i - 1] == epoch;
    if (!br__scheduler_advance(s->children[i], enter))
        return false;
    s->last_epoch = epoch;
    br__scheduler_copy_rates(s);
    return true;
}

static const br_scheduler_kind kind = { .name = "sequential_lr", .step = step_child };

static bool good_child(const br_scheduler *s, int i, const br_scheduler *child)
{
    if (!br__required_item(kind.name, "scheduler", i, child))
        return false;
    if (child->kind->step)
        br_fail(BR_ERROR_ARGUMENT, kind.name, "scheduler %d, a %s, cannot be part of a sequence", i,
                child->kind->name);
    else if (child->optim != s->optim || child->n_groups != s->n_groups)
        br_fail(BR_ERROR_ARGUMENT, kind.name,
                "scheduler %d, a %s, belongs to another optimizer or has other groups", i,
                child->kind->name);
    return !br_failed();
}

/* Creating the children has changed rates and epochs, so they are reset and the first child is
 * started again. */
static bool begin(br_scheduler *s)
{
    for (int g = 0; g < s->n_groups; g++)
        *br__group_lr(s->optim, g) = s->optim->groups[g].initial_lr;
    for (int i = 0; i < s->n_children; i++)
        s->children[i]->last_epoch--;
    br_scheduler *first = s->children[br__scheduler_passed(s, 0)];
    first->initial = true;
    bool ok = br__scheduler_advance(first, false);
    first->initial = false;
    s->last_epoch = 0;
    br__scheduler_copy_rates(s);
    return ok;
}

/* Returns true if scheduler i is also listed before index i. */
static bool is_before(br_scheduler *const *schedulers, int i)
{
    int k = 0;
    while (schedulers[k] != schedulers[i])
        k++;
    return k < i;
}

static bool add_children(br_scheduler *s, int n, br_scheduler *const *schedulers)
{
    s->children = br_calloc((size_t)n, sizeof(br_scheduler *));
    if (!s->children)
        return false;
    for (int i = 0; i < n; i++) {
        if (!good_child(s, i, schedulers[i]))
            return false;
        if (is_before(schedulers, i)) {
            br_fail(BR_ERROR_ARGUMENT, kind.name, "scheduler %d is in the list twice", i);
            return false;
        }
    }
    for (int i = 0; i < n; i++)
        s->children[s->n_children++] = schedulers[i];
    return true;
}

static void free_all(int n, br_scheduler *const *schedulers)
{
    for (int i = n - 1; schedulers && i >= 0; i--)
        if (!is_before(schedulers, i))
            br_scheduler_free(schedulers[i]);
}

br_scheduler *br_sequential_lr(br_optim *optim, int n, br_scheduler *const *schedulers,
                               const int64_t *milestones)
{
    br_scheduler *s = br__scheduler_new(&kind, optim);
    if (s && (n < 1 || !schedulers))
        br_fail(BR_ERROR_ARGUMENT, kind.name,
                "n is %d and the list of schedulers is %s: it must have n >= 1 schedulers", n,
                schedulers ? "not NULL" : "NULL");
    for (int i = 1; s && milestones && i < n - 1 && !br_failed(); i++)
        if (milestones[i] < milestones[i - 1])
            br_fail(BR_ERROR_ARGUMENT, kind.name,
                    "milestone %d is %" PRId64 ", must be at least %" PRId64 ", the one before", i,
                    milestones[i], milestones[i - 1]);
    bool taken = s && !br_failed() && br__scheduler_milestones(s, n - 1, milestones) &&
                 add_children(s, n, schedulers);
    if (!taken)
        free_all(n, schedulers);
    if (taken && begin(s))
        return s;
    br_scheduler_free(s);
    return NULL;
}
