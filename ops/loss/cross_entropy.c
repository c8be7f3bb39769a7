/* ops/loss/cross_entropy.c - cross_entropy of class indices, fused. With class weights w and a
 * fraction s of each target (the label smoothing) spread over all C classes, the loss of a row x
 * with target t is
 *
 *     a (lse - x_t) + b (W lse - sum over c of w_c x_c)
 *     a = (1 - s) w_t,  b = s / C,  W = sum of w,  lse = log sum exp(x)
 *
 * Its gradient with respect to x_c is (a + b W) p_c - b w_c, minus a for c = t, with p =
 * softmax(x). lse itself is never computed, because it would be rounded to the precision of the
 * largest score. The operation saves for its gradient the largest score m and the sum of exp(x - m)
 * over all classes except t. */
#include "ops/index/index_internal.h"
#include "ops/kernels/kernels.h"
#include "ops/loss/loss_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { N_SUMS = 3 };
enum { INPUT, TARGET, SUMS, WEIGHT }; /* saved values; only the first is an input of the node */

typedef struct settings {
    br_reduction reduction;
    int64_t ignore;
    double counted;    /* sum of the weights of targets that are not ignored */
    double smoothing;  /* s */
    double weight_sum; /* W */
} settings;

/* ---- Rows of class scores -------------------------------------------------------------------- */

static int64_t class_dim(const br_tensor *input)
{
    return input->ndim == 1 ? 0 : 1;
}

/* Returns input [n, c, d1, ...] contiguous with the classes last. This copies nothing if the memory
 * has that order already, as in a transpose of [n, d1, ..., c]. */
static br_tensor *classes_last(br_tensor *input)
{
    int64_t dims[BR_MAX_DIMS], from = class_dim(input);
    for (int i = 0; i < input->ndim; i++)
        dims[i] = i < from ? i : i == input->ndim - 1 ? from : i + 1;
    return br_contiguous(br_permute(input, input->ndim, dims));
}

/* The inverse: returns a view of the same memory as [n, c, d1, ...]. */
static br_tensor *classes_second(br_tensor *rows)
{
    int64_t dims[BR_MAX_DIMS], to = class_dim(rows);
    for (int i = 0; i < rows->ndim; i++)
        dims[i] = i < to ? i : i == to ? rows->ndim - 1 : i - 1;
    return br_permute(rows, rows->ndim, dims);
}

/* Work on rows. loss and sums, or dx and dy, have the input's dtype. */
typedef struct job {
    const br_kernels *kernels;
    settings s;
    int64_t rows, classes, rows_per_task;
    bool is_double;
    const char *x;
    const int64_t *target;
    const char *weight; /* class weights; NULL: 1 */
    char *loss, *sums;  /* sums: [most, own, rest] for each row */
    const char *dy;     /* one value, or one for each row */
    char *dx;
} job;

static double load(const job *j, const char *values, int64_t i)
{
    return j->is_double ? ((const double *)(const void *)values)[i]
                        : (double)((const float *)(const void *)values)[i];
}

static void store(const job *j, char *values, int64_t i, double value)
{
    if (j->is_double)
        ((double *)(void *)values)[i] = value;
    else
        ((float *)(void *)values)[i] = (float)value;
}

static int64_t row_bytes(const job *j)
{
    return j->classes * (int64_t)(j->is_double ? sizeof(double) : sizeof(float));
}

/* Returns a of the formula above. */
static double own_part(const job *j, int64_t row)
{
    return (1 - j->s.smoothing) * (j->weight ? load(j, j->weight, j->target[row]) : 1);
}

/* Returns b of the formula above. */
static double spread_part(const job *j)
{
    return j->s.smoothing / (double)j->classes;
}

static void forward_row(const job *j, int64_t row)
{
    if (j->target[row] == j->s.ignore) {
        store(j, j->loss, row, 0);
        for (int i = 0; i < N_SUMS; i++)
            store(j, j->sums, N_SUMS * row + i, 0);
        return;
    }
    const char *x = j->x + row * row_bytes(j);
    br_cross_entropy_sums sums;
    j->kernels->cross_entropy_sums(j->classes, x, j->target[row], &sums);
    double log_sum = sums.own == 1 ? log1p(sums.rest) : log(sums.own + sums.rest);
    double spread = spread_part(j);
    double loss = own_part(j, row) * (log_sum - (load(j, x, j->target[row]) - sums.row_max));
    if (spread > 0)
        loss += spread * (j->s.weight_sum * log_sum -
                          j->kernels->shifted_dot(j->classes, x, j->weight, sums.row_max));
    store(j, j->sums, N_SUMS * row, sums.row_max);
    store(j, j->sums, N_SUMS * row + 1, sums.own);
    store(j, j->sums, N_SUMS * row + 2, sums.rest);
    store(j, j->loss, row, loss);
}

