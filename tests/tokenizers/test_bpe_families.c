/* tests/tokenizers/test_bpe_families.c - the byte-level BPE of Llama 3, Qwen, SmolLM and GPT-NeoX:
 * encoding compared with recorded results of the fast tokenizer in PyPI's `tokenizers`
 * (bpe_family_cases.json, written by record_bpe_families.py), and what is refused. */
#include "tests/io/files.h"
#include "tests/tokenizers/encodings.h"

TestSuite(bpe_families, .init = files_begin, .fini = files_end);

/* With ignore_merges, every seventh merge is missing. */
static void drop_merges(json_t *model)
{
    json_t *merges = json_object_get(model, "merges"), *kept = json_array(), *merge;
    size_t i;
    json_array_foreach(merges, i, merge)
    {
        if (i % 7 != 6)
            json_array_append(kept, merge);
    }
    json_object_set_new(model, "merges", kept);
    json_object_set_new(model, "ignore_merges", json_true());
}

/* Loads the tokenizer of bpe/ with the parts of a family. */
static br_tokenizer *with_parts(const json_t *parts)
{
    json_t *root = json_load_file(BRASA_TEST_DIR "/tokenizers/bpe/tokenizer.json", 0, NULL);
    json_object_set(root, "normalizer", json_object_get(parts, "normalizer"));
    json_object_set(root, "pre_tokenizer", json_object_get(parts, "pre_tokenizer"));
    if (json_is_true(json_object_get(parts, "ignore_merges")))
        drop_merges(json_object_get(root, "model"));
    cr_assert_eq(json_dump_file(root, files_path("tokenizer.json"), 0), 0);
    json_decref(root);
    return br_tokenizer_from_json(files_path("tokenizer.json"));
}

Test(bpe_families, recorded_texts)
{
    json_error_t error;
    json_t *cases =
        json_load_file(BRASA_TEST_DIR "/tokenizers/bpe_family_cases.json", JSON_ALLOW_NUL, &error);
    cr_assert(cases, "%s", error.text);
    cr_assert_gt(json_array_size(cases), 70);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *c = json_array_get(cases, i);
        br_tokenizer *t = with_parts(c);
        cr_assert(t, "%s", br_error_message());
        check_case((int)i, c, t, BR_OPTIONS(br_encode, .max_length = 0));
        br_tokenizer_free(t);
    }
    json_decref(cases);
}

#define BYTES "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": "
#define SPLIT(pattern, more)                                                                   \
    "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", \"pattern\": " pattern \
    ", \"behavior\": \"Isolated\", \"invert\": false}, " BYTES more "}]}"

