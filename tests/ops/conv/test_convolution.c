/* tests/ops/conv/test_convolution.c - convolutions: compared with PyTorch, and at large sizes with
 * a composition of matrix products; second-order gradients, depthwise convolutions, and errors. */
#include "tests/ops/torch_convolutions.h"
#include "tests/ops/values.h"

TestSuite(convolution, .init = check_begin, .fini = check_end);

static const double tolerance[] = { [BR_F32] = 3e-5, [BR_F64] = 1e-13 };

typedef br_tensor *(*conv_fn)(br_tensor *x, br_tensor *weight, br_tensor *bias,
                              const br_conv_options *options);

typedef struct recorded_case {
    const char *name;
    conv_fn conv;
    br_conv_options options; /* without struct_size; 0 means 1 where 0 is invalid */
    int64_t sizes[3][4];     /* of x, weight and bias, terminated by 0; { 0 }: no bias */
    const double *want[4];   /* y, then the gradients */
} recorded_case;

#define TABLES(name)                          \
    {                                         \
        name, name##_dx, name##_dw, name##_db \
    }

static const recorded_case cases[] = {
    { "plain 1d",
      br_f_conv1d,
      { .groups = 1 },
      { { 2, 3, 6 }, { 4, 3, 3 }, { 4 } },
      TABLES(conv1d_plain) },
    { "1d",
      br_f_conv1d,
      { .stride = { .rows = 2 }, .padding = { .rows = 2 }, .dilation = { .rows = 2 }, .groups = 2 },
      { { 4, 9 }, { 2, 2, 3 }, { 2 } },
      TABLES(conv1d_options) },
    { "plain 2d",
      br_f_conv2d,
      { .groups = 0 },
      { { 2, 2, 4, 5 }, { 3, 2, 3, 2 }, { 3 } },
      TABLES(conv2d_plain) },
    { "2d",
      br_f_conv2d,
      { .stride = { 2, 1 }, .padding = { 1, 2 }, .dilation = { 1, 2 }, .groups = 2 },
      { { 2, 4, 5, 6 }, { 4, 2, 2, 3 }, { 4 } },
      TABLES(conv2d_options) },
    { "same",
      br_f_conv2d,
      { .same = true, .dilation = { 2, 1 } },
      { { 1, 2, 3, 4 }, { 2, 2, 2, 4 } },
      { conv2d_same, conv2d_same_dx, conv2d_same_dw } },
    { "patches",
      br_f_conv2d,
      { .stride = { 2, 3 } },
      { { 1, 2, 4, 6 }, { 3, 2, 2, 3 }, { 3 } },
      TABLES(conv2d_patches) },
    { "points",
      br_f_conv2d,
      { .groups = 1 },
      { { 2, 3, 2, 3 }, { 4, 3, 1, 1 }, { 4 } },
      TABLES(conv2d_points) },
    { "transposed 1d",
      br_f_conv_transpose1d,
      { .stride = { .rows = 2 }, .padding = { .rows = 1 }, .output_padding = { .rows = 1 } },
      { { 2, 3, 4 }, { 3, 2, 3 }, { 2 } },
      TABLES(conv_transpose1d) },
    { "transposed 2d",
      br_f_conv_transpose2d,
      { .stride = { 2, 1 }, .padding = { 0, 1 }, .dilation = { 1, 2 }, .groups = 2 },
      { { 2, 4, 2, 3 }, { 4, 1, 2, 3 }, { 2 } },
      TABLES(conv_transpose2d) },
};

enum { NUM_CASES = sizeof cases / sizeof *cases };

static int64_t or_one(int64_t n)
{
    return n == 0 ? 1 : n;
}

static br_conv_options options_of(const recorded_case *c)
{
    br_conv_options o = c->options;
    o.struct_size = sizeof o;
    o.stride = BR_PAIR(or_one(o.stride.rows), or_one(o.stride.columns));
    o.dilation = BR_PAIR(or_one(o.dilation.rows), or_one(o.dilation.columns));
    o.groups = or_one(o.groups);
    return o;
}

/* Creates the case's inputs, which require grad, and returns their number. */
static int make_inputs(const recorded_case *c, br_dtype dtype, br_tensor **in)
{
    int n = 0;
    in[2] = NULL;
    for (; n < 3 && c->sizes[n][0] > 0; n++) {
        int ndim = 0;
        while (ndim < 4 && c->sizes[n][ndim] > 0)
            ndim++;
        in[n] = leaf(values(ndim, c->sizes[n], n + 2, dtype));
    }
    return n;
}

