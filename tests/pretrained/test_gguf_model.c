/* Models from GGUF files: each architecture gives the logits of the same model in a folder, to the
 * bit. The test writes both, and changes the tensors as the converter of llama.cpp does.
 * compare_gguf.py compares such files with transformers. */
#include "tests/pretrained/gguf_writer.h"

#include <brasa/brasa.h>

#include "tests/pretrained/gguf_models.h" /* after the writer, whose arguments have names of its types */

TestSuite(gguf_model, .init = files_begin, .fini = files_end);

/* ---- Writing --------------------------------------------------------------------------------- */

static void write_key(gguf_writer *w, const char *architecture, const key *k)
{
    char name[100];
    snprintf(name, sizeof name, "%s.%s", architecture, k->name);
    if (k->type == 'u')
        w_u32(w, name, (uint32_t)k->value);
    else if (k->type == 'f')
        w_f32(w, name, (float)k->value);
    else if (k->type == 'b')
        w_bool(w, name, k->value != 0);
    else
        w_string(w, name, k->text);
}

static void write_keys(gguf_writer *w, const model *m)
{
    w_string(w, "general.architecture", m->architecture);
    for (const key *k = size_keys; k->name; k++)
        write_key(w, m->architecture, k);
    for (const key *k = m->keys; k->name; k++)
        write_key(w, m->architecture, k);
    w_u32(w, "tokenizer.ggml.bos_token_id", 1);
    w_u32(w, "tokenizer.ggml.eos_token_id", 2);
}

/* Returns the name that a GGUF file has for a weight, without its end. */
static const char *part_of(const model *m, const char *name)
{
    static const struct {
        const char *from, *to;
    } llama[] = { { "input_layernorm", "attn_norm" },
                  { "post_attention_layernorm", "ffn_norm" },
                  { NULL, NULL } },
      gemma[] = { { "input_layernorm", "attn_norm" },
                  { "post_attention_layernorm", "post_attention_norm" },
                  { "pre_feedforward_layernorm", "ffn_norm" },
                  { "post_feedforward_layernorm", "post_ffw_norm" },
                  { NULL, NULL } },
      both[] = { { "gate_up_proj", "ffn_up" },
                 { "qkv_proj", "attn_qkv" },
                 { "q_proj", "attn_q" },
                 { "k_proj", "attn_k" },
                 { "v_proj", "attn_v" },
                 { "o_proj", "attn_output" },
                 { "q_norm", "attn_q_norm" },
                 { "k_norm", "attn_k_norm" },
                 { "gate_proj", "ffn_gate" },
                 { "up_proj", "ffn_up" },
                 { "down_proj", "ffn_down" },
                 { "embed_tokens", "token_embd" },
                 { "lm_head", "output" },
                 { "model.norm", "output_norm" },
                 { NULL, NULL } };
    for (int i = 0; (m->is_gemma ? gemma : llama)[i].from; i++)
        if (strstr(name, (m->is_gemma ? gemma : llama)[i].from))
            return (m->is_gemma ? gemma : llama)[i].to;
    for (int i = 0; both[i].from; i++)
        if (strstr(name, both[i].from))
            return both[i].to;
    cr_assert_fail("no name for %s", name);
    return NULL;
}

static void name_of(const model *m, const char *weight, char name[100])
{
    int layer;
    const char *end = strrchr(weight, '.'), *part = part_of(m, weight);
    if (sscanf(weight, "model.layers.%d.", &layer) == 1)
        snprintf(name, 100, "blk.%d.%s%s", layer, part, end);
    else
        snprintf(name, 100, "%s%s", part, end);
}

static bool has_part(const char *name, const char *part)
{
    return strstr(name, part) != NULL;
}

/* Changes a weight as the converter does. */
static br_tensor *converted(const model *m, const char *name, br_tensor *t)
{
    bool q = has_part(name, "attn_q."), k = has_part(name, "attn_k.");
    if (m->is_gemma && has_part(name, "norm."))
        return br_add_scalar(t, 1);
    if (!m->is_llama || !(q || k))
        return t;
    br_tensor *heads = br_unflatten(t, 0, BR_SHAPE(q ? 4 : 2, 2, -1));
    return br_flatten(br_transpose(heads, 1, 2), 0, 2);
}

