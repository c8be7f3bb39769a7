/* BERT's classes: f64 gradients compared with finite differences, results compared with PyTorch's,
 * and the differences of the variant as written. */
#include "tests/models/models.h"

TestSuite(bert, .init = check_begin, .fini = check_end);

static br_bert_config tiny(bool as_written)
{
    return (br_bert_config){ .vocab_size = 9,
                             .d_model = 6,
                             .n_layers = 2,
                             .n_heads = 2,
                             .d_ff = 5,
                             .d_k = 3,
                             .d_v = 2,
                             .maxlen = 5,
                             .n_segments = 2,
                             .max_pred = 2,
                             .as_written = as_written };
}

/* ---- Gradients ------------------------------------------------------------------------------- */

enum { B = 2, S = 4 };

static br_tensor *ids(void)
{
    return br_from_i64(BR_SHAPE(B, S), (int64_t[]){ 1, 4, 8, 0, 1, 5, 4, 3 });
}

static br_tensor *segments(void)
{
    return br_from_i64(BR_SHAPE(B, S), (int64_t[]){ 0, 0, 1, 0, 0, 1, 1, 1 });
}

static br_tensor *positions(void)
{
    return br_from_i64(BR_SHAPE(B, 2), (int64_t[]){ 2, 1, 3, 3 });
}

/* Masks key 3 of the first entry, and all keys for one of its queries. */
static br_tensor *mask(void)
{
    bool m[B * S * S] = { 0 };
    for (int q = 0; q < S; q++)
        m[q * S + 3] = m[2 * S + q] = true;
    return br_from_bool(BR_SHAPE(B, S, S), m);
}

/* Concatenates two results, so that the gradients of both are checked. */
static br_tensor *both(br_tensor *a, br_tensor *b)
{
    return br_cat(BR_INPUTS(br_flatten(a, 0, -1), br_flatten(b, 0, -1)), 0);
}

static br_tensor *run_gelu(br_tensor *const *in, int n, void *module)
{
    (void)n, (void)module;
    return br_bert_gelu(in[0]);
}

Test(bert, gelu_gradient)
{
    br_manual_seed(1);
    br_scope *scope = br_scope_begin();
    check_gradients(run_gelu, NULL, 1, (br_tensor *[]){ br_randn(BR_SHAPE(3, 4), BR_F64) });
    br_scope_end(scope);
}

static br_tensor *run_attention(br_tensor *const *in, int n, void *module)
{
    (void)n, (void)module;
    br_tensor *attn;
    br_tensor *m = br_unsqueeze(mask(), 1);
    br_tensor *context = br_bert_attention(in[0], in[1], in[2], m, &attn);
    return both(context, attn);
}

Test(bert, attention_gradient)
{
    br_manual_seed(2);
    br_scope *scope = br_scope_begin();
    br_tensor *q = br_randn(BR_SHAPE(B, 2, S, 3), BR_F64),
              *k = br_randn(BR_SHAPE(B, 2, S, 3), BR_F64),
              *v = br_randn(BR_SHAPE(B, 2, S, 2), BR_F64);
    check_gradients(run_attention, NULL, 3, (br_tensor *[]){ q, k, v });
    br_scope_end(scope);
}

static br_tensor *run_embedding(br_tensor *const *in, int n, void *module)
{
    (void)in, (void)n;
    return br_bert_embedding_forward(module, ids(), segments());
}

Test(bert, embedding_gradient)
{
    br_manual_seed(3);
    br_bert_config c = tiny(false);
    br_bert_embedding *module = br_bert_embedding_new(&c);
    check_gradients(run_embedding, module, 0, NULL);
    br_module_free(module);
}

static br_tensor *run_mha(br_tensor *const *in, int n, void *module)
{
    (void)n;
    br_tensor *attn;
    br_tensor *output = br_bert_mha_forward(module, in[0], in[1], in[2], mask(), &attn);
    return both(output, attn);
}

