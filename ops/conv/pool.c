/* ops/conv/pool.c - max, average and adaptive average pooling.
 *
 * A kind of pooling is defined by its windows: one list for each dimension, which the kernels
 * iterate over. 1-d pooling is 2-d pooling with one row. Max pooling saves the indices of its
 * elements. Average pooling is linear and saves nothing; its adjoint is an operation whose gradient
 * is average pooling again. */
#include "backends/cpu/conv/pool.h"
#include "ops/index/index_internal.h"

#include <inttypes.h>

BR_DEFINE_DEFAULTS(br_pool)

/* The arguments of a call, with defaults filled in. Each array has one entry for rows and one for
 * columns. */
typedef struct settings {
    const char *op;
    int dims; /* 1 or 2: the last dimensions of x */
    bool max, adaptive;
    int64_t size[2], out[2], kernel[2], stride[2], padding[2], dilation[2];
    bool ceil_mode, count_padding;
    int64_t divisor;
} settings;

/* ---- Windows --------------------------------------------------------------------------------- */

/* Returns the number of windows along dimension d. With ceil_mode, the last window may end after
 * the padding, also if there is no other window, but it must begin in the input or in the padding
 * before it. */
static int64_t window_count(const settings *s, int d)
{
    int64_t reach = s->dilation[d] * (s->kernel[d] - 1);
    int64_t stride = s->stride[d];
    int64_t last_start = s->size[d] + 2 * s->padding[d] - reach - 1; /* without ceil_mode */
    if (s->ceil_mode)
        last_start += stride - 1;
    if (last_start < 0)
        return 0;
    int64_t n = last_start / stride + 1;
    return s->ceil_mode && (n - 1) * stride >= s->size[d] + s->padding[d] ? n - 1 : n;
}

static br_pool_window plain_window(const settings *s, int d, int64_t i)
{
    int64_t size = s->size[d], padding = s->padding[d], step = s->dilation[d];
    int64_t start = i * s->stride[d] - padding, end = start + step * (s->kernel[d] - 1) + 1;
    br_pool_window w = { .end = end < size ? end : size };
    w.start = start < 0 ? start + (-start + step - 1) / step * step : start;
    int64_t counted = end < size + padding ? end : size + padding;
    w.count = (double)(s->count_padding ? counted - start : w.end - w.start);
    return w;
}

static br_pool_window adaptive_window(const settings *s, int d, int64_t i)
{
    int64_t size = s->size[d], out = s->out[d];
    br_pool_window w = { i * size / out, ((i + 1) * size + out - 1) / out, 0 };
    w.count = (double)(w.end - w.start);
    return w;
}

/* ---- Parallel loop over planes --------------------------------------------------------------- */

typedef struct job {
    br_pool_work pool;
    const settings *s;
    char *plane, *out; /* of the first plane */
    int64_t *indices;  /* for max pooling */
    int64_t planes, per_task;
    br_dtype dtype;
    bool back;
} job;

static void run_plane(const job *j, int64_t i)
{
    const br_pool_kernels *kernels = &br__pool_kernels[j->dtype];
    int64_t size = (int64_t)br__dtype_size(j->dtype);
    int64_t outputs = j->pool.out[0] * j->pool.out[1];
    char *plane = j->plane + i * j->pool.size[0] * j->pool.size[1] * size;
    char *out = j->out + i * outputs * size;
    if (j->s->max)
        kernels->max(&j->pool, plane, out, j->indices + i * outputs);
    else if (j->back)
        kernels->average_back(&j->pool, out, plane);
    else
        kernels->average(&j->pool, plane, out);
}

static void run_task(void *context, int64_t task)
{
    const job *j = context;
    int64_t first = task * j->per_task, last = first + j->per_task;
    for (int64_t i = first; i < last && i < j->planes; i++)
        run_plane(j, i);
}

