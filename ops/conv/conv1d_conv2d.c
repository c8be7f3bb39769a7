/* ops/conv/conv1d_conv2d.c - conv1d, conv2d and their transposes: options, checks, and shapes with
 * and without a batch. A 1-d convolution is a 2-d one with one row. */
#include "ops/autocast.h"
#include "ops/conv/convolution_internal.h"
#include "ops/pointwise/widen.h"

#include <inttypes.h>

BR_DEFINE_DEFAULTS(br_conv)

/* ---- Checks ---------------------------------------------------------------------------------- */

/* The options of a call. Each array has one entry for rows and one for columns. */
typedef struct call {
    const char *op;
    int dims; /* 1 or 2 */
    int64_t stride[2], padding[2], dilation[2], output_padding[2], groups;
    bool same;
} call;

/* Copies a pair of the options as rows and columns. For a 1-d convolution the pair's first number
 * is for the columns, and of_one_row for the rows. */
static void set_pair(int64_t *to, int dims, br_pair pair, int64_t of_one_row)
{
    to[0] = dims == 1 ? of_one_row : pair.rows;
    to[1] = dims == 1 ? pair.rows : pair.columns;
}

/* Checks an option that depends on the stride: `same`, or the output padding of a transposed
 * convolution. */
static bool fits_stride(const call *c, bool transposed, int d)
{
    int64_t stride = c->stride[d], more = c->output_padding[d];
    if (c->same && transposed)
        br_fail(BR_ERROR_ARGUMENT, c->op,
                "same is true, but a transposed convolution does not support it: set padding");
    else if (c->same && stride != 1)
        br_fail(BR_ERROR_ARGUMENT, c->op, "stride is %" PRId64 ", must be 1 with `same`", stride);
    else if (more > 0 && !transposed)
        br_fail(BR_ERROR_ARGUMENT, c->op,
                "output_padding is %" PRId64 ", but only a transposed convolution supports it",
                more);
    else if (more >= stride && more >= c->dilation[d])
        br_fail(BR_ERROR_ARGUMENT, c->op,
                "output_padding is %" PRId64 ", must be less than the stride %" PRId64
                " or the dilation %" PRId64,
                more, stride, c->dilation[d]);
    return !br_failed();
}

static bool set_options(call *c, const char *op, int dims, bool transposed,
                        const br_conv_options *options)
{
    const br_conv_options *o = BR_OPTIONS_OF(op, br_conv, options);
    *c = (call){ .op = op, .dims = dims, .groups = o->groups, .same = o->same };
    set_pair(c->stride, dims, o->stride, 1);
    set_pair(c->dilation, dims, o->dilation, 1);
    set_pair(c->padding, dims, o->padding, 0);
    set_pair(c->output_padding, dims, o->output_padding, 0);
    for (int d = 2 - dims; d < 2; d++)
        if (!br__check_conv_number(c->op, "stride", c->stride[d], 1) ||
            !br__check_conv_number(c->op, "dilation", c->dilation[d], 1) ||
            !br__check_conv_number(c->op, "padding", c->padding[d], 0) ||
            !br__check_conv_number(c->op, "output_padding", c->output_padding[d], 0) ||
            !fits_stride(c, transposed, d))
            return false;
    return br__check_conv_number(c->op, "groups", c->groups, 1) && !br_failed();
}

bool br__check_conv_options(const char *op, int dims, bool transposed,
                            const br_conv_options *options)
{
    call c;
    return set_options(&c, op, dims, transposed, options);
}

/* Checks that weight has dims + 2 dimensions, and x the same number, or one less without a
 * batch. */
static bool check_operands(const call *c, const br_tensor *x, const br_tensor *weight,
                           const br_tensor *bias)
{
    const char *op = c->op;
    if (!br__floating(op, "x", x) || !br__compatible(op, "x", x, "weight", weight) ||
        (bias && !br__compatible(op, "x", x, "bias", bias)))
        return false;
    if (weight->ndim != c->dims + 2 || (x->ndim != c->dims + 2 && x->ndim != c->dims + 1)) {
        br_fail(BR_ERROR_SHAPE, op,
                "x %s and weight %s: weight must have %d dimensions, and x the same number, or one "
                "less without a batch",
                br__shape(x), br__shape(weight), c->dims + 2);
        return false;
    }
    for (int d = 2; d < weight->ndim; d++)
        if (weight->sizes[d] < 1) {
            br_fail(BR_ERROR_SHAPE, op, "weight %s has a kernel of size 0, must be at least 1",
                    br__shape(weight));
            return false;
        }
    return true;
}

