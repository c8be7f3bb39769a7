/* tests/pretrained/test_family.c - families of models: a family of the test's own through
 * AutoConfig, AutoModel and the tokenizers, and families that are refused. */
#include "tests/pretrained/auto_model.h"
#include "tests/pretrained/tiny_family.h"

#include <string.h>

TestSuite(family, .init = files_begin, .fini = files_end);

/* ---- Files ----------------------------------------------------------------------------------- */

static void write_text(const char *name, const char *text)
{
    files_write(files_path(name), text, strlen(text));
}

static void write_config(const char *text)
{
    cr_assert(br_register_model_family(&tiny_family), "%s", br_error_message());
    write_text("config.json", text);
}

static const char config_text[] =
    "{\"model_type\": \"tiny\", \"architectures\": [\"TinyForMaskedLM\"], \"hidden_size\": 2, "
    "\"intermediate_size\": 3, \"color\": \"red\"}";

/* A matrix whose elements are from, from + 1, ... */
static br_tensor *counting(int64_t rows, int64_t columns, double from)
{
    return br_reshape(br_arange(from, from + (double)(rows * columns), 1, BR_F32),
                      BR_SHAPE(rows, columns));
}

/* The weights as they are in a file of a TinyForMaskedLM. */
enum { WORDS, FC_WEIGHT, FC_BIAS, OUT, POOLER, N_WEIGHTS };
static const char *const file_names[] = { "model.embed_tokens.weight", "model.mlp.fc.weight",
                                          "model.mlp.fc.bias", "model.out.weight",
                                          "model.pooler.weight" };
static br_tensor *weights[N_WEIGHTS];

static void make_weights(void)
{
    weights[WORDS] = counting(5, 2, 1);
    weights[FC_WEIGHT] = counting(2, 3, -2);
    weights[FC_BIAS] = br_arange(0, 3, 1, BR_F32);
    weights[OUT] = counting(2, 3, 3);
    weights[POOLER] = counting(2, 2, 4);
}

/* Writes the first n weights, with `names` or those of a new file. */
static void save_weights(const char *const *names, int n)
{
    br_named_tensor items[N_WEIGHTS + 1];
    make_weights();
    for (int i = 0; i < n; i++)
        items[i] = (br_named_tensor){ (names ? names : file_names)[i], weights[i] };
    items[n] = (br_named_tensor){ "model.rotary.inv_freq", weights[FC_BIAS] };
    br_named_list list = { n + 1, items };
    cr_assert(br_safetensors_save(files_path("model.safetensors"), &list, 0, NULL));
}

/* Returns what the base model computes from the file's weights. */
static br_tensor *expected(br_tensor *ids)
{
    br_tensor *x = br_index_select(weights[WORDS], 0, br_reshape(ids, BR_SHAPE(-1)));
    x = br_add(br_matmul(x, weights[FC_WEIGHT]), weights[FC_BIAS]);
    return br_unsqueeze(br_matmul(x, br_t(weights[OUT])), 0);
}

/* ---- Loading and saving ---------------------------------------------------------------------- */

Test(family, model_of_a_registered_family_is_loaded_and_run)
{
    br_scope *scope = br_scope_begin();
    write_config(config_text);
    save_weights(NULL, N_WEIGHTS);
    br_auto_model_report report;
    br_module *model = load_folder(NULL, &report);
    cr_assert(model, "%s", br_error_message());
    cr_assert_str_eq(br_module_class(model), "TinyForMaskedLM");
    cr_assert(report.matched == 5 && report.renamed == 0 && report.unexpected == 0 &&
              report.missing == 0 && report.unknown == 0);
    cr_assert_str_eq(report.ignored_names, "model.rotary.inv_freq");
    br_auto_model_report_clear(&report);

    br_tensor *ids = br_from_i64(BR_SHAPE(1, 3), (int64_t[]){ 4, 0, 2 });
    const br_model_family *family = br_model_family_find("tiny");
    const br_model_class *class = br_model_class_for(family, BR_TASK_MASKED_LM);
    cr_assert(family == &tiny_family && class == &tiny_classes[1]);
    br_tensor *logits = class->forward(model, &(br_model_input){ .batch.ids = ids });
    cr_assert(br_equal(logits, br_matmul(expected(ids), br_t(weights[WORDS]))));
    br_module_free(model);

    model = load_folder("TinyModel", NULL);
    cr_assert(model, "%s", br_error_message());
    br_tensor *x = tiny_run(model, &(br_model_input){ .batch.ids = ids });
    cr_assert(br_equal(x, expected(ids)));
    br_module_free(model);
    br_scope_end(scope);
}

