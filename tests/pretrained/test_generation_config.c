/* tests/pretrained/test_generation_config.c - GenerationConfig: values of the file and given ones,
 * how they change options, and invalid values. tests/cli/generation_cases.tsv has every key with
 * the text that transformers generates, and is compared with the command. */
#include "tests/io/files.h"
#include "tests/memory.h"

#include <brasa/pretrained.h>
#include <stdio.h>

TestSuite(generation_config, .init = files_begin, .fini = files_end);

static void write_file(const char *name, const char *text)
{
    files_write(files_path(name), text, strlen(text));
}

/* Loads the folder with this generation_config.json. */
static br_generation_config *load(const char *text, const char *given)
{
    write_file("generation_config.json", text);
    return br_generation_config_load(files_path(""), given);
}

/* Returns the options that the file changes, for a prompt of 3 tokens. */
static br_generate_options applied(br_generation_config *config, br_generate_options options)
{
    cr_assert(config, "%s", br_error_message());
    cr_assert(br_generation_config_apply(config, 3, &options), "%s", br_error_message());
    return options;
}

/* ---- Options --------------------------------------------------------------------------------- */

Test(generation_config, fields_that_nothing_sets_stay)
{
    br_generation_config *config = load("{}", NULL);
    static const int64_t ids[] = { 5 };
    const br_generate_options before =
        *BR_OPTIONS(br_generate, .max_new_tokens = 7, .min_new_tokens = 2, .do_sample = true,
                    .temperature = 3, .top_k = 4, .top_p = 0.5, .min_p = 0.1,
                    .repetition_penalty = 2, .no_repeat_ngram_size = 6, .n_suppress = 1,
                    .suppress_tokens = ids, .n_eos = 1, .eos_token_ids = ids, .pad_token_id = 9);
    br_generate_options after = applied(config, before);
    cr_assert(memcmp(&before, &after, sizeof after) == 0);
    cr_assert_eq(br_generation_config_decoder_start(config), -1);
    cr_assert_str_eq(br_generation_config_unknown(config), "");
    cr_assert(strstr(br_generation_config_path(config), "generation_config.json"));
    br_generation_config_free(config);
    config = load("{\"eos_token_id\": null, \"max_length\": null, \"top_k\": null}", NULL);
    after = applied(config, before);
    cr_assert(memcmp(&before, &after, sizeof after) == 0, "null is the same as a missing key");
    br_generation_config_free(config);
}

Test(generation_config, values_of_the_file)
{
    br_generation_config *config =
        load("{\"max_new_tokens\": 9, \"max_length\": 4, \"min_length\": 5, \"do_sample\": true, "
             "\"temperature\": 2, \"top_k\": 0, \"top_p\": 0.25, \"min_p\": 0.5, "
             "\"repetition_penalty\": 1.5, \"no_repeat_ngram_size\": 3, \"eos_token_id\": [1, 2], "
             "\"suppress_tokens\": [7, 8, 9], \"bos_token_id\": 4, \"pad_token_id\": 6, "
             "\"x\": null, \"y\": 1, \"\\u001bz\": [2]}",
             NULL);
    br_generate_options o = applied(config, br_generate_defaults());
    cr_assert(o.do_sample && o.temperature == 2 && o.top_k == 0 && o.top_p == 0.25);
    cr_assert(o.min_p == 0.5 && o.repetition_penalty == 1.5 && o.no_repeat_ngram_size == 3);
    cr_assert_eq(o.max_new_tokens, 9);
    cr_assert_eq(o.min_new_tokens, 2, "min_length includes the prompt");
    cr_assert(o.n_eos == 2 && o.eos_token_ids[0] == 1 && o.eos_token_ids[1] == 2);
    cr_assert(o.n_suppress == 3 && o.suppress_tokens[2] == 9);
    cr_assert_eq(o.pad_token_id, BR_NONE);
    cr_assert_eq(br_generation_config_decoder_start(config), 4);
    cr_assert_str_eq(br_generation_config_unknown(config), "y, \033z");
    br_generation_config_free(config);
}

Test(generation_config, stop_strings_need_a_tokenizer)
{
    br_tokenizer *t =
        br_tokenizer_from_vocab(BRASA_TEST_DIR "/tokenizers/tokenizer_vocab.txt", NULL);
    br_generation_config *config = load("{\"stop_strings\": [\"a\", \"bc\"]}", NULL);
    br_generate_options o = br_generate_defaults();
    check_fails(br_generation_config_apply(config, 3, &o), "tokenizer with stop_strings");
    cr_assert_eq(o.n_stop_strings, 0);
    o.tokenizer = t;
    o = applied(config, o);
    cr_assert(o.n_stop_strings == 2 && strcmp(o.stop_strings[1], "bc") == 0);
    br_generation_config_free(config);
    config = load("{\"stop_strings\": \"abc\"}", NULL);
    o = applied(config, o);
    cr_assert(o.n_stop_strings == 1 && strcmp(o.stop_strings[0], "abc") == 0);
    br_generation_config_free(config);
    br_tokenizer_free(t);
}

