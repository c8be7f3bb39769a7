/* brasa/models/auto_config.h - AutoConfig: the config.json of a Hugging Face model.
 *
 *     br_auto_config *config = br_auto_config_load("bert-base-uncased");
 *     int64_t hidden_size = br_auto_config_size(config, "hidden_size");
 *
 * A key that the file lacks has the value that transformers gives it for the file's model type, of
 * which bert, gpt2 and t5 are known; a key of several names (hidden_size and gpt2's n_embd) is
 * found by each. What is missing or of another kind is an error that names the file and the key;
 * the functions then give 0, false or NULL. docs/auto_config.md tells what files are refused. */
#ifndef BRASA_MODELS_AUTO_CONFIG_H
#define BRASA_MODELS_AUTO_CONFIG_H

#include <brasa/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Files ----------------------------------------------------------------------------------- */

/* An open configuration is never changed, so threads may share it. */
typedef struct br_auto_config br_auto_config;
/* AutoConfig.from_pretrained of the folder that has config.json, or of the file itself. NULL and an
 * error: BR_ERROR_IO if it cannot be read, BR_ERROR_FORMAT for what is no such file. */
BR_API br_auto_config *br_auto_config_load(const char *path);
/* NULL is ignored. */
BR_API void br_auto_config_free(br_auto_config *config);
/* The file's path. */
BR_API const char *br_auto_config_path(const br_auto_config *config);
/* "bert", "gpt2", ...; NULL (no error) if the file names none. */
BR_API const char *br_auto_config_model_type(const br_auto_config *config);
/* True if that is the file's model type; otherwise false and an error. */
BR_API bool br_auto_config_expect(const br_auto_config *config, const char *model_type);

/* ---- Values ---------------------------------------------------------------------------------- */

/* True if the key has a value other than null, in the file or by default. */
BR_API bool br_auto_config_has(const br_auto_config *config, const char *key);
/* A whole number; 1.0 is none. */
BR_API int64_t br_auto_config_integer(const br_auto_config *config, const char *key);
/* A whole number of 1 .. 2147483647, as sizes and counts are. */
BR_API int64_t br_auto_config_size(const br_auto_config *config, const char *key);
/* Any number; it is finite. */
BR_API double br_auto_config_number(const br_auto_config *config, const char *key);
/* A number of 0 .. 1. */
BR_API double br_auto_config_probability(const br_auto_config *config, const char *key);
/* true or false. */
BR_API bool br_auto_config_truth(const br_auto_config *config, const char *key);
/* UTF-8; the configuration's own. */
BR_API const char *br_auto_config_string(const br_auto_config *config, const char *key);
/* Which of n strings the value is, from 0; -1 and an error that lists them if it is another:
 *
 *     int i = br_auto_config_choice(config, "hidden_act", BR_CHOICES("gelu", "relu")); */
BR_API int br_auto_config_choice(const br_auto_config *config, const char *key, int n,
                                 const char *const *choices);
#define BR_CHOICES(...)                                                                     \
    (int)(sizeof((const char *[]){ __VA_ARGS__ }) / sizeof(const char *)), (const char *[]) \
    {                                                                                       \
        __VA_ARGS__                                                                         \
    }

/* ---- Lists and labels ------------------------------------------------------------------------ */

/* The length of a list as "architectures" is. null is the empty list; what is no list is a list of
 * one, since eos_token_id may be either. -1 on error. */
BR_API int64_t br_auto_config_list_size(const br_auto_config *config, const char *key);
BR_API int64_t br_auto_config_list_integer(const br_auto_config *config, const char *key,
                                           int64_t i);
BR_API const char *br_auto_config_list_string(const br_auto_config *config, const char *key,
                                              int64_t i);
/* The name that id2label gives a label of 0 .. num_labels - 1, "LABEL_<id>" if there is no
 * id2label. The caller frees it with br_free(). "num_labels" is the number of them, 2 by default.
 */
BR_API char *br_auto_config_label(const br_auto_config *config, int64_t id);

#ifdef __cplusplus
}
#endif
#endif
