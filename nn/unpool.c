/* nn/unpool.c - MaxUnpool1d, MaxUnpool2d and MaxUnpool3d. */
#include "nn/nn_internal.h"

#include <inttypes.h>

static const char *const names[] = { "max_unpool1d", "max_unpool2d", "max_unpool3d" };

/* Copies the numbers and checks them. */
static br_unpool *new_unpool(int ndim, const int64_t *kernel_size, const int64_t *stride,
                             const int64_t *padding)
{
    static const char *const classes[] = { "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d" };
    br_unpool *self = br__layer_begin(sizeof *self, classes[ndim - 1], NULL);
    const char *op = names[ndim - 1];
    self->ndim = ndim;
    for (int i = 0; i < ndim && !br_failed(); i++) {
        self->kernel_size[i] = kernel_size[i];
        self->stride[i] = stride[i] == 0 ? kernel_size[i] : stride[i];
        self->padding[i] = padding[i];
        if (br__layer_size(op, "kernel_size", self->kernel_size[i], 1) &&
            br__layer_size(op, "stride", self->stride[i], 1))
            br__layer_size(op, "padding", self->padding[i], 0);
    }
    br__layer_end(br_base(self), NULL);
    return self;
}

static br_unpool *new_plane(const char *op, int ndim, const br_pool_options *options)
{
    const br_pool_options *o = BR_OPTIONS_OF(op, br_pool, options);
    return new_unpool(ndim, (int64_t[]){ o->kernel_size.rows, o->kernel_size.columns },
                      (int64_t[]){ o->stride.rows, o->stride.columns },
                      (int64_t[]){ o->padding.rows, o->padding.columns });
}

br_unpool *br_max_unpool1d_new(const br_pool_options *options)
{
    return new_plane(names[0], 1, options);
}

br_unpool *br_max_unpool2d_new(const br_pool_options *options)
{
    return new_plane(names[1], 2, options);
}

br_unpool *br_max_unpool3d_new(const br_pool3d_options *options)
{
    const br_pool3d_options *o = BR_OPTIONS_OF(names[2], br_pool3d, options);
    return new_unpool(
        3, (int64_t[]){ o->kernel_size.depth, o->kernel_size.rows, o->kernel_size.columns },
        (int64_t[]){ o->stride.depth, o->stride.rows, o->stride.columns },
        (int64_t[]){ o->padding.depth, o->padding.rows, o->padding.columns });
}

/* Stores the output sizes for x in `sizes`. Returns false and an error if they do not fit. */
static bool find_sizes(const br_unpool *self, const br_tensor *x, const int64_t *wanted,
                       int64_t *sizes)
{
    const char *op = names[self->ndim - 1];
    if (!br__required(op, "x", x))
        return false;
    if (x->ndim != self->ndim + 1 && x->ndim != self->ndim + 2)
        return br_fail(BR_ERROR_SHAPE, op, "x %s must have %d dimensions, or %d without the batch",
                       br__shape(x), self->ndim + 2, self->ndim + 1);
    for (int i = 0; i < self->ndim; i++) {
        const int64_t stride = self->stride[i],
                      size = (x->sizes[x->ndim - self->ndim + i] - 1) * stride -
                             2 * self->padding[i] + self->kernel_size[i];
        sizes[i] = wanted ? wanted[i] : size;
        if (wanted && !(sizes[i] > size - stride && sizes[i] < size + stride))
            return br_fail(BR_ERROR_ARGUMENT, op,
                           "output_size is %" PRId64 " for pooled dimension %d, must be in %" PRId64
                           " .. %" PRId64 " for x %s",
                           sizes[i], i, size - stride + 1, size + stride - 1, br__shape(x));
    }
    return true;
}

br_tensor *br_unpool_forward(br_unpool *self, br_tensor *x, br_tensor *indices,
                             const int64_t *output_size)
{
    br_enter_with(self, x);
    int64_t sizes[3];
    br_tensor *y = !br_failed() && find_sizes(self, x, output_size, sizes)
                       ? br_f_max_unpool(x, indices, self->ndim, sizes)
                       : NULL;
    return br_leave(self, y);
}
