/* tests/data/test_read_ahead.c - loaders whose threads read ahead: the batches are those of a
 * loader without; buckets by length, and padding. */
#include "tests/memory.h"

#include <brasa/data.h>
#include <unistd.h>

TestSuite(read_ahead, .init = check_begin, .fini = check_end);

enum { ITEMS = 37 };

/* Item i: its number, a draw, and i % 5 + 1 times the number. Every seventh takes its time. */
static bool get_item(void *context, int64_t i, br_tensor **fields)
{
    const int64_t *bad = context;
    if (*bad == i) {
        br_raise(BR_ERROR_FORMAT, "item %d is spoiled", (int)i);
        return false;
    }
    if (i % 7 == 0)
        usleep(2000);
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

/* What three epochs are, put into one number each; at the end *after is the generator's draw. */
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

/* Any number of workers, and of batches ahead: the same batches, draws included, and the same order
 * as without any. */
Test(read_ahead, workers_do_not_matter)
{
    br_dataset *dataset = items_new(&none);
    static const int workers[] = { 1, 2, 5 };
    double first[3], sums[3], after, first_after;
    br_loader_options o = { .batch_size = 4, .shuffle = true, .num_workers = 1 };
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

/* The numbers of the items, in the order of three epochs. */
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

/* No items that draw: then even a loader without workers gives the same. */
Test(read_ahead, order_is_that_without_workers)
{
    br_scope *scope = br_scope_begin();
    br_dataset *dataset = br_tensor_dataset_new(BR_INPUTS(br_arange(0, ITEMS, 1, BR_I64)));
    br_scope_end(scope);
    int64_t with[3 * ITEMS], without[3 * ITEMS];
    br_loader_options o = { .batch_size = 5, .shuffle = true };
    run_numbers(dataset, o, without);
    o.num_workers = 3;
    run_numbers(dataset, o, with);
    cr_assert_arr_eq(with, without, sizeof with);
    br_dataset_free(dataset);
}

Test(read_ahead, stops_anywhere)
{
    br_dataset *dataset = items_new(&none);
    br_loader_options o = { .batch_size = 2, .num_workers = 2, .pad = true };
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

/* The batch of the bad item fails when it is asked for, again and again until it is good. */
Test(read_ahead, errors_come_in_their_turn)
{
    int64_t bad = 5;
    br_dataset *dataset = items_new(&bad);
    br_loader *loader = br_loader_new(
        dataset, &(br_loader_options){ .batch_size = 2, .num_workers = 3, .pad = true });
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

Test(read_ahead, padding)
{
    br_dataset *dataset = items_new(&none);
    br_loader *loader = br_loader_new(
        dataset, &(br_loader_options){ .batch_size = 4, .pad = true, .padding_values = padding });
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

/* ---- Buckets --------------------------------------------------------------------------------- */

enum { MANY = 1003, BATCH = 2 };

static int64_t lengths[MANY];

/* All items once; how much padding there is in all, in lengths. */
static int64_t check_buckets(bool shuffle, int64_t *numbers)
{
    bool seen[MANY] = { false };
    int64_t waste = 0;
    br_scope *scope = br_scope_begin();
    br_dataset *dataset = br_tensor_dataset_new(BR_INPUTS(br_arange(0, MANY, 1, BR_I64)));
    br_loader *loader = br_loader_new(
        dataset,
        &(br_loader_options){ .batch_size = BATCH, .shuffle = shuffle, .lengths = lengths });
    cr_assert(br_loader_begin(loader));
    for (br_tensor *fields[1]; br_loader_next(loader, fields);) {
        const int64_t *items = br_data_i64(fields[0]);
        int64_t n = br_numel(fields[0]);
        for (int64_t i = 0; i < n; i++) {
            cr_assert(!seen[items[i]], "%d comes twice", (int)items[i]);
            seen[items[i]] = true;
            waste += lengths[items[n - 1]] - lengths[items[i]];
            *numbers++ = items[i];
        }
    }
    br_loader_free(loader);
    br_dataset_free(dataset);
    br_scope_end(scope);
    for (int64_t i = 0; i < MANY; i++)
        cr_assert(seen[i], "%d does not come", (int)i);
    return waste;
}

Test(read_ahead, buckets)
{
    int64_t plain[MANY], first[MANY], again[MANY], next[MANY];
    for (int64_t i = 0; i < MANY; i++)
        lengths[i] = i * 7919 % 500;
    cr_assert_leq(check_buckets(false, plain), 500);
    for (int64_t i = 1; i < MANY; i++)
        cr_assert(lengths[plain[i - 1]] < lengths[plain[i]] ||
                  (lengths[plain[i - 1]] == lengths[plain[i]] && plain[i - 1] < plain[i]));
    br_manual_seed(3);
    int64_t waste = check_buckets(true, first);
    cr_assert(waste >= 0 && waste <= 3000, "%lld", (long long)waste); /* at random: 83000 */
    check_buckets(true, next);
    br_manual_seed(3);
    check_buckets(true, again);
    cr_assert_arr_eq(first, again, sizeof first);
    cr_assert(memcmp(first, next, sizeof first) != 0);
    cr_assert(lengths[first[0]] > 50 || lengths[first[2]] > 50 || lengths[first[4]] > 50,
              "batches are shuffled");
}

Test(read_ahead, refuses)
{
    br_dataset *dataset = items_new(&none);
    check_fails(br_loader_new(dataset, &(br_loader_options){ .num_workers = -1 }),
                "num_workers is -1, must be 0 .. 256");
    check_fails(br_loader_new(dataset, &(br_loader_options){ .prefetch_factor = 2000 }),
                "prefetch_factor is 2000, must be 0 .. 1024");
    br_dataset_free(dataset);
}

static bool read_all(void)
{
    br_dataset *dataset = items_new(&none);
    br_loader *loader =
        dataset
            ? br_loader_new(
                  dataset, &(br_loader_options){ .batch_size = 8, .pad = true, .lengths = lengths })
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

Test(read_ahead, memory_runs_out)
{
    fail_in_turn(read_all, "loader");
}

static bool get_large(void *context, int64_t i, br_tensor **fields)
{
    (void)context;
    return (fields[0] = br_zeros(BR_SHAPE(i == 5 ? 1 << 20 : 1), BR_F32)) != NULL;
}

/* What runs out in a thread is told to whoever asks for the batch. */
Test(read_ahead, memory_runs_out_in_a_thread)
{
    br_dataset *dataset = br_dataset_new(8, 1, get_large, NULL, NULL);
    br_loader *loader = br_loader_new(
        dataset, &(br_loader_options){ .batch_size = 2, .num_workers = 2, .pad = true });
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