static void backward_row(const job *j, int64_t row)
{
    char *dx = j->dx + row * row_bytes(j);
    if (j->target[row] == j->s.ignore) {
        memset(dx, 0, (size_t)row_bytes(j));
        return;
    }
    double scale = load(j, j->dy, j->s.reduction == BR_REDUCTION_NONE ? row : 0);
    if (j->s.reduction == BR_REDUCTION_MEAN)
        scale /= j->s.counted;
    double spread = spread_part(j);
    br_cross_entropy_row r = { .row_max = load(j, j->sums, N_SUMS * row),
                               .own_exp = load(j, j->sums, N_SUMS * row + 1),
                               .rest = load(j, j->sums, N_SUMS * row + 2),
                               .own = scale * own_part(j, row),
                               .shared = scale * spread * j->s.weight_sum,
                               .spread = scale * spread,
                               .target = j->target[row] };
    j->kernels->cross_entropy_grad(j->classes, j->x + row * row_bytes(j), j->weight, &r, dx);
}

static void run_task(void *context, int64_t i)
{
    const job *j = context;
    int64_t last = (i + 1) * j->rows_per_task;
    for (int64_t row = i * j->rows_per_task; row < last && row < j->rows; row++)
        (j->dx ? backward_row : forward_row)(j, row);
}

static job make_job(const br_tensor *rows, const br_tensor *target, const br_tensor *weight,
                    const settings *s)
{
    bool is_double = rows->dtype == BR_F64;
    int64_t classes = rows->sizes[rows->ndim - 1];
    return (job){ .kernels = br__kernels(is_double),
                  .s = *s,
                  .rows = target->numel,
                  .classes = classes,
                  .rows_per_task = BR_GRAIN / 4 / (classes > 0 ? classes : 1) + 1,
                  .is_double = is_double,
                  .x = rows->data,
                  .target = (const int64_t *)(const void *)target->data,
                  .weight = weight ? weight->data : NULL };
}

static void run(job *j)
{
    br__parallel((j->rows + j->rows_per_task - 1) / j->rows_per_task, run_task, j);
}

/* ---- Gradient -------------------------------------------------------------------------------- */

static void fused_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    const settings *s = br_params(node);
    br_tensor *input = br_saved(node, INPUT), *sums = br_saved(node, SUMS);
    br_tensor *target = br_saved(node, TARGET), *weight = br_saved(node, WEIGHT);
    br_tensor *rows = br_failed() ? NULL : classes_last(input);
    br_tensor *drows = rows ? br_empty_like(rows) : NULL;
    dy = br_contiguous(dy);
    if (!drows || !dy)
        return;
    job j = make_job(rows, target, weight, s);
    j.sums = sums->data;
    j.dy = dy->data;
    j.dx = drows->data;
    BR_TRAFFIC(drows, rows, target, sums, dy);
    run(&j);
    dx[0] = classes_second(drows);
}

/* Reshapes the class weights to broadcast along the class dimension of the input. */
static br_tensor *along_classes(br_tensor *weight, const br_tensor *input)
{
    int64_t sizes[BR_MAX_DIMS];
    for (int i = 0; i < input->ndim; i++)
        sizes[i] = i == class_dim(input) ? -1 : 1;
    return br_reshape(weight, input->ndim, sizes);
}

/* Returns scale b w, which is subtracted from the gradient of every class. */
static br_tensor *spread_over_classes(const settings *s, br_tensor *scale, br_tensor *weight,
                                      const br_tensor *input)
{
    double spread = s->smoothing / (double)input->sizes[class_dim(input)];
    scale = br_mul_scalar(scale, spread);
    return weight ? br_mul(scale, along_classes(weight, input)) : scale;
}

/* Computes the same gradient by recorded operations. */
static void composed_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    const settings *s = br_params(node);
    br_tensor *input = br_saved(node, INPUT), *target = br_saved(node, TARGET);
    br_tensor *weight = br_saved(node, WEIGHT);
    if (br_failed())
        return;
    int64_t dim = class_dim(input);
    br_tensor *ignored = br_eq_scalar(target, (double)s->ignore);
    br_tensor *scale = br_expand_as(dy, target);
    if (s->reduction == BR_REDUCTION_MEAN)
        scale = br_div_scalar(scale, s->counted);
    scale = br_unsqueeze(br_masked_fill(scale, ignored, 0), dim);
    br_tensor *index = br_unsqueeze(br_masked_fill(target, ignored, 0), dim);
    br_tensor *own = br_mul_scalar(scale, 1 - s->smoothing);
    if (weight)
        own = br_mul(own, br_take(weight, index));
    double spread = s->smoothing / (double)input->sizes[dim] * s->weight_sum;
    br_tensor *all = spread > 0 ? br_add(own, br_mul_scalar(scale, spread)) : own;
    br_tensor *onehot = br__index_add(own, index, &(br_index_selection){ (int)dim, false, -1 },
                                      input->ndim, input->sizes);
    dx[0] = br_sub(br_mul(br_softmax(input, dim), all), onehot);
    if (spread > 0)
        dx[0] = br_sub(dx[0], spread_over_classes(s, scale, weight, input));
}

static void cross_entropy_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    (br_grad_enabled() ? composed_backward : fused_backward)(node, dy, dx);
}

/* ---- Forward --------------------------------------------------------------------------------- */

