/* Notebook 000, Transformer Anatomy, cell by cell, with the notebook's sizes, which are those of
 * bert-base-uncased.
 *
 * The notebook never seeds its random generator, so its printed weights and scores cannot be
 * reproduced. The tests check properties that hold for any random weights. */
#include "tests/notebooks/views.h"

NOTEBOOK("000_5dbdfd3571e9fee9.txt", "Transformer Anatomy", 29);
TestSuite(notebook_anatomy, .init = check_begin, .fini = check_end);

enum { SEQ_LEN = 5, HIDDEN = 768, HEADS = 12, HEAD_DIM = HIDDEN / HEADS };

/* ---- Values from earlier cells --------------------------------------------------------------- */

/* Returns the ids of "time flies like an arrow". */
static br_tensor *input_ids(void)
{
    return br_from_i64(BR_SHAPE(1, SEQ_LEN), (int64_t[]){ 2051, 10029, 2066, 2019, 8612 });
}

/* Returns a tensor like token_emb(input_ids): five rows of normally distributed numbers. */
static br_tensor *random_embeds(void)
{
    return br_randn(BR_SHAPE(1, SEQ_LEN, HIDDEN), BR_F32);
}

static br_tensor *scores_of(br_tensor *query, br_tensor *key)
{
    return br_div_scalar(br_bmm(query, br_transpose(key, 1, 2)), sqrt(br_size(key, -1)));
}

/* Returns the configuration of a model that is small enough to test its parts. */
static br_anatomy_config small_config(void)
{
    br_anatomy_config c = br_anatomy_notebook_config();
    c.vocab_size = 11;
    c.hidden_size = 12;
    c.num_hidden_layers = 3;
    c.num_attention_heads = 4;
    c.intermediate_size = 20;
    c.max_position_embeddings = 8;
    return c;
}

static br_tensor *small_ids(void)
{
    return br_from_i64(BR_SHAPE(2, 3), (int64_t[]){ 4, 10, 2, 0, 4, 4 });
}

/* ---- Self-attention -------------------------------------------------------------------------- */

/* In [1]: clones the book's repository and installs its requirements. */
CELL_WITHOUT_TEST(1, CELL_INSTALLS);

/* In [ ]: calls the book's `setup_chapter()`. */
CELL_WITHOUT_TEST(2, CELL_IMPORTS);

/* In [2]: sets the paths of the page's JavaScript. */
CELL_WITHOUT_TEST(3, CELL_IMPORTS);

/* In [3]: bertviz's neuron view: how queries and keys give the weights of head 8 in BERT's first
 * layer. */
Test(notebook_anatomy, cell_4_neuron_view)
{
    check_neuron_view();
}

/* In [ ]: the tokenizer of bert-base-uncased and the text "time flies like an arrow". */
Test(notebook_anatomy, cell_5_tokenizer)
{
    br_tokenizer *tokenizer = bert_tokenizer();
    cr_assert_eq(br_tokenizer_size(tokenizer), br_anatomy_notebook_config().vocab_size);
    br_tokenizer_free(tokenizer);
}

/* In [4]: the ids of the text without special tokens, 2051 10029 2066 2019 8612. */
Test(notebook_anatomy, cell_6_input_ids)
{
    br_scope *scope = br_scope_begin();
    br_tokenizer *tokenizer = bert_tokenizer();
    br_tensor *ids = bert_input_ids(tokenizer, "time flies like an arrow");
    check_printed(ids, "tensor([[ 2051, 10029,  2066,  2019,  8612]])");
    cr_assert(br_equal(ids, input_ids()));
    br_tokenizer_free(tokenizer);
    br_scope_end(scope);
}

/* In [5]: `config` from AutoConfig, and `token_emb`, Embedding(30522, 768). */
Test(notebook_anatomy, cell_7_token_emb)
{
    br_auto_config *config = br_auto_config_load(MODEL_CKPT);
    br_embedding *token_emb = br_embedding_new(br_auto_config_size(config, "vocab_size"),
                                               br_auto_config_size(config, "hidden_size"), -1);
    br_auto_config_free(config);
    check_ok();
    cr_assert_eq(token_emb->num_embeddings, 30522);
    cr_assert_eq(token_emb->embedding_dim, 768);
    check_shape(token_emb->weight, 30522, 768);
    br_module_free(token_emb);
}

