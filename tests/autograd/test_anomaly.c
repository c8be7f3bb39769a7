/* tests/autograd/test_anomaly.c - anomaly detection: the error names the operation and module that
 * produced the first NaN or infinity, in forward and backward; intended infinities are ignored. */
#include "tensor/tensor_internal.h"
#include "tests/backends/guarded.h"
#include "tests/ops/cases.h"

#include <brasa/brasa.h>

static void anomaly_end(void)
{
    br_set_detect_anomaly(BR_ANOMALY_OFF);
    check_end();
}

TestSuite(anomaly, .init = check_begin, .fini = anomaly_end);

static br_tensor *values(int n, const double *v, bool requires_grad)
{
    br_tensor *t = br_from_f64(BR_SHAPE(n), v);
    return requires_grad ? br_set_requires_grad(t, true) : t;
}

/* Asserts that an error with this text is pending, whatever the expression returned. */
#define found(expression, part)          \
    do {                                 \
        (void)(expression);              \
        check_fails(!br_failed(), part); \
    } while (0)

Test(anomaly, forward_names_operation_and_element)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = values(3, (double[]){ 1, 0, -1 }, false);
    cr_assert_eq(br_set_detect_anomaly(BR_ANOMALY_NONFINITE), BR_ANOMALY_OFF);
    found(br_exp(br_log(x)), "log: the result [3] has nan at [2], and no input has one");
    br_log(br_abs(x));
    cr_assert_eq(br_error_code(), BR_ERROR_ANOMALY);
    found(0, "log: the result [3] has -inf at [1]");
    cr_assert_eq(br_set_detect_anomaly(BR_ANOMALY_NAN), BR_ANOMALY_NONFINITE);
    cr_assert_not_null(br_exp(br_log(br_abs(x)))); /* exp(-inf) is 0 */
    found(br_exp(br_sqrt(br_sub_scalar(x, 2))), "sqrt: the result [3] has nan at [0]");
    cr_assert_eq(br_set_detect_anomaly(BR_ANOMALY_OFF), BR_ANOMALY_NAN);
    cr_assert_not_null(br_log(x));
    found(br_set_detect_anomaly((br_anomaly)7), "mode 7 is not a value of br_anomaly");
    br_scope_end(scope);
}

/* An infinity of any input is not a new one. */
Test(anomaly, infinities_of_one_input)
{
    br_scope *scope = br_scope_begin();
    br_set_detect_anomaly(BR_ANOMALY_NONFINITE);
    br_tensor *one = values(1, (double[]){ 1 }, false);
    br_tensor *infinite = values(1, (double[]){ INFINITY }, false);
    cr_assert_not_null(br_add(infinite, one), "%s", br_error_message());
    cr_assert_not_null(br_add(one, infinite), "%s", br_error_message());
    cr_assert_not_null(br_cat(3, (br_tensor *[]){ one, infinite, one }, 0), "%s",
                       br_error_message());
    found(br_sub(infinite, infinite), "sub: the result [1] has nan at [0]");
    br_scope_end(scope);
}

Test(anomaly, in_place)
{
    br_scope *scope = br_scope_begin();
    br_set_detect_anomaly(BR_ANOMALY_NONFINITE);
    br_tensor *x = values(1, (double[]){ 1e300 }, false);
    found(br_mul_scalar_(x, 1e300), "mul_scalar_: the result [1] has inf at [0]");
    br_scope_end(scope);
}

/* A single NaN or infinity is found at any place of a long tensor of any dtype. */
Test(anomaly, one_element_of_many)
{
    static const br_dtype dtypes[] = { BR_F32, BR_F64, BR_BF16, BR_F16 };
    static const int64_t places[] = { 0, 255, 256, 300, 511, 512, 999 };
    br_set_detect_anomaly(BR_ANOMALY_NONFINITE);
    for (int d = 0; d < 4; d++) {
        for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
            br_scope *scope = br_scope_begin();
            br_tensor *x = br_ones(BR_SHAPE(1000), dtypes[d]);
            char nan[40], infinite[40];
            snprintf(nan, sizeof nan, "has nan at [%d]", (int)places[i]);
            snprintf(infinite, sizeof infinite, "has -inf at [%d]", (int)places[i]);
            br_fill_(br_narrow(x, 0, places[i], 1), -1);
            found(br_sqrt(x), nan);
            br_fill_(br_narrow(x, 0, places[i], 1), 0);
            found(br_log(x), infinite);
            br_scope_end(scope);
        }
    }
}

