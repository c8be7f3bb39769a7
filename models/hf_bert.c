/* models/hf_bert.c - Hugging Face's BertModel and the base models of its relatives. The heads are
 * in hf_bert_heads.c. */
#include "models/hf_bert_internal.h"
#include "models/packed.h"

#include <inttypes.h>
#include <math.h>

BR_DEFINE_DEFAULTS(br_hf_bert)

/* ---- Embeddings ------------------------------------------------------------------------------ */

static br_layer_norm *new_norm(br_hf_bert_config c, int64_t size)
{
    return br_layer_norm_new(size, BR_OPTIONS(br_layer_norm, .eps = c.layer_norm_eps));
}

static int64_t embedding_size(br_hf_bert_config c)
{
    return c.embedding_size ? c.embedding_size : c.hidden_size;
}

static br_hf_bert_embeddings *new_embeddings(br_hf_bert_config c, const zoo_bert_kind *kind)
{
    br_hf_bert_embeddings *self = br_module_create(sizeof *self, "BertEmbeddings");
    int64_t size = embedding_size(c), max = c.max_position_embeddings;
    self->max_position_embeddings = max;
    self->padding_position = kind->skips_padding ? c.pad_token_id : -1;
    self->word_embeddings =
        br_child(self, "word_embeddings", br_embedding_new(c.vocab_size, size, c.pad_token_id));
    self->position_embeddings =
        br_child(self, "position_embeddings", br_embedding_new(max, size, self->padding_position));
    if (!kind->has_no_types)
        self->token_type_embeddings =
            br_child(self, "token_type_embeddings", br_embedding_new(c.type_vocab_size, size, -1));
    self->LayerNorm = br_child(self, "LayerNorm", new_norm(c, size));
    self->dropout = br_child(self, "dropout", br_dropout_new(c.hidden_dropout_prob));
    return self;
}

/* Returns the greatest number of tokens in a row that are not padding, -1 on error. */
static int64_t longest_row(const br_hf_bert_embeddings *self, br_tensor *ids)
{
    if (self->padding_position < 0)
        return br_size(ids, 1);
    br_scope *scope = br_no_grad_begin();
    br_tensor *counts =
        br_sum_dim(br_ne_scalar(ids, (double)self->padding_position), BR_DIMS(1), false);
    int64_t longest = (int64_t)br_item(br_max(counts));
    br_scope_end(scope);
    return br_error_pending() ? -1 : longest;
}

/* Checks that the model has a position for each token. */
static bool good_length(const br_hf_bert_embeddings *self, br_tensor *ids)
{
    int64_t limit = self->max_position_embeddings - 1 - self->padding_position;
    if (br_size(ids, 1) <= limit || br_numel(ids) == 0)
        return true;
    int64_t tokens = longest_row(self, ids);
    if (tokens > limit)
        br_fail(BR_ERROR_SHAPE, "hf_bert",
                "input_ids %s has %" PRId64 " tokens, more than the model's %" PRId64 " positions",
                br_shape_text(ids), tokens, limit);
    return !br_error_pending();
}

/* Checks the shape of the ids, and that the model has enough positions. The positions of a packed
 * batch are checked when they are counted. */
static bool good_ids(const br_hf_bert_embeddings *self, br_tensor *ids, const br_tensor *types,
                     const br_tensor *starts)
{
    if (!br_require_tensor("hf_bert", "input_ids", ids))
        return false;
    if (br_ndim(ids) != 2)
        br_fail(BR_ERROR_SHAPE, "hf_bert", "input_ids %s must have 2 dimensions: batch, tokens",
                br_shape_text(ids));
    else if ((starts || good_length(self, ids)) && types && !br_same_shape(ids, types))
        br_fail(BR_ERROR_SHAPE, "hf_bert", "token_type_ids %s must have input_ids' shape %s",
                br_shape_text(types), br_shape_text(ids));
    return !br_error_pending();
}

/* Returns the positions of tokens, i64 [1 or B, S]: 0, 1, 2, ..., or, if padding does not count,
 * padding_position for padding, and the next numbers for the other tokens. */
