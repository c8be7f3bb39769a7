/* ops/pool.c - max and average pooling, and the average of a given number of windows.
 *
 * A kind of pooling is where its windows lie: two lists, one a dimension, that the kernels walk.
 * Those of one dimension are those of one row. Max pooling keeps the places of its elements;
 * average pooling, being linear, keeps nothing, and its adjoint is an operation whose gradient is
 * average pooling again. */
#include "ops/kernels/pool.h"
#include "ops/index_internal.h"

#include <inttypes.h>

/* What a call gives, with defaults filled in; pairs are for rows and columns. */
typedef struct settings {
    const char *op;
    int dims; /* 1 or 2: the last ones of x */
    bool max, adaptive;
    int64_t size[2], out[2], kernel[2], stride[2], padding[2], dilation[2];
    bool ceil_mode, count_padding;
    int64_t divisor;
} settings;

/* ---- Windows --------------------------------------------------------------------------------- */

/* Positions along dimension d: the last one begins inside, or in the padding in front. */
static int64_t window_count(const settings *s, int d)
{
    int64_t reach = s->dilation[d] * (s->kernel[d] - 1);
    int64_t room = s->size[d] + 2 * s->padding[d] - reach - 1, stride = s->stride[d];
    if (room < 0)
        return 0;
    int64_t n = (room + (s->ceil_mode ? stride - 1 : 0)) / stride + 1;
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

/* ---- Planes shared among threads ------------------------------------------------------------- */

typedef struct job {
    br_pool_work pool;
    const settings *s;
    char *plane, *out; /* the first ones */
    int64_t *indices;  /* of max pooling */
    int64_t planes, per_task;
    bool is_double, back;
} job;

static void run_plane(const job *j, int64_t i)
{
    int64_t size = j->is_double ? sizeof(double) : sizeof(float);
    int64_t outputs = j->pool.out[0] * j->pool.out[1];
    char *plane = j->plane + i * j->pool.size[0] * j->pool.size[1] * size;
    char *out = j->out + i * outputs * size;
    if (j->s->max)
        (j->is_double ? br__max_pool_f64 : br__max_pool_f32)(&j->pool, plane, out,
                                                             j->indices + i * outputs);
    else if (j->back)
        (j->is_double ? br__avg_pool_back_f64 : br__avg_pool_back_f32)(&j->pool, out, plane);
    else
        (j->is_double ? br__avg_pool_f64 : br__avg_pool_f32)(&j->pool, plane, out);
}

static void run_task(void *context, int64_t task)
{
    const job *j = context;
    int64_t first = task * j->per_task, last = first + j->per_task;
    for (int64_t i = first; i < last && i < j->planes; i++)
        run_plane(j, i);
}

/* Between x, or its gradient, and y, or its own. */
static void run(const settings *s, const br_tensor *x, const br_tensor *y, const br_tensor *indices,
                bool back)
{
    int64_t outputs = s->out[0] * s->out[1], area = s->size[0] * s->size[1];
    br_pool_window *windows = br__malloc((size_t)(s->out[0] + s->out[1]) * sizeof *windows);
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
              .is_double = x->dtype == BR_F64,
              .back = back };
    BR_TRAFFIC(x, y, indices);
    br__parallel((j.planes + j.per_task - 1) / j.per_task, run_task, &j);
    br_free(windows);
}

/* ---- On the tape ----------------------------------------------------------------------------- */

/* x's sizes with the last ones exchanged. */
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

/* The adjoint of average(). */
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

/* Saved: the places, of which each counts in its own plane. */
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
        br__index_add(dy, indices, &(br_choice){ 1, false, -1 }, BR_SHAPE(planes, area));
    dx[0] = br_reshape(flat, ndim, sizes);
}

static const br_op max_op = { .name = "max_pool", .backward = max_backward };

/* y, and, unless `indices` is NULL, in *indices the places. */
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

static bool check_number(const char *op, const char *name, int64_t value, int64_t least)
{
    if (value >= least && value <= INT32_MAX)
        return true;
    br__fail(BR_ERROR_ARGUMENT, op, "%s is %" PRId64 ", must be at least %" PRId64, name, value,
             least);
    return false;
}

/* x's last `dims` sizes, of which those of one dimension are columns. */
static bool set_sizes(settings *s, const br_tensor *x)
{
    if (!br__floating(s->op, "x", x))
        return false;
    if (x->ndim < s->dims + 1 || x->ndim > s->dims + 2) {
        br__fail(BR_ERROR_SHAPE, s->op, "x %s must have %d dimensions, or without the batch %d",
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
    br_pool_options none = { .ceil_mode = false };
    const br_pool_options *o = options ? options : &none;
    if (!set_sizes(s, x))
        return false;
    for (int k = 0; k < s->dims; k++) {
        int d = 2 - s->dims + k;
        s->kernel[d] = o->kernel_size[k];
        s->stride[d] = o->stride[k] == 0 ? o->kernel_size[k] : o->stride[k];
        s->dilation[d] = !s->max || o->dilation[k] == 0 ? 1 : o->dilation[k];
        s->padding[d] = o->padding[k];
        if (!check_number(s->op, "kernel_size", s->kernel[d], 1) ||
            !check_number(s->op, "stride", s->stride[d], 1) ||
            !check_number(s->op, "dilation", s->dilation[d], 1) ||
            !check_number(s->op, "padding", s->padding[d], 0))
            return false;
        if (s->padding[d] > ((s->kernel[d] - 1) * s->dilation[d] + 1) / 2) {
            br__fail(BR_ERROR_ARGUMENT, s->op,
                     "padding is %" PRId64 ", must be at most half of what the kernel of %" PRId64
                     " reaches over",
                     s->padding[d], s->kernel[d]);
            return false;
        }
    }
    s->ceil_mode = o->ceil_mode;
    s->count_padding = !o->exclude_pad;
    s->divisor = o->divisor_override;
    for (int d = 2 - s->dims; d < 2; d++) {
        s->out[d] = s->size[d] > 0 ? window_count(s, d) : 0;
        if (s->out[d] < 1) {
            br__fail(BR_ERROR_SHAPE, s->op,
                     "x %s with padding %" PRId64 " is smaller than the kernel of %" PRId64,
                     br__shape(x), s->padding[d], s->kernel[d]);
            return false;
        }
    }
    return true;
}

/* True if each window has an element: a wide dilation may step over a short dimension. */
static bool check_windows(const settings *s, const br_tensor *x)
{
    for (int d = 0; d < 2; d++)
        for (int64_t i = 0; i < s->out[d]; i++) {
            br_pool_window w = plain_window(s, d, i);
            if (w.start >= w.end) {
                br__fail(BR_ERROR_SHAPE, s->op,
                         "x %s: window %" PRId64 " of a kernel of %" PRId64
                         " with dilation %" PRId64 " has padding alone",
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
        if (!check_number(op, "output_size", out[d], 1))
            return NULL;
        if (s.size[d] == 0)
            return br__fail(BR_ERROR_SHAPE, op, "x %s has nothing to average", br__shape(x));
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
