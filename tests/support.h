/* tests/support.h - checks of errors and numbers for all test files, and a fixture that finds
 * leaks. Use it as TestSuite(name, .init = check_begin, .fini = check_end). */
#ifndef BR_TESTS_SUPPORT_H
#define BR_TESTS_SUPPORT_H

#include <brasa/tensor.h>
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t check_live_tensors, check_live_bytes;

/* tests/backends/guarded.c, which only the test program has. */
__attribute__((weak)) void use_test_device(void);

/* A test must end without a pending error, and with as many live tensors and bytes as it began
 * with.
 */
static inline void check_begin(void)
{
    br_clear_error();
    if (use_test_device)
        use_test_device();
    check_live_tensors = br_live_tensors();
    check_live_bytes = br_live_bytes();
}

/* Prints the failure and aborts the test's process. An assertion that fails in a fixture would be
 * printed, but Criterion would still count the test as passed. */
static inline void check_end_fails(const char *what, long long n)
{
    fprintf(stderr, "%lld %s\n", n, what);
    abort();
}

static inline void check_end(void)
{
    if (br_failed()) {
        fprintf(stderr, "%s\n", br_error_message());
        check_end_fails("error is left pending", 1);
    }
    br_thread_cleanup();
    if (br_live_tensors() != check_live_tensors)
        check_end_fails("tensors leaked", br_live_tensors() - check_live_tensors);
    if (br_live_bytes() != check_live_bytes)
        check_end_fails("bytes of tensors leaked", br_live_bytes() - check_live_bytes);
}

/* Asserts that the expression is false or NULL and leaves a pending error whose message contains
 * `part`, then clears the error. */
#define check_fails(expression, part)                                                    \
    do {                                                                                 \
        cr_assert(!(expression), "%s did not fail", #expression);                        \
        cr_assert(br_failed(), "%s failed without an error", #expression);               \
        cr_assert(strstr(br_error_message(), (part)), "%s: message \"%s\" lacks \"%s\"", \
                  #expression, br_error_message(), (part));                              \
        br_clear_error();                                                                \
    } while (0)

/* Same, and the error has this code. */
#define check_fails_with(expression, code, part)                         \
    do {                                                                 \
        cr_assert(!(expression), "%s did not fail", #expression);        \
        cr_assert_eq(br_error_code(), (code), "%s", br_error_message()); \
        check_fails(NULL, part);                                         \
    } while (0)

/* Options for br_gradcheck(): f64 allows tighter tolerances than PyTorch's defaults. */
#define TIGHTLY BR_OPTIONS(br_gradcheck, .atol = 1e-7, .rtol = 1e-5)

/* Asserts that no error is pending. */
#define check_ok() cr_assert(!br_failed(), "%s", br_error_message())

/* Asserts |a - b| <= tolerance; fails for NaN. */
#define check_close(a, b, tolerance)                                                             \
    do {                                                                                         \
        double check_a = (a), check_b = (b);                                                     \
        cr_assert(fabs(check_a - check_b) <= (tolerance), "%s = %.17g, %s = %.17g", #a, check_a, \
                  #b, check_b);                                                                  \
    } while (0)

#endif
