/* ops/conv/convolution.c - convolutions and their transposes as recorded operations.
 *
 * The three bilinear functions of x, weight and y are each other's gradients: y from x and weight,
 * x from y and weight (the transpose), weight from x and y. Each saves its two arguments and can
 * therefore be differentiated any number of times. A 1-d convolution is a 2-d one with one row. */
#include "ops/conv/convolution_internal.h"

/* Reports the work to the profiler: each element of y is a sum of br__conv_fan_in() products. */
static void count_work(const br_convolution *g, const br_tensor *x, const br_tensor *weight,
                       const br_tensor *y)
{
    if (!BR_PROFILING)
        return;
    br__thread.events->work(2 * y->numel * br__conv_fan_in(g), 0);
    br__thread.events->traffic(3, (const br_tensor *[]){ x, weight, y });
}

/* Sets y to the bias. The products are then added to y. */
static void fill_with_bias(const br_tensor *y, const br_tensor *bias)
{
    br_tensor seen = br__window(bias);
    br__window_reshape(&seen, 3, (int64_t[]){ bias->numel, 1, 1 },
                       (int64_t[]){ bias->strides[0], 0, 0 });
    br__copy(y, &seen);
}

/* ---- 1x1 kernels with a stride --------------------------------------------------------------- */

/* Returns true for a 1x1 kernel with a stride whose input elements all lie in x. Such a convolution
 * equals one with stride 1 over a strided slice of x. */
static bool skips(const br_convolution *g)
{
    return br__conv_taps(g) == 1 && (g->stride[0] > 1 || g->stride[1] > 1) && g->before[0] == 0 &&
           g->before[1] == 0 && (g->out[0] - 1) * g->stride[0] < g->size[0] &&
           (g->out[1] - 1) * g->stride[1] < g->size[1];
}

static br_convolution without_skips(const br_convolution *g)
{
    br_convolution dense = *g;
    for (int d = 0; d < 2; d++) {
        dense.size[d] = g->out[d];
        dense.stride[d] = 1;
    }
    return dense;
}

static br_tensor strided_input(const br_convolution *g, const br_tensor *x)
{
    br_tensor strided = br__window(x);
    for (int d = 0; d < 2; d++)
        br__window_slice(&strided, 2 + d, 0, g->out[d], g->stride[d]);
    return strided;
}

/* Allocates a tensor for the elements of that slice; NULL with an error if memory runs out. */
static br_tensor *new_dense(const br_convolution *g, const br_tensor *x)
{
    return br__new("convolution", BR_SHAPE(g->batch, g->channels, g->out[0], g->out[1]), x->dtype);
}

/* Returns a copy of that slice of x; NULL with an error if memory runs out. */
static br_tensor *gather(const br_convolution *g, const br_tensor *x)
{
    br_tensor *copy = new_dense(g, x);
    if (copy) {
        const br_tensor strided = strided_input(g, x);
        br__copy(copy, &strided);
    }
    return copy;
}

static void skip_y(const br_convolution *g, const br_tensor *x, const br_tensor *weight,
                   const br_tensor *y, bool keeps)
{
    const br_convolution dense = without_skips(g);
    br_scope *scope = br_scope_begin();
    br_tensor *strided = gather(g, x);
    if (strided)
        br__sum_y(&dense, strided, weight, y, keeps);
    br_scope_end(scope);
}

/* Computes x from y by writing the result to that slice of x. The rest of x must hold zeros. */
static void skip_x(const br_convolution *g, const br_tensor *x, const br_tensor *weight,
                   const br_tensor *y)
{
    const br_convolution dense = without_skips(g);
    br_scope *scope = br_scope_begin();
    br_tensor *sums = new_dense(g, x);
    if (sums) {
        const br_tensor strided = strided_input(g, x);
        br__sum_x(&dense, sums, weight, y);
        br__copy(&strided, sums);
    }
    br_scope_end(scope);
}

static void skip_weight(const br_convolution *g, const br_tensor *x, const br_tensor *weight,
                        const br_tensor *y)
{
    const br_convolution dense = without_skips(g);
    br_scope *scope = br_scope_begin();
    br_tensor *strided = gather(g, x);
    if (strided)
        br__sum_weight(&dense, strided, weight, y);
    br_scope_end(scope);
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
static br_tensor *prepare(int ndim, const int64_t *sizes, bool zeros, br_tensor **a, br_tensor **b)
{
    br_scope *unrecorded = br_no_grad_begin();
    *a = br_scope_return(unrecorded, br_contiguous(*a));
    *b = br_scope_return(unrecorded, br_contiguous(*b));
    br_scope_end(unrecorded);
    if (br_failed())
        return NULL;
    return zeros ? br_zeros(ndim, sizes, (*a)->dtype)
                 : br__new("convolution", ndim, sizes, (*a)->dtype);
}

br_tensor *br__convolve(const br_convolution *g, br_tensor *x, br_tensor *weight, br_tensor *bias)
{
    BR_OP(convolve_op.name);
    br_tensor *dense_x = x, *dense_w = weight;
    br_tensor *y = prepare(4, (int64_t[]){ g->batch, g->outputs, g->out[0], g->out[1] }, false,
                           &dense_x, &dense_w);
    if (y && y->numel > 0) {
        count_work(g, dense_x, dense_w, y);
        if (bias)
            fill_with_bias(y, bias);
        (br__is_depthwise(g) ? br__depthwise
         : skips(g)          ? skip_y
                             : br__sum_y)(g, dense_x, dense_w, y, bias != NULL);
    }
    return recorded(&convolve_op, g, y, x, weight, bias);
}

br_tensor *br__convolve_back(const br_convolution *g, br_tensor *y, br_tensor *weight)
{
    BR_OP(transposed_op.name);
    br_tensor *dense_y = y, *dense_w = weight;
    br_tensor *x = prepare(4, (int64_t[]){ g->batch, g->channels, g->size[0], g->size[1] },
                           skips(g), &dense_y, &dense_w);
    if (x && x->numel > 0) {
        count_work(g, x, dense_w, dense_y);
        (br__is_depthwise(g) ? br__depthwise_back
         : skips(g)          ? skip_x
                             : br__sum_x)(g, x, dense_w, dense_y);
    }
    return recorded(&transposed_op, g, x, y, weight, NULL);
}

static br_tensor *weight_of(const br_convolution *g, br_tensor *x, br_tensor *y)
{
    BR_OP(weight_op.name);
    if (br_failed())
        return NULL;
    br_tensor *dense_x = x, *dense_y = y;
    /* The weight must be zeroed if br__depthwise_weight() adds to it, or if the operands are empty
     * and nothing is written. */
    const bool adds = br__is_depthwise(g) || x->numel == 0 || y->numel == 0;
    br_tensor *weight =
        prepare(4, (int64_t[]){ g->outputs, g->channels / g->groups, g->kernel[0], g->kernel[1] },
                adds, &dense_x, &dense_y);
    if (weight && weight->numel > 0 && dense_y->numel > 0) {
        count_work(g, dense_x, weight, dense_y);
        (br__is_depthwise(g) ? br__depthwise_weight
         : skips(g)          ? skip_weight
                             : br__sum_weight)(g, dense_x, weight, dense_y);
    }
    return recorded(&weight_op, g, weight, x, y, NULL);
}
