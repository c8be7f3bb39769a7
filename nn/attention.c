/* nn/attention.c - nn.MultiheadAttention: projections, all kinds of masks, attention, and the
 * attention weights if requested.
 *
 * Everything is computed in the layout [batch, length, size]. Inputs and results in other layouts
 * are converted by views. */
#include "nn/nn_internal.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>

BR_DEFINE_DEFAULTS(br_multihead_attention)

static const char op[] = "multihead_attention";

/* ---- Construction ---------------------------------------------------------------------------- */

static bool good_sizes(const br_multihead_attention *self)
{
    int64_t e = self->embed_dim, heads = self->num_heads;
    const br_multihead_attention_options *o = &self->options;
    if (e < 1 || heads < 1 || e % heads != 0)
        br_fail(BR_ERROR_ARGUMENT, op,
                "embed_dim is %" PRId64 ", num_heads is %" PRId64
                ": both must be positive, and embed_dim divisible by num_heads",
                e, heads);
    else if (o->kdim < 1 || o->vdim < 1)
        br_fail(BR_ERROR_ARGUMENT, op,
                "kdim is %" PRId64 ", vdim is %" PRId64 ": both must be positive", o->kdim,
                o->vdim);
    else if (!(o->dropout >= 0 && o->dropout <= 1))
        br_fail(BR_ERROR_ARGUMENT, op, "dropout is %g, must be in 0 .. 1", o->dropout);
    return !br_failed();
}

static br_tensor *weight(br_multihead_attention *self, const char *name, int64_t rows,
                         int64_t columns)
{
    return br_parameter(self, name, br__new(op, BR_SHAPE(rows, columns), BR_F32));
}

static void add_parameters(br_multihead_attention *self)
{
    const br_multihead_attention_options *o = &self->options;
    int64_t e = self->embed_dim;
    if (o->kdim == e && o->vdim == e) {
        self->in_proj_weight = weight(self, "in_proj_weight", 3 * e, e);
    } else {
        self->q_proj_weight = weight(self, "q_proj_weight", e, e);
        self->k_proj_weight = weight(self, "k_proj_weight", e, o->kdim);
        self->v_proj_weight = weight(self, "v_proj_weight", e, o->vdim);
    }
    if (o->bias)
        self->in_proj_bias = br_parameter(self, "in_proj_bias", br_zeros(BR_SHAPE(3 * e), BR_F32));
    if (!o->add_bias_kv)
        return;
    self->bias_k = br_parameter(self, "bias_k", br__new(op, BR_SHAPE(1, 1, e), BR_F32));
    self->bias_v = br_parameter(self, "bias_v", br__new(op, BR_SHAPE(1, 1, e), BR_F32));
}

/* Initializes the parameters in PyTorch's order: after the output projection has generated its
 * random numbers. */
static void init_parameters(br_multihead_attention *self)
{
    br_tensor *weights[] = { self->in_proj_weight, self->q_proj_weight, self->k_proj_weight,
                             self->v_proj_weight };
    for (int i = 0; i < 4; i++)
        if (weights[i])
            br_init_xavier_uniform_(weights[i], 1);
    if (self->out_proj->bias)
        br_init_zeros_(self->out_proj->bias);
    if (!self->bias_k)
        return;
    br_init_xavier_normal_(self->bias_k, 1);
    br_init_xavier_normal_(self->bias_v, 1);
}

br_multihead_attention *br_multihead_attention_new(int64_t embed_dim, int64_t num_heads,
                                                   const br_multihead_attention_options *options)
{
    br_multihead_attention *self = br__layer_begin(sizeof *self, "MultiheadAttention", NULL);
    br_multihead_attention_options *o = &self->options;
    *o = *BR_OPTIONS_OF(op, br_multihead_attention, options);
    o->kdim = o->kdim == 0 ? embed_dim : o->kdim;
    o->vdim = o->vdim == 0 ? embed_dim : o->vdim;
    self->embed_dim = embed_dim;
    self->num_heads = num_heads;
    br_scope *scope = br_scope_begin();
    if (good_sizes(self)) {
        add_parameters(self);
        self->out_proj = br_child(self, "out_proj", br_linear_new(embed_dim, embed_dim, o->bias));
    }
    if (!br_failed())
        init_parameters(self);
    br__layer_end(br_base(self), scope);
    return self;
}

/* ---- Checking -------------------------------------------------------------------------------- */

/* The data of one forward pass, with inputs as [batch, length, size]. */
typedef struct pass {
    br_multihead_attention *self;
    br_multihead_attention_inputs in;
    br_tensor *query, *key, *value;
    int64_t batch, length, keys; /* keys: number of keys, including those that the options add */
    bool batched, cross;         /* cross: keys and queries come from different sequences */
} pass;

