/* Models of GGUF files whose weights stay quantized (dtype BR_QUANTIZED): logits, gradients and
 * trained adapters have the bits of the same model in f32, and what would need the weights in f32
 * is refused. */
#include "tests/ops/quantized.h"
#include "tests/pretrained/gguf_writer.h"

#include <brasa/brasa.h>

TestSuite(gguf_quantized, .init = files_begin, .fini = files_end);

enum { HIDDEN = 64, MLP = 96, VOCAB = 50, LAYERS = 2, HEADS = 4, KV_HEADS = 2, HEAD = 16 };

/* ---- Writing a model ------------------------------------------------------------------------- */

/* The numbers that the format has for some types. */
static const struct {
    br_block_type type;
    uint32_t number;
} types[] = { { BR_BLOCK_q4_0, 2 }, { BR_BLOCK_q5_1, 7 }, { BR_BLOCK_q8_0, 8 } };

/* Adds a quantized matrix of random blocks. */
static void write_blocks(gguf_writer *w, int which, const char *name, int64_t rows, int64_t columns)
{
    br_scope *scope = br_scope_begin();
    br_tensor *bytes = br__bytes_of_quantized(random_blocks(types[which].type, rows, columns));
    w->n_tensors++;
    part_text(&w->tensors, name);
    part_u32(&w->tensors, 2);
    part_u64(&w->tensors, (uint64_t)columns);
    part_u64(&w->tensors, (uint64_t)rows);
    part_u32(&w->tensors, types[which].number);
    part_u64(&w->tensors, w->data.n);
    part_put(&w->data, br_data(bytes), (size_t)br_numel(bytes));
    while (w->data.n % 32 != 0)
        part_put(&w->data, "", 1);
    br_scope_end(scope);
}

static void write_norm(gguf_writer *w, const char *name, int64_t n)
{
    br_scope *scope = br_scope_begin();
    w_tensor(w, name, br_add_scalar(br_mul_scalar(br_randn(BR_SHAPE(n), BR_F32), 0.1), 1));
    br_scope_end(scope);
}

static const char *in_layer(int layer, const char *part)
{
    static char name[64];
    snprintf(name, sizeof name, "blk.%d.%s.weight", layer, part);
    return name;
}

static void write_layer(gguf_writer *w, int layer, bool is_gemma)
{
    static const char *const norms[] = { "attn_norm", "ffn_norm", "post_attention_norm",
                                         "post_ffw_norm" };
    for (int i = 0; i < (is_gemma ? 4 : 2); i++)
        write_norm(w, in_layer(layer, norms[i]), HIDDEN);
    if (is_gemma) {
        write_norm(w, in_layer(layer, "attn_q_norm"), HEAD);
        write_norm(w, in_layer(layer, "attn_k_norm"), HEAD);
    }
    write_blocks(w, 0, in_layer(layer, "attn_q"), HEADS * HEAD, HIDDEN);
    write_blocks(w, 1, in_layer(layer, "attn_k"), KV_HEADS * HEAD, HIDDEN);
    write_blocks(w, 2, in_layer(layer, "attn_v"), KV_HEADS * HEAD, HIDDEN);
    write_blocks(w, 0, in_layer(layer, "attn_output"), HIDDEN, HEADS * HEAD);
    write_blocks(w, 1, in_layer(layer, "ffn_gate"), MLP, HIDDEN);
    write_blocks(w, 2, in_layer(layer, "ffn_up"), MLP, HIDDEN);
    write_blocks(w, 0, in_layer(layer, "ffn_down"), HIDDEN, MLP);
}

static void write_number(gguf_writer *w, const char *architecture, const char *key, uint32_t value)
{
    char name[100];
    snprintf(name, sizeof name, "%s.%s", architecture, key);
    w_u32(w, name, value);
}

