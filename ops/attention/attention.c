/* ops/attention/attention.c - scaled dot product attention, which never stores the score matrix.
 *
 * The operation saves for its gradient: query, key, value, the mask, the output, the largest score
 * and the sum of exponentials of each query, and, with dropout, a bit for each score. */
#include "ops/autocast.h"
#include "ops/composed_internal.h"
#include "ops/pointwise/dropout_internal.h"
#include "ops/shape/view_internal.h"
#include "tensor/min_max.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

BR_DEFINE_DEFAULTS(br_attention)

static const char OP[] = "scaled_dot_product_attention";

/* Parameters of the gradient. */
typedef struct settings {
    double scale;
    bool causal, grouped;
    double dropout_scale; /* 0: everything is dropped */
} settings;

/* BITS: the dropout mask of the scores, from br__dropout_bits(). */
enum { QUERY, KEY, VALUE, MASK, BITS, OUT, SUMS, SAVED };

/* ---- Checks ---------------------------------------------------------------------------------- */

static bool check_tensor(const char *name, const br_tensor *t, const br_tensor *query)
{
    if (!br__required(OP, name, t) || !br__floating(OP, name, t) ||
        !br__compatible(OP, "query", query, name, t))
        return false;
    if (t->ndim >= 2)
        return true;
    br_fail(BR_ERROR_SHAPE, OP, "%s %s must have at least 2 dimensions", name, br__shape(t));
    return false;
}

static bool check_sizes(const char *a_name, const br_tensor *a, const char *b_name,
                        const br_tensor *b, int from_end, const char *what)
{
    if (a->sizes[a->ndim - from_end] == b->sizes[b->ndim - from_end])
        return true;
    br_fail(BR_ERROR_SHAPE, OP, "%s %s and %s %s must have the same %s", a_name, br__shape(a),
            b_name, br__shape(b), what);
    return false;
}

static bool check_groups(const br_tensor *query, const br_tensor *key, const br_tensor *value)
{
    if (query->ndim < 3 || key->ndim < 3 || value->ndim < 3) {
        br_fail(BR_ERROR_SHAPE, OP,
                "query %s, key %s, value %s: with enable_gqa all must have heads in dimension -3",
                br__shape(query), br__shape(key), br__shape(value));
        return false;
    }
    const int64_t heads = query->sizes[query->ndim - 3], groups = key->sizes[key->ndim - 3];
    if (!check_sizes("key", key, "value", value, 3, "number of heads"))
        return false;
    if (groups == 0 ? heads == 0 : heads % groups == 0)
        return true;
    br_fail(BR_ERROR_SHAPE, OP,
            "query %s, key %s: the number of query heads (%" PRId64
            ") must be a multiple of the number of key heads (%" PRId64 ")",
            br__shape(query), br__shape(key), heads, groups);
    return false;
}

/* Returns what to add to the message if the sizes of dimension -`from_end` are those of grouped
 * heads. */
static const char *gqa_hint(int from_end, int64_t own, int64_t query_size)
{
    return from_end == 3 && own > 0 && query_size % own == 0
               ? "; if each key head serves several query heads, set enable_gqa = true"
               : "";
}

/* Broadcasts the sizes of t's batch into those of the result, except for the last `skipped`
 * ones. */
static bool broadcast_batch(const char *name, const br_tensor *t, int skipped,
                            const br_tensor *query, int ndim, int64_t *sizes)
{
    for (int from_end = 3 + skipped; from_end <= t->ndim; from_end++) {
        int64_t *size = &sizes[ndim - from_end], own = t->sizes[t->ndim - from_end];
        if (own != *size && own != 1 && *size != 1) {
            br_fail(BR_ERROR_SHAPE, OP,
                    "%s %s does not broadcast with query %s: sizes %" PRId64 " and %" PRId64
                    " differ and neither is 1%s",
                    name, br__shape(t), br__shape(query), own, *size,
                    gqa_hint(from_end, own, *size));
            return false;
        }
        *size = *size == 1 ? own : *size;
    }
    return true;
}

/* Computes the result's shape. */
static bool result_shape(const br_tensor *query, const br_tensor *key, const br_tensor *value,
                         bool grouped, int *ndim, int64_t *sizes)
{
    int n = query->ndim;
    n = br__max(key->ndim, n);
    n = br__max(value->ndim, n);
    for (int i = 0; i < n; i++)
        sizes[i] = 1;
    *ndim = n;
    sizes[n - 2] = query->sizes[query->ndim - 2];
    sizes[n - 1] = value->sizes[value->ndim - 1];
    return broadcast_batch("query", query, 0, query, n, sizes) &&
           broadcast_batch("key", key, grouped, query, n, sizes) &&
           broadcast_batch("value", value, grouped, query, n, sizes);
}

