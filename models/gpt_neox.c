/* models/gpt_neox.c - Hugging Face's GPTNeoXModel and GPTNeoXForCausalLM. */
#include "models/gpt_neox_internal.h"
#include "models/packed.h"

#include <inttypes.h>

BR_DEFINE_DEFAULTS(br_gpt_neox)

static const char op[] = "gpt_neox";

/* ---- Attention ------------------------------------------------------------------------------- */

/* Arguments shared by all layers of a forward pass. */
typedef struct pass {
    br_cache *cache;
    br_tensor *visible;   /* as in zoo_attention; NULL: see is_causal */
    br_tensor *cos, *sin; /* [B or 1, 1, S, rotary_dim / 2] */
    bool is_causal;
    br_tensor *starts; /* of the texts of a packed batch; NULL: another batch */
} pass;

static br_gpt_neox_attention *new_attention(const br_gpt_neox_config *c, int64_t layer)
{
    br_gpt_neox_attention *self = br_module_create(sizeof *self, "GPTNeoXAttention");
    int64_t e = c->hidden_size;
    self->heads = c->num_attention_heads;
    self->layer = layer;
    self->attention_dropout = c->attention_dropout;
    self->query_key_value =
        br_child(self, "query_key_value", br_linear_new(e, 3 * e, c->attention_bias));
    self->dense = br_child(self, "dense", br_linear_new(e, e, c->attention_bias));
    return self;
}

static br_tensor *attend(br_gpt_neox_attention *self, br_tensor *x, const pass *p,
                         br_tensor **attention)
{
    br_enter(self);
    br_scope *scope = br_scope_current();
    br_tensor *all = zoo_split_heads(br_linear_forward(self->query_key_value, x), self->heads);
    if (br_error_pending())
        return br_leave(self, NULL);
    br_tensor *qkv[3];
    br_split(all, br_size(all, -1) / 3, -1, BR_PARTS(qkv));
    br_tensor *q = zoo_turn(qkv[0], p->cos, p->sin), *k = zoo_turn(qkv[1], p->cos, p->sin);
    br_tensor *v = br_tap("value", qkv[2]);
    if (p->cache)
        br_cache_append(p->cache, self->layer, &k, &v);
    zoo_attention a = { .visible = p->visible, .is_causal = p->is_causal, .weights = attention };
    a.dropout_p = br_is_training(br_base(self)) ? self->attention_dropout : 0;
    br_tensor *context = p->starts ? zoo_attend_texts((br_tensor *[]){ q, k, v }, &a, p->starts, 0)
                                   : zoo_attend(q, k, v, &a);
    if (attention)
        br_scope_return(scope, *attention);
    return br_leave(self, br_linear_forward(self->dense, context));
}

/* ---- Layers ---------------------------------------------------------------------------------- */

static br_gpt_neox_mlp *new_mlp(const br_gpt_neox_config *c)
{
    br_gpt_neox_mlp *self = br_module_create(sizeof *self, "GPTNeoXMLP");
    int64_t e = c->hidden_size, inner = c->intermediate_size;
    self->dense_h_to_4h = br_child(self, "dense_h_to_4h", br_linear_new(e, inner, true));
    self->dense_4h_to_h = br_child(self, "dense_4h_to_h", br_linear_new(inner, e, true));
    self->act = br_find_activation(c->hidden_act);
    return self;
}

static br_tensor *feed_forward(br_gpt_neox_mlp *self, br_tensor *x)
{
    br_enter(self);
    x = self->act(br_linear_forward(self->dense_h_to_4h, x));
    return br_leave(self, br_linear_forward(self->dense_4h_to_h, x));
}

static br_layer_norm *new_norm(const br_gpt_neox_config *c)
{
    return br_layer_norm_new(c->hidden_size, BR_OPTIONS(br_layer_norm, .eps = c->layer_norm_eps));
}

static br_gpt_neox_layer *new_layer(const br_gpt_neox_config *c, int64_t i)
{
    br_gpt_neox_layer *self = br_module_create(sizeof *self, "GPTNeoXLayer");
    self->use_parallel_residual = c->use_parallel_residual;
    self->input_layernorm = br_child(self, "input_layernorm", new_norm(c));
    self->post_attention_layernorm = br_child(self, "post_attention_layernorm", new_norm(c));
    self->post_attention_dropout =
        br_child(self, "post_attention_dropout", br_dropout_new(c->hidden_dropout));
    self->post_mlp_dropout = br_child(self, "post_mlp_dropout", br_dropout_new(c->hidden_dropout));
    self->attention = br_child(self, "attention", new_attention(c, i));
    self->mlp = br_child(self, "mlp", new_mlp(c));
    return self;
}

