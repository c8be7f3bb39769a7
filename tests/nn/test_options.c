/* tests/nn/test_options.c - option structs: 0 is a valid value, an omitted field has PyTorch's
 * default, and a struct that was not initialized with its defaults is an error.
 * tests/ctypes/options.py compares each default with PyTorch's. */
#include "tests/support.h"

#include <brasa/brasa.h>
#include <brasa/models/gpt2.h>
#include <brasa/models/hf_bert.h>
#include <brasa/models/t5.h>
#include <brasa/pretrained.h>
#include <brasa/pretrained/generate.h>

TestSuite(options, .init = check_begin, .fini = check_end);

/* Returns the value of a parameter, initially 1, after two steps with gradient 1. */
static double after_two_steps(br_optim *(*make)(br_module *))
{
    br_linear *linear = br_linear_new(1, 1, false);
    br_module_to(br_base(linear), BR_F64);
    br_scope *constant = br_no_grad_begin();
    br_fill_(linear->weight, 1);
    br_scope_end(constant);
    br_optim *optim = make(br_base(linear));
    cr_assert(optim, "%s", br_error_message());
    for (int i = 0; i < 2; i++) {
        br_set_grad(linear->weight, br_ones(BR_SHAPE(1, 1), BR_F64));
        br_optim_step(optim);
    }
    check_ok();
    double value = br_item(linear->weight);
    br_optim_free(optim);
    br_module_free(linear);
    return value;
}

static br_optim *no_rate(br_module *m)
{
    return br_adam(m, BR_OPTIONS(br_adam, .lr = 0));
}

static br_optim *no_rate_of_sgd(br_module *m)
{
    return br_sgd(m, BR_OPTIONS(br_sgd, .lr = 0));
}

static br_optim *no_means(br_module *m) /* each step is lr * sign(gradient) */
{
    return br_adam(m, BR_OPTIONS(br_adam, .lr = 0.25, .beta1 = 0, .beta2 = 0, .eps = 0));
}

static br_optim *adamw_default_decay(br_module *m)
{
    return br_adamw(m, BR_OPTIONS(br_adamw, .lr = 0.1, .beta1 = 0, .beta2 = 0, .eps = 0));
}

static br_optim *adamw_without_decay(br_module *m)
{
    return br_adamw(
        m, BR_OPTIONS(br_adamw, .lr = 0.1, .beta1 = 0, .beta2 = 0, .eps = 0, .weight_decay = 0));
}

static br_optim *no_history(br_module *m) /* RMSprop with alpha 0 divides by |gradient| */
{
    return br_rmsprop(m, BR_OPTIONS(br_rmsprop, .lr = 0.25, .alpha = 0, .eps = 0));
}

Test(options, zero_is_a_valid_option_of_optimizers)
{
    br_scope *scope = br_scope_begin();
    cr_assert_eq(after_two_steps(no_rate), 1);
    cr_assert_eq(after_two_steps(no_rate_of_sgd), 1);
    check_close(after_two_steps(no_means), 0.5, 1e-15);
    check_close(after_two_steps(no_history), 0.5, 1e-15);
    check_close(after_two_steps(adamw_without_decay), 0.8, 1e-15);
    check_close(after_two_steps(adamw_default_decay), (1 * 0.999 - 0.1) * 0.999 - 0.1, 1e-15);
    br_scope_end(scope);
}

Test(options, zero_is_a_valid_option_of_modules)
{
    br_scope *scope = br_scope_begin();
    br_batch_norm *norm = br_batch_norm1d_new(2, BR_OPTIONS(br_batch_norm, .momentum = 0));
    br_batch_norm_forward(norm, br_randn(BR_SHAPE(5, 2), BR_F32));
    cr_assert(br_equal(norm->running_mean, br_zeros(BR_SHAPE(2), BR_F32)));
    cr_assert(br_equal(norm->running_var, br_ones(BR_SHAPE(2), BR_F32)));
    br_module_free(norm);

    norm = br_batch_norm2d_new(2, BR_OPTIONS(br_batch_norm, .bias = false));
    cr_assert(norm->weight && !norm->bias);
    br_tensor *images = br_randn(BR_SHAPE(2, 2, 3, 3), BR_F32);
    cr_assert(br_batch_norm_forward(norm, images), "%s", br_error_message());
    br_module_free(norm);

    br_transformer_encoder_layer *layer =
        br_transformer_encoder_layer_new(4, 2, BR_OPTIONS(br_transformer, .gelu = true));
    cr_assert_eq(layer->dropout->p, 0.1);
    cr_assert_eq(layer->self_attn->options.dropout, 0.1);
    br_module_free(layer);
    layer = br_transformer_encoder_layer_new(4, 2, BR_OPTIONS(br_transformer, .dropout = 0));
    cr_assert_eq(layer->dropout->p, 0);
    br_module_free(layer);
    br_scope_end(scope);
}