static bool check_mask(const br_tensor *mask, const br_tensor *query, const br_tensor *key,
                       bool is_causal, int ndim, const int64_t *sizes)
{
    if (!mask)
        return true;
    int64_t scores[BR_MAX_DIMS];
    memcpy(scores, sizes, sizeof scores);
    scores[ndim - 1] = key->sizes[key->ndim - 2];
    if (is_causal) {
        br_fail(BR_ERROR_ARGUMENT, OP, "attn_mask %s must not be given with is_causal",
                br__shape(mask));
        return false;
    }
    if (!br__same_device(OP, "query", query, "attn_mask", mask))
        return false;
    if (mask->dtype != BR_BOOL && mask->dtype != query->dtype) {
        br_fail(BR_ERROR_DTYPE, OP, "attn_mask %s is %s, must be bool or %s like query",
                br__shape(mask), br_dtype_name(mask->dtype), br_dtype_name(query->dtype));
        return false;
    }
    bool fits = mask->ndim >= 2 && mask->ndim <= ndim;
    for (int i = 1; fits && i <= mask->ndim; i++)
        fits = mask->sizes[mask->ndim - i] == 1 || mask->sizes[mask->ndim - i] == scores[ndim - i];
    if (!fits)
        br_fail(
            BR_ERROR_SHAPE, OP,
            "attn_mask %s must broadcast to %s, the shape of the scores of query %s and key "
            "%s, and have at least 2 dimensions: unsqueeze a mask of keys [N, S] to [N, 1, 1, S]",
            br__shape(mask), br__shape_of(ndim, scores), br__shape(query), br__shape(key));
    return fits;
}

/* ---- The description of the work ------------------------------------------------------------- */

static br_attention_tensors work_of(const br_tensor *const *saved, const settings *s)
{
    return (br_attention_tensors){ .scale = s->scale,
                                   .causal = s->causal,
                                   .grouped = s->grouped,
                                   .dropout_scale = s->dropout_scale,
                                   .query = saved[QUERY],
                                   .key = saved[KEY],
                                   .value = saved[VALUE],
                                   .mask = saved[MASK],
                                   .bits = saved[BITS],
                                   .out = saved[OUT],
                                   .sums = saved[SUMS] };
}

/* Reports the work to the profiler: `width` products for each pair of a query and a key that it
 * attends to. */
static void count_work(const br_attention_tensors *t, int64_t width)
{
    const int64_t queries = t->query->sizes[t->query->ndim - 2];
    const int64_t keys = t->key->sizes[t->key->ndim - 2];
    int64_t shorter = br__min(queries, keys), pairs = queries * keys;
    if (t->causal)
        pairs = shorter * (shorter + 1) / 2 + (queries - shorter) * keys;
    for (int i = 0; i < t->out->ndim - 2; i++)
        pairs *= t->out->sizes[i];
    BR_WORK(2 * pairs * width, 0);
    BR_TRAFFIC(t->query, t->key, t->value, t->mask, t->bits, t->out, t->sums);
    BR_TRAFFIC(t->dout, t->dquery, t->dkey, t->dvalue, t->dmask);
}

/* Returns the size of the last dimension. */
static int64_t width_of(const br_tensor *t)
{
    return t->sizes[t->ndim - 1];
}

/* ---- The result ------------------------------------------------------------------------------ */

/* Computes the result for checked arguments and, for the gradient, *sums, which has two columns. */
static br_tensor *attend(const br_tensor *const *inputs, const settings *s, int ndim,
                         const int64_t *sizes, br_tensor **sums)
{
    *sums = NULL;
    const br_tensor *query = inputs[QUERY];
    const br_backend *backend = BR_BACKEND(OP, query, attention);
    if (!backend)
        return NULL;
    int64_t two_columns[BR_MAX_DIMS];
    memcpy(two_columns, sizes, sizeof two_columns);
    two_columns[ndim - 1] = 2;
    br_tensor *out = br__new_in_order(OP, query, ndim, sizes, query->dtype);
    *sums = br__new_on(OP, query, ndim, two_columns, br__computed(query->dtype));
    if (!out || !*sums)
        return NULL;
    br_attention_tensors work = work_of(inputs, s);
    work.out = out;
    work.sums = *sums;
    if (BR_PROFILING)
        count_work(&work, width_of(query) + width_of(inputs[VALUE]));
    return backend->attention(OP, &work) ? out : NULL;
}

