/* Which tokens br_generate() may choose: the same as transformers' warpers, and an error if there
 * is none. */
#include "tests/pretrained/nucleus_values.h"
#include "tests/support.h"

#include <brasa/pretrained/generate.h>

TestSuite(generate_choice, .init = check_begin, .fini = check_end);

/* A model with the same logits [V] for each row. */
static br_tensor *same_logits(void *model, br_tensor *ids, br_tensor *mask, br_cache *cache)
{
    (void)mask;
    (void)cache;
    return br_repeat(br_unsqueeze(model, 0), BR_DIMS(br_size(ids, 0), 1));
}

static br_tensor *generate(br_tensor *logits, int64_t rows, const br_generate_options *options)
{
    br_language_model lm = { .model = logits, .next = same_logits, .no_cache = true };
    return br_generate(&lm, br_zeros(BR_SHAPE(rows, 1), BR_I64), options);
}

/* Samples so often that each of at most 8 tokens that may be chosen is. */
static unsigned sampled(const struct nucleus_case *c)
{
    enum { ROWS = 3000 };
    br_tensor *ids = generate(br_from_f32(BR_SHAPE(c->n), c->logits), ROWS,
                              BR_OPTIONS(br_generate, .max_new_tokens = 1, .do_sample = true,
                                         .top_k = c->top_k, .top_p = c->top_p, .min_p = c->min_p));
    cr_assert(ids, "%s", br_error_message());
    unsigned kept = 0;
    for (int64_t i = 0; i < ROWS; i++)
        kept |= 1U << (int)br_at(ids, BR_DIMS(i, 1));
    return kept;
}

Test(generate_choice, keeps_the_tokens_that_transformers_keeps)
{
    br_manual_seed(3);
    for (size_t i = 0; i < sizeof nucleus_cases / sizeof *nucleus_cases; i++) {
        const struct nucleus_case *c = &nucleus_cases[i];
        br_scope *scope = br_scope_begin();
        unsigned got = sampled(c);
        cr_expect_eq(got, c->kept, "%s, top_k %d, top_p %g, min_p %g: %#x, expected %#x", c->name,
                     (int)c->top_k, c->top_p, c->min_p, got, c->kept);
        br_scope_end(scope);
    }
}

/* A token that is exactly min_p times as likely as the likeliest one is kept. */
Test(generate_choice, min_p_that_is_met_exactly)
{
    const struct nucleus_case equal = { .n = 3, .logits = { 2, 2, -3 }, .top_p = 1, .min_p = 1 };
    br_manual_seed(5);
    cr_assert_eq(sampled(&equal), 3);
}

/* Generates greedily from a prompt and returns the new token. */
static int64_t next_token(br_tensor *logits, int64_t n, const int64_t *prompt, int64_t ngram)
{
    br_language_model lm = { .model = logits, .next = same_logits, .no_cache = true };
    br_tensor *ids =
        br_generate(&lm, br_from_i64(BR_SHAPE(1, n), prompt),
                    BR_OPTIONS(br_generate, .max_new_tokens = 1, .no_repeat_ngram_size = ngram));
    cr_assert(ids, "%s", br_error_message());
    return (int64_t)br_at(ids, BR_DIMS(0, n));
}

/* Token 2 is the likeliest, then 1. */
Test(generate_choice, no_repeat_ngram_size_counts_tokens)
{
    br_scope *scope = br_scope_begin();
    br_tensor *logits = br_from_f32(BR_SHAPE(3), (float[]){ 1, 2, 3 });
    static const int64_t twos[] = { 2, 2, 2, 2 };
    for (int64_t n = 1; n <= 4; n++)
        for (int64_t ngram = 0; ngram <= 5; ngram++) /* n twos have an n-gram if n >= ngram */
            cr_expect_eq(next_token(logits, n, twos, ngram), ngram > 0 && n >= ngram ? 1 : 2,
                         "%d tokens, %d-grams", (int)n, (int)ngram);
    cr_assert_eq(next_token(logits, 4, (int64_t[]){ 0, 2, 1, 0 }, 2), 1); /* 0 2 would repeat */
    cr_assert_eq(next_token(logits, 4, (int64_t[]){ 0, 2, 1, 0 }, 3), 2);
    br_scope_end(scope);
}