/* Writes model.gguf: a Llama whose head is not tied, or a Gemma 3, whose head is. */
static void write_model(bool is_gemma)
{
    const char *architecture = is_gemma ? "gemma3" : "llama";
    gguf_writer w = { 0 };
    char name[100];
    br_manual_seed(5);
    w_string(&w, "general.architecture", architecture);
    write_number(&w, architecture, "context_length", 64);
    write_number(&w, architecture, "embedding_length", HIDDEN);
    write_number(&w, architecture, "block_count", LAYERS);
    write_number(&w, architecture, "feed_forward_length", MLP);
    write_number(&w, architecture, "attention.head_count", HEADS);
    write_number(&w, architecture, "attention.head_count_kv", KV_HEADS);
    write_number(&w, architecture, "attention.key_length", HEAD);
    snprintf(name, sizeof name, "%s.attention.layer_norm_rms_epsilon", architecture);
    w_f32(&w, name, 1e-5F);
    if (is_gemma)
        write_number(&w, architecture, "attention.sliding_window", 4);
    write_blocks(&w, 2, "token_embd.weight", VOCAB, HIDDEN);
    write_norm(&w, "output_norm.weight", HIDDEN);
    if (!is_gemma)
        write_blocks(&w, 1, "output.weight", VOCAB, HIDDEN);
    for (int i = 0; i < LAYERS; i++)
        write_layer(&w, i, is_gemma);
    w_end(&w, files_path("model.gguf"));
}

static br_llama_lm *load(bool is_gemma, br_dtype dtype)
{
    br_auto_model_report report = { 0 };
    br_llama_lm *lm = br_auto_model_load(
        files_path("model.gguf"),
        BR_OPTIONS(br_auto_model, .dtype = dtype,
                   .class_name = is_gemma ? "Gemma3ForCausalLM" : "LlamaForCausalLM"),
        &report);
    cr_assert(lm, "%s", br_error_message());
    cr_expect_eq(report.converted,
                 dtype == BR_QUANTIZED ? 0
                 : is_gemma            ? 15
                                       : 16,
                 "%s", report.converted_names);
    cr_expect_eq(report.missing + report.unexpected, 0);
    br_auto_model_report_clear(&report);
    return lm;
}

static br_tensor *some_ids(void)
{
    static const int64_t ids[] = { 1, 5, 3, 48, 0, 7, 7, 2, 11, 4, 30, 31 };
    return br_from_i64(BR_SHAPE(2, 6), ids);
}

/* ---- The same numbers ------------------------------------------------------------------------ */

static const char *const all_linear[] = { "all-linear" };
#define ALL_LINEAR .n_target_modules = 1, .target_modules = all_linear

/* Trains an adapter; stores losses, and returns the logits afterwards. */
static br_tensor *train(br_llama_lm *lm, bool use_dora, bool checkpoints, float losses[3])
{
    br_manual_seed(11);
    cr_assert(br_lora_add(br_base(lm), BR_OPTIONS(br_lora, ALL_LINEAR, .r = 4, .use_dora = use_dora,
                                                  .lora_dropout = 0.1)),
              "%s", br_error_message());
    br_optim *adam = br_adamw(br_base(lm), BR_OPTIONS(br_adamw, .lr = 1e-2));
    br_train(br_base(lm), true);
    br_module_checkpoint(br_base(lm->model->layers), checkpoints);
    for (int step = 0; step < 3; step++) {
        br_scope *scope = br_scope_begin();
        br_optim_zero_grad(adam);
        br_tensor *loss = br_llama_lm_loss(lm, some_ids(), some_ids(), NULL);
        br_backward(loss);
        br_named_list *parameters = br_parameters(br_base(lm));
        br_clip_grad_norm_(parameters, 1, 2, false);
        br_named_list_free(parameters);
        br_optim_step(adam);
        losses[step] = (float)br_item(loss);
        cr_assert_not(br_failed(), "%s", br_error_message());
        br_scope_end(scope);
    }
    br_optim_free(adam);
    br_eval(br_base(lm));
    return br_llama_lm_forward(lm, some_ids(), NULL);
}

