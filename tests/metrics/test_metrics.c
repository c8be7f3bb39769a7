/* tests/metrics/test_metrics.c - measures, compared with those of scikit-learn, torchmetrics and
 * sacrebleu (record_metrics.py, which makes the same numbers). */
#include "tests/memory.h"
#include "tests/metrics/metric_values.h"

#include <brasa/metrics.h>
#include <math.h>
#include <string.h>

static br_scope *scope;

static void begin(void)
{
    check_begin();
    scope = br_scope_begin();
}

static void end(void)
{
    br_scope_end(scope);
    check_end();
}

TestSuite(metrics, .init = begin, .fini = end);

enum { N = 60, CLASSES = 5 };
#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

/* The same numbers as in the script: a linear congruential generator. */
static void series(int n, int64_t most, int64_t step, int64_t *values)
{
    int64_t state = 1;
    for (int i = 0; i < n; i++) {
        state = (state * 1103515245 + 12345) % 2147483648;
        values[i] = (state >> 8) * step % most;
    }
}

static br_tensor *integers(int64_t n, const int64_t *values)
{
    return br_from_i64(1, &n, values);
}

static void check_values(br_tensor *t, const double *expected, int n, const char *name)
{
    cr_assert_not_null(t, "%s: %s", name, br_error_message());
    cr_assert_eq(br_dtype_of(t), BR_F64);
    cr_assert_eq(br_numel(t), n);
    const double *values = br_data_f64(br_contiguous(t));
    for (int i = 0; i < n; i++)
        cr_assert(fabs(values[i] - expected[i]) <= 1e-14 * fmax(1, fabs(expected[i])) ||
                      (isnan(values[i]) && isnan(expected[i])),
                  "%s: element %d is %.17g, not %.17g", name, i, values[i], expected[i]);
}

/* ---- Classes --------------------------------------------------------------------------------- */

static void classes(int64_t *targets, int64_t *predictions)
{
    series(N, CLASSES, 7, targets);
    for (int i = 0; i < N; i++) {
        targets[i] = targets[i] == 3 ? 2 : targets[i];
        predictions[i] = i % 3 ? targets[i] : (2 * targets[i] + i) % CLASSES;
    }
}

static br_tensor *confusion_of_all(void)
{
    int64_t targets[N], predictions[N];
    classes(targets, predictions);
    return br_confusion_matrix(integers(N, predictions), integers(N, targets), CLASSES, BR_NONE);
}

Test(metrics, confusion_matrix)
{
    int64_t targets[N], predictions[N];
    classes(targets, predictions);
    check_values(br_to(confusion_of_all(), BR_F64), *recorded_confusion, CLASSES * CLASSES, "all");
    /* The sum of the matrices of two batches, one of which has scores [n, classes, d]. */
    br_tensor *half =
        br_confusion_matrix(integers(20, predictions), integers(20, targets), CLASSES, BR_NONE);
    br_tensor *scores = br_to(br_one_hot(integers(40, predictions + 20), CLASSES), BR_F32);
    scores = br_transpose(br_reshape(scores, BR_SHAPE(4, 10, CLASSES)), 1, 2);
    br_tensor *rest = br_reshape(br_to(integers(40, targets + 20), BR_U8), BR_SHAPE(4, 10));
    half = br_add(half, br_confusion_matrix(scores, rest, CLASSES, BR_NONE));
    check_values(br_to(half, BR_F64), *recorded_confusion, CLASSES * CLASSES, "two batches");
    /* Without class 2, its row is empty. */
    br_tensor *fewer =
        br_confusion_matrix(integers(N, predictions), integers(N, targets), CLASSES, 2);
    cr_assert_eq(br_item(br_sum(br_select(fewer, 0, 2))), 0);
    cr_assert_eq(br_item(br_sum(br_sub(half, fewer))), br_item(br_sum(br_select(half, 0, 2))));
    int64_t ignored = -100, prediction = 7;
    fewer = br_confusion_matrix(integers(1, &prediction), integers(1, &ignored), 3, -100);
    cr_assert_eq(br_item(br_sum(fewer)), 0);
}

