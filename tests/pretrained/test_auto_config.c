/* AutoConfig: values of a config.json, defaults for missing ones, names of keys, lists, labels, and
 * the models' configurations created from it. */
#include "tests/io/files.h"

#include <brasa/models.h>
#include <jansson.h>

TestSuite(auto_config, .init = files_begin, .fini = files_end);

#define BERT BRASA_TEST_DIR "/models/bert-base-uncased"

/* Loads a configuration from this text. */
static br_auto_config *with(const char *text)
{
    files_write(files_path("config.json"), text, strlen(text));
    br_auto_config *config = br_auto_config_load(files_path("config.json"));
    cr_assert(config, "%s", br_error_message());
    return config;
}

/* ---- Files ----------------------------------------------------------------------------------- */

Test(auto_config, a_folder_or_the_file)
{
    br_auto_config *folder = br_auto_config_load(BERT), *slash = br_auto_config_load(BERT "/"),
                   *file = br_auto_config_load(BERT "/config.json");
    check_ok();
    cr_assert_str_eq(br_auto_config_path(folder), BERT "/config.json");
    cr_assert_str_eq(br_auto_config_path(file), BERT "/config.json");
    cr_assert_eq(br_auto_config_size(slash, "hidden_size"), 768);
    br_auto_config_free(folder);
    br_auto_config_free(slash);
    br_auto_config_free(file);
    br_auto_config_free(NULL);
}

/* An override replaces a key under each of its names. */
Test(auto_config, overrides)
{
    static const char text[] = "{\"model_type\": \"gpt2\", \"n_embd\": 8, \"n_layer\": 2, "
                               "\"id2label\": {\"0\": \"a\"}}";
    files_write(files_path("config.json"), text, strlen(text));
    br_auto_config *config = br_auto_config_load_with(
        files_path("config.json"),
        "{\"hidden_size\": 16, \"num_labels\": 3, \"activation_function\": \"relu\"}");
    check_ok();
    cr_assert_eq(br_auto_config_size(config, "n_embd"), 16);
    cr_assert_eq(br_auto_config_size(config, "hidden_size"), 16);
    cr_assert_eq(br_auto_config_size(config, "n_layer"), 2);
    cr_assert_eq(br_auto_config_size(config, "num_labels"), 3);
    cr_assert_str_eq(br_auto_config_string(config, "activation_function"), "relu");
    char *label = br_auto_config_label(config, 0); /* id2label has another number of labels */
    cr_assert_str_eq(label, "LABEL_0");
    br_free(label);
    br_auto_config_free(config);
    config = br_auto_config_load_with(files_path("config.json"), "{\"model_type\": \"bert\"}");
    check_ok();
    cr_assert_str_eq(br_auto_config_model_type(config), "bert");
    cr_assert_eq(br_auto_config_size(config, "hidden_size"), 768);
    br_auto_config_free(config);
    check_fails(br_auto_config_load_with(files_path("config.json"), "3"),
                "overrides is not a JSON object");
    check_fails(br_auto_config_load_with(files_path("config.json"), "{\"a\": 1, \"a\": 2}"),
                "overrides is not JSON");
    check_fails(br_auto_config_load_with(files_path("config.json"), "{\"id2label\": 3}"),
                "id2label is 3, must be an object");
    check_fails(br_auto_config_load_with(NULL, NULL), "path is NULL");
}

