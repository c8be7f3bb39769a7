/* tests/optim/test_trajectories.c - compares fifty steps of every optimizer with torch.optim's, for
 * different layouts of parameters and gradients, instruction sets, and numbers of threads. After
 * two steps, an optimizer with the default options loads the state. */
#include "backends/cpu/kernels.h"
#include "optim/optim_internal.h"
#include "tests/optim/optim_values.h"
#include "tests/support.h"

#include <brasa/optim.h>

TestSuite(trajectories, .init = check_begin, .fini = check_end);

typedef struct {
    br_module base;
    br_tensor *a, *b;
} pair;

static br_tensor *filled(int ndim, const int64_t *sizes, br_dtype dtype, double (*f)(double),
                         double scale, double offset)
{
    br_tensor *t = br_empty(ndim, sizes, BR_F64);
    double *values = br_data_f64(t);
    for (int64_t i = 0; i < br_numel(t); i++)
        values[i] = f(scale * (double)i + offset);
    return br_to(t, dtype);
}

/* Returns a copy of t [2, 3] that is not contiguous. */
static br_tensor *strided(br_tensor *t)
{
    br_tensor *copy = br_transpose(br_empty(BR_SHAPE(3, 2), br_dtype_of(t)), 0, 1);
    return br_detach(br_copy_(copy, t));
}

/* Returns the parameters a [5] and b [2, 3] of record_optim.py; `gaps` makes b not contiguous. */
static pair *pair_new(br_dtype dtype, bool gaps)
{
    pair *self = br_module_new(pair);
    br_scope *scope = br_scope_begin();
    br_tensor *b = filled(BR_SHAPE(2, 3), dtype, cos, 0.5, 0);
    self->a = br_parameter(self, "a", filled(BR_SHAPE(5), dtype, cos, 0.5, 0));
    self->b = br_parameter(self, "b", gaps ? strided(b) : b);
    br_scope_end(scope);
    return self;
}

static void give_gradients(pair *p, int t, bool gaps)
{
    br_tensor *b = filled(BR_SHAPE(2, 3), br_dtype_of(p->b), sin, 0.3, 0.7 * t);
    br_set_grad(p->a, filled(BR_SHAPE(5), br_dtype_of(p->a), sin, 0.3, 0.7 * t));
    br_set_grad(p->b, t == 3 || t == 20 ? NULL : gaps ? strided(b) : b);
}

static void check_values(br_tensor *t, const double *want, double tolerance, int step)
{
    for (int64_t i = 0; i < br_numel(t); i++) {
        int64_t index[2] = { i / 3, i % 3 };
        double got = br_at(t, br_ndim(t), br_ndim(t) == 1 ? &i : index);
        cr_assert(fabs(got - want[i]) <= tolerance, "step %d, element %d: %.17g, expected %.17g",
                  step, (int)i, got, want[i]);
    }
}

/* Returns an optimizer of the same kind with the default options and the state, and frees the given
 * one. Optimizers with several groups, to which the defaults might not apply, stay. */
static br_optim *loaded_by_default(br_optim *optim)
{
    if (optim->n_groups > 1)
        return optim;
    br_named_list *state = br_optim_state_dict(optim), *list = br_named_list_new();
    for (int64_t i = 0; i < optim->n_slots; i++)
        br_named_list_add(list, optim->slots[i].name, optim->slots[i].param);
    br_optim *next = br_optim_new(optim->kind, list, NULL);
    cr_assert(br_optim_load_state_dict(next, state), "%s", br_error_message());
    br_named_list_free(state);
    br_named_list_free(list);
    br_optim_free(optim);
    return next;
}

static void check_trajectory(br_optim *(*make)(br_module *module), br_dtype dtype, bool gaps,
                             const double *want)
{
    pair *p = pair_new(dtype, gaps);
    br_optim *optim = make(br_base(p));
    check_ok();
    for (int t = 1; t <= 50; t++) {
        br_scope *scope = br_scope_begin();
        uint64_t version = br_tensor_version(p->b);
        if (t == 3)
            optim = loaded_by_default(optim);
        give_gradients(p, t, gaps);
        cr_assert(br_optim_step(optim), "%s", br_error_message());
        cr_assert_gt(br_tensor_version(p->b), version - (t == 3 || t == 20));
        if (t == 1 || t == 2 || t == 5 || t == 10 || t == 50) {
            /* one or two rounding errors per step, for values up to 2 */
            double tolerance = (dtype == BR_F64 ? 2e-15 : 5e-7) * (t > 10 ? t / 10.0 : 1);
            check_values(p->a, want, tolerance, t);
            check_values(p->b, want + 5, tolerance, t);
            want += 11;
        }
        br_scope_end(scope);
    }
    br_optim_free(optim);
    br_module_free(p);
}