static br_tensor *positions_of(const br_hf_bert_embeddings *self, br_tensor *ids)
{
    if (self->padding_position < 0)
        return br_unsqueeze(br_new_arange(ids, 0, (double)br_size(ids, 1), 1, BR_I64), 0);
    double padding = (double)self->padding_position;
    br_tensor *counts = br_to(br_ne_scalar(ids, padding), BR_I64);
    return br_add_scalar(br_mul(br_cumsum(counts, 1), counts), padding);
}

/* Returns the embeddings of token types, of one type 0 for all tokens if `types` is NULL. */
static br_tensor *embed_types(br_hf_bert_embeddings *self, br_tensor *ids, br_tensor *types)
{
    return br_embedding_forward(self->token_type_embeddings,
                                types ? types : br_new_zeros(ids, BR_SHAPE(1, 1), BR_I64));
}

static br_tensor *embed(br_hf_bert_embeddings *self, br_tensor *ids, br_tensor *types,
                        br_tensor *starts)
{
    br_enter(self);
    if (!good_ids(self, ids, types, starts))
        return br_leave(self, NULL);
    br_tensor *x = br_embedding_forward(self->word_embeddings, ids);
    if (self->token_type_embeddings)
        x = br_add(x, embed_types(self, ids, types));
    br_tensor *positions =
        starts ? zoo_hf_bert_packed_positions(self, ids, starts) : positions_of(self, ids);
    x = br_add(x, br_embedding_forward(self->position_embeddings, positions));
    x = br_layer_norm_forward(self->LayerNorm, x);
    return br_leave(self, br_dropout_forward(self->dropout, x));
}

/* ---- Attention ------------------------------------------------------------------------------- */

/* Arguments shared by all layers of a forward pass, as in zoo_attention. With `starts`, the batch
 * is packed. */
typedef struct pass {
    br_tensor *visible, *bias, *starts;
} pass;

static br_hf_bert_self_attention *new_self_attention(br_hf_bert_config c)
{
    br_hf_bert_self_attention *self = br_module_create(sizeof *self, "BertSelfAttention");
    self->num_attention_heads = c.num_attention_heads;
    self->dropout_p = c.attention_probs_dropout_prob;
    self->query = br_child(self, "query", br_linear_new(c.hidden_size, c.hidden_size, true));
    self->key = br_child(self, "key", br_linear_new(c.hidden_size, c.hidden_size, true));
    self->value = br_child(self, "value", br_linear_new(c.hidden_size, c.hidden_size, true));
    return self;
}

/* Returns the context [1, tokens, hidden_size] of a packed batch. */
static br_tensor *attend_packed(br_hf_bert_self_attention *self, br_tensor *x, const pass *p)
{
    br_linear *const layers[] = { self->query, self->key, self->value };
    br_tensor *qkv[3];
    for (int i = 0; i < 3; i++)
        qkv[i] = zoo_split_heads(br_linear_forward(layers[i], x), self->num_attention_heads);
    return zoo_attend_texts(qkv, &(zoo_attention){ .bias = p->bias }, p->starts, 0);
}

/* Returns the context [B, S, hidden_size]. Stores the probabilities in *attention unless
 * `attention` is NULL. */
static br_tensor *attend(br_hf_bert_self_attention *self, br_tensor *x, const pass *p,
                         br_tensor **attention)
{
    br_enter(self);
    br_scope *scope = br_scope_current();
    int64_t heads = self->num_attention_heads;
    if (p->starts)
        return br_leave(self, attend_packed(self, x, p));
    br_tensor *q = zoo_split_heads(br_linear_forward(self->query, x), heads);
    br_tensor *k = zoo_split_heads(br_linear_forward(self->key, x), heads);
    br_tensor *v = br_tap("value", zoo_split_heads(br_linear_forward(self->value, x), heads));
    zoo_attention a = { .visible = p->visible, .bias = p->bias, .weights = attention };
    a.dropout_p = br_is_training(br_base(self)) ? self->dropout_p : 0;
    br_tensor *context = zoo_attend(q, k, v, &a);
    if (attention)
        br_scope_return(scope, *attention);
    return br_leave(self, context);
}

/* ---- Layers ---------------------------------------------------------------------------------- */

