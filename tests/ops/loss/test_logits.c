/* tests/ops/loss/test_logits.c - functions of large logits: compares f32 with f64 for the same
 * numbers.
 */
#include "ops/loss/loss_internal.h"
#include "tests/ops/values.h"

TestSuite(logits, .init = check_begin, .fini = check_end);

enum { ROWS = 6, CLASSES = 70 };

/* Returns logits near `offset` that are integers, so f32 represents them exactly. In all rows but
 * the last, class 0 leads by 10 to 36. */
static br_tensor *logits(double offset)
{
    br_tensor *x = br_empty(BR_SHAPE(ROWS, CLASSES), BR_F64);
    for (int64_t i = 0; i < ROWS; i++)
        for (int64_t k = 0; k < CLASSES; k++) {
            double lead = k > 0 ? (double)(i * 5 + k * 3 % 7) : i == ROWS - 1 ? 12 : -10;
            br_data_f64(x)[i * CLASSES + k] = offset - lead;
        }
    return x;
}

/* Returns fractions in (0, 1), the same for each dtype. */
static br_tensor *fractions(const br_tensor *x)
{
    br_tensor *t = values(br_ndim(x), br_sizes(x), 3, BR_F64);
    return br_to(br_div_scalar(br_add_scalar(t, 3), 6), br_dtype_of(x));
}

static br_tensor *loss_of(br_tensor *x, double smoothing, br_tensor *weight)
{
    br_tensor *target = br_zeros(BR_SHAPE(ROWS), BR_I64);
    return br_cross_entropy(x, target,
                            BR_OPTIONS(br_cross_entropy, .label_smoothing = smoothing,
                                       .weight = weight, .reduction = BR_REDUCTION_NONE));
}

static br_tensor *plain(br_tensor *x)
{
    return loss_of(x, 0, NULL);
}

static br_tensor *smoothed(br_tensor *x)
{
    return loss_of(x, 0.25, br_select(fractions(x), 0, 0));
}

static br_tensor *of_probabilities(br_tensor *x)
{
    return br_cross_entropy(x, fractions(x), NULL);
}

static br_tensor *composed(br_tensor *x)
{
    return br__cross_entropy_composed(x, br_zeros(BR_SHAPE(ROWS), BR_I64),
                                      BR_OPTIONS(br_cross_entropy, .label_smoothing = 0));
}

static br_tensor *log_softmax(br_tensor *x)
{
    return br_mul(br_log_softmax(x, 1), fractions(x));
}

static br_tensor *softmax(br_tensor *x)
{
    return br_mul(br_softmax(x, 0), fractions(x));
}

static br_tensor *log_sum_exp(br_tensor *x)
{
    return br_logsumexp(x, BR_DIMS(1), false);
}

static br_tensor *log_sum_exp_of_all(br_tensor *x)
{
    return br_logsumexp(x, BR_DIMS(0, 1), true);
}

/* Asserts that the error of each element is at most `relative` times the element plus `absolute`.
 */
static void check_as_f64(br_tensor *got, br_tensor *want, double relative, double absolute)
{
    check_ok();
    got = br_to(got, BR_F64);
    for (int64_t i = 0; i < br_numel(want); i++) {
        double w = br_data_f64(want)[i], g = br_data_f64(got)[i];
        cr_assert(fabs(g - w) <= relative * fabs(w) + absolute,
                  "element %lld is %.9g, expected %.9g", (long long)i, g, w);
    }
}

static br_tensor *gradient(br_tensor *(*f)(br_tensor *), br_tensor *x, br_dtype dtype,
                           bool create_graph, br_tensor **value)
{
    br_tensor *own = leaf(br_clone(br_to(x, dtype))), *dx;
    br_tensor *sum = br_sum(*value = f(own));
    br_grad(1, &sum, 1, &own, &dx, BR_OPTIONS(br_grad, .create_graph = create_graph));
    return br_contiguous(br_detach(dx));
}

