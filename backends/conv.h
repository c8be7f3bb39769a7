/* backends/conv.h - work of convolutions. */
#ifndef BR_BACKEND_CONV_H
#define BR_BACKEND_CONV_H

#include <stdint.h>

/* A convolution between x [batch, channels, size], weight [outputs, channels / groups, kernel] and
 * y [batch, outputs, out]. Each array has one entry for rows and one for columns. */
typedef struct br_convolution {
    int64_t batch, channels, outputs, groups;
    int64_t size[2], out[2], kernel[2], stride[2], dilation[2];
    int64_t before[2]; /* zeros before x; elements missing after x are zeros too */
} br_convolution;

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

#endif