static void recorded(void)
{
    for (const recorded_case *c = cases; c < cases + NUM_CASES; c++) {
        for (br_dtype dtype = BR_F32; dtype <= BR_F64; dtype++) {
            br_tensor *in[3], *dx[3];
            int n = make_inputs(c, dtype, in);
            br_conv_options options = options_of(c);
            br_tensor *y = c->conv(in[0], in[1], in[2], &options);
            check_values(y, br_numel(y), c->want[0], tolerance[dtype]);
            br_tensor *dy = values(br_ndim(y), br_sizes(y), 9, dtype);
            br_grad(1, &y, n, in, dx, BR_OPTIONS(br_grad, .gradients = &dy));
            for (int i = 0; i < n; i++)
                check_values(dx[i], br_numel(in[i]), c->want[1 + i], tolerance[dtype]);
        }
    }
}

Test(convolution, equals_pytorch)
{
    with_every_variant(recorded);
}

/* ---- Gradients of gradients ------------------------------------------------------------------ */

static br_tensor *run(br_tensor *const *in, int n, void *context)
{
    const recorded_case *c = context;
    br_conv_options options = options_of(c);
    return c->conv(in[0], in[1], n > 2 ? in[2] : NULL, &options);
}

Test(convolution, second_gradients)
{
    for (const recorded_case *c = cases; c < cases + NUM_CASES; c++) {
        br_tensor *in[3];
        /* the bias is left out: its second-order gradient does not involve the convolution */
        make_inputs(c, BR_F64, in);
        for (int i = 0; i < 2; i++)
            in[i] = leaf(br_mul_scalar(br_detach(in[i]), 0.1));
        check_second_gradient(run, (void *)(uintptr_t)c, 2, in);
    }
}

/* ---- Large sizes, computed in several parts -------------------------------------------------- */

/* Computes a convolution without padding and strides as a sum of matrix products, one per position
 * in the kernel. Each multiplies the weights at that position by the shifted x. */
static br_tensor *composed(br_tensor *x, br_tensor *weight)
{
    int64_t rows = br_size(x, 2) - br_size(weight, 2) + 1;
    int64_t columns = br_size(x, 3) - br_size(weight, 3) + 1;
    br_tensor *y = NULL;
    for (int64_t i = 0; i < br_size(weight, 2); i++)
        for (int64_t j = 0; j < br_size(weight, 3); j++) {
            br_tensor *seen = br_narrow(br_narrow(x, 2, i, rows), 3, j, columns);
            seen = br_reshape(seen, BR_SHAPE(br_size(x, 0), br_size(x, 1), rows * columns));
            br_tensor *term = br_matmul(br_select(br_select(weight, 3, j), 2, i), seen);
            y = y ? br_add(y, term) : term;
        }
    return br_reshape(y, BR_SHAPE(br_size(x, 0), br_size(weight, 0), rows, columns));
}

/* The same with two groups: the halves of the channels of x and of the outputs. */
static br_tensor *composed_halves(br_tensor *x, br_tensor *weight)
{
    br_tensor *halves[2];
    int64_t channels = br_size(weight, 1), outputs = br_size(weight, 0) / 2;
    for (int i = 0; i < 2; i++)
        halves[i] = composed(br_narrow(x, 1, i * channels, channels),
                             br_narrow(weight, 0, i * outputs, outputs));
    return br_cat(2, halves, 1);
}

Test(convolution, many_parts)
{
    const int64_t shapes[][4] = {
        { 300, 8, 18, 20 }, { 2, 20, 70, 90 }, { 2, 3, 4, 30000 },
        { 300, 8, 18, 20 }, { 5, 20, 70, 90 }, { 3, 8, 14, 13 },
    };
    const int64_t kernels[] = { 3, 3, 3, 3, 3, 1 }, groups[] = { 1, 1, 1, 2, 2, 1 };
    for (int k = 0; k < 6; k++) {
        br_scope *scope = br_scope_begin();
        br_tensor *in[] = {
            leaf(values(4, shapes[k], 2, BR_F64)),
            leaf(values(BR_SHAPE(6, shapes[k][1] / groups[k], kernels[k], kernels[k]), 3, BR_F64))
        };
        br_tensor *got[3], *want[3];
        got[0] = br_f_conv2d(in[0], in[1], NULL, BR_OPTIONS(br_conv, .groups = groups[k]));
        want[0] = groups[k] == 2 ? composed_halves(in[0], in[1]) : composed(in[0], in[1]);
        br_tensor *dy = values(br_ndim(got[0]), br_sizes(got[0]), 9, BR_F64);
        br_grad(1, got, 2, in, got + 1, BR_OPTIONS(br_grad, .gradients = &dy));
        br_grad(1, want, 2, in, want + 1, BR_OPTIONS(br_grad, .gradients = &dy));
        for (int i = 0; i < 3; i++)
            cr_expect(br_allclose(got[i], want[i], 1e-11, 1e-10), "shape %d, result %d: %s", k, i,
                      br_error_message());
        br_scope_end(scope);
    }
}

