/* tests/data/test_unigram.c - Unigram: encoding against what the fast tokenizer of PyPI's
 * `tokenizers` and SentencePiece itself made of the same texts (unigram_cases.json, written by
 * record_unigram.py), decoding, and files that are refused. */
#include "tests/data/encodings.h"
#include "tests/io/files.h"
#include "tests/memory.h"

#include <math.h>

TestSuite(unigram, .init = files_begin, .fini = files_end);

#define UNIGRAM BRASA_TEST_DIR "/data/unigram/"
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
               &(br_encode_options){
                   .max_length = json_integer_value(json_object_get(c, "max_length")),
                   .stride = json_integer_value(json_object_get(c, "stride")),
               });
}

/* SentencePiece knows no special tokens in a text. */
static void replay_own(int at, const br_tokenizer *t, const json_t *c)
{
    br_text text[2];
    recorded_texts(json_object_get(c, "texts"), text);
    br_encode_options o = { .split_special_tokens = true, .no_special_tokens = true };
    br_encoding *e = br_tokenizer_encode(t, text, NULL, &o);
    check_ok();
    check_numbers(at, c, "ids", e->ids, e->length);
    check_spans(at, c, "bytes", e->bytes, e->length);
    br_encoding_free(e);
}

Test(unigram, recorded_texts)
{
    json_error_t error;
    json_t *cases = json_load_file(BRASA_TEST_DIR "/data/unigram_cases.json", 0, &error);
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

/* ---- Both ways ------------------------------------------------------------------------------- */

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
    /* Also what becomes one when it is normalised is text, if what is written is to be text. */
    br_encode_options text = { .split_special_tokens = true, .no_special_tokens = true };
    const br_tokenizer *all[] = { m.own, m.fast, m.bytes };
    for (size_t i = 0; i < 3; i++) {
        e = encode(all[i], "a</s> \xef\xbc\x9c/s> <pad> <unk>", -1, &text);
        for (int64_t k = 0; k < e->length; k++)
            cr_assert_gt(e->ids[k], 1);
        br_encoding_free(e);
    }
    e = encode(m.fast, "a", -1, &(br_encode_options){ .pad_to_multiple = 8, .pad_left = true });
    cr_assert(e->length == 8 && e->ids[0] == 0 && e->attention_mask[0] == 0);
    br_encoding_free(e);
    free_models(&m);
    br_sentencepiece_options o = { .extra_ids = -1, .no_end = true };
    br_tokenizer *t = br_tokenizer_from_sentencepiece(model_file, &o);
    cr_assert_eq(br_tokenizer_size(t), size - 100);
    e = encode(t, "", -1, NULL);
    cr_assert_eq(e->length, 0);
    br_encoding_free(e);
    br_tokenizer_free(t);
    o.extra_ids = INT64_MAX;
    check_fails(br_tokenizer_from_sentencepiece(model_file, &o), "extra_ids is");
}

/* Bad parts are U+FFFD each, whose place in the text is theirs. */
Test(unigram, invalid_utf8)
{
    models m = open_models();
    const br_tokenizer *all[] = { m.own, m.fast, m.bytes };
    for (size_t i = 0; i < 3; i++) {
        br_encoding *e = encode(all[i], "the \xff\xc3 end", -1, NULL);
        cr_assert(e, "%s", br_error_message());
        cr_assert_eq(e->bytes[e->length - 2].end, 10);
        br_encoding_free(e);
        check_fails(encode(all[i], "a\xff", -1, &(br_encode_options){ .strict_utf8 = true }),
                    "at byte 1");
    }
    free_models(&m);
}

/* Time is linear in a word, however long. */
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

/* ---- tokenizer.json that is refused ---------------------------------------------------------- */

/* The map is of one unit, and its texts are "a". */
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
    check_fails(encode(t, "a", -1, &(br_encode_options){ .pad_to_multiple = 8 }), "to pad with");
    br_tokenizer_free(t);
    static const char *const cases[][3] = {
        { "\"BAAAAAAAAABhAA==\"", "7", "there is no precompiled_charsmap" },
        { "BAAAAAAAAABhAA==", "BAAAAAAAAABhAA=", "is not base64" },
        { "BAAAAAAAAABhAA==", "BAAA*AAAAABhAA==", "is not base64" },
        { "BAAAAAAAAABhAA==", "", "is empty" },
        { "BAAAAAAAAABhAA==", "BAAA", "is cut off" },
        { "BAAAAAAAAABhAA==", "CAAAAAAAAABhAA==", "is cut off" },
        { "BAAAAAAAAABhAA==", "BAAAAAAAAABhYQ==", "the last does not end" },
        { "BAAAAAAAAABhAA==", "BAAAAAAAAAD/AA==", "not valid UTF-8" },
        { "BAAAAAAAAABhAA==", "BAAAAAABAABhAA==", "a leaf that is none" },
        { "BAAAAAAAAABhAA==", "BAAAAAAAAIBhAA==", "root is a leaf" },
        { "\"Precompiled\"", "\"NFC\"", "not Precompiled, Replace or" },
        { " {2,}", " +", "pattern of Replace is ' +'" },
        { "{\"Regex\":\" {2,}\"}", "{\"String\":\"\"}", "pattern of Replace" },
        { "WhitespaceSplit", "Whitespace", "pre_tokenizer is not" },
        { "\\u2581\",\"prepend", "_\",\"prepend", "replacement is '_'" },
        { "\"always\"", "\"often\"", "prepend_scheme is 'often'" },
        { "\"decoder\":{\"type\":\"Metaspace\"", "\"decoder\":{\"type\":\"Fuse\"", "decoder is" },
        { "\"post_processor\":null", "\"post_processor\":{\"type\":\"ByteLevel\"}",
          "post_processor is ByteLevel" },
        { "\"unk_id\":0", "\"unk_id\":4", "unk_id is no integer of 0 .. 3" },
        { "\"unk_id\":0", "\"unk_id\":null", "unk_id is no integer" },
        { "-1.5", "\"b\"", "vocab[1] is not a piece and a finite score" },
        { "-1.5", "1e999", "real number overflow" },
        { "-1.5", "NaN", "invalid token" },
        { "[\"a\",-1.5]", "[\"\",-1.5]", "vocab[1] is an empty piece" },
        { "[\"a\",-1.5]", "[\"a\"]", "vocab[1] is not a piece" },
        { "\"id\":0", "\"id\":1", "'<u>' has id 1, must have 0" },
        { "\"lstrip\"", "\"normalized\"", "'<u>' is 'normalized'" },
        { "\"byte_fallback\":false", "\"byte_fallback\":1", "byte_fallback is not a truth value" },
    };
    check_changes_fail(json, cases, sizeof cases / sizeof *cases);
}