static br_hf_bert_residual *new_residual(br_hf_bert_config c, const char *name, int64_t in_features,
                                         bool has_no_dropout)
{
    br_hf_bert_residual *self = br_module_create(sizeof *self, name);
    self->dense = br_child(self, "dense", br_linear_new(in_features, c.hidden_size, true));
    self->LayerNorm = br_child(self, "LayerNorm", new_norm(c, c.hidden_size));
    self->dropout =
        br_child(self, "dropout", br_dropout_new(has_no_dropout ? 0 : c.hidden_dropout_prob));
    return self;
}

static br_tensor *add_residual(br_hf_bert_residual *self, br_tensor *x, br_tensor *input)
{
    br_enter(self);
    x = br_dropout_forward(self->dropout, br_linear_forward(self->dense, x));
    return br_leave(self, br_layer_norm_forward(self->LayerNorm, br_add(x, input)));
}

static br_hf_bert_dense *new_dense(const char *name, int64_t in_features, int64_t out_features,
                                   br_hf_bert_activation activation)
{
    br_hf_bert_dense *self = br_module_create(sizeof *self, name);
    self->dense = br_child(self, "dense", br_linear_new(in_features, out_features, true));
    self->activation = activation;
    return self;
}

static br_tensor *activate(br_hf_bert_dense *self, br_tensor *x)
{
    br_enter(self);
    return br_leave(self, self->activation(br_linear_forward(self->dense, x)));
}

static br_hf_bert_attention *new_attention(br_hf_bert_config c, const zoo_bert_kind *kind)
{
    br_hf_bert_attention *self = br_module_create(sizeof *self, "BertAttention");
    self->self = br_child(self, "self", new_self_attention(c));
    self->output =
        br_child(self, "output",
                 new_residual(c, "BertSelfOutput", c.hidden_size, kind->attention_has_no_dropout));
    return self;
}

static br_tensor *attend_and_add(br_hf_bert_attention *self, br_tensor *x, const pass *p,
                                 br_tensor **attention)
{
    br_enter(self);
    br_tensor *context = attend(self->self, x, p, attention);
    if (attention)
        br_scope_return(NULL, *attention);
    return br_leave(self, add_residual(self->output, context, x));
}

static br_hf_bert_layer *new_layer(br_hf_bert_config c, const zoo_bert_kind *kind)
{
    br_hf_bert_layer *self = br_module_create(sizeof *self, "BertLayer");
    self->attention = br_child(self, "attention", new_attention(c, kind));
    self->intermediate = br_child(self, "intermediate",
                                  new_dense("BertIntermediate", c.hidden_size, c.intermediate_size,
                                            br_find_activation(c.hidden_act)));
    self->output = br_child(
        self, "output",
        new_residual(c, "BertOutput", c.intermediate_size, kind->feed_forward_has_no_dropout));
    return self;
}

static br_tensor *run_layer_once(br_hf_bert_layer *self, br_tensor *x, const pass *p,
                                 br_tensor **attention)
{
    br_enter(self);
    x = attend_and_add(self->attention, x, p, attention);
    if (attention)
        br_scope_return(NULL, *attention);
    x = add_residual(self->output, activate(self->intermediate, x), x);
    return br_leave(self, br_tap("hidden_state", x));
}

static br_tensor *run_layer_alone(void *self, br_tensor *const *inputs, const void *args)
{
    (void)args;
    return run_layer_once(self, inputs[0], &(pass){ inputs[1], inputs[2], inputs[3] }, NULL);
}

static br_tensor *run_layer(br_hf_bert_layer *self, br_tensor *x, const pass *p,
                            br_tensor **attention)
{
    if (attention)
        return run_layer_once(self, x, p, attention);
    return br_module_run(self, run_layer_alone, BR_INPUTS(x, p->visible, p->bias, p->starts), NULL,
                         0);
}

/* ---- BertEncoder ----------------------------------------------------------------------------- */

static br_module_list *new_layers(br_hf_bert_config c, const zoo_bert_kind *kind, int64_t n)
{
    br_module_list *list = br_module_list_new();
    for (int64_t i = 0; i < n && !br_error_pending(); i++)
        br_module_list_append(list, new_layer(c, kind));
    return list;
}

static int64_t at_least_one(int64_t n)
{
    return n ? n : 1;
}

