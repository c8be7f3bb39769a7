/* models/hf_bert.c - Hugging Face's BertModel. Its heads are in hf_bert_heads.c. */
#include "models/hf_bert_internal.h"

#include "models/models_internal.h"

#include <inttypes.h>
#include <string.h>

BR_DEFINE_DEFAULTS(br_hf_bert)

/* ---- Configuration --------------------------------------------------------------------------- */

br_hf_bert_config br_hf_bert_config_default(void)
{
    return (br_hf_bert_config){
        .vocab_size = 30522,
        .hidden_size = 768,
        .num_hidden_layers = 12,
        .num_attention_heads = 12,
        .intermediate_size = 3072,
        .max_position_embeddings = 512,
        .type_vocab_size = 2,
        .num_labels = 2,
        .hidden_dropout_prob = 0.1,
        .attention_probs_dropout_prob = 0.1,
        .classifier_dropout = 0.1,
        .layer_norm_eps = 1e-12,
        .initializer_range = 0.02,
        .hidden_act = "gelu",
    };
}

static bool read_config(const br_auto_config *config, br_hf_bert_config *c)
{
    if (!br_auto_config_expect(config, "bert"))
        return false;
    *c = (br_hf_bert_config){
        .vocab_size = br_auto_config_size(config, "vocab_size"),
        .hidden_size = br_auto_config_size(config, "hidden_size"),
        .num_hidden_layers = br_auto_config_size(config, "num_hidden_layers"),
        .num_attention_heads = br_auto_config_size(config, "num_attention_heads"),
        .intermediate_size = br_auto_config_size(config, "intermediate_size"),
        .max_position_embeddings = br_auto_config_size(config, "max_position_embeddings"),
        .type_vocab_size = br_auto_config_size(config, "type_vocab_size"),
        .num_labels = br_auto_config_size(config, "num_labels"),
        .pad_token_id = br_auto_config_padding(config),
        .hidden_dropout_prob = br_auto_config_probability(config, "hidden_dropout_prob"),
        .attention_probs_dropout_prob =
            br_auto_config_probability(config, "attention_probs_dropout_prob"),
        .layer_norm_eps = br_auto_config_number(config, "layer_norm_eps"),
        .initializer_range = br_auto_config_number(config, "initializer_range"),
        .untied = !br_auto_config_bool(config, "tie_word_embeddings"),
    };
    bool own = br_auto_config_has(config, "classifier_dropout");
    c->classifier_dropout =
        own ? br_auto_config_probability(config, "classifier_dropout") : c->hidden_dropout_prob;
    c->hidden_act = br_auto_config_activation(config, "hidden_act", NULL);
    return br_auto_config_multiple(config, "hidden_size", "num_attention_heads");
}

br_hf_bert_config br_hf_bert_config_from(const br_auto_config *config)
{
    br_hf_bert_config c;
    return read_config(config, &c) ? c : (br_hf_bert_config){ 0 };
}

