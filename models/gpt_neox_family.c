/* models/gpt_neox_family.c - the family of GPT-NeoX and Pythia: its classes, the keys of
 * config.json, and the names of its weights. */
#include "models/gpt_neox_internal.h"
#include "models/llama_gguf.h"

#include <inttypes.h>

/* ---- config.json ----------------------------------------------------------------------------- */

static const br_config_default defaults[] = {
    { "vocab_size", "50432" },
    { "hidden_size", "6144" },
    { "num_hidden_layers", "44" },
    { "num_attention_heads", "64" },
    { "intermediate_size", "24576" },
    { "hidden_act", "\"gelu\"" },
    { "attention_dropout", "0.0" },
    { "hidden_dropout", "0.0" },
    { "classifier_dropout", "0.1" },
    { "max_position_embeddings", "2048" },
    { "initializer_range", "0.02" },
    { "layer_norm_eps", "1e-5" },
    { "use_cache", "true" },
    { "bos_token_id", "0" },
    { "eos_token_id", "2" },
    { "pad_token_id", "null" },
    { "tie_word_embeddings", "false" },
    { "use_parallel_residual", "true" },
    { "rope_parameters", "null" },
    { "attention_bias", "true" },
    { "is_decoder", "false" },
    { NULL, NULL },
};

static const br_config_limit limits[] = {
    { "is_encoder_decoder", "false", false },
    { "head_dim", "null", false },
    { "rope_parameters.mrope_section", "null", false },
    { "rope_scaling.mrope_section", "null", false },
    { NULL, NULL, false },
};

/* rope_scaling, rotary_pct and rotary_emb_base are older forms of rope_parameters. transformers
 * does not read the next two for this family. */
static const char *const harmless[] = {
    "rope_scaling",
    "rotary_pct",
    "rotary_emb_base",
    "rope_theta",
    "partial_rotary_factor",
    "original_max_position_embeddings",
    NULL,
};

/* ---- Making models --------------------------------------------------------------------------- */

static br_gpt_neox_config config_of(const br_auto_config *config)
{
    br_gpt_neox_config c = br_gpt_neox_config_from(config);
    return zoo_gpt_neox_checked(&c);
}

static void *make_base(const br_auto_config *config)
{
    br_gpt_neox_config c = config_of(config);
    return zoo_gpt_neox_make(&c);
}

static void *make_lm(const br_auto_config *config)
{
    br_gpt_neox_config c = config_of(config);
    return zoo_gpt_neox_make_lm(&c);
}

static bool init(const br_auto_config *config, const char *key, br_tensor *weight)
{
    br_gpt_neox_config c = br_gpt_neox_config_from(config);
    return zoo_gpt_neox_init(&c, key, weight);
}

/* ---- Comparing models ------------------------------------------------------------------------ */

static const br_gpt_neox *base_of(br_module *module)
{
    bool is_lm = zoo_ends_with(br_module_class(module), "ForCausalLM");
    return is_lm ? ((const br_gpt_neox_lm *)module)->gpt_neox : (const br_gpt_neox *)module;
}

static const char *differing_key(br_module *a, br_module *b)
{
    const br_gpt_neox *first = base_of(a), *other = base_of(b);
    const br_gpt_neox_config *x = &first->config, *y = &other->config;
    const br_gpt_neox_layer *layer = br_module_list_at(first->layers, 0);
    const br_gpt_neox_layer *layer_b = br_module_list_at(other->layers, 0);
    const struct {
        const char *key;
        bool same;
    } keys[] = {
        { "num_attention_heads", x->num_attention_heads == y->num_attention_heads },
        { "layer_norm_eps", x->layer_norm_eps == y->layer_norm_eps },
        { "rope_parameters", zoo_same_rope(&x->rope, &y->rope) },
        { "rotary_pct", zoo_gpt_neox_rotary_dim(x) == zoo_gpt_neox_rotary_dim(y) },
        { "use_parallel_residual", x->use_parallel_residual == y->use_parallel_residual },
        { "hidden_act", layer->mlp->act == layer_b->mlp->act },
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!keys[i].same)
            return keys[i].key;
    return NULL;
}

/* ---- Running models -------------------------------------------------------------------------- */

static br_gpt_neox_options options_of(const br_model_input *input)
{
    return *BR_OPTIONS(br_gpt_neox, .attention_mask = input->batch.attention_mask,
                       .cu_seqlens = input->cu_seqlens);
}

static br_tensor *run_base(br_module *model, const br_model_input *input)
{
    br_gpt_neox_options o = options_of(input);
    return br_gpt_neox_forward((br_gpt_neox *)model, input->batch.ids, &o);
}

static br_tensor *run_lm(br_module *model, const br_model_input *input)
{
    br_gpt_neox_options o = options_of(input);
    return br_gpt_neox_lm_forward((br_gpt_neox_lm *)model, input->batch.ids, &o);
}

static br_tensor *loss(br_module *model, const br_model_input *input, br_tensor *labels)
{
    br_gpt_neox_options o = options_of(input);
    return br_gpt_neox_lm_loss((br_gpt_neox_lm *)model, input->batch.ids, labels, &o);
}

static br_language_model language_model(br_model_source *source)
{
    return br_gpt_neox_language_model((br_gpt_neox_lm *)source->model);
}

