/* Transformer Anatomy's classes: f64 gradients compared with finite differences in evaluation and
 * in training, results compared with PyTorch's, and the effects of the options. Transformers from
 * Scratch has the same classes. */
#include "tests/memory.h"
#include "tests/models/models.h"

TestSuite(anatomy, .init = check_begin, .fini = check_end);

enum { B = 2, S = 4 };

/* The dropout is high, so that its gradient is clearly visible. */
static br_anatomy_config tiny(bool intended)
{
    return (br_anatomy_config){ .vocab_size = 9,
                                .hidden_size = 6,
                                .num_hidden_layers = 2,
                                .num_attention_heads = 2,
                                .intermediate_size = 5,
                                .max_position_embeddings = 5,
                                .num_labels = 3,
                                .hidden_dropout_prob = 0.4,
                                .mask_padding = intended,
                                .attention_dropout = intended,
                                .final_norm = intended,
                                .small_eps = intended };
}

/* Returns ids in which the first entry ends with padding. */
static br_tensor *ids(void)
{
    return br_from_i64(BR_SHAPE(B, S), (int64_t[]){ 1, 4, 8, 0, 1, 5, 4, 3 });
}

static br_tensor *hidden(void)
{
    return br_randn(BR_SHAPE(B, S, tiny(false).hidden_size), BR_F64);
}

/* ---- Gradients ------------------------------------------------------------------------------- */

/* Checks the gradients of both variants of the module that build() creates, in evaluation and in
 * training mode. In training, br_gradcheck() uses the same dropout for every evaluation. */
static void check_module(void *(*build)(const br_anatomy_config *), br_function run,
                         bool hidden_input)
{
    for (int form = 0; form < 4; form++) {
        br_manual_seed((uint64_t)form + 1);
        br_scope *scope = br_scope_begin();
        br_anatomy_config c = tiny(form & 1);
        br_module *module = build(&c);
        br_train(module, form & 2);
        check_gradients(run, module, hidden_input, (br_tensor *[]){ hidden() });
        br_module_free(module);
        br_scope_end(scope);
    }
}

static br_tensor *run_attention(br_tensor *const *in, int n, void *mask)
{
    (void)n;
    return br_anatomy_scaled_dot_product_attention(in[0], in[1], in[2], mask);
}

Test(anatomy, attention_gradient)
{
    for (int masked = 0; masked < 2; masked++) {
        br_manual_seed(1);
        br_scope *scope = br_scope_begin();
        br_tensor *qkv[] = { br_randn(BR_SHAPE(B, 3, 4), BR_F64),
                             br_randn(BR_SHAPE(B, 3, 4), BR_F64),
                             br_randn(BR_SHAPE(B, 3, 2), BR_F64) };
        br_tensor *mask = masked ? br_anatomy_causal_mask(3) : NULL;
        for (int i = 0; i < 3; i++)
            br_set_requires_grad(qkv[i], true);
        cr_assert(br_gradcheck(run_attention, mask, 3, qkv, TIGHTLY), "%s", br_error_message());
        br_scope_end(scope);
    }
}

static br_tensor *run_simplified(br_tensor *const *in, int n, void *module)
{
    (void)in, (void)n;
    br_anatomy_simplified_steps s = br_anatomy_simplified_attention_forward(module, ids());
    return br_cat(BR_INPUTS(br_flatten(s.scores, 0, -1), br_flatten(s.weights, 0, -1),
                            br_flatten(s.attn_outputs, 0, -1)),
                  0);
}

Test(anatomy, simplified_attention_gradient)
{
    br_manual_seed(2);
    br_anatomy_simplified_attention *module = br_anatomy_simplified_attention_new(9, 6);
    check_gradients(run_simplified, module, 0, NULL);
    br_module_free(module);
}

static void *build_head(const br_anatomy_config *c)
{
    return br_anatomy_attention_head_new(c->hidden_size, 3);
}

static br_tensor *run_head(br_tensor *const *in, int n, void *module)
{
    (void)n;
    return br_anatomy_attention_head_forward(module, in[0], br_anatomy_causal_mask(S));
}

