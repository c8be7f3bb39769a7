/* cli/schedule.h - the course of the learning rate in a training run: it grows over the warm-up,
 * and then stays or falls. A step's rate depends on the settings and its number alone, so that a
 * run can go on; but for "plateau", whose rate is the optimizer's, which a br_scheduler lowers. */
#ifndef BRASA_CLI_SCHEDULE_H
#define BRASA_CLI_SCHEDULE_H

#include "cli/settings.h"

enum {
    SCHEDULE_CONSTANT,
    SCHEDULE_INVERSE_ROOT, /* 1 / sqrt(step) */
    SCHEDULE_LINEAR,       /* to 0 */
    SCHEDULE_COSINE,       /* to 0, half a wave */
    SCHEDULE_PLATEAU,      /* when what is measured grows no smaller */
};
/* Their names; ends with NULL. */
extern const char *const schedule_names[];

typedef struct schedule {
    double lr;                /* the largest rate */
    int64_t warmup;           /* steps over which it grows to that, linearly; 0: none */
    setting_choice course;    /* what it does then */
    int64_t decay_steps;      /* over which it falls to 0; 0: all behind the warm-up */
    double plateau_factor;    /* what the rate is multiplied by; 0: 0.1 */
    int64_t plateau_patience; /* evaluations without a smaller loss that are borne before */
} schedule;

void schedule_add_settings(schedule *self, settings *s);
/* Fixes what a run of so many steps falls over, where nothing says that: a run that goes on, with
 * other steps in all, goes on falling likewise. */
void schedule_settle(schedule *self, int64_t steps);
/* Of a step, counted from 0. */
double schedule_rate(const schedule *self, int64_t step);

#endif
