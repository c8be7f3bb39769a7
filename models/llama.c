/* models/llama.c - Hugging Face's LlamaModel and LlamaForCausalLM, and the same models of the
 * decoders that are built like Llama. */
#include "models/llama_internal.h"
#include "models/packed.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

BR_DEFINE_DEFAULTS(br_llama)

static const char op[] = "llama";

/* ---- Norms ----------------------------------------------------------------------------------- */

static br_rms_norm *new_norm(const br_llama_config *c, int64_t size)
{
    return br_rms_norm_new(size, BR_OPTIONS(br_rms_norm, .eps = c->rms_norm_eps));
}

/* Normalizes the last dimension. With adds_1 the factor is 1 + weight, in at least f32, because
 * bf16 cannot hold the sum. */
static br_tensor *normalize(br_rms_norm *norm, br_tensor *x, bool adds_1)
{
    if (!adds_1 || br_error_pending())
        return br_rms_norm_forward(norm, x);
    br_enter_with(norm, x);
    br_tensor *w = norm->weight;
    w = br_add_scalar(br_to(w, br_promote_types(br_dtype_of(w), BR_F32)), 1);
    return br_leave(norm, br_f_rms_norm(x, 1, norm->normalized_shape, w, norm->eps));
}

/* ---- Attention ------------------------------------------------------------------------------- */

/* Rotary positions of the tokens of a pass: cosines and sines [B or 1, 1, S, d / 2]. */
typedef struct angles {
    br_tensor *cos, *sin;
} angles;

/* Arguments shared by all layers of a forward pass, or by those with the same flags. */
typedef struct pass {
    br_cache *cache;
    angles angles;      /* NULL: the layer has no positions */
    br_tensor *visible; /* as in zoo_attention, or in zoo_attend_texts(); NULL: see is_causal */
    int64_t window;     /* only the last so many keys are visible to a single token; 0: all */
    bool is_causal;
    br_tensor *starts; /* of the texts of a packed batch; NULL: another batch */
    int64_t unmasked;  /* texts of so many tokens need no `visible` */
} pass;

static br_llama_attention *new_attention(const br_llama_config *c, int64_t layer)
{
    br_llama_attention *self = zoo_llama_create(c, sizeof *self, "Attention");
    int64_t e = c->hidden_size, d = zoo_llama_head_dim(c), own = c->num_attention_heads * d;
    int64_t shared = c->num_key_value_heads * d;
    self->heads = c->num_attention_heads;
    self->key_heads = c->num_key_value_heads;
    self->head_dim = d;
    self->layer = layer;
    self->scale = c->attention_multiplier > 0
                      ? c->attention_multiplier
                      : 1 / sqrt(c->query_scalar > 0 ? c->query_scalar : (double)d);
    self->softcap = c->attn_logit_softcapping;
    self->attention_dropout = c->attention_dropout;
    self->norm_adds_1 = c->norm_adds_1;
    if (c->fused) {
        br_linear *all = br_linear_new(e, own + 2 * shared, c->attention_bias);
        self->qkv_proj = br_child(self, "qkv_proj", all);
    } else {
        self->q_proj = br_child(self, "q_proj", br_linear_new(e, own, c->attention_bias));
        self->k_proj = br_child(self, "k_proj", br_linear_new(e, shared, c->attention_bias));
        self->v_proj = br_child(self, "v_proj", br_linear_new(e, shared, c->attention_bias));
    }
    self->o_proj = br_child(self, "o_proj", br_linear_new(own, e, c->output_bias));
    if (!c->qk_norm)
        return self;
    self->q_norm = br_child(self, "q_norm", new_norm(c, d));
    self->k_norm = br_child(self, "k_norm", new_norm(c, d));
    return self;
}

