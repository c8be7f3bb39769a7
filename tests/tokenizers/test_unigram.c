/* tests/tokenizers/test_unigram.c - Unigram: encoding compared with recorded results of the fast
 * tokenizer in PyPI's `tokenizers` and of SentencePiece (unigram_cases.json, written by
 * record_unigram.py), decoding, and invalid files. */
#include "tests/io/files.h"
#include "tests/memory.h"
#include "tests/tokenizers/encodings.h"

TestSuite(unigram, .init = files_begin, .fini = files_end);

#define UNIGRAM BRASA_TEST_DIR "/tokenizers/unigram/"
static const char model_file[] = UNIGRAM "spiece.model", json_file[] = UNIGRAM "tokenizer.json",
                  bytes_file[] = UNIGRAM "bytes.json";

/* ---- Recorded cases -------------------------------------------------------------------------- */

typedef struct models {
    br_tokenizer *own, *fast, *bytes;
} models;

static models open_models(void)
{
    models m = { br_tokenizer_from_sentencepiece(model_file, NULL),
                 br_tokenizer_from_json(json_file), br_tokenizer_from_json(bytes_file) };
    cr_assert(m.own && m.fast && m.bytes, "%s", br_error_message());
    return m;
}

static void free_models(models *m)
{
    br_tokenizer_free(m->own);
    br_tokenizer_free(m->fast);
    br_tokenizer_free(m->bytes);
}

static void replay_fast(int at, const br_tokenizer *t, const json_t *c)
{
    check_case(at, c, t,
               BR_OPTIONS(br_encode,
                          .max_length = json_integer_value(json_object_get(c, "max_length")),
                          .stride = json_integer_value(json_object_get(c, "stride"))));
}

/* SentencePiece does not recognize special tokens in a text. */
static void replay_own(int at, const br_tokenizer *t, const json_t *c)
{
    br_text text[2];
    recorded_texts(json_object_get(c, "texts"), text);
    br_encode_options o =
        *BR_OPTIONS(br_encode, .split_special_tokens = true, .add_special_tokens = false);
    br_encoding *e = br_tokenizer_encode(t, text, NULL, &o);
    check_ok();
    check_numbers(at, c, "ids", e->ids, e->length);
    check_spans(at, c, "bytes", e->bytes, e->length);
    br_encoding_free(e);
}

Test(unigram, recorded_texts)
{
    json_error_t error;
    json_t *cases = json_load_file(BRASA_TEST_DIR "/tokenizers/unigram_cases.json", 0, &error);
    cr_assert(cases, "%s", error.text);
    cr_assert_gt(json_array_size(cases), 100);
    models m = open_models();
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *c = json_array_get(cases, i);
        const char *name = json_string_value(json_object_get(c, "model"));
        if (strcmp(name, "spiece.model") == 0)
            replay_own((int)i, m.own, c);
        else
            replay_fast((int)i, strcmp(name, "bytes.json") == 0 ? m.bytes : m.fast, c);
    }
    free_models(&m);
    json_decref(cases);
}

/* ---- Encoding and decoding ------------------------------------------------------------------- */

static br_encoding *encode(const br_tokenizer *t, const char *text, int64_t length,
                           const br_encode_options *options)
{
    br_text whole = { text, length };
    return br_tokenizer_encode(t, &whole, NULL, options);
}

static void check_decoded(const br_tokenizer *t, const char *text, bool skip, const char *want)
{
    br_encoding *e = encode(t, text, -1, NULL);
    cr_assert(e, "%s", br_error_message());
    char *decoded = br_tokenizer_decode(t, e->length, e->ids, skip);
    cr_assert_str_eq(decoded, want);
    br_free(decoded);
    br_encoding_free(e);
}

