/* Notebook 004, Transformers Architecture, cell by cell, with the notebook's sizes: those of
 * bert-base-uncased up to cell 23, and its own sizes after that.
 *
 * The notebook never seeds its random generators, so its printed weights cannot be reproduced. The
 * tests check properties that hold for any random weights. */
#include "tests/notebooks/cells.h"

NOTEBOOK("004_ad16655b671b9d05.txt", "Transformers Architecture", 34);
TestSuite(notebook_architecture, .init = check_begin, .fini = check_end);

enum { SEQ_LEN = 9, HIDDEN = 768, HEADS = 12 };
enum { BATCH = 16, SOURCE_LENGTH = 10, TARGET_LENGTH = 12 };

/* ---- Values from earlier cells --------------------------------------------------------------- */

/* Returns the ids of "The quick brown fox jumps over the lazy dog". */
static br_tensor *input_ids(void)
{
    return br_from_i64(BR_SHAPE(1, SEQ_LEN),
                       (int64_t[]){ 1996, 4248, 2829, 4419, 14523, 2058, 1996, 13971, 3899 });
}

/* Returns a tensor like token_emb(input_ids): nine rows of normally distributed numbers. */
static br_tensor *random_embeds(void)
{
    return br_randn(BR_SHAPE(1, SEQ_LEN, HIDDEN), BR_F32);
}

static br_tensor *causal_mask(void)
{
    return br_unsqueeze(br_tril(br_ones(BR_SHAPE(SEQ_LEN, SEQ_LEN), BR_F32), 0), 0);
}

/* Returns the configuration of cell 5, which is AutoConfig's, with the given number of layers. */
static br_architecture_config bert_config(int64_t layers)
{
    br_auto_config *auto_config = br_auto_config_load(MODEL_CKPT);
    br_architecture_config config = br_architecture_config_from(auto_config);
    br_auto_config_free(auto_config);
    config.num_hidden_layers = layers;
    config.num_labels = 3;
    return config;
}

/* Returns the configuration of a model that is small enough to test its parts. */
static br_architecture_config small_config(void)
{
    return (br_architecture_config){ .hidden_size = 12,
                                     .intermediate_size = 20,
                                     .num_hidden_layers = 3,
                                     .vocab_size = 11,
                                     .max_position_embeddings = 8,
                                     .hidden_dropout_prob = 0.1,
                                     .num_attention_heads = 4,
                                     .num_labels = 3 };
}

static br_tensor *small_ids(void)
{
    return br_from_i64(BR_SHAPE(2, 3), (int64_t[]){ 4, 10, 2, 0, 4, 4 });
}

static br_tensor *small_hidden(int64_t length)
{
    return br_randn(BR_SHAPE(2, length, 12), BR_F32);
}

static br_tensor *random_ids(int64_t length)
{
    br_architecture_config config = br_architecture_notebook_config();
    return br_randint(0, config.vocab_size, BR_SHAPE(BATCH, length));
}

/* ---- Attention ------------------------------------------------------------------------------- */

/* In [2]: imports. */
CELL_WITHOUT_TEST(1, CELL_IMPORTS);

/* In [3]: `scaled_dot_product_attention` computes softmax(q k^T / sqrt(dim_k)) v for each head,
 * with scores of -inf where the mask is 0. */
Test(notebook_architecture, cell_2_scaled_dot_product_attention)
{
    br_scope *scope = br_scope_begin();
    br_tensor *query = br_randn(BR_SHAPE(2, 3, 4, 8), BR_F32),
              *key = br_randn(BR_SHAPE(2, 3, 5, 8), BR_F32),
              *value = br_randn(BR_SHAPE(2, 3, 5, 6), BR_F32),
              *mask = br_tril(br_ones(BR_SHAPE(2, 4, 5), BR_F32), 0);
    br_tensor *scores = br_div_scalar(br_matmul(query, br_transpose(key, -2, -1)), sqrt(8));
    br_tensor *want = br_matmul(br_softmax(scores, -1), value);
    check_shape(want, 2, 3, 4, 6);
    cr_assert(br_equal(br_architecture_scaled_dot_product_attention(query, key, value, NULL, NULL),
                       want));
    scores = br_masked_fill(scores, br_eq_scalar(br_unsqueeze(mask, 1), 0), -INFINITY);
    want = br_matmul(br_softmax(scores, -1), value);
    cr_assert(br_equal(br_architecture_scaled_dot_product_attention(query, key, value, mask, NULL),
                       want));
    br_scope_end(scope);
}