static void check_mha(bool as_written)
{
    br_manual_seed(4);
    br_bert_config c = tiny(as_written);
    br_scope *scope = br_scope_begin();
    br_bert_mha *module = br_bert_mha_new(&c);
    br_tensor *q = br_randn(BR_SHAPE(B, S, c.d_model), BR_F64),
              *k = br_randn(BR_SHAPE(B, S, c.d_model), BR_F64),
              *v = br_randn(BR_SHAPE(B, S, c.d_model), BR_F64);
    check_gradients(run_mha, module, 3, (br_tensor *[]){ q, k, v });
    br_module_free(module);
    br_scope_end(scope);
}

Test(bert, multi_head_attention_gradient)
{
    check_mha(false);
}

Test(bert, multi_head_attention_gradient_as_written)
{
    check_mha(true);
}

static br_tensor *run_ffn(br_tensor *const *in, int n, void *module)
{
    (void)n;
    return br_bert_ffn_forward(module, in[0]);
}

Test(bert, feed_forward_gradient)
{
    br_manual_seed(5);
    br_bert_config c = tiny(false);
    br_scope *scope = br_scope_begin();
    br_bert_ffn *module = br_bert_ffn_new(&c);
    check_gradients(run_ffn, module, 1,
                    (br_tensor *[]){ br_randn(BR_SHAPE(B, S, c.d_model), BR_F64) });
    br_module_free(module);
    br_scope_end(scope);
}

static br_tensor *run_layer(br_tensor *const *in, int n, void *module)
{
    (void)n;
    br_tensor *attn;
    br_tensor *output = br_bert_layer_forward(module, in[0], mask(), &attn);
    return both(output, attn);
}

static void check_layer(bool as_written)
{
    br_manual_seed(6);
    br_bert_config c = tiny(as_written);
    br_scope *scope = br_scope_begin();
    br_bert_layer *module = br_bert_layer_new(&c);
    check_gradients(run_layer, module, 1,
                    (br_tensor *[]){ br_randn(BR_SHAPE(B, S, c.d_model), BR_F64) });
    br_module_free(module);
    br_scope_end(scope);
}

Test(bert, encoder_layer_gradient)
{
    check_layer(false);
}

Test(bert, encoder_layer_gradient_as_written)
{
    check_layer(true);
}

static br_tensor *run_bert(br_tensor *const *in, int n, void *module)
{
    (void)in, (void)n;
    br_tensor *clsf;
    br_tensor *lm = br_bert_forward(module, ids(), segments(), positions(), &clsf);
    br_tensor *tokens = br_from_i64(BR_SHAPE(B, 2), (int64_t[]){ 8, 0, 3, 5 });
    br_tensor *next = br_from_i64(BR_SHAPE(B), (int64_t[]){ 1, 0 });
    return br_bert_loss(lm, clsf, tokens, next, NULL, NULL);
}

static void check_bert(bool as_written)
{
    br_manual_seed(7);
    br_bert_config c = tiny(as_written);
    br_bert *module = br_bert_new(&c);
    check_gradients(run_bert, module, 0, NULL);
    br_module_free(module);
}

Test(bert, bert_gradient)
{
    check_bert(false);
}

Test(bert, bert_gradient_as_written)
{
    check_bert(true);
}

/* ---- Recorded numbers ------------------------------------------------------------------------ */

Test(bert, golden_files_agree)
{
    check_golden("bert.*.safetensors", 9);
}

/* Written by make_bert.py FOLDER --intended --seed 4 --batch 3 --d-model 12 --n-heads 3 --d-k 4
 * --d-v 3 --d-ff 20 --vocab-size 20 --maxlen 10 --max-pred 3. */
Test(bert, golden_files_of_the_intended_variant_agree)
{
    check_golden("intended/bert.*.safetensors", 4);
}

/* ---- Reports about the variants -------------------------------------------------------------- */

