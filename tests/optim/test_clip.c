/* Clipping gradients by their norm, and each element. */
#include "nn/nn_internal.h"
#include "tests/support.h"

#include <brasa/optim.h>

TestSuite(clip, .init = check_begin, .fini = check_end);

/* Parameters with the gradients [3, 4], [[0, -12], [84, 0]] (transposed in memory), and none. */
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
    cr_assert_eq(br_clip_grad_norm_(list, 100, 2), 85);
    cr_assert_eq(gradient(list, 0, 0), 3, "small enough");
    cr_assert_eq(br_tensor_version(br_grad_of(list->items[0].tensor)), version);
    cr_assert_eq(br_clip_grad_norm_(list, 17, 2), 85);
    double scale = 17 / (85 + 1e-6);
    check_close(gradient(list, 0, 0), 3 * scale, tolerance);
    check_close(gradient(list, 0, 1), 4 * scale, tolerance);
    check_close(gradient(list, 1, 1), -12 * scale, tolerance);
    check_close(gradient(list, 1, 2), 84 * scale, 10 * tolerance);
    cr_assert_gt(br_tensor_version(br_grad_of(list->items[0].tensor)), version);
    check_close(br_clip_grad_norm_(list, 8.4, INFINITY), 84 * scale, 10 * tolerance);
    check_close(gradient(list, 1, 2), 84 * scale * (8.4 / (84 * scale + 1e-6)), 10 * tolerance);
    br_named_list_free(list);
    br_scope_end(scope);
}

Test(clip, scales_what_is_too_long)
{
    check_clipping(BR_F32, 3e-7);
    check_clipping(BR_F64, 1e-15);
}

Test(clip, brings_elements_into_a_range)
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
        check_fails(br_clip_grad_value_(NULL, 1), "parameters is NULL");
        br_named_list_free(list);
        br_scope_end(scope);
    }
}

Test(clip, refuses_what_is_not_finite)
{
    br_scope *scope = br_scope_begin();
    br_named_list *list = parameters(BR_F32);
    float *values = br_data_f32(br_grad_of(list->items[0].tensor));
    const double types[] = { 2, INFINITY };
    for (int i = 0; i < 2; i++) {
        values[1] = NAN;
        cr_assert_eq(br_clip_grad_norm_(list, 1, types[i]), -1);
        check_fails(NULL, "the norm of the gradients is nan");
        values[1] = -INFINITY;
        cr_assert_eq(br_clip_grad_norm_(list, 1, types[i]), -1);
        check_fails(NULL, "the norm of the gradients is inf");
        cr_assert_eq(values[0], 3);
    }
    cr_assert_eq(br_clip_grad_norm_(list, -1, 2), -1);
    check_fails(NULL, "max_norm is -1");
    cr_assert_eq(br_clip_grad_norm_(list, 1, 1), -1);
    check_fails(NULL, "norm_type is 1, must be 2 or INFINITY");
    cr_assert_eq(br_clip_grad_norm_(NULL, 1, 2), -1);
    check_fails(NULL, "parameters is NULL");
    br_named_list_free(list);
    br_named_list *empty = br__named_list_new(false);
    cr_assert_eq(br_clip_grad_norm_(empty, 1, 2), 0);
    br_named_list_free(empty);
    br_scope_end(scope);
}

/* Long enough for several pieces: the sum's order is the same for any number of threads. */
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
        norms[threads - 1] = br_clip_grad_norm_(list, 1e9, 2);
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
