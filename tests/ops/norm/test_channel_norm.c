/* tests/ops/norm/test_channel_norm.c - RMS, batch, group and instance norm: compared with PyTorch;
 * second-order gradients, running statistics, means far larger than standard deviations, and
 * errors. */
#include "tests/ops/torch_norms.h"
#include "tests/ops/values.h"

TestSuite(norms, .init = check_begin, .fini = check_end);

static const double tolerance[] = { [BR_F32] = 1e-5, [BR_F64] = 3e-14 };

/* Compares y's gradients with respect to n inputs, fused and composed, with their tables. */
static void check_gradients(br_tensor *y, int n, br_tensor *const *in, const double *const *want)
{
    br_dtype dtype = br_dtype_of(y);
    br_tensor *dy = values(br_ndim(y), br_sizes(y), 9, dtype), *dx[3];
    for (int composed = 0; composed < 2; composed++) {
        br_grad(
            1, &y, n, in, dx,
            BR_OPTIONS(br_grad, .gradients = &dy, .retain_graph = true, .create_graph = composed));
        for (int i = 0; i < n; i++)
            check_values(dx[i], br_numel(in[i]), want[i], tolerance[dtype]);
    }
}

#define check_recorded(y, n, in, name)                   \
    do {                                                 \
        check_table(y, name, tolerance[br_dtype_of(y)]); \
        check_gradients(y, n, in,                        \
                        (const double *const[]){         \
                            name##_dx,                   \
                            name##_dw,                   \
                            name##_db,                   \
                        });                              \
    } while (0)

static br_tensor *input(int ndim, const int64_t *sizes, int64_t seed, br_dtype dtype)
{
    return leaf(values(ndim, sizes, seed, dtype));
}

static void recorded_rms(void)
{
    for (br_dtype dtype = BR_F32; dtype <= BR_F64; dtype++) {
        br_tensor *in[] = { input(BR_SHAPE(4, 6), 2, dtype), input(BR_SHAPE(6), 3, dtype) };
        br_tensor *y = br_f_rms_norm(in[0], BR_SHAPE(6), in[1], 1e-5);
        check_table(y, rms_norm_1, tolerance[dtype]);
        check_gradients(y, 2, in, (const double *const[]){ rms_norm_1_dx, rms_norm_1_dw });
        br_tensor *x = input(BR_SHAPE(4, 2, 3), 2, dtype);
        y = br_f_rms_norm(x, BR_SHAPE(2, 3), NULL, BR_NONE_F64);
        check_table(y, rms_norm_2, tolerance[dtype]);
        check_gradients(y, 1, &x, (const double *const[]){ rms_norm_2_dx });
    }
}

/* 1 / sqrt of an infinite mean square is 0, so that finite elements become 0; only inf * 0 is NaN.
 */
static void rms_of_infinite(void)
{
    for (int dtype = BR_F32; dtype <= BR_F64; dtype++) {
        br_tensor *x = br_full(BR_SHAPE(2, 20), -3, (br_dtype)dtype);
        br_fill_(br_narrow(br_select(x, 0, 1), 0, 4, 1), -INFINITY);
        br_tensor *y = br_f_rms_norm(x, BR_SHAPE(20), NULL, 1e-5);
        for (int64_t i = 0; i < 20; i++) {
            cr_assert_float_eq(br_at(y, 2, (int64_t[]){ 0, i }), -1, 1e-5);
            const double of_infinite = br_at(y, 2, (int64_t[]){ 1, i });
            cr_assert(i == 4 ? isnan(of_infinite) : of_infinite == 0 && signbit(of_infinite));
        }
        br_fill_(br_narrow(br_select(x, 0, 1), 0, 5, 1), NAN);
        y = br_f_rms_norm(x, BR_SHAPE(20), NULL, 1e-5);
        cr_assert(isnan(br_at(y, 2, (int64_t[]){ 1, 0 })));
        check_ok();
    }
}

Test(norms, rms_of_infinite_elements_equals_pytorch)
{
    with_every_variant(rms_of_infinite);
}

Test(norms, rms_equals_pytorch)
{
    with_every_variant(recorded_rms);
}

