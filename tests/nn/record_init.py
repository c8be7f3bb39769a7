"""Writes init_values.h: results of nn.init from seed 11. Usage: python record_init.py > init_values.h"""
import textwrap

import torch
from torch import nn


def table(name, tensor):
    values = ", ".join(repr(v) for v in tensor.detach().double().flatten().tolist())
    print(f"static const double {name}[] = {{")
    print(textwrap.fill(values, 99, initial_indent="    ", subsequent_indent="    "), "\n};", sep="")


print("/* Made by record_init.py with PyTorch", torch.__version__.split("+")[0] + ". */")
print("/* clang-format off */")

INIT = {
    "uniform": lambda t: nn.init.uniform_(t, -2.0, 3.0),
    "normal": lambda t: nn.init.normal_(t, 1.0, 0.5),
    "xavier_uniform": lambda t: nn.init.xavier_uniform_(t, 1.5),
    "xavier_normal": lambda t: nn.init.xavier_normal_(t, 1.5),
    "kaiming_uniform": lambda t: nn.init.kaiming_uniform_(t, a=0.3),
    "kaiming_normal": lambda t: nn.init.kaiming_normal_(t, a=0.3),
    "kaiming_uniform_out": lambda t: nn.init.kaiming_uniform_(t, 0, "fan_out", "tanh"),
    "kaiming_normal_out": lambda t: nn.init.kaiming_normal_(t, 0, "fan_out", "relu"),
    "trunc_normal": lambda t: nn.init.trunc_normal_(t, 0.5, 2.0, -1.0, 2.0),
    "trunc_tail": lambda t: nn.init.trunc_normal_(t, 0.0, 1.0, 1.5, 4.0),
}
for dtype, suffix in ((torch.float32, "f32"), (torch.float64, "f64")):
    for name, fill in INIT.items():
        torch.manual_seed(11)
        table(f"{name}_{suffix}", fill(torch.empty(3, 4, 2, dtype=dtype)))
