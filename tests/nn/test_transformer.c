/* tests/nn/test_transformer.c - attention and Transformer modules: equivalent layouts and masks,
 * hooks, errors and failed allocations. `brasa check` tests their values and gradients
 * (tests/golden). */
#include "tests/memory.h"

#include <brasa/nn.h>

TestSuite(transformer, .init = check_begin, .fini = check_end);

static br_multihead_attention *attention_new(const br_multihead_attention_options *options)
{
    br_manual_seed(5);
    return br_multihead_attention_new(6, 2, options);
}

Test(transformer, layouts_and_weights_give_the_same_result)
{
    br_multihead_attention *last = attention_new(NULL);
    br_multihead_attention *first =
        attention_new(BR_OPTIONS(br_multihead_attention, .batch_first = true));
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
    cr_assert_eq(br_at(weights, BR_SHAPE(0, 0, 1)), 0, "the first query attends only to itself");
    br_tensor *row = br_select(x, 0, 1);
    br_tensor *c = br_multihead_attention_forward(
        first, row, row, row, &(br_multihead_attention_inputs){ .is_causal = true });
    cr_assert(br_allclose(br_detach(c), br_select(br_detach(a), 0, 1), 0, 1e-6));
    inputs.weights = &weights;
    for (int heads = 0; heads < 2; heads++) { /* without a batch, the weights have none either */
        inputs.weights_per_head = heads;
        cr_assert_not_null(br_multihead_attention_forward(first, row, row, row, &inputs));
        cr_assert_eq(br_ndim(weights), 2 + heads);
        cr_assert_eq(br_size(weights, 0), heads ? 2 : 4);
    }
    br_scope_end(scope);
    br_module_free(last);
    br_module_free(first);
}

/* As in PyTorch, is_causal hides the keys that the options add, unless the weights are requested.
 */
