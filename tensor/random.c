/* tensor/random.c - random tensors, with the same numbers as PyTorch on the CPU.
 *
 * To match, each element must consume as many random words as in PyTorch, and elements must be
 * filled in the same order: a tensor that is not contiguous is filled in memory order, and normal
 * numbers are generated in one of two ways, depending on the size. Words are generated
 * sequentially; the Box-Muller transform of large tensors runs on several threads. */
#include "tensor/min_max.h"
#include "tensor/random_internal.h"

#include <inttypes.h>
#include <math.h>

/* Ranges and permutations of at least these sizes take 64 random bits per number instead of 32, as
 * in PyTorch. */
static const uint64_t WIDE_RANGE = UINT64_C(1) << 28;
static const int64_t WIDE_PERMUTATION = UINT32_MAX / 20;

/* ---- Order of filling ------------------------------------------------------------------------ */

/* Fails if elements share memory, as in expanded dimensions. */
static bool writable(const char *op, const br_tensor *t)
{
    for (int i = 0; i < t->ndim; i++) {
        if (t->sizes[i] > 1 && t->strides[i] == 0) {
            br_fail(BR_ERROR_ARGUMENT, op,
                    "t %s is expanded along dimension %d, so its elements share memory: call "
                    "br_contiguous() first",
                    br__shape(t), i);
            return false;
        }
    }
    return true;
}

/* Returns a copy of t's header with the dimensions sorted by stride, the largest first. The copy
 * borrows t's storage. */
static br_tensor in_memory_order(const br_tensor *t)
{
    br_tensor ordered = *t;
    ordered.ndim = 0;
    for (int i = 0; i < t->ndim; i++) {
        if (t->sizes[i] == 1)
            continue;
        int at = ordered.ndim++;
        for (; at > 0 && ordered.strides[at - 1] < t->strides[i]; at--) {
            ordered.sizes[at] = ordered.sizes[at - 1];
            ordered.strides[at] = ordered.strides[at - 1];
        }
        ordered.sizes[at] = t->sizes[i];
        ordered.strides[at] = t->strides[i];
    }
    int64_t step = 1;
    ordered.contiguous = true;
    for (int i = ordered.ndim - 1; i >= 0; i--) {
        ordered.contiguous &= ordered.strides[i] == step;
        step *= ordered.sizes[i];
    }
    return ordered;
}

/* Fills n contiguous elements of a dtype that is no storage dtype. */
typedef void (*filler)(char *out, int64_t n, br_dtype dtype, double a, double b);

/* Fills t in memory order. The host generates the numbers for every device; those of a storage
 * dtype are rounded numbers of the dtype in which operations compute. */
static br_tensor *fill_in_order(const char *op, br_tensor *t, filler fill, double a, double b)
{
    if (t->numel == 0)
        return t;
    br_tensor ordered = in_memory_order(t);
    const br_dtype computed = br__computed(t->dtype);
    if (ordered.contiguous && br__is_on_host(t) && computed == t->dtype) {
        fill(ordered.data, t->numel, t->dtype, a, b);
        return t;
    }
    br_scope *scope = br_scope_begin();
    br_tensor *dense = br__new_on_host(op, ordered.ndim, ordered.sizes, computed);
    if (dense)
        fill(dense->data, t->numel, computed, a, b);
    const bool ok = dense && br__transfer(op, &ordered, dense);
    br_scope_end(scope);
    return ok ? t : NULL;
}

/* ---- Uniform --------------------------------------------------------------------------------- */

static void fill_uniform(char *out, int64_t n, br_dtype dtype, double low, double high)
{
    br__distribution_loops[dtype].fill_uniform(out, n, low, high);
}

bool br__uniform_possible(const br_tensor *t, double low, double high)
{
    if (!br__floating("uniform_", "t", t) || !writable("uniform_", t))
        return false;
    double max_value = br__largest(t->dtype);
    if (low <= high && high - low <= max_value && fabs(low) <= max_value && fabs(high) <= max_value)
        return true;
    br_fail(BR_ERROR_ARGUMENT, "uniform_",
            "low is %g and high is %g: low must be at most high, and low, high and high - low must "
            "be representable as %s",
            low, high, br_dtype_name(t->dtype));
    return false;
}

br_tensor *br__uniform_(br_tensor *t, double low, double high)
{
    if (!br__uniform_possible(t, low, high) ||
        !fill_in_order("uniform_", t, fill_uniform, low, high))
        return NULL;
    return t;
}

/* ---- Normal ---------------------------------------------------------------------------------- */

enum { BLOCK = 16 }; /* a contiguous tensor of at least this size is filled in blocks */

/* Generates the numbers one by one, in f64, from the generator's pairs of normal numbers. */
static void fill_normal_singly(char *out, int64_t n, br_dtype dtype, double mean, double std)
{
    for (int64_t i = 0; i < n; i++) {
        double value = fma(br__random_normal(), std, mean);
        br__put(dtype, out + i * (int64_t)br__dtype_size(dtype), value);
    }
}

typedef struct normal_task {
    char *out;
    int64_t n;
    br_dtype dtype;
    double mean, std;
} normal_task;

static void run_normal_task(void *context, int64_t i)
{
    const normal_task *task = context;
    int64_t from = i * BR_GRAIN, left = task->n - from;
    br__distribution_loops[task->dtype].make_normal(task->out +
                                                        (size_t)from * br__dtype_size(task->dtype),
                                                    br__min(left, BR_GRAIN), task->mean, task->std);
}

