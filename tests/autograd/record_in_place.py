#!/usr/bin/env python3
"""Writes in_place_values.h: results and first- and second-order gradients of functions that change views,
or tensors that have views, in place.
Usage: python record_in_place.py > in_place_values.h

Element i of x [3, 4] is sin(i + 1), and element i of w [4] is cos(i). The second-order gradients are those
of the sum of the squares of the first-order ones."""
import textwrap

import torch


def change_view(x, w):
    y = x * 2
    y[1].mul_(w)
    return (y * y).sum()


def change_base(x, w):
    y = x * 2
    turned = y.t()
    y.mul_(w)
    return (turned * turned * turned).sum()


def fill_rows(x, w):
    rows = torch.zeros(3, 4, dtype=x.dtype)
    for i in range(3):
        rows[i].copy_(x[i] * w)
    return (rows * rows * rows).sum()


def change_overlapping_views(x, w):
    y = x * 2
    columns, row = y[:, 1:3], y[0]
    columns.sin_()
    row.mul_(w)
    return (columns * columns).sum() + (row * w).sum() + (y * y).sum()


def change_view_of_view(x, w):
    y = torch.sin(x)
    part = y.t()[1:3]
    part[0].mul_(w[:3])
    part.add_(1).mul_(part.clone())
    return (y * y * y).sum()


def forget(x, w):
    y = x * x
    y[1].zero_()
    y.diagonal().fill_(3)
    y[:, 2].mul_(y[:, 1].clone())
    return (y * w * y).sum()


def look_through_expanded(x, w):
    y = x * 2
    wide, windows = y[:1].expand(3, 4), y.view(12).unfold(0, 4, 2)
    y.mul_(w)
    return (wide * wide * x).sum() + (windows * windows * w).sum()


def begin_without_gradients(x, w):
    y = torch.ones(3, 4, dtype=x.dtype)
    row, before = y[0], y[1]
    row.mul_(w)
    y[:, 1].mul_(x[:, 0])
    return (y * y).sum() + (row * before).sum()


def change_detached(x, w):
    y = (x * 2).detach()
    y[2].mul_(w)
    y.mul_(x)
    return (y * y).sum()


CASES = [change_view, change_base, fill_rows, change_overlapping_views, change_view_of_view, forget,
         look_through_expanded, begin_without_gradients, change_detached]


def results(case):
    x = torch.sin(torch.arange(12, dtype=torch.float64) + 1).view(3, 4).requires_grad_()
    w = torch.cos(torch.arange(4, dtype=torch.float64)).requires_grad_()
    out = case(x, w)
    first = torch.autograd.grad(out, (x, w), create_graph=True)
    squares = sum((g * g).sum() for g in first)
    second = torch.autograd.grad(squares, (x, w), materialize_grads=True)
    return torch.cat([t.detach().flatten() for t in (out, *first, *second)]).tolist()


print("/* Made by record_in_place.py with PyTorch", torch.__version__.split("+")[0] + ". */")
print("/* clang-format off */")
for case in CASES:
    print(f"static const double {case.__name__}_values[] = {{")
    values = ", ".join(repr(v) for v in results(case))
    print(textwrap.fill(values, 99, initial_indent="    ", subsequent_indent="    "), "\n};", sep="")