/* The device has no entry that looks for NaN. */
Test(anomaly, a_backend_without_the_check_is_an_error)
{
    br_scope *scope = br_scope_begin();
    static br_backend elsewhere;
    const br_device device = guarded_copy(&elsewhere, "elsewhere");
    elsewhere.nonfinite = NULL;
    br_tensor *x = br_to_device(values(2, (double[]){ 1, 2 }, false), device);
    br_set_detect_anomaly(BR_ANOMALY_NAN);
    found(br_mul_scalar_(x, 3), "detect_anomaly: has no kernel on elsewhere");
    br_scope_end(scope);
}

/* Infinities that come from a mask or from the caller's data are not anomalies. A NaN in the
 * caller's data is. */
Test(anomaly, intended_infinities_and_values_from_the_caller)
{
    br_scope *scope = br_scope_begin();
    br_set_detect_anomaly(BR_ANOMALY_NONFINITE);
    br_tensor *x = values(3, (double[]){ 1, 2, 3 }, true);
    br_tensor *mask = br_from_bool(BR_SHAPE(3), (bool[]){ false, true, false });
    br_tensor *infinite = br_masked_fill(x, mask, -INFINITY);
    cr_assert(br_backward(br_sum(br_mul(br_softmax(infinite, 0), x))), "%s", br_error_message());
    br_tensor *added = values(3, (double[]){ 0, -INFINITY, 0 }, false);
    cr_assert_not_null(br_softmax(br_add(x, added), 0), "%s", br_error_message());
    found(br_sub(added, added), "sub: the result [3] has nan at [1], and no input has one");
    br_tensor *nan = values(2, (double[]){ 0, NAN }, false);
    found(br_exp(br_reshape(nan, BR_SHAPE(1, 2))),
          "reshape: the result [1, 2] has nan at [0, 1]: input 0 [2] already had a NaN");
    found(br_masked_fill(br_log(br_mul_scalar(x, 0)), mask, -INFINITY),
          "log: the result [3] has -inf at [0]");
    br_tensor *largest = values(1, (double[]){ 1.7e308 }, false);
    /* An infinite exponent excuses its own call only, whether the result was finite or not. */
    br_tensor *half = values(1, (double[]){ 0.5 }, false);
    for (int i = 0; i < 2; i++) {
        cr_assert_not_null(br_pow_scalar(i ? x : half, INFINITY), "%s", br_error_message());
        found(br_pow_scalar(largest, 2), "pow_scalar: the result [1] has inf at [0]");
    }
    found(br_add(largest, largest), "add: the result [1] has inf at [0]");
    br_gt_scalar(x, INFINITY); /* the scalar is infinite, but the result is bool and not checked */
    found(br_log(br_sub(x, x)), "log: the result [3] has -inf at [0]");
    br_scope_end(scope);
}

/* ---- Backward -------------------------------------------------------------------------------- */

typedef struct scorer {
    br_module base;
    br_linear *linear;
} scorer;

static br_tensor *score(void *self, br_tensor *x)
{
    scorer *s = self;
    br_enter(s);
    br_tensor *y = br_linear_forward(s->linear, x);
    return br_leave(s, br_sqrt(br_mul_scalar(y, 0)));
}

static scorer *make_scorer(void)
{
    scorer *s = br_module_new(scorer);
    s->linear = br_child(s, "linear", br_linear_new(2, 2, true));
    br_module_set_forward(br_base(s), score);
    return s;
}

static br_tensor *score_badly(void *self, br_tensor *x)
{
    br_enter((scorer *)self);
    return br_leave((scorer *)self, br_log(br_neg(br_exp(x))));
}

Test(anomaly, forward_names_the_module)
{
    br_scope *scope = br_scope_begin();
    scorer *bad = make_scorer();
    br_module_set_forward(br_base(bad), score_badly);
    br_sequential *inner = br_sequential_new(BR_MODULES(bad));
    br_sequential *model = br_sequential_new(BR_MODULES(br_tanh_new(), inner));
    br_set_detect_anomaly(BR_ANOMALY_NAN);
    found(br_forward(model, br_ones(BR_SHAPE(2), BR_F32)),
          "1.0: log: the result [2] has nan at [0]");
    br_module_free(model);
    br_scope_end(scope);
}

