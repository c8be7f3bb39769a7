/* models/gpt2.c - Hugging Face's GPT2Model and GPT2LMHeadModel. */
#include "models/gpt2_internal.h"
#include "models/packed.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

BR_DEFINE_DEFAULTS(br_gpt2)

static const char op[] = "gpt2";

/* ---- Configuration --------------------------------------------------------------------------- */

br_gpt2_config br_gpt2_config_default(void)
{
    return (br_gpt2_config){
        .vocab_size = 50257,
        .n_positions = 1024,
        .n_embd = 768,
        .n_layer = 12,
        .n_head = 12,
        .embd_pdrop = 0.1,
        .attn_pdrop = 0.1,
        .resid_pdrop = 0.1,
        .layer_norm_epsilon = 1e-5,
        .initializer_range = 0.02,
        .activation_function = "gelu_new",
    };
}

static bool read_config(const br_auto_config *config, br_gpt2_config *c)
{
    if (!br_auto_config_expect(config, "gpt2"))
        return false;
    *c = (br_gpt2_config){
        .vocab_size = br_auto_config_size(config, "vocab_size"),
        .n_positions = br_auto_config_size(config, "n_positions"),
        .n_embd = br_auto_config_size(config, "n_embd"),
        .n_layer = br_auto_config_size(config, "n_layer"),
        .n_head = br_auto_config_size(config, "n_head"),
        .embd_pdrop = br_auto_config_probability(config, "embd_pdrop"),
        .attn_pdrop = br_auto_config_probability(config, "attn_pdrop"),
        .resid_pdrop = br_auto_config_probability(config, "resid_pdrop"),
        .layer_norm_epsilon = br_auto_config_number(config, "layer_norm_epsilon"),
        .initializer_range = br_auto_config_number(config, "initializer_range"),
        .activation_function = br_auto_config_activation(config, "activation_function", NULL),
        .unscaled = !br_auto_config_bool(config, "scale_attn_weights"),
        .scale_by_layer = br_auto_config_bool(config, "scale_attn_by_inverse_layer_idx"),
        .untied = !br_auto_config_bool(config, "tie_word_embeddings"),
    };
    if (br_auto_config_has(config, "n_inner"))
        c->n_inner = br_auto_config_size(config, "n_inner");
    return br_auto_config_multiple(config, "n_embd", "n_head");
}

br_gpt2_config br_gpt2_config_from(const br_auto_config *config)
{
    br_gpt2_config c;
    return read_config(config, &c) ? c : (br_gpt2_config){ 0 };
}

static bool good_config(const br_gpt2_config *c)
{
    if (!zoo_good_config(op, c))
        return false;
    return zoo_good_size(op, "vocab_size", c->vocab_size) &&
           zoo_good_size(op, "n_positions", c->n_positions) &&
           zoo_good_size(op, "n_layer", c->n_layer) &&
           (c->n_inner == 0 || zoo_good_size(op, "n_inner", c->n_inner)) &&
           zoo_good_multiple(op, "n_embd", c->n_embd, "n_head", c->n_head) &&
           zoo_good_size(op, "4 n_embd", 4 * c->n_embd) &&
           zoo_good_probability(op, "attn_pdrop", c->attn_pdrop) &&
           zoo_good_positive(op, "layer_norm_epsilon", c->layer_norm_epsilon) &&
           zoo_good_deviation(op, "initializer_range", c->initializer_range) &&
           br_require_activation(op, "activation_function", c->activation_function);
}

/* Returns the configuration if it is valid. Otherwise an error is pending: returns one with the
 * smallest sizes, so that the constructors can go on and do nothing. */
br_gpt2_config zoo_gpt2_checked(const br_gpt2_config *config)
{
    return good_config(config) ? *config : (br_gpt2_config){ .n_embd = 1, .n_head = 1 };
}

/* Initializes a weight. The output projections of attention and MLP are scaled by 1 / sqrt(2
 * n_layer), because the residual stream sums the outputs of all layers. */
bool zoo_gpt2_init(const void *of, const char *key, br_tensor *weight)
{
    const br_gpt2_config *c = of;
    bool norm = strstr(key, "ln_") != NULL;
    if (norm && zoo_ends_with(key, ".weight"))
        return br_init_ones_(weight);
    if (br_ndim(weight) < 2)
        return br_init_zeros_(weight);
    double halves = zoo_ends_with(key, "c_proj.weight") ? 2.0 * (double)c->n_layer : 1;
    return br_init_normal_(weight, 0, c->initializer_range / sqrt(halves));
}

/* ---- Layers ---------------------------------------------------------------------------------- */