static void gradients(void)
{
    static const struct {
        const char *name;
        br_tensor *(*f)(br_tensor *);
        double absolute; /* tolerance of gradients that subtract a probability from 1 */
        double second;   /* the same with create_graph */
    } functions[] = { { "cross_entropy", plain, 0, 5e-7 },
                      { "cross_entropy, smoothed", smoothed, 5e-8, 5e-7 },
                      { "cross_entropy of probabilities", of_probabilities, 2e-6, 2e-6 },
                      { "cross_entropy, composed", composed, 5e-7, 5e-7 },
                      { "log_softmax", log_softmax, 4e-6, 4e-6 },
                      { "softmax", softmax, 2e-7, 2e-7 },
                      { "logsumexp", log_sum_exp, 0, 0 },
                      { "logsumexp of all", log_sum_exp_of_all, 0, 0 } };
    static const double offsets[] = { 0, 1000, 10010, -30000 };
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        for (size_t k = 0; k < sizeof offsets / sizeof *offsets; k++)
            for (int second = 0; second < 2; second++) {
                br_scope *scope = br_scope_begin();
                br_tensor *x = logits(offsets[k]), *value, *exact;
                br_tensor *want = gradient(functions[i].f, x, BR_F64, false, &exact);
                br_tensor *got = gradient(functions[i].f, x, BR_F32, second, &value);
                check_as_f64(got, want, 3e-6, second ? functions[i].second : functions[i].absolute);
                if (functions[i].f == plain)
                    check_as_f64(value, exact, 1e-6, 0);
                br_scope_end(scope);
            }
}

Test(logits, gradients_do_not_depend_on_the_size_of_the_logits)
{
    with_every_variant(gradients);
}

/* The first gradient is -6.21e-5, as in PyTorch. Computed from a log-sum-exp in f32, it would be 0.
 */
Test(logits, cross_entropy_of_a_confident_row)
{
    br_tensor *sure = br_from_f64(BR_SHAPE(2), (double[]){ 0, -60 });
    double loss = br_item(br_cross_entropy(sure, br_scalar(0, BR_I64), NULL));
    check_close(loss / exp(-60), 1, 1e-14); /* 1 + exp(-60) would be rounded to 1 */
    br_tensor *x = leaf(br_from_f32(BR_SHAPE(3), (float[]){ 10010, 10000, 9999 }));
    br_backward(br_cross_entropy(x, br_scalar(0, BR_I64), NULL));
    double second = exp(-10.0), third = exp(-11.0), sum = 1 + second + third;
    const double want[] = { -(second + third) / sum, second / sum, third / sum };
    for (int i = 0; i < 3; i++)
        check_close(br_data_f32(br_grad_of(x))[i] / want[i], 1, 3e-7);
}

/* For some logits, sigmoid(x) is so close to 1 that 1 - sigmoid(x) is 0 in f32. Loss and gradient
 * must still be accurate. */
Test(logits, binary_cross_entropy)
{
    static const double logit[] = { 20, -20, 30, -30, 3, -3, 20, -20 };
    static const double target[] = { 1, 0, 1, 0, 1, 0, 0, 1 };
    br_tensor *x[2], *losses[2];
    for (int f64 = 0; f64 < 2; f64++) {
        br_dtype dtype = f64 ? BR_F64 : BR_F32;
        x[f64] = leaf(br_to(br_from_f64(BR_SHAPE(8), logit), dtype));
        losses[f64] = br_binary_cross_entropy_with_logits(
            x[f64], br_to(br_from_f64(BR_SHAPE(8), target), dtype), NULL, BR_REDUCTION_NONE,
            br_full(BR_SHAPE(8), 3, dtype));
        br_backward(br_sum(losses[f64]));
    }
    check_as_f64(losses[0], losses[1], 1e-6, 0);
    check_as_f64(br_grad_of(x[0]), br_grad_of(x[1]), 1e-6, 0);
}

/* The scores are exactly 10010, 10000 and 9999. The gradient of the values equals the
 * probabilities. */
static void attention(void)
{
    br_tensor *query = br_from_f32(BR_SHAPE(1, 2), (float[]){ 1, 1000 });
    br_tensor *key = br_from_f32(BR_SHAPE(3, 2), (float[]){ 10, 10, 0, 10, -1, 10 });
    br_tensor *value = leaf(br_zeros(BR_SHAPE(3, 1), BR_F32));
    br_backward(br_sum(br_scaled_dot_product_attention(query, key, value, NULL,
                                                       BR_OPTIONS(br_attention, .scale = 1))));
    double second = exp(-10.0), third = exp(-11.0), sum = 1 + second + third;
    const double want[] = { 1 / sum, second / sum, third / sum };
    for (int i = 0; i < 3; i++)
        check_close(br_data_f32(br_grad_of(value))[i] / want[i], 1, 3e-7);
}

Test(logits, attention)
{
    with_every_variant(attention);
}
