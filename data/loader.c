/* data/loader.c - batches of a dataset, like PyTorch's DataLoader. Each epoch has an order of the
 * items. Its batches are made by the caller's thread or prefetched by worker threads. */
#include "data/data_internal.h"
#include "tensor/min_max.h"
#include "tensor/random_internal.h"

#include <inttypes.h>
#include <string.h>

BR_DEFINE_DEFAULTS(br_loader)

struct br_loader {
    br_batching batching;
    int64_t batch_size; /* at most the dataset's size */
    bool shuffle, drop_last, persistent;
    int num_workers;
    int64_t prefetch_factor;
    int64_t size;         /* of the dataset */
    int64_t seed;         /* of the orders; -1: the thread's generator makes them */
    int64_t epoch;        /* number of the next epoch */
    int64_t rank, stride; /* this loader makes the batches rank, rank + stride, ... */
    int64_t next;         /* number of the next batch; -1 before the first epoch */
    int64_t *lengths;     /* or NULL */
    int64_t *order;
    uint64_t worker_seed; /* of this epoch */
    br_prefetcher *workers;
    bool prefetching; /* the workers make the batches from `next` on */
};

/* ---- Construction ---------------------------------------------------------------------------- */

static bool good_number(const char *name, int64_t value, int64_t low, int64_t high)
{
    if (value >= low && value <= high)
        return true;
    br_fail(BR_ERROR_ARGUMENT, "loader", "%s is %" PRId64 ", must be %" PRId64 " .. %" PRId64, name,
            value, low, high);
    return false;
}

/* Ranks with other orders would not divide the batches: some would occur twice, others never. */
static bool good_replicas(const br_loader_options *o)
{
    if (!good_number("num_replicas", o->num_replicas, 1, INT32_MAX) ||
        !good_number("rank", o->rank, 0, o->num_replicas - 1))
        return false;
    if (o->num_replicas > 1 && o->shuffle && o->seed < 0)
        br_fail(BR_ERROR_ARGUMENT, "loader",
                "shuffle with num_replicas = %d needs the option seed, so that all ranks have the "
                "same order",
                o->num_replicas);
    return !br_failed();
}

static bool good_options(const br_dataset *dataset, const br_loader_options *o)
{
    enum { MAX_WORKERS = 256, MAX_PREFETCHED = 1024 };
    if (!br__required("loader", "dataset", dataset))
        return false;
    return good_number("batch_size", o->batch_size, 1, INT32_MAX) &&
           good_number("num_workers", o->num_workers, 0, MAX_WORKERS) &&
           good_number("prefetch_factor", o->prefetch_factor, 1, MAX_PREFETCHED) &&
           good_number("seed", o->seed, -1, INT64_MAX) && good_replicas(o);
}

static bool copy_lengths(br_loader *loader, const int64_t *lengths)
{
    if (!lengths)
        return true;
    loader->lengths = br_malloc((size_t)loader->size * sizeof *lengths);
    if (loader->lengths && loader->size > 0)
        memcpy(loader->lengths, lengths, (size_t)loader->size * sizeof *lengths);
    return loader->lengths != NULL;
}

static void store_options(br_loader *loader, br_dataset *dataset, const br_loader_options *o)
{
    loader->batching = (br_batching){ .dataset = dataset, .pad = o->pad };
    for (int k = 0; o->padding_values && k < br_dataset_num_fields(dataset); k++)
        loader->batching.padding_values[k] = o->padding_values[k];
    loader->batch_size = o->batch_size;
    loader->shuffle = o->shuffle;
    loader->drop_last = o->drop_last;
    loader->num_workers = o->num_workers;
    loader->prefetch_factor = o->prefetch_factor;
    loader->persistent = o->persistent_workers;
    loader->seed = o->seed;
    loader->rank = o->rank;
    loader->stride = o->num_replicas;
    loader->size = br_dataset_size(dataset);
    loader->next = -1;
}

br_loader *br_loader_new(br_dataset *dataset, const br_loader_options *options)
{
    const br_loader_options *o = BR_OPTIONS_OF("loader", br_loader, options);
    if (!good_options(dataset, o))
        return NULL;
    br_loader *loader = BR_NEW(br_loader);
    if (!loader)
        return NULL;
    store_options(loader, dataset, o);
    loader->order = br_calloc((size_t)loader->size, sizeof *loader->order);
    if (loader->order && copy_lengths(loader, o->lengths))
        return loader;
    br_loader_free(loader);
    return NULL;
}

static void end_workers(br_loader *loader)
{
    br__prefetcher_free(loader->workers);
    loader->workers = NULL;
}

