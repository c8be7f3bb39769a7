/* nn/losses.c - loss modules, each a loss function with its options. For each there is a
 * constructor, and a function that calls the loss function. */
#include "nn/nn_internal.h"

#include <string.h>

br_tensor *br_loss_forward(br_loss *self, int n, br_tensor *const *inputs)
{
    br_enter(self);
    if (n == self->n_inputs && inputs)
        return br_leave(self, self->function(self, inputs));
    br_fail(BR_ERROR_ARGUMENT, "loss", "%s takes %d inputs, got %d", br_module_class(&self->base),
            self->n_inputs, n);
    return br_leave(self, NULL);
}

static br_loss *new_loss(const char *class_name, int n_inputs, br_loss_fn function,
                         br_reduction reduction)
{
    br_loss *self = br_module_create(sizeof *self, class_name);
    self->n_inputs = n_inputs;
    self->function = function;
    self->reduction = reduction;
    return self;
}

/* Weights are buffers, as in PyTorch. The caller keeps its references and may pass the weights to
 * several losses. */
static void keep_weights(const char *op, br_loss *self, br_tensor *weight, br_tensor *pos_weight)
{
    if (weight && !br__required(op, "weight", weight))
        weight = NULL;
    if (pos_weight && !br__required(op, "pos_weight", pos_weight))
        pos_weight = NULL;
    self->weight = br__module_share_buffer(br_base(self), "weight", weight);
    self->pos_weight = br__module_share_buffer(br_base(self), "pos_weight", pos_weight);
}

/* ---- Distances ------------------------------------------------------------------------------- */

static br_tensor *mse(const br_loss *self, br_tensor *const *in)
{
    return br_mse_loss(in[0], in[1], self->reduction);
}

br_loss *br_mse_loss_new(br_reduction reduction)
{
    return new_loss("MSELoss", 2, mse, reduction);
}

static br_tensor *l1(const br_loss *self, br_tensor *const *in)
{
    return br_l1_loss(in[0], in[1], self->reduction);
}

br_loss *br_l1_loss_new(br_reduction reduction)
{
    return new_loss("L1Loss", 2, l1, reduction);
}

static br_tensor *smooth_l1(const br_loss *self, br_tensor *const *in)
{
    return br_smooth_l1_loss(in[0], in[1], self->reduction, self->margin);
}

br_loss *br_smooth_l1_loss_new(br_reduction reduction, double beta)
{
    br_loss *self = new_loss("SmoothL1Loss", 2, smooth_l1, reduction);
    self->margin = beta;
    return self;
}

static br_tensor *huber(const br_loss *self, br_tensor *const *in)
{
    return br_huber_loss(in[0], in[1], self->reduction, self->margin);
}

br_loss *br_huber_loss_new(br_reduction reduction, double delta)
{
    br_loss *self = new_loss("HuberLoss", 2, huber, reduction);
    self->margin = delta;
    return self;
}

/* ---- Probabilities --------------------------------------------------------------------------- */

static br_cross_entropy_options class_options(const br_loss *self)
{
    br_cross_entropy_options o = self->classes;
    o.weight = self->weight;
    return o;
}

static br_loss *new_class_loss(const char *op, const char *class_name, br_loss_fn function,
                               const br_cross_entropy_options *options)
{
    br_loss *self = new_loss(class_name, 2, function, BR_REDUCTION_MEAN);
    self->classes = *BR_OPTIONS_OF(op, br_cross_entropy, options);
    self->reduction = self->classes.reduction;
    keep_weights(op, self, self->classes.weight, NULL);
    return self;
}

static br_tensor *cross_entropy(const br_loss *self, br_tensor *const *in)
{
    br_cross_entropy_options o = class_options(self);
    return br_cross_entropy(in[0], in[1], &o);
}

br_loss *br_cross_entropy_loss_new(const br_cross_entropy_options *options)
{
    return new_class_loss("cross_entropy", "CrossEntropyLoss", cross_entropy, options);
}

static br_tensor *nll(const br_loss *self, br_tensor *const *in)
{
    br_cross_entropy_options o = class_options(self);
    return br_nll_loss(in[0], in[1], &o);
}

br_loss *br_nll_loss_new(const br_cross_entropy_options *options)
{
    return new_class_loss("nll_loss", "NLLLoss", nll, options);
}

static br_tensor *bce(const br_loss *self, br_tensor *const *in)
{
    return br_binary_cross_entropy(in[0], in[1], self->weight, self->reduction);
}

br_loss *br_bce_loss_new(br_tensor *weight, br_reduction reduction)
{
    br_loss *self = new_loss("BCELoss", 2, bce, reduction);
    keep_weights("bce_loss", self, weight, NULL);
    return self;
}

static br_tensor *bce_with_logits(const br_loss *self, br_tensor *const *in)
{
    return br_binary_cross_entropy_with_logits(in[0], in[1], self->weight, self->reduction,
                                               self->pos_weight);
}

br_loss *br_bce_with_logits_loss_new(br_tensor *weight, br_reduction reduction,
                                     br_tensor *pos_weight)
{
    br_loss *self = new_loss("BCEWithLogitsLoss", 2, bce_with_logits, reduction);
    keep_weights("bce_with_logits_loss", self, weight, pos_weight);
    return self;
}

static br_tensor *kl_div(const br_loss *self, br_tensor *const *in)
{
    return br_kl_div(in[0], in[1], self->reduction, self->log_target);
}

br_loss *br_kl_div_loss_new(br_reduction reduction, bool log_target)
{
    br_loss *self = new_loss("KLDivLoss", 2, kl_div, reduction);
    self->log_target = log_target;
    return self;
}

