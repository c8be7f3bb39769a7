/* Profiles: where they can begin and end, their overhead, and invalid use. */
#include "tests/memory.h"
#include "tests/profile/profile.h"

#include <pthread.h>
#include <time.h>

TestSuite(profile_use, .init = check_begin, .fini = check_end);

/* ---- Unusual nesting ------------------------------------------------------------------------- */

Test(profile_use, ranges_close_what_is_open_inside)
{
    cr_assert_eq(br_profile_range_begin("nothing runs"), 0);
    br_profile_range_end(0);
    br_profile *p = br_profile_begin();
    char name[] = "load";
    uint64_t outer = br_profile_range_begin(name), inner = br_profile_range_begin("read");
    strcpy(name, "----");
    br_profile_range_end(outer);
    br_profile_range_end(inner);
    uint64_t open = br_profile_range_begin(NULL);
    cr_assert(br_profile_end(p));
    cr_assert_eq(br_profile_count(p), 4);
    cr_assert_str_eq(br_profile_event_at(p, 1)->name, "load");
    cr_assert_eq(br_profile_event_at(p, 2)->parent, 1);
    cr_assert_eq(br_profile_event_at(p, 3)->parent, 0);

    br_profile *later = br_profile_begin();
    br_profile_range_begin("of its own");
    br_profile_range_end(outer);
    br_profile_range_end(open);
    br_profile_range_begin("inside");
    cr_assert(br_profile_end(later));
    cr_assert_eq(br_profile_event_at(later, 2)->parent, 1,
                 "a range of another profile must not close this one");
    br_profile_free(later);
    br_profile_free(p);
}

static int64_t nanoseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1000000000L * t.tv_sec + t.tv_nsec;
}

static void wait(int milliseconds)
{
    nanosleep(&(struct timespec){ .tv_nsec = 1000000L * milliseconds }, NULL);
}

Test(profile_use, pauses_are_left_out)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_ones(BR_SHAPE(4), BR_F32);
    int64_t begun = nanoseconds();
    br_profile *p = br_profile_begin();
    uint64_t range = br_profile_range_begin("range");
    check_fails(br_profile_resume(p), "the profile is not paused");
    cr_assert(br_profile_pause(p));
    check_fails(br_profile_pause(p), "is not running in this thread");
    check_fails(br_profile_count(p) >= 0, "still running");
    br_profile *other = br_profile_begin();
    check_fails(br_profile_resume(p), "a profile is already running in this thread");
    check_fails(br_profile_end(p), "is not running in this thread");
    br_profile_free(other);
    br_neg(x);
    wait(300);
    cr_assert(br_profile_resume(p));
    br_exp(x);
    br_profile_range_end(range);
    cr_assert(br_profile_pause(p));
    wait(300);
    cr_assert(br_profile_end(p), "a paused profile can be ended");
    int64_t all = nanoseconds() - begun;
    cr_assert_eq(br_profile_count(p), 3);
    cr_assert_str_eq(br_profile_event_at(p, 2)->name, "exp");
    cr_assert_eq(br_profile_event_at(p, 2)->parent, 1);
    cr_assert_leq(br_profile_event_at(p, 0)->duration, all - 2 * 300000000);
    cr_assert_leq(br_profile_event_at(p, 1)->duration, all - 2 * 300000000);
    check_fails(br_profile_pause(NULL), "profile is NULL");
    check_fails(br_profile_resume(NULL), "profile is NULL");
    br_profile_free(p);
    br_scope_end(scope);
}

