/* tests/tokenizers/test_gguf_tokenizer.c - tokenizers of GGUF files, compared with recorded results
 * of transformers (gguf_cases.json, written by record_gguf.py), and invalid files. */
#include "tests/pretrained/gguf_writer.h"

#include <brasa/tokenizers.h>
#include <jansson.h>

TestSuite(gguf_tokenizer, .init = files_begin, .fini = files_end);

/* ---- Writing --------------------------------------------------------------------------------- */

static json_t *recorded(void)
{
    json_error_t error;
    json_t *all = json_load_file(BRASA_TEST_DIR "/tokenizers/gguf_cases.json", 0, &error);
    cr_assert(all, "%s", error.text);
    return all;
}

static json_t *case_named(json_t *all, const char *name)
{
    size_t i;
    json_t *c;
    json_array_foreach(json_object_get(all, "cases"), i, c)
    {
        if (strcmp(json_string_value(json_object_get(c, "name")), name) == 0)
            return c;
    }
    cr_assert_fail("no case %s", name);
    return NULL;
}

static void write_strings(gguf_writer *w, const char *key, const json_t *list)
{
    size_t n = json_array_size(list);
    const char **texts = calloc(n + 1, sizeof *texts);
    for (size_t i = 0; i < n; i++)
        texts[i] = json_string_value(json_array_get(list, i));
    if (list)
        w_strings(w, key, n, texts);
    free(texts);
}

static void write_numbers(gguf_writer *w, const char *key, uint32_t type, const json_t *list)
{
    size_t n = json_array_size(list);
    float *floats = calloc(n + 1, sizeof *floats);
    int32_t *integers = calloc(n + 1, sizeof *integers);
    for (size_t i = 0; i < n; i++) {
        floats[i] = (float)json_number_value(json_array_get(list, i));
        integers[i] = (int32_t)floats[i];
    }
    if (list)
        w_numbers(w, key, type, n, type == W_FLOAT32 ? (void *)floats : (void *)integers);
    free(floats);
    free(integers);
}

/* Writes the metadata of a case. Keys that the writer has already replace those of the case. */
static const char *write_case(gguf_writer w, json_t *c)
{
    const char *key;
    json_t *value;
    w_string(&w, "general.architecture", json_string_value(json_object_get(c, "architecture")));
    w_string(&w, "tokenizer.ggml.model", json_string_value(json_object_get(c, "model")));
    if (json_object_get(c, "pre"))
        w_string(&w, "tokenizer.ggml.pre", json_string_value(json_object_get(c, "pre")));
    write_strings(&w, "tokenizer.ggml.tokens", json_object_get(c, "tokens"));
    write_strings(&w, "tokenizer.ggml.merges", json_object_get(c, "merges"));
    write_numbers(&w, "tokenizer.ggml.scores", W_FLOAT32, json_object_get(c, "scores"));
    write_numbers(&w, "tokenizer.ggml.token_type", W_INT32, json_object_get(c, "types"));
    json_object_foreach(c, key, value)
    {
        char name[100];
        snprintf(name, sizeof name, "tokenizer.ggml.%s", key);
        if (json_is_boolean(value))
            w_bool(&w, name, json_is_true(value));
        else if (json_is_integer(value))
            w_u32(&w, name, (uint32_t)json_integer_value(value));
    }
    w_end(&w, files_path("model.gguf"));
    return files_path("model.gguf");
}

/* ---- Recorded ids ---------------------------------------------------------------------------- */

static void check_ids(const char *name, const char *text, const json_t *want, int64_t n,
                      const int64_t *ids)
{
    bool same = json_array_size(want) == (size_t)n;
    for (int64_t i = 0; same && i < n; i++)
        same = json_integer_value(json_array_get(want, (size_t)i)) == ids[i];
    char *dumped = json_dumps(want, JSON_COMPACT);
    cr_assert(same, "%s: '%s' has %lld ids, must have %s", name, text, (long long)n, dumped);
    free(dumped);
}

/* Both ways of encoding and decoding give what was recorded. */
static void check_text(const char *name, const br_tokenizer *t, const json_t *text,
                       const json_t *want, const json_t *decoded)
{
    br_text x = { json_string_value(text), -1 };
    br_encoding *e = br_tokenizer_encode(t, &x, NULL, NULL);
    br_token_ids *alone = br_tokenizer_encode_ids(t, 1, &x, NULL, NULL);
    cr_assert(e && alone, "%s", br_error_message());
    check_ids(name, x.data, want, e->length, e->ids);
    check_ids(name, x.data, want, alone->starts[1], alone->ids);
    char *back = br_tokenizer_decode(t, e->length, e->ids, true);
    cr_assert_str_eq(back, json_string_value(decoded), "%s: '%s' is '%s'", name, x.data, back);
    br_free(back);
    br_token_ids_free(alone);
    br_encoding_free(e);
}

