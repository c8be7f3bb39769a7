/* brasa/ops/conv.h - convolutions and pooling; part of brasa/ops.h. f32 and f64. Implemented in
 * ops/conv/. */
#ifndef BRASA_OPS_CONV_H
#define BRASA_OPS_CONV_H

#include <brasa/autograd.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Pairs are for height and width; in one dimension only the first number is used. PyTorch's
 * padding=1 is { 1, 1 }: C makes { 1 } and { 1, 0 } equal, so { 1 } pads the height only. */
typedef struct br_conv_options {
    size_t struct_size;
    br_pair stride, padding, dilation;
    int64_t groups;
    bool same;              /* pad so that the output has the size of the input; stride must be 1.
                               Not for transposed convolutions */
    br_pair output_padding; /* transposed convolutions only: added to the output's size, at the
                               end */
} br_conv_options;
#define br_conv_default_fields \
    .struct_size = sizeof(br_conv_options), .stride = { 1, 1 }, .dilation = { 1, 1 }, .groups = 1
BR_API br_conv_options br_conv_defaults(void);

/* Returns y[n][o] = bias[o] + the sum over input channels c of the cross-correlation of x[n][c]
 * with weight[o][c]. x is [N, C, L] or [C, L] with weight [O, C / groups, K], or [N, C, H, W] or
 * [C, H, W] with weight [O, C / groups, Kh, Kw]. bias is [O] or NULL. `options` may be NULL. */
BR_API br_tensor *br_f_conv1d(br_tensor *x, br_tensor *weight, br_tensor *bias,
                              const br_conv_options *options);
BR_API br_tensor *br_f_conv2d(br_tensor *x, br_tensor *weight, br_tensor *bias,
                              const br_conv_options *options);
/* Transposed convolution. Returns the gradient of a convolution with weight [C, O / groups, ...]
 * with respect to its input, for an output gradient x, plus bias, which is [O] or NULL. */
BR_API br_tensor *br_f_conv_transpose1d(br_tensor *x, br_tensor *weight, br_tensor *bias,
                                        const br_conv_options *options);
BR_API br_tensor *br_f_conv_transpose2d(br_tensor *x, br_tensor *weight, br_tensor *bias,
                                        const br_conv_options *options);

/* Pairs are for height and width; in one dimension only the first number is used. PyTorch's
 * padding=1 is { 1, 1 }: C makes { 1 } and { 1, 0 } equal, so { 1 } pads the height only. */
typedef struct br_pool_options {
    size_t struct_size;
    br_pair kernel_size; /* required */
    br_pair stride;      /* 0: kernel_size */
    br_pair padding;     /* at most half the kernel; filled with -INFINITY in max pooling, else 0 */
    br_pair dilation;    /* max pooling only */
    bool ceil_mode;      /* the last window may reach beyond the padding */
    bool count_include_pad;   /* the average also counts elements of the padding */
    int64_t divisor_override; /* the average divides by this; 0: by its number of elements */
} br_pool_options;
#define br_pool_default_fields \
    .struct_size = sizeof(br_pool_options), .dilation = { 1, 1 }, .count_include_pad = true
BR_API br_pool_options br_pool_defaults(void);

/* Return the largest element of each window, or NaN if the window contains NaN. Unless `indices` is
 * NULL, *indices receives the position (i64) of that element in its channel's plane, in row-major
 * order. x is [N, C, L] or [C, L], or [N, C, H, W] or [C, H, W]. */
BR_API br_tensor *br_f_max_pool1d(br_tensor *x, const br_pool_options *options,
                                  br_tensor **indices);
BR_API br_tensor *br_f_max_pool2d(br_tensor *x, const br_pool_options *options,
                                  br_tensor **indices);
/* Return the mean of each window. */
BR_API br_tensor *br_f_avg_pool1d(br_tensor *x, const br_pool_options *options);
BR_API br_tensor *br_f_avg_pool2d(br_tensor *x, const br_pool_options *options);
/* Return the means of the given number of windows, which cover x evenly and may overlap by one
 * element. */
BR_API br_tensor *br_f_adaptive_avg_pool1d(br_tensor *x, int64_t output_size);
BR_API br_tensor *br_f_adaptive_avg_pool2d(br_tensor *x, int64_t height, int64_t width);

#ifdef __cplusplus
}
#endif

#endif
