/* tensor/create.c - constructors. */
#include "tensor/tensor_internal.h"

#include <math.h>
#include <string.h>

/* ---- One value ------------------------------------------------------------------------------- */

br_tensor *br_empty(int ndim, const int64_t *sizes, br_dtype dtype)
{
    return br__new("empty", ndim, sizes, dtype);
}

br_tensor *br_empty_like(const br_tensor *t)
{
    return br__required("empty_like", "t", t) ? br__new_like("empty_like", t, t->dtype) : NULL;
}

br_tensor *br_new_empty(const br_tensor *t, int ndim, const int64_t *sizes, br_dtype dtype)
{
    return br__required("new_empty", "t", t) ? br__new_on("new_empty", t, ndim, sizes, dtype)
                                             : NULL;
}

/* Sets all elements of a new tensor. NULL stays NULL. */
static br_tensor *fill(br_tensor *t, double value)
{
    br_element element;
    if (!t)
        return NULL;
    BR_TRAFFIC(t);
    br__put(t->dtype, &element, value);
    br__backend_of(t)->fill(t, &element);
    return t;
}

void br__set_zero(const br_tensor *t)
{
    static const br_element zero;
    br__backend_of(t)->fill(t, &zero);
}

br_tensor *br__zeros_on_host(const char *op, int ndim, const int64_t *sizes, br_dtype dtype)
{
    br_tensor *t = br__new_on_host(op, ndim, sizes, dtype);
    if (t)
        br__set_zero(t);
    return t;
}

/* Fails if an element cannot hold the value. */
static bool representable(const char *op, double value, br_dtype dtype)
{
    if (!br__is_dtype(dtype) || br__holds(dtype, value))
        return true;
    br_fail(BR_ERROR_ARGUMENT, op, "%g cannot be represented as %s", value, br_dtype_name(dtype));
    return false;
}

/* These are inlined, so that the public function is on the stack, whose names the debug mode
 * shows. */
#define ALWAYS_INLINE static inline __attribute__((always_inline))

ALWAYS_INLINE br_tensor *full(const char *op, int ndim, const int64_t *sizes, double value,
                              br_dtype dtype)
{
    BR_OP(op);
    return representable(op, value, dtype) ? fill(br__new(op, ndim, sizes, dtype), value) : NULL;
}

ALWAYS_INLINE br_tensor *full_like(const char *op, const br_tensor *t, double value)
{
    BR_OP(op);
    return br__required(op, "t", t) ? fill(br__new_like(op, t, t->dtype), value) : NULL;
}

ALWAYS_INLINE br_tensor *full_on(const char *op, const br_tensor *t, int ndim, const int64_t *sizes,
                                 double value, br_dtype dtype)
{
    BR_OP(op);
    return br__required(op, "t", t) && representable(op, value, dtype)
               ? fill(br__new_on(op, t, ndim, sizes, dtype), value)
               : NULL;
}

br_tensor *br_zeros(int ndim, const int64_t *sizes, br_dtype dtype)
{
    return full("zeros", ndim, sizes, 0, dtype);
}

br_tensor *br_ones(int ndim, const int64_t *sizes, br_dtype dtype)
{
    return full("ones", ndim, sizes, 1, dtype);
}

br_tensor *br_full(int ndim, const int64_t *sizes, double value, br_dtype dtype)
{
    return full("full", ndim, sizes, value, dtype);
}

br_tensor *br_scalar(double value, br_dtype dtype)
{
    return full("scalar", BR_SCALAR, value, dtype);
}

br_tensor *br_zeros_like(const br_tensor *t)
{
    return full_like("zeros_like", t, 0);
}

br_tensor *br_ones_like(const br_tensor *t)
{
    return full_like("ones_like", t, 1);
}

br_tensor *br_full_like(const br_tensor *t, double value)
{
    return br__required("full_like", "t", t) && representable("full_like", value, t->dtype)
               ? full_like("full_like", t, value)
               : NULL;
}

br_tensor *br_new_zeros(const br_tensor *t, int ndim, const int64_t *sizes, br_dtype dtype)
{
    return full_on("new_zeros", t, ndim, sizes, 0, dtype);
}

br_tensor *br_new_ones(const br_tensor *t, int ndim, const int64_t *sizes, br_dtype dtype)
{
    return full_on("new_ones", t, ndim, sizes, 1, dtype);
}

br_tensor *br_new_full(const br_tensor *t, int ndim, const int64_t *sizes, double value,
                       br_dtype dtype)
{
    return full_on("new_full", t, ndim, sizes, value, dtype);
}

/* ---- Computed values ------------------------------------------------------------------------- */

/* The host computes these in its own memory, from which they are copied to the default device. */

