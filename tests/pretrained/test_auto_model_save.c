/* tests/pretrained/test_auto_model_save.c - saved model folders: the weights, and config.json. The
 * recorded folders were written by transformers. */
#include "tests/pretrained/auto_model_save.h"

TestSuite(auto_model_save, .init = files_begin, .fini = files_end);

/* ---- Comparing ------------------------------------------------------------------------------- */

/* Checks that the saved config.json equals the config.json of the folder `from`, except for the
 * keys of the JSON text `changed`. The keys have the same order; new keys come last. */
static void check_config(const char *from, const char *changed)
{
    char path[600];
    snprintf(path, sizeof path, "%s/config.json", from);
    json_t *expected = read_json(path), *saved = read_json(files_path("config.json"));
    json_t *changes = json_loads(changed, 0, NULL);
    cr_assert(changes, "%s", changed);
    json_object_update(expected, changes);
    if (!json_equal(saved, expected)) {
        char *have = json_dumps(saved, 0), *want = json_dumps(expected, 0);
        cr_assert_str_eq(have, want);
    }
    void *a = json_object_iter(saved), *b = json_object_iter(expected);
    for (; a; a = json_object_iter_next(saved, a), b = json_object_iter_next(expected, b))
        cr_assert_str_eq(json_object_iter_key(a), json_object_iter_key(b));
    json_decref(changes);
    json_decref(expected);
    json_decref(saved);
}

static void check_has_key(const char *key, bool has)
{
    br_safetensors *file = open_recorded(files_path("model.safetensors"));
    cr_assert_eq(br_safetensors_has(file, key), has, "%s", key);
    br_safetensors_close(file);
}

/* ---- Folders of transformers ----------------------------------------------------------------- */

/* A model that is loaded and saved gives the bytes that transformers wrote. */
Test(auto_model_save, weights_of_transformers_to_the_byte)
{
    static const char *const folders[] = {
        "hf_bert/pretraining", "hf_bert/classifier", "gpt2/lm", "gpt2/forms", "t5/relu", "t5/gated"
    };
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        char from[300], weights[400];
        snprintf(from, sizeof from, MODELS "%s", folders[i]);
        snprintf(weights, sizeof weights, "%s/model.safetensors", from);
        void *model = load(from, NULL);
        check_saved(model, from);
        check_same_file(files_path("model.safetensors"), weights);
        check_config(from, "{}");
        void *again = load(folder(), NULL);
        check_same_weights(model, again);
        br_module_free(again);
        br_module_free(model);
    }
}

Test(auto_model_save, as_another_class)
{
    br_hf_bert *model = load(pretraining, "BertModel");
    check_saved(model, pretraining);
    check_config(pretraining, "{\"architectures\": [\"BertModel\"]}");
    check_has_key("embeddings.word_embeddings.weight", true);
    check_has_key("bert.embeddings.word_embeddings.weight", false);
    void *again = load(folder(), NULL);
    check_same_weights(model, again);
    br_module_free(again);
    br_module_free(model);
}

/* A model of the constructors instead of br_auto_model_load(). */
Test(auto_model_save, a_new_model)
{
    br_auto_config *config = br_auto_config_load(MODELS "gpt2/lm");
    br_gpt2_config c = br_gpt2_config_from(config);
    br_gpt2_lm *model = br_gpt2_lm_new(&c);
    br_auto_config_free(config);
    check_saved(model, MODELS "gpt2/lm");
    check_config(MODELS "gpt2/lm", "{}");
    check_has_key("transformer.wte.weight", true); /* the name that transformers keeps */
    check_has_key("lm_head.weight", false);
    void *again = load(folder(), NULL);
    check_same_weights(model, again);
    br_module_free(again);
    br_module_free(model);
}

Test(auto_model_save, doubles)
{
    void *model = load(MODELS "gpt2/lm", NULL);
    cr_assert(br_module_to(model, BR_F64));
    check_saved(model, MODELS "gpt2/lm");
    check_config(MODELS "gpt2/lm", "{\"dtype\": \"float64\"}");
    br_module_free(model);
}

