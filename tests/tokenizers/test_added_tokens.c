/* tests/tokenizers/test_added_tokens.c - added tokens and post-processors of tokenizer.json,
 * compared with recorded results of the fast tokenizers in PyPI's `tokenizers` (added_cases.json,
 * written by record_added.py), and equal or impossible ones. */
#include "tests/io/files.h"
#include "tests/memory.h"
#include "tests/tokenizers/encodings.h"

TestSuite(added_tokens, .init = files_begin, .fini = files_end);

/* ---- Recorded cases -------------------------------------------------------------------------- */

/* Adds tokens to the vocabulary of the model. */
static void extend(json_t *model, const json_t *tokens)
{
    json_t *vocab = json_object_get(model, "vocab"), *token;
    size_t i;
    json_array_foreach(tokens, i, token)
    {
        const char *text = json_string_value(token);
        if (json_is_array(vocab))
            json_array_append_new(vocab, json_pack("[s,f]", text, -3.0));
        else
            json_object_set_new(vocab, text, json_integer((json_int_t)json_object_size(vocab)));
    }
}

static br_tokenizer *open_record(const json_t *record)
{
    const char *file = json_string_value(json_object_get(record, "file"));
    char path[512];
    snprintf(path, sizeof path, BRASA_TEST_DIR "/tokenizers/%s", file ? file : "");
    json_t *root = file ? json_load_file(path, 0, NULL) : json_object();
    extend(json_object_get(root, "model"), json_object_get(record, "tokens"));
    json_object_update(root, json_object_get(record, "set"));
    cr_assert_eq(json_dump_file(root, files_path("tokenizer.json"), 0), 0);
    json_decref(root);
    br_tokenizer *t = br_tokenizer_from_json(files_path("tokenizer.json"));
    cr_assert(t, "%s", br_error_message());
    return t;
}

Test(added_tokens, recorded_texts)
{
    json_error_t error;
    json_t *records = json_load_file(BRASA_TEST_DIR "/tokenizers/added_cases.json", 0, &error),
           *record;
    cr_assert(records, "%s", error.text);
    cr_assert_geq(json_array_size(records), 12);
    size_t i, k;
    json_array_foreach(records, i, record)
    {
        br_tokenizer *t = open_record(record);
        json_t *c;
        json_array_foreach(json_object_get(record, "cases"), k, c)
        {
            check_case((int)(100 * i + k), c, t, NULL);
        }
        br_tokenizer_free(t);
    }
    json_decref(records);
}

/* ---- Own cases ------------------------------------------------------------------------------- */

#define ADDED(more) "\"added_tokens\":[{\"id\":5,\"content\":\"New York\"" more "}],"
#define JSON(added, processor)                                                                    \
    "{" added                                                                                     \
    "\"normalizer\":{\"type\":\"BertNormalizer\"},\"pre_tokenizer\":{\"type\":\"BertPreTokenizer" \
    "\"},\"post_processor\":" processor                                                           \
    ",\"decoder\":{\"type\":\"WordPiece\"},\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"?\"" \
    ",\"vocab\":{\"?\":0,\"[CLS]\":1,\"[SEP]\":2,\"a\":3,\"##b\":4}}}"
#define BERT      "{\"type\":\"BertProcessing\",\"cls\":[\"[CLS]\",1],\"sep\":[\"[SEP]\",2]}"
#define LEVEL     "{\"type\":\"ByteLevel\"}"
#define TWO(a, b) "{\"type\":\"Sequence\",\"processors\":[" a "," b "]}"

static br_tokenizer *from(const char *json)
{
    files_write(files_path("tokenizer.json"), json, strlen(json));
    return br_tokenizer_from_json(files_path("tokenizer.json"));
}

static void check_ids(const char *json, const char *text, int64_t n, const int64_t *ids)
{
    br_tokenizer *t = from(json);
    cr_assert(t, "%s", br_error_message());
    br_encoding *e = br_tokenizer_encode(t, &(br_text){ text, -1 }, NULL, NULL);
    cr_assert(e, "%s", br_error_message());
    cr_assert_eq(e->length, n, "%s: %lld ids", text, (long long)e->length);
    for (int64_t i = 0; i < n; i++)
        cr_assert_eq(e->ids[i], ids[i], "%s: id %lld", text, (long long)i);
    br_encoding_free(e);
    br_tokenizer_free(t);
}

