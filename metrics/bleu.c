/* metrics/bleu.c - BLEU (Papineni et al. 2002), as sacrebleu computes it: the geometric mean of the
 * precisions of n-grams, times a penalty for texts that are shorter than their references.
 * Smoothing: Chen and Cherry 2014. */
#include "metrics/bleu_internal.h"
#include "tensor/min_max.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

BR_DEFINE_DEFAULTS(br_bleu)

/* ---- One text -------------------------------------------------------------------------------- */

/* The tokens of a text (segment 0) and of its references (1, 2, ...), one after the other. */
typedef struct segments {
    br__text bytes;
    int64_t n;      /* segments */
    int64_t *first; /* the place of each segment's first token, and the number of all */
    int64_t *words; /* for each place, a number that equal tokens share */
    int64_t *grams; /* for each place, a number that equal n-grams of the present order share */
} segments;

/* An n-gram: an n-gram that is shorter by one, and the word after it. */
typedef struct gram {
    int64_t left, right, segment, place;
} gram;

static int compare_grams(const void *a, const void *b)
{
    const gram *x = a, *y = b;
    if (x->left != y->left)
        return x->left < y->left ? -1 : 1;
    if (x->right != y->right)
        return x->right < y->right ? -1 : 1;
    return (x->segment > y->segment) - (x->segment < y->segment);
}

typedef struct word {
    const char *text;
    int64_t place;
} word;

static int compare_words(const void *a, const void *b)
{
    return strcmp(((const word *)a)->text, ((const word *)b)->text);
}

/* Gives equal tokens equal numbers. */
static bool number_words(segments *s)
{
    int64_t n = s->first[s->n];
    word *sorted = br_malloc((size_t)n * sizeof *sorted);
    const char *at = s->bytes.data;
    for (int64_t i = 0; sorted && i < n; i++, at += strlen(at) + 1)
        sorted[i] = (word){ at, i };
    if (sorted && n > 0)
        qsort(sorted, (size_t)n, sizeof *sorted, compare_words);
    for (int64_t i = 0, number = 0; sorted && i < n; i++) {
        number += i > 0 && compare_words(&sorted[i - 1], &sorted[i]) != 0;
        s->words[sorted[i].place] = number;
        s->grams[i] = 0;
    }
    bool ok = sorted != NULL;
    br_free(sorted);
    return ok;
}

/* Stores the n-grams of an order; returns their number. */
static int64_t list_grams(const segments *s, int64_t order, gram *grams)
{
    int64_t n = 0;
    for (int64_t segment = 0; segment < s->n; segment++)
        for (int64_t i = s->first[segment]; i + order <= s->first[segment + 1]; i++)
            grams[n++] = (gram){ s->grams[i], s->words[i + order - 1], segment, i };
    return n;
}

/* Counts those of `count` equal n-grams, sorted by segment, that are in the text and in a
 * reference: at most as many as the reference that has most of them. Gives them the number `id`. */
static int64_t count_matches(segments *s, const gram *grams, int64_t count, int64_t id)
{
    int64_t own = 0, most = 0;
    for (int64_t i = 0, same = 0; i < count; i++) {
        s->grams[grams[i].place] = id;
        same = i > 0 && grams[i - 1].segment == grams[i].segment ? same + 1 : 1;
        if (grams[i].segment == 0)
            own++;
        else
            most = br__max(most, same);
    }
    return br__min(own, most);
}

/* Adds the numbers of n-grams that match, and of all, for each order. */
static bool count_orders(segments *s, int64_t orders, br_bleu_score *score)
{
    int64_t n = s->first[s->n];
    gram *grams = br_malloc((size_t)n * sizeof *grams);
    for (int64_t order = 1; grams && order <= orders; order++) {
        int64_t found = list_grams(s, order, grams);
        if (found > 0)
            qsort(grams, (size_t)found, sizeof *grams, compare_grams);
        for (int64_t i = 0, end; i < found; i = end) {
            for (end = i + 1; end < found && grams[end].left == grams[i].left &&
                              grams[end].right == grams[i].right;)
                end++;
            score->counts[order - 1] += (double)count_matches(s, grams + i, end - i, i);
        }
        score->totals[order - 1] += (double)br__max(s->first[1] - order + 1, 0);
    }
    bool ok = grams != NULL;
    br_free(grams);
    return ok;
}

/* Returns the length of the reference that is closest in length to the text, the shorter of two. */
static int64_t closest_length(const segments *s)
{
    int64_t own = s->first[1], best = s->first[2] - s->first[1];
    for (int64_t i = 2; i < s->n; i++) {
        int64_t length = s->first[i + 1] - s->first[i];
        int64_t difference = llabs(length - own) - llabs(best - own);
        if (difference < 0 || (difference == 0 && length < best))
            best = length;
    }
    return best;
}

static bool add_segment(segments *s, const char *text, const br_bleu_options *o)
{
    int64_t n = br__bleu_tokenize(text, o->tokenize, o->lowercase, &s->bytes);
    s->first[s->n + 1] = s->first[s->n] + n;
    s->n++;
    return n >= 0;
}

static bool count_segments(segments *s, const br_bleu_options *o, br_bleu_score *score)
{
    size_t n = (size_t)s->first[s->n];
    s->words = br_malloc(n * sizeof *s->words);
    s->grams = br_malloc(n * sizeof *s->grams);
    bool ok = s->words && s->grams && number_words(s) && count_orders(s, o->max_ngram_order, score);
    score->sys_len += s->first[1];
    score->ref_len += closest_length(s);
    br_free(s->words);
    br_free(s->grams);
    return ok;
}

