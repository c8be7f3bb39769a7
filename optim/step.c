/* optim/step.c - the step of all optimizers.
 *
 * The first half checks every gradient, creates missing state and prepares each parameter's update.
 * It can fail, and changes no parameter, unless a kind's `step` does so in place. The second half
 * updates all parameters and cannot fail: the backend makes all updates in one call, or the new
 * values that a kind's `step` computed are copied. */
#include "ops/pointwise/widen.h"
#include "optim/optim_internal.h"

#include <math.h>

br_tensor *br__dense_copy(const char *op, const br_tensor *t)
{
    br_tensor *copy = br__new_like(op, t, t->dtype);
    if (copy)
        br__copy(copy, t);
    return copy;
}

/* Returns t, or a contiguous copy in the innermost scope. */
static br_tensor *dense(br_tensor *t)
{
    return t->contiguous ? t : br__dense_copy("optim_step", t);
}

/* ---- State ----------------------------------------------------------------------------------- */

br_tensor *br_optim_counter(br_tensor *param, const void *options)
{
    (void)param;
    (void)options;
    return br__zeros_on_host("optim_counter", BR_SCALAR, BR_I64);
}

static br_tensor *make_master(br_tensor *param, const void *options)
{
    (void)options;
    return br__is_half(param) ? br_to(param, br__computed(param->dtype)) : NULL;
}

/* Returns the f32 copy of the slot's parameter, or NULL if it has none. */
static br_tensor *master_of(const br_optim *optim, const br_slot *slot)
{
    return optim->half_update == BR_HALF_MASTER ? slot->state[optim->n_states - 1] : NULL;
}

static br_tensor *make_state(const br_optim *optim, const br_slot *slot, int i)
{
    const br_optim_state *state = &optim->states[i];
    br_tensor *master = master_of(optim, slot);
    br_tensor *like = master && state->make != make_master ? master : slot->param;
    if (!state->make)
        return br_zeros_like(like);
    br_tensor *made = state->make(like, optim->groups[slot->group].options);
    /* Copy a tensor that is shared or not contiguous: the optimizer must own its state. */
    return !made || (made->contiguous && br__is_exclusive(made))
               ? made
               : br__dense_copy("optim_step", made);
}

bool br__slot_prepare(const br_optim *optim, br_slot *slot, bool *fresh)
{
    br_dtype dtype = slot->param->dtype;
    br_scope *scope = br_no_grad_begin();
    /* From the last to the first, since the other states have the dtype of the master. */
    for (int i = optim->n_states - 1; i >= 0 && scope && !br_failed(); i--) {
        if (slot->state[i])
            continue;
        slot->state[i] = br_retain(make_state(optim, slot, i));
        slot->state_dtype = dtype;
        slot->state_backend = br__backend_of(slot->param);
        fresh[i] = slot->state[i] != NULL;
    }
    br_scope_end(scope);
    return !br_failed();
}

void br__slot_drop(br_slot *slot, const bool *fresh)
{
    for (int i = 0; i < BR_OPTIM_MAX_STATES; i++) {
        if (!fresh[i])
            continue;
        br_release(slot->state[i]);
        slot->state[i] = NULL;
    }
}

bool br__slot_needs(const br_optim *optim, const br_slot *slot, int i)
{
    br_scope *scope = br_no_grad_begin();
    bool needed = scope && make_state(optim, slot, i);
    br_scope_end(scope);
    return needed;
}

/* Returns false and sets an error if the state was created before br_module_to() changed the
 * parameter's dtype, or br_module_to_device() its device. */
static bool state_fits(const br_optim *optim, const br_slot *slot)
{
    br_dtype dtype = slot->param->dtype;
    const br_backend *backend = br__backend_of(slot->param);
    if (!slot->stepped || optim->n_states == 0 ||
        (slot->state_dtype == dtype && slot->state_backend == backend))
        return true;
    if (slot->state_backend != backend) {
        br_fail(BR_ERROR_STATE, "optim_step",
                "%s is on %s, but its state was created when it was on %s: create a new optimizer "
                "and load the state",
                slot->name, backend->name, slot->state_backend->name);
        return false;
    }
    br_fail(BR_ERROR_DTYPE, "optim_step",
            "%s is %s, but its state was created when it was %s: create a new optimizer",
            slot->name, br_dtype_name(dtype), br_dtype_name(slot->state_dtype));
    return false;
}

/* ---- Parameters of bf16 and f16 -------------------------------------------------------------- */

static const br_optim_state master_state = { "master", make_master };

