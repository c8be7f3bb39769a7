"""Writes scheduler_values.h: learning rates of torch.optim.lr_scheduler.
Usage: python record_schedulers.py > scheduler_values.h

The optimizer has two groups with rates 0.1 and 0.03. Each table holds the first group's rate before the
first step and after each of 100 steps, then the second group's rate before the first and after every
fifth step. ReduceLROnPlateau gets metric(t) in step t."""
import math
import textwrap
import warnings

import torch
from torch.optim import lr_scheduler as lr

warnings.simplefilter("ignore")
STEPS = 100


def metric(t):
    return 1.0 / (1 + t // 3) if t < 24 else 0.11 + 0.01 * (t % 5)


def sequence(o):
    return lr.SequentialLR(o, [lr.LinearLR(o, 0.1, 1.0, 10), lr.CosineAnnealingLR(o, 40, 1e-3),
                               lr.StepLR(o, 7, 0.5), lr.CosineAnnealingWarmRestarts(o, 9)],
                           [10, 50, 71])


def chained(o):
    """Two schedulers whose factors multiply."""
    return [lr.ConstantLR(o, 0.25, 6), lr.ExponentialLR(o, 0.97)]


CASES = {
    "step_lr": lambda o: lr.StepLR(o, 9, 0.7),
    "multi_step": lambda o: lr.MultiStepLR(o, [3, 20, 20, 61], 0.3),
    "exponential": lambda o: lr.ExponentialLR(o, 0.93),
    "constant": lambda o: lr.ConstantLR(o, 1 / 3, 12),
    "linear": lambda o: lr.LinearLR(o, 0.05, 0.9, 37),
    "cosine": lambda o: lr.CosineAnnealingLR(o, 33, 2e-3),
    "restarts": lambda o: lr.CosineAnnealingWarmRestarts(o, 7, 2, 1e-3),
    "restarts_even": lambda o: lr.CosineAnnealingWarmRestarts(o, 11),
    "lambda": lambda o: lr.LambdaLR(o, [lambda t: 0.95 ** t, lambda t: 1 / math.sqrt(1 + t)]),
    "one_cycle": lambda o: lr.OneCycleLR(o, 0.5, total_steps=100),
    "one_cycle_options": lambda o: lr.OneCycleLR(
        o, [0.5, 0.2], total_steps=110, pct_start=0.25, anneal_strategy="linear", base_momentum=0.6,
        max_momentum=0.9, div_factor=10.0, final_div_factor=1e3, three_phase=True),
    "plateau": lambda o: lr.ReduceLROnPlateau(o, patience=4),
    "plateau_options": lambda o: lr.ReduceLROnPlateau(
        o, mode="max", factor=0.5, patience=2, threshold=0.05, threshold_mode="abs", cooldown=3,
        min_lr=4e-3),
    "sequential": sequence,
    "sequential_one_cycle": lambda o: lr.SequentialLR(
        o, [lr.ConstantLR(o, 0.5, 30), lr.OneCycleLR(o, 0.2, total_steps=90)], [20]),
    "chained": chained,
}


def rates(make):
    weights = [torch.nn.Parameter(torch.zeros(1)) for _ in range(2)]
    optim = torch.optim.SGD([{"params": weights[:1]}, {"params": weights[1:], "lr": 0.03}], lr=0.1)
    made = make(optim)
    schedulers = made if isinstance(made, list) else [made]
    table = [[g["lr"] for g in optim.param_groups]]
    momenta = [optim.param_groups[0]["momentum"]]
    for t in range(STEPS):
        for s in schedulers:
            s.step(metric(t)) if isinstance(s, lr.ReduceLROnPlateau) else s.step()
        table.append([g["lr"] for g in optim.param_groups])
        momenta.append(optim.param_groups[0]["momentum"])
    return [row[0] for row in table] + [row[1] for row in table[::5]], momenta


def show(name, values):
    print(f"static const double {name}_rates[] = {{")
    text = ", ".join(repr(float(v)) for v in values)
    print(textwrap.fill(text, 99, initial_indent="    ", subsequent_indent="    "), "\n};", sep="")


if __name__ == "__main__":
    print("/* Made by record_schedulers.py with PyTorch", torch.__version__.split("+")[0] + ". */")
    print("/* clang-format off */")
    for name, make in CASES.items():
        values, momenta = rates(make)
        show(name, values)
        if name.startswith("one_cycle"):
            show(name + "_momentum", momenta)
