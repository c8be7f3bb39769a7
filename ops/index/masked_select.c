/* ops/index/masked_select.c - selection by masks and by several indices at once: nonzero,
 * masked_select, masked_scatter, index, index_put, take, take_along_dim.
 *
 * All are composed of operations that index one dimension, and so are their gradients. */
#include "ops/index/index_internal.h"
#include "ops/pointwise/widen.h"

#include <inttypes.h>
#include <string.h>

/* ---- nonzero --------------------------------------------------------------------------------- */

/* Returns the positions, [n, ndim], at which a contiguous bool tensor, viewed with the given sizes,
 * is true. */
static br_tensor *places(const char *op, const br_tensor *mask, int ndim, const int64_t *sizes)
{
    const br_backend *backend = BR_BACKEND(op, mask, nonzero);
    br_tensor *out = backend ? backend->nonzero(op, mask, ndim, sizes) : NULL;
    if (out)
        BR_TRAFFIC(out, mask);
    return out;
}

/* Returns x as a contiguous bool tensor. */
static br_tensor *as_bool(br_tensor *x)
{
    return br_contiguous(x && x->dtype != BR_BOOL ? br_ne_scalar(x, 0) : x);
}

/* Returns the positions at which the flattened mask is true: [n]. */
static br_tensor *flat_places(const char *op, br_tensor *mask)
{
    mask = as_bool(mask);
    return mask ? br_squeeze(places(op, mask, BR_SHAPE(mask->numel)), 1) : NULL;
}

br_tensor *br_nonzero(br_tensor *x)
{
    BR_OP("nonzero");
    if (!br__required("nonzero", "x", x))
        return NULL;
    br_scope *scope = br_no_grad_begin();
    br_tensor *mask = as_bool(x);
    return br__composed(scope, mask ? places("nonzero", mask, x->ndim, x->sizes) : NULL);
}

/* ---- Masks ----------------------------------------------------------------------------------- */

/* Broadcasts x and a bool mask to a common shape and flattens both. */
static bool flatten_both(const char *op, br_tensor **x, br_tensor **mask, int *ndim, int64_t *sizes)
{
    if (!br__required(op, "x", *x) || !br__has_dtype(op, "mask", *mask, BR_BOOL) ||
        !br__broadcast_named(op, "x", *x, "mask", *mask, ndim, sizes))
        return false;
    *x = br_flatten(br_expand(*x, *ndim, sizes), 0, -1);
    *mask = br_flatten(br_expand(*mask, *ndim, sizes), 0, -1);
    return !br_failed();
}

br_tensor *br_masked_select(br_tensor *x, br_tensor *mask)
{
    static const char op[] = "masked_select";
    BR_OP(op);
    int ndim;
    int64_t sizes[BR_MAX_DIMS];
    br_scope *scope = br_scope_begin();
    br_tensor *y = NULL;
    if (flatten_both(op, &x, &mask, &ndim, sizes))
        y = br_index_select(x, 0, flat_places(op, mask));
    return br__composed(scope, y);
}

br_tensor *br_masked_scatter(br_tensor *x, br_tensor *mask, br_tensor *source)
{
    static const char op[] = "masked_scatter";
    BR_OP(op);
    int ndim;
    int64_t sizes[BR_MAX_DIMS];
    br_scope *scope = br_scope_begin();
    br_tensor *y = NULL, *place = NULL;
    if (br__required(op, "source", source) && br__compatible(op, "x", x, "source", source) &&
        flatten_both(op, &x, &mask, &ndim, sizes))
        place = flat_places(op, mask);
    if (place && place->numel > source->numel)
        br_fail(BR_ERROR_SHAPE, op,
                "source %s has fewer elements than the %" PRId64 " that the mask selects",
                br__shape(source), place->numel);
    if (place && !br_failed()) {
        source = br_narrow(br_flatten(source, 0, -1), 0, 0, place->numel);
        y = br_reshape(br_index_copy(x, 0, place, source), ndim, sizes);
    }
    return br__composed(scope, y);
}

/* ---- Indexing by several tensors ------------------------------------------------------------- */

/* The plan of x[i0, :, i1]: the indexed dimensions are moved to the front and merged into one, and
 * the indices, which broadcast, are combined into positions in it. */
