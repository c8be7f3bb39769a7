/* cli/schedule.c - see schedule.h. */
#include "cli/schedule.h"

#include <math.h>

const char *const schedule_names[] = { "constant", "inverse_root", "linear",
                                       "cosine",   "plateau",      NULL };

void schedule_add_settings(schedule *self, settings *s)
{
    self->course.names = schedule_names;
    if (self->plateau_factor == 0)
        self->plateau_factor = 0.1;
    const setting items[] = {
        { "lr", SETTING_NUMBER, &self->lr, 1e-12, 1e6, false, "learning rate of Adam" },
        { "warmup", SETTING_INTEGER, &self->warmup, 0, 1e9, false,
          "steps over which the rate grows to lr" },
        { "schedule", SETTING_CHOICE, &self->course, 0, 0, false,
          "how it falls then: constant, inverse_root, linear, cosine, plateau" },
        { "decay_steps", SETTING_INTEGER, &self->decay_steps, 0, 1e9, false,
          "over which linear and cosine fall; 0: the run's" },
        { "plateau_factor", SETTING_NUMBER, &self->plateau_factor, 1e-12, 0.999, false,
          "what plateau multiplies the rate by" },
        { "plateau_patience", SETTING_INTEGER, &self->plateau_patience, 0, 1e9, false,
          "evaluations without a smaller loss that plateau bears" },
    };
    for (size_t i = 0; i < sizeof items / sizeof *items; i++)
        settings_add(s, items[i]);
}

void schedule_settle(schedule *self, int64_t steps)
{
    bool falls_to_0 =
        self->course.index == SCHEDULE_LINEAR || self->course.index == SCHEDULE_COSINE;
    if (falls_to_0 && self->decay_steps == 0 && steps > self->warmup)
        self->decay_steps = steps - self->warmup;
}

/* What is left of the largest rate after a part of decay_steps. */
static double left_after(const schedule *self, double part)
{
    if (part >= 1)
        return 0;
    return self->course.index == SCHEDULE_LINEAR ? 1 - part : (1 + cos(M_PI * part)) / 2;
}

double schedule_rate(const schedule *self, int64_t step)
{
    double grown = (double)(step + 1) / (double)(self->warmup + 1);
    if (grown < 1)
        return self->lr * grown;
    switch (self->course.index) {
    case SCHEDULE_CONSTANT:
    case SCHEDULE_PLATEAU: /* at first */
        return self->lr;
    case SCHEDULE_INVERSE_ROOT:
        return self->lr / sqrt(grown);
    default:
        return self->lr *
               left_after(self, (double)(step - self->warmup) / fmax(1, (double)self->decay_steps));
    }
}
