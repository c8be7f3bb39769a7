#!/usr/bin/env python3
"""Writes the logits of the models in tests/models/decoders under torch.autocast, for test_decoders.c.

    record_autocast.py tests/models/decoders

Requires torch and transformers from PyPI; written with 2.15 and 5.24.
"""
import sys
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file


def main(folder):
    transformers.logging.set_verbosity_error()
    recorded = load_file(folder / "expected.safetensors")
    found = {}
    for name in sorted(key.removesuffix(".logits") for key in recorded if key.endswith("0.logits")):
        more = {"experts_implementation": "eager"} if name == "qwen3_moe0" else {}
        model = transformers.AutoModelForCausalLM.from_pretrained(folder / name, dtype=torch.float32, **more).eval()
        ids, mask = recorded[name + ".input_ids"], recorded[name + ".attention_mask"]
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            logits = model(input_ids=ids, attention_mask=mask).logits
        found[name] = (logits * mask.unsqueeze(-1)).to(logits.dtype).contiguous()
    save_file(found, folder / "autocast.safetensors")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
