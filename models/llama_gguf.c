/* models/llama_gguf.c - GGUF files of Llama and the decoders that are built like it: names of
 * tensors, what the converter of llama.cpp changed, and what the keys of the metadata do not say.
 *
 * Where transformers ignores what a file says, these functions do what llama.cpp does. */
#include "models/llama_gguf.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- Names ----------------------------------------------------------------------------------- */

#define SHARED_RENAMES                                                                        \
    { "token_embd", "embed_tokens", false }, { "output_norm", "norm", false },                \
        { "output", "lm_head", false }, { "blk", "layers", false },                           \
        { "attn_norm", "input_layernorm", false }, { "attn_q", "self_attn.q_proj", false },   \
        { "attn_k", "self_attn.k_proj", false }, { "attn_v", "self_attn.v_proj", false },     \
        { "attn_output", "self_attn.o_proj", false },                                         \
        { "attn_q_norm", "self_attn.q_norm", false },                                         \
        { "attn_k_norm", "self_attn.k_norm", false }, { "ffn_gate", "mlp.gate_proj", false }, \
        { "ffn_up", "mlp.up_proj", false },                                                   \
    {                                                                                         \
        "ffn_down", "mlp.down_proj", false                                                    \
    }

const br_key_rename zoo_llama_renames[] = {
    SHARED_RENAMES,
    { "ffn_norm", "post_attention_layernorm", false },
    { NULL, NULL, false },
};

const br_key_rename zoo_gemma_renames[] = {
    SHARED_RENAMES,
    { "post_attention_norm", "post_attention_layernorm", false },
    { "ffn_norm", "pre_feedforward_layernorm", false },
    { "post_ffw_norm", "post_feedforward_layernorm", false },
    { NULL, NULL, false },
};

const char *const zoo_gguf_ignored[] = { "rope_freqs.weight", "attn_rot_embd", NULL };

const br_gguf_flag zoo_llama_flags[] = {
    { "blk.0.attn_q.bias", "attention_bias" },
    { "blk.0.ffn_gate.bias", "mlp_bias" },
    { NULL, NULL },
};
const br_gguf_flag zoo_qwen3_flags[] = {
    { "blk.0.attn_q.bias", "attention_bias" },
    { NULL, NULL },
};

/* ---- Changed tensors ------------------------------------------------------------------------- */

/* Puts one half of each head's rows after the other. In the file they alternate. */
static br_tensor *separate(const br_auto_config *config, const char *heads, br_tensor *x)
{
    int64_t n = br_auto_config_size(config, heads);
    if (br_error_pending())
        return NULL;
    return br_flatten(br_transpose(br_unflatten(x, 0, BR_SHAPE(n, -1, 2)), 1, 2), 0, 2);
}

static br_tensor *separate_queries(const br_auto_config *config, br_tensor *x)
{
    return separate(config, "num_attention_heads", x);
}

static br_tensor *separate_keys(const br_auto_config *config, br_tensor *x)
{
    return separate(config,
                    br_auto_config_has(config, "num_key_value_heads") ? "num_key_value_heads"
                                                                      : "num_attention_heads",
                    x);
}

static br_tensor *subtract_1(const br_auto_config *config, br_tensor *x)
{
    (void)config;
    return br_add_scalar(x, -1);
}

const br_gguf_change zoo_llama_changes[] = {
    { "attn_q.weight", separate_queries, true },
    { "attn_q.bias", separate_queries, true },
    { "attn_k.weight", separate_keys, true },
    { "attn_k.bias", separate_keys, true },
    { NULL, NULL, false },
};

const br_gguf_change zoo_gemma_changes[] = {
    { "norm.weight", subtract_1, false },
    { NULL, NULL, false },
};

/* ---- Sizes of heads -------------------------------------------------------------------------- */

int64_t zoo_gguf_integer(const br_gguf *file, const char *name, int64_t otherwise)
{
    char key[128];
    snprintf(key, sizeof key, "%s.%s", br_gguf_string(file, "general.architecture", NULL), name);
    return br_gguf_metadata_type(file, key) ? br_gguf_integer(file, key) : otherwise;
}

double zoo_gguf_part(int64_t head, int64_t dim)
{
    double part = (double)dim / (double)head;
    return (int64_t)((double)head * part) < dim ? nextafter(part, 1) : part;
}

int64_t zoo_gguf_head_size(const br_gguf *file)
{
    int64_t heads = zoo_gguf_integer(file, "attention.head_count", 0);
    int64_t size = zoo_gguf_integer(file, "embedding_length", 0);
    int64_t head = zoo_gguf_integer(file, "attention.key_length", heads > 0 ? size / heads : 0);
    if (head < 2 && !br_error_pending())
        br_raise(BR_ERROR_FORMAT,
                 "llama: the file's head_count %" PRId64 ", embedding_length %" PRId64
                 " and key_length give heads of size %" PRId64 ", must be at least 2",
                 heads, size, head);
    return br_error_pending() ? 0 : head;
}

