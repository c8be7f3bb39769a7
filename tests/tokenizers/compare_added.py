#!/usr/bin/env python3
"""Compares `brasa tokenize` with the fast tokenizers of PyPI's `tokenizers` on files with added tokens of every kind of
flags, and with every post-processor.

    tests/tokenizers/compare_added.py BRASA [ROUNDS [SEED]]

BRASA is the command. Each round makes a random tokenizer.json of BERT's, GPT-2's and T5's kind and encodes random
texts, pairs and truncated texts. The exit status is 1 if anything differs.
"""
import json
import pathlib
import random
import sys
import tempfile

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from compare_tokenizers import Comparison

HERE = pathlib.Path(__file__).resolve().parent
FIRST, LAST = "[CLS]", "[SEP]"
TOKENS = ["New York", "\u00c9t\u00e9", "caf\u00e9", "re", "Re-", "un", "<x>", "<x", "\u4e2d", "a\u0301", " b", "c ", "AbC", "\ufb01n", "_", "1", "\u2581d", ".",
          "\u0130", "  ", "<|x|>"]
PARTS = TOKENS + ["new york", "NEW\tYORK", "new  york", "ete", "\u00c9T\u00c9", "cafe", "cafe\u0301", "CAFE", "abc", "ABC", "fin", "FIN", "i\u0307", "a", "b", "c",
                  "d", "e", " ", "\t", "\n", "\u3000", "\xa0", "\u00e9", "\u0301", "\u200d", "\u200c", "\u24b6", "\u0660", "\u2160", "\u203f", "\ud7a3", "\u6587", "\u2581", FIRST, LAST,
                  "[sep]", "[UNK]", "the", "-", "!", "'s", "9", "\uff0e", "x", "<", ">", "|", "\x01", "\U0001f600"]


def letters():
    return sorted({c for part in PARTS for c in part + part.lower() if not c.isspace()} - {"\u2581"})


def words(rng):
    tokens = ["[PAD]", "[UNK]", FIRST, LAST, "[MASK]", *letters(), *("##" + c for c in letters()), "the", "un", "re", "abc", "new"]
    tokenizer = Tokenizer(models.WordPiece({t: i for i, t in enumerate(dict.fromkeys(tokens))}, unk_token="[UNK]"))
    flags = [rng.random() < 0.7 for _ in range(4)]
    tokenizer.normalizer = normalizers.BertNormalizer(clean_text=flags[0], handle_chinese_chars=flags[1], lowercase=flags[2],
                                                      strip_accents=rng.choice([None, True, False]))
    if rng.random() < 0.3:  # sentence-transformers saves a model with do_lower_case like this
        parts = [normalizers.Lowercase(), tokenizer.normalizer]
        tokenizer.normalizer = normalizers.Sequence(parts[::rng.choice([1, -1])])
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer


def byte_level(rng):
    tokenizer = Tokenizer.from_file(str(HERE / "bpe" / "tokenizer.json"))
    said = json.loads(tokenizer.to_str())
    said["added_tokens"] = []
    for token in FIRST, LAST:
        said["model"]["vocab"][token] = len(said["model"]["vocab"])
    said["pre_tokenizer"]["add_prefix_space"] = rng.random() < 0.3
    said["post_processor"] = None
    return Tokenizer.from_str(json.dumps(said))


def pieces(rng):
    said = json.loads((HERE / "unigram" / "tokenizer.json").read_text())
    said["added_tokens"] = []
    said["model"]["vocab"] += [[t, -3.0] for t in (FIRST, LAST)]
    said["post_processor"] = None
    meta = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": rng.choice(["always", "first", "never"]), "split": rng.random() < 0.8}
    both = [{"type": "WhitespaceSplit"}, meta]
    said["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": both} if rng.random() < 0.6 else meta
    if rng.random() < 0.3:
        said["normalizer"] = None
    return Tokenizer.from_str(json.dumps(said))


def processor(rng, tokenizer, may_trim):
    first, last = [(t, tokenizer.token_to_id(t)) for t in (FIRST, LAST)]
    trims = may_trim and rng.random() < 0.5
    level = processors.ByteLevel(trim_offsets=trims, add_prefix_space=rng.random() < 0.5)
    template = processors.TemplateProcessing(
        single=f"{FIRST} $A {LAST}",
        pair=rng.choice([f"{FIRST} $A {LAST} $B:1 {LAST}:1", f"{FIRST} $A {LAST} {LAST} $B {LAST}", "$A $B:1", "$A $B"]),
        special_tokens=[first, last])
    return rng.choice([
        None, level, template, processors.BertProcessing(last, first),
        processors.RobertaProcessing(last, first, trim_offsets=trims, add_prefix_space=rng.random() < 0.5),
        processors.Sequence([level, template]), processors.Sequence([template]),
        processors.Sequence([processors.Sequence([level]), processors.BertProcessing(last, first)])])


