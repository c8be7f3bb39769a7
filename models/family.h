/* models/family.h - the model types and classes that br_auto_model_load() can make. */
#ifndef BR_MODELS_FAMILY_H
#define BR_MODELS_FAMILY_H

#include <brasa/data/auto_config.h>

/* A class of transformers. */
typedef struct br_model_class {
    const char *name;
    /* Makes the module. Its weights are not initialized under br_skip_init(). */
    void *(*make)(const br_auto_config *config);
} br_model_class;

/* A model_type. */
typedef struct br_model_family {
    const char *model_type;
    const char *prefix; /* begins the base model's keys in a model with a head: "bert." */
    const br_model_class *classes; /* the base model first; the last has no name */
    const char *const *heads;      /* prefixes of keys that may be missing; the last is NULL */
    const char *const *ignored;    /* suffixes of unused keys of old files; the last is NULL */
    /* Initializes a weight that is missing in the files. */
    bool (*init)(const br_auto_config *config, const char *key, br_tensor *weight);
} br_model_family;

extern const br_model_family zoo_hf_bert_family, zoo_gpt2_family, zoo_t5_family;

#endif