Test(options, zero_is_a_valid_option_of_losses)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_from_f64(BR_SHAPE(2, 2), (double[]){ 1, 0, 3, 0 });
    br_tensor *target = br_from_i64(BR_SHAPE(2), (int64_t[]){ 0, 1 });
    double first = log1p(exp(-1)), second = 3 + log1p(exp(-3));
    check_close(br_item(br_cross_entropy(x, target, NULL)), (first + second) / 2, 1e-15);
    check_close(
        br_item(br_cross_entropy(x, target, BR_OPTIONS(br_cross_entropy, .ignore_index = 0))),
        second, 1e-15);
    /* 1 + |eps| - |-0.5 + eps| */
    br_tensor *a = br_zeros(BR_SHAPE(1, 1), BR_F64), *b = br_full(BR_SHAPE(1, 1), 0.5, BR_F64);
    cr_assert_eq(br_item(br_triplet_margin_loss(a, a, b, BR_OPTIONS(br_triplet, .eps = 0),
                                                BR_REDUCTION_MEAN)),
                 0.5);
    /* with scale 0 all keys have the same weight */
    br_tensor *query = br_from_f64(BR_SHAPE(1, 1), (double[]){ 5 });
    br_tensor *key = br_from_f64(BR_SHAPE(2, 1), (double[]){ 1, -1 });
    br_tensor *value = br_from_f64(BR_SHAPE(2, 1), (double[]){ 0, 1 });
    check_close(br_item(br_scaled_dot_product_attention(query, key, value, NULL,
                                                        BR_OPTIONS(br_attention, .scale = 0))),
                0.5, 1e-15);
    br_scope_end(scope);
}

/* Returns the learning rate, initially 1, after a second epoch without improvement. */
static double rate_after(const br_plateau_options *options)
{
    br_linear *linear = br_linear_new(1, 1, false);
    br_optim *optim = br_sgd(br_base(linear), BR_OPTIONS(br_sgd, .lr = 1));
    br_scheduler *scheduler = br_reduce_lr_on_plateau(optim, options);
    cr_assert(scheduler, "%s", br_error_message());
    br_scheduler_step_metric(scheduler, 1);
    br_scheduler_step_metric(scheduler, 1);
    double rate = br_optim_get_lr(optim, 0);
    br_scheduler_free(scheduler);
    br_optim_free(optim);
    br_module_free(linear);
    return rate;
}

Test(options, zero_is_a_valid_option_of_schedulers)
{
    cr_assert_eq(rate_after(NULL), 1);
    check_close(rate_after(BR_OPTIONS(br_plateau, .patience = 0)), 0.1, 1e-15);
    cr_assert_eq(rate_after(BR_OPTIONS(br_plateau, .patience = 0, .factor = 0)), 0);
}

Test(options, defaults_may_be_changed_field_by_field)
{
    br_linear *linear = br_linear_new(2, 2, true);
    br_adam_options options = br_adam_defaults();
    options.lr = 0.5;
    br_optim *optim = br_adam(br_base(linear), &options);
    cr_assert_eq(br_optim_get_lr(optim, 0), 0.5);
    br_optim_free(optim);
    br_module_free(linear);
}

/* ---- Structs that were not initialized with their defaults ----------------------------------- */

static br_tensor *same(br_tensor *const *inputs, int n, void *context)
{
    (void)n;
    (void)context;
    return br_mul_scalar(inputs[0], 1);
}

static bool get_number(void *context, int64_t i, br_tensor **fields)
{
    (void)context;
    fields[0] = br_scalar((double)i, BR_I64);
    return fields[0] != NULL;
}

