/* ops/pad.c - borders around the last dimensions: of one value, or of the elements inside
 * reflected, repeated or taken from the other end.
 *
 * What is inside is copied, then, dimension after dimension, each border is copied from where it
 * comes from, along all of the dimensions before. The gradient goes the other way round and adds
 * the borders to where they came from; each is the other's adjoint. */
#include "ops/ops_internal.h"
#include "ops/view_internal.h"

#include <inttypes.h>
#include <string.h>

typedef struct padding {
    br_pad_mode mode;
    double value;
    int64_t left[BR_MAX_DIMS], right[BR_MAX_DIMS];
} padding;

/* ---- Borders --------------------------------------------------------------------------------- */

/* The inside of y in dimensions `from` and later. */
static br_tensor inside(const br_tensor *y, const padding *p, int from)
{
    br_tensor w = br__window(y);
    for (int d = from; d < y->ndim; d++)
        br__window_slice(&w, d, p->left[d], y->sizes[d] - p->left[d] - p->right[d], 1);
    return w;
}

/* The border of y along dimension d, and the elements it comes from. */
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
    if (p->mode == BR_PAD_CONSTANT && br__scalar_operand("pad", p->value, y->dtype, &value))
        source = value.tensor;
    br__copy(&border, &source);
}

/* Adds a border to its source, slice by slice where these are all the same. */
static void collect_border(const br_tensor *dy, const padding *p, int d, bool right)
{
    br_tensor border, source;
    br_loop add = br__kernels_of(dy->dtype)->add;
    find_border(dy, p, d, right, &border, &source);
    if (border.numel == 0)
        return;
    if (p->mode != BR_PAD_REPLICATE) {
        br__for_each(3, (const br_tensor *[]){ &source, &source, &border }, add, NULL);
        return;
    }
    for (int64_t i = 0; i < border.sizes[d]; i++) {
        br_tensor slice = br__window(&border), to = br__window(&source);
        br__window_slice(&slice, d, i, 1, 1);
        br__window_slice(&to, d, 0, 1, 1);
        br__for_each(3, (const br_tensor *[]){ &to, &to, &slice }, add, NULL);
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

/* x with borders, none of which is negative. */
static br_tensor *padded(br_tensor *x, const padding *p)
{
    int64_t sizes[BR_MAX_DIMS];
    for (int d = 0; d < br_ndim(x); d++)
        if (__builtin_add_overflow(x->sizes[d], p->left[d], &sizes[d]) ||
            __builtin_add_overflow(sizes[d], p->right[d], &sizes[d]))
            sizes[d] = INT64_MAX;
    br_tensor *y = x ? br__new("pad", x->ndim, sizes, x->dtype) : NULL;
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
    br_tensor *work = br_clone(dy), *dx = NULL;
    if (work) {
        for (int d = dy->ndim - 1; d >= 0; d--) {
            collect_border(work, p, d, false);
            collect_border(work, p, d, true);
        }
        br_tensor center = inside(work, p, 0);
        dx = br_scope_return(scope, br__new("pad", center.ndim, center.sizes, center.dtype));
        if (dx)
            br__copy(dx, &center);
    }
    br_scope_end(scope);
    return br__recorded(&collected_op, dx, dy, p, sizeof *p);
}

/* ---- The operation --------------------------------------------------------------------------- */

/* What each mode asks of a dimension's size; nothing is asked where there is no border. */
static bool check_border(const br_tensor *x, int d, int64_t most, br_pad_mode mode)
{
    static const char *const rules[] = { "", "less than", "any, of at least one element, for",
                                         "at most" };
    int64_t size = x->sizes[d];
    bool fits = most <= 0 || mode == BR_PAD_CONSTANT ||
                (mode == BR_PAD_REFLECT     ? most < size
                 : mode == BR_PAD_REPLICATE ? size > 0
                                            : most <= size);
    if (!fits)
        br__fail(BR_ERROR_SHAPE, "pad",
                 "a border of %" PRId64 " at dimension %d of x %s: must be %s its size", most, d,
                 br__shape(x), rules[mode]);
    return fits;
}

static bool read_padding(const br_tensor *x, int n, const int64_t *pad, padding *p)
{
    if (n < 0 || n % 2 || n / 2 > x->ndim || (n > 0 && !pad)) {
        br__fail(BR_ERROR_ARGUMENT, "pad",
                 "%d numbers for x %s, must be two for each of its last dimensions", pad ? n : 0,
                 br__shape(x));
        return false;
    }
    if (p->mode < BR_PAD_CONSTANT || p->mode > BR_PAD_CIRCULAR) {
        br__fail(BR_ERROR_ARGUMENT, "pad", "mode %d, must be a br_pad_mode", (int)p->mode);
        return false;
    }
    for (int i = 0; i < n / 2; i++) {
        int d = x->ndim - 1 - i;
        p->left[d] = pad[2 * i];
        p->right[d] = pad[2 * i + 1];
        int64_t most = p->left[d] > p->right[d] ? p->left[d] : p->right[d];
        if (!check_border(x, d, most, p->mode))
            return false;
    }
    return true;
}

/* Takes away what negative borders cut off; the others stay in *p. */
static br_tensor *cropped(br_tensor *x, const padding *p)
{
    for (int d = 0; x && d < x->ndim; d++) {
        int64_t first = p->left[d] < 0 ? -p->left[d] : 0, last = p->right[d] < 0 ? -p->right[d] : 0;
        if (first > x->sizes[d] || last > x->sizes[d] - first)
            return br__fail(BR_ERROR_SHAPE, "pad",
                            "%" PRId64 " and %" PRId64 " take away more than there is of dimension "
                            "%d of x %s",
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
        positive.left[d] = p->left[d] > 0 ? p->left[d] : 0;
        positive.right[d] = p->right[d] > 0 ? p->right[d] : 0;
    }
    return positive;
}

br_tensor *br_pad(br_tensor *x, int n, const int64_t *pad, br_pad_mode mode, double value)
{
    BR_OP("pad");
    padding p = { .mode = mode, .value = value };
    br_scalar_operand scalar;
    if (!br__required("pad", "x", x) || !read_padding(x, n, pad, &p) ||
        (mode == BR_PAD_CONSTANT && !br__scalar_operand("pad", value, x->dtype, &scalar)))
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