static double item_of_bert(br_bert *bert)
{
    br_scope *scope = br_no_grad_begin();
    double value = br_item(br_sum(br_bert_forward(bert, ids(), segments(), positions(), NULL)));
    br_scope_end(scope);
    return value;
}

Test(bert, as_written_creates_layers_in_each_forward)
{
    for (int as_written = 0; as_written <= 1; as_written++) {
        br_manual_seed(8);
        br_bert_config c = tiny(as_written);
        br_bert *bert = br_bert_new(&c);
        double first = item_of_bert(bert), second = item_of_bert(bert);
        check_ok();
        cr_assert((first != second) == as_written);
        br_module_free(bert);
    }
}

Test(bert, as_written_trains_leaves_that_no_module_owns)
{
    for (int as_written = 0; as_written <= 1; as_written++) {
        br_manual_seed(9);
        br_bert_config c = tiny(as_written);
        br_bert *bert = br_bert_new(&c);
        br_scope *scope = br_scope_begin();
        br_unused_report report;
        br_tensor *loss = run_bert(NULL, 0, bert);
        cr_assert(br_report_unused(br_base(bert), loss, &report));
        /* Weight and bias of the linear layer and of the norm, for each layer. */
        cr_assert_eq(report.foreign_leaves, as_written ? 4 * c.n_layers : 0);
        br_unused_report_clear(&report);
        br_scope_end(scope);
        br_module_free(bert);
    }
}

Test(bert, decoder_is_the_token_embedding)
{
    br_bert_config c = tiny(false);
    br_bert *bert = br_bert_new(&c);
    check_ok();
    cr_assert(bert->decoder->weight == bert->embedding->tok_embed->weight);
    br_named_list *params = br_parameters(br_base(bert)), *state = br_state_dict(br_base(bert));
    cr_assert_null(br_named_list_get(params, "decoder.weight"));
    cr_assert(br_named_list_get(state, "decoder.weight") == bert->decoder->weight);
    br_named_list_free(params);
    br_named_list_free(state);
    br_module_free(bert);
}

Test(bert, attention_weights_are_tapped)
{
    br_bert_config c = tiny(false);
    br_bert *bert = br_bert_new(&c);
    br_recorder *recorder = br_recorder_begin();
    item_of_bert(bert);
    cr_assert_eq(br_recorder_count(recorder), 3 * c.n_layers);
    br_tensor *attn = br_recorder_get(recorder, "layers.1.enc_self_attn.attention");
    cr_assert(attn && br_ndim(attn) == 4);
    cr_assert(br_size(attn, 0) == B && br_size(attn, 1) == c.n_heads);
    br_scope *scope = br_scope_begin();
    br_tensor *sums = br_sum_dim(attn, BR_DIMS(-1), false);
    cr_assert(br_allclose(sums, br_ones_like(sums), 0, 1e-6));
    cr_assert_eq(br_at(attn, BR_SHAPE(0, 0, 1, 3)), 0, "padding has a weight");
    br_scope_end(scope);
    br_recorder_end(recorder);
    br_module_free(bert);
}

Test(bert, pad_mask_repeats_one_row_without_copying)
{
    br_scope *scope = br_scope_begin();
    br_tensor *m = br_bert_pad_mask(br_zeros(BR_SHAPE(B, 7), BR_I64), ids());
    cr_assert(br_size(m, 1) == 7 && br_size(m, 2) == S && br_stride(m, 1) == 0);
    for (int64_t q = 0; q < 7; q++)
        for (int64_t k = 0; k < S; k++)
            cr_assert_eq(br_at(m, BR_SHAPE(0, q, k)) != 0, k == 3);
    br_scope_end(scope);
}

Test(bert, only_an_existing_parameter_is_replaced)
{
    br_bert_config c = tiny(false);
    br_bert *bert = br_bert_new(&c);
    br_module *decoder = br_base(bert->decoder);
    check_fails(br_module_replace_parameter(decoder, "bias", bert->decoder_bias),
                "no parameter 'bias'");
    check_fails(br_module_replace_parameter(decoder, "weight", NULL), "t is NULL");
    cr_assert(br_module_get(decoder, "weight") == bert->embedding->tok_embed->weight);
    br_module_free(bert);
}

