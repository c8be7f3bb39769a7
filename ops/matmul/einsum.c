/* ops/matmul/einsum.c - sums of products in Einstein notation.
 *
 * Every dimension of an operand has a label: the label of its letter or, in an ellipsis, that of
 * its position, counted from the last. Repeated labels of an operand become its diagonal. Then
 * operands are multiplied from left to right. In each product, labels that are not needed later are
 * summed: directly if only one operand has them, otherwise by a batched product. Autograd records
 * the operations that einsum is composed of. */
#include "ops/autocast.h"
#include "ops/pointwise/widen.h"
#include "tensor/min_max.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

enum { LETTERS = 52, LABELS = LETTERS + BR_MAX_DIMS };

/* A tensor and the labels of its dimensions. */
typedef struct term {
    br_tensor *t;
    int n;
    int labels[BR_MAX_DIMS];
} term;

typedef struct plan {
    const char *equation;
    int n; /* number of operands */
    br_tensor *const *operands;
    int64_t sizes[LABELS]; /* -1: no operand has the label */
    int from[LABELS];      /* the operand that has this size */
    int uses[LABELS];      /* how often a letter occurs in the operands */
    int ellipsis;          /* the largest number of dimensions of an ellipsis */
    int n_out;
    int out[LABELS];
} plan;

static void *fail(const plan *p, const char *what)
{
    return br_fail(BR_ERROR_ARGUMENT, "einsum", "\"%s\": %s", br_printable(p->equation), what);
}

/* Labels are ordered A to Z, then a to z, which is their order in an implicit result. */
static int letter_label(char c)
{
    return isupper((unsigned char)c) ? c - 'A' : c - 'a' + LETTERS / 2;
}

/* ---- Subscripts ------------------------------------------------------------------------------ */

/* Parses one operand's subscripts, for `ndim` dimensions, up to a comma, an arrow or the end. */
static const char *read_term(plan *p, const char *at, int ndim, term *out)
{
    int letters = 0, before = -1;
    int labels[BR_MAX_DIMS];
    for (; *at && *at != ',' && *at != '-'; at++) {
        if (*at == ' ')
            continue;
        if (strncmp(at, "...", 3) == 0) {
            if (before >= 0)
                return fail(p, "an operand has two ellipses");
            before = letters;
            at += 2;
        } else if (!isalpha((unsigned char)*at)) {
            return fail(p, "subscripts must be letters or \"...\"");
        } else if (letters == ndim) {
            return fail(p, "an operand has more subscripts than dimensions");
        } else {
            labels[letters++] = letter_label(*at);
        }
    }
    if (before < 0 && letters < ndim)
        return fail(p, "an operand has fewer subscripts than dimensions");
    int dots = ndim - letters;
    out->n = 0;
    for (int i = 0; i <= letters; i++) {
        for (int k = 0; i == before && k < dots; k++)
            out->labels[out->n++] = LABELS - dots + k;
        if (i < letters)
            out->labels[out->n++] = labels[i];
    }
    p->ellipsis = br__max(dots, p->ellipsis);
    return at;
}

static int place_of(const term *t, int label)
{
    for (int i = 0; i < t->n; i++)
        if (t->labels[i] == label)
            return i;
    return -1;
}

/* Sets an error that names the subscript and its sizes in two operands, or twice in one. */
static bool refuse_size(const plan *p, int label, int first, int64_t known, int operand,
                        int64_t size)
{
    char name[16] = "...";
    if (label < LETTERS)
        snprintf(name, sizeof name, "%c",
                 label < LETTERS / 2 ? 'A' + label : 'a' + label - LETTERS / 2);
    br_fail(BR_ERROR_SHAPE, "einsum",
            "\"%s\": subscript '%s' has size %" PRId64 " in operand %d %s, but size %" PRId64
            " in operand %d %s",
            br_printable(p->equation), name, known, first, br__shape(p->operands[first]), size,
            operand, br__shape(p->operands[operand]));
    return false;
}

/* Records the sizes of a term's labels. Size 1 broadcasts to any other, except within the same
 * term. */
