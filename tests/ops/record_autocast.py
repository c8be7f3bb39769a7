#!/usr/bin/env python3
"""Records the dtypes of results under torch.autocast("cpu"): torch_autocast.h.

    tests/ops/record_autocast.py >tests/ops/torch_autocast.h
"""
import torch
import torch.nn.functional as F

# The names of the calls of test_autocast.c, and PyTorch's calls of a [3, 3] and b [3, 3] of any dtype.
CALLS = {
    "linear": lambda a, b: F.linear(a, b, b[0]),
    "matmul": torch.matmul,
    "mm": torch.mm,
    "bmm": lambda a, b: torch.bmm(a[None], b[None]),
    "addmm": lambda a, b: torch.addmm(a, a, b),
    "baddbmm": lambda a, b: torch.baddbmm(a[None], a[None], b[None]),
    "addbmm": lambda a, b: torch.addbmm(a, a[None], b[None]),
    "einsum": lambda a, b: torch.einsum("ij,jk->ik", a, b),
    "conv1d": lambda a, b: F.conv1d(a[None], b[:, :, None]),
    "conv2d": lambda a, b: F.conv2d(a[None, :, :, None], b[:, :, None, None]),
    "conv_transpose2d": lambda a, b: F.conv_transpose2d(a[None, :, :, None], b[:, :, None, None]),
    "prelu": lambda a, b: F.prelu(a, b[0]),
    "attention": lambda a, b: F.scaled_dot_product_attention(a[None], b[None], a[None]),
    "cross_entropy": lambda a, b: F.cross_entropy(a, torch.tensor([0, 1, 2])),
    "nll_loss": lambda a, b: F.nll_loss(a, torch.tensor([0, 1, 2])),
    "mse_loss": F.mse_loss,
    "l1_loss": F.l1_loss,
    "smooth_l1_loss": F.smooth_l1_loss,
    "huber_loss": F.huber_loss,
    "kl_div": lambda a, b: F.kl_div(a, b, reduction="sum"),
    "bce_logits": F.binary_cross_entropy_with_logits,
    "margin_ranking": lambda a, b: F.margin_ranking_loss(a, b, b),
    "triplet": lambda a, b: F.triplet_margin_loss(a, b, a),
    "cosine_embedding": lambda a, b: F.cosine_embedding_loss(a, b, torch.ones(3)),
    "prod": lambda a, b: torch.prod(a),
    "pad_reflect": lambda a, b: F.pad(a, (1, 1), mode="reflect"),
    "pad_replicate": lambda a, b: F.pad(a, (1, 1), mode="replicate"),
    "pad_constant": lambda a, b: F.pad(a, (1, 1)),
    "softmax": lambda a, b: torch.softmax(a, -1),
    "layer_norm": lambda a, b: F.layer_norm(a, (3,)),
    "gelu": lambda a, b: F.gelu(a),
    "sum": lambda a, b: a.sum(),
    "add": torch.add,
    "mul": torch.mul,
    "cat": lambda a, b: torch.cat([a, b]),
    "stack": lambda a, b: torch.stack([a, b]),
    "embedding": lambda a, b: F.embedding(torch.tensor([0]), a),
    "lt": torch.lt,
    "cosine_similarity": F.cosine_similarity,
}
DTYPES = [torch.float32, torch.float64, torch.int64, torch.bool, torch.bfloat16, torch.float16, torch.int32, torch.int8,
          torch.uint8]
OPERANDS = [(torch.float32, torch.float32), (torch.bfloat16, torch.float32), (torch.float32, torch.bfloat16),
            (torch.bfloat16, torch.bfloat16), (torch.float16, torch.float32), (torch.float64, torch.float64)]
REFUSED = 255


def result(call, a, b):
    torch.manual_seed(1)
    a, b = torch.rand(3, 3).to(a), torch.rand(3, 3).to(b)
    with torch.autocast("cpu", torch.bfloat16):
        try:
            return DTYPES.index(call(a, b).dtype)
        except (RuntimeError, NotImplementedError):
            return REFUSED


print("/* tests/ops/torch_autocast.h - recorded by record_autocast.py. */")
print("#ifndef BR_TESTS_TORCH_AUTOCAST_H\n#define BR_TESTS_TORCH_AUTOCAST_H\n\n/* clang-format off */")
print("/* The dtypes of the operands of each column. */")
print("static const unsigned char operands[][2] = {")
print("    " + ", ".join(f"{{ {DTYPES.index(a)}, {DTYPES.index(b)} }}" for a, b in OPERANDS) + "\n};")
print(f"/* The dtypes of the results in a region of bf16; {REFUSED}: PyTorch refuses the operands. */")
print("static const struct {\n    const char *call;\n    unsigned char results[%d];\n} recorded[] = {" % len(OPERANDS))
for name, call in CALLS.items():
    print(f'    {{ "{name}", {{ {", ".join(str(result(call, a, b)) for a, b in OPERANDS)} }} }},')
print("};\n/* clang-format on */\n\n#endif")