static bool good_inputs(const br_multihead_attention *self, br_tensor *const x[3])
{
    static const char *const names[] = { "query", "key", "value" };
    const int64_t sizes[] = { self->embed_dim, self->options.kdim, self->options.vdim };
    for (int i = 0; i < 3; i++) {
        if (!br__floating(op, names[i], x[i]))
            return false;
        if ((x[i]->ndim == 2 || x[i]->ndim == 3) && x[i]->ndim == x[0]->ndim &&
            x[i]->sizes[x[i]->ndim - 1] == sizes[i])
            continue;
        br_fail(
            BR_ERROR_SHAPE, op,
            "%s is %s, query is %s: both must have 2 or both 3 dimensions, and the last size of "
            "%s must be %" PRId64,
            names[i], br__shape(x[i]), br__shape(x[0]), names[i], sizes[i]);
        return false;
    }
    return true;
}

static bool good_lengths(const pass *p)
{
    const br_tensor *q = p->query, *k = p->key, *v = p->value;
    if (k->sizes[0] == q->sizes[0] && v->sizes[0] == q->sizes[0] && k->sizes[1] == v->sizes[1])
        return true;
    br_fail(BR_ERROR_SHAPE, op,
            "as [batch, length, size], query is %s, key %s and value %s: all must have the same "
            "batch size, and key and value the same length",
            br__shape(q), br__shape(k), br__shape(v));
    return false;
}

static bool has_shape(const br_tensor *t, int ndim, const int64_t *sizes)
{
    bool same = t->ndim == ndim;
    for (int i = 0; same && i < ndim; i++)
        same = t->sizes[i] == sizes[i];
    return same;
}

static bool good_mask(const char *name, const br_tensor *mask, const br_tensor *query)
{
    if (mask->dtype == BR_BOOL || mask->dtype == query->dtype)
        return true;
    br_fail(BR_ERROR_DTYPE, op, "%s is %s, must be bool or query's dtype %s", name,
            br_dtype_name(mask->dtype), br_dtype_name(query->dtype));
    return false;
}

static bool good_masks(const pass *p)
{
    const br_tensor *padding = p->in.key_padding_mask, *mask = p->in.attn_mask;
    int64_t n = p->batch, keys = p->key->sizes[1], heads = p->self->num_heads;
    if (padding && good_mask("key_padding_mask", padding, p->query) &&
        !(p->batched ? has_shape(padding, BR_SHAPE(n, keys)) : has_shape(padding, BR_SHAPE(keys))))
        br_fail(BR_ERROR_SHAPE, op, "key_padding_mask is %s, must be %s, one value for each key%s",
                br__shape(padding),
                p->batched ? br__shape_of(2, (int64_t[]){ n, keys }) : br__shape_of(1, &keys),
                p->batched ? " of each sequence" : "");
    if (mask && !br_failed() && good_mask("attn_mask", mask, p->query) &&
        !has_shape(mask, BR_SHAPE(p->length, keys)) &&
        !has_shape(mask, BR_SHAPE(n * heads, p->length, keys)))
        br_fail(BR_ERROR_SHAPE, op,
                "attn_mask is %s, must be [L, S] = [%" PRId64 ", %" PRId64
                "] or [N * num_heads, L, S] = [%" PRId64 " * %" PRId64 ", %" PRId64 ", %" PRId64
                "]",
                br__shape(mask), p->length, keys, n, heads, p->length, keys);
    return !br_failed();
}

/* Returns x as [batch, length, size]. */
static br_tensor *in_batches(const pass *p, br_tensor *x)
{
    if (!p->batched)
        return br_unsqueeze(x, 0);
    return p->self->options.batch_first ? x : br_transpose(x, 0, 1);
}

static bool begin(pass *p, br_tensor *query, br_tensor *key, br_tensor *value)
{
    if (!good_inputs(p->self, (br_tensor *[]){ query, key, value }))
        return false;
    p->batched = query->ndim == 3;
    p->cross = key != query;
    p->query = in_batches(p, query);
    p->key = key == query ? p->query : in_batches(p, key);
    p->value = value == key ? p->key : in_batches(p, value);
    if (!p->query || !p->key || !p->value || !good_lengths(p))
        return false;
    p->batch = p->query->sizes[0];
    p->length = p->query->sizes[1];
    p->keys = p->key->sizes[1];
    return good_masks(p);
}

/* ---- Projections ----------------------------------------------------------------------------- */

