/* ops/conv/convolution.c - convolutions and their transposes as recorded operations.
 *
 * The three bilinear functions of x, weight and y are each other's gradients: y from x and weight,
 * x from y and weight (the transpose), weight from x and y. Each saves its two arguments and can
 * therefore be differentiated any number of times. A 1-d convolution is a 2-d one with one row. */
#include "ops/conv/convolution_internal.h"

#include <inttypes.h>

bool br__check_conv_number(const char *op, const char *name, int64_t value, int64_t minimum)
{
    if (value >= minimum && value <= INT32_MAX)
        return true;
    br_fail(BR_ERROR_ARGUMENT, op, "%s is %" PRId64 ", must be in %" PRId64 " .. 2^31 - 1", name,
            value, minimum);
    return false;
}

/* Reports the work to the profiler: each element of y is a sum of br__conv_fan_in() products. */
static void count_work(const br_convolution *g, const br_tensor *x, const br_tensor *weight,
                       const br_tensor *y)
{
    if (!BR_PROFILING)
        return;
    br__thread.events->work(2 * y->numel * br__conv_fan_in(g), 0);
    br__thread.events->traffic(3, (const br_tensor *[]){ x, weight, y });
}

/* ---- Recorded operations --------------------------------------------------------------------- */

static br_tensor *weight_of(const br_convolution *g, br_tensor *x, br_tensor *y);

static void convolve_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    const br_convolution *g = br_params(node);
    if (br_needs_input_grad(node, 0))
        dx[0] = br__convolve_back(g, dy, br_saved(node, 1));
    if (br_needs_input_grad(node, 1))
        dx[1] = weight_of(g, br_saved(node, 0), dy);
    if (br_needs_input_grad(node, 2))
        dx[2] = br_sum_dim(dy, BR_DIMS(0, 2, 3), false);
}

static void transposed_backward(br_node *node, br_tensor *dx, br_tensor **d)
{
    const br_convolution *g = br_params(node);
    if (br_needs_input_grad(node, 0))
        d[0] = br__convolve(g, dx, br_saved(node, 1), NULL);
    if (br_needs_input_grad(node, 1))
        d[1] = weight_of(g, dx, br_saved(node, 0));
}

static void weight_backward(br_node *node, br_tensor *dw, br_tensor **d)
{
    const br_convolution *g = br_params(node);
    if (br_needs_input_grad(node, 0))
        d[0] = br__convolve_back(g, br_saved(node, 1), dw);
    if (br_needs_input_grad(node, 1))
        d[1] = br__convolve(g, br_saved(node, 0), dw, NULL);
}

static const br_op convolve_op = { .name = "convolution", .backward = convolve_backward };
static const br_op transposed_op = { .name = "conv_transpose", .backward = transposed_backward };
static const br_op weight_op = { .name = "convolution_weight", .backward = weight_backward };

/* Records an operation of two arguments, each of which is saved if the other one's gradient is
 * needed. */
static br_tensor *recorded(const br_op *op, const br_convolution *g, br_tensor *result,
                           br_tensor *a, br_tensor *b, br_tensor *bias)
{
    br_node *node = br_record(op, result, BR_INPUTS(a, b, bias), g, sizeof *g);
    if (br_needs_input_grad(node, 1))
        br_save(node, 0, a);
    if (br_needs_input_grad(node, 0))
        br_save(node, 1, b);
    return br_failed() ? NULL : result;
}

/* Makes the arguments contiguous and allocates the result; returns NULL with an error if memory
 * runs out. */
static br_tensor *prepare(const int64_t *sizes, bool zeros, br_tensor **a, br_tensor **b)
{
    br_scope *unrecorded = br_no_grad_begin();
    *a = br_scope_return(unrecorded, br_contiguous(*a));
    *b = br_scope_return(unrecorded, br_contiguous(*b));
    br_scope_end(unrecorded);
    if (br_failed())
        return NULL;
    return zeros ? br_new_zeros(*a, 4, sizes, (*a)->dtype)
                 : br__new_on("convolution", *a, 4, sizes, (*a)->dtype);
}

br_tensor *br__convolve(const br_convolution *g, br_tensor *x, br_tensor *weight, br_tensor *bias)
{
    BR_OP(convolve_op.name);
    const br_backend *backend = br_failed() ? NULL : BR_BACKEND(convolve_op.name, x, convolution);
    if (!backend)
        return NULL;
    br_tensor *dense_x = x, *dense_w = weight;
    br_tensor *y = prepare((int64_t[]){ g->batch, g->outputs, g->out[0], g->out[1] }, false,
                           &dense_x, &dense_w);
    if (y && y->numel > 0) {
        count_work(g, dense_x, dense_w, y);
        backend->convolution(g, y, dense_x, dense_w, bias);
    }
    return recorded(&convolve_op, g, y, x, weight, bias);
}

br_tensor *br__convolve_back(const br_convolution *g, br_tensor *y, br_tensor *weight)
{
    BR_OP(transposed_op.name);
    const br_backend *backend =
        br_failed() ? NULL : BR_BACKEND(transposed_op.name, y, convolution_input);
    if (!backend)
        return NULL;
    br_tensor *dense_y = y, *dense_w = weight;
    br_tensor *x = prepare((int64_t[]){ g->batch, g->channels, g->size[0], g->size[1] }, false,
                           &dense_y, &dense_w);
    if (x && x->numel > 0) {
        count_work(g, x, dense_w, dense_y);
        backend->convolution_input(g, x, dense_w, dense_y);
    }
    return recorded(&transposed_op, g, x, y, weight, NULL);
}

static br_tensor *weight_of(const br_convolution *g, br_tensor *x, br_tensor *y)
{
    BR_OP(weight_op.name);
    const br_backend *backend =
        br_failed() ? NULL : BR_BACKEND(weight_op.name, x, convolution_weight);
    if (!backend)
        return NULL;
    br_tensor *dense_x = x, *dense_y = y;
    const bool empty = x->numel == 0 || y->numel == 0;
    br_tensor *weight =
        prepare((int64_t[]){ g->outputs, g->channels / g->groups, g->kernel[0], g->kernel[1] },
                empty, &dense_x, &dense_y);
    if (weight && weight->numel > 0 && !empty) {
        count_work(g, dense_x, weight, dense_y);
        backend->convolution_weight(g, weight, dense_x, dense_y);
    }
    return recorded(&weight_op, g, weight, x, y, NULL);
}

/* ---- Windows with gaps ----------------------------------------------------------------------- */

br_tensor *br__spread(br_tensor *x, int64_t dilation, int64_t span)
{
    int64_t sizes[BR_MAX_DIMS];
    if (dilation == 1 || !x)
        return x;
    for (int i = 0; i < x->ndim; i++)
        sizes[i] = i == x->ndim - 1 ? span : x->sizes[i];
    br_tensor *zeros = br_new_zeros(x, x->ndim, sizes, x->dtype);
    return br_slice_scatter(zeros, x, -1, 0, BR_ALL, dilation);
}
