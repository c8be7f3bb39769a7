/* tests/tokenizers/test_bpe.c - byte-level BPE: encoding compared with recorded results of the fast
 * tokenizer in PyPI's `tokenizers` (bpe_cases.json, written by record_bpe.py), decoding, and
 * invalid files. */
#include "tests/io/files.h"
#include "tests/memory.h"
#include "tests/tokenizers/encodings.h"

TestSuite(bpe, .init = files_begin, .fini = files_end);

#define BPE BRASA_TEST_DIR "/tokenizers/bpe/"
static const char vocab_file[] = BPE "vocab.json", merges_file[] = BPE "merges.txt",
                  json_file[] = BPE "tokenizer.json";

/* ---- Recorded cases -------------------------------------------------------------------------- */

static bool truth(const json_t *object, const char *key)
{
    return json_is_true(json_object_get(object, key));
}

/* Loads the recorded tokenizer.json with a different post-processor. */
static br_tokenizer *with_template(json_t *template)
{
    json_t *root = json_load_file(json_file, 0, NULL);
    cr_assert_eq(json_object_set(root, "post_processor", template), 0);
    cr_assert_eq(json_dump_file(root, files_path("tokenizer.json"), 0), 0);
    json_decref(root);
    br_tokenizer *t = br_tokenizer_from_json(files_path("tokenizer.json"));
    cr_assert(t, "%s", br_error_message());
    return t;
}

static br_tokenizer *open_case(const json_t *c)
{
    json_t *template = json_object_get(c, "template");
    if (template)
        return with_template(template);
    br_bpe_options o = *BR_OPTIONS(br_bpe, .add_prefix_space = truth(c, "prefix"),
                                   .trim_offsets = truth(c, "trim"));
    return truth(c, "json") ? br_tokenizer_from_json(json_file)
                            : br_tokenizer_from_bpe(vocab_file, merges_file, &o);
}

static void replay(int at, const json_t *c)
{
    br_tokenizer *t = open_case(c);
    br_encode_options o =
        *BR_OPTIONS(br_encode, .max_length = json_integer_value(json_object_get(c, "max_length")),
                    .stride = json_integer_value(json_object_get(c, "stride")));
    check_case(at, c, t, &o);
    br_tokenizer_free(t);
}

Test(bpe, recorded_texts)
{
    json_error_t error;
    json_t *cases =
        json_load_file(BRASA_TEST_DIR "/tokenizers/bpe_cases.json", JSON_ALLOW_NUL, &error);
    cr_assert(cases, "%s", error.text);
    cr_assert_gt(json_array_size(cases), 100);
    for (size_t i = 0; i < json_array_size(cases); i++)
        replay((int)i, json_array_get(cases, i));
    json_decref(cases);
}

/* ---- Encoding and decoding ------------------------------------------------------------------- */

static br_tokenizer *plain(void)
{
    br_tokenizer *t = br_tokenizer_from_bpe(vocab_file, merges_file, NULL);
    cr_assert(t, "%s", br_error_message());
    return t;
}

static br_encoding *encode(br_tokenizer *t, const char *text, int64_t length,
                           const br_encode_options *options)
{
    br_text whole = { text, length };
    return br_tokenizer_encode(t, &whole, NULL, options);
}

/* Valid text is restored exactly; invalid bytes become U+FFFD. */
Test(bpe, decoding_undoes_encoding)
{
    static const char *const texts[][2] = {
        { "time flies\tlike  an arrow\n", "time flies\tlike  an arrow\n" },
        { "\xf0\x9f\x98\x80 \xc3\xa9", "\xf0\x9f\x98\x80 \xc3\xa9" },
        { "a\xff\xc3 b", "a\xef\xbf\xbd\xef\xbf\xbd b" },
    };
    br_tokenizer *t = plain();
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        br_encoding *e = encode(t, texts[i][0], -1, NULL);
        char *text = br_tokenizer_decode(t, e->length, e->ids, false);
        cr_assert_str_eq(text, texts[i][1]);
        br_free(text);
        br_encoding_free(e);
    }
    check_fails(encode(t, "a\xff", -1, BR_OPTIONS(br_encode, .strict_utf8 = true)), "at byte 1");
    br_tokenizer_free(t);
}

