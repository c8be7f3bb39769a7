/* tests/data/test_split.c - random_split, with the same results as PyTorch, and token files. */
#include "tests/data/split_values.h"
#include "tests/io/files.h"
#include "tests/memory.h"

#include <brasa/data.h>

TestSuite(split, .init = files_begin, .fini = files_end);

static br_dataset *numbers_new(int64_t n)
{
    br_scope *scope = br_scope_begin();
    br_dataset *dataset = br_tensor_dataset_new(BR_INPUTS(br_arange(0, (double)n, 1, BR_I64)));
    br_scope_end(scope);
    return dataset;
}

static int64_t item(br_dataset *dataset, int64_t i)
{
    br_scope *scope = br_scope_begin();
    br_tensor *fields[2];
    int64_t value = br_dataset_get(dataset, i, fields) ? br_item_i64(fields[0]) : -1;
    br_scope_end(scope);
    return value;
}

/* Checks the sizes and items of three subsets, and frees them. */
static void check_subsets(br_dataset **subsets, const int64_t *sizes, const int64_t *items)
{
    for (int s = 0; s < 3; s++) {
        cr_assert_eq(br_dataset_size(subsets[s]), sizes[s]);
        for (int64_t i = 0; i < sizes[s]; i++)
            cr_assert_eq(item(subsets[s], i), *items++);
        br_dataset_free(subsets[s]);
    }
}

static void check_fractions(uint64_t seed, int64_t n, const double fractions[3],
                            const int64_t *sizes, const int64_t *items, double after)
{
    br_dataset *numbers = numbers_new(n), *subsets[3];
    br_manual_seed(seed);
    cr_assert(br_random_split_fractions(numbers, 3, fractions, subsets), "%s", br_error_message());
    cr_assert_eq(br_random_double(), after);
    check_subsets(subsets, sizes, items);
    br_dataset_free(numbers);
}

Test(split, is_pytorchs)
{
    br_dataset *numbers = numbers_new(10), *subsets[3];
    br_manual_seed(42);
    cr_assert(br_random_split(numbers, 3, lengths_sizes, subsets));
    cr_assert_eq(br_random_double(), after_lengths);
    check_subsets(subsets, lengths_sizes, lengths_items);
    br_dataset_free(numbers);
    check_fractions(3, 23, (double[]){ 0.5, 0.3, 0.2 }, fractions_sizes, fractions_items,
                    after_fractions);
    check_fractions(9, 11, (double[]){ 1.0 / 3, 1.0 / 3, 1.0 / 3 }, thirds_sizes, thirds_items,
                    after_thirds);
}

/* A fraction may be 0 or 1, but not more or less. */
Test(split, whole_and_empty_parts)
{
    br_dataset *numbers = numbers_new(5), *subsets[2];
    for (int whole = 0; whole < 2; whole++) {
        const double fractions[] = { !whole, whole };
        cr_assert(br_random_split_fractions(numbers, 2, fractions, subsets), "%s",
                  br_error_message());
        cr_expect_eq(br_dataset_size(subsets[whole]), 5);
        cr_expect_eq(br_dataset_size(subsets[!whole]), 0);
        br_dataset_free(subsets[0]);
        br_dataset_free(subsets[1]);
    }
    check_fails(br_random_split_fractions(numbers, 2, (double[]){ -0.5, 1.5 }, subsets),
                "random_split: fraction 0 is -0.5");
    check_fails(br_random_split_fractions(numbers, 2, (double[]){ 1.5, -0.5 }, subsets),
                "random_split: fraction 0 is 1.5");
    br_dataset_free(numbers);
}

