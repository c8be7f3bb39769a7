/* tests/tokenizers/test_auto_roles.c - what a token of a model folder becomes by its name in a side
 * file.
 */
#include "tests/io/files.h"
#include "tests/support.h"
#include "tokenizers/tokenizer_internal.h"

#include <brasa/tokenizers.h>
#include <string.h>

TestSuite(auto_roles, .init = files_begin, .fini = files_end);

static void put(const char *name, const char *text)
{
    files_write(files_path(name), text, strlen(text));
}

/* A token with a name, such as eos_token, is special even if its entry says otherwise. */
Test(auto_roles, named_tokens_are_special)
{
    put("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n");
    put("tokenizer_config.json", "{\"eos_token\":{\"__type\":\"AddedToken\",\"content\":\"a\","
                                 "\"special\":false,\"normalized\":false}}");
    br_tokenizer *t = br_auto_tokenizer_load(files_path(""), NULL);
    cr_assert(t, "%s", br_error_message());
    int64_t id = br_tokenizer_id(t, "a", -1);
    for (int skip = 0; skip < 2; skip++) {
        char *text = br_tokenizer_decode(t, 1, &id, skip);
        cr_assert_str_eq(text, skip ? "" : "a");
        br_free(text);
    }
    br_tokenizer_free(t);
}

/* GPT-2's tokenizer pads with eos_token, unless there is a pad_token. */
Test(auto_roles, padding_of_gpt2)
{
    put("vocab.json", "{\"a\":0,\"b\":1,\"c\":2}");
    put("merges.txt", "#version: 0.2\n");
    for (int pad = 0; pad < 2; pad++) {
        put("tokenizer_config.json",
            pad ? "{\"eos_token\":\"b\",\"pad_token\":\"c\"}" : "{\"eos_token\":\"b\"}");
        br_tokenizer *t = br_auto_tokenizer_load(files_path(""), NULL);
        cr_assert(t, "%s", br_error_message());
        br_text text = { "a", -1 };
        br_encoding *e = br_tokenizer_encode(
            t, &text, NULL, BR_OPTIONS(br_encode, .max_length = 2, .padding = BR_PAD_MAX_LENGTH));
        cr_assert(e && e->length == 2, "%s", br_error_message());
        cr_assert_eq(e->ids[1], br_tokenizer_id(t, pad ? "c" : "b", -1));
        br_encoding_free(e);
        br_tokenizer_free(t);
    }
}

/* ---- What transformers makes of a token in several places ------------------------------------ */

#define VOCAB "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nA\n\xc3\xa9\ne\nb\nx\n"

