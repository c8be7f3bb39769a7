/* models/t5.c - Hugging Face's T5Model and T5ForConditionalGeneration. */
#include "models/t5_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

BR_DEFINE_DEFAULTS(br_t5)

static const char op[] = "t5";

/* ---- Attention ------------------------------------------------------------------------------- */

/* Arguments shared by all layers of a forward pass. */
typedef struct pass {
    br_cache *cache;
    br_tensor *visible, *bias;          /* for the stack's own tokens, as in zoo_attention */
    br_tensor *memory, *memory_visible; /* the encoder's output and its mask; NULL in the encoder */
} pass;

static br_t5_attention *new_attention(const br_t5_config *c, int64_t number, bool biased)
{
    br_t5_attention *self = br_module_create(sizeof *self, "T5Attention");
    int64_t inner = c->num_heads * c->d_kv;
    self->num_heads = c->num_heads;
    self->number = number;
    self->dropout_rate = c->dropout_rate;
    self->q = br_child(self, "q", br_linear_new(c->d_model, inner, false));
    self->k = br_child(self, "k", br_linear_new(c->d_model, inner, false));
    self->v = br_child(self, "v", br_linear_new(c->d_model, inner, false));
    self->o = br_child(self, "o", br_linear_new(inner, c->d_model, false));
    if (biased)
        self->relative_attention_bias =
            br_child(self, "relative_attention_bias",
                     br_embedding_new(c->relative_attention_num_buckets, c->num_heads, -1));
    return self;
}

/* Computes the keys and values of `from`. For cross attention, uses the cached ones if there are.
 */
static void keys_of(br_t5_attention *self, br_tensor *from, br_cache *cache, bool is_cross,
                    br_tensor **k, br_tensor **v)
{
    if (is_cross && br_cache_get(cache, self->number, k, v))
        return;
    *k = zoo_split_heads(br_linear_forward(self->k, from), self->num_heads);
    *v = zoo_split_heads(br_linear_forward(self->v, from), self->num_heads);
    if (cache)
        br_cache_append(cache, self->number, k, v);
}

static br_tensor *attend(br_t5_attention *self, br_tensor *x, const pass *p, bool is_cross)
{
    br_enter(self);
    br_tensor *k = NULL, *v = NULL;
    br_tensor *q = zoo_split_heads(br_linear_forward(self->q, x), self->num_heads);
    keys_of(self, is_cross ? p->memory : x, p->cache, is_cross, &k, &v);
    zoo_attention a = { .visible = is_cross ? p->memory_visible : p->visible,
                        .bias = is_cross ? NULL : p->bias,
                        .is_cross = is_cross,
                        .scale = 1 };
    a.dropout_p = br_is_training(br_base(self)) ? self->dropout_rate : 0;
    x = zoo_attend(q, k, br_tap("value", v), &a);
    return br_leave(self, br_linear_forward(self->o, x));
}

/* Returns the bias that is added to a stack's scores, -infinity where keys are hidden: [1 or B,
 * heads, n, past + n]. */
static br_tensor *position_bias(br_t5_stack *self, int64_t past, int64_t n, br_tensor *visible)
{
    br_t5_block *first = br_module_list_at(self->block, 0);
    br_t5_layer *layer = first ? br_module_list_at(first->layer, 0) : NULL;
    if (!layer)
        return NULL;
    br_embedding *table = layer->SelfAttention->relative_attention_bias;
    const br_t5_config *c = &self->config;
    br_tensor *buckets = zoo_relative_buckets(table->weight, c->relative_attention_num_buckets,
                                              c->relative_attention_max_distance, !self->is_decoder,
                                              (zoo_span){ past, n, past + n });
    br_tensor *rows = br_embedding_forward(table, buckets);
    br_tensor *bias = br_unsqueeze(br_permute(rows, BR_DIMS(2, 0, 1)), 0);
    return visible ? br_masked_fill(bias, br_logical_not(visible), -INFINITY) : bias;
}

/* ---- Feed-forward ---------------------------------------------------------------------------- */

static br_t5_dense *new_dense(const br_t5_config *c)
{
    br_t5_dense *self =
        br_module_create(sizeof *self, c->gated ? "T5DenseGatedActDense" : "T5DenseActDense");
    if (c->gated) {
        self->wi_0 = br_child(self, "wi_0", br_linear_new(c->d_model, c->d_ff, false));
        self->wi_1 = br_child(self, "wi_1", br_linear_new(c->d_model, c->d_ff, false));
    } else {
        self->wi = br_child(self, "wi", br_linear_new(c->d_model, c->d_ff, false));
    }
    self->wo = br_child(self, "wo", br_linear_new(c->d_ff, c->d_model, false));
    self->dropout = br_child(self, "dropout", br_dropout_new(c->dropout_rate));
    self->act = br_find_activation(c->activation);
    return self;
}

