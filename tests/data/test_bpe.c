/* tests/data/test_bpe.c - byte-level BPE: encoding against what the fast tokenizer of PyPI's
 * `tokenizers` made of the same texts (bpe_cases.json, written by record_bpe.py), decoding, and
 * files that are refused. */
#include "tests/data/encodings.h"
#include "tests/io/files.h"
#include "tests/memory.h"

TestSuite(bpe, .init = files_begin, .fini = files_end);

#define BPE BRASA_TEST_DIR "/data/bpe/"
static const char vocab_file[] = BPE "vocab.json", merges_file[] = BPE "merges.txt",
                  json_file[] = BPE "tokenizer.json";

/* ---- Recorded cases -------------------------------------------------------------------------- */

static bool truth(const json_t *object, const char *key)
{
    return json_is_true(json_object_get(object, key));
}

static br_tokenizer *open_case(const json_t *c)
{
    br_bpe_options o = { .add_prefix_space = truth(c, "prefix"), .trim_offsets = truth(c, "trim") };
    return truth(c, "json") ? br_tokenizer_from_json(json_file)
                            : br_tokenizer_from_bpe(vocab_file, merges_file, &o);
}

static void replay(int at, const json_t *c)
{
    br_tokenizer *t = open_case(c);
    br_encode_options o = { .max_length = json_integer_value(json_object_get(c, "max_length")),
                            .stride = json_integer_value(json_object_get(c, "stride")) };
    check_case(at, c, t, &o);
    br_tokenizer_free(t);
}

Test(bpe, recorded_texts)
{
    json_error_t error;
    json_t *cases = json_load_file(BRASA_TEST_DIR "/data/bpe_cases.json", JSON_ALLOW_NUL, &error);
    cr_assert(cases, "%s", error.text);
    cr_assert_gt(json_array_size(cases), 100);
    for (size_t i = 0; i < json_array_size(cases); i++)
        replay((int)i, json_array_get(cases, i));
    json_decref(cases);
}

/* ---- Both ways ------------------------------------------------------------------------------- */

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

/* Whatever is valid comes back as it was; invalid bytes come back as U+FFFD. */
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
    check_fails(encode(t, "a\xff", -1, &(br_encode_options){ .strict_utf8 = true }), "at byte 1");
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
    e = encode(t, "a<|endoftext|>", -1, &(br_encode_options){ .split_special_tokens = true });
    cr_assert(e->length > 2 && e->ids[1] != end);
    br_encoding_free(e);
    e = encode(t, "a", -1, &(br_encode_options){ .pad_to_multiple = 3, .pad_left = true });
    cr_assert(e->length == 3 && e->ids[0] == end && e->attention_mask[1] == 0);
    br_encoding_free(e);
    br_tokenizer_free(t);
}

/* A long word takes time of n log n, not of n squared. */
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

/* ---- Files that are refused ------------------------------------------------------------------ */

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
        { "c b\n", "line 1 merges a first part that the vocabulary lacks" },
        { "a c\n", "line 1 merges a second part that the vocabulary lacks" },
        { "b a\n", "line 1 merges to a token that the vocabulary lacks" },
    };
    for (size_t i = 0; i < sizeof merges / sizeof *merges; i++)
        check_fails(from(vocab, merges[i][0], NULL), merges[i][1]);
    static const char *const vocabs[][2] = {
        { "", "line 1" },
        { "[1]", "not an object" },
        { "{\"a\": 0, \"b\": 0}", "have one id, 0" },
        { "{\"a\": -1}", "the id of 'a'" },
        { "{\"a\": 16777216}", "the id of 'a'" },
        { "{\"a\": 0, \"a\": 1}", "duplicate" },
    };
    for (size_t i = 0; i < sizeof vocabs / sizeof *vocabs; i++)
        check_fails(from(vocabs[i][0], "", NULL), vocabs[i][1]);
    check_fails(br_tokenizer_from_bpe("/nonexistent", merges_file, NULL), "/nonexistent");
    check_fails(br_tokenizer_from_bpe(vocab_file, "/nonexistent", NULL), "/nonexistent");
    br_bpe_options o = { .end_of_text = "</s>" };
    check_fails(from(vocab, "a b\n", &o), "there is no token '</s>'");
    o = (br_bpe_options){ .add_prefix_space = true, .trim_offsets = true };
    check_fails(from(vocab, "a b\n", &o), "exclude each other");
}

