/* tests/optim/test_grad_scaler.c - scales of losses, compared with torch.amp.GradScaler. */
#include "tests/memory.h"

#include <brasa/ops.h>
#include <brasa/optim.h>
#include <brasa/tensor/autocast.h>

TestSuite(grad_scaler, .init = check_begin, .fini = check_end);

/* A parameter [1, 2], and SGD with a rate of 0.1. */
typedef struct model {
    br_scope *scope;
    br_tensor *param;
    br_optim *optim;
    br_grad_scaler *scaler;
} model;

static const br_grad_scaler_options some = {
    br_grad_scaler_default_fields,
};

static model begin(bool enabled)
{
    model m = { .scope = br_scope_begin() };
    m.param = br_set_requires_grad(br_from_f32(BR_SHAPE(2), (const float[]){ 1, 2 }), true);
    m.optim = br_sgd_new(&(br_named_list){ 1, &(br_named_tensor){ "p", m.param } },
                         BR_OPTIONS(br_sgd, .lr = 0.1));
    br_grad_scaler_options o = some;
    o.init_scale = 1024;
    o.growth_factor = 4;
    o.backoff_factor = 0.25;
    o.growth_interval = 3;
    o.enabled = enabled;
    m.scaler = br_grad_scaler_new(&o);
    cr_assert(m.optim && m.scaler, "%s", br_error_message());
    return m;
}

static void end(model *m)
{
    br_grad_scaler_free(m->scaler);
    br_optim_free(m->optim);
    br_scope_end(m->scope);
}

/* The gradient of the first element is x, of the second 1. */
static void backward(model *m, double x)
{
    br_optim_zero_grad(m->optim);
    br_tensor *factors = br_from_f32(BR_SHAPE(2), (const float[]){ (float)x, 1 });
    br_tensor *loss = br_sum(br_mul(m->param, factors));
    cr_assert(br_backward(br_grad_scaler_scale(m->scaler, loss)), "%s", br_error_message());
}

static double state(const model *m, const char *name)
{
    br_named_list *list = br_grad_scaler_state_dict(m->scaler);
    double value = br_item(br_named_list_get(list, name));
    br_named_list_free(list);
    return value;
}

/* Each row: the gradient, then PyTorch's scale, parameter and tracker after the step. */
static const struct {
    double x, scale;
    float param[2];
    int tracker;
} rows[] = {
    { 1.0, 1024.0, { 0.899999976F, 1.89999998F }, 1 },
    { 0.5, 1024.0, { 0.849999964F, 1.79999995F }, 2 },
    { INFINITY, 256.0, { 0.849999964F, 1.79999995F }, 0 },
    { 2.0, 256.0, { 0.649999976F, 1.69999993F }, 1 },
    { NAN, 64.0, { 0.649999976F, 1.69999993F }, 0 },
    { 1.0, 64.0, { 0.549999952F, 1.5999999F }, 1 },
    { 1.0, 64.0, { 0.449999958F, 1.49999988F }, 2 },
    { 1.0, 256.0, { 0.349999964F, 1.39999986F }, 0 },
    { 1.0, 256.0, { 0.24999997F, 1.29999983F }, 1 },
    { 1.0, 256.0, { 0.149999976F, 1.19999981F }, 2 },
    { 1.0, 1024.0, { 0.0499999747F, 1.09999979F }, 0 },
    { 0.0, 1024.0, { 0.0499999747F, 0.999999762F }, 1 },
};
enum { STEPS = sizeof rows / sizeof *rows };

