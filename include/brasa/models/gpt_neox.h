/* brasa/models/gpt_neox.h - Hugging Face's GPT-NeoX, and Pythia: the decoder and its language
 * model. Black et al., 2022; Biderman et al., 2023.
 *
 *     br_gpt_neox_lm *model = br_auto_model_load("pythia-160m", NULL, NULL);
 *     br_tensor *logits = br_gpt_neox_lm_forward(model, input_ids, NULL);
 *     br_tensor *loss = br_causal_lm_loss(logits, input_ids);
 *
 * Modules are those of transformers; br_module_class() returns its class names. Each layer's
 * attention taps "query" [B, heads, S, d], "key", "value" and "attention" [B, heads, S, K], and
 * each layer "hidden_state". The whole attention matrix is stored only if a recorder or the options
 * request it, which changes results by rounding. */
#ifndef BRASA_MODELS_GPT_NEOX_H
#define BRASA_MODELS_GPT_NEOX_H

#include <brasa/models/causal_lm.h>
#include <brasa/nn.h>
#include <brasa/pretrained/auto_config.h>
#include <brasa/pretrained/generate.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Configuration --------------------------------------------------------------------------- */

typedef struct br_gpt_neox_config {
    int64_t vocab_size, hidden_size, intermediate_size, num_hidden_layers, num_attention_heads;
    int64_t max_position_embeddings; /* where br_generate() stops; a forward may be longer */
    const char *hidden_act;          /* one of the names for br_hf_bert_config's hidden_act */
    double layer_norm_eps, initializer_range;
    double attention_dropout; /* of the probabilities */
    double hidden_dropout;    /* of the embeddings, and of the results of attention and MLP */
    br_rope_options rope;
    int64_t rotary_dim;         /* only the first so many numbers of a head are turned; 0: all */
    bool use_parallel_residual; /* the MLP reads the input of the layer, not that of the attention
                                   and the attention's result */
    bool attention_bias;
    bool tie_word_embeddings; /* lm_head's weight is tied to embed_in's */
} br_gpt_neox_config;

/* Returns the configuration of pythia-160m, which has 162 million parameters. */
BR_API br_gpt_neox_config br_gpt_neox_config_default(void);
/* Reads a configuration from a config.json of model_type "gpt_neox". Returns zeros and an error if
 * a value is invalid. */
BR_API br_gpt_neox_config br_gpt_neox_config_from(const br_auto_config *config);

/* Optional inputs and outputs of a forward. Each may be NULL, and so may the options. Outputs are
 * owned by the caller's scope. S is the number of input ids, K is S plus the length of the cache.
 */
typedef struct br_gpt_neox_options {
    size_t struct_size;
    br_tensor *attention_mask; /* [B, K], false or 0 where a token is padding */
    br_tensor *position_ids;   /* i64 [B, S] or [1, S]; NULL: from the cache's length on */
    br_cache *cache;           /* earlier tokens; the ids are appended */
    /* layers + 1: the embeddings, then each layer; final_layer_norm on the last */
    br_tensor **hidden_states;
    br_tensor **attentions; /* a tensor of shape [B, heads, S, K] for each layer */
    /* i64 [B + 1]: a packed batch. input_ids is [1, tokens], and text i has tokens cu_seqlens[i] ..
     * cu_seqlens[i + 1] - 1, whose positions begin at 0; no token attends to another text. Cannot
     * be combined with attention_mask, position_ids, cache and attentions. */
    br_tensor *cu_seqlens;
} br_gpt_neox_options;
#define br_gpt_neox_default_fields .struct_size = sizeof(br_gpt_neox_options)
BR_API br_gpt_neox_options br_gpt_neox_defaults(void);

/* ---- GPTNeoXModel ---------------------------------------------------------------------------- */

typedef struct br_gpt_neox_attention {
    br_module base;
    br_linear *query_key_value; /* each head's query, key and value follow each other */
    br_linear *dense;
    int64_t heads;
    double attention_dropout;
    int64_t layer; /* number in the cache */
} br_gpt_neox_attention;

typedef struct br_gpt_neox_mlp {
    br_module base;
    br_linear *dense_h_to_4h, *dense_4h_to_h;
    br_tensor *(*act)(br_tensor *x);
} br_gpt_neox_mlp;

typedef struct br_gpt_neox_layer {
    br_module base;
    br_layer_norm *input_layernorm, *post_attention_layernorm;
    br_dropout *post_attention_dropout, *post_mlp_dropout;
    br_gpt_neox_attention *attention;
    br_gpt_neox_mlp *mlp;
    bool use_parallel_residual;
} br_gpt_neox_layer;

typedef struct br_gpt_neox {
    br_module base;
    br_gpt_neox_config config;
    br_embedding *embed_in;
    br_dropout *emb_dropout;
    br_module_list *layers;
    br_layer_norm *final_layer_norm;
} br_gpt_neox;
BR_API br_gpt_neox *br_gpt_neox_new(const br_gpt_neox_config *config);
/* Runs the module: input_ids i64 [B, S] -> last_hidden_state [B, S, hidden_size]. */
BR_API br_tensor *br_gpt_neox_forward(br_gpt_neox *self, br_tensor *input_ids,
                                      const br_gpt_neox_options *options);

/* ---- GPTNeoXForCausalLM ---------------------------------------------------------------------- */

typedef struct br_gpt_neox_lm {
    br_module base;
    br_gpt_neox *gpt_neox;
    br_linear *lm_head; /* files name it embed_out */
} br_gpt_neox_lm;
BR_API br_gpt_neox_lm *br_gpt_neox_lm_new(const br_gpt_neox_config *config);
/* Returns the logits [B, S, vocab_size] of the next token at each position. */
BR_API br_tensor *br_gpt_neox_lm_forward(br_gpt_neox_lm *self, br_tensor *input_ids,
                                         const br_gpt_neox_options *options);
/* Returns a language model for br_generate(). `model` must outlive it. */
BR_API br_language_model br_gpt_neox_language_model(br_gpt_neox_lm *model);
/* Returns br_causal_lm_loss() of the model's logits for labels i64 [B, S]. The logits are computed
 * and used for some of the positions at a time and never held together. Taps and hooks of lm_head
 * do not see its results. */
BR_API br_tensor *br_gpt_neox_lm_loss(br_gpt_neox_lm *self, br_tensor *input_ids, br_tensor *labels,
                                      const br_gpt_neox_options *options);

#ifdef __cplusplus
}
#endif
#endif
