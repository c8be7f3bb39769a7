/* ops/conv/pool3d.c - pooling in three dimensions, and max_unpool.
 *
 * An average is one weighted sum along each dimension. For a maximum, the maxima of planes are
 * computed first, and then the maxima of these along the depth. */
#include "ops/conv/convolution_internal.h"
#include "ops/conv/resample_internal.h"
#include "ops/pointwise/widen.h"
#include "tensor/min_max.h"

#include <inttypes.h>
#include <string.h>

BR_DEFINE_DEFAULTS(br_pool3d)

/* The windows along one dimension. */
typedef struct windows {
    int64_t n, kernel, stride, padding, dilation, outputs;
    bool count_padding, sums;
} windows;

/* ---- Checks ---------------------------------------------------------------------------------- */

/* Checks that x has three dimensions after the channels, and returns the first of them; 0 with an
 * error. */
static int first_dim(const char *op, const br_tensor *x)
{
    if (x->ndim == 4 || x->ndim == 5)
        return x->ndim - 3;
    br_fail(BR_ERROR_SHAPE, op, "x %s must have 5 dimensions, or 4 without the batch",
            br__shape(x));
    return 0;
}

/* Computes the number of windows; with ceil_mode, the last one must begin in x or in the padding
 * before it. */
static bool count_windows(const char *op, const br_tensor *x, windows *w, bool ceil_mode)
{
    const int64_t reach = w->dilation * (w->kernel - 1);
    if (!br__check_conv_number(op, "kernel_size", w->kernel, 1) ||
        !br__check_conv_number(op, "stride", w->stride, 1) ||
        !br__check_conv_number(op, "padding", w->padding, 0) ||
        !br__check_conv_number(op, "dilation", w->dilation, 1))
        return false;
    if (2 * w->padding > reach + 1) {
        br_fail(BR_ERROR_ARGUMENT, op, "padding is %" PRId64 ", must be at most half of the kernel",
                w->padding);
        return false;
    }
    int64_t last = w->n + 2 * w->padding - reach - 1 + (ceil_mode ? w->stride - 1 : 0);
    w->outputs = last < 0 ? 0 : last / w->stride + 1;
    if (ceil_mode && (w->outputs - 1) * w->stride >= w->n + w->padding)
        w->outputs--;
    if (w->outputs < 1 || w->n < 1)
        br_fail(BR_ERROR_SHAPE, op, "x %s is smaller than the kernel", br__shape(x));
    return !br_failed();
}

static bool set_windows(const char *op, const br_tensor *x, const br_pool3d_options *o, windows *w)
{
    const int64_t kernel[] = { o->kernel_size.depth, o->kernel_size.rows, o->kernel_size.columns };
    const int64_t stride[] = { o->stride.depth, o->stride.rows, o->stride.columns };
    const int64_t padding[] = { o->padding.depth, o->padding.rows, o->padding.columns };
    const int64_t dilation[] = { o->dilation.depth, o->dilation.rows, o->dilation.columns };
    const int first = first_dim(op, x);
    if (first == 0)
        return false;
    if (x->sizes[first - 1] == 0) {
        br_fail(BR_ERROR_SHAPE, op, "x %s has no channels", br__shape(x));
        return false;
    }
    for (int i = 0; i < 3; i++) {
        w[i] = (windows){ .n = x->sizes[first + i],
                          .kernel = kernel[i],
                          .stride = stride[i] == 0 ? kernel[i] : stride[i],
                          .padding = padding[i],
                          .dilation = dilation[i],
                          .count_padding = o->count_include_pad,
                          .sums = o->divisor_override != 0 };
        if (!count_windows(op, x, &w[i], o->ceil_mode))
            return false;
    }
    return true;
}

/* ---- Averages -------------------------------------------------------------------------------- */

static int64_t weigh_window(const void *context, int64_t o, int64_t *first, double *weights)
{
    const windows *w = context;
    const int64_t start = o * w->stride - w->padding;
    const int64_t end = br__min(start + w->kernel, w->n + w->padding);
    *first = br__max(start, 0);
    const int64_t count = br__max(br__min(end, w->n) - *first, 0);
    const int64_t divisor = w->sums ? 1 : w->count_padding ? end - start : count;
    for (int64_t t = 0; t < count; t++)
        weights[t] = 1 / (double)divisor;
    return count;
}

br_tensor *br_f_avg_pool3d(br_tensor *x, const br_pool3d_options *options)
{
    static const char op[] = "avg_pool3d";
    const br_pool3d_options *o = BR_OPTIONS_OF(op, br_pool3d, options);
    BR_OP(op);
    windows w[3];
    if (!br__floating(op, "x", x) || !set_windows(op, x, o, w))
        return NULL;
    for (int i = 0; i < 3; i++)
        if (w[i].dilation != 1)
            return br_fail(BR_ERROR_ARGUMENT, op,
                           "dilation is %" PRId64 ", but only max pooling supports it",
                           w[i].dilation);
    const int first = x->ndim - 3;
    br_scope *scope = br_scope_begin();
    const br_rounding rounding = BR_WIDEN(&x);
    br_tensor *y = x;
    for (int i = 0; i < 3; i++)
        y = br__resample(y, first + i,
                         br__taps(op, x, w[i].n, w[i].outputs, w[i].kernel, weigh_window, &w[i]));
    if (o->divisor_override != 0)
        y = br_div_scalar(y, (double)o->divisor_override);
    return br__composed(scope, br__narrowed(rounding, y));
}