Test(unigram, decoding)
{
    models m = open_models();
    check_decoded(m.fast, " the  license\t", true, "the license");
    check_decoded(m.fast, "the license", false, "the license</s>");
    check_decoded(m.own, "the \xe4\xb8\xad\xe6\x96\x87", true, "the \xe4\xb8\xad\xe6\x96\x87");
    check_decoded(m.own, "a<extra_id_0> b", false, "a<extra_id_0> b</s>");
    int64_t bytes[] = { br_tokenizer_id(m.own, "<0xE4>", -1),
                        br_tokenizer_id(m.own, "<0xB8>", -1) };
    char *text = br_tokenizer_decode(m.own, 2, bytes, false);
    cr_assert_str_eq(text, "\xef\xbf\xbd\xef\xbf\xbd");
    br_free(text);
    int64_t nul[] = { br_tokenizer_id(m.own, "<0x00>", -1), br_tokenizer_id(m.own, "<0x41>", -1) };
    int64_t length;
    text = br_tokenizer_decode_text(m.own, 2, nul, false, &length);
    cr_assert(length == 2 && memcmp(text, "\0A", 3) == 0);
    br_free(text);
    check_fails(br_tokenizer_decode_text(NULL, 2, nul, false, &length), "tokenizer is NULL");
    cr_assert_eq(length, 0);
    free_models(&m);
}

Test(unigram, special_tokens)
{
    models m = open_models();
    int64_t size = br_tokenizer_size(m.own);
    cr_assert_eq(br_tokenizer_id(m.own, "<extra_id_0>", -1), size - 1);
    cr_assert_eq(br_tokenizer_id(m.own, "<extra_id_99>", -1), size - 100);
    br_encoding *e = encode(m.own, "a</s>", -1, NULL);
    cr_assert(e->ids[e->length - 1] == 1 && e->ids[e->length - 2] == 1);
    br_encoding_free(e);
    /* With split_special_tokens, text that becomes a special token by normalization is plain text,
     * too. */
    br_encode_options text =
        *BR_OPTIONS(br_encode, .split_special_tokens = true, .add_special_tokens = false);
    const br_tokenizer *all[] = { m.own, m.fast, m.bytes };
    for (size_t i = 0; i < 3; i++) {
        e = encode(all[i], "a</s> \xef\xbc\x9c/s> <pad> <unk>", -1, &text);
        for (int64_t k = 0; k < e->length; k++)
            cr_assert_gt(e->ids[k], 1);
        br_encoding_free(e);
    }
    e = encode(m.fast, "a", -1, BR_OPTIONS(br_encode, .pad_to_multiple_of = 8, .pad_left = true));
    cr_assert(e->length == 8 && e->ids[0] == 0 && e->attention_mask[0] == 0);
    br_encoding_free(e);
    free_models(&m);
    br_sentencepiece_options o = *BR_OPTIONS(br_sentencepiece, .extra_ids = -1, .add_eos = false);
    br_tokenizer *t = br_tokenizer_from_sentencepiece(model_file, &o);
    cr_assert_eq(br_tokenizer_size(t), size - 100);
    e = encode(t, "", -1, NULL);
    cr_assert_eq(e->length, 0);
    br_encoding_free(e);
    br_tokenizer_free(t);
    o.extra_ids = INT64_MAX;
    check_fails(br_tokenizer_from_sentencepiece(model_file, &o), "extra_ids is");
}

/* Each invalid sequence becomes U+FFFD, with its own offsets. */
Test(unigram, invalid_utf8)
{
    models m = open_models();
    const br_tokenizer *all[] = { m.own, m.fast, m.bytes };
    for (size_t i = 0; i < 3; i++) {
        br_encoding *e = encode(all[i], "the \xff\xc3 end", -1, NULL);
        cr_assert(e, "%s", br_error_message());
        cr_assert_eq(e->bytes[e->length - 2].end, 10);
        br_encoding_free(e);
        check_fails(encode(all[i], "a\xff", -1, BR_OPTIONS(br_encode, .strict_utf8 = true)),
                    "at byte 1");
    }
    free_models(&m);
}

/* The time is linear in the length of a word. */
Test(unigram, a_long_word)
{
    enum { N = 1 << 20 };
    char *text = malloc(N);
    for (int64_t i = 0; i < N; i++)
        text[i] = "licensetheiark"[(i * i + i / 3) % 14];
    models m = open_models();
    const br_tokenizer *all[] = { m.own, m.fast, m.bytes };
    for (size_t i = 0; i < 3; i++) {
        br_encoding *e = encode(all[i], text, N, NULL);
        cr_assert(e && e->length < N && e->bytes[e->length - 2].end == N);
        br_encoding_free(e);
    }
    free_models(&m);
    free(text);
}

