/* tests/nn/test_layers.c - compares initial values in both dtypes with PyTorch's, and tests the
 * results and errors of layers. */
#include "tests/nn/init_values.h"
#include "tests/support.h"

#include <brasa/nn.h>
#include <float.h>

TestSuite(layers, .init = check_begin, .fini = check_end);

/* Asserts that t has the recorded values within `tolerance`. */
#define check_values(t, values, tolerance)                                                     \
    do {                                                                                       \
        br_scope *check_scope = br_scope_begin();                                              \
        br_tensor *check_t = br_contiguous(br_to(br_detach(t), BR_F64));                       \
        const double *check_data = br_data_f64(check_t);                                       \
        check_ok();                                                                            \
        cr_assert_eq(br_numel(t), (int64_t)(sizeof(values) / sizeof *(values)));               \
        for (int64_t check_i = 0; check_i < br_numel(t); check_i++)                            \
            cr_assert(fabs(check_data[check_i] - (values)[check_i]) <= (tolerance),            \
                      "%s[%d] = %.17g, expected %.17g", #t, (int)check_i, check_data[check_i], \
                      (values)[check_i]);                                                      \
        br_scope_end(check_scope);                                                             \
    } while (0)

typedef br_tensor *(*fill_fn)(br_tensor *t);

static br_tensor *fill_uniform(br_tensor *t)
{
    return br_init_uniform_(t, -2, 3);
}

static br_tensor *fill_normal(br_tensor *t)
{
    return br_init_normal_(t, 1, 0.5);
}

static br_tensor *fill_xavier_uniform(br_tensor *t)
{
    return br_init_xavier_uniform_(t, 1.5);
}

static br_tensor *fill_xavier_normal(br_tensor *t)
{
    return br_init_xavier_normal_(t, 1.5);
}

static br_tensor *fill_kaiming_uniform(br_tensor *t)
{
    return br_init_kaiming_uniform_(t, 0.3);
}

static br_tensor *fill_kaiming_normal(br_tensor *t)
{
    return br_init_kaiming_normal_(t, 0.3);
}

static br_tensor *fill_kaiming_uniform_out(br_tensor *t)
{
    return br_init_kaiming_uniform_for_(t, 0, BR_FAN_OUT, "tanh");
}

static br_tensor *fill_kaiming_normal_out(br_tensor *t)
{
    return br_init_kaiming_normal_for_(t, 0, BR_FAN_OUT, "relu");
}

static br_tensor *fill_trunc_normal(br_tensor *t)
{
    return br_init_trunc_normal_(t, 0.5, 2, -1, 2);
}

static br_tensor *fill_trunc_tail(br_tensor *t)
{
    return br_init_trunc_normal_(t, 0, 1, 1.5, 4);
}

/* Returns a parameter of this dtype filled from seed 11. It must remain a leaf. */
static br_tensor *filled(fill_fn fill, br_dtype dtype)
{
    br_tensor *t = br_set_requires_grad(br_zeros(BR_SHAPE(3, 4, 2), dtype), true);
    uint64_t version = br_tensor_version(t);
    br_manual_seed(11);
    cr_assert_eq(fill(t), t);
    cr_assert_gt(br_tensor_version(t), version);
    cr_assert(br_is_leaf(t));
    return t;
}

