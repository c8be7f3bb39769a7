/* tests/pretrained/test_beam_search.c - br_generate() with beams: the best of all sequences, with
 * and without a cache, in batches, and for encoder-decoders. generation_cases.tsv has the texts of
 * transformers. */
#include "tests/memory.h"
#include "tests/models/recorded.h"

#include <inttypes.h>

TestSuite(beam_search, .init = check_begin, .fini = check_end);

#define GPT2 BRASA_TEST_DIR "/models/gpt2"

/* ---- The best of all sequences --------------------------------------------------------------- */

/* A model whose next token depends on the last one. The likeliest first token leads to unlikely
 * ones. Token 0 ends a sequence. */
enum { VOCAB = 4, NEW = 3, END = 0 };
static const float table[VOCAB][VOCAB] = { { 0, 0, 0, 0 },
                                           { -1.5F, 1.0F, 1.1F, 1.05F },
                                           { 0.3F, 0.2F, -0.1F, 2.5F },
                                           { 1.7F, -2.0F, 0.4F, -1.0F } };

static br_tensor *next_of_table(void *model, br_tensor *ids, br_tensor *mask, br_cache *cache)
{
    (void)mask, (void)cache;
    return br_index_select(model, 0, br_select(ids, 1, -1));
}

typedef struct sequence {
    int64_t ids[NEW + 1];
    int64_t n; /* new tokens */
    double score;
} sequence;

static double log_probability(int64_t last, int64_t next)
{
    double sum = 0;
    for (int i = 0; i < VOCAB; i++)
        sum += exp((double)table[last][i]);
    return (double)table[last][next] - log(sum);
}

/* Finds the best sequence that begins like `s`, by trying all. */
static void try_all(sequence s, double sum, double length_penalty, sequence *best)
{
    if (s.n == NEW || (s.n > 0 && s.ids[s.n] == END)) {
        s.score = sum / pow((double)s.n, length_penalty);
        if (s.score > best->score)
            *best = s;
        return;
    }
    for (int64_t next = 0; next < VOCAB; next++) {
        sequence longer = s;
        longer.ids[++longer.n] = next;
        try_all(longer, sum + log_probability(s.ids[s.n], next), length_penalty, best);
    }
}

Test(beam_search, finds_the_best_of_all_sequences)
{
    static const double penalties[] = { -2, 0, 0.7, 1, 2, 5 };
    static const int64_t eos[] = { END };
    br_scope *scope = br_scope_begin();
    br_language_model lm = { .model = br_from_f32(BR_SHAPE(VOCAB, VOCAB), &table[0][0]),
                             .next = next_of_table,
                             .no_cache = true };
    int64_t differing = 0;
    for (int i = 0; i < 6; i++)
        for (int64_t first = 1; first < VOCAB; first++) {
            sequence best = { .score = -INFINITY };
            try_all((sequence){ .ids = { first } }, 0, penalties[i], &best);
            br_generate_options o =
                *BR_OPTIONS(br_generate, .max_new_tokens = NEW, .num_beams = 16, .n_eos = 1,
                            .eos_token_ids = eos, .length_penalty = penalties[i],
                            .early_stopping = BR_EARLY_STOPPING_NEVER);
            br_tensor *start = br_from_i64(BR_SHAPE(1, 1), &first);
            br_tensor *ids = br_generate(&lm, start, &o);
            check_ok();
            cr_assert(br_equal(ids, br_from_i64(BR_SHAPE(1, best.n + 1), best.ids)),
                      "penalty %g, first %" PRId64, penalties[i], first);
            o.num_beams = 1;
            br_tensor *greedy = br_generate(&lm, start, &o);
            differing += !br_same_shape(greedy, ids) || !br_equal(greedy, ids);
        }
    cr_assert_geq(differing, 5, "%" PRId64, differing); /* more than greedy decoding is tested */
    br_scope_end(scope);
}

/* ---- Caches, batches, encoders --------------------------------------------------------------- */

static br_tensor *whole(void *model, br_tensor *ids, br_tensor *mask, br_cache *cache)
{
    cr_assert_null(cache);
    return br_gpt2_language_model(model).next(model, ids, mask, NULL);
}

