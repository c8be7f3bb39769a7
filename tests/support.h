/* tests/support.h - what every test file leans on: checks of errors and numbers, and a fixture that
 * finds leaks. Use it as TestSuite(name, .init = check_begin, .fini = check_end). */
#ifndef BR_TESTS_SUPPORT_H
#define BR_TESTS_SUPPORT_H

#include <brasa/tensor.h>
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t check_live_tensors, check_live_bytes;

/* A test starts and ends without a pending error, and with as many live tensors and bytes. */
static inline void check_begin(void)
{
    br_clear_error();
    check_live_tensors = br_live_tensors();
    check_live_bytes = br_live_bytes();
}

/* Says what is wrong and ends the test's process: an assertion that fails in a fixture would be
 * printed, but the test would count as passed. */
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

/* The expression gives false or NULL with a pending error whose message contains `part`; the error
 * is then cleared. */
#define check_fails(expression, part)                                                    \
    do {                                                                                 \
        cr_assert(!(expression), "%s did not fail", #expression);                        \
        cr_assert(br_failed(), "%s failed without an error", #expression);               \
        cr_assert(strstr(br_error_message(), (part)), "%s: message \"%s\" lacks \"%s\"", \
                  #expression, br_error_message(), (part));                              \
        br_clear_error();                                                                \
    } while (0)

/* No error is pending. */
#define check_ok() cr_assert(!br_failed(), "%s", br_error_message())

/* |a - b| <= tolerance; false for a NaN. */
#define check_close(a, b, tolerance)                                                             \
    do {                                                                                         \
        double check_a = (a), check_b = (b);                                                     \
        cr_assert(fabs(check_a - check_b) <= (tolerance), "%s = %.17g, %s = %.17g", #a, check_a, \
                  #b, check_b);                                                                  \
    } while (0)

#endif