/* In [4]: `MultiHeadAttention` splits q, k and v into heads, attends, and joins the results. */
Test(notebook_architecture, cell_3_multi_head_attention)
{
    br_scope *scope = br_scope_begin();
    br_architecture_config config = small_config();
    br_architecture_multi_head_attention *a = br_architecture_multi_head_attention_new(&config);
    check_keys(
        br_base(a), 8,
        KEYS("q.weight", "k.bias", "v.weight", "output_linear.weight", "output_linear.bias"));
    br_eval(br_base(a));
    br_tensor *query = small_hidden(2), *key = small_hidden(5), *heads[4];
    br_tensor *q = br_linear_forward(a->q, query), *k = br_linear_forward(a->k, key),
              *v = br_linear_forward(a->v, key);
    for (int h = 0; h < 4; h++)
        heads[h] = br_architecture_scaled_dot_product_attention(
            br_narrow(q, -1, 3 * h, 3), br_narrow(k, -1, 3 * h, 3), br_narrow(v, -1, 3 * h, 3),
            NULL, NULL);
    br_tensor *want = br_linear_forward(a->output_linear, br_cat(4, heads, -1));
    br_tensor *output = br_architecture_multi_head_attention_forward(a, query, key, key, NULL);
    check_shape(output, 2, 2, 12);
    cr_assert(br_allclose(output, want, 1e-5, 1e-6), "%s", br_error_message());
    br_module_free(a);
    br_scope_end(scope);
}

/* In [5]: an attention with 12 heads of size 64; q, k, v and the output are [1, 9, 768]. */
Test(notebook_architecture, cell_4_multihead_attn)
{
    br_scope *scope = br_scope_begin();
    br_architecture_config config = bert_config(12);
    br_architecture_multi_head_attention *attn = br_architecture_multi_head_attention_new(&config);
    cr_assert_eq(attn->embed_dim, 768);
    cr_assert_eq(attn->num_heads, 12);
    cr_assert_eq(attn->head_dim, 64);
    br_tensor *x = random_embeds();
    check_shape(br_linear_forward(attn->q, x), 1, 9, 768);
    br_recorder *recorder = br_recorder_begin();
    check_shape(br_architecture_multi_head_attention_forward(attn, x, x, x, NULL), 1, 9, 768);
    br_tensor *weights = br_recorder_get(recorder, "attention");
    check_shape(weights, 1, 12, 9, 9);
    check_rows_sum_to_one(weights);
    br_recorder_end(recorder);
    br_module_free(attn);
    br_scope_end(scope);
}

/* ---- The feed-forward layer and the encoder block -------------------------------------------- */

/* In [6]: `FeedForward` computes linear_2(relu(linear_1(x))), with dropout after it in training. */
Test(notebook_architecture, cell_5_feed_forward)
{
    br_scope *scope = br_scope_begin();
    br_architecture_config config = small_config();
    br_architecture_feed_forward *feed_forward = br_architecture_feed_forward_new(&config);
    check_keys(br_base(feed_forward), 4,
               KEYS("linear_1.weight", "linear_1.bias", "linear_2.weight", "linear_2.bias"));
    br_tensor *x = small_hidden(3);
    br_tensor *inner = br_relu(br_linear_forward(feed_forward->linear_1, x));
    br_tensor *want = br_linear_forward(feed_forward->linear_2, inner);
    cr_assert_not(br_equal(br_architecture_feed_forward_forward(feed_forward, x), want));
    br_eval(br_base(feed_forward));
    cr_assert(br_equal(br_architecture_feed_forward_forward(feed_forward, x), want));
    br_module_free(feed_forward);
    br_scope_end(scope);
}

/* In [7]: `ff_outputs`, [1, 9, 768]. */
Test(notebook_architecture, cell_6_ff_outputs)
{
    br_scope *scope = br_scope_begin();
    br_architecture_config config = bert_config(12);
    br_architecture_feed_forward *feed_forward = br_architecture_feed_forward_new(&config);
    check_shape(br_architecture_feed_forward_forward(feed_forward, random_embeds()), 1, 9, 768);
    br_module_free(feed_forward);
    br_scope_end(scope);
}

/* In [8]: `TransformerEncoderBlock` computes x + x instead of x + attention, and continues with the
 * layer norm of the sum. */
