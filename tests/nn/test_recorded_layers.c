/* tests/nn/test_recorded_layers.c - compares models of layers with PyTorch's (record_layers.py):
 * keys of the state dict, initial values, and training steps, which depend on forward, gradients
 * and running statistics. */
#include "tests/support.h"

#include <brasa/brasa.h>

TestSuite(recorded_layers, .init = check_begin, .fini = check_end);

typedef struct recorded_model {
    const char *name;
    void *(*build)(void);
    br_tensor *(*forward)(void *model, br_tensor *x);
    double initial_tolerance; /* not 0 if initial values are computed from random numbers */
} recorded_model;

enum { STEPS = 4 };

/* Asserts that |got - want| <= tolerance (1 + |want|) for each element. */
static br_tensor *loaded(br_safetensors *file, const char *name)
{
    return br_to_device(br_safetensors_get(file, name), br_get_default_device());
}

static void check_near(const char *what, br_tensor *got, br_tensor *want, double tolerance)
{
    check_ok();
    cr_assert(br_same_shape(got, want), "%s has the wrong shape", what);
    cr_assert_eq(br_dtype_of(got), br_dtype_of(want), "%s has the wrong dtype", what);
    br_tensor *difference = br_max(br_abs(br_sub(br_to(got, BR_F64), br_to(want, BR_F64))));
    cr_assert(br_allclose(got, want, tolerance, tolerance), "%s differs by %g: %s", what,
              br_item(difference), br_error_message());
}

/* Asserts that the state dict consists of exactly the file's tensors under the prefix. */
static void check_state(br_module *module, br_safetensors *file, const char *prefix,
                        double tolerance)
{
    br_scope *scope = br_no_grad_begin();
    br_named_list *state = br_state_dict(module);
    int64_t recorded = 0;
    for (int64_t i = 0; i < br_safetensors_count(file); i++)
        recorded += strncmp(br_safetensors_name(file, i), prefix, strlen(prefix)) == 0;
    cr_assert_eq(state->count, recorded, "%lld tensors, expected %lld", (long long)state->count,
                 (long long)recorded);
    for (int64_t i = 0; i < state->count; i++) {
        char name[128];
        snprintf(name, sizeof name, "%s%s", prefix, state->items[i].name);
        check_near(name, state->items[i].tensor, loaded(file, name), tolerance);
    }
    br_named_list_free(state);
    br_scope_end(scope);
}

static void train(const recorded_model *m, void *model, br_safetensors *file)
{
    br_optim *sgd = br_sgd(model, BR_OPTIONS(br_sgd, .lr = 0.05, .momentum = 0.9));
    br_tensor *losses = loaded(file, "losses");
    for (int step = 0; step < STEPS; step++) {
        br_scope *scope = br_scope_begin();
        br_optim_zero_grad(sgd);
        br_tensor *loss = br_mse_loss(m->forward(model, loaded(file, "input")),
                                      loaded(file, "target"), BR_REDUCTION_MEAN);
        br_backward(loss);
        br_optim_step(sgd);
        check_ok();
        check_close(br_item(loss), br_at(losses, BR_DIMS(step)), 2e-6);
        br_scope_end(scope);
    }
    br_optim_free(sgd);
}

static void check_model(const recorded_model *m)
{
    char path[512];
    snprintf(path, sizeof path, BRASA_TEST_DIR "/nn/recorded/%s.safetensors", m->name);
    br_scope *scope = br_scope_begin();
    br_safetensors *file = br_safetensors_open(path, NULL);
    check_ok();
    br_manual_seed(11);
    void *model = m->build();
    check_ok();
    check_state(model, file, "initial/", m->initial_tolerance);
    train(m, model, file);
    check_state(model, file, "after/", 2e-5);
    br_eval((br_module *)model);
    check_near("eval", m->forward(model, loaded(file, "input")), loaded(file, "eval"), 2e-5);
    br_module_free(model);
    br_safetensors_close(file);
    br_scope_end(scope);
}

#define CONV(...) BR_OPTIONS(br_conv, __VA_ARGS__)
#define POOL(...) BR_OPTIONS(br_pool, __VA_ARGS__)
#define NORM(...) BR_OPTIONS(br_batch_norm, __VA_ARGS__)

