/* train/trainer.h - the state of a training run, and the functions of one step
 * (train/train_step.c). */
#ifndef BRASA_TRAIN_TRAINER_H
#define BRASA_TRAIN_TRAINER_H

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
    event_file events;
    step_profile profile;
    br_named_list *parameters; /* of the model */
    bool exhausted;            /* trainer_is_exhausted() after the last step */
    int64_t step, saved;       /* steps done, and those at the last checkpoint; -1: none */
} trainer;

/* Runs one step; stores the losses before the update in values. Returns false on error. */
bool trainer_step(trainer *t, double *values);
/* Evaluates the model if the step is a multiple of eval_every; otherwise sets the metrics to
 * NaN. */
void trainer_evaluate(trainer *t, double *metrics);
/* Writes the last step's log line and TensorBoard event. */
bool trainer_record(trainer *t, const double *values, double seconds);
/* Returns whether the first metric, a loss, has had no new minimum for `patience` evaluations. */
bool trainer_is_exhausted(const trainer *t);

#endif
