/* tests/tokenizers/test_char_bpe.c - BPE over characters with byte fallback: encoding and decoding
 * compared with recorded results of PyPI's `tokenizers` (char_bpe_cases.json, written by
 * record_char_bpe.py), and invalid files. */
#include "tests/io/files.h"
#include "tests/memory.h"
#include "tests/tokenizers/encodings.h"

TestSuite(char_bpe, .init = files_begin, .fini = files_end);

#define FOLDER BRASA_TEST_DIR "/tokenizers/"
static const char json_file[] = FOLDER "char_bpe/tokenizer.json";

/* ---- Recorded cases -------------------------------------------------------------------------- */

/* Writes the recorded tokenizer.json with these parts instead of its own. */
static const char *write_parts(const json_t *parts)
{
    json_t *root = json_load_file(json_file, 0, NULL);
    cr_assert(root && json_object_update(root, (json_t *)parts) == 0);
    const char *path = files_path("tokenizer.json");
    cr_assert_eq(json_dump_file(root, path, 0), 0);
    json_decref(root);
    return path;
}

/* The ids alone, which have a path of their own, are equal. */
static void check_ids_alone(int at, const json_t *c, const br_tokenizer *t)
{
    br_text text[2];
    size_t n = recorded_texts(json_object_get(c, "texts"), text);
    for (int again = 0; again < 2; again++) { /* the second time, the words are in the cache */
        br_token_ids *ids = br_tokenizer_encode_ids(t, 1, text, n > 1 ? &text[1] : NULL, NULL);
        check_ok();
        check_numbers(at, json_object_get(c, "want"), "ids", ids->ids, ids->starts[1]);
        br_token_ids_free(ids);
    }
}

static void check_decoded(int at, const json_t *c, const br_tokenizer *t)
{
    int64_t ids[16] = { 0 }, length, n = (int64_t)json_array_size(json_object_get(c, "ids"));
    const json_t *want = json_object_get(c, "decoded");
    for (int64_t i = 0; i < n; i++)
        ids[i] = json_integer_value(json_array_get(json_object_get(c, "ids"), (size_t)i));
    char *text = br_tokenizer_decode_text(t, n, ids, true, &length);
    check_ok();
    cr_assert_eq((size_t)length, json_string_length(want), "list %d: '%s'", at, text);
    cr_assert(memcmp(text, json_string_value(want), (size_t)length + 1) == 0, "list %d: '%s'", at,
              text);
    br_free(text);
}

static void check_family(const json_t *family)
{
    size_t i;
    json_t *c;
    br_tokenizer *t = br_tokenizer_from_json(write_parts(json_object_get(family, "parts")));
    cr_assert(t, "%s", br_error_message());
    json_array_foreach(json_object_get(family, "texts"), i, c)
    {
        check_case((int)i, c, t, NULL);
        check_ids_alone((int)i, c, t);
    }
    json_array_foreach(json_object_get(family, "ids"), i, c)
    {
        check_decoded((int)i, c, t);
    }
    br_tokenizer_free(t);
}

Test(char_bpe, recorded_texts)
{
    json_error_t error;
    json_t *families = json_load_file(FOLDER "char_bpe_cases.json", JSON_ALLOW_NUL, &error);
    cr_assert(families, "%s", error.text);
    cr_assert_eq(json_array_size(families), 10);
    for (size_t i = 0; i < json_array_size(families); i++)
        check_family(json_array_get(families, i));
    json_decref(families);
}

/* ---- Small files ----------------------------------------------------------------------------- */

static const char *const sequence_of_llama =
    "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":"
    "\"\xe2\x96\x81\"},\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},"
    "{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]}";

/* Returns a tokenizer.json of Llama 2's kind with these further tokens, from id 256 on, and merges.
 */
