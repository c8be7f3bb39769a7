#!/usr/bin/env python3
"""Writes the expected results of tests/models/test_heads.c.

    record_heads.py heads.safetensors

Each case is a recorded model with the changes to its configuration and its tensors that CASES lists;
test_heads.c has the same cases. Results are those of transformers in double precision, rounded to f32;
tokens are those of its generate() in f32. Requires torch and transformers from PyPI;
written with 5.23.0.
"""
import json
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import BertForPreTraining, GPT2LMHeadModel, T5ForConditionalGeneration

from record_gpt2 import IDS, LENGTHS, save

HERE = Path(__file__).parent
WTE, WORDS, SHARED = "transformer.wte.weight", "bert.embeddings.word_embeddings.weight", "shared.weight"
DECODER = "cls.predictions.decoder."
# For each case: the folder, the changed keys of the configuration (None: the key is removed), the removed tensors, and
# the added tensors, each with the tensor that it is derived from: its rows are reversed and halved.
CASES = {
    "gpt2.own": ("gpt2/lm", {}, [], {"lm_head.weight": WTE}),
    "gpt2.unsaid": ("gpt2/lm", {"tie_word_embeddings": None}, [], {"lm_head.weight": WTE}),
    "bert.own": ("hf_bert/pretraining", {}, [], {DECODER + "weight": WORDS}),
    "bert.bias": ("hf_bert/pretraining", {}, [], {DECODER + "bias": "cls.predictions.bias"}),
    "t5.saved_by_5": ("t5/gated", {"tie_word_embeddings": True, "scale_decoder_outputs": False}, ["lm_head.weight"], {}),
    "t5.no_head": ("t5/gated", {}, ["lm_head.weight"], {}),
    "t5.scaled": ("t5/gated", {"scale_decoder_outputs": True}, [], {}),
    "t5.own": ("t5/relu", {}, [], {"lm_head.weight": SHARED}),
    "t5.encoder": ("t5/relu", {}, [], {"encoder.embed_tokens.weight": SHARED}),
    "t5.settled": ("t5/gated", {"dense_act_fn": "silu"}, [], {}),
}
CLASSES = {"gpt2": GPT2LMHeadModel, "bert": BertForPreTraining, "t5": T5ForConditionalGeneration}


def make(folder, case):
    base, keys, without, made = CASES[case]
    config = json.loads((HERE / base / "config.json").read_text()) | keys
    (folder / "config.json").write_text(json.dumps({k: v for k, v in config.items() if k not in keys or v is not None}))
    tensors = {k: v for k, v in load_file(HERE / base / "model.safetensors").items() if k not in without}
    tensors |= {k: tensors[of].flip(0) / 2 for k, of in made.items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def run(case):
    cls = CLASSES[case.split(".")[0]]
    ids, mask = torch.tensor(IDS), torch.tensor([[1] * n + [0] * (9 - n) for n in LENGTHS])
    with tempfile.TemporaryDirectory() as name, torch.no_grad():
        make(Path(name), case)
        model = cls.from_pretrained(name, dtype=torch.float64, attn_implementation="eager").eval()
        if cls is not T5ForConditionalGeneration:
            return {case: model(ids, attention_mask=mask)[0]}
        logits = model(ids, attention_mask=mask, decoder_input_ids=ids.flip(1)).logits
        model = cls.from_pretrained(name, attn_implementation="eager").eval()
        tokens = model.generate(ids, attention_mask=mask, max_new_tokens=12, do_sample=False)
        return {case: logits, case + ".greedy": tokens}


if __name__ == "__main__":
    torch.manual_seed(1)
    save(sys.argv[1], {k: v for case in CASES for k, v in run(case).items()})