/* ---- The composition, for gradients of gradients --------------------------------------------- */

/* Returns true where a query must not attend to a key; NULL if it attends to all keys. */
static br_tensor *hidden_keys(const settings *s, br_tensor *const *in, int64_t queries,
                              int64_t keys)
{
    if (s->causal)
        return br_triu(br_new_ones(in[QUERY], BR_SHAPE(queries, keys), BR_BOOL), 1);
    if (!in[MASK])
        return NULL;
    return in[MASK]->dtype == BR_BOOL ? br_logical_not(in[MASK])
                                      : br_eq_scalar(in[MASK], -INFINITY);
}

/* Returns the factors by which dropout multiplies the probabilities. */
static br_tensor *dropout_factors(const settings *s, const br_tensor *bits, const br_tensor *scores)
{
    br_tensor *factors = br_ones_like(scores);
    br_tensor *dense = factors ? br__new_like(OP, factors, factors->dtype) : NULL;
    if (dense)
        br__drop(dense, factors, bits, s->dropout_scale);
    return dense;
}

/* Replaces the hidden elements of x by a number. A masked NaN stays NaN, as it does when -inf is
 * added to it. With is_causal it does not, because scores of later keys are never computed. */
static br_tensor *fill_hidden(const settings *s, br_tensor *x, br_tensor *hidden, double value)
{
    if (!hidden)
        return x;
    return br_masked_fill(
        x, s->causal ? hidden : br_logical_and(hidden, br_logical_not(br_isnan(x))), value);
}

/* Computes softmax(scale query key^T + mask) value by plain operations. */
static void compose(br_tensor *const *in, const void *params, br_tensor **out)
{
    const settings *s = params;
    br_tensor *query = in[QUERY], *key = in[KEY], *value = in[VALUE], *mask = in[MASK];
    if (s->grouped && br_size(key, -3) > 0) {
        int64_t times = br_size(query, -3) / br_size(key, -3);
        key = br_repeat_interleave_scalar(key, times, -3);
        value = br_repeat_interleave_scalar(value, times, -3);
    }
    br_tensor *hidden = hidden_keys(s, in, br_size(query, -2), br_size(key, -2));
    br_tensor *weights = br_mul_scalar(br_matmul(query, br_transpose(key, -1, -2)), s->scale);
    if (mask && mask->dtype != BR_BOOL)
        weights = br_add(weights, mask);
    weights = br_softmax(fill_hidden(s, weights, hidden, -FLT_MAX), -1);
    weights = fill_hidden(s, weights, hidden, 0); /* changes rows in which all keys are hidden */
    if (in[BITS] && !br_failed())
        weights = br_mul(weights, dropout_factors(s, in[BITS], weights));
    else if (s->dropout_scale == 0)
        weights = br_mul_scalar(weights, 0);
    out[0] = br_matmul(weights, value);
}

/* ---- The gradient ---------------------------------------------------------------------------- */

/* Allocates the gradient of an input. The gradient of a mask with one column has a column for each
 * key; autograd sums the columns. */
static br_tensor *gradient_node(br_node *node, int input, const br_tensor *x, const br_tensor *key)
{
    if (!br_needs_input_grad(node, input))
        return NULL;
    int64_t sizes[BR_MAX_DIMS];
    memcpy(sizes, x->sizes, sizeof sizes);
    if (input == MASK)
        sizes[x->ndim - 1] = key->sizes[key->ndim - 2];
    return br__new_in_order(OP, x, x->ndim, sizes, x->dtype);
}

/* Returns the width of the products in the gradient, for count_work(). The scores are recomputed;
 * their gradient is multiplied by key and query. */
static int64_t gradient_width(const br_attention_tensors *t)
{
    int query = t->dquery != NULL, key = t->dkey != NULL, value = t->dvalue != NULL;
    int scores = query || key || t->dmask;
    return width_of(t->query) * (1 + query + key) + width_of(t->value) * (scores + value);
}

static void fused_backward(br_node *node, br_tensor *const *saved, br_tensor *dy, br_tensor **dx)
{
    const br_backend *backend = BR_BACKEND(OP, saved[QUERY], attention_grad);
    if (!backend)
        return;
    for (int i = QUERY; i <= MASK; i++)
        dx[i] = gradient_node(node, i, saved[i], saved[KEY]);
    if (br_failed())
        return;
    br_attention_tensors work = work_of((const br_tensor *const *)saved, br_params(node));
    work.dout = dy;
    work.dquery = dx[QUERY];
    work.dkey = dx[KEY];
    work.dvalue = dx[VALUE];
    work.dmask = dx[MASK];
    if (BR_PROFILING)
        count_work(&work, gradient_width(&work));
    backend->attention_grad(OP, &work);
}