static bool note_sizes(plan *p, const term *t, int operand)
{
    for (int i = 0; i < t->n; i++) {
        int label = t->labels[i];
        int64_t size = t->t->sizes[i], known = p->sizes[label];
        bool fits = known < 0 || known == 1 || size == 1 || size == known;
        int64_t first = t->t->sizes[place_of(t, label)]; /* the first size within this term */
        if (first != size)
            return refuse_size(p, label, operand, first, operand, size);
        if (!fits)
            return refuse_size(p, label, p->from[label], known, operand, size);
        if (known < 0 || known == 1) {
            p->sizes[label] = size;
            p->from[label] = operand;
        }
        if (label < LETTERS)
            p->uses[label]++;
    }
    return true;
}

/* Parses the result's labels. */
static bool read_output(plan *p, const char *at)
{
    bool seen[LABELS] = { false }, dots = false;
    for (; *at; at++) {
        if (*at == ' ')
            continue;
        if (strncmp(at, "...", 3) == 0 && !dots) {
            for (int k = 0; k < p->ellipsis; k++)
                p->out[p->n_out++] = LABELS - p->ellipsis + k;
            dots = true;
            at += 2;
            continue;
        }
        if (!isalpha((unsigned char)*at))
            return fail(p, "result subscripts must be letters and one \"...\"") != NULL;
        int label = letter_label(*at);
        if (seen[label])
            return fail(p, "a subscript occurs twice in the result") != NULL;
        if (p->uses[label] == 0)
            return fail(p, "the result has a subscript that no operand has") != NULL;
        seen[label] = true;
        p->out[p->n_out++] = label;
    }
    return true;
}

/* Sets the result's labels if the equation has no "->": the ellipsis, then the letters that occur
 * once, in order. */
static void imply_output(plan *p)
{
    for (int k = 0; k < p->ellipsis; k++)
        p->out[p->n_out++] = LABELS - p->ellipsis + k;
    for (int label = 0; label < LETTERS; label++)
        if (p->uses[label] == 1)
            p->out[p->n_out++] = label;
}

/* ---- Terms ----------------------------------------------------------------------------------- */

static void drop(term *t, int i)
{
    t->n--;
    memmove(t->labels + i, t->labels + i + 1, (size_t)(t->n - i) * sizeof *t->labels);
}

/* Replaces two dimensions with the same label by their diagonal; returns false if there are
 * none. */
static bool merge_repeated(term *t)
{
    for (int k = 1; k < t->n && !br_failed(); k++) {
        int label = t->labels[k], i = place_of(t, label);
        if (i == k)
            continue;
        t->t = br_diagonal(t->t, 0, i, k);
        drop(t, k);
        drop(t, i);
        t->labels[t->n++] = label;
        return true;
    }
    return false;
}

/* Merges repeated labels, and removes dimensions of size 1 that are larger in another operand. */
static void simplify(const plan *p, term *t)
{
    while (merge_repeated(t))
        continue;
    for (int i = t->n - 1; i >= 0 && !br_failed(); i--) {
        if (br_size(t->t, i) != 1 || p->sizes[t->labels[i]] == 1)
            continue;
        t->t = br_select(t->t, i, 0);
        drop(t, i);
    }
}

/* Sums over the labels for which `needed` is not set. */
static void sum_out(term *t, const bool *needed)
{
    int64_t dims[BR_MAX_DIMS];
    int n = 0, kept = 0;
    for (int i = 0; i < t->n; i++) {
        if (needed[t->labels[i]])
            t->labels[kept++] = t->labels[i];
        else
            dims[n++] = i;
    }
    t->n = kept;
    if (n > 0)
        t->t = br_sum_dim(t->t, n, dims, false);
}

/* Permutes t's dimensions to the order of the labels. t has all of these labels. */
static br_tensor *in_order(const term *t, int n, const int *labels)
{
    int64_t dims[BR_MAX_DIMS];
    for (int i = 0; i < n; i++)
        dims[i] = place_of(t, labels[i]);
    return br_permute(t->t, n, dims);
}

