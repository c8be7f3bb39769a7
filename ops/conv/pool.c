/* ops/conv/pool.c - max and average pooling, and adaptive pooling.
 *
 * A kind of pooling is defined by the windows of the rows and the windows of the columns. 1-d
 * pooling is 2-d pooling with one row. Max pooling saves the indices of its elements. Average
 * pooling is linear and saves nothing; its adjoint is an operation whose gradient is average
 * pooling again. */
#include "ops/conv/convolution_internal.h"
#include "ops/index/index_internal.h"
#include "ops/pointwise/widen.h"

#include <inttypes.h>

BR_DEFINE_DEFAULTS(br_pool)

/* The arguments of a call, with defaults filled in. */
typedef struct settings {
    const char *op;
    int dims; /* 1 or 2: the last dimensions of x */
    bool max;
    br_pool_geometry pool;
} settings;

/* ---- Windows --------------------------------------------------------------------------------- */

/* Returns the number of windows along dimension d. With ceil_mode, the last window may end after
 * the padding, also if there is no other window, but it must begin in the input or in the padding
 * before it. */
static int64_t window_count(const br_pool_geometry *p, bool ceil_mode, int d)
{
    int64_t reach = p->dilation[d] * (p->kernel[d] - 1);
    int64_t stride = p->stride[d];
    int64_t last_start = p->size[d] + 2 * p->padding[d] - reach - 1; /* without ceil_mode */
    if (ceil_mode)
        last_start += stride - 1;
    if (last_start < 0)
        return 0;
    int64_t n = last_start / stride + 1;
    return ceil_mode && (n - 1) * stride >= p->size[d] + p->padding[d] ? n - 1 : n;
}

/* ---- Recorded operations --------------------------------------------------------------------- */

/* Allocates a tensor of x's sizes with the last ones replaced. */
static br_tensor *new_pooled(const settings *s, const br_tensor *x, const int64_t *last,
                             br_dtype dtype, bool zeros)
{
    int64_t sizes[BR_MAX_DIMS];
    for (int d = 0; d < x->ndim; d++)
        sizes[d] = x->sizes[d];
    for (int d = 0; d < s->dims; d++)
        sizes[x->ndim - 1 - d] = last[1 - d];
    return zeros ? br_new_zeros(x, x->ndim, sizes, dtype)
                 : br__new_on(s->op, x, x->ndim, sizes, dtype);
}

static br_tensor *average(const settings *s, br_tensor *x);

static void spread_backward(br_node *node, br_tensor *ddx, br_tensor **ddy)
{
    ddy[0] = average(br_params(node), ddx);
}

static const br_op spread_op = { .name = "avg_pool_backward", .backward = spread_backward };

/* Computes the adjoint of average(): spreads dy over each window. */
static br_tensor *spread(const settings *s, br_tensor *dy)
{
    BR_OP(spread_op.name);
    const br_backend *backend = dy ? BR_BACKEND(spread_op.name, dy, avg_pool_grad) : NULL;
    if (!backend)
        return NULL;
    br_tensor *dx = new_pooled(s, dy, s->pool.size, dy->dtype, true);
    br_scope *scope = br_scope_begin();
    br_tensor *dense = br_contiguous(dy);
    if (dx && dense && dy->numel > 0) {
        BR_TRAFFIC(dx, dense);
        backend->avg_pool_grad(&s->pool, dx, dense);
    }
    br_scope_end(scope);
    return br__recorded(&spread_op, dx, dy, s, sizeof *s);
}

static void average_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    dx[0] = spread(br_params(node), dy);
}

static const br_op average_op = { .name = "avg_pool", .backward = average_backward };

static br_tensor *average(const settings *s, br_tensor *x)
{
    const br_backend *backend = x ? BR_BACKEND(s->op, x, avg_pool) : NULL;
    if (!backend)
        return NULL;
    br_tensor *y = new_pooled(s, x, s->pool.out, x->dtype, false);
    br_scope *scope = br_scope_begin();
    br_tensor *dense = br_contiguous(x);
    if (y && dense && y->numel > 0) {
        BR_TRAFFIC(dense, y);
        backend->avg_pool(&s->pool, y, dense);
    }
    br_scope_end(scope);
    return br__recorded(&average_op, y, x, s, sizeof *s);
}

/* Saved values: the indices, which count within each plane. */
static void max_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    const settings *s = br_params(node);
    br_tensor *indices = br_saved(node, 0);
    int ndim;
    const int64_t *sizes = br_input_sizes(node, 0, &ndim);
    if (br_failed() || !indices)
        return;
    int64_t outputs = s->pool.out[0] * s->pool.out[1], area = s->pool.size[0] * s->pool.size[1],
            planes = 1;
    for (int d = 0; d < ndim - s->dims; d++)
        planes *= sizes[d];
    dy = br_reshape(dy, BR_SHAPE(planes, outputs));
    indices = br_reshape(indices, BR_SHAPE(planes, outputs));
    br_tensor *flat =
        br__index_add(dy, indices, &(br_index_selection){ 1, false, -1 }, BR_SHAPE(planes, area));
    dx[0] = br_reshape(flat, ndim, sizes);
}

