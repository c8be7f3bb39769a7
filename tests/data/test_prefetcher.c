/* tests/data/test_prefetcher.c - loaders with prefetching worker threads, which must have the same
 * batches as a loader without workers; buckets by length; padding. */
#include "data/data_internal.h"
#include "tensor/random_internal.h"
#include "tests/memory.h"

#include <brasa/data.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

/* The timeout keeps a deadlock from blocking all tests. */
TestSuite(prefetcher, .init = check_begin, .fini = check_end);

enum { ITEMS = 37 };

static useconds_t slowness = 2000;

/* The fields of item i are i, three random numbers, and i % 5 + 1 copies of i. Every seventh item
 * is slow. */
static bool get_item(void *context, int64_t i, br_tensor **fields)
{
    const int64_t *bad = context;
    if (*bad == i) {
        br_raise(BR_ERROR_FORMAT, "item %d is spoiled", (int)i);
        return false;
    }
    if (i % 7 == 0)
        usleep(slowness);
    fields[0] = br_scalar((double)i, BR_I64);
    fields[1] = br_rand(BR_SHAPE(3), BR_F32);
    fields[2] = br_full(BR_SHAPE(i % 5 + 1), (double)i, BR_I64);
    return true;
}

static int64_t none = -1;

static br_dataset *items_new(int64_t *bad)
{
    return br_dataset_new(ITEMS, 3, get_item, bad, NULL);
}

static const double padding[] = { 0, 0, -1 };

/* Computes a weighted sum over each of three epochs. Sets *after to the generator's next number
 * after them. */
static void run_epochs(br_dataset *dataset, br_loader_options options, double sums[3],
                       double *after)
{
    options.pad = true;
    options.padding_values = padding;
    br_loader *loader = br_loader_new(dataset, &options);
    cr_assert(loader, "%s", br_error_message());
    br_manual_seed(11);
    for (int epoch = 0; epoch < 3; epoch++) {
        double weight = 1;
        sums[epoch] = 0;
        cr_assert(br_loader_begin(loader));
        for (bool more = true; more; weight++) {
            br_scope *scope = br_scope_begin();
            br_tensor *fields[3];
            more = br_loader_next(loader, fields);
            for (int k = 0; more && k < 3; k++)
                if (options.num_workers > 0 || k != 1)
                    sums[epoch] += weight * br_item(br_sum(br_to(fields[k], BR_F64)));
            br_scope_end(scope);
        }
        check_ok();
    }
    *after = br_random_double();
    br_loader_free(loader);
}

/* With any number of workers and of prefetched batches, the batches are the same, including random
 * numbers and order. */
Test(prefetcher, workers_do_not_matter)
{
    br_dataset *dataset = items_new(&none);
    static const int workers[] = { 1, 2, 5 };
    double first[3], sums[3], after, first_after;
    br_loader_options o =
        *BR_OPTIONS(br_loader, .batch_size = 4, .shuffle = true, .num_workers = 1);
    run_epochs(dataset, o, first, &first_after);
    for (size_t i = 0; i < 6; i++) {
        o.num_workers = workers[i % 3];
        o.prefetch_factor = i < 3 ? 1 : 3;
        o.persistent_workers = i % 2;
        run_epochs(dataset, o, sums, &after);
        cr_assert_arr_eq(sums, first, sizeof sums);
        cr_assert_eq(after, first_after);
    }
    br_dataset_free(dataset);
}

/* Batch b of an epoch uses the random numbers of the epoch's seed plus b, just as each of PyTorch's
 * workers is seeded with the epoch's seed plus its own number. */
