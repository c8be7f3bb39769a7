/* ops/shape/cat_stack_repeat.c - cat, stack, repeat. */
#include "ops/pointwise/promotion.h"
#include "ops/pointwise/widen.h"
#include "ops/shape/view_internal.h"
#include "tensor/min_max.h"

#include <inttypes.h>
#include <string.h>

/* ---- cat and stack --------------------------------------------------------------------------- */

typedef br_tensor *joining_function(int n, br_tensor *const *tensors, int64_t dim);

/* Joins tensors of different dtypes, converted to one dtype. */
static br_tensor *promoted(joining_function *join, int n, br_tensor *const *tensors, int64_t dim)
{
    br_scope *scope = br_scope_begin();
    br_tensor **converted = br_calloc((size_t)n, sizeof *converted);
    const br_dtype dtype = br_result_type(n, tensors);
    for (int i = 0; converted && i < n; i++)
        converted[i] = br_to(tensors[i], dtype);
    br_tensor *y = br_failed() ? NULL : join(n, converted, dim);
    br_free(converted);
    return br__composed(scope, y);
}

static bool are_mixed(int n, br_tensor *const *tensors)
{
    bool same = true;
    for (int i = 1; i < n; i++)
        same &= tensors[i]->dtype == tensors[0]->dtype;
    return !same;
}

/* Checks that tensor i has the device and the sizes of tensor `first`, except in dimension
 * `free_dim`. */
static bool fits(const char *op, br_tensor *const *tensors, int first, int i, int64_t free_dim)
{
    const br_tensor *a = tensors[first], *t = tensors[i];
    if (br__backend_of(t) != br__backend_of(a)) {
        char name[32], first_name[32];
        snprintf(name, sizeof name, "tensor %d", i);
        snprintf(first_name, sizeof first_name, "tensor %d", first);
        return br__same_device(op, name, t, first_name, a);
    }
    bool same = t->ndim == a->ndim;
    for (int d = 0; same && d < t->ndim; d++)
        same = d == free_dim || t->sizes[d] == a->sizes[d];
    if (same)
        return true;
    if (free_dim < 0)
        br_fail(BR_ERROR_SHAPE, op, "tensor %d is %s, tensor %d is %s: shapes must be equal", i,
                br__shape(t), first, br__shape(a));
    else
        br_fail(
            BR_ERROR_SHAPE, op,
            "tensor %d is %s, tensor %d is %s: sizes must be equal except in dimension %" PRId64, i,
            br__shape(t), first, br__shape(a), free_dim);
    return false;
}

bool br__check_list(const char *op, int n, br_tensor *const *tensors)
{
    if (br_failed())
        return false;
    if (n < 1) {
        br_fail(BR_ERROR_ARGUMENT, op, "got %d tensors, must be at least one", n);
        return false;
    }
    if (!tensors) {
        br_fail(BR_ERROR_ARGUMENT, op, "tensors is NULL, but n is %d", n);
        return false;
    }
    for (int i = 0; i < n; i++)
        if (!br__required_item(op, "tensor", i, tensors[i]))
            return false;
    return true;
}

/* As in PyTorch, a tensor of shape [0] can be concatenated with tensors of any shape and adds
 * nothing, so that a list may begin with an empty one. */
static bool adds_nothing(int ndim, const int64_t *sizes)
{
    return ndim == 1 && sizes[0] == 0;
}

static void cat_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    const int64_t *dim = br_params(node), *sizes;
    int64_t start = 0;
    int ndim;
    for (int i = 0; (sizes = br_input_sizes(node, i, &ndim)) != NULL; i++) {
        int64_t size = adds_nothing(ndim, sizes) ? 0 : sizes[*dim];
        if (br_needs_input_grad(node, i))
            dx[i] = adds_nothing(ndim, sizes) ? br_new_zeros(dy, BR_SHAPE(0), br_dtype_of(dy))
                                              : br_narrow(dy, *dim, start, size);
        start += size;
    }
}

static const br_op cat_op = { .name = "cat", .backward = cat_backward };