Test(anomaly, backward_names_the_module_of_forward)
{
    br_scope *scope = br_scope_begin();
    br_sequential *model = br_sequential_new(BR_MODULES(br_tanh_new(), make_scorer()));
    br_tensor *x = br_ones(BR_SHAPE(1, 2), BR_F32);
    for (int k = 0; k < 2; k++) {
        br_set_detect_anomaly(BR_ANOMALY_NONFINITE);
        br_tensor *loss = br_sum(br_forward(model, x));
        found(br_backward(loss), "sqrt: the gradient with respect to input 0 [1, 2] has inf at [0, "
                                 "0]; forward ran in module 1");
        br_module_checkpoint(br_base(model), true); /* the second time with a checkpoint */
    }
    br_set_detect_anomaly(BR_ANOMALY_NAN);
    br_tensor *loss = br_sum(br_forward(model, x)); /* backward computes 0 * inf = NaN */
    found(br_backward(loss), "mul_scalar: the gradient with respect to input 0 [1, 2] has");
    br_module_free(model);
    br_scope_end(scope);
}

static br_tensor *change_a_saved_value(void *self, br_tensor *x)
{
    br_enter((scorer *)self);
    br_tensor *y = br_exp(x), *changed = br_add_scalar_(br_exp(y), 1);
    return br_leave((scorer *)self, br_mul(changed, br_mul_scalar_(y, 2)));
}

Test(anomaly, the_error_of_a_changed_value_names_the_module_of_forward)
{
    br_scope *scope = br_scope_begin();
    scorer *bad = make_scorer();
    br_module_set_forward(br_base(bad), change_a_saved_value);
    br_sequential *model = br_sequential_new(BR_MODULES(br_tanh_new(), bad));
    br_tensor *x = br_set_requires_grad(br_ones(BR_SHAPE(2), BR_F32), true);
    br_set_detect_anomaly(BR_ANOMALY_NAN);
    br_tensor *loss = br_sum(br_forward(model, x));
    br_set_detect_anomaly(BR_ANOMALY_OFF);
    check_fails(br_backward(loss),
                "changed in place by add_scalar_: change a copy (br_clone()), or "
                "use an operation that is not in place; forward ran in module 1");
    br_module_free(model);
    br_scope_end(scope);
}

Test(anomaly, backward_through_a_graph_recorded_before)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = values(1, (double[]){ 0 }, true), *y = br_sqrt(x);
    br_set_detect_anomaly(BR_ANOMALY_NONFINITE);
    found(br_backward(y), "forward ran while anomaly detection was off");
    found(br_backward(br_sqrt(x)), "forward ran outside of any module");
    br_backward_options o =
        *BR_OPTIONS(br_backward, .gradient = values(1, (double[]){ NAN }, false));
    found(br_backward_with(br_exp(x), &o), "exp: the gradient with respect to input 0 [1] has nan "
                                           "at [0], which the gradient of the result already had");
    br_scope_end(scope);
}

/* The gradient of x^(3/2) is 1.5 sqrt(x), whose own gradient is infinite at 0. */
Test(anomaly, gradients_of_gradients)
{
    br_scope *scope = br_scope_begin();
    br_set_detect_anomaly(BR_ANOMALY_NONFINITE);
    br_tensor *x = values(1, (double[]){ 0 }, true), *g, *h;
    br_tensor *y = br_pow_scalar(x, 1.5);
    cr_assert(br_grad(1, &y, 1, &x, &g, BR_OPTIONS(br_grad, .create_graph = true)));
    found(br_grad(1, &g, 1, &x, &h, NULL), "forward ran in the gradient of pow_scalar, outside");
    br_scope_end(scope);
}

Test(anomaly, sums_of_gradients)
{
    br_scope *scope = br_scope_begin();
    br_set_detect_anomaly(BR_ANOMALY_NONFINITE);
    br_tensor *x = values(1, (double[]){ 0 }, true);
    br_tensor *y = br_mul_scalar(x, 1);
    br_tensor *z = br_add(br_mul_scalar(y, 1e308), br_mul_scalar(y, 1e308));
    found(br_backward(z),
          "backward: a sum of gradients [1] has inf at [0], and no summand has one");
    br_scope_end(scope);
}

