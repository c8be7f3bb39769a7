/* ops/shape/split.c - all parts of a dimension at once: split, chunk, unbind. The parts are views
 * and outputs of one node, so that their gradients are joined in one pass over memory. */
#include "ops/shape/view_internal.h"
#include "tensor/min_max.h"

#include <inttypes.h>
#include <string.h>

/* ---- Gradient -------------------------------------------------------------------------------- */

/* How a dimension was split. unbind, which removes the dimension, has no sizes. */
typedef struct partition {
    int64_t dim, n;
    int64_t sizes[];
} partition;

/* Concatenates (or stacks, for unbind) the gradients with respect to all parts; a part without a
 * gradient counts as zeros. */
static br_tensor *joined(br_node *node, const int64_t *sizes, int ndim, const partition *p,
                         bool stacked)
{
    int64_t part[BR_MAX_DIMS];
    memcpy(part, sizes, (size_t)ndim * sizeof *part);
    if (stacked)
        memmove(part + p->dim, part + p->dim + 1, (size_t)(ndim - 1 - p->dim) * sizeof *part);
    const br_tensor *given = NULL;
    for (int i = 0; i < p->n; i++)
        if (br_output_grad(node, i))
            given = br_output_grad(node, i);
    br_tensor **grads = br_malloc((size_t)p->n * sizeof *grads);
    for (int i = 0; grads && i < p->n; i++) {
        if (!stacked)
            part[p->dim] = p->sizes[i];
        grads[i] = br_output_grad(node, i);
        if (!grads[i])
            grads[i] = br_new_zeros(given, stacked ? ndim - 1 : ndim, part, br_dtype_of(given));
    }
    br_tensor *dx = !grads    ? NULL
                    : stacked ? br_stack((int)p->n, grads, p->dim)
                              : br_cat((int)p->n, grads, p->dim);
    br_free(grads);
    return dx;
}

static void split_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    (void)dy;
    int ndim;
    const int64_t *sizes = br_input_sizes(node, 0, &ndim);
    dx[0] = joined(node, sizes, ndim, br_params(node), false);
}

static void unbind_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    (void)dy;
    int ndim;
    const int64_t *sizes = br_input_sizes(node, 0, &ndim);
    dx[0] = joined(node, sizes, ndim, br_params(node), true);
}

/* ---- split and chunk ------------------------------------------------------------------------- */

/* Returns n. If an error is pending, sets all parts to NULL and returns -1 instead. */
static int number_of(int64_t n, br_tensor **parts, int capacity)
{
    if (!br_failed())
        return (int)n;
    for (int i = 0; parts && i < capacity; i++)
        parts[i] = NULL;
    return -1;
}

/* Writes views of x's parts to `parts`, and NULL to the entries after them. */
static int make_parts(const br_op *op, br_tensor *x, const partition *p, int capacity,
                      br_tensor **parts)
{
    br_node *node = NULL;
    int64_t start = 0;
    bool stacked = op->backward == unbind_backward;
    for (int i = 0; i < p->n; i++) {
        br_tensor w = br__window(x);
        br__window_slice(&w, (int)p->dim, start, stacked ? 1 : p->sizes[i], 1);
        start += stacked ? 1 : p->sizes[i];
        if (stacked)
            br__window_drop(&w, (int)p->dim);
        parts[i] = br__view_at(x, &w);
        if (i == 0)
            node = br_record(op, parts[0], BR_INPUTS(x), p,
                             sizeof *p + (stacked ? 0 : (size_t)p->n) * sizeof *p->sizes);
        else
            br_record_output(node, parts[i]);
        if (parts[i] && parts[0])
            parts[i]->hides_grad = parts[0]->hides_grad;
    }
    for (int64_t i = p->n; parts && i < capacity; i++)
        parts[i] = NULL;
    return number_of(p->n, parts, capacity);
}

static bool fits_capacity(const char *op, const br_tensor *x, int64_t dim, int64_t n, int capacity,
                          br_tensor **parts)
{
    if (n <= capacity && (parts || n == 0))
        return true;
    br_fail(BR_ERROR_ARGUMENT, op,
            "there are %" PRId64 " parts of dimension %" PRId64
            " of x %s, but only room for %d of them",
            n, dim, br__shape(x), parts ? capacity : 0);
    return false;
}

