#!/usr/bin/env python3
"""record_lbfgs.py >lbfgs_values.h

Records steps of torch.optim.LBFGS for test_lbfgs.c, which minimize two losses of the parameters a [3] and
b [2, 2], x together: Rosenbrock's function, a sum of squares and fourth powers, and waves. After each step, a
line has the loss before it, x, and how often the loss was computed so far."""
import torch

CASES = {
    "plain": ("powers", {"lr": 0.5}),
    "options": ("powers", {"lr": 0.2, "max_iter": 4, "max_eval": 6, "history_size": 3, "tolerance_change": 1e-6}),
    "tolerant": ("powers", {"lr": 0.5, "tolerance_grad": 1e-2}),
    "small": ("rosenbrock", {"lr": 1e-3, "max_iter": 5, "tolerance_change": 1e-3}),
    "maximize": ("negative", {"lr": 0.3, "max_iter": 5, "maximize": True}),
    "wolfe": ("rosenbrock", {"line_search_fn": "strong_wolfe", "max_iter": 8}),
    "wolfe_short": ("rosenbrock", {"line_search_fn": "strong_wolfe", "max_iter": 6, "max_eval": 9, "history_size": 2}),
    "wolfe_large": ("rosenbrock", {"line_search_fn": "strong_wolfe", "lr": 50, "max_iter": 5}),
    "wolfe_small": ("rosenbrock", {"line_search_fn": "strong_wolfe", "lr": 1e-3, "max_iter": 5}),
    # In these, the second trial rises; two trials are close to an end; the slope changes at the higher end.
    "waves_rise": ((9, 0.1, 0.01, 3), {"line_search_fn": "strong_wolfe", "lr": 2, "max_iter": 3}),
    "waves_close": ((2, 1, 0.01, 2), {"line_search_fn": "strong_wolfe", "lr": 5, "max_iter": 3}),
    "waves_slope": ((2, 0.3, 0, 2), {"line_search_fn": "strong_wolfe", "lr": 5, "max_iter": 3}),
}
STEPS = 6


def loss_of(name, x):
    if name == "rosenbrock":
        return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()
    if isinstance(name, tuple):
        frequency, squares, fourth, _ = name
        return (torch.sin(frequency * x) + squares * x ** 2 + fourth * x ** 4).sum() + torch.sin(x[0] * x[1])
    weights = torch.arange(1, 8, dtype=x.dtype)
    loss = (weights * (x - 0.5) ** 2 + x ** 4).sum()
    return -loss if name == "negative" else loss


print("/* Made by record_lbfgs.py with PyTorch", torch.__version__.split("+")[0] + ". */")
print("/* clang-format off */")
print(f"enum {{ LBFGS_STEPS = {STEPS} }};")
for case, (loss_name, options) in CASES.items():
    start = torch.cos(torch.arange(7, dtype=torch.float64)) * (loss_name[3] if isinstance(loss_name, tuple) else 1)
    a, b = start[:3].clone().requires_grad_(), start[3:].view(2, 2).clone().requires_grad_()
    optim = torch.optim.LBFGS([a, b], **options)

    def closure():
        optim.zero_grad()
        loss = loss_of(loss_name, torch.cat([a, b.flatten()]))
        loss.backward()
        return loss

    print(f"static const double lbfgs_{case}[LBFGS_STEPS][9] = {{")
    for _ in range(STEPS):
        loss = optim.step(closure).item()
        row = [loss, *a.tolist(), *b.flatten().tolist(), optim.state[a]["func_evals"]]
        print("    { " + ", ".join(map(repr, row)) + " },")
    print("};")
