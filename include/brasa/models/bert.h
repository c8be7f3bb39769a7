/* brasa/models/bert.h - BERT from scratch: every class of notebook 003.
 *
 * Classes, fields and state_dict keys are the notebook's. `as_written` in the configuration
 * reproduces the notebook exactly: the attention's output projection and layer norm are created in
 * each forward and never trained, and a layer returns its feed-forward's output without residual or
 * norm. The default is the intended behavior: these layers are created once ("linear", "norm"), and
 * a layer returns norm(x + ffn(x)). */
#ifndef BRASA_MODELS_BERT_H
#define BRASA_MODELS_BERT_H

#include <brasa/data.h>
#include <brasa/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Model ----------------------------------------------------------------------------------- */

/* The notebook's global sizes. */
typedef struct br_bert_config {
    int64_t vocab_size, d_model, n_layers, n_heads, d_ff, d_k, d_v, maxlen, n_segments, max_pred;
    bool as_written;
} br_bert_config;

/* Returns the notebook's sizes: d_model 768, 6 layers, 12 heads, d_ff 3072, d_k = d_v = 64, maxlen
 * 100, 2 segments, 7 predictions, vocabulary 70. */
BR_API br_bert_config br_bert_notebook_config(void);
/* Give access to the sizes by name, for files and command lines. br_bert_config_field_name()
 * returns the name of the i-th size, or NULL after the last. br_bert_config_field() returns a
 * pointer to the size of that name, or NULL without an error if there is none. */
BR_API const char *br_bert_config_field_name(int i);
BR_API int64_t *br_bert_config_field(br_bert_config *config, const char *name);

/* Computes gelu(x) = x/2 (1 + erf(x / sqrt 2)). */
BR_API br_tensor *br_bert_gelu(br_tensor *x);
/* Returns true where the key is padding (id 0): seq_q [B, Q], seq_k [B, K] -> bool [B, Q, K], an
 * expanded view of one row for all queries. */
BR_API br_tensor *br_bert_pad_mask(br_tensor *seq_q, br_tensor *seq_k);
/* ScaledDotProductAttention: computes softmax(q k^T / sqrt(d_k), -1e9 where masked) v over the last
 * two dimensions. attn_mask broadcasts to the scores. Returns the context. The weights are tapped
 * (br_tap_attention), and stored in *attn unless `attn` is NULL. */
BR_API br_tensor *br_bert_attention(br_tensor *q, br_tensor *k, br_tensor *v, br_tensor *attn_mask,
                                    br_tensor **attn);

typedef struct br_bert_embedding {
    br_module base;
    br_embedding *tok_embed, *pos_embed, *seg_embed;
    br_layer_norm *norm;
} br_bert_embedding;
BR_API br_bert_embedding *br_bert_embedding_new(const br_bert_config *config);
/* Runs the module: x, seg: i64 [B, S] -> [B, S, d_model]. */
BR_API br_tensor *br_bert_embedding_forward(br_bert_embedding *self, br_tensor *x, br_tensor *seg);

typedef struct br_bert_mha {
    br_module base;
    br_linear *W_Q, *W_K, *W_V;
    br_linear *linear;   /* NULL as written: created in each forward */
    br_layer_norm *norm; /* likewise */
    int64_t n_heads, d_k, d_v, d_model;
    /* If not NULL, called with each pair of layers that forward creates, before they are used, to
     * set their weights. */
    void (*on_new_layers)(void *context, br_linear *linear, br_layer_norm *norm);
    void *on_new_layers_context;
} br_bert_mha;
BR_API br_bert_mha *br_bert_mha_new(const br_bert_config *config);
/* Runs the module: Q [B, S, d_model], K and V [B, T, d_model], attn_mask bool [B, S, T] -> [B, S,
 * d_model]. Stores the weights [B, n_heads, S, T] in *attn unless `attn` is NULL. */
BR_API br_tensor *br_bert_mha_forward(br_bert_mha *self, br_tensor *Q, br_tensor *K, br_tensor *V,
                                      br_tensor *attn_mask, br_tensor **attn);