static void check_text_of(const br_tokenizer *t, int64_t n, const int64_t *ids, const char *want)
{
    char *text = br_tokenizer_decode(t, n, ids, false);
    cr_assert_str_eq(text, want, "\"%s\", not \"%s\"", text, want);
    br_free(text);
}

/* If segmentations have equal scores, the one with the longest last piece is used, as in
 * `tokenizers`. */
Test(unigram, equal_scores)
{
    static const char vocab[] = "[\"a\",-1],[\"b\",-1],[\"ab\",-2],[\"c\",-1],[\"bc\",-2],"
                                "[\"abc\",-3],[\"d\",-1],[\"cd\",-2],[\"bcd\",-3]";
    static const struct {
        const char *text;
        int64_t n, ids[4];
    } cases[] = { { "ab", 1, { 3 } },
                  { "abc", 1, { 6 } },
                  { "abcd", 2, { 1, 9 } },
                  { "bcd", 1, { 9 } },
                  { "dcba", 4, { 7, 4, 2, 1 } } };
    char text[800];
    snprintf(text, sizeof text,
             "{\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\\u2581\","
             "\"prepend_scheme\":\"never\"},\"decoder\":{\"type\":\"Metaspace\","
             "\"replacement\":\"\\u2581\"},\"model\":{\"type\":\"Unigram\",\"unk_id\":0,"
             "\"vocab\":[[\"<unk>\",0],%s]}}",
             vocab);
    files_write(files_path("tokenizer.json"), text, strlen(text));
    br_tokenizer *t = br_tokenizer_from_json(files_path("tokenizer.json"));
    cr_assert(t, "%s", br_error_message());
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        br_encoding *e = encode(t, cases[i].text, -1, NULL);
        cr_assert_eq(e->length, cases[i].n, "%s", cases[i].text);
        cr_assert_arr_eq(e->ids, cases[i].ids, (size_t)e->length * sizeof *e->ids, "%s",
                         cases[i].text);
        br_encoding_free(e);
    }
    br_tokenizer_free(t);
}

/* With spiece.model, word ids begin at 0; each U+2581 and each added token begins a new word. */
Test(unigram, word_ids_of_spiece_model)
{
    br_tokenizer *t = br_tokenizer_from_sentencepiece(model_file, NULL);
    br_encoding *e = encode(t, "the license the<extra_id_0> the", -1, NULL);
    cr_assert(e, "%s", br_error_message());
    int64_t word = -1;
    for (int64_t i = 0; i < e->length; i++) {
        const char *token = br_tokenizer_token(t, e->ids[i]);
        bool begins = strncmp(token, "\xe2\x96\x81", 3) == 0 || token[0] == '<';
        word += begins;
        cr_assert_eq(e->word_ids[i], e->special_mask[i] ? -1 : word, "token %lld, %s: %lld",
                     (long long)i, token, (long long)e->word_ids[i]);
    }
    cr_assert_eq(word, 5, "%lld", (long long)word);
    br_encoding_free(e);
    br_tokenizer_free(t);
}

/* ---- Invalid tokenizer.json ------------------------------------------------------------------ */

/* precompiled_charsmap has a trie of one unit and the texts "a". */
static const char json[] =
    "{\"added_tokens\":[{\"id\":0,\"content\":\"<u>\",\"special\":true,\"lstrip\":true}],"
    "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Precompiled\","
    "\"precompiled_charsmap\":\"BAAAAAAAAABhAA==\"},{\"type\":\"Replace\","
    "\"pattern\":{\"Regex\":\" {2,}\"},\"content\":\"x\"}]},"
    "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"WhitespaceSplit\"},"
    "{\"type\":\"Metaspace\",\"replacement\":\"\\u2581\",\"prepend_scheme\":\"always\"}]},"
    "\"post_processor\":null,\"decoder\":{\"type\":\"Metaspace\",\"replacement\":\"\\u2581\","
    "\"add_prefix_space\":true},\"model\":{\"type\":\"Unigram\",\"unk_id\":0,"
    "\"byte_fallback\":false,\"vocab\":[[\"<u>\",0],[\"a\",-1.5],[\"\\u2581\",-2.0],[\"ab\",-3]]}}";