/* A profile can begin and end inside a module, and between forward and backward. */
Test(profile_use, may_begin_and_end_anywhere)
{
    mlp *model = mlp_new();
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_set_requires_grad(br_ones(BR_SHAPE(ROWS, IN), BR_F32), true);
    br_tensor *before = br_sum(mlp_forward(model, x));
    br_module_enter(br_base(model));
    br_profile *p = br_profile_begin();
    br_module_leave(br_base(model), NULL);
    br_backward(before);
    br_module_enter(br_base(model));
    cr_assert(br_profile_end(p));
    br_neg(x);
    br_module_leave(br_base(model), NULL);
    cr_assert_not_null(find(p, "linear", BR_PROFILE_BACKWARD, "", 0),
                       "its forward was not profiled");
    cr_assert_null(find(p, "neg", BR_PROFILE_FORWARD, "", 0));

    /* Forward in one profile, backward in another. */
    br_profile *second = br_profile_begin();
    br_tensor *y = br_sum(mlp_forward(model, x));
    cr_assert(br_profile_end(second));
    br_profile *third = br_profile_begin();
    br_backward(y);
    cr_assert(br_profile_end(third));
    cr_assert_not_null(find(third, "linear", BR_PROFILE_BACKWARD, "", 1));
    br_profile_free(p);
    br_profile_free(second);
    br_profile_free(third);
    br_scope_end(scope);
    br_module_free(br_base(model));
}

/* ---- Errors ---------------------------------------------------------------------------------- */

Test(profile_use, wrong_use_is_refused)
{
    br_profile *p = br_profile_begin();
    check_fails(br_profile_begin(), "profile_begin: a profile is already running in this thread");
    check_fails(br_profile_event_at(p, 0), "still running");
    check_fails(br_profile_count(p) >= 0, "still running");
    check_fails(br_profile_print(stdout, p, NULL), "still running");
    check_fails(br_profile_write_trace(p, "x.json"), "still running");
    cr_assert(br_profile_end(p));
    check_fails(br_profile_end(p), "is not running in this thread");
    check_fails(br_profile_end(NULL), "profile is NULL");
    check_fails(br_profile_event_at(p, 1), "i is 1, must be in 0 .. 0: the profile has 1 events");
    check_fails(br_profile_rows(p, BR_PROFILE_BY_OP, BR_PROFILE_SORT_TIME, NULL), "count is NULL");
    check_fails(br_profile_print(NULL, p, NULL), "stream is NULL");
    check_fails(br_profile_print(stdout, p, BR_OPTIONS(br_profile_print, .steps = -1)),
                "steps is -1");
    check_fails(br_profile_write_trace(p, NULL), "path is NULL");
    check_fails(br_profile_write_trace(p, "/nowhere/trace.json"), "/nowhere/trace.json");
    check_fails(br_measure_peak(BR_F32, NULL), "peak is NULL");
    static const br_dtype others[] = { BR_I64, BR_I32, BR_I8, BR_U8, BR_BOOL, BR_BF16, BR_F16 };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char expected[64];
        snprintf(expected, sizeof expected, "dtype is %s, must be f32 or f64",
                 br_dtype_name(others[i]));
        check_fails(br_measure_peak(others[i], &(br_peak){ 0 }), expected);
    }
    br_profile_free(p);
    br_profile_free(NULL);
    br_profile_free(br_profile_begin()); /* while it is running */
    br_profile *again = br_profile_begin();
    check_ok();

    br_raise(BR_ERROR_STATE, "planted");
    cr_assert_not(br_profile_end(again));
    cr_assert_null(br_profile_begin());
    br_clear_error();
    cr_assert_eq(br_profile_count(again), 1, "it has ended all the same");
    br_profile_free(again);
}

static bool whole_life(void)
{
    br_profile *p = profile_steps(1);
    FILE *nowhere = fopen("/dev/null", "w");
    bool ok =
        p && br_profile_print(nowhere, p, NULL) &&
        br_profile_print(nowhere, p, BR_OPTIONS(br_profile_print, .by = BR_PROFILE_BY_MODULE)) &&
        br_profile_range_begin("none runs") == 0;
    fclose(nowhere);
    br_profile_free(p);
    p = ok ? br_profile_begin() : NULL;
    br_profile_add_span("track", "span", 0, 1);
    ok = p && br_profile_end(p);
    br_profile_free(p);
    return ok;
}