/* The file's keys keep their order. Defaults replace missing keys and some nulls. */
Test(auto_config, values_as_json)
{
    br_auto_config *config = with("{\"z\": 0.1, \"model_type\": \"bert\", \"hidden_size\": 5, "
                                  "\"a\": [1, null]}");
    char *file = br_auto_config_file_json(config), *defaults = br_auto_config_default_json(config);
    check_ok();
    cr_assert_str_eq(file, "{\n  \"z\": 0.1,\n  \"model_type\": \"bert\",\n  "
                           "\"hidden_size\": 5,\n  \"a\": [\n    1,\n    null\n  ]\n}");
    json_t *object = json_loads(defaults, 0, NULL);
    cr_assert(object, "%s", defaults);
    cr_assert_eq(json_integer_value(json_object_get(object, "vocab_size")), 30522);
    cr_assert_eq(json_real_value(json_object_get(object, "layer_norm_eps")), 1e-12);
    cr_assert_null(json_object_get(object, "hidden_size"));
    json_decref(object);
    br_free(file);
    br_free(defaults);
    br_auto_config_free(config);
    check_fails(br_auto_config_file_json(NULL), "auto_config_file_json: config is NULL");
    check_fails(br_auto_config_default_json(NULL), "auto_config_default_json: config is NULL");
}