/* ---- config.json ----------------------------------------------------------------------------- */

/* Other keys keep their text; JSON has more than one way to write a number. */
Test(auto_model_save, text_of_the_configuration)
{
    br_hf_bert_config c = bert_config();
    br_hf_bert *bert = br_hf_bert_new(&c);
    static const char text[] =
        "{\n  \"model_type\": \"bert\",\n  \"hidden_size\": 16,\n  \"vocab_size\": 40,\n"
        "  \"num_attention_heads\": 4,\n  \"num_hidden_layers\": 2,\n"
        "  \"intermediate_size\": 24,\n  \"max_position_embeddings\": 12,\n"
        "  \"architectures\": [\n    \"BertModel\"\n  ],\n  \"layer_norm_eps\": 1e-12,\n"
        "  \"hidden_dropout_prob\": 0.1,\n  \"initializer_range\": 0.020833333333333332,\n"
        "  \"empty\": {},\n  \"none\": [],\n  \"nested\": {\n    \"a\": [\n      1,\n"
        "      2.0,\n      -0.0\n    ]\n  },\n  \"text\": \"\xc3\xa9\\n\\\"\",\n"
        "  \"torch_dtype\": \"float32\",\n  \"large\": 9007199254740993\n}\n";
    check_saved(bert, write_source("config.json", text));
    size_t n;
    char *saved = files_read(files_path("config.json"), &n);
    cr_assert(n == strlen(text) && memcmp(saved, text, n) == 0, "%.*s", (int)n, saved);
    free(saved);
    br_module_free(bert);
}

Test(auto_model_save, dtype_under_the_name_in_the_file)
{
    void *model = load(pretraining, NULL);
    const char *from =
        write_config("hf_bert/pretraining", "{\"dtype\": null, \"torch_dtype\": \"float16\"}");
    check_saved(model, from);
    check_config(from, "{\"torch_dtype\": \"float32\"}");
    from = write_config("hf_bert/pretraining", "{\"dtype\": \"bfloat16\", \"torch_dtype\": \"x\"}");
    check_saved(model, from);
    check_config(from, "{\"dtype\": \"float32\", \"torch_dtype\": \"float32\"}");
    from = write_config("hf_bert/pretraining", "{\"dtype\": null, \"architectures\": null}");
    check_saved(model, from);
    check_config(from, "{\"architectures\": [\"BertForPreTraining\"], \"dtype\": \"float32\"}");
    br_module_free(model);
}

/* A head with other labels, and more tokens, are changes on purpose. */
Test(auto_model_save, labels_and_vocabulary_of_the_model)
{
    br_hf_bert_config c = bert_config();
    c.num_labels = 4;
    c.vocab_size = 44;
    br_hf_bert_classifier *model = br_hf_bert_for_sequence_classification_new(&c);
    static const char labels[] =
        "\"id2label\": {\"0\": \"LABEL_0\", \"1\": \"LABEL_1\", \"2\": \"LABEL_2\", \"3\": "
        "\"LABEL_3\"}, \"label2id\": {\"LABEL_0\": 0, \"LABEL_1\": 1, \"LABEL_2\": 2, "
        "\"LABEL_3\": 3}";
    char changed[500];
    check_saved(model, pretraining);
    snprintf(changed, sizeof changed,
             "{\"vocab_size\": 44, %s, \"architectures\": [\"BertForSequenceClassification\"]}",
             labels);
    check_config(pretraining, changed);
    void *again = load(folder(), NULL);
    check_same_weights(model, again);
    br_module_free(again);
    const char *from = write_config("hf_bert/classifier", "{\"num_labels\": 3}");
    c.hidden_act = "gelu_new";
    br_module_free(model);
    model = br_hf_bert_for_sequence_classification_new(&c);
    check_saved(model, from);
    snprintf(changed, sizeof changed, "{\"vocab_size\": 44, \"num_labels\": 4, %s}", labels);
    check_config(from, changed);
    br_module_free(model);
    c.num_labels = 3;
    c.vocab_size = 40;
    model = br_hf_bert_for_sequence_classification_new(&c);
    from = write_config("hf_bert/classifier", "{\"id2label\": {\"0\": \"a\", \"1\": \"b\", "
                                              "\"2\": \"c\"}}");
    check_saved(model, from);
    check_config(from, "{}"); /* names of labels that fit are kept */
    br_module_free(model);
}

