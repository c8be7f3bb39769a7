/* optim/scheduler.c - code shared by all learning rate schedulers: creation, stepping, queries.
 *
 * A step first computes the rates of all groups, which can fail; then it sets them. */
#include "optim/scheduler_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Lifetime -------------------------------------------------------------------------------- */

/* The first scheduler of an optimizer begins with the groups' rates; later schedulers begin with
 * the initial rates that the first one stored. */
static void read_rates(br_scheduler *s)
{
    for (int g = 0; g < s->n_groups; g++) {
        const br_group *group = &s->optim->groups[g];
        s->last_lrs[g] = *br__group_lr(s->optim, g);
        s->base_lrs[g] = group->scheduled ? group->initial_lr : s->last_lrs[g];
    }
}

/* Stores the rates with which the scheduler begins as the groups' initial rates. As in PyTorch, a
 * plateau scheduler stores none: it only reduces the current rates. */
static void store_initial_rates(const br_scheduler *s)
{
    for (int g = 0; s->kind->rate && g < s->n_groups; g++) {
        s->optim->groups[g].initial_lr = s->base_lrs[g];
        s->optim->groups[g].scheduled = true;
    }
}

br_scheduler *br__scheduler_new(const br_scheduler_kind *kind, br_optim *optim)
{
    if (!br__required(kind->name, "optim", optim))
        return NULL;
    br_scheduler *s = BR_NEW(br_scheduler);
    if (!s)
        return NULL;
    *s = (br_scheduler){
        .kind = kind, .optim = optim, .n_groups = (int)optim->n_groups, .last_epoch = -1
    };
    size_t n = (size_t)optim->n_groups;
    s->base_lrs = br_calloc(n, sizeof *s->base_lrs);
    s->last_lrs = br_calloc(n, sizeof *s->last_lrs);
    s->rates = br_calloc(n, sizeof *s->rates);
    if (s->base_lrs && s->last_lrs && s->rates) {
        read_rates(s);
        return s;
    }
    br_scheduler_free(s);
    return NULL;
}

br_scheduler *br__scheduler_begin(br_scheduler *s)
{
    if (!s)
        return NULL;
    s->initial = true;
    bool ok = !br_failed() && br__scheduler_advance(s, false);
    s->initial = false;
    if (!ok) {
        br_scheduler_free(s);
        return NULL;
    }
    /* Only now: a scheduler that is refused leaves the optimizer as it was. */
    store_initial_rates(s);
    return s;
}

void br_scheduler_free(br_scheduler *s)
{
    if (!BR_END("scheduler_free", s))
        return;
    for (int i = 0; i < s->n_children; i++)
        br_scheduler_free(s->children[i]);
    br_free(s->children);
    br_free(s->milestones);
    br_free(s->base_lrs);
    br_free(s->last_lrs);
    br_free(s->rates);
    br_free(s->owned);
    BR_FREE(s);
}

/* ---- Milestones ------------------------------------------------------------------------------ */

static int compare_epochs(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

bool br__scheduler_milestones(br_scheduler *s, int n, const int64_t *milestones)
{
    if (n < 0 || (n > 0 && !milestones)) {
        br_fail(BR_ERROR_ARGUMENT, s->kind->name,
                "n is %d and the list of milestones is %s: it must have n >= 0 entries", n,
                milestones ? "not NULL" : "NULL");
        return false;
    }
    for (int i = 0; i < n; i++) {
        if (milestones[i] >= 0)
            continue;
        br_fail(BR_ERROR_ARGUMENT, s->kind->name, "milestone %d is %" PRId64 ", must be at least 0",
                i, milestones[i]);
        return false;
    }
    s->milestones = br_calloc((size_t)n, sizeof *s->milestones);
    if (!s->milestones)
        return false;
    if (n > 0)
        memcpy(s->milestones, milestones, (size_t)n * sizeof *milestones);
    if (n > 0)
        qsort(s->milestones, (size_t)n, sizeof *s->milestones, compare_epochs);
    s->n_milestones = n;
    return true;
}

int br__scheduler_passed(const br_scheduler *s, int64_t epoch)
{
    int n = 0;
    while (n < s->n_milestones && s->milestones[n] <= epoch)
        n++;
    return n;
}

/* ---- Stepping -------------------------------------------------------------------------------- */

bool br__scheduler_usable(const char *op, const br_scheduler *s)
{
    if (!br__required(op, "scheduler", s))
        return false;
    if (s->n_groups != s->optim->n_groups)
        br_fail(BR_ERROR_STATE, op, "the optimizer has %d groups, but the %s was created for %d",
                (int)s->optim->n_groups, s->kind->name, s->n_groups);
    return !br_failed();
}

void br__scheduler_copy_rates(br_scheduler *s)
{
    for (int g = 0; g < s->n_groups; g++)
        s->last_lrs[g] = *br__group_lr(s->optim, g);
}

static bool work_out(br_scheduler *s, bool enter)
{
    const br_scheduler_kind *kind = s->kind;
    for (int g = 0; g < s->n_groups; g++) {
        double lr = *br__group_lr(s->optim, g);
        s->rates[g] = enter && kind->closed_rate ? kind->closed_rate(s, g) : kind->rate(s, g, lr);
        if (isnan(s->rates[g]) && !br_failed())
            br_fail(BR_ERROR_STATE, kind->name, "the next learning rate of group %d is NaN", g);
        if (br_failed())
            return false;
    }
    return true;
}

bool br__scheduler_advance(br_scheduler *s, bool enter)
{
    int64_t epoch = s->last_epoch;
    double values[BR_SCHEDULER_VALUES];
    memcpy(values, s->values, sizeof values);
    s->last_epoch = enter ? 0 : epoch + 1;
    if (s->kind->advance && !enter)
        s->kind->advance(s);
    if (!work_out(s, enter)) {
        s->last_epoch = epoch;
        memcpy(s->values, values, sizeof values);
        return false;
    }
    for (int g = 0; g < s->n_groups; g++)
        *br__group_lr(s->optim, g) = s->last_lrs[g] = s->rates[g];
    if (s->kind->apply)
        s->kind->apply(s);
    return true;
}

bool br_scheduler_step(br_scheduler *scheduler)
{
    if (!br__scheduler_usable("scheduler_step", scheduler))
        return false;
    if (scheduler->kind->step)
        return scheduler->kind->step(scheduler);
    return br__scheduler_advance(scheduler, false);
}

/* ---- Queries --------------------------------------------------------------------------------- */

double br_scheduler_last_lr(const br_scheduler *scheduler, int group)
{
    if (!br__scheduler_usable("scheduler_last_lr", scheduler))
        return NAN;
    if (group >= 0 && group < scheduler->n_groups)
        return scheduler->last_lrs[group];
    br_fail(BR_ERROR_INDEX, "scheduler_last_lr", "group %d is out of range for %d groups", group,
            scheduler->n_groups);
    return NAN;
}

int64_t br_scheduler_last_epoch(const br_scheduler *scheduler)
{
    return br__scheduler_usable("scheduler_last_epoch", scheduler) ? scheduler->last_epoch : -1;
}
