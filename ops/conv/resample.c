/* ops/conv/resample.c - weighted sums of neighbours along a dimension.
 *
 * The operation is linear. Its adjoint is an operation whose gradient is the first one again. */
#include "ops/conv/resample_internal.h"
#include "tensor/min_max.h"

#include <string.h>

/* ---- Weights --------------------------------------------------------------------------------- */

/* Adds the weights of positions first .. first + count - 1 to a row of `taps` weights that begins
 * at *start, which is set. */
static void place(int64_t n, int64_t taps, int64_t first, int64_t count, const double *weights,
                  int64_t *start, double *row)
{
    *start = br__min(br__max(first, 0), n - taps);
    for (int64_t t = 0; t < count; t++) {
        const int64_t position = br__min(br__max(first + t, 0), n - 1);
        row[br__min(br__max(position - *start, 0), taps - 1)] += weights[t];
    }
}

/* Returns a copy of the numbers on x's device. */
static br_tensor *numbers_for(const br_tensor *x, int64_t rows, int64_t columns,
                              const double *values)
{
    br_tensor *t = br_from_f64(BR_SHAPE(rows, columns), values);
    return t && x ? br_to_device(t, br_device_of(x)) : NULL;
}

br_taps br__taps(const char *op, const br_tensor *x, int64_t n, int64_t outputs, int64_t most,
                 br_weigh *weigh, const void *context)
{
    br_taps made = { NULL, NULL };
    if (br_failed())
        return made;
    const int64_t taps = br__min(br__max(most, 1), br__max(n, 1));
    int64_t *starts = NULL, cells = 0;
    if (__builtin_mul_overflow(outputs, taps, &cells) || cells > INT64_C(1) << 40) {
        br_fail(BR_ERROR_SHAPE, op, "the output of x %s is too large", br__shape(x));
        return made;
    }
    br_scope *scope = br_no_grad_begin();
    double *row = br_calloc((size_t)cells + 1, sizeof *row);
    double *weights = br_calloc((size_t)br__max(most, 1), sizeof *weights);
    br_tensor *places = br__new_host_i64(op, BR_SHAPE(outputs), &starts);
    for (int64_t o = 0; row && weights && places && n > 0 && o < outputs; o++) {
        int64_t first = 0;
        const int64_t count = weigh(context, o, &first, weights);
        place(n, taps, first, count, weights, &starts[o], row + o * taps);
    }
    if (row && weights && places && !br_failed()) {
        made.starts = br__placed(op, br__backend_of(x), places);
        made.weights = numbers_for(x, outputs, taps, row);
        br_scope_return(scope, made.starts);
        br_scope_return(scope, made.weights);
    }
    br_free(row);
    br_free(weights);
    br_scope_end(scope);
    return made;
}

typedef struct adaptive {
    int64_t n, outputs;
} adaptive;

static int64_t weigh_evenly(const void *context, int64_t o, int64_t *first, double *weights)
{
    const adaptive *a = context;
    *first = o * a->n / a->outputs;
    const int64_t count = ((o + 1) * a->n + a->outputs - 1) / a->outputs - *first;
    for (int64_t t = 0; t < count; t++)
        weights[t] = 1 / (double)count;
    return count;
}

br_taps br__adaptive_taps(const char *op, const br_tensor *x, int64_t n, int64_t outputs)
{
    const adaptive a = { n, outputs };
    const int64_t most = outputs > 0 ? n / outputs + 2 : 1;
    return br__taps(op, x, n, outputs, most, weigh_evenly, &a);
}

/* ---- The operation --------------------------------------------------------------------------- */

typedef struct params {
    int dim;
    int64_t size; /* of the dimension of x */
} params;

enum { STARTS, WEIGHTS }; /* saved values */

/* Returns a tensor of t's sizes but for the dimension. */
static br_tensor *resized(const char *op, const br_tensor *t, int dim, int64_t size, bool zeros)
{
    int64_t sizes[BR_MAX_DIMS];
    memcpy(sizes, t->sizes, sizeof sizes);
    sizes[dim] = size;
    return zeros ? br_new_zeros(t, t->ndim, sizes, t->dtype)
                 : br__new_on(op, t, t->ndim, sizes, t->dtype);
}

/* Computes y from x, or, for the adjoint, x from y, which is `from` in both cases. */
static br_tensor *run(const br_op *op, br_tensor *from, const params *p, br_taps taps, bool adjoint)
{
    const br_backend *backend =
        from && taps.starts && taps.weights ? BR_BACKEND(op->name, from, resample) : NULL;
    if (!backend || (adjoint && !backend->resample_grad))
        return NULL;
    const int64_t size = adjoint ? p->size : taps.starts->sizes[0];
    br_tensor *to = resized(op->name, from, p->dim, size, adjoint);
    const br_resampling work = { p->dim, taps.weights->sizes[1], taps.starts, taps.weights };
    br_scope *scope = br_scope_begin();
    br_tensor *dense = br_contiguous(from);
    if (to && dense && to->numel > 0 && dense->numel > 0) {
        BR_TRAFFIC(dense, to);
        if (adjoint)
            backend->resample_grad(to, dense, &work);
        else
            backend->resample(to, dense, &work);
    }
    br_scope_end(scope);
    br_node *node = br_record(op, to, BR_INPUTS(from), p, sizeof *p);
    br_save(node, STARTS, taps.starts);
    br_save(node, WEIGHTS, taps.weights);
    return br_failed() ? NULL : to;
}

static void resample_backward(br_node *node, br_tensor *dy, br_tensor **dx);
static void adjoint_backward(br_node *node, br_tensor *ddx, br_tensor **ddy);
static const br_op resample_op = { "resample", resample_backward, false };
static const br_op adjoint_op = { "resample_backward", adjoint_backward, false };

static void resample_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    const br_taps taps = { br_saved(node, STARTS), br_saved(node, WEIGHTS) };
    dx[0] = run(&adjoint_op, dy, br_params(node), taps, true);
}

static void adjoint_backward(br_node *node, br_tensor *ddx, br_tensor **ddy)
{
    const br_taps taps = { br_saved(node, STARTS), br_saved(node, WEIGHTS) };
    ddy[0] = run(&resample_op, ddx, br_params(node), taps, false);
}

br_tensor *br__resample(br_tensor *x, int dim, br_taps taps)
{
    if (!x || br_failed())
        return NULL;
    return run(&resample_op, x, &(params){ dim, x->sizes[dim] }, taps, false);
}
