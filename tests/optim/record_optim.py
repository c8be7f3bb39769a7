"""Writes optim_values.h: trajectories of parameters under torch.optim's optimizers.
Usage: python record_optim.py > optim_values.h
       python record_optim.py NAME... >> optim_values.h
The second form adds the cases named. The last digits depend on the CPU, so add new cases in this way.

The parameters a [5] and b [2, 3] start from cos(i / 2). The gradient of element i in step t is
sin(0.3 i + 0.7 t). b has no gradient in steps 3 and 20. Values are recorded after steps 1, 2, 5, 10
and 50.

Muon only updates b. PyTorch runs Muon's iteration in bfloat16. This script replaces torch.bfloat16 in the
code of Muon, so that the iteration runs in the precision of the parameter."""
import math
import sys
import textwrap

import torch
from torch.optim import _muon


class InPrecisionOf:
    """Stands in for the module torch, with bfloat16 replaced by another dtype."""

    def __init__(self, dtype):
        self.bfloat16 = dtype

    def __getattr__(self, name):
        return getattr(torch, name)


def muon(parameters, **options):
    b = parameters[1]
    _muon.torch = InPrecisionOf(b.dtype)
    return torch.optim.Muon([b], **options)


def groups(make, parameters, first, second):
    return make([{"params": parameters[:1], **first}, {"params": parameters[1:], **second}],
                foreach=False)


class Lion(torch.optim.Optimizer):
    """Algorithm 2 of Chen et al., 2023."""

    def __init__(self, parameters, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0, maximize=False):
        super().__init__(parameters, {"lr": lr, "betas": betas, "decay": weight_decay, "maximize": maximize})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                g = -p.grad if group["maximize"] else p.grad
                m = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                update = (beta1 * m + (1 - beta1) * g).sign()
                p.sub_(group["lr"] * (update + group["decay"] * p))
                self.state[p]["exp_avg"] = beta2 * m + (1 - beta2) * g


class SparseAdam(torch.optim.SparseAdam):
    """Leaves out the rows of the dense gradient that are all zeros."""

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    rows = p.grad.flatten(1).any(1) if p.dim() > 1 else p.grad != 0
                    p.grad = torch.sparse_coo_tensor(rows.nonzero().T, p.grad[rows], p.shape)
        super().step()