/* A 1x1 kernel with strides uses only the elements at multiples of the stride. */
Test(convolution, strided_1x1_kernels)
{
    for (br_dtype dtype = BR_F32; dtype <= BR_F64; dtype++) {
        br_tensor *in[] = { leaf(values(BR_SHAPE(2, 6, 25, 41), 2, dtype)),
                            leaf(values(BR_SHAPE(4, 3, 1, 1), 3, dtype)) };
        br_tensor *got[3], *want[3];
        got[0] = br_f_conv2d(in[0], in[1], NULL,
                             BR_OPTIONS(br_conv, .stride = BR_PAIR(2, 3), .groups = 2));
        br_tensor *seen = br_slice(br_slice(in[0], 2, 0, 25, 2), 3, 0, 41, 3);
        want[0] = br_f_conv2d(seen, in[1], NULL, BR_OPTIONS(br_conv, .groups = 2));
        br_tensor *dy = values(br_ndim(got[0]), br_sizes(got[0]), 9, dtype);
        br_grad(1, got, 2, in, got + 1, BR_OPTIONS(br_grad, .gradients = &dy));
        br_grad(1, want, 2, in, want + 1, BR_OPTIONS(br_grad, .gradients = &dy));
        for (int i = 0; i < 3; i++)
            cr_expect(br_equal(got[i], want[i]), "result %d: %s", i, br_error_message());
    }
}

/* The stride is so long that the kernel sees nothing but padding. */
Test(convolution, padding_alone)
{
    for (br_dtype dtype = BR_F32; dtype <= BR_F64; dtype++) {
        br_tensor *in[] = { leaf(values(BR_SHAPE(2, 3, 1, 1), 2, dtype)),
                            leaf(values(BR_SHAPE(4, 3, 2, 2), 3, dtype)) };
        br_tensor *got[3], *dy = values(BR_SHAPE(2, 4, 1, 1), 9, dtype);
        got[0] =
            br_f_conv2d(in[0], in[1], NULL,
                        BR_OPTIONS(br_conv, .stride = BR_PAIR(7, 7), .padding = BR_PAIR(3, 3)));
        br_grad(1, got, 2, in, got + 1, BR_OPTIONS(br_grad, .gradients = &dy));
        check_ok();
        for (int i = 0; i < 3; i++)
            cr_expect(br_equal(got[i], br_zeros_like(got[i])), "result %d", i);
    }
}

/* ---- Depthwise convolutions ------------------------------------------------------------------ */

/* Returns the weight of an ordinary convolution that equals a depthwise one. Most of it is 0. */
static br_tensor *spread(br_tensor *weight, int64_t channels)
{
    int64_t outputs = br_size(weight, 0), rows = br_size(weight, 2), columns = br_size(weight, 3);
    br_tensor *own = br_zeros(BR_SHAPE(outputs, channels, 1, 1), br_dtype_of(weight));
    for (int64_t i = 0; i < outputs; i++)
        br_fill_(br_select(br_select(own, 0, i), 0, i / (outputs / channels)), 1);
    return br_mul(br_expand(weight, BR_SHAPE(outputs, channels, rows, columns)), own);
}

/* Computes the result, and its gradients with respect to x and the weight. */
static void convolve_planes(br_tensor *const *in, const br_conv_options *options, br_tensor **got)
{
    bool spreads = options->groups == 1;
    got[0] = br_f_conv2d(in[0], spreads ? spread(in[1], br_size(in[0], 1)) : in[1], in[2], options);
    br_tensor *dy = values(br_ndim(got[0]), br_sizes(got[0]), 9, br_dtype_of(got[0]));
    br_grad(1, got, 2, in, got + 1, BR_OPTIONS(br_grad, .gradients = &dy));
}

