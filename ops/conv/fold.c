/* ops/conv/fold.c - windows as columns (F.unfold), and their sum (F.fold), which is the adjoint: a
 * view of the image that has the windows as dimensions, and its gradient. */
#include "ops/conv/convolution_internal.h"
#include "ops/shape/view_internal.h"

#include <inttypes.h>

BR_DEFINE_DEFAULTS(br_fold)

/* The windows along the rows and the columns. */
typedef struct windows {
    int64_t kernel[2], dilation[2], padding[2], stride[2];
    int64_t size[2], span[2], count[2]; /* with the padding; of a window; number of windows */
} windows;

static bool set_windows(const char *op, const br_tensor *x, const int64_t *size,
                        const br_fold_options *o, windows *w)
{
    *w = (windows){ { o->kernel_size.rows, o->kernel_size.columns },
                    { o->dilation.rows, o->dilation.columns },
                    { o->padding.rows, o->padding.columns },
                    { o->stride.rows, o->stride.columns },
                    { 0 },
                    { 0 },
                    { 0 } };
    for (int d = 0; d < 2; d++) {
        if (!br__check_conv_number(op, "kernel_size", w->kernel[d], 1) ||
            !br__check_conv_number(op, "dilation", w->dilation[d], 1) ||
            !br__check_conv_number(op, "padding", w->padding[d], 0) ||
            !br__check_conv_number(op, "stride", w->stride[d], 1) ||
            !br__check_conv_number(op, "the size of the image", size[d], 0))
            return false;
        w->size[d] = size[d] + 2 * w->padding[d];
        w->span[d] = w->dilation[d] * (w->kernel[d] - 1) + 1;
        w->count[d] = w->size[d] < w->span[d] ? 0 : (w->size[d] - w->span[d]) / w->stride[d] + 1;
        if (w->count[d] < 1) {
            br_fail(BR_ERROR_SHAPE, op,
                    "x %s: a window of %" PRId64 " elements does not fit into %" PRId64,
                    br__shape(x), w->span[d], w->size[d]);
            return false;
        }
    }
    return true;
}

enum { KERNEL, STRIDE = KERNEL + 2, DILATION = STRIDE + 2 }; /* arguments of the view */

/* Changes an image [n, c, h, w] into its windows [n, c, rows, columns, kernel rows, kernel
 * columns]. */
static void narrow_windows(br_tensor *w, const int64_t *args)
{
    for (int d = 0; d < 2; d++) {
        const int64_t kernel = args[KERNEL + d], stride = args[STRIDE + d];
        const int64_t dilation = args[DILATION + d], step = w->strides[2 + d];
        const int64_t count = (w->sizes[2 + d] - dilation * (kernel - 1) - 1) / stride + 1;
        br__window_slice(w, 2 + d, 0, count, stride);
        w->sizes[4 + d] = kernel;
        w->strides[4 + d] = step * dilation;
    }
    w->ndim = 6;
    w->numel *= args[KERNEL] * args[KERNEL + 1];
}

static const br_window_kind windows_kind = { { "unfold", br__window_backward, false },
                                             narrow_windows };

static br_window view_of(const windows *w)
{
    const bool overlap = w->span[0] > w->stride[0] || w->span[1] > w->stride[1];
    return (br_window){ .kind = &windows_kind,
                        .args = { w->kernel[0], w->kernel[1], w->stride[0], w->stride[1],
                                  w->dilation[0], w->dilation[1] },
                        .distinct = overlap,
                        .outer = 1 };
}

br_tensor *br_f_unfold(br_tensor *x, const br_fold_options *options)
{
    static const char op[] = "unfold";
    const br_fold_options *o = BR_OPTIONS_OF(op, br_fold, options);
    BR_OP(op);
    windows w;
    if (!br__required(op, "x", x))
        return NULL;
    if (x->ndim != 3 && x->ndim != 4)
        return br_fail(BR_ERROR_SHAPE, op, "x %s must have 4 dimensions, or 3 without the batch",
                       br__shape(x));
    const int first = x->ndim - 3;
    const int64_t c = x->sizes[first];
    if (!set_windows(op, x, x->sizes + first + 1, o, &w))
        return NULL;
    br_scope *scope = br_scope_begin();
    const bool batch = x->ndim == 4;
    br_tensor *y = batch ? x : br_unsqueeze(x, 0);
    if (w.padding[0] > 0 || w.padding[1] > 0)
        y = br_pad(y, BR_DIMS(w.padding[1], w.padding[1], w.padding[0], w.padding[0]),
                   BR_PAD_CONSTANT, 0);
    const br_window view = view_of(&w);
    y = br_permute(br__view_window(y, &view), BR_DIMS(0, 1, 4, 5, 2, 3));
    const int64_t n = y ? y->sizes[0] : 0, length = w.count[0] * w.count[1];
    y = br_reshape(y, BR_SHAPE(n, c * w.kernel[0] * w.kernel[1], length));
    return br__composed(scope, batch ? y : br_squeeze(y, 0));
}

br_tensor *br_f_fold(br_tensor *x, int64_t height, int64_t width, const br_fold_options *options)
{
    static const char op[] = "fold";
    const br_fold_options *o = BR_OPTIONS_OF(op, br_fold, options);
    BR_OP(op);
    windows w;
    if (!br__required(op, "x", x))
        return NULL;
    if (x->ndim != 2 && x->ndim != 3)
        return br_fail(BR_ERROR_SHAPE, op, "x %s must have 3 dimensions, or 2 without the batch",
                       br__shape(x));
    if (!set_windows(op, x, (int64_t[]){ height, width }, o, &w))
        return NULL;
    const bool batch = x->ndim == 3;
    const int64_t n = batch ? x->sizes[0] : 1, window = w.kernel[0] * w.kernel[1];
    const int64_t columns = x->sizes[x->ndim - 2], length = x->sizes[x->ndim - 1];
    if (columns % window != 0 || length != w.count[0] * w.count[1])
        return br_fail(BR_ERROR_SHAPE, op,
                       "x %s must have a multiple of %" PRId64 " rows and %" PRId64 " columns, "
                       "the number of windows",
                       br__shape(x), window, w.count[0] * w.count[1]);
    br_scope *scope = br_scope_begin();
    br_tensor *y = br_reshape(
        x, BR_SHAPE(n, columns / window, w.kernel[0], w.kernel[1], w.count[0], w.count[1]));
    y = br_permute(y, BR_DIMS(0, 1, 4, 5, 2, 3)); /* [n, c, h, w, kh, kw] */
    const br_window view = view_of(&w);
    y = br__fill_window(y, 4, (int64_t[]){ n, columns / window, w.size[0], w.size[1] }, &view);
    if (w.padding[0] > 0 || w.padding[1] > 0)
        y = br_pad(y, BR_DIMS(-w.padding[1], -w.padding[1], -w.padding[0], -w.padding[0]),
                   BR_PAD_CONSTANT, 0);
    return br__composed(scope, batch ? y : br_squeeze(y, 0));
}
