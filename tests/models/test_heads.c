/* Heads and embeddings that are tied by the configuration, and files with different weights for
 * them; the head of a T5; rejected and unknown keys of a config.json. record_heads.py has the same
 * cases and wrote the expected results. */
#include "tests/io/files.h"
#include "tests/memory.h"
#include "tests/models/recorded.h"

#include <jansson.h>

TestSuite(heads, .init = files_begin, .fini = files_end);

#define MODELS  BRASA_TEST_DIR "/models/"
#define WTE     "transformer.wte.weight"
#define WORDS   "bert.embeddings.word_embeddings.weight"
#define DECODER "cls.predictions.decoder."

/* How a recorded model is modified. `keys` of the configuration are changed (null: removed), the
 * tensor `without` is removed, and a tensor `made` is added, which is derived from the tensor
 * `of`. */
typedef struct variant {
    const char *name, *base, *keys, *without, *made, *of, *untied;
} variant;

static const variant cases[] = {
    { "gpt2.own", "gpt2/lm", "{}", "", "lm_head.weight", WTE, "lm_head.weight unlike " WTE },
    { "gpt2.unsaid", "gpt2/lm", "{\"tie_word_embeddings\": null}", "", "lm_head.weight", WTE,
      "lm_head.weight unlike " WTE },
    { "bert.own", "hf_bert/pretraining", "{}", "", DECODER "weight", WORDS,
      DECODER "weight unlike " WORDS },
    { "bert.bias", "hf_bert/pretraining", "{}", "", DECODER "bias", "cls.predictions.bias",
      DECODER "bias unlike cls.predictions.bias" },
    { "t5.saved_by_5", "t5/gated",
      "{\"tie_word_embeddings\": true, \"scale_decoder_outputs\": false}", "lm_head.weight", NULL,
      NULL, "" },
    { "t5.no_head", "t5/gated", "{}", "lm_head.weight", NULL, NULL, "" },
    { "t5.scaled", "t5/gated", "{\"scale_decoder_outputs\": true}", "", NULL, NULL, "" },
    { "t5.own", "t5/relu", "{}", "", "lm_head.weight", "shared.weight",
      "lm_head.weight unlike shared.weight" },
    { "t5.encoder", "t5/relu", "{}", "", "encoder.embed_tokens.weight", "shared.weight",
      "encoder.embed_tokens.weight unlike shared.weight" },
    { "t5.settled", "t5/gated", "{\"dense_act_fn\": \"silu\"}", "", NULL, NULL, "" },
};

static const char *dir(void)
{
    static char path[512];
    snprintf(path, sizeof path, "%s", files_path(""));
    path[strlen(path) - 1] = '\0';
    return path;
}

static void write_config(const char *base, const char *keys)
{
    char path[512];
    snprintf(path, sizeof path, MODELS "%s/config.json", base);
    json_t *config = json_load_file(path, 0, NULL), *others = json_loads(keys, 0, NULL), *value;
    cr_assert(config && others);
    const char *key;
    json_object_foreach(others, key, value)
    {
        if (json_is_null(value))
            json_object_del(config, key);
        else
            json_object_set(config, key, value);
    }
    cr_assert_eq(json_dump_file(config, files_path("config.json"), 0), 0);
    json_decref(config);
    json_decref(others);
}

/* Writes the weights. `made` is equal to `of` if `same`; otherwise its rows are reversed and
 * halved. */
static void write_weights(const variant *v, bool same)
{
    char path[512];
    snprintf(path, sizeof path, MODELS "%s/model.safetensors", v->base);
    br_safetensors *file = open_recorded(path);
    br_named_list *all = br_safetensors_all(file);
    br_named_tensor items[100];
    br_named_list some = { 0, items };
    for (int64_t i = 0; i < all->count; i++)
        if (strcmp(all->items[i].name, v->without) != 0)
            items[some.count++] = all->items[i];
    if (v->made) {
        br_tensor *of = br_named_list_get(all, v->of);
        br_tensor *other = br_mul_scalar(br_flip(of, BR_DIMS(0)), 0.5);
        items[some.count++] = (br_named_tensor){ v->made, same ? of : other };
    }
    cr_assert(br_safetensors_save(files_path("model.safetensors"), &some, 0, NULL), "%s",
              br_error_message());
    br_named_list_free(all);
    br_safetensors_close(file);
}

static void *load(const variant *v, bool same, br_auto_model_report *report)
{
    write_config(v->base, v->keys);
    write_weights(v, same);
    void *model = br_auto_model_load(dir(), NULL, report);
    cr_assert(model, "%s: %s", v->name, br_error_message());
    return model;
}

static br_tensor *recorded(const char *name)
{
    return recorded_in(MODELS "heads.safetensors", name);
}