Test(bpe, special_tokens)
{
    br_tokenizer *t = plain();
    int64_t end = br_tokenizer_id(t, "<|endoftext|>", -1);
    br_encoding *e = encode(t, "a<|endoftext|>", -1, NULL);
    cr_assert(e->length == 2 && e->ids[1] == end);
    char *text = br_tokenizer_decode(t, 2, e->ids, true);
    cr_assert_str_eq(text, "a");
    br_free(text);
    br_encoding_free(e);
    e = encode(t, "a<|endoftext|>", -1, BR_OPTIONS(br_encode, .split_special_tokens = true));
    cr_assert(e->length > 2 && e->ids[1] != end);
    br_encoding_free(e);
    e = encode(t, "a", -1, BR_OPTIONS(br_encode, .pad_to_multiple_of = 3, .pad_left = true));
    cr_assert(e->length == 3 && e->ids[0] == end && e->attention_mask[1] == 0);
    br_encoding_free(e);
    br_tokenizer_free(t);
}

/* The time for a long word is O(n log n), not quadratic. */
Test(bpe, a_long_word)
{
    enum { N = 1 << 20 };
    char *text = malloc(N);
    for (int64_t i = 0; i < N; i++)
        text[i] = "theiark"[(i * i + i / 3) % 7];
    br_tokenizer *t = plain();
    br_encoding *e = encode(t, text, N, NULL);
    cr_assert(e && e->length < N && e->bytes[e->length - 1].end == N);
    br_encoding_free(e);
    br_tokenizer_free(t);
    free(text);
}

/* ---- Invalid files --------------------------------------------------------------------------- */

static br_tokenizer *from(const char *vocab, const char *merges, const br_bpe_options *o)
{
    files_write(files_path("vocab.json"), vocab, strlen(vocab));
    files_write(files_path("merges.txt"), merges, strlen(merges));
    return br_tokenizer_from_bpe(files_path("vocab.json"), files_path("merges.txt"), o);
}

Test(bpe, bad_files)
{
    static const char vocab[] = "{\"a\": 0, \"b\": 1, \"ab\": 2, \"aba\": 5}";
    static const char *const merges[][2] = {
        { "#version: 0.2\na b\nabab\n", "line 3 is not two tokens" },
        { "a b c\n", "line 1 is not two tokens" },
        { "a b\n\n", "line 2 is not two tokens" },
        { "c b\n", "line 1 merges a left token that is not in the vocabulary" },
        { "a c\n", "line 1 merges a right token that is not in the vocabulary" },
        { "b a\n", "line 1 merges to a token that is not in the vocabulary" },
    };
    for (size_t i = 0; i < sizeof merges / sizeof *merges; i++)
        check_fails(from(vocab, merges[i][0], NULL), merges[i][1]);
    static const char *const vocabs[][2] = {
        { "", "line 1" },
        { "[1]", "not an object" },
        { "{\"a\": 0, \"b\": 0}", "have the same id, 0" },
        { "{\"a\": -1}", "the id of 'a'" },
        { "{\"a\": 16777216}", "the id of 'a'" },
        { "{\"a\": 0, \"a\": 1}", "duplicate" },
    };
    for (size_t i = 0; i < sizeof vocabs / sizeof *vocabs; i++)
        check_fails(from(vocabs[i][0], "", NULL), vocabs[i][1]);
    check_fails(br_tokenizer_from_bpe("/nonexistent", merges_file, NULL), "/nonexistent");
    check_fails(br_tokenizer_from_bpe(vocab_file, "/nonexistent", NULL), "/nonexistent");
    br_bpe_options o = *BR_OPTIONS(br_bpe, .end_of_text = "</s>");
    check_fails(from(vocab, "a b\n", &o), "there is no token '</s>'");
    o = *BR_OPTIONS(br_bpe, .add_prefix_space = true, .trim_offsets = true);
    check_fails(from(vocab, "a b\n", &o), "are mutually exclusive");
}

/* As in transformers, GPT-2 has no padding token unless it is given, although encodings are padded
 * with the end of text. */
Test(bpe, role_of_the_padding_token)
{
    static const char tokens[] = "{\"a\": 0, \"<|endoftext|>\": 1, \"<p>\": 2}";
    for (int given = 0; given < 2; given++) {
        br_bpe_options o = *BR_OPTIONS(br_bpe, .pad_token = given ? "<p>" : NULL);
        br_tokenizer *t = from(tokens, "", &o);
        cr_assert_eq(br_tokenizer_special_id(t, BR_TOKEN_PAD), given ? 2 : -1);
        br_encoding *e = encode(t, "a", -1, BR_OPTIONS(br_encode, .pad_to_multiple_of = 2));
        cr_assert(e && e->length == 2, "%s", br_error_message());
        cr_assert_eq(e->ids[1], given ? 2 : 1);
        br_encoding_free(e);
        br_tokenizer_free(t);
    }
}

