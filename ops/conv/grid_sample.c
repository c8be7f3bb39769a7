/* ops/conv/grid_sample.c - an image or a volume at given positions, and grids of affine maps.
 *
 * Each dimension contributes some elements with weights: one for nearest, two for bilinear, four
 * for bicubic. A result is the sum over all combinations, each of which is a gather. */
#include "ops/pointwise/widen.h"

#include <math.h>

enum { MOST_DIMS = 3, MOST_TAPS = 4 };

/* The elements along one dimension: their indices, i64, and weights, NULL for 1. */
typedef struct taps {
    int n;
    br_tensor *index[MOST_TAPS], *weight[MOST_TAPS];
} taps;

typedef struct settings {
    br_grid_mode mode;
    br_grid_padding padding;
    bool align_corners;
} settings;

/* ---- Coordinates ----------------------------------------------------------------------------- */

/* Returns positions of elements for numbers from -1 to 1. */
static br_tensor *unnormalized(br_tensor *g, int64_t size, bool align_corners)
{
    br_tensor *from_0 = br_add_scalar(g, 1);
    if (align_corners)
        return br_mul_scalar(from_0, 0.5 * (double)(size - 1));
    return br_mul_scalar(br_sub_scalar(br_mul_scalar(from_0, (double)size), 1), 0.5);
}

/* Reflects positions at low and high until they are between. */
static br_tensor *reflected(br_tensor *x, double low, double high)
{
    const double span = high - low;
    if (span <= 0)
        return br_mul_scalar(x, 0);
    br_tensor *distance = br_abs(br_sub_scalar(x, low));
    br_scope *scope = br_no_grad_begin();
    br_tensor *flips = br_floor(br_div_scalar(distance, span));
    br_tensor *odd =
        br_ne_scalar(br_sub(flips, br_mul_scalar(br_floor(br_mul_scalar(flips, 0.5)), 2)), 0);
    br_tensor *whole = br_mul_scalar(flips, span);
    br_scope_return(scope, odd);
    br_scope_return(scope, whole);
    br_scope_end(scope);
    br_tensor *rest = br_sub(distance, whole);
    return br_add_scalar(br_where(odd, br_rsub_scalar(rest, span), rest), low);
}

/* Moves positions into the dimension as the padding mode says. */
static br_tensor *padded(br_tensor *x, int64_t size, const settings *s)
{
    const double last = (double)(size - 1);
    if (s->padding == BR_GRID_ZEROS)
        return x;
    if (s->padding == BR_GRID_REFLECTION)
        x = s->align_corners ? reflected(x, 0, last) : reflected(x, -0.5, last + 0.5);
    return br_clamp(x, 0, last);
}

/* Adds the elements at whole positions to the taps; a weight becomes 0 outside of the dimension. */
static void add_tap(taps *t, br_tensor *position, br_tensor *weight, int64_t size)
{
    br_scope *scope = br_no_grad_begin();
    br_tensor *outside = br_logical_not(
        br_logical_and(br_ge_scalar(position, 0), br_le_scalar(position, (double)(size - 1))));
    br_tensor *near = br_clamp(position, -1, (double)size);
    br_tensor *index = br_clamp(br_to(near, BR_I64), 0, (double)(size - 1));
    br_tensor *one = weight || !position ? NULL : br_ones_like(position);
    br_scope_return(scope, outside);
    br_scope_return(scope, index);
    if (one)
        br_scope_return(scope, one);
    br_scope_end(scope);
    t->index[t->n] = index;
    t->weight[t->n++] = br_masked_fill(weight ? weight : one, outside, 0);
}

/* Cubic convolution (Keys, 1981) with the slope -0.75, at distances in 0 .. 1 and in 1 .. 2. */
static br_tensor *cubic_near(br_tensor *x)
{
    br_tensor *inner = br_sub_scalar(br_mul_scalar(x, 1.25), 2.25);
    return br_add_scalar(br_mul(br_mul(inner, x), x), 1);
}

static br_tensor *cubic_far(br_tensor *x)
{
    br_tensor *inner = br_add_scalar(br_mul_scalar(x, -0.75), 3.75);
    inner = br_sub_scalar(br_mul(inner, x), 6);
    return br_add_scalar(br_mul(inner, x), 3);
}

static br_tensor *without_grad(br_tensor *(*function)(br_tensor *), br_tensor *x)
{
    br_scope *scope = br_no_grad_begin();
    return br__composed(scope, function(x));
}

