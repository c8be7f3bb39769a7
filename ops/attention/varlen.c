/* ops/attention/varlen.c - attention of sequences of unlike length that follow each other without
 * padding.
 *
 * The backend gets views [H, N, D] of the tensors [N, H, D], and where the sequences begin. The
 * operation saves for its gradient: query, key, value, both lists of starts, the output, and the
 * sums that br_attention_tensors describes. */
#include "ops/autocast.h"
#include "ops/composed_internal.h"
#include "tensor/device.h"
#include "tensor/host.h"

#include <inttypes.h>
#include <math.h>

BR_DEFINE_DEFAULTS(br_varlen_attn)

static const char OP[] = "varlen_attn";

/* Parameters of the gradient. */
typedef struct settings {
    double scale;
    bool causal, grouped;
} settings;

enum { QUERY, KEY, VALUE, QUERY_STARTS, KEY_STARTS, OUT, SUMS, SAVED };

/* ---- Checks ---------------------------------------------------------------------------------- */

static bool check_tensor(const char *name, const br_tensor *t, const br_tensor *query)
{
    if (!br__required(OP, name, t) || !br__floating(OP, name, t) ||
        !br__compatible(OP, "query", query, name, t))
        return false;
    if (t->ndim != 3)
        br_fail(BR_ERROR_SHAPE, OP, "%s %s must have 3 dimensions: tokens, heads, size", name,
                br__shape(t));
    return !br_failed();
}

static bool check_heads(const br_tensor *query, const br_tensor *key, bool grouped)
{
    const int64_t heads = query->sizes[1], groups = key->sizes[1];
    if (heads == groups || (grouped && groups > 0 && heads % groups == 0))
        return true;
    br_fail(BR_ERROR_SHAPE, OP, "query %s and key %s have %" PRId64 " and %" PRId64 " heads, %s",
            br__shape(query), br__shape(key), heads, groups,
            grouped ? "but with enable_gqa the first number must be a multiple of the second"
                    : "which must be equal unless enable_gqa is true");
    return false;
}

static bool check_shapes(const br_tensor *query, const br_tensor *key, const br_tensor *value,
                         bool grouped)
{
    if (query->sizes[2] != key->sizes[2])
        br_fail(BR_ERROR_SHAPE, OP, "query %s and key %s must have the same last dimension",
                br__shape(query), br__shape(key));
    else if (key->sizes[0] != value->sizes[0] || key->sizes[1] != value->sizes[1])
        br_fail(BR_ERROR_SHAPE, OP, "key %s and value %s must have the same tokens and heads",
                br__shape(key), br__shape(value));
    return !br_failed() && check_heads(query, key, grouped);
}

/* Returns the starts as i64 in the host's memory. They must begin with 0, not decrease, and end
 * with the number of tokens. */
static br_tensor *read_starts(const char *name, br_tensor *starts, const char *of,
                              const br_tensor *tokens)
{
    if (starts->ndim != 1 || starts->numel < 1)
        return br_fail(BR_ERROR_SHAPE, OP,
                       "%s %s must have one dimension, of a size one larger than the number of "
                       "sequences",
                       name, br__shape(starts));
    br_tensor *host = br_contiguous(br_to(br__on_host(OP, starts), BR_I64));
    const int64_t *at = host ? br__host_i64(host) : NULL, n = starts->numel;
    if (!at)
        return NULL;
    if (at[0] != 0 || at[n - 1] != tokens->sizes[0])
        return br_fail(
            BR_ERROR_ARGUMENT, OP,
            "%s begins with %" PRId64 " and ends with %" PRId64
            ", must begin with 0 and end with the number of tokens of %s %s, which is %" PRId64,
            name, at[0], at[n - 1], of, br__shape(tokens), tokens->sizes[0]);
    for (int64_t i = 1; i < n; i++)
        if (at[i] < at[i - 1])
            return br_fail(BR_ERROR_ARGUMENT, OP,
                           "%s[%" PRId64 "] is %" PRId64 ", less than %" PRId64
                           " before it: sequences must follow each other",
                           name, i, at[i], at[i - 1]);
    return host;
}

static bool check_dtype(const char *name, const br_tensor *starts)
{
    if (!br__required(OP, name, starts))
        return false;
    if (starts->dtype == BR_I32 || starts->dtype == BR_I64)
        return true;
    br_fail(BR_ERROR_DTYPE, OP, "%s is %s, must be i32 or i64", name, br_dtype_name(starts->dtype));
    return false;
}

/* A query at the end of a sequence could have no key of the same number. */
static bool check_causal(int64_t n, const int64_t *queries, const int64_t *keys)
{
    for (int64_t i = 0; i < n; i++)
        if (queries[i + 1] - queries[i] != keys[i + 1] - keys[i])
            return br_fail(BR_ERROR_ARGUMENT, OP,
                           "sequence %" PRId64 " has %" PRId64 " queries and %" PRId64
                           " keys, but with is_causal both numbers must be equal",
                           i, queries[i + 1] - queries[i], keys[i + 1] - keys[i]);
    return true;
}