static const br_op max_op = { .name = "max_pool", .backward = max_backward };

/* Returns y and, unless `indices` is NULL, the indices in *indices. */
static br_tensor *largest(const settings *s, br_tensor *x, br_tensor **indices)
{
    const br_backend *backend = BR_BACKEND(s->op, x, max_pool);
    if (!backend)
        return NULL;
    br_tensor *y = new_pooled(s, x, s->pool.out, x->dtype, false);
    br_scope *scope = br_scope_begin();
    br_tensor *places = new_pooled(s, x, s->pool.out, BR_I64, false), *dense = br_contiguous(x);
    if (y && places && dense && y->numel > 0) {
        BR_TRAFFIC(dense, y, places);
        backend->max_pool(&s->pool, y, places, dense);
    }
    br_save(br_record(&max_op, y, BR_INPUTS(x), s, sizeof *s), 0, places);
    if (indices)
        *indices = br_failed() ? NULL : br_scope_return(scope, places);
    br_scope_end(scope);
    return br_failed() ? NULL : y;
}

/* ---- Checks ---------------------------------------------------------------------------------- */

/* Sets the sizes from the last `dims` sizes of x; in 1-d pooling, x has one row of that many
 * columns. */
static bool set_sizes(settings *s, const br_tensor *x)
{
    br_pool_geometry *p = &s->pool;
    const bool integers = s->max && s->dims == 2 && !s->pool.adaptive; /* as in PyTorch */
    if (integers ? !br__is_number(s->op, "x", x) : !br__floating(s->op, "x", x))
        return false;
    if (x->ndim < s->dims + 1 || x->ndim > s->dims + 2) {
        br_fail(BR_ERROR_SHAPE, s->op, "x %s must have %d dimensions, or %d without the batch",
                br__shape(x), s->dims + 2, s->dims + 1);
        return false;
    }
    for (int d = 0; d < 2; d++)
        p->size[d] = p->out[d] = p->kernel[d] = p->stride[d] = p->dilation[d] = 1;
    for (int d = 2 - s->dims; d < 2; d++)
        p->size[d] = x->sizes[x->ndim - 2 + d];
    return true;
}

static bool set_windows(settings *s, const br_tensor *x, const br_pool_options *options)
{
    br_pool_geometry *p = &s->pool;
    const br_pool_options *o = BR_OPTIONS_OF(s->op, br_pool, options);
    const int64_t kernel[] = { o->kernel_size.rows, o->kernel_size.columns };
    const int64_t stride[] = { o->stride.rows, o->stride.columns };
    const int64_t padding[] = { o->padding.rows, o->padding.columns };
    const int64_t dilation[] = { o->dilation.rows, o->dilation.columns };
    if (!set_sizes(s, x))
        return false;
    for (int k = 0; k < s->dims; k++) {
        int d = 2 - s->dims + k;
        p->kernel[d] = kernel[k];
        p->stride[d] = stride[k] == 0 ? kernel[k] : stride[k];
        p->dilation[d] = dilation[k];
        p->padding[d] = padding[k];
        if (!br__check_conv_number(s->op, "kernel_size", p->kernel[d], 1) ||
            !br__check_conv_number(s->op, "stride", p->stride[d], 1) ||
            !br__check_conv_number(s->op, "dilation", p->dilation[d], 1) ||
            !br__check_conv_number(s->op, "padding", p->padding[d], 0))
            return false;
        if (!s->max && dilation[k] != 1) {
            br_fail(BR_ERROR_ARGUMENT, s->op,
                    "dilation is %" PRId64 ", but only max pooling supports it", dilation[k]);
            return false;
        }
        if (p->padding[d] > ((p->kernel[d] - 1) * p->dilation[d] + 1) / 2) {
            br_fail(BR_ERROR_ARGUMENT, s->op,
                    "padding is %" PRId64
                    ", must be at most half of the dilated kernel (kernel size %" PRId64 ")",
                    p->padding[d], p->kernel[d]);
            return false;
        }
    }
    p->count_padding = o->count_include_pad;
    p->divisor = o->divisor_override;
    if (s->max && p->divisor != 0) {
        br_fail(BR_ERROR_ARGUMENT, s->op,
                "divisor_override is %" PRId64 ", but only average pooling supports it",
                p->divisor);
        return false;
    }
    for (int d = 2 - s->dims; d < 2; d++) {
        p->out[d] = p->size[d] > 0 ? window_count(p, o->ceil_mode, d) : 0;
        if (p->out[d] < 1) {
            br_fail(BR_ERROR_SHAPE, s->op,
                    "x %s with padding %" PRId64 " is smaller than the kernel of size %" PRId64,
                    br__shape(x), p->padding[d], p->kernel[d]);
            return false;
        }
    }
    return true;
}

