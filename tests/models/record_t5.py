#!/usr/bin/env python3
"""Writes the expected results of tests/models/test_t5.c.

    record_t5.py t5      two tiny models with random weights, and their results

Results are those of transformers in double precision, rounded to f32; tokens are those of its
generate() in f32. Requires torch and transformers from PyPI; written with 5.23.0.
"""
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import T5Config, T5ForConditionalGeneration

from record_gpt2 import IDS, LENGTHS, save

LABELS = [[7, 31, 4, 12, 1], [22, 9, 1, -100, -100], [5, 5, 18, 1, -100]]
SIZES = dict(vocab_size=40, d_model=16, d_kv=3, d_ff=20, num_layers=2, num_decoder_layers=2, num_heads=4,
             relative_attention_num_buckets=8, relative_attention_max_distance=12, dropout_rate=0.0,
             decoder_start_token_id=0)
VARIANTS = {"relu": {}, "gated": dict(feed_forward_proj="gated-gelu", tie_word_embeddings=False)}


def randomize(model):
    torch.manual_seed(1)
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.normal_(1.0 if "layer_norm" in name else 0.0, 1.0 if "shared" in name else 0.3)


def open_model(folder, dtype=torch.float64):
    return T5ForConditionalGeneration.from_pretrained(folder, dtype=dtype, attn_implementation="eager").eval()


def run(model):
    ids, labels = torch.tensor(IDS), torch.tensor(LABELS)
    mask = torch.tensor([[1] * n + [0] * (9 - n) for n in LENGTHS])
    out = model(input_ids=ids, attention_mask=mask, labels=labels, output_attentions=True)
    return dict(input_ids=ids, attention_mask=mask, labels=labels), out


def long_texts(model):
    """Returns results for distances beyond the last bucket, in both directions."""
    ids = torch.arange(70)[None] * 7 % 37 + 2
    return {"long_ids": ids, "long_logits": model(input_ids=ids, decoder_input_ids=ids.flip(1)).logits[:, ::5]}


def main():
    out = Path(sys.argv[1])
    expected = {}
    for name, more in VARIANTS.items():
        model = T5ForConditionalGeneration(T5Config(**SIZES, **more))
        randomize(model)
        model.save_pretrained(out / name)
        (out / name / "generation_config.json").unlink()
        if more:  # an untied lm_head, which save_pretrained() does not write any more
            path, config = out / name / "model.safetensors", out / name / "config.json"
            head = {"lm_head.weight": torch.randn(SIZES["vocab_size"], SIZES["d_model"]) * 0.5}
            save_file(load_file(path) | head, path, metadata={"format": "pt"})
            text = config.read_text().replace('  "tie_word_embeddings": true,\n', "")
            config.write_text(text.replace("{\n", '{\n  "tie_word_embeddings": false,\n', 1))
        model = open_model(out / name)
        given, result = run(model)
        result.loss.backward()
        expected |= {f"{name}.logits": result.logits.detach(), f"{name}.loss": result.loss.detach()} | given
        with torch.no_grad():
            expected |= {f"{name}.{k}": v for k, v in long_texts(model).items()}
        if not more:
            expected |= {"encoder": result.encoder_last_hidden_state.detach(),
                         "cross_attention": result.cross_attentions[1].detach(),
                         "attention": result.decoder_attentions[1].detach()}
            expected |= {"grad." + n: p.grad for n, p in model.named_parameters()}
        model = open_model(out / name, torch.float32)
        mask = dict(attention_mask=given["attention_mask"], max_new_tokens=12)
        expected[f"{name}.greedy"] = model.generate(given["input_ids"], **mask, do_sample=False)
        torch.manual_seed(3)
        expected[f"{name}.sampled"] = model.generate(given["input_ids"], **mask, do_sample=True, top_k=8)
    save(out / "expected.safetensors", expected)


main()
