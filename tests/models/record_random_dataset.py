#!/usr/bin/env python3
"""Records the first samples of the notebook's RandomDataset after np.random.seed(), drawn by NumPy.

    record_random_dataset.py > random_dataset_values.h
"""
import numpy as np

CASES = [(0, 100, 10), (1, 2, 3), (2, 3, 6), (3, 65, 7), (4, 66, 5), (123456789, 2**31 - 1, 4)]

print("/* Samples of the notebook's RandomDataset, made by record_random_dataset.py. */")
print("static const struct {")
print("    uint64_t seed;")
print("    int64_t vocabulary_size, sample_length, samples[3][10];")
print("} random_dataset_values[] = {")
for seed, vocabulary_size, length in CASES:
    np.random.seed(seed)
    samples = [np.random.randint(1, vocabulary_size, size=(length,)) for _ in range(3)]
    for data in samples:
        data[0] = 1
    rows = ", ".join("{ " + ", ".join(map(str, data)) + " }" for data in samples)
    print(f"    {{ {seed}, {vocabulary_size}, {length}, {{ {rows} }} }},")
print("};")