Test(unigram, json_of_t5s_kind)
{
    br_tokenizer *t = changed_json(json, "", "");
    cr_assert(t, "%s", br_error_message());
    br_encoding *e = encode(t, "aab  <u>", -1, NULL);
    cr_assert_eq(e->length, 4);
    cr_assert_arr_eq(e->ids, ((int64_t[]){ 2, 1, 3, 0 }), 4 * sizeof(int64_t));
    cr_assert(e->bytes[3].begin == 3 && e->bytes[3].end == 8);
    br_encoding_free(e);
    check_fails(encode(t, "a", -1, BR_OPTIONS(br_encode, .pad_to_multiple_of = 8)),
                "has no padding token");
    br_tokenizer_free(t);
    static const char *const cases[][3] = {
        { "\"BAAAAAAAAABhAA==\"", "7", "there is no precompiled_charsmap" },
        { "BAAAAAAAAABhAA==", "BAAAAAAAAABhAA=", "is not base64" },
        { "BAAAAAAAAABhAA==", "BAAA*AAAAABhAA==", "is not base64" },
        { "BAAAAAAAAABhAA==", "", "is empty" },
        { "BAAAAAAAAABhAA==", "BAAA", "is truncated" },
        { "BAAAAAAAAABhAA==", "CAAAAAAAAABhAA==", "is truncated" },
        { "BAAAAAAAAABhAA==", "BAAAAAAAAABhYQ==", "without a NUL at the end" },
        { "BAAAAAAAAABhAA==", "BAAAAAAAAAA=", "without a NUL at the end" },
        { "BAAAAAAAAABhAA==", "BAAAAAAAAAD/AA==", "not valid UTF-8" },
        { "BAAAAAAAAABhAA==", "BAAAAAABAABhAA==", "a leaf is missing" },
        { "BAAAAAAAAABhAA==", "BAAAAAAAAIBhAA==", "root is a leaf" },
        { "BAAAAAAAAABhAA==", "CAAAAAAFAAACAACAYQA=", "a leaf that points outside the texts" },
        { "\"Precompiled\"", "\"Nmt\"", "not Precompiled, Replace, Strip, NFC" },
        { " {2,}", " +", "pattern of Replace is ' +'" },
        { "{\"Regex\":\" {2,}\"}", "{\"String\":\"\"}", "pattern of Replace" },
        { "WhitespaceSplit", "Whitespace", "pre_tokenizer is not" },
        { "\\u2581\",\"prepend", "_\",\"prepend", "replacement is '_'" },
        { "\"always\"", "\"often\"", "unknown prepend_scheme 'often'" },
        { "\"decoder\":{\"type\":\"Metaspace\"", "\"decoder\":{\"type\":\"Fuse\"", "decoder is" },
        { "\"post_processor\":null", "\"post_processor\":{\"type\":\"Bert\"}",
          "post_processor is Bert, must be" },
        { "\"unk_id\":0", "\"unk_id\":4", "unk_id is not an integer in 0 .. 3" },
        { "\"unk_id\":0", "\"unk_id\":\"0\"", "unk_id is not an integer" },
        { "-1.5", "\"b\"", "vocab[1] is not a piece and a finite score" },
        { "-1.5", "1e999", "real number overflow" },
        { "-1.5", "NaN", "invalid token" },
        { "[\"a\",-1.5]", "[\"\",-1.5]", "vocab[1] is an empty piece" },
        { "[\"a\",-1.5]", "[\"a\"]", "vocab[1] is not a piece" },
        { "\"id\":0", "\"id\":1", "'<u>' has id 1, must have 0" },
        { "\"byte_fallback\":false", "\"byte_fallback\":1", "byte_fallback is not a boolean" },
    };
    check_changes_fail(json, cases, sizeof cases / sizeof *cases);
}

/* If a token is added twice, the flags of the last entry count, but the token stays special, as in
 * `tokenizers`. */
