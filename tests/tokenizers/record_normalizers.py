#!/usr/bin/env python3
"""Writes normal/ and normal_cases.json for test_normalizers.c: small tokenizers whose normalizers are Unicode's forms
and ALBERT's steps, texts, and the results of the fast tokenizer in PyPI's `tokenizers`."""
import json
import pathlib
import random

from tokenizers import Tokenizer, normalizers

from compare_normalizers import ACCENTS, BASES, MARKS, albert_steps, byte_level, pieces, random_text
from record_tokenizer import wanted

HERE = pathlib.Path(__file__).resolve().parent
TEXTS = ["", "e\u0301t\u00e9", "\u212b \u00c5 A\u030a", "\u1ea4 A\u0302\u0301 A\u0301\u0302", "a\u0315\u0300\u05ae\u0323b", "\u1112\u1161\u11ab\ud55c", "\u0958 \u0915\u093c",
         "\u0344 \u0308\u0301", "\ufb01x \u2460 \u00bd", "``quoted'' \u00c9T\u00c9", "\u0130\u01c5\u1e9e", "New  York|||URL|||", "x\u0903\u20dd\ufe0f", "\U00011935\U00011930",
         "\u0301 begins", "\u00a8 \u00b4\u00a0x"]


def main():
    folder = HERE / "normal"
    folder.mkdir(exist_ok=True)
    lines = [line for line in (HERE.parents[1] / "LICENSE").read_text().split("\n") if line.strip()] + [ACCENTS, BASES, MARKS]
    charsmap = Tokenizer.from_file(str(HERE / "unigram" / "tokenizer.json")).normalizer
    n = normalizers
    tokenizers = {"nfc.json": byte_level(lines, "NFC", 300), "nfkd.json": byte_level(lines, "NFKD", 300),
                  "albert.json": pieces(lines, albert_steps(charsmap), True, 300),
                  "steps.json": pieces(lines, n.Sequence([n.Lowercase(), n.NFD(), n.StripAccents(), n.NFKC()]), True, 300)}
    rng = random.Random(5)
    texts = TEXTS + [random_text(rng, lines).replace("\0", "") for _ in range(14)]
    cases = []
    for name, tokenizer in tokenizers.items():
        tokenizer.save(str(folder / name), pretty=False)
        tokenizer = Tokenizer.from_file(str(folder / name))
        for pair in [[text] for text in texts] + [texts[1:3], texts[8:10]]:
            encoding = tokenizer.encode(*pair)
            cases.append({"model": name, "texts": pair, "want": wanted(encoding, pair), "decoded": tokenizer.decode(encoding.ids)})
    text = ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases)
    (HERE / "normal_cases.json").write_text(f"[\n{text}\n]\n")


if __name__ == "__main__":
    main()
