/* models/phi3_family.c - the family of Phi-3, Phi-3.5 and Phi-4-mini: fused projections, positions
 * that turn a part of a head, and longrope. */
#include "models/llama_internal.h"

static const br_config_default defaults[] = {
    { "rms_norm_eps", "1e-5" }, /* precedes that of other families */
    ZOO_LLAMA_DEFAULTS("32064", "3072", "8192", "32", "32", "4096", "32000", "1", "32000"),
    { "num_key_value_heads", "|=num_attention_heads" },
    { "hidden_act", "\"silu\"" },
    { "sliding_window", "null" },
    { "original_max_position_embeddings", "4096" },
    { "attention_dropout", "0.0" },
    { "resid_pdrop", "0.0" },
    { "embd_pdrop", "0.0" }, /* no model of transformers 5 uses it */
    { "tie_word_embeddings", "false" },
    { NULL, NULL },
};

static const br_model_class classes[] = {
    ZOO_LLAMA_CLASSES("Phi3"),
    { .name = NULL },
};

const br_model_family zoo_phi3_family =
    ZOO_LLAMA_FAMILY_WITH("phi3", classes, NULL, .defaults = defaults, .limits = zoo_phi3_limits);