static br_optim *make_adam(br_module *module)
{
    return br_adam(module, BR_OPTIONS(br_adam, .lr = 0.1));
}

static br_optim *make_adam_options(br_module *module)
{
    return br_adam(module, BR_OPTIONS(br_adam, .lr = 0.05, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-3,
                                      .weight_decay = 0.1));
}

static br_optim *make_sgd(br_module *module)
{
    return br_sgd(module, BR_OPTIONS(br_sgd, .lr = 0.1));
}

static br_optim *make_sgd_momentum(br_module *module)
{
    return br_sgd(module, BR_OPTIONS(br_sgd, .lr = 0.1, .momentum = 0.9));
}

static br_optim *make_sgd_dampening(br_module *module)
{
    return br_sgd(module, BR_OPTIONS(br_sgd, .lr = 0.1, .momentum = 0.9, .dampening = 0.5,
                                     .weight_decay = 0.2));
}

static br_optim *make_sgd_nesterov(br_module *module)
{
    return br_sgd(module, BR_OPTIONS(br_sgd, .lr = 0.1, .momentum = 0.8, .weight_decay = 0.1,
                                     .nesterov = true));
}

static br_optim *make_adam_amsgrad(br_module *module)
{
    return br_adam(module,
                   BR_OPTIONS(br_adam, .lr = 0.1, .beta1 = 0.5, .beta2 = 0.6, .amsgrad = true));
}

static br_optim *make_adamw(br_module *module)
{
    return br_adamw(module, NULL);
}

static br_optim *make_adamw_options(br_module *module)
{
    return br_adamw(module, BR_OPTIONS(br_adamw, .lr = 0.05, .beta1 = 0.8, .beta2 = 0.6,
                                       .eps = 1e-3, .weight_decay = 0.2, .amsgrad = true));
}

/* Returns a list of only the parameter with this name. */
static br_named_list *only(br_module *module, const char *name)
{
    br_named_list *all = br_parameters(module);
    br_named_list *list = br_named_list_filter(all, 1, &name, false);
    br_named_list_free(all);
    return list;
}

static br_optim *make_adamw_groups(br_module *module)
{
    br_named_list *a = only(module, "a"), *b = only(module, "b");
    br_optim *optim = br_adamw_new(a, BR_OPTIONS(br_adamw, .lr = 0.05, .weight_decay = 0.3));
    br_optim_add_group(optim, b, BR_OPTIONS(br_adam, .lr = 0.02));
    br_named_list_free(a);
    br_named_list_free(b);
    return optim;
}

static br_optim *make_rmsprop(br_module *module)
{
    return br_rmsprop(module, BR_OPTIONS(br_rmsprop, .lr = 0.05));
}

static br_optim *make_rmsprop_momentum(br_module *module)
{
    return br_rmsprop(
        module, BR_OPTIONS(br_rmsprop, .lr = 0.02, .alpha = 0.9, .eps = 1e-4, .momentum = 0.7));
}

static br_optim *make_rmsprop_centered(br_module *module)
{
    return br_rmsprop(module, BR_OPTIONS(br_rmsprop, .lr = 0.02, .alpha = 0.8, .eps = 1e-2,
                                         .weight_decay = 0.1, .momentum = 0.5, .centered = true));
}

static br_optim *make_adagrad(br_module *module)
{
    return br_adagrad(module, BR_OPTIONS(br_adagrad, .lr = 0.1));
}

static br_optim *make_adagrad_options(br_module *module)
{
    return br_adagrad(module,
                      BR_OPTIONS(br_adagrad, .lr = 0.2, .lr_decay = 0.05, .weight_decay = 0.1,
                                 .initial_accumulator_value = 0.3, .eps = 1e-3));
}

static br_optim *make_adam_maximize(br_module *module)
{
    return br_adam(module, BR_OPTIONS(br_adam, .lr = 0.05, .weight_decay = 0.1, .maximize = true));
}

static br_optim *make_adamw_maximize(br_module *module)
{
    return br_adamw(module, BR_OPTIONS(br_adamw, .lr = 0.05, .beta1 = 0.8, .beta2 = 0.6,
                                       .weight_decay = 0.01, .amsgrad = true, .maximize = true));
}

static br_optim *make_sgd_maximize(br_module *module)
{
    return br_sgd(module, BR_OPTIONS(br_sgd, .lr = 0.02, .weight_decay = 0.3, .maximize = true));
}

