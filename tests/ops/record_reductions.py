#!/usr/bin/env python3
"""Writes reduction_cases.txt: results and gradients of PyTorch's reductions, cumulative functions and sorts
of four numbers in f64, for test_var_norm_logsumexp.c.

Each line is "function count x[4] y[count] dx[4]" with floats in hexadecimal. dx is the gradient for
dy = 1, 2, 3, 4. The numbers include ties, zeros, infinities and NaN.
"""
import os

import torch

inf, nan = float("inf"), float("nan")

FUNCTIONS = {
    "min": torch.min,
    "max": torch.max,
    "min_dim": lambda x: torch.min(x, 0)[0],
    "max_dim": lambda x: torch.max(x, 0)[0],
    "prod": torch.prod,
    "prod_dim": lambda x: torch.prod(x, 0),
    "cumsum": lambda x: torch.cumsum(x, 0),
    "cumprod": lambda x: torch.cumprod(x, 0),
    "var": torch.var,
    "var_0": lambda x: torch.var(x, correction=0),
    "var_half": lambda x: torch.var(x, correction=2.5),
    "std": torch.std,
    "logsumexp": lambda x: torch.logsumexp(x, 0),
    "norm_1": lambda x: torch.norm(x, 1),
    "norm_2": lambda x: torch.norm(x, 2),
    "norm_3": lambda x: torch.norm(x, 3),
    "norm_1.5": lambda x: torch.norm(x, 1.5),
    "norm_half": lambda x: torch.norm(x, 0.5),
    "norm_-1": lambda x: torch.norm(x, -1),
    "norm_inf": lambda x: torch.norm(x, inf),
    "norm_-inf": lambda x: torch.norm(x, -inf),
    "median": torch.median,
    "median_dim": lambda x: torch.median(x, 0)[0],
    "sort": lambda x: torch.sort(x, stable=True)[0],
    "sort_down": lambda x: torch.sort(x, stable=True, descending=True)[0],
    "argsort": lambda x: torch.argsort(x, stable=True),
    "argsort_down": lambda x: torch.argsort(x, stable=True, descending=True),
    "argmin": torch.argmin,
    "argmax": torch.argmax,
}

NUMBERS = [
    [1.0, -2.0, 3.0, 0.5], [2.0, 2.0, -1.0, 2.0], [0.0, 3.0, -2.0, 4.0], [0.0, 3.0, 0.0, -4.0], [5.0, 5.0, 5.0, 5.0],
    [0.0, -0.0, 0.0, 0.0], [inf, 1.0, 2.0, -3.0], [-inf, 1.0, 2.0, 2.0], [-inf, -inf, -inf, -inf], [inf, -inf, 0.0, 1.0],
    [nan, 1.0, 2.0, 0.0], [1.0, nan, inf, nan], [1e200, -1e200, 1e-200, 3.0], [-1.0, 1.0, -1.0, 1.0],
]


def main():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "reduction_cases.txt")
    with open(path, "w") as out:
        for name, function in FUNCTIONS.items():
            for numbers in NUMBERS:
                x = torch.tensor(numbers, dtype=torch.float64, requires_grad=True)
                y = function(x)
                dy = torch.arange(1, y.numel() + 1, dtype=torch.float64).reshape(y.shape)
                dx = torch.autograd.grad(y, x, dy)[0] if y.requires_grad else torch.zeros(4)
                values = numbers + y.flatten().tolist() + dx.tolist()
                print(name, y.numel(), *(float(v).hex() for v in values), file=out)


main()