/* Runs a kernel between x and y, or between their gradients. */
static void run(const settings *s, const br_tensor *x, const br_tensor *y, const br_tensor *indices,
                bool back)
{
    int64_t outputs = s->out[0] * s->out[1], area = s->size[0] * s->size[1];
    br_pool_window *windows = br_malloc((size_t)(s->out[0] + s->out[1]) * sizeof *windows);
    if (!windows)
        return;
    for (int d = 0, at = 0; d < 2; at += (int)s->out[d++])
        for (int64_t i = 0; i < s->out[d]; i++)
            windows[at + i] = s->adaptive ? adaptive_window(s, d, i) : plain_window(s, d, i);
    job j = { .pool = { .size = { s->size[0], s->size[1] },
                        .out = { s->out[0], s->out[1] },
                        .step = { s->dilation[0], s->dilation[1] },
                        .rows = windows,
                        .columns = windows + s->out[0],
                        .divisor = (double)s->divisor },
              .s = s,
              .plane = x->data,
              .out = y->data,
              .indices = indices ? (int64_t *)(void *)indices->data : NULL,
              .planes = y->numel / outputs,
              .per_task = BR_GRAIN / (area + outputs) + 1,
              .dtype = x->dtype,
              .back = back };
    BR_TRAFFIC(x, y, indices);
    br__parallel((j.planes + j.per_task - 1) / j.per_task, run_task, &j);
    br_free(windows);
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
    return zeros ? br_zeros(x->ndim, sizes, dtype) : br__new(s->op, x->ndim, sizes, dtype);
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
    br_tensor *dx = dy ? new_pooled(s, dy, s->size, dy->dtype, true) : NULL;
    br_scope *scope = br_scope_begin();
    br_tensor *dense = dy ? br_contiguous(dy) : NULL;
    if (dx && dense && dy->numel > 0)
        run(s, dx, dense, NULL, true);
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
    br_tensor *y = x ? new_pooled(s, x, s->out, x->dtype, false) : NULL;
    br_scope *scope = br_scope_begin();
    br_tensor *dense = x ? br_contiguous(x) : NULL;
    if (y && dense && y->numel > 0)
        run(s, dense, y, NULL, false);
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
    int64_t outputs = s->out[0] * s->out[1], area = s->size[0] * s->size[1], planes = 1;
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
    br_tensor *y = new_pooled(s, x, s->out, x->dtype, false);
    br_scope *scope = br_scope_begin();
    br_tensor *places = new_pooled(s, x, s->out, BR_I64, false), *dense = br_contiguous(x);
    if (y && places && dense && y->numel > 0)
        run(s, dense, y, places, false);
    br_save(br_record(&max_op, y, BR_INPUTS(x), s, sizeof *s), 0, places);
    if (indices)
        *indices = br_failed() ? NULL : br_scope_return(scope, places);
    br_scope_end(scope);
    return br_failed() ? NULL : y;
}

/* ---- Checks ---------------------------------------------------------------------------------- */

static bool check_number(const char *op, const char *name, int64_t value, int64_t minimum)
{
    if (value >= minimum && value <= INT32_MAX)
        return true;
    br_fail(BR_ERROR_ARGUMENT, op, "%s is %" PRId64 ", must be in %" PRId64 " .. 2^31 - 1", name,
            value, minimum);
    return false;
}

/* Sets the sizes from the last `dims` sizes of x; in 1-d pooling, x has one row of that many
 * columns. */
static bool set_sizes(settings *s, const br_tensor *x)
{
    if (!br__floating(s->op, "x", x))
        return false;
    if (x->ndim < s->dims + 1 || x->ndim > s->dims + 2) {
        br_fail(BR_ERROR_SHAPE, s->op, "x %s must have %d dimensions, or %d without the batch",
                br__shape(x), s->dims + 2, s->dims + 1);
        return false;
    }
    for (int d = 0; d < 2; d++)
        s->size[d] = s->out[d] = s->kernel[d] = s->stride[d] = s->dilation[d] = 1;
    for (int d = 2 - s->dims; d < 2; d++)
        s->size[d] = x->sizes[x->ndim - 2 + d];
    return true;
}

