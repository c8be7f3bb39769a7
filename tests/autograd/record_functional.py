#!/usr/bin/env python3
"""Prints tests/autograd/functional_values.h: results of torch.autograd.functional for the functions
of test_functional.c."""

import torch
from torch.autograd import functional as F

torch.set_default_dtype(torch.float64)

x = torch.tensor([[0.3, -0.7, 1.1], [0.5, 0.9, -0.2]])
w = torch.tensor([[0.4, -0.6], [1.2, 0.1], [-0.3, 0.8]])
vx = torch.tensor([[1.0, -2.0, 0.5], [0.25, 3.0, -1.0]])
vw = torch.tensor([[-1.0, 0.5], [2.0, -0.75], [0.1, 1.5]])
vy = torch.tensor([[0.2, -1.3], [0.7, 2.1]])


def layer(x, w):
    return torch.softmax(x @ w, -1) * torch.sin(x @ w)


def energy(x, w):
    y = torch.tanh(x @ w)
    return (y * y * y).sum() + (x * x).prod()


def show(name, tensors):
    values = [v for t in tensors for v in t.flatten().tolist()]
    rows = [", ".join(f"{v:.17g}" for v in values[i:i + 3]) for i in range(0, len(values), 3)]
    print(f"static const double {name}[] = {{\n    " + ",\n    ".join(rows) + "\n};")


print("/* Made by record_functional.py with PyTorch", torch.__version__.split("+")[0], "*/")
show("want_vjp", F.vjp(layer, (x, w), vy)[1])
show("want_jvp", [F.jvp(layer, (x, w), (vx, vw))[1]])
show("want_jacobian", F.jacobian(layer, (x, w)))
show("want_hvp", F.hvp(energy, (x, w), (vx, vw))[1])
show("want_hessian", [h for row in F.hessian(energy, (x, w)) for h in row])