/* In [6]: `inputs_embeds`, [1, 5, 768]: the row of the embedding table for each id. */
Test(notebook_anatomy, cell_8_inputs_embeds)
{
    br_scope *scope = br_no_grad_begin();
    br_embedding *token_emb = br_embedding_new(30522, HIDDEN, -1);
    br_tensor *inputs_embeds = br_embedding_forward(token_emb, input_ids());
    check_shape(inputs_embeds, 1, 5, 768);
    cr_assert(
        br_equal(br_select(inputs_embeds, 1, 4), br_slice(token_emb->weight, 0, 8612, 8613, 1)));
    br_scope_end(scope);
    br_module_free(token_emb);
}

/* In [7]: `scores`, [1, 5, 5], with query = key = value. */
Test(notebook_anatomy, cell_9_scores)
{
    br_scope *scope = br_scope_begin();
    br_tensor *query = random_embeds(), *key = query;
    br_tensor *scores = scores_of(query, key);
    check_shape(scores, 1, 5, 5);
    cr_assert(br_allclose(scores, br_transpose(scores, 1, 2), 0, 1e-6));
    br_scope_end(scope);
}

/* In [8]: `weights`, the softmax of the scores, whose rows sum to 1. */
Test(notebook_anatomy, cell_10_weights)
{
    br_scope *scope = br_scope_begin();
    br_tensor *inputs_embeds = random_embeds();
    br_tensor *weights = br_softmax(scores_of(inputs_embeds, inputs_embeds), -1);
    check_shape(br_sum_dim(weights, BR_DIMS(-1), false), 1, 5);
    check_rows_sum_to_one(weights);
    br_scope_end(scope);
}

/* In [9]: `attn_outputs`, [1, 5, 768]. br_anatomy_simplified_attention() computes the same in one
 * call. */
Test(notebook_anatomy, cell_11_attn_outputs)
{
    br_scope *scope = br_no_grad_begin();
    br_anatomy_simplified_attention *attention = br_anatomy_simplified_attention_new(11, HIDDEN);
    br_anatomy_simplified_steps steps =
        br_anatomy_simplified_attention_forward(attention, small_ids());
    br_tensor *weights = br_softmax(scores_of(steps.inputs_embeds, steps.inputs_embeds), -1);
    br_tensor *attn_outputs = br_bmm(weights, steps.inputs_embeds);
    check_shape(attn_outputs, 2, 3, 768);
    cr_assert(br_equal(steps.weights, weights));
    cr_assert(br_equal(steps.attn_outputs, attn_outputs));
    br_scope_end(scope);
    br_module_free(attention);
}

/* In [10]: `scaled_dot_product_attention` does these steps in one function. There may be more or
 * fewer queries than keys. */
Test(notebook_anatomy, cell_12_scaled_dot_product_attention)
{
    br_scope *scope = br_scope_begin();
    br_tensor *query = br_randn(BR_SHAPE(2, 3, 8), BR_F32),
              *key = br_randn(BR_SHAPE(2, 5, 8), BR_F32),
              *value = br_randn(BR_SHAPE(2, 5, 6), BR_F32);
    br_tensor *output = br_anatomy_scaled_dot_product_attention(query, key, value, NULL);
    check_shape(output, 2, 3, 6);
    cr_assert(br_equal(output, br_bmm(br_softmax(scores_of(query, key), -1), value)));
    br_scope_end(scope);
}

/* ---- Multi-headed attention ------------------------------------------------------------------ */

/* In [11]: `AttentionHead` projects to head_dim, from 768 to 64 in BERT. */
Test(notebook_anatomy, cell_13_attention_head)
{
    br_scope *scope = br_scope_begin();
    br_anatomy_attention_head *head = br_anatomy_attention_head_new(HIDDEN, HEAD_DIM);
    check_keys(br_base(head), 6,
               KEYS("q.weight", "q.bias", "k.weight", "k.bias", "v.weight", "v.bias"));
    check_shape(head->q->weight, 64, 768);
    check_shape(br_anatomy_attention_head_forward(head, random_embeds(), NULL), 1, 5, 64);
    br_module_free(head);
    br_scope_end(scope);
}

/* In [12]: `MultiHeadAttention` concatenates the outputs of a list of heads and applies a linear
 * layer. */
