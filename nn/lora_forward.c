/* nn/lora_forward.c - LoRA's mathematics in one layer: the forward, and the product that is merged
 * with the weight. DoRA divides each output's weights by their norm and multiplies them by a
 * magnitude. */
#include "nn/lora_internal.h"

#include <string.h>

/* ---- Kinds of layers ------------------------------------------------------------------------- */

static const br_lora_kind kinds[] = {
    { "Linear", BR_LORA_LINEAR, 2, 0, sizeof(br_linear) },
    { "Conv1D", BR_LORA_LINEAR, 2, 1, 0 }, /* GPT-2's: the weight is [in_features, out_features] */
    { "Embedding", BR_LORA_EMBEDDING, 2, 1, sizeof(br_embedding) },
    { "Conv1d", BR_LORA_CONV, 3, 0, sizeof(br_conv) },
    { "Conv2d", BR_LORA_CONV, 4, 0, sizeof(br_conv) },
};

br_tensor *br__lora_tensor(const br_module_state *state, const char *name)
{
    const br_entry *entry = br__find_entry(state, name);
    return entry ? entry->tensor : NULL;
}

const br_lora_kind *br__lora_kind(const br_module_state *state)
{
    const br_tensor *weight = br__lora_tensor(state, "weight");
    for (size_t i = 0; weight && i < sizeof kinds / sizeof *kinds; i++)
        if (br__is_class(state, kinds[i].class_name, kinds[i].size) &&
            weight->ndim == kinds[i].weight_ndim)
            return &kinds[i];
    return NULL;
}

br_lora_layer *br__lora_layer_of(const br_module_state *state)
{
    return state->adapter && state->adapter->run ? (br_lora_layer *)state->adapter : NULL;
}

static const br_lora_part *active_part(const br_lora_layer *layer)
{
    const br_lora_part *part = layer ? layer->parts : NULL;
    while (part && !part->active)
        part = part->next;
    return part && !part->merged ? part : NULL;
}

bool br_lora_is_adapted(const br_module *layer)
{
    return br__module_exists("lora_is_adapted", layer) &&
           active_part(br__lora_layer_of(layer->state)) != NULL;
}

/* ---- The product ----------------------------------------------------------------------------- */

/* Returns scaling * B A in the layout of the weight, in the dtype of A. As in peft, products of
 * bf16 and f16 are computed in f32. */
static br_tensor *product(const br_module_state *state, const br_lora_part *part)
{
    const br_tensor *weight = br__lora_tensor(state, "weight");
    const br_dtype dtype = part->a->dtype, wide = br__is_narrow(dtype) ? BR_F32 : dtype;
    br_tensor *a = br_reshape(br_to(part->a, wide), BR_SHAPE(part->r, -1));
    br_tensor *b = br_reshape(br_to(part->b, wide), BR_SHAPE(-1, part->r));
    br_tensor *ba = br_mul_scalar(br_mm(b, a), part->scaling);
    if (br__lora_layer_of(state)->kind->out_dim == 1)
        ba = br_t(ba);
    return br_to(br_reshape(ba, weight->ndim, weight->sizes), dtype);
}

/* Returns the norm of the weights of each output, [outputs], of weight + delta. */
static br_tensor *norms_of(const br_lora_kind *kind, br_tensor *weight, br_tensor *delta)
{
    int64_t dims[4];
    int n = 0;
    for (int d = 0; d < kind->weight_ndim; d++)
        if (d != kind->out_dim)
            dims[n++] = d;
    return br_norm_dim(br_add(weight, delta), 2, n, dims, false);
}

/* Returns magnitude / norm with a shape that broadcasts to `ndim` dimensions, of which `dim`
 * numbers the outputs. */
static br_tensor *factor(const br_lora_part *part, br_tensor *norm, int ndim, int dim)
{
    int64_t sizes[BR_MAX_DIMS];
    for (int d = 0; d < ndim; d++)
        sizes[d] = d == dim ? -1 : 1;
    br_tensor *magnitude = br_reshape(part->magnitude, BR_SHAPE(-1));
    return br_reshape(br_div(magnitude, norm), ndim, sizes);
}

/* ---- Forward --------------------------------------------------------------------------------- */

/* Returns the layer's result for x without its bias. */
static br_tensor *without_bias(const br_module_state *state, br_tensor *x)
{
    const br_lora_kind *kind = br__lora_layer_of(state)->kind;
    br_tensor *weight = br_to(br__lora_tensor(state, "weight"), x->dtype);
    if (kind->family != BR_LORA_CONV)
        return br_f_linear(x, kind->out_dim == 1 ? br_t(weight) : weight, NULL);
    const br_conv *conv = (const br_conv *)state->module;
    return conv->function(x, weight, NULL, &conv->options);
}

