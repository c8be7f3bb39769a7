/* ops/kernels/attention.c - attention: how heads are cut up and shared among threads.
 *
 * Blocks of queries are independent. In the gradients they are not: every query adds to every key's
 * and the other way round. Queries and keys of a head are cut into the same number of chunks, and
 * in step t chunk c of the keys meets chunk (c + t) mod chunks of the queries: what a step's pairs
 * add to does not overlap, and the order in which anything is added to is that of the steps. So a
 * step's pairs may be shared among threads, or a head done by one, and the result is the same. */
#include "ops/kernels/attention.h"
#include "tensor/denormal.h"
#include "tensor/tensor_internal.h"

#include <stdatomic.h>

enum {
    CHUNK = 4 * BR_ATTENTION_BLOCK,
    UNITS_PER_THREAD = 4, /* fewer are cut up */
};

/* In multiplications. */
static const double SERIAL_WORK = 1 << 17; /* a second thread costs more than it would give */
static const double TAKEN_WORK = 1 << 18;  /* what a thread takes at a time is at least this */

typedef struct job {
    const br_attention *a;
    const br_kernels *kernels;
    void (*unit)(const struct job *j, int64_t i, void *scratch);
    int64_t units, taken; /* their number, and how many a thread takes at a time */
    int64_t teams, scratch_bytes;
    char *scratch; /* of all teams */
    atomic_int_fast64_t next;

    int64_t block, blocks;         /* queries that go together, and how many such blocks */
    int64_t parallel, serial;      /* gradients: heads that share no gradient, heads that do */
    int64_t chunks, queries, keys; /* gradients: chunks of a head, and their sizes */
    int64_t head, step;            /* gradients: where the units of a step are */
} job;

static int64_t ratio(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
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

/* Head number i. */
static br_attention_work head_at(const br_attention *a, int64_t i)
{
    br_attention_work w = a->head;
    const int64_t size = a->is_double ? sizeof(double) : sizeof(float);
    for (int d = 0; d < a->batch_ndim; d++) {
        const br_attention_batch *step = &a->batch[d];
        const int64_t n = i % a->batch_sizes[d];
        i /= a->batch_sizes[d];
        move(&w.query, n * step->query, size);
        move(&w.key, n * step->key, size);
        move(&w.value, n * step->value, size);
        move(&w.mask, n * step->mask, w.mask_is_bool ? 1 : size);
        move(&w.out, n * step->out, size);
        move(&w.lse, n * step->lse, size);
        move(&w.dout, n * step->dout, size);
        move(&w.dquery, n * step->dquery, size);
        move(&w.dkey, n * step->dkey, size);
        move(&w.dvalue, n * step->dvalue, size);
        move(&w.dmask, n * step->dmask, size);
        w.first_draw += (uint64_t)n * step->draw;
    }
    return w;
}

/* ---- Sharing units among threads ------------------------------------------------------------- */

/* A team takes units until none is left. */
static void run_team(void *context, int64_t team)
{
    job *j = context;
    void *scratch = j->scratch + team * j->scratch_bytes;
    for (int64_t i; (i = atomic_fetch_add(&j->next, j->taken)) < j->units;)
        for (int64_t end = min64(i + j->taken, j->units); i < end; i++)
            j->unit(j, i, scratch);
}

static void run_units(job *j)
{
    atomic_store(&j->next, 0);
    br__parallel(j->teams, run_team, j);
}

/* Multiplications in the scores of a head. */
static double work(const br_attention_work *w)
{
    return (double)w->queries * (double)w->keys * (double)(w->width + w->value_width);
}

/* Chooses teams and what they take, from the work of one of the units. */
static void set_teams(job *j, double total, double unit)
{
    j->teams = total < SERIAL_WORK ? 1 : min64(br_get_num_threads(), j->units);
    j->taken = unit < TAKEN_WORK ? 1 + (int64_t)(TAKEN_WORK / (unit + 1)) : 1;
    int64_t share = ratio(j->units, 2 * j->teams);
    if (j->taken > share)
        j->taken = share > 0 ? share : 1;
}

/* Scratch for each team, while `run` runs, and denormal numbers taken for 0: weights of keys that
 * hardly count are such. */
static bool with_scratch(job *j, bool gradients, void (*run)(job *j))
{
    j->scratch_bytes = ratio(j->kernels->attention_scratch(&j->a->head, gradients), 64) * 64;
    br_extent *extent;
    size_t bytes = (size_t)(j->teams * j->scratch_bytes);
    j->scratch = br__block_alloc("scaled_dot_product_attention", bytes, &extent);
    if (!j->scratch)
        return false;
    const br_float_mode before = br__flush_denormals();
    run(j);
    br__restore_denormals(before);
    br__block_free(j->scratch, bytes, extent);
    return true;
}

/* ---- Forward --------------------------------------------------------------------------------- */

/* A block of a head's queries; with causality, those that take longest first. */
static void attend(const job *j, int64_t i, void *scratch)
{
    br_attention_work w = head_at(j->a, i / j->blocks);
    int64_t block = i % j->blocks;
    if (w.causal)
        block = j->blocks - 1 - block;
    w.scratch = scratch;
    int64_t first = block * j->block;
    j->kernels->attention(&w, first, min64(first + j->block, w.queries));
}

bool br__attention(const br_attention *a)
{
    const int64_t heads = product(a->batch_ndim, a->batch_sizes);
    job j = { .a = a, .kernels = br__kernels(a->is_double), .unit = attend };
    j.block = BR_ATTENTION_QUERIES;
    if (heads * ratio(a->head.queries, j.block) < UNITS_PER_THREAD * br_get_num_threads())
        j.block = BR_ATTENTION_BLOCK;
    j.blocks = ratio(a->head.queries, j.block);
    j.units = heads * j.blocks;
    if (j.units == 0)
        return true;
    set_teams(&j, (double)heads * work(&a->head), work(&a->head) / (double)j.blocks);
    return with_scratch(&j, false, run_units);
}

/* ---- Gradients ------------------------------------------------------------------------------- */

/* Chunk `keys` of the keys of a head in step t. */
static void differentiate(const job *j, const br_attention_work *w, int64_t t, int64_t keys)
{
    int64_t queries = (keys + t) % j->chunks * j->queries;
    keys *= j->keys;
    j->kernels->attention_grad(w, queries, min64(queries + j->queries, w->queries), keys,
                               min64(keys + j->keys, w->keys));
}

/* All that adds to the gradients of head number i of the parallel ones. */
static void differentiate_heads(const job *j, int64_t i, void *scratch)
{
    for (int64_t s = 0; s < j->serial; s++) {
        br_attention_work w = head_at(j->a, s * j->parallel + i);
        w.scratch = scratch;
        for (int64_t t = 0; t < j->chunks; t++)
            for (int64_t c = 0; c < j->chunks; c++)
                differentiate(j, &w, t, c);
    }
}

/* A pair of chunks of a step. */
static void differentiate_chunk(const job *j, int64_t i, void *scratch)
{
    br_attention_work w = head_at(j->a, j->head + i / j->chunks);
    w.scratch = scratch;
    differentiate(j, &w, j->step, i % j->chunks);
}

/* True if a gradient that is wanted is a sum along the batch's dimension d. */
static bool is_shared(const br_attention *a, int d)
{
    const br_attention_work *w = &a->head;
    const br_attention_batch *b = &a->batch[d];
    return (w->dquery.at && b->dquery == 0) || (w->dkey.at && b->dkey == 0) ||
           (w->dvalue.at && b->dvalue == 0) || (w->dmask.at && b->dmask == 0);
}

/* The same with the dimensions whose heads share no gradient first; their heads are counted. */
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
        for (j->step = 0; j->step < j->chunks; j->step++)
            run_units(j);
    }
}

