/* tests/ops/loss/test_distance.c - losses between two tensors, and cosine similarity: compared with
 * PyTorch, edge cases, second-order gradients, errors. */
#include "tests/ops/torch_distances.h"
#include "tests/ops/values.h"

TestSuite(distance, .init = check_begin, .fini = check_end);

enum { A, B };

static br_tensor *mse_mean(br_tensor *const *x, int n, void *context)
{
    (void)n;
    (void)context;
    return br_mse_loss(x[A], x[B], BR_REDUCTION_MEAN);
}

static br_tensor *l1_sum(br_tensor *const *x, int n, void *context)
{
    (void)n;
    (void)context;
    return br_l1_loss(x[A], x[B], BR_REDUCTION_SUM);
}

static br_tensor *smooth_l1(br_tensor *const *x, int n, void *context)
{
    (void)n;
    (void)context;
    return br_smooth_l1_loss(x[A], x[B], BR_REDUCTION_NONE, 0.75);
}

static br_tensor *bce_plain(br_tensor *const *x, int n, void *context)
{
    (void)n;
    (void)context;
    return br_binary_cross_entropy_with_logits(x[A], x[B], NULL, BR_REDUCTION_MEAN, NULL);
}

static br_tensor *bce_weighted(br_tensor *const *x, int n, void *context)
{
    (void)n;
    (void)context;
    br_tensor *weight = br_abs(values(BR_SHAPE(3, 4), 3, BR_F64));
    br_tensor *pos_weight = br_abs(values(BR_SHAPE(4), 4, BR_F64));
    return br_binary_cross_entropy_with_logits(x[A], x[B], weight, BR_REDUCTION_NONE, pos_weight);
}

static br_tensor *kl(br_tensor *const *x, int n, void *context)
{
    (void)n;
    (void)context;
    return br_kl_div(x[A], x[B], BR_REDUCTION_NONE, false);
}

static br_tensor *kl_log(br_tensor *const *x, int n, void *context)
{
    (void)n;
    (void)context;
    return br_kl_div(x[A], x[B], BR_REDUCTION_SUM, true);
}

static br_tensor *cosine_0(br_tensor *const *x, int n, void *context)
{
    (void)n;
    (void)context;
    return br_cosine_similarity(x[A], x[B], 0, 1e-8);
}

static br_tensor *cosine_1(br_tensor *const *x, int n, void *context)
{
    (void)n;
    (void)context;
    return br_cosine_similarity(x[A], x[B], 1, 1e-8);
}

/* eps is larger than the norms of some vectors. PyTorch's gradient ignores that these norms were
 * clamped to eps; Brasa's is the derivative of the computed function. */
static br_tensor *cosine_eps(br_tensor *const *x, int n, void *context)
{
    (void)n;
    (void)context;
    return br_cosine_similarity(x[A], x[B], 1, 4.5);
}

#define RECORDED(name)                                                         \
    {                                                                          \
        name, name##_y, name##_da, name##_db, sizeof name##_y / sizeof(double) \
    }

static const struct recorded {
    br_function f;
    const double *y, *da, *db;
    int64_t n; /* elements of y; the gradients have 12, and may be NULL */
} all[] = { RECORDED(mse_mean),     RECORDED(l1_sum),
            RECORDED(smooth_l1),    RECORDED(bce_plain),
            RECORDED(bce_weighted), RECORDED(kl),
            RECORDED(kl_log),       RECORDED(cosine_0),
            RECORDED(cosine_1),     { cosine_eps, cosine_eps_y, NULL, NULL, 3 } };
enum { ALL = sizeof all / sizeof *all };

/* Creates two leaves [3, 4]. kl_div's second one is positive. */
static void make_inputs(br_function f, br_tensor **x)
{
    x[A] = leaf(values(BR_SHAPE(3, 4), 1, BR_F64));
    x[B] = values(BR_SHAPE(3, 4), 2, BR_F64);
    x[B] = leaf(f == kl ? br_exp(x[B]) : x[B]);
}