/* Checks that values have the size of keys, and that all elements of a head are turned. */
static bool check_heads(const br_gguf *file, int64_t head)
{
    static const char *const names[] = { "attention.value_length", "rope.dimension_count" };
    for (int i = 0; i < 2; i++) {
        int64_t is = zoo_gguf_integer(file, names[i], head);
        if (is != head && !br_error_pending())
            br_raise(BR_ERROR_FORMAT,
                     "llama: %s is %" PRId64 ", must be the size of a head, %" PRId64, names[i], is,
                     head);
    }
    return head > 0 && !br_error_pending();
}

/* ---- Positions of Llama 3.1 ------------------------------------------------------------------ */

/* The values that all models with these positions have; only the factor differs. */
enum { TRAINED = 8192, HIGH = 4 };

/* Returns what the rate of pair i of a head is divided by. */
static double divisor(double theta, int64_t head, int64_t i, double factor)
{
    double turns = TRAINED * pow(theta, -2.0 * (double)i / (double)head) / (2 * acos(-1.0));
    if (turns > HIGH)
        return 1;
    if (turns < 1)
        return factor;
    double smooth = (turns - 1) / (HIGH - 1);
    return 1 / ((1 - smooth) / factor + smooth);
}

static double element(br_tensor *x, int64_t i)
{
    return br_item(br_select(x, 0, i));
}

/* Returns rope_scaling for the tensor of divisors, or NULL and an error if they are not those of a
 * factor. */
static char *read_divisors(const br_gguf *file, br_tensor *divisors, int64_t head)
{
    double theta = br_gguf_number(file, "llama.rope.freq_base"), factor = 1;
    for (int64_t i = 0; i < head / 2; i++)
        factor = fmax(factor, element(divisors, i));
    for (int64_t i = 0; i < head / 2 && !br_error_pending(); i++) {
        double due = divisor(theta, head, i, factor), found = element(divisors, i);
        if (!(fabs(found - due) <= 1e-4 * due))
            br_raise(BR_ERROR_FORMAT,
                     "llama: rope_freqs.weight[%" PRId64 "] is %g, must be %g, the divisor of "
                     "Llama 3.1's positions with the factor %g: no others are supported",
                     i, found, due, factor);
    }
    return br_error_pending()
               ? NULL
               : br_format("{\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": %.9g, "
                           "\"low_freq_factor\": 1.0, \"high_freq_factor\": %d.0, "
                           "\"original_max_position_embeddings\": %d}}",
                           factor, HIGH, TRAINED);
}

char *zoo_gguf_more(br_gguf *file)
{
    static const char name[] = "rope_freqs.weight";
    int64_t head = zoo_gguf_head_size(file);
    if (!check_heads(file, head))
        return NULL;
    if (!br_gguf_has(file, name))
        return br_format("{}");
    br_scope *scope = br_scope_begin();
    br_tensor *t = br_flatten(br_gguf_get(file, name, BR_F32), 0, -1);
    if (!br_error_pending() && br_numel(t) != head / 2)
        br_raise(BR_ERROR_FORMAT,
                 "llama: %s has %" PRId64 " elements, must have %" PRId64 ", half the size of a "
                 "head",
                 name, br_numel(t), head / 2);
    char *json = br_error_pending() ? NULL : read_divisors(file, t, head);
    br_scope_end(scope);
    return json;
}

/* ---- Gemma ----------------------------------------------------------------------------------- */

/* Attention is divided by the root of the size of a head, except in the largest model of each
 * version, which llama.cpp recognizes by its number of layers. transformers always uses 256. */
char *zoo_gemma_gguf_more(br_gguf *file)
{
    enum { GEMMA2_27B = 46, GEMMA3_27B = 62 };
    int64_t head = zoo_gguf_head_size(file), layers = zoo_gguf_integer(file, "block_count", 0);
    if (!check_heads(file, head))
        return NULL;
    const char *architecture = br_gguf_string(file, "general.architecture", NULL);
    bool is_27b = layers == (strcmp(architecture, "gemma2") == 0 ? GEMMA2_27B : GEMMA3_27B);
    int64_t scalar = is_27b ? zoo_gguf_integer(file, "embedding_length", 0) /
                                  zoo_gguf_integer(file, "attention.head_count", 1)
                            : head;
    return br_format("{\"query_pre_attn_scalar\": %" PRId64 "}", scalar);
}
