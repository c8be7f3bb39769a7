/* nn/convolutions.c - convolutions and pooling. The layers differ only in the operation that they
 * call. */
#include "nn/nn_internal.h"
#include "ops/conv/convolution_internal.h"

#include <math.h>

/* ---- Convolutions ---------------------------------------------------------------------------- */

static br_tensor *run_conv(void *module, br_tensor *x)
{
    const br_conv *self = module;
    return self->function(x, self->weight, self->bias, &self->options);
}

/* Initializes the weight by Kaiming uniform with a = sqrt 5, which is U(+-1/sqrt(fan_in)), and the
 * bias by the same distribution. */
static void init_conv(br_tensor *weight, br_tensor *bias)
{
    br_init_kaiming_uniform_(weight, sqrt(5));
    if (!bias)
        return;
    double fan_in = 1;
    for (int d = 1; d < br_ndim(weight); d++)
        fan_in *= (double)br_sizes(weight)[d];
    double bound = fan_in > 0 ? 1 / sqrt(fan_in) : 0;
    br_init_uniform_(bias, -bound, bound);
}

/* Computes the sizes of the weight: [out_channels, in_channels / groups, kernel ...] or, if
 * transposed, [in_channels, out_channels / groups, kernel ...]. */
static bool weight_sizes(const br__conv_shape *shape, int64_t *sizes)
{
    const char *op = shape->op;
    int64_t in = shape->in_channels, out = shape->out_channels, groups = shape->groups;
    if (!br__layer_size(op, "groups", groups, 1) || !br__layer_size(op, "in_channels", in, 1) ||
        !br__layer_size(op, "out_channels", out, 1))
        return false;
    if (in % groups != 0 || out % groups != 0) {
        br_fail(BR_ERROR_ARGUMENT, op,
                "in_channels %lld and out_channels %lld must be multiples of groups %lld",
                (long long)in, (long long)out, (long long)groups);
        return false;
    }
    sizes[0] = shape->transposed ? in : out;
    sizes[1] = (shape->transposed ? out : in) / groups;
    for (int d = 0; d < shape->dims; d++) {
        sizes[2 + d] = shape->kernel[d];
        if (!br__layer_size(op, "kernel_size", shape->kernel[d], 1))
            return false;
    }
    return true;
}

void br__add_conv_parameters(br_module *module, const br__conv_shape *shape, bool with_bias,
                             br_tensor **weight, br_tensor **bias)
{
    int64_t sizes[5];
    bool good = !br_failed() && weight_sizes(shape, sizes);
    *weight = br_module_add_parameter(
        module, "weight", good ? br__new(shape->op, 2 + shape->dims, sizes, BR_F32) : NULL);
    *bias = br_module_add_parameter(
        module, "bias",
        good && with_bias ? br__new(shape->op, BR_SHAPE(shape->out_channels), BR_F32) : NULL);
    if (!br_failed())
        init_conv(*weight, *bias);
}

typedef struct conv_kind {
    const char *class_name, *op;
    int dims;
    bool transposed;
    br_conv_fn function;
} conv_kind;

static br_conv *new_conv(const conv_kind *kind, int64_t in_channels, int64_t out_channels,
                         const int64_t *kernel, bool bias, const br_conv_options *options)
{
    br_conv *self = br__layer_begin(sizeof *self, kind->class_name, run_conv);
    self->options = *BR_OPTIONS_OF(kind->op, br_conv, options);
    self->in_channels = in_channels;
    self->out_channels = out_channels;
    self->function = kind->function;
    br_scope *scope = br_scope_begin();
    br__conv_shape shape = { kind->op,     kind->transposed,     in_channels,
                             out_channels, self->options.groups, kind->dims,
                             kernel };
    br__check_conv_options(kind->op, kind->dims, kind->transposed, &self->options);
    br__add_conv_parameters(br_base(self), &shape, bias, &self->weight, &self->bias);
    br__layer_end(br_base(self), scope);
    return self;
}

br_conv *br_conv1d_new(int64_t in_channels, int64_t out_channels, int64_t kernel_size, bool bias,
                       const br_conv_options *options)
{
    static const conv_kind kind = { "Conv1d", "conv1d", 1, false, br_f_conv1d };
    return new_conv(&kind, in_channels, out_channels, &kernel_size, bias, options);
}

br_conv *br_conv2d_new(int64_t in_channels, int64_t out_channels, int64_t kernel_height,
                       int64_t kernel_width, bool bias, const br_conv_options *options)
{
    static const conv_kind kind = { "Conv2d", "conv2d", 2, false, br_f_conv2d };
    return new_conv(&kind, in_channels, out_channels, (int64_t[]){ kernel_height, kernel_width },
                    bias, options);
}

br_conv *br_conv_transpose1d_new(int64_t in_channels, int64_t out_channels, int64_t kernel_size,
                                 bool bias, const br_conv_options *options)
{
    static const conv_kind kind = { "ConvTranspose1d", "conv_transpose1d", 1, true,
                                    br_f_conv_transpose1d };
    return new_conv(&kind, in_channels, out_channels, &kernel_size, bias, options);
}

