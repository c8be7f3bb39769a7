/* tests/ops/norm/test_layer_norm.c - layer norm. */
#include "tests/ops/torch_rows.h"
#include "tests/ops/values.h"

TestSuite(layer_norm, .init = check_begin, .fini = check_end);

static const double tolerance[] = { [BR_F32] = 4e-6, [BR_F64] = 2e-14 };

static void recorded(void)
{
    for (br_dtype dtype = BR_F32; dtype <= BR_F64; dtype++) {
        br_tensor *in[] = { leaf(values(BR_SHAPE(4, 6), 2, dtype)),
                            leaf(values(BR_SHAPE(6), 3, dtype)),
                            leaf(values(BR_SHAPE(6), 4, dtype)) };
        br_tensor *y = br_f_layer_norm(in[0], BR_SHAPE(6), in[1], in[2], 1e-5), *dx[3];
        check_table(y, layer_norm_1, tolerance[dtype]);
        br_tensor *dy = values(BR_SHAPE(4, 6), 9, dtype);
        for (int composed = 0; composed < 2; composed++) {
            br_grad(1, &y, 3, in, dx,
                    BR_OPTIONS(br_grad, .gradients = &dy, .retain_graph = true,
                               .create_graph = composed));
            check_table(dx[0], layer_norm_1_dx, tolerance[dtype]);
            check_table(dx[1], layer_norm_1_dw, tolerance[dtype]);
            check_table(dx[2], layer_norm_1_db, tolerance[dtype]);
        }
    }
}

Test(layer_norm, equals_pytorch)
{
    with_every_variant(recorded);
}

static void recorded_two_dimensions(void)
{
    for (br_dtype dtype = BR_F32; dtype <= BR_F64; dtype++) {
        br_tensor *in[] = { leaf(values(BR_SHAPE(3, 2, 4), 2, dtype)),
                            leaf(values(BR_SHAPE(2, 4), 3, dtype)) };
        br_tensor *y = br_f_layer_norm(in[0], BR_SHAPE(2, 4), in[1], NULL, 0.5), *dx[2];
        check_table(y, layer_norm_2, tolerance[dtype]);
        br_tensor *dy = values(BR_SHAPE(3, 2, 4), 9, dtype);
        br_grad(1, &y, 2, in, dx, BR_OPTIONS(br_grad, .gradients = &dy));
        check_table(dx[0], layer_norm_2_dx, tolerance[dtype]);
        check_table(dx[1], layer_norm_2_dw, tolerance[dtype]);
    }
}

Test(layer_norm, two_dimensions_equal_pytorch)
{
    with_every_variant(recorded_two_dimensions);
}

/* The mean is far larger than the standard deviation, so a plain sum of squares would cancel. */
Test(layer_norm, does_not_cancel)
{
    br_tensor *x = br_from_f32(BR_SHAPE(4), (float[]){ 10000, 10001, 10002, 10003 });
    const double d = sqrt(1.25);
    br_tensor *y = br_f_layer_norm(x, BR_SHAPE(4), NULL, NULL, 0);
    check_values(y, 4, (double[]){ -1.5 / d, -0.5 / d, 0.5 / d, 1.5 / d }, 2e-7);
}

/* A row of equal elements gives 0. A variance of 1e-38 and an eps of 1e-38 both affect the
 * result. */
Test(layer_norm, small_eps)
{
    br_tensor *flat = br_full(BR_SHAPE(2, 70), 3, BR_F32);
    check_close(br_at(br_f_layer_norm(flat, BR_SHAPE(70), NULL, NULL, 1e-12), BR_DIMS(1, 60)), 0,
                0);
    br_tensor *x = br_from_f32(BR_SHAPE(2), (float[]){ 1e-19f, -1e-19f });
    br_tensor *y = br_f_layer_norm(x, BR_SHAPE(2), NULL, NULL, 1e-38);
    check_close(br_at(y, BR_DIMS(0)), 1 / sqrt(2), 1e-6);
}