Test(notebook_anatomy, cell_14_multi_head_attention)
{
    br_scope *scope = br_scope_begin();
    br_anatomy_config config = small_config();
    br_anatomy_multi_head_attention *attention = br_anatomy_multi_head_attention_new(&config);
    check_keys(br_base(attention), 4 * 6 + 2,
               KEYS("heads.0.q.weight", "heads.3.v.bias", "output_linear.weight"));
    br_tensor *x = br_randn(BR_SHAPE(2, 3, 12), BR_F32), *heads[4];
    for (int i = 0; i < 4; i++)
        heads[i] =
            br_anatomy_attention_head_forward(br_module_list_at(attention->heads, i), x, NULL);
    br_tensor *want = br_linear_forward(attention->output_linear, br_cat(4, heads, -1));
    cr_assert(br_equal(br_anatomy_multi_head_attention_forward(attention, x, NULL), want));
    br_module_free(attention);
    br_scope_end(scope);
}

/* In [13]: `attn_output`, [1, 5, 768]. The rows of each head's weights sum to 1. */
Test(notebook_anatomy, cell_15_attn_output)
{
    br_scope *scope = br_scope_begin();
    br_anatomy_config config = br_anatomy_notebook_config();
    br_anatomy_multi_head_attention *multihead_attn = br_anatomy_multi_head_attention_new(&config);
    br_recorder *recorder = br_recorder_begin();
    check_shape(br_anatomy_multi_head_attention_forward(multihead_attn, random_embeds(), NULL), 1,
                5, 768);
    cr_assert_eq(br_recorder_count(recorder), 3 * HEADS);
    for (int i = 0; i < HEADS; i++) { /* the weights are recorded after query and key */
        check_shape(br_recorder_tensor(recorder, 3 * i + 2), 1, 5, 5);
        check_rows_sum_to_one(br_recorder_tensor(recorder, 3 * i + 2));
    }
    br_recorder_end(recorder);
    br_module_free(multihead_attn);
    br_scope_end(scope);
}

/* In [14]: bertviz's head view of two sentences with the word "flies", for head 8 of each layer. */
Test(notebook_anatomy, cell_16_head_view)
{
    check_head_view();
}

/* ---- The feed-forward layer and layer normalization ------------------------------------------ */

/* In [15]: `FeedForward` computes linear_2(gelu(linear_1(x))), with dropout at the end in
 * training. */
Test(notebook_anatomy, cell_17_feed_forward)
{
    br_scope *scope = br_scope_begin();
    br_anatomy_config config = small_config();
    br_anatomy_feed_forward *feed_forward = br_anatomy_feed_forward_new(&config);
    check_keys(br_base(feed_forward), 4,
               KEYS("linear_1.weight", "linear_1.bias", "linear_2.weight", "linear_2.bias"));
    br_tensor *x = br_randn(BR_SHAPE(2, 3, 12), BR_F32);
    br_tensor *hidden = br_gelu(br_linear_forward(feed_forward->linear_1, x), BR_GELU_ERF);
    br_tensor *want = br_linear_forward(feed_forward->linear_2, hidden);
    cr_assert_not(br_equal(br_anatomy_feed_forward_forward(feed_forward, x), want));
    br_eval(br_base(feed_forward));
    cr_assert(br_equal(br_anatomy_feed_forward_forward(feed_forward, x), want));
    br_module_free(feed_forward);
    br_scope_end(scope);
}

/* In [16]: `ff_outputs`, [1, 5, 768]. */
Test(notebook_anatomy, cell_18_ff_outputs)
{
    br_scope *scope = br_scope_begin();
    br_anatomy_config config = br_anatomy_notebook_config();
    br_anatomy_feed_forward *feed_forward = br_anatomy_feed_forward_new(&config);
    check_shape(feed_forward->linear_1->weight, 3072, 768);
    check_shape(br_anatomy_feed_forward_forward(feed_forward, random_embeds()), 1, 5, 768);
    br_module_free(feed_forward);
    br_scope_end(scope);
}

/* In [17]: `TransformerEncoderLayer` adds attention and then the feed-forward layer, each computed
 * from the layer-normalized state. */
Test(notebook_anatomy, cell_19_transformer_encoder_layer)
{
    br_scope *scope = br_scope_begin();
    br_anatomy_config config = small_config();
    br_anatomy_encoder_layer *layer = br_anatomy_encoder_layer_new(&config);
    check_keys(br_base(layer), 2 + 2 + 4 * 6 + 2 + 4,
               KEYS("layer_norm_1.weight", "layer_norm_2.bias", "attention.heads.3.k.weight",
                    "attention.output_linear.bias", "feed_forward.linear_2.weight"));
    br_eval(br_base(layer));
    br_tensor *x = br_randn(BR_SHAPE(2, 3, 12), BR_F32);
    br_tensor *hidden_state = br_layer_norm_forward(layer->layer_norm_1, x);
    br_tensor *y =
        br_add(x, br_anatomy_multi_head_attention_forward(layer->attention, hidden_state, NULL));
    hidden_state = br_layer_norm_forward(layer->layer_norm_2, y);
    y = br_add(y, br_anatomy_feed_forward_forward(layer->feed_forward, hidden_state));
    cr_assert(br_equal(br_anatomy_encoder_layer_forward(layer, x, NULL), y));
    br_module_free(layer);
    br_scope_end(scope);
}

