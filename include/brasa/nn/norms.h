/* brasa/nn/norms.h - layer, RMS, batch, group and instance norm; part of brasa/nn.h. */
#ifndef BRASA_NN_NORMS_H
#define BRASA_NN_NORMS_H

#include <brasa/nn/module.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct br_layer_norm_options {
    size_t struct_size;
    double eps; /* at least 0 */
    bool elementwise_affine;
    bool bias; /* if false, `elementwise_affine` adds only a weight */
} br_layer_norm_options;
#define br_layer_norm_default_fields                                                       \
    .struct_size = sizeof(br_layer_norm_options), .eps = 1e-5, .elementwise_affine = true, \
    .bias = true
BR_API br_layer_norm_options br_layer_norm_defaults(void);

typedef struct br_layer_norm {
    br_module base;
    br_tensor *weight, *bias; /* shape normalized_shape, initially ones and zeros; or NULL */
    int ndim;
    int64_t normalized_shape[BR_MAX_DIMS];
    double eps;
} br_layer_norm;
/* Creates nn.LayerNorm over the last dimension. `options` may be NULL. */
BR_API br_layer_norm *br_layer_norm_new(int64_t normalized_size,
                                        const br_layer_norm_options *options);
/* Creates nn.LayerNorm over the last ndim dimensions. */
BR_API br_layer_norm *br_layer_norm_shape_new(int ndim, const int64_t *normalized_shape,
                                              const br_layer_norm_options *options);
BR_API br_tensor *br_layer_norm_forward(br_layer_norm *self, br_tensor *x);

typedef struct br_rms_norm_options {
    size_t struct_size;
    double eps; /* at least 0; BR_NONE_F64: the machine epsilon of x's dtype */
    bool elementwise_affine;
} br_rms_norm_options;
#define br_rms_norm_default_fields \
    .struct_size = sizeof(br_rms_norm_options), .eps = BR_NONE_F64, .elementwise_affine = true
BR_API br_rms_norm_options br_rms_norm_defaults(void);

typedef struct br_rms_norm {
    br_module base;
    br_tensor *weight; /* shape normalized_shape, initially ones; or NULL */
    int ndim;
    int64_t normalized_shape[BR_MAX_DIMS];
    double eps;
} br_rms_norm;
/* Creates nn.RMSNorm over the last dimension. `options` may be NULL. */
BR_API br_rms_norm *br_rms_norm_new(int64_t normalized_size, const br_rms_norm_options *options);
/* Creates nn.RMSNorm over the last ndim dimensions. */
BR_API br_rms_norm *br_rms_norm_shape_new(int ndim, const int64_t *normalized_shape,
                                          const br_rms_norm_options *options);
BR_API br_tensor *br_rms_norm_forward(br_rms_norm *self, br_tensor *x);

typedef struct br_batch_norm_options {
    size_t struct_size;
    double eps;
    double momentum; /* momentum of the running statistics */
    bool cumulative; /* running statistics are means over all batches (momentum=None) */
    bool affine;
    bool bias;                /* if false, `affine` adds only a weight */
    bool track_running_stats; /* if false, evaluation also uses the batch's statistics */
} br_batch_norm_options;
#define br_batch_norm_default_fields                                                            \
    .struct_size = sizeof(br_batch_norm_options), .eps = 1e-5, .momentum = 0.1, .affine = true, \
    .bias = true, .track_running_stats = true
BR_API br_batch_norm_options br_batch_norm_defaults(void);

typedef struct br_batch_norm {
    br_module base;
    br_tensor *weight, *bias;              /* [num_features], initially ones and zeros; or NULL */
    br_tensor *running_mean, *running_var; /* [num_features], initially zeros and ones; or NULL */
    br_tensor *num_batches_tracked;        /* i64 */
    int64_t num_features;
    int min_dims, max_dims; /* allowed numbers of dimensions of x */
    br_batch_norm_options options;
} br_batch_norm;
/* Create nn.BatchNorm1d, for x [N, C] or [N, C, L], nn.BatchNorm2d, for x [N, C, H, W], and
 * nn.BatchNorm3d, for x [N, C, D, H, W]. `options` may be NULL. */
