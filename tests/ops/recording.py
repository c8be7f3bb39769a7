"""Helpers for the scripts record_*.py that write C tables: inputs that the tests can reproduce, and tables
of exact (hexadecimal) numbers."""
import torch


def values(*sizes, seed):
    i = torch.arange(torch.Size(sizes).numel())
    return (((i * 37 + seed * 11) % 101 - 50).double() / 17).reshape(sizes)


def table(name, t):
    rows, flat = [], [float(x).hex() for x in t.detach().flatten()]
    for i in range(0, len(flat), 3):
        rows.append("    " + ", ".join(flat[i : i + 3]) + ",")
    print(f"static const double {name}[] = {{\n" + "\n".join(rows) + "\n};")
