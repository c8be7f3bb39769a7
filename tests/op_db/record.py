#!/usr/bin/env python3
"""Records calls of PyTorch's own tests for `brasa check`, in one ops-1 file per operation.

    tests/op_db/record.py BRASA DIRECTORY [--seed N] [--most N] [--only NAME...]

BRASA is the program, whose `check --list-ops` lists the supported operations. For each of them, it records all samples
of torch.testing's op_db in float32, float64, int64 and bool, and a few in bfloat16, float16, int32, int8 and uint8,
with the results, the gradients of the randomly weighted results and, in float64, the gradients of those; and the calls
that must be rejected. --most sets how many samples of an operation are recorded in each of the latter dtypes. Requires
torch, numpy, expecttest and safetensors.
"""
import argparse
import contextlib
import functools
import json
import math
import multiprocessing
import pathlib
import random
import subprocess
import warnings
import zlib

import numpy
import torch
from safetensors.torch import save_file
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import BinaryUfuncInfo, UnaryUfuncInfo
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

DTYPES = {torch.float32: "f32", torch.float64: "f64", torch.int64: "i64", torch.bool: "bool",
          torch.bfloat16: "bf16", torch.float16: "f16", torch.int32: "i32", torch.int8: "i8", torch.uint8: "u8"}
# Complex tensors are recorded as their real and imaginary parts, torch.view_as_real().
COMPLEX = {torch.complex64: "f32", torch.complex128: "f64"}
# Storage dtypes: operations compute in a wider dtype and round each result.
STORED = torch.bfloat16, torch.float16, torch.int32, torch.int8, torch.uint8
HALF = torch.bfloat16, torch.float16
# Gradients of normalizations are differences of numbers divided by the standard deviation, which for equal elements is
# the square root of eps, 1e-5. Over one element, nothing but their rounding is left.
NORMS = "layer_norm", "group_norm", "batch_norm", "instance_norm"
NORM = 1e-5 ** -0.5
MOST_DIMS = 8  # of a tensor of Brasa; samples with more are skipped
LARGEST = 100_000  # elements of a sample's tensors; larger samples are skipped
MOST = 200  # maximum number of samples per operation and dtype; if there are more, a random subset is used
MOST_STORED = 12  # the same for a storage dtype


class Skip(Exception):
    """The sample cannot be recorded; the text is the reason."""


# ---- Walking over arguments -----------------------------------------------------------------------


def changed(value, change, dtype=None):
    """Returns the arguments with change(tensor) for each tensor, and dtype for each floating-point dtype."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, torch.dtype) and value.is_floating_point:
        return dtype or value
    if type(value) in (list, tuple):
        return type(value)(changed(v, change, dtype) for v in value)
    if isinstance(value, dict):
        return {k: changed(v, change, dtype) for k, v in value.items()}
    return value


def tensors_in(value):
    found = []
    changed(value, lambda t: found.append(t) or t)
    return found


# ---- Complex tensors ------------------------------------------------------------------------------


class ByParts:
    """An operation whose complex arguments are given by their parts. complex[i]: tensor i is complex."""

    def __init__(self, op, complex):
        self.op, self.complex = op, complex

    def __call__(self, *args, **kwargs):
        is_complex = iter(self.complex)
        call = changed({"args": args, "kwargs": kwargs},
                       lambda t: torch.view_as_complex(t.contiguous()) if next(is_complex) else t)
        return self.op(*call["args"], **call["kwargs"])


def parts_of(t):
    """Returns the parts of a complex tensor as a leaf, or a real tensor as it is."""
    if not t.is_complex():
        return t
    parts = torch.view_as_real(t.detach().resolve_conj()).requires_grad_(t.requires_grad)
    parts.are_parts = True
    return parts


def by_parts(op, call):
    """Returns an operation and a call with the parts of complex tensors, or both as they are if there are none."""
    complex = [t.is_complex() for t in tensors_in(call)]
    return (ByParts(op, complex), changed(call, parts_of)) if any(complex) else (op, call)


# ---- One call -------------------------------------------------------------------------------------


def weights(seed, number, like, move=lambda t, number: t):
    """Returns random weights. Brasa's generator produces the same numbers."""
    torch.manual_seed(seed * 100 + number)
    return move(torch.rand(like.shape) - 0.5, number).to(like.dtype)


