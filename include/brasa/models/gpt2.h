/* brasa/models/gpt2.h - Hugging Face's GPT-2: the decoder and its language model. Radford et al.,
 * 2019.
 *
 *     br_gpt2_lm *model = br_auto_model_load("gpt2", NULL, NULL);
 *     br_tensor *logits = br_gpt2_lm_forward(model, input_ids, NULL);
 *     br_tensor *loss = br_causal_lm_loss(logits, input_ids);
 *
 * Modules and state_dict keys are those of transformers; br_module_class() gives its class names.
 * Each layer's attn taps "query", "key", "value" [B, heads, S, d] and "attention" [B, heads, S, K],
 * and the layer "hidden_state". Where neither a recorder nor the options ask for the attention it
 * is never held whole; the numbers then differ by rounding. */
#ifndef BRASA_MODELS_GPT2_H
#define BRASA_MODELS_GPT2_H

#include <brasa/models/auto_config.h>
#include <brasa/models/generate.h>
#include <brasa/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Configuration --------------------------------------------------------------------------- */

typedef struct br_gpt2_config {
    int64_t vocab_size, n_positions, n_embd, n_layer, n_head;
    int64_t n_inner; /* of the feed-forward layers; 0: 4 n_embd */
    double embd_pdrop, attn_pdrop, resid_pdrop;
    double layer_norm_epsilon, initializer_range;
    const char *activation_function; /* as br_hf_bert_config's hidden_act */
    bool unscaled;                   /* scores are not divided by sqrt(d) */
    bool scale_by_layer;             /* those of layer i are divided by i + 1 */
    bool untied;                     /* lm_head's weight is its own, not wte's */
} br_gpt2_config;

/* gpt2's, of 124 million parameters. */
BR_API br_gpt2_config br_gpt2_config_default(void);
/* Of a config.json of model_type "gpt2". All 0 and an error if a value is no good or asks for cross
 * attention. */
BR_API br_gpt2_config br_gpt2_config_from(const br_auto_config *config);

/* What a forward takes besides the ids, and what it gives besides its result; any may be NULL, and
 * so may the options. What is given belongs to the scope of the caller. S are the ids given, K
 * those and the ones that the cache has seen. */
typedef struct br_gpt2_options {
    br_tensor *attention_mask; /* bool, or 0 where a token is padding: [B, K] */
    br_tensor *position_ids;   /* i64 [B, S] or [1, S]; NULL: counted, from the cache's length on */
    br_tensor *token_type_ids; /* i64 [B, S], embedded as the ids are */
    br_cache *cache;           /* what it has seen comes before the ids, which it then has, too */
    br_tensor **hidden_states; /* n_layer + 1: the embeddings, then each layer's, the last normed */
    br_tensor **attentions;    /* n_layer, [B, heads, S, K] each */
} br_gpt2_options;

/* ---- GPT2Model ------------------------------------------------------------------------------- */

/* x weight + bias: a Linear whose weight lies the other way. */
typedef struct br_gpt2_conv1d {
    br_module base;
    br_tensor *weight; /* [in_features, out_features] */
    br_tensor *bias;
} br_gpt2_conv1d;

typedef struct br_gpt2_attention {
    br_module base;
    br_gpt2_conv1d *c_attn; /* queries, keys and values */
    br_gpt2_conv1d *c_proj;
    br_dropout *resid_dropout;
    int64_t n_head;
    double scale, attn_pdrop;
    int64_t layer; /* its number in the cache */
} br_gpt2_attention;

typedef struct br_gpt2_mlp {
    br_module base;
    br_gpt2_conv1d *c_fc, *c_proj;
    br_dropout *dropout;
    br_tensor *(*act)(br_tensor *x);
} br_gpt2_mlp;

typedef struct br_gpt2_block {
    br_module base;
    br_layer_norm *ln_1;
    br_gpt2_attention *attn;
    br_layer_norm *ln_2;
    br_gpt2_mlp *mlp;
} br_gpt2_block;

typedef struct br_gpt2 {
    br_module base;
    br_gpt2_config config;
    br_embedding *wte, *wpe;
    br_dropout *drop;
    br_module_list *h;
    br_layer_norm *ln_f;
} br_gpt2;
BR_API br_gpt2 *br_gpt2_new(const br_gpt2_config *config);
/* input_ids i64 [B, S] -> last_hidden_state [B, S, n_embd]. */
BR_API br_tensor *br_gpt2_forward(br_gpt2 *self, br_tensor *input_ids,
                                  const br_gpt2_options *options);

/* ---- GPT2LMHeadModel ------------------------------------------------------------------------- */

typedef struct br_gpt2_lm {
    br_module base;
    br_gpt2 *transformer;
    br_linear *lm_head; /* its weight is wte's */
} br_gpt2_lm;
BR_API br_gpt2_lm *br_gpt2_lm_new(const br_gpt2_config *config);
/* Logits [B, S, vocab_size] of the token that follows each. */
BR_API br_tensor *br_gpt2_lm_forward(br_gpt2_lm *self, br_tensor *input_ids,
                                     const br_gpt2_options *options);
/* For br_generate(); the model must outlive it. */
BR_API br_language_model br_gpt2_language_model(br_gpt2_lm *model);

/* The mean cross entropy of logits [B, S, V] against the labels, i64 [B, S], that come next: those
 * at 1 .. S-1 against the logits at 0 .. S-2. A label of -100 does not count. */
BR_API br_tensor *br_causal_lm_loss(br_tensor *logits, br_tensor *labels);

#ifdef __cplusplus
}
#endif
#endif