/* Merges by rank, gaps between ids, and bytes without a token. */
Test(bpe, small_vocabulary)
{
    br_tokenizer *t = from("{\"a\": 0, \"b\": 1, \"ab\": 2, \"aba\": 5}", "a b\r\nab a", NULL);
    br_encoding *e = encode(t, "bababa", -1, NULL);
    check_ok();
    cr_assert_eq(e->length, 3);
    cr_assert_arr_eq(e->ids, ((int64_t[]){ 1, 2, 5 }), 3 * sizeof(int64_t));
    br_encoding_free(e);
    check_fails(encode(t, "abc", -1, NULL), "no token for the byte 0x63");
    check_fails(br_tokenizer_decode(t, 1, (int64_t[]){ 4 }, false), "no token has id 4");
    check_fails(encode(t, "a", -1, BR_OPTIONS(br_encode, .pad_to_multiple_of = 8)),
                "has no padding token");
    br_tokenizer_free(t);
    /* As in `tokenizers`, a token that is no sequence of bytes is decoded to its own text. */
    t = from("{\"a\": 0, \"a\xe6\x97\xa5\": 1}", "", NULL);
    char *text = br_tokenizer_decode(t, 3, (int64_t[]){ 0, 1, 0 }, false);
    cr_assert_str_eq(text, "aa\xe6\x97\xa5"
                           "a");
    br_free(text);
    br_tokenizer_free(t);
    t = from("{}", "", NULL);
    check_ok();
    check_fails(encode(t, "a", -1, NULL), "no token for the byte 0x61");
    br_tokenizer_free(t);
}

/* Checks a text's ids, which were recorded from `tokenizers` with the same vocabulary and merges.
 */
static void check_ids(const char *vocab, const char *merges, const char *text, int64_t n,
                      const int64_t *ids)
{
    br_tokenizer *t = from(vocab, merges, NULL);
    br_encoding *e = encode(t, text, -1, NULL);
    check_ok();
    cr_assert_eq(e->length, n, "%s: %lld tokens", text, (long long)e->length);
    cr_assert_arr_eq(e->ids, ids, (size_t)n * sizeof *ids, "%s", text);
    br_encoding_free(e);
    br_tokenizer_free(t);
}

/* If several merges have equal rank, the leftmost is applied first. */
Test(bpe, merges_of_equal_rank)
{
    static const char vocab[] = "{\"r\": 0, \"rr\": 1, \"rrrr\": 2}", merges[] = "r r\nrr rr\n";
    check_ids(vocab, merges, "rrr", 2, (int64_t[]){ 1, 0 });
    check_ids(vocab, merges, "rrrrr", 2, (int64_t[]){ 2, 0 });
    check_ids(vocab, merges, "rrrrrrr", 3, (int64_t[]){ 2, 1, 0 });
}

/* A queued merge is discarded if one of its parts has been merged into another token. */
Test(bpe, merges_that_are_out_of_date)
{
    static const char vocab[] = "{\"a\": 0, \"b\": 1, \"c\": 2, \"ab\": 3, \"bc\": 4, \"abc\": 5}";
    static const char merges[] = "b c\na b\na bc\n";
    check_ids(vocab, merges, "abc", 1, (int64_t[]){ 5 });
    check_ids(vocab, merges, "ababc", 2, (int64_t[]){ 3, 5 });
    check_ids(vocab, merges, "abcabc", 2, (int64_t[]){ 5, 5 });
    /* Without the merge of "a" and "bc". */
    check_ids(vocab, "b c\na b\n", "abc", 2, (int64_t[]){ 0, 4 });
}

static const char json[] =
    "{\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
    "\"use_regex\":true},\"post_processor\":{\"type\":\"ByteLevel\",\"trim_offsets\":true},"
    "\"decoder\":{\"type\":\"ByteLevel\"},\"added_tokens\":[{\"id\":3,\"content\":\"<>\","
    "\"normalized\":true,\"rstrip\":false}],\"model\":{\"type\":\"BPE\",\"dropout\":null,"
    "\"unk_token\":\"b\",\"fuse_unk\":false,\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},"
    "\"merges\":[[\"a\",\"b\"]]}}";

