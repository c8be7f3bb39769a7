"""Writes torch_pools.h: results and gradients of PyTorch's max and average pooling in double precision.
Inputs are values(sizes, seed), which the tests reproduce."""
import torch
import torch.nn.functional as F

from recording import table, values


def record(name, function, x, *args, **options):
    x = values(*x, seed=2).requires_grad_()
    y = function(x, *args, **options)
    if isinstance(y, tuple):
        y, indices = y
        table(f"{name}_indices", indices)
    table(name, y)
    table(f"{name}_dx", torch.autograd.grad(y, x, values(*y.shape, seed=9))[0])


print("/* Recorded from PyTorch by record_pools.py. */")
record("max_pool1d", F.max_pool1d, (2, 3, 7), 3, stride=2, padding=1, dilation=1, ceil_mode=True,
       return_indices=True)
record("max_pool2d", F.max_pool2d, (2, 2, 5, 6), (2, 3), return_indices=True)
record("max_pool2d_options", F.max_pool2d, (2, 6, 7), (3, 2), stride=(2, 1), padding=(1, 0),
       dilation=(1, 2), ceil_mode=True, return_indices=True)
record("avg_pool1d", F.avg_pool1d, (2, 3, 7), 3, stride=2, padding=1, ceil_mode=True)
record("avg_pool2d", F.avg_pool2d, (2, 2, 5, 6), (2, 3))
record("avg_pool2d_inside", F.avg_pool2d, (2, 5, 6), 3, stride=2, padding=1, ceil_mode=True,
       count_include_pad=False)
record("avg_pool2d_divisor", F.avg_pool2d, (1, 2, 5, 6), 3, stride=2, padding=1,
       divisor_override=4)
record("adaptive_avg_pool1d", F.adaptive_avg_pool1d, (2, 3, 7), 3)
record("adaptive_avg_pool2d", F.adaptive_avg_pool2d, (2, 5, 6), (3, 8))