static void *vision(void)
{
    return br_sequential_new(BR_MODULES(
        br_conv2d_new(2, 6, 3, 2, false, CONV(.padding = { 1, 0 })), br_batch_norm2d_new(6, NULL),
        br_relu_new(), br_max_pool2d_new(POOL(.kernel_size = { 2, 2 }, .padding = { 1, 1 })),
        br_conv2d_new(
            6, 4, 3, 3, true,
            CONV(.stride = { 2, 2 }, .padding = { 2, 2 }, .dilation = { 2, 2 }, .groups = 2)),
        br_group_norm_new(2, 4, NULL), br_silu_new(),
        br_conv_transpose2d_new(4, 3, 2, 2, true,
                                CONV(.stride = { 2, 2 }, .output_padding = { 1, 1 })),
        br_leaky_relu_new(0.1),
        br_avg_pool2d_new(POOL(.kernel_size = { 2, 3 }, .stride = { 1, 1 })),
        br_adaptive_avg_pool2d_new(2, 1), br_flatten_new(1, -1), br_linear_new(6, 5, true),
        br_batch_norm1d_new(5, NORM(.eps = 1e-3, .momentum = 0.3)), br_elu_new(0.5)));
}

static void *series(void)
{
    return br_sequential_new(BR_MODULES(
        br_conv1d_new(3, 4, 3, true, CONV(.same = true)),
        br_batch_norm1d_new(4, NORM(.cumulative = true)), br_gelu_new(BR_GELU_TANH),
        br_max_pool1d_new(
            POOL(.kernel_size = { .rows = 3 }, .stride = { .rows = 2 }, .ceil_mode = true)),
        br_conv_transpose1d_new(4, 4, 3, true, CONV(.groups = 2)),
        br_batch_norm1d_new(4, NORM(.track_running_stats = false)), br_softplus_new(2, 20),
        br_avg_pool1d_new(POOL(.kernel_size = { .rows = 2 }, .padding = { .rows = 1 },
                               .count_include_pad = false)),
        br_identity_new(), br_adaptive_avg_pool1d_new(6), br_rms_norm_new(6, NULL),
        br_group_norm_new(1, 4, BR_OPTIONS(br_group_norm, .affine = false)), br_sigmoid_new(),
        br_rms_norm_new(6, BR_OPTIONS(br_rms_norm, .eps = 0.1)), br_tanh_new(),
        br_log_softmax_new(1), br_softmax_new(-1)));
}

static void *norms(void)
{
    return br_sequential_new(BR_MODULES(
        br_layer_norm_shape_new(BR_SHAPE(3, 4), NULL), br_linear_new(4, 4, true),
        br_layer_norm_shape_new(BR_SHAPE(4), BR_OPTIONS(br_layer_norm, .eps = 0.1, .bias = false)),
        br_rms_norm_shape_new(BR_SHAPE(3, 4), NULL), br_linear_new(4, 4, true),
        br_layer_norm_shape_new(BR_SHAPE(4),
                                BR_OPTIONS(br_layer_norm, .elementwise_affine = false)),
        br_linear_new(4, 4, true),
        br_rms_norm_shape_new(BR_SHAPE(4), BR_OPTIONS(br_rms_norm, .elementwise_affine = false))));
}

static void *activations(void)
{
    return br_sequential_new(BR_MODULES(
        br_linear_new(4, 8, true), br_prelu_new(1, 0.25), br_softshrink_new(0.01),
        br_hardswish_new(), br_linear_new(8, 8, true), br_glu_new(-1), br_selu_new(),
        br_linear_new(4, 4, true), br_celu_new(0.5), br_mish_new(), br_linear_new(4, 4, true),
        br_prelu_new(4, 0.1), br_softsign_new(), br_hardtanh_new(-0.5, 0.6),
        br_linear_new(4, 4, true), br_tanhshrink_new(), br_logsigmoid_new(),
        br_linear_new(4, 4, true), br_threshold_new(-2, 0.3), br_hardshrink_new(0.01),
        br_relu6_new(), br_linear_new(4, 4, true), br_hardsigmoid_new()));
}

#define INSTANCE_NORM(...) BR_OPTIONS(br_instance_norm, __VA_ARGS__)