/* In [18]: the shapes of `inputs_embeds` and of `encoder_layer(inputs_embeds)`, both [1, 5, 768].
 */
Test(notebook_anatomy, cell_20_encoder_layer)
{
    br_scope *scope = br_scope_begin();
    br_anatomy_config config = br_anatomy_notebook_config();
    br_anatomy_encoder_layer *encoder_layer = br_anatomy_encoder_layer_new(&config);
    br_tensor *inputs_embeds = random_embeds();
    check_shape(inputs_embeds, 1, 5, 768);
    check_shape(br_anatomy_encoder_layer_forward(encoder_layer, inputs_embeds, NULL), 1, 5, 768);
    br_module_free(encoder_layer);
    br_scope_end(scope);
}

/* ---- Embeddings and encoder ------------------------------------------------------------------ */

/* In [20]: `Embeddings` computes the layer norm of token embedding plus position embedding, with
 * dropout at the end in training. The same id has different embeddings at different positions. */
Test(notebook_anatomy, cell_21_embeddings)
{
    br_scope *scope = br_scope_begin();
    br_anatomy_config config = small_config();
    br_anatomy_embeddings *embeddings = br_anatomy_embeddings_new(&config);
    check_keys(br_base(embeddings), 4,
               KEYS("token_embeddings.weight", "position_embeddings.weight", "layer_norm.weight",
                    "layer_norm.bias"));
    check_shape(embeddings->position_embeddings->weight, 8, 12);
    br_eval(br_base(embeddings));
    br_tensor *y = br_select(br_anatomy_embeddings_forward(embeddings, small_ids()), 0, 1);
    br_tensor *token = br_select(embeddings->token_embeddings->weight, 0, 4);
    br_tensor *both = br_add(token, br_narrow(embeddings->position_embeddings->weight, 0, 1, 2));
    cr_assert(br_equal(br_narrow(y, 0, 1, 2), br_layer_norm_forward(embeddings->layer_norm, both)));
    br_module_free(embeddings);
    br_scope_end(scope);
}

/* In [21]: the embedding layer's output, [1, 5, 768]. */
Test(notebook_anatomy, cell_22_embedding_layer)
{
    br_scope *scope = br_scope_begin();
    br_anatomy_config config = br_anatomy_notebook_config();
    br_anatomy_embeddings *embedding_layer = br_anatomy_embeddings_new(&config);
    check_shape(br_anatomy_embeddings_forward(embedding_layer, input_ids()), 1, 5, 768);
    br_module_free(embedding_layer);
    br_scope_end(scope);
}

/* In [22]: `TransformerEncoder` applies the embeddings and then each layer. */
Test(notebook_anatomy, cell_23_transformer_encoder)
{
    br_scope *scope = br_scope_begin();
    br_anatomy_config config = small_config();
    br_anatomy_encoder *encoder = br_anatomy_encoder_new(&config);
    check_keys(br_base(encoder), 4 + 3 * 34,
               KEYS("embeddings.layer_norm.bias", "layers.2.feed_forward.linear_1.bias"));
    br_eval(br_base(encoder));
    br_tensor *x = br_anatomy_embeddings_forward(encoder->embeddings, small_ids());
    for (int i = 0; i < 3; i++)
        x = br_anatomy_encoder_layer_forward(br_module_list_at(encoder->layers, i), x, NULL);
    cr_assert(br_equal(br_anatomy_encoder_forward(encoder, small_ids()), x));
    br_module_free(encoder);
    br_scope_end(scope);
}

/* In [23]: the encoder's output, [1, 5, 768]. */
Test(notebook_anatomy, cell_24_encoder)
{
    br_scope *scope = br_no_grad_begin();
    br_anatomy_config config = br_anatomy_notebook_config();
    br_anatomy_encoder *encoder = br_anatomy_encoder_new(&config);
    cr_assert_eq(br_module_list_size(encoder->layers), 12);
    check_shape(br_anatomy_encoder_forward(encoder, input_ids()), 1, 5, 768);
    br_module_free(encoder);
    br_scope_end(scope);
}