/* Writes what the angles of each pair are divided by. */
static void write_divisors(gguf_writer *w)
{
    float divisors[32];
    for (int i = 0; i < 32; i++) {
        double rate = pow(500000, -i / 32.0), length = 2 * acos(-1) / rate;
        double smooth = (8192 / length - 1) / 3;
        double divisor = length < 8192 / 4.0 ? 1
                         : length > 8192     ? 8
                                             : 1 / ((1 - smooth) / 8 + smooth);
        divisors[i] = (float)divisor;
    }
    w_tensor(w, "rope_freqs.weight", br_from_f32(BR_SHAPE(32), divisors));
}

/* Writes model.gguf. */
static void write_gguf(const model *m, gguf_writer *w, const br_named_list *weights)
{
    write_keys(w, m);
    for (int64_t i = 0; i < weights->count; i++) {
        char name[100];
        name_of(m, weights->items[i].name, name);
        if (strcmp(name, "output.weight") != 0 || has_part(m->config, "embeddings\": false") ||
            !has_part(m->config, "tie_word_embeddings"))
            w_tensor(w, name, converted(m, name, weights->items[i].tensor));
    }
    if (m->rope_freqs)
        write_divisors(w);
    if (m->factors) {
        w_tensor(w, "rope_factors_short.weight", br_from_f32(BR_SHAPE(2), (float[]){ 1, 1.5F }));
        w_tensor(w, "rope_factors_long.weight", br_from_f32(BR_SHAPE(2), (float[]){ 2, 2.5F }));
    }
    w_end(w, files_path("model.gguf"));
}

/* Returns a model with random weights. Those of norms are multiples of 1/64, which 1 can be added
 * to without rounding. */
static br_module *make(const model *m)
{
    char config[2000];
    int n = snprintf(config, sizeof config, "{\"architectures\": [\"%s\"], %s, %s}", m->class,
                     sizes, m->config);
    files_write(files_path("config.json"), config, (size_t)n);
    br_auto_config *c = br_auto_config_load(files_path("config.json"));
    cr_assert(c, "%s", br_error_message());
    br_llama_config lc = br_llama_config_from(c);
    br_auto_config_free(c);
    br_manual_seed(7);
    br_llama_lm *lm = br_llama_lm_new(&lc);
    cr_assert(lm, "%s", br_error_message());
    br_scope *scope = br_no_grad_begin();
    br_named_list *list = br_parameters(br_base(lm));
    for (int64_t i = 0; i < list->count; i++) {
        br_tensor *t = list->items[i].tensor;
        br_init_normal_(t, 0, 0.5);
        if (has_part(list->items[i].name, "norm"))
            br_copy_(t, br_div_scalar(br_round(br_mul_scalar(t, 512)), 512));
    }
    br_named_list_free(list);
    br_scope_end(scope);
    return br_base(lm);
}

/* Writes the model as a folder and as model.gguf in it. */
static void write_both(const model *m, gguf_writer *w)
{
    br_scope *scope = br_no_grad_begin();
    br_module *module = make(m);
    br_named_list *weights = br_state_dict(module);
    cr_assert(br_safetensors_save(files_path("model.safetensors"), weights, 0, NULL), "%s",
              br_error_message());
    write_gguf(m, w, weights);
    br_named_list_free(weights);
    br_module_free(module);
    br_scope_end(scope);
}

/* ---- Equal models ---------------------------------------------------------------------------- */

static const char *test_folder(void)
{
    static char path[512];
    snprintf(path, sizeof path, "%s", files_path(""));
    path[strlen(path) - 1] = '\0';
    return path;
}

static br_llama_lm *load(const char *path, br_dtype dtype)
{
    br_auto_model_report report = { 0 };
    br_llama_lm *lm = br_auto_model_load(path, BR_OPTIONS(br_auto_model, .dtype = dtype), &report);
    cr_assert(lm, "%s", br_error_message());
    cr_assert_eq(report.unexpected + report.renamed + report.unknown + report.untied, 0,
                 "%s: %s %s %s %s", path, report.unexpected_names, report.renamed_names,
                 report.unknown_names, report.untied_names);
    br_auto_model_report_clear(&report);
    return lm;
}

