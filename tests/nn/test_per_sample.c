/* tests/nn/test_per_sample.c - br_per_sample_grad() equals a loop over the samples, for each class
 * of layer. */
#include "tests/memory.h"

#include <brasa/brasa.h>

TestSuite(per_sample, .init = check_begin, .fini = check_end);

/* A model of one tensor, and the weights of its results in the loss. */
typedef struct problem {
    void *model;
    br_tensor *weights; /* [batch, elements of a result] */
    bool mean;
    int64_t n_samples; /* of the batch whose mean is taken */
} problem;

/* The loss of a batch: the sum, or the mean, over samples of sum w sin(y). */
static br_tensor *loss_of(br_tensor *const *inputs, int n, void *context)
{
    problem *p = context;
    cr_assert_eq(n, 2);
    br_tensor *y = br_forward(p->model, inputs[0]);
    y = br_reshape(y, BR_SHAPE(br_size(y, 0), -1));
    br_tensor *loss = br_sum(br_mul(br_sin(y), inputs[1]));
    return p->mean ? br_div_scalar(loss, (double)p->n_samples) : loss;
}

/* Compares each sample's gradients with a backward pass of the sample alone. Frees the model. */
static void check_model(void *model, br_tensor *x, bool mean)
{
    const int64_t batch = br_size(x, 0);
    br_module_to(model, BR_F64);
    problem p = { .model = model, .mean = mean, .n_samples = batch };
    br_tensor *y = br_forward(model, x);
    p.weights = br_randn(BR_SHAPE(batch, br_numel(y) / batch), BR_F64);
    br_named_list *grads = br_per_sample_grad(
        model, loss_of, &p, BR_INPUTS(x, p.weights),
        BR_OPTIONS(br_per_sample, .loss_reduction = mean ? BR_REDUCTION_MEAN : BR_REDUCTION_SUM));
    cr_assert(grads, "%s", br_error_message());
    br_named_list *parameters = br_parameters(model);
    int64_t trained = 0;
    for (int64_t k = 0; k < parameters->count; k++) {
        trained += br_requires_grad(parameters->items[k].tensor);
        cr_assert_null(br_grad_of(parameters->items[k].tensor));
    }
    cr_assert_eq(grads->count, trained);
    for (int64_t b = 0; b < batch; b++) {
        p.n_samples = 1;
        br_zero_grad(model);
        br_backward(loss_of((br_tensor *[]){ br_narrow(x, 0, b, 1), br_narrow(p.weights, 0, b, 1) },
                            2, &p));
        for (int64_t k = 0; k < grads->count; k++) {
            const char *name = grads->items[k].name;
            br_tensor *want = br_grad_of(br_named_list_get(parameters, name));
            br_tensor *got = br_select(grads->items[k].tensor, 0, b);
            cr_assert(br_allclose(got, want, 1e-12, 1e-12), "%s of sample %d: %s", name, (int)b,
                      br_error_message());
        }
    }
    br_named_list_free(grads);
    br_named_list_free(parameters);
    br_module_free(model);
    check_ok();
}

static br_tensor *random_like(int ndim, const int64_t *sizes)
{
    return br_randn(ndim, sizes, BR_F64);
}

#define CONV(...)   BR_OPTIONS(br_conv, __VA_ARGS__)
#define CONV3D(...) BR_OPTIONS(br_conv3d, __VA_ARGS__)

Test(per_sample, linear_layers_and_norms)
{
    br_scope *scope = br_scope_begin();
    for (int mean = 0; mean < 2; mean++) {
        check_model(br_sequential_new(BR_MODULES(br_linear_new(3, 4, true), br_tanh_new(),
                                                 br_linear_new(4, 2, false))),
                    random_like(BR_SHAPE(5, 3)), mean);
        check_model(br_sequential_new(BR_MODULES(
                        br_layer_norm_new(3, NULL), br_linear_new(3, 4, true),
                        br_rms_norm_new(4, NULL), br_relu_new(),
                        br_layer_norm_shape_new(BR_SHAPE(2, 4), NULL), br_linear_new(4, 1, true))),
                    random_like(BR_SHAPE(3, 2, 3)), mean);
    }
    check_model(br_linear_new(3, 4, true), random_like(BR_SHAPE(1, 2, 2, 3)), false);
    br_scope_end(scope);
}

