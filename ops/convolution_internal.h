/* ops/convolution_internal.h - the forms of convolution, for the operations that check their
 * arguments, and what these forms share. */
#ifndef BR_CONVOLUTION_INTERNAL_H
#define BR_CONVOLUTION_INTERNAL_H

#include "ops/kernels/padding.h"
#include "ops/ops_internal.h"

/* Between x [batch, channels, size], weight [outputs, channels / groups, kernel] and
 * y [batch, outputs, out]. Pairs are for rows and columns. */
typedef struct br_convolution {
    int64_t batch, channels, outputs, groups;
    int64_t size[2], out[2], kernel[2], stride[2], dilation[2];
    int64_t before[2]; /* zeros in front of x; what is missing behind is zeros too */
} br_convolution;

static inline int64_t br__conv_taps(const br_convolution *g)
{
    return g->kernel[0] * g->kernel[1];
}

static inline int64_t br__conv_positions(const br_convolution *g)
{
    return g->out[0] * g->out[1];
}

/* What a position of an output is summed over. */
static inline int64_t br__conv_met(const br_convolution *g)
{
    return g->channels / g->groups * br__conv_taps(g);
}

/* Elements along a dimension that are met, from the first to the last. */
static inline int64_t br__conv_span(const br_convolution *g, int d)
{
    return (g->out[d] - 1) * g->stride[d] + (g->kernel[d] - 1) * g->dilation[d] + 1;
}

/* Where what the kernel meets is x itself. */
static inline bool br__conv_is_plain(const br_convolution *g)
{
    return br__conv_taps(g) == 1 && g->stride[0] == 1 && g->stride[1] == 1 && g->before[0] == 0 &&
           g->before[1] == 0 && g->size[0] == g->out[0] && g->size[1] == g->out[1];
}

/* Items of so many elements that are worked on at a time: a copy of them stays in the caches. */
static inline int64_t br__conv_items(int64_t batch, int64_t elements)
{
    enum { BUFFER = 1 << 19 };
    const int64_t items = elements > BUFFER ? 1 : BUFFER / (elements > 0 ? elements : 1);
    return items < batch ? items : batch;
}

/* y from x and weight, with a bias [outputs] or NULL; and x from y and weight, the adjoint.
 * Recorded. Shapes have been checked. */
br_tensor *br__convolve(const br_convolution *g, br_tensor *x, br_tensor *weight, br_tensor *bias);
br_tensor *br__convolve_back(const br_convolution *g, br_tensor *y, br_tensor *weight);

/* ops/convolution_sums.c: x or y made from the other one, weight made from both. Operands are
 * dense; y is added to if it `keeps` what it holds. */
void br__sum_y(const br_convolution *g, const br_tensor *x, const br_tensor *weight,
               const br_tensor *y, bool keeps);
void br__sum_x(const br_convolution *g, const br_tensor *x, const br_tensor *weight,
               const br_tensor *y);
/* ops/convolution_weight.c */
void br__sum_weight(const br_convolution *g, const br_tensor *x, const br_tensor *weight,
                    const br_tensor *y);

/* ops/depthwise.c: the same where each group has one channel and few outputs; weight holds zeros.
 */
bool br__is_depthwise(const br_convolution *g);
void br__depthwise(const br_convolution *g, const br_tensor *x, const br_tensor *weight,
                   const br_tensor *y, bool keeps);
void br__depthwise_back(const br_convolution *g, const br_tensor *x, const br_tensor *weight,
                        const br_tensor *y);
void br__depthwise_weight(const br_convolution *g, const br_tensor *x, const br_tensor *weight,
                          const br_tensor *y);

/* ---- Sums over taps, ops/convolution_axis.c -------------------------------------------------- */

/* Along one dimension, result `to + p to_step` is the sum over taps t of what lies at
 * `from + p from_step + t tap_step` of the padded operand, times tap first_tap + t tap_stride of
 * the kernel. */
typedef struct br_axis {
    int64_t positions, taps;
    int64_t first_tap, tap_stride;
    int64_t from, from_step, tap_step;
    int64_t to, to_step;
} br_axis;

/* For y from x. */
br_padding br__padding_of_x(const br_convolution *g);
br_axis br__axis(const br_convolution *g, int d);

/* For x from y: elements of x, counted with the zeros in front, that leave the same remainder by
 * the stride meet the same taps. So there is an axis for each remainder; it may have no taps at
 * all. */
br_padding br__padding_of_y(const br_convolution *g);
br_axis br__phase_axis(const br_convolution *g, int d, int64_t remainder);

#endif