Test(notebook_architecture, cell_7_transformer_encoder_block)
{
    br_scope *scope = br_scope_begin();
    br_architecture_config config = small_config();
    br_architecture_encoder_block *block = br_architecture_encoder_block_new(&config);
    check_keys(br_base(block), 2 + 2 + 8 + 4,
               KEYS("layer_norm_1.weight", "layer_norm_2.bias", "attention.output_linear.bias",
                    "feed_forward.linear_2.weight"));
    br_eval(br_base(block));
    br_tensor *x = small_hidden(3);
    br_tensor *y = br_layer_norm_forward(block->layer_norm_2, br_add(x, x));
    y = br_add(y, br_architecture_feed_forward_forward(block->feed_forward, y));
    cr_assert(br_equal(br_architecture_encoder_block_forward(block, x, NULL), y));
    br_module_free(block);
    br_scope_end(scope);
}

/* In [9]: the shapes of the block's input, its attention weights and its output. */
Test(notebook_architecture, cell_8_encoder_layer)
{
    br_scope *scope = br_scope_begin();
    br_architecture_config config = bert_config(12);
    br_architecture_encoder_block *encoder_layer = br_architecture_encoder_block_new(&config);
    br_recorder *recorder = br_recorder_begin();
    check_shape(br_architecture_encoder_block_forward(encoder_layer, random_embeds(), NULL), 1, 9,
                768);
    check_shape(br_recorder_get(recorder, "attention.attention"), 1, 12, 9, 9);
    br_recorder_end(recorder);
    br_module_free(encoder_layer);
    br_scope_end(scope);
}

/* ---- Embeddings and encoder ------------------------------------------------------------------ */

/* In [11]: `Embeddings` computes the layer norm of token embedding plus position embedding. In
 * training, half of the elements are dropped, whatever hidden_dropout_prob is. */
Test(notebook_architecture, cell_9_embeddings)
{
    br_scope *scope = br_scope_begin();
    br_architecture_config config = small_config();
    br_architecture_embeddings *embeddings = br_architecture_embeddings_new(&config);
    check_keys(br_base(embeddings), 4,
               KEYS("token_embeddings.weight", "position_embeddings.weight", "layer_norm.weight",
                    "layer_norm.bias"));
    cr_assert_eq(embeddings->dropout->p, 0.5);
    br_eval(br_base(embeddings));
    br_tensor *token = br_embedding_forward(embeddings->token_embeddings, small_ids());
    br_tensor *sum = br_add(token, br_narrow(embeddings->position_embeddings->weight, 0, 0, 3));
    cr_assert(br_equal(br_architecture_embeddings_forward(embeddings, small_ids()),
                       br_layer_norm_forward(embeddings->layer_norm, sum)));
    br_module_free(embeddings);
    br_scope_end(scope);
}

/* In [12]: the embedding layer's output, [1, 9, 768]. */
Test(notebook_architecture, cell_10_embedding_layer)
{
    br_scope *scope = br_scope_begin();
    br_architecture_config config = bert_config(12);
    br_architecture_embeddings *embedding_layer = br_architecture_embeddings_new(&config);
    check_shape(br_architecture_embeddings_forward(embedding_layer, input_ids()), 1, 9, 768);
    br_module_free(embedding_layer);
    br_scope_end(scope);
}

/* In [13]: `TransformerEncoder` applies the embeddings and then each block. */
Test(notebook_architecture, cell_11_transformer_encoder)
{
    br_scope *scope = br_scope_begin();
    br_architecture_config config = small_config();
    br_architecture_encoder *encoder = br_architecture_encoder_new(&config);
    check_keys(br_base(encoder), 4 + 3 * 16,
               KEYS("embeddings.layer_norm.bias", "layers.2.feed_forward.linear_1.bias"));
    br_eval(br_base(encoder));
    br_tensor *x = br_architecture_embeddings_forward(encoder->embeddings, small_ids());
    for (int i = 0; i < 3; i++)
        x = br_architecture_encoder_block_forward(br_module_list_at(encoder->layers, i), x, NULL);
    cr_assert(br_equal(br_architecture_encoder_forward(encoder, small_ids(), NULL), x));
    br_module_free(encoder);
    br_scope_end(scope);
}