static br_optim *make_sgd_maximize_nesterov(br_module *module)
{
    return br_sgd(module, BR_OPTIONS(br_sgd, .lr = 0.02, .momentum = 0.7, .weight_decay = 0.3,
                                     .nesterov = true, .maximize = true));
}

static br_optim *make_rmsprop_maximize(br_module *module)
{
    return br_rmsprop(module, BR_OPTIONS(br_rmsprop, .lr = 0.01, .eps = 1e-2, .weight_decay = 0.1,
                                         .momentum = 0.5, .centered = true, .maximize = true));
}

static br_optim *make_adagrad_maximize(br_module *module)
{
    return br_adagrad(module,
                      BR_OPTIONS(br_adagrad, .lr = 0.1, .weight_decay = 0.1, .maximize = true));
}

static br_optim *muon_of_b(br_module *module, const br_muon_options *options)
{
    br_named_list *b = only(module, "b");
    br_optim *optim = br_muon_new(b, options);
    br_named_list_free(b);
    return optim;
}

static br_optim *make_muon(br_module *module)
{
    return muon_of_b(module, NULL);
}

static br_optim *make_muon_options(br_module *module)
{
    return muon_of_b(module, BR_OPTIONS(br_muon, .lr = 0.05, .weight_decay = 0.2, .momentum = 0.8,
                                        .nesterov = false, .ns_steps = 3, .eps = 1e-3,
                                        .ns_coefficients = { 3.0, -3.2, 1.2 },
                                        .adjust_lr = BR_MUON_MATCH_RMS_ADAMW));
}

static br_optim *make_muon_spectral(br_module *module)
{
    return muon_of_b(module, BR_OPTIONS(br_muon, .lr = 0.05, .weight_decay = 0.1,
                                        .adjust_lr = BR_MUON_SPECTRAL_UNCLAMPED));
}

static br_optim *make_adadelta(br_module *module)
{
    return br_adadelta(module, NULL);
}

static br_optim *make_adadelta_options(br_module *module)
{
    return br_adadelta(module, BR_OPTIONS(br_adadelta, .lr = 0.5, .rho = 0.7, .eps = 1e-3,
                                          .weight_decay = 0.1, .maximize = true));
}

static br_optim *make_adamax(br_module *module)
{
    return br_adamax(module, BR_OPTIONS(br_adamax, .lr = 0.1));
}

static br_optim *make_adamax_options(br_module *module)
{
    return br_adamax(module, BR_OPTIONS(br_adamax, .lr = 0.05, .beta1 = 0.8, .beta2 = 0.7,
                                        .eps = 1e-2, .weight_decay = 0.1, .maximize = true));
}

static br_optim *make_nadam(br_module *module)
{
    return br_nadam(module, BR_OPTIONS(br_nadam, .lr = 0.1));
}

static br_optim *make_nadam_options(br_module *module)
{
    return br_nadam(module, BR_OPTIONS(br_nadam, .lr = 0.05, .beta1 = 0.8, .beta2 = 0.7,
                                       .eps = 1e-3, .weight_decay = 0.2, .momentum_decay = 0.3));
}

static br_optim *make_nadam_decoupled(br_module *module)
{
    return br_nadam(module, BR_OPTIONS(br_nadam, .lr = 0.05, .weight_decay = 0.2,
                                       .decoupled_weight_decay = true, .maximize = true));
}

static br_optim *make_radam(br_module *module)
{
    return br_radam(module, BR_OPTIONS(br_radam, .lr = 0.1));
}

static br_optim *make_radam_options(br_module *module)
{
    return br_radam(module, BR_OPTIONS(br_radam, .lr = 0.05, .beta1 = 0.8, .beta2 = 0.7,
                                       .eps = 1e-3, .weight_decay = 0.2));
}

static br_optim *make_radam_decoupled(br_module *module)
{
    return br_radam(module, BR_OPTIONS(br_radam, .lr = 0.05, .weight_decay = 0.2,
                                       .decoupled_weight_decay = true, .maximize = true));
}

static br_optim *make_rprop(br_module *module)
{
    return br_rprop(module, NULL);
}

static br_optim *make_rprop_options(br_module *module)
{
    return br_rprop(module,
                    BR_OPTIONS(br_rprop, .lr = 0.05, .eta_minus = 0.3, .eta_plus = 1.5,
                               .step_size_min = 0.02, .step_size_max = 0.1, .maximize = true));
}

static br_optim *make_adafactor(br_module *module)
{
    return br_adafactor(module, NULL);
}

