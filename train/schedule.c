/* train/schedule.c - see schedule.h. */
#include "train/schedule.h"

#include <math.h>

const char *const schedule_names[] = { "constant", "inverse_root", "linear",
                                       "cosine",   "plateau",      NULL };

void schedule_add_settings(schedule *self, settings *s, bool evaluates)
{
    self->decay.names = schedule_names;
    if (self->plateau_factor == 0)
        self->plateau_factor = 0.1;
    const setting items[] = {
        { "lr", SETTING_NUMBER, &self->lr, 1e-12, 1e6, false, "learning rate of Adam" },
        { "warmup", SETTING_INTEGER, &self->warmup, 0, 1e9, false,
          "steps of linear warm-up to lr; 0: none" },
        { "schedule", SETTING_CHOICE, &self->decay, 0, 0, false,
          "after the warm-up: constant, inverse_root, linear, cosine, plateau" },
        { "decay_steps", SETTING_INTEGER, &self->decay_steps, 0, 1e9, false,
          "steps over which linear and cosine decay to 0; 0: the rest of the run" },
    };
    const setting of_plateau[] = {
        { "plateau_factor", SETTING_NUMBER, &self->plateau_factor, 1e-12, 0.999, false,
          "factor by which plateau multiplies the rate" },
        { "plateau_patience", SETTING_INTEGER, &self->plateau_patience, 0, 1e9, false,
          "evaluations without a smaller loss before plateau lowers the rate" },
    };
    for (size_t i = 0; i < sizeof items / sizeof *items; i++)
        settings_add(s, items[i]);
    for (size_t i = 0; evaluates && i < sizeof of_plateau / sizeof *of_plateau; i++)
        settings_add(s, of_plateau[i]);
}

void schedule_settle(schedule *self, int64_t steps)
{
    bool falls_to_0 = self->decay.index == SCHEDULE_LINEAR || self->decay.index == SCHEDULE_COSINE;
    if (falls_to_0 && self->decay_steps == 0 && steps > self->warmup)
        self->decay_steps = steps - self->warmup;
}

/* Returns the rate, as a fraction of the largest rate, after the fraction `part` of decay_steps. */
static double left_after(const schedule *self, double part)
{
    if (part >= 1)
        return 0;
    return self->decay.index == SCHEDULE_LINEAR ? 1 - part : (1 + cos(M_PI * part)) / 2;
}

double schedule_rate(const schedule *self, int64_t step)
{
    double grown = (double)(step + 1) / (double)(self->warmup + 1);
    if (grown < 1)
        return self->lr * grown;
    switch (self->decay.index) {
    case SCHEDULE_CONSTANT:
    case SCHEDULE_PLATEAU: /* until the scheduler lowers it */
        return self->lr;
    case SCHEDULE_INVERSE_ROOT:
        return self->lr / sqrt(grown);
    default:
        return self->lr *
               left_after(self, (double)(step - self->warmup) / fmax(1, (double)self->decay_steps));
    }
}