CASES = {
    "adam": lambda p: torch.optim.Adam(p, lr=0.1, foreach=False),
    "adam_options": lambda p: torch.optim.Adam(
        p, lr=0.05, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1, foreach=False),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, foreach=False),
    "sgd_momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, foreach=False),
    "sgd_dampening": lambda p: torch.optim.SGD(
        p, lr=0.1, momentum=0.9, dampening=0.5, weight_decay=0.2, foreach=False),
    "sgd_nesterov": lambda p: torch.optim.SGD(
        p, lr=0.1, momentum=0.8, nesterov=True, weight_decay=0.1, foreach=False),
    "adam_amsgrad": lambda p: torch.optim.Adam(
        p, lr=0.1, betas=(0.5, 0.6), amsgrad=True, foreach=False),
    "adamw": lambda p: torch.optim.AdamW(p, foreach=False),
    "adamw_options": lambda p: torch.optim.AdamW(
        p, lr=0.05, betas=(0.8, 0.6), eps=1e-3, weight_decay=0.2, amsgrad=True, foreach=False),
    "adamw_groups": lambda p: groups(
        torch.optim.AdamW, p, {"lr": 0.05, "weight_decay": 0.3}, {"lr": 0.02, "weight_decay": 0.0}),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.05, foreach=False),
    "rmsprop_momentum": lambda p: torch.optim.RMSprop(
        p, lr=0.02, alpha=0.9, eps=1e-4, momentum=0.7, foreach=False),
    "rmsprop_centered": lambda p: torch.optim.RMSprop(
        p, lr=0.02, alpha=0.8, eps=1e-2, weight_decay=0.1, momentum=0.5, centered=True,
        foreach=False),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1, foreach=False),
    "adagrad_options": lambda p: torch.optim.Adagrad(
        p, lr=0.2, lr_decay=0.05, weight_decay=0.1, initial_accumulator_value=0.3, eps=1e-3,
        foreach=False),
    "adam_maximize": lambda p: torch.optim.Adam(
        p, lr=0.05, weight_decay=0.1, maximize=True, foreach=False),
    "adamw_maximize": lambda p: torch.optim.AdamW(
        p, lr=0.05, betas=(0.8, 0.6), amsgrad=True, maximize=True, foreach=False),
    "sgd_maximize": lambda p: torch.optim.SGD(
        p, lr=0.02, weight_decay=0.3, maximize=True, foreach=False),
    "sgd_maximize_nesterov": lambda p: torch.optim.SGD(
        p, lr=0.02, momentum=0.7, nesterov=True, weight_decay=0.3, maximize=True, foreach=False),
    "rmsprop_maximize": lambda p: torch.optim.RMSprop(
        p, lr=0.01, momentum=0.5, centered=True, eps=1e-2, weight_decay=0.1, maximize=True,
        foreach=False),
    "adagrad_maximize": lambda p: torch.optim.Adagrad(
        p, lr=0.1, weight_decay=0.1, maximize=True, foreach=False),
    "adadelta": lambda p: torch.optim.Adadelta(p, foreach=False),
    "adadelta_options": lambda p: torch.optim.Adadelta(
        p, lr=0.5, rho=0.7, eps=1e-3, weight_decay=0.1, maximize=True, foreach=False),
    "adamax": lambda p: torch.optim.Adamax(p, lr=0.1, foreach=False),
    "adamax_options": lambda p: torch.optim.Adamax(
        p, lr=0.05, betas=(0.8, 0.7), eps=1e-2, weight_decay=0.1, maximize=True, foreach=False),
    "nadam": lambda p: torch.optim.NAdam(p, lr=0.1, foreach=False),
    "nadam_options": lambda p: torch.optim.NAdam(
        p, lr=0.05, betas=(0.8, 0.7), eps=1e-3, weight_decay=0.2, momentum_decay=0.3, foreach=False),
    "nadam_decoupled": lambda p: torch.optim.NAdam(
        p, lr=0.05, weight_decay=0.2, decoupled_weight_decay=True, maximize=True, foreach=False),
    "radam": lambda p: torch.optim.RAdam(p, lr=0.1, foreach=False),
    "radam_options": lambda p: torch.optim.RAdam(
        p, lr=0.05, betas=(0.8, 0.7), eps=1e-3, weight_decay=0.2, foreach=False),
    "radam_decoupled": lambda p: torch.optim.RAdam(
        p, lr=0.05, weight_decay=0.2, decoupled_weight_decay=True, maximize=True, foreach=False),
    "rprop": lambda p: torch.optim.Rprop(p, foreach=False),
    "rprop_options": lambda p: torch.optim.Rprop(
        p, lr=0.05, etas=(0.3, 1.5), step_sizes=(0.02, 0.1), maximize=True, foreach=False),
    "adafactor": lambda p: torch.optim.Adafactor(p, foreach=False),
    "adafactor_options": lambda p: torch.optim.Adafactor(
        p, lr=0.2, beta2_decay=-0.5, eps=(1e-3, 0.5), d=1.2, weight_decay=0.1, maximize=True, foreach=False),
    "asgd": lambda p: torch.optim.ASGD(p, foreach=False),
    "asgd_options": lambda p: torch.optim.ASGD(
        p, lr=0.1, lambd=0.05, alpha=0.6, t0=8, weight_decay=0.1, maximize=True, foreach=False),
    "lion": lambda p: Lion(p, lr=0.01),
    "lion_options": lambda p: Lion(p, lr=0.02, betas=(0.7, 0.8), weight_decay=0.3, maximize=True),
    "sparse_adam": lambda p: SparseAdam(p, lr=0.1),
    "sparse_adam_options": lambda p: SparseAdam(p, lr=0.05, betas=(0.8, 0.7), eps=1e-3, maximize=True),
    "muon": lambda p: muon(p),
    "muon_options": lambda p: muon(
        p, lr=0.05, weight_decay=0.2, momentum=0.8, nesterov=False, ns_steps=3, eps=1e-3,
        ns_coefficients=(3.0, -3.2, 1.2), adjust_lr_fn="match_rms_adamw"),
    "muon_spectral": lambda p: muon(p, lr=0.05, adjust_lr_fn="spectral_unclamped"),
}


def filled(shape, dtype, function):
    n = math.prod(shape)
    return torch.tensor([function(i) for i in range(n)], dtype=torch.float64).to(dtype).view(shape)


def trajectory(make, dtype):
    a = filled((5,), dtype, lambda i: math.cos(0.5 * i)).requires_grad_()
    b = filled((2, 3), dtype, lambda i: math.cos(0.5 * i)).requires_grad_()
    optim = make([a, b])
    for t in range(1, 51):
        for p in (a, b):
            p.grad = filled(p.shape, dtype, lambda i: math.sin(0.3 * i + 0.7 * t))
        if t in (3, 20):
            b.grad = None
        optim.step()
        if t in (1, 2, 5, 10, 50):
            yield from a.double().tolist() + b.double().flatten().tolist()


if not sys.argv[1:]:
    print("/* Made by record_optim.py with PyTorch", torch.__version__.split("+")[0] + ". */")
    print("/* clang-format off */")
for name in sys.argv[1:] or CASES:
    make = CASES[name]
    for dtype, suffix in ((torch.float32, "f32"), (torch.float64, "f64")):
        values = ", ".join(repr(v) for v in trajectory(make, dtype))
        print(f"static const double {name}_{suffix}[] = {{")
        print(textwrap.fill(values, 99, initial_indent="    ", subsequent_indent="    "), "\n};", sep="")
