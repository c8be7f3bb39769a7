/* brasa/metrics.h - measures of predictions: those of torchmetrics, scikit-learn and sacrebleu.
 *
 *     br_tensor *confusion = br_confusion_matrix(logits, targets, 3, BR_NONE);
 *     double accuracy = br_item(br_accuracy(confusion));
 *     double f1 = br_item(br_fbeta_score(confusion, 1, BR_AVERAGE_MACRO));
 *
 * The measures of classes are computed from a confusion matrix. The matrices of several batches are
 * added (br_add()) before a measure is computed, which gives that of all examples. Results are f64
 * and have no gradients. */
#ifndef BRASA_METRICS_H
#define BRASA_METRICS_H

#include <brasa/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Classes --------------------------------------------------------------------------------- */

/* Returns the matrix [num_classes, num_classes] of i64, whose element [i, j] is the number of
 * examples of class i that were predicted as class j. `targets` are classes (i64, i32, i8 or u8) in
 * 0 .. num_classes - 1. `predictions` are classes in the same shape, or scores of floating dtype
 * with one dimension more, which is dimension 1 (as in br_cross_entropy(), [n, classes, ...]): the
 * prediction is the class of the largest score. Examples with the target ignore_index do not count;
 * BR_NONE: all count. Another class is BR_ERROR_INDEX. */
BR_API br_tensor *br_confusion_matrix(br_tensor *predictions, br_tensor *targets,
                                      int64_t num_classes, int64_t ignore_index);

typedef enum br_average {
    BR_AVERAGE_MICRO,    /* of all examples */
    BR_AVERAGE_MACRO,    /* the mean over the classes that are a target or a prediction */
    BR_AVERAGE_WEIGHTED, /* the mean over the classes, weighted by the numbers of their examples */
    BR_AVERAGE_NONE,     /* one number for each class: [num_classes] */
} br_average;

/* Returns the fraction of examples that were predicted rightly; NaN if there are none. */
BR_API br_tensor *br_accuracy(br_tensor *confusion);
/* Return, for each class or averaged, the fraction of its predictions that are right (precision),
 * the fraction of its examples that are found (recall), and the weighted harmonic mean of the two,
 * (1 + beta^2) precision recall / (beta^2 precision + recall) (F-beta, F1 for beta = 1). 0 / 0 is
 * 0. For two classes, [1] of BR_AVERAGE_NONE is the measure of the positive class. */
BR_API br_tensor *br_precision(br_tensor *confusion, br_average average);
BR_API br_tensor *br_recall(br_tensor *confusion, br_average average);
BR_API br_tensor *br_fbeta_score(br_tensor *confusion, double beta, br_average average);

/* Returns the area under the ROC curve: the probability that a positive example has a higher score
 * than a negative one, where ties count half. `scores` of floating dtype are [n] with targets [n]
 * of 0 and 1 (bool or integers), which gives a scalar; or [n, classes] with classes [n], which
 * gives the area of each class against the others and averages as `average` says (macro over all
 * classes). It is NaN if there are no positive or no negative examples. A score that is NaN is
 * BR_ERROR_ARGUMENT. */
BR_API br_tensor *br_auroc(br_tensor *scores, br_tensor *targets, br_average average);

/* ---- Texts ----------------------------------------------------------------------------------- */

/* Returns exp of the mean cross-entropy of logits [..., classes] and targets [...] (i64 or u8),
 * computed in f64. Targets equal to ignore_index do not count; BR_NONE: all count. */
BR_API br_tensor *br_perplexity(br_tensor *logits, br_tensor *targets, int64_t ignore_index);

typedef enum br_bleu_tokenize {
    BR_BLEU_13A,  /* as mteval-v13a, of the WMT conferences: punctuation is split off */
    BR_BLEU_CHAR, /* characters */
    BR_BLEU_NONE, /* words between spaces, for texts that are split into tokens already */
} br_bleu_tokenize;

typedef enum br_bleu_smooth {
    BR_BLEU_SMOOTH_EXP,   /* halves the precision for each order without a match */
    BR_BLEU_SMOOTH_FLOOR, /* counts smooth_value matches where there are none; default 0.1 */
    BR_BLEU_SMOOTH_ADD_K, /* adds smooth_value to both counts from order 2 on; default 1 */
    BR_BLEU_SMOOTH_NONE,
} br_bleu_smooth;

typedef struct br_bleu_options {
    size_t struct_size;
    br_bleu_tokenize tokenize;
    br_bleu_smooth smooth_method;
    double smooth_value;     /* BR_NONE_F64: the method's default */
    int64_t max_ngram_order; /* 1 .. BR_BLEU_ORDERS */
    bool lowercase;          /* as str.lower() */
    bool effective_order;    /* leave out orders that the hypotheses are too short for; set it to
                                score a single sentence */
} br_bleu_options;
#define br_bleu_default_fields \
    .struct_size = sizeof(br_bleu_options), .smooth_value = BR_NONE_F64, .max_ngram_order = 4
BR_API br_bleu_options br_bleu_defaults(void);

enum { BR_BLEU_ORDERS = 16 };

typedef struct br_bleu_score {
    double score; /* 0 .. 100 */
    double bp;    /* brevity penalty */
    int64_t sys_len,
        ref_len; /* tokens of the hypotheses, and of the references closest in length */
    double precisions[BR_BLEU_ORDERS]; /* in percent, of n-grams of 1, 2, ... tokens */
    double counts[BR_BLEU_ORDERS], totals[BR_BLEU_ORDERS]; /* n-grams that match, and all; with
                                                              smooth_value added, if it is */
} br_bleu_score;

/* Computes BLEU of n texts, UTF-8, as sacrebleu's corpus_bleu(). Text i has the references
 * references[r * n + i] for r = 0 .. n_references - 1, of which all but one may be NULL. Returns
 * false and an error on failure. `options` may be NULL. */
BR_API bool br_bleu(int64_t n, const char *const *hypotheses, int64_t n_references,
                    const char *const *references, const br_bleu_options *options,
                    br_bleu_score *score);

#ifdef __cplusplus
}
#endif

#endif
