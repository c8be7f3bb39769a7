/* ops/convolution.c - convolutions, and their transposes, on the tape.
 *
 * The three bilinear forms between x, weight and y are each other's gradients: y from x and weight,
 * x from y and weight (the transpose), weight from x and y. So each keeps its two arguments and can
 * be differentiated any number of times. One-dimensional ones are those of one row. */
#include "ops/convolution_internal.h"

/* For profiles: a product of each output with what it meets. */
static void count_work(const br_convolution *g, const br_tensor *x, const br_tensor *weight,
                       const br_tensor *y)
{
    if (!BR_PROFILING)
        return;
    br__event_work(2 * y->numel * br__conv_met(g), 0);
    br__event_traffic(3, (const br_tensor *[]){ x, weight, y });
}

/* Rows of y set to the bias, to which products are then added. */
static void fill_with_bias(const br_tensor *y, const br_tensor *bias)
{
    int64_t sizes[] = { bias->numel, 1, 1 }, strides[] = { bias->strides[0], 0, 0 };
    br_tensor seen = br__window(bias);
    seen.ndim = 3;
    for (int d = 0; d < 3; d++) {
        seen.sizes[d] = sizes[d];
        seen.strides[d] = strides[d];
    }
    br__copy(y, &seen);
}

static br_tensor *weight_of(const br_convolution *g, br_tensor *x, br_tensor *y);

static void convolve_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    const br_convolution *g = br_params(node);
    if (br_wants(node, 0))
        dx[0] = br__convolve_back(g, dy, br_saved(node, 1));
    if (br_wants(node, 1))
        dx[1] = weight_of(g, br_saved(node, 0), dy);
    if (br_wants(node, 2))
        dx[2] = br_sum_dim(dy, BR_DIMS(0, 2, 3), false);
}

static void transposed_backward(br_node *node, br_tensor *dx, br_tensor **d)
{
    const br_convolution *g = br_params(node);
    if (br_wants(node, 0))
        d[0] = br__convolve(g, dx, br_saved(node, 1), NULL);
    if (br_wants(node, 1))
        d[1] = weight_of(g, dx, br_saved(node, 0));
}

static void weight_backward(br_node *node, br_tensor *dw, br_tensor **d)
{
    const br_convolution *g = br_params(node);
    if (br_wants(node, 0))
        d[0] = br__convolve_back(g, br_saved(node, 1), dw);
    if (br_wants(node, 1))
        d[1] = br__convolve(g, br_saved(node, 0), dw, NULL);
}

static const br_op convolve_op = { .name = "convolution", .backward = convolve_backward };
static const br_op transposed_op = { .name = "conv_transpose", .backward = transposed_backward };
static const br_op weight_op = { .name = "convolution_weight", .backward = weight_backward };

/* Two arguments, of which each is kept for the other's gradient. */
static br_tensor *recorded(const br_op *op, const br_convolution *g, br_tensor *result,
                           br_tensor *a, br_tensor *b, br_tensor *bias)
{
    br_node *node = br_record(op, result, BR_INPUTS(a, b, bias), g, sizeof *g);
    if (br_wants(node, 1))
        br_save(node, 0, a);
    if (br_wants(node, 0))
        br_save(node, 1, b);
    return br_failed() ? NULL : result;
}

/* The arguments without gaps, and the result; NULL and an error if memory fails. */
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
        (br__is_depthwise(g) ? br__depthwise : br__sum_y)(g, dense_x, dense_w, y, bias != NULL);
    }
    return recorded(&convolve_op, g, y, x, weight, bias);
}

br_tensor *br__convolve_back(const br_convolution *g, br_tensor *y, br_tensor *weight)
{
    BR_OP(transposed_op.name);
    br_tensor *dense_y = y, *dense_w = weight;
    br_tensor *x = prepare(4, (int64_t[]){ g->batch, g->channels, g->size[0], g->size[1] }, false,
                           &dense_y, &dense_w);
    if (x && x->numel > 0) {
        count_work(g, x, dense_w, dense_y);
        (br__is_depthwise(g) ? br__depthwise_back : br__sum_x)(g, x, dense_w, dense_y);
    }
    return recorded(&transposed_op, g, x, y, weight, NULL);
}

static br_tensor *weight_of(const br_convolution *g, br_tensor *x, br_tensor *y)
{
    BR_OP(weight_op.name);
    br_tensor *dense_x = x, *dense_y = y;
    br_tensor *weight =
        prepare(4, (int64_t[]){ g->outputs, g->channels / g->groups, g->kernel[0], g->kernel[1] },
                true, &dense_x, &dense_y);
    if (weight && weight->numel > 0 && dense_y->numel > 0) {
        count_work(g, dense_x, weight, dense_y);
        (br__is_depthwise(g) ? br__depthwise_weight : br__sum_weight)(g, dense_x, weight, dense_y);
    }
    return recorded(&weight_op, g, weight, x, y, NULL);
}