/* Returns the first tensor that is not of shape [0]; 0 if all are. */
static int first_of(int n, br_tensor *const *tensors)
{
    for (int i = 0; i < n; i++)
        if (!adds_nothing(tensors[i]->ndim, tensors[i]->sizes))
            return i;
    return 0;
}

/* Computes the sizes of the result: those of tensor `first`, with the sizes of dimension dim added
 * up. */
static bool cat_sizes(int n, br_tensor *const *tensors, int first, int64_t dim, int64_t *sizes)
{
    memcpy(sizes, tensors[first]->sizes, BR_MAX_DIMS * sizeof *sizes);
    sizes[dim] = 0;
    for (int i = 0; i < n; i++) {
        const br_tensor *t = tensors[i];
        if (adds_nothing(t->ndim, t->sizes))
            continue;
        if (!fits("cat", tensors, first, i, dim))
            return false;
        if (__builtin_add_overflow(sizes[dim], t->sizes[dim], &sizes[dim])) {
            br_fail(BR_ERROR_SHAPE, "cat", "the size of dimension %" PRId64 " would overflow", dim);
            return false;
        }
    }
    return true;
}

br_tensor *br_cat(int n, br_tensor *const *tensors, int64_t dim)
{
    BR_OP("cat");
    if (!br__check_list("cat", n, tensors))
        return NULL;
    if (are_mixed(n, tensors))
        return promoted(br_cat, n, tensors, dim);
    int first = first_of(n, tensors);
    int64_t sizes[BR_MAX_DIMS], start = 0;
    if (adds_nothing(tensors[first]->ndim, tensors[first]->sizes))
        dim = 0; /* any dim is accepted */
    if (!br__wrap_dim_nonscalar("cat", tensors[first], &dim) ||
        !cat_sizes(n, tensors, first, dim, sizes))
        return NULL;
    br_tensor *y =
        br__new_on("cat", tensors[first], tensors[first]->ndim, sizes, tensors[first]->dtype);
    const br_backend *backend = y ? BR_BACKEND("cat", y, cat) : NULL;
    bool done = !backend || backend->cat(y, n, tensors, dim);
    if (backend && done)
        BR_TRAFFIC(y, y); /* reads as much as it writes */
    for (int i = first; !done && i < n; i++) {
        if (adds_nothing(tensors[i]->ndim, tensors[i]->sizes))
            continue;
        br_tensor part = br__window(y);
        br__window_slice(&part, (int)dim, start, tensors[i]->sizes[dim], 1);
        br__copy(&part, tensors[i]);
        start += tensors[i]->sizes[dim];
    }
    br_record(&cat_op, y, n, tensors, &dim, sizeof dim);
    return br_failed() ? NULL : y;
}

static void stack_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    const int64_t *dim = br_params(node);
    for (int64_t i = 0; i < dy->sizes[*dim]; i++)
        if (br_needs_input_grad(node, (int)i))
            dx[i] = br_select(dy, *dim, i);
}

static const br_op stack_op = { .name = "stack", .backward = stack_backward };

/* Copies t to index i of dimension dim, which t does not have. */
static void put(const br_tensor *y, int dim, int64_t i, const br_tensor *t)
{
    br_tensor place = br__window(y);
    br__window_slice(&place, dim, i, 1, 1);
    place.ndim = t->ndim;
    for (int d = dim; d < t->ndim; d++) {
        place.sizes[d] = y->sizes[d + 1];
        place.strides[d] = y->strides[d + 1];
    }
    br__copy(&place, t);
}

br_tensor *br_stack(int n, br_tensor *const *tensors, int64_t dim)
{
    BR_OP("stack");
    if (!br__check_list("stack", n, tensors))
        return NULL;
    if (are_mixed(n, tensors))
        return promoted(br_stack, n, tensors, dim);
    int ndim = tensors[0]->ndim + 1;
    if (dim < -ndim || dim >= ndim)
        return br_fail(BR_ERROR_INDEX, "stack",
                       "dim is %" PRId64 ", must be in %d .. %d for tensors of shape %s", dim,
                       -ndim, ndim - 1, br__shape(tensors[0]));
    dim += dim < 0 ? ndim : 0;
    int64_t sizes[BR_MAX_DIMS + 1];
    for (int d = 0; d < ndim; d++)
        sizes[d] = d == dim ? n : tensors[0]->sizes[d < dim ? d : d - 1];
    for (int i = 1; i < n; i++)
        if (!fits("stack", tensors, 0, i, -1))
            return NULL;
    br_tensor *y = br__new_on("stack", tensors[0], ndim, sizes, tensors[0]->dtype);
    for (int i = 0; y && i < n; i++)
        put(y, (int)dim, i, tensors[i]);
    br_record(&stack_op, y, n, tensors, &dim, sizeof dim);
    return br_failed() ? NULL : y;
}
/* ---- repeat ---------------------------------------------------------------------------------- */

