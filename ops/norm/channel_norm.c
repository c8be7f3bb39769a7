/* ops/norm/channel_norm.c - batch, group and instance norm.
 *
 * x is viewed as [batch, channels, inner]. One set of statistics covers `group` adjacent channels,
 * of one item of the batch or, in batch norm, of all items. One pass over x computes each channel's
 * moments, which are combined in double precision; a second pass computes y. The gradient is
 * computed likewise: sums of dy and dy (x - mean) for each channel, then dx. The operation saves x,
 * weight, mean and rstd = 1 / sqrt(variance + eps). mean and rstd have one element for each
 * channel, as the kernels read them. */
#include "autograd/in_place.h"
#include "ops/composed_internal.h"
#include "ops/scaling.h"

#include <inttypes.h>
#include <math.h>

enum { X, WEIGHT, BIAS }; /* inputs; the first two are saved under the same numbers */
enum { SAVED_MEAN = 2, SAVED_RSTD = 3 };

/* How x is partitioned. The items of the batch are processed `per_piece` at a time, and each piece
 * has its own sums. The channels are processed `chunk` at a time. */
typedef struct plan {
    int64_t batch, channels, inner, group;
    bool across;   /* statistics cover the whole batch */
    bool computed; /* statistics come from x; else they are given, and the gradient treats them as
                      constants */
    double eps;
    int64_t pieces, per_piece, chunks, chunk;
} plan;
_Static_assert(sizeof(plan) <= BR_COMPOSED_PARAMS, "composed_internal.h");

static int64_t sets_of(const plan *p)
{
    return p->across ? 1 : p->batch;
}

static void cut(plan *p, const br_tensor *x)
{
    enum { MAX_PIECES = 64 };
    p->batch = x->sizes[0];
    p->channels = x->sizes[1];
    int64_t item = p->batch > 0 ? x->numel / p->batch : 0;
    p->inner = p->channels > 0 ? item / p->channels : 0;
    p->per_piece = 1;
    if (p->across) {
        int64_t worth = BR_GRAIN / (item + 1) + 1,
                least_per_piece = (p->batch - 1) / MAX_PIECES + 1;
        p->per_piece = worth > least_per_piece ? worth : least_per_piece;
    }
    p->pieces = (p->batch + p->per_piece - 1) / p->per_piece;
    p->chunk = BR_GRAIN / (p->inner * p->per_piece + 1) + 1;
    if (p->chunk > p->channels)
        p->chunk = p->channels;
    p->chunks = p->chunk > 0 ? (p->channels + p->chunk - 1) / p->chunk : 0;
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
    w.channels = p->channels - channel < p->chunk ? p->channels - channel : p->chunk;
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
    pass a = { p, kernel, *all, (int64_t)br_dtype_size(dtype) };
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
    return br__new(op, BR_SHAPE(sets_of(p), p->channels), dtype);
}

/* Returns f64 zeros for the sums of each channel of each piece; at least one row. */
static br_tensor *new_sums(const plan *p)
{
    return br_zeros(BR_SHAPE(p->pieces > 0 ? p->pieces : 1, p->channels), BR_F64);
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
        double count = (double)((rest < p->per_piece ? rest : p->per_piece) * p->inner);
        for (int64_t c = first; c < first + p->group; c++)
            join(&m, count, means[piece * p->channels + c], squares[piece * p->channels + c]);
    }
    return m;
}

/* Moves a running statistic towards a new value. */
static void move(br_tensor *running, int64_t c, double value, double momentum)
{
    if (!running)
        return;
    int64_t i = c * running->strides[0];
    set(running, i, (1 - momentum) * get(running, i) + momentum * value);
}

/* Updates the running statistics with those of the sets, averaged over the sets. */
static void follow(const plan *p, const double *means, const double *squares,
                   br_tensor *const *running, double momentum)
{
    int64_t sets = sets_of(p);
    for (int64_t c = 0; (running[0] || running[1]) && c < p->channels; c++) {
        double mean = 0, variance = 0;
        for (int64_t s = 0; s < sets; s++) {
            moments m = of_group(p, s, c, means, squares);
            mean += m.mean;
            variance += m.squares / (m.count - 1);
        }
        move(running[0], c, mean / (double)sets, momentum);
        move(running[1], c, variance / (double)sets, momentum);
    }
}

static const char *const running_names[] = { "running_mean", "running_var" };

/* Computes mean and rstd from x, and updates the running statistics, which group norm does not
 * have. */
