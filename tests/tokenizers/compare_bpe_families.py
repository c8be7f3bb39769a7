#!/usr/bin/env python3
"""Compares `brasa tokenize` with PyPI's `tokenizers` for the byte-level BPE of Llama 3, Qwen, SmolLM and GPT-NeoX, which
split and normalize texts in other ways than GPT-2: everything that compare_bpe.py compares.

    tests/tokenizers/compare_bpe_families.py BRASA [TEXTS [SEED]]

The texts are the lines of two documents and TEXTS random texts for each family. Without TEXTS, there are 20,000, and every
code point alone and between others, too. The exit status is 1 if anything differs.
"""
import json
import pathlib
import random
import sys
import tempfile

from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers

from compare_bpe import NASTY, SPECIALS, trained
from compare_tokenizers import Comparison, code_points, nasty_texts, words_of_every_script

DOCUMENTS = [pathlib.Path(__file__).resolve().parents[2] / name for name in ("README.md", "docs/design.md")]

GPT4 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|NUMBERS| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)"
        r"|\s+")
# How the texts of other families are split: what precedes ByteLevel, the normalizer, and ignore_merges.
FAMILIES = {
    "Llama 3": (pre_tokenizers.Split(Regex(GPT4.replace("NUMBERS", r"\p{N}{1,3}")), "isolated"), None, True),
    "Qwen": (pre_tokenizers.Split(Regex(GPT4.replace("NUMBERS", r"\p{N}")), "isolated"), normalizers.NFC(), False),
    "SmolLM": (pre_tokenizers.Digits(individual_digits=True), None, False),
    "GPT-NeoX": (None, normalizers.NFC(), False),
}


def of_family(tokenizer, first, normalizer, ignores_merges):
    """Returns the tokenizer with the parts of a family. With ignore_merges, some tokens cannot be reached by merges."""
    copy = Tokenizer.from_str(tokenizer.to_str())
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not isinstance(first, pre_tokenizers.Split))
    copy.pre_tokenizer = pre_tokenizers.Sequence([first, byte_level]) if first else byte_level
    if normalizer:
        copy.normalizer = normalizer
    if ignores_merges:
        parts = json.loads(copy.to_str())
        parts["model"]["ignore_merges"] = True
        parts["model"]["merges"] = [m for i, m in enumerate(parts["model"]["merges"]) if i % 7 != 6]
        copy = Tokenizer.from_str(json.dumps(parts))
    copy.add_special_tokens(SPECIALS)
    return copy


def compare(comparison, plain, lines, rng, folder, count):
    saved = ["--tokenizer", folder / "tokenizer.json"]
    everything = [] if count else [c for c in code_points() if c not in "\r\n"]
    nasty = nasty_texts(count or 20000, rng, NASTY)
    for name, parts in FAMILIES.items():
        tokenizer = of_family(plain, *parts)
        tokenizer.save(str(folder / "tokenizer.json"))
        comparison.run(f"{name}: lines of text", tokenizer, lines + words_of_every_script(rng), saved)
        if everything:
            comparison.run(f"{name}: every code point", tokenizer, everything, saved)
            pairs = [("a", "1"), ("1", "'"), ("!", " "), (" ", "\u0301")]
            around = [a + c + b for c in everything for a, b in [rng.choice(pairs)]]
            comparison.run(f"{name}: every code point between others", tokenizer, around, saved)
        comparison.run(f"{name}: nasty texts", tokenizer, nasty, saved)


def main():
    brasa, count, seed = sys.argv[1], int((sys.argv[2:] or ["0"])[0]), (sys.argv[3:] or ["4"])[0]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        lines = [line for path in DOCUMENTS for line in path.read_text("utf-8").split("\n")]
        comparison = Comparison(brasa, folder)
        compare(comparison, trained(DOCUMENTS, 2000), lines, random.Random(seed), folder, count)
        sys.exit(1 if comparison.differences else 0)


if __name__ == "__main__":
    main()
