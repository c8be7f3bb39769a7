/* ops/index/scatter_reduce.c - scatter_reduce: the sum, product, mean, maximum or minimum of the
 * elements that an index maps to the same position.
 *
 * Sums and means are composed of recorded operations. The others have a loop of their own and
 * PyTorch's gradients: equal extremes share the gradient, and the gradient of a factor is the
 * product of the others. */
#include "ops/index/index_internal.h"
#include "ops/pointwise/widen.h"
#include "ops/scaling.h"

#include <string.h>

static const char op_name[] = "scatter_reduce";

/* ---- Sum and mean ---------------------------------------------------------------------------- */

/* Returns x with the reduction's neutral element at the indexed positions. */
static br_tensor *without_self(br_tensor *x, int64_t dim, br_tensor *index, double neutral)
{
    return br_scatter_scalar(x, dim, index, neutral);
}

static br_tensor *sum_of(br_tensor *x, int64_t dim, br_tensor *index, br_tensor *src, bool self)
{
    return br_scatter_add(self ? x : without_self(x, dim, index, 0), dim, index, src);
}

static br_tensor *mean_of(br_tensor *x, int64_t dim, br_tensor *index, br_tensor *src, bool self)
{
    br_tensor *one = br_ones_like(src);
    br_tensor *count = sum_of(br_ones_like(x), dim, index, one, self);
    br_tensor *sum = sum_of(x, dim, index, src, self);
    return br_div_mode(sum, count, br_is_floating(x) ? BR_ROUNDING_NONE : BR_ROUNDING_FLOOR);
}

/* ---- Product and extremes -------------------------------------------------------------------- */

typedef struct params {
    int64_t dim;
    br_scatter_reduction reduce;
    bool include_self;
} params;

enum { X, SRC, Y, INDEX };

static br_combine combine_of(br_scatter_reduction reduce)
{
    return reduce == BR_SCATTER_PROD   ? BR_COMBINE_MUL
           : reduce == BR_SCATTER_AMAX ? BR_COMBINE_MAX
                                       : BR_COMBINE_MIN;
}

/* Returns the initial values: a copy of x. Without include_self, its indexed positions hold 1 for
 * products and an element of src for extremes. */
static br_tensor *start_of(br_tensor *x, br_tensor *index, br_tensor *src, const params *p)
{
    if (p->include_self)
        return br_clone(x);
    return p->reduce == BR_SCATTER_PROD ? without_self(x, p->dim, index, 1)
                                        : br_scatter(x, p->dim, index, src);
}

static br_tensor *reduced(br_tensor *x, br_tensor *index, br_tensor *src, const params *p);

/* The elements of x and src that are equal to the result at their position share dy evenly. If the
 * result is NaN, nothing equals it, and 0 / 0 makes the gradients NaN, too. */
static void extreme_gradient(br_node *node, br_tensor *dy, br_tensor **dx, const params *p)
{
    br_tensor *x = br_saved(node, X), *src = br_saved(node, SRC), *index = br_saved(node, INDEX);
    br_tensor *y = br_saved(node, Y);
    if (br_failed())
        return;
    br_tensor *x_is = br_to(br_eq(x, y), x->dtype);
    if (!p->include_self)
        x_is = without_self(x_is, p->dim, index, 0);
    br_tensor *src_is = br_to(br_eq(src, br_gather(y, p->dim, index)), x->dtype);
    br_tensor *sharing = br_scatter_add(x_is, p->dim, index, src_is);
    br_tensor *share = br_div(dy, sharing);
    if (p->include_self)
        dx[0] = br_mul(share, x_is);
    else
        dx[0] = without_self(dy, p->dim, index, 0);
    dx[1] = br_mul(br_gather(share, p->dim, index), src_is);
}

/* At a position with z zeros, all derivatives of an order below z are 0. Positions with more zeros
 * than MAX_ZEROS are therefore skipped, which is correct for derivatives up to that order. */
enum { MAX_ZEROS = 4 };

/* Returns for each zero of src the product of the other factors at its position, and `other` for
 * elements that are not 0. Each round replaces one zero at each position by 1, beginning with the
 * last, and computes the products. If backward is not recorded, only positions with a single zero
 * need this, because with more zeros the product of the others is 0. */
static br_tensor *product_without_zeros(br_tensor *other, br_tensor *x, br_tensor *index,
                                        br_tensor *src, const params *p)
{
    br_tensor *zero = br_eq_scalar(src, 0);
    br_tensor *count = br_scatter_add(br_zeros_like(x), p->dim, index, br_to(zero, x->dtype));
    int most = br_grad_enabled() ? MAX_ZEROS : 1;
    br_tensor *few = br_le_scalar(br_gather(count, p->dim, index), most);
    br_tensor *product = br_masked_fill(other, zero, 0);
    for (zero = br_logical_and(zero, few); br_item(br_any(zero)) == 1;) {
        br_tensor *one = br__last_of_equal(zero, p->dim, index, x->ndim, x->sizes);
        br_tensor *others = reduced(x, index, br_masked_fill(src, one, 1), p);
        product = br_where(one, br_gather(others, p->dim, index), product);
        zero = br_logical_and(zero, br_logical_not(one));
    }
    return product;
}

