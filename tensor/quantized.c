/* tensor/quantized.c - tensors of BR_QUANTIZED: their memory, and the check of an argument. */
#include "tensor/quantized.h"
#include "tensor/tensor_internal.h"

const char *br_quantized_type(const br_tensor *t)
{
    return BR_LIVE_ANY("quantized_type", t) && br__is_quantized(t) ? br__block_info(t)->name : NULL;
}

size_t br__tensor_bytes(const br_tensor *t)
{
    return (size_t)(br__is_quantized(t) ? br__row_bytes(br__block_info(t), t->numel)
                                        : t->numel * (int64_t)br__dtype_size(t->dtype));
}

br_tensor *br__as_quantized(br_tensor *bytes, br_block_type type, int ndim, const int64_t *sizes)
{
    if (!bytes)
        return NULL;
    bytes->dtype = BR_QUANTIZED;
    bytes->block_type = (uint8_t)type;
    bytes->ndim = ndim;
    bytes->numel = 1;
    for (int i = 0; i < ndim; i++)
        bytes->numel *= bytes->sizes[i] = sizes[i];
    br__default_strides(ndim, sizes, bytes->strides);
    if (bytes->mark == BR_MARK_LIVE) /* in the debug mode, the registry is asked anyway */
        bytes->mark = BR_MARK_QUANTIZED;
    return bytes;
}

br_tensor *br__bytes_of_quantized(br_tensor *t)
{
    br_tensor *bytes = t ? br__detached(t) : NULL;
    if (!bytes)
        return NULL;
    const int64_t columns = t->sizes[t->ndim - 1], row = br__row_bytes(br__block_info(t), columns);
    bytes->dtype = BR_U8;
    bytes->ndim = 2;
    bytes->sizes[0] = columns > 0 ? t->numel / columns : 0;
    bytes->sizes[1] = row;
    bytes->numel = bytes->sizes[0] * row;
    br__default_strides(2, bytes->sizes, bytes->strides);
    if (bytes->mark == BR_MARK_QUANTIZED)
        bytes->mark = BR_MARK_LIVE;
    return bytes;
}

bool br__required_any(const char *op, const char *name, const br_tensor *t)
{
    if (!t || br__failed())
        return br__required(op, name, t);
    return br__is_live_any(op, name, t);
}
