/* ops/loss/class_rows.c - cross entropy of rows of class scores, in parallel over the rows. The
 * results of a row do not depend on other rows. */
#include "ops/loss/class_rows.h"

#include "ops/index/index_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static int64_t size_of(const br_class_rows *r)
{
    return (int64_t)br__dtype_size(r->dtype);
}

static double load(const br_class_rows *r, const char *values, int64_t i)
{
    return br__get(r->dtype, values + i * size_of(r));
}

static void store(const br_class_rows *r, char *values, int64_t i, double value)
{
    br__put(r->dtype, values + i * size_of(r), value);
}

br_class_rows br__class_rows(br_dtype dtype, int64_t classes, const br_tensor *target,
                             const br_tensor *weight, const br_class_loss *s)
{
    return (br_class_rows){ .kernels = br__kernels_of(dtype),
                            .s = *s,
                            .rows = target->numel,
                            .classes = classes,
                            .dtype = dtype,
                            .target = (const int64_t *)(const void *)target->data,
                            .weight = weight ? weight->data : NULL };
}

br_class_rows br__class_rows_part(const br_class_rows *r, int64_t first, int64_t n)
{
    br_class_rows part = *r;
    part.rows = n;
    part.target += first;
    part.losses = br__offset_pointer(r->losses, first * size_of(r));
    if (r->s.reduction == BR_REDUCTION_NONE)
        part.dy = br__offset_pointer(r->dy, first * size_of(r));
    return part;
}

void br__class_rows_weigh(br_class_rows *r)
{
    for (int64_t i = 0; i < r->rows; i++)
        if (r->target[i] != r->s.ignore)
            r->s.counted += r->weight ? load(r, r->weight, r->target[i]) : 1;
    for (int64_t c = 0; c < r->classes; c++)
        r->s.weight_sum += r->weight ? load(r, r->weight, c) : 1;
}

/* ---- One row --------------------------------------------------------------------------------- */

/* Returns a of the formula in class_rows.h. */
static double own_part(const br_class_rows *r, int64_t row)
{
    return (1 - r->s.smoothing) * (r->weight ? load(r, r->weight, r->target[row]) : 1);
}

/* Returns b of that formula. */
static double spread_part(const br_class_rows *r)
{
    return r->s.smoothing / (double)r->classes;
}

static void loss_of_row(const br_class_rows *r, int64_t row)
{
    if (r->target[row] == r->s.ignore) {
        store(r, r->losses, row, 0);
        for (int i = 0; i < BR_CLASS_SUMS; i++)
            store(r, r->sums, BR_CLASS_SUMS * row + i, 0);
        return;
    }
    const char *x = r->x + row * r->classes * size_of(r);
    br_cross_entropy_sums sums;
    r->kernels->cross_entropy_sums(r->classes, x, r->target[row], &sums);
    double log_sum = sums.own == 1 ? log1p(sums.rest) : log(sums.own + sums.rest);
    double spread = spread_part(r), own = own_part(r, row);
    double loss = own == 0 ? 0 : own * (log_sum - (load(r, x, r->target[row]) - sums.row_max));
    if (spread > 0)
        loss += spread * (r->s.weight_sum * log_sum -
                          r->kernels->shifted_dot(r->classes, x, r->weight, sums.row_max));
    store(r, r->sums, BR_CLASS_SUMS * row, sums.row_max);
    store(r, r->sums, BR_CLASS_SUMS * row + 1, sums.own);
    store(r, r->sums, BR_CLASS_SUMS * row + 2, sums.rest);
    store(r, r->losses, row, loss);
}

static void gradient_of_row(const br_class_rows *r, int64_t row)
{
    const int64_t bytes = r->classes * size_of(r);
    char *dx = r->dx + row * bytes;
    if (r->target[row] == r->s.ignore) {
        memset(dx, 0, (size_t)bytes);
        return;
    }
    double scale = load(r, r->dy, r->s.reduction == BR_REDUCTION_NONE ? row : 0);
    if (r->s.reduction == BR_REDUCTION_MEAN)
        scale /= r->s.counted;
    double spread = spread_part(r);
    br_cross_entropy_row terms = { .row_max = load(r, r->sums, BR_CLASS_SUMS * row),
                                   .own_exp = load(r, r->sums, BR_CLASS_SUMS * row + 1),
                                   .rest = load(r, r->sums, BR_CLASS_SUMS * row + 2),
                                   .own = scale * own_part(r, row),
                                   .shared = spread == 0 ? 0 : scale * spread * r->s.weight_sum,
                                   .spread = scale * spread,
                                   .target = r->target[row] };
    r->kernels->cross_entropy_grad(r->classes, r->x + row * bytes, r->weight, &terms, dx);
}

