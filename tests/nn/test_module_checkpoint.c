/* tests/nn/test_module_checkpoint.c - activation checkpoints of modules: the same gradients bit for
 * bit without changes to the model, lower peak memory, taps recorded once, and errors. */
#include "tests/memory.h"
#include "tests/same_bits.h"
#include "tests/support.h"

#include <brasa/brasa.h>

TestSuite(module_checkpoint, .init = check_begin, .fini = check_end);

enum { D_MODEL = 16, HEADS = 2, LAYERS = 6, MAX_PARAMETERS = 128 };

static br_transformer_encoder *make_encoder(void)
{
    br_manual_seed(3);
    br_transformer_options o = *BR_OPTIONS(br_transformer, .dim_feedforward = 32, .dropout = 0.2,
                                           .batch_first = true, .gelu = true);
    return br_transformer_encoder_new(D_MODEL, HEADS, LAYERS, true, &o);
}

/* Returns the loss, and stores copies of the gradients in `grads` and their number in *n. */
static double step(br_transformer_encoder *model, br_tensor *x, br_tensor **grads, int64_t *n)
{
    br_manual_seed(4);
    br_scope *scope = br_scope_begin();
    br_tensor *mask = br_transformer_square_subsequent_mask(br_size(x, 1), BR_F32);
    br_tensor *y = br_transformer_encoder_forward(model, x, mask, NULL, false);
    br_tensor *loss = br_mean(br_mul(y, y));
    double value = br_item(loss);
    br_backward(loss);
    br_scope_end(scope);
    check_ok();
    br_named_list *parameters = br_parameters(br_base(model));
    *n = parameters->count;
    for (int64_t i = 0; i < *n; i++)
        grads[i] = br_clone(br_grad_of(parameters->items[i].tensor));
    br_named_list_free(parameters);
    br_zero_grad(br_base(model));
    return value;
}

Test(module_checkpoint, a_transformer_gives_the_same_bits)
{
    br_scope *scope = br_scope_begin();
    br_transformer_encoder *model = make_encoder();
    br_tensor *x = br_randn(BR_SHAPE(2, 5, D_MODEL), BR_F32);
    br_tensor *want[MAX_PARAMETERS], *got[MAX_PARAMETERS];
    int64_t n;
    double loss = step(model, x, want, &n);
    double next = br_random_double();
    cr_assert(br_module_checkpoint(br_base(model->layers), true));
    cr_assert_eq(step(model, x, got, &n), loss);
    cr_assert_eq(br_random_double(), next);
    for (int64_t i = 0; i < n; i++)
        cr_assert(want[i] && same_bits(got[i], want[i]), "parameter %d", (int)i);
    br_module_free(model);
    br_scope_end(scope);
}

static int64_t peak(br_transformer_encoder *model)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_randn(BR_SHAPE(8, 64, D_MODEL), BR_F32), *grads[MAX_PARAMETERS];
    int64_t n, before = br_live_bytes();
    br_reset_peak_bytes();
    step(model, x, grads, &n);
    int64_t most = br_peak_bytes() - before;
    br_scope_end(scope);
    return most;
}

Test(module_checkpoint, peak_memory_is_lower_while_enabled)
{
    br_transformer_encoder *model = make_encoder();
    int64_t plain = peak(model);
    br_module_checkpoint(br_base(model->layers), true);
    int64_t with = peak(model);
    br_module_checkpoint(br_base(model->layers), false);
    int64_t again = peak(model);
    cr_assert(5 * with <= 2 * plain, "%lld bytes, with checkpoints %lld", (long long)plain,
              (long long)with);
    cr_assert_eq(again, plain);
    br_module_free(model);
}

/* ---- A custom model -------------------------------------------------------------------------- */

typedef struct counter {
    br_module base;
    br_linear *linear;
    int calls;
    bool otherwise;
} counter;

static br_tensor *count(void *self, br_tensor *x)
{
    counter *c = self;
    br_enter(c);
    c->calls++;
    x = c->otherwise ? br_exp(x) : x;
    return br_leave(c, br_tap("out", br_tanh(br_linear_forward(c->linear, x))));
}

static counter *make_counter(void)
{
    counter *c = br_module_new(counter);
    c->linear = br_child(c, "linear", br_linear_new(3, 3, true));
    br_module_set_forward(br_base(c), count);
    return c;
}

Test(module_checkpoint, sequential_of_custom_modules_and_taps)
{
    br_scope *scope = br_scope_begin();
    counter *a = make_counter(), *b = make_counter();
    br_sequential *model = br_sequential_new(BR_MODULES(a, b));
    br_module_checkpoint(br_base(a), true);
    br_module_checkpoint(br_base(model), true); /* a's checkpoint is inside the model's */
    br_recorder *recorder = br_recorder_begin();
    br_tensor *y = br_sequential_forward(model, br_ones(BR_SHAPE(2, 3), BR_F32));
    cr_assert(br_backward(br_sum(y)), "%s", br_error_message());
    cr_assert_eq(br_recorder_count(recorder), 2);
    /* `a` runs in forward, and in backward to recompute first its output, then its saved values. */
    cr_assert_eq(a->calls, 3);
    cr_assert_eq(b->calls, 2);
    br_recorder_end(recorder);
    br_scope *inner = br_no_grad_begin();
    br_sequential_forward(model, br_ones(BR_SHAPE(2, 3), BR_F32));
    cr_assert_eq(a->calls, 4);
    br_scope_end(inner);
    br_module_free(model);
    br_scope_end(scope);
}

Test(module_checkpoint, errors_if_forward_cannot_be_repeated)
{
    br_scope *scope = br_scope_begin();
    counter *gone = make_counter(), *changed = make_counter();
    br_tensor *x = br_ones(BR_SHAPE(2, 3), BR_F32);
    br_module_checkpoint(br_base(gone), true);
    br_tensor *y = br_sum(br_forward(gone, x));
    br_module_free(gone);
    check_fails(br_backward(y), "the module was freed before backward");

    br_module_checkpoint(br_base(changed), true);
    y = br_sum(br_forward(changed, br_set_requires_grad(x, true)));
    changed->otherwise = true;
    check_fails(br_backward(y),
                "differs between the two runs of the function, which must be identical");
    br_module_free(changed);
    check_fails(br_module_checkpoint(NULL, true), "module is NULL");
    br_scope_end(scope);
}

/* ---- Failed allocations ---------------------------------------------------------------------- */

static bool build_and_train(void)
{
    br_scope *scope = br_scope_begin();
    br_sequential *s = br_sequential_new(BR_MODULES(make_counter(), make_counter()));
    br_module *first =
        br_module_num_children(br_base(s)) > 0 ? br_module_child_at(br_base(s), 0) : br_base(s);
    br_module_checkpoint(first, true);
    br_module_checkpoint(br_base(s), true);
    br_tensor *y = br_sequential_forward(s, br_ones(BR_SHAPE(2, 3), BR_F32));
    bool ok = br_backward(br_sum(y));
    br_scope_end(scope);
    br_module_free(s);
    return ok;
}

Test(module_checkpoint, every_allocation_fails_in_turn)
{
    fail_in_turn(build_and_train, "checkpoints");
}
