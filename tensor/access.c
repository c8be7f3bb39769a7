/* tensor/access.c - reading a tensor: its shape, dtype and version, and its elements. */
#include "tensor/tensor_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

int br_ndim(const br_tensor *t)
{
    return BR_LIVE_ANY("ndim", t) ? t->ndim : -1;
}

/* Same as br__wrap_dim(), but a 0-d tensor is an error. */
static bool has_dim(const char *op, const br_tensor *t, int64_t *dim)
{
    if (!BR_LIVE_ANY(op, t))
        return false;
    if (t->ndim > 0)
        return br__wrap_dim(op, "dim", t, dim);
    br_fail(BR_ERROR_INDEX, op, "dim is %" PRId64 ", but t is 0-d: it has no dimensions", *dim);
    return false;
}

int64_t br_size(const br_tensor *t, int64_t dim)
{
    return has_dim("size", t, &dim) ? t->sizes[dim] : -1;
}

int64_t br_stride(const br_tensor *t, int64_t dim)
{
    return has_dim("stride", t, &dim) ? t->strides[dim] : -1;
}

const int64_t *br_sizes(const br_tensor *t)
{
    return BR_LIVE_ANY("sizes", t) ? t->sizes : NULL;
}

const int64_t *br_strides(const br_tensor *t)
{
    return BR_LIVE_ANY("strides", t) ? t->strides : NULL;
}

int64_t br_numel(const br_tensor *t)
{
    return BR_LIVE_ANY("numel", t) ? t->numel : -1;
}

br_dtype br_dtype_of(const br_tensor *t)
{
    return BR_LIVE_ANY("dtype_of", t) ? t->dtype : BR_F32;
}

bool br_is_floating(const br_tensor *t)
{
    return BR_LIVE_ANY("is_floating", t) && br__is_floating(t->dtype);
}

bool br_dtype_is_floating(br_dtype dtype)
{
    return br__is_floating(dtype);
}

bool br_dtype_named(const char *name, br_dtype *dtype)
{
    if (!br__required("dtype_named", "name", name) || !br__required("dtype_named", "dtype", dtype))
        return false;
    for (int i = 0; i <= BR_QUANTIZED; i++) {
        const br_dtype_info *info = &br__dtypes[i];
        if (strcmp(name, info->name) == 0 || strcmp(name, info->torch_name) == 0 ||
            strcmp(name, info->stored_name) == 0) {
            *dtype = (br_dtype)i;
            return true;
        }
    }
    return false;
}

bool br_is_contiguous(const br_tensor *t)
{
    return BR_LIVE_ANY("is_contiguous", t) && t->contiguous;
}

bool br_same_shape(const br_tensor *a, const br_tensor *b)
{
    return BR_LIVE_ANY("same_shape", a) && BR_LIVE_ANY("same_shape", b) && br__same_shape(a, b);
}

bool br_shares_storage(const br_tensor *a, const br_tensor *b)
{
    return BR_LIVE_ANY("shares_storage", a) && BR_LIVE_ANY("shares_storage", b) &&
           a->storage == b->storage;
}

uint64_t br_tensor_version(const br_tensor *t)
{
    return BR_LIVE_ANY("tensor_version", t) ? atomic_load(&t->storage->version) : 0;
}

/* Fails if the host cannot read t's memory. */
static bool readable(const char *op, const br_tensor *t)
{
    if (br__is_on_host(t))
        return true;
    br_fail(BR_ERROR_STATE, op,
            "t %s is on %s, whose memory the host cannot read: copy it to the CPU with "
            "br_to_device(), or read it with br_copy_out()",
            br__shape(t), br__backend_of(t)->name);
    return false;
}

void *br_data(const br_tensor *t)
{
    return br__required("data", "t", t) && readable("data", t) ? t->data : NULL;
}

static void *checked_data(const char *op, const br_tensor *t, br_dtype dtype)
{
    if (!br__has_dtype(op, "t", t, dtype) || !readable(op, t))
        return NULL;
    if (!t->contiguous)
        return br_fail(BR_ERROR_ARGUMENT, op,
                       "t %s is not contiguous: use br_contiguous() or br_copy_out()",
                       br__shape(t));
    return t->data;
}

