/* Notebook 001, Vanilla Transformer, cell by cell. Its cells define classes and print nothing. The
 * tests therefore check what the code and the text between the cells say about each class: shapes,
 * the order of the steps, and names. Sizes are small. */
#include "tests/notebooks/cells.h"

NOTEBOOK("001_c0c19a734ad5072b.txt", "Vanilla Transformer", 8);
TestSuite(notebook_vanilla, .init = check_begin, .fini = check_end);

enum { B = 2, SRC_LEN = 5, TRG_LEN = 4, EMBED = 24, HEADS = 4, HEAD_DIM = EMBED / HEADS, FF = 40 };

static const br_vanilla_config config = {
    .embed_dim = EMBED,
    .n_heads = HEADS,
    .ff_hid_dim = FF,
    .n_layers = 3,
    .max_length = 8,
    .vocab_size = 11,
    .src_vocab_size = 11,
    .trg_vocab_size = 13,
    .src_pad_idx = 0,
    .trg_pad_idx = 1,
    .n_classes = 3,
    .pad_idx = 0,
    .dropout = 0.1,
};

static br_tensor *states(int64_t length)
{
    return br_randn(BR_SHAPE(B, length, EMBED), BR_F32);
}

/* Returns ids; the second entry ends with padding. */
static br_tensor *src_ids(void)
{
    return br_from_i64(BR_SHAPE(B, SRC_LEN), (int64_t[]){ 4, 10, 2, 7, 1, 3, 3, 0, 0, 0 });
}

static br_tensor *trg_ids(void)
{
    return br_from_i64(BR_SHAPE(B, TRG_LEN), (int64_t[]){ 2, 12, 5, 9, 2, 6, 3, 1 });
}

/* Checks that the module's state_dict has exactly n entries, including this name. */
static void check_key(br_module *module, int64_t n, const char *name)
{
    br_named_list *state = br_state_dict(module);
    cr_assert_not_null(state, "%s", br_error_message());
    cr_assert_eq(state->count, n, "%lld entries", (long long)state->count);
    cr_assert_not_null(br_named_list_get(state, name), "%s", name);
    br_named_list_free(state);
}

/* In [1]: imports torch and torch.nn. */
CELL_WITHOUT_TEST(1, CELL_IMPORTS);

/* ---- Layers ---------------------------------------------------------------------------------- */

/* Computes one head separately: softmax(q k^T / sqrt(embed_dim)) v with the head's columns of the
 * projections. */
static br_tensor *one_head(br_vanilla_multi_head_attention *m, int64_t head, br_tensor *q,
                           br_tensor *k, br_tensor *v, br_tensor *mask)
{
    q = br_narrow(br_linear_forward(m->queries, q), 2, head * HEAD_DIM, HEAD_DIM);
    k = br_narrow(br_linear_forward(m->keys, k), 2, head * HEAD_DIM, HEAD_DIM);
    v = br_narrow(br_linear_forward(m->values, v), 2, head * HEAD_DIM, HEAD_DIM);
    br_tensor *energy = br_div_scalar(br_bmm(q, br_transpose(k, 1, 2)), sqrt(EMBED));
    energy = br_masked_fill(energy, br_eq_scalar(br_squeeze(mask, 1), 0), -1e20);
    return br_bmm(br_softmax(energy, -1), v);
}

/* In [2]: `MultiHeadAttention` splits projections [batch_size, seq_len, embed_dim] into heads,
 * computes attention weights [batch_size, n_heads, seq_len, seq_len], and projects the concatenated
 * outputs of the heads. */
Test(notebook_vanilla, cell_2_multi_head_attention)
{
    br_scope *scope = br_scope_begin();
    br_vanilla_multi_head_attention *m = br_vanilla_multi_head_attention_new(&config);
    br_eval(br_base(m));
    check_key(br_base(m), 8, "proj.weight");
    br_recorder *recorder = br_recorder_begin();
    br_tensor *q = states(TRG_LEN), *k = states(SRC_LEN), *v = states(SRC_LEN);
    br_tensor *mask = br_vanilla_src_mask(src_ids(), 0), *heads[HEADS];
    br_tensor *x = br_vanilla_multi_head_attention_forward(m, q, k, v, mask);
    check_shape(x, B, TRG_LEN, EMBED);
    check_shape(br_recorder_get(recorder, "cross_attention"), B, HEADS, TRG_LEN, SRC_LEN);
    check_rows_sum_to_one(br_recorder_get(recorder, "cross_attention"));
    for (int i = 0; i < HEADS; i++)
        heads[i] = one_head(m, i, q, k, v, mask);
    br_tensor *want = br_linear_forward(m->proj, br_cat(HEADS, heads, -1));
    cr_assert(br_allclose(x, want, 1e-5, 1e-6), "%s", br_error_message());
    br_recorder_end(recorder);
    br_module_free(m);
    br_scope_end(scope);
}