Test(gguf_tokenizer, equals_transformers)
{
    json_t *all = recorded(), *texts = json_object_get(all, "texts"), *c, *text;
    size_t i, k;
    json_array_foreach(json_object_get(all, "cases"), i, c)
    {
        const char *name = json_string_value(json_object_get(c, "name"));
        br_tokenizer *t = br_auto_tokenizer_load(write_case((gguf_writer){ 0 }, c), NULL);
        cr_assert(t, "%s: %s", name, br_error_message());
        cr_assert_eq((size_t)br_tokenizer_size(t), json_array_size(json_object_get(c, "tokens")));
        json_array_foreach(texts, k, text)
        {
            check_text(name, t, text, json_array_get(json_object_get(c, "ids"), k),
                       json_array_get(json_object_get(c, "decoded"), k));
        }
        br_tokenizer_free(t);
    }
    json_decref(all);
}

/* ---- Special tokens -------------------------------------------------------------------------- */

/* Returns the ids of "a" as text, loaded with these options. */
static const char *ids_of_a(gguf_writer w, json_t *c, br_setting bos, br_setting eos)
{
    static char out[100];
    br_text a = { "a", 1 };
    br_auto_tokenizer_options o =
        *BR_OPTIONS(br_auto_tokenizer, .add_bos_token = bos, .add_eos_token = eos);
    br_tokenizer *t = br_auto_tokenizer_load(write_case(w, c), &o);
    cr_assert(t, "%s", br_error_message());
    br_token_ids *ids = br_tokenizer_encode_ids(t, 1, &a, &a, NULL);
    size_t n = 0;
    for (int64_t i = 0; i < ids->starts[1]; i++)
        n += (size_t)snprintf(out + n, sizeof out - n, i ? " %d" : "%d", (int)ids->ids[i]);
    br_token_ids_free(ids);
    br_tokenizer_free(t);
    return out;
}

Test(gguf_tokenizer, special_tokens)
{
    json_t *all = recorded(), *gemma = case_named(all, "gemma"), *bytes = case_named(all, "gpt-2");
    const gguf_writer as_is = { 0 };
    cr_assert_str_eq(ids_of_a(as_is, gemma, BR_SETTING_AUTO, BR_SETTING_AUTO), "2 379 2 379");
    cr_assert_str_eq(ids_of_a(as_is, gemma, BR_SETTING_OFF, BR_SETTING_AUTO), "379 379");
    cr_assert_str_eq(ids_of_a(as_is, gemma, BR_SETTING_AUTO, BR_SETTING_ON), "2 379 1 2 379 1");
    /* Without the key, a vocabulary of SentencePiece and that of Llama 3 begin with <s>. */
    gguf_writer w = { .without = "tokenizer.ggml.add_bos_token" };
    cr_assert_str_eq(ids_of_a(w, gemma, BR_SETTING_AUTO, BR_SETTING_AUTO), "2 379 2 379");
    cr_assert_str_eq(ids_of_a(w, case_named(all, "llama 3"), BR_SETTING_AUTO, BR_SETTING_AUTO),
                     "327 64 327 64");
    cr_assert_str_eq(ids_of_a(as_is, bytes, BR_SETTING_AUTO, BR_SETTING_AUTO), "64 64");
    br_tokenizer *t = br_auto_tokenizer_load(write_case(as_is, gemma), NULL);
    static const struct {
        br_special_token role;
        int64_t id;
    } roles[] = { { BR_TOKEN_PAD, 0 },
                  { BR_TOKEN_EOS, 1 },
                  { BR_TOKEN_BOS, 2 },
                  { BR_TOKEN_UNK, 3 },
                  { BR_TOKEN_SEP, -1 } };
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        cr_assert_eq(br_tokenizer_special_id(t, roles[i].role), roles[i].id, "%zu", i);
    br_tokenizer_free(t);
    json_decref(all);
}

/* Without a padding token, rows are padded with the token that ends a text. */
Test(gguf_tokenizer, pads_with_the_end)
{
    json_t *all = recorded();
    const br_text texts[] = { { "a a a a", -1 }, { "a", -1 } };
    for (int without = 0; without < 2; without++) {
        br_scope *scope = br_scope_begin();
        gguf_writer w = { .without = without ? "tokenizer.ggml.padding_token_id" : NULL };
        br_tokenizer *t = br_auto_tokenizer_load(write_case(w, case_named(all, "gemma")), NULL);
        br_token_batch batch;
        cr_assert(t && br_tokenizer_encode_batch(t, 2, texts, NULL, NULL, &batch), "%s",
                  br_error_message());
        cr_assert_eq(br_at(batch.ids, BR_DIMS(1, -1)), without ? 1 : 0);
        cr_assert_eq(br_at(batch.attention_mask, BR_DIMS(1, -1)), 0);
        br_tokenizer_free(t);
        br_scope_end(scope);
    }
    json_decref(all);
}

