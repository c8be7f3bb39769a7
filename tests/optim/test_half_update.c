/* tests/optim/test_half_update.c - parameters of bf16 and f16: f32 copies ("master" weights) and
 * stochastic rounding. */
#include "tests/memory.h"
#include "tests/same_bits.h"

#include <brasa/optim.h>
#include <stddef.h>

TestSuite(half_update, .init = check_begin, .fini = check_end);

/* ---- Optimizers ------------------------------------------------------------------------------ */

typedef struct sign_options {
    size_t struct_size;
    double lr;
} sign_options;
static const sign_options sign_defaults = { .struct_size = sizeof(sign_options), .lr = 1e-2 };

static bool sign_step(br_optim_work *work)
{
    const sign_options *o = work->options;
    work->new_param = br_sub(work->param, br_mul_scalar(br_sign(work->grad), o->lr));
    return !br_failed();
}

static const br_optim_kind sign_kind = { .name = "sign",
                                         .defaults = &sign_defaults,
                                         .step = sign_step };

static br_optim *adam(const br_named_list *list)
{
    return br_adam_new(list, BR_OPTIONS(br_adam, .lr = 1e-2, .amsgrad = true));
}

static br_optim *adamw(const br_named_list *list)
{
    return br_adamw_new(list, BR_OPTIONS(br_adamw, .lr = 1e-2));
}

static br_optim *sgd(const br_named_list *list)
{
    return br_sgd_new(list, BR_OPTIONS(br_sgd, .lr = 1e-2, .momentum = 0.9, .weight_decay = 0.1));
}

static br_optim *rmsprop(const br_named_list *list)
{
    return br_rmsprop_new(list, BR_OPTIONS(br_rmsprop, .centered = true, .momentum = 0.5));
}

static br_optim *adagrad(const br_named_list *list)
{
    return br_adagrad_new(list, NULL);
}

static br_optim *adadelta(const br_named_list *list)
{
    return br_adadelta_new(list, NULL);
}

static br_optim *adamax(const br_named_list *list)
{
    return br_adamax_new(list, NULL);
}

static br_optim *nadam(const br_named_list *list)
{
    return br_nadam_new(list, NULL);
}

static br_optim *radam(const br_named_list *list)
{
    return br_radam_new(list, NULL);
}

static br_optim *rprop(const br_named_list *list)
{
    return br_rprop_new(list, NULL);
}

static br_optim *asgd(const br_named_list *list)
{
    return br_asgd_new(list, NULL);
}

static br_optim *lion(const br_named_list *list)
{
    return br_lion_new(list, NULL);
}

static br_optim *adafactor(const br_named_list *list)
{
    return br_adafactor_new(list, NULL);
}

static br_optim *muon(const br_named_list *list)
{
    return br_muon_new(list, NULL);
}

static br_optim *own(const br_named_list *list)
{
    return br_optim_new(&sign_kind, list, NULL);
}

typedef br_optim *(*maker)(const br_named_list *);
#define check_same_bits(a, b) cr_expect(same_bits((a), (b)), "%s and %s differ", #a, #b)
static const maker makers[] = { adam,  adamw, sgd,  rmsprop, adagrad,   adadelta, adamax, nadam,
                                radam, rprop, asgd, lion,    adafactor, muon,     own };
enum { N_MAKERS = sizeof makers / sizeof *makers, ROWS = 40, COLUMNS = 33 };

static br_optim *new_optim(maker make, br_tensor *param, br_half_update how)
{
    br_named_tensor item = { "w", param };
    br_optim *optim = make(&(br_named_list){ 1, &item });
    cr_assert(optim && br_optim_set_half_update(optim, how), "%s", br_error_message());
    cr_assert_eq(br_optim_get_half_update(optim), how);
    return optim;
}

/* Returns a parameter whose elements bf16 and f16 represent. */
static br_tensor *new_param(br_dtype dtype)
{
    br_manual_seed(1);
    br_tensor *values = br_to(br_to(br_randn(BR_SHAPE(ROWS, COLUMNS), BR_F32), BR_BF16), BR_F16);
    return br_set_requires_grad(br_to(values, dtype), true);
}