typedef struct br_bert_ffn {
    br_module base;
    br_linear *fc1, *fc2;
} br_bert_ffn;
BR_API br_bert_ffn *br_bert_ffn_new(const br_bert_config *config);
BR_API br_tensor *br_bert_ffn_forward(br_bert_ffn *self, br_tensor *x);

typedef struct br_bert_layer {
    br_module base;
    br_bert_mha *enc_self_attn;
    br_bert_ffn *pos_ffn;
    br_layer_norm *norm; /* NULL as written */
} br_bert_layer;
BR_API br_bert_layer *br_bert_layer_new(const br_bert_config *config);
BR_API br_tensor *br_bert_layer_forward(br_bert_layer *self, br_tensor *enc_inputs,
                                        br_tensor *enc_self_attn_mask, br_tensor **attn);

typedef struct br_bert {
    br_module base;
    br_bert_config config;
    br_bert_embedding *embedding;
    br_module_list *layers;
    br_linear *fc, *linear, *classifier,
        *decoder; /* decoder.weight is embedding.tok_embed.weight */
    br_activation *activ1;
    br_layer_norm *norm;
    br_tensor *decoder_bias;
} br_bert;
BR_API br_bert *br_bert_new(const br_bert_config *config);
/* Runs the module: input_ids, segment_ids i64 [B, S], masked_pos i64 [B, P] -> logits_lm [B, P,
 * vocab_size]. Stores logits_clsf [B, 2] in *logits_clsf. */
BR_API br_tensor *br_bert_forward(br_bert *self, br_tensor *input_ids, br_tensor *segment_ids,
                                  br_tensor *masked_pos, br_tensor **logits_clsf);

/* ---- Text and batches ------------------------------------------------------------------------ */

/* The cleaned sentences of a text, with their words and tokens. */
typedef struct br_bert_corpus {
    br_vocab *vocab; /* [PAD] [CLS] [SEP] [MASK], then the words */
    int64_t n_sentences;
    char **sentences;
    int64_t **tokens, *lengths;
} br_bert_corpus;
/* Makes a corpus from UTF-8 text: lower-cases it, removes . , ! ? -, and splits it into lines. The
 * words are sorted by their bytes. Returns NULL on error. */
BR_API br_bert_corpus *br_bert_corpus_new(const char *text, size_t length);
/* Does the same with the given words, which get the ids from 4 on, and must include all words of
 * the text. The notebook numbers words in the order of a Python set, which differs in each run. */
BR_API br_bert_corpus *br_bert_corpus_new_with_words(const char *text, size_t length,
                                                     int64_t n_words, const char *const *words);
BR_API void br_bert_corpus_free(br_bert_corpus *corpus);

/* A batch of the notebook's make_batch(): half of the pairs are consecutive sentences. */
typedef struct br_bert_batch {
    br_tensor *input_ids, *segment_ids;    /* i64 [B, maxlen] */
    br_tensor *masked_tokens, *masked_pos; /* i64 [B, max_pred] */
    br_tensor *is_next;                    /* i64 [B] */
} br_bert_batch;
/* Makes a batch, the same as the notebook's with Python's random in the same state. batch_size must
 * be even. The tensors are owned by the innermost scope. */
BR_API bool br_bert_make_batch(const br_bert_corpus *corpus, const br_bert_config *config,
                               int64_t batch_size, br_python_random *random, br_bert_batch *batch);

/* Computes the notebook's loss: the cross entropy of logits_lm against masked_tokens plus that of
 * logits_clsf against is_next. Stores the two terms in *loss_lm and *loss_clsf, which may be NULL.
 */
BR_API br_tensor *br_bert_loss(br_tensor *logits_lm, br_tensor *logits_clsf,
                               br_tensor *masked_tokens, br_tensor *is_next, br_tensor **loss_lm,
                               br_tensor **loss_clsf);

#ifdef __cplusplus
}
#endif
#endif
