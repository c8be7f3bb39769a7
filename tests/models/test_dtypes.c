/* tests/models/test_dtypes.c - pretrained models in bf16, f16 and f64: dtypes, memory, and errors
 * no larger than those of transformers in the same dtype. record_dtypes.py describes the recorded
 * results. */
#include "tests/pretrained/auto_model.h"

#include <stdlib.h>

TestSuite(model_dtypes, .init = files_begin, .fini = files_end);

#define MODELS   BRASA_TEST_DIR "/models/"
#define RECORDED MODELS "dtypes.safetensors"

static const struct {
    const char *folder;
    br_model_task task;
} models[] = {
    { "hf_bert/pretraining", BR_TASK_MASKED_LM },
    { "gpt2/lm", BR_TASK_CAUSAL_LM },
    { "t5/relu", BR_TASK_SEQ2SEQ_LM },
    { "t5/gated", BR_TASK_SEQ2SEQ_LM },
};
enum { N_MODELS = sizeof models / sizeof *models };

static const br_model_class *class_of(const char *folder, br_model_task task)
{
    br_auto_config *config = br_auto_config_load(folder);
    cr_assert(config, "%s", br_error_message());
    const br_model_class *class =
        br_model_class_for(br_model_family_find(br_auto_config_model_type(config)), task);
    br_auto_config_free(config);
    cr_assert(class);
    return class;
}

static br_module *load_as(const char *folder, const br_model_class *class, br_dtype dtype)
{
    br_module *model = br_auto_model_load(
        folder, BR_OPTIONS(br_auto_model, .class_name = class->name, .dtype = dtype), NULL);
    cr_assert(model, "%s", br_error_message());
    return model;
}

static br_tensor *recorded(const char *folder, br_dtype dtype, const char *what)
{
    char name[100];
    snprintf(name, sizeof name, "%s.%s.%s", folder, br_dtype_name(dtype), what);
    return recorded_in(RECORDED, name);
}

static double mean_square(br_tensor *a, br_tensor *b)
{
    br_tensor *d = br_sub(br_to(a, BR_F64), br_to(b, BR_F64));
    return br_item(br_mean(br_mul(d, d)));
}

/* Rounding errors of two implementations are independent: the mean square of their difference is
 * the sum of both mean squares. Sums of some hundred errors vary by less than half of it. */
static void check_logits(const char *folder, br_dtype dtype, br_tensor *logits)
{
    br_tensor *exact = recorded(folder, dtype, "exact"),
              *theirs = recorded(folder, dtype, "logits");
    double own_error = mean_square(logits, exact), their_error = mean_square(theirs, exact);
    cr_assert(own_error <= 1.5 * their_error, "%s in %s: mean square error %g, transformers' %g",
              folder, br_dtype_name(dtype), own_error, their_error);
    cr_assert(mean_square(logits, theirs) <= 3 * their_error, "%s in %s", folder,
              br_dtype_name(dtype));
}

static void check_model(int i, br_dtype dtype)
{
    char folder[300];
    snprintf(folder, sizeof folder, MODELS "%s", models[i].folder);
    const br_model_class *class = class_of(folder, models[i].task);
    br_scope *scope = br_no_grad_begin();
    br_module *model = load_as(folder, class, dtype);
    br_model_input input = { .batch.ids = recorded_in(RECORDED, "input_ids"),
                             .batch.attention_mask = recorded_in(RECORDED, "attention_mask"),
                             .decoder_ids = recorded_in(RECORDED, "decoder_input_ids") };
    br_tensor *logits = class->forward(model, &input);
    cr_assert(logits, "%s", br_error_message());
    cr_assert_eq(br_dtype_of(logits), dtype, "%s", folder);
    check_logits(models[i].folder, dtype, logits);
    br_module_free(model);
    br_scope_end(scope);
}

Test(model_dtypes, logits_are_as_exact_as_those_of_transformers)
{
    for (int i = 0; i < N_MODELS; i++) {
        check_model(i, BR_BF16);
        check_model(i, BR_F16);
    }
}

/* ---- The dtype of a model -------------------------------------------------------------------- */

/* Writes a GPT-2 with the recorded weights in `dtype`. config.json has `more` keys. */
static void write_folder(const char *more, br_dtype dtype)
{
    char config[500];
    int n = snprintf(config, sizeof config,
                     "{\"model_type\": \"gpt2\", \"architectures\": [\"GPT2LMHeadModel\"], "
                     "\"vocab_size\": 40, \"n_positions\": 24, \"n_embd\": 16, \"n_layer\": 2, "
                     "\"n_head\": 4%s}",
                     more);
    files_write(files_path("config.json"), config, (size_t)n);
    br_scope *scope = br_scope_begin();
    br_safetensors *file = open_recorded(MODELS "gpt2/lm/model.safetensors");
    br_named_list *all = br_safetensors_all(file);
    br_named_tensor items[100];
    for (int64_t i = 0; i < all->count; i++)
        items[i] = (br_named_tensor){ all->items[i].name, br_to(all->items[i].tensor, dtype) };
    const br_named_list list = { all->count, items };
    cr_assert(br_safetensors_save(files_path("model.safetensors"), &list, 0, NULL));
    br_named_list_free(all);
    br_safetensors_close(file);
    br_scope_end(scope);
}

