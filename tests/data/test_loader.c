/* Datasets and loaders: the same order of items as in PyTorch, batches, invalid arguments. */
#include "tests/data/loader_values.h"
#include "tests/memory.h"

#include <brasa/data.h>

TestSuite(loader, .init = check_begin, .fini = check_end);

/* Creates a dataset whose item i has the fields i and [10 i, 10 i + 1] in f32. */
static br_dataset *numbers_new(int64_t n)
{
    br_scope *scope = br_scope_begin();
    br_tensor *rows = br_reshape(br_arange(0, (double)(2 * n), 1, BR_F32), BR_SHAPE(n, 2));
    br_dataset *dataset =
        br_tensor_dataset_new(BR_INPUTS(br_arange(0, (double)n, 1, BR_I64), rows));
    br_scope_end(scope);
    return dataset;
}

static void check_orders(uint64_t seed, int64_t n, const int64_t *want, double after)
{
    br_dataset *dataset = numbers_new(n);
    br_loader *loader =
        br_loader_new(dataset, BR_OPTIONS(br_loader, .batch_size = 3, .shuffle = true));
    cr_assert_eq(br_loader_size(loader), (n + 2) / 3);
    br_manual_seed(seed);
    for (int epoch = 0; epoch < 3; epoch++) {
        int64_t seen = 0, batches = 0;
        br_tensor *fields[2];
        cr_assert(br_loader_begin(loader));
        for (;; batches++) {
            br_scope *scope = br_scope_begin();
            bool more = br_loader_next(loader, fields);
            for (int64_t i = 0; more && i < br_size(fields[0], 0); i++, seen++) {
                cr_assert_eq(br_data_i64(fields[0])[i], *want, "item %d of epoch %d", (int)seen,
                             epoch);
                cr_assert_eq(br_at(fields[1], 2, (int64_t[]){ i, 1 }), (double)(2 * *want + 1));
                want++;
            }
            br_scope_end(scope);
            if (!more)
                break;
        }
        check_ok();
        cr_assert_eq(seen, n);
        cr_assert_eq(batches, br_loader_size(loader));
    }
    cr_assert_eq(br_random_double(), after);
    br_loader_free(loader);
    br_dataset_free(dataset);
}

Test(loader, orders_are_pytorchs)
{
    check_orders(5, 10, order_10, after_10);
    check_orders((UINT64_C(1) << 40) + 3, 7, order_7, after_7);
    check_orders(0, 33, order_33, after_33);
}

Test(loader, without_shuffling_the_order_is_plain)
{
    br_dataset *dataset = numbers_new(4);
    br_loader *loader = br_loader_new(dataset, BR_OPTIONS(br_loader, .batch_size = 2));
    br_manual_seed(5);
    cr_assert(br_loader_begin(loader));
    for (int64_t i = 0; i < 2; i++) {
        br_scope *scope = br_scope_begin();
        br_tensor *fields[2];
        cr_assert(br_loader_next(loader, fields));
        cr_assert_eq(br_data_i64(fields[0])[0], 2 * i);
        cr_assert_eq(br_data_i64(fields[0])[1], 2 * i + 1);
        br_scope_end(scope);
    }
    cr_assert_eq(br_random_double(), after_unshuffled);
    br_loader_free(loader);
    br_dataset_free(dataset);
}

Test(loader, seek_goes_to_any_batch)
{
    br_dataset *dataset = numbers_new(5);
    br_loader *loader = br_loader_new(dataset, BR_OPTIONS(br_loader, .batch_size = 2));
    br_scope *scope = br_scope_begin();
    br_tensor *fields[2];
    check_fails(br_loader_seek(loader, 0), "call br_loader_begin() first");
    cr_assert(br_loader_begin(loader));
    cr_assert(br_loader_seek(loader, 2) && br_loader_next(loader, fields));
    cr_assert_eq(br_numel(fields[0]), 1);
    cr_assert_eq(br_data_i64(fields[0])[0], 4);
    cr_assert(br_loader_seek(loader, 1) && br_loader_next(loader, fields));
    cr_assert_eq(br_data_i64(fields[0])[0], 2);
    cr_assert(br_loader_seek(loader, 3));
    cr_assert_not(br_loader_next(loader, fields));
    check_fails(br_loader_seek(loader, 4), "an epoch has 3 batches");
    check_fails(br_loader_seek(loader, -1), "batch is -1");
    check_fails(br_loader_seek(NULL, 0), "loader is NULL");
    br_scope_end(scope);
    br_loader_free(loader);
    br_dataset_free(dataset);
}

