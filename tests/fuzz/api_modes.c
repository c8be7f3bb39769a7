/* tests/fuzz/api_modes.c - actions of the fuzz target api: profiles, random numbers, the default
 * device. */
#include "tests/fuzz/api.h"

static br_profile *profile;
static uint64_t range;

#define ON(i) (a->on[i])

static void begin_profile(const api_args *a)
{
    (void)a;
    br_profile *begun = br_profile_begin(); /* fails if a profile is running */
    api_answer(begun != NULL);
    if (!begun)
        return;
    br_profile_free(profile);
    profile = begun;
}

static void pause_profile(const api_args *a)
{
    if (profile)
        api_answer(ON(0) ? br_profile_pause(profile) : br_profile_resume(profile));
}

static void end_profile(const api_args *a)
{
    (void)a;
    if (profile)
        api_answer(br_profile_end(profile));
}

static void read_profile(const api_args *a)
{
    if (!profile)
        return;
    int64_t n = br_profile_count(profile);
    api_answer(n >= 0);
    if (n > 0)
        api_answer(br_profile_event_at(profile, a->which[0] % n) != NULL);
    int64_t count = 0;
    br_profile_row *rows = br_profile_rows(profile, ON(0) ? BR_PROFILE_BY_MODULE : BR_PROFILE_BY_OP,
                                           (br_profile_sort)(a->which[1] % 6), &count);
    api_answer(rows != NULL);
    br_free(rows);
}

static void free_profile(const api_args *a)
{
    (void)a;
    br_profile_free(profile);
    profile = NULL;
}

static void begin_range(const api_args *a)
{
    uint64_t begun = br_profile_range_begin("range");
    range = ON(0) ? begun : range;
}

static void end_range(const api_args *a)
{
    (void)a;
    br_profile_range_end(range);
}

static void seed(const api_args *a)
{
    br_manual_seed((uint64_t)a->n[0]);
}

static void choose_device(const api_args *a)
{
    br_set_default_device((br_device){ (br_device_type)(a->which[0] % 3), ON(0) });
    api_answer(!br_failed());
}

static const api_action actions[] = {
    begin_profile, pause_profile, end_profile, read_profile,  free_profile,
    begin_range,   end_range,     seed,        choose_device,
};

static void free_all(void)
{
    br_profile_free(profile);
    profile = NULL;
    range = 0;
    br_set_default_device((br_device){ BR_CPU, 0 });
}

const api_part api_modes = { actions, API_COUNT(actions), free_all };