/* Checks the folder's ids of a text, which are those of transformers 5.24. */
static void check_ids(const char *text, int64_t n, const int64_t *ids)
{
    br_tokenizer *t = br_auto_tokenizer_load(files_path(""), NULL);
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

/* If a token has two names, the flags of the last one count. */
Test(auto_roles, flags_of_a_token_with_two_names)
{
#define TOKEN(flag) \
    "{\"__type\":\"AddedToken\",\"content\":\"b\",\"normalized\":false,\"single_word\":" flag "}"
    put("vocab.txt", VOCAB);
    put("tokenizer_config.json",
        "{\"bos_token\":" TOKEN("false") ",\"eos_token\":" TOKEN("true") "}");
    check_ids("a ab b xb", 6, (int64_t[]){ 2, 5, 1, 9, 1, 3 });
    put("tokenizer_config.json",
        "{\"bos_token\":" TOKEN("true") ",\"eos_token\":" TOKEN("false") "}");
    check_ids("a ab b xb", 8, (int64_t[]){ 2, 5, 5, 9, 9, 10, 9, 3 });
}

/* A list in tokenizer_config.json hides additional_special_tokens of special_tokens_map.json. */
Test(auto_roles, lists_in_two_files)
{
    put("vocab.txt", VOCAB);
    put("special_tokens_map.json", "{\"additional_special_tokens\":[\"e\"]}");
    check_ids("ae ab", 5, (int64_t[]){ 2, 5, 8, 1, 3 });
    put("tokenizer_config.json", "{\"additional_special_tokens\":[\"b\"]}");
    check_ids("ae ab", 5, (int64_t[]){ 2, 1, 5, 9, 3 });
}

/* strip_accents follows do_lower_case, also if tokenizer.json lower-cases twice. */
Test(auto_roles, accents_beside_a_second_lower_casing)
{
    put("tokenizer.json",
        "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"BertNormalizer\"},"
        "{\"type\":\"Lowercase\"}]},\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},"
        "\"post_processor\":{\"type\":\"BertProcessing\",\"cls\":[\"[CLS]\",2],\"sep\":[\"[SEP]\","
        "3]},"
        "\"decoder\":{\"type\":\"WordPiece\"},\"model\":{\"type\":\"WordPiece\",\"unk_token\":"
        "\"[UNK]\",\"vocab\":{\"[PAD]\":0,\"[UNK]\":1,\"[CLS]\":2,\"[SEP]\":3,\"[MASK]\":4,"
        "\"a\":5,\"A\":6,\"\xc3\xa9\":7,\"e\":8}}}");
    put("tokenizer_config.json", "{\"tokenizer_class\":\"BertTokenizer\"}");
    check_ids("A \xc3\xa9 E", 5, (int64_t[]){ 2, 5, 8, 8, 3 });
    put("tokenizer_config.json", "{\"tokenizer_class\":\"BertTokenizer\",\"do_lower_case\":false}");
    check_ids("A \xc3\xa9 E", 5, (int64_t[]){ 2, 6, 7, 1, 3 });
}

/* The model_type determines the class: each of these has GPT-2's, which reads add_prefix_space. */
Test(auto_roles, models_with_the_tokenizer_of_gpt2)
{
    static const char *const types[] = { "gpt2", "codegen", "gpt_neo", "gptj" };
    put("vocab.json", "{\"a\":0,\"\xc4\xa0\":1,\"\xc4\xa0"
                      "a\":2}");
    put("merges.txt", "\xc4\xa0 a\n");
    put("tokenizer_config.json", "{\"add_prefix_space\":true}");
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char config[64];
        snprintf(config, sizeof config, "{\"model_type\":\"%s\"}", types[i]);
        put("config.json", config);
        check_ids("a", 1, (int64_t[]){ 2 });
    }
}

/* `implied` counts the last tokens that only the class names. A later one of a side file does not
 * belong to them. */
Test(auto_roles, tokens_that_only_the_class_names)
{
    put("vocab.txt", "[UNK]\n[CLS]\n[SEP]\na\n");
    static const struct {
        const char *config;
        int64_t size, implied;
    } cases[] = { { "{}", 6, 2 },                                   /* [PAD], [MASK] */
                  { "{\"mask_token\":\"<m>\"}", 6, 0 },             /* [PAD], <m> */
                  { "{\"pad_token\":\"<p>\"}", 6, 1 },              /* <p>, [MASK] */
                  { "{\"extra_special_tokens\":[\"x\"]}", 7, 0 } }; /* [PAD], [MASK], x */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put("tokenizer_config.json", cases[i].config);
        br_tokenizer *t = br_auto_tokenizer_load(files_path(""), NULL);
        cr_assert(t, "%s", br_error_message());
        cr_assert(t->size == cases[i].size && t->implied == cases[i].implied, "%s: %lld of %lld",
                  cases[i].config, (long long)t->implied, (long long)t->size);
        br_tokenizer_free(t);
    }
}

/* A tokenizer.json whose post-processor is that of a class with RobertaProcessing, or a template.
 */
static void put_framed(const char *processor)
{
    char text[1500];
    snprintf(text, sizeof text,
             "{\"added_tokens\":[{\"id\":0,\"content\":\"<s>\",\"special\":true},"
             "{\"id\":1,\"content\":\"</s>\",\"special\":true}],"
             "\"normalizer\":{\"type\":\"BertNormalizer\",\"clean_text\":true,"
             "\"handle_chinese_chars\":true,\"strip_accents\":null,\"lowercase\":true},"
             "\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"post_processor\":%s,"
             "\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"vocab\":"
             "{\"<s>\":0,\"</s>\":1,\"[UNK]\":2,\"a\":3,\"b\":4,\"c\":5}}}",
             processor);
    put("tokenizer.json", text);
}