typedef struct indexing {
    br_tensor *rows;        /* [product of the indexed sizes, ... the other dimensions] */
    br_tensor *place;       /* [number of positions] */
    int n;                  /* number of indexed dimensions */
    int order[BR_MAX_DIMS]; /* x's dimensions as ordered in `rows`, before the first n are merged */
    int index_ndim;         /* the shape that the indices broadcast to */
    int64_t index_sizes[BR_MAX_DIMS];
    int at; /* the result's dimension at which that shape begins */
} indexing;

/* An index for each dimension. A bool mask is replaced by one index for each of its dimensions. */
typedef struct index_list {
    br_tensor *of[BR_MAX_DIMS]; /* NULL: the whole dimension */
} index_list;

static bool spread_mask(const char *op, const br_tensor *x, br_tensor *mask, int dim,
                        index_list *list)
{
    bool fits = dim + mask->ndim <= x->ndim && mask->ndim > 0;
    for (int i = 0; fits && i < mask->ndim; i++)
        fits = mask->sizes[i] == x->sizes[dim + i];
    if (!fits) {
        br_fail(BR_ERROR_SHAPE, op, "mask %s at dimension %d of x %s: sizes must be equal",
                br__shape(mask), dim, br__shape(x));
        return false;
    }
    br_tensor *place = br_nonzero(mask);
    for (int i = 0; i < mask->ndim; i++)
        list->of[dim + i] = br_select(place, 1, i);
    return !br_failed();
}

static bool list_indices(const char *op, const br_tensor *x, int n, br_tensor *const *indices,
                         index_list *list)
{
    int dim = 0;
    if (n < 0 || (n > 0 && !indices))
        br_fail(BR_ERROR_ARGUMENT, op, "indices must be a list of n = %d tensors", n);
    for (int i = 0; i < n && !br_failed(); i++) {
        br_tensor *index = br__is_short_index(indices[i]) ? br_to(indices[i], BR_I64) : indices[i];
        if (index && index->dtype == BR_BOOL) {
            dim += spread_mask(op, x, index, dim, list) ? index->ndim : 0;
            continue;
        }
        if (dim >= x->ndim)
            br_fail(BR_ERROR_INDEX, op, "too many indices for x %s", br__shape(x));
        else if (index && br__has_dtype(op, "index", index, BR_I64))
            list->of[dim] = br__wrap_index(op, index, x, x->sizes[dim]);
        dim++;
    }
    return !br_failed();
}

/* Computes the shape that the indices broadcast to and where it is in the result: at the first
 * indexed dimension if the indexed dimensions are adjacent, otherwise at the front. */
static bool broadcast_indices(const char *op, const index_list *list, int ndim, indexing *g)
{
    br_tensor all = { .ndim = 0 };
    int first = -1, last = -1;
    for (int d = 0; d < ndim; d++) {
        if (!list->of[d])
            continue;
        if (first < 0)
            all.storage = list->of[d]->storage;
        br_tensor before = all;
        if (!br__broadcast_named(op, "the previous indices", &before, "index", list->of[d],
                                 &all.ndim, all.sizes))
            return false;
        first = first < 0 ? d : first;
        last = d;
        g->order[g->n++] = d;
    }
    g->at = last - first + 1 == g->n && g->n > 0 ? first : 0;
    g->index_ndim = all.ndim;
    memcpy(g->index_sizes, all.sizes, sizeof all.sizes);
    int at = g->n;
    for (int d = 0; d < ndim; d++)
        if (!list->of[d])
            g->order[at++] = d;
    return true;
}

/* Returns the positions: the sum of the indices times the strides of their dimensions in `rows`. */
static br_tensor *places_of(const br_tensor *x, const index_list *list, const indexing *g)
{
    br_scope *scope = br_no_grad_begin();
    br_tensor *place = NULL;
    int64_t step = 1;
    for (int i = g->n - 1; i >= 0; step *= x->sizes[g->order[i--]]) {
        br_tensor *index =
            step == 1 ? list->of[g->order[i]] : br_mul_scalar(list->of[g->order[i]], (double)step);
        place = place ? br_add(place, index) : index;
    }
    place = br_flatten(br_expand(place, g->index_ndim, g->index_sizes), 0, -1);
    return br__composed(scope, place);
}

