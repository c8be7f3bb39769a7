/* ops/shape/hstack_meshgrid.c - lists of tensors: hstack, vstack, dstack, block_diag,
 * broadcast_tensors, meshgrid, cartesian_prod; tensors with at least some dimensions. */
#include "ops/ops_internal.h"
#include "ops/shape/view_internal.h"
#include "tensor/min_max.h"

#include <inttypes.h>
#include <string.h>

/* ---- hstack, vstack, dstack ------------------------------------------------------------------ */

/* Returns t with at least `ndim` dimensions: [n] becomes [1, n] or [1, n, 1], and [n, m] becomes
 * [n, m, 1]. */
static br_tensor *at_least(br_tensor *t, int ndim)
{
    if (t->ndim == 0)
        t = br_reshape(t, BR_SHAPE(1));
    if (br_ndim(t) == 1 && ndim > 1)
        t = br_unsqueeze(t, 0);
    return br_ndim(t) == 2 && ndim > 2 ? br_unsqueeze(t, 2) : t;
}

static br_tensor *with_dims(const char *op, br_tensor *x, int ndim)
{
    BR_OP(op);
    if (!br__required(op, "x", x))
        return NULL;
    br_scope *scope = br_scope_begin();
    return br__composed(scope, at_least(x, ndim));
}

br_tensor *br_atleast_1d(br_tensor *x)
{
    return with_dims("atleast_1d", x, 1);
}

br_tensor *br_atleast_2d(br_tensor *x)
{
    return with_dims("atleast_2d", x, 2);
}

br_tensor *br_atleast_3d(br_tensor *x)
{
    return with_dims("atleast_3d", x, 3);
}

/* Checks that the parts, which are the tensors with new dimensions, have the device of the first
 * one and its shape except in dimension dim. */
static bool fit(const char *op, int n, br_tensor *const *tensors, br_tensor *const *parts,
                int64_t dim)
{
    for (int i = 1; i < n; i++) {
        const br_tensor *a = parts[0], *t = parts[i];
        char name[32];
        snprintf(name, sizeof name, "tensor %d", i);
        if (!br__same_device(op, name, tensors[i], "tensor 0", tensors[0]))
            return false;
        bool fits = a && t && a->ndim == t->ndim;
        for (int d = 0; fits && d < a->ndim; d++)
            fits = d == dim || a->sizes[d] == t->sizes[d];
        if (!fits && a && t)
            br_fail(BR_ERROR_SHAPE, op,
                    "tensor %d is %s, tensor 0 is %s: sizes must be equal except in dimension "
                    "%" PRId64,
                    i, br__shape(tensors[i]), br__shape(tensors[0]), dim);
    }
    return !br_failed();
}

static br_tensor *stacked(const char *op, int n, br_tensor *const *tensors, int ndim, int64_t dim)
{
    BR_OP(op);
    if (!br__check_list(op, n, tensors))
        return NULL;
    br_scope *scope = br_scope_begin();
    br_tensor **parts = br_calloc((size_t)n, sizeof *parts), *y = NULL;
    for (int i = 0; parts && i < n; i++)
        parts[i] = at_least(tensors[i], ndim);
    if (ndim == 1 && parts && br_ndim(parts[0]) == 1)
        dim = 0;
    if (!br_failed() && fit(op, n, tensors, parts, dim))
        y = br_cat(n, parts, dim);
    br_free(parts);
    return br__composed(scope, y);
}

br_tensor *br_hstack(int n, br_tensor *const *tensors)
{
    return stacked("hstack", n, tensors, 1, 1);
}

br_tensor *br_vstack(int n, br_tensor *const *tensors)
{
    return stacked("vstack", n, tensors, 2, 0);
}

br_tensor *br_dstack(int n, br_tensor *const *tensors)
{
    return stacked("dstack", n, tensors, 3, 2);
}

/* ---- block_diag ------------------------------------------------------------------------------ */