/* In every other step the gradients are divided before the step, as for clipping. */
Test(grad_scaler, equals_pytorch)
{
    model m = begin(true);
    for (int i = 0; i < STEPS; i++) {
        bool skipped;
        backward(&m, rows[i].x);
        if (i % 2) {
            cr_assert(br_grad_scaler_unscale_(m.scaler, m.optim));
            cr_expect_eq(br_at(br_grad_of(m.param), BR_DIMS(1)), 1, "step %d", i);
        }
        cr_assert(br_grad_scaler_step(m.scaler, m.optim, &skipped), "%s", br_error_message());
        cr_expect_eq(skipped, !isfinite(rows[i].x), "step %d", i);
        cr_assert(br_grad_scaler_update(m.scaler));
        cr_expect_eq(br_grad_scaler_get_scale(m.scaler), rows[i].scale, "step %d", i);
        cr_expect_eq(state(&m, "_growth_tracker"), rows[i].tracker, "step %d", i);
        const float *p = br_data_f32(m.param);
        cr_expect(p[0] == rows[i].param[0] && p[1] == rows[i].param[1], "step %d: %.9g %.9g", i,
                  (double)p[0], (double)p[1]);
    }
    end(&m);
}

Test(grad_scaler, defaults_are_those_of_pytorch)
{
    br_grad_scaler *scaler = br_grad_scaler_new(NULL);
    cr_expect_eq(br_grad_scaler_get_scale(scaler), 65536);
    br_scope *scope = br_scope_begin();
    br_tensor *loss = br_full(BR_SCALAR, 0.5, BR_F16);
    br_tensor *scaled = br_grad_scaler_scale(scaler, loss);
    cr_expect(br_dtype_of(scaled) == BR_F16 && br_item(scaled) == 32768);
    br_scope_end(scope);
    br_grad_scaler_free(scaler);
}

/* An infinity skips only the step of the optimizer that has it, but reduces the common scale. */
Test(grad_scaler, two_optimizers)
{
    model m = begin(true);
    br_tensor *other = br_set_requires_grad(br_ones(BR_SHAPE(1), BR_F32), true);
    br_optim *second = br_sgd_new(&(br_named_list){ 1, &(br_named_tensor){ "q", other } },
                                  BR_OPTIONS(br_sgd, .lr = 1));
    bool skipped[2];
    backward(&m, INFINITY);
    br_backward(br_grad_scaler_scale(m.scaler, br_sum(other)));
    cr_assert(br_grad_scaler_step(m.scaler, m.optim, &skipped[0]));
    cr_assert(br_grad_scaler_step(m.scaler, second, &skipped[1]));
    cr_expect(skipped[0] && !skipped[1]);
    cr_expect_eq(br_item(other), 0);
    cr_assert(br_grad_scaler_update(m.scaler));
    cr_expect_eq(br_grad_scaler_get_scale(m.scaler), 256);
    br_optim_free(second);
    end(&m);
}

/* The gradient 2^-26 of a product in f16 is 0 without a scale. */
Test(grad_scaler, keeps_small_gradients)
{
    for (int enabled = 0; enabled < 2; enabled++) {
        model m = begin(enabled);
        br_tensor *x = br_full(BR_SHAPE(1, 2), 0x1p-13, BR_F32);
        br_autocast *cast = br_autocast_begin(BR_F16);
        br_tensor *y = br_matmul(x, br_unsqueeze(m.param, 1));
        br_autocast_end(cast);
        cr_expect_eq(br_dtype_of(y), BR_F16);
        br_tensor *loss = br_mul_scalar(br_to(br_sum(y), BR_F32), 0x1p-13);
        br_backward(br_grad_scaler_scale(m.scaler, loss));
        cr_assert(br_grad_scaler_unscale_(m.scaler, m.optim));
        cr_expect_eq(br_at(br_grad_of(m.param), BR_DIMS(0)), enabled ? 0x1p-26 : 0);
        end(&m);
    }
}

