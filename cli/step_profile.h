/* cli/step_profile.h - `--profile`: some steps of a run, after a warm-up. */
#ifndef BRASA_CLI_STEP_PROFILE_H
#define BRASA_CLI_STEP_PROFILE_H

#include <brasa/brasa.h>

enum { STEP_PROFILE_DEFAULT = 3, STEP_PROFILE_WARM_UP = 3 };

typedef struct step_profile {
    int64_t steps; /* wanted; 0: none, and then nothing below does anything */
    int64_t begun, profiled;
    br_profile *profile;
} step_profile;

/* Around each step of the run; what comes in between is not recorded. */
bool step_profile_before(step_profile *s);
bool step_profile_after(step_profile *s);
/* Prints the tables with the machine's limits, which are measured now, and writes the trace unless
 * its path is NULL. An error if the run was too short. */
bool step_profile_report(step_profile *s, const char *trace);
void step_profile_end(step_profile *s);

#endif
