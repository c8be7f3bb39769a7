/* brasa/nn/layers.h - linear layers, embeddings, dropout, activations, containers, positions; part
 * of brasa/nn.h. */
#ifndef BRASA_NN_LAYERS_H
#define BRASA_NN_LAYERS_H

#include <brasa/nn/module.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Layers (nn/layers.c) -------------------------------------------------------------------- */

typedef struct br_linear {
    br_module base;
    br_tensor *weight; /* [out_features, in_features] */
    br_tensor *bias;   /* [out_features] or NULL */
    int64_t in_features, out_features;
} br_linear;
/* Creates nn.Linear. Weights and bias are uniform on +-1/sqrt(in_features), from the same random
 * numbers as in PyTorch. */
BR_API br_linear *br_linear_new(int64_t in_features, int64_t out_features, bool bias);
BR_API br_tensor *br_linear_forward(br_linear *self, br_tensor *x);

typedef struct br_embedding {
    br_module base;
    br_tensor *weight; /* [num_embeddings, embedding_dim] */
    int64_t num_embeddings, embedding_dim;
    int64_t padding_idx; /* -1: none */
    /* 0: none. Otherwise forward first scales the rows that it looks up down to at most this norm,
     * without recording, as PyTorch does. */
    double max_norm;
    double norm_type; /* 2 by default */
} br_embedding;
/* Creates nn.Embedding. Weights are from N(0, 1); row padding_idx (-1: none) is zero and gets no
 * gradient. */
BR_API br_embedding *br_embedding_new(int64_t num_embeddings, int64_t embedding_dim,
                                      int64_t padding_idx);
BR_API br_tensor *br_embedding_forward(br_embedding *self, br_tensor *index);

typedef struct br_dropout {
    br_module base;
    double p;
} br_dropout;
BR_API br_dropout *br_dropout_new(double p);
BR_API br_tensor *br_dropout_forward(br_dropout *self, br_tensor *x);

/* ---- Activations (nn/activations.c) ---------------------------------------------------------- */

/* Modules without parameters, such as nn.ReLU, that apply a function to x and to fixed arguments.
 * Set inplace if x is not needed after the forward: ReLU, Tanh, Sigmoid, SiLU and GELU then
 * overwrite x if br_may_overwrite(x) is true in the calling scope, and otherwise create a new
 * tensor. */
typedef br_tensor *(*br_activation_fn)(br_tensor *x, const double *args);
typedef struct br_activation {
    br_module base;
    br_activation_fn function,
        inplace_function; /* `inplace_function` changes x in place, or is NULL */
    double args[2];
    bool inplace;
} br_activation;
BR_API br_activation *br_relu_new(void);
BR_API br_activation *br_tanh_new(void);
BR_API br_activation *br_sigmoid_new(void);
BR_API br_activation *br_silu_new(void);
BR_API br_activation *br_gelu_new(br_gelu_approximate approximate);
BR_API br_activation *br_leaky_relu_new(double negative_slope);
BR_API br_activation *br_elu_new(double alpha);
BR_API br_activation *br_softplus_new(double beta, double threshold);
BR_API br_activation *br_softmax_new(int64_t dim);
BR_API br_activation *br_log_softmax_new(int64_t dim);
BR_API br_activation *br_identity_new(void);
/* PyTorch's defaults are start_dim 1 and end_dim -1. */
BR_API br_activation *br_flatten_new(int64_t start_dim, int64_t end_dim);
BR_API br_tensor *br_activation_forward(br_activation *self, br_tensor *x);

/* Returns the activation function with a name of transformers' ACT2FN, such as "gelu_new", or NULL
 * without an error if there is none. It overwrites x if br_may_overwrite(x) is true. */
typedef br_tensor *(*br_unary_fn)(br_tensor *x);
BR_API br_unary_fn br_find_activation(const char *name);
/* Returns true if there is such a function. Otherwise returns false and sets an error, "op: key is
 * NAME, must be one of ...". */
BR_API bool br_require_activation(const char *op, const char *key, const char *name);

/* ---- Containers (nn/containers.c) ------------------------------------------------------------ */

/* Runs modules one after another. They are named "0", "1", ... */
typedef struct br_sequential {
    br_module base;
} br_sequential;
/* Creates a Sequential of n modules and takes ownership of them. Each module must have a forward
 * function (br_module_set_forward()). */
BR_API br_sequential *br_sequential_new(int n, void *const *modules);
#define BR_MODULES(...) BR__LIST(void *, __VA_ARGS__)
BR_API br_tensor *br_sequential_forward(br_sequential *self, br_tensor *x);

/* A list of modules, named "0", "1", ... */
typedef struct br_module_list {
    br_module base;
} br_module_list;
BR_API br_module_list *br_module_list_new(void);
/* Appends the module and returns it. */
BR_API void *br_module_list_append(br_module_list *self, void *module);
BR_API int64_t br_module_list_size(const br_module_list *self);
/* Returns module i; a negative i counts from the end. Returns NULL and sets an error if i is out of
 * range. */
BR_API void *br_module_list_at(const br_module_list *self, int64_t i);

/* ---- Positions (nn/positions.c) -------------------------------------------------------------- */

typedef struct br_sinusoidal_positional_encoding {
    br_module base;
    br_tensor *pe; /* [1, max_len, d_model]: sin and cos of position / 10000^(2 i / d_model) in
                      columns 2 i and 2 i + 1 */
    br_dropout *dropout;
    int64_t d_model, max_len;
} br_sinusoidal_positional_encoding;
/* Creates the positional encoding of Vaswani et al., 2017. */
BR_API br_sinusoidal_positional_encoding *br_sinusoidal_positional_encoding_new(int64_t d_model,
                                                                                int64_t max_len,
                                                                                double dropout);
/* Returns dropout(x + pe) for x [N, L, d_model]. */
BR_API br_tensor *br_sinusoidal_positional_encoding_forward(br_sinusoidal_positional_encoding *self,
                                                            br_tensor *x);

typedef struct br_rotary_embedding {
    br_module base;
    br_tensor *cos, *sin; /* [max_len, dim / 2]: cosine and sine of position / base^(2 i / dim); not
                             in state dicts */
    bool interleaved;
    int64_t dim, max_len;
    double theta; /* the `base` of the angles */
} br_rotary_embedding;
/* Creates a rotary embedding for vectors of `dim` numbers, paired as in br_f_rotary_embedding().
 * `base` is positive, usually 10000. */
BR_API br_rotary_embedding *br_rotary_embedding_new(int64_t dim, int64_t max_len, double base,
                                                    bool interleaved);
/* Rotates x [..., L, dim], whose first token is at position `offset`. */
BR_API br_tensor *br_rotary_embedding_forward(br_rotary_embedding *self, br_tensor *x,
                                              int64_t offset);

#ifdef __cplusplus
}
#endif

#endif
