#!/usr/bin/env python3
"""Writes range_cases.txt for test_ranges.c: results of torch.linspace and torch.arange.

A line is "linspace dtype start end steps hash" or "arange dtype start end step hash n". The hash is
FNV-1a over 64-bit words, one for the bits of each element. Run this on a machine with AVX2: with other
vector lengths PyTorch rounds some elements of arange differently."""
import os
import random

import torch

WORDS = {torch.float32: (torch.int32, "f32"), torch.float64: (torch.int64, "f64")}
ENDS = [(0, 1), (-1, 1), (0.1, 0.9), (3, -7), (1e-3, 1e5), (1 / 3, 2 / 3), (5, 5), (-2e30, 1e-20), (-3.4e38, 3.4e38)]
STEPS = [0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 100, 257, 1000, 4096, 40001]


def hash_of(t):
    words, _ = WORDS[t.dtype]
    h = 0xCBF29CE484222325
    for word in t.view(words).tolist():
        h = ((h ^ (word & 0xFFFFFFFFFFFFFFFF)) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{h:016x}"


def lines(rng):
    for dtype, (_, name) in WORDS.items():
        for i, steps in enumerate(STEPS):
            for start, end in (ENDS[i % len(ENDS)], ENDS[i * 5 % len(ENDS)], (rng.uniform(-9, 9), rng.uniform(-9, 9))):
                t = torch.linspace(start, end, steps, dtype=dtype)
                yield f"linspace {name} {float(start).hex()} {float(end).hex()} {steps} {hash_of(t)}"
        for steps in STEPS[1:]:
            for start, step in ((0, 0.1), (rng.uniform(-5, 5), 1 / 3), (1, -rng.uniform(0.01, 1))):
                end = start + step * (steps - 0.5)
                t = torch.arange(start, end, step, dtype=dtype)
                yield f"arange {name} {float(start).hex()} {end.hex()} {float(step).hex()} {hash_of(t)} {len(t)}"


def main():
    torch.set_num_threads(1)
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "range_cases.txt")
    with open(path, "w") as out:
        out.writelines(line + "\n" for line in lines(random.Random(7)))


if __name__ == "__main__":
    main()
