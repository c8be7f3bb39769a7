/* softmax and log_softmax. */
#include "tests/ops/torch_rows.h"
#include "tests/ops/values.h"

TestSuite(softmax, .init = check_begin, .fini = check_end);

typedef br_tensor *softmax_fn(br_tensor *x, int64_t dim);

/* What PyTorch gives, value and gradient; `fused` tells which gradient. */
static void check_recorded(softmax_fn *f, int64_t dim, const double *y, const double *dx)
{
    const double tolerance[] = { [BR_F32] = 2e-6, [BR_F64] = 4e-15 };
    for (br_dtype dtype = BR_F32; dtype <= BR_F64; dtype++) {
        br_tensor *x = leaf(values(BR_SHAPE(3, 4, 5), 1, dtype)), *got = f(x, dim), *grad;
        check_values(got, 60, y, tolerance[dtype]);
        br_tensor *dy = values(BR_SHAPE(3, 4, 5), 9, dtype);
        for (int composed = 0; composed < 2; composed++) {
            br_grad(1, &got, 1, &x, &grad,
                    &(br_grad_options){
                        .gradients = &dy, .retain_graph = true, .create_graph = composed });
            check_values(grad, 60, dx, tolerance[dtype] * 4);
        }
    }
}

static void recorded(void)
{
    check_recorded(br_softmax, 0, softmax_0, softmax_0_dx);
    check_recorded(br_softmax, -2, softmax_1, softmax_1_dx);
    check_recorded(br_softmax, 2, softmax_2, softmax_2_dx);
    check_recorded(br_log_softmax, 0, log_softmax_0, log_softmax_0_dx);
    check_recorded(br_log_softmax, 1, log_softmax_1, log_softmax_1_dx);
    check_recorded(br_log_softmax, -1, log_softmax_2, log_softmax_2_dx);
}

Test(softmax, recorded)
{
    with_every_variant(recorded);
}

/* exp(x - max) / sum, of plain operations. */
static br_tensor *composed_softmax(br_tensor *x, int64_t dim)
{
    br_tensor *e = br_exp(br_sub(x, br_max_dim(x, dim, true, NULL)));
    return br_div(e, br_sum_dim(e, BR_DIMS(dim), true));
}

/* Rows of every kind of length, along and across. The tolerance is that of a sum of 1024 values of
 * f32 one after the other, which it is where the compiler makes no vectors. */
static void composed(void)
{
    static const int64_t lengths[] = { 1, 2, 7, 16, 48, 49, 64, 100, 129, 1024, 1025, 3000 };
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        for (int64_t dim = 0; dim < 2; dim++) {
            br_scope *scope = br_scope_begin();
            int64_t sizes[] = { 67, 67 };
            sizes[dim] = lengths[i];
            br_tensor *x = values(2, sizes, 3, BR_F32);
            br_tensor *y = br_softmax(x, dim), *want = composed_softmax(br_to(x, BR_F64), dim);
            check_ok();
            cr_assert(br_allclose(br_to(y, BR_F64), want, 1.5e-6, 1e-12));
            br_tensor *log_y = br_to(br_log_softmax(x, dim), BR_F64);
            cr_assert(br_allclose(log_y, br_log(want), 6e-7, 1.5e-6));
            br_tensor *view = br_t(br_contiguous(br_t(x)));
            check_same_bits(br_contiguous(br_softmax(view, dim)), y);
            br_scope_end(scope);
        }
    }
}

Test(softmax, composed)
{
    with_every_variant(composed);
}

Test(softmax, special_values)
{
    const float inf = INFINITY;
    br_tensor *x =
        br_from_f32(BR_SHAPE(3, 3), (float[]){ -inf, -inf, -inf, -inf, 0, 0, 1e30f, -1e30f, inf });
    check_equals(br_softmax(x, 1), NAN, NAN, NAN, 0, 0.5, 0.5, NAN, NAN, NAN);
    check_equals(br_softmax(br_t(x), 0), NAN, 0, NAN, NAN, 0.5, NAN, NAN, 0.5, NAN);
    br_tensor *large = br_from_f64(BR_SHAPE(2), (double[]){ 1e300, 1e300 });
    check_equals(br_softmax(large, 0), 0.5, 0.5);
    br_tensor *row = br_zeros(BR_SHAPE(100), BR_F32);
    br_data_f32(row)[70] = NAN;
    cr_assert(isnan(br_at(br_softmax(row, 0), BR_DIMS(3))));
    br_fill_(row, -INFINITY);
    cr_assert(isnan(br_at(br_softmax(row, 0), BR_DIMS(3))));
}

Test(softmax, shapes)
{
    check_equals(br_softmax(br_scalar(3, BR_F32), 0), 1);
    check_equals(br_log_softmax(br_scalar(3, BR_F64), -1), 0);
    check_shape(br_softmax(br_zeros(BR_SHAPE(2, 0), BR_F32), 1), BR_SHAPE(2, 0));
    check_shape(br_softmax(br_zeros(BR_SHAPE(2, 0), BR_F32), 0), BR_SHAPE(2, 0));
    check_fails(br_softmax(br_zeros(BR_SHAPE(2), BR_I64), 0), "softmax: x [2] is i64");
    check_fails(br_log_softmax(br_zeros(BR_SHAPE(2), BR_F32), 1), "log_softmax: dim is 1");
    check_fails(br_softmax(NULL, 0), "x is NULL");
}

Test(softmax, does_not_depend_on_threads)
{
    br_tensor *x = values(BR_SHAPE(40, 130, 90), 1, BR_F32);
    for (int64_t dim = 0; dim < 3; dim++) {
        br_set_num_threads(1);
        br_tensor *one = br_softmax(x, dim), *log_one = br_log_softmax(x, dim);
        for (int threads = 2; threads <= 3; threads++) {
            br_set_num_threads(threads);
            check_same_bits(one, br_softmax(x, dim));
            check_same_bits(log_one, br_log_softmax(x, dim));
        }
    }
}

static br_tensor *both(br_tensor *const *inputs, int n, void *context)
{
    (void)n;
    const int64_t *dim = context;
    return br_cat(BR_INPUTS(br_softmax(inputs[0], *dim), br_log_softmax(inputs[0], *dim)), 0);
}

Test(softmax, gradients)
{
    br_tensor *x = leaf(values(BR_SHAPE(3, 2, 4), 1, BR_F64));
    for (int64_t dim = 0; dim < 3; dim++) {
        check_gradient(both, &dim, 1, &x);
        check_second_gradient(both, &dim, 1, &x);
    }
    br_tensor *wide = leaf(values(BR_SHAPE(2, 50), 1, BR_F64));
    check_gradient(both, &(int64_t){ 1 }, 1, &wide);
}