/* Prepares the indexing; fails and returns false if the indices do not fit x. `rows` and `place`
 * belong to the innermost scope. */
static bool begin_indexing(const char *op, br_tensor *x, int n, br_tensor *const *indices,
                           indexing *g)
{
    index_list list = { { NULL } };
    int64_t order[BR_MAX_DIMS], sizes[BR_MAX_DIMS + 1] = { 1 };
    memset(g, 0, sizeof *g);
    if (!br__required(op, "x", x) || !list_indices(op, x, n, indices, &list) ||
        !broadcast_indices(op, &list, x->ndim, g))
        return false;
    if (g->n == 0) {
        br_fail(BR_ERROR_ARGUMENT, op, "all indices are NULL, at least one tensor is required");
        return false;
    }
    for (int d = 0; d < x->ndim; d++) {
        order[d] = g->order[d];
        sizes[d < g->n ? 0 : d - g->n + 1] = x->sizes[order[d]] * (d < g->n ? sizes[0] : 1);
    }
    g->rows = br_reshape(br_permute(x, x->ndim, order), x->ndim - g->n + 1, sizes);
    g->place = places_of(x, &list, g);
    return !br_failed();
}

/* Computes the result's sizes with the indices' dimensions in front, and returns their number; -1
 * with an error if there are too many. */
static int result_sizes(const char *op, const indexing *g, int64_t *sizes)
{
    int rest = g->rows->ndim - 1;
    if (g->index_ndim + rest > BR_MAX_DIMS) {
        br_fail(BR_ERROR_SHAPE, op, "the result would have %d dimensions, must be at most %d",
                g->index_ndim + rest, BR_MAX_DIMS);
        return -1;
    }
    memcpy(sizes, g->index_sizes, (size_t)g->index_ndim * sizeof *sizes);
    memcpy(sizes + g->index_ndim, g->rows->sizes + 1, (size_t)rest * sizeof *sizes);
    return g->index_ndim + rest;
}

/* Moves the indices' dimensions from the front to their place in the result, or back. */
static br_tensor *move_indices(br_tensor *t, const indexing *g, bool back)
{
    int64_t front[BR_MAX_DIMS], place[BR_MAX_DIMS];
    for (int i = 0; i < g->index_ndim; i++) {
        front[i] = i;
        place[i] = g->at + i;
    }
    return g->at == 0 ? t
                      : br_movedim(t, g->index_ndim, back ? place : front, g->index_ndim,
                                   back ? front : place);
}

br_tensor *br__index(const char *op, br_tensor *x, int n, br_tensor *const *indices)
{
    BR_OP(op);
    indexing g;
    int64_t sizes[BR_MAX_DIMS];
    br_scope *scope = br_scope_begin();
    br_tensor *y = NULL;
    if (begin_indexing(op, x, n, indices, &g)) {
        int ndim = result_sizes(op, &g, sizes);
        y = br_failed() ? NULL : br_reshape(br_index_select(g.rows, 0, g.place), ndim, sizes);
        y = move_indices(y, &g, false);
    }
    return br__composed(scope, y);
}

br_tensor *br_index(br_tensor *x, int n, br_tensor *const *indices)
{
    return br__index("index", x, n, indices);
}

/* Broadcasts the values to the shape of index()'s result and returns them as rows for the
 * positions. */
static br_tensor *value_rows(const char *op, const br_tensor *x, br_tensor *values,
                             const indexing *g)
{
    int64_t sizes[BR_MAX_DIMS], moved[BR_MAX_DIMS];
    int ndim = result_sizes(op, g, sizes), rest = g->rows->ndim - 1;
    if (br_failed())
        return NULL;
    memcpy(moved, sizes + g->index_ndim, (size_t)g->at * sizeof *moved);
    memcpy(moved + g->at, sizes, (size_t)g->index_ndim * sizeof *moved);
    memcpy(moved + g->at + g->index_ndim, sizes + g->index_ndim + g->at,
           (size_t)(rest - g->at) * sizeof *moved);
    bool fits = values->ndim <= ndim;
    for (int i = 1; fits && i <= values->ndim; i++) {
        int64_t size = values->sizes[values->ndim - i];
        fits = size == 1 || size == moved[ndim - i];
    }
    if (!fits)
        return br_fail(
            BR_ERROR_SHAPE, op,
            "values %s do not broadcast to %s, the shape that the indices select from x %s",
            br__shape(values), br__shape_of(ndim, moved), br__shape(x));
    values = move_indices(br_expand(values, ndim, moved), g, true);
    sizes[0] = g->place->numel;
    memcpy(sizes + 1, g->rows->sizes + 1, (size_t)rest * sizeof *sizes);
    return br_reshape(values, rest + 1, sizes);
}

