/* tests/distributed/test_sharded_errors.c - errors of sharded optimizers: all ranks fail, and can
 * go on. */
#include "tests/distributed/test.h"

#include <math.h>
#include <stdio.h>

/* A module, its optimizer, and both over all ranks. */
typedef struct setup {
    br_linear *model;
    br_data_parallel *parallel;
    br_optim *optim;
    br_sharded_optim *sharded;
} setup;

static setup begin_on(br_dist_group *group, bool scatter)
{
    br_manual_seed(1);
    setup s = { .model = br_linear_new(30, 40, true) };
    s.parallel = br_data_parallel_new(
        br_base(s.model), BR_OPTIONS(br_data_parallel, .group = group, .scatter = scatter));
    s.optim = br_adam(br_base(s.model), NULL);
    s.sharded = br_sharded_optim_new(s.parallel, s.optim);
    check(s.sharded != NULL);
    return s;
}

static setup begin(bool scatter)
{
    return begin_on(NULL, scatter);
}

static void end(setup *s)
{
    br_sharded_optim_free(s->sharded);
    br_optim_free(s->optim);
    br_data_parallel_free(s->parallel);
    br_module_free(s->model);
}

static void pass(const setup *s, double x)
{
    br_scope *scope = br_scope_begin();
    br_tensor *y = br_linear_forward(s->model, br_full(BR_SHAPE(1, 30), x, BR_F32));
    check(br_backward(br_sum(y)));
    br_scope_end(scope);
}

void test_sharded_arguments(void)
{
    setup s = begin(false);
    br_named_list *none = br_named_list_new();
    check_fails(br_sharded_optim_new(NULL, s.optim), "sharded_optim_new: parallel is NULL");
    check_fails(br_sharded_optim_new(s.parallel, NULL), "sharded_optim_new: optim is NULL");
    check_fails(br_sharded_optim_step(NULL), "sharded_optim_step: optim is NULL");
    check_fails(br_sharded_optim_state_dict(NULL, 0), "sharded_optim_state_dict: optim is NULL");
    check_fails(br_sharded_optim_state_dict(s.sharded, size), "destination is");
    check_fails(br_sharded_optim_state_dict(s.sharded, -1), "destination is -1, must be");
    check_fails(br_sharded_optim_load_state_dict(NULL, none), "optim is NULL");
    check_fails(br_sharded_optim_load_state_dict(s.sharded, NULL), "state is NULL");
    check_fails(br_data_parallel_clip_grad_norm_(NULL, 1, 2, true) >= 0, "parallel is NULL");
    check_fails(br_data_parallel_clip_grad_norm_(s.parallel, -1, 2, true) >= 0,
                "must not be negative");
    br_sharded_optim_free(NULL);
    br_sharded_optim_zero_grad(NULL);
    br_named_list_free(none);
    end(&s);
}

void test_parameters_of_sharded_optimizers(void)
{
    setup s = begin(false);
    br_linear *foreign = br_linear_new(2, 2, true);
    br_optim *optim = br_sgd(br_base(foreign), NULL), *matrix;
    check_fails(br_sharded_optim_new(s.parallel, optim),
                "weight is not a parameter of the data-parallel module");
    check_fails(br_sharded_optim_new(s.parallel, s.optim),
                "weight is already in a sharded optimizer");
    pass(&s, 1);
    check(br_sharded_optim_step(s.sharded));
    br_sharded_optim_free(s.sharded);
    br_named_list *list = br_named_list_new();
    br_named_list_add(list, "weight", s.model->weight);
    matrix = br_muon_new(list, NULL);
    br_named_list_free(list);
    if (size == 1)
        s.sharded = br_sharded_optim_new(s.parallel, matrix);
    else
        check_fails(br_sharded_optim_new(s.parallel, matrix),
                    "muon needs whole parameters, but weight is already split");
    s.sharded = size == 1 ? s.sharded : NULL;
    end(&s);
    br_optim_free(matrix);
    br_optim_free(optim);
    br_module_free(foreign);
}