BR_API br_batch_norm *br_batch_norm1d_new(int64_t num_features,
                                          const br_batch_norm_options *options);
BR_API br_batch_norm *br_batch_norm2d_new(int64_t num_features,
                                          const br_batch_norm_options *options);
BR_API br_batch_norm *br_batch_norm3d_new(int64_t num_features,
                                          const br_batch_norm_options *options);
BR_API br_tensor *br_batch_norm_forward(br_batch_norm *self, br_tensor *x);

typedef struct br_group_norm_options {
    size_t struct_size;
    double eps; /* at least 0 */
    bool affine;
} br_group_norm_options;
#define br_group_norm_default_fields \
    .struct_size = sizeof(br_group_norm_options), .eps = 1e-5, .affine = true
BR_API br_group_norm_options br_group_norm_defaults(void);

typedef struct br_group_norm {
    br_module base;
    br_tensor *weight, *bias; /* [num_channels], initially ones and zeros; or NULL */
    int64_t num_groups, num_channels;
    double eps;
} br_group_norm;
/* Creates nn.GroupNorm. `options` may be NULL. */
BR_API br_group_norm *br_group_norm_new(int64_t num_groups, int64_t num_channels,
                                        const br_group_norm_options *options);
BR_API br_tensor *br_group_norm_forward(br_group_norm *self, br_tensor *x);

typedef struct br_instance_norm_options {
    size_t struct_size;
    double eps;
    double momentum; /* momentum of the running statistics */
    bool affine;
    bool track_running_stats; /* if true, evaluation uses the running statistics */
} br_instance_norm_options;
#define br_instance_norm_default_fields \
    .struct_size = sizeof(br_instance_norm_options), .eps = 1e-5, .momentum = 0.1
BR_API br_instance_norm_options br_instance_norm_defaults(void);

typedef struct br_instance_norm {
    br_module base;
    br_tensor *weight, *bias;              /* [num_features], initially ones and zeros; or NULL */
    br_tensor *running_mean, *running_var; /* [num_features], initially zeros and ones; or NULL */
    br_tensor *num_batches_tracked;        /* i64; stays 0, as in PyTorch */
    int64_t num_features;
    int dims; /* the number of dimensions of x after the channels */
    br_instance_norm_options options;
} br_instance_norm;
/* Create nn.InstanceNorm1d, for x [N, C, L], nn.InstanceNorm2d, for x [N, C, H, W], and
 * nn.InstanceNorm3d, for x [N, C, D, H, W]. N may be absent. `options` may be NULL: no parameters
 * and no running statistics. */
BR_API br_instance_norm *br_instance_norm1d_new(int64_t num_features,
                                                const br_instance_norm_options *options);
BR_API br_instance_norm *br_instance_norm2d_new(int64_t num_features,
                                                const br_instance_norm_options *options);
BR_API br_instance_norm *br_instance_norm3d_new(int64_t num_features,
                                                const br_instance_norm_options *options);
BR_API br_tensor *br_instance_norm_forward(br_instance_norm *self, br_tensor *x);

typedef struct br_local_response_norm {
    br_module base;
    int64_t size;
    double alpha, beta, k;
} br_local_response_norm;
/* Creates nn.LocalResponseNorm, which calls br_f_local_response_norm(). PyTorch's defaults are
 * 1e-4, 0.75 and 1 for alpha, beta and k. */
BR_API br_local_response_norm *br_local_response_norm_new(int64_t size, double alpha, double beta,
                                                          double k);
BR_API br_tensor *br_local_response_norm_forward(br_local_response_norm *self, br_tensor *x);

#ifdef __cplusplus
}
#endif

#endif