static br_tensor *inputs(const char *name)
{
    return recorded_in(MODELS "gpt2/expected.safetensors", name);
}

/* ---- Numbers --------------------------------------------------------------------------------- */

static br_tensor *logits_of_t5(br_t5 *model, br_tensor *ids, br_tensor *mask)
{
    br_tensor *memory = br_t5_encode(model, ids, mask);
    br_t5_options o = *BR_OPTIONS(br_t5, .attention_mask = mask);
    return br_t5_logits(model, br_t5_decode(model, br_flip(ids, BR_DIMS(1)), memory, &o));
}

static br_tensor *logits_of(void *model)
{
    br_tensor *ids = inputs("input_ids"), *mask = inputs("attention_mask"), *logits = NULL;
    const char *class = br_module_class(model);
    if (strcmp(class, "GPT2LMHeadModel") == 0)
        logits = br_gpt2_lm_forward(model, ids, BR_OPTIONS(br_gpt2, .attention_mask = mask));
    else if (strcmp(class, "BertForPreTraining") == 0)
        br_hf_bert_pretraining_forward(model, ids, BR_OPTIONS(br_hf_bert, .attention_mask = mask),
                                       &logits, NULL);
    else
        logits = logits_of_t5(model, ids, mask);
    return logits;
}

static void check_tokens(const variant *v, br_t5 *model)
{
    static const int64_t eos[] = { 1 };
    char name[80];
    snprintf(name, sizeof name, "%s.greedy", v->name);
    br_tensor *mask = inputs("attention_mask");
    br_t5_source source = { model, br_t5_encode(model, inputs("input_ids"), mask), mask };
    br_language_model lm = br_t5_language_model(&source);
    br_tensor *tokens = br_generate(&lm, br_t5_start(model, 3),
                                    BR_OPTIONS(br_generate, .max_new_tokens = 12, .n_eos = 1,
                                               .eos_token_ids = eos, .pad_token_id = 0));
    cr_assert(br_equal(tokens, recorded(name)), "%s", name);
}

/* A weight in the file is used, even if the configuration ties it. */
Test(heads, of_files_equal_transformers)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const variant *v = &cases[i];
        br_scope *scope = br_no_grad_begin();
        br_auto_model_report report;
        void *model = load(v, false, &report);
        cr_assert_str_eq(report.untied_names, v->untied, "%s: %s", v->name, report.untied_names);
        cr_assert_eq(report.untied, *v->untied != '\0');
        cr_assert(report.unexpected == 0 && report.missing == 0 && report.ignored == 0 &&
                      report.unknown == 0,
                  "%s: %s", v->name, report.unknown_names);
        br_auto_model_report_clear(&report);
        double d = difference(logits_of(model), recorded(v->name));
        cr_assert(d <= 3e-5, "%s is off by %g", v->name, d);
        if (strncmp(v->name, "t5.", 3) == 0)
            check_tokens(v, model);
        br_module_free(model);
        br_scope_end(scope);
    }
}

/* An untied weight is a parameter with its own gradient and its own name in the state_dict. */
Test(heads, an_own_weight_is_a_parameter)
{
    br_scope *scope = br_scope_begin();
    br_gpt2_lm *model = load(&cases[0], false, NULL);
    br_tensor *own = model->lm_head->weight, *embeddings = model->transformer->wte->weight;
    cr_assert_neq(own, embeddings);
    cr_assert_eq(br_module_get(br_base(model), "lm_head.weight"), own);
    br_backward(br_sum(logits_of(model)));
    cr_assert(br_grad_of(own) && br_grad_of(embeddings) &&
              br_grad_of(own) != br_grad_of(embeddings));
    br_module_free(model);
    br_scope_end(scope);
}

static bool load_again(void)
{
    br_scope *scope = br_scope_begin();
    br_auto_model_report report;
    br_module *model = br_auto_model_load(dir(), NULL, &report);
    br_auto_model_report_clear(&report);
    br_module_free(model);
    br_scope_end(scope);
    return model != NULL;
}

Test(heads, memory_runs_out_everywhere)
{
    variant v = cases[0];
    v.keys = "{\"residual_scale\": 2}";
    for (int same = 0; same < 2; same++) {
        br_scope *scope = br_scope_begin();
        br_module_free(load(&v, same, NULL));
        br_scope_end(scope);
        fail_in_turn(load_again, same ? "loading a copy" : "loading another weight");
    }
}