Test(unigram, added_twice)
{
    static const char one[] = "\"special\":true,\"lstrip\":true}]";
    br_tokenizer *t = changed_json(
        json, one,
        "\"special\":true,\"lstrip\":true},{\"id\":0,\"content\":\"<u>\",\"rstrip\":true}]");
    cr_assert(t, "%s", br_error_message());
    br_encoding *e = encode(t, "a <u> a", -1, NULL);
    int64_t k = 0;
    while (k < e->length && e->ids[k] != 0)
        k++;
    cr_assert(k < e->length && e->bytes[k].begin == 2 && e->bytes[k].end == 6);
    char *text = br_tokenizer_decode(t, 2, (int64_t[]){ 0, 1 }, true);
    cr_assert_str_eq(text, "a");
    br_free(text);
    br_encoding_free(e);
    br_tokenizer_free(t);
    t = changed_json(json, one,
                     "\"lstrip\":true},{\"id\":0,\"content\":\"<u>\",\"special\":true}]");
    cr_assert(t, "%s", br_error_message());
    text = br_tokenizer_decode(t, 2, (int64_t[]){ 0, 1 }, true);
    cr_assert_str_eq(text, "a");
    br_free(text);
    br_tokenizer_free(t);
}

/* Bytes at the beginning of a text are its first token, as in `tokenizers`. */
Test(unigram, decoding_of_bytes_at_the_beginning)
{
    size_t n;
    char *text = files_read(files_write_changed("pieces.json", json, "[\"ab\",-3]",
                                                "[\"<0x41>\",-3],[\"\\u2581a\",-1]"),
                            &n);
    br_tokenizer *t =
        changed_json(text,
                     "\"decoder\":{\"type\":\"Metaspace\",\"replacement\":\"\\u2581\",\"add_prefix_"
                     "space\":true}",
                     "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"ByteFallback\"},"
                     "{\"type\":\"Metaspace\",\"replacement\":\"\\u2581\"}]}");
    cr_assert(t, "%s", br_error_message());
    check_text_of(t, 2, (int64_t[]){ 3, 4 }, "A a");
    check_text_of(t, 4, (int64_t[]){ 3, 3, 4, 4 }, "AA a a");
    check_text_of(t, 2, (int64_t[]){ 4, 4 }, "a a");
    br_tokenizer_free(t);
    free(text);
}

/* With split_special_tokens, an added token that is a piece and not special stays a piece of
 * words, as in `tokenizers`. */
Test(unigram, pieces_that_are_added_tokens)
{
    br_tokenizer *t =
        changed_json(json, "\"lstrip\":true}]",
                     "\"lstrip\":true},{\"id\":3,\"content\":\"ab\",\"single_word\":true}]");
    cr_assert(t, "%s", br_error_message());
    for (int splits = 0; splits < 2; splits++) {
        br_encoding *e =
            encode(t, "aab ab", -1, BR_OPTIONS(br_encode, .split_special_tokens = splits));
        cr_assert(e, "%s", br_error_message());
        cr_assert_eq(e->length, 4);
        cr_assert_arr_eq(e->ids, ((int64_t[]){ 2, 1, 3, 3 }), 4 * sizeof(int64_t));
        br_encoding_free(e);
    }
    br_tokenizer_free(t);
}

/* The last of equal pieces is used, and the ids of the others still have a token, as in
 * `tokenizers`. The unknown piece may be one of the others. */
Test(unigram, equal_pieces)
{
    static const char changed[] = "\"unk_id\":0,\"byte_fallback\":false,\"vocab\":[[\"<u>\",0]";
    br_tokenizer *t = changed_json(
        json, changed,
        "\"unk_id\":1,\"byte_fallback\":false,\"vocab\":[[\"<u>\",0],[\"a\",-1],[\"a\",-9]");
    cr_assert(t, "%s", br_error_message());
    cr_assert_eq(br_tokenizer_size(t), 6);
    cr_assert_eq(br_tokenizer_id(t, "a", -1), 3);
    for (int64_t id = 1; id <= 3; id++)
        cr_assert_str_eq(br_tokenizer_token(t, id), "a");
    br_encoding *e = encode(t, "aabz", -1, NULL);
    cr_assert_eq(e->length, 4);
    cr_assert_arr_eq(e->ids, ((int64_t[]){ 4, 3, 5, 1 }), 4 * sizeof(int64_t));
    char *text = br_tokenizer_decode(t, e->length, e->ids, false);
    cr_assert_str_eq(text, "aaba");
    br_free(text);
    br_encoding_free(e);
    br_tokenizer_free(t);
}