static void compute_statistics(const char *op, const plan *p, const br_tensor *x,
                               const br_tensor *mean, const br_tensor *rstd,
                               br_tensor *const *running, double momentum)
{
    br_scope *scope = br_scope_begin();
    br_tensor *means = new_sums(p), *squares = new_sums(p);
    bool ok = !br_failed();
    for (int k = 0; k < 2; k++) /* first both checks: a refused tensor leaves the other as it is */
        ok = ok && (!running[k] ||
                    br__can_change(op, running_names[k], running[k], BR_INPUTS(running[k])));
    for (int k = 0; k < 2; k++)
        ok = ok && (!running[k] ||
                    br__before_change(op, running_names[k], running[k], BR_INPUTS(running[k])));
    if (ok) {
        run_pass(p, x->dtype, br__kernels_of(x->dtype)->channel_moments,
                 &(br_channel_work){
                     .x = x->data, .first = doubles(means), .second = doubles(squares) });
        BR_TRAFFIC(x);
    }
    for (int64_t s = 0; ok && s < sets_of(p); s++)
        for (int64_t c = 0; c < p->channels; c++) {
            int64_t first = c / p->group * p->group, at = s * p->channels + c;
            if (c > first) { /* same group as the previous channel */
                set(mean, at, get(mean, at - 1));
                set(rstd, at, get(rstd, at - 1));
                continue;
            }
            moments m = of_group(p, s, first, doubles(means), doubles(squares));
            set(mean, at, m.mean);
            set(rstd, at, 1 / sqrt(m.squares / m.count + p->eps));
        }
    if (ok)
        follow(p, doubles(means), doubles(squares), running, momentum);
    br_scope_end(scope);
}

static void use_statistics(const plan *p, const br_tensor *mean, const br_tensor *rstd,
                           br_tensor *const *running)
{
    for (int64_t c = 0; c < p->channels; c++) {
        set(mean, c, get(running[0], c * running[0]->strides[0]));
        set(rstd, c, 1 / sqrt(get(running[1], c * running[1]->strides[0]) + p->eps));
    }
}

/* ---- Gradient -------------------------------------------------------------------------------- */

/* Computes the norm of x and weight by plain operations; the bias does not affect their gradients.
 * Statistics that were given are inputs 2 and 3. */
static void compose(br_tensor *const *inputs, const void *params, br_tensor **outputs)
{
    const plan *p = params;
    br_tensor *x = inputs[X], *weight = inputs[WEIGHT];
    int64_t groups = p->channels / p->group;
    br_tensor *seen = br_reshape(x, BR_SHAPE(p->batch, groups, p->group, p->inner));
    br_tensor *y;
    if (p->computed) {
        int64_t dims[] = { 2, 3, 0 };
        int n = p->across ? 3 : 2;
        br_tensor *scale = br__scale_of_large("norm_backward", seen, p->across ? 0xd : 0xc);
        if (scale)
            seen = br_div(seen, scale);
        br_tensor *centred = br_sub(seen, br_mean_dim(seen, n, dims, true));
        br_tensor *variance = br_mean_dim(br_mul(centred, centred), n, dims, true);
        y = br_mul(centred, br_rsqrt(br__add_scaled_eps(variance, p->eps, scale)));
    } else {
        const int64_t sizes[] = { groups, 1, 1 };
        y = br_mul(br_sub(seen, br_reshape(inputs[SAVED_MEAN], 3, sizes)),
                   br_reshape(inputs[SAVED_RSTD], 3, sizes));
    }
    if (weight)
        y = br_mul(y, br_reshape(weight, BR_SHAPE(groups, p->group, 1)));
    outputs[0] = br_reshape(y, br_ndim(x), br_sizes(x));
}

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

static void fused_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    const plan *p = br_params(node);
    br_tensor *x = br_contiguous(br_saved(node, X)), *weight = br_saved(node, WEIGHT);
    br_tensor *mean = br_saved(node, SAVED_MEAN), *rstd = br_saved(node, SAVED_RSTD);
    const char *op = "norm_backward";
    dy = br_contiguous(dy);
    weight = weight ? br_contiguous(weight) : NULL;
    br_tensor *sums = new_sums(p), *products = new_sums(p);
    if (br_failed())
        return;
    const br_kernels *kernels = br__kernels_of(x->dtype);
    br_channel_work work = { .x = x->data, .dy = dy->data, .mean = mean->data };
    work.first = doubles(sums);
    work.second = doubles(products);
    BR_TRAFFIC(x, dy, mean);
    run_pass(p, x->dtype, kernels->channel_products, &work);
    fold_pieces(p, work.first);
    fold_pieces(p, work.second);
    dx[WEIGHT] =
        br_needs_input_grad(node, WEIGHT) ? br__new(op, BR_SHAPE(p->channels), x->dtype) : NULL;
    dx[BIAS] =
        br_needs_input_grad(node, BIAS) ? br__new(op, BR_SHAPE(p->channels), x->dtype) : NULL;
    if (!br_failed())
        set_affine_gradients(p, work.first, work.second, rstd, dx[WEIGHT], dx[BIAS]);
    if (!br_needs_input_grad(node, X))
        return;
    br_tensor *out = br_empty_like(x), *scale = new_coefficients(op, p, x->dtype);
    br_tensor *slope = new_coefficients(op, p, x->dtype),
              *shift = new_coefficients(op, p, x->dtype);
    if (br_failed())
        return;
    set_coefficients(p, work.first, work.second, weight, rstd, scale, slope, shift);
    work.out = out->data;
    work.scale = scale->data, work.slope = slope->data, work.shift = shift->data;
    if (p->computed) {
        BR_TRAFFIC(out, x, dy, scale, slope, shift);
        run_pass(p, x->dtype, kernels->channel_norm_grad, &work);
    } else { /* dx = dy scale: slope and shift are 0, and 0 times an infinite x would be NaN */
        BR_TRAFFIC(out, dy, scale, shift);
        work.x = dy->data, work.mean = shift->data;
        run_pass(p, x->dtype, kernels->channel_norm, &work);
    }
    dx[X] = out;
}

