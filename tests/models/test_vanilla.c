/* Vanilla Transformer's classes: f64 gradients compared with finite differences in evaluation and
 * in training, results compared with PyTorch's, and the effects of the options. */
#include "tests/memory.h"
#include "tests/models/vanilla.h"

TestSuite(vanilla, .init = check_begin, .fini = check_end);

static br_tensor *src_mask(void)
{
    return br_vanilla_src_mask(src_ids(), 0);
}

static br_tensor *trg_mask(void)
{
    return br_vanilla_trg_mask(trg_ids(), 1);
}

static br_tensor *states(int64_t length)
{
    return br_randn(BR_SHAPE(B, length, D), BR_F64);
}

/* ---- Gradients ------------------------------------------------------------------------------- */

/* Checks the gradients of both variants of the module that build() creates, in evaluation and in
 * training mode. In training, br_gradcheck() uses the same dropout for every evaluation. The inputs
 * of run() are the first n_inputs of one target state and two source states. */
static void check_module(void *(*build)(const br_vanilla_config *), br_function run, int n_inputs)
{
    for (int form = 0; form < 4; form++) {
        br_manual_seed((uint64_t)form + 1);
        br_scope *scope = br_scope_begin();
        br_vanilla_config c = tiny(form & 1);
        br_module *module = build(&c);
        br_train(module, form & 2);
        br_tensor *inputs[] = { states(T), states(S), states(S) };
        check_gradients(run, module, n_inputs, inputs);
        br_module_free(module);
        br_scope_end(scope);
    }
}

static void *build_attention(const br_vanilla_config *c)
{
    return br_vanilla_multi_head_attention_new(c);
}

static br_tensor *run_attention(br_tensor *const *in, int n, void *module)
{
    (void)n;
    return br_vanilla_multi_head_attention_forward(module, in[0], in[1], in[2], src_mask());
}

Test(vanilla, multi_head_attention_gradient)
{
    check_module(build_attention, run_attention, 3);
}

static void *build_encoder_layer(const br_vanilla_config *c)
{
    return br_vanilla_encoder_layer_new(c);
}

static br_tensor *run_encoder_layer(br_tensor *const *in, int n, void *module)
{
    (void)n;
    return br_vanilla_encoder_layer_forward(module, in[0], trg_mask());
}

Test(vanilla, encoder_layer_gradient)
{
    check_module(build_encoder_layer, run_encoder_layer, 1);
}

static void *build_decoder_layer(const br_vanilla_config *c)
{
    return br_vanilla_decoder_layer_new(c);
}

static br_tensor *run_decoder_layer(br_tensor *const *in, int n, void *module)
{
    (void)n;
    return br_vanilla_decoder_layer_forward(module, in[0], in[1], trg_mask(), src_mask());
}

Test(vanilla, decoder_layer_gradient)
{
    check_module(build_decoder_layer, run_decoder_layer, 2);
}

static void *build_encoder(const br_vanilla_config *c)
{
    return br_vanilla_encoder_new(c);
}

static br_tensor *run_encoder(br_tensor *const *in, int n, void *module)
{
    (void)in, (void)n;
    return br_vanilla_encoder_forward(module, src_ids(), src_mask());
}

Test(vanilla, encoder_gradient)
{
    check_module(build_encoder, run_encoder, 0);
}

static void *build_decoder(const br_vanilla_config *c)
{
    return br_vanilla_decoder_new(c);
}

static br_tensor *run_decoder(br_tensor *const *in, int n, void *module)
{
    (void)n;
    return br_vanilla_decoder_forward(module, trg_ids(), in[0], trg_mask(), NULL);
}

Test(vanilla, decoder_gradient)
{
    check_module(build_decoder, run_decoder, 1);
}

static void *build_transformer(const br_vanilla_config *c)
{
    return br_vanilla_transformer_new(c);
}

static br_tensor *run_transformer(br_tensor *const *in, int n, void *module)
{
    (void)in, (void)n;
    return br_vanilla_transformer_forward(module, src_ids(), trg_ids());
}

