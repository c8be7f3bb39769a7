/* brasa/pretrained/family.h - what AutoModel knows about a model type: its classes, and how their
 * weights are named, tied and initialized. models/families.c lists the families of the zoo. */
#ifndef BRASA_PRETRAINED_FAMILY_H
#define BRASA_PRETRAINED_FAMILY_H

#include <brasa/nn.h>
#include <brasa/pretrained/auto_config.h>
#include <brasa/tokenizers.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A class of transformers. */
typedef struct br_model_class {
    const char *name;
    /* Makes the module. Its weights are not initialized under br_skip_init(). */
    void *(*make)(const br_auto_config *config);
    /* Returns the last hidden state of each token of a batch, [B, S, hidden_size], for sentence
     * embeddings. NULL: the class has none. */
    br_tensor *(*last_hidden_state)(br_module *module, const br_token_batch *batch);
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

/* The families of the zoo; the last is NULL. AutoModel reaches the models only through this table,
 * so pretrained/ does not depend on models/. */
extern const br_model_family *const br_model_families[];

#ifdef __cplusplus
}
#endif

#endif
