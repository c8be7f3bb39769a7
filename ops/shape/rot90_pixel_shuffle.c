/* ops/shape/rot90_pixel_shuffle.c - elements in another order (rot90, pixel_shuffle), parts of a
 * tensor that are replaced (select_scatter, slice_scatter), and diagflat. */
#include "ops/ops_internal.h"
#include "ops/shape/view_internal.h"

#include <inttypes.h>
#include <string.h>

br_tensor *br_rot90(br_tensor *x, int64_t k, int ndims, const int64_t *dims)
{
    BR_OP("rot90");
    unsigned bits;
    if (!br__required("rot90", "x", x))
        return NULL;
    if (ndims != 2 || x->ndim < 2)
        return br_fail(BR_ERROR_ARGUMENT, "rot90",
                       "%d dims for x %s: must be two, of at least two dimensions", ndims,
                       br__shape(x));
    if (!br__dims_to_bits("rot90", x, ndims, dims, &bits))
        return NULL;
    br_scope *scope = br_scope_begin();
    switch (((k % 4) + 4) % 4) {
    case 0:
        return br__composed(scope, br_clone(x));
    case 1:
        return br__composed(scope, br_transpose(br_flip(x, BR_DIMS(dims[1])), dims[0], dims[1]));
    case 2:
        return br__composed(scope, br_flip(x, ndims, dims));
    default:
        return br__composed(scope, br_transpose(br_flip(x, BR_DIMS(dims[0])), dims[0], dims[1]));
    }
}

br_tensor *br_diagflat(br_tensor *x, int64_t offset)
{
    BR_OP("diagflat");
    if (!br__required("diagflat", "x", x))
        return NULL;
    br_scope *scope = br_scope_begin();
    return br__composed(scope, br_diag_embed(br_flatten(x, 0, -1), offset, -2, -1));
}

/* ---- pixel_shuffle, pixel_unshuffle ---------------------------------------------------------- */

static bool check_pixels(const char *op, const br_tensor *x, const char *name, int64_t factor)
{
    if (!br__required(op, "x", x))
        return false;
    if (x->ndim < 3 || x->ndim > BR_MAX_DIMS - 2)
        br_fail(BR_ERROR_SHAPE, op, "x %s must have 3 .. %d dimensions", br__shape(x),
                BR_MAX_DIMS - 2);
    else if (factor < 1 || factor > 1 << 20)
        br_fail(BR_ERROR_ARGUMENT, op, "%s is %" PRId64 ", must be in 1 .. 2^20", name, factor);
    return !br_failed();
}

/* Views x with its last three dimensions replaced by five, in the given order of these, and returns
 * it with three sizes again. */
static br_tensor *rearranged(br_tensor *x, const int64_t *split, const int *order,
                             const int64_t *sizes)
{
    int64_t all[BR_MAX_DIMS], dims[BR_MAX_DIMS];
    const int before = br_ndim(x) - 3;
    memcpy(all, br_sizes(x), (size_t)(before + 3) * sizeof *all);
    memcpy(all + before, split, 5 * sizeof *all);
    for (int i = 0; i < before + 5; i++)
        dims[i] = i < before ? i : before + order[i - before];
    br_tensor *y = br_permute(br_reshape(x, before + 5, all), before + 5, dims);
    memcpy(all + before, sizes, 3 * sizeof *all);
    return br_reshape(y, before + 3, all);
}

br_tensor *br_pixel_shuffle(br_tensor *x, int64_t upscale_factor)
{
    static const char op[] = "pixel_shuffle";
    BR_OP(op);
    if (!check_pixels(op, x, "upscale_factor", upscale_factor))
        return NULL;
    const int64_t r = upscale_factor, *last = x->sizes + x->ndim - 3;
    if (last[0] % (r * r) != 0)
        return br_fail(BR_ERROR_SHAPE, op,
                       "x %s has %" PRId64 " channels, must be a multiple of the square of "
                       "upscale_factor %" PRId64,
                       br__shape(x), last[0], r);
    const int64_t c = last[0] / (r * r), h = last[1], w = last[2];
    br_scope *scope = br_scope_begin();
    return br__composed(scope, rearranged(x, (int64_t[]){ c, r, r, h, w }, (int[]){ 0, 3, 1, 4, 2 },
                                          (int64_t[]){ c, h * r, w * r }));
}

