/* tests/fuzz/api_optim.c - actions of the fuzz target api: optimizers, schedulers, averages of
 * weights and clipping. */
#include "tests/fuzz/api.h"

#include <math.h>

enum { OPTIMS = 3, SCHEDULERS = 4 };
static br_optim *optims[OPTIMS];
static struct {
    br_scheduler *scheduler;
    br_optim *optim; /* must outlive the scheduler */
} scheduled[SCHEDULERS];
static br_averaged_model *averaged;

#define ON(i) (a->on[i])
#define N(i)  (a->n[i])
#define X(i)  (a->x[i])

static br_optim **place(uint8_t which)
{
    return &optims[which % OPTIMS];
}

static br_optim *optim_of(const api_args *a)
{
    return *place(a->which[0]);
}

/* Returns the module's parameters whose names match, or NULL. The caller frees the list. */
static br_named_list *some_parameters(const api_args *a)
{
    const char *glob = api_glob(a->which[2]);
    br_named_list *all = br_parameters(api_module(a));
    br_named_list *some = br_named_list_filter(all, 1, &glob, ON(3));
    br_named_list_free(all);
    return some;
}

/* ---- Optimizers ------------------------------------------------------------------------------ */

static br_optim *new_adam(const api_args *a, const br_named_list *list)
{
    return br_adam_new(list, BR_OPTIONS(br_adam, .lr = X(0), .weight_decay = X(1), .amsgrad = ON(0),
                                        .maximize = ON(1)));
}

static br_optim *new_adamw(const api_args *a, const br_named_list *list)
{
    return br_adamw_new(list, BR_OPTIONS(br_adamw, .lr = X(0), .beta1 = X(1), .amsgrad = ON(0)));
}

static br_optim *new_sgd(const api_args *a, const br_named_list *list)
{
    return br_sgd_new(list, BR_OPTIONS(br_sgd, .lr = X(0), .momentum = X(1), .nesterov = ON(0),
                                       .maximize = ON(1)));
}

static br_optim *new_rmsprop(const api_args *a, const br_named_list *list)
{
    return br_rmsprop_new(list,
                          BR_OPTIONS(br_rmsprop, .lr = X(0), .momentum = X(1), .centered = ON(0)));
}

static br_optim *new_adagrad(const api_args *a, const br_named_list *list)
{
    return br_adagrad_new(list, BR_OPTIONS(br_adagrad, .lr = X(0), .lr_decay = X(1)));
}

static br_optim *new_muon(const api_args *a, const br_named_list *list)
{
    return br_muon_new(list, BR_OPTIONS(br_muon, .lr = X(0), .momentum = X(1), .ns_steps = N(0),
                                        .adjust_lr = (br_muon_adjust)(a->which[1] % 4)));
}

static br_optim *(*const kinds[])(const api_args *a, const br_named_list *list) = {
    new_adam, new_adamw, new_sgd, new_rmsprop, new_adagrad, new_muon,
};

/* Frees the optimizer there, after its schedulers. */
static void free_at(br_optim **at)
{
    for (int i = 0; i < SCHEDULERS; i++)
        if (*at && scheduled[i].optim == *at) {
            br_scheduler_free(scheduled[i].scheduler);
            scheduled[i].scheduler = NULL;
        }
    br_optim_free(*at);
    *at = NULL;
}

/* Without parameters, the optimizer waits for groups. */
static void make(const api_args *a)
{
    br_named_list *list = ON(2) && ON(3) ? NULL : some_parameters(a);
    br_clear_error();
    free_at(place(a->which[0]));
    *place(a->which[0]) = API_CHOOSE(kinds, a->which[1])(a, list);
    api_answer(optim_of(a) != NULL);
    br_named_list_free(list);
}

static void make_for_module(const api_args *a)
{
    free_at(place(a->which[0]));
    *place(a->which[0]) = ON(0) ? br_adamw(api_module(a), NULL) : br_sgd(api_module(a), NULL);
    api_answer(optim_of(a) != NULL);
}

