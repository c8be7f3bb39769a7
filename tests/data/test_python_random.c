/* Python's random, compared with values recorded from CPython (record_python_random.py). */
#include "tests/data/python_random_values.h"
#include "tests/support.h"

#include <brasa/data.h>
#include <inttypes.h>

TestSuite(python_random, .init = check_begin, .fini = check_end);

static void check_drawn(const struct drawn *d)
{
    br_python_random *random = br_python_random_new(d->seed);
    cr_assert_eq(br_python_random_random(random), d->first, "seed %" PRIu64, d->seed);
    for (int i = 0; i < N_BOUNDS; i++)
        cr_assert_eq(br_python_random_randrange(random, bounds[i]), d->randrange[i],
                     "seed %" PRIu64 ", randrange(%" PRId64 ")", d->seed, bounds[i]);
    for (int i = 0; i < N_RANGES; i++)
        cr_assert_eq(br_python_random_randint(random, ranges[i][0], ranges[i][1]), d->randint[i],
                     "seed %" PRIu64 ", randint(%" PRId64 ", %" PRId64 ")", d->seed, ranges[i][0],
                     ranges[i][1]);
    int64_t order[N_ORDER];
    for (int i = 0; i < N_ORDER; i++)
        order[i] = i;
    br_python_random_shuffle(random, N_ORDER, order);
    cr_assert_arr_eq(order, d->order, sizeof order, "seed %" PRIu64, d->seed);
    double sum = 0;
    for (int i = 0; i < 1000; i++)
        sum += br_python_random_random(random);
    cr_assert_eq(sum, d->sum_of_1000, "seed %" PRIu64, d->seed);
    cr_assert_eq(br_python_random_random(random), d->last, "seed %" PRIu64, d->seed);
    br_python_random_free(random);
}

Test(python_random, numbers_equal_cpython)
{
    for (size_t i = 0; i < sizeof drawn / sizeof *drawn; i++)
        check_drawn(&drawn[i]);
    cr_assert_not(br_failed(), "%s", br_error_message());
}

Test(python_random, leaves_the_threads_generator_alone)
{
    br_manual_seed(5);
    uint32_t want = br_random_u32();
    br_manual_seed(5);
    br_python_random *random = br_python_random_new(6);
    br_python_random_random(random);
    cr_assert_eq(br_random_u32(), want);
    br_python_random_free(random);
}

Test(python_random, bad_requests_are_refused)
{
    br_python_random *random = br_python_random_new(0);
    check_fails(br_python_random_random(NULL) != 0, "random is NULL");
    check_fails(br_python_random_randrange(random, 0) != 0, "n is 0, must be at least 1");
    check_fails(br_python_random_randint(random, 3, 2) != 0, "the range 3 .. 2");
    check_fails(br_python_random_randint(random, INT64_MIN, INT64_MAX) != 0, "2^64 - 1 integers");
    br_python_random_free(random);
}