Test(added_tokens, normalized_ones_match_normalized_text)
{
    static const char late[] = JSON(ADDED(",\"normalized\":true"), "null");
    static const char early[] = JSON(ADDED(",\"normalized\":false"), "null");
    check_ids(late, "a new\tYORK", 2, (int64_t[]){ 3, 5 });
    check_ids(early, "a NEW York", 3, (int64_t[]){ 3, 0, 0 });
    check_ids(early, "aNew Yorka", 3, (int64_t[]){ 3, 5, 3 });
    static const char single[] = JSON(ADDED(",\"normalized\":true,\"single_word\":true"), "null");
    check_ids(single, "new yorka new york", 3, (int64_t[]){ 0, 0, 5 });
}

/* A token is found although one that begins with it, and lies between it and the text, does not
 * match. */
Test(added_tokens, tokens_that_begin_others)
{
    static const char json[] =
        JSON("\"added_tokens\":[{\"id\":5,\"content\":\"<x\"},{\"id\":6,\"content\":\"<xa\"},"
             "{\"id\":7,\"content\":\"<xab\"}],",
             "null");
    check_ids(json, "<xa a", 2, (int64_t[]){ 6, 3 });
    check_ids(json, "<xaca", 2, (int64_t[]){ 6, 0 });
    check_ids(json, "<xba", 2, (int64_t[]){ 5, 0 });
    check_ids(json, "<x<xab", 2, (int64_t[]){ 5, 7 });
}

/* Of added tokens whose normalized texts are equal, the one with the lowest id is matched.
 * `tokenizers` chooses one at random. */
Test(added_tokens, equal_normalized_texts)
{
    static const char json[] = JSON("\"added_tokens\":[{\"id\":5,\"content\":\"A\",\"normalized\":"
                                    "true},{\"id\":3,\"content\":\"a\",\"normalized\":true}],",
                                    "null");
    check_ids(json, "x a A", 3, (int64_t[]){ 0, 3, 3 });
}

/* A processor that does not trim offsets does not change what another one trims. The offsets are
 * those of `tokenizers`. */
Test(added_tokens, processors_that_do_not_trim)
{
    static const struct {
        const char *trims, *keeps; /* trim_offsets and add_prefix_space of two processors */
        int64_t begin;
    } cases[] = { { "true,\"add_prefix_space\":false", "false,\"add_prefix_space\":true", 1 },
                  { "true,\"add_prefix_space\":true", "false,\"add_prefix_space\":false", 0 } };
    for (int i = 0; i < 2; i++) {
        json_t *root = json_load_file(BRASA_TEST_DIR "/tokenizers/bpe/tokenizer.json", 0, NULL);
        char text[400];
        snprintf(
            text, sizeof text,
            "{\"type\":\"Sequence\",\"processors\":[{\"type\":\"ByteLevel\",\"trim_offsets\":%s},"
            "{\"type\":\"ByteLevel\",\"trim_offsets\":%s}]}",
            cases[i].trims, cases[i].keeps);
        json_object_set_new(root, "post_processor", json_loads(text, 0, NULL));
        cr_assert_eq(json_dump_file(root, files_path("tokenizer.json"), 0), 0);
        json_decref(root);
        br_tokenizer *t = br_tokenizer_from_json(files_path("tokenizer.json"));
        cr_assert(t, "%s", br_error_message());
        br_encoding *e = br_tokenizer_encode(t, &(br_text){ " they a", -1 }, NULL, NULL);
        cr_assert(e && e->length == 2, "%s", br_error_message());
        cr_assert(e->chars[0].begin == cases[i].begin && e->chars[0].end == 5);
        cr_assert(e->chars[1].begin == 6 && e->chars[1].end == 7);
        br_encoding_free(e);
        br_tokenizer_free(t);
    }
}

/* The model's vocabulary has the token, too. Only where it is matched as an added token does its
 * text have the spaces that normalization puts around it, which are trimmed from its offsets. */