/* In [14]: `encoder_output` of 12 blocks, [1, 9, 768]. */
Test(notebook_architecture, cell_12_encoder_output)
{
    br_scope *scope = br_no_grad_begin();
    br_architecture_config config = bert_config(12);
    br_architecture_encoder *encoder = br_architecture_encoder_new(&config);
    cr_assert_eq(br_module_list_size(encoder->layers), 12);
    check_shape(br_architecture_encoder_forward(encoder, input_ids(), NULL), 1, 9, 768);
    br_module_free(encoder);
    br_scope_end(scope);
}

/* In [15]: `encoder_output` has zeros, because the model is in training mode and its last step is
 * dropout of a tenth of all elements. */
Test(notebook_architecture, cell_13_encoder_output_has_zeros)
{
    br_scope *scope = br_scope_begin();
    br_architecture_config config = bert_config(1);
    br_architecture_encoder *encoder = br_architecture_encoder_new(&config);
    br_tensor *encoder_output = br_architecture_encoder_forward(encoder, input_ids(), NULL);
    cr_assert_str_eq(br_op_name(encoder_output), "dropout");
    double n = SEQ_LEN * HIDDEN,
           zeros = (double)br_item_i64(br_sum(br_eq_scalar(encoder_output, 0)));
    check_close(zeros, 0.1 * n, 7 * sqrt(0.1 * 0.9 * n)); /* within seven standard deviations */
    br_module_free(encoder);
    br_scope_end(scope);
}

/* ---- Classification head --------------------------------------------------------------------- */

/* In [16]: `TransformerForSequenceClassification` applies a linear layer to the encoder's state at
 * position 0, with dropout before it in training. */
Test(notebook_architecture, cell_14_transformer_for_sequence_classification)
{
    br_scope *scope = br_scope_begin();
    br_architecture_config config = small_config();
    br_architecture_classifier *model = br_architecture_classifier_new(&config);
    check_keys(
        br_base(model), 4 + 3 * 16 + 2,
        KEYS("encoder.embeddings.token_embeddings.weight", "classifier.weight", "classifier.bias"));
    br_eval(br_base(model));
    br_tensor *x = br_architecture_encoder_forward(model->encoder, small_ids(), NULL);
    cr_assert(br_equal(br_architecture_classifier_forward(model, small_ids()),
                       br_linear_forward(model->classifier, br_select(x, 1, 0))));
    br_module_free(model);
    br_scope_end(scope);
}

/* In [17]: the logits of three labels, [1, 3]. */
Test(notebook_architecture, cell_15_encoder_classifier)
{
    br_scope *scope = br_no_grad_begin();
    br_architecture_config config = bert_config(12);
    br_architecture_classifier *encoder_classifier = br_architecture_classifier_new(&config);
    check_shape(br_architecture_classifier_forward(encoder_classifier, input_ids()), 1, 3);
    br_module_free(encoder_classifier);
    br_scope_end(scope);
}

/* ---- The decoder ----------------------------------------------------------------------------- */

/* Returns norm(x + attention), which the decoder block computes twice. */
static br_tensor *add_attention(br_architecture_multi_head_attention *attention,
                                br_layer_norm *norm, br_tensor *x, br_tensor *query, br_tensor *key)
{
    x = br_add(x, br_architecture_multi_head_attention_forward(attention, query, key, key, NULL));
    return br_layer_norm_forward(norm, x);
}

/* In [18]: `TransformerDecoderBlock` adds self-attention of the layer-normalized state, attention
 * to the encoder's output, and the feed-forward layer, with a layer norm after each of the first
 * two sums. */
Test(notebook_architecture, cell_16_transformer_decoder_block)
{
    br_scope *scope = br_scope_begin();
    br_architecture_config config = small_config();
    br_architecture_decoder_block *b = br_architecture_decoder_block_new(&config);
    check_keys(br_base(b), 3 * 2 + 2 * 8 + 4,
               KEYS("layer_norm_3.weight", "attn_1.q.weight", "attn_2.output_linear.bias",
                    "feed_forward.linear_1.weight"));
    br_eval(br_base(b));
    br_tensor *x = small_hidden(3), *encoder_output = small_hidden(5);
    br_tensor *hidden_state = br_layer_norm_forward(b->layer_norm_1, x);
    br_tensor *y = add_attention(b->attn_1, b->layer_norm_2, x, hidden_state, hidden_state);
    y = add_attention(b->attn_2, b->layer_norm_3, y, y, encoder_output);
    y = br_add(y, br_architecture_feed_forward_forward(b->feed_forward, y));
    cr_assert(br_equal(br_architecture_decoder_block_forward(b, x, encoder_output, NULL, NULL), y));
    br_module_free(b);
    br_scope_end(scope);
}