/* Computes queries [B, S, heads d], and keys and values [B, S, key heads d]. */
static void project(br_llama_attention *self, br_tensor *x, br_tensor *qkv[3])
{
    if (self->qkv_proj) {
        int64_t d = self->head_dim, own = self->heads * d, shared = self->key_heads * d;
        x = br_linear_forward(self->qkv_proj, x);
        qkv[0] = br_narrow(x, -1, 0, own);
        qkv[1] = br_narrow(x, -1, own, shared);
        qkv[2] = br_narrow(x, -1, own + shared, shared);
        return;
    }
    qkv[0] = br_linear_forward(self->q_proj, x);
    qkv[1] = br_linear_forward(self->k_proj, x);
    qkv[2] = br_linear_forward(self->v_proj, x);
}

/* Returns the heads [B, heads, S, d] of queries or keys, which are normalized and turned. */
static br_tensor *turned_heads(const br_llama_attention *self, int64_t heads, br_rms_norm *norm,
                               br_tensor *x, const angles *a)
{
    x = zoo_split_heads(x, heads);
    if (norm)
        x = normalize(norm, x, self->norm_adds_1);
    return a->cos ? zoo_turn(x, a->cos, a->sin) : x;
}

/* Reduces the keys of a single token to those in its window. */
static void narrow(const pass *p, br_tensor **k, br_tensor **v)
{
    if (br_error_pending() || p->window == 0 || br_size(*k, 2) <= p->window)
        return;
    *k = br_narrow(*k, 2, br_size(*k, 2) - p->window, p->window);
    *v = br_narrow(*v, 2, br_size(*v, 2) - p->window, p->window);
}

static br_tensor *attend(br_llama_attention *self, br_tensor *x, const pass *p,
                         br_tensor **attention)
{
    br_enter(self);
    br_scope *scope = br_scope_current();
    br_tensor *qkv[3];
    project(self, x, qkv);
    br_tensor *q = turned_heads(self, self->heads, self->q_norm, qkv[0], &p->angles);
    br_tensor *k = turned_heads(self, self->key_heads, self->k_norm, qkv[1], &p->angles);
    br_tensor *v = br_tap("value", zoo_split_heads(qkv[2], self->key_heads));
    if (br_error_pending())
        return br_leave(self, NULL);
    if (p->cache)
        br_cache_append(p->cache, self->layer, &k, &v);
    narrow(p, &k, &v);
    zoo_attention a = { .visible = p->visible, .is_causal = p->is_causal, .weights = attention };
    a.scale = self->scale;
    a.softcap = self->softcap;
    a.dropout_p = br_is_training(br_base(self)) ? self->attention_dropout : 0;
    br_tensor *context =
        p->starts ? zoo_attend_texts((br_tensor *[]){ q, k, v }, &a, p->starts, p->unmasked)
                  : zoo_attend(q, k, v, &a);
    if (attention)
        br_scope_return(scope, *attention);
    return br_leave(self, br_linear_forward(self->o_proj, context));
}

/* ---- Layers ---------------------------------------------------------------------------------- */

static br_llama_layer *new_layer(const br_llama_config *c, int64_t i)
{
    br_llama_layer *self = zoo_llama_create(c, sizeof *self, "DecoderLayer");
    int64_t e = c->hidden_size;
    self->norm_adds_1 = c->norm_adds_1;
    self->flags = c->layers[i];
    self->resid_pdrop = c->resid_pdrop;
    self->residual_multiplier = c->residual_multiplier;
    self->self_attn = br_child(self, "self_attn", new_attention(c, i));
    if (c->layers[i] & BR_LLAMA_SPARSE)
        self->moe = br_child(self, "mlp", zoo_llama_new_moe(c));
    else
        self->mlp = br_child(self, "mlp", zoo_llama_new_mlp(c, c->intermediate_size));
    self->input_layernorm = br_child(self, "input_layernorm", new_norm(c, e));
    self->post_attention_layernorm = br_child(self, "post_attention_layernorm", new_norm(c, e));
    if (!c->norms_after)
        return self;
    self->pre_feedforward_layernorm = br_child(self, "pre_feedforward_layernorm", new_norm(c, e));
    self->post_feedforward_layernorm = br_child(self, "post_feedforward_layernorm", new_norm(c, e));
    return self;
}