/* Adds the counts of text i and its references. */
static bool add_text(int64_t n, const char *hypothesis, int64_t n_references,
                     const char *const *references, const br_bleu_options *o, br_bleu_score *score)
{
    segments s = { .first = br_calloc((size_t)n_references + 2, sizeof *s.first) };
    bool ok = s.first && add_segment(&s, hypothesis, o);
    for (int64_t r = 0; ok && r < n_references; r++)
        if (references[r * n])
            ok = add_segment(&s, references[r * n], o);
    ok = ok && count_segments(&s, o, score);
    br_free(s.bytes.data);
    br_free(s.first);
    return ok;
}

/* ---- The score ------------------------------------------------------------------------------- */

static double smooth_value(const br_bleu_options *o)
{
    if (!isnan(o->smooth_value))
        return o->smooth_value;
    return o->smooth_method == BR_BLEU_SMOOTH_FLOOR ? 0.1 : 1;
}

/* Sets the precisions; returns the number of orders of the score. */
static int64_t set_precisions(const br_bleu_options *o, br_bleu_score *s)
{
    double halves = 1, value = smooth_value(o);
    int64_t orders = o->max_ngram_order;
    for (int64_t i = 0; i < o->max_ngram_order; i++) {
        if (o->smooth_method == BR_BLEU_SMOOTH_ADD_K && i > 0) {
            s->counts[i] += value;
            s->totals[i] += value;
        }
        if (s->totals[i] == 0)
            break;
        if (o->effective_order)
            orders = i + 1;
        double matches = s->counts[i];
        if (matches == 0 && o->smooth_method == BR_BLEU_SMOOTH_EXP)
            matches = 1 / (halves *= 2);
        else if (matches == 0 && o->smooth_method == BR_BLEU_SMOOTH_FLOOR)
            matches = value;
        s->precisions[i] = 100 * matches / s->totals[i];
    }
    return orders;
}

static void set_score(const br_bleu_options *o, br_bleu_score *s)
{
    bool any = false;
    for (int64_t i = 0; i < o->max_ngram_order; i++)
        any = any || s->counts[i] > 0;
    s->bp = 1;
    if (s->sys_len < s->ref_len)
        s->bp = s->sys_len > 0 ? exp(1 - (double)s->ref_len / (double)s->sys_len) : 0;
    if (!any)
        return;
    double logs = 0;
    int64_t orders = set_precisions(o, s);
    for (int64_t i = 0; i < orders; i++)
        logs += log(s->precisions[i]);
    s->score = s->bp * exp(logs / (double)orders);
}

/* ---- Checks ---------------------------------------------------------------------------------- */

static bool good_options(const char *op, const br_bleu_options *o)
{
    if ((unsigned)o->tokenize > BR_BLEU_NONE)
        br_fail(BR_ERROR_ARGUMENT, op, "tokenize is %d, must be a br_bleu_tokenize",
                (int)o->tokenize);
    else if ((unsigned)o->smooth_method > BR_BLEU_SMOOTH_NONE)
        br_fail(BR_ERROR_ARGUMENT, op, "smooth_method is %d, must be a br_bleu_smooth",
                (int)o->smooth_method);
    else if (o->max_ngram_order < 1 || o->max_ngram_order > BR_BLEU_ORDERS)
        br_fail(BR_ERROR_ARGUMENT, op, "max_ngram_order is %" PRId64 ", must be 1 .. %d",
                o->max_ngram_order, BR_BLEU_ORDERS);
    else if (!isnan(o->smooth_value) && !(o->smooth_value >= 0 && o->smooth_value < INFINITY))
        br_fail(BR_ERROR_ARGUMENT, op,
                "smooth_value is %g, must be at least 0 and finite, or BR_NONE_F64",
                o->smooth_value);
    return !br_failed();
}

static bool good_texts(const char *op, int64_t n, const char *const *hypotheses,
                       int64_t n_references, const char *const *references)
{
    if (n < 1 || n_references < 1)
        return br_fail(BR_ERROR_ARGUMENT, op, "%s is %" PRId64 ", must be at least 1",
                       n < 1 ? "n" : "n_references", n < 1 ? n : n_references);
    if (!br__required(op, "hypotheses", hypotheses) || !br__required(op, "references", references))
        return false;
    for (int64_t i = 0; i < n; i++) {
        bool any = false;
        for (int64_t r = 0; r < n_references; r++)
            any = any || references[r * n + i];
        if (!hypotheses[i] || !any)
            return br_fail(BR_ERROR_ARGUMENT, op,
                           hypotheses[i] ? "all references of text %" PRId64 " are NULL"
                                         : "hypotheses[%" PRId64 "] is NULL, but it is required",
                           i);
    }
    return true;
}

bool br_bleu(int64_t n, const char *const *hypotheses, int64_t n_references,
             const char *const *references, const br_bleu_options *options, br_bleu_score *score)
{
    static const char op[] = "bleu";
    const br_bleu_options *o = BR_OPTIONS_OF(op, br_bleu, options);
    if (br_failed() || !br__required(op, "score", score) || !good_options(op, o) ||
        !good_texts(op, n, hypotheses, n_references, references))
        return false;
    br_bleu_score s = { 0 };
    for (int64_t i = 0; i < n; i++)
        if (!add_text(n, hypotheses[i], n_references, references + i, o, &s))
            return false;
    set_score(o, &s);
    *score = s;
    return true;
}
