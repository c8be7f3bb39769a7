/* train/trainer.h - the state of a training run, and the functions of one step
 * (train/train_step.c). */
#ifndef BRASA_TRAIN_TRAINER_H
#define BRASA_TRAIN_TRAINER_H

#include "train/ranks.h"
#include "train/step_profile.h"
#include "train/tensorboard.h"
#include "train/train.h"
#include "train/train_log.h"

typedef struct trainer {
    const recipe *recipe;
    void *self;
    train_options options;
    settings settings;
    char preset[32]; /* preset of the settings; "": unknown, from an older checkpoint */
    br_module *model;
    br_optim *optim;
    br_scheduler *plateau; /* of the schedule plateau; otherwise NULL */
    double rate;           /* learning rate of the last step */
    char *out, *checkpoint, *log_path, *plot, *metrics_plot, *trace;
    char data_hash[17]; /* XXH3 of the training text, in hex */
    train_log log;
    br_summary_writer *events; /* of rank 0 */
    step_profile profile;
    br_named_list *parameters; /* of the model */
    ranks ranks;
    double *losses;      /* of the batches of a step; see trainer_step() */
    bool stopped;        /* a rank was asked to stop */
    bool exhausted;      /* trainer_is_exhausted() after the last step */
    int64_t step, saved; /* steps done, and those at the last checkpoint; -1: none */
} trainer;

/* Sets the values of a new run with the preset's settings (train/run_settings.c). */
void trainer_begin_settings(trainer *t, const train_request *request);
/* Sets the preset's or the checkpoint's values, and then those of the request. Returns TRAIN_DONE,
 * or the outcome with an error. */
train_outcome trainer_choose_settings(trainer *t, const train_request *request);
/* Returns the settings in the run's checkpoint; NULL with an error on failure. */
json_t *trainer_checkpoint_settings(const trainer *t);
/* Returns the dtype of the parameters. */
br_dtype trainer_dtype(const trainer *t);

/* Runs one step; stores the losses before the update in values. `stop` says that this rank was
 * asked to stop; sets t->stopped if any rank was. Returns false on error. */
bool trainer_step(trainer *t, bool stop, double *values);
/* Returns whether the model is evaluated after this step: a multiple of eval_every. */
bool trainer_is_evaluated(const trainer *t);
/* Evaluates the model on rank 0 if it is evaluated after this step; otherwise sets the metrics to
 * NaN. Returns false on error. */
bool trainer_evaluate(trainer *t, double *metrics);
/* Writes the last step's log line and TensorBoard events. */
bool trainer_record(trainer *t, const double *values, double seconds);
/* Returns whether the first metric, a loss, has had no new minimum for `patience` evaluations. */
bool trainer_is_exhausted(const trainer *t);

/* The metrics of the latest evaluation, and the speed of the last step. */
typedef struct evaluation {
    double metrics[LOG_MAX_VALUES]; /* NaN: none yet */
    int64_t step;
    double tokens_per_second; /* of the last step; 0: not counted */
} evaluation;

/* Reports the progress: the loss, or its terms if there are several, and the latest metrics, with
 * the step of their evaluation if that is not this one, and the speed. */
void trainer_report_progress(const trainer *t, const train_request *request, const double *values,
                             evaluation *latest);

#endif
