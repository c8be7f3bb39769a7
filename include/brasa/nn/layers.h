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
    double norm_type;        /* 2 by default */
    bool scale_grad_by_freq; /* as br_scale_grad_by_freq() does; false by default */
} br_embedding;
/* Creates nn.Embedding. Weights are from N(0, 1); row padding_idx (-1: none) is zero and gets no
 * gradient. */
BR_API br_embedding *br_embedding_new(int64_t num_embeddings, int64_t embedding_dim,
                                      int64_t padding_idx);
BR_API br_tensor *br_embedding_forward(br_embedding *self, br_tensor *index);

typedef struct br_embedding_bag {
    br_module base;
    br_tensor *weight; /* [num_embeddings, embedding_dim] */
    int64_t num_embeddings, embedding_dim;
    br_embedding_bag_options options;
} br_embedding_bag;
/* Creates nn.EmbeddingBag, with the weights of nn.Embedding. `options` may be NULL. Its
 * per_sample_weights must be NULL: they are an argument of the forward. */
BR_API br_embedding_bag *br_embedding_bag_new(int64_t num_embeddings, int64_t embedding_dim,
                                              const br_embedding_bag_options *options);
/* Returns br_f_embedding_bag() of the index. `offsets` and `per_sample_weights` may be NULL. */
BR_API br_tensor *br_embedding_bag_forward(br_embedding_bag *self, br_tensor *index,
                                           br_tensor *offsets, br_tensor *per_sample_weights);

typedef struct br_bilinear {
    br_module base;
    br_tensor *weight; /* [out_features, in1_features, in2_features] */
    br_tensor *bias;   /* [out_features] or NULL */
    int64_t in1_features, in2_features, out_features;
} br_bilinear;
/* Creates nn.Bilinear. Weights and bias are uniform on +-1/sqrt(in1_features), from the same random
 * numbers as in PyTorch. */
BR_API br_bilinear *br_bilinear_new(int64_t in1_features, int64_t in2_features,
                                    int64_t out_features, bool bias);
/* Returns [*, out_features] for x1 [*, in1_features] and x2 [*, in2_features]. */
BR_API br_tensor *br_bilinear_forward(br_bilinear *self, br_tensor *x1, br_tensor *x2);

typedef struct br_distance {
    br_module base;
    int64_t dim; /* of CosineSimilarity */
    double p;    /* of PairwiseDistance */
    double eps;
    bool keepdim;
    bool cosine; /* private: which of the two */
} br_distance;
/* Create nn.CosineSimilarity (PyTorch's defaults are 1 and 1e-8) and nn.PairwiseDistance (2, 1e-6
 * and false). */
BR_API br_distance *br_cosine_similarity_new(int64_t dim, double eps);
BR_API br_distance *br_pairwise_distance_new(double p, double eps, bool keepdim);
BR_API br_tensor *br_distance_forward(br_distance *self, br_tensor *x1, br_tensor *x2);

/* ---- Dropout (nn/dropout.c) ------------------------------------------------------------------ */

typedef br_tensor *(*br_dropout_fn)(br_tensor *x, double p, bool training);
typedef struct br_dropout {
    br_module base;
    double p;
    br_dropout_fn function;
} br_dropout;
/* Create nn.Dropout, of whole channels nn.Dropout1d to nn.Dropout3d, and nn.AlphaDropout and
 * nn.FeatureAlphaDropout. They drop with probability p while the module is in training mode, as
 * br_f_dropout() and so on. PyTorch's default is 0.5. */
