/* nn/layers.c - the layers of torch.nn with their default initial values.
 *
 * A constructor generates its random numbers in PyTorch's order, so that the same seed and the same
 * sequence of constructors give the same weights. */
#include "nn/nn_internal.h"

#include <inttypes.h>
#include <math.h>

bool br__layer_size(const char *op, const char *name, int64_t size, int64_t minimum)
{
    if (size < minimum)
        br_fail(BR_ERROR_ARGUMENT, op, "%s is %" PRId64 ", must be at least %" PRId64, name, size,
                minimum);
    return !br_failed();
}

/* ---- Common code of layers ------------------------------------------------------------------- */

void *br__layer_begin(size_t size, const char *class_name, br_forward_fn body)
{
    br_module *module = br_module_create(size, class_name);
    if (module->state && body) {
        module->state->forward = br__layer_forward;
        module->state->body = body;
    }
    return module;
}

void br__layer_end(br_module *module, br_scope *scope)
{
    if (br_failed() && module->state)
        module->state->incomplete = true;
    br_scope_end(scope);
}

br_tensor *br__layer_forward(void *self, br_tensor *x)
{
    return br__layer_forward_from("forward", self, x);
}

br_tensor *br__layer_forward_from(const char *function, void *self, br_tensor *x)
{
    br_module *module = self;
    if (!br_module_enter_from(function, module, &x))
        return NULL;
    return br_module_leave(module, module->state->body(self, x));
}

static _Thread_local bool skips_init;

bool br_skip_init(bool skip)
{
    bool before = skips_init;
    skips_init = skip;
    return before;
}

/* ---- Linear ---------------------------------------------------------------------------------- */

/* Initializes the weight by Kaiming uniform with a = sqrt 5, which is U(+-1/sqrt(in_features)), and
 * the bias by the same distribution. */
static void init_linear(br_linear *self)
{
    br_init_kaiming_uniform_(self->weight, sqrt(5));
    if (!self->bias)
        return;
    double bound = self->in_features > 0 ? 1 / sqrt((double)self->in_features) : 0;
    br_init_uniform_(self->bias, -bound, bound);
}

static br_tensor *run_linear(void *module, br_tensor *x)
{
    const br_linear *self = module;
    return br_f_linear(x, self->weight, self->bias);
}

br_linear *br_linear_new(int64_t in_features, int64_t out_features, bool bias)
{
    br_linear *self = br__layer_begin(sizeof *self, "Linear", run_linear);
    self->in_features = in_features;
    self->out_features = out_features;
    br_scope *scope = br_scope_begin();
    br_tensor *w = NULL, *b = NULL;
    if (br__layer_size("linear", "in_features", in_features, 0) &&
        br__layer_size("linear", "out_features", out_features, 0)) {
        w = br__new("linear", BR_SHAPE(out_features, in_features), BR_F32);
        b = bias ? br__new("linear", BR_SHAPE(out_features), BR_F32) : NULL;
    }
    self->weight = br_parameter(self, "weight", w);
    self->bias = br_parameter(self, "bias", b);
    if (!br_failed() && !skips_init)
        init_linear(self);
    br__layer_end(br_base(self), scope);
    return self;
}

br_tensor *br_linear_forward(br_linear *self, br_tensor *x)
{
    return BR_LAYER_FORWARD(self, x);
}

/* ---- Embedding ------------------------------------------------------------------------------- */

/* Initializes the weight from N(0, 1), and row padding_idx with zeros; -1: there is none. */
static void init_embedding(br_tensor *weight, int64_t padding_idx)
{
    br_init_normal_(weight, 0, 1);
    if (padding_idx < 0)
        return;
    br_scope *scope = br_no_grad_begin();
    br_zero_(br_select(weight, 0, padding_idx));
    br_scope_end(scope);
}

/* Checks the sizes, and registers the weight with its initial values. */
static br_tensor *add_rows(br_module *module, const char *op, int64_t num_embeddings,
                           int64_t embedding_dim, int64_t padding_idx)
{
    if (br__layer_size(op, "num_embeddings", num_embeddings, 0) &&
        (padding_idx < -1 || padding_idx >= num_embeddings))
        br_fail(BR_ERROR_INDEX, op,
                "padding_idx is %" PRId64
                ", must be -1 (none) or less than num_embeddings %" PRId64,
                padding_idx, num_embeddings);
    br_tensor *w = NULL;
    if (br__layer_size(op, "embedding_dim", embedding_dim, 0))
        w = br__new(op, BR_SHAPE(num_embeddings, embedding_dim), BR_F32);
    w = br_module_add_parameter(module, "weight", w);
    if (!br_failed() && !skips_init)
        init_embedding(w, padding_idx);
    return w;
}

