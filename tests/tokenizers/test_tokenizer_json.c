/* tests/tokenizers/test_tokenizer_json.c - parts of a tokenizer.json that old or unusual files
 * have. The expected values are those of PyPI's `tokenizers` 0.23.3. */
#include "tests/io/files.h"
#include "tests/memory.h"
#include "tests/tokenizers/encodings.h"
#include "tokenizers/tokenizer_internal.h"

#include <brasa/tokenizers.h>

TestSuite(tokenizer_json, .init = files_begin, .fini = files_end);

/* The parts other than "model" must end with a comma. */
static br_tokenizer *load(const char *parts, const char *model)
{
    char json[4096];
    snprintf(json, sizeof json, "{%s\"model\":{%s}}", parts, model);
    files_write(files_path("tokenizer.json"), json, strlen(json));
    return br_tokenizer_from_json(files_path("tokenizer.json"));
}

/* Returns the ids, separated by spaces, and the type ids. Valid until the next call. */
static const char *encoded(const br_tokenizer *t, const char *text, const char *pair)
{
    static char all[512];
    br_encoding *e =
        br_tokenizer_encode(t, &(br_text){ text, -1 }, pair ? &(br_text){ pair, -1 } : NULL, NULL);
    cr_assert(e, "%s", br_error_message());
    /* Ids alone are computed by words, which are kept in a cache. */
    br_token_ids *ids = br_tokenizer_encode_ids(t, 1, &(br_text){ text, -1 },
                                                pair ? &(br_text){ pair, -1 } : NULL, NULL);
    cr_assert(ids && ids->starts[1] == e->length, "%s: %s", text, br_error_message());
    for (int64_t i = 0; i < e->length; i++)
        cr_assert_eq(ids->ids[i], e->ids[i], "%s", text);
    br_token_ids_free(ids);
    int n = 0;
    for (int64_t i = 0; i < e->length; i++)
        n +=
            snprintf(all + n, sizeof all - (size_t)n, "%s%lld", i ? " " : "", (long long)e->ids[i]);
    n += snprintf(all + n, sizeof all - (size_t)n, " |");
    for (int64_t i = 0; i < e->length; i++)
        n += snprintf(all + n, sizeof all - (size_t)n, " %lld", (long long)e->type_ids[i]);
    br_encoding_free(e);
    return all;
}

static void check_text(const char *parts, const char *model, const char *text, const char *want)
{
    br_tokenizer *t = load(parts, model);
    cr_assert(t, "%s", br_error_message());
    cr_assert_str_eq(encoded(t, text, NULL), want);
    br_tokenizer_free(t);
}

#define VOCAB "\"vocab\":{\"[UNK]\":0,\"a\":1,\"##a\":2,\"aa\":3,\"[CLS]\":4,\"[SEP]\":5,\"A\":6}"
#define WORDS                                                              \
    VOCAB ",\"unk_token\":\"[UNK]\",\"continuing_subword_prefix\":\"##\"," \
          "\"max_input_chars_per_word\":100"
#define BERT                                                           \
    "\"normalizer\":{\"type\":\"BertNormalizer\",\"lowercase\":true}," \
    "\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"decoder\":{\"type\":\"WordPiece\"},"
#define BYTES                                                                                      \
    "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true}," \
    "\"decoder\":{\"type\":\"ByteLevel\"},"
#define PIECES                                                                  \
    "\"vocab\":[[\"<unk>\",0],[\"\xe2\x96\x81\",-2],[\"a\",-1],[\"\xe2\x96\x81" \
    "a\",-1.5]]"
#define META \
    "{\"type\":\"Metaspace\",\"replacement\":\"\xe2\x96\x81\",\"prepend_scheme\":\"always\"}"

