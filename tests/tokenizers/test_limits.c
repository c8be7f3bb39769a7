/* tests/tokenizers/test_limits.c - limits and ties: exactly at a limit, one beyond it, and a limit
 * that a file does not state. */
#include "tests/io/files.h"
#include "tests/support.h"
#include "tokenizers/tokenizer_internal.h"

#include <brasa/tokenizers.h>
#include <jansson.h>
#include <string.h>

TestSuite(tokenizer_limits, .init = files_begin, .fini = files_end);

static void put(const char *name, const char *text)
{
    files_write(files_path(name), text, strlen(text));
}

static void check_ids(const br_tokenizer *t, const char *text, int64_t n, const int64_t *ids)
{
    br_encoding *e = br_tokenizer_encode(t, &(br_text){ text, -1 }, NULL, NULL);
    cr_assert(e && e->length == n, "%.40s: %s", text, br_error_message());
    cr_assert_arr_eq(e->ids, ids, (size_t)n * sizeof *ids, "%.40s", text);
    br_encoding_free(e);
}

/* ---- Words ----------------------------------------------------------------------------------- */

/* max_input_chars_per_word is 100 if the file does not state it, as in the library tokenizers. */
Test(tokenizer_limits, the_longest_word_by_default)
{
    put("tokenizer.json",
        "{\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"decoder\":{\"type\":"
        "\"WordPiece\"},\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"?\","
        "\"continuing_subword_prefix\":\"##\","
        "\"vocab\":{\"?\":0,\"a\":1,\"##a\":2}}}");
    br_tokenizer *t = br_tokenizer_from_json(files_path("tokenizer.json"));
    cr_assert(t, "%s", br_error_message());
    char word[102] = { 0 };
    int64_t ids[100] = { 1 };
    for (int i = 1; i < 100; i++)
        ids[i] = 2;
    memset(word, 'a', 100);
    check_ids(t, word, 100, ids);
    word[100] = 'a';
    check_ids(t, word, 1, (int64_t[]){ 0 });
    br_tokenizer_free(t);
}

/* ---- Added tokens ---------------------------------------------------------------------------- */

/* Writes a list of n tokens under a key of tokenizer_config.json. */
static void put_tokens(const char *key, int n)
{
    size_t size = (size_t)n * 16 + 64, at = 0;
    char *text = malloc(size);
    at += (size_t)snprintf(text, size, "{\"%s\":[", key);
    for (int i = 0; i < n; i++)
        at += (size_t)snprintf(text + at, size - at, "%s\"<t%d>\"", i ? "," : "", i);
    snprintf(text + at, size - at, "]}");
    put("tokenizer_config.json", text);
    free(text);
}

Test(tokenizer_limits, the_most_added_tokens)
{
    static const char *const keys[] = { "extra_special_tokens", "additional_special_tokens" };
    put("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n");
    for (int i = 0; i < 2; i++) {
        put_tokens(keys[i], BR_MAX_ADDED);
        br_tokenizer *t = br_auto_tokenizer_load(files_path(""), NULL);
        cr_assert(t, "%s: %s", keys[i], br_error_message());
        cr_assert_eq(br_tokenizer_id(t, "<t4095>", -1), 6 + 4095);
        br_tokenizer_free(t);
        put_tokens(keys[i], BR_MAX_ADDED + 1);
        check_fails(br_auto_tokenizer_load(files_path(""), NULL),
                    "has 16385 tokens, the limit is 16384");
    }
}

/* An option that has no effect on tokenizer.json is refused, whatever its value. */
Test(tokenizer_limits, options_that_do_not_apply_to_tokenizer_json)
{
    const br_auto_tokenizer_options options[] = {
        *BR_OPTIONS(br_auto_tokenizer, .extra_ids = 0),
        *BR_OPTIONS(br_auto_tokenizer, .extra_ids = 1),
        *BR_OPTIONS(br_auto_tokenizer, .add_bos_token = BR_SETTING_ON),
        *BR_OPTIONS(br_auto_tokenizer, .add_bos_token = BR_SETTING_OFF),
        *BR_OPTIONS(br_auto_tokenizer, .add_eos_token = BR_SETTING_ON),
        *BR_OPTIONS(br_auto_tokenizer, .add_eos_token = BR_SETTING_OFF),
    };
    put("tokenizer.json",
        "{\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\\u2581\"},\"decoder\":{"
        "\"type\":\"Metaspace\",\"replacement\":\"\\u2581\"},\"model\":{\"type\":\"Unigram\","
        "\"unk_id\":0,\"vocab\":[[\"<unk>\",0],[\"\\u2581\",-1],[\"a\",-1]]}}");
    br_tokenizer *t = br_auto_tokenizer_load(files_path(""), NULL);
    cr_assert(t, "%s", br_error_message());
    br_tokenizer_free(t);
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        check_fails(br_auto_tokenizer_load(files_path(""), &options[i]),
                    "options add_bos_token, add_eos_token and extra_ids do not apply to "
                    "tokenizer.json");
}