Test(generation_config, given_values_replace_those_of_the_file)
{
    static const char file[] = "{\"max_new_tokens\": 9, \"max_length\": 11, \"eos_token_id\": 1, "
                               "\"top_k\": \"x\", \"bos_token_id\": 4}";
    br_generation_config *config = load(
        file, "{\"max_new_tokens\": null, \"eos_token_id\": 5, \"decoder_start_token_id\": 6}");
    br_generate_options o = applied(config, br_generate_defaults());
    cr_assert_eq(o.max_new_tokens, 8, "null removes a value");
    cr_assert(o.n_eos == 1 && o.eos_token_ids[0] == 5);
    cr_assert_eq(br_generation_config_decoder_start(config), 6);
    /* The caller samples, so that top_k of the file counts. */
    o = *BR_OPTIONS(br_generate, .do_sample = true, .max_new_tokens = 3);
    check_fails(br_generation_config_apply(config, 3, &o),
                "generation_config.json: top_k is \"x\"");
    cr_assert_eq(o.max_new_tokens, 3, "a failure changes nothing");
    check_fails(br_generation_config_apply(config, 11, BR_OPTIONS(br_generate)),
                "max_length is 11");
    br_generation_config_free(config);
}

/* Without generation_config.json, config.json counts, and its other keys are not unknown. */
Test(generation_config, config_json)
{
    write_file("config.json", "{\"model_type\": \"gpt2\", \"max_length\": 20, \"other\": 1}");
    br_generation_config *config = br_generation_config_load(files_path(""), NULL);
    cr_assert_eq(applied(config, br_generate_defaults()).max_new_tokens, 17);
    cr_assert_str_eq(br_generation_config_unknown(config), "");
    cr_assert(strstr(br_generation_config_path(config), "/config.json"));
    br_generation_config_free(config);
    config = load("{}", NULL);
    cr_assert_eq(applied(config, br_generate_defaults()).max_new_tokens, 20);
    br_generation_config_free(config);
}

Test(generation_config, keys)
{
    int n = 0;
    for (bool found = false; br_generation_config_key(n); n++) {
        found |= strcmp(br_generation_config_key(n), "top_k") == 0;
        cr_assert(found || n < 20);
    }
    cr_assert_gt(n, 60);
    cr_assert_null(br_generation_config_key(-1));
    cr_assert_null(br_generation_config_key(n));
    check_ok();
}

/* ---- Errors ---------------------------------------------------------------------------------- */