/* Old names, and names without the prefix, are reported with the keys of a new file. */
Test(family, old_keys_and_missing_ones)
{
    static const char *const old[] = { "encoder.embed_tokens.weight", "mlp.fc.weight",
                                       "encoder.mlp.fc.bias", "out.weight" };
    br_scope *scope = br_scope_begin();
    write_config(config_text);
    save_weights(old, POOLER);
    br_auto_model_report report;
    tiny_lm *model = load_folder(NULL, &report);
    cr_assert(model, "%s", br_error_message());
    cr_assert(report.matched == 4 && report.renamed == 4);
    cr_assert(strstr(report.renamed_names, "mlp.fc.weight as model.mlp.fc.weight"));
    cr_assert(report.missing == 1 && report.missing_poolers == 1);
    cr_assert_str_eq(report.missing_names, "model.pooler.weight");
    cr_assert(br_equal(model->tiny->pooler->weight, br_full(BR_SHAPE(2, 2), 7, BR_F32)));
    cr_assert(br_equal(model->tiny->dense->weight, br_t(weights[FC_WEIGHT])));
    br_auto_model_report_clear(&report);
    br_module_free(model);

    save_weights(NULL, OUT);
    check_fails(load_folder(NULL, NULL), "key \"model.out.weight\" is missing, must be F32 [2, 3]");
    static const char *const twice[] = { "model.embed_tokens.weight", "model.out.weight",
                                         "model.mlp.fc.bias" };
    save_weights(twice, OUT);
    check_fails(load_folder(NULL, NULL),
                "key \"model.mlp.fc.weight\" is missing, must be F32 [2, 3]");
    static const char *const wrong[] = { "model.mlp.fc.weight" };
    save_weights(wrong, 1);
    check_fails(load_folder(NULL, NULL), "key \"model.mlp.fc.weight\" is F32 [5, 2], must be F32, "
                                         "F16, BF16 or F64 [2, 3]");
    br_scope_end(scope);
}

/* The file that is saved has the keys and the layout of the file that was loaded. */
Test(family, saved_folder_equals_the_loaded_one)
{
    br_scope *scope = br_scope_begin();
    write_config(config_text);
    save_weights(NULL, N_WEIGHTS);
    br_module *model = load_folder(NULL, NULL);
    char saved[600];
    snprintf(saved, sizeof saved, "%s/saved", folder());
    cr_assert(br_auto_model_save(saved, model, BR_OPTIONS(br_auto_model_save, .from = folder())),
              "%s", br_error_message());
    snprintf(saved, sizeof saved, "%s/saved/model.safetensors", folder());
    br_safetensors *file = br_safetensors_open(saved, NULL);
    cr_assert_eq(br_safetensors_count(file), N_WEIGHTS);
    for (int i = 0; i < N_WEIGHTS; i++)
        cr_assert(br_equal(br_safetensors_get(file, file_names[i]), weights[i]), "%s: %s",
                  file_names[i], br_error_message());
    br_safetensors_close(file);
    snprintf(saved, sizeof saved, "%s/saved", folder());
    br_module *again = br_auto_model_load(saved, NULL, NULL);
    cr_assert(again, "%s", br_error_message());
    br_named_list *a = br_state_dict(model), *b = br_state_dict(again);
    for (int64_t i = 0; i < a->count; i++)
        cr_assert(br_equal(a->items[i].tensor, b->items[i].tensor), "%s", a->items[i].name);
    br_named_list_free(a);
    br_named_list_free(b);
    br_module_free(again);

    write_config("{\"model_type\": \"tiny\", \"hidden_size\": 2, \"inner_size\": 3, "
                 "\"doubles\": true}");
    check_fails(br_auto_model_save(folder(), model, NULL), "doubles has another value");
    write_config("{\"model_type\": \"bert\"}");
    check_fails(br_auto_model_save(folder(), model, NULL),
                "model_type is \"bert\", but a TinyForMaskedLM needs \"tiny\"");
    br_module_free(model);
    br_scope_end(scope);
}

static bool save_once(void)
{
    br_scope *scope = br_scope_begin();
    br_module *model = br_auto_model_load(folder(), NULL, NULL);
    char saved[600];
    snprintf(saved, sizeof saved, "%s/saved", folder());
    bool ok =
        model && br_auto_model_save(saved, model, BR_OPTIONS(br_auto_model_save, .from = folder()));
    br_module_free(model);
    br_scope_end(scope);
    return ok;
}

Test(family, memory_runs_out_everywhere)
{
    br_scope *scope = br_scope_begin();
    write_config(config_text);
    save_weights(NULL, N_WEIGHTS);
    br_scope_end(scope);
    fail_in_turn(save_once, "loading and saving");
}