br_conv *br_conv_transpose2d_new(int64_t in_channels, int64_t out_channels, int64_t kernel_height,
                                 int64_t kernel_width, bool bias, const br_conv_options *options)
{
    static const conv_kind kind = { "ConvTranspose2d", "conv_transpose2d", 2, true,
                                    br_f_conv_transpose2d };
    return new_conv(&kind, in_channels, out_channels, (int64_t[]){ kernel_height, kernel_width },
                    bias, options);
}

br_tensor *br_conv_forward(br_conv *self, br_tensor *x)
{
    return BR_LAYER_FORWARD(self, x);
}

/* ---- Pooling --------------------------------------------------------------------------------- */

static br_tensor *run_pool(void *module, br_tensor *x)
{
    const br_pool *self = module;
    return self->function(x, &self->options);
}

/* Checks the first n numbers of kernel_size; the adaptive pools pass 0. */
static br_pool *new_pool(const char *op, const char *class_name, int n, br_pool_fn function,
                         const br_pool_options *options)
{
    br_pool *self = br__layer_begin(sizeof *self, class_name, run_pool);
    self->options = *BR_OPTIONS_OF(op, br_pool, options);
    self->function = function;
    const int64_t kernel[] = { self->options.kernel_size.rows, self->options.kernel_size.columns };
    for (int i = 0; i < n; i++)
        br__layer_size(op, "kernel_size", kernel[i], 1);
    br__layer_end(br_base(self), NULL);
    return self;
}

static br_tensor *max_pool1d(br_tensor *x, const br_pool_options *options)
{
    return br_f_max_pool1d(x, options, NULL);
}

br_pool *br_max_pool1d_new(const br_pool_options *options)
{
    return new_pool("max_pool1d", "MaxPool1d", 1, max_pool1d, options);
}

static br_tensor *max_pool2d(br_tensor *x, const br_pool_options *options)
{
    return br_f_max_pool2d(x, options, NULL);
}

br_pool *br_max_pool2d_new(const br_pool_options *options)
{
    return new_pool("max_pool2d", "MaxPool2d", 2, max_pool2d, options);
}

br_pool *br_avg_pool1d_new(const br_pool_options *options)
{
    return new_pool("avg_pool1d", "AvgPool1d", 1, br_f_avg_pool1d, options);
}

br_pool *br_avg_pool2d_new(const br_pool_options *options)
{
    return new_pool("avg_pool2d", "AvgPool2d", 2, br_f_avg_pool2d, options);
}

/* The adaptive pools store the output size in kernel_size. */
static br_tensor *adaptive_avg_pool1d(br_tensor *x, const br_pool_options *options)
{
    return br_f_adaptive_avg_pool1d(x, options->kernel_size.rows);
}

br_pool *br_adaptive_avg_pool1d_new(int64_t output_size)
{
    return new_pool("adaptive_avg_pool1d", "AdaptiveAvgPool1d", 0, adaptive_avg_pool1d,
                    BR_OPTIONS(br_pool, .kernel_size = BR_PAIR(output_size, output_size)));
}

static br_tensor *adaptive_avg_pool2d(br_tensor *x, const br_pool_options *options)
{
    return br_f_adaptive_avg_pool2d(x, options->kernel_size.rows, options->kernel_size.columns);
}

br_pool *br_adaptive_avg_pool2d_new(int64_t height, int64_t width)
{
    return new_pool("adaptive_avg_pool2d", "AdaptiveAvgPool2d", 0, adaptive_avg_pool2d,
                    BR_OPTIONS(br_pool, .kernel_size = BR_PAIR(height, width)));
}

static br_tensor *adaptive_max_pool1d(br_tensor *x, const br_pool_options *options)
{
    return br_f_adaptive_max_pool1d(x, options->kernel_size.rows, NULL);
}

br_pool *br_adaptive_max_pool1d_new(int64_t output_size)
{
    return new_pool("adaptive_max_pool1d", "AdaptiveMaxPool1d", 0, adaptive_max_pool1d,
                    BR_OPTIONS(br_pool, .kernel_size = BR_PAIR(output_size, output_size)));
}

static br_tensor *adaptive_max_pool2d(br_tensor *x, const br_pool_options *options)
{
    const br_pair size = options->kernel_size;
    return br_f_adaptive_max_pool2d(x, size.rows, size.columns, NULL);
}

br_pool *br_adaptive_max_pool2d_new(int64_t height, int64_t width)
{
    return new_pool("adaptive_max_pool2d", "AdaptiveMaxPool2d", 0, adaptive_max_pool2d,
                    BR_OPTIONS(br_pool, .kernel_size = BR_PAIR(height, width)));
}

br_tensor *br_pool_forward(br_pool *self, br_tensor *x)
{
    return BR_LAYER_FORWARD(self, x);
}
