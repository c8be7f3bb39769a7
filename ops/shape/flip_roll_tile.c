/* ops/shape/flip_roll_tile.c - elements in another order (flip, roll, movedim) and repeated
 * elements (tile, repeat_interleave). */
#include "ops/pointwise/widen.h"
#include "ops/shape/view_internal.h"
#include "tensor/min_max.h"

#include <inttypes.h>
#include <string.h>

/* Writes the dimensions, wrapped to 0 .. ndim - 1, to `wrapped`; fails if one is repeated. */
static bool distinct_dims(const char *op, const char *name, const br_tensor *x, int ndims,
                          const int64_t *dims, int64_t *wrapped)
{
    if (!br__required(op, "x", x))
        return false;
    if (ndims < 0 || ndims > BR_MAX_DIMS || (ndims > 0 && !dims)) {
        br_fail(BR_ERROR_ARGUMENT, op, "%d dimensions in %s, must be 0 .. %d", dims ? ndims : 0,
                name, BR_MAX_DIMS);
        return false;
    }
    unsigned seen = 0;
    for (int i = 0; i < ndims; i++) {
        wrapped[i] = dims[i];
        if (!br__wrap_dim(op, name, x, &wrapped[i]))
            return false;
        if (seen >> wrapped[i] & 1) {
            br_fail(BR_ERROR_ARGUMENT, op, "%s %s for x %s name dimension %" PRId64 " twice", name,
                    br__shape_of(ndims, dims), br__shape(x), wrapped[i]);
            return false;
        }
        seen |= 1u << wrapped[i];
    }
    return true;
}

/* ---- flip ------------------------------------------------------------------------------------ */

typedef struct dim_list {
    int n;
    int64_t dims[BR_MAX_DIMS];
    int64_t shifts[BR_MAX_DIMS]; /* roll: |shift| < size, so they can be negated */
} dim_list;

static void flip_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    const dim_list *list = br_params(node);
    dx[0] = br_flip(dy, list->n, list->dims);
}

static const br_op flip_op = { .name = "flip", .backward = flip_backward };

br_tensor *br_flip(br_tensor *x, int ndims, const int64_t *dims)
{
    BR_OP("flip");
    dim_list list = { .n = ndims };
    if (!distinct_dims("flip", "dims", x, ndims, dims, list.dims))
        return NULL;
    br_tensor *y = br__new_on("flip", x, x->ndim, x->sizes, x->dtype);
    if (!y)
        return NULL;
    br_tensor backwards = br__window(x);
    for (int i = 0; i < ndims && x->ndim > 0 && x->numel > 0; i++) {
        int dim = (int)list.dims[i];
        br__window_slice(&backwards, dim, x->sizes[dim] - 1, x->sizes[dim], -1);
    }
    br__copy(y, &backwards);
    return br__recorded(&flip_op, y, x, &list, sizeof list);
}

/* ---- roll ------------------------------------------------------------------------------------ */

static void roll_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    dim_list back = *(const dim_list *)br_params(node);
    for (int i = 0; i < back.n; i++)
        back.shifts[i] = -back.shifts[i];
    dx[0] = br_roll(dy, back.n, back.shifts, back.n, back.dims);
}

static const br_op roll_op = { .name = "roll", .backward = roll_backward };

/* Copies one combination of parts. A roll swaps the two parts of each rolled dimension; bit i of
 * `which` selects the part of the i-th one. */
static void copy_rolled(const br_tensor *y, const br_tensor *x, const dim_list *list,
                        unsigned which)
{
    br_tensor from = br__window(x), to = br__window(y);
    for (int i = 0; i < list->n; i++) {
        int dim = (int)list->dims[i];
        int64_t size = x->sizes[dim], first = list->shifts[i];
        first += first < 0 ? size : 0; /* the first elements of y are the last of x */
        bool last = which >> i & 1;
        br__window_slice(&from, dim, last ? 0 : size - first, last ? size - first : first, 1);
        br__window_slice(&to, dim, last ? first : 0, last ? size - first : first, 1);
    }
    br__copy(&to, &from);
}

