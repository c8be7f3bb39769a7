"""Writes optim_values.h: parameters on the way of torch.optim's optimizers.
Usage: python record_optim.py > optim_values.h

The parameters a [5] and b [2, 3] start from cos(i / 2); the gradient of element i in step t is
sin(0.3 i + 0.7 t). b has no gradient in step 3. Recorded after steps 1, 2, 5 and 10."""
import math
import textwrap

import torch

CASES = {
    "adam": lambda p: torch.optim.Adam(p, lr=0.1, foreach=False),
    "adam_options": lambda p: torch.optim.Adam(
        p, lr=0.05, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1, foreach=False),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, foreach=False),
    "sgd_momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, foreach=False),
    "sgd_dampening": lambda p: torch.optim.SGD(
        p, lr=0.1, momentum=0.9, dampening=0.5, weight_decay=0.2, foreach=False),
    "sgd_nesterov": lambda p: torch.optim.SGD(
        p, lr=0.1, momentum=0.8, nesterov=True, weight_decay=0.1, foreach=False),
}


def filled(shape, dtype, function):
    n = math.prod(shape)
    return torch.tensor([function(i) for i in range(n)], dtype=torch.float64).to(dtype).view(shape)


def trajectory(make, dtype):
    a = filled((5,), dtype, lambda i: math.cos(0.5 * i)).requires_grad_()
    b = filled((2, 3), dtype, lambda i: math.cos(0.5 * i)).requires_grad_()
    optim = make([a, b])
    for t in range(1, 11):
        for p in (a, b):
            p.grad = filled(p.shape, dtype, lambda i: math.sin(0.3 * i + 0.7 * t))
        if t == 3:
            b.grad = None
        optim.step()
        if t in (1, 2, 5, 10):
            yield from a.double().tolist() + b.double().flatten().tolist()


print("/* Made by record_optim.py with PyTorch", torch.__version__.split("+")[0] + ". */")
print("/* clang-format off */")
for name, make in CASES.items():
    for dtype, suffix in ((torch.float32, "f32"), (torch.float64, "f64")):
        values = ", ".join(repr(v) for v in trajectory(make, dtype))
        print(f"static const double {name}_{suffix}[] = {{")
        print(textwrap.fill(values, 99, initial_indent="    ", subsequent_indent="    "), "\n};", sep="")