void br_loader_free(br_loader *loader)
{
    if (!BR_END("loader_free", loader))
        return;
    end_workers(loader);
    br_free(loader->lengths);
    br_free(loader->order);
    BR_FREE(loader);
}

int64_t br_loader_size(const br_loader *loader)
{
    if (!BR_LIVE("loader_size", loader))
        return 0;
    int64_t whole = loader->size / loader->batch_size;
    return whole + (!loader->drop_last && loader->size % loader->batch_size != 0);
}

/* ---- Batches --------------------------------------------------------------------------------- */

static bool make_batch(const void *context, int64_t batch, br_tensor **fields)
{
    const br_loader *loader = context;
    int64_t first = batch * loader->batch_size, left = loader->size - first;
    return br__make_batch(&loader->batching, br__min(left, loader->batch_size),
                          loader->order + first, fields);
}

static void stop_workers(br_loader *loader)
{
    loader->prefetching = false;
    if (loader->workers)
        br__prefetcher_stop(loader->workers);
}

/* Makes the workers prefetch the batches from number loader->next on. */
static bool start_workers(br_loader *loader)
{
    if (!loader->workers)
        loader->workers =
            br__prefetcher_new(loader->num_workers, loader->num_workers * loader->prefetch_factor,
                               br_dataset_num_fields(loader->batching.dataset), make_batch, loader);
    if (loader->workers)
        br__prefetcher_start(loader->workers, loader->next, br_loader_size(loader), loader->stride,
                             loader->worker_seed);
    return loader->prefetching = loader->workers != NULL;
}

static void make_order(br_loader *loader)
{
    br_rng_state state;
    br_get_rng_state(&state);
    bool seeded = loader->seed >= 0;
    if (seeded)
        br_manual_seed((uint64_t)loader->seed + (uint64_t)loader->epoch);
    /* DataLoader generates a seed for its workers even if there are none. */
    loader->worker_seed = br_random_u64() & INT64_MAX;
    br__sample(loader->order, loader->size, loader->shuffle, loader->lengths, loader->batch_size);
    if (seeded)
        br_set_rng_state(&state);
}

bool br_loader_begin(br_loader *loader)
{
    if (!br__required("loader", "loader", loader))
        return false;
    stop_workers(loader);
    if (!loader->persistent)
        end_workers(loader);
    make_order(loader);
    loader->epoch++;
    loader->next = loader->rank;
    return true;
}

bool br_loader_set_epoch(br_loader *loader, int64_t epoch)
{
    if (!br__required("loader", "loader", loader) || !good_number("epoch", epoch, 0, INT64_MAX - 1))
        return false;
    if (loader->seed < 0) {
        br_fail(BR_ERROR_STATE, "loader",
                "the order of an epoch comes from the thread's generator: set the option seed to "
                "number epochs");
        return false;
    }
    loader->epoch = epoch;
    return true;
}

/* Fails if no epoch was started. */
static bool has_begun(const br_loader *loader)
{
    if (!br__required("loader", "loader", loader))
        return false;
    if (loader->next < 0)
        br_fail(BR_ERROR_STATE, "loader", "no epoch was started: call br_loader_begin() first");
    return !br_failed();
}

bool br_loader_seek(br_loader *loader, int64_t batch)
{
    if (!has_begun(loader))
        return false;
    int64_t size = br_loader_size(loader);
    if (batch < 0 || batch > size) {
        br_fail(BR_ERROR_ARGUMENT, "loader",
                "batch is %" PRId64 ", but an epoch has %" PRId64 " batches", batch, size);
        return false;
    }
    if (batch != loader->next)
        stop_workers(loader);
    loader->next = batch;
    return true;
}

/* After a failed batch the workers are stopped. The next call restarts them at the same batch, so a
 * failed batch can be retried, as without workers. */
static bool next_of_workers(br_loader *loader, br_tensor **fields)
{
    if (!loader->prefetching && !start_workers(loader))
        return false;
    bool ok = br__prefetcher_next(loader->workers, fields);
    if (!ok)
        stop_workers(loader);
    return ok;
}

bool br_loader_next(br_loader *loader, br_tensor **fields)
{
    if (!has_begun(loader) || !br__required("loader", "fields", fields))
        return false;
    for (int k = 0; k < br_dataset_num_fields(loader->batching.dataset); k++)
        fields[k] = NULL;
    if (loader->next >= br_loader_size(loader)) {
        if (!loader->persistent)
            end_workers(loader);
        return false;
    }
    if (!(loader->num_workers > 0 ? next_of_workers(loader, fields)
                                  : make_batch(loader, loader->next, fields)))
        return false;
    loader->next += loader->stride;
    return true;
}