static void check_batch(int ndim, const int64_t *sizes, bool training, double momentum,
                        br_dtype dtype, const double *const *want, int64_t n)
{
    br_tensor *in[] = { input(ndim, sizes, 2, dtype), input(BR_SHAPE(3), 3, dtype),
                        input(BR_SHAPE(3), 4, dtype) };
    br_tensor *mean = values(BR_SHAPE(3), 5, dtype);
    br_tensor *var = br_add_scalar(br_abs(values(BR_SHAPE(3), 6, dtype)), 0.5);
    br_tensor *y = br_f_batch_norm(in[0], mean, var, in[1], in[2], training, momentum, 1e-3);
    check_values(y, n, want[0], tolerance[dtype]);
    check_gradients(y, 3, in, want + 1);
    check_values(mean, 3, want[4], tolerance[dtype]);
    check_values(var, 3, want[5], tolerance[dtype]);
}

#define check_batch_case(sizes, training, momentum, name)                                          \
    for (br_dtype dtype = BR_F32; dtype <= BR_F64; dtype++)                                        \
    check_batch(                                                                                   \
        sizes, training, momentum, dtype,                                                          \
        (const double *const[]){ name, name##_dx, name##_dw, name##_db, name##_mean, name##_var }, \
        sizeof name / sizeof *name)

static void recorded_batch(void)
{
    check_batch_case(BR_SHAPE(5, 3), true, 0.1, batch_norm_1);
    check_batch_case(BR_SHAPE(2, 3, 4, 2), true, 0.25, batch_norm_2);
    check_batch_case(BR_SHAPE(2, 3, 4), false, 0.1, batch_norm_3);
}

Test(norms, batch_equals_pytorch)
{
    with_every_variant(recorded_batch);
}

static void recorded_group(void)
{
    for (br_dtype dtype = BR_F32; dtype <= BR_F64; dtype++) {
        br_tensor *in[] = { input(BR_SHAPE(2, 4, 3), 2, dtype), input(BR_SHAPE(4), 3, dtype),
                            input(BR_SHAPE(4), 4, dtype) };
        check_recorded(br_f_group_norm(in[0], 2, in[1], in[2], 1e-5), 3, in, group_norm_1);
        br_tensor *x = input(BR_SHAPE(3, 6), 2, dtype), *y = br_f_group_norm(x, 3, NULL, NULL, 0.1);
        check_table(y, group_norm_2, tolerance[dtype]);
        check_gradients(y, 1, &x, (const double *const[]){ group_norm_2_dx });
        br_tensor *of[] = { input(BR_SHAPE(2, 3, 4), 2, dtype), input(BR_SHAPE(3), 3, dtype),
                            input(BR_SHAPE(3), 4, dtype) };
        check_recorded(br_f_instance_norm(of[0], NULL, NULL, of[1], of[2], true, 0.1, 1e-5), 3, of,
                       instance_norm_1);
    }
}

Test(norms, group_and_instance_equal_pytorch)
{
    with_every_variant(recorded_group);
}

/* ---- Second gradients ------------------------------------------------------------------------ */

static br_tensor *rms(br_tensor *const *in, int n, void *context)
{
    (void)context;
    return br_f_rms_norm(in[0], 2, br_sizes(in[0]) + 1, n > 1 ? in[1] : NULL, 1e-3);
}

static br_tensor *batch(br_tensor *const *in, int n, void *context)
{
    const bool *training = context;
    br_tensor *mean = br_full(BR_SHAPE(2), 0.25, BR_F64), *var = br_full(BR_SHAPE(2), 2, BR_F64);
    return br_f_batch_norm(in[0], mean, var, n > 1 ? in[1] : NULL, n > 2 ? in[2] : NULL, *training,
                           0.1, 1e-3);
}

static br_tensor *group(br_tensor *const *in, int n, void *context)
{
    (void)context;
    return br_f_group_norm(in[0], 1, n > 1 ? in[1] : NULL, n > 2 ? in[2] : NULL, 1e-3);
}

/* Without a bias nothing is added, so -0 keeps its sign, as in PyTorch. */
static void signs_of_zero(void)
{
    for (br_dtype dtype = BR_F32; dtype <= BR_F64; dtype++)
        for (int64_t n = 1; n < 70; n += 17) {
            br_scope *scope = br_scope_begin();
            br_tensor *zero = br_zeros(BR_SHAPE(n), dtype), *minus = br_neg(zero);
            br_tensor *weight = br_full(BR_SHAPE(n), -2, dtype);
            check_same_bits(br_f_rms_norm(zero, BR_SHAPE(n), NULL, BR_NONE_F64), zero);
            check_same_bits(br_f_rms_norm(minus, BR_SHAPE(n), NULL, BR_NONE_F64), minus);
            check_same_bits(br_f_rms_norm(zero, BR_SHAPE(n), weight, BR_NONE_F64), minus);
            check_same_bits(br_f_rms_norm(minus, BR_SHAPE(n), weight, BR_NONE_F64), zero);
            br_scope_end(scope);
        }
}

Test(norms, rms_keeps_the_sign_of_zero)
{
    with_every_variant(signs_of_zero);
}

Test(norms, second_gradients)
{
    br_tensor *in[] = { leaf(values(BR_SHAPE(3, 2, 4), 2, BR_F64)),
                        leaf(values(BR_SHAPE(2), 3, BR_F64)),
                        leaf(values(BR_SHAPE(2), 4, BR_F64)) };
    br_tensor *rows[] = { in[0], leaf(values(BR_SHAPE(2, 4), 3, BR_F64)) };
    bool training = true, not = false;
    for (int n = 1; n <= 3; n++) {
        check_second_gradient(group, NULL, n, in);
        check_second_gradient(batch, &training, n, in);
        check_second_gradient(batch, &not, n, in);
    }
    check_second_gradient(rms, NULL, 2, rows);
}

Test(norms, third_order_gradients_are_an_error)
{
    br_tensor *x = leaf(values(BR_SHAPE(3, 2, 4), 2, BR_F64)), *y, *dx;
    y = br_sum(br_pow_scalar(br_f_group_norm(x, 1, NULL, NULL, 1e-3), 3));
    br_grad(1, &y, 1, &x, &dx, BR_OPTIONS(br_grad, .create_graph = true));
    y = br_sum(br_mul(dx, dx));
    check_fails(br_grad(1, &y, 1, &x, &dx, BR_OPTIONS(br_grad, .create_graph = true)),
                "composed_backward cannot be differentiated again");
}

/* ---- Accuracy -------------------------------------------------------------------------------- */

/* The mean is far larger than the standard deviation. */
Test(norms, do_not_cancel)
{
    br_tensor *x = br_from_f32(BR_SHAPE(1, 1, 4), (float[]){ 10000, 10001, 10002, 10003 });
    const double d = sqrt(1.25), want[] = { -1.5 / d, -0.5 / d, 0.5 / d, 1.5 / d };
    check_values(br_f_group_norm(x, 1, NULL, NULL, 0), 4, want, 2e-7);
    x = br_reshape(x, BR_SHAPE(4, 1));
    check_values(br_f_batch_norm(x, NULL, NULL, NULL, NULL, true, 0, 1e-30), 4, want, 2e-7);
    check_fails(br_f_batch_norm(x, NULL, NULL, NULL, NULL, true, 0, 0),
                "batch_norm: eps is 0, must be positive in training");
}

/* The statistics of large inputs are merged from those of chunks. Compares the results with
 * elementary operations in f64. */
Test(norms, large)
{
    const int64_t shapes[][3] = { { 3000, 40, 1 }, { 130, 3, 700 }, { 2, 300, 450 } };
    for (int k = 0; k < 3; k++) {
        br_tensor *x = br_add_scalar(values(3, shapes[k], 3, BR_F64), 5);
        br_tensor *got = br_f_batch_norm(br_to(x, BR_F32), NULL, NULL, NULL, NULL, true, 0, 1e-5);
        br_tensor *centred = br_sub(x, br_mean_dim(x, BR_DIMS(0, 2), true));
        br_tensor *var = br_mean_dim(br_mul(centred, centred), BR_DIMS(0, 2), true);
        br_tensor *want = br_mul(centred, br_rsqrt(br_add_scalar(var, 1e-5)));
        cr_expect(br_allclose(br_to(got, BR_F64), want, 2e-6, 2e-6), "batch norm, shape %d", k);
        got = br_f_group_norm(br_to(x, BR_F32), 1, NULL, NULL, 1e-5);
        want = br_f_layer_norm(x, 2, shapes[k] + 1, NULL, NULL, 1e-5);
        cr_expect(br_allclose(br_to(got, BR_F64), want, 2e-6, 2e-6), "group norm, shape %d", k);
    }
}

/* Running statistics may be views with any strides. */
Test(norms, running_statistics_as_views)
{
    br_tensor *x = values(BR_SHAPE(4, 3, 2), 2, BR_F32);
    br_tensor *mean = br_zeros(BR_SHAPE(3), BR_F32), *var = br_ones(BR_SHAPE(3), BR_F32);
    br_tensor *both = br_stack(BR_INPUTS(mean, var), 1), *columns[2];
    for (int k = 0; k < 2; k++)
        columns[k] = br_select(both, 1, k);
    for (int training = 1; training >= 0; training--) {
        br_tensor *want = br_f_batch_norm(x, mean, var, NULL, NULL, training, 0.3, 1e-5);
        cr_assert(br_equal(
            br_f_batch_norm(x, columns[0], columns[1], NULL, NULL, training, 0.3, 1e-5), want));
        cr_assert(br_equal(columns[0], mean) && br_equal(columns[1], var));
    }
}

Test(norms, errors)
{
    br_tensor *x = values(BR_SHAPE(2, 3, 4), 1, BR_F32), *two = br_ones(BR_SHAPE(2), BR_F32);
    check_fails(br_f_rms_norm(x, BR_SHAPE(3), NULL, 0),
                "rms_norm: x [2, 3, 4] must end with the normalised shape [3]");
    check_fails(
        br_f_batch_norm(x, two, NULL, NULL, NULL, true, 0.1, 0),
        "batch_norm: running_mean [2] must have shape [3], the number of channels of x [2, 3, 4]");
    check_fails(br_f_batch_norm(x, NULL, NULL, NULL, NULL, false, 0.1, 0), "running_mean is NULL");
    check_fails(br_f_batch_norm(br_select(br_narrow(x, 0, 0, 1), 2, 0), NULL, NULL, NULL, NULL,
                                true, 0.1, 0),
                "x [1, 3] has only one value per channel");
    check_fails(br_f_batch_norm(two, NULL, NULL, NULL, NULL, true, 0.1, 0),
                "x [2] must have at least 2 dimensions");
    check_fails(br_f_group_norm(x, 2, NULL, NULL, 0), "must be at least 1 and divide the 3");
    check_fails(br_f_group_norm(x, 0, NULL, NULL, 0), "num_groups is 0");
    check_fails(br_f_instance_norm(br_select(x, 2, 0), NULL, NULL, NULL, NULL, true, 0.1, 0),
                "more than one spatial element");
    check_fails(br_f_instance_norm(x, NULL, NULL, NULL, NULL, false, 0.1, 0),
                "running_mean is NULL");
}

/* The second of two statistics is refused: the first one keeps its values and its version. */
Test(norms, refused_statistics_change_nothing)
{
    br_tensor *x = br_rand(BR_SHAPE(4, 3), BR_F32), *mean = br_zeros(BR_SHAPE(3), BR_F32);
    br_tensor *var = br_expand(br_ones(BR_SHAPE(1), BR_F32), BR_SHAPE(3));
    uint64_t version = br_tensor_version(mean);
    check_fails(br_f_batch_norm(x, mean, var, NULL, NULL, true, 0.1, 1e-5),
                "batch_norm: running_var [3] is expanded");
    cr_expect_eq(br_tensor_version(mean), version);
    cr_expect_eq(br_at(mean, BR_SHAPE(0)), 0);
    cr_expect(br_f_batch_norm(x, mean, br_ones_like(mean), NULL, NULL, true, 0.1, 1e-5));
    cr_expect_gt(br_tensor_version(mean), version);
}