Test(loader, drop_last_and_large_batches)
{
    br_dataset *dataset = numbers_new(5);
    br_scope *scope = br_scope_begin();
    br_tensor *fields[2];
    br_loader *loader =
        br_loader_new(dataset, BR_OPTIONS(br_loader, .batch_size = 2, .drop_last = true));
    cr_assert_eq(br_loader_size(loader), 2);
    cr_assert(br_loader_begin(loader));
    cr_assert(br_loader_next(loader, fields));
    cr_assert(br_loader_next(loader, fields));
    cr_assert_not(br_loader_next(loader, fields));
    cr_assert_null(fields[0]);
    check_ok();
    br_loader_free(loader);

    loader = br_loader_new(dataset, BR_OPTIONS(br_loader, .batch_size = 1000));
    cr_assert(br_loader_begin(loader) && br_loader_next(loader, fields));
    cr_assert_eq(br_size(fields[1], 0), 5);
    cr_assert_not(br_loader_next(loader, fields));
    br_loader_free(loader);

    loader = br_loader_new(dataset, NULL);
    cr_assert_eq(br_loader_size(loader), 5);
    check_fails(br_loader_next(loader, fields), "call br_loader_begin() first");
    br_loader_free(loader);
    br_dataset_free(dataset);

    br_dataset *none = numbers_new(0);
    loader = br_loader_new(none, BR_OPTIONS(br_loader, .shuffle = true));
    cr_assert_eq(br_loader_size(loader), 0);
    cr_assert(br_loader_begin(loader));
    cr_assert_not(br_loader_next(loader, fields));
    check_ok();
    br_loader_free(loader);
    br_dataset_free(none);
    br_scope_end(scope);
}

/* Item i has i + 1 elements in field 1. Item 3 does not set that field; item 4 fails without an
 * error. */
static bool get_ragged(void *context, int64_t i, br_tensor **fields)
{
    (void)context;
    fields[0] = br_zeros(BR_SHAPE(2), BR_F32);
    if (i != 3)
        fields[1] = br_zeros(BR_SHAPE(i + 1), BR_F32);
    return i != 4;
}

static int destroyed;

static void on_destroy(void *context)
{
    destroyed += *(int *)context;
}

Test(loader, items_that_do_not_fit_are_named)
{
    int context = 1;
    destroyed = 0;
    br_dataset *ragged = br_dataset_new(5, 2, get_ragged, &context, on_destroy);
    br_loader *loader = br_loader_new(ragged, BR_OPTIONS(br_loader, .batch_size = 2));
    br_scope *scope = br_scope_begin();
    br_tensor *fields[2];
    cr_assert(br_loader_begin(loader));
    check_fails(br_loader_next(loader, fields),
                "loader: field 1 is [1] of f32 in item 0, but [2] of f32 in item 1: the items of a "
                "batch must have equal shapes and dtypes, unless the loader's option pad is set");
    cr_assert_null(fields[0]);
    check_fails(br_dataset_get(ragged, 3, fields), "item 3 has no field 1");
    check_fails(br_dataset_get(ragged, 4, fields), "the dataset's function failed for item 4");
    check_fails(br_dataset_get(ragged, 5, fields),
                "index 5 is out of range for a dataset of size 5");
    check_fails(br_dataset_get(ragged, -1, fields),
                "index -1 is out of range for a dataset of size 5");
    br_scope_end(scope);
    br_loader_free(loader);
    br_dataset_free(ragged);
    cr_assert_eq(destroyed, 1);
}

static bool get_two_dtypes(void *context, int64_t i, br_tensor **fields)
{
    (void)context;
    fields[0] = br_zeros(BR_SHAPE(2), i ? BR_I64 : BR_F32);
    return true;
}

