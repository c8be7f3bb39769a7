#!/usr/bin/env python3
"""Compares `brasa tokenize` with the fast byte-level BPE tokenizer of PyPI's `tokenizers`: ids, type
ids, word ids, special mask, tokens, offsets in code points and in bytes, and the parts that truncation removes.

    tests/tokenizers/compare_bpe.py BRASA TEXT_FILE...

BRASA is the command; merges are learned from the text files. The texts are every code point alone, and next to a
letter, a digit, a symbol and white space; random texts from an alphabet of difficult strings; words of every
script; and the lines of the text files, with several settings. The exit status is 1 if anything differs.
"""
import pathlib
import random
import sys
import tempfile

from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers, processors, trainers
from tokenizers.models import BPE

from compare_tokenizers import Comparison, code_points, nasty_texts, words_of_every_script

SPECIALS = ["<|endoftext|>", "<|end|>", "[MASK]"]
# Difficult strings: contractions, runs of different spaces, complete and incomplete special tokens.
NASTY = ([" ", "  ", "   ", "\t", "\r", "\n", "\x0b", "\x1c", "\x85", "\xa0", "\u2028", "\u3000", "\u200b"]
         + ["'s", "'t", "'S", "'ll", "'re", "'ve", "'m", "'d", "'l", "''", "'", "\u2019s", "don't", "I'LL", "we've", "'\u017f", "'VE"]
         + SPECIALS + ["<|end", "|>", "<|", "of", "text"]
         + [chr(c) for c in (0x41, 0x7a, 0x30, 0x39, 0x2e, 0x2c, 0x21, 0x5f, 0x24, 0xb2, 0xbd, 0xe9, 0x301, 0x3b1, 0x416,
            0x5d0, 0x661, 0x967, 0xe01, 0x1100, 0xac00, 0x2160, 0x2460, 0x3007, 0x3042, 0x4e2d, 0x20000, 0xfffd, 0xfeff,
            0x1f600, 0x1f468, 0x200d, 0x1c89, 0x105c0, 0x10d40, 0x1e5d0, 0xe000, 0x10ffff, 0x378, 0xfe0f, 0x307, 0x323, 0x327,
            0x338, 0x1161, 0x11a8, 0x3099, 0x304b, 0x958, 0x212b, 0xc5, 0x9be, 0x9c7, 0x344, 0x1d15e)])


def trained(files, size):
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=SPECIALS[:1], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train([str(f) for f in files], trainer)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def with_settings(tokenizer, prefix_space=False, trim=None, normalized=(True, True, True)):
    """Returns the tokenizer with these settings; special tokens are matched before or after normalization."""
    copy = Tokenizer.from_str(tokenizer.to_str())
    copy.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix_space)
    if trim is not None:
        copy.post_processor = processors.ByteLevel(trim_offsets=trim, add_prefix_space=True)
    copy.add_special_tokens([AddedToken(t, normalized=n) for t, n in zip(SPECIALS, normalized)])
    return copy


def main():
    brasa, *names = sys.argv[1:]
    rng = random.Random(4)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        lines = [line for name in names for line in pathlib.Path(name).read_text("utf-8").split("\n")]
        plain = trained(names, 2000)
        plain.model.save(str(folder))
        files = ["--vocab", folder / "vocab.json", "--merges", folder / "merges.txt"]
        comparison = Comparison(brasa, folder)
        everything = [c for c in code_points() if c != "\n"]
        comparison.run("every code point", plain, everything, files)
        around = [a + c + b for c in everything for a, b in [rng.choice([("a", "1"), ("1", "a"), ("!", " "), (" ", "!")])]]
        comparison.run("every code point between others", plain, around, files)
        comparison.run("lines of text", plain, lines + words_of_every_script(rng) + ["x" * 5000, " " * 5000], files)

        nasty = nasty_texts(20000, rng, NASTY)
        comparison.run("NULs", plain, [t.replace("\n", "\0") for t in nasty[:2000]], files)
        saved = ["--tokenizer", folder / "tokenizer.json"]
        for settings in ({}, {"prefix_space": True}, {"trim": True}, {"trim": False},
                         {"normalized": (False, True, True)}, {"normalized": (True, False, True)}):
            tokenizer = with_settings(plain, **settings)
            tokenizer.save(str(folder / "tokenizer.json"))
            comparison.run(f"nasty texts, {settings}", tokenizer, nasty, saved)
            pairs = [p for p in zip(nasty[:1000], nasty[1000:2000]) if "\t" not in "".join(p)]
            for length, stride in (7, 2), (20, 0):
                tokenizer.enable_truncation(length, stride=stride)
                options = ["--max-length", str(length), "--stride", str(stride)]
                comparison.run(f"of at most {length}", tokenizer, nasty[:2000], saved, options, overflow=True)
                # The overflow of pairs has no sequence ids in `tokenizers`.
                comparison.run(f"pairs of at most {length}", tokenizer, pairs, saved, options[:2])
        sys.exit(1 if comparison.differences else 0)


if __name__ == "__main__":
    main()
