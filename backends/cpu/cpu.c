/* backends/cpu/cpu.c - the table of the CPU backend. */
#include "backends/backend.h"
#include "backends/cpu/attention/attention_internal.h"
#include "backends/cpu/gemm/matmul_internal.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/norm/norm_internal.h"
#include "backends/cpu/pointwise/for_each.h"
#include "backends/cpu/reduce/reduce_internal.h"
#include "backends/cpu/shape/copy.h"

static bool has_pointwise(br_pointwise kernel, br_dtype dtype)
{
    return br__kernels_of(dtype)->pointwise[kernel] != NULL;
}

const br_backend br__cpu_backend = {
    .name = "cpu",
    .has_pointwise = has_pointwise,
    .pointwise = br__cpu_pointwise,
    .copy = br__cpu_copy,
    .reduce = br__cpu_reduce,
    .scan = br__cpu_scan,
    .sort = br__cpu_sort,
    .sort_rows = br__cpu_sort_rows,
    .softmax = br__cpu_softmax,
    .softmax_grad = br__cpu_softmax_grad,
    .layer_norm = br__cpu_layer_norm,
    .layer_norm_grad = br__cpu_layer_norm_grad,
    .channel_norm = br__cpu_channel_norm,
    .channel_norm_fits = br__cpu_channel_norm_fits,
    .channel_norm_grad = br__cpu_channel_norm_grad,
    .attention = br__cpu_attention,
    .attention_grad = br__cpu_attention_grad,
    .rotate = br__cpu_rotate,
    .matmul = br__cpu_matmul,
};
