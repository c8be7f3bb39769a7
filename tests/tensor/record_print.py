#!/usr/bin/env python3
"""Writes print_cases.txt for test_print.c: tensors and the text that PyTorch prints for them.

A case is a line "dtype | sizes | strides or - | kind values", the text, and a line "---". The
values are either "list" followed by hexadecimal floats or integers, or "steps n scale offset",
where element i is offset + scale * ((i * 2654435761 mod 2^32) >> n).
"""
import os
import random

import torch
from torch import _tensor_str

DTYPES = {torch.float32: "f32", torch.float64: "f64", torch.int64: "i64", torch.bool: "bool"}
SPECIAL = [0.0, -0.0, float("inf"), float("-inf"), float("nan")]


def text_of(t):
    """Returns repr(t) with Brasa's names of dtypes."""
    suffixes = []
    if t.numel() == 0:
        if t.dim() != 1:
            suffixes.append("size=" + str(tuple(t.shape)))
        if t.dtype != torch.float32:
            suffixes.append("dtype=" + DTYPES[t.dtype])
        content = "[]"
    else:
        if t.dtype == torch.float64:
            suffixes.append("dtype=f64")
        content = _tensor_str._tensor_str(t, len("tensor("))
    text = _tensor_str._add_suffixes("tensor(" + content, suffixes, len("tensor("), False)
    if "dtype=" not in text:
        assert text == repr(t)
    return text


def list_case(dtype, sizes, values, transposed=False):
    t = torch.tensor(values, dtype=dtype).reshape(sizes)
    strides = "-"
    if transposed:
        t = t.permute(*reversed(range(t.dim())))
        strides = ",".join(map(str, t.stride()))
    spelled = [float(v).hex() if dtype.is_floating_point else str(int(v)) for v in values]
    return t, strides, "list " + " ".join(spelled)


def steps_case(dtype, sizes, shift, scale, offset):
    n = 1
    for size in sizes:
        n *= size
    values = [offset + scale * ((i * 2654435761 % 2**32) >> shift) for i in range(n)]
    t = torch.tensor(values, dtype=torch.float64 if dtype.is_floating_point else torch.int64)
    return t.to(dtype).reshape(sizes), "-", f"steps {shift} {float(scale).hex()} {float(offset).hex()}"


def fixed_cases():
    f32, f64, i64, boolean = DTYPES
    for dtype in DTYPES:
        for sizes in [[0], [0, 3], [2, 0, 4], [3, 1, 0]]:
            yield list_case(dtype, sizes, [])
        yield list_case(dtype, [], [1])
        yield list_case(dtype, [1, 1, 1], [0])
    yield list_case(boolean, [0, 200, 200, 200, 200, 200, 200, 200], [])
    for value in [0.5, -3, 12345678, 1e8, 1.5e8, 1e-4, 9.9e-5, 3.4028234e38, 1e-45] + SPECIAL:
        yield list_case(f32, [], [value])
        yield list_case(f64, [2], [value, 1])
    for values in [[1, 1000], [1, 1001], [0.5, 500], [0.5, 501], [1, 2e8], [0.00009, 0.0001],
                   [0, 0.25, float("nan")], [1, float("nan"), float("-inf")], SPECIAL,
                   [1e-5, float("inf"), 0], [5e-324, 1.7e308], [99999999, 1e8], [0.99995, 0.99994],
                   [-0.00012, 0.1], [2.5, 0.12345], [0.00005, -1]]:
        yield list_case(f64, [len(values)], values)
    for nans in range(5):  # around the length at which the dtype moves to its own line
        yield list_case(f64, [15], [0.0] * (15 - nans) + [float("nan")] * nans)
    yield list_case(f32, [40], [0.0] * 40)
    yield list_case(f32, [30], [float("nan")] * 30)
    yield list_case(f32, [30], [float("-inf")] * 29 + [1])
    yield list_case(i64, [5], [0, -1, 2**63 - 1, -2**63, 7])
    yield list_case(i64, [3, 2, 2], range(-6, 6), transposed=True)
    yield list_case(f32, [4, 3], [i / 8 for i in range(12)], transposed=True)
    yield list_case(boolean, [2, 9], [i % 3 == 0 for i in range(18)])
    yield list_case(boolean, [20], [True] * 20)
    yield list_case(f32, [1, 2, 1, 2, 1, 2, 1, 2], range(16))
    yield list_case(f64, [1, 1, 1, 1, 1, 1, 1, 9], [i / 7 for i in range(9)])
    large = [[1001], [6, 168], [7, 7, 21], [101, 3, 4], [2, 2, 7, 37], [3, 334], [1, 1001], [1001, 1]]
    for i, sizes in enumerate(large):
        dtype = list(DTYPES)[i % 4]
        yield steps_case(dtype, sizes, 20 if dtype == i64 else 24, 1, -7)
        yield steps_case(f64 if i % 2 else f32, sizes, 5, 1e-3, 0.5)
    yield steps_case(f32, [1000], 31, 1, 0)
    yield steps_case(f32, [5, 23], 20, 0.001, -2)
    yield steps_case(i64, [100], 10, 1, 0)
    yield steps_case(f64, [7, 3, 5], 28, 0.5, -3)


def random_cases(count):
    rng = random.Random(3)
    for _ in range(count):
        dtype = rng.choice(list(DTYPES))
        sizes = [rng.choice([1, 1, 2, 3, 5]) for _ in range(rng.choice([1, 1, 2, 2, 3, 4]))]
        if rng.random() < 0.3:
            sizes[-1] = rng.randint(6, 30)
        n = torch.Size(sizes).numel()
        if n > 60:
            continue
        scale = 10.0 ** rng.randint(-6, 9)
        whole = rng.random() < 0.3
        spread = rng.choice([0, 0, 1, 3])
        values = [rng.gauss(0, 1) * scale * 10.0 ** rng.uniform(-spread, spread) for _ in range(n)]
        if whole or dtype == torch.int64:
            values = [float(round(v)) for v in values]
        if dtype == torch.bool:
            values = [v > 0 for v in values]
        elif dtype.is_floating_point and rng.random() < 0.2:
            values[rng.randrange(n)] = rng.choice(SPECIAL)
        if dtype == torch.float32:  # the recorded values must be exactly those of the tensor
            values = torch.tensor(values, dtype=torch.float32).tolist()
        yield list_case(dtype, sizes, values, transposed=rng.random() < 0.3)


def main():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "print_cases.txt")
    with open(path, "w") as out:
        for t, strides, values in [*fixed_cases(), *random_cases(90)]:
            sizes = ",".join(map(str, t.shape)) or "-"
            out.write(f"{DTYPES[t.dtype]} | {sizes} | {strides} | {values}\n{text_of(t)}\n---\n")


if __name__ == "__main__":
    main()