/* Returns true if the fused gradient can represent its coefficients, such as rstd^3 times a sum. */
static bool coefficients_fit(const br_tensor *rstd)
{
    const double least = rstd ? ldexp(1, br__dtypes[rstd->dtype].min_exponent / 4 + 1) : 0;
    for (int64_t i = 0; rstd && i < rstd->numel; i++)
        if (get(rstd, i) < least)
            return false;
    return true;
}

static void norm_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    const plan *p = br_params(node);
    if (!br_grad_enabled() && coefficients_fit(br_saved(node, SAVED_RSTD))) {
        fused_backward(node, dy, dx);
        return;
    }
    br_tensor *given[] = { br_saved(node, X), br_saved(node, WEIGHT), br_saved(node, SAVED_MEAN),
                           br_saved(node, SAVED_RSTD) };
    br__composed_backward(node, compose, p->computed ? 2 : 4, given, 1, &dy, p, sizeof *p, dx);
    int64_t dims[BR_MAX_DIMS] = { 0 };
    for (int d = 1; d + 1 < dy->ndim; d++)
        dims[d] = d + 1;
    if (br_needs_input_grad(node, BIAS))
        dx[BIAS] = br_sum_dim(dy, dy->ndim - 1, dims, false);
}

/* ---- Forward --------------------------------------------------------------------------------- */

static bool check_channels(const char *op, const char *name, const br_tensor *x, const br_tensor *t)
{
    if (!t)
        return !br_failed();
    if (!br__same_dtype(op, "x", x, name, t))
        return false;
    if (t->ndim == 1 && t->sizes[0] == x->sizes[1])
        return true;
    br_fail(BR_ERROR_SHAPE, op,
            "%s %s must have shape [%" PRId64 "], the number of channels of x %s", name,
            br__shape(t), x->sizes[1], br__shape(x));
    return false;
}

static bool check(const char *op, const br_tensor *x, const br_tensor *weight,
                  const br_tensor *bias)
{
    if (!br__floating(op, "x", x))
        return false;
    if (x->ndim < 2) {
        br_fail(BR_ERROR_SHAPE, op, "x %s must have at least 2 dimensions: batch, channels",
                br__shape(x));
        return false;
    }
    return check_channels(op, "weight", x, weight) && check_channels(op, "bias", x, bias);
}

/* Checks the running statistics, which are required unless the statistics are computed from x. */
static bool check_running(const char *op, const br_tensor *x, const br_tensor *mean,
                          const br_tensor *var, bool computed)
{
    return check_channels(op, "running_mean", x, mean) &&
           check_channels(op, "running_var", x, var) &&
           (computed ||
            (br__required(op, "running_mean", mean) && br__required(op, "running_var", var)));
}

static void normalise(const plan *p, const br_tensor *y, const br_tensor *x, const br_tensor *mean,
                      const br_tensor *rstd, const br_tensor *weight, const br_tensor *bias,
                      const br_tensor *scale, const br_tensor *shift)
{
    for (int64_t at = 0; at < rstd->numel; at++) {
        int64_t c = at % p->channels;
        set(scale, at, get(rstd, at) * (weight ? get(weight, c) : 1));
        set(shift, at, bias ? get(bias, c) : 0);
    }
    BR_TRAFFIC(y, x, mean, scale, shift);
    run_pass(p, x->dtype, br__kernels_of(x->dtype)->channel_norm,
             &(br_channel_work){ .x = x->data,
                                 .out = y->data,
                                 .mean = mean->data,
                                 .scale = scale->data,
                                 .shift = shift->data });
}