bool br_optim_set_half_update(br_optim *optim, br_half_update how)
{
    const char *op = "optim_set_half_update";
    if (!br__required(op, "optim", optim))
        return false;
    const br_optim_kind *kind = optim->kind;
    const bool was_master = optim->half_update == BR_HALF_MASTER;
    const int kinds_states = optim->n_states - was_master;
    for (int64_t i = 0; i < optim->n_slots; i++)
        if (optim->slots[i].stepped && how != optim->half_update)
            return br_fail(BR_ERROR_STATE, op,
                           "%s has a state already: call this function before the first step, and "
                           "before the state is loaded",
                           optim->slots[i].name);
    if (how < BR_HALF_NEAREST || how > BR_HALF_STOCHASTIC)
        br_fail(BR_ERROR_ARGUMENT, op, "how is %d, must be one of br_half_update", (int)how);
    else if (how != BR_HALF_NEAREST && kind->minimize)
        br_fail(BR_ERROR_ARGUMENT, op, "%s rounds to the nearest only: use BR_HALF_NEAREST",
                kind->name);
    else if (how == BR_HALF_STOCHASTIC && !kind->describe)
        br_fail(BR_ERROR_ARGUMENT, op,
                "%s is a program's kind, which rounds its results itself: use BR_HALF_MASTER",
                kind->name);
    else if (how == BR_HALF_MASTER && kinds_states == BR_OPTIM_MAX_STATES)
        br_fail(BR_ERROR_ARGUMENT, op, "%s has %d states: there is no room for the f32 copies",
                kind->name, kinds_states);
    if (br_failed())
        return false;
    optim->n_states = kinds_states + (how == BR_HALF_MASTER);
    if (how == BR_HALF_MASTER)
        optim->states[kinds_states] = master_state;
    optim->half_update = how;
    return true;
}

br_half_update br_optim_get_half_update(const br_optim *optim)
{
    return br__required("optim_get_half_update", "optim", optim) ? optim->half_update
                                                                 : BR_HALF_NEAREST;
}

/* If the program has changed the parameter since the last step, gives the master the changed
 * elements: those that are no longer the rounded element of the master. */
static bool follow_parameter(const br_optim *optim, br_slot *slot)
{
    br_tensor *master = master_of(optim, slot), *param = slot->param;
    if (!master || !slot->stepped || slot->version == br_tensor_version(param))
        return true;
    br_scope *scope = br_no_grad_begin();
    br_tensor *same = br_eq(br_to(master, param->dtype), param);
    br_tensor *now = br_where(same, master, br_to(param, master->dtype));
    if (!br_failed())
        br__copy(master, now);
    br_scope_end(scope);
    return !br_failed();
}

/* Returns the gradient as the update reads it. The library's own updates of elements convert it
 * themselves, block by block. */
static br_tensor *gradient_for(const br_optim *optim, const br_tensor *param, br_tensor *grad)
{
    const br_optim_kind *kind = optim->kind;
    br_tensor *read = kind->describe && kind->elementwise ? grad : br_to(grad, param->dtype);
    return read ? dense(read) : NULL;
}

/* ---- First half: may fail -------------------------------------------------------------------- */

static bool good_gradient(const br_slot *slot, const br_tensor *grad)
{
    if (br__same_shape(grad, slot->param) && grad->dtype == slot->param->dtype)
        return true;
    br_fail(BR_ERROR_SHAPE, "optim_step", "the gradient of %s is %s %s, but the parameter is %s %s",
            slot->name, br__shape(grad), br_dtype_name(grad->dtype), br__shape(slot->param),
            br_dtype_name(slot->param->dtype));
    return false;
}

/* Returns true if writing to the job's tensors would change t. */
static bool will_be_overwritten(const br_optim *optim, const br_optim_work *work,
                                const br_tensor *t)
{
    bool found = t->storage == work->param->storage;
    for (int i = 0; i < optim->n_states; i++)
        found |= work->state[i] && t->storage == work->state[i]->storage;
    return found;
}

/* Checks a new value and moves it from the scope of `step` to the outer one. */
static bool return_state(const br_optim *optim, const br_optim_work *work, br_scope *scope,
                         const char *what, const br_tensor *old, br_tensor **now)
{
    br_tensor *t = *now;
    if (!t || t == old)
        return true;
    if (!old || !br__same_shape(t, old) || t->dtype != old->dtype) {
        br_fail(BR_ERROR_SHAPE, optim->kind->name,
                old ? "the new %s of %s is %s %s, must be %s %s"
                    : "the new %s of %s is %s %s, but these options keep no such state",
                what, work->name, br__shape(t), br_dtype_name(t->dtype), old ? br__shape(old) : "",
                old ? br_dtype_name(old->dtype) : "");
        return false;
    }
    if (will_be_overwritten(optim, work, t))
        t = br__dense_copy("optim_step", t);
    *now = t ? br_scope_return(scope, t) : NULL;
    return *now != NULL;
}