float *br_data_f32(const br_tensor *t)
{
    return checked_data("data_f32", t, BR_F32);
}

double *br_data_f64(const br_tensor *t)
{
    return checked_data("data_f64", t, BR_F64);
}

int64_t *br_data_i64(const br_tensor *t)
{
    return checked_data("data_i64", t, BR_I64);
}

bool *br_data_bool(const br_tensor *t)
{
    return checked_data("data_bool", t, BR_BOOL);
}

static bool one_element(const char *op, const br_tensor *t)
{
    if (!br__required(op, "t", t))
        return false;
    if (t->numel != 1)
        br_fail(BR_ERROR_SHAPE, op, "t %s has %" PRId64 " elements, must have exactly one",
                br__shape(t), t->numel);
    return t->numel == 1;
}

/* Returns the element that is `offset` elements after the first one in memory, NAN with an error if
 * the device fails. */
static double value_at(const br_tensor *t, int64_t offset)
{
    br_element x;
    return br__read_element(t, offset, &x) ? br__get(t->dtype, &x) : NAN;
}

double br_item(const br_tensor *t)
{
    return one_element("item", t) ? value_at(t, 0) : NAN;
}

int64_t br_item_i64(const br_tensor *t)
{
    br_element x;
    if (!one_element("item_i64", t) || !br__read_element(t, 0, &x))
        return 0;
    if (!br__is_floating(t->dtype))
        return br__dtypes[t->dtype].get_integer(&x);
    double value = br__get(t->dtype, &x);
    if (!br__represents(BR_I64, trunc(value))) {
        br_fail(BR_ERROR_ARGUMENT, "item_i64", "%g cannot be represented as i64", value);
        return 0;
    }
    return (int64_t)value;
}

double br_at(const br_tensor *t, int ndim, const int64_t *index)
{
    if (!br__required("at", "t", t))
        return NAN;
    if (ndim != t->ndim || (ndim > 0 && !index)) {
        br_fail(BR_ERROR_INDEX, "at", "t %s needs %d indices, got %d", br__shape(t), t->ndim,
                index ? ndim : 0);
        return NAN;
    }
    int64_t offset = 0;
    for (int i = 0; i < ndim; i++) {
        int64_t k = index[i] < 0 ? index[i] + t->sizes[i] : index[i];
        if (k < 0 || k >= t->sizes[i]) {
            br_fail(BR_ERROR_INDEX, "at",
                    "index %" PRId64 " is out of bounds for dimension %d of t %s", index[i], i,
                    br__shape(t));
            return NAN;
        }
        offset += k * t->strides[i];
    }
    return value_at(t, offset);
}

bool br_copy_out(const br_tensor *t, void *out, size_t bytes)
{
    if (!br__required("copy_out", "t", t))
        return false;
    size_t size = (size_t)t->numel * br_dtype_size(t->dtype);
    if (bytes != size || (!out && size > 0)) {
        br_fail(BR_ERROR_ARGUMENT, "copy_out",
                "t %s (%s) has %zu bytes, but out has %zu: the sizes must be equal", br__shape(t),
                br_dtype_name(t->dtype), size, out ? bytes : 0);
        return false;
    }
    if (size == 0)
        return true;
    if (t->contiguous && br__is_on_host(t)) {
        memcpy(out, t->data, size);
        return true;
    }
    if (t->contiguous)
        return br__backend_of(t)->download(out, t);
    /* A copy can only write to a tensor, so the elements are copied to a temporary one first. */
    br_scope *scope = br_scope_begin();
    br_tensor *dense = br__new_on_host("copy_out", t->ndim, t->sizes, t->dtype);
    const bool ok = dense && br__transfer("copy_out", dense, t);
    if (ok)
        memcpy(out, dense->data, size);
    br_scope_end(scope);
    return ok;
}