/* Optional results of a layer. */
typedef struct extra {
    br_tensor **attention, **router_logits;
} extra;

/* Returns x + y, the result of a half of a layer for x. */
static br_tensor *add_half(const br_llama_layer *self, br_tensor *x, br_tensor *y)
{
    const bool drops = self->resid_pdrop > 0 && br_is_training(&self->base);
    y = br_f_dropout(y, self->resid_pdrop, drops);
    if (self->residual_multiplier != 1)
        y = br_mul_scalar(y, self->residual_multiplier);
    return br_add(x, y);
}

static br_tensor *run_layer_once(br_llama_layer *self, br_tensor *x, const pass *p, extra more)
{
    br_enter(self);
    bool adds_1 = self->norm_adds_1, norms_after = self->post_feedforward_layernorm != NULL;
    br_tensor *y = normalize(self->input_layernorm, x, adds_1);
    y = attend(self->self_attn, y, p, more.attention);
    if (more.attention)
        br_scope_return(NULL, *more.attention);
    if (norms_after)
        y = normalize(self->post_attention_layernorm, y, adds_1);
    x = add_half(self, x, y);
    y = normalize(norms_after ? self->pre_feedforward_layernorm : self->post_attention_layernorm, x,
                  adds_1);
    y = self->moe ? zoo_llama_run_moe(self->moe, y, more.router_logits)
                  : zoo_llama_feed_forward(self->mlp, y);
    if (self->moe && more.router_logits)
        br_scope_return(NULL, *more.router_logits);
    if (norms_after)
        y = normalize(self->post_feedforward_layernorm, y, adds_1);
    return br_leave(self, br_tap("hidden_state", add_half(self, x, y)));
}

/* The fields of a pass that are no tensors, for a layer in an activation checkpoint. */
typedef struct layer_args {
    bool is_causal;
    int64_t unmasked;
} layer_args;

static br_tensor *run_layer_alone(void *self, br_tensor *const *inputs, const void *args)
{
    const layer_args *a = args;
    pass p = { .visible = inputs[1],
               .angles = { inputs[2], inputs[3] },
               .is_causal = a->is_causal,
               .starts = inputs[4],
               .unmasked = a->unmasked };
    return run_layer_once(self, inputs[0], &p, (extra){ 0 });
}

/* Runs a layer, in an activation checkpoint if the module has them. With a cache it never uses one,
 * because recomputing would append to the cache again. */
static br_tensor *run_layer(br_llama_layer *self, br_tensor *x, const pass *p, extra more)
{
    if (p->cache || more.attention || more.router_logits)
        return run_layer_once(self, x, p, more);
    const layer_args args = { p->is_causal, p->unmasked };
    return br_module_run(self, run_layer_alone,
                         BR_INPUTS(x, p->visible, p->angles.cos, p->angles.sin, p->starts), &args,
                         sizeof args);
}

/* ---- LlamaModel ------------------------------------------------------------------------------ */

br_llama *zoo_llama_make(const br_llama_config *c)
{
    const zoo_llama_kind *kind = zoo_llama_kind_of(c->model_type);
    br_llama *self = kind && kind->base ? br_module_create(sizeof *self, kind->base)
                                        : zoo_llama_create(c, sizeof *self, "Model");
    self->config = *c;
    self->embed_tokens = br_child(self, "embed_tokens",
                                  br_embedding_new(c->vocab_size, c->hidden_size, c->pad_token_id));
    self->layers = br_child(self, "layers", br_module_list_new());
    for (int64_t i = 0; i < c->num_hidden_layers && !br_error_pending(); i++)
        br_module_list_append(self->layers, new_layer(c, i));
    self->norm = br_child(self, "norm", new_norm(c, c->hidden_size));
    return self;
}

