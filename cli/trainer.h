/* cli/trainer.h - the state of a training run, and one step of it (cli/train_step.c). */
#ifndef BRASA_CLI_TRAINER_H
#define BRASA_CLI_TRAINER_H

#include "cli/step_profile.h"
#include "cli/tensorboard.h"
#include "cli/train.h"
#include "cli/train_log.h"

typedef struct trainer {
    const recipe *recipe;
    void *self;
    train_options options;
    settings settings;
    br_module *model;
    br_optim *optim;
    br_scheduler *plateau; /* lowers the rate when the metric stays; NULL: it has a course */
    double rate;           /* of the last step */
    char *out, *checkpoint, *log_path, *plot, *metrics_plot, *trace;
    char data_hash[17]; /* of the text that it trains on */
    train_log log;
    event_file events;
    step_profile profile;
    br_named_list *parameters; /* of the model */
    bool exhausted;            /* the metric has not become better for as long as patience says */
    int64_t step, saved;       /* steps done, and at the last checkpoint; -1: none */
} trainer;

/* One step; its losses, before the update, go to values. */
bool trainer_step(trainer *t, double *values);
/* Measures the model where it is time for it; elsewhere the metrics are NaN. */
void trainer_evaluate(trainer *t, double *metrics);
/* The line of the log, and the event, of the step that was done. */
bool trainer_record(trainer *t, const double *values, double seconds);
/* Whether the first metric, a loss, has had its least value too many evaluations ago. */
bool trainer_is_exhausted(const trainer *t);

#endif