/* More tokens change vocab_size, which the family lists. */
Test(family, sizes_that_a_program_changes)
{
    br_scope *scope = br_scope_begin();
    write_config("{\"model_type\": \"tiny_text\", \"architectures\": [\"TinyModel\"], "
                 "\"inner_size\": 3}");
    static const char *const base[] = { "embed_tokens.weight", "mlp.fc.weight", "mlp.fc.bias",
                                        "out.weight", "pooler.weight" };
    save_weights(base, N_WEIGHTS);
    tiny *model = load_folder(NULL, NULL);
    cr_assert(model, "%s", br_error_message());
    model->words->weight = br_module_replace_parameter(br_base(model->words), "weight",
                                                       br_zeros(BR_SHAPE(6, 2), BR_F32));
    cr_assert(br_auto_model_save(folder(), br_base(model), NULL), "%s", br_error_message());
    br_auto_config *config = br_auto_config_load(folder());
    cr_assert_eq(br_auto_config_size(config, "vocab_size"), 6);
    cr_assert_str_eq(br_auto_config_model_type(config), "tiny_text");
    cr_assert_not(br_auto_config_has(config, "tie_word_embeddings"));
    br_auto_config_free(config);
    br_module_free(model);
    br_scope_end(scope);
}

/* ---- config.json and the tokenizer ----------------------------------------------------------- */

Test(family, configuration_has_the_familys_defaults)
{
    write_config("{\"model_type\": \"tiny_text\", \"hidden_size\": 4}");
    br_auto_config *config = br_auto_config_load(folder());
    cr_assert_eq(br_auto_config_size(config, "vocab_size"), 5);
    cr_assert_eq(br_auto_config_size(config, "intermediate_size"), 4);
    cr_assert(br_auto_config_expect(config, "tiny") && br_auto_config_expect(config, "tiny_text"));
    check_fails(br_auto_config_expect(config, "bert"),
                "model_type is \"tiny_text\", must be \"bert\"");
    br_auto_config_free(config);
    write_config("{\"model_type\": \"tiny\", \"rope\": true}");
    config = br_auto_config_load(folder());
    check_fails(br_auto_config_expect(config, "tiny"),
                "rope is true, must be false: no other value is supported for a tiny");
    br_auto_config_free(config);
}

/* The model types of the zoo. */
#define TYPES                                                                              \
    "\"bert\", \"roberta\", \"xlm-roberta\", \"camembert\", \"distilbert\", \"electra\", " \
    "\"albert\", \"mpnet\", \"modernbert\", \"gpt2\", \"gpt_neox\", \"t5\", \"llama\", "   \
    "\"mistral\", "                                                                        \
    "\"smollm3\", \"granite\", "                                                           \
    "\"phi3\", \"qwen2\", \"qwen3\", \"qwen3_moe\", \"gemma2\", \"gemma3_text\""

/* Before it is registered, a family is unknown. */
Test(family, unknown_types_are_refused_with_the_known_ones)
{
    write_text("config.json", "{\"model_type\": \"tinny\"}");
    check_fails(load_folder(NULL, NULL), "model_type is \"tinny\", must be one of " TYPES);
    cr_assert_null(br_model_family_find("tiny"));
    cr_assert(br_register_model_family(&tiny_family));
    check_fails(load_folder(NULL, NULL),
                "model_type is \"tinny\", must be one of " TYPES
                ", \"tiny\", \"tiny_text\"; the most similar one is \"tiny\"");
    write_text("config.json", "{\"model_type\": \"gtp2\"}");
    check_fails(load_folder(NULL, NULL), "; the most similar one is \"gpt2\"");
}

Test(family, tokenizer_of_the_familys_class)
{
    br_scope *scope = br_scope_begin();
    write_config("{\"model_type\": \"tiny\"}");
    write_text("vocab.txt", "[UNK]\n[CLS]\n[SEP]\ntime\n##s\n");
    br_tokenizer *tokenizer = br_auto_tokenizer_load(folder(), NULL);
    cr_assert(tokenizer, "%s", br_error_message());
    cr_assert_str_eq(br_tokenizer_model(tokenizer), "WordPiece");
    br_tokenizer_free(tokenizer);
    save_weights((const char *const[]){ "embed_tokens.weight", "mlp.fc.weight", "mlp.fc.bias",
                                        "out.weight" },
                 POOLER);
    write_config("{\"model_type\": \"tiny\", \"inner_size\": 3}");
    br_sentence_transformer *model = br_sentence_transformer_load(
        folder(), BR_OPTIONS(br_sentence_transformer, .pooling = BR_POOLING_CLS), NULL);
    cr_assert(model, "%s", br_error_message());
    br_token_batch batch = { .ids = br_from_i64(BR_SHAPE(1, 2), (int64_t[]){ 2, 3 }),
                             .attention_mask = br_ones(BR_SHAPE(1, 2), BR_I64) };
    br_tensor *first = br_select(expected(batch.ids), 1, 0);
    br_tensor *row = br_sentence_transformer_forward(model, &batch);
    br_tensor *length = br_sqrt(br_sum(br_mul(first, first)));
    double off = difference(row, br_div(first, length));
    cr_assert(off <= 1e-6, "off by %g", off);
    br_text text = { "time times time", -1 };
    check_fails(br_sentence_transformer_encode(model, 1, &text, NULL),
                "texts[0] has 6 tokens, more than the model's limit of 4");
    br_sentence_transformer_free(model);
    br_scope_end(scope);
}

