/* brasa/pretrained/family.h - a family of models: everything that the library and the command know
 * about a model_type, in one constant struct.
 *
 * AutoConfig, AutoModel, sentence embeddings and the commands reach a model only through its
 * br_model_family. The families of the zoo are in the sources of their models. A program or another
 * library adds a family of its own:
 *
 *     static const br_model_class classes[] = {
 *         { .name = "MyModel", .task = BR_TASK_BASE, .make = make_base, .forward = run_base },
 *         { .name = "MyForMaskedLM", .task = BR_TASK_MASKED_LM, .make = make_lm, .forward = run },
 *         { .name = NULL },
 *     };
 *     static const br_model_family family = {
 *         .model_type = "my_model",
 *         .classes = classes,
 *         .init = init_weight,
 *     };
 *     br_register_model_family(&family);
 *
 * The structs have no struct_size, because they are constant data of the program: they are written
 * with designated initializers and compiled with the header of the library. Later versions add
 * fields whose zero means what families did before, so a family stays valid when it is compiled
 * again. A list that is NULL is empty. docs/contributing.md describes how to write a family. */
#ifndef BRASA_PRETRAINED_FAMILY_H
#define BRASA_PRETRAINED_FAMILY_H

#include <brasa/nn.h>
#include <brasa/pretrained/auto_config.h>
#include <brasa/pretrained/generate.h>
#include <brasa/pretrained/gguf_format.h>
#include <brasa/tokenizers.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- config.json ----------------------------------------------------------------------------- */

/* The default of a key, as JSON. "=other" means the value of another key. After "|", the default
 * also replaces null. */
typedef struct br_config_default {
    const char *key, *json;
} br_config_default;

/* A synonym of a key. */
typedef struct br_config_alias {
    const char *name, *key;
} br_config_alias;

/* A key that changes a model's numbers, and its only supported value, as JSON. null counts as a
 * missing key, unless it is refused. */
typedef struct br_config_limit {
    const char *key, *json;
    bool refuses_null;
} br_config_limit;

/* The keys of a model_type's config.json, beside those that every model_type has. */
typedef struct br_config_keys {
    const br_config_default *defaults; /* the last has no key */
    const br_config_alias *aliases;    /* the last has no name */
    const br_config_limit *limits;     /* the last has no key */
    const char *const *harmless; /* other keys, which do not change numbers; the last is NULL */
} br_config_keys;

/* A key of config.json that a program may change by giving a weight another number of rows, such as
 * { "vocab_size", "embeddings.word_embeddings.weight" }. "num_labels" also changes the labels. The
 * weight has its name in the base model; a model without it keeps the key. */
typedef struct br_config_rows {
    const char *key, *weight;
} br_config_rows;

/* ---- Classes --------------------------------------------------------------------------------- */

/* What a class computes, which is the result of its `forward` for S tokens in B rows. The first
 * class of a family with a task is the one that transformers' AutoModelFor... makes. */
typedef enum br_model_task {
    BR_TASK_OTHER,
    BR_TASK_BASE,                    /* the last hidden state, [B, S, hidden_size] */
    BR_TASK_MASKED_LM,               /* logits [B, S, vocab_size] of each token */
    BR_TASK_CAUSAL_LM,               /* logits [B, S, vocab_size] of the token after each token */
    BR_TASK_SEQ2SEQ_LM,              /* logits [B, T, vocab_size] after each of T decoder_ids */
    BR_TASK_NEXT_SENTENCE,           /* logits [B, 2] */
    BR_TASK_SEQUENCE_CLASSIFICATION, /* logits [B, num_labels] */
    BR_TASK_TOKEN_CLASSIFICATION,    /* logits [B, S, num_labels] */
    BR_TASK_QUESTION_ANSWERING,      /* logits [B, S, 2] of the answer's first and last token */
} br_model_task;

/* The input of a model. Every tensor but the ids may be NULL. A model without token types ignores
 * type_ids. */
typedef struct br_model_input {
    br_token_batch batch;
    br_tensor *decoder_ids; /* i64 [B, T], for a model with a decoder beside its encoder */
    /* i64 [n + 1] in the host's memory: a packed batch, for a family with `packs`. The ids and type
     * ids are [1, S], and text i has tokens cu_seqlens[i] .. cu_seqlens[i + 1] - 1, at least one;
     * there is no mask. Results of tokens have B = 1, and results of texts n rows. */
    br_tensor *cu_seqlens;
} br_model_input;

/* The model that generates, and what its decoder attends to if it also has an encoder. */
typedef struct br_model_source {
    br_module *model;
    br_tensor *memory;         /* the result of `encode`, or NULL */
    br_tensor *attention_mask; /* of the encoder's tokens; NULL: no padding */
} br_model_source;