/* Returns the changed `rows` with the dimensions in x's order. */
static br_tensor *as_before(br_tensor *rows, const br_tensor *x, const indexing *g)
{
    int64_t sizes[BR_MAX_DIMS], inverse[BR_MAX_DIMS];
    for (int d = 0; d < x->ndim; d++) {
        sizes[d] = x->sizes[g->order[d]];
        inverse[g->order[d]] = d;
    }
    return br_contiguous(br_permute(br_reshape(rows, x->ndim, sizes), x->ndim, inverse));
}

br_tensor *br_index_put(br_tensor *x, int n, br_tensor *const *indices, br_tensor *values,
                        bool accumulate)
{
    static const char op[] = "index_put";
    BR_OP(op);
    indexing g;
    br_scope *scope = br_scope_begin();
    br_tensor *y = NULL;
    if (br__compatible(op, "x", x, "values", values) && begin_indexing(op, x, n, indices, &g)) {
        br_tensor *rows = value_rows(op, x, values, &g);
        y = accumulate ? br_index_add(g.rows, 0, g.place, rows, 1)
                       : br_index_copy(g.rows, 0, g.place, rows);
        y = as_before(y, x, &g);
    }
    return br__composed(scope, y);
}

/* ---- take ------------------------------------------------------------------------------------ */

br_tensor *br_take(br_tensor *x, br_tensor *index)
{
    BR_OP("take");
    if (!br__required("take", "x", x) || !br__has_dtype("take", "index", index, BR_I64))
        return NULL;
    br_scope *scope = br_scope_begin();
    br_tensor *place = br__wrap_index("take", br_flatten(index, 0, -1), x, x->numel);
    br_tensor *y = br_index_select(br_flatten(x, 0, -1), 0, place);
    return br__composed(scope, br_reshape(y, index->ndim, index->sizes));
}

/* Computes the sizes that x and index broadcast to, except that dimension dim has x's size. */
static bool broadcast_along(const char *op, const br_tensor *x, const br_tensor *index, int64_t dim,
                            int64_t *sizes)
{
    bool fits = x->ndim == index->ndim;
    for (int i = 0; fits && i < x->ndim; i++) {
        int64_t a = x->sizes[i], b = index->sizes[i];
        fits = i == dim || a == b || a == 1 || b == 1;
        sizes[i] = i == dim || a != 1 ? a : b;
    }
    if (!fits)
        br_fail(BR_ERROR_SHAPE, op,
                "x %s and index %s: must have the same number of dimensions, and sizes that are "
                "equal or 1 except in dimension %" PRId64,
                br__shape(x), br__shape(index), dim);
    return fits;
}

br_tensor *br_take_along_dim(br_tensor *x, br_tensor *index, int64_t dim)
{
    static const char op[] = "take_along_dim";
    BR_OP(op);
    int64_t sizes[BR_MAX_DIMS];
    if (!br__required(op, "x", x) || !br__has_dtype(op, "index", index, BR_I64))
        return NULL;
    br_scope *scope = br_scope_begin();
    br_tensor *y = NULL;
    if (dim == BR_ALL) {
        index = br__wrap_index(op, index, x, x->numel);
        y = br_gather(br_flatten(x, 0, -1), 0, br_flatten(index, 0, -1));
    } else if (br__wrap_dim(op, "dim", x, &dim) && broadcast_along(op, x, index, dim, sizes) &&
               (index = br__wrap_index(op, index, x, x->ndim == 0 ? 1 : x->sizes[dim]))) {
        x = br_expand(x, x->ndim, sizes);
        if (index->ndim > 0)
            sizes[dim] = index->sizes[dim];
        y = br_gather(x, dim, br_expand(index, index->ndim, sizes));
    }
    return br__composed(scope, y);
}
