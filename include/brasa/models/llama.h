/* brasa/models/llama.h - Hugging Face's Llama and the decoders that are built like it: Mistral,
 * SmolLM3, Granite 3, Phi-3, Qwen2, Qwen3, Qwen3-MoE, Gemma 2 and Gemma 3. Touvron et al., 2023;
 * docs/zoo.md lists what each adds.
 *
 *     br_llama_lm *model = br_auto_model_load("SmolLM2-135M", NULL, NULL);
 *     br_tensor *logits = br_llama_lm_forward(model, input_ids, NULL);
 *     br_tensor *loss = br_causal_lm_loss(logits, input_ids);
 *
 * Modules and state_dict keys are those of transformers; br_module_class() returns its class names.
 * Each layer's self_attn taps "query" [B, heads, S, d], "key", "value" and "attention" [B, heads,
 * S, K], and each layer "hidden_state". The whole attention matrix is stored only if a recorder or
 * the options request it, or if its scores are capped; storing changes results by rounding. */
#ifndef BRASA_MODELS_LLAMA_H
#define BRASA_MODELS_LLAMA_H

#include <brasa/models/causal_lm.h>
#include <brasa/nn.h>
#include <brasa/pretrained/auto_config.h>
#include <brasa/pretrained/generate.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Configuration --------------------------------------------------------------------------- */

enum { BR_LLAMA_MAX_LAYERS = 256, BR_LLAMA_MAX_EXPERTS = 4096 };

/* What distinguishes a layer from others. */
typedef enum br_llama_layer_flags {
    BR_LLAMA_WINDOW = 1,  /* a token attends only to the last sliding_window tokens, itself
                             included; the layer's positions are those of local_rope */
    BR_LLAMA_NO_ROPE = 2, /* no positions */
    BR_LLAMA_SPARSE = 4,  /* experts instead of an MLP */
} br_llama_layer_flags;

typedef struct br_llama_config {
    const char *model_type; /* NULL: "llama". Gives the classes their names; the other fields
                               decide what is computed. */
    int64_t vocab_size, hidden_size, intermediate_size, num_hidden_layers;
    int64_t num_attention_heads, num_key_value_heads;
    int64_t head_dim;                /* 0: hidden_size / num_attention_heads */
    int64_t max_position_embeddings; /* where br_generate() stops; a forward may be longer */
    int64_t pad_token_id;            /* row of the embeddings without a gradient; -1: none */
    const char *hidden_act;          /* one of the names for br_hf_bert_config's hidden_act */
    double rms_norm_eps, initializer_range, attention_dropout;
    double resid_pdrop; /* dropout of the results of attention and of the MLP */
    br_rope_options rope, local_rope;
    int64_t rotary_dim;     /* only the first so many numbers of a head are turned; 0: all */
    int64_t sliding_window; /* in layers with BR_LLAMA_WINDOW: attends to this many tokens */
    /* Tokens also attend to later ones, in layers with BR_LLAMA_WINDOW to the next sliding_window -
     * 1 tokens, as in EmbeddingGemma. */
    bool bidirectional;
    uint8_t layers[BR_LLAMA_MAX_LAYERS]; /* br_llama_layer_flags of each layer */
    double query_scalar;                 /* scores are divided by its square root; 0: head_dim */
    double attn_logit_softcapping;       /* c: scores s become c tanh(s / c); 0: none */
    double final_logit_softcapping;      /* the same for logits */
    double attention_multiplier;         /* factor of the scores; 0: query_scalar gives it */
    double embedding_scale;              /* factor of the embeddings of tokens */
    double residual_multiplier;          /* factor of the results of attention and of the MLP */
    double logits_scaling;               /* logits are divided by it */
    /* Of layers with BR_LLAMA_SPARSE: the number of experts, how many of them a token goes through,
     * and the size of an expert. */
    int64_t num_experts, num_experts_per_tok, moe_intermediate_size;
    bool norm_topk_prob;       /* the weights of a token's experts sum to 1 */
    bool output_router_logits; /* br_llama_lm_loss() adds router_aux_loss_coef times aux_loss */
    double router_aux_loss_coef;
    bool attention_bias; /* of the projections to queries, keys and values */
    bool output_bias;    /* of the projection after attention */
    bool mlp_bias;
    bool qk_norm;       /* RMSNorm of each head's queries and keys, before positions */
    bool norm_adds_1;   /* RMSNorm multiplies by 1 + weight */
    bool norms_after;   /* RMSNorm also after attention and after the MLP, as in Gemma */
    bool fused;         /* one product computes queries, keys and values, another one gate and up */
    bool untied;        /* lm_head's weight is not tied to embed_tokens' */
    int64_t num_labels; /* of br_llama_classifier only */
} br_llama_config;

/* Returns the configuration of SmolLM2-135M, which has 134 million parameters. */
BR_API br_llama_config br_llama_config_default(void);
/* Reads a configuration from a config.json of one of the model types. Returns zeros and an error if
 * a value is invalid. */
BR_API br_llama_config br_llama_config_from(const br_auto_config *config);

/* Optional inputs and outputs of a forward. Each may be NULL, and so may the options. Outputs are
 * owned by the caller's scope. S is the number of input ids, K is S plus the length of the cache.
 */
