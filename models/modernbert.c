/* models/modernbert.c - Hugging Face's ModernBertModel. The heads are in modernbert_heads.c. */
#include "models/modernbert_internal.h"
#include "models/packed.h"

BR_DEFINE_DEFAULTS(br_modernbert)

static const char op[] = "modernbert";

br_layer_norm *zoo_modernbert_norm(const br_modernbert_config *c)
{
    return br_layer_norm_new(c->hidden_size,
                             BR_OPTIONS(br_layer_norm, .eps = c->norm_eps, .bias = c->norm_bias));
}

/* ---- Passes ---------------------------------------------------------------------------------- */

/* What all layers of a type share in a forward pass. */
typedef struct pass {
    br_tensor *visible; /* as in zoo_attention; in a packed batch, of the longest text */
    br_tensor *cos, *sin;
    br_tensor *starts; /* of the texts of a packed batch; NULL: another batch */
    int64_t unmasked;  /* texts of so many tokens need no `visible` */
} pass;

/* Heads of `size` numbers have the positions `at` by `rope`. */
static pass begin_pass(const br_tensor *x, br_tensor *at, br_tensor *starts,
                       const br_rope_options *rope, int64_t size, br_tensor *visible)
{
    pass p = { .visible = visible, .starts = starts };
    if (!br_error_pending())
        zoo_rope_of_texts(at, starts, size, br_dtype_of(x), rope, &p.cos, &p.sin);
    return p;
}

/* Returns bool [1 or B, 1, n, n], true where a query may attend to the key in a local layer, for
 * texts of n tokens. `keys` are the visible keys, or NULL: all. Returns `keys` if no two tokens are
 * too far apart. */
static br_tensor *visible_nearby(const br_tensor *x, int64_t n, int64_t distance, br_tensor *keys)
{
    if (br_error_pending() || n - 1 <= distance)
        return keys;
    br_tensor *all = br_new_ones(x, BR_SHAPE(1, 1, n, n), BR_BOOL);
    br_tensor *near = br_triu(br_tril(all, distance), -distance);
    return keys ? br_logical_and(near, keys) : near;
}

/* ---- Embeddings ------------------------------------------------------------------------------ */

static br_modernbert_embeddings *new_embeddings(const br_modernbert_config *c)
{
    br_modernbert_embeddings *self = br_module_create(sizeof *self, "ModernBertEmbeddings");
    self->tok_embeddings = br_child(
        self, "tok_embeddings", br_embedding_new(c->vocab_size, c->hidden_size, c->pad_token_id));
    self->norm = br_child(self, "norm", zoo_modernbert_norm(c));
    self->drop = br_child(self, "drop", br_dropout_new(c->embedding_dropout));
    return self;
}

static br_tensor *embed(br_modernbert_embeddings *self, br_tensor *ids)
{
    br_enter(self);
    if (br_require_tensor(op, "input_ids", ids) && br_ndim(ids) != 2)
        br_fail(BR_ERROR_SHAPE, op, "input_ids %s must have 2 dimensions: batch, tokens",
                br_shape_text(ids));
    br_tensor *x = br_error_pending() ? NULL : br_embedding_forward(self->tok_embeddings, ids);
    x = br_layer_norm_forward(self->norm, x);
    return br_leave(self, br_dropout_forward(self->drop, x));
}

/* ---- Layers ---------------------------------------------------------------------------------- */

static br_modernbert_attention *new_attention(const br_modernbert_config *c)
{
    br_modernbert_attention *self = br_module_create(sizeof *self, "ModernBertAttention");
    int64_t e = c->hidden_size;
    self->num_attention_heads = c->num_attention_heads;
    self->attention_dropout = c->attention_dropout;
    self->Wqkv = br_child(self, "Wqkv", br_linear_new(e, 3 * e, c->attention_bias));
    self->Wo = br_child(self, "Wo", br_linear_new(e, e, c->attention_bias));
    self->out_drop = br_child(self, "out_drop", br_dropout_new(c->attention_dropout));
    return self;
}

