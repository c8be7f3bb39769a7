/* nn/per_sample_rules.c - the gradients of samples for each class of layer. */
#include "nn/per_sample.h"

#include "ops/index/embedding_rows.h"

#include <string.h>

/* Returns t [batch, ...] as [batch, n, size of the last dimension]. */
static br_tensor *rows_of(br_tensor *t)
{
    return br_reshape(t, BR_SHAPE(t->sizes[0], -1, t->sizes[t->ndim - 1]));
}

/* Returns the sum of t [batch, ...] over all dimensions that the parameter does not have. */
static br_tensor *reduced(const br_sample_call *c, br_tensor *t, const br_tensor *parameter)
{
    const int64_t batch = c->dy->sizes[0], n = parameter->numel;
    int64_t sizes[BR_MAX_DIMS] = { batch };
    for (int d = 0; d < parameter->ndim; d++)
        sizes[1 + d] = parameter->sizes[d];
    t = c->rule->channels ? br_sum_dim(br_reshape(t, BR_SHAPE(batch, n, -1)), BR_DIMS(2), false)
                          : br_sum_dim(br_reshape(t, BR_SHAPE(batch, -1, n)), BR_DIMS(1), false);
    return br_reshape(t, 1 + parameter->ndim, sizes);
}

/* ---- Products -------------------------------------------------------------------------------- */

static br_tensor *linear_weight(const br_sample_call *c)
{
    return br_bmm(br_transpose(rows_of(c->dy), 1, 2), rows_of(c->x));
}

static br_tensor *transposed_weight(const br_sample_call *c)
{
    return br_bmm(br_transpose(rows_of(c->x), 1, 2), rows_of(c->dy));
}

/* Each sample adds its rows to a table of its own. */
static br_tensor *embedding_weight(const br_sample_call *c)
{
    const br_embedding *self = (const br_embedding *)(void *)c->layer->module;
    const int64_t batch = c->dy->sizes[0], rows = self->num_embeddings, width = self->embedding_dim;
    br_tensor *index = br_reshape(c->x, BR_SHAPE(batch, -1));
    br_tensor *dy = br_reshape(c->dy, BR_SHAPE(-1, width));
    br_tensor *first =
        br_mul_scalar(br_new_arange(index, 0, (double)batch, 1, BR_I64), (double)rows);
    br_tensor *place = br_reshape(br_add(index, br_unsqueeze(first, 1)), BR_SHAPE(-1));
    if (self->padding_idx >= 0)
        dy = br_masked_fill(
            dy, br_reshape(br_eq_scalar(index, (double)self->padding_idx), BR_SHAPE(-1, 1)), 0);
    if (self->scale_grad_by_freq)
        dy = br__over_counts(dy, place);
    br_tensor *tables = br_new_zeros(c->dy, BR_SHAPE(batch * rows, width), c->dy->dtype);
    return br_reshape(br_index_add(tables, 0, place, dy, 1), BR_SHAPE(batch, rows, width));
}

/* ---- Convolutions ---------------------------------------------------------------------------- */

/* Returns t [batch, channels, ...] as one sample with batch * channels channels. */
static br_tensor *as_channels(br_tensor *t)
{
    int64_t sizes[BR_MAX_DIMS] = { 1, t->sizes[0] * t->sizes[1] };
    memcpy(sizes + 2, t->sizes + 2, (size_t)(t->ndim - 2) * sizeof *sizes);
    return br_reshape(t, t->ndim, sizes);
}

/* Returns zeros for the weights of all samples, one after another along the first dimension. A
 * convolution is linear, so that their gradient does not depend on their values. */
static br_tensor *weights_of_samples(const br_sample_call *c, const br_tensor *weight)
{
    int64_t sizes[BR_MAX_DIMS];
    memcpy(sizes, weight->sizes, (size_t)weight->ndim * sizeof *sizes);
    sizes[0] *= c->dy->sizes[0];
    return br_set_requires_grad(br_new_zeros(c->dy, weight->ndim, sizes, c->dy->dtype), true);
}

/* A convolution in which each sample has groups of its own. */
static br_tensor *convolved(const br_sample_call *c, br_tensor *weights)
{
    const int64_t batch = c->dy->sizes[0];
    br_tensor *x = as_channels(c->x);
    if (c->rule->size == sizeof(br_conv)) {
        const br_conv *self = (const br_conv *)(void *)c->layer->module;
        br_conv_options options = self->options;
        options.groups *= batch;
        return self->function(x, weights, NULL, &options);
    }
    const br_conv3d *self = (const br_conv3d *)(void *)c->layer->module;
    br_conv3d_options options = self->options;
    options.groups *= batch;
    return self->function(x, weights, NULL, &options);
}

