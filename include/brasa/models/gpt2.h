/* brasa/models/gpt2.h - Hugging Face's GPT-2: the decoder and its language model. Radford et al.,
 * 2019.
 *
 *     br_gpt2_lm *model = br_auto_model_load("gpt2", NULL, NULL);
 *     br_tensor *logits = br_gpt2_lm_forward(model, input_ids, NULL);
 *     br_tensor *loss = br_causal_lm_loss(logits, input_ids);
 *
 * Modules and state_dict keys are those of transformers; br_module_class() returns its class names.
 * Each layer's attn taps "query", "key", "value" [B, heads, S, d] and "attention" [B, heads, S, K],
 * and each layer "hidden_state". The whole attention matrix is stored only if a recorder or the
 * options request it, which changes results by rounding. */
#ifndef BRASA_MODELS_GPT2_H
#define BRASA_MODELS_GPT2_H

#include <brasa/models/causal_lm.h>
#include <brasa/nn.h>
#include <brasa/pretrained/auto_config.h>
#include <brasa/pretrained/generate.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Configuration --------------------------------------------------------------------------- */

typedef struct br_gpt2_config {
    int64_t vocab_size, n_positions, n_embd, n_layer, n_head;
    int64_t n_inner; /* size of the feed-forward layers; 0: 4 n_embd */
    double embd_pdrop, attn_pdrop, resid_pdrop;
    double layer_norm_epsilon, initializer_range;
    const char *activation_function; /* one of the names for br_hf_bert_config's hidden_act */
    bool unscaled;                   /* scores are not divided by sqrt(d) */
    bool scale_by_layer;             /* scores of layer i are divided by i + 1 */
    bool untied;                     /* lm_head's weight is not tied to wte's */
} br_gpt2_config;

/* Returns the configuration of gpt2, which has 124 million parameters. */
BR_API br_gpt2_config br_gpt2_config_default(void);
/* Reads a configuration from a config.json of model_type "gpt2". Returns zeros and an error if a
 * value is invalid, or if it requires cross attention. */
BR_API br_gpt2_config br_gpt2_config_from(const br_auto_config *config);

/* Optional inputs and outputs of a forward. Each may be NULL, and so may the options. Outputs are
 * owned by the caller's scope. S is the number of input ids, K is S plus the length of the cache.
 */
typedef struct br_gpt2_options {
    size_t struct_size;
    br_tensor *attention_mask; /* [B, K], false or 0 where a token is padding */
    br_tensor *position_ids;   /* i64 [B, S] or [1, S]; NULL: from the cache's length on */
    br_tensor *token_type_ids; /* i64 [B, S], embedded by wte like the ids */
    br_cache *cache;           /* earlier tokens; the ids are appended */
    br_tensor **hidden_states; /* n_layer + 1: the embeddings, then each layer; ln_f on the last */
    br_tensor **attentions;    /* n_layer tensors of shape [B, heads, S, K] */
    /* i64 [B + 1]: a packed batch. input_ids is [1, tokens], and text i has tokens cu_seqlens[i] ..
     * cu_seqlens[i + 1] - 1, whose positions begin at 0; no token attends to another text. Cannot
     * be combined with attention_mask, position_ids, cache and attentions. */
    br_tensor *cu_seqlens;
} br_gpt2_options;
#define br_gpt2_default_fields .struct_size = sizeof(br_gpt2_options)
BR_API br_gpt2_options br_gpt2_defaults(void);

/* ---- GPT2Model ------------------------------------------------------------------------------- */

/* Computes x weight + bias: a Linear with a transposed weight. */
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
    int64_t layer; /* number in the cache */
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
/* Runs the module: input_ids i64 [B, S] -> last_hidden_state [B, S, n_embd]. */
BR_API br_tensor *br_gpt2_forward(br_gpt2 *self, br_tensor *input_ids,
                                  const br_gpt2_options *options);

/* ---- GPT2LMHeadModel ------------------------------------------------------------------------- */

typedef struct br_gpt2_lm {
    br_module base;
    br_gpt2 *transformer;
    br_linear *lm_head; /* its weight is tied to wte's */
} br_gpt2_lm;
BR_API br_gpt2_lm *br_gpt2_lm_new(const br_gpt2_config *config);
/* Returns the logits [B, S, vocab_size] of the next token at each position. */
BR_API br_tensor *br_gpt2_lm_forward(br_gpt2_lm *self, br_tensor *input_ids,
                                     const br_gpt2_options *options);
/* Returns a language model for br_generate(). `model` must outlive it. */
BR_API br_language_model br_gpt2_language_model(br_gpt2_lm *model);

/* Returns br_causal_lm_loss() of the model's logits, which are computed and used for some of the
 * positions at a time and never held together: 64 sequences of 64 tokens need 1.2 GiB less in
 * training, and as much time. Taps and hooks of lm_head do not see its results. */
BR_API br_tensor *br_gpt2_lm_loss(br_gpt2_lm *self, br_tensor *input_ids, br_tensor *labels,
                                  const br_gpt2_options *options);

#ifdef __cplusplus
}
#endif
#endif
