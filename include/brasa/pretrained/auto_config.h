/* brasa/pretrained/auto_config.h - AutoConfig: the config.json of a Hugging Face model.
 *
 *     br_auto_config *config = br_auto_config_load("bert-base-uncased");
 *     int64_t hidden_size = br_auto_config_size(config, "hidden_size");
 *
 * A key that is not in the file has transformers' default for the file's model type. The known
 * types are those of the families of models (brasa/pretrained/family.h). A key with several names
 * (hidden_size and gpt2's n_embd) is found by each. A key with dots is a path into objects:
 * "rope_parameters.full_attention.rope_theta". A key that is missing or of the wrong type is
 * an error that names the file and the key; the functions then return 0, false or NULL.
 * docs/auto_config.md lists which files are rejected. */
#ifndef BRASA_PRETRAINED_AUTO_CONFIG_H
#define BRASA_PRETRAINED_AUTO_CONFIG_H

#include <brasa/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Files ----------------------------------------------------------------------------------- */

/* A configuration is immutable, so threads may share it. */
typedef struct br_auto_config br_auto_config;
/* Loads a configuration like AutoConfig.from_pretrained(). `path` is a folder that contains
 * config.json, or the file itself, or a GGUF file, whose metadata is translated to the keys of a
 * config.json. Returns NULL and an error on failure: BR_ERROR_IO if the file
 * cannot be read, BR_ERROR_FORMAT if it is invalid. */
BR_API br_auto_config *br_auto_config_load(const char *path);
/* Loads a configuration, and replaces keys of the file, as the keyword arguments of
 * AutoConfig.from_pretrained() do. `overrides` is a JSON object, such as
 * "{\"num_labels\": 3, \"attention_dropout\": 0.1}". A value replaces the whole value of its
 * key, under each of the key's names. NULL: no key is replaced. */
BR_API br_auto_config *br_auto_config_load_with(const char *path, const char *overrides);
/* Returns the configuration of a config.json's text, for a model that is made from nothing. Returns
 * NULL and an error on failure. */
BR_API br_auto_config *br_auto_config_from_json(const char *json);
/* Frees a configuration. NULL is ignored. */
BR_API void br_auto_config_free(br_auto_config *config);
/* Returns the file's path, or "config.json" for a text. */
BR_API const char *br_auto_config_path(const br_auto_config *config);
/* Return a JSON object as text: the keys of the file, and the keys that are not in the file, or
 * null there, and have a default value for the model type. The caller frees it with br_free(). */
BR_API char *br_auto_config_file_json(const br_auto_config *config);
BR_API char *br_auto_config_default_json(const br_auto_config *config);
/* Returns the model type, such as "bert" or "gpt2", or NULL without an error if the file has none.
 */
BR_API const char *br_auto_config_model_type(const br_auto_config *config);
/* Returns true if the file has this model type, and no key of it has a value that is not supported
 * and would change the model's numbers; else false and an error. */
BR_API bool br_auto_config_expect(const br_auto_config *config, const char *model_type);

/* ---- Values ---------------------------------------------------------------------------------- */

/* Returns true if the key has a value other than null, in the file or by default. */
BR_API bool br_auto_config_has(const br_auto_config *config, const char *key);
/* Returns true if the key is a nested object. Returns false without an error if the key is missing
 * or null, and false with an error if it is something else. */
BR_API bool br_auto_config_has_object(const br_auto_config *config, const char *key);
/* Returns true if the file states that the key is null. */
BR_API bool br_auto_config_is_null(const br_auto_config *config, const char *key);
/* Returns an integer. 1.0 is not an integer. */
BR_API int64_t br_auto_config_integer(const br_auto_config *config, const char *key);
/* Returns a size or count: an integer in 1 .. 2147483647. */
BR_API int64_t br_auto_config_size(const br_auto_config *config, const char *key);
/* Returns a number, which is finite. */
BR_API double br_auto_config_number(const br_auto_config *config, const char *key);
/* Returns a number in 0 .. 1. */
BR_API double br_auto_config_probability(const br_auto_config *config, const char *key);
/* Returns a boolean. */
BR_API bool br_auto_config_bool(const br_auto_config *config, const char *key);
/* Returns a UTF-8 string, owned by the configuration. */
BR_API const char *br_auto_config_string(const br_auto_config *config, const char *key);
/* Returns the index of the value among n strings, or -1 and an error that lists them:
 *
 *     int i = br_auto_config_choice(config, "hidden_act", BR_CHOICES("gelu", "relu")); */
BR_API int br_auto_config_choice(const br_auto_config *config, const char *key, int n,
                                 const char *const *choices);
#define BR_CHOICES(...) BR__LIST(const char *, __VA_ARGS__)
/* Returns true if one size is a multiple of another, else false and an error. */
BR_API bool br_auto_config_multiple(const br_auto_config *config, const char *key, const char *by);
/* Returns pad_token_id, the row of the embeddings that is initialized to 0, or -1 if it is null.
 * Negative ids count from the end, as in nn.Embedding. An id that is not in the vocabulary is an
 * error. */
BR_API int64_t br_auto_config_padding(const br_auto_config *config);
/* Returns the greatest number of tokens of a text that the model takes: max_position_embeddings, or
 * what the family says. INT32_MAX if there is no limit. */
BR_API int64_t br_auto_config_max_tokens(const br_auto_config *config);
/* Returns the name of an activation function that br_find_activation() knows, which is never freed,
 * or NULL and an error. If `gated` is not NULL, "gated-" may precede the name, and
 * *gated is set to whether it does. */
BR_API const char *br_auto_config_activation(const br_auto_config *config, const char *key,
                                             bool *gated);

/* ---- Lists and labels ------------------------------------------------------------------------ */

/* Returns the length of a list such as "architectures", or -1 on error. null counts as an empty
 * list. A value that is not a list counts as a list of one, because eos_token_id may be either. */
BR_API int64_t br_auto_config_list_size(const br_auto_config *config, const char *key);
/* Return element i of a list. */
BR_API int64_t br_auto_config_list_integer(const br_auto_config *config, const char *key,
                                           int64_t i);
BR_API double br_auto_config_list_number(const br_auto_config *config, const char *key, int64_t i);
BR_API const char *br_auto_config_list_string(const br_auto_config *config, const char *key,
                                              int64_t i);
/* Returns the name of label 0 .. num_labels - 1 in id2label, or "LABEL_<id>" if there is no
 * id2label. The caller frees it with br_free(). "num_labels" is the number of labels, 2 by default.
 */
BR_API char *br_auto_config_label(const br_auto_config *config, int64_t id);

#ifdef __cplusplus
}
#endif
#endif