/* A copy of a tied weight is ignored, and the weights stay tied. */
Test(heads, copies_stay_tied)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const variant *v = &cases[i];
        if (!v->made)
            continue;
        br_scope *scope = br_scope_begin();
        char ignored[200];
        snprintf(ignored, sizeof ignored, "%s equal to %s", v->made, v->of);
        br_auto_model_report report;
        br_module *model = load(v, true, &report);
        cr_assert_str_eq(report.ignored_names, ignored);
        cr_assert(report.untied == 0 && report.ignored == 1 && report.unexpected == 0);
        br_safetensors *file = open_recorded(files_path("model.safetensors"));
        cr_assert_eq(report.matched, br_safetensors_count(file) - 1);
        br_safetensors_close(file);
        cr_assert_eq(br_module_get(model, v->made), br_module_get(model, v->of));
        br_auto_model_report_clear(&report);
        br_module_free(model);
        br_scope_end(scope);
    }
}

/* ---- Keys of the configuration --------------------------------------------------------------- */

static void check_refused(const char *base, const char *keys, const char *message)
{
    write_config(base, keys);
    write_weights(&(variant){ .base = base, .without = "" }, false);
    br_auto_model_report report;
    check_fails(br_auto_model_load(dir(), NULL, &report), message);
    br_auto_model_report_clear(&report);
}

Test(heads, keys_that_change_numbers_are_refused)
{
    static const char bert[] = "hf_bert/pretraining", gpt2[] = "gpt2/lm", t5[] = "t5/relu";
    check_refused(bert, "{\"is_decoder\": true}",
                  "is_decoder is true, must be false: no other value is supported for a bert");
    check_refused(bert, "{\"add_cross_attention\": true}", "add_cross_attention is true");
    check_refused(bert, "{\"position_embedding_type\": \"relative_key\"}",
                  "is the string \"relative_key\", must be \"absolute\"");
    check_refused(bert, "{\"pruned_heads\": {\"0\": [1]}}", "pruned_heads is an object");
    check_refused(bert, "{\"is_encoder_decoder\": true}", "is_encoder_decoder is true");
    check_refused(gpt2, "{\"add_cross_attention\": true}", "add_cross_attention is true");
    check_refused(gpt2, "{\"quantization_config\": {}}", "quantization_config is an object");
    check_refused(gpt2, "{\"per_layer_config\": {\"0\": {}}}", "per_layer_config is an object");
    check_refused(t5, "{\"is_encoder_decoder\": false}", "is_encoder_decoder is false");
    check_refused(t5, "{\"tie_encoder_decoder\": true}", "tie_encoder_decoder is true");
    check_refused(t5, "{\"dense_act_fn\": \"gated-mish\"}",
                  "dense_act_fn is \"gated-mish\", must be one of gelu, gelu_10, ");
    check_refused(t5, "{\"feed_forward_proj\": \"gated-gelu-x\"}", "feed_forward_proj is \"gated");
    check_refused(t5, "{\"num_decoder_layers\": 2000000000}",
                  "num_decoder_layers is 2000000000, but the weight files have only ");
    check_refused(t5, "{\"scale_decoder_outputs\": 1}", "scale_decoder_outputs is 1");
    check_refused(gpt2, "{\"scale_attn_weights\": 0}", "scale_attn_weights is 0");
}

/* An unknown key may change the results, so the report names it. All keys that transformers itself
 * writes are known. */
Test(heads, unknown_keys_are_reported)
{
    static const char *const types[] = { "bert",        "gpt2",      "t5",         "roberta",
                                         "xlm-roberta", "camembert", "distilbert", "electra",
                                         "albert",      "mpnet",     "modernbert" };
    static const char *const bases[] = {
        "hf_bert/pretraining",
        "gpt2/lm",
        "t5/relu",
        "encoders/roberta0",
        "encoders/xlm-roberta0",
        "encoders/camembert0",
        "encoders/distilbert0",
        "encoders/electra0",
        "encoders/albert0",
        "encoders/mpnet0",
        "encoders/modernbert0",
    };
    json_t *written = json_load_file(BRASA_TEST_DIR "/pretrained/config_keys.json", 0, NULL);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        json_t *keys = json_object_get(written, types[i]);
        cr_assert(json_object_size(keys) > 40);
        char *text = json_dumps(keys, 0);
        br_auto_model_report report;
        br_module_free(
            load(&(variant){ .base = bases[i], .keys = text, .without = "" }, false, &report));
        cr_assert_str_eq(report.unknown_names, "", "%s: %s", types[i], report.unknown_names);
        br_auto_model_report_clear(&report);
        free(text);
        br_module_free(
            load(&(variant){ .base = bases[i], .keys = "{\"residual_scale\": 2}", .without = "" },
                 false, &report));
        cr_assert_str_eq(report.unknown_names, "residual_scale");
        cr_assert_eq(report.unknown, 1);
        br_auto_model_report_clear(&report);
    }
    json_decref(written);
}