/* Computes the norm; the arguments have been checked. `running` has two entries, which may be
 * NULL. */
static br_tensor *norm(const br_op *op, plan *p, br_tensor *x, br_tensor *weight, br_tensor *bias,
                       br_tensor *const *running, double momentum)
{
    cut(p, x);
    br_tensor *y = br__new(op->name, x->ndim, x->sizes, x->dtype);
    br_scope *scope = br_scope_begin();
    br_tensor *mean = new_coefficients(op->name, p, x->dtype);
    br_tensor *rstd = new_coefficients(op->name, p, x->dtype);
    br_scope *unrecorded = br_no_grad_begin();
    br_tensor *dense = br_contiguous(x), *dense_weight = weight ? br_contiguous(weight) : NULL;
    br_tensor *dense_bias = bias ? br_contiguous(bias) : NULL;
    br_tensor *scale = new_coefficients(op->name, p, x->dtype);
    br_tensor *shift = new_coefficients(op->name, p, x->dtype);
    if (!br_failed() && x->numel > 0) {
        if (p->computed)
            compute_statistics(op->name, p, dense, mean, rstd, running, momentum);
        else
            use_statistics(p, mean, rstd, running);
    }
    if (!br_failed() && x->numel > 0)
        normalise(p, y, dense, mean, rstd, dense_weight, dense_bias, scale, shift);
    br_scope_end(unrecorded);
    br_node *node = br_record(op, y, BR_INPUTS(x, weight, bias), p, sizeof *p);
    br_save(node, X, x);
    br_save(node, WEIGHT, weight);
    br_save(node, SAVED_MEAN, mean);
    br_save(node, SAVED_RSTD, rstd);
    br_scope_end(scope);
    return br_failed() ? NULL : y;
}

static const br_op batch_norm_op = { .name = "batch_norm", .backward = norm_backward };

br_tensor *br_f_batch_norm(br_tensor *x, br_tensor *running_mean, br_tensor *running_var,
                           br_tensor *weight, br_tensor *bias, bool training, double momentum,
                           double eps)
{
    const char *op = "batch_norm";
    BR_OP(op);
    if (!check(op, x, weight, bias) || !check_running(op, x, running_mean, running_var, training))
        return NULL;
    if (training && x->sizes[1] > 0 && x->numel == x->sizes[1])
        return br_fail(BR_ERROR_SHAPE, op,
                       "x %s has only one value per channel, but training requires more",
                       br__shape(x));
    if (training && !(eps > 0))
        return br_fail(BR_ERROR_ARGUMENT, op, "eps is %g, must be positive in training", eps);
    plan p = { .group = 1, .across = true, .computed = training, .eps = eps };
    return norm(&batch_norm_op, &p, x, weight, bias, (br_tensor *[]){ running_mean, running_var },
                momentum);
}

static const br_op group_norm_op = { .name = "group_norm", .backward = norm_backward };
static const br_op instance_norm_op = { .name = "instance_norm", .backward = norm_backward };

br_tensor *br_f_group_norm(br_tensor *x, int64_t num_groups, br_tensor *weight, br_tensor *bias,
                           double eps)
{
    const char *op = group_norm_op.name;
    BR_OP(op);
    if (!check(op, x, weight, bias))
        return NULL;
    if (num_groups < 1 || x->sizes[1] % num_groups != 0)
        return br_fail(BR_ERROR_SHAPE, op,
                       "num_groups is %" PRId64 ", must be at least 1 and divide the %" PRId64
                       " channels of x %s",
                       num_groups, x->sizes[1], br__shape(x));
    plan p = { .group = x->sizes[1] / num_groups, .computed = true, .eps = eps };
    return norm(&group_norm_op, &p, x, weight, bias, (br_tensor *[]){ NULL, NULL }, 0);
}

br_tensor *br_f_instance_norm(br_tensor *x, br_tensor *running_mean, br_tensor *running_var,
                              br_tensor *weight, br_tensor *bias, bool use_input_stats,
                              double momentum, double eps)
{
    const char *op = instance_norm_op.name;
    BR_OP(op);
    if (!check(op, x, weight, bias) ||
        !check_running(op, x, running_mean, running_var, use_input_stats))
        return NULL;
    if (x->ndim < 3 || (use_input_stats && x->numel > 0 && x->numel == x->sizes[0] * x->sizes[1]))
        return br_fail(BR_ERROR_SHAPE, op,
                       "x %s must have more than one spatial element in the dimensions after "
                       "batch and channels",
                       br__shape(x));
    plan p = { .group = 1, .across = !use_input_stats, .computed = use_input_stats, .eps = eps };
    return norm(&instance_norm_op, &p, x, weight, bias,
                (br_tensor *[]){ running_mean, running_var }, momentum);
}
