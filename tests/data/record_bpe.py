#!/usr/bin/env python3
"""Writes bpe/ and bpe_cases.json: a byte-level BPE, texts, and what the fast tokenizer of PyPI's
`tokenizers` makes of them, for test_bpe.c."""
import json
import pathlib
import random
import tempfile

from compare_bpe import NASTY, trained, with_settings
from compare_tokenizers import nasty_texts
from record_tokenizer import wanted

HERE = pathlib.Path(__file__).resolve().parent
LEARNT = ("the time flies like an arrow and the fruit flies like a banana, don't they? " * 4 +
          "they're there; I'll see 12 or 1234 of them at 10:45.\n" * 3)
TEXTS = ["time flies like an arrow", "", " ", "  a  b ", "don't I'LL we've\n\n  x", "x" * 30, " " * 9 + "the",
         "a\0b", "<|endoftext|>a<|end|> b<|endoftext|", "\u00e9e\u0301 \u4e2d\u6587 \U0001f600\U0001f468\u200d", "\u1c89a \u2028 1\u0661\u00bd"]


def case(tokenizer, texts, **more):
    encoding = tokenizer.encode(*texts)
    return {"json": False, "prefix": False, "trim": False, "texts": texts, "max_length": 0, "stride": 0,
            "want": wanted(encoding, texts), "decoded": tokenizer.decode(encoding.ids)} | more


def cases(plain):
    rng = random.Random(3)
    texts = TEXTS + nasty_texts(4, rng, NASTY)
    for settings in {}, {"prefix": True}, {"trim": True}:
        tokenizer = with_settings(plain, settings.get("prefix", False), settings.get("trim"), normalized=(True,))
        for text in texts:
            yield case(tokenizer, [text], **settings)
    for length, stride in (5, 2), (9, 0):
        tokenizer.enable_truncation(length, stride=stride)
        for text in texts:
            yield case(tokenizer, [text], trim=True, max_length=length, stride=stride)
    own = with_settings(plain, normalized=(False, True, True))
    own.save(str(HERE / "bpe" / "tokenizer.json"), pretty=False)
    for text in texts:
        yield case(own, [text], json=True)
        yield case(own, [text, texts[0]], json=True)


def main():
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(LEARNT)
        file.flush()
        plain = trained([file.name], 320)
    (HERE / "bpe").mkdir(exist_ok=True)
    plain.model.save(str(HERE / "bpe"))
    text = ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases(plain))
    (HERE / "bpe_cases.json").write_text(f"[\n{text}\n]\n")


if __name__ == "__main__":
    main()