Test(auto_config, model_types)
{
    br_auto_config *config = br_auto_config_load(BERT);
    cr_assert_str_eq(br_auto_config_model_type(config), "bert");
    cr_assert(br_auto_config_expect(config, "bert"));
    check_fails(br_auto_config_expect(config, "gpt2"),
                "config.json: model_type is \"bert\", must be \"gpt2\"");
    check_fails(br_auto_config_expect(config, NULL), "model_type is NULL");
    br_auto_config_free(config);

    config = with("{\"hidden_size\": 5}");
    cr_assert_null(br_auto_config_model_type(config));
    check_fails(br_auto_config_expect(config, "bert"), "model_type is missing");
    cr_assert_eq(br_auto_config_size(config, "hidden_size"), 5);
    check_fails(br_auto_config_integer(config, "vocab_size"),
                "vocab_size is missing and has no default for a file without model_type");
    br_auto_config_free(config);

    config = with("{\"model_type\": \"mamba\", \"hidden_size\": 5}");
    check_fails(br_auto_config_integer(config, "vocab_size"),
                "vocab_size is missing and has no default for model_type mamba");
    cr_assert_not(br_auto_config_bool(config, "is_encoder_decoder"),
                  "its default is the same for every type");
    br_auto_config_free(config);
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* Without a dropout of its own, a BERT's classifier has that of the hidden states. */
Test(auto_config, dropout_of_a_classifier)
{
    static const char *const texts[] = {
        "{\"model_type\": \"bert\", \"hidden_dropout_prob\": 0.25}",
        "{\"model_type\": \"bert\", \"hidden_dropout_prob\": 0.25, \"classifier_dropout\": null}",
        "{\"model_type\": \"bert\", \"hidden_dropout_prob\": 0.25, \"classifier_dropout\": 0}",
    };
    for (int i = 0; i < 3; i++) {
        br_auto_config *config = with(texts[i]);
        cr_assert_eq(br_hf_bert_config_from(config).classifier_dropout, i < 2 ? 0.25 : 0);
        check_ok();
        br_auto_config_free(config);
    }
}

Test(auto_config, values_of_each_kind)
{
    br_auto_config *config = br_auto_config_load(BERT);
    cr_assert_eq(br_auto_config_integer(config, "vocab_size"), 30522);
    cr_assert_eq(br_auto_config_integer(config, "pad_token_id"), 0);
    cr_assert_eq(br_auto_config_number(config, "layer_norm_eps"), 1e-12);
    cr_assert_eq(br_auto_config_number(config, "num_hidden_layers"), 12,
                 "an integer is a number, too");
    cr_assert_eq(br_auto_config_probability(config, "hidden_dropout_prob"), 0.1);
    cr_assert(br_auto_config_bool(config, "use_cache"));
    cr_assert_not(br_auto_config_bool(config, "gradient_checkpointing"));
    cr_assert_str_eq(br_auto_config_string(config, "hidden_act"), "gelu");
    cr_assert_eq(br_auto_config_choice(config, "hidden_act", BR_CHOICES("relu", "gelu")), 1);
    cr_assert(br_auto_config_has(config, "type_vocab_size"));
    cr_assert(br_auto_config_has(config, "num_labels"), "it has a default");
    cr_assert_not(br_auto_config_has(config, "classifier_dropout"), "null");
    cr_assert_not(br_auto_config_has(config, "n_embd"));
    check_ok();
    br_auto_config_free(config);
}

Test(auto_config, values_of_other_kinds)
{
    br_auto_config *config = with(
        "{\"model_type\": \"gpt2\", \"n_embd\": \"768\", \"n_layer\": 12.0, \"n_head\": null,"
        "\"attn_pdrop\": 1.5, \"resid_pdrop\": -0.5, \"embd_pdrop\": true, \"n_inner\": [1],"
        "\"use_cache\": 1, \"activation_function\": {}, \"n_positions\": 0, \"vocab_size\": -1,"
        "\"big\": 2147483648, \"odd\\u001b[31m\": \"\\u202e\"}");
    static const struct {
        const char *key, *message;
    } sizes[] = {
        { "n_embd", "config.json: n_embd is the string \"768\", must be an integer" },
        { "hidden_size", ": hidden_size (n_embd) is the string \"768\", must be an integer" },
        { "n_layer", ": n_layer is the number 12, must be an integer" },
        { "n_head", ": n_head is null, must be an integer" },
        { "use_cache", ": use_cache is 1, must be true or false" },
        { "n_inner", ": n_inner is an array, must be an integer" },
        { "activation_function", ": activation_function is an object, must be an integer" },
        { "embd_pdrop", ": embd_pdrop is true, must be an integer" },
        { "n_positions", ": n_positions is 0, must be 1 .. 2147483647" },
        { "vocab_size", ": vocab_size is -1, must be 1 .. 2147483647" },
        { "big", ": big is 2147483648, must be 1 .. 2147483647" },
        { "odd\x1b[31m", ": odd\\u001b[31m is the string \"\\u202e\", must be an integer" },
        { "n_\xff", ": n_\\xff is missing" },
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (strcmp(sizes[i].key, "use_cache") == 0)
            check_fails(br_auto_config_bool(config, sizes[i].key), sizes[i].message);
        else
            check_fails(br_auto_config_size(config, sizes[i].key), sizes[i].message);
    check_fails(br_auto_config_number(config, "n_embd"), "must be a number");
    check_fails(br_auto_config_string(config, "use_cache"), "use_cache is 1, must be a string");
    check_fails(br_auto_config_probability(config, "attn_pdrop"), "is 1.5, must be 0 .. 1");
    check_fails(br_auto_config_probability(config, "resid_pdrop"), "is -0.5, must be 0 .. 1");
    check_fails(br_auto_config_size(config, NULL), "key is NULL");
    check_fails(br_auto_config_number(NULL, "n_embd"), "config is NULL");
    br_auto_config_free(config);
}

/* A message has the key as the file has it: by its own name, or by its synonym. */
Test(auto_config, messages_have_the_name_in_the_file)
{
    static const char *const synonyms[][2] = { { "hidden_size", "n_embd" },
                                               { "max_position_embeddings", "n_positions" },
                                               { "num_attention_heads", "n_head" },
                                               { "num_hidden_layers", "n_layer" } };
    for (size_t i = 0; i < sizeof synonyms / sizeof *synonyms; i++) {
        const char *key = synonyms[i][0], *own = synonyms[i][1];
        for (int by_own = 0; by_own < 2; by_own++) {
            char text[100], expected[100];
            snprintf(text, sizeof text, "{\"model_type\": \"gpt2\", \"%s\": 0}",
                     by_own ? own : key);
            snprintf(expected, sizeof expected, by_own ? ": %s (%s) is 0" : ": %s is 0", key, own);
            br_auto_config *config = with(text);
            check_fails(br_auto_config_size(config, key), expected);
            snprintf(expected, sizeof expected, ": %s is 0", own);
            check_fails(br_auto_config_size(config, own), expected);
            br_auto_config_free(config);
        }
    }
}

Test(auto_config, choices)
{
    br_auto_config *config = with("{\"hidden_act\": \"swish\", \"n\": 1}");
    cr_assert_eq(br_auto_config_choice(config, "hidden_act", BR_CHOICES("gelu", "relu")), -1);
    cr_assert(
        strstr(br_error_message(), "hidden_act is \"swish\", must be one of \"gelu\", \"relu\""));
    cr_assert_eq(br_auto_config_choice(config, "hidden_act", BR_CHOICES("swish")), -1, "pending");
    br_clear_error();
    cr_assert_eq(br_auto_config_choice(config, "n", BR_CHOICES("1")), -1);
    br_clear_error();
    cr_assert_eq(br_auto_config_choice(config, "hidden_act", 0, NULL), -1);
    br_clear_error();
    br_auto_config_free(config);
}

/* While an error is pending, functions return nothing, and the error stays pending. */
Test(auto_config, pending_errors)
{
    br_auto_config *config = br_auto_config_load(BERT);
    br_raise(BR_ERROR_STATE, "earlier");
    cr_assert_null(br_auto_config_load(BERT));
    cr_assert_eq(br_auto_config_size(config, "hidden_size"), 0);
    cr_assert_eq(br_auto_config_probability(config, "hidden_dropout_prob"), 0);
    cr_assert_not(br_auto_config_has(config, "hidden_size"));
    cr_assert_not(br_auto_config_bool(config, "use_cache"));
    cr_assert_null(br_auto_config_string(config, "hidden_act"));
    cr_assert_null(br_auto_config_list_string(config, "architectures", 0));
    cr_assert_eq(br_auto_config_list_size(config, "architectures"), -1);
    cr_assert_null(br_auto_config_label(config, 0));
    cr_assert_eq(br_anatomy_config_from(config).hidden_size, 0);
    cr_assert_str_eq(br_error_message(), "earlier");
    br_clear_error();
    br_auto_config_free(config);
}

/* ---- Defaults -------------------------------------------------------------------------------- */

/* Checks that the value of a key, read with the function for its type, is `want`. */
static void check_value(const br_auto_config *config, const char *key, const json_t *want)
{
    switch (json_typeof(want)) {
    case JSON_INTEGER:
        cr_assert_eq(br_auto_config_integer(config, key), json_integer_value(want), "%s", key);
        break;
    case JSON_REAL:
        cr_assert_eq(br_auto_config_number(config, key), json_real_value(want), "%s", key);
        break;
    case JSON_STRING:
        cr_assert_str_eq(br_auto_config_string(config, key), json_string_value(want), "%s", key);
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        cr_assert_eq(br_auto_config_bool(config, key), json_is_true(want), "%s", key);
        break;
    default:
        cr_assert(json_is_null(want) && !br_auto_config_has(config, key), "%s", key);
        cr_assert_eq(br_auto_config_list_size(config, key), 0, "%s", key);
    }
    check_ok();
}

/* Checks the defaults of a file with only a model_type, for each type in transformers. */
Test(auto_config, defaults_are_those_of_transformers)
{
    json_t *types = json_load_file(BRASA_TEST_DIR "/pretrained/auto_config_defaults.json", 0, NULL);
    size_t families = 0;
    while (br_model_families[families])
        families++;
    cr_assert_eq(json_object_size(types), families);
    const char *type, *key, *name;
    json_t *recorded, *want, *own;
    json_object_foreach(types, type, recorded)
    {
        char text[64];
        snprintf(text, sizeof text, "{\"model_type\": \"%s\"}", type);
        br_auto_config *config = with(text);
        json_object_foreach(json_object_get(recorded, "defaults"), key, want)
        {
            check_value(config, key, want);
        }
        json_object_foreach(json_object_get(recorded, "spellings"), name, own)
        {
            want = json_object_get(json_object_get(recorded, "defaults"), json_string_value(own));
            check_value(config, name, want);
        }
        br_auto_config_free(config);
    }
    json_decref(types);
}

Test(auto_config, keys_of_two_names)
{
    static const char *const files[] = {
        "{\"model_type\": \"gpt2\", \"n_embd\": 8}",
        "{\"model_type\": \"gpt2\", \"hidden_size\": 8}",
        "{\"model_type\": \"gpt2\", \"hidden_size\": 8, \"n_embd\": 8}",
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        br_auto_config *config = with(files[i]);
        cr_assert_eq(br_auto_config_size(config, "n_embd"), 8);
        cr_assert_eq(br_auto_config_size(config, "hidden_size"), 8);
        br_auto_config_free(config);
    }
    const char *text = "{\"model_type\": \"gpt2\", \"hidden_size\": 8, \"n_embd\": 9}";
    files_write(files_path("config.json"), text, strlen(text));
    check_fails(br_auto_config_load(files_path("config.json")),
                "hidden_size is 8, but its synonym n_embd is 9");
    br_auto_config *bert = with("{\"model_type\": \"bert\", \"n_embd\": 9}");
    cr_assert_eq(br_auto_config_size(bert, "hidden_size"), 768,
                 "n_embd is not a name of bert's hidden_size");
    br_auto_config_free(bert);
}

/* By default, T5's decoder has as many layers as its encoder. */
Test(auto_config, a_default_that_is_another_key)
{
    static const char *const files[] = {
        "{\"model_type\": \"t5\", \"num_layers\": 3}",
        "{\"model_type\": \"t5\", \"num_hidden_layers\": 3}",
        "{\"model_type\": \"t5\", \"num_layers\": 3, \"num_decoder_layers\": null}",
        "{\"model_type\": \"t5\", \"num_layers\": 2, \"num_decoder_layers\": 3}",
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        br_auto_config *config = with(files[i]);
        cr_assert_eq(br_auto_config_size(config, "num_decoder_layers"), 3, "%s", files[i]);
        br_auto_config_free(config);
    }
}

/* As in transformers, T5's weights are tied unless the file says false; other models refuse null.
 */
Test(auto_config, tie_word_embeddings_of_t5_may_be_null)
{
    br_auto_config *config = with("{\"model_type\": \"t5\", \"tie_word_embeddings\": null}");
    cr_assert(br_auto_config_bool(config, "tie_word_embeddings"));
    br_t5_config t5 = br_t5_config_from(config);
    check_ok();
    cr_assert(!t5.untied && !t5.unscaled);
    br_auto_config_free(config);
    config = with("{\"model_type\": \"bert\", \"tie_word_embeddings\": null}");
    check_fails(br_hf_bert_config_from(config).hidden_size,
                "tie_word_embeddings is null, must be true or false");
    br_auto_config_free(config);
}

/* Ids that are not in the vocabulary are refused only where transformers refuses them: the padding
 * of a BERT is a row of its embeddings. */
Test(auto_config, ids_of_special_tokens)
{
    static const struct {
        const char *id;
        int64_t padding;
    } good[] = { { "null", -1 }, { "39", 39 }, { "0", 0 }, { "-1", 39 }, { "-40", 0 } };
    char text[300];
    br_auto_config *config;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        snprintf(text, sizeof text,
                 "{\"model_type\": \"bert\", \"vocab_size\": 40, \"pad_token_id\": %s, "
                 "\"eos_token_id\": 99, \"bos_token_id\": 99}",
                 good[i].id);
        config = with(text);
        cr_assert_eq(br_hf_bert_config_from(config).pad_token_id, good[i].padding, "%s",
                     good[i].id);
        check_ok();
        br_auto_config_free(config);
    }
    config = with("{\"model_type\": \"bert\", \"vocab_size\": 40, \"pad_token_id\": 40}");
    check_fails(br_hf_bert_config_from(config).hidden_size,
                "config.json: pad_token_id is 40, but vocab_size is 40: must be null or -40 .. 39");
    br_auto_config_free(config);
    config = with("{\"model_type\": \"bert\", \"vocab_size\": 40, \"pad_token_id\": -41}");
    check_fails(br_hf_bert_config_from(config).hidden_size, "pad_token_id is -41, but");
    br_auto_config_free(config);
    config = with("{\"model_type\": \"gpt2\", \"vocab_size\": 40, \"pad_token_id\": 99}");
    cr_assert_eq(br_gpt2_config_from(config).vocab_size, 40, "%s", br_error_message());
    br_auto_config_free(config);
    config = with("{\"model_type\": \"t5\", \"vocab_size\": 40, \"pad_token_id\": null, "
                  "\"decoder_start_token_id\": 99, \"eos_token_id\": 99}");
    br_t5_config t5 = br_t5_config_from(config);
    check_ok();
    cr_assert(t5.vocab_size == 40 && t5.pad_token_id == -1 && t5.decoder_start_token_id == 99);
    br_auto_config_free(config);
}

/* ---- Lists and labels ------------------------------------------------------------------------ */

Test(auto_config, lists)
{
    br_auto_config *config = with("{\"architectures\": [\"A\", \"B\"], \"eos_token_id\": [2, -3],"
                                  "\"one\": 7, \"none\": [], \"mixed\": [1, \"x\", null, 0.5]}");
    cr_assert_eq(br_auto_config_list_size(config, "architectures"), 2);
    cr_assert_str_eq(br_auto_config_list_string(config, "architectures", 1), "B");
    cr_assert_eq(br_auto_config_list_integer(config, "eos_token_id", 1), -3);
    cr_assert_eq(br_auto_config_list_size(config, "one"), 1);
    cr_assert_eq(br_auto_config_list_integer(config, "one", 0), 7);
    cr_assert_eq(br_auto_config_list_size(config, "none"), 0);
    cr_assert_eq(br_auto_config_list_number(config, "mixed", 3), 0.5);
    cr_assert_eq(br_auto_config_list_number(config, "mixed", 0), 1);
    cr_assert_eq(br_auto_config_list_number(config, "one", 0), 7);
    check_ok();
    check_fails(br_auto_config_list_string(config, "architectures", 2),
                "architectures has no element 2, its length is 2");
    check_fails(br_auto_config_list_integer(config, "one", -1), "one has no element -1");
    check_fails(br_auto_config_list_string(config, "one", 0), "one is 7, must be a string");
    check_fails(br_auto_config_list_integer(config, "mixed", 1),
                "mixed[1] is the string \"x\", must be an integer");
    check_fails(br_auto_config_list_string(config, "mixed", 2), "mixed[2] is null, must be");
    check_fails(br_auto_config_list_number(config, "mixed", 1),
                "mixed[1] is the string \"x\", must be a number");
    check_fails(br_auto_config_list_string(config, "other", 0), "other is missing");
    br_auto_config_free(config);
}

static void check_label(const br_auto_config *config, int64_t id, const char *want)
{
    char *label = br_auto_config_label(config, id);
    cr_assert(label, "%s", br_error_message());
    cr_assert_str_eq(label, want);
    br_free(label);
}

Test(auto_config, labels)
{
    br_auto_config *config = with("{}");
    check_label(config, 1, "LABEL_1");
    check_fails(br_auto_config_label(config, 2), "label 2 is outside 0 .. 1");
    br_auto_config_free(config);

    config = with("{\"num_labels\": 3, \"id2label\": null}");
    check_label(config, 2, "LABEL_2");
    br_auto_config_free(config);

    config = with("{\"id2label\": {\"0\": \"no\", \"1\": \"yes\", \"7\": \"?\", \"3\": 5}}");
    cr_assert_eq(br_auto_config_size(config, "num_labels"), 4);
    check_label(config, 1, "yes");
    check_fails(br_auto_config_label(config, -1), "label -1 is outside 0 .. 3");
    check_fails(br_auto_config_label(config, 2), "id2label[\"2\"] is missing, must be a string");
    check_fails(br_auto_config_label(config, 3), "id2label[\"3\"] is 5, must be a string");
    br_auto_config_free(config);

    /* If the two contradict each other, num_labels counts, as in transformers. */
    static const struct {
        const char *number;
        int64_t n;
        const char *label;
    } cases[] = { { "", 2, "yes" },
                  { "\"num_labels\": 2, ", 2, "yes" },
                  { "\"num_labels\": 5, ", 5, "LABEL_1" },
                  { "\"num_labels\": 3, ", 3, "LABEL_1" } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[100];
        snprintf(text, sizeof text, "{%s\"id2label\": {\"0\": \"no\", \"1\": \"yes\"}}",
                 cases[i].number);
        config = with(text);
        cr_assert_eq(br_auto_config_size(config, "num_labels"), cases[i].n);
        check_label(config, 1, cases[i].label);
        br_auto_config_free(config);
    }
    config = with("{\"num_labels\": null, \"id2label\": {\"0\": \"no\"}}");
    cr_assert(br_auto_config_is_null(config, "num_labels"));
    cr_assert(!br_auto_config_is_null(config, "id2label"));
    cr_assert(!br_auto_config_is_null(config, "hidden_size"));
    check_fails(br_auto_config_label(config, 0), "num_labels is null, must be an integer");
    br_auto_config_free(config);
}

/* ---- Models ---------------------------------------------------------------------------------- */

/* Both structs have these fields in a different order. */
#define CHECK_CONFIG(c, want)                                                 \
    cr_assert((c).vocab_size == (want).vocab_size);                           \
    cr_assert((c).hidden_size == (want).hidden_size);                         \
    cr_assert((c).num_hidden_layers == (want).num_hidden_layers);             \
    cr_assert((c).num_attention_heads == (want).num_attention_heads);         \
    cr_assert((c).intermediate_size == (want).intermediate_size);             \
    cr_assert((c).max_position_embeddings == (want).max_position_embeddings); \
    cr_assert((c).num_labels == (want).num_labels);                           \
    cr_assert((c).hidden_dropout_prob == (want).hidden_dropout_prob);         \
    cr_assert((c).pad_token_id == (want).pad_token_id && !(c).mask_padding && !(c).small_eps)

Test(auto_config, configurations_of_bert)
{
    br_auto_config *config = br_auto_config_load(BERT);
    br_anatomy_config anatomy = br_anatomy_config_from(config);
    CHECK_CONFIG(anatomy, br_anatomy_notebook_config());
    br_architecture_config architecture = br_architecture_config_from(config);
    CHECK_CONFIG(architecture, br_architecture_bert_config());
    check_ok();
    br_auto_config_free(config);
}

/* Builds a model from a file with other numbers. */
Test(auto_config, a_model_of_a_file)
{
    br_auto_config *auto_config =
        with("{\"model_type\": \"bert\", \"vocab_size\": 11, \"hidden_size\": 12,"
             "\"num_hidden_layers\": 3, \"num_attention_heads\": 4, \"intermediate_size\": 20,"
             "\"max_position_embeddings\": 8, \"hidden_dropout_prob\": 0.25, \"pad_token_id\": 5,"
             "\"id2label\": {\"0\": \"a\", \"1\": \"b\", \"2\": \"c\"}}");
    br_anatomy_config config = br_anatomy_config_from(auto_config);
    br_architecture_config other = br_architecture_config_from(auto_config);
    br_auto_config_free(auto_config);
    cr_assert_eq(config.hidden_dropout_prob, 0.25);
    cr_assert(config.pad_token_id == 5 && other.pad_token_id == 5 && other.num_labels == 3);
    br_anatomy_classifier *model = br_anatomy_classifier_new(&config);
    br_scope *scope = br_scope_begin();
    br_tensor *logits = br_anatomy_classifier_forward(
        model, br_from_i64(BR_SHAPE(2, 3), (int64_t[]){ 4, 10, 2, 0, 4, 4 }));
    cr_assert(br_size(logits, 0) == 2 && br_size(logits, 1) == 3);
    check_ok();
    br_scope_end(scope);
    br_module_free(model);
}

Test(auto_config, files_that_no_model_can_be_made_of)
{
    static const struct {
        const char *members, *message;
    } cases[] = {
        { "\"hidden_size\": 770",
          "config.json: hidden_size 770 is not divisible by num_attention_heads 12" },
        { "\"num_attention_heads\": 0", "num_attention_heads is 0, must be 1 .. 2147483647" },
        { "\"num_hidden_layers\": 0", "num_hidden_layers is 0, must be 1 .. 2147483647" },
        { "\"num_hidden_layers\": 2147483648", "num_hidden_layers is 2147483648, must be" },
        { "\"vocab_size\": -1", "vocab_size is -1" },
        { "\"intermediate_size\": 1e3",
          "intermediate_size is the number 1000, must be an integer" },
        { "\"hidden_dropout_prob\": \"0.1\"", "hidden_dropout_prob is the string \"0.1\"" },
        { "\"hidden_dropout_prob\": 2", "hidden_dropout_prob is 2, must be 0 .. 1" },
        { "\"id2label\": {}", "num_labels is 0, must be 1" },
        { "\"pad_token_id\": \"[PAD]\"", "pad_token_id is the string \"[PAD]\"" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[128];
        snprintf(text, sizeof text, "{\"model_type\": \"bert\", %s}", cases[i].members);
        br_auto_config *config = with(text);
        check_fails(br_anatomy_config_from(config).hidden_size, cases[i].message);
        check_fails(br_architecture_config_from(config).hidden_size, cases[i].message);
        br_auto_config_free(config);
    }
    br_auto_config *gpt2 = with("{\"model_type\": \"gpt2\"}");
    check_fails(br_anatomy_config_from(gpt2).hidden_size,
                "intermediate_size is missing and has no default for model_type gpt2");
    check_fails(br_anatomy_config_from(NULL).hidden_size, "config is NULL");
    br_auto_config_free(gpt2);
}

/* A beta of 0 in a file counts as none, as in transformers. */
Test(auto_config, betas_of_0)
{
    const char *text = "{\"model_type\": \"llama\", \"rope_scaling\": {\"type\": \"yarn\", "
                       "\"factor\": 4, \"beta_fast\": 0, \"beta_slow\": 0}}";
    files_write(files_path("config.json"), text, strlen(text));
    br_auto_config *config = br_auto_config_load(files_path("config.json"));
    cr_assert(config, "%s", br_error_message());
    br_llama_config c = br_llama_config_from(config);
    cr_assert(c.rope.type == BR_ROPE_YARN && c.rope.factor == 4, "%s", br_error_message());
    cr_assert(c.rope.beta_fast == 32 && c.rope.beta_slow == 1);
    br_auto_config_free(config);
}

/* The factor of YaRN is the ratio of the two lengths if the file has none. */
Test(auto_config, yarn_without_a_factor)
{
    br_auto_config *config =
        with("{\"model_type\": \"llama\", \"max_position_embeddings\": 96, \"rope_scaling\": "
             "{\"type\": \"yarn\", \"original_max_position_embeddings\": 64}}");
    br_llama_config c = br_llama_config_from(config);
    check_ok();
    cr_assert(c.rope.type == BR_ROPE_YARN && c.rope.factor == 1.5, "%g", c.rope.factor);
    br_auto_config_free(config);
}