static bool check_bias(const call *c, const br_tensor *bias, int64_t outputs,
                       const br_tensor *weight)
{
    if (!bias || (bias->ndim == 1 && bias->sizes[0] == outputs))
        return true;
    br_fail(BR_ERROR_SHAPE, c->op,
            "bias %s must have shape [%" PRId64 "], the number of output channels of weight %s",
            br__shape(bias), outputs, br__shape(weight));
    return false;
}

/* Returns x with a batch dimension, and x and weight with a dimension for rows. */
static br_tensor *with_rows(const call *c, br_tensor *x, br_tensor *weight, br_tensor **weight_2d)
{
    *weight_2d = c->dims == 1 ? br_unsqueeze(weight, 2) : weight;
    x = c->dims == 1 ? br_unsqueeze(x, -2) : x;
    return br_ndim(x) == 3 ? br_unsqueeze(x, 0) : x;
}

/* Removes from the result the dimensions that with_rows() added to x. */
static br_tensor *without_rows(const call *c, br_tensor *y, const br_tensor *x)
{
    if (c->dims == 1)
        y = br_squeeze(y, -2);
    return br_ndim(x) == c->dims + 1 ? br_squeeze(y, 0) : y;
}

/* ---- Convolution ----------------------------------------------------------------------------- */

/* Computes the output size and the padding along dimension d. */
static bool set_output_size(const call *c, br_convolution *g, const br_tensor *x,
                            const br_tensor *weight, int d)
{
    int64_t reach = (g->kernel[d] - 1) * g->dilation[d];
    int64_t padding = c->same ? reach : 2 * c->padding[d];
    g->before[d] = padding / 2;
    if (g->size[d] + padding <= reach || g->size[d] == 0) {
        br_fail(BR_ERROR_SHAPE, c->op,
                "x %s, padded by %" PRId64
                ", is smaller than the kernel of weight %s, whose size with dilation %" PRId64
                " is %" PRId64,
                br__shape(x), padding, br__shape(weight), g->dilation[d], reach + 1);
        return false;
    }
    g->out[d] = (g->size[d] + padding - reach - 1) / g->stride[d] + 1;
    return true;
}

static bool set_geometry(const call *c, br_convolution *g, const br_tensor *x,
                         const br_tensor *weight)
{
    int64_t spatial = x->ndim - c->dims, groups = c->groups;
    *g = (br_convolution){ .batch = spatial == 2 ? x->sizes[0] : 1,
                           .channels = x->sizes[spatial - 1],
                           .outputs = weight->sizes[0],
                           .groups = groups };
    if (g->channels != weight->sizes[1] * groups || g->outputs % groups != 0) {
        br_fail(BR_ERROR_SHAPE, c->op,
                "x %s has %" PRId64 " channels, weight %s with groups %" PRId64 " needs %" PRId64
                ": x must have groups times as many channels as weight's dimension 1, and groups "
                "must divide weight's dimension 0",
                br__shape(x), g->channels, br__shape(weight), groups, weight->sizes[1] * groups);
        return false;
    }
    for (int d = 2 - c->dims; d < 2; d++) {
        g->size[d] = x->sizes[x->ndim - 2 + d];
        g->kernel[d] = weight->sizes[weight->ndim - 2 + d];
        g->stride[d] = c->stride[d];
        g->dilation[d] = c->dilation[d];
        if (!set_output_size(c, g, x, weight, d))
            return false;
    }
    if (c->dims == 1)
        g->size[0] = g->out[0] = g->kernel[0] = g->stride[0] = g->dilation[0] = 1;
    return true;
}

static br_tensor *conv(const char *op, int dims, br_tensor *x, br_tensor *weight, br_tensor *bias,
                       const br_conv_options *options)
{
    BR_OP(op);
    BR_AUTOCAST(conv(op, dims, LOWER(x), LOWER(weight), LOWER(bias), options))
    call c;
    br_convolution g;
    if (!set_options(&c, op, dims, false, options) || !check_operands(&c, x, weight, bias) ||
        !set_geometry(&c, &g, x, weight) || !check_bias(&c, bias, g.outputs, weight))
        return NULL;
    br_scope *scope = br_scope_begin();
    br_tensor *seen = with_rows(&c, x, weight, &weight);
    br_tensor *y = br_failed() ? NULL : without_rows(&c, br__convolve(&g, seen, weight, bias), x);
    return br__composed(scope, y);
}

