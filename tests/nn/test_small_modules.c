/* tests/nn/test_small_modules.c - results and errors of modules whose training steps
 * test_recorded_layers.c compares: cells, instance norm, padding, distances and containers. */
#include "tests/ops/values.h"
#include "tests/support.h"

#include <brasa/nn.h>

TestSuite(small_modules, .init = check_begin, .fini = check_end);

/* Asserts that a constructor fails with the message, and that the forward then fails, too. */
#define refuses(call, message)                                                              \
    do {                                                                                    \
        void *made = call;                                                                  \
        cr_assert(strstr(br_error_message(), message), "%s", br_error_message());           \
        br_clear_error();                                                                   \
        check_fails(br_forward(made, br_ones(BR_SHAPE(1, 2, 4), BR_F32)), "is incomplete"); \
        br_module_free(made);                                                               \
    } while (0)

/* ---- Cells ----------------------------------------------------------------------------------- */

/* A cell with a layer's parameters computes the layer's steps. */
Test(small_modules, cells_equal_layers)
{
    br_scope *scope = br_scope_begin();
    br_rnn *layer = br_lstm_new(2, 3, NULL);
    br_rnn_cell *cell = br_lstm_cell_new(2, 3, true);
    br_tensor *from[] = { layer->weights[0], layer->weights[1], layer->weights[2],
                          layer->weights[3] };
    br_tensor *to[] = { cell->weight_ih, cell->weight_hh, cell->bias_ih, cell->bias_hh };
    for (int i = 0; i < 4; i++)
        br_copy_(br_detach(to[i]), from[i]);
    br_tensor *x = br_randn(BR_SHAPE(3, 5, 2), BR_F32), *h = NULL, *c = NULL, *c_n;
    br_tensor *want = br_rnn_forward(layer, x, NULL, NULL, NULL, &c_n);
    for (int i = 0; i < 3; i++) {
        h = br_rnn_cell_forward(cell, br_select(x, 0, i), h, c, &c);
        cr_assert(br_allclose(h, br_select(want, 0, i), 1e-6, 1e-6), "step %d", i);
    }
    cr_assert(br_allclose(c, br_squeeze(c_n, 0), 1e-6, 1e-6));
    br_module_free(layer);
    br_module_free(cell);
    br_scope_end(scope);
}

/* Without a batch, states have one dimension. */
Test(small_modules, cells_without_a_batch)
{
    br_scope *scope = br_scope_begin();
    br_rnn_cell *cells[] = { br_lstm_cell_new(2, 3, true), br_gru_cell_new(2, 3, false),
                             br_rnn_cell_new(2, 3, true, true) };
    br_tensor *x = br_randn(BR_SHAPE(2), BR_F32), *h = br_randn(BR_SHAPE(3), BR_F32);
    for (int i = 0; i < 3; i++) {
        br_tensor *c = i == 0 ? h : NULL, *c_next, *c_batch;
        br_tensor *y = br_rnn_cell_forward(cells[i], x, h, c, &c_next);
        br_tensor *batch = br_rnn_cell_forward(cells[i], br_unsqueeze(x, 0), br_unsqueeze(h, 0),
                                               c ? br_unsqueeze(c, 0) : NULL, &c_batch);
        cr_assert(br_equal(br_unsqueeze(y, 0), batch), "cell %d", i);
        cr_assert_eq(c_next != NULL, i == 0);
        cr_assert(!c_next || br_equal(br_unsqueeze(c_next, 0), c_batch));
        br_tensor *zeros = br_rnn_cell_forward(cells[i], x, br_zeros_like(h), NULL, NULL);
        cr_assert(br_equal(br_forward(cells[i], x), zeros));
        br_add_scalar_(y, 1); /* the state may be changed before backward */
        br_backward(br_sum(y));
        check_ok();
        br_module_free(cells[i]);
    }
    br_scope_end(scope);
}

