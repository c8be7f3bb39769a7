/* ops/fft/frequencies.c - the frequencies of a transform's elements, and their order. */
#include "ops/fft/fft_internal.h"

#include <inttypes.h>

static bool check_frequencies(const char *op, int64_t n, br_dtype dtype)
{
    if (n < 0 || n > INT64_C(1) << 53)
        br_fail(BR_ERROR_ARGUMENT, op, "n is %" PRId64 ", must be in 0 .. 2^53", n);
    else if (!br_dtype_is_floating(dtype))
        br_fail(BR_ERROR_DTYPE, op, "dtype is %s, must be a floating-point one",
                br_dtype_name(dtype));
    return !br_failed();
}

br_tensor *br_fft_fftfreq(int64_t n, double d, br_dtype dtype)
{
    static const char op[] = "fft_fftfreq";
    BR_OP(op);
    if (!check_frequencies(op, n, dtype))
        return NULL;
    br_scope *scope = br_scope_begin();
    const double negative = (double)(n / 2), positive = (double)(n - n / 2);
    br_tensor *k =
        br_cat(BR_INPUTS(br_arange(0, positive, 1, dtype), br_arange(-negative, 0, 1, dtype)), 0);
    return br__composed(scope, br_mul_scalar(k, 1 / ((double)n * d)));
}

br_tensor *br_fft_rfftfreq(int64_t n, double d, br_dtype dtype)
{
    static const char op[] = "fft_rfftfreq";
    BR_OP(op);
    if (!check_frequencies(op, n, dtype))
        return NULL;
    br_scope *scope = br_scope_begin();
    br_tensor *k = br_arange(0, (double)(n / 2 + 1), 1, dtype);
    return br__composed(scope, br_mul_scalar(k, 1 / ((double)n * d)));
}

/* Rolls the dimensions by half of their size, which is rounded up if `back` is set. */
static br_tensor *shifted(const char *op, br_tensor *x, bool is_complex, int n, const int64_t *dims,
                          bool back)
{
    int64_t all[BR_MAX_DIMS], shifts[BR_MAX_DIMS];
    if (!(is_complex ? br__has_parts(op, "x", x) : br__required(op, "x", x)))
        return NULL;
    const int ndim = is_complex ? x->ndim - 1 : x->ndim;
    if (n < 0 || n > ndim || (n > 0 && !dims))
        return br_fail(BR_ERROR_ARGUMENT, op, "%d dimensions in dims for x %s, must be 0 .. %d",
                       dims ? n : 0, br__shape(x), ndim);
    const int count = n > 0 ? n : ndim;
    for (int i = 0; i < count; i++) {
        all[i] = n > 0 ? dims[i] : i;
        if (!br__wrap_fft_dim(op, "a dimension in dims", x, is_complex, &all[i]))
            return NULL;
        const int64_t size = x->sizes[all[i]];
        shifts[i] = back ? (size + 1) / 2 : size / 2;
    }
    if (count == 0)
        return br__composed(NULL, br_clone(x));
    return br__composed(NULL, br_roll(x, count, shifts, count, all));
}

br_tensor *br_fft_fftshift(br_tensor *x, bool is_complex, int ndims, const int64_t *dims)
{
    BR_OP("fft_fftshift");
    return shifted("fft_fftshift", x, is_complex, ndims, dims, false);
}

br_tensor *br_fft_ifftshift(br_tensor *x, bool is_complex, int ndims, const int64_t *dims)
{
    BR_OP("fft_ifftshift");
    return shifted("fft_ifftshift", x, is_complex, ndims, dims, true);
}