/* Transforms uniform numbers in blocks of 16. If n is not a multiple of 16, the last 16 numbers are
 * generated again, after `generated` others. */
static void normal_blocks(char *out, int64_t n, int64_t generated, br_dtype dtype, double mean,
                          double std)
{
    normal_task task = { out, n - n % BLOCK, dtype, mean, std };
    fill_uniform(out, generated, dtype, 0, 1);
    br__parallel((task.n + BR_GRAIN - 1) / BR_GRAIN, run_normal_task, &task);
    if (n % BLOCK != 0) {
        char *last = out + (size_t)(n - BLOCK) * br_dtype_size(dtype);
        fill_uniform(last, BLOCK, dtype, 0, 1);
        br__distribution_loops[dtype].make_normal(last, BLOCK, mean, std);
    }
}

static void fill_normal_blocks(char *out, int64_t n, br_dtype dtype, double mean, double std)
{
    normal_blocks(out, n, n, dtype, mean, std);
}

/* For storage dtypes, PyTorch generates no numbers that it would generate again. */
static void fill_stored_blocks(char *out, int64_t n, br_dtype dtype, double mean, double std)
{
    normal_blocks(out, n, n - n % BLOCK, dtype, mean, std);
}

static filler normal_filler(const br_tensor *t)
{
    if (t->numel < BLOCK || !t->contiguous)
        return fill_normal_singly;
    return br__is_stored(t->dtype) ? fill_stored_blocks : fill_normal_blocks;
}

bool br__normal_possible(const br_tensor *t, double std)
{
    if (!br__floating("normal_", "t", t) || !writable("normal_", t))
        return false;
    if (std >= 0)
        return true;
    br_fail(BR_ERROR_ARGUMENT, "normal_", "std is %g, must be at least 0", std);
    return false;
}

br_tensor *br__normal_(br_tensor *t, double mean, double std)
{
    if (!br__normal_possible(t, std))
        return NULL;
    return fill_in_order("normal_", t, normal_filler(t), mean, std);
}

/* ---- New tensors ----------------------------------------------------------------------------- */

static br_tensor *new_floating(const char *op, int ndim, const int64_t *sizes, br_dtype dtype)
{
    if (!br_failed() && !br__is_floating(dtype))
        return br_fail(BR_ERROR_DTYPE, op, "dtype is %s, must be a floating-point dtype",
                       br_dtype_name(dtype));
    return br__new_on_host(op, ndim, sizes, dtype);
}

static br_tensor *placed(const char *op, br_tensor *t)
{
    return br__placed(op, br__default_backend(), t);
}

br_tensor *br_rand(int ndim, const int64_t *sizes, br_dtype dtype)
{
    BR_OP("rand");
    br_tensor *t = new_floating("rand", ndim, sizes, dtype);
    return placed("rand", t ? fill_in_order("rand", t, fill_uniform, 0, 1) : NULL);
}

br_tensor *br_randn(int ndim, const int64_t *sizes, br_dtype dtype)
{
    BR_OP("randn");
    br_tensor *t = new_floating("randn", ndim, sizes, dtype);
    return placed("randn", t ? fill_in_order("randn", t, normal_filler(t), 0, 1) : NULL);
}

void br__fill_randint(int64_t *out, int64_t n, int64_t low, int64_t high)
{
    const uint64_t range = (uint64_t)high - (uint64_t)low;
    for (int64_t i = 0; i < n; i++) {
        uint64_t k =
            range >= WIDE_RANGE ? br__random_u64() % range : br__random_u32() % (uint32_t)range;
        out[i] = (int64_t)((uint64_t)low + k);
    }
}

br_tensor *br_randint(int64_t low, int64_t high, int ndim, const int64_t *sizes)
{
    if (!br_failed() && low >= high)
        return br_fail(BR_ERROR_ARGUMENT, "randint",
                       "low is %" PRId64 " and high is %" PRId64 ": low must be less than high",
                       low, high);
    br_tensor *t = br__new_on_host("randint", ndim, sizes, BR_I64);
    if (!t)
        return NULL;
    br__fill_randint((int64_t *)(void *)t->data, t->numel, low, high);
    return placed("randint", t);
}

/* The Fisher-Yates shuffle: each position in turn gets one of the remaining numbers. */
static void shuffle(int64_t *out, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = i;
    for (int64_t i = 0; i < n - 1; i++) {
        int64_t k = i + (int64_t)(br__random_u32() % (uint32_t)(n - i)), value = out[i];
        out[i] = out[k];
        out[k] = value;
    }
}

/* The inside-out Fisher-Yates shuffle with 64 bits per number: each number is inserted at a random
 * position, and the number there moves to the end. */
static void shuffle_wide(int64_t *out, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t k = (int64_t)(br__random_u64() % (uint64_t)(i + 1));
        out[i] = i;
        out[i] = out[k];
        out[k] = i;
    }
}

void br__permute(int64_t *out, int64_t n)
{
    (n < WIDE_PERMUTATION ? shuffle : shuffle_wide)(out, n);
}

br_tensor *br_randperm(int64_t n)
{
    if (!br_failed() && n < 0)
        return br_fail(BR_ERROR_ARGUMENT, "randperm", "n is %" PRId64 ", must be at least 0", n);
    br_tensor *t = br__new_on_host("randperm", BR_SHAPE(n), BR_I64);
    if (t)
        br__permute((int64_t *)(void *)t->data, n);
    return placed("randperm", t);
}
