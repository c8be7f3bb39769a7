/* tests/pretrained/test_stop_strings.c - stop strings of br_generate(): which tokens complete one,
 * rows that end at different times, and invalid arguments. generation_cases.tsv has texts of
 * transformers. */
#include "tests/io/files.h"
#include "tests/memory.h"

#include <brasa/pretrained.h>
#include <stdio.h>

TestSuite(stop_strings, .init = files_begin, .fini = files_end);

/* Byte-level tokens: \u00c3 and \u00a9 are the two bytes of an e with an acute accent. */
enum { END, S, TO, PPED, ST, OPERA, OP, SPACE_STOP, TION, C3, A9, DOT, VOCAB };
static const char vocab[] = "{\"<|endoftext|>\": 0, \"s\": 1, \"to\": 2, \"pped\": 3, \"st\": 4, "
                            "\"opera\": 5, \"op\": 6, \"\\u0120stop\": 7, \"tion\": 8, "
                            "\"\\u00c3\": 9, \"\\u00a9\": 10, \".\": 11}";
enum { UNKNOWN = VOCAB, MODEL_VOCAB }; /* the model has an id more than the tokenizer */

static br_tokenizer *new_tokenizer(void)
{
    const char *path = files_path("vocab.json"), *merges = files_path("merges.txt");
    files_write(path, vocab, strlen(vocab));
    files_write(merges, "", 0);
    br_tokenizer *t = br_tokenizer_from_bpe(path, merges, NULL);
    check_ok();
    return t;
}

/* A model whose rows say the tokens of a script [rows, length]: the token after n tokens is the one
 * at n. */
static br_tensor *next_of_script(void *model, br_tensor *ids, br_tensor *mask, br_cache *cache)
{
    (void)mask, (void)cache;
    br_tensor *next = br_select(model, 1, br_size(ids, 1));
    return br_to(br_eq(br_unsqueeze(next, 1), br_arange(0, MODEL_VOCAB, 1, BR_I64)), BR_F32);
}

enum { LENGTH = 8 };

/* Generates what the script says after the first token, with these options, and returns the ids. */
static br_tensor *say(int64_t rows, const int64_t script[][LENGTH], const br_generate_options *o)
{
    br_tensor *all = br_from_i64(BR_SHAPE(rows, LENGTH), script[0]);
    br_language_model lm = { .model = all, .next = next_of_script, .no_cache = true };
    br_generate_options options = *o;
    options.max_new_tokens = LENGTH - 1;
    return br_generate(&lm, br_narrow(all, 1, 0, 1), &options);
}

/* Each row of tokens ends after the token number `ends`; LENGTH: it has no end. */
Test(stop_strings, end_a_row_with_the_token_that_completes_them)
{
    static const struct {
        const char *stop;
        int64_t tokens[1][LENGTH];
        int64_t ends;
    } cases[] = {
        { "stop", { { TO, ST, OP, DOT } }, 3 },
        { "stop", { { TO, ST, OPERA, DOT } }, 3 }, /* the text of the token goes on */
        { "stop", { { DOT, S, TO, PPED, DOT } }, 4 },
        { "stop", { { DOT, SPACE_STOP, DOT } }, 2 },
        { " stop", { { DOT, SPACE_STOP, DOT } }, 2 },
        { " stop", { { SPACE_STOP, DOT, S, TO, PPED, DOT } }, LENGTH },
        { "stop", { { ST, OPERA, TION, DOT } }, 2 }, /* it begins in the prompt */
        { "stop", { { SPACE_STOP, TION, DOT } }, LENGTH },
        { "opt", { { S, ST, OP, TION, DOT } }, 4 },
        { "opa", { { S, ST, OP, TION, DOT } }, LENGTH },
        { "\xc3\xa9", { { DOT, C3, A9, DOT } }, 3 },
        { ".\xc3\xa9.", { { S, DOT, C3, A9, DOT } }, 5 },
        { "..", { { S, DOT, C3, DOT, A9, DOT, DOT } }, 7 },
        { "<|endoftext|>", { { DOT, S, END, S } }, 3 }, /* special tokens have their text */
        { "s.", { { DOT, S, UNKNOWN, DOT, S } }, 4 },
        { "s", { { S, UNKNOWN, DOT, DOT } }, LENGTH },
        { "pped.pped.pped.", { { PPED, DOT, PPED, DOT, PPED, DOT, S } }, 6 },
    };
    br_tokenizer *t = new_tokenizer();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        br_scope *scope = br_scope_begin();
        const char *strings[] = { "never", cases[i].stop };
        br_tensor *ids = say(
            1, cases[i].tokens,
            BR_OPTIONS(br_generate, .n_stop_strings = 2, .stop_strings = strings, .tokenizer = t));
        check_ok();
        cr_expect_eq(br_size(ids, 1), cases[i].ends, "case %zu, \"%s\": %lld tokens, not %lld", i,
                     cases[i].stop, (long long)br_size(ids, 1), (long long)cases[i].ends);
        br_scope_end(scope);
    }
    br_tokenizer_free(t);
}