def results_of(value):
    """Returns the results as a list of tensors; numbers become 0-d tensors."""
    if isinstance(value, torch.Tensor):
        return [torch.view_as_real(value.resolve_conj()) if value.is_complex() else value]
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in results_of(v)]
    if isinstance(value, (bool, int, float)):
        return [torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else None)]
    raise Skip(f"the result is {type(value).__name__}")


def fresh(t):
    """Returns a leaf with the values and strides of t, and its own memory unless t has a stride of 0."""
    copy = t.detach()
    if 0 not in t.stride():
        copy = copy.clone(memory_format=torch.preserve_format)
    return copy.requires_grad_(t.requires_grad)


class Run:
    """A call of the operation: its results, and first and second gradients (None if there is none)."""

    def __init__(self, op, call, seed, second, move=lambda t, number: t, mode=contextlib.nullcontext()):
        call = changed(call, fresh)
        self.leaves = [t for t in tensors_in(call) if t.requires_grad]
        torch.manual_seed(seed)
        with mode:
            self.results = results_of(defined(op)(*call["args"], **call["kwargs"]))
            self.first = self.second = [None] * len(self.leaves)
            self.wanted = [t.requires_grad for t in self.results]
            if self.leaves and any(self.wanted):
                self.differentiate(seed, second, move)
        self.results = [t.detach() for t in self.results]

    def differentiate(self, seed, second, move):
        outputs = [(i, t) for i, t in enumerate(self.results) if t.requires_grad]
        self.first = torch.autograd.grad(
            [t for _, t in outputs], self.leaves, [weights(seed, i, t, move) for i, t in outputs],
            create_graph=second, allow_unused=True)
        further = [(i, g) for i, g in enumerate(self.first) if g is not None and g.requires_grad]
        if further:
            self.second = torch.autograd.grad(
                [g for _, g in further], self.leaves,
                [weights(seed, 50 + i, g, move) for i, g in further], allow_unused=True)

    def all(self):
        return [*self.results, *self.first, *self.second]


# ---- Tolerances -----------------------------------------------------------------------------------


def moved(number, units=1):
    """Returns a function that rounds to float32 and, unless `number` is 0, moves each value by `units` in its last place.

    Integers are not moved, because they may be labels.
    """
    def move(t, _=0):
        if t.dtype not in (torch.float32, torch.float64):
            return t
        near = t.detach().float()
        if number: # the same tensor is always moved in the same way
            key = zlib.crc32(near.contiguous().numpy().tobytes())
            signs = torch.randint(0, 2, t.shape, generator=torch.Generator().manual_seed(key + number))
            by = (signs * 2 - 1) * units * torch.finfo(torch.float32).eps
            near = torch.where(near == near.round(), near, near * (1 + by))
        return near.requires_grad_(t.requires_grad)
    return move


class Rounding(TorchDispatchMode):
    """Multiplies each float64 result of PyTorch's inner operations by 1 + eps or 1 - eps of float32.

    This simulates the rounding of intermediate results. Views are not changed.
    """

    def __init__(self, number):
        super().__init__()
        self.generator = torch.Generator().manual_seed(number)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if any(r.alias_info for r in func._schema.returns):
            return out
        return tree_map(self.rounded, out)

    def rounded(self, t):
        if not isinstance(t, torch.Tensor) or t.dtype not in (torch.float64, torch.complex128) or t._is_zerotensor():
            return t
        signs = torch.randint(0, 2, t.shape, generator=self.generator) * 2 - 1
        return t * (1 + signs * torch.finfo(torch.float32).eps)


def rounding_inside(op, call, seed, exact, second, scale):
    """Returns, for each tensor of the run `exact`, the change in float64 when intermediate results are rounded.

    The change is None if the rounding decides a comparison differently, so that a result jumps by more than a
    thousandth of `scale`, or if the call fails.
    """
    off = [None if t is None or t.dtype != torch.float64 else torch.zeros_like(t) for t in exact]
    for number in range(3):
        try:
            run = Run(op, call, seed, second, moved(0), Rounding(number)).all()
        except RuntimeError:
            return [None] * len(exact)
        if not alike(exact, run):
            return [None] * len(exact)
        for i, (a, b) in enumerate(zip(run, exact)):
            if off[i] is None or off[i].numel() == 0:
                continue
            change = torch.where(a.isfinite() & b.isfinite(), (a - b).abs(), 0)
            off[i] = None if change.max() > 1e-3 * scale else torch.maximum(off[i], change)
    return off


