/* models/llama_mlp.c - the feed-forward part of a layer: a gated MLP, or experts, of which a router
 * chooses some for each token. */
#include "models/llama_internal.h"

#include <inttypes.h>

/* ---- One MLP --------------------------------------------------------------------------------- */

br_llama_mlp *zoo_llama_new_mlp(const br_llama_config *c, int64_t inner)
{
    br_llama_mlp *self = zoo_llama_create(c, sizeof *self, "MLP");
    int64_t e = c->hidden_size;
    if (c->fused) {
        br_linear *both = br_linear_new(e, 2 * inner, c->mlp_bias);
        self->gate_up_proj = br_child(self, "gate_up_proj", both);
    } else {
        self->gate_proj = br_child(self, "gate_proj", br_linear_new(e, inner, c->mlp_bias));
        self->up_proj = br_child(self, "up_proj", br_linear_new(e, inner, c->mlp_bias));
    }
    self->down_proj = br_child(self, "down_proj", br_linear_new(inner, e, c->mlp_bias));
    self->act = br_find_activation(c->hidden_act);
    return self;
}

br_tensor *zoo_llama_feed_forward(br_llama_mlp *self, br_tensor *x)
{
    br_tensor *gate, *up;
    br_enter(self);
    if (self->gate_up_proj) {
        x = br_linear_forward(self->gate_up_proj, x);
        const int64_t inner = br_error_pending() ? 0 : br_size(x, -1) / 2;
        gate = br_narrow(x, -1, 0, inner);
        up = br_narrow(x, -1, inner, inner);
    } else {
        gate = br_linear_forward(self->gate_proj, x);
        up = br_linear_forward(self->up_proj, x);
    }
    x = br_mul(self->act(gate), up);
    return br_leave(self, br_linear_forward(self->down_proj, x));
}

/* ---- Experts --------------------------------------------------------------------------------- */

br_llama_moe *zoo_llama_new_moe(const br_llama_config *c)
{
    br_llama_moe *self = zoo_llama_create(c, sizeof *self, "SparseMoeBlock");
    self->num_experts_per_tok = c->num_experts_per_tok;
    self->norm_topk_prob = c->norm_topk_prob;
    self->gate = br_child(self, "gate", br_linear_new(c->hidden_size, c->num_experts, false));
    self->experts = br_child(self, "experts", br_module_list_new());
    for (int64_t i = 0; i < c->num_experts && !br_error_pending(); i++)
        br_module_list_append(self->experts, zoo_llama_new_mlp(c, c->moe_intermediate_size));
    return self;
}

/* The experts of each of N tokens. */
typedef struct routes {
    br_tensor *logits;  /* of the router, [N, experts] */
    br_tensor *chosen;  /* i64 [N, k] */
    br_tensor *weights; /* [N, k]: the token's result is the sum of the experts', times these */
} routes;

static br_dtype at_least_f32(const br_tensor *t)
{
    return br_promote_types(br_dtype_of(t), BR_F32);
}

/* Returns the experts' probabilities [N, experts], in at least f32, and their `k` best. */
static br_tensor *best(br_tensor *logits, int64_t k, br_tensor **values, br_tensor **chosen)
{
    br_tensor *p = br_softmax(logits, -1);
    *values = br_topk(p, k, -1, true, chosen);
    return p;
}

static routes route(br_llama_moe *self, br_tensor *x)
{
    routes r = { .logits = br_linear_forward(self->gate, x) };
    if (br_error_pending())
        return r;
    best(br_to(r.logits, at_least_f32(r.logits)), self->num_experts_per_tok, &r.weights, &r.chosen);
    if (self->norm_topk_prob)
        r.weights = br_div(r.weights, br_sum_dim(r.weights, BR_DIMS(-1), true));
    r.weights = br_to(r.weights, br_dtype_of(r.logits));
    return r;
}

/* Returns the results of the rows [n, e], which are sorted by expert; counts[i] of them are of
 * expert i. Experts without rows compute nothing. */
static br_tensor *run_each(br_llama_moe *self, br_tensor *rows, const int64_t *counts)
{
    int64_t experts = br_module_list_size(self->experts), at = 0;
    int n = 0;
    br_tensor **parts = br_calloc((size_t)experts, sizeof(br_tensor *));
    for (int64_t i = 0; parts && i < experts && !br_error_pending(); at += counts[i++])
        if (counts[i] > 0)
            parts[n++] = zoo_llama_feed_forward(br_module_list_at(self->experts, i),
                                                br_narrow(rows, 0, at, counts[i]));
    br_tensor *all = br_error_pending() ? NULL : br_cat(n, parts, 0);
    br_free(parts);
    return all;
}

/* Returns the number of rows of each expert, which the caller frees with br_free(). */
static int64_t *count_rows(br_tensor *chosen, int64_t experts)
{
    int64_t *counts = br_calloc((size_t)experts, sizeof *counts);
    if (counts)
        br_copy_out(br_bincount(chosen, NULL, experts), counts, (size_t)experts * sizeof *counts);
    return counts;
}

