/* train/step_profile.c - profiles steps of a training run: tables and a trace. */
#include "train/step_profile.h"

#include <inttypes.h>

bool step_profile_before(step_profile *s)
{
    if (s->steps > 0 && s->begun++ == STEP_PROFILE_WARM_UP)
        s->profile = br_profile_begin();
    else if (s->profile && s->profiled < s->steps)
        br_profile_resume(s->profile);
    return !br_failed();
}

bool step_profile_after(step_profile *s)
{
    if (s->profile && s->profiled < s->steps)
        (++s->profiled == s->steps ? br_profile_end : br_profile_pause)(s->profile);
    return !br_failed();
}

static void print_tables(const step_profile *s, FILE *out)
{
    br_peak peak;
    if (!br_measure_peak(BR_F32, &peak))
        return;
    br_empty_cache(); /* frees the memory of the measurement */
    br_profile_print_options o =
        *BR_OPTIONS(br_profile_print, .steps = s->profiled, .min_fraction = 0.001, .peak = &peak);
    fprintf(out, "\n");
    br_profile_print(out, s->profile, &o);
    o.by = BR_PROFILE_BY_MODULE;
    o.sort = BR_PROFILE_SORT_ORDER;
    fprintf(out, "\n");
    br_profile_print(out, s->profile, &o);
    fprintf(out, "\n");
}

bool step_profile_report(step_profile *s, FILE *out, const char *trace)
{
    if (s->steps == 0 || br_failed())
        return !br_failed();
    if (!s->profile) {
        br_raise(BR_ERROR_ARGUMENT,
                 "--profile: the run had %" PRId64
                 " steps, must have more than the %d warm-up steps",
                 s->begun, STEP_PROFILE_WARM_UP);
        return false;
    }
    if (s->profiled == s->steps || br_profile_end(s->profile))
        print_tables(s, out);
    return !br_failed() && (!trace || br_profile_write_trace(s->profile, trace));
}

void step_profile_end(step_profile *s)
{
    br_profile_free(s->profile);
}
