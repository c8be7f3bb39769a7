#!/usr/bin/env python3
"""Records calls of operations with extreme values, with their first and second gradients, for `brasa check`.

    tests/op_db/extremes.py BRASA DIRECTORY [--seed N] [--calls N] [--only NAME...]

The calls are small samples of PyTorch's own tests. The elements of their tensors are replaced at random by zeros, tiny
and huge numbers, infinities and NaN. The inputs are float32; the expected results are PyTorch's float64 results for the
same inputs, since float64 has the range for the squares and products of all float32 numbers. Each element has a bound
of its own: the error that rounding in float32 may cause. Requires what record.py requires.
"""
import argparse
import functools
import json
import math
import multiprocessing
import pathlib
import random
import subprocess
import zlib

import torch
from torch.testing._internal.common_methods_invocations import op_db

import record
import special

EPS = torch.finfo(torch.float32).eps
LEAST = 64 * torch.finfo(torch.float32).tiny  # smaller results may be 0
MOST = torch.finfo(torch.float32).max / 1024  # larger results may be infinite, since a term may be larger than the sum
# Kinds of values. A call draws a few kinds, then each element from one of them.
ORDINARY = [0.5, -0.5, 1, -1, 2, -2, 3, -3, 0.25, -1.5]
KINDS = [
    [0.0, -0.0],
    [1e-45, -1e-45, 1e-40, 1.2e-38, -1e-30, 1e-30, 1e-20, -1e-20, 1e-10],
    [1e10, -1e10, 1e18, 1e19, -1e19, 1e20, -2e20, 3e20, 1e30, -1e30, 1e37, -1e37],
    [math.inf, -math.inf],
    [math.nan],
    [88.0, -88.0, 104.0, -104.0, 1000.0, -1000.0, 20.0, -20.0],
]

# Operations that are not compared, and why.
LEFT_OUT = special.LEFT_OUT | {
    "double": "the result is float64", "float_power": "the result is float64",
}
# Operations whose gradients at NaN depend on the position of the element in PyTorch's vectors.
NO_NAN = {f"nn.functional.{name}" for name in (
    "celu", "elu", "selu", "hardshrink", "softshrink", "hardtanh", "relu6")}
# Operations whose terms cancel: rounding in float32 changes the results by a few units in the last place of the
# largest number. PyTorch computes them as one operation, so that bounds() cannot measure that.
ROUNDED = {"lerp", "log_softmax", "logsumexp", "mean", "sigmoid", "sum", "sum_to_size"} | {f"nn.functional.{name}" for name in (
    "binary_cross_entropy_with_logits", "cross_entropy", "glu", "linear_cross_entropy")}
# Operations whose elements are sums over a row, or depend on them: rounding changes all elements of a tensor by some
# units in the last place of the largest one.
SUMS = {"linalg.vector_norm", "norm"} | {f"nn.functional.{name}" for name in (
    "batch_norm", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "cosine_similarity",
    "group_norm", "instance_norm", "layer_norm", "pairwise_distance", "rms_norm")}
# Operations whose second gradients are not compared, and why.
NO_SECOND = special.NO_SECOND | {
    **{name: "quotients in between are below the smallest float32" for name in ("addcdiv", "div", "true_divide")},
    **{f"nn.functional.{name}": "terms cancel that are much larger than the result"
       for name in ("cosine_similarity", "pairwise_distance")},
    "nn.functional.linear_cross_entropy": "PyTorch computes the logits inside, so that their rounding is not measured",
    "prod": "products of all but two factors come from products of all but one, which may be 0",
}
# Parts of the names of operations with products of vectors. They take denormal numbers as 0, and add in float32, so
# that sums of huge products may overflow in between.
PRODUCTS = ("mm", "mv", "matmul", "linear", "conv", "einsum", "attention", "addr", "cdist", "cosine_similarity",
            "multi_dot", "matrix_power")
