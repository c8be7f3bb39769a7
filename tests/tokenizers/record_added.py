#!/usr/bin/env python3
"""Writes added_cases.json for test_added_tokens.c: changes of tokenizer.json files that give them added tokens with all
kinds of flags and different post-processors, texts, and the results of the fast tokenizers in PyPI's `tokenizers`."""
import json
import random

from compare_added import FIRST, HERE, KINDS, LAST, random_text, random_tokenizer
from record_tokenizer import wanted

FILES = {"words": None, "byte level": "bpe/tokenizer.json", "pieces": "unigram/tokenizer.json"}
PER_KIND, TEXTS = 4, 7


def changes(kind, said):
    """Returns what must be set in the recorded tokenizer.json to get this one."""
    keys = ["added_tokens", "post_processor", "pre_tokenizer", "normalizer"]
    if kind == "words":
        return said
    if said["normalizer"]:  # the recorded one has the same map
        keys.remove("normalizer")
    return {key: said[key] for key in keys}


def case(tokenizer, texts):
    encoding = tokenizer.encode(*texts)
    return {"texts": texts, "want": wanted(encoding, texts), "decoded": tokenizer.decode(encoding.ids)}


def main():
    rng, recorded = random.Random(5), []
    for kind in KINDS:
        for _ in range(PER_KIND):
            tokenizer = random_tokenizer(rng, kind)
            texts = [random_text(rng) for _ in range(TEXTS)]
            cases = [case(tokenizer, [t]) for t in texts] + [case(tokenizer, texts[:2])]
            recorded.append({"file": FILES[kind], "tokens": [FIRST, LAST] if FILES[kind] else [],
                             "set": changes(kind, json.loads(tokenizer.to_str())), "cases": cases})
    text = ",\n".join(json.dumps(r, separators=(",", ":")) for r in recorded)
    (HERE / "added_cases.json").write_text(f"[\n{text}\n]\n")


if __name__ == "__main__":
    main()
