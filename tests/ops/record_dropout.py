#!/usr/bin/env python3
"""Prints tests/ops/dropout_values.h: the masks of PyTorch's dropout, and the number that its generator
returns afterwards. On Intel processors PyTorch uses MKL's generator for dropout, which gives other
numbers, so run this on another processor."""

import torch
import torch.nn.functional as F


def bits(kept):
    """Returns hexadecimal digits with the first element in the lowest bit of the first digit."""
    kept = kept.flatten().tolist()
    return "".join("%x" % sum(b << i for i, b in enumerate(kept[at:at + 4]))
                   for at in range(0, len(kept), 4))


def following():
    return torch.randint(0, 1 << 20, (1,)).item()


def values(name, t):
    numbers = ", ".join("%.9g" % v for v in t.flatten().tolist())
    print(f"static const double {name}[] = {{ {numbers} }};")


print("/* Recorded by record_dropout.py. */")
for name, p, dtype in (("tenth", 0.1, torch.float32), ("half", 0.5, torch.float64),
                       ("most", 0.9, torch.float32)):
    torch.manual_seed(11)
    kept = F.dropout(torch.ones(1, 300, dtype=dtype), p, True) != 0
    print(f'static const char {name}_kept[] = "{bits(kept.int())}";')
    print(f"enum {{ {name}_following = {following()} }};")

torch.manual_seed(11)
x = torch.ones(6, 50).t()  # random numbers are assigned in memory order
kept = F.dropout(x, 0.5, True) != 0
print(f'static const char transposed_kept[] = "{bits(kept.int())}";')

torch.manual_seed(11)
unit = torch.eye(9).expand(2, 2, 9, 9)
kept = F.scaled_dot_product_attention(torch.zeros(2, 2, 7, 3), torch.zeros(2, 2, 9, 3), unit,
                                      dropout_p=0.4) != 0
print(f'static const char attention_kept[] = "{bits(kept.int())}";')
print(f"enum {{ attention_following = {following()} }};")

# Losses of training steps of a Transformer, which has four dropouts per layer.
for batch_first in (False, True):
    torch.manual_seed(5)
    model = torch.nn.TransformerEncoder(
        torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.3, batch_first=batch_first), 2)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x = torch.randn(3, 5, 8)
    losses = []
    for _ in range(6):
        loss = (model(x) ** 3).mean()
        sgd.zero_grad()
        loss.backward()
        sgd.step()
        losses.append(loss.detach())
    values("batch_first_losses" if batch_first else "losses", torch.stack(losses))
