/* backends/cpu/conv/convolution_ways.h - the ways to compute a convolution, and helpers that
 * they share. */
#ifndef BR_CPU_CONVOLUTION_WAYS_H
#define BR_CPU_CONVOLUTION_WAYS_H

#include "backends/cpu/shape/padding.h"
#include "tensor/tensor_internal.h"

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

/* convolution_sums.c: compute y from x, or x from y. If `keeps`, br__sum_y() adds to y instead of
 * overwriting it. */
void br__sum_y(const br_convolution *g, const br_tensor *x, const br_tensor *weight,
               const br_tensor *y, bool keeps);
void br__sum_x(const br_convolution *g, const br_tensor *x, const br_tensor *weight,
               const br_tensor *y);
/* convolution_weight.c: computes weight from x and y. */
void br__sum_weight(const br_convolution *g, const br_tensor *x, const br_tensor *weight,
                    const br_tensor *y);

/* depthwise.c: the same for groups with one input channel and few output channels. */
bool br__is_depthwise(const br_convolution *g);
void br__depthwise(const br_convolution *g, const br_tensor *x, const br_tensor *weight,
                   const br_tensor *y, bool keeps);
void br__depthwise_back(const br_convolution *g, const br_tensor *x, const br_tensor *weight,
                        const br_tensor *y);
void br__depthwise_weight(const br_convolution *g, const br_tensor *x, const br_tensor *weight,
                          const br_tensor *y);

/* ---- Sums over taps, convolution_axis.c ------------------------------------------------------ */

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