/* The classes of RoBERTa's relatives put the tokens that the side files name around a text, also if
 * tokenizer.json has others; a class that follows tokenizer.json does not. */
Test(auto_roles, tokens_around_texts_of_robertas_relatives)
{
    static const char frame[] = "{\"type\":\"RobertaProcessing\",\"sep\":[\"</s>\",1],"
                                "\"cls\":[\"<s>\",0],\"trim_offsets\":true,"
                                "\"add_prefix_space\":false}";
    static const struct {
        const char *class, *first, *last;
        int64_t ids[3];
    } rows[] = {
        { "MPNetTokenizer", "cls_token", "sep_token", { 4, 3, 5 } },
        { "RobertaTokenizerFast", "cls_token", "sep_token", { 4, 3, 5 } },
        { "XLMRobertaTokenizer", "bos_token", "eos_token", { 4, 3, 5 } },
        { "CamembertTokenizer", "bos_token", "eos_token", { 4, 3, 5 } },
        { "MPNetTokenizer", "bos_token", "eos_token", { 0, 3, 1 } },
        { "XLMRobertaTokenizer", "cls_token", "sep_token", { 0, 3, 1 } },
        { "PreTrainedTokenizerFast", "cls_token", "sep_token", { 0, 3, 1 } },
    };
    put_framed(frame);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[200];
        snprintf(text, sizeof text, "{\"tokenizer_class\":\"%s\",\"%s\":\"b\",\"%s\":\"c\"}",
                 rows[i].class, rows[i].first, rows[i].last);
        put("tokenizer_config.json", text);
        check_ids("a", 3, rows[i].ids);
    }
    put_framed("null"); /* there are no tokens around a text to replace */
    put("tokenizer_config.json", "{\"tokenizer_class\":\"MPNetTokenizer\",\"sep_token\":\"c\"}");
    check_ids("a", 1, (int64_t[]){ 3 });
}

/* A BERT whose files state that cls_token or sep_token is null has the ids 2 and 3 around a text,
 * also if tokenizer.json has other tokens there. */
Test(auto_roles, null_around_a_text_of_tokenizer_json)
{
    static const char frame[] = "{\"type\":\"BertProcessing\",\"sep\":[\"b\",4],"
                                "\"cls\":[\"</s>\",1]}";
    put_framed(frame);
    put("tokenizer_config.json", "{\"tokenizer_class\":\"BertTokenizer\",\"cls_token\":null}");
    check_ids("a", 3, (int64_t[]){ 2, 3, 4 });
    put("tokenizer_config.json", "{\"tokenizer_class\":\"BertTokenizer\",\"sep_token\":null}");
    check_ids("a", 3, (int64_t[]){ 1, 3, 3 });
    put("tokenizer_config.json", "{\"tokenizer_class\":\"BertTokenizer\",\"cls_token\":null,"
                                 "\"sep_token\":null}");
    check_ids("a", 3, (int64_t[]){ 3, 3, 3 });
}

/* Unigram tokenizers end a text, but do not begin it: "<s>" may be in the vocabulary. */
Test(auto_roles, a_unigram_vocabulary_with_a_first_token)
{
    put("tokenizer.json",
        "{\"added_tokens\":[],\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":"
        "\"\xe2\x96\x81"
        "\",\"prepend_scheme\":\"always\"},\"decoder\":{\"type\":\"Metaspace\",\"replacement\":"
        "\"\xe2"
        "\x96\x81\",\"prepend_scheme\":\"always\"},\"model\":{\"type\":\"Unigram\",\"unk_id\":2,"
        "\"vocab\":[[\"<pad>\",0],[\"</s>\",0],[\"<unk>\",0],[\"<s>\",0],[\"a\",-1]]}}");
    br_tokenizer *t = br_tokenizer_from_json(files_path("tokenizer.json"));
    cr_assert(t, "%s", br_error_message());
    static const int64_t want[] = { -1, 1, 2, -1, 0, -1, -1 };
    for (int role = 0; role <= BR_TOKEN_MASK; role++)
        cr_expect_eq(br_tokenizer_special_id(t, (br_special_token)role), want[role], "role %d",
                     role);
    br_tokenizer_free(t);
}