/* Makes a step with the same gradient for each dtype. */
static void step(br_optim *optim, br_tensor *param, int i)
{
    br_scope *scope = br_scope_begin();
    br_manual_seed(100 + (uint64_t)i);
    br_tensor *g = br_to(br_to(br_randn(BR_SHAPE(ROWS, COLUMNS), BR_F32), BR_BF16), BR_F16);
    br_set_grad(param, br_to(g, br_dtype_of(param)));
    cr_assert(br_optim_step(optim), "%s", br_error_message());
    br_scope_end(scope);
}

/* ---- Master weights -------------------------------------------------------------------------- */

/* The masters are to the bit what a parameter of f32 would be, and so are the states. */
static void check_master(maker make, br_dtype dtype)
{
    br_scope *scope = br_scope_begin();
    br_tensor *half = new_param(dtype), *whole = new_param(BR_F32);
    br_optim *a = new_optim(make, half, BR_HALF_MASTER);
    br_optim *b = new_optim(make, whole, BR_HALF_MASTER);
    for (int i = 0; i < 7; i++) {
        step(a, half, i);
        step(b, whole, i);
    }
    br_named_list *x = br_optim_state_dict(a), *y = br_optim_state_dict(b);
    cr_assert_eq(x->count, y->count + 1, "a parameter of f32 has no master");
    check_same_bits(br_named_list_get(x, "w.master"), whole);
    check_same_bits(half, br_to(whole, dtype));
    for (int64_t i = 0; i < y->count; i++)
        check_same_bits(br_named_list_get(x, y->items[i].name), y->items[i].tensor);
    br_named_list_free(x);
    br_named_list_free(y);
    br_optim_free(a);
    br_optim_free(b);
    br_scope_end(scope);
}

Test(half_update, masters_are_those_of_f32)
{
    for (int i = 0; i < N_MAKERS; i++) {
        check_master(makers[i], BR_BF16);
        check_master(makers[i], BR_F16);
    }
}

/* An optimizer with the saved state continues to the bit, in whatever order the parameter and the
 * state are loaded. */
Test(half_update, masters_are_saved)
{
    for (int late = 0; late < 2; late++) {
        br_scope *scope = br_scope_begin();
        br_tensor *param = new_param(BR_BF16), *copy = new_param(BR_BF16);
        br_optim *a = new_optim(adamw, param, BR_HALF_MASTER);
        br_optim *b = new_optim(adamw, copy, BR_HALF_MASTER);
        for (int i = 0; i < 3; i++)
            step(a, param, i);
        br_named_list *state = br_optim_state_dict(a);
        br_scope *unrecorded = br_no_grad_begin();
        if (!late)
            br_copy_(copy, param);
        cr_assert(br_optim_load_state_dict(b, state), "%s", br_error_message());
        if (late)
            br_copy_(copy, param);
        br_scope_end(unrecorded);
        br_named_list_free(state);
        for (int i = 3; i < 9; i++) {
            step(a, param, i);
            step(b, copy, i);
        }
        check_same_bits(param, copy);
        br_optim_free(a);
        br_optim_free(b);
        br_scope_end(scope);
    }
}

Test(half_update, a_missing_master_is_refused)
{
    br_scope *scope = br_scope_begin();
    br_tensor *param = new_param(BR_BF16);
    br_optim *plain = new_optim(adamw, param, BR_HALF_NEAREST);
    br_optim *master = new_optim(adamw, param, BR_HALF_MASTER);
    step(plain, param, 0);
    br_named_list *state = br_optim_state_dict(plain);
    check_fails(br_optim_load_state_dict(master, state), "w.exp_avg is [40, 33] bf16, must be");
    br_named_list_free(state);
    state = br_optim_state_dict(master);
    cr_assert_eq(state->count, 7, "nothing was created: only the options are there");
    br_named_list_free(state);
    step(master, param, 0);
    state = br_optim_state_dict(master);
    br_named_tensor items[20];
    br_named_list without = { 0, items };
    for (int64_t i = 0; i < state->count; i++)
        if (strcmp(state->items[i].name, "w.master") != 0)
            items[without.count++] = state->items[i];
    br_optim *fresh = new_optim(adamw, param, BR_HALF_MASTER);
    check_fails(br_optim_load_state_dict(fresh, &without), "w.master is missing");
    br_named_list_free(state);
    br_optim_free(plain);
    br_optim_free(master);
    br_optim_free(fresh);
    br_scope_end(scope);
}