static void check_loaded(br_dtype wanted, br_dtype dtype, bool converted)
{
    br_auto_model_report report;
    br_module *model =
        br_auto_model_load(folder(), BR_OPTIONS(br_auto_model, .dtype = wanted), &report);
    cr_assert(model, "%s", br_error_message());
    cr_expect_eq(report.converted, converted ? report.matched : 0);
    br_named_list *list = br_parameters(model);
    for (int64_t i = 0; i < list->count; i++)
        cr_expect(br_dtype_of(list->items[i].tensor) == dtype, "%s", list->items[i].name);
    br_named_list_free(list);
    br_auto_model_report_clear(&report);
    br_module_free(model);
}

/* The option counts first, then config.json, then the files. */
Test(model_dtypes, of_option_config_and_files)
{
    static const struct {
        const char *config;
        br_dtype file, option, model;
    } cases[] = {
        { "", BR_F32, BR_DTYPE_AUTO, BR_F32 },
        { "", BR_BF16, BR_DTYPE_AUTO, BR_BF16 },
        { "", BR_F16, BR_DTYPE_AUTO, BR_F16 },
        { "", BR_F64, BR_DTYPE_AUTO, BR_F64 },
        { ", \"dtype\": \"bfloat16\"", BR_F32, BR_DTYPE_AUTO, BR_BF16 },
        { ", \"torch_dtype\": \"torch.float16\"", BR_F32, BR_DTYPE_AUTO, BR_F16 },
        { ", \"torch_dtype\": \"float16\", \"dtype\": \"float32\"", BR_BF16, BR_DTYPE_AUTO,
          BR_F32 },
        { ", \"dtype\": null, \"torch_dtype\": null", BR_BF16, BR_DTYPE_AUTO, BR_BF16 },
        { ", \"dtype\": \"bfloat16\"", BR_BF16, BR_F32, BR_F32 },
        { ", \"dtype\": \"float8_e4m3fn\"", BR_BF16, BR_F64, BR_F64 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_folder(cases[i].config, cases[i].file);
        check_loaded(cases[i].option, cases[i].model, cases[i].model != cases[i].file);
    }
}

Test(model_dtypes, that_are_refused)
{
    write_folder(", \"torch_dtype\": \"float8_e4m3fn\"", BR_F32);
    check_fails(br_auto_model_load(folder(), NULL, NULL),
                "config.json: torch_dtype is \"float8_e4m3fn\", must be float32, float64, bfloat16 "
                "or float16; set the option dtype");
    check_fails(br_auto_model_load(folder(), BR_OPTIONS(br_auto_model, .dtype = BR_I64), NULL),
                "dtype is i64, must be a floating-point dtype, BR_QUANTIZED or BR_DTYPE_AUTO");
}

/* A model of bf16 is saved and loaded without a change of a bit, and without a copy in f32. */
Test(model_dtypes, saved_and_loaded)
{
    write_folder("", BR_BF16);
    br_module *model = br_auto_model_load(folder(), NULL, NULL);
    int64_t before = br_live_bytes();
    cr_assert(br_auto_model_save(folder(), model, NULL), "%s", br_error_message());
    size_t n;
    char *config = files_read(files_path("config.json"), &n);
    cr_expect(strstr(config, "\"dtype\": \"bfloat16\""), "%s", config);
    free(config);
    br_module *again = br_auto_model_load(folder(), NULL, NULL);
    cr_assert(again, "%s", br_error_message());
    br_named_list *a = br_parameters(model), *b = br_parameters(again);
    int64_t bytes = 0;
    for (int64_t i = 0; i < a->count; i++) {
        cr_expect(br_equal(a->items[i].tensor, b->items[i].tensor), "%s", a->items[i].name);
        bytes += 2 * br_numel(b->items[i].tensor);
    }
    cr_expect(br_live_bytes() - before <= bytes + bytes / 8, "%lld bytes for %lld",
              (long long)(br_live_bytes() - before), (long long)bytes);
    br_named_list_free(a);
    br_named_list_free(b);
    br_module_free(again);
    br_module_free(model);
}

/* Missing weights are initialized, and those of wo stay in f32 in f16, but not in bf16. */
Test(model_dtypes, of_single_weights)
{
    for (int half = 0; half < 2; half++) {
        br_module *t5 = br_auto_model_load(
            MODELS "t5/relu", BR_OPTIONS(br_auto_model, .dtype = half ? BR_F16 : BR_BF16), NULL);
        cr_assert(t5, "%s", br_error_message());
        br_named_list *list = br_parameters(t5);
        for (int64_t i = 0; i < list->count; i++) {
            const char *name = list->items[i].name;
            br_dtype dtype = !half ? BR_BF16 : strstr(name, ".wo.") ? BR_F32 : BR_F16;
            cr_expect(br_dtype_of(list->items[i].tensor) == dtype, "%s", name);
        }
        br_named_list_free(list);
        br_module_free(t5);
    }
    br_auto_model_report report;
    br_hf_bert_classifier *bert = br_auto_model_load(
        MODELS "hf_bert/pretraining",
        BR_OPTIONS(br_auto_model, .dtype = BR_BF16, .class_name = "BertForSequenceClassification"),
        &report);
    cr_assert(bert, "%s", br_error_message());
    cr_expect_str_eq(report.missing_names, "classifier.weight, classifier.bias");
    cr_expect_eq(br_dtype_of(bert->classifier->weight), BR_BF16);
    br_scope *scope = br_scope_begin();
    cr_expect_gt(br_item(br_max(br_abs(bert->classifier->weight))), 0);
    br_scope_end(scope);
    br_auto_model_report_clear(&report);
    br_module_free(bert);
}

/* ---- Generating ------------------------------------------------------------------------------ */

/* The cached keys have the model's dtype, and the tokens are those without a cache. */
Test(model_dtypes, generates)
{
    enum { NEW = 8, START = 5 };
    br_scope *scope = br_no_grad_begin();
    const br_model_class *class = class_of(MODELS "gpt2/lm", BR_TASK_CAUSAL_LM);
    br_module *model = load_as(MODELS "gpt2/lm", class, BR_BF16);
    br_tensor *ids = br_narrow(br_narrow(recorded_in(RECORDED, "input_ids"), 0, 0, 1), 1, 0, START);
    br_language_model lm = class->language_model(&(br_model_source){ .model = model });
    br_tensor *all = br_generate(&lm, ids, BR_OPTIONS(br_generate, .max_new_tokens = NEW));
    cr_assert(all, "%s", br_error_message());
    cr_assert_eq(br_size(all, 1), START + NEW);
    for (int64_t n = START; n < START + NEW; n++) {
        br_model_input input = { .batch.ids = br_narrow(all, 1, 0, n) };
        br_tensor *logits = br_select(class->forward(model, &input), 1, n - 1);
        cr_expect(br_item_i64(br_argmax(logits, -1, false)) == (int64_t)br_at(all, BR_DIMS(0, n)),
                  "token %d", (int)n);
    }
    br_cache *cache = br_cache_new();
    lm.next(lm.model, ids, NULL, cache);
    br_tensor *key, *value;
    cr_assert(br_cache_get(cache, 0, &key, &value), "%s", br_error_message());
    cr_expect(br_dtype_of(key) == BR_BF16 && br_dtype_of(value) == BR_BF16);
    br_cache_free(cache);
    br_module_free(model);
    br_scope_end(scope);
}

/* ---- Stored attention ------------------------------------------------------------------------ */

/* Checks that the attention of the first layer is 0 where a key is hidden, and sums to 1. */
static void check_hidden(br_tensor *attention, const char *what)
{
    cr_assert(attention, "%s: %s", what, br_error_message());
    br_tensor *hidden = br_narrow(br_to(attention, BR_F64), 3, 3, 2);
    cr_expect_eq(br_item(br_max(hidden)), 0, "%s", what);
    cr_expect(fabs(br_item(br_mean(attention)) * 5 - 1) < 0.01, "%s", what);
}

/* A mask hides keys in f16 and bf16, which do not represent the lowest number of f32, whether the
 * attention is requested or its scores are capped, as in Gemma 2. */
Test(model_dtypes, hidden_keys_of_stored_attention)
{
    static const br_dtype dtypes[] = { BR_F16, BR_BF16 };
    int64_t mask[] = { 1, 1, 1, 0, 0 };
    for (int i = 0; i < 2; i++) {
        br_scope *scope = br_no_grad_begin();
        br_tensor *attentions[8], *ids = br_from_i64(BR_SHAPE(1, 5), (int64_t[]){ 3, 5, 7, 4, 4 });
        br_tensor *visible = br_from_i64(BR_SHAPE(1, 5), mask);
        br_auto_model_options o = *BR_OPTIONS(br_auto_model, .dtype = dtypes[i]);
        br_llama *gemma =
            br_auto_model_load(MODELS "decoders/gemma20", (o.class_name = "Gemma2Model", &o), NULL);
        br_tensor *states = br_llama_forward(
            gemma, ids, BR_OPTIONS(br_llama, .attention_mask = visible, .attentions = attentions));
        cr_assert(states, "%s", br_error_message());
        check_hidden(attentions[0], "Gemma 2");
        br_hf_bert *bert =
            br_auto_model_load(MODELS "encoders/bert0", (o.class_name = "BertModel", &o), NULL);
        br_hf_bert_forward(
            bert, ids, BR_OPTIONS(br_hf_bert, .attention_mask = visible, .attentions = attentions));
        check_hidden(attentions[0], "BERT");
        br_module_free(gemma);
        br_module_free(bert);
        br_scope_end(scope);
    }
}