static const br_op split_op = { .name = "split", .backward = split_backward };

/* Splits the dimension into n parts, of the given sizes or, if `sizes` is NULL, of `size` each (the
 * last one may be smaller). */
static int split(const char *op, br_tensor *x, int64_t size, const int64_t *sizes, int64_t n,
                 int64_t dim, int capacity, br_tensor **parts)
{
    if (!fits_capacity(op, x, dim, n, capacity, parts))
        return number_of(0, parts, capacity);
    partition *p = br_malloc(sizeof *p + (size_t)n * sizeof *p->sizes);
    if (!p)
        return number_of(0, parts, capacity);
    p->dim = dim;
    p->n = n;
    for (int64_t i = 0, rest = x->sizes[dim]; i < n; rest -= p->sizes[i++])
        p->sizes[i] = sizes ? sizes[i] : br__min(size, rest);
    int count = make_parts(&split_op, x, p, capacity, parts);
    br_free(p);
    return count;
}

/* Counts the parts of `size`; an empty dimension has one. */
static int64_t count_parts(int64_t length, int64_t size)
{
    return length == 0 ? 1 : (length - 1) / size + 1;
}

int br_split(br_tensor *x, int64_t split_size, int64_t dim, int capacity, br_tensor **parts)
{
    BR_OP("split");
    if (!br__wrap_dim_nonscalar("split", x, &dim))
        return number_of(0, parts, capacity);
    int64_t length = x->sizes[dim];
    if (split_size < 0 || (split_size == 0 && length > 0)) {
        br_fail(BR_ERROR_ARGUMENT, "split",
                "split_size is %" PRId64 ", must be at least 1 for dimension %" PRId64 " of x %s",
                split_size, dim, br__shape(x));
        return number_of(0, parts, capacity);
    }
    return split("split", x, split_size, NULL, count_parts(length, split_size), dim, capacity,
                 parts);
}

int br_split_with_sizes(br_tensor *x, int n, const int64_t *sizes, int64_t dim, br_tensor **parts)
{
    static const char op[] = "split_with_sizes";
    BR_OP(op);
    if (!br__wrap_dim_nonscalar(op, x, &dim))
        return number_of(0, parts, n);
    int64_t sum = 0;
    bool fits = n >= 0 && (sizes || n == 0);
    for (int i = 0; fits && i < n; i++)
        fits = sizes[i] >= 0 && !__builtin_add_overflow(sum, sizes[i], &sum);
    if (!fits || sum != x->sizes[dim]) {
        br_fail(BR_ERROR_SHAPE, op,
                "sizes %s for dimension %" PRId64
                " of x %s: must be at least 0 and sum to %" PRId64,
                br__shape_of(sizes && n <= BR_MAX_DIMS ? n : 0, sizes), dim, br__shape(x),
                x->sizes[dim]);
        return number_of(0, parts, n);
    }
    return split(op, x, 0, sizes, n, dim, n, parts);
}

/* An empty dimension is split into exactly `chunks` empty parts. */
int br_chunk(br_tensor *x, int64_t chunks, int64_t dim, int capacity, br_tensor **parts)
{
    BR_OP("chunk");
    if (!br__wrap_dim_nonscalar("chunk", x, &dim))
        return number_of(0, parts, capacity);
    if (chunks < 1) {
        br_fail(BR_ERROR_ARGUMENT, "chunk", "chunks is %" PRId64 ", must be at least 1", chunks);
        return number_of(0, parts, capacity);
    }
    int64_t length = x->sizes[dim], size = length > 0 ? (length - 1) / chunks + 1 : 0;
    int64_t n = length > 0 ? count_parts(length, size) : chunks;
    return split("chunk", x, size, NULL, n, dim, capacity, parts);
}

/* ---- unbind ---------------------------------------------------------------------------------- */

static const br_op unbind_op = { .name = "unbind", .backward = unbind_backward };

int br_unbind(br_tensor *x, int64_t dim, int capacity, br_tensor **parts)
{
    BR_OP("unbind");
    if (!br__wrap_dim_nonscalar("unbind", x, &dim) ||
        !fits_capacity("unbind", x, dim, x->sizes[dim], capacity, parts))
        return number_of(0, parts, capacity);
    return make_parts(&unbind_op, x, &(partition){ .dim = dim, .n = x->sizes[dim] }, capacity,
                      parts);
}
