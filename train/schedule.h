/* train/schedule.h - the learning-rate schedule of a training run: warm-up, then a constant or
 * decreasing rate. The rate of a step depends only on the settings and the step's number, so that a
 * run can be resumed. "plateau" is an exception: there, a br_scheduler lowers the optimizer's
 * rate. */
#ifndef BRASA_TRAIN_SCHEDULE_H
#define BRASA_TRAIN_SCHEDULE_H

#include "train/settings.h"

enum {
    SCHEDULE_CONSTANT,
    SCHEDULE_INVERSE_ROOT, /* 1 / sqrt(step) */
    SCHEDULE_LINEAR,       /* to 0 */
    SCHEDULE_COSINE,       /* to 0, along half a cosine wave */
    SCHEDULE_PLATEAU,      /* lowered when the metric stops decreasing */
};
/* The names of the schedules; ends with NULL. */
extern const char *const schedule_names[];

typedef struct schedule {
    double lr;                /* the largest rate */
    int64_t warmup;           /* steps of linear warm-up; 0: none */
    setting_choice decay;     /* the schedule after the warm-up */
    int64_t decay_steps;      /* steps of the decay to 0; 0: all after the warm-up */
    double plateau_factor;    /* factor that lowers the rate; 0: 0.1 */
    int64_t plateau_patience; /* evaluations without a smaller loss before the rate is lowered */
} schedule;

/* Adds the schedule's settings. Those of plateau are added only if the recipe `evaluates` its
 * model.
 */
void schedule_add_settings(schedule *self, settings *s, bool evaluates);
/* Sets decay_steps, if it is 0, for a run of `steps` steps. A resumed run keeps that value even if
 * its number of steps is different. */
void schedule_settle(schedule *self, int64_t steps);
/* Returns the learning rate of a step, counted from 0. */
double schedule_rate(const schedule *self, int64_t step);

#endif