/* Returns the size of a block in dimension 0 or 1 of the result. */
static int64_t block_size(int ndim, const int64_t *sizes, int dim)
{
    return dim == 1 && ndim > 0 ? sizes[ndim - 1] : dim == 0 && ndim == 2 ? sizes[0] : 1;
}

static void block_diag_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    const int64_t *sizes;
    int ndim;
    for (int64_t i = 0, row = 0, column = 0; (sizes = br_input_sizes(node, (int)i, &ndim)); i++) {
        const int64_t rows = block_size(ndim, sizes, 0), columns = block_size(ndim, sizes, 1);
        if (br_needs_input_grad(node, (int)i)) {
            br_tensor *block = br_narrow(br_narrow(dy, 0, row, rows), 1, column, columns);
            dx[i] = br_reshape(block, ndim, sizes);
        }
        row += rows;
        column += columns;
    }
}

static const br_op block_diag_op = { .name = "block_diag", .backward = block_diag_backward };

/* Copies t to the place in y that begins at this row and column. */
static void put_block(const br_tensor *y, int64_t row, int64_t column, const br_tensor *t)
{
    br_tensor place = br__window(y), block = br__window(t);
    block.ndim = 2;
    for (int dim = 0; dim < 2; dim++) {
        const int own = t->ndim - 2 + dim;
        block.sizes[dim] = block_size(t->ndim, t->sizes, dim);
        block.strides[dim] = own < 0 ? 0 : t->strides[own];
        br__window_slice(&place, dim, dim == 0 ? row : column, block.sizes[dim], 1);
    }
    br__copy(&place, &block);
}

/* Places tensors of one dtype. */
static br_tensor *place_blocks(int n, br_tensor *const *tensors)
{
    static const char op[] = "block_diag";
    int64_t sizes[2] = { 0 }, row = 0, column = 0;
    for (int i = 0; i < n; i++)
        for (int dim = 0; dim < 2; dim++)
            if (__builtin_add_overflow(
                    sizes[dim], block_size(tensors[i]->ndim, tensors[i]->sizes, dim), &sizes[dim]))
                return br_fail(BR_ERROR_SHAPE, op, "the size of dimension %d would overflow", dim);
    br_tensor *y = br_zero_(br__new_on(op, tensors[0], 2, sizes, tensors[0]->dtype));
    for (int i = 0; y && i < n; i++) {
        if (tensors[i]->numel > 0)
            put_block(y, row, column, tensors[i]);
        row += block_size(tensors[i]->ndim, tensors[i]->sizes, 0);
        column += block_size(tensors[i]->ndim, tensors[i]->sizes, 1);
    }
    br_record(&block_diag_op, y, n, tensors, NULL, 0);
    return y;
}

br_tensor *br_block_diag(int n, br_tensor *const *tensors)
{
    static const char op[] = "block_diag";
    BR_OP(op);
    if (n == 0)
        return br_zeros(BR_SHAPE(1, 0), br__default_dtype(BR_KIND_FLOATING));
    if (!br__check_list(op, n, tensors))
        return NULL;
    for (int i = 0; i < n; i++) {
        char name[32];
        snprintf(name, sizeof name, "tensor %d", i);
        if (tensors[i]->ndim > 2)
            return br_fail(BR_ERROR_SHAPE, op, "%s is %s, must have at most two dimensions", name,
                           br__shape(tensors[i]));
        if (!br__same_device(op, "tensor 0", tensors[0], name, tensors[i]))
            return NULL;
    }
    br_scope *scope = br_scope_begin();
    const br_dtype dtype = br_result_type(n, tensors);
    br_tensor **converted = br_calloc((size_t)n, sizeof *converted);
    for (int i = 0; converted && i < n; i++)
        converted[i] = br_to(tensors[i], dtype);
    br_tensor *y = br_failed() ? NULL : place_blocks(n, converted);
    br_free(converted);
    return br__composed(scope, y);
}

/* ---- broadcast_tensors, meshgrid ------------------------------------------------------------- */

/* Returns n, or -1 after it has set all results to NULL. */
static int finished(int n, br_tensor **results)
{
    if (!br_failed())
        return n;
    for (int i = 0; results && i < n; i++)
        results[i] = NULL;
    return -1;
}