Test(vanilla, transformer_gradient)
{
    check_module(build_transformer, run_transformer, 0);
}

static void *build_classifier(const br_vanilla_config *c)
{
    return br_vanilla_encoder_classifier_new(c);
}

static br_tensor *run_classifier(br_tensor *const *in, int n, void *module)
{
    (void)in, (void)n;
    return br_vanilla_encoder_classifier_forward(module, src_ids());
}

Test(vanilla, encoder_classifier_gradient)
{
    check_module(build_classifier, run_classifier, 0);
}

/* ---- Recorded numbers ------------------------------------------------------------------------ */

Test(vanilla, golden_files_agree)
{
    check_golden("vanilla.*.safetensors", 11);
}

/* ---- As written, and as intended ------------------------------------------------------------- */

Test(vanilla, scores_are_divided_by_the_root_of)
{
    for (int intended = 0; intended < 2; intended++) {
        br_vanilla_config c = tiny(false);
        c.scale_by_head_dim = intended;
        br_vanilla_multi_head_attention *attention = br_vanilla_multi_head_attention_new(&c);
        check_ok();
        cr_assert_eq(attention->scale, intended ? sqrt(2) : 2);
        br_module_free(attention);
    }
}

Test(vanilla, a_query_without_keys)
{
    for (int intended = 0; intended < 2; intended++) {
        br_scope *scope = br_scope_begin();
        br_vanilla_config c = tiny(false);
        c.infinite_fill = intended;
        br_vanilla_multi_head_attention *attention = br_vanilla_multi_head_attention_new(&c);
        br_recorder *recorder = br_recorder_begin();
        br_tensor *x = br_randn(BR_SHAPE(1, S, D), BR_F32);
        br_tensor *mask = br_zeros(BR_SHAPE(1, 1, 1, S), BR_F32);
        br_vanilla_multi_head_attention_forward(attention, x, x, x, mask);
        br_tensor *weights = br_recorder_get(recorder, "attention");
        cr_assert_not_null(weights, "%s", br_error_message());
        if (intended)
            cr_assert(isnan(br_item(br_max(weights))));
        else
            cr_assert(br_equal(weights, br_full(BR_SHAPE(1, 2, S, S), 0.25, BR_F32)));
        br_recorder_end(recorder);
        br_module_free(attention);
        br_scope_end(scope);
    }
}

/* With dropout probability 1, only the parts without dropout remain. */
Test(vanilla, encoder_layer_drops_the_residual_only_as_written)
{
    for (int intended = 0; intended < 2; intended++) {
        br_manual_seed(5);
        br_scope *scope = br_scope_begin();
        br_vanilla_config c = tiny(false);
        c.dropout = 1;
        c.sublayer_dropout = intended;
        br_vanilla_encoder_layer *layer = br_vanilla_encoder_layer_new(&c);
        br_tensor *src = br_randn(BR_SHAPE(B, S, D), BR_F32);
        br_tensor *out = br_vanilla_encoder_layer_forward(layer, src, NULL);
        br_tensor *residual =
            br_layer_norm_forward(layer->norm_2, br_layer_norm_forward(layer->norm_1, src));
        br_tensor *first = br_expand_as(br_narrow(br_narrow(out, 0, 0, 1), 1, 0, 1), out);
        check_ok();
        cr_assert_eq(br_equal(out, residual), intended);
        cr_assert_eq(br_equal(out, first), !intended,
                     "as written, only the biases remain at every position");
        br_module_free(layer);
        br_scope_end(scope);
    }
}

Test(vanilla, decoder_layer_drops_its_sublayers)
{
    br_scope *scope = br_scope_begin();
    br_vanilla_config c = tiny(false);
    c.dropout = 1;
    br_vanilla_decoder_layer *layer = br_vanilla_decoder_layer_new(&c);
    br_tensor *trg = br_randn(BR_SHAPE(B, T, D), BR_F32),
              *src = br_randn(BR_SHAPE(B, S, D), BR_F32);
    br_tensor *out = br_vanilla_decoder_layer_forward(layer, trg, src, trg_mask(), src_mask());
    br_tensor *residual = br_layer_norm_forward(layer->norm_1, trg);
    residual = br_layer_norm_forward(layer->norm_2, residual);
    cr_assert(br_equal(out, br_layer_norm_forward(layer->norm_2, residual)));
    br_module_free(layer);
    br_scope_end(scope);
}