/* The master takes over the elements that the program changes, and keeps the digits of the rest. */
Test(half_update, masters_follow_the_parameter)
{
    br_scope *scope = br_scope_begin();
    br_tensor *param = new_param(BR_BF16), *whole = new_param(BR_F32);
    br_optim *a = new_optim(sgd, param, BR_HALF_MASTER);
    br_optim *b = new_optim(sgd, whole, BR_HALF_NEAREST);
    for (int i = 0; i < 6; i++) {
        step(a, param, i);
        step(b, whole, i);
        br_scope *unrecorded = br_no_grad_begin();
        br_fill_(br_select(param, 0, i), 0.5);
        br_fill_(br_select(whole, 0, i), 0.5);
        br_scope_end(unrecorded);
    }
    step(a, param, 6);
    step(b, whole, 6);
    check_same_bits(param, br_to(whole, BR_BF16));
    br_optim_free(a);
    br_optim_free(b);
    br_scope_end(scope);
}

/* If memory runs out, nothing has changed. */
static bool one_step(void)
{
    br_scope *scope = br_scope_begin();
    br_tensor *param = br_set_requires_grad(br_ones(BR_SHAPE(3), BR_BF16), true);
    br_set_grad(param, br_ones(BR_SHAPE(3), BR_BF16));
    const uint16_t *first = br_failed() ? NULL : br_data(param);
    br_optim *optim =
        br_failed() ? NULL : sgd(&(br_named_list){ 1, &(br_named_tensor){ "w", param } });
    bool ok = optim && br_optim_set_half_update(optim, BR_HALF_MASTER) && br_optim_step(optim);
    if (first && !ok)
        cr_expect_eq(*first, 0x3f80, "the parameter is no longer 1");
    br_optim_free(optim);
    br_scope_end(scope);
    return ok;
}

Test(half_update, memory_runs_out)
{
    fail_in_turn(one_step, "step");
}

/* ---- Stochastic rounding --------------------------------------------------------------------- */

/* Subtracts `down` once from n elements of `value`. */
static br_tensor *subtracted(br_dtype dtype, int64_t n, double value, double down, uint64_t seed)
{
    br_tensor *param = br_set_requires_grad(br_full(BR_SHAPE(n), value, dtype), true);
    br_named_tensor item = { "w", param };
    br_optim *optim = br_sgd_new(&(br_named_list){ 1, &item }, BR_OPTIONS(br_sgd, .lr = down));
    cr_assert(optim && br_optim_set_half_update(optim, BR_HALF_STOCHASTIC));
    br_set_grad(param, br_ones(BR_SHAPE(n), dtype));
    br_manual_seed(seed);
    cr_assert(br_optim_step(optim), "%s", br_error_message());
    br_optim_free(optim);
    return param;
}

/* Of n elements, the share `fraction` is rounded down to `low`, and the rest up to `high`. The
 * count differs from its mean by less than 5 standard deviations. */
static void check_share(br_dtype dtype, double value, double down, double low, double high)
{
    enum { N = 100000 };
    br_scope *scope = br_scope_begin();
    br_tensor *param = subtracted(dtype, N, value, down, 7);
    double n_low = br_item(br_sum(br_to(br_eq_scalar(param, low), BR_F64)));
    double n_high = br_item(br_sum(br_to(br_eq_scalar(param, high), BR_F64)));
    double fraction = (high - (value - down)) / (high - low);
    cr_expect_eq(n_low + n_high, N, "%s: %g - %g", br_dtype_name(dtype), value, down);
    cr_expect(fabs(n_low - N * fraction) <= 5 * sqrt(N * fraction * (1 - fraction)),
              "%s: %g - %g: %g of %d are %g, expected %g", br_dtype_name(dtype), value, down, n_low,
              N, low, N * fraction);
    br_scope_end(scope);
}

