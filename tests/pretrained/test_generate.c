/* br_generate() and its cache: the same tokens as transformers, with and without the cache; custom
 * models; invalid arguments. */
#include "tests/memory.h"
#include "tests/models/recorded.h"

TestSuite(generate, .init = check_begin, .fini = check_end);

#define GPT2 BRASA_TEST_DIR "/models/gpt2"

/* With the cache, keys are computed by matrix products of other sizes, so rounding differs. */
static const double TOLERANCE = 4e-6;

static br_tensor *recorded(const char *name)
{
    return recorded_in(GPT2 "/expected.safetensors", name);
}

/* ---- Tokens ---------------------------------------------------------------------------------- */

enum { EOS = 17 };
static const int64_t eos[] = { EOS }, late[] = { 23, 9 }, frequent[] = { 0, 9, 39 };

enum { WAYS = 12 };

/* Returns the options of a recorded run. */
static br_generate_options way(int i, const char **name)
{
    const struct {
        const char *name;
        const br_generate_options *options;
    } ways[WAYS] = {
        { "greedy", BR_OPTIONS(br_generate, .n_eos = 1, .eos_token_ids = eos) },
        { "penalized", BR_OPTIONS(br_generate, .repetition_penalty = 1.7) },
        { "late", BR_OPTIONS(br_generate, .min_new_tokens = 4, .n_eos = 2, .eos_token_ids = late) },
        { "sampled", BR_OPTIONS(br_generate, .do_sample = true, .n_eos = 1, .eos_token_ids = eos) },
        { "warm", BR_OPTIONS(br_generate, .do_sample = true, .temperature = 2.5, .n_eos = 1,
                             .eos_token_ids = eos) },
        { "top_k", BR_OPTIONS(br_generate, .do_sample = true, .top_k = 3, .temperature = 1.5,
                              .n_eos = 1, .eos_token_ids = eos) },
        { "top_p", BR_OPTIONS(br_generate, .do_sample = true, .top_p = 0.6, .n_eos = 1,
                              .eos_token_ids = eos) },
        { "all",
          BR_OPTIONS(br_generate, .do_sample = true, .top_k = 6, .top_p = 0.8, .temperature = 3,
                     .repetition_penalty = 1.3, .n_eos = 1, .eos_token_ids = eos) },
        { "pairs",
          BR_OPTIONS(br_generate, .no_repeat_ngram_size = 2, .n_eos = 1, .eos_token_ids = eos) },
        { "triples", BR_OPTIONS(br_generate, .no_repeat_ngram_size = 3) },
        { "min_p", BR_OPTIONS(br_generate, .do_sample = true, .min_p = 0.3, .temperature = 2,
                              .n_eos = 1, .eos_token_ids = eos) },
        { "suppressed", BR_OPTIONS(br_generate, .n_suppress = 3, .suppress_tokens = frequent,
                                   .n_eos = 1, .eos_token_ids = eos) },
    };
    *name = ways[i].name;
    return *ways[i].options;
}

static br_tensor *generate(const br_language_model *lm, int i, const char **name)
{
    br_generate_options o = way(i, name);
    o.max_new_tokens = 12;
    o.pad_token_id = 0;
    o.attention_mask = recorded("left_mask");
    br_manual_seed(7);
    return br_generate(lm, recorded("left_ids"), &o);
}

Test(generate, tokens_equal_transformers)
{
    br_scope *scope = br_scope_begin();
    br_gpt2_lm *model = load_recorded(GPT2 "/lm", NULL);
    br_language_model lm = br_gpt2_language_model(model);
    const char *name;
    for (int i = 0; i < WAYS; i++) {
        br_tensor *ids = generate(&lm, i, &name);
        cr_assert(ids, "%s", br_error_message());
        cr_assert(br_equal(ids, recorded(name)), "%s", name);
    }
    br_module_free(model);
    br_scope_end(scope);
}

/* The same model without a cache: it computes all tokens each time. */
static br_tensor *whole(void *model, br_tensor *ids, br_tensor *mask, br_cache *cache)
{
    cr_assert_null(cache);
    return br_gpt2_language_model(model).next(model, ids, mask, NULL);
}

