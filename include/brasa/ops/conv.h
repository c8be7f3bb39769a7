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
/* Return the largest elements of these windows, and the indices as br_f_max_pool2d() does. x is
 * floating-point. */
BR_API br_tensor *br_f_adaptive_max_pool1d(br_tensor *x, int64_t output_size, br_tensor **indices);
BR_API br_tensor *br_f_adaptive_max_pool2d(br_tensor *x, int64_t height, int64_t width,
                                           br_tensor **indices);

/* ---- Three dimensions (ops/conv/conv3d.c, pool3d.c) ------------------------------------------ */

/* As br_conv_options, with a number for depth, height and width each. */
typedef struct br_conv3d_options {
    size_t struct_size;
    br_triple stride, padding, dilation;
    int64_t groups;
    bool same;
    br_triple output_padding;
} br_conv3d_options;
#define br_conv3d_default_fields                                                              \
    .struct_size = sizeof(br_conv3d_options), .stride = { 1, 1, 1 }, .dilation = { 1, 1, 1 }, \
    .groups = 1
BR_API br_conv3d_options br_conv3d_defaults(void);
/* Return the convolution or the transposed convolution of x [N, C, D, H, W] or [C, D, H, W] with
 * weight [O, C / groups, Kd, Kh, Kw], or [C, O / groups, Kd, Kh, Kw]. The depth of the kernel is
 * computed as channels of a convolution in two dimensions. */
BR_API br_tensor *br_f_conv3d(br_tensor *x, br_tensor *weight, br_tensor *bias,
                              const br_conv3d_options *options);
BR_API br_tensor *br_f_conv_transpose3d(br_tensor *x, br_tensor *weight, br_tensor *bias,
                                        const br_conv3d_options *options);

/* As br_pool_options, with a number for depth, height and width each. */
typedef struct br_pool3d_options {
    size_t struct_size;
    br_triple kernel_size; /* required */
    br_triple stride;      /* 0: kernel_size */
    br_triple padding;
    br_triple dilation; /* max pooling only */
    bool ceil_mode;
    bool count_include_pad;
    int64_t divisor_override;
} br_pool3d_options;
#define br_pool3d_default_fields \
    .struct_size = sizeof(br_pool3d_options), .dilation = { 1, 1, 1 }, .count_include_pad = true
BR_API br_pool3d_options br_pool3d_defaults(void);
/* The pools of x [N, C, D, H, W] or [C, D, H, W]. */
BR_API br_tensor *br_f_max_pool3d(br_tensor *x, const br_pool3d_options *options,
                                  br_tensor **indices);
BR_API br_tensor *br_f_avg_pool3d(br_tensor *x, const br_pool3d_options *options);
BR_API br_tensor *br_f_adaptive_avg_pool3d(br_tensor *x, int64_t depth, int64_t height,
                                           int64_t width);
BR_API br_tensor *br_f_adaptive_max_pool3d(br_tensor *x, int64_t depth, int64_t height,
                                           int64_t width, br_tensor **indices);
/* Returns zeros of the given output sizes, the last `ndim` ones, with the elements of x at the
 * indices that br_f_max_pool1d(), br_f_max_pool2d() or br_f_max_pool3d() returned. ndim is 1, 2 or
 * 3. */
BR_API br_tensor *br_f_max_unpool(br_tensor *x, br_tensor *indices, int ndim,
                                  const int64_t *output_size);

/* ---- Windows as columns (ops/conv/fold.c) ---------------------------------------------------- */

typedef struct br_fold_options {
    size_t struct_size;
    br_pair kernel_size; /* required */
    br_pair dilation, padding, stride;
} br_fold_options;
#define br_fold_default_fields \
    .struct_size = sizeof(br_fold_options), .dilation = { 1, 1 }, .stride = { 1, 1 }
BR_API br_fold_options br_fold_defaults(void);
/* Returns the windows of x [N, C, H, W] or [C, H, W] as columns: [N, C Kh Kw, L], where L is the
 * number of windows (F.unfold; br_unfold() is Tensor.unfold). Any dtype. */
BR_API br_tensor *br_f_unfold(br_tensor *x, const br_fold_options *options);
/* The adjoint: adds the windows [N, C Kh Kw, L] up to a tensor [N, C, height, width]. */
BR_API br_tensor *br_f_fold(br_tensor *x, int64_t height, int64_t width,
                            const br_fold_options *options);

/* ---- Interpolation (ops/conv/interpolate.c, grid_sample.c) ----------------------------------- */

typedef enum br_interpolate_mode {
    BR_INTERPOLATE_NEAREST,
    BR_INTERPOLATE_NEAREST_EXACT,
    BR_INTERPOLATE_LINEAR, /* one dimension */
    BR_INTERPOLATE_BILINEAR,
    BR_INTERPOLATE_BICUBIC,
    BR_INTERPOLATE_TRILINEAR,
    BR_INTERPOLATE_AREA,
} br_interpolate_mode;
/* Arrays have an element for each dimension after the channels; unused ones are 0. Either size or
 * scale_factor is required. */
typedef struct br_interpolate_options {
    size_t struct_size;
    int64_t size[3];
    double scale_factor[3];
    br_interpolate_mode mode;
    bool align_corners, recompute_scale_factor;
    bool antialias; /* bilinear and bicubic */
} br_interpolate_options;
#define br_interpolate_default_fields .struct_size = sizeof(br_interpolate_options)
BR_API br_interpolate_options br_interpolate_defaults(void);
/* Resizes x [N, C, L], [N, C, H, W] or [N, C, D, H, W]. */
BR_API br_tensor *br_interpolate(br_tensor *x, const br_interpolate_options *options);

typedef enum br_grid_mode { BR_GRID_BILINEAR, BR_GRID_NEAREST, BR_GRID_BICUBIC } br_grid_mode;
typedef enum br_grid_padding {
    BR_GRID_ZEROS,
    BR_GRID_BORDER,
    BR_GRID_REFLECTION,
} br_grid_padding;
/* Returns x [N, C, H, W], or [N, C, D, H, W], at the positions of grid [N, .., 2], or [N, .., 3]:
 * x, y and z from -1 to 1. PyTorch's defaults are bilinear, zeros and false. */
BR_API br_tensor *br_grid_sample(br_tensor *x, br_tensor *grid, br_grid_mode mode,
                                 br_grid_padding padding_mode, bool align_corners);
/* Returns the grid of affine maps theta [N, 2, 3] or [N, 3, 4] for an output of the sizes [N, C, H,
 * W] or [N, C, D, H, W]. */
BR_API br_tensor *br_affine_grid(br_tensor *theta, int ndim, const int64_t *sizes,
                                 bool align_corners);

#ifdef __cplusplus
}
#endif

#endif
