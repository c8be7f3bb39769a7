/* ops/depthwise.c - convolutions whose groups have one channel each: planes by kernels, without the
 * columns of convolution.c, which would be read once for each output.
 *
 * A task is what adds to one plane, or to one kernel, in the order of outputs and items; so results
 * do not depend on the number of threads. */
#include "ops/convolution_internal.h"

#include <string.h>

enum {
    MOST_OUTPUTS = 4, /* of a channel: the product pays for more */
    LEAST_ROW = 32,   /* whose products are summed by themselves: measured */
};

typedef struct job {
    const br_convolution *g;
    br_columns columns;
    br_depthwise work;
    const br_tensor *x, *weight, *y;
    bool keeps; /* y holds what is added to */
} job;

br_columns br__columns_of(const br_convolution *g)
{
    br_columns u = { .rows = g->out[0], .columns = g->out[1] };
    for (int d = 0; d < 2; d++) {
        u.size[d] = g->size[d], u.kernel[d] = g->kernel[d], u.stride[d] = g->stride[d];
        u.dilation[d] = g->dilation[d], u.before[d] = g->before[d];
    }
    return u;
}

bool br__is_depthwise(const br_convolution *g)
{
    return g->groups > 1 && g->channels == g->groups && g->outputs <= MOST_OUTPUTS * g->groups;
}

bool br__sums_depthwise(const br_convolution *g)
{
    return br__is_depthwise(g) && g->out[1] >= LEAST_ROW;
}

/* Adds the products of one item and one output. */
static void run_plane(const job *j, int64_t item, int64_t output)
{
    const br_convolution *g = j->g;
    const int64_t size = (int64_t)br__dtype_size(j->x->dtype);
    const int64_t channel = output / (g->outputs / g->groups);
    j->work(&j->columns,
            j->x->data + (item * g->channels + channel) * g->size[0] * g->size[1] * size,
            j->weight->data + output * g->kernel[0] * g->kernel[1] * size,
            j->y->data + (item * g->outputs + output) * g->out[0] * g->out[1] * size);
}

static void forward_task(void *context, int64_t i)
{
    const job *j = context;
    const size_t bytes = (size_t)(j->g->out[0] * j->g->out[1]) * br__dtype_size(j->x->dtype);
    if (!j->keeps)
        memset(j->y->data + (size_t)i * bytes, 0, bytes);
    run_plane(j, i / j->g->outputs, i % j->g->outputs);
}

static void back_task(void *context, int64_t i)
{
    const job *j = context;
    const int64_t item = i / j->g->channels, channel = i % j->g->channels;
    const int64_t each = j->g->outputs / j->g->groups;
    for (int64_t k = 0; k < each; k++)
        run_plane(j, item, channel * each + k);
}

static void weight_task(void *context, int64_t output)
{
    const job *j = context;
    for (int64_t item = 0; item < j->g->batch; item++)
        run_plane(j, item, output);
}

static job job_of(const br_convolution *g, const br_tensor *x, const br_tensor *weight,
                  const br_tensor *y)
{
    job j = { .g = g, .x = x, .weight = weight, .y = y };
    j.columns = br__columns_of(g);
    return j;
}

void br__depthwise(const br_convolution *g, const br_tensor *x, const br_tensor *weight,
                   const br_tensor *y, bool keeps)
{
    job j = job_of(g, x, weight, y);
    j.work = br__kernels_of(x->dtype)->depthwise;
    j.keeps = keeps;
    br__parallel(g->batch * g->outputs, forward_task, &j);
}

void br__depthwise_back(const br_convolution *g, const br_tensor *x, const br_tensor *weight,
                        const br_tensor *y)
{
    job j = job_of(g, x, weight, y);
    j.work = br__kernels_of(x->dtype)->depthwise_back;
    br__parallel(g->batch * g->channels, back_task, &j);
}

void br__depthwise_weight(const br_convolution *g, const br_tensor *x, const br_tensor *weight,
                          const br_tensor *y)
{
    job j = job_of(g, x, weight, y);
    j.work = br__kernels_of(x->dtype)->depthwise_weight;
    br__parallel(g->outputs, weight_task, &j);
}