# Operations whose results may be numbers where they are NaN in PyTorch: losses in which a target or a weight of 0
# leaves out an element, even one whose loss is infinite; and batch norm, where PyTorch subtracts infinities.
LEAVES_OUT = {f"nn.functional.{name}" for name in (
    "batch_norm", "group_norm", "instance_norm", "binary_cross_entropy", "binary_cross_entropy_with_logits", "cross_entropy", "kl_div", "linear_cross_entropy",
    "nll_loss")}


def drawn(op, call, numbers):
    """Returns the call with random extreme values as elements."""
    choice = [kind for kind in KINDS if op.name not in NO_NAN or not math.isnan(kind[0])]
    if any(part in op.name for part in PRODUCTS):
        choice = [[v for v in kind if v == 0 or not (abs(v) < LEAST or 1e18 < abs(v) < math.inf)] for kind in choice]
    ordinary = ORDINARY
    if op.name == "nn.functional.cosine_similarity":  # PyTorch's gradient ignores that lengths are at least eps
        choice = [[v for v in kind if v == 0 or not abs(v) < 1] for kind in choice]
        ordinary = [v for v in ORDINARY if abs(v) >= 1]
    if op.name == "hypot":  # the gradient divides by the result, and a denormal one has few digits
        choice = [[v for v in kind if v == 0 or not abs(v) < LEAST] for kind in choice]
    if op.name == "nn.functional.kl_div":  # exp() of these is below the smallest float32, but a factor of the result
        choice = [[v for v in kind if v not in (-88.0, -104.0)] for kind in choice]
    if "cross_entropy" in op.name:  # logits, and losses of rows, must be finite
        choice = [[v for v in kind if abs(v) < 1e10 or not math.isfinite(v)] for kind in choice]
    kinds = [ordinary, *numbers.sample(choice, numbers.choice([1, 1, 2, 3]))]
    share = numbers.choice([0.2, 0.5, 0.8])
    first = True

    def draw(t):
        nonlocal kinds, first
        if t.dtype != torch.float64:
            return t
        if "conv" in op.name and not first:  # the zeros of padding multiply the weights
            kinds = [kind for kind in kinds if math.isfinite(kind[0])]
        # The weights are multiplied by 1 / standard deviation first, and in second gradients by squares of deviations.
        if "_norm" in op.name and not first:
            kinds = [[v for v in kind if v == 0 or not (abs(v) < 1e-10 or 1e30 < abs(v) < math.inf)] for kind in kinds]
        first = False
        values = [numbers.choice(ordinary if numbers.random() > share else numbers.choice(kinds))
                  for _ in range(t.numel())]
        return torch.tensor(values, dtype=torch.float32).reshape(t.shape).requires_grad_(t.requires_grad)
    return record.changed(call, draw, torch.float32)


def wide(call):
    return record.changed(call, lambda t: t.double() if t.dtype == torch.float32 else t, torch.float64)


def moved(number):
    """Returns a function that moves each float32 value by a unit in its last place, except for 0, 1 and their like."""
    def move(t):
        if t.dtype != torch.float64:
            return t
        key = zlib.crc32(t.detach().contiguous().numpy().tobytes())
        signs = torch.randint(0, 2, t.shape, generator=torch.Generator().manual_seed(key + number)) * 2 - 1
        near = t.detach() * (1 + signs * EPS)
        return near.requires_grad_(t.requires_grad)
    return move


def runs_nearby(op, call, seed, second):
    """Yields runs in float64 whose inputs or intermediate results are rounded to float32 at random."""
    for number in range(3):
        yield record.Run(op, record.changed(call, moved(number)), seed, second).all()
        yield record.Run(op, call, seed, second, mode=record.Rounding(number)).all()


def bounds(op, call, seed, second, exact):
    """Returns for each tensor of the run the largest permitted error of each element.

    It is infinite where rounding decides between finite and other results.
    """
    bound = [None if t is None or t.dtype != torch.float64 else 8 * EPS * t.abs() + LEAST for t in exact]
    for run in runs_nearby(op, call, seed, second):
        if not record.alike(exact, run):
            raise record.Skip("rounding changes the kind of result")
        for b, near, t in zip(bound, run, exact):
            if b is None:
                continue
            off = (near - t).abs()
            differs = (near.isfinite() != t.isfinite()) | (near.isnan() != t.isnan())
            kept = torch.where(t.isfinite(), torch.maximum(b, 16 * off), 0)
            b.copy_(torch.where(differs | (b == math.inf), math.inf, kept))
    for b, t in zip(bound, exact):
        if b is not None:
            b[t.isfinite() & (t.abs() > MOST)] = math.inf
    return bound


