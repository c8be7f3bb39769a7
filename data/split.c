/* data/split.c - splits a dataset at random, like torch.utils.data.random_split. */
#include "tensor/tensor_internal.h"

#include <brasa/data.h>
#include <inttypes.h>
#include <math.h>

static const char op[] = "random_split";

static bool good_arguments(const br_dataset *dataset, int n, const void *parts,
                           br_dataset **subsets)
{
    if (!br__required(op, "dataset", dataset) || !br__required(op, "lengths or fractions", parts) ||
        !br__required(op, "subsets", subsets))
        return false;
    if (n < 1)
        br_fail(BR_ERROR_ARGUMENT, op, "n is %d, must be at least 1", n);
    for (int i = 0; i < n && subsets; i++)
        subsets[i] = NULL;
    return !br_failed();
}

static bool good_lengths(const br_dataset *dataset, int n, const int64_t *lengths)
{
    int64_t sum = 0, size = br_dataset_size(dataset);
    for (int i = 0; i < n && !br_failed(); i++)
        if (lengths[i] < 0 || __builtin_add_overflow(sum, lengths[i], &sum))
            br_fail(BR_ERROR_ARGUMENT, op, "length %d is %" PRId64 ", must be 0 .. %" PRId64, i,
                    lengths[i], size);
    if (!br_failed() && sum != size)
        br_fail(BR_ERROR_ARGUMENT, op,
                "lengths sum to %" PRId64 ", but the dataset has %" PRId64 " items", sum, size);
    return !br_failed();
}

static void free_subsets(int n, br_dataset **subsets)
{
    for (int i = 0; i < n; i++) {
        br_dataset_free(subsets[i]);
        subsets[i] = NULL;
    }
}

bool br_random_split(br_dataset *dataset, int n, const int64_t *lengths, br_dataset **subsets)
{
    if (!good_arguments(dataset, n, lengths, subsets) || !good_lengths(dataset, n, lengths))
        return false;
    br_scope *scope = br_scope_begin();
    const int64_t *order = br_data_i64(br_randperm(br_dataset_size(dataset)));
    for (int i = 0; i < n && !br_failed(); i++) {
        subsets[i] = br_subset_new(dataset, lengths[i], order);
        order += lengths[i];
    }
    br_scope_end(scope);
    if (br_failed())
        free_subsets(n, subsets);
    return !br_failed();
}

/* Computes the lengths as PyTorch does: each is rounded down, then the remaining items go to the
 * parts in turn, one each. */
static bool lengths_of(const br_dataset *dataset, int n, const double *fractions, int64_t *lengths)
{
    int64_t size = br_dataset_size(dataset), left = size;
    double sum = 0;
    for (int i = 0; i < n; i++) {
        if (!(fractions[i] >= 0 && fractions[i] <= 1)) {
            br_fail(BR_ERROR_ARGUMENT, op, "fraction %d is %g, must be 0 .. 1", i, fractions[i]);
            return false;
        }
        lengths[i] = (int64_t)floor((double)size * fractions[i]);
        left -= lengths[i];
        sum += fractions[i];
    }
    if (!(fabs(sum - 1) <= 1e-9)) {
        br_fail(BR_ERROR_ARGUMENT, op, "fractions sum to %.10g, must be 1", sum);
        return false;
    }
    for (int i = 0; left > 0; i = (i + 1) % n, left--)
        lengths[i]++;
    return true;
}

bool br_random_split_fractions(br_dataset *dataset, int n, const double *fractions,
                               br_dataset **subsets)
{
    if (!good_arguments(dataset, n, fractions, subsets))
        return false;
    int64_t *lengths = br_calloc((size_t)n, sizeof *lengths);
    bool ok = lengths && lengths_of(dataset, n, fractions, lengths) &&
              br_random_split(dataset, n, lengths, subsets);
    br_free(lengths);
    return ok;
}