static br_gpt2_conv1d *new_conv1d(int64_t in_features, int64_t out_features)
{
    br_gpt2_conv1d *self = br_module_create(sizeof *self, "Conv1D");
    br_scope *scope = br_scope_begin();
    self->weight =
        br_parameter(self, "weight", br_empty(BR_SHAPE(in_features, out_features), BR_F32));
    self->bias = br_parameter(self, "bias", br_empty(BR_SHAPE(out_features), BR_F32));
    br_scope_end(scope);
    return self;
}

static br_tensor *conv1d(br_gpt2_conv1d *self, br_tensor *x)
{
    br_enter_with(self, x);
    return br_leave(self, br_f_linear(x, br_t(self->weight), self->bias));
}

static br_gpt2_attention *new_attention(br_gpt2_config c, int64_t layer)
{
    br_gpt2_attention *self = br_module_create(sizeof *self, "GPT2Attention");
    self->n_head = c.n_head;
    self->layer = layer;
    self->attn_pdrop = c.attn_pdrop;
    self->scale = c.unscaled ? 1 : 1 / sqrt((double)(c.n_embd / c.n_head));
    self->scale /= c.scale_by_layer ? (double)(layer + 1) : 1;
    self->c_attn = br_child(self, "c_attn", new_conv1d(c.n_embd, 3 * c.n_embd));
    self->c_proj = br_child(self, "c_proj", new_conv1d(c.n_embd, c.n_embd));
    self->resid_dropout = br_child(self, "resid_dropout", br_dropout_new(c.resid_pdrop));
    return self;
}

/* Arguments shared by all layers of a forward pass. */
typedef struct pass {
    br_cache *cache;
    br_tensor *visible; /* as in zoo_attention; NULL: see is_causal */
    bool is_causal;
    br_tensor *starts; /* of the texts of a packed batch; NULL: another batch */
} pass;

static br_tensor *attend(br_gpt2_attention *self, br_tensor *x, const pass *p,
                         br_tensor **attention)
{
    br_enter(self);
    br_scope *scope = br_scope_current();
    int64_t e = br_size(x, -1), heads = self->n_head;
    br_tensor *qkv[3];
    br_split(conv1d(self->c_attn, x), e, 2, BR_PARTS(qkv));
    br_tensor *q = zoo_split_heads(qkv[0], heads), *k = zoo_split_heads(qkv[1], heads);
    br_tensor *v = br_tap("value", zoo_split_heads(qkv[2], heads));
    if (p->cache)
        br_cache_append(p->cache, self->layer, &k, &v);
    zoo_attention a = { .visible = p->visible, .is_causal = p->is_causal, .weights = attention };
    a.scale = self->scale;
    a.dropout_p = br_is_training(br_base(self)) ? self->attn_pdrop : 0;
    br_tensor *context = p->starts ? zoo_attend_texts((br_tensor *[]){ q, k, v }, &a, p->starts, 0)
                                   : zoo_attend(q, k, v, &a);
    if (attention)
        br_scope_return(scope, *attention);
    x = conv1d(self->c_proj, context);
    return br_leave(self, br_dropout_forward(self->resid_dropout, x));
}

static br_gpt2_mlp *new_mlp(br_gpt2_config c)
{
    br_gpt2_mlp *self = br_module_create(sizeof *self, "GPT2MLP");
    int64_t inner = c.n_inner ? c.n_inner : 4 * c.n_embd;
    self->c_fc = br_child(self, "c_fc", new_conv1d(c.n_embd, inner));
    self->c_proj = br_child(self, "c_proj", new_conv1d(inner, c.n_embd));
    self->dropout = br_child(self, "dropout", br_dropout_new(c.resid_pdrop));
    self->act = br_find_activation(c.activation_function);
    return self;
}

static br_tensor *feed_forward(br_gpt2_mlp *self, br_tensor *x)
{
    br_enter(self);
    x = conv1d(self->c_proj, self->act(conv1d(self->c_fc, x)));
    return br_leave(self, br_dropout_forward(self->dropout, x));
}

static br_layer_norm *new_norm(br_gpt2_config c)
{
    return br_layer_norm_new(c.n_embd, BR_OPTIONS(br_layer_norm, .eps = c.layer_norm_epsilon));
}

static br_gpt2_block *new_block(br_gpt2_config c, int64_t layer)
{
    br_gpt2_block *self = br_module_create(sizeof *self, "GPT2Block");
    self->ln_1 = br_child(self, "ln_1", new_norm(c));
    self->attn = br_child(self, "attn", new_attention(c, layer));
    self->ln_2 = br_child(self, "ln_2", new_norm(c));
    self->mlp = br_child(self, "mlp", new_mlp(c));
    return self;
}