Test(generate, a_model_without_a_cache)
{
    br_scope *scope = br_scope_begin();
    br_gpt2_lm *model = load_recorded(GPT2 "/lm", NULL);
    br_language_model lm = { .model = model, .next = whole, .no_cache = true };
    const char *name;
    for (int i = 0; i < WAYS; i++) {
        br_tensor *ids = generate(&lm, i, &name);
        cr_assert(br_equal(ids, recorded(name)), "%s", name);
    }
    br_module_free(model);
    br_scope_end(scope);
}

static bool count_to_three(void *context, br_tensor *tokens)
{
    cr_assert(br_size(tokens, 0) == 3 && br_size(tokens, 1) == 1);
    return ++*(int *)context < 3;
}

Test(generate, limits)
{
    br_scope *scope = br_scope_begin();
    br_gpt2_lm *model = load_recorded(GPT2 "/lm", NULL);
    br_language_model lm = br_gpt2_language_model(model);
    br_tensor *ids = recorded("left_ids");
    br_generate_options o = *BR_OPTIONS(br_generate, .max_new_tokens = 1000);
    cr_assert_eq(lm.max_length, 24);
    cr_assert_eq(br_size(br_generate(&lm, ids, &o), 1), 24);
    int count = 0;
    o.on_tokens = count_to_three;
    o.context = &count;
    cr_assert_eq(br_size(br_generate(&lm, ids, &o), 1), 12);
    lm.max_length = 9;
    check_fails(br_generate(&lm, ids, NULL), "leave no room for new tokens");
    lm.max_length = 0;
    check_fails(br_generate(&lm, ids, NULL), "exceed the model's 24 positions");
    br_module_free(model);
    br_scope_end(scope);
}

/* ---- The cache ------------------------------------------------------------------------------- */

/* Compares the logits computed in parts, with a cache of the parts before, with those of all
 * tokens. */
Test(generate, cached_equals_uncached)
{
    br_scope *scope = br_no_grad_begin();
    br_gpt2_lm *model = load_recorded(GPT2 "/lm", NULL);
    br_tensor *ids = recorded("input_ids");
    br_tensor *all = br_gpt2_lm_forward(model, ids, NULL);
    static const int64_t cuts[][4] = { { 0, 4, 9, 9 }, { 0, 1, 2, 9 }, { 0, 8, 9, 9 } };
    for (int open = 0; open < 2; open++)
        for (int c = 0; c < 3; c++) {
            br_recorder *recorder = open ? br_recorder_begin() : NULL;
            br_cache *cache = br_cache_new();
            br_gpt2_options o = *BR_OPTIONS(br_gpt2, .cache = cache);
            for (int i = 0; i < 3 && cuts[c][i] < 9; i++) {
                br_tensor *part = br_slice(ids, 1, cuts[c][i], cuts[c][i + 1], 1);
                br_tensor *want = br_slice(all, 1, cuts[c][i], cuts[c][i + 1], 1);
                cr_assert(difference(br_gpt2_lm_forward(model, part, &o), want) <= TOLERANCE);
                cr_assert_eq(br_cache_length(cache), cuts[c][i + 1]);
            }
            br_cache_free(cache);
            br_recorder_end(recorder);
        }
    br_module_free(model);
    br_scope_end(scope);
}

Test(generate, cache_keeps_and_forgets)
{
    br_scope *scope = br_scope_begin();
    br_cache *cache = br_cache_new();
    br_tensor *all = br_randn(BR_SHAPE(2, 3, 200, 4), BR_F32);
    cr_assert_eq(br_cache_length(cache), 0);
    static const int64_t sizes[] = { 1, 2, 60, 1, 1, 99, 36 };
    int64_t at = 0;
    for (int i = 0; i < 7; at += sizes[i++]) {
        int64_t n = sizes[i];
        br_tensor *k = br_narrow(all, 2, at, n), *v = br_neg(k), *sum;
        cr_assert(br_cache_append(cache, 0, &k, &v), "%s", br_error_message());
        cr_assert(br_equal(k, br_narrow(all, 2, 0, at + n)));
        sum = br_add(k, v);
        cr_assert_eq(br_item(br_max(br_abs(sum))), 0);
    }
    br_tensor *k, *v;
    cr_assert_eq(br_cache_length(cache), 200);
    cr_assert(!br_cache_get(cache, 1, &k, &v) && !br_failed());
    cr_assert(br_cache_crop(cache, 1, 7));
    cr_assert(br_cache_get(cache, 0, &k, &v));
    cr_assert(br_equal(k, br_narrow(all, 2, 0, 7)));
    br_cache_free(cache);
    br_scope_end(scope);
}

