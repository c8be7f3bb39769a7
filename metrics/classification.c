/* metrics/classification.c - measures of predicted classes: confusion matrices, accuracy,
 * precision, recall, F-scores, and the area under the ROC curve. */
#include "metrics/checks.h"

#include <inttypes.h>
#include <math.h>

/* ---- Confusion matrix ------------------------------------------------------------------------ */

enum { MOST_CLASSES = 1 << 15 }; /* 8 GB of counts */

/* Returns the predicted classes as integers in the targets' shape, or NULL and an error. */
static br_tensor *classes_of(const char *op, br_tensor *predictions, br_tensor *targets,
                             int64_t num_classes)
{
    if (!br__required(op, "predictions", predictions))
        return NULL;
    bool scores = br_is_floating(predictions);
    if (scores && predictions->ndim == targets->ndim + 1 && predictions->ndim > 1 &&
        predictions->sizes[1] == num_classes)
        predictions = br_argmax(predictions, 1, false);
    else if (scores)
        return br_fail(BR_ERROR_SHAPE, op,
                       "predictions are scores %s, must have one dimension more than targets %s: "
                       "dimension 1, with %" PRId64 " classes",
                       br__shape(predictions), br__shape(targets), num_classes);
    if (!predictions || !br__required_classes(op, "predictions", predictions))
        return NULL;
    bool same = predictions->ndim == targets->ndim;
    for (int i = 0; i < targets->ndim && same; i++)
        same = predictions->sizes[i] == targets->sizes[i];
    if (!same)
        return br_fail(BR_ERROR_SHAPE, op, "predictions %s and targets %s must have one shape",
                       br__shape(predictions), br__shape(targets));
    return predictions;
}

static bool in_range(const char *op, const char *name, int64_t i, int64_t value,
                     int64_t num_classes)
{
    if (value >= 0 && value < num_classes)
        return true;
    br_fail(BR_ERROR_INDEX, op,
            "%s: element %" PRId64 " is %" PRId64 ", must be a class in 0 .. %" PRId64, name, i,
            value, num_classes - 1);
    return false;
}

static bool count(const char *op, br_tensor *predictions, br_tensor *targets, int64_t num_classes,
                  int64_t ignore_index, int64_t *counts)
{
    const int64_t *predicted = br__host_i64(br_to(predictions, BR_I64)),
                  *target = br__host_i64(br_to(targets, BR_I64));
    for (int64_t i = 0; i < targets->numel && !br_failed(); i++)
        if ((target[i] != ignore_index || ignore_index == BR_NONE) &&
            in_range(op, "targets", i, target[i], num_classes) &&
            in_range(op, "predictions", i, predicted[i], num_classes))
            counts[target[i] * num_classes + predicted[i]]++;
    return !br_failed();
}

br_tensor *br_confusion_matrix(br_tensor *predictions, br_tensor *targets, int64_t num_classes,
                               int64_t ignore_index)
{
    static const char op[] = "confusion_matrix";
    if (!br__required_classes(op, "targets", targets))
        return NULL;
    if (num_classes < 1 || num_classes > MOST_CLASSES)
        return br_fail(BR_ERROR_ARGUMENT, op, "num_classes is %" PRId64 ", must be 1 .. %d",
                       num_classes, MOST_CLASSES);
    br_scope *scope = br_no_grad_begin();
    br_tensor *classes = classes_of(op, predictions, targets, num_classes);
    br_device before = br_set_default_device((br_device){ BR_CPU, 0 });
    br_tensor *matrix = br_zeros(BR_SHAPE(num_classes, num_classes), BR_I64);
    br_set_default_device(before);
    if (classes && matrix)
        count(op, classes, targets, num_classes, ignore_index, br_data_i64(matrix));
    return br__composed(scope, matrix);
}

/* ---- Measures of a confusion matrix ---------------------------------------------------------- */