/* Returns projections number from .. to - 1 of x, concatenated along the last dimension. */
static br_tensor *project(const pass *p, br_tensor *x, int from, int to)
{
    const br_multihead_attention *self = p->self;
    int64_t e = self->embed_dim;
    br_tensor *const own[] = { self->q_proj_weight, self->k_proj_weight, self->v_proj_weight };
    br_tensor *w = self->in_proj_weight, *b = self->in_proj_bias;
    w = w ? br_slice(w, 0, from * e, to * e, 1) : own[from];
    return br_f_linear(x, w, b ? br_slice(b, 0, from * e, to * e, 1) : NULL);
}

static br_tensor *part(const pass *p, br_tensor *projected, int i)
{
    return br_narrow(projected, -1, i * p->self->embed_dim, p->self->embed_dim);
}

/* Projects inputs that are the same tensor by a single matrix product. */
static void project_all(const pass *p, br_tensor **q, br_tensor **k, br_tensor **v)
{
    bool packed = p->self->in_proj_weight != NULL;
    if (packed && p->query == p->key && p->key == p->value) {
        br_tensor *all = project(p, p->query, 0, 3);
        *q = part(p, all, 0);
        *k = part(p, all, 1);
        *v = part(p, all, 2);
        return;
    }
    *q = project(p, p->query, 0, 1);
    if (packed && p->key == p->value) {
        br_tensor *both = project(p, p->key, 1, 3);
        *k = part(p, both, 0);
        *v = part(p, both, 1);
        return;
    }
    *k = project(p, p->key, 1, 2);
    *v = project(p, p->value, 2, 3);
}

/* Returns x [batch, length, size] with one more sequence element: `row`, or zeros. */
static br_tensor *with_one_more(const pass *p, br_tensor *x, br_tensor *row)
{
    const int64_t e = p->self->embed_dim;
    br_tensor *more = row ? br_expand(row, BR_SHAPE(p->batch, 1, e))
                          : br_new_zeros(x, BR_SHAPE(p->batch, 1, e), br_dtype_of(x));
    return br_cat(BR_INPUTS(x, more), 1);
}

static void add_keys(pass *p, br_tensor **k, br_tensor **v)
{
    const br_multihead_attention *self = p->self;
    if (self->bias_k) {
        *k = with_one_more(p, *k, self->bias_k);
        *v = with_one_more(p, *v, self->bias_v);
        p->keys++;
    }
    if (self->options.add_zero_attn) {
        *k = with_one_more(p, *k, NULL);
        *v = with_one_more(p, *v, NULL);
        p->keys++;
    }
}

/* Returns x [batch, length, size] as [batch, heads, length, size / heads]. */
static br_tensor *split_heads(const pass *p, br_tensor *x)
{
    int64_t heads = p->self->num_heads, dim = p->self->embed_dim / heads;
    return br_transpose(br_reshape(x, BR_SHAPE(p->batch, br_size(x, 1), heads, dim)), 1, 2);
}

/* ---- Masks ----------------------------------------------------------------------------------- */

/* Returns the mask in the form that is added to the scores: -inf where a bool mask is true, and 0
 * for the keys that the options add. */
static br_tensor *additive(const pass *p, br_tensor *mask)
{
    br_dtype dtype = p->query->dtype;
    if (mask->dtype == BR_BOOL)
        mask = br_masked_fill(br_new_zeros(mask, mask->ndim, mask->sizes, dtype), mask, -INFINITY);
    int64_t more = mask ? p->keys - mask->sizes[mask->ndim - 1] : 0;
    if (more == 0)
        return mask;
    int64_t sizes[BR_MAX_DIMS];
    for (int i = 0; i < mask->ndim; i++)
        sizes[i] = mask->sizes[i];
    sizes[mask->ndim - 1] = more;
    return br_cat(BR_INPUTS(mask, br_new_zeros(mask, mask->ndim, sizes, dtype)), -1);
}

/* Returns true if the causal mask is the only one. It then also covers the keys that the options
 * add, as in PyTorch. */
static bool only_causal(const pass *p)
{
    return p->in.is_causal && !p->in.key_padding_mask && !p->in.weights;
}

static br_tensor *causal_mask(const pass *p)
{
    int64_t keys = only_causal(p) ? p->keys : p->key->sizes[1];
    return br_triu(br_new_ones(p->query, BR_SHAPE(p->length, keys), BR_BOOL), 1);
}

/* Returns the sum of all masks, broadcastable to [batch, heads, length, keys], or NULL if there is
 * no mask. */
static br_tensor *merged_mask(const pass *p)
{
    br_tensor *mask = p->in.attn_mask, *padding = p->in.key_padding_mask;
    if (p->in.is_causal && (!mask || only_causal(p)))
        mask = causal_mask(p);
    mask = mask ? additive(p, mask) : NULL;
    if (mask && mask->ndim == 3)
        mask = br_reshape(mask, BR_SHAPE(p->batch, p->self->num_heads, p->length, p->keys));
    if (!padding || br_failed())
        return mask;
    padding = br_reshape(additive(p, padding), BR_SHAPE(p->batch, 1, 1, p->keys));
    return mask ? br_add(mask, padding) : padding;
}