static br_tensor *run_block_once(br_gpt2_block *self, br_tensor *x, const pass *p,
                                 br_tensor **attention)
{
    br_enter(self);
    x = br_add(attend(self->attn, br_layer_norm_forward(self->ln_1, x), p, attention), x);
    if (attention)
        br_scope_return(NULL, *attention);
    x = br_add(x, feed_forward(self->mlp, br_layer_norm_forward(self->ln_2, x)));
    return br_leave(self, br_tap("hidden_state", x));
}

static br_tensor *run_block_alone(void *self, br_tensor *const *inputs, const void *args)
{
    pass p = { .visible = inputs[1], .starts = inputs[2], .is_causal = *(const bool *)args };
    return run_block_once(self, inputs[0], &p, NULL);
}

/* Runs a block, in an activation checkpoint if the module has them. With a cache it never uses one,
 * because recomputing would append to the cache again. */
static br_tensor *run_block(br_gpt2_block *self, br_tensor *x, const pass *p, br_tensor **attention)
{
    if (p->cache || attention)
        return run_block_once(self, x, p, attention);
    return br_module_run(self, run_block_alone, BR_INPUTS(x, p->visible, p->starts), &p->is_causal,
                         sizeof p->is_causal);
}

/* ---- GPT2Model ------------------------------------------------------------------------------- */

br_gpt2 *zoo_gpt2_make(br_gpt2_config c)
{
    br_gpt2 *self = br_module_create(sizeof *self, "GPT2Model");
    self->config = c;
    self->wte = br_child(self, "wte", br_embedding_new(c.vocab_size, c.n_embd, -1));
    self->wpe = br_child(self, "wpe", br_embedding_new(c.n_positions, c.n_embd, -1));
    self->drop = br_child(self, "drop", br_dropout_new(c.embd_pdrop));
    self->h = br_child(self, "h", br_module_list_new());
    for (int64_t i = 0; i < c.n_layer && !br_error_pending(); i++)
        br_module_list_append(self->h, new_block(c, i));
    self->ln_f = br_child(self, "ln_f", new_norm(c));
    return self;
}

br_gpt2 *br_gpt2_new(const br_gpt2_config *config)
{
    br_gpt2_config c = zoo_gpt2_checked(config);
    bool before = br_skip_init(true);
    br_gpt2 *self = zoo_gpt2_make(c);
    br_skip_init(before);
    return zoo_init_module(br_base(self), zoo_gpt2_init, &c);
}

/* Checks the ids' shape and that the model has enough positions. The positions of a packed batch
 * are checked when they are counted. */
static bool good_ids(const br_gpt2 *self, const br_tensor *ids, const br_gpt2_options *o)
{
    if (!br_require_tensor(op, "input_ids", ids))
        return false;
    int64_t past = br_cache_length(o->cache);
    if (br_ndim(ids) != 2)
        br_fail(BR_ERROR_SHAPE, op, "input_ids %s must have 2 dimensions: batch, tokens",
                br_shape_text(ids));
    else if (!o->cu_seqlens && br_size(ids, 1) > self->config.n_positions - past)
        br_fail(BR_ERROR_SHAPE, op,
                "input_ids %s after %" PRId64 " cached tokens exceed the model's %" PRId64
                " positions",
                br_shape_text(ids), past, self->config.n_positions);
    else if (o->token_type_ids && !br_same_shape(ids, o->token_type_ids))
        br_fail(BR_ERROR_SHAPE, op, "token_type_ids %s must have input_ids' shape %s",
                br_shape_text(o->token_type_ids), br_shape_text(ids));
    return !br_error_pending();
}

static br_tensor *embed(br_gpt2 *self, br_tensor *ids, const br_gpt2_options *o, br_tensor *starts)
{
    br_tensor *x = br_embedding_forward(self->wte, ids);
    br_tensor *at = starts ? zoo_packed_positions(op, ids, starts, self->config.n_positions)
                           : zoo_positions(op, ids, o->position_ids, o->cache);
    x = br_add(x, br_embedding_forward(self->wpe, at));
    if (o->token_type_ids)
        x = br_add(x, br_embedding_forward(self->wte, o->token_type_ids));
    return br_dropout_forward(self->drop, x);
}

/* Chooses the simplest form of the mask. */
static pass begin_pass(const br_tensor *ids, const br_gpt2_options *o)
{
    int64_t past = br_cache_length(o->cache), n = br_size(ids, 1);
    pass p = { .cache = o->cache };
    if (!o->attention_mask && past == 0) {
        p.is_causal = n > 1;
        return p;
    }
    if (n > 1)
        p.visible = zoo_visible_past(ids, past, n);
    br_tensor *keys =
        zoo_visible_keys(op, "attention_mask", o->attention_mask, br_size(ids, 0), past + n);
    if (keys)
        p.visible = p.visible ? br_logical_and(p.visible, keys) : keys;
    return p;
}

