#!/usr/bin/env python3
"""Writes torch_distances.h: PyTorch's losses between two tensors and cosine similarity in f64, with the
gradients with respect to both. Usage: python record_distances.py > torch_distances.h"""
import torch
import torch.nn.functional as F

from recording import table, values


def record(name, function, second=lambda t: t, gradients=True):
    a = values(3, 4, seed=1).requires_grad_()
    b = second(values(3, 4, seed=2)).requires_grad_()
    y = function(a, b)
    if not gradients:
        table(name + "_y", y)
        return
    da, db = torch.autograd.grad(y, (a, b), values(*y.shape, seed=9))
    for label, t in {"_y": y, "_da": da, "_db": db}.items():
        table(name + label, t)


weight, pos_weight = values(3, 4, seed=3).abs(), values(4, seed=4).abs()
print("/* Recorded from PyTorch by record_distances.py. */\n/* clang-format off */")
record("mse_mean", F.mse_loss)
record("l1_sum", lambda a, b: F.l1_loss(a, b, reduction="sum"))
record("smooth_l1", lambda a, b: F.smooth_l1_loss(a, b, reduction="none", beta=0.75))
record("bce_plain", F.binary_cross_entropy_with_logits)
record("bce_weighted", lambda a, b: F.binary_cross_entropy_with_logits(a, b, weight, reduction="none", pos_weight=pos_weight))
record("kl", lambda a, b: F.kl_div(a, b, reduction="none"), torch.exp)
record("kl_log", lambda a, b: F.kl_div(a, b, reduction="sum", log_target=True))
record("cosine_0", lambda a, b: F.cosine_similarity(a, b, 0))
record("cosine_1", lambda a, b: F.cosine_similarity(a, b))
record("cosine_eps", lambda a, b: F.cosine_similarity(a, b, 1, 4.5), gradients=False)
