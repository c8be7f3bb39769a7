"""Writes torch_attention.h: results and gradients of PyTorch's scaled dot product attention in double
precision, computed by its math kernel. The flash kernel must agree where it supports the inputs. Inputs are
values(sizes, seed), which the tests reproduce."""
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from recording import table, values


def record(name, query, key, value, mask=None, **options):
    inputs = {"query": query, "key": key, "value": value}
    if mask is not None and mask.requires_grad:
        inputs["mask"] = mask
    backends = [SDPBackend.MATH]
    if "mask" not in inputs and value.shape[-1] == query.shape[-1]:
        backends.append(SDPBackend.FLASH_ATTENTION)  # both must agree
    runs = []
    for backend in backends:
        with sdpa_kernel(backend):
            y = F.scaled_dot_product_attention(query, key, value, mask, **options)
        dy = values(*y.shape, seed=9)
        runs.append([y, *torch.autograd.grad(y, list(inputs.values()), dy)])
    for run in runs[1:]:
        for a, b in zip(run, runs[0]):
            torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-13)
    for label, t in zip(["", *[f"_d{i}" for i in inputs]], runs[0]):
        table(f"attention_{name}{label}", t)


def inputs(query, key, value):
    return [values(*s, seed=i + 1).requires_grad_() for i, s in enumerate((query, key, value))]


print("/* Recorded from PyTorch by record_attention.py. */")
record("plain", *inputs((2, 3, 4), (2, 5, 4), (2, 5, 4)))
record("causal", *inputs((2, 4, 3), (2, 4, 3), (2, 4, 3)), is_causal=True)
record("causal_tall", *inputs((5, 3), (2, 3), (2, 2)), is_causal=True)
record("causal_wide", *inputs((2, 3), (5, 3), (5, 2)), is_causal=True)
# All keys of the second query are masked.
bools = torch.tensor([[1, 0, 1], [0, 0, 0], [1, 1, 0]]).bool()
record("bool", *inputs((1, 1, 3, 2), (1, 1, 3, 2), (1, 1, 3, 2)), bools)
floats = values(2, 1, 1, 3, seed=5).requires_grad_()
record("float", *inputs((2, 2, 2, 2), (2, 2, 3, 2), (2, 2, 3, 3)), floats, scale=0.3)
record("grouped", *inputs((2, 4, 2, 2), (2, 2, 3, 2), (2, 2, 3, 2)), enable_gqa=True)
record("shared", *inputs((3, 2, 2), (3, 2), (1, 3, 1)))
