/* Attention and Transformer modules beyond what golden files check: equal ways to one result, masks
 * left out, refusals, memory. Numbers and gradients are checked by `brasa check` (tests/golden). */
#include "tests/memory.h"

#include <brasa/nn.h>

TestSuite(transformer, .init = check_begin, .fini = check_end);

static br_multihead_attention *attention_new(const br_multihead_attention_options *options)
{
    br_manual_seed(5);
    return br_multihead_attention_new(6, 2, options);
}

Test(transformer, layouts_and_weights_give_the_same)
{
    br_multihead_attention *last = attention_new(NULL);
    br_multihead_attention *first =
        attention_new(&(br_multihead_attention_options){ .batch_first = true });
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_randn(BR_SHAPE(3, 4, 6), BR_F32), *weights = NULL;
    br_multihead_attention_inputs inputs = { .weights = &weights, .is_causal = true };
    br_tensor *a = br_multihead_attention_forward(first, x, x, x, &inputs);
    cr_assert_not_null(a, "%s", br_error_message());
    br_tensor *t = br_transpose(x, 0, 1);
    inputs.weights = NULL;
    br_tensor *b = br_multihead_attention_forward(last, t, t, t, &inputs);
    cr_assert(br_allclose(br_detach(a), br_transpose(br_detach(b), 0, 1), 0, 1e-6));
    cr_assert_eq(br_ndim(weights), 3);
    cr_assert(br_allclose(br_sum_dim(br_detach(weights), BR_DIMS(-1), false),
                          br_ones(BR_SHAPE(3, 4), BR_F32), 0, 1e-6));
    cr_assert_eq(br_at(weights, BR_SHAPE(0, 0, 1)), 0, "the first query sees itself alone");
    br_tensor *row = br_select(x, 0, 1);
    br_tensor *c = br_multihead_attention_forward(
        first, row, row, row, &(br_multihead_attention_inputs){ .is_causal = true });
    cr_assert(br_allclose(br_detach(c), br_select(br_detach(a), 0, 1), 0, 1e-6));
    br_scope_end(scope);
    br_free_module(last);
    br_free_module(first);
}

static br_tensor *seen;

static br_tensor *see(br_module *module, br_tensor *t, void *context)
{
    (void)module;
    (void)context;
    seen = t;
    return NULL;
}

static br_tensor *keep(br_module *module, br_tensor *t, void *context)
{
    return see(module, br_retain(t), context);
}

static br_tensor *put_in_place(br_module *module, br_tensor *t, void *context)
{
    (void)module;
    (void)t;
    (void)context;
    return seen;
}

/* Without a record the activation is written over the linear layer's result: where nobody sees it,
 * so not if a hook keeps that, nor if one puts the layer's own x in its place. */
Test(transformer, hooks_do_not_see_what_is_overwritten)
{
    for (int gelu = 0; gelu < 2; gelu++) {
        br_transformer_options options = { .gelu = gelu, .dim_feedforward = 6 };
        br_transformer_encoder_layer *layer = br_transformer_encoder_layer_new(6, 2, &options);
        br_eval(br_base(layer));
        br_module *linear = br_base(layer->linear1);
        br_scope *scope = br_no_grad_begin();
        br_init_eye_(layer->linear1->weight); /* its result is its input */
        br_init_zeros_(layer->linear1->bias);
        br_tensor *x = br_randn(BR_SHAPE(4, 2, 6), BR_F32);
        br_tensor *want = br_transformer_encoder_layer_forward(layer, x, NULL, NULL, false);
        uint64_t keeps = br_module_register_forward_hook(linear, keep, NULL);
        cr_assert(
            br_equal(br_transformer_encoder_layer_forward(layer, x, NULL, NULL, false), want));
        cr_assert_lt(br_item(br_min(seen)), -0.4, "the activation has been applied");
        br_release(seen);
        br_module_remove_hook(linear, keeps);
        br_module_register_forward_pre_hook(linear, see, NULL);
        br_module_register_forward_hook(linear, put_in_place, NULL);
        cr_assert(
            br_equal(br_transformer_encoder_layer_forward(layer, x, NULL, NULL, false), want));
        br_scope_end(scope);
        br_free_module(layer);
    }
}

