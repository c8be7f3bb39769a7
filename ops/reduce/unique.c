/* ops/reduce/unique.c - one_hot, bincount, and the unique elements or slices of a tensor. */
#include "ops/index/index_internal.h"
#include "ops/pointwise/widen.h"
#include "tensor/min_max.h"

#include <inttypes.h>

/* ---- one_hot and bincount -------------------------------------------------------------------- */

/* Returns the largest element, or -1 if there is none; -2 with an error if one is negative. */
static int64_t largest_class(const char *op, br_tensor *index)
{
    const int64_t *values = br__host_i64(index);
    const int64_t n = values ? index->numel : 0;
    uint64_t even = 0, odd = 0; /* negative numbers are the largest unsigned ones */
    for (int64_t i = 0; i + 1 < n; i += 2) {
        even = br__max(even, (uint64_t)values[i]);
        odd = br__max(odd, (uint64_t)values[i + 1]);
    }
    if (n % 2 == 1)
        even = br__max(even, (uint64_t)values[n - 1]);
    even = br__max(even, odd);
    for (int64_t i = 0; even > INT64_MAX && i < n; i++)
        if (values[i] < 0) {
            br_fail(BR_ERROR_INDEX, op, "value %" PRId64 " at position %s is negative", values[i],
                    br__position(index, i));
            return -2;
        }
    return !values ? -2 : n == 0 ? -1 : (int64_t)even;
}

br_tensor *br_one_hot(br_tensor *index, int64_t num_classes)
{
    BR_OP("one_hot");
    if (!br__has_dtype("one_hot", "index", index, BR_I64))
        return NULL;
    br_scope *scope = br_scope_begin();
    int64_t sizes[BR_MAX_DIMS + 1], max_value = largest_class("one_hot", index);
    if (max_value >= -1 && num_classes < 1 && (num_classes != -1 || max_value < 0))
        br_fail(
            BR_ERROR_ARGUMENT, "one_hot",
            "num_classes is %" PRId64
            " for index %s, must be at least 1, or -1 to infer it from an index that is not empty",
            num_classes, br__shape(index));
    if (num_classes >= 1 && max_value >= num_classes)
        br_fail(BR_ERROR_INDEX, "one_hot",
                "index %s contains %" PRId64 ", must be less than num_classes %" PRId64,
                br__shape(index), max_value, num_classes);
    for (int i = 0; i < index->ndim; i++)
        sizes[i] = index->sizes[i];
    sizes[index->ndim] = num_classes == -1 ? max_value + 1 : num_classes;
    br_tensor *y = br_failed() ? NULL : br_new_zeros(index, index->ndim + 1, sizes, BR_I64);
    return br__composed(scope, br_scatter_scalar_(y, -1, br_unsqueeze(index, -1), 1));
}

br_tensor *br_bincount(br_tensor *x, br_tensor *weights, int64_t minlength)
{
    BR_OP("bincount");
    BR_IF_CONVERTED(br__is_whole(x) && x->dtype != BR_I64,
                    br_bincount(br_to(x, BR_I64), weights, minlength))
    if (!br__has_dtype("bincount", "x", x, BR_I64))
        return NULL;
    if (x->ndim != 1 || minlength < 0)
        return br_fail(BR_ERROR_ARGUMENT, "bincount",
                       "x %s must have one dimension, and minlength %" PRId64 " must be at least 0",
                       br__shape(x), minlength);
    if (weights && (!br__floating("bincount", "weights", weights) || !br__same_shape(x, weights)))
        return br_fail(BR_ERROR_SHAPE, "bincount", "weights %s must have the shape of x %s",
                       br__shape(weights), br__shape(x));
    if (weights && !br__same_device("bincount", "weights", weights, "x", x))
        return NULL;
    br_scope *scope = br_no_grad_begin();
    int64_t n = largest_class("bincount", x) + 1;
    br_tensor *one = weights, *y = NULL;
    if (!weights)
        one = br_expand(br_new_ones(x, BR_SCALAR, BR_I64), x->ndim, x->sizes);
    if (!br_failed())
        y = br_new_zeros(x, BR_SHAPE(br__max(n, minlength)), one->dtype);
    if (y && x->numel > 0) {
        const br_tensor to = br__line(y), from = br__line(one), by = br__line(x);
        br__scatter("bincount", &to, &from, &by, 0, -1, BR_COMBINE_ADD); /* x has been checked */
    }
    return br__composed(scope, y);
}

/* ---- unique ---------------------------------------------------------------------------------- */

/* Returns true for the first row and for each row that differs from the one before. */
static br_tensor *changes(br_tensor *rows)
{
    int64_t n = br_size(rows, 0);
    br_tensor *first = br_new_ones(rows, BR_SHAPE(n > 0), BR_BOOL);
    if (n < 2)
        return first;
    br_tensor *differ = br_ne(br_narrow(rows, 0, 1, n - 1), br_narrow(rows, 0, 0, n - 1));
    differ = br_size(rows, 1) == 1 ? br_squeeze(differ, 1) : br_any_dim(differ, BR_DIMS(1), false);
    return br_cat(BR_INPUTS(first, differ), 0);
}