Test(per_sample, eps_of_norms)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = random_like(BR_SHAPE(3, 4, 5));
    check_model(br_layer_norm_new(5, BR_OPTIONS(br_layer_norm, .eps = 0.5)), x, false);
    check_model(br_rms_norm_new(5, BR_OPTIONS(br_rms_norm, .eps = 0.5)), x, false);
    check_model(br_group_norm_new(2, 4, BR_OPTIONS(br_group_norm, .eps = 0.5)), x, false);
    for (int track = 0; track < 2; track++) {
        br_instance_norm *norm =
            br_instance_norm1d_new(4, BR_OPTIONS(br_instance_norm, .eps = 0.5, .affine = true,
                                                 .track_running_stats = track));
        br_eval(br_base(norm));
        check_model(norm, x, false);
    }
    br_scope_end(scope);
}

Test(per_sample, embeddings)
{
    br_scope *scope = br_scope_begin();
    br_tensor *ids = br_from_i64(BR_SHAPE(3, 4), (int64_t[]){ 0, 1, 1, 4, 2, 2, 2, 2, 4, 3, 0, 1 });
    check_model(
        br_sequential_new(BR_MODULES(br_embedding_new(5, 3, -1), br_linear_new(3, 2, true))), ids,
        true);
    check_model(br_embedding_new(5, 3, 1), ids, false);
    check_model(br_embedding_new(5, 3, 0), br_select(ids, 1, 0), false);
    br_embedding *by_freq = br_embedding_new(5, 3, -1);
    by_freq->scale_grad_by_freq = true;
    check_model(by_freq, ids, false);
    br_scope_end(scope);
}

Test(per_sample, convolutions)
{
    br_scope *scope = br_scope_begin();
    check_model(
        br_sequential_new(BR_MODULES(
            br_conv2d_new(2, 4, 3, 2, true,
                          CONV(.stride = { 2, 1 }, .padding = { 1, 1 }, .dilation = { 1, 2 })),
            br_group_norm_new(2, 4, NULL), br_tanh_new(),
            br_conv_transpose2d_new(
                4, 6, 2, 3, true,
                CONV(.stride = { 2, 2 }, .groups = 2, .output_padding = { 1, 0 })),
            br_instance_norm2d_new(6, BR_OPTIONS(br_instance_norm, .affine = true)),
            br_conv2d_new(6, 3, 3, 3, false, CONV(.groups = 3, .same = true)))),
        random_like(BR_SHAPE(3, 2, 5, 6)), true);
    check_model(br_sequential_new(
                    BR_MODULES(br_conv1d_new(4, 6, 3, true, CONV(.groups = 2, .padding = { 2, 0 })),
                               br_conv_transpose1d_new(6, 2, 2, false, NULL))),
                random_like(BR_SHAPE(4, 4, 5)), false);
    check_model(br_sequential_new(
                    BR_MODULES(br_conv3d_new(2, 4, BR_TRIPLE(2, 1, 3), true,
                                             CONV3D(.groups = 2, .padding = { 1, 0, 1 })),
                               br_conv_transpose3d_new(4, 1, BR_TRIPLE(1, 2, 2), true, NULL))),
                random_like(BR_SHAPE(2, 2, 3, 3, 4)), false);
    br_scope_end(scope);
}

/* Statistics of a batch or running ones: an instance norm with both. */
Test(per_sample, instance_norm_in_evaluation)
{
    br_scope *scope = br_scope_begin();
    for (int eval = 0; eval < 2; eval++) {
        br_instance_norm *norm = br_instance_norm1d_new(
            2, BR_OPTIONS(br_instance_norm, .affine = true, .track_running_stats = true));
        br_tensor *x = random_like(BR_SHAPE(3, 2, 4));
        br_module_to(br_base(norm), BR_F64);
        br_instance_norm_forward(norm, random_like(BR_SHAPE(4, 2, 4)));
        if (eval)
            br_eval(br_base(norm));
        check_model(norm, x, false);
    }
    br_scope_end(scope);
}

/* Parameters that are frozen get no gradient, also next to one that is not. */
Test(per_sample, frozen_parameters)
{
    br_scope *scope = br_scope_begin();
    br_sequential *model = br_sequential_new(BR_MODULES(
        br_linear_new(3, 4, true), br_batch_norm1d_new(4, NULL), br_linear_new(4, 2, true)));
    br_eval(br_base(model));
    br_module_requires_grad(br_base(model), "0.weight", false);
    br_module_requires_grad(br_base(model), "1.*", false);
    check_model(model, random_like(BR_SHAPE(5, 3)), false);
    br_scope_end(scope);
}

/* ---- One layer in several places ------------------------------------------------------------- */

typedef struct twice {
    br_module base;
    br_linear *linear;
    br_embedding *unused;
    bool direct, in_place; /* use the weight outside of the layer; change a result */
    bool ignored;          /* the loss does not use the second call's result */
} twice;