static br_tensor *run_layer_once(br_gpt_neox_layer *self, br_tensor *x, const pass *p,
                                 br_tensor **attention)
{
    br_enter(self);
    br_tensor *a =
        attend(self->attention, br_layer_norm_forward(self->input_layernorm, x), p, attention);
    if (attention)
        br_scope_return(NULL, *attention);
    a = br_dropout_forward(self->post_attention_dropout, a);
    br_tensor *sum = br_add(a, x), *from = self->use_parallel_residual ? x : sum;
    br_tensor *y =
        feed_forward(self->mlp, br_layer_norm_forward(self->post_attention_layernorm, from));
    y = br_dropout_forward(self->post_mlp_dropout, y);
    /* In half precision the order of the sums matters. */
    y = self->use_parallel_residual ? br_add(br_add(y, a), x) : br_add(y, sum);
    return br_leave(self, br_tap("hidden_state", y));
}

static br_tensor *run_layer_alone(void *self, br_tensor *const *inputs, const void *args)
{
    pass p = { .visible = inputs[1],
               .cos = inputs[2],
               .sin = inputs[3],
               .starts = inputs[4],
               .is_causal = *(const bool *)args };
    return run_layer_once(self, inputs[0], &p, NULL);
}

/* Runs a layer, in an activation checkpoint if the module has them. With a cache it never uses one,
 * because recomputing would append to the cache again. */
static br_tensor *run_layer(br_gpt_neox_layer *self, br_tensor *x, const pass *p,
                            br_tensor **attention)
{
    if (p->cache || attention)
        return run_layer_once(self, x, p, attention);
    return br_module_run(self, run_layer_alone, BR_INPUTS(x, p->visible, p->cos, p->sin, p->starts),
                         &p->is_causal, sizeof p->is_causal);
}

/* ---- GPTNeoXModel ---------------------------------------------------------------------------- */

br_gpt_neox *zoo_gpt_neox_make(const br_gpt_neox_config *c)
{
    br_gpt_neox *self = br_module_create(sizeof *self, "GPTNeoXModel");
    self->config = *c;
    self->embed_in =
        br_child(self, "embed_in", br_embedding_new(c->vocab_size, c->hidden_size, -1));
    self->emb_dropout = br_child(self, "emb_dropout", br_dropout_new(c->hidden_dropout));
    self->layers = br_child(self, "layers", br_module_list_new());
    for (int64_t i = 0; i < c->num_hidden_layers && !br_error_pending(); i++)
        br_module_list_append(self->layers, new_layer(c, i));
    self->final_layer_norm = br_child(self, "final_layer_norm", new_norm(c));
    return self;
}

br_gpt_neox *br_gpt_neox_new(const br_gpt_neox_config *config)
{
    br_gpt_neox_config c = zoo_gpt_neox_checked(config);
    bool before = br_skip_init(true);
    br_gpt_neox *self = zoo_gpt_neox_make(&c);
    br_skip_init(before);
    return zoo_init_module(br_base(self), zoo_gpt_neox_init, &c);
}

/* Chooses the simplest form of the mask, and computes the positions. */
static pass begin_pass(const br_gpt_neox *self, br_tensor *ids, const br_gpt_neox_options *o)
{
    int64_t past = br_cache_length(o->cache), n = br_size(ids, 1);
    const zoo_unpacked others = { o->attention_mask, o->position_ids, o->cache, o->attentions };
    pass p = { .cache = o->cache, .starts = zoo_unpadded_starts(op, ids, o->cu_seqlens, &others) };
    if (n > 1 && (past > 0 || o->attention_mask))
        p.visible = zoo_visible_past(ids, past, n);
    else
        p.is_causal = n > 1;
    br_tensor *real =
        zoo_visible_keys(op, "attention_mask", o->attention_mask, br_size(ids, 0), past + n);
    if (real)
        p.visible = p.visible ? br_logical_and(p.visible, real) : real;
    br_tensor *at = p.starts ? zoo_packed_positions(op, ids, p.starts, 0)
                             : zoo_positions(op, ids, o->position_ids, o->cache);
    if (!br_error_pending())
        zoo_rope_of_texts(br_unsqueeze(at, 1), p.starts, zoo_gpt_neox_rotary_dim(&self->config),
                          br_dtype_of(self->final_layer_norm->weight), &self->config.rope, &p.cos,
                          &p.sin);
    return p;
}

static br_tensor *run_layers(br_gpt_neox *self, br_tensor *x, const pass *p,
                             const br_gpt_neox_options *o)
{
    for (int64_t i = 0; i < br_module_list_size(self->layers) && !br_error_pending(); i++) {
        if (o->hidden_states)
            o->hidden_states[i] = x;
        br_tensor *y = run_layer(br_module_list_at(self->layers, i), x, p,
                                 o->attentions ? &o->attentions[i] : NULL);
        x = o->hidden_states ? y : br_scope_replace(x, y);
    }
    x = br_layer_norm_forward(self->final_layer_norm, x);
    if (o->hidden_states)
        o->hidden_states[self->config.num_hidden_layers] = x;
    return x;
}

