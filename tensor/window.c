/* tensor/window.c - windows, which are tensor headers that can be narrowed. */
#include "tensor/tensor_internal.h"

#include <string.h>

br_tensor br__window(const br_tensor *t)
{
    /* Copied field by field: other threads may change t's reference count meanwhile. */
    br_tensor window = { .dtype = t->dtype,
                         .ndim = t->ndim,
                         .is_view = t->is_view,
                         .numel = t->numel,
                         .data = t->data,
                         .storage = t->storage };
    memcpy(window.sizes, t->sizes, sizeof window.sizes);
    memcpy(window.strides, t->strides, sizeof window.strides);
    return window;
}

void br__window_reshape(br_tensor *window, int ndim, const int64_t *sizes, const int64_t *strides)
{
    window->ndim = ndim;
    window->numel = 1;
    for (int d = 0; d < ndim; d++) {
        window->sizes[d] = sizes[d];
        window->strides[d] = strides[d];
        window->numel *= sizes[d];
    }
}

void br__window_slice(br_tensor *window, int dim, int64_t start, int64_t length, int64_t step)
{
    window->data += start * window->strides[dim] * (int64_t)br__dtype_size(window->dtype);
    window->numel = length;
    for (int i = 0; i < window->ndim; i++)
        window->numel *= i == dim ? 1 : window->sizes[i];
    window->sizes[dim] = length;
    /* A single element needs no stride, and `step` may be too large to multiply. */
    if (length > 1)
        window->strides[dim] *= step;
    window->contiguous = false;
}

br_tensor br__window_element(const br_tensor *t, int64_t offset)
{
    br_tensor element = br__window(t);
    br__window_reshape(&element, 0, NULL, NULL);
    br__window_move(&element, offset);
    element.contiguous = true;
    return element;
}

/* Elements share no memory if, with the dimensions sorted by stride, each stride is larger than the
 * span of all dimensions before it. */
bool br__shares_elements(const br_tensor *t)
{
    int order[BR_MAX_DIMS], n = 0;
    if (t->contiguous)
        return false;
    for (int d = 0; d < t->ndim; d++) {
        if (t->sizes[d] == 0)
            return false;
        if (t->sizes[d] == 1)
            continue;
        int at = n++;
        for (; at > 0 && t->strides[order[at - 1]] > t->strides[d]; at--)
            order[at] = order[at - 1];
        order[at] = d;
    }
    int64_t span = 0;
    for (int i = 0; i < n; i++) {
        if (t->strides[order[i]] <= span)
            return true;
        span += t->strides[order[i]] * (t->sizes[order[i]] - 1);
    }
    return false;
}

void br__set_number(const br_tensor *window, double number)
{
    br_tensor value;
    br__host_number(&value, BR_F64, &number);
    br__copy(window, &value);
}

/* Returns the smallest dimension with more than one element. */
static int smallest_dim(const br_tensor *t)
{
    int smallest = -1;
    for (int d = 0; d < t->ndim; d++)
        if (t->sizes[d] > 1 && (smallest < 0 || t->sizes[d] < t->sizes[smallest]))
            smallest = d;
    return smallest;
}

/* Threads must not write to the same element at the same time. So an expanded dimension is filled
 * once, and windows that overlap are filled one after another. */
void br__set_window(const br_tensor *t, const br_tensor *value)
{
    br_tensor part = br__window(t);
    for (int d = 0; d < part.ndim; d++)
        if (part.strides[d] == 0 && part.sizes[d] > 1)
            br__window_slice(&part, d, 0, 1, 1);
    if (!br__shares_elements(&part)) {
        br__copy(&part, value);
        return;
    }
    int dim = smallest_dim(&part);
    for (int64_t i = 0; i < part.sizes[dim]; i++) {
        br_tensor slice = part;
        br__window_slice(&slice, dim, i, 1, 1);
        br__set_window(&slice, value);
    }
}
