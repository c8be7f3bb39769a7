/* backends/cpu/norm/channel_norm.c - batch, group and instance norm.
 *
 * One pass over x computes each channel's moments, which are combined in double precision; a second
 * pass computes y. The gradient is computed likewise: sums of dy and dy (x - mean) for each
 * channel, then dx. */
#include "backends/cpu/kernels.h"
#include "backends/cpu/norm/norm_internal.h"
#include "tensor/min_max.h"

#include <math.h>

/* How x is partitioned. The items of the batch are processed `per_piece` at a time, and each piece
 * has its own sums. The channels are processed `chunk` at a time. */
typedef struct plan {
    int64_t batch, channels, inner, group;
    bool across, computed;
    double eps;
    int64_t pieces, per_piece, chunks, chunk;
} plan;

static int64_t sets_of(const plan *p)
{
    return p->across ? 1 : p->batch;
}

static plan plan_of(const br_channel_norm_work *w)
{
    enum { MAX_PIECES = 64 };
    const br_tensor *x = w->x;
    plan all = { .group = w->group, .across = w->across, .computed = w->computed, .eps = w->eps };
    plan *p = &all;
    p->batch = x->sizes[0];
    p->channels = x->sizes[1];
    int64_t item = p->batch > 0 ? x->numel / p->batch : 0;
    p->inner = p->channels > 0 ? item / p->channels : 0;
    p->per_piece = 1;
    if (p->across) {
        int64_t worth = BR_GRAIN / (item + 1) + 1,
                least_per_piece = (p->batch - 1) / MAX_PIECES + 1;
        p->per_piece = br__max(worth, least_per_piece);
    }
    p->pieces = (p->batch + p->per_piece - 1) / p->per_piece;
    p->chunk = BR_GRAIN / (p->inner * p->per_piece + 1) + 1;
    if (p->chunk > p->channels)
        p->chunk = p->channels;
    p->chunks = p->chunk > 0 ? (p->channels + p->chunk - 1) / p->chunk : 0;
    return all;
}

/* ---- Passes over x --------------------------------------------------------------------------- */

typedef struct pass {
    const plan *p;
    void (*kernel)(const br_channel_work *work);
    br_channel_work all; /* pointers to the first item and channel */
    int64_t size;
} pass;

static void run_task(void *context, int64_t i)
{
    const pass *a = context;
    const plan *p = a->p;
    int64_t piece = i / p->chunks, channel = i % p->chunks * p->chunk;
    int64_t first = piece * p->per_piece, last = first + p->per_piece;
    br_channel_work w = a->all;
    w.inner = p->inner;
    w.channels = br__min(p->channels - channel, p->chunk);
    w.first =
        br__offset_pointer(w.first, (piece * p->channels + channel) * (int64_t)sizeof(double));
    w.second =
        br__offset_pointer(w.second, (piece * p->channels + channel) * (int64_t)sizeof(double));
    for (int64_t n = first; n < last && n < p->batch; n++) {
        int64_t at = (n * p->channels + channel) * p->inner * a->size;
        int64_t of_set = ((p->across ? 0 : n * p->channels) + channel) * a->size;
        br_channel_work item = w;
        item.count = (n - first) * p->inner;
        item.x = br__offset_pointer(a->all.x, at);
        item.dy = br__offset_pointer(a->all.dy, at);
        item.out = br__offset_pointer(a->all.out, at);
        item.mean = br__offset_pointer(a->all.mean, of_set);
        item.scale = br__offset_pointer(a->all.scale, of_set);
        item.slope = br__offset_pointer(a->all.slope, of_set);
        item.shift = br__offset_pointer(a->all.shift, of_set);
        a->kernel(&item);
    }
}

static void run_pass(const plan *p, br_dtype dtype, void (*kernel)(const br_channel_work *),
                     const br_channel_work *all)
{
    pass a = { p, kernel, *all, (int64_t)br__dtype_size(dtype) };
    br__parallel(p->pieces * p->chunks, run_task, &a);
}

/* ---- Coefficients of a channel --------------------------------------------------------------- */

static double get(const br_tensor *t, int64_t i)
{
    return br__get(t->dtype, br__element(t, i));
}

static void set(const br_tensor *t, int64_t i, double value)
{
    br__put(t->dtype, br__element(t, i), value);
}

static double *doubles(const br_tensor *t)
{
    return (double *)(void *)t->data;
}

/* Allocates one coefficient of x's dtype for each channel of each set. */
static br_tensor *new_coefficients(const char *op, const plan *p, br_dtype dtype)
{
    return br__new_on_host(op, BR_SHAPE(sets_of(p), p->channels), dtype);
}

/* Returns f64 zeros for the sums of each channel of each piece; at least one row. */
static br_tensor *new_sums(const char *op, const plan *p)
{
    return br__zeros_on_host(op, BR_SHAPE(p->pieces > 0 ? p->pieces : 1, p->channels), BR_F64);
}

