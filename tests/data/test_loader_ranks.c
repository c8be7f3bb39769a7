/* tests/data/test_loader_ranks.c - loaders that divide the batches of an epoch among several ranks,
 * and epochs with a seed. */
#include "tests/memory.h"

#include <brasa/data.h>
#include <stdatomic.h>

TestSuite(loader_ranks, .init = check_begin, .fini = check_end);

enum { ITEMS = 37, BATCH = 3, BATCHES = 13, EPOCHS = 3, SEED = 11 };
enum { MAX_RANKS = 15 }; /* more than batches, so that the last ones get none */

static atomic_int reads[ITEMS]; /* how often each item was read */

static bool get_item(void *context, int64_t i, br_tensor **fields)
{
    (void)context;
    atomic_fetch_add(&reads[i], 1);
    fields[0] = br_scalar((double)i, BR_I64);
    return fields[0] != NULL;
}

/* A batch: the sequence of its item numbers, as the digits of one number. 0: the epoch's end. */
static int64_t next_batch(br_loader *loader)
{
    int64_t batch = 0;
    br_tensor *field;
    br_scope *scope = br_scope_begin();
    if (br_loader_next(loader, &field))
        for (int64_t i = 0; i < br_numel(field); i++)
            batch = batch * 100 + br_data_i64(field)[i] + 1;
    br_scope_end(scope);
    check_ok();
    return batch;
}

static br_loader_options options_of(int ranks, int rank)
{
    return *BR_OPTIONS(br_loader, .batch_size = BATCH, .shuffle = true, .seed = SEED,
                       .num_replicas = ranks, .rank = rank);
}

static br_loader *loader_new(br_dataset *dataset, const br_loader_options *options)
{
    br_loader *loader = br_loader_new(dataset, options);
    cr_assert(loader, "%s", br_error_message());
    return loader;
}

/* Stores the batches of one process that seeds the thread's generator before each epoch. */
static void run_alone(br_dataset *dataset, bool drop_last, int64_t batches[EPOCHS][BATCHES + 1])
{
    br_loader *loader = loader_new(dataset, BR_OPTIONS(br_loader, .batch_size = BATCH,
                                                       .shuffle = true, .drop_last = drop_last));
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        br_manual_seed(SEED + (uint64_t)epoch);
        cr_assert(br_loader_begin(loader));
        int64_t n = 0;
        while ((batches[epoch][n] = next_batch(loader)) != 0)
            n++;
        cr_assert_eq(n, BATCHES - drop_last);
    }
    br_loader_free(loader);
}

/* The ranks in turn get the batches of one process, so none is missing and none occurs twice. */
static void check_ranks(br_dataset *dataset, int ranks, int workers, bool drop_last)
{
    int64_t want[EPOCHS][BATCHES + 1];
    run_alone(dataset, drop_last, want);
    br_loader *loaders[MAX_RANKS];
    for (int r = 0; r < ranks; r++) {
        br_loader_options o = options_of(ranks, r);
        o.drop_last = drop_last;
        o.num_workers = workers;
        o.persistent_workers = r % 2;
        loaders[r] = loader_new(dataset, &o);
        cr_assert_eq(br_loader_size(loaders[r]), BATCHES - drop_last);
    }
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        for (int r = 0; r < ranks; r++)
            cr_assert(br_loader_begin(loaders[r]));
        for (int64_t b = 0; b < br_loader_size(loaders[0]); b++)
            cr_assert_eq(next_batch(loaders[b % ranks]), want[epoch][b],
                         "%d ranks, epoch %d, batch %d", ranks, epoch, (int)b);
        for (int r = 0; r < ranks; r++)
            cr_assert_eq(next_batch(loaders[r]), 0);
    }
    for (int r = 0; r < ranks; r++)
        br_loader_free(loaders[r]);
}

Test(loader_ranks, ranks_divide_the_batches_of_one_process)
{
    static const int ranks[] = { 1, 2, 3, 4, MAX_RANKS };
    br_dataset *dataset = br_dataset_new(ITEMS, 1, get_item, NULL, NULL);
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++)
        for (int workers = 0; workers <= 2; workers++)
            for (int drop_last = 0; drop_last <= 1; drop_last++)
                check_ranks(dataset, ranks[i], workers, drop_last);
    br_dataset_free(dataset);
}

