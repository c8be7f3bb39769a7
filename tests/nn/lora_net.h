/* tests/nn/lora_net.h - a small model with layers in a stack and a head, for the tests of adapters.
 */
#ifndef BR_TESTS_NN_LORA_NET_H
#define BR_TESTS_NN_LORA_NET_H

#include "tests/support.h"

#include <brasa/brasa.h>

typedef struct net {
    br_module base;
    br_embedding *embed;
    br_module_list *layers;
    br_linear *classifier;
} net;

typedef struct block {
    br_module base;
    br_linear *q_proj, *v_proj;
    br_layer_norm *norm;
} block;

static inline br_tensor *run_block(void *module, br_tensor *x)
{
    block *self = module;
    br_enter_with(self, x);
    br_tensor *y = br_tanh(br_linear_forward(self->q_proj, x));
    y = br_add(x, br_linear_forward(self->v_proj, y));
    return br_leave(self, br_layer_norm_forward(self->norm, y));
}

static inline block *block_new(void)
{
    block *self = br_module_new(block);
    self->q_proj = br_child(self, "q_proj", br_linear_new(4, 6, true));
    self->v_proj = br_child(self, "v_proj", br_linear_new(6, 4, false));
    self->norm = br_child(self, "norm", br_layer_norm_new(4, NULL));
    br_module_set_forward(br_base(self), run_block);
    return self;
}

static inline br_tensor *run_net(void *module, br_tensor *ids)
{
    net *self = module;
    br_enter_with(self, ids);
    br_tensor *x = br_embedding_forward(self->embed, ids);
    for (int64_t i = 0; i < br_module_list_size(self->layers); i++)
        x = br_forward(br_module_list_at(self->layers, i), x);
    return br_leave(self, br_linear_forward(self->classifier, x));
}

static inline net *net_new(void)
{
    net *self = br_module_new(net);
    self->embed = br_child(self, "embed", br_embedding_new(9, 4, -1));
    self->layers = br_child(self, "layers", br_module_list_new());
    br_module_list_append(self->layers, block_new());
    br_module_list_append(self->layers, block_new());
    self->classifier = br_child(self, "classifier", br_linear_new(4, 3, true));
    br_module_set_forward(br_base(self), run_net);
    return self;
}

static inline br_tensor *ids(void)
{
    return br_from_i64(BR_SHAPE(2, 2), (const int64_t[]){ 1, 4, 8, 2 });
}

#endif