def alike(a, b):
    """Returns whether two runs have the same tensors, except for values and precision."""
    return len(a) == len(b) and all(
        (x is None) == (y is None) and (x is None or x.shape == y.shape) for x, y in zip(a, b))


def run_both(op, call, seed, second, move):
    """Runs the call, moved, in float32 and in float64. Returns the results of both, and the call in float64."""
    near = changed(call, lambda t: move(t), torch.float32)
    wide = changed(near, lambda t: t.double() if t.dtype == torch.float32 else t, torch.float64)
    return Run(op, near, seed, second, move).all(), Run(op, wide, seed, second, move).all(), wide


def rounding_around(op, call, seed, second, scale, worst):
    """Returns the largest of the errors `worst` and those of float32 at inputs moved by 1000 units in the last place.

    An intermediate result may hardly depend on the inputs, such as a probability close to 1. It is then rounded in the
    same way for all neighbouring inputs, and may be exact by chance, so the error is also measured further away.
    """
    for number in range(1, 5):
        try:
            low, high, _ = run_both(op, call, seed, second, moved(number, 1000))
        except RuntimeError:
            return worst
        if len(low) != len(worst) or not alike(low, high):
            return worst
        for i, (a, b) in enumerate(zip(low, high)):
            if worst[i] is not None and a is not None and a.shape == worst[i].shape:
                off = torch.where(a.isfinite() & b.isfinite(), (a - b).abs(), 0)
                worst[i] = torch.where(off > 1e-3 * scale, worst[i], torch.maximum(worst[i], off))
    return worst


def rounding(op, call, seed, run, second, scale):
    """Returns, for each tensor of the run, its rounding error in float32 for each element, and its float64 value.

    The error is the largest of: the difference between float32 and float64 on the same inputs and on inputs nearby;
    the change in float64 when every input moves to a neighbour in float32; and the change when intermediate results
    are rounded. It is None if the two precisions give different kinds of results.
    """
    worst, exact = [None] * len(run.all()), [None] * len(run.all())
    if not any(t.is_floating_point() for t in tensors_in(call)):
        return worst, exact
    for number in range(4):
        try:
            low, high, wide = run_both(op, call, seed, second, moved(number))
        except RuntimeError:
            return [None] * len(worst), exact
        if not alike(run.all(), low) or not alike(low, high):
            return [None] * len(worst), exact
        for i, (a, b) in enumerate(zip(low, high)):
            if a is None or a.dtype != torch.float32 or b.dtype != torch.float64:
                continue
            off = torch.where(a.isfinite() & b.isfinite(), (a - b).abs(), 0)
            off[a.isfinite() != b.isfinite()] = math.inf
            if number == 0:
                worst[i], exact[i] = off, b
            elif worst[i] is not None:
                change = torch.where(b.isfinite() & exact[i].isfinite(), (b - exact[i]).abs(), 0)
                worst[i] = torch.maximum(worst[i], torch.maximum(off, change))
        if number == 0:
            inside = rounding_inside(op, wide, seed, high, second, scale)
            worst = [w if w is None or more is None else torch.maximum(w, more)
                     for w, more in zip(worst, inside)]
    return rounding_around(op, call, seed, second, scale, worst), exact