Test(half_update, the_mean_is_exact)
{
    check_share(BR_BF16, 1, 0x1p-11, 1 - 0x1p-8, 1);   /* an eighth of a unit below 1 */
    check_share(BR_BF16, -1, 0x1p-9, -1 - 0x1p-7, -1); /* a quarter of a unit above 1 */
    check_share(BR_BF16, 3, 0.005, 3 - 0x1p-6, 3);
    check_share(BR_F16, 1, 0x1p-13, 1 - 0x1p-11, 1);
    check_share(BR_F16, 0x1p-16, 0x1p-26, 0x1p-16 - 0x1p-24, 0x1p-16); /* denormal */
    check_share(BR_F16, 0x1p-24, 0x1p-26, 0, 0x1p-24);
    check_share(BR_F16, 0, 0x1p-27, -0x1p-24, 0);
    check_share(BR_BF16, 0x1p-120, 0x1p-129, 0x1p-120 - 0x1p-128, 0x1p-120);
}

/* A number that the dtype represents stays, and so do infinities and NaN. */
Test(half_update, exact_results_are_kept)
{
    static const double values[] = { 0, 1, -2.5, 0x1p-24, 65504, INFINITY, -INFINITY, NAN };
    br_scope *scope = br_scope_begin();
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        check_same_bits(subtracted(BR_F16, 100, values[i], 0, 1),
                        br_full(BR_SHAPE(100), values[i], BR_F16));
        check_same_bits(subtracted(BR_BF16, 100, values[i], 0, 1),
                        br_full(BR_SHAPE(100), values[i], BR_BF16));
    }
    br_scope_end(scope);
}

/* The seed decides, not the number of threads. Parameters of f32 are not rounded. */
Test(half_update, the_seed_decides)
{
    enum { N = 300000 };
    const int threads = br_get_num_threads();
    br_scope *scope = br_scope_begin();
    br_tensor *first = subtracted(BR_BF16, N, 1, 1e-3, 5);
    br_set_num_threads(threads == 1 ? 2 : 1);
    check_same_bits(first, subtracted(BR_BF16, N, 1, 1e-3, 5));
    br_set_num_threads(threads);
    cr_expect_not(br_equal(first, subtracted(BR_BF16, N, 1, 1e-3, 6)));
    cr_expect(br_equal(subtracted(BR_F32, 10, 1, 1e-3, 5),
                       br_sub_scalar(br_ones(BR_SHAPE(10), BR_F32), 1e-3)));
    br_scope_end(scope);
}

/* Elements and tensors do not share random numbers: neither the parameter with its state, nor two
 * parameters, nor two steps. */
Test(half_update, random_numbers_are_independent)
{
    enum { N = 20000, KINDS = 4 };
    br_scope *scope = br_scope_begin();
    br_tensor *params[2];
    br_named_tensor items[2];
    for (int i = 0; i < 2; i++) {
        params[i] = br_set_requires_grad(br_ones(BR_SHAPE(N), BR_BF16), true);
        items[i] = (br_named_tensor){ i ? "b" : "a", params[i] };
        br_set_grad(params[i], br_full(BR_SHAPE(N), 1, BR_BF16));
    }
    /* The momentum after a step is 1 + 2^-9, the parameter 1 - 2^-9: halves of a unit. */
    br_optim *optim =
        br_sgd_new(&(br_named_list){ 2, items },
                   BR_OPTIONS(br_sgd, .lr = 0x1p-9, .weight_decay = 0x1p-8, .momentum = 0.5));
    cr_assert(optim && br_optim_set_half_update(optim, BR_HALF_STOCHASTIC));
    cr_assert(br_optim_step(optim));
    br_named_list *state = br_optim_state_dict(optim);
    br_tensor *up[KINDS] = { br_lt_scalar(params[0], 1), br_lt_scalar(params[1], 1),
                             br_gt_scalar(br_named_list_get(state, "a.momentum_buffer"), 1),
                             br_roll(br_lt_scalar(params[0], 1), BR_DIMS(1), BR_DIMS(0)) };
    for (int i = 0; i < KINDS; i++)
        for (int k = 0; k < i; k++) {
            double both = br_item(br_mean(br_to(br_logical_and(up[i], up[k]), BR_F64)));
            double expected =
                br_item(br_mean(br_to(up[i], BR_F64))) * br_item(br_mean(br_to(up[k], BR_F64)));
            cr_expect(fabs(both - expected) < 5 * 0.5 / sqrt(N), "%d and %d: %g, expected %g", i, k,
                      both, expected);
        }
    br_named_list_free(state);
    br_optim_free(optim);
    br_scope_end(scope);
}