static br_tensor *feed_forward(br_t5_dense *self, br_tensor *x)
{
    br_enter(self);
    br_tensor *y = self->act(br_linear_forward(self->wi ? self->wi : self->wi_0, x));
    if (self->wi_1)
        y = br_mul(y, br_linear_forward(self->wi_1, x));
    y = br_dropout_forward(self->dropout, y);
    /* In a model of f16, wo is in f32, and so are the hidden states after it. */
    y = br_to(y, br_dtype_of(self->wo->weight));
    return br_leave(self, br_linear_forward(self->wo, y));
}

/* ---- Layers ---------------------------------------------------------------------------------- */

static br_rms_norm *new_norm(const br_t5_config *c)
{
    return br_rms_norm_new(c->d_model, BR_OPTIONS(br_rms_norm, .eps = c->layer_norm_epsilon));
}

/* The result has the dtype of the norm's weight, also if x is in f32 and the weight in f16. */
static br_tensor *normalize(br_rms_norm *norm, br_tensor *x)
{
    return br_to(br_rms_norm_forward(norm, x), br_dtype_of(norm->weight));
}

static br_t5_layer *begin_layer(const char *class)
{
    return br_module_create(sizeof(br_t5_layer), class);
}

static br_t5_layer *end_layer(br_t5_layer *self, const br_t5_config *c)
{
    self->layer_norm = br_child(self, "layer_norm", new_norm(c));
    self->dropout = br_child(self, "dropout", br_dropout_new(c->dropout_rate));
    return self;
}

/* In the cache, numbers 0 .. layers - 1 are for self-attention, and the following ones for
 * cross-attention. */
static br_t5_block *new_block(const br_t5_config *c, int64_t i, bool is_decoder)
{
    br_t5_block *self = br_module_create(sizeof *self, "T5Block");
    self->layer = br_child(self, "layer", br_module_list_new());
    if (br_error_pending())
        return self;
    br_t5_layer *layer = begin_layer("T5LayerSelfAttention");
    layer->SelfAttention = br_child(layer, "SelfAttention", new_attention(c, i, i == 0));
    br_module_list_append(self->layer, end_layer(layer, c));
    if (is_decoder) {
        layer = begin_layer("T5LayerCrossAttention");
        layer->EncDecAttention =
            br_child(layer, "EncDecAttention", new_attention(c, c->num_decoder_layers + i, false));
        br_module_list_append(self->layer, end_layer(layer, c));
    }
    layer = begin_layer("T5LayerFF");
    layer->DenseReluDense = br_child(layer, "DenseReluDense", new_dense(c));
    br_module_list_append(self->layer, end_layer(layer, c));
    return self;
}

static br_tensor *run_layer(br_t5_layer *self, br_tensor *x, const pass *p)
{
    br_enter(self);
    br_tensor *y = normalize(self->layer_norm, x);
    if (self->DenseReluDense)
        y = feed_forward(self->DenseReluDense, y);
    else
        y = attend(self->SelfAttention ? self->SelfAttention : self->EncDecAttention, y, p,
                   !self->SelfAttention);
    return br_leave(self, br_add(x, br_dropout_forward(self->dropout, y)));
}

static br_tensor *run_block_once(br_t5_block *self, br_tensor *x, const pass *p)
{
    br_enter(self);
    for (int64_t i = 0; i < br_module_list_size(self->layer) && !br_error_pending(); i++)
        x = br_scope_replace(x, run_layer(br_module_list_at(self->layer, i), x, p));
    return br_leave(self, br_tap("hidden_state", x));
}

static br_tensor *run_block_alone(void *self, br_tensor *const *inputs, const void *args)
{
    (void)args;
    pass p = { NULL, inputs[1], inputs[2], inputs[3], inputs[4] };
    return run_block_once(self, inputs[0], &p);
}

/* Runs a block, in an activation checkpoint if the module has them. With a cache it never uses one,
 * because recomputing would append to the cache again. */
static br_tensor *run_block(br_t5_block *self, br_tensor *x, const pass *p)
{
    if (p->cache)
        return run_block_once(self, x, p);
    return br_module_run(self, run_block_alone,
                         BR_INPUTS(x, p->visible, p->bias, p->memory, p->memory_visible), NULL, 0);
}

/* ---- T5Stack --------------------------------------------------------------------------------- */