static br_tensor *attend(br_modernbert_attention *self, br_tensor *x, const pass *p,
                         br_tensor **attention)
{
    br_enter(self);
    br_scope *scope = br_scope_current();
    int64_t heads = self->num_attention_heads;
    br_tensor *qkv[3];
    br_split(br_linear_forward(self->Wqkv, x), br_error_pending() ? 1 : br_size(x, -1), 2,
             BR_PARTS(qkv));
    br_tensor *q = br_f_rotary_embedding(zoo_split_heads(qkv[0], heads), p->cos, p->sin, false);
    br_tensor *k = br_f_rotary_embedding(zoo_split_heads(qkv[1], heads), p->cos, p->sin, false);
    br_tensor *v = br_tap("value", zoo_split_heads(qkv[2], heads));
    zoo_attention a = { .visible = p->visible, .weights = attention };
    a.dropout_p = br_is_training(br_base(self)) ? self->attention_dropout : 0;
    br_tensor *context =
        p->starts ? zoo_attend_texts((br_tensor *[]){ q, k, v }, &a, p->starts, p->unmasked)
                  : zoo_attend(q, k, v, &a);
    if (attention)
        br_scope_return(scope, *attention);
    return br_leave(self, br_dropout_forward(self->out_drop, br_linear_forward(self->Wo, context)));
}

static br_modernbert_mlp *new_mlp(const br_modernbert_config *c)
{
    br_modernbert_mlp *self = br_module_create(sizeof *self, "ModernBertMLP");
    int64_t inner = c->intermediate_size;
    self->Wi = br_child(self, "Wi", br_linear_new(c->hidden_size, 2 * inner, c->mlp_bias));
    self->drop = br_child(self, "drop", br_dropout_new(c->mlp_dropout));
    self->Wo = br_child(self, "Wo", br_linear_new(inner, c->hidden_size, c->mlp_bias));
    self->act = br_find_activation(c->hidden_activation);
    return self;
}

static br_tensor *feed_forward(br_modernbert_mlp *self, br_tensor *x)
{
    br_enter(self);
    br_tensor *halves[2];
    x = br_linear_forward(self->Wi, x);
    br_split(x, br_error_pending() ? 1 : br_size(x, -1) / 2, -1, BR_PARTS(halves));
    x = br_dropout_forward(self->drop, br_mul(self->act(halves[0]), halves[1]));
    return br_leave(self, br_linear_forward(self->Wo, x));
}

static br_modernbert_layer *new_layer(const br_modernbert_config *c, int64_t i)
{
    br_modernbert_layer *self = br_module_create(sizeof *self, "ModernBertEncoderLayer");
    self->is_local = zoo_modernbert_is_local(c, i);
    if (i > 0)
        self->attn_norm = br_child(self, "attn_norm", zoo_modernbert_norm(c));
    self->attn = br_child(self, "attn", new_attention(c));
    self->mlp_norm = br_child(self, "mlp_norm", zoo_modernbert_norm(c));
    self->mlp = br_child(self, "mlp", new_mlp(c));
    return self;
}

static br_tensor *run_layer_once(br_modernbert_layer *self, br_tensor *x, const pass *p,
                                 br_tensor **attention)
{
    br_enter(self);
    br_tensor *y = self->attn_norm ? br_layer_norm_forward(self->attn_norm, x) : x;
    x = br_add(x, attend(self->attn, y, p, attention));
    if (attention)
        br_scope_return(NULL, *attention);
    x = br_add(x, feed_forward(self->mlp, br_layer_norm_forward(self->mlp_norm, x)));
    return br_leave(self, br_tap("hidden_state", x));
}

static br_tensor *run_layer_alone(void *self, br_tensor *const *inputs, const void *args)
{
    const int64_t *unmasked = args;
    const pass p = { inputs[1], inputs[2], inputs[3], inputs[4], *unmasked };
    return run_layer_once(self, inputs[0], &p, NULL);
}

/* Runs a layer, in an activation checkpoint if the module has them. */
static br_tensor *run_layer(br_modernbert_layer *self, br_tensor *x, const pass *p,
                            br_tensor **attention)
{
    if (attention)
        return run_layer_once(self, x, p, attention);
    return br_module_run(self, run_layer_alone, BR_INPUTS(x, p->visible, p->cos, p->sin, p->starts),
                         &p->unmasked, sizeof p->unmasked);
}

