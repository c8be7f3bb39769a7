/* brasa/pretrained/generation_config.h - GenerationConfig: a model folder's generation_config.json.
 *
 *     br_generation_config *config = br_generation_config_load("gpt2", "{\"do_sample\": true}");
 *     br_generate_options options = br_generate_defaults();
 *     br_generation_config_apply(config, br_size(input_ids, 1), &options);
 *     br_tensor *ids = br_generate(&lm, input_ids, &options);
 *
 * Keys have the meanings and types of transformers 5. docs/generate.md lists what each key does. */
#ifndef BRASA_PRETRAINED_GENERATION_CONFIG_H
#define BRASA_PRETRAINED_GENERATION_CONFIG_H

#include <brasa/pretrained/generate.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A generation configuration is immutable, so threads may share it. */
typedef struct br_generation_config br_generation_config;
/* Reads the generation_config.json in the folder `dir`. If there is none, reads the same keys from
 * config.json. If `dir` is a GGUF file, reads its ids of special tokens. `given` is NULL or a JSON
 * object, whose values replace those of the file; null removes a value. Returns NULL and an error
 * if a value is invalid or not supported; the message says "the given KEY" if the value is from
 * `given`, and otherwise names the file. */
BR_API br_generation_config *br_generation_config_load(const char *dir, const char *given);
/* Frees a configuration. NULL is ignored. */
BR_API void br_generation_config_free(br_generation_config *config);
/* Sets the fields of `options` that the file or `given` sets, and leaves all other fields as they
 * are. n_tokens is the number of tokens before the first new one, which max_length and min_length
 * include. The lists belong to the configuration, which must outlive `options`. stop_strings need
 * options->tokenizer. On failure, returns false and an error, and does not change `options`. */
BR_API bool br_generation_config_apply(const br_generation_config *config, int64_t n_tokens,
                                       br_generate_options *options);
/* Returns the id of the token that a decoder such as T5's starts with: decoder_start_token_id, or
 * else bos_token_id. Returns -1, without an error, if both are missing. */
BR_API int64_t br_generation_config_decoder_start(const br_generation_config *config);
/* Returns the path of the file. */
BR_API const char *br_generation_config_path(const br_generation_config *config);
/* Returns the keys of generation_config.json that are unknown and not null, joined by ", "; "" if
 * there are none. With an unknown key, tokens may differ from those of transformers. The names may
 * contain anything, so escape them before printing to a terminal. */
BR_API const char *br_generation_config_unknown(const br_generation_config *config);
/* Returns the i-th known key, or NULL after the last. */
BR_API const char *br_generation_config_key(int i);

#ifdef __cplusplus
}
#endif
#endif