static br_tensor *logits(br_llama_lm *lm)
{
    const int64_t ids[] = { 1, 5, 3, 18, 0, 7, 7, 2, 11, 4 };
    br_tensor *y = br_llama_lm_forward(lm, br_from_i64(BR_SHAPE(2, 5), ids), NULL);
    cr_assert(y, "%s", br_error_message());
    return y;
}

static void check_equal(const model *m, br_dtype dtype)
{
    br_scope *scope = br_no_grad_begin();
    br_llama_lm *from_folder = load(test_folder(), dtype);
    br_llama_lm *from_gguf = load(files_path("model.gguf"), dtype);
    cr_assert_str_eq(br_module_class(br_base(from_gguf)), m->class);
    cr_assert_eq(br_dtype_of(from_gguf->lm_head->weight), dtype == BR_DTYPE_AUTO ? BR_F32 : dtype);
    cr_assert(br_equal(logits(from_folder), logits(from_gguf)), "%s: logits differ",
              m->architecture);
    br_module_free(from_folder);
    br_module_free(from_gguf);
    br_scope_end(scope);
}

Test(gguf_model, equals_its_folder)
{
    for (int i = 0; i < N_MODELS; i++) {
        gguf_writer w = { 0 };
        write_both(&models[i], &w);
        check_equal(&models[i], BR_DTYPE_AUTO);
        check_equal(&models[i], BR_BF16);
    }
}

/* Llama interleaves 4 heads of queries. Without head_count_kv, keys have as many. */
Test(gguf_model, base_model)
{
    gguf_writer w = { 0 };
    write_both(&models[0], &w);
    br_auto_model_report report = { 0 };
    br_llama *base = br_auto_model_load(
        files_path("model.gguf"), BR_OPTIONS(br_auto_model, .class_name = "LlamaModel"), &report);
    cr_assert(base, "%s", br_error_message());
    cr_assert_str_eq(report.unexpected_names, "output.weight");
    cr_assert_eq(report.renamed, 0, "%s", report.renamed_names);
    br_auto_model_report_clear(&report);
    br_module_free(base);
}

/* ---- The configuration ----------------------------------------------------------------------- */

/* Writes only the metadata, and an embedding. */
static void write_metadata(gguf_writer *w, const model *m)
{
    br_scope *scope = br_scope_begin();
    write_keys(w, m);
    w_tensor(w, "token_embd.weight", br_zeros(BR_SHAPE(19, 16), BR_F32));
    w_end(w, files_path("model.gguf"));
    br_scope_end(scope);
}

static br_auto_config *config(void)
{
    br_auto_config *c = br_auto_config_load(files_path("model.gguf"));
    cr_assert(c, "%s", br_error_message());
    return c;
}

Test(gguf_model, ends_of_texts)
{
    gguf_writer w = { 0 };
    w_u32(&w, "tokenizer.ggml.eot_token_id", 9);
    w_u32(&w, "tokenizer.ggml.eom_token_id", 2);
    write_metadata(&w, &models[7]);
    br_auto_config *c = config();
    cr_assert_eq(br_auto_config_list_size(c, "eos_token_id"), 2);
    cr_assert_eq(br_auto_config_list_integer(c, "eos_token_id", 1), 9);
    cr_assert(br_auto_config_is_null(c, "pad_token_id"));
    br_auto_config_free(c);
    br_generation_config *g = br_generation_config_load(files_path("model.gguf"), NULL);
    cr_assert(g, "%s", br_error_message());
    br_generate_options o = br_generate_defaults();
    cr_assert(br_generation_config_apply(g, 3, &o));
    cr_assert_eq(o.n_eos, 2);
    cr_assert_eq(o.eos_token_ids[0], 2);
    cr_assert_eq(o.eos_token_ids[1], 9);
    br_generation_config_free(g);
}