/* ---- Forward --------------------------------------------------------------------------------- */

/* Returns the softmax of the scores. If the weights are only recorded by a tap, fully masked
 * queries get zeros, so that recording does not change the result. */
static br_tensor *masked_softmax(const pass *p, br_tensor *scores, br_tensor *mask)
{
    if (!mask)
        return br_softmax(scores, -1);
    if (p->in.weights)
        return br_softmax(br_add(scores, mask), -1);
    br_tensor *finite = br_clamp(mask, -FLT_MAX, INFINITY);
    br_tensor *weights = br_softmax(br_add(scores, finite), -1);
    return br_masked_fill(weights, br_eq_scalar(finite, -FLT_MAX), 0);
}

/* Computes attention by separate operations, for use when the weights are requested or recorded. */
static br_tensor *attend_with_weights(const pass *p, br_tensor *q, br_tensor *k, br_tensor *v,
                                      br_tensor *mask)
{
    const br_multihead_attention *self = p->self;
    double scale = sqrt((double)self->num_heads / (double)self->embed_dim);
    br_tensor *scores = br_matmul(br_mul_scalar(q, scale), br_transpose(k, -2, -1));
    br_tensor *weights = br_tap_attention(q, k, masked_softmax(p, scores, mask), p->cross);
    weights = br_f_dropout(weights, self->options.dropout, br_is_training(br_base(p->self)));
    if (p->in.weights) {
        bool all = p->in.weights_per_head;
        br_tensor *shown = all ? weights : br_mean_dim(weights, BR_DIMS(1), false);
        *p->in.weights = p->batched ? shown : br_squeeze(shown, 0);
    }
    return br_matmul(weights, v);
}

static br_tensor *attend(pass *p)
{
    br_tensor *q, *k, *v;
    project_all(p, &q, &k, &v);
    add_keys(p, &k, &v);
    /* Without other masks, the attention operation applies the causal mask itself. */
    bool open = p->in.weights || br_recorder_is_open();
    bool causal = only_causal(p) && !open;
    br_tensor *mask = causal ? NULL : merged_mask(p);
    if (br_failed())
        return NULL;
    q = split_heads(p, q);
    k = split_heads(p, k);
    v = split_heads(p, v);
    if (open)
        return attend_with_weights(p, q, k, v, mask);
    bool training = br_is_training(br_base(p->self));
    return br_scaled_dot_product_attention(
        q, k, v, mask,
        BR_OPTIONS(br_attention, .dropout_p = training ? p->self->options.dropout : 0,
                   .is_causal = causal));
}

/* Returns the result [batch, length, size] with PyTorch's memory layout: [length, batch, size],
 * whatever batch_first is. A dropout that follows then generates its random numbers in PyTorch's
 * order. */
static br_tensor *in_pytorch_order(const pass *p, br_tensor *out)
{
    out = br_contiguous(br_transpose(out, 0, 1));
    return p->self->options.batch_first ? br_transpose(out, 0, 1) : out;
}

static br_tensor *forward(pass *p, br_tensor *query, br_tensor *key, br_tensor *value)
{
    if (!begin(p, query, key, value))
        return NULL;
    br_tensor *heads = br_transpose(attend(p), 1, 2);
    br_tensor *joined = br_reshape(heads, BR_SHAPE(p->batch, p->length, p->self->embed_dim));
    br_tensor *out = br_linear_forward(p->self->out_proj, joined);
    if (!p->batched)
        return br_squeeze(out, 0);
    if (br_is_training(br_base(p->self)) && br_get_dropout_rng() == BR_DROPOUT_PYTORCH)
        return in_pytorch_order(p, out);
    return p->self->options.batch_first ? out : br_transpose(out, 0, 1);
}

br_tensor *br_multihead_attention_forward(br_multihead_attention *self, br_tensor *query,
                                          br_tensor *key, br_tensor *value,
                                          const br_multihead_attention_inputs *inputs)
{
    if (!br_module_is_usable(op, self))
        return NULL;
    if (inputs && inputs->weights)
        *inputs->weights = NULL;
    br_enter_with(self, query);
    pass p = { .self = self };
    p.in = inputs ? *inputs : (br_multihead_attention_inputs){ 0 };
    br_tensor *out = forward(&p, query, key, value);
    if (p.in.weights)
        *p.in.weights = br_failed() ? NULL : br_scope_return(NULL, *p.in.weights);
    return br_leave(self, out);
}
