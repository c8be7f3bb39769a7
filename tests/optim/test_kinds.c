/* tests/optim/test_kinds.c - checks specific to each optimizer: its options, its state, and the
 * updates of Muon. */
#include "tests/memory.h"

#include <brasa/optim.h>

TestSuite(optim_kinds, .init = check_begin, .fini = check_end);

Test(optim_kinds, options_are_checked)
{
    check_fails(br_adamw_new(NULL, BR_OPTIONS(br_adamw, .beta2 = 1)), "adamw: beta2 is 1");
    check_fails(br_rmsprop_new(NULL, BR_OPTIONS(br_rmsprop, .alpha = -1)), "rmsprop: alpha is -1");
    check_fails(br_rmsprop_new(NULL, BR_OPTIONS(br_rmsprop, .momentum = NAN)), "momentum is nan");
    check_fails(br_adagrad_new(NULL, BR_OPTIONS(br_adagrad, .lr_decay = -1)), "lr_decay is -1");
    check_fails(br_adagrad_new(NULL, BR_OPTIONS(br_adagrad, .initial_accumulator_value = -2)),
                "adagrad: initial_accumulator_value is -2");
    check_fails(br_adadelta_new(NULL, BR_OPTIONS(br_adadelta, .rho = 1.5)),
                "adadelta: rho is 1.5, must be in 0 .. 1");
    check_fails(br_adamax_new(NULL, BR_OPTIONS(br_adamax, .beta1 = 1)), "adamax: beta1 is 1");
    check_fails(br_nadam_new(NULL, BR_OPTIONS(br_nadam, .momentum_decay = -1)),
                "nadam: momentum_decay is -1");
    check_fails(br_radam_new(NULL, BR_OPTIONS(br_radam, .eps = NAN)), "radam: eps is nan");
    check_fails(br_rprop_new(NULL, BR_OPTIONS(br_rprop, .eta_plus = 1)),
                "rprop: eta_minus is 0.5 and eta_plus is 1, must be 0 < eta_minus < 1 < eta_plus");
    check_fails(br_adafactor_new(NULL, BR_OPTIONS(br_adafactor, .beta2_decay = 0.1)),
                "adafactor: beta2_decay is 0.1, must be at most 0");
    check_fails(br_adafactor_new(NULL, BR_OPTIONS(br_adafactor, .d = 0.5)), "d is 0.5");
    check_fails(br_adafactor_new(NULL, BR_OPTIONS(br_adafactor, .eps1 = -1)), "eps1 is -1");
    check_fails(br_asgd_new(NULL, BR_OPTIONS(br_asgd, .weight_decay = -1)),
                "asgd: weight_decay is -1, must not be negative");
    check_fails(br_asgd_new(NULL, BR_OPTIONS(br_asgd, .lambd = -1)), "lambd is -1");
    check_fails(br_asgd_new(NULL, BR_OPTIONS(br_asgd, .alpha = NAN)), "alpha is nan");
    check_fails(br_lion_new(NULL, BR_OPTIONS(br_lion, .beta2 = 1)), "lion: beta2 is 1");
    check_fails(br_sparse_adam_new(NULL, BR_OPTIONS(br_sparse_adam, .lr = 0)),
                "sparse_adam: lr is 0, must be above 0");
    check_fails(br_sparse_adam_new(NULL, BR_OPTIONS(br_sparse_adam, .eps = 0)), "eps is 0");
    check_fails(br_muon_new(NULL, BR_OPTIONS(br_muon, .momentum = -1)), "muon: momentum is -1");
    check_fails(br_muon_new(NULL, BR_OPTIONS(br_muon, .ns_steps = 100)),
                "ns_steps is 100, must be in 0 .. 99");
    check_fails(br_muon_new(NULL, BR_OPTIONS(br_muon, .adjust_lr = (br_muon_adjust)3)),
                "adjust_lr is 3");
}

/* ---- State ----------------------------------------------------------------------------------- */

static br_optim *adam(br_module *module)
{
    return br_adam(module, BR_OPTIONS(br_adam, .amsgrad = true));
}

static br_optim *adamw(br_module *module)
{
    return br_adamw(module, NULL);
}

static br_optim *rmsprop(br_module *module)
{
    return br_rmsprop(module, BR_OPTIONS(br_rmsprop, .centered = true, .momentum = 0.5));
}

