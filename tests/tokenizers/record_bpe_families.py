#!/usr/bin/env python3
"""Writes bpe_family_cases.json for test_bpe_families.c: the tokenizer of bpe/ with the parts of other families, texts, and
the results of the fast tokenizer in PyPI's `tokenizers`."""
import json
import pathlib
import random

from tokenizers import Tokenizer

from compare_bpe import NASTY
from compare_bpe_families import FAMILIES, of_family
from compare_tokenizers import nasty_texts
from record_tokenizer import wanted

HERE = pathlib.Path(__file__).resolve().parent
TEXTS = ["time flies like an arrow", "", " ", "  a  b ", "don't I'LL we'VE they'\u017f '\u017f", "a\r\n\r\n b \n\n\tc  \n", "12345 6 78",
         "x1y22 z333 4444", " 7", "  8 9", "!?\n\n#a .b ...\r\nc", "e\u0301 a\u0323\u0307 \u212b \u1100\u1161\u11a8 \u0958", "\u00bd\u00b2\u2160 \u0661\u0662",
         "<|endoftext|>the fruit flies<|end|> \u4e2d\u6587 \U0001f600", "\ttab", "a\u3000b\u2003 c", "the banana don"]


def main():
    plain, cases = Tokenizer.from_file(str(HERE / "bpe" / "tokenizer.json")), []
    for name, parts in FAMILIES.items():
        tokenizer = of_family(plain, *parts)
        whole = json.loads(tokenizer.to_str())
        for text in TEXTS + nasty_texts(3, random.Random(name), NASTY):
            encoding = tokenizer.encode(text)
            cases.append({"family": name, "normalizer": whole["normalizer"], "pre_tokenizer": whole["pre_tokenizer"],
                          "ignore_merges": whole["model"]["ignore_merges"], "texts": [text],
                          "want": wanted(encoding, [text]), "decoded": tokenizer.decode(encoding.ids)})
    lines = ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases)
    (HERE / "bpe_family_cases.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