br_llama *br_llama_new(const br_llama_config *config)
{
    br_llama_config c = zoo_llama_checked(config);
    bool before = br_skip_init(true);
    br_llama *self = zoo_llama_make(&c);
    br_skip_init(before);
    return zoo_init_module(br_base(self), zoo_llama_init, &c);
}

static br_tensor *embed(br_llama *self, br_tensor *ids)
{
    br_tensor *x = br_embedding_forward(self->embed_tokens, ids);
    double scale = self->config.embedding_scale;
    if (scale == 1 || br_error_pending())
        return x;
    if (!self->config.norm_adds_1)
        return br_mul_scalar(x, scale);
    return br_mul(x, br_new_full(x, 0, NULL, scale, br_dtype_of(x))); /* Gemma rounds the factor */
}

/* Returns the mask of the tokens that are visible in a window, bool [n, past + n]. */
static br_tensor *visible_window(const br_llama_config *c, const br_tensor *ids, int64_t past,
                                 int64_t n)
{
    const int64_t last = past + (c->bidirectional ? c->sliding_window - 1 : 0);
    br_tensor *all = br_new_ones(ids, BR_SHAPE(n, past + n), BR_BOOL);
    return br_triu(br_tril(all, last), past - c->sliding_window + 1);
}

/* Returns the arguments of all layers with these flags. Chooses the simplest form of the mask.
 * `starts` is NULL unless the batch is packed. */
static pass pass_of(const br_llama *self, br_tensor *ids, const br_llama_options *o,
                    br_tensor *starts, int flags)
{
    const br_llama_config *c = &self->config;
    int64_t past = br_cache_length(o->cache), n = br_size(ids, 1), keys = past + n;
    int64_t window = flags & BR_LLAMA_WINDOW ? c->sliding_window : 0;
    pass p = { .cache = o->cache, .starts = starts };
    if (starts) {
        const int64_t longest = window > 0 ? zoo_longest_text(starts) : 0;
        p.is_causal = !c->bidirectional;
        p.unmasked = window;
        if (longest > window)
            p.visible = visible_window(c, ids, 0, longest);
    } else if (n == 1)
        p.window = window;
    else if (window > 0 && keys > window)
        p.visible = visible_window(c, ids, past, n);
    else if (!c->bidirectional && (past > 0 || o->attention_mask))
        p.visible = zoo_visible_past(ids, past, n);
    else
        p.is_causal = !c->bidirectional;
    br_tensor *real =
        zoo_visible_keys(op, "attention_mask", o->attention_mask, br_size(ids, 0), keys);
    if (real && p.window > 0 && keys > p.window)
        real = br_narrow(real, 3, keys - p.window, p.window);
    if (real)
        p.visible = p.visible ? br_logical_and(p.visible, real) : real;
    return p;
}

/* Computes the rotary positions of a pass, unless its layers have none. */
static void turn(const br_llama *self, br_tensor *at, int flags, pass *p)
{
    const br_llama_config *c = &self->config;
    if (br_error_pending() || flags & BR_LLAMA_NO_ROPE)
        return;
    zoo_rope_of_texts(
        br_unsqueeze(at, 1), p->starts, zoo_llama_rotary_dim(c), br_dtype_of(self->norm->weight),
        flags & BR_LLAMA_WINDOW ? &c->local_rope : &c->rope, &p->angles.cos, &p->angles.sin);
}

/* Passes for all combinations of flags that the layers have. */
enum { N_PASSES = (BR_LLAMA_WINDOW | BR_LLAMA_NO_ROPE) + 1 };