/* With top_p this small, only the likeliest token of each row is left. */
Test(generate_choice, the_likeliest_token_always_stays)
{
    br_scope *scope = br_scope_begin();
    br_tensor *logits = br_from_f32(BR_SHAPE(3), (float[]){ 1, 1.0001F, 1 });
    br_tensor *ids = generate(
        logits, 4, BR_OPTIONS(br_generate, .max_new_tokens = 3, .do_sample = true, .top_p = 1e-9));
    cr_assert(ids, "%s", br_error_message());
    cr_assert_eq(br_item_i64(br_sum(br_narrow(ids, 1, 1, 3))), 12);
    br_scope_end(scope);
}

Test(generate_choice, no_token_is_an_error)
{
    static const int64_t all[] = { 0, 1, 2 }, two[] = { 0, 2 };
    br_scope *scope = br_scope_begin();
    br_tensor *logits = br_from_f32(BR_SHAPE(3), (float[]){ 1, 2, 3 });
    br_tensor *none = br_full(BR_SHAPE(3), -INFINITY, BR_F32);
    for (int sampling = 0; sampling < 2; sampling++) {
        br_generate_options o = *BR_OPTIONS(br_generate, .do_sample = sampling == 1,
                                            .n_suppress = 3, .suppress_tokens = all);
        check_fails(generate(logits, 2, &o), "generate: row 0: no token is left");
        check_fails(generate(none, 2, BR_OPTIONS(br_generate, .do_sample = sampling == 1)),
                    "no token is left, all logits are -inf");
        o.n_suppress = 2;
        o.suppress_tokens = two;
        o.n_eos = 1;
        o.eos_token_ids = &all[1];
        o.min_new_tokens = 2;
        check_fails(generate(logits, 2, &o), "no token is left");
        o.min_new_tokens = 0;
        cr_assert(generate(logits, 2, &o), "%s", br_error_message());
    }
    br_scope_end(scope);
}

Test(generate_choice, nan_is_an_error)
{
    static const int64_t second[] = { 1 };
    br_scope *scope = br_scope_begin();
    br_tensor *logits = br_from_f32(BR_SHAPE(3), (float[]){ 1, NAN, 3 });
    for (int sampling = 0; sampling < 2; sampling++) {
        br_generate_options o = *BR_OPTIONS(br_generate, .do_sample = sampling == 1);
        check_fails(generate(logits, 1, &o), "row 0 of the logits contains NaN");
        o.n_suppress = 1; /* a token that is excluded may have any logit */
        o.suppress_tokens = second;
        cr_assert(generate(logits, 1, &o), "%s", br_error_message());
    }
    br_scope_end(scope);
}

/* torch.multinomial() refuses probabilities that are NaN. */
Test(generate_choice, logits_that_overflow_are_an_error)
{
    br_scope *scope = br_scope_begin();
    br_tensor *logits = br_from_f32(BR_SHAPE(3), (float[]){ 1, 2, 3 });
    br_generate_options o = *BR_OPTIONS(br_generate, .do_sample = true, .temperature = 1e-39);
    check_fails(generate(logits, 1, &o), "a logit divided by temperature 1e-39 is inf");
    o.temperature = 1e-30;
    br_tensor *ids = generate(logits, 1, &o);
    cr_assert(ids, "%s", br_error_message());
    cr_assert_eq(br_at(ids, BR_DIMS(0, 1)), 2);
    logits = br_from_f32(BR_SHAPE(3), (float[]){ 1, INFINITY, 3 });
    o.temperature = 1;
    check_fails(generate(logits, 1, &o), "is inf, so the tokens have no probabilities");
    o.do_sample = false;
    ids = generate(logits, 1, &o);
    cr_assert(ids, "%s", br_error_message());
    cr_assert_eq(br_at(ids, BR_DIMS(0, 1)), 1);
    br_scope_end(scope);
}
