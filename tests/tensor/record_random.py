#!/usr/bin/env python3
"""Writes random_cases.txt for test_random.c: numbers from PyTorch's CPU generator.

"seed S" starts a sequence. Each line after it is a call that continues the random stream of the
previous one: "op dtype a b sizes strides values". a and b are low and high, or mean and standard
deviation. strides are given if the target is a view, and are "-" otherwise. values are at most
the last 32 elements of the tensor in row-major order, as bits of floats or as integers. linear_weight,
linear_bias (a is in_features) and embedding are the initial parameters of a layer.
"""
import os
import struct

import torch

SHOWN = 32
F32, F64 = torch.float32, torch.float64
SEEDS = [0, 1, 42, 2**32 + 5, 2**64 - 1, 67280421310721]


def spell(t):
    values = t.detach().reshape(-1)[-SHOWN:].tolist()
    if t.dtype == F32:
        return " ".join("%08x" % struct.unpack("<I", struct.pack("<f", v)) for v in values)
    if t.dtype == F64:
        return " ".join("%016x" % struct.unpack("<Q", struct.pack("<d", v)) for v in values)
    return " ".join(map(str, values))


def line(op, t, a, b, strides="-"):
    name = {F32: "f32", F64: "f64", torch.int64: "i64"}[t.dtype]
    sizes = ",".join(map(str, t.shape)) or "-"
    return f"{op} {name} {a} {b} {sizes} {strides} {spell(t)}"


def view_line(op, dtype, base, change, a, b):
    t = change(torch.zeros(base, dtype=dtype))
    getattr(t, op)(a, b)
    return line(op, t, a, b, ",".join(map(str, t.stride())))


def calls():
    yield line("rand", torch.rand(5), 0.0, 1.0)
    # The generator produces normal numbers in pairs and keeps the second one for a later call, even
    # across other functions and from f64 to f32.
    for n in [1, 2, 15, 16, 17, 31, 32, 100]:
        yield line("randn", torch.randn(n), 0.0, 1.0)
    yield line("randn", torch.randn(3, dtype=F64), 0.0, 1.0)
    yield line("rand", torch.rand(2, dtype=F64), 0.0, 1.0)
    yield line("randn", torch.randn(4), 0.0, 1.0)
    yield line("randn", torch.randn(3, 7, dtype=F64), 0.0, 1.0)
    yield line("randn", torch.randn([]), 0.0, 1.0)
    yield line("rand", torch.rand(0, 3), 0.0, 1.0)
    for low, high in [(0, 2), (-5, 70), (0, 2**28 - 1), (0, 2**28), (-3, 2**32), (0, 2**40),
                      (-(2**63), 2**63 - 1)]:
        yield line("randint", torch.randint(low, high, (2, 3)), low, high)
    for n in [0, 1, 2, 12, 1000]:
        yield line("randperm", torch.randperm(n), 0, n)
    for low, high in [(-0.1, 0.3), (2.0, 2.0), (0.0, 1e30), (1.0, 1.0000001)]:
        yield line("uniform_", torch.empty(9).uniform_(low, high), low, high)
        yield line("uniform_", torch.empty(9, dtype=F64).uniform_(low, high), low, high)
    for mean, std in [(0.0, 0.02), (-3.0, 0.5), (1.0, 0.0)]:
        yield line("normal_", torch.empty(7).normal_(mean, std), mean, std)
        yield line("normal_", torch.empty(50).normal_(mean, std), mean, std)
        yield line("normal_", torch.empty(18, dtype=F64).normal_(mean, std), mean, std)
    for op in ["uniform_", "normal_"]:
        yield view_line(op, F32, (5, 4), lambda t: t.t(), 0.0, 1.0)
        yield view_line(op, F64, (5, 6), lambda t: t[:, ::2], -1.0, 2.0)
        yield view_line(op, F32, (3, 4, 5), lambda t: t.permute(1, 2, 0)[1:, :, :2], 0.5, 1.5)
        yield view_line(op, F32, (40,), lambda t: t[3:39:2], 0.0, 0.25)
    yield line("rand", torch.rand(5003), 0.0, 1.0)
    yield line("randn", torch.randn(70001), 0.0, 1.0)
    for n_in, n_out in [(3, 4), (40, 2)]:
        layer = torch.nn.Linear(n_in, n_out)
        yield line("linear_weight", layer.weight, n_in, 0)
        yield line("linear_bias", layer.bias, n_in, 0)
    for rows, size in [(3, 4), (9, 5)]:
        yield line("embedding", torch.nn.Embedding(rows, size).weight, 0, 1)
    norm = torch.nn.LayerNorm(3)  # generates no random numbers
    assert norm.weight.eq(1).all() and norm.bias.eq(0).all()
    yield line("rand", torch.rand(1), 0.0, 1.0)


def main():
    torch.set_num_threads(1)
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "random_cases.txt")
    with open(path, "w") as out:
        for seed in SEEDS:
            torch.manual_seed(seed)
            out.write(f"seed {seed}\n")
            for text in calls():
                out.write(text.rstrip() + "\n")


if __name__ == "__main__":
    main()