/* Changes one tensor of a whole state, or adds one, and checks that loading fails everywhere. */
static void check_refused(setup *s, const br_named_list *state, const char *name, br_tensor *t,
                          const char *message)
{
    br_named_list *wrong = br_named_list_new();
    for (const br_named_tensor *i = NULL; (i = br_named_list_next(state, i));)
        if (strcmp(i->name, name) != 0)
            br_named_list_add(wrong, i->name, i->tensor);
    if (t)
        br_named_list_add(wrong, name, t);
    check_fails(br_sharded_optim_load_state_dict(s->sharded, wrong), message);
    br_named_list_free(wrong);
}

void test_states_that_do_not_match(void)
{
    setup s = begin(false);
    br_linear *other = br_linear_new(30, 40, true);
    br_optim *whole = br_adam(br_base(other), BR_OPTIONS(br_adam, .lr = 0.25));
    br_set_grad(other->weight, br_ones_like(other->weight));
    br_set_grad(other->bias, br_ones_like(other->bias));
    check(br_optim_step(whole));
    br_named_list *state = br_optim_state_dict(whole);
    pass(&s, 1);
    check(br_sharded_optim_step(s.sharded));
    br_named_list *before = br_sharded_optim_state_dict(s.sharded, 0);
    check_refused(&s, state, "weight.other", br_ones(BR_SHAPE(40, 30), BR_F32),
                  "adam has no state named weight.other");
    check_refused(&s, state, "weight.exp_avg", br_ones(BR_SHAPE(30, 40), BR_F32),
                  size > 1 ? "weight.exp_avg is [30, 40], but the parameter is [40, 30]"
                           : "weight.exp_avg is [30, 40] f32, must be");
    check_refused(&s, state, "weight.exp_avg", br_ones(BR_SHAPE(40, 30), BR_F64), "f64, must be");
    check_refused(&s, state, "bias.exp_avg", br_ones(BR_SHAPE(41), BR_F32), "bias.exp_avg is [41]");
    check_refused(&s, state, "weight.step", br_scalar(-1, BR_I64), "not negative");
    check_refused(&s, state, "weight.exp_avg_sq", NULL, "weight.exp_avg_sq is missing");
    if (size > 1) /* one rank alone has a wrong state */
        check_refused(&s, state, rank == 1 ? "bias.what" : "none",
                      rank == 1 ? br_ones(BR_SHAPE(40), BR_F32) : br_scalar(0, BR_F32),
                      "has no state");
    br_named_list *after = br_sharded_optim_state_dict(s.sharded, 0);
    for (int64_t i = 0; rank == 0 && before && after && i < before->count; i++)
        check(br_equal(before->items[i].tensor, after->items[i].tensor));
    check(br_sharded_optim_load_state_dict(s.sharded, state));
    check(br_optim_get_lr(s.optim, 0) == 0.25);
    br_named_list *now = br_sharded_optim_state_dict(s.sharded, size - 1);
    for (int64_t i = 0; now && i < now->count; i++)
        check(br_equal(now->items[i].tensor, state->items[i].tensor));
    check(rank < size - 1 || now->count == state->count);
    br_named_list_free(now);
    br_named_list_free(after);
    br_named_list_free(before);
    br_named_list_free(state);
    br_optim_free(whole);
    br_module_free(other);
    end(&s);
}

/* A kind that is marked elementwise, but keeps three elements for each parameter. */
static br_tensor *make_three(br_tensor *param, const void *options)
{
    (void)param;
    (void)options;
    return br_zeros(BR_SHAPE(3), BR_F32);
}

static void update_nothing(const br_optim_work *work, int64_t from, int64_t count)
{
    (void)work;
    (void)from;
    (void)count;
}

void test_kinds_that_are_not_elementwise(void)
{
    static const br_sgd_options defaults = { br_sgd_default_fields };
    static const br_optim_kind kind = { .name = "three",
                                        .defaults = &defaults,
                                        .states = { { "three", make_three } },
                                        .update = update_nothing,
                                        .elementwise = true };
    if (size == 1)
        return;
    setup s = begin(false);
    br_sharded_optim_free(s.sharded);
    br_optim *optim = br_optim_for(&kind, br_base(s.model), NULL);
    s.sharded = br_sharded_optim_new(s.parallel, optim);
    pass(&s, 1);
    check(br_sharded_optim_step(s.sharded));
    check_fails(br_sharded_optim_state_dict(s.sharded, 0),
                "weight.three has neither one element nor the parameter's shape");
    br_sharded_optim_free(s.sharded);
    s.sharded = NULL;
    end(&s);
    br_optim_free(optim);
}

