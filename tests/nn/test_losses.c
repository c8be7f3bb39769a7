/* tests/nn/test_losses.c - loss modules return the same values as the functions with the same
 * arguments, and hold their weights. */
#include "tests/ops/values.h"

#include <brasa/nn.h>

TestSuite(loss_modules, .init = check_begin, .fini = check_end);

static br_tensor *x, *y, *z, *probabilities, *signs, *classes, *weight;

static void make_inputs(void)
{
    x = values(BR_SHAPE(3, 4), 1, BR_F32);
    y = values(BR_SHAPE(3, 4), 2, BR_F32);
    z = values(BR_SHAPE(3, 4), 3, BR_F32);
    probabilities = br_softmax(y, -1);
    signs = br_sign(values(BR_SHAPE(3), 4, BR_F32));
    classes = br_from_i64(BR_SHAPE(3), (int64_t[]){ 3, 0, 2 });
    weight = br_add_scalar(br_abs(values(BR_SHAPE(4), 5, BR_F32)), 1);
}

/* Asserts that the module's loss equals the function's, and frees the module. */
static void check_loss(br_loss *loss, br_tensor *got, br_tensor *want)
{
    check_ok();
    cr_assert(br_equal(got, want), "%s: %s", br_module_class(br_base(loss)), br_error_message());
    br_module_free(loss);
}

#define check(constructor, call, ...)                                                          \
    do {                                                                                       \
        br_loss *check_module = constructor;                                                   \
        check_loss(check_module, br_loss_forward(check_module, BR_INPUTS(__VA_ARGS__)), call); \
    } while (0)

Test(loss_modules, equal_the_functions)
{
    const br_reduction mean = BR_REDUCTION_MEAN, sum = BR_REDUCTION_SUM, none = BR_REDUCTION_NONE;
    br_scope *scope = br_scope_begin();
    make_inputs();
    const br_cross_entropy_options options =
        *BR_OPTIONS(br_cross_entropy, .reduction = sum, .weight = weight);
    check(br_mse_loss_new(mean), br_mse_loss(x, y, mean), x, y);
    check(br_l1_loss_new(none), br_l1_loss(x, y, none), x, y);
    check(br_smooth_l1_loss_new(sum, 0.5), br_smooth_l1_loss(x, y, sum, 0.5), x, y);
    check(br_huber_loss_new(sum, 0.5), br_huber_loss(x, y, sum, 0.5), x, y);
    check(br_cross_entropy_loss_new(NULL), br_cross_entropy(x, classes, NULL), x, classes);
    check(br_cross_entropy_loss_new(&options), br_cross_entropy(x, classes, &options), x, classes);
    check(br_nll_loss_new(&options), br_nll_loss(x, classes, &options), x, classes);
    check(br_bce_loss_new(weight, mean),
          br_binary_cross_entropy(probabilities, probabilities, weight, mean), probabilities,
          probabilities);
    check(br_bce_with_logits_loss_new(NULL, sum, weight),
          br_binary_cross_entropy_with_logits(x, probabilities, NULL, sum, weight), x,
          probabilities);
    check(br_kl_div_loss_new(BR_REDUCTION_BATCHMEAN, false),
          br_kl_div(x, probabilities, BR_REDUCTION_BATCHMEAN, false), x, probabilities);
    check(br_cosine_embedding_loss_new(0.2, none), br_cosine_embedding_loss(x, y, signs, 0.2, none),
          x, y, signs);
    check(br_margin_ranking_loss_new(0.3, mean),
          br_margin_ranking_loss(br_select(x, 1, 0), br_select(y, 1, 0), signs, 0.3, mean),
          br_select(x, 1, 0), br_select(y, 1, 0), signs);
    check(br_triplet_margin_loss_new(NULL, mean), br_triplet_margin_loss(x, y, z, NULL, mean), x, y,
          z);
    br_scope_end(scope);
}

static br_tensor *doubled(void *self, br_tensor *original)
{
    (void)self;
    return br_mul_scalar(original, 2);
}

static br_module *doubled_new(void)
{
    br_module *module = br_module_create(sizeof(br_module), "Doubled");
    br_module_set_forward(module, doubled);
    return module;
}

