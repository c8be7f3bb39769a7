/* backends/cpu/attention/heads.c - attention of tensors: describes their heads on plain memory. */
#include "backends/cpu/attention/attention.h"
#include "backends/cpu/attention/attention_internal.h"
#include "tensor/min_max.h"

/* Returns a tensor's matrices, its last two dimensions. Dimensions of size 1 broadcast. */
static br_strided matrices(const br_tensor *t)
{
    if (!t)
        return (br_strided){ NULL, 0, 0 };
    return (br_strided){ t->data, t->sizes[t->ndim - 2] == 1 ? 0 : t->strides[t->ndim - 2],
                         t->sizes[t->ndim - 1] == 1 ? 0 : t->strides[t->ndim - 1] };
}

/* Returns the distance between t's matrices along dimension `from_end` of the result, counted from
 * its end. */
static int64_t batch_stride(const br_tensor *t, int from_end)
{
    int d = t ? t->ndim - from_end : -1;
    return d < 0 || t->sizes[d] == 1 ? 0 : t->strides[d];
}

/* Returns the strides along a batch dimension. Strides of key, value and their gradients, which
 * query heads may share, are multiplied by `key`; all others are multiplied by `query`. */
static br_attention_batch batch_strides(const br_attention_tensors *t, int from_end, int64_t query,
                                        int64_t key)
{
    return (br_attention_batch){
        .query = query * batch_stride(t->query, from_end),
        .key = key * batch_stride(t->key, from_end),
        .value = key * batch_stride(t->value, from_end),
        .mask = query * batch_stride(t->mask, from_end),
        .out = query * batch_stride(t->out, from_end),
        .sums = query * batch_stride(t->sums, from_end),
        .dout = query * batch_stride(t->dout, from_end),
        .dquery = query * batch_stride(t->dquery, from_end),
        .dkey = key * batch_stride(t->dkey, from_end),
        .dvalue = key * batch_stride(t->dvalue, from_end),
        .dmask = query * batch_stride(t->dmask, from_end),
    };
}

static void add_dimension(br_attention *a, int64_t size, br_attention_batch strides, int64_t bit)
{
    if (size == 1)
        return;
    strides.bit = bit;
    a->batch_sizes[a->batch_ndim] = size;
    a->batch[a->batch_ndim++] = strides;
}

/* Sets the batch: the dimensions of the result before its last two, from the last to the first.
 * Grouped heads become two dimensions: the heads of a group, and the groups. */
static void set_batch(br_attention *a, const br_attention_tensors *t)
{
    const br_tensor *out = t->out, *key = t->key;
    int64_t bit = a->head.queries * a->head.keys;
    for (int from_end = 3; from_end <= out->ndim; from_end++) {
        const int64_t size = out->sizes[out->ndim - from_end];
        if (t->grouped && from_end == 3) {
            const int64_t groups = key->sizes[key->ndim - 3], heads = groups ? size / groups : 0;
            add_dimension(a, heads, batch_strides(t, 3, 1, 0), bit);
            add_dimension(a, groups, batch_strides(t, 3, heads, 1), bit * heads);
        } else {
            add_dimension(a, size, batch_strides(t, from_end, 1, 1), bit);
        }
        bit *= size;
    }
}

static int64_t longest_range(int64_t n, const int64_t *starts)
{
    int64_t longest = 0;
    for (int64_t r = 0; r < n; r++)
        longest = br__max(longest, starts[r + 1] - starts[r]);
    return longest;
}

/* Sets the ranges. A single range is attention without ranges, whose blocks threads share. */
static void set_ranges(br_attention *a, const br_attention_tensors *t)
{
    if (t->ranges <= 1)
        return;
    a->ranges = t->ranges;
    a->query_starts = t->query_starts;
    a->key_starts = t->key_starts;
    a->head.queries = longest_range(t->ranges, t->query_starts);
    a->head.keys = longest_range(t->ranges, t->key_starts);
}

static br_attention attention_of(const char *op, const br_attention_tensors *t)
{
    const br_tensor *query = t->query, *value = t->value, *mask = t->mask;
    br_attention a = { .op = op, .dtype = query->dtype, .grad_dtype = query->dtype };
    a.head = (br_attention_work){ .queries = query->sizes[query->ndim - 2],
                                  .keys = value->sizes[value->ndim - 2],
                                  .width = query->sizes[query->ndim - 1],
                                  .value_width = value->sizes[value->ndim - 1],
                                  .scale = t->scale,
                                  .causal = t->causal,
                                  .mask_is_bool = mask && mask->dtype == BR_BOOL,
                                  .dropout = { br__element(t->bits, 0), t->dropout_scale },
                                  .query = matrices(query),
                                  .key = matrices(t->key),
                                  .value = matrices(value),
                                  .mask = matrices(mask),
                                  .out = matrices(t->out),
                                  .sums = matrices(t->sums),
                                  .dout = matrices(t->dout),
                                  .dquery = matrices(t->dquery),
                                  .dkey = matrices(t->dkey),
                                  .dvalue = matrices(t->dvalue),
                                  .dmask = matrices(t->dmask) };
    set_batch(&a, t);
    set_ranges(&a, t);
    return a;
}

bool br__cpu_attention(const char *op, const br_attention_tensors *work)
{
    const br_attention a = attention_of(op, work);
    return br__attention(&a);
}

bool br__cpu_attention_grad_narrows(const br_attention_tensors *work)
{
    const br_attention a = attention_of("", work);
    return br__attention_grad_narrows(&a);
}

/* Returns the dtype of the gradients, which is that in which they are computed if the caller has
 * replaced them by wide copies. */
static br_dtype gradient_dtype(const br_attention_tensors *work)
{
    const br_tensor *const gradients[] = { work->dquery, work->dkey, work->dvalue, work->dmask };
    for (int i = 0; i < 4; i++)
        if (gradients[i])
            return gradients[i]->dtype;
    return br__computed(work->query->dtype);
}

bool br__cpu_attention_grad(const char *op, const br_attention_tensors *work)
{
    br_attention a = attention_of(op, work);
    a.grad_dtype = gradient_dtype(work);
    const br_tensor *const gradients[] = { work->dquery, work->dkey, work->dvalue, work->dmask };
    for (int i = 0; i < 4 && !br__attention_grad_writes(&a); i++)
        if (gradients[i])
            br__set_zero(gradients[i]);
    return br__attention_grad(&a);
}