static void free_optim(const api_args *a)
{
    free_at(place(a->which[0]));
}

static void add_group(const api_args *a)
{
    br_optim *optim = *place(a->which[1]);
    br_named_list *list = some_parameters(a);
    br_clear_error();
    const void *options = ON(0) && optim ? br_optim_group_options(optim, -1) : NULL;
    api_answer(br_optim_add_group(optim, list, options) >= 0);
    br_named_list_free(list);
}

static void step(const api_args *a)
{
    api_answer(br_optim_step(optim_of(a)));
}

static void zero_grad(const api_args *a)
{
    br_optim_zero_grad(optim_of(a));
}

static void set_lr(const api_args *a)
{
    br_optim_set_lr(optim_of(a), (int)N(0) - 1, X(0));
    br_clear_error();
    api_answer(!isnan(br_optim_get_lr(optim_of(a), (int)N(1) - 1)) || isnan(X(0)));
}

static void copy_options(const api_args *a)
{
    const void *options = br_optim_group_options(optim_of(a), (int)N(0) - 1);
    if (options)
        api_answer(br_optim_set_group_options(optim_of(a), (int)N(1) - 1, options));
}

static void list_group(const api_args *a)
{
    br_named_list *list = br_optim_group_parameters(optim_of(a), (int)N(0) - 1);
    api_answer(list != NULL);
    if (list && list->count > 0)
        api_result(list->items[a->which[2] % list->count].tensor);
    br_named_list_free(list);
}

/* Loads into the same optimizer or into another one, of any kind. */
static void load_state(const api_args *a)
{
    br_named_list *state = br_optim_state_dict(*place(a->which[1]));
    if (state && state->count > 0 && ON(0))
        api_result(state->items[a->which[2] % state->count].tensor);
    api_answer(br_optim_load_state_dict(optim_of(a), state));
    br_named_list_free(state);
}

/* ---- Clipping -------------------------------------------------------------------------------- */

static void clip(const api_args *a)
{
    br_named_list *list = some_parameters(a);
    br_clear_error();
    if (ON(0))
        api_answer(br_clip_grad_value_(list, X(0)));
    else
        api_answer(!(br_clip_grad_norm_(list, X(0), X(1), ON(1)) < 0));
    br_named_list_free(list);
}

static void clip_module(const api_args *a)
{
    br_module *module = api_module(a);
    if (ON(0))
        api_answer(br_module_clip_grad_value_(module, X(0)));
    else
        api_answer(!(br_module_clip_grad_norm_(module, X(0), 2, ON(1)) < 0));
}

static void total_norm(const api_args *a)
{
    api_answer(!(br_get_total_norm(2, a->t, X(0), ON(0)) < 0));
}

/* ---- Schedulers ------------------------------------------------------------------------------ */

static double halve(int64_t epoch, int group, void *context)
{
    (void)context;
    return ldexp(1, -(int)(epoch % 8) - group);
}

static br_scheduler *new_scheduler(br_optim *optim, const api_args *a)
{
    switch (a->which[2] % 10) {
    case 0:
        return br_step_lr(optim, N(0), X(0));
    case 1:
        return br_multi_step_lr(optim, 2, a->n, X(0));
    case 2:
        return br_exponential_lr(optim, X(0));
    case 3:
        return br_constant_lr(optim, X(0), N(0));
    case 4:
        return br_linear_lr(optim, X(0), X(1), N(0));
    case 5:
        return br_cosine_annealing_lr(optim, N(0), X(0));
    case 6:
        return br_cosine_annealing_warm_restarts(optim, N(0), N(1), X(0));
    case 7:
        return br_lambda_lr(optim, ON(0) ? NULL : halve, NULL);
    case 8:
        return br_one_cycle_lr(optim, BR_OPTIONS(br_one_cycle, .max_lr = X(0), .total_steps = N(0),
                                                 .pct_start = X(1), .three_phase = ON(0),
                                                 .cycle_momentum = ON(1), .linear = ON(2)));
    default:
        return br_reduce_lr_on_plateau(
            optim, BR_OPTIONS(br_plateau, .patience = N(0), .cooldown = N(1), .factor = X(0),
                              .mode = ON(0) ? BR_PLATEAU_MAX : BR_PLATEAU_MIN));
    }
}

