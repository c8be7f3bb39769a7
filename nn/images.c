/* nn/images.c - padding, Upsample, Unfold and Fold: modules without parameters that call one
 * operation. */
#include "nn/nn_internal.h"

#include <inttypes.h>

/* ---- Padding --------------------------------------------------------------------------------- */

static br_tensor *run_padding(void *module, br_tensor *x)
{
    const br_padding *self = module;
    return br_pad(x, self->n, self->pad, self->mode, self->value);
}

/* `classes` has the names for one, two and three dimensions. */
static br_padding *new_padding(const char *op, const char *const *classes, int n,
                               const int64_t *pad, br_pad_mode mode, double value)
{
    bool good = (n == 2 || n == 4 || n == 6) && pad;
    br_padding *self = br__layer_begin(sizeof *self, classes[good ? n / 2 - 1 : 0], run_padding);
    self->mode = mode;
    self->value = value;
    if (good) {
        self->n = n;
        for (int i = 0; i < n; i++)
            self->pad[i] = pad[i];
    } else {
        br_fail(BR_ERROR_ARGUMENT, op,
                "pad has %d numbers, must have 2, 4 or 6: two for each dimension", pad ? n : 0);
    }
    br__layer_end(br_base(self), NULL);
    return self;
}

#define CLASSES(name) ((const char *const[]){ name "1d", name "2d", name "3d" })

br_padding *br_constant_pad_new(int n, const int64_t *pad, double value)
{
    return new_padding("constant_pad", CLASSES("ConstantPad"), n, pad, BR_PAD_CONSTANT, value);
}

br_padding *br_zero_pad_new(int n, const int64_t *pad)
{
    return new_padding("zero_pad", CLASSES("ZeroPad"), n, pad, BR_PAD_CONSTANT, 0);
}

br_padding *br_reflection_pad_new(int n, const int64_t *pad)
{
    return new_padding("reflection_pad", CLASSES("ReflectionPad"), n, pad, BR_PAD_REFLECT, 0);
}

br_padding *br_replication_pad_new(int n, const int64_t *pad)
{
    return new_padding("replication_pad", CLASSES("ReplicationPad"), n, pad, BR_PAD_REPLICATE, 0);
}

br_padding *br_circular_pad_new(int n, const int64_t *pad)
{
    return new_padding("circular_pad", CLASSES("CircularPad"), n, pad, BR_PAD_CIRCULAR, 0);
}

br_tensor *br_padding_forward(br_padding *self, br_tensor *x)
{
    return BR_LAYER_FORWARD(self, x);
}

/* ---- Upsample -------------------------------------------------------------------------------- */

static br_tensor *run_upsample(void *module, br_tensor *x)
{
    const br_upsample *self = module;
    return br_interpolate(x, &self->options);
}

br_upsample *br_upsample_new(const br_interpolate_options *options)
{
    br_upsample *self = br__layer_begin(sizeof *self, "Upsample", run_upsample);
    self->options = *BR_OPTIONS_OF("upsample", br_interpolate, options);
    const br_interpolate_options *o = &self->options;
    if (!br_failed() && o->size[0] == 0 && o->scale_factor[0] == 0)
        br_fail(BR_ERROR_ARGUMENT, "upsample", "size and scale_factor are 0, but one is required");
    br__layer_end(br_base(self), NULL);
    return self;
}

br_tensor *br_upsample_forward(br_upsample *self, br_tensor *x)
{
    return BR_LAYER_FORWARD(self, x);
}

/* ---- Unfold and Fold ------------------------------------------------------------------------- */

static br_tensor *run_unfold(void *module, br_tensor *x)
{
    const br_windows *self = module;
    return br_f_unfold(x, &self->options);
}

static br_tensor *run_fold(void *module, br_tensor *x)
{
    const br_windows *self = module;
    return br_f_fold(x, self->height, self->width, &self->options);
}

static br_windows *new_windows(const char *op, const char *class_name, br_forward_fn body,
                               const br_fold_options *options)
{
    br_windows *self = br__layer_begin(sizeof *self, class_name, body);
    self->options = *BR_OPTIONS_OF(op, br_fold, options);
    br__layer_size(op, "kernel_size.rows", self->options.kernel_size.rows, 1);
    br__layer_size(op, "kernel_size.columns", self->options.kernel_size.columns, 1);
    return self;
}

br_windows *br_unfold_new(const br_fold_options *options)
{
    br_windows *self = new_windows("unfold", "Unfold", run_unfold, options);
    br__layer_end(br_base(self), NULL);
    return self;
}

br_windows *br_fold_new(int64_t height, int64_t width, const br_fold_options *options)
{
    br_windows *self = new_windows("fold", "Fold", run_fold, options);
    self->height = height;
    self->width = width;
    if (br__layer_size("fold", "height", height, 1))
        br__layer_size("fold", "width", width, 1);
    br__layer_end(br_base(self), NULL);
    return self;
}

br_tensor *br_windows_forward(br_windows *self, br_tensor *x)
{
    return BR_LAYER_FORWARD(self, x);
}
