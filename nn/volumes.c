/* nn/volumes.c - convolutions and pooling in three dimensions. */
#include "nn/nn_internal.h"

/* ---- Convolutions ---------------------------------------------------------------------------- */

static br_tensor *run_conv(void *module, br_tensor *x)
{
    const br_conv3d *self = module;
    return self->function(x, self->weight, self->bias, &self->options);
}

static br_conv3d *new_conv(const char *op, const char *class_name, bool transposed,
                           br_conv3d_fn function, int64_t in_channels, int64_t out_channels,
                           br_triple kernel_size, bool bias, const br_conv3d_options *options)
{
    br_conv3d *self = br__layer_begin(sizeof *self, class_name, run_conv);
    self->options = *BR_OPTIONS_OF(op, br_conv3d, options);
    self->in_channels = in_channels;
    self->out_channels = out_channels;
    self->function = function;
    br_scope *scope = br_scope_begin();
    const int64_t kernel[] = { kernel_size.depth, kernel_size.rows, kernel_size.columns };
    br__conv_shape shape = { op, transposed, in_channels, out_channels, self->options.groups,
                             3,  kernel };
    br__add_conv_parameters(br_base(self), &shape, bias, &self->weight, &self->bias);
    br__layer_end(br_base(self), scope);
    return self;
}

br_conv3d *br_conv3d_new(int64_t in_channels, int64_t out_channels, br_triple kernel_size,
                         bool bias, const br_conv3d_options *options)
{
    return new_conv("conv3d", "Conv3d", false, br_f_conv3d, in_channels, out_channels, kernel_size,
                    bias, options);
}

br_conv3d *br_conv_transpose3d_new(int64_t in_channels, int64_t out_channels, br_triple kernel_size,
                                   bool bias, const br_conv3d_options *options)
{
    return new_conv("conv_transpose3d", "ConvTranspose3d", true, br_f_conv_transpose3d, in_channels,
                    out_channels, kernel_size, bias, options);
}

br_tensor *br_conv3d_forward(br_conv3d *self, br_tensor *x)
{
    return BR_LAYER_FORWARD(self, x);
}

/* ---- Pooling --------------------------------------------------------------------------------- */

static br_tensor *run_pool(void *module, br_tensor *x)
{
    const br_pool3d *self = module;
    return self->function(x, &self->options);
}

/* The adaptive pool stores the output size in kernel_size, and its sizes may be 0. */
static br_pool3d *new_pool(const char *op, const char *class_name, int64_t minimum,
                           br_pool3d_fn function, const br_pool3d_options *options)
{
    br_pool3d *self = br__layer_begin(sizeof *self, class_name, run_pool);
    self->options = *BR_OPTIONS_OF(op, br_pool3d, options);
    self->function = function;
    const br_triple size = self->options.kernel_size;
    const char *name = minimum > 0 ? "kernel_size" : "output_size";
    if (br__layer_size(op, name, size.depth, minimum) &&
        br__layer_size(op, name, size.rows, minimum))
        br__layer_size(op, name, size.columns, minimum);
    br__layer_end(br_base(self), NULL);
    return self;
}

static br_tensor *max_pool3d(br_tensor *x, const br_pool3d_options *options)
{
    return br_f_max_pool3d(x, options, NULL);
}

br_pool3d *br_max_pool3d_new(const br_pool3d_options *options)
{
    return new_pool("max_pool3d", "MaxPool3d", 1, max_pool3d, options);
}

br_pool3d *br_avg_pool3d_new(const br_pool3d_options *options)
{
    return new_pool("avg_pool3d", "AvgPool3d", 1, br_f_avg_pool3d, options);
}

static br_tensor *adaptive_avg_pool3d(br_tensor *x, const br_pool3d_options *options)
{
    const br_triple size = options->kernel_size;
    return br_f_adaptive_avg_pool3d(x, size.depth, size.rows, size.columns);
}

br_pool3d *br_adaptive_avg_pool3d_new(int64_t depth, int64_t height, int64_t width)
{
    return new_pool("adaptive_avg_pool3d", "AdaptiveAvgPool3d", 0, adaptive_avg_pool3d,
                    BR_OPTIONS(br_pool3d, .kernel_size = BR_TRIPLE(depth, height, width)));
}

static br_tensor *adaptive_max_pool3d(br_tensor *x, const br_pool3d_options *options)
{
    const br_triple size = options->kernel_size;
    return br_f_adaptive_max_pool3d(x, size.depth, size.rows, size.columns, NULL);
}

br_pool3d *br_adaptive_max_pool3d_new(int64_t depth, int64_t height, int64_t width)
{
    return new_pool("adaptive_max_pool3d", "AdaptiveMaxPool3d", 0, adaptive_max_pool3d,
                    BR_OPTIONS(br_pool3d, .kernel_size = BR_TRIPLE(depth, height, width)));
}

br_tensor *br_pool3d_forward(br_pool3d *self, br_tensor *x)
{
    return BR_LAYER_FORWARD(self, x);
}
