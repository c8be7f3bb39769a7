/* optim/optim.c - what all optimizers share: groups of parameters and the step.
 *
 * A step first checks every gradient and makes what state is missing, which can fail and changes no
 * parameter; then it updates all of them in one parallel loop, which cannot fail. */
#include "optim/optim_internal.h"

#include <fnmatch.h>
#include <math.h>
#include <string.h>

bool br__not_negative(const char *op, const char *name, double value)
{
    if (!(value >= 0))
        br__fail(BR_ERROR_ARGUMENT, op, "%s is %g, must not be negative", name, value);
    return !br_failed();
}

bool br__in_unit(const char *op, const char *name, double value)
{
    if (!(value >= 0 && value < 1))
        br__fail(BR_ERROR_ARGUMENT, op, "%s is %g, must be in 0 .. 1, without 1", name, value);
    return !br_failed();
}

bool br__no_counter(int i)
{
    (void)i;
    return false;
}

void br__nothing_to_finish(br_job *job)
{
    (void)job;
}

/* ---- Life ------------------------------------------------------------------------------------ */

br_optim *br__optim_new(const br_optim_kind *kind, const br_named_list *parameters,
                        const void *options)
{
    br_optim *optim = br_failed() ? NULL : br__calloc(1, sizeof *optim);
    if (!optim)
        return NULL;
    optim->kind = kind;
    if (kind->resolve(&optim->defaults, options) &&
        (!parameters || br_optim_add_group(optim, parameters, NULL) >= 0))
        return optim;
    br_optim_free(optim);
    return NULL;
}

br_optim *br__optim_for(const br_optim_kind *kind, br_module *module, const void *options)
{
    br_named_list *parameters = br__collect(kind->name, module, 0);
    br_optim *optim = parameters ? br__optim_new(kind, parameters, options) : NULL;
    br_named_list_free(parameters);
    return optim;
}

