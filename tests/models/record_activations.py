#!/usr/bin/env python3
"""Writes the expected results of tests/models/test_activations.c.

    record_activations.py activations.safetensors

For each name in transformers' ACT2FN except those with weights, the file has the function's values at "x" in f64, and
the logits of recorded models with that activation: transformers' in double precision, rounded to f32. A T5 is
recorded with the plain and with the gated activation. Requires torch and transformers from PyPI; written with 5.24.0.
"""
import json
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import BertForPreTraining, GPT2LMHeadModel, T5ForConditionalGeneration
from transformers.activations import ACT2FN

HERE = Path(__file__).parent
IDS = torch.tensor([[2, 17, 5, 9, 3]])
WITH_WEIGHTS = ["prelu", "xielu"]
# Class, folder, and the key that names the activation. The other keys, which transformers 5 derives from it, are removed.
MODELS = {
    "gpt2.": (GPT2LMHeadModel, "gpt2/lm", "activation_function"),
    "bert.": (BertForPreTraining, "hf_bert/pretraining", "hidden_act"),
    "t5.": (T5ForConditionalGeneration, "t5/relu", "feed_forward_proj"),
    "t5.gated-": (T5ForConditionalGeneration, "t5/gated", "feed_forward_proj"),
}


def logits(model, name):
    cls, base, key = MODELS[model]
    config = json.loads((HERE / base / "config.json").read_text())
    config = {k: v for k, v in config.items() if k not in ("dense_act_fn", "is_gated_act")}
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        value = model.partition(".")[2] + name
        (Path(folder) / "config.json").write_text(json.dumps(config | {key: value}))
        (Path(folder) / "model.safetensors").symlink_to(HERE / base / "model.safetensors")
        model = cls.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager").eval()
        given = {"decoder_input_ids": IDS.flip(1)} if cls is T5ForConditionalGeneration else {}
        return model(IDS, **given)[0][:, -2:].float().contiguous()


if __name__ == "__main__":
    x = torch.cat([torch.linspace(-6, 6, 49, dtype=torch.float64), torch.tensor([-40.0, -11, 11, 40, 0.707107])])
    names = [name for name in ACT2FN if name not in WITH_WEIGHTS]
    out = {"x": x} | {name: ACT2FN[name](x).detach().clone() for name in names}
    save_file(out | {model + name: logits(model, name) for model in MODELS for name in names}, sys.argv[1])
    print(len(names), "names:", *names)