typedef struct repeats {
    int64_t counts[BR_MAX_DIMS];
} repeats;

/* Sums the copies, one dimension after the other. */
static void repeat_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    const repeats *r = br_params(node);
    int ndim;
    const int64_t *sizes = br_input_sizes(node, 0, &ndim);
    int fresh = dy->ndim - ndim;
    int64_t before = 1, after = dy->numel;
    br_tensor *sum = dy;
    BR_WIDEN(&sum);
    if (dy->numel == 0) {
        dx[0] = br_new_zeros(dy, ndim, sizes, dy->dtype);
        return;
    }
    for (int i = 0; i < dy->ndim; i++) {
        int64_t size = i < fresh ? 1 : sizes[i - fresh];
        after /= r->counts[i] * size;
        if (r->counts[i] > 1) {
            sum = br_reshape(sum, BR_SHAPE(before, r->counts[i], size * after));
            sum = br_sum_dim(sum, BR_DIMS(1), false);
        }
        before *= size;
    }
    dx[0] = br_reshape(sum, ndim, sizes);
}

static const br_op repeat_op = { .name = "repeat", .backward = repeat_backward };

/* Copies x to the first corner of y, then doubles the filled part along each dimension until y is
 * full. */
static void spread(br_tensor *y, const br_tensor *x, const int64_t *counts)
{
    br_tensor filled = br__window(y);
    int fresh = y->ndim - x->ndim;
    for (int i = 0; i < y->ndim; i++)
        br__window_slice(&filled, i, 0, i < fresh ? 1 : x->sizes[i - fresh], 1);
    br__copy(&filled, x);
    for (int i = y->ndim - 1; i >= 0; i--) {
        int64_t done = filled.sizes[i], size = done * counts[i];
        while (done < size) {
            int64_t more = br__min(done, size - done);
            br_tensor from = br__window(&filled), to = br__window(&filled);
            br__window_slice(&from, i, 0, more, 1);
            br__window_slice(&to, i, done, more, 1);
            br__copy(&to, &from);
            done += more;
            br__window_slice(&filled, i, 0, done, 1);
        }
    }
}

br_tensor *br_repeat(br_tensor *x, int ndim, const int64_t *counts)
{
    BR_OP("repeat");
    if (!br__required("repeat", "x", x))
        return NULL;
    if (ndim < x->ndim || ndim > BR_MAX_DIMS || (ndim > 0 && !counts))
        return br_fail(BR_ERROR_SHAPE, "repeat", "counts %s for x %s: must have %d .. %d entries",
                       br__shape_of(ndim, counts), br__shape(x), x->ndim, BR_MAX_DIMS);
    repeats r = { { 0 } };
    int64_t sizes[BR_MAX_DIMS];
    for (int i = 0; i < ndim; i++) {
        int64_t own = i < ndim - x->ndim ? 1 : x->sizes[i - (ndim - x->ndim)];
        r.counts[i] = counts[i];
        if (counts[i] < 0 || __builtin_mul_overflow(own, counts[i], &sizes[i]))
            return br_fail(BR_ERROR_SHAPE, "repeat",
                           "counts %s for x %s: count %" PRId64 " of dimension %d %s",
                           br__shape_of(ndim, counts), br__shape(x), counts[i], i,
                           counts[i] < 0 ? "is negative" : "is too large");
    }
    br_tensor *y = br__new_on("repeat", x, ndim, sizes, x->dtype);
    if (y && y->numel > 0)
        spread(y, x, counts);
    return br__recorded(&repeat_op, y, x, &r, sizeof r);
}