/* A T5 keeps its cross-attention under the numbers after its decoder's: these are not cropped. */
Test(generate, cropping_spares_the_numbers_from_n_on)
{
    br_scope *scope = br_scope_begin();
    br_cache *cache = br_cache_new();
    br_tensor *k, *v;
    for (int64_t number = 0; number < 4; number++) {
        k = v = br_full(BR_SHAPE(1, 1, 5, 2), (double)number, BR_F32);
        cr_assert(br_cache_append(cache, number, &k, &v));
    }
    cr_assert(br_cache_crop(cache, 2, 3));
    for (int64_t number = 0; number < 4; number++) {
        cr_assert(br_cache_get(cache, number, &k, &v));
        cr_assert_eq(br_size(k, 2), number < 2 ? 3 : 5);
        cr_assert_eq(br_size(v, 2), number < 2 ? 3 : 5);
    }
    br_cache_free(cache);
    br_scope_end(scope);
}

Test(generate, cache_refuses)
{
    br_scope *scope = br_scope_begin();
    br_cache *cache = br_cache_new();
    br_tensor *k = br_zeros(BR_SHAPE(1, 2, 3, 4), BR_F32), *v = k, *other, *wide;
    cr_assert(br_cache_append(cache, 0, &k, &v));
    other = br_zeros(BR_SHAPE(1, 2, 3), BR_F32);
    check_fails(br_cache_append(cache, 0, &other, &v), "[1, 2, 3]");
    other = br_zeros(BR_SHAPE(1, 2, 5, 4), BR_F32);
    check_fails(br_cache_append(cache, 0, &k, &other), "with equal n");
    other = wide = br_zeros(BR_SHAPE(1, 2, 1, 5), BR_F32);
    check_fails(br_cache_append(cache, 0, &other, &wide), "does not match");
    check_fails(br_cache_append(cache, -1, &k, &v), "number is -1");
    check_fails(br_cache_append(NULL, 0, &k, &v), "cache is NULL");
    check_fails(br_cache_crop(cache, 1, -1), "length is -1");
    br_set_requires_grad(other, true);
    k = v = br_zeros_like(other);
    check_fails(br_cache_append(cache, 1, &other, &v), "require grad");
    check_fails(br_cache_append(cache, 1, &k, &other), "require grad");
    br_cache_free(cache);
    br_scope_end(scope);
}

/* ---- Invalid arguments ----------------------------------------------------------------------- */

static br_tensor *no_logits(void *model, br_tensor *ids, br_tensor *mask, br_cache *cache)
{
    (void)ids;
    (void)mask;
    (void)cache;
    return model;
}

/* Returns the same logits of 5 tokens at every step. */
static br_tensor *same_logits(void *model, br_tensor *ids, br_tensor *mask, br_cache *cache)
{
    (void)mask;
    (void)cache;
    return br_repeat(br_unsqueeze(model, 0), BR_DIMS(br_size(ids, 0), 1));
}

/* The penalty divides positive logits and multiplies negative ones, so a token that occurred before
 * becomes less likely in both cases. It is applied only once. */
