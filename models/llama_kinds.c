/* models/llama_kinds.c - the table of Llama and the decoders that are built like it, and what their
 * config.json says of the kinds of layers. */
#include "models/llama_internal.h"

#include <inttypes.h>
#include <string.h>

/* ---- Kinds of layers in config.json ---------------------------------------------------------- */

/* Returns sliding_window, or 0 if it is null. */
static int64_t read_window(const br_auto_config *config)
{
    return br_auto_config_has(config, "sliding_window")
               ? br_auto_config_size(config, "sliding_window")
               : 0;
}

/* Refuses a list whose length differs from the number of layers. */
static bool good_length(const br_auto_config *config, const char *key, int64_t layers)
{
    int64_t n = br_auto_config_list_size(config, key);
    if (n != layers && !br_error_pending())
        br_raise(BR_ERROR_FORMAT,
                 "llama: %s: %s has %" PRId64 " elements, must have num_hidden_layers = %" PRId64,
                 br_auto_config_path(config), key, n, layers);
    return !br_error_pending();
}

/* Sets BR_LLAMA_WINDOW in layer i if config.json names it "sliding_attention". */
static void read_layer_type(const br_auto_config *config, int64_t i, br_llama_config *c)
{
    const char *name = br_auto_config_list_string(config, "layer_types", i);
    if (!name)
        return;
    if (strcmp(name, "sliding_attention") == 0)
        c->layers[i] |= BR_LLAMA_WINDOW;
    else if (strcmp(name, "full_attention") != 0)
        br_raise(BR_ERROR_FORMAT,
                 "llama: %s: layer_types[%" PRId64
                 "] is \"%s\", must be \"full_attention\" or \"sliding_attention\"",
                 br_auto_config_path(config), i, br_printable(name));
}

/* Reads "layer_types" into c->layers. Returns false if the file lacks it. */
static bool read_layer_types(const br_auto_config *config, br_llama_config *c)
{
    if (!br_auto_config_has(config, "layer_types"))
        return false;
    if (!good_length(config, "layer_types", c->num_hidden_layers))
        return true;
    bool has_window = false;
    for (int64_t i = 0; i < c->num_hidden_layers && !br_error_pending(); i++) {
        read_layer_type(config, i, c);
        has_window |= c->layers[i] & BR_LLAMA_WINDOW;
    }
    if (has_window && c->sliding_window == 0 && !br_error_pending())
        br_raise(BR_ERROR_FORMAT, "llama: %s: %s, because layer_types has \"sliding_attention\"",
                 br_auto_config_path(config),
                 br_auto_config_has(config, "sliding_window")
                     ? "use_sliding_window is false, must be true"
                     : "sliding_window is null, must be a number of tokens");
    return true;
}

/* Reads "no_rope_layers" into c->layers. Returns false if the file lacks it. */
static bool read_no_rope(const br_auto_config *config, br_llama_config *c)
{
    if (!br_auto_config_has(config, "no_rope_layers"))
        return false;
    if (!good_length(config, "no_rope_layers", c->num_hidden_layers))
        return true;
    for (int64_t i = 0; i < c->num_hidden_layers && !br_error_pending(); i++)
        if (br_auto_config_list_integer(config, "no_rope_layers", i) == 0)
            c->layers[i] |= BR_LLAMA_NO_ROPE;
    return true;
}

/* Layers from max_window_layers on have a window if use_sliding_window. */
static void read_qwen_layers(const br_auto_config *config, br_llama_config *c)
{
    if (br_auto_config_bool(config, "use_sliding_window"))
        c->sliding_window = read_window(config);
    if (read_layer_types(config, c) || c->sliding_window == 0)
        return;
    int64_t first = br_auto_config_integer(config, "max_window_layers");
    for (int64_t i = first < 0 ? 0 : first; i < c->num_hidden_layers; i++)
        c->layers[i] |= BR_LLAMA_WINDOW;
}