static bool check_shapes(const char *op, const br_tensor *input, const br_tensor *target)
{
    if (!br__floating(op, "input", input) || !br__has_dtype(op, "target", target, BR_I64))
        return false;
    bool fits = input->ndim >= 1 && target->ndim == input->ndim - 1;
    for (int i = 0; fits && i < target->ndim; i++)
        fits = target->sizes[i] == input->sizes[i == 0 ? 0 : i + 1];
    if (!fits)
        br_fail(BR_ERROR_SHAPE, op,
                "input %s and target %s: must be [n, c, d...] and [n, d...], or [c] and []",
                br__shape(input), br__shape(target));
    return fits;
}

/* Checks a contiguous target; returns false with an error if a class is out of range. */
static bool good_targets(const char *op, const br_tensor *target, int64_t classes, int64_t ignore)
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

bool br__check_targets(const char *op, br_tensor *input, br_tensor *target, int64_t ignore)
{
    if (!check_shapes(op, input, target))
        return false;
    br_scope *scope = br_scope_begin();
    br_tensor *dense = br_contiguous(target);
    if (dense)
        good_targets(op, dense, input->sizes[class_dim(input)], ignore);
    br_scope_end(scope);
    return !br_failed();
}

/* Sums the losses of the rows in order; the mean divides by the sum of the weights. */
static br_tensor *reduce(const job *j, br_tensor *losses)
{
    double sum = 0;
    for (int64_t i = 0; i < j->rows; i++)
        sum += load(j, j->loss, i);
    if (j->s.reduction == BR_REDUCTION_MEAN)
        sum /= j->s.counted;
    br_tensor *y = br__new("cross_entropy", BR_SCALAR, losses->dtype);
    if (y)
        store(j, y->data, 0, sum);
    return y;
}

/* Computes the sums of the class weights (1 without weights): of the targets that are not ignored,
 * and of all classes. */
static void weigh(job *j)
{
    for (int64_t i = 0; i < j->rows; i++)
        if (j->target[i] != j->s.ignore)
            j->s.counted += j->weight ? load(j, j->weight, j->target[i]) : 1;
    for (int64_t c = 0; c < j->classes; c++)
        j->s.weight_sum += j->weight ? load(j, j->weight, c) : 1;
}

/* Returns the loss and, in *sums, the sums of the rows for the gradient. Shapes and dtypes have
 * been checked. */
static br_tensor *forward(br_tensor *input, br_tensor *target, const br_tensor *weight, settings *s,
                          br_tensor **sums)
{
    br_tensor *rows = classes_last(input);
    br_tensor *losses = br_empty(target->ndim, target->sizes, input->dtype);
    *sums = br_empty(BR_SHAPE(target->numel, N_SUMS), input->dtype);
    if (br_failed())
        return NULL;
    if (!good_targets("cross_entropy", target, rows->sizes[rows->ndim - 1], s->ignore))
        return NULL;
    job j = make_job(rows, target, weight, s);
    weigh(&j);
    *s = j.s;
    j.loss = losses->data;
    j.sums = (*sums)->data;
    BR_TRAFFIC(rows, target, losses, *sums);
    run(&j);
    return s->reduction == BR_REDUCTION_NONE ? losses : reduce(&j, losses);
}

static const br_op cross_entropy_op = { .name = "cross_entropy",
                                        .backward = cross_entropy_backward };

br_tensor *br_cross_entropy(br_tensor *input, br_tensor *target,
                            const br_cross_entropy_options *options)
{
    BR_OP("cross_entropy");
    const br_cross_entropy_options *o = BR_OPTIONS_OF("cross_entropy", br_cross_entropy, options);
    settings s = { .ignore = o->ignore_index,
                   .reduction = o->reduction,
                   .smoothing = o->label_smoothing };
    br_tensor *weight = o->weight;
    if (!br__required("cross_entropy", "input", input) ||
        !br__required("cross_entropy", "target", target) ||
        !br__check_reduction("cross_entropy", s.reduction))
        return NULL;
    if ((br_is_floating(target) && br_is_floating(input)) ||
        (br_grad_enabled() && br_requires_grad(weight)))
        return br__cross_entropy_composed(input, target, o);
    if (!check_shapes("cross_entropy", input, target) ||
        !br__check_class_options("cross_entropy", input, o))
        return NULL;
    br_scope *scope = br_scope_begin(), *unrecorded = br_no_grad_begin();
    br_tensor *dense = br_contiguous(target), *sums = NULL;
    weight = weight ? br_contiguous(weight) : NULL;
    br_tensor *y = br_failed() ? NULL : forward(input, dense, weight, &s, &sums);
    br_scope_return(unrecorded, sums);
    br_scope_return(unrecorded, dense);
    br_scope_return(unrecorded, weight);
    br_scope_return(unrecorded, y);
    br_scope_end(unrecorded);
    br_node *node = br_record(&cross_entropy_op, y, BR_INPUTS(input), &s, sizeof s);
    br_save(node, INPUT, input);
    br_save(node, TARGET, dense);
    br_save(node, SUMS, sums);
    br_save(node, WEIGHT, weight);
    br_scope_return(scope, y);
    br_scope_end(scope);
    return br_failed() ? NULL : y;
}