static br_tensor *run_twice(void *module, br_tensor *x)
{
    twice *self = module;
    br_enter_with(self, x);
    br_tensor *y = br_linear_forward(self->linear, x);
    if (self->in_place)
        br_tanh_(y);
    br_tensor *z = self->direct ? br_f_linear(y, self->linear->weight, NULL)
                                : br_linear_forward(self->linear, br_sin(y));
    return br_leave(self, self->ignored ? y : z);
}

static twice *twice_new(void)
{
    twice *self = br_module_new(twice);
    self->linear = br_child(self, "linear", br_linear_new(3, 3, true));
    self->unused = br_child(self, "unused", br_embedding_new(4, 3, -1));
    br_module_set_forward(br_base(self), run_twice);
    return self;
}

static br_named_list *gradients(void *model, br_tensor *x, const br_per_sample_options *options)
{
    problem p = { .model = model };
    br_tensor *one = br_ones(BR_SCALAR, br_dtype_of(x));
    return br_per_sample_grad(model, loss_of, &p, BR_INPUTS(x, one), options);
}

/* A call whose result the loss does not use adds nothing. */
Test(per_sample, calls_of_one_layer_add_up)
{
    br_scope *scope = br_scope_begin();
    for (int ignored = 0; ignored < 2; ignored++) {
        twice *model = twice_new();
        model->ignored = ignored;
        br_tensor *x = br_randn(BR_SHAPE(4, 3), BR_F32);
        br_named_list *grads = gradients(model, x, NULL);
        cr_assert(grads && grads->count == 2, "%s", br_error_message());
        problem p = { .model = model };
        br_backward(loss_of((br_tensor *[]){ x, br_ones(BR_SCALAR, BR_F32) }, 2, &p));
        br_tensor *sum = br_sum_dim(br_named_list_get(grads, "linear.weight"), BR_DIMS(0), false);
        cr_assert(br_allclose(sum, br_grad_of(model->linear->weight), 1e-5, 1e-5));
        br_named_list_free(grads);
        br_module_free(model);
    }
    br_scope_end(scope);
    check_ok();
}

static br_tensor *halve(br_module *module, br_tensor *t, void *context)
{
    (void)module, (void)context;
    return br_mul_scalar(t, 0.5);
}

/* The program's hooks replace the input and the result of a layer. */
Test(per_sample, hooks_that_replace_tensors)
{
    br_scope *scope = br_scope_begin();
    br_linear *linear = br_linear_new(3, 4, true);
    br_module_register_forward_pre_hook(br_base(linear), halve, NULL);
    br_module_register_forward_hook(br_base(linear), halve, NULL);
    check_model(br_sequential_new(BR_MODULES(linear, br_tanh_new(), br_linear_new(4, 2, true))),
                random_like(BR_SHAPE(5, 3)), false);
    br_scope_end(scope);
}

static br_tensor *run_gpt2(void *model, br_tensor *ids)
{
    return br_gpt2_forward(model, ids, NULL);
}

/* GPT-2's Conv1D keeps its weight as [in, out]. Embeddings of positions do not have the batch as
 * first dimension. */
Test(per_sample, gpt2_with_frozen_embeddings)
{
    br_scope *scope = br_scope_begin();
    br_gpt2_config config = br_gpt2_config_default();
    config.vocab_size = 11;
    config.n_positions = 8;
    config.n_embd = 8;
    config.n_layer = 1;
    config.n_head = 2;
    br_gpt2 *model = br_gpt2_new(&config);
    br_module_set_forward(br_base(model), run_gpt2);
    br_eval(br_base(model));
    br_module_requires_grad(br_base(model), "w[tp]e.*", false);
    br_tensor *ids = br_from_i64(BR_SHAPE(2, 3), (int64_t[]){ 1, 4, 9, 0, 10, 4 });
    check_model(model, ids, true);
    br_scope_end(scope);
}

Test(per_sample, autocast)
{
    br_scope *scope = br_scope_begin();
    br_linear *linear = br_linear_new(3, 2, true);
    br_tensor *x = br_randn(BR_SHAPE(4, 3), BR_F32);
    br_named_list *want = gradients(linear, x, NULL);
    br_autocast *cast = br_autocast_begin(BR_BF16);
    br_named_list *got = gradients(linear, x, NULL);
    br_autocast_end(cast);
    cr_assert(got, "%s", br_error_message());
    br_tensor *weight = br_named_list_get(got, "weight");
    cr_assert_eq(br_dtype_of(weight), BR_F32);
    cr_assert(br_allclose(weight, br_named_list_get(want, "weight"), 0.05, 0.05));
    br_named_list_free(want);
    br_named_list_free(got);
    br_module_free(linear);
    br_scope_end(scope);
    check_ok();
}

/* ---- Errors ---------------------------------------------------------------------------------- */