Test(added_tokens, offsets_of_tokens_that_the_model_has_too)
{
    static const char json[] =
        "{\"added_tokens\":[{\"id\":3,\"content\":\"\u4e2d\",\"normalized\":true,"
        "\"single_word\":true}],\"normalizer\":{\"type\":\"BertNormalizer\"},"
        "\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"post_processor\":" LEVEL
        ",\"decoder\":{\"type\":\"WordPiece\"},\"model\":{\"type\":\"WordPiece\","
        "\"unk_token\":\"?\",\"vocab\":{\"?\":0,\"a\":1,\"##a\":2,\"\u4e2d\":3}}}";
    static const struct {
        int64_t id, begin, end;
    } expected[] = { { 1, 0, 1 }, { 3, 1, 2 }, { 3, 3, 3 } };
    br_tokenizer *t = from(json);
    cr_assert(t, "%s", br_error_message());
    br_encoding *e = br_tokenizer_encode(t, &(br_text){ "a\u4e2d\u4e2d", -1 }, NULL, NULL);
    cr_assert(e && e->length == 3, "%s", br_error_message());
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(e->ids[i], expected[i].id, "id %d", i);
        cr_assert(e->chars[i].begin == expected[i].begin && e->chars[i].end == expected[i].end,
                  "token %d: %d .. %d", i, (int)e->chars[i].begin, (int)e->chars[i].end);
    }
    br_encoding_free(e);
    br_tokenizer_free(t);
}

/* White space that one token includes by `rstrip` may be part of the next one's own text: of the
 * spaces around an ideogram, which normalization adds, and of " b". The expected values are those
 * of `tokenizers`. */
Test(added_tokens, white_space_that_two_tokens_claim)
{
    static const char json[] =
        "{\"added_tokens\":[{\"id\":3,\"content\":\"\u4e2d\",\"normalized\":true,"
        "\"lstrip\":true,\"rstrip\":true},{\"id\":4,\"content\":\"<x>\",\"rstrip\":true},"
        "{\"id\":5,\"content\":\" b\"}],\"normalizer\":{\"type\":\"BertNormalizer\"},"
        "\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"post_processor\":" LEVEL
        ",\"decoder\":{\"type\":\"WordPiece\"},\"model\":{\"type\":\"WordPiece\",\"unk_token\":"
        "\"?\",\"vocab\":{\"?\":0,\"a\":1,\"b\":2,\"\u4e2d\":3,\"<x>\":4,\" b\":5}}}";
    static const struct {
        const char *text;
        int n;
        int64_t ids[4];
        br_span chars[4];
    } cases[] = {
        { "a\u4e2d\u4e2da", 4, { 1, 3, 3, 1 }, { { 0, 1 }, { 2, 2 }, { 2, 2 }, { 3, 4 } } },
        { "<x>  ba", 3, { 4, 5, 1 }, { { 0, 3 }, { 5, 6 }, { 6, 7 } } },
        { "a<x>  <x>a", 4, { 1, 4, 4, 1 }, { { 0, 1 }, { 1, 4 }, { 6, 9 }, { 9, 10 } } },
        { "<x>  b  b", 3, { 4, 5, 5 }, { { 0, 3 }, { 5, 6 }, { 8, 9 } } },
    };
    br_tokenizer *t = from(json);
    cr_assert(t, "%s", br_error_message());
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        br_encoding *e = br_tokenizer_encode(t, &(br_text){ cases[k].text, -1 }, NULL, NULL);
        cr_assert(e && e->length == cases[k].n, "%s", cases[k].text);
        for (int i = 0; i < cases[k].n; i++) {
            cr_expect_eq(e->ids[i], cases[k].ids[i], "%s: id %d", cases[k].text, i);
            cr_expect(memcmp(&e->chars[i], &cases[k].chars[i], sizeof(br_span)) == 0,
                      "%s: token %d: %d .. %d", cases[k].text, i, (int)e->chars[i].begin,
                      (int)e->chars[i].end);
        }
        br_encoding_free(e);
    }
    br_tokenizer_free(t);
}

/* Normalization removes U+0001, so two spaces are left of the second token. Two code points of the
 * text are trimmed from its offsets: a space of two bytes and U+0001, which has one. */
