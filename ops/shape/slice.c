/* ops/shape/slice.c - slice, narrow and select, and overlapping slices (unfold). All are windows
 * (ops/shape/window_view.c). */
#include "ops/shape/view_internal.h"
#include "tensor/min_max.h"

#include <inttypes.h>

/* ---- slice, narrow and select ---------------------------------------------------------------- */

enum { DIM, START, LENGTH, STEP }; /* br_window.args of a slice */

static void narrow_slice(br_tensor *w, const int64_t *args)
{
    br__window_slice(w, (int)args[DIM], args[START], args[LENGTH], args[STEP]);
}

/* Resolves a bound of a slice: a negative one counts from the end; the result is clipped to the
 * dimension. */
static int64_t clip_bound(int64_t bound, int64_t size)
{
    if (bound < 0)
        bound += size;
    return bound < 0 ? 0 : br__min(bound, size);
}

static const br_window_kind slice_kind = { { "slice", br__window_backward, false }, narrow_slice };

br_tensor *br_slice(br_tensor *x, int64_t dim, int64_t start, int64_t end, int64_t step)
{
    BR_OP("slice");
    if (!br__wrap_dim_nonscalar("slice", x, &dim))
        return NULL;
    if (step < 1)
        return br_fail(BR_ERROR_ARGUMENT, "slice", "step is %" PRId64 ", must be at least 1", step);
    int64_t first = clip_bound(start, x->sizes[dim]), last = clip_bound(end, x->sizes[dim]);
    int64_t length = last > first ? (last - first - 1) / step + 1 : 0;
    return br__view_window(
        x, &(br_window){ .kind = &slice_kind, .args = { dim, first, length, step } });
}

static const br_window_kind narrow_kind = { { "narrow", br__window_backward, false },
                                            narrow_slice };

static br_tensor *narrowed(br_tensor *x, int64_t dim, int64_t start, int64_t length)
{
    return br__view_window(x,
                           &(br_window){ .kind = &narrow_kind, .args = { dim, start, length, 1 } });
}

br_tensor *br_narrow(br_tensor *x, int64_t dim, int64_t start, int64_t length)
{
    BR_OP("narrow");
    if (!br__wrap_dim_nonscalar("narrow", x, &dim))
        return NULL;
    int64_t size = x->sizes[dim], first = start < 0 ? start + size : start;
    if (first < 0 || first > size || length < 0 || length > size - first)
        return br_fail(BR_ERROR_INDEX, "narrow",
                       "start %" PRId64 " and length %" PRId64 " exceed dimension %" PRId64
                       " of x %s",
                       start, length, dim, br__shape(x));
    return narrowed(x, dim, first, length);
}

static void narrow_select(br_tensor *w, const int64_t *args)
{
    br__window_slice(w, (int)args[DIM], args[START], 1, 1);
    br__window_drop(w, (int)args[DIM]);
}

static const br_window_kind select_kind = { { "select", br__window_backward, false },
                                            narrow_select };

br_tensor *br_select(br_tensor *x, int64_t dim, int64_t index)
{
    BR_OP("select");
    if (!br__wrap_dim_nonscalar("select", x, &dim))
        return NULL;
    int64_t size = x->sizes[dim];
    if (index < -size || index >= size)
        return br_fail(BR_ERROR_INDEX, "select",
                       "index %" PRId64 " is out of range for dimension %" PRId64 " of x %s", index,
                       dim, br__shape(x));
    return br__view_window(
        x, &(br_window){ .kind = &select_kind, .args = { dim, index < 0 ? index + size : index } });
}

/* ---- unfold ---------------------------------------------------------------------------------- */

enum { SIZE = START, EVERY = LENGTH }; /* the length of a slice, and the step between slices */

/* The dimension indexes the slices; a new last dimension indexes the elements of a slice. */
static void narrow_unfold(br_tensor *w, const int64_t *args)
{
    int64_t dim = args[DIM], size = args[SIZE], stride = w->ndim > 0 ? w->strides[dim] : 1;
    if (w->ndim > 0) {
        int64_t parts = (w->sizes[dim] - size) / args[EVERY] + 1;
        br__window_slice(w, (int)dim, 0, parts, args[EVERY]);
    }
    w->sizes[w->ndim] = size;
    w->strides[w->ndim++] = stride;
    w->numel *= size;
}

static const br_window_kind unfold_kind = { { "unfold", br__window_backward, false },
                                            narrow_unfold };

br_tensor *br__fold(br_tensor *y, int64_t dim, int64_t length, int64_t size, int64_t step)
{
    int64_t sizes[BR_MAX_DIMS];
    for (int i = 0; i < br_ndim(y) - 1; i++)
        sizes[i] = i == dim ? length : y->sizes[i];
    const br_window window = { .kind = &unfold_kind,
                               .args = { dim, size, step },
                               .distinct = size > step ? step : 0 };
    return y ? br__fill_window(y, y->ndim - 1, sizes, &window) : NULL;
}

br_tensor *br_unfold(br_tensor *x, int64_t dim, int64_t size, int64_t step)
{
    BR_OP("unfold");
    if (!br__required("unfold", "x", x) || !br__wrap_dim("unfold", "dim", x, &dim))
        return NULL;
    int64_t length = x->ndim == 0 ? 1 : x->sizes[dim];
    if (x->ndim == BR_MAX_DIMS)
        return br_fail(BR_ERROR_SHAPE, "unfold",
                       "x %s already has the maximum number of dimensions", br__shape(x));
    if (size < 0 || size > length || step < 1)
        return br_fail(BR_ERROR_ARGUMENT, "unfold",
                       "size %" PRId64 " and step %" PRId64
                       " for x %s: size must be in 0 .. %" PRId64 ", the size of dimension %" PRId64
                       ", and step must be at least 1",
                       size, step, br__shape(x), length, dim);
    return br__view_window(x, &(br_window){ .kind = &unfold_kind,
                                            .args = { dim, size, step },
                                            .distinct = size > step ? step : 0 });
}
