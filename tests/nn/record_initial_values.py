#!/usr/bin/env python3
"""Writes initial_values.h, for test_initial_values.c: the parameters that a sequence of PyTorch's
constructors and nn.init functions creates from each seed."""
import os

import torch
from torch import nn

SEEDS = [0, 42, 2**32 + 5]


def values(seed):
    torch.manual_seed(seed)
    layers = [
        nn.Linear(3, 4),
        nn.Embedding(5, 3, padding_idx=1),
        nn.LayerNorm(4),
        nn.Linear(20, 2, bias=False),
        nn.Embedding(4, 6),
        nn.Linear(7, 1),
    ]
    tensors = [p for layer in layers for p in layer.parameters()]
    for init in [
        nn.init.xavier_uniform_,
        nn.init.xavier_normal_,
        lambda t: nn.init.kaiming_uniform_(t, a=0.5),
        nn.init.kaiming_normal_,
        lambda t: nn.init.trunc_normal_(t, mean=0.5, std=2.0, a=-1.0, b=1.5),
    ]:
        tensors.append(init(torch.empty(3, 7)))
    tensors.append(torch.rand(1))
    return torch.cat([t.detach().reshape(-1) for t in tensors]).tolist()


def main():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "initial_values.h")
    rows = [(seed, values(seed)) for seed in SEEDS]
    with open(path, "w") as out:
        out.write("/* tests/nn/initial_values.h - written by record_initial_values.py. */\n\n")
        out.write("/* clang-format off */\n")
        out.write("static const struct {\n    uint64_t seed;\n")
        out.write(f"    float values[{len(rows[0][1])}];\n}} initial_values[] = {{\n")
        for seed, numbers in rows:
            out.write(f"    {{ {seed}u, {{\n")
            for i in range(0, len(numbers), 6):
                line = ", ".join(v.hex().replace("000000p", "p") + "f" for v in numbers[i : i + 6])
                out.write(f"        {line},\n")
            out.write("    } },\n")
        out.write("};\n/* clang-format on */\n")


if __name__ == "__main__":
    main()