static void *instance_norms(void)
{
    return br_sequential_new(BR_MODULES(
        br_instance_norm3d_new(2, INSTANCE_NORM(.affine = true, .track_running_stats = true)),
        br_batch_norm3d_new(2, NORM(.eps = 1e-2)), br_flatten_new(3, -1),
        br_instance_norm2d_new(2, INSTANCE_NORM(.momentum = 0.3, .track_running_stats = true)),
        br_flatten_new(2, -1),
        br_instance_norm1d_new(2, INSTANCE_NORM(.eps = 1e-3, .affine = true))));
}

#define POOL3D(...) BR_OPTIONS(br_pool3d, __VA_ARGS__)

static void *volumes(void)
{
    return br_sequential_new(BR_MODULES(
        br_conv3d_new(2, 4, BR_TRIPLE(2, 3, 2), true,
                      BR_OPTIONS(br_conv3d, .padding = { 1, 0, 1 }, .groups = 2)),
        br_tanh_new(), br_max_pool3d_new(POOL3D(.kernel_size = { 2, 1, 2 }, .stride = { 1, 1, 1 })),
        br_conv_transpose3d_new(4, 2, BR_TRIPLE(1, 2, 3), false,
                                BR_OPTIONS(br_conv3d, .stride = { 1, 2, 1 })),
        br_avg_pool3d_new(POOL3D(.kernel_size = { 2, 2, 2 }, .stride = { 1, 1, 1 })),
        br_adaptive_avg_pool3d_new(2, 1, 3)));
}

static void *images(void)
{
    return br_sequential_new(BR_MODULES(
        br_reflection_pad_new(BR_DIMS(1, 2, 0, 1)), br_conv2d_new(2, 8, 2, 2, true, NULL),
        br_pixel_shuffle_new(2), br_replication_pad_new(BR_DIMS(0, 1, 2, 1)),
        br_zero_pad_new(BR_DIMS(0, 0, 1, 1)),
        br_upsample_new(BR_OPTIONS(br_interpolate, .scale_factor = { 1.5, 2 },
                                   .mode = BR_INTERPOLATE_BILINEAR)),
        br_conv2d_new(2, 2, 4, 3, true, NULL), br_pixel_unshuffle_new(2),
        br_constant_pad_new(BR_DIMS(1, 1, 0, 0), 0.5), br_circular_pad_new(BR_DIMS(0, 1, 1, 1)),
        br_unfold_new(BR_OPTIONS(br_fold, .kernel_size = { 3, 2 }, .dilation = { 1, 2 },
                                 .padding = { 0, 1 }, .stride = { 2, 1 })),
        br_linear_new(68, 12, true),
        br_fold_new(5, 5, BR_OPTIONS(br_fold, .kernel_size = { 2, 3 }))));
}

static void *adaptive(void)
{
    return br_sequential_new(BR_MODULES(
        br_conv3d_new(2, 4, BR_TRIPLE(2, 2, 2), true, NULL), br_adaptive_max_pool3d_new(2, 3, 2),
        br_flatten_new(3, -1), br_local_response_norm_new(3, 0.5, 0.6, 2),
        br_conv2d_new(4, 4, 1, 2, true, NULL), br_adaptive_max_pool2d_new(2, 3),
        br_flatten_new(2, -1), br_linear_new(6, 12, true), br_adaptive_max_pool1d_new(6),
        br_unflatten_new(2, BR_SHAPE(2, -1)), br_softmin_new(1)));
}

static void *unpool(void)
{
    br_module_dict *dict = br_module_dict_new();
    br_module_dict_add(dict, "conv", br_conv2d_new(2, 3, 2, 2, true, NULL));
    br_module_dict_add(dict, "last", br_linear_new(4, 2, true));
    return dict;
}

static br_tensor *run_unpool(void *model, br_tensor *x)
{
    const br_pool_options *options =
        POOL(.kernel_size = { 2, 3 }, .stride = { 2, 1 }, .padding = { 1, 1 });
    br_unpool *undo = br_max_unpool2d_new(options);
    br_tensor *indices, *y = br_forward(br_module_dict_at(model, "conv"), x);
    y = br_f_max_pool2d(y, options, &indices);
    y = br_unpool_forward(undo, y, indices, (int64_t[]){ 5, 4 });
    br_module_free(undo);
    return br_forward(br_module_dict_at(model, "last"), y);
}

static void *bilinear(void)
{
    return br_bilinear_new(3, 4, 5, true);
}

static br_tensor *bilinear_forward(void *model, br_tensor *x)
{
    return br_bilinear_forward(model, br_slice(x, 1, 0, 3, 1), br_slice(x, 1, 3, 7, 1));
}

