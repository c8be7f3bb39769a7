#!/usr/bin/env python3
"""Compares `brasa tokenize` with the fast tokenizer of PyPI's `tokenizers`: ids, type ids, word ids,
special mask, tokens, offsets in code points and in bytes, and the parts that truncation removes.

    tests/tokenizers/compare_tokenizers.py BRASA VOCAB [TEXT_FILE...]

BRASA is the command, VOCAB the vocab.txt of bert-base-uncased. The texts are every code point alone and
between letters, random texts from an alphabet of difficult strings, words of every script, and the lines of
the text files, with several settings. The exit status is 1 if anything differs.
"""
import itertools
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import unicodedata

from tokenizers import Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import WordPiece

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
SETTINGS = {  # lowercase, strip_accents, clean_text, handle_chinese_chars
    "uncased": (True, None, True, True),
    "cased": (False, None, True, True),
    "lower-cased with accents": (True, False, True, True),
    "cased without accents": (False, True, True, True),
    "nothing cleaned": (True, None, False, False),
}
# Difficult strings: marks that are reordered, decompositions that other versions of Unicode lack, dropped
# characters, spaces, punctuation, case, complete and incomplete special tokens.
NASTY = (list("aAbzZ19 .,'#-_$^`~+<=>|[]\t\r") + SPECIALS + ["[sep]", "[CL", "##", "##a", "e\u0301", "\u00e9",
    "\u0130", "\u0131", "\u00df", "\u1e9e", "\u03a3", "\u03c2", "\u212a", "\u212b", "\u01c5", "\ua7cb"]
    + [chr(c) for c in (0x300, 0x301, 0x323, 0x327, 0x334, 0x344, 0x345, 0x340, 0x359, 0x5b0, 0x5b1,
       0x651, 0x653, 0x7fd, 0x8d3, 0x8e2, 0xeba, 0xf71, 0xf72, 0xf73, 0xf81, 0x1dc0, 0x1df9, 0x20dd, 0x302a,
       0x3099, 0xfe0f, 0x1d165, 0x1d16d, 0x1e8d0, 0x11938, 0x1109a, 0x110ba, 0x1100, 0x1161, 0x11a8, 0xac00,
       0xac01, 0xd7a3, 0x4e00, 0x9fff, 0x3400, 0x20000, 0x2b820, 0x2b920, 0xf900, 0x2f800, 0x3042, 0x30ab,
       0x200b, 0x200d, 0xad, 0xfeff, 0x202e, 0x2028, 0x85, 0xa0, 0x3000, 0x1680, 0x180e, 0x0b, 0x1c, 0x01, 0xfffd,
       0xe000, 0x10ffff, 0x378, 0x1f600, 0x1f468, 0x1f9d1, 0x61d, 0x9fd, 0x2014, 0x20ac, 0xb0, 0x37e,
       0x1e94b, 0x10d50, 0x16ea0)])