void br__slot_clear(br_slot *slot)
{
    for (int i = 0; i < BR_MAX_STATES; i++) {
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
    if (!optim)
        return;
    free_slots_from(optim, 0);
    br_free(optim->slots);
    br_free(optim->jobs);
    br_free(optim->spans);
    br_free(optim->groups);
    br_free(optim);
}

/* ---- Groups ---------------------------------------------------------------------------------- */

static bool name_taken(const br_optim *optim, const char *name)
{
    for (int64_t i = 0; i < optim->n_slots; i++)
        if (strcmp(optim->slots[i].name, name) == 0)
            return true;
    return false;
}

/* A copy of the name; parameters of two modules may bear the same, the later one then gets "#1". */
static char *unique_name(const br_optim *optim, const char *name)
{
    char *unique = br__strdup(name);
    for (int n = 1; unique && name_taken(optim, unique); n++) {
        br_free(unique);
        unique = br__format("%s#%d", name, n);
    }
    return unique;
}

static bool good_parameter(const br_optim *optim, const br_named_tensor *p)
{
    const char *op = optim->kind->name;
    if (!p->name || !p->tensor) {
        br__fail(BR_ERROR_ARGUMENT, op, "a parameter of the list has no %s",
                 p->name ? "tensor" : "name");
        return false;
    }
    if (!br_is_leaf(p->tensor)) {
        br__fail(BR_ERROR_ARGUMENT, op, "%s %s was made by %s: only leaves can be optimized",
                 p->name, br__shape(p->tensor), br_op_name(p->tensor));
        return false;
    }
    for (int64_t i = 0; i < optim->n_slots; i++) {
        if (optim->slots[i].param != p->tensor)
            continue;
        br__fail(BR_ERROR_ARGUMENT, op, "%s is in the optimizer already, as %s of group %d",
                 p->name, optim->slots[i].name, optim->slots[i].group);
        return false;
    }
    return !optim->kind->takes || optim->kind->takes(p);
}

/* Room for one more slot and its part of a step. */
static bool reserve_slot(br_optim *optim)
{
    int64_t n = optim->n_slots;
    br_slot *slots = br__grow(optim->slots, &optim->slot_room, n, sizeof *slots);
    if (slots)
        optim->slots = slots;
    br_job *jobs = slots ? br__grow(optim->jobs, &optim->job_room, n, sizeof *jobs) : NULL;
    if (jobs)
        optim->jobs = jobs;
    br_span *spans = jobs ? br__grow(optim->spans, &optim->span_room, n, sizeof *spans) : NULL;
    if (spans)
        optim->spans = spans;
    return spans != NULL;
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
    br_optim_options resolved = optim->defaults;
    if (options && !optim->kind->resolve(&resolved, options))
        return -1;
    br_group *groups = br__grow(optim->groups, &optim->group_room, optim->n_groups, sizeof *groups);
    if (!groups)
        return -1;
    optim->groups = groups;
    int64_t before = optim->n_slots;
    for (int64_t i = 0; i < parameters->count; i++) {
        if (!add_slot(optim, &parameters->items[i])) {
            free_slots_from(optim, before);
            return -1;
        }
    }
    groups[optim->n_groups] = (br_group){ .options = resolved };
    return (int)optim->n_groups++;
}

br_named_list *br_named_list_filter(const br_named_list *all, int n_globs, const char *const *globs,
                                    bool invert)
{
    const char *op = "named_list_filter";
    if (!br__required(op, "all", all) || (n_globs > 0 && !br__required(op, "globs", globs)))
        return NULL;
    if (n_globs < 0)
        return br__fail(BR_ERROR_ARGUMENT, op, "%d globs, must not be negative", n_globs);
    br_named_list *list = br__named_list_new(false);
    for (int64_t i = 0; list && i < all->count; i++) {
        bool matches = false;
        for (int k = 0; k < n_globs && !matches; k++)
            matches = fnmatch(globs[k], all->items[i].name, 0) == 0;
        if (matches != invert &&
            !br__named_list_add(list, all->items[i].name, all->items[i].tensor)) {
            br_named_list_free(list);
            list = NULL;
        }
    }
    return list;
}

int br_optim_num_groups(const br_optim *optim)
{
    return optim ? (int)optim->n_groups : 0;
}

static bool good_group(const char *op, const br_optim *optim, int group)
{
    if (!br__required(op, "optim", optim))
        return false;
    if (group < -1 || group >= optim->n_groups)
        br__fail(BR_ERROR_INDEX, op, "group %d of %d, must be -1 (all) or one of them", group,
                 (int)optim->n_groups);
    return !br_failed();
}

void br_optim_set_lr(br_optim *optim, int group, double lr)
{
    if (!good_group("optim_set_lr", optim, group) || !br__not_negative("optim_set_lr", "lr", lr))
        return;
    if (group >= 0) {
        optim->groups[group].options.lr = lr;
        return;
    }
    optim->defaults.lr = lr;
    for (int64_t i = 0; i < optim->n_groups; i++)
        optim->groups[i].options.lr = lr;
}

double br_optim_get_lr(const br_optim *optim, int group)
{
    if (!good_group("optim_get_lr", optim, group))
        return NAN;
    if (optim->n_groups == 0)
        return optim->defaults.lr;
    return optim->groups[group < 0 ? 0 : group].options.lr;
}

/* ---- State ----------------------------------------------------------------------------------- */

static br_tensor *make_state(const br_optim_kind *kind, const br_optim_options *options,
                             const br_tensor *p, int i)
{
    if (kind->is_counter(i))
        return br_zeros(BR_SCALAR, BR_I64);
    double value = kind->initial ? kind->initial(options, i) : 0;
    return br_full(p->ndim, p->sizes, value, p->dtype);
}

bool br__slot_prepare(const br_optim *optim, br_slot *slot)
{
    const br_optim_kind *kind = optim->kind;
    const br_optim_options *options = &optim->groups[slot->group].options;
    br_scope *scope = br_scope_begin();
    for (int i = 0; i < kind->n_states && scope; i++)
        if (!slot->state[i] && kind->has_state(options, i))
            slot->state[i] = br_retain(make_state(kind, options, slot->param, i));
    br_scope_end(scope);
    return !br_failed();
}

/* State of another dtype than its parameter was made before br_module_to(). */
static bool state_fits(const br_optim *optim, const br_slot *slot)
{
    for (int i = 0; i < optim->kind->n_states; i++) {
        const br_tensor *state = slot->state[i];
        if (!state || optim->kind->is_counter(i) || state->dtype == slot->param->dtype)
            continue;
        br__fail(BR_ERROR_DTYPE, "optim_step", "%s is %s, but its %s is %s: make a new optimizer",
                 slot->name, br_dtype_name(slot->param->dtype), optim->kind->state_names[i],
                 br_dtype_name(state->dtype));
        return false;
    }
    return true;
}

/* ---- The step -------------------------------------------------------------------------------- */

/* t itself, or a copy without gaps in the innermost scope. */
static br_tensor *dense(br_tensor *t)
{
    if (t->contiguous)
        return t;
    br_tensor *copy = br__new("optim_step", t->ndim, t->sizes, t->dtype);
    if (copy)
        br__copy(copy, t);
    return copy;
}

static bool good_gradient(const br_slot *slot, const br_tensor *grad)
{
    if (br_same_shape(grad, slot->param) && grad->dtype == slot->param->dtype)
        return true;
    br__fail(BR_ERROR_SHAPE, "optim_step", "the gradient of %s is %s %s, the parameter %s %s",
             slot->name, br__shape(grad), br_dtype_name(grad->dtype), br__shape(slot->param),
             br_dtype_name(slot->param->dtype));
    return false;
}

static bool add_job(br_optim *optim, br_slot *slot, int64_t n)
{
    br_tensor *grad = br_grad_of(slot->param);
    if (!good_gradient(slot, grad) || !state_fits(optim, slot) || !br__slot_prepare(optim, slot))
        return false;
    br_job *job = &optim->jobs[n];
    *job = (br_job){ .slot = slot,
                     .kernels = br__kernels(slot->param->dtype == BR_F64),
                     .param = dense(slot->param),
                     .grad = dense(grad) };
    if (!job->param || !job->grad)
        return false;
    optim->spans[n].numel = slot->param->numel;
    return optim->kind->prepare(job, &optim->groups[slot->group].options);
}

static void run_piece(void *context, int64_t piece, int64_t item, int64_t from, int64_t count)
{
    const br_optim *optim = context;
    (void)piece;
    optim->kind->update(&optim->jobs[item], from, count);
}

/* Bytes that the update of a parameter walks: all it has is read, and all but the gradient
 * written. */
static int64_t traffic(const br_optim *optim, const br_job *job)
{
    int64_t arrays = 3, numel = job->slot->param->numel;
    for (int i = 0; i < optim->kind->n_states; i++)
        arrays += job->slot->state[i] && !optim->kind->is_counter(i) ? 2 : 0;
    return arrays * numel * (int64_t)br_dtype_size(job->slot->param->dtype);
}

static void finish_job(const br_optim *optim, br_job *job)
{
    br_tensor *param = job->slot->param;
    if (job->param != param)
        br__copy(param, job->param);
    param->storage->writer = "optim_step";
    br_bump_version(param);
    job->slot->stepped = true;
    optim->kind->finish(job);
}

bool br_optim_step(br_optim *optim)
{
    if (!br__required("optim_step", "optim", optim))
        return false;
    BR_EVENT(br__event_optimizer(optim->kind->name));
    br_scope *scope = br_scope_begin();
    int64_t n = 0;
    bool ok = scope != NULL;
    for (int64_t i = 0; ok && i < optim->n_slots; i++)
        if (br_grad_of(optim->slots[i].param))
            ok = add_job(optim, &optim->slots[i], n++);
    if (ok) {
        br__lay_out(n, optim->spans);
        br__over_spans(n, optim->spans, run_piece, optim);
        for (int64_t i = 0; i < n; i++) {
            BR_WORK(0, traffic(optim, &optim->jobs[i]));
            finish_job(optim, &optim->jobs[i]);
        }
    }
    br_scope_end(scope);
    return ok;
}

void br_optim_zero_grad(br_optim *optim)
{
    BR_EVENT(br__event_optimizer("zero_grad"));
    for (int64_t i = 0; optim && i < optim->n_slots; i++)
        br_set_grad(optim->slots[i].param, NULL);
}