Test(distance, equal_pytorch)
{
    for (int i = 0; i < ALL; i++) {
        br_scope *scope = br_scope_begin();
        br_tensor *x[2], *dx[2];
        make_inputs(all[i].f, x);
        br_tensor *y = all[i].f(x, 2, NULL);
        check_values(y, all[i].n, all[i].y, 1e-14);
        br_tensor *dy = values(br_ndim(y), br_sizes(y), 9, BR_F64);
        br_grad(1, &y, 2, x, dx, BR_OPTIONS(br_grad, .gradients = &dy));
        if (all[i].da) {
            check_values(dx[A], 12, all[i].da, 2e-14);
            check_values(dx[B], 12, all[i].db, 2e-14);
        }
        br_scope_end(scope);
    }
}

Test(distance, gradients_of_gradients)
{
    for (int i = 0; i < ALL; i++) {
        br_scope *scope = br_scope_begin();
        br_tensor *x[2];
        make_inputs(all[i].f, x);
        for (int k = 0; k < 2; k++) /* with large values, differences of the cubes are inaccurate */
            x[k] = leaf(br_mul_scalar(br_detach(x[k]), 0.5));
        check_second_gradient(all[i].f, NULL, 2, x);
        br_scope_end(scope);
    }
}

/* Cases in which the literal formula would overflow, cancel or divide by 0. */
Test(distance, edge_cases)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_from_f64(BR_SHAPE(4), (double[]){ 800, -800, 30, -30 });
    br_tensor *t = br_from_f64(BR_SHAPE(4), (double[]){ 0, 1, 1, 0 });
    br_tensor *y = br_binary_cross_entropy_with_logits(x, t, NULL, BR_REDUCTION_NONE, NULL);
    const double want[] = { 800, 800, log1p(exp(-30)), log1p(exp(-30)) };
    for (int64_t i = 0; i < 4; i++)
        check_close(br_at(y, 1, &i), want[i], 4e-15);
    br_tensor *far = br_from_f64(BR_SHAPE(2), (double[]){ INFINITY, 0 });
    br_tensor *near = leaf(br_from_f64(BR_SHAPE(2), (double[]){ 0, 0 }));
    br_tensor *loss = br_smooth_l1_loss(near, far, BR_REDUCTION_SUM, 0.5);
    br_backward(loss);
    check_equals(br_grad_of(near), -1, 0);
    check_equals(br_kl_div(near, br_zeros(BR_SHAPE(2), BR_F64), BR_REDUCTION_NONE, false), 0, 0);
    check_equals(br_cosine_similarity(near, near, 0, 1e-8), 0);
    check_equals(br_smooth_l1_loss(x, t, BR_REDUCTION_NONE, 0), 800, 801, 29, 30);
    br_tensor *none = br_zeros(BR_SHAPE(0), BR_F64);
    check_equals(br_mse_loss(none, none, BR_REDUCTION_MEAN), NAN);
    check_equals(br_mse_loss(none, none, BR_REDUCTION_SUM), 0);
    br_scope_end(scope);
}

/* ---- Smooth L1 and Huber at special points --------------------------------------------------- */

typedef br_tensor *(*bent_loss)(br_tensor *input, br_tensor *target, br_reduction reduction,
                                double bound);

/* Checks loss, gradient and second derivative at each x for a target of 0. A gradient that is not
 * recorded has a kernel of its own. */
static void check_bend(bent_loss loss, double bound, int n, const double (*rows)[4])
{
    for (int i = 0; i < n; i++) {
        br_scope *scope = br_scope_begin();
        br_tensor *x = leaf(br_from_f64(BR_SHAPE(1), &rows[i][0])), *first, *second, *unrecorded;
        br_tensor *zero = br_zeros(BR_SHAPE(1), BR_F64);
        br_tensor *y = loss(x, zero, BR_REDUCTION_SUM, bound);
        cr_assert(br_grad(1, &y, 1, &x, &unrecorded, NULL));
        check_equals(unrecorded, rows[i][2]);
        y = loss(x, zero, BR_REDUCTION_SUM, bound);
        cr_assert(br_grad(1, &y, 1, &x, &first, BR_OPTIONS(br_grad, .create_graph = true)));
        cr_assert(br_grad(1, &first, 1, &x, &second, NULL));
        check_equals(y, rows[i][1]);
        check_equals(first, rows[i][2]);
        check_equals(second, rows[i][3]);
        br_scope_end(scope);
    }
}

/* The values are PyTorch's: the second derivative is 1 / beta where the difference is 0, and 0 at
 * the bound. */
