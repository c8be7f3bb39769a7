/* backends/cpu/cpu.c - the table of the CPU backend. */
#include "backends/backend.h"
#include "backends/cpu/attention/attention_internal.h"
#include "backends/cpu/conv/conv_internal.h"
#include "backends/cpu/fft/fft.h"
#include "backends/cpu/gemm/matmul_internal.h"
#include "backends/cpu/index/index_internal.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/linalg/linalg.h"
#include "backends/cpu/loss/loss_internal.h"
#include "backends/cpu/norm/norm_internal.h"
#include "backends/cpu/optim/optim_internal.h"
#include "backends/cpu/pointwise/for_each.h"
#include "backends/cpu/quantized/quantized.h"
#include "backends/cpu/recurrent/recurrent_internal.h"
#include "backends/cpu/reduce/reduce_internal.h"
#include "backends/cpu/shape/copy.h"
#include "backends/cpu/stored.h"
#include "tensor/storage.h"

static bool has_pointwise(br_pointwise kernel, br_dtype dtype)
{
    return br__kernels_of(br__computed(dtype))->pointwise[kernel] != NULL;
}

static bool upload(const br_tensor *dst, const void *elements)
{
    memcpy(dst->data, elements, (size_t)dst->numel * br__dtype_size(dst->dtype));
    return true;
}

static bool download(void *elements, const br_tensor *src)
{
    memcpy(elements, src->data, (size_t)src->numel * br__dtype_size(src->dtype));
    return true;
}

static bool matmul(const br_matmul_tensors *work)
{
    return br__is_floating(work->c->dtype) ? br__cpu_matmul(work) : br__stored_integer_matmul(work);
}

const br_backend br__cpu_backend = {
    .name = "cpu",
    .device = { BR_CPU, 0 },
    .upload = upload,
    .download = download,
    .fill = br__cpu_fill,
    .has_pointwise = has_pointwise,
    .pointwise = br__cpu_pointwise,
    .copy = br__cpu_copy,
    .cat = br__cpu_cat,
    .triangle = br__cpu_triangle,
    .dropout_bits = br__cpu_dropout_bits,
    .dropout = br__stored_dropout,
    .nonzero = br__cpu_nonzero,
    .gather = br__cpu_gather,
    .scatter = br__cpu_scatter,
    .reduce = br__cpu_reduce,
    .scan = br__stored_scan,
    .search = br__cpu_search,
    .resample = br__cpu_resample,
    .resample_grad = br__cpu_resample_grad,
    .sort = br__cpu_sort,
    .sort_rows = br__cpu_sort_rows,
    .softmax = br__stored_softmax,
    .softmax_grad = br__stored_softmax_grad,
    .layer_norm = br__stored_layer_norm,
    .layer_norm_grad = br__stored_layer_norm_grad,
    .channel_norm = br__stored_channel_norm,
    .channel_norm_fits = br__cpu_channel_norm_fits,
    .channel_norm_grad = br__stored_channel_norm_grad,
    .convolution = br__stored_convolution,
    .convolution_input = br__stored_convolution_input,
    .convolution_weight = br__stored_convolution_weight,
    .max_pool = br__stored_max_pool,
    .avg_pool = br__stored_avg_pool,
    .avg_pool_grad = br__stored_avg_pool_grad,
    .recurrent = br__stored_recurrent,
    .recurrent_grad = br__stored_recurrent_grad,
    .attention = br__stored_attention,
    .attention_grad = br__stored_attention_grad,
    .rotate = br__stored_rotate,
    .matmul = matmul,
    .dequantize = br__cpu_dequantize,
    .linalg = br__cpu_linalg,
    .fft = br__cpu_fft,
    .cross_entropy = br__stored_cross_entropy,
    .cross_entropy_grad = br__stored_cross_entropy_grad,
    .linear_cross_entropy = br__stored_linear_cross_entropy,
    .has_update = br__cpu_has_update,
    .update = br__cpu_update,
    .norms = br__cpu_norms,
    .pointwise_each = br__cpu_pointwise_each,
    .nonfinite = br__cpu_nonfinite,
};
