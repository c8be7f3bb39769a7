"""Writes torch_cases.txt: PyTorch's results and gradients of the expressions in torch_cases.def. Each line
is one tensor: label, "y" or "dx" and the number of the input, sizes, and elements."""
import os
import re
import warnings

import torch
import torch.nn.functional as F

from recording import values

HERE = os.path.dirname(os.path.abspath(__file__))
ROW = re.compile(r'(AGREE|REFUSE)\((\w+), "((?:[^"\\]|\\.)*)", .* INPUTS\((.*)\)\)$')


def make_input(spec, seed):
    shape, kind, bound = re.fullmatch(r"([\d ]*)([<?+]?)(\d*)", spec).groups()
    x = values(*map(int, shape.split()), seed=seed)
    if kind == "+":
        return (x.abs() + 0.5).requires_grad_()
    if not kind:
        return x.requires_grad_()
    numbers = (x * 17 + 50).round().long()
    return numbers % int(bound) if kind == "<" else numbers % 2 == 1


def line(label, what, t):
    t = t.detach()
    numbers = (float(v).hex() for v in t.double().flatten())
    return " ".join([label, what, "x".join(map(str, t.shape)) or ".", *numbers])


def running(norm, x):
    """Returns the running mean and variance after a call that updates them."""
    mean, var = torch.zeros(x.shape[1]).double(), torch.ones(x.shape[1]).double()
    norm(x.detach(), mean, var, momentum=0.25)
    return torch.stack([mean, var])


def evaluate(expression, x):
    names = {"torch": torch, "F": F, "x": x, "inf": float("inf"), "nan": float("nan"), "running": running}
    y = eval(expression, names)
    if not y.requires_grad:
        return y, {}
    wanted = {i: v for i, v in enumerate(x) if v.requires_grad}
    dy = values(*y.shape, seed=9)
    grads = torch.autograd.grad(y, list(wanted.values()), dy, allow_unused=True)
    return y, {i: g for i, g in zip(wanted, grads) if g is not None}


def refuses(expression, x):
    try:
        evaluate(expression, x)
    except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError, NameError, SyntaxError):
        return True
    return False


def main():
    warnings.filterwarnings("ignore")
    rows = [ROW.match(text) for text in open(os.path.join(HERE, "torch_cases.def"))]
    with open(os.path.join(HERE, "torch_cases.txt"), "w") as out:
        for kind, label, expression, inputs in (row.groups() for row in rows if row):
            x = [make_input(spec, i + 1) for i, spec in enumerate(re.findall(r'"(.*?)"', inputs))]
            if kind == "REFUSE":
                assert refuses(expression, x), f"{label}: PyTorch accepts it"
                continue
            y, grads = evaluate(expression, x)
            print(line(label, "y", y), file=out)
            for i, g in grads.items():
                print(line(label, f"dx{i}", g), file=out)


main()