def make(vocab, settings):
    lowercase, strip_accents, clean, chinese = settings
    tokenizer = Tokenizer(WordPiece(vocab, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.add_special_tokens(SPECIALS)
    tokenizer.normalizer = normalizers.BertNormalizer(clean, chinese, strip_accents, lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", vocab["[CLS]"]), ("[SEP]", vocab["[SEP]"])])
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer


def expected(encoding, texts, overflow):
    """Returns an Encoding as `brasa tokenize --json` writes it; byte offsets are computed from code points."""
    places = []
    for text in texts:
        sizes = [len(c.encode()) for c in text]
        places.append([0] + list(itertools.accumulate(sizes)))
    in_bytes = [[0, 0] if s is None else [places[s][a], places[s][b]]
                for s, (a, b) in zip(encoding.sequence_ids, encoding.offsets)]
    result = {"ids": encoding.ids, "type_ids": encoding.type_ids, "word_ids": encoding.word_ids,
              "special_mask": encoding.special_tokens_mask, "chars": [list(o) for o in encoding.offsets],
              "bytes": in_bytes, "tokens": encoding.tokens}
    if overflow:
        result["overflow"] = [expected(e, texts, False) for e in encoding.overflowing]
    return result


class Comparison:
    def __init__(self, brasa, folder):
        self.brasa, self.folder, self.differences, self.compared = brasa, pathlib.Path(folder), 0, 0

    def run(self, label, tokenizer, texts, arguments, options=(), overflow=False):
        pairs = isinstance(texts[0], tuple)
        file = self.folder / "texts"
        end = "\n" if any("\0" in t for t in texts) else "\0"
        file.write_bytes("".join(("\t".join(t) if pairs else t) + end for t in texts).encode())
        command = [self.brasa, "tokenize", "--json", "--file", file, *arguments, *options]
        command += ["--pair"] if pairs else []
        command += ["--null"] if end == "\0" else []
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            for text, line in zip(texts, process.stdout):
                parts = text if pairs else (text,)
                self.check(label, parts, json.loads(line),
                           expected(tokenizer.encode(*parts), parts, overflow))
            rest = process.stdout.read()
        if process.returncode != 0 or rest:
            sys.exit(f"{label}: brasa ended with status {process.returncode}")
        if "--stride" not in options:
            self.check_ids(label, tokenizer, texts, [part for part in command if part != "--json"] + ["--ids"])
        self.compared += len(texts)
        print(f"{label}: {len(texts)} texts, {self.differences} differences so far", flush=True)

    def check_ids(self, label, tokenizer, texts, command):
        """Compares the ids alone, which have a faster path."""
        lines = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.decode().split("\n")
        if len(lines) != len(texts) + 1:
            sys.exit(f"{label}: brasa wrote {len(lines) - 1} lines for {len(texts)} texts")
        for text, line in zip(texts, lines):
            parts = text if isinstance(text, tuple) else (text,)
            self.check(label, parts, {"ids": [int(number) for number in line.split()]},
                       {"ids": tokenizer.encode(*parts).ids})

    def check(self, label, texts, got, want):
        if got == want:
            return
        self.differences += 1
        if self.differences <= 20:
            print(f"{label}: {texts!a}")
            for key in want:
                if got.get(key) != want[key]:
                    print(f"  {key}: {got.get(key)!a}\n  expected {want[key]!a}")


def code_points():
    return [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def every_character(characters):
    """Returns a vocabulary in which each code point, alone and inside a word, has its own id."""
    tokens = SPECIALS + characters + ["##" + c for c in characters]
    return {token: i for i, token in enumerate(tokens)}


def nasty_texts(n, rng, alphabet=NASTY):
    return ["".join(rng.choices(alphabet, k=rng.randint(0, 40))) for _ in range(n)]


def words_of_every_script(rng):
    """Returns lines of words. The characters of a line have names with the same first word, that of the script."""
    scripts = {}
    for c in code_points():
        if unicodedata.category(c)[0] in "LMNPS":
            scripts.setdefault(unicodedata.name(c, "?").split()[0], []).append(c)
    lines = []
    for characters in scripts.values():
        for _ in range(30):
            words = ["".join(rng.choices(characters, k=rng.randint(1, 9))) for _ in range(12)]
            lines.append(" ".join(words))
    return lines


def main():
    brasa, vocab_file, *text_files = sys.argv[1:]
    rng = random.Random(4)
    vocab = {line.rstrip(): i for i, line in enumerate(open(vocab_file, encoding="utf-8"))}
    lines = [line for name in text_files
             for line in pathlib.Path(name).read_bytes().decode("utf-8", "replace").replace("\ufffd", "").split("\n")]
    with tempfile.TemporaryDirectory() as folder:
        comparison = Comparison(brasa, folder)
        uncased = make(vocab, SETTINGS["uncased"])
        flies = subprocess.run([brasa, "tokenize", "--vocab", vocab_file, "time flies like an arrow"],
                               stdout=subprocess.PIPE, check=True, text=True).stdout
        assert "2051 10029 2066 2019 8612" in flies, flies

        everything = code_points()
        between = ["a" + c + "b" for c in everything]
        real = ["--vocab", vocab_file]
        comparison.run("every code point", uncased, [c for c in everything if c != "\n"], real)
        comparison.run("every code point between letters", uncased,
                       [t for t in between if "\n" not in t], real)
        comparison.run("lines of text", uncased, lines + words_of_every_script(rng) + ["x" * 101, "x" * 100], real)

        characters = every_character(sorted({c for t in NASTY for c in t + unicodedata.normalize("NFD", t.lower())}))
        for name, settings in SETTINGS.items():
            for what, words in ("BERT's vocabulary", vocab), ("all characters", characters):
                tokenizer = make(words, settings)
                tokenizer.save(str(pathlib.Path(folder) / "tokenizer.json"))
                saved = ["--tokenizer", pathlib.Path(folder) / "tokenizer.json"]
                comparison.run(f"nasty texts, {name}, {what}", tokenizer, nasty_texts(20000, rng), saved)
        nasty = [t for t in nasty_texts(2000, rng) if "\t" not in t]
        for side in "right", "left":
            for length, stride in (9, 1), (15, 3), (30, 5), (40, 0):
                uncased.enable_truncation(length, stride=stride, direction=side)
                pairs = list(zip(nasty[::2], nasty[1::2]))
                options = ["--max-length", str(length), "--stride", str(stride)]
                options += ["--truncate-left"] if side == "left" else []
                name = f"of at most {length}, cut on the {side}"
                comparison.run(f"pairs {name}", uncased, pairs, real, options, overflow=True)
                comparison.run(f"texts {name}", uncased, nasty, real, options, overflow=True)
                uncased.no_truncation()
        sys.exit(1 if comparison.differences else 0)


if __name__ == "__main__":
    main()