/* Reads both lists of starts; if `keys` is NULL, the keys have the starts of the queries. */
static bool read_ranges(br_tensor *queries, br_tensor *keys, br_tensor **x, bool causal)
{
    if (!check_dtype("cu_seq_q", queries) || (keys && !check_dtype("cu_seq_k", keys)))
        return false;
    if (!keys && x[QUERY]->sizes[0] != x[KEY]->sizes[0])
        return br_fail(
            BR_ERROR_SHAPE, OP,
            "query %s and key %s must have the same number of tokens, because cu_seq_k is "
            "NULL",
            br__shape(x[QUERY]), br__shape(x[KEY]));
    x[QUERY_STARTS] = read_starts("cu_seq_q", queries, "query", x[QUERY]);
    x[KEY_STARTS] = !x[QUERY_STARTS] ? NULL
                    : keys           ? read_starts("cu_seq_k", keys, "key", x[KEY])
                                     : read_starts("cu_seq_q", queries, "key", x[KEY]);
    if (br_failed())
        return false;
    if (x[QUERY_STARTS]->numel != x[KEY_STARTS]->numel)
        return br_fail(BR_ERROR_SHAPE, OP, "cu_seq_q %s and cu_seq_k %s must have the same size",
                       br__shape(x[QUERY_STARTS]), br__shape(x[KEY_STARTS]));
    return !causal || check_causal(x[QUERY_STARTS]->numel - 1, br__host_i64(x[QUERY_STARTS]),
                                   br__host_i64(x[KEY_STARTS]));
}

/* ---- The description of the work ------------------------------------------------------------- */

/* Headers [H, N, D] of the tensors [N, H, D] of the work. They are no views, which anomaly
 * detection would search for NaN before the results are computed. */
typedef struct headers {
    int n;
    br_tensor of[8];
} headers;

/* Returns the header of t, or NULL. */
static const br_tensor *by_heads(headers *h, const br_tensor *t)
{
    static const int order[] = { 1, 0, 2 };
    if (!t)
        return NULL;
    h->of[h->n] = br__reordered(t, order);
    return &h->of[h->n++];
}

static br_attention_tensors work_of(br_tensor *const *x, const settings *s, headers *h)
{
    const br_tensor *starts = x[QUERY_STARTS];
    return (br_attention_tensors){ .scale = s->scale,
                                   .causal = s->causal,
                                   .grouped = s->grouped,
                                   .dropout_scale = 1,
                                   .ranges = starts->numel - 1,
                                   .query_starts = br__host_i64(starts),
                                   .key_starts = br__host_i64(x[KEY_STARTS]),
                                   .query = by_heads(h, x[QUERY]),
                                   .key = by_heads(h, x[KEY]),
                                   .value = by_heads(h, x[VALUE]),
                                   .out = by_heads(h, x[OUT]),
                                   .sums = x[SUMS] };
}

/* Reports the work to the profiler: `width` products for each pair of a query and a key. */
static void count_work(const br_attention_tensors *t, int64_t width)
{
    int64_t pairs = 0;
    for (int64_t r = 0; r < t->ranges; r++) {
        const int64_t queries = t->query_starts[r + 1] - t->query_starts[r];
        const int64_t keys = t->key_starts[r + 1] - t->key_starts[r];
        pairs += t->causal ? queries * (queries + 1) / 2 : queries * keys;
    }
    BR_WORK(2 * pairs * width * t->query->sizes[0], 0);
    BR_TRAFFIC(t->query, t->key, t->value, t->out, t->sums, t->dout, t->dquery, t->dkey, t->dvalue);
}

/* ---- The result ------------------------------------------------------------------------------ */

/* Computes x[OUT] and x[SUMS]. */
static bool attend(br_tensor **x, const settings *s)
{
    const br_tensor *query = x[QUERY], *value = x[VALUE];
    const br_backend *backend = BR_BACKEND(OP, query, attention);
    if (!backend)
        return false;
    const int64_t tokens = query->sizes[0], heads = query->sizes[1];
    x[OUT] = br__new_in_order(OP, query, BR_SHAPE(tokens, heads, value->sizes[2]), query->dtype);
    x[SUMS] = br__new_on(OP, query, BR_SHAPE(heads, tokens, 2), br__computed(query->dtype));
    if (!x[OUT] || !x[SUMS])
        return false;
    headers h = { .n = 0 };
    const br_attention_tensors work = work_of(x, s, &h);
    if (br_failed())
        return false;
    if (BR_PROFILING)
        count_work(&work, query->sizes[2] + value->sizes[2]);
    return backend->attention(OP, &work);
}