/* In [19]: `mask`, [1, 9, 9]: ones on and below the diagonal. */
Test(notebook_architecture, cell_17_mask)
{
    br_scope *scope = br_scope_begin();
    br_tensor *mask = causal_mask();
    check_shape(mask, 1, 9, 9);
    cr_assert(br_equal(br_architecture_create_mask(1, SEQ_LEN), mask));
    br_scope_end(scope);
}

/* In [20]: the decoder block's output, [1, 9, 768]. With the mask, no query attends to later
 * keys. */
Test(notebook_architecture, cell_18_decoder_layer)
{
    br_scope *scope = br_scope_begin();
    br_architecture_config config = bert_config(12);
    br_architecture_decoder_block *decoder_layer = br_architecture_decoder_block_new(&config);
    br_tensor *encoder_output = random_embeds(), *mask = causal_mask();
    br_recorder *recorder = br_recorder_begin();
    check_shape(br_architecture_decoder_block_forward(decoder_layer, encoder_output, encoder_output,
                                                      NULL, mask),
                1, 9, 768);
    br_tensor *weights = br_recorder_get(recorder, "attn_1.attention");
    check_shape(weights, 1, 12, 9, 9);
    check_rows_sum_to_one(weights);
    cr_assert(br_equal(br_tril(weights, 0), weights));
    check_rows_sum_to_one(br_recorder_get(recorder, "attn_2.cross_attention"));
    br_recorder_end(recorder);
    br_module_free(decoder_layer);
    br_scope_end(scope);
}

/* In [21]: `TransformerDecoder` applies the embeddings and then each block. */
Test(notebook_architecture, cell_19_transformer_decoder)
{
    br_scope *scope = br_scope_begin();
    br_architecture_config config = small_config();
    br_architecture_decoder *decoder = br_architecture_decoder_new(&config);
    check_keys(br_base(decoder), 4 + 3 * 26,
               KEYS("embeddings.position_embeddings.weight", "layers.2.attn_2.v.bias"));
    br_eval(br_base(decoder));
    br_tensor *encoder_output = small_hidden(5), *mask = br_architecture_create_mask(2, 3);
    br_tensor *x = br_architecture_embeddings_forward(decoder->embeddings, small_ids());
    for (int i = 0; i < 3; i++)
        x = br_architecture_decoder_block_forward(br_module_list_at(decoder->layers, i), x,
                                                  encoder_output, NULL, mask);
    cr_assert(br_equal(
        br_architecture_decoder_forward(decoder, small_ids(), encoder_output, NULL, mask), x));
    br_module_free(decoder);
    br_scope_end(scope);
}

/* In [22]: the decoder's output after 12 blocks, [1, 9, 768]. */
Test(notebook_architecture, cell_20_decoder_output)
{
    br_scope *scope = br_no_grad_begin();
    br_architecture_config config = bert_config(12);
    br_architecture_decoder *decoder = br_architecture_decoder_new(&config);
    cr_assert_eq(br_module_list_size(decoder->layers), 12);
    check_shape(
        br_architecture_decoder_forward(decoder, input_ids(), random_embeds(), NULL, causal_mask()),
        1, 9, 768);
    br_module_free(decoder);
    br_scope_end(scope);
}

/* In [23]: the decoder's output has no zeros, because its last step is a sum. */
Test(notebook_architecture, cell_21_output_is_a_sum)
{
    br_scope *scope = br_scope_begin();
    br_architecture_config config = bert_config(1);
    br_architecture_decoder *decoder = br_architecture_decoder_new(&config);
    br_tensor *output =
        br_architecture_decoder_forward(decoder, input_ids(), random_embeds(), NULL, causal_mask());
    cr_assert_str_eq(br_op_name(output), "add");
    cr_assert_eq(br_item_i64(br_sum(br_eq_scalar(output, 0))), 0);
    br_module_free(decoder);
    br_scope_end(scope);
}

/* ---- Encoder-decoder ------------------------------------------------------------------------- */

/* In [24]: `EncoderDecoder` applies a linear layer to the decoder's output. Only the decoder gets
 * source_mask. */
