"""Writes init_matrix_values.h: results of nn.init's sparse_, dirac_ and orthogonal_ from seed 11.
Usage: python record_init_matrix.py > init_matrix_values.h"""
import textwrap

import torch
from torch import nn

CASES = {
    "sparse": ((5, 3), lambda t: nn.init.sparse_(t, 0.5, 0.1)),
    "dirac": ((4, 3, 3), lambda t: nn.init.dirac_(t, 2)),
    "dirac_plane": ((2, 3, 2, 3), lambda t: nn.init.dirac_(t)),
    "orthogonal_wide": ((3, 5), lambda t: nn.init.orthogonal_(t, 1.5)),
    "orthogonal_tall": ((5, 3), lambda t: nn.init.orthogonal_(t)),
    "orthogonal_square": ((4, 4), lambda t: nn.init.orthogonal_(t)),
    "orthogonal_kernel": ((2, 3, 2), lambda t: nn.init.orthogonal_(t)),
}

print("/* Made by record_init_matrix.py with PyTorch", torch.__version__.split("+")[0] + ". */")
print("/* clang-format off */")
for name, (shape, fill) in CASES.items():
    torch.manual_seed(11)
    values = fill(torch.ones(shape, dtype=torch.float64)).flatten().tolist()
    print(f"static const double {name}_values[] = {{")
    print(textwrap.fill(", ".join(repr(v) for v in values), 99, initial_indent="    ",
                        subsequent_indent="    "), "\n};", sep="")
