#!/usr/bin/env python3
"""Compares `brasa tokenize` with Unigram tokenizers: a tokenizer.json with the fast tokenizer of PyPI's
`tokenizers`, a spiece.model with PyPI's `sentencepiece`.

    tests/tokenizers/compare_unigram.py BRASA TEXT_FILE...

BRASA is the command; pieces are learned from the text files, with T5's settings and with others. The texts are
every code point alone and next to others, random texts from an alphabet of difficult strings, words of every
script, and the lines of the text files. The exit status is 1 if anything differs.
"""
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import Unigram

from compare_tokenizers import Comparison, code_points, nasty_texts, words_of_every_script

EXTRA_IDS = 100
# Difficult strings: clusters that are partly replaced, dropped characters, different spaces, U+2581, complete and
# incomplete special tokens, and text that normalization turns into a special token.
NASTY = ([" ", "  ", "   ", "\t", "\r", "\n", "\x0b", "\x85", "\xa0", "\u2028", "\u3000", "\u200b", "\u2581", "\u2581\u2581"]
         + ["</s>", "<pad>", "<unk>", "<extra_id_0>", "<extra_id_99>", "<extra_id_100>", "</s", "s>", "<", "\uff1c/s\uff1e", "<0x41>"]
         + ["the", "license", " any", "a", "e", "Z", "9", ".", ",", "'", "-", "ing", "\u00e9", "e\u0301", "\uff41\u0301", "\u2122", "\ufb01", "\u00bd"]
         + [chr(c) for c in (0x300, 0x301, 0x308, 0x323, 0x345, 0x34f, 0x489, 0x5b0, 0x64b, 0x6dd, 0x600, 0x70f, 0x8e2, 0x903,
            0x915, 0x93c, 0x94d, 0x93f, 0x924, 0x995, 0x9cd, 0x9be, 0xd4d, 0xd15, 0xd4e, 0xe33, 0xeb3, 0xe01, 0x1100, 0x1161, 0x11a8,
            0xa960, 0xac00, 0xac01, 0xd7b0, 0xd7cb, 0x16d63, 0x200c, 0x200d, 0xad, 0xfeff, 0x202e, 0xfe0f, 0x20e3, 0xa9, 0x2764,
            0x1f600, 0x1f468, 0x1f3fb, 0x1f1e6, 0x1f1fa, 0xe0020, 0xe000, 0xfffd, 0x1, 0x1f, 0x7f, 0x3042, 0x30ab, 0xff76, 0xff9e,
            0x3099, 0x4e2d, 0xf900, 0x2f800, 0x20000, 0x2460, 0x32c0, 0x3300, 0xfdfa, 0x1d400, 0x10ffff, 0x378)])


def train(files, folder, name, size, **settings):
    """Trains a spiece.model like T5's: <pad>, </s>, <unk>, then pieces, with the map nmt_nfkc."""
    standard = dict(model_type="unigram", pad_id=0, eos_id=1, unk_id=2, bos_id=-1, minloglevel=2,
                    normalization_rule_name="nmt_nfkc", hard_vocab_limit=False, num_threads=1)
    prefix = str(folder / name)
    sentencepiece.SentencePieceTrainer.train(input=[str(f) for f in files], model_prefix=prefix, vocab_size=size,
                                             **standard | settings)
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(pathlib.Path(prefix + ".model").read_bytes())
    return prefix + ".model", proto


def converted(proto, extra_ids=EXTRA_IDS, byte_fallback=False, normalizer=True, pre_tokenizer=None, around=True, strip=False):
    """Returns the tokenizer.json for a spiece.model, as in T5's folder."""
    pieces = [(p.piece, p.score) for p in proto.pieces]
    pieces += [(f"<extra_id_{i}>", 0.0) for i in range(extra_ids - 1, -1, -1)]
    tokenizer = Tokenizer(Unigram(pieces, proto.trainer_spec.unk_id, byte_fallback))
    specials = ["</s>", "<unk>", "<pad>"]
    tokenizer.add_special_tokens([AddedToken(t, normalized=False) for t in specials] + [
        AddedToken(f"<extra_id_{i}>", normalized=False, lstrip=strip, rstrip=strip) for i in range(extra_ids)])
    if normalizer is True:
        normalizer = normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap)
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer or pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()]) if byte_fallback else decoders.Metaspace()
    if around:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", tokenizer.token_to_id("</s>"))])
    return tokenizer


class FastComparison(Comparison):
    """Compares tokens only by their ids, because `tokenizers` returns the text of an unknown token."""

    def check(self, label, texts, got, want):
        for encoding in got, want:
            for part in [encoding] + encoding.get("overflow", []):
                part.pop("tokens", None)
        super().check(label, texts, got, want)