static br_generate_options beams(int64_t n)
{
    static const int64_t eos[] = { 17, 9, 0 };
    return *BR_OPTIONS(br_generate, .max_new_tokens = 9, .num_beams = n,
                       .num_return_sequences = n < 3 ? 1 : 2, .n_eos = 3, .eos_token_ids = eos,
                       .repetition_penalty = 1.2);
}

Test(beam_search, with_a_cache_and_without)
{
    br_scope *scope = br_scope_begin();
    br_gpt2_lm *model = load_recorded(GPT2 "/lm", NULL);
    br_language_model lm = br_gpt2_language_model(model);
    br_language_model slow = { .model = model, .next = whole, .no_cache = true };
    for (int64_t n = 2; n < 6; n++) {
        br_generate_options o = beams(n);
        o.attention_mask = recorded_in(GPT2 "/expected.safetensors", "left_mask");
        br_tensor *given = recorded_in(GPT2 "/expected.safetensors", "left_ids");
        br_tensor *ids = br_generate(&lm, given, &o);
        check_ok();
        cr_assert_eq(br_size(ids, 0), br_size(given, 0) * o.num_return_sequences);
        cr_assert(br_equal(ids, br_generate(&slow, given, &o)), "%" PRId64 " beams", n);
    }
    br_module_free(model);
    br_scope_end(scope);
}

/* A model whose logits depend on all tokens of a row: on those in the cache if it has one. */
static br_tensor *next_of_sum(void *model, br_tensor *ids, br_tensor *mask, br_cache *cache)
{
    (void)mask;
    br_tensor *k = br_reshape(br_to(ids, BR_F32), BR_SHAPE(br_size(ids, 0), 1, -1, 1)), *v = k;
    if (cache)
        br_cache_append(cache, 0, &k, &v);
    br_tensor *place = br_arange(1, (double)br_size(k, 2) + 1, 1, BR_F32);
    br_tensor *sum =
        br_sum_dim(br_mul(br_select(br_select(v, 3, 0), 1, 0), place), BR_DIMS(1), false);
    return br_index_select(model, 0,
                           br_to(br_remainder(sum, br_full(BR_SHAPE(1), VOCAB, BR_F32)), BR_I64));
}

Test(beam_search, cached_rows_and_penalties_follow_their_beams)
{
    br_scope *scope = br_scope_begin();
    br_language_model lm = { .model = br_from_f32(BR_SHAPE(VOCAB, VOCAB), &table[0][0]),
                             .next = next_of_sum };
    br_language_model slow = lm;
    slow.no_cache = true;
    for (int64_t i = 0; i < 24; i++) {
        br_tensor *given = br_from_i64(BR_SHAPE(2, 2), (int64_t[]){ i % 3, 1, i % 4, 2 });
        br_generate_options o =
            *BR_OPTIONS(br_generate, .max_new_tokens = 6, .num_beams = 2 + i % 4,
                        .num_return_sequences = 2, .repetition_penalty = i < 12 ? 1 : 1.3);
        br_tensor *ids = br_generate(&lm, given, &o);
        check_ok();
        cr_assert(br_equal(ids, br_generate(&slow, given, &o)), "%" PRId64, i);
    }
    br_scope_end(scope);
}

/* Returns whether a row begins with the ids of another one, and has only `filling` after them. */
static bool begins_with(br_tensor *row, br_tensor *ids, int64_t filling)
{
    int64_t n = br_size(ids, 1), more = br_size(row, 1) - n;
    return more >= 0 && br_equal(br_narrow(row, 1, 0, n), ids) &&
           br_item_i64(br_all(br_eq_scalar(br_narrow(row, 1, n, more), (double)filling)));
}