/* All layers but every `pattern`-th have a window. */
static void read_gemma_layers(const br_auto_config *config, br_llama_config *c, int64_t pattern)
{
    c->sliding_window = read_window(config);
    if (read_layer_types(config, c))
        return;
    for (int64_t i = 0; i < c->num_hidden_layers; i++)
        if ((i + 1) % pattern != 0)
            c->layers[i] |= BR_LLAMA_WINDOW;
}

/* All layers have a window, unless sliding_window is null. */
static void read_windows(const br_auto_config *config, br_llama_config *c)
{
    c->sliding_window = read_window(config);
    for (int64_t i = 0; i < c->num_hidden_layers && c->sliding_window > 0; i++)
        c->layers[i] |= BR_LLAMA_WINDOW;
}

static void read_smollm3_layers(const br_auto_config *config, br_llama_config *c)
{
    if (!read_no_rope(config, c)) {
        int64_t interval = br_auto_config_size(config, "no_rope_layer_interval");
        for (int64_t i = interval - 1; interval > 0 && i < c->num_hidden_layers; i += interval)
            c->layers[i] |= BR_LLAMA_NO_ROPE;
    }
    c->sliding_window = read_window(config);
    if (read_layer_types(config, c) || c->sliding_window == 0 ||
        !br_auto_config_bool(config, "use_sliding_window"))
        return;
    for (int64_t i = 0; i < c->num_hidden_layers; i++)
        if (c->layers[i] & BR_LLAMA_NO_ROPE)
            c->layers[i] |= BR_LLAMA_WINDOW;
}

/* Every decoder_sparse_step-th layer has experts, except those of mlp_only_layers. */
static void read_sparse_layers(const br_auto_config *config, br_llama_config *c)
{
    int64_t step = br_auto_config_size(config, "decoder_sparse_step");
    int64_t dense = br_auto_config_list_size(config, "mlp_only_layers");
    if (br_auto_config_bool(config, "use_sliding_window"))
        read_windows(config, c);
    if (br_error_pending() || c->num_experts == 0)
        return;
    for (int64_t i = step - 1; i < c->num_hidden_layers; i += step)
        c->layers[i] |= BR_LLAMA_SPARSE;
    for (int64_t k = 0; k < dense && !br_error_pending(); k++) {
        int64_t i = br_auto_config_list_integer(config, "mlp_only_layers", k);
        if (i >= 0 && i < c->num_hidden_layers)
            c->layers[i] &= (uint8_t)~BR_LLAMA_SPARSE;
    }
}

static void read_gemma2_layers(const br_auto_config *config, br_llama_config *c)
{
    read_gemma_layers(config, c, 2);
}

static void read_gemma3_layers(const br_auto_config *config, br_llama_config *c)
{
    static const char key[] = "sliding_window_pattern";
    int64_t pattern = br_auto_config_has(config, key) ? br_auto_config_size(config, key) : 6;
    read_gemma_layers(config, c, pattern > 0 ? pattern : 1);
    c->bidirectional = br_auto_config_bool(config, "use_bidirectional_attention");
    if (c->bidirectional && c->sliding_window > 0)
        c->sliding_window = c->sliding_window / 2 + 1; /* the file has the width to both sides */
}

/* ---- Model types ----------------------------------------------------------------------------- */

