#!/usr/bin/env python3
"""Writes the adapters and the results of tests/pretrained/test_lora_folder.c.

    record_lora.py adapters

Each folder is an adapter with random values that peft saved, for a small model of tests/models. The file
expected.safetensors has the ids, the logits, and, for language models, the losses of 20 steps of AdamW and the adapter's
values after them. Requires torch, transformers, peft and safetensors from PyPI; written with peft 0.21.
"""
import sys
from pathlib import Path

import torch
import transformers
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict
from safetensors.torch import save_file

MODELS = Path(__file__).parent.parent / "models"
STEPS = 20


def randomize(model, generator):
    with torch.no_grad():
        for name, p in model.named_parameters():
            if not p.requires_grad:
                continue
            if "magnitude" in name:
                p.mul_(1 + 0.2 * torch.rand(p.shape, generator=generator))
            else:
                p.copy_(0.3 * torch.randn(p.shape, generator=generator))


def train(model, ids):
    adamw = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.005, foreach=False)
    losses = []
    for _ in range(STEPS):
        adamw.zero_grad()
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        adamw.step()
        losses.append(loss.detach())
    return torch.stack(losses)


def record(out, folder, name, base, **options):
    generator = torch.Generator().manual_seed(len(out))
    kind = "AutoModelForCausalLM" if base[0] != "encoders" else "AutoModelForSequenceClassification"
    model = getattr(transformers, kind).from_pretrained(MODELS.joinpath(*base)).float()
    ids = torch.randint(3, model.config.vocab_size, (2, 7), generator=generator)
    model = get_peft_model(model, LoraConfig(**options)).eval()
    randomize(model, generator)
    model.save_pretrained(folder / name)
    (folder / name / "README.md").unlink()
    path = folder / name / "adapter_config.json"
    path.write_text(path.read_text().replace(str(MODELS.joinpath(*base)), base[-1]))
    out |= {f"{name}.ids": ids, f"{name}.logits": model(input_ids=ids).logits.detach().clone()}
    if kind == "AutoModelForCausalLM":
        out[f"{name}.losses"] = train(model, ids)
        end = get_peft_model_state_dict(model, save_embedding_layers=False)
        out |= {f"{name}.end.{key}": t.detach().clone() for key, t in end.items()}


def main():
    folder, out = Path(sys.argv[1]), {}
    llama = ("decoders", "llama0")
    record(out, folder, "lora", llama, r=2, lora_alpha=4, target_modules=["q_proj", "v_proj", "up_proj"])
    record(out, folder, "dora", llama, r=2, lora_alpha=3, use_dora=True, target_modules=r".*layers\.\d+\..*(q|down)_proj")
    record(out, folder, "rslora", llama, r=2, use_rslora=True, target_modules=["embed_tokens", "o_proj"],
           rank_pattern={"o_proj": 3}, alpha_pattern={"embed_tokens": 7})
    record(out, folder, "gpt2", ("gpt2", "lm"), r=2, target_modules=["c_attn", "c_proj"])
    record(out, folder, "distilbert", ("encoders", "distilbert0"), r=2, target_modules=["q_lin", "lin1"],
           bias="lora_only", modules_to_save=["pre_classifier", "classifier", "score"])
    save_file(out, folder / "expected.safetensors")


if __name__ == "__main__":
    main()
