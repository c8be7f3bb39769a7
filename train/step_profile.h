/* train/step_profile.h - `--profile`: profiles some steps of a run after warm-up steps. */
#ifndef BRASA_TRAIN_STEP_PROFILE_H
#define BRASA_TRAIN_STEP_PROFILE_H

#include <brasa/brasa.h>

enum { STEP_PROFILE_DEFAULT = 3, STEP_PROFILE_WARM_UP = 3 };

typedef struct step_profile {
    int64_t steps; /* steps to profile; 0: none, and the functions below do nothing */
    int64_t begun, profiled;
    br_profile *profile;
} step_profile;

/* Call these before and after each step of the run; work between steps is not profiled. */
bool step_profile_before(step_profile *s);
bool step_profile_after(step_profile *s);
/* Measures the machine's peak rates, prints the tables on `out`, and writes the trace unless its
 * path is NULL. Returns false with an error if the run was too short. */
bool step_profile_report(step_profile *s, FILE *out, const char *trace);
void step_profile_end(step_profile *s);

#endif