Test(bpe_families, unsupported_parts)
{
    static const struct {
        const char *pre_tokenizer, *message;
    } rows[] = {
        { SPLIT("{\"Regex\": \"[a-z]+\"}", "false"),
          "the Regex of Split is not supported: [a-z]+" },
        { SPLIT("{\"String\": \" \"}", "false"), "a Split before ByteLevel must have a Regex" },
        { SPLIT("{\"Regex\": \"'(?:[sdmt]|ll|ve|re)| ?\\\\p{L}+| ?\\\\p{N}+| "
                "?[^\\\\s\\\\p{L}\\\\p{N}]+|"
                "\\\\s+(?!\\\\S)|\\\\s+\"}",
                "true"),
          "ByteLevel after Split has use_regex true" },
        { "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Digits\", "
          "\"individual_digits\": false}, " BYTES "true}]}",
          "individual_digits of Digits is false" },
        { "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Punctuation\"}, " BYTES
          "true}]}",
          "only Split or Digits may precede ByteLevel" },
        { "{\"type\": \"Whitespace\"}", "must be ByteLevel, or Split or Digits followed by" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *parts = json_pack("{s:n, s:o}", "normalizer", "pre_tokenizer",
                                  json_loads(rows[i].pre_tokenizer, 0, NULL));
        check_fails(with_parts(parts), rows[i].message);
        json_decref(parts);
    }
}

/* With ignore_merges, a word is looked up among the tokens of the model only, as in `tokenizers`,
 * not among the added tokens. */
Test(bpe_families, a_word_that_is_an_added_token)
{
    static const char file[] =
        "{\"added_tokens\":[{\"id\":5,\"content\":\"hello\",\"single_word\":false,\"lstrip\":false,"
        "\"rstrip\":false,\"normalized\":false,\"special\":true}],\"normalizer\":null,"
        "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},\"decoder\":null,"
        "\"model\":{\"type\":\"BPE\",\"ignore_merges\":true,\"vocab\":{\"h\":0,\"e\":1,\"l\":2,"
        "\"o\":3,\"he\":4},\"merges\":[\"h e\"]}}";
    files_write(files_path("tokenizer.json"), file, sizeof file - 1);
    br_tokenizer *t = br_tokenizer_from_json(files_path("tokenizer.json"));
    cr_assert(t, "%s", br_error_message());
    for (int splits = 0; splits < 2; splits++) {
        br_encoding *e = br_tokenizer_encode(t, &(br_text){ "hello", -1 }, NULL,
                                             BR_OPTIONS(br_encode, .split_special_tokens = splits));
        cr_assert(e, "%s", br_error_message());
        cr_assert_eq(e->length, splits ? 4 : 1);
        cr_assert_eq(e->ids[0], splits ? 4 : 5);
        br_encoding_free(e);
    }
    br_tokenizer_free(t);
}

static void write_text(const char *name, const char *text)
{
    files_write(files_path(name), text, strlen(text));
}

/* Loads the tokenizers of all families as a class, which only one family may have. */
static void check_class(const char *class, const char *family)
{
    json_t *cases =
        json_load_file(BRASA_TEST_DIR "/tokenizers/bpe_family_cases.json", JSON_ALLOW_NUL, NULL);
    char text[100], message[100];
    snprintf(text, sizeof text, "{\"tokenizer_class\": \"%s\"}", class);
    snprintf(message, sizeof message, "must be those of %s", class);
    write_text("config.json", "{}");
    write_text("tokenizer_config.json", text);
    int loaded = 0, refused = 0;
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *c = json_array_get(cases, i);
        bool is_it = strcmp(json_string_value(json_object_get(c, "family")), family) == 0;
        br_tokenizer_free(with_parts(c));
        br_tokenizer *t = br_auto_tokenizer_load(files_path("."), NULL);
        cr_assert_eq(t != NULL, is_it, "%s", br_error_message());
        if (!t)
            check_fails(!br_failed(), message);
        loaded += t != NULL;
        refused += !t;
        br_tokenizer_free(t);
        br_clear_error();
    }
    cr_assert(loaded > 10 && refused > 30);
    json_decref(cases);
}

/* Qwen2Tokenizer and GPTNeoXTokenizer of transformers replace the parts of the file, so others are
 * refused. */
Test(bpe_families, classes_with_parts_of_their_own)
{
    check_class("Qwen2Tokenizer", "Qwen");
    check_class("GPTNeoXTokenizer", "GPT-NeoX");
}

/* GPTNeoXTokenizer puts no tokens around a text, whatever the file says. */
Test(bpe_families, ends_of_gpt_neox)
{
    json_t *root = json_load_file(BRASA_TEST_DIR "/tokenizers/bpe/tokenizer.json", 0, NULL);
    json_object_set_new(root, "normalizer", json_pack("{s:s}", "type", "NFC"));
    json_object_set_new(
        root, "post_processor",
        json_loads("{\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": "
                   "\"<|endoftext|>\", \"type_id\": 0}}, {\"Sequence\": {\"id\": \"A\", "
                   "\"type_id\": 0}}], "
                   "\"pair\": [{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}, {\"Sequence\": "
                   "{\"id\": \"B\", "
                   "\"type_id\": 1}}], \"special_tokens\": {\"<|endoftext|>\": {\"id\": "
                   "\"<|endoftext|>\", "
                   "\"ids\": [0], \"tokens\": [\"<|endoftext|>\"]}}}",
                   0, NULL));
    cr_assert_eq(json_dump_file(root, files_path("tokenizer.json"), 0), 0);
    json_decref(root);
    write_text("config.json", "{\"model_type\": \"gpt_neox\"}");
    check_fails(br_auto_tokenizer_load(files_path("."), NULL), "post_processor must add no tokens");
}