static br_tensor *conv_weight(const br_sample_call *c)
{
    const br_tensor *weight = br__find_entry(c->layer, "weight")->tensor;
    br_scope *scope = br_enable_grad_begin();
    br_tensor *weights = weights_of_samples(c, weight), *y = convolved(c, weights), *grad = NULL;
    br_tensor *dy = as_channels(c->dy);
    br_grad(1, &y, 1, &weights, &grad, BR_OPTIONS(br_grad, .gradients = &dy));
    int64_t sizes[BR_MAX_DIMS] = { c->dy->sizes[0] };
    memcpy(sizes + 1, weight->sizes, (size_t)weight->ndim * sizeof *sizes);
    grad = br_scope_return(scope, br_reshape(grad, 1 + weight->ndim, sizes));
    br_scope_end(scope);
    return grad;
}

/* ---- Norms ----------------------------------------------------------------------------------- */

/* The weight's gradient is dy times the normalized x. */
static br_tensor *norm_weight(const br_sample_call *c, br_tensor *normalized)
{
    return reduced(c, br_mul(c->dy, normalized), br__find_entry(c->layer, "weight")->tensor);
}

static br_tensor *layer_norm_weight(const br_sample_call *c)
{
    const br_layer_norm *self = (const br_layer_norm *)(void *)c->layer->module;
    return norm_weight(
        c, br_f_layer_norm(c->x, self->ndim, self->normalized_shape, NULL, NULL, self->eps));
}

static br_tensor *rms_norm_weight(const br_sample_call *c)
{
    const br_rms_norm *self = (const br_rms_norm *)(void *)c->layer->module;
    return norm_weight(c, br_f_rms_norm(c->x, self->ndim, self->normalized_shape, NULL, self->eps));
}

static br_tensor *group_norm_weight(const br_sample_call *c)
{
    const br_group_norm *self = (const br_group_norm *)(void *)c->layer->module;
    return norm_weight(c, br_f_group_norm(c->x, self->num_groups, NULL, NULL, self->eps));
}

static br_tensor *instance_norm_weight(const br_sample_call *c)
{
    const br_instance_norm *self = (const br_instance_norm *)(void *)c->layer->module;
    const bool of_input = c->layer->training || !self->running_mean;
    return norm_weight(
        c, of_input ? br_f_instance_norm(c->x, NULL, NULL, NULL, NULL, true, 0, self->options.eps)
                    : br_f_instance_norm(c->x, self->running_mean, self->running_var, NULL, NULL,
                                         false, 0, self->options.eps));
}

/* ---- The table ------------------------------------------------------------------------------- */

static const br_sample_rule rules[] = {
    { "Linear", sizeof(br_linear), 2, false, linear_weight },
    { "Conv1D", 0, 2, false, transposed_weight }, /* GPT-2's: the weight is [in, out] */
    { "Embedding", sizeof(br_embedding), 1, false, embedding_weight },
    { "Conv1d", sizeof(br_conv), 3, true, conv_weight },
    { "Conv2d", sizeof(br_conv), 4, true, conv_weight },
    { "Conv3d", sizeof(br_conv3d), 5, true, conv_weight },
    { "ConvTranspose1d", sizeof(br_conv), 3, true, conv_weight },
    { "ConvTranspose2d", sizeof(br_conv), 4, true, conv_weight },
    { "ConvTranspose3d", sizeof(br_conv3d), 5, true, conv_weight },
    { "LayerNorm", sizeof(br_layer_norm), 2, false, layer_norm_weight },
    { "RMSNorm", sizeof(br_rms_norm), 2, false, rms_norm_weight },
    { "GroupNorm", sizeof(br_group_norm), 2, true, group_norm_weight },
    { "InstanceNorm1d", sizeof(br_instance_norm), 3, true, instance_norm_weight },
    { "InstanceNorm2d", sizeof(br_instance_norm), 4, true, instance_norm_weight },
    { "InstanceNorm3d", sizeof(br_instance_norm), 5, true, instance_norm_weight },
};

const br_sample_rule *br__sample_rule(const br_module_state *layer)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (br__is_class(layer, rules[i].class_name, rules[i].size))
            return &rules[i];
    return NULL;
}

br_tensor *br__sample_grad(const br_sample_call *call, const br_entry *parameter)
{
    return strcmp(parameter->name, "weight") == 0 ? call->rule->weight(call)
                                                  : reduced(call, call->dy, parameter->tensor);
}