/* ---- Invalid spiece.model -------------------------------------------------------------------- */

static br_tokenizer *from(const char *bytes, size_t n)
{
    files_write(files_path("spiece.model"), bytes, n);
    return br_tokenizer_from_sentencepiece(files_path("spiece.model"), NULL);
}
#define FROM(bytes) from(bytes, sizeof(bytes) - 1)
/* PIECE: a piece of one letter, its score as four bytes, and its type. UNKNOWN: the piece "<u>". */
#define PIECE(letter, score, type) "\x0a\x0a\x0a\x01" letter "\x15" score "\x18" type
#define UNKNOWN                    "\x0a\x0c\x0a\x03<u>\x15\0\0\0\0\x18\x02"
#define ONE                        "\0\0\x80\x3f"

Test(unigram, messages)
{
    br_tokenizer *t = FROM(UNKNOWN PIECE("a", ONE, "\x01") PIECE("b", ONE, "\x05"));
    cr_assert(t, "%s", br_error_message());
    br_encoding *e = encode(t, "ab", -1, NULL);
    cr_assert_eq(e->length, 3);
    cr_assert_arr_eq(e->ids, ((int64_t[]){ 0, 1, 0 }), 3 * sizeof(int64_t));
    br_encoding_free(e);
    br_tokenizer_free(t);
    check_fails(FROM(""), "there is no unknown piece");
    check_fails(FROM(PIECE("a", ONE, "\x01")), "there is no unknown piece");
    check_fails(FROM(UNKNOWN "\x0a"), "truncated, or not a SentencePiece model");
    check_fails(FROM(UNKNOWN "\x0a\x7f"), "truncated, or not a SentencePiece model");
    check_fails(FROM("not a model"), "truncated, or not a SentencePiece model");
    check_fails(FROM(UNKNOWN UNKNOWN), "piece 1 is a duplicate");
    check_fails(FROM(UNKNOWN PIECE("a", ONE, "\x02")), "piece 1 is a second unknown");
    check_fails(FROM(UNKNOWN PIECE("a", ONE, "\x07")), "piece 1 has an unknown type");
    check_fails(FROM(UNKNOWN PIECE("a", "\0\0\xc0\x7f", "\x01")), "a score that is not finite");
    check_fails(FROM(UNKNOWN PIECE("a", "\0\0\x80\xff", "\x01")), "a score that is not finite");
    check_fails(FROM(UNKNOWN PIECE("\xff", ONE, "\x01")), "piece 1 is not valid UTF-8");
    check_fails(FROM(UNKNOWN PIECE("\0", ONE, "\x01")), "or contains a NUL");
    check_fails(FROM(UNKNOWN "\x0a\x02\x0a\0"), "piece 1 is empty");
    check_fails(FROM(UNKNOWN "\x0a\x02\x0a\x05"), "piece 1 is malformed");
    check_fails(FROM(UNKNOWN "\x12\x02\x18\x02"), "not Unigram");
    check_fails(FROM(UNKNOWN "\x12\x01\x18"), "trainer_spec is malformed");
    check_fails(FROM(UNKNOWN "\x12\x03\xc0\x01\x01"), "treat_whitespace_as_suffix");
    check_fails(FROM(UNKNOWN "\x12\x03\x98\x02\x01"), "not every byte has a piece");
    check_fails(FROM(UNKNOWN "\x1a\x02\x28\0"), "escape_whitespaces");
    check_fails(FROM(UNKNOWN "\x1a\x03\x12\x01x"), "precompiled_charsmap is truncated");
    check_fails(FROM(UNKNOWN "\x1a\x01\x1b"), "normalizer_spec is malformed");
    check_fails(FROM(UNKNOWN "\x2a\x03\x12\x01x"), "a denormalizer");
    check_fails(FROM(UNKNOWN "\x2a\x05\x12\x01x\x12\0"), "a denormalizer");
    check_fails(br_tokenizer_from_sentencepiece("/nonexistent", NULL), "/nonexistent");
}