static void attention_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    br_tensor *saved[SAVED];
    for (int i = 0; i < SAVED; i++)
        saved[i] = br_saved(node, i);
    if (br_failed()) /* a saved value was changed in place */
        return;
    if (br_grad_enabled())
        br__composed_backward(node, compose, OUT, saved, 1, &dy, br_params(node), sizeof(settings),
                              dx);
    else
        fused_backward(node, saved, dy, dx);
}

static const br_op attention_op = { .name = "scaled_dot_product_attention",
                                    .backward = attention_backward };

/* ---- The operation --------------------------------------------------------------------------- */

static bool read_options(const br_tensor *query, const br_attention_options *options, settings *s)
{
    const br_attention_options o = *BR_OPTIONS_OF(OP, br_attention, options);
    if (!(o.dropout_p >= 0 && o.dropout_p <= 1)) {
        br_fail(BR_ERROR_ARGUMENT, OP, "dropout_p is %g, must be in 0 .. 1", o.dropout_p);
        return false;
    }
    *s = (settings){ .scale = o.scale,
                     .causal = o.is_causal,
                     .grouped = o.enable_gqa,
                     .dropout_scale =
                         o.dropout_p < 1 ? br__dropout_scale(query->dtype, o.dropout_p) : 0 };
    if (isnan(o.scale))
        s->scale = 1 / sqrt((double)query->sizes[query->ndim - 1]);
    return true;
}

static bool check_arguments(const br_tensor *query, const br_tensor *key, const br_tensor *value,
                            const br_tensor *mask, const settings *s, int *ndim, int64_t *sizes)
{
    return check_sizes("query", query, "key", key, 1, "last dimension") &&
           check_sizes("key", key, "value", value, 2, "number of keys") &&
           (!s->grouped || check_groups(query, key, value)) &&
           result_shape(query, key, value, s->grouped, ndim, sizes) &&
           check_mask(mask, query, key, s->causal, *ndim, sizes);
}

/* Generates a bit for each score, in the order of the scores. *bits stays NULL without dropout, or
 * if everything is dropped. */
static bool dropout_bits(const br_attention_options *options, const br_tensor *key, int ndim,
                         const int64_t *sizes, br_tensor **bits)
{
    const double p = options ? options->dropout_p : 0;
    int64_t scores = key->sizes[key->ndim - 2];
    for (int i = 0; i < ndim - 1; i++)
        scores *= sizes[i];
    if (p > 0 && p < 1 && scores > 0)
        *bits = br__dropout_bits(OP, key, scores, p);
    return !br_failed();
}

br_tensor *br_scaled_dot_product_attention(br_tensor *query, br_tensor *key, br_tensor *value,
                                           br_tensor *attn_mask,
                                           const br_attention_options *options)
{
    BR_OP(OP);
    BR_AUTOCAST(br_scaled_dot_product_attention(LOWER(query), LOWER(key), LOWER(value),
                                                LOWER(attn_mask), options))
    int ndim;
    int64_t sizes[BR_MAX_DIMS];
    settings s;
    if (!check_tensor("query", query, query) || !check_tensor("key", key, query) ||
        !check_tensor("value", value, query) || !read_options(query, options, &s) ||
        !check_arguments(query, key, value, attn_mask, &s, &ndim, sizes))
        return NULL;
    br_scope *scope = br_scope_begin();
    br_tensor *bits = NULL;
    if (!dropout_bits(options, key, ndim, sizes, &bits)) {
        br_scope_end(scope);
        return NULL;
    }
    const br_tensor *const inputs[SAVED] = { query, key, value, attn_mask, bits };
    br_tensor *sums, *out = attend(inputs, &s, ndim, sizes, &sums);
    br_node *node =
        br_record(&attention_op, out, BR_INPUTS(query, key, value, attn_mask), &s, sizeof s);
    br_tensor *const saved[SAVED] = { query, key, value, attn_mask, bits, out, sums };
    for (int i = 0; i < SAVED; i++)
        br_save(node, i, saved[i]);
    br_scope_return(scope, out);
    br_scope_end(scope);
    return br_failed() ? NULL : out;
}