static br_tensor *roll(br_tensor *x, dim_list *list)
{
    for (int i = 0; i < list->n; i++) {
        const int64_t size = x->sizes[list->dims[i]];
        list->shifts[i] = size > 0 ? list->shifts[i] % size : 0;
    }
    br_tensor *y = br__new_on("roll", x, x->ndim, x->sizes, x->dtype);
    for (unsigned which = 0; y && y->numel > 0 && which < 1u << list->n; which++)
        copy_rolled(y, x, list, which);
    return br__recorded(&roll_op, y, x, list, sizeof *list);
}

br_tensor *br_roll(br_tensor *x, int nshifts, const int64_t *shifts, int ndims, const int64_t *dims)
{
    BR_OP("roll");
    dim_list list = { .n = nshifts };
    if (!distinct_dims("roll", "dims", x, ndims, dims, list.dims))
        return NULL;
    bool flat = ndims == 0 && nshifts == 1;
    if (!shifts || nshifts < 1 || (nshifts != ndims && !flat))
        return br_fail(BR_ERROR_ARGUMENT, "roll",
                       "%d shifts and %d dims: must have one shift for each dim, or one shift "
                       "and no dims to roll the flattened x",
                       shifts ? nshifts : 0, ndims);
    memcpy(list.shifts, shifts, (size_t)nshifts * sizeof *shifts);
    if (x->ndim > 0 && !flat)
        return roll(x, &list);
    br_scope *scope = br_scope_begin();
    br_tensor *line = br_reshape(x, BR_SHAPE(-1 + (x->numel == 0)));
    br_tensor *y = line ? roll(line, &(dim_list){ 1, { 0 }, { shifts[0] } }) : NULL;
    return br__composed(scope, br_reshape(y, x->ndim, x->sizes));
}

/* ---- movedim --------------------------------------------------------------------------------- */

br_tensor *br_movedim(br_tensor *x, int nsource, const int64_t *source, int ndestination,
                      const int64_t *destination)
{
    BR_OP("movedim");
    int64_t from[BR_MAX_DIMS], to[BR_MAX_DIMS], order[BR_MAX_DIMS];
    if (!distinct_dims("movedim", "source", x, nsource, source, from) ||
        !distinct_dims("movedim", "destination", x, ndestination, destination, to))
        return NULL;
    if (nsource != ndestination)
        return br_fail(BR_ERROR_ARGUMENT, "movedim",
                       "%d dimensions in source and %d in destination: must have the same number",
                       nsource, ndestination);
    unsigned moved = 0, used = 0;
    for (int i = 0; i < nsource && x->ndim > 0; i++) {
        order[to[i]] = from[i];
        moved |= 1u << from[i];
        used |= 1u << to[i];
    }
    for (int place = 0, dim = 0; place < x->ndim; place++) {
        if (used >> place & 1)
            continue;
        while (moved >> dim & 1)
            dim++;
        order[place] = dim++;
    }
    return br__composed(NULL, br_permute(x, x->ndim, order));
}

/* ---- Repeated elements ----------------------------------------------------------------------- */

br_tensor *br_tile(br_tensor *x, int ndim, const int64_t *counts)
{
    BR_OP("tile");
    int64_t all[BR_MAX_DIMS];
    if (!br__required("tile", "x", x))
        return NULL;
    if (ndim < 0 || ndim > BR_MAX_DIMS || (ndim > 0 && !counts))
        return br_fail(BR_ERROR_SHAPE, "tile", "%d counts for x %s, must be 0 .. %d",
                       counts ? ndim : 0, br__shape(x), BR_MAX_DIMS);
    int n = br__max(ndim, x->ndim);
    for (int i = 0; i < n; i++)
        all[i] = i < n - ndim ? 1 : counts[i - (n - ndim)];
    return br__composed(NULL, br_repeat(x, n, all));
}