static const zoo_llama_kind kinds[] = {
    {
        .model_type = "llama",
        .prefix = "Llama",
        .rope = ZOO_ROPE(10000),
        .attention_bias = "attention_bias",
        .output_bias = "attention_bias",
        .mlp_bias = "mlp_bias",
    },
    {
        .model_type = "mistral",
        .prefix = "Mistral",
        .needs_key_value_heads = true,
        .rope = ZOO_ROPE(10000),
        .read_layers = read_windows,
    },
    {
        .model_type = "smollm3",
        .prefix = "SmolLM3",
        .rope = ZOO_ROPE(2000000),
        .read_layers = read_smollm3_layers,
        .attention_bias = "attention_bias",
        .output_bias = "attention_bias",
        .mlp_bias = "mlp_bias",
    },
    {
        .model_type = "granite",
        .prefix = "Granite",
        .rope = ZOO_ROPE(10000),
        .attention_bias = "attention_bias",
        .output_bias = "attention_bias",
        .mlp_bias = "mlp_bias",
        .has_multipliers = true,
    },
    {
        .model_type = "phi3",
        .prefix = "Phi3",
        .rope = { .scaling = "rope_scaling",
                  .theta = "rope_theta",
                  .partial = "partial_rotary_factor",
                  .default_theta = 10000,
                  .default_partial = 1,
                  .is_phi = true },
        .read_layers = read_windows,
        .is_fused = true,
        .head_dim_is_not_null = true,
    },
    {
        .model_type = "qwen2",
        .prefix = "Qwen2",
        .rope = ZOO_ROPE(10000),
        .read_layers = read_qwen_layers,
        .always_has_attention_bias = true,
    },
    {
        .model_type = "qwen3",
        .prefix = "Qwen3",
        .rope = ZOO_ROPE(10000),
        .read_layers = read_qwen_layers,
        .needs_head_dim = true,
        .attention_bias = "attention_bias",
        .output_bias = "attention_bias",
        .has_qk_norm = true,
    },
    {
        .model_type = "qwen3_moe",
        .prefix = "Qwen3Moe",
        .needs_key_value_heads = true,
        .rope = ZOO_ROPE(10000),
        .read_layers = read_sparse_layers,
        .attention_bias = "attention_bias",
        .output_bias = "attention_bias",
        .has_qk_norm = true,
        .has_experts = true,
        .head_dim_is_not_null = true,
    },
    {
        .model_type = "gemma2",
        .prefix = "Gemma2",
        .needs_key_value_heads = true,
        .rope = ZOO_ROPE(10000),
        .is_gemma = true,
        .caps_attention = true,
        .read_layers = read_gemma2_layers,
        .needs_head_dim = true,
        .attention_bias = "attention_bias",
        .output_bias = "attention_bias",
    },
    {
        .model_type = "gemma3_text",
        .prefix = "Gemma3",
        .base = "Gemma3TextModel",
        .classifier = "Gemma3TextForSequenceClassification",
        .needs_key_value_heads = true,
        .rope = { .inner = "full_attention",
                  .scaling = "rope_scaling",
                  .theta = "rope_theta",
                  .default_theta = 1000000 },
        .local_rope = { .inner = "sliding_attention",
                        .theta = "rope_local_base_freq",
                        .default_theta = 10000 },
        .has_qk_norm = true,
        .is_gemma = true,
        .read_layers = read_gemma3_layers,
        .needs_head_dim = true,
        .attention_bias = "attention_bias",
        .output_bias = "attention_bias",
    },
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

const zoo_llama_kind *zoo_llama_kind_of(const char *model_type)
{
    for (int i = 0; i < N_KINDS; i++)
        if (!model_type || strcmp(kinds[i].model_type, model_type) == 0)
            return &kinds[i];
    return NULL;
}

zoo_llama_list zoo_llama_types(void)
{
    zoo_llama_list list = { "" };
    size_t end = 0;
    for (int i = 0; i < N_KINDS && end < sizeof list.text; i++)
        end += (size_t)snprintf(list.text + end, sizeof list.text - end, "%s%s",
                                i == 0             ? ""
                                : i == N_KINDS - 1 ? " or "
                                                   : ", ",
                                kinds[i].model_type);
    return list;
}

void *zoo_llama_create(const br_llama_config *c, size_t size, const char *end)
{
    const zoo_llama_kind *kind = zoo_llama_kind_of(c->model_type);
    char name[64];
    snprintf(name, sizeof name, "%s%s", kind ? kind->prefix : "Llama", end);
    return br_module_create(size, name);
}
