/* tests/tokenizers/test_auto_tokenizer.c - the tokenizer of a model folder: which file it is loaded
 * from, what the side files change, compared with recorded results of the AutoTokenizer of PyPI's
 * `transformers` (auto_cases.json, written by record_auto.py; class_cases.json, by
 * record_classes.py), and invalid side files. */
#include "tests/io/files.h"
#include "tests/memory.h"
#include "tests/support.h"
#include "tests/tokenizers/encodings.h"
#include "tokenizers/tokenizer_config.h"

#include <brasa/pretrained/auto_config.h>
#include <brasa/tokenizers.h>
#include <unistd.h>

TestSuite(auto_tokenizer, .init = files_begin, .fini = files_end);

static void copy(const char *from, const char *name)
{
    size_t n;
    char *text = files_read(from, &n);
    files_write(files_path(name), text, n);
    free(text);
}

static br_tokenizer *load(const br_auto_tokenizer_options *options)
{
    return br_auto_tokenizer_load(files_path(""), options);
}

static void check_size(int64_t size)
{
    br_tokenizer *t = load(NULL);
    cr_assert(t, "%s", br_error_message());
    cr_assert_eq(br_tokenizer_size(t), size);
    br_tokenizer_free(t);
}

Test(auto_tokenizer, the_first_file_that_exists)
{
    check_fails(load(NULL), "there is no tokenizer.json");
    check_fails(br_auto_tokenizer_load(NULL, NULL), "dir is NULL");
    copy(BRASA_TEST_DIR "/tokenizers/tokenizer_vocab.txt", "vocab.txt");
    check_size(344);
    copy(BRASA_TEST_DIR "/tokenizers/unigram/spiece.model", "spiece.model");
    check_size(800);
    copy(BRASA_TEST_DIR "/tokenizers/bpe/vocab.json", "vocab.json");
    check_fails(load(NULL), "merges.txt");
    copy(BRASA_TEST_DIR "/tokenizers/bpe/merges.txt", "merges.txt");
    check_size(314);
    copy(BRASA_TEST_DIR "/tokenizers/unigram/tokenizer.json", "tokenizer.json");
    check_size(703);
    check_fails(load(BR_OPTIONS(br_auto_tokenizer, .do_lower_case = BR_SETTING_OFF)),
                "option do_lower_case does not apply to the tokenizer of tokenizer.json");
    files_write(files_path("tokenizer.json"), "{", 1);
    check_fails(load(NULL), "tokenizer.json");
}

/* ---- Recorded folders ------------------------------------------------------------------------ */

static void write_folder(const json_t *record)
{
    const char *name;
    json_t *value;
    json_object_foreach(json_object_get(record, "copies"), name, value)
    {
        char path[512];
        snprintf(path, sizeof path, BRASA_TEST_DIR "/tokenizers/%s", json_string_value(value));
        copy(path, name);
    }
    json_object_foreach(json_object_get(record, "files"), name, value)
    {
        files_write(files_path(name), json_string_value(value), json_string_length(value));
    }
}