Test(beam_search, a_text_in_a_batch_gets_the_same_tokens)
{
    br_scope *scope = br_scope_begin();
    br_gpt2_lm *model = load_recorded(GPT2 "/lm", NULL);
    br_language_model lm = br_gpt2_language_model(model);
    br_tensor *given = br_from_i64(BR_SHAPE(3, 2), (int64_t[]){ 2, 12, 30, 5, 11, 11 });
    for (int64_t n = 2; n < 6; n++) {
        br_generate_options o = beams(n);
        br_tensor *all = br_generate(&lm, given, &o);
        for (int64_t i = 0; i < 3; i++) {
            int64_t each = o.num_return_sequences;
            br_tensor *alone = br_generate(&lm, br_narrow(given, 0, i, 1), &o);
            check_ok();
            cr_assert(begins_with(br_narrow(all, 0, i * each, each), alone, 17));
        }
    }
    br_module_free(model);
    br_scope_end(scope);
}

/* With early stopping, a text whose beams have ended is done, also while another one goes on. */
Test(beam_search, a_text_that_stopped_early_gets_no_better_row)
{
    static const int64_t eos[] = { END };
    br_manual_seed(4);
    for (int64_t i = 0; i < 20; i++) {
        br_scope *scope = br_scope_begin();
        br_language_model lm = { .model =
                                     br_mul_scalar(br_randn(BR_SHAPE(VOCAB, VOCAB), BR_F32), 2),
                                 .next = next_of_table,
                                 .no_cache = true };
        br_tensor *given = br_from_i64(BR_SHAPE(3, 1), (int64_t[]){ 1, 2, 3 });
        br_generate_options o =
            *BR_OPTIONS(br_generate, .max_new_tokens = 8, .num_beams = 2, .n_eos = 1,
                        .eos_token_ids = eos, .early_stopping = BR_EARLY_STOPPING_ON);
        br_tensor *all = br_generate(&lm, given, &o);
        for (int64_t k = 0; k < 3; k++) {
            br_tensor *alone = br_generate(&lm, br_narrow(given, 0, k, 1), &o);
            check_ok();
            cr_assert(begins_with(br_narrow(all, 0, k, 1), alone, END));
        }
        br_scope_end(scope);
    }
}

Test(beam_search, an_encoder_decoder_reads_each_text_once)
{
    br_scope *scope = br_scope_begin();
    br_t5 *model = load_recorded(BRASA_TEST_DIR "/models/t5/relu", NULL);
    br_tensor *texts = br_from_i64(BR_SHAPE(2, 4), (int64_t[]){ 5, 9, 30, 1, 7, 1, 0, 0 });
    br_tensor *mask = br_from_i64(BR_SHAPE(2, 4), (int64_t[]){ 1, 1, 1, 1, 1, 1, 0, 0 });
    br_t5_source both = { model, br_t5_encode(model, texts, mask), mask };
    br_language_model lm = br_t5_language_model(&both);
    br_generate_options o = beams(4);
    br_tensor *all = br_generate(&lm, br_t5_start(model, 2), &o);
    check_ok();
    for (int64_t i = 0; i < 2; i++) {
        br_tensor *text = br_narrow(texts, 0, i, 1), *real = br_narrow(mask, 0, i, 1);
        br_t5_source one = { model, br_t5_encode(model, text, real), real };
        br_language_model alone = br_t5_language_model(&one);
        br_tensor *ids = br_generate(&alone, br_t5_start(model, 1), &o);
        check_ok();
        cr_assert(begins_with(br_narrow(all, 0, 2 * i, 2), ids, 17));
    }
    br_module_free(model);
    br_scope_end(scope);
}

Test(beam_search, several_samples_of_a_row)
{
    br_scope *scope = br_scope_begin();
    br_gpt2_lm *model = load_recorded(GPT2 "/lm", NULL);
    br_language_model lm = br_gpt2_language_model(model);
    br_tensor *given = br_from_i64(BR_SHAPE(2, 2), (int64_t[]){ 2, 12, 30, 5 });
    br_generate_options o = *BR_OPTIONS(br_generate, .do_sample = true, .temperature = 2);
    br_manual_seed(3);
    br_tensor *repeated = br_generate(&lm, br_repeat_interleave_scalar(given, 3, 0), &o);
    o.num_return_sequences = 3;
    br_manual_seed(3);
    cr_assert(br_equal(br_generate(&lm, given, &o), repeated));
    br_module_free(model);
    br_scope_end(scope);
}

