"""Writes torch_rows.h: results and gradients of PyTorch's softmax, layer norm and cross entropy in double
precision. Inputs are values(sizes, seed), which the tests reproduce."""
import torch
import torch.nn.functional as F

from recording import table, values


def record(name, y, inputs):
    table(name, y)
    dy = values(*y.shape, seed=9)
    for label, grad in zip(inputs, torch.autograd.grad(y, list(inputs.values()), dy)):
        table(f"{name}_d{label}", grad)


print("/* Recorded from PyTorch by record_rows.py. */")
for dim in range(3):
    x = values(3, 4, 5, seed=1).requires_grad_()
    record(f"softmax_{dim}", torch.softmax(x, dim), {"x": x})
    record(f"log_softmax_{dim}", torch.log_softmax(x, dim), {"x": x})

x = values(4, 6, seed=2).requires_grad_()
w, b = values(6, seed=3).requires_grad_(), values(6, seed=4).requires_grad_()
record("layer_norm_1", F.layer_norm(x, (6,), w, b, 1e-5), {"x": x, "w": w, "b": b})
x = values(3, 2, 4, seed=2).requires_grad_()
w = values(2, 4, seed=3).requires_grad_()
record("layer_norm_2", F.layer_norm(x, (2, 4), w, None, 0.5), {"x": x, "w": w})

target = torch.tensor([2, -100, 0, 4])
x = values(4, 5, seed=5).requires_grad_()
record("cross_entropy_mean", F.cross_entropy(x, target), {"x": x})
x = values(2, 3, 4, seed=6).requires_grad_()
target = torch.tensor([[0, 2, 1, 1], [2, 2, 0, 1]])
record("cross_entropy_sum", F.cross_entropy(x, target, reduction="sum"), {"x": x})
record("cross_entropy_none", F.cross_entropy(x, target, reduction="none", ignore_index=1), {"x": x})
x = values(5, seed=7).requires_grad_()
record("cross_entropy_one", F.cross_entropy(x, torch.tensor(3)), {"x": x})
