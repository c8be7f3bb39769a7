/* data/dataset.c - datasets: a size and a function that makes one item. */
#include "tensor/tensor_internal.h"

#include <brasa/data.h>
#include <inttypes.h>
#include <string.h>

struct br_dataset {
    int64_t size;
    int n_fields;
    br_dataset_get_fn get;
    void *context;
    void (*destroy)(void *context);
};

br_dataset *br_dataset_new(int64_t size, int n_fields, br_dataset_get_fn get, void *context,
                           void (*destroy)(void *context))
{
    if (br_failed())
        return NULL;
    if (size < 0 || n_fields < 1 || n_fields > BR_MAX_FIELDS || !get)
        return br_fail(BR_ERROR_ARGUMENT, "dataset",
                       "size is %" PRId64 ", n_fields is %d, get is %s: size must not be negative, "
                       "n_fields must be 1 .. %d, and get must not be NULL",
                       size, n_fields, get ? "not NULL" : "NULL", BR_MAX_FIELDS);
    br_dataset *dataset = BR_NEW(br_dataset);
    if (dataset)
        *dataset = (br_dataset){ size, n_fields, get, context, destroy };
    return dataset;
}

void br_dataset_free(br_dataset *dataset)
{
    if (!BR_END("dataset_free", dataset))
        return;
    if (dataset->destroy)
        dataset->destroy(dataset->context);
    BR_FREE(dataset);
}

int64_t br_dataset_size(const br_dataset *dataset)
{
    return BR_LIVE("dataset_size", dataset) ? dataset->size : 0;
}

int br_dataset_num_fields(const br_dataset *dataset)
{
    return BR_LIVE("dataset_num_fields", dataset) ? dataset->n_fields : 0;
}

/* Checks the dataset's function: it must set an error if it returns false, and set every field if
 * it returns true. */
static bool complete(const br_dataset *dataset, int64_t i, bool ok, br_tensor *const *fields)
{
    if (!ok)
        br_fail(BR_ERROR_STATE, "dataset", "the dataset's function failed for item %" PRId64, i);
    for (int k = 0; k < dataset->n_fields; k++)
        if (!fields[k])
            br_fail(BR_ERROR_STATE, "dataset", "item %" PRId64 " has no field %d", i, k);
    return !br_failed();
}

bool br_dataset_get(br_dataset *dataset, int64_t i, br_tensor **fields)
{
    if (!br__required("dataset", "dataset", dataset) || !br__required("dataset", "fields", fields))
        return false;
    for (int k = 0; k < dataset->n_fields; k++)
        fields[k] = NULL;
    if (i < 0 || i >= dataset->size) {
        br_fail(BR_ERROR_INDEX, "dataset",
                "index %" PRId64 " is out of range for a dataset of size %" PRId64, i,
                dataset->size);
        return false;
    }
    return complete(dataset, i, dataset->get(dataset->context, i, fields), fields);
}

/* ---- Tensors --------------------------------------------------------------------------------- */

typedef struct tensors {
    int n;
    br_tensor *items[BR_MAX_FIELDS]; /* retained */
} tensors;

static bool get_slices(void *context, int64_t i, br_tensor **fields)
{
    const tensors *t = context;
    for (int k = 0; k < t->n; k++)
        fields[k] = br_select(t->items[k], 0, i);
    return !br_failed();
}

static void free_tensors(void *context)
{
    tensors *t = context;
    for (int k = 0; k < t->n; k++)
        br_release(t->items[k]);
    br_free(t);
}

static bool good_tensors(int n, br_tensor *const *items)
{
    const char *op = "tensor_dataset";
    if (br_failed())
        return false;
    if (n < 1 || n > BR_MAX_FIELDS || !items)
        br_fail(BR_ERROR_ARGUMENT, op, "n is %d, must be 1 .. %d", n, BR_MAX_FIELDS);
    for (int k = 0; k < n && !br_failed(); k++) {
        if (br__required_item(op, "tensor", k, items[k]) &&
            (items[k]->ndim == 0 || items[k]->sizes[0] != items[0]->sizes[0]))
            br_fail(BR_ERROR_SHAPE, op,
                    "tensor %d has shape %s, but tensor 0 has shape %s: their first dimensions "
                    "must be equal",
                    k, br__shape(items[k]), br__shape(items[0]));
    }
    return !br_failed();
}

br_dataset *br_tensor_dataset_new(int n, br_tensor *const *items)
{
    if (!good_tensors(n, items))
        return NULL;
    tensors *t = br_malloc(sizeof *t);
    if (!t)
        return NULL;
    t->n = n;
    br_dataset *dataset = br_dataset_new(items[0]->sizes[0], n, get_slices, t, free_tensors);
    if (!dataset)
        br_free(t);
    for (int k = 0; dataset && k < n; k++)
        t->items[k] = br_retain(items[k]);
    return dataset;
}

/* ---- Subsets --------------------------------------------------------------------------------- */

typedef struct subset {
    br_dataset *dataset;
    int64_t indices[];
} subset;

static bool get_indexed(void *context, int64_t i, br_tensor **fields)
{
    const subset *s = context;
    return br_dataset_get(s->dataset, s->indices[i], fields);
}

static bool good_indices(const br_dataset *dataset, int64_t n, const int64_t *indices)
{
    if (!br__required("subset", "dataset", dataset) ||
        (n > 0 && !br__required("subset", "indices", indices)))
        return false;
    if (n < 0)
        br_fail(BR_ERROR_ARGUMENT, "subset", "n is %" PRId64 ", must not be negative", n);
    for (int64_t i = 0; i < n && !br_failed(); i++)
        if (indices[i] < 0 || indices[i] >= dataset->size)
            br_fail(BR_ERROR_INDEX, "subset",
                    "index %" PRId64 " is %" PRId64 ", but the dataset has %" PRId64 " items", i,
                    indices[i], dataset->size);
    return !br_failed();
}

br_dataset *br_subset_new(br_dataset *dataset, int64_t n, const int64_t *indices)
{
    if (!good_indices(dataset, n, indices))
        return NULL;
    size_t bytes = (size_t)n * sizeof *indices;
    subset *s = br_malloc(sizeof *s + bytes);
    if (!s)
        return NULL;
    s->dataset = dataset;
    if (n > 0)
        memcpy(s->indices, indices, bytes);
    br_dataset *result = br_dataset_new(n, dataset->n_fields, get_indexed, s, br_free);
    if (!result)
        br_free(s);
    return result;
}