/* Prefetching threads read the items of this rank's batches, once, and no others. */
Test(loader_ranks, a_rank_reads_only_its_own_batches)
{
    enum { RANKS = 4, RANK = 2 };
    br_dataset *dataset = br_dataset_new(ITEMS, 1, get_item, NULL, NULL);
    br_loader_options o = options_of(RANKS, RANK);
    o.shuffle = false;
    o.num_workers = 2;
    o.prefetch_factor = 3;
    br_loader *loader = loader_new(dataset, &o);
    cr_assert(br_loader_begin(loader) && br_loader_seek(loader, 6)); /* batch 2 is not read */
    while (next_batch(loader))
        ;
    for (int i = 0; i < ITEMS; i++) {
        int batch = i / BATCH;
        cr_assert_eq(reads[i], batch >= 6 && batch % RANKS == RANK, "item %d was read %d times", i,
                     reads[i]);
    }
    br_loader_free(loader);
    br_dataset_free(dataset);
}

/* A run is resumed at any epoch and batch, by another number of ranks. */
Test(loader_ranks, seek_resumes_with_another_number_of_ranks)
{
    int64_t want[EPOCHS][BATCHES + 1];
    br_dataset *dataset = br_dataset_new(ITEMS, 1, get_item, NULL, NULL);
    run_alone(dataset, false, want);
    for (int ranks = 1; ranks <= 4; ranks++) {
        for (int b = 0; b < BATCHES; b++) {
            br_loader_options o = options_of(ranks, 0);
            o.num_workers = b % 3;
            br_loader *loader = loader_new(dataset, &o);
            cr_assert(br_loader_set_epoch(loader, 1) && br_loader_begin(loader) &&
                      br_loader_seek(loader, b));
            for (int next = b; next < BATCHES; next += ranks)
                cr_assert_eq(next_batch(loader), want[1][next], "%d ranks from batch %d", ranks, b);
            cr_assert_eq(next_batch(loader), 0);
            cr_assert(br_loader_begin(loader));
            cr_assert_eq(next_batch(loader), want[2][0]);
            br_loader_free(loader);
        }
    }
    br_dataset_free(dataset);
}

/* With a seed, the order does not depend on the thread's generator, and does not change it. */
Test(loader_ranks, a_seed_leaves_the_threads_generator_alone)
{
    br_dataset *dataset = br_dataset_new(ITEMS, 1, get_item, NULL, NULL);
    br_loader_options o = options_of(1, 0);
    br_loader *loader = loader_new(dataset, &o);
    br_manual_seed(5);
    double want = br_random_double();
    br_manual_seed(5);
    cr_assert(br_loader_begin(loader));
    int64_t first = next_batch(loader);
    cr_assert_eq(br_random_double(), want);
    check_fails(br_loader_set_epoch(loader, INT64_MAX), "epoch is 9223372036854775807");
    cr_assert(br_loader_set_epoch(loader, INT64_MAX - 1) && br_loader_begin(loader));
    cr_assert(br_loader_set_epoch(loader, 0) && br_loader_begin(loader));
    cr_assert_eq(next_batch(loader), first);
    br_loader_free(loader);
    br_dataset_free(dataset);
}

Test(loader_ranks, refuses)
{
    br_dataset *dataset = br_dataset_new(ITEMS, 1, get_item, NULL, NULL);
    check_fails(br_loader_new(dataset, BR_OPTIONS(br_loader, .num_replicas = 0)),
                "num_replicas is 0, must be 1 .. 2147483647");
    check_fails(br_loader_new(dataset, BR_OPTIONS(br_loader, .num_replicas = 4, .rank = 4)),
                "rank is 4, must be 0 .. 3");
    check_fails(br_loader_new(dataset, BR_OPTIONS(br_loader, .num_replicas = 4, .rank = -1)),
                "rank is -1, must be 0 .. 3");
    check_fails(br_loader_new(dataset, BR_OPTIONS(br_loader, .rank = 1)),
                "rank is 1, must be 0 .. 0");
    check_fails(br_loader_new(dataset, BR_OPTIONS(br_loader, .seed = -2)), "seed is -2");
    check_fails(br_loader_new(dataset, BR_OPTIONS(br_loader, .num_replicas = 4, .shuffle = true)),
                "shuffle with num_replicas = 4 needs the option seed");
    br_loader *loader = loader_new(dataset, NULL);
    check_fails(br_loader_set_epoch(loader, 1), "set the option seed to number epochs");
    check_fails(br_loader_set_epoch(loader, -1), "epoch is -1");
    check_fails(br_loader_set_epoch(NULL, 1), "loader is NULL");
    br_loader_free(loader);
    br_dataset_free(dataset);
}
