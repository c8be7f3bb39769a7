/* tests/optim/test_clip.c - clipping gradients by norm and by value. */
#include "nn/nn_internal.h"
#include "tests/support.h"

#include <brasa/optim.h>

TestSuite(clip, .init = check_begin, .fini = check_end);

/* Returns parameters with the gradients [3, 4], [[0, -12], [84, 0]] (transposed in memory) and
 * NULL, and the first two parameters a second time. */
static br_named_list *parameters(br_dtype dtype)
{
    br_named_list *list = br__named_list_new(true);
    br_tensor *a = br_zeros(BR_SHAPE(2), dtype), *b = br_zeros(BR_SHAPE(2, 2), dtype);
    br_set_grad(a, br_to(br_from_f64(BR_SHAPE(2), (double[]){ 3, 4 }), dtype));
    br_tensor *grad = br_to(br_from_f64(BR_SHAPE(2, 2), (double[]){ 0, 84, -12, 0 }), dtype);
    br_set_grad(b, br_transpose(grad, 0, 1));
    br__named_list_add(list, "a", a);
    br__named_list_add(list, "b", b);
    br__named_list_add(list, "none", br_zeros(BR_SHAPE(2), dtype));
    br__named_list_add(list, "tied", a);
    br__named_list_add(list, "tied_b", b);
    return list;
}

static double gradient(const br_named_list *list, int64_t item, int64_t i)
{
    br_tensor *t = br_grad_of(list->items[item].tensor);
    return br_at(t, br_ndim(t), br_ndim(t) == 1 ? &i : (int64_t[]){ i / 2, i % 2 });
}

static void check_clipping(br_dtype dtype, double tolerance)
{
    br_scope *scope = br_scope_begin();
    br_named_list *list = parameters(dtype);
    uint64_t version = br_tensor_version(br_grad_of(list->items[0].tensor));
    cr_assert_eq(br_clip_grad_norm_(list, 100, 2, true), 85);
    cr_assert_eq(gradient(list, 0, 0), 3, "the norm is below max_norm");
    cr_assert_eq(br_tensor_version(br_grad_of(list->items[0].tensor)), version);
    cr_assert_eq(br_clip_grad_norm_(list, 17, 2, true), 85);
    double scale = 17 / (85 + 1e-6);
    check_close(gradient(list, 0, 0), 3 * scale, tolerance);
    check_close(gradient(list, 0, 1), 4 * scale, tolerance);
    check_close(gradient(list, 1, 1), -12 * scale, tolerance);
    check_close(gradient(list, 1, 2), 84 * scale, 10 * tolerance);
    cr_assert_gt(br_tensor_version(br_grad_of(list->items[0].tensor)), version);
    check_close(br_clip_grad_norm_(list, 8.4, INFINITY, true), 84 * scale, 10 * tolerance);
    check_close(gradient(list, 1, 2), 84 * scale * (8.4 / (84 * scale + 1e-6)), 10 * tolerance);
    br_named_list_free(list);
    br_scope_end(scope);
}

Test(clip, by_norm)
{
    check_clipping(BR_F32, 3e-7);
    check_clipping(BR_F64, 1e-15);
}

Test(clip, by_value)
{
    for (br_dtype dtype = BR_F32; dtype <= BR_F64; dtype++) {
        br_scope *scope = br_scope_begin();
        br_named_list *list = parameters(dtype);
        uint64_t version = br_tensor_version(br_grad_of(list->items[0].tensor));
        cr_assert(br_clip_grad_value_(list, 3.5));
        const double a[] = { 3, 3.5 }, b[] = { 0, -3.5, 3.5, 0 };
        for (int64_t i = 0; i < 2; i++)
            cr_assert_eq(gradient(list, 0, i), a[i]);
        for (int64_t i = 0; i < 4; i++)
            cr_assert_eq(gradient(list, 1, i), b[i]);
        cr_assert_gt(br_tensor_version(br_grad_of(list->items[0].tensor)), version);
        br_mul_scalar_(br_grad_of(list->items[0].tensor), NAN);
        cr_assert(br_clip_grad_value_(list, 0));
        cr_assert(isnan(gradient(list, 0, 0)));
        cr_assert_eq(gradient(list, 1, 1), 0);
        check_fails(br_clip_grad_value_(list, -1), "clip_value is -1, must not be negative");
        check_fails(br_clip_grad_value_(list, NAN), "clip_value is nan");
        check_fails(br_clip_grad_value_(NULL, 1), "parameters is NULL");
        br_named_list_free(list);
        br_scope_end(scope);
    }
}