Test(anatomy, attention_head_gradient)
{
    check_module(build_head, run_head, true);
}

static void *build_mha(const br_anatomy_config *c)
{
    return br_anatomy_multi_head_attention_new(c);
}

static br_tensor *run_mha(br_tensor *const *in, int n, void *module)
{
    (void)n;
    return br_anatomy_multi_head_attention_forward(module, in[0], NULL);
}

Test(anatomy, multi_head_attention_gradient)
{
    check_module(build_mha, run_mha, true);
}

static void *build_feed_forward(const br_anatomy_config *c)
{
    return br_anatomy_feed_forward_new(c);
}

static br_tensor *run_feed_forward(br_tensor *const *in, int n, void *module)
{
    (void)n;
    return br_anatomy_feed_forward_forward(module, in[0]);
}

Test(anatomy, feed_forward_gradient)
{
    check_module(build_feed_forward, run_feed_forward, true);
}

static void *build_layer(const br_anatomy_config *c)
{
    return br_anatomy_encoder_layer_new(c);
}

static br_tensor *run_layer(br_tensor *const *in, int n, void *module)
{
    (void)n;
    return br_anatomy_encoder_layer_forward(module, in[0], br_anatomy_causal_mask(S));
}

Test(anatomy, encoder_layer_gradient)
{
    check_module(build_layer, run_layer, true);
}

static void *build_embeddings(const br_anatomy_config *c)
{
    return br_anatomy_embeddings_new(c);
}

static br_tensor *run_embeddings(br_tensor *const *in, int n, void *module)
{
    (void)in, (void)n;
    return br_anatomy_embeddings_forward(module, ids());
}

Test(anatomy, embeddings_gradient)
{
    check_module(build_embeddings, run_embeddings, false);
}

static void *build_encoder(const br_anatomy_config *c)
{
    return br_anatomy_encoder_new(c);
}

static br_tensor *run_encoder(br_tensor *const *in, int n, void *module)
{
    (void)in, (void)n;
    return br_anatomy_encoder_forward(module, ids());
}

Test(anatomy, encoder_gradient)
{
    check_module(build_encoder, run_encoder, false);
}

static void *build_classifier(const br_anatomy_config *c)
{
    return br_anatomy_classifier_new(c);
}

static br_tensor *run_classifier(br_tensor *const *in, int n, void *module)
{
    (void)in, (void)n;
    return br_anatomy_classifier_forward(module, ids());
}

Test(anatomy, classifier_gradient)
{
    check_module(build_classifier, run_classifier, false);
}

/* ---- Recorded numbers ------------------------------------------------------------------------ */

Test(anatomy, golden_files_agree)
{
    check_golden("anatomy.*.safetensors", 12);
    check_golden("scratch.*.safetensors", 4);
}

/* Written by make_anatomy.py FOLDER --intended --seed 4 --batch 3 --length 7 --hidden-size 12
 * --num-attention-heads 3 --intermediate-size 20 --vocab-size 20. */
Test(anatomy, golden_files_of_the_intended_variant_agree)
{
    check_golden("intended/anatomy.*.safetensors", 3);
}

/* ---- As written, and as intended ------------------------------------------------------------- */

/* Returns the encoder's state of two ids that are followed by `padding` zeros. */
static br_tensor *first_states(br_anatomy_encoder *encoder, int64_t padding)
{
    br_tensor *x = br_from_i64(BR_SHAPE(1, 5), (int64_t[]){ 7, 2, 0, 0, 0 });
    return br_narrow(br_anatomy_encoder_forward(encoder, br_narrow(x, 1, 0, 2 + padding)), 1, 0, 2);
}

Test(anatomy, padding_is_attended_to_only_as_written)
{
    for (int intended = 0; intended < 2; intended++) {
        br_manual_seed(3);
        br_scope *scope = br_scope_begin();
        br_anatomy_config c = tiny(false);
        c.mask_padding = intended;
        br_anatomy_encoder *encoder = br_anatomy_encoder_new(&c);
        br_eval(br_base(encoder));
        br_tensor *bare = first_states(encoder, 0), *padded = first_states(encoder, 3);
        check_ok();
        cr_assert_eq(br_allclose(padded, bare, 0, 1e-5), intended);
        br_module_free(encoder);
        br_scope_end(scope);
    }
}

