/* ops/reduce/cumulative.c - cumulative sums and products along a dimension, and prod, whose
 * gradient is computed from cumulative products. */
#include "ops/autocast.h"
#include "ops/reduce/reduce_internal.h"
#include "ops/scaling.h"

#include <math.h>

/* ---- Scans along a dimension ----------------------------------------------------------------- */

/* The gradients of products and of logarithms of sums need the input and the output. */
br_tensor *br__scan(const br_op *op, br_tensor *x, const br_scan_work *c)
{
    BR_OP(op->name);
    const br_backend *backend = x ? BR_BACKEND(op->name, x, scan) : NULL;
    if (!backend)
        return NULL;
    br_scope *scope = br_no_grad_begin();
    br_tensor *dense = br_contiguous(br_to(x, br__sum_dtype(x->dtype)));
    br_tensor *y = dense ? br__new_like(op->name, dense, dense->dtype) : NULL;
    BR_TRAFFIC(y, dense);
    if (y && y->numel > 0)
        backend->scan(y, dense, c);
    br_scope_return(scope, y);
    br_scope_end(scope);
    br_node *node = br_record(op, y, BR_INPUTS(x), c, sizeof *c);
    if (c->kind != BR_SCAN_SUM) {
        br_save(node, 0, x);
        br_save(node, 1, y);
    }
    return br_failed() ? NULL : y;
}

/* ---- cumsum ---------------------------------------------------------------------------------- */

static br_tensor *cumsum(br_tensor *x, int64_t dim, bool reverse);

/* Each element contributes to all later sums. */
static void cumsum_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    const br_scan_work *c = br_params(node);
    dx[0] = cumsum(dy, c->dim, !c->reverse);
}

static br_tensor *cumsum(br_tensor *x, int64_t dim, bool reverse)
{
    static const br_op op = { "cumsum", cumsum_backward, false };
    return br__scan(&op, x,
                    &(br_scan_work){ .dim = (int)dim, .reverse = reverse, .kind = BR_SCAN_SUM });
}

br_tensor *br_cumsum(br_tensor *x, int64_t dim)
{
    if (!br__required("cumsum", "x", x) || !br__wrap_dim("cumsum", "dim", x, &dim))
        return NULL;
    return cumsum(x, dim, false);
}

/* ---- cumprod --------------------------------------------------------------------------------- */

static br_tensor *cumprod(br_tensor *x, int64_t dim, bool reverse);

static bool has_zero(br_tensor *x)
{
    br_scope *scope = br_no_grad_begin();
    bool found = br_item(br_any(br_eq_scalar(x, 0))) == 1;
    br_scope_end(scope);
    return found;
}

/* The gradient of cumprod without division, which is also correct for zeros. For every element k it
 * computes the cumulative products with 1 in place of x_k, and sums dy times those from k on. This
 * takes as much memory as x times the size of the dimension. */
static br_tensor *products_excluding(br_tensor *x, br_tensor *dy, const br_scan_work *c)
{
    int64_t shape[3] = { 1, 1, 1 }, n = br_size(x, c->dim);
    for (int i = 0; i < br_ndim(x); i++)
        shape[i < c->dim ? 0 : i == c->dim ? 1 : 2] *= br_sizes(x)[i];
    br_tensor *lines = br_transpose(br_reshape(x, 3, shape), 1, 2);
    br_tensor *dlines = br_transpose(br_reshape(dy, 3, shape), 1, 2);
    br_tensor *place = br_new_arange(x, 0, (double)n, 1, BR_I64);
    br_tensor *own = br_eq(br_unsqueeze(place, 1), place);
    br_tensor *without = br_masked_fill(br_unsqueeze(lines, 2), own, 1);
    br_tensor *parts = br_mul(cumprod(without, 3, c->reverse), br_unsqueeze(dlines, 2));
    parts = c->reverse ? br_tril(parts, 0) : br_triu(parts, 0);
    br_tensor *dx = br_transpose(br_sum_dim(parts, BR_DIMS(-1), false), 1, 2);
    return br_reshape(dx, br_ndim(x), br_sizes(x));
}

