/* ops/shape/pad.c - padding of the last dimensions: with a constant, or with x's own elements,
 * reflected, replicated or wrapped around.
 *
 * Forward copies x into the interior and then, one dimension after the other, fills each border
 * from its source along all earlier dimensions. The gradient runs in the opposite order and adds
 * the borders to their sources. The two are each other's adjoint. */
#include "ops/autocast.h"
#include "ops/pointwise/widen.h"
#include "ops/shape/view_internal.h"
#include "tensor/min_max.h"

#include <inttypes.h>
#include <string.h>

typedef struct padding {
    br_pad_mode mode;
    double value;
    int64_t left[BR_MAX_DIMS], right[BR_MAX_DIMS];
} padding;

/* ---- Borders --------------------------------------------------------------------------------- */

/* Returns the interior of y in dimensions `from` and later. */
static br_tensor inside(const br_tensor *y, const padding *p, int from)
{
    br_tensor w = br__window(y);
    for (int d = from; d < y->ndim; d++)
        br__window_slice(&w, d, p->left[d], y->sizes[d] - p->left[d] - p->right[d], 1);
    return w;
}

/* Finds a border of y along dimension d, and the elements that it is copied from. */
static void find_border(const br_tensor *y, const padding *p, int d, bool right, br_tensor *border,
                        br_tensor *source)
{
    int64_t left = p->left[d], end = y->sizes[d] - p->right[d];
    int64_t start = 0, step = 1, length = right ? p->right[d] : left;
    switch (p->mode) {
    case BR_PAD_REFLECT:
        start = right ? end - 2 : 2 * left;
        step = -1;
        break;
    case BR_PAD_REPLICATE:
        start = right ? end - 1 : left;
        step = 0;
        break;
    case BR_PAD_CIRCULAR:
        start = right ? left : end - left;
        break;
    case BR_PAD_CONSTANT:
        break;
    }
    *border = inside(y, p, d + 1);
    *source = *border;
    br__window_slice(border, d, right ? end : 0, length, 1);
    br__window_slice(source, d, start, length, step);
}

static void fill_border(const br_tensor *y, const padding *p, int d, bool right)
{
    br_tensor border, source;
    br_scalar_operand value;
    find_border(y, p, d, right, &border, &source);
    if (border.numel == 0)
        return;
    if (p->mode == BR_PAD_CONSTANT && br__element_operand("pad", p->value, y->dtype, &value))
        source = value.tensor;
    br__copy(&border, &source);
}

/* Adds a border to its source. In replicate mode all slices of the border have the same source, so
 * they are added one by one. */
static void collect_border(const br_tensor *dy, const padding *p, int d, bool right)
{
    const br_pointwise add = BR_POINTWISE(add);
    br_tensor border, source;
    find_border(dy, p, d, right, &border, &source);
    if (border.numel == 0)
        return;
    if (p->mode != BR_PAD_REPLICATE) {
        br__pointwise(add, 3, (const br_tensor *[]){ &source, &source, &border }, NULL);
        return;
    }
    for (int64_t i = 0; i < border.sizes[d]; i++) {
        br_tensor slice = br__window(&border), to = br__window(&source);
        br__window_slice(&slice, d, i, 1, 1);
        br__window_slice(&to, d, 0, 1, 1);
        br__pointwise(add, 3, (const br_tensor *[]){ &to, &to, &slice }, NULL);
    }
}

/* ---- pad and its adjoint --------------------------------------------------------------------- */

static br_tensor *padded(br_tensor *x, const padding *p);
static br_tensor *collected(br_tensor *dy, const padding *p);

static void pad_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    const padding *p = br_params(node);
    if (p->mode != BR_PAD_CONSTANT) {
        dx[0] = collected(dy, p);
        return;
    }
    for (int d = 0; dy && d < br_ndim(dy); d++)
        if (p->left[d] || p->right[d])
            dy = br_narrow(dy, d, p->left[d], br_size(dy, d) - p->left[d] - p->right[d]);
    dx[0] = dy;
}

static void collected_backward(br_node *node, br_tensor *ddx, br_tensor **ddy)
{
    ddy[0] = padded(ddx, br_params(node));
}

static const br_op pad_op = { .name = "pad", .backward = pad_backward };
static const br_op collected_op = { .name = "pad_backward", .backward = collected_backward };

/* Returns x with padding. No padding may be negative. */
static br_tensor *padded(br_tensor *x, const padding *p)
{
    int64_t sizes[BR_MAX_DIMS];
    for (int d = 0; d < br_ndim(x); d++)
        if (__builtin_add_overflow(x->sizes[d], p->left[d], &sizes[d]) ||
            __builtin_add_overflow(sizes[d], p->right[d], &sizes[d]))
            sizes[d] = INT64_MAX;
    br_tensor *y = x ? br__new_on("pad", x, x->ndim, sizes, x->dtype) : NULL;
    if (!y)
        return NULL;
    br_tensor center = inside(y, p, 0);
    br__copy(&center, x);
    for (int d = 0; d < y->ndim; d++) {
        fill_border(y, p, d, false);
        fill_border(y, p, d, true);
    }
    return br__recorded(&pad_op, y, x, p, sizeof *p);
}