class SentencePieceComparison(Comparison):
    """Compares ids and byte offsets with SentencePiece."""

    def run(self, label, processor, texts, arguments):
        file = self.folder / "texts"
        file.write_bytes("".join(t + "\0" for t in texts).encode())
        command = [self.brasa, "tokenize", "--json", "--split-special", "--null", "--file", file, *arguments]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            for text, line in zip(texts, process.stdout):
                got = json.loads(line)
                pieces = processor.encode(text, return_type="proto").pieces
                want = {"ids": [p.id for p in pieces], "bytes": [[p.begin, p.end] for p in pieces]}
                self.check(label, (text,), {key: got[key][:-1] for key in want}, want)
            rest = process.stdout.read()
        if process.returncode != 0 or rest:
            sys.exit(f"{label}: brasa ended with status {process.returncode}")
        self.compared += len(texts)
        print(f"{label}: {len(texts)} texts, {self.differences} differences so far", flush=True)


def texts_of(lines, rng, n):
    everything = [c for c in code_points() if c != "\0"]
    around = [a + c + b for c in everything for a, b in [rng.choice(
        [("a", "\u0301"), ("the", "x"), ("\u0915\u094d", "\u0915"), ("\u00a9", "\u200d\u00a9"), (" ", " "), ("", "\u0300\u0301"), ("\u1100", "\u11a8")])]]
    return {"every code point": everything, "every code point beside others": around,
            "lines of text": lines + words_of_every_script(rng) + ["x" * 5000, " " * 5000, "\u4e2d" * 3000],
            "nasty texts": [t.replace("\0", "") for t in nasty_texts(n, rng, NASTY)]}


def compare_fast(brasa, folder, proto, bytes_proto, texts):
    comparison = FastComparison(brasa, folder)
    charsmap = normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap)
    albert = normalizers.Sequence([charsmap, normalizers.Strip(left=False, right=True), normalizers.Replace(Regex(" {2,}"), "\u2581")])
    quotes = normalizers.Sequence([normalizers.Replace("``", '"'), normalizers.Replace("a", ""), charsmap,
                                   normalizers.Strip(left=True, right=False), normalizers.Replace("e", "\u1e9e\u0301")])
    meta = pre_tokenizers.Metaspace
    variants = {
        "T5": converted(proto),
        "T5, bytes": converted(bytes_proto, byte_fallback=True),
        "ALBERT's normalizer": converted(proto, normalizer=albert, pre_tokenizer=meta(prepend_scheme="always")),
        "replaced strings": converted(proto, normalizer=quotes, pre_tokenizer=meta(prepend_scheme="first", split=False)),
        "no normalizer": converted(proto, normalizer=None, pre_tokenizer=meta(prepend_scheme="never"), around=False),
        "stripping specials": converted(proto, strip=True, pre_tokenizer=meta(prepend_scheme="first")),
    }
    saved = ["--tokenizer", folder / "tokenizer.json"]
    for name, tokenizer in variants.items():
        tokenizer.save(str(folder / "tokenizer.json"))
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))  # reading changes the last bit of some scores
        for what, some in texts.items():
            if name == "T5" or what in ("lines of text", "nasty texts"):
                comparison.run(f"{name}, {what}", tokenizer, some, saved)
        nasty = texts["nasty texts"]
        pairs = [p for p in zip(nasty[:1000], nasty[1000:2000]) if "\t" not in "".join(p)]
        comparison.run(f"{name}, pairs", tokenizer, pairs, saved)
        for length, stride in (7, 2), (20, 0):
            tokenizer.enable_truncation(length, stride=stride)
            options = ["--max-length", str(length), "--stride", str(stride)]
            comparison.run(f"{name}, of at most {length}", tokenizer, nasty[:2000], saved, options, overflow=True)
            tokenizer.no_truncation()
    return comparison


def main():
    brasa, *names = sys.argv[1:]
    rng = random.Random(4)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        lines = [line for name in names for line in pathlib.Path(name).read_text("utf-8", "replace").split("\n")]
        lines = [line.replace("\0", "") for line in lines]
        model, proto = train(names, folder, "t5", 8000)
        with_bytes, bytes_proto = train(names, folder, "bytes", 4000, byte_fallback=True)
        models = {"T5": model, "bytes": with_bytes}
        models["symbols"] = train(names, folder, "symbols", 3000, user_defined_symbols=["<sep>", "\uff21", "the ", "e\u0301"])[0]
        models["spaces"] = train(names, folder, "spaces", 3000, remove_extra_whitespaces=False, add_dummy_prefix=False)[0]
        models["no map"] = train(names, folder, "none", 3000, normalization_rule_name="identity")[0]
        texts = texts_of(lines, rng, 20000)
        fast = compare_fast(brasa, folder, proto, bytes_proto, texts)
        itself = SentencePieceComparison(brasa, folder)
        for name, file in models.items():
            processor = sentencepiece.SentencePieceProcessor(model_file=file)
            for what, some in texts.items():
                if name == "T5" or what in ("lines of text", "nasty texts"):
                    itself.run(f"SentencePiece, {name}, {what}", processor, some, ["--tokenizer", file])
        print(f"{fast.compared + itself.compared} texts compared")
        sys.exit(1 if fast.differences + itself.differences else 0)


if __name__ == "__main__":
    main()
