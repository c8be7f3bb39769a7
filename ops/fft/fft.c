/* ops/fft/fft.c - PyTorch's Fourier transforms. A transform of several dimensions transforms one
 * after the other. */
#include "ops/autocast.h"
#include "ops/dims.h"
#include "ops/fft/fft_internal.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>

/* What a function does. */
typedef struct request {
    const char *op;
    br_fft_kind kind;
    bool forward;
    br_fft_norm norm;
    bool one;         /* a function of one dimension, whose size is `n` in messages, not `s` */
    int default_dims; /* without s and dims: 2, or 0 for all */
    int ns, ndims;
    const int64_t *s, *dims;
} request;

/* The dimensions that are transformed, and their sizes n. */
typedef struct plan {
    int count;
    int64_t dims[BR_MAX_DIMS], n[BR_MAX_DIMS];
} plan;

/* ---- Arguments ------------------------------------------------------------------------------- */

static bool read_dims(const request *r, const br_tensor *x, int ndim, plan *p)
{
    const int given = r->ndims > 0 ? r->ndims : r->ns > 0 ? r->ns : r->default_dims;
    p->count = given > 0 ? given : ndim;
    if (r->ndims < 0 || r->ns < 0 || (r->ndims > 0 && !r->dims) || (r->ns > 0 && !r->s))
        br_fail(BR_ERROR_ARGUMENT, r->op, "%d sizes at %s and %d dimensions at %s: must be lists",
                r->ns, r->s ? "s" : "NULL", r->ndims, r->dims ? "dims" : "NULL");
    else if (r->ndims > 0 && r->ns > 0 && r->ndims != r->ns)
        br_fail(BR_ERROR_ARGUMENT, r->op, "s has %d sizes and dims %d dimensions: must be equal",
                r->ns, r->ndims);
    else if (p->count > ndim)
        br_fail(BR_ERROR_SHAPE, r->op, "x %s has %d dimensions, must have at least %d",
                br__shape(x), ndim, p->count);
    else if (p->count == 0 && r->kind != BR_FFT_C2C)
        br_fail(BR_ERROR_SHAPE, r->op, "x %s must have a dimension to transform", br__shape(x));
    unsigned seen = 0;
    for (int i = 0; i < p->count && !br_failed(); i++) {
        p->dims[i] = r->ndims > 0 ? r->dims[i] : i - p->count;
        if (!br__wrap_fft_dim(r->op, r->one ? "dim" : "a dimension in dims", x,
                              r->kind != BR_FFT_R2C, &p->dims[i]))
            return false;
        if (seen >> p->dims[i] & 1)
            br_fail(BR_ERROR_ARGUMENT, r->op, "dims name dimension %" PRId64 " of x %s twice",
                    p->dims[i], br__shape(x));
        seen |= 1u << p->dims[i];
    }
    return !br_failed();
}

static bool read_sizes(const request *r, const br_tensor *x, plan *p)
{
    for (int i = 0; i < p->count; i++) {
        const int64_t size = x->sizes[p->dims[i]], given = r->ns > 0 ? r->s[i] : BR_NONE;
        const bool half = r->kind == BR_FFT_C2R && i == p->count - 1;
        const bool none = given == BR_NONE || (!r->one && given == -1);
        p->n[i] = !none ? given : half ? 2 * (size - 1) : size;
        if (p->n[i] < 1 || p->n[i] > INT_MAX) {
            char name[32];
            snprintf(name, sizeof name, r->one ? "n" : "s[%d]", i);
            if (none)
                br_fail(BR_ERROR_SHAPE, r->op,
                        "dimension %" PRId64 " of x %s is transformed with %" PRId64
                        " elements, must have 1 .. %d: set %s",
                        p->dims[i], br__shape(x), p->n[i], INT_MAX, name);
            else
                br_fail(BR_ERROR_ARGUMENT, r->op, "%s is %" PRId64 ", must be in 1 .. %d", name,
                        given, INT_MAX);
            return false;
        }
    }
    return true;
}

static bool read_request(const request *r, const br_tensor *x, plan *p)
{
    const bool real = r->kind == BR_FFT_R2C;
    if (!br__f32_or_f64(r->op, "x", x) || (!real && !br__is_complex(r->op, "x", x)))
        return false;
    if (r->norm < BR_FFT_BACKWARD || r->norm > BR_FFT_FORWARD) {
        br_fail(BR_ERROR_ARGUMENT, r->op, "norm is %d, must be a br_fft_norm", (int)r->norm);
        return false;
    }
    return read_dims(r, x, real ? x->ndim : x->ndim - 1, p) && read_sizes(r, x, p);
}