/* What the generation of a model with an encoder and a decoder needs. */
typedef struct br_encoder_decoder {
    /* Returns the encoder's output for a batch. */
    br_tensor *(*encode)(br_module *model, const br_token_batch *batch);
    /* Returns the first ids of the decoder, i64 [n, 1]. */
    br_tensor *(*start)(br_module *model, int64_t n);
    /* Returns the decoder's input for the labels i64 [B, T]. */
    br_tensor *(*shift_right)(br_module *model, br_tensor *labels);
} br_encoder_decoder;

/* A class of transformers. */
typedef struct br_model_class {
    const char *name; /* what br_module_class() returns for its modules */
    br_model_task task;
    /* Makes the module. Its weights are not initialized under br_skip_init(). */
    void *(*make)(const br_auto_config *config);
    /* Returns the result of the task. NULL: only the model's own functions run it. */
    br_tensor *(*forward)(br_module *model, const br_model_input *input);
    /* Returns the mean loss for the labels, i64 [B, S], -100 where a label does not count, as
     * transformers' forward does. NULL: it is computed from the result of `forward`. */
    br_tensor *(*loss)(br_module *model, const br_model_input *input, br_tensor *labels);
    /* Returns a language model for br_generate(); `source` outlives it. NULL: the class does not
     * generate. */
    br_language_model (*language_model)(br_model_source *source);
    const br_encoder_decoder *encoder_decoder; /* NULL: the class is no encoder-decoder */
    bool embeds_sentences; /* br_sentence_transformer may pool the result of `forward` */
    bool shows_attention;  /* `forward` calls br_tap_attention() for each layer */
} br_model_class;

/* ---- Families -------------------------------------------------------------------------------- */

typedef struct br_model_family {
    const char *model_type;
    const char *const *other_types; /* further model_types with the same keys; the last is NULL */
    br_config_keys config;
    const br_model_class *classes; /* the base model first; the last has no name */
    /* transformers' class of tokenizers for a folder whose files name none: "BertTokenizer". NULL:
     * tokenizer.json describes the tokenizer. */
    const char *tokenizer_class;

    /* Returns the greatest number of tokens of a text, or an error. NULL: max_position_embeddings
     * if config.json has it, else there is no limit. */
    int64_t (*max_tokens)(const br_auto_config *config);
    /* All classes with a `forward` take packed batches (br_model_input). If it is false, sentence
     * embeddings and pipelines pad their batches. */
    bool packs;

    /* Weights */
    br_key_map keys;
    const char *const *heads; /* prefixes of names that may be missing; the last is NULL */
    const char *pooler;       /* begins the names of the base model that may be missing and that do
                                 not change the last hidden state: "pooler."; NULL: none */
    /* Initializes a weight that is missing in the files. */
    bool (*init)(const br_auto_config *config, const char *name, br_tensor *weight);
    /* Parts of names of weights that stay in f32 in a model of f16, because f16 cannot represent
     * the results of their layer, such as "wo"; the last is NULL. */
    const char *const *kept_in_f32;
    /* Weights are tied unless a file has different values for them, whatever tie_word_embeddings
     * says. A family whose config.json has no such key ties in the same way. */
    bool always_ties;

    /* How GGUF files describe the models. NULL: they cannot be loaded from such a file. */
    const br_gguf_format *gguf;

    /* Limits and saving of config.json */
    /* Keys of numbers of layers, each of which has weights; the last is NULL. A file must have as
     * many weights as layers before more than 1024 layers are made. */
    const char *const *layers;
    const br_config_rows *rows; /* the last has no key */
    /* Returns a key of config.json for which two modules of a class were made with different
     * values, or NULL. Compares only values that determine results and no shape. The modules' state
     * dicts have the same names and shapes. The function is NULL if there are no such keys. */
    const char *(*differing_key)(br_module *a, br_module *b);
} br_model_family;

/* Adds a family for the rest of the process, in any thread. `family` and what it points to must
 * live as long. Adding it again has no effect. Returns false and an error if a field is missing, or
 * if another family has the same model_type or a class of the same name. */
BR_API bool br_register_model_family(const br_model_family *family);
/* Returns the i-th family, first those of the zoo, then the registered ones; NULL after the last.
 */
BR_API const br_model_family *br_model_family_at(int i);
/* Returns the family with this model_type, or NULL without an error. */
BR_API const br_model_family *br_model_family_find(const char *model_type);
/* Returns the family's first class with this task, or NULL without an error. */
BR_API const br_model_class *br_model_class_for(const br_model_family *family, br_model_task task);

/* The families of the zoo, which models/families.c lists; the last is NULL. pretrained/ reaches the
 * models only through this table, so it does not depend on models/. */
extern const br_model_family *const br_model_families[];

#ifdef __cplusplus
}
#endif

#endif