static bool good_confusion(const char *op, const br_tensor *confusion, br_average average)
{
    if (!br__required_classes(op, "confusion", confusion))
        return false;
    if (confusion->ndim != 2 || confusion->sizes[0] != confusion->sizes[1])
        br_fail(BR_ERROR_SHAPE, op, "confusion is %s, must be [classes, classes]",
                br__shape(confusion));
    else if ((unsigned)average > BR_AVERAGE_NONE)
        br_fail(BR_ERROR_ARGUMENT, op, "average is %d, must be a br_average", (int)average);
    return !br_failed();
}

/* The numbers of right predictions, of predictions, and of examples: of each class, or the sums
 * over all classes. */
typedef struct tallies {
    br_tensor *right, *predicted, *actual;
} tallies;

static tallies tally(br_tensor *confusion, bool sum)
{
    br_tensor *counts = br_to(confusion, BR_F64);
    tallies t = { br_diagonal(counts, 0, 0, 1), br_sum_dim(counts, BR_DIMS(0), false),
                  br_sum_dim(counts, BR_DIMS(1), false) };
    return sum ? (tallies){ br_sum(t.right), br_sum(t.predicted), br_sum(t.actual) } : t;
}

/* Returns a / b, or 0 where b is 0. */
static br_tensor *ratio(br_tensor *a, br_tensor *b)
{
    return br_masked_fill(br_div(a, b), br_eq_scalar(b, 0), 0);
}

/* Returns the mean of the classes' values, with these weights. */
static br_tensor *weighted_mean(br_tensor *values, br_tensor *weights)
{
    return ratio(br_sum(br_mul(values, weights)), br_sum(weights));
}

static br_tensor *averaged(br_tensor *values, tallies t, br_average average)
{
    if (average == BR_AVERAGE_WEIGHTED)
        return weighted_mean(values, t.actual);
    if (average == BR_AVERAGE_MACRO)
        return weighted_mean(values, br_to(br_gt_scalar(br_add(t.predicted, t.actual), 0), BR_F64));
    return values;
}

br_tensor *br_accuracy(br_tensor *confusion)
{
    if (!good_confusion("accuracy", confusion, BR_AVERAGE_MICRO))
        return NULL;
    br_scope *scope = br_no_grad_begin();
    tallies t = tally(confusion, true);
    return br__composed(scope, br_div(t.right, t.actual));
}

br_tensor *br_precision(br_tensor *confusion, br_average average)
{
    if (!good_confusion("precision", confusion, average))
        return NULL;
    br_scope *scope = br_no_grad_begin();
    tallies t = tally(confusion, average == BR_AVERAGE_MICRO);
    return br__composed(scope, averaged(ratio(t.right, t.predicted), t, average));
}

br_tensor *br_recall(br_tensor *confusion, br_average average)
{
    if (!good_confusion("recall", confusion, average))
        return NULL;
    br_scope *scope = br_no_grad_begin();
    tallies t = tally(confusion, average == BR_AVERAGE_MICRO);
    return br__composed(scope, averaged(ratio(t.right, t.actual), t, average));
}

/* In the numbers of examples, F-beta is (1 + beta^2) right / (beta^2 actual + predicted). */
br_tensor *br_fbeta_score(br_tensor *confusion, double beta, br_average average)
{
    static const char op[] = "fbeta_score";
    if (!good_confusion(op, confusion, average))
        return NULL;
    if (!(beta >= 0) || !isfinite(beta))
        return br_fail(BR_ERROR_ARGUMENT, op, "beta is %g, must be at least 0 and finite", beta);
    br_scope *scope = br_no_grad_begin();
    tallies t = tally(confusion, average == BR_AVERAGE_MICRO);
    br_tensor *scores = ratio(br_mul_scalar(t.right, 1 + beta * beta),
                              br_add(br_mul_scalar(t.actual, beta * beta), t.predicted));
    return br__composed(scope, averaged(scores, t, average));
}

/* ---- The area under the ROC curve ------------------------------------------------------------ */

/* Returns the area for scores [n] and positives [n] of f64 0 and 1. It is that of the test of Mann
 * and Whitney: with the mean of the ranks, from 1, of equal scores, the sum of the ranks of the
 * P positives, less P (P + 1) / 2, divided by P N for N negatives. */