Test(split, refuses)
{
    br_dataset *numbers = numbers_new(5), *subsets[2] = { numbers, numbers };
    int64_t few[] = { 2, 2 }, negative[] = { 6, -1 };
    check_fails(br_random_split(numbers, 2, few, subsets),
                "random_split: lengths sum to 4, but the dataset has 5 items");
    cr_assert(!subsets[0] && !subsets[1]);
    check_fails(br_random_split(numbers, 2, negative, subsets), "length 1 is -1");
    check_fails(br_random_split(NULL, 2, few, subsets), "dataset is NULL");
    check_fails(br_random_split(numbers, 2, NULL, subsets), "is NULL");
    check_fails(br_random_split(numbers, 2, few, NULL), "subsets is NULL");
    check_fails(br_random_split(numbers, 0, few, subsets), "n is 0, must be at least 1");
    double half[] = { 0.5, 0.4 }, nan[] = { NAN, 1 };
    check_fails(br_random_split_fractions(numbers, 2, half, subsets), "sum to 0.9, must be 1");
    check_fails(br_random_split_fractions(numbers, 2, nan, subsets), "fraction 0 is nan");
    br_dataset_free(numbers);
}

/* ---- Files of tokens ------------------------------------------------------------------------- */

TestSuite(token_file, .init = files_begin, .fini = files_end);

static const int64_t tokens[] = { 7, 0, 65535, 3, 4, 5, 6, 1, 2, 9, 8 };
enum { N_TOKENS = sizeof tokens / sizeof *tokens };

static br_dataset *open_with(int64_t length, int64_t stride, int bytes)
{
    return br_token_file_dataset_new(
        files_path("tokens"),
        BR_OPTIONS(br_token_file, .length = length, .stride = stride, .bytes = bytes));
}

/* Checks that item i has the tokens that begin at i * stride, and the same tokens shifted by
 * one. */
static void check_items(int64_t length, int64_t stride, int bytes, int64_t size)
{
    br_dataset *parts = open_with(length, stride, bytes);
    cr_assert(parts, "%s", br_error_message());
    cr_assert_eq(br_dataset_size(parts), size);
    br_scope *scope = br_scope_begin();
    for (int64_t i = 0; i < size; i++) {
        br_tensor *fields[2];
        const int64_t *from = tokens + i * (stride ? stride : length);
        cr_assert(br_dataset_get(parts, i, fields));
        cr_assert_eq(br_numel(fields[0]), length);
        size_t n = (size_t)length * sizeof *from;
        cr_assert_arr_eq(br_data_i64(fields[0]), from, n);
        cr_assert_arr_eq(br_data_i64(fields[1]), from + 1, n);
    }
    br_scope_end(scope);
    br_dataset_free(parts);
}

Test(token_file, items)
{
    static const int widths[] = { 2, 4, 8 };
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        cr_assert(br_token_file_save(files_path("tokens"), N_TOKENS, tokens, widths[i]));
        check_items(5, 0, widths[i], 2);
        check_items(3, 0, widths[i], 3);
        check_items(4, 1, widths[i], 7);
        check_items(10, 3, widths[i], 1);
        check_items(1, 2, widths[i], 5);
    }
}

/* Tokens are written in pieces of 4096. */
Test(token_file, pieces)
{
    static int64_t many[10000];
    for (int64_t i = 0; i < 10000; i++)
        many[i] = i * i % 65521;
    static const int64_t counts[] = { 4095, 4096, 4097, 8192, 10000 };
    for (size_t i = 0; i < 3 * sizeof counts / sizeof *counts; i++) {
        const int bytes = 2 << i % 3;
        const int64_t n = counts[i / 3];
        cr_assert(br_token_file_save(files_path("tokens"), n, many, bytes));
        br_dataset *dataset = open_with(1, 0, bytes);
        cr_assert(dataset, "%s", br_error_message());
        cr_assert_eq(br_dataset_size(dataset), n - 1);
        for (int64_t k = 0; k < n - 1; k++)
            cr_assert_eq(item(dataset, k), many[k], "%lld of %lld", (long long)k, (long long)n);
        br_dataset_free(dataset);
    }
}