/* The message contains the text that the user should write. */
#define refused(name, call)                                                                     \
    do {                                                                                        \
        name##_options bare = { 0 };                                                            \
        check_fails(call,                                                                       \
                    "options were not initialized with their defaults: use BR_OPTIONS(" #name); \
    } while (0)

Test(options, bare_structs_are_refused_by_operations)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_ones(BR_SHAPE(1, 1, 4), BR_F64), *w = br_ones(BR_SHAPE(1, 1, 2), BR_F64);
    br_tensor *leaf = br_ones(BR_SHAPE(1), BR_F64), *made, *grads[1];
    br_set_requires_grad(leaf, true);
    br_tensor *y = br_sum(br_mul(leaf, leaf));
    br_tensor *class = br_zeros(BR_SHAPE(1), BR_I64), *row = br_ones(BR_SHAPE(1, 2), BR_F64);

    refused(br_backward, br_backward_with(y, &bare));
    refused(br_grad, br_grad(1, &y, 1, &leaf, grads, &bare));
    refused(br_functional, br_vjp(same, NULL, 1, &leaf, NULL, grads, &bare));
    refused(br_functional, br_jvp(same, NULL, 1, &leaf, &leaf, &made, &bare));
    refused(br_functional, br_jacobian(same, NULL, 1, &leaf, grads, &bare));
    refused(br_functional, br_hvp(same, NULL, 1, &leaf, &leaf, grads, &bare));
    refused(br_functional, br_hessian(same, NULL, 1, &leaf, grads, &bare));
    refused(br_activation_checkpoint, br_activation_checkpoint(same, NULL, 1, &leaf, &bare));
    refused(br_gradcheck, br_gradcheck(same, NULL, 1, &leaf, &bare));
    refused(br_gradcheck, br_gradgradcheck(same, NULL, 1, &leaf, &bare));
    refused(br_conv, br_f_conv1d(x, w, NULL, &bare));
    refused(br_conv, br_f_conv_transpose1d(x, w, NULL, &bare));
    refused(br_pool, br_f_max_pool1d(x, &bare, NULL));
    refused(br_pool, br_f_avg_pool1d(x, &bare));
    refused(br_attention, br_scaled_dot_product_attention(w, w, w, NULL, &bare));
    refused(br_cross_entropy, br_cross_entropy(row, class, &bare));
    refused(br_cross_entropy, br_nll_loss(row, class, &bare));
    refused(br_triplet, br_triplet_margin_loss(row, row, row, &bare, BR_REDUCTION_MEAN));
    refused(br_graph, br_graph_dot("/nowhere", y, &bare));
    refused(br_graph, br_graph_svg("/nowhere", y, &bare));
    br_attention_html_options page = { 0 };
    check_fails(br_attention_html("/nowhere", 0, NULL, &page) >= 0, "BR_OPTIONS(br_attention_html");
    refused(br_plot, br_plot_svg("/nowhere", 1, &(br_series){ .name = "a" }, &bare));
    br_scope_end(scope);
}

Test(options, structs_of_another_version_are_refused)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_ones(BR_SHAPE(1, 1, 4), BR_F64), *w = br_ones(BR_SHAPE(1, 1, 2), BR_F64);
    br_conv_options conv = br_conv_defaults();
    conv.struct_size -= 8;
    char message[128];
    snprintf(message, sizeof message, "conv1d: struct_size of the options is %zu, must be %zu",
             sizeof conv - 8, sizeof conv);
    check_fails(br_f_conv1d(x, w, NULL, &conv), message);
    check_fails(br_f_conv1d(x, w, NULL, &conv), br_version());
    br_scope_end(scope);
}

