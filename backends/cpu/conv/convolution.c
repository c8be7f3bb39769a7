/* backends/cpu/conv/convolution.c - chooses how a convolution is computed: plane by plane, or as a
 * matrix product, for which 1x1 kernels with a stride copy the elements that they use. */
#include "backends/cpu/conv/conv_internal.h"
#include "backends/cpu/conv/convolution_ways.h"
#include "backends/cpu/shape/copy.h"

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
    return br__new_on_host("convolution", BR_SHAPE(g->batch, g->channels, g->out[0], g->out[1]),
                           x->dtype);
}

/* Returns a copy of that slice of x; NULL with an error if memory runs out. */
static br_tensor *gather(const br_convolution *g, const br_tensor *x)
{
    br_tensor *copy = new_dense(g, x);
    if (copy) {
        const br_tensor strided = strided_input(g, x);
        br__cpu_copy(copy, &strided);
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

/* Computes x from y by writing the result to that slice of x, and zeros to the rest of x. */
static void skip_x(const br_convolution *g, const br_tensor *x, const br_tensor *weight,
                   const br_tensor *y)
{
    const br_convolution dense = without_skips(g);
    br_scope *scope = br_scope_begin();
    br_tensor *sums = new_dense(g, x);
    if (sums) {
        const br_tensor strided = strided_input(g, x);
        br__sum_x(&dense, sums, weight, y);
        br__set_zero(x);
        br__cpu_copy(&strided, sums);
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

/* ---- The entries ----------------------------------------------------------------------------- */

/* Sets y to the bias. The products are then added to y. */
static void fill_with_bias(const br_tensor *y, const br_tensor *bias)
{
    br_tensor seen = br__window(bias);
    br__window_reshape(&seen, 3, (int64_t[]){ bias->numel, 1, 1 },
                       (int64_t[]){ bias->strides[0], 0, 0 });
    br__cpu_copy(y, &seen);
}

bool br__cpu_convolution(const br_convolution *g, const br_tensor *y, const br_tensor *x,
                         const br_tensor *weight, const br_tensor *bias)
{
    if (bias)
        fill_with_bias(y, bias);
    (br__is_depthwise(g) ? br__depthwise
     : skips(g)          ? skip_y
                         : br__sum_y)(g, x, weight, y, bias != NULL);
    return !br__failed();
}

bool br__cpu_convolution_input(const br_convolution *g, const br_tensor *x, const br_tensor *weight,
                               const br_tensor *y)
{
    (br__is_depthwise(g) ? br__depthwise_back : skips(g) ? skip_x : br__sum_x)(g, x, weight, y);
    return !br__failed();
}

bool br__cpu_convolution_weight(const br_convolution *g, const br_tensor *weight,
                                const br_tensor *x, const br_tensor *y)
{
    (br__is_depthwise(g) ? br__depthwise_weight
     : skips(g)          ? skip_weight
                         : br__sum_weight)(g, x, weight, y);
    return !br__failed();
}