Test(notebook_architecture, cell_22_encoder_decoder)
{
    br_scope *scope = br_scope_begin();
    br_architecture_config config = small_config();
    br_architecture_encoder_decoder *model = br_architecture_encoder_decoder_new(&config);
    check_keys(br_base(model), 4 + 3 * 16 + 4 + 3 * 26 + 2,
               KEYS("encoder.layers.0.attention.q.weight", "decoder.layers.2.attn_1.k.bias",
                    "fc.weight", "fc.bias"));
    br_eval(br_base(model));
    br_tensor *ids = small_ids(), *target_mask = br_architecture_create_mask(2, 3);
    br_tensor *source_mask = br_architecture_source_mask(ids);
    br_tensor *x = br_architecture_encoder_forward(model->encoder, ids, NULL);
    x = br_architecture_decoder_forward(model->decoder, ids, x, source_mask, target_mask);
    cr_assert(
        br_equal(br_architecture_encoder_decoder_forward(model, ids, ids, source_mask, target_mask),
                 br_linear_forward(model->fc, x)));
    br_module_free(model);
    br_scope_end(scope);
}

/* In [25]: `TransformerConfig` with its seven fields, which are all that a model needs. */
Test(notebook_architecture, cell_23_transformer_config)
{
    br_architecture_config config = { .hidden_size = 4,
                                      .intermediate_size = 6,
                                      .num_hidden_layers = 1,
                                      .vocab_size = 5,
                                      .max_position_embeddings = 3,
                                      .hidden_dropout_prob = 0.1,
                                      .num_attention_heads = 2 };
    br_architecture_encoder_decoder *model = br_architecture_encoder_decoder_new(&config);
    check_ok();
    br_module_free(model);
}

/* In [26]: the configuration of the model to train. */
Test(notebook_architecture, cell_24_config)
{
    br_architecture_config config = br_architecture_notebook_config();
    cr_assert_eq(config.hidden_size, 512);
    cr_assert_eq(config.intermediate_size, 2048);
    cr_assert_eq(config.num_hidden_layers, 6);
    cr_assert_eq(config.vocab_size, 100);
    cr_assert_eq(config.max_position_embeddings, 512);
    cr_assert_eq(config.hidden_dropout_prob, 0.1);
    cr_assert_eq(config.num_attention_heads, 8);
}

/* In [27]: `source_ids`, [16, 10], and `target_ids`, [16, 12], with ids 0 .. 99. */
Test(notebook_architecture, cell_25_source_and_target_ids)
{
    br_scope *scope = br_scope_begin();
    br_tensor *source_ids = random_ids(SOURCE_LENGTH), *target_ids = random_ids(TARGET_LENGTH);
    check_shape(source_ids, 16, 10);
    check_shape(target_ids, 16, 12);
    cr_assert_eq(br_item_i64(br_sum(br_ge_scalar(source_ids, 100))), 0);
    cr_assert_eq(br_item_i64(br_sum(br_lt_scalar(target_ids, 0))), 0);
    br_scope_end(scope);
}

/* In [28]: `create_mask` returns the same lower triangular mask for each entry of the batch. */
Test(notebook_architecture, cell_26_create_mask)
{
    br_scope *scope = br_scope_begin();
    char *printed = br_to_string(br_architecture_create_mask(2, 3));
    cr_assert_str_eq(printed, "tensor([[[1., 0., 0.],\n"
                              "         [1., 1., 0.],\n"
                              "         [1., 1., 1.]],\n"
                              "\n"
                              "        [[1., 0., 0.],\n"
                              "         [1., 1., 0.],\n"
                              "         [1., 1., 1.]]])");
    br_free(printed);
    br_scope_end(scope);
}

/* In [29]: `source_mask`, [16, 10, 10], and `target_mask`, [16, 12, 12]. */
Test(notebook_architecture, cell_27_masks)
{
    br_scope *scope = br_scope_begin();
    check_shape(br_architecture_create_mask(BATCH, SOURCE_LENGTH), 16, 10, 10);
    check_shape(br_architecture_create_mask(BATCH, TARGET_LENGTH), 16, 12, 12);
    br_scope_end(scope);
}

/* In [30]: sets the logger's level. */
CELL_WITHOUT_TEST(28, CELL_IMPORTS);

/* In [31]: the decoder's output, [16, 10, 512]. The causal mask is passed as source_mask, so it
 * masks cross-attention, and self-attention is not masked. */
