/* ops/fft/transform.c - the Fourier transform of one dimension, with its gradient, which is a
 * transform as well. */
#include "ops/fft/fft_internal.h"
#include "ops/shape/view_internal.h"

#include <inttypes.h>

/* ---- Checks ---------------------------------------------------------------------------------- */

bool br__has_parts(const char *op, const char *name, const br_tensor *t)
{
    if (!br__required(op, name, t))
        return false;
    if (t->ndim == 0 || t->sizes[t->ndim - 1] != 2)
        br_fail(BR_ERROR_SHAPE, op,
                "%s %s must be complex, with a last dimension of size 2: br_complex() makes a "
                "complex tensor of a real one",
                name, br__shape(t));
    return !br_failed();
}

bool br__is_complex(const char *op, const char *name, const br_tensor *t)
{
    return br__floating(op, name, t) && br__has_parts(op, name, t);
}

bool br__wrap_fft_dim(const char *op, const char *name, const br_tensor *x, bool is_complex,
                      int64_t *dim)
{
    const int ndim = is_complex ? x->ndim - 1 : x->ndim;
    if (*dim < -ndim || *dim >= ndim)
        return br_fail(BR_ERROR_INDEX, op, "%s is %" PRId64 ", must be in %d .. %d for x %s%s",
                       name, *dim, -ndim, ndim - 1, br__shape(x),
                       is_complex ? ", whose last dimension is not counted" : "");
    *dim += *dim < 0 ? ndim : 0;
    return true;
}

/* ---- The operation --------------------------------------------------------------------------- */

/* The adjoint of a sum with exp(i a) is the sum with exp(-i a) over the other index. An inner
 * element of a half stands for two elements of the spectrum: C2R counts it twice, R2C once. */
static void transform_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    br_transform t = *(const br_transform *)br_params(node);
    t.forward = !t.forward;
    if (t.kind == BR_FFT_R2C) {
        t.kind = BR_FFT_C2R;
        t.inner /= 2;
    } else if (t.kind == BR_FFT_C2R) {
        t.kind = BR_FFT_R2C;
        t.inner *= 2;
    }
    dx[0] = br__transform("fft", dy, &t);
}

static const br_op ops[] = {
    [BR_FFT_C2C] = { "fft_c2c", transform_backward, false },
    [BR_FFT_R2C] = { "fft_r2c", transform_backward, false },
    [BR_FFT_C2R] = { "fft_c2r", transform_backward, false },
};

/* Returns the result, without elements, and describes the work. */
static br_tensor *begin(const char *op, const br_tensor *x, const br_transform *t,
                        br_fft_work *work)
{
    int64_t sizes[BR_MAX_DIMS + 1] = { 0 };
    const int ndim = t->kind == BR_FFT_R2C ? x->ndim : x->ndim - 1;
    for (int d = 0; d < ndim; d++)
        sizes[d] = x->sizes[d];
    sizes[t->dim] = t->kind == BR_FFT_R2C ? t->n / 2 + 1 : t->n;
    sizes[ndim] = 2;
    if (t->kind == BR_FFT_R2C && ndim == BR_MAX_DIMS)
        return br_fail(BR_ERROR_SHAPE, op, "x %s must have at most %d dimensions", br__shape(x),
                       BR_MAX_DIMS - 1);
    *work = (br_fft_work){ t->kind, t->forward, t->scale, t->inner, t->n, 1, 1, NULL, x };
    for (int d = 0; d < ndim; d++)
        if (d != t->dim)
            *(d < t->dim ? &work->outer : &work->inner_size) *= sizes[d];
    br_tensor *y = br__new_on(op, x, t->kind == BR_FFT_C2R ? ndim : ndim + 1, sizes, x->dtype);
    work->y = y;
    return y;
}

static br_tensor *computed(const char *op, br_tensor *x, const br_transform *t)
{
    br_fft_work work;
    const br_backend *backend = x ? BR_BACKEND(op, x, fft) : NULL;
    br_tensor *y = backend ? begin(op, x, t, &work) : NULL;
    if (!y || y->numel == 0)
        return y;
    BR_TRAFFIC(x, y);
    return backend->fft(op, &work) ? y : NULL;
}

br_tensor *br__transform(const char *op, br_tensor *x, const br_transform *t)
{
    br_scope *scope = br_no_grad_begin();
    br_tensor *y = br_scope_return(scope, computed(op, br_contiguous(x), t));
    br_scope_end(scope);
    return br__recorded(&ops[t->kind], y, x, t, sizeof *t);
}