Test(auto_model_save, overrides)
{
    br_hf_bert_config c = bert_config();
    c.num_labels = 2;
    br_module *model = (br_module *)br_hf_bert_for_sequence_classification_new(&c);
    static const char changed[] = "\"id2label\": {\"0\": \"no\", \"1\": \"yes\"}, "
                                  "\"problem_type\": \"single_label_classification\"";
    char text[300];
    snprintf(text, sizeof text, "{%s}", changed);
    cr_assert(
        br_auto_model_save(folder(), model,
                           BR_OPTIONS(br_auto_model_save, .from = pretraining, .overrides = text)),
        "%s", br_error_message());
    snprintf(text, sizeof text, "{%s, \"architectures\": [\"BertForSequenceClassification\"]}",
             changed);
    check_config(pretraining, text);
    check_fails(br_auto_model_save(folder(), model,
                                   BR_OPTIONS(br_auto_model_save, .from = pretraining,
                                              .overrides = "{\"hidden_act\": \"relu\"}")),
                "hidden_act has another value than the model was made with");
    br_module_free(model);
}

/* ---- Tied weights ---------------------------------------------------------------------------- */

/* Replaces a tied weight of the model by a separate one, in a folder from which it is loaded. */
static void *load_untied(const char *base, const char *name, const char *of)
{
    char path[300];
    const char *source = write_config(base, "{}");
    snprintf(path, sizeof path, MODELS "%s/model.safetensors", base);
    br_safetensors *file = open_recorded(path);
    br_named_list *all = br_safetensors_all(file);
    br_named_tensor items[100];
    br_named_list some = { 0, items };
    for (; some.count < all->count; some.count++)
        items[some.count] = all->items[some.count];
    br_tensor *other = br_mul_scalar(br_named_list_get(all, of), 0.5);
    items[some.count++] = (br_named_tensor){ name, other };
    cr_assert(br_safetensors_save(files_path("source/model.safetensors"), &some, 0, NULL));
    br_named_list_free(all);
    br_safetensors_close(file);
    return load(source, NULL);
}

static void check_untied(const char *base, const char *name, const char *of, const char *changed)
{
    br_scope *scope = br_scope_begin();
    void *model = load_untied(base, name, of);
    check_saved(model, files_path("source"));
    check_config(files_path("source"), changed);
    check_has_key(name, true);
    check_has_key(of, true);
    void *again = load(folder(), NULL);
    cr_assert(br_equal(br_module_get(again, name), br_module_get(model, name)));
    cr_assert_not(br_equal(br_module_get(again, name), br_module_get(again, of)));
    br_module_free(again);
    br_module_free(model);
    br_scope_end(scope);
}

/* tie_word_embeddings agrees with the model, except in a T5, where it says whether the head's input
 * is scaled. */
Test(auto_model_save, untied_weights)
{
    static const char words[] = "bert.embeddings.word_embeddings.weight";
    check_untied("gpt2/lm", "lm_head.weight", "transformer.wte.weight",
                 "{\"tie_word_embeddings\": false}");
    check_untied("hf_bert/pretraining", "cls.predictions.decoder.weight", words,
                 "{\"tie_word_embeddings\": false}");
    /* transformers ties no bias if tie_word_embeddings is false, so both must be there. */
    check_has_key("cls.predictions.decoder.bias", true);
    check_untied("hf_bert/pretraining", "cls.predictions.decoder.bias", "cls.predictions.bias",
                 "{\"tie_word_embeddings\": false}");
    check_has_key("cls.predictions.decoder.weight", true);
    check_untied("t5/relu", "lm_head.weight", "shared.weight", "{}");
    check_has_key("encoder.embed_tokens.weight", false);
    check_untied("t5/relu", "encoder.embed_tokens.weight", "shared.weight", "{}");
    check_has_key("lm_head.weight", false);
}