static void check_model(bool is_gemma)
{
    write_model(is_gemma);
    for (int way = 0; way < 3; way++) {
        br_scope *scope = br_scope_begin();
        br_llama_lm *dense = load(is_gemma, BR_F32), *lm = load(is_gemma, BR_QUANTIZED);
        float losses[2][3];
        cr_expect_str_eq(br_quantized_type(lm->lm_head->weight), is_gemma ? "Q8_0" : "Q5_1");
        cr_expect_eq(br_dtype_of(lm->model->norm->weight), BR_F32);
        cr_expect_eq(br_count_parameters(br_base(lm), false),
                     br_count_parameters(br_base(dense), false));
        expect_bits(br_llama_lm_forward(dense, some_ids(), NULL),
                    br_llama_lm_forward(lm, some_ids(), NULL), "logits");
        br_tensor *a = train(dense, way == 1, way == 2, losses[0]);
        br_tensor *b = train(lm, way == 1, way == 2, losses[1]);
        expect_bits(a, b, "logits after training");
        cr_expect(memcmp(losses[0], losses[1], sizeof losses[0]) == 0, "%g %g", losses[0][2],
                  losses[1][2]);
        cr_expect(losses[0][2] < losses[0][0]);
        br_module_free(br_base(dense));
        br_module_free(br_base(lm));
        br_scope_end(scope);
    }
}

Test(gguf_quantized, llama_equals_f32)
{
    check_model(false);
}

Test(gguf_quantized, gemma_equals_f32)
{
    check_model(true);
}

static br_tensor *generated(br_llama_lm *lm)
{
    br_language_model source = br_llama_language_model(lm);
    br_tensor *ids = br_generate(&source, br_slice(some_ids(), 0, 0, 1, 1),
                                 BR_OPTIONS(br_generate, .max_new_tokens = 20));
    cr_assert(ids, "%s", br_error_message());
    return ids;
}

Test(gguf_quantized, generates_the_tokens_of_f32)
{
    write_model(true);
    br_llama_lm *dense = load(true, BR_F32), *lm = load(true, BR_QUANTIZED);
    cr_expect(br_equal(generated(dense), generated(lm)));
    br_module_free(br_base(dense));
    br_module_free(br_base(lm));
}

/* ---- Conversion and refusals ----------------------------------------------------------------- */

Test(gguf_quantized, a_model_becomes_f32)
{
    write_model(false);
    br_scope *scope = br_scope_begin();
    br_llama_lm *dense = load(false, BR_F32), *lm = load(false, BR_QUANTIZED);
    br_tensor *q = lm->lm_head->weight;
    cr_expect_not(br_requires_grad(q));
    cr_assert(br_module_to(br_base(lm), BR_F32), "%s", br_error_message());
    cr_expect_eq(lm->lm_head->weight, q);
    cr_expect_eq(br_dtype_of(q), BR_F32);
    cr_expect(br_equal(q, dense->lm_head->weight));
    cr_expect_not(br_requires_grad(q));
    cr_expect(br_set_requires_grad(q, true));
    br_module_free(br_base(dense));
    br_module_free(br_base(lm));
    br_scope_end(scope);
}