Test(distance, derivatives_of_losses_with_kinks)
{
    const double smooth[][4] = { { 0, 0, 0, 2 },        { 0.25, 0.0625, 0.5, 2 },
                                 { -0.5, 0.25, -1, 0 }, { 0.5, 0.25, 1, 0 },
                                 { 1, 0.75, 1, 0 },     { -1, 0.75, -1, 0 },
                                 { NAN, NAN, NAN, 2 },  { INFINITY, INFINITY, 1, 0 } };
    const double huber[][4] = { { 0, 0, 0, 1 },           { 0.25, 0.03125, 0.25, 1 },
                                { -0.5, 0.125, -0.5, 0 }, { 0.5, 0.125, 0.5, 0 },
                                { 1, 0.375, 0.5, 0 },     { -1, 0.375, -0.5, 0 },
                                { NAN, NAN, NAN, 1 },     { INFINITY, INFINITY, 0.5, 0 } };
    check_bend(br_smooth_l1_loss, 0.5, 8, smooth);
    check_bend(br_huber_loss, 0.5, 8, huber);
}

/* A logit may be infinite where the target agrees with it. */
Test(distance, infinite_logits)
{
    for (br_dtype dtype = BR_F32; dtype <= BR_F64; dtype++) {
        br_scope *scope = br_scope_begin();
        const double logits[] = { INFINITY, -INFINITY, INFINITY }, targets[] = { 1, 0, 0 };
        br_tensor *x = leaf(br_to(br_from_f64(BR_SHAPE(3), logits), dtype));
        br_tensor *t = br_to(br_from_f64(BR_SHAPE(3), targets), dtype);
        br_tensor *y = br_binary_cross_entropy_with_logits(x, t, NULL, BR_REDUCTION_NONE, NULL),
                  *dx;
        check_equals(y, 0, 0, INFINITY);
        y = br_sum(y);
        cr_assert(br_grad(1, &y, 1, &x, &dx, NULL), "%s", br_error_message());
        check_equals(dx, 0, 0, 1);
        br_scope_end(scope);
    }
}

/* In f32 the square of a small difference underflows, and that of a large one overflows. */
Test(distance, losses_with_kinks_for_extreme_numbers)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_from_f32(BR_SHAPE(3), (float[]){ 1e38f, 1e-30f, 5e-31f });
    br_tensor *zero = br_zeros(BR_SHAPE(3), BR_F32);
    br_set_requires_grad(x, true);
    br_tensor *y = br_smooth_l1_loss(x, zero, BR_REDUCTION_NONE, 1e-30);
    br_backward(br_sum(br_clamp(y, -1, 1)));
    check_ok();
    check_close(br_at(y, BR_DIMS(0)), (double)1e38f, 0);
    check_close(br_at(y, BR_DIMS(1)), 5e-31, 1e-37);
    check_close(br_at(y, BR_DIMS(2)), 1.25e-31, 1e-37);
    check_close(br_at(br_grad_of(x), BR_DIMS(1)), 1, 1e-6);
    check_close(br_at(br_grad_of(x), BR_DIMS(2)), 0.5, 1e-6);
    y = br_smooth_l1_loss(x, zero, BR_REDUCTION_NONE, 4);
    check_close(br_at(y, BR_DIMS(0)), (double)1e38f, 0);
    y = br_huber_loss(x, zero, BR_REDUCTION_NONE, 1e-38);
    check_close(br_at(y, BR_DIMS(0)), 1, 1e-6);
    br_scope_end(scope);
}

/* The product of two lengths of 1e-20 is a denormal number in f32, that of two of 1e-30 is 0. */
Test(distance, cosine_of_short_vectors)
{
    br_scope *scope = br_scope_begin();
    br_tensor *a = br_from_f32(BR_SHAPE(2), (float[]){ 1e-20f, 0 });
    check_close(br_item(br_cosine_similarity(a, a, 0, 1e-38)), 1, 1e-2);
    check_close(br_item(br_cosine_similarity(a, br_neg(a), 0, 1e-38)), -1, 1e-2);
    br_tensor *zero = br_set_requires_grad(br_zeros(BR_SHAPE(2), BR_F32), true);
    br_tensor *y = br_cosine_similarity(zero, zero, 0, 1e-30);
    br_backward(y);
    check_equals(y, 0);
    check_equals(br_grad_of(zero), 0, 0);
    br_scope_end(scope);
}