/* ---- The order of a cache's rows ------------------------------------------------------------- */

Test(beam_search, rows_of_a_cache_change_places)
{
    br_scope *scope = br_scope_begin();
    br_cache *cache = br_cache_new();
    br_tensor *first = br_randn(BR_SHAPE(3, 2, 5, 4), BR_F32), *k, *v;
    for (int64_t number = 0; number < 2; number++) {
        k = br_mul_scalar(first, (double)number + 1);
        v = br_neg(k);
        cr_assert(br_cache_append(cache, number, &k, &v));
    }
    br_tensor *rows = br_from_i64(BR_SHAPE(3), (int64_t[]){ 2, 0, 2 });
    cr_assert(br_cache_reorder(cache, rows), "%s", br_error_message());
    for (int64_t number = 0; number < 2; number++) {
        br_tensor *expected = br_mul_scalar(br_index_select(first, 0, rows), (double)number + 1);
        cr_assert(br_cache_get(cache, number, &k, &v));
        cr_assert(br_equal(k, expected) && br_equal(v, br_neg(expected)));
    }
    check_fails(br_cache_reorder(cache, br_from_i64(BR_SHAPE(2), (int64_t[]){ 0, 1 })),
                "rows [2] must have one element for each of the 3 rows");
    check_fails(br_cache_reorder(cache, br_from_i64(BR_SHAPE(3), (int64_t[]){ 0, 1, 3 })), "3");
    check_fails(br_cache_reorder(cache, NULL), "rows is NULL");
    check_fails(br_cache_reorder(NULL, rows), "cache is NULL");
    br_cache_free(cache);
    br_scope_end(scope);
}

/* ---- Bad input ------------------------------------------------------------------------------- */

static bool stop(void *context, br_tensor *tokens)
{
    (void)context, (void)tokens;
    return false;
}

Test(beam_search, bad_options)
{
    br_scope *scope = br_scope_begin();
    br_language_model lm = { .model = br_from_f32(BR_SHAPE(VOCAB, VOCAB), &table[0][0]),
                             .next = next_of_table,
                             .no_cache = true };
    br_tensor *ids = br_ones(BR_SHAPE(1, 1), BR_I64);
    const struct {
        const br_generate_options *options;
        const char *error;
    } cases[] = {
        { BR_OPTIONS(br_generate, .num_beams = 0), "num_beams 0 and num_return_sequences 1 must" },
        { BR_OPTIONS(br_generate, .num_return_sequences = 0), "num_return_sequences 0 must be in" },
        { BR_OPTIONS(br_generate, .num_beams = 2, .num_return_sequences = 3),
          "num_return_sequences is 3, must be at most num_beams = 2" },
        { BR_OPTIONS(br_generate, .num_return_sequences = 3), "there is one likeliest sequence" },
        { BR_OPTIONS(br_generate, .num_beams = 2, .on_tokens = stop), "known at the end" },
        { BR_OPTIONS(br_generate, .length_penalty = (double)NAN), "length_penalty is nan" },
        { BR_OPTIONS(br_generate, .early_stopping = (br_early_stopping)3), "early_stopping is 3" },
        { BR_OPTIONS(br_generate, .num_beams = 2, .no_repeat_ngram_size = 1, .n_suppress = 3,
                     .suppress_tokens = (int64_t[]){ 0, 2, 3 }),
          "no token is left" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_fails(br_generate(&lm, ids, cases[i].options), cases[i].error);
    br_scope_end(scope);
}

static bool search(void)
{
    br_scope *scope = br_scope_begin();
    br_language_model lm = { .model = br_from_f32(BR_SHAPE(VOCAB, VOCAB), &table[0][0]),
                             .next = next_of_table,
                             .no_cache = true };
    br_generate_options o = *BR_OPTIONS(br_generate, .max_new_tokens = 2, .num_beams = 2);
    bool ok = br_generate(&lm, br_ones(BR_SHAPE(1, 1), BR_I64), &o) != NULL;
    br_scope_end(scope);
    return ok;
}

Test(beam_search, memory_runs_out_everywhere)
{
    fail_in_turn(search, "generate");
}