/* Merges by rank; holes between ids; bytes without a token. */
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
    check_fails(encode(t, "a", -1, &(br_encode_options){ .pad_to_multiple = 8 }), "to pad with");
    br_tokenizer_free(t);
    t = from("{}", "", NULL);
    check_ok();
    check_fails(encode(t, "a", -1, NULL), "no token for the byte 0x61");
    br_tokenizer_free(t);
}

static const char json[] =
    "{\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
    "\"use_regex\":true},\"post_processor\":{\"type\":\"ByteLevel\",\"trim_offsets\":true},"
    "\"decoder\":{\"type\":\"ByteLevel\"},\"added_tokens\":[{\"id\":4,\"content\":\"<>\","
    "\"normalized\":true,\"rstrip\":false}],\"model\":{\"type\":\"BPE\",\"dropout\":null,"
    "\"unk_token\":\"b\",\"fuse_unk\":false,\"vocab\":{\"a\":0,\"b\":1,\"ab\":3},"
    "\"merges\":[[\"a\",\"b\"]]}}";

Test(bpe, json_of_gpt2s_kind)
{
    br_tokenizer *t = changed_json(json, "", "");
    check_ok();
    br_encoding *e = encode(t, "ab<>ac", -1, NULL);
    cr_assert_eq(e->length, 3);
    cr_assert_arr_eq(e->ids, ((int64_t[]){ 3, 4, 3 }), 3 * sizeof(int64_t));
    br_encoding_free(e);
    br_tokenizer_free(t);
    static const char *const cases[][3] = {
        { "null", "{\"type\":\"NFC\"}", "normalizer is given" },
        { "\"ByteLevel\",\"add", "\"Split\",\"add", "pre_tokenizer is Split" },
        { "use_regex\":true", "use_regex\":false", "use_regex is false" },
        { "\"ByteLevel\",\"trim", "\"RobertaProcessing\",\"trim", "post_processor is Roberta" },
        { "space\":false", "space\":true", "both true" },
        { "\"decoder\":{\"type\":\"ByteLevel\"}", "\"decoder\":null", "decoder is of no type" },
        { "\"rstrip\":false", "\"single_word\":true", "'<>' is 'single_word'" },
        { "\"id\":4", "\"id\":2", "'<>' has id 2, must have 4" },
        { "\"dropout\":null", "\"dropout\":0.1", "model.dropout is given" },
        { "\"dropout\":null", "\"byte_fallback\":true", "model.byte_fallback is given" },
        { "\"dropout\":null", "\"end_of_word_suffix\":\"</w>\"", "end_of_word_suffix is given" },
        { "\"unk_token\":\"b\"", "\"unk_token\":\"c\"", "'c' is not in the vocabulary" },
        { "fuse_unk\":false", "fuse_unk\":true", "fuse_unk is true" },
        { "[\"a\",\"b\"]", "[\"a\"]", "merges[0] is not two strings" },
        { "[\"a\",\"b\"]", "7", "merges[0] is not two strings" },
        { "[\"a\",\"b\"]", "\"ab\"", "merges[0] is not two tokens" },
        { "[\"a\",\"b\"]", "\"b a\"", "merges[0] merges to a token" },
        { "[[\"a\",\"b\"]]", "{}", "model.merges is not an array" },
        { "\"b\":1,", "\"b\":0,", "have one id, 0" },
    };
    check_changes_fail(json, cases, sizeof cases / sizeof *cases);
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