Test(generate, repetition_penalty_of_signs)
{
    static const struct {
        float logits[5];
        int64_t ids[6]; /* the prompt, and five generated ids */
    } cases[] = {
        { { -1, -1.5F, -1.75F, -2.5F, -9 }, { 0, 1, 2, 0, 0, 0 } },
        { { 4, 3, 1.5F, 1, -9 }, { 0, 1, 0, 0, 0, 0 } },
        { { 1, -0.5F, 0.25F, -0.75F, -9 }, { 0, 0, 0, 0, 0, 0 } },
        { { -9, -0.5F, -0.75F, -0.25F, -2 }, { 3, 1, 3, 3, 3, 3 } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        br_scope *scope = br_scope_begin();
        br_language_model lm = { .model = br_from_f32(BR_SHAPE(5), cases[i].logits),
                                 .next = same_logits,
                                 .no_cache = true };
        br_tensor *made =
            br_generate(&lm, br_from_i64(BR_SHAPE(1, 1), cases[i].ids),
                        BR_OPTIONS(br_generate, .max_new_tokens = 5, .repetition_penalty = 2));
        cr_assert(made, "%s", br_error_message());
        for (int64_t k = 0; k < 6; k++)
            cr_assert_eq(br_at(made, BR_DIMS(0, k)), cases[i].ids[k], "case %zu: token %lld is %g",
                         i, (long long)k, br_at(made, BR_DIMS(0, k)));
        br_scope_end(scope);
    }
}

Test(generate, bad_calls)
{
    br_scope *scope = br_scope_begin();
    br_language_model lm = { .next = no_logits };
    br_tensor *ids = br_zeros(BR_SHAPE(2, 3), BR_I64);
    check_fails(br_generate(NULL, ids, NULL), "lm and lm->next are required");
    check_fails(br_generate(&(br_language_model){ 0 }, ids, NULL), "lm and lm->next are required");
    check_fails(br_generate(&lm, NULL, NULL), "input_ids");
    check_fails(br_generate(&lm, br_zeros(BR_SHAPE(2, 0), BR_I64), NULL), "[2, 0]");
    check_fails(br_generate(&lm, br_zeros(BR_SHAPE(2, 3), BR_F32), NULL), "must be i64");
    check_fails(br_generate(&lm, ids, NULL), "logits");
    lm.model = br_zeros(BR_SHAPE(3, 4), BR_F32);
    check_fails(br_generate(&lm, ids, NULL), "[3, 4] must be floats of shape [2, V]");
    const br_generate_options *const bad[] = {
        BR_OPTIONS(br_generate, .max_new_tokens = -1),
        BR_OPTIONS(br_generate, .min_new_tokens = -1),
        BR_OPTIONS(br_generate, .top_k = -1),
        BR_OPTIONS(br_generate, .temperature = -1),
        BR_OPTIONS(br_generate, .temperature = (double)NAN),
        BR_OPTIONS(br_generate, .top_p = 1.5),
        BR_OPTIONS(br_generate, .repetition_penalty = -1),
        BR_OPTIONS(br_generate, .n_eos = 1),
        BR_OPTIONS(br_generate, .max_new_tokens = INT64_MAX),
        BR_OPTIONS(br_generate, .temperature = 0),
        BR_OPTIONS(br_generate, .top_p = 0),
        BR_OPTIONS(br_generate, .repetition_penalty = 0),
        BR_OPTIONS(br_generate, .no_repeat_ngram_size = -1),
        BR_OPTIONS(br_generate, .min_p = -0.1),
        BR_OPTIONS(br_generate, .min_p = 1.1),
        BR_OPTIONS(br_generate, .n_suppress = 1),
        BR_OPTIONS(br_generate, .n_suppress = -1),
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        check_fails(br_generate(&lm, ids, bad[i]), "generate: ");
    br_generate_options o =
        *BR_OPTIONS(br_generate, .attention_mask = br_zeros(BR_SHAPE(2, 4), BR_I64));
    check_fails(br_generate(&lm, ids, &o), "attention_mask [2, 4]");
    o = *BR_OPTIONS(br_generate, .max_new_tokens = 2, .min_new_tokens = 1, .top_k = -3);
    check_fails(br_generate(&lm, ids, &o),
                "max_new_tokens 2, min_new_tokens 1, top_k -3 and no_repeat_ngram_size 0 must "
                "be at least 0");
    br_scope_end(scope);
}

static bool generate_some(void)
{
    br_scope *scope = br_scope_begin();
    br_manual_seed(1);
    br_gpt2_config c = { .vocab_size = 9,
                         .n_positions = 6,
                         .n_embd = 4,
                         .n_layer = 1,
                         .n_head = 2,
                         .layer_norm_epsilon = 1e-5,
                         .activation_function = "relu" };
    br_gpt2_lm *model = br_gpt2_lm_new(&c);
    br_language_model lm = br_gpt2_language_model(model);
    br_generate_options o =
        *BR_OPTIONS(br_generate, .max_new_tokens = 3, .do_sample = true, .top_k = 4, .top_p = 0.9,
                    .min_p = 0.01, .repetition_penalty = 2, .no_repeat_ngram_size = 2,
                    .n_suppress = 1, .suppress_tokens = eos, .n_eos = 1, .eos_token_ids = eos);
    br_tensor *ids = br_from_i64(BR_SHAPE(1, 2), (int64_t[]){ 1, 4 });
    bool ok = br_generate(&lm, ids, &o) != NULL;
    br_module_free(model);
    br_scope_end(scope);
    return ok;
}

Test(generate, memory_runs_out_everywhere)
{
    fail_in_turn(generate_some, "generate");
}