br_tensor *br_f_conv1d(br_tensor *x, br_tensor *weight, br_tensor *bias,
                       const br_conv_options *options)
{
    return conv("conv1d", 1, x, weight, bias, options);
}

br_tensor *br_f_conv2d(br_tensor *x, br_tensor *weight, br_tensor *bias,
                       const br_conv_options *options)
{
    return conv("conv2d", 2, x, weight, bias, options);
}

/* ---- Transposed convolution ------------------------------------------------------------------ */

/* Computes the sizes of the result, which is the input of a convolution whose output is x. */
static bool set_transposed_geometry(const call *c, br_convolution *g, const br_tensor *x,
                                    const br_tensor *weight)
{
    int64_t spatial = x->ndim - c->dims;
    *g = (br_convolution){ .batch = spatial == 2 ? x->sizes[0] : 1,
                           .channels = weight->sizes[1] * c->groups,
                           .outputs = weight->sizes[0],
                           .groups = c->groups };
    if (x->sizes[spatial - 1] != g->outputs || g->outputs % c->groups != 0) {
        br_fail(
            BR_ERROR_SHAPE, c->op,
            "x %s has %" PRId64 " channels, weight %s with groups %" PRId64 " needs %" PRId64
            ": x must have as many channels as the size of weight's dimension 0, and groups must "
            "divide that size",
            br__shape(x), x->sizes[spatial - 1], br__shape(weight), c->groups, g->outputs);
        return false;
    }
    for (int d = 2 - c->dims; d < 2; d++) {
        g->out[d] = x->sizes[x->ndim - 2 + d];
        g->kernel[d] = weight->sizes[weight->ndim - 2 + d];
        g->stride[d] = c->stride[d];
        g->dilation[d] = c->dilation[d];
        g->before[d] = c->padding[d];
        g->size[d] = (g->out[d] - 1) * g->stride[d] - 2 * c->padding[d] +
                     g->dilation[d] * (g->kernel[d] - 1) + c->output_padding[d] + 1;
        if (g->out[d] == 0 || g->size[d] < 1) {
            br_fail(BR_ERROR_SHAPE, c->op,
                    "x %s and weight %s with stride %" PRId64 ", padding %" PRId64
                    ", dilation %" PRId64 " and output_padding %" PRId64
                    ": the output size would be %" PRId64,
                    br__shape(x), br__shape(weight), g->stride[d], c->padding[d], g->dilation[d],
                    c->output_padding[d], g->size[d]);
            return false;
        }
    }
    if (c->dims == 1)
        g->size[0] = g->out[0] = g->kernel[0] = g->stride[0] = g->dilation[0] = 1;
    return true;
}

static br_tensor *conv_transpose(const char *op, int dims, br_tensor *x, br_tensor *weight,
                                 br_tensor *bias, const br_conv_options *options)
{
    BR_OP(op);
    BR_AUTOCAST(conv_transpose(op, dims, LOWER(x), LOWER(weight), LOWER(bias), options))
    call c;
    br_convolution g;
    if (!set_options(&c, op, dims, true, options) || !check_operands(&c, x, weight, bias) ||
        !set_transposed_geometry(&c, &g, x, weight) || !check_bias(&c, bias, g.channels, weight))
        return NULL;
    br_scope *scope = br_scope_begin();
    br_tensor *seen = with_rows(&c, x, weight, &weight);
    br_rounding rounding = { .any = false };
    if (bias)
        rounding = BR_WIDEN(&seen, &weight, &bias);
    br_tensor *y = br_failed() ? NULL : br__convolve_back(&g, seen, weight);
    if (y && bias)
        y = br_add(y, br_reshape(bias, BR_SHAPE(g.channels, 1, 1)));
    y = y ? without_rows(&c, y, x) : NULL;
    return br__composed(scope, br__narrowed(rounding, y));
}

br_tensor *br_f_conv_transpose1d(br_tensor *x, br_tensor *weight, br_tensor *bias,
                                 const br_conv_options *options)
{
    return conv_transpose("conv_transpose1d", 1, x, weight, bias, options);
}

br_tensor *br_f_conv_transpose2d(br_tensor *x, br_tensor *weight, br_tensor *bias,
                                 const br_conv_options *options)
{
    return conv_transpose("conv_transpose2d", 2, x, weight, bias, options);
}