/* Finds the elements along a dimension for the numbers g of the grid. */
static taps taps_of(br_tensor *g, int64_t size, const settings *s)
{
    taps t = { .n = 0 };
    br_tensor *x = unnormalized(g, size, s->align_corners);
    if (s->mode != BR_GRID_BICUBIC)
        x = padded(x, size, s);
    if (s->mode == BR_GRID_NEAREST) {
        add_tap(&t, without_grad(br_round, x), NULL, size);
        return t;
    }
    br_tensor *first = without_grad(br_floor, x), *part = br_sub(x, first);
    if (s->mode == BR_GRID_BILINEAR) {
        add_tap(&t, first, br_rsub_scalar(part, 1), size);
        add_tap(&t, br_add_scalar(first, 1), part, size);
        return t;
    }
    br_tensor *rest = br_rsub_scalar(part, 1);
    br_tensor *const weights[] = { cubic_far(br_add_scalar(part, 1)), cubic_near(part),
                                   cubic_near(rest), cubic_far(br_add_scalar(rest, 1)) };
    for (int i = 0; i < MOST_TAPS; i++) {
        br_scope *scope = br_no_grad_begin();
        br_tensor *at = br__composed(scope, padded(br_add_scalar(first, i - 1), size, s));
        add_tap(&t, at, weights[i], size);
    }
    return t;
}

/* ---- Sums ------------------------------------------------------------------------------------ */

/* Returns the elements [n, c, p] of x [n, c, elements] for one combination, times its weight. */
static br_tensor *term(br_tensor *x, const taps *all, const int *choice, int dims,
                       const int64_t *sizes)
{
    br_tensor *index = NULL, *weight = NULL;
    for (int d = 0; d < dims; d++) {
        br_tensor *i = all[d].index[choice[d]], *w = all[d].weight[choice[d]];
        index = index ? br_add(br_mul_scalar(index, (double)sizes[d]), i) : i;
        weight = weight ? br_mul(weight, w) : w;
    }
    if (br_failed())
        return NULL;
    const int64_t n = br_size(x, 0), c = br_size(x, 1), p = br_size(index, 1);
    br_tensor *everywhere = br_expand(br_unsqueeze(index, 1), BR_SHAPE(n, c, p));
    br_tensor *y = br_gather(x, 2, everywhere);
    weight = br_unsqueeze(weight, 1);
    const bool recorded = y && weight && (br_requires_grad(y) || br_requires_grad(weight));
    return recorded ? br_mul(y, weight) : br_mul_(y, weight);
}

static br_tensor *sum_of_terms(br_tensor *x, const taps *all, int dims, const int64_t *sizes)
{
    int choice[MOST_DIMS] = { 0 };
    br_tensor *sum = NULL;
    for (bool more = true; more && !br_failed();) {
        br_scope *scope = br_scope_begin(); /* the terms are large */
        br_tensor *next = term(x, all, choice, dims, sizes);
        if (sum && next && !br_requires_grad(sum) && !br_requires_grad(next))
            br_add_(sum, next);
        else
            sum = br_scope_return(scope, sum ? br_add(sum, next) : next);
        br_scope_end(scope);
        int d = dims - 1;
        while (d >= 0 && ++choice[d] == all[d].n)
            choice[d--] = 0;
        more = d >= 0;
    }
    return br_failed() ? NULL : sum;
}

static bool check_grid(const char *op, const br_tensor *x, const br_tensor *grid, const settings *s)
{
    if (!br__floating(op, "x", x) || !br__compatible(op, "x", x, "grid", grid))
        return false;
    const int dims = x->ndim - 2;
    if ((x->ndim != 4 && x->ndim != 5) || grid->ndim != x->ndim ||
        grid->sizes[grid->ndim - 1] != dims || grid->sizes[0] != x->sizes[0])
        br_fail(BR_ERROR_SHAPE, op,
                "x %s and grid %s: must be [n, c, h, w] and [n, .., .., 2], or [n, c, d, h, w] and "
                "[n, .., .., .., 3]",
                br__shape(x), br__shape(grid));
    else if ((int)s->mode < 0 || s->mode > BR_GRID_BICUBIC)
        br_fail(BR_ERROR_ARGUMENT, op, "mode is %d, must be a br_grid_mode", (int)s->mode);
    else if ((int)s->padding < 0 || s->padding > BR_GRID_REFLECTION)
        br_fail(BR_ERROR_ARGUMENT, op, "padding_mode is %d, must be a br_grid_padding",
                (int)s->padding);
    for (int d = 2; d < x->ndim && !br_failed(); d++)
        if (x->sizes[d] < 1)
            br_fail(BR_ERROR_SHAPE, op, "x %s has no elements along dimension %d", br__shape(x), d);
    return !br_failed();
}

