/* tests/ops/conv/test_pool.c - pooling: values, gradients and indices compared with PyTorch's, NaN,
 * second-order gradients, and errors. */
#include "tests/ops/torch_pools.h"
#include "tests/ops/values.h"

#include <brasa/nn.h>

TestSuite(pool, .init = check_begin, .fini = check_end);

static const double tolerance[] = { [BR_F32] = 1e-6, [BR_F64] = 1e-15 };

#define OPTIONS(...) BR_OPTIONS(br_pool, __VA_ARGS__)

/* Checks y and its gradient with respect to x. */
static void check_pool(br_tensor *y, br_tensor *x, int64_t n, const double *want,
                       const double *want_dx)
{
    double tol = tolerance[br_dtype_of(x)];
    check_values(y, n, want, tol);
    br_tensor *dy = values(br_ndim(y), br_sizes(y), 9, br_dtype_of(x)), *dx;
    br_grad(1, &y, 1, &x, &dx, BR_OPTIONS(br_grad, .gradients = &dy));
    check_values(dx, br_numel(x), want_dx, 4 * tol);
}

#define check_recorded(name, x, ...) \
    check_pool(__VA_ARGS__, x, sizeof name / sizeof *name, name, name##_dx)

static br_tensor *input(int ndim, const int64_t *sizes, br_dtype dtype)
{
    return leaf(values(ndim, sizes, 2, dtype));
}

Test(pool, max_equals_pytorch)
{
    for (br_dtype dtype = BR_F32; dtype <= BR_F64; dtype++) {
        br_tensor *x = input(BR_SHAPE(2, 3, 7), dtype), *indices;
        check_recorded(
            max_pool1d, x,
            br_f_max_pool1d(x,
                            OPTIONS(.kernel_size = { .rows = 3 }, .stride = { .rows = 2 },
                                    .padding = { .rows = 1 }, .ceil_mode = true),
                            &indices));
        check_table(indices, max_pool1d_indices, 0);
        x = input(BR_SHAPE(2, 2, 5, 6), dtype);
        check_recorded(max_pool2d, x,
                       br_f_max_pool2d(x, OPTIONS(.kernel_size = { 2, 3 }), &indices));
        check_table(indices, max_pool2d_indices, 0);
        x = input(BR_SHAPE(2, 6, 7), dtype);
        check_recorded(
            max_pool2d_options, x,
            br_f_max_pool2d(x,
                            OPTIONS(.kernel_size = { 3, 2 }, .stride = { 2, 1 },
                                    .padding = { 1, 0 }, .dilation = { 1, 2 }, .ceil_mode = true),
                            &indices));
        check_table(indices, max_pool2d_options_indices, 0);
    }
}

Test(pool, average_equals_pytorch)
{
    for (br_dtype dtype = BR_F32; dtype <= BR_F64; dtype++) {
        br_tensor *x = input(BR_SHAPE(2, 3, 7), dtype);
        check_recorded(
            avg_pool1d, x,
            br_f_avg_pool1d(x, OPTIONS(.kernel_size = { .rows = 3 }, .stride = { .rows = 2 },
                                       .padding = { .rows = 1 }, .ceil_mode = true)));
        check_recorded(adaptive_avg_pool1d, x, br_f_adaptive_avg_pool1d(x, 3));
        x = input(BR_SHAPE(2, 2, 5, 6), dtype);
        check_recorded(avg_pool2d, x, br_f_avg_pool2d(x, OPTIONS(.kernel_size = { 2, 3 })));
        x = input(BR_SHAPE(2, 5, 6), dtype);
        check_recorded(avg_pool2d_inside, x,
                       br_f_avg_pool2d(x, OPTIONS(.kernel_size = { 3, 3 }, .stride = { 2, 2 },
                                                  .padding = { 1, 1 }, .ceil_mode = true,
                                                  .count_include_pad = false)));
        check_recorded(adaptive_avg_pool2d, x, br_f_adaptive_avg_pool2d(x, 3, 8));
        x = input(BR_SHAPE(1, 2, 5, 6), dtype);
        check_recorded(avg_pool2d_divisor, x,
                       br_f_avg_pool2d(x, OPTIONS(.kernel_size = { 3, 3 }, .stride = { 2, 2 },
                                                  .padding = { 1, 1 }, .divisor_override = 4)));
    }
}

Test(pool, nan_counts_as_largest)
{
    br_tensor *x = br_from_f32(BR_SHAPE(1, 6), (float[]){ 1, NAN, 3, 4, 4, -INFINITY }), *at;
    br_tensor *y = br_f_max_pool1d(x, OPTIONS(.kernel_size = { .rows = 3 }), &at);
    check_equals(y, NAN, 4);
    check_equals(at, 1, 3);
    x = leaf(br_from_f64(BR_SHAPE(1, 2, 3), (double[]){ NAN, 1, 2, 3, NAN, 4 }));
    y = br_f_max_pool2d(x, OPTIONS(.kernel_size = { 2, 3 }), &at); /* the last NaN, as in PyTorch */
    check_equals(at, 4);
    br_backward(y);
    check_equals(br_grad_of(x), 0, 0, 0, 0, 1, 0);
    x = br_from_f32(BR_SHAPE(1, 2), (float[]){ -INFINITY, -INFINITY });
    check_equals(br_f_max_pool1d(x, OPTIONS(.kernel_size = { .rows = 2 }), NULL), -INFINITY);
}

static br_tensor *max(br_tensor *const *in, int n, void *context)
{
    (void)n;
    return br_f_max_pool2d(in[0], context, NULL);
}

static br_tensor *avg(br_tensor *const *in, int n, void *context)
{
    (void)n;
    return br_f_avg_pool2d(in[0], context);
}

Test(pool, second_gradients)
{
    br_tensor *x = leaf(values(BR_SHAPE(2, 4, 5), 2, BR_F64));
    br_pool_options options = *BR_OPTIONS(br_pool, .kernel_size = BR_PAIR(2, 3),
                                          .stride = BR_PAIR(1, 2), .padding = BR_PAIR(1, 1));
    check_second_gradient(max, &options, 1, &x);
    check_second_gradient(avg, &options, 1, &x);
}

Test(pool, errors)
{
    br_tensor *x = br_ones(BR_SHAPE(3, 4, 5), BR_F32);
    check_fails(br_f_max_pool2d(x, NULL, NULL),
                "max_pool2d: kernel_size is 0, must be in 1 .. 2^31 - 1");
    check_fails(br_f_max_pool2d(x, OPTIONS(.kernel_size = { 2, 7 }), NULL),
                "x [3, 4, 5] with padding 0 is smaller than the kernel of size 7");
    check_fails(br_f_avg_pool2d(x, OPTIONS(.kernel_size = { 2, 2 }, .stride = { -1, 1 })),
                "stride is -1");
    check_fails(br_f_avg_pool2d(x, OPTIONS(.kernel_size = { 2, 2 }, .stride = { 1LL << 40, 1 })),
                "stride is 1099511627776, must be in 1 .. 2^31 - 1");
    check_fails(br_f_avg_pool2d(x, OPTIONS(.kernel_size = { 2, 2 }, .padding = { 1, 2 })),
                "padding is 2, must be at most half of the dilated kernel (kernel size 2)");
    check_fails(
        br_f_avg_pool1d(br_ones(BR_SHAPE(4), BR_F32), OPTIONS(.kernel_size = { .rows = 2 })),
        "x [4] must have 3 dimensions, or 2 without the batch");
    check_fails(br_f_max_pool1d(br_ones(BR_SHAPE(1, 2), BR_F32),
                                OPTIONS(.kernel_size = { .rows = 2 }, .padding = { .rows = 3 },
                                        .dilation = { .rows = 5 }),
                                NULL),
                "window 0 of a kernel of size 2 with dilation 5 contains only padding");
    check_fails(br_f_avg_pool2d(x, OPTIONS(.kernel_size = { 2, 2 }, .dilation = { 1, 2 })),
                "avg_pool2d: dilation is 2, but only max pooling supports it");
    check_fails(br_f_max_pool2d(x, OPTIONS(.kernel_size = { 2, 2 }, .divisor_override = 3), NULL),
                "max_pool2d: divisor_override is 3, but only average pooling supports it");
    check_fails(br_f_adaptive_avg_pool2d(x, -1, 2), "output_size is -1, must be in 0 .. 2^31 - 1");
    check_fails(br_f_adaptive_avg_pool2d(x, 2, 1LL << 40), "output_size is 1099511627776");
    check_fails(br_f_adaptive_avg_pool1d(br_ones(BR_SHAPE(2, 0), BR_F32), 2),
                "no elements to average");
}

/* As in PyTorch, an output size of 0 gives an empty result, whose gradient is 0. */
Test(pool, adaptive_to_size_0)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_set_requires_grad(br_ones(BR_SHAPE(2, 3, 4), BR_F32), true);
    br_tensor *y = br_f_adaptive_avg_pool2d(x, 0, 2);
    check_shape(y, BR_SHAPE(2, 0, 2));
    br_backward(br_sum(y));
    cr_assert_eq(br_item(br_sum(br_abs(br_grad_of(x)))), 0);
    check_shape(br_f_adaptive_avg_pool1d(x, 0), BR_SHAPE(2, 3, 0));
    br_pool *layer = br_adaptive_avg_pool2d_new(0, 0);
    check_shape(br_pool_forward(layer, x), BR_SHAPE(2, 0, 0));
    br_module_free(layer);
    br_scope_end(scope);
}