Test(transformer, a_tap_leaves_the_result_with_added_keys_unchanged)
{
    br_multihead_attention *self = attention_new(
        BR_OPTIONS(br_multihead_attention, .add_bias_kv = true, .add_zero_attn = true));
    br_scope *scope = br_no_grad_begin();
    br_tensor *x = br_randn(BR_SHAPE(3, 2, 6), BR_F32), *weights;
    br_tensor *mask = br_triu(br_ones(BR_SHAPE(3, 3), BR_BOOL), 1);
    for (int given = 0; given < 2; given++) {
        br_multihead_attention_inputs inputs = { .is_causal = true,
                                                 .attn_mask = given ? mask : NULL };
        br_tensor *want = br_multihead_attention_forward(self, x, x, x, &inputs);
        br_recorder *recorder = br_recorder_begin();
        br_tensor *got = br_multihead_attention_forward(self, x, x, x, &inputs);
        cr_assert(br_allclose(got, want, 0, 1e-6), "%s", br_error_message());
        weights = br_recorder_get(recorder, "attention");
        for (int64_t key = 3; key < 5; key++)
            cr_assert_eq(br_at(weights, BR_SHAPE(0, 0, 2, key)), 0);
        br_recorder_end(recorder);
        inputs.weights = &weights;
        cr_assert_not_null(br_multihead_attention_forward(self, x, x, x, &inputs));
        cr_assert_gt(br_at(weights, BR_SHAPE(0, 2, 4)), 0);
    }
    br_scope_end(scope);
    br_module_free(self);
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

/* Without gradients, the activation overwrites the result of the linear layer, unless a hook has
 * retained that result or replaced it with the input of the linear layer. */
Test(transformer, activations_do_not_overwrite_tensors_visible_to_hooks)
{
    for (int gelu = 0; gelu < 2; gelu++) {
        br_transformer_options options =
            *BR_OPTIONS(br_transformer, .gelu = gelu, .dim_feedforward = 6);
        br_transformer_encoder_layer *layer = br_transformer_encoder_layer_new(6, 2, &options);
        br_eval(br_base(layer));
        br_module *linear = br_base(layer->linear1);
        br_scope *scope = br_no_grad_begin();
        br_init_eye_(layer->linear1->weight); /* the layer is the identity */
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
        br_module_free(layer);
    }
}

/* Gives every parameter other values: the norms of new layers are all the same. */
static void randomize(br_module *module)
{
    br_named_list *parameters = br_parameters(module);
    for (int64_t i = 0; i < parameters->count; i++)
        br_init_uniform_(parameters->items[i].tensor, 0.2, 1.5);
    br_named_list_free(parameters);
}

static br_tensor *attend_with(br_multihead_attention *attention, br_tensor *x, br_tensor *memory)
{
    return br_multihead_attention_forward(attention, x, memory, memory, NULL);
}

static br_tensor *feed(br_linear *first, br_linear *second, br_tensor *x)
{
    return br_linear_forward(second, br_relu(br_linear_forward(first, x)));
}

#define NORM(i, x) br_layer_norm_forward(self->norm##i, x)
#define FEED(x)    feed(self->linear1, self->linear2, x)

static br_tensor *encoder_layer(br_transformer_encoder_layer *self, br_tensor *x, bool norm_first)
{
    if (norm_first) {
        br_tensor *y = NORM(1, x);
        x = br_add(x, attend_with(self->self_attn, y, y));
        return br_add(x, FEED(NORM(2, x)));
    }
    x = NORM(1, br_add(x, attend_with(self->self_attn, x, x)));
    return NORM(2, br_add(x, FEED(x)));
}

static br_tensor *decoder_layer(br_transformer_decoder_layer *self, br_tensor *x, br_tensor *memory,
                                bool norm_first)
{
    if (norm_first) {
        br_tensor *y = NORM(1, x);
        x = br_add(x, attend_with(self->self_attn, y, y));
        x = br_add(x, attend_with(self->multihead_attn, NORM(2, x), memory));
        return br_add(x, FEED(NORM(3, x)));
    }
    x = NORM(1, br_add(x, attend_with(self->self_attn, x, x)));
    x = NORM(2, br_add(x, attend_with(self->multihead_attn, x, memory)));
    return NORM(3, br_add(x, FEED(x)));
}

/* The norms of a new layer have equal weights, so a layer that uses the wrong one is found only
 * after they have been changed. */
Test(transformer, each_parameter_has_its_own_place)
{
    br_scope *scope = br_no_grad_begin();
    br_tensor *x = br_randn(BR_SHAPE(4, 2, 6), BR_F64),
              *memory = br_randn(BR_SHAPE(3, 2, 6), BR_F64);
    for (int norm_first = 0; norm_first < 2; norm_first++) {
        br_transformer_options o = *BR_OPTIONS(br_transformer, .norm_first = norm_first,
                                               .dropout = 0, .dim_feedforward = 5);
        br_transformer_encoder_layer *encoder = br_transformer_encoder_layer_new(6, 2, &o);
        br_transformer_decoder_layer *decoder = br_transformer_decoder_layer_new(6, 2, &o);
        br_module_to(br_base(encoder), BR_F64);
        br_module_to(br_base(decoder), BR_F64);
        randomize(br_base(encoder));
        randomize(br_base(decoder));
        cr_expect(br_allclose(br_transformer_encoder_layer_forward(encoder, x, NULL, NULL, false),
                              encoder_layer(encoder, x, norm_first), 1e-12, 1e-12),
                  "encoder, norm_first %d: %s", norm_first, br_error_message());
        cr_expect(br_allclose(br_transformer_decoder_layer_forward(decoder, x, memory, NULL),
                              decoder_layer(decoder, x, memory, norm_first), 1e-12, 1e-12),
                  "decoder, norm_first %d: %s", norm_first, br_error_message());
        br_module_free(encoder);
        br_module_free(decoder);
    }
    br_scope_end(scope);
}

static void check_no_bias(br_module *module)
{
    br_named_list *parameters = br_parameters(module);
    cr_assert_gt(parameters->count, 0);
    for (int64_t i = 0; i < parameters->count; i++)
        cr_expect(!strstr(parameters->items[i].name, "bias"), "%s of %s", parameters->items[i].name,
                  br_module_class(module));
    br_named_list_free(parameters);
    br_module_free(module);
}

/* Without `bias`, linear layers, attention and norms have no biases, as in PyTorch. */
Test(transformer, layers_without_biases)
{
    const br_transformer_options *o = BR_OPTIONS(br_transformer, .bias = false);
    check_no_bias(br_base(br_transformer_encoder_layer_new(6, 2, o)));
    check_no_bias(br_base(br_transformer_decoder_layer_new(6, 2, o)));
    check_no_bias(br_base(br_transformer_encoder_new(6, 2, 2, true, o)));
    check_no_bias(br_base(br_transformer_decoder_new(6, 2, 2, true, o)));
    check_no_bias(br_base(br_transformer_new(6, 2, 1, 1, o)));
}

Test(transformer, a_causal_mask_has_the_requested_dtype)
{
    br_scope *scope = br_scope_begin();
    for (br_dtype dtype = BR_F32; dtype <= BR_F64; dtype++) {
        br_tensor *mask = br_transformer_square_subsequent_mask(2, dtype);
        cr_assert_eq(br_dtype_of(mask), dtype);
        cr_assert(br_at(mask, BR_SHAPE(0, 0)) == 0 && br_at(mask, BR_SHAPE(1, 0)) == 0);
        cr_assert(br_at(mask, BR_SHAPE(0, 1)) == -INFINITY && br_at(mask, BR_SHAPE(1, 1)) == 0);
        cr_assert_eq(br_numel(br_transformer_square_subsequent_mask(0, dtype)), 0);
    }
    br_scope_end(scope);
}

Test(transformer, the_causal_mask_may_be_omitted)
{
    br_transformer *self =
        br_transformer_new(6, 2, 1, 1, BR_OPTIONS(br_transformer, .dropout = 0, .gelu = true));
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
    br_module_free(self);
}

Test(transformer, dropout_and_activation_follow_the_options)
{
    br_transformer_options options =
        *BR_OPTIONS(br_transformer, .dropout = 0.5, .dim_feedforward = 8, .activation = br_tanh);
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
    br_module_free(self);
}

#define REFUSED(module, part)    \
    do {                         \
        void *refused = module;  \
        check_fails(NULL, part); \
        br_module_free(refused); \
    } while (0)

Test(transformer, arguments_are_checked)
{
    REFUSED(br_multihead_attention_new(6, 4, NULL), "embed_dim is 6, num_heads is 4");
    REFUSED(br_multihead_attention_new(0, 1, NULL), "embed_dim is 0");
    REFUSED(attention_new(BR_OPTIONS(br_multihead_attention, .kdim = -1)), "kdim is -1");
    REFUSED(attention_new(BR_OPTIONS(br_multihead_attention, .dropout = 2)), "dropout is 2");
    REFUSED(br_transformer_encoder_new(6, 2, 0, true, NULL), "num_layers is 0, must be at least 1");
    br_transformer_options both = *BR_OPTIONS(br_transformer, .gelu = true, .activation = br_tanh);
    REFUSED(br_transformer_decoder_layer_new(6, 2, &both), "activation and gelu are both set");
    check_fails(br_transformer_square_subsequent_mask(-1, BR_F32), "size is -1");
}

Test(transformer, inputs_are_checked)
{
    br_multihead_attention *self =
        attention_new(BR_OPTIONS(br_multihead_attention, .batch_first = true));
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_randn(BR_SHAPE(3, 4, 6), BR_F32), *y = br_randn(BR_SHAPE(3, 5, 6), BR_F32);
    br_multihead_attention_inputs in = { 0 };
    check_fails(br_multihead_attention_forward(self, x, NULL, x, NULL), "key is NULL");
    check_fails(br_multihead_attention_forward(self, x, y, br_narrow(x, -1, 0, 5), NULL),
                "value is [3, 4, 5], query is [3, 4, 6]");
    check_fails(br_multihead_attention_forward(self, br_select(x, 0, 0), y, y, NULL),
                "key is [3, 5, 6], query is [4, 6]");
    check_fails(br_multihead_attention_forward(self, x, x, y, NULL),
                "key and value the same length");
    check_fails(br_multihead_attention_forward(self, x, br_narrow(y, 0, 0, 2), y, NULL),
                "all must have the same batch size");
    in.key_padding_mask = br_zeros(BR_SHAPE(3, 4), BR_BOOL);
    check_fails(br_multihead_attention_forward(self, x, y, y, &in),
                "key_padding_mask is [3, 4], must be [3, 5], one value for each key");
    in.key_padding_mask = br_zeros(BR_SHAPE(3, 5), BR_I64);
    check_fails(br_multihead_attention_forward(self, x, y, y, &in),
                "key_padding_mask is i64, must be bool or query's dtype f32");
    in = (br_multihead_attention_inputs){ .attn_mask = br_zeros(BR_SHAPE(3, 4, 5), BR_BOOL) };
    check_fails(br_multihead_attention_forward(self, x, y, y, &in),
                "must be [L, S] = [4, 5] or [N * num_heads, L, S] = [3 * 2, 4, 5]");
    in.attn_mask = br_zeros(BR_SHAPE(4, 5), BR_I64);
    check_fails(br_multihead_attention_forward(self, x, y, y, &in),
                "attn_mask is i64, must be bool or query's dtype f32");
    check_fails(br_multihead_attention_forward(NULL, x, x, x, NULL), "module is NULL");
    br_scope_end(scope);
    br_module_free(self);
}

/* Recording does not change the result, even for queries whose keys are all masked, and every
 * attention module is recorded. */
Test(transformer, attention_can_be_recorded)
{
    br_transformer *self = br_transformer_new(6, 2, 1, 2, NULL);
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
    br_module_free(self);
}

/* Returns an attention module with one head and two features whose projections are the identity. */
static br_multihead_attention *plain_attention(bool bias_kv, bool zero)
{
    br_multihead_attention *self =
        br_multihead_attention_new(2, 1,
                                   BR_OPTIONS(br_multihead_attention, .batch_first = true,
                                              .add_bias_kv = bias_kv, .add_zero_attn = zero));
    br_scope *scope = br_no_grad_begin();
    br_tensor *one = br_eye(2, 2, BR_F32);
    br_copy_(self->in_proj_weight, br_cat(BR_INPUTS(one, one, one), 0));
    br_copy_(self->out_proj->weight, one);
    br_scope_end(scope);
    return self;
}

/* Computes the attention of one query in f64, over the keys that are not masked and the added keys,
 * which never are. */
static void attend_by_hand(const br_multihead_attention *self, const float *q, const float *k,
                           const float *v, const bool *hidden, double out[2])
{
    static const float zero[2] = { 0, 0 };
    const float *keys[5], *values[5];
    double sum = 0;
    int n = 0;
    for (int j = 0; j < 3; j++)
        if (!hidden[j]) {
            keys[n] = k + 2 * j;
            values[n++] = v + 2 * j;
        }
    if (self->bias_k) {
        keys[n] = br_data_f32(self->bias_k);
        values[n++] = br_data_f32(self->bias_v);
    }
    if (self->options.add_zero_attn)
        keys[n] = values[n] = zero;
    n += self->options.add_zero_attn;
    out[0] = out[1] = 0;
    for (int j = 0; j < n; j++) {
        double score = (double)q[0] * (double)keys[j][0] + (double)q[1] * (double)keys[j][1];
        double w = exp(score / sqrt(2));
        sum += w;
        out[0] += w * (double)values[j][0];
        out[1] += w * (double)values[j][1];
    }
    out[0] /= sum;
    out[1] /= sum;
}

/* Every query attends to the keys added by add_bias_kv and add_zero_attn, whatever the masks are.
 */
Test(transformer, added_keys_are_never_masked)
{
    static const bool mask[] = { 0, 1, 1, 1, 1, 0 }, padding[] = { 1, 0, 0 };
    br_manual_seed(5);
    for (int form = 0; form < 16; form++) {
        bool with_mask = form & 4, with_weights = form & 8;
        br_multihead_attention *self = plain_attention(form & 1, form & 2);
        br_scope *scope = br_scope_begin();
        br_tensor *q = br_randn(BR_SHAPE(1, 2, 2), BR_F32),
                  *k = br_randn(BR_SHAPE(1, 3, 2), BR_F32);
        br_tensor *v = br_randn(BR_SHAPE(1, 3, 2), BR_F32), *weights;
        br_tensor *hidden = br_zeros(BR_SHAPE(2, 3), BR_BOOL),
                  *absent = br_zeros(BR_SHAPE(1, 3), BR_BOOL);
        memcpy(br_data(hidden), mask, sizeof mask);
        memcpy(br_data(absent), padding, sizeof padding);
        br_multihead_attention_inputs in = { .attn_mask = with_mask ? hidden : NULL,
                                             .key_padding_mask = absent,
                                             .weights = with_weights ? &weights : NULL };
        br_tensor *y = br_multihead_attention_forward(self, q, k, v, &in);
        cr_assert(y, "%s", br_error_message());
        for (int i = 0; i < 2; i++) {
            double want[2];
            bool none[3];
            for (int j = 0; j < 3; j++)
                none[j] = padding[j] || (with_mask && mask[3 * i + j]);
            attend_by_hand(self, br_data_f32(q) + 2 * i, br_data_f32(k), br_data_f32(v), none,
                           want);
            if (form % 4 == 0 && none[0] && none[1] && none[2])
                continue; /* all keys of this query are masked */
            for (int c = 0; c < 2; c++)
                check_close((double)br_data_f32(y)[2 * i + c], want[c], 2e-6);
        }
        br_scope_end(scope);
        br_module_free(self);
    }
}

/* ---- Failed allocations ---------------------------------------------------------------------- */

static bool train_one(void)
{
    br_transformer_options options = *BR_OPTIONS(br_transformer, .dim_feedforward = 4);
    br_transformer *self = br_transformer_new(4, 2, 1, 1, &options);
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_randn(BR_SHAPE(2, 1, 4), BR_F32);
    br_transformer_masks masks = { .src_key_padding_mask = br_zeros(BR_SHAPE(1, 2), BR_BOOL) };
    br_backward(br_sum(br_transformer_forward(self, x, x, &masks)));
    br_scope_end(scope);
    br_module_free(self);
    return !br_failed();
}

static bool attend_with_weights(void)
{
    br_multihead_attention *self = attention_new(
        BR_OPTIONS(br_multihead_attention, .add_bias_kv = true, .add_zero_attn = true, .vdim = 3));
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_randn(BR_SHAPE(2, 6), BR_F32), *weights = NULL;
    br_multihead_attention_inputs in = { .weights = &weights,
                                         .attn_mask = br_zeros(BR_SHAPE(2, 2), BR_BOOL) };
    br_multihead_attention_forward(self, x, x, br_slice(x, 1, 0, 3, 1), &in);
    cr_assert_eq(weights == NULL, br_failed());
    br_scope_end(scope);
    br_module_free(self);
    return !br_failed();
}

Test(transformer, every_allocation_may_fail)
{
    fail_in_turn(attend_with_weights, "attend with weights");
    fail_in_turn(train_one, "train one");
}

/* is_causal does not replace the padding mask: both hold, as with an explicit causal mask. */
Test(transformer, causal_attention_with_padding)
{
    br_multihead_attention *self =
        attention_new(BR_OPTIONS(br_multihead_attention, .batch_first = true));
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_randn(BR_SHAPE(2, 4, 6), BR_F32);
    br_tensor *padding = br_zeros(BR_SHAPE(2, 4), BR_BOOL);
    br_data_bool(padding)[1] = true;
    br_multihead_attention_inputs in = { .key_padding_mask = padding, .is_causal = true };
    br_multihead_attention_inputs explicit = {
        .key_padding_mask = padding, .attn_mask = br_transformer_square_subsequent_mask(4, BR_F32)
    };
    br_tensor *y = br_multihead_attention_forward(self, x, x, x, &in);
    br_tensor *want = br_multihead_attention_forward(self, x, x, x, &explicit);
    cr_assert(br_allclose(y, want, 0, 1e-6), "%s", br_error_message());
    br_scope_end(scope);
    br_module_free(self);
}