Test(added_tokens, trimmed_offsets_in_bytes_follow_code_points)
{
    static const char changes[] =
        "{\"file\":\"unigram/tokenizer.json\",\"tokens\":[],\"set\":{\"added_tokens\":[],"
        "\"post_processor\":" LEVEL ",\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":"
        "\"\\u2581\",\"prepend_scheme\":\"never\",\"split\":false}}}";
    static const br_span chars[] = { { 0, 1 }, { 3, 3 }, { 4, 7 }, { 7, 8 }, { 8, 9 } };
    static const br_span bytes[] = { { 0, 1 }, { 4, 4 }, { 6, 9 }, { 9, 10 }, { 10, 11 } };
    json_t *record = json_loads(changes, 0, NULL);
    br_tokenizer *t = open_record(record);
    json_decref(record);
    br_encoding *e =
        br_tokenizer_encode(t, &(br_text){ "1\xc2\xa0\x01\xc2\xa0\n\x01new", -1 }, NULL, NULL);
    cr_assert(e && e->length == 5, "%s", br_error_message());
    for (int i = 0; i < 5; i++) {
        cr_assert(memcmp(&e->chars[i], &chars[i], sizeof *chars) == 0, "token %d", i);
        cr_assert(memcmp(&e->bytes[i], &bytes[i], sizeof *bytes) == 0, "token %d: bytes %d .. %d",
                  i, (int)e->bytes[i].begin, (int)e->bytes[i].end);
    }
    br_encoding_free(e);
    br_tokenizer_free(t);
}

/* The token is all accent, so nothing is left of it to match. */
Test(added_tokens, nothing_left_by_normalization)
{
    static const char json[] =
        JSON("\"added_tokens\":[{\"id\":5,\"content\":\"\\u0301\",\"normalized\":true}],", "null");
    check_ids(json, "a a\xcc\x81", 2, (int64_t[]){ 3, 3 });
}

/* A token that the model lacks is not a piece of other words. */
Test(added_tokens, are_not_pieces)
{
    static const char json[] =
        JSON("\"added_tokens\":[{\"id\":5,\"content\":\"##c\"},{\"id\":6,\"content\":\"ab\","
             "\"single_word\":true}],",
             "null");
    check_ids(json, "ac ab abb", 5, (int64_t[]){ 0, 6, 3, 4, 4 });
}

Test(added_tokens, processors)
{
    check_ids(JSON("", BERT), "a", 3, (int64_t[]){ 1, 3, 2 });
    check_ids(JSON("", TWO(LEVEL, BERT)), "a", 3, (int64_t[]){ 1, 3, 2 });
    check_ids(JSON("", TWO(TWO(BERT, LEVEL), "{\"type\":\"ByteLevel\",\"trim_offsets\":false}")),
              "a", 3, (int64_t[]){ 1, 3, 2 });
    static const char *const bad[][2] = {
        { JSON("", TWO(BERT, BERT)), "adds special tokens twice" },
        { JSON("", TWO(LEVEL, LEVEL)), "trims offsets twice" },
        { JSON("", "{\"type\":\"Sequence\"}"), "processors is not an array" },
        { JSON("", "{\"type\":\"Other\"}"), "post_processor is Other, must be Template" },
        { JSON("", "{}"), "post_processor is without a type" },
        { JSON("", TWO("3", LEVEL)), "post_processor is without a type" },
        { JSON("", "{\"type\":\"BertProcessing\"}"), "post_processor.cls is not a token and" },
        { JSON("", "{\"type\":\"BertProcessing\",\"cls\":[\"[CLS]\",1],\"sep\":[\"[SEP]\",1]}"),
          "'[SEP]' has id 1, which is not its id in the vocabulary" },
        { JSON("", "{\"type\":\"ByteLevel\",\"trim_offsets\":1}"),
          "trim_offsets is not a boolean" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        check_fails(from(bad[i][0]), bad[i][1]);
    char nested[1024] = "";
    for (int i = 0; i < 9; i++)
        strcat(nested, "{\"type\":\"Sequence\",\"processors\":[");
    strcat(nested, LEVEL);
    for (int i = 0; i < 9; i++)
        strcat(nested, "]}");
    char json[2048];
    snprintf(json, sizeof json, JSON("", "%s"), nested);
    check_fails(from(json), "not an array nested at most 8 times");
}

static bool use(void)
{
    br_tokenizer *t = from(JSON(ADDED(",\"normalized\":true,\"lstrip\":true"), TWO(LEVEL, BERT)));
    br_encoding *e =
        t ? br_tokenizer_encode(t, &(br_text){ "a  new york a", -1 }, NULL, NULL) : NULL;
    bool ok = e;
    br_encoding_free(e);
    br_tokenizer_free(t);
    return ok;
}

Test(added_tokens, memory_runs_out_everywhere)
{
    fail_in_turn(use, "a tokenizer with added tokens");
}