Test(small_modules, errors_of_cells)
{
    br_scope *scope = br_scope_begin();
    br_rnn_cell *gru = br_gru_cell_new(2, 3, true);
    br_tensor *x = br_ones(BR_SHAPE(4, 2), BR_F32), *h = br_ones(BR_SHAPE(2, 3), BR_F32), *c = x;
    check_fails(br_rnn_cell_forward(gru, x, h, NULL, &c),
                "gru_cell: h [2, 3] must be [4, 3] for input [4, 2]");
    cr_assert_null(c);
    check_fails(br_rnn_cell_forward(gru, x, NULL, h, NULL),
                "gru_cell: c is given, but only an LSTMCell has a cell state");
    check_fails(br_forward(gru, h), "gru_cell: input [2, 3] must have 2 dimensions, or 1 without a "
                                    "batch, the last of size 2");
    check_fails(br_forward(gru, br_to(x, BR_F64)), "f64");
    check_fails(br_rnn_cell_forward(gru, NULL, NULL, NULL, NULL), "input is NULL");
    check_fails(br_rnn_cell_forward(NULL, x, NULL, NULL, NULL), "module is NULL");
    br_module_free(gru);
    refuses(br_lstm_cell_new(0, 3, true), "lstm_cell: input_size is 0, must be at least 1");
    refuses(br_rnn_cell_new(2, 0, true, false), "rnn_cell: hidden_size is 0, must be at least 1");
    br_scope_end(scope);
}

/* ---- Norms, padding, windows ----------------------------------------------------------------- */

Test(small_modules, instance_norm_without_a_batch)
{
    br_scope *scope = br_scope_begin();
    br_instance_norm *norm = br_instance_norm2d_new(2, NULL);
    br_tensor *x = br_randn(BR_SHAPE(2, 3, 4), BR_F32);
    br_tensor *y = br_instance_norm_forward(norm, x);
    cr_assert(br_equal(br_unsqueeze(y, 0), br_instance_norm_forward(norm, br_unsqueeze(x, 0))));
    check_fails(br_forward(norm, br_ones(BR_SHAPE(2, 3), BR_F32)),
                "instance_norm: x [2, 3] must have 4 dimensions, or 3 without a batch, for "
                "InstanceNorm2d");
    check_fails(br_forward(norm, NULL), "x is NULL");
    cr_assert_null(norm->weight);
    br_module_free(norm);
    refuses(br_instance_norm1d_new(-1, NULL), "instance_norm: num_features is -1");
    refuses(br_instance_norm3d_new(1, BR_OPTIONS(br_instance_norm, .eps = -1)),
            "instance_norm: eps is -1, must be at least 0");
    br_scope_end(scope);
}

Test(small_modules, padding_has_the_classes_of_pytorch)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_randn(BR_SHAPE(1, 2, 3, 4), BR_F32);
    br_padding *pads[] = { br_zero_pad_new(BR_DIMS(1, 2)),
                           br_constant_pad_new(BR_DIMS(1, 2, 0, 1), 3),
                           br_reflection_pad_new(BR_DIMS(1, 2, 0, 1)),
                           br_replication_pad_new(BR_DIMS(1, 0, 0, 1, 2, 0)),
                           br_circular_pad_new(BR_DIMS(1, 2, 0, 1)) };
    const char *classes[] = { "ZeroPad1d", "ConstantPad2d", "ReflectionPad2d", "ReplicationPad3d",
                              "CircularPad2d" };
    for (int i = 0; i < 5; i++) {
        cr_assert_str_eq(br_module_class(br_base(pads[i])), classes[i]);
        br_tensor *of = i == 3 ? br_unsqueeze(x, 0) : x;
        cr_assert(br_equal(br_padding_forward(pads[i], of),
                           br_pad(of, pads[i]->n, pads[i]->pad, pads[i]->mode, pads[i]->value)));
        br_module_free(pads[i]);
    }
    refuses(br_zero_pad_new(BR_DIMS(1, 2, 3)),
            "zero_pad: pad has 3 numbers, must have 2, 4 or 6: two for each dimension");
    refuses(br_reflection_pad_new(2, NULL), "reflection_pad: pad has 0 numbers");
    br_scope_end(scope);
}

