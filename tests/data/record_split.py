"""Writes split_values.h: the results of torch's random_split, and the next number of the generator after them.
Usage: python record_split.py > split_values.h"""
import textwrap

import torch
from torch.utils.data import TensorDataset, random_split

print("/* Made by record_split.py with PyTorch", torch.__version__.split("+")[0] + ". */")
print("/* clang-format off */")
print("#include <stdint.h>\n")
for name, seed, n, parts in (("lengths", 42, 10, (7, 0, 3)), ("fractions", 3, 23, (0.5, 0.3, 0.2)),
                             ("thirds", 9, 11, (1 / 3, 1 / 3, 1 / 3))):
    torch.manual_seed(seed)
    subsets = random_split(TensorDataset(torch.arange(n)), parts)
    items = [i for subset in subsets for i in subset.indices]
    print(f"static const int64_t {name}_sizes[] = {{", ", ".join(str(len(s)) for s in subsets), "};")
    print(f"static const int64_t {name}_items[] = {{")
    print(textwrap.fill(", ".join(map(str, items)), 96, initial_indent="    ",
                        subsequent_indent="    "), "\n};", sep="")
    print(f"static const double after_{name} = {torch.rand(1, dtype=torch.float64).item()!r};")