static void remove_files(void)
{
    static const char *const names[] = { "vocab.txt",
                                         "vocab.json",
                                         "merges.txt",
                                         "spiece.model",
                                         "sentencepiece.bpe.model",
                                         "tokenizer.json",
                                         "config.json",
                                         "added_tokens.json",
                                         "special_tokens_map.json",
                                         "tokenizer_config.json" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlink(files_path(names[i]));
}

static void replay(int at, const br_tokenizer *t, json_t *c)
{
    br_text text[2];
    size_t n = recorded_texts(json_object_get(c, "texts"), text);
    br_encoding *e = br_tokenizer_encode(t, &text[0], n > 1 ? &text[1] : NULL, NULL);
    cr_assert(e, "case %d: %s", at, br_error_message());
    check_numbers(at, c, "ids", e->ids, e->length);
    check_numbers(at, c, "type_ids", e->type_ids, e->length);
    br_encoding_free(e);
}

/* Replays the folders of a file of recorded cases. */
static void check_folders(const char *path, size_t least)
{
    json_error_t error;
    json_t *records = json_load_file(path, 0, &error), *record;
    cr_assert(records, "%s", error.text);
    cr_assert_geq(json_array_size(records), least);
    size_t i, k;
    json_array_foreach(records, i, record)
    {
        write_folder(record);
        br_tokenizer *t = load(NULL);
        cr_assert(t, "folder %zu: %s", i, br_error_message());
        json_t *c;
        json_array_foreach(json_object_get(record, "cases"), k, c)
        {
            replay((int)(100 * i + k), t, c);
        }
        br_tokenizer_free(t);
        remove_files();
    }
    json_decref(records);
}

Test(auto_tokenizer, recorded_folders)
{
    check_folders(BRASA_TEST_DIR "/tokenizers/auto_cases.json", 16);
}

/* RoBERTa, XLM-RoBERTa, CamemBERT, ALBERT and MPNet without tokenizer.json, and the classes that
 * replace parts of it. */
Test(auto_tokenizer, recorded_folders_of_other_classes)
{
    check_folders(BRASA_TEST_DIR "/tokenizers/class_cases.json", 18);
}

/* ---- Keys ------------------------------------------------------------------------------------ */

#define H BR_KEY_HONOURED
#define N BR_KEY_HARMLESS
#define C BR_KEY_CHECKED

/* Every key that transformers 5.24 writes for BERT, GPT-2 and T5, or that older versions wrote,
 * into tokenizer_config.json and special_tokens_map.json. added_tokens.json has tokens as keys. */
static const struct {
    const char *models, *key;
    br_key_effect effect;
} keys[] = {
    { "BERT GPT-2 T5", "tokenizer_class", H },
    { "BERT GPT-2 T5", "added_tokens_decoder", H },
    { "BERT GPT-2 T5", "extra_special_tokens", H },
    { "BERT GPT-2 T5", "additional_special_tokens", H },
    { "BERT GPT-2 T5", "split_special_tokens", H },
    { "BERT GPT-2 T5", "unk_token", H },
    { "BERT GPT-2 T5", "pad_token", H },
    { "BERT", "cls_token", H },
    { "BERT", "sep_token", H },
    { "BERT", "mask_token", H },
    { "GPT-2", "bos_token", H },
    { "GPT-2 T5", "eos_token", H },
    { "BERT", "do_lower_case", H },
    { "BERT", "strip_accents", H },
    { "BERT", "tokenize_chinese_chars", H },
    { "GPT-2", "add_prefix_space", H },
    { "GPT-2", "add_bos_token", H },
    { "GPT-2", "add_eos_token", H },
    { "T5", "extra_ids", H },
    { "a model with images", "image_token", H },
    { "BERT", "word_tokenizer_type", C },
    { "BERT", "subword_tokenizer_type", C },
    { "BERT GPT-2 T5", "auto_map", C },
    { "BERT GPT-2 T5", "init_inputs", C },
    { "BERT GPT-2 T5", "fast_tokenizer_files", C },
    { "BERT GPT-2 T5", "backend", N },
    { "BERT GPT-2 T5", "is_local", N },
    { "BERT GPT-2 T5", "local_files_only", N },
    { "BERT GPT-2 T5", "model_max_length", N },
    { "BERT GPT-2 T5", "max_length", N },
    { "BERT GPT-2 T5", "stride", N },
    { "BERT GPT-2 T5", "truncation_side", N },
    { "BERT GPT-2 T5", "truncation_strategy", N },
    { "BERT GPT-2 T5", "padding_side", N },
    { "BERT GPT-2 T5", "pad_to_multiple_of", N },
    { "BERT GPT-2 T5", "pad_token_type_id", N },
    { "BERT GPT-2 T5", "clean_up_tokenization_spaces", H },
    { "BERT GPT-2 T5", "model_input_names", H },
    { "BERT GPT-2 T5", "name_or_path", N },
    { "BERT GPT-2 T5", "special_tokens_map_file", N },
    { "BERT GPT-2 T5", "tokenizer_file", N },
    { "BERT GPT-2 T5", "processor_class", N },
    { "BERT GPT-2 T5", "chat_template", N },
    { "BERT", "do_basic_tokenize", N },
    { "BERT", "never_split", N },
    { "GPT-2", "errors", N },
    { "T5", "legacy", N },
    { "T5", "sp_model_kwargs", N },
    { "T5", "unk_id", N },
    { "none", "do_lowercase", BR_KEY_UNKNOWN },
};

Test(auto_tokenizer, every_key)
{
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        cr_assert_eq(br__tokenizer_key_effect(keys[i].key), keys[i].effect, "%s of %s", keys[i].key,
                     keys[i].models);
}

/* ---- Side files ------------------------------------------------------------------------------ */

static void put(const char *name, const char *text)
{
    files_write(files_path(name), text, strlen(text));
}

static void check_ids(const br_auto_tokenizer_options *o, const char *text, int64_t n,
                      const int64_t *ids)
{
    br_tokenizer *t = load(o);
    cr_assert(t, "%s", br_error_message());
    br_encoding *e = br_tokenizer_encode(t, &(br_text){ text, -1 }, NULL, NULL);
    cr_assert(e, "%s", br_error_message());
    cr_assert_eq(e->length, n, "%s: %lld ids", text, (long long)e->length);
    for (int64_t i = 0; i < n; i++)
        cr_assert_eq(e->ids[i], ids[i], "%s: id %lld is %lld", text, (long long)i,
                     (long long)e->ids[i]);
    br_encoding_free(e);
    br_tokenizer_free(t);
}

static const char vocab[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nA\n\xc3\xa9\ne\n\xe4\xb8\xad\n"
                            "##\xe4\xb8\xad\n<\nb\n";

Test(auto_tokenizer, settings)
{
    put("vocab.txt", vocab);
    check_ids(NULL, "A \xc3\xa9 a\xe4\xb8\xad", 6, (int64_t[]){ 2, 5, 8, 5, 9, 3 });
    put("tokenizer_config.json",
        "{\"do_lower_case\":false,\"strip_accents\":false,\"tokenize_chinese_chars\":false,"
        "\"model_max_length\":1000000000000000019884624838656}");
    check_ids(NULL, "A \xc3\xa9 a\xe4\xb8\xad", 6, (int64_t[]){ 2, 6, 7, 5, 10, 3 });
    check_ids(BR_OPTIONS(br_auto_tokenizer, .do_lower_case = BR_SETTING_ON,
                         .strip_accents = BR_SETTING_ON, .tokenize_chinese_chars = BR_SETTING_ON),
              "A \xc3\xa9 a\xe4\xb8\xad", 6, (int64_t[]){ 2, 5, 8, 5, 9, 3 });
    put("tokenizer_config.json", "{\"split_special_tokens\":true}");
    check_ids(NULL, "[MASK]", 5, (int64_t[]){ 2, 1, 1, 1, 3 });
}

static void check_decoded(const char *config, const char *expected)
{
    put("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nn\n'\nt\n.\nve\n");
    put("tokenizer_config.json", config);
    br_tokenizer *t = load(NULL);
    cr_assert(t, "%s", br_error_message());
    static const int64_t ids[] = { 7, 5, 6, 7, 7, 6, 9, 6, 5, 6, 8 };
    int64_t length;
    char *text =
        br_tokenizer_decode_text(t, (int64_t)(sizeof ids / sizeof *ids), ids, false, &length);
    cr_assert_str_eq(text, expected);
    cr_assert_eq(length, (int64_t)strlen(expected));
    br_free(text);
    br_tokenizer_free(t);
}

/* The expected texts are those of transformers 5.24. */
Test(auto_tokenizer, clean_up_tokenization_spaces)
{
    check_decoded("{}", "t n ' t t ' ve ' n '.");
    check_decoded("{\"clean_up_tokenization_spaces\":null}", "t n ' t t ' ve ' n '.");
    check_decoded("{\"clean_up_tokenization_spaces\":true}", "tn't t've'n '.");
}

/* As in `tokenizers`, decoding keeps a special token that is written in another, normalized form.
 */
Test(auto_tokenizer, normalized_special_token)
{
    put("vocab.txt", vocab);
    put("tokenizer_config.json", "{\"added_tokens_decoder\":{\"4\":{\"content\":\"[MASK]\","
                                 "\"normalized\":true,\"special\":true}}}");
    br_tokenizer *t = load(NULL);
    cr_assert(t, "%s", br_error_message());
    char *text = br_tokenizer_decode(t, 4, (int64_t[]){ 2, 5, 4, 3 }, true);
    cr_assert_str_eq(text, "a [mask]");
    br_free(text);
    br_tokenizer_free(t);
}

Test(auto_tokenizer, added_tokens)
{
    put("vocab.txt", vocab);
    put("added_tokens.json", "{\"<|BOS|>\":13}");
    check_ids(NULL, "a<|bos|>a", 5, (int64_t[]){ 2, 5, 13, 5, 3 });
    check_ids(BR_OPTIONS(br_auto_tokenizer, .ignore_added_tokens = true), "b <", 4,
              (int64_t[]){ 2, 12, 11, 3 });
    put("tokenizer_config.json", "{\"bos_token\":\"<|BOS|>\"}");
    check_ids(NULL, "a<|BOS|>", 4, (int64_t[]){ 2, 5, 13, 3 });
    put("tokenizer_config.json", "{\"added_tokens_decoder\":{\"13\":{\"content\":\"b a\","
                                 "\"lstrip\":true}},\"pad_token\":null}");
    check_ids(NULL, "a B A", 4, (int64_t[]){ 2, 5, 13, 3 });
}

Test(auto_tokenizer, roles)
{
    put("vocab.txt", vocab);
    put("special_tokens_map.json", "{\"bos_token\":{\"content\":\"[CLS]\"},\"mask_token\":\"b\"}");
    br_tokenizer *t = load(NULL);
    cr_assert(t, "%s", br_error_message());
    static const int64_t want[] = { 2, -1, 1, 3, 0, 2, 12 };
    for (int role = 0; role <= BR_TOKEN_MASK; role++)
        cr_assert_eq(br_tokenizer_special_id(t, (br_special_token)role), want[role], "role %d",
                     role);
    check_fails(br_tokenizer_special_id(t, (br_special_token)7) != -1, "role is 7, must be one of");
    check_fails(br_tokenizer_special_id(NULL, BR_TOKEN_BOS) != -1, "tokenizer is NULL");
    br_tokenizer_free(t);
}

/* The expected ids are those of transformers 5.24. */
Test(auto_tokenizer, null_around_a_text)
{
    put("vocab.txt", "a\n[UNK]\nb\nc\n[CLS]\n[SEP]\n[PAD]\n[MASK]\n");
    put("tokenizer_config.json", "{\"cls_token\":null}");
    check_ids(NULL, "a", 3, (int64_t[]){ 2, 0, 5 });
    put("tokenizer_config.json", "{\"sep_token\":null}");
    check_ids(NULL, "a", 3, (int64_t[]){ 4, 0, 3 });
    put("tokenizer_config.json", "{\"sep_token\":null,\"cls_token\":null,\"mask_token\":null}");
    check_ids(NULL, "a", 3, (int64_t[]){ 3, 0, 3 });
    br_tokenizer *t = load(NULL);
    cr_assert_eq(br_tokenizer_special_id(t, BR_TOKEN_MASK), -1);
    cr_assert_eq(br_tokenizer_special_id(t, BR_TOKEN_PAD), 6);
    br_tokenizer_free(t);
}

/* A tokenizer.json without parts: a class that reads keys uses its own parts. */
Test(auto_tokenizer, parts_of_the_class)
{
    put("tokenizer.json", "{\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"vocab\":{"
                          "\"[UNK]\":0,\"[CLS]\":1,\"[SEP]\":2,\"a\":3,\"A\":4}}}");
    put("tokenizer_config.json", "{\"tokenizer_class\":\"PreTrainedTokenizerFast\"}");
    check_ids(NULL, "A", 1, (int64_t[]){ 4 });
    check_ids(NULL, "A a", 1, (int64_t[]){ 0 });
    put("tokenizer_config.json", "{\"tokenizer_class\":\"BertTokenizer\"}");
    check_ids(NULL, "A a", 4, (int64_t[]){ 1, 3, 3, 2 });
    put("tokenizer.json", "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"<|endoftext|>\":1},"
                          "\"merges\":[]}}");
    put("tokenizer_config.json", "{\"tokenizer_class\":\"GPT2Tokenizer\",\"add_bos_token\":true}");
    check_ids(NULL, "a", 1, (int64_t[]){ 0 });
}

/* As in `tokenizers`, a new token gets the number of different tokens as its id, which is that of
 * "c" here, because a line occurs twice. */
Test(auto_tokenizer, added_tokens_and_a_doubled_line)
{
    put("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\na\nb\nc\n");
    put("tokenizer_config.json", "{\"extra_special_tokens\":[\"<x>\",\"<y>\"]}");
    check_ids(NULL, "a <x> <y> c b", 7, (int64_t[]){ 2, 6, 8, 9, 8, 7, 3 });
    br_tokenizer *t = load(NULL);
    cr_assert_str_eq(br_tokenizer_token(t, 8), "<x>");
    cr_assert_eq(br_tokenizer_size(t), 10);
    br_tokenizer_free(t);
    put("tokenizer_config.json", "{}");
    put("added_tokens.json", "{\"<x>\":8}");
    check_ids(NULL, "a <x> c", 5, (int64_t[]){ 2, 6, 8, 8, 3 });
    put("added_tokens.json", "{\"<x>\":9}");
    check_fails(load(NULL), "'<x>' has id 9, but with vocab.txt it gets id 8");
}

/* ---- Contradictions -------------------------------------------------------------------------- */

static char warnings[2000];

static void note(br_error code, const char *message, void *context)
{
    (void)context;
    if (code == BR_WARNING)
        strncat(warnings, message, sizeof warnings - strlen(warnings) - 1);
}

static const char words_json[] =
    "{\"added_tokens\":[{\"id\":2,\"content\":\"[SEP]\",\"special\":true},{\"id\":5,\"content\":"
    "\"new\",\"lstrip\":true}],\"normalizer\":{\"type\":\"BertNormalizer\",\"lowercase\":true},"
    "\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"post_processor\":{\"type\":"
    "\"BertProcessing\",\"cls\":[\"[CLS]\",1],\"sep\":[\"[SEP]\",2]},\"decoder\":{\"type\":"
    "\"WordPiece\"},\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"vocab\":{\"[UNK]\":"
    "0,\"[CLS]\":1,\"[SEP]\":2,\"a\":3,\"A\":4}}}";

/* Loads tokenizer.json with side files and checks the warning, and the ids of "A new [CLS]". */
static void check_warning(const char *config, const char *map, const char *warning, int64_t n,
                          const int64_t *ids)
{
    put("tokenizer.json", words_json);
    put("tokenizer_config.json", config);
    put("special_tokens_map.json", map);
    warnings[0] = 0;
    br_set_error_callback(note, NULL);
    check_ids(NULL, "A new [CLS]", n, ids);
    br_set_error_callback(NULL, NULL);
    cr_assert(*warning ? strstr(warnings, warning) != NULL : !*warnings, "'%s' lacks '%s'",
              warnings, warning);
}

Test(auto_tokenizer, contradictions)
{
    static const int64_t plain[] = { 1, 3, 5, 0, 0, 0, 2 };
    check_warning("{}", "{}", "", 7, plain);
    check_warning("{\"do_lower_case\":false,\"tokenizer_class\":\"PreTrainedTokenizerFast\"}", "{}",
                  "", 7, plain);
    check_warning("{\"do_lower_case\":false,\"tokenizer_class\":\"BertTokenizer\"}", "{}",
                  "do_lower_case is false in tokenizer_config.json, but true in tokenizer.json", 7,
                  (int64_t[]){ 1, 4, 5, 0, 0, 0, 2 });
    check_warning("{\"strip_accents\":false,\"tokenizer_class\":\"BertTokenizerFast\"}", "{}",
                  "strip_accents is false in tokenizer_config.json, but true in", 7, plain);
    check_warning("{\"cls_token\":\"[CLS]\",\"lowercase\":1}", "{}",
                  "'lowercase' is not a known key", 5, (int64_t[]){ 1, 3, 5, 1, 2 });
    check_warning("{\"cls_token\":\"a\",\"tokenizer_class\":\"BertTokenizer\"}",
                  "{\"cls_token\":\"[CLS]\"}",
                  "cls_token is 'a' in tokenizer_config.json, but '[CLS]' in special_tokens_map", 5,
                  (int64_t[]){ 1, 3, 5, 1, 2 });
    check_warning("{\"sep_token\":\"a\",\"tokenizer_class\":\"BertTokenizer\"}", "{}",
                  "sep_token is 'a' in the side files, but '[SEP]' in tokenizer.json", 7,
                  (int64_t[]){ 1, 4 - 1, 5, 0, 0, 0, 3 });
    check_warning("{\"added_tokens_decoder\":{\"5\":{\"content\":\"new\",\"rstrip\":true}}}", "{}",
                  "flags of added token 'new' differ in tokenizer_config.json and tokenizer.json",
                  7, plain);
    check_warning("{\"added_tokens_decoder\":{},\"tokenizer_class\":\"BertTokenizer\"}", "{}",
                  "added token 'new' is in tokenizer.json, but not in added_tokens_decoder", 5,
                  (int64_t[]){ 1, 3, 0, 1, 2 });
}

Test(auto_tokenizer, classes)
{
    put("vocab.txt", vocab);
    static const char *const bad[][2] = {
        { "{\"tokenizer_class\":\"BertJapaneseTokenizer\"}",
          "is 'BertJapaneseTokenizer', which is" },
        { "{\"tokenizer_class\":\"OtherTokenizerFast\"}", "set the option tokenizer_class" },
        { "{\"tokenizer_class\":\"T5Tokenizer\"}", "needs spiece.model or tokenizer.json" },
        { "{\"tokenizer_class\":\"PreTrainedTokenizerFast\"}", "needs tokenizer.json, but" },
        { "{\"tokenizer_class\":3}", "tokenizer_class is 3.0, must be a string" },
        { "{\"word_tokenizer_type\":\"mecab\"}", "word_tokenizer_type is \"mecab\", which is not" },
        { "{\"subword_tokenizer_type\":\"character\"}", "must be 'wordpiece'" },
        { "{\"auto_map\":{\"AutoTokenizer\":[\"x.y\",null]}}", "class of the folder's own code" },
        { "{\"init_inputs\":[1]}", "init_inputs is [1.0], must be empty" },
        { "{\"fast_tokenizer_files\":[\"tokenizer.4.0.json\"]}", "only tokenizer.json is" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        put("tokenizer_config.json", bad[i][0]);
        check_fails(load(NULL), bad[i][1]);
    }
    put("tokenizer_config.json", bad[0][0]);
    check_ids(BR_OPTIONS(br_auto_tokenizer, .tokenizer_class = "BertTokenizer"), "a", 3,
              (int64_t[]){ 2, 5, 3 });
    check_fails(load(BR_OPTIONS(br_auto_tokenizer, .tokenizer_class = "bert")),
                "tokenizer_class is 'bert', must be BertTokenizer");
    unlink(files_path("tokenizer_config.json"));
    put("config.json", "{\"tokenizer_class\":\"BertJapaneseTokenizer\",\"model_type\":\"bert\"}");
    check_fails(load(NULL), "config.json: tokenizer_class is 'BertJapaneseTokenizer'");
    put("config.json", "{\"model_type\":\"t5\"}");
    warnings[0] = 0;
    br_set_error_callback(note, NULL);
    check_ids(NULL, "a", 3, (int64_t[]){ 2, 5, 3 });
    br_set_error_callback(NULL, NULL);
    cr_assert(strstr(warnings, "model_type of config.json is 't5', but the tokenizer is read from "
                               "vocab.txt"),
              "%s", warnings);
    put("config.json", "{\"model_type\":\"roberta\"}");
    check_fails(load(NULL),
                "config.json: model_type is 'roberta', which needs vocab.json or tokenizer.json");
    put("config.json", "{\"model_type\":\"modernbert\"}");
    check_fails(load(NULL),
                "model_type is 'modernbert', which needs tokenizer.json, but there is no "
                "such file; write one with AutoTokenizer.from_pretrained(DIR)");
    put("config.json", "{\"model_type\":\"mpnet\"}");
    put("tokenizer_config.json", "{\"cls_token\":\"[CLS]\"}");
    check_fails(load(NULL), "cls_token is '[CLS]', but without a tokenizer.json only '<s>' is "
                            "supported for MPNetTokenizer; write a tokenizer.json with");
    unlink(files_path("tokenizer_config.json"));
    put("config.json", "{\"model_type\":\"bert\"}");
    check_ids(NULL, "a", 3, (int64_t[]){ 2, 5, 3 });
    check_fails(load(BR_OPTIONS(br_auto_tokenizer, .add_prefix_space = BR_SETTING_ON)),
                "option add_prefix_space does not apply to the tokenizer of vocab.txt");
    check_fails(load(BR_OPTIONS(br_auto_tokenizer, .extra_ids = 1000000)), "extra_ids is 1000000");
}

Test(auto_tokenizer, bad_side_files)
{
    static const char config[] = "tokenizer_config.json", map[] = "special_tokens_map.json",
                      added[] = "added_tokens.json";
    static const char *const bad[][3] = {
        { config, "{", "tokenizer_config.json: line 1" },
        { config, "[]", "tokenizer_config.json: is not an object" },
        { config, "{\"a\":1,\"a\":2}", "duplicate" },
        { config, "{\"do_lower_case\":\"no\"}", "do_lower_case is \"no\", must be true or false" },
        { config, "{\"strip_accents\":0}", "strip_accents is 0.0, must be true or false" },
        { config, "{\"split_special_tokens\":[]}", "split_special_tokens is []" },
        { config, "{\"extra_ids\":-1}", "extra_ids is -1.0, must be an integer in 0 .." },
        { config, "{\"extra_ids\":1.5}", "extra_ids is 1.5" },
        { config, "{\"unk_token\":7}", "unk_token is 7.0, must be a token" },
        { config, "{\"unk_token\":\"\"}", "unk_token is \"\", must be a token" },
        { config, "{\"cls_token\":{\"content\":\"[CLS]\",\"lstrip\":1}}",
          "lstrip is 1.0, must be" },
        { config, "{\"extra_special_tokens\":\"a\"}",
          "extra_special_tokens is \"a\", must be a list" },
        { config, "{\"extra_special_tokens\":[[]]}",
          "extra_special_tokens is [], must be a token" },
        { config, "{\"added_tokens_decoder\":[]}",
          "added_tokens_decoder is [], must be an object" },
        { config, "{\"added_tokens_decoder\":{\"x\":{}}}", "'x' is {}, must be an id with" },
        { config, "{\"added_tokens_decoder\":{\"13\":\"x\"}}", "'13' is \"x\", must be an id" },
        { config, "{\"added_tokens_decoder\":{\"13\":{}}}",
          "added_tokens_decoder is {}, must be a" },
        { config, "{\"added_tokens_decoder\":{\"99\":{\"content\":\"x\"}}}",
          "'x' has id 99, but with vocab.txt it gets id 13; set the option ignore_added_tokens" },
        { config,
          "{\"added_tokens_decoder\":{\"1\":{\"content\":\"x\"},\"2\":{\"content\":\"x\"}}}",
          "'x' has two ids" },
        { map, "{\"bos_token\":[]}", "special_tokens_map.json: bos_token is [], must be a token" },
        { map, "7", "special_tokens_map.json: is not an object" },
        { added, "{\"x\":\"13\"}", "'x' is \"13\", must be a token with an id below" },
        { added, "{\"x\":13,\"y\":13}", "'x' and 'y' have the same id, 13" },
        { added, "{\"a\":13}", "'a' has id 13, but with vocab.txt it gets id 5" },
        { added, "{\"x\":13", "added_tokens.json: line 1" },
    };
    put("vocab.txt", vocab);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        put(bad[i][0], bad[i][1]);
        check_fails(load(NULL), bad[i][2]);
        unlink(files_path(bad[i][0]));
    }
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static bool use(void)
{
    br_tokenizer *t = load(NULL);
    br_tokenizer_free(t);
    return t;
}

Test(auto_tokenizer, memory_runs_out_everywhere)
{
    copy(BRASA_TEST_DIR "/tokenizers/bpe/vocab.json", "vocab.json");
    copy(BRASA_TEST_DIR "/tokenizers/bpe/merges.txt", "merges.txt");
    fail_in_turn(use, "a folder's tokenizer");
    put("tokenizer_config.json",
        "{\"bos_token\":\"<b>\",\"extra_special_tokens\":[\"<x>\"],\"add_prefix_space\":true,"
        "\"add_bos_token\":true}");
    put("added_tokens.json", "{\"<y>\":314}");
    fail_in_turn(use, "a folder's tokenizer with side files");
    remove_files();
    copy(BRASA_TEST_DIR "/tokenizers/unigram/spiece.model", "spiece.model");
    put("tokenizer_config.json", "{\"extra_ids\":1}");
    fail_in_turn(use, "a T5's tokenizer");
    remove_files();
    put("tokenizer.json", words_json);
    put("tokenizer_config.json", "{\"sep_token\":\"a\",\"tokenizer_class\":\"BertTokenizer\","
                                 "\"added_tokens_decoder\":{\"5\":{\"content\":\"x\"}}}");
    fail_in_turn(use, "a BERT's tokenizer");
}

/* ---- Git LFS --------------------------------------------------------------------------------- */

Test(auto_tokenizer, pointers_instead_of_files)
{
    static const char pointer[] = "version https://git-lfs.github.com/spec/v1\noid sha256:0\n";
    static const char *const files[][2] = {
        { "vocab.txt", "vocab.txt" },
        { "merges.txt", "vocab.json" },
        { "vocab.json", "merges.txt" },
        { "spiece.model", "spiece.model" },
        { "tokenizer.json", "tokenizer.json" },
        { "config.json", "vocab.txt" },
        { "tokenizer_config.json", "vocab.txt" },
        { "special_tokens_map.json", "vocab.txt" },
        { "added_tokens.json", "vocab.txt" },
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char message[100];
        snprintf(message, sizeof message, "/%s: is a Git LFS pointer, not the file itself",
                 files[i][0]);
        if (strcmp(files[i][1], "vocab.json") == 0)
            copy(BRASA_TEST_DIR "/tokenizers/bpe/vocab.json", "vocab.json");
        else
            put(files[i][1], vocab);
        put(files[i][0], pointer);
        check_fails(load(NULL), message);
        remove_files();
    }
    put("config.json", pointer);
    check_fails(br_auto_config_load(files_path("config.json")), "is a Git LFS pointer");
}