/* Writes the recorded T5 with a second tensor for a tied weight, loads it, and returns what
 * br_auto_model_load() reports. */
static br_auto_model_report report_of_tie(const char *keys, double factor)
{
    const char *name = "encoder.embed_tokens.weight", *source = write_config("t5/relu", keys);
    br_safetensors *file = open_recorded(MODELS "t5/relu/model.safetensors");
    br_named_list *all = br_safetensors_all(file);
    br_named_tensor items[100];
    br_named_list some = { all->count + 1, items };
    memcpy(items, all->items, (size_t)all->count * sizeof *items);
    items[all->count] =
        (br_named_tensor){ name, br_mul_scalar(br_named_list_get(all, "shared.weight"), factor) };
    cr_assert(br_safetensors_save(files_path("source/model.safetensors"), &some, 0, NULL));
    br_auto_model_report report;
    void *model = br_auto_model_load(source, NULL, &report);
    cr_assert(model, "%s", br_error_message());
    cr_assert_eq(report.matched, all->count + (factor != 1));
    br_module_free(model);
    br_named_list_free(all);
    br_safetensors_close(file);
    return report;
}

/* A copy of a tied weight is ignored. Other values make two weights, which is reported only if the
 * configuration ties them. */
Test(auto_model_save, reports_of_tied_weights)
{
    static const char untied[] = "encoder.embed_tokens.weight unlike shared.weight";
    br_scope *scope = br_scope_begin();
    br_auto_model_report report = report_of_tie("{}", 1);
    cr_assert_str_eq(report.ignored_names, "encoder.embed_tokens.weight equal to shared.weight");
    cr_assert(report.ignored == 1 && report.untied == 0);
    br_auto_model_report_clear(&report);
    report = report_of_tie("{}", 0.5);
    cr_assert_str_eq(report.untied_names, untied);
    cr_assert(report.ignored == 0 && report.untied == 1);
    br_auto_model_report_clear(&report);
    report = report_of_tie("{\"tie_word_embeddings\": false}", 0.5);
    cr_assert_str_eq(report.untied_names, "");
    cr_assert_eq(report.untied, 0);
    br_auto_model_report_clear(&report);
    br_scope_end(scope);
}

Test(auto_model_save, models_without_tied_weights)
{
    /* A key that the class does not use is kept, and added to no file that lacks it. */
    const char *from = write_config("gpt2/lm", "{\"tie_word_embeddings\": false}");
    void *model = load(MODELS "gpt2/lm", "GPT2Model");
    check_saved(model, from);
    check_config(from, "{\"architectures\": [\"GPT2Model\"]}");
    from = write_config("gpt2/lm", "{\"tie_word_embeddings\": null}");
    check_saved(model, from);
    check_config(from, "{\"architectures\": [\"GPT2Model\"]}");
    br_module_free(model);
    /* Both names of a weight that the configuration does not tie. */
    from = write_config("gpt2/lm", "{\"tie_word_embeddings\": false}");
    br_auto_config *config = br_auto_config_load(from);
    br_gpt2_config c = br_gpt2_config_from(config);
    br_gpt2_lm *untied = br_gpt2_lm_new(&c);
    br_auto_config_free(config);
    check_saved(untied, from);
    check_config(from, "{}");
    void *again = load(folder(), NULL);
    check_same_weights(untied, again);
    br_module_free(again);
    /* The program ties it. */
    untied->lm_head->weight = br_module_replace_parameter(br_base(untied->lm_head), "weight",
                                                          untied->transformer->wte->weight);
    check_saved(untied, from);
    check_config(from, "{\"tie_word_embeddings\": true}");
    check_has_key("lm_head.weight", false);
    again = load(folder(), NULL);
    check_same_weights(untied, again);
    br_module_free(again);
    br_module_free(untied);
}