/* ---- Bad input ------------------------------------------------------------------------------- */

/* The outputs are not NULL before: a program may use its variables again. */
Test(bert, outputs_are_null_after_a_failure)
{
    br_bert_config c = tiny(false);
    br_bert_mha *mha = br_bert_mha_new(&c);
    br_bert_layer *layer = br_bert_layer_new(&c);
    br_bert *bert = br_bert_new(&c);
    br_scope *scope = br_scope_begin();
    br_tensor *t = ids(), *out = t, *other = t;
    check_fails(br_bert_attention(NULL, t, t, t, &out), "q is NULL");
    cr_expect_null(out);
    out = t;
    check_fails(br_bert_mha_forward(mha, NULL, NULL, NULL, NULL, &out), "NULL");
    cr_expect_null(out);
    out = t;
    check_fails(br_bert_layer_forward(layer, NULL, NULL, &out), "NULL");
    cr_expect_null(out);
    out = t;
    check_fails(br_bert_layer_forward(NULL, t, t, &out), "NULL");
    cr_expect_null(out);
    out = t;
    check_fails(br_bert_forward(bert, t, segments(), NULL, &out), "masked_pos is NULL");
    cr_expect_null(out);
    out = t;
    check_fails(br_bert_loss(NULL, t, t, t, &out, &other), "logits_lm is NULL");
    cr_expect(!out && !other);
    br_scope_end(scope);
    br_module_free(bert);
    br_module_free(layer);
    br_module_free(mha);
}

Test(bert, sizes_are_reached_by_name)
{
    br_bert_config c = br_bert_notebook_config();
    cr_assert_eq(*br_bert_config_field(&c, "d_model"), 768);
    cr_assert_eq(*br_bert_config_field(&c, "max_pred"), 7);
    cr_assert_null(br_bert_config_field(&c, "d_modell"));
    int n = 0;
    while (br_bert_config_field_name(n))
        n++;
    cr_assert_eq(n, 10);
    check_ok();
}

Test(bert, bad_sizes_are_refused)
{
    for (int i = 0; br_bert_config_field_name(i); i++) {
        br_bert_config c = tiny(false);
        *br_bert_config_field(&c, br_bert_config_field_name(i)) = i % 2 ? 0 : -3;
        br_bert *bert = br_bert_new(&c);
        cr_assert_not_null(bert);
        check_fails(br_bert_forward(bert, NULL, NULL, NULL, NULL), br_bert_config_field_name(i));
        br_module_free(bert);
    }
    br_bert *bert = br_bert_new(NULL);
    check_fails(br_bert_forward(bert, NULL, NULL, NULL, NULL), "config is NULL");
    check_fails(br_bert_forward(bert, NULL, NULL, NULL, NULL), "constructor failed");
    br_module_free(bert);
}

Test(bert, errors_name_the_module)
{
    br_bert_config c = tiny(false);
    br_bert *bert = br_bert_new(&c);
    br_scope *scope = br_scope_begin();
    br_tensor *longer = br_ones(BR_SHAPE(1, c.maxlen + 1), BR_I64);
    check_fails(br_bert_forward(bert, longer, longer, positions(), NULL), "embedding.pos_embed");
    br_tensor *unknown = br_full(BR_SHAPE(1, 3), 9, BR_I64);
    check_fails(br_bert_forward(bert, unknown, unknown, positions(), NULL), "embedding.tok_embed");
    check_fails(br_bert_forward(bert, ids(), NULL, positions(), NULL), "embedding.seg_embed");
    check_fails(br_bert_forward(bert, ids(), segments(), NULL, NULL), "NULL");
    br_scope_end(scope);
    br_module_free(bert);
}
