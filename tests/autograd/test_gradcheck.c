/* Tests of br_gradcheck(): the fast mode, hints at kinks, and mismatches that are only warnings. */
#include "tensor/tensor_internal.h"
#include "tests/backends/guarded.h"
#include "tests/support.h"

#include <brasa/autograd.h>
#include <brasa/ops.h>
#include <string.h>

/* Multiplies by a mask without telling autograd, so that the gradient is 1 where it must be 3. */
static br_tensor *wrong_at_one(br_tensor *const *inputs, int n, void *calls)
{
    (void)n;
    if (calls)
        ++*(int *)calls;
    br_tensor *y = br_mul(inputs[0], br_scalar(1, BR_F64));
    br_tensor *hidden = br_mul(br_detach(inputs[0]), br_scalar(2, BR_F64));
    br_tensor *mask = br_zeros_like(inputs[0]);
    br_data_f64(mask)[6] = 1; /* [1, 2] */
    return br_add(y, br_mul(hidden, mask));
}

static br_tensor *cube(br_tensor *const *inputs, int n, void *calls)
{
    (void)n;
    ++*(int *)calls;
    return br_mul(inputs[0], br_mul(inputs[0], inputs[0]));
}

static br_tensor *relu(br_tensor *const *inputs, int n, void *context)
{
    (void)n, (void)context;
    return br_relu(inputs[0]);
}

static br_tensor *input(double first)
{
    br_tensor *x = br_rand(BR_SHAPE(3, 4), BR_F64);
    br_data_f64(x)[0] = first;
    return br_set_requires_grad(x, true);
}

Test(gradcheck, the_fast_mode_calls_the_function_three_times)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = input(0.5), *before = br_clone(br_detach(x));
    int calls = 0;
    const br_gradcheck_options *fast = BR_OPTIONS(br_gradcheck, .fast_mode = true);
    cr_assert(br_gradcheck(cube, &calls, 1, &x, fast), "%s", br_error_message());
    cr_assert_eq(calls, 3); /* one for the gradient, two for the difference */
    cr_assert(br_equal(br_detach(x), before), "the input is restored to the bit");
    calls = 0;
    cr_assert(br_gradcheck(cube, &calls, 1, &x, NULL), "%s", br_error_message());
    cr_assert_eq(calls, 25);
    cr_assert(br_gradgradcheck(cube, &calls, 1, &x, fast), "%s", br_error_message());
    br_scope_end(scope);
}

/* Returns x times factors[0] + factors[1], with a gradient of factors[0] alone. */
static br_tensor *scaled_in_secret(br_tensor *const *inputs, int n, void *factors)
{
    (void)n;
    const double *f = factors;
    return br_add(br_mul_scalar(inputs[0], f[0]), br_mul_scalar(br_detach(inputs[0]), f[1]));
}

/* As in PyTorch, |gradient - difference| may be atol + rtol |difference|. */
Test(gradcheck, rtol_is_relative_to_the_difference)
{
    br_scope *scope = br_scope_begin();
    const br_gradcheck_options *loose = BR_OPTIONS(br_gradcheck, .rtol = 0.6, .atol = 0);
    br_tensor *x = input(0.5);
    double larger_difference[] = { 1, 1 }, larger_gradient[] = { 2, -1 };
    cr_assert(br_gradcheck(scaled_in_secret, larger_difference, 1, &x, loose), "%s",
              br_error_message());
    check_fails(br_gradcheck(scaled_in_secret, larger_gradient, 1, &x, loose), "gradcheck: ");
    br_scope_end(scope);
}

Test(gradcheck, the_fast_mode_names_the_wrong_element)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = input(0.5);
    cr_assert_not(
        br_gradcheck(wrong_at_one, NULL, 1, &x, BR_OPTIONS(br_gradcheck, .fast_mode = true)));
    cr_assert(strstr(br_error_message(), "input 0, element [1, 2]: gradient "), "%s",
              br_error_message());
    cr_assert_not(strstr(br_error_message(), "kink"), "%s", br_error_message());
    br_clear_error();
    br_scope_end(scope);
}