Test(metrics, measures_of_classes)
{
    br_tensor *c = confusion_of_all();
    for (br_average a = BR_AVERAGE_MICRO; a <= BR_AVERAGE_NONE; a++) {
        int n = a == BR_AVERAGE_NONE ? CLASSES : 1;
        check_values(br_precision(c, a), &recorded_measures[0][a], n, "precision");
        check_values(br_recall(c, a), &recorded_measures[1][a], n, "recall");
        check_values(br_fbeta_score(c, 1, a), &recorded_measures[2][a], n, "F1");
        check_values(br_fbeta_score(c, 0.5, a), &recorded_measures[3][a], n, "F0.5");
        check_values(br_fbeta_score(c, 2, a), &recorded_measures[4][a], n, "F2");
    }
    check_values(br_accuracy(c), *recorded_accuracy, 1, "accuracy");
    /* A class without examples and predictions counts in no mean. */
    br_tensor *more = br_pad(c, 4, (int64_t[]){ 0, 2, 0, 2 }, BR_PAD_CONSTANT, 0);
    check_values(br_fbeta_score(more, 1, BR_AVERAGE_MACRO), &recorded_measures[2][1], 1, "macro");
    check_values(br_fbeta_score(more, 1, BR_AVERAGE_WEIGHTED), &recorded_measures[2][2], 1,
                 "weighted");
    /* A class that is never predicted counts. */
    br_tensor *missed = br_from_i64(BR_SHAPE(2, 2), (int64_t[]){ 2, 0, 3, 0 });
    check_values(br_fbeta_score(missed, 1, BR_AVERAGE_MACRO), (double[]){ 2.0 / 7 }, 1, "missed");
    br_tensor *none = br_zeros(BR_SHAPE(2, 2), BR_I64);
    check_values(br_accuracy(none), (double[]){ NAN }, 1, "no examples");
    check_values(br_recall(none, BR_AVERAGE_MACRO), (double[]){ 0 }, 1, "no examples");
}

static br_tensor *numbers(int64_t n, int64_t most, double divisor)
{
    int64_t values[3 * N];
    series((int)n, most, 5, values);
    return br_div_scalar(br_to(integers(n, values), BR_F64), divisor);
}

Test(metrics, area_under_the_curve)
{
    int64_t positives[N], many[N];
    series(N, 2, 11, positives);
    series(N, 3, 11, many);
    br_tensor *scores = numbers(N, 9, 8), *targets = integers(N, positives);
    check_values(br_auroc(scores, targets, BR_AVERAGE_MACRO), *recorded_areas, 1, "binary");
    check_values(br_auroc(br_to(scores, BR_F32), br_to(targets, BR_BOOL), BR_AVERAGE_NONE),
                 *recorded_areas, 1, "f32 and bool");
    scores = br_reshape(numbers(3 * N, 17, 40), BR_SHAPE(N, 3));
    for (br_average a = BR_AVERAGE_MICRO; a <= BR_AVERAGE_NONE; a++)
        check_values(br_auroc(scores, integers(N, many), a), &recorded_areas[0][1 + a],
                     a == BR_AVERAGE_NONE ? 3 : 1, "classes");
    br_tensor *ones = br_ones(BR_SHAPE(2), BR_F64);
    check_values(br_auroc(ones, br_ones(BR_SHAPE(2), BR_I64), 0), (double[]){ NAN }, 1,
                 "one class");
    check_values(br_auroc(br_full(BR_SHAPE(2), INFINITY, BR_F32),
                          br_from_i64(BR_SHAPE(2), (int64_t[]){ 0, 1 }), 0),
                 (double[]){ 0.5 }, 1, "a tie");
}

/* ---- Texts ----------------------------------------------------------------------------------- */

