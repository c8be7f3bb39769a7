/* train/finetune.h - what the objectives of `brasa finetune` share: settings, loading the model and
 * adding an adapter, holding examples out, batches, and the folders of the result.
 *
 * An objective is a recipe whose struct begins with a `finetune`. */
#ifndef BRASA_TRAIN_FINETUNE_H
#define BRASA_TRAIN_FINETUNE_H

#include "train/batches.h"
#include "train/train.h"

typedef struct finetune {
    setting_text model_dir;
    int64_t length, batch, epochs;
    double held_out_part;
    bool checkpoint_layers;
    bool lora, use_dora, use_rslora, merge;
    int64_t r;
    double lora_alpha, lora_dropout;
    setting_text target_modules; /* names with commas between them */

    const br_model_family *family;
    const br_model_class *class;
    int64_t limit; /* length, or what the model takes if that is less */
    br_tokenizer *tokenizer;
    br_module *model;
    bool owns_model;             /* finetune_end() frees it */
    br_auto_model_report report; /* of loading the model */

    int64_t held_out, *numbers; /* indices of all examples, the held-out ones first */
    br_dataset *all, *train_set, *held_out_set;
    batches batches, held_out_batches;
    int64_t tokens; /* of the batches that this rank has trained on, with padding */
} finetune;

/* Sets the defaults of both presets. */
void finetune_preset(finetune *f, train_options *options, bool lora, double lr);
void finetune_add_settings(finetune *f, settings *s);

/* Finds the class of the model's family for a task, and loads the tokenizer. `what` says in a
 * message what the family lacks, such as "no language model that predicts the next token". */
bool finetune_begin(finetune *f, br_model_task task, const char *what);
/* Loads the model in that dtype, adds the adapter of the settings, and prepares it for training.
 * `overrides` replace keys of its config.json, or are NULL. With `new_head`, a head that the files
 * lack, or have for other labels, is initialized, and an adapter trains the heads whole. */
bool finetune_load(finetune *f, br_dtype dtype, const char *overrides, bool new_head);

/* Does the same with a model that the caller has loaded and owns. */
bool finetune_adapt(finetune *f, br_module *model, bool new_head);

/* Texts as tokens, for models that read a batch of ids, token types and a mask. */
enum { FINETUNE_IDS, FINETUNE_TYPE_IDS, FINETUNE_MASK, FINETUNE_ENCODED }; /* i64 [n] each */
typedef struct finetune_encodings {
    int64_t n;
    br_encoding **items;
    int64_t n_tokens, cut; /* number of texts that were cut */
} finetune_encodings;
/* Makes room for n texts, which are then encoded in turn, as transformers' tokenizers do with
 * truncation=True; `pair` may be NULL. Return false with an error on failure. */
bool finetune_encodings_begin(finetune_encodings *e, int64_t n);
bool finetune_encode(const finetune *f, finetune_encodings *e, int64_t i, const br_text *text,
                     const br_text *pair);
void finetune_encodings_end(finetune_encodings *e);
/* Stores the tensors of text i in fields[], FINETUNE_ENCODED of them. */
void finetune_fields(const finetune_encodings *e, int64_t i, br_tensor **fields);
/* Returns the batch of such fields. */
br_token_batch finetune_batch(br_tensor *const *fields);
/* Returns the id that pads a text. */
double finetune_padding(const finetune *f);

/* The examples of an objective. */
typedef struct finetune_data {
    int64_t count;
    int n_fields;
    br_dataset_get_fn get;
    void *context;
    /* Returns the number of tokens of example i. NULL: batches are drawn at random; otherwise they
     * have examples of similar length. */
    int64_t (*length)(const void *context, int64_t i);
    const double *padding; /* of each field */
} finetune_data;

/* Holds examples out, at random by the seed but at least one to train on, and opens the batches. */
bool finetune_open(finetune *f, const finetune_data *data, int64_t workers);

/* Calls `add` with each batch of held-out examples, in a scope of its own: it adds the batch's
 * loss, and what else is averaged, times their weight to sums[0], sums[1], ... */
void finetune_each_held_out(finetune *f,
                            void (*add)(void *context, br_tensor *const *batch, double *sums),
                            void *context, double *sums);

/* The result of a run. */
typedef struct finetune_result {
    const char *folder;
    const char *command, *argument; /* that use it: "generate", "PROMPT" */
    const char *overrides;          /* of the model's config.json, or NULL */
    const char *task_type;          /* peft's name of the task */
    FILE *out;                      /* gets the names of the folders unless it is NULL */
} finetune_result;
/* Writes the adapter, the whole model, or both, to folders in result->folder. An adapter alone does
 * not have `overrides`, so no command is named for it then. */
bool finetune_save(const finetune *f, const finetune_result *result);

void finetune_end(finetune *f);

/* The functions of a recipe that are the same for all objectives; `self` begins with a finetune. */
int64_t finetune_default_batches(const void *self);
int64_t finetune_tokens(const void *self);
void finetune_describe(void *self, FILE *out);
#define FINETUNE_FUNCTIONS                                                                  \
    .addends = (const char *const[]){ NULL }, .loads_dtype = true, .saves_trainable = true, \
    .default_batches = finetune_default_batches, .describe = finetune_describe,             \
    .tokens = finetune_tokens

#endif
