/* Learning a byte-level BPE: tokens and merges of tokenizers (record_bpe_train.py), the rest of
 * tokenizer.json, loading it, and invalid arguments. */
#include "tests/io/files.h"
#include "tests/memory.h"

#include <brasa/tokenizers.h>
#include <jansson.h>
#include <string.h>

TestSuite(bpe_train, .init = files_begin, .fini = files_end);

enum { MOST = 64 };

/* Returns the recorded cases; the caller frees them with json_decref(). */
static json_t *read_cases(void)
{
    json_error_t error;
    json_t *cases = json_load_file(BRASA_TEST_DIR "/tokenizers/bpe_train.json", 0, &error);
    cr_assert(cases, "%s", error.text);
    return cases;
}

/* Learns what a case says. */
static char *learn(const json_t *c)
{
    br_text texts[MOST];
    const char *special[MOST];
    const json_t *list = json_object_get(c, "texts"), *names = json_object_get(c, "special");
    size_t n = json_array_size(list), n_special = json_array_size(names);
    cr_assert(n <= MOST && n_special <= MOST);
    for (size_t i = 0; i < n; i++)
        texts[i] = (br_text){ json_string_value(json_array_get(list, i)), -1 };
    for (size_t i = 0; i < n_special; i++)
        special[i] = json_string_value(json_array_get(names, i));
    return br_bpe_train(
        (int64_t)n, texts,
        BR_OPTIONS(br_bpe_train, .vocab_size = json_integer_value(json_object_get(c, "vocab_size")),
                   .min_frequency = json_integer_value(json_object_get(c, "min_frequency")),
                   .n_special_tokens = (int64_t)n_special, .special_tokens = special));
}

/* Checks the learned tokens, whose ids follow those of the special tokens and of the bytes. */
static void check_tokens(const json_t *c, const json_t *vocab, size_t number)
{
    const json_t *tokens = json_object_get(c, "tokens"), *special = json_object_get(c, "special");
    size_t first = json_array_size(special) + 256;
    cr_expect_eq(json_object_size(vocab), first + json_array_size(tokens), "case %zu", number);
    for (size_t i = 0; i < json_array_size(tokens); i++) {
        const char *token = json_string_value(json_array_get(tokens, i));
        const json_t *id = json_object_get(vocab, token);
        cr_expect(id && json_integer_value(id) == (json_int_t)(first + i), "case %zu: %s", number,
                  token);
    }
    for (size_t i = 0; i < json_array_size(special); i++)
        cr_expect_eq(json_integer_value(
                         json_object_get(vocab, json_string_value(json_array_get(special, i)))),
                     (json_int_t)i);
}

static void check_merges(const json_t *c, const json_t *merges, size_t number)
{
    const json_t *wanted = json_object_get(c, "merges");
    cr_expect_eq(json_array_size(merges), json_array_size(wanted), "case %zu", number);
    for (size_t i = 0; i < json_array_size(wanted); i++) {
        char pair[400];
        const json_t *merge = json_array_get(merges, i);
        snprintf(pair, sizeof pair, "%s %s", json_string_value(json_array_get(merge, 0)),
                 json_string_value(json_array_get(merge, 1)));
        cr_expect_str_eq(pair, json_string_value(json_array_get(wanted, i)), "case %zu", number);
    }
}

Test(bpe_train, tokens_and_merges_of_tokenizers)
{
    json_t *cases = read_cases();
    for (size_t k = 0; k < json_array_size(cases); k++) {
        const json_t *c = json_array_get(cases, k);
        char *text = learn(c);
        json_t *root = text ? json_loads(text, 0, NULL) : NULL;
        cr_assert(root, "case %zu: %s", k, br_error_message());
        const json_t *model = json_object_get(root, "model");
        check_tokens(c, json_object_get(model, "vocab"), k);
        check_merges(c, json_object_get(model, "merges"), k);
        const char *key;
        json_t *value;
        json_object_foreach(json_object_get(c, "rest"), key, value)
            cr_expect(json_equal(json_object_get(root, key), value), "%s", key);
        json_decref(root);
        br_free(text);
    }
    json_decref(cases);
}