Test(notebook_architecture, cell_29_decoder_of_source_ids)
{
    br_scope *scope = br_no_grad_begin();
    br_architecture_config config = br_architecture_notebook_config();
    br_architecture_encoder *encoder = br_architecture_encoder_new(&config);
    br_architecture_decoder *decoder = br_architecture_decoder_new(&config);
    br_tensor *source_ids = random_ids(SOURCE_LENGTH),
              *source_mask = br_architecture_create_mask(BATCH, SOURCE_LENGTH);
    br_recorder *recorder = br_recorder_begin();
    br_tensor *encoder_output = br_architecture_encoder_forward(encoder, source_ids, NULL);
    check_shape(
        br_architecture_decoder_forward(decoder, source_ids, encoder_output, source_mask, NULL), 16,
        10, 512);
    br_tensor *self = br_recorder_get(recorder, "layers.5.attn_1.attention"),
              *cross = br_recorder_get(recorder, "layers.5.attn_2.cross_attention");
    check_shape(cross, 16, 8, 10, 10);
    cr_assert(br_equal(br_tril(cross, 0), cross));
    cr_assert_not(br_equal(br_tril(self, 0), self));
    br_recorder_end(recorder);
    br_module_free(encoder);
    br_module_free(decoder);
    br_scope_end(scope);
}

/* In [32]: "Output Shape: torch.Size([16, 12, 100])". */
Test(notebook_architecture, cell_30_output_shape)
{
    br_scope *scope = br_no_grad_begin();
    br_architecture_config config = br_architecture_notebook_config();
    br_architecture_encoder_decoder *model = br_architecture_encoder_decoder_new(&config);
    br_tensor *target_mask = br_architecture_create_mask(BATCH, TARGET_LENGTH);
    check_shape(br_architecture_encoder_decoder_forward(
                    model, random_ids(SOURCE_LENGTH), random_ids(TARGET_LENGTH), NULL, target_mask),
                16, 12, 100);
    br_module_free(model);
    br_scope_end(scope);
}

/* In [33]: the shape of `target_ids`, [16, 12]. */
Test(notebook_architecture, cell_31_target_ids)
{
    br_scope *scope = br_scope_begin();
    check_shape(random_ids(TARGET_LENGTH), 16, 12);
    br_scope_end(scope);
}

/* ---- Training -------------------------------------------------------------------------------- */

/* In [34]: `RandomDataset` generates sequences that begin with 1 and have no padding. The target's
 * mask excludes padding and later tokens. */
Test(notebook_architecture, cell_32_random_dataset)
{
    br_scope *scope = br_scope_begin();
    br_dataset *dataset = br_architecture_random_dataset_new(100, 2, 3, 10, false);
    cr_assert_eq(br_dataset_size(dataset), 6);
    for (int64_t i = 0; i < 6; i++) {
        br_tensor *sample[BR_ARCHITECTURE_FIELDS];
        cr_assert(br_dataset_get(dataset, i, sample), "%s", br_error_message());
        br_tensor *source = sample[BR_ARCHITECTURE_SOURCE];
        cr_assert_eq(br_at(source, BR_SHAPE(0)), 1);
        cr_assert_eq(br_item_i64(br_sum(br_lt_scalar(source, 1))), 0);
        cr_assert_eq(br_item_i64(br_sum(br_ge_scalar(source, 100))), 0);
        cr_assert(br_equal(sample[BR_ARCHITECTURE_TARGET_MASK],
                           br_architecture_make_std_mask(source, 0)));
    }
    br_dataset_free(dataset);
    char *printed = br_to_string(br_architecture_subsequent_mask(3));
    cr_assert_str_eq(printed, "tensor([[ True, False, False],\n"
                              "        [ True,  True, False],\n"
                              "        [ True,  True,  True]])");
    br_free(printed);
    br_scope_end(scope);
}

/* In [35]: `train_loader`: 64,000 sequences of length 10 in batches of 64. */
Test(notebook_architecture, cell_33_train_loader)
{
    br_scope *scope = br_scope_begin();
    br_dataset *train_set = br_architecture_random_dataset_new(100, 64, 1000, 10, false);
    br_loader *train_loader = br_loader_new(train_set, BR_OPTIONS(br_loader, .batch_size = 64));
    cr_assert_eq(br_dataset_size(train_set), 64000);
    cr_assert_eq(br_loader_size(train_loader), 1000);
    br_tensor *batch[BR_ARCHITECTURE_FIELDS];
    cr_assert(br_loader_begin(train_loader) && br_loader_next(train_loader, batch));
    check_shape(batch[BR_ARCHITECTURE_SOURCE], 64, 10);
    check_shape(batch[BR_ARCHITECTURE_TARGET], 64, 9);
    check_shape(batch[BR_ARCHITECTURE_TARGET_Y], 64, 9);
    check_shape(batch[BR_ARCHITECTURE_SOURCE_MASK], 64, 1, 10);
    check_shape(batch[BR_ARCHITECTURE_TARGET_MASK], 64, 10, 10);
    check_shape(batch[BR_ARCHITECTURE_TOKENS_COUNT], 64);
    br_loader_free(train_loader);
    br_dataset_free(train_set);
    br_scope_end(scope);
}

