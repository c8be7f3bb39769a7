/* models/qwen3_moe_family.c - the family of Qwen3 with experts, of which a router chooses some for
 * each token. */
#include "models/llama_internal.h"

static const br_config_default defaults[] = {
    ZOO_LLAMA_DEFAULTS("151936", "2048", "6144", "24", "32", "32768", "null", "null", "null"),
    { "num_key_value_heads", "4" },
    { "hidden_act", "\"silu\"" },
    { "use_sliding_window", "false" },
    { "sliding_window", "4096" },
    { "attention_dropout", "0.0" },
    { "tie_word_embeddings", "false" },
    { "attention_bias", "false" },
    { "decoder_sparse_step", "1" },
    { "moe_intermediate_size", "768" },
    { "num_experts_per_tok", "8" },
    { "num_local_experts", "128" },
    { "norm_topk_prob", "false" },
    { "output_router_logits", "false" },
    { "router_aux_loss_coef", "0.001" },
    { "mlp_only_layers", "null" },
    { NULL, NULL },
};

static const br_model_class classes[] = {
    ZOO_LLAMA_CLASSES("Qwen3Moe"),
    { .name = NULL },
};

static const br_config_alias aliases[] = {
    { "num_experts", "num_local_experts" },
    { NULL, NULL },
};

const br_model_family zoo_qwen3_moe_family =
    ZOO_LLAMA_FAMILY_WITH("qwen3_moe", classes, NULL, .defaults = defaults,
                          .limits = zoo_llama_limits, .aliases = aliases);