/* ---- spiece.model that is refused ------------------------------------------------------------ */

static br_tokenizer *from(const char *bytes, size_t n)
{
    files_write(files_path("spiece.model"), bytes, n);
    return br_tokenizer_from_sentencepiece(files_path("spiece.model"), NULL);
}
#define FROM(bytes) from(bytes, sizeof(bytes) - 1)
/* A piece of one letter, or "<u>", a score as its four bytes, and a type. */
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
    check_fails(FROM(""), "no piece is the unknown one");
    check_fails(FROM(PIECE("a", ONE, "\x01")), "no piece is the unknown one");
    check_fails(FROM(UNKNOWN "\x0a"), "cut off, or no model");
    check_fails(FROM(UNKNOWN "\x0a\x7f"), "cut off, or no model");
    check_fails(FROM("not a model"), "cut off, or no model");
    check_fails(FROM(UNKNOWN UNKNOWN), "piece 1 was there before");
    check_fails(FROM(UNKNOWN PIECE("a", ONE, "\x02")), "piece 1 is a second unknown");
    check_fails(FROM(UNKNOWN PIECE("a", ONE, "\x07")), "piece 1 has a type");
    check_fails(FROM(UNKNOWN PIECE("a", "\0\0\xc0\x7f", "\x01")), "a score that is not finite");
    check_fails(FROM(UNKNOWN PIECE("a", "\0\0\x80\xff", "\x01")), "a score that is not finite");
    check_fails(FROM(UNKNOWN PIECE("\xff", ONE, "\x01")), "piece 1 is not valid UTF-8");
    check_fails(FROM(UNKNOWN PIECE("\0", ONE, "\x01")), "or holds a NUL");
    check_fails(FROM(UNKNOWN "\x0a\x02\x0a\0"), "piece 1 is empty");
    check_fails(FROM(UNKNOWN "\x0a\x02\x0a\x05"), "piece 1 is broken");
    check_fails(FROM(UNKNOWN "\x12\x02\x18\x02"), "not Unigram");
    check_fails(FROM(UNKNOWN "\x12\x01\x18"), "trainer_spec is broken");
    check_fails(FROM(UNKNOWN "\x12\x03\xc0\x01\x01"), "treat_whitespace_as_suffix");
    check_fails(FROM(UNKNOWN "\x12\x03\x98\x02\x01"), "not every byte has a piece");
    check_fails(FROM(UNKNOWN "\x1a\x02\x28\0"), "escape_whitespaces");
    check_fails(FROM(UNKNOWN "\x1a\x03\x12\x01x"), "precompiled_charsmap is cut off");
    check_fails(FROM(UNKNOWN "\x1a\x01\x1b"), "normalizer_spec is broken");
    check_fails(FROM(UNKNOWN "\x2a\x03\x12\x01x"), "a denormalizer");
    check_fails(br_tokenizer_from_sentencepiece("/nonexistent", NULL), "/nonexistent");
}

/* A trie in which 'a' leads to where 'a' leads to again: units of 512, the root and 'a' with the
 * base 256. */
Test(unigram, a_map_that_goes_in_a_circle)
{
    enum { UNITS = 512 };
    uint8_t map[4 + 4 * UNITS + 2] = { 0, (4 * UNITS) >> 8 };
    uint32_t root = 256u << 10, letter = ('a' ^ 0u) << 10 | 'a';
    memcpy(map + 4, &root, 4);
    memcpy(map + 4 + 4 * (256 + 'a'), &letter, 4);
    char file[sizeof map + 32];
    size_t n = sizeof UNKNOWN - 1;
    memcpy(file, UNKNOWN, n);
    file[n++] = '\x1a'; /* normalizer_spec with its map, the lengths as varints of two bytes */
    file[n++] = (char)(((sizeof map + 3) & 0x7f) | 0x80);
    file[n++] = (char)((sizeof map + 3) >> 7);
    file[n++] = '\x12';
    file[n++] = (char)((sizeof map & 0x7f) | 0x80);
    file[n++] = (char)(sizeof map >> 7);
    memcpy(file + n, map, sizeof map);
    check_fails(from(file, n + sizeof map), "goes in a circle");
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
    br_sentencepiece_options o = { .extra_ids = 2 };
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
