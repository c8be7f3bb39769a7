/* brasa/nn/convolutions.h - convolutions and pooling; part of brasa/nn.h. */
#ifndef BRASA_NN_CONVOLUTIONS_H
#define BRASA_NN_CONVOLUTIONS_H

#include <brasa/nn/module.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef br_tensor *(*br_conv_fn)(br_tensor *x, br_tensor *weight, br_tensor *bias,
                                 const br_conv_options *options);
typedef struct br_conv {
    br_module base;
    br_tensor *weight; /* [out_channels, in_channels / groups, kernel ...]; if transposed,
                          [in_channels, out_channels / groups, kernel ...] */
    br_tensor *bias;   /* [out_channels] or NULL */
    int64_t in_channels, out_channels;
    br_conv_options options;
    br_conv_fn function;
} br_conv;
/* Create nn.Conv1d and so on. Weights and bias are uniform on +-1/sqrt(fan_in), from the same
 * random numbers as in PyTorch. `options` may be NULL. */
BR_API br_conv *br_conv1d_new(int64_t in_channels, int64_t out_channels, int64_t kernel_size,
                              bool bias, const br_conv_options *options);
BR_API br_conv *br_conv2d_new(int64_t in_channels, int64_t out_channels, int64_t kernel_height,
                              int64_t kernel_width, bool bias, const br_conv_options *options);
BR_API br_conv *br_conv_transpose1d_new(int64_t in_channels, int64_t out_channels,
                                        int64_t kernel_size, bool bias,
                                        const br_conv_options *options);
BR_API br_conv *br_conv_transpose2d_new(int64_t in_channels, int64_t out_channels,
                                        int64_t kernel_height, int64_t kernel_width, bool bias,
                                        const br_conv_options *options);
BR_API br_tensor *br_conv_forward(br_conv *self, br_tensor *x);

typedef br_tensor *(*br_pool_fn)(br_tensor *x, const br_pool_options *options);
typedef struct br_pool {
    br_module base;
    br_pool_options options;
    br_pool_fn function;
} br_pool;
BR_API br_pool *br_max_pool1d_new(const br_pool_options *options);
BR_API br_pool *br_max_pool2d_new(const br_pool_options *options);
BR_API br_pool *br_avg_pool1d_new(const br_pool_options *options);
BR_API br_pool *br_avg_pool2d_new(const br_pool_options *options);
BR_API br_pool *br_adaptive_avg_pool1d_new(int64_t output_size);
BR_API br_pool *br_adaptive_avg_pool2d_new(int64_t height, int64_t width);
BR_API br_tensor *br_pool_forward(br_pool *self, br_tensor *x);

#ifdef __cplusplus
}
#endif

#endif