/* Reports a function of the kind that returned false without setting an error. */
static bool silent_failure(const br_optim *optim, const br_optim_work *work, const char *function)
{
    if (!br_failed())
        br_fail(BR_ERROR_STATE, optim->kind->name,
                "%s for %s returned false without setting an error", function, work->name);
    return false;
}

/* Runs the kind's `step` in a scope of its own, and keeps only the new values. */
static bool run_step(const br_optim *optim, br_optim_work *work)
{
    br_scope *scope = br_no_grad_begin();
    bool ok = scope != NULL;
    if (ok && (!optim->kind->step(work) || br_failed()))
        ok = silent_failure(optim, work, "step");
    ok = ok && return_state(optim, work, scope, "value", work->param, &work->new_param);
    for (int i = 0; ok && i < optim->n_states; i++)
        ok = return_state(optim, work, scope, optim->states[i].name, work->state[i],
                          &work->new_state[i]);
    br_scope_end(scope);
    return ok;
}

/* Describes the update of a kind that the program defines by a function over elements. */
static bool describe_host(const br_optim *optim, br_optim_work *work, br_update *update)
{
    const br_optim_kind *kind = optim->kind;
    const br_backend *backend = br__backend_of(work->param);
    if (!backend->has_update(BR_UPDATE_HOST)) {
        br_fail(BR_ERROR_STATE, kind->name,
                "%s is on %s, but `update` works on elements in the host's memory: define `step` "
                "instead",
                work->name, backend->name);
        return false;
    }
    if (kind->prepare && (!kind->prepare(work) || br_failed()))
        return silent_failure(optim, work, "prepare");
    update->rule = BR_UPDATE_HOST;
    update->args.host = (br_host_args){ kind->update, work };
    return true;
}

/* Describes the update of a kind without `step`. */
static bool describe(const br_optim *optim, br_optim_work *work, br_update *update)
{
    const br_optim_kind *kind = optim->kind;
    *update = (br_update){ .param = work->param, .grad = work->grad };
    if (!kind->describe)
        return describe_host(optim, work, update);
    return BR_BACKEND(kind->name, work->param, update) && kind->describe(work, update);
}

static bool add_task(br_optim *optim, br_slot *slot, int64_t n)
{
    br_tensor *grad = br_grad_of(slot->param);
    br_task *task = &optim->tasks[n];
    br_optim_work *work = &task->work;
    *task = (br_task){ .slot = slot };
    if (!good_gradient(slot, grad) || !state_fits(optim, slot) ||
        !br__slot_prepare(optim, slot, work->fresh) || !follow_parameter(optim, slot))
        return false;
    br_tensor *master = master_of(optim, slot);
    work->name = slot->name;
    work->options = optim->groups[slot->group].options;
    work->param = master ? master : dense(slot->param);
    work->grad = gradient_for(optim, work->param, grad);
    work->state = slot->state;
    work->first = !slot->stepped;
    work->args = optim->args ? optim->args + (size_t)n * optim->args_stride : NULL;
    if (!work->param || !work->grad)
        return false;
    if (optim->kind->step)
        return run_step(optim, work);
    br_update *update = &optim->updates[n];
    if (!describe(optim, work, update))
        return false;
    update->stochastic = optim->half_update == BR_HALF_STOCHASTIC;
    update->seed = optim->seed + (uint64_t)n;
    return true;
}

/* ---- Second half: cannot fail ---------------------------------------------------------------- */

static int64_t bytes_of(const br_tensor *t)
{
    return t ? t->numel * (int64_t)br_dtype_size(t->dtype) : 0;
}

/* Returns the number of bytes that a parameter's update reads and writes: everything is read, and
 * everything except the gradient is written. Counters are not included. */
static int64_t traffic(const br_optim *optim, const br_optim_work *work)
{
    int64_t bytes = 3 * bytes_of(work->param);
    for (int i = 0; i < optim->n_states; i++)
        if (work->state[i] && br__same_shape(work->state[i], work->param))
            bytes += 2 * bytes_of(work->state[i]);
    return bytes;
}

static void apply_new(br_tensor *t, const br_tensor *now)
{
    if (!now || now == t)
        return;
    BR_WORK(0, 2 * bytes_of(t));
    br__copy(t, now);
}

static void finish_task(const br_optim *optim, br_task *task)
{
    br_tensor *param = task->slot->param;
    br_optim_work *work = &task->work;
    if (!optim->kind->step)
        BR_WORK(0, traffic(optim, work));
    apply_new(work->param, work->new_param);
    for (int i = 0; i < optim->n_states; i++)
        apply_new(work->state[i], work->new_state[i]);
    if (work->param != param)
        br__copy(param, work->param);
    br__changed_by(param, "optim_step");
    task->slot->version = br_tensor_version(param);
    task->slot->stepped = true;
    if (optim->kind->finish)
        optim->kind->finish(work);
}

