/* ops/index/checks.c - what the operations that read or write at indices share: checks of the
 * indices, and the call of the backend that writes. */
#include "ops/index/index_internal.h"

#include <inttypes.h>

/* Returns the position of the first element outside 0 .. size - 1, or -1. An element i is outside
 * if i or size - 1 - i is negative, which the sign bits of many tell at once. */
static int64_t first_outside(const int64_t *index, int64_t n, int64_t size)
{
    enum { BLOCK = 64 };
    const uint64_t last = (uint64_t)size - 1;
    int64_t i = 0;
    for (uint64_t bits = 0; size > 0 && n - i >= BLOCK; i += BLOCK) {
        for (int k = 0; k < BLOCK; k++)
            bits |= (uint64_t)index[i + k] | (last - (uint64_t)index[i + k]);
        if (bits >> 63)
            break;
    }
    for (; i < n; i++)
        if ((uint64_t)index[i] >= (uint64_t)size)
            return i;
    return -1;
}

const char *br__position(const br_tensor *t, int64_t i)
{
    int64_t position[BR_MAX_DIMS];
    for (int d = t->ndim - 1; d >= 0; d--) {
        position[d] = i % t->sizes[d];
        i /= t->sizes[d];
    }
    return br__shape_of(t->ndim, position);
}

/* Checks that the index is on the device of a quantized x. */
static bool is_beside(const char *op, const br_tensor *index, const br_tensor *x)
{
    if (!br__required(op, "index", index))
        return false;
    if (br__backend_of(index) == br__backend_of(x))
        return true;
    br_fail(BR_ERROR_ARGUMENT, op,
            "index %s is on %s and x %s is on %s: operands must be on one device", br__shape(index),
            br__backend_of(index)->name, br__shape(x), br__backend_of(x)->name);
    return false;
}

bool br__check_index(const char *op, br_tensor *index, const br_tensor *x, int64_t dim)
{
    int64_t size = x->ndim > 0 ? x->sizes[dim] : 1;
    if (br__is_quantized(x) ? !is_beside(op, index, x)
                            : !br__same_device(op, "index", index, "x", x))
        return false;
    br_scope *scope = br_scope_begin();
    br_tensor *once = index; /* each element once: an expanded index repeats some */
    for (int d = 0; d < index->ndim; d++)
        if (index->strides[d] == 0 && index->sizes[d] > 1)
            once = br_narrow(once, d, 0, 1);
    const int64_t *values = br__host_i64(once);
    int64_t bad = values ? first_outside(values, once->numel, size) : -1;
    if (bad >= 0)
        br_fail(BR_ERROR_INDEX, op,
                "index %" PRId64 " at position %s is outside 0 .. %" PRId64 ": dimension %" PRId64
                " of the indexed %s has size %" PRId64,
                values[bad], br__position(once, bad), size - 1, dim, br__shape(x), size);
    br_scope_end(scope);
    return !br_failed();
}

br_tensor *br__wrap_index(const char *op, br_tensor *index, const br_tensor *x, int64_t size)
{
    if (!br__same_device(op, "index", index, "x", x))
        return NULL;
    const int64_t *values = br__host_i64(index);
    bool negative = false;
    for (int64_t i = 0; values && i < index->numel; i++) {
        if (values[i] < -size || values[i] >= size)
            return br_fail(BR_ERROR_INDEX, op,
                           "index %" PRId64 " at position %s is outside %" PRId64 " .. %" PRId64,
                           values[i], br__position(index, i), -size, size - 1);
        negative = negative || values[i] < 0;
    }
    if (!negative)
        return br_contiguous(index);
    int64_t *out;
    br_tensor *wrapped = br__new_host_i64(op, index->ndim, index->sizes, &out);
    for (int64_t i = 0; out && i < index->numel; i++)
        out[i] = values[i] + (values[i] < 0 ? size : 0);
    return br__placed(op, br__backend_of(index), wrapped);
}

br_tensor br__line(const br_tensor *t)
{
    br_tensor w = br__window(t);
    if (t->ndim == 0) {
        w.ndim = 1;
        w.sizes[0] = w.strides[0] = 1;
    }
    return w;
}

bool br__check_scatter(const char *op, const br_tensor *x, int64_t dim, br_tensor *index,
                       const br_tensor *src)
{
    br_tensor to = br__line(x), by = br__line(index), from = br__line(src ? src : index);
    bool fits = by.ndim == to.ndim && by.ndim == from.ndim;
    for (int i = 0; fits && i < to.ndim; i++)
        fits = (i == dim || by.sizes[i] <= to.sizes[i]) && by.sizes[i] <= from.sizes[i];
    if (!fits)
        br_fail(BR_ERROR_SHAPE, op,
                "index %s for x %s and src %s: must have the same number of dimensions, and index "
                "must not be larger than src, nor than x except in dimension %" PRId64,
                br__shape(index), br__shape(x), br__shape(src ? src : index), dim);
    return !br_failed() && br__check_index(op, index, x, dim);
}

void br__scatter(const char *op, const br_tensor *x, const br_tensor *y, const br_tensor *index,
                 int dim, int64_t skip, br_combine combine)
{
    const br_backend *backend = BR_BACKEND(op, x, scatter);
    BR_TRAFFIC(y, y, y, index); /* y->numel elements of x are read and written */
    if (backend)
        backend->scatter(x, y, index, dim, skip, combine);
}
