"""Writes nucleus_values.h: the tokens that transformers' warpers keep.
Usage: python record_nucleus.py > nucleus_values.h"""
import itertools

import torch
import transformers
from transformers.generation import logits_process as warpers

INF = float("inf")
LOGITS = {
    "equal": [0.0, 0.0, 0.0, 0.0],
    "two_pairs": [1.0, 0.0, 1.0, 0.0],
    "ties_below": [2.0, 0.5, 0.5, 0.5, 0.5, 0.5],
    "ties_above": [0.0, 3.0, 3.0, -1.0, 3.0, 0.0],
    "distinct": [0.3, 1.7, -0.4, 2.2, 0.9, -3.0, 1.1],
    "excluded": [0.0, -INF, 0.0, -INF, 0.0],
}
TOP_P = [0.01, 0.25, 0.3, 0.5, 0.6, 0.75, 0.9, 0.99]
OTHERS = [(0, 0.0), (1, 0.0), (2, 0.0), (3, 0.0), (0, 0.2), (3, 0.5)]

print("/* Made by record_nucleus.py with transformers", transformers.__version__ + ". */")
print("/* clang-format off */")
print("#include <math.h>\n#include <stdint.h>\n")
print("static const struct nucleus_case {")
print("    const char *name;\n    int n;\n    float logits[8];\n    int64_t top_k;\n    double top_p, min_p;")
print("    unsigned kept; /* bit i: token i */\n} nucleus_cases[] = {")
for (name, logits), top_p, (top_k, min_p) in itertools.product(LOGITS.items(), TOP_P, OTHERS):
    scores = torch.tensor([logits])
    if top_k:
        scores = warpers.TopKLogitsWarper(top_k)(None, scores)
    scores = warpers.TopPLogitsWarper(top_p)(None, scores)
    if min_p:
        scores = warpers.MinPLogitsWarper(min_p)(None, scores)
    kept = sum(1 << i for i, v in enumerate(scores[0].tolist()) if v > -INF)
    values = ", ".join("-INFINITY" if v == -INF else repr(v) + "F" for v in logits)
    print(f'    {{ "{name}", {len(logits)}, {{ {values} }}, {top_k}, {top_p}, {min_p}, {kept:#x} }},')
print("};")