/* ---- ModernBertModel ------------------------------------------------------------------------- */

br_modernbert *zoo_modernbert_make(br_modernbert_config c)
{
    br_modernbert *self = br_module_create(sizeof *self, "ModernBertModel");
    self->config = c;
    self->embeddings = br_child(self, "embeddings", new_embeddings(&c));
    self->layers = br_child(self, "layers", br_module_list_new());
    for (int64_t i = 0; i < c.num_hidden_layers && !br_error_pending(); i++)
        br_module_list_append(self->layers, new_layer(&c, i));
    self->final_norm = br_child(self, "final_norm", zoo_modernbert_norm(&c));
    return self;
}

br_modernbert *br_modernbert_new(const br_modernbert_config *config)
{
    br_modernbert_config c = zoo_modernbert_checked(config);
    bool before = br_skip_init(true);
    br_modernbert *self = zoo_modernbert_make(c);
    br_skip_init(before);
    return zoo_init_module(br_base(self), zoo_modernbert_init, &c);
}

static zoo_outputs outputs_of(const br_modernbert *self, const br_modernbert_options *o)
{
    return (zoo_outputs){ o->hidden_states, o->attentions, self->config.num_hidden_layers };
}

void zoo_modernbert_store_outputs(const br_modernbert *self, const br_modernbert_options *o)
{
    zoo_return_outputs(outputs_of(self, o));
}

/* Runs the layers, of which the global ones take the first pass, the local ones the second. */
static br_tensor *run_layers(br_modernbert *self, br_tensor *x, const pass passes[2],
                             const br_modernbert_options *o)
{
    for (int64_t i = 0; i < br_module_list_size(self->layers) && !br_error_pending(); i++) {
        br_modernbert_layer *layer = br_module_list_at(self->layers, i);
        if (o->hidden_states)
            o->hidden_states[i] = x;
        br_tensor *y =
            run_layer(layer, x, &passes[layer->is_local], o->attentions ? &o->attentions[i] : NULL);
        x = o->hidden_states ? y : br_scope_replace(x, y);
    }
    x = br_layer_norm_forward(self->final_norm, x);
    if (o->hidden_states)
        o->hidden_states[self->config.num_hidden_layers] = x;
    return x;
}

/* Embeds the ids, and runs the layers. */
static br_tensor *run(br_modernbert *self, br_tensor *ids, const br_modernbert_options *o)
{
    const br_modernbert_config *c = &self->config;
    br_tensor *x = embed(self->embeddings, ids);
    if (br_error_pending())
        return NULL;
    const int64_t size = c->hidden_size / c->num_attention_heads, distance = c->local_attention / 2;
    const zoo_unpacked others = { .attention_mask = o->attention_mask,
                                  .attentions = o->attentions };
    br_tensor *starts = zoo_unpadded_starts(op, ids, o->cu_seqlens, &others);
    const int64_t longest = starts ? zoo_longest_text(starts) : br_size(ids, 1);
    br_tensor *at = starts ? br_squeeze(zoo_packed_positions(op, ids, starts, 0), 0)
                           : br_new_arange(x, 0, (double)longest, 1, BR_I64);
    br_tensor *keys =
        zoo_visible_keys(op, "attention_mask", o->attention_mask, br_size(ids, 0), longest);
    br_tensor *near = visible_nearby(x, longest, distance, keys);
    pass passes[] = { begin_pass(x, at, starts, &c->global_rope, size, keys),
                      begin_pass(x, at, starts, &c->local_rope, size, near) };
    passes[1].unmasked = distance + 1;
    return run_layers(self, x, passes, o);
}

br_tensor *br_modernbert_forward(br_modernbert *self, br_tensor *input_ids,
                                 const br_modernbert_options *options)
{
    const br_modernbert_options *o = BR_OPTIONS_OF(op, br_modernbert, options);
    zoo_outputs outputs = { 0 };
    if (self)
        zoo_clear_outputs(outputs = outputs_of(self, o));
    br_enter(self);
    br_tensor *x = run(self, input_ids, o);
    if (br_error_pending())
        zoo_clear_outputs(outputs);
    zoo_return_outputs(outputs);
    return br_leave(self, x);
}