static br_optim *make_adafactor_options(br_module *module)
{
    return br_adafactor(module,
                        BR_OPTIONS(br_adafactor, .lr = 0.2, .beta2_decay = -0.5, .eps1 = 1e-3,
                                   .eps2 = 0.5, .d = 1.2, .weight_decay = 0.1, .maximize = true));
}

static br_optim *make_asgd(br_module *module)
{
    return br_asgd(module, NULL);
}

static br_optim *make_asgd_options(br_module *module)
{
    return br_asgd(module, BR_OPTIONS(br_asgd, .lr = 0.1, .lambd = 0.05, .alpha = 0.6, .t0 = 8,
                                      .weight_decay = 0.1, .maximize = true));
}

static br_optim *make_lion(br_module *module)
{
    return br_lion(module, BR_OPTIONS(br_lion, .lr = 0.01));
}

static br_optim *make_lion_options(br_module *module)
{
    return br_lion(module, BR_OPTIONS(br_lion, .lr = 0.02, .beta1 = 0.7, .beta2 = 0.8,
                                      .weight_decay = 0.3, .maximize = true));
}

static br_optim *make_sparse_adam(br_module *module)
{
    return br_sparse_adam(module, BR_OPTIONS(br_sparse_adam, .lr = 0.1));
}

static br_optim *make_sparse_adam_options(br_module *module)
{
    return br_sparse_adam(module, BR_OPTIONS(br_sparse_adam, .lr = 0.05, .beta1 = 0.8, .beta2 = 0.7,
                                             .eps = 1e-3, .maximize = true));
}

static const struct {
    br_optim *(*make)(br_module *module);
    const double *f32, *f64;
} cases[] = {
    { make_adam, adam_f32, adam_f64 },
    { make_adam_options, adam_options_f32, adam_options_f64 },
    { make_sgd, sgd_f32, sgd_f64 },
    { make_sgd_momentum, sgd_momentum_f32, sgd_momentum_f64 },
    { make_sgd_dampening, sgd_dampening_f32, sgd_dampening_f64 },
    { make_sgd_nesterov, sgd_nesterov_f32, sgd_nesterov_f64 },
    { make_adam_amsgrad, adam_amsgrad_f32, adam_amsgrad_f64 },
    { make_adamw, adamw_f32, adamw_f64 },
    { make_adamw_options, adamw_options_f32, adamw_options_f64 },
    { make_adamw_groups, adamw_groups_f32, adamw_groups_f64 },
    { make_rmsprop, rmsprop_f32, rmsprop_f64 },
    { make_rmsprop_momentum, rmsprop_momentum_f32, rmsprop_momentum_f64 },
    { make_rmsprop_centered, rmsprop_centered_f32, rmsprop_centered_f64 },
    { make_adagrad, adagrad_f32, adagrad_f64 },
    { make_adagrad_options, adagrad_options_f32, adagrad_options_f64 },
    { make_adam_maximize, adam_maximize_f32, adam_maximize_f64 },
    { make_adamw_maximize, adamw_maximize_f32, adamw_maximize_f64 },
    { make_sgd_maximize, sgd_maximize_f32, sgd_maximize_f64 },
    { make_sgd_maximize_nesterov, sgd_maximize_nesterov_f32, sgd_maximize_nesterov_f64 },
    { make_rmsprop_maximize, rmsprop_maximize_f32, rmsprop_maximize_f64 },
    { make_adagrad_maximize, adagrad_maximize_f32, adagrad_maximize_f64 },
    { make_adadelta, adadelta_f32, adadelta_f64 },
    { make_adadelta_options, adadelta_options_f32, adadelta_options_f64 },
    { make_adamax, adamax_f32, adamax_f64 },
    { make_adamax_options, adamax_options_f32, adamax_options_f64 },
    { make_nadam, nadam_f32, nadam_f64 },
    { make_nadam_options, nadam_options_f32, nadam_options_f64 },
    { make_nadam_decoupled, nadam_decoupled_f32, nadam_decoupled_f64 },
    { make_radam, radam_f32, radam_f64 },
    { make_radam_options, radam_options_f32, radam_options_f64 },
    { make_radam_decoupled, radam_decoupled_f32, radam_decoupled_f64 },
    { make_rprop, rprop_f32, rprop_f64 },
    { make_rprop_options, rprop_options_f32, rprop_options_f64 },
    { make_adafactor, adafactor_f32, adafactor_f64 },
    { make_adafactor_options, adafactor_options_f32, adafactor_options_f64 },
    { make_asgd, asgd_f32, asgd_f64 },
    { make_asgd_options, asgd_options_f32, asgd_options_f64 },
    { make_lion, lion_f32, lion_f64 },
    { make_lion_options, lion_options_f32, lion_options_f64 },
    { make_sparse_adam, sparse_adam_f32, sparse_adam_f64 },
    { make_sparse_adam_options, sparse_adam_options_f32, sparse_adam_options_f64 },
    { make_muon, muon_f32, muon_f64 },
    { make_muon_options, muon_options_f32, muon_options_f64 },
    { make_muon_spectral, muon_spectral_f32, muon_spectral_f64 },
};
enum { CASES = sizeof cases / sizeof *cases };

