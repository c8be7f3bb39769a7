"""Writes torch_norms.h: results, gradients and running statistics of PyTorch's RMS, batch, group and
instance norm in double precision. Inputs are values(sizes, seed), which the tests reproduce."""
import torch
import torch.nn.functional as F

from recording import table, values


def leaves(*shapes):
    return [values(*s, seed=i + 2).requires_grad_() for i, s in enumerate(shapes)]


def record(name, function, *inputs):
    y = function(*inputs)
    table(name, y)
    grads = torch.autograd.grad(y, inputs, values(*y.shape, seed=9))
    for label, grad in zip(["x", "w", "b"], grads):
        table(f"{name}_d{label}", grad)


def batch_norm(name, shape, training, momentum):
    mean, var = values(3, seed=5), values(3, seed=6).abs() + 0.5
    record(name, lambda x, w, b: F.batch_norm(x, mean, var, w, b, training, momentum, 1e-3),
           *leaves(shape, (3,), (3,)))
    table(f"{name}_mean", mean)
    table(f"{name}_var", var)


print("/* Recorded from PyTorch by record_norms.py. */")
record("rms_norm_1", lambda x, w: F.rms_norm(x, (6,), w, 1e-5), *leaves((4, 6), (6,)))
record("rms_norm_2", lambda x: F.rms_norm(x, (2, 3)), *leaves((4, 2, 3)))
batch_norm("batch_norm_1", (5, 3), True, 0.1)
batch_norm("batch_norm_2", (2, 3, 4, 2), True, 0.25)
batch_norm("batch_norm_3", (2, 3, 4), False, 0.1)
record("group_norm_1", lambda x, w, b: F.group_norm(x, 2, w, b, 1e-5),
       *leaves((2, 4, 3), (4,), (4,)))
record("group_norm_2", lambda x: F.group_norm(x, 3, eps=0.1), *leaves((3, 6)))
record("instance_norm_1", lambda x, w, b: F.instance_norm(x, None, None, w, b, eps=1e-5),
       *leaves((2, 3, 4), (3,), (3,)))