/* Counts the consecutive steps that each found more tensors than the step before. */
static void count_growth(br_growth *growth, size_t tensors, bool counts)
{
    bool grows = counts && tensors > growth->tensors;
    growth->steps = grows ? growth->steps + 1 : 0;
    growth->tensors = tensors;
    if (!grows)
        growth->start_tensors = tensors;
}

/* Returns true if `steps` steps have left this many tensors, and at least two a step: a program may
 * keep one a step on purpose, such as the loss. */
static bool has_grown(const br_growth *growth, int steps, size_t tensors)
{
    size_t left = growth->tensors - growth->start_tensors;
    return growth->steps >= steps && left >= tensors && left >= 2 * (size_t)growth->steps;
}

/* Warns, once per process, about a training loop whose steps do not free their tensors.
 *
 * A loop without a scope makes all its steps in one scope, which 20 steps show. If each step has a
 * scope of its own, the tensors that it leaves in the outer scope may be kept on purpose, so only
 * many of them cause a warning. */
static void watch_growth(br_optim *optim)
{
    enum { SAME_STEPS = 20, STEPS = 100, TENSORS = 1000 };
    static atomic_flag warned = ATOMIC_FLAG_INIT;
    uint64_t scope = br__thread.scope ? br__thread.scope->serial : 0;
    size_t tensors = br__thread.top;
    br_growth *same = &optim->growth_in_scope, *any = &optim->growth;
    count_growth(same, tensors, scope == optim->last_scope);
    count_growth(any, tensors, true);
    optim->last_scope = scope;
    bool forgotten = has_grown(same, SAME_STEPS, 0);
    const br_growth *growth = forgotten ? same : any;
    if ((forgotten || has_grown(any, STEPS, TENSORS)) && !atomic_flag_test_and_set(&warned))
        br_raise(BR_WARNING,
                 "optim_step: the last %d steps left %zu tensors that no scope has freed: open a "
                 "scope with br_scope_begin() before each step's forward pass, and close it with "
                 "br_scope_end() after the step",
                 growth->steps, growth->tensors - growth->start_tensors);
}

/* Returns false and an error if the optimizer has no parameters. */
static bool can_step(const char *op, const br_optim *optim)
{
    if (!br__required(op, "optim", optim))
        return false;
    if (optim->n_groups == 0)
        br_fail(BR_ERROR_STATE, op,
                "the %s optimizer has no parameters: add them with br_optim_add_group()",
                optim->kind->name);
    return !br_failed();
}

bool br_optim_step(br_optim *optim)
{
    if (!can_step("optim_step", optim))
        return false;
    if (optim->kind->minimize)
        return br_fail(BR_ERROR_STATE, "optim_step",
                       "%s computes the loss several times in a step: call "
                       "br_optim_step_closure()",
                       optim->kind->name);
    watch_growth(optim);
    BR_EVENT(br__thread.events->optimizer(optim->kind->name));
    if (optim->half_update == BR_HALF_STOCHASTIC)
        optim->seed = br_random_u64();
    br_scope *scope = br_scope_begin();
    int64_t n = 0;
    bool ok = scope != NULL;
    for (int64_t i = 0; ok && i < optim->n_slots; i++)
        if (br_grad_of(optim->slots[i].param))
            ok = add_task(optim, &optim->slots[i], n++);
    if (ok && !optim->kind->step)
        br__update(n, optim->updates, optim->spans);
    for (int64_t i = 0; i < n; i++) {
        br_task *task = &optim->tasks[i];
        if (ok)
            finish_task(optim, task);
        else
            br__slot_drop(task->slot, task->work.fresh);
    }
    br_scope_end(scope);
    return ok;
}

double br_optim_step_closure(br_optim *optim, br_closure closure, void *context)
{
    const char *op = "optim_step_closure";
    if (can_step(op, optim) && !closure)
        br_fail(BR_ERROR_ARGUMENT, op, "closure is NULL, but it is required");
    if (br_failed())
        return NAN;
    double loss = NAN;
    if (optim->kind->minimize) {
        watch_growth(optim);
        BR_EVENT(br__thread.events->optimizer(optim->kind->name));
        loss = optim->kind->minimize(optim, closure, context);
    } else {
        br_scope *scope = br_enable_grad_begin();
        loss = br_failed() ? NAN : closure(context);
        br_scope_end(scope);
        br_optim_step(optim);
    }
    return br_failed() ? NAN : loss;
}

void br_optim_zero_grad(br_optim *optim)
{
    BR_EVENT(br__thread.events->optimizer("zero_grad"));
    if (!BR_LIVE("optim_zero_grad", optim))
        return;
    for (int64_t i = 0; i < optim->n_slots; i++)
        br_set_grad(optim->slots[i].param, NULL);
}
