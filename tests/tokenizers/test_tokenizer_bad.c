/* tests/tokenizers/test_tokenizer_bad.c - invalid and malicious files, options and texts. */
#include "tests/io/files.h"
#include "tests/memory.h"
#include "tests/tokenizers/encodings.h"

#include <brasa/tokenizers.h>
#include <time.h>

TestSuite(tokenizer_bad, .init = files_begin, .fini = files_end);

static const char vocab_file[] = BRASA_TEST_DIR "/tokenizers/tokenizer_vocab.txt";
static const char specials[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";

static br_encoding *encode(br_tokenizer *t, const char *text, int64_t length,
                           const br_encode_options *options)
{
    return br_tokenizer_encode(t, &(br_text){ text, length }, NULL, options);
}

/* ---- vocab.txt ------------------------------------------------------------------------------- */

/* Loads a tokenizer from the special tokens followed by these bytes. */
static br_tokenizer *with_lines(const char *lines, size_t n)
{
    char *text = malloc(sizeof specials + n);
    memcpy(text, specials, sizeof specials - 1);
    memcpy(text + sizeof specials - 1, lines, n);
    files_write(files_path("vocab.txt"), text, sizeof specials - 1 + n);
    free(text);
    return br_tokenizer_from_vocab(files_path("vocab.txt"), NULL);
}

Test(tokenizer_bad, vocab_lines)
{
    br_tokenizer *t = with_lines("a\r\n\nb \t\na\n##\nc", 14);
    cr_assert_eq(br_tokenizer_id(t, "b", 1), 7, "white space at the end of a line is removed");
    cr_assert_eq(br_tokenizer_id(t, "a", 1), 8, "of equal lines, the last one counts");
    cr_assert_eq(br_tokenizer_id(t, "c", 1), 10, "the last line needs no newline");
    cr_assert_str_eq(br_tokenizer_token(t, 6), "");
    check_fails(br_tokenizer_token(t, 5), "no token has id 5 (ids are 0 .. 10)");
    br_encoding *e = encode(t, "a## b", -1, NULL);
    cr_assert_eq(e->length, 6);
    cr_assert_eq(e->ids[2], 1, "'#' alone is unknown");
    br_encoding_free(e);
    br_tokenizer_free(t);
}

Test(tokenizer_bad, vocab_files)
{
    check_fails(with_lines("a\0b\n", 4), "line 6 contains a NUL");
    check_fails(with_lines("a\n\xc3\n", 4), "line 7 is not valid UTF-8");
    files_write(files_path("empty"), "", 0);
    check_fails(br_tokenizer_from_vocab(files_path("empty"), NULL), "there is no token '[UNK]'");
    files_write(files_path("few"), "[UNK]\n[CLS]\n", 12);
    check_fails(br_tokenizer_from_vocab(files_path("few"), NULL), "there is no token '[SEP]'");
    check_fails(br_tokenizer_from_vocab(files_path("none"), NULL), "cannot be opened");
    check_fails(br_tokenizer_from_vocab(files_path(""), NULL), "a directory");
    check_fails(br_tokenizer_from_vocab(NULL, NULL), "path is NULL");
    check_fails(br_tokenizer_from_vocab(vocab_file,
                                        BR_OPTIONS(br_tokenizer, .max_input_chars_per_word = -1)),
                "max_input_chars_per_word is -1");
    static const int64_t limits[] = { 0, 1000000 };
    for (int i = 0; i < 2; i++) {
        br_tokenizer *t = br_tokenizer_from_vocab(
            vocab_file, BR_OPTIONS(br_tokenizer, .max_input_chars_per_word = limits[i]));
        cr_assert(t, "%s", br_error_message());
        br_tokenizer_free(t);
    }
    check_fails(br_tokenizer_from_vocab(
                    vocab_file, BR_OPTIONS(br_tokenizer, .max_input_chars_per_word = 1000001)),
                "max_input_chars_per_word is 1000001, must be 0 .. 1000000");
}

/* ---- tokenizer.json -------------------------------------------------------------------------- */

static const char json[] =
    "{\"normalizer\":{\"type\":\"BertNormalizer\",\"lowercase\":true,\"strip_accents\":null},"
    "\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},"
    "\"post_processor\":{\"type\":\"TemplateProcessing\","
    "\"single\":[{\"SpecialToken\":{\"id\":\"[CLS]\",\"type_id\":0}},"
    "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},{\"SpecialToken\":{\"id\":\"[SEP]\",\"type_id\":0}"
    "}],"
    "\"pair\":[{\"SpecialToken\":{\"id\":\"[CLS]\",\"type_id\":0}},"
    "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},{\"SpecialToken\":{\"id\":\"[SEP]\",\"type_id\":0}"
    "},"
    "{\"Sequence\":{\"id\":\"B\",\"type_id\":1}},{\"SpecialToken\":{\"id\":\"[SEP]\",\"type_id\":1}"
    "}],"
    "\"special_tokens\":{\"[CLS]\":{\"ids\":[1]},\"[SEP]\":{\"ids\":[2]}}},"
    "\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true},"
    "\"added_tokens\":[{\"id\":2,\"content\":\"[SEP]\",\"lstrip\":false,\"special\":true},"
    "{\"id\":5,\"content\":\"<new>\",\"special\":false}],"
    "\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"max_input_chars_per_word\":3,"
    "\"vocab\":{\"[UNK]\":0,\"[CLS]\":1,\"[SEP]\":2,\"a\":4,\"##b\":8}}}";

Test(tokenizer_bad, json_of_berts_kind)
{
    br_tokenizer *t = changed_json(json, "", "");
    check_ok();
    br_encoding *e = encode(t, "AB<new>abbb", -1, NULL);
    cr_assert_eq(e->length, 6);
    cr_assert_arr_eq(e->ids, ((int64_t[]){ 1, 4, 8, 5, 0, 2 }), 6 * sizeof(int64_t));
    br_encoding_free(e);
    check_fails(encode(t, "a", -1, BR_OPTIONS(br_encode, .pad_to_multiple_of = 8)),
                "has no padding token");
    br_tokenizer_free(t);
}

Test(tokenizer_bad, json_of_other_kinds)
{
    static const char *const cases[][3] = {
        { "BertNormalizer", "NFC", "normalizer is NFC" },
        { "BertPreTokenizer", "ByteLevel", "pre_tokenizer is ByteLevel" },
        { "TemplateProcessing", "Template", "post_processor is Template, must be" },
        { "\"type\":\"WordPiece\",\"unk", "\"type\":\"BPE\",\"unk",
          "normalizer is BertNormalizer, which is not supported for BPE" },
        { "\"type\":\"WordPiece\",\"prefix\"", "\"type\":\"BPEDecoder\",\"prefix\"", "decoder is" },
        { "\"lowercase\":true", "\"lowercase\":1", "lowercase is not a boolean" },
        { "\"lstrip\":false", "\"lstrip\":\"\"", "lstrip is not a boolean" },
        { "\"unk_token\":\"[UNK]\"", "\"unk_token\":null", "unk_token is not a string" },
        { "\"type\":\"WordPiece\",\"unk", "\"type\":\"WordLevel\",\"unk",
          "model is WordLevel, which is not supported: must be WordPiece, BPE or Unigram" },
        { "per_word\":3", "per_word\":-1", "max_input_chars_per_word" },
        { "\"a\":4", "\"a\":4294967296", "the id of 'a'" },
        { "\"a\":4", "\"a\":-1", "the id of 'a'" },
        { "\"a\":4", "\"a\":4.0", "the id of 'a'" },
        { "\"a\":4", "\"a\":8", "have the same id, 8" },
        { "\"a\":4", "\"a\":4,\"a\":5", "duplicate" },
        { "\"id\":5", "\"id\":9", "'<new>' has id 9, must have 5" },
        { "<new>", "", "added token ''" },
        { "{\"ids\":[1]}", "{\"ids\":[7]}", "'[CLS]' has id 7" },
        { "{\"ids\":[1]}", "{\"ids\":[]}", "'[CLS]' must have exactly one id" },
        { "\"id\":\"B\",\"type_id\":1", "\"id\":\"B\",\"type_id\":null",
          "post_processor is not supported: \"pair\" must be a list" },
        { "\"id\":\"A\",\"type_id\":0", "\"id\":\"A\",\"type_id\":1",
          "post_processor is not supported: \"single\" must be a text A of type 0" },
        { "\"prefix\":\"##\"", "\"prefix\":\"@\"", "decoder.prefix is '@'" },
        { "\"prefix\":\"##\"", "\"prefix\":\"@@\"", "decoder.prefix is '@@'" },
        { "}}}", "}}", "line 1" },
    };
    check_changes_fail(json, cases, sizeof cases / sizeof *cases);
    files_write(files_path("deep"), "[[[[", 4);
    check_fails(br_tokenizer_from_json(files_path("deep")), "line 1");
    files_write(files_path("array"), "[]", 2);
    check_fails(br_tokenizer_from_json(files_path("array")),
                "there is no model, which must be an object");
}

Test(tokenizer_bad, truncated_json)
{
    for (size_t length = 0; length < sizeof json - 1; length++) {
        files_write(files_path("tokenizer.json"), json, length);
        check_fails(br_tokenizer_from_json(files_path("tokenizer.json")), "tokenizer.json: ");
    }
}

/* ---- Options --------------------------------------------------------------------------------- */

Test(tokenizer_bad, options)
{
    br_tokenizer *t = br_tokenizer_from_vocab(vocab_file, NULL);
    const struct {
        const br_encode_options *options;
        const char *message;
    } cases[] = {
        { BR_OPTIONS(br_encode, .max_length = -1), "max_length" },
        { BR_OPTIONS(br_encode, .max_length = 1), "special tokens alone need 2" },
        { BR_OPTIONS(br_encode, .max_length = 5, .stride = 3),
          "stride is 3, must be less than the 3 tokens" },
        { BR_OPTIONS(br_encode, .max_length = 5, .stride = -1), "stride" },
        { BR_OPTIONS(br_encode, .max_length = 5, .truncation = (br_truncation)7), "truncation" },
        { BR_OPTIONS(br_encode, .max_length = 5, .truncation = BR_ONLY_SECOND),
          "the second text, the only one" },
        { BR_OPTIONS(br_encode, .padding = (br_pad_to)9), "padding" },
        { BR_OPTIONS(br_encode, .padding = BR_PAD_MAX_LENGTH), "max_length is 0" },
        { BR_OPTIONS(br_encode, .pad_to_multiple_of = -2), "pad_to_multiple_of" },
        { BR_OPTIONS(br_encode, .pad_to_multiple_of = INT64_MAX), "below 2^31" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_fails(encode(t, "time flies like an arrow", -1, cases[i].options), cases[i].message);
    br_encoding *e = encode(t, "time flies", -1, BR_OPTIONS(br_encode, .max_length = 2));
    cr_assert(e->length == 2 && e->n_overflow == 0);
    br_encoding_free(e);
    /* As in `tokenizers`, at least one token of a truncated text must be left. */
    br_text word = { "time", -1 }, two = { "time flies", -1 };
    br_encode_options o = *BR_OPTIONS(br_encode, .max_length = 5, .truncation = BR_ONLY_FIRST);
    check_fails(br_tokenizer_encode(t, &word, &two, &o),
                "cannot remove 1 tokens from the first text, the only one that may be truncated: "
                "it has 1");
    e = br_tokenizer_encode(t, &two, &word, &o);
    cr_assert(e && e->length == 5, "%s", br_error_message());
    br_encoding_free(e);
    check_fails(encode(NULL, "a", -1, NULL), "tokenizer is NULL");
    check_fails(encode(t, NULL, -1, NULL), "text is NULL");
    check_fails(encode(t, "a", -2, NULL), "has a negative length");
    check_fails(br_tokenizer_encode(t, NULL, NULL, NULL), "text is NULL");
    check_fails(br_tokenizer_encode_batch(t, 1, NULL, NULL, NULL, NULL),
                "texts and batch must not be NULL");
    br_tokenizer_free(t);
}

/* ---- Texts ----------------------------------------------------------------------------------- */

Test(tokenizer_bad, invalid_utf8)
{
    br_tokenizer *t = br_tokenizer_from_vocab(vocab_file, NULL);
    static const struct {
        const char *text;
        int64_t bad, chars; /* first invalid byte; code points, an invalid sequence counts as one */
    } cases[] = {
        { "a\xff", 1, 2 },
        { "a\xc3", 1, 2 },
        { "a\xc0\xaf", 1, 3 },
        { "\xed\xa0\x80", 0, 3 },
        { "\xf4\x90\x80\x80", 0, 4 },
        { "ab\xe2\x82", 2, 3 },
        { "\xf0\x9f\x98", 0, 1 },
        { "\x80\x80", 0, 2 },
        { "\xe2\x82\xc3\xa9", 0, 2 },
        { "a\xe0\x80\x80", 1, 4 },
        { "\xf8\x88\x80\x80", 0, 4 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char part[64], text[64];
        snprintf(part, sizeof part, "at byte %d", (int)cases[i].bad);
        check_fails(encode(t, cases[i].text, -1, BR_OPTIONS(br_encode, .strict_utf8 = true)), part);
        int n = snprintf(text, sizeof text, "%s z", cases[i].text);
        br_encoding *e = encode(t, text, n, NULL);
        int64_t z = e->length - 2;
        cr_assert_eq(e->bytes[z].begin, n - 1);
        cr_assert_eq(e->chars[z].begin, cases[i].chars + 1, "case %zu: %lld", i,
                     (long long)e->chars[z].begin);
        br_encoding_free(e);
    }
    br_encoding *e = encode(t, "a\0b", 3, NULL);
    cr_assert_eq(e->length, 3, "NUL is dropped, which joins 'ab'");
    cr_assert_eq(e->bytes[1].end, 3);
    br_encoding_free(e);
    br_tokenizer_free(t);
}

/* Returns the time in seconds to encode `unit` repeated n times. */
static double seconds(br_tokenizer *t, const char *unit, int64_t n)
{
    size_t size = strlen(unit);
    char *text = malloc((size_t)n * size);
    for (int64_t i = 0; i < n; i++)
        memcpy(text + (size_t)i * size, unit, size);
    clock_t start = clock();
    br_encoding *e = encode(t, text, n * (int64_t)size, NULL);
    double taken = (double)(clock() - start) / CLOCKS_PER_SEC;
    check_ok();
    br_encoding_free(e);
    free(text);
    return taken;
}

/* A text ten times as long must not take a hundred times as long. Other programs can slow a
 * measurement down but not speed it up, so one good measurement of several is enough. */
Test(tokenizer_bad, time_is_linear)
{
    br_tokenizer *t = br_tokenizer_from_vocab(vocab_file, NULL);
    static const char *const units[] = {
        "x", "\u0301", "\u0301\u0323", "[", "[CLS", "[SEP]", "\xff"
    };
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        double few = seconds(t, units[i], 20000), many = INFINITY;
        for (int tries = 0; tries < 8 && !(many <= 40 * few + 0.05); tries++)
            many = seconds(t, units[i], 200000);
        cr_assert(many <= 40 * few + 0.05, "%s: %g s, then %g s", units[i], few, many);
    }
    br_tokenizer_free(t);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static bool encode_all(void)
{
    br_tokenizer *t = br_tokenizer_from_vocab(vocab_file, NULL);
    br_text text = { "time a\u0323\u0301 flies \u00e9", -1 };
    br_encode_options options =
        *BR_OPTIONS(br_encode, .max_length = 7, .stride = 1, .pad_to_multiple_of = 8);
    br_encoding *e = br_tokenizer_encode(t, &text, &text, &options);
    br_token_batch batch;
    bool ok = e && br_tokenizer_encode_batch(t, 1, &text, NULL, NULL, &batch);
    char *decoded = ok ? br_tokenizer_decode(t, e->length, e->ids, true) : NULL;
    br_free(decoded);
    br_encoding_free(e);
    br_tokenizer_free(t);
    return decoded;
}

Test(tokenizer_bad, memory_runs_out)
{
    fail_in_turn(encode_all, "tokenizer");
}