static br_tensor *without_zeros(br_tensor *t)
{
    return br_masked_fill(t, br_eq_scalar(t, 0), 1);
}

/* Returns true if the products of the factors other than 0 stay in the range of the dtype. */
static bool products_fit(br_tensor *x, br_tensor *index, br_tensor *src, const params *p)
{
    br_scope *scope = br_no_grad_begin();
    bool fit = br__in_range(reduced(without_zeros(x), index, without_zeros(src), p));
    br_scope_end(scope);
    return fit;
}

/* The gradient is dy times the product of the other factors, which is y / src unless src is 0. If a
 * product in f32 leaves the range, although the product of the others may not, all are computed in
 * f64. */
static void product_gradient(br_node *node, br_tensor *dy, br_tensor **dx, const params *p)
{
    br_tensor *x = br_saved(node, X), *src = br_saved(node, SRC), *index = br_saved(node, INDEX);
    if (br_failed())
        return;
    br_dtype dtype = x->dtype;
    if (br__is_narrow(dtype) && !products_fit(x, index, src, p)) {
        x = br_to(x, BR_F64);
        src = br_to(src, BR_F64);
        dy = br_to(dy, BR_F64);
    }
    br_tensor *whole_x = without_zeros(x);
    dx[0] = br_div(br_mul(dy, reduced(whole_x, index, src, p)), whole_x);
    if (!p->include_self)
        dx[0] = without_self(dy, p->dim, index, 0);
    br_tensor *y = br_gather(reduced(x, index, src, p), p->dim, index);
    br_tensor *others = br_div(y, without_zeros(src));
    others = product_without_zeros(others, x, index, src, p);
    dx[0] = br_to(dx[0], dtype);
    dx[1] = br_to(br_mul(br_gather(dy, p->dim, index), others), dtype);
}

static void reduce_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    const params *p = br_params(node);
    (p->reduce == BR_SCATTER_PROD ? product_gradient : extreme_gradient)(node, dy, dx, p);
}

static const br_op reduce_op = { op_name, reduce_backward, false };

static br_tensor *reduced(br_tensor *x, br_tensor *index, br_tensor *src, const params *p)
{
    br_scope *scope = br_no_grad_begin();
    br_tensor *y = start_of(x, index, src, p);
    if (y) {
        br_tensor to = br__line(y), from = br__line(src), by = br__line(index);
        memcpy(from.sizes, by.sizes, sizeof by.sizes);
        from.numel = by.numel;
        br__scatter(op_name, &to, &from, &by, (int)p->dim, -1, combine_of(p->reduce));
    }
    y = br__composed(scope, y);
    br_node *node = br_record(&reduce_op, y, BR_INPUTS(x, src), p, sizeof *p);
    br_save(node, X, x);
    br_save(node, SRC, src);
    br_save(node, INDEX, index);
    if (p->reduce != BR_SCATTER_PROD)
        br_save(node, Y, y);
    return y;
}

/* ---- The operation --------------------------------------------------------------------------- */

/* Narrows src to the sizes of the index. */
static br_tensor *as_large_as(br_tensor *src, const br_tensor *index)
{
    bool fits = src && index && src->ndim == index->ndim;
    for (int i = 0; fits && i < index->ndim; i++)
        if (src->sizes[i] > index->sizes[i])
            src = br_narrow(src, i, 0, index->sizes[i]);
    return src;
}

/* Checks the arguments as scatter_add does, and also `reduce`. */
static bool check(br_tensor *x, int64_t *dim, br_tensor *index, br_tensor *src,
                  br_scatter_reduction reduce)
{
    if (!br__required(op_name, "x", x) || !br__wrap_dim(op_name, "dim", x, dim) ||
        !br__has_dtype(op_name, "index", index, BR_I64) ||
        !br__compatible(op_name, "x", x, "src", src))
        return false;
    if (reduce < BR_SCATTER_SUM || reduce > BR_SCATTER_AMIN)
        br_fail(BR_ERROR_ARGUMENT, op_name, "reduce is %d, must be a br_scatter_reduction",
                (int)reduce);
    else if (reduce == BR_SCATTER_MEAN && !br__is_number(op_name, "x", x))
        return false;
    else
        br__check_scatter(op_name, x, *dim, index, src);
    return !br_failed();
}

br_tensor *br_scatter_reduce(br_tensor *x, int64_t dim, br_tensor *index, br_tensor *src,
                             br_scatter_reduction reduce, bool include_self)
{
    BR_OP(op_name);
    BR_IF_CONVERTED(br__is_short_index(index),
                    br_scatter_reduce(x, dim, br_to(index, BR_I64), src, reduce, include_self))
    if (!check(x, &dim, index, src, reduce))
        return NULL;
    br_scope *scope = br_scope_begin();
    params p = { dim, reduce, include_self };
    src = as_large_as(src, index);
    return br__composed(scope, reduce == BR_SCATTER_SUM ? sum_of(x, dim, index, src, include_self)
                               : reduce == BR_SCATTER_MEAN
                                   ? mean_of(x, dim, index, src, include_self)
                                   : reduced(x, index, src, &p));
}