static br_t5_stack *new_stack(const br_t5_config *c, br_tensor *shared, bool is_decoder)
{
    br_t5_stack *self = br_module_create(sizeof *self, "T5Stack");
    self->config = *c;
    self->is_decoder = is_decoder;
    self->embed_tokens =
        br_child(self, "embed_tokens", br_embedding_new(c->vocab_size, c->d_model, -1));
    if (!br_error_pending())
        self->embed_tokens->weight =
            br_module_replace_parameter(br_base(self->embed_tokens), "weight", shared);
    self->block = br_child(self, "block", br_module_list_new());
    int64_t n = is_decoder ? c->num_decoder_layers : c->num_layers;
    for (int64_t i = 0; i < n && !br_error_pending(); i++)
        br_module_list_append(self->block, new_block(c, i, is_decoder));
    self->final_layer_norm = br_child(self, "final_layer_norm", new_norm(c));
    self->dropout = br_child(self, "dropout", br_dropout_new(c->dropout_rate));
    return self;
}

static bool good_ids(const char *name, const br_tensor *ids)
{
    if (!br_require_tensor(op, name, ids))
        return false;
    if (br_ndim(ids) != 2)
        br_fail(BR_ERROR_SHAPE, op, "%s %s must have 2 dimensions: batch, tokens", name,
                br_shape_text(ids));
    return !br_error_pending();
}

/* Returns the mask of the stack's self-attention, or NULL. */
static br_tensor *visible_in(const br_t5_stack *self, const br_tensor *ids, br_tensor *mask,
                             int64_t past)
{
    int64_t n = br_size(ids, 1);
    const char *name = self->is_decoder ? "decoder_attention_mask" : "attention_mask";
    br_tensor *keys = zoo_visible_keys(op, name, mask, br_size(ids, 0), past + n);
    if (!self->is_decoder || n == 1)
        return keys;
    br_tensor *before = zoo_visible_past(ids, past, n);
    return keys ? br_logical_and(before, keys) : before;
}

/* Runs a stack. The caller sets the cache and memory in `p`. */
static br_tensor *run_stack(br_t5_stack *self, br_tensor *ids, br_tensor *mask, pass p)
{
    br_enter(self);
    if (!good_ids(self->is_decoder ? "decoder_input_ids" : "input_ids", ids))
        return br_leave(self, NULL);
    int64_t past = br_cache_length(p.cache);
    p.visible = visible_in(self, ids, mask, past);
    p.bias = position_bias(self, past, br_size(ids, 1), p.visible);
    br_tensor *x = br_dropout_forward(self->dropout, br_embedding_forward(self->embed_tokens, ids));
    for (int64_t i = 0; i < br_module_list_size(self->block) && !br_error_pending(); i++)
        x = br_scope_replace(x, run_block(br_module_list_at(self->block, i), x, &p));
    x = normalize(self->final_layer_norm, x);
    return br_leave(self, br_dropout_forward(self->dropout, x));
}

/* ---- The models ------------------------------------------------------------------------------ */

const char zoo_t5_model[] = "T5Model", zoo_t5_generation[] = "T5ForConditionalGeneration";

br_t5 *zoo_t5_make(br_t5_config c, const char *class)
{
    br_t5 *self = br_module_create(sizeof *self, class);
    self->config = c;
    self->shared = br_child(self, "shared", br_embedding_new(c.vocab_size, c.d_model, -1));
    if (br_error_pending())
        return self;
    self->encoder = br_child(self, "encoder", new_stack(&c, self->shared->weight, false));
    self->decoder = br_child(self, "decoder", new_stack(&c, self->shared->weight, true));
    if (class != zoo_t5_generation)
        return self;
    self->lm_head = br_child(self, "lm_head", br_linear_new(c.d_model, c.vocab_size, false));
    if (!c.untied && !br_error_pending())
        self->lm_head->weight =
            br_module_replace_parameter(br_base(self->lm_head), "weight", self->shared->weight);
    return self;
}

static br_t5 *new_model(const br_t5_config *config, const char *class)
{
    br_t5_config c = zoo_t5_checked(config);
    bool before = br_skip_init(true);
    br_t5 *self = zoo_t5_make(c, class);
    br_skip_init(before);
    return zoo_init_module(br_base(self), zoo_t5_init, &c);
}

br_t5 *br_t5_new(const br_t5_config *config)
{
    return new_model(config, zoo_t5_model);
}

br_t5 *br_t5_for_conditional_generation_new(const br_t5_config *config)
{
    return new_model(config, zoo_t5_generation);
}

br_tensor *br_t5_encode(br_t5 *self, br_tensor *input_ids, br_tensor *attention_mask)
{
    br_enter(self);
    return br_leave(self, run_stack(self->encoder, input_ids, attention_mask, (pass){ 0 }));
}