void test_ranks_that_differ_in_a_step(void)
{
    if (size == 1)
        return;
    setup s = begin(false);
    char want[80];
    pass(&s, 1);
    if (rank == 1)
        br_set_grad(s.model->bias, NULL);
    check_fails(br_sharded_optim_step(s.sharded),
                "bias has a gradient on rank 0, but not on rank 1");
    br_sharded_optim_zero_grad(s.sharded);
    pass(&s, 1);
    if (rank == 1)
        br_raise(BR_ERROR_ARGUMENT, "a mistake");
    snprintf(want, sizeof want, rank == 1 ? "a mistake" : "rank 1 failed: a mistake");
    check_fails(br_sharded_optim_step(s.sharded), want);
    if (rank == 1)
        br_raise(BR_ERROR_ARGUMENT, "a mistake");
    check_fails(br_sharded_optim_state_dict(s.sharded, 0), want);
    if (rank == 1)
        check_fails(br_dist_barrier(NULL), "rank 1 called dist_barrier while rank 0 called "
                                           "sharded_optim_step");
    else
        check_fails(br_sharded_optim_step(s.sharded), "rank 1 called dist_barrier");
    check(br_sharded_optim_step(s.sharded)); /* the ranks are still in step */
    br_tensor *all = br_dist_all_gather(s.model->weight, NULL);
    for (int r = 1; all && r < size; r++)
        check(br_equal(br_select(all, 0, r), br_select(all, 0, 0)));
    end(&s);
}

/* Messages have the ranks among all ranks, not those in the group. */
void test_ranks_of_a_group_in_messages(void)
{
    if (size < 3)
        return;
    br_dist_group *later = br_dist_split(NULL, rank > 0, rank);
    setup s = begin_on(later, false);
    pass(&s, 1);
    if (rank == 2)
        br_set_grad(s.model->bias, NULL);
    if (rank > 0)
        check_fails(br_sharded_optim_step(s.sharded),
                    "bias has a gradient on rank 1, but not on rank 2");
    end(&s);
    br_dist_group_free(later);
}

void test_order_of_freeing(void)
{
    setup s = begin(false);
    pass(&s, 1);
    check(br_sharded_optim_step(s.sharded));
    br_data_parallel_free(s.parallel);
    s.parallel = NULL;
    check_fails(br_sharded_optim_step(s.sharded), "the data-parallel module was freed");
    check_fails(br_sharded_optim_state_dict(s.sharded, 0), "the data-parallel module was freed");
    br_sharded_optim_zero_grad(s.sharded);
    end(&s);
    s = begin(false);
    pass(&s, 1);
    check(br_sharded_optim_step(s.sharded));
    br_optim_free(s.optim); /* the sharded optimizer can still be freed */
    s.optim = NULL;
    end(&s);
}

void test_scattered_gradients(void)
{
    if (size == 1)
        return;
    setup s = begin(true);
    pass(&s, 1);
    check(br_grad_of(s.model->weight) == NULL);
    check(br_sharded_optim_step(s.sharded));
    br_sharded_optim_zero_grad(s.sharded);
    br_tensor *before = br_clone(s.model->weight);
    check(br_sharded_optim_step(s.sharded)); /* without gradients */
    check(br_equal(before, s.model->weight));
    pass(&s, rank == size - 1 ? NAN : 1);
    check_fails(br_data_parallel_clip_grad_norm_(s.parallel, 1, 2, true) >= 0,
                "a gradient is not finite");
    check_fails(br_data_parallel_clip_grad_norm_(s.parallel, -1, 2, true) >= 0,
                "must not be negative");
    /* As in PyTorch, a norm that is NaN makes all gradients NaN, and so all parameters. */
    check(isnan(br_data_parallel_clip_grad_norm_(s.parallel, 1, 2, false)));
    check(br_sharded_optim_step(s.sharded));
    check(br_item(br_all(br_isnan(s.model->weight))) && br_item(br_all(br_isnan(s.model->bias))));
    end(&s);
    br_linear *m = br_linear_new(4, 2, true);
    br_data_parallel *p =
        br_data_parallel_new(br_base(m), BR_OPTIONS(br_data_parallel, .scatter = rank == size - 1));
    check(!p && strstr(br_error_message(), "all ranks must pass the same options"));
    br_clear_error();
    br_module_free(m);
}