/* ---- Statistics ------------------------------------------------------------------------------ */

typedef struct moments {
    double count, mean, squares; /* squares: the sum of (x - mean)^2 */
} moments;

static void join(moments *m, double count, double mean, double squares)
{
    double delta = mean - m->mean, all = m->count + count;
    m->squares += squares + delta * delta * (m->count * count / all);
    m->mean += delta * (count / all);
    m->count = all;
}

/* Returns the moments of a set's channels first .. first + group - 1, over the set's pieces. */
static moments of_group(const plan *p, int64_t set_index, int64_t first, const double *means,
                        const double *squares)
{
    moments m = { 0 };
    int64_t piece = p->across ? 0 : set_index, end = p->across ? p->pieces : set_index + 1;
    for (; piece < end; piece++) {
        int64_t rest = p->batch - piece * p->per_piece;
        double count = (double)(br__min(rest, p->per_piece) * p->inner);
        for (int64_t c = first; c < first + p->group; c++)
            join(&m, count, means[piece * p->channels + c], squares[piece * p->channels + c]);
    }
    return m;
}

/* Moves a running statistic towards a new value. */
static void move(const br_tensor *running, int64_t c, double value, double momentum)
{
    if (!running)
        return;
    int64_t i = c * running->strides[0];
    set(running, i, (1 - momentum) * get(running, i) + momentum * value);
}

/* Updates the running statistics with those of the sets, averaged over the sets. */
static void follow(const plan *p, const double *means, const double *squares,
                   const br_channel_norm_work *w)
{
    int64_t sets = sets_of(p);
    for (int64_t c = 0; (w->running_mean || w->running_var) && c < p->channels; c++) {
        double mean = 0, variance = 0;
        for (int64_t s = 0; s < sets; s++) {
            moments m = of_group(p, s, c, means, squares);
            mean += m.mean;
            variance += m.squares / (m.count - 1);
        }
        move(w->running_mean, c, mean / (double)sets, w->momentum);
        move(w->running_var, c, variance / (double)sets, w->momentum);
    }
}

/* Computes mean and rstd from x, and updates the running statistics, which group norm does not
 * have. */
static bool compute_statistics(const char *op, const plan *p, const br_channel_norm_work *w)
{
    br_tensor *means = new_sums(op, p), *squares = new_sums(op, p);
    if (br__failed())
        return false;
    run_pass(
        p, w->x->dtype, br__kernels_of(w->x->dtype)->channel_moments,
        &(br_channel_work){ .x = w->x->data, .first = doubles(means), .second = doubles(squares) });
    for (int64_t s = 0; s < sets_of(p); s++)
        for (int64_t c = 0; c < p->channels; c++) {
            int64_t first = c / p->group * p->group, at = s * p->channels + c;
            if (c > first) { /* same group as the previous channel */
                set(w->mean, at, get(w->mean, at - 1));
                set(w->rstd, at, get(w->rstd, at - 1));
                continue;
            }
            moments m = of_group(p, s, first, doubles(means), doubles(squares));
            set(w->mean, at, m.mean);
            set(w->rstd, at, 1 / sqrt(m.squares / m.count + p->eps));
        }
    follow(p, doubles(means), doubles(squares), w);
    return true;
}

static bool use_statistics(const plan *p, const br_channel_norm_work *w)
{
    const br_tensor *mean = w->running_mean, *variance = w->running_var;
    for (int64_t c = 0; c < p->channels; c++) {
        set(w->mean, c, get(mean, c * mean->strides[0]));
        set(w->rstd, c, 1 / sqrt(get(variance, c * variance->strides[0]) + p->eps));
    }
    return true;
}

/* ---- The norm -------------------------------------------------------------------------------- */

static bool normalise(const char *op, const plan *p, const br_channel_norm_work *w)
{
    const br_tensor *scale = new_coefficients(op, p, w->x->dtype);
    const br_tensor *shift = new_coefficients(op, p, w->x->dtype);
    if (br__failed())
        return false;
    for (int64_t at = 0; at < w->rstd->numel; at++) {
        int64_t c = at % p->channels;
        set(scale, at, get(w->rstd, at) * (w->weight ? get(w->weight, c) : 1));
        set(shift, at, w->bias ? get(w->bias, c) : 0);
    }
    run_pass(p, w->x->dtype, br__kernels_of(w->x->dtype)->channel_norm,
             &(br_channel_work){ .x = w->x->data,
                                 .out = w->y->data,
                                 .mean = w->mean->data,
                                 .scale = scale->data,
                                 .shift = shift->data });
    return true;
}