static void *embedding_bag(void)
{
    return br_embedding_bag_new(10, 4,
                                BR_OPTIONS(br_embedding_bag, .mode = BR_BAG_SUM, .padding_idx = 2));
}

static br_tensor *fifteen_indices(void)
{
    return br_cat(BR_INPUTS(br_arange(0, 10, 1, BR_I64), br_arange(0, 5, 1, BR_I64)), 0);
}

static br_tensor *weighted_bags(void *model, br_tensor *x)
{
    return br_embedding_bag_forward(model, br_reshape(fifteen_indices(), BR_SHAPE(5, 3)), NULL, x);
}

static void *embedding_bag_max_norm(void)
{
    br_embedding_bag *self = br_embedding_bag_new(10, 4, NULL);
    self->options.max_norm = 1.5;
    return self;
}

static br_tensor *bags_with_offsets(void *model, br_tensor *x)
{
    br_tensor *offsets = br_from_i64(BR_SHAPE(5), (int64_t[]){ 0, 2, 2, 7, 11 });
    return br_mul(x, br_embedding_bag_forward(model, fifteen_indices(), offsets, NULL));
}

static void *parameter_list(void)
{
    br_module_dict *self = br_module_dict_new();
    br_module_dict_add(self, "first", br_linear_new(3, 2, true));
    br_parameter_list *scales = br_parameter_list_new();
    br_parameter_list_append(scales, br_ones(BR_SHAPE(2), BR_F32));
    br_parameter_list_append(scales, br_full(BR_SHAPE(2), 0.5, BR_F32));
    br_module_dict_add(self, "scales", scales);
    return self;
}

static br_tensor *scaled(void *model, br_tensor *x)
{
    br_parameter_list *scales = br_module_dict_at(model, "scales");
    br_tensor *y = br_mul(br_linear_forward(br_module_dict_at(model, "first"), x),
                          br_parameter_list_at(scales, 0));
    return br_add(y, br_parameter_list_at(scales, -1));
}

/* Weight norm and spectral norm with various options, and both on one weight. */
static void *parametrized(void)
{
    br_conv *conv = br_conv2d_new(2, 4, 3, 2, true, NULL);
    br_spectral_norm(br_base(conv), "weight", &conv->weight, NULL);
    br_conv *up = br_conv_transpose2d_new(4, 3, 2, 2, true, NULL);
    br_spectral_norm(br_base(up), "weight", &up->weight,
                     BR_OPTIONS(br_spectral_norm, .n_power_iterations = 2, .eps = 1e-3, .dim = 1));
    br_linear *middle = br_linear_new(18, 6, true), *last = NULL;
    br_weight_norm(br_base(middle), "weight", &middle->weight, 0);
    br_spectral_norm(br_base(middle), "weight", &middle->weight, NULL);
    last = br_linear_new(6, 5, true);
    br_weight_norm(br_base(last), "weight", &last->weight, -1);
    br_spectral_norm(br_base(last), "bias", &last->bias, NULL);
    br_conv *kernels = br_conv2d_new(3, 3, 2, 2, true, NULL);
    br_weight_norm(br_base(kernels), "weight", &kernels->weight, 1);
    return br_sequential_new(BR_MODULES(conv, br_relu_new(), up, br_tanh_new(), kernels,
                                        br_flatten_new(1, -1), middle, last));
}

/* Returns the output and the last states, flattened and concatenated. */
static br_tensor *joined(br_tensor *y, br_tensor *h, br_tensor *c)
{
    y = br_flatten(y, 0, -1);
    h = br_flatten(h, 0, -1);
    return c ? br_cat(BR_INPUTS(y, h, br_flatten(c, 0, -1)), 0) : br_cat(BR_INPUTS(y, h), 0);
}

static br_tensor *output_and_states(void *model, br_tensor *x)
{
    br_tensor *h, *c, *y = br_rnn_forward(model, x, NULL, NULL, &h, &c);
    return joined(y, h, c);
}

/* Returns the same for a padded batch of two sequences; the second is two steps shorter. */
static br_tensor *with_lengths(void *model, br_tensor *x)
{
    br_tensor *lengths = br_from_i64(BR_SHAPE(2), (int64_t[]){ br_size(x, 0), br_size(x, 0) - 2 });
    br_tensor *h, *c, *y = br_rnn_forward_lengths(model, x, lengths, NULL, NULL, &h, &c);
    return joined(y, h, c);
}

