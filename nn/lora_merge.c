/* nn/lora_merge.c - adds the products of an adapter to the weights of its layers. */
#include "nn/lora_internal.h"

/* The weights of all layers are computed first and then exchanged, so that all are or none. */
typedef struct merging {
    const char *op;
    bool merge; /* or unmerge */
    const br_lora_adapter *adapter;
    const br_named_list *names; /* of the model's tensors */
    int64_t n, capacity;
    struct merged_layer {
        br_module_state *layer;
        br_lora_part *part;
        br_tensor *weight, *norm; /* of the scope */
    } * layers;
} merging;

/* Fails if the weight is also that of another module. */
static bool check_tie(const merging *m, const br_tensor *weight)
{
    const char *first = NULL;
    for (int64_t i = 0; i < m->names->count; i++) {
        if (m->names->items[i].tensor != weight)
            continue;
        if (first) {
            br_fail(BR_ERROR_STATE, m->op,
                    "%s is tied to %s, which would change with it: use the adapter unmerged", first,
                    m->names->items[i].name);
            return false;
        }
        first = m->names->items[i].name;
    }
    return true;
}

static bool check_groups(const merging *m, const br_module_state *layer)
{
    char path[256];
    bool is_conv = br__lora_layer_of(layer)->kind->family == BR_LORA_CONV;
    if (is_conv && ((const br_conv *)layer->module)->options.groups > 1)
        br_fail(BR_ERROR_STATE, m->op, "%s has groups: use the adapter unmerged",
                br_module_path(layer->module, path, sizeof path));
    return !br_failed();
}

static bool check_quantized(const merging *m, const br_module_state *layer)
{
    const br_tensor *weight = br__lora_tensor(layer, "weight");
    char path[256];
    if (weight && br__is_quantized(weight))
        br_fail(
            BR_ERROR_STATE, m->op,
            "%s has a quantized weight (%s), which cannot be changed: load the model with dtype "
            "f32 and the adapter, and merge then",
            br_module_path(layer->module, path, sizeof path), br__block_info(weight)->name);
    return !br_failed();
}

static bool compute_merged(br_module_state *layer, void *context)
{
    merging *m = context;
    br_lora_part *part = br__lora_part(br__lora_layer_of(layer), m->adapter->options.adapter_name);
    if (!part)
        return true;
    if (!check_quantized(m, layer) || !check_groups(m, layer) ||
        !check_tie(m, br__lora_tensor(layer, "weight")))
        return false;
    void *layers = br__grow(m->layers, &m->capacity, m->n, sizeof *m->layers);
    if (!layers)
        return false;
    m->layers = layers;
    struct merged_layer one = { .layer = layer, .part = part };
    br_scope *scope = br_scope_begin();
    one.weight = m->merge ? br__lora_merged_weight(layer, part, &one.norm)
                          : br__lora_unmerged_weight(layer, part);
    one.weight = br_contiguous(one.weight);
    br_scope_return(scope, one.weight);
    br_scope_return(scope, one.norm);
    br_scope_end(scope);
    m->layers[m->n++] = one;
    return !br_failed();
}

static void apply_merged(const merging *m)
{
    for (int64_t i = 0; i < m->n; i++) {
        struct merged_layer *one = &m->layers[i];
        br__swap_data(m->op, br__lora_tensor(one->layer, "weight"), one->weight);
        br_release(one->part->norm);
        one->part->norm = m->merge ? br_retain(one->norm) : NULL;
        one->part->merged = m->merge;
    }
}

bool br__lora_change_weights(br_module *model, br_lora_set *set, bool merge)
{
    merging m = { .op = merge ? "lora_merge" : "lora_unmerge",
                  .merge = merge,
                  .adapter = set->active };
    br_named_list *names = br__collect(m.op, model, BR_COLLECT_ALIASES);
    m.names = names;
    br_scope *scope = br_no_grad_begin();
    bool ok = names && br__lora_each_layer(model->state, compute_merged, &m) && !br_failed();
    if (ok) {
        apply_merged(&m);
        set->merged = merge;
    }
    br_scope_end(scope);
    br_named_list_free(names);
    br_free(m.layers);
    return ok;
}
