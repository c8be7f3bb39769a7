/* tests/fuzz/api_data.c - actions of the fuzz target api: datasets and loaders. */
#include "tests/fuzz/api.h"

enum { DATASETS = 4, LOADERS = 3, FIELDS = 2 };
static struct {
    br_dataset *dataset;
    br_dataset *whole; /* of a subset: must outlive it */
} sets[DATASETS];
static struct {
    br_loader *loader;
    br_dataset *dataset; /* must outlive the loader */
} loaders[LOADERS];

#define ON(i) (a->on[i])
#define N(i)  (a->n[i])

static br_dataset *dataset_of(const api_args *a)
{
    return sets[a->which[0] % DATASETS].dataset;
}

static br_loader *loader_of(const api_args *a)
{
    return loaders[a->which[0] % LOADERS].loader;
}

/* Frees a dataset after the loaders and subsets that use it. */
static void free_dataset(br_dataset *dataset)
{
    if (!dataset)
        return;
    for (int i = 0; i < LOADERS; i++)
        if (loaders[i].dataset == dataset) {
            br_loader_free(loaders[i].loader);
            loaders[i].loader = NULL;
            loaders[i].dataset = NULL;
        }
    for (int i = 0; i < DATASETS; i++)
        if (sets[i].whole == dataset) {
            sets[i].whole = NULL; /* ends the recursion */
            free_dataset(sets[i].dataset);
        }
    for (int i = 0; i < DATASETS; i++)
        if (sets[i].dataset == dataset)
            sets[i].dataset = sets[i].whole = NULL;
    br_dataset_free(dataset);
}

/* Frees the dataset at a place, so that another one can be put there. Returns the place's number.
 */
static int make_room(uint8_t which)
{
    int at = which % DATASETS;
    free_dataset(sets[at].dataset);
    return at;
}

/* ---- Datasets -------------------------------------------------------------------------------- */

/* Items of different lengths; item 6 fails. */
static bool get_item(void *context, int64_t i, br_tensor **fields)
{
    (void)context;
    if (i == 6)
        return br_fail(BR_ERROR_ARGUMENT, "get_item", "item 6 cannot be made");
    fields[0] = br_full(1, (int64_t[]){ 1 + i % 3 }, (double)i, BR_F32);
    fields[1] = br_full(0, NULL, (double)i, BR_I64);
    return fields[0] && fields[1];
}

static void make_dataset(const api_args *a)
{
    int at = make_room(a->which[1]);
    sets[at].dataset = ON(0) ? br_dataset_new(N(0) * N(1), FIELDS, get_item, NULL, NULL)
                             : br_tensor_dataset_new(FIELDS, a->t);
    api_answer(sets[at].dataset != NULL);
}

static void make_subset(const api_args *a)
{
    int at = make_room(a->which[1]);
    br_dataset *whole = dataset_of(a), *made = br_subset_new(whole, 3, a->n);
    api_answer(made != NULL);
    sets[at].dataset = made;
    sets[at].whole = made ? whole : NULL;
}

static void split(const api_args *a)
{
    int at = make_room(a->which[1]);
    br_dataset *whole = dataset_of(a), *halves[2] = { NULL };
    int64_t first = N(0), lengths[] = { first, whole ? br_dataset_size(whole) - first : 1 };
    double fractions[] = { a->x[0], 1 - a->x[0] };
    bool done = ON(0) ? br_random_split(whole, 2, lengths, halves)
                      : br_random_split_fractions(whole, 2, fractions, halves);
    api_answer(done && halves[0] && halves[1]);
    br_dataset_free(halves[1]);
    sets[at].dataset = halves[0];
    sets[at].whole = halves[0] ? whole : NULL;
}

static void get(const api_args *a)
{
    br_tensor *fields[BR_MAX_FIELDS] = { NULL };
    br_dataset *dataset = dataset_of(a);
    bool done = br_dataset_get(dataset, N(0) - 1, fields);
    api_answer(done);
    if (done && br_dataset_num_fields(dataset) > 0)
        api_result(fields[0]);
}

static void end_dataset(const api_args *a)
{
    free_dataset(dataset_of(a));
}

/* ---- Loaders --------------------------------------------------------------------------------- */

static void make_loader(const api_args *a)
{
    static const int64_t lengths[64] = { 3, 1, 2, 1, 5 };
    br_dataset *dataset = dataset_of(a);
    bool sorted = ON(3) && dataset && br_dataset_size(dataset) <= API_COUNT(lengths);
    br_loader *made = br_loader_new(
        dataset, BR_OPTIONS(br_loader, .batch_size = N(0), .shuffle = ON(0), .drop_last = ON(1),
                            .pad = ON(2), .lengths = sorted ? lengths : NULL,
                            .num_workers = a->which[2] % 16 == 15, .prefetch_factor = N(1),
                            .persistent_workers = ON(3), .seed = ON(1) ? N(2) : -1,
                            .num_replicas = ON(2) ? (int)N(2) : 1, .rank = ON(2) ? (int)N(3) : 0));
    api_answer(made != NULL);
    int at = a->which[1] % LOADERS;
    br_loader_free(loaders[at].loader);
    loaders[at].loader = made;
    loaders[at].dataset = dataset;
}

static void begin(const api_args *a)
{
    api_answer(br_loader_begin(loader_of(a)));
}

static void next(const api_args *a)
{
    br_tensor *fields[BR_MAX_FIELDS] = { NULL };
    if (br_loader_next(loader_of(a), fields))
        api_result(fields[0]);
}

static void whole_epoch(const api_args *a)
{
    br_loader *loader = loader_of(a);
    br_tensor *fields[BR_MAX_FIELDS] = { NULL };
    int64_t size = loader ? br_loader_size(loader) : 0, n = 0;
    br_scope *scope = br_scope_begin();
    if (br_loader_begin(loader))
        while (n <= size && br_loader_next(loader, fields))
            n++;
    br_scope_end(scope);
    api_answer(n <= size);
}

static void seek(const api_args *a)
{
    api_answer(ON(0) ? br_loader_seek(loader_of(a), N(0) - 1)
                     : br_loader_set_epoch(loader_of(a), N(0) - 1));
}

static void end_loader(const api_args *a)
{
    int at = a->which[0] % LOADERS;
    br_loader_free(loaders[at].loader);
    loaders[at].loader = NULL;
}

static const api_action actions[] = {
    make_dataset, make_subset, split, get,         end_dataset, make_loader,
    begin,        next,        next,  whole_epoch, seek,        end_loader,
};

static void free_all(void)
{
    for (int i = 0; i < DATASETS; i++)
        free_dataset(sets[i].dataset);
}

const api_part api_data = { actions, API_COUNT(actions), free_all };