Test(anatomy, a_query_without_keys_is_nan)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_ones(BR_SHAPE(1, 2, 3), BR_F32);
    br_tensor *mask = br_from_bool(BR_SHAPE(1, 2, 2), (bool[]){ false, false, true, false });
    br_tensor *y = br_anatomy_scaled_dot_product_attention(x, x, x, mask);
    cr_assert(isnan(br_at(y, BR_SHAPE(0, 0, 0))));
    cr_assert_eq(br_at(y, BR_SHAPE(0, 1, 0)), 1);
    br_scope_end(scope);
}

Test(anatomy, final_norm_norms_the_output)
{
    for (int intended = 0; intended < 2; intended++) {
        br_manual_seed(4);
        br_scope *scope = br_scope_begin();
        br_anatomy_config c = tiny(false);
        c.final_norm = intended;
        br_anatomy_encoder *encoder = br_anatomy_encoder_new(&c);
        br_tensor *y = br_anatomy_encoder_forward(encoder, ids());
        br_tensor *means = br_mean_dim(y, BR_DIMS(-1), false);
        check_ok();
        cr_assert_eq(br_allclose(means, br_zeros_like(means), 0, 1e-5), intended);
        br_module_free(encoder);
        br_scope_end(scope);
    }
}

Test(anatomy, eps_of_the_norms)
{
    for (int intended = 0; intended < 2; intended++) {
        br_anatomy_config c = tiny(intended);
        br_anatomy_encoder *encoder = br_anatomy_encoder_new(&c);
        br_anatomy_encoder_layer *layer = br_module_list_at(encoder->layers, 1);
        check_ok();
        cr_assert_eq(encoder->embeddings->layer_norm->eps, 1e-12);
        cr_assert_eq(layer->layer_norm_1->eps, intended ? 1e-12 : 1e-5);
        cr_assert_eq(layer->layer_norm_2->eps, intended ? 1e-12 : 1e-5);
        br_module_free(encoder);
    }
}

static int64_t zeros_in(br_tensor *t)
{
    return br_item_i64(br_sum(br_eq_scalar(t, 0)));
}

Test(anatomy, attention_has_dropout_only_as_intended)
{
    for (int intended = 0; intended < 2; intended++) {
        br_manual_seed(5);
        br_scope *scope = br_scope_begin();
        br_anatomy_config c = tiny(intended);
        br_anatomy_multi_head_attention *attention = br_anatomy_multi_head_attention_new(&c);
        br_anatomy_attention_head *head = br_module_list_at(attention->heads, 0);
        br_module_to(br_base(attention), BR_F64);
        br_tensor *x = hidden();
        cr_assert_eq(zeros_in(run_mha(&x, 1, attention)) > 0, intended);
        br_tensor *first = br_anatomy_attention_head_forward(head, x, NULL);
        br_tensor *second = br_anatomy_attention_head_forward(head, x, NULL);
        check_ok();
        cr_assert_neq(br_equal(first, second), intended);
        br_module_free(attention);
        br_scope_end(scope);
    }
}

/* With dropout probability 1, each dropout outputs zeros, but only in training. */
Test(anatomy, dropout_only_in_training)
{
    br_anatomy_config c = tiny(false);
    c.hidden_dropout_prob = 1;
    br_anatomy_classifier *model = br_anatomy_classifier_new(&c);
    br_anatomy_encoder_layer *layer = br_module_list_at(model->encoder->layers, 0);
    for (int training = 0; training < 2; training++) {
        br_scope *scope = br_scope_begin();
        br_train(br_base(model), training);
        br_tensor *embeddings = br_anatomy_embeddings_forward(model->encoder->embeddings, ids());
        br_tensor *fed = br_anatomy_feed_forward_forward(layer->feed_forward, embeddings);
        br_tensor *logits = br_anatomy_classifier_forward(model, ids());
        check_ok();
        cr_assert_eq(zeros_in(embeddings), training ? br_numel(embeddings) : 0);
        cr_assert_eq(zeros_in(fed), training ? br_numel(fed) : 0);
        cr_assert_eq(br_equal(logits, br_expand_as(model->classifier->bias, logits)), training);
        br_scope_end(scope);
    }
    br_module_free(model);
}