/* ---- ceil_mode and inputs smaller than the kernel -------------------------------------------- */

/* Pooling of 1 .. size in one dimension. */
typedef struct small_case {
    int kernel, stride, padding, dilation, size;
    int n_out; /* 0: an error, as in PyTorch */
    double max[2];
    int64_t indices[2];
    double mean[2], mean_of_inputs[2]; /* the latter without count_include_pad */
} small_case;

/* PyTorch's results. */
static const small_case small_cases[] = {
    { 2, 2, 0, 1, 1, 1, { 1 }, { 0 }, { 1 }, { 1 } },
    { 2, 2, 0, 1, 3, 2, { 2, 3 }, { 1, 2 }, { 1.5, 3 }, { 1.5, 3 } },
    { 2, 1, 0, 1, 1, 0, { 0 }, { 0 }, { 0 }, { 0 } },
    { 3, 2, 0, 1, 1, 0, { 0 }, { 0 }, { 0 }, { 0 } },
    { 3, 2, 0, 1, 2, 1, { 2 }, { 1 }, { 1.5 }, { 1.5 } },
    { 3, 2, 1, 1, 1, 1, { 1 }, { 0 }, { 1 / 3.0 }, { 1 } },
    { 5, 2, 0, 1, 3, 0, { 0 }, { 0 }, { 0 }, { 0 } },
    { 5, 4, 2, 1, 1, 1, { 1 }, { 0 }, { 0.2 }, { 1 } },
    { 5, 4, 2, 1, 3, 2, { 3, 3 }, { 2, 2 }, { 1.2, 1 }, { 2, 3 } },
    { 5, 5, 0, 1, 1, 1, { 1 }, { 0 }, { 1 }, { 1 } },
    { 5, 5, 0, 1, 2, 1, { 2 }, { 1 }, { 1.5 }, { 1.5 } },
    { 2, 3, 0, 2, 1, 1, { 1 }, { 0 }, { 0 }, { 0 } },
    { 2, 3, 0, 2, 2, 1, { 1 }, { 0 }, { 0 }, { 0 } },
    { 2, 3, 1, 2, 3, 2, { 2, 3 }, { 1, 2 }, { 0 }, { 0 } },
    { 3, 3, 0, 2, 2, 0, { 0 }, { 0 }, { 0 }, { 0 } },
};

