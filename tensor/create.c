/* tensor/create.c - constructors. */
#include "tensor/tensor_internal.h"

#include <math.h>
#include <string.h>

br_tensor *br_empty(int ndim, const int64_t *sizes, br_dtype dtype)
{
    return br__new("empty", ndim, sizes, dtype);
}

/* Fills a contiguous tensor. */
static br_tensor *fill(br_tensor *t, double value)
{
    if (!t)
        return NULL;
    switch (t->dtype) {
    case BR_F32:
        for (int64_t i = 0; i < t->numel; i++)
            ((float *)(void *)t->data)[i] = (float)value;
        break;
    case BR_F64:
        for (int64_t i = 0; i < t->numel; i++)
            ((double *)(void *)t->data)[i] = value;
        break;
    case BR_I64:
        for (int64_t i = 0; i < t->numel; i++)
            ((int64_t *)(void *)t->data)[i] = (int64_t)value;
        break;
    case BR_BOOL:
        memset(t->data, value != 0, (size_t)t->numel);
        break;
    }
    return t;
}

br_tensor *br_zeros(int ndim, const int64_t *sizes, br_dtype dtype)
{
    br_tensor *t = br__new("zeros", ndim, sizes, dtype);
    if (t)
        memset(t->data, 0, t->storage->bytes);
    return t;
}

br_tensor *br_ones(int ndim, const int64_t *sizes, br_dtype dtype)
{
    return fill(br__new("ones", ndim, sizes, dtype), 1);
}

/* An integer tensor takes only what an integer can hold. */
static bool representable(const char *op, double value, br_dtype dtype)
{
    if (dtype != BR_I64 || (value >= -0x1p63 && value < 0x1p63))
        return true;
    br__fail(BR_ERROR_ARGUMENT, op, "%g is not representable as i64", value);
    return false;
}

br_tensor *br_full(int ndim, const int64_t *sizes, double value, br_dtype dtype)
{
    if (!representable("full", value, dtype))
        return NULL;
    return fill(br__new("full", ndim, sizes, dtype), value);
}

br_tensor *br_empty_like(const br_tensor *t)
{
    return br__required("empty_like", "t", t) ? br_empty(t->ndim, t->sizes, t->dtype) : NULL;
}

br_tensor *br_zeros_like(const br_tensor *t)
{
    return br__required("zeros_like", "t", t) ? br_zeros(t->ndim, t->sizes, t->dtype) : NULL;
}

br_tensor *br_ones_like(const br_tensor *t)
{
    return br__required("ones_like", "t", t) ? br_ones(t->ndim, t->sizes, t->dtype) : NULL;
}

br_tensor *br_scalar(double value, br_dtype dtype)
{
    return br_full(0, NULL, value, dtype);
}

/* Element i is start + i * step, computed in f64 or, for integers, exactly. */
static br_tensor *fill_steps(br_tensor *t, double start, double step)
{
    for (int64_t i = 0; t && i < t->numel; i++) {
        switch (t->dtype) {
        case BR_F32:
            ((float *)(void *)t->data)[i] = (float)(start + (double)i * step);
            break;
        case BR_F64:
            ((double *)(void *)t->data)[i] = start + (double)i * step;
            break;
        case BR_I64:
            ((int64_t *)(void *)t->data)[i] = (int64_t)start + i * (int64_t)step;
            break;
        case BR_BOOL:
            t->data[i] = start + (double)i * step != 0;
            break;
        }
    }
    return t;
}

br_tensor *br_arange(double start, double end, double step, br_dtype dtype)
{
    if (br_failed())
        return NULL;
    if (!isfinite(start) || !isfinite(end) || !isfinite(step) || step == 0 ||
        (end - start) / step < 0)
        return br__fail(BR_ERROR_ARGUMENT, "arange",
                        "start %g, end %g, step %g: all must be finite, and step must lead from "
                        "start towards end",
                        start, end, step);
    if (dtype == BR_I64 && (!representable("arange", start, dtype) || step != trunc(step)))
        return br__fail(BR_ERROR_ARGUMENT, "arange", "step %g must be an integer for i64", step);
    double n = ceil((end - start) / step);
    if (n >= 0x1p62)
        return br__fail(BR_ERROR_ARGUMENT, "arange", "%g elements are too many", n);
    return fill_steps(br__new("arange", BR_SHAPE((int64_t)n), dtype), start, step);
}

br_tensor *br_linspace(double start, double end, int64_t steps, br_dtype dtype)
{
    if (br_failed())
        return NULL;
    if (dtype != BR_F32 && dtype != BR_F64)
        return br__fail(BR_ERROR_DTYPE, "linspace", "dtype %s, must be f32 or f64",
                        br_dtype_name(dtype));
    br_tensor *t = br__new("linspace", BR_SHAPE(steps), dtype);
    double step = steps > 1 ? (end - start) / (double)(steps - 1) : 0;
    /* The second half is counted from the end, which is thus met exactly. */
    for (int64_t i = 0; t && i < steps; i++) {
        double x = i < steps / 2 || steps == 1 ? start + (double)i * step
                                               : end - (double)(steps - 1 - i) * step;
        if (dtype == BR_F32)
            ((float *)(void *)t->data)[i] = (float)x;
        else
            ((double *)(void *)t->data)[i] = x;
    }
    return t;
}

br_tensor *br_eye(int64_t n, int64_t m, br_dtype dtype)
{
    br_tensor *t = br_zeros(BR_SHAPE(n, m), dtype);
    if (!t)
        return NULL;
    br_tensor diagonal = *t; /* the same memory, seen as its diagonal; fill() wants it dense */
    int64_t count = n < m ? n : m;
    size_t size = br_dtype_size(dtype);
    for (int64_t i = 0; i < count; i++) {
        diagonal.data = t->data + (size_t)(i * (m + 1)) * size;
        diagonal.numel = 1;
        fill(&diagonal, 1);
    }
    return t;
}

br_tensor *br_from_data(int ndim, const int64_t *sizes, br_dtype dtype, const void *values)
{
    br_tensor *t = br__new("from_data", ndim, sizes, dtype);
    if (!t)
        return NULL;
    if (!values && t->numel > 0)
        return br__fail(BR_ERROR_ARGUMENT, "from_data", "values is NULL for shape %s",
                        br__shape(t));
    if (t->numel > 0)
        memcpy(t->data, values, t->storage->bytes);
    if (dtype == BR_BOOL)
        for (int64_t i = 0; i < t->numel; i++)
            t->data[i] = t->data[i] != 0;
    return t;
}

br_tensor *br_from_f32(int ndim, const int64_t *sizes, const float *values)
{
    return br_from_data(ndim, sizes, BR_F32, values);
}

br_tensor *br_from_f64(int ndim, const int64_t *sizes, const double *values)
{
    return br_from_data(ndim, sizes, BR_F64, values);
}

br_tensor *br_from_i64(int ndim, const int64_t *sizes, const int64_t *values)
{
    return br_from_data(ndim, sizes, BR_I64, values);
}

br_tensor *br_from_bool(int ndim, const int64_t *sizes, const bool *values)
{
    return br_from_data(ndim, sizes, BR_BOOL, values);
}