/* A Llama tokenizer with more tokens, a text, and the last two tokens of it. */
typedef struct merged {
    const char *tokens[6];
    double scores[6];
    const char *text, *last[2];
} merged;

static void check_merged(const merged *m)
{
    json_t *all = recorded(), *c = json_deep_copy(case_named(all, "llama"));
    for (int i = 0; i < 6; i++) {
        json_array_append_new(json_object_get(c, "tokens"), json_string(m->tokens[i]));
        json_array_append_new(json_object_get(c, "scores"), json_real(m->scores[i]));
        json_array_append_new(json_object_get(c, "types"), json_integer(1));
    }
    br_tokenizer *t = br_auto_tokenizer_load(write_case((gguf_writer){ 0 }, c), NULL);
    cr_assert(t, "%s", br_error_message());
    br_token_ids *ids = br_tokenizer_encode_ids(t, 1, &(br_text){ m->text, -1 }, NULL, NULL);
    const int64_t n = ids->starts[1];
    for (int i = 0; i < 2; i++)
        cr_assert_str_eq(br_tokenizer_token(t, ids->ids[n - 2 + i]), m->last[i]);
    br_token_ids_free(ids);
    br_tokenizer_free(t);
    json_decref(c);
    json_decref(all);
}

/* Of merges with equal scores, the one with the longer left part comes first, then the longer right
 * part, and then the order of the vocabulary decides. */
