/* pretrained/generate_internal.h - shared by the ways to generate tokens: generate.c takes or
 * samples one token for each row, beam_search.c follows several rows for each text;
 * generate_shared.c runs the model and says which tokens the options exclude, sampling.c which may
 * be sampled, stop_strings.c which end a text. */
#ifndef BR_GENERATE_INTERNAL_H
#define BR_GENERATE_INTERNAL_H

#include <brasa/pretrained/generate.h>

/* The state of a generation. */
typedef struct br_generation {
    const br_language_model *lm;
    br_generate_options o;           /* with pad_token_id set */
    br_cache *cache;                 /* NULL if the model has none */
    int64_t batch, length, capacity; /* rows; tokens of a row so far, and their maximum */
    int64_t first;                   /* number of tokens that were given */
    br_tensor *ids;                  /* i64 [batch, capacity] */
    br_tensor *mask;                 /* i64 [batch, capacity], or NULL */
    br_tensor *eos;                  /* i64 [1, n_eos], or NULL */
    br_tensor *suppressed;           /* i64 [1, n_suppress], or NULL */
    br_tensor *running;              /* bool [batch, 1]: rows that have not ended */
    br_tensor *seen; /* bool [batch, V]: tokens in the row; NULL without a penalty */
} br_generation;

/* Returns i64 [1, n] on t's device. */
br_tensor *br__ids_beside(const br_tensor *t, int64_t n, const int64_t *ids);
/* Runs the model for the tokens that it has not seen, and returns the logits [batch, V] of the next
 * ones, in at least f32 as in transformers. Returns NULL with an error on failure. */
br_tensor *br__generation_logits(br_generation *g);

/* Returns the tokens that the model has not seen, i64 [batch, n]. */
br_tensor *br__fresh_tokens(const br_generation *g);
/* Return scores [batch, V], logits or logarithms of probabilities, after the repetition penalty for
 * the tokens of the rows, of which `fresh` are those that were just passed to the model; and with
 * -infinity for the tokens that the options exclude. */
br_tensor *br__penalize(br_generation *g, br_tensor *fresh, br_tensor *scores);
br_tensor *br__exclude(const br_generation *g, br_tensor *scores);
/* Checks that a token can be chosen in each row that has not ended. */
bool br__can_choose(const br_generation *g, br_tensor *scores);

/* ---- sampling.c ------------------------------------------------------------------------------ */

/* Returns scores [B, V], logits or logarithms of probabilities, with -infinity for the tokens that
 * top_k, top_p and min_p exclude. Each of these keeps at least `least` tokens. */
br_tensor *br__truncate_scores(const br_generation *g, br_tensor *scores, int64_t least);
/* Samples n different tokens for each row, i64 [B, n], with the algorithm of torch.multinomial():
 * divides the probabilities by exponentially distributed numbers and takes the largest. */
br_tensor *br__sample_tokens(br_tensor *scores, int64_t n);

/* ---- stop_strings.c -------------------------------------------------------------------------- */

/* Checks the options that have to do with stop strings. Sets an error that begins with `op`. */
bool br__check_stop_strings(const char *op, const br_generate_options *o);
/* Returns how many tokens at a row's end decide whether it ends in a stop string. */
int64_t br__stop_string_reach(const br_generate_options *o);
/* Returns whether the last token of a row completes a stop string. The n ids, at least one, are the
 * row or its end. Returns false with an error on failure. */
bool br__ends_in_stop_string(const br_generate_options *o, int64_t n, const int64_t *ids);

/* ---- beam_search.c --------------------------------------------------------------------------- */

/* Generates with beams: g->batch is num_beams rows for each text. Returns i64
 * [texts * num_return_sequences, length]. */
br_tensor *br__beam_search(br_generation *g);

#endif
