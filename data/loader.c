/* data/loader.c - batches of a dataset, shuffled as PyTorch's DataLoader shuffles. */
#include "tensor/random_internal.h"

#include <brasa/data.h>
#include <inttypes.h>
#include <string.h>

struct br_loader {
    br_dataset *dataset;
    int64_t batch_size; /* at most the dataset's size */
    bool shuffle, drop_last;
    int64_t size; /* of the dataset */
    int64_t next; /* item of the order that comes next; -1 before the first epoch */
    int64_t *order;
    br_tensor **items; /* of a batch: [field][item] */
};

static bool good_options(const br_dataset *dataset, const br_loader_options *options)
{
    if (br_failed())
        return false;
    if (!dataset)
        br__fail(BR_ERROR_ARGUMENT, "loader", "dataset is NULL, but it is required");
    else if (options->batch_size < 0 || options->batch_size > INT32_MAX)
        br__fail(BR_ERROR_ARGUMENT, "loader", "batch_size is %" PRId64 ", must be 1 .. %d",
                 options->batch_size, INT32_MAX);
    return !br_failed();
}

br_loader *br_loader_new(br_dataset *dataset, const br_loader_options *options)
{
    static const br_loader_options defaults;
    const br_loader_options *o = options ? options : &defaults;
    if (!good_options(dataset, o))
        return NULL;
    br_loader *loader = br__calloc(1, sizeof *loader);
    if (!loader)
        return NULL;
    loader->dataset = dataset;
    loader->batch_size = o->batch_size ? o->batch_size : 1;
    loader->shuffle = o->shuffle;
    loader->drop_last = o->drop_last;
    loader->size = br_dataset_size(dataset);
    loader->next = -1;
    int64_t most = loader->batch_size < loader->size ? loader->batch_size : loader->size;
    size_t fields = (size_t)br_dataset_num_fields(dataset);
    loader->order = br__calloc((size_t)loader->size, sizeof *loader->order);
    loader->items = br__calloc((size_t)most, fields * sizeof(br_tensor *));
    if (loader->order && loader->items)
        return loader;
    br_loader_free(loader);
    return NULL;
}

void br_loader_free(br_loader *loader)
{
    if (!loader)
        return;
    br_free(loader->order);
    br_free(loader->items);
    br_free(loader);
}

int64_t br_loader_size(const br_loader *loader)
{
    if (!loader)
        return 0;
    int64_t whole = loader->size / loader->batch_size;
    return whole + (!loader->drop_last && loader->size % loader->batch_size != 0);
}

/* ---- Order ----------------------------------------------------------------------------------- */

/* What torch.empty((), dtype=torch.int64).random_() draws. */
static uint64_t draw_seed(void)
{
    return br_random_u64() & INT64_MAX;
}

/* A random order of a generator of its own, seeded from this thread's; the latter goes on from
 * behind the seed. */
static void shuffle(br_loader *loader)
{
    uint64_t seed = draw_seed();
    br_rng_state state;
    br_get_rng_state(&state);
    br_manual_seed(seed);
    br__permute(loader->order, loader->size);
    br_set_rng_state(&state);
}

bool br_loader_begin(br_loader *loader)
{
    if (br_failed())
        return false;
    if (!loader) {
        br__fail(BR_ERROR_ARGUMENT, "loader", "loader is NULL, but it is required");
        return false;
    }
    draw_seed(); /* DataLoader's seed for worker processes, drawn whether there are any or not */
    if (loader->shuffle && loader->size > 0)
        shuffle(loader);
    for (int64_t i = 0; i < loader->size && !loader->shuffle; i++)
        loader->order[i] = i;
    loader->next = 0;
    return true;
}

/* ---- Batches --------------------------------------------------------------------------------- */

static bool get_items(br_loader *loader, int64_t count)
{
    br_tensor *fields[BR_MAX_FIELDS];
    for (int64_t i = 0; i < count; i++) {
        if (!br_dataset_get(loader->dataset, loader->order[loader->next + i], fields))
            return false;
        for (int k = 0; k < br_dataset_num_fields(loader->dataset); k++)
            loader->items[k * count + i] = fields[k];
    }
    return true;
}

static bool can_stack(const br_loader *loader, int field, int64_t count)
{
    br_tensor *const *items = &loader->items[field * count];
    const int64_t *numbers = &loader->order[loader->next];
    for (int64_t i = 1; i < count; i++) {
        if (br_same_shape(items[0], items[i]) && items[0]->dtype == items[i]->dtype)
            continue;
        br__fail(BR_ERROR_SHAPE, "loader",
                 "field %d is %s of %s in item %" PRId64 " and %s of %s in item %" PRId64
                 ": a batch wants equal shapes and dtypes",
                 field, br__shape(items[0]), br_dtype_name(items[0]->dtype), numbers[0],
                 br__shape(items[i]), br_dtype_name(items[i]->dtype), numbers[i]);
        return false;
    }
    return true;
}

static bool make_batch(br_loader *loader, int64_t count, br_tensor **fields)
{
    int n = br_dataset_num_fields(loader->dataset);
    br_scope *scope = br_scope_begin();
    bool ok = scope && get_items(loader, count);
    for (int k = 0; ok && k < n; k++) {
        if (can_stack(loader, k, count))
            fields[k] = br_stack((int)count, &loader->items[k * count], 0);
        ok = !br_failed();
    }
    for (int k = 0; k < n; k++)
        fields[k] = ok ? br_scope_return(scope, fields[k]) : NULL;
    br_scope_end(scope);
    return ok;
}

/* Whether there is an epoch to read from. */
static bool has_begun(const br_loader *loader)
{
    if (br_failed())
        return false;
    if (!loader)
        br__fail(BR_ERROR_ARGUMENT, "loader", "loader is NULL, but it is required");
    else if (loader->next < 0)
        br__fail(BR_ERROR_STATE, "loader", "no epoch was started: call br_loader_begin() first");
    return !br_failed();
}

bool br_loader_seek(br_loader *loader, int64_t batch)
{
    if (!has_begun(loader))
        return false;
    int64_t size = br_loader_size(loader);
    if (batch < 0 || batch > size) {
        br__fail(BR_ERROR_ARGUMENT, "loader",
                 "batch is %" PRId64 ", but an epoch has %" PRId64 " batches", batch, size);
        return false;
    }
    loader->next = batch < size ? batch * loader->batch_size : loader->size;
    return true;
}

bool br_loader_next(br_loader *loader, br_tensor **fields)
{
    if (!has_begun(loader))
        return false;
    if (!fields) {
        br__fail(BR_ERROR_ARGUMENT, "loader", "fields is NULL, but it is required");
        return false;
    }
    for (int k = 0; k < br_dataset_num_fields(loader->dataset); k++)
        fields[k] = NULL;
    int64_t left = loader->size - loader->next;
    int64_t count = left < loader->batch_size ? left : loader->batch_size;
    if (count == 0 || (loader->drop_last && count < loader->batch_size))
        return false;
    if (!make_batch(loader, count, fields))
        return false;
    loader->next += count;
    return true;
}
