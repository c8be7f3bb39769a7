#!/usr/bin/env python3
"""Compares `brasa tokenize` with PyPI's `tokenizers` for the BPE over characters with byte fallback of Llama 2, Mistral
and Gemma: everything that compare_bpe.py compares.

    tests/tokenizers/compare_bpe_characters.py BRASA TEXT_FILE...

The exit status is 1 if anything differs.
"""
import json
import pathlib
import random
import sys
import tempfile

from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers, processors, trainers
from tokenizers.models import BPE

from compare_bpe import NASTY
from compare_tokenizers import Comparison, code_points, nasty_texts, words_of_every_script

N_NASTY = 20000
META = "\u2581"
SPECIALS = ["<unk>", "<s>", "</s>"]
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
# Difficult strings besides those of compare_bpe.py: U+2581, byte tokens, special tokens.
MORE = [META, META * 2, META + "the", "the ", " of", "<0x41>", "<0xE4>", "<0x", "0A>", *SPECIALS, "</s", "<s> ", " <unk>",
        "ing", "and", "\u4f60\u597d", "\u4e16\u754c"] + [" "] * 5
PREPEND = normalizers.Prepend(META)
REPLACE = normalizers.Replace(" ", META)
SPLIT = pre_tokenizers.Split(" ", "merged_with_previous")
TO_SPACES = [decoders.Replace(META, " "), decoders.ByteFallback(), decoders.Fuse()]
WITH_STRIP = decoders.Sequence([*TO_SPACES, decoders.Strip(" ", 1, 0)])
# How families read and write texts: the normalizer, the pre-tokenizer, the decoder, and whether special tokens are
# matched in the normalized text.
FAMILIES = {
    "Llama 2": (normalizers.Sequence([PREPEND, REPLACE]), None, WITH_STRIP, False),
    "Llama 2 of old": (normalizers.Sequence([PREPEND, REPLACE]), None, WITH_STRIP, True),
    "Gemma": (REPLACE, SPLIT, decoders.Sequence(TO_SPACES), False),
    "Mistral": (None, pre_tokenizers.Metaspace(META, "first", split=False), WITH_STRIP, False),
    "Metaspace, late": (None, pre_tokenizers.Metaspace(META, "first", split=False), WITH_STRIP, True),
    "always": (None, pre_tokenizers.Metaspace(META, "always", split=True), decoders.Metaspace(META, "always"), False),
    "never": (None, pre_tokenizers.Metaspace(META, "never", split=False), decoders.Metaspace(META, "never"), True),
    "Replace and Metaspace": (REPLACE, pre_tokenizers.Metaspace(META, "first", split=True), WITH_STRIP, True),
    "spaces": (None, SPLIT, decoders.Sequence(TO_SPACES), False),
    "Prepend": (PREPEND, None, decoders.Sequence(TO_SPACES), True),
}


def trained(lines, size):
    """Learns merges as SentencePiece does, in which U+2581 begins tokens, and a few others across words."""
    tokenizer = Tokenizer(BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    tokenizer.normalizer = REPLACE
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(META + r"{0,5}[^\u2581]+|\u2581{1,16}"), "isolated")
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=SPECIALS + BYTES, show_progress=False,
                                  max_token_length=16)
    tokenizer.train_from_iterator(lines, trainer)
    parts = json.loads(tokenizer.to_str())
    parts["added_tokens"] = []
    parts["normalizer"] = parts["pre_tokenizer"] = None
    model = parts["model"]
    for left, right in ("e", META), ("e" + META, "t"), (",", META):
        if left in model["vocab"] and right in model["vocab"] and left + right not in model["vocab"]:
            model["vocab"][left + right] = len(model["vocab"])
            model["merges"].append([left, right])
    return parts


def of_family(parts, normalizer, pre_tokenizer, decoder, late, template=True):
    tokenizer = Tokenizer.from_str(json.dumps(parts))
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoder
    tokenizer.add_special_tokens([AddedToken(t, normalized=late) for t in SPECIALS])
    tokenizer.add_tokens([AddedToken("<|end|>", normalized=late)])
    if template:
        begin = ("<s>", tokenizer.token_to_id("<s>"))
        tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1",
                                                                 special_tokens=[begin])
    return tokenizer


def compare(comparison, parts, lines, rng, folder):
    saved = ["--tokenizer", folder / "tokenizer.json"]
    everything = [c for c in code_points() if c not in "\n\r"]
    nasty = nasty_texts(N_NASTY, rng, NASTY + MORE)
    words = words_of_every_script(rng)
    for name, family in FAMILIES.items():
        # The tokens of a template keep their own text, where those of a text have their normalized form.
        tokenizer = of_family(parts, *family, template=not family[3])
        tokenizer.save(str(folder / "tokenizer.json"))
        comparison.run(f"{name}: lines of text", tokenizer, lines + rng.sample(words, 3000) + ["x" * 5000, " " * 5000],
                       saved)
        if name in ("Llama 2", "Gemma", "Mistral"):
            comparison.run(f"{name}: every code point", tokenizer, everything, saved)
            around = [a + c + b for c in everything for a, b in [rng.choice([("a", "1"), ("e", " "), (META, " "), (" ", "t")])]]
            comparison.run(f"{name}: every code point between others", tokenizer, around, saved)
        comparison.run(f"{name}: nasty texts", tokenizer, nasty, saved)
        tokenizer.enable_truncation(9, stride=2)
        comparison.run(f"{name}: of at most 9", tokenizer, nasty[:1000], saved, ["--max-length", "9", "--stride", "2"], True)
        pairs = [p for p in zip(nasty[:1000], nasty[1000:2000]) if "\t" not in "".join(p)]
        tokenizer.no_truncation()
        comparison.run(f"{name}: pairs", tokenizer, pairs, saved)


def main():
    brasa, *names = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        lines = [line for name in names for line in pathlib.Path(name).read_text("utf-8").split("\n")]
        comparison = Comparison(brasa, folder)
        compare(comparison, trained(lines, 2000), lines, random.Random(4), folder)
        sys.exit(1 if comparison.differences else 0)


if __name__ == "__main__":
    main()