Test(small_modules, sizes_are_checked)
{
    refuses(br_prelu_new(0, 0.25), "prelu: num_parameters is 0, must be at least 1");
    refuses(br_unfold_new(NULL), "unfold: kernel_size.rows is 0, must be at least 1");
    refuses(br_fold_new(0, 2, BR_OPTIONS(br_fold, .kernel_size = { 1, 1 })),
            "fold: height is 0, must be at least 1");
    refuses(br_upsample_new(NULL), "upsample: size and scale_factor are 0, but one is required");
    refuses(br_max_pool3d_new(NULL), "max_pool3d: kernel_size is 0, must be at least 1");
    refuses(br_adaptive_avg_pool3d_new(1, -1, 1),
            "adaptive_avg_pool3d: output_size is -1, must be at least 0");
    refuses(br_conv3d_new(2, 3, BR_TRIPLE(1, 1, 1), true, BR_OPTIONS(br_conv3d, .groups = 2)),
            "conv3d: in_channels 2 and out_channels 3 must be multiples of groups 2");
    refuses(br_conv_transpose3d_new(2, 3, BR_TRIPLE(1, 0, 1), true, NULL),
            "conv_transpose3d: kernel_size is 0, must be at least 1");
}

/* ---- Random modules -------------------------------------------------------------------------- */

/* Asserts that the module returns `training` in training mode, which is random, and `eval` in
 * evaluation mode. Frees the module. */
#define draws(module, seed, training, eval_value)                     \
    do {                                                              \
        br_module *drawing = br_base(module);                         \
        br_manual_seed(seed);                                         \
        br_tensor *got = br_forward(drawing, x);                      \
        br_manual_seed(seed);                                         \
        cr_assert(br_equal(got, training), "%s", br_error_message()); \
        cr_assert_not(br_equal(got, eval_value));                     \
        br_eval(drawing);                                             \
        cr_assert(br_equal(br_forward(drawing, x), eval_value));      \
        br_module_free(drawing);                                      \
    } while (0)

Test(small_modules, random_modules_draw_in_training)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_randn(BR_SHAPE(3, 4, 2, 2, 2), BR_F32);
    draws(br_dropout_new(0.5), 3, br_f_dropout(x, 0.5, true), x);
    draws(br_dropout3d_new(0.5), 3, br_f_dropout3d(x, 0.5, true), x);
    draws(br_alpha_dropout_new(0.4), 3, br_f_alpha_dropout(x, 0.4, true), x);
    draws(br_feature_alpha_dropout_new(0.4), 3, br_f_feature_alpha_dropout(x, 0.4, true), x);
    draws(br_rrelu_new(0.1, 0.5), 4, br_f_rrelu(x, 0.1, 0.5, true), br_f_rrelu(x, 0.1, 0.5, false));
    x = br_reshape(x, BR_SHAPE(3, 4, 2, 4));
    draws(br_dropout2d_new(0.5), 5, br_f_dropout2d(x, 0.5, true), x);
    x = br_reshape(x, BR_SHAPE(3, 4, 8));
    draws(br_dropout1d_new(0.5), 5, br_f_dropout1d(x, 0.5, true), x);
    check_fails(br_f_dropout1d(br_select(br_select(x, 0, 0), 0, 0), 0.5, true),
                "x [8] must have shape [channels, length] or [batch, channels, length]");
    refuses(br_dropout1d_new(1.5), "dropout1d: p is 1.5, must be in 0 .. 1");
    refuses(br_alpha_dropout_new(NAN), "alpha_dropout: p is nan");
    refuses(br_rrelu_new(0.5, 0.1), "rrelu: lower is 0.5 and upper is 0.1, must be finite");
    br_scope_end(scope);
}

/* ---- Pooling --------------------------------------------------------------------------------- */