Test(distance, errors)
{
    br_scope *scope = br_scope_begin();
    br_tensor *a = br_zeros(BR_SHAPE(2, 3), BR_F64), *b = br_zeros(BR_SHAPE(2), BR_F64);
    check_fails(br_mse_loss(a, b, BR_REDUCTION_MEAN), "mse_loss: input [2, 3] and target [2]");
    check_fails(br_mse_loss(a, a, (br_reduction)7), "mse_loss: reduction is 7");
    check_fails(br_smooth_l1_loss(a, a, BR_REDUCTION_SUM, -1), "smooth_l1_loss: beta is -1");
    check_fails(br_cosine_similarity(a, a, 2, 1e-8), "cosine_similarity: dim is 2");
    check_fails(br_kl_div(a, NULL, BR_REDUCTION_SUM, false), "kl_div: target is NULL");
    check_fails(
        br_binary_cross_entropy_with_logits(a, br_select(a, 0, 0), NULL, BR_REDUCTION_SUM, NULL),
        "input [2, 3] and target [3]: shapes must be equal");
    check_fails(br_binary_cross_entropy_with_logits(a, a, b, BR_REDUCTION_SUM, NULL),
                "input [2, 3] and weight [2]");
    br_scope_end(scope);
}

/* ---- Warnings -------------------------------------------------------------------------------- */

static int warnings;

static void count_warning(br_error code, const char *message, void *context)
{
    warnings += code == BR_WARNING && strstr(message, context);
}

#define BROADCAST "_loss: target [3] has another shape than input [3, 1]"

/* PyTorch warns, too. */
Test(distance, broadcast_targets_cause_a_warning)
{
    br_tensor *x = br_ones(BR_SHAPE(3, 1), BR_F32), *y = br_ones(BR_SHAPE(3), BR_F32);
    br_set_error_callback(count_warning, "mse" BROADCAST);
    br_mse_loss(x, y, BR_REDUCTION_MEAN);
    cr_assert_eq(warnings, 1);
    br_set_error_callback(count_warning, "l1" BROADCAST);
    br_l1_loss(x, y, BR_REDUCTION_MEAN);
    cr_assert_eq(warnings, 2);
    br_set_error_callback(count_warning, "smooth_l1" BROADCAST);
    br_smooth_l1_loss(x, y, BR_REDUCTION_MEAN, 1);
    cr_assert_eq(warnings, 3);
    br_set_error_callback(count_warning, "huber" BROADCAST);
    br_huber_loss(x, y, BR_REDUCTION_MEAN, 1);
    cr_assert_eq(warnings, 4);
    br_set_error_callback(count_warning, "");
    br_mse_loss(y, y, BR_REDUCTION_MEAN);
    cr_assert_eq(warnings, 4);
    br_set_error_callback(NULL, NULL);
}

Test(distance, the_mean_of_kl_div_causes_a_warning)
{
    br_tensor *x = br_ones(BR_SHAPE(2, 3), BR_F32);
    br_set_error_callback(count_warning, "batchmean gives the Kullback-Leibler divergence");
    br_kl_div(x, x, BR_REDUCTION_BATCHMEAN, false);
    cr_assert_eq(warnings, 0);
    br_kl_div(x, x, BR_REDUCTION_MEAN, false);
    cr_assert_eq(warnings, 1);
    br_set_error_callback(NULL, NULL);
}

/* As in PyTorch, the denominator x (1 - x) of the gradient is at least 1e-12, so that it is finite
 * where a probability is 0 or 1. */
Test(distance, gradients_of_binary_cross_entropy_are_finite)
{
    br_scope *scope = br_scope_begin();
    for (int composed = 0; composed < 2; composed++) {
        br_tensor *x = leaf(br_from_f64(BR_SHAPE(4), (double[]){ 0, 0, 1, 1 })), *dx;
        br_tensor *t = br_from_f64(BR_SHAPE(4), (double[]){ 0, 1, 0, 1 });
        br_tensor *y = br_binary_cross_entropy(x, t, NULL, BR_REDUCTION_SUM);
        cr_assert(br_grad(1, &y, 1, &x, &dx, BR_OPTIONS(br_grad, .create_graph = composed)), "%s",
                  br_error_message());
        check_equals(br_detach(dx), 0, -1e12, 1e12, 0);
    }
    br_scope_end(scope);
}
