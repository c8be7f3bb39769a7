/* brasa/nn.h - modules that mirror torch.nn, nn.init and nn.utils.
 *
 * A module is a struct whose first member is a br_module and whose other fields are named as in the
 * PyTorch class, so that state_dict keys are the same as in PyTorch:
 *
 *     typedef struct { br_module base; br_linear *q, *k; } head;
 *
 *     head *self = br_module_new(head);
 *     self->q = br_child(self, "q", br_linear_new(8, 4, true));
 *
 * Constructors never return NULL. If allocation fails, an error is pending, and the returned module
 * can be used and freed like any other, but its forward returns NULL. A module owns its parameters,
 * buffers and children; br_module_free() frees the whole tree. */
#ifndef BRASA_NN_H
#define BRASA_NN_H

#include <brasa/nn/cache.h>
#include <brasa/nn/convolutions.h>
#include <brasa/nn/init.h>
#include <brasa/nn/layers.h>
#include <brasa/nn/lora.h>
#include <brasa/nn/losses.h>
#include <brasa/nn/module.h>
#include <brasa/nn/named_list.h>
#include <brasa/nn/norms.h>
#include <brasa/nn/parametrize.h>
#include <brasa/nn/per_sample.h>
#include <brasa/nn/recurrent.h>
#include <brasa/nn/rope.h>
#include <brasa/nn/transformer.h>

#endif