/* Padding cannot join items of different dtypes. */
Test(loader, padding_is_suggested_only_where_it_helps)
{
    br_dataset *dataset = br_dataset_new(2, 1, get_two_dtypes, NULL, NULL);
    br_loader *loader = br_loader_new(dataset, BR_OPTIONS(br_loader, .batch_size = 2));
    br_tensor *field;
    cr_assert(br_loader_begin(loader));
    cr_assert_not(br_loader_next(loader, &field));
    const char *message = br_error_message(), *end = "must have equal shapes and dtypes";
    cr_assert(strlen(message) > strlen(end));
    cr_assert_str_eq(message + strlen(message) - strlen(end), end);
    br_clear_error();
    br_loader_free(loader);
    br_dataset_free(dataset);
}

Test(loader, subsets_choose)
{
    br_dataset *dataset = numbers_new(6);
    br_dataset *subset = br_subset_new(dataset, 3, (int64_t[]){ 4, 0, 4 });
    br_scope *scope = br_scope_begin();
    br_tensor *fields[2];
    cr_assert_eq(br_dataset_size(subset), 3);
    cr_assert_eq(br_dataset_num_fields(subset), 2);
    cr_assert(br_dataset_get(subset, 2, fields));
    cr_assert_eq(br_item_i64(fields[0]), 4);
    check_fails(br_subset_new(dataset, 2, (int64_t[]){ 0, 6 }),
                "index 1 is 6, but the dataset has 6");
    check_fails(br_subset_new(dataset, 1, NULL), "indices is NULL");
    check_fails(br_subset_new(dataset, -1, NULL), "n is -1, must not be negative");
    br_scope_end(scope);
    br_dataset_free(subset);
    br_dataset_free(dataset);
}

Test(loader, refuses)
{
    br_scope *scope = br_scope_begin();
    br_tensor *a = br_zeros(BR_SHAPE(2, 3), BR_F32), *b = br_zeros(BR_SHAPE(3), BR_F32);
    check_fails(br_tensor_dataset_new(BR_INPUTS(a, b)),
                "tensor 1 has shape [3], but tensor 0 has shape [2, 3]");
    check_fails(br_tensor_dataset_new(BR_INPUTS(br_scalar(1, BR_F32))), "tensor 0 has shape []");
    check_fails(br_tensor_dataset_new(BR_INPUTS(a, NULL)), "tensor 1 is NULL");
    check_fails(br_tensor_dataset_new(0, NULL), "n is 0, must be 1 .. 16");
    check_fails(br_dataset_new(3, 17, get_ragged, NULL, NULL), "size is 3, n_fields is 17");
    check_fails(br_dataset_new(3, 1, NULL, NULL, NULL), "get is NULL");
    check_fails(br_loader_new(NULL, NULL), "dataset is NULL");
    br_dataset *dataset = numbers_new(2);
    check_fails(br_loader_new(dataset, BR_OPTIONS(br_loader, .batch_size = -1)),
                "batch_size is -1");
    check_fails(br_loader_begin(NULL), "loader is NULL");
    br_dataset_free(dataset);
    br_loader_free(NULL);
    br_dataset_free(NULL);
    br_scope_end(scope);
}

static bool run_epoch(void)
{
    br_dataset *dataset = numbers_new(5);
    br_dataset *subset = br_failed() ? NULL : br_subset_new(dataset, 3, (int64_t[]){ 4, 0, 3 });
    br_loader *loader =
        br_loader_new(subset, BR_OPTIONS(br_loader, .batch_size = 2, .shuffle = true));
    br_tensor *fields[2];
    br_scope *scope = br_scope_begin();
    if (br_loader_begin(loader))
        while (br_loader_next(loader, fields))
            cr_assert(fields[0] && fields[1]);
    br_scope_end(scope);
    br_loader_free(loader);
    br_dataset_free(subset);
    br_dataset_free(dataset);
    return !br_failed();
}

Test(loader, every_allocation_may_fail)
{
    fail_in_turn(run_epoch, "run epoch");
}
