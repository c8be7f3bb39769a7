/* models/family.h - the model types and classes that br_auto_model_load() can make and that
 * br_auto_model_save() can save. */
#ifndef BR_MODELS_FAMILY_H
#define BR_MODELS_FAMILY_H

#include <brasa/data/auto_config.h>
#include <brasa/nn.h>

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
    const char *embeddings; /* the base model's key of the weight with vocab_size rows */
    const char *labels;     /* the key of the weight with num_labels rows; NULL: no class has one */
    const char
        *decoder_layers; /* the key of a number of layers beside num_hidden_layers, or NULL */
    /* Weights are tied unless a file has different values for them, whatever tie_word_embeddings
     * says. */
    bool always_ties;
    /* Returns a key of config.json for which two modules of a class were made with different
     * values, or NULL. Compares only values that determine results and no shape. The modules' state
     * dicts have the same names and shapes. */
    const char *(*differing_key)(br_module *a, br_module *b);
} br_model_family;

extern const br_model_family zoo_hf_bert_family, zoo_gpt2_family, zoo_t5_family;

#endif