class File(record.File):
    def entry(self, t, bound):
        if t is None:
            return None
        if bound is None:
            return {"tensor": self.tensor(t)["tensor"], "rtol": 0, "atol": 0}
        return {"tensor": self.tensor(t.float())["tensor"], "bound": self.tensor(bound)["tensor"]}

    def allow(self, bound, run, call):
        """Extends the bounds where PyTorch's result does not tell the right one."""
        numbers = [t[t.isfinite()].abs() for t in [*record.tensors_in(call), *run.all()]
                   if t is not None and t.is_floating_point()]
        largest = max((t.max().item() for t in numbers if t.numel()), default=0)
        for i, (b, t) in enumerate(zip(bound, run.all())):
            if b is None:
                continue
            if self.op.name in ROUNDED:
                b += 16 * EPS * largest
            if self.op.name in SUMS and t.numel():
                b += 16 * EPS * t[t.isfinite()].abs().max().item() if t.isfinite().any() else 0
            if i >= len(run.results) or self.op.name in LEAVES_OUT:
                b[t.isnan()] = math.inf  # there is no derivative, or PyTorch's formula fails

    def add_extreme(self, call, numbers):
        seed = len(self.samples)
        sample, before = {"dtype": "f32", "seed": seed}, dict(self.tensors)
        if self.op.name in record.SEEDED:
            sample["call_seed"] = record.SEEDED[self.op.name]
        second = record.has_second(self.op, call) and self.op.name not in NO_SECOND
        try:
            call = record.settled(self.op, drawn(self.op, call, numbers))
            sample |= self.call(call)
            run = record.Run(self.op, wide(call), seed, second)
            bound = bounds(self.op, wide(call), seed, second, run.all())
        except (RuntimeError, ValueError, IndexError, record.Skip):
            self.tensors = before
            return
        n, m = len(run.results), len(run.leaves)
        self.allow(bound, run, call)
        entries = [self.entry(t, b) for t, b in zip(run.all(), bound)]
        sample["outputs"] = [e | ({"grad": True} if w else {}) for e, w in zip(entries, run.wanted)]
        leaves = [e for e, t in zip(record.walk(sample["args"] + list(sample["kwargs"].values())),
                                    record.tensors_in(call)) if t.requires_grad]
        for i, leaf in enumerate(leaves if any(run.wanted) else []):
            leaf["grad"] = entries[n + i] or {"rtol": 0, "atol": 0}
            if second and all(t is None or t.isfinite().all() for t in run.first):
                leaf["second"] = entries[n + m + i] or {"rtol": 0, "atol": 0}
        self.samples.append(sample)


def record_number(options, i):
    op = op_db[i]
    numbers = random.Random(f"{options.seed} {op.name} {op.variant_test_name}")
    file = File(op)
    for call in special.calls_of(op):
        for _ in range(options.calls):
            file.add_extreme(call, numbers)
    if file.samples:
        file.save(options.directory, options.seed)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("brasa")
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--calls", type=int, default=20, help="calls with random values for each sample")
    parser.add_argument("--only", nargs="*")
    options = parser.parse_args()
    listed = subprocess.run([options.brasa, "check", "--list-ops"], stdout=subprocess.PIPE, check=True)
    names = {op["name"] for op in json.loads(listed.stdout)} & set(options.only or [op.name for op in op_db])
    options.directory.mkdir(parents=True, exist_ok=True)
    chosen = [i for i, op in enumerate(op_db) if op.name in names and special.is_compared(op, LEFT_OUT)]
    with multiprocessing.Pool(initializer=record.be_quiet) as pool:
        pool.map(functools.partial(record_number, options), chosen, chunksize=1)


if __name__ == "__main__":
    main()
