#!/usr/bin/env python3
"""Writes the expected results of tests/models/test_dtypes.c.

    record_dtypes.py DIR      reads the recorded models in DIR (tests/models), writes DIR/dtypes.safetensors

For each model and each of bf16 and f16, transformers' logits in that dtype, its logits in f64 with the same weights, which
are those that the dtype has, and the tokens of greedy generate(). Requires torch and transformers from PyPI; written with
5.24.0.
"""
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import BertForMaskedLM, GPT2LMHeadModel, T5ForConditionalGeneration

from record_gpt2 import IDS, LENGTHS

MODELS = {"hf_bert/pretraining": BertForMaskedLM, "gpt2/lm": GPT2LMHeadModel,
          "t5/relu": T5ForConditionalGeneration, "t5/gated": T5ForConditionalGeneration}
DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16}
DECODER_IDS = [[0, 7, 31, 4, 12], [0, 22, 9, 1, 0], [0, 5, 5, 18, 1]]


def main():
    out, expected = Path(sys.argv[1]), {}
    given = dict(input_ids=torch.tensor(IDS), attention_mask=torch.tensor([[1] * n + [0] * (9 - n) for n in LENGTHS]))
    for folder, model_class in MODELS.items():
        decoder = dict(decoder_input_ids=torch.tensor(DECODER_IDS)) if folder.startswith("t5") else {}
        for name, dtype in DTYPES.items():
            model = model_class.from_pretrained(out / folder, dtype=dtype, attn_implementation="eager").eval()
            with torch.no_grad():
                logits = model(**given, **decoder).logits
                assert logits.dtype == dtype
                expected[f"{folder}.{name}.logits"] = logits
                expected[f"{folder}.{name}.exact"] = model.double()(**given, **decoder).logits.float()
    expected |= given | dict(decoder_input_ids=torch.tensor(DECODER_IDS))
    save_file({key: value.contiguous() for key, value in expected.items()}, out / "dtypes.safetensors")


main()