/* A string counts up to its last byte: a token less, and the tail would not contain it. */
Test(stop_strings, may_be_longer_than_the_rest_of_the_row)
{
    static const int64_t script[1][LENGTH] = { { S, S, S, S, S, S, S, S } };
    br_tokenizer *t = new_tokenizer();
    for (int n = 2; n <= LENGTH + 1; n++) {
        br_scope *scope = br_scope_begin();
        const char *strings[] = { &"sssssssss"[9 - n] };
        br_tensor *ids = say(
            1, script,
            BR_OPTIONS(br_generate, .n_stop_strings = 1, .stop_strings = strings, .tokenizer = t));
        check_ok();
        cr_expect_eq(br_size(ids, 1), n < LENGTH ? n : LENGTH, "%d", n);
        br_scope_end(scope);
    }
    br_tokenizer_free(t);
}

Test(stop_strings, rows_that_have_ended_are_padded)
{
    static const int64_t script[3][LENGTH] = { { DOT, S, TO, PPED, DOT, DOT, DOT, DOT },
                                               { DOT, SPACE_STOP, DOT, S, S, S, S, S },
                                               { DOT, TO, TO, TO, END, S, ST, OP } };
    static const int64_t want[3][5] = { { DOT, S, TO, PPED, TION },
                                        { DOT, SPACE_STOP, TION, TION, TION },
                                        { DOT, TO, TO, TO, END } };
    static const int64_t eos[] = { END };
    static const char *const strings[] = { "stop" };
    br_tokenizer *t = new_tokenizer();
    br_scope *scope = br_scope_begin();
    br_generate_options o = br_generate_defaults();
    o.n_stop_strings = 1;
    o.stop_strings = strings;
    o.tokenizer = t;
    o.pad_token_id = TION;
    o.n_eos = 1;
    o.eos_token_ids = eos;
    br_tensor *ids = say(3, script, &o);
    check_ok();
    cr_assert(br_equal(ids, br_from_i64(BR_SHAPE(3, 5), want[0])), "%s", br_to_string(ids));
    o.n_eos = 0;
    ids = say(2, script, &o);
    check_ok();
    cr_assert(br_equal(ids, br_from_i64(BR_SHAPE(2, 4), (int64_t[]){ DOT, S, TO, PPED, DOT,
                                                                     SPACE_STOP, TION, TION })));
    br_scope_end(scope);
    br_tokenizer_free(t);
}

/* A model that says S, seldom DOT, and nothing else. */
static br_tensor *next_is_s(void *model, br_tensor *ids, br_tensor *mask, br_cache *cache)
{
    (void)mask, (void)cache;
    return br_repeat(br_unsqueeze(model, 0), BR_DIMS(br_size(ids, 0), 1));
}

/* Without a token that ends texts, the shorter of two beams is filled with -1, as in transformers.
 */
Test(stop_strings, beams_without_an_end_token)
{
    static const char *const strings[] = { "." };
    float logits[VOCAB] = { 0 };
    logits[S] = 11, logits[DOT] = 10;
    br_tokenizer *t = new_tokenizer();
    br_scope *scope = br_scope_begin();
    br_language_model lm = { .model = br_from_f32(BR_SHAPE(VOCAB), logits),
                             .next = next_is_s,
                             .no_cache = true };
    br_tensor *ids =
        br_generate(&lm, br_from_i64(BR_SHAPE(1, 1), (int64_t[]){ OP }),
                    BR_OPTIONS(br_generate, .max_new_tokens = 3, .num_beams = 2,
                               .num_return_sequences = 2, .length_penalty = 0, .n_stop_strings = 1,
                               .stop_strings = strings, .tokenizer = t));
    check_ok();
    cr_assert(
        br_equal(ids, br_from_i64(BR_SHAPE(2, 4), (int64_t[]){ OP, S, S, S, OP, DOT, -1, -1 })));
    br_scope_end(scope);
    br_tokenizer_free(t);
}

Test(stop_strings, invalid_options)
{
    static const int64_t script[1][LENGTH] = { { S } };
    static const char *const good[] = { "a" }, *const empty[] = { "a", "" },
                             *const missing[] = { NULL };
    br_tokenizer *t = new_tokenizer();
    const struct {
        const br_generate_options *options;
        const char *message;
    } cases[] = {
        { BR_OPTIONS(br_generate, .n_stop_strings = 1, .stop_strings = good),
          "tokenizer with stop_strings" },
        { BR_OPTIONS(br_generate, .n_stop_strings = 2, .stop_strings = empty, .tokenizer = t),
          "stop_strings[1] is empty" },
        { BR_OPTIONS(br_generate, .n_stop_strings = 1, .stop_strings = missing, .tokenizer = t),
          "stop_strings[0] is NULL" },
        { BR_OPTIONS(br_generate, .n_stop_strings = -1, .stop_strings = good, .tokenizer = t),
          "n_stop_strings is -1 and stop_strings is not NULL" },
        { BR_OPTIONS(br_generate, .n_stop_strings = 1, .tokenizer = t), "stop_strings is NULL" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        br_scope *scope = br_scope_begin();
        check_fails(say(1, script, cases[i].options), cases[i].message);
        br_scope_end(scope);
    }
    br_tokenizer_free(t);
}