/* ---- All rows -------------------------------------------------------------------------------- */

typedef struct job {
    const br_class_rows *rows;
    void (*process)(const br_class_rows *r, int64_t row);
    int64_t rows_per_task;
} job;

static void run_task(void *context, int64_t i)
{
    const job *j = context;
    int64_t last = (i + 1) * j->rows_per_task;
    for (int64_t row = i * j->rows_per_task; row < last && row < j->rows->rows; row++)
        j->process(j->rows, row);
}

static void run(const br_class_rows *r, void (*process)(const br_class_rows *r, int64_t row))
{
    job j = { r, process, BR_GRAIN / 4 / (r->classes > 0 ? r->classes : 1) + 1 };
    br__parallel((r->rows + j.rows_per_task - 1) / j.rows_per_task, run_task, &j);
}

void br__class_rows_losses(const br_class_rows *r)
{
    run(r, loss_of_row);
}

void br__class_rows_gradient(const br_class_rows *r)
{
    run(r, gradient_of_row);
}

/* Sums the losses of the rows in order; the mean divides by the sum of the weights. */
br_tensor *br__class_rows_reduced(const char *op, const br_class_rows *r)
{
    double sum = 0;
    for (int64_t i = 0; i < r->rows; i++)
        sum += load(r, r->losses, i);
    if (r->s.reduction == BR_REDUCTION_MEAN)
        sum /= r->s.counted;
    br_tensor *y = br__new(op, BR_SCALAR, r->dtype);
    if (y)
        store(r, y->data, 0, sum);
    return y;
}

bool br__good_targets(const char *op, const br_tensor *target, int64_t classes, int64_t ignore)
{
    const int64_t *t = (const int64_t *)(const void *)target->data;
    for (int64_t i = 0; i < target->numel; i++) {
        if (t[i] == ignore)
            continue;
        if (t[i] < 0 || t[i] >= classes) {
            br_fail(BR_ERROR_INDEX, op,
                    "target %" PRId64 " at position %s is outside 0 .. %" PRId64
                    " and is not ignore_index %" PRId64,
                    t[i], br__position(target, i), classes - 1, ignore);
            return false;
        }
    }
    return true;
}

/* ---- The gradient by recorded operations ----------------------------------------------------- */

/* Returns scale b w, which is subtracted from the gradient of every class. */
static br_tensor *spread_over_classes(const br_class_loss *s, br_tensor *scale, br_tensor *weight,
                                      const br_tensor *scores)
{
    double spread = s->smoothing / (double)scores->sizes[br__class_dim(scores)];
    scale = br_mul_scalar(scale, spread);
    return weight ? br_mul(scale, br__along_classes(weight, scores)) : scale;
}

br_tensor *br__class_gradient_composed(const br_class_loss *s, br_tensor *scores, br_tensor *target,
                                       br_tensor *weight, br_tensor *dy)
{
    if (br_failed())
        return NULL;
    int64_t dim = br__class_dim(scores);
    br_tensor *ignored = br__equals_integer(target, s->ignore);
    br_tensor *scale = br_expand_as(dy, target);
    if (s->reduction == BR_REDUCTION_MEAN)
        scale = br_div_scalar(scale, s->counted);
    scale = br_unsqueeze(br_masked_fill(scale, ignored, 0), dim);
    br_tensor *index = br_unsqueeze(br_masked_fill(target, ignored, 0), dim);
    br_tensor *own = br_mul_scalar(scale, 1 - s->smoothing);
    if (weight)
        own = br_mul(own, br_take(weight, index));
    double spread = s->smoothing / (double)scores->sizes[dim] * s->weight_sum;
    br_tensor *all = spread > 0 ? br_add(own, br_mul_scalar(scale, spread)) : own;
    br_tensor *onehot = br__index_add(own, index, &(br_index_selection){ (int)dim, false, -1 },
                                      scores->ndim, scores->sizes);
    br_tensor *dx = br_sub(br_mul(br_softmax(scores, dim), all), onehot);
    return spread > 0 ? br_sub(dx, spread_over_classes(s, scale, weight, scores)) : dx;
}