Test(transformer, the_causal_mask_may_be_left_out)
{
    br_transformer *self =
        br_transformer_new(6, 2, 1, 1, &(br_transformer_options){ .gelu = true });
    br_scope *scope = br_scope_begin();
    br_tensor *src = br_randn(BR_SHAPE(4, 2, 6), BR_F32),
              *tgt = br_randn(BR_SHAPE(3, 2, 6), BR_F32);
    br_tensor *padding = br_zeros(BR_SHAPE(2, 3), BR_BOOL);
    br_tensor *mask = br_transformer_square_subsequent_mask(3, BR_F32);
    br_transformer_masks given = { .tgt_mask = mask, .tgt_key_padding_mask = padding };
    br_transformer_masks left_out = { .tgt_is_causal = true, .tgt_key_padding_mask = padding };
    br_tensor *a = br_transformer_forward(self, src, tgt, &given);
    br_tensor *b = br_transformer_forward(self, src, tgt, &left_out);
    cr_assert(br_allclose(br_detach(a), br_detach(b), 0, 1e-6));
    left_out.tgt_key_padding_mask = NULL;
    b = br_transformer_forward(self, src, tgt, &left_out);
    cr_assert(br_allclose(br_detach(a), br_detach(b), 0, 1e-6));
    cr_assert_not(br_allclose(br_detach(a), br_detach(br_transformer_forward(self, src, tgt, NULL)),
                              0, 1e-3));
    br_scope_end(scope);
    br_free_module(self);
}

Test(transformer, dropout_and_activation_are_the_options)
{
    br_transformer_options options = { .dropout = 0.5,
                                       .dim_feedforward = 8,
                                       .activation = br_tanh };
    br_transformer_encoder *self = br_transformer_encoder_new(6, 2, 2, true, &options);
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_randn(BR_SHAPE(4, 2, 6), BR_F32);
    br_tensor *a = br_transformer_encoder_forward(self, x, NULL, NULL, false);
    br_tensor *b = br_transformer_encoder_forward(self, x, NULL, NULL, false);
    cr_assert_not(br_equal(br_detach(a), br_detach(b)));
    br_eval(br_base(self));
    a = br_transformer_encoder_forward(self, x, NULL, NULL, false);
    b = br_transformer_encoder_forward(self, x, NULL, NULL, false);
    cr_assert(br_equal(br_detach(a), br_detach(b)));
    cr_assert(br_equal(br_detach(br_module_get(br_base(self), "layers.0.linear1.weight")),
                       br_detach(br_module_get(br_base(self), "layers.1.linear1.weight"))));
    br_scope_end(scope);
    br_free_module(self);
}

#define REFUSED(module, part)    \
    do {                         \
        void *refused = module;  \
        check_fails(NULL, part); \
        br_free_module(refused); \
    } while (0)

Test(transformer, arguments_are_checked)
{
    REFUSED(br_multihead_attention_new(6, 4, NULL), "embed_dim is 6, num_heads 4");
    REFUSED(br_multihead_attention_new(0, 1, NULL), "embed_dim is 0");
    REFUSED(attention_new(&(br_multihead_attention_options){ .kdim = -1 }), "kdim is -1");
    REFUSED(attention_new(&(br_multihead_attention_options){ .dropout = 2 }), "dropout is 2");
    REFUSED(br_transformer_encoder_new(6, 2, 0, true, NULL), "0 layers, must be at least 1");
    br_transformer_options both = { .gelu = true, .activation = br_tanh };
    REFUSED(br_transformer_decoder_layer_new(6, 2, &both), "one is enough");
    check_fails(br_transformer_square_subsequent_mask(-1, BR_F32), "size is -1");
}