static const char *make_json(const char *tokens, const char *merges)
{
    static char json[16384];
    char vocab[8192] = "";
    size_t n = 0;
    for (int byte = 0; byte < 256; byte++)
        n +=
            (size_t)snprintf(vocab + n, sizeof vocab - n, "\"<0x%02X>\":%d,", (unsigned)byte, byte);
    snprintf(json, sizeof json,
             "{\"added_tokens\":[],\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":["
             "{\"type\":\"Prepend\",\"prepend\":\"\xe2\x96\x81\"},{\"type\":\"Replace\","
             "\"pattern\":{\"String\":\" \"},\"content\":\"\xe2\x96\x81\"}]},"
             "\"pre_tokenizer\":null,\"post_processor\":null,\"decoder\":%s,\"model\":{"
             "\"type\":\"BPE\",\"dropout\":null,\"unk_token\":\"<unk>\",\"fuse_unk\":true,"
             "\"byte_fallback\":true,\"ignore_merges\":false,\"vocab\":{%s%s},\"merges\":[%s]}}",
             sequence_of_llama, vocab, tokens, merges);
    return json;
}

static const char some_tokens[] =
    "\"<unk>\":256,\"\xe2\x96\x81\":257,\"a\":258,\"b\":259,\"ab\":260,\"\xe2\x96\x81"
    "ab\":261";
static const char some_merges[] = "\"a b\",[\"\xe2\x96\x81\",\"ab\"]";

static void check_text(const br_tokenizer *t, const char *text, int64_t length, int64_t n,
                       const int64_t *ids)
{
    br_text whole = { text, length };
    br_encoding *e = br_tokenizer_encode(t, &whole, NULL, NULL);
    check_ok();
    cr_assert_eq(e->length, n, "%s: %lld tokens", text, (long long)e->length);
    cr_assert_arr_eq(e->ids, ids, (size_t)n * sizeof *ids, "%s", text);
    br_token_ids *alone = br_tokenizer_encode_ids(t, 1, &whole, NULL, NULL);
    check_ok();
    cr_assert_eq(alone->starts[1], n);
    cr_assert_arr_eq(alone->ids, ids, (size_t)n * sizeof *ids, "%s", text);
    br_token_ids_free(alone);
    br_encoding_free(e);
}

Test(char_bpe, small_vocabulary)
{
    br_tokenizer *t = changed_json(make_json(some_tokens, some_merges), "", "");
    cr_assert(t, "%s", br_error_message());
    cr_assert_str_eq(br_tokenizer_model(t), "BPE");
    cr_assert_eq(br_tokenizer_special_id(t, BR_TOKEN_UNK), 256);
    check_text(t, "ab ab", -1, 2, (int64_t[]){ 261, 261 });
    check_text(t, "abab", -1, 2, (int64_t[]){ 261, 260 });
    check_text(t, "\xc3\xa9", -1, 3, (int64_t[]){ 257, 0xc3, 0xa9 });
    check_text(t, "a\xff\0b", 4, 7, (int64_t[]){ 257, 258, 0xef, 0xbf, 0xbd, 0, 259 });
    br_text bad = { "a\xff", 2 };
    const br_encode_options *strict = BR_OPTIONS(br_encode, .strict_utf8 = true);
    check_fails(br_tokenizer_encode(t, &bad, NULL, strict), "at byte 1");
    check_fails(br_tokenizer_encode_ids(t, 1, &bad, NULL, strict), "at byte 1");
    br_tokenizer_free(t);
}

/* A merge may name the token of a byte, whose text does not tell which code points it joins. */
Test(char_bpe, merges_of_bytes)
{
    static const char tokens[] = "\"<unk>\":256,\"\xe2\x96\x81\":257,\"a\":258,\"a<0xC3>\":259,"
                                 "\"<0xC3><0xA9>\":260";
    br_tokenizer *t = changed_json(make_json(tokens, "\"<0xC3> <0xA9>\",\"a <0xC3>\""), "", "");
    cr_assert(t, "%s", br_error_message());
    check_text(t, "a\xc3\xa9", -1, 3, (int64_t[]){ 257, 258, 260 });
    check_text(t, "a\xc3\xa8", -1, 3, (int64_t[]){ 257, 259, 0xa8 });
    br_tokenizer_free(t);
}

/* The time for a long text is O(n log n), not quadratic, whether it can be cut or not. */
Test(char_bpe, a_long_text)
{
    enum { N = 1 << 20 };
    static const char tokens[] =
        "\"<unk>\":256,\"\xe2\x96\x81\":257,\"a\":258,\"b\":259,\"ab\":260,"
        "\"aa\":261,\"bb\":262,\"ba\":263,\"aaaa\":264,\"abab\":265";
    static const char merges[] = "\"a a\",\"aa aa\",\"a b\",\"b b\",\"b a\",\"ab ab\"";
    char *text = malloc(N);
    for (int64_t i = 0; i < N; i++)
        text[i] = "ab"[(i * i + i / 3) % 7 % 2];
    br_tokenizer *t = changed_json(make_json(tokens, merges), "", "");
    cr_assert(t, "%s", br_error_message());
    br_text whole = { text, N };
    br_encoding *e = br_tokenizer_encode(t, &whole, NULL, NULL);
    cr_assert(e && e->length < N && e->bytes[e->length - 1].end == N);
    br_token_ids *ids = br_tokenizer_encode_ids(t, 1, &whole, NULL, NULL);
    cr_assert(ids && ids->starts[1] == e->length);
    cr_assert_arr_eq(ids->ids, e->ids, (size_t)e->length * sizeof *e->ids);
    br_token_ids_free(ids);
    br_encoding_free(e);
    br_tokenizer_free(t);
    free(text);
}

/* As in transformers, the spaces of decoded text stay. */
Test(char_bpe, model_folder)
{
    static const char config[] = "{\"tokenizer_class\": \"PreTrainedTokenizerFast\", "
                                 "\"clean_up_tokenization_spaces\": true, \"eos_token\": \"b\"}";
    char folder[512];
    br_tokenizer_free(changed_json(make_json(some_tokens, some_merges), "", ""));
    files_write(files_path("tokenizer_config.json"), config, strlen(config));
    snprintf(folder, sizeof folder, "%s", files_path(""));
    br_tokenizer *t = br_auto_tokenizer_load(folder, NULL);
    cr_assert(t, "%s", br_error_message());
    cr_assert_eq(br_tokenizer_special_id(t, BR_TOKEN_EOS), 259);
    char *text = br_tokenizer_decode(t, 3, (int64_t[]){ 261, 257, '.' }, false);
    cr_assert_str_eq(text, "ab .");
    br_free(text);
    br_encoding *e = br_tokenizer_encode(t, &(br_text){ "a", -1 }, NULL,
                                         BR_OPTIONS(br_encode, .pad_to_multiple_of = 3));
    cr_assert(e && e->length == 3 && e->ids[2] == 259, "%s", br_error_message());
    br_encoding_free(e);
    br_tokenizer_free(t);
}

/* ---- Invalid files --------------------------------------------------------------------------- */

Test(char_bpe, unsupported_parts)
{
    static const char *const cases[][3] = {
        { "\"dropout\":null", "\"dropout\":0.1", "model.dropout is given" },
        { "\"dropout\":null", "\"end_of_word_suffix\":\"</w>\"",
          "model.end_of_word_suffix is given" },
        { "\"dropout\":null", "\"continuing_subword_prefix\":\"##\"",
          "model.continuing_subword_prefix is given" },
        { "\"ignore_merges\":false", "\"ignore_merges\":true", "model.ignore_merges is given" },
        { "\"<0x41>\"", "\"<0x041>\"", "the vocabulary has no token <0x41>" },
        { "\"fuse_unk\":true", "\"fuse_unk\":1", "fuse_unk is not a boolean" },
        { "\"unk_token\":\"<unk>\"", "\"unk_token\":1", "unk_token is not a string" },
        { "\"a b\"", "\"a c\"", "merges[0] merges a right token that is not in the vocabulary" },
        { "\"a b\"", "\"ab\"", "merges[0] is not two tokens" },
        { "\"a\":258", "\"a\":257", "have the same id, 257" },
        { "\"prepend\":\"\xe2\x96\x81\"", "\"prepend\":\"_\"", "prepend of Prepend is not U+2581" },
        { "\"Replace\",\"pattern\":{\"String\":\" \"", "\"Replace\",\"pattern\":{\"String\":\"  \"",
          "Replace must replace the String \" \" by U+2581" },
        { "\"Replace\",\"pattern\":{\"String\":\" \"", "\"Replace\",\"pattern\":{\"Regex\":\" \"",
          "Replace must replace the String \" \" by U+2581" },
        { "{\"type\":\"Prepend\"", "{\"type\":\"NFKC\"", "normalizer is NFKC" },
        { "\"normalizers\":[",
          "\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":"
          "\"\xe2\x96\x81\"},",
          "there is a second Prepend" },
        { "\"normalizers\":", "\"other\":", "normalizers is not an array" },
        { "\"pre_tokenizer\":null", "\"pre_tokenizer\":{\"type\":\"ByteLevel\"}",
          "pre_tokenizer is ByteLevel, which is not supported with model.byte_fallback" },
        { "\"pre_tokenizer\":null",
          "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\" \"},"
          "\"behavior\":\"Isolated\",\"invert\":false}",
          "Split must have the String \" \"" },
        { "\"pre_tokenizer\":null",
          "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\" \"},"
          "\"behavior\":\"MergedWithPrevious\",\"invert\":true}",
          "Split must have the String \" \"" },
        { "\"pre_tokenizer\":null",
          "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\"}",
          "Metaspace: replacement is '_'" },
        { "{\"type\":\"ByteFallback\"},", "", "decoder is not supported" },
        { "\"start\":1", "\"start\":2", "decoder is not supported" },
        { "\"stop\":0", "\"stop\":1", "decoder is not supported" },
        { "{\"type\":\"Fuse\"}", "{\"type\":\"Metaspace\"}", "decoder is not supported" },
        { "\"content\":\" \"},{\"type\":\"ByteFallback\"",
          "\"content\":\"_\"},{\"type\":"
          "\"ByteFallback\"",
          "decoder is not supported" },
    };
    check_changes_fail(make_json(some_tokens, some_merges), cases, sizeof cases / sizeof *cases);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static bool use(void)
{
    br_tokenizer *t = br_tokenizer_from_json(files_path("tokenizer.json"));
    br_text text = { "ab ab\xc3\xa9", -1 };
    br_encoding *e = t ? br_tokenizer_encode(t, &text, NULL, NULL) : NULL;
    br_token_ids *ids = e ? br_tokenizer_encode_ids(t, 1, &text, NULL, NULL) : NULL;
    char *decoded = ids ? br_tokenizer_decode(t, e->length, e->ids, false) : NULL;
    bool ok = decoded;
    br_free(decoded);
    br_token_ids_free(ids);
    br_encoding_free(e);
    br_tokenizer_free(t);
    return ok;
}

Test(char_bpe, memory_runs_out_everywhere)
{
    br_tokenizer_free(changed_json(make_json(some_tokens, some_merges), "\"added_tokens\":[]",
                                   "\"added_tokens\":[{\"id\":262,\"content\":\"<s>\","
                                   "\"normalized\":true}]"));
    check_ok();
    fail_in_turn(use, "a BPE over characters");
    br_tokenizer_free(changed_json(make_json(some_tokens, some_merges), "\"pre_tokenizer\":null",
                                   "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":"
                                   "\"\xe2\x96\x81\"}"));
    check_ok();
    fail_in_turn(use, "Metaspace");
}