/* Returns (sum over i >= k of dy_i y_i) / x_k for each k. The products y are computed if they are
 * NULL. */
static br_tensor *quotients(br_tensor *x, br_tensor *y, br_tensor *dy, const br_scan_work *c)
{
    if (!y)
        y = cumprod(x, c->dim, c->reverse);
    return br_div(cumsum(br_mul(dy, y), c->dim, !c->reverse), x);
}

static void cumprod_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    const br_scan_work *c = br_params(node);
    br_tensor *x = br_saved(node, 0), *y = br_saved(node, 1);
    if (br_failed())
        return;
    if (br_ndim(x) == 0)
        dx[0] = dy;
    else if (has_zero(x))
        dx[0] = products_excluding(x, dy, c);
    else if (br__is_narrow(br_dtype_of(x)) &&
             !br__in_range(y)) /* y / x may be an ordinary number */
        dx[0] = br_to(quotients(br_to(x, BR_F64), NULL, br_to(dy, BR_F64), c), br_dtype_of(x));
    else
        dx[0] = quotients(x, y, dy, c);
}

static br_tensor *cumprod(br_tensor *x, int64_t dim, bool reverse)
{
    static const br_op op = { "cumprod", cumprod_backward, false };
    return br__scan(&op, x,
                    &(br_scan_work){ .dim = (int)dim, .reverse = reverse, .kind = BR_SCAN_PROD });
}

br_tensor *br_cumprod(br_tensor *x, int64_t dim)
{
    if (!br__required("cumprod", "x", x) || !br__wrap_dim("cumprod", "dim", x, &dim))
        return NULL;
    return cumprod(x, dim, false);
}

/* ---- prod ------------------------------------------------------------------------------------ */

typedef struct prod_params {
    int64_t dim; /* BR_ALL: all elements */
    bool keepdim;
} prod_params;

/* Returns for each element the product of those before it along dim, or of those after it. */
static br_tensor *exclusive_products(br_tensor *x, int64_t dim, bool after)
{
    int64_t sizes[BR_MAX_DIMS];
    for (int i = 0; i < br_ndim(x); i++)
        sizes[i] = i == dim ? 1 : br_sizes(x)[i];
    br_tensor *one = br_new_ones(x, br_ndim(x), sizes, br_dtype_of(x));
    br_tensor *others = br_narrow(x, dim, after, br_size(x, dim) - 1);
    br_tensor *running = cumprod(others, dim, after);
    return after ? br_cat(BR_INPUTS(running, one), dim) : br_cat(BR_INPUTS(one, running), dim);
}

/* Returns for each element the product of all other elements along dim. This is computed without a
 * division, so that it is correct for zeros. */
static br_tensor *products_of_others(br_tensor *x, int64_t dim)
{
    return br_mul(exclusive_products(x, dim, false), exclusive_products(x, dim, true));
}

/* Returns true if no product leaves the range of the dtype, apart from those that are 0 because a
 * factor is 0. */
static bool products_fit(br_tensor *x, br_tensor *others, int64_t dim)
{
    if (br__in_range(others))
        return true;
    br_scope *scope = br_no_grad_begin();
    br_tensor *whole = br_masked_fill(x, br_eq_scalar(x, 0), 1);
    bool fit = br__in_range(exclusive_products(whole, dim, false)) &&
               br__in_range(exclusive_products(whole, dim, true)) &&
               br__in_range(products_of_others(whole, dim));
    br_scope_end(scope);
    return fit;
}

/* Returns an exponent for each element, such that dividing each element by two to its exponent
 * keeps the products of the first elements along dim between 1 and 2, however many there are: the
 * exponent is the difference of the rounded logarithms of two products. It is 0 for 0, infinity and
 * NaN. */
