/* ops/conv/conv3d.c - convolutions in three dimensions, computed in two.
 *
 * The slices of the depth that one output needs become channels: [n, c, d, h, w] becomes [n d', c
 * kd, h, w]. A transposed convolution computes [n d, o kd, h', w'], and adds the overlapping slices
 * up.
 */
#include "ops/autocast.h"
#include "ops/conv/convolution_internal.h"
#include "ops/pointwise/widen.h"
#include "ops/shape/view_internal.h"

#include <inttypes.h>

BR_DEFINE_DEFAULTS(br_conv3d)

/* The options, with a number for depth, rows and columns each. */
typedef struct call {
    const char *op;
    int64_t stride[3], padding[3], dilation[3], output_padding[3], groups;
    bool same;
} call;

static void set_triple(int64_t *to, br_triple from)
{
    to[0] = from.depth;
    to[1] = from.rows;
    to[2] = from.columns;
}

static bool set_options(call *c, const char *op, bool transposed, const br_conv3d_options *options)
{
    const br_conv3d_options *o = BR_OPTIONS_OF(op, br_conv3d, options);
    *c = (call){ .op = op, .groups = o->groups, .same = o->same };
    set_triple(c->stride, o->stride);
    set_triple(c->padding, o->padding);
    set_triple(c->dilation, o->dilation);
    set_triple(c->output_padding, o->output_padding);
    for (int d = 0; d < 3; d++) {
        const int64_t more = c->output_padding[d];
        if (!br__check_conv_number(op, "stride", c->stride[d], 1) ||
            !br__check_conv_number(op, "padding", c->padding[d], 0) ||
            !br__check_conv_number(op, "dilation", c->dilation[d], 1) ||
            !br__check_conv_number(op, "output_padding", more, 0))
            return false;
        if (c->same && (transposed || c->stride[d] != 1))
            br_fail(BR_ERROR_ARGUMENT, op,
                    "same is true, but it needs a stride of 1 and no transposed convolution");
        else if (more > 0 && (!transposed || (more >= c->stride[d] && more >= c->dilation[d])))
            br_fail(BR_ERROR_ARGUMENT, op,
                    "output_padding is %" PRId64 ", must be 0, or, in a transposed convolution, "
                    "less than the stride or the dilation",
                    more);
    }
    return br__check_conv_number(op, "groups", c->groups, 1) && !br_failed();
}

static bool check_operands(const call *c, const br_tensor *x, const br_tensor *weight,
                           const br_tensor *bias, bool transposed)
{
    const char *op = c->op;
    if (!br__floating(op, "x", x) || !br__compatible(op, "x", x, "weight", weight) ||
        (bias && !br__compatible(op, "x", x, "bias", bias)))
        return false;
    if (weight->ndim != 5 || (x->ndim != 5 && x->ndim != 4)) {
        br_fail(BR_ERROR_SHAPE, op,
                "x %s and weight %s: weight must have 5 dimensions, and x 5, or 4 without a batch",
                br__shape(x), br__shape(weight));
        return false;
    }
    const int64_t channels = x->sizes[x->ndim - 4], rows = weight->sizes[0];
    const int64_t inner = weight->sizes[1], kernel = weight->sizes[2];
    const int64_t outputs = transposed ? inner * c->groups : rows;
    if (kernel < 1 || weight->sizes[3] < 1 || weight->sizes[4] < 1)
        br_fail(BR_ERROR_SHAPE, op, "weight %s has a kernel of size 0, must be at least 1",
                br__shape(weight));
    else if (transposed ? channels != rows : channels != inner * c->groups)
        br_fail(BR_ERROR_SHAPE, op,
                "x %s has %" PRId64 " channels, but weight %s with %" PRId64
                " groups needs %" PRId64,
                br__shape(x), channels, br__shape(weight), c->groups,
                transposed ? rows : inner * c->groups);
    else if (rows % c->groups != 0)
        br_fail(BR_ERROR_SHAPE, op,
                "weight %s has %" PRId64 " rows, must be a multiple of groups %" PRId64,
                br__shape(weight), rows, c->groups);
    else if (bias && (bias->ndim != 1 || bias->sizes[0] != outputs))
        br_fail(BR_ERROR_SHAPE, op, "bias %s must have shape [%" PRId64 "] for weight %s",
                br__shape(bias), outputs, br__shape(weight));
    return !br_failed();
}

