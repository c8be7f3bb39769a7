"""Writes loader_values.h: the orders of items in torch's DataLoader, and the next number of the generator
after them. Usage: python record_loader.py > loader_values.h"""
import textwrap

import torch
from torch.utils.data import DataLoader, TensorDataset

print("/* Made by record_loader.py with PyTorch", torch.__version__.split("+")[0] + ". */")
print("/* clang-format off */")
print("#include <stdint.h>\n")
for seed, n in ((5, 10), (2**40 + 3, 7), (0, 33)):
    torch.manual_seed(seed)
    loader = DataLoader(TensorDataset(torch.arange(n)), batch_size=3, shuffle=True)
    order = [i for _ in range(3) for (batch,) in loader for i in batch.tolist()]
    print(f"static const int64_t order_{n}[] = {{")
    print(textwrap.fill(", ".join(map(str, order)), 96, initial_indent="    ",
                        subsequent_indent="    "), "\n};", sep="")
    print(f"static const double after_{n} = {torch.rand(1, dtype=torch.float64).item()!r};")
torch.manual_seed(5)
for _ in DataLoader(TensorDataset(torch.arange(4)), batch_size=2):
    pass
print(f"static const double after_unshuffled = {torch.rand(1, dtype=torch.float64).item()!r};")
