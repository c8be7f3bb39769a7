/* ops/norm/softmax.c - softmax and log_softmax over any dimension. Both save only their output. */
#include "backends/cpu/kernels.h"
#include "ops/shape/view_internal.h"

/* The sizes of a contiguous tensor before, along and after the dimension. */
typedef struct split {
    int64_t before, n, after;
} split;

static split split_at(const br_tensor *t, int64_t dim)
{
    split s = { 1, t->ndim > 0 ? t->sizes[dim] : 1, 1 };
    for (int i = 0; i < t->ndim; i++)
        *(i < dim ? &s.before : &s.after) *= i == dim ? 1 : t->sizes[i];
    return s;
}

typedef struct job {
    split s;
    void (*kernel)(const br_softmax_work *work);
    bool log_of;
    const char *x, *dy;
    char *out;
    int64_t size;
    int64_t tiles;          /* tiles of at most BR_SOFTMAX_TILE adjacent rows */
    int64_t units_per_task; /* rows, or tiles */
} job;

static void run_kernel(const job *j, int64_t first, int64_t rows)
{
    int64_t offset = first * j->size;
    br_softmax_work work = { j->s.n,        rows,           j->s.after,     j->log_of,
                             j->x + offset, j->dy + offset, j->out + offset };
    j->kernel(&work);
}

/* Task i processes its units: whole rows, or tiles of adjacent rows. */
static void run_task(void *context, int64_t i)
{
    const job *j = context;
    int64_t first = i * j->units_per_task, last = first + j->units_per_task;
    if (j->s.after == 1) {
        last = last < j->s.before ? last : j->s.before;
        run_kernel(j, first * j->s.n, last - first);
        return;
    }
    for (int64_t unit = first; unit < last && unit < j->s.before * j->tiles; unit++) {
        int64_t column = unit % j->tiles * BR_SOFTMAX_TILE, rest = j->s.after - column;
        run_kernel(j, unit / j->tiles * j->s.n * j->s.after + column,
                   rest < BR_SOFTMAX_TILE ? rest : BR_SOFTMAX_TILE);
    }
}

static void run(job *j)
{
    enum { GRAIN = BR_GRAIN / 4 }; /* an exponential costs several simple operations */
    bool along = j->s.after == 1;
    j->tiles = (j->s.after + BR_SOFTMAX_TILE - 1) / BR_SOFTMAX_TILE;
    int64_t units = along ? j->s.before : j->s.before * j->tiles;
    j->units_per_task =
        br__piece_size(units, GRAIN / (along ? j->s.n : j->s.n * BR_SOFTMAX_TILE) + 1, 1);
    br__parallel((units + j->units_per_task - 1) / j->units_per_task, run_task, j);
}

/* Runs a kernel over x and, for a gradient, dy. Returns a new tensor. */
static br_tensor *apply(const char *op, br_tensor *x, br_tensor *dy, int64_t dim, bool log_of)
{
    if (!x)
        return NULL;
    br_tensor *out = br__new(op, x->ndim, x->sizes, x->dtype);
    br_scope *scope = br_no_grad_begin();
    br_tensor *dense = br_contiguous(x), *dense_dy = dy ? br_contiguous(dy) : dense;
    if (out && dense && dense_dy && out->numel > 0) {
        const br_kernels *k = br__kernels_of(x->dtype);
        job j = { .s = split_at(x, dim),
                  .kernel = dy ? k->softmax_grad : k->softmax,
                  .log_of = log_of,
                  .x = dense->data,
                  .dy = dense_dy->data,
                  .out = out->data,
                  .size = (int64_t)br_dtype_size(x->dtype) };
        BR_TRAFFIC(out, dense, dy ? dense_dy : NULL);
        run(&j);
    }
    br_scope_end(scope);
    return br_failed() ? NULL : out;
}

static br_tensor *recorded(const br_op *op, br_tensor *x, int64_t dim, bool log_of)
{
    BR_OP(op->name);
    if (!br__floating(op->name, "x", x) || !br__wrap_dim(op->name, "dim", x, &dim))
        return NULL;
    br_tensor *y = apply(op->name, x, NULL, dim, log_of);
    br_save(br_record(op, y, BR_INPUTS(x), &dim, sizeof dim), 0, y);
    return br_failed() ? NULL : y;
}

/* dx = y (dy - sum of y dy) */
static void softmax_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    int64_t dim = *(const int64_t *)br_params(node);
    br_tensor *y = br_saved(node, 0);
    if (!br_grad_enabled())
        dx[0] = apply("softmax", y, dy, dim, false);
    else
        dx[0] = br_mul(y, br_sub(dy, br_sum_dim(br_mul(y, dy), BR_DIMS(dim), true)));
}

static const br_op softmax_op = { .name = "softmax", .backward = softmax_backward };

br_tensor *br_softmax(br_tensor *x, int64_t dim)
{
    return recorded(&softmax_op, x, dim, false);
}

/* dx = dy - exp(y) sum of dy */
static void log_softmax_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    int64_t dim = *(const int64_t *)br_params(node);
    br_tensor *y = br_saved(node, 0);
    if (!br_grad_enabled())
        dx[0] = apply("log_softmax", y, dy, dim, true);
    else
        dx[0] = br_sub(dy, br_mul(br_exp(y), br_sum_dim(dy, BR_DIMS(dim), true)));
}

static const br_op log_softmax_op = { .name = "log_softmax", .backward = log_softmax_backward };

br_tensor *br_log_softmax(br_tensor *x, int64_t dim)
{
    return recorded(&log_softmax_op, x, dim, true);
}
