/* The Transformer encoder of docs/tutorial_transformer.md, with a head that classifies a sequence.
 * It learns whether the first token of a sequence occurs again, which only attention can find. */
#include <brasa/brasa.h>
#include <math.h>

enum { VOCAB = 12, LENGTH = 10, HIDDEN = 32, HEADS = 4, LAYERS = 2, BATCH = 64, STEPS = 300 };

/* ---- Scaled dot-product attention ------------------------------------------------------------ */

/* query, key, value [B, S, D] -> [B, S, D] */
static br_tensor *attention(br_tensor *query, br_tensor *key, br_tensor *value)
{
    double dim_k = (double)br_size(query, -1);
    br_tensor *scores = br_bmm(query, br_transpose(key, 1, 2)); /* [B, S, S] */
    scores = br_div_scalar(scores, sqrt(dim_k));
    br_tensor *weights = br_tap("weights", br_softmax(scores, -1));
    return br_bmm(weights, value);
}

/* ---- One head -------------------------------------------------------------------------------- */

typedef struct attention_head {
    br_module base;
    br_linear *q, *k, *v;
} attention_head;

static attention_head *attention_head_new(int64_t embed_dim, int64_t head_dim)
{
    attention_head *self = br_module_new(attention_head);
    self->q = br_child(self, "q", br_linear_new(embed_dim, head_dim, true));
    self->k = br_child(self, "k", br_linear_new(embed_dim, head_dim, true));
    self->v = br_child(self, "v", br_linear_new(embed_dim, head_dim, true));
    return self;
}

static br_tensor *attention_head_forward(attention_head *self, br_tensor *hidden_state)
{
    br_enter(self);
    br_tensor *q = br_linear_forward(self->q, hidden_state);
    br_tensor *k = br_linear_forward(self->k, hidden_state);
    br_tensor *v = br_linear_forward(self->v, hidden_state);
    return br_leave(self, attention(q, k, v));
}

/* ---- Several heads --------------------------------------------------------------------------- */

typedef struct multi_head_attention {
    br_module base;
    br_module_list *heads;
    br_linear *output_linear;
} multi_head_attention;

static multi_head_attention *multi_head_attention_new(void)
{
    multi_head_attention *self = br_module_new(multi_head_attention);
    self->heads = br_child(self, "heads", br_module_list_new());
    for (int i = 0; i < HEADS; i++)
        br_module_list_append(self->heads, attention_head_new(HIDDEN, HIDDEN / HEADS));
    self->output_linear = br_child(self, "output_linear", br_linear_new(HIDDEN, HIDDEN, true));
    return self;
}

static br_tensor *multi_head_attention_forward(multi_head_attention *self, br_tensor *hidden_state)
{
    br_enter(self);
    br_tensor *outputs[HEADS];
    for (int i = 0; i < HEADS; i++)
        outputs[i] = attention_head_forward(br_module_list_at(self->heads, i), hidden_state);
    br_tensor *x = br_cat(HEADS, outputs, -1);
    return br_leave(self, br_linear_forward(self->output_linear, x));
}

/* ---- Feed-forward ---------------------------------------------------------------------------- */

typedef struct feed_forward {
    br_module base;
    br_linear *linear_1, *linear_2;
    br_dropout *dropout;
} feed_forward;

static feed_forward *feed_forward_new(void)
{
    feed_forward *self = br_module_new(feed_forward);
    self->linear_1 = br_child(self, "linear_1", br_linear_new(HIDDEN, 4 * HIDDEN, true));
    self->linear_2 = br_child(self, "linear_2", br_linear_new(4 * HIDDEN, HIDDEN, true));
    self->dropout = br_child(self, "dropout", br_dropout_new(0.1));
    return self;
}

static br_tensor *feed_forward_forward(feed_forward *self, br_tensor *x)
{
    br_enter(self);
    x = br_gelu(br_linear_forward(self->linear_1, x), BR_GELU_ERF);
    x = br_linear_forward(self->linear_2, x);
    return br_leave(self, br_dropout_forward(self->dropout, x));
}

/* ---- One layer ------------------------------------------------------------------------------- */

typedef struct encoder_layer {
    br_module base;
    br_layer_norm *layer_norm_1, *layer_norm_2;
    multi_head_attention *attention;
    feed_forward *feed_forward;
} encoder_layer;

static br_tensor *encoder_layer_forward(void *module, br_tensor *x)
{
    encoder_layer *self = module;
    br_enter(self);
    br_tensor *hidden_state = br_layer_norm_forward(self->layer_norm_1, x);
    x = br_add(x, multi_head_attention_forward(self->attention, hidden_state));
    hidden_state = br_layer_norm_forward(self->layer_norm_2, x);
    return br_leave(self, br_add(x, feed_forward_forward(self->feed_forward, hidden_state)));
}

