#!/usr/bin/env python3
"""Prints the losses of fine-tunings with transformers, of all parameters and of adapters of peft, for test_finetune.c.

The model is the GPT-2 of tests/models/gpt2/lm. A batch has all examples, so that their order does not
matter. Requires torch, transformers and peft from PyPI; written with 2.15, 5.24 and 0.21.
"""
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from transformers import GPT2LMHeadModel, get_linear_schedule_with_warmup

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
PIECES = [*LETTERS, "th", "he", " ", "<|endoftext|>"]
END = len(PIECES) - 1
# Prompt and completion, as in the test; the fourth is cut to 9 tokens.
EXAMPLES = [("ab c", " de"), ("at", "he cab"), ("", "face"), ("0 1 2 3", " 4 5 6 7"), ("x", "y")]
LENGTH, STEPS, LR = 9, 6, 0.01


def tokens(text):
    """Returns the ids of the text: the merges are "th" and "he"."""
    ids = []
    while text:
        n = 2 if text[:2] in ("th", "he") else 1
        ids.append(PIECES.index(text[:n]))
        text = text[n:]
    return ids


def batch():
    """Returns ids, attention mask and labels of all examples."""
    rows = []
    for prompt, completion in EXAMPLES:
        before, ids = tokens(prompt), tokens(prompt + completion) + [END]
        common = next((i for i, (a, b) in enumerate(zip(before, ids)) if a != b), len(before))
        rows.append((ids[:LENGTH], [-100] * common + ids[common:LENGTH]))
    longest = max(len(ids) for ids, _ in rows)
    return {"input_ids": torch.tensor([row + [0] * (longest - len(row)) for row, _ in rows]),
            "attention_mask": torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row, _ in rows]),
            "labels": torch.tensor([row[:longest] + [-100] * (longest - len(row)) for _, row in rows])}


def losses(adapter):
    """Trains the model, or an adapter with these settings, and returns the losses."""
    model = GPT2LMHeadModel.from_pretrained(Path(__file__).parent.parent / "models/gpt2/lm")
    if adapter:
        torch.manual_seed(0)
        model = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", fan_in_fan_out=True, **adapter))
    model.train()
    optim = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=LR, weight_decay=0.0)
    schedule = get_linear_schedule_with_warmup(optim, 0, STEPS)
    values = []
    for _ in range(STEPS):
        loss = model(**batch()).loss
        values.append(f"{loss.item():.9g}")
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optim.step()
        schedule.step()
        optim.zero_grad()
    return values


def main():
    print("all parameters:", *losses({}))
    print("LoRA:", *losses({"r": 16, "lora_alpha": 32, "target_modules": "all-linear"}))
    print("DoRA:", *losses({"r": 4, "lora_alpha": 8, "target_modules": ["c_attn", "c_fc"], "use_dora": True,
                            "use_rslora": True}))


if __name__ == "__main__":
    main()