static bool good_sizes(const br_hf_bert_config *c)
{
    const struct {
        const char *name;
        int64_t size;
    } sizes[] = {
        { "vocab_size", c->vocab_size },
        { "num_hidden_layers", c->num_hidden_layers },
        { "intermediate_size", c->intermediate_size },
        { "max_position_embeddings", c->max_position_embeddings },
        { "type_vocab_size", c->type_vocab_size },
        { "num_labels", c->num_labels },
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (!zoo_good_size("hf_bert", sizes[i].name, sizes[i].size))
            return false;
    return zoo_good_multiple("hf_bert", "hidden_size", c->hidden_size, "num_attention_heads",
                             c->num_attention_heads);
}

static bool good_config(const br_hf_bert_config *config)
{
    if (!zoo_good_config("hf_bert", config) || !good_sizes(config))
        return false;
    return br_require_activation("hf_bert", "hidden_act", config->hidden_act) &&
           zoo_good_probability("hf_bert", "attention_probs_dropout_prob",
                                config->attention_probs_dropout_prob) &&
           zoo_good_positive("hf_bert", "layer_norm_eps", config->layer_norm_eps) &&
           zoo_good_deviation("hf_bert", "initializer_range", config->initializer_range);
}

br_hf_bert_config zoo_hf_bert_checked(const br_hf_bert_config *config)
{
    return good_config(config) ? *config
                               : (br_hf_bert_config){ .num_attention_heads = 1,
                                                      .pad_token_id = -1,
                                                      .hidden_act = "gelu" };
}

/* ---- Initial weights ------------------------------------------------------------------------- */

bool zoo_hf_bert_init(const void *of, const char *key, br_tensor *weight)
{
    const br_hf_bert_config *config = of;
    if (zoo_ends_with(key, "LayerNorm.weight"))
        return br_init_ones_(weight);
    if (br_ndim(weight) < 2)
        return br_init_zeros_(weight);
    if (!br_init_normal_(weight, 0, config->initializer_range))
        return false;
    if (!zoo_ends_with(key, "word_embeddings.weight") || config->pad_token_id < 0)
        return true;
    br_scope *scope = br_no_grad_begin();
    br_zero_(br_select(weight, 0, config->pad_token_id));
    br_scope_end(scope);
    return !br_error_pending();
}

/* ---- Embeddings ------------------------------------------------------------------------------ */

static br_layer_norm *new_norm(br_hf_bert_config c)
{
    return br_layer_norm_new(c.hidden_size, BR_OPTIONS(br_layer_norm, .eps = c.layer_norm_eps));
}

static br_hf_bert_embeddings *new_embeddings(br_hf_bert_config c)
{
    br_hf_bert_embeddings *self = br_module_create(sizeof *self, "BertEmbeddings");
    self->max_position_embeddings = c.max_position_embeddings;
    self->word_embeddings = br_child(self, "word_embeddings",
                                     br_embedding_new(c.vocab_size, c.hidden_size, c.pad_token_id));
    self->position_embeddings =
        br_child(self, "position_embeddings",
                 br_embedding_new(c.max_position_embeddings, c.hidden_size, -1));
    self->token_type_embeddings = br_child(self, "token_type_embeddings",
                                           br_embedding_new(c.type_vocab_size, c.hidden_size, -1));
    self->LayerNorm = br_child(self, "LayerNorm", new_norm(c));
    self->dropout = br_child(self, "dropout", br_dropout_new(c.hidden_dropout_prob));
    return self;
}

/* Checks the ids' shape and that the model has enough positions. */
static bool good_ids(const br_hf_bert_embeddings *self, const br_tensor *ids,
                     const br_tensor *types)
{
    if (!br_require_tensor("hf_bert", "input_ids", ids))
        return false;
    if (br_ndim(ids) != 2)
        br_fail(BR_ERROR_SHAPE, "hf_bert", "input_ids %s must have 2 dimensions: batch, tokens",
                br_shape_text(ids));
    else if (br_size(ids, 1) > self->max_position_embeddings)
        br_fail(BR_ERROR_SHAPE, "hf_bert",
                "input_ids %s has %" PRId64 " tokens, more than the model's %" PRId64 " positions",
                br_shape_text(ids), br_size(ids, 1), self->max_position_embeddings);
    else if (types && !br_same_shape(ids, types))
        br_fail(BR_ERROR_SHAPE, "hf_bert", "token_type_ids %s must have input_ids' shape %s",
                br_shape_text(types), br_shape_text(ids));
    return !br_error_pending();
}

static br_tensor *embed(br_hf_bert_embeddings *self, br_tensor *ids, br_tensor *types)
{
    br_enter(self);
    if (!good_ids(self, ids, types))
        return br_leave(self, NULL);
    br_tensor *positions =
        br_unsqueeze(br_new_arange(ids, 0, (double)br_size(ids, 1), 1, BR_I64), 0);
    if (!types) /* one id, broadcast to all tokens */
        types = br_new_zeros(ids, BR_SHAPE(1, 1), BR_I64);
    br_tensor *x = br_add(br_embedding_forward(self->word_embeddings, ids),
                          br_embedding_forward(self->token_type_embeddings, types));
    x = br_add(x, br_embedding_forward(self->position_embeddings, positions));
    x = br_layer_norm_forward(self->LayerNorm, x);
    return br_leave(self, br_dropout_forward(self->dropout, x));
}

/* ---- Attention ------------------------------------------------------------------------------- */

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

/* Returns the context [B, S, hidden_size]. Stores the probabilities in *attention unless
 * `attention` is NULL. */
static br_tensor *attend(br_hf_bert_self_attention *self, br_tensor *x, br_tensor *visible,
                         br_tensor **attention)
{
    br_enter(self);
    br_scope *scope = br_scope_current();
    int64_t heads = self->num_attention_heads;
    br_tensor *q = zoo_split_heads(br_linear_forward(self->query, x), heads);
    br_tensor *k = zoo_split_heads(br_linear_forward(self->key, x), heads);
    br_tensor *v = br_tap("value", zoo_split_heads(br_linear_forward(self->value, x), heads));
    zoo_attention a = { .visible = visible, .weights = attention };
    a.dropout_p = br_is_training(br_base(self)) ? self->dropout_p : 0;
    br_tensor *context = zoo_attend(q, k, v, &a);
    if (attention)
        br_scope_return(scope, *attention);
    return br_leave(self, context);
}

/* ---- Layers ---------------------------------------------------------------------------------- */

static br_hf_bert_residual *new_residual(br_hf_bert_config c, const char *name, int64_t in_features)
{
    br_hf_bert_residual *self = br_module_create(sizeof *self, name);
    self->dense = br_child(self, "dense", br_linear_new(in_features, c.hidden_size, true));
    self->LayerNorm = br_child(self, "LayerNorm", new_norm(c));
    self->dropout = br_child(self, "dropout", br_dropout_new(c.hidden_dropout_prob));
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

static br_hf_bert_attention *new_attention(br_hf_bert_config c)
{
    br_hf_bert_attention *self = br_module_create(sizeof *self, "BertAttention");
    self->self = br_child(self, "self", new_self_attention(c));
    self->output = br_child(self, "output", new_residual(c, "BertSelfOutput", c.hidden_size));
    return self;
}

static br_tensor *attend_and_add(br_hf_bert_attention *self, br_tensor *x, br_tensor *visible,
                                 br_tensor **attention)
{
    br_enter(self);
    br_tensor *context = attend(self->self, x, visible, attention);
    if (attention)
        br_scope_return(NULL, *attention);
    return br_leave(self, add_residual(self->output, context, x));
}

static br_hf_bert_layer *new_layer(br_hf_bert_config c)
{
    br_hf_bert_layer *self = br_module_create(sizeof *self, "BertLayer");
    self->attention = br_child(self, "attention", new_attention(c));
    self->intermediate = br_child(self, "intermediate",
                                  new_dense("BertIntermediate", c.hidden_size, c.intermediate_size,
                                            br_find_activation(c.hidden_act)));
    self->output = br_child(self, "output", new_residual(c, "BertOutput", c.intermediate_size));
    return self;
}

static br_tensor *run_layer_once(br_hf_bert_layer *self, br_tensor *x, br_tensor *visible,
                                 br_tensor **attention)
{
    br_enter(self);
    x = attend_and_add(self->attention, x, visible, attention);
    if (attention)
        br_scope_return(NULL, *attention);
    x = add_residual(self->output, activate(self->intermediate, x), x);
    return br_leave(self, br_tap("hidden_state", x));
}

static br_tensor *run_layer_alone(void *self, br_tensor *const *inputs, const void *args)
{
    (void)args;
    return run_layer_once(self, inputs[0], inputs[1], NULL);
}

static br_tensor *run_layer(br_hf_bert_layer *self, br_tensor *x, br_tensor *visible,
                            br_tensor **attention)
{
    if (attention)
        return run_layer_once(self, x, visible, attention);
    return br_module_run(self, run_layer_alone, BR_INPUTS(x, visible), NULL, 0);
}

/* ---- BertEncoder ----------------------------------------------------------------------------- */

static br_hf_bert_encoder *new_encoder(br_hf_bert_config c)
{
    br_hf_bert_encoder *self = br_module_create(sizeof *self, "BertEncoder");
    self->layer = br_child(self, "layer", br_module_list_new());
    for (int64_t i = 0; i < c.num_hidden_layers && !br_error_pending(); i++)
        br_module_list_append(self->layer, new_layer(c));
    return self;
}

static br_tensor *encode(br_hf_bert_encoder *self, br_tensor *x, br_tensor *visible,
                         const br_hf_bert_options *o)
{
    br_enter(self);
    br_scope *scope = br_scope_current();
    for (int64_t i = 0; i < br_module_list_size(self->layer) && !br_error_pending(); i++) {
        br_tensor **attention = o->attentions ? &o->attentions[i] : NULL;
        x = br_scope_replace(x,
                             run_layer(br_module_list_at(self->layer, i), x, visible, attention));
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
    br_hf_bert *self = br_module_create(sizeof *self, "BertModel");
    self->config = c;
    self->embeddings = br_child(self, "embeddings", new_embeddings(c));
    self->encoder = br_child(self, "encoder", new_encoder(c));
    if (pooler)
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

void zoo_hf_bert_store_outputs(const br_hf_bert *self, const br_hf_bert_options *o)
{
    int64_t n = self->config.num_hidden_layers;
    if (o->pooler_output)
        br_scope_return(NULL, *o->pooler_output);
    for (int64_t i = 0; o->hidden_states && i <= n; i++)
        br_scope_return(NULL, o->hidden_states[i]);
    for (int64_t i = 0; o->attentions && i < n; i++)
        br_scope_return(NULL, o->attentions[i]);
}

/* Sets all outputs to NULL, so that they are NULL after a failure. */
static void clear_outputs(const br_hf_bert *self, const br_hf_bert_options *o)
{
    int64_t n = self->config.num_hidden_layers;
    if (o->pooler_output)
        *o->pooler_output = NULL;
    for (int64_t i = 0; o->hidden_states && i <= n; i++)
        o->hidden_states[i] = NULL;
    for (int64_t i = 0; o->attentions && i < n; i++)
        o->attentions[i] = NULL;
}

br_tensor *br_hf_bert_forward(br_hf_bert *self, br_tensor *input_ids,
                              const br_hf_bert_options *options)
{
    const br_hf_bert_options *o = BR_OPTIONS_OF("hf_bert", br_hf_bert, options);
    if (self)
        clear_outputs(self, o);
    br_enter(self);
    br_tensor *x = embed(self->embeddings, input_ids, o->token_type_ids);
    if (o->hidden_states)
        o->hidden_states[0] = x;
    x = encode(self->encoder, x, visible_keys(o->attention_mask, input_ids), o);
    if (self->pooler && o->pooler_output)
        *o->pooler_output = activate(self->pooler, br_select(x, 1, 0));
    if (br_error_pending())
        clear_outputs(self, o);
    zoo_hf_bert_store_outputs(self, o);
    return br_leave(self, x);
}