Test(anatomy, attention_weights_are_tapped)
{
    br_anatomy_config c = tiny(true);
    br_anatomy_classifier *model = br_anatomy_classifier_new(&c);
    br_scope *scope = br_scope_begin();
    br_recorder *recorder = br_recorder_begin();
    br_anatomy_classifier_forward(model, ids());
    cr_assert_eq(br_recorder_count(recorder), 3 * c.num_hidden_layers * c.num_attention_heads);
    br_tensor *weights = br_recorder_get(recorder, "encoder.layers.1.attention.heads.0.attention");
    cr_assert_not_null(weights, "%s", br_error_message());
    br_tensor *sums = br_sum_dim(weights, BR_DIMS(-1), false);
    cr_assert(br_allclose(sums, br_ones(BR_SHAPE(B, S), BR_F32), 0, 1e-6));
    cr_assert_eq(br_at(weights, BR_SHAPE(0, 1, 3)), 0, "padding has a weight");
    br_recorder_end(recorder);
    br_scope_end(scope);
    br_module_free(model);
}

Test(anatomy, simplified_weights_are_tapped)
{
    br_scope *scope = br_scope_begin();
    br_anatomy_simplified_attention *module = br_anatomy_simplified_attention_new(9, 6);
    br_recorder *recorder = br_recorder_begin();
    br_anatomy_simplified_steps s = br_anatomy_simplified_attention_forward(module, ids());
    cr_assert(br_recorder_get(recorder, "attention") == s.weights);
    br_recorder_end(recorder);
    br_module_free(module);
    br_scope_end(scope);
}

Test(anatomy, the_notebook_s_size)
{
    br_anatomy_config c = br_anatomy_notebook_config();
    c.num_hidden_layers = 1;
    c.vocab_size = 1;
    br_anatomy_encoder *encoder = br_anatomy_encoder_new(&c);
    check_ok();
    /* PyTorch's number of parameters: a token, 512 positions and a norm; 12 heads and the output
     * layer; the feed-forward network; two norms. */
    cr_assert_eq(br_count_parameters(br_base(encoder), true),
                 768 + 512 * 768 + 2 * 768 + 12 * 3 * (64 * 768 + 64) + 768 * 769 + 3072 * 769 +
                     768 * 3073 + 4 * 768);
    br_module_free(encoder);
}

/* ---- Bad input ------------------------------------------------------------------------------- */

static void check_refused(br_anatomy_config c, const char *message)
{
    br_anatomy_classifier *model = br_anatomy_classifier_new(&c);
    cr_assert_not_null(model);
    check_fails(br_anatomy_classifier_forward(model, NULL), message);
    br_module_free(model);
}

Test(anatomy, bad_configurations_are_refused)
{
    static const struct {
        const char *name;
        size_t offset;
    } sizes[] = {
        { "vocab_size", offsetof(br_anatomy_config, vocab_size) },
        { "hidden_size", offsetof(br_anatomy_config, hidden_size) },
        { "num_hidden_layers", offsetof(br_anatomy_config, num_hidden_layers) },
        { "num_attention_heads", offsetof(br_anatomy_config, num_attention_heads) },
        { "intermediate_size", offsetof(br_anatomy_config, intermediate_size) },
        { "max_position_embeddings", offsetof(br_anatomy_config, max_position_embeddings) },
        { "num_labels", offsetof(br_anatomy_config, num_labels) },
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        br_anatomy_config c = tiny(false);
        *(int64_t *)(void *)((char *)&c + sizes[i].offset) = i % 2 ? 0 : INT64_MIN;
        check_refused(c, sizes[i].name);
    }
    br_anatomy_config c = tiny(false);
    c.num_attention_heads = 4;
    check_refused(c, "hidden_size 6 is not divisible by num_attention_heads 4");
    c = tiny(true);
    c.hidden_dropout_prob = NAN;
    check_refused(c, "p is nan");
}

