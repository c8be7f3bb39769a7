/* tests/ops/torch_autocast.h - recorded by record_autocast.py. */
#ifndef BR_TESTS_TORCH_AUTOCAST_H
#define BR_TESTS_TORCH_AUTOCAST_H

/* clang-format off */
/* The dtypes of the operands of each column. */
static const unsigned char operands[][2] = {
    { 0, 0 }, { 4, 0 }, { 0, 4 }, { 4, 4 }, { 5, 0 }, { 1, 1 }
};
/* The dtypes of the results in a region of bf16; 255: PyTorch refuses the operands. */
static const struct {
    const char *call;
    unsigned char results[6];
} recorded[] = {
    { "linear", { 4, 4, 4, 4, 4, 1 } },
    { "matmul", { 4, 4, 4, 4, 4, 1 } },
    { "mm", { 4, 4, 4, 4, 4, 1 } },
    { "bmm", { 4, 4, 4, 4, 4, 1 } },
    { "addmm", { 4, 4, 4, 4, 4, 1 } },
    { "baddbmm", { 4, 4, 4, 4, 4, 1 } },
    { "addbmm", { 4, 4, 4, 4, 4, 1 } },
    { "einsum", { 4, 4, 4, 4, 4, 1 } },
    { "conv1d", { 4, 4, 4, 4, 4, 1 } },
    { "conv2d", { 4, 4, 4, 4, 4, 1 } },
    { "conv_transpose2d", { 4, 4, 4, 4, 4, 1 } },
    { "prelu", { 4, 4, 4, 4, 4, 1 } },
    { "attention", { 4, 4, 4, 4, 4, 1 } },
    { "cross_entropy", { 0, 0, 0, 0, 0, 1 } },
    { "nll_loss", { 0, 0, 0, 0, 0, 1 } },
    { "mse_loss", { 0, 0, 0, 0, 0, 1 } },
    { "l1_loss", { 0, 0, 0, 0, 0, 1 } },
    { "smooth_l1_loss", { 0, 0, 0, 0, 0, 1 } },
    { "huber_loss", { 0, 0, 0, 0, 0, 1 } },
    { "kl_div", { 0, 0, 0, 0, 0, 1 } },
    { "bce_logits", { 0, 0, 0, 0, 0, 1 } },
    { "margin_ranking", { 0, 0, 0, 0, 0, 1 } },
    { "triplet", { 0, 0, 0, 0, 0, 1 } },
    { "cosine_embedding", { 0, 0, 0, 0, 0, 1 } },
    { "prod", { 0, 0, 0, 0, 0, 1 } },
    { "pad_reflect", { 0, 0, 0, 0, 0, 1 } },
    { "pad_replicate", { 0, 0, 0, 0, 0, 1 } },
    { "pad_constant", { 0, 4, 0, 4, 5, 1 } },
    { "softmax", { 0, 4, 0, 4, 5, 1 } },
    { "layer_norm", { 0, 4, 0, 4, 5, 1 } },
    { "gelu", { 0, 4, 0, 4, 5, 1 } },
    { "sum", { 0, 4, 0, 4, 5, 1 } },
    { "add", { 0, 0, 0, 4, 0, 1 } },
    { "mul", { 0, 0, 0, 4, 0, 1 } },
    { "cat", { 0, 0, 0, 4, 255, 1 } },
    { "stack", { 0, 0, 0, 4, 255, 1 } },
    { "embedding", { 0, 4, 0, 4, 5, 1 } },
    { "lt", { 3, 3, 3, 3, 3, 3 } },
    { "cosine_similarity", { 0, 0, 0, 4, 0, 1 } },
};
/* clang-format on */

#endif
