/* ops/conv/interpolate.c - interpolation in all modes: one weighted sum of neighbours along each
 * dimension. */
#include "ops/conv/resample_internal.h"
#include "ops/pointwise/widen.h"
#include "tensor/min_max.h"

#include <inttypes.h>
#include <math.h>

BR_DEFINE_DEFAULTS(br_interpolate)

/* How one dimension is resized. */
typedef struct axis {
    int64_t n, outputs;
    double scale;        /* elements of x for each output */
    float nearest_scale; /* the same, as PyTorch rounds it for the nearest modes */
    bool align_corners;
} axis;

/* ---- Weights --------------------------------------------------------------------------------- */

static int64_t weigh_nearest(const void *context, int64_t o, int64_t *first, double *weights)
{
    const axis *a = context;
    *first = a->outputs == a->n       ? o
             : a->outputs == 2 * a->n ? o / 2
                                      : (int64_t)floorf((float)o * a->nearest_scale);
    weights[0] = 1;
    return 1;
}

static int64_t weigh_nearest_exact(const void *context, int64_t o, int64_t *first, double *weights)
{
    const axis *a = context;
    *first = (int64_t)floorf(((float)o + 0.5F) * a->nearest_scale);
    weights[0] = 1;
    return 1;
}

static double source_of(const axis *a, int64_t o)
{
    return a->align_corners ? a->scale * (double)o : a->scale * ((double)o + 0.5) - 0.5;
}

static int64_t weigh_linear(const void *context, int64_t o, int64_t *first, double *weights)
{
    const double source = fmax(source_of(context, o), 0), part = source - floor(source);
    *first = (int64_t)floor(source);
    weights[0] = 1 - part;
    weights[1] = part;
    return 2;
}

/* Cubic convolution (Keys, 1981) at a distance, with the slope a at distance 1. */
static double cubic(double distance, double a)
{
    const double x = fabs(distance);
    if (x >= 2)
        return 0;
    return x < 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
}

static int64_t weigh_cubic(const void *context, int64_t o, int64_t *first, double *weights)
{
    const double source = source_of(context, o), part = source - floor(source);
    *first = (int64_t)floor(source) - 1;
    for (int t = 0; t < 4; t++)
        weights[t] = cubic(part + 1 - t, -0.75);
    return 4;
}

/* With antialias, the filter is as wide as the elements of x that an output covers. */
static double support_of(const axis *a, double radius)
{
    return a->scale >= 1 ? radius * a->scale : radius;
}

static double tent(double distance)
{
    return fmax(0, 1 - fabs(distance));
}

static double wide_cubic(double distance)
{
    return cubic(distance, -0.5);
}

static int64_t weigh_filtered(const axis *a, int64_t o, double radius, double (*filter)(double),
                              int64_t *first, double *weights)
{
    const double support = support_of(a, radius), center = a->scale * ((double)o + 0.5);
    const double inverse = a->scale >= 1 ? 1 / a->scale : 1;
    *first = br__max((int64_t)(center - support + 0.5), 0);
    const int64_t count = br__min((int64_t)(center + support + 0.5), a->n) - *first;
    double total = 0;
    for (int64_t t = 0; t < count; t++)
        total += weights[t] = filter(((double)(t + *first) - center + 0.5) * inverse);
    for (int64_t t = 0; t < count && total != 0; t++)
        weights[t] /= total;
    return br__max(count, 0);
}

static int64_t weigh_linear_filtered(const void *context, int64_t o, int64_t *first,
                                     double *weights)
{
    return weigh_filtered(context, o, 1, tent, first, weights);
}

static int64_t weigh_cubic_filtered(const void *context, int64_t o, int64_t *first, double *weights)
{
    return weigh_filtered(context, o, 2, wide_cubic, first, weights);
}

/* ---- Modes ----------------------------------------------------------------------------------- */

static const struct mode {
    const char *name;
    int dims; /* 0: any number */
    bool aligns, antialiases;
    br_weigh *weigh, *filtered;
    int64_t taps;
} modes[] = {
    [BR_INTERPOLATE_NEAREST] = { "nearest", 0, false, false, weigh_nearest, NULL, 1 },
    [BR_INTERPOLATE_NEAREST_EXACT] = { "nearest-exact", 0, false, false, weigh_nearest_exact, NULL,
                                       1 },
    [BR_INTERPOLATE_LINEAR] = { "linear", 1, true, false, weigh_linear, NULL, 2 },
    [BR_INTERPOLATE_BILINEAR] = { "bilinear", 2, true, true, weigh_linear, weigh_linear_filtered,
                                  2 },
    [BR_INTERPOLATE_BICUBIC] = { "bicubic", 2, true, true, weigh_cubic, weigh_cubic_filtered, 4 },
    [BR_INTERPOLATE_TRILINEAR] = { "trilinear", 3, true, false, weigh_linear, NULL, 2 },
    [BR_INTERPOLATE_AREA] = { "area", 0, false, false, NULL, NULL, 0 },
};
enum { MODES = sizeof modes / sizeof *modes };

