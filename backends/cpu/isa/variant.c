/* backends/cpu/isa/variant.c - all float kernels, for one instruction set and one floating type.
 *
 * CMake compiles this file once for each combination. BR_GEMM_TABLE and BR_KERNEL_TABLE are the
 * names of the tables to define. BR_KERNEL_F64 makes the type double. Most kernels are plain C that
 * the compiler vectorizes. */
#include "backends/cpu/kernels.h"

#ifdef BR_KERNEL_F64
typedef double real;
#else
typedef float real;
#endif

#if defined(__AVX512F__)
#    define VARIANT_NAME "avx512"
#    define GEMM_BY_BLIS false
#elif defined(__AVX2__)
#    define VARIANT_NAME "avx2"
#    define GEMM_BY_BLIS false
#else
#    define VARIANT_NAME "baseline"
#    define GEMM_BY_BLIS true
#endif

#include "backends/cpu/attention/attention_backward.h"
#include "backends/cpu/attention/attention_forward.h"
#include "backends/cpu/conv/depthwise.h"
#include "backends/cpu/gemm/gemm_block.h"
#include "backends/cpu/gemm/gemm_dots.h"
#include "backends/cpu/linalg/lanes.h"
#include "backends/cpu/loss/loss.h"
#include "backends/cpu/norm/layer_norm.h"
#include "backends/cpu/norm/norm_channels.h"
#include "backends/cpu/norm/softmax.h"
#include "backends/cpu/optim/optim.h"
#include "backends/cpu/pointwise/dropout.h"
#include "backends/cpu/pointwise/exp_log.h"
#ifndef BR_KERNEL_F64
#    include "backends/cpu/pointwise/halves.h"
#    include "backends/cpu/quantized/blocks.h"
#endif
#include "backends/cpu/pointwise/pointwise.h"
#include "backends/cpu/recurrent/recurrent.h"
#include "backends/cpu/reduce/reduce.h"

extern const br_gemm_kernels BR_GEMM_TABLE;

const br_gemm_kernels BR_GEMM_TABLE = {
    .gemm_rows = TILE_ROWS,
    .gemm_columns = TILE_COLUMNS,
    .gemm_depth = BR_GEMM_K,
    .gemm_depth_unit = 8,
    .packed_size = sizeof(real),
    .gemm_by_blis = GEMM_BY_BLIS,
    .dot_rows = DOT_ROWS,
    .dot_length = DOT_LENGTH,
    .dot_square = DOT_SQUARE,
    .gemm_block = gemm_block,
    .gemm_dots = gemm_dots,
    .gemm_pack = gemm_pack,
};

extern const br_kernels BR_KERNEL_TABLE;

/* clang-format off */
const br_kernels BR_KERNEL_TABLE = {
    .name = VARIANT_NAME,
    BR_PLAIN_KERNELS(LOOP_ENTRY, LOOP_ENTRY, LOOP_ENTRY, LOOP_ENTRY)
    POINTWISE(ne) = ne_loop,
    POINTWISE(gt) = gt_loop,
    POINTWISE(ge) = ge_loop,
    .reduce[BR_FOLD(sum)] = sum_fold,
    .reduce[BR_FOLD(nansum)] = nansum_fold,
    .reduce[BR_FOLD(max)] = max_fold,
    .reduce[BR_FOLD(argmax)] = argmax_fold,
    .reduce[BR_FOLD(min)] = min_fold,
    .reduce[BR_FOLD(argmin)] = argmin_fold,
    .reduce[BR_FOLD(prod)] = prod_fold,
    .store_results = store_results,
#ifndef BR_KERNEL_F64
    .widen = { [BR_BF16] = widen_bf16, [BR_F16] = widen_f16 },
    .narrow = { [BR_BF16] = narrow_bf16, [BR_F16] = narrow_f16 },
#define DEQUANTIZE_ENTRY(name, text, elements, bytes) [BR_BLOCK_##name] = dequantize_##name,
    .dequantize = { BR_BLOCK_TYPES(DEQUANTIZE_ENTRY) },
#endif
    .softmax = softmax_kernel,
    .softmax_grad = softmax_grad_kernel,
    BR_WHOLE_KERNELS(LOOP_ENTRY, LOOP_ENTRY)
    BR_ORDINARY_KERNELS(LOOP_ENTRY, LOOP_ENTRY)
    BR_LIBM_KERNELS(LOOP_ENTRY)
    POINTWISE(close) = close_loop,
    POINTWISE(mish) = mish_loop,
    POINTWISE(exp) = exp_loop,
    POINTWISE(log) = log_loop,
    POINTWISE(sqrt) = sqrt_loop,
    POINTWISE(where) = where_loop,
    POINTWISE(lerp) = lerp_loop,
    POINTWISE(addcmul) = addcmul_loop,
    POINTWISE(addcdiv) = addcdiv_loop,
    .sum_squares = sum_squares,
    .max_abs = max_abs,
    .shifted_dot = shifted_dot_kernel,
    .cross_entropy_sums = cross_entropy_sums_kernel,
    .update = { [BR_UPDATE_SGD] = sgd_update,
                [BR_UPDATE_ADAM] = adam_update,
                [BR_UPDATE_RMSPROP] = rmsprop_update,
                [BR_UPDATE_ADAGRAD] = adagrad_update,
                [BR_UPDATE_MUON] = muon_update,
                [BR_UPDATE_ADADELTA] = adadelta_update,
                [BR_UPDATE_ADAMAX] = adamax_update,
                [BR_UPDATE_NADAM] = nadam_update,
                [BR_UPDATE_RADAM] = radam_update,
                [BR_UPDATE_RPROP] = rprop_update,
                [BR_UPDATE_ASGD] = asgd_update,
                [BR_UPDATE_LION] = lion_update },
    .small_linalg = small_linalg,
    .depthwise = depthwise,
    .depthwise_weight = depthwise_weight,
    .layer_norm = layer_norm_kernel,
    .layer_norm_grad = layer_norm_grad_kernel,
    .recurrent_step = recurrent_step,
    .recurrent_step_grad = recurrent_step_grad,
    .channel_moments = channel_moments,
    .channel_norm = channel_norm,
    .channel_products = channel_products,
    .channel_norm_grad = channel_norm_grad,
    .dropout = dropout_kernel,
    .dropout_bits = dropout_bits_kernel,
    .attention = { attention_scratch, attention_kernel, attention_grad_kernel },
    .cross_entropy_grad = cross_entropy_grad_kernel,
};
/* clang-format on */