/* Even parts of a length, in whole blocks. */
static int64_t chunk_size(int64_t length, int64_t chunks)
{
    return ratio(ratio(length, chunks), BR_ATTENTION_BLOCK) * BR_ATTENTION_BLOCK;
}

/* Each head is then done by one call, in which no row of a gradient is passed over. */
bool br__attention_grad_writes(const br_attention *a)
{
    const br_attention_work *w = &a->head;
    int64_t heads = 1;
    for (int d = 0; d < a->batch_ndim; d++) {
        heads *= a->batch_sizes[d];
        if (is_shared(a, d))
            return false;
    }
    return heads > 0 && w->queries > 0 && w->queries <= BR_ATTENTION_BLOCK && w->keys > 0 &&
           w->keys <= BR_ATTENTION_BLOCK && !(w->causal && w->keys > w->queries) && !w->dmask.at;
}

bool br__attention_grad(const br_attention *given)
{
    const int64_t heads = product(given->batch_ndim, given->batch_sizes);
    const br_attention_work *w = &given->head;
    if (heads == 0 || w->queries == 0 || w->keys == 0)
        return true;
    job j = { .kernels = br__kernels(given->is_double) };
    br_attention a = sorted(given, &j.parallel);
    a.head.writes = br__attention_grad_writes(given);
    j.a = &a;
    j.serial = heads / j.parallel;
    j.chunks = ratio(w->queries > w->keys ? w->queries : w->keys, CHUNK);
    j.queries = chunk_size(w->queries, j.chunks);
    j.keys = chunk_size(w->keys, j.chunks);
    bool by_heads = j.parallel >= UNITS_PER_THREAD * br_get_num_threads();
    j.unit = by_heads ? differentiate_heads : differentiate_chunk;
    j.units = by_heads ? j.parallel : j.parallel * j.chunks;
    const double total = (double)heads * work(w) * 2.5;
    set_teams(&j, total, total / (double)j.units);
    return with_scratch(&j, true, by_heads ? run_units : run_steps);
}