typedef struct br_llama_options {
    size_t struct_size;
    br_tensor *attention_mask; /* [B, K], false or 0 where a token is padding */
    br_tensor *position_ids;   /* i64 [B, S] or [1, S]; NULL: from the cache's length on */
    br_cache *cache;           /* earlier tokens; the ids are appended */
    br_tensor **hidden_states; /* layers + 1: the embeddings, then each layer; norm on the last */
    br_tensor **attentions;    /* a tensor of shape [B, heads, S, K] for each layer */
    /* A number of at least f32, which is 1 times num_experts_per_tok if the tokens use all experts
     * equally, and more if not: the sum over experts of their part of the tokens, times the mean of
     * their probabilities, times num_experts. Padding does not count. With it, layers do not use
     * activation checkpoints. Fedus et al., 2021 */
    br_tensor **aux_loss;
    /* i64 [B + 1]: a packed batch. input_ids is [1, tokens], and text i has tokens cu_seqlens[i] ..
     * cu_seqlens[i + 1] - 1, whose positions begin at 0; no token attends to another text. Cannot
     * be combined with attention_mask, position_ids, cache and attentions. */
    br_tensor *cu_seqlens;
} br_llama_options;
#define br_llama_default_fields .struct_size = sizeof(br_llama_options)
BR_API br_llama_options br_llama_defaults(void);

/* ---- LlamaModel ------------------------------------------------------------------------------ */

typedef struct br_llama_attention {
    br_module base;
    br_linear *q_proj, *k_proj, *v_proj, *o_proj;
    br_linear *qkv_proj;          /* with `fused`, instead of the first three */
    br_rms_norm *q_norm, *k_norm; /* NULL without qk_norm */
    int64_t heads, key_heads, head_dim;
    double scale, softcap, attention_dropout;
    bool norm_adds_1;
    int64_t layer; /* number in the cache */
} br_llama_attention;

typedef struct br_llama_mlp {
    br_module base;
    br_linear *gate_proj, *up_proj, *down_proj;
    br_linear *gate_up_proj; /* with `fused`, instead of the first two */
    br_tensor *(*act)(br_tensor *x);
} br_llama_mlp;

/* Experts. Each token goes through those whose probabilities are the largest, and the sum of their
 * results, times the probabilities, is the token's result. The work depends on the number of tokens
 * and on num_experts_per_tok, not on the number of experts. */
typedef struct br_llama_moe {
    br_module base;
    br_linear *gate;         /* the router, whose softmax gives the probabilities */
    br_module_list *experts; /* br_llama_mlp */
    int64_t num_experts_per_tok;
    bool norm_topk_prob;
} br_llama_moe;

typedef struct br_llama_layer {
    br_module base;
    br_llama_attention *self_attn;
    br_llama_mlp *mlp;
    br_llama_moe *moe; /* with BR_LLAMA_SPARSE, instead of mlp; its name is "mlp", too */
    br_rms_norm *input_layernorm, *post_attention_layernorm;
    br_rms_norm *pre_feedforward_layernorm, *post_feedforward_layernorm; /* with norms_after */
    bool norm_adds_1;
    double resid_pdrop, residual_multiplier;
    int flags; /* br_llama_layer_flags */
} br_llama_layer;

typedef struct br_llama {
    br_module base;
    br_llama_config config;
    br_embedding *embed_tokens;
    br_module_list *layers;
    br_rms_norm *norm;
} br_llama;
BR_API br_llama *br_llama_new(const br_llama_config *config);
/* Runs the module: input_ids i64 [B, S] -> last_hidden_state [B, S, hidden_size]. */
BR_API br_tensor *br_llama_forward(br_llama *self, br_tensor *input_ids,
                                   const br_llama_options *options);

/* ---- LlamaForCausalLM ------------------------------------------------------------------------ */

typedef struct br_llama_lm {
    br_module base;
    br_llama *model;
    br_linear *lm_head; /* its weight is tied to embed_tokens' unless the configuration is untied */
} br_llama_lm;
BR_API br_llama_lm *br_llama_lm_new(const br_llama_config *config);
/* Returns the logits [B, S, vocab_size] of the next token at each position. */
BR_API br_tensor *br_llama_lm_forward(br_llama_lm *self, br_tensor *input_ids,
                                      const br_llama_options *options);
/* Returns a language model for br_generate(). `model` must outlive it. */
BR_API br_language_model br_llama_language_model(br_llama_lm *model);
/* Returns br_causal_lm_loss() of the model's logits for labels i64 [B, S]. Without
 * final_logit_softcapping the logits are computed and used for some of the positions at a time and
 * never held together. Taps and hooks of lm_head do not see its results. */
BR_API br_tensor *br_llama_lm_loss(br_llama_lm *self, br_tensor *input_ids, br_tensor *labels,
                                   const br_llama_options *options);

/* ---- LlamaForSequenceClassification ---------------------------------------------------------- */

/* A classifier of texts, such as a reranker or a reward model, which has one label. */
typedef struct br_llama_classifier {
    br_module base;
    br_llama *model;
    br_linear *score; /* no bias */
} br_llama_classifier;
BR_API br_llama_classifier *br_llama_classifier_new(const br_llama_config *config);
/* Returns the logits [B, num_labels] from the state of the last token of each text that is not
 * pad_token_id, wherever the padding is. Without a pad_token_id there may be one text, or a packed
 * batch. */
BR_API br_tensor *br_llama_classifier_forward(br_llama_classifier *self, br_tensor *input_ids,
                                              const br_llama_options *options);

#ifdef __cplusplus
}
#endif
#endif
