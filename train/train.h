/* train/train.h - trains the models of the recipes. */
#ifndef BRASA_TRAIN_TRAIN_H
#define BRASA_TRAIN_TRAIN_H

#include "train/schedule.h"

#include <brasa/brasa.h>
#include <signal.h>

/* Choices of the setting `amp`. */
enum { AMP_OFF, AMP_BF16 };
/* Choices of the setting `half_update`. */
enum { HALF_MASTER, HALF_STOCHASTIC };

/* Options that all recipes have; each recipe sets its own defaults. */
typedef struct train_options {
    int64_t steps, seed, checkpoint_every;
    setting_choice matmul_precision; /* of br_set_float32_matmul_precision() */
    setting_choice amp;              /* of the forward pass: AMP_OFF, AMP_BF16 */
    setting_choice dtype;            /* of the parameters */
    setting_choice half_update;      /* of bf16 and f16 parameters: HALF_MASTER, ... */
    schedule schedule;
    int64_t accumulate; /* batches per step, whose gradients are averaged; 0: one per rank */
    int64_t zero_stage; /* what is divided among the ranks: ZERO_NOTHING, ... (train/ranks.h) */
    double clip;        /* largest norm of the gradients; 0: no limit */
    int64_t workers;    /* threads that prefetch batches; 0: none */
    int64_t eval_every; /* steps between evaluations, if the recipe evaluates */
    int64_t histograms; /* steps between distributions for TensorBoard; 0: none */
    int64_t show_every; /* steps between printed predictions; 0: only at the end */
    int64_t patience; /* evaluations without a smaller first metric that end the run; 0: no limit */
} train_options;

/* Returns the dtype of the parameters. */
br_dtype train_dtype(const train_options *options);

/* A recipe trains one model on one task; `self` is its own struct, initialized to zero. */
typedef struct recipe {
    const char *name, *summary;
    const char *data;       /* the recipe's own text, a file in data/; NULL: none */
    const char *needs_data; /* what --data must name if `data` is NULL; NULL: data is generated */
    const char *const *presets; /* ends with NULL; the first is the default */
    const char *const *addends; /* names of the loss's terms for the log, ends with NULL */
    const char *const *metrics; /* names of evaluate()'s metrics, a loss first; ends with NULL */
    size_t size;                /* of self */
    /* Sets self and the options to the values of a preset. */
    void (*preset)(void *self, const char *preset, bool as_written, train_options *options);
    void (*settings)(void *self, settings *s);
    bool loads_dtype;     /* prepare() makes the model in train_dtype(); else it is converted */
    bool saves_trainable; /* checkpoints have only the parameters that require grad */
    /* Creates the data and the model. Returns the model, which self owns; NULL on error. Uses the
     * seeded random generator. `text` is NULL if there is no file. */
    br_module *(*prepare)(void *self, const train_options *options, const char *text,
                          size_t length);
    /* Returns the number of batches of a run whose setting steps is 0. NULL: it has no steps. */
    int64_t (*default_batches)(const void *self);
    /* Prints warnings about the model before the first step. The field may be NULL. */
    void (*describe)(void *self, FILE *out);
    /* Returns the number of tokens that the batches of this rank had so far. NULL: not counted. */
    int64_t (*tokens)(const void *self);
    /* Returns the loss of a batch, counted from 0, and stores its terms. The data depend only on
     * the seed and the batch's number, so that a run can be resumed. */
    br_tensor *(*loss)(void *self, int64_t batch, br_tensor **addends);
    /* Evaluates the model, in evaluation mode and without gradients, on data that is not used for
     * training. Does not use the random generator. NULL if there are no metrics. */
    void (*evaluate)(void *self, double *metrics);
    /* Prints predictions of the model. Does not use the random generator. */
    void (*show)(void *self, FILE *out);
    /* Writes the result of a run that has done all its steps to its directory, and its name to
     * `out` unless it is NULL. Returns false on error. The field may be NULL. */
    bool (*finish)(void *self, const char *directory, FILE *out);
    /* Runs the model, in evaluation mode and without gradients, on `text`, or on the recipe's own
     * example if `text` is NULL. Returns the attention, NULL on error. The field is NULL if this is
     * not supported. */
    br_attention *(*attend)(void *self, const char *text);
    /* Returns the vocabulary to store in the checkpoint. NULL if there is none. */
    const br_vocab *(*words)(const void *self);
    void (*destroy)(void *self);
} recipe;

/* The recipes (train/recipes.c). */
extern const recipe recipe_bert_scratch, recipe_copy_task, recipe_vanilla, recipe_classifier,
    recipe_gpt;
/* The objectives of `brasa finetune` (train/finetune.h), which are not in train_recipes. */
extern const recipe recipe_finetune_text, recipe_finetune_labels, recipe_finetune_pairs,
    recipe_finetune_preference;
typedef struct train_objective {
    const char *name;
    const recipe *recipe;
} train_objective;
extern const train_objective
    train_objectives[]; /* the first is the default; the last has no name */
extern const recipe *const train_recipes[];
extern const int train_num_recipes;
/* Returns the recipe of that name, or NULL. */
const recipe *train_find_recipe(const char *name);
/* Returns whether the recipe has a preset of that name. */
bool train_has_preset(const recipe *r, const char *name);

typedef struct assignment {
    const char *key, *value; /* if key is NULL, value is KEY=VALUE */
} assignment;

typedef struct train_request {
    const recipe *recipe;
    const char *preset, *out,
        *data; /* NULL: the default or the checkpoint's; for data, the recipe's */
    bool as_written, resume, overwrite;
    int64_t profile; /* steps to profile; 0: none */
    int n_assignments;
    assignment *assignments;
    /* The run's size, predictions, tables of the profile, names of the files; NULL: not written. */
    FILE *report;
    /* Called before the first step, after each step with its losses as text, and after the last
     * one. `end` is also called before a text is written during the run. */
    void (*begin)(void *context, int64_t step, int64_t steps);
    void (*progress)(void *context, int64_t step, const char *text);
    void (*end)(void *context);
    void *context;
    const volatile sig_atomic_t *stop; /* the run stops after the current step if it is not 0 */
} train_request;

typedef enum train_outcome {
    TRAIN_DONE,
    TRAIN_STOPPED, /* by `stop`, before the last step */
    TRAIN_FAILED,  /* an error is pending */
    TRAIN_REFUSED, /* an error is pending: the request is invalid */
} train_outcome;

/* Trains, and stores the number of steps that the run has done in *step. */
train_outcome train_run(const train_request *request, int64_t *step);
/* Returns the attention of a checkpoint's model for `text`, as a recipe's attend() does, computed
 * in `dtype`, or in the dtype of the run with BR_DTYPE_AUTO; NULL with an error on failure. */
br_attention *train_attend(const char *checkpoint, br_dtype dtype, const char *text);
/* Returns the recipe of the run in a directory; NULL with an error on failure. */
const recipe *train_recipe_of_run(const char *directory);
/* Prints the recipe's settings with the preset's values; returns false with an error on failure. */
bool train_describe(const train_request *request, FILE *stream, settings_print_line print);

#endif