static br_module_list *new_groups(br_hf_bert_config c, const zoo_bert_kind *kind)
{
    br_module_list *groups = br_module_list_new();
    for (int64_t i = 0; i < at_least_one(c.num_hidden_groups) && !br_error_pending(); i++) {
        br_hf_bert_group *group = br_module_create(sizeof *group, "AlbertLayerGroup");
        group->albert_layers =
            br_child(group, "albert_layers", new_layers(c, kind, at_least_one(c.inner_group_num)));
        br_module_list_append(groups, group);
    }
    return groups;
}

static br_hf_bert_encoder *new_encoder(br_hf_bert_config c, const zoo_bert_kind *kind)
{
    br_hf_bert_encoder *self = br_module_create(sizeof *self, "BertEncoder");
    if (kind->shares_layers)
        self->albert_layer_groups = br_child(self, "albert_layer_groups", new_groups(c, kind));
    else
        self->layer = br_child(self, "layer", new_layers(c, kind, c.num_hidden_layers));
    if (kind->biases_scores)
        self->relative_attention_bias =
            br_child(self, "relative_attention_bias",
                     br_embedding_new(c.relative_attention_num_buckets, c.num_attention_heads, -1));
    return self;
}

/* Returns the layer that runs as number i. */
static br_hf_bert_layer *layer_at(const br_hf_bert_encoder *self, const br_hf_bert_config *c,
                                  int64_t i)
{
    if (self->layer)
        return br_module_list_at(self->layer, i);
    int64_t inner = at_least_one(c->inner_group_num);
    /* Computed in floating point like transformers, whose rounding decides at the boundaries. */
    double per_group = (double)c->num_hidden_layers / (double)at_least_one(c->num_hidden_groups);
    br_hf_bert_group *group =
        br_module_list_at(self->albert_layer_groups, (int64_t)((double)(i / inner) / per_group));
    return group ? br_module_list_at(group->albert_layers, i % inner) : NULL;
}

/* Returns MPNet's bias of the scores, -infinity where keys are hidden: [1 or B, heads, S, S]. NULL
 * if the model has none. */
static br_tensor *bias_of(br_hf_bert_encoder *self, int64_t tokens, br_tensor *visible)
{
    enum { BUCKETS = 32, MAX_DISTANCE = 128 }; /* whatever the size of the table is */
    br_embedding *table = self->relative_attention_bias;
    if (!table)
        return NULL;
    br_tensor *buckets = zoo_relative_buckets(table->weight, BUCKETS, MAX_DISTANCE, true,
                                              (zoo_span){ 0, tokens, tokens });
    br_tensor *rows = br_embedding_forward(table, buckets);
    br_tensor *bias = br_unsqueeze(br_permute(rows, BR_DIMS(2, 0, 1)), 0);
    return visible ? br_masked_fill(bias, br_logical_not(visible), -INFINITY) : bias;
}

static br_tensor *encode(br_hf_bert_encoder *self, const br_hf_bert_config *c, br_tensor *x, pass p,
                         const br_hf_bert_options *o)
{
    br_enter(self);
    br_scope *scope = br_scope_current();
    if (!br_error_pending())
        p.bias = bias_of(self, p.starts ? zoo_longest_text(p.starts) : br_size(x, 1), p.visible);
    for (int64_t i = 0; i < zoo_hf_bert_layers(c) && !br_error_pending(); i++) {
        br_tensor **attention = o->attentions ? &o->attentions[i] : NULL;
        x = br_scope_replace(x, run_layer(layer_at(self, c, i), x, &p, attention));
        if (attention)
            br_scope_return(scope, *attention);
        if (o->hidden_states)
            o->hidden_states[i + 1] = br_scope_return(scope, x);
    }
    return br_leave(self, x);
}

/* ---- BertModel ------------------------------------------------------------------------------- */

