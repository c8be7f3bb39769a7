"""Writes golden-1 files: PyTorch's results of one forward and backward pass of a module or function,
or of ten steps of Adam. Shared by the scripts make_*.py.

Expected values are computed in float64 from the file's float32 values. The tolerance of a tensor is
six times the largest error of three float32 runs, but at least 16 units in the last place of its
largest element. In two of these runs, parameters and inputs are moved by one unit in the last place.
"""

import dataclasses
import json
import typing

import torch
import torch.nn as nn
from safetensors.torch import save_file

# Distance from the kink of a ReLU, or between the two largest elements, below which rounding could
# change a gradient.
MARGIN = 2e-5


@dataclasses.dataclass
class Case:
    name: str
    config: dict
    build: typing.Callable  # returns the module or the function
    inputs: dict  # arguments of forward; those whose names end in "mask" have no gradient
    loss: str = "half_mean_square"
    loss_of: tuple = ()  # names of the outputs that enter the loss; by default, all
    labels: dict = dataclasses.field(default_factory=dict)
    cotangents: dict = dataclasses.field(default_factory=dict)  # for "weighted_mean"
    ignore_index: int = None
    model: str = None  # by default, the part of the name before "_"
    notes: str = ""
    # Suffixes of the names of parameters whose gradient is zero except for rounding.
    zero_gradient: tuple = ()
    tied: dict = dataclasses.field(default_factory=dict)  # alias: parameter
    # extra(dtype, step) returns further arguments of forward, which the file has as extra_tensors.
    extra: typing.Callable = lambda dtype, step: {}
    extra_tensors: dict = dataclasses.field(default_factory=dict)
    metadata: dict = dataclasses.field(default_factory=dict)

    def model_name(self):
        return self.model or self.name.split("_")[0]


class TooNear(Exception):
    """The random values are too close to a kink or a tie."""


# ---- One pass -------------------------------------------------------------------------------------


def is_mask(name):
    return name.endswith("mask")


def cast(tensors, dtype):
    return {n: t.to(dtype, copy=True) if t.is_floating_point() else t for n, t in tensors.items()}


def names_in_loss(case, outputs):
    return list(case.loss_of or outputs)


def losses_of(case, outputs, dtype):
    """Returns the loss and, if the format stores them, its terms."""
    cross_entropy, labels = nn.functional.cross_entropy, case.labels
    if case.loss == "half_mean_square":
        return {"loss": sum((outputs[n] ** 2).mean() / 2 for n in names_in_loss(case, outputs))}
    if case.loss == "weighted_mean":
        return {"loss": sum((outputs[n] * weights.to(dtype)).mean()
                            for n, weights in case.cotangents.items())}
    if case.loss == "bert_mlm_nsp":
        lm = cross_entropy(outputs["logits_lm"].transpose(1, 2), labels["masked_tokens"])
        clsf = cross_entropy(outputs["logits_clsf"], labels["isNext"])
        return {"loss": lm + clsf, "loss_lm": lm, "loss_clsf": clsf}
    logits = outputs["0"].flatten(0, -2)
    if case.loss == "cross_entropy":
        return {"loss": cross_entropy(logits, labels["target_y"].flatten())}
    return {"loss": cross_entropy(logits, labels["labels"].flatten(),
                                  ignore_index=case.ignore_index)}


def load(case, params, dtype):
    """Returns the module with these parameters; returns a function unchanged."""
    module = case.build()
    if not isinstance(module, nn.Module):
        return module
    module.to(dtype).eval()
    module.load_state_dict(cast(params, dtype))
    return module


def forward(case, module, inputs, dtype, step=0):
    outputs = module(**inputs, **case.extra(dtype, step))
    return outputs if isinstance(outputs, dict) else {"0": outputs}


def run(case, params, inputs, dtype):
    """Returns outputs, loss and gradients in the given precision."""
    module, inputs = load(case, params, dtype), cast(inputs, dtype)
    for name, value in inputs.items():
        value.requires_grad_(value.is_floating_point() and not is_mask(name))
    outputs = forward(case, module, inputs, dtype)
    results = {"output/" + n: t for n, t in outputs.items()}
    if case.loss != "none":
        losses = losses_of(case, outputs, dtype)
        losses["loss"].backward()
        results.update(losses)
        named = dict(module.named_parameters()) if isinstance(module, nn.Module) else {}
        results.update({"grad/" + n: p.grad for n, p in named.items() if p.grad is not None})
        results.update({"grad_input/" + n: t.grad for n, t in inputs.items()
                        if t.grad is not None})
    return {n: t.detach() for n, t in results.items()}


def check_margins(case, params, inputs):
    """Raises TooNear if an argument of a ReLU or a module's attribute `margin` is too small."""
    module, near = load(case, params, torch.float64), []
    if not isinstance(module, nn.Module):
        return
    for part in module.modules():
        if isinstance(part, nn.ReLU):
            part.register_forward_pre_hook(lambda _, x: near.append(x[0].abs().min().item()))
    forward(case, module, cast(inputs, torch.float64), torch.float64)
    near += [part.margin for part in module.modules() if hasattr(part, "margin")]
    if min(near, default=MARGIN) < MARGIN:
        raise TooNear


# ---- Tolerances -----------------------------------------------------------------------------------


def moved(tensors):
    """Returns the tensors; each float is moved one unit in the last place up or down at random."""
    def move(t):
        up = torch.rand(t.shape) < 0.5
        return torch.nextafter(t, torch.where(up, torch.inf, -torch.inf))
    return {n: move(t) if t.is_floating_point() and not is_mask(n) else t
            for n, t in tensors.items()}