/* With byte_fallback, each byte must have a piece, also the first and the last. */
Test(unigram, every_byte_has_a_piece)
{
    static const int missing[] = { -1, 0, 100, 255 };
    for (size_t k = 0; k < sizeof missing / sizeof *missing; k++) {
        char model[8192];
        size_t n = sizeof UNKNOWN - 1;
        memcpy(model, UNKNOWN, n);
        for (int byte = 0; byte < 256; byte++) {
            char name[8];
            snprintf(name, sizeof name, "<0x%02X>", byte);
            memcpy(model + n, "\x0a\x0f\x0a\x06", 4);
            memcpy(model + n + 4, name, 6);
            memcpy(model + n + 10, "\x15\0\0\0\0\x18\x06", 7); /* score 0, type BYTE */
            n += byte == missing[k] ? 0 : 17;
        }
        memcpy(model + n, "\x12\x03\x98\x02\x01", 5); /* trainer_spec.byte_fallback */
        br_tokenizer *t = from(model, n + 5);
        if (missing[k] < 0)
            cr_assert(t, "%s", br_error_message());
        else
            check_fails(t, "byte_fallback is true, but not every byte has a piece");
        br_tokenizer_free(t);
    }
}

/* The score of a user-defined piece is -0.1 plus the greatest score of the normal pieces for each
 * of its letters; its own score does not count. So "a" and "b" with -0.01 each win. */
Test(unigram, the_greatest_score_is_that_of_a_normal_piece)
{
#define SMALL "\x0a\xd7\x23\xbc" /* -0.01 */
#define USER           \
    "\x0a\x0b\x0a\x02" \
    "ab\x15\0\0\x10\x41\x18\x04" /* "ab" with the score 9 */
    br_tokenizer *t = FROM(UNKNOWN PIECE("a", SMALL, "\x01") PIECE("b", SMALL, "\x01") USER);
    cr_assert(t, "%s", br_error_message());
    br_encoding *e = encode(t, "ab", -1, NULL);
    cr_assert_eq(e->length, 3);
    cr_assert_arr_eq(e->ids, ((int64_t[]){ 0, 1, 2 }), 3 * sizeof(int64_t));
    br_encoding_free(e);
    br_tokenizer_free(t);
}

#define TEXT(length, text, size, type) \
    "\x0a" size "\x0a" length text "\x15\0\0\0\0\x18" type /* a piece with the score 0 */
#define META "\xe2\x96\x81"

/* The spaces that decoding leaves out at the beginning depend on both settings of spaces. The texts
 * are those of PyPI's `sentencepiece`. */
Test(unigram, spaces_at_the_beginning_of_decoded_texts)
{
    static const char pieces[] = UNKNOWN TEXT("\x03", META, "\x0c", "\x01") PIECE("a", ONE, "\x01")
        TEXT("\x04", META "a", "\x0d", "\x01") TEXT("\x07", META META "a", "\x10", "\x01")
            TEXT("\x05", "a" META "b", "\x0e", "\x01");
    static const char *const settings[] = { "", "\x18", "\x20", "\x18\0\x20" };
    static const int64_t ids[][3] = {
        { 3, 3 }, { 1, 1, 3 }, { 4, 3 }, { 5, 3 }, { 1, 5 }, { 2, 3 }
    };
    static const char *const texts[][6] = { { "a a", "a", " a a", "a b a", "a b", "a a" },
                                            { "a a", "a", " a a", "a b a", "a b", "a a" },
                                            { "a a", "  a", " a a", "a b a", "a b", "a a" },
                                            { " a a", "   a", "  a a", "a b a", " a b", "a a" } };
    for (int i = 0; i < 4; i++) {
        char file[256] = { 0 };
        size_t n = sizeof pieces - 1, more = i == 3 ? 4 : i ? 2 : 0;
        memcpy(file, pieces, n);
        file[n] = '\x1a'; /* normalizer_spec: add_dummy_prefix, remove_extra_whitespaces = false */
        file[n + 1] = (char)more;
        memcpy(file + n + 2, settings[i], more ? more - 1 : 0);
        br_tokenizer *t = from(file, n + 2 + more);
        cr_assert(t, "%s", br_error_message());
        for (int k = 0; k < 6; k++)
            check_text_of(t, k == 1 ? 3 : 2, ids[k], texts[i][k]);
        br_tokenizer_free(t);
    }
}