Test(gradcheck, a_kink_is_named)
{
    br_scope *scope = br_scope_begin();
    br_tensor *at = input(0), *near = input(3e-7);
    cr_assert_not(br_gradcheck(relu, NULL, 1, &at, NULL));
    cr_assert(strstr(br_error_message(), "disagree, so the function may have a kink here"), "%s",
              br_error_message());
    br_clear_error();
    cr_assert_not(br_gradcheck(relu, NULL, 1, &near, NULL));
    cr_assert(strstr(br_error_message(), "with eps = 1e-08 they agree"), "%s", br_error_message());
    br_clear_error();
    br_scope_end(scope);
}

static int warnings;

static void count_warnings(br_error code, const char *message, void *context)
{
    (void)context;
    warnings += code == BR_WARNING && strstr(message, "gradcheck: input 0, element [1, 2]");
}

/* A mismatch is a warning if an option says so: later calls work, and a later check, too. */
Test(gradcheck, a_mismatch_can_be_a_warning)
{
    const br_gradcheck_options *options = BR_OPTIONS(br_gradcheck, .raise_exception = false);
    br_scope *scope = br_scope_begin();
    br_tensor *x = input(0.5);
    int calls = 0;
    br_set_error_callback(count_warnings, NULL);
    cr_assert_not(br_gradcheck(wrong_at_one, NULL, 1, &x, options));
    cr_assert_eq(warnings, 1);
    cr_assert_not(br_failed());
    cr_assert(br_gradcheck(cube, &calls, 1, &x, options), "%s", br_error_message());
    cr_assert_not(br_gradcheck(wrong_at_one, NULL, 0, NULL, options));
    cr_assert(br_failed(), "other errors stay errors");
    br_clear_error();
    br_set_error_callback(NULL, NULL);
    br_scope_end(scope);
}

static br_tensor *product(br_tensor *const *inputs, int n, void *context)
{
    (void)n, (void)context;
    return br_mul(inputs[0], br_mul(inputs[0], inputs[0]));
}

/* The checks of a function that uses no random numbers leave the generator as it is. */
Test(gradcheck, the_generator_is_left_alone)
{
    br_scope *scope = br_scope_begin();
    br_rng_state before, after;
    br_tensor *x = input(0.5);
    br_get_rng_state(&before);
    cr_assert(br_gradcheck(product, NULL, 1, &x, NULL), "%s", br_error_message());
    br_get_rng_state(&after);
    cr_assert_eq(memcmp(&before, &after, sizeof before), 0);
    cr_assert(br_gradgradcheck(product, NULL, 1, &x, NULL), "%s", br_error_message());
    br_get_rng_state(&after);
    cr_assert_eq(memcmp(&before, &after, sizeof before), 0);
    br_scope_end(scope);
}

/* ---- Elements of the input ------------------------------------------------------------------- */

/* relu(), but fails when the countdown reaches 0. */
static br_tensor *relu_or_failure(br_tensor *const *inputs, int n, void *countdown)
{
    (void)n;
    if (--*(int *)countdown == 0)
        return br_raise(BR_ERROR_STATE, "the countdown has ended"), NULL;
    return br_relu(inputs[0]);
}

/* The element at the kink is compared, then moved again by two steps to explain the mismatch. */
Test(gradcheck, a_failure_at_any_call_restores_the_input)
{
    for (int calls = 1; calls <= 9; calls++) {
        br_scope *scope = br_scope_begin();
        br_tensor *x = input(0), *before = br_clone(br_detach(x));
        int countdown = calls;
        cr_assert_not(br_gradcheck(relu_or_failure, &countdown, 1, &x, NULL));
        br_clear_error();
        cr_assert(br_equal(br_detach(x), before), "call %d", calls);
        br_scope_end(scope);
    }
}

static void (*guarded_entry)(const br_tensor *dst, const br_tensor *src);
static int copies;

static void count_copy(const br_tensor *dst, const br_tensor *src)
{
    copies++;
    guarded_entry(dst, src);
}

Test(gradcheck, the_backend_changes_the_elements)
{
    br_scope *scope = br_scope_begin();
    static br_backend elsewhere;
    const br_device device = guarded_copy(&elsewhere, "elsewhere");
    guarded_entry = elsewhere.copy;
    elsewhere.copy = count_copy;
    br_tensor *x = br_set_requires_grad(br_to_device(br_detach(input(0.5)), device), true);
    int calls = 0;
    copies = 0;
    cr_assert(br_gradcheck(cube, &calls, 1, &x, NULL), "%s", br_error_message());
    cr_assert_eq(copies, 3 * 12); /* up, down and back */
    br_scope_end(scope);
}
