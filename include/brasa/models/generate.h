/* brasa/models/generate.h - texts that a model goes on with: a cache of keys and values, and
 * generate().
 *
 *     br_gpt2_lm *model = br_auto_model_load("gpt2", NULL, NULL);
 *     br_language_model lm = br_gpt2_language_model(model);
 *     br_generate_options options = { .max_new_tokens = 30, .do_sample = true, .top_k = 50 };
 *     br_tensor *ids = br_generate(&lm, input_ids, &options);
 *
 * Any model that tells from tokens what the next one may be can be used: it is a br_language_model,
 * one function and what that needs. */
#ifndef BRASA_MODELS_GENERATE_H
#define BRASA_MODELS_GENERATE_H

#include <brasa/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Caches ---------------------------------------------------------------------------------- */

/* Keys and values of attention, [B, heads, length, d], under a number for each attention: what a
 * model computed for tokens that it need not see again. */
typedef struct br_cache br_cache;
/* NULL on error. */
BR_API br_cache *br_cache_new(void);
BR_API void br_cache_free(br_cache *cache);
/* The number of tokens under number 0, which is that of all a model has seen between two passes; 0
 * without a cache. */
BR_API int64_t br_cache_length(const br_cache *cache);
/* Puts key and value [B, heads, n, d] behind those under that number, and gives in their place
 * views of all of them, which last until the next call. Wants grad mode off. After an error the
 * cache holds some of a pass's keys and not others, and is good for br_cache_crop() or nothing. */
BR_API bool br_cache_append(br_cache *cache, int64_t number, br_tensor **key, br_tensor **value);
/* What is there under that number; false (no error) if nothing is. */
BR_API bool br_cache_get(const br_cache *cache, int64_t number, br_tensor **key, br_tensor **value);
/* Forgets all but the first `length` tokens of numbers below `n`. */
BR_API bool br_cache_crop(br_cache *cache, int64_t n, int64_t length);

/* ---- Language models ------------------------------------------------------------------------- */

typedef struct br_language_model {
    void *model;
    /* Logits [B, V] of what follows the last of the tokens ids, i64 [B, n], behind those that the
     * cache has seen. attention_mask is NULL or i64 [B, length of the cache + n], 0 where a token
     * is padding. */
    br_tensor *(*next)(void *model, br_tensor *ids, br_tensor *attention_mask, br_cache *cache);
    bool no_cache;      /* `next` gets all tokens every time, and NULL as the cache */
    int64_t max_length; /* the most tokens; 0: no limit */
} br_language_model;

typedef struct br_generate_options {
    int64_t max_new_tokens; /* 0: 20 */
    int64_t min_new_tokens; /* none of eos_token_ids before */
    bool do_sample;         /* draw the next token; else take the likeliest */
    /* With do_sample, in this order: logits are divided by the temperature (0: 1); the top_k
     * likeliest stay (0: all); then the fewest likeliest whose probabilities sum to top_p (0: 1).
     */
    double temperature;
    int64_t top_k;
    double top_p;
    /* Logits of tokens that are there already are divided by it if they are positive, else
     * multiplied (0: 1); Keskar et al., 2019. */
    double repetition_penalty;
    int64_t n_eos; /* a row ends behind one of these tokens */
    const int64_t *eos_token_ids;
    bool has_pad_token_id; /* false: a row that has ended gets eos_token_ids[0] */
    int64_t pad_token_id;  /* ... or this */
    br_tensor
        *attention_mask; /* [B, S], 0 where input_ids are padding: that comes first in a row */
    /* Called with each new column of tokens, i64 [B, 1]; generation ends when it returns false. */
    bool (*on_tokens)(void *context, br_tensor *tokens);
    void *context;
} br_generate_options;

/* input_ids, i64 [B, S], and behind them what the model goes on with, i64 [B, S + new]: up to
 * max_new_tokens, the model's limit, or until all rows ended. `options` may be NULL. Tokens are
 * drawn from the thread's generator as torch.multinomial() draws them: after br_manual_seed(s)
 * they are those of transformers' generate() after torch.manual_seed(s), but where two tokens are
 * so near that rounding decides. */
BR_API br_tensor *br_generate(const br_language_model *lm, br_tensor *input_ids,
                              const br_generate_options *options);

#ifdef __cplusplus
}
#endif
#endif