def expectation(got, off, exact, scale, least):
    """Returns the expected tensor, and the relative and absolute tolerance.

    `off` is the error that rounding() measured. The tolerance is eight times that, or sixteen times for a tensor of few
    elements, since the largest of few errors is a weaker estimate of the bound: relative if the relative error is
    small for all elements of PyTorch's result, otherwise absolute. In float32 the expected result is that of float64;
    in float64 the tolerance is smaller by the ratio of the precisions. `scale` is the largest number of the call; an
    error above a thousandth of it is a jump, not rounding. A tensor without values above `least` units in the last
    place of 1 consists of rounding errors only.
    """
    if not got.is_floating_point() or got.dtype in HALF:  # a call without such operands converts, which rounds once
        return got, 0, 0
    eps = torch.finfo(got.dtype).eps
    own = got[got.isfinite()].abs().max().item() if got.isfinite().any() else 0
    if off is None or off.numel() == 0 or off.max() > 1e-3 * scale:
        return got, 4 * eps, 4 * eps * own
    if got.dtype == torch.float32:
        got = exact.float()
    finer = eps / torch.finfo(torch.float32).eps
    margin = 8 if off.numel() >= 64 else 16
    if own < least * eps: # terms that cancel may be large: the error is theirs
        return got, 0, max(least * eps, margin * off.max().item() * finer)
    relative = torch.where(off > 0, off / exact.abs(), 0).max().item() * finer
    if relative < 16 * eps:
        return got, 8 * eps + margin * relative, eps / 2 * own
    return got, 8 * eps, margin * off.max().item() * finer + 4 * eps * own


# ---- Tolerances of bfloat16 and float16 -----------------------------------------------------------


def beside(number, dtype):
    """Returns a function that moves each value of that dtype by one unit in its last place, or by none.

    Whole numbers are not moved, because they may decide comparisons. For number 0, no value is moved.
    """
    def move(t):
        near = t.detach()
        if number and t.dtype == dtype:
            key = zlib.crc32(near.float().contiguous().numpy().tobytes())
            by = torch.randint(-1, 2, t.shape, generator=torch.Generator().manual_seed(key + number))
            wide = near.double()
            near = torch.where(wide == wide.round(), wide, wide * (1 + by * torch.finfo(dtype).eps)).to(dtype)
        return near.requires_grad_(t.requires_grad)
    return move


def run_wide(op, call, seed, low):
    """Runs the call in float64, with the weights of the run `low`. Returns its results."""
    dtypes = [t.dtype for t in low.results]
    wide = changed(call, lambda t: t.double() if t.is_floating_point() else t, torch.float64)
    return Run(op, wide, seed, False, lambda t, i: t.to(dtypes[i]) if i < len(dtypes) else t).all()


def half_rounding(op, call, seed, run):
    """Returns, for each tensor of the run, the values in float64, and the error of PyTorch beyond one rounding.

    The values are those of the same inputs. The error is the largest of all elements, at these inputs and at inputs
    nearby. Both are None where the two precisions give different kinds of results.
    """
    dtype = next(t.dtype for t in tensors_in(call) if t.dtype in HALF)
    exact, beyond = [None] * len(run.all()), [0.0] * len(run.all())
    for number in range(4):
        try:
            near = changed(call, beside(number, dtype))
            low = Run(op, near, seed, False)
            high = run_wide(op, near, seed, low)
        except RuntimeError:
            if number == 0:
                return exact, beyond
            continue
        low = low.all()
        if not alike(run.all(), low) or not alike(low, high):
            return (exact, beyond) if number else ([None] * len(low), beyond)
        for i, (a, b) in enumerate(zip(low, high)):
            if a is None or not a.is_floating_point() or not b.is_floating_point():
                continue
            exact[i] = b if number == 0 else exact[i]
            both = a.isfinite() & b.to(a.dtype).isfinite()
            more = torch.where(both, (a.double() - b).abs() - torch.finfo(a.dtype).eps / 2 * b.abs(), 0)
            beyond[i] = max(beyond[i], more.max().item() if more.numel() else 0)
    return exact, beyond


def largest_in(call):
    """Returns the largest absolute value of the floating-point tensors of a call."""
    values = [t[t.isfinite()].abs().max().item() for t in tensors_in(call)
              if t.is_floating_point() and t.isfinite().any()]
    return max(values, default=0)


def near_tie(exact, dtype):
    """Returns whether an error of a few units of float32 could change the rounding of an element to the dtype."""
    off = 8 * torch.finfo(torch.float32).eps * exact.abs()
    return bool(((exact - off).to(dtype) != (exact + off).to(dtype)).any())