def add_tokens(rng, tokenizer):
    seen = set()
    for text in rng.sample(TOKENS, rng.randint(1, 8)):
        flags = {name: rng.random() < 0.35 for name in ("single_word", "lstrip", "rstrip")}
        if text.isspace():  # `tokenizers` panics if white space before such a token belongs to another one
            flags["lstrip"] = False
        token = AddedToken(text, normalized=rng.random() < 0.6, special=rng.random() < 0.3, **flags)
        # Of tokens that are equal after normalization, `tokenizers` chooses one at random.
        pattern = tokenizer.normalizer.normalize_str(text) if token.normalized and tokenizer.normalizer else text
        if (token.normalized, pattern) not in seen and pattern:
            seen.add((token.normalized, pattern))
            (tokenizer.add_special_tokens if token.special else tokenizer.add_tokens)([token])
    if rng.random() < 0.8:
        tokenizer.add_special_tokens([FIRST, LAST])


KINDS = {"words": words, "byte level": byte_level, "pieces": pieces}


def random_tokenizer(rng, kind):
    tokenizer = KINDS[kind](rng)
    if kind == "words" and rng.random() < 0.15:
        tokenizer.normalizer = None
    if kind != "byte level" and rng.random() < 0.15:
        tokenizer.pre_tokenizer = None
    add_tokens(rng, tokenizer)
    prefixed = kind == "byte level" and tokenizer.pre_tokenizer.add_prefix_space
    made = processor(rng, tokenizer, not prefixed)
    if made:
        tokenizer.post_processor = made
    return tokenizer


def save(rng, tokenizer, path):
    """Saves a tokenizer, sometimes without the types and parts that may be missing."""
    said = json.loads(tokenizer.to_str())
    if rng.random() < 0.3:
        del said["model"]["type"]
    for part in "normalizer", "pre_tokenizer", "post_processor", "decoder":
        if said[part] is None and rng.random() < 0.5:
            del said[part]
    path.write_text(json.dumps(said))


def check_lowercase():
    """Checks that Lowercase before or after a BertNormalizer has the effect that Brasa gives it, for every code point."""
    characters = [chr(c) for c in range(0x110000) if not 0xd800 <= c < 0xe000]
    for lowercase in True, False:
        for strip in None, True, False:
            part = normalizers.BertNormalizer(lowercase=lowercase, strip_accents=strip)
            whole = normalizers.BertNormalizer(lowercase=True, strip_accents=lowercase if strip is None else strip)
            for parts in [normalizers.Lowercase(), part], [part, normalizers.Lowercase()]:
                both = normalizers.Sequence(parts)
                for c in characters:
                    text = f"I{c}\u0323\u0307"
                    assert both.normalize_str(text) == whole.normalize_str(text), ascii(text)


def random_text(rng):
    return "".join(rng.choices(PARTS, k=rng.randint(0, 14)))


class IdComparison(Comparison):
    """Compares everything except tokens, because `tokenizers` returns the matched text instead."""

    def check(self, label, texts, got, want):
        for encoding in got, want:
            for part in [encoding] + encoding.get("overflow", []):
                part.pop("tokens", None)  # the check of ids alone has none
        super().check(label, texts, got, want)


def main():
    brasa, rounds, seed = sys.argv[1], int((sys.argv[2:] or ["20"])[0]), int((sys.argv[3:] or ["1"])[0])
    rng = random.Random(seed)
    check_lowercase()
    with tempfile.TemporaryDirectory() as folder:
        comparison = IdComparison(brasa, folder)
        saved = ["--tokenizer", pathlib.Path(folder) / "tokenizer.json"]
        for turn in range(rounds):
            for kind in KINDS:
                tokenizer = random_tokenizer(rng, kind)
                save(rng, tokenizer, saved[1])
                texts = [random_text(rng) for _ in range(300)]
                label = f"{kind}, round {turn}"
                before = comparison.differences
                comparison.run(label, tokenizer, texts, saved)
                if kind != "pieces":  # `tokenizers` still encodes text as a special token if that is a piece
                    tokenizer.encode_special_tokens = True
                    comparison.run(f"{label}, split", tokenizer, texts, saved, ["--split-special"])
                    tokenizer.encode_special_tokens = False
                pairs = [p for p in zip(texts[::2], texts[1::2]) if "\t" not in "".join(p) and "\0" not in "".join(p)]
                comparison.run(f"{label}, pairs", tokenizer, pairs, saved)
                tokenizer.enable_truncation(9, stride=2)
                comparison.run(f"{label}, truncated", tokenizer, texts, saved, ["--max-length", "9", "--stride", "2"], overflow=True)
                tokenizer.no_truncation()
                if comparison.differences > before:
                    said = json.loads(tokenizer.to_str())
                    print({key: said[key] for key in ("added_tokens", "post_processor", "pre_tokenizer")},
                          said["normalizer"] and said["normalizer"]["type"])
        print(f"{comparison.compared} texts compared, {comparison.differences} differences")
        sys.exit(1 if comparison.differences else 0)


if __name__ == "__main__":
    main()