/* ---- Classification head --------------------------------------------------------------------- */

/* In [24]: `TransformerForSequenceClassification` applies a linear layer to the encoder's state at
 * position 0, with dropout before it in training. */
Test(notebook_anatomy, cell_25_transformer_for_sequence_classification)
{
    br_scope *scope = br_scope_begin();
    br_anatomy_config config = small_config();
    br_anatomy_classifier *model = br_anatomy_classifier_new(&config);
    check_keys(
        br_base(model), 4 + 3 * 34 + 2,
        KEYS("encoder.embeddings.token_embeddings.weight", "classifier.weight", "classifier.bias"));
    br_eval(br_base(model));
    br_tensor *first = br_select(br_anatomy_encoder_forward(model->encoder, small_ids()), 1, 0);
    cr_assert(br_equal(br_anatomy_classifier_forward(model, small_ids()),
                       br_linear_forward(model->classifier, first)));
    br_module_free(model);
    br_scope_end(scope);
}

/* In [25]: the logits of three labels, [1, 3]. */
Test(notebook_anatomy, cell_26_encoder_classifier)
{
    br_scope *scope = br_no_grad_begin();
    br_auto_config *auto_config = br_auto_config_load(MODEL_CKPT);
    br_anatomy_config config = br_anatomy_config_from(auto_config);
    br_auto_config_free(auto_config);
    config.num_labels = 3;
    br_anatomy_classifier *encoder_classifier = br_anatomy_classifier_new(&config);
    check_shape(br_anatomy_classifier_forward(encoder_classifier, input_ids()), 1, 3);
    br_module_free(encoder_classifier);
    br_scope_end(scope);
}

/* ---- The decoder's mask ---------------------------------------------------------------------- */

/* In [26]: `mask[0]` has ones on and below the diagonal, and zeros above it. */
Test(notebook_anatomy, cell_27_mask)
{
    br_scope *scope = br_scope_begin();
    check_printed(br_select(br_anatomy_causal_mask(SEQ_LEN), 0, 0),
                  "tensor([[1., 0., 0., 0., 0.],\n"
                  "        [1., 1., 0., 0., 0.],\n"
                  "        [1., 1., 1., 0., 0.],\n"
                  "        [1., 1., 1., 1., 0.],\n"
                  "        [1., 1., 1., 1., 1.]])");
    br_scope_end(scope);
}

/* In [27]: scores become -inf where the mask is 0. The scores on the diagonal, |x|^2 / sqrt(768),
 * are about 27.7, far larger than all others. */
Test(notebook_anatomy, cell_28_masked_scores)
{
    br_scope *scope = br_scope_begin();
    br_tensor *inputs_embeds = random_embeds();
    br_tensor *scores = scores_of(inputs_embeds, inputs_embeds);
    br_tensor *mask = br_anatomy_causal_mask(SEQ_LEN);
    br_tensor *masked = br_masked_fill(scores, br_eq_scalar(mask, 0), -INFINITY);
    check_shape(masked, 1, 5, 5);
    for (int q = 0; q < SEQ_LEN; q++)
        for (int k = 0; k < SEQ_LEN; k++)
            if (k > q)
                cr_assert_eq(br_at(masked, BR_SHAPE(0, q, k)), -INFINITY);
            else /* within seven standard deviations */
                check_close(br_at(masked, BR_SHAPE(0, q, k)), k == q ? sqrt(768) : 0,
                            k == q ? 7 * sqrt(2) : 7);
    br_scope_end(scope);
}

/* In [28]: `scaled_dot_product_attention` with a mask: no query attends to later positions. */
Test(notebook_anatomy, cell_29_scaled_dot_product_attention_with_mask)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = random_embeds(), *mask = br_anatomy_causal_mask(SEQ_LEN);
    br_tensor *masked = br_anatomy_scaled_dot_product_attention(x, x, x, mask);
    check_shape(masked, 1, 5, 768);
    for (int q = 0; q < SEQ_LEN; q++) {
        br_tensor *seen = br_narrow(x, 1, 0, q + 1), *query = br_narrow(x, 1, q, 1);
        br_tensor *want = br_anatomy_scaled_dot_product_attention(query, seen, seen, NULL);
        cr_assert(br_allclose(br_narrow(masked, 1, q, 1), want, 1e-5, 1e-6));
    }
    br_scope_end(scope);
}