/* The module equals the function of its layer's parameters, also if they are parametrized. */
Test(loss_modules, linear_cross_entropy)
{
    br_scope *scope = br_scope_begin();
    make_inputs();
    br_linear_cross_entropy_loss *loss = br_linear_cross_entropy_loss_new(
        4, 4, BR_SCALAR, true,
        BR_OPTIONS(br_linear_cross_entropy, .weight = weight, .reduction = BR_REDUCTION_SUM,
                   .chunked = true));
    br_tensor *got = br_linear_cross_entropy_loss_forward(loss, x, classes);
    br_linear_cross_entropy_options o =
        *BR_OPTIONS(br_linear_cross_entropy, .linear_bias = loss->linear->bias, .weight = weight,
                    .reduction = BR_REDUCTION_SUM, .chunked = true);
    cr_assert(br_equal(got, br_linear_cross_entropy(x, loss->linear->weight, classes, &o)));
    br_named_list *state = br_state_dict(br_base(loss));
    cr_assert_eq(state->count, 3);
    cr_assert_str_eq(state->items[0].name, "weight");
    cr_assert_str_eq(state->items[1].name, "linear.weight");
    cr_assert_str_eq(state->items[2].name, "linear.bias");
    br_named_list_free(state);
    br_weight_norm(br_base(loss->linear), "weight", &loss->linear->weight, 0);
    check_close(br_item(br_linear_cross_entropy_loss_forward(loss, x, classes)), br_item(got),
                1e-5);
    br_parametrize(loss->linear, bias, doubled_new(), NULL);
    o.linear_bias =
        br_mul_scalar(br_module_get(br_base(loss->linear), "parametrizations.bias.original"), 2);
    cr_assert_null(loss->linear->bias);
    check_close(br_item(br_linear_cross_entropy_loss_forward(loss, x, classes)),
                br_item(br_linear_cross_entropy(
                    x, br_parametrized_value(br_base(loss->linear), "weight"), classes, &o)),
                1e-5);
    br_module_free(loss);
    loss = br_linear_cross_entropy_loss_new(4, 3, BR_SHAPE(2, 5), false, NULL);
    check_shape(loss->linear->weight, BR_SHAPE(30, 4));
    br_tensor *targets = br_ones(BR_SHAPE(3, 2, 5), BR_I64);
    br_tensor *wide = br_reshape(loss->linear->weight, BR_SHAPE(3, 2, 5, 4));
    cr_assert(br_equal(br_linear_cross_entropy_loss_forward(loss, x, targets),
                       br_linear_cross_entropy(x, wide, targets, NULL)));
    check_fails(br_linear_cross_entropy_loss_forward(loss, x, classes), "target [3] for input");
    br_module_free(loss);
    br_scope_end(scope);
}

static void check_refused(br_linear_cross_entropy_loss *loss, const char *message)
{
    check_fails(NULL, message);
    check_fails(br_linear_cross_entropy_loss_forward(loss, x, classes), "constructor failed");
    br_module_free(loss);
}

Test(loss_modules, linear_cross_entropy_refuses)
{
    br_scope *scope = br_scope_begin();
    make_inputs();
    check_refused(br_linear_cross_entropy_loss_new(-1, 4, BR_SCALAR, true, NULL),
                  "in_features is -1");
    check_refused(br_linear_cross_entropy_loss_new(4, -4, BR_SCALAR, true, NULL),
                  "num_classes is -4");
    check_refused(br_linear_cross_entropy_loss_new(4, 4, BR_SHAPE(-2), true, NULL),
                  "out_features is -2");
    check_refused(br_linear_cross_entropy_loss_new(4, 4, 2, NULL, true, NULL),
                  "out_features has 0 dimensions");
    const int64_t ones[BR_MAX_DIMS] = { 1, 1, 1, 1, 1, 1, 1, 1 };
    check_refused(br_linear_cross_entropy_loss_new(4, 4, BR_MAX_DIMS - 1, ones, true, NULL),
                  "out_features has 7 dimensions, must have 0 .. 6");
    br_module_free(br_linear_cross_entropy_loss_new(4, 4, BR_MAX_DIMS - 2, ones, true, NULL));
    check_ok();
    check_refused(br_linear_cross_entropy_loss_new(4, 4, -1, ones, true, NULL),
                  "out_features has -1 dimensions");
    check_refused(br_linear_cross_entropy_loss_new(4, INT64_MAX, BR_SHAPE(2), true, NULL),
                  "too large");
    check_refused(
        br_linear_cross_entropy_loss_new(
            4, 4, BR_SCALAR, true, BR_OPTIONS(br_linear_cross_entropy, .linear_bias = weight)),
        "linear_bias must be NULL");
    br_scope_end(scope);
}

/* Weights are in the state dict, are converted with the module, and outlive their scope. */
Test(loss_modules, hold_their_weights)
{
    br_scope *scope = br_scope_begin();
    make_inputs();
    br_loss *loss = br_bce_with_logits_loss_new(weight, BR_REDUCTION_MEAN, weight);
    br_scope_end(scope);
    scope = br_scope_begin();
    br_named_list *state = br_state_dict(br_base(loss));
    cr_assert_eq(state->count, 2);
    cr_assert_not_null(br_named_list_get(state, "weight"));
    cr_assert_not_null(br_named_list_get(state, "pos_weight"));
    br_named_list_free(state);
    br_module_to(br_base(loss), BR_F64);
    br_tensor *in = br_zeros(BR_SHAPE(2, 4), BR_F64);
    cr_assert_eq(br_dtype_of(br_loss_forward(loss, BR_INPUTS(in, in))), BR_F64);
    check_fails(br_loss_forward(loss, BR_INPUTS(in)), "BCEWithLogitsLoss takes 2 inputs, got 1");
    br_module_free(loss);
    br_scope_end(scope);
}