Test(metrics, perplexity)
{
    int64_t words[12];
    series(12, 4, 11, words);
    br_tensor *logits = br_reshape(numbers(48, 11, 4), BR_SHAPE(2, 6, 4));
    br_tensor *targets = br_reshape(integers(12, words), BR_SHAPE(2, 6));
    check_values(br_perplexity(logits, targets, BR_NONE), *recorded_perplexity, 1, "all");
    check_values(br_perplexity(br_to(logits, BR_F32), targets, 2), &recorded_perplexity[0][1], 1,
                 "without 2");
}

enum { TEXTS = 8 };
static const char *const hypotheses[TEXTS] = { "The cat sat on the mat.",
                                               "It's 3.5 percent, isn't it?",
                                               "a b",
                                               "",
                                               "Tom &amp; Jerry-\nlike <skipped>shows &lt;now&gt;",
                                               "the the the the",
                                               "\xc3\x84rger \xe2\x80\x83 und \xc3\x9c"
                                               "bermut",
                                               "10-20 items: $5,000.00 / 1,5" };
static const char *const references[2 * TEXTS] = { "The cat is on the mat.",
                                                   "It is 3.5 percent, is it not?",
                                                   "a b c",
                                                   "x",
                                                   "Tom & Jerry-like shows <now>",
                                                   "the cat the dog",
                                                   "\xc3\xa4rger und \xc3\xbc"
                                                   "bermut",
                                                   "10 - 20 items : $ 5,000.00 / 1,5",
                                                   "There is a cat on the mat",
                                                   NULL,
                                                   "a b",
                                                   "",
                                                   NULL,
                                                   "the the",
                                                   NULL,
                                                   "10-20 things" };

static void check_bleu(const br_bleu_score *s, const double *expected, int orders, int row)
{
    double values[4 + BR_BLEU_ORDERS] = { s->score, s->bp, (double)s->sys_len, (double)s->ref_len };
    memcpy(values + 4, s->precisions, sizeof s->precisions);
    for (int i = 0; i < 4 + orders; i++)
        cr_assert(fabs(values[i] - expected[i]) <= 1e-12 * fmax(1, expected[i]),
                  "row %d: value %d is %.17g, not %.17g", row, i, values[i], expected[i]);
}

Test(metrics, bleu)
{
    br_bleu_options o = br_bleu_defaults();
    br_bleu_score s;
    for (int i = 0; i < COUNT(recorded_bleu); i++) {
        o.smooth_method = i / 6;
        o.tokenize = i / 2 % 3;
        o.lowercase = i % 2;
        cr_assert(br_bleu(TEXTS, hypotheses, 2, references, &o, &s), "%s", br_error_message());
        check_bleu(&s, recorded_bleu[i], 4, i);
    }
    br_bleu(TEXTS, hypotheses, 2, references,
            BR_OPTIONS(br_bleu, .max_ngram_order = 2, .smooth_method = BR_BLEU_SMOOTH_FLOOR,
                       .smooth_value = 0.5),
            &s);
    check_bleu(&s, *recorded_orders, 2, 0);
    /* The script replaces &amp; before &lt;, so that this is one token, <. */
    const char *const text = "a &amp;lt; b c", *const same = "a < b c";
    br_bleu(1, &text, 1, &same, NULL, &s);
    cr_assert(fabs(s.score - 100) <= 1e-12 * 100, "%.17g", s.score);
}

Test(metrics, bleu_of_sentences)
{
    br_bleu_score s;
    for (int i = 0; i < TEXTS; i++) {
        const char *const both[] = { references[i], references[TEXTS + i] };
        cr_assert(
            br_bleu(1, &hypotheses[i], 2, both, BR_OPTIONS(br_bleu, .effective_order = true), &s));
        check_bleu(&s, recorded_sentences[i], 4, i);
    }
}

/* ---- Errors ---------------------------------------------------------------------------------- */