/* ---- The composition, for gradients of gradients --------------------------------------------- */

/* Returns the part of t [N, H, D] that belongs to range r, as [H, n, D]. */
static br_tensor *range_of(br_tensor *t, const int64_t *starts, int64_t r)
{
    return br_transpose(br_narrow(t, 0, starts[r], starts[r + 1] - starts[r]), 0, 1);
}

/* Computes the attention of each range alone. */
static void compose(br_tensor *const *in, const void *params, br_tensor **out)
{
    const settings *s = params;
    if (br_failed()) /* a saved value was changed in place */
        return;
    const int64_t n = in[QUERY_STARTS]->numel - 1, *queries = br__host_i64(in[QUERY_STARTS]),
                  *keys = br__host_i64(in[KEY_STARTS]);
    br_tensor **parts = queries && keys ? br_calloc((size_t)n + 1, sizeof *parts) : NULL;
    for (int64_t r = 0; parts && r < n; r++)
        parts[r] = br_transpose(br_scaled_dot_product_attention(
                                    range_of(in[QUERY], queries, r), range_of(in[KEY], keys, r),
                                    range_of(in[VALUE], keys, r), NULL,
                                    BR_OPTIONS(br_attention, .is_causal = s->causal,
                                               .scale = s->scale, .enable_gqa = s->grouped)),
                                0, 1);
    if (parts && n > 0)
        out[0] = br_cat((int)n, parts, 0);
    br_free(parts);
}

/* ---- The gradient ---------------------------------------------------------------------------- */

static void fused_backward(br_node *node, br_tensor *const *saved, br_tensor *dy, br_tensor **dx)
{
    const br_backend *backend = BR_BACKEND(OP, saved[QUERY], attention_grad);
    for (int i = QUERY; backend && i <= VALUE; i++)
        dx[i] = br_needs_input_grad(node, i)
                    ? br__new_in_order(OP, saved[i], 3, saved[i]->sizes, saved[i]->dtype)
                    : NULL;
    if (br_failed())
        return;
    headers h = { .n = 0 };
    br_attention_tensors work = work_of(saved, br_params(node), &h);
    work.dout = by_heads(&h, dy);
    work.dquery = by_heads(&h, dx[QUERY]);
    work.dkey = by_heads(&h, dx[KEY]);
    work.dvalue = by_heads(&h, dx[VALUE]);
    const int64_t width = saved[QUERY]->sizes[2], value_width = saved[VALUE]->sizes[2];
    if (BR_PROFILING)
        count_work(&work, 3 * width + 2 * value_width);
    backend->attention_grad(OP, &work);
}

static void varlen_backward(br_node *node, br_tensor *dy, br_tensor **dx)
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

static const br_op varlen_op = { .name = "varlen_attn", .backward = varlen_backward };

/* ---- The operation --------------------------------------------------------------------------- */

static bool read_options(const br_tensor *query, const br_varlen_attn_options *options, settings *s)
{
    const br_varlen_attn_options o = *BR_OPTIONS_OF(OP, br_varlen_attn, options);
    if (o.scale <= 0)
        return br_fail(BR_ERROR_ARGUMENT, OP, "the option scale is %g, must be greater than 0",
                       o.scale);
    *s = (settings){ isnan(o.scale) ? 1 / sqrt((double)query->sizes[2]) : o.scale, o.is_causal,
                     o.enable_gqa };
    return !br_failed();
}

br_tensor *br_varlen_attn(br_tensor *query, br_tensor *key, br_tensor *value, br_tensor *cu_seq_q,
                          br_tensor *cu_seq_k, const br_varlen_attn_options *options)
{
    BR_OP(OP);
    BR_AUTOCAST(br_varlen_attn(LOWER(query), LOWER(key), LOWER(value), cu_seq_q, cu_seq_k, options))
    settings s;
    if (!check_tensor("query", query, query) || !check_tensor("key", key, query) ||
        !check_tensor("value", value, query) || !read_options(query, options, &s) ||
        !check_shapes(query, key, value, s.grouped))
        return NULL;
    br_scope *scope = br_scope_begin(), *inner = br_no_grad_begin();
    br_tensor *x[SAVED] = { query, key, value };
    const bool ok = read_ranges(cu_seq_q, cu_seq_k, x, s.causal) && attend(x, &s);
    for (int i = QUERY_STARTS; ok && i < SAVED; i++)
        br_scope_return(inner, x[i]);
    br_scope_end(inner);
    br_node *node =
        ok ? br_record(&varlen_op, x[OUT], BR_INPUTS(query, key, value), &s, sizeof s) : NULL;
    for (int i = 0; ok && i < SAVED; i++)
        br_save(node, i, x[i]);
    br_tensor *y = ok ? br_scope_return(scope, x[OUT]) : NULL;
    br_scope_end(scope);
    return br_failed() ? NULL : y;
}