static br_tensor *balancing_exponents(br_tensor *x, int64_t dim)
{
    br_tensor *size = br_abs(x);
    br_tensor *none = br_logical_or(br_eq_scalar(size, 0), br_logical_not(br_isfinite(size)));
    br_tensor *logarithm = br_to(br_log2(br_masked_fill(size, none, 1)), BR_F64);
    /* The power of a smaller exponent would not be a normal number. */
    logarithm = br_clamp(logarithm, br__dtypes[br_dtype_of(x)].min_exponent, INFINITY);
    br_tensor *product = br_floor(br_cumsum(logarithm, dim)), *none_before = br_zeros_like(product);
    br_tensor *before = br_narrow(product, dim, 0, br_size(x, dim) - 1);
    before = br_cat(BR_INPUTS(br_narrow(none_before, dim, 0, 1), before), dim);
    return br_to(br_sub(product, before), br_dtype_of(x));
}

/* Does the same as products_of_others() if products leave the range, where 0 times infinity would
 * be NaN: divides the elements by powers of two, multiplies them, and multiplies by the powers.
 * Their exponent is applied in two halves, each of which is a normal number. */
static br_tensor *scaled_products_of_others(br_tensor *x, int64_t dim)
{
    const double limit = -br__dtypes[br_dtype_of(x)].min_exponent;
    br_scope *scope = br_no_grad_begin();
    br_tensor *exponent = balancing_exponents(x, dim), *scale = br_exp2(exponent);
    br_tensor *others = br_sub(br_sum_dim(exponent, BR_DIMS(dim), true), exponent);
    br_tensor *half = br_floor(br_mul_scalar(others, 0.5)), *rest = br_sub(others, half);
    half = br_exp2(br_clamp(half, -limit, limit));
    rest = br_exp2(br_clamp(rest, -limit, limit));
    br_scope_return(scope, scale);
    br_scope_return(scope, half);
    br_scope_return(scope, rest);
    br_scope_end(scope);
    return br_mul(br_mul(products_of_others(br_div(x, scale), dim), half), rest);
}

/* dx is dy times the product of all other elements. */
static void prod_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    const prod_params *p = br_params(node);
    br_tensor *x = br_saved(node, 0);
    if (br_failed())
        return;
    if (br_numel(x) == 0 || br_ndim(x) == 0) {
        dx[0] = br_ndim(x) == 0 ? dy : br_zeros_like(x);
        return;
    }
    int64_t dim = p->dim == BR_ALL ? 0 : p->dim;
    br_tensor *lines = p->dim == BR_ALL ? br_flatten(x, 0, -1) : x;
    if (p->dim != BR_ALL && !p->keepdim)
        dy = br_unsqueeze(dy, dim);
    br_tensor *others = products_of_others(lines, dim);
    if (!products_fit(lines, others, dim))
        others = scaled_products_of_others(lines, dim);
    dx[0] = br_reshape(br_mul(dy, others), br_ndim(x), br_sizes(x));
}

static const br_op prod_op = { "prod", prod_backward, false };

static br_tensor *prod(br_tensor *x, int64_t dim, bool keepdim)
{
    BR_OP("prod");
    BR_AUTOCAST(prod(RAISE(x), dim, keepdim))
    if (!br__required("prod", "x", x) || (dim != BR_ALL && !br__wrap_dim("prod", "dim", x, &dim)))
        return NULL;
    unsigned bits = dim == BR_ALL ? (1u << x->ndim) - 1 : x->ndim > 0 ? 1u << dim : 0;
    br_tensor *y = br__reduced("prod", x, bits, keepdim, br__sum_dtype(x->dtype));
    br_reducer fold = { BR_FOLD(prod), 1, 1, y, NULL };
    if (!y || !br__reduce("prod", x, bits, &fold))
        return NULL;
    prod_params params = { dim, keepdim };
    br_save(br_record(&prod_op, y, BR_INPUTS(x), &params, sizeof params), 0, x);
    return y;
}

br_tensor *br_prod(br_tensor *x)
{
    return prod(x, BR_ALL, false);
}

br_tensor *br_prod_dim(br_tensor *x, int64_t dim, bool keepdim)
{
    return prod(x, dim, keepdim);
}