/* ---- What each is for ------------------------------------------------------------------------ */

/* Fifty steps of 1e-3 from 1: bf16 has no number between 1 - 2^-8 and 1. */
Test(half_update, small_updates_are_not_lost)
{
    enum { N = 10000, STEPS = 50 };
    double means[3];
    for (int how = BR_HALF_NEAREST; how <= BR_HALF_STOCHASTIC; how++) {
        br_scope *scope = br_scope_begin();
        br_manual_seed(3);
        br_tensor *param = br_set_requires_grad(br_ones(BR_SHAPE(N), BR_BF16), true);
        br_named_tensor item = { "w", param };
        br_optim *optim = br_sgd_new(&(br_named_list){ 1, &item }, BR_OPTIONS(br_sgd, .lr = 1e-3));
        cr_assert(br_optim_set_half_update(optim, (br_half_update)how));
        br_set_grad(param, br_ones(BR_SHAPE(N), BR_BF16));
        for (int i = 0; i < STEPS; i++)
            cr_assert(br_optim_step(optim));
        means[how] = br_item(br_mean(br_to(param, BR_F64)));
        br_optim_free(optim);
        br_scope_end(scope);
    }
    cr_expect_eq(means[BR_HALF_NEAREST], 1);
    cr_expect(fabs(means[BR_HALF_MASTER] - 0.95) <= 0x1p-9, "%g", means[BR_HALF_MASTER]);
    /* Each step's rounding error is at most 2^-8, so that of the mean is far below 2^-8. */
    cr_expect(fabs(means[BR_HALF_STOCHASTIC] - 0.95) <= 0x1p-10, "%g", means[BR_HALF_STOCHASTIC]);
}

/* ---- Wrong calls ----------------------------------------------------------------------------- */

Test(half_update, wrong_calls)
{
    br_scope *scope = br_scope_begin();
    br_tensor *param = new_param(BR_BF16);
    br_optim *optim = new_optim(adam, param, BR_HALF_MASTER);
    check_fails(br_optim_set_half_update(optim, (br_half_update)3),
                "how is 3, must be one of br_half_update");
    cr_assert(br_optim_set_half_update(optim, BR_HALF_NEAREST));
    cr_assert(br_optim_set_half_update(optim, BR_HALF_MASTER));
    step(optim, param, 0);
    cr_assert(br_optim_set_half_update(optim, BR_HALF_MASTER), "no change is no error");
    check_fails(br_optim_set_half_update(optim, BR_HALF_STOCHASTIC), "w has a state already");
    cr_assert_eq(br_optim_get_half_update(optim), BR_HALF_MASTER);
    br_optim *sign = new_optim(own, param, BR_HALF_NEAREST);
    check_fails(br_optim_set_half_update(sign, BR_HALF_STOCHASTIC),
                "sign is a program's kind, which rounds its results itself: use BR_HALF_MASTER");
    br_optim_free(sign);
    br_optim_free(optim);
    br_optim_kind full = sign_kind;
    static const char *const names[] = { "a", "b", "c", "d", "e", "f", "g", "h" };
    for (int i = 0; i < BR_OPTIM_MAX_STATES; i++)
        full.states[i] = (br_optim_state){ .name = names[i] };
    br_named_tensor item = { "w", param };
    optim = br_optim_new(&full, &(br_named_list){ 1, &item }, NULL);
    check_fails(br_optim_set_half_update(optim, BR_HALF_MASTER),
                "sign has 8 states: there is no room for the f32 copies");
    cr_assert(br_optim_set_half_update(optim, BR_HALF_NEAREST), "%s", br_error_message());
    br_optim_free(optim);
    br_scope_end(scope);
}