br_tensor *br_grid_sample(br_tensor *x, br_tensor *grid, br_grid_mode mode,
                          br_grid_padding padding_mode, bool align_corners)
{
    static const char op[] = "grid_sample";
    const settings s = { mode, padding_mode, align_corners };
    BR_OP(op);
    if (!check_grid(op, x, grid, &s))
        return NULL;
    const int dims = x->ndim - 2;
    int64_t sizes[BR_MAX_DIMS], points = 1, elements = 1;
    for (int d = 0; d < x->ndim; d++) {
        sizes[d] = d < 2 ? x->sizes[d] : grid->sizes[d - 1];
        points *= d < 2 ? 1 : grid->sizes[d - 1];
        elements *= d < 2 ? 1 : x->sizes[d];
    }
    const int64_t *own = x->sizes + 2;
    br_scope *scope = br_scope_begin();
    const br_rounding rounding = BR_WIDEN(&x, &grid);
    br_tensor *flat = br_reshape(grid, BR_SHAPE(sizes[0], points, dims));
    taps all[MOST_DIMS];
    for (int d = 0; d < dims; d++) /* the last number of the grid is for the first dimension */
        all[d] = taps_of(br_select(flat, 2, dims - 1 - d), own[d], &s);
    br_tensor *y =
        sum_of_terms(br_reshape(x, BR_SHAPE(sizes[0], sizes[1], elements)), all, dims, own);
    return br__composed(scope, br__narrowed(rounding, br_reshape(y, dims + 2, sizes)));
}

/* ---- affine_grid ----------------------------------------------------------------------------- */

/* Returns the centers of `size` elements, or with align_corners the corners, from -1 to 1. */
static br_tensor *centers(const br_tensor *theta, int64_t size, bool align_corners)
{
    if (size <= 1)
        return br_new_zeros(theta, BR_SHAPE(size), br_dtype_of(theta));
    br_tensor *x = br_linspace(-1, 1, size, br_dtype_of(theta));
    x = br_to_device(x, br_device_of(theta));
    return align_corners ? x : br_mul_scalar(x, (double)(size - 1) / (double)size);
}

br_tensor *br_affine_grid(br_tensor *theta, int ndim, const int64_t *sizes, bool align_corners)
{
    static const char op[] = "affine_grid";
    BR_OP(op);
    const int dims = ndim - 2;
    if (!br__floating(op, "theta", theta))
        return NULL;
    if ((dims != 2 && dims != 3) || !sizes)
        return br_fail(BR_ERROR_ARGUMENT, op, "%d sizes, must be [n, c, h, w] or [n, c, d, h, w]",
                       sizes ? ndim : 0);
    if (theta->ndim != 3 || theta->sizes[0] != sizes[0] || theta->sizes[1] != dims ||
        theta->sizes[2] != dims + 1)
        return br_fail(BR_ERROR_SHAPE, op, "theta %s must be [n, %d, %d] for the sizes %s",
                       br__shape(theta), dims, dims + 1, br__shape_of(ndim, sizes));
    for (int d = 1; d < ndim; d++)
        if (sizes[d] < 1)
            return br_fail(BR_ERROR_SHAPE, op, "sizes %s must be at least 1",
                           br__shape_of(ndim, sizes));
    br_scope *scope = br_scope_begin();
    const br_rounding rounding = BR_WIDEN(&theta);
    br_tensor *axes[MOST_DIMS], *grids[MOST_DIMS], *parts[MOST_DIMS + 1];
    for (int d = 0; d < dims; d++)
        axes[d] = centers(theta, sizes[2 + d], align_corners);
    int64_t all[BR_MAX_DIMS] = { sizes[0] };
    if (br_failed() || br_meshgrid(dims, axes, BR_INDEXING_IJ, grids) < 0)
        return br__composed(scope, NULL);
    for (int d = 0; d < dims; d++) {
        parts[d] = grids[dims - 1 - d];
        all[d + 1] = sizes[2 + d];
    }
    all[dims + 1] = dims;
    parts[dims] = br_ones_like(parts[0]);
    br_tensor *base = br_reshape(br_stack(dims + 1, parts, -1), BR_SHAPE(1, -1, dims + 1));
    br_tensor *y = br_matmul(base, br_transpose(theta, 1, 2));
    return br__composed(scope, br__narrowed(rounding, br_reshape(y, dims + 2, all)));
}