static void check_planes(int64_t width, int64_t each, br_conv_options options, br_dtype dtype)
{
    enum { CHANNELS = 3 };
    br_scope *scope = br_scope_begin();
    br_tensor *in[] = { leaf(values(BR_SHAPE(2, CHANNELS, 9, width), 2, dtype)),
                        leaf(values(BR_SHAPE(CHANNELS * each, 1, 3, 2), 3, dtype)),
                        each == 1 ? NULL : values(BR_SHAPE(CHANNELS * each), 4, dtype) };
    br_tensor *got[3], *again[3], *want[3];
    options.groups = CHANNELS;
    convolve_planes(in, &options, got);
    int threads = br_get_num_threads();
    br_set_num_threads(threads == 3 ? 1 : 3);
    convolve_planes(in, &options, again);
    br_set_num_threads(threads);
    options.groups = 1;
    convolve_planes(in, &options, want);
    /* the weight's gradient sums 2 * 9 * width products */
    const double within = (dtype == BR_F64 ? 0x1p-52 : 0x1p-23) * (double)(2 * 9 * width);
    for (int i = 0; i < 3; i++) {
        cr_expect(br_allclose(got[i], want[i], within, within), "width %d, %d each, result %d: %s",
                  (int)width, (int)each, i, br_error_message());
        cr_expect(br_equal(got[i], again[i]), "result %d depends on the number of threads", i);
    }
    br_scope_end(scope);
}

Test(convolution, depthwise)
{
    const br_conv_options *const options[] = {
        BR_OPTIONS(br_conv, .padding = BR_PAIR(1, 1)),
        BR_OPTIONS(br_conv, .stride = BR_PAIR(2, 3), .padding = BR_PAIR(2, 1),
                   .dilation = BR_PAIR(1, 2)),
    };
    const int64_t widths[] = { 7, 150, 5000 };
    for (int i = 0; i < 2; i++)
        for (int w = 0; w < 3; w++)
            for (int64_t each = 1; each <= 2; each++)
                for (br_dtype dtype = BR_F32; dtype <= BR_F64; dtype++)
                    check_planes(widths[w], each, *options[i], dtype);
}

/* ---- Errors ---------------------------------------------------------------------------------- */

Test(convolution, errors)
{
    br_tensor *x = br_ones(BR_SHAPE(2, 3, 4, 5), BR_F32),
              *w = br_ones(BR_SHAPE(6, 3, 3, 3), BR_F32);
    br_tensor *line = br_ones(BR_SHAPE(3, 5), BR_F32), *b = br_ones(BR_SHAPE(4), BR_F32);
    check_fails(
        br_f_conv2d(line, w, NULL, NULL),
        "weight must have 4 dimensions, and x the same number, or one less without a batch");
    check_fails(br_f_conv2d(x, w, b, NULL),
                "bias [4] must have shape [6], the number of output channels of weight");
    check_fails(
        br_f_conv2d(x, w, NULL, BR_OPTIONS(br_conv, .groups = 3)),
        "x [2, 3, 4, 5] has 3 channels, weight [6, 3, 3, 3] with groups 3 needs 9: x must have");
    check_fails(
        br_f_conv2d(x, w, NULL, BR_OPTIONS(br_conv, .dilation = BR_PAIR(2, 2))),
        "is smaller than the kernel of weight [6, 3, 3, 3], whose size with dilation 2 is 5");
    check_fails(br_f_conv2d(x, w, NULL, BR_OPTIONS(br_conv, .stride = BR_PAIR(-1, 1))),
                "conv2d: stride is -1, must be in 1 .. 2^31 - 1");
    check_fails(br_f_conv2d(x, w, NULL, BR_OPTIONS(br_conv, .stride = BR_PAIR(1, 1LL << 40))),
                "stride is 1099511627776, must be in 1 .. 2^31 - 1");
    check_fails(br_f_conv2d(x, w, NULL, BR_OPTIONS(br_conv, .padding = BR_PAIR(1LL << 31, 0))),
                "padding is 2147483648, must be in 0 .. 2^31 - 1");
    check_fails(br_f_conv2d(x, w, NULL, BR_OPTIONS(br_conv, .dilation = BR_PAIR(1, 1LL << 31))),
                "dilation is 2147483648, must be in 1 .. 2^31 - 1");
    check_fails(br_f_conv2d(x, w, NULL, BR_OPTIONS(br_conv, .padding = BR_PAIR(0, -1))),
                "padding is -1");
    check_fails(br_f_conv2d(x, w, NULL, BR_OPTIONS(br_conv, .groups = -2)), "groups is -2");
    check_fails(br_f_conv2d(x, w, NULL, BR_OPTIONS(br_conv, .same = true, .stride = BR_PAIR(1, 2))),
                "stride is 2, must be 1 with `same`");
    check_fails(br_f_conv2d(x, w, NULL, BR_OPTIONS(br_conv, .output_padding = BR_PAIR(0, 1))),
                "conv2d: output_padding is 1, but only a transposed convolution supports it");
    check_fails(br_f_conv_transpose2d(br_ones(BR_SHAPE(6, 2, 2), BR_F32), w, NULL,
                                      BR_OPTIONS(br_conv, .same = true)),
                "same is true, but a transposed convolution does not support it");
    check_fails(br_f_conv_transpose2d(x, w, NULL, NULL), "conv_transpose2d: x [2, 3, 4, 5]");
    check_fails(br_f_conv_transpose2d(br_ones(BR_SHAPE(6, 2, 2), BR_F32), w, NULL,
                                      BR_OPTIONS(br_conv, .output_padding = BR_PAIR(1, 0))),
                "output_padding is 1, must be less than the stride 1 or the dilation 1");
    check_fails(br_f_conv_transpose2d(br_ones(BR_SHAPE(6, 1, 1), BR_F32), w, NULL,
                                      BR_OPTIONS(br_conv, .padding = BR_PAIR(2, 2))),
                "the output size would be -1");
    check_fails(br_f_conv_transpose2d(br_ones(BR_SHAPE(6, 1, 1), BR_F32),
                                      br_ones(BR_SHAPE(6, 3, 2, 3), BR_F32), NULL,
                                      BR_OPTIONS(br_conv, .padding = BR_PAIR(1, 0))),
                "the output size would be 0");
    check_fails(br_f_conv1d(br_ones(BR_SHAPE(3, 5), BR_F32), br_ones(BR_SHAPE(2, 3, 0), BR_F32),
                            NULL, NULL),
                "has a kernel of size 0, must be at least 1");
}