Test(gguf_quantized, what_needs_f32_is_refused)
{
    write_model(false);
    br_scope *scope = br_scope_begin();
    br_llama_lm *lm = load(false, BR_QUANTIZED);
    br_module *m = br_base(lm);
    check_fails(br_module_to(m, BR_QUANTIZED), "must be a floating-point dtype");
    br_named_list *weights = br_state_dict(m);
    check_fails(br_safetensors_save(files_path("x.safetensors"), weights, 0, NULL), "is quantized");
    check_fails(br_load_state_dict(m, weights, true, NULL), "is quantized");
    br_named_list_free(weights);
    check_fails(br_averaged_model_new(m, 0.9), "is quantized");
    static const char *const head[] = { "lm_head" };
    check_fails(br_lora_add(m, BR_OPTIONS(br_lora, ALL_LINEAR, .n_modules_to_save = 1,
                                          .modules_to_save = head)),
                "is quantized");
    cr_assert(br_lora_add(m, BR_OPTIONS(br_lora, ALL_LINEAR)), "%s", br_error_message());
    check_fails(br_lora_merge(m),
                "has a quantized weight (Q4_0), which cannot be changed: load the "
                "model with dtype f32");
    cr_assert(br_lora_save(files_path("adapter"), m, NULL), "%s", br_error_message());
    br_module_free(m);
    br_scope_end(scope);
}

Test(gguf_quantized, an_adapter_is_loaded)
{
    write_model(true);
    br_scope *scope = br_scope_begin();
    br_llama_lm *lm = load(true, BR_QUANTIZED), *other = load(true, BR_QUANTIZED);
    float losses[3];
    br_tensor *trained = train(lm, false, false, losses);
    char folder[512];
    snprintf(folder, sizeof folder, "%s", files_path("adapter"));
    cr_assert(br_lora_save(folder, br_base(lm), NULL), "%s", br_error_message());
    cr_assert(br_lora_load(folder, br_base(other), NULL), "%s", br_error_message());
    expect_bits(br_llama_lm_forward(other, some_ids(), NULL), trained, "logits");
    br_module_free(br_base(lm));
    br_module_free(br_base(other));
    br_scope_end(scope);
}

Test(gguf_quantized, folders_have_no_quantized_weights)
{
    files_write(files_path("config.json"), "{\"model_type\": \"gpt2\"}", 22);
    br_scope *scope = br_scope_begin();
    br_tensor *t = br_zeros(BR_SHAPE(1), BR_F32);
    br_named_tensor item = { "wte.weight", t };
    br_named_list one = { .count = 1, .items = &item };
    cr_assert(br_safetensors_save(files_path("model.safetensors"), &one, 0, NULL), "%s",
              br_error_message());
    char folder[512];
    snprintf(folder, sizeof folder, "%s", files_path(""));
    check_fails(br_auto_model_load(
                    folder,
                    BR_OPTIONS(br_auto_model, .dtype = BR_QUANTIZED, .allow_missing_keys = true),
                    NULL),
                "has no quantized weights: load a GGUF file, or choose a floating-point dtype");
    br_scope_end(scope);
}

/* The blocks are a view of the file's mapping: they count as no memory. */
Test(gguf_quantized, the_file_is_mapped)
{
    write_model(true);
    int64_t before = br_live_bytes();
    br_llama_lm *lm = load(true, BR_QUANTIZED);
    int64_t norms = 4 * (LAYERS * (4 * HIDDEN + 2 * HEAD) + HIDDEN);
    cr_expect(br_live_bytes() - before <= norms + 4096, "%lld",
              (long long)(br_live_bytes() - before));
    br_module_free(br_base(lm));
    br_gguf *file = br_gguf_open(files_path("model.gguf"), NULL);
    br_scope *scope = br_scope_begin();
    br_tensor *w = br_gguf_get(file, "token_embd.weight", BR_QUANTIZED);
    cr_expect_str_eq(br_quantized_type(w), "Q8_0");
    br_gguf_close(file);
    cr_expect(br_item(br_sum(br_abs(br_to(w, BR_F32)))) > 0);
    br_scope_end(scope);
    file = br_gguf_open(files_path("model.gguf"), NULL);
    check_fails(br_gguf_get(file, "token_embd.weight", BR_U8), "must be a floating-point dtype or "
                                                               "quantized");
    check_fails(br_gguf_get(file, "output_norm.weight", BR_QUANTIZED),
                "must be a floating-point dtype or the tensor's own");
    br_gguf_close(file);
}