/* Without a pre-tokenizer, a text is one word, spaces and all. */
Test(tokenizer_json, wordpiece_of_undivided_texts)
{
    check_text("\"pre_tokenizer\":null,\"decoder\":{\"type\":\"WordPiece\"},", WORDS, "a a",
               "0 | 0");
    check_text("\"pre_tokenizer\":null,\"decoder\":{\"type\":\"WordPiece\"},", WORDS, "aaa",
               "3 2 | 0 0");
    check_text("\"pre_tokenizer\":null,\"decoder\":{\"type\":\"WordPiece\"},",
               "\"vocab\":{\"[UNK]\":0,\"a\":1,\"## a\":2,\"##,\":3},\"unk_token\":\"[UNK]\","
               "\"continuing_subword_prefix\":\"##\",\"max_input_chars_per_word\":100",
               "a a,", "1 2 3 | 0 0 0");
}

/* ---- The model's type ------------------------------------------------------------------------ */

Test(tokenizer_json, model_without_a_type)
{
    check_text(BERT, WORDS, "aaa", "3 2 | 0 0");
    check_text(BERT,
               VOCAB ",\"unk_token\":\"[UNK]\",\"continuing_subword_prefix\":\"##\","
                     "\"max_input_chars_per_word\":0",
               "a aa", "0 0 | 0 0");
    check_text(BYTES, VOCAB ",\"merges\":[\"a a\"]", "aaa", "3 1 | 0 0");
    check_text(BYTES, VOCAB ",\"unk_token\":\"[UNK]\",\"merges\":[]", "aaa", "1 1 1 | 0 0 0");
    check_text("\"pre_tokenizer\":" META ",\"decoder\":" META ",", PIECES ",\"unk_id\":0", "a",
               "3 | 0");
    static const char *const bad[][2] = {
        { VOCAB, "model has no type, and its fields are not those of" },
        { VOCAB ",\"unk_token\":\"[UNK]\"", "model is WordLevel, which is not supported" },
        { VOCAB ",\"unk_token\":\"[UNK]\",\"continuing_subword_prefix\":\"##\"",
          "model is WordLevel, which is not supported" },
        { WORDS ",\"type\":null", "model has no type, and its fields are not those of" },
        { WORDS ",\"type\":\"wordpiece\"", "model is wordpiece, which is not supported" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        check_fails(load(BERT, bad[i][0]), bad[i][1]);
}

/* Marks of the same combining class keep their order, as in `tokenizers`. */
Test(tokenizer_json, marks_of_the_same_class)
{
#define FIRST  "\xe1\xad\x84" /* U+1B44 and U+1BAA, which are not dropped as accents */
#define SECOND "\xe1\xae\xaa"
    check_text(BERT,
               "\"vocab\":{\"[UNK]\":0,\"a" FIRST SECOND "\":1,\"a" SECOND FIRST
               "\":2},\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\"",
               "a" FIRST SECOND " a" SECOND FIRST, "1 2 | 0 0");
}

Test(tokenizer_json, parts_without_a_type)
{
    check_text(
        "\"normalizer\":{\"clean_text\":true,\"handle_chinese_chars\":true,\"lowercase\":true},"
        "\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},"
        "\"post_processor\":{\"sep\":[\"[SEP]\",5],\"cls\":[\"[CLS]\",4]},"
        "\"decoder\":{\"prefix\":\"##\",\"cleanup\":true},",
        WORDS, "AA", "4 3 5 | 0 0 0");
}

/* `tokenizers` tells these two by their fields. */
Test(tokenizer_json, bert_or_roberta_processing)
{
    static const char ends[] = "\"sep\":[\"[SEP]\",5],\"cls\":[\"[CLS]\",4]";
    static const char *const cases[][3] = {
        { "RobertaProcessing", "", "4 1 5 1 5 | 0 0 0 1 1" },
        { "RobertaProcessing", ",\"trim_offsets\":null,\"add_prefix_space\":true",
          "4 1 5 1 5 | 0 0 0 1 1" },
        { "BertProcessing", ",\"trim_offsets\":true,\"add_prefix_space\":true",
          "4 1 5 5 1 5 | 0 0 0 0 0 0" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char parts[1024];
        snprintf(parts, sizeof parts, BERT "\"post_processor\":{\"type\":\"%s\",%s%s},",
                 cases[i][0], ends, cases[i][1]);
        br_tokenizer *t = load(parts, WORDS);
        cr_assert(t, "%s", br_error_message());
        cr_assert_str_eq(encoded(t, "a", "a"), cases[i][2]);
        br_tokenizer_free(t);
    }
}

/* ---- Missing parts --------------------------------------------------------------------------- */

Test(tokenizer_json, no_parts)
{
    check_text("\"normalizer\":null,\"pre_tokenizer\":null,\"decoder\":null,", WORDS, "A", "6 | 0");
    check_text("\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},", WORDS, "A a", "6 1 | 0 0");
    check_text("", WORDS, "a a", "0 | 0");
    check_text("", PIECES ",\"unk_id\":0", "a a", "2 0 2 | 0 0 0");
    check_text("\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[]},", WORDS, "a a",
               "0 | 0");
    check_fails(load("\"pre_tokenizer\":null,", VOCAB ",\"merges\":[]"),
                "pre_tokenizer is null or missing, which is not supported for BPE");
}

static void check_decoded(const char *parts, const char *model, const char *want)
{
    br_tokenizer *t = load(parts, model);
    cr_assert(t, "%s", br_error_message());
    char *text = br_tokenizer_decode(t, 3, (int64_t[]){ 3, 2, 1 }, false);
    cr_assert_str_eq(text, want);
    br_free(text);
    br_tokenizer_free(t);
}

Test(tokenizer_json, no_decoder)
{
    static const char bytes[] =
        "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},\"decoder\":null,";
    check_decoded("\"decoder\":null,", WORDS, "aa ##a a");
    check_decoded(bytes, VOCAB ",\"merges\":[]", "aa ##a a");
    check_decoded("", PIECES ",\"unk_id\":0",
                  "\xe2\x96\x81"
                  "a a \xe2\x96\x81");
}

/* ---- The normalizer -------------------------------------------------------------------------- */

#define NORMALIZER(...)                                                   \
    "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[" __VA_ARGS__ \
    "]},\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},"
#define LOWER "{\"type\":\"Lowercase\"}"
#define CASED                                                                         \
    "{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true," \
    "\"strip_accents\":null,\"lowercase\":false}"

Test(tokenizer_json, sequence_of_normalizers)
{
    check_text(NORMALIZER(LOWER "," CASED), WORDS, "AA \xc3\x81", "3 0 | 0 0");
    check_text(NORMALIZER(CASED "," LOWER), WORDS, "AA \xc3\x81", "3 0 | 0 0");
    check_text(NORMALIZER(LOWER ",{\"type\":\"BertNormalizer\",\"lowercase\":true}"), WORDS,
               "AA \xc3\x81", "3 1 | 0 0");
    check_text(NORMALIZER(CASED), WORDS, "A \xc3\x81", "6 0 | 0 0");
    check_text(NORMALIZER(LOWER), WORDS, "A\x01", "0 | 0");
    check_text(NORMALIZER(""), WORDS, "A", "6 | 0");
    check_text("\"normalizer\":" LOWER ",\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},", WORDS,
               "AA", "3 | 0");
    check_fails(load(NORMALIZER(CASED "," CASED), WORDS), "normalizer has two BertNormalizers");
    check_fails(
        load(NORMALIZER("{\"type\":\"NFKC\"}"), WORDS),
        "normalizer is NFKC, must be null, BertNormalizer, Lowercase or a Sequence of them");
    check_fails(load(NORMALIZER("{}"), WORDS), "normalizer is without a type");
}

/* ---- Templates ------------------------------------------------------------------------------- */

#define CLS     "{\"SpecialToken\":{\"id\":\"[CLS]\",\"type_id\":0}}"
#define SEP     "{\"SpecialToken\":{\"id\":\"[SEP]\",\"type_id\":0}}"
#define A       "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}"
#define B(type) "{\"Sequence\":{\"id\":\"B\",\"type_id\":" type "}}"
#define TEMPLATE(single, pair)                                                     \
    BERT "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[" single \
         "],\"pair\":[" pair                                                       \
         "],\"special_tokens\":{\"[CLS]\":{\"ids\":[4]},\"[SEP]\":{\"ids\":[5]}}},"

static void check_template(const char *parts, const char *single, const char *pair)
{
    br_tokenizer *t = load(parts, WORDS);
    cr_assert(t, "%s", br_error_message());
    cr_assert_str_eq(encoded(t, "a", NULL), single);
    cr_assert_str_eq(encoded(t, "a", "aa"), pair);
    br_tokenizer_free(t);
}

Test(tokenizer_json, templates_of_pairs)
{
    check_template(TEMPLATE(CLS "," A "," SEP, A "," B("1")), "4 1 5 | 0 0 0", "1 3 | 0 1");
    check_template(TEMPLATE(CLS "," A, A "," B("0")), "4 1 | 0 0", "1 3 | 0 0");
    check_template(TEMPLATE(A, A "," B("1")), "1 | 0", "1 3 | 0 1");
    br_tokenizer *t = load(TEMPLATE(A, CLS "," A "," B("1")), WORDS);
    cr_assert(t, "%s", br_error_message());
    cr_assert_str_eq(encoded(t, "a", NULL), "1 | 0");
    br_text text = { "a", -1 };
    check_fails(br_tokenizer_encode(t, &text, &text, NULL),
                "pairs are not supported by this tokenizer");
    br_encoding *e =
        br_tokenizer_encode(t, &text, &text, BR_OPTIONS(br_encode, .add_special_tokens = false));
    cr_assert(e && e->length == 2, "%s", br_error_message());
    br_encoding_free(e);
    br_tokenizer_free(t);
}

/* transformers writes a template like this if cls_token is null. */
Test(tokenizer_json, special_token_without_a_name)
{
    check_text(BERT "\"post_processor\":{\"type\":\"BertProcessing\",\"cls\":[\"None\",2],"
                    "\"sep\":[\"[SEP]\",5]},",
               WORDS, "a", "2 1 5 | 0 0 0");
    check_fails(load(BERT "\"post_processor\":{\"type\":\"BertProcessing\",\"cls\":[\"None\",7],"
                          "\"sep\":[\"[SEP]\",5]},",
                     WORDS),
                "special token 'None' has id 7, which is not its id in the vocabulary");
}

/* ---- The unknown token ----------------------------------------------------------------------- */

static void check_unknown(const char *parts, const char *model, const char *message)
{
    br_tokenizer *t = load(parts, model);
    cr_assert(t, "%s", br_error_message());
    encoded(t, "a", NULL);
    check_fails(br_tokenizer_encode(t, &(br_text){ "a b", -1 }, NULL, NULL), message);
    br_tokenizer_free(t);
}

Test(tokenizer_json, unknown_token_without_an_id)
{
    check_unknown(BERT, VOCAB ",\"type\":\"WordPiece\",\"unk_token\":\"[UNKNOWN]\"",
                  "the vocabulary has no token for the word 'b' of the text, and the unknown token "
                  "'[UNKNOWN]' is not in the vocabulary");
    check_unknown(
        BYTES, "\"vocab\":{\"a\":0},\"merges\":[],\"unk_token\":\"?\"",
        "the vocabulary has no token for the byte 0x20 of the text, and the unknown token "
        "'?' is not in the vocabulary");
    check_unknown("\"pre_tokenizer\":" META ",\"decoder\":" META ",",
                  "\"vocab\":[[\"a\",-1],[\"\xe2\x96\x81\",-1]],\"unk_id\":null",
                  "the vocabulary has no token for 'b' of the text, and the tokenizer has no "
                  "unknown token");
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static bool use(void)
{
    br_tokenizer *t = load(NORMALIZER(LOWER "," CASED),
                           VOCAB ",\"unk_token\":\"?\",\"continuing_subword_prefix\":\"##\","
                                 "\"max_input_chars_per_word\":100");
    br_encoding *e = t ? br_tokenizer_encode(t, &(br_text){ "A", -1 }, NULL, NULL) : NULL;
    bool ok = e;
    br_encoding_free(e);
    br_tokenizer_free(t);
    return ok;
}

Test(tokenizer_json, memory_runs_out_everywhere)
{
    fail_in_turn(use, "a tokenizer.json without types");
}