/* ---- Registering ----------------------------------------------------------------------------- */

/* Returns the number of families of the zoo. */
static int zoo_size(void)
{
    int n = 0;
    while (br_model_families[n])
        n++;
    return n;
}

Test(family, list_of_families)
{
    int n = 0;
    while (br_model_family_at(n))
        n++;
    int classes = 0;
    while (br_auto_model_class(classes))
        classes++;
    cr_assert_eq(n, zoo_size());
    cr_assert(br_register_model_family(&tiny_family) && br_register_model_family(&tiny_family));
    cr_assert(br_model_family_at(n) == &tiny_family && !br_model_family_at(n + 1));
    cr_assert_null(br_model_family_at(-1));
    cr_assert_str_eq(br_auto_model_class(classes), "TinyModel");
    cr_assert_str_eq(br_auto_model_class(classes + 1), "TinyForMaskedLM");
    cr_assert_null(br_auto_model_class(classes + 2));
    cr_assert_null(br_model_class_for(&tiny_family, BR_TASK_CAUSAL_LM));
    cr_assert_not(br_failed());
}

Test(family, incomplete_families_and_names_in_use)
{
    check_fails(br_register_model_family(NULL), "family is NULL");
    br_model_family family = tiny_family;
    family.model_type = NULL;
    check_fails(br_register_model_family(&family), "model_type is missing");
    family.model_type = "gpt2";
    check_fails(br_register_model_family(&family), "model_type \"gpt2\" of the family of TinyModel "
                                                   "belongs to the family of GPT2Model already");
    static const char *const others[] = { "tiny_vision", "t5", NULL };
    family.model_type = "tiny";
    family.other_types = others;
    check_fails(br_register_model_family(&family), "model_type \"t5\" of the family of TinyModel "
                                                   "belongs to the family of T5Model already");
    family = tiny_family;
    family.init = NULL;
    check_fails(br_register_model_family(&family), "the family \"tiny\": init is NULL");
    br_model_class classes[2] = { { .name = "BertModel" } };
    family = tiny_family;
    family.classes = &classes[1];
    check_fails(br_register_model_family(&family), "the family \"tiny\": classes is empty");
    family.classes = classes;
    check_fails(br_register_model_family(&family), "the family \"tiny\": a class has no make()");
    classes[0].make = tiny_make;
    check_fails(
        br_register_model_family(&family),
        "the class BertModel of the family \"tiny\" belongs to the family \"bert\" already");
    cr_assert_null(br_model_family_at(zoo_size()));
}

/* What the zoo's families can do, by which the commands choose a class. */
Test(family, classes_of_the_zoo_by_task)
{
    static const struct {
        const char *type;
        br_model_task task;
        const char *class;
    } rows[] = {
        { "bert", BR_TASK_BASE, "BertModel" },
        { "bert", BR_TASK_MASKED_LM, "BertForMaskedLM" },
        { "bert", BR_TASK_NEXT_SENTENCE, "BertForNextSentencePrediction" },
        { "bert", BR_TASK_SEQUENCE_CLASSIFICATION, "BertForSequenceClassification" },
        { "bert", BR_TASK_TOKEN_CLASSIFICATION, "BertForTokenClassification" },
        { "bert", BR_TASK_QUESTION_ANSWERING, "BertForQuestionAnswering" },
        { "bert", BR_TASK_CAUSAL_LM, NULL },
        { "electra", BR_TASK_MASKED_LM, "ElectraForMaskedLM" },
        { "gpt2", BR_TASK_CAUSAL_LM, "GPT2LMHeadModel" },
        { "t5", BR_TASK_SEQ2SEQ_LM, "T5ForConditionalGeneration" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const br_model_class *c =
            br_model_class_for(br_model_family_find(rows[i].type), rows[i].task);
        cr_assert(rows[i].class ? c && strcmp(c->name, rows[i].class) == 0 : !c, "row %zu", i);
        cr_assert(!c || c->forward, "row %zu", i);
    }
}