Test(bpe, json_of_gpt2s_kind)
{
    br_tokenizer *t = changed_json(json, "", "");
    check_ok();
    br_encoding *e = encode(t, "ab<>ac", -1, NULL);
    cr_assert_eq(e->length, 3);
    cr_assert_arr_eq(e->ids, ((int64_t[]){ 2, 3, 2 }), 3 * sizeof(int64_t));
    br_encoding_free(e);
    br_tokenizer_free(t);
    static const char *const cases[][3] = {
        { "null", "{\"type\":\"Nmt\"}", "normalizer is Nmt, which is not supported" },
        { "\"ByteLevel\",\"add", "\"Split\",\"add", "pre_tokenizer is not supported" },
        { "use_regex\":true", "use_regex\":false", "use_regex is false" },
        { "\"ByteLevel\",\"trim", "\"RobertaProcessing\",\"trim",
          "post_processor.cls is not a token and its id" },
        { "\"ByteLevel\",\"trim", "\"RobertaProcessing\",\"cls\":[\"a\"],\"trim",
          "post_processor.cls is not a token and its id" },
        { "\"ByteLevel\",\"trim", "\"RobertaProcessing\",\"cls\":[\"a\",0,0],\"trim",
          "post_processor.cls is not a token and its id" },
        { "space\":false", "space\":true", "both true" },
        { "\"decoder\":{\"type\":\"ByteLevel\"}", "\"decoder\":{}", "decoder is without a type" },
        { "\"type\":\"BPE\"", "\"type\":\"WordLevel\"",
          "model is WordLevel, which is not supported: must be WordPiece, BPE or Unigram" },
        { "\"rstrip\":false", "\"single_word\":1", "single_word is not a boolean" },
        { "\"id\":3", "\"id\":4", "'<>' has id 4, must have 3" },
        { "\"dropout\":null", "\"dropout\":0.1", "model.dropout is given" },
        { "\"dropout\":null", "\"byte_fallback\":true",
          "byte_fallback is true, but the vocabulary has no token <0x00>" },
        { "\"dropout\":null", "\"end_of_word_suffix\":\"</w>\"", "end_of_word_suffix is given" },
        { "\"unk_token\":\"b\"", "\"unk_token\":3", "unk_token is not a string" },
        { "fuse_unk\":false", "fuse_unk\":true", "fuse_unk is true" },
        { "[\"a\",\"b\"]", "[\"a\"]", "merges[0] is not two strings" },
        { "[\"a\",\"b\"]", "7", "merges[0] is not two strings" },
        { "[\"a\",\"b\"]", "\"ab\"", "merges[0] is not two tokens" },
        { "[\"a\",\"b\"]", "\"b a\"", "merges[0] merges to a token" },
        { "[[\"a\",\"b\"]]", "{}", "model.merges is not an array" },
        { "\"b\":1,", "\"b\":0,", "have the same id, 0" },
    };
    check_changes_fail(json, cases, sizeof cases / sizeof *cases);
}

/* Without add_prefix_space, the default of ByteLevel holds: a space is added. */
Test(bpe, the_default_of_add_prefix_space)
{
    static const char spaced[] =
        "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
        "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"vocab\":"
        "{\"\\u0120\":0,\"a\":1,\"b\":2,\"ab\":3},\"merges\":[[\"a\",\"b\"]]}}";
    for (int given = 0; given < 2; given++) {
        br_tokenizer *t = changed_json(spaced, given ? "" : ",\"add_prefix_space\":false", "");
        cr_assert(t, "%s", br_error_message());
        br_encoding *e = encode(t, "ab", -1, NULL);
        cr_assert_eq(e->length, given ? 1 : 2);
        cr_assert_eq(e->ids[0], given ? 3 : 0);
        br_encoding_free(e);
        br_tokenizer_free(t);
    }
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static bool use(void)
{
    br_tokenizer *t = br_tokenizer_from_bpe(vocab_file, merges_file, NULL);
    br_encoding *e = t ? encode(t, "time flies<|endoftext|>like", -1, NULL) : NULL;
    char *text = e ? br_tokenizer_decode(t, e->length, e->ids, false) : NULL;
    bool ok = text;
    br_free(text);
    br_encoding_free(e);
    br_tokenizer_free(t);
    return ok;
}

Test(bpe, memory_runs_out_everywhere)
{
    fail_in_turn(use, "a byte-level BPE");
}
