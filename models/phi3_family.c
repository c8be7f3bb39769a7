/* models/phi3_family.c - the family of Phi-3, Phi-3.5 and Phi-4-mini: fused projections, positions
 * that turn a part of a head, and longrope. */
#include "models/llama_gguf.h"
#include "models/llama_internal.h"

#include <inttypes.h>

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

/* ---- GGUF files ------------------------------------------------------------------------------ */

static const br_gguf_key gguf_keys[] = {
    ZOO_GGUF_ALL_KEYS,
    ZOO_GGUF_INTEGER("attention.head_count_kv", "num_key_value_heads"),
    /* gguf_more() reads these. */
    ZOO_GGUF_NUMBER("rope.scaling.attn_factor", NULL),
    ZOO_GGUF_INTEGER("attention.sliding_window", NULL),
    { .name = NULL },
};

static const br_key_rename gguf_renames[] = {
    { "token_embd", "embed_tokens", false },
    { "output_norm", "norm", false },
    { "output", "lm_head", false },
    { "blk", "layers", false },
    { "attn_norm", "input_layernorm", false },
    { "attn_qkv", "self_attn.qkv_proj", false },
    { "attn_output", "self_attn.o_proj", false },
    { "ffn_norm", "post_attention_layernorm", false },
    { "ffn_up", "mlp.gate_up_proj", false },
    { "ffn_down", "mlp.down_proj", false },
    { NULL, NULL, false },
};

static const char short_name[] = "rope_factors_short.weight",
                  long_name[] = "rope_factors_long.weight";
static const char *const gguf_ignored[] = { short_name, long_name, NULL };

enum { LIST = 16 * BR_ROPE_MAX_FACTORS + 16 };

/* Writes the n numbers of a tensor as a JSON list. */
static bool list_factors(br_gguf *file, const char *name, int64_t n, char list[LIST])
{
    br_scope *scope = br_scope_begin();
    br_tensor *t = br_flatten(br_gguf_get(file, name, BR_F32), 0, -1);
    if (!br_error_pending() && (br_numel(t) != n || n > BR_ROPE_MAX_FACTORS))
        br_raise(BR_ERROR_FORMAT,
                 "llama: %s has %" PRId64 " elements, must have %" PRId64
                 ", one for each pair of a head's turned numbers, and at most %d",
                 name, br_numel(t), n, BR_ROPE_MAX_FACTORS);
    int at = snprintf(list, LIST, "[");
    for (int64_t i = 0; i < n && !br_error_pending(); i++)
        at += snprintf(list + at, (size_t)(LIST - at), "%s%.9g", i > 0 ? ", " : "",
                       br_item(br_select(t, 0, i)));
    snprintf(list + at, (size_t)(LIST - at), "]");
    br_scope_end(scope);
    return !br_error_pending();
}

/* Returns rope_scaling as a member of an object, or "" if the file has no factors; NULL on error.
 */
static char *longrope_of(br_gguf *file, int64_t dim)
{
    static const char key[] = "phi3.rope.scaling.attn_factor";
    char shorts[LIST], longs[LIST], factor[60] = "";
    if (!br_gguf_has(file, short_name) && !br_gguf_has(file, long_name))
        return br_format("%s", "");
    if (!list_factors(file, short_name, dim / 2, shorts) ||
        !list_factors(file, long_name, dim / 2, longs))
        return NULL;
    if (br_gguf_metadata_type(file, key))
        snprintf(factor, sizeof factor, ", \"attention_factor\": %.9g", br_gguf_number(file, key));
    return br_format(", \"rope_scaling\": {\"rope_type\": \"longrope\", \"short_factor\": %s, "
                     "\"long_factor\": %s%s}",
                     shorts, longs, factor);
}

static char *gguf_more(br_gguf *file)
{
    int64_t head = zoo_gguf_head_size(file),
            dim = zoo_gguf_integer(file, "rope.dimension_count", head);
    int64_t value = zoo_gguf_integer(file, "attention.value_length", head);
    int64_t window = zoo_gguf_integer(file, "attention.sliding_window", 0);
    int64_t trained = zoo_gguf_integer(file, "rope.scaling.original_context_length", 4096);
    if (!br_error_pending() && (dim < 2 || dim > head || value != head))
        br_raise(BR_ERROR_FORMAT,
                 "llama: rope.dimension_count is %" PRId64 " and attention.value_length %" PRId64
                 ": the first must be 2 .. %" PRId64
                 ", the size of a head, and the second that size",
                 dim, value, head);
    char *rope = br_error_pending() ? NULL : longrope_of(file, dim), *json = NULL,
         size[24] = "null";
    if (window > 0)
        snprintf(size, sizeof size, "%" PRId64, window);
    if (rope && !br_error_pending())
        json = br_format("{\"partial_rotary_factor\": %.17g, \"sliding_window\": %s, "
                         "\"original_max_position_embeddings\": %" PRId64 "%s}",
                         zoo_gguf_part(head, dim), size, trained, rope);
    br_free(rope);
    return json;
}

static const br_gguf_format gguf = {
    .architecture = "phi3",
    .keys = gguf_keys,
    .names = { .prefix = "model.", .renames = gguf_renames, .ignored = gguf_ignored },
    .more = gguf_more,
};

const br_model_family zoo_phi3_family =
    ZOO_LLAMA_FAMILY_WITH("phi3", classes, &gguf, .defaults = defaults, .limits = zoo_phi3_limits);