/* Returns the results [N, e] of tokens x [N, e]. The tokens are sorted by expert, so that each
 * expert has one product for all of its tokens. */
static br_tensor *run_experts(br_llama_moe *self, br_tensor *x, const routes *r)
{
    if (br_error_pending() || br_size(x, 0) == 0)
        return x;
    br_tensor *chosen = br_reshape(r->chosen, BR_SHAPE(-1));
    br_tensor *order = br_argsort(chosen, 0, false);
    br_tensor *tokens = br_new_arange(chosen, 0, (double)br_size(x, 0), 1, BR_I64);
    tokens = br_repeat_interleave_scalar(tokens, self->num_experts_per_tok, 0);
    tokens = br_index_select(tokens, 0, order);
    br_tensor *weights = br_index_select(br_reshape(r->weights, BR_SHAPE(-1)), 0, order);
    int64_t *counts = count_rows(chosen, br_module_list_size(self->experts));
    br_tensor *y = NULL;
    if (!br_error_pending())
        y = run_each(self, br_index_select(x, 0, tokens), counts);
    br_free(counts);
    y = br_mul(y, br_unsqueeze(weights, -1));
    if (br_error_pending())
        return NULL;
    y = br_to(y, br_dtype_of(x)); /* under autocast it is bf16, and the sum is that of x */
    return br_index_add(br_zeros_like(x), 0, tokens, y, 1);
}

br_tensor *zoo_llama_run_moe(br_llama_moe *self, br_tensor *x, br_tensor **logits)
{
    br_enter(self);
    br_scope *scope = br_scope_current();
    if (br_error_pending())
        return br_leave(self, NULL);
    br_tensor *flat = br_reshape(x, BR_SHAPE(-1, br_size(x, -1)));
    const routes r = route(self, flat);
    br_tensor *y = run_experts(self, flat, &r);
    if (logits)
        *logits = br_scope_return(scope, r.logits);
    return br_leave(self, br_error_pending() ? NULL : br_reshape(y, br_ndim(x), br_sizes(x)));
}

/* ---- The loss of unequal use ----------------------------------------------------------------- */

/* Sums over layers. */
typedef struct uses {
    br_tensor *tokens;        /* of each expert, [experts] */
    br_tensor *probabilities; /* of each expert, [experts] */
    br_tensor *rows;          /* number of tokens, times layers */
} uses;

static br_tensor *sum(br_tensor *so_far, br_tensor *more)
{
    return so_far ? br_add(so_far, more) : more;
}

/* Adds a layer with `logits` [N, experts]. Tokens count where `real` [N] is 1. */
static void add_layer(uses *u, br_tensor *logits, int64_t k, br_tensor *real)
{
    br_tensor *values, *chosen;
    br_tensor *p = br_to(best(logits, k, &values, &chosen), br_dtype_of(real));
    if (br_error_pending())
        return;
    br_tensor *none = br_new_zeros(real, BR_SHAPE(br_size(logits, 1)), br_dtype_of(real));
    br_tensor *each = br_repeat_interleave_scalar(real, k, 0);
    u->tokens = sum(u->tokens, br_index_add(none, 0, br_reshape(chosen, BR_SHAPE(-1)), each, 1));
    p = br_mul(p, br_unsqueeze(real, -1));
    u->probabilities = sum(u->probabilities, br_sum_dim(p, BR_DIMS(0), false));
    u->rows = sum(u->rows, br_sum(real));
}

/* Returns 1 for each of n tokens, or 0 if it is padding, in at least f32. */
static br_tensor *real_tokens(br_tensor *logits, br_tensor *mask)
{
    int64_t n = br_size(logits, 0);
    br_dtype dtype = at_least_f32(logits);
    if (!mask)
        return br_new_ones(logits, BR_SHAPE(n), dtype);
    int64_t tokens = br_size(mask, 0) > 0 ? n / br_size(mask, 0) : 0;
    br_tensor *last = br_slice(br_ne_scalar(mask, 0), 1, -tokens, BR_ALL, 1);
    return br_reshape(br_to(last, dtype), BR_SHAPE(-1));
}

br_tensor *zoo_balance_loss(br_tensor *const *logits, int64_t layers, int64_t k, br_tensor *mask)
{
    uses u = { 0 };
    br_tensor *real = NULL, *any = NULL;
    for (int64_t i = 0; i < layers && !br_error_pending(); i++) {
        if (!logits[i])
            continue;
        any = logits[i];
        real = real ? real : real_tokens(any, mask);
        add_layer(&u, any, k, real);
    }
    if (br_error_pending() || !any)
        return br_error_pending() ? NULL : br_zeros(BR_SCALAR, BR_F32);
    br_tensor *product = br_mul(br_div(u.tokens, u.rows), br_div(u.probabilities, u.rows));
    return br_mul_scalar(br_sum(product), (double)br_size(any, 1));
}