static br_taps taps_of(const char *op, const br_tensor *x, const axis *a,
                       const br_interpolate_options *o)
{
    const struct mode *m = &modes[o->mode];
    if (o->mode == BR_INTERPOLATE_AREA)
        return br__adaptive_taps(op, x, a->n, a->outputs);
    if (!o->antialias)
        return br__taps(op, x, a->n, a->outputs, m->taps, m->weigh, a);
    const int64_t most = 2 * (int64_t)ceil(support_of(a, (double)m->taps / 2)) + 2;
    return br__taps(op, x, a->n, a->outputs, most, m->filtered, a);
}

/* ---- Checks ---------------------------------------------------------------------------------- */

static bool check_mode(const char *op, const br_tensor *x, const br_interpolate_options *o)
{
    if ((int)o->mode < 0 || (int)o->mode >= MODES) {
        br_fail(BR_ERROR_ARGUMENT, op, "mode is %d, must be a br_interpolate_mode", (int)o->mode);
        return false;
    }
    const struct mode *m = &modes[o->mode];
    const int dims = x->ndim - 2;
    if (dims < 1 || dims > 3)
        br_fail(BR_ERROR_SHAPE, op, "x %s must have 3, 4 or 5 dimensions", br__shape(x));
    else if (m->dims > 0 && m->dims != dims)
        br_fail(BR_ERROR_SHAPE, op, "x %s must have %d dimensions for the mode %s", br__shape(x),
                m->dims + 2, m->name);
    else if (o->align_corners && !m->aligns)
        br_fail(BR_ERROR_ARGUMENT, op,
                "align_corners is true, but the mode %s does not support it: expected linear, "
                "bilinear, bicubic or trilinear",
                m->name);
    else if (o->antialias && !m->antialiases)
        br_fail(BR_ERROR_ARGUMENT, op,
                "antialias is true, but the mode %s does not support it: expected bilinear or "
                "bicubic",
                m->name);
    return !br_failed();
}

/* Computes the output's size along dimension i of those after the channels, and the scale. */
static bool set_axis(const char *op, const br_tensor *x, const br_interpolate_options *o, int i,
                     axis *a)
{
    const double factor = o->scale_factor[i];
    a->n = x->sizes[i + 2];
    a->align_corners = o->align_corners;
    if ((o->size[i] != 0) == (factor != 0)) {
        br_fail(BR_ERROR_ARGUMENT, op,
                "size is %" PRId64 " and scale_factor %g for dimension %d of x %s: must give one "
                "of them",
                o->size[i], factor, i + 2, br__shape(x));
        return false;
    }
    const double wanted = o->size[i] != 0 ? (double)o->size[i] : floor((double)a->n * factor);
    if (!(wanted >= 1 && wanted <= INT32_MAX) || a->n < 1) {
        br_fail(BR_ERROR_SHAPE, op,
                "dimension %d of x %s would become %g, both must be in 1 .. 2^31 - 1", i + 2,
                br__shape(x), wanted);
        return false;
    }
    a->outputs = (int64_t)wanted;
    const bool given = factor != 0 && !o->recompute_scale_factor;
    a->nearest_scale = given ? (float)(1 / factor) : (float)a->n / (float)a->outputs;
    if (o->align_corners)
        a->scale = a->outputs > 1 ? (double)(a->n - 1) / (double)(a->outputs - 1) : 0;
    else
        a->scale = given ? 1 / factor : (double)a->n / (double)a->outputs;
    return true;
}

br_tensor *br_interpolate(br_tensor *x, const br_interpolate_options *options)
{
    static const char op[] = "interpolate";
    const br_interpolate_options *o = BR_OPTIONS_OF(op, br_interpolate, options);
    BR_OP(op);
    if (!br__required(op, "x", x) || !check_mode(op, x, o))
        return NULL;
    const bool nearest = modes[o->mode].taps == 1;
    if (nearest ? !br__is_number(op, "x", x) : !br__floating(op, "x", x))
        return NULL;
    axis axes[3];
    for (int i = 0; i < x->ndim - 2; i++)
        if (!set_axis(op, x, o, i, &axes[i]))
            return NULL;
    br_scope *scope = br_scope_begin();
    const br_dtype dtype = x->dtype;
    br_tensor *y = x;
    BR_WIDEN(&y);
    if (y && !br_is_floating(y))
        y = br_to(y, BR_F64);
    /* A sum along the last dimension takes longer than a sum along another one. With more outputs
     * than elements, the last dimension comes first, because it has the fewest sums then. */
    const int dims = x->ndim - 2;
    const bool grows = axes[dims - 1].outputs > axes[dims - 1].n;
    for (int k = 0; y && k < dims; k++) {
        const int i = grows ? dims - 1 - k : k;
        if (axes[i].outputs != axes[i].n || !(nearest || axes[i].align_corners) ||
            axes[i].scale != 1)
            y = br__resample(y, i + 2, taps_of(op, y, &axes[i], o));
    }
    return br__composed(scope, y == x ? br_clone(x) : br_to(y, dtype));
}
