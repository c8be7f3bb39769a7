/* backends/cpu/conv/convolution_axis.c - the positions and taps of a convolution along one
 * dimension. */
#include "backends/cpu/conv/convolution_ways.h"

/* ---- y from x -------------------------------------------------------------------------------- */

br_padding br__padding_of_x(const br_convolution *g)
{
    const int64_t stride = g->stride[1];
    return (br_padding){ .size = { g->size[0], g->size[1] },
                         .before = { g->before[0], g->before[1] },
                         .rows = br__conv_span(g, 0),
                         .columns = (br__conv_span(g, 1) + stride - 1) / stride,
                         .fold = stride };
}

br_axis br__axis(const br_convolution *g, int d)
{
    return (br_axis){ .positions = g->out[d],
                      .taps = g->kernel[d],
                      .tap_stride = 1,
                      .from_step = g->stride[d],
                      .tap_step = g->dilation[d],
                      .to_step = 1 };
}

/* ---- x from y -------------------------------------------------------------------------------- */

/* Returns how many zeros are needed before y. Element q stride + remainder of the padded x receives
 * the contribution of tap i from position q - (i dilation - remainder) / stride of y, which may be
 * negative. */
static int64_t reach(const br_convolution *g, int d)
{
    return (g->kernel[d] - 1) * g->dilation[d] / g->stride[d];
}

static int64_t padded_y(const br_convolution *g, int d)
{
    return (g->size[d] - 1 + g->before[d]) / g->stride[d] + reach(g, d) + 1;
}

br_padding br__padding_of_y(const br_convolution *g)
{
    return (br_padding){ .size = { g->out[0], g->out[1] },
                         .before = { reach(g, 0), reach(g, 1) },
                         .rows = padded_y(g, 0),
                         .columns = padded_y(g, 1),
                         .fold = 1 };
}

/* Finds the taps that contribute to the elements with this remainder; they are evenly spaced. */
static void set_taps(br_axis *a, const br_convolution *g, int d, int64_t remainder)
{
    a->tap_stride = 1;
    for (int64_t i = g->kernel[d] - 1; i >= 0; i--) {
        if (i * g->dilation[d] % g->stride[d] != remainder)
            continue;
        if (a->taps > 0)
            a->tap_stride = a->first_tap - i;
        a->first_tap = i;
        a->taps++;
    }
}

br_axis br__phase_axis(const br_convolution *g, int d, int64_t remainder)
{
    const int64_t stride = g->stride[d], before = g->before[d];
    const int64_t q = before > remainder ? (before - remainder + stride - 1) / stride : 0;
    const int64_t end = g->size[d] + before - remainder;
    const int64_t q_end = end > 0 ? (end + stride - 1) / stride : 0;
    br_axis a = { .positions = q_end > q ? q_end - q : 0,
                  .from_step = 1,
                  .to = q * stride + remainder - before,
                  .to_step = stride };
    set_taps(&a, g, d, remainder);
    a.from = q + reach(g, d) - (a.first_tap * g->dilation[d] - remainder) / stride;
    a.tap_step = -a.tap_stride * g->dilation[d] / stride;
    return a;
}