static encoder_layer *encoder_layer_new(void)
{
    encoder_layer *self = br_module_new(encoder_layer);
    self->layer_norm_1 = br_child(self, "layer_norm_1", br_layer_norm_new(HIDDEN, NULL));
    self->layer_norm_2 = br_child(self, "layer_norm_2", br_layer_norm_new(HIDDEN, NULL));
    self->attention = br_child(self, "attention", multi_head_attention_new());
    self->feed_forward = br_child(self, "feed_forward", feed_forward_new());
    br_module_set_forward(br_base(self), encoder_layer_forward);
    return self;
}

/* ---- The whole model ------------------------------------------------------------------------- */

typedef struct classifier {
    br_module base;
    br_embedding *token_embeddings, *position_embeddings;
    br_module_list *layers;
    br_linear *classifier;
} classifier;

static classifier *classifier_new(void)
{
    classifier *self = br_module_new(classifier);
    self->token_embeddings =
        br_child(self, "token_embeddings", br_embedding_new(VOCAB, HIDDEN, -1));
    self->position_embeddings =
        br_child(self, "position_embeddings", br_embedding_new(LENGTH, HIDDEN, -1));
    self->layers = br_child(self, "layers", br_module_list_new());
    for (int i = 0; i < LAYERS; i++)
        br_module_list_append(self->layers, encoder_layer_new());
    self->classifier = br_child(self, "classifier", br_linear_new(HIDDEN, 2, true));
    return self;
}

/* input_ids i64 [B, S] -> logits [B, 2], computed from the state of the first token */
static br_tensor *classifier_forward(classifier *self, br_tensor *input_ids)
{
    br_enter(self);
    br_tensor *position_ids = br_arange(0, (double)br_size(input_ids, 1), 1, BR_I64);
    br_tensor *x = br_add(br_embedding_forward(self->token_embeddings, input_ids),
                          br_embedding_forward(self->position_embeddings, position_ids));
    for (int64_t i = 0; i < br_module_list_size(self->layers); i++)
        x = br_forward(br_module_list_at(self->layers, i), x);
    x = br_select(x, 1, 0); /* x[:, 0] */
    return br_leave(self, br_linear_forward(self->classifier, x));
}

/* ---- Training -------------------------------------------------------------------------------- */

/* Returns random sequences i64 [BATCH, LENGTH]. *labels [BATCH] is 1 where the first token occurs
 * again. */
static br_tensor *make_batch(br_tensor **labels)
{
    br_tensor *ids = br_randint(0, VOCAB, BR_SHAPE(BATCH, LENGTH));
    br_tensor *first = br_slice(ids, 1, 0, 1, 1), *others = br_slice(ids, 1, 1, BR_ALL, 1);
    *labels = br_to(br_any_dim(br_eq(others, first), BR_DIMS(1), false), BR_I64);
    return ids;
}

static double accuracy(classifier *model)
{
    br_eval(br_base(model));
    br_scope *scope = br_no_grad_begin();
    br_tensor *labels, *ids = make_batch(&labels);
    br_tensor *right = br_eq(br_argmax(classifier_forward(model, ids), -1, false), labels);
    double share = br_item(br_mean(br_to(right, BR_F32)));
    br_scope_end(scope);
    br_train(br_base(model), true);
    return share;
}

/* For the gradient check: the model as a function of one layer's input. */
static bool gradient_is_right(classifier *model)
{
    br_eval(br_base(model)); /* dropout would change the function from call to call */
    br_module_to(br_base(model), BR_F64);
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_set_requires_grad(br_randn(BR_SHAPE(1, 3, HIDDEN), BR_F64), true);
    bool right =
        br_module_gradcheck(br_module_list_at(model->layers, 0), NULL, NULL, BR_INPUTS(x), NULL);
    br_scope_end(scope);
    return right;
}

int main(void)
{
    br_manual_seed(0);
    classifier *model = classifier_new();
    br_optim *optim = br_adamw(br_base(model), BR_OPTIONS(br_adamw, .lr = 2e-3));
    for (int step = 1; step <= STEPS && !br_failed(); step++) {
        br_scope *scope = br_scope_begin();
        br_tensor *labels, *ids = make_batch(&labels);
        br_tensor *loss = br_cross_entropy(classifier_forward(model, ids), labels, NULL);
        br_optim_zero_grad(optim);
        br_backward(loss);
        br_optim_step(optim);
        if (step % 100 == 0)
            printf("step %d: loss %.4f\n", step, br_item(loss));
        br_scope_end(scope);
    }
    double share = accuracy(model);
    printf("accuracy on new sequences: %.2f\n", share);
    bool right = share > 0.9 && gradient_is_right(model);
    br_optim_free(optim);
    br_module_free(model);
    return br_report(stderr) || !right;
}