static zoo_outputs outputs_of(const br_gpt2 *self, const br_gpt2_options *o)
{
    return (zoo_outputs){ o->hidden_states, o->attentions, self->config.n_layer };
}

static br_tensor *run_blocks(br_gpt2 *self, br_tensor *x, const pass *p, const br_gpt2_options *o)
{
    for (int64_t i = 0; i < br_module_list_size(self->h) && !br_error_pending(); i++) {
        if (o->hidden_states)
            o->hidden_states[i] = x;
        br_tensor *y = run_block(br_module_list_at(self->h, i), x, p,
                                 o->attentions ? &o->attentions[i] : NULL);
        x = o->hidden_states ? y : br_scope_replace(x, y);
    }
    x = br_layer_norm_forward(self->ln_f, x);
    if (o->hidden_states)
        o->hidden_states[self->config.n_layer] = x;
    return x;
}

br_tensor *br_gpt2_forward(br_gpt2 *self, br_tensor *input_ids, const br_gpt2_options *options)
{
    const br_gpt2_options *o = BR_OPTIONS_OF(op, br_gpt2, options);
    zoo_outputs outputs = { 0 };
    if (self)
        zoo_clear_outputs(outputs = outputs_of(self, o));
    br_enter(self);
    if (!good_ids(self, input_ids, o))
        return br_leave(self, NULL);
    const zoo_unpacked others = { o->attention_mask, o->position_ids, o->cache, o->attentions };
    pass p = begin_pass(input_ids, o);
    p.starts = zoo_unpadded_starts(op, input_ids, o->cu_seqlens, &others);
    br_tensor *x = run_blocks(self, embed(self, input_ids, o, p.starts), &p, o);
    if (br_error_pending())
        zoo_clear_outputs(outputs);
    zoo_return_outputs(outputs);
    return br_leave(self, x);
}

/* ---- GPT2LMHeadModel ------------------------------------------------------------------------- */

br_gpt2_lm *zoo_gpt2_make_lm(br_gpt2_config c)
{
    br_gpt2_lm *self = br_module_create(sizeof *self, "GPT2LMHeadModel");
    self->transformer = br_child(self, "transformer", zoo_gpt2_make(c));
    self->lm_head = br_child(self, "lm_head", br_linear_new(c.n_embd, c.vocab_size, false));
    if (!c.untied && !br_error_pending())
        self->lm_head->weight = br_module_replace_parameter(br_base(self->lm_head), "weight",
                                                            self->transformer->wte->weight);
    return self;
}

br_gpt2_lm *br_gpt2_lm_new(const br_gpt2_config *config)
{
    br_gpt2_config c = zoo_gpt2_checked(config);
    bool before = br_skip_init(true);
    br_gpt2_lm *self = zoo_gpt2_make_lm(c);
    br_skip_init(before);
    return zoo_init_module(br_base(self), zoo_gpt2_init, &c);
}

br_tensor *br_gpt2_lm_forward(br_gpt2_lm *self, br_tensor *input_ids,
                              const br_gpt2_options *options)
{
    br_enter(self);
    br_tensor *x = br_gpt2_forward(self->transformer, input_ids, options);
    zoo_return_outputs(outputs_of(self->transformer, BR_OPTIONS_OF(op, br_gpt2, options)));
    return br_leave(self, br_linear_forward(self->lm_head, x));
}

static br_tensor *next_logits(void *model, br_tensor *ids, br_tensor *attention_mask,
                              br_cache *cache)
{
    br_gpt2_lm *self = model;
    br_enter(self);
    br_gpt2_options o = br_gpt2_defaults();
    o.attention_mask = attention_mask;
    o.cache = cache;
    if (attention_mask)
        o.position_ids = zoo_masked_positions(attention_mask, br_size(ids, 1));
    br_tensor *x = br_select(br_gpt2_forward(self->transformer, ids, &o), 1, -1);
    return br_leave(self, br_linear_forward(self->lm_head, x));
}

br_language_model br_gpt2_language_model(br_gpt2_lm *model)
{
    const bool usable = br_module_is_usable("gpt2_language_model", model) && model->transformer;
    int64_t most = usable ? model->transformer->config.n_positions : 0;
    return (br_language_model){ .model = model, .next = next_logits, .max_length = most };
}

br_tensor *br_gpt2_lm_loss(br_gpt2_lm *self, br_tensor *input_ids, br_tensor *labels,
                           const br_gpt2_options *options)
{
    static const char name[] = "gpt2_lm_loss";
    br_enter(self);
    br_tensor *x = br_gpt2_forward(self->transformer, input_ids, options);
    zoo_return_outputs(outputs_of(self->transformer, BR_OPTIONS_OF(op, br_gpt2, options)));
    return br_leave(self, zoo_chunked_lm_loss(name, x, self->lm_head, labels));
}
