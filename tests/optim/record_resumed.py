"""Writes resumed_values.h: rates and momenta after torch.optim's optimizers and schedulers were loaded in different orders,
and trajectories of parameters under optimizers whose options change between the steps.
Usage: python record_resumed.py > resumed_values.h

A run of record_schedulers.py is saved after SAVED steps. The state is loaded into new objects in each of ORDERS. Each row
has the first group's rate, the second group's rate and the first group's momentum, after loading and after 1 and 6 more steps.

The trajectories begin with the parameter [1, 2]. The gradient of step t is [0.1 t, 0.1 t - 0.4]. A row holds the parameter
after each of 6 steps. `changes` gives the options that are set before a step."""
import textwrap
import warnings

import torch
from record_schedulers import CASES, metric, lr

warnings.simplefilter("ignore")
SAVED, MORE = 4, (0, 1, 6)
ORDERS = {
    "optim_first": "create load_optim load_scheduler",
    "scheduler_first": "create load_scheduler load_optim",
    "created_last": "load_optim create load_scheduler",
    "scheduler_alone": "create load_scheduler",
}


def new_optim():
    weights = [torch.nn.Parameter(torch.zeros(1)) for _ in range(2)]
    return torch.optim.SGD([{"params": weights[:1]}, {"params": weights[1:], "lr": 0.03}], lr=0.1)


def step(schedulers, t):
    for s in schedulers:
        s.step(metric(t)) if isinstance(s, lr.ReduceLROnPlateau) else s.step()


def as_list(made):
    return made if isinstance(made, list) else [made]


def resumed(make, order):
    saved = new_optim()
    schedulers = as_list(make(saved))
    for t in range(SAVED):
        step(schedulers, t)
    optim_state, states = saved.state_dict(), [s.state_dict() for s in schedulers]
    optim = new_optim()
    for action in order.split():
        if action == "create":
            schedulers = as_list(make(optim))
        elif action == "load_optim":
            optim.load_state_dict(optim_state)
        else:
            for s, state in zip(schedulers, states):
                s.load_state_dict(state)
    row = []
    for t in range(max(MORE) + 1):
        if t in MORE:
            row += [optim.param_groups[0]["lr"], optim.param_groups[1]["lr"], optim.param_groups[0]["momentum"]]
        step(schedulers, SAVED + t)
    return row


TRAJECTORIES = {
    "sgd_momentum_on": (torch.optim.SGD, {"dampening": 0.5}, {2: {"momentum": 0.9}}),
    "sgd_momentum_off_on": (torch.optim.SGD, {"momentum": 0.9, "dampening": 0.5},
                            {3: {"momentum": 0.0}, 5: {"momentum": 0.9}}),
    "sgd_nesterov_on": (torch.optim.SGD, {}, {3: {"momentum": 0.9, "nesterov": True}}),
    "sgd_decay_maximize_on": (torch.optim.SGD, {}, {2: {"weight_decay": 0.1}, 4: {"maximize": True}}),
    "adam_amsgrad_off_on": (torch.optim.Adam, {"amsgrad": True}, {3: {"amsgrad": False}, 5: {"amsgrad": True}}),
    "adamw_amsgrad_off_on": (torch.optim.AdamW, {"amsgrad": True}, {3: {"amsgrad": False}, 5: {"amsgrad": True}}),
    "adam_decay_maximize_on": (torch.optim.Adam, {}, {2: {"weight_decay": 0.1}, 4: {"maximize": True}}),
    "adamw_betas_change": (torch.optim.AdamW, {}, {2: {"betas": (0.8, 0.9), "lr": 0.2}, 4: {"maximize": True}}),
    "rmsprop_centered_off_on": (torch.optim.RMSprop, {"centered": True}, {3: {"centered": False}, 5: {"centered": True}}),
    "rmsprop_momentum_off_on": (torch.optim.RMSprop, {"momentum": 0.9}, {3: {"momentum": 0}, 5: {"momentum": 0.9}}),
    "adagrad_decays_on": (torch.optim.Adagrad, {}, {2: {"lr_decay": 0.5}, 4: {"weight_decay": 0.1, "maximize": True}}),
}


def trajectory(make, options, changes):
    p = torch.nn.Parameter(torch.tensor([1.0, 2.0], dtype=torch.float64))
    optim = make([p], lr=0.1, foreach=False, **options)
    for t in range(1, 7):
        optim.param_groups[0].update(changes.get(t, {}))
        p.grad = torch.tensor([0.1 * t, 0.1 * t - 0.4], dtype=torch.float64)
        optim.step()
        yield from p.tolist()


def show(name, values):
    print(f"static const double {name}[] = {{")
    print(textwrap.fill(", ".join(repr(float(v)) for v in values), 99, initial_indent="    ", subsequent_indent="    "),
          "\n};", sep="")


print("/* Made by record_resumed.py with PyTorch", torch.__version__.split("+")[0] + ". */")
print("/* clang-format off */")
for name, make in CASES.items():
    show(name + "_resumed", [v for order in ORDERS.values() for v in resumed(make, order)])
for name, case in TRAJECTORIES.items():
    show(name, trajectory(*case))
