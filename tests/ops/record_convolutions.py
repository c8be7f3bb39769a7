"""Writes torch_convolutions.h: results and gradients of PyTorch's convolutions and transposed convolutions
in double precision. Inputs are values(sizes, seed), which the tests reproduce."""
import torch
import torch.nn.functional as F

from recording import table, values


def record(name, function, x, w, b=None, **options):
    inputs = [values(*s, seed=i + 2).requires_grad_() for i, s in enumerate((x, w, b)) if s]
    y = function(*inputs, **options)
    table(name, y)
    grads = torch.autograd.grad(y, inputs, values(*y.shape, seed=9))
    for label, grad in zip(["x", "w", "b"], grads):
        table(f"{name}_d{label}", grad)


print("/* Recorded from PyTorch by record_convolutions.py. */")
record("conv1d_plain", F.conv1d, (2, 3, 6), (4, 3, 3), (4,))
record("conv1d_options", F.conv1d, (4, 9), (2, 2, 3), (2,), stride=2, padding=2, dilation=2,
       groups=2)
record("conv2d_plain", F.conv2d, (2, 2, 4, 5), (3, 2, 3, 2), (3,))
record("conv2d_options", F.conv2d, (2, 4, 5, 6), (4, 2, 2, 3), (4,), stride=(2, 1),
       padding=(1, 2), dilation=(1, 2), groups=2)
record("conv2d_same", F.conv2d, (1, 2, 3, 4), (2, 2, 2, 4), padding="same", dilation=(2, 1))
record("conv2d_patches", F.conv2d, (1, 2, 4, 6), (3, 2, 2, 3), (3,), stride=(2, 3))
record("conv2d_points", F.conv2d, (2, 3, 2, 3), (4, 3, 1, 1), (4,))
record("conv_transpose1d", F.conv_transpose1d, (2, 3, 4), (3, 2, 3), (2,), stride=2, padding=1,
       output_padding=1)
record("conv_transpose2d", F.conv_transpose2d, (2, 4, 2, 3), (4, 1, 2, 3), (2,), stride=(2, 1),
       padding=(0, 1), dilation=(1, 2), groups=2)