/* ---- Linear cross entropy -------------------------------------------------------------------- */

/* Sets the sizes of a row's scores, and returns their number, or 0 and an error. */
static int64_t score_sizes(br_linear_cross_entropy_loss *self, int64_t num_classes, int ndim,
                           const int64_t *out_features)
{
    static const char op[] = "linear_cross_entropy_loss";
    if (ndim < 0 || ndim > BR_MAX_DIMS - 2 || (ndim > 0 && !out_features)) {
        br_fail(BR_ERROR_ARGUMENT, op, "out_features has %d dimensions, must have 0 .. %d",
                out_features ? ndim : 0, BR_MAX_DIMS - 2);
        return 0;
    }
    int64_t scores = 1;
    for (int i = 0; i <= ndim; i++) {
        self->sizes[i] = i == 0 ? num_classes : out_features[i - 1];
        if (br__layer_size(op, i == 0 ? "num_classes" : "out_features", self->sizes[i], 0) &&
            __builtin_mul_overflow(scores, self->sizes[i], &scores))
            br_fail(BR_ERROR_ARGUMENT, op, "num_classes and out_features are too large");
    }
    self->ndim = ndim + 1;
    return br_failed() ? 0 : scores;
}

br_linear_cross_entropy_loss *br_linear_cross_entropy_loss_new(
    int64_t in_features, int64_t num_classes, int ndim, const int64_t *out_features, bool bias,
    const br_linear_cross_entropy_options *options)
{
    br_linear_cross_entropy_loss *self = br_module_create(sizeof *self, "LinearCrossEntropyLoss");
    self->options = *BR_OPTIONS_OF("linear_cross_entropy", br_linear_cross_entropy, options);
    if (self->options.linear_bias)
        br_fail(BR_ERROR_ARGUMENT, "linear_cross_entropy_loss",
                "linear_bias must be NULL: the module has a bias of its own if `bias` is true");
    self->weight = br__module_share_buffer(br_base(self), "weight", self->options.weight);
    const int64_t scores = score_sizes(self, num_classes, ndim, out_features);
    if (!br_failed())
        self->linear = br_child(self, "linear", br_linear_new(in_features, scores, bias));
    if (br_failed())
        br_module_set_incomplete(br_base(self));
    return self;
}

/* Returns the loss of a layer with an adapter: from the result of the layer's own forward, since
 * its weight alone does not have the adapter. */
static br_tensor *adapted_loss(br_linear_cross_entropy_loss *self, br_tensor *input,
                               br_tensor *target)
{
    const br_linear_cross_entropy_options *o = &self->options;
    int64_t sizes[BR_MAX_DIMS];
    int n = 0;
    if (br_ndim(input) == 2)
        sizes[n++] = br_size(input, 0);
    for (int i = 0; i < self->ndim; i++)
        sizes[n++] = self->sizes[i];
    br_tensor *scores = br_reshape(br_linear_forward(self->linear, input), n, sizes);
    return br_cross_entropy(scores, target,
                            BR_OPTIONS(br_cross_entropy, .weight = self->weight,
                                       .reduction = o->reduction, .ignore_index = o->ignore_index,
                                       .label_smoothing = o->label_smoothing));
}

br_tensor *br_linear_cross_entropy_loss_forward(br_linear_cross_entropy_loss *self,
                                                br_tensor *input, br_tensor *target)
{
    br_enter(self);
    br_module *linear = br_base(self->linear);
    if (br_lora_is_adapted(linear))
        return br_leave(self, adapted_loss(self, input, target));
    int64_t sizes[BR_MAX_DIMS];
    memcpy(sizes, self->sizes, sizeof sizes);
    sizes[self->ndim] = self->linear->in_features;
    br_linear_cross_entropy_options o = self->options;
    o.weight = self->weight;
    if (self->linear->bias || br_is_parametrized(linear, "bias"))
        o.linear_bias = br_reshape(br__current_value(linear, "bias"), self->ndim, sizes);
    br_tensor *weight = br_reshape(br__current_value(linear, "weight"), self->ndim + 1, sizes);
    return br_leave(self, br_linear_cross_entropy(input, weight, target, &o));
}

/* ---- Margins --------------------------------------------------------------------------------- */

static br_tensor *cosine_embedding(const br_loss *self, br_tensor *const *in)
{
    return br_cosine_embedding_loss(in[0], in[1], in[2], self->margin, self->reduction);
}

br_loss *br_cosine_embedding_loss_new(double margin, br_reduction reduction)
{
    br_loss *self = new_loss("CosineEmbeddingLoss", 3, cosine_embedding, reduction);
    self->margin = margin;
    return self;
}

static br_tensor *margin_ranking(const br_loss *self, br_tensor *const *in)
{
    return br_margin_ranking_loss(in[0], in[1], in[2], self->margin, self->reduction);
}

br_loss *br_margin_ranking_loss_new(double margin, br_reduction reduction)
{
    br_loss *self = new_loss("MarginRankingLoss", 3, margin_ranking, reduction);
    self->margin = margin;
    return self;
}

static br_tensor *triplet_margin(const br_loss *self, br_tensor *const *in)
{
    return br_triplet_margin_loss(in[0], in[1], in[2], &self->triplet, self->reduction);
}

br_loss *br_triplet_margin_loss_new(const br_triplet_options *options, br_reduction reduction)
{
    br_loss *self = new_loss("TripletMarginLoss", 3, triplet_margin, reduction);
    self->triplet = *BR_OPTIONS_OF("triplet_margin_loss", br_triplet, options);
    return self;
}
