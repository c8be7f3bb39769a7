/* tokenizers/tokenizer_json_internal.h - parts of tokenizer.json that the kinds of tokenizers
 * share. Errors name the file and the part. */
#ifndef BR_TOKENIZER_JSON_INTERNAL_H
#define BR_TOKENIZER_JSON_INTERNAL_H

#include "tokenizers/tokenizer_internal.h"

#include <jansson.h>

/* Sets the error "PATH: ..." and returns false. */
bool br__tokenizer_refuse(const char *path, const char *format, ...) BR_PRINTF(2, 3);
/* Parses a file. Returns JSON that the caller frees with json_decref(), or NULL and an error. */
json_t *br__tokenizer_json(const char *op, const char *path);
/* The same for a text; errors name `path`. */
json_t *br__tokenizer_parse(const char *op, const char *path, const char *text, size_t length);
/* Returns the type of a part ("model", "normalizer", ...): the stated one, or the one that
 * `tokenizers` determines by the fields; NULL without an error if there is none. */
const char *br__tokenizer_json_type(const char *part, const json_t *object);
/* Returns the object under `key` if its type is `type`; else NULL and an error. */
json_t *br__tokenizer_json_part(const char *path, json_t *root, const char *key, const char *type);
/* Reads the boolean under `key`; it is `standard` if it is absent. */
bool br__tokenizer_json_bool(const char *path, json_t *object, const char *key, bool standard,
                             bool *value);
/* Returns the string under `key`, or `standard` if it is absent. Returns NULL and an error if it is
 * not a string, or is absent and `standard` is NULL. */
const char *br__tokenizer_json_string(const char *path, json_t *object, const char *key,
                                      const char *standard);
/* Adds the tokens of an object that maps tokens to ids. */
bool br__tokenizer_json_vocab(br_tokenizer *t, const char *path, json_t *vocab);
/* Reads a token's id, an integer. */
bool br__tokenizer_json_id(const char *path, const char *token, json_t *value, int64_t *id);
/* Adds "added_tokens". */
bool br__tokenizer_json_added(br_tokenizer *t, const char *path, json_t *root);
/* Reads "post_processor", which may be absent: at most one token before the first text or both, at
 * most one after each text, and possibly another one before the second text. Other tokens around a
 * pair are an error when a pair is encoded. */
bool br__tokenizer_json_processors(br_tokenizer *t, const char *path, json_t *root);
/* Checks that options of BPE which would change the tokens and are not supported are absent, null,
 * false or "": `also` and some others. */
bool br__bpe_json_absent(const char *path, json_t *model, const char *also);
/* Adds the merges of BPE by calls of `add`. */
typedef bool br_add_merge(br_tokenizer *t, br_text left, br_text right, int64_t rank,
                          const char **what);
bool br__bpe_json_merges(br_tokenizer *t, const char *path, json_t *merges, br_add_merge *add);
/* Checks that no two tokens have the same id. Call it after br__tokenizer_index(). */
bool br__tokenizer_check_ids(const br_tokenizer *t, const char *path);

/* Read a tokenizer.json with a model of that kind. t->absent must be set. */
bool br__tokenizer_json_words(br_tokenizer *t, const char *path, json_t *root);
bool br__tokenizer_json_bpe(br_tokenizer *t, const char *path, json_t *root);
bool br__tokenizer_json_char_bpe(br_tokenizer *t, const char *path, json_t *root);
bool br__tokenizer_json_unigram(br_tokenizer *t, const char *path, json_t *root);

#endif