/* A constructor that fails returns its module with an error pending. */
#define refused_module(name, call)                                                              \
    do {                                                                                        \
        name##_options bare = { 0 };                                                            \
        void *made = call;                                                                      \
        check_fails(!br_failed(),                                                               \
                    "options were not initialized with their defaults: use BR_OPTIONS(" #name); \
        br_module_free(made);                                                                   \
    } while (0)

Test(options, bare_structs_are_refused_by_modules)
{
    refused_module(br_batch_norm, br_batch_norm1d_new(2, &bare));
    refused_module(br_instance_norm, br_instance_norm1d_new(2, &bare));
    refused_module(br_conv3d, br_conv3d_new(1, 1, BR_TRIPLE(1, 1, 1), true, &bare));
    refused_module(br_pool3d, br_avg_pool3d_new(&bare));
    refused_module(br_interpolate, br_upsample_new(&bare));
    refused_module(br_fold, br_fold_new(2, 2, &bare));
    refused_module(br_embedding_bag, br_embedding_bag_new(2, 2, &bare));
    refused_module(br_conv, br_conv1d_new(1, 1, 2, true, &bare));
    refused_module(br_conv, br_conv_transpose1d_new(1, 1, 2, true, &bare));
    refused_module(br_pool, br_max_pool1d_new(&bare));
    refused_module(br_pool, br_avg_pool2d_new(&bare));
    refused_module(br_rnn, br_rnn_new(2, 2, &bare));
    refused_module(br_rnn, br_lstm_new(2, 2, &bare));
    refused_module(br_rnn, br_gru_new(2, 2, &bare));
    refused_module(br_cross_entropy, br_cross_entropy_loss_new(&bare));
    refused_module(br_triplet, br_triplet_margin_loss_new(&bare, BR_REDUCTION_MEAN));
    refused_module(br_multihead_attention, br_multihead_attention_new(4, 2, &bare));
    refused_module(br_transformer, br_transformer_encoder_layer_new(4, 2, &bare));
    refused_module(br_transformer, br_transformer_decoder_layer_new(4, 2, &bare));
    refused_module(br_transformer, br_transformer_new(4, 2, 1, 1, &bare));
    br_linear *linear = br_linear_new(2, 2, true);
    refused(br_spectral_norm, br_spectral_norm(br_base(linear), "weight", &linear->weight, &bare));
    refused(br_parametrization,
            br_register_parametrization(br_base(linear), "weight", &linear->weight,
                                        br_linear_new(1, 1, false), &bare));
    br_module_free(linear);
}

Test(options, bare_structs_are_refused_by_optimizers)
{
    br_linear *linear = br_linear_new(2, 2, true);
    refused(br_adam, br_adam(br_base(linear), &bare));
    refused(br_adamw, br_adamw(br_base(linear), &bare));
    refused(br_sgd, br_sgd(br_base(linear), &bare));
    refused(br_rmsprop, br_rmsprop(br_base(linear), &bare));
    refused(br_adagrad, br_adagrad(br_base(linear), &bare));
    refused(br_muon, br_muon(br_base(linear), &bare));
    refused(br_adadelta, br_adadelta(br_base(linear), &bare));
    refused(br_adamax, br_adamax(br_base(linear), &bare));
    refused(br_nadam, br_nadam(br_base(linear), &bare));
    refused(br_radam, br_radam(br_base(linear), &bare));
    refused(br_rprop, br_rprop(br_base(linear), &bare));
    refused(br_asgd, br_asgd(br_base(linear), &bare));
    refused(br_lion, br_lion(br_base(linear), &bare));
    refused(br_sparse_adam, br_sparse_adam(br_base(linear), &bare));
    refused(br_lbfgs, br_lbfgs(br_base(linear), &bare));
    refused(br_adafactor, br_adafactor(br_base(linear), &bare));
    br_optim *optim = br_sgd(br_base(linear), NULL);
    refused(br_one_cycle, br_one_cycle_lr(optim, &bare));
    refused(br_plateau, br_reduce_lr_on_plateau(optim, &bare));
    br_optim_free(optim);
    br_module_free(linear);
}

Test(options, bare_structs_are_refused_by_data_and_models)
{
    br_scope *scope = br_scope_begin();
    br_tensor *ids = br_zeros(BR_SHAPE(1, 2), BR_I64);
    br_dataset *numbers = br_dataset_new(3, 1, get_number, NULL, NULL);
    refused(br_loader, br_loader_new(numbers, &bare));
    br_dataset_free(numbers);
    refused(br_token_file, br_token_file_dataset_new("/nowhere", &bare));
    refused(br_safetensors, br_safetensors_open("/nowhere", &bare));
    refused(br_tokenizer, br_tokenizer_from_vocab("/nowhere", &bare));
    refused(br_bpe, br_tokenizer_from_bpe("/nowhere", "/nowhere", &bare));
    refused(br_sentencepiece, br_tokenizer_from_sentencepiece("/nowhere", &bare));
    refused(br_auto_model, br_auto_model_load("/nowhere", &bare, NULL));
    br_linear *linear = br_linear_new(1, 1, true);
    refused(br_auto_model_save, br_auto_model_save("/nowhere", br_base(linear), &bare));
    br_module_free(linear);
    br_gpt2_config small = br_gpt2_config_default();
    small.vocab_size = 4;
    small.n_positions = 4;
    small.n_embd = 4;
    small.n_layer = 1;
    small.n_head = 1;
    br_gpt2_lm *gpt2 = br_gpt2_lm_new(&small);
    br_language_model lm = br_gpt2_language_model(gpt2);
    refused(br_gpt2, br_gpt2_lm_forward(gpt2, ids, &bare));
    refused(br_generate, br_generate(&lm, ids, &bare));
    br_module_free(gpt2);
    br_scope_end(scope);
}