Test(prefetcher, every_batch_has_a_seed_of_its_own)
{
    br_dataset *dataset = items_new(&none);
    br_loader *loader = br_loader_new(
        dataset, BR_OPTIONS(br_loader, .batch_size = 4, .num_workers = 2, .pad = true));
    br_manual_seed(11);
    uint64_t seeds[2];
    for (int epoch = 0; epoch < 2; epoch++)
        seeds[epoch] = br_random_u64() & INT64_MAX;
    br_manual_seed(11);
    for (int epoch = 0; epoch < 2; epoch++) {
        cr_assert(br_loader_begin(loader));
        br_rng_state state;
        br_get_rng_state(&state);
        for (int64_t batch = 0; batch < br_loader_size(loader); batch++) {
            br_scope *scope = br_scope_begin();
            br_tensor *fields[3];
            cr_assert(br_loader_next(loader, fields), "%s", br_error_message());
            br_manual_seed(seeds[epoch] + (uint64_t)batch);
            for (int64_t i = 0; i < br_size(fields[1], 0); i++)
                cr_assert(br_equal(br_select(fields[1], 0, i), br_rand(BR_SHAPE(3), BR_F32)),
                          "epoch %d, batch %d, item %d", epoch, (int)batch, (int)i);
            br_scope_end(scope);
        }
        br_set_rng_state(&state);
    }
    br_loader_free(loader);
    br_dataset_free(dataset);
}

/* Stores the item numbers of three epochs in order. */
static void run_numbers(br_dataset *dataset, br_loader_options options, int64_t *numbers)
{
    options.pad = true;
    br_loader *loader = br_loader_new(dataset, &options);
    br_manual_seed(11);
    for (int epoch = 0; epoch < 3; epoch++) {
        cr_assert(br_loader_begin(loader));
        for (bool more = true; more;) {
            br_scope *scope = br_scope_begin();
            br_tensor *fields[3];
            more = br_loader_next(loader, fields);
            for (int64_t i = 0; more && i < br_numel(fields[0]); i++)
                *numbers++ = br_data_i64(fields[0])[i];
            br_scope_end(scope);
        }
        check_ok();
    }
    br_loader_free(loader);
}

/* If items use no random numbers, a loader without workers has the same batches, too. */
Test(prefetcher, order_is_that_without_workers)
{
    br_scope *scope = br_scope_begin();
    br_dataset *dataset = br_tensor_dataset_new(BR_INPUTS(br_arange(0, ITEMS, 1, BR_I64)));
    br_scope_end(scope);
    int64_t with[3 * ITEMS], without[3 * ITEMS];
    br_loader_options o = *BR_OPTIONS(br_loader, .batch_size = 5, .shuffle = true);
    run_numbers(dataset, o, without);
    o.num_workers = 3;
    run_numbers(dataset, o, with);
    cr_assert_arr_eq(with, without, sizeof with);
    br_dataset_free(dataset);
}

Test(prefetcher, stops_anywhere)
{
    br_dataset *dataset = items_new(&none);
    br_loader_options o = *BR_OPTIONS(br_loader, .batch_size = 2, .num_workers = 2, .pad = true);
    for (int persistent = 0; persistent < 2; persistent++) {
        o.persistent_workers = persistent;
        br_loader *loader = br_loader_new(dataset, &o);
        br_scope *scope = br_scope_begin();
        br_tensor *fields[3];
        cr_assert(br_loader_begin(loader) && br_loader_next(loader, fields));
        cr_assert(br_loader_begin(loader) && br_loader_next(loader, fields));
        cr_assert_eq(br_data_i64(fields[0])[1], 1);
        cr_assert(br_loader_seek(loader, 9) && br_loader_next(loader, fields));
        cr_assert_eq(br_data_i64(fields[0])[0], 18);
        cr_assert(br_loader_seek(loader, 19) && !br_loader_next(loader, fields));
        cr_assert(br_loader_seek(loader, 1) && br_loader_next(loader, fields));
        cr_assert_eq(br_data_i64(fields[0])[0], 2);
        br_loader_free(loader);
        br_scope_end(scope);
    }
    br_dataset_free(dataset);
}

typedef struct seen_signals {
    pthread_t caller;
    atomic_int items, unblocked; /* items made by workers, and those that SIGTERM can interrupt */
} seen_signals;

static bool look_at_signals(void *context, int64_t i, br_tensor **fields)
{
    seen_signals *s = context;
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    atomic_fetch_add(&s->items, !pthread_equal(pthread_self(), s->caller));
    atomic_fetch_add(&s->unblocked, !sigismember(&blocked, SIGTERM));
    fields[0] = br_scalar((double)i, BR_I64);
    return true;
}

