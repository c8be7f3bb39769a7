#!/usr/bin/env python3
"""Writes classifier.safetensors as docs/check.md shows it. The repository has it as
examples/09_recorded_model.safetensors."""
import json

import torch
import torch.nn as nn
from safetensors.torch import save_file


class Classifier(nn.Module):
    def __init__(self, d_in, d_hidden, n_classes):
        super().__init__()
        self.fc1 = nn.Linear(d_in, d_hidden)
        self.fc2 = nn.Linear(d_hidden, n_classes)

    def forward(self, x):
        return self.fc2(torch.tanh(self.fc1(x)))


torch.manual_seed(0)
config = {"d_in": 5, "d_hidden": 8, "n_classes": 3}
model, inputs = Classifier(**config), {"x": torch.randn(4, 5)}
tensors = {"param/" + n: t.clone() for n, t in model.state_dict().items()}
tensors.update({"input/" + n: t.clone() for n, t in inputs.items()})

model.double().eval()  # float64 from here on: the exact values, rounded when they are saved
expected = {}
for name, module in model.named_modules():  # intermediate results: the first of each module
    if name:
        module.register_forward_hook(lambda _, x, y, name=name: expected.setdefault("tap/" + name, y))
inputs = {n: t.double().requires_grad_() for n, t in inputs.items()}
output = model(**inputs)
loss = (output ** 2).mean() / 2
loss.backward()

expected.update({"output/0": output, "loss": loss})
expected.update({"grad/" + n: p.grad for n, p in model.named_parameters()})
expected.update({"grad_input/" + n: t.grad for n, t in inputs.items()})
tensors.update({n: t.detach().float() for n, t in expected.items()})
tol = {n: 1e-6 * max(t.abs().max().item(), 1e-6) for n, t in expected.items()}
metadata = {"format": "golden-1", "model": "mine.Classifier", "mode": "eval", "config": config,
            "loss": "half_mean_square", "loss_of": ["0"], "rtol": 1e-5, "atol": max(tol.values()),
            "tol": tol}
save_file({n: t.contiguous() for n, t in tensors.items()}, "classifier.safetensors",
          {k: v if isinstance(v, str) else json.dumps(v) for k, v in metadata.items()})