bool br__cpu_channel_norm(const char *op, const br_channel_norm_work *w)
{
    const plan p = plan_of(w);
    br_scope *scope = br_scope_begin();
    bool ok = scope && (p.computed ? compute_statistics(op, &p, w) : use_statistics(&p, w)) &&
              normalise(op, &p, w);
    br_scope_end(scope);
    return ok;
}

/* ---- The gradient ---------------------------------------------------------------------------- */

/* If statistics cover the whole batch, adds the sums of all pieces to those of the first one. */
static void fold_pieces(const plan *p, double *sums)
{
    for (int64_t piece = 1; p->across && piece < p->pieces; piece++)
        for (int64_t c = 0; c < p->channels; c++)
            sums[c] += sums[piece * p->channels + c];
}

/* Computes the coefficients of dx = dy scale + (x - mean) slope + shift. With g = dy weight, and
 * sums over the set's n elements: scale = rstd weight, slope = -rstd^3 / n sum of g (x - mean),
 * shift = -rstd / n sum of g. */
static void set_coefficients(const plan *p, const double *sums, const double *products,
                             const br_tensor *weight, const br_tensor *rstd, const br_tensor *scale,
                             const br_tensor *slope, const br_tensor *shift)
{
    double n = (double)(p->group * p->inner * (p->across ? p->batch : 1));
    for (int64_t s = 0; s < sets_of(p); s++)
        for (int64_t first = 0; first < p->channels; first += p->group) {
            int64_t at = s * p->channels + first;
            double r = get(rstd, at), sum = 0, product = 0;
            for (int64_t k = 0; k < p->group; k++) {
                double w = weight ? get(weight, first + k) : 1;
                sum += w * sums[at + k];
                product += w * products[at + k];
            }
            for (int64_t k = 0; k < p->group; k++) {
                set(scale, at + k, r * (weight ? get(weight, first + k) : 1));
                set(slope, at + k, p->computed ? -r * r * r * product / n : 0);
                set(shift, at + k, p->computed ? -r * sum / n : 0);
            }
        }
}

/* Computes for each channel dweight = sum of dy (x - mean) rstd and dbias = sum of dy. */
static void set_affine_gradients(const plan *p, const double *sums, const double *products,
                                 const br_tensor *rstd, const br_tensor *dweight,
                                 const br_tensor *dbias)
{
    for (int64_t c = 0; c < p->channels; c++) {
        double weight = 0, bias = 0;
        for (int64_t s = 0; s < sets_of(p); s++) {
            int64_t at = s * p->channels + c;
            weight += products[at] * get(rstd, at);
            bias += sums[at];
        }
        if (dweight)
            set(dweight, c, weight);
        if (dbias)
            set(dbias, c, bias);
    }
}

bool br__cpu_channel_norm_fits(const br_tensor *rstd)
{
    const double least = ldexp(1, br__dtypes[rstd->dtype].min_exponent / 4 + 1);
    for (int64_t i = 0; i < rstd->numel; i++)
        if (get(rstd, i) < least)
            return false;
    return true;
}

static bool input_gradient(const char *op, const plan *p, const br_channel_norm_work *w,
                           br_channel_work *work)
{
    const br_kernels *kernels = br__kernels_of(w->x->dtype);
    const br_tensor *scale = new_coefficients(op, p, w->x->dtype);
    const br_tensor *slope = new_coefficients(op, p, w->x->dtype);
    const br_tensor *shift = new_coefficients(op, p, w->x->dtype);
    if (br__failed())
        return false;
    set_coefficients(p, work->first, work->second, w->weight, w->rstd, scale, slope, shift);
    work->out = w->dx->data;
    work->scale = scale->data, work->slope = slope->data, work->shift = shift->data;
    if (p->computed) {
        run_pass(p, w->x->dtype, kernels->channel_norm_grad, work);
    } else { /* dx = dy scale: slope and shift are 0, and 0 times an infinite x would be NaN */
        work->x = w->dy->data, work->mean = shift->data;
        run_pass(p, w->x->dtype, kernels->channel_norm, work);
    }
    return true;
}

bool br__cpu_channel_norm_grad(const char *op, const br_channel_norm_work *w)
{
    const plan p = plan_of(w);
    br_scope *scope = br_scope_begin();
    br_tensor *sums = new_sums(op, &p), *products = new_sums(op, &p);
    bool ok = !br__failed();
    if (ok) {
        br_channel_work work = { .x = w->x->data, .dy = w->dy->data, .mean = w->mean->data };
        work.first = doubles(sums);
        work.second = doubles(products);
        run_pass(&p, w->x->dtype, br__kernels_of(w->x->dtype)->channel_products, &work);
        fold_pieces(&p, work.first);
        fold_pieces(&p, work.second);
        set_affine_gradients(&p, work.first, work.second, w->rstd, w->dweight, w->dbias);
        ok = !w->dx || input_gradient(op, &p, w, &work);
    }
    br_scope_end(scope);
    return ok;
}