/* The weight's gradient of a kernel of one element is one product for each item, or one for all
 * items: groups must equal convolutions of parts of the channels. */
Test(convolution, groups_of_kernels_of_one_element)
{
    enum { GROUPS = 2, IN = 2, OUT = 3 }; /* channels of a group */
    br_manual_seed(3);
    for (int i = 0; i < 4; i++) {
        br_scope *scope = br_scope_begin();
        const int64_t batch = i % 2 ? 3 : 1, length = i / 2 ? 140 : 5;
        br_tensor *x = br_randn(BR_SHAPE(batch, GROUPS * IN, length), BR_F64);
        br_tensor *w = br_randn(BR_SHAPE(GROUPS * OUT, IN, 1), BR_F64),
                  *in[] = { leaf(x), leaf(w) };
        br_tensor *dy = br_randn(BR_SHAPE(batch, GROUPS * OUT, length), BR_F64);
        br_tensor *y = br_f_conv1d(in[0], in[1], NULL, BR_OPTIONS(br_conv, .groups = GROUPS)),
                  *d[2];
        cr_assert(br_grad(1, &y, 2, in, d, BR_OPTIONS(br_grad, .gradients = &dy)), "%s",
                  br_error_message());
        br_tensor *ys[GROUPS], *dxs[GROUPS], *dws[GROUPS], *part[2];
        for (int g = 0; g < GROUPS; g++) {
            br_tensor *own[] = { leaf(br_clone(br_narrow(br_detach(x), 1, g * IN, IN))),
                                 leaf(br_clone(br_narrow(br_detach(w), 0, g * OUT, OUT))) };
            br_tensor *dyg = br_narrow(dy, 1, g * OUT, OUT);
            ys[g] = br_f_conv1d(own[0], own[1], NULL, NULL);
            cr_assert(br_grad(1, &ys[g], 2, own, part, BR_OPTIONS(br_grad, .gradients = &dyg)));
            dxs[g] = part[0], dws[g] = part[1];
        }
        cr_expect(br_allclose(br_detach(y), br_detach(br_cat(GROUPS, ys, 1)), 1e-12, 1e-12), "%d",
                  i);
        cr_expect(br_allclose(d[0], br_cat(GROUPS, dxs, 1), 1e-12, 1e-12), "%d: dx", i);
        cr_expect(br_allclose(d[1], br_cat(GROUPS, dws, 0), 1e-12, 1e-11), "%d: dweight", i);
        br_scope_end(scope);
    }
}
