/* ops/shape/split.c - all parts of a dimension at once: split, chunk, tensor_split, unbind. The
 * parts are views and outputs of one node, so that their gradients are joined in one pass over
 * memory. */
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

/* ---- tensor_split ---------------------------------------------------------------------------- */

static int split_into(const char *op, br_tensor *x, int64_t sections, int64_t dim, int capacity,
                      br_tensor **parts)
{
    if (sections < 1) {
        br_fail(BR_ERROR_ARGUMENT, op, "sections is %" PRId64 ", must be at least 1", sections);
        return number_of(0, parts, capacity);
    }
    if (!fits_capacity(op, x, dim, sections, capacity, parts))
        return number_of(0, parts, capacity);
    const int64_t size = x->sizes[dim] / sections, longer = x->sizes[dim] % sections;
    int64_t *sizes = br_malloc((size_t)sections * sizeof *sizes);
    for (int64_t i = 0; sizes && i < sections; i++)
        sizes[i] = size + (i < longer);
    int count = sizes ? split(op, x, 0, sizes, sections, dim, capacity, parts) : -1;
    br_free(sizes);
    return number_of(count, parts, capacity);
}

/* Makes an index count from the first element, and clips it to the dimension. */
static int64_t clipped(int64_t index, int64_t length)
{
    index += index < 0 ? length : 0;
    return index < 0 ? 0 : br__min(index, length);
}

static int split_at(const char *op, br_tensor *x, int n, const int64_t *indices, int64_t dim,
                    br_tensor **parts)
{
    if (n < 0 || (n > 0 && !indices) || !parts) {
        br_fail(BR_ERROR_ARGUMENT, op,
                "n is %d, indices is %s and parts is %s: n must be at least 0, and the others must "
                "have n and n + 1 entries",
                n, indices ? "given" : "NULL", parts ? "given" : "NULL");
        return number_of(0, parts, n < 0 ? 0 : n + 1);
    }
    const int64_t length = x->sizes[dim];
    int64_t *sizes = br_malloc(((size_t)n + 1) * sizeof *sizes), start = 0, sum = 0;
    for (int i = 0; sizes && i <= n; i++) {
        const int64_t end = i < n ? clipped(indices[i], length) : length;
        sum += sizes[i] = br__max(end - start, 0);
        start = end;
    }
    int count = n + 1;
    if (sizes && sum == length)
        count = split(op, x, 0, sizes, n + 1, dim, n + 1, parts);
    else /* indices that do not ascend: some parts overlap */
        for (int i = 0; sizes && i <= n; i++)
            parts[i] = br_narrow(x, dim, i > 0 ? clipped(indices[i - 1], length) : 0, sizes[i]);
    br_free(sizes);
    return number_of(count, parts, n + 1);
}

int br_tensor_split(br_tensor *x, int64_t sections, int64_t dim, int capacity, br_tensor **parts)
{
    static const char op[] = "tensor_split";
    BR_OP(op);
    return br__wrap_dim_nonscalar(op, x, &dim) ? split_into(op, x, sections, dim, capacity, parts)
                                               : number_of(0, parts, capacity);
}

int br_tensor_split_indices(br_tensor *x, int n, const int64_t *indices, int64_t dim,
                            br_tensor **parts)
{
    static const char op[] = "tensor_split_indices";
    BR_OP(op);
    return br__wrap_dim_nonscalar(op, x, &dim) ? split_at(op, x, n, indices, dim, parts)
                                               : number_of(0, parts, n < 0 ? 0 : n + 1);
}

/* Sets *dim to the dimension that hsplit, vsplit or dsplit splits, number `wanted`; it is 0 for
 * hsplit of a vector. */
static bool find_dim(const char *op, const br_tensor *x, int wanted, int least, int64_t *dim)
{
    if (!br__required(op, "x", x))
        return false;
    *dim = br__min(wanted, x->ndim - 1);
    return x->ndim >= least || br_fail(BR_ERROR_SHAPE, op, "x %s must have at least %d dimension%s",
                                       br__shape(x), least, least == 1 ? "" : "s");
}

static int split_evenly(const char *op, br_tensor *x, int64_t sections, int wanted, int least,
                        int capacity, br_tensor **parts)
{
    BR_OP(op);
    int64_t dim;
    if (!find_dim(op, x, wanted, least, &dim))
        return number_of(0, parts, capacity);
    if (sections > 0 && x->sizes[dim] % sections != 0) {
        br_fail(BR_ERROR_SHAPE, op,
                "sections is %" PRId64 ", must divide dimension %" PRId64
                " of x %s (br_tensor_split() allows parts of different sizes)",
                sections, dim, br__shape(x));
        return number_of(0, parts, capacity);
    }
    return split_into(op, x, sections, dim, capacity, parts);
}

static int split_dim_at(const char *op, br_tensor *x, int n, const int64_t *indices, int wanted,
                        int least, br_tensor **parts)
{
    BR_OP(op);
    int64_t dim;
    return find_dim(op, x, wanted, least, &dim) ? split_at(op, x, n, indices, dim, parts)
                                                : number_of(0, parts, n < 0 ? 0 : n + 1);
}

#define DEFINE_SPLIT(name, dim, least)                                                      \
    int br_##name(br_tensor *x, int64_t sections, int capacity, br_tensor **parts)          \
    {                                                                                       \
        return split_evenly(#name, x, sections, dim, least, capacity, parts);               \
    }                                                                                       \
    int br_##name##_indices(br_tensor *x, int n, const int64_t *indices, br_tensor **parts) \
    {                                                                                       \
        return split_dim_at(#name "_indices", x, n, indices, dim, least, parts);            \
    }
DEFINE_SPLIT(hsplit, 1, 1)
DEFINE_SPLIT(vsplit, 0, 2)
DEFINE_SPLIT(dsplit, 2, 3)

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
