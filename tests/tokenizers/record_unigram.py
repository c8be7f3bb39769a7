#!/usr/bin/env python3
"""Writes unigram/ and unigram_cases.json for test_unigram.c: a small spiece.model trained on this repository's
licence and Python files, its tokenizer.json, texts, and the results of SentencePiece and of the fast tokenizer in
PyPI's `tokenizers`."""
import json
import pathlib
import random

import sentencepiece
from tokenizers import Regex, normalizers, pre_tokenizers

from compare_tokenizers import nasty_texts
from compare_unigram import NASTY, converted, train
from record_tokenizer import wanted

HERE = pathlib.Path(__file__).resolve().parent
FILES = [HERE.parents[1] / "LICENSE", *sorted(HERE.glob("record_*.py"))]
# A few normalization rules are enough. The complete map would make up most of such a small model.
RULES = {"\u2122": "TM", "\ufb01": "fi", "\uff41": "a", "\uff1c": "<", "\uff1e": ">", "\uff0f": "/", "\u3000": " ", "\t": " ",
         "\r": " ", "\n": " ", "\u200b": "", "\x01": "", "e\u0301": "\u00e9", "\u212b": "\u00c5",
         "\u32c0": "1\u6708", "\ufdfa": "\u0635\u0644\u0649 \u0627\u0644\u0644\u0647"}
TEXTS = ["time flies like an arrow", "", " ", "  a  b ", "the software <extra_id_0> is </s>licensed <unk>", "\u2122\x01g\u200b\u200b x",
         "\uff41\u0301 e\u0301 \u00e9\u0301 \u212b", "\u2581a\u2581\u2581b", "\uff1c\uff0fs\uff1e", "\u4e2d\u6587\u32c0\ufdfa", "x" * 40,
         "\U0001f468\u200d\U0001f469 \u0915\u094d\u0924 \uac00\u11a8", "\u3000\tthe\u00a0end\u3000"]


def fast_case(name, tokenizer, texts, **more):
    encoding = tokenizer.encode(*texts)
    return {"model": name, "texts": texts, "max_length": 0, "stride": 0, "want": wanted(encoding, texts),
            "decoded": tokenizer.decode(encoding.ids)} | more


def own_case(processor, text):
    pieces = processor.encode(text, return_type="proto").pieces
    return {"model": "spiece.model", "texts": [text], "ids": [p.id for p in pieces], "bytes": [[p.begin, p.end] for p in pieces]}


def cases(variants, processor):
    texts = TEXTS + [t.replace("\0", "") for t in nasty_texts(10, random.Random(3), NASTY)]
    for name, tokenizer in variants.items():
        for text in texts:
            yield fast_case(name, tokenizer, [text])
            yield fast_case(name, tokenizer, [text, texts[0]])
        tokenizer.enable_truncation(5, stride=1)
        for text in texts[:8]:
            yield fast_case(name, tokenizer, [text], max_length=5, stride=1)
        tokenizer.no_truncation()
    for text in texts:
        yield own_case(processor, text)


def main():
    folder = HERE / "unigram"
    folder.mkdir(exist_ok=True)
    rules = folder / "rules.tsv"
    rules.write_text("".join(" ".join(f"{ord(c):X}" for c in a) + "\t" + " ".join(f"{ord(c):X}" for c in b) + "\n"
                             for a, b in RULES.items()))
    model, proto = train(FILES, folder, "spiece", 700, normalization_rule_tsv=str(rules), byte_fallback=True)
    for left in rules, folder / "spiece.vocab":
        left.unlink()
    # Removes the paths of the training files.
    del proto.trainer_spec.input[:]
    proto.trainer_spec.model_prefix = ""
    proto.normalizer_spec.normalization_rule_tsv = ""
    pathlib.Path(model).write_bytes(proto.SerializeToString())
    charsmap = normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap)
    strip = normalizers.Sequence([charsmap, normalizers.Strip(left=False, right=True), normalizers.Replace(Regex(" {2,}"), "\u2581")])
    variants = {"tokenizer.json": converted(proto, extra_ids=3),
             "bytes.json": converted(proto, extra_ids=3, byte_fallback=True, normalizer=strip, strip=True,
                                     pre_tokenizer=pre_tokenizers.Metaspace(prepend_scheme="first"))}
    for name, tokenizer in variants.items():
        tokenizer.save(str(folder / name), pretty=False)
    processor = sentencepiece.SentencePieceProcessor(model_proto=proto.SerializeToString())
    text = ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases(variants, processor))
    (HERE / "unigram_cases.json").write_text(f"[\n{text}\n]\n")


if __name__ == "__main__":
    main()
