/* tensor/create.c - constructors. */
#include "tensor/tensor_internal.h"

#include <math.h>
#include <string.h>

br_tensor *br_empty(int ndim, const int64_t *sizes, br_dtype dtype)
{
    return br__new("empty", ndim, sizes, dtype);
}

static void put(void *element, br_dtype dtype, double value)
{
    switch (dtype) {
    case BR_F32:
        *(float *)element = (float)value;
        break;
    case BR_F64:
        *(double *)element = value;
        break;
    case BR_I64:
        *(int64_t *)element = (int64_t)value;
        break;
    case BR_BOOL:
        *(bool *)element = value != 0;
        break;
    }
}

/* Fills a contiguous tensor: a line of the cache, which is copied on, in parts that stay there. */
static __attribute__((noinline)) br_tensor *fill(br_tensor *t, double value)
{
    enum { LINE = 64, PART = 16384 };
    if (!t)
        return NULL;
    BR_TRAFFIC(t);
    const size_t size = br__dtype_size(t->dtype), bytes = (size_t)t->numel * size;
    size_t done = 0;
    for (; done < bytes && done < LINE; done += size)
        put(t->data + done, t->dtype, value);
    for (size_t n; done < bytes; done += n) {
        n = done < PART ? done : PART;
        n = n < bytes - done ? n : bytes - done;
        memcpy(t->data + done, t->data, n);
    }
    return t;
}

enum { ZERO_PIECE = 1 << 20 };

static void zero_piece(void *context, int64_t i)
{
    const br_storage *storage = context;
    size_t start = (size_t)i * ZERO_PIECE, rest = storage->bytes - start;
    memset(storage->data + start, 0, rest < ZERO_PIECE ? rest : ZERO_PIECE);
}

br_tensor *br_zeros(int ndim, const int64_t *sizes, br_dtype dtype)
{
    BR_OP("zeros");
    br_tensor *t = br__new("zeros", ndim, sizes, dtype);
    BR_TRAFFIC(t);
    if (t)
        br__parallel((int64_t)((t->storage->bytes + ZERO_PIECE - 1) / ZERO_PIECE), zero_piece,
                     t->storage);
    return t;
}

br_tensor *br_ones(int ndim, const int64_t *sizes, br_dtype dtype)
{
    BR_OP("ones");
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
    BR_OP("full");
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
    BR_OP("ones");
    return br__required("ones_like", "t", t) ? fill(br__new_like("ones", t, t->dtype), 1) : NULL;
}

br_tensor *br_scalar(double value, br_dtype dtype)
{
    return br_full(0, NULL, value, dtype);
}

/* Element i is start + i * step, computed in f64 or, for integers, exactly. */
static br_tensor *fill_steps(br_tensor *t, double start, double step)
{
    for (int64_t i = 0; t && i < t->numel; i++) {
        if (t->dtype == BR_I64)
            ((int64_t *)(void *)t->data)[i] = (int64_t)start + i * (int64_t)step;
        else
            put(t->data + i * (int64_t)br__dtype_size(t->dtype), t->dtype,
                start + (double)i * step);
    }
    return t;
}

/* Integers want a whole start and step, and an end that no element can overflow. */
static bool whole_steps(double start, double end, double step)
{
    return start == trunc(start) && step == trunc(step) && fabs(start) <= 0x1p62 &&
           fabs(end) <= 0x1p62 && fabs(step) <= 0x1p62;
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
    if (dtype == BR_I64 && !whole_steps(start, end, step))
        return br__fail(BR_ERROR_ARGUMENT, "arange",
                        "start %g, end %g, step %g: for i64 start and step must be whole numbers, "
                        "and none beyond 2^62",
                        start, end, step);
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
        put(t->data + i * (int64_t)br__dtype_size(dtype), dtype, x);
    }
    return t;
}

br_tensor *br_eye(int64_t n, int64_t m, br_dtype dtype)
{
    br_tensor *t = br__new("eye", BR_SHAPE(n, m), dtype);
    if (!t)
        return NULL;
    memset(t->data, 0, t->storage->bytes);
    const int64_t size = (int64_t)br_dtype_size(dtype);
    for (int64_t i = 0; i < n && i < m; i++)
        put(t->data + i * (m + 1) * size, dtype, 1);
    return t;
}

br_tensor *br_from_data(int ndim, const int64_t *sizes, br_dtype dtype, const void *values)
{
    int64_t numel;
    if (!br__check_sizes("from_data", ndim, sizes, dtype, &numel))
        return NULL;
    if (!values && numel > 0)
        return br__fail(BR_ERROR_ARGUMENT, "from_data", "values is NULL for shape %s",
                        br__shape_of(ndim, sizes));
    br_tensor *t = br__new("from_data", ndim, sizes, dtype);
    if (t && numel > 0)
        memcpy(t->data, values, t->storage->bytes);
    for (int64_t i = 0; t && dtype == BR_BOOL && i < numel; i++)
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