static void keep_scheduler(const api_args *a, br_scheduler *made)
{
    int at = a->which[1] % SCHEDULERS;
    br_scheduler_free(scheduled[at].scheduler);
    scheduled[at].scheduler = made;
    scheduled[at].optim = optim_of(a);
}

static void schedule(const api_args *a)
{
    br_scheduler *made = new_scheduler(optim_of(a), a);
    api_answer(made != NULL);
    keep_scheduler(a, made);
}

/* A sequence of one kind; the sequence takes ownership, even if it is not made. */
static void schedule_sequence(const api_args *a)
{
    br_scheduler *parts[] = { new_scheduler(optim_of(a), a), new_scheduler(optim_of(a), a) };
    br_clear_error();
    br_scheduler *made = br_sequential_lr(optim_of(a), 2, parts, a->n + 2);
    api_answer(made != NULL);
    keep_scheduler(a, made);
}

static br_scheduler *scheduler_of(uint8_t which)
{
    return scheduled[which % SCHEDULERS].scheduler;
}

static void step_scheduler(const api_args *a)
{
    br_scheduler *scheduler = scheduler_of(a->which[0]);
    api_answer(ON(0) ? br_scheduler_step_metric(scheduler, X(0)) : br_scheduler_step(scheduler));
    br_clear_error();
    br_scheduler_last_lr(scheduler, (int)N(0) - 1);
    br_clear_error();
    br_scheduler_last_epoch(scheduler);
}

static void load_scheduler(const api_args *a)
{
    br_named_list *state = br_scheduler_state_dict(scheduler_of(a->which[0]));
    api_answer(br_scheduler_load_state_dict(scheduler_of(a->which[1]), state));
    br_named_list_free(state);
}

static void free_scheduler(const api_args *a)
{
    int at = a->which[0] % SCHEDULERS;
    br_scheduler_free(scheduled[at].scheduler);
    scheduled[at].scheduler = NULL;
}

/* ---- Averages -------------------------------------------------------------------------------- */

static void average(const api_args *a)
{
    br_averaged_model_free(averaged);
    averaged = br_averaged_model_new(api_module(a), X(0));
    api_answer(averaged != NULL);
}

static void update_average(const api_args *a)
{
    if (!averaged)
        return;
    api_answer(br_averaged_model_update(averaged));
    if (ON(0))
        api_answer(
            br_load_state_dict(api_module(a), br_averaged_model_parameters(averaged), ON(1), NULL));
}

static void load_average(const api_args *a)
{
    if (!averaged)
        return;
    br_named_list *state = br_averaged_model_state_dict(averaged);
    br_averaged_model *other = br_averaged_model_new(api_module(a), X(0));
    br_clear_error();
    api_answer(br_averaged_model_load_state_dict(ON(0) ? other : averaged, state));
    br_named_list_free(state);
    br_averaged_model_free(other);
}

static const api_action actions[] = {
    make,           make_for_module,
    free_optim,     add_group,
    step,           step,
    zero_grad,      set_lr,
    copy_options,   list_group,
    load_state,     clip,
    clip_module,    total_norm,
    schedule,       schedule_sequence,
    step_scheduler, load_scheduler,
    free_scheduler, average,
    update_average, load_average,
};

static void free_all(void)
{
    for (int i = 0; i < OPTIMS; i++)
        free_at(&optims[i]);
    br_averaged_model_free(averaged);
    averaged = NULL;
}

const api_part api_optim = { actions, API_COUNT(actions), free_all };
