#!/usr/bin/env python3
"""Writes tokenizer_vocab.txt and tokenizer_cases.json for test_tokenizer.c: texts, and the results of the fast
tokenizer in PyPI's `tokenizers` with that vocabulary."""
import json
import pathlib
import random
import unicodedata

from compare_tokenizers import NASTY, SETTINGS, SPECIALS, expected, make

HERE = pathlib.Path(__file__).resolve().parent
WORDS = "time flies like an arrow un ##aff ##able hello world ##s ##ing ##do ab abc ##c ##bc".split()
TEXTS = ["time flies like an arrow", "unaffable", "Time FLIES, like an arrow!", "", " \t\r\n ", "a\0b",
         "hello[MASK]world [mask] [SEP]", "[CLS][SEP]", "abcabc abd", "x" * 100, "x" * 101,
         "e\u0301 \u00e9 a\u0323\u0300\u0301b \u00e0\u0323\u07fd \u0f73\u0f73", "\u0130I\u0131 \u039f\u0394\u039f\u03a3 \u00df",
         "\u4e2d\u6587 \u2b820\U0002b820\U0002b920 \uac00", "a\u200bb\u00adc\ufeff \u0085", "$5.00 \u20ac \u2014x"]


def vocabulary():
    characters = {c for t in NASTY + TEXTS for c in t + t.lower() + unicodedata.normalize("NFD", t + t.lower())}
    characters = sorted(c for c in characters if c not in "\n\0" and not c.isspace() and c not in "[]#")
    tokens = SPECIALS + WORDS + characters + ["##" + c for c in characters]
    return list(dict.fromkeys(tokens))


def wanted(encoding, texts):
    """Returns the result of expected() without the tokens, which follow from the ids."""
    want = expected(encoding, texts, True)
    for part in [want] + want["overflow"]:
        del part["tokens"]
    return want


def case(tokenizer, settings, texts, **more):
    lowercase, strip, clean, chinese = SETTINGS[settings]
    encoding = tokenizer.encode(*texts)
    return {"cased": not lowercase, "accents": 0 if strip is None else 1 if strip else 2, "keep_controls": not clean,
            "join_chinese": not chinese, "texts": texts, "max_length": 0, "stride": 0, "pad": 0, "left": False,
            "want": wanted(encoding, texts), "decoded": tokenizer.decode(encoding.ids)} | more


def cases(vocab):
    rng = random.Random(17)
    nasty = lambda k: "".join(rng.choices(NASTY, k=k))
    for settings in SETTINGS:
        tokenizer = make(vocab, SETTINGS[settings])
        for text in TEXTS + [nasty(30) for _ in range(8)]:
            yield case(tokenizer, settings, [text])
    tokenizer = make(vocab, SETTINGS["uncased"])
    for length, stride in (5, 0), (7, 1), (9, 2), (16, 3):
        tokenizer.enable_truncation(length, stride=stride)
        for k in range(4):
            texts = [nasty(rng.randint(0, 12)), nasty(rng.randint(0, 12))]
            yield case(tokenizer, "uncased", texts, max_length=length, stride=stride)
            yield case(tokenizer, "uncased", texts[:1], max_length=length, stride=stride)
        tokenizer.enable_padding(length=length, direction="left", pad_id=0, pad_token="[PAD]")
        yield case(tokenizer, "uncased", ["an arrow", "time flies"], max_length=length, stride=stride, pad=2, left=True)
        tokenizer.enable_padding(pad_to_multiple_of=5, pad_id=0, pad_token="[PAD]")
        yield case(tokenizer, "uncased", ["an arrow"], max_length=length, stride=stride, pad=5)
        tokenizer.no_padding()
    for length, stride in (5, 0), (8, 2), (13, 4):
        tokenizer.enable_truncation(length, stride=stride, direction="left")
        for k in range(4):
            texts = [nasty(rng.randint(0, 12)), nasty(rng.randint(0, 12))]
            for some in texts, texts[:1]:
                yield case(tokenizer, "uncased", some, max_length=length, stride=stride, cut_left=True)


def main():
    tokens = vocabulary()
    (HERE / "tokenizer_vocab.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
    recorded = list(cases({token: i for i, token in enumerate(tokens)}))
    text = ",\n".join(json.dumps(c, separators=(",", ":")) for c in recorded)
    (HERE / "tokenizer_cases.json").write_text(f"[\n{text}\n]\n")


if __name__ == "__main__":
    main()