/* Returns the number of parameters without a gradient whose name contains `part`. */
static int untrained(br_module *module, const char *part)
{
    br_named_list *params = br_parameters(module);
    int n = 0;
    for (int64_t i = 0; i < params->count; i++)
        n += !br_grad_of(params->items[i].tensor) && strstr(params->items[i].name, part);
    br_named_list_free(params);
    return n;
}

Test(vanilla, what_the_decoder_does_not_use)
{
    for (int form = 0; form < 4; form++) {
        br_manual_seed(6);
        br_scope *scope = br_scope_begin();
        br_vanilla_config c = tiny(false);
        c.use_joint_attention = form & 1;
        c.use_norm_3 = form & 2;
        br_vanilla_transformer *model = br_vanilla_transformer_new(&c);
        br_tensor *y = run_transformer(NULL, 0, model);
        cr_assert(br_backward(br_sum(br_mul(y, y))), "%s", br_error_message());
        cr_assert_eq(untrained(br_base(model), "joint_attention"), form & 1 ? 0 : 8 * 2);
        cr_assert_eq(untrained(br_base(model), "norm_3"), form & 2 ? 0 : 2 * 2);
        cr_assert_eq(untrained(br_base(model), ""), (form & 1 ? 0 : 16) + (form & 2 ? 0 : 4));
        br_module_free(model);
        br_scope_end(scope);
    }
}

/* Returns the logits of two tokens followed by `padding` zeros. */
static br_tensor *padded_logits(br_vanilla_encoder_classifier *model, int64_t padding)
{
    br_tensor *x = br_from_i64(BR_SHAPE(1, 5), (int64_t[]){ 6, 2, 0, 0, 0 });
    return br_vanilla_encoder_classifier_forward(model, br_narrow(x, 1, 0, 2 + padding));
}

Test(vanilla, maximum_includes_padding_only_as_written)
{
    for (int intended = 0; intended < 2; intended++) {
        br_manual_seed(7);
        br_scope *scope = br_scope_begin();
        br_vanilla_config c = tiny(false);
        c.max_over_tokens = intended;
        br_vanilla_encoder_classifier *model = br_vanilla_encoder_classifier_new(&c);
        br_eval(br_base(model));
        br_tensor *bare = padded_logits(model, 0), *padded = padded_logits(model, 3);
        check_ok();
        cr_assert_eq(br_allclose(padded, bare, 0, 1e-5), intended);
        br_module_free(model);
        br_scope_end(scope);
    }
}

Test(vanilla, dropout_only_in_training)
{
    br_vanilla_config c = tiny(false);
    br_vanilla_transformer *model = br_vanilla_transformer_new(&c);
    for (int training = 0; training < 2; training++) {
        br_scope *scope = br_scope_begin();
        br_train(br_base(model), training);
        br_tensor *first = run_transformer(NULL, 0, model);
        br_tensor *second = run_transformer(NULL, 0, model);
        check_ok();
        cr_assert_neq(br_equal(first, second), training);
        br_scope_end(scope);
    }
    br_module_free(model);
}

/* Later target tokens and source padding do not affect earlier positions. */
Test(vanilla, hidden_tokens_have_no_effect)
{
    for (int intended = 0; intended < 2; intended++) {
        br_manual_seed(8);
        br_scope *scope = br_scope_begin();
        br_vanilla_config c = tiny(intended);
        br_vanilla_transformer *model = br_vanilla_transformer_new(&c);
        br_eval(br_base(model));
        br_tensor *src = br_narrow(src_ids(), 0, 0, 1), *trg = br_narrow(trg_ids(), 0, 1, 1);
        br_tensor *full = br_vanilla_transformer_forward(model, src, trg);
        br_tensor *cut =
            br_vanilla_transformer_forward(model, br_narrow(src, 1, 0, 3), br_narrow(trg, 1, 0, 2));
        cr_assert(br_allclose(br_narrow(full, 1, 0, 2), cut, 0, 1e-5), "%s", br_error_message());
        br_module_free(model);
        br_scope_end(scope);
    }
}

