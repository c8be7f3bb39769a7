/* backends/cpu/isa/attention_bf16.c - attention whose products round their operands to bf16,
 * for processors with AVX512-BF16.
 *
 * The kernels are those of f32 (attention_forward.h, attention_backward.h) with other operands
 * (operands_bf16.h): queries, keys, values, probabilities and their gradients are rounded while
 * they are packed. Scores, softmax and sums are f32. */
typedef float real; /* or a pair of bf16 numbers */
#define BR_KERNEL_BF16

/* The headers have more kernels than attention uses. */
#pragma GCC diagnostic ignored "-Wunused-function"

#include "backends/cpu/attention/attention_backward.h"
#include "backends/cpu/attention/attention_forward.h"

extern const br_attention_kernels br__attention_avx512_bf16;

const br_attention_kernels br__attention_avx512_bf16 = {
    .scratch = attention_scratch,
    .forward = attention_kernel,
    .backward = attention_grad_kernel,
};
