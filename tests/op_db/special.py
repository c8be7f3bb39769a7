#!/usr/bin/env python3
"""Records calls of operations at special points, with their first and second gradients, for `brasa check`.

    tests/op_db/special.py BRASA tests/op_db/special.safetensors [--only NAME...]

The calls are small float64 samples of PyTorch's own tests. The elements of their tensors are replaced by zeros,
ties and points where functions have kinks, jumps or poles. Requires what record.py requires.
"""
import argparse
import json
import subprocess
import warnings

import torch
from safetensors.torch import save_file
from torch.testing._internal.common_methods_invocations import op_db

import record

LARGEST = 40  # elements of a call
MOST = 6  # calls of an operation
# Values of the elements, in turn. The second list is for operations whose inputs must be in 0 .. 1.
VALUES = ([0, 1, -1, 0, 0.5, 1, -0.5, 2, -2, 0, 3, -3, 6], [0, 1, 0.5, 1, 0, 0.25], [1, 2, 1, 3, 2, 0.5])

# Operations that are not compared, and why.
LEFT_OUT = {
    "__rdiv__": "PyTorch computes a / x as a * (1 / x), which differs at x = 0",
    "nn.functional.binary_cross_entropy": "at 0 and 1 its gradient is 1e12 times a rounding error",
    **dict.fromkeys(record.DECOMPOSITIONS, "rounding changes all elements, and much if singular values are equal or 0"),
}
# Operations whose second gradients are not compared, and why.
NO_SECOND = {
    "nn.functional.prelu": "at 0 the first gradient is that of the left branch, and so is our second gradient; PyTorch's is 0",
}


def is_compared(op, left_out):
    """Returns whether the operation has gradients and is not left out. The norm "nuc" is a sum of singular values."""
    return (op.name not in left_out and op.variant_test_name not in ("nuc", *record.REPEATED) and op.supports_autograd and
            op.supports_dtype(torch.float64, "cpu"))


def placed(call, values):
    """Returns the call with the values as elements. Each tensor begins three values after the one before."""
    begin = 0

    def place(t):
        nonlocal begin
        if t.dtype != torch.float64:
            return t
        n = torch.arange(begin, begin + t.numel()) % len(values)
        begin += 3
        return torch.tensor(values, dtype=t.dtype)[n].reshape(t.shape).requires_grad_(t.requires_grad)
    return record.changed(call, place)


def kind_of(call):
    return (*(t.dim() for t in record.tensors_in(call)), *sorted(call["kwargs"]))


def calls_of(op):
    """Yields small calls of different kinds."""
    kinds = set()
    record.seed_all(0)
    samples = list(op.sample_inputs("cpu", torch.float64, requires_grad=True, set_seed=False))
    for sample in sorted(samples, key=lambda s: sum(t.numel() for t in record.tensors_in([s.input, s.args, s.kwargs]))):
        call = {"args": [sample.input, *sample.args], "kwargs": sample.kwargs}
        sizes = [t.numel() for t in record.tensors_in(call)]
        if not sizes or 0 in sizes or max(sizes) < 3 or sum(sizes) > LARGEST or kind_of(call) in kinds:
            continue
        kinds.add(kind_of(call))
        yield call
        if len(kinds) == MOST:
            return


def exact(got, *_):
    """Returns the expected tensor and tolerances. Nearly all results are small numbers without rounding."""
    own = got[got.isfinite()].abs().max().item() if got.is_floating_point() and got.isfinite().any() else 0
    return (got, 1e-11, 1e-11 * max(own, 1)) if got.is_floating_point() else (got, 0, 0)


def sample_of(file, call, values):
    """Returns the recorded call with these values, or None if PyTorch rejects them."""
    before, number = dict(file.tensors), len(file.samples)
    sample = {"dtype": "f64", "seed": number}
    if file.op.name in record.SEEDED:
        sample["call_seed"] = record.SEEDED[file.op.name]
    try:
        point = record.settled(file.op, placed(call, values))
        sample |= file.call(point)
        second = record.has_second(file.op, point) and file.op.name not in NO_SECOND
        file.outcome(sample, point, number, second)
        return sample
    except (RuntimeError, ValueError, record.Skip):
        file.tensors = before
        return None


def entries_of(sample):
    """Returns the entries of the sample's tensors: arguments, outputs and gradients."""
    entries = list(record.walk(sample["args"] + list(sample["kwargs"].values())))
    gradients = [e[k] for e in entries for k in ("grad", "second") if "tensor" in e.get(k, {})]
    return entries + gradients + [e for e in sample["outputs"] if e]


def finite(file, sample):
    """Returns whether all results and gradients are finite: elsewhere a gradient of a gradient has no meaning."""
    return all(file.tensors[e["tensor"]].isfinite().all() for e in entries_of(sample))


def add(file, call):
    """Adds the call with the first values that PyTorch accepts, and with the first that give finite gradients.

    Second gradients are recorded only if all numbers are finite.
    """
    added = False
    for values in VALUES:
        sample = sample_of(file, call, values)
        if not sample:
            continue
        whole = finite(file, sample)
        if not whole:
            for entry in record.walk(sample["args"] + list(sample["kwargs"].values())):
                entry.pop("second", None)
        if whole or not added:
            file.samples.append(sample)
        added = True
        if whole:
            return


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("brasa")
    parser.add_argument("target")
    parser.add_argument("--only", nargs="*")
    options = parser.parse_args()
    listed = subprocess.run([options.brasa, "check", "--list-ops"], stdout=subprocess.PIPE, check=True)
    names = {op["name"] for op in json.loads(listed.stdout)} & set(options.only or [op.name for op in op_db])
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    record.expectation = exact
    record.rounding = lambda op, call, seed, run, second, scale: ([None] * len(run.all()),) * 2
    tensors, ops = {}, []
    for op in op_db:
        if op.name not in names or not is_compared(op, LEFT_OUT):
            continue
        file = record.File(op)
        file.tensors = tensors
        for call in calls_of(op):
            add(file, call)
            tensors = file.tensors
        if file.samples:
            ops.append({"op": op.name, "variant": op.variant_test_name, "samples": file.samples})
    used = {e["tensor"] for o in ops for s in o["samples"] for e in entries_of(s)}
    tensors = {name: t for name, t in tensors.items() if name in used}
    metadata = {"format": "ops-1", "torch": torch.__version__, "seed": "0",
                "ops": json.dumps(ops, separators=(",", ":"))}
    save_file(tensors, options.target, metadata)


if __name__ == "__main__":
    main()
