"""record_cases.py [LABEL...]

Writes torch_cases.txt: PyTorch's results and gradients of the expressions in torch_cases.def. Each line
is one tensor: label, "y" or "dx" and the number of the input, sizes, and elements. With labels, only these
rows are recorded: the last digits of the others depend on the CPU."""
import os
import re
import sys
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


def recorded(path):
    """Returns the lines of each label."""
    lines = {}
    for text in open(path):
        lines.setdefault(text.split(" ", 1)[0], []).append(text.rstrip("\n"))
    return lines


def lines_of(kind, label, expression, inputs):
    x = [make_input(spec, i + 1) for i, spec in enumerate(re.findall(r'"(.*?)"', inputs))]
    if kind == "REFUSE":
        assert refuses(expression, x), f"{label}: PyTorch accepts it"
        return []
    y, grads = evaluate(expression, x)
    return [line(label, "y", y)] + [line(label, f"dx{i}", g) for i, g in grads.items()]


def main():
    warnings.filterwarnings("ignore")
    path, labels = os.path.join(HERE, "torch_cases.txt"), sys.argv[1:]
    rows = [match.groups() for match in map(ROW.match, open(os.path.join(HERE, "torch_cases.def"))) if match]
    unknown = set(labels) - {label for _, label, *_ in rows}
    if unknown:
        sys.exit(f"torch_cases.def has no rows {sorted(unknown)}")
    before = recorded(path) if labels else {}
    lines = []
    for row in rows:
        lines += lines_of(*row) if not labels or row[1] in labels else before.get(row[1], [])
    with open(path, "w") as out:
        out.writelines(text + "\n" for text in lines)


main()