static br_optim *adagrad(br_module *module)
{
    return br_adagrad(module, BR_OPTIONS(br_adagrad, .lr_decay = 0.5));
}

static br_optim *adadelta(br_module *module)
{
    return br_adadelta(module, NULL);
}

static br_optim *adamax(br_module *module)
{
    return br_adamax(module, NULL);
}

static br_optim *nadam(br_module *module)
{
    return br_nadam(module, NULL);
}

static br_optim *radam(br_module *module)
{
    return br_radam(module, NULL);
}

static br_optim *rprop(br_module *module)
{
    return br_rprop(module, NULL);
}

static br_optim *asgd(br_module *module)
{
    return br_asgd(module, NULL);
}

static br_optim *lion(br_module *module)
{
    return br_lion(module, NULL);
}

static br_optim *sparse_adam(br_module *module)
{
    return br_sparse_adam(module, NULL);
}

static br_optim *adafactor(br_module *module)
{
    return br_adafactor(module, NULL);
}

static br_optim *muon(br_module *module)
{
    return br_muon(module, NULL);
}

static const struct {
    br_optim *(*make)(br_module *module);
    const char *state; /* names, joined by spaces */
} kinds[] = {
    { adam, "exp_avg exp_avg_sq step max_exp_avg_sq" },
    { adamw, "exp_avg exp_avg_sq step" },
    { rmsprop, "square_avg grad_avg momentum_buffer" },
    { adagrad, "sum step" },
    { adadelta, "square_avg acc_delta step" },
    { adamax, "exp_avg exp_inf step" },
    { nadam, "exp_avg exp_avg_sq step mu_product" },
    { radam, "exp_avg exp_avg_sq step" },
    { rprop, "prev step_size step" },
    { asgd, "step eta mu ax" },
    { lion, "exp_avg" },
    { sparse_adam, "step exp_avg exp_avg_sq" },
    { adafactor, "step row_var col_var" },
    { muon, "momentum_buffer" },
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* Returns a layer with a weight [2, 3] and its gradient. */
static br_linear *matrix_new(void)
{
    br_manual_seed(7);
    br_linear *self = br_linear_new(3, 2, false);
    br_scope *scope = br_scope_begin();
    br_set_grad(self->weight, br_randn(BR_SHAPE(2, 3), BR_F32));
    br_scope_end(scope);
    return self;
}

/* Makes three steps of each matrix as a layer of its own, and returns the weights, one below the
 * other. */
static br_tensor *steps_of(br_optim *(*make)(br_module *module), int n, br_tensor *const *weights,
                           bool *elementwise)
{
    br_tensor *results[2];
    for (int i = 0; i < n; i++) {
        br_linear *layer = br_linear_new(3, br_size(weights[i], 0), false);
        br_copy_(br_detach(layer->weight), weights[i]);
        br_optim *optim = make(br_base(layer));
        for (int t = 0; t < 3; t++) {
            br_set_grad(layer->weight, br_cos(br_mul_scalar(weights[i], t + 1)));
            cr_assert(br_optim_step(optim), "%s", br_error_message());
        }
        results[i] = br_clone(br_detach(layer->weight));
        *elementwise = br_optim_kind_of(optim)->elementwise;
        br_optim_free(optim);
        br_module_free(layer);
    }
    return br_cat(n, results, 0);
}

/* Sharded optimizers give a part of a parameter to an elementwise kind, and the whole parameter to
 * the others. sparse_adam skips whole rows, so its rows could be divided, but not its elements. */
Test(optim_kinds, elementwise_kinds_update_parts_alone)
{
    br_scope *scope = br_scope_begin();
    br_manual_seed(3);
    br_tensor *whole = br_randn(BR_SHAPE(4, 3), BR_F32);
    br_tensor *parts[] = { br_narrow(whole, 0, 0, 1), br_narrow(whole, 0, 1, 3) };
    for (int k = 0; k < KINDS; k++) {
        bool elementwise;
        br_tensor *together = steps_of(kinds[k].make, 1, &whole, &elementwise);
        br_tensor *apart = steps_of(kinds[k].make, 2, parts, &elementwise);
        cr_expect_eq(elementwise, br_equal(together, apart) && kinds[k].make != sparse_adam,
                     "kind %d, %s", k, kinds[k].state);
    }
    br_scope_end(scope);
}

static void check_names(const br_named_list *state, const char *names)
{
    char got[200] = "";
    for (int64_t i = 0; i < state->count; i++) {
        size_t n = strlen(got);
        if (strncmp(state->items[i].name, "param_groups.", 13) == 0)
            continue;
        snprintf(got + n, sizeof got - n, "%s%s", i ? " " : "",
                 strrchr(state->items[i].name, '.') + 1);
    }
    cr_assert_str_eq(got, names);
}

Test(optim_kinds, state_continues_a_run)
{
    for (int i = 0; i < KINDS; i++) {
        br_linear *a = matrix_new(), *b = matrix_new();
        br_optim *first = kinds[i].make(br_base(a)), *second = kinds[i].make(br_base(b));
        br_optim_step(first);
        br_optim_step(first);
        br_named_list *state = br_optim_state_dict(first), *weights = br_state_dict(br_base(a));
        check_names(state, kinds[i].state);
        cr_assert(br_load_state_dict(br_base(b), weights, true, NULL));
        cr_assert(br_optim_load_state_dict(second, state), "%s", br_error_message());
        br_optim_step(first);
        br_optim_step(second);
        br_scope *scope = br_scope_begin();
        cr_assert(br_equal(br_detach(a->weight), br_detach(b->weight)), "kind %d", i);
        br_scope_end(scope);
        br_named_list_free(state);
        br_named_list_free(weights);
        br_optim_free(first);
        br_optim_free(second);
        br_module_free(a);
        br_module_free(b);
    }
}

/* ---- Muon ------------------------------------------------------------------------------------ */

Test(optim_kinds, muon_requires_matrices)
{
    br_linear *self = br_linear_new(2, 2, true);
    check_fails(br_muon(br_base(self), NULL), "muon: bias [2] is not a matrix");
    br_module_free(self);
}

/* The update of a transposed matrix is the transposed update. */
Test(optim_kinds, muon_of_a_tall_matrix)
{
    br_linear *wide = br_linear_new(7, 4, false), *tall = br_linear_new(4, 7, false);
    br_muon_options options = *BR_OPTIONS(br_muon, .lr = 0.1, .adjust_lr = BR_MUON_MATCH_RMS_ADAMW);
    br_optim *first = br_muon(br_base(wide), &options), *second = br_muon(br_base(tall), &options);
    br_scope *scope = br_no_grad_begin();
    br_copy_(tall->weight, br_t(wide->weight));
    for (int step = 0; step < 3; step++) {
        br_tensor *grad = br_randn(BR_SHAPE(4, 7), BR_F32);
        br_set_grad(wide->weight, grad);
        br_set_grad(tall->weight, br_contiguous(br_t(grad)));
        cr_assert(br_optim_step(first) && br_optim_step(second), "%s", br_error_message());
    }
    cr_assert(br_allclose(br_t(wide->weight), tall->weight, 0, 1e-6));
    br_scope_end(scope);
    br_optim_free(first);
    br_optim_free(second);
    br_module_free(wide);
    br_module_free(tall);
}

/* A zero gradient cannot be orthogonalized: only weight decay applies. */
Test(optim_kinds, muon_of_a_zero_gradient)
{
    br_linear *self = br_linear_new(6, 3, false);
    br_scope *scope = br_no_grad_begin();
    br_tensor *before = br_clone(self->weight);
    br_set_grad(self->weight, br_zeros(BR_SHAPE(3, 6), BR_F32));
    br_optim *optim = br_muon(br_base(self), BR_OPTIONS(br_muon, .lr = 0.5, .weight_decay = 0.5));
    cr_assert(br_optim_step(optim));
    cr_assert(br_equal(self->weight, br_mul_scalar(before, 0.75)));
    br_scope_end(scope);
    br_optim_free(optim);
    br_module_free(self);
}

/* All singular values of the update D are near 1, so D D^T is near the identity. */
Test(optim_kinds, muon_orthogonalizes_its_updates)
{
    br_linear *self = br_linear_new(6, 3, false);
    br_scope *scope = br_no_grad_begin();
    br_zero_(self->weight);
    br_set_grad(self->weight, br_randn(BR_SHAPE(3, 6), BR_F32));
    br_optim *optim = br_muon(br_base(self), BR_OPTIONS(br_muon, .lr = 1));
    cr_assert(br_optim_step(optim));
    br_tensor *square = br_mm(self->weight, br_t(self->weight));
    cr_assert(br_allclose(square, br_eye(3, 3, BR_F32), 0, 0.6));
    br_scope_end(scope);
    br_optim_free(optim);
    br_module_free(self);
}

static bool run_everything(void)
{
    bool ok = true;
    for (int i = 0; i < KINDS && ok; i++) {
        br_linear *self = matrix_new();
        br_optim *optim = kinds[i].make(br_base(self));
        ok = br_optim_step(optim);
        cr_assert_eq(ok, !br_failed());
        br_optim_free(optim);
        br_module_free(self);
    }
    return ok;
}

Test(optim_kinds, every_allocation_may_fail)
{
    fail_in_turn(run_everything, "run everything");
}

/* ---- ASGD ------------------------------------------------------------------------------------ */

typedef struct {
    br_module base;
    br_tensor *p;
} point;

/* PyTorch's averages after t0 = 2: they are the parameter until step 4. */
Test(optim_kinds, asgd_averages)
{
    const double want[][2] = { { 0.8686270086022854, -1.8099183950816717 },
                               { 0.913860999412609, -1.819462631696359 } };
    br_scope *scope = br_scope_begin();
    point *self = br_module_new(point);
    self->p = br_parameter(self, "p", br_from_f64(BR_SHAPE(2), (double[]){ 1, -2 }));
    br_optim *optim = br_asgd(br_base(self),
                              BR_OPTIONS(br_asgd, .lr = 0.1, .lambd = 0.05, .alpha = 0.6, .t0 = 2));
    for (int t = 1; t <= 5; t++) {
        br_set_grad(self->p, br_from_f64(BR_SHAPE(2), (double[]){ sin(t), cos(t) }));
        cr_assert(br_optim_step(optim), "%s", br_error_message());
        br_named_list *state = br_optim_state_dict(optim);
        br_tensor *average = br_named_list_get(state, "p.ax");
        for (int i = 0; i < 2 && t >= 4; i++)
            check_close(br_at(average, BR_DIMS(i)), want[t - 4][i], 2e-15);
        br_named_list_free(state);
    }
    br_optim_free(optim);
    br_module_free(self);
    br_scope_end(scope);
    check_ok();
}

/* ---- SparseAdam ------------------------------------------------------------------------------ */

/* Rows that were not looked up keep their elements and averages, also while others change. */
Test(optim_kinds, sparse_adam_leaves_rows_alone)
{
    br_scope *scope = br_scope_begin();
    br_embedding *table = br_embedding_new(5, 3, -1);
    br_optim *optim = br_sparse_adam(br_base(table), BR_OPTIONS(br_sparse_adam, .lr = 0.1));
    br_tensor *before = br_clone(table->weight);
    const int64_t looked_up[3][2] = { { 1, 3 }, { 3, 3 }, { 0, 1 } };
    for (int i = 0; i < 3; i++) {
        br_optim_zero_grad(optim);
        br_tensor *rows = br_from_i64(BR_SHAPE(2), looked_up[i]);
        br_backward(br_sum(br_square(br_embedding_forward(table, rows))));
        cr_assert(br_optim_step(optim), "%s", br_error_message());
        br_tensor *same = br_all_dim(br_eq(table->weight, before), BR_DIMS(1), false);
        for (int row = 0; row < 5; row++) {
            bool untouched = row == 2 || row == 4 || (row == 0 && i < 2);
            cr_assert_eq(br_at(same, BR_DIMS(row)) != 0, untouched, "row %d, step %d", row, i);
        }
    }
    br_zero_(br_grad_of(table->weight)); /* no row: the step counts nevertheless, as in PyTorch */
    cr_assert(br_optim_step(optim), "%s", br_error_message());
    br_named_list *state = br_optim_state_dict(optim);
    cr_assert_eq(br_item(br_named_list_get(state, "weight.step")), 4);
    br_tensor *mean = br_named_list_get(state, "weight.exp_avg");
    cr_assert_eq(br_item(br_count_nonzero(br_select(mean, 0, 4), BR_DIMS(0))), 0);
    cr_assert_neq(br_item(br_sum(br_abs(br_select(mean, 0, 3)))), 0);
    br_named_list_free(state);
    br_optim_free(optim);
    br_module_free(table);
    br_scope_end(scope);
    check_ok();
}