/* Returns x, or x flattened if *dim is BR_ALL or x is 0-d; wraps *dim to 0 .. ndim - 1. */
static br_tensor *line_or_self(const char *op, br_tensor *x, int64_t *dim)
{
    if (!br__required(op, "x", x))
        return NULL;
    if (*dim == BR_ALL || x->ndim == 0) {
        if (*dim != BR_ALL && !br__wrap_dim(op, "dim", x, dim))
            return NULL;
        *dim = 0;
        return br_flatten(x, 0, -1);
    }
    return br__wrap_dim(op, "dim", x, dim) ? x : NULL;
}

br_tensor *br_repeat_interleave_scalar(br_tensor *x, int64_t repeats, int64_t dim)
{
    static const char op[] = "repeat_interleave_scalar";
    BR_OP(op);
    br_scope *scope = br_scope_begin();
    x = line_or_self(op, x, &dim);
    int64_t sizes[BR_MAX_DIMS + 1], length = 0;
    if (x && (repeats < 0 || __builtin_mul_overflow(x->sizes[dim], repeats, &length)))
        br_fail(BR_ERROR_ARGUMENT, op, "repeats is %" PRId64 " for x %s, %s", repeats, br__shape(x),
                repeats < 0 ? "must be at least 0" : "which is too large");
    br_tensor *y = NULL;
    if (!br_failed()) {
        for (int i = 0; i <= x->ndim; i++)
            sizes[i] = i == dim + 1 ? repeats : x->sizes[i <= dim ? i : i - 1];
        y = br_expand(br_unsqueeze(x, dim + 1), x->ndim + 1, sizes);
        sizes[dim] = length;
        memmove(sizes + dim + 1, sizes + dim + 2, (size_t)(x->ndim - 1 - dim) * sizeof *sizes);
        y = br_reshape(y, x->ndim, sizes);
    }
    return br__composed(scope, y);
}

/* Returns the sum of the contiguous counts; -1 with an error if one is negative or the sum
 * overflows. */
static int64_t sum_counts(const char *op, br_tensor *repeats)
{
    const int64_t *count = br__host_i64(repeats);
    int64_t sum = 0;
    for (int64_t i = 0; count && i < repeats->numel; i++) {
        if (count[i] < 0 || __builtin_add_overflow(sum, count[i], &sum)) {
            br_fail(BR_ERROR_ARGUMENT, op, "repeats is %" PRId64 " at position %" PRId64 ", %s",
                    count[i], i, count[i] < 0 ? "must be at least 0" : "which is too large");
            return -1;
        }
    }
    return sum;
}

/* Returns the indices 0 .. length - 1, each repeated according to its count. */
static br_tensor *repeated_indices(const char *op, br_tensor *repeats, int64_t length)
{
    repeats = br_contiguous(br_expand(repeats, BR_SHAPE(length)));
    int64_t n = repeats ? sum_counts(op, repeats) : -1;
    const int64_t *count = n < 0 ? NULL : br__host_i64(repeats);
    int64_t *out = NULL;
    br_tensor *index = count ? br__new_host_i64(op, BR_SHAPE(n), &out) : NULL;
    for (int64_t i = 0; out && i < repeats->numel; i++)
        for (int64_t k = 0; k < count[i]; k++)
            *out++ = i;
    return index ? br__placed(op, br__backend_of(repeats), index) : NULL;
}

br_tensor *br_repeat_interleave(br_tensor *x, br_tensor *repeats, int64_t dim)
{
    static const char op[] = "repeat_interleave";
    BR_OP(op);
    br_scope *scope = br_scope_begin();
    br_tensor *y = NULL;
    if (br__is_whole(repeats))
        repeats = br_to(repeats, BR_I64);
    x = line_or_self(op, x, &dim);
    if (x && br__has_dtype(op, "repeats", repeats, BR_I64) &&
        br__same_device(op, "x", x, "repeats", repeats)) {
        int64_t n = x->sizes[dim];
        if (repeats->ndim > 1 || (repeats->numel != 1 && repeats->numel != n))
            br_fail(BR_ERROR_SHAPE, op,
                    "repeats %s for x %s: must have one element, or one for each of the %" PRId64
                    " elements of dimension %" PRId64,
                    br__shape(repeats), br__shape(x), n, dim);
        else
            y = br_index_select(x, dim, repeated_indices(op, repeats, n));
    }
    return br__composed(scope, y);
}