static void begin_passes(const br_llama *self, br_tensor *ids, const br_llama_options *o,
                         pass passes[N_PASSES])
{
    const br_llama_config *c = &self->config;
    const zoo_unpacked others = { o->attention_mask, o->position_ids, o->cache, o->attentions };
    br_tensor *starts = zoo_unpadded_starts(op, ids, o->cu_seqlens, &others);
    br_tensor *at = starts ? zoo_packed_positions(op, ids, starts, 0)
                           : zoo_positions(op, ids, o->position_ids, o->cache);
    bool needed[N_PASSES] = { false };
    for (int64_t i = 0; i < c->num_hidden_layers; i++)
        needed[c->layers[i] % N_PASSES] = true;
    for (int flags = 0; flags < N_PASSES; flags++) {
        if (!needed[flags])
            continue;
        passes[flags] = pass_of(self, ids, o, starts, flags);
        turn(self, at, flags, &passes[flags]);
    }
}

/* Runs all layers. router_logits is NULL or receives those of each layer. */
static br_tensor *run_layers(br_llama *self, br_tensor *x, const pass passes[N_PASSES],
                             const br_llama_options *o, br_tensor **router_logits)
{
    for (int64_t i = 0; i < br_module_list_size(self->layers) && !br_error_pending(); i++) {
        br_llama_layer *layer = br_module_list_at(self->layers, i);
        if (o->hidden_states)
            o->hidden_states[i] = x;
        const extra more = { o->attentions ? &o->attentions[i] : NULL,
                             router_logits ? &router_logits[i] : NULL };
        br_tensor *y = run_layer(layer, x, &passes[layer->flags % N_PASSES], more);
        x = o->hidden_states ? y : br_scope_replace(x, y);
    }
    x = normalize(self->norm, x, self->config.norm_adds_1);
    if (o->hidden_states)
        o->hidden_states[self->config.num_hidden_layers] = x;
    return x;
}

/* Runs all layers, and computes the loss of the routers if it is requested. */
static br_tensor *run_all(br_llama *self, br_tensor *x, const pass passes[N_PASSES],
                          const br_llama_options *o)
{
    const br_llama_config *c = &self->config;
    br_tensor *logits[BR_LLAMA_MAX_LAYERS] = { NULL };
    x = run_layers(self, x, passes, o, o->aux_loss ? logits : NULL);
    if (o->aux_loss)
        *o->aux_loss = zoo_balance_loss(logits, c->num_hidden_layers, c->num_experts_per_tok,
                                        o->attention_mask);
    return x;
}

static bool good_ids(const br_tensor *ids)
{
    if (br_require_tensor(op, "input_ids", ids) && br_ndim(ids) != 2)
        br_fail(BR_ERROR_SHAPE, op, "input_ids %s must have 2 dimensions: batch, tokens",
                br_shape_text(ids));
    return !br_error_pending();
}

static zoo_outputs outputs_of(const br_llama *self, const br_llama_options *o)
{
    return (zoo_outputs){ o->hidden_states, o->attentions, self->config.num_hidden_layers };
}

void zoo_llama_return_outputs(const br_llama *self, const br_llama_options *o)
{
    zoo_return_outputs(outputs_of(self, o));
    if (o->aux_loss && *o->aux_loss)
        br_scope_return(NULL, *o->aux_loss);
}

br_tensor *br_llama_forward(br_llama *self, br_tensor *input_ids, const br_llama_options *options)
{
    const br_llama_options *o = BR_OPTIONS_OF(op, br_llama, options);
    zoo_outputs outputs = { 0 };
    if (self)
        zoo_clear_outputs(outputs = outputs_of(self, o));
    if (o->aux_loss)
        *o->aux_loss = NULL;
    br_enter(self);
    if (!good_ids(input_ids))
        return br_leave(self, NULL);
    pass passes[N_PASSES] = { { 0 } };
    begin_passes(self, input_ids, o, passes);
    br_tensor *x = run_all(self, embed(self, input_ids), passes, o);
    if (br_error_pending())
        zoo_clear_outputs(outputs);
    zoo_llama_return_outputs(self, o);
    return br_leave(self, x);
}

/* ---- LlamaForCausalLM ------------------------------------------------------------------------ */