def half_expectation(got, exact, beyond, pointwise):
    """Returns the expected tensor, the relative and the absolute tolerance, and bounds of the elements or None.

    The expected result is that of float64, rounded once. If the operation is pointwise and PyTorch's result is that,
    Brasa must return the same bits. Otherwise its error may be one unit in the last place, and a multiple of the
    error of PyTorch beyond one rounding. Where PyTorch overflows and float64 does not, Brasa may do either.
    """
    limits = torch.finfo(got.dtype)
    if exact is None:
        return got, 2 * limits.eps, 0, None
    want = exact.to(got.dtype)
    if pointwise and want.equal(got) and not near_tie(exact, got.dtype):
        return got, 0, 0, None
    # The largest of few errors is a weaker estimate of the bound. Brasa flushes subnormal numbers of float32, which
    # has bfloat16's exponents, to 0. Results in float32 or float64 follow the rule of expectation().
    margin = 2 if got.numel() >= 64 else 4
    tiny = limits.smallest_normal * (limits.eps if got.dtype == torch.float16 else 1)
    if got.dtype not in HALF:
        margin *= 4
    largest = want[want.isfinite()].abs().max().item() if want.isfinite().any() else 0
    rtol = (1.01 if got.dtype in HALF else 8) * limits.eps
    atol = margin * beyond + tiny + 64 * torch.finfo(torch.float32).eps * largest  # of terms in float32 that cancel
    overflows = (want.isfinite() != got.isfinite()) | (want.isnan() != got.isnan())
    bounds = None
    if overflows.any():
        bounds = torch.where(overflows, math.inf, rtol * want.double().abs() + atol)
    return want, rtol, atol, bounds


# ---- Formulas -------------------------------------------------------------------------------------


def relu6_of_3_more(x, inplace=False):
    return torch.nn.functional.relu6(x + 3) / 6


def cross_entropy_of_two(x, target, weight=None, reduction="mean"):
    losses = -(target * x.log().clamp(min=-100) + (1 - target) * (1 - x).log().clamp(min=-100))
    losses = losses if weight is None else losses * weight
    return losses if reduction == "none" else getattr(losses, reduction)()


def product_of_reflections(a, tau):
    m, n = a.shape[-2:]
    product, vectors = torch.eye(m, dtype=a.dtype), a.tril(-1) + torch.eye(m, n, dtype=a.dtype)
    for i in range(tau.shape[-1]):
        v = vectors[..., i:i + 1]
        product = product - tau[..., i, None, None] * (product @ v) @ v.mT
    return product[..., :n]


# Operations whose gradients in PyTorch are inexact in float64: hardsigmoid uses 1 / 6 in float32, householder_product
# multiplies by inverses of reflections, and binary_cross_entropy's second order divides by x^2 (1 - x)^2 + 1e-12. The
# gradients of these formulas are used instead.
FORMULAS = {"nn.functional.hardsigmoid": relu6_of_3_more,
            "linalg.householder_product": product_of_reflections,
            "nn.functional.binary_cross_entropy": cross_entropy_of_two}


def without_signs(decomposition):
    """Returns the vectors that a singular value decomposition determines, without their signs."""
    u, s, v = decomposition
    k = s.shape[-1]
    if isinstance(decomposition, torch.return_types.svd):
        return u[..., :k].abs(), s, v[..., :k].abs()
    return u[..., :k].abs(), s, v[..., :k, :].abs()


# Operations on matrices whose errors depend on the singular values, not only on the size of the elements.
DECOMPOSITIONS = """
    cholesky cholesky_inverse cholesky_solve linalg.cholesky linalg.cholesky_ex linalg.cond linalg.det linalg.eigh linalg.eigvalsh linalg.householder_product
    linalg.inv linalg.lstsq linalg.lu linalg.lu_factor linalg.lu_solve linalg.matrix_norm linalg.matrix_rank linalg.norm
    linalg.pinv linalg.qr linalg.slogdet linalg.solve linalg.solve_triangular linalg.svd linalg.svdvals linalg.tensorinv
    linalg.tensorsolve logdet lu_solve matrix_exp pinverse qr svd""".split()

# Variants with the samples of the operation itself, and fewer of its results.
REPEATED = "grad_oriented",

# What is compared of results that PyTorch does not define, as op_db's output_process_fn_grad does.
DEFINED = {"linalg.eigh": lambda pair: (pair[0], pair[1].abs()),
           "linalg.svd": without_signs, "svd": without_signs}


