/* nn/per_sample.h - the gradients of samples in one call of a layer, for nn/per_sample*.c. */
#ifndef BR_PER_SAMPLE_H
#define BR_PER_SAMPLE_H

#include "nn/nn_internal.h"

typedef struct br_sample_rule br_sample_rule;

/* One call of a layer: x [batch, ...] is its input, dy [batch, ...] the gradient of its result. */
typedef struct br_sample_call {
    const br_module_state *layer;
    const br_sample_rule *rule;
    br_tensor *x, *dy;
} br_sample_call;

struct br_sample_rule {
    const char *class_name;
    size_t size;  /* of the layer's struct; 0: any */
    int min_dims; /* of x: with fewer dimensions it has no batch */
    /* The parameters are those of channels, dimension 1 of the result; else of its last ones. */
    bool channels;
    /* Returns the gradients of the weight, [batch, ...]. */
    br_tensor *(*weight)(const br_sample_call *call);
};

/* Returns the rule of a layer, or NULL if it has none. */
const br_sample_rule *br__sample_rule(const br_module_state *layer);
/* Returns the gradients [batch, ...] of the layer's parameter of that name, "weight" or "bias". */
br_tensor *br__sample_grad(const br_sample_call *call, const br_entry *parameter);

#endif