br_hf_bert *zoo_hf_bert_make(br_hf_bert_config c, bool pooler)
{
    const zoo_bert_kind *kind = zoo_bert_kind_of(c.model_type);
    br_hf_bert *self = br_module_create(sizeof *self, zoo_bert_class(&c, BR_TASK_BASE));
    self->config = c;
    self->embeddings = br_child(self, "embeddings", new_embeddings(c, kind));
    if (kind->projects_embeddings || embedding_size(c) != c.hidden_size)
        self->embeddings_project = br_child(self, "embeddings_project",
                                            br_linear_new(embedding_size(c), c.hidden_size, true));
    self->encoder = br_child(self, "encoder", new_encoder(c, kind));
    if (pooler && !kind->has_no_pooler)
        self->pooler = br_child(self, "pooler",
                                new_dense("BertPooler", c.hidden_size, c.hidden_size, br_tanh));
    return self;
}

br_hf_bert *br_hf_bert_new(const br_hf_bert_config *config)
{
    br_hf_bert_config c = zoo_hf_bert_checked(config);
    bool before = br_skip_init(true);
    br_hf_bert *self = zoo_hf_bert_make(c, true);
    br_skip_init(before);
    return zoo_init_module(br_base(self), zoo_hf_bert_init, &c);
}

/* Returns bool [B, 1, 1, S] or [B, 1, S, S], true where a query may attend to the key; NULL without
 * a mask. */
static br_tensor *visible_keys(br_tensor *mask, br_tensor *ids)
{
    if (!mask || br_error_pending())
        return NULL;
    int64_t batch = br_size(ids, 0), tokens = br_size(ids, 1);
    bool good = br_ndim(mask) == 2 || (br_ndim(mask) == 3 && br_size(mask, 2) == tokens);
    if (!good || br_size(mask, 0) != batch || br_size(mask, 1) != tokens)
        return br_fail(BR_ERROR_SHAPE, "hf_bert",
                       "attention_mask %s must be [%" PRId64 ", %" PRId64 "] or [%" PRId64
                       ", %" PRId64 ", %" PRId64 "] to match input_ids",
                       br_shape_text(mask), batch, tokens, batch, tokens, tokens);
    br_tensor *visible = br_dtype_of(mask) == BR_BOOL ? mask : br_ne_scalar(mask, 0);
    visible = br_unsqueeze(visible, 1);
    return br_ndim(mask) == 3 ? visible : br_unsqueeze(visible, 1);
}

static zoo_outputs outputs_of(const br_hf_bert *self, const br_hf_bert_options *o)
{
    return (zoo_outputs){ o->hidden_states, o->attentions, zoo_hf_bert_layers(&self->config) };
}

void zoo_hf_bert_store_outputs(const br_hf_bert *self, const br_hf_bert_options *o)
{
    if (o->pooler_output)
        br_scope_return(NULL, *o->pooler_output);
    zoo_return_outputs(outputs_of(self, o));
}

/* Sets all outputs to NULL, so that they are NULL after a failure. */
static void clear_outputs(const br_hf_bert *self, const br_hf_bert_options *o)
{
    if (o->pooler_output)
        *o->pooler_output = NULL;
    zoo_clear_outputs(outputs_of(self, o));
}

/* Returns the pooler's output, [B, hidden_size]. */
static br_tensor *pool(br_hf_bert_dense *pooler, br_tensor *x, br_tensor *starts)
{
    br_tensor *rows = zoo_enough_rows(zoo_first_tokens(x, starts), starts);
    return zoo_own_rows(activate(pooler, rows), starts);
}

br_tensor *br_hf_bert_forward(br_hf_bert *self, br_tensor *input_ids,
                              const br_hf_bert_options *options)
{
    const br_hf_bert_options *o = BR_OPTIONS_OF("hf_bert", br_hf_bert, options);
    if (self)
        clear_outputs(self, o);
    br_enter(self);
    br_tensor *starts = zoo_hf_bert_starts(self, input_ids, o);
    br_tensor *x = embed(self->embeddings, input_ids, o->token_type_ids, starts);
    if (self->embeddings_project)
        x = br_linear_forward(self->embeddings_project, x);
    if (o->hidden_states)
        o->hidden_states[0] = x;
    const pass p = { .visible = visible_keys(o->attention_mask, input_ids), .starts = starts };
    x = encode(self->encoder, &self->config, x, p, o);
    if (self->pooler && o->pooler_output)
        *o->pooler_output = pool(self->pooler, x, starts);
    if (br_error_pending())
        clear_outputs(self, o);
    zoo_hf_bert_store_outputs(self, o);
    return br_leave(self, x);
}