/* Values of another type or outside their range, and files that are no JSON object. */
Test(generation_config, bad_values)
{
    static const struct {
        const char *text, *message;
    } bad[] = {
        { "{\"max_length\": \"6\"}", "max_length is \"6\", must be null or an integer in 1 .. " },
        { "{\"max_new_tokens\": 0}", "max_new_tokens is 0, must be null or an integer in 1 .. " },
        { "{\"min_length\": -1}", "min_length is -1, must be null or an integer in 0 .. " },
        { "{\"min_new_tokens\": 1.5}", "min_new_tokens is 1.5, must be null or an integer" },
        { "{\"do_sample\": 1}", "do_sample is 1, must be true, false or null" },
        { "{\"repetition_penalty\": 0}", "repetition_penalty is 0, must be null or a number that "
                                         "is greater than 0 and at most 1e+06" },
        { "{\"no_repeat_ngram_size\": [2]}", "no_repeat_ngram_size is [2], must be" },
        { "{\"do_sample\": true, \"temperature\": \"hot\"}", "temperature is \"hot\", must be" },
        { "{\"do_sample\": true, \"top_k\": -1}", "top_k is -1, must be" },
        { "{\"do_sample\": true, \"top_p\": 1.5}", "top_p is 1.5, must be" },
        { "{\"do_sample\": true, \"min_p\": 2}", "min_p is 2, must be" },
        { "{\"eos_token_id\": \"</s>\"}",
          "eos_token_id is \"</s>\", must be null, an integer or a list of integers" },
        { "{\"eos_token_id\": []}", "eos_token_id is [], must be null, an integer or a list of "
                                    "integers that is not empty" },
        { "{\"eos_token_id\": [1, null]}", "eos_token_id is [1,null], must be" },
        { "{\"suppress_tokens\": 3}", "suppress_tokens is 3, must be null or a list of integers" },
        { "{\"stop_strings\": 3}",
          "stop_strings is 3, must be null, a string or a list of strings" },
        { "{\"stop_strings\": [\"a\", \"\"]}", "stop_strings is [\"a\",\"\"], must be null" },
        { "{\"stop_strings\": [null]}", "stop_strings is [null], must be null, a string" },
        { "{\"decoder_start_token_id\": []}", "decoder_start_token_id is [], must be" },
        { "{\"guidance_scale\": 2}",
          "guidance_scale is 2, must be 1 or null: other values are not supported; give another "
          "value for guidance_scale (brasa generate: --set guidance_scale=VALUE)" },
        { "{\"num_beams\": 0}", "num_beams is 0, must be null or an integer in 1" },
        { "{\"num_return_sequences\": 1.5}", "num_return_sequences is 1.5, must be null or an" },
        { "{\"length_penalty\": true}", "length_penalty is true, must be null or a number" },
        { "{\"early_stopping\": \"always\"}",
          "early_stopping is \"always\", must be true, false, null or \"never\"" },
        { "{\"num_beams\": 2, \"num_beam_groups\": 2}", "num_beam_groups is 2, must be 1 or null" },
        { "{\"cache_implementation\": \"quantized\"}",
          "cache_implementation is \"quantized\", must be another value: this one is not "
          "supported; give another value for cache_implementation" },
        { "{\"top_k\": 1, \"top_k\": 2}", "line 1, column 20: duplicate object key" },
        { "{\"top_k\": 1", "line 1, column 11: '}' expected" },
        { "[]", "is not a JSON object" },
        { "", "line 1, column 0" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        check_fails(load(bad[i].text, NULL), bad[i].message);
        br_generation_config *config = load(bad[i].text, NULL);
        cr_assert_null(config);
        cr_assert(strstr(br_error_message(), "generation_config.json: "));
        cr_assert_eq(br_error_code(), BR_ERROR_FORMAT);
        br_clear_error();
    }
    check_fails(br_generation_config_load(NULL, NULL), "generation_config: dir is NULL");
    check_fails(br_generation_config_load("/none", NULL), "/none/config.json: cannot be opened");
}

/* The message tells a given value from a value of the file. */
Test(generation_config, bad_given_values)
{
    static const struct {
        const char *given, *message;
    } bad[] = {
        { "{\"guidance_scale\": 3}",
          "generation_config: the given guidance_scale is 3, must be 1 or null" },
        { "{\"max_new_tokens\": 0}", "the given max_new_tokens is 0, must be null or an integer" },
        { "{\"top_q\": 0}", "the given top_q is not a key of generation_config.json" },
        { "[1]", "`given` is [1], must be a JSON object" },
        { "{\"top_k\": }", "`given`, line 1, column 11: " },
        { "", "`given`, line 1, column 0: " },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        check_fails(load("{\"guidance_scale\": 1}", bad[i].given), bad[i].message);
        cr_assert_null(load("{\"guidance_scale\": 2}", bad[i].given));
        cr_assert_eq(br_error_code(), BR_ERROR_ARGUMENT, "%s", br_error_message());
        br_clear_error();
    }
}

Test(generation_config, no_room_for_new_tokens)
{
    br_generate_options o = br_generate_defaults();
    br_generation_config *config = load("{\"max_length\": 3}", NULL);
    check_fails(
        br_generation_config_apply(config, 3, &o),
        "generation_config.json: max_length is 3, but the prompt has 3 tokens, which leaves "
        "no room for new ones; give another value for max_new_tokens (brasa generate: --set "
        "max_new_tokens=VALUE)");
    cr_assert_eq(o.max_new_tokens, 20);
    cr_assert(br_generation_config_apply(config, 2, &o) && o.max_new_tokens == 1);
    br_generation_config_free(config);
    config = load("{}", "{\"max_length\": 3}");
    check_fails(br_generation_config_apply(config, 4, &o),
                "generation_config: the given max_length is 3, but the prompt has 4 tokens");
    check_fails(br_generation_config_apply(config, -1, &o),
                "generation_config_apply: n_tokens is -1, must be");
    check_fails(br_generation_config_apply(NULL, 1, &o), "generation_config_apply: config is NULL");
    check_fails(br_generation_config_apply(config, 1, NULL),
                "generation_config_apply: options is NULL");
    o.struct_size = 0;
    check_fails(br_generation_config_apply(config, 1, &o),
                "generation_config_apply: options were not initialized with their defaults");
    br_generation_config_free(config);
    br_generation_config_free(NULL);
    check_ok();
}

static bool use(void)
{
    br_generate_options o = br_generate_defaults();
    br_generation_config *config =
        br_generation_config_load(files_path(""), "{\"max_length\": 30, \"num_beams\": 1}");
    br_tokenizer *t =
        br_tokenizer_from_vocab(BRASA_TEST_DIR "/tokenizers/tokenizer_vocab.txt", NULL);
    o.tokenizer = t;
    bool ok = config && t && br_generation_config_apply(config, 3, &o) && o.n_eos == 2;
    br_tokenizer_free(t);
    br_generation_config_free(config);
    return ok;
}

Test(generation_config, memory_runs_out_everywhere)
{
    write_file("generation_config.json",
               "{\"eos_token_id\": [1, 2], \"suppress_tokens\": [3], "
               "\"stop_strings\": [\"x\"], \"typical_p\": 1, \"unknown\": 1, \"more\": 2}");
    fail_in_turn(use, "a generation configuration");
}