/* Returns the offset in bytes at which the only token of " a" begins. `setting` is a member of the
 * post-processor. */
static int64_t begin_of_token(const char *setting)
{
    char text[600];
    snprintf(
        text, sizeof text,
        "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":"
        "true},\"post_processor\":{\"type\":\"ByteLevel\",\"trim_offsets\":true%s},"
        "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,"
        "\"\\u0120\":1,\"\\u0120a\":2},\"merges\":[\"\\u0120 a\"]}}",
        setting);
    put("tokenizer.json", text);
    br_tokenizer *t = br_tokenizer_from_json(files_path("tokenizer.json"));
    cr_assert(t, "%s", br_error_message());
    br_encoding *e = br_tokenizer_encode(t, &(br_text){ " a", -1 }, NULL, NULL);
    cr_assert(e && e->length == 1, "%s", br_error_message());
    const int64_t begin = e->bytes[0].begin;
    br_encoding_free(e);
    br_tokenizer_free(t);
    return begin;
}

/* add_prefix_space of the post-processor is true if it is absent: the space before the first word
 * counts as added, and stays in its offsets. */
Test(tokenizer_limits, the_first_space_by_default)
{
    const int64_t absent = begin_of_token("");
    cr_assert_eq(absent, begin_of_token(",\"add_prefix_space\":true"));
    cr_assert_neq(absent, begin_of_token(",\"add_prefix_space\":false"));
}

/* ---- Unigram --------------------------------------------------------------------------------- */

/* Writes T5's tokenizer.json with other pieces and without added tokens. */
static void put_pieces(const char *vocab)
{
    json_error_t error;
    json_t *file = json_load_file(BRASA_TEST_DIR "/tokenizers/unigram/tokenizer.json", 0, &error);
    cr_assert(file, "%s", error.text);
    json_t *model = json_object_get(file, "model");
    json_object_set_new(model, "vocab", json_loads(vocab, 0, &error));
    json_object_set_new(model, "unk_id", json_integer(0));
    json_object_set_new(file, "added_tokens", json_array());
    json_object_set_new(file, "post_processor", json_null());
    cr_assert_eq(json_dump_file(file, files_path("tokenizer.json"), 0), 0);
    json_decref(file);
}

/* A grapheme cluster of at most five bytes is normalized as a whole: e and two accents become one
 * letter. KA and its voicing mark have six bytes, and stay two characters. Of two equal pieces, the
 * last counts. The library tokenizers has the same ids. */
Test(tokenizer_limits, grapheme_clusters_and_equal_pieces)
{
    put_pieces("[[\"<unk>\",0],[\"\\u2581\",-1],[\"\\u304b\",-2],[\"\\u304c\",-2],[\"\\u3099\",-2],"
               "[\"e\",-2],[\"\\u00e9\",-2],[\"\\u0301\",-2],[\"a\",-1],[\"a\",-9]]");
    br_tokenizer *t = br_tokenizer_from_json(files_path("tokenizer.json"));
    cr_assert(t, "%s", br_error_message());
    check_ids(t, "e\xcc\x81", 2, (int64_t[]){ 1, 6 });
    check_ids(t, "e\xcc\x81\xcc\x81", 2, (int64_t[]){ 1, 6 });
    check_ids(t, "\xe3\x81\x8b\xe3\x82\x99", 3, (int64_t[]){ 1, 2, 4 });
    check_ids(t, "a", 2, (int64_t[]){ 1, 9 });
    br_tokenizer_free(t);
}