static br_tensor *collected(br_tensor *dy, const padding *p)
{
    if (!dy)
        return NULL;
    br_scope *scope = br_no_grad_begin();
    br_tensor *wide = dy, *dx = NULL;
    BR_WIDEN(&wide);
    br_tensor *work = wide == dy ? br_clone(dy) : wide;
    if (work) {
        for (int d = dy->ndim - 1; d >= 0; d--) {
            collect_border(work, p, d, false);
            collect_border(work, p, d, true);
        }
        br_tensor center = inside(work, p, 0);
        dx = br_scope_return(scope, br__new_on("pad", dy, center.ndim, center.sizes, center.dtype));
        if (dx)
            br__copy(dx, &center);
    }
    br_scope_end(scope);
    return br__recorded(&collected_op, dx, dy, p, sizeof *p);
}

/* ---- The operation --------------------------------------------------------------------------- */

/* Returns how many elements a negative border removes; INT64_MAX if the number would overflow. */
static int64_t removed_by(int64_t border)
{
    return border >= 0 ? 0 : border == INT64_MIN ? INT64_MAX : -border;
}

/* Checks a dimension's size against the mode's limit, if there is a positive border. A circular
 * border wraps around the elements that are left after a negative border on the other side. */
static bool check_border(const br_tensor *x, int d, const padding *p)
{
    static const char *const rules[] = { "",
                                         "reflect padding must be less than the dimension's size",
                                         "replicate padding requires at least one element",
                                         "circular padding must be at most the dimension's size" };
    const int64_t left = p->left[d], right = p->right[d], larger = br__max(left, right);
    const br_pad_mode mode = p->mode;
    int64_t size = x->sizes[d];
    if (mode == BR_PAD_CIRCULAR)
        size -= removed_by(br__min(left, right));
    bool fits = larger <= 0 || mode == BR_PAD_CONSTANT ||
                (mode == BR_PAD_REFLECT     ? larger < size
                 : mode == BR_PAD_REPLICATE ? size > 0
                                            : larger <= size);
    if (!fits)
        br_fail(BR_ERROR_SHAPE, "pad", "padding %" PRId64 " at dimension %d of x %s: %s%s", larger,
                d, br__shape(x), rules[mode],
                size < x->sizes[d] ? " after the negative padding on the other side" : "");
    return fits;
}

static bool read_padding(const br_tensor *x, int n, const int64_t *pad, padding *p)
{
    if (n < 0 || n % 2 || n / 2 > x->ndim || (n > 0 && !pad)) {
        br_fail(BR_ERROR_ARGUMENT, "pad",
                "pad has %d numbers for x %s, must have two for each padded dimension", pad ? n : 0,
                br__shape(x));
        return false;
    }
    if (p->mode < BR_PAD_CONSTANT || p->mode > BR_PAD_CIRCULAR) {
        br_fail(BR_ERROR_ARGUMENT, "pad", "mode is %d, must be a br_pad_mode", (int)p->mode);
        return false;
    }
    for (int i = 0; i < n / 2; i++) {
        int d = x->ndim - 1 - i;
        p->left[d] = pad[2 * i];
        p->right[d] = pad[2 * i + 1];
        if (!check_border(x, d, p))
            return false;
    }
    return true;
}

/* Crops x where the padding is negative. */
static br_tensor *cropped(br_tensor *x, const padding *p)
{
    for (int d = 0; x && d < x->ndim; d++) {
        const int64_t first = removed_by(p->left[d]), last = removed_by(p->right[d]);
        if (first > x->sizes[d] || last > x->sizes[d] - first)
            return br_fail(BR_ERROR_SHAPE, "pad",
                           "padding %" PRId64 " and %" PRId64
                           " remove more elements than dimension %d of x %s has",
                           p->left[d], p->right[d], d, br__shape(x));
        if (first || last)
            x = br_narrow(x, d, first, x->sizes[d] - first - last);
    }
    return x;
}

static padding without_negative(const padding *p)
{
    padding positive = *p;
    for (int d = 0; d < BR_MAX_DIMS; d++) {
        positive.left[d] = br__max(p->left[d], 0);
        positive.right[d] = br__max(p->right[d], 0);
    }
    return positive;
}

br_tensor *br_pad(br_tensor *x, int n, const int64_t *pad, br_pad_mode mode, double value)
{
    BR_OP("pad");
    if (mode != BR_PAD_CONSTANT && mode != BR_PAD_CIRCULAR)
        BR_AUTOCAST(br_pad(RAISE(x), n, pad, mode, value))
    padding p = { .mode = mode, .value = value };
    br_scalar_operand scalar;
    if (!br__required("pad", "x", x) || !read_padding(x, n, pad, &p) ||
        (mode == BR_PAD_CONSTANT && !br__element_operand("pad", value, x->dtype, &scalar)))
        return NULL;
    padding positive = without_negative(&p);
    bool crops_first = mode == BR_PAD_CONSTANT || mode == BR_PAD_CIRCULAR;
    br_scope *scope = br_scope_begin();
    br_tensor *y =
        crops_first ? padded(cropped(x, &p), &positive) : cropped(padded(x, &positive), &p);
    br_scope_return(scope, y);
    br_scope_end(scope);
    return br_failed() ? NULL : y;
}