/* ---- Taps and sizes -------------------------------------------------------------------------- */

static void check_tap(const br_recorder *recorder, const char *name, int64_t queries, int64_t keys)
{
    br_tensor *weights = br_recorder_get(recorder, name);
    cr_assert_not_null(weights, "%s is not tapped", name);
    cr_assert(br_same_shape(weights, br_empty(BR_SHAPE(B, 2, queries, keys), BR_F32)));
    br_tensor *sums = br_sum_dim(weights, BR_DIMS(-1), false);
    cr_assert(br_allclose(sums, br_ones_like(sums), 0, 1e-6));
    cr_assert_eq(br_at(weights, BR_SHAPE(0, 1, 1, keys - 1)), 0, "padding has a weight");
}

Test(vanilla, attention_weights_are_tapped)
{
    for (int intended = 0; intended < 2; intended++) {
        br_vanilla_config c = tiny(intended);
        br_vanilla_transformer *model = br_vanilla_transformer_new(&c);
        br_scope *scope = br_scope_begin();
        br_recorder *recorder = br_recorder_begin();
        run_transformer(NULL, 0, model);
        cr_assert_eq(br_recorder_count(recorder), 3 * 3 * c.n_layers);
        check_tap(recorder, "encoder.blocks.1.attention.attention", S, S);
        check_tap(recorder, "decoder.blocks.0.attention.attention", T, T);
        check_tap(recorder,
                  intended ? "decoder.blocks.0.joint_attention.cross_attention"
                           : "decoder.blocks.0.attention.cross_attention",
                  T, S);
        br_recorder_end(recorder);
        br_scope_end(scope);
        br_module_free(model);
    }
}

Test(vanilla, parameters_are_counted_as_in_pytorch)
{
    br_vanilla_config c = tiny(false);
    br_vanilla_transformer *model = br_vanilla_transformer_new(&c);
    check_ok();
    int64_t attention = 4 * (D * D + D), norm = 2 * D, mlp = 2 * 3 * D + 3 + D;
    int64_t encoder = (7 + 5) * D + 2 * (attention + 2 * norm + mlp);
    int64_t decoder = (6 + 5) * D + 2 * (2 * attention + 3 * norm + mlp) + 6 * D + 6;
    cr_assert_eq(br_count_parameters(br_base(model), true), encoder + decoder);
    br_module_free(model);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static bool train_a_step(void)
{
    br_vanilla_config c = tiny(true);
    c.n_layers = 1;
    br_scope *scope = br_scope_begin();
    br_vanilla_transformer *model = br_vanilla_transformer_new(&c);
    br_optim *adam = br_adam(br_base(model), NULL);
    br_tensor *logits = br_flatten(run_transformer(NULL, 0, model), 0, 1);
    br_backward(br_cross_entropy(logits, br_flatten(trg_ids(), 0, 1), NULL));
    bool ok = br_optim_step(adam);
    br_optim_free(adam);
    br_module_free(model);
    br_scope_end(scope);
    return ok;
}

Test(vanilla, memory_runs_out_everywhere)
{
    fail_in_turn(train_a_step, "a step");
}

static bool classify(void)
{
    br_vanilla_config c = tiny(true);
    c.n_layers = 1;
    br_scope *scope = br_scope_begin();
    br_vanilla_encoder_classifier *model = br_vanilla_encoder_classifier_new(&c);
    bool ok = run_classifier(NULL, 0, model) != NULL;
    br_module_free(model);
    br_scope_end(scope);
    return ok;
}

Test(vanilla, memory_runs_out_everywhere_in_the_classifier)
{
    fail_in_turn(classify, "a classification");
}
