/* ops/shape/as_strided.c - views that are described by sizes, strides and the first element in the
 * storage, and tensors with given strides or a new size.
 *
 * The gradient of a view of the storage is first a gradient of the storage: the sum over all places
 * that show an element. x's part of it is the gradient of x. If x itself shows an element several
 * times, each of its places gets an equal share, as in PyTorch. */
#include "autograd/part.h"
#include "ops/ops_internal.h"
#include "ops/shape/view_internal.h"
#include "tensor/min_max.h"

#include <inttypes.h>
#include <string.h>

/* The view and x as parts of the elements between the first and the last one of both. */
typedef struct settings {
    br_part view, x;
    bool x_overlaps;
} settings;

/* Returns how often each place of x shows an element. */
static br_tensor *counts_of(const br_part *x, const br_tensor *like)
{
    br_scope *scope = br_no_grad_begin();
    br_tensor *ones = br_new_full(like, x->ndim, x->sizes, 1, like->dtype);
    br_tensor *counts = br__part(br__fill_part(ones, x), x);
    return br__composed(scope, counts);
}

static void as_strided_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    const settings *s = br_params(node);
    br_tensor *grad = br__part(br__fill_part(dy, &s->view), &s->x);
    dx[0] = s->x_overlaps && grad ? br_div(grad, counts_of(&s->x, dy)) : grad;
}

static const br_op as_strided_op = { .name = "as_strided", .backward = as_strided_backward };

/* Returns the distance of the last element from the first one. */
static int64_t reach_of(int ndim, const int64_t *sizes, const int64_t *strides)
{
    int64_t reach = 0;
    for (int d = 0; d < ndim; d++)
        reach += (sizes[d] - 1) * strides[d];
    return reach;
}

/* Checks sizes and strides. Stores the distance of the last element in *reach, or -1 if there is no
 * element. */
static bool good_strides(const char *op, int ndim, const int64_t *sizes, const int64_t *strides,
                         br_dtype dtype, int64_t *reach)
{
    int64_t numel, sum = 0, part;
    if (!br__check_sizes(op, ndim, sizes, BR_BOOL, &numel))
        return false;
    if (ndim > 0 && !strides)
        return br_fail(BR_ERROR_ARGUMENT, op, "strides is NULL, but it is required");
    for (int d = 0; d < ndim; d++) {
        if (strides[d] < 0)
            return br_fail(BR_ERROR_ARGUMENT, op,
                           "stride %" PRId64 " of dimension %d must not be negative", strides[d],
                           d);
        if (numel > 0 && (__builtin_mul_overflow(sizes[d] - 1, strides[d], &part) ||
                          __builtin_add_overflow(sum, part, &sum) ||
                          sum >= INT64_MAX / (int64_t)br__dtype_size(dtype)))
            return br_fail(BR_ERROR_SHAPE, op,
                           "sizes %s with strides %s are too large for an address",
                           br__shape_of(ndim, sizes), br__shape_of(ndim, strides));
    }
    *reach = numel > 0 ? sum : -1;
    return true;
}

/* ---- as_strided ------------------------------------------------------------------------------ */

static br_part part_of(int ndim, const int64_t *sizes, const int64_t *strides, int64_t offset,
                       int64_t length)
{
    br_part part = { .ndim = ndim, .base_ndim = 1, .offset = offset, .base_sizes = { length } };
    for (int d = 0; d < ndim; d++) {
        part.sizes[d] = sizes[d];
        part.strides[d] = strides[d];
    }
    return part;
}

/* Ends the relation of a view to its base if they no longer fit. Elements outside of the base have
 * no history that a change could reach. */
static void leave_base(br_tensor *view)
{
    if (!view->base || br__is_inside_base(view))
        return;
    br__drop_base(view);
    view->untracked = true;
}