Test(clip, errors)
{
    br_scope *scope = br_scope_begin();
    br_named_list *list = parameters(BR_F32);
    float *values = br_data_f32(br_grad_of(list->items[0].tensor));
    const double types[] = { 2, INFINITY };
    for (int i = 0; i < 2; i++) {
        values[1] = NAN;
        cr_assert_eq(br_clip_grad_norm_(list, 1, types[i], true), -1);
        check_fails(NULL, "the total norm of the gradients is nan");
        values[1] = -INFINITY;
        cr_assert_eq(br_clip_grad_norm_(list, 1, types[i], true), -1);
        check_fails(NULL, "the total norm of the gradients is inf");
        cr_assert_eq(values[0], 3);
    }
    cr_assert_eq(br_clip_grad_norm_(list, -1, 2, true), -1);
    check_fails(NULL, "max_norm is -1");
    cr_assert_eq(br_clip_grad_norm_(list, 1, NAN, true), -1);
    check_fails(NULL, "norm_type is nan, must be a number");
    cr_assert_eq(br_clip_grad_norm_(NULL, 1, 2, true), -1);
    check_fails(NULL, "parameters is NULL");
    br_named_list_free(list);
    br_named_list *empty = br__named_list_new(false);
    cr_assert_eq(br_clip_grad_norm_(empty, 1, 2, true), 0);
    br_named_list_free(empty);
    br_scope_end(scope);
}

/* The tensors are large enough for several tasks. The order of summation must not depend on the
 * number of threads. */
Test(clip, the_norm_does_not_depend_on_threads)
{
    br_scope *scope = br_scope_begin();
    br_named_list *list = br__named_list_new(true);
    br_manual_seed(1);
    for (int i = 0; i < 3; i++) {
        br_tensor *t = br_zeros(BR_SHAPE(50003), BR_F32);
        br_set_grad(t, br_randn(BR_SHAPE(50003), BR_F32));
        br__named_list_add(list, "t", t);
    }
    double norms[3];
    for (int threads = 1; threads <= 3; threads++) {
        br_set_num_threads(threads);
        norms[threads - 1] = br_clip_grad_norm_(list, 1e9, 2, true);
    }
    cr_assert_eq(norms[0], norms[1]);
    cr_assert_eq(norms[0], norms[2]);
    double sum = 0;
    for (int i = 0; i < 3; i++) {
        const float *values = br_data_f32(br_grad_of(list->items[i].tensor));
        for (int k = 0; k < 50003; k++)
            sum += (double)values[k] * (double)values[k];
    }
    check_close(norms[0], sqrt(sum), 1e-10);
    br_named_list_free(list);
    br_scope_end(scope);
}

/* The total norm is that of the tensors' norms, bit for bit. */
Test(clip, total_norm_of_tensors)
{
    br_scope *scope = br_scope_begin();
    br_manual_seed(7);
    br_tensor *tensors[4] = { br_randn(BR_SHAPE(70001), BR_F32), br_randn(BR_SHAPE(5, 3), BR_F64),
                              br_zeros(BR_SHAPE(0), BR_F32), br_randn(BR_SCALAR, BR_F32) };
    br_named_list *list = br__named_list_new(true);
    br_tensor *norms[4];
    for (int i = 0; i < 4; i++) {
        char name[] = { (char)('a' + i), '\0' };
        br_tensor *t = br_zeros_like(tensors[i]);
        br_set_grad(t, tensors[i]);
        br__named_list_add(list, name, t);
        norms[i] = br_scalar(br_get_total_norm(1, &tensors[i], 2, false), BR_F64);
    }
    double norm = br_get_total_norm(4, tensors, 2, false);
    cr_assert_eq(norm, br_get_total_norm(4, norms, 2, false));
    cr_assert_eq(norm, br_clip_grad_norm_(list, 1e9, 2, true));
    double square = 0;
    for (int i = 0; i < 4; i++)
        square += br_item(br_sum(br_square(br_to(tensors[i], BR_F64))));
    check_close(norm, sqrt(square), 1e-10);
    br_tensor *by_columns = br_transpose(tensors[1], 0, 1);
    cr_assert_eq(br_get_total_norm(1, &by_columns, INFINITY, false),
                 br_item(br_max(br_abs(tensors[1]))));
    cr_assert_eq(br_get_total_norm(0, NULL, 2, false), 0);
    cr_assert(
        isnan(br_get_total_norm(1, (br_tensor *[]){ br_scalar(NAN, BR_F32) }, INFINITY, false)));
    check_fails(br_get_total_norm(1, NULL, 2, false) >= 0, "get_total_norm: tensors is NULL");
    check_fails(br_get_total_norm(1, (br_tensor *[]){ NULL }, 2, false) >= 0, "a tensor is NULL");
    check_fails(br_get_total_norm(-1, NULL, 2, false) >= 0, "n is -1, must not be negative");
    check_fails(br_get_total_norm(1, tensors, NAN, false) >= 0,
                "norm_type is nan, must be a number");
    br_tensor *integer = br_ones(BR_SHAPE(2), BR_I64);
    check_fails(br_get_total_norm(1, &integer, 2, false) >= 0,
                "is i64, must be a floating-point dtype");
    br_named_list_free(list);
    br_scope_end(scope);
}