/* Returns by what results are multiplied. */
static double scale_of(const request *r, const plan *p)
{
    double n = 1;
    for (int i = 0; i < p->count; i++)
        n *= (double)p->n[i];
    if (r->norm == BR_FFT_ORTHO)
        return 1 / sqrt(n);
    return r->forward == (r->norm == BR_FFT_FORWARD) ? 1 / n : 1;
}

/* ---- Transforms ------------------------------------------------------------------------------ */

/* Crops a dimension of x, or pads it with zeros. */
static br_tensor *resized(br_tensor *x, int64_t dim, int64_t size)
{
    const int64_t before = br_failed() ? size : x->sizes[dim];
    if (before > size)
        return br_narrow(x, dim, 0, size);
    int64_t pad[2 * BR_MAX_DIMS] = { 0 };
    if (before == size)
        return x;
    const int behind = 2 * (x->ndim - 1 - (int)dim);
    pad[behind + 1] = size - before;
    return br_pad(x, behind + 2, pad, BR_PAD_CONSTANT, 0);
}

/* Transforms the i-th dimension of the plan. */
static br_tensor *transform_one(const request *r, const plan *p, int i, br_fft_kind kind,
                                double scale, br_tensor *x)
{
    const br_transform t = { kind, r->forward, (int)p->dims[i], p->n[i], scale, 1 };
    return br_failed() ? NULL : br__transform(r->op, x, &t);
}

/* The last dimension is transformed between real and complex numbers: before the other dimensions
 * if x is real, and after them if the result is real. */
static br_tensor *transform_all(const request *r, const plan *p, br_tensor *x)
{
    const int last = p->count - 1;
    const double scale = scale_of(r, p);
    for (int i = 0; i <= last; i++) {
        const bool half = r->kind == BR_FFT_C2R && i == last;
        x = resized(x, p->dims[i], half ? p->n[i] / 2 + 1 : p->n[i]);
    }
    if (r->kind == BR_FFT_R2C)
        x = transform_one(r, p, last, BR_FFT_R2C, last > 0 ? 1 : scale, x);
    for (int i = 0; i < last; i++)
        x = transform_one(r, p, i, BR_FFT_C2C, r->kind == BR_FFT_R2C && i == last - 1 ? scale : 1,
                          x);
    return r->kind == BR_FFT_R2C || last < 0 ? x : transform_one(r, p, last, r->kind, scale, x);
}

static br_tensor *transform(const request *r, br_tensor *x)
{
    BR_OP(r->op);
    BR_AUTOCAST(transform(r, RAISE(x)))
    plan p;
    if (!read_request(r, x, &p))
        return NULL;
    br_scope *scope = br_scope_begin();
    br_tensor *y = transform_all(r, &p, x);
    return br__composed(scope, y == x ? br_clone(x) : y);
}

#define ONE(name, kind, forward)                                                           \
    br_tensor *br_fft_##name(br_tensor *x, int64_t n, int64_t dim, br_fft_norm norm)       \
    {                                                                                      \
        const int ns = n != BR_NONE;                                                       \
        const request r = { "fft_" #name, kind, forward, norm, true, 1, ns, 1, &n, &dim }; \
        return transform(&r, x);                                                           \
    }
ONE(fft, BR_FFT_C2C, true)
ONE(ifft, BR_FFT_C2C, false)
ONE(rfft, BR_FFT_R2C, true)
ONE(irfft, BR_FFT_C2R, false)
ONE(hfft, BR_FFT_C2R, true)
ONE(ihfft, BR_FFT_R2C, false)

#define SEVERAL(name, kind, forward, default_dims)                              \
    br_tensor *br_fft_##name(br_tensor *x, int ns, const int64_t *s, int ndims, \
                             const int64_t *dims, br_fft_norm norm)             \
    {                                                                           \
        const request r = { "fft_" #name, kind, forward, norm, false,           \
                            default_dims, ns,   ndims,   s,    dims };          \
        return transform(&r, x);                                                \
    }
SEVERAL(fftn, BR_FFT_C2C, true, 0)
SEVERAL(ifftn, BR_FFT_C2C, false, 0)
SEVERAL(rfftn, BR_FFT_R2C, true, 0)
SEVERAL(irfftn, BR_FFT_C2R, false, 0)
SEVERAL(hfftn, BR_FFT_C2R, true, 0)
SEVERAL(ihfftn, BR_FFT_R2C, false, 0)
SEVERAL(fft2, BR_FFT_C2C, true, 2)
SEVERAL(ifft2, BR_FFT_C2C, false, 2)
SEVERAL(rfft2, BR_FFT_R2C, true, 2)
SEVERAL(irfft2, BR_FFT_C2R, false, 2)
SEVERAL(hfft2, BR_FFT_C2R, true, 2)
SEVERAL(ihfft2, BR_FFT_R2C, false, 2)