Test(trajectories, equal_pytorch)
{
    for (int i = 0; i < CASES; i++) {
        check_trajectory(cases[i].make, BR_F32, false, cases[i].f32);
        check_trajectory(cases[i].make, BR_F64, false, cases[i].f64);
    }
}

Test(trajectories, equal_pytorch_with_every_instruction_set)
{
    const char *const names[] = { "baseline", "avx2", "avx512" };
    for (int k = 0; k < 3; k++) {
        if (!br__force_kernels(names[k]))
            continue;
        for (int i = 0; i < CASES; i++) {
            check_trajectory(cases[i].make, BR_F32, false, cases[i].f32);
            check_trajectory(cases[i].make, BR_F64, false, cases[i].f64);
        }
    }
    br__force_kernels(NULL);
}

Test(trajectories, do_not_depend_on_layout)
{
    for (int i = 0; i < CASES; i++) {
        check_trajectory(cases[i].make, BR_F32, true, cases[i].f32);
        check_trajectory(cases[i].make, BR_F64, true, cases[i].f64);
    }
}

/* ---- Threads --------------------------------------------------------------------------------- */

typedef struct {
    br_module base;
    br_tensor *large, *empty, *small[3];
} many;

/* Returns parameters of odd sizes with gradients. One is large enough for several tasks. */
static many *many_new(void)
{
    static const char *const names[] = { "small0", "small1", "small2" };
    many *self = br_module_new(many);
    br_scope *scope = br_scope_begin();
    br_manual_seed(3);
    self->small[0] = br_parameter(self, names[0], br_randn(BR_SHAPE(7), BR_F32));
    self->large = br_parameter(self, "large", br_randn(BR_SHAPE(333, 301), BR_F32));
    self->empty = br_parameter(self, "empty", br_randn(BR_SHAPE(0, 3), BR_F32));
    for (int i = 1; i < 3; i++)
        self->small[i] = br_parameter(self, names[i], br_randn(BR_SHAPE(1, 33), BR_F64));
    br_named_list *list = br_parameters(br_base(self));
    for (int64_t i = 0; i < list->count; i++) {
        br_tensor *t = list->items[i].tensor;
        br_set_grad(t, br_randn(br_ndim(t), br_sizes(t), br_dtype_of(t)));
    }
    br_named_list_free(list);
    br_scope_end(scope);
    return self;
}

Test(trajectories, every_element_is_updated_once)
{
    many *m = many_new();
    br_optim *optim = br_sgd(br_base(m), BR_OPTIONS(br_sgd, .lr = 0.5));
    br_scope *scope = br_scope_begin();
    br_tensor *before = br_clone(br_detach(m->large));
    cr_assert(br_optim_step(optim));
    br_tensor *want = br_sub(before, br_mul_scalar(br_grad_of(m->large), 0.5));
    cr_assert(br_allclose(br_detach(m->large), want, 0, 5e-7));
    br_scope_end(scope);
    br_optim_free(optim);
    br_module_free(m);
}

static many *trained(int threads)
{
    br_set_num_threads(threads);
    many *m = many_new();
    br_optim *optim = br_adam(br_base(m), NULL);
    br_named_list *list = br_parameters(br_base(m));
    for (int t = 0; t < 3; t++) {
        br_clip_grad_norm_(list, 10, 2, true);
        br_optim_step(optim);
    }
    br_named_list_free(list);
    br_optim_free(optim);
    check_ok();
    return m;
}

Test(trajectories, do_not_depend_on_threads)
{
    many *one = trained(1);
    for (int threads = 2; threads <= 3; threads++) {
        many *more = trained(threads);
        br_scope *scope = br_scope_begin();
        cr_assert(br_equal(br_detach(one->large), br_detach(more->large)));
        cr_assert(br_equal(br_detach(one->small[0]), br_detach(more->small[0])));
        cr_assert(br_equal(br_detach(one->small[2]), br_detach(more->small[2])));
        br_scope_end(scope);
        br_module_free(more);
    }
    br_module_free(one);
}