Test(profile_use, every_allocation_may_fail)
{
    fail_in_turn(whole_life, "profile");
}

/* Lost events are an error, and the profile is reported as incomplete. */
Test(profile_use, lost_events_are_reported)
{
    br_set_cache_limit(0);
    cr_assert(br_set_allocator(&(br_allocator){ counted_allocate, counted_deallocate, NULL }));
    counted.left = INT64_MAX;
    br_profile *p = br_profile_begin();
    counted.left = 0;
    while (!br_failed())
        br_profile_range_end(br_profile_range_begin(""));
    cr_assert_eq(br_error_code(), BR_ERROR_MEMORY);
    counted.left = INT64_MAX;
    br_clear_error();
    br_profile_range_end(br_profile_range_begin(""));
    check_fails(br_profile_end(p), "memory ran out after 1024 events");
    check_fails(br_profile_print(stdout, p, NULL), "later ones are missing");
    br_profile_free(p);
    cr_assert_eq(counted_blocks(), 0);
    cr_assert(br_set_allocator(NULL));
}

/* ---- Costs ----------------------------------------------------------------------------------- */

static int64_t allocations_of(int ops, br_tensor *x)
{
    int64_t before = counted.left;
    for (int i = 0; i < ops; i++) {
        br_scope *scope = br_scope_begin();
        br_neg(x);
        br_scope_end(scope);
    }
    return before - counted.left;
}

/* Events need no allocations, except for a new chunk every 1024 events. */
Test(profile_use, events_allocate_nothing)
{
    cr_assert(br_set_allocator(&(br_allocator){ counted_allocate, counted_deallocate, NULL }));
    counted.left = INT64_MAX;
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_ones(BR_SHAPE(8), BR_F32);
    allocations_of(100, x);
    int64_t without = allocations_of(900, x);
    br_profile *p = br_profile_begin();
    cr_assert_eq(allocations_of(900, x), without);
    cr_assert_leq(allocations_of(900, x), without + 2); /* a chunk, and the list of chunks */
    cr_assert(br_profile_end(p));
    cr_assert_eq(br_profile_count(p), 1801);
    br_profile_free(p);
    cr_assert_eq(allocations_of(900, x), without);
    br_scope_end(scope);
    br_thread_cleanup();
    br_empty_cache();
    cr_assert(br_set_allocator(NULL));
}

/* ---- Threads --------------------------------------------------------------------------------- */

static void *profile_alone(void *context)
{
    int64_t n = (intptr_t)context;
    br_profile *p = br_profile_begin();
    for (int64_t i = 0; i < n; i++) {
        br_scope *scope = br_scope_begin();
        br_neg(br_ones(BR_SHAPE(4), BR_F32));
        br_scope_end(scope);
    }
    bool ok = br_profile_end(p) && br_profile_count(p) == 1 + 2 * n;
    br_profile_free(p);
    br_thread_cleanup();
    return ok ? NULL : context;
}

static void *end_elsewhere(void *profile)
{
    bool refused = !br_profile_end(profile) && strstr(br_error_message(), "is not running in this");
    br_clear_error();
    br_thread_cleanup();
    return refused ? NULL : profile;
}

Test(profile_use, each_thread_has_its_own)
{
    enum { THREADS = 3 };
    pthread_t threads[THREADS];
    void *wrong;
    br_profile *p = br_profile_begin();
    for (intptr_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, profile_alone, (void *)(500 + 700 * i));
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &wrong);
        cr_assert_null(wrong);
    }
    pthread_create(&threads[0], NULL, end_elsewhere, p);
    pthread_join(threads[0], &wrong);
    cr_assert_null(wrong);
    cr_assert(br_profile_end(p));
    cr_assert_eq(br_profile_count(p), 1);
    br_profile_free(p);
}
