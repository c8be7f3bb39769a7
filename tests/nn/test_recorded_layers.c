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

static const recorded_model models[] = {
    { "vision", vision, br_forward, 0 },
    { "series", series, br_forward, 0 },
    { "norms", norms, br_forward, 0 },
    { "parametrized", parametrized, br_forward, 3e-7 },
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