Test(small_modules, unpool_has_the_sizes_of_pytorch)
{
    br_scope *scope = br_scope_begin();
    br_unpool *line = br_max_unpool1d_new(
        BR_OPTIONS(br_pool, .kernel_size = { .rows = 3 }, .stride = { .rows = 2 }));
    br_unpool *volume = br_max_unpool3d_new(BR_OPTIONS(
        br_pool3d, .kernel_size = { 2, 3, 2 }, .stride = { 1, 2, 2 }, .padding = { 0, 1, 1 }));
    br_tensor *x = br_randn(BR_SHAPE(1, 2, 4), BR_F32);
    br_tensor *at = br_arange(0, 4, 1, BR_I64);
    at = br_repeat(br_mul_scalar(at, 2), BR_SHAPE(1, 2, 1));
    br_tensor *y = br_unpool_forward(line, x, at, NULL);
    check_shape(y, BR_SHAPE(1, 2, 9));
    cr_assert(br_equal(br_gather(y, 2, at), x));
    check_shape(br_unpool_forward(line, x, at, (int64_t[]){ 10 }), BR_SHAPE(1, 2, 10));
    check_fails(br_unpool_forward(line, x, at, (int64_t[]){ 11 }),
                "max_unpool1d: output_size is 11 for pooled dimension 0, must be in 8 .. 10 for x "
                "[1, 2, 4]");
    check_fails(br_unpool_forward(line, x, at, (int64_t[]){ 7 }), "output_size is 7");
    check_fails(br_unpool_forward(line, br_select(br_select(x, 0, 0), 0, 0), at, NULL),
                "x [4] must have 3 dimensions, or 2 without the batch");
    check_fails(br_unpool_forward(line, NULL, at, NULL), "x is NULL");
    check_fails(br_unpool_forward(NULL, x, at, NULL), "module is NULL");
    x = br_zeros(BR_SHAPE(1, 2, 3, 4), BR_F32);
    check_shape(br_unpool_forward(volume, x, br_to(x, BR_I64), NULL), BR_SHAPE(1, 3, 5, 6));
    br_module_free(line);
    br_module_free(volume);
    br_unpool *incomplete[] = { br_max_unpool2d_new(NULL), NULL };
    cr_assert(strstr(br_error_message(), "max_unpool2d: kernel_size is 0, must be at least 1"));
    br_clear_error();
    incomplete[1] =
        br_max_unpool1d_new(BR_OPTIONS(br_pool, .kernel_size = { 2, 2 }, .padding = { -1, 0 }));
    cr_assert(strstr(br_error_message(), "max_unpool1d: padding is -1, must be at least 0"));
    br_clear_error();
    for (int i = 0; i < 2; i++) {
        check_fails(br_unpool_forward(incomplete[i], x, br_to(x, BR_I64), NULL), "is incomplete");
        br_module_free(incomplete[i]);
    }
    refuses(br_local_response_norm_new(0, 1e-4, 0.75, 1),
            "local_response_norm: size is 0, must be at least 1");
    refuses(br_unflatten_new(1, 2, NULL), "unflatten: sizes has 0 numbers, must have 1 ..");
    for (int dim = -3; dim <= 2; dim += 5) {
        char text[48];
        br_unflattening *unflatten = br_unflatten_new(dim, BR_SHAPE(2, -1));
        snprintf(text, sizeof text, "unflatten: x [4, 2] has no dimension %d", dim);
        check_fails(br_forward(unflatten, br_ones(BR_SHAPE(4, 2), BR_F32)), text);
        br_module_free(unflatten);
    }
    refuses(br_adaptive_max_pool3d_new(1, -1, 1),
            "adaptive_max_pool3d: output_size is -1, must be at least 0");
    br_scope_end(scope);
}

/* ---- Modules of two inputs ------------------------------------------------------------------- */

