"""Writes averaged_values.h: averages of a parameter computed by torch.optim.swa_utils.AveragedModel.
Usage: python record_averaged.py > averaged_values.h

Element i of the parameter [3] is sin(i + t) in step t. The averages after steps 1, 2, 5 and 20 are
recorded, in f64."""
import textwrap

import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

CASES = {"ema": get_ema_multi_avg_fn(0.9), "mean": None}


def averages(function):
    model = torch.nn.Linear(3, 1, bias=False, dtype=torch.float64)
    averaged = AveragedModel(model, multi_avg_fn=function)
    for t in range(1, 21):
        with torch.no_grad():
            model.weight.copy_(torch.sin(torch.arange(3, dtype=torch.float64) + t))
        averaged.update_parameters(model)
        if t in (1, 2, 5, 20):
            yield from averaged.module.weight.flatten().tolist()


print("/* Made by record_averaged.py with PyTorch", torch.__version__.split("+")[0] + ". */")
print("/* clang-format off */")
for name, function in CASES.items():
    values = ", ".join(repr(v) for v in averages(function))
    print(f"static const double {name}_values[] = {{")
    print(textwrap.fill(values, 99, initial_indent="    ", subsequent_indent="    "), "\n};", sep="")
