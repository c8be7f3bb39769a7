/* ops/reduce/search.c - binary search in sorted sequences: searchsorted, bucketize, isin. */
#include "ops/pointwise/promotion.h"
#include "ops/reduce/reduce_internal.h"

#include <inttypes.h>
#include <string.h>

/* Returns t in the dtype in which it is searched. Order is kept: storage dtypes are widened. */
static br_tensor *searchable(br_tensor *t)
{
    return t ? br_contiguous(br_to(t, t->dtype == BR_BOOL ? BR_I64 : br__computed(t->dtype)))
             : NULL;
}

/* Returns the positions at which the values, of the same dtype, can be inserted. */
static br_tensor *found(const char *op, br_tensor *sorted, br_tensor *values, bool right)
{
    br_scope *scope = br_no_grad_begin();
    br_tensor *in = searchable(sorted), *v = searchable(values);
    br_tensor *y = in && v ? br__new_on(op, v, v->ndim, v->sizes, BR_I64) : NULL;
    const br_backend *backend = y ? BR_BACKEND(op, v, search) : NULL;
    BR_TRAFFIC(y, v);
    if (backend && y->numel > 0)
        backend->search(y, in, v, right);
    return br__composed(scope, y);
}

/* Checks that sorted_sequence is 1-d, or has the dimensions of values except for the last one. */
static bool fits(const char *op, const br_tensor *sorted, const br_tensor *values)
{
    bool fits = sorted->ndim == 1 || (sorted->ndim == values->ndim && sorted->ndim > 0);
    for (int i = 0; fits && sorted->ndim > 1 && i < sorted->ndim - 1; i++)
        fits = sorted->sizes[i] == values->sizes[i];
    if (!fits)
        br_fail(BR_ERROR_SHAPE, op,
                "sorted_sequence %s for values %s: must be 1-d, or have the same sizes except in "
                "the last dimension",
                br__shape(sorted), br__shape(values));
    return fits;
}

static bool check_sorter(const char *op, br_tensor *sorted, br_tensor *sorter)
{
    if (!br__same_device(op, "sorted_sequence", sorted, "sorter", sorter) ||
        !br__has_dtype(op, "sorter", sorter, BR_I64))
        return false;
    if (!br__same_shape(sorted, sorter))
        br_fail(BR_ERROR_SHAPE, op, "sorter %s must have the shape of sorted_sequence %s",
                br__shape(sorter), br__shape(sorted));
    return !br_failed();
}

br_tensor *br_searchsorted(br_tensor *sorted_sequence, br_tensor *values, bool right,
                           br_tensor *sorter)
{
    static const char op[] = "searchsorted";
    BR_OP(op);
    if (!br__same_device(op, "sorted_sequence", sorted_sequence, "values", values) ||
        !fits(op, sorted_sequence, values) ||
        (sorter && !check_sorter(op, sorted_sequence, sorter)))
        return NULL;
    br_scope *scope = br_no_grad_begin();
    br_tensor *in = sorter ? br_gather(sorted_sequence, -1, sorter) : sorted_sequence;
    if (in && br__mixed(in, values))
        br__promote(&in, &values);
    return br__composed(scope, in ? found(op, in, values, right) : NULL);
}

br_tensor *br_bucketize(br_tensor *x, br_tensor *boundaries, bool right)
{
    static const char op[] = "bucketize";
    BR_OP(op);
    if (!br__same_device(op, "x", x, "boundaries", boundaries))
        return NULL;
    if (boundaries->ndim != 1)
        return br_fail(BR_ERROR_SHAPE, op, "boundaries %s must have one dimension",
                       br__shape(boundaries));
    br_scope *scope = br_no_grad_begin();
    if (br__mixed(x, boundaries))
        br__promote(&x, &boundaries);
    return br__composed(scope, found(op, boundaries, x, right));
}

/* Returns whether each of the elements is one of the integers in `line`, which is not empty; NULL
 * if these are too far apart for a table with a place for each value between. */
static br_tensor *found_in_table(br_tensor *elements, br_tensor *line)
{
    enum { SPARSE = 4 }; /* places for each number, at most */
    br_tensor *low = br_min(line), *high = br_max(line);
    const uint64_t range = (uint64_t)br_item_i64(high) - (uint64_t)br_item_i64(low);
    if (br_failed() || range / SPARSE > (uint64_t)(line->numel + elements->numel))
        return NULL;
    br_tensor *table = br_new_zeros(line, BR_SHAPE((int64_t)range + 1), BR_BOOL);
    br_index_fill_(table, 0, br_sub(line, low), 1);
    br_tensor *inside = br_logical_and(br_ge(elements, low), br_le(elements, high));
    br_tensor *place = br_sub(br_minimum(br_maximum(elements, low), high), low);
    return br_logical_and(inside, br_reshape(br_index_select(table, 0, br_flatten(place, 0, -1)),
                                             elements->ndim, elements->sizes));
}

/* An element is compared with the test element that is at its place in their order. */
br_tensor *br_isin(br_tensor *elements, br_tensor *test_elements, bool invert)
{
    static const char op[] = "isin";
    BR_OP(op);
    if (!br__same_device(op, "elements", elements, "test_elements", test_elements))
        return NULL;
    br_scope *scope = br_no_grad_begin();
    if (br__mixed(elements, test_elements))
        br__promote(&elements, &test_elements);
    br_tensor *line = br_flatten(test_elements, 0, -1);
    if (!line || line->numel == 0) {
        br_tensor *none =
            line ? br_new_full(elements, elements->ndim, elements->sizes, invert, BR_BOOL) : NULL;
        return br__composed(scope, none);
    }
    br_tensor *is_in = line->dtype == BR_I64 ? found_in_table(elements, line) : NULL;
    if (is_in || br_failed())
        return br__composed(scope, is_in && invert ? br_logical_not(is_in) : is_in);
    br_tensor *sorted = br_sort(line, 0, false, NULL);
    br_tensor *place = sorted ? found(op, sorted, elements, false) : NULL;
    place = br_clamp(place, 0, (double)(line->numel - 1));
    br_tensor *nearest = br_take(sorted, place);
    return br__composed(scope, invert ? br_ne(elements, nearest) : br_eq(elements, nearest));
}