#define RNN(...) BR_OPTIONS(br_rnn, __VA_ARGS__)

static void *lstm(void)
{
    return br_lstm_new(3, 4, RNN(.num_layers = 2, .bidirectional = true, .batch_first = true));
}

static void *lstm_plain(void)
{
    return br_lstm_new(3, 5, NULL);
}

static void *gru(void)
{
    return br_gru_new(3, 4, RNN(.num_layers = 2, .bidirectional = true));
}

static void *gru_no_bias(void)
{
    return br_gru_new(3, 4, RNN(.bias = false, .batch_first = true));
}

static void *rnn(void)
{
    return br_rnn_new(3, 4, RNN(.num_layers = 3));
}

static void *rnn_relu(void)
{
    return br_rnn_new(3, 4, RNN(.relu = true, .bidirectional = true, .bias = false));
}

static void *lstm_projected(void)
{
    return br_lstm_new(3, 5, RNN(.num_layers = 2, .proj_size = 2, .batch_first = true));
}

static void *lstm_lengths(void)
{
    return br_lstm_new(3, 4, RNN(.num_layers = 2, .bidirectional = true, .proj_size = 2));
}

static void *gru_lengths(void)
{
    return br_gru_new(3, 4, RNN(.bidirectional = true));
}

static void *rnn_lengths(void)
{
    return br_rnn_new(3, 4, RNN(.num_layers = 2, .bias = false));
}

static void *lstm_cell(void)
{
    return br_lstm_cell_new(3, 4, true);
}

static void *gru_cell(void)
{
    return br_gru_cell_new(3, 4, true);
}

static void *rnn_cell(void)
{
    return br_rnn_cell_new(3, 4, false, false);
}

static void *rnn_cell_relu(void)
{
    return br_rnn_cell_new(3, 4, true, true);
}

/* Returns all states of a cell that begins with zeros, and the last state of its cells. */
static br_tensor *cell_steps(void *model, br_tensor *x)
{
    br_tensor *states[4], *h = NULL, *c = NULL;
    int n = (int)br_size(x, 0);
    for (int i = 0; i < n; i++)
        states[i] = h = br_rnn_cell_forward(model, br_select(x, 0, i), h, c, &c);
    if (c)
        states[n++] = c;
    return br_cat(n, states, 0);
}

static const recorded_model models[] = {
    { "vision", vision, br_forward, 0 },
    { "series", series, br_forward, 0 },
    { "norms", norms, br_forward, 0 },
    { "parametrized", parametrized, br_forward, 3e-7 },
    { "activations", activations, br_forward, 0 },
    { "instance_norms", instance_norms, br_forward, 0 },
    { "volumes", volumes, br_forward, 0 },
    { "images", images, br_forward, 0 },
    { "adaptive", adaptive, br_forward, 0 },
    { "unpool", unpool, run_unpool, 0 },
    { "bilinear", bilinear, bilinear_forward, 0 },
    { "embedding_bag", embedding_bag, weighted_bags, 0 },
    { "embedding_bag_max_norm", embedding_bag_max_norm, bags_with_offsets, 0 },
    { "parameter_list", parameter_list, scaled, 0 },
    { "lstm_cell", lstm_cell, cell_steps, 0 },
    { "gru_cell", gru_cell, cell_steps, 0 },
    { "rnn_cell", rnn_cell, cell_steps, 0 },
    { "rnn_cell_relu", rnn_cell_relu, cell_steps, 0 },
    { "lstm", lstm, output_and_states, 0 },
    { "lstm_plain", lstm_plain, output_and_states, 0 },
    { "gru", gru, output_and_states, 0 },
    { "gru_no_bias", gru_no_bias, output_and_states, 0 },
    { "rnn", rnn, output_and_states, 0 },
    { "rnn_relu", rnn_relu, output_and_states, 0 },
    { "lstm_projected", lstm_projected, output_and_states, 0 },
    { "lstm_lengths", lstm_lengths, with_lengths, 0 },
    { "gru_lengths", gru_lengths, with_lengths, 0 },
    { "rnn_lengths", rnn_lengths, with_lengths, 0 },
};

Test(recorded_layers, equal_pytorch)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        check_model(&models[i]);
}