/* Signals arrive in the program's own threads, also in the one that starts the workers. */
Test(prefetcher, workers_receive_no_signals)
{
    seen_signals s = { .caller = pthread_self() };
    sigset_t before, after;
    sigemptyset(&before);
    sigaddset(&before, SIGUSR1);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    br_dataset *dataset = br_dataset_new(ITEMS, 1, look_at_signals, &s, NULL);
    br_loader *loader = br_loader_new(dataset, BR_OPTIONS(br_loader, .num_workers = 2));
    cr_assert(br_loader_begin(loader), "%s", br_error_message());
    br_scope *scope = br_scope_begin();
    br_tensor *field;
    while (br_loader_next(loader, &field))
        ;
    br_scope_end(scope);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    cr_assert(sigismember(&after, SIGUSR1) && !sigismember(&after, SIGTERM));
    cr_assert_eq(atomic_load(&s.items), ITEMS);
    cr_assert_eq(atomic_load(&s.unblocked), 0);
    br_loader_free(loader);
    br_dataset_free(dataset);
}

/* The batch of the bad item fails only when it is requested, and each time it is requested. */
Test(prefetcher, errors_come_in_their_turn)
{
    int64_t bad = 5;
    br_dataset *dataset = items_new(&bad);
    br_loader *loader = br_loader_new(
        dataset, BR_OPTIONS(br_loader, .batch_size = 2, .num_workers = 3, .pad = true));
    br_scope *scope = br_scope_begin();
    br_tensor *fields[3];
    cr_assert(br_loader_begin(loader));
    cr_assert(br_loader_next(loader, fields) && br_loader_next(loader, fields));
    check_fails(br_loader_next(loader, fields), "item 5 is spoiled");
    cr_assert_null(fields[0]);
    check_fails(br_loader_next(loader, fields), "item 5 is spoiled");
    cr_assert(br_loader_seek(loader, 3));
    cr_assert(br_loader_next(loader, fields));
    cr_assert_eq(br_data_i64(fields[0])[0], 6);
    br_loader_free(loader);
    br_scope_end(scope);
    br_dataset_free(dataset);
}

Test(prefetcher, padding)
{
    br_dataset *dataset = items_new(&none);
    br_loader *loader = br_loader_new(
        dataset, BR_OPTIONS(br_loader, .batch_size = 4, .pad = true, .padding_values = padding));
    br_scope *scope = br_scope_begin();
    br_tensor *fields[3];
    cr_assert(br_loader_begin(loader) && br_loader_next(loader, fields));
    static const int64_t want[] = { 0, -1, -1, -1, 1, 1, -1, -1, 2, 2, 2, -1, 3, 3, 3, 3 };
    cr_assert_eq(br_ndim(fields[0]), 1);
    cr_assert_eq(br_size(fields[1], 1), 3);
    cr_assert_eq(br_size(fields[2], 1), 4);
    cr_assert_arr_eq(br_data_i64(fields[2]), want, sizeof want);
    br_loader_free(loader);
    br_scope_end(scope);
    br_dataset_free(dataset);
}

static bool get_row(void *context, int64_t i, br_tensor **fields)
{
    (void)context;
    static const int64_t lengths[] = { 3, 5, 2, 4 };
    fields[0] = br_full(BR_SHAPE(lengths[i]), (double)i, BR_I64);
    return true;
}

/* The longest item may have any place in the batch. */
Test(prefetcher, padding_to_the_longest_item)
{
    br_dataset *dataset = br_dataset_new(4, 1, get_row, NULL, NULL);
    br_loader *loader = br_loader_new(dataset, BR_OPTIONS(br_loader, .batch_size = 4, .pad = true,
                                                          .padding_values = (double[]){ -1 }));
    br_scope *scope = br_scope_begin();
    br_tensor *rows;
    cr_assert(br_loader_begin(loader) && br_loader_next(loader, &rows), "%s", br_error_message());
    cr_assert_eq(br_size(rows, 1), 5);
    static const int64_t want[] = {
        0, 0, 0, -1, -1, 1, 1, 1, 1, 1, 2, 2, -1, -1, -1, 3, 3, 3, 3, -1
    };
    cr_assert_arr_eq(br_data_i64(rows), want, sizeof want);
    br_loader_free(loader);
    br_scope_end(scope);
    br_dataset_free(dataset);
}