static br_tensor *area(br_tensor *scores, br_tensor *positives)
{
    br_tensor *place = NULL, *counts = NULL;
    br_unique(scores, &place, &counts);
    counts = br_to(counts, BR_F64);
    br_tensor *mean_ranks =
        br_sub(br_cumsum(counts, 0), br_mul_scalar(br_sub_scalar(counts, 1), 0.5));
    br_tensor *ranks = br_index_select(mean_ranks, 0, place), *p = br_sum(positives);
    br_tensor *n = br_rsub_scalar(p, (double)br_numel(positives));
    br_tensor *least = br_mul_scalar(br_mul(p, br_add_scalar(p, 1)), 0.5);
    return br_div(br_sub(br_sum(br_mul(ranks, positives)), least), br_mul(p, n));
}

/* Checks the shapes; stores the number of classes, 0 if the scores are of positive examples. */
static bool good_scores(const char *op, const br_tensor *scores, const br_tensor *targets,
                        br_average average, int64_t *classes)
{
    if (!br__floating(op, "scores", scores) || !br__required(op, "targets", targets))
        return false;
    *classes = scores->ndim == 2 ? scores->sizes[1] : 0;
    if (targets->dtype != BR_BOOL && !br__required_classes(op, "targets", targets))
        return false;
    if ((scores->ndim != 1 && scores->ndim != 2) || targets->ndim != 1 ||
        scores->sizes[0] != targets->sizes[0] || scores->numel == 0)
        br_fail(
            BR_ERROR_SHAPE, op,
            "scores %s and targets %s: must be [n] and [n], or [n, classes] and [n], with n > 0",
            br__shape(scores), br__shape(targets));
    else if ((unsigned)average > BR_AVERAGE_NONE)
        br_fail(BR_ERROR_ARGUMENT, op, "average is %d, must be a br_average", (int)average);
    else if (br_item(br_any(br_isnan(br_detach((br_tensor *)scores)))) != 0)
        br_fail(BR_ERROR_ARGUMENT, op, "scores %s contain NaN, which has no rank",
                br__shape(scores));
    return !br_failed();
}

static bool good_targets(const char *op, br_tensor *targets, int64_t classes)
{
    const int64_t *values = br__host_i64(br_to(targets, BR_I64)), n = classes > 0 ? classes : 2;
    for (int64_t i = 0; values && i < targets->numel; i++)
        if (!in_range(op, "targets", i, values[i], n))
            return false;
    return !br_failed();
}

/* Returns the area of each class against the others. */
static br_tensor *areas(br_tensor *scores, br_tensor *one_hot, int64_t classes)
{
    br_tensor **each = br_malloc((size_t)classes * sizeof *each), *result = NULL;
    for (int64_t i = 0; each && i < classes; i++)
        each[i] = area(br_select(scores, 1, i), br_select(one_hot, 1, i));
    if (each)
        result = br_stack((int)classes, each, 0);
    br_free(each);
    return result;
}

br_tensor *br_auroc(br_tensor *scores, br_tensor *targets, br_average average)
{
    static const char op[] = "auroc";
    int64_t classes;
    br_scope *scope = br_no_grad_begin();
    br_tensor *result = NULL;
    if (!good_scores(op, scores, targets, average, &classes) || !good_targets(op, targets, classes))
        return br__composed(scope, NULL);
    scores = br_to(scores, BR_F64);
    targets = br_to(targets, BR_I64);
    br_tensor *one_hot = classes > 0 ? br_to(br_one_hot(targets, classes), BR_F64) : NULL;
    if (classes == 0)
        result = area(scores, br_to(targets, BR_F64));
    else if (average == BR_AVERAGE_MICRO)
        result = area(br_reshape(scores, BR_SHAPE(-1)), br_reshape(one_hot, BR_SHAPE(-1)));
    else
        result = areas(scores, one_hot, classes);
    if (classes > 0 && average == BR_AVERAGE_MACRO)
        result = br_mean(result);
    if (classes > 0 && average == BR_AVERAGE_WEIGHTED)
        result = weighted_mean(result, br_sum_dim(one_hot, BR_DIMS(0), false));
    return br__composed(scope, result);
}