# Operations that read one triangle of a factor, here its position in the arguments, although PyTorch's gradient has
# numbers in the other triangle, too.
FACTOR = {"cholesky_inverse": 0, "cholesky_solve": 1}


def with_triangle(op, position):
    """Returns the function of the factor's triangle that it reads, and of the other arguments."""
    def call(*args, upper=False):
        factor = args[position].triu() if upper else args[position].tril()
        return op(*args[:position], factor, *args[position + 1:], upper=upper)
    return call


def defined(op):
    """Returns the function of the operation, whose results and gradients are defined."""
    name = getattr(op, "name", None)
    if name in FACTOR:
        return with_triangle(op, FACTOR[name])
    change = DEFINED.get(name)
    return (lambda *args, **kwargs: change(op(*args, **kwargs))) if change else op


# Operations that op_db calls through wrapper_set_seed(), which seeds the generator for each call.
SEEDED = dict.fromkeys("""
    nn.functional.dropout nn.functional.dropout2d nn.functional.dropout3d nn.functional.alpha_dropout
    nn.functional.feature_alpha_dropout nn.functional.rrelu nn.functional.scaled_dot_product_attention
    rand_like randn_like randint_like bernoulli normal multinomial exponential""".split(), 42)
# Those that take other random numbers in another precision: PyTorch's result in the same dtype is expected.
DRAWN = "rand_like", "randn_like", "bernoulli", "normal", "exponential"


# ---- Recording ------------------------------------------------------------------------------------


def settled(op, call):
    """Returns an equivalent call whose result PyTorch defines.

    Sorting becomes stable. A call that selects among equal elements has no gradient.
    """
    if op.name in ("sort", "argsort"):
        names = dict(zip(("dim", "descending"), call["args"][1:]))
        return {"args": call["args"][:1], "kwargs": {"stable": True, **names, **call["kwargs"]}}
    ties = has_ties(op, call) or (op.name == "msort" and has_equal(call["args"][0]))
    return changed(call, lambda t: t.detach()) if ties else call


def in_brackets(index):
    """Returns the text of an index between its brackets, with "?" for each tensor, and a list of these tensors."""
    words, tensors = [], []
    for item in index if isinstance(index, tuple) else (index,):
        if isinstance(item, slice):
            words.append(":".join("" if n is None else str(n) for n in (item.start, item.stop, item.step)))
        elif isinstance(item, (torch.Tensor, list)):
            words.append("?")
            tensors.append(torch.as_tensor(item))
        else:
            words.append("..." if item is Ellipsis else str(item))
    return ", ".join(words), tensors


def without_objects(kwargs):
    """Returns keyword arguments with the fields of linear_cross_entropy's options instead of the object.

    The layout is left out if it is strided, which is the only one that Brasa has.
    """
    kwargs = {k: v for k, v in kwargs.items() if v is not torch.strided}
    options = kwargs.get("options")
    if options is None:
        return kwargs
    return {k: v for k, v in kwargs.items() if k != "options"} | {
        "chunked": True, "batch_chunk_size": options.batch_chunk_size or 0}


def has_second(op, call):
    """Returns whether PyTorch computes the second gradients of the call: those of its chunked loss are missing, and those
    of norms are NaN at 0, where they are 0 in Brasa."""
    return op.supports_gradgrad and "options" not in call["kwargs"] and op.variant_test_name != "subgradients_at_zero"


def has_ties(op, call):
    """Returns whether the call selects among equal elements, so that the indices in its second result are undefined."""
    return op.name in ("topk", "kthvalue") and has_equal(call["args"][0])


def has_equal(t):
    """Returns whether the tensor has equal elements."""
    return t.unique().numel() < t.numel()


