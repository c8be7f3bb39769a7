/* cli/generation.h - the settings of 'brasa generate': generation_config.json, and the options of
 * the command line, which replace its values. */
#ifndef BRASA_CLI_GENERATION_H
#define BRASA_CLI_GENERATION_H

#include <brasa/brasa.h>
#include <jansson.h>

enum { GENERATION_MAX_NEW_TOKENS = 50 /* the default */ };

/* The settings. -1 stands for a value that is not set. */
typedef struct generation {
    br_generate_options options; /* complete after generation_limit() */
    int64_t max_new_tokens, max_length, min_new_tokens, min_length;
    int64_t decoder_start_token_id; /* or bos_token_id, as in transformers */
    char *path;                     /* of the file */
} generation;

/* Returns true if generation_config.json may have this key. */
bool generation_has(const char *key);
/* Adds the keys of generation_config.json to a comma-separated list of `size` bytes. */
void generation_keys(char *names, size_t size);
/* Reads DIR/generation_config.json, or, if there is none, the same keys of DIR/config.json. The
 * values of `given`, an object, replace those of the file. Warns on stderr about unknown keys. A
 * value that is invalid or not supported is an error that names the file and the key. Call
 * generation_free() in any case. */
bool generation_read(generation *g, const char *dir, json_t *given);
/* Sets the options that depend on the number of tokens before the first new one. */
bool generation_limit(generation *g, int64_t n_tokens);
void generation_free(generation *g);

#endif
