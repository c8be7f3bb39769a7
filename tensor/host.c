/* tensor/host.c - elements in the host's memory. */
#include "tensor/host.h"
#include "tensor/tensor_internal.h"

const int64_t *br__host_i64(const br_tensor *t)
{
    if (!br__has_dtype("host_i64", "t", t, BR_I64))
        return NULL;
    if (t->contiguous && br__is_on_host(t))
        return br__element(t, 0);
    br_tensor *dense = br__new_on_host("host_i64", t->ndim, t->sizes, BR_I64);
    return dense && br__transfer("host_i64", dense, t) ? br__element(dense, 0) : NULL;
}

br_tensor *br__new_host_i64(const char *op, int ndim, const int64_t *sizes, int64_t **elements)
{
    br_tensor *t = br__new_on_host(op, ndim, sizes, BR_I64);
    *elements = br__element(t, 0);
    return t;
}

br_tensor *br__new_host_f64(const char *op, int ndim, const int64_t *sizes, double **elements)
{
    br_tensor *t = br__new_on_host(op, ndim, sizes, BR_F64);
    *elements = br__element(t, 0);
    return t;
}
