/* data/tokenizer_json_internal.h - parts of tokenizer.json that the kinds of tokenizers share. What
 * is refused is told with the file's path and the part. */
#ifndef BR_TOKENIZER_JSON_INTERNAL_H
#define BR_TOKENIZER_JSON_INTERNAL_H

#include "data/tokenizer_internal.h"

#include <jansson.h>

/* Records "FILE: what"; false. */
bool br__tokenizer_refuse(const char *path, const char *format, ...) BR_PRINTF(2, 3);
/* The file's JSON, for json_decref(); NULL and an error. */
json_t *br__tokenizer_json(const char *op, const char *path);
/* The object under `key`, whose "type" must be as given; NULL and an error. */
json_t *br__tokenizer_json_part(const char *path, json_t *root, const char *key, const char *type);
/* The truth value under `key`; `standard` if there is none, or null. */
bool br__tokenizer_json_bool(const char *path, json_t *object, const char *key, bool standard,
                             bool *value);
/* The string under `key`, `standard` if there is none; NULL and an error. */
const char *br__tokenizer_json_string(const char *path, json_t *object, const char *key,
                                      const char *standard);
/* Adds the tokens of an object of tokens and ids. */
bool br__tokenizer_json_vocab(br_tokenizer *t, const char *path, json_t *vocab);
/* Adds "added_tokens", which may have what `allowed` says: be "normalized", which are late then, or
 * "lstrip" and "rstrip". */
enum { BR_ADDED_LATE = 1, BR_ADDED_STRIP = 2 };
bool br__tokenizer_json_added(br_tokenizer *t, const char *path, json_t *root, int allowed);
/* Reads "post_processor", a template of one token or none before all, and one or none behind each
 * text. */
bool br__tokenizer_json_template(br_tokenizer *t, const char *path, json_t *root);
/* No two tokens may have one id; after br__tokenizer_index(). */
bool br__tokenizer_check_ids(const br_tokenizer *t, const char *path);

/* Reads all of a kind of model. */
bool br__tokenizer_json_bpe(br_tokenizer *t, const char *path, json_t *root);
bool br__tokenizer_json_unigram(br_tokenizer *t, const char *path, json_t *root);

#endif
