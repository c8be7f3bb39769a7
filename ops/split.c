/* ops/split.c - all parts of a dimension at once: split, chunk, unbind. The parts are views,
 * outputs of one node, so that their gradients are put together in one pass over memory. */
#include "ops/view_internal.h"

#include <inttypes.h>
#include <string.h>

/* ---- Gradient -------------------------------------------------------------------------------- */

/* How a dimension was parted. Slices that have lost it have no sizes. */
typedef struct partition {
    int64_t dim, n;
    int64_t sizes[];
} partition;

/* The gradients by all parts, zeros for those that nothing depends on, joined along the dimension.
 */
static br_tensor *joined(br_node *node, const int64_t *sizes, int ndim, const partition *p,
                         bool stacked)
{
    int64_t part[BR_MAX_DIMS];
    memcpy(part, sizes, (size_t)ndim * sizeof *part);
    if (stacked)
        memmove(part + p->dim, part + p->dim + 1, (size_t)(ndim - 1 - p->dim) * sizeof *part);
    br_dtype dtype = BR_F32;
    for (int i = 0; i < p->n; i++)
        if (br_output_grad(node, i))
            dtype = br_dtype_of(br_output_grad(node, i));
    br_tensor **grads = br__malloc((size_t)p->n * sizeof *grads);
    for (int i = 0; grads && i < p->n; i++) {
        if (!stacked)
            part[p->dim] = p->sizes[i];
        grads[i] = br_output_grad(node, i);
        if (!grads[i])
            grads[i] = br_zeros(stacked ? ndim - 1 : ndim, part, dtype);
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

/* ---- Parts of given sizes -------------------------------------------------------------------- */

/* Nothing is left of what was made where something failed. */
static int number_of(int64_t n, br_tensor **parts, int room)
{
    if (!br_failed())
        return (int)n;
    for (int i = 0; parts && i < room; i++)
        parts[i] = NULL;
    return -1;
}

/* Views of x's parts, the last entries of `parts` NULL where there is more room. */
static int parted(const br_op *op, br_tensor *x, const partition *p, int room, br_tensor **parts)
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
        parts[i] = br__view_of(x, w.ndim, w.sizes, w.strides, w.data);
        if (i == 0)
            node = br_record(op, parts[0], BR_INPUTS(x), p,
                             sizeof *p + (stacked ? 0 : (size_t)p->n) * sizeof *p->sizes);
        else
            br_record_output(node, parts[i]);
    }
    for (int64_t i = p->n; i < room; i++)
        parts[i] = NULL;
    return number_of(p->n, parts, room);
}

static bool has_room(const char *op, const br_tensor *x, int64_t dim, int64_t n, int room,
                     br_tensor **parts)
{
    if (n <= room && (parts || n == 0))
        return true;
    br__fail(BR_ERROR_ARGUMENT, op,
             "there are %" PRId64 " parts of dimension %" PRId64
             " of x %s, but only room for %d of them",
             n, dim, br__shape(x), parts ? room : 0);
    return false;
}

static const br_op split_op = { .name = "split", .backward = split_backward };

/* n parts that together are the dimension: all of `size` but for the last, or of the given sizes.
 */
static int split(const char *op, br_tensor *x, int64_t size, const int64_t *sizes, int64_t n,
                 int64_t dim, int room, br_tensor **parts)
{
    if (!has_room(op, x, dim, n, room, parts))
        return number_of(0, parts, room);
    partition *p = br__malloc(sizeof *p + (size_t)n * sizeof *p->sizes);
    if (!p)
        return number_of(0, parts, room);
    p->dim = dim;
    p->n = n;
    for (int64_t i = 0, rest = x->sizes[dim]; i < n; rest -= p->sizes[i++])
        p->sizes[i] = sizes ? sizes[i] : size < rest ? size : rest;
    int count = parted(&split_op, x, p, room, parts);
    br_free(p);
    return count;
}

/* How many parts of `size` there are: one of what is empty. */
static int64_t count_parts(int64_t length, int64_t size)
{
    return length == 0 ? 1 : (length - 1) / size + 1;
}

int br_split(br_tensor *x, int64_t split_size, int64_t dim, int room, br_tensor **parts)
{
    BR_OP("split");
    if (!br__cut_dim("split", x, &dim))
        return number_of(0, parts, room);
    int64_t length = x->sizes[dim];
    if (split_size < 0 || (split_size == 0 && length > 0)) {
        br__fail(BR_ERROR_ARGUMENT, "split",
                 "split_size is %" PRId64 ", must be at least 1 for dimension %" PRId64 " of x %s",
                 split_size, dim, br__shape(x));
        return number_of(0, parts, room);
    }
    return split("split", x, split_size, NULL, count_parts(length, split_size), dim, room, parts);
}

int br_split_with_sizes(br_tensor *x, int n, const int64_t *sizes, int64_t dim, br_tensor **parts)
{
    static const char op[] = "split_with_sizes";
    BR_OP(op);
    if (!br__cut_dim(op, x, &dim))
        return number_of(0, parts, n);
    int64_t sum = 0;
    bool fits = n >= 0 && (sizes || n == 0);
    for (int i = 0; fits && i < n; i++)
        fits = sizes[i] >= 0 && !__builtin_add_overflow(sum, sizes[i], &sum);
    if (!fits || sum != x->sizes[dim]) {
        br__fail(BR_ERROR_SHAPE, op,
                 "sizes %s of dimension %" PRId64
                 " of x %s: must be at least 0 and sum up to %" PRId64,
                 br__shape_of(sizes && n <= BR_MAX_DIMS ? n : 0, sizes), dim, br__shape(x),
                 x->sizes[dim]);
        return number_of(0, parts, n);
    }
    return split(op, x, 0, sizes, n, dim, n, parts);
}

/* Of what is empty there are as many parts as are asked for. */
int br_chunk(br_tensor *x, int64_t chunks, int64_t dim, int room, br_tensor **parts)
{
    BR_OP("chunk");
    if (!br__cut_dim("chunk", x, &dim))
        return number_of(0, parts, room);
    if (chunks < 1) {
        br__fail(BR_ERROR_ARGUMENT, "chunk", "chunks is %" PRId64 ", must be at least 1", chunks);
        return number_of(0, parts, room);
    }
    int64_t length = x->sizes[dim], size = length > 0 ? (length - 1) / chunks + 1 : 0;
    int64_t n = length > 0 ? count_parts(length, size) : chunks;
    return split("chunk", x, size, NULL, n, dim, room, parts);
}

/* ---- unbind ---------------------------------------------------------------------------------- */

static const br_op unbind_op = { .name = "unbind", .backward = unbind_backward };

int br_unbind(br_tensor *x, int64_t dim, int room, br_tensor **parts)
{
    BR_OP("unbind");
    if (!br__cut_dim("unbind", x, &dim) || !has_room("unbind", x, dim, x->sizes[dim], room, parts))
        return number_of(0, parts, room);
    return parted(&unbind_op, x, &(partition){ .dim = dim, .n = x->sizes[dim] }, room, parts);
}
