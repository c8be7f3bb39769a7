/* backends/cpu/attention/attention.c - attention: splits heads into work units and schedules them
 * on threads.
 *
 * A work unit calls the kernels of attention_forward.h or attention_backward.h with its own scratch
 * memory. Threads take units from a common counter. In the forward pass, blocks of queries are
 * independent. In the backward pass they are not: every query contributes to the gradient of every
 * key, and vice versa. So the queries and the keys of a head are split into the same number of
 * chunks, and in step t chunk c of the keys is paired with chunk (c + t) mod chunks of the queries.
 * The pairs of one step write to disjoint parts of the gradients, and additions happen in the order
 * of the steps. The result is therefore the same whether threads share the pairs of a step or one
 * thread computes the whole head.
 *
 * With ranges, a unit is a block of queries of one range, or, for gradients, a range of one head.
 */
#include "backends/cpu/attention/attention.h"

#include "backends/cpu/kernels.h"
#include "backends/cpu/pointwise/widened.h"
#include "backends/matmul_precision.h"
#include "tensor/denormal.h"
#include "tensor/min_max.h"
#include "tensor/tensor_internal.h"

#include <stdatomic.h>

enum {
    CHUNK = 4 * BR_ATTENTION_BLOCK, /* maximum queries or keys of a chunk */
    UNITS_PER_THREAD = 4,           /* with fewer units, work is split more finely */
    BF16_QUERIES = 16,              /* minimum queries for products in bf16 */
};

/* Work, in multiplications. */
static const double SERIAL_WORK = 1 << 17; /* below this, one thread is faster than two */
static const double CLAIM_WORK = 1 << 18;  /* minimum work that a thread takes at a time */

/* A head or a range with n chunks of queries and n chunks of keys, and their sizes. */
typedef struct chunking {
    int64_t n, queries, keys;
} chunking;

typedef struct job {
    const br_attention *a;
    const br_attention_kernels *kernels;
    void (*unit)(const struct job *j, int64_t i, void *scratch);
    int64_t units, claim_size; /* number of units, and how many a thread takes at a time */
    int64_t teams, scratch_bytes;
    char *scratch; /* scratch_bytes for each team */
    atomic_int_fast64_t next;

    int64_t block, blocks;    /* forward: queries per block, and blocks per head (with ranges:
                                 numbers for blocks) */
    int64_t parallel, serial; /* gradients: number of groups of heads; heads per group, which add to
                                 the same gradients */
    chunking chunks;          /* gradients: of a head */
    int64_t head, step;       /* gradients: first head, and number of the current step */
    int64_t kernel_bytes;     /* of the scratch memory; gradients of a storage dtype follow */
} job;