static br_tensor *placed(const char *op, br_tensor *t)
{
    return br__placed(op, br__default_backend(), t);
}

/* Returns t, which the host has computed in the dtype of operations, as `dtype`. */
static br_tensor *stored(br_tensor *t, br_dtype dtype)
{
    if (!t || t->dtype == dtype)
        return t;
    br_scope *scope = br_scope_begin();
    br_tensor *y = br__new_on_host("convert", t->ndim, t->sizes, dtype);
    if (y)
        br__copy(y, t);
    br_scope_return(scope, y);
    br_scope_end(scope);
    return y;
}

/* Computes start + i * step with the rounding of PyTorch's AVX2 kernel on one thread. Elements are
 * computed two vectors at a time: the first element of a vector is rounded to the dtype, and the
 * others are computed from it. Elements that do not fill two vectors are computed one by one. */
static void fill_range(br_tensor *t, double start, double step)
{
    const int64_t size = (int64_t)br__dtype_size(t->dtype), lanes = 32 / size;
    const int64_t whole = t->numel / (2 * lanes) * (2 * lanes);
    for (int64_t i = 0; i < t->numel; i++) {
        const int64_t lane = i < whole ? i % lanes : 0;
        const double first = br__rounded(t->dtype, fma(step, (double)(i - lane), start));
        br__put(t->dtype, br__element(t, i), fma(step, (double)lane, first));
    }
}

/* Sets element i to start + i * step; integers are exact. */
static br_tensor *fill_steps(br_tensor *t, double start, double step)
{
    if (t && br_is_floating(t)) {
        fill_range(t, start, step);
        return t;
    }
    for (int64_t i = 0; t && i < t->numel; i++) {
        void *element = br__element(t, i);
        if (br__is_kind(t->dtype, BR_KIND_INTEGER))
            br__dtypes[t->dtype].put_integer(element, (int64_t)start + i * (int64_t)step);
        else
            br__put(t->dtype, element, start + (double)i * step);
    }
    return t;
}

/* Fills n evenly spaced values. The second half is computed from the end, so that the last element
 * is exactly `end`. Each element is rounded once, since PyTorch's kernel fuses the product and the
 * sum. All arithmetic is done in `type`, the dtype's C type. */
#define DEFINE_FILL_BETWEEN(type, fused)                                              \
    static void fill_between_##type(void *data, double first, double last, int64_t n) \
    {                                                                                 \
        type *to = data;                                                              \
        const type start = (type)first, end = (type)last;                             \
        const type step = n > 1 ? (end - start) / (type)(n - 1) : 0;                  \
        for (int64_t i = 0; i < n; i++)                                               \
            to[i] = i < n / 2 || n == 1 ? fused(step, (type)i, start)                 \
                                        : fused(-step, (type)(n - 1 - i), end);       \
    }
DEFINE_FILL_BETWEEN(float, fmaf)
DEFINE_FILL_BETWEEN(double, fma)

/* Checks that start and step are integers and that no value overflows an i64. */
static bool whole_steps(double start, double end, double step)
{
    return start == trunc(start) && step == trunc(step) && fabs(start) <= 0x1p62 &&
           fabs(end) <= 0x1p62 && fabs(step) <= 0x1p62;
}

/* Returns the number of integers in the range. Computed in f64, the difference of large bounds
 * would be rounded; the result is exact up to 2^53, which no memory holds. */
static double integer_steps(double start, double end, double step)
{
    int64_t first = (int64_t)start, past = (int64_t)(step > 0 ? ceil(end) : floor(end));
    uint64_t distance =
        step > 0 ? (uint64_t)past - (uint64_t)first : (uint64_t)first - (uint64_t)past;
    uint64_t size = (uint64_t)fabs(step);
    return (double)(distance / size + (distance % size != 0));
}

static br_tensor *arange(const char *op, double start, double end, double step, br_dtype dtype)
{
    if (br_failed())
        return NULL;
    if (!isfinite(start) || !isfinite(end) || !isfinite(step) || step == 0 ||
        (end - start) / step < 0)
        return br_fail(BR_ERROR_ARGUMENT, op,
                       "start %g, end %g, step %g: all must be finite, and step must be nonzero "
                       "and have the sign of end - start",
                       start, end, step);
    const bool integers = br__is_kind(dtype, BR_KIND_INTEGER);
    if (integers && !whole_steps(start, end, step))
        return br_fail(BR_ERROR_ARGUMENT, op,
                       "start %g, end %g, step %g: for %s, start and step must be integers, and "
                       "no magnitude may exceed 2^62",
                       start, end, step, br_dtype_name(dtype));
    double n = integers ? integer_steps(start, end, step) : ceil((end - start) / step);
    if (n >= 0x1p62)
        return br_fail(BR_ERROR_ARGUMENT, op,
                       "the range has %g elements, must have fewer than 2^62", n);
    return fill_steps(br__new_on_host(op, BR_SHAPE((int64_t)n), dtype), start, step);
}