/* ---- Every operation ------------------------------------------------------------------------- */

static void *poisoned(void *context, size_t size, size_t alignment)
{
    (void)context;
    void *block;
    if (posix_memalign(&block, alignment < 16 ? 16 : alignment, size) != 0)
        return NULL;
    return memset(block, 0xff, size); /* the bits of NaN, so uninitialized elements are NaN */
}

static void give_back(void *context, void *block)
{
    (void)context;
    free(block);
}

/* Uninitialized memory is NaN here, so an operation that recorded its result before computing it
 * would be reported. Finite inputs must have finite gradients. */
Test(anomaly, no_operation_raises_a_false_anomaly)
{
    cr_assert(br_set_allocator(&(br_allocator){ poisoned, give_back, NULL }));
    br_set_cache_limit(0);
    br_set_detect_anomaly(BR_ANOMALY_NONFINITE);
    letter_sizes letters = default_letter_sizes();
    for_each_case(c)
    {
        br_scope *scope = br_scope_begin();
        br_tensor *x[MAX_CASE_INPUTS] = { NULL };
        br_manual_seed(7);
        for (int i = 0; i < case_num_inputs(c); i++) {
            x[i] = case_input(c, i, &letters, BR_F64);
            if (br_is_floating(x[i]) && !c->no_gradient)
                br_set_requires_grad(x[i], true);
        }
        br_tensor *y = c->call(x, case_num_inputs(c), NULL);
        if (y && br_requires_grad(y))
            br_backward_with(y, BR_OPTIONS(br_backward, .gradient = br_ones_like(y)));
        cr_expect(!br_failed(), "%s: %s", c->label, br_error_message());
        br_clear_error();
        br_scope_end(scope);
    }
    br_thread_cleanup();
    cr_assert(br_set_allocator(NULL));
}

/* The NaN of inf - inf is new, although both gradients had infinities before. */
Test(anomaly, sum_of_gradients_with_infinities)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = values(2, (double[]){ 1, 1 }, true);
    br_tensor *h = br_mul_scalar(x, 1), *y[] = { br_mul_scalar(h, 1), br_mul_scalar(h, 1) };
    br_tensor *dy[] = { values(2, (double[]){ INFINITY, INFINITY }, false),
                        values(2, (double[]){ 1, -INFINITY }, false) };
    br_set_detect_anomaly(BR_ANOMALY_NONFINITE);
    found(br_backward_all(2, y, dy, NULL), "a sum of gradients [2] has nan at [1]");
    br_scope_end(scope);
}

static void sum_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    br_tensor *second = br_output_grad(node, 1);
    dx[0] = dy && second ? br_add(dy, second) : dy ? dy : br_clone(second);
}

/* Returns a copy of x and stores another one, as one operation with two outputs. */
static br_tensor *two_copies(br_tensor *x, br_tensor **second)
{
    static const br_op op = { "two_copies", sum_backward, false };
    br_scope *scope = br_no_grad_begin();
    br_tensor *first = br_scope_return(scope, br_clone(x));
    *second = br_scope_return(scope, br_clone(x));
    br_scope_end(scope);
    br_record_output(br_record(&op, first, BR_INPUTS(x), NULL, 0), *second);
    return first;
}

/* An anomaly of any output's gradient explains that of the input's. */
Test(anomaly, gradients_of_the_second_output)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = values(2, (double[]){ 1, 2 }, true), *second;
    br_tensor *infinite = values(2, (double[]){ 0, INFINITY }, false);
    br_tensor *wrong = values(2, (double[]){ NAN, 0 }, false);
    br_set_detect_anomaly(BR_ANOMALY_NONFINITE);
    two_copies(x, &second);
    cr_assert(br_backward_with(second, BR_OPTIONS(br_backward, .gradient = infinite)), "%s",
              br_error_message());
    two_copies(x, &second);
    check_fails(br_backward_with(second, BR_OPTIONS(br_backward, .gradient = wrong)),
                "has nan at [0], which the gradient of the result already had");
    br_scope_end(scope);
}
