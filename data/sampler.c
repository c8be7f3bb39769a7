/* data/sampler.c - the order of a loader's items. */
#include "data/data_internal.h"
#include "tensor/min_max.h"
#include "tensor/random_internal.h"

#include <stdlib.h>

enum { BUCKET = 100 }; /* batches whose items are sorted by length together */

/* Orders items by length, and items of equal length by number, so that the result does not depend
 * on the C library's sort. */
static int by_length(const void *a, const void *b, void *context)
{
    const int64_t *lengths = context;
    int64_t i = *(const int64_t *)a, k = *(const int64_t *)b;
    if (lengths[i] != lengths[k])
        return lengths[i] < lengths[k] ? -1 : 1;
    return (i > k) - (i < k);
}

static void swap_batches(int64_t *a, int64_t *b, int64_t size)
{
    for (int64_t i = 0; i < size; i++) {
        int64_t x = a[i];
        a[i] = b[i];
        b[i] = x;
    }
}

/* Shuffles whole batches. An incomplete last batch keeps its place. */
static void permute_batches(int64_t *order, int64_t n, int64_t batch_size)
{
    int64_t batches = n / batch_size;
    for (int64_t i = 0; i + 1 < batches; i++) {
        int64_t other = i + (int64_t)(br_random_u64() % (uint64_t)(batches - i));
        if (other != i)
            swap_batches(order + i * batch_size, order + other * batch_size, batch_size);
    }
}

static void make_buckets(int64_t *order, int64_t n, bool shuffle, const int64_t *lengths,
                         int64_t batch_size)
{
    int64_t each = shuffle && batch_size <= n / BUCKET ? BUCKET * batch_size : n;
    for (int64_t from = 0; from < n; from += each)
        qsort_r(order + from, (size_t)br__min(n - from, each), sizeof *order, by_length,
                (void *)lengths);
    if (shuffle)
        permute_batches(order, n, batch_size);
}

void br__sample(int64_t *order, int64_t n, bool shuffle, const int64_t *lengths, int64_t batch_size)
{
    br_rng_state state;
    if (shuffle && n > 0) {
        /* The seed is torch.empty((), dtype=torch.int64).random_(), as in PyTorch's RandomSampler.
         * It is the only number that this function consumes from the thread's generator. */
        uint64_t seed = br_random_u64() & INT64_MAX;
        br_get_rng_state(&state);
        br_manual_seed(seed);
        br__permute(order, n);
    } else {
        for (int64_t i = 0; i < n; i++)
            order[i] = i;
    }
    if (lengths && n > 0)
        make_buckets(order, n, shuffle, lengths, batch_size);
    if (shuffle && n > 0)
        br_set_rng_state(&state);
}