/* The labels of two terms in four consecutive groups. */
typedef struct groups {
    int labels[2 * BR_MAX_DIMS];
    int batch, left, right, sum; /* number of labels in each */
} groups;

static groups group(const term *a, const term *b, const bool *needed)
{
    groups g = { .batch = 0 };
    int n = 0;
    for (int i = 0; i < a->n; i++)
        if (place_of(b, a->labels[i]) >= 0 && needed[a->labels[i]])
            g.labels[n++] = a->labels[i];
    g.batch = n;
    for (int i = 0; i < a->n; i++)
        if (place_of(b, a->labels[i]) < 0)
            g.labels[n++] = a->labels[i];
    g.left = n - g.batch;
    for (int i = 0; i < b->n; i++)
        if (place_of(a, b->labels[i]) < 0)
            g.labels[n++] = b->labels[i];
    g.right = n - g.batch - g.left;
    for (int i = 0; i < a->n; i++)
        if (place_of(b, a->labels[i]) >= 0 && !needed[a->labels[i]])
            g.labels[n++] = a->labels[i];
    g.sum = n - g.batch - g.left - g.right;
    return g;
}

static int64_t product_of(const plan *p, const int *labels, int n)
{
    int64_t product = 1;
    for (int i = 0; i < n; i++)
        product *= p->sizes[labels[i]];
    return product;
}

/* Returns t as [batch, first, second], each of which is a list of labels. */
static br_tensor *as_batch(const plan *p, const term *t, const int *batch, int n_batch,
                           const int *first, int n_first, const int *second, int n_second)
{
    int labels[BR_MAX_DIMS];
    memcpy(labels, batch, (size_t)n_batch * sizeof *labels);
    memcpy(labels + n_batch, first, (size_t)n_first * sizeof *labels);
    memcpy(labels + n_batch + n_first, second, (size_t)n_second * sizeof *labels);
    return br_reshape(in_order(t, t->n, labels),
                      BR_SHAPE(product_of(p, batch, n_batch), product_of(p, first, n_first),
                               product_of(p, second, n_second)));
}

/* Computes a product without summation: a as [batch, left, 1 ...] times b as [batch, 1 ...,
 * right]. */
static br_tensor *spread_product(const term *a, const term *b, const groups *g)
{
    br_tensor *left = in_order(a, g->batch + g->left, g->labels);
    int labels[BR_MAX_DIMS];
    memcpy(labels, g->labels, (size_t)g->batch * sizeof *labels);
    memcpy(labels + g->batch, g->labels + g->batch + g->left, (size_t)g->right * sizeof *labels);
    br_tensor *right = in_order(b, g->batch + g->right, labels);
    for (int i = 0; i < g->right; i++)
        left = br_unsqueeze(left, -1);
    for (int i = 0; i < g->left; i++)
        right = br_unsqueeze(right, g->batch);
    return br_mul(left, right);
}

static br_tensor *batched_product(const plan *p, const term *a, const term *b, const groups *g)
{
    const int *left = g->labels + g->batch, *right = left + g->left, *sum = right + g->right;
    int64_t sizes[BR_MAX_DIMS];
    br_tensor *rows = as_batch(p, a, g->labels, g->batch, left, g->left, sum, g->sum);
    br_tensor *columns = as_batch(p, b, g->labels, g->batch, sum, g->sum, right, g->right);
    int n = g->batch + g->left + g->right;
    for (int i = 0; i < n; i++)
        sizes[i] = p->sizes[g->labels[i]];
    return br_reshape(br_bmm(rows, columns), n, sizes);
}