Test(grad_scaler, that_is_not_enabled)
{
    model m = begin(false);
    backward(&m, INFINITY);
    bool skipped;
    cr_assert(br_grad_scaler_unscale_(m.scaler, m.optim) &&
              br_grad_scaler_step(m.scaler, m.optim, &skipped) && br_grad_scaler_update(m.scaler) &&
              br_grad_scaler_set_scale(m.scaler, 8));
    cr_expect_not(skipped);
    cr_expect_eq(br_at(m.param, BR_DIMS(0)), -INFINITY);
    cr_expect_eq(br_grad_scaler_get_scale(m.scaler), 1);
    br_named_list *list = br_grad_scaler_state_dict(m.scaler);
    cr_expect_eq(list->count, 0);
    br_named_list_free(list);
    end(&m);
}

Test(grad_scaler, is_saved_and_loaded)
{
    model m = begin(true), n = begin(true);
    for (int i = 0; i < 2; i++) {
        backward(&m, 1);
        cr_assert(br_grad_scaler_step(m.scaler, m.optim, NULL) && br_grad_scaler_update(m.scaler));
    }
    cr_assert(br_grad_scaler_set_scale(m.scaler, 48));
    br_named_list *list = br_grad_scaler_state_dict(m.scaler);
    cr_assert(br_grad_scaler_load_state_dict(n.scaler, list), "%s", br_error_message());
    cr_expect_eq(br_grad_scaler_get_scale(n.scaler), 48);
    cr_expect_eq(state(&n, "_growth_tracker"), 2);
    br_named_tensor items[5];
    for (int i = 0; i < 5; i++) {
        br_named_list less = { 0, items };
        for (int k = 0; k < 5; k++)
            if (k != i)
                items[less.count++] = list->items[k];
        check_fails(br_grad_scaler_load_state_dict(n.scaler, &less), "is missing");
    }
    memcpy(items, list->items, sizeof items);
    items[0].tensor = br_scalar(-1, BR_F64);
    check_fails(br_grad_scaler_load_state_dict(n.scaler, &(br_named_list){ 5, items }),
                "grad_scaler_load_state_dict: scale is -1, must be positive and finite");
    items[0].tensor = br_scalar(1, BR_F32);
    check_fails(br_grad_scaler_load_state_dict(n.scaler, &(br_named_list){ 5, items }),
                "scale is [] f32, must be one f64");
    cr_expect_eq(br_grad_scaler_get_scale(n.scaler), 48);
    br_named_list_free(list);
    end(&n);
    end(&m);
}

/* The tensors of a state, each with another value than a new scaler has. */
enum { STATES = 5 };

static br_named_list other_state(br_named_tensor items[STATES])
{
    items[0] = (br_named_tensor){ "scale", br_scalar(3, BR_F64) };
    items[1] = (br_named_tensor){ "growth_factor", br_scalar(5, BR_F64) };
    items[2] = (br_named_tensor){ "backoff_factor", br_scalar(0.125, BR_F64) };
    items[3] = (br_named_tensor){ "growth_interval", br_scalar(7, BR_I64) };
    items[4] = (br_named_tensor){ "_growth_tracker", br_scalar(6, BR_I64) };
    return (br_named_list){ STATES, items };
}

Test(grad_scaler, saves_each_value_that_it_loaded)
{
    model m = begin(true);
    br_named_tensor items[STATES];
    const br_named_list other = other_state(items);
    cr_assert(br_grad_scaler_load_state_dict(m.scaler, &other), "%s", br_error_message());
    for (int i = 0; i < STATES; i++)
        cr_expect_eq(state(&m, items[i].name), br_item(items[i].tensor), "%s", items[i].name);
    backward(&m, 1); /* the seventh step without an infinity */
    cr_assert(br_grad_scaler_step(m.scaler, m.optim, NULL) && br_grad_scaler_update(m.scaler));
    cr_expect_eq(br_grad_scaler_get_scale(m.scaler), 15);
    end(&m);
}