Test(gguf_tokenizer, merges_of_equal_scores)
{
#define A "\xd0\x96"
#define B "\xd0\xa8"
#define C "\xd0\xa9"
    static const merged rows[] = {
        { { A, B, C, A B, B C, "x" A }, { -9, -9, -9, -1, -1, -9 }, A B C, { A B, C } },
        { { A, B, C, B C, A B, "x" A }, { -9, -9, -9, -1, -1, -9 }, A B C, { A, B C } },
        { { A, B, C, A B, C A, A B C }, { -9, -9, -9, -1, -2, -2 }, A B C A, { A B C, A } },
        { { A, B, C, B C, C A, A B C }, { -9, -9, -9, -1, -2, -2 }, C A B C, { C, A B C } },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_merged(&rows[i]);
}

/* A user-defined token that no bytes spell is matched whole, and a control token is not. */
Test(gguf_tokenizer, raw_tokens_of_bytes)
{
    static const char *const tokens[] = { "a", "b", "a b", "b a", "\xc4\xa0" };
    static const int32_t types[] = { 1, 1, 4, 3, 1 };
    static const int64_t plain[] = { 2, 1, 4, 0 };
    gguf_writer w = { 0 };
    w_string(&w, "tokenizer.ggml.model", "gpt2");
    w_strings(&w, "tokenizer.ggml.tokens", 5, tokens);
    w_strings(&w, "tokenizer.ggml.merges", 0, NULL);
    w_numbers(&w, "tokenizer.ggml.token_type", W_INT32, 5, types);
    w_end(&w, files_path("model.gguf"));
    br_tokenizer *t = br_auto_tokenizer_load(files_path("model.gguf"), NULL);
    cr_assert(t, "%s", br_error_message());
    br_token_ids *ids = br_tokenizer_encode_ids(t, 1, &(br_text){ "a bb a", -1 }, NULL, NULL);
    cr_assert(ids, "%s", br_error_message());
    cr_assert_eq(ids->starts[1], 4);
    cr_assert(memcmp(ids->ids, plain, sizeof plain) == 0);
    br_token_ids_free(ids);
    br_tokenizer_free(t);
}

/* ---- What is refused ------------------------------------------------------------------------- */

static void check_refused(gguf_writer w, json_t *c, const char *message)
{
    check_fails(br_auto_tokenizer_load(write_case(w, c), NULL), message);
}

/* Replaces a key of a copy of the case. */
static void check_changed(json_t *c, const char *key, json_t *value, const char *message)
{
    json_t *copy = json_copy(c);
    cr_assert_eq(json_object_set_new(copy, key, value), 0);
    check_refused((gguf_writer){ 0 }, copy, message);
    json_decref(copy);
}

Test(gguf_tokenizer, refuses_metadata)
{
    json_t *all = recorded(), *gemma = case_named(all, "gemma"), *bytes = case_named(all, "qwen");
    check_changed(gemma, "model", json_string("bert"),
                  "tokenizer.ggml.model is \"bert\", must be \"llama\" or \"gpt2\"");
    check_changed(bytes, "pre", json_string("tekken"),
                  "tokenizer.ggml.pre is \"tekken\", must be one of \"default\", \"gpt-2\"");
    check_changed(bytes, "types", json_pack("[i, i]", 1, 1),
                  "tokenizer.ggml.token_type has 2 elements, must have 331, one for each of "
                  "tokenizer.ggml.tokens");
    check_changed(gemma, "scores", json_pack("[f]", 1.0),
                  "tokenizer.ggml.scores has 1 elements, must have 403");
    check_changed(bytes, "merges", json_pack("[s, s]", "h e", "qqq h"),
                  "tokenizer.ggml.merges[1] merges a left token that is not in the vocabulary");
    check_changed(bytes, "merges", json_pack("[s]", "th"),
                  "tokenizer.ggml.merges[0] is not two tokens separated by a space");
    check_changed(gemma, "eos_token_id", json_integer(403),
                  "tokenizer.ggml.eos_token_id is 403, must be the id of one of 403 tokens");
    check_changed(gemma, "eos_token_id", json_true(),
                  "metadata \"tokenizer.ggml.eos_token_id\" is of type bool");
    check_refused((gguf_writer){ .without = "tokenizer.ggml.model" }, gemma,
                  "has no metadata \"tokenizer.ggml.model\"");
    check_refused((gguf_writer){ .without = "tokenizer.ggml.tokens" }, gemma,
                  "has no metadata \"tokenizer.ggml.tokens\"");
    check_refused((gguf_writer){ .wrong = "tokenizer.ggml.tokens" }, gemma,
                  "tokenizer.ggml.tokens is an array of float32, must be an array of strings");
    check_refused((gguf_writer){ .without = "tokenizer.ggml.merges" }, bytes,
                  "has no metadata \"tokenizer.ggml.merges\"");
    check_refused((gguf_writer){ .without = "tokenizer.ggml.scores" }, case_named(all, "llama"),
                  "there is no tokenizer.ggml.scores and no tokenizer.ggml.merges");
    json_decref(all);
}

Test(gguf_tokenizer, refuses_tokens)
{
    json_t *all = recorded(), *llama = case_named(all, "llama");
    char *longest = calloc(1, 5001);
    memset(longest, 'e', 5000);
    json_t *copy = json_deep_copy(llama), *tokens = json_object_get(copy, "tokens");
    json_array_set_new(tokens, 300, json_string(longest));
    check_refused((gguf_writer){ 0 }, copy, "token 300 has 5000 bytes, must have at most 4096");
    json_array_set_new(tokens, 300, json_string("ok"));
    json_array_set_new(tokens, 5 + 0xe4, json_string("no byte"));
    check_refused((gguf_writer){ 0 }, copy, "tokenizer.ggml.tokens has no token <0xE4>");
    json_decref(copy);
    free(longest);
    copy = json_deep_copy(llama);
    json_object_del(copy, "scores");
    gguf_writer w = { 0 };
    float scores[396] = { 0 };
    scores[7] = NAN;
    w_numbers(&w, "tokenizer.ggml.scores", W_FLOAT32, 396, scores);
    check_refused(w, copy, "tokenizer.ggml.scores[7] is NaN");
    json_decref(copy);
    json_decref(all);
}

Test(gguf_tokenizer, refuses_options)
{
    json_t *all = recorded();
    const char *path = write_case((gguf_writer){ 0 }, case_named(all, "gemma"));
    check_fails(br_auto_tokenizer_load(path, BR_OPTIONS(br_auto_tokenizer, .extra_ids = 3)),
                "option extra_ids does not apply to a GGUF file");
    check_fails(br_auto_tokenizer_load(
                    path, BR_OPTIONS(br_auto_tokenizer, .add_prefix_space = BR_SETTING_ON)),
                "option add_prefix_space does not apply");
    path = write_case((gguf_writer){ 0 }, case_named(all, "gpt-2"));
    json_t *bare = json_copy(case_named(all, "gpt-2"));
    json_object_del(bare, "bos_token_id");
    path = write_case((gguf_writer){ 0 }, bare);
    check_fails(
        br_auto_tokenizer_load(path, BR_OPTIONS(br_auto_tokenizer, .add_bos_token = BR_SETTING_ON)),
        "or the option is true, but the file does not state the id of the token");
    json_decref(bare);
    json_decref(all);
}
