#!/usr/bin/env python3
"""Records what Hugging Face's peft computes with adapters of small layers, for tests/nn/test_lora.c.

    record_lora.py recorded/lora.safetensors

Each case is a small model with an adapter whose values are random. The file has, for each case: the values of the model
("CASE.base.NAME") and of the adapter ("CASE.start.NAME"), the losses of 20 steps of AdamW, the adapter's values after them
("CASE.end.NAME"), the result, and the weights with the adapter merged ("CASE.merged.NAME"). The case "initial" has the
adapters that peft makes after torch.manual_seed(5). Requires torch, transformers, peft and safetensors from PyPI; written
with peft 0.21.
"""
import sys

import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file
from torch import nn

STEPS = 20


def plain(name):
    """Returns the name that Brasa has for a parameter of peft's model."""
    return name.removeprefix("base_model.model.").replace(".base_layer", "")


def adapter(model):
    return {plain(n): p.detach().clone() for n, p in model.named_parameters() if "lora_" in n}


def randomize(model):
    """Sets the adapter to values that change the result. A magnitude stays near the norms."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "magnitude" in name:
                p.mul_(1 + 0.2 * torch.rand(p.shape))
            elif "lora_" in name:
                p.copy_(0.4 * torch.randn(p.shape))


def record(out, case, model, x, target, **options):
    base = {n: p.detach().clone() for n, p in model.state_dict().items()}
    model = get_peft_model(model, LoraConfig(**options))
    randomize(model)
    start = adapter(model)
    adamw = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.02, foreach=False)
    losses = []
    for _ in range(STEPS):
        adamw.zero_grad()
        loss = nn.functional.mse_loss(model(x), target)
        loss.backward()
        adamw.step()
        losses.append(loss.detach())
    end, result, merged = adapter(model), model(x).detach(), {}
    if case != "conv_groups":
        model.merge_adapter()
        merged = {plain(n): p.detach().clone() for n, p in model.named_parameters() if n.endswith("base_layer.weight")}
    groups = {"base": base, "start": start, "end": end, "merged": merged}
    out |= {f"{case}.{group}.{n}": t.contiguous() for group, named in groups.items() for n, t in named.items()}
    out |= {f"{case}.x": x.clone(), f"{case}.target": target.clone(), f"{case}.losses": torch.stack(losses), f"{case}.result": result}


def linear():
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3, bias=False))


def main():
    out = {}
    torch.manual_seed(1)
    x, y = torch.randn(5, 4), torch.randn(5, 3)
    both = dict(r=2, lora_alpha=3, target_modules=["0", "2"])
    record(out, "lora", linear(), x, y, **both)
    record(out, "rslora", linear(), x, y, **both, use_rslora=True)
    record(out, "dora", linear(), x, y, **both, use_dora=True)
    record(out, "patterns", linear(), x, y, **both, rank_pattern={"2": 3}, alpha_pattern={"0": 5})
    ids, rows = torch.tensor([[1, 4, 6], [0, 1, 4]]), torch.randn(2, 3, 2)
    table = lambda: nn.Sequential(nn.Embedding(7, 4, padding_idx=1), nn.Linear(4, 2))
    one = dict(r=2, lora_alpha=3, target_modules=["0"])
    record(out, "embedding", table(), ids, rows, **one)
    record(out, "embedding_dora", table(), ids, rows, **one, use_dora=True)
    image, small = torch.randn(2, 4, 5, 5), torch.randn(2, 6, 3, 3)
    conv = lambda groups=1: nn.Sequential(nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=groups))
    record(out, "conv", conv(), image, small, **one)
    record(out, "conv_dora", conv(), image, small, **one, use_dora=True)
    record(out, "conv_groups", conv(2), image, small, **one)
    series, less = torch.randn(2, 4, 6), torch.randn(2, 3, 5)
    record(out, "conv1d_dora", nn.Sequential(nn.Conv1d(4, 3, 2)), series, less, **one, use_dora=True)
    by_freq = nn.Sequential(nn.Embedding(7, 4, scale_grad_by_freq=True), nn.Linear(4, 2))
    record(out, "embedding_by_freq", by_freq, torch.tensor([[1, 4, 1], [0, 1, 4]]), torch.randn(2, 3, 2), **one)
    torch.manual_seed(5)
    model = nn.Sequential(nn.Embedding(7, 4), nn.Linear(4, 6), nn.Conv1d(4, 3, 2))
    config = LoraConfig(r=2, target_modules=["0", "1", "2"], use_dora=True)
    out |= {f"initial.{n}": t for n, t in adapter(get_peft_model(model, config)).items()}
    torch.manual_seed(5)
    config = LoraConfig(r=2, target_modules=["0"], init_lora_weights="gaussian")
    out |= {f"gaussian.{n}": t for n, t in adapter(get_peft_model(linear(), config)).items()}
    torch.manual_seed(5)
    halves = linear().to(torch.bfloat16)
    out |= {f"bf16.base.{n}": t.clone() for n, t in halves.state_dict().items()}
    model = get_peft_model(halves, LoraConfig(**both))
    randomize(model)
    out |= {f"bf16.start.{n}": t for n, t in adapter(model).items()}
    out["bf16.result"] = model(x.to(torch.bfloat16)).detach()
    model.merge_adapter()
    out |= {f"bf16.merged.{plain(n)}": p.detach().clone() for n, p in model.named_parameters() if "base_layer.weight" in n}
    model.unmerge_adapter()
    out |= {f"bf16.unmerged.{plain(n)}": p.detach().clone() for n, p in model.named_parameters() if "base_layer.weight" in n}
    save_file(out, sys.argv[1])


if __name__ == "__main__":
    main()