#define check_init(name, tolerance_f32, tolerance_f64)                        \
    do {                                                                      \
        check_values(filled(fill_##name, BR_F32), name##_f32, tolerance_f32); \
        check_values(filled(fill_##name, BR_F64), name##_f64, tolerance_f64); \
    } while (0)

Test(layers, initial_values_equal_pytorch)
{
    br_scope *scope = br_scope_begin();
    check_init(uniform, 0, 0);
    check_init(normal, 2.5e-7, 5e-16);
    check_init(xavier_uniform, 0, 0);
    check_init(xavier_normal, 2.5e-7, 5e-16);
    check_init(kaiming_uniform, 0, 0);
    check_init(kaiming_normal, 2.5e-7, 5e-16);
    check_init(kaiming_uniform_out, 0, 0);
    check_init(kaiming_normal_out, 2.5e-7, 5e-16);
    check_init(trunc_normal, 2.5e-7, 5e-16);
    check_init(trunc_tail, 2.5e-7, 5e-16);
    br_scope_end(scope);
}

Test(layers, init_fills_constants)
{
    br_scope *scope = br_scope_begin();
    br_tensor *t = br_set_requires_grad(br_zeros(BR_SHAPE(2, 3), BR_F32), true);
    check_values(br_init_constant_(t, 2.5), ((double[]){ 2.5, 2.5, 2.5, 2.5, 2.5, 2.5 }), 0);
    check_values(br_init_ones_(t), ((double[]){ 1, 1, 1, 1, 1, 1 }), 0);
    check_values(br_init_eye_(t), ((double[]){ 1, 0, 0, 0, 1, 0 }), 0);
    check_values(br_init_zeros_(t), ((double[]){ 0, 0, 0, 0, 0, 0 }), 0);
    cr_assert(br_is_leaf(t) && br_requires_grad(t));
    br_scope_end(scope);
}

Test(layers, init_errors)
{
    br_scope *scope = br_scope_begin();
    br_tensor *line = br_zeros(BR_SHAPE(3), BR_F32), *whole = br_zeros(BR_SHAPE(2, 2), BR_I64);
    br_tensor *t = br_zeros(BR_SHAPE(2, 2), BR_F32);
    check_fails(br_init_xavier_uniform_(line, 1), "t [3] must have at least 2 dimensions");
    check_fails(br_init_kaiming_normal_(NULL, 1), "t is NULL");
    check_fails(br_init_kaiming_normal_for_(t, 1, BR_FAN_IN, "none"),
                "nonlinearity is 'none', must be linear, sigmoid");
    check_fails(br_init_uniform_(whole, 0, 1), "is i64, must be a floating-point dtype");
    check_fails(br_init_eye_(line), "must have 2 dimensions");
    check_fails(br_init_trunc_normal_(t, 0, 0, -1, 1), "std must be positive");
    check_fails(br_init_trunc_normal_(t, 0, 1, 1, -1), "low at most high");
    check_fails(br_init_trunc_normal_(t, 0, 1, NAN, 1), "low at most high");
    check_fails(br_init_trunc_normal_(t, 0, 1, 5, INFINITY), "has almost no probability");
    check_fails(br_init_trunc_normal_(t, 0, 1, 5, 1e30), "has almost no probability");
    cr_assert_eq(br_init_trunc_normal_(t, 0, 1, 9, 9), t);
    cr_assert_eq(br_at(t, 2, (int64_t[]){ 1, 1 }), 9);
    br_tensor *wide = br_expand(line, BR_SHAPE(2, 3));
    check_fails(br_init_trunc_normal_(wide, 0, 1, -2, 2),
                "init_trunc_normal_: t [2, 3] is expanded");
    br_tensor *none = br_zeros(BR_SHAPE(0, 4), BR_F32);
    cr_assert_eq(br_init_kaiming_uniform_(none, 0), none);
    check_ok();
    br_scope_end(scope);
}

Test(layers, forward_equals_the_functions)
{
    br_scope *scope = br_scope_begin();
    br_linear *linear = br_linear_new(3, 2, true);
    br_embedding *embedding = br_embedding_new(4, 3, 0);
    br_layer_norm *norm = br_layer_norm_new(3, NULL);
    br_tensor *index = br_from_i64(BR_SHAPE(2), (int64_t[]){ 3, 0 });
    br_tensor *x = br_embedding_forward(embedding, index);
    cr_assert(br_equal(x, br_f_embedding(embedding->weight, index, 0)));
    cr_assert_eq(br_at(x, 2, (int64_t[]){ 1, 2 }), 0);
    cr_assert(br_equal(br_linear_forward(linear, x), br_f_linear(x, linear->weight, linear->bias)));
    cr_assert(br_equal(br_layer_norm_forward(norm, x),
                       br_f_layer_norm(x, BR_SHAPE(3), norm->weight, norm->bias, 1e-5)));
    check_ok();
    br_module_free(linear);
    br_module_free(embedding);
    br_module_free(norm);
    br_scope_end(scope);
}

static br_tensor *gelu_erf(br_tensor *x)
{
    return br_gelu(x, BR_GELU_ERF);
}

static br_tensor *gelu_tanh(br_tensor *x)
{
    return br_gelu(x, BR_GELU_TANH);
}

Test(layers, activations_apply_their_functions)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_linspace(-2, 2, 9, BR_F64);
    const struct {
        br_activation *module;
        br_tensor *want;
        const char *class_name;
    } cases[] = { { br_relu_new(), br_relu(x), "ReLU" },
                  { br_tanh_new(), br_tanh(x), "Tanh" },
                  { br_sigmoid_new(), br_sigmoid(x), "Sigmoid" },
                  { br_gelu_new(BR_GELU_ERF), br_gelu(x, BR_GELU_ERF), "GELU" },
                  { br_gelu_new(BR_GELU_TANH), br_gelu(x, BR_GELU_TANH), "GELU" } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_assert(br_equal(br_forward(cases[i].module, x), cases[i].want), "case %zu", i);
        cr_assert_str_eq(br_module_class(br_base(cases[i].module)), cases[i].class_name);
        br_module_free(cases[i].module);
    }
    br_scope_end(scope);
}

/* With `inplace` an activation overwrites x, but only if nothing else can observe the change. */
Test(layers, inplace_activations)
{
    const struct {
        br_activation *module;
        br_tensor *(*want)(br_tensor *x);
    } cases[] = { { br_relu_new(), br_relu },
                  { br_tanh_new(), br_tanh },
                  { br_sigmoid_new(), br_sigmoid },
                  { br_silu_new(), br_silu },
                  { br_gelu_new(BR_GELU_ERF), gelu_erf },
                  { br_gelu_new(BR_GELU_TANH), gelu_tanh } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        br_activation *module = cases[i].module;
        br_scope *scope = br_no_grad_begin();
        br_tensor *given = br_linspace(-2, 2, 9, BR_F32), *want = cases[i].want(given);
        br_tensor *x = br_clone(given);
        cr_assert_neq(br_activation_forward(module, x), x, "case %zu: inplace is not set", i);
        cr_assert(br_equal(x, given), "case %zu", i);
        module->inplace = true;
        br_retain(x);
        cr_assert_neq(br_activation_forward(module, x), x, "case %zu: x is retained", i);
        br_release(x);
        br_scope *inner = br_scope_begin();
        cr_assert_neq(br_activation_forward(module, x), x, "case %zu: x belongs to the outer scope",
                      i);
        br_scope_end(inner);
        br_set_grad_enabled(true);
        cr_assert_neq(br_activation_forward(module, x), x, "case %zu: grad mode is on", i);
        br_set_grad_enabled(false);
        cr_assert(br_equal(x, given), "case %zu", i);
        int64_t live = br_live_tensors();
        cr_assert_eq(br_activation_forward(module, x), x, "case %zu", i);
        cr_assert_eq(br_live_tensors(), live, "case %zu", i);
        cr_assert(br_equal(x, want), "case %zu", i);
        br_module_free(module);
        br_scope_end(scope);
    }
    /* Other activations ignore `inplace`. */
    br_scope *scope = br_no_grad_begin();
    br_activation *elu = br_elu_new(1);
    elu->inplace = true;
    br_tensor *x = br_ones(BR_SHAPE(2), BR_F32);
    cr_assert_neq(br_activation_forward(elu, x), x);
    check_ok();
    br_module_free(elu);
    br_scope_end(scope);
}

Test(layers, dropout_follows_the_mode)
{
    br_scope *scope = br_scope_begin();
    br_dropout *dropout = br_dropout_new(1);
    br_tensor *x = br_ones(BR_SHAPE(8), BR_F32);
    cr_assert_eq(br_item(br_sum(br_dropout_forward(dropout, x))), 0);
    br_eval(br_base(dropout));
    cr_assert_eq(br_item(br_sum(br_dropout_forward(dropout, x))), 8);
    br_module_free(dropout);
    br_scope_end(scope);
}

#define check_refused(constructor, part)                                                      \
    do {                                                                                      \
        br_module *check_module = (br_module *)(constructor);                                 \
        cr_assert_not_null(check_module);                                                     \
        cr_assert(strstr(br_error_message(), (part)), "message: %s", br_error_message());     \
        br_clear_error();                                                                     \
        check_fails(br_forward(check_module, NULL), "is incomplete: its constructor failed"); \
        br_module_free(check_module);                                                         \
    } while (0)

/* An eps of 0 is 0, and an eps that is left out is PyTorch's. */
Test(layers, eps_of_norms)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_randn(BR_SHAPE(2, 3), BR_F32);
    br_layer_norm *layer = br_layer_norm_new(3, BR_OPTIONS(br_layer_norm, .eps = 0));
    br_rms_norm *rms = br_rms_norm_new(3, BR_OPTIONS(br_rms_norm, .eps = 0));
    br_group_norm *group = br_group_norm_new(1, 3, BR_OPTIONS(br_group_norm, .eps = 0));
    br_batch_norm *batch = br_batch_norm1d_new(3, BR_OPTIONS(br_batch_norm, .eps = 0));
    cr_assert(br_equal(br_layer_norm_forward(layer, x),
                       br_f_layer_norm(x, BR_SHAPE(3), layer->weight, layer->bias, 0)));
    cr_assert(br_equal(br_rms_norm_forward(rms, x), br_f_rms_norm(x, BR_SHAPE(3), rms->weight, 0)));
    cr_assert(br_equal(br_group_norm_forward(group, x),
                       br_f_group_norm(x, 1, group->weight, group->bias, 0)));
    br_eval(br_base(batch)); /* its statistics are 0 and 1 */
    cr_assert(br_equal(br_batch_norm_forward(batch, x), x));
    check_ok();
    void *modules[] = { layer,
                        rms,
                        group,
                        batch,
                        br_layer_norm_new(3, NULL),
                        br_rms_norm_new(3, NULL),
                        br_group_norm_new(1, 3, NULL) };
    cr_assert_eq(((br_layer_norm *)modules[4])->eps, 1e-5);
    cr_assert(isnan(((br_rms_norm *)modules[5])->eps));
    cr_assert_eq(((br_group_norm *)modules[6])->eps, 1e-5);
    cr_assert(br_equal(br_rms_norm_forward(modules[5], x),
                       br_f_rms_norm(x, BR_SHAPE(3), NULL, FLT_EPSILON)));
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++)
        br_module_free(modules[i]);
    br_scope_end(scope);
}

Test(layers, failed_constructors_return_modules_that_can_be_freed)
{
    check_refused(br_linear_new(-1, 2, true), "in_features is -1");
    check_refused(br_linear_new(1, -2, true), "out_features is -2");
    check_refused(br_embedding_new(3, 2, 3), "padding_idx is 3");
    check_refused(br_embedding_new(3, -2, -1), "embedding_dim is -2");
    check_refused(br_layer_norm_new(3, BR_OPTIONS(br_layer_norm, .eps = -1)), "eps is -1");
    check_refused(br_dropout_new(1.5), "p is 1.5, must be in 0 .. 1");
    check_refused(br_dropout_new(NAN), "p is nan");
    check_refused(br_conv2d_new(2, 2, 3, 3, true, BR_OPTIONS(br_conv, .stride = { 0, 1 })),
                  "conv2d: stride is 0");
    check_refused(
        br_conv1d_new(2, 2, 3, true, BR_OPTIONS(br_conv, .same = true, .stride = BR_PAIR(2, 1))),
        "conv1d: stride is 2, must be 1 with `same`");
    check_refused(br_conv_transpose1d_new(2, 2, 3, true,
                                          BR_OPTIONS(br_conv, .output_padding = BR_PAIR(1, 0))),
                  "conv_transpose1d: output_padding is 1, must be less than the stride 1");
    check_refused(br_max_pool1d_new(NULL), "max_pool1d: kernel_size is 0, must be at least 1");
    check_refused(br_avg_pool2d_new(BR_OPTIONS(br_pool, .kernel_size = BR_PAIR(2, 0))),
                  "avg_pool2d: kernel_size is 0");
    check_fails(br_linear_forward(NULL, NULL), "module is NULL");
}

Test(layers, a_linear_layer_without_inputs)
{
    br_scope *scope = br_scope_begin();
    br_linear *linear = br_linear_new(0, 3, true);
    check_ok();
    br_tensor *y = br_linear_forward(linear, br_zeros(BR_SHAPE(2, 0), BR_F32));
    check_ok();
    cr_assert_eq(br_at(y, 2, (int64_t[]){ 1, 2 }), 0);
    br_module_free(linear);
    br_scope_end(scope);
}

/* Row 3 is looked up twice, so each lookup counts half; the option is for bags, too. */
Test(layers, embedding_scale_grad_by_freq)
{
    br_scope *scope = br_scope_begin();
    br_embedding *embedding = br_embedding_new(4, 2, -1);
    embedding->scale_grad_by_freq = true;
    const float factors[] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    br_tensor *index = br_from_i64(BR_SHAPE(2, 2), (int64_t[]){ 3, 0, 1, 3 });
    br_tensor *y = br_embedding_forward(embedding, index);
    br_backward(br_sum(br_mul(y, br_from_f32(BR_SHAPE(2, 2, 2), factors))));
    check_values(br_grad_of(embedding->weight), ((double[]){ 3, 4, 5, 6, 0, 0, 4, 5 }), 0);
    br_embedding_bag *bag = br_embedding_bag_new(
        4, 2, BR_OPTIONS(br_embedding_bag, .mode = BR_BAG_SUM, .scale_grad_by_freq = true));
    br_backward(br_sum(br_embedding_bag_forward(bag, index, NULL, NULL)));
    check_values(br_grad_of(bag->weight), ((double[]){ 1, 1, 1, 1, 0, 0, 1, 1 }), 0);
    br_tensor *i32 = br_to(index, BR_I32);
    cr_assert(br_equal(br_scale_grad_by_freq(y, i32), y));
    check_fails(br_scale_grad_by_freq(y, br_select(index, 0, 0)),
                "rows [2, 2, 2] must have the shape of index [2] and one more dimension");
    check_fails(br_embedding_renorm_(embedding->weight, index, -1, 2),
                "max_norm is -1, must not be negative");
    check_fails(br_embedding_renorm_(br_ones(BR_SHAPE(3), BR_F32), index, 1, 2),
                "weight [3] must have two dimensions");
    bag->options.max_norm = NAN;
    check_fails(br_embedding_bag_forward(bag, index, NULL, NULL), "max_norm is nan");
    br_module_free(bag);
    br_module_free(embedding);
    br_scope_end(scope);
}

/* A bf16 row is scaled in f32 and rounded once. */
Test(layers, embedding_renorm_of_bf16)
{
    br_scope *scope = br_scope_begin();
    br_tensor *wide = br_randn(BR_SHAPE(5, 7), BR_F32), *index = br_arange(0, 4, 1, BR_I64);
    br_tensor *weight = br_to(wide, BR_BF16), *expected = br_to(weight, BR_F32);
    br_embedding_renorm_(weight, index, 1, 2);
    br_embedding_renorm_(expected, index, 1, 2);
    cr_assert(br_equal(weight, br_to(expected, BR_BF16)));
    br_scope_end(scope);
}

/* Rows that are looked up are scaled down to max_norm; other rows do not change. */
Test(layers, embedding_max_norm)
{
    br_scope *scope = br_scope_begin();
    br_embedding *embedding = br_embedding_new(4, 2, -1);
    const float rows[] = { 3, 4, 0.3f, 0.4f, 30, 40, -6, 8 };
    embedding->max_norm = 2;
    br_scope *unrecorded = br_no_grad_begin();
    br_copy_(embedding->weight, br_from_f32(BR_SHAPE(4, 2), rows));
    br_scope_end(unrecorded);
    br_tensor *index = br_from_i64(BR_SHAPE(2, 2), (int64_t[]){ 3, 0, 1, 3 });
    br_tensor *y = br_embedding_forward(embedding, index);
    check_values(embedding->weight, ((double[]){ 1.2, 1.6, 0.3, 0.4, 30, 40, -1.2, 1.6 }), 1e-6);
    cr_assert(br_equal(y, br_f_embedding(embedding->weight, index, -1)));
    br_backward(br_sum(y));
    check_values(br_grad_of(embedding->weight), ((double[]){ 1, 1, 1, 1, 0, 0, 2, 2 }), 0);
    check_fails(br_embedding_forward(embedding, br_from_i64(BR_SHAPE(1), (int64_t[]){ 4 })),
                "index 4 at position [0] is outside 0 .. 3");
    embedding->max_norm = 0.25; /* a row of exactly this norm stays */
    br_copy_(br_select(br_detach(embedding->weight), 0, 1),
             br_from_f32(BR_SHAPE(2), (float[]){ 0, 0.25 }));
    br_embedding_forward(embedding, br_from_i64(BR_SHAPE(1), (int64_t[]){ 1 }));
    cr_assert_eq(br_at(embedding->weight, BR_DIMS(1, 1)), 0.25);
    embedding->max_norm = 2;
    embedding->norm_type = 1;
    br_embedding_forward(embedding, br_from_i64(BR_SHAPE(1), (int64_t[]){ 2 }));
    check_close(br_at(embedding->weight, BR_DIMS(2, 0)), 6.0 / 7, 1e-6);
    br_module_free(embedding);
    br_scope_end(scope);
}
