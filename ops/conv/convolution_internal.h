/* ops/conv/convolution_internal.h - convolutions whose arguments have been checked, and helpers
 * that the implementations share. */
#ifndef BR_CONVOLUTION_INTERNAL_H
#define BR_CONVOLUTION_INTERNAL_H

#include "backends/cpu/shape/padding.h"
#include "ops/ops_internal.h"

/* A convolution between x [batch, channels, size], weight [outputs, channels / groups, kernel] and
 * y [batch, outputs, out]. Each array has one entry for rows and one for columns. */
typedef struct br_convolution {
    int64_t batch, channels, outputs, groups;
    int64_t size[2], out[2], kernel[2], stride[2], dilation[2];
    int64_t before[2]; /* zeros before x; elements missing after x are zeros too */
} br_convolution;

/* Checks options that do not depend on the operands, so that a layer's constructor can refuse them.
 * Returns false and sets an error if one is invalid. `dims` is 1 or 2. */
bool br__check_conv_options(const char *op, int dims, bool transposed,
                            const br_conv_options *options);

static inline int64_t br__conv_taps(const br_convolution *g)
{
    return g->kernel[0] * g->kernel[1];
}

static inline int64_t br__conv_positions(const br_convolution *g)
{
    return g->out[0] * g->out[1];
}

/* Returns the number of products that are summed for an element of y. */
static inline int64_t br__conv_fan_in(const br_convolution *g)
{
    return g->channels / g->groups * br__conv_taps(g);
}

/* Returns the extent of the padded input that is used along a dimension. */
static inline int64_t br__conv_span(const br_convolution *g, int d)
{
    return (g->out[d] - 1) * g->stride[d] + (g->kernel[d] - 1) * g->dilation[d] + 1;
}

/* Returns true if the im2col matrix is x itself: a 1x1 kernel with stride 1 and no padding. */
static inline bool br__conv_is_plain(const br_convolution *g)
{
    return br__conv_taps(g) == 1 && g->stride[0] == 1 && g->stride[1] == 1 && g->before[0] == 0 &&
           g->before[1] == 0 && g->size[0] == g->out[0] && g->size[1] == g->out[1];
}

/* Returns how many batch items, of `elements` elements each, are processed at a time, so that a
 * copy of them stays in cache. */
static inline int64_t br__conv_items(int64_t batch, int64_t elements)
{
    enum { BUFFER = 1 << 19 };
    const int64_t items = elements > BUFFER ? 1 : BUFFER / (elements > 0 ? elements : 1);
    return items < batch ? items : batch;
}

/* br__convolve() computes y from x, weight and bias, which is [outputs] or NULL.
 * br__convolve_back(), its adjoint, computes x from y and weight. Autograd records both. The shapes
 * must have been checked. */
br_tensor *br__convolve(const br_convolution *g, br_tensor *x, br_tensor *weight, br_tensor *bias);
br_tensor *br__convolve_back(const br_convolution *g, br_tensor *y, br_tensor *weight);

/* ops/conv/convolution_sums.c: compute y from x, or x from y. The operands are contiguous. If
 * `keeps`, br__sum_y() adds to y instead of overwriting it. */
void br__sum_y(const br_convolution *g, const br_tensor *x, const br_tensor *weight,
               const br_tensor *y, bool keeps);
void br__sum_x(const br_convolution *g, const br_tensor *x, const br_tensor *weight,
               const br_tensor *y);
/* ops/conv/convolution_weight.c: computes weight from x and y. */
void br__sum_weight(const br_convolution *g, const br_tensor *x, const br_tensor *weight,
                    const br_tensor *y);

/* ops/conv/depthwise.c: the same for groups with one input channel and few output channels.
 * br__depthwise_weight() adds to weight, which must hold zeros. */
bool br__is_depthwise(const br_convolution *g);
void br__depthwise(const br_convolution *g, const br_tensor *x, const br_tensor *weight,
                   const br_tensor *y, bool keeps);
void br__depthwise_back(const br_convolution *g, const br_tensor *x, const br_tensor *weight,
                        const br_tensor *y);
void br__depthwise_weight(const br_convolution *g, const br_tensor *x, const br_tensor *weight,
                          const br_tensor *y);

/* ---- Sums over taps, ops/conv/convolution_axis.c --------------------------------------------- */

/* Describes a convolution along one dimension. For each position p, result[to + p to_step] is the
 * sum over taps t of padded[from + p from_step + t tap_step] kernel[first_tap + t tap_stride],
 * where `padded` is the padded operand. */
typedef struct br_axis {
    int64_t positions, taps;
    int64_t first_tap, tap_stride;
    int64_t from, from_step, tap_step;
    int64_t to, to_step;
} br_axis;

/* For y from x. */
br_padding br__padding_of_x(const br_convolution *g);
br_axis br__axis(const br_convolution *g, int d);

/* For x from y. Elements of the padded x whose indices have the same remainder modulo the stride
 * use the same taps. Each remainder therefore has its own axis, called a phase. A phase may have no
 * taps. */
br_padding br__padding_of_y(const br_convolution *g);
br_axis br__phase_axis(const br_convolution *g, int d, int64_t remainder);

#endif