def float32_runs(compute, params, inputs):
    """Returns compute(params, inputs), and two results with slightly moved params and inputs."""
    return [compute(params, inputs)] + [compute(moved(params), moved(inputs)) for _ in range(2)]


def tolerances(exact, approximate, zero_gradient, floor=1e-12):
    grads = [t.abs().max().item() for n, t in exact.items() if n.startswith("grad")]
    tol = {}
    for name, want in exact.items():
        if not want.is_floating_point():
            continue
        # A gradient whose exact value is zero consists of rounding errors of larger numbers.
        zero = name.startswith("grad/") and name.endswith(tuple(zero_gradient))
        finite = want.isfinite()  # infinities must be equal
        size = 4 * max(grads) if zero_gradient and zero else want[finite].abs().max().item()
        error = max((a[name] - want)[finite].abs().max().item() for a in approximate)
        tol[name] = float(f"{max(6 * error, 16 * 2.0 ** -24 * size, floor):.2g}")
    return tol


# ---- Files ----------------------------------------------------------------------------------------


def save(folder, case, tensors, tol, **more):
    metadata = {"format": "golden-1", "case": case.name, "model": case.model_name(),
                "mode": "eval", "config": case.config, "loss": case.loss, "rtol": "1e-05",
                "atol": str(max(tol.values(), default=0.0)), "tol": tol, **case.metadata, **more}
    if case.tied:
        metadata["tied"] = case.tied
    if case.notes:
        metadata["notes"] = case.notes
    if case.ignore_index is not None:
        metadata["ignore_index"] = case.ignore_index
    metadata = {n: v if isinstance(v, str) else json.dumps(v) for n, v in metadata.items()}
    folder.mkdir(parents=True, exist_ok=True)
    values = {n: (t.float() if t.is_floating_point() else t).contiguous().clone()
              for n, t in tensors.items()}
    save_file(values, folder / f"{case.name}.safetensors", metadata)


def prefixed(prefix, tensors):
    return {prefix + n: t for n, t in tensors.items()}


def random_params(case):
    """Returns the initial parameters; biases and norms are moved, so that none is exactly 0 or 1."""
    module = case.build()
    if not isinstance(module, nn.Module) or case.loss == "none":
        return {}
    return {n: t + 0.2 * torch.randn(t.shape) if t.dim() == 1 else t.clone()
            for n, t in module.state_dict().items()}


def make_pass(folder, make_case, seed):
    """Writes the case that make_case() returns, with the first seed that does not raise TooNear."""
    for case_seed in range(seed, seed + 50):
        torch.manual_seed(case_seed)
        case = make_case()
        params = random_params(case)
        try:
            check_margins(case, params, case.inputs)
            break
        except TooNear:
            continue
    else:
        raise SystemExit(f"{case.name}: too many values near a kink or a tie; use smaller sizes")
    exact = run(case, params, case.inputs, torch.float64)
    runs = float32_runs(lambda p, i: run(case, p, i, torch.float32), params, case.inputs)
    more = {"no_grad": [n for n in params if n not in case.tied and "grad/" + n not in exact]}
    if case.loss != "none":
        outputs = [n[7:] for n in exact if n.startswith("output/")]
        more["loss_of"] = names_in_loss(case, outputs)
    tensors = {**prefixed("param/", params), **prefixed("input/", case.inputs),
               **prefixed("label/", case.labels), **prefixed("cotangent/", case.cotangents),
               **case.extra_tensors, **exact}
    save(folder, case, tensors, tolerances(exact, runs, case.zero_gradient), case_seed=case_seed,
         **more)


# ---- Ten steps ------------------------------------------------------------------------------------

ADAM = {"name": "Adam", "lr": 0.001, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.0,
        "amsgrad": False, "steps": 10}


def train(case, params, inputs, dtype):
    """Returns the loss before each step, and all parameters after the last step."""
    module = load(case, params, dtype)
    adam = torch.optim.Adam(module.parameters(), lr=ADAM["lr"], betas=ADAM["betas"],
                            eps=ADAM["eps"])
    inputs, losses = cast(inputs, dtype), []
    for step in range(ADAM["steps"]):
        adam.zero_grad()
        loss = losses_of(case, forward(case, module, inputs, dtype, step), dtype)["loss"]
        losses.append(loss.item())
        loss.backward()
        adam.step()
    return {"losses": torch.tensor(losses, dtype=torch.float64),
            **{"after/" + n: p.detach() for n, p in module.named_parameters()}}


def make_training(folder, make_case, seed):
    """Writes ten steps of Adam, from the initial parameters after torch.manual_seed(seed)."""
    torch.manual_seed(seed)
    case = make_case()
    torch.manual_seed(seed)
    params = {n: t.clone() for n, t in case.build().state_dict().items()}
    exact = train(case, params, case.inputs, torch.float64)
    runs = float32_runs(lambda p, i: train(case, p, i, torch.float32), params, case.inputs)
    # Adam's steps are as large as the learning rate even if a gradient is small. So rounding errors
    # of a small gradient are visible.
    tol = tolerances(exact, runs, (), floor=2e-6)
    noise = [n for n in params if n.endswith(tuple(case.zero_gradient))]
    save(folder, case, {**prefixed("param/", params), **prefixed("batch/", case.inputs),
                        **prefixed("batch/", case.labels), **case.extra_tensors, **exact},
         tol, optimizer=ADAM, init={"manual_seed": seed}, noise=noise if case.zero_gradient else [])


def make_files(folder, passes, trainings, seed):
    """Writes one file per case, with seeds 100 apart."""
    for i, make_case in enumerate(passes):
        make_pass(folder, make_case, seed + 100 * i)
    for i, make_case in enumerate(trainings):
        make_training(folder, make_case, seed + 100 * (len(passes) + i))
