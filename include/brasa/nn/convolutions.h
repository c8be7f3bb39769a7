/* brasa/nn/convolutions.h - convolutions, pooling, padding and resizing; part of brasa/nn.h. */
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
BR_API br_pool *br_adaptive_max_pool1d_new(int64_t output_size);
BR_API br_pool *br_adaptive_max_pool2d_new(int64_t height, int64_t width);
BR_API br_tensor *br_pool_forward(br_pool *self, br_tensor *x);

/* ---- Three dimensions (nn/volumes.c) --------------------------------------------------------- */

typedef br_tensor *(*br_conv3d_fn)(br_tensor *x, br_tensor *weight, br_tensor *bias,
                                   const br_conv3d_options *options);
typedef struct br_conv3d {
    br_module base;
    br_tensor *weight, *bias; /* as in br_conv */
    int64_t in_channels, out_channels;
    br_conv3d_options options;
    br_conv3d_fn function;
} br_conv3d;
/* Create nn.Conv3d and nn.ConvTranspose3d, with initial values as above. `options` may be NULL. */
BR_API br_conv3d *br_conv3d_new(int64_t in_channels, int64_t out_channels, br_triple kernel_size,
                                bool bias, const br_conv3d_options *options);
BR_API br_conv3d *br_conv_transpose3d_new(int64_t in_channels, int64_t out_channels,
                                          br_triple kernel_size, bool bias,
                                          const br_conv3d_options *options);
BR_API br_tensor *br_conv3d_forward(br_conv3d *self, br_tensor *x);

typedef br_tensor *(*br_pool3d_fn)(br_tensor *x, const br_pool3d_options *options);
typedef struct br_pool3d {
    br_module base;
    br_pool3d_options options;
    br_pool3d_fn function;
} br_pool3d;
BR_API br_pool3d *br_max_pool3d_new(const br_pool3d_options *options);
BR_API br_pool3d *br_avg_pool3d_new(const br_pool3d_options *options);
BR_API br_pool3d *br_adaptive_avg_pool3d_new(int64_t depth, int64_t height, int64_t width);
BR_API br_pool3d *br_adaptive_max_pool3d_new(int64_t depth, int64_t height, int64_t width);
BR_API br_tensor *br_pool3d_forward(br_pool3d *self, br_tensor *x);

/* ---- Undoing max pooling (nn/unpool.c) ------------------------------------------------------- */

typedef struct br_unpool {
    br_module base;
    int ndim;
    int64_t kernel_size[3], stride[3], padding[3]; /* the first `ndim` numbers */
} br_unpool;
/* Create nn.MaxUnpool1d to nn.MaxUnpool3d for a pool with these options, of which kernel_size,
 * stride and padding are used. */
BR_API br_unpool *br_max_unpool1d_new(const br_pool_options *options);
BR_API br_unpool *br_max_unpool2d_new(const br_pool_options *options);
BR_API br_unpool *br_max_unpool3d_new(const br_pool3d_options *options);
/* Calls br_f_max_unpool() with the indices of the pool. `output_size` has a size for each pooled
 * dimension; NULL: (size - 1) * stride - 2 * padding + kernel_size. The sizes differ from these by
 * less than a stride: several inputs of a pool give outputs of one size. */
BR_API br_tensor *br_unpool_forward(br_unpool *self, br_tensor *x, br_tensor *indices,
                                    const int64_t *output_size);

/* ---- Padding, resizing and windows (nn/images.c) --------------------------------------------- */

typedef struct br_padding {
    br_module base;
    int n;
    int64_t pad[6];
    br_pad_mode mode;
    double value;
} br_padding;
/* Create nn.ConstantPad1d, nn.ZeroPad1d, nn.ReflectionPad1d, nn.ReplicationPad1d and
 * nn.CircularPad1d, or, with four or six numbers, those of two or three dimensions. The order of
 * the numbers is PyTorch's, as in br_pad(): br_zero_pad_new(BR_DIMS(left, right, top, bottom)). */
BR_API br_padding *br_constant_pad_new(int n, const int64_t *pad, double value);
BR_API br_padding *br_zero_pad_new(int n, const int64_t *pad);
BR_API br_padding *br_reflection_pad_new(int n, const int64_t *pad);
BR_API br_padding *br_replication_pad_new(int n, const int64_t *pad);
BR_API br_padding *br_circular_pad_new(int n, const int64_t *pad);
BR_API br_tensor *br_padding_forward(br_padding *self, br_tensor *x);

typedef struct br_upsample {
    br_module base;
    br_interpolate_options options;
} br_upsample;
/* Creates nn.Upsample, which calls br_interpolate(). */
BR_API br_upsample *br_upsample_new(const br_interpolate_options *options);
BR_API br_tensor *br_upsample_forward(br_upsample *self, br_tensor *x);

typedef struct br_windows {
    br_module base;
    br_fold_options options;
    int64_t height, width; /* of Fold's output; 0 in Unfold */
} br_windows;
/* Create nn.Unfold and nn.Fold, which call br_f_unfold() and br_f_fold(). */
BR_API br_windows *br_unfold_new(const br_fold_options *options);
BR_API br_windows *br_fold_new(int64_t height, int64_t width, const br_fold_options *options);
BR_API br_tensor *br_windows_forward(br_windows *self, br_tensor *x);

#ifdef __cplusplus
}
#endif

#endif