/* In [3]: `EncoderLayer` adds attention to its input, and the mlp's output to the mlp's input, with
 * a layer norm after each sum. The mlp is Linear, ReLU, Dropout, Linear. */
Test(notebook_vanilla, cell_3_encoder_layer)
{
    br_scope *scope = br_scope_begin();
    br_vanilla_encoder_layer *layer = br_vanilla_encoder_layer_new(&config);
    br_eval(br_base(layer));
    check_key(br_base(layer), 8 + 4 + 4, "mlp.3.weight");
    br_tensor *src = states(SRC_LEN), *mask = br_vanilla_src_mask(src_ids(), 0);
    br_tensor *attention =
        br_vanilla_multi_head_attention_forward(layer->attention, src, src, src, mask);
    br_tensor *x = br_layer_norm_forward(layer->norm_1, br_add(attention, src));
    br_tensor *out = br_layer_norm_forward(layer->norm_2, br_add(br_forward(layer->mlp, x), x));
    check_shape(br_module_get(br_base(layer), "mlp.0.weight"), FF, EMBED);
    check_shape(out, B, SRC_LEN, EMBED);
    cr_assert(br_equal(out, br_vanilla_encoder_layer_forward(layer, src, mask)));
    br_module_free(layer);
    br_scope_end(scope);
}

/* In [4]: `DecoderLayer` applies self-attention, attention to the encoder's output with the same
 * weights, and the mlp, with a layer norm after each sum. The last norm is norm_2 again. */