br_tensor *br_pixel_unshuffle(br_tensor *x, int64_t downscale_factor)
{
    static const char op[] = "pixel_unshuffle";
    BR_OP(op);
    if (!check_pixels(op, x, "downscale_factor", downscale_factor))
        return NULL;
    const int64_t r = downscale_factor, *last = x->sizes + x->ndim - 3;
    if (last[1] % r != 0 || last[2] % r != 0)
        return br_fail(BR_ERROR_SHAPE, op,
                       "x %s: the last two sizes must be multiples of downscale_factor %" PRId64,
                       br__shape(x), r);
    const int64_t c = last[0], h = last[1] / r, w = last[2] / r;
    br_scope *scope = br_scope_begin();
    return br__composed(scope, rearranged(x, (int64_t[]){ c, h, r, w, r }, (int[]){ 0, 2, 4, 1, 3 },
                                          (int64_t[]){ c * r * r, h, w }));
}

/* ---- select_scatter, slice_scatter ----------------------------------------------------------- */

/* The part of x that is replaced: select_scatter has no step. */
typedef struct part {
    int64_t dim, start, end, step;
} part;

static br_tensor *part_of(br_tensor *x, const part *p)
{
    return p->step == 0 ? br_select(x, p->dim, p->start)
                        : br_slice(x, p->dim, p->start, p->end, p->step);
}

static void part_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    const part *p = br_params(node);
    if (br_needs_input_grad(node, 1))
        dx[1] = part_of(dy, p);
    if (br_needs_input_grad(node, 0)) {
        br_tensor *hole = part_of(dy, p);
        br_tensor *zeros = hole ? br_new_zeros(dy, hole->ndim, hole->sizes, hole->dtype) : NULL;
        dx[0] = p->step == 0 ? br_select_scatter(dy, zeros, p->dim, p->start)
                             : br_slice_scatter(dy, zeros, p->dim, p->start, p->end, p->step);
    }
}

static const br_op select_scatter_op = { "select_scatter", part_backward, false };
static const br_op slice_scatter_op = { "slice_scatter", part_backward, false };

static br_tensor *scattered(const br_op *op, br_tensor *x, br_tensor *src, const part *p)
{
    br_scope *scope = br_no_grad_begin();
    br_tensor *place = part_of(x, p), *y = NULL;
    if (place && !br__same_shape(place, src))
        br_fail(BR_ERROR_SHAPE, op->name, "src %s must have the shape %s of the part of x %s",
                br__shape(src), br__shape(place), br__shape(x));
    if (!br_failed()) {
        y = br_clone(x);
        br_copy_(part_of(y, p), src);
    }
    y = br__composed(scope, y);
    br_record(op, y, BR_INPUTS(x, src), p, sizeof *p);
    return br_failed() ? NULL : y;
}

br_tensor *br_select_scatter(br_tensor *x, br_tensor *src, int64_t dim, int64_t index)
{
    const br_op *op = &select_scatter_op;
    BR_OP(op->name);
    if (!br__compatible(op->name, "x", x, "src", src) || !br__wrap_dim_nonscalar(op->name, x, &dim))
        return NULL;
    const int64_t size = x->sizes[dim];
    if (index < -size || index >= size)
        return br_fail(BR_ERROR_INDEX, op->name,
                       "index %" PRId64 " is out of range for dimension %" PRId64 " of x %s", index,
                       dim, br__shape(x));
    return scattered(op, x, src, &(part){ .dim = dim, .start = index });
}

br_tensor *br_slice_scatter(br_tensor *x, br_tensor *src, int64_t dim, int64_t start, int64_t end,
                            int64_t step)
{
    const br_op *op = &slice_scatter_op;
    BR_OP(op->name);
    if (!br__compatible(op->name, "x", x, "src", src) || !br__wrap_dim_nonscalar(op->name, x, &dim))
        return NULL;
    if (step < 1)
        return br_fail(BR_ERROR_ARGUMENT, op->name, "step is %" PRId64 ", must be at least 1",
                       step);
    return scattered(op, x, src, &(part){ dim, start, end, step });
}
