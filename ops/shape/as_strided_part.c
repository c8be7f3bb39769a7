/* ops/shape/as_strided_part.c - views described by sizes and strides (a window in window_view.c is
 * described by the operation that makes it): the view itself, the base with the view's elements set
 * to 0, and the view's elements in a tensor of zeros. They are used as each other's gradients.
 * Autograd needs them to move the history of a view to its base (autograd/in_place.c). */
#include "autograd/part.h"
#include "ops/ops_internal.h"
#include "ops/shape/view_internal.h"

/* Returns the header of the part of a contiguous x. */
static br_tensor window_of(const br_tensor *x, const br_part *part)
{
    br_tensor w = br__window(x);
    br__window_move(&w, part->offset);
    br__window_reshape(&w, part->ndim, part->sizes, part->strides);
    return w;
}

/* ---- The part -------------------------------------------------------------------------------- */

static void part_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    dx[0] = br__fill_part(dy, br_params(node));
}

static const br_op part_op = { .name = "part", .backward = part_backward };

br_tensor *br__part(br_tensor *x, const br_part *part)
{
    BR_OP("part");
    x = br_contiguous(x);
    if (!x)
        return NULL;
    br_tensor w = window_of(x, part);
    br_tensor *y = br__view_at(x, &w);
    return br__recorded(&part_op, y, x, part, sizeof *part);
}

/* ---- The base without the part --------------------------------------------------------------- */

static void clear_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    dx[0] = br__clear_part(dy, br_params(node));
}

static const br_op clear_op = { .name = "clear_part", .backward = clear_backward };

br_tensor *br__clear_part(br_tensor *x, const br_part *part)
{
    BR_OP("clear_part");
    br_tensor *y = x ? br__new_on("clear_part", x, x->ndim, x->sizes, x->dtype) : NULL;
    if (!y)
        return NULL;
    br__copy(y, x);
    br_scalar_operand zero;
    br_tensor w = window_of(y, part);
    if (!br__element_operand("clear_part", 0, y->dtype, &zero))
        return NULL;
    br__set_window(&w, &zero.tensor);
    return br__recorded(&clear_op, y, x, part, sizeof *part);
}

/* ---- The part in a tensor of zeros ----------------------------------------------------------- */

static void fill_backward(br_node *node, br_tensor *ddx, br_tensor **ddy)
{
    ddy[0] = br__part(ddx, br_params(node));
}

static const br_op fill_op = { .name = "fill_part", .backward = fill_backward };

/* Returns true if no element occurs twice in the view: every stride, in ascending order, must
 * exceed the extent of the dimensions with smaller strides. */
static bool shows_once(const br_part *part)
{
    int64_t reach = 0, left = 0;
    for (int i = 0; i < part->ndim; i++)
        left += part->sizes[i] > 1;
    bool used[BR_MAX_DIMS] = { false };
    for (; left > 0; left--) {
        int next = -1;
        for (int i = 0; i < part->ndim; i++)
            if (part->sizes[i] > 1 && !used[i] &&
                (next < 0 || part->strides[i] < part->strides[next]))
                next = i;
        if (part->strides[next] <= reach)
            return false;
        used[next] = true;
        reach += (part->sizes[next] - 1) * part->strides[next];
    }
    return true;
}

/* Returns the index in the base of each element of the view. */
static br_tensor *places(const br_part *part, const br_tensor *zeros)
{
    br_tensor *all = br_new_arange(zeros, 0, (double)zeros->numel, 1, BR_I64);
    if (!all)
        return NULL;
    br_tensor w = window_of(all, part);
    return br__view_at(all, &w);
}

/* Adds y to the zeros. An element that occurs several times in the view receives the sum, added in
 * order. */
static br_tensor *summed(br_tensor *zeros, br_tensor *y, const br_part *part)
{
    br_scope *scope = br_no_grad_begin();
    br_tensor *index = br_reshape(places(part, zeros), BR_SHAPE(-1));
    br_tensor *flat = br_reshape(zeros, BR_SHAPE(-1));
    br_index_add_(flat, 0, index, br_reshape(y, BR_SHAPE(-1)), 1);
    br_scope_end(scope);
    return br_failed() ? NULL : zeros;
}

br_tensor *br__fill_part(br_tensor *y, const br_part *part)
{
    BR_OP("fill_part");
    br_tensor *x = y ? br_new_zeros(y, part->base_ndim, part->base_sizes, y->dtype) : NULL;
    if (!x)
        return NULL;
    br_tensor w = window_of(x, part);
    if (shows_once(part))
        br__copy(&w, y);
    else
        x = summed(x, y, part);
    return br__recorded(&fill_op, x, y, part, sizeof *part);
}