Test(clip, gradients_of_a_module)
{
    br_linear *self = br_linear_new(1, 2, true);
    br_scope *scope = br_scope_begin();
    br_set_grad(self->weight, br_from_f32(BR_SHAPE(2, 1), (float[]){ 2, 4 }));
    br_set_grad(self->bias, br_from_f32(BR_SHAPE(2), (float[]){ 4, 0 }));
    cr_assert_eq(br_module_clip_grad_norm_(br_base(self), 3, 2, true), 6);
    check_close(br_at(br_grad_of(self->weight), BR_DIMS(1, 0)), 2, 1e-6);
    check_close(br_at(br_grad_of(self->bias), BR_DIMS(0)), 2, 1e-6);
    cr_assert(br_module_clip_grad_value_(br_base(self), 0.5));
    cr_assert_eq(br_item(br_sum(br_grad_of(self->weight))), 1);
    cr_assert_eq(br_item(br_sum(br_grad_of(self->bias))), 0.5);
    check_fails(br_module_clip_grad_norm_(NULL, 1, 2, true) >= 0,
                "clip_grad_norm_: module is NULL");
    check_fails(br_module_clip_grad_value_(NULL, 1), "clip_grad_value_: module is NULL");
    br_scope_end(scope);
    br_module_free(self);
}

/* PyTorch's norms of [3, -4, 0.5] and the scaled gradients. */
Test(clip, orders_of_norms)
{
    const double rows[][3] = { { 0, 1, 1 },
                               { 1, 7.5, 1 / 7.500001 },
                               { 2, 5.024937810560445, 1 / (5.024937810560445 + 1e-6) },
                               { 2.5, 4.6951, 0.21299 },
                               { INFINITY, 4, 1 / 4.000001 },
                               { -INFINITY, 0.5, 1 },
                               { -1, 0.3871, 1 },
                               { -2, 0.4895, 1 } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (br_dtype dtype = BR_F32; dtype <= BR_F64; dtype++) {
            br_scope *scope = br_scope_begin();
            br_tensor *x = br_set_requires_grad(br_zeros(BR_SHAPE(3), dtype), true);
            br_set_grad(x, br_to(br_from_f64(BR_SHAPE(3), (double[]){ 3, -4, 0.5 }), dtype));
            br_named_list *list = br__named_list_new(false);
            br__named_list_add(list, "x", x);
            check_close(br_clip_grad_norm_(list, 1, rows[i][0], true), rows[i][1], 1e-4);
            check_close(br_at(br_grad_of(x), BR_DIMS(1)), -4 * rows[i][2], 1e-4);
            br_named_list_free(list);
            br_scope_end(scope);
        }
}

/* Without error_if_nonfinite PyTorch multiplies by 0 or NaN. */
Test(clip, norms_that_are_not_finite)
{
    const double values[] = { INFINITY, NAN };
    for (int i = 0; i < 2; i++) {
        br_scope *scope = br_scope_begin();
        br_tensor *x = br_set_requires_grad(br_zeros(BR_SHAPE(2), BR_F64), true);
        br_set_grad(x, br_from_f64(BR_SHAPE(2), (double[]){ values[i], 1 }));
        br_named_list *list = br__named_list_new(false);
        br__named_list_add(list, "x", x);
        double norm = br_clip_grad_norm_(list, 1, 2, false);
        check_ok();
        cr_assert(i == 0 ? norm == (double)INFINITY : isnan(norm));
        cr_assert(isnan(br_at(br_grad_of(x), BR_DIMS(0))));
        double other = br_at(br_grad_of(x), BR_DIMS(1));
        cr_assert(i == 0 ? other == 0 : isnan(other));
        br_named_list_free(list);
        br_scope_end(scope);
    }
}

/* The squares of these numbers are 0 or infinite in f64. */
Test(clip, norms_of_tiny_and_huge_numbers)
{
    br_scope *scope = br_scope_begin();
    static const double units[] = { 0x1p-700, 0x1p700 };
    for (int i = 0; i < 2; i++) {
        br_tensor *t = br_full(BR_SHAPE(4), units[i], BR_F64);
        cr_assert_eq(br_get_total_norm(1, &t, 2, true), 2 * units[i]);
    }
    br_scope_end(scope);
}