static br_tensor *no_loss(br_tensor *const *inputs, int n, void *context)
{
    (void)inputs, (void)n, (void)context;
    return NULL;
}

static br_tensor *many_losses(br_tensor *const *inputs, int n, void *context)
{
    (void)n;
    return br_forward(context, inputs[0]);
}

/* A module of the program that has the class name of a layer, but other elements. */
typedef struct Linear {
    br_module base;
    br_tensor *weight; /* [3, 3] */
    br_tensor *unused[100];
} Linear;

static br_tensor *run_own_linear(void *module, br_tensor *x)
{
    Linear *self = module;
    br_enter_with(self, x);
    return br_leave(self, br_matmul(x, br_sin(self->weight)));
}

static Linear *own_linear_new(void)
{
    Linear *self = br_module_new(Linear);
    br_scope *scope = br_scope_begin();
    self->weight = br_parameter(self, "weight", br_ones(BR_SHAPE(3, 3), BR_F32));
    br_module_set_forward(br_base(self), run_own_linear);
    br_scope_end(scope);
    return self;
}

Test(per_sample, errors)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_randn(BR_SHAPE(4, 3), BR_F32);
    twice *model = twice_new();
    model->direct = true;
    check_fails(gradients(model, x, NULL),
                "per_sample_grad: linear.weight is used 2 times, but only 1 times by a layer of a "
                "class that is supported: freeze it");
    model->direct = false;
    model->in_place = true;
    check_fails(gradients(model, x, NULL),
                "the input or the result of linear, a Linear, was changed in place");
    model->in_place = false;
    check_fails(gradients(model, x, BR_OPTIONS(br_per_sample, .batch_size = 2)),
                "the input of linear, a Linear, is [4, 3], must have at least 2 dimensions, of "
                "which the first is the batch of 2");
    check_fails(gradients(model, x, BR_OPTIONS(br_per_sample, .batch_size = 0)),
                "batch_size is 0, must be at least 1");
    check_fails(gradients(model, br_sum(x), NULL), "the first input has no first dimension");
    check_fails(gradients(model, x, BR_OPTIONS(br_per_sample, .loss_reduction = BR_REDUCTION_NONE)),
                "must be BR_REDUCTION_SUM or BR_REDUCTION_MEAN");
    check_fails(gradients(NULL, x, NULL), "module is NULL");
    check_fails(br_per_sample_grad(br_base(model), NULL, NULL, BR_INPUTS(x), NULL), "f is NULL");
    check_fails(br_per_sample_grad(br_base(model), no_loss, NULL, BR_INPUTS(x), NULL),
                "the result of f is NULL");
    check_fails(br_per_sample_grad(br_base(model), many_losses, model, BR_INPUTS(x), NULL),
                "the loss is [4, 3], must have one element");
    check_fails(br_per_sample_grad(br_base(model), many_losses, model, 0, NULL, NULL),
                "the first input has no first dimension: set batch_size");
    br_named_list *again = gradients(model, x, NULL); /* no hook is left from the errors */
    cr_assert(again, "%s", br_error_message());
    br_named_list_free(again);
    br_module_free(model);
    br_sequential *mixing = br_sequential_new(BR_MODULES(br_batch_norm1d_new(3, NULL)));
    check_fails(gradients(mixing, x, NULL), "BatchNorm1d mixes the samples of a batch");
    br_module_free(mixing);
    br_prelu *prelu = br_prelu_new(1, 0.25);
    check_fails(gradients(prelu, x, NULL), "weight is used 1 times, but only 0 times by a layer");
    br_module_free(prelu);
    Linear *own = own_linear_new();
    check_fails(gradients(own, x, NULL), "weight is used 1 times, but only 0 times by a layer");
    br_module_free(own);
    br_linear *square = br_linear_new(4, 4, true);
    check_fails(gradients(square, br_ones(BR_SHAPE(4), BR_F32), NULL),
                "the input of the module, a Linear, is [4], must have at least 2 dimensions");
    br_module_free(square);
    br_scope_end(scope);
}

static bool task(void)
{
    br_scope *scope = br_scope_begin();
    br_manual_seed(1);
    br_sequential *model = br_sequential_new(BR_MODULES(
        br_conv1d_new(2, 2, 2, true, NULL), br_layer_norm_new(3, NULL), br_flatten_new(1, -1)));
    br_named_list *grads = gradients(model, br_randn(BR_SHAPE(2, 2, 4), BR_F32), NULL);
    const bool ok = grads != NULL;
    br_named_list_free(grads);
    br_module_free(model);
    br_scope_end(scope);
    return ok;
}

Test(per_sample, allocations_fail)
{
    fail_in_turn(task, "per_sample_grad");
}
