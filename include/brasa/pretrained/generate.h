/* brasa/pretrained/generate.h - text generation.
 *
 *     br_gpt2_lm *model = br_auto_model_load("gpt2", NULL, NULL);
 *     br_language_model lm = br_gpt2_language_model(model);
 *     br_tensor *ids = br_generate(
 *         &lm, input_ids, BR_OPTIONS(br_generate, .max_new_tokens = 30, .do_sample = true));
 *
 * Any model that computes the next token's logits can be used: it is wrapped in a
 * br_language_model, which is a function and its context. */
#ifndef BRASA_PRETRAINED_GENERATE_H
#define BRASA_PRETRAINED_GENERATE_H

#include <brasa/nn/cache.h>
#include <brasa/ops.h>
#include <brasa/tokenizers.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Language models ------------------------------------------------------------------------- */

typedef struct br_language_model {
    void *model;
    /* Returns the logits [B, V] of the token that follows `ids`, i64 [B, n], which follow the
     * cached tokens. attention_mask is NULL, or i64 [B, length of the cache + n] with 0 for
     * padding. */
    br_tensor *(*next)(void *model, br_tensor *ids, br_tensor *attention_mask, br_cache *cache);
    bool no_cache;      /* pass all tokens to `next` every time, and NULL as the cache */
    int64_t max_length; /* maximum number of tokens; 0: no limit */
    /* When a text gets longer than this many tokens, its keys and values are computed again,
     * because those of all tokens change; 0: never. */
    int64_t recomputed_after;
} br_language_model;

/* When beam search ends for a text, as transformers' early_stopping. */
typedef enum br_early_stopping {
    BR_EARLY_STOPPING_OFF, /* when no beam of the same length would become one of the best */
    BR_EARLY_STOPPING_ON,  /* when num_beams sequences have ended */
    /* When no beam can become one of the best, also if it grows to the maximum length. */
    BR_EARLY_STOPPING_NEVER,
} br_early_stopping;

typedef struct br_generate_options {
    size_t struct_size;
    int64_t max_new_tokens;
    int64_t min_new_tokens; /* suppress eos_token_ids until there are that many new tokens */
    bool do_sample;         /* sample the next token; otherwise take the likeliest */
    /* With do_sample, in this order: logits are divided by the temperature; only the top_k
     * likeliest tokens are kept, and those as likely as the last of these (0: all); of these, the
     * fewest whose probabilities sum to top_p, where of equally likely tokens the last ones are
     * kept; of these, those at least min_p times as likely as the likeliest (0: all). */
    double temperature;
    int64_t top_k;
    double top_p, min_p;
    /* Logits of tokens that are already in the row are divided by it if they are positive, else
     * multiplied by it (Keskar et al., 2019). */
    double repetition_penalty;
    int64_t no_repeat_ngram_size; /* no n-gram of this length occurs twice; 0: no limit */
    int64_t n_suppress;           /* number of suppress_tokens, which are never generated */
    const int64_t *suppress_tokens;
    int64_t n_eos; /* number of eos_token_ids; a row ends after one of them */
    const int64_t *eos_token_ids;
    /* A row also ends after a token whose text completes one of these strings; the token's text may
     * go on after it. Needs the tokenizer. */
    int64_t n_stop_strings;
    const char *const *stop_strings;
    const br_tokenizer *tokenizer;
    int64_t pad_token_id;      /* fills a row that has ended; BR_NONE: eos_token_ids[0] */
    br_tensor *attention_mask; /* [B, S], 0 where input_ids are padding; pad on the left */
    /* Beam search follows this many rows for each text, and ends with those whose sum of log
     * probabilities, divided by (number of new tokens)^length_penalty, is the largest. In each
     * step, the best rows are continued or, with do_sample, rows sampled by their sums. 1: one
     * token is chosen in each step. */
    int64_t num_beams;
    double length_penalty;
    br_early_stopping early_stopping;
    int64_t
        num_return_sequences; /* for each row: at most num_beams, or any number with do_sample */
    /* Called with each new column of tokens, i64 [B, 1]; generation ends when it returns false. */
    bool (*on_tokens)(void *context, br_tensor *tokens);
    void *context;
} br_generate_options;
#define br_generate_default_fields                                                             \
    .struct_size = sizeof(br_generate_options), .max_new_tokens = 20, .temperature = 1,        \
    .top_k = 50, .top_p = 1, .repetition_penalty = 1, .pad_token_id = BR_NONE, .num_beams = 1, \
    .length_penalty = 1, .num_return_sequences = 1
BR_API br_generate_options br_generate_defaults(void);

/* Generates tokens. Returns input_ids, i64 [B, S], followed by the new tokens, i64 [B *
 * num_return_sequences, S + new]; of a text's sequences, the best is the first. The model gets
 * num_beams, or num_return_sequences, rows for each row of the input. Stops after max_new_tokens,
 * at the model's limit, or when all rows have ended. `options` may be NULL. It is an error if a row
 * that has not ended has a NaN logit, if no token is left for it, or if, with do_sample, a logit
 * divided by the temperature is infinite. Sampling uses the thread's generator and the algorithm of
 * torch.multinomial(): after br_manual_seed(s), the tokens equal those of transformers' generate()
 * after torch.manual_seed(s), unless two tokens are so close that rounding decides. */
BR_API br_tensor *br_generate(const br_language_model *lm, br_tensor *input_ids,
                              const br_generate_options *options);

#ifdef __cplusplus
}
#endif
#endif