class File:
    def __init__(self, op):
        self.op, self.tensors, self.samples = op, {}, []

    def tensor(self, t):
        if t.layout != torch.strided or t.dtype not in DTYPES:
            raise Skip(f"{str(t.dtype if t.layout == torch.strided else t.layout)[6:]} tensors")
        if t.ndim > MOST_DIMS:
            raise Skip(f"more than {MOST_DIMS} dimensions")
        name = str(len(self.tensors))
        self.tensors[name] = t.detach().clone(memory_format=torch.contiguous_format)
        entry = {"tensor": name}
        if not t.is_contiguous():
            entry["strides"] = list(t.stride())
        if getattr(t, "are_parts", False):
            entry["complex"] = True
        return entry

    def expected(self, t, *how):
        if t is None:
            return None
        return self.within(*expectation(t, *how))

    def within(self, t, rtol, atol, bounds=None):
        """Stores an expected tensor and its tolerances, or the bounds of its elements."""
        entry = {"tensor": self.tensor(t)["tensor"]}
        if bounds is not None:
            return entry | {"bound": self.tensor(bounds)["tensor"]}
        return entry | {"rtol": float(f"{rtol:.2g}"), "atol": float(f"{atol:.2g}")}

    def expected_of_half(self, call, seed, run):
        """Returns what is expected of a call with bfloat16 or float16 tensors."""
        exact, beyond = half_rounding(self.op, call, seed, run)
        pointwise = isinstance(self.op, (UnaryUfuncInfo, BinaryUfuncInfo))
        expected = []
        for i, t in enumerate(run.all()):
            if t is None:
                expected.append(None)
            elif not t.is_floating_point():
                expected.append(self.within(t, 0, 0))
            elif self.op.name in DRAWN:
                expected.append(self.within(t, torch.finfo(t.dtype).eps, 0))
            else:
                is_result = i < len(run.results)
                noise = 0 if is_result else largest_in(call) * 16 * torch.finfo(torch.float32).eps
                how = half_expectation(t, exact[i], beyond[i] + noise, pointwise and is_result)
                expected.append(self.within(*how))
        return expected

    def value(self, value):
        """Returns an argument as JSON."""
        if isinstance(value, torch.Tensor):
            return self.tensor(value)
        if isinstance(value, (list, tuple)):
            return [self.value(v) for v in value]
        if isinstance(value, torch.dtype):
            return {"dtype": str(value).removeprefix("torch.")}
        if isinstance(value, torch.device):
            return value.type
        if isinstance(value, torch.memory_format):
            return str(value).removeprefix("torch.")
        if value == slice(None) and isinstance(value, slice):
            return {"whole": True}
        if isinstance(value, float) and not math.isfinite(value):
            return {"float": str(value)}
        if value is None or isinstance(value, (bool, str, float)) or (
                isinstance(value, int) and abs(value) < 2**63):
            return value
        return {"other": repr(value) if isinstance(value, (int, complex)) else type(value).__name__}

    def call(self, call):
        args = call["args"]
        if self.op.name == "__getitem__":
            args = [args[0], *in_brackets(args[1])]
        return {"args": [self.value(v) for v in args],
                "kwargs": {k: self.value(v) for k, v in without_objects(call["kwargs"]).items()}}

    def outcome(self, sample, op, call, seed, second):
        """Runs the call, and stores the results in the sample and the gradients with their tensors."""
        try:
            run = Run(op, call, seed, second)
        except RuntimeError as error:
            if "out of bounds for storage" in str(error):
                raise Skip("the view has elements of the storage that the input lacks") from error
            if not second or "not implemented" not in str(error):
                raise
            second, run = False, Run(op, call, seed, False)
        if self.op.name in FORMULAS:
            exactly = Run(FORMULAS[self.op.name], call, seed, second)
            run.first, run.second = exactly.first, exactly.second
        scale = max((t[t.isfinite()].abs().max().item() for t in [*tensors_in(call), *run.all()]
                     if t is not None and t.is_floating_point() and t.isfinite().any()), default=0)
        n, m = len(run.results), len(run.leaves)
        if any(t.dtype in HALF for t in tensors_in(call)):
            expected = self.expected_of_half(call, seed, run)
        else:
            off, exact = rounding(op, call, seed, run, second, scale)
            least = 64 * (NORM if self.op.name.endswith(NORMS) else 1)
            expected = [self.expected(t, off[i], exact[i], scale, least if i >= n else 0)
                        for i, t in enumerate(run.all())]
        sample["outputs"] = [e | ({"grad": True} if w else {}) for e, w in zip(expected, run.wanted)]
        if has_ties(self.op, call):
            sample["outputs"][1] = None
        entries = list(walk(sample["args"] + list(sample["kwargs"].values())))
        leaves = [e for e, t in zip(entries, tensors_in(call)) if t.requires_grad]
        for i, entry in enumerate(leaves if any(run.wanted) else []):
            # PyTorch returns no gradient if it knows that it is 0; a formula may return rounding errors.
            none = {"rtol": 0, "atol": 8 * torch.finfo(run.leaves[i].dtype).eps * scale}
            entry["grad"] = expected[n + i] or none
            if second:
                entry["second"] = expected[n + m + i] or none

    def must_be_refused(self, op, call):
        try:
            op(*call["args"], **call["kwargs"])
        except Exception:
            return
        raise Skip("PyTorch accepts it")

    def add(self, sample_input, dtype, error=False):
        seed = len(self.samples)
        call = {"args": [sample_input.input, *sample_input.args], "kwargs": sample_input.kwargs}
        name = COMPLEX.get(dtype) or DTYPES[dtype]
        sample = {"dtype": name, "seed": seed}
        if self.op.name in SEEDED:
            sample["call_seed"] = SEEDED[self.op.name]
        before = dict(self.tensors)
        try:
            if sum(t.numel() for t in tensors_in(call)) > LARGEST:
                raise Skip(f"more than {LARGEST} elements")
            call = call if error else settled(self.op, call)
            op, call = by_parts(self.op, call)
            sample |= self.call(call)
            if error:
                self.must_be_refused(op, call)
                sample["error"] = True
            else:
                second = name == "f64" and has_second(self.op, call)
                self.outcome(sample, op, call, seed, second)
        except Skip as skip:
            if error:
                return
            sample, self.tensors = {"dtype": name, "skip": str(skip)}, before
        self.samples.append(sample)

    def save(self, directory, seed):
        name = ".".join(filter(None, [self.op.name, self.op.variant_test_name]))
        op = {"op": self.op.name, "variant": self.op.variant_test_name, "samples": self.samples}
        metadata = {"format": "ops-1", "torch": torch.__version__, "seed": str(seed),
                    "ops": json.dumps([op], separators=(",", ":"))}
        save_file(self.tensors, directory / f"{name}.safetensors", metadata)