Test(layer_norm, shapes)
{
    br_tensor *x = values(BR_SHAPE(2, 3), 1, BR_F32), *w = br_ones(BR_SHAPE(2), BR_F32);
    check_shape(br_f_layer_norm(br_zeros(BR_SHAPE(0, 3), BR_F32), BR_SHAPE(3), NULL, NULL, 1e-5),
                BR_SHAPE(0, 3));
    check_shape(br_f_layer_norm(br_zeros(BR_SHAPE(3, 0), BR_F32), BR_SHAPE(0), NULL, NULL, 1e-5),
                BR_SHAPE(3, 0));
    check_fails(br_f_layer_norm(x, BR_SHAPE(2), NULL, NULL, 1e-5),
                "layer_norm: x [2, 3] must end with the normalised shape [2]");
    check_fails(br_f_layer_norm(x, BR_SCALAR, NULL, NULL, 1e-5), "normalised shape []");
    check_fails(br_f_layer_norm(x, BR_SHAPE(1, 2, 3), NULL, NULL, 1e-5), "must end with");
    check_fails(br_f_layer_norm(x, BR_SHAPE(3), w, NULL, 1e-5),
                "weight [2] must have the normalised shape [3]");
    check_fails(br_f_layer_norm(x, BR_SHAPE(3), NULL, br_zeros(BR_SHAPE(3), BR_F64), 1e-5),
                "x [2, 3] is f32 and bias [3] is f64");
    check_fails(br_f_layer_norm(br_to(x, BR_I64), BR_SHAPE(3), NULL, NULL, 1e-5), "is i64");
}

/* Without rows, the gradients of weight and bias are zero. */
Test(layer_norm, gradient_without_rows)
{
    br_tensor *x = br_zeros(BR_SHAPE(0, 3), BR_F32), *w = leaf(br_ones(BR_SHAPE(3), BR_F32));
    br_tensor *b = leaf(br_ones(BR_SHAPE(3), BR_F32));
    br_backward(br_sum(br_f_layer_norm(x, BR_SHAPE(3), w, b, 1e-5)));
    check_equals(br_grad_of(w), 0, 0, 0);
    check_equals(br_grad_of(b), 0, 0, 0);
}

static void run_large(int threads, br_tensor **results)
{
    br_set_num_threads(threads);
    br_tensor *in[] = { leaf(values(BR_SHAPE(2100, 70), 2, BR_F32)),
                        leaf(values(BR_SHAPE(70), 3, BR_F32)),
                        leaf(values(BR_SHAPE(70), 4, BR_F32)) };
    results[0] =
        br_f_layer_norm(br_set_requires_grad(in[0], true), BR_SHAPE(70), in[1], in[2], 1e-5);
    br_tensor *dy = values(BR_SHAPE(2100, 70), 9, BR_F32);
    br_grad(1, results, 3, in, results + 1, BR_OPTIONS(br_grad, .gradients = &dy));
}

Test(layer_norm, does_not_depend_on_threads)
{
    br_tensor *one[4], *more[4];
    run_large(1, one);
    for (int threads = 2; threads <= 3; threads++) {
        run_large(threads, more);
        for (int i = 0; i < 4; i++)
            check_same_bits(one[i], more[i]);
    }
}

static br_tensor *norm(br_tensor *const *inputs, int n, void *context)
{
    (void)context;
    const int64_t *sizes = br_sizes(inputs[0]) + 1;
    return br_f_layer_norm(inputs[0], br_ndim(inputs[0]) - 1, sizes, n > 1 ? inputs[1] : NULL,
                           n > 2 ? inputs[2] : NULL, 1e-3);
}

Test(layer_norm, gradients)
{
    br_tensor *in[] = { leaf(values(BR_SHAPE(3, 2, 4), 2, BR_F64)),
                        leaf(values(BR_SHAPE(2, 4), 3, BR_F64)),
                        leaf(values(BR_SHAPE(2, 4), 4, BR_F64)) };
    for (int n = 1; n <= 3; n++) {
        check_gradient(norm, NULL, n, in);
        check_second_gradient(norm, NULL, n, in);
    }
}