br_tensor *br_as_strided(br_tensor *x, int ndim, const int64_t *sizes, const int64_t *strides,
                         int64_t storage_offset)
{
    static const char op[] = "as_strided";
    BR_OP(op);
    int64_t reach;
    if (!br__required(op, "x", x) || !good_strides(op, ndim, sizes, strides, x->dtype, &reach))
        return NULL;
    const int64_t own = br__storage_offset(x), elements = br__storage_numel(x);
    const int64_t first = storage_offset == BR_NONE ? own : storage_offset;
    if (own < 0)
        return br_fail(BR_ERROR_STATE, op,
                       "x begins between two elements of its storage: clone it first");
    if (first < 0 || (reach >= 0 && reach >= elements - first))
        return br_fail(BR_ERROR_SHAPE, op,
                       "sizes %s with strides %s reach %" PRId64 " elements beyond element %" PRId64
                       ", but the storage of x %s has %" PRId64,
                       br__shape_of(ndim, sizes), br__shape_of(ndim, strides), reach, first,
                       br__shape(x), elements);
    br_tensor *y = br__view_of(x, ndim, sizes, strides, reach < 0 ? 0 : first - own);
    if (y)
        leave_base(y);
    const int64_t x_reach = x->numel > 0 ? reach_of(x->ndim, x->sizes, x->strides) : 0;
    const int64_t low = reach < 0 ? own : br__min(first, own),
                  length = br__max(own + x_reach, first + reach) - low + 1;
    const settings s = {
        .view = part_of(ndim, sizes, strides, reach < 0 ? 0 : first - low, length),
        .x = part_of(x->ndim, x->sizes, x->strides, own - low, length),
        .x_overlaps = br__shares_elements(x),
    };
    return br__recorded(&as_strided_op, y, x, &s, sizeof s);
}

/* ---- Tensors with given strides or a new size ------------------------------------------------ */

br_tensor *br_empty_strided(int ndim, const int64_t *sizes, const int64_t *strides, br_dtype dtype)
{
    static const char op[] = "empty_strided";
    BR_OP(op);
    int64_t reach, numel;
    if (!br__check_sizes(op, ndim, sizes, dtype, &numel) ||
        !good_strides(op, ndim, sizes, strides, dtype, &reach))
        return NULL;
    br_scope *scope = br_no_grad_begin();
    br_tensor *all = br_empty(BR_SHAPE(reach + 1), dtype);
    br_tensor *y = all ? br__view_of(all, ndim, sizes, strides, 0) : NULL;
    return br__composed(scope, y ? br__detached(y) : NULL);
}

/* Gives x the elements of its storage from its first one on, and room for `numel`. */
static bool grow(const char *op, br_tensor *x, int64_t numel)
{
    const int64_t kept = br__storage_numel(x) - br__max(br__storage_offset(x), 0);
    if (numel <= kept)
        return true;
    if (atomic_load(&x->storage->refs) > 1 || x->storage->memory == BR_BORROWED) {
        br_fail(BR_ERROR_STATE, op,
                "x %s needs memory for %" PRId64
                " elements, but %s: clone it, or create a new tensor",
                br__shape(x), numel,
                x->storage->memory == BR_BORROWED ? "its memory is borrowed"
                                                  : "another tensor shares its memory");
        return false;
    }
    br_scope *scope = br_no_grad_begin();
    br_tensor *larger = br_new_empty(x, BR_SHAPE(numel), x->dtype);
    if (larger && kept > 0)
        br_copy_(br_narrow(larger, 0, 0, kept),
                 br__view_of(x, BR_SHAPE(kept), (int64_t[]){ 1 }, 0));
    if (!br_failed())
        br__swap_data(op, x, larger);
    br_scope_end(scope);
    return !br_failed();
}

br_tensor *br_resize_(br_tensor *x, int ndim, const int64_t *sizes)
{
    static const char op[] = "resize_";
    BR_OP(op);
    int64_t numel;
    if (!br__required(op, "x", x) || !br__check_sizes(op, ndim, sizes, x->dtype, &numel))
        return NULL;
    if (br_requires_grad(x))
        return br_fail(BR_ERROR_STATE, op, "x %s requires grad, so that its sizes cannot change",
                       br__shape(x));
    if (!grow(op, x, numel))
        return NULL;
    x->ndim = ndim;
    x->numel = numel;
    x->contiguous = true;
    if (ndim > 0)
        memcpy(x->sizes, sizes, (size_t)ndim * sizeof *sizes);
    br__default_strides(ndim, x->sizes, x->strides);
    br__changed_by(x, op);
    if (BR_PROFILING)
        br__thread.events->result(x);
    return x;
}