Test(grad_scaler, a_refused_state_changes_nothing)
{
    static const struct {
        int item;
        double value;
        const char *message;
    } wrong[] = {
        { 0, 0, "scale is 0, must be positive and finite" },
        { 0, INFINITY, "scale is inf, must be positive and finite" },
        { 0, NAN, "scale is nan, must be positive and finite" },
        { 1, 1, "growth_factor is 1, must be greater than 1" },
        { 2, 0, "backoff_factor is 0, must be between 0 and 1" },
        { 2, 1, "backoff_factor is 1, must be between 0 and 1" },
        { 3, 0, "growth_interval is 0, must be at least 1" },
        { 4, -1, "_growth_tracker is -1, must not be negative" },
    };
    model m = begin(true);
    br_named_list *before = br_grad_scaler_state_dict(m.scaler);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        br_named_tensor items[STATES + 1];
        br_named_list other = other_state(items);
        const br_dtype dtype = br_dtype_of(items[wrong[i].item].tensor);
        items[wrong[i].item].tensor = br_scalar(wrong[i].value, dtype);
        check_fails(br_grad_scaler_load_state_dict(m.scaler, &other), wrong[i].message);
        other_state(items);
        items[STATES] = (br_named_tensor){ "more", br_scalar(1, BR_F64) };
        other.count = STATES + 1;
        check_fails(br_grad_scaler_load_state_dict(m.scaler, &other),
                    "grad_scaler_load_state_dict: the state has 6 tensors, but a scaler has 5");
        for (int k = 0; k < STATES; k++)
            cr_expect_eq(state(&m, before->items[k].name), br_item(before->items[k].tensor));
    }
    check_fails(br_grad_scaler_load_state_dict(NULL, before),
                "grad_scaler_load_state_dict: scaler is NULL");
    check_fails(br_grad_scaler_load_state_dict(m.scaler, NULL),
                "grad_scaler_load_state_dict: state is NULL");
    check_fails(br_grad_scaler_state_dict(NULL), "grad_scaler_state_dict: scaler is NULL");
    br_named_list_free(before);
    end(&m);
}

static void check_refused(br_grad_scaler_options o, const char *message)
{
    check_fails(br_grad_scaler_new(&o), message);
}

Test(grad_scaler, wrong_options)
{
    br_grad_scaler_options o = some;
    o.init_scale = 0;
    check_refused(o, "init_scale is 0, must be positive and finite");
    o.init_scale = 1e39;
    check_refused(o, "init_scale is 1e+39, must be positive and finite");
    o = some;
    o.growth_factor = 1;
    check_refused(o, "growth_factor is 1, must be greater than 1");
    o = some;
    o.backoff_factor = NAN;
    check_refused(o, "backoff_factor is nan, must be between 0 and 1");
    o = some;
    o.growth_interval = 0;
    check_refused(o, "growth_interval is 0, must be at least 1");
}

Test(grad_scaler, wrong_order_of_calls)
{
    model m = begin(true);
    check_fails(br_grad_scaler_update(m.scaler), "no gradients were divided since the last update");
    check_fails(br_grad_scaler_step(m.scaler, m.optim, NULL),
                "no parameter of the optimizer has a");
    backward(&m, 1);
    cr_assert(br_grad_scaler_unscale_(m.scaler, m.optim));
    check_fails(br_grad_scaler_unscale_(m.scaler, m.optim), "gradients are divided already");
    cr_assert(br_grad_scaler_step(m.scaler, m.optim, NULL));
    check_fails(br_grad_scaler_step(m.scaler, m.optim, NULL), "has made its step already");
    cr_assert(br_grad_scaler_update(m.scaler));
    check_fails(br_grad_scaler_set_scale(m.scaler, NAN), "scale is nan, must be positive");
    br_tensor *half = br_set_requires_grad(br_ones(BR_SHAPE(1), BR_F16), true);
    br_optim *second = br_sgd_new(&(br_named_list){ 1, &(br_named_tensor){ "h", half } }, NULL);
    br_set_grad(half, br_ones(BR_SHAPE(1), BR_F16));
    check_fails(br_grad_scaler_step(m.scaler, second, NULL), "the gradient of h is f16");
    br_optim_free(second);
    end(&m);
}