br_llama_lm *zoo_llama_make_lm_of(const br_llama_config *c)
{
    br_llama_lm *self = zoo_llama_create(c, sizeof *self, "ForCausalLM");
    self->model = br_child(self, "model", zoo_llama_make(c));
    self->lm_head = br_child(self, "lm_head", br_linear_new(c->hidden_size, c->vocab_size, false));
    if (!c->untied && !br_error_pending())
        self->lm_head->weight = br_module_replace_parameter(br_base(self->lm_head), "weight",
                                                            self->model->embed_tokens->weight);
    return self;
}

br_llama_lm *br_llama_lm_new(const br_llama_config *config)
{
    br_llama_config c = zoo_llama_checked(config);
    bool before = br_skip_init(true);
    br_llama_lm *self = zoo_llama_make_lm_of(&c);
    br_skip_init(before);
    return zoo_init_module(br_base(self), zoo_llama_init, &c);
}

static br_tensor *logits_of(br_llama_lm *self, br_tensor *x)
{
    const double cap = self->model->config.final_logit_softcapping;
    const double scaling = self->model->config.logits_scaling;
    x = br_linear_forward(self->lm_head, x);
    if (scaling != 1)
        x = br_div_scalar(x, scaling);
    return cap > 0 ? br_mul_scalar(br_tanh(br_div_scalar(x, cap)), cap) : x;
}

br_tensor *br_llama_lm_forward(br_llama_lm *self, br_tensor *input_ids,
                               const br_llama_options *options)
{
    br_enter(self);
    br_tensor *x = br_llama_forward(self->model, input_ids, options);
    zoo_llama_return_outputs(self->model, BR_OPTIONS_OF(op, br_llama, options));
    return br_leave(self, logits_of(self, x));
}

static br_tensor *next_logits(void *model, br_tensor *ids, br_tensor *attention_mask,
                              br_cache *cache)
{
    br_llama_lm *self = model;
    br_enter(self);
    br_llama_options o = br_llama_defaults();
    o.attention_mask = attention_mask;
    o.cache = cache;
    if (attention_mask)
        o.position_ids = zoo_masked_positions(attention_mask, br_size(ids, 1));
    br_tensor *x = br_select(br_llama_forward(self->model, ids, &o), 1, -1);
    return br_leave(self, logits_of(self, x));
}

br_language_model br_llama_language_model(br_llama_lm *model)
{
    const bool usable = br_module_is_usable("llama_language_model", model) && model->model;
    int64_t most = usable ? model->model->config.max_position_embeddings : 0;
    br_language_model lm = { .model = model, .next = next_logits, .max_length = most };
    if (usable && zoo_llama_kind_of(model->model->config.model_type)->rope.is_phi)
        lm.recomputed_after = model->model->config.rope.original_max_position_embeddings;
    return lm;
}

br_tensor *br_llama_lm_loss(br_llama_lm *self, br_tensor *input_ids, br_tensor *labels,
                            const br_llama_options *options)
{
    br_enter(self);
    br_llama_options o = *BR_OPTIONS_OF(op, br_llama, options);
    const br_llama_config *c = &self->model->config;
    br_tensor *aux = NULL;
    if (c->output_router_logits && !o.aux_loss)
        o.aux_loss = &aux;
    br_tensor *x = br_llama_forward(self->model, input_ids, &o);
    br_tensor *loss;
    if (c->final_logit_softcapping > 0) {
        loss = br_causal_lm_loss(logits_of(self, x), labels);
    } else {
        x = c->logits_scaling == 1 ? x : br_div_scalar(x, c->logits_scaling);
        loss = zoo_chunked_lm_loss("llama_lm_loss", x, self->lm_head, labels);
    }
    if (c->output_router_logits && !br_error_pending()) {
        aux = br_mul_scalar(br_to(*o.aux_loss, br_dtype_of(loss)), c->router_aux_loss_coef);
        loss = br_add(loss, aux);
    }
    zoo_llama_return_outputs(self->model, BR_OPTIONS_OF(op, br_llama, options));
    return br_leave(self, loss);
}