Test(anatomy, a_missing_configuration_is_refused)
{
    br_anatomy_encoder *encoder = br_anatomy_encoder_new(NULL);
    check_fails(br_anatomy_encoder_forward(encoder, NULL), "config is NULL");
    br_module_free(encoder);
    br_anatomy_simplified_attention *simplified = br_anatomy_simplified_attention_new(-1, 4);
    check_fails(br_anatomy_simplified_attention_forward(simplified, ids()).scores,
                "num_embeddings is -1");
    br_module_free(simplified);
}

Test(anatomy, errors_name_the_module)
{
    br_anatomy_config c = tiny(true);
    br_anatomy_classifier *model = br_anatomy_classifier_new(&c);
    br_scope *scope = br_scope_begin();
    br_tensor *longer = br_ones(BR_SHAPE(1, c.max_position_embeddings + 1), BR_I64);
    check_fails(br_anatomy_classifier_forward(model, longer),
                "encoder.embeddings.position_embeddings");
    br_tensor *unknown = br_full(BR_SHAPE(1, 3), 9, BR_I64);
    check_fails(br_anatomy_classifier_forward(model, unknown),
                "encoder.embeddings.token_embeddings");
    check_fails(br_anatomy_classifier_forward(model, NULL), "NULL");
    br_anatomy_encoder_layer *layer = br_module_list_at(model->encoder->layers, 0);
    br_tensor *x = br_ones(BR_SHAPE(B, S, 6), BR_F32), *mask = br_ones(BR_SHAPE(B, S), BR_F32);
    check_fails(br_anatomy_encoder_layer_forward(layer, x, mask), "layers.0.attention.heads.0");
    check_fails(br_anatomy_scaled_dot_product_attention(x, NULL, x, NULL), "NULL");
    check_fails(br_anatomy_causal_mask(-1), "-1");
    br_scope_end(scope);
    br_module_free(model);
}

static bool train_a_step(void)
{
    br_anatomy_config c = tiny(true);
    br_scope *scope = br_scope_begin();
    br_anatomy_classifier *model = br_anatomy_classifier_new(&c);
    br_optim *adam = br_adam(br_base(model), NULL);
    br_tensor *labels = br_from_i64(BR_SHAPE(B), (int64_t[]){ 2, 0 });
    br_backward(br_cross_entropy(br_anatomy_classifier_forward(model, ids()), labels, NULL));
    bool ok = br_optim_step(adam);
    br_optim_free(adam);
    br_module_free(model);
    br_scope_end(scope);
    return ok;
}

Test(anatomy, memory_runs_out_everywhere)
{
    fail_in_turn(train_a_step, "a step");
}

static bool attend_simply(void)
{
    br_scope *scope = br_scope_begin();
    br_anatomy_simplified_attention *module = br_anatomy_simplified_attention_new(9, 6);
    bool ok = br_anatomy_simplified_attention_forward(module, ids()).attn_outputs != NULL;
    br_module_free(module);
    br_scope_end(scope);
    return ok;
}

Test(anatomy, memory_runs_out_everywhere_in_simplified_attention)
{
    fail_in_turn(attend_simply, "simplified attention");
}

/* With attention_dropout, each head has a dropout, and so has their result. */
Test(anatomy, each_dropout_has_the_probability)
{
    int found[2];
    for (int attention = 0; attention < 2; attention++) {
        br_anatomy_config c = br_anatomy_notebook_config();
        c.hidden_size = c.intermediate_size = 8;
        c.num_hidden_layers = 1;
        c.num_attention_heads = 2;
        c.num_labels = 2;
        c.hidden_dropout_prob = 0.3;
        c.attention_dropout = attention;
        br_anatomy_classifier *model = br_anatomy_classifier_new(&c);
        check_ok();
        found[attention] = check_dropouts(br_base(model), 0.3);
        br_module_free(model);
    }
    cr_assert(found[0] > 0 && found[1] == found[0] + 2 + 1, "%d, %d", found[0], found[1]);
}