/* ---- Buckets --------------------------------------------------------------------------------- */

enum { MANY = 1003, BATCH = 2 };

static int64_t lengths[MANY];

/* Checks that every item occurs once; returns the total padding. */
static int64_t check_buckets(int64_t size, bool shuffle, int64_t *numbers)
{
    bool seen[MANY] = { false };
    int64_t waste = 0;
    br_scope *scope = br_scope_begin();
    br_dataset *dataset = br_tensor_dataset_new(BR_INPUTS(br_arange(0, (double)size, 1, BR_I64)));
    br_loader *loader = br_loader_new(dataset, BR_OPTIONS(br_loader, .batch_size = BATCH,
                                                          .shuffle = shuffle, .lengths = lengths));
    cr_assert(br_loader_begin(loader));
    for (br_tensor *fields[1]; br_loader_next(loader, fields);) {
        const int64_t *items = br_data_i64(fields[0]);
        int64_t n = br_numel(fields[0]);
        for (int64_t i = 0; i < n; i++) {
            cr_assert(!seen[items[i]], "item %d occurs twice", (int)items[i]);
            seen[items[i]] = true;
            waste += lengths[items[n - 1]] - lengths[items[i]];
            *numbers++ = items[i];
        }
    }
    br_loader_free(loader);
    br_dataset_free(dataset);
    br_scope_end(scope);
    for (int64_t i = 0; i < size; i++)
        cr_assert(seen[i], "item %d does not occur", (int)i);
    return waste;
}

Test(prefetcher, buckets)
{
    int64_t plain[MANY], first[MANY], again[MANY], next[MANY];
    for (int64_t i = 0; i < MANY; i++)
        lengths[i] = i * 7919 % 500;
    cr_assert_leq(check_buckets(MANY, false, plain), 500);
    for (int64_t i = 1; i < MANY; i++)
        cr_assert(lengths[plain[i - 1]] < lengths[plain[i]] ||
                  (lengths[plain[i - 1]] == lengths[plain[i]] && plain[i - 1] < plain[i]));
    br_manual_seed(3);
    int64_t waste = check_buckets(MANY, true, first);
    cr_assert(waste >= 0 && waste <= 3000, "%lld", (long long)waste); /* random batches: 83000 */
    check_buckets(MANY, true, next);
    br_manual_seed(3);
    check_buckets(MANY, true, again);
    cr_assert_arr_eq(first, again, sizeof first);
    cr_assert(memcmp(first, next, sizeof first) != 0);
    cr_assert(lengths[first[0]] > 50 || lengths[first[2]] > 50 || lengths[first[4]] > 50,
              "batches are not shuffled");
}

static int by_length_and_number(const void *a, const void *b)
{
    int64_t i = *(const int64_t *)a, k = *(const int64_t *)b;
    if (lengths[i] != lengths[k])
        return lengths[i] < lengths[k] ? -1 : 1;
    return i < k ? -1 : i > k;
}

/* Every 100 batches of the shuffled order are sorted by length, and by number if the length is
 * equal. Then the batches are shuffled. */
static void check_hundreds(int64_t size)
{
    enum { EACH = 100 * BATCH };
    int64_t order[MANY], got[MANY], place[MANY];
    for (int64_t i = 0; i < size; i++)
        lengths[i] = i * 7919 % 10; /* many are equal */
    br_manual_seed(3);
    br_random_u64(); /* the workers' seed */
    br_manual_seed(br_random_u64() & INT64_MAX);
    br__permute(order, size);
    for (int64_t from = 0; from < size; from += EACH)
        qsort(order + from, (size_t)(size - from < EACH ? size - from : EACH), sizeof *order,
              by_length_and_number);
    for (int64_t i = 0; i < size; i++)
        place[order[i]] = i;
    br_manual_seed(3);
    check_buckets(size, true, got);
    int moved = 0;
    for (int64_t i = 0; i < size - 1; i += BATCH) {
        cr_assert_eq(place[got[i]] % BATCH, 0, "batch %d", (int)(i / BATCH));
        cr_assert_eq(place[got[i + 1]], place[got[i]] + 1, "batch %d", (int)(i / BATCH));
        moved += place[got[i]] != i;
    }
    cr_assert_eq(got[size - 1], order[size - 1]);
    cr_assert_gt(moved, size / BATCH / 2);
}