static void init_parameters(br_architecture_encoder_decoder *model)
{
    br_named_list *parameters = br_parameters(br_base(model));
    for (int64_t i = 0; parameters && i < parameters->count; i++)
        if (br_ndim(parameters->items[i].tensor) > 1)
            br_init_xavier_uniform_(parameters->items[i].tensor, 1);
    br_named_list_free(parameters);
}

/* Runs one iteration of the training loop; returns the loss before the step, NAN on error. */
static double train_batch(br_architecture_encoder_decoder *model, br_optim *optimizer,
                          br_tensor *const *batch)
{
    br_scope *scope = br_scope_begin();
    br_tensor *out = br_architecture_encoder_decoder_forward(
        model, batch[BR_ARCHITECTURE_SOURCE], batch[BR_ARCHITECTURE_TARGET],
        batch[BR_ARCHITECTURE_SOURCE_MASK], batch[BR_ARCHITECTURE_TARGET_MASK]);
    br_tensor *loss = br_cross_entropy(br_view(out, BR_SHAPE(-1, br_size(out, -1))),
                                       br_flatten(batch[BR_ARCHITECTURE_TARGET_Y], 0, -1), NULL);
    br_backward(loss);
    br_optim_step(optimizer);
    br_optim_zero_grad(optimizer);
    double value = br_item(loss);
    br_scope_end(scope);
    return value;
}

/* Trains for one epoch; *first and *last are the mean losses of the first ten and of the last ten
 * batches. */
static void train_epoch(br_architecture_encoder_decoder *model, br_dataset *train_set,
                        double *first, double *last)
{
    br_optim *optimizer = br_adam(br_base(model), BR_OPTIONS(br_adam, .lr = 0.005));
    br_loader *loader = br_loader_new(train_set, BR_OPTIONS(br_loader, .batch_size = 32));
    int64_t batches = br_loader_size(loader);
    *first = *last = 0;
    br_loader_begin(loader);
    for (int64_t i = 0; i < batches && !br_failed(); i++) {
        br_scope *scope = br_scope_begin();
        br_tensor *batch[BR_ARCHITECTURE_FIELDS] = { 0 };
        br_loader_next(loader, batch);
        double loss = train_batch(model, optimizer, batch);
        *first += i < 10 ? loss / 10 : 0;
        *last += i >= batches - 10 ? loss / 10 : 0;
        br_scope_end(scope);
    }
    br_loader_free(loader);
    br_optim_free(optimizer);
}

/* In [36]: the training loop. As written, it fails in the first batch, because the mask is for 10
 * ids and there are 9 targets. With the intended variant, the loss decreases like the printed one;
 * the test uses a small model. */
Test(notebook_architecture, cell_34_training)
{
    br_set_num_threads(1); /* more threads would be slower with such small steps */
    br_manual_seed(1);
    br_architecture_config config = { .hidden_size = 32,
                                      .intermediate_size = 64,
                                      .num_hidden_layers = 1,
                                      .vocab_size = 8,
                                      .max_position_embeddings = 10,
                                      .num_attention_heads = 4 };
    for (int intended = 0; intended < 2; intended++) {
        config.add_attention = config.pre_norm = config.embedding_dropout = intended;
        br_dataset *train_set = br_architecture_random_dataset_new(8, 32, 120, 10, intended);
        br_architecture_encoder_decoder *model = br_architecture_encoder_decoder_new(&config);
        init_parameters(model);
        br_train(br_base(model), true);
        double first, last;
        train_epoch(model, train_set, &first, &last);
        if (intended)
            cr_assert(last < first / 100, "from %g to %g", first, last);
        else
            check_fails(!br_failed(), "decoder.layers.0.attn_1: masked_fill: x [32, 4, 9, 9] and "
                                      "mask [32, 1, 10, 10] do not broadcast");
        br_module_free(model);
        br_dataset_free(train_set);
    }
}
