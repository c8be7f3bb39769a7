/* tests/ops/linalg/linalg.h - helpers for the tests of linear algebra. */
#ifndef BR_TESTS_LINALG_H
#define BR_TESTS_LINALG_H

#include "tests/ops/cases.h"

static inline void skip_without_lapack(void)
{
    if (!case_can_run(&(op_case){ .lapack = true }))
        cr_skip_test("LAPACK is missing: install liblapack3");
}

static inline br_tensor *matrix(double a, double b, double c, double d)
{
    return br_from_f64(BR_SHAPE(2, 2), (double[]){ a, b, c, d });
}

static inline br_tensor *transpose(br_tensor *a)
{
    return br_transpose(a, -2, -1);
}

/* Asserts that the elements of a and b differ by at most `tolerance`; fails for NaN. */
#define check_near(a, b, tolerance)                                                      \
    do {                                                                                 \
        br_tensor *near_a = (a), *near_b = (b);                                          \
        cr_expect(br_allclose(near_a, near_b, 0, tolerance), "%s is not %s: %s", #a, #b, \
                  br_error_message());                                                   \
    } while (0)

#endif