/* ---- Convolution ----------------------------------------------------------------------------- */

/* Pads x as the options say, so that the convolution needs no padding. */
static br_tensor *padded(const call *c, br_tensor *x, const br_tensor *weight)
{
    int64_t pad[6];
    bool any = false;
    for (int d = 0; d < 3; d++) {
        const int64_t reach = c->dilation[d] * (weight->sizes[2 + d] - 1);
        pad[2 * (2 - d)] = c->same ? reach / 2 : c->padding[d];
        pad[2 * (2 - d) + 1] = c->same ? reach - reach / 2 : c->padding[d];
        any |= pad[2 * (2 - d)] > 0 || pad[2 * (2 - d) + 1] > 0;
    }
    return any ? br_pad(x, 6, pad, BR_PAD_CONSTANT, 0) : x;
}

/* Checks that the kernel fits into x, which is padded. */
static bool kernel_fits(const call *c, const br_tensor *x, const br_tensor *weight)
{
    for (int d = 0; x && d < 3; d++) {
        const int64_t span = c->dilation[d] * (weight->sizes[2 + d] - 1) + 1;
        if (x->sizes[2 + d] < span) {
            br_fail(BR_ERROR_SHAPE, c->op,
                    "weight %s spans %" PRId64 " elements, but x has only %" PRId64
                    " with its padding",
                    br__shape(weight), span, x->sizes[2 + d]);
            return false;
        }
    }
    return !br_failed();
}

/* Returns x [n, c, d, h, w] as [n d', c kd, h, w], and the number d' of depths. */
static br_tensor *depth_as_channels(const call *c, br_tensor *x, int64_t kernel, int64_t *depths)
{
    const int64_t span = c->dilation[0] * (kernel - 1) + 1;
    br_tensor *y = br_unfold(x, 2, span, c->stride[0]); /* [n, c, d', h, w, span] */
    y = br_permute(br_slice(y, -1, 0, BR_ALL, c->dilation[0]), BR_DIMS(0, 2, 1, 5, 3, 4));
    if (!y)
        return NULL;
    *depths = y->sizes[1];
    return br_reshape(
        y, BR_SHAPE(y->sizes[0] * y->sizes[1], y->sizes[2] * kernel, y->sizes[4], y->sizes[5]));
}

br_tensor *br_f_conv3d(br_tensor *x, br_tensor *weight, br_tensor *bias,
                       const br_conv3d_options *options)
{
    static const char op[] = "conv3d";
    call c;
    BR_OP(op);
    BR_AUTOCAST(br_f_conv3d(LOWER(x), LOWER(weight), LOWER(bias), options))
    if (!set_options(&c, op, false, options) || !check_operands(&c, x, weight, bias, false))
        return NULL;
    const int64_t outputs = weight->sizes[0], kernel = weight->sizes[2];
    br_scope *scope = br_scope_begin();
    const bool batch = x->ndim == 5;
    const br_rounding rounding = BR_WIDEN(&x, &weight, &bias);
    if (br_failed())
        return br__composed(scope, NULL);
    br_tensor *y = padded(&c, batch ? x : br_unsqueeze(x, 0), weight);
    if (!kernel_fits(&c, y, weight))
        return br__composed(scope, NULL);
    const int64_t n = y->sizes[0];
    int64_t depths = 0;
    y = depth_as_channels(&c, y, kernel, &depths);
    br_tensor *flat = br_reshape(
        weight, BR_SHAPE(outputs, weight->sizes[1] * kernel, weight->sizes[3], weight->sizes[4]));
    y = br_f_conv2d(y, flat, bias,
                    BR_OPTIONS(br_conv, .stride = BR_PAIR(c.stride[1], c.stride[2]),
                               .dilation = BR_PAIR(c.dilation[1], c.dilation[2]),
                               .groups = c.groups));
    if (y)
        y = br_reshape(y, BR_SHAPE(n, depths, outputs, y->sizes[2], y->sizes[3]));
    y = br_contiguous(br_permute(y, BR_DIMS(0, 2, 1, 3, 4)));
    y = br__narrowed(rounding, y);
    return br__composed(scope, batch ? y : br_squeeze(y, 0));
}