BR_API br_dropout *br_dropout_new(double p);
BR_API br_dropout *br_dropout1d_new(double p);
BR_API br_dropout *br_dropout2d_new(double p);
BR_API br_dropout *br_dropout3d_new(double p);
BR_API br_dropout *br_alpha_dropout_new(double p);
BR_API br_dropout *br_feature_alpha_dropout_new(double p);
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
BR_API br_activation *br_softmin_new(int64_t dim);
BR_API br_activation *br_identity_new(void);
BR_API br_activation *br_relu6_new(void);
BR_API br_activation *br_hardsigmoid_new(void);
BR_API br_activation *br_hardswish_new(void);
BR_API br_activation *br_selu_new(void);
BR_API br_activation *br_mish_new(void);
BR_API br_activation *br_softsign_new(void);
BR_API br_activation *br_tanhshrink_new(void);
BR_API br_activation *br_logsigmoid_new(void);
/* PyTorch's defaults are alpha 1, lambda 0.5, min -1, max 1 and dim -1. */
BR_API br_activation *br_celu_new(double alpha);
BR_API br_activation *br_hardshrink_new(double lambda);
BR_API br_activation *br_softshrink_new(double lambda);
BR_API br_activation *br_hardtanh_new(double min, double max);
BR_API br_activation *br_threshold_new(double threshold, double value);
BR_API br_activation *br_glu_new(int64_t dim);
/* PyTorch's defaults are start_dim 1 and end_dim -1. */
BR_API br_activation *br_flatten_new(int64_t start_dim, int64_t end_dim);
BR_API br_activation *br_pixel_shuffle_new(int64_t upscale_factor);
BR_API br_activation *br_pixel_unshuffle_new(int64_t downscale_factor);
BR_API br_tensor *br_activation_forward(br_activation *self, br_tensor *x);

typedef struct br_rrelu {
    br_module base;
    double lower, upper;
} br_rrelu;
/* Creates nn.RReLU, whose slopes are random in training mode, as those of br_f_rrelu(). PyTorch's
 * defaults are 1.0 / 8 and 1.0 / 3. */
BR_API br_rrelu *br_rrelu_new(double lower, double upper);
BR_API br_tensor *br_rrelu_forward(br_rrelu *self, br_tensor *x);

typedef struct br_unflattening {
    br_module base;
    int64_t dim;
    int ndim;
    int64_t sizes[BR_MAX_DIMS];
} br_unflattening;
/* Creates nn.Unflatten, which calls br_unflatten(): br_unflatten_new(1, BR_SHAPE(2, -1)). */
BR_API br_unflattening *br_unflatten_new(int64_t dim, int ndim, const int64_t *sizes);
BR_API br_tensor *br_unflattening_forward(br_unflattening *self, br_tensor *x);

typedef struct br_prelu {
    br_module base;
    br_tensor *weight; /* [num_parameters] */
    int64_t num_parameters;
} br_prelu;
/* Creates nn.PReLU, with one weight or one for each channel (PyTorch's defaults are 1 and an
 * initial value of 0.25). */
BR_API br_prelu *br_prelu_new(int64_t num_parameters, double init);
BR_API br_tensor *br_prelu_forward(br_prelu *self, br_tensor *x);

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

/* Modules under names of your own. */
typedef struct br_module_dict {
    br_module base;
} br_module_dict;
BR_API br_module_dict *br_module_dict_new(void);
/* Adds the module, of which the dict takes ownership, under a new key, and returns it. */
BR_API void *br_module_dict_add(br_module_dict *self, const char *key, void *module);
/* Returns the module of that key. Returns NULL and sets an error if there is none. The functions of
 * children in module.h count and list the modules. */
BR_API void *br_module_dict_at(const br_module_dict *self, const char *key);

/* A list of parameters, named "0", "1", ... */
typedef struct br_parameter_list {
    br_module base;
} br_parameter_list;
BR_API br_parameter_list *br_parameter_list_new(void);
/* Registers t as the next parameter and returns it, as br_parameter() does. */
BR_API br_tensor *br_parameter_list_append(br_parameter_list *self, br_tensor *t);
BR_API int64_t br_parameter_list_size(const br_parameter_list *self);
/* Returns parameter i; a negative i counts from the end. Returns NULL and sets an error if i is out
 * of range. */
BR_API br_tensor *br_parameter_list_at(br_parameter_list *self, int64_t i);

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