def walk(values):
    """Yields the tensors' entries in JSON arguments, in order."""
    for value in values:
        if isinstance(value, dict) and "tensor" in value:
            yield value
        elif isinstance(value, list):
            yield from walk(value)


def seed_all(seed):
    for set_seed in (torch.manual_seed, random.seed, numpy.random.seed):
        set_seed(seed)


def record(op, seed, most, complex):
    file = File(op)
    for dtype in [*DTYPES, *(COMPLEX if complex else ())]:
        if not op.supports_dtype(dtype, "cpu"):
            continue
        seed_all(seed)
        grad = op.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
        samples = list(op.sample_inputs("cpu", dtype, requires_grad=grad, set_seed=False))
        number = most if dtype in STORED else MOST
        for sample in samples if len(samples) <= number else random.sample(samples, number):
            file.add(sample, dtype)
    if op.error_inputs_func:
        seed_all(seed)
        for error in list(op.error_inputs("cpu", set_seed=False)):
            file.add(error.sample_input, torch.float32, error=True)
    return file


def be_quiet():
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.set_warn_always(False)


def record_number(options, i):
    complex = op_db[i].name in options.complex
    record(op_db[i], options.seed, options.most, complex).save(options.directory, options.seed)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("brasa")
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most", type=int, default=MOST_STORED)
    parser.add_argument("--only", nargs="*")
    options = parser.parse_args()
    listed = subprocess.run([options.brasa, "check", "--list-ops"], stdout=subprocess.PIPE, check=True)
    listed = json.loads(listed.stdout)
    names = {op["name"] for op in listed}
    options.complex = {op["name"] for op in listed if "Complex " in op["signature"]}
    names &= set(options.only or names)
    options.directory.mkdir(parents=True, exist_ok=True)
    chosen = [i for i, op in enumerate(op_db)
              if op.name in names and op.variant_test_name not in REPEATED]
    with multiprocessing.Pool(initializer=be_quiet) as pool:
        pool.map(functools.partial(record_number, options), chosen, chunksize=1)


if __name__ == "__main__":
    main()