/* Returns the lengths of the runs into which n elements are divided; `place` has the first position
 * of each run. */
static br_tensor *lengths(br_tensor *place, int64_t n)
{
    int64_t runs = br_numel(place);
    br_tensor *end = br_new_full(place, BR_SHAPE(runs > 0), (double)n, BR_I64);
    br_tensor *next = runs > 0 ? br_narrow(place, 0, 1, runs - 1) : place;
    return br_sub(br_cat(BR_INPUTS(next, end), 0), place);
}

/* Finds the runs of equal rows. Returns the index of one row of each run. Unless NULL, *inverse
 * receives the run of each row, and *counts the length of each run. With `sorted` the rows are
 * sorted first; all indices refer to the unsorted rows. */
static br_tensor *runs_of(const char *op, br_tensor *rows, bool sorted, br_tensor **inverse,
                          br_tensor **counts)
{
    br_tensor *order = sorted ? br__argsort_rows(op, rows) : NULL;
    br_tensor *begins = changes(sorted ? br_index_select(rows, 0, order) : rows);
    br_tensor *place = br_squeeze(br_nonzero(begins), 1);
    if (inverse) {
        br_tensor *run = br_sub_scalar(br_cumsum(begins, 0), 1);
        *inverse = sorted ? br_index_copy_(br_zeros_like(run), 0, order, run) : run;
    }
    if (counts)
        *counts = lengths(place, br_size(rows, 0));
    return sorted ? br_index_select(order, 0, place) : place;
}

/* Ends the scope and moves all three results to the enclosing one. */
static br_tensor *return_outputs(br_scope *scope, br_tensor *y, br_tensor **inverse,
                                 br_tensor **counts)
{
    for (int i = 0; i < 2; i++) {
        br_tensor **other = i ? counts : inverse;
        if (other)
            *other = br_failed() ? NULL : br_scope_return(scope, *other);
    }
    return br__composed(scope, y);
}

static void clear(br_tensor **inverse, br_tensor **counts)
{
    if (inverse)
        *inverse = NULL;
    if (counts)
        *counts = NULL;
}

static br_tensor *unique(const char *op, br_tensor *x, bool sorted, br_tensor **inverse,
                         br_tensor **counts)
{
    BR_OP(op);
    clear(inverse, counts);
    if (!br__required(op, "x", x))
        return NULL;
    br_scope *scope = br_no_grad_begin();
    br_tensor *line = br_flatten(x, 0, -1);
    br_tensor *place = runs_of(op, br_unsqueeze(line, 1), sorted, inverse, counts);
    if (inverse)
        *inverse = br_reshape(*inverse, br_ndim(x), br_sizes(x));
    return return_outputs(scope, br_index_select(line, 0, place), inverse, counts);
}

br_tensor *br_unique(br_tensor *x, br_tensor **inverse, br_tensor **counts)
{
    return unique("unique", x, true, inverse, counts);
}

br_tensor *br_unique_consecutive(br_tensor *x, br_tensor **inverse, br_tensor **counts)
{
    return unique("unique_consecutive", x, false, inverse, counts);
}

static br_tensor *unique_dim(const char *op, br_tensor *x, int64_t dim, bool sorted,
                             br_tensor **inverse, br_tensor **counts)
{
    BR_OP(op);
    clear(inverse, counts);
    if (!br__required(op, "x", x) || !br__wrap_dim(op, "dim", x, &dim))
        return NULL;
    int64_t n = x->ndim == 0 ? 1 : x->sizes[dim], width = 1;
    for (int i = 0; i < x->ndim; i++)
        width *= i == dim ? 1 : x->sizes[i];
    if (width == 0)
        return br_fail(BR_ERROR_SHAPE, op,
                       "x %s: slices along dimension %" PRId64 " have no elements to compare",
                       br__shape(x), dim);
    br_scope *scope = br_no_grad_begin();
    br_tensor *rows =
        br_reshape(x->ndim == 0 ? x : br_movedim(x, BR_DIMS(dim), BR_DIMS(0)), BR_SHAPE(n, width));
    br_tensor *place = runs_of(op, rows, sorted, inverse, counts);
    return return_outputs(scope, br_index_select(x, dim, place), inverse, counts);
}

br_tensor *br_unique_dim(br_tensor *x, int64_t dim, br_tensor **inverse, br_tensor **counts)
{
    return unique_dim("unique", x, dim, true, inverse, counts);
}

br_tensor *br_unique_consecutive_dim(br_tensor *x, int64_t dim, br_tensor **inverse,
                                     br_tensor **counts)
{
    return unique_dim("unique_consecutive", x, dim, false, inverse, counts);
}