static br_tensor *run_embedding(void *module, br_tensor *x)
{
    const br_embedding *self = module;
    if (self->max_norm > 0)
        br_embedding_renorm_(self->weight, x, self->max_norm, self->norm_type);
    br_tensor *y = br_f_embedding(self->weight, x, self->padding_idx);
    return self->scale_grad_by_freq ? br_scale_grad_by_freq(y, x) : y;
}

br_embedding *br_embedding_new(int64_t num_embeddings, int64_t embedding_dim, int64_t padding_idx)
{
    br_embedding *self = br__layer_begin(sizeof *self, "Embedding", run_embedding);
    self->num_embeddings = num_embeddings;
    self->embedding_dim = embedding_dim;
    self->padding_idx = padding_idx;
    self->norm_type = 2;
    br_scope *scope = br_scope_begin();
    self->weight = add_rows(br_base(self), "embedding", num_embeddings, embedding_dim, padding_idx);
    br__layer_end(br_base(self), scope);
    return self;
}

br_tensor *br_embedding_forward(br_embedding *self, br_tensor *index)
{
    return BR_LAYER_FORWARD(self, index);
}

br_embedding_bag *br_embedding_bag_new(int64_t num_embeddings, int64_t embedding_dim,
                                       const br_embedding_bag_options *options)
{
    const char *op = "embedding_bag";
    br_embedding_bag *self = br__layer_begin(sizeof *self, "EmbeddingBag", NULL);
    self->options = *BR_OPTIONS_OF(op, br_embedding_bag, options);
    self->num_embeddings = num_embeddings;
    self->embedding_dim = embedding_dim;
    br_scope *scope = br_scope_begin();
    if (self->options.per_sample_weights)
        br_fail(BR_ERROR_ARGUMENT, op,
                "per_sample_weights is set in the options; pass it to br_embedding_bag_forward()");
    self->weight =
        add_rows(br_base(self), op, num_embeddings, embedding_dim, self->options.padding_idx);
    br__layer_end(br_base(self), scope);
    return self;
}

br_tensor *br_embedding_bag_forward(br_embedding_bag *self, br_tensor *index, br_tensor *offsets,
                                    br_tensor *per_sample_weights)
{
    br_enter_with(self, index);
    br_embedding_bag_options options = self->options;
    options.per_sample_weights = per_sample_weights;
    return br_leave(self, br_f_embedding_bag(self->weight, index, offsets, &options));
}

/* ---- Bilinear -------------------------------------------------------------------------------- */

br_bilinear *br_bilinear_new(int64_t in1_features, int64_t in2_features, int64_t out_features,
                             bool bias)
{
    br_bilinear *self = br__layer_begin(sizeof *self, "Bilinear", NULL);
    self->in1_features = in1_features;
    self->in2_features = in2_features;
    self->out_features = out_features;
    br_scope *scope = br_scope_begin();
    br_tensor *w = NULL, *b = NULL;
    if (br__layer_size("bilinear", "in1_features", in1_features, 1) &&
        br__layer_size("bilinear", "in2_features", in2_features, 0) &&
        br__layer_size("bilinear", "out_features", out_features, 0)) {
        w = br__new("bilinear", BR_SHAPE(out_features, in1_features, in2_features), BR_F32);
        b = bias ? br__new("bilinear", BR_SHAPE(out_features), BR_F32) : NULL;
    }
    self->weight = br_parameter(self, "weight", w);
    self->bias = br_parameter(self, "bias", b);
    double bound = in1_features > 0 ? 1 / sqrt((double)in1_features) : 0;
    if (self->weight)
        br_init_uniform_(self->weight, -bound, bound);
    if (self->bias)
        br_init_uniform_(self->bias, -bound, bound);
    br__layer_end(br_base(self), scope);
    return self;
}

br_tensor *br_bilinear_forward(br_bilinear *self, br_tensor *x1, br_tensor *x2)
{
    br_enter_with(self, x1);
    return br_leave(self, br_f_bilinear(x1, x2, self->weight, self->bias));
}

/* ---- Distances ------------------------------------------------------------------------------- */

br_distance *br_cosine_similarity_new(int64_t dim, double eps)
{
    br_distance *self = br__layer_begin(sizeof *self, "CosineSimilarity", NULL);
    self->cosine = true;
    self->dim = dim;
    self->eps = eps;
    return self;
}

br_distance *br_pairwise_distance_new(double p, double eps, bool keepdim)
{
    br_distance *self = br__layer_begin(sizeof *self, "PairwiseDistance", NULL);
    self->p = p;
    self->eps = eps;
    self->keepdim = keepdim;
    return self;
}

br_tensor *br_distance_forward(br_distance *self, br_tensor *x1, br_tensor *x2)
{
    br_enter_with(self, x1);
    return br_leave(self, self->cosine
                              ? br_cosine_similarity(x1, x2, self->dim, self->eps)
                              : br_pairwise_distance(x1, x2, self->p, self->eps, self->keepdim));
}
