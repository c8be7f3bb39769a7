/* data/batch.c - collates items of a dataset to a batch: stacks them, after padding if requested.
 */
#include "data/data_internal.h"

#include <inttypes.h>
#include <string.h>

static const char op[] = "loader";

/* The items of one field. */
typedef struct column {
    int field;
    int64_t count;
    const int64_t *numbers;
    br_tensor **items;
} column;

/* Gets the items to items[field * count + i]. */
static bool get_items(br_dataset *dataset, int64_t count, const int64_t *numbers, br_tensor **items)
{
    br_tensor *fields[BR_MAX_FIELDS];
    for (int64_t i = 0; i < count; i++) {
        if (!br_dataset_get(dataset, numbers[i], fields))
            return false;
        for (int k = 0; k < br_dataset_num_fields(dataset); k++)
            items[k * count + i] = fields[k];
    }
    return true;
}

/* Returns true if two items have equal dtypes, and equal shapes from dimension `from` on. */
static bool agree(const br_tensor *a, const br_tensor *b, int from)
{
    if (a->ndim != b->ndim || a->ndim < from || a->dtype != b->dtype)
        return false;
    size_t bytes = (size_t)(a->ndim - from) * sizeof *a->sizes;
    return memcmp(a->sizes + from, b->sizes + from, bytes) == 0;
}

static bool can_join(const column *c, int from)
{
    for (int64_t i = 0; i < c->count; i++) {
        const br_tensor *a = c->items[0], *b = c->items[i];
        if (agree(a, b, from))
            continue;
        br_fail(BR_ERROR_SHAPE, op,
                "field %d is %s of %s in item %" PRId64 ", but %s of %s in item %" PRId64
                ": the items of a batch must have equal shapes%s and dtypes%s",
                c->field, br__shape(a), br_dtype_name(a->dtype), c->numbers[0], br__shape(b),
                br_dtype_name(b->dtype), c->numbers[i], from ? " after the first dimension" : "",
                from == 0 && agree(a, b, 1) ? ", unless the loader's option pad is set" : "");
        return false;
    }
    return true;
}

/* Returns [count, longest, ...]: each item at the beginning of its row, followed by `value`. */
static br_tensor *pad(const column *c, double value)
{
    const br_tensor *first = c->items[0];
    if (first->ndim == BR_MAX_DIMS)
        return br_fail(BR_ERROR_SHAPE, op, "field %d is %s: a batch of it has too many dimensions",
                       c->field, br__shape(first));
    int64_t sizes[BR_MAX_DIMS] = { c->count };
    memcpy(sizes + 1, first->sizes, (size_t)first->ndim * sizeof *sizes);
    for (int64_t i = 0; i < c->count; i++)
        if (c->items[i]->sizes[0] > sizes[1])
            sizes[1] = c->items[i]->sizes[0];
    br_tensor *all = br_new_full(first, first->ndim + 1, sizes, value, first->dtype);
    for (int64_t i = 0; all && i < c->count; i++) {
        br_tensor row = br__window(all);
        br__window_slice(&row, 0, i, 1, 1);
        br__window_slice(&row, 1, 0, c->items[i]->sizes[0], 1);
        br__copy(&row, c->items[i]);
    }
    return all;
}

static br_tensor *join(const br_batching *b, const column *c)
{
    bool ragged = b->pad && c->items[0]->ndim > 0;
    if (!can_join(c, ragged))
        return NULL;
    return ragged ? pad(c, b->padding_values[c->field]) : br_stack((int)c->count, c->items, 0);
}

bool br__make_batch(const br_batching *b, int64_t count, const int64_t *numbers, br_tensor **fields)
{
    int n = br_dataset_num_fields(b->dataset);
    br_tensor **items = br_malloc((size_t)count * (size_t)n * sizeof(br_tensor *));
    br_scope *scope = br_scope_begin();
    bool ok = items && scope && get_items(b->dataset, count, numbers, items);
    for (int k = 0; ok && k < n; k++) {
        fields[k] = join(b, &(column){ k, count, numbers, items + k * count });
        ok = fields[k] != NULL;
    }
    for (int k = 0; k < n; k++)
        fields[k] = ok ? br_scope_return(scope, fields[k]) : NULL;
    br_scope_end(scope);
    br_free(items);
    return ok;
}