static void check_outputs(const small_case *c, br_tensor *y, const double *want)
{
    cr_assert(y, "%s", br_error_message());
    cr_assert_eq(br_numel(y), c->n_out);
    y = br_reshape(y, BR_SHAPE(-1));
    for (int64_t i = 0; i < c->n_out; i++)
        cr_assert_float_eq(br_at(y, 1, &i), want[i], 1e-15, "kernel %d, stride %d, size %d: %g",
                           c->kernel, c->stride, c->size, br_at(y, 1, &i));
}

static void check_small(const small_case *c)
{
    br_pool_options o = *OPTIONS(.kernel_size = { .rows = c->kernel },
                                 .stride = { .rows = c->stride }, .padding = { .rows = c->padding },
                                 .dilation = { .rows = c->dilation }, .ceil_mode = true);
    br_tensor *line = br_arange(1, c->size + 1, 1, BR_F64);
    br_tensor *x = leaf(br_reshape(line, BR_SHAPE(1, c->size))), *indices;
    if (c->n_out == 0) {
        check_fails(br_f_max_pool1d(x, &o, NULL), "is smaller than the kernel of size");
        return;
    }
    br_tensor *y = br_f_max_pool1d(x, &o, &indices);
    check_outputs(c, y, c->max);
    for (int64_t i = 0; i < c->n_out; i++)
        cr_assert_eq(br_data_i64(indices)[i], c->indices[i]);
    cr_assert(br_backward(br_sum(y)), "%s", br_error_message());
    cr_assert_eq(br_item(br_sum(br_grad_of(x))), c->n_out);
    if (c->dilation > 1)
        return;
    check_outputs(c, br_f_avg_pool1d(x, &o), c->mean);
    o.count_include_pad = false;
    check_outputs(c, br_f_avg_pool1d(x, &o), c->mean_of_inputs);
}

Test(pool, inputs_smaller_than_the_kernel_with_ceil_mode)
{
    br_scope *scope = br_scope_begin();
    for (size_t i = 0; i < sizeof small_cases / sizeof *small_cases; i++)
        check_small(&small_cases[i]);
    br_tensor *x = leaf(br_reshape(br_arange(0, 7, 1, BR_F32), BR_SHAPE(1, 1, 1, 7))), *indices;
    br_tensor *y = br_f_max_pool2d(
        x, OPTIONS(.kernel_size = { 2, 2 }, .stride = { 2, 2 }, .ceil_mode = true), &indices);
    check_shape(y, BR_SHAPE(1, 1, 1, 4));
    check_equals(y, 1, 3, 5, 6);
    check_equals(indices, 1, 3, 5, 6);
    br_scope_end(scope);
}