Test(transformer, inputs_are_checked)
{
    br_multihead_attention *self =
        attention_new(&(br_multihead_attention_options){ .batch_first = true });
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_randn(BR_SHAPE(3, 4, 6), BR_F32), *y = br_randn(BR_SHAPE(3, 5, 6), BR_F32);
    br_multihead_attention_inputs in = { 0 };
    check_fails(br_multihead_attention_forward(self, x, NULL, x, NULL), "key is NULL");
    check_fails(br_multihead_attention_forward(self, x, y, br_narrow(x, -1, 0, 5), NULL),
                "value is [3, 4, 5], query [3, 4, 6]");
    check_fails(br_multihead_attention_forward(self, br_select(x, 0, 0), y, y, NULL),
                "key is [3, 5, 6], query [4, 6]");
    check_fails(br_multihead_attention_forward(self, x, x, y, NULL), "lengths of key and value");
    check_fails(br_multihead_attention_forward(self, x, br_narrow(y, 0, 0, 2), y, NULL),
                "the batches must be equal");
    in.key_padding_mask = br_zeros(BR_SHAPE(3, 4), BR_BOOL);
    check_fails(br_multihead_attention_forward(self, x, y, y, &in),
                "key_padding_mask is [3, 4], must be [5]");
    in.key_padding_mask = br_zeros(BR_SHAPE(3, 5), BR_I64);
    check_fails(br_multihead_attention_forward(self, x, y, y, &in),
                "key_padding_mask is i64, must be bool or the query's f32");
    in = (br_multihead_attention_inputs){ .attn_mask = br_zeros(BR_SHAPE(3, 4, 5), BR_BOOL) };
    check_fails(br_multihead_attention_forward(self, x, y, y, &in),
                "attn_mask is [3, 4, 5], must be [4, 5] or [6, 4, 5]");
    check_fails(br_multihead_attention_forward(NULL, x, x, x, NULL), "module is NULL");
    br_scope_end(scope);
    br_free_module(self);
}

/* The result is the same, also of a query that may see no key, and every attention is there. */
Test(transformer, attention_is_tapped)
{
    br_transformer *self = br_transformer_new(6, 2, 1, 2, &(br_transformer_options){ 0 });
    br_eval(br_base(self));
    br_scope *scope = br_no_grad_begin();
    br_tensor *src = br_randn(BR_SHAPE(4, 1, 6), BR_F32),
              *tgt = br_randn(BR_SHAPE(3, 1, 6), BR_F32);
    br_tensor *hidden = br_ones(BR_SHAPE(1, 4), BR_BOOL);
    br_transformer_masks masks = { .memory_key_padding_mask = hidden, .tgt_is_causal = true };
    br_tensor *alone = br_transformer_forward(self, src, tgt, &masks);
    br_recorder *recorder = br_recorder_begin();
    br_tensor *recorded = br_transformer_forward(self, src, tgt, &masks);
    check_ok();
    cr_assert(br_allclose(alone, recorded, 0, 1e-6));
    cr_assert_eq(br_recorder_count(recorder), 3 * (1 + 2 * 2));
    br_tensor *inner = br_recorder_get(recorder, "decoder.layers.1.self_attn.attention");
    cr_assert(br_size(inner, 1) == 2 && br_at(inner, BR_SHAPE(0, 1, 0, 1)) == 0);
    br_tensor *cross = br_recorder_get(recorder, "decoder.layers.1.multihead_attn.cross_attention");
    cr_assert(br_size(cross, 2) == 3 && br_size(cross, 3) == 4);
    cr_assert_eq(br_item(br_sum(cross)), 0);
    br_tensor *key = br_recorder_get(recorder, "decoder.layers.1.multihead_attn.key");
    cr_assert(br_size(key, 2) == 4 && br_size(key, 3) == 3);
    br_recorder_end(recorder);
    br_scope_end(scope);
    br_free_module(self);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static bool train_one(void)
{
    br_transformer_options options = { .dim_feedforward = 4 };
    br_transformer *self = br_transformer_new(4, 2, 1, 1, &options);
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_randn(BR_SHAPE(2, 1, 4), BR_F32);
    br_transformer_masks masks = { .src_key_padding_mask = br_zeros(BR_SHAPE(1, 2), BR_BOOL) };
    br_backward(br_sum(br_transformer_forward(self, x, x, &masks)));
    br_scope_end(scope);
    br_free_module(self);
    return !br_failed();
}

static bool attend_with_weights(void)
{
    br_multihead_attention *self = attention_new(
        &(br_multihead_attention_options){ .add_bias_kv = true, .add_zero_attn = true, .vdim = 3 });
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_randn(BR_SHAPE(2, 6), BR_F32), *weights = NULL;
    br_multihead_attention_inputs in = { .weights = &weights,
                                         .attn_mask = br_zeros(BR_SHAPE(2, 2), BR_BOOL) };
    br_multihead_attention_forward(self, x, x, br_slice(x, 1, 0, 3, 1), &in);
    cr_assert_eq(weights == NULL, br_failed());
    br_scope_end(scope);
    br_free_module(self);
    return !br_failed();
}

Test(transformer, every_allocation_may_fail)
{
    fail_in_turn(attend_with_weights, "attend with weights");
    fail_in_turn(train_one, "train one");
}