int br_broadcast_tensors(int n, br_tensor *const *tensors, br_tensor **results)
{
    static const char op[] = "broadcast_tensors";
    BR_OP(op);
    br_tensor common = { .ndim = 0 };
    if (!br__required(op, "results", results) || !br__check_list(op, n, tensors))
        return finished(n, results);
    for (int i = 0; i < n && !br_failed(); i++) {
        int64_t sizes[BR_MAX_DIMS];
        int ndim;
        char name[32];
        snprintf(name, sizeof name, "tensor %d", i);
        if (br__broadcast_named(op, "the tensors before", &common, name, tensors[i], &ndim,
                                sizes)) {
            common.ndim = ndim;
            memcpy(common.sizes, sizes, (size_t)ndim * sizeof *sizes);
        }
    }
    for (int i = 0; i < n && !br_failed(); i++)
        results[i] = br_expand(tensors[i], common.ndim, common.sizes);
    return finished(n, results);
}

/* Checks the tensors of a grid: at most one dimension each, and one dtype. */
static bool check_coordinates(const char *op, int n, br_tensor *const *tensors)
{
    if (!br__check_list(op, n, tensors))
        return false;
    if (n > BR_MAX_DIMS)
        br_fail(BR_ERROR_ARGUMENT, op, "got %d tensors, must be at most %d", n, BR_MAX_DIMS);
    for (int i = 0; i < n && !br_failed(); i++) {
        char name[32];
        snprintf(name, sizeof name, "tensor %d", i);
        if (tensors[i]->ndim > 1)
            br_fail(BR_ERROR_SHAPE, op, "%s is %s, must have at most one dimension", name,
                    br__shape(tensors[i]));
        else
            br__compatible(op, "tensor 0", tensors[0], name, tensors[i]);
    }
    return !br_failed();
}

int br_meshgrid(int n, br_tensor *const *tensors, br_meshgrid_indexing indexing,
                br_tensor **results)
{
    static const char op[] = "meshgrid";
    BR_OP(op);
    if (!br__required(op, "results", results) || !check_coordinates(op, n, tensors))
        return finished(n, results);
    if (indexing != BR_INDEXING_IJ && indexing != BR_INDEXING_XY)
        br_fail(BR_ERROR_ARGUMENT, op, "indexing is %d, must be BR_INDEXING_IJ or BR_INDEXING_XY",
                (int)indexing);
    const bool swaps = indexing == BR_INDEXING_XY && n > 1;
    int64_t sizes[BR_MAX_DIMS];
    for (int i = 0; i < n; i++)
        sizes[swaps && i < 2 ? 1 - i : i] = tensors[i]->numel;
    for (int i = 0; i < n && !br_failed(); i++) {
        int64_t own[BR_MAX_DIMS];
        const int dim = swaps && i < 2 ? 1 - i : i;
        for (int d = 0; d < n; d++)
            own[d] = d == dim ? sizes[d] : 1;
        results[i] = br_expand(br_reshape(tensors[i], n, own), n, sizes);
    }
    return finished(n, results);
}

br_tensor *br_cartesian_prod(int n, br_tensor *const *tensors)
{
    static const char op[] = "cartesian_prod";
    BR_OP(op);
    if (n >= BR_MAX_DIMS)
        return br_fail(BR_ERROR_ARGUMENT, op, "got %d tensors, must be at most %d", n,
                       BR_MAX_DIMS - 1);
    if (!check_coordinates(op, n, tensors))
        return NULL;
    for (int i = 0; i < n; i++)
        if (tensors[i]->ndim == 0)
            return br_fail(BR_ERROR_SHAPE, op, "tensor %d is [], must have one dimension", i);
    if (n == 1)
        return tensors[0];
    br_scope *scope = br_scope_begin();
    br_tensor *grids[BR_MAX_DIMS];
    br_meshgrid(n, tensors, BR_INDEXING_IJ, grids);
    return br__composed(scope, br_flatten(br_stack(n, grids, -1), 0, n - 1));
}