Test(metrics, wrong_arguments)
{
    const br_error wrong = BR_ERROR_ARGUMENT, shape = BR_ERROR_SHAPE, dtype = BR_ERROR_DTYPE;
    br_tensor *t = br_from_i64(BR_SHAPE(2), (int64_t[]){ 0, 2 }),
              *x = br_ones(BR_SHAPE(2, 3), BR_F32);
    br_tensor *c = br_ones(BR_SHAPE(2, 2), BR_I64);
    check_fails_with(br_confusion_matrix(t, t, 2, BR_NONE), BR_ERROR_INDEX,
                     "targets: element 1 is 2, must be a class in 0 .. 1");
    check_fails_with(br_confusion_matrix(t, br_zeros_like(t), 2, BR_NONE), BR_ERROR_INDEX,
                     "predictions: element 1");
    check_fails_with(br_confusion_matrix(t, t, 0, BR_NONE), wrong, "num_classes is 0");
    check_fails_with(br_confusion_matrix(x, t, 4, BR_NONE), shape, "with 4 classes");
    check_fails_with(br_confusion_matrix(c, t, 3, BR_NONE), shape, "must have one shape");
    check_fails_with(br_confusion_matrix(x, x, 3, BR_NONE), dtype,
                     "targets is f32, must be integers");
    check_fails_with(br_accuracy(t), shape, "confusion is [2], must be [classes, classes]");
    check_fails_with(br_precision(c, 4), wrong, "average is 4");
    check_fails_with(br_fbeta_score(c, -1, BR_AVERAGE_MACRO), wrong, "beta is -1");
    check_fails_with(br_auroc(x, br_zeros(BR_SHAPE(3), BR_I64), 0), shape,
                     "scores [2, 3] and targets [3]");
    check_fails_with(br_auroc(br_full(BR_SHAPE(2), NAN, BR_F32), t, 0), wrong, "contain NaN");
    check_fails_with(br_auroc(br_ones(BR_SHAPE(2), BR_F32), t, 0), BR_ERROR_INDEX,
                     "element 1 is 2");
    check_fails_with(br_perplexity(x, br_zeros(BR_SHAPE(3), BR_I64), BR_NONE), shape,
                     "logits [2, 3] and targets [3]: must be [..., classes] and [...]");
    br_bleu_score s;
    const char *texts[] = { "a", NULL };
    check_fails_with(br_bleu(0, texts, 1, texts, NULL, &s), wrong, "n is 0, must be at least 1");
    check_fails_with(br_bleu(2, texts, 1, texts, NULL, &s), wrong, "hypotheses[1] is NULL");
    check_fails_with(br_bleu(1, texts, 1, texts + 1, NULL, &s), wrong,
                     "all references of text 0 are NULL");
    check_fails_with(br_bleu(1, texts, 1, texts, BR_OPTIONS(br_bleu, .max_ngram_order = 17), &s),
                     wrong, "max_ngram_order is 17, must be 1 .. 16");
    check_fails_with(br_bleu(1, texts, 1, texts, BR_OPTIONS(br_bleu, .tokenize = 3), &s), wrong,
                     "tokenize is 3");
    check_fails_with(br_bleu(1, texts, 1, texts, BR_OPTIONS(br_bleu, .smooth_value = -1), &s),
                     wrong, "smooth_value is -1");
}

static bool all_measures(void)
{
    br_scope *own = br_scope_begin();
    br_bleu_score s;
    br_tensor *c = confusion_of_all();
    bool ok = br_fbeta_score(c, 1, BR_AVERAGE_MACRO) &&
              br_auroc(numbers(4, 9, 8), br_from_i64(BR_SHAPE(4), (int64_t[]){ 0, 1, 1, 0 }), 0) &&
              br_bleu(TEXTS, hypotheses, 2, references, BR_OPTIONS(br_bleu, .lowercase = true), &s);
    br_scope_end(own);
    return ok;
}

Test(metrics, memory_that_runs_out)
{
    br_scope_end(scope);
    fail_in_turn(all_measures, "measures");
    scope = br_scope_begin();
}
