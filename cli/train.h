/* cli/train.h - what a recipe of `brasa train` is. */
#ifndef BRASA_CLI_TRAIN_H
#define BRASA_CLI_TRAIN_H

#include "cli/cli.h"
#include "cli/schedule.h"

/* What every recipe has; its defaults are the recipe's. */
typedef struct train_options {
    int64_t steps, seed, checkpoint_every;
    schedule schedule;
    int64_t accumulate; /* batches of a step, whose gradients are averaged; 0: 1 */
    double clip;        /* the largest norm of a step's gradients; 0: any */
    int64_t workers;    /* threads that read batches ahead; 0: none */
    int64_t eval_every; /* steps from one evaluation to the next, where the recipe has one */
    int64_t patience;   /* evaluations without a better first metric that end the run; 0: any */
} train_options;

/* A recipe trains one model on one task; `self` is its own struct, all zero at first. */
typedef struct recipe {
    const char *name, *summary;
    const char *data;           /* its text, a file of data/; NULL: it has none of its own */
    const char *wants_data;     /* what --data must name then; NULL: the recipe makes its data up */
    const char *const *presets; /* ends with NULL; the first is the default */
    const char *const *addends; /* names of the loss's addends for the log, ends with NULL */
    const char *const
        *metrics; /* names of what evaluate() measures, a loss first; ends with NULL */
    size_t size;  /* of self */
    /* Sets self and the options to a preset's values. */
    void (*preset)(void *self, const char *preset, bool as_written, train_options *options);
    void (*settings)(void *self, settings *s);
    /* Makes data and model, which it returns and self owns. Draws from the generator, which was
     * seeded. `text` is NULL where there is no file. NULL on error. */
    br_module *(*prepare)(void *self, const train_options *options, const char *text,
                          size_t length);
    /* The loss of a batch, counted from 0, and its addends. Its data depend on the seed and the
     * batch's number alone, so that a run can go on. */
    br_tensor *(*loss)(void *self, int64_t batch, br_tensor **addends);
    /* Measures the model, in evaluation mode and without gradients, on what it was not trained on;
     * draws nothing from the generator. NULL where there are no metrics. */
    void (*evaluate)(void *self, double *metrics);
    /* Prints what the model has learned. */
    void (*show)(void *self);
    /* Runs the model, in evaluation mode and without gradients, on a text, or, if that is NULL, on
     * an example of its own: its attention. NULL on error, and where it cannot be. */
    br_attention *(*attend)(void *self, const char *text);
    /* The words of the model's ids, which the checkpoint then has. NULL: there are none. */
    const br_vocab *(*words)(const void *self);
    void (*destroy)(void *self);
} recipe;

extern const recipe recipe_bert_scratch, recipe_copy_task, recipe_vanilla, recipe_classifier;

typedef struct assignment {
    const char *key, *value; /* key NULL: value is KEY=VALUE */
} assignment;

/* What the command line asks for. */
typedef struct train_request {
    const recipe *recipe;
    const char *preset, *out, *data; /* data NULL: the recipe's */
    bool as_written, resume;
    int64_t profile; /* steps to profile, 0: none */
    int n_assignments;
    assignment *assignments;
} train_request;

/* Trains; the exit status. */
int train_run(const train_request *request);
/* What the model of a checkpoint attends to in the text, as recipes' attend(); NULL and an error.
 */
br_attention *train_attend(const char *checkpoint, const char *text);
const recipe *train_find_recipe(const char *name);
/* Prints the recipe's settings with the preset's values. */
int train_describe(const train_request *request);

#endif