/* Multiplies two terms into a, summing over labels that are not needed later. */
static void multiply(const plan *p, term *a, term *b, const bool *needed)
{
    bool kept[2][LABELS];
    for (int label = 0; label < LABELS; label++) {
        kept[0][label] = needed[label] || place_of(b, label) >= 0;
        kept[1][label] = needed[label] || place_of(a, label) >= 0;
    }
    sum_out(a, kept[0]);
    sum_out(b, kept[1]);
    groups g = group(a, b, needed);
    int n = g.batch + g.left + g.right;
    if (n > BR_MAX_DIMS)
        fail(p, "a product would have too many dimensions");
    if (br_failed())
        return;
    a->t = g.sum == 0 ? spread_product(a, b, &g) : batched_product(p, a, b, &g);
    a->n = n;
    memcpy(a->labels, g.labels, (size_t)n * sizeof *a->labels);
}

/* ---- The operation --------------------------------------------------------------------------- */

static bool read_equation(plan *p, term *terms)
{
    const char *at = p->equation;
    for (int i = 0; i < p->n; i++) {
        terms[i].t = p->operands[i];
        at = read_term(p, at, br_ndim(terms[i].t), &terms[i]);
        if (!at || !note_sizes(p, &terms[i], i))
            return false;
        if (i < p->n - 1 && *at++ != ',')
            return fail(p, "there are more operands than subscripts") != NULL;
    }
    if (*at == ',')
        return fail(p, "there are fewer operands than subscripts") != NULL;
    if (*at == '\0') {
        imply_output(p);
        return true;
    }
    if (at[1] != '>')
        return fail(p, "the arrow must be written as ->") != NULL;
    return read_output(p, at + 2);
}

/* Marks the labels of the result and of terms first .. n - 1. */
static void find_needed(const plan *p, const term *terms, int first, bool *needed)
{
    memset(needed, 0, LABELS * sizeof *needed);
    for (int i = 0; i < p->n_out; i++)
        needed[p->out[i]] = true;
    for (int i = first; i < p->n; i++)
        for (int k = 0; k < terms[i].n; k++)
            needed[terms[i].labels[k]] = true;
}

static br_tensor *evaluate(plan *p, term *terms)
{
    bool needed[LABELS];
    if (!read_equation(p, terms))
        return NULL;
    if (p->n_out > BR_MAX_DIMS)
        return fail(p, "the result would have too many dimensions");
    for (int i = 0; i < p->n; i++)
        simplify(p, &terms[i]);
    for (int i = 1; i < p->n && !br_failed(); i++) {
        find_needed(p, terms, i + 1, needed);
        multiply(p, &terms[0], &terms[i], needed);
    }
    find_needed(p, terms, p->n, needed);
    if (!br_failed())
        sum_out(&terms[0], needed);
    return br_failed() ? NULL : in_order(&terms[0], p->n_out, p->out);
}

/* The operation of operands that are converted to the dtype of a region. */
static br_tensor *lowered_einsum(br_autocast *cast, const char *equation, int n,
                                 br_tensor *const *operands)
{
    br_tensor **lowered = br_calloc((size_t)n, sizeof *lowered);
    for (int i = 0; lowered && i < n; i++)
        lowered[i] = LOWER(operands[i]);
    br_tensor *y = lowered ? br_einsum(equation, n, lowered) : NULL;
    br_free(lowered);
    return y;
}

br_tensor *br_einsum(const char *equation, int n, br_tensor *const *operands)
{
    BR_OP("einsum");
    if (br_failed())
        return NULL;
    if (!equation || n < 1 || !operands)
        return br_fail(BR_ERROR_ARGUMENT, "einsum",
                       "an equation and at least one operand are required");
    BR_AUTOCAST(lowered_einsum(cast, equation, n, operands))
    for (int i = 0; i < n; i++)
        if (!br__required("einsum", "an operand", operands[i]) ||
            !br__is_number("einsum", "an operand", operands[i]) ||
            !br__compatible("einsum", "operand 0", operands[0], "an operand", operands[i]))
            return NULL;
    plan p = { .equation = equation, .n = n, .operands = operands };
    for (int i = 0; i < LABELS; i++)
        p.sizes[i] = -1;
    term *terms = br_malloc((size_t)n * sizeof *terms);
    br_scope *scope = br_scope_begin();
    br_tensor *y = br__composed(scope, terms ? evaluate(&p, terms) : NULL);
    br_free(terms);
    return y;
}