/* The score of an unknown piece is 10 less than the least score of the normal pieces. So "ab" with
 * 12 and an unknown "c" with -15 are better than "abc" with -5, as in `sentencepiece`. */
Test(unigram, the_least_score_is_that_of_a_normal_piece)
{
#define SCORED(length, text, size, score, type) \
    "\x0a" size "\x0a" length text "\x15" score "\x18" type
    br_tokenizer *t = FROM(UNKNOWN TEXT("\x03", META, "\x0c", "\x01")
                               SCORED("\x03", "abc", "\x0c", "\0\0\xa0\xc0", "\x01")
                                   SCORED("\x02", "ab", "\x0b", "\0\0\x40\x41", "\x01")
                                       SCORED("\x02", "xx", "\x0b", "\0\0\xc8\xc2", "\x03"));
    cr_assert(t, "%s", br_error_message());
    br_encoding *e = encode(t, "abc", -1, BR_OPTIONS(br_encode, .add_special_tokens = false));
    cr_assert_eq(e->length, 3);
    cr_assert_arr_eq(e->ids, ((int64_t[]){ 1, 3, 0 }), 3 * sizeof(int64_t));
    br_encoding_free(e);
    br_tokenizer_free(t);
}

/* A double-array trie with a cycle: the node reached by 'a' leads to itself. There are 512 units;
 * the root and 'a' have base 256. */
Test(unigram, a_map_with_a_cycle)
{
    enum { UNITS = 512 };
    uint8_t map[4 + 4 * UNITS + 2] = { 0, (4 * UNITS) >> 8 };
    uint32_t root = 256u << 10, letter = ('a' ^ 0u) << 10 | 'a';
    memcpy(map + 4, &root, 4);
    memcpy(map + 4 + 4 * (256 + 'a'), &letter, 4);
    char file[sizeof map + 32];
    size_t n = sizeof UNKNOWN - 1;
    memcpy(file, UNKNOWN, n);
    file[n++] = '\x1a'; /* normalizer_spec with its map; lengths are varints of two bytes */
    file[n++] = (char)(((sizeof map + 3) & 0x7f) | 0x80);
    file[n++] = (char)((sizeof map + 3) >> 7);
    file[n++] = '\x12';
    file[n++] = (char)((sizeof map & 0x7f) | 0x80);
    file[n++] = (char)(sizeof map >> 7);
    memcpy(file + n, map, sizeof map);
    check_fails(from(file, n + sizeof map), "has a trie with a cycle");
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static bool use_file(br_tokenizer *t)
{
    br_encoding *e = t ? encode(t, "the license </s>\xe4\xb8\xad\xe2\x84\xa2", -1, NULL) : NULL;
    char *text = e ? br_tokenizer_decode(t, e->length, e->ids, false) : NULL;
    bool ok = text;
    br_free(text);
    br_encoding_free(e);
    br_tokenizer_free(t);
    return ok;
}

static bool use_json(void)
{
    return use_file(changed_json(json, "", ""));
}

static bool use_model(void)
{
    br_sentencepiece_options o = *BR_OPTIONS(br_sentencepiece, .extra_ids = 2);
    return use_file(br_tokenizer_from_sentencepiece(files_path("spiece.model"), &o));
}

Test(unigram, memory_runs_out_everywhere)
{
    fail_in_turn(use_json, "a tokenizer.json");
    br_tokenizer_free(
        FROM(UNKNOWN PIECE("a", ONE, "\x01") "\x1a\x0c\x12\x0a\x04\0\0\0\0\0\0\0a\0"));
    check_ok();
    fail_in_turn(use_model, "a spiece.model");
}