/* Checks x and the output sizes of an adaptive pool. */
static bool good_adaptive(const char *op, const br_tensor *x, const int64_t *size)
{
    const int first = br__floating(op, "x", x) ? first_dim(op, x) : 0;
    for (int i = 0; first > 0 && i < 3; i++) {
        if (!br__check_conv_number(op, "the output size", size[i], 0))
            return false;
        if (x->sizes[first + i] < 1)
            br_fail(BR_ERROR_SHAPE, op, "x %s has no elements along dimension %d", br__shape(x),
                    first + i);
    }
    return !br_failed();
}

br_tensor *br_f_adaptive_avg_pool3d(br_tensor *x, int64_t depth, int64_t height, int64_t width)
{
    static const char op[] = "adaptive_avg_pool3d";
    BR_OP(op);
    const int64_t size[] = { depth, height, width };
    if (!good_adaptive(op, x, size))
        return NULL;
    const int first = x->ndim - 3;
    br_scope *scope = br_scope_begin();
    const br_rounding rounding = BR_WIDEN(&x);
    br_tensor *y = x;
    for (int i = 0; y && i < 3; i++)
        y = br__resample(y, first + i, br__adaptive_taps(op, x, x->sizes[first + i], size[i]));
    return br__composed(scope, br__narrowed(rounding, y));
}

/* ---- Maxima ---------------------------------------------------------------------------------- */

/* Returns the index in the volume of the element that was chosen in each plane and then along the
 * depth: `planes` [n, D h w] has indices in planes of `area` elements, `chosen` [n, d h w] those of
 * the maxima of planes. */
static br_tensor *volume_indices(br_tensor *planes, br_tensor *chosen, int64_t outputs,
                                 int64_t area)
{
    br_tensor *in_plane = br_gather(planes, 1, chosen);
    br_tensor *depth =
        br_floor_divide(chosen, br_new_full(chosen, BR_SCALAR, (double)outputs, BR_I64));
    return br_add(in_plane, br_mul_scalar(depth, (double)area));
}

/* The windows of a maximum in three dimensions: those of planes, and those along the depth. */
typedef struct volume_pool {
    int64_t size[3], outputs[3];
    const windows *windows; /* NULL: the windows of an adaptive pool */
    bool ceil_mode;
} volume_pool;

/* Returns the maxima of the planes of x [n, D, H, W]. */
static br_tensor *planes_maxima(const volume_pool *p, br_tensor *x, br_tensor **indices)
{
    const windows *w = p->windows;
    if (!w)
        return br_f_adaptive_max_pool2d(x, p->outputs[1], p->outputs[2], indices);
    return br_f_max_pool2d(x,
                           BR_OPTIONS(br_pool, .kernel_size = BR_PAIR(w[1].kernel, w[2].kernel),
                                      .stride = BR_PAIR(w[1].stride, w[2].stride),
                                      .padding = BR_PAIR(w[1].padding, w[2].padding),
                                      .dilation = BR_PAIR(w[1].dilation, w[2].dilation),
                                      .ceil_mode = p->ceil_mode),
                           indices);
}

/* Returns the maxima along the depth of x [n, 1, D, h w]. */
static br_tensor *depth_maxima(const volume_pool *p, br_tensor *x, br_tensor **indices)
{
    const windows *w = p->windows;
    if (!w)
        return br_f_adaptive_max_pool2d(x, p->outputs[0], p->outputs[1] * p->outputs[2], indices);
    return br_f_max_pool2d(
        x,
        BR_OPTIONS(br_pool, .kernel_size = BR_PAIR(w[0].kernel, 1),
                   .stride = BR_PAIR(w[0].stride, 1), .padding = BR_PAIR(w[0].padding, 0),
                   .dilation = BR_PAIR(w[0].dilation, 1), .ceil_mode = p->ceil_mode),
        indices);
}