static zoo_outputs outputs_of(const br_gpt_neox *self, const br_gpt_neox_options *o)
{
    return (zoo_outputs){ o->hidden_states, o->attentions, self->config.num_hidden_layers };
}

br_tensor *br_gpt_neox_forward(br_gpt_neox *self, br_tensor *input_ids,
                               const br_gpt_neox_options *options)
{
    const br_gpt_neox_options *o = BR_OPTIONS_OF(op, br_gpt_neox, options);
    zoo_outputs outputs = { 0 };
    if (self)
        zoo_clear_outputs(outputs = outputs_of(self, o));
    br_enter(self);
    if (br_require_tensor(op, "input_ids", input_ids) && br_ndim(input_ids) != 2)
        br_fail(BR_ERROR_SHAPE, op, "input_ids %s must have 2 dimensions: batch, tokens",
                br_shape_text(input_ids));
    if (br_error_pending())
        return br_leave(self, NULL);
    pass p = begin_pass(self, input_ids, o);
    br_tensor *x = br_embedding_forward(self->embed_in, input_ids);
    x = run_layers(self, br_dropout_forward(self->emb_dropout, x), &p, o);
    if (br_error_pending())
        zoo_clear_outputs(outputs);
    zoo_return_outputs(outputs);
    return br_leave(self, x);
}

/* ---- GPTNeoXForCausalLM ---------------------------------------------------------------------- */

br_gpt_neox_lm *zoo_gpt_neox_make_lm(const br_gpt_neox_config *c)
{
    br_gpt_neox_lm *self = br_module_create(sizeof *self, "GPTNeoXForCausalLM");
    self->gpt_neox = br_child(self, "gpt_neox", zoo_gpt_neox_make(c));
    self->lm_head = br_child(self, "lm_head", br_linear_new(c->hidden_size, c->vocab_size, false));
    if (c->tie_word_embeddings && !br_error_pending())
        self->lm_head->weight = br_module_replace_parameter(br_base(self->lm_head), "weight",
                                                            self->gpt_neox->embed_in->weight);
    return self;
}

br_gpt_neox_lm *br_gpt_neox_lm_new(const br_gpt_neox_config *config)
{
    br_gpt_neox_config c = zoo_gpt_neox_checked(config);
    bool before = br_skip_init(true);
    br_gpt_neox_lm *self = zoo_gpt_neox_make_lm(&c);
    br_skip_init(before);
    return zoo_init_module(br_base(self), zoo_gpt_neox_init, &c);
}

br_tensor *br_gpt_neox_lm_forward(br_gpt_neox_lm *self, br_tensor *input_ids,
                                  const br_gpt_neox_options *options)
{
    br_enter(self);
    br_tensor *x = br_gpt_neox_forward(self->gpt_neox, input_ids, options);
    zoo_return_outputs(outputs_of(self->gpt_neox, BR_OPTIONS_OF(op, br_gpt_neox, options)));
    return br_leave(self, br_linear_forward(self->lm_head, x));
}

static br_tensor *next_logits(void *model, br_tensor *ids, br_tensor *attention_mask,
                              br_cache *cache)
{
    br_gpt_neox_lm *self = model;
    br_enter(self);
    br_gpt_neox_options o = br_gpt_neox_defaults();
    o.attention_mask = attention_mask;
    o.cache = cache;
    if (attention_mask)
        o.position_ids = zoo_masked_positions(attention_mask, br_size(ids, 1));
    br_tensor *x = br_select(br_gpt_neox_forward(self->gpt_neox, ids, &o), 1, -1);
    return br_leave(self, br_linear_forward(self->lm_head, x));
}

br_language_model br_gpt_neox_language_model(br_gpt_neox_lm *model)
{
    const bool usable = br_module_is_usable("gpt_neox_language_model", model) && model->gpt_neox;
    int64_t most = usable ? model->gpt_neox->config.max_position_embeddings : 0;
    return (br_language_model){ .model = model, .next = next_logits, .max_length = most };
}

br_tensor *br_gpt_neox_lm_loss(br_gpt_neox_lm *self, br_tensor *input_ids, br_tensor *labels,
                               const br_gpt_neox_options *options)
{
    br_enter(self);
    br_tensor *x = br_gpt_neox_forward(self->gpt_neox, input_ids, options);
    zoo_return_outputs(outputs_of(self->gpt_neox, BR_OPTIONS_OF(op, br_gpt_neox, options)));
    return br_leave(self, zoo_chunked_lm_loss("gpt_neox_lm_loss", x, self->lm_head, labels));
}