Test(token_file, refuses)
{
    cr_assert(br_token_file_save(files_path("tokens"), N_TOKENS, tokens, 2));
    check_fails(open_with(11, 0, 2), "has 11 tokens, must have more than the 11 tokens of an item");
    check_fails(open_with(2, 0, 4), "has 22 bytes, which is not a multiple of a token's 4");
    check_fails(open_with(2, 0, 3), "bytes is 3, must be 2, 4 or 8");
    check_fails(open_with(0, 0, 2), "length is 0");
    check_fails(open_with(2, -1, 2), "stride is -1");
    check_fails(br_token_file_dataset_new(NULL, NULL), "path is NULL");
    check_fails(br_token_file_dataset_new("x", NULL), "length is 0, must be at least 1");
    check_fails(
        br_token_file_dataset_new(files_path("none"), BR_OPTIONS(br_token_file, .length = 1)),
        "none: cannot be opened");
    check_fails(br_token_file_save(files_path("wide"), N_TOKENS, (int64_t[N_TOKENS]){ 65536 }, 2),
                "token 0 is 65536, which does not fit into 2 bytes");
    check_fails(br_token_file_save(files_path("wide"), 2, (int64_t[]){ 1, 1LL << 32 }, 4),
                "token 1 is 4294967296, which does not fit into 4 bytes");
    cr_assert(br_token_file_save(files_path("tokens"), 1, (int64_t[]){ 0xffffffff }, 4));
    check_fails(br_token_file_save(files_path("wide"), 1, (int64_t[]){ -1 }, 8), "token 0 is -1");
    check_fails(br_token_file_save(files_path("wide"), 1, NULL, 8), "tokens is NULL");
    check_fails(br_token_file_save(NULL, 1, tokens, 8),
                "token_file: path is NULL, but it is required");
    cr_assert(br_token_file_save(files_path("tokens"), 0, NULL, 8), "%s", br_error_message());
    check_fails(open_with(1, 0, 8), "has 0 tokens, must have more than the 1 tokens of an item");
    check_fails(br_token_file_save(files_path("wide"), -1, NULL, 8),
                "n is -1, must not be negative");
    cr_assert_eq(files_count(), 1, "a rejected file was left");
}

Test(token_file, tokens_beyond_the_vocabulary)
{
    cr_assert(br_token_file_save(files_path("tokens"), N_TOKENS, tokens, 2));
    br_dataset *parts = br_token_file_dataset_new(
        files_path("tokens"), BR_OPTIONS(br_token_file, .length = 2, .vocab_size = 10));
    br_tensor *fields[2];
    br_scope *scope = br_scope_begin();
    check_fails(br_dataset_get(parts, 0, fields), "tokens: token 2 is 65535, must be below 10");
    cr_assert(br_dataset_get(parts, 2, fields));
    br_scope_end(scope);
    br_dataset_free(parts);
    files_write(files_path("tokens"), "\377\377\377\377\377\377\377\377\0\0\0\0\0\0\0\0", 16);
    parts = open_with(1, 0, 8);
    check_fails(br_dataset_get(parts, 0, fields), "token 0 is 18446744073709551615");
    br_dataset_free(parts);
}

Test(token_file, the_vocabularys_size_is_no_token)
{
    cr_assert(br_token_file_save(files_path("tokens"), 3, (int64_t[]){ 9, 9, 10 }, 2));
    br_dataset *parts = br_token_file_dataset_new(
        files_path("tokens"), BR_OPTIONS(br_token_file, .length = 1, .vocab_size = 10));
    br_tensor *fields[2];
    br_scope *scope = br_scope_begin();
    cr_assert(br_dataset_get(parts, 0, fields));
    check_fails(br_dataset_get(parts, 1, fields), "tokens: token 2 is 10, must be below 10");
    br_scope_end(scope);
    br_dataset_free(parts);
}

static bool split_and_open(void)
{
    br_dataset *parts = open_with(2, 0, 2), *subsets[2] = { NULL, NULL };
    bool ok = parts && br_random_split_fractions(parts, 2, (double[]){ 0.5, 0.5 }, subsets);
    br_dataset_free(subsets[0]);
    br_dataset_free(subsets[1]);
    br_dataset_free(parts);
    return ok;
}

Test(token_file, memory_runs_out)
{
    cr_assert(br_token_file_save(files_path("tokens"), N_TOKENS, tokens, 2));
    fail_in_turn(split_and_open, "datasets");
}