static int64_t ratio(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static int64_t product(int n, const int64_t *sizes)
{
    int64_t p = 1;
    for (int i = 0; i < n; i++)
        p *= sizes[i];
    return p;
}

static void move(br_strided *x, int64_t elements, int64_t size)
{
    if (x->at)
        x->at = (char *)x->at + elements * size;
}

/* ---- Storage dtypes -------------------------------------------------------------------------- */

/* A br_widen_rows. */
static void widen_rows(const br_attention_work *w, const br_strided *x, int64_t first, int64_t n,
                       int64_t from, int64_t columns, float *to)
{
    const br_dtype dtype = (br_dtype)w->stored;
    const int64_t size = (int64_t)br__dtype_size(dtype);
    const char *at = (const char *)x->at + (first * x->row + from * x->column) * size;
    for (int64_t i = 0; i < n; i++, at += x->row * size, to += columns) {
        if (x->column == 1)
            br__kernels_of(br__computed(dtype))->widen[dtype](columns, to, at);
        else
            br__widen(dtype, to, columns, at, x->column * size);
    }
}

/* Lets the kernels widen and round the operands if they have a storage dtype. */
static void read_stored(br_attention *a)
{
    if (!br__is_stored(a->dtype))
        return;
    a->head.stored = a->dtype;
    a->head.widen = widen_rows;
    a->head.narrow = br__kernels_of(br__computed(a->dtype))->narrow[a->dtype];
}

/* ---- Heads ----------------------------------------------------------------------------------- */

/* Returns the kernels, which round to bf16 if the precision allows it, the processor has a unit for
 * it, and there are enough queries to outweigh rounding and packing. */
static const br_attention_kernels *kernels_for(const br_attention *a)
{
    const br_attention_kernels *rounding = NULL;
    const br_dtype computed = br__computed(a->dtype);
    if (a->head.queries >= BF16_QUERIES && br__matmul_precision_of(computed) == BR_MATMUL_MEDIUM)
        rounding = br__attention_bf16_kernels();
    return rounding ? rounding : &br__kernels_of(computed)->attention;
}

/* Returns the arguments of the kernels for head i. */
static br_attention_work head_at(const br_attention *a, int64_t i)
{
    br_attention_work w = a->head;
    const int64_t size = (int64_t)br__dtype_size(a->dtype);
    const int64_t wide = (int64_t)br__dtype_size(br__computed(a->dtype));
    const int64_t grad = (int64_t)br__dtype_size(a->grad_dtype);
    for (int d = 0; d < a->batch_ndim; d++) {
        const br_attention_batch *step = &a->batch[d];
        const int64_t n = i % a->batch_sizes[d];
        i /= a->batch_sizes[d];
        move(&w.query, n * step->query, size);
        move(&w.key, n * step->key, size);
        move(&w.value, n * step->value, size);
        move(&w.mask, n * step->mask, w.mask_is_bool ? 1 : size);
        move(&w.out, n * step->out, size);
        move(&w.sums, n * step->sums, wide);
        move(&w.dout, n * step->dout, size);
        move(&w.dquery, n * step->dquery, grad);
        move(&w.dkey, n * step->dkey, grad);
        move(&w.dvalue, n * step->dvalue, grad);
        move(&w.dmask, n * step->dmask, wide);
        w.first_bit += n * step->bit;
    }
    return w;
}

/* Moves the arguments of a head to range r. */
static void choose_range(const br_attention *a, int64_t r, br_attention_work *w)
{
    const int64_t size = (int64_t)br__dtype_size(a->dtype);
    const int64_t wide = (int64_t)br__dtype_size(br__computed(a->dtype));
    const int64_t grad = (int64_t)br__dtype_size(a->grad_dtype);
    const int64_t query = a->query_starts[r], key = a->key_starts[r];
    w->queries = a->query_starts[r + 1] - query;
    w->keys = a->key_starts[r + 1] - key;
    move(&w->query, query * w->query.row, size);
    move(&w->out, query * w->out.row, size);
    move(&w->sums, query * w->sums.row, wide);
    move(&w->dout, query * w->dout.row, size);
    move(&w->dquery, query * w->dquery.row, grad);
    move(&w->key, key * w->key.row, size);
    move(&w->value, key * w->value.row, size);
    move(&w->dkey, key * w->dkey.row, grad);
    move(&w->dvalue, key * w->dvalue.row, grad);
}

/* ---- Sharing units among threads ------------------------------------------------------------- */

/* Takes and runs units until none are left. */
static void run_team(void *context, int64_t team)
{
    job *j = context;
    void *scratch = j->scratch + team * j->scratch_bytes;
    for (int64_t i; (i = atomic_fetch_add(&j->next, j->claim_size)) < j->units;)
        for (int64_t end = br__min(i + j->claim_size, j->units); i < end; i++)
            j->unit(j, i, scratch);
}

static void run_units(job *j)
{
    atomic_store(&j->next, 0);
    br__parallel(j->teams, run_team, j);
}

/* Returns the number of multiplications in a head's forward pass. */
static double work(const br_attention *a)
{
    const br_attention_work *w = &a->head;
    double pairs = a->ranges ? 0 : (double)w->queries * (double)w->keys;
    for (int64_t r = 0; r < a->ranges; r++)
        pairs += (double)(a->query_starts[r + 1] - a->query_starts[r]) *
                 (double)(a->key_starts[r + 1] - a->key_starts[r]);
    return pairs * (double)(w->width + w->value_width);
}

/* Sets the number of teams, and the number of units that a thread takes at a time, from the total
 * work and the work of one unit. Each team can take units at least twice, so that a slow one delays
 * the others little. */
static void set_teams(job *j, double total, double unit)
{
    j->teams = total < SERIAL_WORK ? 1 : br__min(br_get_num_threads(), j->units);
    j->claim_size = unit < CLAIM_WORK ? 1 + (int64_t)(CLAIM_WORK / (unit + 1)) : 1;
    int64_t share = ratio(j->units, 2 * j->teams);
    if (j->claim_size > share)
        j->claim_size = share > 0 ? share : 1;
}

/* Returns the bytes of a head's gradients in f32 if they have a storage dtype; otherwise 0. */
static int64_t gradient_bytes(const br_attention *a)
{
    const br_attention_work *w = &a->head;
    if (!br__is_stored(a->grad_dtype))
        return 0;
    return ((w->queries + w->keys) * w->width + w->keys * w->value_width) * (int64_t)sizeof(float);
}

/* Calls `run` with scratch memory for each team and with denormals flushed to zero, since the
 * weights of nearly irrelevant keys are denormal. Returns false with an error if memory cannot be
 * allocated. */
static bool with_scratch(job *j, bool gradients, void (*run)(job *j))
{
    j->kernel_bytes = ratio(j->kernels->scratch(&j->a->head, gradients), 64) * 64;
    j->scratch_bytes = j->kernel_bytes + (gradients ? ratio(gradient_bytes(j->a), 64) * 64 : 0);
    br_extent *extent;
    size_t bytes = (size_t)(j->teams * j->scratch_bytes);
    j->scratch = br__block_alloc(j->a->op, bytes, &extent);
    if (!j->scratch)
        return false;
    const br_float_mode before = br__flush_denormals();
    run(j);
    br__restore_denormals(before);
    br__block_free(j->scratch, bytes, extent);
    return true;
}

/* ---- Forward --------------------------------------------------------------------------------- */

/* Returns the number of the first block of range r. Ranges begin anywhere in a block, so one number
 * more than there are whole blocks before it is kept free for each of the ranges before it. */
static int64_t first_block(const job *j, int64_t r)
{
    return j->a->query_starts[r] / j->block + r;
}

/* Returns the range of a block. */
static int64_t range_of(const job *j, int64_t block)
{
    int64_t low = 0, high = j->a->ranges;
    while (high - low > 1) {
        const int64_t middle = (low + high) / 2;
        if (first_block(j, middle) <= block)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Computes one block of the queries of a range of a head. Some numbers have no block. */
static void attend_in_range(const job *j, int64_t i, void *scratch)
{
    br_attention_work w = head_at(j->a, i / j->blocks);
    const int64_t block = i % j->blocks, r = range_of(j, block);
    const int64_t first = (block - first_block(j, r)) * j->block;
    choose_range(j->a, r, &w);
    w.scratch = scratch;
    if (first < w.queries)
        j->kernels->forward(&w, first, br__min(first + j->block, w.queries));
}

/* Computes one block of a head's queries. With a causal mask the last blocks, which attend to the
 * most keys, come first. */
static void attend(const job *j, int64_t i, void *scratch)
{
    br_attention_work w = head_at(j->a, i / j->blocks);
    int64_t block = i % j->blocks;
    if (w.causal)
        block = j->blocks - 1 - block;
    w.scratch = scratch;
    int64_t first = block * j->block;
    j->kernels->forward(&w, first, br__min(first + j->block, w.queries));
}

bool br__attention(const br_attention *given)
{
    br_attention to = *given, *a = &to;
    read_stored(a);
    const int64_t heads = product(a->batch_ndim, a->batch_sizes);
    job j = { .a = a, .kernels = kernels_for(a), .unit = attend };
    j.block = BR_ATTENTION_QUERIES;
    if (heads * ratio(a->head.queries, j.block) < UNITS_PER_THREAD * br_get_num_threads())
        j.block = BR_ATTENTION_BLOCK;
    j.blocks = ratio(a->head.queries, j.block);
    if (a->ranges) {
        j.unit = attend_in_range;
        j.blocks = first_block(&j, a->ranges);
    }
    j.units = heads * j.blocks;
    if (j.units == 0)
        return true;
    set_teams(&j, (double)heads * work(a), work(a) / (double)j.blocks);
    return with_scratch(&j, false, run_units);
}

/* ---- Gradients ------------------------------------------------------------------------------- */

/* Returns the chunk size that divides `length` into nearly equal chunks of whole blocks. */
static int64_t chunk_size(int64_t length, int64_t chunks)
{
    return ratio(ratio(length, chunks), BR_ATTENTION_BLOCK) * BR_ATTENTION_BLOCK;
}

static chunking chunks_of(const br_attention_work *w)
{
    const int64_t n = ratio(br__max(w->queries, w->keys), CHUNK);
    return n == 0 ? (chunking){ 0 }
                  : (chunking){ n, chunk_size(w->queries, n), chunk_size(w->keys, n) };
}

/* Adds the contributions of chunk `keys` of the keys and its partner chunk of the queries in step t
 * to the gradients. */
static void differentiate(const job *j, const chunking *c, const br_attention_work *w, int64_t t,
                          int64_t keys)
{
    int64_t queries = (keys + t) % c->n * c->queries;
    keys *= c->keys;
    j->kernels->backward(w, queries, br__min(queries + c->queries, w->queries), keys,
                         br__min(keys + c->keys, w->keys));
}

/* Replaces a gradient [rows, columns] of a storage dtype by zeros in f32; returns the memory behind
 * them. */
static float *widen_gradient(br_strided *gradient, int64_t rows, int64_t columns, float *zeros)
{
    if (!gradient->at)
        return zeros;
    memset(zeros, 0, (size_t)(rows * columns) * sizeof *zeros);
    *gradient = (br_strided){ zeros, columns, 1 };
    return zeros + rows * columns;
}

/* Rounds a gradient [rows, columns], which has been computed in f32. */
static void narrow_gradient(const br_attention_work *w, const br_strided *to,
                            const br_strided *from, int64_t rows, int64_t columns)
{
    for (int64_t i = 0; to->at && i < rows; i++)
        w->narrow(columns, (uint16_t *)to->at + i * to->row,
                  (const float *)from->at + i * from->row);
}

static void differentiate_head(const job *j, const br_attention_work *w)
{
    const chunking chunks = chunks_of(w);
    for (int64_t t = 0; t < chunks.n; t++)
        for (int64_t c = 0; c < chunks.n; c++)
            differentiate(j, &chunks, w, t, c);
}

/* The same for gradients of a storage dtype, which are computed in f32 in `memory`. */
static void differentiate_stored_head(const job *j, const br_attention_work *to, float *memory)
{
    br_attention_work w = *to;
    memory = widen_gradient(&w.dquery, w.queries, w.width, memory);
    memory = widen_gradient(&w.dkey, w.keys, w.width, memory);
    widen_gradient(&w.dvalue, w.keys, w.value_width, memory);
    differentiate_head(j, &w);
    narrow_gradient(&w, &to->dquery, &w.dquery, w.queries, w.width);
    narrow_gradient(&w, &to->dkey, &w.dkey, w.keys, w.width);
    narrow_gradient(&w, &to->dvalue, &w.dvalue, w.keys, w.value_width);
}

/* Computes the gradients of group i of heads, which add to the same gradients. With ranges, there
 * is a unit for each range of the group. */
static void differentiate_heads(const job *j, int64_t i, void *scratch)
{
    const int64_t ranges = br__max(j->a->ranges, 1);
    for (int64_t s = 0; s < j->serial; s++) {
        br_attention_work w = head_at(j->a, s * j->parallel + i / ranges);
        if (j->a->ranges)
            choose_range(j->a, i % ranges, &w);
        w.scratch = scratch;
        if (br__is_stored(j->a->grad_dtype))
            differentiate_stored_head(j, &w, (float *)(void *)((char *)scratch + j->kernel_bytes));
        else
            differentiate_head(j, &w);
    }
}

/* Computes pair i of chunks in the current step. */
static void differentiate_chunk(const job *j, int64_t i, void *scratch)
{
    br_attention_work w = head_at(j->a, j->head + i / j->chunks.n);
    w.scratch = scratch;
    differentiate(j, &j->chunks, &w, j->step, i % j->chunks.n);
}

/* Returns whether a requested gradient is summed over batch dimension d. */
static bool is_shared(const br_attention *a, int d)
{
    const br_attention_work *w = &a->head;
    const br_attention_batch *b = &a->batch[d];
    return (w->dquery.at && b->dquery == 0) || (w->dkey.at && b->dkey == 0) ||
           (w->dvalue.at && b->dvalue == 0) || (w->dmask.at && b->dmask == 0);
}

/* Returns a copy in which the batch dimensions over which no gradient is summed come first. Sets
 * *parallel to the product of their sizes. */
static br_attention sorted(const br_attention *a, int64_t *parallel)
{
    br_attention to = *a;
    *parallel = 1;
    to.batch_ndim = 0;
    for (int shared = 0; shared < 2; shared++) {
        for (int d = 0; d < a->batch_ndim; d++) {
            if (is_shared(a, d) != shared)
                continue;
            to.batch_sizes[to.batch_ndim] = a->batch_sizes[d];
            to.batch[to.batch_ndim++] = a->batch[d];
            if (!shared)
                *parallel *= a->batch_sizes[d];
        }
    }
    return to;
}

static void run_steps(job *j)
{
    for (int64_t s = 0; s < j->serial; s++) {
        j->head = s * j->parallel;
        for (j->step = 0; j->step < j->chunks.n; j->step++)
            run_units(j);
    }
}

/* Gradients can be overwritten if one kernel call covers a whole head and reaches every row of its
 * gradients. */
bool br__attention_grad_writes(const br_attention *a)
{
    const br_attention_work *w = &a->head;
    int64_t heads = 1;
    for (int d = 0; d < a->batch_ndim; d++) {
        heads *= a->batch_sizes[d];
        if (is_shared(a, d))
            return false;
    }
    return heads > 0 && !a->ranges && w->queries > 0 && w->queries <= BR_ATTENTION_BLOCK &&
           w->keys > 0 && w->keys <= BR_ATTENTION_BLOCK && !(w->causal && w->keys > w->queries) &&
           !w->dmask.at;
}

/* Returns whether threads take whole heads, of which `parallel` have gradients of their own, or
 * ranges of heads. */
static bool is_by_heads(const br_attention *a, int64_t parallel)
{
    return a->ranges || parallel >= UNITS_PER_THREAD * br_get_num_threads();
}

bool br__attention_grad_narrows(const br_attention *a)
{
    int64_t parallel;
    sorted(a, &parallel);
    return is_by_heads(a, parallel) && parallel == product(a->batch_ndim, a->batch_sizes) &&
           !a->head.dmask.at;
}

bool br__attention_grad(const br_attention *given)
{
    const int64_t heads = product(given->batch_ndim, given->batch_sizes);
    const br_attention_work *w = &given->head;
    if (heads == 0 || w->queries == 0 || w->keys == 0)
        return true;
    job j = { .kernels = kernels_for(given) };
    br_attention a = sorted(given, &j.parallel);
    a.head.writes = br__attention_grad_writes(given);
    read_stored(&a);
    j.a = &a;
    j.serial = heads / j.parallel;
    j.chunks = chunks_of(w);
    const bool by_heads = is_by_heads(given, j.parallel);
    j.unit = by_heads ? differentiate_heads : differentiate_chunk;
    j.units = j.parallel * (by_heads ? br__max(given->ranges, 1) : j.chunks.n);
    /* 5 products instead of 2: S, dP, dV, dK and dQ. */
    const double total = (double)heads * work(given) * 2.5;
    set_teams(&j, total, total / (double)j.units);
    return with_scratch(&j, true, by_heads ? run_units : run_steps);
}
