#!/usr/bin/env python3
"""Compares `brasa generate` for T5 with generate() of transformers: small models with random weights and the recorded
tokenizer, with greedy decoding and with several ways of sampling.

    tests/cli/compare_t5.py BRASA

BRASA is the command. The exit status is 1 if a text differs. Requires torch and transformers from PyPI.
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

import torch
from transformers import PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration

TOKENIZER = pathlib.Path(__file__).resolve().parent.parent / "tokenizers" / "unigram" / "tokenizer.json"
PROMPTS = ["the license", "Write what <extra_id_0> says.", "\u2122 \u4e2d", "a", "import json, sys\nprint()", "x " * 60]
WAYS = [{}, {"temperature": 0.7}, {"top_k": 5}, {"top_p": 0.8}, {"temperature": 1.5, "top_k": 40, "top_p": 0.9}]


def make(folder, seed, **more):
    config = T5Config(vocab_size=720, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, decoder_start_token_id=0, **more)
    torch.manual_seed(seed)
    model = T5ForConditionalGeneration(config).eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.normal_(1.0 if "layer_norm" in name else 0.0, 1.0 if "shared" in name else 0.2)
    model.save_pretrained(folder)
    shutil.copy(TOKENIZER, folder)
    return model


def wanted(model, tokenizer, prompt, way, seed):
    ids = torch.tensor([tokenizer(prompt)["input_ids"]])
    torch.manual_seed(seed)
    settings = {"do_sample": True} | way if way else {"do_sample": False}
    out = model.generate(ids, max_new_tokens=20, **settings)
    return tokenizer.decode(out[0], skip_special_tokens=True, clean_up_tokenization_spaces=False)


def main():
    brasa, compared, different = sys.argv[1], 0, 0
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(TOKENIZER), eos_token="</s>", pad_token="<pad>", unk_token="<unk>")
    with tempfile.TemporaryDirectory() as folder:
        for seed, form in enumerate([{}, {"feed_forward_proj": "gated-gelu"}]):
            model = make(folder, seed, **form)
            for prompt in PROMPTS:
                for way in WAYS:
                    options = [o for key, value in way.items() for o in ("--" + key.replace("_", "-"), str(value))]
                    options += ["--seed", "7"] if way else []
                    got = subprocess.run([brasa, "generate", "--model", folder, "-n", "20", *options, prompt],
                                         stdout=subprocess.PIPE, check=True).stdout.decode()
                    want = wanted(model, tokenizer, prompt, way, 7) + "\n"
                    compared += 1
                    if got != want:
                        different += 1
                        print(f"{prompt!a} {way}: {got!a}\n  expected {want!a}")
    print(f"{compared} texts, {different} differences")
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