Test(notebook_vanilla, cell_4_decoder_layer)
{
    br_scope *scope = br_scope_begin();
    br_vanilla_decoder_layer *layer = br_vanilla_decoder_layer_new(&config);
    br_eval(br_base(layer));
    check_key(br_base(layer), 2 * 8 + 6 + 4, "joint_attention.proj.bias");
    br_tensor *trg = states(TRG_LEN), *src = states(SRC_LEN);
    br_tensor *trg_mask = br_vanilla_trg_mask(trg_ids(), 1);
    br_tensor *src_mask = br_vanilla_src_mask(src_ids(), 0);
    br_tensor *got = br_vanilla_decoder_layer_forward(layer, trg, src, trg_mask, src_mask);
    check_shape(got, B, TRG_LEN, EMBED);
    br_vanilla_multi_head_attention *attention = layer->attention;
    br_tensor *own = br_vanilla_multi_head_attention_forward(attention, trg, trg, trg, trg_mask);
    trg = br_layer_norm_forward(layer->norm_1, br_add(trg, own));
    br_tensor *joint = br_vanilla_multi_head_attention_forward(attention, trg, src, src, src_mask);
    trg = br_layer_norm_forward(layer->norm_2, br_add(trg, joint));
    br_tensor *out = br_add(trg, br_forward(layer->mlp, trg));
    cr_assert(br_equal(got, br_layer_norm_forward(layer->norm_2, out)));
    br_module_free(layer);
    br_scope_end(scope);
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

/* Returns tok_emb(ids) sqrt(embed_dim) + pos_emb(0, 1, ...). */
static br_tensor *embed(br_embedding *tok_emb, br_embedding *pos_emb, br_tensor *ids)
{
    br_tensor *tokens = br_mul_scalar(br_embedding_forward(tok_emb, ids), sqrt(EMBED));
    return br_add(tokens, br_narrow(pos_emb->weight, 0, 0, br_size(ids, 1)));
}

/* In [5]: `Encoder` adds token embeddings, scaled by sqrt(embed_dim), and position embeddings, and
 * then applies n_layers layers. */
Test(notebook_vanilla, cell_5_encoder)
{
    br_scope *scope = br_scope_begin();
    br_vanilla_encoder *encoder = br_vanilla_encoder_new(&config);
    br_eval(br_base(encoder));
    check_key(br_base(encoder), 2 + 3 * 16, "blocks.2.norm_2.bias");
    br_tensor *mask = br_vanilla_src_mask(src_ids(), 0);
    br_tensor *out = embed(encoder->tok_emb, encoder->pos_emb, src_ids());
    for (int i = 0; i < 3; i++)
        out = br_vanilla_encoder_layer_forward(br_module_list_at(encoder->blocks, i), out, mask);
    check_shape(out, B, SRC_LEN, EMBED);
    cr_assert(br_equal(out, br_vanilla_encoder_forward(encoder, src_ids(), mask)));
    br_module_free(encoder);
    br_scope_end(scope);
}

/* In [6]: `Decoder` does the same with decoder layers, whose second attention has keys and values
 * from the encoder, and then applies a linear layer that computes logits over the vocabulary. */
Test(notebook_vanilla, cell_6_decoder)
{
    br_scope *scope = br_scope_begin();
    br_vanilla_decoder *decoder = br_vanilla_decoder_new(&config);
    br_eval(br_base(decoder));
    check_key(br_base(decoder), 2 + 3 * 26 + 2, "fc.weight");
    br_tensor *src = states(SRC_LEN), *src_mask = br_vanilla_src_mask(src_ids(), 0);
    br_tensor *ids = br_narrow(src_ids(), 1, 0, 2), *trg_mask = br_vanilla_trg_mask(ids, 0);
    br_tensor *trg = embed(decoder->tok_emb, decoder->pos_emb, ids);
    for (int i = 0; i < 3; i++)
        trg = br_vanilla_decoder_layer_forward(br_module_list_at(decoder->blocks, i), trg, src,
                                               trg_mask, src_mask);
    br_tensor *out = br_linear_forward(decoder->fc, trg);
    check_shape(out, B, 2, 11);
    cr_assert(br_equal(out, br_vanilla_decoder_forward(decoder, ids, src, trg_mask, src_mask)));
    br_module_free(decoder);
    br_scope_end(scope);
}

/* ---- Models ---------------------------------------------------------------------------------- */

/* In [7]: `Transformer` masks the padding of the source with src_mask [N, 1, 1, src_len], and the
 * padding and later tokens of the target with trg_mask [N, 1, trg_len, trg_len]. */
Test(notebook_vanilla, cell_7_transformer)
{
    br_scope *scope = br_scope_begin();
    br_tensor *src_mask = br_vanilla_src_mask(src_ids(), config.src_pad_idx);
    br_tensor *trg_mask = br_vanilla_trg_mask(trg_ids(), config.trg_pad_idx);
    bool src_wanted[B * SRC_LEN] = { 1, 1, 1, 1, 1, 1, 1, 0, 0, 0 };
    bool trg_wanted[B * TRG_LEN * TRG_LEN] = { 1, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1,
                                               1, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0, 1, 1, 1, 0 };
    cr_assert(br_equal(src_mask, br_from_bool(BR_SHAPE(B, 1, 1, SRC_LEN), src_wanted)));
    cr_assert(br_equal(trg_mask, br_from_bool(BR_SHAPE(B, 1, TRG_LEN, TRG_LEN), trg_wanted)));

    br_vanilla_transformer *model = br_vanilla_transformer_new(&config);
    br_eval(br_base(model));
    check_key(br_base(model), 50 + 82, "decoder.blocks.0.norm_3.weight");
    br_tensor *encoded = br_vanilla_encoder_forward(model->encoder, src_ids(), src_mask);
    br_tensor *decoded =
        br_vanilla_decoder_forward(model->decoder, trg_ids(), encoded, trg_mask, src_mask);
    check_shape(decoded, B, TRG_LEN, 13);
    cr_assert(br_equal(decoded, br_vanilla_transformer_forward(model, src_ids(), trg_ids())));
    br_module_free(model);
    br_scope_end(scope);
}

/* In [8]: `EncoderClassifier` computes the maximum of each feature over the encoder's positions,
 * from [batch_size, seq_len, embed_dim] to [batch_size, embed_dim], and applies a linear layer. */
Test(notebook_vanilla, cell_8_encoder_classifier)
{
    br_scope *scope = br_scope_begin();
    br_vanilla_encoder_classifier *model = br_vanilla_encoder_classifier_new(&config);
    br_eval(br_base(model));
    check_key(br_base(model), 50 + 2, "linear.weight");
    br_tensor *mask = br_vanilla_src_mask(src_ids(), config.pad_idx);
    br_tensor *x = br_vanilla_encoder_forward(model->encoder, src_ids(), mask);
    x = br_max_dim(x, 1, false, NULL);
    check_shape(x, B, EMBED);
    br_tensor *out = br_linear_forward(model->linear, x);
    check_shape(out, B, 3);
    cr_assert(br_equal(out, br_vanilla_encoder_classifier_forward(model, src_ids())));
    br_module_free(model);
    br_scope_end(scope);
}