static bool set_windows(settings *s, const br_tensor *x, const br_pool_options *options)
{
    const br_pool_options *o = BR_OPTIONS_OF(s->op, br_pool, options);
    const int64_t kernel[] = { o->kernel_size.rows, o->kernel_size.columns };
    const int64_t stride[] = { o->stride.rows, o->stride.columns };
    const int64_t padding[] = { o->padding.rows, o->padding.columns };
    const int64_t dilation[] = { o->dilation.rows, o->dilation.columns };
    if (!set_sizes(s, x))
        return false;
    for (int k = 0; k < s->dims; k++) {
        int d = 2 - s->dims + k;
        s->kernel[d] = kernel[k];
        s->stride[d] = stride[k] == 0 ? kernel[k] : stride[k];
        s->dilation[d] = dilation[k];
        s->padding[d] = padding[k];
        if (!check_number(s->op, "kernel_size", s->kernel[d], 1) ||
            !check_number(s->op, "stride", s->stride[d], 1) ||
            !check_number(s->op, "dilation", s->dilation[d], 1) ||
            !check_number(s->op, "padding", s->padding[d], 0))
            return false;
        if (!s->max && dilation[k] != 1) {
            br_fail(BR_ERROR_ARGUMENT, s->op,
                    "dilation is %" PRId64 ", but only max pooling supports it", dilation[k]);
            return false;
        }
        if (s->padding[d] > ((s->kernel[d] - 1) * s->dilation[d] + 1) / 2) {
            br_fail(BR_ERROR_ARGUMENT, s->op,
                    "padding is %" PRId64
                    ", must be at most half of the dilated kernel (kernel size %" PRId64 ")",
                    s->padding[d], s->kernel[d]);
            return false;
        }
    }
    s->ceil_mode = o->ceil_mode;
    s->count_padding = o->count_include_pad;
    s->divisor = o->divisor_override;
    if (s->max && s->divisor != 0) {
        br_fail(BR_ERROR_ARGUMENT, s->op,
                "divisor_override is %" PRId64 ", but only average pooling supports it",
                s->divisor);
        return false;
    }
    for (int d = 2 - s->dims; d < 2; d++) {
        s->out[d] = s->size[d] > 0 ? window_count(s, d) : 0;
        if (s->out[d] < 1) {
            br_fail(BR_ERROR_SHAPE, s->op,
                    "x %s with padding %" PRId64 " is smaller than the kernel of size %" PRId64,
                    br__shape(x), s->padding[d], s->kernel[d]);
            return false;
        }
    }
    return true;
}

/* Returns true if each window contains an element: a large dilation may skip all elements of a
 * short dimension. Fails otherwise. */
static bool check_windows(const settings *s, const br_tensor *x)
{
    for (int d = 0; d < 2; d++)
        for (int64_t i = 0; i < s->out[d]; i++) {
            br_pool_window w = plain_window(s, d, i);
            if (w.start >= w.end) {
                br_fail(BR_ERROR_SHAPE, s->op,
                        "x %s: window %" PRId64 " of a kernel of size %" PRId64
                        " with dilation %" PRId64 " contains only padding",
                        br__shape(x), i, s->kernel[d], s->dilation[d]);
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

static br_tensor *adaptive_pool(const char *op, int dims, br_tensor *x, const int64_t *out)
{
    BR_OP(op);
    settings s = { .op = op, .dims = dims, .adaptive = true };
    if (!set_sizes(&s, x))
        return NULL;
    for (int d = 2 - dims; d < 2; d++) {
        if (!check_number(op, "output_size", out[d], 0))
            return NULL;
        if (s.size[d] == 0)
            return br_fail(BR_ERROR_SHAPE, op, "x %s has no elements to average", br__shape(x));
        s.out[d] = out[d];
    }
    return average(&s, x);
}

br_tensor *br_f_adaptive_avg_pool1d(br_tensor *x, int64_t output_size)
{
    return adaptive_pool("adaptive_avg_pool1d", 1, x, (int64_t[]){ 1, output_size });
}

br_tensor *br_f_adaptive_avg_pool2d(br_tensor *x, int64_t height, int64_t width)
{
    return adaptive_pool("adaptive_avg_pool2d", 2, x, (int64_t[]){ height, width });
}