br_tensor *br__lora_norms(const br_module_state *state, const br_lora_part *part)
{
    br_scope *scope = br_no_grad_begin();
    br_tensor *weight = br_to(br__lora_tensor(state, "weight"), part->a->dtype);
    br_tensor *norms = norms_of(br__lora_layer_of(state)->kind, weight, product(state, part));
    br_scope_return(scope, norms);
    br_scope_end(scope);
    return norms;
}

/* Returns result - bias: what the weight alone computed. */
static br_tensor *remove_bias(const br_module_state *state, br_tensor *result)
{
    br_tensor *bias = br__lora_tensor(state, "bias");
    int inner = br__lora_layer_of(state)->kind->weight_ndim - 2; /* dimensions behind channels */
    if (!bias)
        return result;
    return br_sub(result, inner == 0 ? bias : br_reshape(bias, 1 + inner, (int64_t[]){ -1, 1, 1 }));
}

static br_tensor *run_part(const br_module_state *state, const br_lora_part *part, br_tensor *x,
                           br_tensor *result)
{
    const br_lora_kind *kind = br__lora_layer_of(state)->kind;
    x = br_to(x, part->a->dtype);
    bool drops = part->dropout && br_is_training(br_base(part->dropout));
    if (part->dropout)
        x = br_dropout_forward(part->dropout, x);
    br_tensor *y = br_forward(part->module_b, br_forward(part->module_a, x));
    y = br_mul_scalar(y, part->scaling);
    if (!part->magnitude || br_failed())
        return br_add(result, y);
    int ndim = kind->weight_ndim - 1; /* of a result without a batch */
    br_tensor *s = factor(part, br__lora_norms(state, part), ndim,
                          kind->family == BR_LORA_CONV ? 0 : ndim - 1);
    br_tensor *plain = drops ? without_bias(state, x) : remove_bias(state, result);
    return br_add(result, br_add(br_mul(br_sub_scalar(s, 1), plain), br_mul(s, y)));
}

static br_tensor *run_embedding(const br_module_state *state, const br_lora_part *part,
                                br_tensor *ids, br_tensor *result)
{
    const br_embedding *layer = (const br_embedding *)state->module;
    br_tensor *rows = br_f_embedding(br_t(part->a), ids, layer->padding_idx);
    if (layer->scale_grad_by_freq)
        rows = br_scale_grad_by_freq(rows, ids);
    br_tensor *y = br_mul_scalar(br_f_linear(rows, part->b, NULL), part->scaling);
    if (!part->magnitude || br_failed())
        return br_add(result, y);
    br_tensor *s = factor(part, br__lora_norms(state, part), 1, 0);
    return br_add(br_mul(s, result), br_mul(s, y));
}

br_tensor *br__lora_run(br_adapter *self, br_module *layer, br_tensor *input, br_tensor *result)
{
    const br_lora_layer *lora = (const br_lora_layer *)self;
    const br_lora_part *part = active_part(lora);
    if (!part)
        return result;
    if (!input)
        return br_fail(BR_ERROR_STATE, "lora",
                       "%s was entered without its input: adapters need br_enter_with()",
                       br_module_class(layer));
    const br_dtype dtype = result->dtype;
    bool is_embedding = lora->kind->family == BR_LORA_EMBEDDING;
    br_tensor *y = (is_embedding ? run_embedding : run_part)(layer->state, part, input, result);
    return br_to(y, dtype);
}

/* ---- Merging --------------------------------------------------------------------------------- */

br_tensor *br__lora_merged_weight(const br_module_state *state, const br_lora_part *part,
                                  br_tensor **norm)
{
    const br_lora_kind *kind = br__lora_layer_of(state)->kind;
    br_tensor *weight = br__lora_tensor(state, "weight"), *delta = product(state, part);
    br_tensor *sum = br_add(weight, delta);
    if (part->magnitude && !br_failed()) {
        *norm = norms_of(kind, weight, delta);
        sum = br_mul(factor(part, *norm, kind->weight_ndim, kind->out_dim), sum);
    }
    return br_to(sum, weight->dtype);
}

br_tensor *br__lora_unmerged_weight(const br_module_state *state, const br_lora_part *part)
{
    const br_lora_kind *kind = br__lora_layer_of(state)->kind;
    br_tensor *weight = br__lora_tensor(state, "weight"), *delta = product(state, part);
    if (!part->magnitude)
        return br_sub(weight, br_to(delta, weight->dtype));
    br_tensor *s = factor(part, part->norm, kind->weight_ndim, kind->out_dim);
    return br_to(br_sub(br_div(weight, s), delta), weight->dtype);
}