/* Checks that the memory is [B, S, d_model] with the ids' batch size. */
static bool good_memory(const br_t5 *self, const br_tensor *ids, const br_tensor *memory)
{
    if (!good_ids("decoder_input_ids", ids) || !br_require_tensor(op, "memory", memory))
        return false;
    if (br_ndim(memory) != 3 || br_size(memory, 0) != br_size(ids, 0) ||
        br_size(memory, 2) != self->config.d_model)
        br_fail(BR_ERROR_SHAPE, op,
                "memory %s must be [%" PRId64 ", S, %" PRId64 "] for decoder_input_ids %s",
                br_shape_text(memory), br_size(ids, 0), self->config.d_model, br_shape_text(ids));
    return !br_error_pending();
}

br_tensor *br_t5_decode(br_t5 *self, br_tensor *ids, br_tensor *memory,
                        const br_t5_options *options)
{
    const br_t5_options *o = BR_OPTIONS_OF(op, br_t5, options);
    br_enter(self);
    if (!good_memory(self, ids, memory))
        return br_leave(self, NULL);
    pass p = { .cache = o->cache, .memory = memory };
    p.memory_visible = zoo_visible_keys(op, "attention_mask", o->attention_mask, br_size(memory, 0),
                                        br_size(memory, 1));
    return br_leave(self, run_stack(self->decoder, ids, o->decoder_attention_mask, p));
}

br_tensor *br_t5_logits(br_t5 *self, br_tensor *hidden)
{
    br_enter(self);
    if (!self->lm_head)
        return br_leave(self, br_fail(BR_ERROR_STATE, op,
                                      "a T5Model has no lm_head: use T5ForConditionalGeneration"));
    if (!self->config.unscaled)
        hidden = br_mul_scalar(hidden, 1 / sqrt((double)self->config.d_model));
    return br_leave(self, br_linear_forward(self->lm_head, hidden));
}

/* Checks an id that the decoder's input needs. Files with other ids can be loaded, as in
 * transformers. */
static bool good_id(const br_t5 *self, const char *name, int64_t id)
{
    if (!br_error_pending() && (id < 0 || id >= self->config.vocab_size))
        br_fail(BR_ERROR_STATE, op,
                "the configuration's %s is %" PRId64 ", but vocab_size is %" PRId64
                ": must be 0 .. %" PRId64,
                name, id, self->config.vocab_size, self->config.vocab_size - 1);
    return !br_error_pending();
}

br_tensor *br_t5_shift_right(const br_t5 *self, br_tensor *labels)
{
    if (!br_require(op, "self", self) || !good_ids("labels", labels))
        return NULL;
    if (br_dtype_of(labels) != BR_I64)
        return br_fail(BR_ERROR_DTYPE, op, "labels are %s, must be i64",
                       br_dtype_name(br_dtype_of(labels)));
    br_scope *scope = br_scope_begin();
    br_tensor *start = br_t5_start(self, br_size(labels, 0));
    br_tensor *rest = br_slice(labels, 1, 0, -1, 1);
    br_tensor *padding = br_eq_scalar(rest, -100);
    if (br_item_i64(br_any(padding)) && good_id(self, "pad_token_id", self->config.pad_token_id))
        rest = br_masked_fill(rest, padding, (double)self->config.pad_token_id);
    br_tensor *ids = br_scope_return(scope, br_cat(BR_INPUTS(start, rest), 1));
    br_scope_end(scope);
    return ids;
}

/* ---- For br_generate() ----------------------------------------------------------------------- */

/* Returns a tensor of the encoder for the decoder's rows, of which a text has several with beams.
 */
static br_tensor *for_rows(br_tensor *t, const br_tensor *ids)
{
    if (br_error_pending() || !t || br_ndim(t) == 0 || br_size(t, 0) == 0)
        return t;
    int64_t rows = br_size(ids, 0), texts = br_size(t, 0);
    return rows > texts && rows % texts == 0 ? br_repeat_interleave_scalar(t, rows / texts, 0) : t;
}

static br_tensor *next_logits(void *context, br_tensor *ids, br_tensor *attention_mask,
                              br_cache *cache)
{
    const br_t5_source *source = context;
    br_enter(source->model);
    br_tensor *x =
        br_t5_decode(source->model, ids, for_rows(source->memory, ids),
                     BR_OPTIONS(br_t5, .attention_mask = for_rows(source->attention_mask, ids),
                                .decoder_attention_mask = attention_mask, .cache = cache));
    return br_leave(source->model, br_t5_logits(source->model, br_select(x, 1, -1)));
}

br_language_model br_t5_language_model(br_t5_source *source)
{
    return (br_language_model){ .model = source, .next = source ? next_logits : NULL };
}

br_tensor *br_t5_start(const br_t5 *self, int64_t batch)
{
    if (!br_module_is_usable(op, self) ||
        !good_id(self, "decoder_start_token_id", self->config.decoder_start_token_id))
        return NULL;
    return br_new_full(self->shared->weight, BR_SHAPE(batch, 1),
                       (double)self->config.decoder_start_token_id, BR_I64);
}