/* The largest Gemmas divide by another root. */
Test(gguf_model, scale_of_gemma)
{
    static const struct {
        int model;
        uint32_t layers;
        int64_t scalar;
    } cases[] = { { 5, 26, 6 }, { 5, 46, 4 }, { 5, 62, 6 }, { 6, 26, 6 }, { 6, 62, 4 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const model *m = &models[cases[i].model];
        char layers[40];
        snprintf(layers, sizeof layers, "%s.block_count", m->architecture);
        gguf_writer w = { 0 };
        w_u32(&w, layers, cases[i].layers);
        w.without = layers;
        write_metadata(&w, m);
        br_auto_config *c = config();
        cr_assert_eq(br_auto_config_integer(c, "query_pre_attn_scalar"), cases[i].scalar, "%zu", i);
        br_auto_config_free(c);
    }
}

Test(gguf_model, unknown_keys_are_reported)
{
    gguf_writer w = { 0 };
    w_u32(&w, "llama.attention.colour", 3);
    write_both(&models[0], &w);
    br_auto_model_report report = { 0 };
    br_module *m = br_auto_model_load(files_path("model.gguf"), NULL, &report);
    cr_assert(m, "%s", br_error_message());
    cr_assert_str_eq(report.unknown_names, "llama.attention.colour");
    br_auto_model_report_clear(&report);
    br_module_free(m);
}

/* ---- What is refused ------------------------------------------------------------------------- */

static void check_metadata(gguf_writer w, const model *m, const char *message)
{
    write_metadata(&w, m);
    check_fails(br_auto_config_load(files_path("model.gguf")), message);
}

Test(gguf_model, refuses_architectures)
{
    model m = models[0];
    m.architecture = "falcon";
    check_metadata(
        (gguf_writer){ 0 }, &m,
        "general.architecture is \"falcon\", must be one of \"gptneox\", \"llama\", "
        "\"smollm3\", \"granite\", \"phi3\", \"qwen2\", \"qwen3\", \"gemma2\", \"gemma3\"");
    check_metadata((gguf_writer){ .without = "general.architecture" }, &models[0],
                   "has no metadata \"general.architecture\"");
}

Test(gguf_model, refuses_metadata)
{
    for (const key *k = size_keys; k->name; k++) {
        char name[100], message[200];
        snprintf(name, sizeof name, "gemma3.%s", k->name);
        snprintf(message, sizeof message, "metadata \"%s\" is missing, must be the value of", name);
        check_metadata((gguf_writer){ .without = name }, &models[7], message);
        snprintf(message, sizeof message, "metadata \"%s\" is an array of type float32", name);
        check_metadata((gguf_writer){ .wrong = name }, &models[7], message);
    }
    check_metadata((gguf_writer){ .wrong = "tokenizer.ggml.eos_token_id" }, &models[7],
                   "metadata \"tokenizer.ggml.eos_token_id\" is an array");
    check_metadata((gguf_writer){ .without = "token_embd.weight" }, &models[7],
                   "tensor \"token_embd.weight\" is missing");
}

/* Adds a key to a model's metadata. */
static void check_key(const char *name, char type, double value, const char *message)
{
    gguf_writer w = { 0 };
    write_key(&w, "qwen3", &(key){ name, type, value, "longrope" });
    write_metadata(&w, &models[4]);
    br_auto_config *c = br_auto_config_load(files_path("model.gguf"));
    if (c)
        br_llama_config_from(c);
    br_auto_config_free(c);
    check_fails(br_error_pending() ? NULL : "", message);
}

Test(gguf_model, refuses_values)
{
    check_key("expert_count", 'u', 8,
              "qwen3.expert_count is 8, must be 0: no other value is supported");
    check_key("attention.causal", 'b', 0, "qwen3.attention.causal is false, must be true");
    check_key("rope.scaling.attn_factor", 'f', 1.5, "qwen3.rope.scaling.attn_factor is 1.5");
    check_key("rope.dimension_count", 'u', 4, "rope.dimension_count is 4, must be the size of");
    check_key("rope.scaling.type", 's', 0, "rope_scaling.short_factor is missing");
    check_key("vocab_size", 's', 0, "metadata \"qwen3.vocab_size\" is of type string");
    check_key("rope.scaling.factor", 'f', NAN, "metadata \"qwen3.rope.scaling.factor\" is nan");
    gguf_writer w = { 0 };
    w_u32(&w, "split.count", 3);
    check_metadata(w, &models[4], "split.count is 3, must be 1");
}

/* A type of positions that is "none" is no scaling. */
Test(gguf_model, positions_without_scaling)
{
    gguf_writer w = { 0 };
    write_key(&w, "qwen3", &(key){ "rope.scaling.type", 's', 0, "none" });
    write_metadata(&w, &models[4]);
    br_auto_config *c = config();
    cr_assert_eq(br_llama_config_from(c).rope.type, BR_ROPE_DEFAULT);
    check_ok();
    br_auto_config_free(c);
}

/* A file may be the only part of a model. */
Test(gguf_model, one_part)
{
    gguf_writer w = { 0 };
    w_u32(&w, "split.count", 1);
    write_metadata(&w, &models[4]);
    br_auto_config *c = config();
    cr_assert(c, "%s", br_error_message());
    br_auto_config_free(c);
}

static void check_model(gguf_writer w, const model *m, const char *message)
{
    write_both(m, &w);
    check_fails(br_auto_model_load(files_path("model.gguf"), NULL, NULL), message);
}

Test(gguf_model, refuses_tensors)
{
    check_model((gguf_writer){ .without = "blk.3.attn_q.weight" }, &models[0],
                "model.gguf: key \"blk.3.attn_q.weight\" is missing, must be F32 [32, 16]");
    gguf_writer w = { .without = "blk.2.ffn_norm.weight" };
    br_scope *scope = br_scope_begin();
    br_tensor *wrong = br_zeros(BR_SHAPE(2, 3), BR_F32);
    char name[] = "blk.2.ffn_norm.weight";
    const char *without = w.without;
    w.without = NULL;
    w_tensor(&w, name, wrong);
    w.without = without;
    check_model(w, &models[5],
                "key \"blk.2.ffn_norm.weight\" is F32 [2, 3], must be F32, F16, BF16, F64 or a "
                "quantized type that is supported [16]");
    br_scope_end(scope);
}

Test(gguf_model, refuses_other_positions)
{
    gguf_writer w = { .without = "rope_freqs.weight" };
    br_scope *scope = br_scope_begin();
    br_tensor *ones = br_ones(BR_SHAPE(32), BR_F32);
    w.without = NULL;
    br_data_f32(ones)[3] = 2;
    w_tensor(&w, "rope_freqs.weight", ones);
    w.without = "rope_freqs.weight";
    check_model(w, &models[1], "rope_freqs.weight[3] is 2, must be 1, the divisor of Llama 3.1's");
    w = (gguf_writer){ 0 };
    w_tensor(&w, "rope_freqs.weight", br_ones(BR_SHAPE(5), BR_F32));
    w.without = "rope_freqs.weight";
    check_model(w, &models[1], "rope_freqs.weight has 5 elements, must have 32");
    br_scope_end(scope);
}

/* The factors of a Phi-3 must fit the part of a head that is turned. */
Test(gguf_model, refuses_other_factors)
{
    const model *m = &models[N_MODELS - 1];
    gguf_writer w = { 0 };
    br_scope *scope = br_scope_begin();
    cr_assert(m->factors);
    w_tensor(&w, "rope_factors_long.weight", br_ones(BR_SHAPE(5), BR_F32));
    w.without = "rope_factors_long.weight";
    check_model(w, m, "rope_factors_long.weight has 5 elements, must have 2, one for each pair");
    check_model((gguf_writer){ .without = "rope_factors_short.weight" }, m,
                "rope_factors_short.weight");
    model other = *m;
    other.keys[1].value = 6;
    check_model((gguf_writer){ 0 }, &other,
                "rope.dimension_count is 6 and attention.value_length 4: the first must be 2 .. 4");
    other.keys[1].value = 3;
    check_model((gguf_writer){ 0 }, &other,
                "rope_factors_short.weight has 2 elements, must have 1");
    br_scope_end(scope);
}