Test(prefetcher, buckets_of_a_hundred_batches)
{
    check_hundreds(MANY);
    check_hundreds(100 * BATCH + 51); /* a hundred batches, and the rest */
}

/* An epoch takes two numbers from the thread's generator: the workers' seed and the order's. */
Test(prefetcher, buckets_take_no_random_numbers_of_the_thread)
{
    int64_t items[MANY];
    for (int64_t i = 0; i < MANY; i++)
        lengths[i] = i % 7;
    br_manual_seed(5);
    br_random_u64();
    br_random_u64();
    double after = br_random_double();
    br_manual_seed(5);
    check_buckets(MANY, true, items);
    cr_assert_eq(br_random_double(), after);
}

Test(prefetcher, refuses)
{
    br_dataset *dataset = items_new(&none);
    check_fails(br_loader_new(dataset, BR_OPTIONS(br_loader, .num_workers = -1)),
                "num_workers is -1, must be 0 .. 256");
    check_fails(br_loader_new(dataset, BR_OPTIONS(br_loader, .prefetch_factor = 2000)),
                "prefetch_factor is 2000, must be 1 .. 1024");
    check_fails(br_loader_new(dataset, BR_OPTIONS(br_loader, .prefetch_factor = 0)),
                "prefetch_factor is 0, must be 1 .. 1024");
    br_dataset_free(dataset);
}

static bool read_all(void)
{
    br_dataset *dataset = items_new(&none);
    br_loader *loader = dataset
                            ? br_loader_new(dataset, BR_OPTIONS(br_loader, .batch_size = 8,
                                                                .pad = true, .lengths = lengths))
                            : NULL;
    bool ok = loader && br_loader_begin(loader);
    for (bool more = ok; more;) {
        br_scope *scope = br_scope_begin();
        br_tensor *fields[3];
        more = scope && br_loader_next(loader, fields);
        br_scope_end(scope);
    }
    br_loader_free(loader);
    br_dataset_free(dataset);
    return ok && !br_failed();
}

Test(prefetcher, memory_runs_out)
{
    slowness = 0; /* there are hundreds of passes */
    fail_in_turn(read_all, "loader");
}

static bool get_large(void *context, int64_t i, br_tensor **fields)
{
    (void)context;
    return (fields[0] = br_zeros(BR_SHAPE(i == 5 ? 1 << 20 : 1), BR_F32)) != NULL;
}

/* If memory runs out in a worker, the request for its batch fails. */
Test(prefetcher, memory_runs_out_in_a_thread)
{
    br_dataset *dataset = br_dataset_new(8, 1, get_large, NULL, NULL);
    br_loader *loader = br_loader_new(
        dataset, BR_OPTIONS(br_loader, .batch_size = 2, .num_workers = 2, .pad = true));
    br_set_memory_limit(1 << 20);
    br_scope *scope = br_scope_begin();
    br_tensor *fields[1];
    cr_assert(br_loader_begin(loader));
    cr_assert(br_loader_next(loader, fields) && br_loader_next(loader, fields));
    cr_assert_not(br_loader_next(loader, fields));
    cr_assert_eq(br_error_code(), BR_ERROR_MEMORY, "%s", br_error_message());
    br_clear_error();
    br_set_memory_limit(0);
    cr_assert(br_loader_next(loader, fields), "%s", br_error_message());
    cr_assert_eq(br_size(fields[0], 1), 1 << 20);
    br_scope_end(scope);
    br_loader_free(loader);
    br_dataset_free(dataset);
}