Test(small_modules, distances)
{
    br_scope *scope = br_scope_begin();
    br_tensor *a = br_randn(BR_SHAPE(3, 4), BR_F32), *b = br_randn(BR_SHAPE(3, 4), BR_F32);
    br_distance *cosine = br_cosine_similarity_new(0, 1e-8);
    br_distance *pairwise = br_pairwise_distance_new(1, 0.1, true);
    cr_assert(br_equal(br_distance_forward(cosine, a, b), br_cosine_similarity(a, b, 0, 1e-8)));
    cr_assert(
        br_equal(br_distance_forward(pairwise, a, b), br_pairwise_distance(a, b, 1, 0.1, true)));
    check_fails(br_distance_forward(cosine, a, NULL), "x2 is NULL");
    check_fails(br_distance_forward(NULL, a, b), "module is NULL");
    br_module_free(cosine);
    br_module_free(pairwise);
    br_scope_end(scope);
}

Test(small_modules, errors_of_bags_and_bilinear)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_ones(BR_SHAPE(2, 3), BR_F32);
    void *made = br_embedding_bag_new(4, 2, BR_OPTIONS(br_embedding_bag, .per_sample_weights = x));
    cr_assert(strstr(br_error_message(), "pass it to br_embedding_bag_forward()"));
    br_clear_error();
    br_module_free(made);
    made = br_embedding_bag_new(4, 2, BR_OPTIONS(br_embedding_bag, .padding_idx = 4));
    cr_assert(strstr(br_error_message(), "embedding_bag: padding_idx is 4"));
    br_clear_error();
    check_fails(br_embedding_bag_forward(made, br_to(x, BR_I64), NULL, NULL), "is incomplete");
    br_module_free(made);
    br_bilinear *bilinear = br_bilinear_new(3, 4, 2, false);
    cr_assert_null(bilinear->bias);
    check_fails(br_bilinear_forward(bilinear, x, NULL), "x2 is NULL");
    br_module_free(bilinear);
    made = br_bilinear_new(0, 4, 2, true);
    cr_assert(strstr(br_error_message(), "bilinear: in1_features is 0, must be at least 1"));
    br_clear_error();
    br_module_free(made);
    br_scope_end(scope);
}

/* ---- Containers ------------------------------------------------------------------------------ */

Test(small_modules, module_dict)
{
    br_module_dict *dict = br_module_dict_new();
    br_linear *linear = br_module_dict_add(dict, "one", br_linear_new(2, 2, true));
    cr_assert_eq(br_module_dict_at(dict, "one"), linear);
    check_fails(br_module_dict_at(dict, "two"), "module_dict: key \"two\" is none of the 1 keys");
    check_fails(br_module_dict_at(dict, NULL), "key is NULL");
    check_fails(br_module_dict_at(NULL, "one"), "module is NULL");
    check_fails(br_module_dict_add(dict, "two", NULL), "module_dict_add: module is NULL");
    check_fails(br_module_dict_add(NULL, "two", br_relu_new()), "module is NULL");
    check_fails(br_module_dict_add(dict, NULL, br_relu_new()), "module_dict_add: key is NULL");
    check_fails(br_module_dict_add(dict, "one", br_relu_new()), "one");
    br_module_free(dict);
}

Test(small_modules, parameter_list)
{
    br_scope *scope = br_scope_begin();
    br_parameter_list *list = br_parameter_list_new();
    br_tensor *first = br_parameter_list_append(list, br_ones(BR_SHAPE(2), BR_F32));
    br_tensor *second = br_parameter_list_append(list, br_ones(BR_SHAPE(3), BR_F32));
    cr_assert_eq(br_parameter_list_size(list), 2);
    cr_assert_eq(br_parameter_list_at(list, 0), first);
    cr_assert_eq(br_parameter_list_at(list, -1), second);
    cr_assert(br_requires_grad(second));
    check_fails(br_parameter_list_at(list, 2),
                "parameter_list: index 2 is out of range for 2 parameters");
    check_fails(br_parameter_list_at(list, -3), "index -3 is out of range");
    check_fails(br_parameter_list_append(list, NULL), "t is NULL");
    check_fails(br_parameter_list_append(NULL, first), "module is NULL");
    cr_assert_eq(br_parameter_list_size(list), 2);
    br_module_free(list);
    br_scope_end(scope);
}