br_tensor *br_arange(double start, double end, double step, br_dtype dtype)
{
    return placed("arange", arange("arange", start, end, step, dtype));
}

br_tensor *br_new_arange(const br_tensor *t, double start, double end, double step, br_dtype dtype)
{
    static const char op[] = "new_arange";
    return br__required(op, "t", t)
               ? br__placed(op, br__backend_of(t), arange(op, start, end, step, dtype))
               : NULL;
}

/* Fills n evenly spaced integers. Like PyTorch, computes each value in f64 from the truncated start
 * and end, and truncates it. */
static void fill_between_integers(void *data, double first, double last, int64_t n)
{
    int64_t *to = data;
    const double start = trunc(first), end = trunc(last);
    const double step = n > 1 ? (end - start) / (double)(n - 1) : 0;
    for (int64_t i = 0; i < n; i++)
        to[i] = i < n / 2 || n == 1 ? (int64_t)fma(step, (double)i, start)
                                    : (int64_t)fma(-step, (double)(n - 1 - i), end);
}

/* PyTorch rounds the bounds to the dtype, and computes in that of operations. */
static double bound(br_dtype dtype, double value)
{
    return br__is_floating(dtype) ? br__rounded(dtype, value) : value;
}

br_tensor *br_linspace(double start, double end, int64_t steps, br_dtype dtype)
{
    static void (*const fills[BR_DTYPES])(void *, double, double, int64_t) = {
        [BR_F32] = fill_between_float,
        [BR_F64] = fill_between_double,
        [BR_I64] = fill_between_integers,
    };
    if (br_failed())
        return NULL;
    if (!br__is_floating(dtype) && !br__is_kind(dtype, BR_KIND_INTEGER))
        return br_fail(BR_ERROR_DTYPE, "linspace",
                       "dtype is %s, must be an integer or floating-point dtype",
                       br_dtype_name(dtype));
    if (!br__is_floating(dtype) && !(fabs(start) <= 0x1p62 && fabs(end) <= 0x1p62))
        return br_fail(BR_ERROR_ARGUMENT, "linspace",
                       "start is %g and end is %g: for %s, their magnitudes must be at most 2^62",
                       start, end, br_dtype_name(dtype));
    br_tensor *t = br__new_on_host("linspace", BR_SHAPE(steps), br__computed(dtype));
    if (t)
        fills[t->dtype](t->data, bound(dtype, start), bound(dtype, end), steps);
    return placed("linspace", stored(t, dtype));
}

br_tensor *br_eye(int64_t n, int64_t m, br_dtype dtype)
{
    br_tensor *t = br__new_on_host("eye", BR_SHAPE(n, m), dtype);
    if (!t)
        return NULL;
    memset(t->data, 0, t->storage->bytes);
    for (int64_t i = 0; i < n && i < m; i++)
        br__put(dtype, br__element(t, i * (m + 1)), 1);
    return placed("eye", t);
}

static br_tensor *from_data(const char *op, int ndim, const int64_t *sizes, br_dtype dtype,
                            const void *values)
{
    int64_t numel;
    if (!br__check_sizes(op, ndim, sizes, dtype, &numel))
        return NULL;
    if (!values && numel > 0)
        return br_fail(BR_ERROR_ARGUMENT, op, "values is NULL, but shape %s has elements",
                       br__shape_of(ndim, sizes));
    br_tensor *t = br__new_on_host(op, ndim, sizes, dtype);
    if (t && numel > 0)
        memcpy(t->data, values, t->storage->bytes);
    for (int64_t i = 0; t && br__is_kind(dtype, BR_KIND_BOOL) && i < numel; i++)
        t->data[i] = t->data[i] != 0;
    return placed(op, t);
}

br_tensor *br_from_data(int ndim, const int64_t *sizes, br_dtype dtype, const void *values)
{
    return from_data("from_data", ndim, sizes, dtype, values);
}

br_tensor *br_from_f32(int ndim, const int64_t *sizes, const float *values)
{
    return from_data("from_f32", ndim, sizes, BR_F32, values);
}

br_tensor *br_from_f64(int ndim, const int64_t *sizes, const double *values)
{
    return from_data("from_f64", ndim, sizes, BR_F64, values);
}

br_tensor *br_from_i64(int ndim, const int64_t *sizes, const int64_t *values)
{
    return from_data("from_i64", ndim, sizes, BR_I64, values);
}

br_tensor *br_from_bool(int ndim, const int64_t *sizes, const bool *values)
{
    return from_data("from_bool", ndim, sizes, BR_BOOL, values);
}