/* Returns true if each window contains an element: a large dilation may skip all elements of a
 * short dimension. Fails otherwise. */
static bool check_windows(const settings *s, const br_tensor *x)
{
    const br_pool_geometry *p = &s->pool;
    for (int d = 0; d < 2; d++)
        for (int64_t i = 0; i < p->out[d]; i++) {
            br_pool_window w = br__pool_window(p, d, i);
            if (w.start >= w.end) {
                br_fail(BR_ERROR_SHAPE, s->op,
                        "x %s: window %" PRId64 " of a kernel of size %" PRId64
                        " with dilation %" PRId64 " contains only padding",
                        br__shape(x), i, p->kernel[d], p->dilation[d]);
                return false;
            }
        }
    return true;
}

/* ---- The operations -------------------------------------------------------------------------- */

static br_tensor *max_pool(const char *op, int dims, br_tensor *x, const br_pool_options *options,
                           br_tensor **indices)
{
    BR_OP(op);
    settings s = { .op = op, .dims = dims, .max = true };
    if (indices)
        *indices = NULL;
    if (!set_windows(&s, x, options) || !check_windows(&s, x))
        return NULL;
    return largest(&s, x, indices);
}

br_tensor *br_f_max_pool1d(br_tensor *x, const br_pool_options *options, br_tensor **indices)
{
    return max_pool("max_pool1d", 1, x, options, indices);
}

br_tensor *br_f_max_pool2d(br_tensor *x, const br_pool_options *options, br_tensor **indices)
{
    return max_pool("max_pool2d", 2, x, options, indices);
}

static br_tensor *avg_pool(const char *op, int dims, br_tensor *x, const br_pool_options *options)
{
    BR_OP(op);
    settings s = { .op = op, .dims = dims };
    return set_windows(&s, x, options) ? average(&s, x) : NULL;
}

br_tensor *br_f_avg_pool1d(br_tensor *x, const br_pool_options *options)
{
    return avg_pool("avg_pool1d", 1, x, options);
}

br_tensor *br_f_avg_pool2d(br_tensor *x, const br_pool_options *options)
{
    return avg_pool("avg_pool2d", 2, x, options);
}

/* Checks x and sets the windows, `out` of them along the rows and the columns. */
static bool set_adaptive_windows(settings *s, const br_tensor *x, const int64_t *out)
{
    s->pool.adaptive = true;
    if (!set_sizes(s, x))
        return false;
    for (int d = 2 - s->dims; d < 2; d++) {
        if (!br__check_conv_number(s->op, "output_size", out[d], 0))
            return false;
        if (s->pool.size[d] == 0) {
            br_fail(BR_ERROR_SHAPE, s->op, "x %s has no elements to %s", br__shape(x),
                    s->max ? "compare" : "average");
            return false;
        }
        s->pool.out[d] = out[d];
    }
    return true;
}

static br_tensor *adaptive_average(const char *op, int dims, br_tensor *x, const int64_t *out)
{
    BR_OP(op);
    settings s = { .op = op, .dims = dims };
    if (!set_adaptive_windows(&s, x, out))
        return NULL;
    /* One window is the mean, whose loops are faster. */
    return out[0] != 1 || out[1] != 1 ? average(&s, x)
           : dims == 2                ? br_mean_dim(x, BR_DIMS(-2, -1), true)
                                      : br_mean_dim(x, BR_DIMS(-1), true);
}

br_tensor *br_f_adaptive_avg_pool1d(br_tensor *x, int64_t output_size)
{
    return adaptive_average("adaptive_avg_pool1d", 1, x, (int64_t[]){ 1, output_size });
}

br_tensor *br_f_adaptive_avg_pool2d(br_tensor *x, int64_t height, int64_t width)
{
    return adaptive_average("adaptive_avg_pool2d", 2, x, (int64_t[]){ height, width });
}

static br_tensor *adaptive_maximum(const char *op, int dims, br_tensor *x, const int64_t *out,
                                   br_tensor **indices)
{
    BR_OP(op);
    settings s = { .op = op, .dims = dims, .max = true };
    if (indices)
        *indices = NULL;
    return set_adaptive_windows(&s, x, out) ? largest(&s, x, indices) : NULL;
}

br_tensor *br_f_adaptive_max_pool1d(br_tensor *x, int64_t output_size, br_tensor **indices)
{
    return adaptive_maximum("adaptive_max_pool1d", 1, x, (int64_t[]){ 1, output_size }, indices);
}

br_tensor *br_f_adaptive_max_pool2d(br_tensor *x, int64_t height, int64_t width,
                                    br_tensor **indices)
{
    return adaptive_maximum("adaptive_max_pool2d", 2, x, (int64_t[]){ height, width }, indices);
}