/* Returns the maxima of the volumes of x and, unless `indices` is NULL, the indices in *indices. */
static br_tensor *volume_maxima(const volume_pool *p, br_tensor *x, br_tensor **indices)
{
    const int ndim = x->ndim, first = ndim - 3;
    int64_t sizes[BR_MAX_DIMS], n = 1;
    for (int d = 0; d < ndim; d++) {
        sizes[d] = d < first ? x->sizes[d] : p->outputs[d - first];
        n *= d < first ? x->sizes[d] : 1;
    }
    const int64_t outputs = p->outputs[1] * p->outputs[2];
    br_scope *scope = br_scope_begin();
    const br_rounding rounding = BR_WIDEN(&x);
    br_tensor *in_planes = NULL, *chosen = NULL;
    br_tensor *y = br_reshape(x, BR_SHAPE(n, p->size[0], p->size[1], p->size[2]));
    y = br_reshape(planes_maxima(p, y, &in_planes), BR_SHAPE(n, 1, p->size[0], outputs));
    if (outputs > 0) /* else both are empty already */
        y = depth_maxima(p, y, &chosen);
    else
        chosen = in_planes;
    y = br_reshape(y, ndim, sizes);
    if (indices) {
        br_tensor *places = volume_indices(br_reshape(in_planes, BR_SHAPE(n, p->size[0] * outputs)),
                                           br_reshape(chosen, BR_SHAPE(n, p->outputs[0] * outputs)),
                                           outputs, p->size[1] * p->size[2]);
        places = br_reshape(places, ndim, sizes);
        *indices = br_failed() ? NULL : br_scope_return(scope, places);
    }
    return br__composed(scope, br__narrowed(rounding, y));
}

br_tensor *br_f_max_pool3d(br_tensor *x, const br_pool3d_options *options, br_tensor **indices)
{
    static const char op[] = "max_pool3d";
    const br_pool3d_options *o = BR_OPTIONS_OF(op, br_pool3d, options);
    BR_OP(op);
    windows w[3];
    if (indices)
        *indices = NULL;
    if (!br__is_number(op, "x", x) || !set_windows(op, x, o, w))
        return NULL;
    volume_pool p = { .windows = w, .ceil_mode = o->ceil_mode };
    for (int i = 0; i < 3; i++) {
        p.size[i] = w[i].n;
        p.outputs[i] = w[i].outputs;
    }
    return volume_maxima(&p, x, indices);
}

br_tensor *br_f_adaptive_max_pool3d(br_tensor *x, int64_t depth, int64_t height, int64_t width,
                                    br_tensor **indices)
{
    static const char op[] = "adaptive_max_pool3d";
    BR_OP(op);
    volume_pool p = { .outputs = { depth, height, width } };
    if (indices)
        *indices = NULL;
    if (!good_adaptive(op, x, p.outputs))
        return NULL;
    for (int i = 0; i < 3; i++)
        p.size[i] = x->sizes[x->ndim - 3 + i];
    return volume_maxima(&p, x, indices);
}

/* ---- max_unpool ------------------------------------------------------------------------------ */

/* If several elements have the same index, the last one is kept, but the gradient goes to all of
 * them, as in PyTorch. */
static void unpool_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    dx[0] = br_gather(dy, 1, br_saved(node, 0));
}

/* Puts the elements of x [n, k] at the indices into zeros [n, m]. */
static br_tensor *placed_at(br_tensor *x, br_tensor *indices, int64_t m)
{
    static const br_op op = { "max_unpool", unpool_backward, false };
    br_scope *scope = br_no_grad_begin();
    br_tensor *zeros = x ? br_new_zeros(x, BR_SHAPE(x->sizes[0], m), x->dtype) : NULL;
    br_tensor *y = br__composed(scope, br_scatter(zeros, 1, indices, x));
    br_save(br_record(&op, y, BR_INPUTS(x), NULL, 0), 0, indices);
    return y;
}

br_tensor *br_f_max_unpool(br_tensor *x, br_tensor *indices, int ndim, const int64_t *output_size)
{
    static const char op[] = "max_unpool";
    BR_OP(op);
    if (!br__floating(op, "x", x) || !br__same_device(op, "x", x, "indices", indices) ||
        !br__has_dtype(op, "indices", indices, BR_I64))
        return NULL;
    if (ndim < 1 || ndim > 3 || !output_size)
        return br_fail(BR_ERROR_ARGUMENT, op,
                       "ndim is %d and output_size %s: must be 1, 2 or 3 sizes", ndim,
                       output_size ? "not NULL" : "NULL");
    if (!br__same_shape(x, indices) || (x->ndim != ndim + 1 && x->ndim != ndim + 2))
        return br_fail(BR_ERROR_SHAPE, op,
                       "x %s and indices %s must have the same shape, of %d dimensions, or %d "
                       "without the batch",
                       br__shape(x), br__shape(indices), ndim + 2, ndim + 1);
    int64_t sizes[BR_MAX_DIMS], planes = 1, area = 1, numel, inner = 1;
    for (int d = 0; d < x->ndim; d++) {
        const int last = d - (x->ndim - ndim);
        sizes[d] = last < 0 ? x->sizes[d] : output_size[last];
        planes *= last < 0 ? x->sizes[d] : 1;
        inner *= last < 0 ? 1 : x->sizes[d];
    }
    if (!br__check_sizes(op, x->ndim, sizes, x->dtype, &numel))
        return NULL;
    for (int d = 0; d < ndim; d++)
        area *= output_size[d];
    br_scope *scope = br_scope_begin();
    br_tensor *y = placed_at(br_reshape(x, BR_SHAPE(planes, inner)),
                             br_reshape(indices, BR_SHAPE(planes, inner)), area);
    return br__composed(scope, br_reshape(y, x->ndim, sizes));
}
