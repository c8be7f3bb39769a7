#!/usr/bin/env python3
"""Prints the expected results of tests/pretrained/test_sentence_files.c: the first three elements of the embeddings of
two texts of different lengths by sentence-transformers, for each case of the table there.

    record_sentence.py

Requires sentence-transformers and transformers from PyPI; written with 6.2.0 and 5.24.0.
"""
import json
import shutil
import tempfile
from pathlib import Path

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Dropout, LayerNorm, Normalize

TEXTS = ["aa a aaa A aa", "aaaa"]
MODEL = Path(__file__).parents[1] / "models/hf_bert/pretraining"
FLAGS = ["cls_token", "max_tokens", "mean_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken"]
PROMPT = {"prompts": {"q": "a aaa: "}, "default_prompt_name": "q"}


def fill(module):
    """Sets the weights to cos(0), cos(1), ... times 0.3, as the test does."""
    with torch.no_grad():
        for weight in module.parameters():
            weight.copy_(0.3 * torch.arange(weight.numel(), dtype=torch.float64).cos().reshape(weight.shape))
    return module


def make_folder(folder, pooling, *, normalize=False, heads=(), bert=None, prompt=None, sub="", tokenizer=None):
    inner = folder / sub
    inner.mkdir(exist_ok=True)
    for file in MODEL.iterdir():
        shutil.copy(file, inner)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *("a" * n for n in range(1, 37))]
    (inner / "vocab.txt").write_text("".join(word + "\n" for word in words))
    (inner / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer", **(tokenizer or {})}))
    types = [(sub, "Transformer"), ("1_Pooling", "Pooling")] + [("2_Normalize", "Normalize")] * normalize
    for i, module in enumerate(heads, 3):
        types.append((f"{i}_Head", type(module).__name__))
        (folder / types[-1][0]).mkdir()
        module.save(str(folder / types[-1][0]))
    (folder / "modules.json").write_text(json.dumps(
        [{"idx": i, "name": str(i), "path": path, "type": "sentence_transformers.models." + name}
         for i, (path, name) in enumerate(types)]))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling/config.json").write_text(json.dumps({"word_embedding_dimension": 16, **pooling}))
    if bert is not None:
        (inner / "sentence_bert_config.json").write_text(json.dumps(bert))
    if prompt is not None:
        (folder / "config_sentence_transformers.json").write_text(json.dumps(prompt))


def record(name, pooling, **options):
    with tempfile.TemporaryDirectory() as folder:
        make_folder(Path(folder), pooling, **options)
        rows = SentenceTransformer(folder, device="cpu", local_files_only=True).encode(TEXTS)
    values = ", ".join("{ " + ", ".join(f"{float(x):.7f}" for x in row[:3]) + " }" for row in rows)
    print(f"    /* {name}, {rows.shape[1]} */ {{ {values} }},")


for flag in FLAGS:
    record(flag, {"pooling_mode_" + flag: True})
record("list", {"pooling_mode": ["lasttoken", "mean"]})
record("normalize", {"pooling_mode": "mean"}, normalize=True, sub="0_Transformer")
for mode in ["cls", "max", "mean", "weightedmean", "lasttoken"]:
    record("prompt " + mode, {"pooling_mode": mode, "include_prompt": False}, prompt=PROMPT)
record("prompt included", {"pooling_mode": "mean"}, prompt=PROMPT)
record("max_seq_length", {"pooling_mode": "mean"}, bert={"max_seq_length": 5})
record("model_max_length", {"pooling_mode": "mean"}, tokenizer={"model_max_length": 4})
record("truncation_side", {"pooling_mode": "mean"}, tokenizer={"model_max_length": 4, "truncation_side": "left"})
record("cased", {"pooling_mode": "mean"}, tokenizer={"do_lower_case": False})
record("lower-cased", {"pooling_mode": "mean"}, bert={"do_lower_case": True}, tokenizer={"do_lower_case": False})
for name, heads in {
    "dense": [Dense(16, 5)],
    "dense, no bias, GELU": [Dense(16, 16, bias=False, activation_function=torch.nn.GELU())],
    "residual": [Dense(16, 16, activation_function=torch.nn.Identity(), use_residual=True)],
    "projected residual, normalized": [Dense(16, 4, use_residual=True), Normalize()],
    "layer norm, dropout, dense": [LayerNorm(16), Dropout(0.5), Dense(16, 3, activation_function=torch.nn.Sigmoid())],
}.items():
    record("heads: " + name, {"pooling_mode": "mean"}, heads=[fill(module) for module in heads])