/* The learned tokenizer divides a word as its merges say, and gives back the text. */
Test(bpe_train, the_tokenizer_works)
{
    static const char end[] = "<|endoftext|>", *special[] = { end };
    br_text texts[] = { { "the cat, the hat; the cat's hat\n", -1 }, { "the bat", 7 } };
    char *json = br_bpe_train(2, texts,
                              BR_OPTIONS(br_bpe_train, .vocab_size = 290, .n_special_tokens = 1,
                                         .special_tokens = special));
    br_tokenizer *t = br_tokenizer_from_json_text(json, -1);
    cr_assert(t, "%s", br_error_message());
    cr_assert_eq(br_tokenizer_id(t, end, -1), 0);
    br_text text = { "the cat<|endoftext|>\xf0\x9f\x98\x80", -1 };
    br_encoding *e = br_tokenizer_encode(t, &text, NULL, NULL);
    cr_assert_eq(e->length, 2 + 1 + 4);
    char *again = br_tokenizer_decode(t, e->length, e->ids, false);
    cr_assert_str_eq(again, text.data);
    br_free(again);
    br_encoding_free(e);
    br_tokenizer_free(t);
    files_write(files_path("tokenizer.json"), json, strlen(json));
    t = br_tokenizer_from_json(files_path("tokenizer.json"));
    cr_assert(t, "%s", br_error_message());
    br_tokenizer_free(t);
    br_free(json);
    check_fails(br_tokenizer_from_json_text("{", 1), "tokenizer.json: line 1: ");
    check_fails(br_tokenizer_from_json_text(NULL, 1), "text is NULL");
    check_fails(br_tokenizer_from_json_text("{}", 2), "there is no model");
}

/* Learns a few merges, some of them in overlapping pairs. */
static bool learn_once(void)
{
    br_text text = { "aaaa abab aaaa abab bb", -1 };
    char *json = br_bpe_train(1, &text, BR_OPTIONS(br_bpe_train, .vocab_size = 262));
    bool ok = json != NULL;
    br_free(json);
    return ok;
}

Test(bpe_train, memory_runs_out_everywhere)
{
    fail_in_turn(learn_once, "bpe_train");
}

Test(bpe_train, invalid_arguments)
{
    br_text text = { "ab", 2 };
    static const char *const none[] = { NULL }, *const empty[] = { "" }, *const bad[] = { "\xff" };
    check_fails(br_bpe_train(-1, &text, NULL), "bpe_train: n is -1, must not be negative");
    check_fails(br_bpe_train(1, NULL, NULL), "texts is NULL");
    check_fails(br_bpe_train(1, &(br_text){ NULL, 3 }, NULL), "texts[].data is NULL");
    check_fails(br_bpe_train(1, &(br_text){ "a\xff", 2 }, NULL),
                "byte 1 of a text is not UTF-8, must be UTF-8 without U+0000");
    check_fails(br_bpe_train(1, &(br_text){ "a\0b", 3 }, NULL), "byte 1 of a text is U+0000");
    check_fails(br_bpe_train(1, &text, BR_OPTIONS(br_bpe_train, .vocab_size = 255)),
                "vocab_size is 255, must be 256 .. 2147483647: 256 bytes and 0 special tokens");
    check_fails(br_bpe_train(1, &text, BR_OPTIONS(br_bpe_train, .min_frequency = -1)),
                "min_frequency is -1");
    check_fails(br_bpe_train(1, &text, BR_OPTIONS(br_bpe_train, .n_special_tokens = 1)),
                "n_special_tokens is 1, but special_tokens is NULL");
    check_fails(br_bpe_train(1, &text, BR_OPTIONS(br_bpe_train, .n_special_tokens = -1)),
                "n_special_tokens is -1, must not be negative");
    check_fails(
        br_bpe_train(1, &text,
                     BR_OPTIONS(br_bpe_train, .n_special_tokens = 1, .special_tokens = none)),
        "special_tokens[0] is NULL");
    check_fails(
        br_bpe_train(1, &text,
                     BR_OPTIONS(br_bpe_train, .n_special_tokens = 1, .special_tokens = empty)),
        "special_tokens[0] is empty");
    check_fails(
        br_bpe_train(1, &text,
                     BR_OPTIONS(br_bpe_train, .n_special_tokens = 1, .special_tokens = bad)),
        "special_tokens[0] is not UTF-8");
}