/* ---- Transposed convolution ------------------------------------------------------------------ */

/* Adds up y [n d, o kd, h, w], the slices to which each depth of x contributes: [n, o, d', h, w].
 */
static br_tensor *add_depths(const call *c, br_tensor *y, int64_t n, int64_t depths, int64_t kernel)
{
    if (!y)
        return NULL;
    const int64_t span = c->dilation[0] * (kernel - 1) + 1;
    const int64_t length = (depths - 1) * c->stride[0] + span;
    y = br_reshape(y, BR_SHAPE(n, depths, y->sizes[1] / kernel, kernel, y->sizes[2], y->sizes[3]));
    y = br_permute(y, BR_DIMS(0, 2, 1, 4, 5, 3)); /* [n, o, d, h, w, kd] */
    y = br__spread(y, c->dilation[0], span);
    y = br__fold(y, 2, length, span, c->stride[0]);
    const int64_t before = -c->padding[0], after = c->output_padding[0] - c->padding[0];
    return before == 0 && after == 0
               ? y
               : br_pad(y, BR_DIMS(0, 0, 0, 0, before, after), BR_PAD_CONSTANT, 0);
}

br_tensor *br_f_conv_transpose3d(br_tensor *x, br_tensor *weight, br_tensor *bias,
                                 const br_conv3d_options *options)
{
    static const char op[] = "conv_transpose3d";
    call c;
    BR_OP(op);
    BR_AUTOCAST(br_f_conv_transpose3d(LOWER(x), LOWER(weight), LOWER(bias), options))
    if (!set_options(&c, op, true, options) || !check_operands(&c, x, weight, bias, true))
        return NULL;
    const int64_t kernel = weight->sizes[2], outputs = weight->sizes[1] * c.groups;
    for (int d = 0; d < 3; d++)
        if ((x->sizes[x->ndim - 3 + d] - 1) * c.stride[d] - 2 * c.padding[d] +
                c.dilation[d] * (weight->sizes[2 + d] - 1) + c.output_padding[d] + 1 <
            1)
            return br_fail(BR_ERROR_SHAPE, op, "x %s is too small for padding %" PRId64,
                           br__shape(x), c.padding[d]);
    br_scope *scope = br_scope_begin();
    const br_rounding rounding = BR_WIDEN(&x, &weight, &bias);
    const bool batch = br_ndim(x) == 5;
    br_tensor *y = batch ? x : br_unsqueeze(x, 0);
    const int64_t n = br_size(y, 0), depths = br_size(y, 2);
    y = br_permute(y, BR_DIMS(0, 2, 1, 3, 4));
    if (y)
        y = br_reshape(y, BR_SHAPE(n * depths, y->sizes[2], y->sizes[3], y->sizes[4]));
    br_tensor *flat = weight
                          ? br_reshape(weight, BR_SHAPE(weight->sizes[0], weight->sizes[1] * kernel,
                                                        weight->sizes[3], weight->sizes[4]))
                          : NULL;
    y = br_f_conv_transpose2d(
        y, flat, NULL,
        BR_OPTIONS(br_conv, .stride = BR_PAIR(c.stride[1], c.stride[2]),
                   .padding = BR_PAIR(c.padding[1], c.padding[2]),
                   .output_padding = BR_PAIR(c.output_padding[1], c.output_padding[2]),
                   .dilation = BR_PAIR(c.dilation[1], c.dilation[2]), .groups = c.groups));
    y = add_depths(&c, y, n, depths, kernel);
    if (bias)
        y = br_add(y, br_reshape(bias, BR_SHAPE(outputs, 1, 1, 1)));
    y = br__narrowed(rounding, y);
    return br__composed(scope, batch ? y : br_squeeze(y, 0));
}