/* ---- GGUF files ------------------------------------------------------------------------------ */

static const br_gguf_key gguf_keys[] = {
    ZOO_GGUF_REQUIRED("context_length", "max_position_embeddings"),
    ZOO_GGUF_REQUIRED("embedding_length", "hidden_size"),
    ZOO_GGUF_REQUIRED("block_count", "num_hidden_layers"),
    ZOO_GGUF_REQUIRED("feed_forward_length", "intermediate_size"),
    ZOO_GGUF_REQUIRED("attention.head_count", "num_attention_heads"),
    { .name = "attention.layer_norm_epsilon",
      .config = "layer_norm_eps",
      .type = BR_GGUF_NEEDS_NUMBER,
      .required = true },
    { .name = "use_parallel_residual",
      .config = "use_parallel_residual",
      .type = BR_GGUF_NEEDS_BOOL },
    ZOO_GGUF_NUMBER("rope.freq_base", "rotary_emb_base"),
    ZOO_GGUF_POSITIONS,
    ZOO_GGUF_ONLY("rope.scaling.attn_factor", "1"),
    { .name = NULL },
};

static const br_gguf_flag gguf_flags[] = {
    { "blk.0.attn_qkv.bias", "attention_bias" },
    { NULL, NULL },
};

static const br_key_rename gguf_renames[] = {
    { "token_embd", "embed_in", false },
    { "output_norm", "final_layer_norm", false },
    { "output", "lm_head", false },
    { "blk", "layers", false },
    { "attn_norm", "input_layernorm", false },
    { "attn_qkv", "attention.query_key_value", false },
    { "attn_output", "attention.dense", false },
    { "ffn_norm", "post_attention_layernorm", false },
    { "ffn_up", "mlp.dense_h_to_4h", false },
    { "ffn_down", "mlp.dense_4h_to_h", false },
    { NULL, NULL, false },
};

/* Orders the rows by head: first its query, then its key and its value. In the file all queries
 * precede all keys. */
static br_tensor *by_head(const br_auto_config *config, br_tensor *x)
{
    int64_t heads = br_auto_config_size(config, "num_attention_heads");
    if (br_error_pending())
        return NULL;
    return br_flatten(br_transpose(br_unflatten(x, 0, BR_SHAPE(3, heads, -1)), 0, 1), 0, 2);
}

static const br_gguf_change gguf_changes[] = {
    { "attn_qkv.weight", by_head, true },
    { "attn_qkv.bias", by_head, true },
    { NULL, NULL, false },
};

static char *gguf_more(br_gguf *file)
{
    int64_t heads = zoo_gguf_integer(file, "attention.head_count", 0);
    int64_t head = heads > 0 ? zoo_gguf_integer(file, "embedding_length", 0) / heads : 0;
    int64_t dim = zoo_gguf_integer(file, "rope.dimension_count", head);
    int64_t value = zoo_gguf_integer(file, "attention.value_length", head);
    if (br_error_pending())
        return NULL;
    if (head >= 2 && dim >= 2 && dim <= head && value == head)
        return br_format("{\"rotary_pct\": %.17g}", zoo_gguf_part(head, dim));
    br_raise(BR_ERROR_FORMAT,
             "gpt_neox: rope.dimension_count is %" PRId64 " and attention.value_length %" PRId64
             ": the first must be 2 .. the size of a head, embedding_length / attention.head_count "
             "= %" PRId64 ", and the second that size",
             dim, value, head);
    return NULL;
}

static const br_gguf_format gguf = {
    .architecture = "gptneox",
    .keys = gguf_keys,
    .flags = gguf_flags,
    .names = { .prefix = "gpt_neox.", .renames = gguf_renames },
    .changes = gguf_changes,
    .more = gguf_more,
};

/* ---- The family ------------------------------------------------------------------------------ */

static const br_model_class classes[] = {
    {
        .name = "GPTNeoXModel",
        .task = BR_TASK_BASE,
        .make = make_base,
        .forward = run_base,
        .embeds_sentences = true,
        .shows_attention = true,
    },
    {
        .name = "GPTNeoXForCausalLM",
        .task = BR_TASK_CAUSAL_LM,
        .make = make_lm,
        .forward = run_lm,
        .loss = loss,
        .language_model = language_model,
    },
    { .name = NULL },
};

static const br_key_rename renames[] = {
    { "embed_out", "lm_head", false },
    { NULL, NULL, false },
};
static const char *const heads[] = { "lm_head.", NULL };
/* Buffers of old versions. */
static const char *const ignored[] = { ".attention.bias", ".attention.masked_bias",
                                       "rotary_emb.inv_freq", NULL };
static const char *const layers[] = { "num_hidden_layers", NULL };
static const br_config_rows rows[] = { { "vocab_size", "embed_in.weight" }, { NULL, NULL } };

const br_model_family zoo_gpt_neox_family = {
    .model_type = "gpt_neox",
    .config = { .defaults = defaults, .limits = limits, .harmless = harmless },
    .classes = classes,
    .packs = true,
    .tokenizer_class = "GPTNeoXTokenizer",
    .keys = { .prefix = "gpt_neox.", .renames = renames, .ignored = ignored },
    .heads = heads,
    .init = init,
    .layers = layers,
    .rows = rows,
    .differing_key = differing_key,
    .gguf = &gguf,
};
