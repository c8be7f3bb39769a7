#!/usr/bin/env python3
"""Writes pointwise_cases.txt: results of PyTorch's unary functions and powers in f64, for
test_unary_binary.c and test_arithmetic.c.

Each line is "function x y dy/dx" or "pow a b y dy/da dy/db", with floats in hexadecimal. All
arguments are exactly representable as f32.
"""
import os

import torch
import torch.nn.functional as F

inf, nan = float("inf"), float("nan")

FUNCTIONS = {
    "exp": torch.exp,
    "log": torch.log,
    "sqrt": torch.sqrt,
    "erf": torch.erf,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "neg": torch.neg,
    "rsqrt": torch.rsqrt,
    "sin": torch.sin,
    "cos": torch.cos,
    "sinc": torch.sinc,
    "abs": torch.abs,
    "sign": torch.sign,
    "floor": torch.floor,
    "ceil": torch.ceil,
    "round": torch.round,
    "silu": F.silu,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.25),
    "elu": lambda x: F.elu(x, 1.5),
    "softplus": lambda x: F.softplus(x, 2, 20),
    "clamp": lambda x: torch.clamp(x, -1.5, 2),
}

ARGUMENTS = [0.0, -0.0, 1.0, -1.0, inf, -inf, nan, 2**-149, -(2**-149), 2**-126, 1e-30, -1e-30, 1e30, -1e30,
             88.5, 88.7, 88.75, 89.0, 100.0, -87.0, -87.5, -88.0, -100.0, -103.0, -103.5, -104.0, -110.0]
ARGUMENTS += [k / 16 for k in range(-160, 161, 3)]

BASES = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, 1.5, 10.0, -3.0, inf, -inf, nan, 1e-20]
EXPONENTS = [0.0, 1.0, 2.0, 3.0, 0.5, -0.5, -1.0, -2.0, 2.5, -3.0, inf, -inf, nan]


def single(v):
    return torch.tensor(v, dtype=torch.float32).double()


def spell(*values):
    return " ".join(float(v).hex() for v in values)


def gradients(y, *inputs):
    return torch.autograd.grad(y, inputs)


def main():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pointwise_cases.txt")
    with open(path, "w") as out:
        for name, function in FUNCTIONS.items():
            for v in ARGUMENTS:
                x = single(v).requires_grad_()
                y = function(x)
                print(name, spell(x, y, *gradients(y, x)), file=out)
        for a in BASES:
            for b in EXPONENTS:
                base, exponent = single(a).requires_grad_(), single(b).requires_grad_()
                y = torch.pow(base, exponent)
                print("pow", spell(base, exponent, y, *gradients(y, base, exponent)), file=out)


main()
